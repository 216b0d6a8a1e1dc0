//! What Jaeger's query service answers, as JSON.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Serialize;
use std::collections::BTreeMap;

use crate::server::answer::json;
use crate::server::pool::NotDone;

/// Around all answers.
#[derive(Serialize)]
pub(super) struct Envelope<T: Serialize> {
    data: Option<Vec<T>>,
    total: usize,
    limit: usize,
    offset: usize,
    errors: Option<[Error; 1]>,
}

#[derive(Serialize)]
struct Error {
    code: u16,
    msg: String,
}

/// An operation of a service.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Operation {
    pub name: String,
    pub span_kind: String,
}

/// Calls from one service to another.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Dependency {
    pub parent: String,
    pub child: String,
    pub call_count: u64,
}

/// A trace.
#[derive(Serialize)]
pub(super) struct Trace {
    #[serde(rename = "traceID")]
    pub trace_id: String,
    pub spans: Vec<Span>,
    /// By the names that spans have for them.
    pub processes: BTreeMap<String, Process>,
    pub warnings: Option<Vec<String>>,
}

/// A span. Times are microseconds.
#[derive(Serialize)]
pub(super) struct Span {
    #[serde(rename = "traceID")]
    pub trace_id: String,
    #[serde(rename = "spanID")]
    pub span_id: String,
    pub flags: u32,
    #[serde(rename = "operationName")]
    pub operation_name: String,
    pub references: Vec<Reference>,
    #[serde(rename = "startTime")]
    pub start_time: i64,
    pub duration: i64,
    pub tags: Vec<Tag>,
    pub logs: Vec<Log>,
    #[serde(rename = "processID")]
    pub process_id: String,
    pub warnings: Option<Vec<String>>,
}

/// A span that another one belongs to.
#[derive(Serialize)]
pub(super) struct Reference {
    #[serde(rename = "refType")]
    pub ref_type: &'static str,
    #[serde(rename = "traceID")]
    pub trace_id: String,
    #[serde(rename = "spanID")]
    pub span_id: String,
}

/// What happened within a span.
#[derive(Serialize)]
pub(super) struct Log {
    pub timestamp: i64,
    pub fields: Vec<Tag>,
}

/// Who told of spans.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Process {
    pub service_name: String,
    pub tags: Vec<Tag>,
}

/// A value with a name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Tag {
    pub key: String,
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub value: TagValue,
}

/// The value of a tag.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum TagValue {
    Text(String),
    Bool(bool),
    Int(i64),
    Float(f64),
}

impl Tag {
    pub(super) fn new(key: impl Into<String>, value: TagValue) -> Tag {
        let kind = match value {
            TagValue::Text(_) => "string",
            TagValue::Bool(_) => "bool",
            TagValue::Int(_) => "int64",
            TagValue::Float(_) => "float64",
        };
        Tag { key: key.into(), kind, value }
    }

    pub(super) fn text(key: impl Into<String>, value: impl Into<String>) -> Tag {
        Tag::new(key, TagValue::Text(value.into()))
    }

    /// About so many bytes of an answer.
    pub(super) fn len(&self) -> usize {
        let value = if let TagValue::Text(text) = &self.value { text.len() } else { 20 };
        40 + self.key.len() + value
    }
}

impl TagValue {
    /// Whether it is this, as text.
    pub(super) fn is(&self, text: &str) -> bool {
        match self {
            TagValue::Text(own) => own == text,
            TagValue::Bool(own) => (if *own { "true" } else { "false" }) == text,
            TagValue::Int(own) => own.to_string() == text,
            TagValue::Float(own) => {
                own.to_string() == text || text.parse::<f64>().is_ok_and(|number| number == *own)
            }
        }
    }
}

impl<T: Serialize> Envelope<T> {
    /// Around data.
    pub(super) fn of(data: Vec<T>) -> Envelope<T> {
        Envelope { total: data.len(), data: Some(data), limit: 0, offset: 0, errors: None }
    }
}

impl<T: Serialize> IntoResponse for Envelope<T> {
    fn into_response(self) -> Response {
        json(StatusCode::OK, &self)
    }
}

/// Why a query is not answered.
#[derive(Debug)]
pub(super) struct Wrong {
    pub status: StatusCode,
    pub message: String,
}

impl Wrong {
    pub(super) fn bad(message: impl Into<String>) -> Wrong {
        Wrong { status: StatusCode::BAD_REQUEST, message: message.into() }
    }

    pub(super) fn not_found(message: impl Into<String>) -> Wrong {
        Wrong { status: StatusCode::NOT_FOUND, message: message.into() }
    }
}

impl From<NotDone> for Wrong {
    fn from(not: NotDone) -> Wrong {
        Wrong { status: not.status(), message: not.to_string() }
    }
}

impl IntoResponse for Wrong {
    fn into_response(self) -> Response {
        let errors = Some([Error { code: self.status.as_u16(), msg: self.message }]);
        json(self.status, &Envelope::<()> { data: None, total: 0, limit: 0, offset: 0, errors })
    }
}
