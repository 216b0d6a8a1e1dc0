//! Contexts that nobody uses now: the next request for the same source takes one from here instead of connecting or opening again.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pcp_client::Context;

/// Most contexts.
const MAX: usize = 32;
/// How long one waits for its next use.
const KEPT: Duration = Duration::from_secs(60);

/// The contexts, in the order of their last use.
#[derive(Default)]
pub(super) struct Shelf {
    idle: Mutex<Vec<Idle>>,
}

struct Idle {
    key: String,
    since: Instant,
    context: Context,
}

impl std::fmt::Debug for Shelf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Shelf").field(&self.idle().len()).finish()
    }
}

impl Shelf {
    /// One of this source, without definitions of its own.
    pub(super) fn take(&self, key: &str) -> Option<Context> {
        let mut idle = self.idle();
        idle.retain(|idle| idle.since.elapsed() < KEPT);
        let at = idle.iter().rposition(|idle| idle.key == key)?;
        Some(idle.remove(at).context)
    }

    /// Gives one back.
    pub(super) fn put(&self, key: String, mut context: Context) {
        if !context.is_connected() {
            return;
        }
        context.derived().reset();
        let dropped = {
            let mut idle = self.idle();
            idle.push(Idle { key, since: Instant::now(), context });
            (idle.len() > MAX).then(|| idle.remove(0))
        };
        // Closing may take its time: without the lock.
        drop(dropped);
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
