//! What the terminal shows while recording.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// The line is not written more often.
const EVERY: Duration = Duration::from_millis(100);

/// Counts samples, and shows them in a line on a terminal.
pub(super) struct Progress {
    /// Samples recorded.
    pub samples: u64,
    /// Samples left out as it was too late for them.
    pub late: u64,
    metrics: usize,
    quiet: bool,
    show: bool,
    start: Instant,
    shown: Option<Instant>,
}

impl Progress {
    pub(super) fn new(quiet: bool, metrics: usize) -> Progress {
        let show = !quiet && io::stderr().is_terminal();
        Progress { samples: 0, late: 0, metrics, quiet, show, start: Instant::now(), shown: None }
    }

    /// After a sample.
    pub(super) fn step(&mut self, written: bool, metrics: usize, size: u64) {
        self.samples += u64::from(written);
        self.metrics = metrics;
        if self.show && self.shown.is_none_or(|shown| shown.elapsed() >= EVERY) {
            self.shown = Some(Instant::now());
            let seconds = self.start.elapsed().as_secs();
            // A terminal that is gone is no reason to stop.
            let _ = write!(
                io::stderr(),
                "\r\x1b[K{} samples of {} metrics, {}, {seconds} s",
                self.samples,
                self.metrics,
                bytes(size)
            );
        }
    }

    /// A message, instead of the line.
    pub(super) fn say(&mut self, message: &str) {
        self.clear();
        if !self.quiet {
            let _ = writeln!(io::stderr(), "jumpseat record: {message}");
        }
    }

    /// Removes the line.
    pub(super) fn clear(&mut self) {
        if self.shown.take().is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// A size for people.
pub(super) fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} B"),
        10_000..10_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.1} GB", count as f64 / 1e9),
    }
}
