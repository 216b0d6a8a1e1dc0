//! One record on its way into a lane's batch, with the look-ups that its fields take.

use super::{InternedField, LaneId, Lanes, fold};
use crate::delivery::Tallies;
use crate::registry::{FieldCache, FieldRef, WellKnown};
use pcp_event::batch::{RecordError, RecordWriter};
use pcp_event::{EventFlags, Param};
use pcp_model::Timestamp;

/// A record under construction. Dropped without [`LaneRecord::commit`], it leaves no trace.
#[must_use = "a record that is not committed is rolled back"]
pub struct LaneRecord<'a> {
    record: RecordWriter<'a>,
    tallies: &'a mut Tallies,
    fields: &'a mut FieldCache,
    folded: &'a mut Vec<u8>,
    domain: u16,
    folds: u64,
}

impl Lanes {
    /// Begins a record in a lane's batch. With ID among the flags the first parameter is the span id, with
    /// PARENT the second is its parent's. Call [`Lanes::committed`] once it is committed.
    #[inline]
    pub fn record(&mut self, id: LaneId, time: Timestamp, flags: EventFlags) -> LaneRecord<'_> {
        let domain = self.registry.domain();
        let lane = &mut self.lanes[id.0 as usize];
        LaneRecord {
            record: lane.batch.record(time, flags),
            tallies: &mut lane.tallies,
            fields: &mut self.fields,
            folded: &mut self.folded,
            domain,
            folds: 0,
        }
    }
}

impl LaneRecord<'_> {
    /// Adds one of the fields that every agent has.
    #[inline]
    pub fn known(&mut self, field: WellKnown, value: Param<'_>) {
        self.record.param(field.pmid(self.domain), value);
    }

    /// Adds a field by its name; `name=value` where it has no metric of its own.
    #[inline]
    pub fn field(&mut self, name: &[u8], value: Param<'_>) {
        match self.fields.field(name, value.value_type()) {
            FieldRef::Own(pmid) => self.record.param(pmid, value),
            FieldRef::Folded => self.fold(name, &value),
        }
    }

    /// Adds a field that was looked up before, with a value of its type.
    #[inline]
    pub fn interned(&mut self, field: &InternedField, value: Param<'_>) {
        match &field.folded {
            None => self.record.param(field.pmid, value),
            Some(name) => self.fold(name, &value),
        }
    }

    /// Makes it part of the batch.
    ///
    /// # Errors
    /// It is too large.
    #[inline]
    pub fn commit(self) -> Result<(), RecordError> {
        self.record.commit()?;
        self.tallies.folded += self.folds;
        Ok(())
    }

    fn fold(&mut self, name: &[u8], value: &Param<'_>) {
        self.folds += 1;
        fold(self.folded, name, value);
        self.record.param(WellKnown::Other.pmid(self.domain), Param::String(self.folded));
    }
}
