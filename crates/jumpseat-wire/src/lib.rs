//! The binary framing: interned names, one frame a record (`docs/ingest-protocol.md`, "Frames").
//!
//! ```text
//! stream := FF 'j' 's' version(1) frame*
//! frame  := kind(1) | length(varint) | payload
//! record := flags(1) | [time(8)] | [source] | type | severity(1) | [id] | [parent] | message | param*
//! param  := field(varint) | value
//! ```
//!
//! Numbers of fixed width are little-endian; varints are unsigned LEB128; texts are a varint length and
//! that many bytes. [`socket`] is where to send (`remote`, a feature, for other hosts), [`encode`] the sending side, [`resend`] what it keeps until it is acknowledged; the receiving one is the agent's.
//! [`series`] is how the agent calls series of numbers.
//!
//! # Features
//!
//! | feature | by default | brings |
//! | --- | --- | --- |
//! | `remote` | no | the way to an agent on another host: TCP, TLS (`rustls`) and a token |

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod encode;
#[cfg(feature = "remote")]
pub mod remote;
pub mod resend;
pub mod ring;
pub mod series;
pub mod severity;
pub mod socket;

/// First byte of a binary stream. No UTF-8 text contains it.
pub const MAGIC_0: u8 = 0xff;
/// How a stream starts, version included.
pub const HELLO: [u8; 4] = [MAGIC_0, b'j', b's', VERSION];
/// The version of the framing, and of the control lines.
pub const VERSION: u8 = 1;

/// How the agent's answer begins to a sender on another host that it lets in, to the byte: the token's name follows as a JSON
/// string, and `}}`.
pub const ADMITTED: &str = r#"{"jumpseat":{"admitted":"#;

/// Defines a source: id, name.
pub const SOURCE: u8 = 1;
/// Defines an event type: id, name.
pub const TYPE: u8 = 2;
/// Defines a field: id, type code (1), name.
pub const FIELD: u8 = 3;
/// A record.
pub const RECORD: u8 = 4;
/// Asks for an [`ACK`]: token.
pub const SYNC: u8 = 5;
/// Tells of records the sender lost: count, time (8).
pub const MISSED: u8 = 6;
/// Makes a source the current one: id.
pub const USE: u8 = 7;
/// Says which clock the times of what follows are of: its code (1), as the system numbers clocks.
pub const CLOCK: u8 = 8;
/// Names the sender, and numbers what it sends from now on: next number, name.
pub const SENDER: u8 = 11;
/// Answer to [`SENDER`]: the highest number that is known of it, or 0.
pub const KNOWN: u8 = 0x8b;
/// Everything up to this number is committed: number, 1 if it survives as the log on disk promises, else 0 (1),
/// how many events of the connection were refused.
pub const COMMITTED: u8 = 0x8c;
/// Says that the sender's rings are in the file whose descriptor comes with it ([`ring`]).
pub const RINGS: u8 = 0x10;
/// Stands for the RECORD and MISSED frames of a chunk of the sender's rings, which the server reads by itself ([`ring::chunk`]).
pub const CHUNK: u8 = 0x11;
/// Answer to [`RINGS`] of a server that reads chunks, with 0, and to each [`CHUNK`]: those below this number were read.
pub const READ: u8 = 0x90;
/// Answer to [`SYNC`]: token, accepted, rejected, missed.
pub const ACK: u8 = 0x85;
/// The last frame from the server: the summary as JSON text.
pub const SUMMARY: u8 = 0x86;

/// The record's flags beside its phase (POINT 0x01, START 0x02, END 0x04).
pub mod flag {
    /// There is a span id.
    pub const ID: u8 = 0x08;
    /// There is a parent's span id.
    pub const PARENT: u8 = 0x10;
    /// Span ids are texts, not 8-byte numbers.
    pub const TEXT_IDS: u8 = 0x20;
    /// There is a time; else it is the time of arrival.
    pub const TIME: u8 = 0x40;
    /// There is a source; else it is the current one.
    pub const SOURCE: u8 = 0x80;
}

/// Most sources, event types or fields a connection may define, each.
pub const MAX_INTERNED: usize = 4096;
/// Most bytes of names a connection may define, altogether.
pub const MAX_NAME_BYTES: usize = 128 * 1024;
/// Longest name of a sender, in bytes.
pub const MAX_SENDER: usize = 128;
/// Highest number that a connection may begin with.
pub const MAX_NUMBER: u64 = 1 << 62;
/// Bytes of the longest varint.
pub const MAX_VARINT: usize = 10;
/// Longest name in a definition, in bytes.
pub const MAX_NAME: usize = 255;

/// Appends a varint.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a varint length and the bytes.
#[inline]
pub fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// Appends a frame.
pub fn put_frame(out: &mut Vec<u8>, kind: u8, payload: &[u8]) {
    out.push(kind);
    put_text(out, payload);
}

/// Appends an [`ACK`] frame.
pub fn put_ack(out: &mut Vec<u8>, token: u64, accepted: u64, rejected: u64, missed: u64) {
    let mut payload = Vec::with_capacity(4 * MAX_VARINT);
    for number in [token, accepted, rejected, missed] {
        put_varint(&mut payload, number);
    }
    put_frame(out, ACK, &payload);
}

/// Appends a [`COMMITTED`] frame.
pub fn put_committed(out: &mut Vec<u8>, number: u64, is_durable: bool, rejected: u64) {
    let mut payload = Vec::with_capacity(1 + 2 * MAX_VARINT);
    put_varint(&mut payload, number);
    payload.push(u8::from(is_durable));
    put_varint(&mut payload, rejected);
    put_frame(out, COMMITTED, &payload);
}

/// Appends a [`KNOWN`] frame.
pub fn put_known(out: &mut Vec<u8>, number: u64) {
    let mut payload = Vec::with_capacity(MAX_VARINT);
    put_varint(&mut payload, number);
    put_frame(out, KNOWN, &payload);
}

/// Reads a varint: its value and length. `None`: cut short, or longer than 64 bits.
#[inline]
pub fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (index, byte) in bytes.iter().take(MAX_VARINT).enumerate() {
        let part = u64::from(byte & 0x7f);
        if index == MAX_VARINT - 1 && part > 1 {
            return None;
        }
        value |= part << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
    }
    None
}

/// A frame at the start of `bytes`: kind, payload, and the frame's whole length. `None`: incomplete, or
/// no frame. For readers of the server's answers.
pub fn frame(bytes: &[u8]) -> Option<(u8, &[u8], usize)> {
    let (kind, rest) = bytes.split_first()?;
    let (len, width) = varint(rest)?;
    let end = width.checked_add(usize::try_from(len).ok()?)?;
    Some((*kind, rest.get(width..end)?, 1 + end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints() {
        for value in [0, 1, 127, 128, 300, 1 << 31, u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            assert_eq!(varint(&bytes), Some((value, bytes.len())));
            assert_eq!(varint(&bytes[..bytes.len() - 1]), None);
        }
        assert_eq!(varint(&[0xff; 9]), None);
        assert_eq!(varint(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]), None, "65 bits");
    }

    #[test]
    fn frames() {
        let mut bytes = Vec::new();
        put_frame(&mut bytes, SUMMARY, b"{}");
        assert_eq!(bytes, b"\x86\x02{}");
        assert_eq!(frame(&bytes), Some((SUMMARY, &b"{}"[..], 4)));
        assert_eq!(frame(&bytes[..3]), None);
        assert_eq!(frame(b"\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), None);
    }
}

/// The examples of README.md are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
