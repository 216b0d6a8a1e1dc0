//! Traces as Jaeger's query service gives them (`/api/services`, `/api/traces` and so on), for Grafana's built-in data source and
//! Jaeger's own page: spans of event records, live and in archives, over all sources and hosts.
//!
//! * [`ask`]: parameters. [`form`]: what is answered. [`show`]: spans in that form.
//!
//! Services are what senders of OTLP call themselves, and other sources by their names. A search is for spans that began in its time;
//! the traces that they are of are given whole, as far as they are within a quarter of an hour of it.

mod ask;
mod form;
mod show;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::StatusCode;
use pcp_event::EventFlags;

use super::records::Turn;
use super::records::record::{Record, name};
use super::records::spans::{self, Span, Trace, same};
use super::records::walk::{Order, Visitor, Window};
use super::web::Shared;
use ask::{Search, Tags, now, params, window};
use form::{Envelope, Wrong};
use show::Budget;

/// Most records that are looked at for the names of services and operations.
const MAX_NAMED: u64 = 250_000;
/// Most operations of all services.
const MAX_OPERATIONS: usize = 20_000;
/// Where a trace is looked for, if nobody says when it was: so long ago, the next if it is not there.
const HOUR: i64 = 3_600_000_000_000;
const PASTS: [i64; 3] = [HOUR, 24 * HOUR, i64::MAX];

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/api/services", get(services))
        // Names of services may have slashes, which not all clients escape.
        .route("/api/services/{*rest}", get(operations_of))
        .route("/api/operations", get(operations))
        .route("/api/traces", get(search))
        .route("/api/traces/{id}", get(trace))
        .route("/api/dependencies", get(dependencies))
        .route("/api/metrics/{*rest}", get(no_metrics))
}

/// The handlers' answers.
type Answer = Result<Response, Wrong>;

async fn services(State(web): State<Shared>) -> Answer {
    let named = web.records.ask(&web.pool, named).await?;
    let services: Vec<String> = named.into_keys().collect();
    Ok(Envelope::of(services).into_response())
}

async fn operations_of(State(web): State<Shared>, rest: InPath) -> Answer {
    let rest = in_path(rest)?;
    let service =
        rest.strip_suffix("/operations").ok_or_else(|| Wrong::not_found("no such path"))?.to_owned();
    let named = web.records.ask(&web.pool, named).await?;
    let operations: BTreeSet<String> =
        named.get(&service).into_iter().flatten().map(|(operation, _)| operation.clone()).collect();
    Ok(Envelope::of(operations.into_iter().collect()).into_response())
}

async fn operations(State(web): State<Shared>, RawQuery(text): RawQuery) -> Answer {
    let query = params(text)?;
    let service = query.get("service").filter(|service| !service.is_empty());
    let service = service.ok_or_else(|| Wrong::bad("parameter 'service' is required"))?.to_owned();
    let kind = query.get("spanKind").unwrap_or_default().to_owned();
    let named = web.records.ask(&web.pool, named).await?;
    let operations = named
        .get(&service)
        .into_iter()
        .flatten()
        .filter(|(_, of)| kind.is_empty() || *of == kind)
        .map(|(name, kind)| form::Operation { name: name.clone(), span_kind: kind.clone() });
    Ok(Envelope::of(operations.collect()).into_response())
}

async fn search(State(web): State<Shared>, RawQuery(text): RawQuery) -> Answer {
    let query = params(text)?;
    let ids: Vec<String> = query.all("traceID").map(same).take(ask::MAX_TRACES).collect();
    if !ids.is_empty() {
        let window = window(&query)?;
        let traces = web.records.ask(&web.pool, move |turn| by_ids(turn, window, &ids)).await?;
        return Ok(Envelope::of(traces).into_response());
    }
    let search = Search::of(&query)?;
    let traces = web.records.ask(&web.pool, move |turn| found(turn, &search)).await?;
    Ok(Envelope::of(traces).into_response())
}

async fn trace(State(web): State<Shared>, id: InPath, RawQuery(text): RawQuery) -> Answer {
    let id = in_path(id)?;
    let query = params(text)?;
    let window = window(&query)?;
    let id = same(&id);
    if id.is_empty() {
        return Err(Wrong::bad("a trace's id is not zero"));
    }
    let traces = web.records.ask(&web.pool, move |turn| by_ids(turn, window, &[id])).await?;
    match traces.is_empty() {
        true => Err(Wrong::not_found("trace not found")),
        false => Ok(Envelope::of(traces).into_response()),
    }
}

async fn dependencies(State(web): State<Shared>, RawQuery(text): RawQuery) -> Answer {
    let query = params(text)?;
    let window = ask::dependencies(&query)?;
    let calls = web.records.ask(&web.pool, move |turn| calls(turn, window)).await?;
    Ok(Envelope::of(calls).into_response())
}

/// Rates of spans over time, which Jaeger has from another store: what it says where there is none. They are metrics of PCP here.
async fn no_metrics() -> Wrong {
    Wrong {
        status: StatusCode::NOT_IMPLEMENTED,
        message: "metrics querying is currently disabled".to_owned(),
    }
}

/// A part of the path, if it is text.
type InPath = Result<Path<String>, PathRejection>;

fn in_path(part: InPath) -> Result<String, Wrong> {
    part.map(|Path(text)| text).map_err(|refused| Wrong::bad(refused.body_text()))
}

/// Services with their operations, and of what kind these are.
type Named = BTreeMap<String, BTreeSet<(String, String)>>;

/// Collects names.
#[derive(Default)]
struct Names {
    named: Named,
    operations: usize,
    looked: u64,
}

impl Visitor for Names {
    fn wants(&mut self, record: &Record) -> bool {
        self.looked += 1;
        let is_start = record.flags.contains(EventFlags::START);
        if self.operations >= MAX_OPERATIONS
            || !(is_start || record.flags.contains(EventFlags::END))
            || record.span_id().is_none()
        {
            return false;
        }
        let operation = record.kind().unwrap_or_default();
        if operation.is_empty() && !is_start {
            return false;
        }
        let kind = record.text(name::KIND).unwrap_or_default();
        let service = &*record.origin.service;
        match self.named.get_mut(service) {
            Some(known) => {
                // What ends does not say its kind, mostly: the start does, and is there, mostly.
                let begun = (operation.clone().into_owned(), String::new());
                let is_known = |(name, _): &&(String, String)| *name == operation;
                let any = known.range(begun.clone()..).next().filter(is_known).is_some();
                if is_start || !any {
                    if is_start && !kind.is_empty() {
                        known.remove(&begun);
                    }
                    self.operations += usize::from(known.insert((begun.0, kind.into_owned())));
                }
            }
            None => {
                let first = BTreeSet::from([(operation.into_owned(), kind.into_owned())]);
                self.named.insert(service.to_owned(), first);
                self.operations += 1;
            }
        }
        false
    }

    fn take(&mut self, _: Arc<Record>) {}

    fn enough(&self, _: i64) -> bool {
        self.looked >= MAX_NAMED || self.operations >= MAX_OPERATIONS
    }
}

fn named(turn: &Turn<'_>) -> Named {
    let mut names = Names::default();
    turn.walk(Window { from: i64::MIN, to: i64::MAX }, Order::Newest, &mut names);
    names.named
}

/// The traces of these ids, in a window or wherever they are.
fn by_ids(turn: &Turn<'_>, window: Option<Window>, ids: &[String]) -> Vec<form::Trace> {
    let windows = match window {
        Some(window) => vec![window],
        None => {
            let now = now();
            let past = |back: &i64| Window { from: now.saturating_sub(*back), to: i64::MAX };
            PASTS.iter().map(past).collect()
        }
    };
    for window in windows {
        if turn.is_over() {
            break;
        }
        let mut found = turn.spans(window, ids);
        if found.spans.is_empty() {
            continue;
        }
        // What is at the edge of the window goes on behind it.
        let first = found.spans.iter().map(|span| span.start).min().unwrap_or(window.from);
        let last = found.spans.iter().filter_map(|span| span.end).max().unwrap_or(first);
        let whole = Window { from: first.min(window.from), to: last.saturating_add(1).max(window.to) };
        if whole != window && window.from != i64::MIN {
            let again = turn.spans(whole, ids);
            match again.spans.len() < found.spans.len() {
                // There was no time for it.
                true => found.walked.cut = again.walked.cut,
                false => found = again,
            }
        }
        return shown(spans::traces(found.spans), found.walked.cut);
    }
    Vec::new()
}

/// The traces with a span that is searched for, the newest first.
fn found(turn: &Turn<'_>, search: &Search) -> Vec<form::Trace> {
    let found = turn.spans(search.window, &[]);
    let wanted: HashSet<String> =
        found.spans.iter().filter(|span| is_wanted(span, search)).map(|span| same(&span.trace)).collect();
    let mut traces = spans::traces(found.spans);
    traces.retain(|trace| wanted.contains(&same(&trace.id)));
    traces.truncate(search.limit);
    shown(traces, found.walked.cut)
}

fn is_wanted(span: &Span, search: &Search) -> bool {
    let of_service = search.service.as_ref().is_none_or(|service| **service == *span.origin.service);
    let duration = span.duration();
    of_service
        && search.window.has(span.start)
        && search.operation.as_ref().is_none_or(|operation| *operation == span.name)
        && search.least.is_none_or(|least| duration >= least)
        && search.most.is_none_or(|most| duration <= most)
        && has(span, &search.tags)
}

/// Whether all these tags are among those of a span, its process or its logs.
fn has(span: &Span, tags: &Tags) -> bool {
    if tags.is_empty() {
        return true;
    }
    let mut of_span = show::tags(span);
    of_span.extend(show::process_tags(&span.origin));
    of_span.extend(span.points.iter().flat_map(|point| show::fields(point)));
    tags.iter().all(|(key, value)| of_span.iter().any(|tag| tag.key == *key && tag.value.is(value)))
}

fn shown(traces: Vec<Trace>, cut: Option<&'static str>) -> Vec<form::Trace> {
    let mut budget = Budget::default();
    let mut shown = Vec::new();
    for trace in &traces {
        if budget.is_over() {
            break;
        }
        shown.push(show::trace(trace, cut, &mut budget));
    }
    shown
}

/// Which services call which, by spans whose parents are of another service.
fn calls(turn: &Turn<'_>, window: Window) -> Vec<form::Dependency> {
    let spans = turn.spans(window, &[]).spans;
    let parents = spans::parents(&spans);
    let mut calls: HashMap<(&str, &str), u64> = HashMap::new();
    for (span, parent) in spans.iter().zip(parents) {
        let Some(parent) = parent.filter(|_| window.has(span.start)) else { continue };
        let (caller, called) = (&*spans[parent].origin.service, &*span.origin.service);
        if caller != called {
            *calls.entry((caller, called)).or_default() += 1;
        }
    }
    let mut calls: Vec<_> = calls
        .into_iter()
        .map(|((parent, child), call_count)| form::Dependency {
            parent: parent.to_owned(),
            child: child.to_owned(),
            call_count,
        })
        .collect();
    calls.sort_by(|one, other| (&one.parent, &one.child).cmp(&(&other.parent, &other.child)));
    calls
}
