//! What is taken out of the rings at a time, and stays in them until it is acknowledged.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use jumpseat_wire::ring::chunk::{self, MAX_READ, Part};
use jumpseat_wire::ring::merge::{MAX_MISSED, Merge, Run};
use jumpseat_wire::ring::thread::Thread;
use jumpseat_wire::ring::{MAX_CHUNK, MAX_MESSAGE, MAX_SLOTS};

use crate::ring::{Measured, Ring};
use crate::shared::Shared;

/// Bytes taken at a time, of all rings together, unless there are very many.
const TAKE: u64 = 1 << 20;
/// Least and most bytes of one ring.
const OF_RING: (u64, u64) = (64 << 10, 256 << 10);
// What is taken of a ring holds a whole message at least, and a chunk is none that an agent refuses.
const _: () = assert!(OF_RING.0 as usize >= MAX_MESSAGE);
const _: () = assert!(OF_RING.0 * MAX_SLOTS <= MAX_CHUNK && TAKE <= MAX_CHUNK);

/// Messages of all rings of one kind: in the file, or not.
pub(crate) struct Chunk {
    /// Whether the agent can read them by itself.
    in_file: bool,
    /// Its numbers, and where its messages are.
    of_rings: chunk::Chunk,
    /// Whose parts they are.
    rings: Vec<Option<Arc<Ring>>>,
    /// The agent is to read it by itself.
    pub is_handed_over: bool,
}

impl Chunk {
    /// Takes what there is now; its items have numbers from `first` on. `None`: there is nothing. And whether that is all.
    pub(crate) fn take(
        in_file: bool,
        first: u64,
        rings: &[Arc<Ring>],
        shared: &Shared,
    ) -> (Option<Chunk>, bool) {
        let of_rings = chunk::Chunk { first, ..chunk::Chunk::default() };
        let mut chunk = Chunk { in_file, of_rings, rings: Vec::new(), is_handed_over: false };
        let mine: Vec<_> = rings.iter().filter(|ring| (ring.slot != 0) == in_file).collect();
        let most = (TAKE / (mine.len() as u64).max(1)).clamp(OF_RING.0, OF_RING.1);
        let mut all = true;
        for ring in mine {
            all &= chunk.add(ring, most);
        }
        if shared.file().is_some() == in_file {
            let (lost, told) = (shared.lost().load(Ordering::Acquire), shared.sent_told());
            if lost != told {
                let lost = lost.min(told + MAX_MISSED);
                chunk.push(Part { told, lost, ..Part::default() }, lost - told, None);
            }
        }
        ((chunk.of_rings.count > 0).then_some(chunk), all)
    }

    fn add(&mut self, ring: &Arc<Ring>, most: u64) -> bool {
        // Before the ring is looked into: messages that were lost later come after what is in it.
        let lost = ring.lost();
        let ((from, to), before) = (ring.unsent(), ring.sent_told());
        let Measured { end, count, told: after } = ring.measure(from, to.min(from + most), before);
        let all = end == to;
        let lost = if all { after.max(lost.min(after + MAX_MISSED)) } else { after };
        if end > from || lost != before {
            let part = Part { slot: ring.slot, from, to: end, told: before, lost };
            self.push(part, count + (lost - before), Some(Arc::clone(ring)));
        }
        all
    }

    fn push(&mut self, part: Part, numbers: u64, ring: Option<Arc<Ring>>) {
        self.of_rings.count += numbers;
        self.of_rings.parts.push(part);
        self.rings.push(ring);
    }

    /// The number of its first item, and the one behind its last.
    pub(crate) fn numbers(&self) -> (u64, u64) {
        (self.of_rings.first, self.of_rings.end())
    }

    /// What the agent can know of it.
    pub(crate) fn entry(&self) -> chunk::Chunk {
        // What is in no file ends with the program.
        let parts = if self.in_file { self.of_rings.parts.clone() } else { Vec::new() };
        chunk::Chunk { parts, ..self.of_rings }
    }

    /// It stands in the table: nobody takes its messages again.
    pub(crate) fn is_sent(&self, shared: &Shared) {
        for (part, ring) in self.of_rings.parts.iter().zip(&self.rings) {
            match ring {
                Some(ring) => ring.set_sent(part.to, part.lost),
                None => shared.set_sent_told(part.lost),
            }
        }
    }

    /// Whether an agent that reads rings can read it.
    pub(crate) fn is_readable(&self) -> bool {
        self.in_file && self.of_rings.bytes() <= MAX_READ
    }

    /// Takes its messages out of the rings.
    pub(crate) fn read(&self, bytes: &mut Vec<u8>) {
        bytes.clear();
        for (part, ring) in self.of_rings.parts.iter().zip(&self.rings) {
            if let Some(ring) = ring {
                ring.copy(part.from, part.to, bytes);
            }
        }
    }

    /// The threads of its parts.
    pub(crate) fn threads(&self) -> Vec<Option<Thread>> {
        self.rings.iter().map(|ring| ring.as_ref().map(|ring| ring.thread())).collect()
    }

    /// What is to be sent, in order, from the bytes of its messages, and its threads.
    pub(crate) fn items<'a>(&self, mut bytes: &'a [u8], threads: &'a [Option<Thread>]) -> Merge<'a> {
        let run = |(part, thread): (&Part, &'a Option<Thread>)| {
            let (messages, rest) = bytes.split_at(((part.to - part.from) as usize).min(bytes.len()));
            bytes = rest;
            Run { messages, thread: thread.as_ref(), told: part.told, lost: part.lost }
        };
        Merge::new(self.of_rings.parts.iter().zip(threads).map(run).collect())
    }

    /// It is acknowledged: the rings have room again.
    pub(crate) fn release(&self, shared: &Shared) {
        for (part, ring) in self.of_rings.parts.iter().zip(&self.rings) {
            match ring {
                Some(ring) => ring.release(part.to, part.lost),
                None => shared.told(part.lost),
            }
        }
    }
}
