//! Connections to a host that its contexts share.
//!
//! ```text
//! context --request begins: take--> an idle connection, or a new one
//!         <--request ends: put back-- [`Connections`]: idle ones, the last used in front; closed after [`IDLE`]
//! ```
//!
//! A collector knows little of a connection: who asks, for which container, and the profile that was sent last. So contexts whose
//! specifications are the same take turns on as many connections as there are requests at a time. Whatever remembers keeps one of
//! its own ([`Own`]): agents remember for each client what it has stored, which event records it has had, and the sample
//! before; derived metrics remember the sample before, and what they are bound to; and somebody who logs in logs in each time.
//!
//! **Invariant:** a connection is used by one request at a time, and nothing is lost with one that is shared but what can be asked
//! again. What is told once (that names or agents have changed) is told over each connection that was open then, and over none that
//! was opened later: so contexts that share ask for names and descriptors again upon either ([`Connections::news`]).
//!
//! **Bounds:** [`MAX_IDLE`] idle connections of a host, and hosts that failed; [`MAX_OWN`] that are somebody's own; the rest as many as
//! requests at a time.
//!
//! **Back-off:** a host that could not be connected to is not tried again for a while, longer each time; for a new context not for
//! [`SOON`], as whoever makes one has just mended the host, or asks a dead one with each request.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pcp_client::{ClientError, Context, HostSpec};
use pcp_model::PmError;

use super::busy;
use crate::server::answer::Refusal;

/// Most idle connections of a host.
const MAX_IDLE: usize = 16;
/// Most connections of a host that contexts have of their own.
const MAX_OWN: usize = 256;
/// How long a connection is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(20);
/// How long an attempt that failed answers for the next one.
const SOON: Duration = Duration::from_secs(1);

/// The connections of a host.
#[derive(Debug, Default)]
pub(super) struct Connections {
    /// By when they were used last.
    idle: Mutex<Vec<Idle>>,
    /// Those that could not be connected to, by when they were found.
    failed: Mutex<Vec<Failed>>,
    news: AtomicU64,
    losses: AtomicU64,
    own: AtomicUsize,
}

/// A specification that could not be connected to.
#[derive(Debug)]
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

/// The right to a connection of one's own.
#[derive(Debug)]
pub(super) struct Own(Arc<Connections>);

/// A connection that nobody uses.
struct Idle {
    spec: Arc<HostSpec>,
    since: Instant,
    /// How many losses there had been when it was opened.
    opened: u64,
    source: Context,
}

impl Connections {
    /// Changes with each notice of a change, and with each connection that is opened.
    pub(super) fn news(&self) -> u64 {
        self.news.load(Ordering::Acquire)
    }

    /// How often connections were lost, those that went together once.
    pub(super) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Acquire)
    }

    /// Gives a context without a connection an idle one for the same specification, if there is one, and says how many losses there
    /// had been when that one was opened.
    pub(super) fn take(&self, spec: &HostSpec, context: &mut Context) -> Option<u64> {
        let mut found = {
            let mut idle = self.idle();
            let at = idle.iter().rposition(|idle| *idle.spec == *spec)?;
            idle.remove(at)
        };
        // Nothing is under way in either.
        context.swap_source(&mut found.source).ok().map(|()| found.opened)
    }

    /// Whether [`Connections::take`] would find one.
    pub(super) fn has_idle(&self, spec: &HostSpec) -> bool {
        self.idle().iter().any(|idle| *idle.spec == *spec)
    }

    /// Takes a connection back; `empty` is a context of the same specification that is not connected.
    pub(super) fn put_back(
        &self,
        spec: &Arc<HostSpec>,
        opened: u64,
        context: &mut Context,
        mut empty: Context,
    ) {
        if context.swap_source(&mut empty).is_err() {
            return;
        }
        let idle = Idle { spec: Arc::clone(spec), since: Instant::now(), opened, source: empty };
        let mut all = self.idle();
        all.push(idle);
        let gone = (all.len() > MAX_IDLE).then(|| all.remove(0));
        drop(all);
        // Closed outside of the lock.
        drop(gone);
    }

    /// Names or agents have changed, or may have: over a connection that has just been opened nobody tells of what was before.
    pub(super) fn changed(&self) {
        self.news.fetch_add(1, Ordering::AcqRel);
    }

    /// A connection was lost that was opened after so many losses: others of that time most likely are, too. Of those that are lost
    /// together the first one counts.
    pub(super) fn lost(&self, opened: u64) {
        let is_first =
            self.losses.compare_exchange(opened, opened + 1, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if is_first {
            let gone: Vec<Idle> = self.idle().extract_if(.., |idle| idle.opened <= opened).collect();
            drop(gone);
        }
    }

    /// Whether a specification may be tried now.
    ///
    /// # Errors
    /// [`ClientError::TooSoon`] after an attempt that failed; for a new context why it failed.
    pub(super) fn expect_due(&self, spec: &HostSpec, wants: Wants, now: Instant) -> Result<(), ClientError> {
        let all = self.failed();
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
    pub(super) fn failed_to_connect(
        &self,
        spec: &Arc<HostSpec>,
        why: PmError,
        delays: &[Duration],
        now: Instant,
    ) {
        let mut all = self.failed();
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
        if all.len() > MAX_IDLE {
            all.remove(0);
        }
    }

    /// It has been connected to.
    pub(super) fn has_connected(&self, spec: &HostSpec) {
        self.failed().retain(|failed| *failed.spec != *spec);
        self.changed();
    }

    /// Connections that have been idle for too long, to be dropped.
    pub(super) fn too_old(&self, now: Instant) -> Vec<Context> {
        let mut idle = self.idle();
        let old = idle.partition_point(|idle| now.saturating_duration_since(idle.since) > IDLE);
        idle.drain(..old).map(|idle| idle.source).collect()
    }

    /// The right to a connection of one's own.
    ///
    /// # Errors
    /// Others have them all.
    pub(super) fn own(self: &Arc<Connections>) -> Result<Own, Refusal> {
        if self.own.fetch_add(1, Ordering::AcqRel) >= MAX_OWN {
            self.own.fetch_sub(1, Ordering::AcqRel);
            return Err(busy(format!(
                "{MAX_OWN} contexts have a connection of their own to this host: try again later"
            )));
        }
        Ok(Own(Arc::clone(self)))
    }

    fn failed(&self) -> MutexGuard<'_, Vec<Failed>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.0.own.fetch_sub(1, Ordering::AcqRel);
    }
}

impl std::fmt::Debug for Idle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The specification may have a password.
        f.debug_struct("Idle").field("since", &self.since).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use pcp_client::HostOptions;

    use super::*;

    #[test]
    fn own_connections_are_so_many_and_come_back() {
        let connections = Arc::new(Connections::default());
        let mut all: Vec<Own> = (0..MAX_OWN).map(|_| connections.own().expect("there are as many")).collect();
        assert_eq!(connections.own().expect_err("one too many").status.as_u16(), 503);
        all.pop();
        assert!(connections.own().is_ok());
    }

    #[test]
    fn idle_connections_are_for_the_same_specification_and_not_for_ever() {
        let connections = Connections::default();
        let spec = |text: &str| Arc::new(text.parse::<HostSpec>().expect("a host"));
        let context = |spec: &HostSpec| {
            Context::host_unconnected(spec, &HostOptions::default()).expect("not yet connected")
        };
        let (plain, container) = (spec("web1"), spec("web1?container=one"));
        for _ in 0..MAX_IDLE {
            connections.put_back(&plain, 0, &mut context(&plain), context(&plain));
        }
        connections.put_back(&container, 0, &mut context(&container), context(&container));
        let count = |of: &HostSpec| connections.idle().iter().filter(|idle| *idle.spec == *of).count();
        assert_eq!((count(&plain), count(&container)), (MAX_IDLE - 1, 1), "the oldest is gone");
        assert_eq!(connections.take(&container, &mut context(&container)), Some(0));
        assert_eq!(connections.take(&container, &mut context(&container)), None);
        assert_eq!((count(&plain), count(&container)), (MAX_IDLE - 1, 0));
        drop(connections.too_old(Instant::now()));
        assert_eq!(count(&plain), MAX_IDLE - 1);
        drop(connections.too_old(Instant::now() + 2 * IDLE));
        assert_eq!(count(&plain), 0);
    }

    #[test]
    fn what_is_lost_together_is_one_loss_and_what_was_opened_since_stays() {
        let connections = Connections::default();
        let spec = Arc::new("web1".parse::<HostSpec>().expect("a host"));
        let context =
            || Context::host_unconnected(&spec, &HostOptions::default()).expect("not yet connected");
        let count = || connections.idle().len();
        connections.put_back(&spec, 0, &mut context(), context());
        connections.lost(0);
        assert_eq!((count(), connections.losses()), (0, 1), "the others most likely are lost, too");
        connections.put_back(&spec, 1, &mut context(), context());
        connections.put_back(&spec, 0, &mut context(), context());
        connections.lost(0);
        assert_eq!((count(), connections.losses()), (2, 1), "a second one of the same time");
        connections.lost(1);
        assert_eq!((count(), connections.losses()), (0, 2));
    }

    #[test]
    fn a_host_that_failed_is_not_tried_again_for_a_while_longer_each_time() {
        let connections = Connections::default();
        let spec = |text: &str| Arc::new(text.parse::<HostSpec>().expect("a host"));
        let (one, other) = (spec("web1"), spec("web1?container=one"));
        let delays = [Duration::from_secs(5), Duration::from_secs(50)];
        let begun = Instant::now();
        let at = |seconds: u64| begun + Duration::from_secs(seconds);
        let left = |seconds| match connections.expect_due(&one, Wants::Again, at(seconds)) {
            Err(ClientError::TooSoon(left)) => left.as_secs(),
            _ => 0,
        };
        let fails = |spec: &Arc<HostSpec>, seconds| {
            connections.failed_to_connect(spec, PmError::TIMEOUT, &delays, at(seconds))
        };
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
        assert!(connections.expect_due(&other, Wants::Again, at(60)).is_ok(), "another specification");
        let news = connections.news();
        connections.has_connected(&one);
        assert_eq!((left(60), connections.news()), (0, news + 1));
        fails(&one, 60);
        assert_eq!(left(60), 5);
        for number in 0..2 * MAX_IDLE {
            fails(&spec(&format!("host{number}")), 60);
        }
        assert_eq!(connections.failed().len(), MAX_IDLE);
    }

    #[test]
    fn a_new_context_is_told_why_the_last_attempt_failed_for_a_second() {
        let connections = Connections::default();
        let spec = Arc::new("web1".parse::<HostSpec>().expect("a host"));
        let begun = Instant::now();
        let why = PmError::from_errno(nix::libc::ECONNREFUSED);
        connections.failed_to_connect(&spec, why, &[Duration::from_secs(5)], begun);
        let told = |millis| {
            let now = begun + Duration::from_millis(millis);
            connections.expect_due(&spec, Wants::Anew, now).map_err(|error| error.code())
        };
        assert_eq!((told(0), told(999), told(1000)), (Err(why), Err(why), Ok(())));
        let again = Wants::Again;
        assert!(connections.expect_due(&spec, again, begun + SOON).is_err(), "others wait for longer");
    }
}
