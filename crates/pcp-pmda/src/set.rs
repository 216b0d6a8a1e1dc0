//! Writing a metric's values straight into the answer.

use pcp_model::{Inst, InstanceValue, Numbers, PmError, Profile, ProfileView, Value, ValueType};
use pcp_pdu::ResultWriter;

use super::call::Call;

/// Writes one metric's value set ([`Fetch::Set`](crate::Fetch::Set)). Values go straight into the answer: nothing is
/// allocated once its buffers have grown.
///
/// Writing nothing means the metric has no values now.
pub struct SetWriter<'a> {
    out: Out<'a>,
    value_type: ValueType,
    profile: ProfileView<'a>,
    written: usize,
    error: Option<PmError>,
}

/// Where values go.
enum Out<'a> {
    Answer(&'a mut ResultWriter),
    /// To whoever computes with them.
    Operand(&'a mut Vec<InstanceValue>),
}

impl<'a> SetWriter<'a> {
    pub(super) fn new(out: &'a mut ResultWriter, value_type: ValueType, call: &Call<'a>) -> SetWriter<'a> {
        SetWriter::with(Out::Answer(out), value_type, call)
    }

    /// Collects the values instead of sending them.
    pub(super) fn collecting(
        out: &'a mut Vec<InstanceValue>,
        value_type: ValueType,
        call: &Call<'a>,
    ) -> SetWriter<'a> {
        SetWriter::with(Out::Operand(out), value_type, call)
    }

    fn with(out: Out<'a>, value_type: ValueType, call: &Call<'a>) -> SetWriter<'a> {
        let profile: &'a Profile = call.profile;
        SetWriter { out, value_type, profile: profile.of(call.indom), written: 0, error: None }
    }

    /// Whether the client's profile includes the instance. The framework does not filter what is written.
    pub fn wants(&self, inst: Inst) -> bool {
        self.profile.includes(inst)
    }

    /// Whether the client's profile includes every instance.
    pub fn wants_all(&self) -> bool {
        self.profile.includes_all()
    }

    /// Appends those of `active`, which are ascending, that the client's profile includes.
    pub(super) fn wanted(&self, active: &[Inst], out: &mut Vec<Inst>) {
        if self.wants_all() {
            return out.extend_from_slice(active);
        }
        match self.profile.listed() {
            // A few of many: who fetches values of single instances does not pay for all that there are.
            Some(listed) if listed.len() < active.len() / 8 => {
                let mut rest = active;
                out.extend(listed.iter().filter(|inst| {
                    rest = rest.get(lower(rest, **inst)..).unwrap_or_default();
                    rest.first() == Some(*inst)
                }));
                out.dedup();
            }
            _ => out.extend(active.iter().filter(|inst| self.wants(**inst))),
        }
    }

    /// Writes an instance's value. Singular metrics have the instance [`pcp_model::PM_IN_NULL`].
    ///
    /// # Errors
    /// `PM_ERR_TYPE` when the value is not of the metric's type, `PM_ERR_TOOBIG` when it is too long for the
    /// protocol. Nothing is written then, and the error is noted as [`SetWriter::error`] does.
    #[inline(always)]
    pub fn value(&mut self, inst: Inst, value: &Value) -> Result<(), PmError> {
        if value.value_type() != self.value_type {
            return self.written_or(Err(PmError::TYPE));
        }
        let result = match &mut self.out {
            Out::Answer(out) => out.value(inst, value).map_err(|error| error.pm_error()),
            Out::Operand(out) => {
                out.push(InstanceValue { inst, value: value.clone() });
                Ok(())
            }
        };
        self.written_or(result)
    }

    /// Writes the numbers of as many instances, all or none of them: where an answer has no room for all, they can be written one by
    /// one up to the end. Who collects them takes them one by one only.
    ///
    /// # Errors
    /// `PM_ERR_TYPE` when they are not of the metric's type, or are collected; `PM_ERR_TOOBIG`. Nothing is written or noted then.
    pub fn numbers(&mut self, ids: &[Inst], values: Numbers<'_>) -> Result<(), PmError> {
        let value_type = match values {
            Numbers::I32(_) => ValueType::I32,
            Numbers::U32(_) => ValueType::U32,
            Numbers::I64(_) => ValueType::I64,
            Numbers::U64(_) => ValueType::U64,
            Numbers::Float(_) => ValueType::Float,
            Numbers::Double(_) => ValueType::Double,
        };
        match &mut self.out {
            Out::Answer(out) if value_type == self.value_type => {
                out.numbers(ids, values).map_err(|error| error.pm_error())?;
                self.written += ids.len();
                Ok(())
            }
            _ => Err(PmError::TYPE),
        }
    }

    /// The same, of numbers that are given as their bits ([`pcp_pdu::SetsWriter::bits`]).
    ///
    /// # Errors
    /// As [`SetWriter::numbers`].
    pub(super) fn bits(&mut self, ids: &[Inst], bits: &[u64]) -> Result<(), PmError> {
        let Out::Answer(out) = &mut self.out else { return Err(PmError::TYPE) };
        out.bits(ids, bits, self.value_type).map_err(|error| error.pm_error())?;
        self.written += ids.len();
        Ok(())
    }

    /// The type of the metric's values.
    pub(super) fn value_type(&self) -> ValueType {
        self.value_type
    }

    /// Whether values go into an answer.
    pub(super) fn is_answer(&self) -> bool {
        matches!(self.out, Out::Answer(_))
    }

    /// Writes an instance's text, without a copy of its own. It ends at the first NUL, if there is one.
    ///
    /// # Errors
    /// As [`SetWriter::value`].
    pub fn string(&mut self, inst: Inst, text: &[u8]) -> Result<(), PmError> {
        if self.value_type != ValueType::String {
            return self.written_or(Err(PmError::TYPE));
        }
        let text = memchr::memchr(0, text).map_or(text, |end| &text[..end]);
        let result = match &mut self.out {
            Out::Answer(out) => out.string(inst, text).map_err(|error| error.pm_error()),
            Out::Operand(out) => {
                out.push(InstanceValue { inst, value: Value::String(bytes::Bytes::copy_from_slice(text)) });
                Ok(())
            }
        };
        self.written_or(result)
    }

    /// Writes an instance's event array into the answer: `fill` appends a complete packed array in network
    /// byte order, header word included, and returns whether to keep it. Return `false` for an array without
    /// records, so that the instance is left out: pmlogger and archives do not like an empty first array.
    /// Gives back whether there is a value now.
    ///
    /// # Errors
    /// `PM_ERR_CONV` for bytes that are no event array, `PM_ERR_TOOBIG` for too many; as [`SetWriter::value`].
    pub fn events(&mut self, inst: Inst, fill: impl FnOnce(&mut Vec<u8>) -> bool) -> Result<bool, PmError> {
        let Out::Answer(out) = &mut self.out else {
            return self.written_or(Err(PmError::TYPE)).map(|()| false);
        };
        let kept = out.event_block(inst, |out| {
            let start = out.len();
            let keep = fill(out);
            if !keep {
                out.truncate(start);
            }
            keep && out.len() > start
        });
        match kept {
            Ok(false) => Ok(false),
            Ok(true) => self.written_or(Ok(())).map(|()| true),
            Err(error) => self.written_or(Err(error.pm_error())).map(|()| false),
        }
    }

    /// How many bytes an event array may have at most, in this answer.
    pub fn room(&self) -> usize {
        match &self.out {
            Out::Answer(out) => out.room(),
            Out::Operand(_) => 0,
        }
    }

    /// Notes that an instance has no value because of an error. If no instance has a value, the last such
    /// error is what the client sees for the metric (`docs/pcp/agent.md` 16).
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

    #[inline]
    fn written_or(&mut self, result: Result<(), PmError>) -> Result<(), PmError> {
        match result {
            Ok(()) => self.written += 1,
            Err(error) => self.error = Some(error),
        }
        result
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

/// How many of the first ones, which are ascending, are lower than this one. Few, mostly, as the next one asked for is near the last: they
/// are looked for at the front first.
fn lower(ascending: &[Inst], than: Inst) -> usize {
    let mut end = 1;
    while ascending.get(end - 1).is_some_and(|&inst| inst < than) {
        end *= 2;
    }
    let begin = end / 2;
    let between = ascending.get(begin..end.min(ascending.len())).unwrap_or_default();
    begin + between.partition_point(|&inst| inst < than)
}

#[cfg(test)]
mod tests {
    use pcp_model::{InDom, IndomProfile, Pmid, ProfileState};

    use super::*;
    use crate::call::{Attributes, ClientId, FetchStamp};

    #[test]
    fn lower_ones_are_counted_from_the_front() {
        let all: Vec<Inst> = (0..100).map(|inst| 2 * inst).collect();
        for ascending in (0..=all.len()).map(|len| &all[..len]) {
            for than in -1..202 {
                assert_eq!(lower(ascending, than), ascending.iter().filter(|&&inst| inst < than).count());
            }
        }
    }

    #[test]
    fn a_short_list_of_a_client_gives_what_asking_for_each_instance_gives() {
        let indom = InDom::new(29, 1);
        let active: Vec<Inst> = (0..200).filter(|inst| inst % 3 != 0).collect();
        for state in [ProfileState::Include, ProfileState::Exclude] {
            for list in
                [&[][..], &[7], &[3, 4, 4, 5, 199, 500], &[199, 4, 7, 4], &[-1, 1], &active, &active[50..]]
            {
                let indoms = vec![IndomProfile { indom, state, instances: list.to_vec() }];
                let profile = Profile { state: ProfileState::Include, indoms };
                let attributes = Attributes::default();
                let call = Call {
                    client: ClientId { slot: 0, generation: 0 },
                    attributes: &attributes,
                    profile: &profile,
                    pmid: Pmid::NULL,
                    indom,
                    fetch: FetchStamp::default(),
                };
                let mut operands = Vec::new();
                let set = SetWriter::collecting(&mut operands, ValueType::I32, &call);
                let mut wanted = Vec::new();
                set.wanted(&active, &mut wanted);
                let each: Vec<Inst> = active.iter().copied().filter(|&inst| set.wants(inst)).collect();
                assert_eq!(wanted, each, "{state:?} {list:?}");
            }
        }
    }
}
