//! Event records as lines with labels.
//!
//! ```text
//! line  := head [" " name "=" value]...
//! head  := ("start" | "end") " " type [": " message] | message | type
//! value := as it is, or in quotes with \" \\ \n \r \t
//! ```
//!
//! The fields follow in their order, identifiers first; `type`, `message` and `severity` are in the head and in the labels, and what OTLP
//! has besides (`otel.flags` and the like) is left out. A record that stands for lost ones is `7 records missed missed=7`. What a line
//! looks like is a promise: people search in it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use jumpseat_wire::severity::{Severity, WORDS};
use pcp_event::EventFlags;

use crate::server::records::record::{Record, name, text};

/// The labels of lines, as far as a record has them.
pub(super) const LABELS: [&str; 6] = ["host", "level", "metric", "severity", "source", "type"];
/// What belongs to a line and does not make it another stream: Loki's structured metadata.
pub(super) const METADATA: [&str; 2] = ["trace_id", "span_id"];
/// The type of records that stand for lost ones.
const MISSED: &str = "missed";

/// Labels with their values.
pub(super) type Labels = BTreeMap<String, String>;

/// The value of one of [`LABELS`].
pub(super) fn label<'a>(record: &'a Record, label: &str) -> Option<Cow<'a, str>> {
    let value = match label {
        "host" => Cow::Borrowed(&*record.origin.host),
        "metric" => Cow::Borrowed(&*record.origin.metric),
        "source" => Cow::Borrowed(&*record.origin.source),
        "type" if record.missed.is_some() => Cow::Borrowed(MISSED),
        "type" => record.kind()?,
        "level" => Cow::Borrowed(level(record)),
        "severity" => Cow::Borrowed(word(record.severity()?)),
        _ => return None,
    };
    (!value.is_empty()).then_some(value)
}

/// The value of one of [`METADATA`].
pub(super) fn metadata<'a>(record: &'a Record, label: &str) -> Option<Cow<'a, str>> {
    match label {
        "trace_id" => record.trace_id(),
        "span_id" => record.span_id(),
        _ => None,
    }
}

/// All labels of a record's stream.
pub(super) fn labels(record: &Record) -> Labels {
    LABELS.iter().filter_map(|&name| Some((name.to_owned(), label(record, name)?.into_owned()))).collect()
}

/// The severity in the words that Grafana has colours for.
fn level(record: &Record) -> &'static str {
    match record.severity() {
        Some(Severity::Emergency | Severity::Alert | Severity::Critical) => "critical",
        Some(Severity::Error) => "error",
        Some(Severity::Warning) => "warning",
        Some(Severity::Notice | Severity::Info) => "info",
        Some(Severity::Debug) => "debug",
        Some(Severity::Trace) => "trace",
        None if record.missed.is_some() => "warning",
        None if record.is_failure() => "error",
        None => "unknown",
    }
}

fn word(severity: Severity) -> &'static str {
    // The words are in the order of the severities, the gravest first.
    WORDS
        .iter()
        .find(|word| Severity::from_word(word.as_bytes()) == Some(severity))
        .copied()
        .unwrap_or_default()
}

/// The line of a record.
pub(super) fn line(record: &Record) -> String {
    if let Some(missed) = record.missed {
        return format!("{missed} records missed missed={missed}");
    }
    let mut line = String::new();
    let phase = match record.flags {
        flags if flags.contains(EventFlags::START) => Some("start"),
        flags if flags.contains(EventFlags::END) => Some("end"),
        _ => None,
    };
    let (kind, message) = (record.kind(), record.text(name::MESSAGE));
    if let Some(phase) = phase {
        line.push_str(phase);
        if let Some(kind) = &kind {
            let _ = write!(line, " {kind}");
        }
        if let Some(message) = &message {
            let _ = write!(line, ": {message}");
        }
    } else if let Some(text) = message.or(kind) {
        line.push_str(&text);
    }
    let ids = record.fields.len() - record.rest().len();
    let id_names = [name::SPAN_ID, name::PARENT_ID];
    for (at, field) in record.fields.iter().enumerate() {
        // What the flags say it is.
        let own = if at < ids { id_names.get(at).copied().unwrap_or_default() } else { &*field.name };
        if at >= ids
            && ([name::TYPE, name::MESSAGE, name::SEVERITY].contains(&own) || name::INNER.contains(&own))
        {
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(
            own.chars()
                .map(|c| if c.is_whitespace() || c.is_control() || c == '=' || c == '"' { '_' } else { c }),
        );
        line.push('=');
        value(&mut line, &text(&field.value));
    }
    line
}

fn value(line: &mut String, value: &str) {
    let is_plain = |c: char| !(c.is_whitespace() || c.is_control() || matches!(c, '"' | '=' | '\\'));
    if !value.is_empty() && value.chars().all(is_plain) {
        line.push_str(value);
        return;
    }
    line.push('"');
    for c in value.chars() {
        match c {
            '"' | '\\' => line.extend(['\\', c]),
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            c => line.push(c),
        }
    }
    line.push('"');
}

/// The fields of a record as labels, as `| json` and `| logfmt` give them; those that are called as a label of the stream end in
/// `_extracted`, as Loki has it.
pub(super) fn fields(record: &Record) -> Labels {
    let mut fields = Labels::new();
    let ids = record.fields.len() - record.rest().len();
    for (at, field) in record.fields.iter().enumerate() {
        let own = match at {
            0 if ids > 0 => name::SPAN_ID,
            1 if ids > 1 => name::PARENT_ID,
            _ => &*field.name,
        };
        if METADATA.contains(&own) {
            continue;
        }
        let mut label = label_name(own);
        if LABELS.contains(&&*label) {
            label.push_str("_extracted");
        }
        fields.entry(label).or_insert_with(|| text(&field.value).into_owned());
    }
    if let Some(missed) = record.missed {
        fields.insert(MISSED.to_owned(), missed.to_string());
    }
    fields
}

/// A name that labels may have.
fn label_name(name: &str) -> String {
    let mut label: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if !label.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        label.insert(0, '_');
    }
    label
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::server::records::record::tests::{origin, record};

    #[test]
    fn lines_are_as_they_are_promised() {
        let origin = origin("h", "app");
        let ids = EventFlags::ID | EventFlags::PARENT;
        for (flags, fields, expected) in [
            (
                EventFlags::POINT,
                &[("type", "login"), ("user", "ann"), ("message", "welcome back")][..],
                "welcome back user=ann",
            ),
            (EventFlags::POINT, &[("type", "login"), ("n", "7"), ("severity", "error")], "login n=7"),
            (
                EventFlags::POINT,
                &[("a b", "x y"), ("c", ""), ("d", "\"q\\\n"), ("otel.flags", "1")],
                r#"a_b="x y" c="" d="\"q\\\n""#,
            ),
            (
                EventFlags::START | ids,
                &[("span_id", "s"), ("parent_id", "p"), ("type", "GET /"), ("trace_id", "t")],
                "start GET / span_id=s parent_id=p trace_id=t",
            ),
            (
                EventFlags::END | EventFlags::ID,
                &[("x", "s"), ("message", "none left"), ("status", "error")],
                "end: none left span_id=s status=error",
            ),
            (EventFlags::POINT, &[], ""),
        ] {
            assert_eq!(line(&record(&origin, 0, flags, fields)), expected);
        }
        let lost = Record { missed: Some(7), ..Record::clone(&record(&origin, 0, EventFlags::MISSED, &[])) };
        assert_eq!(line(&lost), "7 records missed missed=7");
        assert_eq!(
            (label(&lost, "type").as_deref(), label(&lost, "level").as_deref()),
            (Some("missed"), Some("warning"))
        );
    }

    #[test]
    fn labels_and_fields() {
        let origin = origin("h", "app");
        let all = [
            ("type", "login"),
            ("severity", "WARN"),
            ("http.route", "/"),
            ("source", "x"),
            ("9", "y"),
            ("trace_id", "t"),
        ];
        let record: Arc<Record> = record(&origin, 0, EventFlags::POINT, &all);
        let shown = |labels: Labels| {
            labels.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            shown(labels(&record)),
            "host=h level=warning metric=jumpseat.event.highres_records severity=warning source=app type=login"
        );
        assert_eq!(
            shown(fields(&record)),
            "_9=y http_route=/ severity_extracted=WARN source_extracted=x type_extracted=login"
        );
        assert_eq!(metadata(&record, "trace_id").as_deref(), Some("t"));
    }
}
