//! `jumpseat.self.tokens.*`: what is done with the tokens of receivers, by their names.

use std::sync::atomic::{AtomicU64, Ordering};

use jumpseat_source::guard::book::TokenCounts;
use pcp_model::{Units, Value, ValueType};
use pcp_pmda::Metric;

use crate::identity::TOKENS;
use crate::state::State;

pub(super) fn metrics() -> Vec<Metric<State>> {
    let of = |name: &str, units, counter: fn(&TokenCounts) -> &AtomicU64| {
        Metric::new(format!("jumpseat.self.tokens.{name}"), ValueType::U64).indom(TOKENS).units(units).each(
            move |state: &mut State, _, inst| {
                let counts = state.tokens.counts(inst);
                Ok(counts.map(|counts| Value::U64(counter(counts).load(Ordering::Relaxed))))
            },
        )
    };
    vec![
        of("requests", Units::COUNT, |counts| &counts.requests).counter(),
        of("records", Units::COUNT, |counts| &counts.records).counter(),
        of("rejected", Units::COUNT, |counts| &counts.rejected).counter(),
        of("over_limit", Units::COUNT, |counts| &counts.over_limit).counter(),
        of("forbidden", Units::COUNT, |counts| &counts.forbidden).counter(),
        of("bytes", Units::BYTE, |counts| &counts.bytes).counter(),
        of("in_flight", Units::COUNT, |counts| &counts.in_flight),
        of("last_seen", Units::MILLISECOND, |counts| &counts.last_seen),
    ]
}
