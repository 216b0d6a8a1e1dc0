//! `/page/hosts`: hosts and archives that may be looked at, and how they are.

use axum::extract::State as Extract;
use axum::response::Response;
use http::StatusCode;
use pcp_archive::Glance;
use serde::Serialize;
use std::time::{Duration, SystemTime};

use super::Refused;
use super::lines::seconds;
use super::live::{Link, State};
use crate::server::answer::json;
use crate::server::web::{Shared, Web};

/// Most archives of an answer: the newest.
const MAX_ARCHIVES: usize = 2_000;
/// An archive that was written to within this time is still being written.
const GROWING: Duration = Duration::from_secs(90);

#[derive(Serialize)]
struct Hosts {
    version: &'static str,
    /// This machine's time, seconds since the epoch.
    now: f64,
    hosts: Vec<Host>,
    archives: Vec<Archive>,
    /// Archives there are besides.
    left_out: usize,
    /// What cannot be read, and why, and what of damaged archives is done without.
    problems: Vec<String>,
}

#[derive(Serialize)]
struct Host {
    source: String,
    /// As the command line has it.
    name: String,
    #[serde(flatten)]
    condition: Condition,
    /// How many archives there are of it.
    archives: usize,
}

/// How a host is.
#[derive(Debug, Serialize)]
pub(super) struct Condition {
    state: &'static str,
    /// Since when, seconds since the epoch, as far as this program has looked.
    since: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// What it calls itself.
    host: Option<String>,
}

#[derive(Serialize)]
struct Archive {
    source: String,
    name: String,
    host: String,
    zone: String,
    start: f64,
    last: f64,
    bytes: u64,
    growing: bool,
}

impl Condition {
    pub(super) fn of(state: &State) -> Condition {
        let (word, problem) = match &state.link {
            Link::Unknown => ("unknown", None),
            Link::Up => ("up", None),
            Link::Down(reason) => ("down", Some(reason.clone())),
        };
        Condition { state: word, since: state.since.map(seconds), problem, host: state.host.clone() }
    }
}

pub(super) async fn hosts(Extract(web): Extract<Shared>) -> Result<Response, Refused> {
    let of_pool = Shared::clone(&web);
    let hosts = web.pool.run(move || look(&of_pool)).await?;
    Ok(json(StatusCode::OK, &hosts))
}

fn look(web: &Web) -> Hosts {
    let found = web.library.all();
    let host = |name: &str| {
        let condition = match web.page.live.state(name) {
            Ok(state) => Condition::of(&state),
            Err(error) => {
                Condition { state: "unknown", since: None, problem: Some(error.to_string()), host: None }
            }
        };
        let is_its = |glance: &&Glance| Some(&glance.label.host) == condition.host.as_ref();
        let archives = found.iter().filter(is_its).count();
        Host { source: format!("host:{name}"), name: name.to_owned(), condition, archives }
    };
    let mut archives: Vec<&Glance> = found.iter().collect();
    archives.sort_by_key(|glance| std::cmp::Reverse(glance.last));
    let left_out = archives.len().saturating_sub(MAX_ARCHIVES);
    archives.truncate(MAX_ARCHIVES);
    let now = SystemTime::now();
    let archive = |glance: &Glance| Archive {
        source: format!("archive:{}", glance.name.display()),
        name: glance.name.display().to_string(),
        host: glance.label.host.clone(),
        zone: glance.label.zone.clone(),
        start: seconds(glance.label.start),
        last: seconds(glance.last),
        bytes: glance.bytes,
        growing: now.duration_since(glance.changed).is_ok_and(|since| since < GROWING),
    };
    Hosts {
        version: env!("CARGO_PKG_VERSION"),
        now: seconds(now.into()),
        hosts: web.sources.names().map(|name| host(&name)).collect(),
        archives: archives.into_iter().map(archive).collect(),
        left_out,
        problems: web.library.problems(),
    }
}
