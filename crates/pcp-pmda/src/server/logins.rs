//! Whether passwords are right: a thread of its own looks, as it takes a tenth of a second each time.
//!
//! **Invariant:** what is waiting is bounded ([`QUEUE`]), what one origin may ask for is, too ([`BURST`], one more each
//! [`REFILL`]), and so is what is remembered of origins ([`ORIGINS`]).

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use nix::unistd::User as Account;
use pcp_net::{Limiter, Passwords, Worker};

use super::Handle;
use super::security::Origin;
use crate::{Claim, Denial, User};

/// Attempts that may wait for the thread, of everybody.
const QUEUE: usize = 32;
/// Attempts of one origin at once.
const BURST: u32 = 8;
/// One more after so long.
const REFILL: Duration = Duration::from_secs(5);
/// Origins with attempts that still count against them; beyond, strangers have to wait.
const ORIGINS: usize = 4096;

/// What came of an attempt.
pub(super) struct Verdict {
    /// The client's place, if it is still the one with this attempt.
    pub place: usize,
    pub attempt: u64,
    pub outcome: Result<User, Denial>,
}

struct Attempt {
    place: usize,
    number: u64,
    claim: Claim,
}

/// Everything about logging in.
pub(super) struct Logins {
    // Before the thread, which ends when nobody can send to it.
    attempts: Sender<Attempt>,
    verdicts: Receiver<Verdict>,
    origins: Origins,
    last: u64,
    _thread: Worker,
}

/// Attempts of each origin that has made some lately.
#[derive(Default)]
struct Origins(HashMap<Origin, (Limiter, Instant)>);

impl Logins {
    /// Starts the thread; `wake` is called after each verdict.
    ///
    /// # Errors
    /// The system has no room for a thread.
    pub(super) fn start(passwords: Passwords, wake: Handle) -> io::Result<Logins> {
        let (attempts, waiting) = bounded::<Attempt>(QUEUE);
        let (tell, verdicts) = bounded(QUEUE + 1);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let run = move || {
            for Attempt { place, number, claim } in waiting {
                if stopped.load(Ordering::Acquire) {
                    return;
                }
                let verdict = Verdict { place, attempt: number, outcome: judge(&passwords, &claim) };
                // The loop has gone.
                if tell.send(verdict).is_err() {
                    return;
                }
                wake.wake();
            }
        };
        let stop = move || {
            stop.store(true, Ordering::Release);
            true
        };
        let thread = Worker::spawn("logins", stop, run)?;
        Ok(Logins { attempts, verdicts, origins: Origins::default(), last: 0, _thread: thread })
    }

    /// Has a claim judged; the number of the attempt, which its verdict will have.
    pub(super) fn begin(&mut self, place: usize, origin: Origin, claim: Claim) -> Result<u64, Denial> {
        if !self.origins.allow(origin, Instant::now()) {
            return Err(Denial::TooManyAttempts);
        }
        self.last += 1;
        let attempt = Attempt { place, number: self.last, claim };
        match self.attempts.try_send(attempt) {
            Ok(()) => Ok(self.last),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => Err(Denial::TooManyAttempts),
        }
    }

    /// The next verdict that is there.
    pub(super) fn next_verdict(&self) -> Option<Verdict> {
        self.verdicts.try_recv().ok()
    }

    /// Who logs in rightly may do so as often as need be.
    pub(super) fn forgive(&mut self, origin: Origin) {
        self.origins.0.remove(&origin);
    }
}

impl Origins {
    fn allow(&mut self, origin: Origin, now: Instant) -> bool {
        // After so long nothing counts any more.
        let all = REFILL * BURST;
        if self.0.len() >= ORIGINS && !self.0.contains_key(&origin) {
            self.0.retain(|_, (_, last)| now.saturating_duration_since(*last) < all);
            if self.0.len() >= ORIGINS {
                return false;
            }
        }
        let (limiter, last) = self.0.entry(origin).or_insert_with(|| (Limiter::new(BURST, REFILL), now));
        *last = now;
        limiter.allow(now).is_some()
    }
}

/// Looks at the password, and who the user is on this machine: rules about who may do what go by that.
fn judge(passwords: &Passwords, Claim { user, password }: &Claim) -> Result<User, Denial> {
    match passwords.verify(user, password) {
        Ok(true) => {}
        Ok(false) => return Err(Denial::WRONG_PASSWORD),
        Err(error) => {
            tracing::error!(%error, "nobody can log in");
            return Err(Denial::WRONG_PASSWORD);
        }
    }
    match Account::from_name(user) {
        Ok(Some(account)) => {
            Ok(User { name: user.clone(), uid: account.uid.as_raw(), gid: account.gid.as_raw() })
        }
        _ => {
            tracing::warn!(user, "has a password, but is no user of this machine; only such can log in");
            Err(Denial::WRONG_PASSWORD)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_origin_cannot_try_for_ever_and_others_can() {
        let (mut origins, now) = (Origins::default(), Instant::now());
        let (here, there) = (Origin::V4(1), Origin::V6(2));
        assert_eq!((0..100).filter(|_| origins.allow(here, now)).count(), BURST as usize);
        assert!(origins.allow(there, now));
        assert_eq!((0..100).filter(|_| origins.allow(here, now + REFILL)).count(), 1);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_forgotten() {
        let (mut origins, now) = (Origins::default(), Instant::now());
        let allowed = (0..2 * ORIGINS).filter(|n| origins.allow(Origin::V6(*n as u64), now)).count();
        assert_eq!((allowed, origins.0.len()), (ORIGINS, ORIGINS));
        assert!(origins.allow(Origin::V6(0), now), "who is known is judged by its own");
        assert!(origins.allow(Origin::V4(0), now + REFILL * BURST));
        assert_eq!(origins.0.len(), 1);
    }

    #[test]
    fn origins_are_machines_not_addresses() {
        let of = |host: &str| {
            Origin::of(&crate::Attributes { host: Some(host.parse().unwrap()), ..Default::default() })
        };
        assert_eq!(of("2001:db8::1"), of("2001:db8::2:0:0:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}
