//! Where the sets of some data are, and what lies where in them.
//!
//! The records of an archive follow one another with the same metrics and instances, nearly always; only the numbers differ.
//! So whoever took one record apart need not do so with the next: if both are the same in all the bytes that say what lies
//! where (identifiers, counts, instances, places, the headers of blocks), they have the same layout, and what was found to
//! be right in one is right in the other.
//!
//! Cost: to compare, one walk over the bytes and over the template; to learn, some steps for each set and value, once. Memory:
//! a bit more than twice the length of the data that was learned.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use super::check::{self, SetsError};
use super::scan::each_head;
use super::view::{Head, Sets};
use super::{BLOCK_HEADER, SET_HEADER, VALUE_LEN, WORD, offset_of};

/// Value sets that were found in some data and checked, so that they can be read there, and in data of the same layout.
#[derive(Debug, Default)]
pub struct Layout {
    heads: Vec<Head>,
    bias: u32,
    /// What tells the layout: ones where its bytes are, and these bytes with zeros in between, in words of this machine. Two
    /// lists, as compilers make vectors of loops over lists, and not over pairs.
    mask: Vec<u64>,
    fixed: Vec<u64>,
    /// Length of the data it was learned from.
    learned: usize,
    id: Option<LayoutId>,
}

/// Tells a layout that was learned from all others that this process learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutId(NonZeroU64);

impl LayoutId {
    fn next() -> Option<LayoutId> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        next_of(&LAST).map(LayoutId)
    }
}

/// A number that a counter has not given out before; `None` once there are no more.
pub(crate) fn next_of(last: &AtomicU64) -> Option<NonZeroU64> {
    NonZeroU64::new(last.fetch_add(1, Ordering::Relaxed).wrapping_add(1))
}

/// Bytes of a word of this machine.
const MACHINE_WORD: usize = size_of::<u64>();

impl Layout {
    /// Takes up the `numpmid` sets that begin at `start`, and forgets those of before. `data` is what blocks may lie in, `bias`
    /// by how many words their places are larger than offsets in it.
    ///
    /// Checks that sets and blocks are all there is in the data and lie within it, blocks not in front of the sets. Two
    /// values may share a block, and nobody looks into blocks: so archives are checked.
    ///
    /// # Errors
    /// What is wrong, and where; there are no sets then.
    pub fn read(&mut self, data: &[u8], start: usize, numpmid: i32, bias: u32) -> Result<(), SetsError> {
        self.forget();
        self.bias = bias;
        let heads = &mut self.heads;
        let read = each_head(data, start, numpmid, bias, |head| heads.push(head));
        if read.is_err() {
            heads.clear();
        }
        read.map(drop)
    }

    /// Forgets all.
    fn forget(&mut self) {
        self.heads.clear();
        self.mask.clear();
        self.fixed.clear();
        self.learned = 0;
        self.id = None;
    }

    /// Learns to tell other data of this layout, from the data whose sets were read last.
    pub fn learn(&mut self, data: &[u8]) {
        let Layout { heads, bias, mask, fixed, learned, id } = self;
        *id = LayoutId::next();
        let mut mask_bytes = vec![0; data.len().next_multiple_of(MACHINE_WORD)];
        let mut fixed_bytes = mask_bytes.clone();
        // Of what was checked, which is within the data.
        let mut fix = |from: usize, to: usize| {
            if let (Some(mask), Some(fixed), Some(data)) =
                (mask_bytes.get_mut(from..to), fixed_bytes.get_mut(from..to), data.get(from..to))
            {
                mask.fill(u8::MAX);
                fixed.copy_from_slice(data);
            }
        };
        for Head { set, .. } in heads {
            let header = SET_HEADER + if set.numval > 0 { WORD } else { 0 };
            fix(set.at - header, set.at);
            if !set.blocks {
                (set.at..set.end()).step_by(VALUE_LEN).for_each(|at| fix(at, at + WORD));
                continue;
            }
            fix(set.at, set.end());
            for pair in set.values(data, data, *bias).pairs {
                let block = offset_of(check::last_word(pair), *bias);
                fix(block, block + BLOCK_HEADER);
            }
        }
        for (words, bytes) in [(mask, &mask_bytes), (fixed, &fixed_bytes)] {
            words.clear();
            words.extend(bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)));
        }
        *learned = data.len();
    }

    /// Length of the data that was learned; none if nothing was.
    pub fn learned(&self) -> usize {
        self.learned
    }

    /// Whether the data, of which that many sets are said to be in the same place, have the layout that was learned.
    pub fn is_of(&self, data: &[u8], numpmid: i32) -> bool {
        // Without sets there is nothing to save, and of no data was anything learned.
        if data.len() != self.learned || self.heads.is_empty() {
            return false;
        }
        let (words, rest) = data.as_chunks();
        let mut last = [0; MACHINE_WORD];
        last[..rest.len()].copy_from_slice(rest);
        let parts = self.mask.split_at_checked(words.len()).zip(self.fixed.split_at_checked(words.len()));
        usize::try_from(numpmid) == Ok(self.heads.len())
            && parts.is_some_and(|((mask, last_mask), (fixed, last_fixed))| {
                are_same(words, mask, fixed) && are_same(std::slice::from_ref(&last), last_mask, last_fixed)
            })
    }

    /// The sets in the data that were read last, or are of the layout that was learned. Others make no sense, but no harm.
    #[inline]
    pub fn sets<'a>(&'a self, data: &'a [u8]) -> Sets<'a> {
        Sets { data, heads: &self.heads, bias: self.bias, layout: self.id }
    }
}

/// Whether data are the same as what is fixed in them.
///
/// Four tenths of a microsecond for a record of 13 kB with what every x86-64 has.
#[inline]
fn are_same(data: &[[u8; MACHINE_WORD]], mask: &[u64], fixed: &[u64]) -> bool {
    // Who differs does so early, mostly; within a chunk a way out would cost more than it saves.
    const AT_ONCE: usize = 128;
    data.chunks(AT_ONCE).zip(mask.chunks(AT_ONCE)).zip(fixed.chunks(AT_ONCE)).all(|((data, mask), fixed)| {
        let words = data.iter().zip(mask).zip(fixed);
        words.fold(0, |differs, ((data, mask), fixed)| differs | (u64::from_ne_bytes(*data) & mask ^ fixed))
            == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::testing::{Set, written};
    use crate::sets::{SetHead, SetRef};
    use crate::{Scan, SetsWriter, ValueRef};
    use pcp_model::{Pmid, Value};

    /// Two words in front, then sets of all kinds.
    fn data(number: u32, text: &'static str) -> Vec<u8> {
        let long = u64::from(number) << 40;
        let sets: [Set<'_>; 7] = [
            (1, Ok(&[(-1, Value::U32(number))])),
            (2, Ok(&[(7, Value::U64(long)), (9, Value::U64(long + 1)), (8, Value::U64(long + 2))])),
            (3, Ok(&[(0, Value::Float(number as f32)), (1, Value::Float(0.5))])),
            (4, Ok(&[])),
            (5, Ok(&[(-1, Value::Double(number.into()))])),
            (6, Ok(&[(0, Value::from(text)), (1, Value::from("abc"))])),
            (7, Err(pcp_model::PmError::VALUE)),
        ];
        written(8, 0, &sets)
    }

    fn values(layout: &Layout, data: &[u8]) -> Vec<String> {
        let mut all = Vec::new();
        for set in layout.sets(data).iter() {
            let Ok(values) = set.values else {
                all.push(format!("{set:?}"));
                continue;
            };
            let one_by_one: Vec<(i32, ValueRef<'_>)> =
                (0..values.len()).filter_map(|at| values.get(at)).collect();
            let mut next = Vec::new();
            for value in values.iter() {
                next.push(value);
            }
            assert_eq!(
                values.iter().fold(Vec::new(), |mut all, value| {
                    all.push(value);
                    all
                }),
                one_by_one
            );
            assert_eq!(next, one_by_one);
            assert!(values.insts().eq(one_by_one.iter().map(|(inst, _)| *inst)));
            all.push(format!("{}: {one_by_one:?}", set.pmid));
        }
        all
    }

    #[test]
    fn data_of_the_same_layout_need_not_be_taken_apart() {
        let (first, second) = (data(1, "red"), data(2, "tan"));
        let (mut learned, mut other) = (Layout::default(), Layout::default());
        learned.read(&first, 8, 7, 0).unwrap();
        assert!(!learned.is_of(&first, 7), "nothing was learned yet");
        learned.learn(&first);
        assert!(learned.is_of(&first, 7) && learned.is_of(&second, 7));
        assert!(!learned.is_of(&second, 6), "another number of sets");
        other.read(&second, 8, 7, 0).unwrap();
        assert_eq!(values(&learned, &second), values(&other, &second));
        assert_ne!(values(&learned, &first), values(&learned, &second));
        let longer = data(2, "longer");
        assert!(!learned.is_of(&longer, 7));
        learned.read(&longer, 8, 7, 0).unwrap();
        assert!(!learned.is_of(&first, 7), "what was learned is forgotten");
    }

    #[test]
    fn numbers_are_where_they_are_said_to_be() {
        use pcp_model::ValueType::{Double, Float, I32, U32, U64};
        let (first, second) = (data(1, "red"), data(0x1234, "tan"));
        let mut layout = Layout::default();
        layout.read(&first, 8, 7, 0).unwrap();
        layout.learn(&first);
        assert!(layout.is_of(&second, 7));
        let sets = layout.sets(&second);
        let four = |place: usize| u32::from_be_bytes(*sets.data()[place..].first_chunk().unwrap());
        let eight = |place: usize| u64::from_be_bytes(*sets.data()[place..].first_chunk().unwrap());
        let at = |set, value, value_type| sets.number_at(set, value, value_type);
        assert_eq!(at(0, 0, U32).map(four), Some(0x1234));
        assert_eq!(at(1, 2, U64).map(eight), Some((0x1234 << 40) + 2));
        assert_eq!(at(2, 1, Float).map(four), Some(0.5_f32.to_bits()));
        assert_eq!(at(4, 0, Double).map(eight), Some(f64::from(0x1234).to_bits()));
        // Of another type, no number, no value, an error, no set.
        for none in
            [at(0, 0, U64), at(1, 0, Double), at(5, 0, I32), at(3, 0, U32), at(6, 0, U32), at(7, 0, U32)]
        {
            assert_eq!(none, None);
        }
        assert_eq!(at(0, 1, U32), None, "there is one value");
    }

    #[test]
    fn all_values_of_a_set_are_written_as_one_by_one() {
        let data = data(7, "long enough");
        let mut layout = Layout::default();
        layout.read(&data, 8, 7, 0).unwrap();
        let found = layout.sets(&data);
        // As the layout says they lie, and as they lie in what was written.
        let mut written = SetsWriter::with_lead(0, usize::MAX);
        for again in [false, true] {
            let parts = written.parts().map(<[u8]>::to_vec);
            let (mut at, mut sets) = (0, Vec::new());
            while again && at < parts[0].len() {
                let head = SetHead::read(&parts[0], at).unwrap();
                at = head.end();
                sets.push(head.set(&parts[0], &parts[1], 0));
            }
            let sets = if again { sets } else { found.iter().collect() };
            let (mut at_once, mut each) = (written.clone(), SetsWriter::with_lead(0, usize::MAX));
            at_once.reset();
            for set in sets {
                let Ok(values) = set.values else { continue };
                [&mut at_once, &mut each].into_iter().for_each(|writer| writer.begin_set(set.pmid).unwrap());
                at_once.push_all(values).unwrap();
                values.iter().for_each(|(inst, value)| each.push(inst, value).unwrap());
                [&mut at_once, &mut each].into_iter().for_each(|writer| writer.end_set().unwrap());
            }
            assert_eq!(at_once.parts(), each.parts());
            assert_eq!(at_once.count(), 6);
            written = at_once;
        }
        let mut little = SetsWriter::with_lead(0, 40);
        little.begin_set(Pmid(2)).unwrap();
        assert!(little.push_all(found.get(1).unwrap().values.unwrap()).is_err(), "three do not fit");
    }

    #[test]
    fn no_sets_begin_behind_the_data() {
        let mut layout = Layout::default();
        assert_eq!(layout.read(&[0; 8], 8, 0, 0), Ok(()));
        assert_eq!(layout.read(&[0; 8], 9, 0, 0), Err(SetsError::sets(9, 0)));
    }

    #[test]
    fn whatever_says_what_lies_where_makes_another_layout() {
        let good = data(1, "red");
        let mut layout = Layout::default();
        layout.read(&good, 8, 7, 0).unwrap();
        layout.learn(&good);
        let before = values(&layout, &good);
        let mut same = 0;
        for at in 8..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x41;
            let is_of = layout.is_of(&bad, 7);
            same += usize::from(is_of);
            let mut other = Layout::default();
            let read = other.read(&bad, 8, 7, 0);
            // Run through, they are the same sets, or refused for the same.
            let mut pmids = Vec::new();
            let scan = Scan::read(&bad, 8, 7, 0, |pmid| pmids.push(pmid));
            assert_eq!(scan.map(drop), read, "byte {at}");
            if let Ok(scan) = scan {
                assert!(scan.known().is_none());
                let shown = |set: SetRef<'_>| {
                    let values = set.values.map(|values| format!("{:?}", values.iter().collect::<Vec<_>>()));
                    format!("{}: {values:?}", set.pmid)
                };
                assert!(scan.sets().map(shown).eq(other.sets(&bad).iter().map(shown)), "byte {at}");
                let known = Scan::from(other.sets(&bad));
                assert!(scan.sets().map(shown).eq(known.sets().map(shown)) && known.len() == 7);
                assert!(pmids.iter().copied().eq(scan.sets().map(|set| set.pmid)) && scan.len() == 7);
            }
            match read {
                Ok(()) if is_of => assert_eq!(values(&layout, &bad), values(&other, &bad), "byte {at}"),
                Ok(()) => {}
                Err(error) => assert!(!is_of, "byte {at}: {error:?}"),
            }
        }
        // In place a word; three of 64 and two of 32 bits, one of 64; two texts with their padding.
        assert_eq!(same, 4 + 24 + 8 + 8 + 8);
        assert_eq!(values(&layout, &good), before);
    }
}
