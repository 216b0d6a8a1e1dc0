//! The traced threads' side: a ring of bytes for each thread, which it fills without ever waiting.
//!
//! Cost of an event: a look at the clock, a lookup of the callsite, its fields written once, one copy into the
//! ring. No lock, no allocation once the thread's buffer has grown; a message that does not fit is counted.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{SystemTime, UNIX_EPOCH};

use rtrb::{Consumer, Producer, RingBuffer};
use rustc_hash::FxHashMap;
use tracing_core::Metadata;
use tracing_core::callsite::Identifier;

use super::message;

/// Longest message: the agent takes records of 64 KiB, unless configured otherwise.
pub(crate) const MAX_MESSAGE: usize = 60 << 10;

/// What the traced threads and the writer of a layer share.
pub(crate) struct Shared {
    /// Tells layers apart.
    pub number: u64,
    /// Bytes of a thread's ring.
    ring: usize,
    /// Rings of new threads, for the writer to take over.
    pub new_rings: Mutex<Vec<RingReader>>,
    /// The callsites by their numbers.
    pub sites: Mutex<Vec<&'static Metadata<'static>>>,
    /// Whether the writer sleeps until it is woken.
    pub idle: AtomicBool,
    pub writer: OnceLock<Thread>,
    /// Messages lost by threads that are about to be gone, or within the writing of another.
    pub lost: AtomicU64,
    /// How often somebody has asked for everything to be sent, and how often that was done.
    pub flushes: (AtomicU64, AtomicU64),
}

/// The writer's side of a thread's ring.
pub(crate) struct RingReader {
    pub ring: Consumer<u8>,
    /// Messages that did not fit, and come after all that are in the ring.
    pub lost: Arc<AtomicU64>,
}

/// A thread's ring.
struct ThreadRing {
    shared: Arc<Shared>,
    ring: Producer<u8>,
    sites: FxHashMap<Identifier, u32>,
    message: Vec<u8>,
    scratch: Vec<u8>,
    /// Messages that did not fit, since the last that did. The next one that does reports them, or the writer
    /// when it has emptied the ring.
    lost: Arc<AtomicU64>,
}

thread_local! {
    /// One a layer; mostly there is one layer.
    static RINGS: RefCell<Vec<ThreadRing>> = const { RefCell::new(Vec::new()) };
}

impl Shared {
    pub(crate) fn new(ring: usize) -> Shared {
        static LAYERS: AtomicU64 = AtomicU64::new(0);
        Shared {
            number: LAYERS.fetch_add(1, Ordering::Relaxed),
            ring,
            new_rings: Mutex::default(),
            sites: Mutex::default(),
            idle: AtomicBool::new(false),
            writer: OnceLock::new(),
            lost: AtomicU64::new(0),
            flushes: Default::default(),
        }
    }

    /// Wakes the writer, if it sleeps.
    pub(crate) fn wake(&self) {
        if self.idle.load(Ordering::Relaxed) && self.idle.swap(false, Ordering::Relaxed) {
            self.unpark();
        }
    }

    /// Wakes the writer, whatever it waits for.
    pub(crate) fn unpark(&self) {
        if let Some(writer) = self.writer.get() {
            writer.unpark();
        }
    }

    fn site(&self, metadata: &'static Metadata<'static>) -> u32 {
        let mut sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        let known = sites.iter().position(|site| site.callsite() == metadata.callsite());
        known.unwrap_or_else(|| {
            sites.push(metadata);
            sites.len() - 1
        }) as u32
    }
}

/// Puts a message into this thread's ring: of a kind, from a callsite, about a span and its parent, with what `fill`
/// appends.
pub(crate) fn send(
    shared: &Arc<Shared>,
    kind: u8,
    metadata: &'static Metadata<'static>,
    (span, parent): (u64, u64),
    fill: impl FnOnce(&mut Vec<u8>),
) {
    let sent = RINGS.try_with(|rings| {
        // A value that traces while it is written comes here a second time: in the middle of another message.
        let Ok(mut rings) = rings.try_borrow_mut() else { return false };
        let at = rings.iter().position(|ring| ring.shared.number == shared.number);
        let at = at.unwrap_or_else(|| {
            rings.push(ThreadRing::new(shared));
            rings.len() - 1
        });
        // It was found, or has just been added.
        rings[at].send(kind, metadata, (span, parent), fill);
        true
    });
    // Refused above, or the thread is about to be gone and its ring with it.
    if sent != Ok(true) {
        shared.lost.fetch_add(1, Ordering::Relaxed);
    }
}

impl ThreadRing {
    fn new(shared: &Arc<Shared>) -> ThreadRing {
        let (ring, consumer) = RingBuffer::new(shared.ring);
        let lost = Arc::<AtomicU64>::default();
        let reader = RingReader { ring: consumer, lost: Arc::clone(&lost) };
        shared.new_rings.lock().unwrap_or_else(PoisonError::into_inner).push(reader);
        ThreadRing {
            shared: Arc::clone(shared),
            ring,
            sites: FxHashMap::default(),
            message: Vec::new(),
            scratch: Vec::new(),
            lost,
        }
    }

    fn send(
        &mut self,
        kind: u8,
        metadata: &'static Metadata<'static>,
        (span, parent): (u64, u64),
        fill: impl FnOnce(&mut Vec<u8>),
    ) {
        let nanos = now();
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
        message::end(&mut self.message);
        if self.message.len() > MAX_MESSAGE {
            // The agent would not take it, and waiting for room for it would lose all that come after. The buffer goes
            // with it, as one such message shall not cost its memory for good.
            self.message = Vec::new();
            self.lost.fetch_add(1, Ordering::Release);
        } else if !self.report_lost(nanos) || self.ring.push_entire_slice(&self.message).is_err() {
            self.lost.fetch_add(1, Ordering::Release);
        }
        // The writer says that it sleeps and looks into the rings, this thread fills its ring and looks whether the
        // writer sleeps: without a fence on both sides each could miss what the other has just done.
        fence(Ordering::SeqCst);
        self.shared.wake();
    }

    /// Puts the number of those that did not fit into the ring, if there are any and the message fits as well.
    /// Whether it may follow.
    fn report_lost(&mut self, nanos: i64) -> bool {
        if self.lost.load(Ordering::Relaxed) == 0 {
            return true;
        }
        if self.ring.slots() < self.message.len() + message::LOST_LEN {
            return false;
        }
        // None if the writer has reported them meanwhile.
        let count = self.lost.swap(0, Ordering::Relaxed);
        if count > 0 {
            message::lost(&mut self.scratch, nanos, count);
            if self.ring.push_entire_slice(&self.scratch).is_err() {
                debug_assert!(false, "there were slots for both, and only this thread fills them");
                self.lost.fetch_add(count, Ordering::Release);
                return false;
            }
        }
        true
    }
}

impl Drop for ThreadRing {
    fn drop(&mut self) {
        self.shared.wake();
    }
}

/// Nanoseconds since the epoch.
pub(crate) fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}
