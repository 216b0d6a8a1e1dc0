//! What all PDUs share: errors, a bounds-checked [`Reader`] over a frame, a [`Writer`] of one PDU.

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::frame::{Frame, HEADER_LEN};
use super::kind;
use crate::model::{Inst, PmError, Pmid};

/// Longest PDU sent or received, header included: PCP refuses lengths within 1024 of 2^31.
pub const MAX_LEN: usize = i32::MAX as usize - 1024;
/// What fills the last word of a name, a text or a value block.
pub(super) const PAD: u8 = b'~';
/// Where the type stands in a PDU.
pub(super) const KIND_OFFSET: usize = 4;

/// Text or a name as PCP has it: bytes without a terminating NUL, in no promised encoding.
/// Cheap to clone; a decoded one is a slice of its frame.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ByteStr(pub Bytes);

impl ByteStr {
    /// As text, if it is UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// As text, with replacement characters where it is not UTF-8.
    pub fn to_str_lossy(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl std::ops::Deref for ByteStr {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl From<&str> for ByteStr {
    fn from(text: &str) -> ByteStr {
        ByteStr(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl From<String> for ByteStr {
    fn from(text: String) -> ByteStr {
        ByteStr(Bytes::from(text))
    }
}

impl PartialEq<str> for ByteStr {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<&str> for ByteStr {
    fn eq(&self, other: &&str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl fmt::Display for ByteStr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_str_lossy())
    }
}

impl fmt::Debug for ByteStr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// A frame that is not a PDU of its type: which type, where, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PduError {
    /// The type number of the frame.
    pub kind: u32,
    /// Offset of the field at fault, from the first byte of the PDU (the header counts).
    pub offset: usize,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong with a PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// No PDU has this type number, or none that is sent over a connection.
    UnknownType,
    /// The PDU ends before or within the field.
    Truncated {
        /// The field.
        field: &'static str,
        /// Bytes it takes.
        need: usize,
        /// Bytes left.
        have: usize,
    },
    /// Bytes are left behind the last field.
    Trailing {
        /// How many.
        extra: usize,
    },
    /// A count or length is negative, or promises more than the PDU holds or the protocol allows.
    Count {
        /// The field.
        field: &'static str,
        /// Its value.
        count: i32,
    },
    /// A field holds a value it cannot have.
    Value {
        /// The field.
        field: &'static str,
        /// The value.
        value: i32,
    },
    /// A label's type is none of the six levels.
    LabelType {
        /// The type as it came.
        value: i32,
    },
    /// A text request names neither a metric nor an instance domain.
    TextTarget {
        /// The type as it came.
        value: i32,
    },
    /// The value blocks of a result do not tile the space behind its value sets.
    Blocks {
        /// What is wrong with the block.
        what: &'static str,
    },
    /// The counts of an event array do not fit its bytes.
    EventArray {
        /// What does not fit.
        field: &'static str,
    },
    /// A label's name, value or JSON lies outside its place.
    Label {
        /// Which of them.
        field: &'static str,
    },
}

impl PduError {
    /// The code PCP answers with.
    pub const fn pm_error(&self) -> PmError {
        match self.problem {
            Problem::LabelType { .. } => PmError::TYPE,
            Problem::TextTarget { .. } => PmError::PMID,
            _ => PmError::IPC,
        }
    }
}

impl From<PduError> for PmError {
    fn from(error: PduError) -> PmError {
        error.pm_error()
    }
}

impl fmt::Display for PduError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match kind::name(self.kind) {
            Some(name) => write!(f, "{name} PDU, byte {}: ", self.offset)?,
            None => write!(f, "PDU {:#x}, byte {}: ", self.kind, self.offset)?,
        }
        match self.problem {
            Problem::UnknownType => write!(f, "unknown type"),
            Problem::Truncated { field, need, have } => {
                write!(f, "{field} takes {need} bytes, {have} are left")
            }
            Problem::Trailing { extra } => write!(f, "{extra} bytes too many"),
            Problem::Count { field, count } => write!(f, "{field} {count} does not fit"),
            Problem::Value { field, value } => write!(f, "{field} cannot be {value}"),
            Problem::LabelType { value } => write!(f, "label type {value:#x} is none of the six"),
            Problem::TextTarget { value } => {
                write!(f, "text type {value:#x} is neither for a metric nor for an instance domain")
            }
            Problem::Blocks { what } => write!(f, "value block {what}"),
            Problem::EventArray { field } => write!(f, "event array: {field} does not fit"),
            Problem::Label { field } => write!(f, "label: {field}, outside its place"),
        }
    }
}

impl std::error::Error for PduError {}

/// A PDU that the protocol cannot express.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodeError {
    /// The type number of the PDU.
    pub kind: u32,
    /// Why it cannot be sent.
    pub reason: Unsendable,
}

/// Why something cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsendable {
    /// The whole PDU would be longer than the limit.
    TooLong {
        /// The limit, in bytes.
        max: usize,
    },
    /// A value is longer than its block's 24-bit length can say.
    ValueTooLong {
        /// The metric.
        pmid: Pmid,
        /// The instance.
        inst: Inst,
        /// Bytes of the block, header included.
        len: usize,
    },
    /// The values of one metric are partly in place, partly in blocks.
    MixedFormats {
        /// The metric.
        pmid: Pmid,
    },
    /// What was written as an event array is not one.
    NotAnEventArray {
        /// The metric.
        pmid: Pmid,
        /// The instance.
        inst: Inst,
    },
    /// A field exceeds its limit.
    Limit {
        /// The field.
        field: &'static str,
        /// Its value.
        value: usize,
        /// The largest value allowed.
        max: usize,
    },
    /// A list that must not be empty is, or a name is.
    Empty {
        /// The field.
        field: &'static str,
    },
    /// An error code that is not negative where only errors can stand.
    NotAnError {
        /// The code.
        code: i32,
    },
    /// A label's name or value cannot stand in JSON text.
    BadLabel {
        /// What is wrong.
        what: &'static str,
    },
    /// A value outside a value set, or a value set inside another.
    Misuse {
        /// The call.
        call: &'static str,
    },
}

impl EncodeError {
    /// The code to report in place of what could not be sent.
    pub const fn pm_error(&self) -> PmError {
        match self.reason {
            Unsendable::TooLong { .. } | Unsendable::ValueTooLong { .. } | Unsendable::Limit { .. } => {
                PmError::TOOBIG
            }
            Unsendable::Empty { .. } => PmError::TOOSMALL,
            Unsendable::MixedFormats { .. } | Unsendable::NotAnEventArray { .. } => PmError::CONV,
            Unsendable::BadLabel { .. } => PmError::LABEL,
            Unsendable::NotAnError { .. } | Unsendable::Misuse { .. } => PmError::BOTCH,
        }
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} PDU cannot be sent: ", kind::name(self.kind).unwrap_or("unknown"))?;
        match self.reason {
            Unsendable::TooLong { max } => write!(f, "longer than {max} bytes"),
            Unsendable::ValueTooLong { pmid, inst, len } => {
                write!(f, "a value of {pmid}, instance {inst}, takes {len} bytes, at most 16777215 fit")
            }
            Unsendable::MixedFormats { pmid } => write!(f, "values of {pmid} differ in format"),
            Unsendable::NotAnEventArray { pmid, inst } => {
                write!(f, "the value of {pmid}, instance {inst}, is not a packed event array")
            }
            Unsendable::Limit { field, value, max } => write!(f, "{field} is {value}, at most {max} fit"),
            Unsendable::Empty { field } => write!(f, "{field} is empty"),
            Unsendable::NotAnError { code } => write!(f, "{code} is not an error code"),
            Unsendable::BadLabel { what } => write!(f, "label with {what}"),
            Unsendable::Misuse { call } => write!(f, "{call} at the wrong time"),
        }
    }
}

impl std::error::Error for EncodeError {}

/// Rounds up to a whole number of words.
pub(super) const fn pad4(len: usize) -> usize {
    (len + 3) & !3
}

/// Reads a frame's body from front to back. Every read is checked; errors carry the place.
#[derive(Clone)]
pub(super) struct Reader<'a> {
    frame: &'a Frame,
    /// Bytes of the body consumed.
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(frame: &'a Frame) -> Reader<'a> {
        Reader { frame, at: 0 }
    }

    /// Offset of the next byte from the start of the PDU.
    pub fn place(&self) -> usize {
        HEADER_LEN + self.at
    }

    /// Length of the whole PDU.
    pub fn pdu_len(&self) -> usize {
        HEADER_LEN + self.frame.body.len()
    }

    pub fn remaining(&self) -> usize {
        self.frame.body.len() - self.at
    }

    /// An error at `offset` bytes from the start of the PDU.
    pub fn error_at(&self, offset: usize, problem: Problem) -> PduError {
        PduError { kind: self.frame.kind, offset, problem }
    }

    /// An error at the word just read.
    pub fn error_before(&self, problem: Problem) -> PduError {
        self.error_at(self.place().saturating_sub(4), problem)
    }

    /// The next `need` bytes.
    pub fn take(&mut self, field: &'static str, need: usize) -> Result<&'a [u8], PduError> {
        let rest = self.frame.body.get(self.at..).unwrap_or(&[]);
        match rest.get(..need) {
            Some(bytes) => {
                self.at += need;
                Ok(bytes)
            }
            None => Err(self.error_at(self.place(), Problem::Truncated { field, need, have: rest.len() })),
        }
    }

    /// The next `need` bytes as a slice that shares the frame's memory.
    pub fn share(&mut self, field: &'static str, need: usize) -> Result<Bytes, PduError> {
        let bytes = self.take(field, need)?;
        Ok(self.frame.body.slice_ref(bytes))
    }

    /// The bytes from `start` to `end`, both offsets from the start of the PDU; `None` if outside.
    pub fn bytes_at(&self, start: usize, end: usize) -> Option<Bytes> {
        let bytes = self.frame.body.get(start.checked_sub(HEADER_LEN)?..end.checked_sub(HEADER_LEN)?)?;
        Some(self.frame.body.slice_ref(bytes))
    }

    pub fn u8(&mut self, field: &'static str) -> Result<u8, PduError> {
        self.take(field, 1).map(|mut bytes| bytes.get_u8())
    }

    pub fn u16(&mut self, field: &'static str) -> Result<u16, PduError> {
        self.take(field, 2).map(|mut bytes| bytes.get_u16())
    }

    pub fn u32(&mut self, field: &'static str) -> Result<u32, PduError> {
        self.take(field, 4).map(|mut bytes| bytes.get_u32())
    }

    pub fn i32(&mut self, field: &'static str) -> Result<i32, PduError> {
        self.take(field, 4).map(|mut bytes| bytes.get_i32())
    }

    pub fn i64(&mut self, field: &'static str) -> Result<i64, PduError> {
        self.take(field, 8).map(|mut bytes| bytes.get_i64())
    }

    /// A count of items that take at least `item` bytes each, so that it is safe to allocate for.
    pub fn count(&mut self, field: &'static str, item: usize) -> Result<usize, PduError> {
        let word = self.i32(field)?;
        match usize::try_from(word) {
            Ok(count) if count <= self.remaining() / item.max(1) => Ok(count),
            _ => Err(self.error_before(Problem::Count { field, count: word })),
        }
    }

    /// A length word, that many bytes and their padding, which may be missing at the end of the PDU.
    pub fn padded(&mut self, field: &'static str) -> Result<ByteStr, PduError> {
        let len = self.count(field, 1)?;
        let text = self.share(field, len)?;
        self.at += (pad4(len) - len).min(self.remaining());
        Ok(ByteStr(text))
    }

    /// Ends the reading: nothing may be left.
    pub fn finish(&self) -> Result<(), PduError> {
        match self.remaining() {
            0 => Ok(()),
            extra => Err(self.error_at(self.place(), Problem::Trailing { extra })),
        }
    }
}

/// Appends one PDU to a buffer. Dropped before [`Writer::finish`], it leaves the buffer as it was.
pub(super) struct Writer<'a> {
    out: &'a mut BytesMut,
    start: usize,
    kind: u32,
    done: bool,
}

impl<'a> Writer<'a> {
    pub fn new(out: &'a mut BytesMut, kind: u32, from: i32) -> Writer<'a> {
        let start = out.len();
        out.reserve(64);
        out.put_u32(0);
        out.put_u32(kind);
        out.put_i32(from);
        Writer { out, start, kind, done: false }
    }

    pub fn reserve(&mut self, bytes: usize) {
        self.out.reserve(bytes);
    }

    pub fn u32(&mut self, value: u32) {
        self.out.put_u32(value);
    }

    pub fn i32(&mut self, value: i32) {
        self.out.put_i32(value);
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.out.put_slice(bytes);
    }

    /// A count word, checked.
    pub fn count(&mut self, field: &'static str, count: usize) -> Result<(), EncodeError> {
        match i32::try_from(count) {
            Ok(count) => self.out.put_i32(count),
            Err(_) => {
                let reason = Unsendable::Limit { field, value: count, max: i32::MAX as usize };
                return Err(self.error(reason));
            }
        }
        Ok(())
    }

    /// Padding after `len` bytes.
    pub fn pad(&mut self, len: usize) {
        self.out.put_bytes(PAD, pad4(len) - len);
    }

    /// A length word, the bytes, the padding.
    pub fn padded(&mut self, field: &'static str, bytes: &[u8]) -> Result<(), EncodeError> {
        self.count(field, bytes.len())?;
        self.bytes(bytes);
        self.pad(bytes.len());
        Ok(())
    }

    pub fn error(&self, reason: Unsendable) -> EncodeError {
        EncodeError { kind: self.kind, reason }
    }

    /// Writes the length into the header.
    pub fn finish(mut self) -> Result<(), EncodeError> {
        let len = self.out.len() - self.start;
        if len > MAX_LEN {
            return Err(self.error(Unsendable::TooLong { max: MAX_LEN }));
        }
        // `new` put four bytes there, and MAX_LEN fits i32.
        self.out[self.start..][..4].copy_from_slice(&(len as u32).to_be_bytes());
        self.done = true;
        Ok(())
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.out.truncate(self.start);
        }
    }
}

#[cfg(test)]
pub(super) mod testing {
    //! Helpers of the tests next to each family.

    use super::*;
    use crate::pdu::{FrameReader, Pdu};

    /// The bytes of hex text; white space is ignored.
    pub fn unhex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(pair).collect()
    }

    /// Cuts exactly one frame off `bytes`.
    pub fn frame(bytes: &[u8]) -> Frame {
        let mut buf = BytesMut::from(bytes);
        let frame = FrameReader::new(MAX_LEN).next(&mut buf).expect("a frame").expect("a whole frame");
        assert!(buf.is_empty(), "bytes behind the frame");
        frame
    }

    /// A frame of `kind` whose body is hex text.
    pub fn body(kind: u32, text: &str) -> Frame {
        Frame { kind, from: 0, body: unhex(text).into() }
    }

    /// The captured bytes decode to `pdu`, and `pdu` encodes to the captured bytes.
    #[track_caller]
    pub fn captured(text: &str, pdu: &Pdu) {
        let bytes = unhex(text);
        let frame = frame(&bytes);
        assert_eq!(Pdu::decode(&frame).as_ref(), Ok(pdu));
        assert_eq!(&pdu.to_bytes(frame.from).expect("sendable")[..], &bytes[..]);
    }

    /// The PDU comes back from its own bytes.
    #[track_caller]
    pub fn round_trip(pdu: &Pdu) {
        assert_eq!(Pdu::decode(&frame(&pdu.to_bytes(7).expect("sendable"))).as_ref(), Ok(pdu));
    }

    /// Decoding fails at `offset` with `problem`.
    #[track_caller]
    pub fn refused(frame: &Frame, offset: usize, problem: Problem) {
        assert_eq!(Pdu::decode(frame), Err(PduError { kind: frame.kind, offset, problem }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pdu::Pdu;

    #[test]
    fn errors_say_where_and_why() {
        let error =
            PduError { kind: 0x7001, offset: 20, problem: Problem::Count { field: "numpmid", count: -1 } };
        assert_eq!(error.to_string(), "RESULT PDU, byte 20: numpmid -1 does not fit");
        assert_eq!(PmError::from(error), PmError::IPC);
        let unknown = Pdu::decode(&testing::body(0x700b, "")).unwrap_err();
        assert_eq!(unknown.to_string(), "PDU 0x700b, byte 4: unknown type");
    }

    #[test]
    fn a_pdu_that_fails_leaves_the_buffer_alone() {
        let mut out = BytesMut::from(&b"before"[..]);
        let pdu = Pdu::PmnsNames(crate::pdu::PmnsNames::Plain(vec!["a".into(), "".into()]));
        let error = pdu.encode(0, &mut out).unwrap_err();
        assert_eq!(error.reason, Unsendable::Empty { field: "name" });
        assert_eq!(&out[..], b"before");
    }

    #[test]
    fn byte_strings_show_what_they_hold() {
        let name = ByteStr(Bytes::from_static(b"a\xff"));
        assert_eq!((name.as_str(), format!("{name:?}").as_str()), (None, "\"a\\xff\""));
        assert_eq!(name.to_string(), "a\u{fffd}");
        assert_eq!(ByteStr::from("red"), "red");
    }
}
