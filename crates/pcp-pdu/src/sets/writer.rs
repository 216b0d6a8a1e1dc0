//! Value sets written value by value.
//!
//! Sets and blocks grow in two buffers of their own, which one `writev(2)` sends. Places of blocks
//! are counted from the start of the block buffer and moved by [`SetsWriter::place_blocks`], when the length
//! of the sets is known.
//!
//! Cost: per value one write of 8 bytes and, unless the value is in place, one of its block; `place_blocks`
//! steps over the sets once and touches every place. Event arrays are written by their owner straight
//! into the block buffer. No allocation once the buffers have grown to the size of the largest answer.

use byteorder::{BigEndian, ByteOrder};

use super::check;
use super::column::{append, pair};
use super::value::{block_at, block_format, block_header};
use super::view::{Head, Lie, RowSize, SetRef, ValuesRef, inst_of};
use super::{
    BLOCK_HEADER, DPTR, INSITU, MAX_BLOCK, RawValue, SET_HEADER, SPTR, SetHead, VALUE_LEN, ValueRef, WORD,
};
use crate::codec::{PAD, pad4};
use crate::events;
use crate::fault::{EncodeError, Unsendable};
use crate::kind;
use pcp_model::{Inst, Numbers, PmError, Pmid, Value, ValueType};

/// Where a set has its number of values.
const NUMVAL: usize = 4;

/// Writes value sets. Order of calls: [`reset`](SetsWriter::reset), then for each metric [`set_error`](SetsWriter::set_error), or
/// [`begin_set`](SetsWriter::begin_set), values and one that ends the set; last,
/// [`finish`](SetsWriter::finish) for a result, [`place_blocks`](SetsWriter::place_blocks) for anything else.
///
/// A call that fails adds nothing: the caller can go on with other values, or turn the whole set into
/// an error with [`fail_set`](SetsWriter::fail_set).
#[derive(Clone, Debug)]
pub struct SetsWriter {
    /// Room for what the owner puts in front, then the sets.
    head: Vec<u8>,
    lead: usize,
    blocks: Vec<u8>,
    pub(crate) max_len: usize,
    count: i32,
    /// A set was begun and not ended: this one. It is changed where it is, as it is looked at for each value.
    is_open: bool,
    set: OpenSet,
    /// Only `reset` is allowed: places are final, or a closure of `event_block` destroyed blocks.
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
    form: Form,
    /// The first so many values are in blocks with this header, one behind the other from `blocks` on.
    in_row: i32,
    header: [u8; BLOCK_HEADER],
}

/// What the values of an open set are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// In place, if there are any.
    InSitu,
    /// In blocks.
    Blocks,
    /// The same, a row of them; the instances are those of another set, which begin here in `head`.
    Lent(usize),
}

/// The instances of a set with a row of numbers, for sets that have the same ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Common {
    ids: Vec<Inst>,
    /// Where they are in the set.
    at: usize,
}

impl Common {
    /// Forgets them, as the writer forgets its sets.
    pub(crate) fn reset(&mut self) {
        self.ids.clear();
    }
}

impl SetsWriter {
    /// A writer of at most `max_len` bytes, with room for `lead` of them in front of the sets, whole words.
    pub fn with_lead(lead: usize, max_len: usize) -> SetsWriter {
        debug_assert!(lead.is_multiple_of(WORD), "sets begin at a word");
        SetsWriter {
            head: vec![0; lead],
            lead,
            blocks: Vec::new(),
            max_len,
            count: 0,
            is_open: false,
            set: OpenSet::new(Pmid::NULL, lead, 0),
            spent: false,
        }
    }

    /// Forgets all sets; the buffers keep their memory.
    pub fn reset(&mut self) {
        self.head.truncate(self.lead);
        self.blocks.clear();
        self.count = 0;
        self.is_open = false;
        self.spent = false;
    }

    /// Gives memory beyond `bytes` per buffer back, for instance after an unusually large answer.
    pub fn shrink_to(&mut self, bytes: usize) {
        self.head.shrink_to(bytes);
        self.blocks.shrink_to(bytes);
    }

    /// Bytes so far, those in front of the sets included.
    pub fn len(&self) -> usize {
        self.head.len() + self.blocks.len()
    }

    /// Whether there is no set yet.
    pub fn is_empty(&self) -> bool {
        self.head.len() == self.lead
    }

    /// How many sets there are.
    pub fn count(&self) -> i32 {
        self.count
    }

    /// Bytes of the sets, without what is in front of them and without blocks.
    pub fn sets_len(&self) -> usize {
        self.head.len() - self.lead
    }

    /// Bytes that event arrays may still take; never more than one array can have.
    pub fn room(&self) -> usize {
        let used = self.len() + SET_HEADER + WORD + VALUE_LEN;
        self.max_len.saturating_sub(used).min(MAX_BLOCK & !3)
    }

    /// What is in front of the sets, to be filled in.
    pub fn lead_mut(&mut self) -> &mut [u8] {
        &mut self.head[..self.lead]
    }

    /// What is in front and the sets; then the blocks.
    pub fn parts(&self) -> [&[u8]; 2] {
        [&self.head, &self.blocks]
    }

    /// A metric without values: the reason.
    ///
    /// # Errors
    /// `error` is not negative, or a set is open.
    pub fn set_error(&mut self, pmid: Pmid, error: PmError) -> Result<(), EncodeError> {
        self.begin_set(pmid)?;
        self.fail_set(error).inspect_err(|_| self.cancel_set())
    }

    /// Begins the set of a metric.
    ///
    /// # Errors
    /// A set is open.
    pub fn begin_set(&mut self, pmid: Pmid) -> Result<(), EncodeError> {
        if self.is_open {
            return Err(error(Unsendable::Misuse { call: "begin_set" }));
        }
        self.is_open = true;
        self.set = OpenSet::new(pmid, self.head.len(), self.blocks.len());
        let mut set = [0; SET_HEADER];
        BigEndian::write_u32(&mut set, pmid.0);
        self.head.extend_from_slice(&set);
        Ok(())
    }

    /// Adds a value. All values of a set are of one type.
    ///
    /// # Errors
    /// The value or the whole would be too long; the value is of another format than the set's
    /// others; an event value is not a packed array; no set is open.
    #[inline(always)] // where the type is known, all that is left is the writing of a number
    pub fn value(&mut self, inst: Inst, value: &Value) -> Result<(), EncodeError> {
        match value {
            Value::I32(v) => self.in_situ(inst, v.to_be_bytes()),
            Value::U32(v) => self.in_situ(inst, v.to_be_bytes()),
            Value::Float(v) => self.number(inst, ValueType::Float, v.to_be_bytes()),
            Value::I64(v) => self.number(inst, ValueType::I64, v.to_be_bytes()),
            Value::U64(v) => self.number(inst, ValueType::U64, v.to_be_bytes()),
            Value::Double(v) => self.number(inst, ValueType::Double, v.to_be_bytes()),
            Value::String(_) | Value::Aggregate(_) | Value::Event(_) | Value::HighResEvent(_) => {
                self.no_number(inst, value)
            }
        }
    }

    #[inline(never)]
    fn no_number(&mut self, inst: Inst, value: &Value) -> Result<(), EncodeError> {
        match value {
            Value::String(text) => self.string(inst, text),
            Value::Aggregate(bytes) => self.block(inst, ValueType::Aggregate, bytes, b""),
            Value::Event(array) | Value::HighResEvent(array) => {
                self.check_counts(inst, array)?;
                self.event_block(inst, |out| out.extend_from_slice(array))
            }
            number => self.value(inst, number),
        }
    }

    /// Adds the numbers of as many instances, all or none of them.
    ///
    /// # Errors
    /// As [`SetsWriter::value`]: the whole would be too long, or the set has values of another format.
    pub fn numbers(&mut self, ids: &[Inst], values: Numbers<'_>) -> Result<(), EncodeError> {
        match values {
            Numbers::I32(values) => self.words(ids, values, |v| v.to_be_bytes()),
            Numbers::U32(values) => self.words(ids, values, |v| v.to_be_bytes()),
            Numbers::Float(values) => self.row::<_, 4, 8>(ids, values, ValueType::Float, |v| v.to_be_bytes()),
            Numbers::I64(values) => self.row::<_, 8, 12>(ids, values, ValueType::I64, |v| v.to_be_bytes()),
            Numbers::U64(values) => self.row::<_, 8, 12>(ids, values, ValueType::U64, |v| v.to_be_bytes()),
            Numbers::Double(values) => {
                self.row::<_, 8, 12>(ids, values, ValueType::Double, |v| v.to_be_bytes())
            }
        }
    }

    /// The same, of numbers of a type that are given as their bits, those of 32 as the lower half.
    ///
    /// # Errors
    /// As [`SetsWriter::numbers`]; the type is none of numbers.
    pub fn bits(&mut self, ids: &[Inst], bits: &[u64], value_type: ValueType) -> Result<(), EncodeError> {
        let low = |bits: u64| (bits as u32).to_be_bytes();
        match value_type {
            ValueType::I32 | ValueType::U32 => self.words(ids, bits, low),
            ValueType::Float => self.row::<_, 4, 8>(ids, bits, value_type, low),
            ValueType::I64 | ValueType::U64 | ValueType::Double => {
                self.row::<_, 8, 12>(ids, bits, value_type, u64::to_be_bytes)
            }
            _ => Err(error(Unsendable::Misuse { call: "bits" })),
        }
    }

    /// The same as numbers, for sets that are read in place and never sent: those which are one behind the other and have rows of numbers of the same
    /// instances have the instances in common, instead of a copy for each.
    ///
    /// # Errors
    /// As [`SetsWriter::numbers`].
    pub(crate) fn numbers_in_common(
        &mut self,
        ids: &[Inst],
        values: Numbers<'_>,
        common: &mut Common,
    ) -> Result<(), EncodeError> {
        if !self.is_open || self.set.values > 0 || ids.len() != values.len() {
            return self.numbers(ids, values);
        }
        if !ids.is_empty() && common.ids == ids {
            self.set.form = Form::Lent(common.at);
        }
        let added = self.numbers(ids, values);
        match self.set.form {
            _ if self.set.values == 0 => self.set.form = Form::Blocks,
            Form::Blocks => {
                common.ids.clear();
                common.ids.extend_from_slice(ids);
                common.at = self.set.start + SET_HEADER + WORD;
            }
            Form::InSitu | Form::Lent(_) => {}
        }
        added
    }

    /// Adds a string value without a copy of its own; `text` has no NUL.
    ///
    /// # Errors
    /// As [`SetsWriter::value`].
    pub fn string(&mut self, inst: Inst, text: &[u8]) -> Result<(), EncodeError> {
        self.block(inst, ValueType::String, text, b"\0")
    }

    /// Adds a value as it came in another result.
    ///
    /// # Errors
    /// As [`SetsWriter::value`].
    pub fn raw(&mut self, inst: Inst, value: &RawValue) -> Result<(), EncodeError> {
        let RawValue::Block(block) = value else { return self.push(inst, value.view()) };
        if matches!(block.value_type(), events::EVENT | events::HIGHRES_EVENT) {
            self.check_counts(inst, block.bytes())?;
        }
        self.copy(inst, block.bytes(), block_format(block.value_type()))
    }

    /// Adds a value from sets that were checked, as it is. Nobody looks into event arrays again.
    ///
    /// # Errors
    /// As [`SetsWriter::value`], and bytes that are no block.
    #[inline]
    pub fn push(&mut self, inst: Inst, value: ValueRef<'_>) -> Result<(), EncodeError> {
        match value {
            ValueRef::InSitu(word) => self.in_situ(inst, word),
            ValueRef::Block(block) => match block_at(block, 0) {
                Some(block) => self.copy(inst, block, DPTR),
                None => Err(error(Unsendable::NotABlock { pmid: self.pmid(), inst })),
            },
        }
    }

    /// Adds all values of a set that was checked, as they are: what [`SetsWriter::push`] does one by one. Numbers are copied at once.
    ///
    /// # Errors
    /// As [`SetsWriter::push`]. The set has some of the values then.
    pub fn push_all(&mut self, values: ValuesRef<'_>) -> Result<(), EncodeError> {
        let first = values.pairs.first().map(inst_of);
        let row = match values.lie {
            Lie::InSitu => {
                if self.check_row(first, values.len(), true, 0)? {
                    self.open_format(INSITU);
                    self.head.extend_from_slice(values.pairs.as_flattened());
                    self.set.values += values.len() as i32;
                }
                return Ok(());
            }
            Lie::Row { start, size } => values.data.get(start..start + size.bytes() * values.len()),
            Lie::Blocks => check::row(&values).and_then(|(start, end)| values.data.get(start..end)),
        };
        let Some(row) = row.filter(|row| !row.is_empty()) else {
            return values.iter().try_for_each(|(inst, value)| self.push(inst, value));
        };
        let size = row.len() / values.len();
        if !self.check_row(first, values.len(), false, size)? {
            return Ok(());
        }
        self.open_format(DPTR);
        let place = self.blocks.len() / WORD;
        append(&mut self.head, values.pairs.iter().enumerate(), |(number, old)| {
            pair(inst_of(old), ((place + number * (size / WORD)) as u32).to_be_bytes())
        });
        self.blocks.extend_from_slice(row);
        self.set.add_row(values.len(), row.first_chunk().copied().unwrap_or_default());
        Ok(())
    }

    /// Writes a set that was checked as it is: all its values, or why there are none.
    ///
    /// # Errors
    /// As [`SetsWriter::push_all`]; the set is open then, with some of the values.
    pub fn copy_set(&mut self, set: SetRef<'_>) -> Result<(), EncodeError> {
        match set.values {
            Ok(values) => {
                self.begin_set(set.pmid)?;
                self.push_all(values)?;
                self.end_set()
            }
            Err(error) => self.set_error(set.pmid, error),
        }
    }

    /// Adds the event array that `write` appends to the block buffer: complete and in network order,
    /// header word included, as `event` packs it. If it appends nothing, there is no value.
    /// `write` must leave alone what it finds in the buffer. Its counts of records and parameters are
    /// taken on trust here, and nowhere else: wrong ones crash pmcd 6.0.3.
    ///
    /// # Errors
    /// What was appended is not an array, or it or the whole would be too long (see
    /// [`SetsWriter::room`]); no set is open.
    pub fn event_block<R>(
        &mut self,
        inst: Inst,
        write: impl FnOnce(&mut Vec<u8>) -> R,
    ) -> Result<R, EncodeError> {
        self.check(inst, false, 0, "event_block")?;
        let start = self.blocks.len();
        let outcome = write(&mut self.blocks);
        let Some(array) = self.blocks.get(start..) else {
            // Places already given out point behind the end now.
            self.spent = true;
            return Err(error(Unsendable::Misuse { call: "event_block" }));
        };
        if array.is_empty() {
            return Ok(outcome);
        }
        let len = array.len();
        // The array is in the buffer already: only its padding is yet to come.
        let fits = check_array(self.set.pmid, inst, array).and(self.fits(inst, len, pad4(len) - len));
        if let Err(error) = fits {
            self.blocks.truncate(start);
            return Err(error);
        }
        self.push_place(inst, SPTR, start);
        self.pad();
        Ok(outcome)
    }

    /// Ends the open set. Without any value it says that there are none.
    ///
    /// # Errors
    /// No set is open.
    pub fn end_set(&mut self) -> Result<(), EncodeError> {
        self.end_indexed().map(drop)
    }

    /// Ends the open set, and says where in [`SetsWriter::parts`] its values are.
    pub(crate) fn end_indexed(&mut self) -> Result<Head, EncodeError> {
        let set = self.set;
        self.close("end_set", set.values)?;
        let blocks = set.values > 0 && set.form != Form::InSitu;
        let lie = match (blocks, set.row()) {
            (false, _) => Lie::InSitu,
            (true, Some(size)) => Lie::Row { start: set.blocks, size },
            (true, None) => Lie::Blocks,
        };
        let at = match set.form {
            Form::Lent(at) => at,
            Form::InSitu | Form::Blocks => set.start + SET_HEADER + WORD,
        };
        Ok(Head { set: SetHead { pmid: set.pmid, numval: set.values, blocks, at }, lie })
    }

    /// Ends the open set with an error in place of the values it has so far.
    ///
    /// # Errors
    /// `code` is not negative, or no set is open.
    pub fn fail_set(&mut self, code: PmError) -> Result<(), EncodeError> {
        if code.0 >= 0 {
            return Err(error(Unsendable::NotAnError { code: code.0 }));
        }
        self.rollback("fail_set")?;
        self.close("fail_set", code.0)
    }

    /// Ends the open set without the values it has so far: the metric has none.
    ///
    /// # Errors
    /// No set is open.
    pub fn clear_set(&mut self) -> Result<(), EncodeError> {
        self.rollback("clear_set")?;
        self.close("clear_set", 0)
    }

    /// Whether a set was begun that has not ended.
    pub(crate) fn has_open_set(&self) -> bool {
        self.is_open
    }

    /// Drops the open set altogether, if there is one.
    pub fn cancel_set(&mut self) {
        if self.rollback("cancel_set").is_ok() {
            self.is_open = false;
            self.head.truncate(self.set.start);
        }
    }

    /// Makes places final: the block buffer will stand at the place `first`, in words. Writing anything else
    /// needs a [`SetsWriter::reset`] before.
    ///
    /// # Errors
    /// The whole is too long, a set is open, places are final, or an event array's writer destroyed blocks.
    pub fn place_blocks(&mut self, first: usize) -> Result<(), EncodeError> {
        self.check_complete()?;
        let first = u32::try_from(first).map_err(|_| error(Unsendable::TooLong { max: self.max_len }))?;
        // Twice would move them again.
        self.spent = true;
        let mut at = self.lead;
        while at < self.head.len() {
            let Ok(set) = SetHead::read(&self.head, at) else {
                debug_assert!(false, "the sets are as this file wrote them: whole");
                break;
            };
            at = set.end();
            if set.blocks {
                for pair in self.head[set.at..at].as_chunks_mut::<VALUE_LEN>().0 {
                    let place = BigEndian::read_u32(&pair[WORD..]) + first;
                    BigEndian::write_u32(&mut pair[WORD..], place);
                }
            }
        }
        Ok(())
    }

    /// # Errors
    /// A set is open, places are final, or an event array's writer destroyed blocks.
    pub(crate) fn check_complete(&self) -> Result<(), EncodeError> {
        match self.is_open || self.spent {
            true => Err(error(Unsendable::Misuse { call: "finish" })),
            false => Ok(()),
        }
    }

    /// Values in place.
    fn words<T: Copy>(
        &mut self,
        ids: &[Inst],
        values: &[T],
        word: impl Fn(T) -> [u8; WORD],
    ) -> Result<(), EncodeError> {
        let count = ids.len().min(values.len());
        if self.check_row(ids.first().copied(), count, true, 0)? {
            self.open_format(INSITU);
            let pairs = ids.iter().zip(values).take(count);
            append(&mut self.head, pairs, |(&inst, &value)| pair(inst, word(value)));
            self.set.values += count as i32;
        }
        Ok(())
    }

    /// Values in blocks of `SIZE` bytes, one behind the other.
    fn row<T: Copy, const DATA: usize, const SIZE: usize>(
        &mut self,
        ids: &[Inst],
        values: &[T],
        value_type: ValueType,
        data: impl Fn(T) -> [u8; DATA],
    ) -> Result<(), EncodeError> {
        let count = ids.len().min(values.len());
        if !self.check_row(ids.first().copied(), count, false, SIZE)? {
            return Ok(());
        }
        self.open_format(DPTR);
        let mut place = (self.blocks.len() / WORD) as u32;
        let places = ids[..count].iter().map(|&inst| {
            let this = place;
            place += (SIZE / WORD) as u32;
            (inst, this)
        });
        if !matches!(self.set.form, Form::Lent(_)) {
            append(&mut self.head, places, |(inst, place)| pair(inst, place.to_be_bytes()));
        }
        let header = block_header(value_type as u8, DATA);
        append(&mut self.blocks, values[..count].iter(), |&value| {
            let mut block = [0; SIZE];
            let (start, rest) = block.split_at_mut(BLOCK_HEADER);
            start.copy_from_slice(&header);
            rest.copy_from_slice(&data(value));
            block
        });
        self.set.add_row(count, header);
        Ok(())
    }

    /// Sees whether so many values in this format may join the open set, `first` of them the first, with a block of so many bytes each;
    /// false for no values.
    fn check_row(
        &mut self,
        first: Option<Inst>,
        count: usize,
        in_situ: bool,
        block: usize,
    ) -> Result<bool, EncodeError> {
        let Some(first) = first.filter(|_| count > 0) else { return Ok(false) };
        self.check(first, in_situ, block, "numbers")?;
        // What came before is bounded by `max_len`, and so is the room that is left.
        let room = self.max_len - self.len() - WORD;
        if count > room / (VALUE_LEN + block) {
            return Err(error(Unsendable::TooLong { max: self.max_len }));
        }
        Ok(true)
    }

    /// Writes the format of a set's values in front of the first.
    #[inline]
    fn open_format(&mut self, format: i32) {
        if self.set.values == 0 {
            self.head.extend_from_slice(&format.to_be_bytes());
        }
    }

    #[inline]
    fn in_situ(&mut self, inst: Inst, word: [u8; WORD]) -> Result<(), EncodeError> {
        self.check(inst, true, 0, "value")?;
        self.push_word(inst, INSITU, word);
        Ok(())
    }

    #[inline]
    fn number<const N: usize>(
        &mut self,
        inst: Inst,
        value_type: ValueType,
        data: [u8; N],
    ) -> Result<(), EncodeError> {
        self.check(inst, false, BLOCK_HEADER + N, "value")?;
        self.push_place(inst, DPTR, self.blocks.len());
        self.blocks.extend_from_slice(&block_header(value_type as u8, N));
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
        self.check(inst, false, BLOCK_HEADER + len, "value")?;
        self.push_place(inst, DPTR, self.blocks.len());
        self.blocks.extend_from_slice(&block_header(value_type as u8, len));
        self.blocks.extend_from_slice(data);
        self.blocks.extend_from_slice(tail);
        self.pad();
        Ok(())
    }

    /// Adds a block that has its header word.
    #[inline]
    fn copy(&mut self, inst: Inst, block: &[u8], format: i32) -> Result<(), EncodeError> {
        self.check(inst, false, block.len(), "raw")?;
        self.push_place(inst, format, self.blocks.len());
        self.blocks.extend_from_slice(block);
        self.pad();
        Ok(())
    }

    /// Sees whether a value in this format with a block of `len` bytes may join the open set.
    #[inline]
    fn check(
        &mut self,
        inst: Inst,
        in_situ: bool,
        len: usize,
        call: &'static str,
    ) -> Result<(), EncodeError> {
        if !self.is_open {
            return Err(error(Unsendable::Misuse { call }));
        }
        let form = if in_situ { Form::InSitu } else { Form::Blocks };
        if self.set.form != form {
            match self.set.form {
                Form::InSitu | Form::Blocks if self.set.values == 0 => self.set.form = form,
                _ => self.change_form(form)?,
            }
        }
        self.fits(inst, len, pad4(len))
    }

    /// Makes the open set one that a value may join which is in another form.
    #[cold]
    fn change_form(&mut self, form: Form) -> Result<(), EncodeError> {
        match self.set.form {
            // A row may be of another set's instances, numbers in place have their own.
            Form::Lent(_) if self.set.values == 0 => {
                if form == Form::InSitu {
                    self.set.form = form;
                }
            }
            Form::Lent(at) if form == Form::Blocks => self.own_instances(at),
            _ => return Err(error(Unsendable::MixedFormats { pmid: self.set.pmid })),
        }
        Ok(())
    }

    /// Gives the open set instances of its own, as something is to come behind a row whose instances are those at a place.
    fn own_instances(&mut self, at: usize) {
        let size = self.set.row().map_or(0, RowSize::bytes);
        for number in 0..self.set.values as usize {
            let at = at + number * VALUE_LEN;
            let inst = self.head.get(at..).and_then(<[u8]>::first_chunk).map_or(0, inst_of);
            let place = (self.set.blocks + number * size) / WORD;
            self.head.extend_from_slice(&pair(inst, (place as u32).to_be_bytes()));
        }
        self.set.form = Form::Blocks;
    }

    /// Whether a block of `len` bytes can be written for which `more` bytes, with padding, are yet to come.
    #[inline]
    fn fits(&self, inst: Inst, len: usize, more: usize) -> Result<(), EncodeError> {
        if len > MAX_BLOCK {
            return Err(error(Unsendable::ValueTooLong { pmid: self.set.pmid, inst, len }));
        }
        // `more` is bounded by MAX_BLOCK here, the buffers by memory: no overflow.
        if self.len() + WORD + VALUE_LEN + more > self.max_len {
            return Err(error(Unsendable::TooLong { max: self.max_len }));
        }
        Ok(())
    }

    /// An event array from outside this crate's builders has to prove its counts.
    fn check_counts(&self, inst: Inst, array: &[u8]) -> Result<(), EncodeError> {
        events::check(array).map_err(|_| error(Unsendable::NotAnEventArray { pmid: self.pmid(), inst }))
    }

    fn pmid(&self) -> Pmid {
        if self.is_open { self.set.pmid } else { Pmid::NULL }
    }

    #[inline]
    fn push_place(&mut self, inst: Inst, format: i32, block: usize) {
        self.push_word(inst, format, ((block / WORD) as u32).to_be_bytes());
    }

    #[inline]
    fn push_word(&mut self, inst: Inst, format: i32, word: [u8; WORD]) {
        self.open_format(format);
        self.head.extend_from_slice(&pair(inst, word));
        self.set.values += 1;
    }

    #[inline]
    fn pad(&mut self) {
        let len = self.blocks.len();
        self.blocks.resize(pad4(len), PAD);
    }

    /// Drops the open set's values.
    fn rollback(&mut self, call: &'static str) -> Result<(), EncodeError> {
        if !self.is_open {
            return Err(error(Unsendable::Misuse { call }));
        }
        self.head.truncate(self.set.start + SET_HEADER);
        self.blocks.truncate(self.set.blocks);
        Ok(())
    }

    fn close(&mut self, call: &'static str, numval: i32) -> Result<(), EncodeError> {
        if !std::mem::take(&mut self.is_open) {
            return Err(error(Unsendable::Misuse { call }));
        }
        // `begin_set` wrote this word.
        BigEndian::write_i32(&mut self.head[self.set.start + NUMVAL..], numval);
        self.count += 1;
        Ok(())
    }
}

impl OpenSet {
    fn new(pmid: Pmid, start: usize, blocks: usize) -> OpenSet {
        OpenSet { pmid, start, blocks, values: 0, form: Form::Blocks, in_row: 0, header: [0; BLOCK_HEADER] }
    }

    /// Adds so many values, whose blocks are one row: numbers of one type, all with the same header.
    fn add_row(&mut self, count: usize, header: [u8; BLOCK_HEADER]) {
        let goes_on = self.in_row == self.values && (self.values == 0 || self.header == header);
        self.values += count as i32;
        if goes_on {
            (self.in_row, self.header) = (self.values, header);
        }
    }

    /// The size of the blocks, if those of all values are one row.
    fn row(&self) -> Option<RowSize> {
        let size = u32::from_be_bytes(self.header) as usize & MAX_BLOCK;
        RowSize::of(size).filter(|_| self.in_row == self.values)
    }
}

fn error(reason: Unsendable) -> EncodeError {
    EncodeError { kind: kind::RESULT, reason }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warm_writer_keeps_its_memory_until_told() {
        let mut w = SetsWriter::default();
        w.begin_set(Pmid::new(29, 0, 10)).unwrap();
        w.value(0, &Value::Aggregate(vec![0; 100_000].into())).unwrap();
        w.end_set().unwrap();
        let capacity = w.blocks.capacity();
        w.reset();
        assert_eq!(w.blocks.capacity(), capacity);
        w.shrink_to(1000);
        assert!(w.blocks.capacity() < 100_000);
    }
}
