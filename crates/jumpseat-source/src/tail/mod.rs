//! Tail sampling: which traces are kept, decided over all sources when all that is likely to be known of a trace is known.
//!
//! One [`Tail`] is shared by the lanes of all threads. A lane tells it each record of a trace (`Tail::note`), which a queue of
//! its own holds until the trace is decided (`lanes/queue`), and asks for the decision when it is the record's turn
//! (`Tail::settle`). A trace is
//!
//! * **kept at once** when a record of it tells of a failure, or when its spans take as long together as `slow` says;
//! * **decided by its id** as soon as its root has ended, no span of it is open, and nothing of it has come for `grace`; else at the end of
//!   `window`, from its first record on. Then one of `n` traces is kept, `n` being the smallest `sample` of the sources that it
//!   has records of. All hosts with the same configuration come to the same result. One that has a span open then, and is as old
//!   as `slow` says, is slow, and kept.
//! * **decided early**, by its id as well, when a queue is full or ends (`early`).
//!
//! **Invariant:** what is decided stays so for as long as the trace is known: records of it that come later share its fate. Known it
//! is while records of it wait, then for `REMEMBERED` windows, if there is room for so many traces.
//!
//! **Bounds:** [`TailConfig::memory`] for the records that wait (`Tail::is_over`), and a trace for each `BYTES_A_TRACE` bytes of it. A
//! trace that finds no place is decided by its id, record by record (`untracked`); those that fail are kept.
//!
//! **Cost:** a lock that one of `SHARDS` threads' records want at the same time, and a look-up, when a record comes and when it
//! leaves. No allocation once the tables have grown.

mod config;
#[cfg(test)]
mod tests;
mod trace;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwap;
use hashbrown::HashMap;

pub use config::TailConfig;
use trace::{Limits, Trace, Verdict};
pub(crate) use trace::{SpanEnd, Told, TraceKey};

/// Parts of the table that have a lock each.
const SHARDS: usize = 16;
/// Bytes of [`TailConfig::memory`] for which a trace is known: about a quarter is taken by that.
const BYTES_A_TRACE: u64 = 512;
/// Windows for which a decided trace is remembered.
const REMEMBERED: u64 = 6;
/// Most traces that are looked at to find one that can be forgotten.
const TRIES: usize = 8;

/// Traces and what is decided about them. See the module's description.
#[derive(Debug)]
pub struct Tail {
    shards: [Mutex<Shard>; SHARDS],
    config: ArcSwap<TailConfig>,
    counts: Counts,
    /// Bytes and records that wait in queues.
    held: Held,
    started: Instant,
    /// Milliseconds by which the clock of a test is ahead.
    #[cfg(test)]
    ahead: AtomicU64,
}

/// What was decided, and why.
#[derive(Debug, Default)]
struct Counts {
    failed: AtomicU64,
    slow: AtomicU64,
    sampled: AtomicU64,
    dropped: AtomicU64,
    early: AtomicU64,
    untracked: AtomicU64,
    late: AtomicU64,
    late_failed: AtomicU64,
    forgotten: AtomicU64,
    open: AtomicU64,
    known: AtomicU64,
}

/// The sums of [`Tail`], for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TailSums {
    /// Traces kept because something in them failed.
    pub failed: u64,
    /// Traces kept because they were slow.
    pub slow: u64,
    /// Traces kept by their id.
    pub sampled: u64,
    /// Traces dropped by their id.
    pub dropped: u64,
    /// Of the traces kept and dropped by their id, those decided before their time, as a queue was full or ended.
    pub early: u64,
    /// Records of traces that found no place in the table.
    pub untracked: u64,
    /// Records that came after their trace was decided by its id.
    pub late: u64,
    /// Of these, those that told of a failure of a trace that had been dropped.
    pub late_failed: u64,
    /// Decided traces that were forgotten before their time, as others needed the place.
    pub forgotten: u64,
    /// Traces that are not decided.
    pub open: u64,
    /// Traces that are known, decided or not.
    pub known: u64,
}

/// Bytes and records that wait.
#[derive(Debug, Default)]
pub struct Held {
    bytes: AtomicU64,
    records: AtomicU64,
}

impl Held {
    /// Bytes, with what it takes to hold them.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Records.
    pub fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, bytes: u64, records: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.records.fetch_add(records, Ordering::Relaxed);
    }

    pub(crate) fn sub(&self, bytes: u64, records: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.records.fetch_sub(records, Ordering::Relaxed);
    }
}

/// What is to be done with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It waits for the decision.
    Waits,
    Kept,
    Dropped,
}

impl Default for Tail {
    fn default() -> Tail {
        Tail {
            shards: Default::default(),
            config: ArcSwap::from_pointee(TailConfig::default()),
            counts: Counts::default(),
            held: Held::default(),
            started: Instant::now(),
            #[cfg(test)]
            ahead: AtomicU64::new(0),
        }
    }
}

impl Tail {
    /// What is in effect.
    pub fn config(&self) -> Arc<TailConfig> {
        self.config.load_full()
    }

    /// Puts other limits into effect, for traces that are not decided as well.
    pub fn configure(&self, config: TailConfig) {
        self.config.store(Arc::new(config));
    }

    /// What has been decided.
    pub fn sums(&self) -> TailSums {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = &self.counts;
        TailSums {
            failed: of(&counts.failed),
            slow: of(&counts.slow),
            sampled: of(&counts.sampled),
            dropped: of(&counts.dropped),
            early: of(&counts.early),
            untracked: of(&counts.untracked),
            late: of(&counts.late),
            late_failed: of(&counts.late_failed),
            forgotten: of(&counts.forgotten),
            open: of(&counts.open),
            known: of(&counts.known),
        }
    }

    /// What waits in all queues.
    pub fn held(&self) -> &Held {
        &self.held
    }

    /// Whether a source that holds so many bytes has to let go of some. One source has at most half of the memory; a quarter of it
    /// is for those that have little.
    pub(crate) fn is_over(&self, mine: u64) -> bool {
        let (memory, all) = (self.config.load().memory.0, self.held.bytes());
        mine > memory / 2 || all > memory || (all > memory / 4 * 3 && mine > memory / 16)
    }

    /// Milliseconds since this began.
    pub(crate) fn now(&self) -> u64 {
        let elapsed = self.started.elapsed().as_millis() as u64;
        #[cfg(test)]
        let elapsed = elapsed + self.ahead.load(Ordering::Relaxed);
        elapsed
    }

    #[cfg(test)]
    pub(crate) fn pass(&self, millis: u64) {
        self.ahead.fetch_add(millis, Ordering::Relaxed);
    }

    /// Takes note of a record of a source that keeps one of `of` traces. One that waits counts in its trace until it is
    /// [settled](Tail::settle).
    pub(crate) fn note(&self, told: &Told, of: u32, now: u64) -> Fate {
        let config = self.config.load();
        let limits = Limits::of(&config);
        let mut shard = self.shard(told.key);
        if !shard.traces.contains_key(&told.key) && !self.make_room(&mut shard, &limits, now) {
            self.counts.untracked.fetch_add(1, Ordering::Relaxed);
            return if told.failed || told.key.is_sampled(of) { Fate::Kept } else { Fate::Dropped };
        }
        let Shard { traces, order } = &mut *shard;
        let trace = traces.entry(told.key).or_insert_with(|| {
            order.push_back(told.key);
            self.counts.open.fetch_add(1, Ordering::Relaxed);
            self.counts.known.fetch_add(1, Ordering::Relaxed);
            Trace::new(now)
        });
        // First what has been due without this record.
        let was_decided =
            trace.is_decided() || self.tell(trace, now, |trace| trace.fall(told.key, now, &limits));
        if !was_decided {
            trace.take(told, of, now);
            self.tell(trace, now, |trace| trace.stand_out(&limits));
        }
        match trace.verdict {
            Verdict::Open => {
                trace.held += 1;
                Fate::Waits
            }
            Verdict::Failed | Verdict::Slow => Fate::Kept,
            by_id => {
                self.counts.late.fetch_add(1, Ordering::Relaxed);
                if by_id == Verdict::Sampled {
                    return Fate::Kept;
                }
                self.counts.late_failed.fetch_add(u64::from(told.failed), Ordering::Relaxed);
                Fate::Dropped
            }
        }
    }

    /// What is to be done with a record that waits. Unless it goes on waiting, it does not count any more. With `forced` it is
    /// decided now, early or not.
    pub(crate) fn settle(&self, key: TraceKey, forced: bool, now: u64) -> Fate {
        let limits = Limits::of(&self.config.load());
        let mut shard = self.shard(key);
        let trace = shard.traces.get_mut(&key);
        debug_assert!(trace.is_some(), "a trace with records that wait is known");
        let Some(trace) = trace else { return Fate::Dropped };
        if !trace.is_decided()
            && !self.tell(trace, now, |trace| trace.fall(key, now, &limits))
            && forced
            && self.tell(trace, now, |trace| trace.force(key))
        {
            self.counts.early.fetch_add(1, Ordering::Relaxed);
        }
        let fate = match trace.verdict {
            Verdict::Open => return Fate::Waits,
            Verdict::Dropped => Fate::Dropped,
            _ => Fate::Kept,
        };
        trace.held -= 1;
        fate
    }

    /// Has a trace decided, or not, and counts it if it was. Gives whether it was.
    fn tell(&self, trace: &mut Trace, now: u64, decide: impl FnOnce(&mut Trace)) -> bool {
        decide(trace);
        let counts = &self.counts;
        let count = match trace.verdict {
            Verdict::Open => return false,
            Verdict::Failed => &counts.failed,
            Verdict::Slow => &counts.slow,
            Verdict::Sampled => &counts.sampled,
            Verdict::Dropped => &counts.dropped,
        };
        count.fetch_add(1, Ordering::Relaxed);
        counts.open.fetch_sub(1, Ordering::Relaxed);
        trace.decided = now;
        true
    }

    /// Forgets what has been remembered for long enough, and what has to go for one more trace. False: there is no place.
    fn make_room(&self, shard: &mut Shard, limits: &Limits, now: u64) -> bool {
        // Two for one that comes: so the table shrinks when fewer come.
        for _ in 0..2 {
            let Some(key) = shard.order.front().copied() else { break };
            let is_over = |trace: &Trace| {
                trace.may_go() && now.saturating_sub(trace.decided) > limits.window.saturating_mul(REMEMBERED)
            };
            if !shard.traces.get(&key).is_none_or(is_over) {
                break;
            }
            self.forget(shard);
        }
        if shard.traces.len() < limits.traces {
            return true;
        }
        for _ in 0..TRIES {
            let Some(key) = shard.order.front().copied() else { break };
            if shard.traces.get(&key).is_none_or(Trace::may_go) {
                self.forget(shard);
                self.counts.forgotten.fetch_add(1, Ordering::Relaxed);
                // Another one, where the limit has become smaller.
                if shard.traces.len() < limits.traces {
                    return true;
                }
            } else {
                shard.order.rotate_left(1);
            }
        }
        false
    }

    /// Forgets the trace that is first in order.
    fn forget(&self, shard: &mut Shard) {
        let Some(key) = shard.order.pop_front() else { return };
        if shard.traces.remove(&key).is_some() {
            self.counts.known.fetch_sub(1, Ordering::Relaxed);
        }
        if shard.traces.capacity() > 1024 && shard.traces.len() < shard.traces.capacity() / 8 {
            let room = shard.traces.len() * 2;
            shard.traces.shrink_to(room);
            shard.order.shrink_to(room);
        }
    }

    fn shard(&self, key: TraceKey) -> MutexGuard<'_, Shard> {
        let shard = &self.shards[key.part(SHARDS)];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Some of the traces.
#[derive(Debug, Default)]
struct Shard {
    traces: HashMap<TraceKey, Trace>,
    /// All of them, about in the order in which they came.
    order: VecDeque<TraceKey>,
}
