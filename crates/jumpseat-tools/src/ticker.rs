//! When to sample a collector, and when to end: the clock of commands that run until a signal.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant, SystemTime};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use pcp_model::Timestamp;

use crate::later;

/// What ticks in an interval, and hears signals.
pub struct Ticker {
    interval: Duration,
    next: Instant,
    signals: SignalFd,
}

/// Why the wait is over.
pub enum Woken {
    /// It is time for a sample; so many were due before it.
    Tick {
        /// How many.
        missed: u64,
    },
    /// A signal, or the end time.
    End,
}

impl Ticker {
    /// The first tick is now. Signals that end a command, and those that writing can raise, are blocked from now
    /// on in this thread and those it starts.
    ///
    /// # Errors
    /// The system's.
    pub fn new(interval: Duration) -> io::Result<Ticker> {
        let mut end = SigSet::empty();
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
            end.add(signal);
        }
        let mut blocked = end;
        blocked.add(Signal::SIGPIPE);
        // The limit on file sizes is told by the write that fails.
        blocked.add(Signal::SIGXFSZ);
        blocked.thread_block()?;
        let signals = SignalFd::with_flags(&end, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Ticker { interval: interval.max(Duration::from_millis(1)), next: Instant::now(), signals })
    }

    /// Waits for the next tick, and no less than `pause`; no longer than until `end`.
    ///
    /// # Errors
    /// The system's.
    pub fn wait(&mut self, pause: Option<Duration>, end: Option<Timestamp>) -> io::Result<Woken> {
        let now = Instant::now();
        let intervals = now.saturating_duration_since(self.next).as_nanos() / self.interval.as_nanos();
        let missed = u32::try_from(intervals).unwrap_or(u32::MAX);
        self.next = later(self.next + self.interval * missed, self.interval);
        let wake = self.next.max(now + pause.unwrap_or_default());
        let ends = end.map(|end| now + until(end));
        loop {
            let left = ends.map_or(wake, |ends| ends.min(wake)).saturating_duration_since(Instant::now());
            // Rounded up, lest it wakes up too early again and again. A signal is heard where nothing is waited for, too.
            let left = left.as_nanos().div_ceil(1_000_000);
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            match poll(&mut [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)], timeout) {
                Ok(0) | Err(nix::errno::Errno::EINTR) => {}
                Ok(_) if self.signals.read_signal()?.is_some() => return Ok(Woken::End),
                Ok(_) => {}
                Err(errno) => return Err(errno.into()),
            }
            let now = Instant::now();
            if ends.is_some_and(|ends| now >= ends) {
                return Ok(Woken::End);
            }
            if now >= wake {
                // Without a connection there is nothing to be late for.
                let missed = if pause.is_some() { 0 } else { missed.into() };
                return Ok(Woken::Tick { missed });
            }
        }
    }
}

fn until(end: Timestamp) -> Duration {
    let left = end.as_nanos() - Timestamp::from(SystemTime::now()).as_nanos();
    // Later than a year is checked again with each tick.
    Duration::from_nanos(left.clamp(0, 31_536_000_000_000_000) as u64)
}
