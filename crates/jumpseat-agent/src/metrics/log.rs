//! `jumpseat.log.*`: the records on disk.

use jumpseat_log::{LogStats, SourceStats};
use pcp_model::{Units, Value, ValueType};
use pcp_pmda::Metric;

use crate::identity::SOURCES;
use crate::state::State;

pub(super) fn metrics() -> Vec<Metric<State>> {
    let of = |name: &str, units, value: fn(&SourceStats) -> u64| {
        Metric::new(format!("jumpseat.log.{name}"), ValueType::U64).indom(SOURCES).units(units).each(
            move |state: &mut State, _, inst| {
                Ok(of_source(state, inst).map(|stats| Value::U64(value(&stats))))
            },
        )
    };
    let all = |name: &str, units, value: fn(&LogStats) -> u64| {
        Metric::new(format!("jumpseat.log.{name}"), ValueType::U64).units(units).each(
            move |state: &mut State, _, _| {
                Ok(state.registry.logs().map(|logs| Value::U64(value(&logs.stats()))))
            },
        )
    };
    vec![
        of("first", Units::COUNT, |stats| stats.first),
        of("next", Units::COUNT, |stats| stats.next),
        of("synced", Units::COUNT, |stats| stats.synced),
        of("bytes", Units::BYTE, |stats| stats.bytes),
        of("files", Units::COUNT, |stats| stats.segments as u64),
        Metric::new("jumpseat.log.epoch", ValueType::String).indom(SOURCES).discrete().each(
            |state: &mut State, _, inst| {
                Ok(of_source(state, inst).map(|stats| format!("{:016x}", stats.epoch).into()))
            },
        ),
        Metric::new("jumpseat.log.since", ValueType::Double).indom(SOURCES).units(Units::SECOND).each(
            |state: &mut State, _, inst| {
                Ok(of_source(state, inst).map(|stats| Value::Double(stats.since as f64)))
            },
        ),
        Metric::new("jumpseat.log.state", ValueType::String).indom(SOURCES).discrete().each(
            |state: &mut State, _, inst| {
                let Some(source) = state.sources.get(inst) else { return Ok(None) };
                let word = match source.disk.as_ref().map(|disk| disk.stats().failing) {
                    None => "memory",
                    Some(false) => "disk",
                    Some(true) => "memory: the disk does not take them",
                };
                Ok(Some(word.into()))
            },
        ),
        all("total.bytes", Units::BYTE, |stats| stats.bytes),
        all("total.budget", Units::BYTE, |stats| stats.budget),
        all("total.failures", Units::COUNT, |stats| stats.failures).counter(),
        all("total.recovered", Units::COUNT, |stats| stats.recovered).counter(),
        all("total.torn", Units::COUNT, |stats| stats.torn).counter(),
        all("total.damaged", Units::COUNT, |stats| stats.damaged).counter(),
        all("total.set_aside", Units::COUNT, |stats| stats.set_aside).counter(),
    ]
}

fn of_source(state: &State, inst: i32) -> Option<SourceStats> {
    Some(state.sources.get(inst)?.disk.as_ref()?.stats())
}
