//! The traced threads' side: each fills a ring of its own, without ever waiting.
//!
//! Cost of an event: a look at the clock, a lookup of the callsite, its fields written once, one copy into the
//! ring. No lock, no allocation once the thread's buffer has grown; a message that does not fit is counted.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{SystemTime, UNIX_EPOCH};

use jumpseat_wire::ring::MAX_MESSAGE;
use jumpseat_wire::ring::message::{self, HEAD};
use rustc_hash::FxHashMap;
use tracing_core::Metadata;
use tracing_core::callsite::Identifier;

use crate::ring::Ring;
use crate::shared::Shared;

/// A thread's side of its ring.
struct ThreadRing {
    shared: Arc<Shared>,
    ring: Arc<Ring>,
    /// What is known of the sender's position.
    taken: u64,
    /// Messages that did not fit so far.
    lost: u64,
    sites: FxHashMap<Identifier, u32>,
    message: Vec<u8>,
}

thread_local! {
    /// One a layer; mostly there is one layer.
    static RINGS: RefCell<Vec<ThreadRing>> = const { RefCell::new(Vec::new()) };
}

/// Puts a message into this thread's ring: of a kind, at a time, from a callsite, about a span and its parent, with what `fill`
/// appends.
pub(crate) fn send(
    shared: &Arc<Shared>,
    kind: u8,
    nanos: i64,
    metadata: &'static Metadata<'static>,
    (span, parent): (u64, u64),
    fill: impl FnOnce(&mut Vec<u8>),
) {
    // A forked process shares the rings' memory with its parent, whose they are.
    if !shared.is_ours() {
        return;
    }
    let sent = RINGS.try_with(|rings| {
        // A value that traces while it is written comes here a second time: in the middle of another message.
        let Ok(mut rings) = rings.try_borrow_mut() else { return false };
        let at = rings.iter().position(|ring| ring.shared.number == shared.number);
        let at = at.unwrap_or_else(|| {
            rings.push(ThreadRing::new(shared));
            rings.len() - 1
        });
        // It was found, or has just been added.
        rings[at].send((kind, nanos), metadata, (span, parent), fill);
        true
    });
    // Refused above, or the thread is about to be gone and its ring with it.
    if sent != Ok(true) {
        shared.lose(1);
    }
}

impl ThreadRing {
    fn new(shared: &Arc<Shared>) -> ThreadRing {
        let ring = shared.new_ring();
        ThreadRing {
            shared: Arc::clone(shared),
            taken: ring.taken(),
            lost: ring.lost(),
            ring,
            sites: FxHashMap::default(),
            message: Vec::new(),
        }
    }

    fn send(
        &mut self,
        (kind, nanos): (u8, i64),
        metadata: &'static Metadata<'static>,
        (span, parent): (u64, u64),
        fill: impl FnOnce(&mut Vec<u8>),
    ) {
        let site = match self.sites.get(&metadata.callsite()) {
            Some(site) => *site,
            None => {
                let site = self.shared.site(metadata);
                self.sites.insert(metadata.callsite(), site);
                site
            }
        };
        message::begin(&mut self.message, kind, nanos);
        message::origin(&mut self.message, site, span, parent);
        fill(&mut self.message);
        if self.message.len() > HEAD + MAX_MESSAGE {
            // The agent would not take it, and waiting for room for it would lose all that come after. The buffer goes
            // with it, as one such message shall not cost its memory for good.
            self.message = Vec::new();
            self.lost = self.ring.lose();
        } else {
            message::end(&mut self.message, self.lost);
            if !self.ring.push(&self.message, &mut self.taken) {
                self.lost = self.ring.lose();
            }
        }
        // The sender says that it sleeps and looks into the rings, this thread fills its ring and looks whether the
        // sender sleeps: without a fence on both sides each could miss what the other has just done.
        fence(Ordering::SeqCst);
        self.shared.wake();
    }
}

impl Drop for ThreadRing {
    fn drop(&mut self) {
        self.ring.leave();
        self.shared.wake();
    }
}

/// Nanoseconds since the epoch.
pub(crate) fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}
