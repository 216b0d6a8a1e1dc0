//! What is known of one trace, and how it comes to a verdict. No clock, no locks.
//!
//! Times are milliseconds of the caller's clock where they are about waiting, and the records' own nanoseconds where they are about
//! how long spans took.

use std::time::Duration;

use super::{SHARDS, TailConfig};

/// A trace, by a hash of its id that is the same in every process and release. Who makes two ids with one hash has two traces share
/// their fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TraceKey(pub u64);

impl TraceKey {
    /// Whether it is one of the traces to keep, one of so many.
    pub(crate) fn is_sampled(self, of: u32) -> bool {
        self.0.is_multiple_of(u64::from(of.max(1)))
    }

    /// Which of some parts it is in: by the high bits, as the low ones decide about samples.
    pub(super) fn part(self, parts: usize) -> usize {
        (self.0 >> 32) as usize % parts
    }
}

/// What a record tells of its trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub key: TraceKey,
    /// Something has failed.
    pub failed: bool,
    /// What it tells of a span, if it begins or ends one.
    pub span: Option<SpanEnd>,
}

/// The beginning or the end of a span.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpanEnd {
    pub is_start: bool,
    /// A hash of the span's id, and not 0; 0: it has none.
    pub id: u32,
    /// Whether it says that it has a parent.
    pub has_parent: bool,
    /// When, in nanoseconds since the epoch; `None`: by a clock that cannot be right.
    pub nanos: Option<i64>,
}

/// [`TailConfig`] for comparisons.
pub(super) struct Limits {
    /// Milliseconds.
    pub window: u64,
    grace: u64,
    slow: u64,
    /// Traces of a shard.
    pub traces: usize,
}

impl Limits {
    pub(super) fn of(config: &TailConfig) -> Limits {
        let millis = |interval: Duration| interval.as_millis() as u64;
        Limits {
            window: millis(config.window.0),
            grace: millis(config.grace.0),
            slow: millis(config.slow.0),
            traces: (config.memory.0 / super::BYTES_A_TRACE) as usize / SHARDS,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Open,
    /// Kept, as something has failed.
    Failed,
    /// Kept, as it took long.
    Slow,
    /// Kept by its id.
    Sampled,
    Dropped,
}

/// One trace.
#[derive(Debug)]
pub(super) struct Trace {
    /// When its first record came.
    first: u64,
    /// When the newest came.
    last: u64,
    /// When it was decided.
    pub decided: u64,
    /// When its spans began and ended, by their times.
    began: i64,
    ended: i64,
    /// Records of it that wait.
    pub held: u32,
    /// The smallest sample of the sources that it has records of.
    of: u32,
    /// The root's [`SpanEnd::id`], if it has begun.
    root: u32,
    /// Spans that have begun and not ended.
    open: i32,
    root_ended: bool,
    failed: bool,
    pub verdict: Verdict,
}

impl Trace {
    pub(super) fn new(now: u64) -> Trace {
        Trace {
            first: now,
            last: now,
            decided: 0,
            began: i64::MAX,
            ended: i64::MIN,
            held: 0,
            of: u32::MAX,
            root: 0,
            open: 0,
            root_ended: false,
            failed: false,
            verdict: Verdict::Open,
        }
    }

    pub(super) fn is_decided(&self) -> bool {
        self.verdict != Verdict::Open
    }

    /// Whether it may be forgotten.
    pub(super) fn may_go(&self) -> bool {
        self.is_decided() && self.held == 0
    }

    /// Takes in what a record tells.
    pub(super) fn take(&mut self, told: &Told, of: u32, now: u64) {
        self.last = now;
        self.of = self.of.min(of);
        self.failed |= told.failed;
        let Some(span) = told.span else { return };
        if let Some(nanos) = span.nanos {
            (self.began, self.ended) = (self.began.min(nanos), self.ended.max(nanos));
        }
        if span.is_start {
            self.open = self.open.saturating_add(1);
            if !span.has_parent && self.root == 0 {
                self.root = span.id;
            }
        } else {
            self.open = self.open.saturating_sub(1);
            self.root_ended |= span.id != 0 && span.id == self.root;
        }
    }

    /// Decides about it if it is of those that are kept in any case.
    pub(super) fn stand_out(&mut self, limits: &Limits) {
        let took = self.ended.checked_sub(self.began).filter(|_| self.ended >= self.began);
        // A duration that does not fit is long enough.
        let is_slow = self.ended >= self.began
            && took.is_none_or(|nanos| nanos as u64 >= limits.slow.saturating_mul(1_000_000));
        if self.failed {
            self.verdict = Verdict::Failed;
        } else if is_slow {
            self.verdict = Verdict::Slow;
        }
    }

    /// Decides about it if its time has come.
    pub(super) fn fall(&mut self, key: TraceKey, now: u64, limits: &Limits) {
        let age = now.saturating_sub(self.first);
        let is_over = self.root_ended && self.open <= 0 && now.saturating_sub(self.last) >= limits.grace;
        // Not as soon as `slow` has passed: senders collect what they send.
        if self.open > 0 && age >= limits.window && age >= limits.slow {
            self.verdict = Verdict::Slow;
        } else if is_over || age >= limits.window {
            self.force(key);
        }
    }

    /// Decides about it by its id.
    pub(super) fn force(&mut self, key: TraceKey) {
        self.verdict = if key.is_sampled(self.of) { Verdict::Sampled } else { Verdict::Dropped };
    }
}
