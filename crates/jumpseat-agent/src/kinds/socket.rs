//! The ingest sockets: `[[socket]]`, and `jumpseat.self.connections.*`.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use jumpseat_source::socket::{SocketSource, SocketStats};
use jumpseat_source::{InvalidKey, SocketConfig};
use pcp_model::{Units, Value, ValueType};
use pcp_net::is_served;
use pcp_pmda::Metric;

use crate::config::{Config, InvalidTable};
use crate::reach::Need;
use crate::state::State;

use super::kind::{Site, SourceKind, StartError, Started, Wanted, check_tables, load};

/// The ingest sockets.
pub(super) struct Sockets;

impl SourceKind for Sockets {
    fn check(&self, config: &Config) -> Result<(), InvalidTable> {
        check_tables("socket", &config.socket, SocketConfig::validate, |before, this| {
            match (&before.listen, &this.listen) {
                (None, None) if before.path == this.path => {
                    Some(InvalidKey::duplicate("path", "two sockets have the same path"))
                }
                (Some(one), Some(other)) if one == other => {
                    Some(InvalidKey::duplicate("listen", "two sockets have the same address"))
                }
                _ => None,
            }
        })
    }

    fn sources(&self, config: &Config) -> usize {
        config.socket.len()
    }

    fn source_names(&self, config: &Config) -> Vec<String> {
        config.socket.iter().map(|socket| socket.source.clone()).collect()
    }

    fn queue(&self, config: &Config) -> usize {
        config.socket.iter().map(|socket| socket.queue).sum()
    }

    fn wanted<'a>(&self, config: &'a Config) -> Vec<Wanted<'a>> {
        let one = |socket: &'a SocketConfig| {
            let what = format!("ingest socket {}", socket.place());
            let start = move |site: &mut Site<'_>| {
                let source = SocketSource::start(socket, site.outlet).map_err(|error| {
                    // That of another agent: two of them must not go on beside each other.
                    let is_anothers = socket.unix().is_some_and(|path| is_served(path).unwrap_or(false));
                    StartError::new("ingest socket".to_owned(), error).bearable(!is_anothers)
                })?;
                // What a socket has counted stays counted when it goes.
                site.stats.add(Arc::clone(&source.stats));
                Ok(Started { thread: Box::new(source), stats: None })
            };
            Wanted {
                what,
                key: format!("{socket:?}"),
                need: socket.unix().map_or(Need::Nothing, Need::Place),
                start: Box::new(start),
            }
        };
        config.socket.iter().map(one).collect()
    }

    fn metrics(&self) -> Vec<Metric<State>> {
        let sum = |state: &State, counter: fn(&SocketStats) -> &AtomicU64| -> u64 {
            state.threads.of::<SocketStats>().map(|stats| load(counter(stats))).sum()
        };
        let counter = |name: &str, counter: fn(&SocketStats) -> &AtomicU64| {
            Metric::new(format!("jumpseat.self.connections.{name}"), ValueType::U64)
                .units(Units::COUNT)
                .counter()
                .value(move |state: &mut State| sum(state, counter))
        };
        vec![
            Metric::new("jumpseat.self.connections.active", ValueType::U32)
                .units(Units::COUNT)
                .value(move |state: &mut State| Value::U32(sum(state, |stats| &stats.connections) as u32)),
            counter("refused", |stats| &stats.refused),
            counter("dropped", |stats| &stats.unread),
            counter("handshakes_failed", |stats| &stats.handshakes_failed),
            counter("unauthenticated", |stats| &stats.unauthenticated),
            counter("over_limit", |stats| &stats.over_limit),
        ]
    }
}
