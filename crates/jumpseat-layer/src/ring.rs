//! A ring: one thread writes messages, the sender takes them (`jumpseat_wire::ring` has its layout).
//!
//! **Cost:** a message is a store for each of its words, and one for its end: it is written where it stays. The sender's position
//! is looked at only when there seems to be no room.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use jumpseat_wire::ring::message::{head, read_head};
use jumpseat_wire::ring::thread::Thread;
use jumpseat_wire::ring::{AREA, MAX_MESSAGE, slot};

use crate::memory::Memory;
use crate::message::Words;

/// Bytes of a word.
const WORD: u64 = 8;
/// Words before the ring in a program's own memory.
const PRIVATE_HEAD: usize = 32;
const _: () = assert!(PRIVATE_HEAD >= slot::WORDS);

/// A ring of a thread, shared by it and the sender.
pub(crate) struct Ring {
    /// Its slot in the file; 0: it is in none.
    pub slot: u64,
    words: Memory,
    /// Where in the words the ring begins.
    start: usize,
    /// The thread has ended.
    gone: AtomicBool,
}

impl Ring {
    /// Over the memory of a slot.
    pub(crate) fn in_file(slot: u64, words: Memory) -> Ring {
        Ring { slot, words, start: AREA as usize / 8, gone: AtomicBool::new(false) }
    }

    /// In memory that ends with the program: `bytes` is a power of two.
    pub(crate) fn private(bytes: usize) -> Ring {
        let words = Memory::private(PRIVATE_HEAD + bytes / 8);
        Ring { slot: 0, words, start: PRIVATE_HEAD, gone: AtomicBool::new(false) }
    }

    fn ring(&self) -> &[AtomicU64] {
        &self.words[self.start..]
    }

    /// A message to be written, by its thread.
    #[inline]
    pub(crate) fn draft<'a>(&'a self, place: &'a mut Place) -> Draft<'a> {
        let words = self.ring();
        Draft { ring: self, words, at: place.written, place }
    }

    /// Where its thread goes on.
    pub(crate) fn place(&self) -> Place {
        let written = self.words[slot::WRITTEN].load(Ordering::Relaxed) / WORD;
        Place { written, room: written }
    }

    /// A message did not fit, or was too long; how many there were so far. For the thread.
    pub(crate) fn lose(&self) -> u64 {
        self.words[slot::LOST].fetch_add(1, Ordering::Release) + 1
    }

    /// How many messages have not fit so far.
    pub(crate) fn lost(&self) -> u64 {
        self.words[slot::LOST].load(Ordering::Acquire)
    }

    /// How many of them are in chunks.
    pub(crate) fn sent_told(&self) -> u64 {
        self.words[slot::SENT_TOLD].load(Ordering::Relaxed)
    }

    /// What is written and in no chunk: from, to.
    pub(crate) fn unsent(&self) -> (u64, u64) {
        let written = self.words[slot::WRITTEN].load(Ordering::Acquire);
        (self.words[slot::SENT].load(Ordering::Relaxed), written)
    }

    /// Where the thread may begin to look for room: the sender's position.
    pub(crate) fn taken(&self) -> u64 {
        self.words[slot::TAKEN].load(Ordering::Acquire)
    }

    /// Whether it is nearly full.
    pub(crate) fn is_tight(&self) -> bool {
        let used = self.unsent().1 - self.taken();
        used > self.ring().len() as u64 * 6
    }

    /// Whether all of it is in chunks.
    pub(crate) fn is_sent(&self) -> bool {
        let (from, to) = self.unsent();
        from == to && self.lost() == self.sent_told()
    }

    /// Whether all of it was acknowledged.
    pub(crate) fn is_empty(&self) -> bool {
        let written = self.words[slot::WRITTEN].load(Ordering::Acquire);
        written == self.taken() && self.lost() == self.words[slot::TOLD].load(Ordering::Relaxed)
    }

    /// The messages from a position on that end at `to` at the latest. `told`: how many lost ones were told before.
    pub(crate) fn measure(&self, from: u64, to: u64, told: u64) -> Measured {
        let words = self.ring();
        let mut measured = Measured { end: from, count: 0, told };
        while measured.end < to {
            let at = (measured.end / WORD) as usize & (words.len() - 1);
            let (length, lost) = read_head(words[at].load(Ordering::Relaxed));
            let end = measured.end + length;
            if end > to || length == 0 {
                break;
            }
            let lost = lost.wrapping_sub(measured.told as u32);
            measured =
                Measured { end, count: measured.count + 1, told: measured.told.wrapping_add(lost.into()) };
        }
        measured
    }

    /// Appends what is between two positions.
    pub(crate) fn copy(&self, from: u64, to: u64, out: &mut Vec<u8>) {
        let words = self.ring();
        let at = (from / WORD) as usize & (words.len() - 1);
        let (front, back) = (&words[at..], &words[..at]);
        let count = ((to - from) / WORD) as usize;
        let first = count.min(front.len());
        out.reserve(count * WORD as usize);
        take(&front[..first], out);
        take(&back[..count - first], out);
    }

    /// What is before `sent` is in chunks, and so many lost messages.
    pub(crate) fn set_sent(&self, sent: u64, told: u64) {
        self.words[slot::SENT_TOLD].store(told, Ordering::Relaxed);
        self.words[slot::SENT].store(sent, Ordering::Release);
    }

    /// What is before `taken` was acknowledged, and so many lost messages were told: there is room again.
    pub(crate) fn release(&self, taken: u64, told: u64) {
        self.words[slot::TOLD].store(told, Ordering::Relaxed);
        self.words[slot::TAKEN].store(taken, Ordering::Release);
    }

    /// The thread ends.
    pub(crate) fn leave(&self) {
        self.gone.store(true, Ordering::Release);
    }

    /// Whether the thread has ended. What it wrote last is in the ring then.
    pub(crate) fn is_left(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// This thread has it now, and none of another's messages is left in it.
    pub(crate) fn enter(&self, thread: &Thread) {
        for (word, value) in self.words[slot::THREAD..].iter().zip(thread.words()) {
            word.store(value, Ordering::Relaxed);
        }
        self.gone.store(false, Ordering::Relaxed);
    }

    /// Whose it is.
    pub(crate) fn thread(&self) -> Thread {
        Thread::read(std::array::from_fn(|at| self.words[slot::THREAD + at].load(Ordering::Relaxed)))
    }
}

/// Appends words; several at a time, as memory is asked for before each.
fn take(words: &[AtomicU64], out: &mut Vec<u8>) {
    let bytes = |word: &AtomicU64| word.load(Ordering::Relaxed).to_ne_bytes();
    let (blocks, rest) = words.as_chunks::<8>();
    blocks.iter().for_each(|block| out.extend_from_slice(block.each_ref().map(bytes).as_flattened()));
    rest.iter().for_each(|word| out.extend_from_slice(&bytes(word)));
}

/// Whole messages of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Measured {
    /// Where they end.
    pub end: u64,
    /// How many they are.
    pub count: u64,
    /// How many lost messages are told after all of them.
    pub told: u64,
}

/// Where the thread of a ring is, in words.
#[derive(Debug)]
pub(crate) struct Place {
    /// The end of what it has written.
    written: u64,
    /// There is room up to here, as far as it knows.
    room: u64,
}

/// A message that is being written. It is in the ring once [`Draft::end`] has said so.
///
/// **Invariant:** what is stored lies behind what is written and before what the sender has not let go of: nobody reads it.
pub(crate) struct Draft<'a> {
    ring: &'a Ring,
    /// There is a power of two of them.
    words: &'a [AtomicU64],
    place: &'a mut Place,
    /// Where the next word goes, also when there is no room for it.
    at: u64,
}

impl Draft<'_> {
    /// The message ends, before which so many were lost: whether there was room for it, and it is no longer than it may be.
    #[inline]
    pub(crate) fn end(mut self, lost: u64) -> bool {
        let words = self.len();
        if self.at > self.place.room || words > MAX_MESSAGE / WORD as usize {
            return false;
        }
        self.set(0, head(words, lost));
        self.place.written = self.at;
        self.ring.words[slot::WRITTEN].store(self.at * WORD, Ordering::Release);
        true
    }

    #[inline]
    fn store(&self, at: u64, word: u64) {
        self.words[at as usize & (self.words.len() - 1)].store(word, Ordering::Relaxed);
    }

    /// Looks how much room there is, if that is not known to be too little: whether it is up to `end`.
    #[cold]
    fn look(&mut self, end: u64) -> bool {
        // Words that are left out do not come back: what was too long once stays so.
        if self.at > self.place.room {
            return false;
        }
        self.place.room = self.ring.taken() / WORD + self.words.len() as u64;
        end <= self.place.room
    }
}

impl Words for Draft<'_> {
    #[inline]
    fn put<const N: usize>(&mut self, words: [u64; N]) {
        let (at, end) = (self.at, self.at + N as u64);
        if end <= self.place.room || self.look(end) {
            words.iter().zip(at..).for_each(|(word, at)| self.store(at, *word));
        }
        self.at = end;
    }

    #[inline]
    fn len(&self) -> usize {
        (self.at - self.place.written) as usize
    }

    #[inline]
    fn set(&mut self, at: usize, word: u64) {
        let at = self.place.written + at as u64;
        if at < self.place.room {
            self.store(at, word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_around_the_end_and_what_does_not_fit_is_refused() {
        let ring = Ring::private(4096);
        let mut place = ring.place();
        // 150 words, in pieces of several sizes.
        let mut push = |round: u64| {
            let mut draft = ring.draft(&mut place);
            draft.put([0, round]);
            (2..149).for_each(|at| draft.put([at]));
            draft.put([0]);
            draft.set(149, 149);
            draft.end(round)
        };
        for round in 0..100 {
            let words = [head(150, round), round].into_iter().chain(2..150);
            let message: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
            assert!((0..3).all(|_| push(round)), "{round}");
            assert!(!push(round));
            assert_eq!(ring.lose(), round + 1);
            let ((from, to), mut out) = (ring.unsent(), Vec::new());
            ring.copy(from, to, &mut out);
            assert_eq!(out, [&message[..], &message[..], &message[..]].concat());
            let (length, all) = (message.len() as u64, Measured { end: to, count: 3, told: round });
            // The first of them tells of the loss before it.
            assert_eq!(ring.measure(from, to, round.saturating_sub(1)), all);
            assert_eq!(
                ring.measure(from, from + length, round),
                Measured { end: from + length, count: 1, ..all }
            );
            assert_eq!(ring.measure(from, from + length - 8, round), Measured { end: from, count: 0, ..all });
            assert!(!ring.is_sent() && !ring.is_empty());
            ring.set_sent(to, ring.lost());
            // Until it is acknowledged there is no room.
            assert!(ring.is_sent() && !ring.is_empty() && !push(round));
            ring.release(to, ring.lost());
            assert!(ring.is_empty());
        }
    }

    #[test]
    fn a_message_that_is_too_long_or_is_not_ended_leaves_no_trace() {
        let ring = Ring::private(1 << 20);
        let mut place = ring.place();
        let longest = MAX_MESSAGE / WORD as usize;
        ring.draft(&mut place).put([7]);
        for (words, fits) in [(longest, true), (longest + 1, false), (1 << 17 | 1, false), (longest, true)] {
            let mut draft = ring.draft(&mut place);
            (0..words).for_each(|_| draft.put([7]));
            assert_eq!(draft.end(0), fits, "{words}");
        }
        assert_eq!(ring.unsent(), (0, 2 * MAX_MESSAGE as u64));
    }
}
