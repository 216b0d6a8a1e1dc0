//! `/page/spans?source&start&finish&service&name`: how long spans take: a table of names, a heat map over time, quantiles, examples;
//! and which services call which.
//! `/page/flame?source&start&finish&service`: the time of spans by path.

use std::collections::{BTreeMap, HashMap};

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;

use super::Refused;
use super::flame::{Frame, flame};
use super::look::{Look, cut, secs, text};
use crate::server::answer::json;
use crate::server::query::Query;
use crate::server::records::Turn;
use crate::server::records::spans::{self, Span};
use crate::server::web::Shared;

/// Columns of the heat map, and rows a doubling of the duration.
const COLUMNS: usize = 80;
const ROWS: f64 = 2.0;
/// The shortest duration that has a row of its own, nanoseconds, and the most rows: up to some days.
const SHORTEST: f64 = 1_000.0;
const MAX_ROWS: usize = 100;
/// Most names of spans, services and calls.
const MAX_NAMES: usize = 500;

#[derive(Serialize)]
struct Spans {
    start: f64,
    finish: f64,
    total: usize,
    names: Vec<Name>,
    heat: Heat,
    services: Vec<Service>,
    calls: Vec<Call>,
    problems: Vec<String>,
}

/// What is to be said of many spans.
#[derive(Clone, Debug, Default, Serialize)]
struct Stats {
    count: usize,
    errors: usize,
    /// A second.
    rate: f64,
    p50: f64,
    p95: f64,
    p99: f64,
    max: f64,
}

#[derive(Serialize)]
struct Name {
    service: String,
    name: String,
    #[serde(flatten)]
    stats: Stats,
}

#[derive(Serialize)]
struct Service {
    service: String,
    #[serde(flatten)]
    stats: Stats,
}

#[derive(Serialize)]
struct Call {
    from: String,
    to: String,
    #[serde(flatten)]
    stats: Stats,
}

/// Spans by when they ended, and how long they took.
#[derive(Serialize)]
struct Heat {
    /// Seconds: of a column, and below which a row's durations are, the shortest first.
    step: f64,
    rows: Vec<f64>,
    cells: Vec<Cell>,
    /// Of each column; nothing where there are no spans.
    p50: Vec<Option<f64>>,
    p95: Vec<Option<f64>>,
    p99: Vec<Option<f64>>,
}

#[derive(Serialize)]
struct Cell {
    column: usize,
    row: usize,
    count: usize,
    errors: usize,
    /// A trace with a span in it: the longest, one that failed before others.
    trace: String,
    at: f64,
}

/// What was asked for.
struct Question {
    look: Look,
    service: Option<String>,
    name: Option<String>,
}

impl Question {
    fn of(web: &Shared, query: &Query) -> Result<Question, Refused> {
        Ok(Question {
            look: Look::of(web, query)?,
            service: text(query, "service")?,
            name: text(query, "name")?,
        })
    }

    fn is_wanted(&self, span: &Span) -> bool {
        self.service.as_ref().is_none_or(|service| **service == *span.origin.service)
            && self.name.as_ref().is_none_or(|name| *name == span.name)
    }
}

pub(super) async fn spans(State(web): State<Shared>, query: Query) -> Result<Response, Refused> {
    let question = Question::of(&web, &query)?;
    let spans = web.records.ask(&web.pool, move |turn| find(turn, &question)).await?;
    Ok(json(StatusCode::OK, &spans))
}

#[derive(Serialize)]
struct Flames {
    start: f64,
    finish: f64,
    traces: usize,
    root: Frame,
    problems: Vec<String>,
}

pub(super) async fn flames(State(web): State<Shared>, query: Query) -> Result<Response, Refused> {
    let question = Question::of(&web, &query)?;
    let flames = web.records.ask(&web.pool, move |turn| burn(turn, &question)).await?;
    Ok(json(StatusCode::OK, &flames))
}

fn burn(turn: &Turn<'_>, question: &Question) -> Flames {
    let window = question.look.window();
    let found = turn.spans(window, &[]);
    let mut traces = spans::traces(found.spans);
    traces.retain(|trace| {
        window.has(trace.start())
            && trace.spans.iter().any(|span| question.look.is(&span.origin.host))
            && trace.spans.iter().any(|span| question.is_wanted(span))
    });
    Flames {
        start: question.look.start,
        finish: question.look.finish,
        traces: traces.len(),
        root: flame(&traces),
        problems: cut(&found.walked),
    }
}

fn find(turn: &Turn<'_>, question: &Question) -> Spans {
    let look = &question.look;
    let window = look.window();
    let found = turn.spans(window, &[]);
    let parents = spans::parents(&found.spans);
    let seconds = look.finish - look.start;
    let mut by_name: BTreeMap<(&str, &str), Durations> = BTreeMap::new();
    let mut by_service: BTreeMap<&str, Durations> = BTreeMap::new();
    let mut by_call: BTreeMap<(&str, &str), Durations> = BTreeMap::new();
    let mut wanted: Vec<&Span> = Vec::new();
    for (span, parent) in found.spans.iter().zip(parents) {
        // What has not ended has taken nobody knows how long.
        let Some(end) = span.end.filter(|&end| window.has(end)) else { continue };
        debug_assert!(window.has(end));
        let service = &*span.origin.service;
        by_service.entry(service).or_default().push(span);
        if let Some(parent) = parent {
            let caller = &*found.spans[parent].origin.service;
            if caller != service {
                by_call.entry((caller, service)).or_default().push(span);
            }
        }
        if !look.is(&span.origin.host) {
            continue;
        }
        by_name.entry((service, &span.name)).or_default().push(span);
        if question.is_wanted(span) {
            wanted.push(span);
        }
    }
    let mut names: Vec<Name> = by_name
        .into_iter()
        .map(|((service, name), durations)| Name {
            service: service.to_owned(),
            name: name.to_owned(),
            stats: durations.stats(seconds),
        })
        .collect();
    names.sort_by_key(|name| std::cmp::Reverse(name.stats.count));
    names.truncate(MAX_NAMES);
    let services = by_service
        .into_iter()
        .map(|(service, durations)| Service { service: service.to_owned(), stats: durations.stats(seconds) });
    let calls = by_call.into_iter().map(|((from, to), durations)| Call {
        from: from.to_owned(),
        to: to.to_owned(),
        stats: durations.stats(seconds),
    });
    Spans {
        start: look.start,
        finish: look.finish,
        total: wanted.len(),
        names,
        services: services.take(MAX_NAMES).collect(),
        calls: calls.take(MAX_NAMES).collect(),
        heat: heat(&wanted, look),
        problems: cut(&found.walked),
    }
}

/// How long some spans took, and how many failed.
#[derive(Default)]
struct Durations {
    nanos: Vec<i64>,
    errors: usize,
}

impl Durations {
    fn push(&mut self, span: &Span) {
        self.nanos.push(span.duration());
        self.errors += usize::from(span.failed);
    }

    fn stats(mut self, seconds: f64) -> Stats {
        self.nanos.sort_unstable();
        let quantile = |share: f64| secs(quantile(&self.nanos, share).unwrap_or_default());
        Stats {
            count: self.nanos.len(),
            errors: self.errors,
            rate: self.nanos.len() as f64 / seconds,
            p50: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
            max: quantile(1.0),
        }
    }
}

/// The smallest value that this share of the sorted values does not exceed.
fn quantile(sorted: &[i64], share: f64) -> Option<i64> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

fn heat(spans: &[&Span], look: &Look) -> Heat {
    let step = (look.finish - look.start) / COLUMNS as f64;
    let row_of = |span: &Span| {
        let doublings = (span.duration() as f64 / SHORTEST).max(1.0).log2();
        ((doublings * ROWS) as usize).min(MAX_ROWS - 1)
    };
    let first = spans.iter().map(|span| row_of(span)).min().unwrap_or(0);
    let last = spans.iter().map(|span| row_of(span)).max().unwrap_or(0);
    let mut columns: Vec<Vec<i64>> = vec![Vec::new(); COLUMNS];
    // By cell: the count, failures, and the span that stands for it.
    let mut cells: HashMap<(usize, usize), (usize, usize, &Span)> = HashMap::new();
    for &span in spans {
        let end = secs(span.end.unwrap_or(span.start));
        let column = (((end - look.start) / step) as usize).min(COLUMNS - 1);
        columns[column].push(span.duration());
        let cell = cells.entry((column, row_of(span) - first)).or_insert((0, 0, span));
        cell.0 += 1;
        cell.1 += usize::from(span.failed);
        if (span.failed, span.duration()) > (cell.2.failed, cell.2.duration()) {
            cell.2 = span;
        }
    }
    let mut cells: Vec<Cell> = cells
        .into_iter()
        .map(|((column, row), (count, errors, span))| Cell {
            column,
            row,
            count,
            errors,
            trace: span.trace.clone(),
            at: secs(span.start),
        })
        .collect();
    cells.sort_by_key(|cell| (cell.column, cell.row));
    columns.iter_mut().for_each(|column| column.sort_unstable());
    let quantiles =
        |share: f64| columns.iter().map(|column| quantile(column, share).map(secs)).collect::<Vec<_>>();
    Heat {
        step,
        rows: (first..=last).map(|row| SHORTEST * 1e-9 * 2f64.powf((row + 1) as f64 / ROWS)).collect(),
        cells,
        p50: quantiles(0.5),
        p95: quantiles(0.95),
        p99: quantiles(0.99),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_there_are() {
        let hundred: Vec<i64> = (1..=100).collect();
        assert_eq!(
            [0.5, 0.95, 0.99, 1.0].map(|share| quantile(&hundred, share)),
            [50, 95, 99, 100].map(Some)
        );
        assert_eq!(quantile(&[7], 0.5), Some(7));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
