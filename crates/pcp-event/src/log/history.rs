//! [`History`]: records that the log has no longer in memory, kept by somebody else.
//!
//! With a history the chunks in memory are but its newest part: what is evicted is not lost, and a cursor behind them reads on
//! in the history. What it has not got is missed there, whatever a cursor's filter would have said of it.

use std::fmt::Debug;

use super::chunk::{Chunk, Loss, memory_of};
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

impl Stretch {
    /// All of it if it takes so much memory at most; else as many of its newest records as that holds, up to `count`.
    pub(super) fn newest(self, count: usize, memory: usize) -> Stretch {
        let Stretch { first, lost, records, ends, .. } = &self;
        let takes = |bytes: usize, records: usize| memory_of(bytes, records, usize::from(*lost > 0));
        if takes(records.capacity(), ends.capacity()) <= memory {
            return self;
        }
        let begins = std::iter::once(0).chain(ends.iter().map(|end| *end as usize)).zip(0..=ends.len());
        let kept = begins.filter(|(_, dropped)| ends.len() - dropped <= count);
        let kept =
            kept.filter(|(begin, dropped)| takes(records.len() - begin, ends.len() - dropped) <= memory);
        kept.take(1).fold(Stretch::default(), |_, (begin, dropped)| Stretch {
            first: first + lost + dropped as u64,
            records: records[begin..].to_vec(),
            ends: ends[dropped..].iter().map(|end| end - begin as u32).collect(),
            ..Stretch::default()
        })
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_of_the_newest_are_kept_as_there_is_memory_for() {
        let stretch = Stretch {
            first: 100,
            lost: 5,
            lost_time: Timestamp::new(1, 0),
            records: (0..10).flat_map(|record| [record; 30]).collect(),
            ends: (1..=10).map(|record| 30 * record).collect(),
        };
        let all = memory_of(300, 10, 1);
        assert_eq!(stretch.clone().newest(0, all), stretch);
        let three = Stretch {
            first: 112,
            records: [[7; 30], [8; 30], [9; 30]].concat(),
            ends: vec![30, 60, 90],
            ..Stretch::default()
        };
        assert_eq!(stretch.clone().newest(3, all - 1), three);
        assert_eq!(stretch.clone().newest(9, memory_of(90, 3, 1)), three);
        assert_eq!(stretch.newest(9, 0).ends, []);
    }
}
