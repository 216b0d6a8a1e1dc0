//! An event as a parser found it, written as a record.

use super::Lanes;
use super::account::LaneId;
use super::record::{At, Named, Record};
use crate::delivery::{Arrival, Reason};
use crate::event::{Event, Field, Refusal, SeverityText, SpanId, Text};
use crate::registry::WellKnown;
use pcp_event::{EventFlags, Param};

impl Lanes {
    /// Writes an event as a record. `input` is what the event was parsed from.
    ///
    /// # Errors
    /// The record is too large.
    pub fn write(
        &mut self,
        arrival: Arrival,
        lane: LaneId,
        input: &[u8],
        event: &Event,
    ) -> Result<(), Refusal> {
        let event_type = event.event_type.map(|text| event.text(input, text));
        // Before the record is begun, as it may have to ask the registry.
        let slot = self.type_slot(lane, event_type);
        let mut record = self.begin(At {
            arrival: &arrival,
            lane,
            event_type: slot,
            time: event.time.unwrap_or(arrival.time),
            flags: record_flags(event),
        });
        put_identity(&mut record, input, event);
        if let Some(event_type) = event_type {
            record.known(WellKnown::Type, Param::String(event_type));
        }
        let text = |text: Text| Param::String(event.text(input, text));
        match event.severity {
            Some(SeverityText::Word(word)) => {
                record.known(WellKnown::Severity, Param::String(word.as_bytes()))
            }
            Some(SeverityText::Text(t)) => record.known(WellKnown::Severity, text(t)),
            None => {}
        }
        if let Some(message) = event.message {
            record.known(WellKnown::Message, text(message));
        }
        record.fields(0..event.fields.len(), |number| event.named(input, &event.fields[number]));
        if event.truncated {
            record.truncated();
        }
        record.commit().map_err(|_| {
            Refusal::at(0, Reason::OversizeLine, "more fields than a record can hold (256 KiB packed)")
        })
    }
}

impl Event {
    /// A field for a record.
    #[inline]
    pub(crate) fn named<'a>(&'a self, input: &'a [u8], field: &Field) -> Named<'a> {
        Named {
            name: self.text(input, field.name),
            value: self.param(input, field.value),
            memo: field.member.and_then(|member| self.outline.memo(member)),
        }
    }
}

/// The span's id and its parent's, in front of all other parameters, as the flags say.
#[inline]
fn put_identity(record: &mut Record<'_>, input: &[u8], event: &Event) {
    let text = |text: Text| Param::String(event.text(input, text));
    match event.id {
        Some(SpanId::U64(n)) => record.known(WellKnown::SpanIdU64, Param::U64(n)),
        Some(SpanId::Text(t)) => record.known(WellKnown::SpanId, text(t)),
        None => {}
    }
    match event.parent {
        Some(SpanId::U64(n)) => record.known(WellKnown::ParentIdU64, Param::U64(n)),
        Some(SpanId::Text(t)) => record.known(WellKnown::ParentId, text(t)),
        None => {}
    }
}

/// The flags of an event's record: PARENT only next to ID, as it speaks of the second parameter.
fn record_flags(event: &Event) -> EventFlags {
    let mut flags = if event.phase == EventFlags(0) { EventFlags::POINT } else { event.phase };
    // A parent without an id is written, but no flag speaks of it: as the first parameter it would be taken for the
    // id.
    if event.id.is_some() {
        flags |= EventFlags::ID;
        if event.parent.is_some() {
            flags |= EventFlags::PARENT;
        }
    }
    flags
}
