//! Writing a metric's values straight into the answer.

use crate::model::{Inst, PmError, Pmid, Profile, ProfileView, Value, ValueType};

use super::Call;

/// Where value sets end up. One is open at a time.
pub(super) trait Sink {
    fn begin(&mut self, pmid: Pmid);
    fn end(&mut self);
    /// Ends the open set, with an error in place of its values.
    fn fail(&mut self, pmid: Pmid, error: PmError);
    fn value(&mut self, inst: Inst, value: &Value);
    /// Lets `fill` append to the block area; what it wrote becomes the instance's value if it returns `true`,
    /// and is taken back otherwise.
    fn block(&mut self, inst: Inst, fill: &mut dyn FnMut(&mut Vec<u8>) -> bool) -> bool;
}

/// Writes one metric's value set ([`super::Fetch::Set`]). Values go straight into the answer: nothing is
/// allocated once its buffers have grown.
///
/// Writing nothing means the metric has no values now.
pub struct SetWriter<'a> {
    sink: &'a mut dyn Sink,
    value_type: ValueType,
    profile: ProfileView<'a>,
    written: usize,
    error: Option<PmError>,
}

impl<'a> SetWriter<'a> {
    pub(super) fn new(sink: &'a mut dyn Sink, value_type: ValueType, call: &Call<'a>) -> SetWriter<'a> {
        let profile: &'a Profile = call.profile;
        SetWriter { sink, value_type, profile: profile.of(call.indom), written: 0, error: None }
    }

    /// Whether the client's profile includes the instance. The framework does not filter what is written.
    pub fn wants(&self, inst: Inst) -> bool {
        self.profile.includes(inst)
    }

    /// Writes an instance's value. Singular metrics have the instance [`crate::model::PM_IN_NULL`].
    ///
    /// # Errors
    /// `PM_ERR_TYPE` when the value is not of the metric's type; nothing is written then.
    pub fn value(&mut self, inst: Inst, value: &Value) -> Result<(), PmError> {
        if value.value_type() != self.value_type {
            self.error = Some(PmError::TYPE);
            return Err(PmError::TYPE);
        }
        self.sink.value(inst, value);
        self.written += 1;
        Ok(())
    }

    /// Writes an instance's event array into the answer: `fill` appends a complete packed array in network
    /// byte order, header word included, and returns whether to keep it. Return `false` for an array without
    /// records, so that the instance is left out: pmlogger and archives do not like an empty first array.
    /// Gives back what `fill` returned.
    pub fn events(&mut self, inst: Inst, fill: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
        let mut fill = Some(fill);
        let kept = self.sink.block(inst, &mut |out| fill.take().is_some_and(|fill| fill(out)));
        self.written += usize::from(kept);
        kept
    }

    /// Notes that an instance has no value because of an error. If no instance has a value, the last such
    /// error is what the client sees for the metric (spec `agent.md` 16).
    pub fn error(&mut self, error: PmError) {
        self.error = Some(error);
    }

    /// How many values were written.
    pub fn len(&self) -> usize {
        self.written
    }

    /// Whether no value was written.
    pub fn is_empty(&self) -> bool {
        self.written == 0
    }

    /// Notes that the last instance asked simply had no value.
    pub(super) fn no_value(&mut self) {
        self.error = None;
    }

    /// What stands for the set if nothing was written.
    pub(super) fn outcome(&self) -> Result<(), PmError> {
        match self.error {
            Some(error) if self.written == 0 => Err(error),
            _ => Ok(()),
        }
    }
}
