//! Spans and traces in Jaeger's form.
//!
//! Fields are tags, by the names that senders gave them; those with a meaning of their own are called as the OpenTelemetry project
//! calls them for Jaeger: `span.kind`, `otel.status_code`, `otel.scope.name` and so on.

use std::collections::{BTreeMap, HashMap};

use pcp_model::Value;
use serde_json::Value as Json;

use super::form::{self, Log, Process, Reference, Tag, TagValue};
use crate::server::records::duration;
use crate::server::records::record::{Field, Origin, Record, name, text};
use crate::server::records::spans::{self, Span, Trace};

/// Most bytes of an answer, more or less, and most spans.
const MAX_BYTES: usize = 32 << 20;
const MAX_SPANS: usize = 20_000;

/// What an answer has by now.
#[derive(Debug, Default)]
pub(super) struct Budget {
    bytes: usize,
    spans: usize,
}

impl Budget {
    pub(super) fn is_over(&self) -> bool {
        self.bytes >= MAX_BYTES || self.spans >= MAX_SPANS
    }
}

/// A trace; `cut` is why records are missing that there may be.
pub(super) fn trace(trace: &Trace, cut: Option<&str>, budget: &mut Budget) -> form::Trace {
    let parents = spans::parents(&trace.spans);
    let mut processes = BTreeMap::new();
    let mut names: HashMap<(&str, &str), String> = HashMap::new();
    let mut shown = Vec::new();
    let mut warnings: Vec<String> = cut.map(|cut| format!("incomplete: {cut}")).into_iter().collect();
    for (span, parent) in trace.spans.iter().zip(parents) {
        if budget.is_over() {
            warnings.push(format!(
                "{} of {} spans are left out",
                trace.spans.len() - shown.len(),
                trace.spans.len()
            ));
            break;
        }
        let origin = &span.origin;
        let process = names.entry((&origin.host, &origin.source)).or_insert_with(|| {
            let name = format!("p{}", processes.len() + 1);
            let tags = process_tags(origin);
            budget.bytes += tags.iter().map(Tag::len).sum::<usize>();
            processes.insert(name.clone(), Process { service_name: origin.service.to_string(), tags });
            name
        });
        let span = one(span, &trace.id, process, parent.and_then(|at| trace.spans.get(at)));
        let fields = span.logs.iter().flat_map(|log| &log.fields);
        budget.bytes += 300 + span.tags.iter().chain(fields).map(Tag::len).sum::<usize>();
        budget.spans += 1;
        shown.push(span);
    }
    form::Trace { trace_id: trace.id.clone(), spans: shown, processes, warnings: some(warnings) }
}

fn one(span: &Span, trace: &str, process: &str, parent: Option<&Span>) -> form::Span {
    let child_of = span.parent.as_ref().map(|id| Reference {
        ref_type: "CHILD_OF",
        trace_id: trace.to_owned(),
        span_id: id.clone(),
    });
    let links = span.links().into_iter().map(|(trace_id, span_id)| Reference {
        ref_type: "FOLLOWS_FROM",
        trace_id,
        span_id,
    });
    let logs =
        span.points.iter().map(|point| Log { timestamp: point.time.div_euclid(1000), fields: fields(point) });
    // Both ends are cut to whole microseconds, so that what is within stays within.
    let start_time = span.start.div_euclid(1000);
    let end = span.start.saturating_add(span.duration()).div_euclid(1000);
    form::Span {
        trace_id: trace.to_owned(),
        span_id: span.id.clone(),
        flags: 1,
        operation_name: span.name.clone(),
        references: child_of.into_iter().chain(links).collect(),
        start_time,
        duration: end.saturating_sub(start_time),
        tags: tags(span),
        logs: logs.collect(),
        process_id: process.to_owned(),
        warnings: some(warnings(span, parent)),
    }
}

fn warnings(span: &Span, parent: Option<&Span>) -> Vec<String> {
    let mut warnings = Vec::new();
    match (&span.begun, span.end) {
        (_, None) => warnings.push("unfinished: there is no record of its end".to_owned()),
        (None, Some(end)) if end == span.start => {
            warnings.push("there is no record of its start: when it began is not known".to_owned());
        }
        (Some(_), Some(end)) if end < span.start => warnings.push("it ends before it begins".to_owned()),
        _ => {}
    }
    if span.missed > 0 {
        warnings.push(format!("{} records of its source were missed", span.missed));
    }
    if let Some(parent) = parent.filter(|parent| parent.origin.host != span.origin.host)
        && span.start < parent.start
    {
        let early = duration::shown(parent.start.saturating_sub(span.start));
        warnings.push(format!("clock skew: it begins {early} before its parent on {}", parent.origin.host));
    }
    warnings
}

/// The tags of a span.
pub(super) fn tags(span: &Span) -> Vec<Tag> {
    let mut tags: Vec<Tag> = Vec::new();
    for record in span.records() {
        for field in record.rest() {
            let tag = tag_of_span(field, record);
            tags.extend(tag.filter(|tag| !tags.contains(tag)));
        }
    }
    if span.failed && !tags.iter().any(|tag| tag.key == name::ERROR) {
        tags.push(Tag::new(name::ERROR, TagValue::Bool(true)));
    }
    tags
}

fn tag_of_span(field: &Field, record: &Record) -> Option<Tag> {
    let is_own = |name: &str| *field.name == *name;
    if [name::TYPE, name::SPAN_ID, name::PARENT_ID, name::TRACE_ID, name::DURATION, name::LINK]
        .into_iter()
        .any(is_own)
        || name::INNER.into_iter().any(is_own)
    {
        return None;
    }
    let value = || text(&field.value).into_owned();
    Some(match &*field.name {
        name::KIND => Tag::text("span.kind", value()),
        name::STATUS => match &*value().to_ascii_lowercase() {
            "ok" => Tag::text("otel.status_code", "OK"),
            "error" => Tag::text("otel.status_code", "ERROR"),
            "unset" if record.origin.is_otlp => return None,
            _ => tag(field, record),
        },
        // It is made of the status.
        name::SEVERITY if record.origin.is_otlp => return None,
        name::MESSAGE if record.get(name::STATUS).is_some() => Tag::text("otel.status_description", value()),
        name::SCOPE => Tag::text("otel.scope.name", value()),
        name::SCOPE_VERSION => Tag::text("otel.scope.version", value()),
        name::TRACE_STATE => Tag::text("w3c.tracestate", value()),
        _ => tag(field, record),
    })
}

/// What happened within a span, its type as `event`.
pub(super) fn fields(point: &Record) -> Vec<Tag> {
    let mut tags = Vec::new();
    for field in point.rest() {
        match &*field.name {
            name::TYPE => tags.push(Tag::text("event", text(&field.value))),
            name::SPAN_ID | name::TRACE_ID | name::PARENT_ID => {}
            inner if name::INNER.contains(&inner) => {}
            _ => tags.push(tag(field, point)),
        }
    }
    tags
}

fn tag(field: &Field, record: &Record) -> Tag {
    Tag::new(&*field.name, value(&field.value, record.origin.is_otlp))
}

fn value(value: &Value, is_otlp: bool) -> TagValue {
    match *value {
        // Whole numbers of OTLP have 64 bits.
        Value::U32(bit @ (0 | 1)) if is_otlp => TagValue::Bool(bit == 1),
        Value::I32(number) => TagValue::Int(number.into()),
        Value::U32(number) => TagValue::Int(number.into()),
        Value::I64(number) => TagValue::Int(number),
        Value::U64(number) => {
            i64::try_from(number).map_or_else(|_| TagValue::Text(number.to_string()), TagValue::Int)
        }
        Value::Float(number) if number.is_finite() => TagValue::Float(number.into()),
        Value::Double(number) if number.is_finite() => TagValue::Float(number),
        ref other => TagValue::Text(text(other).into_owned()),
    }
}

/// What is known of who told of spans.
pub(super) fn process_tags(origin: &Origin) -> Vec<Tag> {
    let mut tags = vec![Tag::text("pcp.host", &*origin.host), Tag::text("pcp.metric", &*origin.metric)];
    if !origin.source.is_empty() {
        tags.push(Tag::text("pcp.source", &*origin.source));
    }
    for (key, value) in &origin.tags {
        if origin.is_otlp && key == "service.name" {
            continue;
        }
        let value = match value {
            Json::String(text) => TagValue::Text(text.clone()),
            Json::Bool(bit) => TagValue::Bool(*bit),
            Json::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(number), _) => TagValue::Int(number),
                (None, Some(number)) => TagValue::Float(number),
                (None, None) => TagValue::Text(number.to_string()),
            },
            other => TagValue::Text(other.to_string()),
        };
        tags.push(Tag::new(key.clone(), value));
    }
    tags
}

fn some(warnings: Vec<String>) -> Option<Vec<String>> {
    (!warnings.is_empty()).then_some(warnings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::records::spans::tests::shop;

    #[test]
    fn a_trace_is_told_as_jaeger_does() {
        let traces = spans::traces(shop());
        let shown = trace(&traces[1], None, &mut Budget::default());
        let json = serde_json::to_value(&shown).expect("JSON");
        assert_eq!(json["traceID"], "00aB");
        let charge = &json["spans"][2];
        assert_eq!(
            (&charge["operationName"], &charge["startTime"], &charge["duration"]),
            (&"charge".into(), &20_000.into(), &50_000.into())
        );
        assert_eq!(charge["references"][0]["refType"], "CHILD_OF");
        assert_eq!(
            (&charge["references"][0]["traceID"], &charge["references"][0]["spanID"]),
            (&"00aB".into(), &"b".into())
        );
        let tags = charge["tags"].as_array().expect("a list");
        let tag = |key: &str| tags.iter().find(|tag| tag["key"] == key).map(|tag| tag["value"].clone());
        assert_eq!(tag("error"), Some(true.into()));
        assert_eq!(tag("otel.status_code"), Some("ERROR".into()));
        assert_eq!(tag("otel.status_description"), Some("card 4711 refused".into()));
        assert_eq!(charge["logs"][0]["fields"][0]["value"], "try");
        let process = &json["processes"][charge["processID"].as_str().expect("a name")];
        assert_eq!(
            (&process["serviceName"], &process["tags"][0]["value"]),
            (&"payment".into(), &"h2".into())
        );
        assert_eq!((&json["warnings"], &charge["warnings"]), (&Json::Null, &Json::Null));
        let open =
            serde_json::to_value(trace(&traces[0], Some("too much"), &mut Budget::default())).expect("JSON");
        assert_eq!(open["warnings"][0], "incomplete: too much");
        assert_eq!(open["spans"][0]["warnings"][0], "unfinished: there is no record of its end");
    }

    #[test]
    fn answers_are_bounded() {
        let traces = spans::traces(shop());
        let mut budget = Budget { bytes: 0, spans: MAX_SPANS - 1 };
        let shown = trace(&traces[1], None, &mut budget);
        assert_eq!(
            (shown.spans.len(), shown.warnings),
            (1, Some(vec!["2 of 3 spans are left out".to_owned()]))
        );
        assert!(budget.is_over());
    }

    #[test]
    fn values_keep_their_types() {
        assert_eq!(value(&Value::U32(1), true), TagValue::Bool(true));
        assert_eq!(value(&Value::U32(1), false), TagValue::Int(1));
        assert_eq!(value(&Value::U64(u64::MAX), false), TagValue::Text("18446744073709551615".to_owned()));
        assert_eq!(value(&Value::Double(f64::NAN), false), TagValue::Text("NaN".to_owned()));
        assert!(
            TagValue::Int(500).is("500") && TagValue::Bool(true).is("true") && !TagValue::Int(5).is("05")
        );
    }
}
