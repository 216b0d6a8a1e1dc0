//! The output of `journalctl -o json`: one object an entry, all values texts.

use crate::delivery::Reason;
use crate::event::{Event, Field, Limits, Refusal, SeverityText, Text, Value};
use crate::ndjson::{self, Line, time};
use jumpseat_wire::severity;

use super::assign::typed_value;

/// Which fields of entries to take, and the cursor of the newest one.
#[derive(Debug, Default)]
pub struct Journal {
    fields: Vec<Taken>,
    /// Where to go on after the newest entry that was taken in; empty: none was.
    pub cursor: Vec<u8>,
}

/// A field of entries that is taken.
#[derive(Debug)]
struct Taken {
    /// Its name in the journal.
    name: Box<[u8]>,
    /// Its name in the event: lower case without underscores in front.
    own: Box<[u8]>,
}

impl Journal {
    /// A journal of which these fields are taken.
    pub fn new(fields: &[String]) -> Journal {
        let named = |field: &String| {
            let own = field.trim_start_matches('_').to_ascii_lowercase();
            Taken { name: field.as_bytes().into(), own: own.into_bytes().into() }
        };
        Journal { fields: fields.iter().map(named).collect(), cursor: Vec::new() }
    }

    /// Parses an entry: `MESSAGE` to the message, `PRIORITY` to the severity, `SYSLOG_IDENTIFIER` to the type,
    /// `_SOURCE_REALTIME_TIMESTAMP` or `__REALTIME_TIMESTAMP` to the time.
    ///
    /// # Errors
    /// No JSON object, or a time that is none.
    pub fn parse(
        &mut self,
        line: &[u8],
        limits: &Limits,
        cut: bool,
        event: &mut Event,
    ) -> Result<(), Refusal> {
        if ndjson::parse(line, limits, cut, event)? != Line::Event {
            return Err(Refusal::at(0, Reason::Syntax, "not an entry as journalctl -o json writes it"));
        }
        let mut entries = std::mem::take(&mut event.fields);
        // Those that are kept are put in front.
        let mut kept = 0;
        let mut refusal = None;
        for at in 0..entries.len() {
            let Field { name, value, .. } = entries[at];
            let Value::Text(text) = value else { continue };
            match self.entry(line, event, name, text) {
                Ok(Some(field)) => {
                    entries[kept] = field;
                    kept += 1;
                }
                Ok(None) => {}
                Err(error) => refusal = Some(error),
            }
        }
        entries.truncate(kept);
        event.fields = entries;
        refusal.map_or(Ok(()), Err)
    }

    /// What a member of an entry means: a part of the event, a field, or nothing.
    fn entry(
        &mut self,
        line: &[u8],
        event: &mut Event,
        name: Text,
        text: Text,
    ) -> Result<Option<Field>, Refusal> {
        match event.text(line, name) {
            b"__CURSOR" => {
                self.cursor.clear();
                self.cursor.extend_from_slice(event.text(line, text));
            }
            b"MESSAGE" => event.message = Some(bytes_of(line, event, text)),
            b"PRIORITY" => {
                let number = match event.text(line, text) {
                    [digit @ b'0'..=b'7'] => severity::from_number(i64::from(digit - b'0')),
                    _ => None,
                };
                event.severity = Some(number.map_or(SeverityText::Text(text), SeverityText::Word));
            }
            b"SYSLOG_IDENTIFIER" => event.event_type = Some(text),
            b"_SOURCE_REALTIME_TIMESTAMP" => event.time = Some(micros(line, event, text)?),
            b"__REALTIME_TIMESTAMP" if event.time.is_none() => event.time = Some(micros(line, event, text)?),
            name => {
                let Some(Taken { own, .. }) = self.fields.iter().find(|taken| *taken.name == *name) else {
                    return Ok(None);
                };
                let value = typed_value(event.text(line, text)).unwrap_or(Value::Text(text));
                let begin = event.arena.len();
                event.arena.extend_from_slice(own);
                return Ok(Some(Field::new(Text::of_arena(begin, event.arena.len()), value)));
            }
        }
        Ok(None)
    }
}

fn micros(line: &[u8], event: &Event, text: Text) -> Result<pcp_model::Timestamp, Refusal> {
    let at = text.input_range().map_or(0, |range| range.start);
    time::from_decimal(event.text(line, text)).map_err(|detail| Refusal::at(at, Reason::Time, detail))
}

/// A text, which journalctl writes as a list of the bytes' values if it is not printable.
fn bytes_of(line: &[u8], event: &mut Event, text: Text) -> Text {
    let list = event.text(line, text);
    let Some(list) = list.strip_prefix(b"[") else { return text };
    let list = list.strip_suffix(b"]").unwrap_or(list);
    let mut bytes = Vec::new();
    for number in list.split(|byte| *byte == b',') {
        // A list of several texts stays as it is.
        let Some(byte) = std::str::from_utf8(number).ok().and_then(|text| text.trim().parse().ok()) else {
            return text;
        };
        bytes.push(byte);
    }
    let mut scratch = Vec::new();
    let (repaired, _) = super::repair(&bytes, &mut scratch);
    let begin = event.arena.len();
    event.arena.extend_from_slice(repaired);
    Text::of_arena(begin, event.arena.len())
}
