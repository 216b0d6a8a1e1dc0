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

    /// That a record was passed that has none of the metrics. If this makes the search a long one, the place from which on it is to be
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
