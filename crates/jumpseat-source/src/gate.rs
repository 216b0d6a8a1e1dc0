//! What a source lets through: switched off, filtered, sampled, put in order. Set by the core, kept by the lanes.
//!
//! The core and the lanes of a source share one [`Gate`]. The core puts new [`Settings`] in and changes its
//! version, and the number of changes of all gates; a lane looks at that number for each record, and takes the settings over when its
//! gate's version has changed. So a change holds from the next record on, and neither side ever waits for the other.
//!
//! **Cost:** one load a record, of a number that is the same for all sources, while nothing is set.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::tail::Held;
use pcp_event::filter::{Filter, FilterError};

/// Longest [`Settings::order_window`].
pub const MAX_ORDER_WINDOW: Duration = Duration::from_secs(60);

/// How records to keep are chosen when not all are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SampleBy {
    /// Every n-th record.
    #[default]
    Count,
    /// By the field `trace_id`, else by the span id, so that what belongs together is kept or dropped as a whole.
    /// Records with neither are counted.
    Trace,
    /// By the field `trace_id`, and by what becomes of the trace, over all sources: see [`crate::tail`]. Records without one are kept.
    Tail,
}

impl SampleBy {
    /// The word for configuration and metrics.
    pub const fn word(self) -> &'static str {
        match self {
            SampleBy::Count => "count",
            SampleBy::Trace => "trace",
            SampleBy::Tail => "tail",
        }
    }

    /// What a word means.
    pub fn from_word(word: &str) -> Option<SampleBy> {
        [SampleBy::Count, SampleBy::Trace, SampleBy::Tail].into_iter().find(|by| by.word() == word)
    }
}

/// A filter as it was written, and what it means.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IngestFilter {
    text: String,
    filter: Option<Arc<Filter>>,
}

impl IngestFilter {
    /// Parses a filter (`docs/filter.md`). Empty: everything passes.
    ///
    /// # Errors
    /// Where and why the text is no filter.
    pub fn parse(text: &str) -> Result<IngestFilter, FilterError> {
        Ok(IngestFilter { text: text.to_owned(), filter: Filter::parse(text)?.map(Arc::new) })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it means; `None` lets everything pass.
    pub fn filter(&self) -> Option<&Arc<Filter>> {
        self.filter.as_ref()
    }
}

/// What a source lets through, and what is done to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Switched on. Otherwise every record is dropped.
    pub enabled: bool,
    /// Records that do not pass are dropped.
    pub filter: IngestFilter,
    /// One of so many records is kept; 0 and 1 keep all.
    pub sample: u32,
    /// Which one.
    pub sample_by: SampleBy,
    /// How long a record waits for earlier ones; zero: records leave as they came.
    pub order_window: Duration,
    /// A time further ahead of the arrival than this is suspect.
    pub max_ahead: Duration,
    /// A time further behind the arrival than this is suspect.
    pub max_behind: Duration,
    /// Records whose time is suspect say so in a field of their own.
    pub flag_clock: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            enabled: true,
            filter: IngestFilter::default(),
            sample: 1,
            sample_by: SampleBy::Count,
            order_window: Duration::ZERO,
            max_ahead: Duration::from_secs(60),
            max_behind: Duration::from_secs(24 * 3600),
            flag_clock: false,
        }
    }
}

impl Settings {
    /// Whether records wait for what becomes of their traces.
    pub(crate) fn is_by_tail(&self) -> bool {
        self.enabled && self.sample > 1 && self.sample_by == SampleBy::Tail
    }
}

/// How often the settings of any gate have changed, of all that share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes(Arc<AtomicU64>);

impl Changes {
    /// The number.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        // Who sees a number finds what has changed by then.
        self.0.load(Ordering::Acquire)
    }
}

/// One source's settings, shared by the core and the lanes.
#[derive(Debug, Default)]
pub struct Gate {
    changes: Changes,
    /// Changes with the settings. 0: those of the start hold, which are the defaults.
    version: AtomicU64,
    settings: ArcSwap<Settings>,
    held: Held,
}

impl Gate {
    /// A gate with these settings.
    pub(crate) fn new(settings: Settings, changes: Changes) -> Gate {
        let version = u64::from(settings != Settings::default());
        Gate {
            changes,
            version: AtomicU64::new(version),
            settings: ArcSwap::from_pointee(settings),
            held: Held::default(),
        }
    }

    /// The version of the settings: whoever has seen another one takes the settings again.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// The settings, and the version they have at least.
    pub fn settings(&self) -> (u64, Arc<Settings>) {
        // First the version, then the settings: these may be newer than it says, then they are taken once more.
        let version = self.version.load(Ordering::Acquire);
        (version, self.settings.load_full())
    }

    /// What waits in the lanes of the source until its traces are decided.
    pub fn held(&self) -> &Held {
        &self.held
    }

    /// Puts settings into effect. Only the core does.
    pub fn set(&self, settings: Settings) {
        // A store of the same value must not make the lanes forget where they are in their samples.
        if **self.settings.load() != settings {
            self.settings.store(Arc::new(settings));
            self.version.fetch_add(1, Ordering::Release);
            self.changes.0.fetch_add(1, Ordering::Release);
        }
    }
}

/// Gates are equal when they let the same through.
impl PartialEq for Gate {
    fn eq(&self, other: &Gate) -> bool {
        **self.settings.load() == **other.settings.load()
    }
}

impl Eq for Gate {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_shows_in_the_version_and_what_is_the_same_does_not() {
        let gate = Gate::default();
        assert_eq!(gate.version(), 0);
        gate.set(Settings::default());
        assert_eq!(gate.version(), 0);
        gate.set(Settings { enabled: false, ..Settings::default() });
        let (version, settings) = gate.settings();
        assert_eq!((version, settings.enabled), (gate.version(), false));
        assert_ne!(version, 0);
        assert_eq!(gate.changes.count(), 1);
        let settings = Settings { sample: 2, ..Settings::default() };
        assert_ne!(Gate::new(settings, Changes::default()).version(), 0);
    }

    #[test]
    fn words_and_filters_are_read_as_they_are_written() {
        assert_eq!(SampleBy::from_word("trace"), Some(SampleBy::Trace));
        assert_eq!(SampleBy::from_word("tail"), Some(SampleBy::Tail));
        assert_eq!(SampleBy::from_word("Trace"), None);
        assert!(IngestFilter::parse("a ==").is_err());
        let filter = IngestFilter::parse(" a == 1").expect("a filter");
        assert_eq!((filter.text(), filter.filter().is_some()), (" a == 1", true));
        assert_eq!(IngestFilter::parse("").expect("none").filter(), None);
    }
}
