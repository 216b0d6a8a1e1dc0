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
pub(super) struct OtlpFields {
    pub trace_id: InternedField,
    pub kind: InternedField,
    pub status: InternedField,
    pub duration: InternedField,
    pub instance: InternedField,
    pub scope: InternedField,
    pub version: InternedField,
    pub schema_url: InternedField,
    pub resource_schema_url: InternedField,
    pub trace_state: InternedField,
    pub flags: InternedField,
    /// Tells a span event from a log record with the same id.
    pub span_event: InternedField,
    pub severity_number: InternedField,
    pub severity_text: InternedField,
    pub observed: InternedField,
    pub dropped_attributes: InternedField,
    pub dropped_events: InternedField,
    pub dropped_links: InternedField,
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
        for (place, field) in range.clone().zip(self.fields_in(range)) {
            let (name, value) = (self.event.text(body, field.name), self.event.param(body, field.value));
            record.field_at(place, name, value);
        }
    }
}

impl OtlpFields {
    fn new(lanes: &mut Lanes) -> OtlpFields {
        const FIELDS: [(&str, ValueType); 18] = [
            ("trace_id", ValueType::String),
            ("kind", ValueType::String),
            ("status", ValueType::String),
            ("service.instance.id", ValueType::String),
            ("scope", ValueType::String),
            ("trace_state", ValueType::String),
            // What there is no word for besides OTLP's own: such names cannot be taken for attributes.
            ("otel.scope.version", ValueType::String),
            ("otel.severity_text", ValueType::String),
            ("otel.schema_url", ValueType::String),
            ("otel.resource_schema_url", ValueType::String),
            ("dropped_attributes", ValueType::U32),
            ("dropped_events", ValueType::U32),
            ("dropped_links", ValueType::U32),
            ("otel.flags", ValueType::U32),
            ("otel.span_event", ValueType::U32),
            ("otel.severity_number", ValueType::U32),
            ("otel.observed_time", ValueType::U64),
            ("duration_ns", ValueType::U64),
        ];
        lanes.prepare(&FIELDS);
        let fields = FIELDS.map(|(name, value_type)| lanes.intern(name.as_bytes(), value_type));
        let [
            trace_id,
            kind,
            status,
            instance,
            scope,
            trace_state,
            version,
            severity_text,
            schema_url,
            resource_schema_url,
            dropped_attributes,
            dropped_events,
            dropped_links,
            flags,
            span_event,
            severity_number,
            observed,
            duration,
        ] = fields;
        OtlpFields {
            trace_id,
            kind,
            status,
            instance,
            scope,
            trace_state,
            version,
            severity_text,
            schema_url,
            resource_schema_url,
            dropped_attributes,
            dropped_events,
            dropped_links,
            flags,
            span_event,
            severity_number,
            observed,
            duration,
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
