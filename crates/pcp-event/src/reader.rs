//! Reading packed event arrays that come from anywhere, without copying.
//!
//! [`ArrayReader::new`] walks the array once and checks everything; records and parameters can then be
//! iterated without errors. The checks are those of `pmUnpackEventRecords(3)`, in its order and with its
//! codes (`docs/pcp/events.md` 3.2): where libpcp refuses an array, so does this, with the same code. It also
//! refuses what makes libpcp read or write past the end ([`Defect::is_stricter`]).
//!
//! **Cost:** no allocation. Checking reads 8 bytes of each parameter; iterating reads them again.

use std::marker::PhantomData;

use byteorder::ByteOrder;

use super::pack::{ARRAY_HEADER, ArrayKind, EventFlags, MAX_LEN, PARAM_HEADER, Param, pad4};
use pcp_model::{PmError, Pmid, Timestamp, ValueType};

/// A packed array that has been checked.
#[derive(Clone, Copy, Debug)]
pub struct ArrayReader<'a, E: ByteOrder> {
    kind: ArrayKind,
    /// From the header word to the end the header word gives.
    bytes: &'a [u8],
    order: PhantomData<E>,
}

/// One record of an array.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a, E: ByteOrder> {
    /// When it happened. A fraction outside of its second is carried into the seconds.
    pub time: Timestamp,
    /// Its flags. If [`EventFlags::MISSED`] is set, no other is.
    pub flags: EventFlags,
    /// Number of parameters; of a missed record the number of records lost, as it was sent (it can be
    /// negative; pmcd makes it 0 in HIGHRES arrays).
    pub count: i32,
    /// The parameters and whatever follows them.
    rest: &'a [u8],
    order: PhantomData<E>,
}

/// One parameter of a record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecordParam<'a> {
    /// The metric that describes the parameter.
    pub pmid: Pmid,
    /// Its type; differs from the value's only in that it may be [`ValueType::AggregateStatic`].
    pub value_type: ValueType,
    /// Its value. Text is as it was sent: it may contain NUL bytes.
    pub value: Param<'a>,
}

/// Why an array was refused, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// What is wrong.
    pub defect: Defect,
    /// Index of the record, if it is in one.
    pub record: Option<u32>,
    /// Index of the parameter within the record, if it is in one.
    pub param: Option<u32>,
    /// Offset in the array of the header, record or parameter at fault.
    pub offset: usize,
}

/// What is wrong with an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    /// The header word is of another type than the array should be.
    #[error("the type is {0}, not that of such an array")]
    ArrayType(u8),
    /// The length is less than that of an array header.
    #[error("a length of {0} is less than an array header has")]
    TooShort(usize),
    /// The length is more than there is.
    #[error("the length is {0}, more than there is")]
    Truncated(usize),
    /// The number of records is negative.
    #[error("the number of records is {0}")]
    RecordCount(i32),
    /// The record's header passes the end of the array.
    #[error("the record passes the end of the array")]
    RecordOverrun,
    /// The missed flag is set along with others.
    #[error("flags {0:#x}: the missed flag and others")]
    MissedFlags(u32),
    /// The parameter, padding included, passes the end of the array.
    #[error("the parameter passes the end of the array")]
    ParamOverrun,
    /// The parameter's type is unknown, or an event type.
    #[error("a parameter cannot be of type {0}")]
    ParamType(u8),
    /// The number of parameters is negative.
    #[error("the number of parameters is {0}")]
    ParamCount(i32),
    /// The parameter's length does not fit its type.
    #[error("a length of {len} does not fit type {}", .value_type.name())]
    ParamLen {
        /// The parameter's type.
        value_type: ValueType,
        /// Its length, header word included.
        len: usize,
    },
}

impl Defect {
    /// Whether libpcp 6.0.3 accepts such an array (and reads beyond the value, or corrupts its heap).
    pub const fn is_stricter(&self) -> bool {
        matches!(self, Defect::ParamCount(_) | Defect::ParamLen { .. })
    }

    /// The error `pmUnpackEventRecords(3)` returns; its `PM_ERR_TOOSMALL` for what only this reader refuses.
    pub const fn code(&self) -> PmError {
        match self {
            Defect::ArrayType(_) | Defect::ParamType(_) => PmError::TYPE,
            Defect::MissedFlags(_) => PmError::CONV,
            Defect::TooShort(_)
            | Defect::RecordCount(_)
            | Defect::ParamCount(_)
            | Defect::ParamLen { .. } => PmError::TOOSMALL,
            Defect::Truncated(_) | Defect::RecordOverrun | Defect::ParamOverrun => PmError::TOOBIG,
        }
    }
}

impl ReadError {
    /// The PCP error code.
    pub const fn code(&self) -> PmError {
        self.defect.code()
    }
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("event array: ")?;
        if let Some(record) = self.record {
            write!(f, "record {record}, ")?;
        }
        if let Some(param) = self.param {
            write!(f, "parameter {param}, ")?;
        }
        write!(f, "byte {}: {}", self.offset, self.defect)
    }
}

impl std::error::Error for ReadError {}

impl From<ReadError> for PmError {
    fn from(error: ReadError) -> PmError {
        error.code()
    }
}

impl<'a, E: ByteOrder> ArrayReader<'a, E> {
    /// Checks an array that starts with its header word. Bytes after the length that the header word gives
    /// are ignored, and so are bytes between the last record and that length.
    ///
    /// # Errors
    /// The first defect of those libpcp looks for while it walks the array; if there is none, the first
    /// parameter type that is not one; if there is none, the first defect that libpcp does not look for.
    pub fn new(kind: ArrayKind, bytes: &'a [u8]) -> Result<ArrayReader<'a, E>, ReadError> {
        let outside = |defect| ReadError { defect, record: None, param: None, offset: 0 };
        let (value_type, len) = header::<E>(bytes).ok_or(outside(Defect::TooShort(bytes.len())))?;
        if i32::from(value_type) != kind.value_type().code() {
            return Err(outside(Defect::ArrayType(value_type)));
        }
        if len < ARRAY_HEADER {
            return Err(outside(Defect::TooShort(len)));
        }
        let bytes = bytes.get(..len).ok_or(outside(Defect::Truncated(len)))?;
        let array = ArrayReader { kind, bytes, order: PhantomData };
        if array.record_count() < 0 {
            return Err(ReadError { offset: 4, ..outside(Defect::RecordCount(array.record_count())) });
        }
        array.check_records()?;
        Ok(array)
    }

    /// Which of the two kinds this array is.
    pub const fn kind(&self) -> ArrayKind {
        self.kind
    }

    /// Number of records, missed records included.
    pub fn len(&self) -> usize {
        self.record_count() as usize
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.record_count() == 0
    }

    /// The records, in the array's order.
    pub fn records(&self) -> Records<'a, E> {
        Records { kind: self.kind, rest: &self.bytes[ARRAY_HEADER..], left: self.len(), order: PhantomData }
    }

    fn record_count(&self) -> i32 {
        E::read_i32(&self.bytes[4..ARRAY_HEADER])
    }

    fn check_records(&self) -> Result<(), ReadError> {
        let mut rest = &self.bytes[ARRAY_HEADER..];
        // libpcp looks at types only when the walk through the whole array has found nothing, and at
        // lengths and negative counts not at all.
        let (mut bad_type, mut stricter) = (None, None);
        for index in 0..self.record_count() as u32 {
            let at = |defect, param, rest: &[u8]| ReadError {
                defect,
                record: Some(index),
                param,
                offset: self.bytes.len() - rest.len(),
            };
            // A count that promises more records than there are bytes ends here, not in an allocation: nothing is made
            // for what a header merely claims.
            let record =
                split_record::<E>(self.kind, rest).ok_or_else(|| at(Defect::RecordOverrun, None, rest))?;
            // Its count is one of lost records, and no parameters follow.
            if record.flags.contains(EventFlags::MISSED) {
                if record.flags != EventFlags::MISSED {
                    return Err(at(Defect::MissedFlags(record.flags.0), None, rest));
                }
                rest = record.rest;
                continue;
            }
            if record.count < 0 {
                stricter.get_or_insert(at(Defect::ParamCount(record.count), None, rest));
            }
            rest = record.rest;
            for param in 0..record.count.max(0) as u32 {
                let Some((head, tail)) = split_param::<E>(rest) else {
                    return Err(at(Defect::ParamOverrun, Some(param), rest));
                };
                match head.value() {
                    Ok(_) => (),
                    Err(defect @ Defect::ParamType(_)) => {
                        bad_type.get_or_insert(at(defect, Some(param), rest));
                    }
                    Err(defect) => {
                        stricter.get_or_insert(at(defect, Some(param), rest));
                    }
                }
                rest = tail;
            }
        }
        bad_type.or(stricter).map_or(Ok(()), Err)
    }
}

impl<'a, E: ByteOrder> IntoIterator for &ArrayReader<'a, E> {
    type Item = Record<'a, E>;
    type IntoIter = Records<'a, E>;

    fn into_iter(self) -> Records<'a, E> {
        self.records()
    }
}

/// Iterator over the records of a checked array.
#[derive(Clone, Debug)]
pub struct Records<'a, E: ByteOrder> {
    kind: ArrayKind,
    rest: &'a [u8],
    left: usize,
    order: PhantomData<E>,
}

impl<'a, E: ByteOrder> Iterator for Records<'a, E> {
    type Item = Record<'a, E>;

    fn next(&mut self) -> Option<Record<'a, E>> {
        self.left = self.left.checked_sub(1)?;
        let record = split_record(self.kind, self.rest)?;
        // Records do not say how long they are: the next one is behind the last parameter.
        let mut params = record.params();
        params.by_ref().for_each(drop);
        self.rest = params.rest;
        Some(record)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<E: ByteOrder> ExactSizeIterator for Records<'_, E> {}

impl<'a, E: ByteOrder> Record<'a, E> {
    /// How many records were lost here, if this is a missed record.
    pub fn missed(&self) -> Option<i32> {
        self.flags.contains(EventFlags::MISSED).then_some(self.count)
    }

    /// The parameters, in the record's order.
    pub fn params(&self) -> Params<'a, E> {
        let left = if self.missed().is_some() { 0 } else { self.count.max(0) as usize };
        Params { rest: self.rest, left, order: PhantomData }
    }
}

/// Iterator over the parameters of a record of a checked array.
#[derive(Clone, Debug)]
pub struct Params<'a, E: ByteOrder> {
    rest: &'a [u8],
    left: usize,
    order: PhantomData<E>,
}

impl<'a, E: ByteOrder> Iterator for Params<'a, E> {
    type Item = RecordParam<'a>;

    fn next(&mut self) -> Option<RecordParam<'a>> {
        self.left = self.left.checked_sub(1)?;
        let (head, rest) = split_param::<E>(self.rest)?;
        self.rest = rest;
        let value = head.value().ok()?;
        Some(RecordParam { pmid: head.pmid, value_type: head.value_type(), value })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<E: ByteOrder> ExactSizeIterator for Params<'_, E> {}

/// A parameter whose bytes are inside of the array, its type and length not checked yet.
struct RawParam<'a, E> {
    pmid: Pmid,
    type_code: u8,
    len: usize,
    /// The value with its padding; shorter than a header word's own 4 bytes only if `len` is.
    padded: &'a [u8],
    order: PhantomData<E>,
}

impl<'a, E: ByteOrder> RawParam<'a, E> {
    fn value_type(&self) -> ValueType {
        ValueType::from_code(i32::from(self.type_code))
    }

    fn value(&self) -> Result<Param<'a>, Defect> {
        let value_type = self.value_type();
        let wrong = Defect::ParamLen { value_type, len: self.len };
        let bytes = self.len.checked_sub(4).and_then(|len| self.padded.get(..len));
        let narrow = || bytes.filter(|bytes| bytes.len() == 4).ok_or(wrong);
        let wide = || bytes.filter(|bytes| bytes.len() == 8).ok_or(wrong);
        Ok(match value_type {
            ValueType::I32 => Param::I32(E::read_i32(narrow()?)),
            ValueType::U32 => Param::U32(E::read_u32(narrow()?)),
            ValueType::I64 => Param::I64(E::read_i64(wide()?)),
            ValueType::U64 => Param::U64(E::read_u64(wide()?)),
            ValueType::Float => Param::Float(E::read_f32(narrow()?)),
            ValueType::Double => Param::Double(E::read_f64(wide()?)),
            ValueType::String => Param::String(bytes.ok_or(wrong)?),
            ValueType::Aggregate | ValueType::AggregateStatic => Param::Aggregate(bytes.ok_or(wrong)?),
            ValueType::NoSupport | ValueType::Event | ValueType::HighResEvent | ValueType::Unknown => {
                return Err(Defect::ParamType(self.type_code));
            }
        })
    }
}

/// Type code and length of a header word.
fn header<E: ByteOrder>(bytes: &[u8]) -> Option<(u8, usize)> {
    let word = E::read_u32(bytes.get(..4)?);
    Some(((word >> 24) as u8, word as usize & MAX_LEN))
}

/// The record at the start of `bytes`, or `None` if there is not enough for its header.
fn split_record<E: ByteOrder>(kind: ArrayKind, bytes: &[u8]) -> Option<Record<'_, E>> {
    let (header, rest) = bytes.split_at_checked(kind.record_header())?;
    let time = match kind {
        ArrayKind::Event => {
            time_of(i64::from(E::read_i32(header)), i64::from(E::read_i32(&header[4..])), 1_000_000)
        }
        ArrayKind::HighRes => time_of(E::read_i64(header), E::read_i64(&header[8..]), 1_000_000_000),
    };
    let (flags, count) = header[kind.flags_offset()..].split_at(4);
    let flags = EventFlags(E::read_u32(flags));
    Some(Record { time, flags, count: E::read_i32(count), rest, order: PhantomData })
}

/// The parameter at the start of `bytes` and what follows it, or `None` if there is not enough for it.
fn split_param<E: ByteOrder>(bytes: &[u8]) -> Option<(RawParam<'_, E>, &[u8])> {
    let (type_code, len) = header::<E>(bytes.get(4..PARAM_HEADER)?)?;
    let (param, rest) = bytes.split_at_checked(4 + pad4(len))?;
    let padded = param.get(PARAM_HEADER..).unwrap_or_default();
    Some((RawParam { pmid: Pmid(E::read_u32(bytes)), type_code, len, padded, order: PhantomData }, rest))
}

/// A timestamp from seconds and a fraction of which `per_second` make a second.
fn time_of(sec: i64, fraction: i64, per_second: i64) -> Timestamp {
    let sec = sec.saturating_add(fraction.div_euclid(per_second));
    let nsec = fraction.rem_euclid(per_second) * (1_000_000_000 / per_second);
    Timestamp::new(sec, nsec as u32)
}

#[cfg(test)]
mod tests {
    use byteorder::{BigEndian, LittleEndian};

    use super::*;

    /// One EVENT record, flags 0x1a, with the strings "" and "abcde" (PCP 6.0.3, pad bytes cleared).
    const STRINGS: [u8; 48] = *b"\x09\0\0\x30\0\0\0\x01\x65\0\0\x02\0\x01\xe2\x40\0\0\0\x1a\0\0\0\x02\
        \x07\x40\0\x86\x06\0\0\x04\x07\x40\0\x86\x06\0\0\x09abcde\0\0\0";

    #[test]
    fn reads_what_the_library_sends() {
        let array = ArrayReader::<BigEndian>::new(ArrayKind::Event, &STRINGS).unwrap();
        let record = array.records().next().unwrap();
        assert_eq!((array.len(), record.count), (1, 2));
        assert_eq!(record.time, Timestamp::new(0x6500_0002, 123_456_000));
        assert_eq!(record.flags, EventFlags::START | EventFlags::ID | EventFlags::PARENT);
        let params: Vec<_> = record.params().collect();
        let text =
            |text| RecordParam { pmid: Pmid::new(29, 0, 134), value_type: ValueType::String, value: text };
        assert_eq!(params, [text(Param::String(b"")), text(Param::String(b"abcde"))]);
    }

    /// The array above with one word replaced, refused with this defect at this place.
    #[track_caller]
    fn refused(at: usize, word: u32, defect: Defect, code: PmError, text: &str) {
        let mut bytes = STRINGS;
        BigEndian::write_u32(&mut bytes[at..], word);
        let error = ArrayReader::<BigEndian>::new(ArrayKind::Event, &bytes).unwrap_err();
        assert_eq!((error.defect, error.code(), error.to_string().as_str()), (defect, code, text));
    }

    #[test]
    fn defects_are_named_with_their_place() {
        use Defect::*;
        refused(
            0,
            0x0a00_0030,
            ArrayType(10),
            PmError::TYPE,
            "event array: byte 0: the type is 10, not that of such an array",
        );
        refused(
            0,
            0x0900_0007,
            TooShort(7),
            PmError::TOOSMALL,
            "event array: byte 0: a length of 7 is less than an array header has",
        );
        refused(
            0,
            0x0900_0034,
            Truncated(52),
            PmError::TOOBIG,
            "event array: byte 0: the length is 52, more than there is",
        );
        refused(
            0,
            0x0900_002d,
            ParamOverrun,
            PmError::TOOBIG,
            "event array: record 0, parameter 1, byte 32: the parameter passes the end of the array",
        );
        refused(
            4,
            0xffff_ffff,
            RecordCount(-1),
            PmError::TOOSMALL,
            "event array: byte 4: the number of records is -1",
        );
        refused(
            4,
            2,
            RecordOverrun,
            PmError::TOOBIG,
            "event array: record 1, byte 48: the record passes the end of the array",
        );
        refused(
            16,
            0x8000_0001,
            MissedFlags(0x8000_0001),
            PmError::CONV,
            "event array: record 0, byte 8: flags 0x80000001: the missed flag and others",
        );
        refused(
            20,
            3,
            ParamOverrun,
            PmError::TOOBIG,
            "event array: record 0, parameter 2, byte 48: the parameter passes the end of the array",
        );
        refused(
            20,
            0xffff_fffe,
            ParamCount(-2),
            PmError::TOOSMALL,
            "event array: record 0, byte 8: the number of parameters is -2",
        );
        refused(
            28,
            0x0900_0004,
            ParamType(9),
            PmError::TYPE,
            "event array: record 0, parameter 0, byte 24: a parameter cannot be of type 9",
        );
        refused(
            36,
            0x0600_000d,
            ParamOverrun,
            PmError::TOOBIG,
            "event array: record 0, parameter 1, byte 32: the parameter passes the end of the array",
        );
        let len = ParamLen { value_type: ValueType::U64, len: 9 };
        refused(
            36,
            0x0300_0009,
            len,
            PmError::TOOSMALL,
            "event array: record 0, parameter 1, byte 32: a length of 9 does not fit type U64",
        );
        let len = ParamLen { value_type: ValueType::String, len: 3 };
        refused(
            36,
            0x0600_0003,
            len,
            PmError::TOOSMALL,
            "event array: record 0, parameter 1, byte 32: a length of 3 does not fit type STRING",
        );
    }

    #[test]
    fn trailing_bytes_are_ignored_and_bytes_missing_are_not() {
        let long = [&STRINGS[..], b"tail"].concat();
        assert_eq!(ArrayReader::<BigEndian>::new(ArrayKind::Event, &long).unwrap().len(), 1);
        for len in 0..STRINGS.len() {
            let error = ArrayReader::<BigEndian>::new(ArrayKind::Event, &STRINGS[..len]).unwrap_err();
            let defect = if len < 4 { Defect::TooShort(len) } else { Defect::Truncated(STRINGS.len()) };
            assert_eq!(error.defect, defect);
        }
    }

    #[test]
    fn absurd_counts_end_at_the_end_of_the_array() {
        for at in [4, 20] {
            let mut bytes = STRINGS;
            BigEndian::write_u32(&mut bytes[at..], 0x7fff_ffff);
            let error = ArrayReader::<BigEndian>::new(ArrayKind::Event, &bytes).unwrap_err();
            assert_eq!(error.code(), PmError::TOOBIG);
        }
    }

    #[test]
    fn a_fraction_outside_its_second_is_carried() {
        let mut bytes =
            *b"\x20\0\0\x0a\x01\0\0\0\x05\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\0\0\0\0";
        let time = |bytes: &[u8]| {
            let array = ArrayReader::<LittleEndian>::new(ArrayKind::HighRes, bytes).unwrap();
            array.records().next().unwrap().time
        };
        assert_eq!(time(&bytes), Timestamp { sec: 4, nsec: 999_999_999 });
        LittleEndian::write_i64(&mut bytes[8..], i64::MAX);
        LittleEndian::write_i64(&mut bytes[16..], i64::MAX);
        assert_eq!(time(&bytes).sec, i64::MAX);
    }
}
