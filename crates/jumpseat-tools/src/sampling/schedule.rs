//! How long a run goes on, and what it reads (`docs/pcp/tools.md` 5.3).

use std::time::Duration;

use pcp_model::Timestamp;

use super::options::SamplingSettings;
use super::subject::Subject;

/// Without `-t`.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// How long a run goes on, and what it reads.
pub(super) struct Schedule {
    /// How many: `None` for no end. The one that rates start from is not counted.
    pub samples: Option<u64>,
    /// No sample is later.
    pub end: Option<Timestamp>,
    /// Time between two samples.
    pub interval: Duration,
    /// Counters are shown as rates.
    pub rated: bool,
    /// The records of an archive as they are, not values interpolated between them.
    pub by_record: bool,
}

impl Schedule {
    /// What the options say about the metric.
    pub(super) fn new(subject: &Subject, wanted: &SamplingSettings) -> Schedule {
        // None at all is as none given.
        let interval = wanted.interval.filter(|interval| !interval.is_zero()).unwrap_or(DEFAULT_INTERVAL);
        let rated = subject.is_counter() && !wanted.raw && !subject.has_events();
        // Nothing lies between two arrays of event records: they are not interpolated.
        let by_record = subject.is_recorded() && (wanted.uninterpolated || subject.has_events());
        let end = subject.window.finite_end();
        let asked = subject.ready.common.samples;
        let fits = end.filter(|_| !by_record).map(|end| {
            // How many whole intervals fit. Of records nobody knows before they are read.
            let nanos = end.as_nanos() - subject.window.origin.as_nanos();
            // Towards zero, so that a window which ends less than one before it begins has a sample all the same.
            let intervals = nanos / (interval.as_nanos() as i128).max(1);
            u64::try_from((intervals + 1).max(0)).unwrap_or(u64::MAX)
        });
        Schedule { samples: asked.or(fits), end, interval, rated, by_record }
    }
}
