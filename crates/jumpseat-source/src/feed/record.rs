//! An event that a parser found, as a record of the binary framing.

use jumpseat_wire::encode::{Id, Phase, Record, Value};
use pcp_event::EventFlags;

use crate::event::{self, Event, SeverityText, SpanId};

/// The record of an event that was parsed from `input`; its fields go into `fields`.
pub fn record_of<'a>(
    input: &'a [u8],
    event: &'a Event,
    fields: &'a mut Vec<(&'a [u8], Value<'a>)>,
) -> Record<'a> {
    let text = |text| event.text(input, text);
    let id = |id| match id {
        SpanId::U64(n) => Id::U64(n),
        SpanId::Text(t) => Id::Text(text(t)),
    };
    fields.clear();
    fields.extend(event.fields.iter().map(|field| {
        let value = match field.value {
            event::Value::I64(n) => Value::I64(n),
            event::Value::U64(n) => Value::U64(n),
            event::Value::Double(n) => Value::Double(n),
            event::Value::Bool(b) => Value::U32(u32::from(b)),
            event::Value::Text(t) => Value::Text(text(t)),
        };
        (text(field.name), value)
    }));
    Record {
        // A time beyond what the framing can hold is the last that it can.
        time: event.time.map(|time| time.as_nanos().clamp(i64::MIN.into(), i64::MAX.into()) as i64),
        phase: match event.phase {
            EventFlags::START => Phase::Start,
            EventFlags::END => Phase::End,
            EventFlags::POINT => Phase::Point,
            _ => Phase::Unsaid,
        },
        source: event.source.and_then(|source| std::str::from_utf8(text(source)).ok()),
        event_type: event.event_type.map(text),
        severity: event.severity.map(|severity| match severity {
            SeverityText::Word(word) => word.as_bytes(),
            SeverityText::Text(t) => text(t),
        }),
        id: event.id.map(id),
        parent: event.parent.map(id),
        message: event.message.map(text),
        fields,
    }
}
