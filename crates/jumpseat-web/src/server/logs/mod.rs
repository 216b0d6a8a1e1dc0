//! Event records as log lines by Loki's API, for Grafana's built-in data source.
//!
//! * [`ask`]: parameters. [`form`]: what is answered. [`logql`]: the language.
//! * [`line`]: what line and labels a record has. [`pipeline`]: which lines a query wants. [`metric`]: how many there are.
//! * [`detect`]: which fields there are. [`tail`]: lines as they come.
//!
//! Streams are told apart by host, source, metric, type, level and severity; the trace and the span of a line are structured metadata.

mod ask;
mod detect;
mod form;
mod line;
pub(crate) mod logql;
mod metric;
mod pipeline;
mod tail;

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;
use serde::Serialize;

use super::answer::json;
use super::records::Turn;
use super::records::read::nanos;
use super::records::record::Record;
use super::records::walk::{Order, Visitor, Walked, Window};
use super::web::Shared;
use detect::{Fields, LabelsForm};
use form::{CATEGORIZED, FLAGS, Streams, Wrong, data, success};
use line::{LABELS, Labels};
use logql::{Expr, LogQuery, parse, parse::parse_log};
use metric::{Machine, Steps, Value};

/// Grafana asks which of Loki's features there are: those of this version, more or less.
const VERSION: &str = "2.9.0";
/// Most streams that are told of, and most values of a label.
const MAX_STREAMS: usize = 10_000;
/// Most records that are looked at for values of labels and for streams.
const MAX_LOOKED: u64 = 500_000;

pub(super) fn routes() -> Router<Shared> {
    let v1 = Router::new()
        .route("/query", get(query).post(query))
        .route("/query_range", get(query_range).post(query_range))
        .route("/labels", get(labels).post(labels))
        // As Grafana called it before.
        .route("/label", get(labels).post(labels))
        .route("/label/{name}/values", get(values).post(values))
        .route("/series", get(series).post(series))
        .route("/index/stats", get(stats).post(stats))
        .route("/index/volume", get(volume).post(volume))
        .route("/detected_labels", get(detected_labels).post(detected_labels))
        .route("/detected_fields", get(detected_fields).post(detected_fields))
        .route("/detected_field/{name}/values", get(detected_values).post(detected_values))
        .route("/patterns", get(patterns).post(patterns))
        .route("/drilldown-limits", get(drilldown))
        .route("/tail", get(tail::tail))
        .route("/status/buildinfo", get(build_info));
    Router::new()
        .nest("/loki/api/v1", v1)
        .route("/ready", get(async || "ready\n"))
        .route("/records/hosts", get(hosts))
}

/// The handlers' answers.
type Answer = Result<Response, Wrong>;

async fn query_range(State(web): State<Shared>, request: Request) -> Answer {
    let categorized = is_categorized(&request);
    let params = ask::params(request).await?;
    let expr = parse(ask::text(&params, "query").unwrap_or_default())?;
    let window = ask::window(&params, now())?;
    let Expr::Log(query) = expr else {
        let steps = ask::steps(&params, window)?;
        return web.records.ask(&web.pool, move |turn| range(turn, &expr, steps)).await?;
    };
    let (limit, order) = (ask::limit(&params)?, ask::order(&params)?);
    web.records.ask(&web.pool, move |turn| Ok(lines(turn, &query, window, limit, order, categorized))).await?
}

async fn query(State(web): State<Shared>, request: Request) -> Answer {
    let params = ask::params(request).await?;
    let expr = parse(ask::text(&params, "query").unwrap_or_default())?;
    if let Expr::Log(_) = expr {
        let told = "log queries are not supported as an instant query type, please change your query to a range query type";
        return Err(Wrong::bad(told));
    }
    let time = ask::time(&params, "time")?.unwrap_or_else(now);
    web.records.ask(&web.pool, move |turn| instant(turn, &expr, time)).await?
}

async fn labels(State(web): State<Shared>, request: Request) -> Answer {
    let params = ask::params(request).await?;
    let (window, queries) = (ask::window(&params, now())?, selectors(&params, &["query"])?);
    let found = web.records.ask(&web.pool, move |turn| Found::of(turn, window, queries)).await?;
    let names: BTreeSet<&str> =
        found.streams.iter().flat_map(|labels| labels.keys().map(String::as_str)).collect();
    Ok(success(names, &found.walked))
}

async fn values(State(web): State<Shared>, Path(name): Path<String>, request: Request) -> Answer {
    let params = ask::params(request).await?;
    let (window, queries) = (ask::window(&params, now())?, selectors(&params, &["query"])?);
    if !LABELS.contains(&name.as_str()) {
        return Ok(success([(); 0], &Walked::default()));
    }
    let found = web.records.ask(&web.pool, move |turn| Found::of(turn, window, queries)).await?;
    let values: BTreeSet<&str> =
        found.streams.iter().filter_map(|labels| labels.get(&name).map(String::as_str)).collect();
    Ok(success(values, &found.walked))
}

async fn series(State(web): State<Shared>, request: Request) -> Answer {
    let params = ask::params(request).await?;
    let queries = selectors(&params, &["match[]", "match"])?;
    if queries.is_empty() {
        return Err(Wrong::bad("0 matcher groups supplied"));
    }
    let window = ask::window(&params, now())?;
    let found = web.records.ask(&web.pool, move |turn| Found::of(turn, window, queries)).await?;
    Ok(success(&found.streams, &found.walked))
}

async fn stats(State(web): State<Shared>, request: Request) -> Answer {
    #[derive(Serialize)]
    struct Form {
        streams: usize,
        chunks: usize,
        bytes: u64,
        entries: u64,
    }
    let params = ask::params(request).await?;
    let (window, queries) = (ask::window(&params, now())?, selectors(&params, &["query"])?);
    let found = web.records.ask(&web.pool, move |turn| Found::of(turn, window, queries)).await?;
    let streams = found.streams.len();
    Ok(json(StatusCode::OK, &Form { streams, chunks: streams, bytes: found.bytes, entries: found.entries }))
}

/// Bytes of lines by the labels that a query or `targetLabels` names, the most first.
async fn volume(State(web): State<Shared>, request: Request) -> Answer {
    let params = ask::params(request).await?;
    let window = ask::window(&params, now())?;
    let limit = ask::limit(&params)?;
    let query = parse_log(ask::text(&params, "query").unwrap_or("{}"))?;
    let named: Vec<String> = match ask::text(&params, "targetLabels") {
        Some(names) => names.split(',').take(LABELS.len()).map(str::to_owned).collect(),
        None => query.matchers.iter().map(|matcher| matcher.name.clone()).collect(),
    };
    let steps = Steps { start: window.to, step: 1, number: 1 };
    let range = window.to.saturating_sub(window.from).max(1);
    let bytes = Expr::Range { op: logql::RangeOp::BytesOverTime, query, range, offset: 0 };
    let grouping = Some(logql::Grouping { without: false, names: named });
    let sum = Expr::Aggregate { op: logql::AggregateOp::Sum, param: 0.0, grouping, of: Box::new(bytes) };
    web.records
        .ask(&web.pool, move |turn| {
            let mut machine = Machine::new(turn, steps);
            let Value::Series(mut series) = machine.value(&sum).map_err(Wrong::bad)? else {
                return Err(Wrong::bad("no series"));
            };
            let amount =
                |series: &metric::Series| series.values.first().copied().flatten().unwrap_or_default();
            series.sort_by(|one, other| amount(other).total_cmp(&amount(one)));
            series.truncate(limit);
            let result = form::vector(series, window.to);
            Ok(success(data("vector", result, &machine.walked, false), &machine.walked))
        })
        .await?
}

async fn detected_labels(State(web): State<Shared>, request: Request) -> Answer {
    let params = ask::params(request).await?;
    let (window, queries) = (ask::window(&params, now())?, selectors(&params, &["query"])?);
    let found = web.records.ask(&web.pool, move |turn| Found::of(turn, window, queries)).await?;
    Ok(json(StatusCode::OK, &LabelsForm::of(&found.streams)))
}

async fn detected_fields(State(web): State<Shared>, request: Request) -> Answer {
    let params = ask::params(request).await?;
    let (_, limit) = detect::limits(&params)?;
    let fields = detected(&web, &params).await?;
    Ok(json(StatusCode::OK, &fields.form(limit)))
}

async fn detected_values(State(web): State<Shared>, Path(name): Path<String>, request: Request) -> Answer {
    let params = ask::params(request).await?;
    let (_, limit) = detect::limits(&params)?;
    let fields = detected(&web, &params).await?;
    Ok(json(StatusCode::OK, &fields.values(&name, limit)))
}

async fn detected(web: &Shared, params: &super::query::Query) -> Result<Fields, Wrong> {
    let (window, query, (lines, _)) =
        (ask::window(params, now())?, detect::query(params)?, detect::limits(params)?);
    let fields = web.records.ask(&web.pool, move |turn| {
        let (found, _) = turn.select(
            window,
            Order::Newest,
            lines,
            &|host| pipeline::wants_host(&query, host),
            &mut |record| pipeline::run(&query, record).is_some(),
        );
        Fields::of(&query, &found)
    });
    Ok(fields.await?)
}

/// Patterns of lines, which nobody collects here.
async fn patterns(request: Request) -> Answer {
    let params = ask::params(request).await?;
    parse_log(ask::text(&params, "query").unwrap_or_default())?;
    ask::window(&params, now())?;
    Ok(success([(); 0], &Walked::default()))
}

/// What Grafana's *Logs Drilldown* may ask for.
async fn drilldown() -> Response {
    #[derive(Serialize)]
    struct Limits {
        discover_service_name: [&'static str; 1],
        log_level_fields: [&'static str; 1],
        max_entries_limit_per_query: usize,
        retention_period: &'static str,
        volume_enabled: bool,
        volume_max_series: usize,
    }
    #[derive(Serialize)]
    struct Form {
        limits: Limits,
        pattern_ingester_enabled: bool,
        version: &'static str,
    }
    let limits = Limits {
        discover_service_name: ["source"],
        log_level_fields: ["level"],
        max_entries_limit_per_query: ask::MAX_LINES,
        retention_period: "0s",
        volume_enabled: true,
        volume_max_series: metric::MAX_SERIES,
    };
    json(StatusCode::OK, &Form { limits, pattern_ingester_enabled: false, version: VERSION })
}

async fn build_info() -> Response {
    #[derive(Serialize)]
    struct Form {
        version: &'static str,
        revision: &'static str,
        branch: &'static str,
    }
    json(StatusCode::OK, &Form { version: VERSION, revision: env!("CARGO_PKG_VERSION"), branch: "jumpseat" })
}

/// How it is with the hosts whose records are followed.
async fn hosts(State(web): State<Shared>) -> Response {
    #[derive(Serialize)]
    struct Form {
        hosts: Vec<super::records::follow::HostState>,
    }
    json(StatusCode::OK, &Form { hosts: web.records.hosts() })
}

/// The selectors that parameters have.
fn selectors(params: &super::query::Query, names: &[&str]) -> Result<Vec<LogQuery>, Wrong> {
    const MOST: usize = 16;
    let texts: Vec<&str> =
        names.iter().flat_map(|name| params.all(name)).filter(|text| !text.is_empty()).collect();
    if texts.len() > MOST {
        return Err(Wrong::bad(format!("more than {MOST} selectors")));
    }
    Ok(texts.into_iter().map(parse_log).collect::<Result<_, _>>()?)
}

fn is_categorized(request: &Request) -> bool {
    let flags = request.headers().get_all(FLAGS).iter().filter_map(|value| value.to_str().ok());
    flags.flat_map(|value| value.split(',')).any(|flag| flag.trim() == CATEGORIZED)
}

fn now() -> i64 {
    nanos(pcp_model::Timestamp::from(std::time::SystemTime::now()))
}

fn lines(
    turn: &Turn<'_>,
    query: &LogQuery,
    window: Window,
    limit: usize,
    order: Order,
    categorized: bool,
) -> Response {
    let (found, walked) =
        turn.select(window, order, limit, &|host| pipeline::wants_host(query, host), &mut |record| {
            pipeline::run(query, record).is_some()
        });
    let mut streams = Streams::new(categorized);
    for record in &found {
        if let Some(entry) = pipeline::run(query, record) {
            streams.push(record.time, &entry);
        }
    }
    success(data("streams", streams.done(), &walked, categorized), &walked)
}

fn range(turn: &Turn<'_>, expr: &Expr, steps: Steps) -> Answer {
    let mut machine = Machine::new(turn, steps);
    let series = match machine.value(expr).map_err(Wrong::bad)? {
        Value::Series(series) => series,
        Value::Number(number) => {
            vec![metric::Series { labels: Labels::new(), values: vec![Some(number); steps.number] }]
        }
    };
    Ok(success(data("matrix", form::matrix(series, steps), &machine.walked, false), &machine.walked))
}

fn instant(turn: &Turn<'_>, expr: &Expr, time: i64) -> Answer {
    let mut machine = Machine::new(turn, Steps { start: time, step: 1, number: 1 });
    Ok(match machine.value(expr).map_err(Wrong::bad)? {
        Value::Series(series) => {
            success(data("vector", form::vector(series, time), &machine.walked, false), &machine.walked)
        }
        Value::Number(number) => {
            success(data("scalar", form::scalar(number, time), &machine.walked, false), &machine.walked)
        }
    })
}

/// Which streams there are.
struct Found {
    queries: Vec<LogQuery>,
    streams: BTreeSet<Labels>,
    bytes: u64,
    entries: u64,
    looked: u64,
    walked: Walked,
}

impl Found {
    /// Those that any of the queries wants, or all.
    fn of(turn: &Turn<'_>, window: Window, queries: Vec<LogQuery>) -> Found {
        let mut found = Found {
            queries,
            streams: BTreeSet::new(),
            bytes: 0,
            entries: 0,
            looked: 0,
            walked: Walked::default(),
        };
        found.walked = turn.walk(window, Order::Newest, &mut found);
        if found.looked >= MAX_LOOKED && found.walked.cut.is_none() {
            found.walked.cut = Some("more records than are looked at for labels: ask for a shorter time");
        }
        found
    }
}

impl Visitor for Found {
    fn host(&self, host: &str) -> bool {
        self.queries.is_empty() || self.queries.iter().any(|query| pipeline::wants_host(query, host))
    }

    fn wants(&mut self, record: &Record) -> bool {
        self.looked += 1;
        self.queries.is_empty() || self.queries.iter().any(|query| pipeline::run(query, record).is_some())
    }

    fn take(&mut self, record: Arc<Record>) {
        self.entries += 1;
        self.bytes += record.bytes() as u64;
        if self.streams.len() < MAX_STREAMS {
            self.streams.insert(line::labels(&record));
        }
    }

    fn enough(&self, _: i64) -> bool {
        self.looked >= MAX_LOOKED
    }
}

/// Applies the queries for lines in an expression to a record, for fuzz targets. How many of them want it.
pub(super) fn taken(expr: &Expr, message: &str) -> usize {
    let query = match expr {
        Expr::Log(query) | Expr::Range { query, .. } => query,
        Expr::Aggregate { of, .. } => return taken(of, message),
        Expr::Binary { left, right, .. } => return taken(left, message) + taken(right, message),
        Expr::Number(_) | Expr::Vector(_) => return 0,
    };
    let record = Record::of_message(message);
    let entry = pipeline::run(query, &record);
    if let Some(entry) = &entry {
        let mut streams = Streams::new(true);
        streams.push(record.time, entry);
        debug_assert!(entry.labels().len() >= entry.stream().len(), "fields are added");
    }
    usize::from(entry.is_some())
}
