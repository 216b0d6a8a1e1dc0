//! Going on: a cursor that was somebody's in another life of the log's owner.
//!
//! What a cursor has seen is a handful of numbers ([`CursorState`]). Kept where they outlive the owner, they make a cursor of
//! the same log, in its next life, that goes on just there: the accounting of [`EventLog`] holds over both lives.

use super::cursor::{Cursor, CursorId, Owed};
use super::seek::{MAX_AGAIN, SeekError};
use super::{EventLog, MAX_SEQ, Place};
use pcp_model::Timestamp;

/// A cursor, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CursorState {
    /// The sequence number of the next entry.
    pub seq: u64,
    /// Records in front of it that were lost, which its client has not been told of.
    pub owed: u64,
    /// When the newest of those happened.
    pub owed_time: Timestamp,
    /// What is older than this is passed over, up to the first that is not.
    pub since: Option<Timestamp>,
    /// As in [`CursorStats`](super::CursorStats), as those that follow.
    pub joined_at: u64,
    /// Records delivered.
    pub delivered: u64,
    /// Records rejected, or moved on over.
    pub filtered: u64,
    /// Records moved back by.
    pub again: u64,
    /// Records lost, the owed ones included.
    pub missed: u64,
    /// Bytes of arrays.
    pub bytes: u64,
}

impl CursorState {
    /// The cursor after an answer of which nobody knows whether it has come, which began at `self` and ended at `after`: it
    /// goes on behind that, and owes what was in it. Its client may be told of records as missed that it has had, which is
    /// no harm; it never has one twice, and none is lost unsaid. `time`: of the answer.
    pub fn unsure(self, after: CursorState, time: Timestamp) -> CursorState {
        let missed = after.missed.saturating_add(after.delivered.saturating_sub(self.delivered));
        let told = self.missed.saturating_sub(self.owed);
        CursorState {
            delivered: self.delivered,
            missed,
            owed: missed.saturating_sub(told),
            owed_time: time,
            bytes: self.bytes,
            ..after
        }
    }

    /// The same where numbers from `seq` on are not what they were: those behind it are begun anew.
    pub fn not_beyond(self, seq: u64) -> CursorState {
        let back = self.seq.saturating_sub(seq);
        CursorState { seq: self.seq - back, again: self.again.saturating_add(back), ..self }
    }

    /// Whether the numbers are those of a cursor.
    fn is_sound(&self) -> bool {
        let since_joined = self.seq.checked_sub(self.joined_at).and_then(|n| n.checked_add(self.again));
        // One that was moved to before it joined.
        let since_joined =
            since_joined.or_else(|| self.again.checked_sub(self.joined_at.checked_sub(self.seq)?));
        let accounted = self.delivered.checked_add(self.filtered).and_then(|n| n.checked_add(self.missed));
        let bounded = [self.seq, self.joined_at].iter().all(|n| *n <= MAX_SEQ) && self.again <= MAX_AGAIN;
        bounded && self.owed <= self.missed && since_joined.is_some() && since_joined == accounted
    }
}

impl EventLog {
    /// A cursor in numbers. `None`: it is unknown.
    pub fn cursor_state(&self, id: CursorId) -> Option<CursorState> {
        let cursor = self.settled(self.cursors.get(id)?);
        Some(CursorState {
            seq: cursor.seq,
            owed: cursor.owed.count,
            owed_time: cursor.owed.time,
            since: cursor.since,
            joined_at: cursor.joined_at,
            delivered: cursor.delivered,
            filtered: cursor.filtered,
            again: cursor.again,
            missed: cursor.missed,
            bytes: cursor.bytes,
        })
    }

    /// A new cursor, without a filter, that goes on where another one was. What the log no longer has is missed.
    ///
    /// # Errors
    /// The log has not come so far; or the numbers are not those of any cursor ([`SeekError::Unsound`]).
    pub fn resume(&mut self, state: &CursorState) -> Result<CursorId, SeekError> {
        if !state.is_sound() {
            return Err(SeekError::Unsound);
        }
        let landing = self.landing(Place::Seq(state.seq))?;
        let gone = landing.seq - landing.asked;
        let mut owed = Owed { count: state.owed, time: state.owed_time };
        owed.add(gone, landing.time);
        self.enter(landing.seq, false);
        Ok(self.cursors.insert(Cursor {
            seq: landing.seq,
            owed,
            since: state.since,
            joined_at: state.joined_at,
            delivered: state.delivered,
            filtered: state.filtered,
            again: state.again,
            missed: state.missed + gone,
            bytes: state.bytes,
            ..Cursor::default()
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Timestamp = Timestamp { sec: 7, nsec: 0 };

    #[test]
    fn an_answer_of_which_nobody_knows_counts_as_missed() {
        let before =
            CursorState { seq: 10, delivered: 6, filtered: 2, missed: 2, owed: 1, ..CursorState::default() };
        // What was owed was told, three were delivered and one was rejected.
        let after = CursorState { seq: 14, delivered: 9, filtered: 3, ..CursorState { owed: 0, ..before } };
        let unsure = before.unsure(after, TIME);
        assert_eq!(
            unsure,
            CursorState { seq: 14, delivered: 6, filtered: 3, missed: 5, owed: 4, owed_time: TIME, ..before }
        );
        assert!(before.is_sound() && after.is_sound() && unsure.is_sound());
    }

    #[test]
    fn numbers_that_no_cursor_has_are_none() {
        let sound = CursorState { seq: 10, joined_at: 4, delivered: 6, ..CursorState::default() };
        assert!(sound.is_sound() && sound.not_beyond(8).is_sound() && sound.not_beyond(2).is_sound());
        for wrong in [
            CursorState { delivered: 7, ..sound },
            CursorState { owed: 1, ..sound },
            CursorState { joined_at: 11, ..sound },
            CursorState { delivered: u64::MAX, filtered: 7, ..sound },
            CursorState { again: u64::MAX, ..sound },
            CursorState { seq: u64::MAX, joined_at: u64::MAX - 6, ..sound },
        ] {
            assert!(!wrong.is_sound(), "{wrong:?}");
        }
    }
}
