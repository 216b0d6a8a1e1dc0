//! Framing: a byte stream cut into PDUs (`docs/pcp/wire.md` 1).
//!
//! Cost: no copy; a frame's body is split off the input buffer. Nothing is reserved on the word of a
//! length field: the input buffer grows with the bytes that really arrive.

use bytes::{Buf, Bytes, BytesMut};

use super::codec::MAX_LEN;

/// Bytes of a header: length, type, from; 32 bits each, network order.
pub const HEADER_LEN: usize = 12;

/// A PDU as it travels: the header's words and the bytes behind the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The type number, one of [`super::kind`] if it is known.
    pub kind: u32,
    /// The header's third word: process id, context or client slot; 0 in replies.
    pub from: i32,
    /// Everything behind the header.
    pub body: Bytes,
}

/// The stream holds something that is not a PDU. The connection is of no more use: there is nothing
/// to find the next PDU by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The length does not even cover the header, or is negative.
    #[error("PDU length {len}: below the {HEADER_LEN} bytes of a header")]
    TooShort {
        /// The length as it came.
        len: i32,
    },
    /// The length exceeds this reader's ceiling.
    #[error("PDU length {len}: above the ceiling of {max} bytes")]
    TooLong {
        /// The length as it came.
        len: i32,
        /// The ceiling.
        max: usize,
    },
    /// The type is zero or negative.
    #[error("PDU type {kind}: not a PDU")]
    BadType {
        /// The type as it came.
        kind: i32,
    },
    /// The stream ended inside a PDU.
    #[error("end of stream after {have} bytes of a PDU")]
    Truncated {
        /// Bytes of the last, incomplete PDU.
        have: usize,
    },
}

/// Cuts frames off an input buffer. Once it has met an error it repeats that error.
#[derive(Clone, Debug)]
pub struct FrameReader {
    max_len: usize,
    failed: Option<FrameError>,
}

impl FrameReader {
    /// A reader that refuses PDUs longer than `max_len` bytes, header included. pmcd allows its
    /// clients 65536.
    pub fn new(max_len: usize) -> FrameReader {
        FrameReader { max_len: max_len.min(MAX_LEN), failed: None }
    }

    /// Takes the next frame off the front of `buf`; `None` if more bytes are needed.
    ///
    /// # Errors
    /// The bytes at the front are not a PDU. The length is judged as soon as its four bytes are there.
    pub fn next(&mut self, buf: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.cut(buf).inspect_err(|&error| self.failed = Some(error))
    }

    fn cut(&self, buf: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        let Some((mut head, _)) = buf.split_first_chunk::<4>().map(|(len, rest)| (&len[..], rest)) else {
            return Ok(None);
        };
        let word = head.get_i32();
        let len = match usize::try_from(word) {
            Ok(len) if len >= HEADER_LEN => len,
            _ => return Err(FrameError::TooShort { len: word }),
        };
        if len > self.max_len {
            return Err(FrameError::TooLong { len: word, max: self.max_len });
        }
        if let Some(mut header) = buf.get(4..HEADER_LEN) {
            let kind = header.get_i32();
            if kind <= 0 {
                return Err(FrameError::BadType { kind });
            }
        }
        if buf.len() < len {
            return Ok(None);
        }
        let mut body = buf.split_to(len).freeze();
        body.advance(4);
        let kind = body.get_u32();
        let from = body.get_i32();
        Ok(Some(Frame { kind, from, body }))
    }

    /// Judges what is left when the stream has ended.
    ///
    /// # Errors
    /// The stream ended inside a PDU, or had failed before.
    pub fn finish(&self, buf: &BytesMut) -> Result<(), FrameError> {
        match self.failed {
            Some(error) => Err(error),
            None if buf.is_empty() => Ok(()),
            None => Err(FrameError::Truncated { have: buf.len() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(len: i32, kind: i32, from: i32) -> Vec<u8> {
        [len, kind, from].iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn frames_come_whole_however_the_stream_is_cut() {
        let mut stream = header(16, 0x7000, 3);
        stream.extend([0, 0, 0, 1]);
        stream.extend(header(12, 0x7003, -1));
        for cut in 0..=stream.len() {
            let (mut reader, mut buf, mut frames) = (FrameReader::new(64), BytesMut::new(), Vec::new());
            for part in [&stream[..cut], &stream[cut..]] {
                buf.extend_from_slice(part);
                while let Some(frame) = reader.next(&mut buf).unwrap() {
                    frames.push(frame);
                }
            }
            assert_eq!(reader.finish(&buf), Ok(()));
            assert_eq!(
                frames,
                [
                    Frame { kind: 0x7000, from: 3, body: Bytes::from_static(&[0, 0, 0, 1]) },
                    Frame { kind: 0x7003, from: -1, body: Bytes::new() }
                ]
            );
        }
    }

    #[test]
    fn what_is_not_a_pdu_is_refused_for_good() {
        let cases: [(&[u8], FrameError); 7] = [
            (&[0, 0, 0, 0], FrameError::TooShort { len: 0 }),
            (&[0, 0, 0, 11], FrameError::TooShort { len: 11 }),
            (&[255, 255, 255, 255], FrameError::TooShort { len: -1 }),
            (&[0x7f, 255, 255, 255], FrameError::TooLong { len: i32::MAX, max: 64 }),
            (&[0, 0, 0, 65], FrameError::TooLong { len: 65, max: 64 }),
            (&header(16, 0, 0), FrameError::BadType { kind: 0 }),
            (&header(16, -1, 0), FrameError::BadType { kind: -1 }),
        ];
        for (bytes, error) in cases {
            let (mut reader, mut buf) = (FrameReader::new(64), BytesMut::from(bytes));
            assert_eq!(reader.next(&mut buf), Err(error));
            let mut good = BytesMut::from(&header(12, 0x7003, 0)[..]);
            assert_eq!(reader.next(&mut good), Err(error), "a failed reader stays failed");
            assert_eq!(reader.finish(&BytesMut::new()), Err(error));
        }
    }

    #[test]
    fn an_end_inside_a_pdu_is_told_from_an_end_between_pdus() {
        let mut reader = FrameReader::new(64);
        let mut buf = BytesMut::from(&header(16, 0x7000, 0)[..]);
        assert_eq!(reader.next(&mut buf), Ok(None));
        assert_eq!(reader.finish(&buf), Err(FrameError::Truncated { have: 12 }));
        assert_eq!(reader.finish(&BytesMut::new()), Ok(()));
    }
}
