//! `jumpseat.objective.*`: which part of spans is good, against what is expected.

use crate::identity::OBJECTIVES;
use crate::state::State;
use crate::state::spans::objectives::Objective;
use pcp_model::{Units, Value, ValueType};
use pcp_pmda::Metric;

pub(super) fn metrics() -> Vec<Metric<State>> {
    let count = |name: &str, value: fn(&Objective) -> u64| {
        Metric::new(format!("jumpseat.objective.{name}"), ValueType::U64)
            .indom(OBJECTIVES)
            .units(Units::COUNT)
            .counter()
            .each(move |state: &mut State, _, inst| {
                Ok(state.spans.objectives.get(inst).map(|objective| Value::U64(value(objective))))
            })
    };
    let of = |name: &str, units, value: fn(&Objective, u64) -> Option<f64>| {
        Metric::new(format!("jumpseat.objective.{name}"), ValueType::Double)
            .indom(OBJECTIVES)
            .units(units)
            .each(move |state: &mut State, _, inst| {
                let now = state.spans.objectives.time(state.spans.now());
                let objective = state.spans.objectives.get(inst);
                Ok(objective.and_then(|objective| value(objective, now)).map(Value::Double))
            })
    };
    let recent = |name: &str, value: fn(&Objective, u64) -> u64| {
        Metric::new(format!("jumpseat.objective.{name}"), ValueType::U64)
            .indom(OBJECTIVES)
            .units(Units::COUNT)
            .each(move |state: &mut State, _, inst| {
                let now = state.spans.objectives.time(state.spans.now());
                let objective = state.spans.objectives.get(inst);
                Ok(objective.map(|objective| Value::U64(value(objective, now))))
            })
    };
    vec![
        recent("ended.window", |objective, now| objective.in_window(now).total),
        recent("ended.m5", |objective, now| objective.in_minutes(5, now).total),
        recent("ended.h1", |objective, now| objective.in_minutes(60, now).total),
        recent("ended.h6", |objective, now| objective.in_minutes(360, now).total),
        recent("bad.window", |objective, now| objective.in_window(now).bad()),
        recent("bad.m5", |objective, now| objective.in_minutes(5, now).bad()),
        recent("bad.h1", |objective, now| objective.in_minutes(60, now).bad()),
        recent("bad.h6", |objective, now| objective.in_minutes(360, now).bad()),
        count("good", |objective| objective.tally.good),
        count("total", |objective| objective.tally.total),
        of("target", Units::NONE, |objective, _| Some(objective.config.target)),
        of("threshold", Units::SECOND, |objective, _| {
            objective.config.threshold.map(|most| most.0.as_secs_f64())
        }),
        of("window", Units::SECOND, |objective, _| Some(objective.config.window.0.as_secs_f64())),
        of("covered", Units::SECOND, |objective, now| Some(objective.covered(now).as_secs_f64())),
        of("error_ratio", Units::NONE, Objective::error_ratio),
        of("budget", Units::NONE, Objective::budget),
        of("burn_rate.m5", Units::NONE, |objective, now| objective.burn_rate(5, now)),
        of("burn_rate.h1", Units::NONE, |objective, now| objective.burn_rate(60, now)),
        of("burn_rate.h6", Units::NONE, |objective, now| objective.burn_rate(360, now)),
    ]
}
