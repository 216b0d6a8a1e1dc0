//! [`History`]: records that the log has no longer in memory, kept by somebody else.
//!
//! With a history the chunks in memory are but its newest part: what is evicted is not lost, and a cursor behind them reads on
//! in the history. What it has not got is missed there, whatever a cursor's filter would have said of it.

use std::fmt::Debug;

use super::chunk::{Chunk, Loss};
use pcp_model::Timestamp;

/// Records of a log that are kept elsewhere: on disk.
pub trait History: Debug + Send {
    /// Reads the stretch in which the entry of sequence number `seq` is. Never waits.
    fn read(&mut self, seq: u64, stretch: &mut Stretch) -> Recall;

    /// Sequence number of the oldest entry that is there.
    fn first(&self) -> Option<u64>;

    /// Sequence number of an entry, not after the first one whose time is not before `time`, as near to that as is known without
    /// waiting; `None` if all are older.
    fn before(&self, time: Timestamp) -> Option<u64>;
}

/// What has become of an entry that is no longer in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recall {
    /// The stretch has it.
    Found,
    /// It is there, and cannot be read without waiting: ask again soon.
    Later,
    /// It is gone, and so are all from it to before `to`; the newest of them are not younger than `time`.
    Lost {
        /// The first that may be there again; [`u64::MAX`] if none before those in memory is.
        to: u64,
        /// When.
        time: Timestamp,
    },
}

/// Consecutive entries: some that were lost, then records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    /// Sequence number of the first.
    pub first: u64,
    /// How many were lost.
    pub lost: u64,
    /// When the newest of them was.
    pub lost_time: Timestamp,
    /// Packed HIGHRES records in network byte order. Each has the 24 bytes of its header at least.
    pub records: Vec<u8>,
    /// The offset behind each record, ascending; the last is the length of `records`.
    pub ends: Vec<u32>,
}

/// The history of a log, and the stretch of it that was read last.
#[derive(Debug, Default)]
pub(super) struct Recalled {
    history: Option<Box<dyn History>>,
    chunk: Option<Chunk>,
    /// For its memory.
    stretch: Stretch,
}

impl Recalled {
    pub(super) fn new(history: Box<dyn History>) -> Recalled {
        Recalled { history: Some(history), ..Recalled::default() }
    }

    pub(super) fn is_some(&self) -> bool {
        self.history.is_some()
    }

    /// Sequence number of the oldest entry that is there.
    pub(super) fn first(&self) -> Option<u64> {
        self.history.as_ref()?.first()
    }

    /// Where to begin to look for a time.
    pub(super) fn before(&self, time: Timestamp) -> Option<u64> {
        self.history.as_ref()?.before(time)
    }

    /// The chunk with the entry `seq`, which is not in memory.
    pub(super) fn chunk_with(&mut self, seq: u64) -> Result<&Chunk, Recall> {
        let Some(history) = &mut self.history else {
            return Err(Recall::Lost { to: u64::MAX, time: Timestamp::default() });
        };
        if !self.chunk.as_ref().is_some_and(|chunk| (chunk.base..chunk.end()).contains(&seq)) {
            if let Some(old) = self.chunk.take() {
                (self.stretch.records, self.stretch.ends) = (old.bytes, old.ends);
            }
            match history.read(seq, &mut self.stretch) {
                Recall::Found => self.chunk = Some(chunk_of(std::mem::take(&mut self.stretch))),
                other => return Err(other),
            }
        }
        match &self.chunk {
            Some(chunk) if (chunk.base..chunk.end()).contains(&seq) => Ok(chunk),
            _ => {
                debug_assert!(false, "a history gives what it is asked for");
                Err(Recall::Lost { to: seq + 1, time: Timestamp::default() })
            }
        }
    }

    /// Gives back what only readers need.
    pub(super) fn forget(&mut self) {
        (self.chunk, self.stretch) = (None, Stretch::default());
    }
}

/// A stretch as a chunk of the log.
pub(super) fn chunk_of(stretch: Stretch) -> Chunk {
    let Stretch { first, lost, lost_time, records, ends } = stretch;
    match lost {
        0 => Chunk::new(first, records, ends),
        count => Chunk::with_loss(Loss { seq: first, index: 0, count, time: lost_time }, records, ends),
    }
}
