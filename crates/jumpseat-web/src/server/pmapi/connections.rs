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
//! **Bounds:** [`MAX_IDLE`] idle connections of a host; [`MAX_OWN`] that are somebody's own; the rest as many as
//! requests at a time.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pcp_client::{Context, HostSpec};

use super::back_off::{BackOff, Door};
use super::busy;
use super::readiness::Readiness;
use super::texts::{InAll, Texts};
use crate::server::answer::Refusal;

/// Most idle connections of a host.
const MAX_IDLE: usize = 16;
/// Most connections of a host that contexts have of their own.
const MAX_OWN: usize = 256;
/// How long a connection is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(20);

/// The connections of a host.
#[derive(Debug, Default)]
pub(super) struct Connections {
    /// By when they were used last.
    idle: Mutex<Vec<Idle>>,
    /// Of all hosts: it is not forgotten with the last context on one.
    pub(super) back_off: Arc<BackOff>,
    /// What its metrics are.
    texts: Mutex<Texts>,
    news: AtomicU64,
    losses: AtomicU64,
    own: AtomicUsize,
}

/// The right to a connection of one's own.
#[derive(Debug)]
pub(super) struct Own(Arc<Connections>);

/// What goes with a connection.
#[derive(Debug)]
pub(super) struct Link {
    /// How many losses there had been when it was opened.
    pub opened: u64,
    /// There, once it was waited for.
    pub readiness: Option<Readiness>,
}

/// A connection that nobody uses.
struct Idle {
    spec: Arc<HostSpec>,
    since: Instant,
    link: Link,
    source: Context,
}

impl Connections {
    pub(super) fn new(back_off: Arc<BackOff>, texts_in_all: InAll) -> Connections {
        let texts = Mutex::new(Texts::new(texts_in_all));
        Connections { back_off, texts, ..Connections::default() }
    }

    /// Changes with each notice of a change, and with each connection that is opened.
    pub(super) fn news(&self) -> u64 {
        self.news.load(Ordering::Acquire)
    }

    /// How often connections were lost, those that went together once.
    pub(super) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Acquire)
    }

    /// Gives a context without a connection an idle one for the same specification, if there is one. Gives what goes with that one, and
    /// the source that the context had, for [`Connections::put_back`].
    pub(super) fn take(&self, spec: &HostSpec, context: &mut Context) -> Option<(Link, Context)> {
        let Idle { mut source, link, .. } = {
            let mut idle = self.idle();
            let at = idle.iter().rposition(|idle| *idle.spec == *spec)?;
            idle.remove(at)
        };
        // Nothing is under way in either.
        context.swap_source(&mut source).ok().map(|()| (link, source))
    }

    /// Whether [`Connections::take`] would find one.
    pub(super) fn has_idle(&self, spec: &HostSpec) -> bool {
        self.idle().iter().any(|idle| *idle.spec == *spec)
    }

    /// Takes a connection back; `spare` is a context of the same specification that is not connected, and is used up. While something
    /// is under way both stay where they are.
    pub(super) fn put_back(
        &self,
        spec: &Arc<HostSpec>,
        link: &mut Link,
        context: &mut Context,
        spare: &mut Option<Context>,
    ) {
        let Some(mut empty) = spare.take() else { return };
        if context.swap_source(&mut empty).is_err() {
            *spare = Some(empty);
            return;
        }
        let link = Link { readiness: link.readiness.take(), ..*link };
        let idle = Idle { spec: Arc::clone(spec), since: Instant::now(), link, source: empty };
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
            let gone: Vec<Idle> = self.idle().extract_if(.., |idle| idle.link.opened <= opened).collect();
            drop(gone);
        }
    }

    /// It has been connected to.
    pub(super) fn has_connected(&self, door: &Door) {
        self.back_off.connected(door);
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

    /// Help texts, for all specifications: who asks makes no difference to them.
    pub(super) fn texts(&self) -> MutexGuard<'_, Texts> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link {
    /// With a connection that is being opened.
    pub(super) fn new(losses: u64) -> Link {
        Link { opened: losses, readiness: None }
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
            connections.put_back(&plain, &mut Link::new(0), &mut context(&plain), &mut Some(context(&plain)));
        }
        connections.put_back(
            &container,
            &mut Link::new(0),
            &mut context(&container),
            &mut Some(context(&container)),
        );
        let count = |of: &HostSpec| connections.idle().iter().filter(|idle| *idle.spec == *of).count();
        assert_eq!((count(&plain), count(&container)), (MAX_IDLE - 1, 1), "the oldest is gone");
        let taken = connections.take(&container, &mut context(&container));
        assert_eq!(taken.map(|(link, _)| link.opened), Some(0));
        assert!(connections.take(&container, &mut context(&container)).is_none());
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
        connections.put_back(&spec, &mut Link::new(0), &mut context(), &mut Some(context()));
        connections.lost(0);
        assert_eq!((count(), connections.losses()), (0, 1), "the others most likely are lost, too");
        connections.put_back(&spec, &mut Link::new(1), &mut context(), &mut Some(context()));
        connections.put_back(&spec, &mut Link::new(0), &mut context(), &mut Some(context()));
        connections.lost(0);
        assert_eq!((count(), connections.losses()), (2, 1), "a second one of the same time");
        connections.lost(1);
        assert_eq!((count(), connections.losses()), (0, 2));
    }

    #[test]
    fn what_is_under_way_keeps_its_connection_until_it_is_done() {
        // Takes connections and says nothing.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = silent.local_addr().expect("it has one");
        let spec = Arc::new(at.to_string().parse::<HostSpec>().expect("a host"));
        let context =
            || Context::host_unconnected(&spec, &HostOptions::default()).expect("not yet connected");
        let connections = Connections::default();
        let (mut busy, mut spare) = (context(), Some(context()));
        busy.start_reconnect().expect("it is begun");
        connections.put_back(&spec, &mut Link::new(0), &mut busy, &mut spare);
        assert!(spare.is_some() && connections.idle().is_empty());
        drop(silent);
        let mut out = pcp_client::Fetched::new();
        while busy.advance(&mut out).is_ok() {
            std::thread::yield_now();
        }
        connections.put_back(&spec, &mut Link::new(0), &mut busy, &mut spare);
        assert!(spare.is_none() && connections.idle().len() == 1);
    }
}
