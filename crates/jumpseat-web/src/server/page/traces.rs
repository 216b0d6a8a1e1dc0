//! `/page/traces?source&start&finish&service&name&text&min&max&failed&sort&limit`: traces with a span that is searched for.
//! `/page/trace?id&at`: one with all its spans, in the order of a waterfall; `at` is about when it was, seconds since the epoch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use serde_json::Value as Json;

use super::Refused;
use super::critical::{self, Extent};
use super::events::fields;
use super::look::{Look, cut, duration, nanos, secs, text, whole};
use crate::server::answer::json;
use crate::server::query::Query;
use crate::server::records::Turn;
use crate::server::records::record::{Record, name};
use crate::server::records::spans::{self, Span, Trace, same};
use crate::server::records::walk::Window;
use crate::server::web::Shared;

/// Most traces of a list, and how many there are if nobody says.
const MAX_TRACES: usize = 1_000;
const TRACES: usize = 100;
/// Most spans of a trace that are shown, and most of what happened within one.
const MAX_SPANS: usize = 5_000;
const MAX_POINTS: usize = 100;
/// Where a trace is looked for whose time nobody knows: so long ago, the next if it is not there.
const HOUR: i64 = 3_600_000_000_000;
const PASTS: [i64; 3] = [HOUR, 24 * HOUR, i64::MAX];
/// How far around its time.
const AROUND: f64 = 600.0;

#[derive(Serialize)]
struct Traces {
    start: f64,
    finish: f64,
    traces: Vec<Summary>,
    /// How many were found.
    total: usize,
    /// Services, and the names of their spans, to choose from.
    services: BTreeMap<String, BTreeSet<String>>,
    problems: Vec<String>,
}

/// A trace in a line.
#[derive(Serialize)]
struct Summary {
    id: String,
    start: f64,
    duration: f64,
    /// Of the topmost span.
    service: String,
    name: String,
    spans: usize,
    errors: usize,
    /// Spans of each service.
    services: BTreeMap<String, usize>,
    /// Whether all its spans have ended.
    complete: bool,
}

/// What a span has to be.
struct Search {
    look: Look,
    service: Option<String>,
    name: Option<String>,
    text: Option<String>,
    least: Option<i64>,
    most: Option<i64>,
    failed: bool,
    slowest: bool,
    limit: usize,
}

pub(super) async fn traces(State(web): State<Shared>, query: Query) -> Result<Response, Refused> {
    let search = Search {
        look: Look::of(&web, &query)?,
        service: text(&query, "service")?,
        name: text(&query, "name")?,
        text: text(&query, "text")?.map(|text| text.to_lowercase()),
        least: duration(&query, "min")?,
        most: duration(&query, "max")?,
        failed: query.get("failed").is_some_and(|flag| !flag.is_empty()),
        slowest: query.get("sort") == Some("slowest"),
        limit: whole(&query, "limit")?.unwrap_or(TRACES).min(MAX_TRACES),
    };
    let traces = web.records.ask(&web.pool, move |turn| list(turn, &search)).await?;
    Ok(json(StatusCode::OK, &traces))
}

fn list(turn: &Turn<'_>, search: &Search) -> Traces {
    let window = search.look.window();
    let found = turn.spans(window, &[]);
    let mut services: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for span in &found.spans {
        services.entry(span.origin.service.to_string()).or_default().insert(span.name.clone());
    }
    let mut traces = spans::traces(found.spans);
    traces.retain(|trace| {
        trace.spans.iter().any(|span| search.look.is(&span.origin.host))
            && window.has(trace.start())
            && trace.spans.iter().any(|span| is_wanted(span, search))
    });
    let mut summaries: Vec<Summary> = traces.iter().map(summary).collect();
    // Of the whole trace, as the list shows it.
    summaries.retain(|trace| {
        search.least.is_none_or(|least| trace.duration >= secs(least))
            && search.most.is_none_or(|most| trace.duration <= secs(most))
    });
    if search.slowest {
        summaries.sort_by(|one, other| other.duration.total_cmp(&one.duration));
    }
    let total = summaries.len();
    summaries.truncate(search.limit);
    Traces {
        start: search.look.start,
        finish: search.look.finish,
        traces: summaries,
        total,
        services,
        problems: cut(&found.walked),
    }
}

fn is_wanted(span: &Span, search: &Search) -> bool {
    let has_text = |text: &String| {
        let found = |other: &str| other.to_lowercase().contains(text.as_str());
        let of_record = |record: &Arc<Record>| {
            record.fields.iter().any(|field| found(&crate::server::records::record::text(&field.value)))
        };
        found(&span.name) || found(&span.origin.service) || span.records().chain(&span.points).any(of_record)
    };
    search.service.as_ref().is_none_or(|service| **service == *span.origin.service)
        && search.name.as_ref().is_none_or(|name| *name == span.name)
        && (!search.failed || span.failed)
        && search.text.as_ref().is_none_or(has_text)
}

/// When a trace ends, as far as is known.
fn end(trace: &Trace) -> i64 {
    let ends = trace.spans.iter().map(|span| span.end.unwrap_or(span.start).max(span.start));
    ends.max().unwrap_or_else(|| trace.start())
}

fn summary(trace: &Trace) -> Summary {
    let parents = spans::parents(&trace.spans);
    // The topmost that began first; of a circle the first.
    let top = trace.spans.iter().zip(&parents).find(|(_, parent)| parent.is_none()).map(|(span, _)| span);
    let top = top.or(trace.spans.first());
    let mut services: BTreeMap<String, usize> = BTreeMap::new();
    for span in &trace.spans {
        *services.entry(span.origin.service.to_string()).or_default() += 1;
    }
    Summary {
        id: trace.id.clone(),
        start: secs(trace.start()),
        duration: secs(end(trace).saturating_sub(trace.start())),
        service: top.map_or_else(String::new, |span| span.origin.service.to_string()),
        name: top.map_or_else(String::new, |span| span.name.clone()),
        spans: trace.spans.len(),
        errors: trace.spans.iter().filter(|span| span.failed).count(),
        services,
        complete: trace.spans.iter().all(|span| span.end.is_some()),
    }
}

#[derive(Serialize)]
struct Whole {
    id: String,
    start: f64,
    duration: f64,
    /// In the order of a waterfall.
    spans: Vec<Row>,
    left_out: usize,
    problems: Vec<String>,
}

/// A span of a waterfall. Times are seconds since the trace's start.
#[derive(Serialize)]
struct Row {
    id: String,
    /// How far below the topmost.
    depth: usize,
    service: String,
    host: String,
    source: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    start: f64,
    duration: f64,
    /// What no child of it took.
    own: f64,
    failed: bool,
    ended: bool,
    children: usize,
    /// Parts of it that the whole trace has waited for: from and to.
    critical: Vec<[f64; 2]>,
    fields: Vec<(String, Json)>,
    points: Vec<Point>,
    /// Why it may not be as it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// What happened within a span.
#[derive(Serialize)]
struct Point {
    at: f64,
    failed: bool,
    fields: Vec<(String, Json)>,
}

pub(super) async fn trace(State(web): State<Shared>, query: Query) -> Result<Response, Refused> {
    let id = text(&query, "id")?.map(|id| same(&id)).filter(|id| !id.is_empty());
    let id = id.ok_or_else(|| Refused::bad("id: expected the id of a trace"))?;
    let at = query.get("at").and_then(|at| at.parse().ok()).filter(|at: &f64| at.is_finite() && *at > 0.0);
    let found = web.records.ask(&web.pool, move |turn| whole_trace(turn, &id, at)).await?;
    let found = found.ok_or_else(|| Refused {
        status: StatusCode::NOT_FOUND,
        error: "there are no records of this trace (any more)".to_owned(),
    })?;
    Ok(json(StatusCode::OK, &found))
}

fn whole_trace(turn: &Turn<'_>, id: &str, at: Option<f64>) -> Option<Whole> {
    let now =
        i64::try_from(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?.as_nanos()).ok()?;
    let near = at.map(|at| Window { from: nanos(at - AROUND), to: nanos(at + AROUND) });
    let past = PASTS.iter().map(|back| Window { from: now.saturating_sub(*back), to: i64::MAX });
    for window in near.into_iter().chain(past) {
        if turn.is_over() {
            break;
        }
        let found = turn.spans(window, &[id.to_owned()]);
        if let Some(trace) = spans::traces(found.spans).into_iter().next() {
            return Some(waterfall(&trace, cut(&found.walked)));
        }
    }
    None
}

fn waterfall(trace: &Trace, problems: Vec<String>) -> Whole {
    let begin = trace.start();
    let extents: Vec<Extent> = trace
        .spans
        .iter()
        .zip(spans::parents(&trace.spans))
        .map(|(span, parent)| Extent {
            start: span.start,
            end: span.end.unwrap_or(span.start).max(span.start),
            parent,
        })
        .collect();
    let order = critical::order(&extents);
    let found = critical::path(&extents);
    let since = |time: i64| secs(time.saturating_sub(begin));
    let row = |&(at, depth): &(usize, usize)| {
        let span = &trace.spans[at];
        let mut of_span: Vec<(String, Json)> = Vec::new();
        for record in span.records() {
            of_span.extend(
                fields(record).into_iter().filter(|field| !of_span.contains(field)).collect::<Vec<_>>(),
            );
        }
        let note = match (&span.begun, span.end) {
            (_, None) => Some("there is no record of its end".to_owned()),
            (None, Some(end)) if end == span.start => Some("there is no record of its start".to_owned()),
            _ => None,
        };
        let lost = (span.missed > 0).then(|| format!("{} records of its source were missed", span.missed));
        Row {
            id: span.id.clone(),
            depth,
            service: span.origin.service.to_string(),
            host: span.origin.host.to_string(),
            source: span.origin.source.to_string(),
            name: span.name.clone(),
            kind: span.records().find_map(|record| record.text(name::KIND)).map(Into::into),
            start: since(span.start),
            duration: secs(span.duration()),
            own: secs(critical::own(&extents, at)),
            failed: span.failed,
            ended: span.end.is_some(),
            children: extents.iter().filter(|extent| extent.parent == Some(at)).count(),
            critical: found[at].iter().map(|&(from, to)| [since(from), since(to)]).collect(),
            fields: of_span,
            points: span
                .points
                .iter()
                .take(MAX_POINTS)
                .map(|point| Point {
                    at: since(point.time),
                    failed: point.is_failure(),
                    fields: fields(point),
                })
                .collect(),
            note: note.into_iter().chain(lost).reduce(|one, other| format!("{one}; {other}")),
        }
    };
    Whole {
        id: trace.id.clone(),
        start: secs(begin),
        duration: secs(end(trace).saturating_sub(begin)),
        spans: order.iter().take(MAX_SPANS).map(row).collect(),
        left_out: order.len().saturating_sub(MAX_SPANS),
        problems,
    }
}
