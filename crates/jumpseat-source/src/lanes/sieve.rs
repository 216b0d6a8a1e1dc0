//! What a lane does with a record just committed, where its source has settings: drop it or let it pass.
//!
//! **Cost:** what the filter costs; sampling by trace is a walk over the parameters and a hash of the id.

use std::sync::Arc;

use crate::delivery::Cause;
use crate::gate::{SampleBy, Settings};
use crate::registry::Registry;
use crate::tail::{SpanEnd, Told, TraceKey};
use crate::telling::Telling;
use pcp_event::batch::record_time;
use pcp_event::filter::{BoundFilter, FieldResolver};
use pcp_event::{EventFlags, packed};
use pcp_model::Pmid;

/// The settings of a source, ready for use on its records.
#[derive(Debug)]
pub(super) struct Sieve {
    settings: Arc<Settings>,
    filter: Option<BoundFilter>,
    /// Records since the last one that was kept, where they are counted.
    counted: u32,
    /// The parameters that carry a trace id, of any type.
    trace_ids: Vec<Pmid>,
    telling: Telling,
    /// The fields known when they were looked up.
    generation: Option<u64>,
}

impl Sieve {
    /// A sieve, unless everything passes.
    pub(super) fn new(settings: &Arc<Settings>, registry: &Registry) -> Option<Box<Sieve>> {
        let filter = settings.filter.filter();
        if settings.enabled && filter.is_none() && settings.sample <= 1 {
            return None;
        }
        Some(Box::new(Sieve {
            filter: filter.map(|filter| filter.bind(registry)),
            settings: Arc::clone(settings),
            counted: 0,
            trace_ids: Vec::new(),
            telling: Telling::new(registry.domain()),
            generation: None,
        }))
    }

    /// Why a packed record is to be dropped; `None` lets it pass.
    pub(super) fn drops(&mut self, record: &[u8], registry: &Registry) -> Option<Cause> {
        if !self.settings.enabled {
            return Some(Cause::Disabled);
        }
        if let Some(filter) = &mut self.filter {
            // A field that the filter speaks of may be new since.
            filter.rebind(registry);
            if !filter.matches(record) {
                return Some(Cause::Filtered);
            }
        }
        let samples = self.settings.sample > 1 && !self.settings.is_by_tail();
        (samples && !self.in_sample(record, registry)).then_some(Cause::Sampled)
    }

    /// What a record tells of its trace, if it is of one. `is_suspect`: its time cannot be right.
    pub(super) fn told(&mut self, record: &[u8], is_suspect: bool, registry: &Registry) -> Option<Told> {
        self.look_up(registry);
        let (mut trace, mut failed) = (None, false);
        for param in packed::params(record) {
            failed |= self.telling.is_failure(param);
            if trace.is_none() && self.trace_ids.contains(&param.pmid) {
                trace = Some(TraceKey(spread(param.bytes)));
            }
        }
        let flags = packed::flags(record);
        let is_end = flags.intersects(EventFlags::START.union(EventFlags::END));
        let span = is_end.then(|| SpanEnd {
            is_start: flags.contains(EventFlags::START),
            id: span_id(record).map_or(0, |id| spread(id) as u32 | 1),
            has_parent: flags.contains(EventFlags::PARENT),
            nanos: (!is_suspect)
                .then(|| record_time(record))
                .and_then(|time| time.sec.checked_mul(1_000_000_000)?.checked_add(i64::from(time.nsec))),
        });
        trace.map(|key| Told { key, failed, span })
    }

    fn in_sample(&mut self, record: &[u8], registry: &Registry) -> bool {
        let of = self.settings.sample;
        if self.settings.sample_by == SampleBy::Trace
            && let Some(hash) = self.trace_hash(record, registry)
        {
            // No state: all records of a trace, on whichever agent, come to the same result.
            return hash.is_multiple_of(u64::from(of));
        }
        // The first is kept, so that a source with few records is not silent.
        let first = self.counted == 0;
        self.counted = (self.counted + 1) % of;
        first
    }

    /// The hash of the record's trace id, else of its span id.
    fn trace_hash(&mut self, record: &[u8], registry: &Registry) -> Option<u64> {
        self.look_up(registry);
        let by_trace = packed::params(record).find(|param| self.trace_ids.contains(&param.pmid));
        by_trace.map(|id| id.bytes).or_else(|| span_id(record)).map(spread)
    }

    /// Looks the fields up that tell of traces, if fields have come since.
    fn look_up(&mut self, registry: &Registry) {
        let generation = registry.generation();
        if self.generation != Some(generation) {
            self.generation = Some(generation);
            self.trace_ids.clear();
            let trace_ids = &mut self.trace_ids;
            registry.resolve("trace_id", &mut |pmid| trace_ids.push(pmid));
            self.telling.look_up(registry);
        }
    }
}

/// The id of a record's span, which is the first parameter.
fn span_id(record: &[u8]) -> Option<&[u8]> {
    let id = packed::flags(record).contains(EventFlags::ID).then(|| packed::params(record).next());
    id.flatten().map(|id| id.bytes)
}

/// The same number for the same bytes, in every process and release, so that agents agree on which traces to
/// keep: FNV-1a, and the finish of SplitMix64 to have the low bits depend on all.
fn spread(bytes: &[u8]) -> u64 {
    let fnv = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (fnv ^ (fnv >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_spread_evenly() {
        for of in [2, 3, 10] {
            let kept = (0..30_000u64).filter(|n| spread(&n.to_be_bytes()).is_multiple_of(of)).count() as u64;
            let expected = 30_000 / of;
            assert!(kept.abs_diff(expected) < expected / 10, "{kept} of 30000 at 1 in {of}");
        }
    }
}
