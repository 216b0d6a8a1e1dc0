//! Which names are in use, as threads tell the registry, and what has become of others.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::fields::FIELD_CLUSTER;
use super::{Registry, recycle};
use pcp_model::{Inst, Pmid};

impl Registry {
    /// Changes when threads have to ask again for what they remember: when names have given their places, and once in a
    /// quarter of the time after which they may, so that it is known which are in use.
    #[inline]
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// How long an epoch lasts at most.
    pub(crate) fn period(&self) -> Duration {
        recycle::period(**self.recycle_after.load())
    }

    /// Begins another epoch if it is time. Threads do this once a turn.
    pub(crate) fn tick(&self) {
        let elapsed = self.started.elapsed();
        #[cfg(test)]
        let elapsed = elapsed + Duration::from_secs(self.ahead.load(Ordering::Relaxed));
        let period = (elapsed.as_nanos() / self.period().as_nanos().max(1)) as u64;
        if self.period.swap(period, Ordering::Relaxed) != period {
            self.epoch.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Another time after which names that nobody uses give their places; zero: never.
    pub fn set_recycle_after(&self, after: Duration) {
        self.recycle_after.store(Arc::new(after));
        self.sources.set_after(after);
        self.types.set_after(after);
        self.spans.set_after(after);
        self.fields.set_after(after);
    }

    /// Puts the clock ahead.
    #[cfg(test)]
    pub(crate) fn advance(&self, by: Duration) {
        self.sources.advance(by);
        self.types.advance(by);
        self.spans.advance(by);
        self.fields.advance(by);
        self.ahead.fetch_add(by.as_secs(), Ordering::Relaxed);
    }

    /// How many names have given their places to newcomers: sources, event types, spans, fields.
    pub fn recycled(&self) -> [u64; 4] {
        [self.sources.recycled(), self.types.recycled(), self.spans.recycled(), self.fields.recycled()]
    }

    /// How many records on disk went with sources that have given their places.
    pub fn records_gone(&self) -> u64 {
        self.records_gone.load(Ordering::Relaxed)
    }

    /// Notes that a source is in use, if it still has its place.
    pub(crate) fn note_source(&self, id: Inst) -> bool {
        self.sources.note(id)
    }

    /// Notes that a field is in use.
    pub(crate) fn note_field(&self, field: Pmid) {
        let id = (i32::from(field.cluster()) - i32::from(FIELD_CLUSTER)) * 1024 + i32::from(field.item());
        self.fields.note(id);
    }

    /// Whether a source still has its place.
    pub(crate) fn has_source(&self, id: Inst) -> bool {
        self.sources.has(id)
    }

    /// The same of an event type.
    pub(crate) fn note_event_type(&self, id: Inst) -> bool {
        self.types.note(id)
    }
}
