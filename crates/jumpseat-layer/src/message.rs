//! The fields of a message, written by the thread that traces (`jumpseat_wire::ring::message`).

use std::fmt::{self, Write};

use jumpseat_wire::ring::message::{DURATION, next_field, tag};
use tracing_core::field::{Field, Visit};

/// Bytes of a text's length.
const LENGTH: usize = 4;
/// Longest text of a field; what is beyond is cut off.
const MAX_TEXT: usize = 16 << 10;

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
        self.head(field, tag::INTEGER);
        self.0.extend_from_slice(&value.to_ne_bytes());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.head(field, tag::NATURAL);
        self.0.extend_from_slice(&value.to_ne_bytes());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.head(field, tag::DOUBLE);
        self.0.extend_from_slice(&value.to_ne_bytes());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.head(field, tag::BOOLEAN);
        self.0.push(value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.head(field, tag::TEXT);
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

/// Appends how long a span was.
pub(crate) fn duration(out: &mut Vec<u8>, nanos: i64) {
    // A clock that was set back makes an end before the start; a duration has no sign.
    out.extend_from_slice(&[DURATION, tag::NATURAL]);
    out.extend_from_slice(&(nanos.max(0) as u64).to_ne_bytes());
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
    fn a_field_recorded_again_replaces_what_it_was() {
        let field = |index: u8, value: i64| [&[index, tag::INTEGER][..], &value.to_ne_bytes()].concat();
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
