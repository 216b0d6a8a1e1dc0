//! A span: its START and END records, and a POINT for each of its events.
//!
//! START has the trace's id and the span's kind. What is known only in the end is with END: status, duration,
//! attributes, links. All of it is read before anything is written, so that a span is taken in whole or not at all.

use std::ops::Range;

use super::decode::{Context, Decoder, EMPTY, id, time};
use super::value::Attributes;
use super::wire::{Fields, Place};
use crate::delivery::Reason;
use crate::event::{Refusal, Text, Value};
use crate::registry::WellKnown;
use pcp_event::{EventFlags, Param};

/// Most events of a span, and most links; a client keeps 128 of each by default. Further ones are counted as cut off.
const MAX_EVENTS: usize = 1000;
const MAX_LINKS: usize = 1000;

/// Memory that is used again for the next span.
#[derive(Default)]
pub(super) struct Scratch {
    pub attributes: Vec<Place>,
    links: Vec<Place>,
    events: Vec<Place>,
    points: Vec<Point>,
}

/// A span event, its fields in the decoder's event.
struct Point {
    time: u64,
    name: Text,
    dropped: u64,
    fields: Range<usize>,
}

/// What a `Span` message has besides attributes, links and events.
#[derive(Default)]
struct Span {
    trace_id: Place,
    id: Place,
    parent: Place,
    name: Place,
    trace_state: Place,
    status: Option<Place>,
    kind: u64,
    start: u64,
    end: u64,
    dropped_attributes: u64,
    dropped_events: u64,
    dropped_links: u64,
}

/// Takes in the span at this place.
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
    let span = read(decoder, body, place)?;
    let wrong = |what| Refusal::at(at, Reason::Body, what);
    let Some(trace_id) = id::<16, 32>(body, &span.trace_id) else {
        return Err(wrong("a span whose trace id is not 16 bytes, one of them not zero"));
    };
    let Some(span_id) = id::<8, 16>(body, &span.id) else {
        return Err(wrong("a span whose id is not 8 bytes, one of them not zero"));
    };
    let parent = id::<8, 16>(body, &span.parent);
    if parent.is_none() && body.get(span.parent.clone()).unwrap_or_default().iter().any(|byte| *byte != 0) {
        return Err(wrong("a span whose parent's id is not 8 bytes"));
    }
    let (start, end) = match (span.start, span.end) {
        (0, 0) => return Err(Refusal::at(at, Reason::Time, "a span without times")),
        (0, end) => (end, end),
        (start, 0) => (start, start),
        times => times,
    };

    let mut attributes = Attributes::new(body, &mut decoder.event, decoder.limits);
    let name = attributes.text(span.name)?;
    let trace_state = attributes.text(span.trace_state)?;
    let (failed, status, message) = status(&mut attributes, span.status)?;
    decoder.scratch.attributes.iter().try_for_each(|place| attributes.take(place.clone()))?;
    links(&mut attributes, &decoder.scratch.links)?;
    let own = 0..decoder.event.fields.len();
    points(decoder, body)?;
    let texts = name.len() + trace_state.len() + message.len() + scope.map_or(0, <[u8]>::len);
    let fitting =
        decoder.scratch.points.iter().all(|point| decoder.fits(body, point.fields.clone(), point.name.len()));
    if !fitting || !decoder.fits(body, own.clone(), texts) {
        return Err(Refusal::at(at, Reason::OversizeLine, "more than a record can hold (256 KiB packed)"));
    }

    let Context { conn, lane, .. } = context;
    let Decoder { lanes, event, scratch, names, .. } = decoder;
    let parent_flag = if parent.is_some() { EventFlags::PARENT } else { EventFlags(0) };
    let type_name = event.text(body, name);
    let type_name = (!type_name.is_empty()).then_some(type_name);
    let slot = lanes.type_slot(lane, type_name);
    let too_large = |_| Refusal::at(at, Reason::OversizeLine, "more than a record can hold (256 KiB packed)");

    let mut record = lanes.record(lane, time(start), EventFlags::START | EventFlags::ID | parent_flag);
    record.known(WellKnown::SpanId, Param::String(&span_id));
    if let Some(parent) = &parent {
        record.known(WellKnown::ParentId, Param::String(parent));
    }
    if let Some(name) = type_name {
        record.known(WellKnown::Type, Param::String(name));
    }
    record.interned(&names.trace_id, Param::String(&trace_id));
    if let Some(kind) = kind(span.kind) {
        record.interned(&names.kind, Param::String(kind));
    }
    record.commit().map_err(too_large)?;
    lanes.committed(conn, lane, slot);

    for point in scratch.points.drain(..) {
        let name = event.text(body, point.name);
        let name = (!name.is_empty()).then_some(name);
        let slot = lanes.type_slot(lane, name);
        // Without a time of its own it was somewhere within the span.
        let at = if point.time == 0 { start } else { point.time };
        let mut record = lanes.record(lane, time(at), EventFlags::POINT | EventFlags::ID);
        record.known(WellKnown::SpanId, Param::String(&span_id));
        if let Some(name) = name {
            record.known(WellKnown::Type, Param::String(name));
        }
        record.interned(&names.trace_id, Param::String(&trace_id));
        for field in event.fields.get(point.fields).unwrap_or_default() {
            record.field(event.text(body, field.name), event.param(body, field.value));
        }
        if point.dropped > 0 {
            record.interned(&names.dropped_attributes, count(point.dropped));
        }
        record.commit().map_err(too_large)?;
        lanes.committed(conn, lane, slot);
    }

    let mut record = lanes.record(lane, time(end), EventFlags::END | EventFlags::ID | parent_flag);
    record.known(WellKnown::SpanId, Param::String(&span_id));
    if let Some(parent) = &parent {
        record.known(WellKnown::ParentId, Param::String(parent));
    }
    if let Some(name) = type_name {
        record.known(WellKnown::Type, Param::String(name));
    }
    if failed {
        record.known(WellKnown::Severity, Param::String(b"error"));
    }
    if !message.is_empty() {
        record.known(WellKnown::Message, Param::String(event.text(body, message)));
    }
    record.interned(&names.trace_id, Param::String(&trace_id));
    record.interned(&names.status, Param::String(status));
    record.interned(&names.duration, Param::U64(end.saturating_sub(start)));
    if let Some(scope) = scope {
        record.interned(&names.scope, Param::String(scope));
    }
    if !trace_state.is_empty() {
        record.interned(&names.trace_state, Param::String(event.text(body, trace_state)));
    }
    for field in event.fields.get(own).unwrap_or_default() {
        record.field(event.text(body, field.name), event.param(body, field.value));
    }
    for (field, number) in [
        (&names.dropped_attributes, span.dropped_attributes),
        (&names.dropped_events, span.dropped_events),
        (&names.dropped_links, span.dropped_links),
    ] {
        if number > 0 {
            record.interned(field, count(number));
        }
    }
    record.commit().map_err(too_large)?;
    lanes.committed(conn, lane, slot);
    lanes.lane(lane).tallies.truncated += u64::from(event.truncated);
    Ok(())
}

fn read(decoder: &mut Decoder, body: &[u8], place: Place) -> Result<Span, Refusal> {
    let Scratch { attributes, links, events, points } = &mut decoder.scratch;
    attributes.clear();
    links.clear();
    events.clear();
    points.clear();
    let mut span = Span::default();
    let mut fields = Fields::of(body, place);
    loop {
        let at = fields.at();
        let Some((number, wire)) = fields.next()? else { return Ok(span) };
        match number {
            1 => span.trace_id = wire.place(at)?,
            2 => span.id = wire.place(at)?,
            3 => span.trace_state = wire.place(at)?,
            4 => span.parent = wire.place(at)?,
            5 => span.name = wire.place(at)?,
            6 => span.kind = wire.varint(at)?,
            7 => span.start = wire.fixed64(at)?,
            8 => span.end = wire.fixed64(at)?,
            9 => decoder.event.truncated |= !keep(attributes, wire.place(at)?, decoder.limits.max_fields),
            10 => span.dropped_attributes = wire.varint(at)?,
            11 => decoder.event.truncated |= !keep(events, wire.place(at)?, MAX_EVENTS),
            12 => span.dropped_events = wire.varint(at)?,
            13 => decoder.event.truncated |= !keep(links, wire.place(at)?, MAX_LINKS),
            14 => span.dropped_links = wire.varint(at)?,
            15 => span.status = Some(wire.place(at)?),
            _ => {}
        }
    }
}

/// Whether there was room for one more.
pub(super) fn keep(places: &mut Vec<Place>, place: Place, most: usize) -> bool {
    let room = places.len() < most;
    if room {
        places.push(place);
    }
    room
}

/// Whether the span failed, its status as a word, and the message that comes with it.
fn status(
    attributes: &mut Attributes<'_>,
    place: Option<Place>,
) -> Result<(bool, &'static [u8], Text), Refusal> {
    let Some(place) = place else { return Ok((false, b"unset", EMPTY)) };
    let (mut code, mut message) = (0, EMPTY);
    let mut fields = Fields::of(attributes.body, place);
    loop {
        let at = fields.at();
        match fields.next()? {
            Some((2, wire)) => message = attributes.text(wire.place(at)?)?,
            Some((3, wire)) => code = wire.varint(at)?,
            Some(_) => {}
            None => break,
        }
    }
    Ok(match code {
        2 => (true, b"error", message),
        1 => (false, b"ok", message),
        _ => (false, b"unset", message),
    })
}

/// Each link as a field `link` of trace id and span id; its attributes below that name.
fn links(attributes: &mut Attributes<'_>, links: &[Place]) -> Result<(), Refusal> {
    if links.is_empty() {
        return Ok(());
    }
    let name = attributes.literal(b"link")?;
    for link in links {
        let (mut trace_id, mut span_id) = (0..0, 0..0);
        let body = attributes.body;
        let mut fields = Fields::of(body, link.clone());
        let mut below = Vec::new();
        loop {
            let at = fields.at();
            match fields.next()? {
                Some((1, wire)) => trace_id = wire.place(at)?,
                Some((2, wire)) => span_id = wire.place(at)?,
                Some((4, wire)) => {
                    let place = wire.place(at)?;
                    attributes.event.truncated |= !keep(&mut below, place, attributes.limits.max_fields);
                }
                Some(_) => {}
                None => break,
            }
        }
        let ids = (id::<16, 32>(body, &trace_id), id::<8, 16>(body, &span_id));
        let (Some(trace_id), Some(span_id)) = ids else {
            return Err(Refusal::at(link.start, Reason::Body, "a link without the ids of a span"));
        };
        let value = attributes.literal(&[&trace_id[..], b"-", &span_id].concat())?;
        attributes.push(name, Value::Text(value));
        below.into_iter().try_for_each(|place| attributes.take_below(name, place))?;
    }
    Ok(())
}

/// Reads the span's events into `decoder.scratch.points`, their fields behind those that the event has.
fn points(decoder: &mut Decoder, body: &[u8]) -> Result<(), Refusal> {
    let Decoder { event, scratch, limits, .. } = decoder;
    for place in &scratch.events {
        let first = event.fields.len();
        let mut point = Point { time: 0, name: EMPTY, dropped: 0, fields: first..first };
        let mut attributes = Attributes::new(body, event, *limits);
        let mut fields = Fields::of(body, place.clone());
        loop {
            let at = fields.at();
            match fields.next()? {
                Some((1, wire)) => point.time = wire.fixed64(at)?,
                Some((2, wire)) => point.name = attributes.text(wire.place(at)?)?,
                Some((3, wire)) => attributes.take(wire.place(at)?)?,
                Some((4, wire)) => point.dropped = wire.varint(at)?,
                Some(_) => {}
                None => break,
            }
        }
        point.fields.end = event.fields.len();
        scratch.points.push(point);
    }
    Ok(())
}

/// The word for a `SpanKind`; `None` where it is not given.
fn kind(number: u64) -> Option<&'static [u8]> {
    Some(match number {
        1 => b"internal",
        2 => b"server",
        3 => b"client",
        4 => b"producer",
        5 => b"consumer",
        _ => return None,
    })
}

pub(super) fn count(number: u64) -> Param<'static> {
    Param::U32(u32::try_from(number).unwrap_or(u32::MAX))
}
