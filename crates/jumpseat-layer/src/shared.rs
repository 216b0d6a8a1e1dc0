//! What the traced threads and the sender of a layer share: rings, callsites, and when to wake whom.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use jumpseat_wire::ring::chunk::sender;
use jumpseat_wire::ring::site::Site;
use jumpseat_wire::ring::thread::Thread;
use jumpseat_wire::ring::{SITES, head};
use jumpseat_wire::severity::Severity;
use tracing_core::callsite::Identifier;
use tracing_core::{Level, Metadata};

use crate::memory::RingFile;
use crate::ring::Ring;
use crate::sleep::Sleep;

/// Longest target and path of a file.
const MAX_TEXT: usize = 255;

/// What the traced threads and the sender of a layer share.
pub(crate) struct Shared {
    /// Tells layers apart.
    pub number: u64,
    /// Bytes of a thread's ring.
    ring: usize,
    /// The rings' file, made when the first of them is. `None`: the system gives none, and rings end with the program.
    file: OnceLock<Option<RingFile>>,
    rings: Mutex<Rings>,
    sites: Mutex<Sites>,
    /// Whether the sender sleeps until it is woken.
    pub sleep: Sleep,
    pub writer: OnceLock<thread::Thread>,
    /// Messages lost outside of any ring, if there is no file: how many, how many of them are in chunks, and were told.
    lost: [AtomicU64; 3],
    /// How often somebody has asked for everything to be sent, and how often that was done.
    pub flushes: (AtomicU64, AtomicU64),
    /// Why there is no connection.
    trouble: Mutex<Option<String>>,
}

#[derive(Default)]
struct Rings {
    /// Those of new threads, for the sender.
    new: Vec<Arc<Ring>>,
    /// Those in the file that no thread has any more.
    free: Vec<Arc<Ring>>,
    /// Slots that were given out.
    slots: u64,
}

#[derive(Default)]
struct Sites {
    /// By their numbers.
    known: Vec<(Identifier, Arc<Site>)>,
    /// As they are in the file.
    table: Vec<u8>,
}

impl Shared {
    pub(crate) fn new(ring: usize) -> Shared {
        static LAYERS: AtomicU64 = AtomicU64::new(0);
        Shared {
            number: LAYERS.fetch_add(1, Ordering::Relaxed),
            ring,
            file: OnceLock::new(),
            rings: Mutex::default(),
            sites: Mutex::default(),
            sleep: Sleep::new(),
            writer: OnceLock::new(),
            lost: Default::default(),
            flushes: Default::default(),
            trouble: Mutex::default(),
        }
    }

    /// The file of the rings.
    #[inline]
    pub(crate) fn file(&self) -> Option<&RingFile> {
        self.file.get_or_init(|| RingFile::new(self.ring).ok()).as_ref()
    }

    /// Who the layer is to the agent: by chance, so that it is nobody else's, and is never another program's.
    pub(crate) fn name(&self) -> String {
        let id: [u64; 2] = std::array::from_fn(|_| RandomState::new().hash_one(self.number));
        if let Some(file) = self.file() {
            file.head(head::ID).store(id[0], Ordering::Relaxed);
            file.head(head::ID + 1).store(id[1], Ordering::Release);
        }
        sender(id)
    }

    /// Whether this process has the sender. One that was forked has none, and must leave its parent's rings alone.
    #[inline]
    pub(crate) fn is_ours(&self) -> bool {
        self.file().is_none_or(RingFile::is_ours)
    }

    /// A message was lost outside of any ring.
    pub(crate) fn lose(&self, count: u64) {
        if self.is_ours() {
            self.lost().fetch_add(count, Ordering::Release);
        }
    }

    /// How many messages were lost outside of any ring.
    pub(crate) fn lost(&self) -> &AtomicU64 {
        self.outside(head::LOST, 0)
    }

    /// How many of them are in chunks.
    pub(crate) fn sent_told(&self) -> u64 {
        self.outside(head::SENT_TOLD, 1).load(Ordering::Relaxed)
    }

    /// So many of them are in chunks.
    pub(crate) fn set_sent_told(&self, told: u64) {
        self.outside(head::SENT_TOLD, 1).store(told, Ordering::Release);
    }

    /// So many of them were told, and that acknowledged.
    pub(crate) fn told(&self, told: u64) {
        self.outside(head::TOLD, 2).store(told, Ordering::Release);
    }

    fn outside(&self, in_file: usize, private: usize) -> &AtomicU64 {
        self.file().map_or(&self.lost[private], |file| file.head(in_file))
    }

    fn rings(&self) -> MutexGuard<'_, Rings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why there is no connection, if there was an attempt.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_trouble(&self, trouble: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    /// A ring for a thread.
    pub(crate) fn new_ring(&self) -> Arc<Ring> {
        let file = self.file();
        let mut rings = self.rings();
        let ring = rings.free.pop().unwrap_or_else(|| {
            let number = rings.slots + 1;
            let in_file = |file: &RingFile| Some(Ring::in_file(number, file.slot(number).ok()?));
            let ring = file.filter(|file| number <= file.geometry.slots).and_then(in_file);
            rings.slots += u64::from(ring.is_some());
            // More threads than slots, or too little memory: their events end with the program, as all without a file.
            Arc::new(ring.unwrap_or_else(|| Ring::private(self.ring.next_power_of_two())))
        });
        ring.enter(&this_thread());
        rings.new.push(Arc::clone(&ring));
        ring
    }

    /// Takes over the rings of new threads.
    pub(crate) fn take_new(&self, known: &mut Vec<Arc<Ring>>) {
        known.append(&mut self.rings().new);
    }

    pub(crate) fn has_new(&self) -> bool {
        !self.rings().new.is_empty()
    }

    /// A ring is empty, and its thread has ended.
    pub(crate) fn put_back(&self, ring: &Arc<Ring>) {
        if ring.slot != 0 {
            self.rings().free.push(Arc::clone(ring));
        }
    }

    /// The number of a callsite.
    pub(crate) fn site(&self, metadata: &'static Metadata<'static>) -> u32 {
        let mut sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        let known = sites.known.iter().position(|(callsite, _)| *callsite == metadata.callsite());
        known.unwrap_or_else(|| {
            let site = site(metadata);
            let before = sites.table.len();
            site.put(&mut sites.table);
            if let Some(file) = self.file() {
                file.set_sites(&sites.table, before);
            }
            sites.known.push((metadata.callsite(), Arc::new(site)));
            sites.known.len() - 1
        }) as u32
    }

    /// Whether all callsites are in the file.
    pub(crate) fn has_all_sites(&self) -> bool {
        let sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        sites.table.len() as u64 <= SITES
    }

    /// Appends the callsites that are new, by their numbers.
    pub(crate) fn take_sites(&self, known: &mut Vec<Arc<Site>>) {
        let sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        let new = sites.known.iter().skip(known.len());
        known.extend(new.map(|(_, site)| Arc::clone(site)));
    }

    /// Wakes the sender, if it sleeps, after a ring was written to.
    #[inline]
    pub(crate) fn wake_after_writing(&self) {
        self.sleep.before_looking();
        if self.sleep.is_on() {
            self.unpark();
        }
    }

    /// Wakes the sender, whatever it waits for.
    pub(crate) fn unpark(&self) {
        if let Some(writer) = self.writer.get() {
            writer.unpark();
        }
    }
}

/// The thread that asks.
fn this_thread() -> Thread {
    let id = u64::try_from(rustix::thread::gettid().as_raw_nonzero().get()).unwrap_or_default();
    Thread::new(id, thread::current().name().unwrap_or_default())
}

fn site(metadata: &Metadata<'static>) -> Site {
    let severity = match *metadata.level() {
        Level::ERROR => Severity::Error,
        Level::WARN => Severity::Warning,
        Level::INFO => Severity::Info,
        Level::DEBUG => Severity::Debug,
        _ => Severity::Trace,
    };
    // The name of an event is its place in the source code: its target groups better.
    let name = if metadata.is_span() { metadata.name() } else { metadata.target() };
    let fields = metadata.fields().iter().map(|field| field.name().as_bytes().into()).collect();
    Site {
        name: name.as_bytes().into(),
        severity,
        target: cut(if metadata.is_span() { metadata.target() } else { "" }),
        file: cut(metadata.file().unwrap_or_default()),
        line: metadata.line().unwrap_or_default(),
        fields,
    }
}

/// A text that stands in many records; of a long one the end, which says more.
fn cut(text: &str) -> Box<[u8]> {
    let mut start = text.len().saturating_sub(MAX_TEXT);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text.as_bytes()[start..].into()
}
