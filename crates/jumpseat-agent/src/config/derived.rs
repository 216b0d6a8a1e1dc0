//! The table `[derived]`.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use jumpseat_source::{ByteSize, Interval, InvalidKey};
use pcp_client::HostSpec;

use super::problem::{OutOfRange, limit};

/// Range of the time between samples of other agents' metrics.
pub const SAMPLE_INTERVAL: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(3600);
/// Range of the window of the agent's own history, if there is one.
const HISTORY: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);
/// Largest number of metrics of other agents in definitions: what one request to pmcd holds with ease.
pub const MAX_OPERANDS: u32 = 8192;

/// The derived metrics.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct DerivedConfig {
    /// Files with definitions, and directories of such files. Relative paths start where the configuration
    /// file is. `None` stands for the definitions that are compiled in, those of `install/derived.conf`.
    pub files: Option<Vec<PathBuf>>,
    /// Take the language of PCP's own derived metrics only, without this engine's additions.
    pub portable: bool,
    /// Memory for the values that derived metrics remember, of all clients. When it is used up, clients that
    /// come new get `PM_ERR_AGAIN`.
    pub history_budget: ByteSize,
    /// How often the agent samples for readers without a history; zero: never.
    pub history: Interval,
    /// The pmcd that is asked for metrics of other agents, as a host specification. `None` is the one of this
    /// host for an agent under pmcd, and none for others.
    pub pmcd: Option<String>,
    /// Time between samples of other agents' metrics.
    pub sample_interval: Interval,
    /// Most bytes of values in a sample.
    pub sample_budget: ByteSize,
    /// Number of metrics of other agents, over all definitions.
    pub max_operands: u32,
}

impl Default for DerivedConfig {
    fn default() -> DerivedConfig {
        DerivedConfig {
            files: None,
            portable: false,
            history_budget: ByteSize(64 << 20),
            history: Interval(Duration::ZERO),
            pmcd: None,
            sample_interval: Interval(Duration::from_secs(1)),
            sample_budget: ByteSize(16 << 20),
            max_operands: 1024,
        }
    }
}

impl DerivedConfig {
    /// Checks the files' paths and the host.
    pub(crate) fn check_places(&self) -> Result<(), InvalidKey> {
        let mut files = HashSet::new();
        for file in self.files.iter().flatten() {
            if file.as_os_str().is_empty() {
                return Err(InvalidKey::other("files", "an empty path"));
            }
            if !files.insert(file) {
                return Err(InvalidKey::other("files", format!("{} is there twice", file.display())));
            }
        }
        let host = self.pmcd.as_deref().filter(|host| !host.is_empty());
        match host.map(str::parse::<HostSpec>) {
            Some(Err(error)) => Err(InvalidKey::other("pmcd", error.to_string().trim_end().to_owned())),
            _ => Ok(()),
        }
    }

    pub(crate) fn check_limits(&self) -> Result<(), OutOfRange> {
        let (history, zero) = (self.history, Interval(Duration::ZERO));
        limit(history == zero || HISTORY.contains(&history.0), ("derived", "history"), history, || {
            let [least, most] = [HISTORY.start(), HISTORY.end()].map(|end| Interval(*end));
            format!("{zero}, or {least} to {most}")
        })?;
        let interval = self.sample_interval;
        limit(SAMPLE_INTERVAL.contains(&interval.0), ("derived", "sample_interval"), interval, || {
            let [least, most] = [SAMPLE_INTERVAL.start(), SAMPLE_INTERVAL.end()].map(|end| Interval(*end));
            format!("{least} to {most}")
        })?;
        limit(self.max_operands <= MAX_OPERANDS, ("derived", "max_operands"), self.max_operands, || {
            format!("0 to {MAX_OPERANDS}")
        })
    }
}
