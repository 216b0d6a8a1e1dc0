//! What the standard options of a command line say.

use std::sync::Arc;
use std::time::Duration;

use pcp_client::{LocalAgents, NameSpace};

/// The standard options of a command line that make sense together.
#[derive(Debug, Default)]
pub(crate) struct Common {
    /// Start samples at a multiple of this interval.
    pub align: Option<String>,
    /// Archives, in the order of the command line.
    pub archives: Vec<String>,
    /// The container whose metrics are wanted.
    pub container: Option<String>,
    /// End of the time window.
    pub finish: Option<String>,
    /// Whether a time control is wanted.
    pub gui: bool,
    /// The port of one that runs.
    pub gui_port: Option<String>,
    /// The collector asked.
    pub host: Option<String>,
    /// The sampling interval.
    pub interval: Option<Duration>,
    /// Whether agents are to be started by the tool. Wins over host and archives.
    pub local: bool,
    /// The agents that it may start, where the command line says so.
    pub local_agents: Option<LocalAgents>,
    /// Names that stand in for the source's.
    pub names: Option<Arc<NameSpace>>,
    /// The first sample within the time window.
    pub origin: Option<String>,
    /// How many samples are wanted.
    pub samples: Option<u64>,
    /// Start of the time window.
    pub start: Option<String>,
    /// The time zone to print times in.
    pub zone: Option<Zone>,
}

/// A time zone asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Zone {
    /// That of the source of metrics.
    Source,
    /// One as TZ has it.
    Named(String),
}
