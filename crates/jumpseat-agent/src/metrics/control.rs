//! `jumpseat.control.*`: what can be changed with pmstore.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::refusal::refuse_control;
use crate::config::{ByteSize, FETCH_LIMIT, MAX_RECENT, MIN_SOURCE_BUDGET, SAMPLE_INTERVAL};
use crate::reload::reload;
use crate::restart::Restart;
use crate::state::State;
use pcp_model::{PmError, Units, Value, ValueType};
use pcp_pmda::{Access, Call, Metric};

/// What may be stored, in words.
type Allowed = String;

pub(super) fn metrics(access: &Access) -> Vec<Metric<State>> {
    let size =
        |name: &'static str, get: fn(&State) -> ByteSize, set: fn(&mut State, u64) -> Result<(), Allowed>| {
            Metric::new(format!("jumpseat.control.{name}"), ValueType::U64)
                .units(Units::BYTE)
                .discrete()
                .value(move |state: &mut State| get(state).0)
                .store(move |state, call, _, value| match value {
                    Value::U64(bytes) => {
                        set(state, *bytes).map_err(|allowed| refuse(state, call, name, value, &allowed))
                    }
                    _ => Err(PmError::BADSTORE),
                })
                .access(access.clone())
        };
    vec![
        size(
            "source_budget",
            |state| state.limits.source_budget,
            |state, bytes| {
                let right = MIN_SOURCE_BUDGET..=state.limits.total_budget.0;
                within(bytes, &right)?;
                state.limits.source_budget = ByteSize(bytes);
                state.share_budget();
                Ok(())
            },
        ),
        size(
            "total_budget",
            |state| state.limits.total_budget,
            |state, bytes| {
                let least =
                    state.limits.source_budget.0.max(u64::from(state.limits.max_sources) * MIN_SOURCE_BUDGET);
                if bytes < least {
                    return Err(format!("{least} bytes or more"));
                }
                state.limits.total_budget = ByteSize(bytes);
                state.share_budget();
                Ok(())
            },
        ),
        size(
            "fetch_limit",
            |state| state.limits.fetch_limit,
            |state, bytes| {
                within(bytes, &FETCH_LIMIT)?;
                state.limits.fetch_limit = ByteSize(bytes);
                Ok(())
            },
        ),
        Metric::new("jumpseat.control.recent", ValueType::U32)
            .units(Units::COUNT)
            .discrete()
            .value(|state: &mut State| state.limits.recent)
            .store(|state, call, _, value| match value {
                Value::U32(number) if *number <= MAX_RECENT => {
                    state.set_recent(*number);
                    Ok(())
                }
                Value::U32(_) => Err(refuse(state, call, "recent", value, &format!("0 to {MAX_RECENT}"))),
                _ => Err(PmError::BADSTORE),
            })
            .access(access.clone()),
        Metric::new("jumpseat.control.sample_interval", ValueType::U32)
            .units(Units::MILLISECOND)
            .discrete()
            .value(|state: &mut State| state.derived.foreign.interval().as_millis() as u32)
            .store(|state, call, _, value| match value {
                Value::U32(millis) => {
                    let interval = Duration::from_millis(u64::from(*millis));
                    if !SAMPLE_INTERVAL.contains(&interval) {
                        let [least, most] =
                            [SAMPLE_INTERVAL.start(), SAMPLE_INTERVAL.end()].map(Duration::as_millis);
                        let allowed = format!("{least} to {most}");
                        return Err(refuse(state, call, "sample_interval", value, &allowed));
                    }
                    state.derived.set_interval(interval);
                    Ok(())
                }
                _ => Err(PmError::BADSTORE),
            })
            .access(access.clone()),
        Metric::new("jumpseat.control.reload", ValueType::U32)
            .units(Units::COUNT)
            .discrete()
            .value(|state: &mut State| state.derived.reloads())
            .store(|state, call, _, value| match value {
                Value::U32(1) if reload(state) => Ok(()),
                Value::U32(1) => {
                    refuse_control(
                        state,
                        call,
                        "reload",
                        value,
                        "not all of it is in effect; `jumpseat config check` and the agent's log tell why",
                    );
                    Err(PmError::GENERIC)
                }
                _ => Err(refuse(state, call, "reload", value, "1, which reads the configuration again")),
            })
            .access(access.clone()),
        Metric::new("jumpseat.control.handover", ValueType::U32)
            .units(Units::COUNT)
            .discrete()
            .value(|state: &mut State| state.restart.as_ref().map_or(0, Restart::held) as u32)
            .store(|state, call, _, value| match value {
                Value::U32(1) => match state.restart.as_ref().map(Restart::begin) {
                    Some(Ok(())) => Ok(()),
                    Some(Err(why)) => Err(refuse_control(state, call, "handover", value, &why)),
                    None => Err(PmError::GENERIC),
                },
                _ => Err(refuse(state, call, "handover", value, "1, which ends the agent for the next one")),
            })
            .access(access.clone()),
    ]
}

fn within(bytes: u64, right: &RangeInclusive<u64>) -> Result<(), Allowed> {
    if right.contains(&bytes) { Ok(()) } else { Err(format!("{} to {} bytes", right.start(), right.end())) }
}

fn refuse(state: &mut State, call: &Call<'_>, name: &str, value: &Value, allowed: &str) -> PmError {
    refuse_control(state, call, name, value, &format!("allowed is {allowed}"))
}
