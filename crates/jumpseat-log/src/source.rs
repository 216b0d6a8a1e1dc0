//! [`SourceLog`]: what a source's threads append to.
//!
//! A lock, that of the tail, is held from the moment that records get their numbers until they are handed on, so that they arrive in the order
//! of their numbers. Only threads that send under the same source at the same time ever wait for it. Everybody else reads what
//! is beside it: numbers that are atomic, and the list of segments, whose lock nobody holds while it waits for anything.
//!
//! **When the disk fails** the log goes on: numbers are given and records handed on, only not written. After a while, with the
//! next batch, a new segment is tried. What was not written is missing between two segments, and missed by who reads there.
//!
//! **Cost:** a batch is what [`crate::delta`] takes for its records, one `fstat`, one `pwritev` and a checksum over what is written; nothing
//! is allocated. 15 µs for 64 KiB of records on ext4, half of it the page cache's for the quarter that is left of them. A source that
//! writes much has room set aside for what comes next, up to 1 MiB and never more than its newest segment has: a quarter of what `pwritev`
//! takes otherwise is ext4 finding room block by block.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pcp_event::batch::Batch;
use pcp_event::log::{MAX_LOSS, MAX_SEQ, Stretch};
use pcp_files::{Ahead, DiskFile};
use pcp_model::{Inst, Timestamp};

use crate::body::Body;
use crate::common::{Beyond, Common, SyncMode};
use crate::format::{BATCH_HEAD, BatchHead, Head, MAX_CHANGES};
use crate::recover::Found;
use crate::segment::{Segment, memory_name, segment_name};
use crate::state::{Mark, State, put_changes};

/// How long a disk that has failed is left alone at first; doubled each time, up to [`MAX_RETRY`].
const RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_secs(30);
/// Bytes of a batch, on average, in segments that are longer than others: what the next life of the process reads of a segment is a
/// matter of how many batches it has.
const LARGE_BATCH: u64 = 16 << 10;

/// The counter of lost records, which the log keeps itself: those that it was told of, and those that it has lost.
pub const LOST: u32 = 0;
/// The counter of records that readers have had, which the log keeps, too: it is told with what is appended next, or within a
/// second.
pub const DELIVERED: u32 = 9;

/// What is appended at once: what was lost, then records.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Records lost before the batch, and when the newest of them was.
    pub lost: (u64, Timestamp),
    /// The records.
    pub batch: &'a Batch,
    /// What is added to counters, but [`LOST`].
    pub counters: &'a [(u32, u64)],
    /// Marks that have moved because of these records and losses.
    pub marks: &'a [Mark],
    /// How many of the records will be sent again if they are not there.
    pub numbered: u32,
}

/// What has become of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Sequence number of the first of the lost ones, or of the first record if none is.
    pub first: u64,
    /// How many lost ones were believed.
    pub lost: u64,
    /// Whether it survives the death of this process.
    pub written: bool,
}

/// The log of one source on disk.
#[derive(Debug)]
pub struct SourceLog {
    common: Arc<Common>,
    source: Inst,
    tail: Mutex<Tail>,
    files: Mutex<Files>,
    /// Held while somebody syncs, so that nobody takes for synced what another one is still waiting for.
    syncing: Mutex<()>,
    /// As it was at the start.
    begun: (u64, State),
    /// The newest batch then, until somebody wants it.
    newest: Mutex<Option<Stretch>>,
    /// Epochs, with the number that each began at, oldest first.
    epochs: Mutex<Vec<(u64, u64)>>,
    next: AtomicU64,
    /// Sequence number behind what survives a loss of power.
    synced: AtomicU64,
    failing: AtomicBool,
    /// Records that readers have had since something was appended last.
    delivered: AtomicU64,
}

/// Where the next batch goes.
#[derive(Debug)]
struct Tail {
    name: String,
    next: u64,
    /// Sequence number behind what is in files.
    written: u64,
    /// Lost ones since the last record.
    lost_run: u64,
    state: State,
    active: Option<Active>,
    /// Files before the active one that were not synced yet.
    unsynced: Vec<Arc<dyn DiskFile>>,
    /// Those of lives before, of which nobody knows whether they were.
    inherited: Vec<Arc<str>>,
    names_synced: bool,
    failing: Option<Failing>,
    /// A file says that numbers were given to records in memory only.
    in_memory: bool,
    head: Vec<u8>,
}

#[derive(Debug)]
struct Active {
    file: Arc<dyn DiskFile>,
    salt: u64,
    /// Where the batches begin, and where the next one goes.
    start: u64,
    at: u64,
    ahead: Ahead,
    batches: u64,
    /// How much longer than others it may be.
    beyond: Beyond,
    is_dirty: bool,
}

#[derive(Debug)]
struct Failing {
    retry_at: Instant,
    delay: Duration,
}

/// The segments, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub segments: VecDeque<Segment>,
    /// The time of the newest record in what was dropped to stay within the budget.
    pub dropped: Timestamp,
    pub bytes: u64,
}

/// A source's log in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceStats {
    /// Sequence numbers mean the same as long as this is the same.
    pub epoch: u64,
    /// Sequence number of the oldest that is on file.
    pub first: u64,
    /// Sequence number of the next.
    pub next: u64,
    /// Sequence number behind what survives a loss of power.
    pub synced: u64,
    /// When the oldest file was begun, in seconds since the epoch; 0 without one.
    pub since: i64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Files.
    pub segments: usize,
    /// Records are kept in memory only, as the disk does not take them.
    pub failing: bool,
}

impl SourceLog {
    pub(crate) fn new(common: Arc<Common>, source: Inst, name: &str, found: Option<Found>) -> SourceLog {
        let found = found.unwrap_or_else(|| Found::nothing(name));
        let mut state = found.state;
        state.change(&[(LOST, found.torn)], []);
        let mut tail = Tail::resume(found.name, found.next, state.clone());
        tail.in_memory = found.in_memory;
        let mut synced = found.next;
        if common.limits.sync != SyncMode::Never {
            tail.inherited = found.files.segments.iter().map(|segment| Arc::clone(&segment.name)).collect();
            synced = found.files.segments.front().map_or(0, |oldest| oldest.first);
        }
        let mut epochs = found.epochs;
        if epochs.is_empty() {
            epochs.push((common.random(), found.next));
        }
        SourceLog {
            common,
            source,
            tail: Mutex::new(tail),
            files: Mutex::new(found.files),
            syncing: Mutex::new(()),
            begun: (found.next, state),
            newest: Mutex::new(found.newest),
            epochs: Mutex::new(epochs),
            next: AtomicU64::new(found.next),
            synced: AtomicU64::new(synced),
            failing: AtomicBool::new(false),
            delivered: AtomicU64::new(0),
        }
    }

    /// The sequence number that this life of the process began with, and what the log knew then.
    pub fn begun(&self) -> (u64, &State) {
        (self.begun.0, &self.begun.1)
    }

    /// The newest records that were there at the start, once.
    pub fn newest(&self) -> Option<Stretch> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Has nobody else append until what is returned is dropped.
    pub fn lock(&self) -> Appender<'_> {
        Appender { log: self, tail: self.tail() }
    }

    /// Appends an entry.
    pub fn append(&self, entry: &Entry<'_>) -> Appended {
        self.lock().append(entry)
    }

    /// Notes that readers have had so many records. Never waits.
    pub fn delivered(&self, records: u64) {
        self.delivered.fetch_add(records, Ordering::Relaxed);
    }

    /// Writes down what has only been noted.
    pub(crate) fn settle(&self) {
        if self.delivered.load(Ordering::Relaxed) > 0 {
            let (lost, batch) = ((0, Timestamp::default()), &Batch::default());
            self.append(&Entry { lost, batch, counters: &[], marks: &[], numbered: 0 });
        }
    }

    /// What the log knows now. Waits for who appends.
    pub fn state(&self) -> State {
        self.tail().state.clone()
    }

    /// How far a stream is now. Waits for who appends.
    pub fn mark(&self, stream: &[u8]) -> Option<Mark> {
        self.tail().state.mark(stream).cloned()
    }

    /// The sequence number of the next record.
    pub fn next(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    /// Sequence numbers mean the same as long as this is the same.
    pub fn epoch(&self) -> u64 {
        self.epochs().last().map_or(0, |(epoch, _)| *epoch)
    }

    /// The sequence number that a number of an epoch is now; `None` if the epoch is unknown. What had a number that was lost
    /// with the power is taken for the first of the epoch after it.
    pub fn translate(&self, seq: u64, epoch: u64) -> Option<u64> {
        let epochs = self.epochs();
        let at = epochs.iter().position(|(known, _)| *known == epoch)?;
        Some(epochs.get(at + 1).map_or(seq, |(_, next)| seq.min(*next)))
    }

    /// Whether what is appended should be synced before it is acknowledged.
    pub fn syncs_batches(&self) -> bool {
        self.common.limits.sync == SyncMode::Batch
    }

    /// The log in numbers.
    pub fn stats(&self) -> SourceStats {
        let (next, epoch) = (self.next(), self.epoch());
        let files = self.files();
        SourceStats {
            epoch,
            first: files.segments.front().map_or(next, |segment| segment.first),
            next,
            synced: self.synced.load(Ordering::Relaxed),
            since: files.segments.front().map_or(0, |segment| segment.made),
            bytes: files.bytes,
            segments: files.segments.len(),
            failing: self.failing.load(Ordering::Relaxed),
        }
    }

    /// Sequence number behind what survives: the process if `sync` is [`SyncMode::Never`], else the machine.
    pub fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// Has everything that was appended so far survive a loss of power. Waits for the disk.
    ///
    /// # Errors
    /// The system's: what was appended may or may not survive. The next batch goes into another file.
    pub fn sync(&self) -> io::Result<()> {
        let _one = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        let (inherited, mut files, active, end, names) = {
            let mut tail = self.tail();
            let mut files = std::mem::take(&mut tail.unsynced);
            let active = match &mut tail.active {
                Some(Active { file, is_dirty, .. }) => std::mem::take(is_dirty).then(|| Arc::clone(file)),
                None => None,
            };
            files.extend(active.clone());
            let inherited = std::mem::take(&mut tail.inherited);
            (inherited, files, active, tail.written, !std::mem::replace(&mut tail.names_synced, true))
        };
        // Those that are gone by now need not be on disk.
        files.extend(inherited.iter().filter_map(|name| self.common.disk.open(name).ok()));
        if files.is_empty() {
            return Ok(());
        }
        let synced = files.iter().try_for_each(|file| file.sync());
        match synced.and_then(|()| if names { self.common.disk.sync_names() } else { Ok(()) }) {
            Ok(()) => {
                self.synced.fetch_max(end, Ordering::AcqRel);
                Ok(())
            }
            Err(error) => {
                let mut tail = self.tail();
                tail.names_synced = false;
                // What the system could not write it does not try again: nobody knows what is in that file.
                if tail.active.as_ref().zip(active).is_some_and(|(now, then)| Arc::ptr_eq(&now.file, &then)) {
                    tail.active = None;
                }
                self.common.failed(&tail.name, "cannot be synced", &error);
                Err(error)
            }
        }
    }

    pub(crate) fn common(&self) -> &Common {
        &self.common
    }

    pub(crate) fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn epochs(&self) -> MutexGuard<'_, Vec<(u64, u64)>> {
        self.epochs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the oldest segment, but never the newest. Whether there was one to remove.
    pub(crate) fn drop_oldest(&self) -> bool {
        let gone = {
            let mut files = self.files();
            if files.segments.len() < 2 {
                return false;
            }
            let Some(gone) = files.segments.pop_front() else { return false };
            files.dropped = files.dropped.max(gone.time);
            files.bytes -= gone.len;
            gone
        };
        self.common.freed(gone.len);
        self.common.remove(&gone.name);
        true
    }

    /// Removes all segments: the source is no more. How many records that were, lost ones included.
    pub(crate) fn drop_all(&self) -> u64 {
        // Nobody appends meanwhile.
        let tail = self.tail();
        let gone = {
            let mut files = self.files();
            files.bytes = 0;
            std::mem::take(&mut files.segments)
        };
        self.common.freed(gone.iter().map(|gone| gone.len).sum());
        gone.iter().for_each(|gone| self.common.remove(&gone.name));
        gone.front().map_or(0, |oldest| tail.next.saturating_sub(oldest.first))
    }

    /// Writes a batch, if the disk takes it.
    fn write(&self, tail: &mut Tail, head: &mut BatchHead, own: &[(u32, u64)], entry: &Entry<'_>) -> bool {
        let now = Instant::now;
        if tail.failing.as_ref().is_some_and(|failing| now() < failing.retry_at) {
            return false;
        }
        tail.encode(head, own, entry);
        let mut body = self.common.body();
        head.body = body.fill(entry.batch);
        let tried = self.try_write(tail, head, entry, &body);
        self.common.done_with(body);
        match tried {
            Ok(()) => {
                if tail.failing.take().is_some() {
                    tracing::warn!("the log of {}: is on disk again", tail.name);
                }
                if std::mem::take(&mut tail.in_memory) {
                    _ = self.common.disk.remove(&memory_name(self.source));
                }
                true
            }
            Err(error) => {
                let delay = tail.failing.as_ref().map_or(RETRY, |failing| (failing.delay * 2).min(MAX_RETRY));
                tail.failing = Some(Failing { retry_at: now() + delay, delay });
                tail.active = None;
                // Numbers that are given now would be given again if this process died. Mostly there is room for a name.
                tail.in_memory |= self.common.disk.create(&memory_name(self.source)).is_ok();
                self.common.failed(&tail.name, "goes on in memory", &error);
                false
            }
        }
    }

    fn try_write(
        &self,
        tail: &mut Tail,
        head: &mut BatchHead,
        entry: &Entry<'_>,
        body: &Body,
    ) -> io::Result<()> {
        let len = head.len() as u64;
        let segment = self.common.limits.segment;
        if tail.active.as_ref().is_none_or(|active| active.is_full(len, segment)) {
            self.begin_segment(tail)?;
        }
        let Tail { active: Some(active), head: bytes, .. } = tail else { return Ok(()) };
        // Nobody else writes here. Who has cut the file short, or taken its name away, has taken what was in it.
        if active.file.extent()? != (active.at, true) {
            return Err(io::Error::other("another process has changed or removed the file"));
        }
        let most = active.start + segment + active.beyond.bytes;
        active.ahead.reserve(&*active.file, active.at, active.at + len, most);
        head.seal(bytes, active.salt);
        let [records, rest] = body.parts(entry.batch);
        let crc = head.body_crc(&[records, rest]).to_be_bytes();
        active.file.write_at(&[bytes, records, rest, &crc], active.at)?;
        active.at += len;
        active.batches += 1;
        active.is_dirty = true;
        Ok(())
    }

    /// Begins a new segment, after making room for it.
    fn begin_segment(&self, tail: &mut Tail) -> io::Result<()> {
        let common = &self.common;
        if let Some(active) = tail.active.take() {
            // Those that nobody will ever sync need not be kept open.
            if active.is_dirty && common.limits.sync != SyncMode::Never {
                tail.unsynced.push(Arc::clone(&active.file));
            }
        }
        let beyond = common.beyond();
        common.make_room(self, common.limits.segment + beyond.bytes);
        let salt = common.random();
        let head = Head {
            domain: common.domain,
            epoch: self.epoch(),
            first: tail.next,
            salt,
            boot: common.boot,
            made: common.now().sec,
            source: self.source,
            name: tail.name.clone(),
            epochs: self.epochs().clone(),
            state: tail.state.clone(),
        };
        let bytes = head.encode();
        let name = segment_name(self.source, tail.next);
        // It has its name when it is whole. One with the same name has a head and no batch, or one that was cut short.
        let new = format!("{name}.new");
        _ = common.disk.remove(&new);
        let file = common.disk.create(&new)?;
        file.write_at(&[&bytes], 0)?;
        let replaces = self.files().segments.back().is_some_and(|last| *last.name == *name);
        if replaces {
            // What is replaced may be all that tells what the counters were.
            file.sync()?;
        }
        common.disk.rename(&new, &name)?;
        let len = bytes.len() as u64;
        let mut files = self.files();
        if replaces && let Some(old) = files.segments.pop_back() {
            files.bytes -= old.len;
            common.freed(old.len);
        }
        files.segments.push_back(Segment {
            name: name.into(),
            first: tail.next,
            len,
            time: Timestamp::default(),
            made: head.made,
        });
        files.bytes += len;
        common.used(len);
        drop(files);
        tail.names_synced = false;
        let (start, at, ahead) = (len, len, Ahead::default());
        tail.active = Some(Active { file, salt, start, at, ahead, batches: 0, beyond, is_dirty: true });
        Ok(())
    }

    /// Makes what was written known to readers.
    fn commit(&self, tail: &Tail, time: Timestamp) {
        let Some(active) = &tail.active else { return };
        {
            let mut files = self.files();
            let Files { segments, bytes, .. } = &mut *files;
            let Some(last) = segments.back_mut() else { return };
            let grown = active.at - last.len;
            (last.len, last.time) = (active.at, time.max(last.time));
            *bytes += grown;
            self.common.used(grown);
        }
        match self.common.limits.sync {
            SyncMode::Never => self.synced.store(tail.next, Ordering::Release),
            SyncMode::Interval | SyncMode::Batch => self.common.is_dirty.store(true, Ordering::Release),
        }
    }
}

/// However it is left: it is full, the log ends, or the disk has failed.
impl Drop for Active {
    fn drop(&mut self) {
        self.ahead.give_back(&*self.file, self.at);
    }
}

impl Active {
    /// Whether a batch of so many bytes belongs into the next segment. However long its head, and the batch: each has one at least.
    fn is_full(&self, len: u64, segment: u64) -> bool {
        let has = self.at - self.start;
        let most = if has >= self.batches * LARGE_BATCH { segment + self.beyond.bytes } else { segment };
        has > 0 && has + len > most
    }
}

/// The right to append to a source's log.
#[derive(Debug)]
pub struct Appender<'a> {
    log: &'a SourceLog,
    tail: MutexGuard<'a, Tail>,
}

impl Appender<'_> {
    /// Appends an entry.
    pub fn append(&mut self, entry: &Entry<'_>) -> Appended {
        let Appender { log, tail } = self;
        let room = MAX_LOSS.saturating_sub(tail.lost_run).min(MAX_SEQ.saturating_sub(tail.next));
        let (first, lost) = (tail.next, entry.lost.0.min(room));
        let mut head = BatchHead {
            first,
            lost,
            lost_time: entry.lost.1,
            time: entry.batch.last_time().unwrap_or(entry.lost.1),
            numbered: entry.numbered,
            ..BatchHead::default()
        };
        let own = [(LOST, lost), (DELIVERED, log.delivered.swap(0, Ordering::Relaxed))];
        // A new segment begins with the state as it is before this batch.
        let written = log.write(tail, &mut head, &own, entry);
        tail.state.change(entry.counters, entry.marks);
        tail.state.change(&own, []);
        tail.lost_run = if entry.batch.is_empty() { tail.lost_run + lost } else { 0 };
        tail.next = first + lost + entry.batch.len() as u64;
        log.next.store(tail.next, Ordering::Release);
        log.failing.store(tail.failing.is_some(), Ordering::Relaxed);
        if written {
            tail.written = tail.next;
            log.commit(tail, head.time);
        }
        Appended { first, lost, written }
    }
}

impl Tail {
    fn resume(name: String, next: u64, state: State) -> Tail {
        Tail {
            name,
            next,
            written: next,
            lost_run: 0,
            state,
            active: None,
            unsynced: Vec::new(),
            inherited: Vec::new(),
            names_synced: false,
            failing: None,
            in_memory: false,
            head: Vec::new(),
        }
    }

    /// Fills the buffer with what goes before the body.
    fn encode(&mut self, head: &mut BatchHead, own: &[(u32, u64)], entry: &Entry<'_>) {
        self.head.clear();
        self.head.resize(BATCH_HEAD, 0);
        put_changes(&mut self.head, own, entry.counters, entry.marks.iter());
        if self.head.len() > BATCH_HEAD + MAX_CHANGES {
            // Rather something twice than nothing at all.
            self.head.truncate(BATCH_HEAD);
            put_changes(&mut self.head, own, entry.counters, [].iter());
        }
        head.changes = (self.head.len() - BATCH_HEAD) as u32;
        head.records = entry.batch.len() as u32;
        head.bytes = entry.batch.bytes().len() as u32;
    }
}
