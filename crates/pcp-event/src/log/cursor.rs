//! The cursors of a log: where each client is, and what it has been given.

use super::chunk::Chunk;
use crate::pack::ArrayKind;
use pcp_model::Timestamp;

/// Names a cursor of one log. Never reused: a name from before a `leave` finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CursorId {
    slot: usize,
    serial: u64,
}

/// What a cursor has seen. `delivered + filtered + missed + queued` is the number of records sent
/// since it joined, and `again` for those it was moved back by, exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CursorStats {
    /// The log's sequence number when the cursor joined.
    pub joined_at: u64,
    /// Records delivered.
    pub delivered: u64,
    /// Records its filter has rejected, and those it was moved on over.
    pub filtered: u64,
    /// Records it was moved back by, over all its moves: they come once more, or for the first time if they were
    /// sent before it joined.
    pub again: u64,
    /// Records lost for this cursor, whether its client has had a missed record for them or not.
    pub missed: u64,
    /// Those of the missed that its client is still owed a missed record for.
    pub owed: u64,
    /// Records, and losses at their places, that are still to be read.
    pub queued: u64,
    /// Bytes of the arrays delivered.
    pub bytes: u64,
}

/// Lost records that the client is to be told of before anything else.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Owed {
    pub count: u64,
    pub time: Timestamp,
}

impl Owed {
    /// Adds records lost at the same place, later.
    pub(super) fn add(&mut self, count: u64, time: Timestamp) {
        // The time is that of the newest, which is always the one added.
        if count > 0 {
            *self = Owed { count: self.count + count, time };
        }
    }
}

/// What a filter group had counted when a cursor fell behind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lag {
    pub passed: u64,
    pub failed: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Cursor {
    /// The next entry. If it lies before the log's first, that many records are lost but not
    /// counted yet.
    pub seq: u64,
    pub owed: Owed,
    /// What is older than this is passed over, up to the first that is not.
    pub since: Option<Timestamp>,
    /// The filter group.
    pub group: Option<usize>,
    /// Set for a filtered cursor whose place has been evicted: its group counts on its behalf.
    pub lag: Option<Lag>,
    pub joined_at: u64,
    pub delivered: u64,
    pub filtered: u64,
    pub again: u64,
    pub missed: u64,
    pub bytes: u64,
}

impl Cursor {
    /// Goes to `to` over entries that are lost, the newest of them at `time`. In search of a time they are none of what its
    /// client has asked for.
    pub(super) fn lose(&mut self, to: u64, time: Timestamp) {
        let count = to - self.seq;
        match self.since {
            None => {
                self.owed.add(count, time);
                self.missed += count;
            }
            Some(_) => self.filtered += count,
        }
        self.seq = to;
    }

    /// Goes on in a chunk, or to its end, over what is older than its client has asked for.
    pub(super) fn pass_over(&mut self, chunk: &Chunk) {
        let Some(since) = self.since else { return };
        let found = chunk.not_before(since, self.seq);
        let to = found.unwrap_or(chunk.end());
        self.filtered += to - self.seq;
        self.seq = to;
        self.since = self.since.filter(|_| found.is_none());
    }

    /// The sequence number up to which its client has been told of everything: in front of the losses that it is owed.
    pub(super) fn told(&self) -> u64 {
        self.seq.saturating_sub(self.owed.count)
    }
}

/// Slots with a serial number each, so that a stale name is recognised.
#[derive(Debug, Default)]
pub(super) struct CursorTable {
    slots: Vec<Option<(u64, Cursor)>>,
    free: Vec<usize>,
    last_serial: u64,
}

impl CursorTable {
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn insert(&mut self, cursor: Cursor) -> CursorId {
        // 64 bits do not come round again.
        self.last_serial += 1;
        let entry = Some((self.last_serial, cursor));
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = entry;
                slot
            }
            None => {
                self.slots.push(entry);
                self.slots.len() - 1
            }
        };
        CursorId { slot, serial: self.last_serial }
    }

    pub(super) fn remove(&mut self, id: CursorId) -> Option<Cursor> {
        self.get(id)?;
        self.free.push(id.slot);
        self.slots[id.slot].take().map(|(_, cursor)| cursor)
    }

    pub(super) fn get(&self, id: CursorId) -> Option<&Cursor> {
        match self.slots.get(id.slot)? {
            Some((serial, cursor)) if *serial == id.serial => Some(cursor),
            _ => None,
        }
    }

    pub(super) fn get_mut(&mut self, id: CursorId) -> Option<&mut Cursor> {
        match self.slots.get_mut(id.slot)? {
            Some((serial, cursor)) if *serial == id.serial => Some(cursor),
            _ => None,
        }
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Cursor> {
        self.slots.iter_mut().flatten().map(|(_, cursor)| cursor)
    }
}

/// What a read has put into an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadOutcome {
    /// Records in the array, missed records and their count records included. 0: nothing was
    /// written, and the caller reports no value (an empty array harms pmlogger, `docs/pcp/events.md` 3.11).
    pub records: usize,
    /// Records of the log in the array.
    pub delivered: u64,
    /// Sum of the missed records' counts in the array.
    pub missed: u64,
    /// Whether there is more to read at once.
    pub more: bool,
}

/// Bytes of one missed record in an array: for the HIGHRES kind with the record that holds the count.
pub(super) const fn missed_len(kind: ArrayKind) -> usize {
    match kind {
        ArrayKind::Event => ArrayKind::Event.record_header(),
        ArrayKind::HighRes => 2 * ArrayKind::HighRes.record_header() + 16,
    }
}
