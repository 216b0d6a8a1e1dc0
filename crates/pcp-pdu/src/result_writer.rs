//! A RESULT or HIGHRES_RESULT written value by value: the answer to a fetch.
//!
//! The sets are [`SetsWriter`]'s; the header is put in front of them when the result is finished, in the room that
//! they leave there. Cost and memory are those of the sets.

use byteorder::{BigEndian, ByteOrder};

use super::HEADER_LEN;
use super::codec::MAX_LEN;
use super::fault::{EncodeError, Unsendable};
use super::result::{HIGHRES_HEADER, ResultKind};
use super::sets::{SetsWriter, WORD};
use pcp_model::Timestamp;

/// What [`SetsWriter`] is called where it writes results one after the other.
pub type ResultWriter = SetsWriter;

impl Default for SetsWriter {
    fn default() -> SetsWriter {
        SetsWriter::new(MAX_LEN)
    }
}

/// Results.
impl SetsWriter {
    /// A writer of results of at most `max_len` bytes, header included: there is room for the longer of the two.
    pub fn new(max_len: usize) -> SetsWriter {
        SetsWriter::with_lead(HIGHRES_HEADER, max_len.min(MAX_LEN))
    }

    /// The result: header and sets, then blocks. From an agent to pmcd: [`ResultKind::Micro`], a zero
    /// timestamp (or [`super::StateChange`] bits as its seconds) and `from` 0. Writing another result
    /// needs a [`SetsWriter::reset`] before.
    ///
    /// # Errors
    /// The result is too long, a set is open, an event array's writer destroyed blocks, or this is no
    /// writer of results.
    pub fn finish(
        &mut self,
        kind: ResultKind,
        timestamp: Timestamp,
        from: i32,
    ) -> Result<[&[u8]; 2], EncodeError> {
        let in_kind = |error: EncodeError| EncodeError { kind: kind.kind(), ..error };
        self.check_complete().map_err(in_kind)?;
        if self.lead_mut().len() != HIGHRES_HEADER {
            return Err(EncodeError { kind: kind.kind(), reason: Unsendable::Misuse { call: "finish" } });
        }
        let skip = HIGHRES_HEADER - kind.header_len();
        let len = self.len() - skip;
        if len > self.max_len {
            return Err(EncodeError { kind: kind.kind(), reason: Unsendable::TooLong { max: self.max_len } });
        }
        self.place_blocks((kind.header_len() + self.sets_len()) / WORD).map_err(in_kind)?;
        let fields = kind.fields(timestamp, self.count());
        let header = &mut self.lead_mut()[skip..];
        BigEndian::write_u32(&mut header[0..], len as u32);
        BigEndian::write_u32(&mut header[4..], kind.kind());
        BigEndian::write_i32(&mut header[8..], from);
        header[HEADER_LEN..].copy_from_slice(&fields[..kind.header_len() - HEADER_LEN]);
        let [head, blocks] = self.parts();
        Ok([&head[skip..], blocks])
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::codec::testing::*;
    use crate::result::tests::arb_sets;
    use crate::sets::MAX_BLOCK;
    use crate::{Block, Pdu, RawInstanceValue, RawValue, RawValueSet, ResultPdu};
    use pcp_model::{PM_IN_NULL, PmError, Pmid, Value};

    const METRIC: Pmid = Pmid::new(29, 0, 10);
    const EMPTY_ARRAY: &[u8] = &[9, 0, 0, 8, 0, 0, 0, 0];

    fn reason<T: std::fmt::Debug>(result: Result<T, EncodeError>) -> Unsendable {
        result.unwrap_err().reason
    }

    /// The sets of the finished result, after a trip over the wire in both kinds.
    fn finish(w: &mut ResultWriter) -> Vec<RawValueSet> {
        let [head, blocks] = w.finish(ResultKind::Micro, Timestamp::default(), 0).expect("finished");
        let Ok(Pdu::Result(result)) = Pdu::decode(&frame(&[head, blocks].concat())) else {
            panic!("refused")
        };
        result.sets
    }

    #[test]
    fn writes_what_the_real_library_writes() {
        let mut w = ResultWriter::default();
        let time = Timestamp::new(0x6b00_2211, 0x37ba_43d4);
        for _ in 0..2 {
            w.reset();
            w.begin_set(METRIC).unwrap();
            w.value(PM_IN_NULL, &Value::I32(1)).unwrap();
            w.end_set().unwrap();
            w.begin_set(Pmid::new(29, 0, 31)).unwrap();
            w.value(PM_IN_NULL, &"hullo world!".into()).unwrap();
            w.end_set().unwrap();
            let [head, blocks] = w.finish(ResultKind::HighRes, time, 0).unwrap();
            assert_eq!(
                [head, blocks].concat(),
                unhex(
                    "0000005c 00007015 00000000 00000002 00000000 6b002211 00000000 37ba43d4
                     0740000a 00000001 00000000 ffffffff 00000001
                     0740001f 00000001 00000001 ffffffff 00000012
                     06000011 68756c6c 6f20776f 726c6421 007e7e7e"
                )
            );
        }
    }

    #[test]
    fn every_kind_of_value_and_no_value_comes_back() {
        let array = Bytes::from_static(EMPTY_ARRAY);
        let values = [
            Value::I32(-1),
            Value::U32(u32::MAX),
            Value::I64(i64::MIN),
            Value::U64(u64::MAX),
            Value::Float(1.5),
            Value::Double(-2.5),
            Value::String(Bytes::from_static(b"abc")),
            Value::String(Bytes::new()),
            Value::Aggregate(Bytes::from_static(b"\0\x01\x02")),
            Value::Event(array),
        ];
        let mut w = ResultWriter::default();
        for value in &values {
            w.begin_set(METRIC).unwrap();
            w.value(1, value).unwrap();
            w.value(2, value).unwrap();
            w.end_set().unwrap();
        }
        w.begin_set(METRIC).unwrap();
        w.end_set().unwrap();
        w.set_error(METRIC, PmError::PMID).unwrap();
        let sets = finish(&mut w);
        for (value, set) in values.iter().zip(&sets) {
            let back = set.to_values(value.value_type()).unwrap().values.unwrap();
            assert_eq!(back.iter().map(|v| (v.inst, &v.value)).collect::<Vec<_>>(), [(1, value), (2, value)]);
        }
        assert_eq!(sets[values.len()].values, Ok(vec![]));
        assert_eq!(sets[values.len() + 1].values, Err(PmError::PMID));
        assert_eq!(sets.len(), values.len() + 2);
    }

    #[test]
    fn a_set_that_is_taken_back_leaves_no_trace() {
        let mut w = ResultWriter::default();
        w.begin_set(METRIC).unwrap();
        w.value(0, &"kept".into()).unwrap();
        w.end_set().unwrap();
        for error in [None, Some(PmError::AGAIN)] {
            w.begin_set(METRIC).unwrap();
            w.value(0, &"dropped".into()).unwrap();
            w.event_block(1, |out| out.extend_from_slice(EMPTY_ARRAY)).unwrap();
            match error {
                None => w.clear_set().unwrap(),
                Some(error) => w.fail_set(error).unwrap(),
            }
        }
        assert_eq!(reason(w.set_error(METRIC, PmError(0))), Unsendable::NotAnError { code: 0 });
        let sets = finish(&mut w);
        assert_eq!(sets.len(), 3);
        assert_eq!(sets[1].values, Ok(vec![]));
        assert_eq!(sets[2].values, Err(PmError::AGAIN));
    }

    #[test]
    fn an_event_writer_that_appends_nothing_adds_no_value() {
        let mut w = ResultWriter::default();
        w.begin_set(METRIC).unwrap();
        assert_eq!(w.event_block(0, |_| 7), Ok(7));
        w.event_block(1, |out| out.extend_from_slice(EMPTY_ARRAY)).unwrap();
        w.end_set().unwrap();
        let block = RawValue::Block(Block::new(9, &[0; 4]).unwrap());
        assert_eq!(finish(&mut w)[0].values, Ok(vec![RawInstanceValue { inst: 1, value: block }]));
    }

    #[test]
    fn what_is_not_an_event_array_is_taken_back() {
        let mut w = ResultWriter::default();
        w.begin_set(METRIC).unwrap();
        let bad: [&[u8]; 4] = [&[9, 0, 0, 4], &[6, 0, 0, 8, 0, 0, 0, 0], &[9, 0, 0, 12, 0, 0, 0, 0], &[9]];
        for array in bad {
            let outcome = w.event_block(3, |out| out.extend_from_slice(array));
            assert_eq!(reason(outcome), Unsendable::NotAnEventArray { pmid: METRIC, inst: 3 });
        }
        let wrong_count = Bytes::from_static(&[9, 0, 0, 8, 0, 0, 0, 1]);
        let block = RawValue::Block(Block::new(9, &wrong_count[4..]).unwrap());
        let outcomes = [w.value(3, &Value::Event(wrong_count)), w.raw(3, &block)];
        for outcome in outcomes {
            assert_eq!(reason(outcome), Unsendable::NotAnEventArray { pmid: METRIC, inst: 3 });
        }
        w.end_set().unwrap();
        assert_eq!(finish(&mut w)[0].values, Ok(vec![]));
    }

    #[test]
    fn an_event_writer_cannot_spoil_the_others_silently() {
        let mut w = ResultWriter::default();
        w.begin_set(METRIC).unwrap();
        w.event_block(0, |out| out.extend_from_slice(EMPTY_ARRAY)).unwrap();
        assert!(w.event_block(1, Vec::clear).is_err());
        w.end_set().unwrap();
        assert!(w.finish(ResultKind::Micro, Timestamp::default(), 0).is_err());
        w.reset();
        assert!(finish(&mut w).is_empty());
    }

    #[test]
    fn limits_are_errors_before_anything_is_broken() {
        let mut w = ResultWriter::default();
        w.begin_set(METRIC).unwrap();
        let huge = Value::Aggregate(vec![0; MAX_BLOCK - 3].into());
        let too_long = Unsendable::ValueTooLong { pmid: METRIC, inst: 0, len: MAX_BLOCK + 1 };
        assert_eq!(reason(w.value(0, &huge)), too_long);
        w.value(0, &Value::Aggregate(vec![0; MAX_BLOCK - 4].into())).unwrap();
        assert_eq!(reason(w.event_block(0, |out| out.resize(out.len() + MAX_BLOCK + 1, 0))), too_long);
        assert_eq!(reason(w.value(1, &Value::I32(1))), Unsendable::MixedFormats { pmid: METRIC });
        w.end_set().unwrap();
        assert_eq!(finish(&mut w)[0].values.as_ref().map(Vec::len), Ok(1));

        let mut w = ResultWriter::new(64);
        w.begin_set(METRIC).unwrap();
        assert_eq!(
            reason(w.value(0, &Value::Aggregate(vec![0; 13].into()))),
            Unsendable::TooLong { max: 64 }
        );
        w.value(0, &Value::Aggregate(vec![0; 8].into())).unwrap();
        assert_eq!(reason(w.value(1, &Value::Aggregate(vec![].into()))), Unsendable::TooLong { max: 64 });
        w.end_set().unwrap();
        assert_eq!(w.room(), 0);
        w.set_error(METRIC, PmError::PMID).unwrap();
        let outcome = w.finish(ResultKind::HighRes, Timestamp::default(), 0).map(|_| ());
        assert_eq!(reason(outcome), Unsendable::TooLong { max: 64 });
    }

    #[test]
    fn calls_out_of_order_are_errors() {
        let mut w = ResultWriter::default();
        let misuse = |call| Unsendable::Misuse { call };
        assert_eq!(reason(w.value(0, &Value::I32(1))), misuse("value"));
        assert_eq!(reason(w.end_set()), misuse("end_set"));
        assert_eq!(reason(w.clear_set()), misuse("clear_set"));
        assert_eq!(reason(w.fail_set(PmError::PMID)), misuse("fail_set"));
        w.begin_set(METRIC).unwrap();
        assert_eq!(reason(w.begin_set(METRIC)), misuse("begin_set"));
        assert_eq!(
            reason(w.finish(ResultKind::Micro, Timestamp::default(), 0).map(|_| ())),
            misuse("finish")
        );
        w.end_set().unwrap();
        finish(&mut w);
        assert_eq!(
            reason(w.finish(ResultKind::Micro, Timestamp::default(), 0).map(|_| ())),
            misuse("finish")
        );
    }

    #[test]
    fn agrees_with_the_plain_encoder() {
        let raw =
            |inst, value: &Value| RawInstanceValue { inst, value: RawValue::from_value(value).unwrap() };
        let sets = vec![
            RawValueSet { pmid: METRIC, values: Ok(vec![raw(0, &"a".into()), raw(1, &"".into())]) },
            RawValueSet { pmid: METRIC, values: Ok(vec![raw(0, &1i32.into()), raw(7, &2i32.into())]) },
            RawValueSet { pmid: METRIC, values: Ok(vec![raw(0, &1.0f64.into())]) },
            RawValueSet { pmid: METRIC, values: Err(PmError::VALUE) },
            RawValueSet { pmid: METRIC, values: Ok(vec![]) },
        ];
        let timestamp = Timestamp::new(3, 4000);
        for kind in [ResultKind::Micro, ResultKind::HighRes] {
            let mut w = ResultWriter::default();
            for set in &sets {
                match &set.values {
                    Ok(values) => {
                        w.begin_set(set.pmid).unwrap();
                        values.iter().for_each(|v| w.raw(v.inst, &v.value).unwrap());
                        w.end_set().unwrap();
                    }
                    Err(error) => w.set_error(set.pmid, *error).unwrap(),
                }
            }
            let result = ResultPdu { timestamp, sets: sets.clone() };
            let pdu = match kind {
                ResultKind::Micro => Pdu::Result(result),
                ResultKind::HighRes => Pdu::HighResResult(result),
            };
            assert_eq!(w.finish(kind, timestamp, 5).unwrap().concat(), pdu.to_bytes(5).unwrap());
        }
    }
    proptest! {
        /// Any sets, some of them taken back at their end, a second result in the same buffers.
        #[test]
        fn any_result_decodes_to_what_was_written(
            sets in prop::collection::vec((arb_sets(), 0..3), 0..4),
            kind in prop::sample::select(vec![ResultKind::Micro, ResultKind::HighRes]),
        ) {
            let mut w = ResultWriter::default();
            for _ in 0..2 {
                w.reset();
                let mut expected = Vec::new();
                for (sets, fate) in &sets {
                    for set in sets {
                        let mut set = set.clone();
                        w.begin_set(set.pmid).unwrap();
                        set.values.iter().flatten().for_each(|v| w.raw(v.inst, &v.value).unwrap());
                        match (&set.values, fate) {
                            (Err(error), _) => w.fail_set(*error).unwrap(),
                            (Ok(_), 0) => w.end_set().unwrap(),
                            (Ok(_), 1) => {
                                w.clear_set().unwrap();
                                set.values = Ok(vec![]);
                            }
                            (Ok(_), _) => {
                                w.fail_set(PmError::AGAIN).unwrap();
                                set.values = Err(PmError::AGAIN);
                            }
                        }
                        expected.push(set);
                    }
                }
                let bytes = w.finish(kind, Timestamp::default(), 0).unwrap().concat();
                match Pdu::decode(&frame(&bytes)) {
                    Ok(Pdu::Result(result) | Pdu::HighResResult(result)) => prop_assert_eq!(result.sets, expected),
                    other => prop_assert!(false, "{:?}", other),
                }
            }
        }
    }
}
