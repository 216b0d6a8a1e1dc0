//! Numbers of instances one after the other, written so many at a time: half of what a number costs by itself is seeing whether it may join
//! the set, and whether there is room.

use pcp_model::{Inst, PmError, Value, ValueType};

use super::set::SetWriter;

/// Numbers at a time.
const LEN: usize = 64;
/// Instances from which on it is worth while.
const WORTH: usize = 8;

/// Numbers that are yet to be written, as their bits.
pub(super) struct Row {
    ids: [Inst; LEN],
    bits: [u64; LEN],
    len: usize,
    /// What was noted of an instance behind all of them that has no value.
    noted: Option<Option<PmError>>,
}

impl Row {
    pub(super) fn new() -> Row {
        Row { ids: [0; LEN], bits: [0; LEN], len: 0, noted: None }
    }

    /// Whether the values of so many instances should be written this way. Who collects values takes them one by one.
    pub(super) fn is_worth(instances: usize, set: &SetWriter<'_>) -> bool {
        instances >= WORTH && set.is_answer()
    }

    /// Writes an instance's value, as [`SetWriter::value`] does, now or later.
    #[inline(always)]
    pub(super) fn value(&mut self, set: &mut SetWriter<'_>, inst: Inst, value: &Value) {
        match (value, set.value_type()) {
            (Value::I32(value), ValueType::I32) => self.push(set, inst, u64::from(*value as u32)),
            (Value::U32(value), ValueType::U32) => self.push(set, inst, u64::from(*value)),
            (Value::I64(value), ValueType::I64) => self.push(set, inst, *value as u64),
            (Value::U64(value), ValueType::U64) => self.push(set, inst, *value),
            (Value::Float(value), ValueType::Float) => self.push(set, inst, u64::from(value.to_bits())),
            (Value::Double(value), ValueType::Double) => self.push(set, inst, value.to_bits()),
            // Of another type: noted as the instance's error.
            (other, _) => {
                self.flush(set);
                let _ = set.value(inst, other);
            }
        }
    }

    /// Notes that an instance has no value, because of an error or for no reason.
    #[inline]
    pub(super) fn none(&mut self, set: &mut SetWriter<'_>, error: Option<PmError>) {
        match self.len {
            0 => note(set, error),
            // It counts only if none of these can be written.
            _ => self.noted = Some(error),
        }
    }

    /// Writes all that is left.
    pub(super) fn end(mut self, set: &mut SetWriter<'_>) {
        self.flush(set);
    }

    #[inline(always)]
    fn push(&mut self, set: &mut SetWriter<'_>, inst: Inst, bits: u64) {
        if self.len == LEN {
            self.flush(set);
        }
        if let (Some(id), Some(place)) = (self.ids.get_mut(self.len), self.bits.get_mut(self.len)) {
            (*id, *place) = (inst, bits);
            self.len += 1;
        }
        self.noted = None;
    }

    #[inline(never)]
    fn flush(&mut self, set: &mut SetWriter<'_>) {
        let len = std::mem::take(&mut self.len);
        let (ids, bits) = (self.ids.get(..len).unwrap_or_default(), self.bits.get(..len).unwrap_or_default());
        if set.bits(ids, bits).is_err() {
            // There is no room for all: as many as there is room for.
            let value_type = set.value_type();
            for (&inst, &bits) in ids.iter().zip(bits) {
                let _ = set.value(inst, &value_of(bits, value_type));
            }
        }
        if let Some(error) = self.noted.take() {
            note(set, error);
        }
    }
}

fn note(set: &mut SetWriter<'_>, error: Option<PmError>) {
    match error {
        Some(error) => set.error(error),
        None => set.no_value(),
    }
}

/// The number with these bits.
fn value_of(bits: u64, value_type: ValueType) -> Value {
    match value_type {
        ValueType::I32 => Value::I32(bits as u32 as i32),
        ValueType::U32 => Value::U32(bits as u32),
        ValueType::I64 => Value::I64(bits as i64),
        ValueType::Float => Value::Float(f32::from_bits(bits as u32)),
        ValueType::Double => Value::Double(f64::from_bits(bits)),
        _ => Value::U64(bits),
    }
}

#[cfg(test)]
mod tests {
    use pcp_model::{InDom, Pmid, Profile, Timestamp};
    use pcp_pdu::{ResultKind, ResultWriter};
    use proptest::prelude::*;

    use super::*;
    use crate::call::{Attributes, Call, ClientId, FetchStamp};

    /// What a set becomes of these answers, `by` a way of writing them, in an answer of so many bytes: its bytes and its outcome.
    fn written(
        answers: &[Result<Option<Value>, PmError>],
        value_type: ValueType,
        room: usize,
        by: impl FnOnce(&[Result<Option<Value>, PmError>], &mut SetWriter<'_>),
    ) -> (Vec<u8>, usize, Result<(), PmError>) {
        let (attributes, profile) = (Attributes::default(), Profile::default());
        let call = Call {
            client: ClientId { slot: 0, generation: 0 },
            attributes: &attributes,
            profile: &profile,
            pmid: Pmid::new(1, 0, 1),
            indom: InDom::new(1, 1),
            fetch: FetchStamp::default(),
        };
        let mut out = ResultWriter::new(room);
        out.begin_set(call.pmid).expect("none is open");
        let mut set = SetWriter::new(&mut out, value_type, &call);
        by(answers, &mut set);
        let (len, outcome) = (set.len(), set.outcome());
        out.end_set().expect("it is open");
        let parts = out.finish(ResultKind::Micro, Timestamp::default(), 0).expect("it fits");
        (parts.concat(), len, outcome)
    }

    fn one_by_one(answers: &[Result<Option<Value>, PmError>], set: &mut SetWriter<'_>) {
        for (inst, answer) in (0..).zip(answers) {
            match answer {
                Ok(Some(value)) => _ = set.value(inst, value),
                Ok(None) => set.no_value(),
                Err(error) => set.error(*error),
            }
        }
    }

    fn by_rows(answers: &[Result<Option<Value>, PmError>], set: &mut SetWriter<'_>) {
        let mut row = Row::new();
        for (inst, answer) in (0..).zip(answers) {
            match answer {
                Ok(Some(value)) => row.value(set, inst, value),
                Ok(None) => row.none(set, None),
                Err(error) => row.none(set, Some(*error)),
            }
        }
        row.end(set);
    }

    fn number(value_type: ValueType) -> BoxedStrategy<Value> {
        match value_type {
            ValueType::I32 => any::<i32>().prop_map(Value::I32).boxed(),
            ValueType::U32 => any::<u32>().prop_map(Value::U32).boxed(),
            ValueType::I64 => any::<i64>().prop_map(Value::I64).boxed(),
            ValueType::Float => any::<f32>().prop_map(Value::Float).boxed(),
            ValueType::Double => any::<f64>().prop_map(Value::Double).boxed(),
            _ => any::<u64>().prop_map(Value::U64).boxed(),
        }
    }

    const NUMBERS: [ValueType; 6] =
        [ValueType::I32, ValueType::U32, ValueType::I64, ValueType::U64, ValueType::Float, ValueType::Double];

    proptest! {
        #[test]
        fn what_is_written_in_rows_is_what_is_written_one_by_one(
            (value_type, answers) in prop::sample::select(&NUMBERS[..]).prop_flat_map(|value_type| {
                let answer = prop_oneof![
                    20 => number(value_type).prop_map(|value| Ok(Some(value))),
                    1 => number(ValueType::U64).prop_map(|value| Ok(Some(value))),
                    1 => Just(Ok(Some(Value::from("text")))),
                    2 => Just(Ok(None)),
                    1 => Just(Err(PmError::AGAIN)),
                    1 => Just(Err(PmError::VALUE)),
                ];
                (Just(value_type), prop::collection::vec(answer, 0..200))
            }),
            room in prop_oneof![Just(1 << 20), 40..3000_usize],
        ) {
            let rows = written(&answers, value_type, room, by_rows);
            // One by one each leaves room for the word in front of a first one.
            prop_assert!(
                [room, room + 4].map(|room| written(&answers, value_type, room, one_by_one)).contains(&rows),
                "{rows:?}"
            );
        }
    }
}
