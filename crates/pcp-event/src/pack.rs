//! The packed layout of event arrays, and the one place that writes it (`docs/pcp/events.md` 1).
//!
//! ```text
//! array   := header word (4) | nrecords (4) | record*
//! record  := timestamp (8 EVENT / 16 HIGHRES) | flags (4) | nparams (4) | param*
//! param   := pmid (4) | header word (4) | value bytes, zero padded to a multiple of 4
//! ```
//!
//! A header word holds the type in its top 8 bits and, in the low 24, the length of itself and the
//! payload, without padding. The layout is the same in host form (what `libpcp_pmda` builds and
//! `pmUnpackEventRecords(3)` reads) and on the wire; only the byte order differs, so everything here
//! is generic over [`ByteOrder`].

use bitflags::bitflags;
use byteorder::ByteOrder;

use bytes::Bytes;
use pcp_model::{Number, Pmid, Timestamp, Value, ValueType};

/// Bytes before the first record: header word and record count.
pub const ARRAY_HEADER: usize = 8;
/// Bytes of a parameter before its value: PMID and header word.
pub const PARAM_HEADER: usize = 8;
/// Largest length a header word can hold.
pub const MAX_LEN: usize = 0xff_ffff;
/// Largest array: the largest multiple of 4 a header word can hold.
pub const MAX_ARRAY: usize = MAX_LEN & !3;

/// Which of the two event types an array is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArrayKind {
    /// `PM_TYPE_EVENT`: seconds and microseconds, 32 bits each.
    Event,
    /// `PM_TYPE_HIGHRES_EVENT`: seconds and nanoseconds, 64 bits each.
    HighRes,
}

impl ArrayKind {
    /// The type of the metric and of the array's header word.
    pub const fn value_type(self) -> ValueType {
        match self {
            ArrayKind::Event => ValueType::Event,
            ArrayKind::HighRes => ValueType::HighResEvent,
        }
    }

    /// Bytes of a record before its first parameter.
    pub const fn record_header(self) -> usize {
        match self {
            ArrayKind::Event => 16,
            ArrayKind::HighRes => 24,
        }
    }

    /// Offset of a record's flags word; the parameter count follows it.
    pub(crate) const fn flags_offset(self) -> usize {
        self.record_header() - 8
    }
}

/// A record's flags (`PM_EVENT_FLAG_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct EventFlags(pub u32);

bitflags! {
    impl EventFlags: u32 {
        /// A single observation.
        const POINT = 0x1;
        /// Begin of a traced activity.
        const START = 0x2;
        /// End of a traced activity.
        const END = 0x4;
        /// The first parameter identifies the trace.
        const ID = 0x8;
        /// The second parameter identifies the parent.
        const PARENT = 0x10;
        /// The record stands for lost records. No other bit may be set with it.
        const MISSED = 0x8000_0000;
    }
}

impl std::fmt::Display for EventFlags {
    /// The words of `pmEventFlagsStr(3)`, joined with commas; `missed` hides all others.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const WORDS: [(EventFlags, &str); 5] = [
            (EventFlags::POINT, "point"),
            (EventFlags::START, "start"),
            (EventFlags::END, "end"),
            (EventFlags::ID, "id"),
            (EventFlags::PARENT, "parent"),
        ];
        // With it no other bit means anything.
        if self.contains(EventFlags::MISSED) {
            return f.write_str("missed");
        }
        let mut comma = "";
        for (_, word) in WORDS.iter().filter(|(flag, _)| self.contains(*flag)) {
            write!(f, "{comma}{word}")?;
            comma = ",";
        }
        Ok(())
    }
}

/// A parameter's value, of the eight types a builder accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Param<'a> {
    /// 32-bit signed integer.
    I32(i32),
    /// 32-bit unsigned integer.
    U32(u32),
    /// 64-bit signed integer.
    I64(i64),
    /// 64-bit unsigned integer.
    U64(u64),
    /// Single precision.
    Float(f32),
    /// Double precision.
    Double(f64),
    /// Text, without a NUL.
    String(&'a [u8]),
    /// Raw bytes.
    Aggregate(&'a [u8]),
}

impl From<Param<'_>> for Value {
    /// The value with memory of its own.
    fn from(param: Param<'_>) -> Value {
        match param {
            Param::I32(value) => Value::I32(value),
            Param::U32(value) => Value::U32(value),
            Param::I64(value) => Value::I64(value),
            Param::U64(value) => Value::U64(value),
            Param::Float(value) => Value::Float(value),
            Param::Double(value) => Value::Double(value),
            Param::String(text) => Value::String(Bytes::copy_from_slice(text)),
            Param::Aggregate(bytes) => Value::Aggregate(Bytes::copy_from_slice(bytes)),
        }
    }
}

impl Param<'_> {
    /// The number, if it is one.
    #[inline]
    pub const fn number(&self) -> Option<Number> {
        Some(match *self {
            Param::I32(v) => Number::I32(v),
            Param::U32(v) => Number::U32(v),
            Param::I64(v) => Number::I64(v),
            Param::U64(v) => Number::U64(v),
            Param::Float(v) => Number::Float(v),
            Param::Double(v) => Number::Double(v),
            Param::String(_) | Param::Aggregate(_) => return None,
        })
    }

    /// The type in the parameter's header word.
    #[inline]
    pub const fn value_type(&self) -> ValueType {
        match self {
            Param::I32(_) => ValueType::I32,
            Param::U32(_) => ValueType::U32,
            Param::I64(_) => ValueType::I64,
            Param::U64(_) => ValueType::U64,
            Param::Float(_) => ValueType::Float,
            Param::Double(_) => ValueType::Double,
            Param::String(_) => ValueType::String,
            Param::Aggregate(_) => ValueType::Aggregate,
        }
    }

    /// Bytes of the value, without padding.
    #[inline]
    pub const fn value_len(&self) -> usize {
        match self {
            Param::I32(_) | Param::U32(_) | Param::Float(_) => 4,
            Param::I64(_) | Param::U64(_) | Param::Double(_) => 8,
            Param::String(bytes) | Param::Aggregate(bytes) => bytes.len(),
        }
    }

    /// Bytes of the whole parameter in an array, padding included.
    #[inline]
    pub const fn packed_len(&self) -> usize {
        PARAM_HEADER + pad4(self.value_len())
    }
}

/// Rounds up to a multiple of 4.
#[inline]
pub const fn pad4(len: usize) -> usize {
    (len + 3) & !3
}

/// A header word: type and length (header word included, padding not).
pub const fn header_word(value_type: ValueType, len: usize) -> u32 {
    (value_type.code() as u32) << 24 | (len & MAX_LEN) as u32
}

/// Appends a record header, see `write_record`.
#[inline]
pub fn put_record<E: ByteOrder>(
    out: &mut Vec<u8>,
    kind: ArrayKind,
    time: Timestamp,
    flags: EventFlags,
    nparams: i32,
) {
    let mut header = [0u8; 24];
    let header = &mut header[..kind.record_header()];
    write_record::<E>(header, kind, time, flags, nparams);
    out.extend_from_slice(header);
}

/// Texts up to this length are copied without a call.
const SHORT: usize = 32;

/// Appends a parameter, pad bytes zero. The caller has made sure that the value fits [`MAX_LEN`].
#[inline]
pub fn put_param<E: ByteOrder>(out: &mut Vec<u8>, pmid: Pmid, param: &Param<'_>) {
    let (at, len) = (out.len(), param.packed_len());
    if len <= PARAM_HEADER + SHORT {
        // Room for the longest, whatever this one is: as much as is known beforehand is appended without a call. And written where it
        // stays: a processor waits for what it has just written in parts, if that is read again as a whole.
        out.extend_from_slice(&[0; PARAM_HEADER + SHORT]);
        write_param::<E>(&mut out[at..at + len], pmid, param);
        out.truncate(at + len);
    } else if let Param::String(bytes) | Param::Aggregate(bytes) = *param {
        let mut header = [0; PARAM_HEADER];
        write_param_header::<E>(&mut header, pmid, param);
        out.extend_from_slice(&header);
        out.extend_from_slice(bytes);
        out.extend_from_slice(&[0; 3][..pad4(bytes.len()) - bytes.len()]);
    }
}

/// Writes a record header into `out`, which is of that length. Seconds beyond 32 bits are cut in the EVENT
/// kind, as `libpcp_pmda` does.
#[inline(always)]
pub(crate) fn write_record<E: ByteOrder>(
    out: &mut [u8],
    kind: ArrayKind,
    time: Timestamp,
    flags: EventFlags,
    nparams: i32,
) {
    match kind {
        ArrayKind::Event => {
            E::write_i32(&mut out[0..], time.sec as i32);
            E::write_i32(&mut out[4..], time.usec() as i32);
        }
        ArrayKind::HighRes => {
            E::write_i64(&mut out[0..], time.sec);
            E::write_i64(&mut out[8..], i64::from(time.nsec));
        }
    }
    let at = kind.flags_offset();
    E::write_u32(&mut out[at..], flags.0);
    E::write_i32(&mut out[at + 4..], nparams);
}

/// Writes a parameter into `out`, which is [`Param::packed_len`] bytes long, pad bytes zero.
#[inline(always)]
pub(crate) fn write_param<E: ByteOrder>(out: &mut [u8], pmid: Pmid, param: &Param<'_>) {
    if let Some(pad) = out.last_chunk_mut::<4>() {
        *pad = [0; 4];
    }
    write_param_header::<E>(out, pmid, param);
    let value = &mut out[PARAM_HEADER..];
    match *param {
        Param::I32(v) => E::write_i32(value, v),
        Param::U32(v) => E::write_u32(value, v),
        Param::Float(v) => E::write_f32(value, v),
        Param::I64(v) => E::write_i64(value, v),
        Param::U64(v) => E::write_u64(value, v),
        Param::Double(v) => E::write_f64(value, v),
        Param::String(bytes) | Param::Aggregate(bytes) => copy_text(value, bytes),
    }
}

/// Copies a text to the start of `out`, which is not shorter. Most are so short that a call would cost more than the copy.
#[inline(always)]
fn copy_text(out: &mut [u8], text: &[u8]) {
    match text.len() {
        // In two pieces that overlap.
        17..=SHORT => copy_ends::<16>(out, text),
        8..=16 => copy_ends::<8>(out, text),
        4..=7 => copy_ends::<4>(out, text),
        // The first, the middle and the last.
        len @ 1..=3 => [0, len / 2, len - 1].into_iter().for_each(|at| out[at] = text[at]),
        len => out[..len].copy_from_slice(text),
    }
}

/// Copies a text of `N` to twice as many bytes.
#[inline(always)]
fn copy_ends<const N: usize>(out: &mut [u8], text: &[u8]) {
    let out = &mut out[..text.len()];
    if let (Some(to), Some(from)) = (out.first_chunk_mut::<N>(), text.first_chunk()) {
        *to = *from;
    }
    if let (Some(to), Some(from)) = (out.last_chunk_mut::<N>(), text.last_chunk()) {
        *to = *from;
    }
}

#[inline(always)]
fn write_param_header<E: ByteOrder>(out: &mut [u8], pmid: Pmid, param: &Param<'_>) {
    E::write_u32(&mut out[0..], pmid.0);
    E::write_u32(&mut out[4..], header_word(param.value_type(), 4 + param.value_len()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_print_as_pm_event_flags_str() {
        for (flags, text) in [
            (0, ""),
            (0x20, ""),
            (0x1, "point"),
            (0x1f, "point,start,end,id,parent"),
            (0x1a, "start,id,parent"),
            (0x8000_0000, "missed"),
            (0x8000_0001, "missed"),
        ] {
            assert_eq!(EventFlags(flags).to_string(), text);
        }
    }

    #[test]
    fn texts_of_all_lengths_are_padded_with_zeros() {
        let text: Vec<u8> = (1..=40).collect();
        for len in 0..=text.len() {
            let param = Param::String(&text[..len]);
            let mut out = vec![0xff; param.packed_len()];
            write_param::<byteorder::BigEndian>(&mut out, Pmid(7), &param);
            let mut put = vec![1];
            put_param::<byteorder::BigEndian>(&mut put, Pmid(7), &param);
            let mut expected = [[0, 0, 0, 7], (6 << 24 | (4 + len as u32)).to_be_bytes()].concat();
            expected.extend(&text[..len]);
            expected.resize(param.packed_len(), 0);
            assert_eq!(put[1..], expected, "{len}");
            assert_eq!(out, expected, "{len}");
        }
    }

    #[test]
    fn a_string_parameter_is_padded_with_zeros() {
        let mut out = Vec::new();
        put_param::<byteorder::BigEndian>(&mut out, Pmid::new(29, 0, 134), &Param::String(b"abcde"));
        assert_eq!(out, b"\x07\x40\x00\x86\x06\x00\x00\x09abcde\0\0\0");
        assert_eq!(out.len(), Param::String(b"abcde").packed_len());
    }
}
