//! [`Reader`]: records from the files, for cursors that are behind memory.
//!
//! It reads what the system has in memory and never waits for a disk: what is not there it has fetched by a thread
//! ([`crate::fetcher`]), and is asked for again. A few segments of a source are open at a time, and the ones behind them, as
//! cursors may be in different ones; each gets on, however many there are.
//!
//! **Cost:** a batch is two reads, a checksum over what they give and what [`crate::delta`] takes: some 12 µs for 64 KiB of records.
//! Finding a place in a segment goes from batch to batch, a read each, at most [`HOPS`] at a time; where it has been is remembered, and so are
//! the batches that were read last, of [`READERS`] who are at different ones: who reads on has nothing to find.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pcp_event::log::{History, Recall, Stretch};
use pcp_model::Timestamp;

use crate::fetcher::{AHEAD, Fetcher, Opened, Slot};
use crate::format::BatchHead;
use crate::segment::{OpenSegment, Patience, ReadError, Segment};
use crate::source::SourceLog;

/// Most batches that are passed over for one request.
const HOPS: usize = 4096;
/// How far apart the places are that are remembered, in bytes.
const STEP: u64 = 64 << 10;

/// How many who read on in a segment find at once where they were. With batches of few records, a search would be hundreds of reads for each.
const READERS: usize = 8;

/// Segments of a source that are open at once.
const MAX_OPEN: usize = 8;
/// Segments that are being opened, or were and are not wanted yet; only up to half of that are for later.
const MAX_COMING: usize = 16;
/// After so many requests nobody will come for a segment that was opened. Until then it is kept for who asked: if those that
/// ask later took its place, none of them would ever find theirs.
const FORGOTTEN: u64 = 4096;

/// The history of a source.
#[derive(Debug)]
pub struct Reader {
    log: Arc<SourceLog>,
    fetcher: Fetcher,
    /// The one that was read last is the last.
    open: Vec<Open>,
    coming: Vec<Coming>,
    requests: u64,
    head: Vec<u8>,
}

/// A segment that is being opened.
#[derive(Debug)]
struct Coming {
    /// Whose it is: the very name, as a file without records gives way to another one of the same name.
    name: Arc<str>,
    /// The request that it was asked for with, or one since then at which it had yet to come.
    request: u64,
    slot: Slot<Opened>,
}

/// A segment that is open.
#[derive(Debug)]
struct Open {
    segment: OpenSegment,
    patience: Patience,
    /// As in [`Coming`].
    name: Arc<str>,
    first: u64,
    /// Batches: the sequence number of the first entry, and where it begins. Ascending; of batches without entries the numbers may be equal.
    places: Vec<(u64, u64)>,
    /// Batches that were read, the latest last.
    reads: Vec<Seen>,
    /// What is being read.
    coming: Option<Slot<()>>,
}

/// A batch that was read: the sequence number of its first entry and where it begins, and the same of what is behind it.
#[derive(Clone, Copy, Debug)]
struct Seen {
    begin: (u64, u64),
    end: (u64, u64),
}

/// Where in a segment an entry is.
enum Place {
    Batch(u64, BatchHead),
    /// No batch has it: the next one begins with this number; [`u64::MAX`] if there is none.
    Gap(u64, Timestamp),
    /// Further on than one request may go.
    Further,
}

impl History for Reader {
    fn read(&mut self, seq: u64, stretch: &mut Stretch) -> Recall {
        let (segment, behind) = match self.segment_of(seq) {
            Ok(found) => found,
            Err(lost) => return lost,
        };
        let next = behind.as_ref().map(|next| next.first).filter(|next| *next > seq).unwrap_or(u64::MAX);
        let recall = match self.open_segment(&segment, behind.as_ref()) {
            Ok(true) => self.read_in(&segment, seq, stretch),
            Ok(false) => return Recall::Later,
            Err(error) => Err(error),
        };
        match recall {
            // The last entries of a segment: what follows is in the one behind it.
            Ok(Recall::Lost { to, time }) => Recall::Lost { to: to.min(next), time },
            Ok(recall) => recall,
            Err(ReadError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Recall::Later,
            Err(error) => {
                self.damaged(&segment, &error);
                Recall::Lost { to: next, time: segment.time }
            }
        }
    }

    fn first(&self) -> Option<u64> {
        self.log.files().segments.front().map(|oldest| oldest.first)
    }

    fn before(&self, time: Timestamp) -> Option<u64> {
        // The newest is asked for its time only when it is read: it may have any.
        let files = self.log.files();
        let last = files.segments.back();
        files.segments.iter().find(|segment| segment.time >= time).or(last).map(|segment| segment.first)
    }
}

impl Reader {
    pub(crate) fn new(log: Arc<SourceLog>, fetcher: Fetcher) -> Reader {
        Reader { log, fetcher, open: Vec::new(), coming: Vec::new(), requests: 0, head: Vec::new() }
    }

    /// The segment that an entry must be in, and the one behind it.
    fn segment_of(&mut self, seq: u64) -> Result<(Segment, Option<Segment>), Recall> {
        let files = self.log.files();
        // A file that is gone takes room as long as it is open.
        let oldest = files.segments.front().map_or(u64::MAX, |oldest| oldest.first);
        self.open.retain(|open| open.first >= oldest);
        let at = files.segments.partition_point(|segment| segment.first <= seq);
        match at.checked_sub(1).and_then(|at| files.segments.get(at)) {
            Some(segment) => Ok((segment.clone(), files.segments.get(at).cloned())),
            None => Err(Recall::Lost { to: oldest, time: files.dropped }),
        }
    }

    /// Whether the segment is open now: then it is the last one.
    fn open_segment(&mut self, segment: &Segment, behind: Option<&Segment>) -> Result<bool, ReadError> {
        self.requests += 1;
        let requests = self.requests;
        self.coming.retain_mut(|coming| {
            // Nobody can have come for what was not there.
            if requests - coming.request >= FORGOTTEN && !coming.slot.is_there() {
                coming.request = requests;
            }
            requests - coming.request < FORGOTTEN
        });
        let is_open = match self.open.iter().position(|open| Arc::ptr_eq(&open.name, &segment.name)) {
            Some(at) => {
                self.open[at..].rotate_left(1);
                true
            }
            None => self.has_come(segment)?,
        };
        if let Some(behind) = behind
            && self.coming.len() < MAX_COMING / 2
            && !self.open.iter().any(|open| Arc::ptr_eq(&open.name, &behind.name))
        {
            self.ask_for(behind);
        }
        Ok(is_open)
    }

    /// Whether a segment that was asked for is there; else it is asked for.
    fn has_come(&mut self, segment: &Segment) -> Result<bool, ReadError> {
        let Some(at) = self.coming.iter().position(|coming| Arc::ptr_eq(&coming.name, &segment.name)) else {
            self.ask_for(segment);
            return Ok(false);
        };
        let Some(opened) = self.coming[at].slot.take() else { return Ok(false) };
        self.coming.swap_remove(at);
        let (opened, patience) = opened?;
        if self.open.len() == MAX_OPEN {
            self.open.remove(0);
        }
        self.open.push(Open {
            places: vec![(segment.first, opened.start)],
            reads: Vec::new(),
            segment: opened,
            patience,
            name: Arc::clone(&segment.name),
            first: segment.first,
            coming: None,
        });
        Ok(true)
    }

    fn ask_for(&mut self, segment: &Segment) {
        let name = &segment.name;
        if self.coming.len() < MAX_COMING && !self.coming.iter().any(|coming| Arc::ptr_eq(&coming.name, name))
        {
            let slot = self.fetcher.open(&self.log.common().disk, name);
            let request = self.requests;
            self.coming.extend(slot.map(|slot| Coming { name: Arc::clone(name), request, slot }));
        }
    }

    /// Reads the batch with an entry.
    fn read_in(&mut self, segment: &Segment, seq: u64, stretch: &mut Stretch) -> Result<Recall, ReadError> {
        let Reader { open, fetcher, head, .. } = self;
        let Some(open) = open.last_mut() else { return Ok(Recall::Later) };
        if !open.has_come() {
            return Ok(Recall::Later);
        }
        let (at, batch) = match open.place_of(segment, seq, head, fetcher)? {
            Place::Batch(at, batch) => (at, batch),
            Place::Gap(to, time) => return Ok(Recall::Lost { to, time }),
            Place::Further => return Ok(Recall::Later),
        };
        // There is a reader for each source: what is only for a moment is not kept for all of them.
        let mut body = Vec::new();
        let read = open.segment.body(at, &batch, &mut body, open.patience);
        open.waiting(read, at, fetcher)?;
        if let Err(damage) = batch.take_records(&mut body, stretch) {
            self.damaged(segment, &damage);
            return Ok(Recall::Lost { to: batch.end(), time: batch.time });
        }
        open.remember(&batch, at);
        Ok(Recall::Found)
    }

    fn damaged(&self, segment: &Segment, problem: &dyn std::fmt::Display) {
        let common = self.log.common();
        common.counts.damaged.fetch_add(1, Ordering::Relaxed);
        if common.may_report() {
            tracing::error!("the log: {}: {problem}; records in it count as missed", segment.name);
        }
    }
}

impl Open {
    fn has_come(&mut self) -> bool {
        if self.coming.as_ref().is_some_and(|slot| slot.take().is_some()) {
            self.coming = None;
        }
        self.coming.is_none()
    }

    /// Finds the batch with an entry, from the nearest place that is known.
    fn place_of(
        &mut self,
        segment: &Segment,
        seq: u64,
        buffer: &mut Vec<u8>,
        fetcher: &Fetcher,
    ) -> Result<Place, ReadError> {
        let mut at = self.nearest(seq);
        for _ in 0..HOPS {
            if at >= segment.len {
                return Ok(Place::Gap(u64::MAX, segment.time));
            }
            let batch = match self.segment.batch_head(at, buffer, self.patience) {
                Err(ReadError::Damage(_)) => {
                    // A bounded search: what is beyond it is as good as lost.
                    let found = self.segment.next_batch(at + 1, segment.len.min(at + AHEAD), self.patience);
                    match self.waiting(found.map_err(ReadError::from), at, fetcher)? {
                        Some(next) => {
                            at = next;
                            continue;
                        }
                        None => return Ok(Place::Gap(u64::MAX, segment.time)),
                    }
                }
                read => self.waiting(read, at, fetcher)?,
            };
            if batch.first > seq {
                return Ok(Place::Gap(batch.first, batch.time));
            }
            if self.places.last().is_some_and(|(first, place)| batch.first >= *first && at >= place + STEP) {
                self.places.push((batch.first, at));
            }
            if batch.end() > seq {
                return Ok(Place::Batch(at, batch));
            }
            at += batch.len() as u64;
            if self.places.last().is_some_and(|(first, place)| batch.end() >= *first && at > *place) {
                // The newest place is always the furthest, so that the next search begins there: also behind any number of batches that
                // have counts, but no entries.
                self.places.push((batch.end(), at));
                self.thin();
            }
        }
        Ok(Place::Further)
    }

    /// The nearest place that is known, not behind an entry.
    fn nearest(&self, seq: u64) -> u64 {
        let known = self.places.partition_point(|(first, _)| *first <= seq).saturating_sub(1);
        let seen =
            self.reads.iter().flat_map(|seen| [seen.begin, seen.end]).filter(|(first, _)| *first <= seq);
        seen.fold(self.places[known], Ord::max).1
    }

    /// Remembers the batch at `at`, which was read: who reads on is in it, as an answer may be full within it, or behind it.
    fn remember(&mut self, batch: &BatchHead, at: u64) {
        // In place of where this one was before, or of what nobody has come to for the longest time.
        self.reads.retain(|seen| seen.begin.1 != at && seen.end.1 != at);
        if self.reads.len() == READERS {
            self.reads.remove(0);
        }
        self.reads.push(Seen { begin: (batch.first, at), end: (batch.end(), at + batch.len() as u64) });
    }

    /// Has what is not in memory fetched.
    fn waiting<T>(&mut self, read: Result<T, ReadError>, at: u64, fetcher: &Fetcher) -> Result<T, ReadError> {
        if let Err(ReadError::Io(error)) = &read
            && error.kind() == io::ErrorKind::WouldBlock
            && self.coming.is_none()
        {
            self.coming = fetcher.read(&self.segment.file, at);
        }
        read
    }

    /// Drops the place before the last, unless it is far enough from its neighbours to be worth keeping.
    fn thin(&mut self) {
        if let [.., (_, before), (_, middle), (_, _)] = self.places[..]
            && middle < before + STEP
        {
            let last = self.places.len() - 1;
            self.places.swap_remove(last - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crossbeam_channel::bounded;
    use pcp_event::batch::Batch;
    use pcp_event::{EventFlags, Param};
    use pcp_model::Pmid;

    use super::*;
    use crate::{Entry, Limits, LogDir, SyncMode};

    /// With segments of 4 MiB.
    fn logs(dir: &tempfile::TempDir) -> LogDir {
        let limits = Limits::new(64 << 20, 64 << 20, 1, SyncMode::Never);
        LogDir::open(dir.path(), 400, limits).expect("it is ours")
    }

    /// Appends a batch with so many records, which may be none, and a count.
    fn append(log: &SourceLog, records: u64) {
        let mut batch = Batch::with_capacity(4096);
        for number in 0..records {
            let mut record = batch.record(Timestamp::new(1, 0), EventFlags::POINT);
            record.param(Pmid::new(400, 16, 1), Param::U64(number));
            record.commit().expect("it is short");
        }
        let lost = (0, Timestamp::default());
        let entry = Entry { lost, batch: &batch, counters: &[(1, 1)], marks: &[], numbered: 0 };
        assert!(log.append(&entry).written);
    }

    /// Reads an entry, however long its segment takes to be opened.
    fn read(reader: &mut Reader, seq: u64, stretch: &mut Stretch) -> bool {
        (0..1000).any(|_| match reader.read(seq, stretch) {
            Recall::Found => true,
            _ => {
                std::thread::sleep(Duration::from_millis(10));
                false
            }
        })
    }

    /// Does something while there is a thread that fetches.
    fn while_fetching<T>(fetcher: &Fetcher, act: impl FnOnce() -> T) -> T {
        let (end, ended) = bounded(0);
        let fetcher = fetcher.clone();
        let thread = std::thread::spawn(move || fetcher.work(&ended, || ()));
        let done = act();
        drop(end);
        thread.join().expect("it does not panic");
        done
    }

    /// Who asks more often than anybody comes for a segment before the thread has opened it gets it all the same.
    #[test]
    fn a_segment_is_not_forgotten_before_it_has_come() {
        let dir = tempfile::tempdir().expect("a directory");
        let log = logs(&dir).source(0, "shop");
        append(&log, 1);

        let fetcher = Fetcher::new();
        let mut reader = Reader::new(log, fetcher.clone());
        let mut stretch = Stretch::default();
        for _ in 0..3 * FORGOTTEN {
            assert!(matches!(reader.read(0, &mut stretch), Recall::Later));
        }
        assert_eq!(fetcher.waiting(), 1, "it was asked for once");
        let found = while_fetching(&fetcher, || read(&mut reader, 0, &mut stretch));
        assert!(found && stretch.first == 0 && stretch.ends.len() == 1);
    }

    /// As many as there are at a time: none has to look for its place again because the others are elsewhere, in the middle of a batch
    /// neither.
    #[test]
    fn who_reads_on_has_nothing_to_find() {
        const BATCHES: u64 = 400;
        const RECORDS: u64 = 3;
        let dir = tempfile::tempdir().expect("a directory");
        let log = logs(&dir).source(0, "shop");
        (0..BATCHES).for_each(|_| append(&log, RECORDS));

        let fetcher = Fetcher::new();
        let mut reader = Reader::new(log, fetcher.clone());
        let (mut stretch, mut head) = (Stretch::default(), Vec::new());
        let begun = (0..READERS as u64).map(|nth| nth * BATCHES / 16);
        while_fetching(&fetcher, || {
            // The furthest is the one that has been there before all others.
            assert!(read(&mut reader, BATCHES * RECORDS - 1, &mut stretch));
            for record in 0..BATCHES / 2 * RECORDS {
                for seq in begun.clone().map(|begin| begin * RECORDS + record) {
                    let first = seq / RECORDS * RECORDS;
                    assert!(read(&mut reader, seq, &mut stretch) && stretch.first == first);
                    let open = reader.open.last().expect("it is open");
                    for next in [seq, seq + 1] {
                        let at = open.nearest(next);
                        let batch =
                            open.segment.batch_head(at, &mut head, Patience::Wait).expect("it is whole");
                        assert!(batch.first <= next && next < batch.end());
                    }
                }
            }
        });
    }

    /// More of them than one request passes over, as a source leaves whose records are all dropped.
    #[test]
    fn batches_without_records_are_passed() {
        let dir = tempfile::tempdir().expect("a directory");
        let log = logs(&dir).source(0, "shop");
        append(&log, 1);
        (0..2 * HOPS + 1).for_each(|_| append(&log, 0));
        append(&log, 1);
        assert_eq!(log.files().segments.len(), 1);

        let fetcher = Fetcher::new();
        let mut reader = Reader::new(log, fetcher.clone());
        let mut stretch = Stretch::default();
        let found = while_fetching(&fetcher, || read(&mut reader, 1, &mut stretch));
        assert!(found && stretch.first == 1 && stretch.ends.len() == 1);
        let places = reader.open.last().map_or(0, |open| open.places.len() as u64);
        assert!(places <= 2 * (4 << 20) / STEP, "{places} places are remembered");
    }
}
