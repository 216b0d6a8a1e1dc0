//! RESULT and HIGHRES_RESULT (spec `wire.md` 7 and 18).
//!
//! ```text
//! RESULT          12 sec i32 | 16 usec i32 | 20 numpmid i32          | 24 sets | blocks
//! HIGHRES_RESULT  12 numpmid i32 | 16 sec i64 | 24 nsec i64          | 32 sets | blocks
//! set   := pmid u32 | numval i32, if > 0: | valfmt i32 | numval x { inst i32 | word }
//! word  := the value (valfmt 0), or its block's offset from the start of the PDU in words (1, 2)
//! block := type:8 len:24 | len - 4 bytes, padded with '~' to a multiple of 4
//! ```
//!
//! Cost of decoding: two passes over the sets, one allocation for each metric with values; blocks are
//! slices of the frame. Blocks must tile the space behind the sets, in any order; in the order of their
//! values, which is what everybody sends, that is checked without memory.

use byteorder::{BigEndian, ByteOrder};
use bytes::{Buf, Bytes};

use super::codec::{MAX_LEN, Reader, Writer, pad4};
use super::fault::{EncodeError, PduError, Problem, Unsendable};
use super::value::{BLOCK_HEADER, Block, DPTR, INSITU, MAX_BLOCK, RawValue, SPTR};
use super::{HEADER_LEN, events, kind};
use pcp_model::{Inst, InstanceValue, PmError, Pmid, Timestamp, ValueSet, ValueType};

const WORD: usize = 4;
const MICRO_HEADER: usize = 24;
pub(super) const HIGHRES_HEADER: usize = 32;
/// A set without values.
const MIN_SET_LEN: usize = 8;
/// An instance and its value word.
pub(super) const VALUE_LEN: usize = 8;

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

impl ResultPdu {
    pub(super) fn decode(r: &mut Reader<'_>, kind: ResultKind) -> Result<ResultPdu, PduError> {
        let (timestamp, count) = match kind {
            ResultKind::Micro => {
                let (sec, usec) = (r.i32("sec")?, r.i32("usec")?);
                (micro_time(sec, usec), r.count("numpmid", MIN_SET_LEN)?)
            }
            ResultKind::HighRes => {
                // numpmid comes before the timestamp here.
                let place = r.place();
                let numpmid = r.i32("numpmid")?;
                let (sec, nsec) = (r.i64("sec")?, r.i64("nsec")?);
                match usize::try_from(numpmid) {
                    Ok(count) if count <= r.remaining() / MIN_SET_LEN => (nano_time(sec, nsec), count),
                    _ => {
                        let problem = Problem::Count { field: "numpmid", count: numpmid };
                        return Err(r.error_at(place, problem));
                    }
                }
            }
        };
        let mut tiling = Tiling { next: end_of_sets(r, count)?, strays: Vec::new(), events: Vec::new() };
        let mut sets = Vec::with_capacity(count);
        for _ in 0..count {
            sets.push(take_set(r, &mut tiling)?);
        }
        tiling.finish(r)?;
        Ok(ResultPdu { timestamp, sets })
    }

    pub(super) fn encode(&self, w: &mut Writer<'_>, kind: ResultKind) -> Result<(), EncodeError> {
        let (mut sets_len, mut blocks_len) = (0, 0);
        for set in &self.sets {
            let (set_len, block_len) = lengths(set).map_err(|reason| w.error(reason))?;
            sets_len += set_len;
            blocks_len += block_len;
        }
        let mut at = kind.header_len() + sets_len;
        if at + blocks_len > MAX_LEN {
            return Err(w.error(Unsendable::TooLong { max: MAX_LEN }));
        }
        w.reserve(at + blocks_len);
        w.bytes(&kind.fields(self.timestamp, self.sets.len() as i32)[..kind.header_len() - HEADER_LEN]);
        for set in &self.sets {
            w.u32(set.pmid.0);
            let values = match &set.values {
                Ok(values) => values,
                Err(error) => {
                    w.i32(error.0);
                    continue;
                }
            };
            w.count("numval", values.len())?;
            if let Some(first) = values.first() {
                w.i32(first.value.format());
            }
            for RawInstanceValue { inst, value } in values {
                w.i32(*inst);
                match value {
                    RawValue::InSitu(word) => w.bytes(word),
                    RawValue::Block(block) => {
                        w.u32((at / WORD) as u32);
                        at += pad4(block.0.len());
                    }
                }
            }
        }
        let values = self.sets.iter().filter_map(|set| set.values.as_ref().ok()).flatten();
        for RawInstanceValue { value, .. } in values {
            if let RawValue::Block(block) = value {
                w.bytes(&block.0);
                w.pad(block.0.len());
            }
        }
        Ok(())
    }
}

/// A fraction outside the second is clamped, so that the seconds (an agent's flags) stay what they are.
fn micro_time(sec: i32, usec: i32) -> Timestamp {
    Timestamp { sec: sec.into(), nsec: usec.clamp(0, 999_999) as u32 * 1000 }
}

fn nano_time(sec: i64, nsec: i64) -> Timestamp {
    Timestamp { sec, nsec: nsec.clamp(0, 999_999_999) as u32 }
}

/// Where the value sets end, checking their counts. `r` stays at the first set.
fn end_of_sets(r: &Reader<'_>, count: usize) -> Result<usize, PduError> {
    let mut r = r.clone();
    for _ in 0..count {
        r.u32("pmid")?;
        let numval = r.i32("numval")?;
        if numval > 0 {
            r.i32("valfmt")?;
            let place = r.place();
            let values = numval as usize;
            if values > r.remaining() / VALUE_LEN {
                return Err(r.error_at(place - 8, Problem::Count { field: "numval", count: numval }));
            }
            r.take("values", values * VALUE_LEN)?;
        }
    }
    Ok(r.place())
}

fn take_set(r: &mut Reader<'_>, tiling: &mut Tiling) -> Result<RawValueSet, PduError> {
    let pmid = Pmid(r.u32("pmid")?);
    let numval = r.i32("numval")?;
    if numval <= 0 {
        let values = if numval < 0 { Err(PmError(numval)) } else { Ok(Vec::new()) };
        return Ok(RawValueSet { pmid, values });
    }
    let valfmt = r.i32("valfmt")?;
    if !matches!(valfmt, INSITU | DPTR | SPTR) {
        return Err(r.error_before(Problem::Value { field: "valfmt", value: valfmt }));
    }
    // `end_of_sets` has found this many values.
    let mut values = Vec::with_capacity(numval as usize);
    for _ in 0..numval {
        let inst = r.i32("inst")?;
        let word = r.u32("value")?;
        let value = match valfmt {
            INSITU => RawValue::InSitu(word.to_be_bytes()),
            _ => RawValue::Block(take_block(r, word, tiling)?),
        };
        values.push(RawInstanceValue { inst, value });
    }
    Ok(RawValueSet { pmid, values: Ok(values) })
}

/// The block at word `word` of the PDU.
fn take_block(r: &Reader<'_>, word: u32, tiling: &mut Tiling) -> Result<Block, PduError> {
    let place = r.place() - WORD;
    let fault = |what| r.error_at(place, Problem::Blocks { what });
    let start = (word as usize).checked_mul(WORD).ok_or(fault("outside the PDU"))?;
    let header = r.bytes_at(start, start.saturating_add(BLOCK_HEADER)).ok_or(fault("outside the PDU"))?;
    let word = (&header[..]).get_u32();
    let (value_type, len) = ((word >> 24) as u8, word as usize & MAX_BLOCK);
    if len < BLOCK_HEADER {
        return Err(r.error_at(start, Problem::Blocks { what: "shorter than its header" }));
    }
    let end = start + pad4(len);
    let Some(padded) = r.bytes_at(start, end) else {
        return Err(r.error_at(start, Problem::Blocks { what: "runs past the end" }));
    };
    tiling.add(start, end);
    let block = padded.slice(..len);
    if matches!(value_type, events::EVENT | events::HIGHRES_EVENT) {
        tiling.events.push((start, block.clone()));
    }
    Ok(Block(block))
}

/// Checks that blocks fill the space behind the value sets without gap or overlap.
struct Tiling {
    /// Everything before this offset is taken.
    next: usize,
    /// Blocks that did not start at `next` when they came.
    strays: Vec<(usize, usize)>,
    /// Event arrays and where they start. They are looked into when it is known that no two values
    /// share one, or a small PDU could cost a lot of time.
    events: Vec<(usize, Bytes)>,
}

impl Tiling {
    fn add(&mut self, start: usize, end: usize) {
        if start == self.next {
            self.next = end;
        } else {
            self.strays.push((start, end));
        }
    }

    fn finish(mut self, r: &Reader<'_>) -> Result<(), PduError> {
        self.strays.sort_unstable();
        for (start, end) in self.strays {
            if start < self.next {
                return Err(r.error_at(start, Problem::Blocks { what: "overlaps another" }));
            }
            if start > self.next {
                return Err(r.error_at(self.next, Problem::Blocks { what: "missing here" }));
            }
            self.next = end;
        }
        let extra = r.pdu_len() - self.next;
        if extra != 0 {
            return Err(r.error_at(self.next, Problem::Trailing { extra }));
        }
        for (start, array) in self.events {
            events::check(&array)
                .map_err(|(offset, field)| r.error_at(start + offset, Problem::EventArray { field }))?;
        }
        Ok(())
    }
}

/// Bytes a set takes among the sets, and among the blocks.
fn lengths(set: &RawValueSet) -> Result<(usize, usize), Unsendable> {
    let values = match &set.values {
        Ok(values) => values,
        Err(error) if error.0 < 0 => return Ok((MIN_SET_LEN, 0)),
        Err(error) => return Err(Unsendable::NotAnError { code: error.0 }),
    };
    let mut blocks = 0;
    let in_situ = values.iter().filter(|v| matches!(v.value, RawValue::InSitu(_))).count();
    if in_situ != 0 && in_situ != values.len() {
        return Err(Unsendable::MixedFormats { pmid: set.pmid });
    }
    for value in values {
        if let RawValue::Block(block) = &value.value {
            // Wrong counts in an event array crash pmcd 6.0.3.
            let event = matches!(block.value_type(), events::EVENT | events::HIGHRES_EVENT);
            if event && events::check(&block.0).is_err() {
                return Err(Unsendable::NotAnEventArray { pmid: set.pmid, inst: value.inst });
            }
            blocks += pad4(block.0.len());
        }
    }
    let valfmt = if values.is_empty() { 0 } else { WORD };
    Ok((MIN_SET_LEN + valfmt + values.len() * VALUE_LEN, blocks))
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::testing::*;
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

    pub fn arb_sets() -> impl Strategy<Value = Vec<RawValueSet>> {
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
