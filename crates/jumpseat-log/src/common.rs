//! What the logs of all sources share: the disk, the budget, and what is counted.

use std::fmt::Display;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pcp_files::Disk;
use pcp_model::Timestamp;
use pcp_net::Limiter;

use crate::body::Body;
use crate::source::SourceLog;

/// What survives a loss of power. All of them survive the death of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncMode {
    /// What the system happens to have written.
    #[default]
    Never,
    /// All but the newest, up to the interval.
    Interval,
    /// All that was acknowledged.
    Batch,
}

/// How much there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes on disk for a source.
    pub source: u64,
    /// Bytes on disk for all sources.
    pub total: u64,
    /// Bytes of a segment, but for one with a single larger batch, and for those of sources that write much: theirs may be longer,
    /// up to 16 MiB and a sixteenth of what the source may have, in a quarter of `total` for all of them.
    pub segment: u64,
    /// What survives a loss of power.
    pub sync: SyncMode,
}

impl Limits {
    /// The sizes of segments that go with these budgets (bytes) and number of sources: small enough that each source can have
    /// one, and that what a source loses when its oldest goes is little of what it has.
    pub fn new(source: u64, total: u64, sources: usize, sync: SyncMode) -> Limits {
        let segment = (total / sources.max(1) as u64 / 2).min(source / 16).clamp(MIN_SEGMENT, MAX_SEGMENT);
        Limits { source, total, segment, sync }
    }
}

const MIN_SEGMENT: u64 = 64 << 10;
const MAX_SEGMENT: u64 = 4 << 20;
const MAX_LONG_SEGMENT: u64 = 16 << 20;

/// What is counted over all sources.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub failures: AtomicU64,
    pub recovered: AtomicU64,
    pub torn: AtomicU64,
    pub damaged: AtomicU64,
    pub set_aside: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct Common {
    pub disk: Arc<dyn Disk>,
    pub domain: u16,
    pub boot: [u8; 16],
    /// As they were at the start; budgets may have changed since.
    pub limits: Limits,
    source_budget: AtomicU64,
    total_budget: AtomicU64,
    pub counts: Counts,
    /// Something was appended that is not synced.
    pub is_dirty: AtomicBool,
    total: AtomicU64,
    /// Bytes that segments may be longer than [`Limits::segment`], of all that are written to.
    beyond: AtomicU64,
    sources: Mutex<Vec<Weak<SourceLog>>>,
    /// Buffers that nobody uses: no more than there were ever in use at once.
    bodies: Mutex<Vec<Body>>,
    report: Mutex<Limiter>,
    hasher: RandomState,
}

/// A part of what all segments may be longer together; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Beyond {
    common: Arc<Common>,
    pub bytes: u64,
}

impl Drop for Beyond {
    fn drop(&mut self) {
        self.common.beyond.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Common {
    pub(crate) fn new(disk: Arc<dyn Disk>, domain: u16, boot: [u8; 16], limits: Limits) -> Common {
        Common {
            disk,
            domain,
            boot,
            limits,
            source_budget: AtomicU64::new(limits.source),
            total_budget: AtomicU64::new(limits.total),
            counts: Counts::default(),
            is_dirty: AtomicBool::new(false),
            total: AtomicU64::new(0),
            beyond: AtomicU64::new(0),
            sources: Mutex::new(Vec::new()),
            bodies: Mutex::new(Vec::new()),
            report: Mutex::new(Limiter::per_period(5, Duration::from_secs(60))),
            hasher: RandomState::new(),
        }
    }

    /// How much there may be from now on.
    pub(crate) fn set_budgets(&self, source: u64, total: u64) {
        self.source_budget.store(source, Ordering::Relaxed);
        self.total_budget.store(total, Ordering::Relaxed);
    }

    /// How much there may be now.
    pub(crate) fn limits(&self) -> Limits {
        let budget = |budget: &AtomicU64| budget.load(Ordering::Relaxed);
        Limits { source: budget(&self.source_budget), total: budget(&self.total_budget), ..self.limits }
    }

    pub(crate) fn now(&self) -> Timestamp {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::new(now.as_secs() as i64, now.subsec_nanos())
    }

    /// A number that nobody can guess, and never 0.
    pub(crate) fn random(&self) -> u64 {
        self.hasher.hash_one((SystemTime::now(), Instant::now(), std::process::id())).max(1)
    }

    /// Counts and tells that something went wrong with a file.
    pub(crate) fn failed(&self, what: &str, how: &str, error: &dyn Display) {
        self.counts.failures.fetch_add(1, Ordering::Relaxed);
        if self.may_report() {
            tracing::error!("the log of {what}: {how}: {error}");
        }
    }

    /// Whether a message would not be one of a flood.
    pub(crate) fn may_report(&self) -> bool {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).allow(Instant::now()).is_some()
    }

    /// Removes a file.
    pub(crate) fn remove(&self, name: &str) {
        if let Err(error) = self.disk.remove(name) {
            self.failed(name, "cannot be removed", &error);
        }
    }

    pub(crate) fn used(&self, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn freed(&self, bytes: u64) {
        self.total.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, source: &Arc<SourceLog>) {
        self.sources().push(Arc::downgrade(source));
    }

    pub(crate) fn each(&self) -> Vec<Arc<SourceLog>> {
        self.sources().iter().filter_map(Weak::upgrade).collect()
    }

    /// How much longer than others a segment may be that begins now.
    pub(crate) fn beyond(self: &Arc<Common>) -> Beyond {
        let limits = self.limits();
        let wanted = (limits.source / 16).min(MAX_LONG_SEGMENT).saturating_sub(limits.segment);
        let taken = self.beyond.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            Some(taken + wanted).filter(|taken| *taken <= limits.total / 4)
        });
        Beyond { common: Arc::clone(self), bytes: if taken.is_ok() { wanted } else { 0 } }
    }

    /// Drops the oldest segments of those who have most, until another segment of `source`, of so many bytes, fits. The newest segment of
    /// a source always stays, as it tells what the counters are: so what is kept may be more than the budget by a segment a source.
    pub(crate) fn make_room(&self, source: &SourceLog, segment: u64) {
        let limits = self.limits();
        let fits = |used: u64, budget: u64| used + segment <= budget;
        while !fits(source.files().bytes, limits.source) && source.drop_oldest() {}
        if fits(self.total(), limits.total) {
            return;
        }
        let all = self.each();
        let mut sizes: Vec<u64> = all.iter().map(|source| source.files().bytes).collect();
        while !fits(self.total(), limits.total) {
            let largest = sizes.iter_mut().zip(&all).max_by_key(|(bytes, _)| **bytes);
            let Some((bytes, source)) = largest.filter(|(bytes, _)| **bytes > 0) else { return };
            *bytes = if source.drop_oldest() { source.files().bytes } else { 0 };
        }
    }

    /// A buffer for a batch, to be handed back.
    pub(crate) fn body(&self) -> Body {
        self.bodies().pop().unwrap_or_default()
    }

    /// Keeps a buffer for who comes next.
    pub(crate) fn done_with(&self, body: Body) {
        if body.is_small() {
            self.bodies().push(body);
        }
    }

    fn bodies(&self) -> MutexGuard<'_, Vec<Body>> {
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sources(&self) -> MutexGuard<'_, Vec<Weak<SourceLog>>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
