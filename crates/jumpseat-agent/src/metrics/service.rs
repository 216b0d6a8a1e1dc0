//! `jumpseat.service.*`: which source's spans call which other's.

use crate::identity::CALLS;
use crate::state::State;
use crate::state::spans::service_map::{Edge, ServiceMap};
use pcp_model::{Units, Value, ValueType};
use pcp_pmda::Metric;

pub(super) fn metrics() -> Vec<Metric<State>> {
    let of = |name: &str, units, value: fn(&Edge) -> u64| {
        Metric::new(format!("jumpseat.service.{name}"), ValueType::U64)
            .indom(CALLS)
            .units(units)
            .counter()
            .each(move |state: &mut State, _, inst| {
                Ok(state.spans.services.get(inst).map(|(_, edge)| Value::U64(value(edge))))
            })
    };
    let total = |name: &str, value: fn(&ServiceMap) -> u64| {
        Metric::new(format!("jumpseat.service.{name}"), ValueType::U64).units(Units::COUNT).value(
            move |state: &mut State| {
                // What is over by now has gone, also if nothing has come since.
                let now = state.spans.now();
                state.spans.services.expire(now);
                value(&state.spans.services)
            },
        )
    };
    vec![
        of("calls", Units::COUNT, |edge| edge.calls),
        of("errors", Units::COUNT, |edge| edge.errors),
        of("time", Units::NANOSECOND, |edge| edge.time),
        of("called_time", Units::NANOSECOND, |edge| edge.called_time),
        of("skewed", Units::COUNT, |edge| edge.skewed),
        total("pending", |map| map.pending() as u64),
        total("orphans", |map| map.orphans).counter(),
        total("unanswered", |map| map.unanswered).counter(),
        total("overflow", |map| map.overflow).counter(),
        total("folded", |map| map.folded).counter(),
    ]
}
