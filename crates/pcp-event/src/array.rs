//! The event array builder: the contract of `pmdaEventArray(3)` over one contiguous buffer.
//!
//! An [`EventArray`] is built record by record and read with [`EventArray::get`]; [`EventArray::reset`]
//! starts over in the same memory. It is generic over the byte order: [`HostEventArray`] makes the bytes
//! `libpcp_pmda` makes from the same calls (pad bytes are zero, where the C library leaks heap content),
//! [`NetEventArray`] what goes into a PDU or an archive, in one pass and with nothing left to convert.
//!
//! Handles of the C library (`New`, `Release`, `PM_ERR_NOCONTEXT`) are ownership here: an array is made
//! with [`EventArray::new`] and released by dropping it. Misuse that makes `libpcp_pmda` build garbage
//! (a parameter without a record or behind a missed record, more bytes than the 24-bit length can hold) is
//! a [`BuildError`]. A call that fails changes nothing.
//!
//! **Cost:** no allocation once the buffer has grown to the size of the largest array; a record is one copy
//! of 16 or 24 bytes, a number one of 12 or 16, text one of its length. Counts are kept aside and written
//! when the record is complete.

use std::marker::PhantomData;

use byteorder::{ByteOrder, NativeEndian, NetworkEndian};

use super::pack::{self, ARRAY_HEADER, ArrayKind, EventFlags, MAX_ARRAY, Param};
use pcp_model::{PmError, Pmid, Timestamp, Value, ValueType};

/// An array in the byte order of this machine, as `libpcp_pmda` builds it.
pub type HostEventArray = EventArray<NativeEndian>;
/// An array in network byte order, as PDUs and archives carry it.
pub type NetEventArray = EventArray<NetworkEndian>;

/// Builds one packed event array of either kind in the byte order `E`.
#[derive(Clone, Debug)]
pub struct EventArray<E: ByteOrder> {
    kind: ArrayKind,
    /// Array header, records, and room that has been zeroed once: a call checks for room and then copies.
    /// The header and the current record's count are only right after [`EventArray::get`].
    buf: Vec<u8>,
    /// Bytes in use: never more than `buf.len()`, which is never more than [`MAX_ARRAY`].
    used: usize,
    records: i32,
    current: Current,
    order: PhantomData<E>,
}

/// What a parameter would be added to.
#[derive(Clone, Copy, Debug)]
enum Current {
    Nothing,
    /// The record at this offset, with this many parameters so far.
    Record {
        at: usize,
        nparams: i32,
    },
    Missed,
}

/// A call that `pmdaEventArray(3)` forbids, or that the array has no room for. The array is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Flags of an ordinary record contain [`EventFlags::MISSED`].
    #[error("flags {0:#x} of an ordinary record contain the missed flag: use add_missed")]
    MissedFlag(u32),
    /// A parameter cannot have this type.
    #[error("a parameter cannot be of type {}", .0.name())]
    Type(ValueType),
    /// The value given is not of the type given.
    #[error("a parameter of type {} was given a value of type {}", .declared.name(), .given.name())]
    Mismatch {
        /// The parameter's type.
        declared: ValueType,
        /// The value's type.
        given: ValueType,
    },
    /// There is no record yet that a parameter could belong to.
    #[error("a parameter needs a record: add one first")]
    NoRecord,
    /// The last record is a missed record, which has no parameters.
    #[error("a missed record cannot have parameters: add a record first")]
    AfterMissed,
    /// The array would be longer than its 24-bit length can say.
    #[error("the array holds {used} bytes: {needed} more pass the limit of {MAX_ARRAY}")]
    Full {
        /// Bytes in the array.
        used: usize,
        /// Bytes the call would have added.
        needed: usize,
    },
}

impl BuildError {
    /// The code for callers that speak PCP. The first two are those of `libpcp_pmda`; the C library has no
    /// error for the others and corrupts the array.
    pub const fn code(&self) -> PmError {
        match self {
            BuildError::MissedFlag(_) | BuildError::Mismatch { .. } => PmError::CONV,
            BuildError::Type(_) => PmError::TYPE,
            BuildError::NoRecord | BuildError::AfterMissed => PmError::ARG,
            BuildError::Full { .. } => PmError::TOOBIG,
        }
    }
}

impl From<BuildError> for PmError {
    fn from(error: BuildError) -> PmError {
        error.code()
    }
}

impl<E: ByteOrder> EventArray<E> {
    /// An array without records (`pmdaEventNewArray`, `pmdaEventNewHighResArray`).
    pub fn new(kind: ArrayKind) -> EventArray<E> {
        EventArray::with_capacity(kind, 512)
    }

    /// An array without records whose buffer has room for `bytes` packed bytes.
    pub fn with_capacity(kind: ArrayKind, bytes: usize) -> EventArray<E> {
        let buf = vec![0; bytes.clamp(ARRAY_HEADER, MAX_ARRAY)];
        EventArray {
            kind,
            buf,
            used: ARRAY_HEADER,
            records: 0,
            current: Current::Nothing,
            order: PhantomData,
        }
    }

    /// Removes all records and keeps the memory (`pmdaEventResetArray`).
    pub fn reset(&mut self) {
        self.used = ARRAY_HEADER;
        self.records = 0;
        self.current = Current::Nothing;
    }

    /// Which of the two kinds this array is.
    pub const fn kind(&self) -> ArrayKind {
        self.kind
    }

    /// Number of records so far, missed records included.
    pub const fn records(&self) -> usize {
        self.records as usize
    }

    /// Bytes the array has so far, array header included.
    pub const fn packed_len(&self) -> usize {
        self.used
    }

    /// Starts a record (`pmdaEventAddRecord`). The parameters that follow belong to it.
    ///
    /// # Errors
    /// [`BuildError::MissedFlag`] if bit 31 is among the flags, [`BuildError::Full`].
    #[inline(always)]
    pub fn add_record(&mut self, time: Timestamp, flags: EventFlags) -> Result<(), BuildError> {
        if flags.contains(EventFlags::MISSED) {
            return Err(BuildError::MissedFlag(flags.0));
        }
        let at = self.put_record(time, flags, 0)?;
        self.current = Current::Record { at, nparams: 0 };
        Ok(())
    }

    /// Says that `count` records were lost at this point of the series (`pmdaEventAddMissedRecord`).
    /// There may be several such episodes in an array. The count is stored as it is, also when it is not
    /// positive.
    ///
    /// As in `libpcp_pmda`, and unlike in ordinary records, the seconds of the HIGHRES kind are cut to 32
    /// bits and sign-extended here. In network form the HIGHRES count is the true one: readers accept it,
    /// though libpcp's own encoders (and so pmcd, when it passes the array on) write 0.
    ///
    /// # Errors
    /// [`BuildError::Full`].
    #[inline(always)]
    pub fn add_missed(&mut self, time: Timestamp, count: i32) -> Result<(), BuildError> {
        // An archive written by the C library must read the same as one written from here.
        let time = Timestamp { sec: i64::from(time.sec as i32), ..time };
        self.put_record(time, EventFlags::MISSED, count)?;
        self.current = Current::Missed;
        Ok(())
    }

    /// Adds a parameter to the current record (`pmdaEventAddParam`).
    ///
    /// # Errors
    /// [`BuildError::NoRecord`], [`BuildError::AfterMissed`], [`BuildError::Full`].
    #[inline(always)]
    pub fn add_param(&mut self, pmid: Pmid, param: Param<'_>) -> Result<(), BuildError> {
        let Current::Record { at, nparams } = self.current else {
            return Err(self.no_record());
        };
        pack::write_param::<E>(self.room(param.packed_len())?, pmid, &param);
        self.current = Current::Record { at, nparams: nparams + 1 };
        Ok(())
    }

    /// Adds a parameter whose type is only known at run time.
    ///
    /// # Errors
    /// First [`BuildError::Type`] if parameters cannot have this type, then [`BuildError::Mismatch`] if the
    /// value is of another one, then those of [`EventArray::add_param`].
    pub fn add_value(&mut self, pmid: Pmid, value_type: ValueType, value: &Value) -> Result<(), BuildError> {
        self.add_param(pmid, param_of(value_type, value)?)
    }

    /// The finished array, header word and counts included (`pmdaEventGetAddr`). More can be added later.
    pub fn get(&mut self) -> &[u8] {
        self.close_record();
        let word = pack::header_word(self.kind.value_type(), self.used);
        E::write_u32(&mut self.buf[..4], word);
        E::write_i32(&mut self.buf[4..ARRAY_HEADER], self.records);
        &self.buf[..self.used]
    }

    /// The finished array, taken out of the builder.
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.get();
        self.buf.truncate(self.used);
        self.buf
    }

    /// Appends a record header and returns its offset.
    #[inline]
    fn put_record(&mut self, time: Timestamp, flags: EventFlags, nparams: i32) -> Result<usize, BuildError> {
        let (kind, at) = (self.kind, self.used);
        pack::write_record::<E>(self.room(kind.record_header())?, kind, time, flags, nparams);
        // Counts are written once, not with each parameter: whoever reads goes through `get`, which closes as well.
        self.close_record();
        self.records += 1;
        Ok(at)
    }

    /// The next `needed` bytes of the buffer, which are in use from now on.
    #[inline(always)]
    fn room(&mut self, needed: usize) -> Result<&mut [u8], BuildError> {
        let used = self.used;
        // `used` never passes the end, so this does not wrap.
        if needed > self.buf.len() - used {
            self.grow(needed)?;
        }
        self.used = used + needed;
        Ok(&mut self.buf[used..used + needed])
    }

    #[cold]
    fn grow(&mut self, needed: usize) -> Result<(), BuildError> {
        if needed > MAX_ARRAY - self.used {
            return Err(BuildError::Full { used: self.used, needed });
        }
        let double = (2 * self.buf.len()).min(MAX_ARRAY);
        self.buf.resize(double.max(self.used + needed), 0);
        Ok(())
    }

    /// Writes the number of parameters into the current record.
    #[inline]
    fn close_record(&mut self) {
        if let Current::Record { at, nparams } = self.current {
            let at = at + self.kind.record_header() - 4;
            E::write_i32(&mut self.buf[at..at + 4], nparams);
        }
    }

    #[cold]
    fn no_record(&self) -> BuildError {
        match self.current {
            Current::Missed => BuildError::AfterMissed,
            Current::Nothing | Current::Record { .. } => BuildError::NoRecord,
        }
    }
}

fn param_of(declared: ValueType, value: &Value) -> Result<Param<'_>, BuildError> {
    if !(0..=7).contains(&declared.code()) {
        return Err(BuildError::Type(declared));
    }
    let param = match value {
        Value::I32(v) => Param::I32(*v),
        Value::U32(v) => Param::U32(*v),
        Value::I64(v) => Param::I64(*v),
        Value::U64(v) => Param::U64(*v),
        Value::Float(v) => Param::Float(*v),
        Value::Double(v) => Param::Double(*v),
        Value::String(bytes) => Param::String(bytes),
        Value::Aggregate(bytes) => Param::Aggregate(bytes),
        Value::Event(_) | Value::HighResEvent(_) => {
            return Err(BuildError::Mismatch { declared, given: value.value_type() });
        }
    };
    if param.value_type() != declared {
        return Err(BuildError::Mismatch { declared, given: param.value_type() });
    }
    Ok(param)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PMID: Pmid = Pmid::new(29, 0, 128);
    const WHEN: Timestamp = Timestamp::new(0x6500_0001, 123_456_789);

    #[test]
    fn an_empty_array_is_its_header() {
        for (kind, bytes) in [(ArrayKind::Event, [9, 0, 0, 8]), (ArrayKind::HighRes, [10, 0, 0, 8])] {
            assert_eq!(NetEventArray::new(kind).get(), [bytes, [0; 4]].concat());
        }
    }

    #[test]
    fn a_missed_record_is_as_the_library_sends_it() {
        let mut array = NetEventArray::new(ArrayKind::Event);
        array.add_missed(WHEN, 7).unwrap();
        let bytes = b"\x09\0\0\x18\0\0\0\x01\x65\0\0\x01\0\x01\xe2\x40\x80\0\0\0\0\0\0\x07";
        assert_eq!(array.get(), bytes);
    }

    #[test]
    fn records_can_follow_a_get() {
        let mut array = NetEventArray::new(ArrayKind::HighRes);
        array.add_record(WHEN, EventFlags::POINT).unwrap();
        array.add_param(PMID, Param::U32(1)).unwrap();
        let first = array.get().to_vec();
        assert_eq!(first[28..32], [0, 0, 0, 1]);
        array.add_param(PMID, Param::U32(2)).unwrap();
        array.add_record(WHEN, EventFlags(0)).unwrap();
        let both = array.get().to_vec();
        assert_eq!((both[28..32].to_vec(), both[4..8].to_vec()), (vec![0, 0, 0, 2], vec![0, 0, 0, 2]));

        array.reset();
        array.add_record(WHEN, EventFlags::POINT).unwrap();
        array.add_param(PMID, Param::U32(1)).unwrap();
        assert_eq!(array.get(), first);
    }

    type Call = fn(&mut NetEventArray) -> Result<(), BuildError>;

    #[track_caller]
    fn refused(array: &mut NetEventArray, call: Call, error: BuildError) {
        let before = array.get().to_vec();
        assert_eq!(call(array), Err(error));
        assert_eq!(array.get(), before);
        assert_eq!(
            array.records(),
            i32::from_be_bytes([before[4], before[5], before[6], before[7]]) as usize
        );
    }

    const ADD_PARAM: Call = |array| array.add_param(PMID, Param::U32(1));

    #[test]
    fn misuse_is_an_error_and_changes_nothing() {
        let mut array = NetEventArray::new(ArrayKind::Event);
        refused(&mut array, ADD_PARAM, BuildError::NoRecord);
        let missed_flag: Call = |array| array.add_record(WHEN, EventFlags(0x8000_0001));
        refused(&mut array, missed_flag, BuildError::MissedFlag(0x8000_0001));
        array.add_record(WHEN, EventFlags::POINT).unwrap();
        array.add_param(PMID, Param::U32(1)).unwrap();
        refused(&mut array, missed_flag, BuildError::MissedFlag(0x8000_0001));

        array.add_missed(WHEN, 7).unwrap();
        refused(&mut array, ADD_PARAM, BuildError::AfterMissed);
        array.reset();
        refused(&mut array, ADD_PARAM, BuildError::NoRecord);
    }

    #[test]
    fn a_value_must_be_of_a_type_parameters_can_have() {
        let mut array = NetEventArray::new(ArrayKind::HighRes);
        let static_type: Call = |array| array.add_value(PMID, ValueType::AggregateStatic, &Value::U32(1));
        // The type is checked before the record, as in libpcp_pmda.
        refused(&mut array, static_type, BuildError::Type(ValueType::AggregateStatic));
        array.add_record(WHEN, EventFlags::POINT).unwrap();
        refused(&mut array, static_type, BuildError::Type(ValueType::AggregateStatic));
        let nested: Call = |array| array.add_value(PMID, ValueType::Event, &Value::Event(Default::default()));
        refused(&mut array, nested, BuildError::Type(ValueType::Event));
        let mismatch: Call = |array| array.add_value(PMID, ValueType::I32, &Value::U32(1));
        let error = BuildError::Mismatch { declared: ValueType::I32, given: ValueType::U32 };
        refused(&mut array, mismatch, error);
        array.add_value(PMID, ValueType::I32, &Value::I32(1)).unwrap();
    }

    #[test]
    fn the_limit_is_exact() {
        for kind in [ArrayKind::Event, ArrayKind::HighRes] {
            let mut array = NetEventArray::new(kind);
            array.add_record(WHEN, EventFlags::POINT).unwrap();
            let room = MAX_ARRAY - array.packed_len();
            let text = vec![b'x'; room - 8 + 1];
            let used = array.packed_len();
            let error = BuildError::Full { used, needed: room + 4 };
            assert_eq!(array.add_param(PMID, Param::String(&text)), Err(error));
            assert_eq!(error.code(), PmError::TOOBIG);
            array.add_param(PMID, Param::String(&text[1..])).unwrap();
            let word = u32::from_be_bytes([array.get()[0], array.get()[1], array.get()[2], array.get()[3]]);
            assert_eq!(word, pack::header_word(kind.value_type(), MAX_ARRAY));
            assert_eq!(array.get().len(), MAX_ARRAY);
            assert!(matches!(array.add_record(WHEN, EventFlags(0)), Err(BuildError::Full { .. })));
            assert!(matches!(array.add_missed(WHEN, 1), Err(BuildError::Full { .. })));
            assert!(matches!(array.add_param(PMID, Param::String(b"")), Err(BuildError::Full { .. })));
            assert_eq!(array.records(), 1);
        }
    }
}
