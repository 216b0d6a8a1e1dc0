//! A fetch result kept in the bytes it came in, for whoever fetches the same metrics again and again.
//!
//! Values are read in place, in network order; the layout is that of RESULT and HIGHRES_RESULT
//! ([`super::ResultPdu`] decodes the same PDUs into values of their own). Sets that do not come from a PDU
//! (derived metrics, interpolated archives) are appended in the same layout, so that there is one
//! representation for all.
//!
//! Cost of [`Fetched::decode`]: one step for each set and each value block, one copy of the PDU. No
//! allocation once the buffers have grown to the size of the largest result.

use byteorder::{BigEndian, ByteOrder};
use bytes::Bytes;

use super::codec::pad4;
use super::error::StateChange;
use super::fault::{PduError, Problem};
use super::frame::HEADER_LEN;
use super::result::{HIGHRES_HEADER, ResultKind, VALUE_LEN};
use super::value::{BLOCK_HEADER, Block, DPTR, INSITU, MAX_BLOCK, RawValue, SPTR};
use super::{events, kind};
use pcp_model::{Inst, PmError, Pmid, Timestamp, Value, ValueSet, ValueType};

const WORD: usize = 4;
const SET_HEADER: usize = 8;

/// What a fetch returned: one value set for each metric asked for, in that order.
#[derive(Clone, Debug, Default)]
pub struct Fetched {
    /// When the values were collected.
    pub timestamp: Timestamp,
    /// What the collector said has changed, with this result.
    pub changes: StateChange,
    /// The PDU, header included, and what was appended; a multiple of four bytes.
    data: Vec<u8>,
    sets: Vec<Set>,
    /// Sets that were fetched for the sake of others.
    aside: Vec<Set>,
    /// Instances and value words of the set being appended.
    words: Vec<u8>,
    open: Option<Open>,
    /// Blocks that are not where the one before ends.
    strays: Vec<(usize, usize)>,
}

/// Where the values of a metric are.
#[derive(Clone, Copy, Debug)]
struct Set {
    pmid: Pmid,
    /// Number of values, or an error.
    count: i32,
    blocks: bool,
    /// Offset of the first instance in the data.
    at: usize,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    pmid: Pmid,
    count: i32,
    blocks: bool,
}

/// The values of one metric in a [`Fetched`].
#[derive(Clone, Copy, Debug)]
pub struct SetRef<'a> {
    /// The metric.
    pub pmid: Pmid,
    /// Its values, possibly none, or why there are none.
    pub values: Result<ValuesRef<'a>, PmError>,
}

/// Values of a metric, in the order they came.
#[derive(Clone, Copy, Debug)]
pub struct ValuesRef<'a> {
    data: &'a [u8],
    /// Instances and value words.
    words: &'a [u8],
    blocks: bool,
}

/// A value where it is: four bytes in network order, or a block with its header word, without padding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueRef<'a> {
    /// A 32-bit value, whose type only the descriptor tells.
    InSitu([u8; 4]),
    /// Anything else.
    Block(&'a [u8]),
}

impl Fetched {
    /// Nothing yet.
    pub fn new() -> Fetched {
        Fetched::default()
    }

    /// Takes over a RESULT or HIGHRES_RESULT, header included. [`Fetched::changes`] is left alone.
    ///
    /// # Errors
    /// What is wrong with the PDU and where; there are no sets then.
    pub fn decode(&mut self, pdu: &[u8]) -> Result<(), PduError> {
        self.clear();
        self.data.extend_from_slice(pdu);
        let decoded = self.index();
        if decoded.is_err() {
            self.clear();
        }
        decoded
    }

    /// Forgets all sets; the buffers keep their memory.
    pub fn clear(&mut self) {
        self.timestamp = Timestamp::default();
        self.data.clear();
        self.sets.clear();
        self.aside.clear();
        self.words.clear();
        self.open = None;
    }

    /// How many value sets.
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// Whether there is no value set.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// One value set, by its place in the request.
    pub fn set(&self, at: usize) -> Option<SetRef<'_>> {
        self.sets.get(at).map(|set| self.view(set))
    }

    /// The first value set of a metric.
    pub fn find(&self, pmid: Pmid) -> Option<SetRef<'_>> {
        self.sets.iter().find(|set| set.pmid == pmid).map(|set| self.view(set))
    }

    /// All value sets.
    pub fn sets(&self) -> impl ExactSizeIterator<Item = SetRef<'_>> {
        self.sets.iter().map(|set| self.view(set))
    }

    /// Appends a metric without values: the reason.
    pub fn push_error(&mut self, pmid: Pmid, error: PmError) {
        self.sets.push(Set { pmid, count: error.0.min(-1), blocks: false, at: 0 });
    }

    /// Begins to append the values of a metric.
    pub fn begin_set(&mut self, pmid: Pmid) {
        self.words.clear();
        self.open = Some(Open { pmid, count: 0, blocks: false });
    }

    /// Appends a value to the set that was begun. All values of a set are of one type.
    ///
    /// # Errors
    /// `PM_ERR_TOOBIG` for a value longer than a block can be, `PM_ERR_CONV` for one of another format than
    /// the set's others.
    pub fn push_value(&mut self, inst: Inst, value: &Value) -> Result<(), PmError> {
        let Some(open) = self.open.as_mut() else { return Err(PmError::BOTCH) };
        let raw = match value {
            Value::I32(v) => Some(v.to_be_bytes()),
            Value::U32(v) => Some(v.to_be_bytes()),
            _ => None,
        };
        if open.count > 0 && open.blocks == raw.is_some() {
            return Err(PmError::CONV);
        }
        let word = match raw {
            Some(word) => word,
            None => {
                let at = self.data.len();
                push_block(&mut self.data, value)?;
                ((at / WORD) as u32).to_be_bytes()
            }
        };
        open.blocks = raw.is_none();
        open.count += 1;
        self.words.extend_from_slice(&pair(inst, word));
        Ok(())
    }

    /// Appends a value as it is, in network order, to the set that was begun. All values of a set are of one format.
    ///
    /// # Errors
    /// `PM_ERR_CONV` for a value of another format than the set's others, or bytes that are no block.
    pub fn push(&mut self, inst: Inst, value: ValueRef<'_>) -> Result<(), PmError> {
        let Some(open) = self.open.as_mut() else { return Err(PmError::BOTCH) };
        let blocks = matches!(value, ValueRef::Block(_));
        if open.count > 0 && open.blocks != blocks {
            return Err(PmError::CONV);
        }
        let word = match value {
            ValueRef::InSitu(word) => word,
            ValueRef::Block(block) => {
                let block = block_at(block, 0).ok_or(PmError::CONV)?;
                let at = self.data.len();
                self.data.extend_from_slice(block);
                self.data.resize(at + pad4(block.len()), super::codec::PAD);
                ((at / WORD) as u32).to_be_bytes()
            }
        };
        open.blocks = blocks;
        open.count += 1;
        self.words.extend_from_slice(&pair(inst, word));
        Ok(())
    }

    /// Ends the set that was begun.
    pub fn end_set(&mut self) {
        if let Some(Open { pmid, count, blocks }) = self.open.take() {
            self.sets.push(Set { pmid, count, blocks, at: self.data.len() });
            self.data.extend_from_slice(&self.words);
        }
    }

    /// Turns the set that was begun into an error.
    pub fn fail_set(&mut self, error: PmError) {
        if let Some(open) = self.open.take() {
            self.push_error(open.pmid, error);
        }
    }

    /// Takes all sets out of the result, to be put back one by one ([`Fetched::keep`]) or read as operands
    /// ([`Fetched::operand`]).
    pub fn set_aside(&mut self) {
        self.aside.clear();
        std::mem::swap(&mut self.aside, &mut self.sets);
    }

    /// Appends a set that was set aside.
    pub fn keep(&mut self, at: usize) {
        self.sets.extend(self.aside.get(at));
    }

    /// A set that was set aside.
    pub fn operand(&self, at: usize) -> Option<SetRef<'_>> {
        self.aside.get(at).map(|set| self.view(set))
    }

    fn view(&self, set: &Set) -> SetRef<'_> {
        let values = match usize::try_from(set.count) {
            Err(_) => Err(PmError(set.count)),
            Ok(count) => Ok(ValuesRef {
                data: &self.data,
                words: self.data.get(set.at..set.at + count * VALUE_LEN).unwrap_or_default(),
                blocks: set.blocks,
            }),
        };
        SetRef { pmid: set.pmid, values }
    }

    /// Finds the sets of the PDU that `data` is.
    fn index(&mut self) -> Result<(), PduError> {
        let (kind, header) = match self.word(WORD, "type")? {
            kind::RESULT => (ResultKind::Micro, 24),
            kind::HIGHRES_RESULT => (ResultKind::HighRes, HIGHRES_HEADER),
            other => return Err(PduError { kind: other, offset: WORD, problem: Problem::UnknownType }),
        };
        let fault = |offset, problem| PduError { kind: kind.kind(), offset, problem };
        if self.data.len() < header || !self.data.len().is_multiple_of(WORD) {
            let have = self.data.len().saturating_sub(HEADER_LEN);
            return Err(fault(HEADER_LEN, Problem::Truncated { field: "header", need: header, have }));
        }
        let fields = &self.data[HEADER_LEN..header];
        let count = match kind {
            ResultKind::Micro => {
                let usec = BigEndian::read_i32(&fields[4..]).clamp(0, 999_999) as u32;
                self.timestamp = Timestamp { sec: BigEndian::read_i32(fields).into(), nsec: usec * 1000 };
                BigEndian::read_i32(&fields[8..])
            }
            ResultKind::HighRes => {
                let nsec = BigEndian::read_i64(&fields[12..]).clamp(0, 999_999_999) as u32;
                self.timestamp = Timestamp { sec: BigEndian::read_i64(&fields[4..]), nsec };
                BigEndian::read_i32(fields)
            }
        };
        let room = (self.data.len() - header) / SET_HEADER;
        let count = usize::try_from(count)
            .ok()
            .filter(|&count| count <= room)
            .ok_or_else(|| fault(HEADER_LEN, Problem::Count { field: "numpmid", count }))?;
        let mut at = header;
        for _ in 0..count {
            at = self.index_set(at).map_err(|(offset, problem)| fault(offset, problem))?;
        }
        self.check_blocks(at).map_err(|(offset, problem)| fault(offset, problem))
    }

    /// Takes the set at `at` up; where the next begins.
    fn index_set(&mut self, at: usize) -> Result<usize, (usize, Problem)> {
        let truncated =
            |need| (at, Problem::Truncated { field: "value set", need, have: self.data.len() - at });
        let head = self.data.get(at..at + SET_HEADER).ok_or(truncated(SET_HEADER))?;
        let (pmid, count) = (Pmid(BigEndian::read_u32(head)), BigEndian::read_i32(&head[WORD..]));
        let values = at + SET_HEADER;
        if count <= 0 {
            self.sets.push(Set { pmid, count, blocks: false, at: values });
            return Ok(values);
        }
        let valfmt = self.data.get(values..values + WORD).ok_or(truncated(SET_HEADER + WORD))?;
        let valfmt = BigEndian::read_i32(valfmt);
        if !matches!(valfmt, INSITU | DPTR | SPTR) {
            return Err((values, Problem::Value { field: "valfmt", value: valfmt }));
        }
        let values = values + WORD;
        if count as usize > (self.data.len() - values) / VALUE_LEN {
            return Err((at + WORD, Problem::Count { field: "numval", count }));
        }
        self.sets.push(Set { pmid, count, blocks: valfmt != INSITU, at: values });
        Ok(values + count as usize * VALUE_LEN)
    }

    /// Checks that blocks fill the space from `start` on, and are what they say.
    fn check_blocks(&mut self, start: usize) -> Result<(), (usize, Problem)> {
        self.strays.clear();
        let mut next = start;
        for set in self.sets.iter().filter(|set| set.blocks) {
            for word in (0..set.count as usize).map(|value| set.at + value * VALUE_LEN + WORD) {
                let fault = |what| (word, Problem::Blocks { what });
                let at = BigEndian::read_u32(self.data.get(word..).ok_or(fault("outside the PDU"))?) as usize;
                let at = at.checked_mul(WORD).ok_or(fault("outside the PDU"))?;
                let block = block_at(&self.data, at).ok_or(fault("outside the PDU"))?;
                let end = at + pad4(block.len());
                if end > self.data.len() {
                    return Err((at, Problem::Blocks { what: "runs past the end" }));
                }
                match at == next {
                    true => next = end,
                    false => self.strays.push((at, end)),
                }
            }
        }
        self.strays.sort_unstable();
        for &(at, end) in &self.strays {
            if at != next {
                return Err((at.min(next), Problem::Blocks { what: "neither in order nor in place" }));
            }
            next = end;
        }
        if next != self.data.len() {
            return Err((next, Problem::Trailing { extra: self.data.len() - next }));
        }
        // Only now, as no two values share an array: looking into them is linear in the PDU.
        for set in self.sets.iter().filter(|set| set.blocks) {
            for (_, value) in self.view(set).values.iter().flat_map(ValuesRef::iter) {
                if let ValueRef::Block(block @ [events::EVENT | events::HIGHRES_EVENT, ..]) = value {
                    events::check(block).map_err(|(_, field)| (set.at, Problem::EventArray { field }))?;
                }
            }
        }
        Ok(())
    }

    fn word(&self, at: usize, field: &'static str) -> Result<u32, PduError> {
        let problem = Problem::Truncated { field, need: at + WORD, have: self.data.len() };
        let word = self.data.get(at..at + WORD).ok_or(PduError { kind: 0, offset: at, problem })?;
        Ok(BigEndian::read_u32(word))
    }
}

/// An instance and its word, as they are in a result.
fn pair(inst: Inst, word: [u8; WORD]) -> [u8; VALUE_LEN] {
    let ([a, b, c, d], [w, x, y, z]) = (inst.to_be_bytes(), word);
    [a, b, c, d, w, x, y, z]
}

/// The block at an offset, header word included.
#[inline]
fn block_at(data: &[u8], at: usize) -> Option<&[u8]> {
    let rest = data.get(at..)?;
    let len = BigEndian::read_u32(rest.get(..BLOCK_HEADER)?) as usize & MAX_BLOCK;
    rest.get(..len).filter(|_| len >= BLOCK_HEADER)
}

/// Appends the block of a value that is not in place, padded.
fn push_block(data: &mut Vec<u8>, value: &Value) -> Result<(), PmError> {
    let start = data.len();
    let code = value.value_type().code() as u32;
    data.extend_from_slice(&[0; BLOCK_HEADER]);
    match value {
        Value::I32(_) | Value::U32(_) => {}
        Value::I64(v) => data.extend_from_slice(&v.to_be_bytes()),
        Value::U64(v) => data.extend_from_slice(&v.to_be_bytes()),
        Value::Float(v) => data.extend_from_slice(&v.to_be_bytes()),
        Value::Double(v) => data.extend_from_slice(&v.to_be_bytes()),
        Value::String(text) => {
            data.extend_from_slice(text);
            data.push(0);
        }
        Value::Aggregate(bytes) => data.extend_from_slice(bytes),
        Value::Event(array) | Value::HighResEvent(array) => {
            data.extend_from_slice(array.get(BLOCK_HEADER..).unwrap_or(&[0; WORD]));
        }
    }
    let len = data.len() - start;
    if len > MAX_BLOCK {
        data.truncate(start);
        return Err(PmError::TOOBIG);
    }
    BigEndian::write_u32(&mut data[start..], code << 24 | len as u32);
    data.resize(start + pad4(len), super::codec::PAD);
    Ok(())
}

impl<'a> SetRef<'a> {
    /// The values of a metric whose descriptor says `value_type`.
    ///
    /// # Errors
    /// `PM_ERR_CONV`: a value is not of that type.
    pub fn to_values(&self, value_type: ValueType) -> Result<ValueSet, PmError> {
        let value = |(inst, value): (Inst, ValueRef<'a>)| {
            Ok::<_, PmError>(pcp_model::InstanceValue { inst, value: value.to_value(value_type)? })
        };
        let values = match &self.values {
            Ok(values) => Ok(values.iter().map(value).collect::<Result<_, _>>()?),
            Err(error) => Err(*error),
        };
        Ok(ValueSet { pmid: self.pmid, values })
    }
}

impl<'a> ValuesRef<'a> {
    /// How many values.
    pub fn len(&self) -> usize {
        self.words.len() / VALUE_LEN
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// One value and its instance.
    #[inline(always)]
    pub fn get(&self, at: usize) -> Option<(Inst, ValueRef<'a>)> {
        let (pairs, _) = self.words.as_chunks::<VALUE_LEN>();
        pairs.get(at).map(|pair| self.pair(pair))
    }

    /// All values and their instances.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Inst, ValueRef<'a>)> + use<'a> {
        let values = *self;
        self.words.as_chunks::<VALUE_LEN>().0.iter().map(move |pair| values.pair(pair))
    }

    #[inline(always)]
    fn pair(&self, &[a, b, c, d, w, x, y, z]: &[u8; VALUE_LEN]) -> (Inst, ValueRef<'a>) {
        let word = [w, x, y, z];
        let value = match self.blocks {
            false => ValueRef::InSitu(word),
            // Checked when the set was taken up.
            true => ValueRef::Block(
                block_at(self.data, u32::from_be_bytes(word) as usize * WORD).unwrap_or_default(),
            ),
        };
        (Inst::from_be_bytes([a, b, c, d]), value)
    }
}

impl<'a> ValueRef<'a> {
    /// The value, of a metric whose descriptor says `value_type`; see [`RawValue::to_value`]. Numbers are
    /// read in place, all else is copied.
    ///
    /// # Errors
    /// `PM_ERR_CONV`: the value is not of that type.
    pub fn to_value(self, value_type: ValueType) -> Result<Value, PmError> {
        let block = match self {
            ValueRef::InSitu(word) => return RawValue::InSitu(word).to_value(value_type),
            ValueRef::Block(block) => block,
        };
        let eight = || match block {
            [code, _, _, _, number @ ..] if typed(*code, value_type) => <[u8; 8]>::try_from(number).ok(),
            _ => None,
        };
        let number = match value_type {
            ValueType::I64 => eight().map(|bytes| Value::I64(i64::from_be_bytes(bytes))),
            ValueType::U64 => eight().map(|bytes| Value::U64(u64::from_be_bytes(bytes))),
            ValueType::Double => eight().map(|bytes| Value::Double(f64::from_be_bytes(bytes))),
            ValueType::Float => match block {
                [code, _, _, _, number @ ..] if typed(*code, value_type) => {
                    number.try_into().ok().map(|bytes| Value::Float(f32::from_be_bytes(bytes)))
                }
                _ => None,
            },
            ValueType::I32 | ValueType::U32 => None,
            _ => {
                return RawValue::Block(Block(Bytes::copy_from_slice(block))).to_value(value_type);
            }
        };
        number.ok_or(PmError::CONV)
    }

    /// The bytes of a string, up to its first NUL.
    ///
    /// # Errors
    /// `PM_ERR_CONV`: the value is no string.
    pub fn text(self) -> Result<&'a [u8], PmError> {
        match self {
            ValueRef::Block([code, _, _, _, text @ ..]) if typed(*code, ValueType::String) => {
                Ok(text.split(|&byte| byte == 0).next().unwrap_or_default())
            }
            _ => Err(PmError::CONV),
        }
    }
}

/// Whether a block of this type number holds a value of the type: 0 stands for any.
fn typed(code: u8, value_type: ValueType) -> bool {
    i32::from(code) == value_type.code() || i32::from(code) == ValueType::I32.code()
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use proptest::prelude::*;

    use super::super::result::tests::arb_sets;
    use super::*;
    use crate::codec::testing::unhex;
    use crate::{Frame, FrameReader, Pdu, ResultPdu};

    fn frame(bytes: &[u8]) -> Frame {
        let mut input = BytesMut::from(bytes);
        FrameReader::new(usize::MAX).next(&mut input).unwrap().unwrap()
    }

    /// The same sets, as [`ResultPdu`] has them.
    fn raw(fetched: &Fetched) -> ResultPdu {
        let value = |(inst, value): (Inst, ValueRef<'_>)| super::super::RawInstanceValue {
            inst,
            value: match value {
                ValueRef::InSitu(word) => RawValue::InSitu(word),
                ValueRef::Block(block) => RawValue::Block(Block(Bytes::copy_from_slice(block))),
            },
        };
        let set = |set: SetRef<'_>| super::super::RawValueSet {
            pmid: set.pmid,
            values: set.values.map(|values| values.iter().map(value).collect()),
        };
        ResultPdu { timestamp: fetched.timestamp, sets: fetched.sets().map(set).collect() }
    }

    #[test]
    fn reads_a_captured_result_in_place() {
        let pdu = unhex(
            "00000074 00007015 00000000 00000005 00000000 6b002211 00000000 37bcbfed
             3200000a ffffcf9e 0740000a 00000001 00000000 ffffffff 00000001
             0740000a 00000001 00000000 ffffffff 00000001
             074003e8 00000001 00000001 ffffffff 0000001b ffffffff ffffcf9e 06000008 666f6f00",
        );
        let mut fetched = Fetched::new();
        fetched.decode(&pdu).unwrap();
        assert_eq!(fetched.timestamp, Timestamp::new(0x6b00_2211, 0x37bc_bfed));
        assert_eq!(fetched.len(), 5);
        let one = fetched.find(Pmid(0x0740_000a)).unwrap().to_values(ValueType::U32).unwrap();
        assert_eq!(one, ValueSet::singular(Pmid(0x0740_000a), 1_u32));
        let (inst, text) = fetched.set(3).unwrap().values.unwrap().get(0).unwrap();
        assert_eq!((inst, text.text()), (-1, Ok(&b"foo"[..])));
        assert_eq!(fetched.set(0).unwrap().values.err(), Some(PmError::NOAGENT));
        // What does not come from the PDU joins it.
        fetched.begin_set(Pmid(7));
        fetched.push_value(3, &Value::Double(1.5)).unwrap();
        assert_eq!(fetched.push_value(4, &Value::I32(1)), Err(PmError::CONV));
        fetched.push_value(5, &Value::Double(2.5)).unwrap();
        fetched.end_set();
        let derived = fetched.find(Pmid(7)).unwrap().values.unwrap();
        let doubles: Vec<_> =
            derived.iter().map(|(inst, value)| (inst, value.to_value(ValueType::Double))).collect();
        assert_eq!(doubles, [(3, Ok(Value::Double(1.5))), (5, Ok(Value::Double(2.5)))]);
        assert_eq!(derived.get(0).unwrap().1.to_value(ValueType::U64), Err(PmError::CONV));
    }

    proptest! {
        #[test]
        fn agrees_with_the_other_decoder(sets in arb_sets(), high in any::<bool>()) {
            let result = ResultPdu { timestamp: Timestamp::new(7, 8000), sets };
            let pdu = if high { Pdu::HighResResult(result) } else { Pdu::Result(result) };
            let bytes = pdu.to_bytes(0).unwrap();
            let (Pdu::Result(whole) | Pdu::HighResResult(whole)) = Pdu::decode(&frame(&bytes)).unwrap() else {
                unreachable!("the PDU was one of these")
            };
            let mut fetched = Fetched::new();
            fetched.decode(&bytes).unwrap();
            prop_assert_eq!(raw(&fetched), whole);
        }

        /// Whatever came over the wire: both accept it, or both refuse it.
        #[test]
        fn refuses_what_the_other_decoder_refuses(
            sets in arb_sets(), place in any::<prop::sample::Index>(), byte: u8, cut in 0_usize..3
        ) {
            let result = ResultPdu { timestamp: Timestamp::new(7, 8000), sets };
            let mut bytes = Pdu::HighResResult(result).to_bytes(0).unwrap().to_vec();
            let keep = bytes.len().saturating_sub(cut * 4).max(12);
            bytes.truncate(keep);
            if let Some(place) = (keep > 12).then(|| 12 + place.index(keep - 12)) {
                bytes[place] = byte;
            }
            let len = (bytes.len() as u32).to_be_bytes();
            bytes[..4].copy_from_slice(&len);
            let mut fetched = Fetched::new();
            let whole = Pdu::decode(&frame(&bytes));
            prop_assert_eq!(fetched.decode(&bytes).is_ok(), whole.is_ok(), "{:?}", whole);
            if let Ok(Pdu::HighResResult(whole)) = whole {
                prop_assert_eq!(raw(&fetched), whole);
            }
        }
    }
}
