//! Numbered streams: how far each is in a lane, so that what is sent again is recognised.
//!
//! Who may send something twice numbers it: a sender that goes on after its connection broke, a file that is read again from
//! an older place. Its numbers only grow, so that one number, the mark, says what is there; numbers below it that went
//! somewhere else, or were refused or lost, are done all the same. Records that wait in an order window leave in the
//! order of their times: the mark of a delivery is behind all that has left, and has the ranges above that which have, too.
//! Those that wait for the decision about their traces leave in the order in which they came: the mark ends before the first.
//!
//! **Bounds.** A thread knows at most [`MAX_STREAMS`] streams, and of one user [`MAX_OF_ONE`]: those that nobody uses and that
//! were used longest ago are forgotten first, but for those of which records wait: who sends these again would be believed.
//!
//! **Cost:** two hash look-ups a numbered record, one comparison for all others.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use hashbrown::HashMap;
use jumpseat_log::{MAX_ABOVE, Mark, SourceLog};
use rustc_hash::FxHashMap;

use crate::registry::Taker;

/// Most streams that a thread knows.
pub const MAX_STREAMS: usize = 1024;
/// Most of them that are of one user.
pub const MAX_OF_ONE: usize = 256;

/// A stream, for as long as its thread knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(u64);

/// A record's number in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Numbered {
    /// The stream.
    pub stream: StreamId,
    /// The number, from 1.
    pub number: u64,
}

/// There are as many streams in use as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyStreams;

/// The streams of a thread, by name.
#[derive(Debug, Default)]
pub(super) struct Streams {
    by_id: FxHashMap<StreamId, Stream>,
    by_name: HashMap<Arc<[u8]>, StreamId>,
    /// Grows with each that is opened.
    turn: u64,
}

#[derive(Debug)]
struct Stream {
    name: Arc<[u8]>,
    /// Who sends it; `None` for the agent's own, which are as many as are configured and are kept.
    owner: Option<Taker>,
    /// How many use it.
    users: u32,
    used: u64,
}

impl Streams {
    /// One of the agent's own streams.
    pub(super) fn own(&mut self, name: &[u8]) -> StreamId {
        match self.by_name.get(name) {
            Some(id) => *id,
            None => self.add(name, None),
        }
    }

    /// Opens a stream of somebody's. What is forgotten instead is given to `forget`; nothing is that `waits`.
    pub(super) fn open(
        &mut self,
        name: &[u8],
        owner: Taker,
        waits: impl Fn(StreamId) -> bool,
        forget: impl FnOnce(StreamId),
    ) -> Result<StreamId, TooManyStreams> {
        self.turn += 1;
        if let Some(id) = self.by_name.get(name)
            && let Some(stream) = self.by_id.get_mut(id)
        {
            stream.users += 1;
            stream.used = self.turn;
            return Ok(*id);
        }
        if let Some(gone) = self.to_forget(owner, waits)? {
            self.by_id.remove(&gone).and_then(|stream| self.by_name.remove(&stream.name));
            forget(gone);
        }
        Ok(self.add(name, Some(owner)))
    }

    fn add(&mut self, name: &[u8], owner: Option<Taker>) -> StreamId {
        self.turn += 1;
        let (id, name) = (StreamId(self.turn), Arc::from(name));
        self.by_name.insert(Arc::clone(&name), id);
        self.by_id.insert(id, Stream { name, owner, users: 1, used: self.turn });
        id
    }

    /// Somebody does not use it any more.
    pub(super) fn close(&mut self, id: StreamId) {
        if let Some(stream) = self.by_id.get_mut(&id) {
            stream.users = stream.users.saturating_sub(1);
        }
    }

    pub(super) fn name(&self, id: StreamId) -> Option<&Arc<[u8]>> {
        self.by_id.get(&id).map(|stream| &stream.name)
    }

    /// What has to go for one more of this user, if anything has to.
    fn to_forget(
        &self,
        owner: Taker,
        waits: impl Fn(StreamId) -> bool,
    ) -> Result<Option<StreamId>, TooManyStreams> {
        let theirs = self.by_id.values().filter(|stream| stream.owner.is_some()).count();
        let own = self.by_id.values().filter(|stream| stream.owner == Some(owner)).count();
        if own < MAX_OF_ONE && theirs < MAX_STREAMS {
            return Ok(None);
        }
        let unused = self.by_id.iter().filter(|(_, stream)| stream.owner.is_some() && stream.users == 0);
        let candidates = unused.filter(|(_, stream)| own < MAX_OF_ONE || stream.owner == Some(owner));
        let mut candidates: Vec<(u64, StreamId)> =
            candidates.map(|(id, stream)| (stream.used, *id)).collect();
        candidates.sort_unstable();
        let oldest = candidates.into_iter().find(|(_, id)| !waits(*id));
        oldest.map(|(_, id)| Some(id)).ok_or(TooManyStreams)
    }
}

/// How far streams are in one lane.
#[derive(Debug, Default)]
pub(super) struct Marks {
    streams: FxHashMap<StreamId, Progress>,
    /// Those whose marks have moved since the last delivery.
    moved: Vec<StreamId>,
    /// Records of the batch that are numbered.
    pub numbered: u32,
}

#[derive(Debug)]
struct Progress {
    /// What has come.
    mark: Mark,
    /// Of that, what waits in the order window.
    held: BTreeSet<u64>,
    /// Of that, what waits for the decision about its trace: ascending.
    waiting: VecDeque<u64>,
    /// What was there of an earlier life and is not above the mark any more, while something below it waits.
    passed: Vec<(u64, u64)>,
    /// Up to here all was handed over.
    settled: u64,
    /// Not all that has come was handed over.
    is_moved: bool,
}

impl Marks {
    /// Whether a record has come. The first time a stream is asked for, the log knows what has.
    pub(super) fn covers(&mut self, number: Numbered, name: &Arc<[u8]>, log: Option<&SourceLog>) -> bool {
        self.progress(number.stream, name, log).mark.covers(number.number)
    }

    /// Up to where all has come; 0 if nothing has.
    pub(super) fn reached(&mut self, stream: StreamId, name: &Arc<[u8]>, log: Option<&SourceLog>) -> u64 {
        self.progress(stream, name, log).mark.number
    }

    /// All up to this number has come, or is not for this lane.
    #[inline]
    pub(super) fn raise(&mut self, number: Numbered) {
        let Some(progress) = self.streams.get_mut(&number.stream) else { return };
        if progress.advance(number.number) && !progress.is_moved {
            progress.is_moved = true;
            self.moved.push(number.stream);
        }
    }

    /// A record waits for its turn.
    pub(super) fn hold(&mut self, number: Numbered) {
        self.raise(number);
        if let Some(progress) = self.streams.get_mut(&number.stream) {
            progress.held.insert(number.number);
        }
    }

    /// It has left.
    pub(super) fn release(&mut self, number: Numbered) {
        if let Some(progress) = self.streams.get_mut(&number.stream)
            && progress.held.remove(&number.number)
            && !progress.is_moved
        {
            progress.is_moved = true;
            self.moved.push(number.stream);
        }
    }

    /// A record waits for the decision about its trace.
    pub(super) fn wait(&mut self, number: Numbered) {
        // First that it waits: then what follows it of an earlier life is remembered apart.
        if let Some(progress) = self.streams.get_mut(&number.stream) {
            debug_assert!(progress.waiting.back().is_none_or(|last| *last < number.number));
            progress.waiting.push_back(number.number);
        }
        self.raise(number);
    }

    /// It has left, the first of those that waited.
    pub(super) fn leave(&mut self, number: Numbered) {
        let Some(progress) = self.streams.get_mut(&number.stream) else { return };
        // A stream that was forgotten meanwhile, and is known again, does not know of it.
        if progress.waiting.front() == Some(&number.number) {
            progress.waiting.pop_front();
            if progress.waiting.is_empty() {
                (progress.waiting, progress.passed) = (VecDeque::new(), Vec::new());
            }
            if !progress.is_moved {
                progress.is_moved = true;
                self.moved.push(number.stream);
            }
        }
    }

    pub(super) fn forget(&mut self, stream: StreamId) {
        self.streams.remove(&stream);
        self.moved.retain(|moved| *moved != stream);
    }

    /// The marks that have moved. They count as moved until [`Marks::settle`].
    pub(super) fn moved(&self) -> Vec<Mark> {
        self.moved.iter().filter_map(|stream| self.streams.get(stream)).map(Progress::mark).collect()
    }

    /// What [`Marks::moved`] gave was handed over.
    pub(super) fn settle(&mut self) {
        for stream in self.moved.drain(..) {
            if let Some(progress) = self.streams.get_mut(&stream) {
                progress.is_moved = false;
                progress.settled = progress.contiguous();
            }
        }
    }

    /// Up to where all was handed over, if that is not all that has come.
    pub(super) fn unsettled(&self, stream: StreamId) -> Option<u64> {
        let progress = self.streams.get(&stream)?;
        let waits = !progress.held.is_empty() || !progress.waiting.is_empty();
        (progress.is_moved || waits).then_some(progress.settled)
    }

    fn progress(&mut self, id: StreamId, name: &Arc<[u8]>, log: Option<&SourceLog>) -> &mut Progress {
        self.streams.entry(id).or_insert_with(|| {
            let mark = log.and_then(|log| log.mark(name)).unwrap_or_else(|| Mark {
                stream: Arc::clone(name),
                number: 0,
                above: Vec::new(),
                text: Vec::new(),
            });
            Progress::new(mark)
        })
    }
}

impl Progress {
    fn new(mark: Mark) -> Progress {
        let (held, waiting, passed) = (BTreeSet::new(), VecDeque::new(), Vec::new());
        Progress { settled: mark.number, mark, held, waiting, passed, is_moved: false }
    }

    /// Whether that is news.
    fn advance(&mut self, number: u64) -> bool {
        let Mark { number: mark, above, .. } = &mut self.mark;
        if number <= *mark {
            return false;
        }
        *mark = number;
        // What follows without a gap is there already.
        let next = |mark: u64| mark.saturating_add(1);
        let done = above.iter().take_while(|(first, last)| {
            let touches = *first <= next(*mark);
            if touches {
                *mark = (*mark).max(*last);
            }
            touches
        });
        let done = done.count();
        let done = above.drain(..done);
        if !self.waiting.is_empty() {
            self.passed.extend(done);
        }
        true
    }

    /// Up to where all has left.
    fn contiguous(&self) -> u64 {
        self.held.first().map_or(self.decided(), |first| first.saturating_sub(1).min(self.decided()))
    }

    /// Up to where nothing waits for a decision.
    fn decided(&self) -> u64 {
        self.waiting.front().map_or(self.mark.number, |first| first.saturating_sub(1).min(self.mark.number))
    }

    /// What has left.
    fn mark(&self) -> Mark {
        if self.held.is_empty() && self.waiting.is_empty() {
            return self.mark.clone();
        }
        let (end, mut above) = (self.decided(), Vec::new());
        let mut before = None;
        for held in &self.held {
            if let Some(before) = before
                && held - before > 1
            {
                above.push((before + 1, held - 1));
            }
            before = Some(*held);
        }
        if let Some(last) = before.filter(|last| *last < end) {
            above.push((last + 1, end));
        }
        above.extend(self.passed.iter().filter(|(first, _)| *first > end));
        above.extend(&self.mark.above);
        // As many records do not fit the order window.
        above.truncate(MAX_ABOVE);
        Mark { number: self.contiguous(), above, ..self.mark.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STREAM: StreamId = StreamId(1);

    fn marks() -> (Marks, Arc<[u8]>) {
        (Marks::default(), b"s"[..].into())
    }

    fn number(number: u64) -> Numbered {
        Numbered { stream: STREAM, number }
    }

    proptest! {
        /// Records are held or not and leave in any order: at each moment the mark covers what has left, and nothing else.
        #[test]
        fn a_mark_covers_what_has_left(steps in prop::collection::vec((any::<bool>(), any::<u8>()), 0..200)) {
            let (mut marks, name) = marks();
            let (mut held, mut left, mut newest) = (Vec::new(), BTreeSet::new(), 0);
            for (holds, what) in steps {
                if what % 3 > 0 || held.is_empty() {
                    newest += 1;
                    prop_assert!(!marks.covers(number(newest), &name, None));
                    marks.raise(number(newest));
                    if holds {
                        marks.hold(number(newest));
                        held.push(newest);
                    } else {
                        left.insert(newest);
                    }
                } else {
                    let out = held.swap_remove(usize::from(what) % held.len());
                    marks.release(number(out));
                    left.insert(out);
                }
                if let Some(mark) = marks.moved().pop() {
                    marks.settle();
                    for n in 1..=newest {
                        prop_assert_eq!(mark.covers(n), left.contains(&n), "{} of {:?}", n, &mark);
                    }
                    let settled = marks.unsettled(STREAM).unwrap_or(newest);
                    prop_assert!((1..=settled).all(|n| left.contains(&n)));
                    prop_assert_eq!(marks.unsettled(STREAM).is_some(), !held.is_empty());
                }
            }
        }

        /// A life ends with some of the records written; all are sent again: those that were not are new, once.
        #[test]
        fn what_is_sent_again_fills_the_gaps(written in prop::collection::btree_set(1u64..60, 0..60)) {
            let (mut marks, name) = marks();
            let mark = Mark {
                stream: Arc::clone(&name),
                number: 0,
                above: written.iter().map(|n| (*n, *n)).collect(),
                text: Vec::new(),
            };
            let progress = Progress::new(mark);
            marks.streams.insert(STREAM, progress);
            for n in 1..60 {
                prop_assert_eq!(marks.covers(number(n), &name, None), written.contains(&n));
                marks.raise(number(n));
                prop_assert!(marks.covers(number(n), &name, None));
            }
        }
    }

    proptest! {
        /// Records arrive in order, some wait and leave later. Wherever the log ends, a second life that begins anywhere
        /// before brings each record once.
        #[test]
        fn each_number_is_there_once_over_two_lives(
            holds in prop::collection::vec(any::<bool>(), 1..60),
            leaves in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
            again in any::<prop::sample::Index>(),
        ) {
            let ((mut marks, name), mut written, mut held) = (marks(), Vec::new(), Vec::new());
            let mut leaves = leaves.iter();
            let of = |index: usize| number(3 * index as u64 + 1);
            for (index, hold) in holds.iter().enumerate() {
                prop_assert!(!marks.covers(of(index), &name, None));
                if *hold {
                    marks.hold(of(index));
                    held.push(of(index));
                    if let Some(leave) = leaves.next() {
                        let gone = held.swap_remove(leave.index(held.len()));
                        marks.release(gone);
                        written.push(gone);
                    }
                } else {
                    marks.raise(of(index));
                    written.push(of(index));
                }
            }
            let mark = marks.moved().pop().expect("it has moved");
            let progress = Progress::new(mark);
            let mut next = Marks { streams: [(STREAM, progress)].into_iter().collect(), ..Marks::default() };
            for index in again.index(holds.len())..holds.len() {
                let was_there = written.contains(&of(index));
                prop_assert_eq!(next.covers(of(index), &name, None), was_there, "{:?}", of(index));
                next.raise(of(index));
                prop_assert!(next.covers(of(index), &name, None));
            }
        }
    }

    proptest! {
        /// Records wait for the decisions about their traces and leave in order, others are dropped at once; some are there of a life
        /// before. The mark covers nothing that waits, and all of the life before.
        #[test]
        fn what_waits_is_not_covered(
            written in prop::collection::btree_set(1u64..60, 0..30),
            steps in prop::collection::vec(0..3u8, 0..150),
        ) {
            let (mut marks, name) = marks();
            let above = written.iter().map(|n| (*n, *n)).collect();
            let mark = Mark { stream: Arc::clone(&name), number: 0, above, text: Vec::new() };
            marks.streams.insert(STREAM, Progress::new(mark));
            let (mut waiting, mut newest) = (VecDeque::new(), 0);
            for step in steps {
                if step < 2 {
                    newest += 1;
                    let was_there = written.contains(&newest);
                    prop_assert_eq!(marks.covers(number(newest), &name, None), was_there);
                    match step {
                        _ if was_there => {}
                        0 => marks.raise(number(newest)),
                        _ => {
                            marks.wait(number(newest));
                            waiting.push_back(newest);
                        }
                    }
                } else if let Some(first) = waiting.pop_front() {
                    marks.leave(number(first));
                }
                let Some(mark) = marks.moved().pop() else { continue };
                marks.settle();
                for n in 1..=newest {
                    prop_assert!(!(mark.covers(n) && waiting.contains(&n)), "{} of {:?}", n, &mark);
                    prop_assert!(mark.covers(n) || !written.contains(&n), "{} of {:?}", n, &mark);
                }
                let settled = marks.unsettled(STREAM).unwrap_or(newest);
                prop_assert!(waiting.front().is_none_or(|first| settled < *first));
                prop_assert_eq!(marks.unsettled(STREAM).is_some(), !waiting.is_empty());
            }
        }
    }

    #[test]
    fn one_user_cannot_have_the_streams_of_others_forgotten() {
        let mut streams = Streams::default();
        let kept = streams.open(b"kept", Taker::User(1), |_| false, |_| ()).expect("the first");
        streams.close(kept);
        for n in 0..5_000u32 {
            let id = streams.open(&n.to_be_bytes(), Taker::User(2), |_| false, |gone| assert_ne!(gone, kept));
            streams.close(id.expect("others are not used"));
        }
        assert_eq!((streams.by_id.len(), streams.by_name.len()), (1 + MAX_OF_ONE, 1 + MAX_OF_ONE));
        assert_eq!(streams.open(b"kept", Taker::User(1), |_| false, |_| ()), Ok(kept));
        for n in 0..MAX_OF_ONE as u32 {
            streams
                .open(&n.to_be_bytes(), Taker::User(3), |_| false, |_| ())
                .expect("as many as are allowed");
        }
        assert_eq!(streams.open(b"more", Taker::User(3), |_| false, |_| ()), Err(TooManyStreams));
    }

    #[test]
    fn what_waits_is_not_forgotten() {
        let mut streams = Streams::default();
        let ids: Vec<StreamId> = (0..MAX_OF_ONE as u32)
            .map(|n| streams.open(&n.to_be_bytes(), Taker::User(1), |_| false, |_| ()).expect("room"))
            .collect();
        ids.iter().for_each(|id| streams.close(*id));
        let all = streams.open(b"more", Taker::User(1), |_| true, |_| panic!("all of them wait"));
        assert_eq!(all, Err(TooManyStreams));
        let mut gone = None;
        streams.open(b"more", Taker::User(1), |id| id == ids[0], |id| gone = Some(id)).expect("one goes");
        assert_eq!(gone, Some(ids[1]), "the oldest that does not wait");
    }

    #[test]
    fn numbers_at_the_end_of_all_numbers() {
        let (mut marks, name) = marks();
        assert!(!marks.covers(number(u64::MAX), &name, None));
        marks.raise(number(u64::MAX));
        marks.hold(number(u64::MAX));
        assert_eq!(marks.moved().pop().map(|mark| mark.number), Some(u64::MAX - 1));
        marks.release(number(u64::MAX));
        assert!(marks.covers(number(1), &name, None));
    }
}
