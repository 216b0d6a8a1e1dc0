//! What a name in a line means: one of the parts that every event has, or a field of its own.

use super::when::When;
use crate::delivery::Reason;
use crate::event::{Event, Field, Limits, Refusal, Severity, SpanId, Text, Value};
use crate::ndjson::number::{self, Number};
use crate::ndjson::phase;
use crate::registry::MAX_FIELD_NAME;
use jumpseat_wire::severity;
use pcp_event::EventFlags;
use pcp_model::Timestamp;

/// Puts members of a line into an event.
pub struct Assign<'a> {
    /// The line.
    pub line: &'a [u8],
    /// How long things may be.
    pub limits: &'a Limits,
    /// How times are written.
    pub when: &'a When,
    /// When the line was read.
    pub now: Timestamp,
    /// The line is the beginning of a longer one.
    pub cut: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Time,
    Type,
    Message,
    Severity,
    Id,
    Parent,
    Phase,
    Source,
    Field,
}

impl Assign<'_> {
    /// Takes a member. `at` is the value's place in the line; `typed` says whether text that is a number is one. As
    /// on the ingest socket, only the first member of each meaning counts, any further one is a field.
    pub fn member(
        &self,
        event: &mut Event,
        name: Text,
        value: Text,
        at: usize,
        typed: bool,
    ) -> Result<(), Refusal> {
        if name.len() > MAX_FIELD_NAME {
            if !self.limits.truncate {
                return Err(Refusal::at(at, Reason::OversizeField, "a name longer than 128 bytes"));
            }
            event.truncated = true;
        }
        let part = part(event, event.text(self.line, name));
        let bytes = event.text(self.line, value);
        match part {
            Part::Time => {
                let time = self.when.read(bytes, self.now);
                event.time = Some(time.map_err(|detail| Refusal::at(at, Reason::Time, detail))?);
                return Ok(());
            }
            Part::Phase => {
                if let Some(flag) = phase(bytes) {
                    event.phase = flag;
                    return Ok(());
                }
            }
            Part::Severity => {
                let number = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
                let word = severity::from_word(bytes).or_else(|| number.and_then(severity::from_number));
                if let Some(word) = word {
                    event.severity = Some(Severity::Word(word));
                    return Ok(());
                }
            }
            Part::Id | Part::Parent => {
                let id = match typed_value(bytes) {
                    Some(Value::I64(n)) if n >= 0 => SpanId::U64(n as u64),
                    Some(Value::U64(n)) => SpanId::U64(n),
                    _ => SpanId::Text(event.limited(self.line, self.limits, value, at)?),
                };
                match part {
                    Part::Id => event.id = Some(id),
                    _ => event.parent = Some(id),
                }
                return Ok(());
            }
            Part::Field if typed => {
                if let Some(value) = typed_value(bytes) {
                    event.fields.push(Field { name, value });
                    return Ok(());
                }
            }
            _ => {}
        }
        let value = event.limited(self.line, self.limits, value, at)?;
        match part {
            Part::Type => event.event_type = Some(value),
            Part::Message => event.message = Some(value),
            Part::Severity => event.severity = Some(Severity::Text(value)),
            Part::Source => event.source = Some(value),
            _ => event.fields.push(Field { name, value: Value::Text(value) }),
        }
        Ok(())
    }
}

#[inline]
fn part(event: &Event, name: &[u8]) -> Part {
    let (part, taken) = match name {
        b"time" | b"ts" | b"timestamp" => (Part::Time, event.time.is_some()),
        b"type" | b"event" => (Part::Type, event.event_type.is_some()),
        b"message" | b"msg" => (Part::Message, event.message.is_some()),
        b"severity" | b"level" | b"lvl" => (Part::Severity, event.severity.is_some()),
        b"span_id" | b"id" => (Part::Id, event.id.is_some()),
        b"parent_id" | b"parent" => (Part::Parent, event.parent.is_some()),
        b"phase" | b"ph" => (Part::Phase, event.phase != EventFlags(0)),
        b"source" => (Part::Source, event.source.is_some()),
        _ => return Part::Field,
    };
    if taken { Part::Field } else { part }
}

/// A text that is a number as JSON writes them, without an exponent: one in a text is more often part of a hexadecimal
/// identifier than a number.
pub fn typed_value(text: &[u8]) -> Option<Value> {
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
