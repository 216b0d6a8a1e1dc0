//! What is taken out of the rings at a time.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use jumpseat_wire::ring::chunk::Part;
use jumpseat_wire::ring::merge::{MAX_MISSED, Merge, Run, told};
use jumpseat_wire::ring::message::{HEAD, whole};
use jumpseat_wire::ring::{MAX_CHUNK, MAX_MESSAGE, MAX_SLOTS};

use crate::ring::Ring;
use crate::shared::Shared;

/// Bytes taken at a time, of all rings together, unless there are very many.
const TAKE: u64 = 1 << 20;
/// Least and most bytes of one ring.
const OF_RING: (u64, u64) = (64 << 10, 256 << 10);
// What is taken of a ring holds a whole message at least, and a chunk is none that an agent refuses.
const _: () = assert!(OF_RING.0 as usize >= HEAD + MAX_MESSAGE + 8);
const _: () = assert!(OF_RING.0 * MAX_SLOTS <= MAX_CHUNK && TAKE <= MAX_CHUNK);

/// Messages of all rings of one kind: in the file, or not.
pub(crate) struct Chunk {
    /// Whether the agent can read them by itself.
    pub in_file: bool,
    pub parts: Vec<Part>,
    /// Whose parts they are, and where their messages are.
    of: Vec<(Option<Arc<Ring>>, Range<usize>)>,
    bytes: Vec<u8>,
}

impl Chunk {
    pub(crate) fn new(in_file: bool) -> Chunk {
        Chunk { in_file, parts: Vec::new(), of: Vec::new(), bytes: Vec::new() }
    }

    /// Takes what there is now. Whether that is all of it.
    pub(crate) fn fill(&mut self, rings: &[Arc<Ring>], shared: &Shared) -> bool {
        self.parts.clear();
        self.of.clear();
        self.bytes.clear();
        let mine: Vec<_> = rings.iter().filter(|ring| (ring.slot != 0) == self.in_file).collect();
        let most = (TAKE / (mine.len() as u64).max(1)).clamp(OF_RING.0, OF_RING.1);
        let mut all = true;
        for ring in mine {
            all &= self.add(ring, most);
        }
        if shared.file().is_some() == self.in_file {
            let [lost, told] = shared.lost();
            let (lost, told) = (lost.load(Ordering::Acquire), told.load(Ordering::Relaxed));
            if lost != told {
                let lost = lost.min(told + MAX_MISSED);
                self.parts.push(Part { told, lost, ..Part::default() });
                self.of.push((None, 0..0));
            }
        }
        all
    }

    fn add(&mut self, ring: &Arc<Ring>, most: u64) -> bool {
        // Before the ring is looked into: messages that were lost later come after what is in it.
        let lost = ring.lost();
        let ((from, to), before, start) = (ring.filled(), ring.told(), self.bytes.len());
        ring.copy(from, to.min(from + most), &mut self.bytes);
        let (bytes, _) = whole(&self.bytes[start..]);
        self.bytes.truncate(start + bytes);
        let after = told(&self.bytes[start..], before);
        let all = from + bytes as u64 == to;
        let lost = if all { after.max(lost.min(after + MAX_MISSED)) } else { after };
        if bytes > 0 || lost != before {
            let to = from + bytes as u64;
            self.parts.push(Part { slot: ring.slot, from, to, told: before, lost });
            self.of.push((Some(Arc::clone(ring)), start..start + bytes));
        }
        all
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Bytes of messages, about as many as their frames take.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// What is to be sent, in order.
    pub(crate) fn items(&self) -> Merge<'_> {
        let run = |(part, (_, bytes)): (&Part, &(_, Range<usize>))| Run {
            messages: &self.bytes[bytes.clone()],
            told: part.told,
            lost: part.lost,
        };
        Merge::new(self.parts.iter().zip(&self.of).map(run).collect())
    }

    /// It was sent, or counted as lost: the rings have room again.
    pub(crate) fn release(&self, shared: &Shared) {
        for (part, (ring, _)) in self.parts.iter().zip(&self.of) {
            match ring {
                Some(ring) => ring.release(part.to, part.lost),
                None => shared.lost()[1].store(part.lost, Ordering::Release),
            }
        }
    }
}
