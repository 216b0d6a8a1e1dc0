//! Reading: from the log's packed records to the array of a fetch.

use byteorder::{BigEndian, ByteOrder};

use super::chunk::Chunk;
use super::cursor::{CursorId, Owed, ReadOutcome, missed_len};
use super::seek::MAX_PASSED;
use super::{EventLog, LogConfig, READ_WORK, Recall};
use crate::filter::BoundFilter;
use crate::pack::{
    ARRAY_HEADER, ArrayKind, EventFlags, MAX_ARRAY, Param, header_word, put_param, put_record,
};
use crate::work::Work;

/// What an EVENT record is shorter than a HIGHRES one.
const SHORTER: usize = ArrayKind::HighRes.record_header() - ArrayKind::Event.record_header();

impl EventLog {
    /// Appends to `out` a complete packed array in network byte order with what the cursor has not
    /// seen, as far as it fits in `max_bytes` (at most [`MAX_ARRAY`]), but at least one record, which is
    /// at most [`MAX_RECORD`](crate::batch::MAX_RECORD) bytes. If there is nothing, nothing is
    /// written. `None`: the cursor is unknown.
    pub fn read(
        &mut self,
        id: CursorId,
        kind: ArrayKind,
        out: &mut Vec<u8>,
        max_bytes: usize,
    ) -> Option<ReadOutcome> {
        // On a copy, which is put back when the array is written: the log is borrowed meanwhile.
        let mut cursor = self.settle(id)?;
        let from = cursor.seq;
        let filter = cursor.group.map(|group| &self.groups.get(group).filter);
        let mut array = ArrayWriter::new(out, kind, max_bytes);
        let mut rejected = 0;
        let allowed = READ_WORK.steps().min(self.work.steps());
        let mut work = Work::new(allowed);
        let (mut chunk, mut is_behind) = (self.chunk_of(from), false);
        let (in_memory, mut passed) = (self.first_seq(), 0);
        // What is owed comes first, as it was lost before what the cursor reads next. If it does not fit, nothing may
        // overtake it: the array ends here.
        while array.missed(&mut cursor.owed, &self.config) && cursor.seq < self.next_seq {
            let here = if cursor.seq < in_memory {
                is_behind = true;
                match self.recalled.chunk_with(cursor.seq) {
                    Ok(chunk) => chunk,
                    Err(Recall::Lost { to, time }) => {
                        cursor.lose(to.clamp(cursor.seq + 1, in_memory), time);
                        continue;
                    }
                    // With the next request, which `more` asks for.
                    Err(Recall::Later | Recall::Found) => break,
                }
            } else {
                if std::mem::take(&mut is_behind) {
                    // What the history gives may reach into memory, and end in any chunk.
                    chunk = self.chunk_of(cursor.seq);
                }
                if cursor.seq == self.chunks[chunk].end() {
                    chunk += 1;
                }
                &self.chunks[chunk]
            };
            // A cursor that was moved into a loss of the history misses the rest of it.
            if let Some(loss) = here.loss_around(cursor.seq) {
                cursor.lose(loss.seq + loss.count, loss.time);
                continue;
            }
            if cursor.since.is_some() {
                cursor.pass_over(here);
                passed += 1;
                if passed == MAX_PASSED {
                    break;
                }
                continue;
            }
            let (first, losses) = here.position(cursor.seq);
            let next_loss = here.losses.get(losses);
            // A loss at the cursor's place becomes owed, and is written by the next turn of the loop.
            if let Some(loss) = next_loss.filter(|loss| loss.seq == cursor.seq) {
                cursor.lose(loss.seq + loss.count, loss.time);
                continue;
            }
            let end = next_loss.map_or(here.len(), |loss| loss.index as usize);
            let reached = match filter {
                None => array.records(here, first, end),
                Some(filter) => array.passing(here, first, end, filter, &mut work, &mut rejected),
            };
            cursor.seq += (reached - first) as u64;
            // The array is full, or enough has been looked at for one request.
            if reached < end {
                break;
            }
        }
        let used = self.work.take(allowed - work.steps());
        debug_assert!(used, "no more was allowed than there is");
        let (outcome, bytes) = array.finish(cursor.owed.count > 0 || cursor.seq < self.next_seq);
        // What comes from now on is wanted, whatever its time.
        cursor.since = cursor.since.filter(|_| cursor.seq < self.next_seq);
        cursor.delivered += outcome.delivered;
        cursor.filtered += rejected;
        cursor.bytes += bytes as u64;
        let (seq, filtered) = (cursor.seq, cursor.group.is_some());
        *self.cursors.get_mut(id)? = cursor;
        // Nothing is entered or withdrawn for a cursor that stays: most reads of a quiet source find nothing.
        if seq != from {
            self.withdraw(from, filtered);
            self.enter(seq, filtered);
            self.release();
        }
        Some(outcome)
    }

    /// Appends to `out` a complete packed array with the newest records, at most `count` of those that
    /// are kept and as many as fit in `max_bytes` (but at least one), oldest first, without any cursor. Losses are not
    /// shown. If there is nothing, nothing is written.
    pub fn recent(&self, kind: ArrayKind, count: usize, out: &mut Vec<u8>, max_bytes: usize) -> ReadOutcome {
        let mut room = max_bytes.min(MAX_ARRAY).saturating_sub(ARRAY_HEADER);
        let mut wanted = count.min(self.config.recent);
        // From the newest back: where to begin in the oldest chunk of interest.
        let mut begin = (self.chunks.len(), 0);
        'chunks: for (number, chunk) in self.chunks.iter().enumerate().rev() {
            for index in (0..chunk.len()).rev() {
                let len = chunk.record(index).len() - cut(kind);
                let nothing = begin.0 == self.chunks.len();
                if wanted == 0 || (len > room && !nothing) {
                    break 'chunks;
                }
                wanted -= 1;
                room = room.saturating_sub(len);
                begin = (number, index);
            }
        }
        let mut array = ArrayWriter::new(out, kind, max_bytes);
        for (number, chunk) in self.chunks.iter().enumerate().skip(begin.0) {
            let first = if number == begin.0 { begin.1 } else { 0 };
            array.records(chunk, first, chunk.len());
        }
        array.finish(false).0
    }
}

/// An array under construction at the end of `out`.
struct ArrayWriter<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    /// Length of `out` that must not be exceeded.
    limit: usize,
    kind: ArrayKind,
    outcome: ReadOutcome,
}

impl<'a> ArrayWriter<'a> {
    fn new(out: &'a mut Vec<u8>, kind: ArrayKind, max_bytes: usize) -> ArrayWriter<'a> {
        let start = out.len();
        out.extend_from_slice(&[0; ARRAY_HEADER]);
        ArrayWriter {
            out,
            start,
            limit: start + max_bytes.min(MAX_ARRAY),
            kind,
            outcome: ReadOutcome::default(),
        }
    }

    fn room(&self) -> usize {
        self.limit.saturating_sub(self.out.len())
    }

    /// Whether `len` more bytes may be added: the first entry always may.
    fn takes(&self, len: usize) -> bool {
        len <= self.room() || self.outcome.records == 0
    }

    /// Writes missed records for those that are owed. Returns whether they all fit.
    fn missed(&mut self, owed: &mut Owed, config: &LogConfig) -> bool {
        while owed.count > 0 {
            if !self.takes(missed_len(self.kind)) {
                return false;
            }
            // The record's count is an int: more than that are several missed records.
            let count = owed.count.min(i32::MAX as u64);
            put_record::<BigEndian>(self.out, self.kind, owed.time, EventFlags::MISSED, count as i32);
            self.outcome.records += 1;
            // pmcd sets the count of a HIGHRES missed record to 0 on the way: it is said once more, as a parameter.
            if self.kind == ArrayKind::HighRes {
                put_record::<BigEndian>(self.out, self.kind, owed.time, EventFlags::POINT, 1);
                put_param::<BigEndian>(self.out, config.missed_pmid, &Param::U64(count));
                self.outcome.records += 1;
            }
            self.outcome.missed += count;
            owed.count -= count;
        }
        true
    }

    /// Copies the records from `first` to before `end`, as many as fit. Returns the first not copied.
    fn records(&mut self, chunk: &Chunk, first: usize, end: usize) -> usize {
        let begin = chunk.start_of(first);
        let room = self.room();
        let (ends, cut) = (&chunk.ends[first..end], cut(self.kind));
        let fits = match cut {
            0 => ends.partition_point(|&to| to as usize - begin <= room),
            // Length after each record's cut; ascending, as a record is longer than the cut.
            _ => partition_point(ends, |i, to| to as usize - begin - (i + 1) * cut <= room),
        };
        // Else a client with little room would never get past a long record.
        let first_always = usize::from(self.outcome.records == 0 && first < end);
        let reached = first + fits.max(first_always);
        self.run(chunk, first, reached);
        reached
    }

    /// Copies those that pass a filter. Returns the first not looked at.
    fn passing(
        &mut self,
        chunk: &Chunk,
        first: usize,
        end: usize,
        filter: &BoundFilter,
        work: &mut Work,
        rejected: &mut u64,
    ) -> usize {
        // Passing neighbours are copied together.
        let (mut run, mut room) = (first, self.room());
        for index in first..end {
            let record = chunk.record(index);
            // A filter that matches nothing must not keep the agent from answering others: the scan goes on with the
            // next request, which `more` asks for.
            if !work.take(filter.cost(record.len())) {
                self.run(chunk, run, index);
                return index;
            }
            if !filter.matches(record) {
                self.run(chunk, run, index);
                run = index + 1;
                *rejected += 1;
                continue;
            }
            let len = record.len() - cut(self.kind);
            let nothing = self.outcome.records == 0 && run == index;
            if len > room && !nothing {
                self.run(chunk, run, index);
                return index;
            }
            room = room.saturating_sub(len);
        }
        self.run(chunk, run, end);
        end
    }

    /// Copies a run of records, which fit.
    fn run(&mut self, chunk: &Chunk, first: usize, end: usize) {
        let begin = chunk.start_of(first);
        match self.kind {
            ArrayKind::HighRes => self.out.extend_from_slice(&chunk.bytes[begin..chunk.start_of(end)]),
            ArrayKind::Event => {
                put_as_events(self.out, &chunk.bytes, begin, &chunk.ends[first..end]);
            }
        }
        self.outcome.records += end - first;
        self.outcome.delivered += (end - first) as u64;
    }

    /// Completes the array. Returns what is in it and its length.
    fn finish(mut self, more: bool) -> (ReadOutcome, usize) {
        self.outcome.more = more;
        // An empty array would harm pmlogger (`docs/pcp/events.md` 3.11): no value is written instead.
        if self.outcome.records == 0 {
            self.out.truncate(self.start);
        } else {
            let len = self.out.len() - self.start;
            let header = &mut self.out[self.start..self.start + ARRAY_HEADER];
            BigEndian::write_u32(&mut header[..4], header_word(self.kind.value_type(), len));
            // At most MAX_ARRAY / 16 records.
            BigEndian::write_i32(&mut header[4..], self.outcome.records as i32);
        }
        (self.outcome, self.out.len() - self.start)
    }
}

/// Appends packed HIGHRES records as EVENT records: the first begins at `from`, each ends at one of
/// `ends`. An EVENT record is 8 bytes shorter, and alike from the flags on: copy it from the eighth
/// byte, then overwrite the time.
///
/// One `extend_from_slice` for each record is safe, but a third slower (`benches/event_log.rs`), as
/// the vector's length and capacity are looked at and stored each time.
fn put_as_events(out: &mut Vec<u8>, bytes: &[u8], mut from: usize, ends: &[u32]) {
    let Some(&last) = ends.last() else { return };
    let total = last as usize - from - ends.len() * SHORTER;
    out.reserve(total);
    let mut spare = &mut out.spare_capacity_mut()[..total];
    for &to in ends {
        let record = &bytes[from..to as usize];
        let (time, rest) = (event_time(record), &record[SHORTER..]);
        let (place, behind) = spare.split_at_mut(rest.len());
        // SAFETY: `place` is as long as `rest`, and that is at least 8 bytes, as `event_time` has read
        // the first 16 of `record`. It is part of a vector borrowed mutably, so nothing overlaps.
        unsafe {
            let place = place.as_mut_ptr().cast::<u8>();
            std::ptr::copy_nonoverlapping(rest.as_ptr(), place, rest.len());
            std::ptr::copy_nonoverlapping(time.as_ptr(), place, time.len());
        }
        (spare, from) = (behind, to as usize);
    }
    let unwritten = spare.len();
    // SAFETY: the loop has written all of the first `total` bytes of the spare capacity but the last
    // `unwritten` (which are none, as the records' lengths add up to `total`).
    unsafe { out.set_len(out.len() + total - unwritten) };
}

/// The time of a packed HIGHRES record as an EVENT record has it: the low 32 bits of the seconds, and
/// microseconds.
#[inline]
fn event_time(record: &[u8]) -> [u8; 8] {
    let usec = BigEndian::read_u32(&record[12..16]) / 1000;
    let mut time = [0; 8];
    time[..4].copy_from_slice(&record[4..8]);
    BigEndian::write_u32(&mut time[4..], usec);
    time
}

/// Bytes by which each record gets shorter.
const fn cut(kind: ArrayKind) -> usize {
    match kind {
        ArrayKind::Event => SHORTER,
        ArrayKind::HighRes => 0,
    }
}

/// The number of leading items for which `holds(index, item)`, which must not become true again.
fn partition_point(items: &[u32], holds: impl Fn(usize, u32) -> bool) -> usize {
    let (mut low, mut high) = (0, items.len());
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle, items[middle]) { low = middle + 1 } else { high = middle }
    }
    low
}
