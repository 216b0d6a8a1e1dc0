//! How far numbered streams are in a lane: what lets a sender, or a file, begin somewhere before where it was, and nothing
//! come twice.
//!
//! Numbers of a stream ascend in a lane, within one life of whoever sends them. A record's number counts as there when the
//! record is in the batch, was dropped on purpose, or is lost and counted; not while it is held for the order of time. The marks
//! that a batch moves are written with it, so that they are true of what a log has, wherever it ends.
//!
//! **Cost:** a hash look-up a record of a numbered stream, none for others. While records are held, a set of their numbers, and
//! the gaps between them with each batch.

use std::collections::BTreeSet;
use std::sync::Arc;

use jumpseat_log::{MAX_ABOVE, Mark, State};
use rustc_hash::FxHashMap;

/// A stream of numbered records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub(super) u32);

/// The number of a record in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Numbered {
    /// The stream.
    pub stream: StreamId,
    /// Larger than that of any record before it.
    pub number: u64,
}

/// The streams of a lane.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// What the log had at the start, of streams that were not met yet.
    recalled: FxHashMap<Arc<[u8]>, Mark>,
    streams: FxHashMap<StreamId, LaneStream>,
    /// Those whose mark has moved since the last delivery.
    changed: Vec<StreamId>,
    /// Records of the batch that are numbered.
    pub numbered: u32,
}

#[derive(Debug)]
struct LaneStream {
    /// As of the start.
    known: Mark,
    /// The largest number since.
    highest: u64,
    /// Numbers of records that are held.
    held: BTreeSet<u64>,
    is_changed: bool,
}

impl Marks {
    /// As a log has them.
    pub(super) fn recall(state: &State) -> Marks {
        let recalled = state.marks().map(|mark| (Arc::clone(&mark.stream), mark.clone())).collect();
        Marks { recalled, ..Marks::default() }
    }

    /// Whether a record of this number is there already.
    pub(super) fn covers(&mut self, numbered: Numbered, name: &Arc<[u8]>) -> bool {
        let stream = self.stream(numbered.stream, name);
        numbered.number <= stream.highest || stream.known.covers(numbered.number)
    }

    /// The number up to which a stream has come, but for what is held; 0 if it is new.
    pub(super) fn reached(&mut self, id: StreamId, name: &Arc<[u8]>) -> u64 {
        let stream = self.stream(id, name);
        stream.highest.max(stream.known.number)
    }

    /// Everything of a stream up to a number is there, but for what is held.
    pub(super) fn done(&mut self, numbered: Numbered, name: &Arc<[u8]>) {
        self.stream(numbered.stream, name);
        self.raise(numbered);
    }

    /// The record of this number is in the batch, or was dropped.
    #[inline]
    pub(super) fn raise(&mut self, numbered: Numbered) {
        if let Some(stream) = self.streams.get_mut(&numbered.stream) {
            if numbered.number > stream.highest {
                stream.highest = numbered.number;
            }
            if !std::mem::replace(&mut stream.is_changed, true) {
                self.changed.push(numbered.stream);
            }
        }
    }

    /// The record of this number waits for its turn.
    pub(super) fn hold(&mut self, numbered: Numbered) {
        self.raise(numbered);
        if let Some(stream) = self.streams.get_mut(&numbered.stream) {
            stream.held.insert(numbered.number);
        }
    }

    /// It does no longer.
    pub(super) fn release(&mut self, numbered: Numbered) {
        if let Some(stream) = self.streams.get_mut(&numbered.stream) {
            stream.held.remove(&numbered.number);
        }
        self.raise(numbered);
    }

    /// The marks that have moved.
    pub(super) fn moved(&mut self) -> Vec<Mark> {
        let mut marks = Vec::with_capacity(self.changed.len());
        for id in self.changed.drain(..) {
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.is_changed = false;
                marks.push(stream.mark());
            }
        }
        marks
    }

    /// Those that were told of have not arrived: they are told of again.
    pub(super) fn not_moved(&mut self, marks: &[Mark]) {
        for mark in marks {
            let found = self.streams.iter_mut().find(|(_, stream)| stream.known.stream == mark.stream);
            if let Some((id, stream)) = found
                && !std::mem::replace(&mut stream.is_changed, true)
            {
                self.changed.push(*id);
            }
        }
    }

    fn stream(&mut self, id: StreamId, name: &Arc<[u8]>) -> &mut LaneStream {
        let recalled = &mut self.recalled;
        self.streams.entry(id).or_insert_with(|| LaneStream {
            known: recalled.remove(name).unwrap_or_else(|| Mark {
                stream: Arc::clone(name),
                number: 0,
                above: Vec::new(),
                text: Vec::new(),
            }),
            highest: 0,
            held: BTreeSet::new(),
            is_changed: false,
        })
    }
}

impl LaneStream {
    fn mark(&self) -> Mark {
        let mut above = Vec::new();
        let number = match self.held.first() {
            None => self.highest.max(self.known.number),
            Some(first) => first - 1,
        };
        let mut before = self.held.first().copied();
        for &held in self.held.iter().skip(1) {
            let from = before.replace(held).map_or(held, |before| before + 1);
            if from < held {
                above.push((from, held - 1));
            }
        }
        if let Some(last) = before
            && last < self.highest
        {
            above.push((last + 1, self.highest));
        }
        // What was there at the start, and has not been met again yet.
        above.extend(self.known.above.iter().filter(|range| range.0 > self.highest.max(number)));
        // What is beyond the limit may come twice; a lane holds fewer records than that.
        above.truncate(MAX_ABOVE);
        Mark { number, above, ..self.known.clone() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: StreamId = StreamId(0);

    fn name() -> Arc<[u8]> {
        b"s"[..].into()
    }

    proptest! {
        /// Records arrive in order; some wait and leave later. Wherever the log ends, a second life that begins anywhere
        /// before brings each record once.
        #[test]
        fn each_number_is_there_once_over_two_lives(
            holds in prop::collection::vec(any::<bool>(), 1..60),
            leaves in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
            again in any::<prop::sample::Index>(),
        ) {
            let (mut marks, mut written, mut held) = (Marks::default(), Vec::new(), Vec::new());
            let mut leaves = leaves.iter();
            for (index, hold) in holds.iter().enumerate() {
                let numbered = Numbered { stream: ID, number: 3 * index as u64 + 1 };
                prop_assert!(!marks.covers(numbered, &name()));
                if *hold {
                    marks.hold(numbered);
                    held.push(numbered);
                    if let Some(leave) = leaves.next() {
                        let gone = held.swap_remove(leave.index(held.len()));
                        marks.release(gone);
                        written.push(gone);
                    }
                } else {
                    marks.raise(numbered);
                    written.push(numbered);
                }
            }
            let mut state = State::default();
            state.change(&[], &marks.moved());
            let mut next = Marks::recall(&state);
            for index in again.index(holds.len())..holds.len() {
                let numbered = Numbered { stream: ID, number: 3 * index as u64 + 1 };
                let was_there = written.contains(&numbered);
                prop_assert_eq!(next.covers(numbered, &name()), was_there, "{:?}", numbered);
                if !was_there {
                    next.raise(numbered);
                    prop_assert!(next.covers(numbered, &name()));
                }
            }
            // Now everything is there.
            if again.index(holds.len()) == 0 {
                let mut state = State::default();
                state.change(&[], &next.moved());
                let mut last = Marks::recall(&state);
                for index in 0..holds.len() {
                    let numbered = Numbered { stream: ID, number: 3 * index as u64 + 1 };
                    if !held.is_empty() || state.marks().count() > 0 {
                        prop_assert!(last.covers(numbered, &name()));
                    }
                }
            }
        }
    }
}
