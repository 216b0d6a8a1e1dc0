//! Configuration of the series of numbers that others push: `[series]`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::interval::Interval;
use crate::setting::{InvalidKey, in_range};
use crate::size::ByteSize;

/// How much is kept of metrics that others push.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct SeriesConfig {
    /// Metrics, the parts of histograms counted apart.
    pub max_metrics: u32,
    /// Series of one metric; those beyond go into its overflow instance.
    pub max_per_metric: u32,
    /// Series of all metrics. Clients ask for the labels of all instances at once, so what there may be by default fits an answer.
    pub max_series: u32,
    /// Memory for series with their names and labels.
    pub budget: ByteSize,
    /// A series that has had no point for so long is forgotten.
    pub forget_after: Interval,
    /// Whether it is kept when sums began, as a series of each.
    pub starts: bool,
}

impl Default for SeriesConfig {
    fn default() -> SeriesConfig {
        SeriesConfig {
            max_metrics: 4096,
            max_per_metric: 5000,
            max_series: 20_000,
            budget: ByteSize(64 << 20),
            forget_after: Interval(Duration::from_secs(3600)),
            starts: false,
        }
    }
}

impl SeriesConfig {
    /// Checks ranges.
    ///
    /// # Errors
    /// The first key that is wrong.
    pub fn validate(&self) -> Result<(), InvalidKey> {
        in_range("max_metrics", self.max_metrics.into(), 1..=65_536)?;
        in_range("max_per_metric", self.max_per_metric.into(), 1..=10_000_000)?;
        in_range("max_series", self.max_series.into(), 1..=10_000_000)?;
        in_range("budget", self.budget.0, 1 << 20..=64 << 30)?;
        let seconds = self.forget_after.0.as_secs();
        if !(1..=31 * 86_400).contains(&seconds) {
            return Err(InvalidKey::other(
                "forget_after",
                format!("{} is not between 1s and 31d", self.forget_after),
            ));
        }
        Ok(())
    }
}
