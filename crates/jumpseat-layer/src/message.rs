//! What a traced thread hands to the writer: one message an event, in bytes.
//!
//! ```text
//! message := length u32 (of what follows) | kind u8 | time i64 | rest
//! rest    := site u32 | span u64 | parent u64 | (field u8 | value)*     an event, or a span's start or end
//!          | count u64                                                  messages that did not fit
//! value   := 0 i64 | 1 u64 | 2 f64 | 3 u8 | 4 length u32, text
//! ```
//!
//! Numbers are in the machine's own order; span 0 stands for none. Both ends are in one process.

use std::fmt::{self, Write};

use tracing_core::field::{Field, Visit};

use jumpseat_wire::encode::Value;

/// A span starts.
pub(crate) const START: u8 = 0;
/// A span has ended.
pub(crate) const END: u8 = 1;
/// Something happened at one moment.
pub(crate) const POINT: u8 = 2;
/// Messages were lost.
pub(crate) const LOST: u8 = 3;

/// Bytes of a message about lost ones.
pub(crate) const LOST_LEN: usize = LENGTH + 1 + 8 + 8;

const LENGTH: usize = 4;
const INTEGER: u8 = 0;
const NATURAL: u8 = 1;
const DOUBLE: u8 = 2;
const BOOLEAN: u8 = 3;
const TEXT: u8 = 4;

/// Longest text of a field; what is beyond is cut off.
const MAX_TEXT: usize = 16 << 10;

/// Begins a message in `out`, which is emptied.
pub(crate) fn begin(out: &mut Vec<u8>, kind: u8, nanos: i64) {
    out.clear();
    out.extend_from_slice(&[0; LENGTH]);
    out.push(kind);
    out.extend_from_slice(&nanos.to_ne_bytes());
}

/// Appends whose message it is.
pub(crate) fn origin(out: &mut Vec<u8>, site: u32, span: u64, parent: u64) {
    out.extend_from_slice(&site.to_ne_bytes());
    out.extend_from_slice(&span.to_ne_bytes());
    out.extend_from_slice(&parent.to_ne_bytes());
}

/// A whole message about lost ones.
pub(crate) fn lost(out: &mut Vec<u8>, nanos: i64, count: u64) {
    begin(out, LOST, nanos);
    out.extend_from_slice(&count.to_ne_bytes());
    end(out);
}

/// Ends the message.
pub(crate) fn end(out: &mut [u8]) {
    let length = (out.len().saturating_sub(LENGTH)) as u32;
    if let Some(word) = out.first_chunk_mut::<LENGTH>() {
        *word = length.to_ne_bytes();
    }
}

/// Appends fields to a message.
pub(crate) struct Fields<'a>(pub &'a mut Vec<u8>);

impl Fields<'_> {
    fn head(&mut self, field: &Field, tag: u8) {
        // Field sets have at most 32 fields.
        self.0.extend_from_slice(&[field.index() as u8, tag]);
    }
}

impl Visit for Fields<'_> {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.head(field, INTEGER);
        self.0.extend_from_slice(&value.to_ne_bytes());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.head(field, NATURAL);
        self.0.extend_from_slice(&value.to_ne_bytes());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.head(field, DOUBLE);
        self.0.extend_from_slice(&value.to_ne_bytes());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.head(field, BOOLEAN);
        self.0.push(value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.head(field, TEXT);
        let length = self.0.len();
        self.0.extend_from_slice(&[0; LENGTH]);
        let mut text = Text { out: self.0, room: MAX_TEXT };
        // Only a value's own Debug can fail: what it has written until then stands.
        let _ = write!(text, "{value:?}");
        let written = (self.0.len() - length - LENGTH) as u32;
        if let Some(word) = self.0.get_mut(length..length + LENGTH) {
            word.copy_from_slice(&written.to_ne_bytes());
        }
    }
}

/// Takes text up to a limit. NUL bytes, which records cannot hold, become blanks.
struct Text<'a> {
    out: &'a mut Vec<u8>,
    room: usize,
}

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut end = self.room.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let kept = &text[..end];
        self.room = if kept.len() < text.len() { 0 } else { self.room - kept.len() };
        let start = self.out.len();
        self.out.extend_from_slice(kept.as_bytes());
        if memchr::memchr(0, kept.as_bytes()).is_some() {
            self.out[start..].iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b' ');
        }
        Ok(())
    }
}

/// A message, read.
#[derive(Debug, PartialEq)]
pub(crate) enum Message<'a> {
    /// An event, or a span's start or end.
    Record {
        /// [`START`], [`END`] or [`POINT`].
        kind: u8,
        /// Which callsite.
        site: u32,
        /// The span, 0 for none.
        span: u64,
        /// Its parent, 0 for none.
        parent: u64,
        /// The fields, to be read with [`next_field`].
        fields: &'a [u8],
    },
    /// Messages were lost.
    Lost(u64),
}

/// Where each message in `bytes` is, and its time; they are whole ones.
pub(crate) fn split(bytes: &[u8]) -> impl Iterator<Item = (i64, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (length, after) = rest.split_first_chunk::<LENGTH>()?;
        let (message, after) = after.split_at_checked(u32::from_ne_bytes(*length) as usize)?;
        rest = after;
        let time = message.get(1..9)?.try_into().ok()?;
        Some((i64::from_ne_bytes(time), message))
    })
}

impl Message<'_> {
    /// How many records are lost if it is not sent.
    pub(crate) fn records(&self) -> u64 {
        match self {
            Message::Lost(count) => *count,
            Message::Record { .. } => 1,
        }
    }
}

/// Reads a message that [`split`] gave.
pub(crate) fn read(message: &[u8]) -> Option<Message<'_>> {
    let (&kind, rest) = message.split_first()?;
    let (_, rest) = rest.split_first_chunk::<8>()?;
    if kind == LOST {
        return Some(Message::Lost(u64::from_ne_bytes(*rest.first_chunk()?)));
    }
    let (site, rest) = rest.split_first_chunk()?;
    let (span, rest) = rest.split_first_chunk()?;
    let (parent, fields) = rest.split_first_chunk()?;
    Some(Message::Record {
        kind,
        site: u32::from_ne_bytes(*site),
        span: u64::from_ne_bytes(*span),
        parent: u64::from_ne_bytes(*parent),
        fields,
    })
}

/// The field at the front of `fields`: its index among its callsite's, and its value.
pub(crate) fn next_field<'a>(fields: &mut &'a [u8]) -> Option<(usize, Value<'a>)> {
    let (&[index, tag], rest) = fields.split_first_chunk()?;
    let number = || rest.split_first_chunk::<8>();
    let (value, rest) = match tag {
        INTEGER => number().map(|(n, rest)| (Value::I64(i64::from_ne_bytes(*n)), rest))?,
        NATURAL => number().map(|(n, rest)| (Value::U64(u64::from_ne_bytes(*n)), rest))?,
        DOUBLE => number().map(|(n, rest)| (Value::Double(f64::from_ne_bytes(*n)), rest))?,
        BOOLEAN => rest.split_first().map(|(bit, rest)| (Value::U32((*bit).into()), rest))?,
        _ => {
            let (length, rest) = rest.split_first_chunk::<LENGTH>()?;
            let (text, rest) = rest.split_at_checked(u32::from_ne_bytes(*length) as usize)?;
            (Value::Text(text), rest)
        }
    };
    *fields = rest;
    Some((index.into(), value))
}

/// Puts fields into the place of those of the same name, and others behind them.
pub(crate) fn replace_fields(fields: &mut Vec<u8>, new: &[u8]) {
    let mut rest = new;
    let replaced: Vec<usize> = std::iter::from_fn(|| next_field(&mut rest).map(|(index, _)| index)).collect();
    let mut kept = Vec::with_capacity(fields.len() + new.len());
    let mut rest = fields.as_slice();
    loop {
        let before = rest;
        let Some((index, _)) = next_field(&mut rest) else { break };
        if !replaced.contains(&index) {
            kept.extend_from_slice(&before[..before.len() - rest.len()]);
        }
    }
    kept.extend_from_slice(new);
    *fields = kept;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        let mut message = Vec::new();
        begin(&mut message, START, 5);
        origin(&mut message, 7, 8, 9);
        message.extend_from_slice(&[3, INTEGER]);
        message.extend_from_slice(&(-1_i64).to_ne_bytes());
        end(&mut message);
        bytes.extend_from_slice(&message);
        lost(&mut message, 6, 11);
        assert_eq!(message.len(), LOST_LEN);
        bytes.extend_from_slice(&message);
        let found: Vec<_> = split(&bytes).map(|(time, message)| (time, read(message).unwrap())).collect();
        let [(5, Message::Record { kind: START, site: 7, span: 8, parent: 9, fields }), last] = &found[..]
        else {
            panic!("{found:?}")
        };
        assert_eq!(*last, (6, Message::Lost(11)));
        let mut fields = *fields;
        assert_eq!(next_field(&mut fields), Some((3, Value::I64(-1))));
        assert_eq!(next_field(&mut fields), None);
    }

    #[test]
    fn a_field_recorded_again_replaces_what_it_was() {
        let field = |index: u8, value: i64| [&[index, INTEGER][..], &value.to_ne_bytes()].concat();
        let mut fields = [field(1, 10), field(2, 20)].concat();
        replace_fields(&mut fields, &field(1, 11));
        assert_eq!(fields, [field(2, 20), field(1, 11)].concat());
    }

    #[test]
    fn text_is_cut_at_a_character_and_holds_no_nul() {
        let mut out = Vec::new();
        let mut text = Text { out: &mut out, room: 4 };
        write!(text, "a\0é").and_then(|()| write!(text, "éx")).and_then(|()| write!(text, "y")).unwrap();
        assert_eq!(out, "a é".as_bytes());
    }
}
