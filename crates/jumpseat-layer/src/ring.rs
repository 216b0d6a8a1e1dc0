//! A ring: one thread writes messages, the sender takes them (`jumpseat_wire::ring` has its layout).
//!
//! **Cost:** a message is a store for each of its words, and one for its end; the sender's position is looked at only
//! when there seems to be no room.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use jumpseat_wire::ring::thread::Thread;
use jumpseat_wire::ring::{AREA, slot};

use crate::memory::Words;

/// Words before the ring in a program's own memory.
const PRIVATE_HEAD: usize = 32;
const _: () = assert!(PRIVATE_HEAD >= slot::WORDS);

/// A ring of a thread, shared by it and the sender.
pub(crate) struct Ring {
    /// Its slot in the file; 0: it is in none.
    pub slot: u64,
    words: Words,
    /// Where in the words the ring begins.
    start: usize,
    /// The thread has ended.
    gone: AtomicBool,
}

impl Ring {
    /// Over the memory of a slot.
    pub(crate) fn in_file(slot: u64, words: Words) -> Ring {
        Ring { slot, words, start: AREA as usize / 8, gone: AtomicBool::new(false) }
    }

    /// In memory that ends with the program: `bytes` is a power of two.
    pub(crate) fn private(bytes: usize) -> Ring {
        let words = Words::private(PRIVATE_HEAD + bytes / 8);
        Ring { slot: 0, words, start: PRIVATE_HEAD, gone: AtomicBool::new(false) }
    }

    fn ring(&self) -> &[AtomicU64] {
        &self.words[self.start..]
    }

    /// Writes a message, if there is room; `taken` is what the thread remembers of the sender's position.
    #[inline]
    pub(crate) fn push(&self, message: &[u8], taken: &mut u64) -> bool {
        let words = self.ring();
        let written = self.words[slot::WRITTEN].load(Ordering::Relaxed);
        let (bytes, end) = (words.len() as u64 * 8, written + message.len() as u64);
        if end - *taken > bytes {
            *taken = self.words[slot::TAKEN].load(Ordering::Acquire);
            if end - *taken > bytes {
                return false;
            }
        }
        // There is a power of two of them.
        let at = (written / 8) as usize & (words.len() - 1);
        let (front, back) = message.split_at(message.len().min((words.len() - at) * 8));
        put(&words[at..], front);
        put(words, back);
        self.words[slot::WRITTEN].store(end, Ordering::Release);
        true
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

    /// Appends what is between two positions.
    pub(crate) fn copy(&self, from: u64, to: u64, out: &mut Vec<u8>) {
        let words = self.ring();
        let at = (from / 8) as usize & (words.len() - 1);
        let each = words[at..].iter().chain(&words[..at]).take(((to - from) / 8) as usize);
        out.reserve((to - from) as usize);
        each.for_each(|word| out.extend_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes()));
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

#[inline]
fn put(words: &[AtomicU64], bytes: &[u8]) {
    for (word, bytes) in words.iter().zip(bytes.as_chunks().0) {
        word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_around_the_end_and_what_does_not_fit_is_refused() {
        let (ring, mut taken) = (Ring::private(4096), 0);
        let message: Vec<u8> = (0..=255).cycle().take(1200).collect();
        for round in 0..100 {
            assert!((0..3).all(|_| ring.push(&message, &mut taken)), "{round}");
            assert!(!ring.push(&message, &mut taken));
            assert_eq!(ring.lose(), round + 1);
            let ((from, to), mut out) = (ring.unsent(), Vec::new());
            ring.copy(from, to, &mut out);
            assert_eq!(out, [&message[..], &message[..], &message[..]].concat());
            assert!(!ring.is_sent() && !ring.is_empty());
            ring.set_sent(to, ring.lost());
            // Until it is acknowledged there is no room.
            assert!(ring.is_sent() && !ring.is_empty() && !ring.push(&message, &mut taken));
            ring.release(to, ring.lost());
            assert!(ring.is_empty());
        }
    }
}
