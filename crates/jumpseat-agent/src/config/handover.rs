//! `[handover]`: what is left to the next agent.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use jumpseat_source::Interval;

/// Longest time to keep listeners for an agent that does not come.
const MAX_KEEP: Duration = Duration::from_secs(3600);

/// From one agent to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct HandoverConfig {
    /// How long listeners stay open when the agent has ended, and those who connect wait for the next one. Nothing stays
    /// open with zero.
    pub keep: Interval,
}

impl Default for HandoverConfig {
    fn default() -> HandoverConfig {
        // pmcd starts an agent that has ended at most once a minute.
        HandoverConfig { keep: Interval(Duration::from_secs(90)) }
    }
}

impl HandoverConfig {
    pub(crate) fn check(&self) -> Result<(), super::OutOfRange> {
        let allowed = || "\"0s\", which switches it off, to \"1h\"".to_owned();
        super::problem::limit(self.keep.0 <= MAX_KEEP, ("handover", "keep"), self.keep, allowed)
    }
}
