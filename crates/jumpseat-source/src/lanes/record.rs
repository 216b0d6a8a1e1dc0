//! One record on its way into a lane's batch, with the look-ups that its fields take. The only way in.

use std::ops::Range;

use super::account::{BATCH_BYTES, LaneAccount, LaneId};
use super::fields::{FieldNames, InternedField};
use super::marks::Numbered;
use super::outbox::Outbox;
use super::policy::{Policy, Verdict};
use super::types::TypeSlot;
use crate::delivery::Arrival;
use crate::registry::{FieldMemo, WellKnown};
use pcp_event::batch::{Batch, RecordError, RecordWriter};
use pcp_event::{EventFlags, Param};
use pcp_model::{Pmid, Timestamp};

/// What has to be known of a record before its first parameter.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    /// How it got here: of many records, and so lent, as to copy it with each would take longer than to look.
    pub arrival: &'a Arrival,
    /// Where it goes.
    pub lane: LaneId,
    /// Where it is counted, from [`super::Lanes::type_slot`] of the same lane.
    pub event_type: TypeSlot,
    /// When it happened, in real time.
    pub time: Timestamp,
    /// POINT, START or END. With ID the first parameter is the span id, with PARENT the second is its parent's.
    pub flags: EventFlags,
}

/// A field by its name.
pub(crate) struct Named<'a> {
    pub name: &'a [u8],
    pub value: Param<'a>,
    /// What is remembered with the name, where it is kept.
    pub memo: Option<&'a FieldMemo>,
}

/// A record under construction. Dropped without [`Record::commit`], it leaves no trace.
#[must_use = "a record that is not committed is rolled back"]
pub struct Record<'a> {
    at: At<'a>,
    numbered: Option<Numbered>,
    writer: RecordWriter<'a>,
    account: &'a mut LaneAccount,
    policy: &'a mut Policy,
    names: &'a mut FieldNames,
    outbox: &'a mut Outbox,
    folded: u64,
    is_truncated: bool,
}

impl<'a> Record<'a> {
    #[inline(always)]
    pub(super) fn new(
        (at, numbered): (At<'a>, Option<Numbered>),
        batch: &'a mut Batch,
        account: &'a mut LaneAccount,
        policy: &'a mut Policy,
        names: &'a mut FieldNames,
        outbox: &'a mut Outbox,
    ) -> Record<'a> {
        let writer = batch.record(at.time, at.flags);
        Record { at, numbered, writer, account, policy, names, outbox, folded: 0, is_truncated: false }
    }

    /// Adds one of the fields that every agent has.
    #[inline(always)]
    pub fn known(&mut self, field: WellKnown, value: Param<'_>) {
        self.writer.param(field.pmid(self.names.domain()), value);
    }

    /// Adds a field by its name; `name=value` where it has no metric of its own.
    #[inline]
    pub fn field(&mut self, name: &[u8], value: Param<'_>) {
        match self.names.own(name, value.value_type()) {
            Some(pmid) => self.writer.param(pmid, value),
            None => self.fold(name, &value),
        }
    }

    /// Adds fields by their names, those with these numbers, of which `get` tells each. Records mostly have the same fields at the
    /// same places, so that is where they are looked for first. Those that are new wait for the disk once.
    #[inline]
    pub(crate) fn fields<'v>(&mut self, numbers: Range<usize>, get: impl Fn(usize) -> Named<'v>) {
        let mut are_prepared = false;
        for number in numbers.clone() {
            let Named { name, value, memo } = get(number);
            let known = match memo {
                Some(memo) => self.names.kept(memo, name, value.value_type()),
                None => self.names.known_at(number, name, value.value_type()),
            };
            match known {
                Some(pmid) => self.writer.param(pmid, value),
                None => {
                    if !std::mem::replace(&mut are_prepared, true) {
                        self.prepare(number..numbers.end, &get);
                    }
                    self.field(name, value);
                }
            }
        }
    }

    #[cold]
    fn prepare<'v>(&mut self, numbers: Range<usize>, get: impl Fn(usize) -> Named<'v>) {
        if numbers.len() > 1 {
            self.names.prepare(numbers.map(get).map(|Named { name, value, .. }| (name, value.value_type())));
        }
    }

    /// Adds a field that was looked up before, with a value of its type.
    #[inline(always)] // where the type is known, nothing is left of what to do for others
    pub fn interned(&mut self, field: &InternedField, value: Param<'_>) {
        match field.folded_name() {
            None => self.writer.param(self.names.interned(field), value),
            Some(name) => self.fold(name, &value),
        }
    }

    /// Adds so many parameters that are packed already, with metrics that [`super::Lanes::own`] has told in this epoch. Gives them where
    /// they are now, to change values of a fixed length; nothing of a record that is too large.
    #[inline]
    pub fn packed(&mut self, count: i32, params: &[u8]) -> &mut [u8] {
        self.writer.packed(count, params)
    }

    /// Adds a parameter with a metric that [`super::Lanes::own`] has told in this epoch.
    #[inline(always)] // where the type is known, nothing is left of what to do for others
    pub fn own(&mut self, pmid: Pmid, value: Param<'_>) {
        self.writer.param(pmid, value);
    }

    /// Notes that something was cut off the event.
    #[inline]
    pub fn truncated(&mut self) {
        self.is_truncated = true;
    }

    /// Makes it part of the batch and counts it, has the settings of its source decide about it, and hands the batch
    /// over if it is full. Nothing more can be done with it, which stays where it is: to move it would take longer than all else.
    ///
    /// # Errors
    /// It is too large; then it leaves no trace.
    #[inline]
    pub fn commit(&mut self) -> Result<(), RecordError> {
        let Record { at, numbered, writer, account, policy, names, outbox, folded, is_truncated } = self;
        // From here on the record is in the batch; counting comes only now, so that a refused one is not counted.
        let batch = writer.finish()?;
        // Mostly there is nothing to add, and no need to have at hand what it would be added to.
        if *folded > 0 || *is_truncated {
            account.tallies.folded += *folded;
            account.tallies.truncated += u64::from(*is_truncated);
        }
        let (registry, source) = ((&**names.registry(), names.taker), account.source());
        if let Some(event_type) = account.types.count(at.event_type, at.flags, registry, source) {
            names.registry().span(event_type, names.taker);
        }
        // Before the policy: what it drops or holds is to be told by the next flush all the same.
        outbox.mark(account);
        if policy.has_a_say(at.time, at.arrival.time, names.registry())
            && policy.apply((*at.arrival, *numbered), batch, account, names, outbox) == Verdict::Gone
        {
            return Ok(());
        }
        if let Some(numbered) = *numbered {
            account.marks.raise(numbered);
            account.marks.numbered += 1;
        }
        account.receive(at.arrival.conn);
        if batch.bytes().len() >= BATCH_BYTES {
            outbox.hand_over(batch, account);
        }
        Ok(())
    }

    #[inline(never)]
    fn fold(&mut self, name: &[u8], value: &Param<'_>) {
        self.folded += 1;
        let (other, text) = self.names.fold(name, value);
        self.writer.param(other, Param::String(text));
    }
}
