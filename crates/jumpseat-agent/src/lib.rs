//! The jumpseat agent itself: sources, event logs, client streams, and the metrics made of them.
//!
//! [`RunningAgent::open`] puts everything together from a [`Config`] and starts the source threads; the binaries
//! then choose who is served, pmcd or direct clients, and run the event loop.
//!
//! Lowest first, and nothing knows what is below it in this list:
//!
//! * `identity`: every number and name that archives remember.
//! * [`config`]: what the configuration says.
//! * `sampler`: values of other agents' metrics; `derived`: metrics computed from others.
//! * `state`: what the agent knows. It knows no metric and no kind of source.
//! * `kinds`: the list of kinds of sources, each with its check, its start and its metrics.
//! * `load`: a configuration file, read and checked; `reload`: the same while the agent runs.
//! * `metrics`: tables of metrics over the state.
//! * `reach`, `confine`: what the process gives up, and what a reload may still reach; `housekeeper`, with `trim`: what is done although nothing
//!   comes; `settled`: what a start waits for last; `agent`: all put together.
//! * [`changes`]: what one configuration changes in another; `running`: what an agent that runs has read; [`check`]: a
//!   configuration against the machine it is for.

mod agent;
pub mod changes;
pub mod check;
pub mod config;
mod confine;
mod derived;
pub mod handover;
mod housekeeper;
mod identity;
mod kinds;
mod load;
mod logs;
mod metrics;
mod reach;
mod reload;
mod restart;
mod rights;
mod running;
mod sampler;
mod settled;
mod state;
#[cfg(test)]
mod tests;
mod trim;

use std::path::PathBuf;

pub use agent::{Clients, OpenError, RunningAgent, Setup, Signals};
pub use config::{Config, ConfigError};
pub use confine::Trust;
pub use identity::{DEFAULT_DOMAIN, NAME};
pub use reload::Adjust;
pub use state::State;
pub use state::fields::Fields;
pub use state::spans::{SourceSpans, Span, Spans, SpansBySource};

/// The source text of the agent's name space.
pub const PMNS: &str = include_str!("../pmns/jumpseat");
/// The source text of the agent's help.
pub const HELP: &str = include_str!("../help/jumpseat");

/// Where identifiers are kept unless something else is said: PCP's own place for instance identifiers.
pub fn default_state_dir() -> PathBuf {
    let var = pcp_files::settings::setting("PCP_VAR_DIR")
        .map_or_else(|| PathBuf::from("/var/lib/pcp"), PathBuf::from);
    var.join("config/pmda")
}

/// The installed configuration.
pub fn default_config() -> PathBuf {
    let etc = std::env::var_os("PCP_SYSCONF_DIR").map_or_else(|| PathBuf::from("/etc/pcp"), PathBuf::from);
    etc.join("jumpseat/jumpseat.toml")
}

/// Where pmcd's clients are kept unless something else is said: PCP's place for what ends with the machine.
pub(crate) fn default_run_dir() -> PathBuf {
    pcp_files::settings::run_dir()
}

/// The examples of README.md are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
