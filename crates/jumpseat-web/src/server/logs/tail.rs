//! Lines as they come, over a WebSocket: messages of `{"streams":[...],"dropped_entries":[...]}`, as Loki sends them.
//!
//! First come the newest lines since `start` (an hour ago) that are in memory, `limit` of them; then all that come, of hosts that are
//! followed. A client that does not read what it is sent is gone after [`SLOW`]; what it missed because records had to go meanwhile is
//! told. So many clients at a time, each for an hour at most, as Loki has it.
//!
//! **Cost:** a task a client, which is woken once a second at most when there are new records, and looks at each of them.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{FromRequestParts as _, Request, State};
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, interval_at, sleep_until, timeout};

use super::ask;
use super::form::{Stream, Streams, Wrong};
use super::line::Labels;
use super::logql::LogQuery;
use super::logql::parse::parse_log;
use super::pipeline;
use crate::server::records::Records;
use crate::server::records::record::Record;
use crate::server::web::Shared;

/// Clients at a time.
const MAX_CLIENTS: usize = 64;
/// How long a client may take to read a message, and to be served in all.
const SLOW: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(3600);
/// How often it is asked whether it is still there.
const PING: Duration = Duration::from_secs(30);
/// Records of a host that are looked at for one message.
const BATCH: usize = 2000;
/// Most bytes that a client has to say: it has nothing.
const MAX_MESSAGE: usize = 4096;

/// The places for clients.
static PLACES: std::sync::LazyLock<Arc<Semaphore>> =
    std::sync::LazyLock::new(|| Arc::new(Semaphore::new(MAX_CLIENTS)));

/// A message.
#[derive(Serialize)]
struct Told {
    streams: Vec<Stream>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dropped_entries: Vec<Dropped>,
}

/// Records of a host that had to go before this client was sent them.
#[derive(Serialize)]
struct Dropped {
    labels: Labels,
    timestamp: String,
    count: u64,
}

/// What has been told by now: for each host the number of the next record.
struct Tail {
    query: LogQuery,
    next: Vec<u64>,
}

pub(super) async fn tail(State(web): State<Shared>, request: Request) -> Result<Response, Wrong> {
    let (mut parts, _) = request.into_parts();
    let text = parts.uri.query().unwrap_or_default().to_owned();
    let params = crate::server::query::Query::parse(&text).map_err(|bad| Wrong::bad(bad.to_string()))?;
    let query = parse_log(ask::text(&params, "query").unwrap_or_default())?;
    let limit = ask::limit(&params)?;
    let now = super::now();
    let from = ask::time(&params, "start")?.unwrap_or_else(|| now.saturating_sub(3_600_000_000_000));
    if let Some(delay) = ask::text(&params, "delay_for")
        && !delay.parse::<u64>().is_ok_and(|delay| delay <= 5)
    {
        return Err(Wrong::bad("delay_for can't be greater than 5"));
    }
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &web)
        .await
        .map_err(|refused| Wrong { status: refused.status(), message: refused.body_text() })?;
    let place = Arc::clone(&PLACES).try_acquire_owned().map_err(|_| Wrong {
        status: StatusCode::TOO_MANY_REQUESTS,
        message: format!("max concurrent tail requests limit exceeded, count > limit ({MAX_CLIENTS})"),
    })?;
    let upgrade = upgrade.max_message_size(MAX_MESSAGE).max_frame_size(MAX_MESSAGE);
    Ok(upgrade.on_upgrade(move |socket| serve(socket, web, query, limit, from, place)))
}

async fn serve(
    mut socket: WebSocket,
    web: Shared,
    query: LogQuery,
    limit: usize,
    from: i64,
    _place: OwnedSemaphorePermit,
) {
    let mut changes = web.records.changes();
    let first = web.records.ask(&web.pool, move |turn| begin(turn.records, query, limit, from)).await;
    let Ok((mut tail, told)) = first else { return };
    if !send(&mut socket, &told).await {
        return;
    }
    let end = Instant::now() + LONGEST;
    let mut ping = interval_at(Instant::now() + PING, PING);
    let mut is_more = false;
    loop {
        let is_new = tokio::select! {
            _ = std::future::ready(()), if is_more => true,
            changed = changes.changed() => match changed {
                Ok(()) => true,
                Err(_) => return,
            },
            said = socket.recv() => match said {
                // Nothing that it says means anything; pongs are among it.
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => false,
            },
            _ = ping.tick() => {
                if !matches!(timeout(SLOW, socket.send(Message::Ping(Vec::new().into()))).await, Ok(Ok(()))) {
                    return;
                }
                false
            }
            () = sleep_until(end) => {
                let _ = timeout(SLOW, socket.send(Message::Close(None))).await;
                return;
            }
        };
        if !is_new {
            continue;
        }
        let shared = Arc::clone(&web);
        let looked = web
            .pool
            .run(move || {
                let (told, is_more) = tail.look(&shared.records);
                (tail, told, is_more)
            })
            .await;
        let Ok(looked) = looked else { return };
        let told;
        (tail, told, is_more) = looked;
        if !send(&mut socket, &told).await {
            return;
        }
    }
}

/// Sends what there is to tell. Whether the client is still there.
async fn send(socket: &mut WebSocket, told: &Told) -> bool {
    if told.streams.is_empty() && told.dropped_entries.is_empty() {
        return true;
    }
    let text = serde_json::to_string(told).unwrap_or_default();
    matches!(timeout(SLOW, socket.send(Message::Text(text.into()))).await, Ok(Ok(())))
}

/// The newest lines since a time, and where to go on.
fn begin(records: &Records, query: LogQuery, limit: usize, from: i64) -> (Tail, Told) {
    let mut next = Vec::new();
    let mut newest: Vec<Arc<Record>> = Vec::new();
    for host in records.followed() {
        let (of_host, number) = host.within(from, i64::MAX);
        next.push(number);
        newest.extend(of_host.into_iter().filter(|record| pipeline::run(&query, record).is_some()));
    }
    newest.sort_by_key(|record| record.time);
    let skip = newest.len().saturating_sub(limit);
    let streams = lines(&query, newest.iter().skip(skip));
    (Tail { query, next }, Told { streams, dropped_entries: Vec::new() })
}

impl Tail {
    /// What has come since. And whether there is more of it already.
    fn look(&mut self, records: &Records) -> (Told, bool) {
        let (mut new, mut dropped_entries, mut is_more) = (Vec::new(), Vec::new(), false);
        for (host, next) in records.followed().iter().zip(&mut self.next) {
            let since = host.since(*next, BATCH);
            is_more |= since.records.len() == BATCH;
            let name = host.host().unwrap_or_else(|| host.name.as_str().into());
            if since.gone > 0 && pipeline::wants_host(&self.query, &name) {
                dropped_entries.push(Dropped {
                    labels: Labels::from([("host".to_owned(), name.to_string())]),
                    timestamp: super::now().to_string(),
                    count: since.gone,
                });
            }
            *next = since.next;
            new.extend(since.records);
        }
        new.sort_by_key(|record| record.time);
        (Told { streams: lines(&self.query, new.iter()), dropped_entries }, is_more)
    }
}

fn lines<'a>(query: &LogQuery, records: impl Iterator<Item = &'a Arc<Record>>) -> Vec<Stream> {
    let mut streams = Streams::new(false);
    for record in records {
        if let Some(entry) = pipeline::run(query, record) {
            streams.push(record.time, &entry);
        }
    }
    streams.done()
}
