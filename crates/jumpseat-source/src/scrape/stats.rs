//! What is told of targets and of the scraper. Read without locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use pcp_model::Inst;

/// Why a scrape has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The host has no address, or nobody listens there.
    Connect,
    /// No agreement on TLS.
    Tls,
    /// It took too long.
    Timeout,
    /// The answer is not 200.
    Status,
    /// The answer is no HTTP, ended too soon, or has headers without end.
    Protocol,
    /// The answer is longer than `max_body`, as it came or decompressed.
    Size,
    /// The answer is compressed otherwise than it says, or than the agent can read.
    Compression,
    /// The answer has no sample that could be read, or no `# EOF`.
    Syntax,
    /// A file with a token, a header or certificates cannot be used.
    Setup,
    /// The agent is behind, or has no memory for the answer.
    Busy,
}

impl Failure {
    /// All of them, in the order of their numbers.
    pub const ALL: [Failure; 10] = [
        Failure::Connect,
        Failure::Tls,
        Failure::Timeout,
        Failure::Status,
        Failure::Protocol,
        Failure::Size,
        Failure::Compression,
        Failure::Syntax,
        Failure::Setup,
        Failure::Busy,
    ];

    /// The name of its metric.
    pub fn word(self) -> &'static str {
        match self {
            Failure::Connect => "connect",
            Failure::Tls => "tls",
            Failure::Timeout => "timeout",
            Failure::Status => "status",
            Failure::Protocol => "protocol",
            Failure::Size => "size",
            Failure::Compression => "compression",
            Failure::Syntax => "syntax",
            Failure::Setup => "setup",
            Failure::Busy => "busy",
        }
    }
}

/// Why a sample is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A line that is none of the format.
    Syntax,
    /// Labels that are too long or too many.
    Label,
    /// A number that cannot be: a counter that is negative or not finite, a count with a fraction.
    Number,
    /// A series that was there in the same answer.
    Duplicate,
    /// More samples, series or metrics than there may be.
    Limit,
}

impl Refusal {
    /// All of them, in the order of their numbers.
    pub const ALL: [Refusal; 5] =
        [Refusal::Syntax, Refusal::Label, Refusal::Number, Refusal::Duplicate, Refusal::Limit];

    /// The name of its metric.
    pub fn word(self) -> &'static str {
        match self {
            Refusal::Syntax => "syntax",
            Refusal::Label => "label",
            Refusal::Number => "number",
            Refusal::Duplicate => "duplicate",
            Refusal::Limit => "limit",
        }
    }
}

/// What is told of one target.
#[derive(Debug, Default)]
pub struct TargetStats {
    /// The instance that stands for it.
    pub inst: Inst,
    /// Its name: the table's, `@`, and the address.
    pub name: String,
    /// The label `job` of its series.
    pub job: String,
    /// The label `instance` of its series.
    pub instance: String,
    /// Its address.
    pub url: String,
    /// Whether the last scrape has succeeded: 1, or 0.
    pub up: AtomicU64,
    /// How long the last scrape took, in nanoseconds.
    pub duration: AtomicU64,
    /// Samples that the last scrape has taken in.
    pub samples: AtomicU64,
    /// Series there are of it.
    pub series: AtomicU64,
    /// Bytes of answers so far, as they came.
    pub bytes: AtomicU64,
    /// Scrapes so far, whatever became of them.
    pub scrapes: AtomicU64,
    /// Scrapes that began a second or more after their turn.
    pub late: AtomicU64,
    /// Turns that were left out, as the one before was not over.
    pub skipped: AtomicU64,
    /// Connections so far.
    pub connections: AtomicU64,
    /// Scrapes that have failed, by [`Failure`].
    pub failed: [AtomicU64; Failure::ALL.len()],
    /// Samples refused, by [`Refusal`].
    pub refused: [AtomicU64; Refusal::ALL.len()],
    /// Why the last scrape has failed, or what was refused first in it; empty: nothing.
    pub problem: ArcSwap<String>,
}

/// What is told of the scraper.
#[derive(Debug, Default)]
pub struct ScrapeStats {
    /// Its targets, by their instances in ascending order.
    pub targets: ArcSwap<Vec<Arc<TargetStats>>>,
    /// Changes with them.
    pub generation: AtomicU64,
    /// Scrapes under way.
    pub running: AtomicU64,
    /// Memory of answers that are not complete, or not taken in yet.
    pub memory: AtomicU64,
    /// Memory by which series are found again.
    pub known: AtomicU64,
    /// Targets that are left out: wrong, or more than there may be.
    pub left_out: AtomicU64,
    /// How often a file of targets could not be read.
    pub unreadable: AtomicU64,
}

impl TargetStats {
    /// Whether anything has become of it by now.
    pub fn was_scraped(&self) -> bool {
        self.scrapes.load(Ordering::Relaxed) > 0
    }

    /// What has been counted so far, for the same target with other labels.
    pub(super) fn counts(&self) -> TargetStats {
        let copy = |count: &AtomicU64| AtomicU64::new(count.load(Ordering::Relaxed));
        TargetStats {
            bytes: copy(&self.bytes),
            scrapes: copy(&self.scrapes),
            late: copy(&self.late),
            skipped: copy(&self.skipped),
            connections: copy(&self.connections),
            failed: self.failed.each_ref().map(copy),
            refused: self.refused.each_ref().map(copy),
            up: copy(&self.up),
            duration: copy(&self.duration),
            samples: copy(&self.samples),
            ..TargetStats::default()
        }
    }

    pub(super) fn tell(&self, problem: String) {
        // Who reads it sees the one or the other. What is the same needs no memory.
        if **self.problem.load() != problem {
            self.problem.store(Arc::new(problem));
        }
    }

    pub(super) fn took(&self, time: Duration) {
        self.duration.store(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl ScrapeStats {
    pub(super) fn publish(&self, mut targets: Vec<Arc<TargetStats>>) {
        targets.sort_by_key(|target| target.inst);
        self.targets.store(Arc::new(targets));
        self.generation.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_outlive_other_labels() {
        let before = TargetStats { instance: "a".into(), ..TargetStats::default() };
        before.scrapes.store(7, Ordering::Relaxed);
        before.failed[Failure::Setup as usize].store(2, Ordering::Relaxed);
        let after = TargetStats { instance: "b".into(), ..before.counts() };
        assert!(after.was_scraped() && after.instance == "b");
        assert_eq!(after.failed[Failure::Setup as usize].load(Ordering::Relaxed), 2);
    }
}
