//! `jumpseat.source.*`: the accounting of each source.

use crate::identity::{REASONS, SOURCES, reason_of};
use crate::state::State;
use crate::state::source::Source;
use jumpseat_source::delivery::Peer;
use jumpseat_source::{Cause, Origin};
use pcp_model::{Units, Value, ValueType};
use pcp_pmda::Metric;

pub(super) fn metrics() -> Vec<Metric<State>> {
    let of = |name: &str, units, value: fn(&Source) -> u64| {
        Metric::new(format!("jumpseat.source.{name}"), ValueType::U64)
            .indom(SOURCES)
            .units(units)
            .each(move |state: &mut State, _, inst| Ok(state.sources.get(inst).map(|s| Value::U64(value(s)))))
    };
    let of_peer = |name: &str, value: fn(&Peer) -> u32| {
        Metric::new(format!("jumpseat.source.{name}"), ValueType::U32).indom(SOURCES).discrete().each(
            move |state: &mut State, _, inst| {
                let peer = state.sources.get(inst).and_then(|source| source.sender.peer.as_ref());
                Ok(peer.map(|peer| Value::U32(value(peer))))
            },
        )
    };
    let of_origin = |name: &str, value: fn(&Origin) -> Option<&str>| {
        text(name, move |source| source.sender.origin.as_deref().and_then(value).map(str::to_owned))
    };
    vec![
        of_origin("kind", |origin| Some(origin.kind)),
        of_origin("address", |origin| Some(&origin.address)),
        of_origin("service", |origin| origin.service.as_deref()),
        text("state", |source| Some(source.phase().to_owned())),
        Metric::new("jumpseat.source.rejected", ValueType::U64)
            .indom(REASONS)
            .units(Units::COUNT)
            .counter()
            .each(|state: &mut State, _, inst| {
                let (source, reason) = reason_of(inst);
                let rejected = state.sources.get(source).zip(reason);
                Ok(rejected.map(|(source, reason)| Value::U64(source.account.rejected[reason as usize])))
            }),
        of("dropped.disabled", Units::COUNT, |s| s.account.dropped[Cause::Disabled as usize]).counter(),
        of("dropped.filtered", Units::COUNT, |s| s.account.dropped[Cause::Filtered as usize]).counter(),
        of("dropped.sampled", Units::COUNT, |s| s.account.dropped[Cause::Sampled as usize]).counter(),
        of("held.records", Units::COUNT, |s| s.gate.held().records()),
        of("held.bytes", Units::BYTE, |s| s.gate.held().bytes()),
        of("future", Units::COUNT, |s| s.account.future).counter(),
        of("past", Units::COUNT, |s| s.account.past).counter(),
        of("late", Units::COUNT, |s| s.account.late).counter(),
        of("repeated", Units::COUNT, |s| s.account.repeated).counter(),
        of_peer("peer_uid", |peer| peer.uid),
        of_peer("peer_pid", |peer| peer.pid as u32),
        of("received", Units::COUNT, |s| s.account.received).counter(),
        of("bytes", Units::BYTE, |s| s.account.bytes).counter(),
        of("malformed", Units::COUNT, |s| s.account.malformed).counter(),
        of("oversized", Units::COUNT, |s| s.account.oversized).counter(),
        of("truncated", Units::COUNT, |s| s.account.truncated).counter(),
        of("missed", Units::COUNT, |s| s.account.missed).counter(),
        of("delivered", Units::COUNT, |s| s.account.delivered).counter(),
        of("evicted", Units::COUNT, |s| s.log.stats().evicted).counter(),
        of("queued", Units::COUNT, |s| s.log.stats().records as u64),
        of("memory", Units::BYTE, |s| s.log.stats().bytes as u64),
        of("readers", Units::COUNT, |s| s.log.stats().cursors as u64),
        Metric::new("jumpseat.source.last_time", ValueType::Double).indom(SOURCES).units(Units::SECOND).each(
            |state: &mut State, _, inst| {
                let time = state.sources.get(inst).and_then(|source| source.account.last_time);
                Ok(time.map(|t| Value::Double(t.sec as f64 + f64::from(t.nsec) * 1e-9)))
            },
        ),
    ]
}

fn text(name: &str, value: impl Fn(&Source) -> Option<String> + 'static) -> Metric<State> {
    Metric::new(format!("jumpseat.source.{name}"), ValueType::String)
        .indom(SOURCES)
        .discrete()
        .each(move |state: &mut State, _, inst| Ok(state.sources.get(inst).and_then(&value).map(Value::from)))
}
