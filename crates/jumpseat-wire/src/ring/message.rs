//! What a traced thread writes into its ring: one message an event, in words of eight bytes.
//!
//! ```text
//! message := length u32 (of all of it) | lost u32 | time i64 | origin | span u64 | [parent u64, but for points] | field*
//! origin  := site u32 | kind u8 | zeros
//! field   := place u8 among the fields of the site, or 255: nanoseconds since the span's start | kind u8 | zeros (2)
//!            | count u32 | value
//! value   := 0 i64 | 1 u64 | 2 f64 | 3 nothing, the count is 0 or 1 | 4 text of count bytes, zeros up to a whole word
//! ```
//!
//! `lost` is how many messages of the slot had not fit so far, its low 32 bits. Span 0 stands for none.
//!
//! **Cost:** all of it are whole words, so that a thread stores what it has in registers right into the ring.

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

/// Bytes of a message of a point without fields.
const MIN: usize = 4 * WORD;
/// Bytes of a word.
const WORD: usize = 8;

/// Kinds of values.
pub mod tag {
    /// 64-bit signed integer.
    pub const INTEGER: u8 = 0;
    /// 64-bit unsigned integer.
    pub const NATURAL: u8 = 1;
    /// Double precision.
    pub const DOUBLE: u8 = 2;
    /// 0 or 1.
    pub const BOOLEAN: u8 = 3;
    /// Text.
    pub const TEXT: u8 = 4;
}

/// The first word of a message of so many words, before which so many have not fit.
#[inline]
pub fn head(words: usize, lost: u64) -> u64 {
    join((words * WORD) as u32, lost as u32)
}

/// How many bytes a message has that begins with this word, and how many messages had not fit before it, the low 32 bits.
#[inline]
pub fn read_head(head: u64) -> (u64, u32) {
    let [a, b, c, d, e, f, g, h] = head.to_ne_bytes();
    (u32::from_ne_bytes([a, b, c, d]).into(), u32::from_ne_bytes([e, f, g, h]))
}

/// The word that says where a message is from, and of which kind it is.
#[inline]
pub fn origin(site: u32, kind: u8) -> u64 {
    join(site, u32::from_ne_bytes([kind, 0, 0, 0]))
}

/// The first word of a field: its place, the kind of its value, and the count.
#[inline]
pub fn field(place: u8, kind: u8, count: u32) -> u64 {
    join(u32::from_ne_bytes([place, kind, 0, 0]), count)
}

/// The place that the first word of a field says, and how many words it has with it.
#[inline]
pub fn field_extent(head: u64) -> (u8, usize) {
    let [place, kind, _, _, a, b, c, d] = head.to_ne_bytes();
    let words = match kind {
        tag::BOOLEAN => 0,
        tag::TEXT => (u32::from_ne_bytes([a, b, c, d]) as usize).div_ceil(WORD),
        _ => 1,
    };
    (place, 1 + words)
}

/// Two halves in the order in which they lie in memory.
#[inline]
fn join(first: u32, second: u32) -> u64 {
    let ([a, b, c, d], [e, f, g, h]) = (first.to_ne_bytes(), second.to_ne_bytes());
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
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
        let length = u32::from_ne_bytes(*head) as usize;
        if !(MIN..=MAX_MESSAGE).contains(&length) || !length.is_multiple_of(WORD) {
            return (at, false);
        }
        if length > bytes.len() - at {
            return (at, true);
        }
        at += length;
    }
}

/// Takes a message off `bytes`, which [`whole`] has measured.
#[inline]
pub fn next<'a>(bytes: &mut &'a [u8]) -> Option<Message<'a>> {
    let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    let (message, after) = bytes.split_at_checked(length)?;
    let (&[head, time, origin, span], fields) = words(message)?;
    let [_, _, _, _, e, f, g, h] = head;
    let [a, b, c, d, kind, ..] = origin;
    let (parent, fields) = match kind {
        POINT => ([0; WORD], fields),
        // Whatever there is, a message that was measured is one.
        _ => fields.split_first_chunk().map_or(([0; WORD], fields), |(parent, fields)| (*parent, fields)),
    };
    *bytes = after;
    Some(Message {
        kind,
        time: i64::from_ne_bytes(time),
        site: u32::from_ne_bytes([a, b, c, d]),
        span: u64::from_ne_bytes(span),
        parent: u64::from_ne_bytes(parent),
        lost: u32::from_ne_bytes([e, f, g, h]),
        thread: None,
        fields,
    })
}

/// The time of the message that `bytes` begin with.
#[inline]
pub(super) fn next_time(bytes: &[u8]) -> Option<i64> {
    let (&[_, time], _) = words(bytes)?;
    Some(i64::from_ne_bytes(time))
}

/// The first words of `bytes`, and what is behind them.
#[inline]
fn words<const N: usize>(bytes: &[u8]) -> Option<(&[[u8; WORD]; N], &[u8])> {
    let (front, behind) = bytes.split_at_checked(N * WORD)?;
    Some((front.as_chunks().0.first_chunk()?, behind))
}

/// Takes a field off a message's fields: its index and value.
#[inline]
pub fn next_field<'a>(fields: &mut &'a [u8]) -> Option<(usize, Value<'a>)> {
    let (&[place, kind, _, _, a, b, c, d], rest) = fields.split_first_chunk()?;
    let count = u32::from_ne_bytes([a, b, c, d]);
    let number = rest.split_first_chunk();
    let (value, rest) = match (kind, number) {
        (tag::INTEGER, Some((word, rest))) => (Value::I64(i64::from_ne_bytes(*word)), rest),
        (tag::NATURAL, Some((word, rest))) => (Value::U64(u64::from_ne_bytes(*word)), rest),
        (tag::DOUBLE, Some((word, rest))) => (Value::Double(f64::from_ne_bytes(*word)), rest),
        (tag::BOOLEAN, _) => (Value::U32(count), rest),
        (tag::TEXT, _) => {
            let (padded, behind) = rest.split_at_checked((count as usize).checked_next_multiple_of(WORD)?)?;
            (Value::Text(padded.get(..count as usize)?), behind)
        }
        _ => return None,
    };
    *fields = rest;
    Some((place.into(), value))
}

/// A span's number as a text, as OpenTelemetry writes it, so that all spans have ids of one type.
pub fn span_id(span: u64) -> [u8; 16] {
    let mut digits = [0; 16];
    digits[..8].copy_from_slice(&hex_half((span >> 32) as u32));
    digits[8..].copy_from_slice(&hex_half(span as u32));
    digits
}

/// All digits at once: each gets a byte of its own in three steps.
fn hex_half(half: u32) -> [u8; 8] {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let mut digits = u64::from(half);
    for (shift, mask) in [(16, 0xffff_0000_ffff), (8, 0x00ff_00ff_00ff_00ff), (4, 15 * ONES)] {
        digits = (digits | digits << shift) & mask;
    }
    let letters = (digits + 6 * ONES) >> 4 & ONES;
    (digits + u64::from(b'0') * ONES + letters * u64::from(b'a' - b'0' - 10)).to_be_bytes()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The bytes of a message: its parent goes with the fields.
    pub(crate) fn message(
        (kind, time): (u8, i64),
        (site, span): (u32, u64),
        lost: u64,
        fields: &[u64],
    ) -> Vec<u8> {
        let first = [head(4 + fields.len(), lost), time as u64, origin(site, kind), span];
        [&first, fields].concat().iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        let text = u64::from_ne_bytes(*b"abc\0\0\0\0\0");
        let fields = [
            9,
            field(3, tag::INTEGER, 0),
            -1_i64 as u64,
            field(4, tag::TEXT, 3),
            text,
            field(5, tag::BOOLEAN, 1),
            field(DURATION, tag::NATURAL, 0),
            u64::MAX,
            field(6, tag::TEXT, 0),
        ];
        let message = message((START, 5), (7, 8), (1 << 32) + 2, &fields);
        let two = [&message[..], &message[..]].concat();
        assert_eq!(whole(&two), (two.len(), true));
        assert_eq!(whole(&two[..two.len() - 1]), (message.len(), true));
        assert_eq!(whole(&[&message[..], &[0; 8]].concat()), (message.len(), false));
        assert_eq!(whole(&[33, 0, 0, 0].repeat(20)), (0, false), "no whole words");
        assert_eq!(read_head(head(13, (1 << 32) + 2)), (message.len() as u64, 2));
        let mut rest = &two[..];
        let found = next(&mut rest).unwrap();
        assert_eq!(rest, message);
        let head = (found.kind, found.time, found.site, found.span, found.parent, found.lost);
        assert_eq!(head, (START, 5, 7, 8, 9, 2));
        let mut left = found.fields;
        for expected in [
            (3, Value::I64(-1)),
            (4, Value::Text(b"abc")),
            (5, Value::U32(1)),
            (255, Value::U64(u64::MAX)),
            (6, Value::Text(b"")),
        ] {
            assert_eq!(next_field(&mut left), Some(expected));
        }
        assert_eq!(next_field(&mut left), None);
        let extents: Vec<_> = [1, 3, 5, 6, 8].map(|at| field_extent(fields[at])).into();
        assert_eq!(extents, [(3, 2), (4, 2), (5, 1), (255, 2), (6, 1)]);
    }

    #[test]
    fn a_point_has_no_parent_and_cut_fields_are_none() {
        let message = message((POINT, 5), (7, 8), 0, &[field(0, tag::TEXT, 9), 0]);
        let found = next(&mut &message[..]).unwrap();
        assert_eq!((found.parent, found.fields.len()), (0, 16));
        assert_eq!(next_field(&mut { found.fields }), None, "text beyond the message's end");
        for kind in [tag::INTEGER, tag::NATURAL, tag::DOUBLE, 9] {
            let head = field(0, kind, 0).to_ne_bytes();
            assert_eq!(next_field(&mut &head[..]), None);
        }
        let without = tests::message((START, 0), (0, 0), 0, &[]);
        assert_eq!(next(&mut &without[..]).map(|found| (found.parent, found.fields.len())), Some((0, 0)));
    }
}
