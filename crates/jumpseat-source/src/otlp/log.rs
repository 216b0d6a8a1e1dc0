//! A log record: a POINT with severity and message.

use super::record::{EMPTY, ScopeContext, Workspace, id, oversize, put_count, time};
use super::value::Attributes;
use super::wire::{Fields, Place};
use crate::event::{Refusal, Text};
use crate::lanes::{At, Lanes};
use crate::registry::WellKnown;
use jumpseat_wire::severity::Severity;
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
    message: Option<Place>,
    dropped_attributes: u64,
    flags: u32,
    trace_id: Place,
    span_id: Place,
    event_name: Place,
}

/// Its texts, checked and cut.
struct Texts {
    event_name: Text,
    severity: Text,
    message: Text,
}

/// Takes in the log record at this place.
///
/// # Errors
/// It is malformed or too large; nothing of it is in the batch then.
pub(super) fn take(
    lanes: &mut Lanes,
    workspace: &mut Workspace,
    context: ScopeContext<'_>,
    place: Place,
) -> Result<(), Refusal> {
    let at = place.start;
    workspace.clear();
    let log = LogRecord::read(workspace, context.body, place)?;
    let texts = Texts::of(&log, workspace, context.body)?;
    let len = texts.message.len() + texts.event_name.len() + 2 * texts.severity.len() + context.len();
    if !workspace.fits(0..workspace.event.fields.len(), len) {
        return Err(oversize(at));
    }
    log.write(&texts, lanes, workspace, context, at)
}

impl LogRecord {
    fn read(workspace: &mut Workspace, body: &[u8], place: Place) -> Result<LogRecord, Refusal> {
        let mut log = LogRecord::default();
        let mut fields = Fields::of(body, place);
        loop {
            let at = fields.at();
            let Some((number, wire)) = fields.next()? else { return Ok(log) };
            match number {
                1 => log.time = wire.fixed64(at)?,
                2 => log.severity = wire.varint(at)?,
                3 => log.severity_text = wire.place(at)?,
                5 => log.message = Some(wire.place(at)?),
                6 => workspace.attribute(wire.place(at)?),
                7 => log.dropped_attributes = wire.varint(at)?,
                8 => log.flags = wire.fixed32(at)?,
                9 => log.trace_id = wire.place(at)?,
                10 => log.span_id = wire.place(at)?,
                11 => log.observed = wire.fixed64(at)?,
                12 => log.event_name = wire.place(at)?,
                _ => {}
            }
        }
    }

    fn write(
        &self,
        texts: &Texts,
        lanes: &mut Lanes,
        workspace: &Workspace,
        context: ScopeContext<'_>,
        at: usize,
    ) -> Result<(), Refusal> {
        let ScopeContext { arrival, lane, body, .. } = context;
        let Workspace { event, fields, .. } = workspace;
        let text = |text| event.text(body, text);
        let type_name = if texts.event_name.is_empty() { TYPE } else { text(texts.event_name) };
        // Who collects logs of others knows only when it saw them.
        let nanos = [self.time, self.observed].into_iter().find(|nanos| *nanos > 0);
        // Ids that are not as they must be count as none.
        let span_id = id::<8, 16>(body, &self.span_id);
        let id_flag = if span_id.is_some() { EventFlags::ID } else { EventFlags(0) };
        let event_type = lanes.type_slot(lane, Some(type_name));
        let mut record = lanes.begin(At {
            arrival: &arrival,
            lane,
            event_type,
            time: nanos.map_or(arrival.time, time),
            flags: EventFlags::POINT | id_flag,
        });
        if let Some(span_id) = &span_id {
            record.known(WellKnown::SpanId, Param::String(span_id));
        }
        record.known(WellKnown::Type, Param::String(type_name));
        // The number is of a fixed list, the text is the sender's own word.
        let severity_text = text(texts.severity);
        let severity = Severity::from_otlp(self.severity).or_else(|| Severity::from_word(severity_text));
        match severity {
            Some(known) => record.known(WellKnown::Severity, Param::String(known.word().as_bytes())),
            None if severity_text.is_empty() => {}
            None => record.known(WellKnown::Severity, Param::String(severity_text)),
        }
        if !texts.message.is_empty() {
            record.known(WellKnown::Message, Param::String(text(texts.message)));
        }
        if let Some(trace_id) = id::<16, 32>(body, &self.trace_id) {
            record.interned(&fields.trace_id, Param::String(&trace_id));
        }
        // As sent, where the word does not say it.
        if self.severity != severity.map_or(0, first_number) {
            record.interned(&fields.severity_number, Param::U32(self.severity as u32));
        }
        if !severity_text.is_empty() {
            record.interned(&fields.severity_text, Param::String(severity_text));
        }
        if self.observed > 0 {
            record.interned(&fields.observed, Param::U64(self.observed));
        }
        context.put(&mut record, fields);
        workspace.put_fields(&mut record, body, 0..event.fields.len());
        put_count(&mut record, &fields.dropped_attributes, self.dropped_attributes);
        put_count(&mut record, &fields.flags, self.flags.into());
        if event.truncated {
            record.truncated();
        }
        record.commit().map_err(|_| oversize(at))
    }
}

impl Texts {
    /// Reads the texts and, as fields of the event, the attributes.
    fn of(log: &LogRecord, workspace: &mut Workspace, body: &[u8]) -> Result<Texts, Refusal> {
        let mut attributes = Attributes::new(body, &mut workspace.event, workspace.limits);
        let event_name = attributes.text(log.event_name.clone())?;
        let severity = attributes.text(log.severity_text.clone())?;
        let message = match &log.message {
            Some(place) => attributes.as_text(place.clone())?.unwrap_or(EMPTY),
            None => EMPTY,
        };
        workspace.attributes.iter().try_for_each(|place| attributes.take(place.clone()))?;
        Ok(Texts { event_name, severity, message })
    }
}

/// The first of the numbers that OTLP has for a severity: it stands for itself.
fn first_number(severity: Severity) -> u64 {
    match severity {
        Severity::Trace => 1,
        Severity::Debug => 5,
        Severity::Info | Severity::Notice => 9,
        Severity::Warning => 13,
        Severity::Error => 17,
        Severity::Critical | Severity::Alert | Severity::Emergency => 21,
    }
}
