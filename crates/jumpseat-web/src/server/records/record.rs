//! An event record as queries see it: who told of it, when, and its fields by the names that senders gave them.
//!
//! **Cost:** a record is a handful of allocations, [`Record::bytes`] of them in all; its origin and the names of fields are shared.

use std::borrow::Cow;
use std::sync::Arc;

use jumpseat_wire::severity::Severity;
use pcp_event::EventFlags;
use pcp_model::Value;
use serde_json::Value as Json;

/// What an entry of memory takes besides its bytes.
const OVERHEAD: usize = 32;

/// Names of the fields with a meaning of their own (docs/otel-out.md).
pub(crate) mod name {
    pub(crate) const TYPE: &str = "type";
    pub(crate) const MESSAGE: &str = "message";
    pub(crate) const SEVERITY: &str = "severity";
    pub(crate) const SPAN_ID: &str = "span_id";
    pub(crate) const PARENT_ID: &str = "parent_id";
    pub(crate) const TRACE_ID: &str = "trace_id";
    pub(crate) const KIND: &str = "kind";
    pub(crate) const STATUS: &str = "status";
    pub(crate) const ERROR: &str = "error";
    pub(crate) const DURATION: &str = "duration_ns";
    pub(crate) const LINK: &str = "link";
    pub(crate) const SCOPE: &str = "scope";
    pub(crate) const SCOPE_VERSION: &str = "otel.scope.version";
    pub(crate) const TRACE_STATE: &str = "trace_state";
    pub(crate) const OTHER: &str = "other";
    /// Their values mean nothing to those who read spans.
    pub(crate) const INNER: [&str; 8] = [
        "otel.flags",
        "otel.span_event",
        "otel.severity_number",
        "otel.severity_text",
        "otel.link.flags",
        "otel.link.trace_state",
        "otel.link.dropped_attributes",
        "otel.observed_time",
    ];
}

/// Who tells of records.
#[derive(Debug, PartialEq)]
pub(crate) struct Origin {
    /// The host, as its collector or archive names it.
    pub host: Arc<str>,
    /// The metric whose values the records are.
    pub metric: Arc<str>,
    /// The metric's instance, of jumpseat's metrics the source; empty for a metric without instances.
    pub source: Arc<str>,
    /// The service: what a sender of OTLP calls itself, else the source, else the metric.
    pub service: Arc<str>,
    /// Whether records came by OTLP, whose booleans are whole numbers here.
    pub is_otlp: bool,
    /// What else is known: the sender's resource, or the source's labels.
    pub tags: Vec<(String, Json)>,
}

/// A field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    /// As its sender calls it.
    pub name: Arc<str>,
    /// Its value.
    pub value: Value,
}

/// An event record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    /// Nanoseconds since 1970.
    pub time: i64,
    /// Whether it begins or ends something, and which identifiers it has.
    pub flags: EventFlags,
    /// If it stands for records that were lost here, how many.
    pub missed: Option<u32>,
    /// Who tells of it.
    pub origin: Arc<Origin>,
    /// Its fields, in their order; identifiers first, if the flags say so.
    pub fields: Box<[Field]>,
}

impl Record {
    /// A record for fuzz targets: with a field of each kind, and one that is called as its message.
    pub(crate) fn of_message(message: &str) -> Record {
        let origin = Origin {
            host: "host".into(),
            metric: "metric".into(),
            source: "source".into(),
            service: "service".into(),
            is_otlp: false,
            tags: Vec::new(),
        };
        let text = |name: &str, value: &str| Field { name: name.into(), value: value.to_owned().into() };
        let fields =
            Box::new([text("type", "t"), text("message", message), text("n", "7"), text(message, "x")]);
        Record { time: 0, flags: EventFlags::POINT, missed: None, origin: Arc::new(origin), fields }
    }

    /// The first value of a field.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.fields.iter().find(|field| *field.name == *name).map(|field| &field.value)
    }

    /// The same as text.
    pub(crate) fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        self.get(name).map(text)
    }

    /// The span that it begins, ends, or belongs to.
    pub(crate) fn span_id(&self) -> Option<Cow<'_, str>> {
        let first = self.fields.first().filter(|_| self.flags.contains(EventFlags::ID));
        first.map(|field| text(&field.value)).or_else(|| self.text(name::SPAN_ID)).filter(|id| !id.is_empty())
    }

    /// The span that its span is a part of.
    pub(crate) fn parent_id(&self) -> Option<Cow<'_, str>> {
        let second = self.fields.get(1).filter(|_| self.flags.contains(EventFlags::PARENT));
        let parent = second.map(|field| text(&field.value)).or_else(|| self.text(name::PARENT_ID));
        parent.filter(|id| !id.is_empty())
    }

    /// The fields besides the identifiers that the flags speak of.
    pub(crate) fn rest(&self) -> &[Field] {
        let ids = usize::from(self.flags.contains(EventFlags::ID))
            + usize::from(self.flags.contains(EventFlags::PARENT));
        self.fields.get(ids..).unwrap_or_default()
    }

    /// The trace that its span is of.
    pub(crate) fn trace_id(&self) -> Option<Cow<'_, str>> {
        self.text(name::TRACE_ID).filter(|id| !id.is_empty())
    }

    /// Its type.
    pub(crate) fn kind(&self) -> Option<Cow<'_, str>> {
        self.text(name::TYPE)
    }

    /// How grave it is, if it says so in a word that is known.
    pub(crate) fn severity(&self) -> Option<Severity> {
        match self.get(name::SEVERITY)? {
            Value::String(word) => Severity::from_word(word),
            _ => None,
        }
    }

    /// Whether it tells of a failure, as `jumpseat.span.errors` counts them (docs/spans.md).
    pub(crate) fn is_failure(&self) -> bool {
        self.severity().is_some_and(|severity| severity >= Severity::Error)
            || self.text(name::STATUS).is_some_and(|status| status.eq_ignore_ascii_case("error"))
            || match self.get(name::ERROR) {
                Some(Value::U32(1)) => true,
                Some(Value::String(text)) => matches!(&**text, b"true" | b"1"),
                _ => false,
            }
    }

    /// Memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        let of_field = |field: &Field| {
            let more = match &field.value {
                Value::String(bytes) | Value::Aggregate(bytes) => bytes.len() + OVERHEAD,
                _ => 0,
            };
            size_of::<Field>() + more
        };
        size_of::<Record>() + 2 * OVERHEAD + self.fields.iter().map(of_field).sum::<usize>()
    }
}

/// A value as people read it: numbers with all their digits, bytes in hexadecimal.
pub(crate) fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => String::from_utf8_lossy(text),
        Value::I32(number) => number.to_string().into(),
        Value::U32(number) => number.to_string().into(),
        Value::I64(number) => number.to_string().into(),
        Value::U64(number) => number.to_string().into(),
        Value::Float(number) => number.to_string().into(),
        Value::Double(number) => number.to_string().into(),
        Value::Aggregate(bytes) | Value::Event(bytes) | Value::HighResEvent(bytes) => {
            let digits = |byte: &u8| {
                [byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16).unwrap_or('0'))
            };
            bytes.iter().flat_map(digits).collect::<String>().into()
        }
    }
}

/// A whole number that is not negative.
pub(crate) fn whole(value: &Value) -> Option<u64> {
    match *value {
        Value::U32(number) => Some(number.into()),
        Value::U64(number) => Some(number),
        Value::I32(number) => u64::try_from(number).ok(),
        Value::I64(number) => u64::try_from(number).ok(),
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Someone who tells of records.
    pub(crate) fn origin(host: &str, source: &str) -> Arc<Origin> {
        Arc::new(Origin {
            host: host.into(),
            metric: "jumpseat.event.highres_records".into(),
            source: source.into(),
            service: source.into(),
            is_otlp: false,
            tags: Vec::new(),
        })
    }

    /// A record at a time in milliseconds.
    pub(crate) fn record(
        origin: &Arc<Origin>,
        ms: i64,
        flags: EventFlags,
        fields: &[(&str, &str)],
    ) -> Arc<Record> {
        let field = |&(name, value): &(&str, &str)| Field {
            name: name.into(),
            value: value.parse().map_or_else(|_| Value::String(value.to_owned().into()), Value::I64),
        };
        Arc::new(Record {
            time: ms * 1_000_000,
            flags,
            missed: None,
            origin: Arc::clone(origin),
            fields: fields.iter().map(field).collect(),
        })
    }

    #[test]
    fn identifiers_are_where_the_flags_say() {
        let origin = origin("h", "app");
        let fields = [("a", "s1"), ("b", "p1"), ("c", "x"), ("span_id", "not"), ("trace_id", "t1")];
        let all = record(&origin, 0, EventFlags::START | EventFlags::ID | EventFlags::PARENT, &fields);
        assert_eq!((all.span_id().as_deref(), all.parent_id().as_deref()), (Some("s1"), Some("p1")));
        assert_eq!((all.trace_id().as_deref(), all.rest().len()), (Some("t1"), 3));
        let none = record(&origin, 0, EventFlags::POINT, &fields);
        assert_eq!((none.span_id().as_deref(), none.parent_id(), none.rest().len()), (Some("not"), None, 5));
    }

    #[test]
    fn failures_are_those_that_span_metrics_count() {
        let origin = origin("h", "app");
        for (name, value, expected) in [
            ("severity", "error", true),
            ("severity", "critical", true),
            ("severity", "warning", false),
            ("status", "ERROR", true),
            ("status", "ok", false),
            ("error", "true", true),
            ("error", "no", false),
            ("other", "error", false),
        ] {
            let record = record(&origin, 0, EventFlags::END, &[(name, value)]);
            assert_eq!(record.is_failure(), expected, "{name}={value}");
        }
    }

    #[test]
    fn values_are_text() {
        assert_eq!(text(&Value::U64(u64::MAX)), "18446744073709551615");
        assert_eq!(text(&Value::Double(0.1)), "0.1");
        assert_eq!(text(&Value::Aggregate(vec![1, 0xab].into())), "01ab");
    }
}
