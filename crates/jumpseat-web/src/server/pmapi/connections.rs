//! Connections to a host that its contexts share.
//!
//! ```text
//! context --request begins: take--> an idle connection, or a new one
//!         <--request ends: put back-- [`Connections`]: idle ones, the last used in front; closed after [`IDLE`]
//! ```
//!
//! A collector knows little of a connection: who asks, for which container, and the profile that was sent last. So contexts whose
//! specifications are the same take turns on as many connections as there are requests at a time. What tells clients apart keeps one of
//! its own ([`Own`]): agents remember for each what it has stored, and which event records it has had; and somebody who logs in
//! logs in each time.
//!
//! **Invariant:** a connection is used by one request at a time. What it tells once (that names or agents have changed, that it is
//! lost) counts for all contexts of the host: [`Epochs`].
//!
//! **Bounds:** [`MAX_IDLE`] idle connections of a host, [`MAX_OWN`] that are somebody's own; the rest as many as requests at a time.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pcp_client::{Context, HostSpec};

use super::busy;
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
    changes: AtomicU64,
    losses: AtomicU64,
    own: AtomicUsize,
}

/// What has happened to a host so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Epochs {
    /// How often it told that names or agents have changed.
    pub changes: u64,
    /// How often a connection was lost.
    pub losses: u64,
}

/// The right to a connection of one's own.
#[derive(Debug)]
pub(super) struct Own(Arc<Connections>);

/// A connection that nobody uses.
struct Idle {
    spec: Arc<HostSpec>,
    since: Instant,
    source: Context,
}

impl Connections {
    pub(super) fn epochs(&self) -> Epochs {
        let now = |count: &AtomicU64| count.load(Ordering::Acquire);
        Epochs { changes: now(&self.changes), losses: now(&self.losses) }
    }

    /// Gives a context without a connection an idle one for the same specification, if there is one.
    pub(super) fn take(&self, spec: &HostSpec, context: &mut Context) {
        let found = {
            let mut idle = self.idle();
            let at = idle.iter().rposition(|idle| *idle.spec == *spec);
            at.map(|at| idle.remove(at))
        };
        if let Some(mut found) = found {
            // Nothing is under way in either.
            let _ = context.swap_source(&mut found.source);
        }
    }

    /// Takes a connection back; `empty` is a context of the same specification that is not connected.
    pub(super) fn put_back(&self, spec: &Arc<HostSpec>, context: &mut Context, mut empty: Context) {
        if context.swap_source(&mut empty).is_err() {
            return;
        }
        let idle = Idle { spec: Arc::clone(spec), since: Instant::now(), source: empty };
        let mut all = self.idle();
        all.push(idle);
        let gone = (all.len() > MAX_IDLE).then(|| all.remove(0));
        drop(all);
        // Closed outside of the lock.
        drop(gone);
    }

    /// Names or agents have changed.
    pub(super) fn changed(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// A connection was lost: the others most likely are, too.
    pub(super) fn lost(&self) {
        self.losses.fetch_add(1, Ordering::AcqRel);
        let gone = std::mem::take(&mut *self.idle());
        drop(gone);
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
            connections.put_back(&plain, &mut context(&plain), context(&plain));
        }
        connections.put_back(&container, &mut context(&container), context(&container));
        let count = |of: &HostSpec| connections.idle().iter().filter(|idle| *idle.spec == *of).count();
        assert_eq!((count(&plain), count(&container)), (MAX_IDLE - 1, 1), "the oldest is gone");
        connections.take(&container, &mut context(&container));
        connections.take(&container, &mut context(&container));
        assert_eq!((count(&plain), count(&container)), (MAX_IDLE - 1, 0));
        drop(connections.too_old(Instant::now()));
        assert_eq!(count(&plain), MAX_IDLE - 1);
        drop(connections.too_old(Instant::now() + 2 * IDLE));
        assert_eq!(count(&plain), 0);
        connections.put_back(&plain, &mut context(&plain), context(&plain));
        connections.lost();
        assert_eq!((count(&plain), connections.epochs()), (0, Epochs { changes: 0, losses: 1 }));
    }
}
