//! Where metrics come first from a time on: for who asks for many of them one by one and goes back to that time for each, as tools
//! do that show each metric once.
//!
//! What a search has passed is remembered from the second one on that begins at the same time, and of the first once it has passed
//! [`LONG`] records: the next one goes to its record at once, or on from where none has come further. So all of them together read
//! each record once, and not once for each metric.
//!
//! Cost: an entry for each metric of records whose layout is another one than that of the record before; [`MAX_METRICS`] at most. Who only
//! looks at one record pays nothing, who searches for long reads the first [`LONG`] records twice.

use rustc_hash::FxHashMap;

use super::reader::Place;
use super::record::Record;
use pcp_model::{Pmid, Timestamp};
use pcp_pdu::LayoutId;

/// Metrics that are remembered. Records that have more are searched as often as somebody asks.
const MAX_METRICS: usize = 1 << 16;
/// Records that a search passes until it is worth remembering what is in them.
const LONG: u32 = 16;

/// What searches from a time on came upon.
pub(super) struct First {
    /// From when on.
    origin: Timestamp,
    /// Up to where records were passed.
    upto: Place,
    /// In front of which record each metric is that is in one of these.
    seen: FxHashMap<Pmid, Place>,
    /// The layout of the last record.
    layout: Option<LayoutId>,
    /// Whether it is worth remembering.
    is_kept: bool,
    /// Records that were passed without being remembered.
    passed: u32,
}

impl First {
    /// Searches that begin at that time, which is there.
    pub(super) fn new(origin: Timestamp, start: Place) -> First {
        First { origin, upto: start, seen: FxHashMap::default(), layout: None, is_kept: false, passed: 0 }
    }

    /// When they begin.
    pub(super) fn origin(&self) -> Timestamp {
        self.origin
    }

    /// The same when another one begins: there may be more.
    pub(super) fn again(self) -> First {
        First { is_kept: true, ..self }
    }

    /// That a record was passed that the search does not end with. If this makes the search a long one, the place from which on it is to be
    /// done again, to remember what is there.
    pub(super) fn miss(&mut self) -> Option<Place> {
        if self.is_kept {
            return None;
        }
        self.passed += 1;
        self.is_kept = self.passed >= LONG;
        self.is_kept.then_some(self.upto)
    }

    /// Where the first record that has one of the metrics is to be looked for: it is the next one or further on.
    pub(super) fn before(&self, pmids: &[Pmid]) -> Place {
        let seen = pmids.iter().filter_map(|pmid| self.seen.get(pmid)).min();
        seen.copied().unwrap_or(self.upto)
    }

    /// Whether what is behind that place is to be remembered next.
    pub(super) fn is_next(&self, place: Place) -> bool {
        self.is_kept && place == self.upto
    }

    /// Remembers what is next, a record or a gap, and the place behind it. Whether the record counts is for each search to see.
    pub(super) fn pass(&mut self, record: Option<Record<'_>>, after: Place) {
        if let Some(record) = record {
            if self.seen.len() + record.metrics() > MAX_METRICS {
                return;
            }
            let layout = record.all().layout();
            if layout.is_none() || layout != self.layout {
                for set in record.sets() {
                    self.seen.entry(set.pmid).or_insert(self.upto);
                }
            }
            self.layout = layout;
        }
        self.upto = after;
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::{Archive, ArchiveWriter, LabelInfo, Replay, ReplayError, ReplayMode, WriteOptions};
    use pcp_model::{Desc, InDom, PM_IN_NULL, Pmid, Profile, Semantics, Timestamp, Units, Value, ValueType};
    use pcp_pdu::Fetched;

    const RECORDS: u32 = 80;
    /// Bytes of a record: all together are more than what of a compressed volume stays in memory.
    const LEN: usize = 250_000;

    #[test]
    fn a_compressed_volume_is_decoded_once_for_all_that_never_come() {
        let dir = tempfile::tempdir().expect("a directory");
        let base = dir.path().join("a");
        let label = LabelInfo { host: "host".into(), zone: "UTC".into(), ..LabelInfo::default() };
        let mut archive =
            ArchiveWriter::create(&base, label, WriteOptions::default()).expect("nothing is there");
        let pmid = |n| Pmid::new(60, 1, n);
        for n in 0..3 {
            let (value_type, semantics) = (ValueType::String, Semantics::Instant);
            let desc = Desc { pmid: pmid(n), value_type, indom: InDom::NULL, semantics, units: Units::NONE };
            archive.desc(&desc, &[format!("m{n}")]).expect("described once");
        }
        let mut values = Fetched::new();
        for sec in 0..RECORDS {
            values.clear();
            values.timestamp = Timestamp::new(1_700_000_000 + i64::from(sec), 0);
            values.begin_set(pmid(0));
            let text = sec.to_string().repeat(LEN).get(..LEN).unwrap_or_default().to_owned();
            values.push_value(PM_IN_NULL, &Value::String(text.into())).expect("a text");
            values.end_set();
            archive.result(&values).expect("room for it");
        }
        archive.flush().expect("room for it");
        let packed = Command::new("xz").args(["-q", "-0"]).arg(base.with_extension("0")).status();
        assert!(packed.expect("installed").success());

        let mut replay = Replay::new(Archive::open(base.to_str().expect("a path of ours")).expect("written"));
        let start = replay.origin();
        let mut read_for = |n| {
            replay.set_mode(ReplayMode::Forward, Some(start));
            let outcome = replay.fetch(&[pmid(n)], &Profile::default(), &mut values);
            assert!(matches!(outcome, Err(ReplayError::End)), "{outcome:?}");
            let volumes = &mut replay.archive_mut().parts[0].volumes;
            volumes.volume(0).expect("it is open").work()
        };
        let [first, second] = [read_for(1), read_for(2)];
        let len = u64::from(RECORDS) * LEN as u64;
        // Decoded, and then read; the first records twice.
        assert!((2 * len..2 * len + len / 2).contains(&first), "{first} of {len}");
        assert_eq!(first, second, "nothing more is read for another one");
    }
}
