//! `jumpseat.kernel.*`: what the kernel sources tell of themselves.

use std::sync::atomic::{AtomicU64, Ordering};

use super::SOURCES;
use crate::State;
use jumpseat_source::tracefs::KernelStats;
use pcp_model::{Inst, Units, Value, ValueType};
use pcp_pmda::Metric;

pub fn metrics() -> Vec<Metric<State>> {
    let of = |name: &str, value: fn(&KernelStats) -> &AtomicU64| {
        Metric::new(format!("jumpseat.kernel.{name}"), ValueType::U64)
            .indom(SOURCES)
            .units(Units::COUNT)
            .each(move |state: &mut State, _, inst| {
                Ok(kernel(state, inst).map(|stats| Value::U64(value(stats).load(Ordering::Relaxed))))
            })
    };
    vec![
        Metric::new("jumpseat.kernel.state", ValueType::String).indom(SOURCES).discrete().each(
            |state: &mut State, _, inst| {
                Ok(kernel(state, inst).map(|stats| Value::from(stats.state().to_owned())))
            },
        ),
        of("enabled", |stats| &stats.enabled),
        of("refused", |stats| &stats.refused),
        of("lost", |stats| &stats.lost).counter(),
        of("late", |stats| &stats.late).counter(),
    ]
}

fn kernel(state: &State, inst: Inst) -> Option<&KernelStats> {
    state.kernels.iter().find(|stats| stats.source == inst).map(|stats| &**stats)
}
