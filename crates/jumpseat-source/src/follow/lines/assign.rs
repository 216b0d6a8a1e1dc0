//! What a name in a line means: one of the parts that every event has, or a field of its own.

use super::names::Names;
use super::when::When;
use crate::delivery::Reason;
use crate::event::{Event, Field, Limits, Refusal, SeverityText, SpanId, Text, Value};
use crate::meaning::{Meaning, phase};
use crate::ndjson::number::{self, Number};
use crate::registry::MAX_FIELD_NAME;
use jumpseat_wire::severity;
use pcp_model::Timestamp;

/// Puts members of a line into an event.
pub(super) struct Assign<'a> {
    /// The line.
    pub line: &'a [u8],
    /// How long things may be.
    pub limits: &'a Limits,
    /// What names mean.
    pub(super) names: &'a Names,
    /// How times are written.
    pub when: &'a When,
    /// When the line was read.
    pub now: Timestamp,
    /// The line is the beginning of a longer one.
    pub cut: bool,
}

impl Assign<'_> {
    /// Takes a member. `at` is the value's place in the line; `typed` says whether text that is a number is one. As
    /// on the ingest socket, only the first member of each meaning counts, any further one is a field.
    pub(super) fn member(
        &self,
        event: &mut Event,
        name: Text,
        value: Text,
        at: usize,
        typed: bool,
    ) -> Result<(), Refusal> {
        let meaning = self.names.meaning(event.text(self.line, name));
        self.take(meaning, event, name, (value, at, typed))
    }

    /// Takes a member whose name is known to mean this.
    #[inline]
    pub(super) fn take(
        &self,
        meaning: Meaning,
        event: &mut Event,
        name: Text,
        (value, at, typed): (Text, usize, bool),
    ) -> Result<(), Refusal> {
        if name.len() > MAX_FIELD_NAME {
            if !self.limits.truncate {
                return Err(Refusal::at(at, Reason::OversizeField, "a name longer than 128 bytes"));
            }
            event.truncated = true;
        }
        let meaning = meaning.unless_taken(event);
        let bytes = event.text(self.line, value);
        // What the value cannot be, such as a phase that is no word for one, is kept as a text.
        match meaning {
            Meaning::Time => {
                let time = self.when.read(bytes, self.now);
                event.time = Some(time.map_err(|detail| Refusal::at(at, Reason::Time, detail))?);
                return Ok(());
            }
            Meaning::Phase => {
                if let Some(flag) = phase(bytes) {
                    event.phase = flag;
                    return Ok(());
                }
            }
            Meaning::Severity => {
                if let Some(word) = severity_word(bytes) {
                    event.severity = Some(SeverityText::Word(word));
                    return Ok(());
                }
            }
            Meaning::Id => {
                event.id = Some(self.span_id(event, value, at)?);
                return Ok(());
            }
            Meaning::Parent => {
                event.parent = Some(self.span_id(event, value, at)?);
                return Ok(());
            }
            Meaning::Field if typed => {
                if let Some(value) = typed_value(bytes) {
                    event.fields.push(Field::new(name, value));
                    return Ok(());
                }
            }
            _ => {}
        }
        self.text(event, meaning, name, value, at)
    }

    /// Takes a member whose value is kept as text.
    fn text(
        &self,
        event: &mut Event,
        meaning: Meaning,
        name: Text,
        value: Text,
        at: usize,
    ) -> Result<(), Refusal> {
        let value = event.limited(self.line, self.limits, value, at)?;
        match meaning {
            Meaning::Type => event.event_type = Some(value),
            Meaning::Message => event.message = Some(value),
            Meaning::Severity => event.severity = Some(SeverityText::Text(value)),
            Meaning::Source => event.source = Some(value),
            _ => event.fields.push(Field::new(name, Value::Text(value))),
        }
        Ok(())
    }

    fn span_id(&self, event: &mut Event, value: Text, at: usize) -> Result<SpanId, Refusal> {
        Ok(match typed_value(event.text(self.line, value)) {
            Some(Value::I64(n)) if n >= 0 => SpanId::U64(n as u64),
            Some(Value::U64(n)) => SpanId::U64(n),
            _ => SpanId::Text(event.limited(self.line, self.limits, value, at)?),
        })
    }
}

fn severity_word(text: &[u8]) -> Option<&'static str> {
    let number = || std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    severity::from_word(text).or_else(|| number().and_then(severity::from_number))
}

/// A text that is a number as JSON writes them, without an exponent: one in a text is more often part of a hexadecimal
/// identifier than a number.
pub(super) fn typed_value(text: &[u8]) -> Option<Value> {
    if !matches!(text.first(), Some(b'-' | b'0'..=b'9')) {
        return None;
    }
    match number::scan(text) {
        Ok((len, number)) if len == text.len() => match number {
            Number::I64(n) => Some(Value::I64(n)),
            Number::U64(n) => Some(Value::U64(n)),
            Number::Double(n) if !text.iter().any(|byte| matches!(byte, b'e' | b'E')) => {
                Some(Value::Double(n))
            }
            Number::Double(_) | Number::Text => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_what_only_looks_like_one() {
        for (text, value) in [
            ("5", Some(Value::I64(5))),
            ("-1.5", Some(Value::Double(-1.5))),
            ("18446744073709551615", Some(Value::U64(u64::MAX))),
            ("18446744073709551616", None),
            ("12e45", None),
            ("007", None),
            ("1.2.3.4", None),
            ("5ms", None),
            ("-", None),
            ("", None),
        ] {
            assert_eq!(typed_value(text.as_bytes()), value, "{text}");
        }
    }
}
