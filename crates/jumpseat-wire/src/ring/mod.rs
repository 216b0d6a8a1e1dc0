//! Rings of messages in a file that a program shares with the agent, so that the last events of a program that was
//! killed are not lost (`docs/ingest-protocol.md`, "Rings").
//!
//! ```text
//! file := head (64 KiB) | sites (256 KiB) | slot*
//! head := magic | slots | bytes of a ring | left | bytes of sites | lost | told | sent told | id (2) | first | next
//!         u64 each; at 4096 a table of 16 chunks
//! slot := head (64 KiB): 0 written | 8 lost | 64 taken | 72 told | 80 sent | 88 sent told | 128 thread; ring
//! ```
//!
//! Numbers are in the machine's own order: both ends are on one machine. A slot is used by one thread at a time; its
//! positions count bytes, are multiples of 8, and never begin anew. `lost` counts messages that did not fit. What is before
//! `sent` was put into chunks, and so many lost ones with it; what is before `taken` was acknowledged, and its room is free.
//!
//! **Invariant:** what is below `written` is whole: it is stored after the message. So a kill at any instruction leaves
//! no half message.
//!
//! What a sender takes out of its rings at a time is a *chunk*, which stands in the table ([`chunk`]) before it is sent, and until
//! it is acknowledged. Both ends bring a chunk's messages into the same order with the same code ([`merge`]), each of which is
//! one RECORD or MISSED frame and has a number, or as many as it tells of. So whoever sends a chunk again, the program on
//! another connection or the agent in its place, gives the same number to the same message, and the agent's log knows
//! which of them it has.
//!
//! Read: [`message`] (what threads write), [`site`] (what messages refer to), [`thread`] (who they are), [`merge`], [`chunk`], [`transcribe`].

pub mod chunk;
pub mod merge;
pub mod message;
pub mod site;
pub mod thread;
pub mod transcribe;

/// How the file begins, version included.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"jsrings\x04");
/// What is mapped by itself begins at a multiple of this, which is one of the page size of any machine.
pub const AREA: u64 = 64 << 10;
/// Most bytes of sites.
pub const SITES: u64 = 256 << 10;
/// Most slots of a file.
pub const MAX_SLOTS: u64 = 64;
/// Most bytes of a file.
pub const MAX_FILE: u64 = 1 << 30;
/// Longest message: the agent takes records of 64 KiB, unless configured otherwise.
pub const MAX_MESSAGE: usize = 60 << 10;
/// Most chunks that are not acknowledged.
pub const CHUNKS: u64 = 16;
/// Where in the head their table is.
pub const TABLE: u64 = 4096;
/// Most bytes of a chunk.
pub const MAX_CHUNK: u64 = 8 << 20;

/// Words of the file's head.
pub mod head {
    /// [`super::MAGIC`].
    pub const MAGIC: usize = 0;
    /// How many slots.
    pub const SLOTS: usize = 1;
    /// Bytes of each ring.
    pub const RING: usize = 2;
    /// The last connection that the program has left by itself: what is in the rings then is its own affair.
    pub const LEFT: usize = 3;
    /// Bytes of sites.
    pub const SITES: usize = 4;
    /// Messages lost outside of any ring.
    pub const LOST: usize = 5;
    /// How many of them were told, and that acknowledged.
    pub const TOLD: usize = 6;
    /// How many of them are in chunks.
    pub const SENT_TOLD: usize = 7;
    /// Two words, by chance: who the sender is ([`super::chunk::sender`]).
    pub const ID: usize = 8;
    /// How many chunks were acknowledged: the number of the first in the table.
    pub const FIRST: usize = 10;
    /// How many chunks there were.
    pub const NEXT: usize = 11;
    /// How many words there are.
    pub const WORDS: usize = 12;
}

/// Words of a slot's head. Those of the thread and those of the sender are in cache lines of their own.
pub mod slot {
    /// The thread's: the end of what is written.
    pub const WRITTEN: usize = 0;
    /// The thread's: messages that did not fit.
    pub const LOST: usize = 1;
    /// The sender's: the end of what was acknowledged, before which there is room again.
    pub const TAKEN: usize = 8;
    /// The sender's: how many lost messages were told, and that acknowledged.
    pub const TOLD: usize = 9;
    /// The sender's: the end of what is in chunks.
    pub const SENT: usize = 10;
    /// The sender's: how many lost messages are in chunks.
    pub const SENT_TOLD: usize = 11;
    /// The thread's: who it is ([`super::thread`]).
    pub const THREAD: usize = 16;
    /// How many words there are.
    pub const WORDS: usize = THREAD + super::thread::WORDS;
}

/// How large a file's parts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// How many slots.
    pub slots: u64,
    /// Bytes of each ring: a power of two, 4096 at least.
    pub ring: u64,
}

impl Geometry {
    /// Rings of at least so many bytes, and as many of them as may be. `None`: they are too large.
    pub fn new(ring: u64) -> Option<Geometry> {
        let ring = ring.checked_next_power_of_two()?.max(4096);
        let one = Geometry { slots: 1, ring };
        let slots = (MAX_FILE.checked_sub(AREA + SITES)? / one.stride()?).min(MAX_SLOTS);
        (slots > 0).then_some(Geometry { slots, ring })
    }

    /// What a head says, if that can be.
    pub fn check(slots: u64, ring: u64) -> Option<Geometry> {
        let geometry = Geometry { slots, ring };
        let sound = (1..=MAX_SLOTS).contains(&slots) && ring >= 4096 && ring.is_power_of_two();
        (sound && geometry.file()? <= MAX_FILE).then_some(geometry)
    }

    /// Bytes from one slot to the next.
    fn stride(&self) -> Option<u64> {
        self.ring.checked_next_multiple_of(AREA)?.checked_add(AREA)
    }

    /// Bytes of the file.
    pub fn file(&self) -> Option<u64> {
        self.stride()?.checked_mul(self.slots)?.checked_add(AREA + SITES)
    }

    /// Where a slot begins; the first is 1, as 0 stands for none.
    pub fn slot(&self, number: u64) -> u64 {
        AREA + SITES + self.stride().unwrap_or_default() * number.saturating_sub(1)
    }
}

const _: () = assert!(TABLE as usize + CHUNKS as usize * chunk::ENTRY * 8 <= AREA as usize);
const _: () = assert!(head::WORDS * 8 <= TABLE as usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_lie_behind_each_other_within_the_file() {
        for bytes in [1, 4096, 5000, 1 << 20, 8 << 20, 512 << 20] {
            let geometry = Geometry::new(bytes).unwrap();
            assert!(geometry.ring >= bytes);
            assert_eq!(Geometry::check(geometry.slots, geometry.ring), Some(geometry));
            let end = geometry.slot(geometry.slots) + AREA + geometry.ring;
            assert!(end <= geometry.file().unwrap(), "{geometry:?}");
        }
        assert_eq!(Geometry::new(u64::MAX), None);
        assert_eq!(Geometry::new(1 << 30), None);
        for (slots, ring) in [(0, 4096), (65, 4096), (1, 4095), (1, 0), (1, 1 << 63), (u64::MAX, 1 << 62)] {
            assert_eq!(Geometry::check(slots, ring), None, "{slots} of {ring}");
        }
    }
}
