//! Hosts that could not be connected to, and when they may be tried again.
//!
//! A host is down for all alike ([`Door`]), whatever they call themselves and whichever container they want; only who logs in is told
//! apart from who does not. What a collector answers to a login, or about a container, says nothing of the host.
//!
//! A context that has lost its connection waits as PCP's clients do, longer each time. Whoever makes a new one has just mended the
//! host, or asks a dead one with each request: the last attempt answers for [`SOON`].
//!
//! **Bounds:** [`MAX_FAILED`] of them; the oldest are forgotten.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pcp_client::{ClientError, HostAttributes, HostSpec, Place, Security};
use pcp_model::PmError;

use crate::server::sources;

/// How long an attempt that failed answers for the next one.
const SOON: Duration = Duration::from_secs(1);
/// Most of them.
const MAX_FAILED: usize = 256;

/// Hosts that failed, by when they did.
#[derive(Debug, Default)]
pub(super) struct BackOff(Mutex<Vec<Failed>>);

/// Where one connects, without who does: no password is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Door {
    place: Place,
    security: Security,
    logs_in: bool,
    /// Whether an answer of the collector would be the same for all.
    is_plain: bool,
}

/// A host that could not be connected to.
#[derive(Debug)]
struct Failed {
    door: Door,
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

impl Door {
    pub(super) fn of(spec: &HostSpec) -> Door {
        let HostAttributes { container, .. } = &spec.attributes;
        let logs_in = logs_in(&spec.attributes);
        let is_plain = !logs_in && container.is_none();
        Door { place: sources::place(&spec.place), security: spec.security, logs_in, is_plain }
    }

    fn is_same(&self, other: &Door) -> bool {
        let of = |door: &Door| (door.security, door.logs_in);
        of(self) == of(other) && self.place == other.place
    }
}

/// Whether who connects logs in.
pub(super) fn logs_in(attributes: &HostAttributes) -> bool {
    let HostAttributes { userauth, username, password, .. } = attributes;
    userauth.is_some() || username.is_some() || password.is_some()
}

impl BackOff {
    /// Whether a host may be tried now.
    ///
    /// # Errors
    /// [`ClientError::TooSoon`] after an attempt that failed; for a new context why it failed.
    pub(super) fn expect_due(&self, door: &Door, wants: Wants, now: Instant) -> Result<(), ClientError> {
        let all = self.all();
        let Some(failed) = all.iter().find(|failed| failed.door.is_same(door)) else { return Ok(()) };
        let left = failed.until.saturating_duration_since(now);
        match wants {
            Wants::Again if !left.is_zero() => Err(ClientError::TooSoon(left)),
            Wants::Anew if now.saturating_duration_since(failed.last) < SOON => Err(failed.why.into()),
            _ => Ok(()),
        }
    }

    /// It could not be connected to: the next attempt has to wait, longer each time. Attempts that fail before the next one is due
    /// count once.
    pub(super) fn failed(&self, door: &Door, error: &ClientError, delays: &[Duration], now: Instant) {
        let is_answer = matches!(error, ClientError::Pcp(_) | ClientError::Unsupported(_));
        // Nobody has tried; or the next one may be let in.
        if matches!(error, ClientError::TooSoon(_)) || (is_answer && !door.is_plain) {
            return;
        }
        let why = error.code();
        let mut all = self.all();
        let known = all.iter().position(|failed| failed.door.is_same(door)).map(|at| all.remove(at));
        let failed = match known {
            Some(known) if now < known.until => Failed { last: now, why, ..known },
            known => {
                let times = known.map_or(0, |failed| failed.times);
                let delay = delays.get(times).or(delays.last()).copied().unwrap_or_default();
                Failed { door: door.clone(), times: times + 1, until: now + delay, last: now, why }
            }
        };
        all.push(failed);
        if all.len() > MAX_FAILED {
            all.remove(0);
        }
    }

    /// It has been connected to.
    pub(super) fn connected(&self, door: &Door) {
        self.all().retain(|failed| !failed.door.is_same(door));
    }

    fn all(&self) -> MutexGuard<'_, Vec<Failed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door(text: &str) -> Door {
        Door::of(&text.parse().expect("a host"))
    }

    fn down() -> ClientError {
        let error = std::io::Error::from_raw_os_error(nix::libc::ECONNREFUSED);
        ClientError::Connect { to: "web1".to_owned(), error }
    }

    #[test]
    fn a_host_is_down_for_all_and_what_it_answers_to_one_is_not_for_others() {
        let delays = [Duration::from_secs(5)];
        let begun = Instant::now();
        let refused = || ClientError::Pcp(PmError::PERMISSION);
        let waits = |of: &str, error: &ClientError, other: &str| {
            let back_off = BackOff::default();
            back_off.failed(&door(of), error, &delays, begun);
            back_off.expect_due(&door(other), Wants::Again, begun).is_err()
        };
        let (ann, bob) = ("web1?username=ann&password=a", "web1?username=bob&password=b");
        for (of, other, while_down, after_refusal) in [
            ("web1", "WEB1.:44321", true, true),
            ("web1?container=one", "web1?container=two", true, false),
            ("web1?container=one", "web1", true, false),
            (ann, bob, true, false),
            (ann, ann, true, false),
            (ann, "web1", false, false),
            // Encryption may be what fails.
            ("pcps://web1", "web1", false, false),
            ("web1", "web1:4321", false, false),
        ] {
            let waits = (waits(of, &down(), other), waits(of, &refused(), other));
            assert_eq!(waits, (while_down, after_refusal), "{of}, {other}");
        }
        assert!(!waits("web1", &ClientError::TooSoon(delays[0]), "web1"), "nobody has tried");
        assert!(!format!("{:?}", door(ann)).contains("ann"), "who it was is not kept");
    }

    #[test]
    fn a_host_that_failed_is_not_tried_again_for_a_while_longer_each_time() {
        let back_off = BackOff::default();
        let (one, other) = (door("web1"), door("web2"));
        let delays = [Duration::from_secs(5), Duration::from_secs(50)];
        let begun = Instant::now();
        let at = |seconds: u64| begun + Duration::from_secs(seconds);
        let left = |seconds| match back_off.expect_due(&one, Wants::Again, at(seconds)) {
            Err(ClientError::TooSoon(left)) => left.as_secs(),
            _ => 0,
        };
        let fails = |door: &Door, seconds| back_off.failed(door, &down(), &delays, at(seconds));
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
        assert!(back_off.expect_due(&other, Wants::Again, at(60)).is_ok(), "another host");
        back_off.connected(&one);
        assert_eq!(left(60), 0);
        fails(&one, 60);
        assert_eq!(left(60), 5);
        for number in 0..2 * MAX_FAILED {
            fails(&door(&format!("host{number}")), 60);
        }
        assert_eq!(back_off.all().len(), MAX_FAILED);
    }

    #[test]
    fn a_new_context_is_told_why_the_last_attempt_failed_for_a_second() {
        let back_off = BackOff::default();
        let web1 = door("web1");
        let begun = Instant::now();
        let why = down().code();
        back_off.failed(&web1, &down(), &[Duration::from_secs(5)], begun);
        let told = |millis| {
            let now = begun + Duration::from_millis(millis);
            back_off.expect_due(&web1, Wants::Anew, now).map_err(|error| error.code())
        };
        assert_eq!((told(0), told(999), told(1000)), (Err(why), Err(why), Ok(())));
        let again = Wants::Again;
        assert!(back_off.expect_due(&web1, again, begun + SOON).is_err(), "others wait for longer");
    }
}
