//! A log record: a POINT with severity and message.

use super::decode::{Context, Decoder, EMPTY, id, time};
use super::span::{count, keep};
use super::value::Attributes;
use super::wire::{Fields, Place};
use crate::delivery::Reason;
use crate::event::Refusal;
use crate::registry::WellKnown;
use jumpseat_wire::severity;
use pcp_event::{EventFlags, Param};

/// The event type of log records that have no event name.
const TYPE: &[u8] = b"log";

/// What a `LogRecord` message has besides attributes.
#[derive(Default)]
struct LogRecord {
    time: u64,
    observed: u64,
    severity: u64,
    severity_text: Place,
    body: Option<Place>,
    dropped_attributes: u64,
    trace_id: Place,
    span_id: Place,
    event_name: Place,
}

/// Takes in the log record at this place.
///
/// # Errors
/// It is malformed or too large; nothing of it is in the batch then.
pub(super) fn take(
    decoder: &mut Decoder,
    context: Context,
    body: &[u8],
    place: Place,
    scope: Option<&[u8]>,
) -> Result<(), Refusal> {
    let at = place.start;
    decoder.event.clear();
    let mut log = LogRecord::default();
    decoder.scratch.attributes.clear();
    let mut fields = Fields::of(body, place);
    loop {
        let at = fields.at();
        let Some((number, wire)) = fields.next()? else { break };
        match number {
            1 => log.time = wire.fixed64(at)?,
            2 => log.severity = wire.varint(at)?,
            3 => log.severity_text = wire.place(at)?,
            5 => log.body = Some(wire.place(at)?),
            6 => {
                let Decoder { event, scratch, limits, .. } = &mut *decoder;
                event.truncated |= !keep(&mut scratch.attributes, wire.place(at)?, limits.max_fields);
            }
            7 => log.dropped_attributes = wire.varint(at)?,
            9 => log.trace_id = wire.place(at)?,
            10 => log.span_id = wire.place(at)?,
            11 => log.observed = wire.fixed64(at)?,
            12 => log.event_name = wire.place(at)?,
            _ => {}
        }
    }
    let mut attributes = Attributes::new(body, &mut decoder.event, decoder.limits);
    let event_name = attributes.text(log.event_name)?;
    let severity_text = attributes.text(log.severity_text)?;
    let message = match log.body {
        Some(place) => attributes.as_text(place)?.unwrap_or(EMPTY),
        None => EMPTY,
    };
    decoder.scratch.attributes.iter().try_for_each(|place| attributes.take(place.clone()))?;
    let oversize = Refusal::at(at, Reason::OversizeLine, "more than a record can hold (256 KiB packed)");
    let texts = message.len() + event_name.len() + severity_text.len() + scope.map_or(0, <[u8]>::len);
    if !decoder.fits(body, 0..decoder.event.fields.len(), texts) {
        return Err(oversize);
    }

    let Context { conn, lane, .. } = context;
    let Decoder { lanes, event, names, .. } = decoder;
    let text = |text| event.text(body, text);
    let type_name = if event_name.is_empty() { TYPE } else { text(event_name) };
    let slot = lanes.type_slot(lane, Some(type_name));
    let when = [log.time, log.observed].into_iter().find(|nanos| *nanos > 0).map_or(lanes.now, time);
    // Ids that are not as they must be count as none.
    let span_id = id::<8, 16>(body, &log.span_id);
    let flag = if span_id.is_some() { EventFlags::ID } else { EventFlags(0) };
    let mut record = lanes.record(lane, when, EventFlags::POINT | flag);
    if let Some(span_id) = &span_id {
        record.known(WellKnown::SpanId, Param::String(span_id));
    }
    record.known(WellKnown::Type, Param::String(type_name));
    let word = severity_word(log.severity).or_else(|| severity::from_word(text(severity_text)));
    if let Some(word) = word {
        record.known(WellKnown::Severity, Param::String(word.as_bytes()));
    } else if !severity_text.is_empty() {
        record.known(WellKnown::Severity, Param::String(text(severity_text)));
    }
    if !message.is_empty() {
        record.known(WellKnown::Message, Param::String(text(message)));
    }
    if let Some(trace_id) = id::<16, 32>(body, &log.trace_id) {
        record.interned(&names.trace_id, Param::String(&trace_id));
    }
    if let Some(scope) = scope {
        record.interned(&names.scope, Param::String(scope));
    }
    for field in &event.fields {
        record.field(text(field.name), event.param(body, field.value));
    }
    if log.dropped_attributes > 0 {
        record.interned(&names.dropped_attributes, count(log.dropped_attributes));
    }
    record.commit().map_err(|_| oversize)?;
    lanes.committed(conn, lane, slot);
    lanes.lane(lane).tallies.truncated += u64::from(event.truncated);
    Ok(())
}

/// The word for a `SeverityNumber`, of which there are four a word.
fn severity_word(number: u64) -> Option<&'static str> {
    Some(match number {
        1..=4 => "trace",
        5..=8 => "debug",
        9..=12 => "info",
        13..=16 => "warning",
        17..=20 => "error",
        21..=24 => "critical",
        _ => return None,
    })
}
