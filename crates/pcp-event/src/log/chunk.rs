//! A stretch of the log: packed records, where each ends, and the losses between them.
//!
//! Entries (records and losses) have consecutive sequence numbers; a loss takes as many as it has
//! lost records. A position in the log is therefore just a sequence number.

use std::mem::size_of;

use crate::batch::{latest_of, record_time};
use pcp_model::Timestamp;

/// Records that were lost before they reached the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loss {
    /// Sequence number of the first.
    pub seq: u64,
    /// Number of the chunk's records before it.
    pub index: u32,
    pub count: u64,
    /// When the newest of them was lost.
    pub time: Timestamp,
}

#[derive(Debug)]
pub(super) struct Chunk {
    /// Sequence number of the first entry.
    pub base: u64,
    /// Packed HIGHRES records.
    pub bytes: Vec<u8>,
    /// The offset behind each record.
    pub ends: Vec<u32>,
    /// Ascending.
    pub losses: Vec<Loss>,
    /// Sum of the losses' counts.
    lost: u64,
    /// The latest time of all entries of the log up to the end of this chunk.
    pub latest: Option<Timestamp>,
    /// Cursors whose next entry is in here.
    pub readers: usize,
    /// Those of them that have a filter.
    pub filtered: usize,
}

impl Chunk {
    pub(super) fn new(base: u64, bytes: Vec<u8>, ends: Vec<u32>) -> Chunk {
        Chunk { base, bytes, ends, losses: Vec::new(), lost: 0, latest: None, readers: 0, filtered: 0 }
    }

    /// A chunk that begins with a loss.
    pub(super) fn with_loss(loss: Loss, bytes: Vec<u8>, ends: Vec<u32>) -> Chunk {
        Chunk { losses: vec![loss], lost: loss.count, ..Chunk::new(loss.seq, bytes, ends) }
    }

    /// Number of records.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Sequence number behind the last entry.
    pub(super) fn end(&self) -> u64 {
        self.base + self.len() as u64 + self.lost
    }

    /// Bytes of memory in use, spare capacity included.
    pub(super) fn memory(&self) -> usize {
        memory_of(self.bytes.capacity(), self.ends.capacity(), self.losses.capacity())
    }

    /// Offset where record `index` begins (`len()`: where the next will).
    pub(super) fn start_of(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before] as usize)
    }

    /// The packed record `index`.
    pub(super) fn record(&self, index: usize) -> &[u8] {
        &self.bytes[self.start_of(index)..self.ends[index] as usize]
    }

    /// Number of records before sequence number `seq`, and the number of losses before it.
    pub(super) fn position(&self, seq: u64) -> (usize, usize) {
        let losses = self.losses.partition_point(|loss| loss.seq < seq);
        debug_assert!((self.base..=self.end()).contains(&seq), "{seq} is not in this chunk");
        (((seq - self.base) - self.lost_before(losses)) as usize, losses)
    }

    /// Sequence number of record `index`.
    pub(super) fn seq_of(&self, index: usize) -> u64 {
        let losses = self.losses.partition_point(|loss| loss.index as usize <= index);
        self.base + index as u64 + self.lost_before(losses)
    }

    /// Lost records from sequence number `seq` on.
    pub(super) fn lost_from(&self, seq: u64) -> u64 {
        self.lost - self.lost_before(self.losses.partition_point(|loss| loss.seq < seq))
    }

    /// The loss that sequence number `seq` is within, if it is behind that one's first record.
    pub(super) fn loss_around(&self, seq: u64) -> Option<&Loss> {
        let before = self.losses.partition_point(|loss| loss.seq < seq).checked_sub(1)?;
        self.losses.get(before).filter(|loss| loss.seq + loss.count > seq)
    }

    /// The latest time of its entries. Looks at each record.
    pub(super) fn latest_time(&self) -> Option<Timestamp> {
        latest_of(&self.bytes, &self.ends, 0).max(self.losses.iter().map(|loss| loss.time).max())
    }

    /// Sequence number of the first entry from `seq` on whose time is not before `time`. Looks at each record.
    pub(super) fn not_before(&self, time: Timestamp, seq: u64) -> Option<u64> {
        let (first, losses) = self.position(seq);
        let record = (first..self.len()).find(|&index| record_time(self.record(index)) >= time);
        let loss = self.losses[losses..].iter().find(|loss| loss.time >= time);
        let record = record.map(|index| self.seq_of(index));
        record.into_iter().chain(loss.map(|loss| loss.seq)).min()
    }

    /// The time of the last entry.
    pub(super) fn last_time(&self) -> Timestamp {
        match self.losses.last() {
            Some(loss) if loss.index as usize == self.len() => loss.time,
            _ if self.len() > 0 => record_time(self.record(self.len() - 1)),
            _ => Timestamp::default(),
        }
    }

    /// Memory that [`Chunk::extend`] will add.
    pub(super) fn growth(&self, bytes: usize, records: usize, limit: usize) -> usize {
        let bytes = grown(self.bytes.capacity(), self.bytes.len() + bytes, limit);
        let ends = grown(self.ends.capacity(), self.ends.len() + records, usize::MAX);
        memory_of(bytes, ends, self.losses.capacity()) - self.memory()
    }

    /// Appends records; `ends` are relative to `offset`. Spare capacity grows up to `limit` bytes.
    pub(super) fn extend(&mut self, bytes: &[u8], ends: &[u32], offset: u32, limit: usize) {
        let shift = self.bytes.len() as u32;
        grow(&mut self.bytes, bytes.len(), limit);
        grow(&mut self.ends, ends.len(), usize::MAX);
        self.bytes.extend_from_slice(bytes);
        self.ends.extend(ends.iter().map(|end| end - offset + shift));
    }

    /// Memory that [`Chunk::lose`] will add at most.
    pub(super) fn loss_growth(&self) -> usize {
        let losses = grown(self.losses.capacity(), self.losses.len() + 1, usize::MAX);
        (losses - self.losses.capacity()) * size_of::<Loss>()
    }

    /// The last entry if it is a loss.
    pub(super) fn last_loss(&self) -> Option<&Loss> {
        self.losses.last().filter(|loss| loss.index as usize == self.len())
    }

    /// Appends a loss. With `merge` it becomes part of a loss that is the last entry.
    pub(super) fn lose(&mut self, count: u64, time: Timestamp, merge: bool) {
        let (seq, index) = (self.end(), self.len() as u32);
        self.lost += count;
        match self.losses.last_mut() {
            Some(last) if merge && last.index == index => {
                last.count += count;
                last.time = time;
            }
            _ => {
                grow(&mut self.losses, 1, usize::MAX);
                self.losses.push(Loss { seq, index, count, time });
            }
        }
    }

    /// Keeps the newest `keep` records and the losses behind the first of them.
    pub(super) fn trim(&mut self, keep: usize) {
        let Some(drop) = self.len().checked_sub(keep) else { return };
        let cut = self.start_of(drop);
        let losses = self.losses.partition_point(|loss| loss.index as usize <= drop);
        let lost = self.lost_before(losses);
        self.base += drop as u64 + lost;
        self.lost -= lost;
        // New vectors, as `drain` would keep the memory that this is to free.
        self.bytes = self.bytes[cut..].to_vec();
        self.ends = self.ends[drop..].iter().map(|end| end - cut as u32).collect();
        self.losses = self.losses[losses..]
            .iter()
            .map(|loss| Loss { index: loss.index - drop as u32, ..*loss })
            .collect();
    }

    /// Sum of the first `losses` losses.
    fn lost_before(&self, losses: usize) -> u64 {
        match losses.checked_sub(1).map(|last| self.losses[last]) {
            // A loss knows its sequence number and how many records are before it: the rest are lost ones.
            Some(last) => last.seq - self.base - u64::from(last.index) + last.count,
            None => 0,
        }
    }
}

/// Memory of a chunk with these capacities.
pub(super) fn memory_of(bytes: usize, ends: usize, losses: usize) -> usize {
    size_of::<Chunk>() + bytes + ends * size_of::<u32>() + losses * size_of::<Loss>()
}

/// The capacity that a vector is given: twice the old one, but not more than `limit` unless needed.
fn grown(capacity: usize, needed: usize, limit: usize) -> usize {
    if needed <= capacity { capacity } else { needed.max((2 * capacity).min(limit)) }
}

fn grow<T>(vec: &mut Vec<T>, more: usize, limit: usize) {
    let capacity = grown(vec.capacity(), vec.len() + more, limit);
    if capacity > vec.capacity() {
        // Exactly, as what `reserve` adds would escape the budget.
        vec.reserve_exact(capacity - vec.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Batch, EventFlags};

    /// r0 L3 r1 r2 L1 L2, from sequence number 10.
    fn chunk() -> Chunk {
        let mut chunk = Chunk::new(10, Vec::new(), Vec::new());
        for (sec, losses) in [(0, &[3u64][..]), (1, &[]), (2, &[1, 2])] {
            let mut batch = Batch::default();
            batch.record(Timestamp::new(sec, 0), EventFlags::POINT).commit().unwrap();
            chunk.extend(batch.bytes(), batch.ends(), 0, 1000);
            for &count in losses {
                chunk.lose(count, Timestamp::new(100 + count as i64, 0), false);
            }
        }
        chunk
    }

    #[test]
    fn sequence_numbers_find_records_and_losses() {
        let chunk = chunk();
        assert_eq!(chunk.end(), 19);
        for (seq, position) in
            [(10, (0, 0)), (11, (1, 0)), (14, (1, 1)), (15, (2, 1)), (16, (3, 1)), (17, (3, 2))]
        {
            assert_eq!(chunk.position(seq), position, "{seq}");
        }
        assert_eq!([0, 1, 2].map(|index| chunk.seq_of(index)), [10, 14, 15]);
        assert_eq!([10, 11, 14, 16, 17, 19].map(|seq| chunk.lost_from(seq)), [6, 6, 3, 3, 2, 0]);
        assert_eq!(chunk.last_time(), Timestamp::new(102, 0));
    }

    #[test]
    fn losses_at_one_place_merge_on_request() {
        let mut chunk = chunk();
        chunk.lose(4, Timestamp::new(200, 0), true);
        assert_eq!((chunk.losses.len(), chunk.end(), chunk.last_time()), (3, 23, Timestamp::new(200, 0)));
        assert_eq!(chunk.last_loss().map(|loss| loss.count), Some(6));
    }

    #[test]
    fn trimming_keeps_the_newest_records_in_their_places() {
        let mut chunk = chunk();
        let newest = chunk.record(2).to_vec();
        chunk.trim(2);
        assert_eq!((chunk.base, chunk.end(), chunk.len(), chunk.losses.len()), (14, 19, 2, 2));
        assert_eq!(chunk.record(1), newest);
        assert_eq!(chunk.position(16), (2, 0));
        chunk.trim(0);
        assert_eq!((chunk.base, chunk.end(), chunk.len()), (19, 19, 0));
    }

    #[test]
    fn growth_is_what_extend_and_lose_take() {
        let mut chunk = Chunk::new(0, Vec::new(), Vec::new());
        let mut batch = Batch::default();
        batch.record(Timestamp::default(), EventFlags::POINT).commit().unwrap();
        for _ in 0..100 {
            let before = chunk.memory();
            let growth = chunk.growth(batch.bytes().len(), 1, 1000);
            chunk.extend(batch.bytes(), batch.ends(), 0, 1000);
            assert_eq!(chunk.memory() - before, growth);
            let (before, growth) = (chunk.memory(), chunk.loss_growth());
            chunk.lose(1, Timestamp::default(), false);
            assert_eq!(chunk.memory() - before, growth);
        }
    }
}
