//! The table `[spans]`.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use jumpseat_source::Interval;

use super::problem::{OutOfRange, limit};

/// Largest number of span names, which take about 5 KiB each, and 17 where some take 10,000 times as long as others.
pub const MAX_SPANS: u32 = 16 * 1024;
/// Largest number of open spans, which take about 100 bytes each.
pub const MAX_OPEN_SPANS: u32 = 4 * 1024 * 1024;
/// Largest number of series, which take about 2 KiB each, and 5 where some spans take 10,000 times as long as others.
pub const MAX_SERIES: u32 = 64 * 1024;
/// Range of the time that quantiles look back.
pub const SPAN_WINDOW: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);

/// Limits of the span metrics.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct SpansConfig {
    /// Number of span names over all sources; spans of further ones count as `SOURCE/(other)`.
    pub max_names: u32,
    /// Number of open spans over all sources.
    pub max_open: u32,
    /// Number of series of spans with dimensions over all sources; spans of further ones count as `(other)` of their name.
    pub max_series: u32,
    /// A span that has not ended after this is given up on.
    pub max_age: Interval,
    /// How long an END waits for a START that comes later.
    pub grace: Interval,
    /// How far back quantiles and the longest duration reach.
    pub window: Interval,
}

impl Default for SpansConfig {
    fn default() -> SpansConfig {
        let seconds = |number| Interval(Duration::from_secs(number));
        SpansConfig {
            max_names: 1000,
            max_open: 65_536,
            max_series: 4000,
            max_age: seconds(3600),
            grace: seconds(1),
            window: seconds(60),
        }
    }
}

impl SpansConfig {
    pub(crate) fn check(&self) -> Result<(), OutOfRange> {
        limit(self.max_names <= MAX_SPANS, ("spans", "max_names"), self.max_names, || {
            format!("0 to {MAX_SPANS}")
        })?;
        limit(self.max_open <= MAX_OPEN_SPANS, ("spans", "max_open"), self.max_open, || {
            format!("0 to {MAX_OPEN_SPANS}")
        })?;
        limit(self.max_series <= MAX_SERIES, ("spans", "max_series"), self.max_series, || {
            format!("0 to {MAX_SERIES}")
        })?;
        limit(SPAN_WINDOW.contains(&self.window.0), ("spans", "window"), self.window, || {
            let [least, most] = [SPAN_WINDOW.start(), SPAN_WINDOW.end()].map(|end| Interval(*end));
            format!("{least} to {most}")
        })
    }
}
