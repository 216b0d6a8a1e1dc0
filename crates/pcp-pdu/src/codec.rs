//! What all PDUs share: byte strings, a bounds-checked [`Reader`] over a frame, a [`Writer`] of one PDU.

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::fault::{EncodeError, PduError, Problem, Unsendable};
use super::frame::{Frame, HEADER_LEN};

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
    pub(crate) fn new(frame: &'a Frame) -> Reader<'a> {
        Reader { frame, at: 0 }
    }

    /// Offset of the next byte from the start of the PDU.
    pub(crate) fn place(&self) -> usize {
        HEADER_LEN + self.at
    }

    /// Length of the whole PDU.
    pub(crate) fn pdu_len(&self) -> usize {
        HEADER_LEN + self.frame.body.len()
    }

    pub(crate) fn remaining(&self) -> usize {
        self.frame.body.len() - self.at
    }

    /// An error at `offset` bytes from the start of the PDU.
    pub(crate) fn error_at(&self, offset: usize, problem: Problem) -> PduError {
        PduError { kind: self.frame.kind, offset, problem }
    }

    /// An error at the word just read.
    pub(crate) fn error_before(&self, problem: Problem) -> PduError {
        self.error_at(self.place().saturating_sub(4), problem)
    }

    /// The next `need` bytes.
    pub(crate) fn take(&mut self, field: &'static str, need: usize) -> Result<&'a [u8], PduError> {
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
    pub(crate) fn share(&mut self, field: &'static str, need: usize) -> Result<Bytes, PduError> {
        let bytes = self.take(field, need)?;
        Ok(self.frame.body.slice_ref(bytes))
    }

    /// The bytes from `start` to `end`, both offsets from the start of the PDU; `None` if outside.
    pub(crate) fn bytes_at(&self, start: usize, end: usize) -> Option<Bytes> {
        let bytes = self.frame.body.get(start.checked_sub(HEADER_LEN)?..end.checked_sub(HEADER_LEN)?)?;
        Some(self.frame.body.slice_ref(bytes))
    }

    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, PduError> {
        self.take(field, 1).map(|mut bytes| bytes.get_u8())
    }

    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, PduError> {
        self.take(field, 2).map(|mut bytes| bytes.get_u16())
    }

    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, PduError> {
        self.take(field, 4).map(|mut bytes| bytes.get_u32())
    }

    pub(crate) fn i32(&mut self, field: &'static str) -> Result<i32, PduError> {
        self.take(field, 4).map(|mut bytes| bytes.get_i32())
    }

    /// A count of items that take at least `item` bytes each, so that it is safe to allocate for.
    pub(crate) fn count(&mut self, field: &'static str, item: usize) -> Result<usize, PduError> {
        let word = self.i32(field)?;
        match usize::try_from(word) {
            Ok(count) if count <= self.remaining() / item.max(1) => Ok(count),
            _ => Err(self.error_before(Problem::Count { field, count: word })),
        }
    }

    /// A length word, that many bytes and their padding, which may be missing at the end of the PDU.
    pub(crate) fn padded(&mut self, field: &'static str) -> Result<ByteStr, PduError> {
        let len = self.count(field, 1)?;
        let text = self.share(field, len)?;
        self.at += (pad4(len) - len).min(self.remaining());
        Ok(ByteStr(text))
    }

    /// Ends the reading: nothing may be left.
    pub(crate) fn finish(&self) -> Result<(), PduError> {
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
    pub(crate) fn new(out: &'a mut BytesMut, kind: u32, from: i32) -> Writer<'a> {
        let start = out.len();
        out.reserve(64);
        out.put_u32(0);
        out.put_u32(kind);
        out.put_i32(from);
        Writer { out, start, kind, done: false }
    }

    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.out.reserve(bytes);
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.out.put_u32(value);
    }

    pub(crate) fn i32(&mut self, value: i32) {
        self.out.put_i32(value);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.out.put_slice(bytes);
    }

    /// A count word, checked.
    pub(crate) fn count(&mut self, field: &'static str, count: usize) -> Result<(), EncodeError> {
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
    pub(crate) fn pad(&mut self, len: usize) {
        self.out.put_bytes(PAD, pad4(len) - len);
    }

    /// A length word, the bytes, the padding.
    pub(crate) fn padded(&mut self, field: &'static str, bytes: &[u8]) -> Result<(), EncodeError> {
        self.count(field, bytes.len())?;
        self.bytes(bytes);
        self.pad(bytes.len());
        Ok(())
    }

    pub(crate) fn error(&self, reason: Unsendable) -> EncodeError {
        EncodeError { kind: self.kind, reason }
    }

    /// Writes the length into the header.
    pub(crate) fn finish(mut self) -> Result<(), EncodeError> {
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
    use crate::{FrameReader, Pdu};

    /// The bytes of hex text; white space is ignored.
    pub(crate) fn unhex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(pair).collect()
    }

    /// Cuts exactly one frame off `bytes`.
    pub(crate) fn frame(bytes: &[u8]) -> Frame {
        let mut buf = BytesMut::from(bytes);
        let frame = FrameReader::new(MAX_LEN).next(&mut buf).expect("a frame").expect("a whole frame");
        assert!(buf.is_empty(), "bytes behind the frame");
        frame
    }

    /// A frame of `kind` whose body is hex text.
    pub(crate) fn body(kind: u32, text: &str) -> Frame {
        Frame { kind, from: 0, body: unhex(text).into() }
    }

    /// The captured bytes decode to `pdu`, and `pdu` encodes to the captured bytes.
    #[track_caller]
    pub(crate) fn captured(text: &str, pdu: &Pdu) {
        let bytes = unhex(text);
        let frame = frame(&bytes);
        assert_eq!(Pdu::decode(&frame).as_ref(), Ok(pdu));
        assert_eq!(&pdu.to_bytes(frame.from).expect("sendable")[..], &bytes[..]);
    }

    /// The PDU comes back from its own bytes.
    #[track_caller]
    pub(crate) fn round_trip(pdu: &Pdu) {
        assert_eq!(Pdu::decode(&frame(&pdu.to_bytes(7).expect("sendable"))).as_ref(), Ok(pdu));
    }

    /// Decoding fails at `offset` with `problem`.
    #[track_caller]
    pub(crate) fn refused(frame: &Frame, offset: usize, problem: Problem) {
        assert_eq!(Pdu::decode(frame), Err(PduError { kind: frame.kind, offset, problem }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pdu;

    #[test]
    fn a_pdu_that_fails_leaves_the_buffer_alone() {
        let mut out = BytesMut::from(&b"before"[..]);
        let pdu = Pdu::PmnsNames(crate::PmnsNames::Plain(vec!["a".into(), "".into()]));
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
