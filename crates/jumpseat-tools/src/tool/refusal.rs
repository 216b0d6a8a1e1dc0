//! What agents know of a store that they refused, and PCP's protocol has no words for.

use pcp_client::{Context, position};
use pcp_model::PmError;

use super::call::Call;

/// The agent's reason, or what would help, to stand behind the error; nothing where a tool has PCP's name.
pub(crate) fn refused(call: &Call, context: &mut Context, metric: &str, error: PmError) -> Option<String> {
    if call.pcp || !metric.starts_with("jumpseat.") {
        return None;
    }
    if error == PmError::PERMISSION {
        return Some(
            ": root may, and who is named in [control] users, on a Unix socket: -h unix:PATH".to_owned(),
        );
    }
    let reason = position::refusal(context).ok()??;
    Some(format!(": {reason}"))
}
