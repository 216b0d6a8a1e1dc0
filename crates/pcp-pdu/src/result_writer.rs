//! A RESULT or HIGHRES_RESULT written value by value: the answer to a fetch.
//!
//! Sets and blocks grow in two buffers of their own, which one `writev(2)` sends. Offsets of blocks
//! are counted from the start of the block buffer and moved by [`ResultWriter::finish`], when the length
//! of the sets is known.
//!
//! Cost: per value one write of 8 bytes and, unless the value is in place, one of its block; `finish`
//! steps over the sets once and touches every offset. Event arrays are written by their owner straight
//! into the block buffer. No allocation once the buffers have grown to the size of the largest answer.

use byteorder::{BigEndian, ByteOrder};

use super::codec::{MAX_LEN, PAD, pad4};
use super::fault::{EncodeError, Unsendable};
use super::result::{HIGHRES_HEADER, ResultKind, VALUE_LEN};
use super::value::{BLOCK_HEADER, DPTR, INSITU, MAX_BLOCK, RawValue, SPTR};
use super::{HEADER_LEN, events, kind};
use pcp_model::{Inst, PmError, Pmid, Timestamp, Value, ValueType};

const WORD: usize = 4;
/// The header of either kind ends here in the buffer of the sets.
const SETS: usize = HIGHRES_HEADER;
/// Offsets within a set.
const NUMVAL: usize = 4;
const VALFMT: usize = 8;
const VALUES: usize = 12;

/// Writes one result at a time. Order of calls: [`reset`](ResultWriter::reset), then for each metric
/// [`set_error`](ResultWriter::set_error), or [`begin_set`](ResultWriter::begin_set), values and
/// [`end_set`](ResultWriter::end_set); last, [`finish`](ResultWriter::finish).
///
/// A call that fails adds nothing: the caller can go on with other values, or turn the whole set into
/// an error with [`fail_set`](ResultWriter::fail_set).
#[derive(Debug)]
pub struct ResultWriter {
    /// Room for the longer header, then the sets.
    head: Vec<u8>,
    blocks: Vec<u8>,
    max_len: usize,
    sets: i32,
    open: Option<OpenSet>,
    /// Only `reset` is allowed: `finish` was called, or a closure of `event_block` destroyed blocks.
    spent: bool,
}

#[derive(Clone, Copy, Debug)]
struct OpenSet {
    pmid: Pmid,
    /// Where the set begins in `head`.
    start: usize,
    /// Length of `blocks` when it began.
    blocks: usize,
    values: i32,
    in_situ: bool,
}

impl Default for ResultWriter {
    fn default() -> ResultWriter {
        ResultWriter::new(MAX_LEN)
    }
}

impl ResultWriter {
    /// A writer of results of at most `max_len` bytes, header included.
    pub fn new(max_len: usize) -> ResultWriter {
        ResultWriter {
            head: vec![0; SETS],
            blocks: Vec::new(),
            max_len: max_len.min(MAX_LEN),
            sets: 0,
            open: None,
            spent: false,
        }
    }

    /// Starts a new result; the buffers keep their memory.
    pub fn reset(&mut self) {
        self.head.truncate(SETS);
        self.blocks.clear();
        self.sets = 0;
        self.open = None;
        self.spent = false;
    }

    /// Gives memory beyond `bytes` per buffer back, for instance after an unusually large answer.
    pub fn shrink_to(&mut self, bytes: usize) {
        self.head.shrink_to(bytes);
        self.blocks.shrink_to(bytes);
    }

    /// Bytes of the result so far, as a HIGHRES_RESULT.
    pub fn len(&self) -> usize {
        self.head.len() + self.blocks.len()
    }

    /// Whether there is no set yet.
    pub fn is_empty(&self) -> bool {
        self.head.len() == SETS
    }

    /// Bytes that event arrays may still take; never more than one array can have.
    pub fn room(&self) -> usize {
        let used = self.len() + VALUES + VALUE_LEN;
        self.max_len.saturating_sub(used).min(MAX_BLOCK & !3)
    }

    /// A metric without values: the reason.
    ///
    /// # Errors
    /// `error` is not negative, or a set is open.
    pub fn set_error(&mut self, pmid: Pmid, error: PmError) -> Result<(), EncodeError> {
        self.begin_set(pmid)?;
        self.fail_set(error).inspect_err(|_| self.cancel())
    }

    /// Begins the set of a metric.
    ///
    /// # Errors
    /// A set is open.
    pub fn begin_set(&mut self, pmid: Pmid) -> Result<(), EncodeError> {
        if self.open.is_some() {
            return Err(error(Unsendable::Misuse { call: "begin_set" }));
        }
        let start = self.head.len();
        self.open = Some(OpenSet { pmid, start, blocks: self.blocks.len(), values: 0, in_situ: false });
        let mut set = [0; NUMVAL + WORD];
        BigEndian::write_u32(&mut set, pmid.0);
        self.head.extend_from_slice(&set);
        Ok(())
    }

    /// Adds a value. All values of a set are of one type.
    ///
    /// # Errors
    /// The value or the result would be too long; the value is of another format than the set's
    /// others; an event value is not a packed array; no set is open.
    #[inline]
    pub fn value(&mut self, inst: Inst, value: &Value) -> Result<(), EncodeError> {
        match value {
            Value::I32(v) => self.in_situ(inst, v.to_be_bytes()),
            Value::U32(v) => self.in_situ(inst, v.to_be_bytes()),
            Value::Float(v) => self.number(inst, ValueType::Float, v.to_be_bytes()),
            Value::I64(v) => self.number(inst, ValueType::I64, v.to_be_bytes()),
            Value::U64(v) => self.number(inst, ValueType::U64, v.to_be_bytes()),
            Value::Double(v) => self.number(inst, ValueType::Double, v.to_be_bytes()),
            Value::String(text) => self.string(inst, text),
            Value::Aggregate(bytes) => self.block(inst, ValueType::Aggregate, bytes, b""),
            Value::Event(array) | Value::HighResEvent(array) => {
                self.check_counts(inst, array)?;
                self.event_block(inst, |out| out.extend_from_slice(array))
            }
        }
    }

    /// Adds a string value without a copy of its own; `text` has no NUL.
    ///
    /// # Errors
    /// As [`ResultWriter::value`].
    pub fn string(&mut self, inst: Inst, text: &[u8]) -> Result<(), EncodeError> {
        self.block(inst, ValueType::String, text, b"\0")
    }

    /// Adds a value as it came in another result.
    ///
    /// # Errors
    /// As [`ResultWriter::value`].
    pub fn raw(&mut self, inst: Inst, value: &RawValue) -> Result<(), EncodeError> {
        match value {
            RawValue::InSitu(word) => self.in_situ(inst, *word),
            RawValue::Block(block) => {
                let set = self.check(inst, false, block.bytes().len(), "raw")?;
                if matches!(block.value_type(), events::EVENT | events::HIGHRES_EVENT) {
                    self.check_counts(inst, block.bytes())?;
                }
                self.push(set, inst, value.format());
                self.blocks.extend_from_slice(block.bytes());
                self.pad();
                Ok(())
            }
        }
    }

    /// Adds the event array that `write` appends to the block buffer: complete and in network order,
    /// header word included, as `event` packs it. If it appends nothing, there is no value.
    /// `write` must leave alone what it finds in the buffer. Its counts of records and parameters are
    /// taken on trust here, and nowhere else: wrong ones crash pmcd 6.0.3.
    ///
    /// # Errors
    /// What was appended is not an array, or it or the result would be too long (see
    /// [`ResultWriter::room`]); no set is open.
    pub fn event_block<R>(
        &mut self,
        inst: Inst,
        write: impl FnOnce(&mut Vec<u8>) -> R,
    ) -> Result<R, EncodeError> {
        let set = self.check(inst, false, 0, "event_block")?;
        let start = self.blocks.len();
        let outcome = write(&mut self.blocks);
        let Some(array) = self.blocks.get(start..) else {
            self.spent = true;
            return Err(error(Unsendable::Misuse { call: "event_block" }));
        };
        if array.is_empty() {
            return Ok(outcome);
        }
        let len = array.len();
        if let Err(error) =
            check_array(set.pmid, inst, array).and(self.fits(set.pmid, inst, len, pad4(len) - len))
        {
            self.blocks.truncate(start);
            return Err(error);
        }
        self.push_at(set, inst, SPTR, start);
        self.pad();
        Ok(outcome)
    }

    /// Ends the open set. Without any value it says that there are none.
    ///
    /// # Errors
    /// No set is open.
    pub fn end_set(&mut self) -> Result<(), EncodeError> {
        let set = self.open.take().ok_or(error(Unsendable::Misuse { call: "end_set" }))?;
        self.close(set.start, set.values);
        Ok(())
    }

    /// Ends the open set with an error in place of the values it has so far.
    ///
    /// # Errors
    /// `code` is not negative, or no set is open.
    pub fn fail_set(&mut self, code: PmError) -> Result<(), EncodeError> {
        if code.0 >= 0 {
            return Err(error(Unsendable::NotAnError { code: code.0 }));
        }
        let set = self.rollback("fail_set")?;
        self.close(set.start, code.0);
        Ok(())
    }

    /// Ends the open set without the values it has so far: the metric has none.
    ///
    /// # Errors
    /// No set is open.
    pub fn clear_set(&mut self) -> Result<(), EncodeError> {
        let set = self.rollback("clear_set")?;
        self.close(set.start, 0);
        Ok(())
    }

    /// The result: header and sets, then blocks. From an agent to pmcd: [`ResultKind::Micro`], a zero
    /// timestamp (or [`super::StateChange`] bits as its seconds) and `from` 0. Writing another result
    /// needs a [`ResultWriter::reset`] before.
    ///
    /// # Errors
    /// The result is too long, a set is open, or an event array's writer destroyed blocks.
    pub fn finish(
        &mut self,
        kind: ResultKind,
        timestamp: Timestamp,
        from: i32,
    ) -> Result<[&[u8]; 2], EncodeError> {
        if self.open.is_some() || self.spent {
            return Err(EncodeError { kind: kind.kind(), reason: Unsendable::Misuse { call: "finish" } });
        }
        let skip = SETS - kind.header_len();
        let len = self.len() - skip;
        if len > self.max_len {
            let reason = Unsendable::TooLong { max: self.max_len };
            return Err(EncodeError { kind: kind.kind(), reason });
        }
        let (header, sets) = self.head.split_at_mut(SETS);
        move_offsets(sets, ((kind.header_len() + sets.len()) / WORD) as u32);
        let header = &mut header[skip..];
        BigEndian::write_u32(&mut header[0..], len as u32);
        BigEndian::write_u32(&mut header[4..], kind.kind());
        BigEndian::write_i32(&mut header[8..], from);
        let fields = kind.fields(timestamp, self.sets);
        header[HEADER_LEN..].copy_from_slice(&fields[..kind.header_len() - HEADER_LEN]);
        // The sets' offsets are final now: finishing twice would move them again.
        self.spent = true;
        Ok([&self.head[skip..], &self.blocks])
    }

    #[inline]
    fn in_situ(&mut self, inst: Inst, word: [u8; 4]) -> Result<(), EncodeError> {
        let set = self.check(inst, true, 0, "value")?;
        self.push_word(set, inst, INSITU, word);
        Ok(())
    }

    #[inline]
    fn number<const N: usize>(
        &mut self,
        inst: Inst,
        value_type: ValueType,
        data: [u8; N],
    ) -> Result<(), EncodeError> {
        let set = self.check(inst, false, BLOCK_HEADER + N, "value")?;
        self.push(set, inst, DPTR);
        self.blocks.extend_from_slice(&block_header(value_type, N));
        self.blocks.extend_from_slice(&data);
        Ok(())
    }

    fn block(
        &mut self,
        inst: Inst,
        value_type: ValueType,
        data: &[u8],
        tail: &[u8],
    ) -> Result<(), EncodeError> {
        let len = data.len() + tail.len();
        let set = self.check(inst, false, BLOCK_HEADER + len, "value")?;
        self.push(set, inst, DPTR);
        self.blocks.extend_from_slice(&block_header(value_type, len));
        self.blocks.extend_from_slice(data);
        self.blocks.extend_from_slice(tail);
        self.pad();
        Ok(())
    }

    /// The open set, if a value in this format with a block of `len` bytes may join it.
    #[inline]
    fn check(
        &self,
        inst: Inst,
        in_situ: bool,
        len: usize,
        call: &'static str,
    ) -> Result<OpenSet, EncodeError> {
        let set = self.open.ok_or(error(Unsendable::Misuse { call }))?;
        if set.values > 0 && set.in_situ != in_situ {
            return Err(error(Unsendable::MixedFormats { pmid: set.pmid }));
        }
        self.fits(set.pmid, inst, len, pad4(len))?;
        Ok(OpenSet { in_situ, ..set })
    }

    /// Whether a block of `len` bytes can be sent for which `more` bytes, with padding, are yet to be written.
    #[inline]
    fn fits(&self, pmid: Pmid, inst: Inst, len: usize, more: usize) -> Result<(), EncodeError> {
        if len > MAX_BLOCK {
            return Err(error(Unsendable::ValueTooLong { pmid, inst, len }));
        }
        // `more` is bounded by MAX_BLOCK here, the buffers by memory: no overflow.
        if self.len() + WORD + VALUE_LEN + more > self.max_len {
            return Err(error(Unsendable::TooLong { max: self.max_len }));
        }
        Ok(())
    }

    /// An event array from outside this crate's builders has to prove its counts.
    fn check_counts(&self, inst: Inst, array: &[u8]) -> Result<(), EncodeError> {
        let pmid = self.open.map_or(Pmid::NULL, |set| set.pmid);
        events::check(array).map_err(|_| error(Unsendable::NotAnEventArray { pmid, inst }))
    }

    #[inline]
    fn push(&mut self, set: OpenSet, inst: Inst, format: i32) {
        self.push_at(set, inst, format, self.blocks.len());
    }

    #[inline]
    fn push_at(&mut self, set: OpenSet, inst: Inst, format: i32, block: usize) {
        self.push_word(set, inst, format, ((block / WORD) as u32).to_be_bytes());
    }

    #[inline]
    fn push_word(&mut self, set: OpenSet, inst: Inst, format: i32, word: [u8; 4]) {
        if set.values == 0 {
            self.head.extend_from_slice(&format.to_be_bytes());
        }
        let mut value = [0; VALUE_LEN];
        BigEndian::write_i32(&mut value, inst);
        value[WORD..].copy_from_slice(&word);
        self.head.extend_from_slice(&value);
        self.open = Some(OpenSet { values: set.values + 1, ..set });
    }

    fn pad(&mut self) {
        let len = self.blocks.len();
        self.blocks.resize(pad4(len), PAD);
    }

    /// Drops the open set's values.
    fn rollback(&mut self, call: &'static str) -> Result<OpenSet, EncodeError> {
        let set = self.open.take().ok_or(error(Unsendable::Misuse { call }))?;
        self.head.truncate(set.start + VALFMT);
        self.blocks.truncate(set.blocks);
        Ok(set)
    }

    /// Drops the open set altogether.
    fn cancel(&mut self) {
        if let Ok(set) = self.rollback("cancel") {
            self.head.truncate(set.start);
        }
    }

    fn close(&mut self, start: usize, numval: i32) {
        // `begin_set` wrote this word.
        BigEndian::write_i32(&mut self.head[start + NUMVAL..], numval);
        self.sets += 1;
    }
}

fn error(reason: Unsendable) -> EncodeError {
    EncodeError { kind: kind::RESULT, reason }
}

fn block_header(value_type: ValueType, data: usize) -> [u8; 4] {
    ((value_type.code() as u32) << 24 | (BLOCK_HEADER + data) as u32).to_be_bytes()
}

/// Whether `array` has the header word of an event array of its length.
fn check_array(pmid: Pmid, inst: Inst, array: &[u8]) -> Result<(), EncodeError> {
    const MIN_ARRAY: usize = 8;
    let len = array.len();
    if len > MAX_BLOCK {
        return Err(error(Unsendable::ValueTooLong { pmid, inst, len }));
    }
    if len >= MIN_ARRAY {
        let word = BigEndian::read_u32(array);
        let event = matches!((word >> 24) as u8, events::EVENT | events::HIGHRES_EVENT);
        if event && word as usize & MAX_BLOCK == len {
            return Ok(());
        }
    }
    Err(error(Unsendable::NotAnEventArray { pmid, inst }))
}

/// Adds `base` words to the offsets of all blocks.
fn move_offsets(mut sets: &mut [u8], base: u32) {
    // The sets are as this file wrote them: whole.
    while !sets.is_empty() {
        let numval = BigEndian::read_i32(&sets[NUMVAL..]);
        if numval <= 0 {
            sets = &mut sets[VALFMT..];
            continue;
        }
        let end = VALUES + numval as usize * VALUE_LEN;
        let (set, rest) = sets.split_at_mut(end);
        if BigEndian::read_i32(&set[VALFMT..]) != INSITU {
            for value in set[VALUES..].as_chunks_mut::<VALUE_LEN>().0 {
                let word = &mut value[WORD..];
                let offset = BigEndian::read_u32(word) + base;
                BigEndian::write_u32(word, offset);
            }
        }
        sets = rest;
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::codec::testing::*;
    use crate::result::tests::arb_sets;
    use crate::{Block, Pdu, RawInstanceValue, RawValueSet, ResultPdu};
    use pcp_model::PM_IN_NULL;

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
    fn a_warm_writer_keeps_its_memory_until_told() {
        let mut w = ResultWriter::default();
        w.begin_set(METRIC).unwrap();
        w.value(0, &Value::Aggregate(vec![0; 100_000].into())).unwrap();
        w.end_set().unwrap();
        let capacity = w.blocks.capacity();
        w.reset();
        assert_eq!(w.blocks.capacity(), capacity);
        w.shrink_to(1000);
        assert!(w.blocks.capacity() < 100_000);
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
