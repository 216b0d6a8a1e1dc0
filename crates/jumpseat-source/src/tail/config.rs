//! Configuration of tail sampling: `[tail]`.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::interval::Interval;
use crate::setting::{InvalidKey, in_range};
use crate::size::ByteSize;

/// Range of [`TailConfig::window`].
const WINDOW: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(600);
/// Range of [`TailConfig::slow`].
const SLOW: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(24 * 3600);
/// Range of [`TailConfig::memory`], in bytes.
const MEMORY: RangeInclusive<u64> = 1 << 20..=64 << 30;

/// How it is decided over traces of which only a part is kept. It holds for all sources that are sampled by tail.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct TailConfig {
    /// A trace whose spans take at least so long together is kept.
    pub slow: Interval,
    /// Longest time from the first event of a trace to the decision, and so the longest that an event waits.
    pub window: Interval,
    /// Time without events of a trace after which it is decided, once its root has ended and no span of it is open.
    pub grace: Interval,
    /// Memory for the events that wait, of all sources; traces are known in a quarter of it besides.
    pub memory: ByteSize,
}

impl Default for TailConfig {
    fn default() -> TailConfig {
        TailConfig {
            slow: Interval(Duration::from_millis(500)),
            window: Interval(Duration::from_secs(10)),
            grace: Interval(Duration::from_secs(1)),
            memory: ByteSize(64 << 20),
        }
    }
}

impl TailConfig {
    /// Checks ranges.
    ///
    /// # Errors
    /// The first key that is wrong.
    pub fn validate(&self) -> Result<(), InvalidKey> {
        between("slow", self.slow, &SLOW)?;
        between("window", self.window, &WINDOW)?;
        between("grace", self.grace, &(Duration::ZERO..=*WINDOW.end()))?;
        in_range("memory", self.memory.0, MEMORY)
    }
}

fn between(key: &'static str, value: Interval, range: &RangeInclusive<Duration>) -> Result<(), InvalidKey> {
    if range.contains(&value.0) {
        return Ok(());
    }
    let [least, most] = [range.start(), range.end()].map(|end| Interval(*end));
    Err(InvalidKey::other(key, format!("{value} is not between {least} and {most}")))
}
