//! `/page/samples?source&expr&start&finish&points`: values over time, live and from archives, put together to so many points.
//!
//! `expr` has a metric or an expression a line. `start` and `finish` are seconds since the epoch, or, not above 0, counted back from
//! the last sample of a host, and from the end of archives.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;

use super::Refused;
use super::hosts::Condition;
use super::lines::{Series, Window, seconds};
use super::live::Values;
use super::source::{self, Source};
use crate::server::answer::json;
use crate::server::query::Query;
use crate::server::web::{Shared, Web};

/// Most metrics and expressions of a request, and bytes of one.
const MAX_EXPRS: usize = 16;
const MAX_EXPR: usize = 4_096;
/// Most points of a line, and how many there are if nobody says.
const MAX_POINTS: usize = 2_000;
const POINTS: usize = 600;
/// Most lines of a metric: those that are largest.
const MAX_LINES: usize = 100;

#[derive(Serialize)]
struct Samples {
    /// The window, and the time of the last sample there is, seconds since the epoch.
    start: f64,
    finish: f64,
    last: Option<f64>,
    /// How the host is.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<Condition>,
    series: Vec<Series>,
}

pub(super) async fn samples(State(web): State<Shared>, query: Query) -> Result<Response, Refused> {
    let source = Source::parse(query.get("source"))?;
    let exprs = exprs(query.get("expr").unwrap_or_default())?;
    let window = window(&query, -300.0)?;
    let of_pool = Shared::clone(&web);
    let samples = web.pool.run(move || read(&of_pool, &source, &exprs, &window)).await??;
    Ok(json(StatusCode::OK, &samples))
}

/// Metrics and expressions, each once, a line each.
pub(super) fn exprs(text: &str) -> Result<Vec<String>, Refused> {
    let mut exprs: Vec<String> = Vec::new();
    for expr in text.lines().map(str::trim).filter(|expr| !expr.is_empty()) {
        if expr.len() > MAX_EXPR {
            return Err(Refused::bad(format!("expr: longer than {MAX_EXPR} bytes")));
        }
        if !exprs.iter().any(|known| known == expr) {
            exprs.push(expr.to_owned());
        }
    }
    match exprs.len() {
        0 => Err(Refused::bad("expr: expected a metric or an expression a line")),
        many if many > MAX_EXPRS => Err(Refused::bad(format!("expr: more than {MAX_EXPRS}"))),
        _ => Ok(exprs),
    }
}

/// From when to when: seconds since the epoch, or, not above 0, counted back.
pub(super) fn window(query: &Query, start: f64) -> Result<Window, Refused> {
    let number = |name: &str, default: f64| match query.get(name) {
        None => Ok(default),
        Some(text) => text
            .parse()
            .ok()
            // Beyond are no times, and sums of them would not be exact.
            .filter(|number: &f64| number.abs() < 1e11)
            .ok_or_else(|| Refused::bad(format!("{name}: expected seconds"))),
    };
    let (start, finish) = (number("start", start)?, number("finish", 0.0)?);
    let points = query.get("points").map_or(Ok(POINTS), str::parse);
    let points = points.map_err(|_| Refused::bad("points: expected a number"))?;
    Ok(Window { start, finish, points: points.clamp(1, MAX_POINTS) })
}

fn read(web: &Web, source: &Source, exprs: &[String], window: &Window) -> Result<Samples, Refused> {
    let mut samples = match source {
        Source::Host(name) => of_host(web, name, exprs, window)?,
        _ => of_archives(web, source, exprs, window)?,
    };
    for series in &mut samples.series {
        keep_largest(series);
    }
    Ok(samples)
}

fn of_host(web: &Web, name: &str, exprs: &[String], window: &Window) -> Result<Samples, Refused> {
    let Values { mut series, state, span } = web.page.live.values(name, exprs, window)?;
    let now = seconds(std::time::SystemTime::now().into());
    let window = window.absolute(span.map_or(now, |(_, last)| last));
    check(&window)?;
    let first = span.map_or(window.finish, |(first, _)| first);
    // What was before somebody looked is in the archives of the host, if it is recorded.
    if let Some(host) = state.host.as_deref().filter(|_| window.start < first - 1.0) {
        let part = Window { finish: first.min(window.finish), ..window };
        let archives = source::recorded(web, host, part.start, part.finish);
        if !archives.is_empty() {
            let (key, mut context) = source::open(web, &archives)?;
            let past = super::past::read(&mut context, exprs, &part);
            web.page.shelf.put(key, context);
            for (live, mut past) in series.iter_mut().zip(past) {
                // What is recorded may be asked for although the collector has it no more.
                past.append(std::mem::take(live));
                *live = past;
            }
        }
    }
    Ok(Samples {
        start: window.start,
        finish: window.finish,
        last: span.map(|(_, last)| last),
        host: Some(Condition::of(&state)),
        series,
    })
}

fn of_archives(web: &Web, source: &Source, exprs: &[String], window: &Window) -> Result<Samples, Refused> {
    let (key, mut context) = source.open(web)?;
    let (_, end) = context.span().map_err(|error| Refused::gone(error.to_string()))?;
    let end = seconds(end);
    let window = window.absolute(end);
    check(&window)?;
    let series = super::past::read(&mut context, exprs, &window);
    web.page.shelf.put(key, context);
    Ok(Samples { start: window.start, finish: window.finish, last: Some(end), host: None, series })
}

fn check(window: &Window) -> Result<(), Refused> {
    match window.start < window.finish {
        true => Ok(()),
        false => Err(Refused::bad("start: not before finish")),
    }
}

/// The lines that are largest on average, in their order.
fn keep_largest(series: &mut Series) {
    if series.lines.len() <= MAX_LINES {
        return;
    }
    let mean = |values: &[Option<f64>]| {
        let (sum, count) =
            values.iter().flatten().fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
        sum / f64::from(count.max(1))
    };
    let mut means: Vec<f64> = series.lines.iter().map(|line| mean(&line.avg)).collect();
    means.sort_by(|one, other| other.total_cmp(one));
    let least = means[MAX_LINES - 1];
    let before = series.lines.len();
    let mut room = MAX_LINES;
    series.lines.retain(|line| {
        let keep = room > 0 && mean(&line.avg) >= least;
        room -= usize::from(keep);
        keep
    });
    series.left_out += before - series.lines.len();
}
