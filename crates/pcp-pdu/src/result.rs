//! RESULT and HIGHRES_RESULT (`docs/pcp/wire.md` 7 and 18).
//!
//! ```text
//! RESULT          12 sec i32 | 16 usec i32 | 20 numpmid i32          | 24 sets | blocks
//! HIGHRES_RESULT  12 numpmid i32 | 16 sec i64 | 24 nsec i64          | 32 sets | blocks
//! ```
//!
//! Sets and blocks: [`super::sets`]. Here values are taken out of them one by one, for who has to keep them: cost of
//! decoding is one allocation for each metric with values; blocks are slices of the frame. Results that are
//! fetched again and again are better [`super::Fetched`].

use byteorder::{BigEndian, ByteOrder};
use bytes::Buf;

use super::codec::{MAX_LEN, Writer};
use super::fault::{EncodeError, PduError, Problem};
use super::frame::Frame;
use super::sets::{
    Block, RawValue, SetHead, SetRef, SetsError, SetsWriter, ValueRef, WORD, check_tiling, count_of_sets,
};
use super::{HEADER_LEN, kind};
use pcp_model::{Inst, InstanceValue, PmError, Pmid, Timestamp, ValueSet, ValueType};

const MICRO_HEADER: usize = 24;
pub(super) const HIGHRES_HEADER: usize = 32;

/// Which of the two result PDUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultKind {
    /// RESULT: microseconds, 32 bits. What an agent sends, and what a store request is.
    Micro,
    /// HIGHRES_RESULT: nanoseconds, 64 bits.
    HighRes,
}

impl ResultKind {
    /// The PDU's type number.
    pub const fn kind(self) -> u32 {
        match self {
            ResultKind::Micro => kind::RESULT,
            ResultKind::HighRes => kind::HIGHRES_RESULT,
        }
    }

    /// Bytes before the first set.
    pub(super) const fn header_len(self) -> usize {
        match self {
            ResultKind::Micro => MICRO_HEADER,
            ResultKind::HighRes => HIGHRES_HEADER,
        }
    }

    /// The result PDU with this type number.
    pub(super) const fn of(kind: u32) -> Option<ResultKind> {
        match kind {
            kind::RESULT => Some(ResultKind::Micro),
            kind::HIGHRES_RESULT => Some(ResultKind::HighRes),
            _ => None,
        }
    }

    /// The timestamp and the number of sets, out of everything behind the PDU's header. A fraction outside the second
    /// is clamped, so that the seconds (an agent's flags) stay what they are.
    pub(super) fn read(self, body: &[u8]) -> Result<(Timestamp, usize), PduError> {
        let error = |offset, problem| PduError { kind: self.kind(), offset, problem };
        let need = self.header_len() - HEADER_LEN;
        let Some((mut fields, sets)) = body.split_at_checked(need) else {
            return Err(error(HEADER_LEN, Problem::Truncated { field: "header", need, have: body.len() }));
        };
        let (timestamp, place, numpmid) = match self {
            ResultKind::Micro => {
                let (sec, usec) = (fields.get_i32(), fields.get_i32());
                let nsec = usec.clamp(0, 999_999) as u32 * 1000;
                (Timestamp { sec: sec.into(), nsec }, MICRO_HEADER - WORD, fields.get_i32())
            }
            ResultKind::HighRes => {
                let (numpmid, sec, nsec) = (fields.get_i32(), fields.get_i64(), fields.get_i64());
                (Timestamp { sec, nsec: nsec.clamp(0, 999_999_999) as u32 }, HEADER_LEN, numpmid)
            }
        };
        match count_of_sets(numpmid, sets.len()) {
            Some(count) => Ok((timestamp, count)),
            None => Err(error(place, Problem::Count { field: "numpmid", count: numpmid })),
        }
    }

    /// The fields between the PDU's header and the first set, at the front of the array.
    /// Seconds beyond 32 bits are cut in RESULT, as PCP does.
    pub(super) fn fields(self, time: Timestamp, numpmid: i32) -> [u8; HIGHRES_HEADER - HEADER_LEN] {
        let mut out = [0; HIGHRES_HEADER - HEADER_LEN];
        match self {
            ResultKind::Micro => {
                BigEndian::write_i32(&mut out[0..], time.sec as i32);
                BigEndian::write_i32(&mut out[4..], time.usec() as i32);
                BigEndian::write_i32(&mut out[8..], numpmid);
            }
            ResultKind::HighRes => {
                BigEndian::write_i32(&mut out[0..], numpmid);
                BigEndian::write_i64(&mut out[4..], time.sec);
                BigEndian::write_i64(&mut out[12..], i64::from(time.nsec));
            }
        }
        out
    }
}

/// The values of some metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultPdu {
    /// When they were collected. From pmcd to a client only: an agent's RESULT has change flags in the
    /// seconds ([`super::StateChange`], normally 0), a store request anything.
    pub timestamp: Timestamp,
    /// One set for each metric of the request, in its order.
    pub sets: Vec<RawValueSet>,
}

/// A metric's values as they travel.
#[derive(Clone, Debug, PartialEq)]
pub struct RawValueSet {
    /// The metric.
    pub pmid: Pmid,
    /// Its values, possibly none, or why there are none.
    pub values: Result<Vec<RawInstanceValue>, PmError>,
}

/// A value as it travels, and its instance.
#[derive(Clone, Debug, PartialEq)]
pub struct RawInstanceValue {
    /// The instance; [`pcp_model::PM_IN_NULL`] for a singular metric.
    pub inst: Inst,
    /// The value.
    pub value: RawValue,
}

impl RawValueSet {
    /// How the values of a metric travel.
    ///
    /// # Errors
    /// [`PmError::TOOBIG`]: a value is longer than a block can be.
    pub fn from_values(set: &ValueSet) -> Result<RawValueSet, PmError> {
        let raw = |value: &InstanceValue| match RawValue::from_value(&value.value) {
            Ok(raw) => Ok(RawInstanceValue { inst: value.inst, value: raw }),
            Err(_) => Err(PmError::TOOBIG),
        };
        let values = match &set.values {
            Ok(values) => Ok(values.iter().map(raw).collect::<Result<_, _>>()?),
            Err(error) => Err(*error),
        };
        Ok(RawValueSet { pmid: set.pmid, values })
    }

    /// The values of a metric whose descriptor says `value_type`.
    ///
    /// # Errors
    /// [`PmError::CONV`]: a value is not of that type.
    pub fn to_values(&self, value_type: ValueType) -> Result<ValueSet, PmError> {
        let cooked = |raw: &RawInstanceValue| {
            Ok::<_, PmError>(InstanceValue { inst: raw.inst, value: raw.value.to_value(value_type)? })
        };
        let values = match &self.values {
            Ok(values) => Ok(values.iter().map(cooked).collect::<Result<_, _>>()?),
            Err(error) => Err(*error),
        };
        Ok(ValueSet { pmid: self.pmid, values })
    }
}

/// The body of a PDU lacks the header that places of blocks count from.
pub(super) const BODY_BIAS: u32 = (HEADER_LEN / WORD) as u32;

impl ResultPdu {
    pub(super) fn decode(frame: &Frame, kind: ResultKind) -> Result<ResultPdu, PduError> {
        let (timestamp, count) = kind.read(&frame.body)?;
        let sets = take_sets(frame, kind.header_len() - HEADER_LEN, count)
            .map_err(|error| error.in_pdu(kind.kind(), HEADER_LEN))?;
        Ok(ResultPdu { timestamp, sets })
    }

    pub(super) fn encode(&self, w: &mut Writer<'_>, kind: ResultKind) -> Result<(), EncodeError> {
        let mut sets = SetsWriter::with_lead(0, MAX_LEN - kind.header_len());
        self.put_sets(&mut sets, kind).map_err(|error| w.error(error.reason))?;
        w.reserve(kind.header_len() + sets.len());
        w.bytes(&kind.fields(self.timestamp, sets.count())[..kind.header_len() - HEADER_LEN]);
        sets.parts().into_iter().for_each(|part| w.bytes(part));
        Ok(())
    }

    fn put_sets(&self, out: &mut SetsWriter, kind: ResultKind) -> Result<(), EncodeError> {
        for set in &self.sets {
            match &set.values {
                Ok(values) => {
                    out.begin_set(set.pmid)?;
                    values.iter().try_for_each(|value| out.raw(value.inst, &value.value))?;
                    out.end_set()?;
                }
                Err(error) => out.set_error(set.pmid, *error)?,
            }
        }
        out.place_blocks((kind.header_len() + out.sets_len()) / WORD)
    }
}

/// The `count` sets that begin at `start` of a frame's body.
fn take_sets(frame: &Frame, start: usize, count: usize) -> Result<Vec<RawValueSet>, SetsError> {
    let body = &frame.body[..];
    let mut heads = Vec::with_capacity(count);
    let mut at = start;
    for _ in 0..count {
        let head = SetHead::read(body, at)?;
        at = head.end();
        heads.push(head);
    }
    check_tiling(body, at, BODY_BIAS, heads.iter().copied(), &mut Vec::new())?;
    let raw = |(inst, value): (Inst, ValueRef<'_>)| RawInstanceValue {
        inst,
        value: match value {
            ValueRef::InSitu(word) => RawValue::InSitu(word),
            ValueRef::Block(block) => RawValue::Block(Block(frame.body.slice_ref(block))),
        },
    };
    let raw_set = |SetRef { pmid, values }: SetRef<'_>| RawValueSet {
        pmid,
        values: values.map(|values| values.iter().map(raw).collect()),
    };
    Ok(heads.iter().map(|head| raw_set(head.set(body, body, BODY_BIAS))).collect())
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Unsendable;
    use crate::codec::testing::*;
    use crate::sets::MAX_BLOCK;
    use crate::{Frame, Pdu, kind};
    use pcp_model::{PM_IN_NULL, Value};

    fn set(pmid: u32, value: Value) -> RawValueSet {
        RawValueSet::from_values(&ValueSet::singular(Pmid(pmid), value)).unwrap()
    }

    #[test]
    fn captured_results() {
        let at = |sec, usec: u32| Timestamp::new(sec, usec * 1000);
        let result = |timestamp, set| Pdu::Result(ResultPdu { timestamp, sets: vec![set] });
        captured(
            "0000002c 00007001 00000000 6b001c76 00015a3f 00000001
             0740000a 00000001 00000000 ffffffff 00000001",
            &result(at(0x6b00_1c76, 0x15a3f), set(0x0740_000a, Value::I32(1))),
        );
        captured(
            "00000038 00007001 00000000 6b001c76 00018dfe 00000001
             07400017 00000001 00000001 ffffffff 0000000b 0200000c 00000000 000f4240",
            &result(at(0x6b00_1c76, 0x18dfe), set(0x0740_0017, Value::I64(1_000_000))),
        );
        let unknown = RawValueSet { pmid: Pmid(0x0740_0036), values: Err(PmError::PMID) };
        captured(
            "00000020 00007001 00000000 6b001c76 00000000 00000001 07400036 ffffcfba",
            &result(at(0x6b00_1c76, 0), unknown),
        );
    }

    #[test]
    fn captured_high_resolution_results() {
        let timestamp = Timestamp::new(0x6b00_2211, 0x37bc_bfed);
        let sets = vec![
            RawValueSet { pmid: Pmid(0x3200_000a), values: Err(PmError::NOAGENT) },
            set(0x0740_000a, Value::I32(1)),
            set(0x0740_000a, Value::I32(1)),
            set(0x0740_03e8, "foo".into()),
            RawValueSet { pmid: Pmid::NULL, values: Err(PmError::NOAGENT) },
        ];
        captured(
            "00000074 00007015 00000000 00000005 00000000 6b002211 00000000 37bcbfed
             3200000a ffffcf9e 0740000a 00000001 00000000 ffffffff 00000001
             0740000a 00000001 00000000 ffffffff 00000001
             074003e8 00000001 00000001 ffffffff 0000001b ffffffff ffffcf9e 06000008 666f6f00",
            &Pdu::HighResResult(ResultPdu { timestamp, sets }),
        );
    }

    #[test]
    fn captured_event_array() {
        let text = "0000008c 00007015 00000000 00000001 00000000 6b002211 00000000 37b6df3f
             0740008b 00000002 00000002 00000000 0000000f 00000001 00000017
             0a000020 00000001 00000000 6b002207 00000000 37b66574 00000001 00000000
             0a000030 00000001 00000000 6b002211 00000000 37b668a9 00000001 00000001
             07400086 0600000c 66657463 68202331";
        let bytes = unhex(text);
        let array = |range: std::ops::Range<usize>| Value::HighResEvent(bytes[range].to_vec().into());
        let value = |inst, value| InstanceValue { inst, value };
        let values = vec![value(0, array(0x3c..0x5c)), value(1, array(0x5c..0x8c))];
        let pmid = Pmid(0x0740_008b);
        let sets = vec![RawValueSet::from_values(&ValueSet { pmid, values: Ok(values.clone()) }).unwrap()];
        let back = sets[0].to_values(ValueType::HighResEvent);
        assert_eq!(back, Ok(ValueSet { pmid, values: Ok(values) }));
        let timestamp = Timestamp::new(0x6b00_2211, 0x37b6_df3f);
        captured(text, &Pdu::HighResResult(ResultPdu { timestamp, sets }));
    }

    /// One set with two string values "a" in blocks, the rest of the PDU given.
    fn two_blocks(rest: &str) -> Frame {
        body(kind::RESULT, &format!("00000000 00000000 00000001 0740001f 00000002 00000001 {rest}"))
    }

    #[test]
    fn blocks_may_come_in_any_order_but_must_tile() {
        let block = "06000006 61007e7e";
        let ok = |rest: String| assert!(Pdu::decode(&two_blocks(&rest)).is_ok(), "{rest}");
        ok(format!("00000000 0000000d 00000001 0000000f {block} {block}"));
        ok(format!("00000000 0000000f 00000001 0000000d {block} {block}"));
        let bad = |rest: String, offset, problem| refused(&two_blocks(&rest), offset, problem);
        let blocks = |what| Problem::Blocks { what };
        bad(format!("00000000 0000000d 00000001 0000000d {block}"), 52, blocks("overlaps another"));
        bad(
            format!("00000000 0000000d 00000001 00000010 {block} 00000000 {block}"),
            60,
            blocks("missing here"),
        );
        bad(
            format!("00000000 0000000e 00000001 00000010 00000000 {block} {block}"),
            52,
            blocks("missing here"),
        );
        bad(
            format!("00000000 0000000d 00000001 0000000f {block} {block} 00000000"),
            68,
            Problem::Trailing { extra: 4 },
        );
        bad(
            format!("00000000 0000000d 00000001 0000000f {block} 06000006 6100"),
            60,
            blocks("runs past the end"),
        );
        bad(format!("00000000 0000000d 00000001 00000011 {block} {block}"), 48, blocks("outside the PDU"));
        bad(format!("00000000 0000000d 00000001 ffffffff {block} {block}"), 48, blocks("outside the PDU"));
        bad(format!("00000000 00000000 00000001 0000000f {block} {block}"), 40, blocks("outside the PDU"));
        bad(format!("00000000 0000000c 00000001 0000000f {block} {block}"), 48, blocks("overlaps another"));
        bad(
            format!("00000000 0000000d 00000001 0000000f {block} 06000003 61007e7e"),
            60,
            blocks("shorter than its header"),
        );
    }

    #[test]
    fn counts_must_fit() {
        let micro = |rest: &str| body(kind::RESULT, &format!("00000000 00000000 {rest}"));
        let count = |field, count| Problem::Count { field, count };
        refused(&micro("ffffffff"), 20, count("numpmid", -1));
        refused(&micro("00000001"), 20, count("numpmid", 1));
        refused(&micro("00000000 00000000"), 24, Problem::Trailing { extra: 4 });
        refused(
            &micro("00000001 0740000a 7fffffff 00000000 ffffffff 00000001"),
            28,
            count("numval", i32::MAX),
        );
        refused(&micro("00000001 0740000a 00000000 00000000"), 32, Problem::Trailing { extra: 4 });
        refused(&micro("00000001 0740000a ffffcfba 00000000"), 32, Problem::Trailing { extra: 4 });
        refused(
            &micro("00000001 0740000a 00000001 00000003 ffffffff 00000001"),
            32,
            Problem::Value { field: "valfmt", value: 3 },
        );
        let highres = body(kind::HIGHRES_RESULT, &format!("ffffffff {}", "00".repeat(16)));
        refused(&highres, 12, count("numpmid", -1));
        assert!(Pdu::decode(&micro("00000000")).is_ok());
    }

    #[test]
    fn an_event_array_with_wrong_counts_is_refused() {
        let frame = body(
            kind::RESULT,
            "00000000 00000000 00000001 07400088 00000001 00000002 ffffffff 0000000b 09000008 7fffffff",
        );
        refused(&frame, 52, Problem::EventArray { field: "record" });
    }

    #[test]
    fn a_timestamp_is_never_refused_and_keeps_its_seconds() {
        let frame = body(kind::RESULT, "f0484fb9 ffffffff 00000000");
        let Ok(Pdu::Result(result)) = Pdu::decode(&frame) else { panic!("refused") };
        assert_eq!(result.timestamp, Timestamp::new(0xf0484fb9_u32 as i32 as i64, 0));
    }

    #[test]
    fn what_a_set_cannot_say_is_not_sent() {
        let raw =
            |inst, value: Value| RawInstanceValue { inst, value: RawValue::from_value(&value).unwrap() };
        let send = |values| {
            let sets = vec![RawValueSet { pmid: Pmid(1), values }];
            Pdu::Result(ResultPdu { timestamp: Timestamp::default(), sets }).to_bytes(0).unwrap_err().reason
        };
        let mixed = vec![raw(0, Value::I32(1)), raw(PM_IN_NULL, "a".into())];
        assert_eq!(send(Ok(mixed)), Unsendable::MixedFormats { pmid: Pmid(1) });
        assert_eq!(send(Err(PmError(3))), Unsendable::NotAnError { code: 3 });
        let array = RawValue::Block(Block::new(10, &[0, 0, 0, 1]).unwrap());
        let wrong_count = vec![RawInstanceValue { inst: 5, value: array }];
        assert_eq!(send(Ok(wrong_count)), Unsendable::NotAnEventArray { pmid: Pmid(1), inst: 5 });
        assert_eq!(Block::new(7, &vec![0; MAX_BLOCK]).unwrap_err(), MAX_BLOCK + 4);
    }

    fn arb_values() -> impl Strategy<Value = Vec<RawInstanceValue>> {
        let block = (0..=8u8, prop::collection::vec(any::<u8>(), 0..20))
            .prop_map(|(value_type, data)| RawValue::Block(Block::new(value_type, &data).unwrap()));
        prop_oneof![
            prop::collection::vec((any::<i32>(), any::<[u8; 4]>().prop_map(RawValue::InSitu)), 0..8).boxed(),
            prop::collection::vec((any::<i32>(), block), 0..8).boxed(),
        ]
        .prop_map(|values| values.into_iter().map(|(inst, value)| RawInstanceValue { inst, value }).collect())
    }

    pub(crate) fn arb_sets() -> impl Strategy<Value = Vec<RawValueSet>> {
        let values = prop_oneof![
            4 => arb_values().prop_map(Ok),
            1 => (i32::MIN..0).prop_map(|code| Err(PmError(code))),
        ];
        prop::collection::vec((any::<u32>(), values), 0..20).prop_map(|sets| {
            sets.into_iter().map(|(pmid, values)| RawValueSet { pmid: Pmid(pmid), values }).collect()
        })
    }

    proptest! {
        #[test]
        fn round_trips(sets in arb_sets(), sec: i32, sec64: i64, nsec in 0..1_000_000_000_u32) {
            let timestamp = Timestamp { sec: sec.into(), nsec: nsec / 1000 * 1000 };
            round_trip(&Pdu::Result(ResultPdu { timestamp, sets: sets.clone() }));
            let timestamp = Timestamp { sec: sec64, nsec };
            round_trip(&Pdu::HighResResult(ResultPdu { timestamp, sets }));
        }
    }
}
