//! Seeking: a client that knows where it was has its cursor moved there, back or on.
//!
//! A place is a sequence number. What was asked for and is no longer held is one missed record in front of the rest;
//! what a cursor still owed is forgotten, and was not missed so far, as its client says itself what it wants to be told
//! of. Records that a cursor is moved back by are counted once more, as `again` and as what becomes of them then; those
//! it is moved on over are `filtered`. To be moved to one's own [position](EventLog::position) counts nothing.
//!
//! **Times** of records need not ascend. The place of a time is that of the *first* entry whose time is not before it,
//! so that nothing from that time on is left out; where times do not ascend, older records follow. If such an entry
//! may be gone it is the oldest that is held, and no missed record tells of what is gone: a time does not say how much
//! that is. **Cost**: a binary search over the chunks, each of which knows the latest time up to its end, and a look at
//! the records of one chunk (1 MiB or a sixteenth of the budget at most). In a history nobody looks at records here: the
//! cursor goes to where the history says, and passes over what is older when it reads ([`MAX_PASSED`] at a time).

use super::cursor::{CursorId, Owed};
use super::{EventLog, MAX_SEQ};
use pcp_model::Timestamp;

/// By how many records a cursor may be moved back in its life. With [`MAX_SEQ`] this keeps all counters within 64 bits,
/// whatever senders claim to have lost and clients ask for.
pub(super) const MAX_AGAIN: u64 = 1 << 62;
const _: () = assert!(MAX_AGAIN.checked_add(MAX_SEQ).is_some());

/// Most stretches of a history that one read passes over in search of a time.
pub(super) const MAX_PASSED: usize = 128;

/// Where a cursor is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In front of the record with this sequence number.
    Seq(u64),
    /// In front of the first entry whose time is not before this one.
    Time(Timestamp),
    /// In front of the oldest that is held.
    Oldest,
    /// Behind the newest, where those begin who join.
    Newest,
}

/// Why a cursor cannot be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SeekError {
    /// No record has that sequence number yet.
    #[error("there is no record {asked} yet: the next one is {next}")]
    Ahead {
        /// The sequence number asked for.
        asked: u64,
        /// That of the next record, the highest that can be asked for.
        next: u64,
    },
    /// The cursor has gone back over more records than can be counted.
    #[error("gone back over {MAX_AGAIN} records already: connect again")]
    TooOften,
    /// What is to be gone on with was never a cursor's.
    #[error("these are not the numbers of a cursor")]
    Unsound,
}

/// A place in the log.
pub(super) struct Landing {
    /// The sequence number asked for.
    pub asked: u64,
    /// That of the next entry held. Those between are missed.
    pub seq: u64,
    /// When the newest of those happened.
    pub time: Timestamp,
    /// What is older is to be passed over from there on.
    since: Option<Timestamp>,
}

impl EventLog {
    /// Moves a cursor. An unknown one is ignored.
    ///
    /// # Errors
    /// [`SeekError`]; nothing has changed then.
    pub fn seek(&mut self, id: CursorId, place: Place) -> Result<(), SeekError> {
        let Landing { asked, seq, time, since } = self.landing(place)?;
        // Settled first, so that it leaves a place that the log still has.
        let Some(mut cursor) = self.settle(id) else { return Ok(()) };
        let (from, told) = (cursor.seq, cursor.told());
        cursor.again += told.saturating_sub(asked);
        if cursor.again > MAX_AGAIN {
            return Err(SeekError::TooOften);
        }
        cursor.filtered += asked.saturating_sub(told);
        cursor.missed = cursor.missed - cursor.owed.count + (seq - asked);
        cursor.owed = Owed { count: seq - asked, time };
        (cursor.seq, cursor.since) = (seq, since);
        let filtered = cursor.group.is_some();
        if let Some(moved) = self.cursors.get_mut(id) {
            *moved = cursor;
        }
        self.withdraw(from, filtered);
        self.enter(seq, filtered);
        self.release();
        Ok(())
    }

    /// Whether there is such a place.
    ///
    /// # Errors
    /// [`SeekError`]
    pub fn check(&self, place: Place) -> Result<(), SeekError> {
        match place {
            Place::Seq(asked) if asked > self.next_seq => {
                Err(SeekError::Ahead { asked, next: self.next_seq })
            }
            _ => Ok(()),
        }
    }

    /// The sequence number from which on a cursor's client has not been told anything: [`Place::Seq`] of it makes the
    /// cursor go on as if it had never left.
    pub fn position(&self, id: CursorId) -> Option<u64> {
        self.cursors.get(id).map(|cursor| self.settled(cursor).told())
    }

    pub(super) fn landing(&self, place: Place) -> Result<Landing, SeekError> {
        self.check(place)?;
        let first = self.first_seq();
        let (asked, since) = match place {
            Place::Seq(seq) => (seq, None),
            Place::Time(time) => self.not_before(time),
            Place::Oldest => (self.recalled.first().map_or(first, |oldest| oldest.min(first)), None),
            Place::Newest => (self.next_seq, None),
        };
        let at = |seq, time| Ok(Landing { asked, seq, time, since });
        if asked < first {
            // What is behind memory is for the history to tell, when it is read.
            return at(if self.recalled.is_some() { asked } else { first }, self.gone_time);
        }
        // Places lie between entries: of a loss around it the rest is missed at once.
        let around = self.chunks.get(self.chunk_of(asked)).and_then(|chunk| chunk.loss_around(asked));
        match around {
            Some(loss) => at(loss.seq + loss.count, loss.time),
            None => at(asked, self.gone_time),
        }
    }

    /// The place of a time, and whether what is there is to be passed over if it is older.
    fn not_before(&self, time: Timestamp) -> (u64, Option<Timestamp>) {
        let first = self.first_seq();
        let are_all_older = self.gone_latest.is_some_and(|gone| gone < time);
        if self.recalled.is_some() && !are_all_older {
            match self.recalled.before(time) {
                Some(seq) if seq < first => return (seq, Some(time)),
                Some(_) | None => {}
            }
        } else if self.gone_latest.is_some() && !are_all_older {
            return (first, None);
        }
        let at = self.chunks.partition_point(|chunk| chunk.latest < Some(time));
        let found = self.chunks.get(at).and_then(|chunk| chunk.not_before(time, chunk.base));
        (found.unwrap_or(self.next_seq), None)
    }
}
