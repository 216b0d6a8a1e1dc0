//! The traced threads' side: each fills a ring of its own, without ever waiting.
//!
//! Cost of an event: a look at the processor's counter, and its fields written once, where they stay. No lock, no instruction
//! that other processors take part in, no allocation; a message that does not fit is counted.

use std::cell::RefCell;
use std::sync::Arc;

use jumpseat_wire::ring::message::{POINT, origin};
use rustc_hash::FxHashMap;
use tracing_core::Metadata;
use tracing_core::callsite::Identifier;

use crate::message::Words;
use crate::ring::{Draft, Place, Ring};
use crate::shared::Shared;

/// A thread's side of its ring.
struct ThreadRing {
    /// The layer's.
    layer: u64,
    shared: Arc<Shared>,
    ring: Arc<Ring>,
    place: Place,
    /// Messages that did not fit so far.
    lost: u64,
    /// The site of the newest message, which often is that of the next.
    newest: Option<(Identifier, u32)>,
    sites: FxHashMap<Identifier, u32>,
}

thread_local! {
    /// One a layer; mostly there is one layer.
    static RINGS: RefCell<Vec<ThreadRing>> = const { RefCell::new(Vec::new()) };
}

/// What a message is about.
pub(crate) struct About {
    pub kind: u8,
    /// When, in nanoseconds since the epoch.
    pub time: i64,
    pub metadata: &'static Metadata<'static>,
    pub span: u64,
    /// Of the span; not of points.
    pub parent: u64,
}

/// Puts a message into this thread's ring, with what `fill` appends.
#[inline]
pub(crate) fn send(shared: &Arc<Shared>, about: About, fill: impl FnOnce(&mut Draft<'_>)) {
    // A forked process shares the rings' memory with its parent, whose they are.
    if !shared.is_ours() {
        return;
    }
    let sent = RINGS.try_with(|rings| {
        // A value that traces while it is written comes here a second time: in the middle of another message.
        let Ok(mut rings) = rings.try_borrow_mut() else { return false };
        match rings.iter_mut().find(|ring| ring.layer == shared.number) {
            Some(ring) => ring.send(about, fill),
            None => ThreadRing::added(&mut rings, shared).send(about, fill),
        }
        true
    });
    // Refused above, or the thread is about to be gone and its ring with it.
    if sent != Ok(true) {
        shared.lose(1);
    }
}

impl ThreadRing {
    #[cold]
    fn added<'a>(rings: &'a mut Vec<ThreadRing>, shared: &Arc<Shared>) -> &'a mut ThreadRing {
        let ring = shared.new_ring();
        rings.push_mut(ThreadRing {
            layer: shared.number,
            shared: Arc::clone(shared),
            place: ring.place(),
            lost: ring.lost(),
            ring,
            newest: None,
            sites: FxHashMap::default(),
        })
    }

    #[inline]
    fn send(&mut self, about: About, fill: impl FnOnce(&mut Draft<'_>)) {
        let site = match &self.newest {
            Some((callsite, site)) if *callsite == about.metadata.callsite() => *site,
            _ => self.site(about.metadata),
        };
        let mut draft = self.ring.draft(&mut self.place);
        draft.put([0, about.time as u64, origin(site, about.kind), about.span]);
        if about.kind != POINT {
            draft.put([about.parent]);
        }
        fill(&mut draft);
        // What the agent would not take is lost, too: waiting for room for it would lose all that come after.
        if !draft.end(self.lost) {
            self.lost = self.ring.lose();
        }
        self.shared.wake_after_writing();
    }

    /// The number of a callsite.
    fn site(&mut self, metadata: &'static Metadata<'static>) -> u32 {
        let callsite = metadata.callsite();
        let site = match self.sites.get(&callsite) {
            Some(site) => *site,
            None => {
                let site = self.shared.site(metadata);
                self.sites.insert(callsite.clone(), site);
                site
            }
        };
        self.newest = Some((callsite, site));
        site
    }
}

impl Drop for ThreadRing {
    fn drop(&mut self) {
        self.ring.leave();
        self.shared.wake_after_writing();
    }
}
