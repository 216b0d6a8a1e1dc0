//! `jumpseat.tail.*` and `jumpseat.control.tail.*`: whole traces that are kept or dropped.

use std::time::Duration;

use super::refusal::refuse_control;
use crate::config::{ByteSize, Interval};
use crate::state::State;
use jumpseat_source::tail::{TailConfig, TailSums};
use pcp_model::{PmError, Units, Value, ValueType};
use pcp_pmda::{Access, Metric};

pub(super) fn metrics(access: &Access) -> Vec<Metric<State>> {
    let sum = |name: &str, value: fn(&TailSums) -> u64| {
        Metric::new(format!("jumpseat.tail.{name}"), ValueType::U64)
            .units(Units::COUNT)
            .value(move |state: &mut State| value(&state.registry.tail().sums()))
    };
    let millis = |name: &'static str, of: fn(&mut TailConfig) -> &mut Interval| {
        let get = move |config: &mut TailConfig| Value::U32(of(config).0.as_millis() as u32);
        let set = move |config: &mut TailConfig, value: &Value| match value {
            Value::U32(millis) => {
                *of(config) = Interval(Duration::from_millis(u64::from(*millis)));
                true
            }
            _ => false,
        };
        control((name, ValueType::U32, Units::MILLISECOND), get, set, access)
    };
    vec![
        sum("kept.failed", |sums| sums.failed).counter(),
        sum("kept.slow", |sums| sums.slow).counter(),
        sum("kept.sampled", |sums| sums.sampled).counter(),
        sum("dropped", |sums| sums.dropped).counter(),
        sum("early", |sums| sums.early).counter(),
        sum("late", |sums| sums.late).counter(),
        sum("late_failed", |sums| sums.late_failed).counter(),
        sum("untracked", |sums| sums.untracked).counter(),
        sum("forgotten", |sums| sums.forgotten).counter(),
        sum("open", |sums| sums.open),
        sum("known", |sums| sums.known),
        Metric::new("jumpseat.tail.held.records", ValueType::U64)
            .units(Units::COUNT)
            .value(|state: &mut State| state.registry.tail().held().records()),
        Metric::new("jumpseat.tail.held.bytes", ValueType::U64)
            .units(Units::BYTE)
            .value(|state: &mut State| state.registry.tail().held().bytes()),
        millis("slow", |config| &mut config.slow),
        millis("window", |config| &mut config.window),
        millis("grace", |config| &mut config.grace),
        control(
            ("memory", ValueType::U64, Units::BYTE),
            |config| Value::U64(config.memory.0),
            |config, value| match value {
                Value::U64(bytes) => {
                    config.memory = ByteSize(*bytes);
                    true
                }
                _ => false,
            },
            access,
        ),
    ]
}

/// One of the limits, which can be stored. `set` tells whether the value is of the right type.
fn control(
    (name, value_type, units): (&'static str, ValueType, Units),
    get: impl Fn(&mut TailConfig) -> Value + 'static,
    set: impl Fn(&mut TailConfig, &Value) -> bool + 'static,
    access: &Access,
) -> Metric<State> {
    Metric::new(format!("jumpseat.control.tail.{name}"), value_type)
        .units(units)
        .discrete()
        .value(move |state: &mut State| get(&mut TailConfig::clone(&state.registry.tail().config())))
        .store(move |state, call, _, value| {
            let mut config = TailConfig::clone(&state.registry.tail().config());
            if !set(&mut config, value) {
                return Err(PmError::BADSTORE);
            }
            match config.validate() {
                Ok(()) => {
                    state.registry.tail().configure(config);
                    Ok(())
                }
                Err(invalid) => {
                    Err(refuse_control(state, call, &format!("tail.{name}"), value, &invalid.to_string()))
                }
            }
        })
        .access(access.clone())
}
