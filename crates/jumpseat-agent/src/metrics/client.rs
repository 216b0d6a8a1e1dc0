//! `jumpseat.client.*`: the accounting of each stream that a client reads.

use crate::identity::STREAMS;
use crate::state::State;
use pcp_event::log::CursorStats;
use pcp_model::{Inst, Units, Value, ValueType};
use pcp_pmda::Metric;

pub(super) fn metrics() -> Vec<Metric<State>> {
    let of = |name: &str, value: fn(&CursorStats) -> u64| {
        Metric::new(format!("jumpseat.client.{name}"), ValueType::U64)
            .indom(STREAMS)
            .units(Units::COUNT)
            .each(move |state: &mut State, _, inst| {
                Ok(cursor(state, inst).map(|stats| Value::U64(value(&stats))))
            })
    };
    vec![
        of("received", |s| s.delivered + s.filtered + s.missed + s.queued).counter(),
        of("delivered", |s| s.delivered).counter(),
        of("filtered", |s| s.filtered).counter(),
        of("missed", |s| s.missed).counter(),
        of("queued", |s| s.queued),
        of("bytes", |s| s.bytes).counter().units(Units::BYTE),
        Metric::new("jumpseat.client.filter", ValueType::String).indom(STREAMS).discrete().each(
            |state: &mut State, _, inst| {
                Ok(state.streams.get(inst).map(|s| Value::from(s.filter().to_owned())))
            },
        ),
    ]
}

fn cursor(state: &State, inst: Inst) -> Option<CursorStats> {
    let stream = state.streams.get(inst)?;
    state.sources.get(stream.source)?.log.cursor_stats(stream.cursor)
}
