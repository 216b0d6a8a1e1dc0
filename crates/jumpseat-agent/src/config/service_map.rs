//! The table `[service_map]`.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use jumpseat_source::Interval;

use super::problem::{OutOfRange, limit};

/// Largest number of ends of calls that wait for the other one, which take about 100 bytes each.
pub const MAX_PENDING: u32 = 1024 * 1024;
/// Largest number of pairs of services, which take about 300 bytes each.
pub const MAX_EDGES: u32 = 64 * 1024;
/// Range of the time that an end of a call waits for the other one.
pub const MAP_WAIT: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);

/// The map of which source's spans call which other's.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServiceMapConfig {
    /// Whether there is one: spans then cost about twice as much.
    pub enabled: bool,
    /// How long a span waits for one that has called it, and one that calls for those it has called.
    pub wait: Interval,
    /// Number of spans that wait, of either kind; beyond, the oldest give up.
    pub max_pending: u32,
    /// Number of pairs of services; calls of further ones count as `(other)`.
    pub max_edges: u32,
    /// How far a span may be outside the one that has called it before their clocks are said to differ.
    pub tolerance: Interval,
}

impl Default for ServiceMapConfig {
    fn default() -> ServiceMapConfig {
        ServiceMapConfig {
            enabled: false,
            wait: Interval(Duration::from_secs(60)),
            max_pending: 65_536,
            max_edges: 1000,
            tolerance: Interval(Duration::from_millis(10)),
        }
    }
}

impl ServiceMapConfig {
    pub(crate) fn check(&self) -> Result<(), OutOfRange> {
        limit(self.max_pending <= MAX_PENDING, ("service_map", "max_pending"), self.max_pending, || {
            format!("0 to {MAX_PENDING}")
        })?;
        limit(self.max_edges <= MAX_EDGES, ("service_map", "max_edges"), self.max_edges, || {
            format!("0 to {MAX_EDGES}")
        })?;
        limit(MAP_WAIT.contains(&self.wait.0), ("service_map", "wait"), self.wait, || {
            let [least, most] = [MAP_WAIT.start(), MAP_WAIT.end()].map(|end| Interval(*end));
            format!("{least} to {most}")
        })
    }
}
