//! What a traced thread writes into its ring: one message an event.
//!
//! ```text
//! message := length u32 (of the body) | lost u32 | body | zeros up to a multiple of 8
//! body    := kind u8 | time i64 | site u32 | span u64 | parent u64 | (field u8 | value)*
//! field   := place among the fields of the site, or 255: nanoseconds since the span's start
//! value   := 0 i64 | 1 u64 | 2 f64 | 3 u8 | 4 length u32, text
//! ```
//!
//! `lost` is how many messages of the slot had not fit so far, its low 32 bits. Span 0 stands for none.

use crate::encode::Value;
use crate::ring::MAX_MESSAGE;
use crate::ring::thread::Thread;

/// A span starts.
pub const START: u8 = 0;
/// A span has ended.
pub const END: u8 = 1;
/// Something happened at one moment.
pub const POINT: u8 = 2;

/// Stands for a field that no site has: how long a span was.
pub const DURATION: u8 = u8::MAX;

/// Bytes before the body.
pub const HEAD: usize = 8;
/// Bytes of a body without fields.
const MIN_BODY: usize = 1 + 8 + 4 + 8 + 8;

/// Kinds of values.
pub mod tag {
    /// 64-bit signed integer.
    pub const INTEGER: u8 = 0;
    /// 64-bit unsigned integer.
    pub const NATURAL: u8 = 1;
    /// Double precision.
    pub const DOUBLE: u8 = 2;
    /// One byte, 0 or 1.
    pub const BOOLEAN: u8 = 3;
    /// Text.
    pub const TEXT: u8 = 4;
}

/// Begins a message in `out`, which is emptied.
#[inline]
pub fn begin(out: &mut Vec<u8>, kind: u8, nanos: i64) {
    out.clear();
    out.extend_from_slice(&[0; HEAD]);
    out.push(kind);
    out.extend_from_slice(&nanos.to_ne_bytes());
}

/// Appends whose message it is.
#[inline]
pub fn origin(out: &mut Vec<u8>, site: u32, span: u64, parent: u64) {
    out.extend_from_slice(&site.to_ne_bytes());
    out.extend_from_slice(&span.to_ne_bytes());
    out.extend_from_slice(&parent.to_ne_bytes());
}

/// Ends the message: so many messages have not fit before it.
#[inline]
pub fn end(out: &mut Vec<u8>, lost: u64) {
    let length = (out.len().saturating_sub(HEAD)) as u32;
    let lost = lost as u32;
    if let Some(head) = out.first_chunk_mut::<HEAD>() {
        let [a, b, c, d] = length.to_ne_bytes();
        let [e, f, g, h] = lost.to_ne_bytes();
        *head = [a, b, c, d, e, f, g, h];
    }
    out.resize(out.len().next_multiple_of(8), 0);
}

/// A message, read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Message<'a> {
    /// [`START`], [`END`] or [`POINT`].
    pub kind: u8,
    /// Nanoseconds since the epoch.
    pub time: i64,
    /// Which callsite.
    pub site: u32,
    /// The span, 0 for none.
    pub span: u64,
    /// Its parent, 0 for none.
    pub parent: u64,
    /// Messages that had not fit so far, the low 32 bits.
    pub lost: u32,
    /// The thread that it is from, where that is known.
    pub thread: Option<&'a Thread>,
    /// The fields, to be read with [`next_field`].
    pub fields: &'a [u8],
}

/// How many bytes of `bytes` are whole messages, and whether what is behind them, if anything, can begin another.
pub fn whole(bytes: &[u8]) -> (usize, bool) {
    let mut at = 0;
    loop {
        let Some(head) = bytes[at..].first_chunk::<4>() else { return (at, true) };
        let body = u32::from_ne_bytes(*head) as usize;
        if !(MIN_BODY..=MAX_MESSAGE).contains(&body) {
            return (at, false);
        }
        let end = at + HEAD + body.next_multiple_of(8);
        if end > bytes.len() {
            return (at, true);
        }
        at = end;
    }
}

/// Takes a message off `bytes`, which [`whole`] has measured.
#[inline]
pub fn next<'a>(bytes: &mut &'a [u8]) -> Option<Message<'a>> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (lost, rest) = rest.split_first_chunk()?;
    let length = u32::from_ne_bytes(*length) as usize;
    let (padded, after) = rest.split_at_checked(length.checked_next_multiple_of(8)?)?;
    let (kind, body) = padded.get(..length)?.split_first()?;
    let (time, body) = body.split_first_chunk()?;
    let (site, body) = body.split_first_chunk()?;
    let (span, body) = body.split_first_chunk()?;
    let (parent, fields) = body.split_first_chunk()?;
    *bytes = after;
    Some(Message {
        kind: *kind,
        time: i64::from_ne_bytes(*time),
        site: u32::from_ne_bytes(*site),
        span: u64::from_ne_bytes(*span),
        parent: u64::from_ne_bytes(*parent),
        lost: u32::from_ne_bytes(*lost),
        thread: None,
        fields,
    })
}

/// Takes a field off a message's fields: its index and value.
pub fn next_field<'a>(fields: &mut &'a [u8]) -> Option<(usize, Value<'a>)> {
    let (&[index, kind], rest) = fields.split_first_chunk()?;
    let (value, rest) = match kind {
        tag::INTEGER => {
            let (bytes, rest) = rest.split_first_chunk()?;
            (Value::I64(i64::from_ne_bytes(*bytes)), rest)
        }
        tag::NATURAL => {
            let (bytes, rest) = rest.split_first_chunk()?;
            (Value::U64(u64::from_ne_bytes(*bytes)), rest)
        }
        tag::DOUBLE => {
            let (bytes, rest) = rest.split_first_chunk()?;
            (Value::Double(f64::from_ne_bytes(*bytes)), rest)
        }
        tag::BOOLEAN => {
            let (byte, rest) = rest.split_first()?;
            (Value::U32((*byte).into()), rest)
        }
        tag::TEXT => {
            let (length, rest) = rest.split_first_chunk::<4>()?;
            let (text, rest) = rest.split_at_checked(u32::from_ne_bytes(*length) as usize)?;
            (Value::Text(text), rest)
        }
        _ => return None,
    };
    *fields = rest;
    Some((index.into(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let mut message = Vec::new();
        begin(&mut message, START, 5);
        origin(&mut message, 7, 8, 9);
        message.extend_from_slice(&[3, tag::INTEGER]);
        message.extend_from_slice(&(-1_i64).to_ne_bytes());
        end(&mut message, (1 << 32) + 2);
        assert_eq!(message.len() % 8, 0);
        let two = [&message[..], &message[..]].concat();
        assert_eq!(whole(&two), (two.len(), true));
        assert_eq!(whole(&two[..two.len() - 1]), (message.len(), true));
        assert_eq!(whole(&[&message[..], &[0; 8]].concat()), (message.len(), false));
        let mut rest = &two[..];
        let found = next(&mut rest).unwrap();
        assert_eq!(rest, message);
        let head = (found.kind, found.time, found.site, found.span, found.parent, found.lost);
        assert_eq!(head, (START, 5, 7, 8, 9, 2));
        let mut fields = found.fields;
        assert_eq!(next_field(&mut fields), Some((3, Value::I64(-1))));
        assert_eq!(next_field(&mut fields), None);
    }
}
