//! What Loki answers: JSON, and errors as plain text.

use std::collections::BTreeMap;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::{Serialize, Serializer};
use serde_json::Number;

use super::line::Labels;
use super::logql::ParseError;
use super::metric::{Series, Steps};
use super::pipeline::Entry;
use crate::server::answer::json;
use crate::server::pool::NotDone;
use crate::server::records::walk::Walked;

/// What begins the list of what a client takes beyond the plain form, and what it says if it takes labels by their kind.
pub(super) const FLAGS: &str = "x-loki-response-encoding-flags";
pub(super) const CATEGORIZED: &str = "categorize-labels";

/// Around all answers.
#[derive(Serialize)]
pub(super) struct Success<T: Serialize> {
    status: &'static str,
    data: T,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// The result of a query.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Data<R: Serialize> {
    result_type: &'static str,
    result: R,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    encoding_flags: &'static [&'static str],
    stats: Stats,
}

#[derive(Serialize)]
struct Stats {
    summary: Summary,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    total_bytes_processed: u64,
    total_lines_processed: u64,
}

/// Lines with the same labels.
#[derive(Serialize)]
pub(super) struct Stream {
    stream: Labels,
    values: Vec<Line>,
}

/// A line: time in nanoseconds, text, and what else belongs to it.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Line {
    Plain((String, String)),
    Categorized((String, String, Categories)),
}

/// Labels of a line that are not those of its stream.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Categories {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    structured_metadata: Labels,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    parsed: Labels,
}

/// A series with its values.
#[derive(Serialize)]
pub(super) struct Row {
    metric: Labels,
    values: Points,
}

/// The values of a series, which are made text one after the other as they are written.
struct Points {
    values: Vec<Option<f64>>,
    steps: Steps,
}

impl Serialize for Points {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let points = self.values.iter().enumerate();
        serializer.collect_seq(
            points.filter_map(|(at, value)| Some((seconds(self.steps.at(at)), shown((*value)?)))),
        )
    }
}

/// A series with one value.
#[derive(Serialize)]
pub(super) struct Single {
    metric: Labels,
    value: Point,
}

/// Seconds, and a number as text.
type Point = (Number, String);

/// Around data.
pub(super) fn success(data: impl Serialize, walked: &Walked) -> Response {
    let cut = walked.cut.map(|cut| format!("incomplete: {cut}"));
    let warnings = cut.into_iter().chain(walked.problems.iter().cloned()).collect();
    json(StatusCode::OK, &Success { status: "success", data, warnings })
}

/// A result with what was looked at for it.
pub(super) fn data<R: Serialize>(
    result_type: &'static str,
    result: R,
    walked: &Walked,
    categorized: bool,
) -> Data<R> {
    let summary = Summary { total_bytes_processed: walked.bytes, total_lines_processed: walked.looked };
    let encoding_flags: &[&str] = if categorized { &[CATEGORIZED] } else { &[] };
    Data { result_type, result, encoding_flags, stats: Stats { summary } }
}

/// Lines by their labels, each stream in the order of its lines.
#[derive(Default)]
pub(super) struct Streams {
    streams: BTreeMap<Labels, Vec<Line>>,
    categorized: bool,
}

impl Streams {
    pub(super) fn new(categorized: bool) -> Streams {
        Streams { streams: BTreeMap::new(), categorized }
    }

    pub(super) fn push(&mut self, time: i64, entry: &Entry<'_>) {
        let (time, text) = (time.to_string(), entry.line().to_owned());
        let (labels, line) = match self.categorized {
            true => {
                let categories = Categories { structured_metadata: entry.metadata(), parsed: entry.parsed() };
                (entry.stream(), Line::Categorized((time, text, categories)))
            }
            false => (entry.labels(), Line::Plain((time, text))),
        };
        self.streams.entry(labels).or_default().push(line);
    }

    pub(super) fn done(self) -> Vec<Stream> {
        self.streams.into_iter().map(|(stream, values)| Stream { stream, values }).collect()
    }
}

/// Series with their values at each step.
pub(super) fn matrix(series: Vec<Series>, steps: Steps) -> Vec<Row> {
    let row = |series: Series| {
        let has_any = series.values.iter().any(Option::is_some);
        has_any.then_some(Row { metric: series.labels, values: Points { values: series.values, steps } })
    };
    series.into_iter().filter_map(row).collect()
}

/// Series with their first value.
pub(super) fn vector(series: Vec<Series>, time: i64) -> Vec<Single> {
    let single = |series: Series| {
        let value = series.values.first().copied().flatten()?;
        Some(Single { metric: series.labels, value: (seconds(time), shown(value)) })
    };
    series.into_iter().filter_map(single).collect()
}

/// A number at a time.
pub(super) fn scalar(number: f64, time: i64) -> Point {
    (seconds(time), shown(number))
}

fn seconds(nanos: i64) -> Number {
    if nanos % 1_000_000_000 == 0 {
        return (nanos / 1_000_000_000).into();
    }
    Number::from_f64((nanos / 1_000_000) as f64 / 1e3).unwrap_or_else(|| 0.into())
}

fn shown(value: f64) -> String {
    match value {
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        value => value.to_string(),
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
}

impl From<ParseError> for Wrong {
    fn from(error: ParseError) -> Wrong {
        Wrong::bad(error.to_string())
    }
}

impl From<NotDone> for Wrong {
    fn from(not: NotDone) -> Wrong {
        let status = match not {
            // As Loki says it.
            NotDone::Busy => StatusCode::TOO_MANY_REQUESTS,
            not => not.status(),
        };
        Wrong { status, message: not.to_string() }
    }
}

impl IntoResponse for Wrong {
    fn into_response(self) -> Response {
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        (self.status, [(header::CONTENT_TYPE, plain)], self.message + "\n").into_response()
    }
}
