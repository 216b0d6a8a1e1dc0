//! The ingest sockets: `[[socket]]`, and `jumpseat.self.connections.*`.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use jumpseat_source::socket::{SocketSource, SocketStats};
use jumpseat_source::{InvalidKey, Outlet, SocketConfig};
use pcp_model::{Units, Value, ValueType};
use pcp_net::is_served;
use pcp_pmda::Metric;

use crate::config::{Config, InvalidTable};
use crate::state::State;

use super::kind::{Running, SourceKind, StartError, check_tables, load};

/// The ingest sockets.
pub(super) struct Sockets;

impl SourceKind for Sockets {
    fn check(&self, config: &Config) -> Result<(), InvalidTable> {
        check_tables("socket", &config.socket, SocketConfig::validate, |before, this| {
            (before.path == this.path)
                .then(|| InvalidKey::duplicate("path", "two sockets have the same path"))
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

    fn start(&self, config: &Config, outlet: &Outlet, running: &mut Running<'_>) -> Result<(), StartError> {
        let told = |error| StartError::new("ingest socket".to_owned(), error);
        let mut failed = Vec::new();
        for socket in &config.socket {
            match SocketSource::start(socket, outlet) {
                Ok(source) => {
                    running.count_in(Arc::clone(&source.stats));
                    running.add(source);
                }
                // That of another agent: two of them must not go on beside each other.
                Err(error) if is_served(&socket.path).unwrap_or(false) => return Err(told(error)),
                Err(error) => failed.push(told(error)),
            }
        }
        // One that cannot be made costs what comes through it, as long as something comes at all.
        let others = super::sources_of_others(self, config);
        if failed.len() == config.socket.len() && others == 0 {
            return failed.into_iter().next().map_or(Ok(()), Err);
        }
        for error in failed {
            tracing::error!("{error}; the agent goes on without it: start it again when that is mended");
        }
        Ok(())
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
        ]
    }
}
