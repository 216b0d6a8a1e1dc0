//! `jumpseat.control.*`: limits that can be changed with pmstore.

use crate::agent::{Access, Metric};
use crate::model::{PmError, Units, Value, ValueType};
use crate::seat::State;
use crate::seat::config::{ByteSize, FETCH_LIMIT, MAX_RECENT, MIN_SOURCE_BUDGET};

pub fn metrics(access: &Access) -> Vec<Metric<State>> {
    let size = |name: &str, get: fn(&State) -> ByteSize, set: fn(&mut State, u64) -> bool| {
        Metric::new(format!("jumpseat.control.{name}"), ValueType::U64)
            .units(Units::BYTE)
            .discrete()
            .value(move |state: &mut State| get(state).0)
            .store(move |state, _, _, value| match value {
                Value::U64(bytes) if set(state, *bytes) => Ok(()),
                _ => Err(PmError::BADSTORE),
            })
            .access(access.clone())
    };
    vec![
        size(
            "source_budget",
            |state| state.limits.source_budget,
            |state, bytes| {
                let right = bytes >= MIN_SOURCE_BUDGET && bytes <= state.limits.total_budget.0;
                if right {
                    state.limits.source_budget = ByteSize(bytes);
                    state.share_budget();
                }
                right
            },
        ),
        size(
            "total_budget",
            |state| state.limits.total_budget,
            |state, bytes| {
                let least =
                    state.limits.source_budget.0.max(u64::from(state.limits.max_sources) * MIN_SOURCE_BUDGET);
                if bytes >= least {
                    state.limits.total_budget = ByteSize(bytes);
                    state.share_budget();
                }
                bytes >= least
            },
        ),
        size(
            "fetch_limit",
            |state| state.limits.fetch_limit,
            |state, bytes| {
                let right = FETCH_LIMIT.contains(&bytes);
                if right {
                    state.limits.fetch_limit = ByteSize(bytes);
                }
                right
            },
        ),
        Metric::new("jumpseat.control.recent", ValueType::U32)
            .units(Units::COUNT)
            .discrete()
            .value(|state: &mut State| state.limits.recent)
            .store(|state, _, _, value| match value {
                Value::U32(number) if *number <= MAX_RECENT => {
                    state.set_recent(*number);
                    Ok(())
                }
                _ => Err(PmError::BADSTORE),
            })
            .access(access.clone()),
    ]
}
