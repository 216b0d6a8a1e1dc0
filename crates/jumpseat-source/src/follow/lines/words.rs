//! What formats of fixed form are made of: words between blanks, texts in quotes, fields under given names.

use super::assign::{Assign, typed_value};
use crate::event::{Event, Field, Refusal, Text, Value};

/// Words at blanks.
pub(super) struct Words<'a> {
    pub line: &'a [u8],
    pub at: usize,
}

impl Words<'_> {
    /// The next word, with the one blank behind it consumed; `None` at the end.
    pub(super) fn next(&mut self) -> Option<Text> {
        let rest = self.line.get(self.at..)?;
        let end = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
        if end == 0 {
            return None;
        }
        let word = Text::of_input(self.at, self.at + end);
        self.at = (self.at + end + 1).min(self.line.len());
        Some(word)
    }
}

/// The bytes of a text that is in the line.
pub(super) fn text(line: &[u8], word: Text) -> &[u8] {
    word.input_range().and_then(|range| line.get(range)).unwrap_or_default()
}

/// What is from `at` on is the message.
pub(super) fn message(assign: &Assign<'_>, event: &mut Event, at: usize) -> Result<(), Refusal> {
    if at < assign.line.len() {
        let text = Text::of_input(at, assign.line.len());
        event.message = Some(event.limited(assign.line, assign.limits, text, at)?);
    }
    Ok(())
}

/// A number, if a text looks like one.
pub(super) fn number_or_text(line: &[u8], word: Text) -> Value {
    typed_value(text(line, word)).unwrap_or(Value::Text(word))
}

/// A field.
pub(super) fn field(event: &mut Event, name: &str, value: Value) {
    let name = in_arena(event, name);
    event.fields.push(Field::new(name, value));
}

/// A field that is a text between two places of the line.
pub(super) fn text_field(
    assign: &Assign<'_>,
    event: &mut Event,
    name: &str,
    (from, to): (usize, usize),
) -> Result<(), Refusal> {
    let text = event.limited(assign.line, assign.limits, Text::of_input(from, to), from)?;
    field(event, name, Value::Text(text));
    Ok(())
}

/// The number between two places of the line, if there are nothing but digits.
pub(super) fn whole_number(line: &[u8], (from, to): (usize, usize)) -> Option<i64> {
    let digits = line.get(from..to)?;
    let is_number = (1..=18).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| digits.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0')))
}

/// Where the text ends whose opening quote is in front of `at`: at the next quote that has no backslash before it.
pub(super) fn closing_quote(line: &[u8], at: usize) -> Option<usize> {
    let mut from = at;
    loop {
        let found = from + memchr::memchr2(b'"', b'\\', line.get(from..)?)?;
        if line[found] == b'"' {
            return Some(found);
        }
        from = found + 2;
    }
}

/// A word of ours as a text.
pub(super) fn in_arena(event: &mut Event, word: &str) -> Text {
    let begin = event.arena.len();
    event.arena.extend_from_slice(word.as_bytes());
    Text::of_arena(begin, event.arena.len())
}
