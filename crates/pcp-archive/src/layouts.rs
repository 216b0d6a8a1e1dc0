//! The layouts that the records of an archive have: a record that has one of those known need only be compared with it.
//!
//! A logger writes the same metrics again and again, or takes turns with some groups of them. So a few layouts are kept. One is
//! learned when a record is as long as one of the last that had none, as it costs as much as taking a record apart, which
//! would be wasted on records that all differ. Where layouts do not come back, as processes come and go, fewer and fewer are learned.

use pcp_model::Pmid;
use pcp_pdu::{Layout, LayoutId, Scan, Sets, SetsError};

/// Layouts kept.
const KEPT: usize = 8;
/// Bytes of the records that they were learned from: a layout takes some three times as much memory.
const KEPT_BYTES: usize = 1 << 20;
/// Lengths of records without a known layout that are remembered.
const UNKNOWN: usize = 8;
/// A layout that none of so many records had goes if there is no room for another.
const UNUSED: u64 = 64;
/// Most records that pass until one is learned again.
const PAUSE: u64 = 64;

/// Layouts met before.
#[derive(Default)]
pub(super) struct Layouts {
    known: Vec<Known>,
    /// The one that was right last.
    last: usize,
    /// Whether the record that was looked at last had it, of those whose sets were asked for.
    is_last: bool,
    /// How many records were looked at.
    records: u64,
    /// Of a record whose layout is not known.
    other: Layout,
    /// Lengths of the last records without a known layout, and where the next one goes.
    unknown: [usize; UNKNOWN],
    next_unknown: usize,
    /// How many records pass until one is learned again: as long as layouts do not come back, more and more.
    pause: u64,
    /// Which record is the next that can be learned.
    next: u64,
}

/// A layout, and the number of the last record that had it.
#[derive(Default)]
struct Known {
    layout: Layout,
    used: u64,
    /// Whether there was one but that from which it was learned.
    is_back: bool,
}

impl Layouts {
    /// The sets of a record, checked. `is_again`: it is the one that was looked at last, and is the same still.
    #[inline]
    pub(crate) fn sets<'a>(
        &'a mut self,
        data: &'a [u8],
        start: usize,
        numpmid: i32,
        bias: u32,
        is_again: bool,
    ) -> Result<Sets<'a>, SetsError> {
        if is_again && self.is_last {
            return Ok(self.known[self.last].layout.sets(data));
        }
        self.is_last = true;
        if let Some(at) = self.find(data, numpmid) {
            return Ok(self.known[at].layout.sets(data));
        }
        self.is_last = self.is_worth_learning(data.len(), numpmid);
        let is_read = self.other.read(data, start, numpmid, bias);
        self.is_last &= is_read.is_ok();
        is_read?;
        Ok(if self.is_last { self.learn(data).sets(data) } else { self.other.sets(data) })
    }

    /// The same, to be run through once. `each` is told of each metric, unless the layout is that of `before`.
    #[inline]
    pub(crate) fn scan<'a>(
        &'a mut self,
        data: &'a [u8],
        start: usize,
        (numpmid, bias): (i32, u32),
        before: Option<LayoutId>,
        mut each: impl FnMut(Pmid),
    ) -> Result<Scan<'a>, SetsError> {
        self.is_last = false;
        let sets = if let Some(at) = self.find(data, numpmid) {
            self.known[at].layout.sets(data)
        } else if self.is_worth_learning(data.len(), numpmid) {
            self.other.read(data, start, numpmid, bias)?;
            self.learn(data).sets(data)
        } else {
            return Scan::read(data, start, numpmid, bias, each);
        };
        if sets.layout() != before {
            sets.iter().for_each(|set| each(set.pmid));
        }
        Ok(sets.into())
    }

    /// The layout of a record. That of the last one is the likeliest, then the one that came after it.
    fn find(&mut self, data: &[u8], numpmid: i32) -> Option<usize> {
        self.records += 1;
        let (before, from_last) = self.known.split_at_checked(self.last)?;
        let turn = from_last.iter().chain(before).enumerate();
        let (distance, _) = turn.into_iter().find(|(_, known)| known.layout.is_of(data, numpmid))?;
        self.last = (self.last + distance) % self.known.len();
        let known = &mut self.known[self.last];
        (known.used, known.is_back) = (self.records, true);
        (self.pause, self.next) = (0, 0);
        Some(self.last)
    }

    /// Whether one of the last records without a known layout was of this length, and there is room for a layout of that. Remembers it otherwise.
    fn is_worth_learning(&mut self, len: usize, numpmid: i32) -> bool {
        if len > KEPT_BYTES || numpmid < 1 || self.records < self.next {
            return false;
        }
        if !self.unknown.contains(&len) {
            self.unknown[self.next_unknown] = len;
            self.next_unknown = (self.next_unknown + 1) % UNKNOWN;
            return false;
        }
        if !self.has_room(len) {
            let records = self.records;
            self.known.retain(|known| records - known.used <= UNUSED);
            self.last = 0;
        }
        self.has_room(len)
    }

    fn has_room(&self, len: usize) -> bool {
        len + self.known.iter().map(|known| known.layout.learned()).sum::<usize>() <= KEPT_BYTES
    }

    /// Learns the layout of the record that was read as another one, and keeps it.
    fn learn(&mut self, data: &[u8]) -> &Layout {
        self.other.learn(data);
        self.last = if self.known.len() < KEPT {
            self.known.push(Known::default());
            self.known.len() - 1
        } else {
            let by_use = self.known.iter().enumerate().min_by_key(|(_, known)| known.used);
            by_use.map_or(0, |(at, _)| at)
        };
        let known = &mut self.known[self.last];
        if known.layout.learned() > 0 && !known.is_back {
            self.pause = (2 * self.pause).clamp(1, PAUSE);
        }
        self.next = self.records + self.pause;
        (known.used, known.is_back) = (self.records, false);
        // The one that goes leaves its memory.
        std::mem::swap(&mut known.layout, &mut self.other);
        &known.layout
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcp_model::Value;
    use pcp_pdu::SetsWriter;

    /// Sets of so many metrics from a number on.
    fn data(from: u32, metrics: u32, value: u32) -> Vec<u8> {
        let mut sets = SetsWriter::with_lead(0, usize::MAX);
        for pmid in from..from + metrics {
            sets.begin_set(Pmid(pmid)).unwrap();
            sets.value(-1, &Value::U32(value)).unwrap();
            sets.end_set().unwrap();
        }
        sets.parts().concat()
    }

    /// The layout of a record, and how many metrics were told of.
    fn scanned(
        layouts: &mut Layouts,
        data: &[u8],
        metrics: u32,
        before: Option<LayoutId>,
    ) -> (Option<LayoutId>, usize) {
        let mut told = 0;
        let scan = layouts.scan(data, 0, (metrics as i32, 0), before, |_| told += 1).unwrap();
        assert_eq!(scan.sets().count(), metrics as usize);
        (scan.known().and_then(|sets| sets.layout()), told)
    }

    #[test]
    fn metrics_are_told_of_when_they_may_be_others() {
        let mut layouts = Layouts::default();
        assert_eq!(scanned(&mut layouts, &data(1, 3, 7), 3, None), (None, 3), "it may be the only one");
        let (first, told) = scanned(&mut layouts, &data(1, 3, 8), 3, None);
        assert_eq!((first.is_some(), told), (true, 3));
        assert_eq!(scanned(&mut layouts, &data(1, 3, 9), 3, first), (first, 0));
        let (second, told) = scanned(&mut layouts, &data(2, 3, 9), 3, first);
        assert!(second.is_some() && second != first && told == 3);
        assert_eq!(scanned(&mut layouts, &data(1, 3, 9), 3, second), (first, 3));
        let sets = data(1, 3, 1);
        assert_eq!(layouts.sets(&sets, 0, 3, 0, false).unwrap().layout(), first, "the same ones");
    }

    #[test]
    fn where_all_records_differ_few_are_learned_and_then_again_all() {
        let mut layouts = Layouts::default();
        let mut learned = |pmids: std::ops::Range<u32>| {
            let mut is_known = |from| scanned(&mut layouts, &data(from, 3, 1), 3, None).0.is_some();
            pmids.filter(|from| is_known(*from)).count()
        };
        assert_eq!(learned(0..9), 8, "the first length is new");
        let many = learned(9..1009);
        assert!((10..40).contains(&many), "{many}");
        // One that comes back is learned after a while, and then all are again.
        for _ in 0..PAUSE {
            learned(5000..5001);
        }
        assert_eq!(learned(5000..5001), 1);
        assert_eq!(learned(6000..6002), 2);
    }

    #[test]
    fn layouts_in_use_stay_and_others_make_room() {
        // Two thirds of all room each.
        const WIDE: u32 = (KEPT_BYTES / 30) as u32;
        let mut layouts = Layouts::default();
        let mut known = |from| scanned(&mut layouts, &data(from, WIDE, 1), WIDE, None).0;
        assert_eq!(known(1), None);
        let first = known(1);
        assert!(first.is_some());
        // The other one has to wait, as the first is in use.
        for _ in 0..UNUSED {
            assert_eq!((known(2), known(1)), (None, first));
        }
        for _ in 0..UNUSED {
            assert_eq!(known(2), None);
        }
        let second = known(2);
        assert!(second.is_some());
        assert_eq!((known(1), known(2)), (None, second));
        let huge = data(1, WIDE * 2, 1);
        for _ in 0..3 {
            assert_eq!(scanned(&mut layouts, &huge, WIDE * 2, None).0, None, "longer than all room");
        }
    }
}
