//! The fields of a message, written by the thread that traces (`jumpseat_wire::ring::message`): into its ring, or into memory
//! that is kept with a span.

use std::fmt::{self, Write};

use jumpseat_wire::ring::message::{DURATION, field, field_extent, tag};
use tracing_core::field::{Field, Visit};

/// Longest text of a field; what is beyond is cut off.
const MAX_TEXT: usize = 16 << 10;
/// Bytes of a word.
const WORD: usize = 8;

/// Takes words.
pub(crate) trait Words {
    /// Appends words.
    fn put<const N: usize>(&mut self, words: [u64; N]);
    /// How many there are.
    fn len(&self) -> usize;
    /// Changes one of them.
    fn set(&mut self, at: usize, word: u64);
}

impl Words for Vec<u64> {
    fn put<const N: usize>(&mut self, words: [u64; N]) {
        self.extend_from_slice(&words);
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn set(&mut self, at: usize, word: u64) {
        if let Some(place) = self.get_mut(at) {
            *place = word;
        }
    }
}

/// Appends fields to a message.
pub(crate) struct Fields<'a, W>(pub &'a mut W);

impl<W: Words> Fields<'_, W> {
    #[inline]
    fn number(&mut self, at: &Field, tag: u8, word: u64) {
        // Field sets have at most 32 fields.
        self.0.put([field(at.index() as u8, tag, 0), word]);
    }

    #[inline]
    fn text(&mut self, at: &Field, write: impl FnOnce(&mut Text<'_, W>)) {
        let head = self.0.len();
        self.0.put([0]);
        let mut text = Text { out: &mut *self.0, room: MAX_TEXT, count: 0, last: 0 };
        write(&mut text);
        let count = text.end();
        self.0.set(head, field(at.index() as u8, tag::TEXT, count as u32));
    }
}

impl<W: Words> Visit for Fields<'_, W> {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.number(field, tag::INTEGER, value as u64);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.number(field, tag::NATURAL, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.number(field, tag::DOUBLE, value.to_bits());
    }

    fn record_bool(&mut self, at: &Field, value: bool) {
        self.0.put([field(at.index() as u8, tag::BOOLEAN, value.into())]);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, |text| text.push(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field, |text| {
            // Only a value's own Debug can fail: what it has written until then stands.
            let _ = write!(text, "{value:?}");
        });
    }
}

/// Appends how long a span was.
pub(crate) fn duration(out: &mut impl Words, nanos: i64) {
    // A clock that was set back makes an end before the start; a duration has no sign.
    out.put([field(DURATION, tag::NATURAL, 0), nanos.max(0) as u64]);
}

/// Takes text up to a limit, a whole word at a time. NUL bytes, which records cannot hold, become blanks.
struct Text<'a, W> {
    out: &'a mut W,
    /// Bytes that may still come.
    room: usize,
    /// Bytes that came.
    count: usize,
    /// Those that make no whole word so far, little-endian.
    last: u64,
}

impl<W: Words> Text<'_, W> {
    #[inline]
    fn push(&mut self, text: &str) {
        let text = if text.len() > self.room { self.cut(text) } else { text };
        self.room -= text.len();
        let (words, rest) = text.as_bytes().as_chunks();
        if self.count.is_multiple_of(WORD) {
            for word in words {
                self.out.put([without_nul(u64::from_le_bytes(*word), WORD).to_le()]);
            }
            self.last = without_nul(little(rest), rest.len());
            self.count += text.len();
        } else {
            words.iter().for_each(|word| self.append(u64::from_le_bytes(*word), WORD));
            self.append(little(rest), rest.len());
        }
    }

    /// What there is room for; nothing has any behind it.
    #[cold]
    fn cut<'t>(&mut self, text: &'t str) -> &'t str {
        let mut end = self.room;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.room = end;
        &text[..end]
    }

    /// Appends the lower bytes of a word; the others are 0.
    fn append(&mut self, word: u64, bytes: usize) {
        let word = without_nul(word, bytes);
        let filled = self.count % WORD;
        self.last |= word << (8 * filled);
        self.count += bytes;
        if filled + bytes >= WORD {
            self.out.put([self.last.to_le()]);
            self.last = word.unbounded_shr((64 - 8 * filled) as u32);
        }
    }

    /// Fills the last word up: how many bytes there are.
    #[inline]
    fn end(self) -> usize {
        if !self.count.is_multiple_of(WORD) {
            self.out.put([self.last.to_le()]);
        }
        self.count
    }
}

impl<W: Words> Write for Text<'_, W> {
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text);
        Ok(())
    }
}

/// Less than a word of bytes, little-endian.
#[inline]
fn little(bytes: &[u8]) -> u64 {
    // The two halves overlap where they say the same.
    match (bytes.first_chunk(), bytes.last_chunk(), bytes) {
        (Some(first), Some(last), _) => {
            let behind = 8 * (bytes.len() - 4);
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << behind
        }
        (_, _, &[a]) => a.into(),
        (_, _, &[a, b]) => u16::from_le_bytes([a, b]).into(),
        (_, _, &[a, b, c]) => u32::from_le_bytes([a, b, c, 0]).into(),
        _ => 0,
    }
}

/// The lower bytes of a word, with blanks for those that are 0.
#[inline]
fn without_nul(word: u64, bytes: usize) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; WORD]);
    let beyond = u64::MAX.unbounded_shl(8 * bytes as u32);
    let filled = word | beyond;
    // A byte of which 1 can be taken only with a borrow from above, and that has not its highest bit: a 0.
    if filled.wrapping_sub(ONES) & !filled & ONES << 7 == 0 {
        return word;
    }
    let blanks = filled.to_le_bytes().map(|byte| if byte == 0 { b' ' } else { byte });
    u64::from_le_bytes(blanks) & !beyond
}

/// Puts fields into the place of those of the same name, and others behind them.
pub(crate) fn replace_fields(fields: &mut Vec<u64>, new: &[u64]) {
    let replaced: Vec<u8> = places(new).map(|(place, _)| place).collect();
    let mut kept = Vec::with_capacity(fields.len() + new.len());
    for (_, field) in places(fields).filter(|(place, _)| !replaced.contains(place)) {
        kept.extend_from_slice(field);
    }
    kept.extend_from_slice(new);
    *fields = kept;
}

/// Fields with their places.
fn places(mut fields: &[u64]) -> impl Iterator<Item = (u8, &[u64])> {
    std::iter::from_fn(move || {
        let (place, words) = field_extent(*fields.first()?);
        let (field, rest) = fields.split_at_checked(words)?;
        fields = rest;
        Some((place, field))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_recorded_again_replaces_what_it_was() {
        let number = |index: u8, value: u64| vec![field(index, tag::INTEGER, 0), value];
        let mut fields = [number(1, 10), vec![field(3, tag::BOOLEAN, 1)], number(2, 20)].concat();
        replace_fields(&mut fields, &number(1, 11));
        assert_eq!(fields, [vec![field(3, tag::BOOLEAN, 1)], number(2, 20), number(1, 11)].concat());
    }

    /// The text of these pieces, with room for so many bytes.
    fn written(pieces: &[&str], room: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let mut text = Text { out: &mut out, room, count: 0, last: 0 };
        pieces.iter().for_each(|piece| text.write_str(piece).unwrap());
        let count = text.end();
        assert_eq!(out.len(), count.div_ceil(WORD));
        let mut bytes: Vec<u8> = out.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert!(bytes.drain(count..).all(|byte| byte == 0));
        bytes
    }

    #[test]
    fn text_is_cut_at_a_character_and_holds_no_nul() {
        assert_eq!(written(&["a\0é", "éx", "y"], 4), "a é".as_bytes());
        assert_eq!(written(&["12345678\u{80}\0\u{1}\0"], 99), "12345678\u{80} \u{1} ".as_bytes());
    }

    #[test]
    fn text_is_the_same_in_whatever_pieces_it_comes() {
        let whole = "0123456789abcdefghijklmnopq";
        for first in 0..whole.len() {
            for second in first..whole.len() {
                let pieces = [&whole[..first], &whole[first..second], &whole[second..]];
                assert_eq!(written(&pieces, 99), whole.as_bytes(), "{pieces:?}");
            }
        }
    }
}
