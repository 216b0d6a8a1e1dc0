//! `jumpseat.self.follow.*`: the thread that follows files and commands.

use std::sync::atomic::{AtomicU64, Ordering};

use super::SOURCES;
use crate::State;
use jumpseat_source::follow::FollowStats;
use jumpseat_source::follow::stats::SourceStats;
use pcp_model::{Units, Value, ValueType};
use pcp_pmda::Metric;

pub fn metrics() -> Vec<Metric<State>> {
    let of = |name: &str, value_type, value: fn(&SourceStats) -> Option<Value>| {
        Metric::new(format!("jumpseat.self.follow.{name}"), value_type).indom(SOURCES).each(
            move |state: &mut State, _, inst| {
                Ok(state.follow.as_ref().and_then(|follow| follow.of(inst)).and_then(value))
            },
        )
    };
    let all = |name: &str, counter: fn(&FollowStats) -> &AtomicU64| {
        Metric::new(format!("jumpseat.self.follow.{name}"), ValueType::U64)
            .units(Units::COUNT)
            .counter()
            .value(move |state: &mut State| state.follow.as_ref().map_or(0, |follow| load(counter(follow))))
    };
    vec![
        of("files", ValueType::U32, |source| Some(Value::U32(source.files.load(Ordering::Relaxed))))
            .units(Units::COUNT),
        of("behind", ValueType::U64, |source| Some(Value::U64(load(&source.behind)))).units(Units::BYTE),
        of("state", ValueType::String, |source| Some(source.phase().word().into())).discrete(),
        of("restarts", ValueType::U64, |source| Some(Value::U64(load(&source.restarts))))
            .units(Units::COUNT)
            .counter(),
        of("status", ValueType::I32, |source| source.status().map(Value::I32)).discrete(),
        of("repaired", ValueType::U64, |source| Some(Value::U64(load(&source.repaired))))
            .units(Units::COUNT)
            .counter(),
        all("rotations", |follow| &follow.rotations),
        all("truncations", |follow| &follow.truncations),
        all("errors", |follow| &follow.errors),
        all("saves", |follow| &follow.saves),
    ]
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
