//! [`Batch`]: many event records, packed once at ingest, on their way from a source to the log.
//!
//! Records are packed as `PM_TYPE_HIGHRES_EVENT` records in network byte order, without the array
//! header: the form in which a fetch sends them. A second vector holds where each record ends. A
//! record is written parameter by parameter and belongs to the batch once it is committed; a writer
//! that is dropped leaves no trace.
//!
//! **Cost:** no allocation once the two vectors have grown; a parameter is one check for room and one copy of its bytes, 2 ns for a
//! number. 4 bytes of index a record. What the next record will be written to is fetched when one is committed.

use byteorder::{BigEndian, ByteOrder};
use thiserror::Error;

use super::pack::{ArrayKind, EventFlags, Param, write_param, write_record};
use super::packed;
use pcp_model::{Pmid, Timestamp};

/// Largest packed record, header included; small enough that any fetch can take one.
pub const MAX_RECORD: usize = 256 * 1024;
/// Largest sum of packed records in one batch.
pub const MAX_BATCH: usize = 16 * 1024 * 1024;

/// Offset of the parameter count in a HIGHRES record.
const NPARAMS: usize = ArrayKind::HighRes.flags_offset() + 4;

/// Bytes that a processor fetches at once.
const LINE: usize = 64;
/// Most of them for the next record.
const LINES_AHEAD: usize = 4;

/// Packed HIGHRES records in network byte order, in the order they were committed.
#[derive(Debug, Default)]
pub struct Batch {
    /// The records, and behind the last end room for more: whatever was there before.
    bytes: Vec<u8>,
    /// The offset behind each record.
    ends: Vec<u32>,
    /// The latest of the records' times, which need not be the last one's.
    latest: Option<Timestamp>,
    /// The flags of all records there ever were in it.
    flags: EventFlags,
}

/// Why a record was not taken into a batch. The caller counts it as lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The record is larger than [`MAX_RECORD`].
    #[error("the packed record would take {len} bytes; at most {MAX_RECORD} are allowed")]
    TooLarge {
        /// Bytes the whole record would have taken.
        len: usize,
    },
    /// The batch would grow beyond [`MAX_BATCH`]. Send it off and write the record into a new one.
    #[error("the batch is full: at most {MAX_BATCH} bytes of records are allowed")]
    BatchFull,
    /// The flags contain [`EventFlags::MISSED`], which only the log itself may set.
    #[error("flag `missed` (bit 31) is not allowed in a record of a source")]
    MissedFlag,
}

/// Without the room behind the records.
impl Clone for Batch {
    fn clone(&self) -> Batch {
        Batch { bytes: self.bytes().to_vec(), ends: self.ends.clone(), ..*self }
    }
}

impl Batch {
    /// An empty batch with room for `bytes` bytes of packed records.
    pub fn with_capacity(bytes: usize) -> Batch {
        Batch { bytes: vec![0; bytes.min(MAX_BATCH)], ..Batch::default() }
    }

    /// An empty batch in the memory of one that was taken apart.
    pub(super) fn of_memory(mut bytes: Vec<u8>, mut ends: Vec<u32>) -> Batch {
        bytes.resize(bytes.capacity(), 0);
        ends.clear();
        Batch { bytes, ends, ..Batch::default() }
    }

    /// Bytes of records that it has memory for.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Begins a record. It belongs to the batch once [`RecordWriter::commit`] has returned `Ok`.
    #[inline]
    pub fn record(&mut self, time: Timestamp, flags: EventFlags) -> RecordWriter<'_> {
        let (start, len) = (self.end(), ArrayKind::HighRes.record_header());
        write_record::<BigEndian>(self.room(start, len), ArrayKind::HighRes, time, flags, 0);
        RecordWriter { batch: self, start, len, nparams: 0, time, flags }
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The packed HIGHRES records in network byte order, no array header.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.end()]
    }

    /// The offset behind each record, ascending.
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// The packed record number `index`, counted from 0.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)? as usize;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        Some(&self.bytes[start..end])
    }

    /// All packed records.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends
            .iter()
            .map(move |&end| &self.bytes[std::mem::replace(&mut start, end as usize)..end as usize])
    }

    /// The newest packed record.
    #[inline]
    pub fn last(&self) -> Option<&[u8]> {
        self.get(self.len().checked_sub(1)?)
    }

    /// Adds a copy of a record that another batch holds.
    ///
    /// # Errors
    /// [`RecordError::BatchFull`]; nothing has changed then.
    pub fn push_packed(&mut self, record: &[u8]) -> Result<(), RecordError> {
        let start = self.end();
        if start + record.len() > MAX_BATCH {
            return Err(RecordError::BatchFull);
        }
        self.room(start, record.len()).copy_from_slice(record);
        // MAX_BATCH fits 32 bits.
        self.ends.push((start + record.len()) as u32);
        self.latest = self.latest.max(Some(record_time(record)));
        self.flags |= packed::flags(record);
        Ok(())
    }

    /// Adds a parameter to the newest record.
    ///
    /// # Errors
    /// [`RecordError::TooLarge`] if it would grow beyond [`MAX_RECORD`]; nothing has changed then.
    pub fn amend_last(&mut self, pmid: Pmid, value: Param<'_>) -> Result<(), RecordError> {
        let end = self.end();
        let Some(record) = self.last() else {
            debug_assert!(false, "there is no record to amend");
            return Ok(());
        };
        let (start, len) = (end - record.len(), record.len() + value.packed_len());
        if len > MAX_RECORD {
            return Err(RecordError::TooLarge { len });
        }
        let added = value.packed_len();
        write_param::<BigEndian>(self.room(end, added), pmid, &value);
        let count = &mut self.bytes[start + NPARAMS..];
        let nparams = BigEndian::read_i32(count);
        BigEndian::write_i32(count, nparams + 1);
        if let Some(last) = self.ends.last_mut() {
            *last = (end + added) as u32;
        }
        Ok(())
    }

    /// The time of the newest record: the stamp of the loss when the batch cannot be handed over.
    pub fn last_time(&self) -> Option<Timestamp> {
        self.last().map(record_time)
    }

    /// The latest of the records' times.
    pub(super) fn latest_time(&self) -> Option<Timestamp> {
        self.latest
    }

    /// Whether there may be a record with one of these flags: if not, none needs to be looked at.
    pub fn may_have(&self, flags: EventFlags) -> bool {
        self.flags.intersects(flags)
    }

    /// Keeps the first `len` records only.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len() {
            self.ends.truncate(len);
            self.latest = latest_of(&self.bytes, &self.ends, 0);
        }
    }

    /// Removes all records and keeps the memory.
    pub fn clear(&mut self) {
        self.ends.clear();
        (self.latest, self.flags) = (None, EventFlags::default());
    }

    /// The two vectors: packed records, with the room behind them, and the offset behind each.
    pub(super) fn into_parts(self) -> (Vec<u8>, Vec<u32>) {
        (self.bytes, self.ends)
    }

    /// The offset behind the last record.
    #[inline]
    fn end(&self) -> usize {
        self.ends.last().map_or(0, |&end| end as usize)
    }

    /// The `len` bytes from `at` on, which is at most a record behind the last end.
    #[inline]
    fn room(&mut self, at: usize, len: usize) -> &mut [u8] {
        if self.bytes.len() - at < len {
            self.grow(at + len);
        }
        &mut self.bytes[at..at + len]
    }

    /// Has the processor fetch what the next record will be written to, if that is as long as this one. Where sources take turns it comes
    /// after many others, and stores to memory that is nowhere near hold up all that is behind them: a quarter of what an event costs then.
    #[inline]
    fn fetch_ahead(&self, end: usize, len: usize) {
        for line in 1..=(len / LINE + 1).min(LINES_AHEAD) {
            let Some(byte) = self.bytes.get(end + line * LINE) else { return };
            prefetch_for_write(byte);
        }
    }

    #[cold]
    fn grow(&mut self, needed: usize) {
        self.bytes.resize(needed.max(2 * self.bytes.len()), 0);
    }
}

/// A record under construction.
#[derive(Debug)]
#[must_use = "a record that is not committed is rolled back"]
pub struct RecordWriter<'a> {
    batch: &'a mut Batch,
    start: usize,
    /// Bytes of all that was asked for, beyond [`MAX_RECORD`] too.
    len: usize,
    nparams: i32,
    time: Timestamp,
    flags: EventFlags,
}

impl RecordWriter<'_> {
    /// Adds a parameter. `pmid` must have a name and a descriptor of this type, or archives break
    /// (`docs/pcp/events.md` 3.11). A record that grows beyond [`MAX_RECORD`] is refused at commit;
    /// [`RecordWriter::room`] tells beforehand.
    #[inline(always)] // so that length and count stay in registers from parameter to parameter
    pub fn param(&mut self, pmid: Pmid, value: Param<'_>) {
        let (at, len) = (self.start + self.len, value.packed_len());
        // Counted on even when nothing is written any more, so that the refusal can say how long the record would be.
        self.len = self.len.saturating_add(len);
        if self.len <= MAX_RECORD {
            write_param::<BigEndian>(self.batch.room(at, len), pmid, &value);
            self.nparams += 1;
        }
    }

    /// Adds so many parameters that are packed already, as `put_param` does it, under the same conditions. Gives them where they are
    /// now, to change values of a fixed length; nothing once the record is too large.
    #[inline]
    pub fn packed(&mut self, count: i32, params: &[u8]) -> &mut [u8] {
        let at = self.start + self.len;
        self.len = self.len.saturating_add(params.len());
        if self.len > MAX_RECORD {
            return &mut [];
        }
        let room = self.batch.room(at, params.len());
        room.copy_from_slice(params);
        self.nparams += count;
        room
    }

    /// Packed bytes of the record so far.
    pub fn packed_len(&self) -> usize {
        self.len
    }

    /// Packed bytes that may still be added: 8 for each parameter and its value, padded to a
    /// multiple of 4.
    pub fn room(&self) -> usize {
        MAX_RECORD.saturating_sub(self.len)
    }

    /// Makes the record part of the batch.
    ///
    /// # Errors
    /// Why it cannot be; the batch is as it was.
    pub fn commit(mut self) -> Result<(), RecordError> {
        self.finish().map(|_| ())
    }

    /// Makes the record part of the batch, and gives the batch. The writer stays where it is: what was just written in parts and is
    /// moved as a whole is what processors wait for. Nothing more can be done with it.
    ///
    /// # Errors
    /// As [`RecordWriter::commit`].
    #[inline]
    pub fn finish(&mut self) -> Result<&mut Batch, RecordError> {
        if self.len > MAX_RECORD {
            return Err(RecordError::TooLarge { len: self.len });
        }
        if self.flags.0 & EventFlags::MISSED.0 != 0 {
            return Err(RecordError::MissedFlag);
        }
        let end = self.start + self.len;
        if end > MAX_BATCH {
            return Err(RecordError::BatchFull);
        }
        BigEndian::write_i32(&mut self.batch.bytes[self.start + NPARAMS..], self.nparams);
        // MAX_BATCH fits 32 bits.
        self.batch.ends.push(end as u32);
        // Nothing is read back that was just written in other pieces.
        if self.batch.latest.is_none_or(|latest| latest < self.time) {
            self.batch.latest = Some(self.time);
        }
        self.batch.flags |= self.flags;
        self.batch.fetch_ahead(end, self.len);
        // As if it were too large already: what comes now is refused.
        self.len = MAX_RECORD + 1;
        Ok(self.batch)
    }
}

#[inline]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn prefetch_for_write(byte: &u8) {
    // SAFETY: a hint, which changes neither memory nor registers. Processors that do not know it pass over it.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) byte, options(nostack, preserves_flags, readonly));
    }
}

#[inline]
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn prefetch_for_write(_: &u8) {}

/// The time of a packed HIGHRES record in network byte order.
pub fn record_time(record: &[u8]) -> Timestamp {
    Timestamp::new(BigEndian::read_i64(&record[0..8]), BigEndian::read_i64(&record[8..16]) as u32)
}

/// The latest time of packed records: the first begins at `from`, each ends at one of `ends`.
pub(super) fn latest_of(bytes: &[u8], ends: &[u32], from: u32) -> Option<Timestamp> {
    let starts = std::iter::once(from).chain(ends.iter().copied());
    starts.zip(ends).map(|(start, &end)| record_time(&bytes[start as usize..end as usize])).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PMID: Pmid = Pmid::new(400, 16, 0);

    fn time(sec: i64) -> Timestamp {
        Timestamp::new(sec, 123_456_789)
    }

    #[test]
    fn nothing_more_can_be_done_with_a_finished_record() {
        let mut batch = Batch::default();
        let mut record = batch.record(time(1), EventFlags::POINT);
        record.param(PMID, Param::U32(1));
        let len = record.finish().expect("it is small").bytes().len();
        record.param(PMID, Param::U32(2));
        assert!(record.packed(1, &[0; 12]).is_empty());
        assert!(matches!(record.finish(), Err(RecordError::TooLarge { .. })));
        assert_eq!((batch.len(), batch.bytes().len()), (1, len));
    }

    #[test]
    fn records_are_packed_as_on_the_wire() {
        let mut batch = Batch::with_capacity(0);
        let mut record = batch.record(Timestamp::new(0x6500_0003, 0x75b_cd15), EventFlags::POINT);
        record.param(PMID, Param::String(b"abcde"));
        record.param(PMID, Param::U64(7));
        assert_eq!(record.packed_len(), 24 + 16 + 16);
        record.commit().unwrap();
        assert_eq!(
            batch.bytes(),
            b"\0\0\0\0\x65\0\0\x03\0\0\0\0\x07\x5b\xcd\x15\0\0\0\x01\0\0\0\x02\
              \x64\0\x40\0\x06\0\0\x09abcde\0\0\0\
              \x64\0\x40\0\x03\0\0\x0c\0\0\0\0\0\0\0\x07"
        );
        assert_eq!(batch.ends(), [56]);
        let params = batch.bytes()[24..].to_vec();
        let mut record = batch.record(Timestamp::new(0x6500_0003, 0x75b_cd15), EventFlags::POINT);
        record.packed(2, &params);
        record.commit().unwrap();
        assert_eq!(batch.get(1), batch.get(0));
        assert_eq!(batch.last_time(), Some(Timestamp::new(0x6500_0003, 0x75b_cd15)));
    }

    #[test]
    fn a_record_that_is_not_committed_leaves_no_trace() {
        let mut batch = Batch::default();
        batch.record(time(1), EventFlags::POINT).commit().unwrap();
        let before = batch.bytes().to_vec();
        let mut dropped = batch.record(time(2), EventFlags::POINT);
        dropped.param(PMID, Param::I32(1));
        drop(dropped);
        assert_eq!((batch.len(), batch.bytes()), (1, &before[..]));
        batch.record(time(3), EventFlags::POINT).commit().unwrap();
        assert_eq!(batch.len(), 2);
        assert_eq!(batch.get(0), Some(&before[..]));
        assert_eq!(batch.last_time(), Some(time(3)));
        assert_eq!(batch.get(2), None);
        batch.push_packed(&before).unwrap();
        assert_eq!((batch.last_time(), batch.latest_time()), (Some(time(1)), Some(time(3))));
        assert!(batch.iter().eq((0..3).filter_map(|at| batch.get(at))));
        batch.truncate(1);
        assert_eq!((batch.bytes(), batch.latest_time()), (&before[..], Some(time(1))));
        batch.clear();
        assert!(batch.is_empty() && batch.bytes().is_empty() && batch.last_time().is_none());
        assert_eq!(batch.latest_time(), None);
    }

    #[test]
    fn what_flags_there_may_be_is_known_without_a_look() {
        const MARKS: EventFlags = EventFlags::START.union(EventFlags::END);
        let mut batch = Batch::default();
        batch.record(time(1), EventFlags::POINT).commit().unwrap();
        drop(batch.record(time(2), EventFlags::START));
        assert!(!batch.may_have(MARKS) && batch.may_have(EventFlags::POINT));
        let mut other = Batch::default();
        other.record(time(3), EventFlags::END | EventFlags::ID).commit().unwrap();
        batch.push_packed(other.last().unwrap()).unwrap();
        assert!(batch.may_have(MARKS));
        batch.clear();
        assert!(!batch.may_have(MARKS) && batch.capacity() > 0);
    }

    #[test]
    fn a_record_can_be_copied_and_amended() {
        let mut from = Batch::default();
        from.record(time(1), EventFlags::POINT).commit().unwrap();
        let mut batch = Batch::default();
        batch.push_packed(from.last().unwrap()).unwrap();
        assert_eq!(batch.bytes(), from.bytes());
        batch.amend_last(PMID, Param::String(b"abcde")).unwrap();
        let mut written = from.record(time(1), EventFlags::POINT);
        written.param(PMID, Param::String(b"abcde"));
        written.commit().unwrap();
        assert_eq!(batch.last(), from.last());
        let refused = batch.amend_last(PMID, Param::String(&vec![b'x'; MAX_RECORD]));
        assert!(matches!(refused, Err(RecordError::TooLarge { .. })));
        assert_eq!(batch.last(), from.last());
    }

    #[test]
    fn oversized_records_full_batches_and_missed_flags_are_refused() {
        let mut batch = Batch::default();
        let text = vec![b'x'; MAX_RECORD - 32];
        let mut record = batch.record(time(1), EventFlags::POINT);
        record.param(PMID, Param::String(&text));
        assert_eq!(record.room(), 0);
        record.param(PMID, Param::U32(1));
        assert_eq!(record.commit(), Err(RecordError::TooLarge { len: MAX_RECORD + 12 }));
        let record = batch.record(time(1), EventFlags::MISSED | EventFlags::POINT);
        assert_eq!(record.commit(), Err(RecordError::MissedFlag));
        for _ in 0..MAX_BATCH / MAX_RECORD {
            let mut record = batch.record(time(1), EventFlags::POINT);
            record.param(PMID, Param::String(&text));
            record.commit().unwrap();
        }
        assert_eq!(batch.bytes().len(), MAX_BATCH);
        assert_eq!(batch.record(time(2), EventFlags::POINT).commit(), Err(RecordError::BatchFull));
        assert_eq!(batch.last_time(), Some(time(1)));
    }
}
