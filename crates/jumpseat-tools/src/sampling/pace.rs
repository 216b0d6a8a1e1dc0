//! When to take the next sample.

use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::os::fd::AsFd;

use crate::later::later;

/// Samples at equal intervals from the first one on: a late one does not delay those after it.
pub(super) struct Pace {
    next: Instant,
    interval: Duration,
    /// Told when the user wants an end, if that is not to end the program right away.
    signals: Option<SignalFd>,
}

impl Pace {
    /// From now on.
    pub(super) fn new(interval: Duration) -> Pace {
        Pace { next: Instant::now(), interval, signals: None }
    }

    /// Ends of the run by SIGINT, SIGTERM and SIGHUP are told by [`Pace::wait`] from now on.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn catch_signals(&mut self) -> nix::Result<()> {
        let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
        signals.thread_block()?;
        self.signals = Some(SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC)?);
        Ok(())
    }

    /// Waits for the time of the next sample. False if the user wants an end.
    pub(super) fn wait(&mut self) -> bool {
        // From when it was due, not from now: else each delay would add to the next.
        self.next = later(self.next, self.interval);
        loop {
            let left = self.next.saturating_duration_since(Instant::now());
            let Some(signals) = &self.signals else {
                std::thread::sleep(left);
                return true;
            };
            let millis =
                PollTimeout::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(PollTimeout::MAX);
            if poll(&mut [PollFd::new(signals.as_fd(), PollFlags::POLLIN)], millis)
                .is_ok_and(|ready| ready > 0)
            {
                return false;
            }
            // poll(2) may wake up early, and waits no longer than a month or so.
            if left.is_zero() {
                return true;
            }
        }
    }
}
