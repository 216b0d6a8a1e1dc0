//! `[confine]`: what the process gives up.

use serde::{Deserialize, Serialize};

/// What the agent's process gives up at its start. All of it, unless the configuration says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConfineConfig {
    /// Capabilities, and more rights for programs that the agent starts. The other two need this.
    pub privileges: bool,
    /// Files: only the agent's own are written.
    pub files: bool,
    /// System calls that it does not need.
    pub system_calls: bool,
}

impl Default for ConfineConfig {
    fn default() -> ConfineConfig {
        ConfineConfig { privileges: true, files: true, system_calls: true }
    }
}
