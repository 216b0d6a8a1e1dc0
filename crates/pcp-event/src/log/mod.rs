//! [`EventLog`]: the records of one source, kept once, served to any number of clients.
//!
//! Every record that the source sends has a sequence number, also those lost before they reached the
//! log ([`EventLog::append_missed`]). A client reads through a cursor of its own, which starts at the
//! end of the log; each record is delivered exactly once per cursor, or counted as filtered, or
//! becomes part of a *missed* record at the place where it was lost. For each cursor at any time
//!
//! ```text
//! sequence number now - at joining + again == delivered + filtered + missed + queued
//! ```
//!
//! where `again` is by how much its client has moved it back ([`EventLog::seek`]).
//!
//! **Memory.** Records stay packed, in chunks, with 4 bytes of index each. All of it (spare capacity
//! too) is kept within the budget: when it is full, the oldest chunk is evicted, which is at most a
//! sixteenth of the budget or one record. A chunk is freed when all cursors have read it, except the
//! newest records that [`EventLog::recent`] shows. A log without cursors keeps only those.
//!
//! **History.** With [`EventLog::with_history`] what is evicted is still to be had from the [`History`]: a cursor that is behind
//! the chunks reads there, in the same order and with the same accounting.
//!
//! **Losses.** Eviction tells nobody: a cursor that is behind finds out when it is used next, and then
//! owes its client one missed record, stamped with the time of the newest record lost there, in front
//! of the first that survived. For a cursor with a filter only those count that would have passed. A
//! loss reported by the source counts for everybody and appears at its own place. As pmcd sets the
//! count of HIGHRES missed records to 0 (`docs/pcp/events.md` 1.6), each is followed there by an ordinary
//! record with the same timestamp, flag `point` and one U64 parameter, [`LogConfig::missed_pmid`],
//! that holds the count.
//!
//! **Cost.** Appending: at most one copy of the bytes, none for large batches, no visit to any cursor.
//! Reading: a lookup by sequence number, then for the HIGHRES kind without a filter one copy for each
//! chunk, for the EVENT kind one for each record; nothing is allocated but `out`. A filtered cursor
//! that has not kept up costs one evaluation for each evicted record and *distinct filter*; finding
//! those that have just fallen behind is a walk over the cursors for each evicted chunk that
//! had such a reader. What filters do is charged beforehand, for the worst case, and limited ([`EventLog::set_work`]):
//! beyond that a read ends early, and evicted records count as missed without a look.

mod chunk;
mod cursor;
mod group;
mod history;
mod read;
mod resume;
mod seek;

use std::collections::VecDeque;
use std::sync::Arc;

use super::batch::{Batch, latest_of, record_time};
use super::filter::{FieldResolver, Filter, MAX_COST};
use super::work::Work;
use chunk::{Chunk, memory_of};
use cursor::{Cursor, CursorTable};
pub use cursor::{CursorId, CursorStats, ReadOutcome};
use group::Groups;
use history::Recalled;
pub use history::{History, Recall, Stretch};
use pcp_model::{Pmid, Timestamp};
pub use resume::CursorState;
pub use seek::{Place, SeekError};

/// Smallest budget; a smaller one is raised to this.
pub const MIN_BUDGET: usize = 16 * 1024;
/// Largest number of records that can be lost at one place; a source that claims more is not
/// believed, as every 2^31 of them are a record that clients must read.
pub const MAX_LOSS: u64 = 1 << 40;
/// Losses beyond this sequence number are not believed either: what is left of the 64 bits is for records,
/// more than any source can send.
pub const MAX_SEQ: u64 = 1 << 63;

/// Most work of filters for one read; what is over comes with the next.
pub const READ_WORK: Work = Work::new(8 << 20);
// Else a reader would never get past such a record.
const _: () = assert!(READ_WORK.steps() >= MAX_COST);

/// Most bytes in a chunk that small batches are copied into.
const MAX_COPIED: usize = 64 * 1024;
/// Most bytes in a batch that becomes a chunk as it is.
const MAX_MOVED: usize = 1024 * 1024;

/// How a log is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Most bytes of memory for records and their index, at least [`MIN_BUDGET`].
    pub budget: usize,
    /// How many of the newest records are kept for [`EventLog::recent`].
    pub recent: usize,
    /// The parameter with the count of lost records, type U64, in HIGHRES arrays.
    pub missed_pmid: Pmid,
}

/// The records of one source.
#[derive(Debug)]
pub struct EventLog {
    config: LogConfig,
    /// Oldest first.
    chunks: VecDeque<Chunk>,
    cursors: CursorTable,
    groups: Groups,
    /// Sequence number of the next record.
    next_seq: u64,
    /// Cursors that have read everything, and those of them with a filter.
    caught_up: usize,
    caught_up_filtered: usize,
    /// The latest time of all entries so far, and of those that are no longer held, or somewhat later.
    latest: Option<Timestamp>,
    gone_latest: Option<Timestamp>,
    /// The time of the newest entry that is no longer held.
    gone_time: Timestamp,
    /// What filters may still do.
    work: Work,
    /// What is no longer in memory.
    recalled: Recalled,
    memory: usize,
    records: usize,
    totals: Totals,
}

#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    appended: u64,
    missed: u64,
    evicted: u64,
}

/// A log's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogStats {
    /// Sequence number of the next record: the number of records sent so far, lost ones included.
    pub seq: u64,
    /// Sequence number of the oldest entry held, `seq` if there is none.
    pub first: u64,
    /// Most bytes of memory.
    pub budget: usize,
    /// Bytes of memory held, at most the budget.
    pub bytes: usize,
    /// Records held.
    pub records: usize,
    /// Chunks held.
    pub chunks: usize,
    /// Records appended so far.
    pub appended: u64,
    /// Records lost so far before they reached the log.
    pub missed: u64,
    /// Records dropped so far to stay within the budget, in chunks that a cursor had not read to the end.
    pub evicted: u64,
    /// Cursors.
    pub cursors: usize,
}

impl EventLog {
    /// An empty log.
    pub fn new(config: LogConfig) -> EventLog {
        EventLog {
            config: LogConfig { budget: config.budget.max(MIN_BUDGET), ..config },
            chunks: VecDeque::new(),
            cursors: CursorTable::default(),
            groups: Groups::default(),
            next_seq: 0,
            caught_up: 0,
            caught_up_filtered: 0,
            latest: None,
            gone_latest: None,
            gone_time: Timestamp::default(),
            work: Work::UNLIMITED,
            recalled: Recalled::default(),
            memory: 0,
            records: 0,
            totals: Totals::default(),
        }
    }

    /// A log that goes on at sequence number `next`, before which are the records of a history. Everything that is appended is
    /// in the history, too, or lost for who does not read it while it is in memory. `newest`: the end of the history, which
    /// [`EventLog::recent`] shows from.
    pub fn with_history(
        config: LogConfig,
        next: u64,
        newest: Option<Stretch>,
        history: Box<dyn History>,
    ) -> EventLog {
        let mut log = EventLog { next_seq: next, recalled: Recalled::new(history), ..EventLog::new(config) };
        // As much of it as `recent` shows, if there is no memory for more yet.
        let newest =
            newest.map(|newest| history::chunk_of(newest.newest(log.config.recent, log.config.budget)));
        if let Some(chunk) = newest.filter(|chunk| chunk.end() == next && chunk.memory() <= log.config.budget)
        {
            log.records += chunk.len();
            log.latest = chunk.latest_time();
            log.push(chunk);
            log.release();
        }
        log
    }

    /// Appends the records of a batch.
    pub fn append(&mut self, batch: Batch) {
        self.absorb(batch);
    }

    /// The same. Gives an empty batch with memory that is not needed here, if there is any: the batch's own, or that of what had to
    /// go for it. New memory would cost a page fault for each 4 KiB.
    pub fn absorb(&mut self, mut batch: Batch) -> Batch {
        self.totals.appended += batch.len() as u64;
        // Without cursors nobody will ever read these but `recent`, which shows the newest only.
        let unwanted = match self.cursors.len() {
            0 => batch.len().saturating_sub(self.config.recent),
            _ => 0,
        };
        let latest = batch.latest_time();
        self.skip(&batch, unwanted);
        if unwanted == batch.len() {
            batch.clear();
            return batch;
        }
        let (mut bytes, ends) = batch.into_parts();
        let used = ends.last().map_or(0, |&end| end as usize);
        // A batch of its own chunk costs no copy. Not a small one, as each chunk has its overhead; not one with much
        // spare room, as that would count against the budget; not a huge one, as eviction takes whole chunks.
        let movable = used >= self.max_copied() / 2 && used <= self.max_moved();
        let tight = bytes.capacity() - used <= used / 4;
        let needed = memory_of(bytes.capacity(), ends.capacity(), 0);
        let room = if unwanted == 0 && movable && tight { self.make_room(needed) } else { None };
        let rest = if let Some(evicted) = room {
            self.next_seq += ends.len() as u64;
            self.records += ends.len();
            self.latest = self.latest.max(latest);
            bytes.truncate(used);
            self.push(Chunk::new(self.next_seq - ends.len() as u64, bytes, ends));
            evicted
        } else {
            let offset = unwanted.checked_sub(1).map_or(0, |last| ends[last]);
            self.copy(&bytes[..used], &ends[unwanted..], offset, latest);
            Batch::of_memory(bytes, ends)
        };
        self.release();
        rest
    }

    /// Notes that `count` records were lost before they reached the log, the newest at `time`. They
    /// count for every cursor, at this place. More than [`MAX_LOSS`] at one place count as that many, and
    /// sequence numbers end at [`MAX_SEQ`]. Returns how many were counted.
    pub fn append_missed(&mut self, count: u64, time: Timestamp) -> u64 {
        // Losses at one place are kept as one, unless a cursor has read the first part: its place is behind that part,
        // and places lie between entries, never within one.
        let merge = self.caught_up == 0 && self.open_tail().is_some();
        let known = self.open_tail().and_then(Chunk::last_loss).map_or(0, |loss| loss.count);
        let count =
            count.min(MAX_LOSS - if merge { known } else { 0 }).min(MAX_SEQ.saturating_sub(self.next_seq));
        if count == 0 {
            return 0;
        }
        self.totals.missed += count;
        self.latest = self.latest.max(Some(time));
        // Nobody will read it but who seeks, and then it is gone with what was before it.
        if self.cursors.len() == 0 && self.chunks.is_empty() {
            (self.gone_latest, self.gone_time) = (self.latest, time);
            self.next_seq += count;
            return count;
        }
        // The growth depends on whether the tail itself survives.
        while self.memory + self.loss_growth() > self.config.budget && self.evict().is_some() {}
        if self.open_tail().is_none() {
            self.push(Chunk::new(self.next_seq, Vec::new(), Vec::new()));
        }
        self.change_tail(|tail| tail.lose(count, time, merge));
        self.next_seq += count;
        count
    }

    /// Has the next entry be that of sequence number `seq`, where a history says so. What is between was lost.
    pub fn skip_to(&mut self, seq: u64) {
        debug_assert!(self.next_seq <= seq, "the history counts as this log does");
        if self.next_seq < seq {
            self.append_missed(seq - self.next_seq, self.gone_time);
        }
    }

    /// A new cursor. It sees what is appended from now on.
    pub fn join(&mut self) -> CursorId {
        self.caught_up += 1;
        self.cursors.insert(Cursor { seq: self.next_seq, joined_at: self.next_seq, ..Cursor::default() })
    }

    /// Removes a cursor; memory held for it only is freed. An unknown cursor is ignored.
    pub fn leave(&mut self, id: CursorId) {
        // Settled first, so that it leaves a place that the log still has.
        let Some(cursor) = self.settle(id) else { return };
        self.cursors.remove(id);
        self.withdraw(cursor.seq, cursor.group.is_some());
        if let Some(group) = cursor.group {
            self.groups.leave(group);
        }
        if self.cursors.len() == 0 {
            self.recalled.forget();
        }
        self.release();
    }

    /// Sets a cursor's filter, `None` for all records. It applies to all that the cursor has not read
    /// yet; records already lost stay counted as they are. An unknown cursor is ignored.
    pub fn set_filter(&mut self, id: CursorId, filter: Option<Arc<Filter>>, resolver: &dyn FieldResolver) {
        let Some(cursor) = self.settle(id) else { return };
        // The new one is joined before the old one is left: the same filter again keeps its group alive.
        let group = filter.map(|filter| self.groups.join(filter, resolver));
        if let Some(old) = cursor.group {
            self.groups.leave(old);
        }
        self.withdraw(cursor.seq, cursor.group.is_some());
        self.enter(cursor.seq, group.is_some());
        if let Some(cursor) = self.cursors.get_mut(id) {
            cursor.group = group;
        }
    }

    /// Sets how much work filters may cause from now on, reads and evictions together. Without any left a read gives
    /// nothing that a filter has to look at, and what is evicted counts as missed without a look.
    pub fn set_work(&mut self, work: Work) {
        self.work = work;
    }

    /// What is left of it.
    pub fn work(&self) -> Work {
        self.work
    }

    /// A cursor's filter.
    pub fn filter(&self, id: CursorId) -> Option<&Arc<Filter>> {
        Some(self.groups.get(self.cursors.get(id)?.group?).filter.filter())
    }

    /// Looks up the fields of all filters again if fields have been added. Call it before records
    /// with new fields are appended.
    pub fn bind_fields(&mut self, resolver: &dyn FieldResolver) {
        self.groups.rebind(resolver);
    }

    /// Changes the budget; what no longer fits is evicted at once.
    pub fn set_budget(&mut self, bytes: usize) {
        self.config.budget = bytes.max(MIN_BUDGET);
        self.make_room(0);
    }

    /// Changes how many of the newest records are kept for [`EventLog::recent`].
    pub fn set_recent(&mut self, recent: usize) {
        self.config.recent = recent;
        self.release();
    }

    /// The log's figures.
    pub fn stats(&self) -> LogStats {
        LogStats {
            seq: self.next_seq,
            first: self.first_seq(),
            budget: self.config.budget,
            bytes: self.memory,
            records: self.records,
            chunks: self.chunks.len(),
            appended: self.totals.appended,
            missed: self.totals.missed,
            evicted: self.totals.evicted,
            cursors: self.cursors.len(),
        }
    }

    /// A cursor's figures.
    pub fn cursor_stats(&self, id: CursorId) -> Option<CursorStats> {
        let cursor = self.settled(self.cursors.get(id)?);
        Some(CursorStats {
            joined_at: cursor.joined_at,
            delivered: cursor.delivered,
            filtered: cursor.filtered,
            again: cursor.again,
            missed: cursor.missed,
            owed: cursor.owed.count,
            queued: self.next_seq - cursor.seq,
            bytes: cursor.bytes,
        })
    }

    fn max_copied(&self) -> usize {
        MAX_COPIED.min(self.config.budget / 16)
    }

    fn max_moved(&self) -> usize {
        MAX_MOVED.min(self.config.budget / 16)
    }

    fn first_seq(&self) -> u64 {
        self.chunks.front().map_or(self.next_seq, |chunk| chunk.base)
    }

    /// Index of the chunk with sequence number `seq`, which the log holds.
    fn chunk_of(&self, seq: u64) -> usize {
        self.chunks.partition_point(|chunk| chunk.base <= seq).saturating_sub(1)
    }

    /// The last chunk, if the next entry can become part of it.
    fn open_tail(&self) -> Option<&Chunk> {
        self.chunks.back().filter(|tail| tail.end() == self.next_seq)
    }

    /// Passes over the first `count` records of a batch, which nobody will read.
    fn skip(&mut self, batch: &Batch, count: usize) {
        let Some(newest) = count.checked_sub(1).and_then(|last| batch.get(last)) else { return };
        // What is held goes with them: there are no cursors, and `recent` shows what comes behind.
        while self.pop().is_some() {}
        self.next_seq += count as u64;
        self.latest = self.latest.max(batch.latest_time());
        // Of all the batch, lest all of its times have to be looked at.
        (self.gone_latest, self.gone_time) = (self.latest, record_time(newest));
    }

    /// Copies records into the last chunk and new ones. `offset` is where the first begins, `latest` their latest
    /// time.
    fn copy(&mut self, bytes: &[u8], mut ends: &[u32], mut offset: u32, latest: Option<Timestamp>) {
        let all = ends.len();
        let limit = self.max_copied();
        while !ends.is_empty() {
            let fits = |room: usize| ends.partition_point(|&end| (end - offset) as usize <= room);
            let room = self.open_tail().map_or(0, |tail| limit.saturating_sub(tail.bytes.len()));
            let (count, new) = match fits(room) {
                // At least one, however long: a record is never split.
                0 => (fits(limit).max(1), true),
                count => (count, false),
            };
            let (piece, rest) = ends.split_at(count);
            let end = piece[count - 1];
            let records = &bytes[offset as usize..end as usize];
            let needed = match self.open_tail() {
                Some(tail) if !new => tail.growth(records.len(), count, limit),
                _ => memory_of(records.len(), count, 0),
            };
            if self.memory + needed > self.config.budget {
                if self.evict().is_some() {
                    // The tail itself may be gone: look again.
                    continue;
                }
                // A single record beyond the whole budget.
                if self.recalled.is_some() {
                    // Nothing is in memory by now, so that the next entry in there may be any.
                    self.next_seq += count as u64;
                    (ends, offset) = (rest, end);
                    continue;
                }
                let last = piece.len().checked_sub(2).map_or(offset, |before| piece[before]);
                self.append_missed(count as u64, record_time(&bytes[last as usize..end as usize]));
                self.totals.appended -= count as u64;
            } else {
                if new {
                    self.push(Chunk::new(self.next_seq, Vec::new(), Vec::new()));
                }
                let latest = if count == all { latest } else { latest_of(bytes, piece, offset) };
                self.latest = self.latest.max(latest);
                self.change_tail(|tail| tail.extend(records, piece, offset, limit));
                self.next_seq += count as u64;
                self.records += count;
            }
            (ends, offset) = (rest, end);
        }
    }

    /// Adds a chunk, once `latest` knows its times.
    fn push(&mut self, mut chunk: Chunk) {
        self.memory += chunk.memory();
        chunk.latest = self.latest;
        self.chunks.push_back(chunk);
        self.adopt_readers();
    }

    /// Changes the last chunk, which is about to hold the next entry, once `latest` knows its time.
    fn change_tail(&mut self, change: impl FnOnce(&mut Chunk)) {
        if let Some(tail) = self.chunks.back_mut() {
            self.memory -= tail.memory();
            change(tail);
            tail.latest = self.latest;
            self.memory += tail.memory();
        }
        self.adopt_readers();
    }

    /// Those who had read everything have their next entry in the last chunk now.
    fn adopt_readers(&mut self) {
        if let Some(tail) = self.chunks.back_mut() {
            tail.readers += std::mem::take(&mut self.caught_up);
            tail.filtered += std::mem::take(&mut self.caught_up_filtered);
        }
    }

    fn loss_growth(&self) -> usize {
        self.open_tail().map_or(memory_of(0, 0, 1), Chunk::loss_growth)
    }

    /// Evicts until `needed` bytes fit. `None` if they do not, or else an empty batch in the memory of the last chunk that went.
    fn make_room(&mut self, needed: usize) -> Option<Batch> {
        let mut last = Batch::default();
        while self.memory + needed > self.config.budget {
            let chunk = self.evict()?;
            last = Batch::of_memory(chunk.bytes, chunk.ends);
        }
        Some(last)
    }

    /// Drops the oldest chunk, if there is one. Its readers have their next entry in the one behind it now.
    fn evict(&mut self) -> Option<Chunk> {
        let chunk = self.pop()?;
        if self.recalled.is_some() {
            // They read on in the history: those of the first chunk are all that have their next entry in it or before.
            let (readers, filtered) = match self.chunks.front_mut() {
                Some(front) => (&mut front.readers, &mut front.filtered),
                None => (&mut self.caught_up, &mut self.caught_up_filtered),
            };
            *readers += chunk.readers;
            *filtered += chunk.filtered;
            return Some(chunk);
        }
        if chunk.readers > 0 {
            // Cursors are not visited: they find out when they are used next. All that is left to them is `gone_time`,
            // as the newest is enough.
            self.totals.evicted += chunk.len() as u64;
            self.groups.evict(&chunk, &mut self.cursors, &mut self.work);
            // Filtered ones are lagging now, and no longer counted as filtered readers of any chunk.
            match self.chunks.front_mut() {
                Some(front) => front.readers += chunk.readers,
                None => self.caught_up += chunk.readers,
            }
        }
        Some(chunk)
    }

    /// Frees what nobody needs any more.
    fn release(&mut self) {
        while let Some(front) = self.chunks.front_mut().filter(|front| front.readers == 0) {
            // All of the front goes if those behind it are as many as `recent` shows.
            let newer = self.records - front.len();
            if newer >= self.config.recent {
                self.pop();
                continue;
            }
            // Needed for `recent` only. Cutting off half of it or more costs no more than it frees.
            let keep = self.config.recent - newer;
            if keep <= front.len() / 2 {
                self.memory -= front.memory();
                self.records -= front.len() - keep;
                self.gone_time = record_time(front.record(front.len() - keep - 1));
                self.gone_latest = front.latest;
                front.trim(keep);
                self.memory += front.memory();
            }
            return;
        }
    }

    fn pop(&mut self) -> Option<Chunk> {
        let chunk = self.chunks.pop_front()?;
        self.memory -= chunk.memory();
        self.records -= chunk.len();
        (self.gone_latest, self.gone_time) = (chunk.latest, chunk.last_time());
        Some(chunk)
    }

    /// Notes a cursor's arrival at a sequence number.
    fn enter(&mut self, seq: u64, filtered: bool) {
        let (readers, with_filter) = self.readers_at(seq);
        *readers += 1;
        *with_filter += usize::from(filtered);
    }

    /// Notes a cursor's departure from a sequence number.
    fn withdraw(&mut self, seq: u64, filtered: bool) {
        let (readers, with_filter) = self.readers_at(seq);
        debug_assert!(*readers > 0, "a cursor leaves a place where none is");
        *readers -= 1;
        *with_filter -= usize::from(filtered);
    }

    fn readers_at(&mut self, seq: u64) -> (&mut usize, &mut usize) {
        let chunk = self.chunk_of(seq);
        // Who has read everything is in no chunk: then the last one can go as soon as others have read it.
        match self.chunks.get_mut(chunk) {
            Some(chunk) if seq < self.next_seq => (&mut chunk.readers, &mut chunk.filtered),
            _ => (&mut self.caught_up, &mut self.caught_up_filtered),
        }
    }

    /// A cursor after the evictions that it has not noticed yet.
    fn settled(&self, cursor: &Cursor) -> Cursor {
        let mut cursor = cursor.clone();
        if self.recalled.is_some() {
            return cursor;
        }
        let first = self.first_seq();
        // With a filter the group has counted what was lost since; without one every lost record counts, and the
        // distance says how many.
        if let (Some(group), Some(lag)) = (cursor.group, cursor.lag.take()) {
            let (passed, time, failed) = self.groups.lost(group, lag);
            cursor.owed.add(passed, time);
            cursor.missed += passed;
            cursor.filtered += failed;
            cursor.seq = first;
        } else if cursor.seq < first {
            cursor.owed.add(first - cursor.seq, self.gone_time);
            cursor.missed += first - cursor.seq;
            cursor.seq = first;
        }
        cursor
    }

    /// Makes a cursor notice evictions. Returns a copy of it.
    fn settle(&mut self, id: CursorId) -> Option<Cursor> {
        let cursor = self.cursors.get(id)?;
        let settled = self.settled(cursor);
        // Back among the filtered readers of a chunk, so that its eviction finds the cursor again.
        if let (Some(group), Some(_)) = (cursor.group, cursor.lag) {
            self.groups.catch_up(group);
            *self.readers_at(settled.seq).1 += 1;
        }
        *self.cursors.get_mut(id)? = settled.clone();
        Some(settled)
    }
}
