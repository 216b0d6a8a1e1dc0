//! A span: its START and END records, and a POINT for each of its events.
//!
//! START has the trace's id and the span's kind. What is known only in the end is with END: status, duration,
//! attributes, links. All of it is read before anything is written, so that a span is taken in whole or not at all.

use std::ops::Range;

use super::record::{EMPTY, ScopeContext, Workspace, id, keep, oversize, put_count, time};
use super::value::Attributes;
use super::wire::{Fields, Place};
use crate::delivery::Reason;
use crate::event::{Refusal, Text, Value};
use crate::lanes::{At, Lanes, Record, TypeSlot};
use crate::registry::WellKnown;
use jumpseat_wire::severity::Severity;
use pcp_event::batch::RecordError;
use pcp_event::{EventFlags, Param};

/// Most events of a span, and most links; a client keeps 128 of each by default. Further ones are counted as cut off.
const MAX_EVENTS: usize = 1000;
const MAX_LINKS: usize = 1000;

/// Memory that is used again for the next span.
#[derive(Default)]
pub(super) struct Scratch {
    links: Vec<Place>,
    events: Vec<Place>,
    points: Vec<Point>,
}

/// A span event, its fields in the workspace's event.
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
    flags: u32,
}

/// Takes in the span at this place.
///
/// # Errors
/// It is malformed or too large; nothing of it is in the batch then.
pub(super) fn take(
    lanes: &mut Lanes,
    workspace: &mut Workspace,
    scratch: &mut Scratch,
    context: ScopeContext<'_>,
    place: Place,
) -> Result<(), Refusal> {
    let at = place.start;
    workspace.clear();
    let span = Span::read(workspace, scratch, context.body, place)?;
    // What can be wrong is found out before the first of its records is begun.
    let identity = Identity::of(&span, context.body, at)?;
    let times = span.times(at)?;
    let texts = Texts::of(&span, workspace, scratch, context.body)?;
    // The fields of the span come first, those of its events behind them.
    let own = 0..workspace.event.fields.len();
    points(workspace, scratch, context.body)?;
    let points_fit =
        scratch.points.iter().all(|point| workspace.fits(point.fields.clone(), point.name.len()));
    let len = texts.len() + context.len();
    if !points_fit || !workspace.fits(own.clone(), len) {
        return Err(oversize(at));
    }

    let name = workspace.event.text(context.body, texts.name);
    let name = TypeName::of(name, lanes, context);
    let mut writer = Writer { lanes, workspace, context, identity: &identity, times };
    writer
        .start(name, span.kind)
        .and_then(|()| scratch.points.drain(..).try_for_each(|point| writer.point(&point)))
        .and_then(|()| writer.end(name, &texts, own, &span))
        // They fit, so this cannot be.
        .map_err(|_| oversize(at))
}

impl Span {
    fn read(
        workspace: &mut Workspace,
        scratch: &mut Scratch,
        body: &[u8],
        place: Place,
    ) -> Result<Span, Refusal> {
        let Scratch { links, events, points } = scratch;
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
                9 => workspace.attribute(wire.place(at)?),
                10 => span.dropped_attributes = wire.varint(at)?,
                11 => workspace.event.truncated |= !keep(events, wire.place(at)?, MAX_EVENTS),
                12 => span.dropped_events = wire.varint(at)?,
                13 => workspace.event.truncated |= !keep(links, wire.place(at)?, MAX_LINKS),
                14 => span.dropped_links = wire.varint(at)?,
                15 => span.status = Some(wire.place(at)?),
                16 => span.flags = wire.fixed32(at)?,
                _ => {}
            }
        }
    }

    /// When it began and ended; where one is missing it is as the other.
    fn times(&self, at: usize) -> Result<(u64, u64), Refusal> {
        match (self.start, self.end) {
            (0, 0) => Err(Refusal::at(at, Reason::Time, "a span without times")),
            (0, end) => Ok((end, end)),
            (start, 0) => Ok((start, start)),
            times => Ok(times),
        }
    }
}

/// Its ids, as text.
struct Identity {
    trace: [u8; 32],
    span: [u8; 16],
    parent: Option<[u8; 16]>,
}

impl Identity {
    fn of(span: &Span, body: &[u8], at: usize) -> Result<Identity, Refusal> {
        let wrong = |what| Refusal::at(at, Reason::Body, what);
        let Some(trace) = id::<16, 32>(body, &span.trace_id) else {
            return Err(wrong("a span whose trace id is not 16 bytes, one of them not zero"));
        };
        let Some(own) = id::<8, 16>(body, &span.id) else {
            return Err(wrong("a span whose id is not 8 bytes, one of them not zero"));
        };
        let parent = id::<8, 16>(body, &span.parent);
        // Zeros of any length stand for no parent: some senders write them for a root.
        if parent.is_none() && body.get(span.parent.clone()).unwrap_or_default().iter().any(|byte| *byte != 0)
        {
            return Err(wrong("a span whose parent's id is not 8 bytes"));
        }
        Ok(Identity { trace, span: own, parent })
    }
}

/// Its texts, checked and cut.
struct Texts {
    name: Text,
    trace_state: Text,
    failed: bool,
    status: &'static [u8],
    message: Text,
}

impl Texts {
    /// Reads the texts and, as fields of the event, attributes and links.
    fn of(span: &Span, workspace: &mut Workspace, scratch: &Scratch, body: &[u8]) -> Result<Texts, Refusal> {
        let mut attributes = Attributes::new(body, &mut workspace.event, workspace.limits);
        // Texts before attributes: what is cut for want of room is what comes last.
        let name = attributes.text(span.name.clone())?;
        let trace_state = attributes.text(span.trace_state.clone())?;
        let (failed, status, message) = status(&mut attributes, span.status.clone())?;
        workspace.attributes.iter().try_for_each(|place| attributes.take(place.clone()))?;
        links(&mut attributes, &scratch.links)?;
        Ok(Texts { name, trace_state, failed, status, message })
    }

    fn len(&self) -> usize {
        self.name.len() + self.trace_state.len() + self.message.len()
    }
}

/// The name of a span or span event, which is the type of its records, and where these are counted.
#[derive(Clone, Copy)]
struct TypeName<'a> {
    text: Option<&'a [u8]>,
    slot: TypeSlot,
}

impl<'a> TypeName<'a> {
    fn of(text: &'a [u8], lanes: &mut Lanes, context: ScopeContext<'_>) -> TypeName<'a> {
        let text = (!text.is_empty()).then_some(text);
        TypeName { text, slot: lanes.type_slot(context.lane, text) }
    }
}

/// Writes the records of one span.
struct Writer<'a> {
    lanes: &'a mut Lanes,
    workspace: &'a Workspace,
    context: ScopeContext<'a>,
    identity: &'a Identity,
    /// Start and end, in nanoseconds.
    times: (u64, u64),
}

impl Writer<'_> {
    fn start(&mut self, name: TypeName<'_>, number: u64) -> Result<(), RecordError> {
        let Writer { workspace, context, identity, times: (start, _), .. } = *self;
        let mut record = self.begin(EventFlags::START, start, name);
        record.interned(&workspace.fields.trace_id, Param::String(&identity.trace));
        if let Some(kind) = kind(number) {
            record.interned(&workspace.fields.kind, Param::String(kind));
        }
        if let Some(instance) = context.instance {
            record.interned(&workspace.fields.instance, Param::String(instance));
        }
        record.commit()
    }

    fn point(&mut self, point: &Point) -> Result<(), RecordError> {
        let Writer { workspace, context, identity, .. } = *self;
        let name = workspace.event.text(context.body, point.name);
        let name = TypeName::of(name, self.lanes, context);
        // Without a time of its own it was somewhere within the span.
        let nanos = if point.time == 0 { self.times.0 } else { point.time };
        let mut record = self.begin(EventFlags::POINT, nanos, name);
        record.interned(&workspace.fields.trace_id, Param::String(&identity.trace));
        record.interned(&workspace.fields.span_event, Param::U32(1));
        workspace.put_fields(&mut record, context.body, point.fields.clone());
        put_count(&mut record, &workspace.fields.dropped_attributes, point.dropped);
        record.commit()
    }

    fn end(
        &mut self,
        name: TypeName<'_>,
        texts: &Texts,
        own: Range<usize>,
        span: &Span,
    ) -> Result<(), RecordError> {
        let Writer { workspace, context, identity, times: (start, end), .. } = *self;
        let Workspace { event, fields, .. } = workspace;
        let text = |text| Param::String(event.text(context.body, text));
        let mut record = self.begin(EventFlags::END, end, name);
        if texts.failed {
            record.known(WellKnown::Severity, Param::String(Severity::Error.word().as_bytes()));
        }
        if !texts.message.is_empty() {
            record.known(WellKnown::Message, text(texts.message));
        }
        record.interned(&fields.trace_id, Param::String(&identity.trace));
        record.interned(&fields.status, Param::String(texts.status));
        // A clock that was set back makes an end before the start; a duration has no sign.
        record.interned(&fields.duration, Param::U64(end.saturating_sub(start)));
        context.put(&mut record, fields);
        if !texts.trace_state.is_empty() {
            record.interned(&fields.trace_state, text(texts.trace_state));
        }
        workspace.put_fields(&mut record, context.body, own);
        put_count(&mut record, &fields.dropped_attributes, span.dropped_attributes);
        put_count(&mut record, &fields.dropped_events, span.dropped_events);
        put_count(&mut record, &fields.dropped_links, span.dropped_links);
        put_count(&mut record, &fields.flags, span.flags.into());
        if event.truncated {
            // Of the whole span, which so counts once.
            record.truncated();
        }
        record.commit()
    }

    /// Begins a record with what comes first in all of them: the ids that the flags speak of, and the type.
    fn begin(&mut self, phase: EventFlags, nanos: u64, name: TypeName<'_>) -> Record<'_> {
        let ScopeContext { arrival, lane, .. } = &self.context;
        // A span event has the span's id, but is nobody's child.
        let parent = self.identity.parent.as_ref().filter(|_| phase != EventFlags::POINT);
        let parent_flag = if parent.is_some() { EventFlags::PARENT } else { EventFlags(0) };
        let flags = phase | EventFlags::ID | parent_flag;
        let mut record =
            self.lanes.begin(At { arrival, lane: *lane, event_type: name.slot, time: time(nanos), flags });
        record.known(WellKnown::SpanId, Param::String(&self.identity.span));
        if let Some(parent) = parent {
            record.known(WellKnown::ParentId, Param::String(parent));
        }
        if let Some(text) = name.text {
            record.known(WellKnown::Type, Param::String(text));
        }
        record
    }
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
    // Which is nearly always so, and then the name would be copied for nothing.
    if links.is_empty() {
        return Ok(());
    }
    let name = attributes.literal(b"link")?;
    for link in links {
        let (mut trace_id, mut span_id) = (0..0, 0..0);
        let (mut trace_state, mut dropped, mut flags) = (0..0, 0, 0);
        let body = attributes.body;
        let mut fields = Fields::of(body, link.clone());
        let mut below = Vec::new();
        loop {
            let at = fields.at();
            match fields.next()? {
                Some((1, wire)) => trace_id = wire.place(at)?,
                Some((2, wire)) => span_id = wire.place(at)?,
                Some((3, wire)) => trace_state = wire.place(at)?,
                Some((5, wire)) => dropped = wire.varint(at)?,
                Some((6, wire)) => flags = wire.fixed32(at)?,
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
        if !trace_state.is_empty() {
            let text = attributes.text(trace_state)?;
            let name = attributes.literal(b"otel.link.trace_state")?;
            attributes.push(name, Value::Text(text));
        }
        for (name, number) in [
            ("otel.link.dropped_attributes", dropped.min(u32::MAX.into())),
            ("otel.link.flags", flags.into()),
        ] {
            if number > 0 {
                let name = attributes.literal(name.as_bytes())?;
                attributes.push(name, Value::U64(number));
            }
        }
        below.into_iter().try_for_each(|place| attributes.take_below(name, place))?;
    }
    Ok(())
}

/// Reads the span's events, their fields behind those that the event has.
fn points(workspace: &mut Workspace, scratch: &mut Scratch, body: &[u8]) -> Result<(), Refusal> {
    let Workspace { event, limits, .. } = workspace;
    for place in &scratch.events {
        let first = event.fields.len();
        let mut point = Point { time: 0, name: EMPTY, dropped: 0, fields: first..first };
        // Each event has a limit of its own, counted from the fields that are there by now.
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
