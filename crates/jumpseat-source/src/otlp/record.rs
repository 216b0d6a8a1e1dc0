//! What spans and log records have in common on their way into records.

use std::ops::Range;

use super::value::AttributeLimits;
use super::wire::Place;
use crate::delivery::Reason;
use crate::event::{Event, Field, Refusal, Text, Value};
use crate::lanes::{Arrival, InternedField, LaneId, Lanes, Record};
use pcp_event::Param;
use pcp_model::{Timestamp, ValueType};

/// An empty text.
pub(super) const EMPTY: Text = Text::of_input(0, 0);

/// To whom a span or log record belongs, and the request it is in.
#[derive(Clone, Copy)]
pub(super) struct ScopeContext<'a> {
    pub arrival: Arrival,
    pub lane: LaneId,
    pub body: &'a [u8],
    /// The instance of its service, where that is not part of its source's name.
    pub instance: Option<&'a [u8]>,
    /// The name of its scope, its version, and the URL of its schema.
    pub scope: Option<&'a [u8]>,
    pub version: Option<&'a [u8]>,
    pub schema_url: Option<&'a [u8]>,
    /// The URL of its resource's schema.
    pub resource_schema_url: Option<&'a [u8]>,
}

impl ScopeContext<'_> {
    /// Bytes of texts that its records have besides their own.
    pub(super) fn len(&self) -> usize {
        let texts = [self.scope, self.version, self.schema_url, self.resource_schema_url];
        texts.into_iter().chain([self.instance; 2]).flatten().map(<[u8]>::len).sum()
    }

    /// Adds them to a record.
    pub(super) fn put(&self, record: &mut Record<'_>, fields: &OtlpFields) {
        for (field, text) in [
            (&fields.instance, self.instance),
            (&fields.scope, self.scope),
            (&fields.version, self.version),
            (&fields.schema_url, self.schema_url),
            (&fields.resource_schema_url, self.resource_schema_url),
        ] {
            if let Some(text) = text {
                record.interned(field, Param::String(text));
            }
        }
    }
}

/// What is used again for each span and log record.
pub(super) struct Workspace {
    pub limits: AttributeLimits,
    /// Takes the attributes as fields, and what texts are not in the body as they are.
    pub event: Event,
    /// Where the attributes are.
    pub attributes: Vec<Place>,
    pub fields: OtlpFields,
}

/// The fields that OTLP itself gives records, looked up once.
pub(super) struct OtlpFields<T = InternedField> {
    pub trace_id: T,
    pub kind: T,
    pub status: T,
    pub duration: T,
    pub instance: T,
    pub scope: T,
    pub version: T,
    pub schema_url: T,
    pub resource_schema_url: T,
    pub trace_state: T,
    pub flags: T,
    /// Tells a span event from a log record with the same id.
    pub span_event: T,
    pub severity_number: T,
    pub severity_text: T,
    pub observed: T,
    pub dropped_attributes: T,
    pub dropped_events: T,
    pub dropped_links: T,
}

impl Workspace {
    pub(super) fn new(lanes: &mut Lanes, limits: AttributeLimits) -> Workspace {
        Workspace { limits, event: Event::default(), attributes: Vec::new(), fields: OtlpFields::new(lanes) }
    }

    /// Makes it empty, keeping its memory.
    pub(super) fn clear(&mut self) {
        self.event.clear();
        self.attributes.clear();
    }

    /// Remembers the place of an attribute; beyond the limit it is cut off.
    pub(super) fn attribute(&mut self, place: Place) {
        self.event.truncated |= !keep(&mut self.attributes, place, self.limits.max_fields);
    }

    /// Whether the event's fields in this range fit a record, next to texts of `others` bytes.
    pub(super) fn fits(&self, fields: Range<usize>, others: usize) -> bool {
        /// More than what OTLP itself adds to a record.
        const HEAD: usize = 2048;
        /// Metric, type and length before a value, padding behind it, and as much again.
        const AROUND: usize = 20;
        // With the name, as it is part of the value where a field has no metric.
        // Rounded up: a record that is refused at its commit would leave those before it behind.
        let len = |field: &Field| match field.value {
            Value::Text(text) => text.len(),
            _ => 8,
        };
        let sum: usize =
            self.fields_in(fields).iter().map(|field| len(field) + field.name.len() + AROUND).sum();
        sum + others + HEAD <= pcp_event::batch::MAX_RECORD
    }

    pub(super) fn fields_in(&self, range: Range<usize>) -> &[Field] {
        let fields = self.event.fields.get(range);
        debug_assert!(fields.is_some(), "ranges are of fields that are there, until the next clear");
        fields.unwrap_or_default()
    }

    /// Adds the fields in this range to a record.
    pub(super) fn put_fields(&self, record: &mut Record<'_>, body: &[u8], range: Range<usize>) {
        let (first, fields) = (range.start, self.fields_in(range.clone()));
        record.fields(first..first + fields.len(), |number| self.event.named(body, &fields[number - first]));
    }
}

impl OtlpFields {
    fn new(lanes: &mut Lanes) -> OtlpFields {
        // Those that are new wait for the disk once.
        let mut all = Vec::new();
        OtlpFields::each(|name, value_type| all.push((name, value_type)));
        lanes.prepare(&all);
        OtlpFields::each(|name, value_type| lanes.intern(name.as_bytes(), value_type))
    }
}

impl<T> OtlpFields<T> {
    /// Something for each field, by its name and type.
    fn each(mut field: impl FnMut(&'static str, ValueType) -> T) -> OtlpFields<T> {
        OtlpFields {
            trace_id: field("trace_id", ValueType::String),
            kind: field("kind", ValueType::String),
            status: field("status", ValueType::String),
            instance: field("service.instance.id", ValueType::String),
            scope: field("scope", ValueType::String),
            trace_state: field("trace_state", ValueType::String),
            // What there is no word for besides OTLP's own: such names cannot be taken for attributes.
            version: field("otel.scope.version", ValueType::String),
            severity_text: field("otel.severity_text", ValueType::String),
            schema_url: field("otel.schema_url", ValueType::String),
            resource_schema_url: field("otel.resource_schema_url", ValueType::String),
            dropped_attributes: field("dropped_attributes", ValueType::U32),
            dropped_events: field("dropped_events", ValueType::U32),
            dropped_links: field("dropped_links", ValueType::U32),
            flags: field("otel.flags", ValueType::U32),
            span_event: field("otel.span_event", ValueType::U32),
            severity_number: field("otel.severity_number", ValueType::U32),
            observed: field("otel.observed_time", ValueType::U64),
            duration: field("duration_ns", ValueType::U64),
        }
    }
}

/// Adds how many of something the sender dropped, if it did.
pub(super) fn put_count(record: &mut Record<'_>, field: &InternedField, number: u64) {
    if number > 0 {
        record.interned(field, Param::U32(u32::try_from(number).unwrap_or(u32::MAX)));
    }
}

/// Whether there was room for one more.
pub(super) fn keep(places: &mut Vec<Place>, place: Place, most: usize) -> bool {
    let has_room = places.len() < most;
    if has_room {
        places.push(place);
    }
    has_room
}

/// The refusal of what begins at this place and does not fit a record.
#[cold]
pub(super) fn oversize(at: usize) -> Refusal {
    Refusal::at(at, Reason::OversizeLine, "more than a record can hold (256 KiB packed)")
}

/// A time as OTLP has it.
#[inline]
pub(super) fn time(nanos: u64) -> Timestamp {
    // The quotient fits 63 bits, the remainder 30.
    Timestamp::new((nanos / 1_000_000_000) as i64, (nanos % 1_000_000_000) as u32)
}

/// The bytes of an id as hexadecimal text; `None` unless there are as many as there must be and one is not zero.
#[inline]
pub(super) fn id<const BYTES: usize, const TEXT: usize>(body: &[u8], place: &Place) -> Option<[u8; TEXT]> {
    const { assert!(TEXT == 2 * BYTES) };
    let bytes: &[u8; BYTES] = body.get(place.clone())?.try_into().ok()?;
    let mut text = [0; TEXT];
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&super::value::hex(*byte));
    }
    bytes.iter().any(|byte| *byte != 0).then_some(text)
}
