//! `jumpseat.source.*`: the accounting of each source.

use super::SOURCES;
use crate::agent::Metric;
use crate::model::{Units, Value, ValueType};
use crate::seat::State;
use crate::seat::state::Source;
use crate::source::delivery::Peer;

pub fn metrics() -> Vec<Metric<State>> {
    let of = |name: &str, units, value: fn(&Source) -> u64| {
        Metric::new(format!("jumpseat.source.{name}"), ValueType::U64).indom(SOURCES).units(units).each(
            move |state: &mut State, _, inst| Ok(state.sources.get(&inst).map(|s| Value::U64(value(s)))),
        )
    };
    let of_peer = |name: &str, value: fn(&Peer) -> u32| {
        Metric::new(format!("jumpseat.source.{name}"), ValueType::U32).indom(SOURCES).discrete().each(
            move |state: &mut State, _, inst| {
                let peer = state.sources.get(&inst).and_then(|source| source.peer.as_ref());
                Ok(peer.map(|peer| Value::U32(value(peer))))
            },
        )
    };
    vec![
        of_peer("peer_uid", |peer| peer.uid),
        of_peer("peer_pid", |peer| peer.pid as u32),
        of("received", Units::COUNT, |s| s.received).counter(),
        of("bytes", Units::BYTE, |s| s.bytes).counter(),
        of("malformed", Units::COUNT, |s| s.malformed).counter(),
        of("oversized", Units::COUNT, |s| s.oversized).counter(),
        of("truncated", Units::COUNT, |s| s.truncated).counter(),
        of("missed", Units::COUNT, |s| s.missed).counter(),
        of("delivered", Units::COUNT, |s| s.delivered).counter(),
        of("evicted", Units::COUNT, |s| s.log.stats().evicted).counter(),
        of("queued", Units::COUNT, |s| s.log.stats().records as u64),
        of("memory", Units::BYTE, |s| s.log.stats().bytes as u64),
        of("readers", Units::COUNT, |s| s.log.stats().cursors as u64),
        Metric::new("jumpseat.source.last_time", ValueType::Double).indom(SOURCES).units(Units::SECOND).each(
            |state: &mut State, _, inst| {
                let time = state.sources.get(&inst).and_then(|source| source.last_time);
                Ok(time.map(|t| Value::Double(t.sec as f64 + f64::from(t.nsec) * 1e-9)))
            },
        ),
    ]
}
