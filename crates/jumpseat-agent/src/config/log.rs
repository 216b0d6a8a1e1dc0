//! The table `[log]`.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jumpseat_log::{Limits, SyncMode};
use jumpseat_source::{ByteSize, Interval};
use serde::{Deserialize, Serialize};

use super::problem::{OutOfRange, limit};

/// Smallest budget on disk.
pub const MIN_LOG_BUDGET: u64 = 1 << 20;
/// Range of the interval at which the log is synced.
pub const SYNC_INTERVAL: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(3600);
/// What `dir` says to keep records in memory only.
const MEMORY: &str = "memory";

/// Where records are kept besides memory, and how well.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// The directory; `None` is one in the state directory, `memory` none.
    pub dir: Option<PathBuf>,
    /// The directory for what pmcd's clients have here; `None` is PCP's for what ends with the machine, `memory` none.
    pub contexts: Option<PathBuf>,
    /// Bytes on disk for the records of one source.
    pub source_budget: ByteSize,
    /// Bytes on disk for the records of all sources.
    pub total_budget: ByteSize,
    /// What survives a loss of power.
    pub sync: Syncing,
    /// How often what is new is synced, for `sync = "interval"`.
    pub sync_interval: Interval,
}

/// What survives a loss of power.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Syncing {
    /// What the system happens to have written.
    #[default]
    Never,
    /// All but what came within the interval.
    Interval,
    /// All that was acknowledged.
    Batch,
}

impl Default for LogConfig {
    fn default() -> LogConfig {
        LogConfig {
            dir: None,
            contexts: None,
            source_budget: ByteSize(256 << 20),
            total_budget: ByteSize(1 << 30),
            sync: Syncing::default(),
            sync_interval: Interval(Duration::from_secs(1)),
        }
    }
}

impl LogConfig {
    pub(crate) fn check(&self) -> Result<(), OutOfRange> {
        let (source, total) = (self.source_budget.0, self.total_budget.0);
        limit(source >= MIN_LOG_BUDGET, ("log", "source_budget"), source, || {
            format!("{MIN_LOG_BUDGET} bytes or more")
        })?;
        limit(total >= source, ("log", "total_budget"), total, || {
            format!("log.source_budget ({source}) or more")
        })?;
        for (key, dir) in [("dir", &self.dir), ("contexts", &self.contexts)] {
            let named = dir.as_ref().is_none_or(|dir| !dir.as_os_str().is_empty());
            limit(named, ("log", key), "\"\"", || format!("the path of a directory, or \"{MEMORY}\""))?;
        }
        limit(
            SYNC_INTERVAL.contains(&self.sync_interval.0),
            ("log", "sync_interval"),
            self.sync_interval,
            || {
                let [least, most] = [SYNC_INTERVAL.start(), SYNC_INTERVAL.end()].map(|end| Interval(*end));
                format!("{least} to {most}")
            },
        )
    }

    /// The directory of an agent's log; `None`: memory only. `state_dir`: where its identifiers are, if on disk.
    pub fn dir(&self, state_dir: Option<&Path>, domain: u16) -> Option<PathBuf> {
        match &self.dir {
            Some(dir) if dir.as_os_str() == MEMORY => None,
            Some(dir) => Some(dir.clone()),
            // Without identifiers that last, records that do would be of nobody knows what.
            None => state_dir.map(|state| state.join(format!("{domain}.log"))),
        }
    }

    /// The directory for what pmcd's clients have; `None`: it ends with the agent.
    pub(crate) fn contexts(&self) -> Option<PathBuf> {
        match &self.contexts {
            Some(dir) if dir.as_os_str() == MEMORY => None,
            dir => Some(dir.clone().unwrap_or_else(crate::default_run_dir)),
        }
    }

    /// The sizes, for so many sources.
    pub(crate) fn limits(&self, sources: u32) -> Limits {
        let sync = match self.sync {
            Syncing::Never => SyncMode::Never,
            Syncing::Interval => SyncMode::Interval,
            Syncing::Batch => SyncMode::Batch,
        };
        Limits::new(self.source_budget.0, self.total_budget.0, sources as usize, sync)
    }
}
