//! The table `[events]`.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use jumpseat_source::{ByteSize, Interval};

use super::problem::{OutOfRange, limit};

/// Smallest budget of a source: below it a single burst of ordinary records would not fit.
pub const MIN_SOURCE_BUDGET: u64 = 64 << 10;
/// Range of the largest array in one fetch: at least one record of any size, well under the 24 bits
/// of an array's length.
pub const FETCH_LIMIT: RangeInclusive<u64> = 128 << 10..=12 << 20;
/// Largest number of records in `jumpseat.event.recent`.
pub const MAX_RECENT: u32 = 1000;

/// Limits of the event logs. Sizes are in bytes.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct EventsConfig {
    /// Memory for the records of one source.
    pub source_budget: ByteSize,
    /// Memory for the records of all sources.
    pub total_budget: ByteSize,
    /// Most bytes of records in one fetch of a records metric, shared by the sources that have some.
    pub fetch_limit: ByteSize,
    /// Number of records in `jumpseat.event.recent`, for each source.
    pub recent: u32,
    /// Number of sources; senders that name more are counted to their socket's own source.
    pub max_sources: u32,
    /// Number of event types over all sources that are counted apart.
    pub max_types: u32,
    /// Sources, event types, spans and fields that nobody has used for so long give their places to newcomers; 0: never.
    pub recycle_after: Interval,
}

impl Default for EventsConfig {
    fn default() -> EventsConfig {
        EventsConfig {
            source_budget: ByteSize(8 << 20),
            total_budget: ByteSize(64 << 20),
            fetch_limit: ByteSize(4 << 20),
            recent: 10,
            max_sources: 256,
            max_types: 4096,
            recycle_after: Interval(Duration::from_secs(7 * 86_400)),
        }
    }
}

impl EventsConfig {
    /// Checks all limits but that of sources.
    pub(crate) fn check(&self) -> Result<(), OutOfRange> {
        let (source, total) = (self.source_budget.0, self.total_budget.0);
        limit(source >= MIN_SOURCE_BUDGET, ("events", "source_budget"), source, || {
            format!("{MIN_SOURCE_BUDGET} bytes or more")
        })?;
        limit(
            FETCH_LIMIT.contains(&self.fetch_limit.0),
            ("events", "fetch_limit"),
            self.fetch_limit.0,
            || format!("{} to {} bytes", FETCH_LIMIT.start(), FETCH_LIMIT.end()),
        )?;
        limit(self.recent <= MAX_RECENT, ("events", "recent"), self.recent, || format!("0 to {MAX_RECENT}"))?;
        let after = self.recycle_after;
        limit(
            after.0.is_zero() || after.0 >= Duration::from_secs(1),
            ("events", "recycle_after"),
            after,
            || "\"0s\" (never), or 1 second or more".to_owned(),
        )?;
        limit(total >= source, ("events", "total_budget"), total, || {
            format!("events.source_budget ({source}) or more")
        })
    }

    /// Checks the number of sources. `least`: how many the configuration itself names.
    pub(crate) fn check_sources(&self, least: usize) -> Result<(), OutOfRange> {
        // One source for each listener and each table of sources must always fit; each source is worth its smallest
        // budget.
        let most = self.total_budget.0 / MIN_SOURCE_BUDGET;
        let sources = u64::from(self.max_sources);
        let fits = (least as u64..=most).contains(&sources);
        limit(fits, ("events", "max_sources"), sources, || {
            format!(
                "{least} (one for each socket, file, command, journal and kernel, one for OTLP) to {most} (events.total_budget holds {MIN_SOURCE_BUDGET} bytes for each)"
            )
        })
    }
}
