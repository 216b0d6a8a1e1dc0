//! Why stores are refused: told in the log, to the client, and to the user, whose tool may have ended by then.

use std::time::Instant;

use pcp_model::{PmError, PrintOptions, Value, ValueType};
use pcp_pmda::{Call, Metric};

use crate::state::State;

pub(super) fn metrics() -> Vec<Metric<State>> {
    vec![
        Metric::new("jumpseat.control.client.refused", ValueType::String).discrete().each(
            |state: &mut State, call, _| {
                Ok(state.streams.refusal(call.client).map(|reason| Value::from(reason.to_owned())))
            },
        ),
        Metric::new("jumpseat.control.refused", ValueType::String).discrete().each(
            |state: &mut State, call, _| {
                let uid = call.attributes.identity().uid;
                let refused = uid.and_then(|uid| state.refusals.of(uid));
                Ok(refused.map(|what| Value::from(what.to_owned())))
            },
        ),
    ]
}

/// Tells why something that a client has stored is refused.
pub(super) fn refuse(state: &mut State, call: &Call<'_>, what: &str, reason: &str) {
    // Whoever may store may not fill the log.
    if let Some(held_back) = state.refused_stores.allow(Instant::now()) {
        tracing::warn!(held_back, "{what} refused: {reason}");
    }
    state.streams.refuse(call.client, reason);
    if let Some(uid) = call.attributes.identity().uid {
        state.refusals.remember(uid, &format!("{what}: {reason}"));
    }
}

/// The same of a control metric, with the error to answer with.
pub(super) fn refuse_control(
    state: &mut State,
    call: &Call<'_>,
    metric: &str,
    value: &Value,
    reason: &str,
) -> PmError {
    let shown = words(value);
    refuse(state, call, &format!("jumpseat.control.{metric} = {shown}"), reason);
    PmError::BADSTORE
}

/// A stored value as people write it.
fn words(value: &Value) -> String {
    match value {
        Value::String(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
        other => {
            let mut text = Vec::new();
            other.print(PrintOptions::width(1), &mut text);
            String::from_utf8_lossy(&text).into_owned()
        }
    }
}
