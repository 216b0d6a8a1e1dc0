//! Hosts that could not be connected to, and when they may be tried again.
//!
//! A context that has lost its connection waits as PCP's clients do, longer each time. Whoever makes a new one has just mended the
//! host, or asks a dead one with each request: the last attempt answers for [`SOON`].
//!
//! **Bounds:** [`MAX_FAILED`] specifications; the oldest are forgotten.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pcp_client::{ClientError, HostSpec};
use pcp_model::PmError;

/// How long an attempt that failed answers for the next one.
const SOON: Duration = Duration::from_secs(1);
/// Most of them.
const MAX_FAILED: usize = 256;

/// Hosts that failed, by when they did.
#[derive(Debug, Default)]
pub(super) struct BackOff(Mutex<Vec<Failed>>);

/// A specification that could not be connected to.
struct Failed {
    spec: Arc<HostSpec>,
    times: usize,
    until: Instant,
    /// The last attempt, and why it failed.
    last: Instant,
    why: PmError,
}

/// Who wants to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    /// A context that had a connection.
    Again,
    /// A new context.
    Anew,
}

impl BackOff {
    /// Whether a specification may be tried now.
    ///
    /// # Errors
    /// [`ClientError::TooSoon`] after an attempt that failed; for a new context why it failed.
    pub(super) fn expect_due(&self, spec: &HostSpec, wants: Wants, now: Instant) -> Result<(), ClientError> {
        let all = self.all();
        let Some(failed) = all.iter().find(|failed| *failed.spec == *spec) else { return Ok(()) };
        let left = failed.until.saturating_duration_since(now);
        match wants {
            Wants::Again if !left.is_zero() => Err(ClientError::TooSoon(left)),
            Wants::Anew if now.saturating_duration_since(failed.last) < SOON => Err(failed.why.into()),
            _ => Ok(()),
        }
    }

    /// It could not be connected to: the next attempt has to wait, longer each time. Attempts that fail before the next one is due
    /// count once.
    pub(super) fn failed(&self, spec: &Arc<HostSpec>, why: PmError, delays: &[Duration], now: Instant) {
        let mut all = self.all();
        let known = all.iter().position(|failed| *failed.spec == **spec).map(|at| all.remove(at));
        let failed = match known {
            Some(known) if now < known.until => Failed { last: now, why, ..known },
            known => {
                let times = known.map_or(0, |failed| failed.times);
                let delay = delays.get(times).or(delays.last()).copied().unwrap_or_default();
                let spec = Arc::clone(spec);
                Failed { spec, times: times + 1, until: now + delay, last: now, why }
            }
        };
        all.push(failed);
        if all.len() > MAX_FAILED {
            all.remove(0);
        }
    }

    /// It has been connected to.
    pub(super) fn connected(&self, spec: &HostSpec) {
        self.all().retain(|failed| *failed.spec != *spec);
    }

    fn all(&self) -> MutexGuard<'_, Vec<Failed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The specification may have a password.
        f.debug_struct("Failed")
            .field("times", &self.times)
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_failed_is_not_tried_again_for_a_while_longer_each_time() {
        let back_off = BackOff::default();
        let spec = |text: &str| Arc::new(text.parse::<HostSpec>().expect("a host"));
        let (one, other) = (spec("web1"), spec("web1?container=one"));
        let delays = [Duration::from_secs(5), Duration::from_secs(50)];
        let begun = Instant::now();
        let at = |seconds: u64| begun + Duration::from_secs(seconds);
        let left = |seconds| match back_off.expect_due(&one, Wants::Again, at(seconds)) {
            Err(ClientError::TooSoon(left)) => left.as_secs(),
            _ => 0,
        };
        let fails =
            |spec: &Arc<HostSpec>, seconds| back_off.failed(spec, PmError::TIMEOUT, &delays, at(seconds));
        assert_eq!(left(0), 0);
        fails(&one, 0);
        // Others who were trying, and new contexts.
        fails(&one, 1);
        fails(&one, 4);
        assert_eq!((left(1), left(4), left(5)), (4, 1, 0));
        fails(&one, 5);
        assert_eq!((left(5), left(54), left(55)), (50, 1, 0));
        fails(&one, 60);
        assert_eq!(left(60), 50, "no longer than the last of them");
        assert!(back_off.expect_due(&other, Wants::Again, at(60)).is_ok(), "another specification");
        back_off.connected(&one);
        assert_eq!(left(60), 0);
        fails(&one, 60);
        assert_eq!(left(60), 5);
        for number in 0..2 * MAX_FAILED {
            fails(&spec(&format!("host{number}")), 60);
        }
        assert_eq!(back_off.all().len(), MAX_FAILED);
    }

    #[test]
    fn a_new_context_is_told_why_the_last_attempt_failed_for_a_second() {
        let back_off = BackOff::default();
        let spec = Arc::new("web1".parse::<HostSpec>().expect("a host"));
        let begun = Instant::now();
        let why = PmError::from_errno(nix::libc::ECONNREFUSED);
        back_off.failed(&spec, why, &[Duration::from_secs(5)], begun);
        let told = |millis| {
            let now = begun + Duration::from_millis(millis);
            back_off.expect_due(&spec, Wants::Anew, now).map_err(|error| error.code())
        };
        assert_eq!((told(0), told(999), told(1000)), (Err(why), Err(why), Ok(())));
        let again = Wants::Again;
        assert!(back_off.expect_due(&spec, again, begun + SOON).is_err(), "others wait for longer");
    }
}
