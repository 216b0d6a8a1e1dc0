//! Whether the sender sleeps, and has to be woken by who writes into a ring.
//!
//! The sender says that it sleeps and looks into the rings, a thread fills its ring and looks whether the sender sleeps. Without
//! a fence on both sides each could miss what the other has just done. A fence costs a thread as much as all else that it does
//! there, and the sender seldom sleeps: so it has the system make one on all processors that run this program (membarrier(2)),
//! where that can be had.

use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

use rustix::thread::{MembarrierCommand, membarrier};

pub(crate) struct Sleep {
    is_on: AtomicBool,
    /// The system does not do it, so that each thread has to.
    needs_fences: bool,
}

impl Sleep {
    pub(crate) fn new() -> Sleep {
        let registered = membarrier(MembarrierCommand::RegisterPrivateExpedited);
        Sleep { is_on: AtomicBool::new(false), needs_fences: registered.is_err() }
    }

    /// For a thread, between writing and [`Sleep::is_on`].
    #[inline]
    pub(crate) fn before_looking(&self) {
        if self.needs_fences {
            fence(Ordering::SeqCst);
        } else {
            compiler_fence(Ordering::SeqCst);
        }
    }

    /// Whether the sender is to be woken, which is then up to who asks.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed) && self.is_on.swap(false, Ordering::Relaxed)
    }

    /// For the sender, before it looks into the rings for the last time: whether it will be woken for sure from now on.
    pub(crate) fn begin(&self) -> bool {
        self.is_on.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        // What the system did once, it may refuse later, within a sandbox.
        self.needs_fences || membarrier(MembarrierCommand::PrivateExpedited).is_ok()
    }

    /// The sender is awake.
    pub(crate) fn end(&self) {
        self.is_on.store(false, Ordering::Relaxed);
    }
}
