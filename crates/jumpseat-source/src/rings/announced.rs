//! What the frames of a connection say of the sender's rings.

use jumpseat_wire::ring::MAX_SLOTS;
use jumpseat_wire::ring::chunk::{Part, read_chunk};

/// What was announced on a connection, and what has come of it.
#[derive(Debug, Default)]
pub(crate) struct Announced {
    /// Of each slot that was in a chunk before the current one: what has arrived, and the losses that were told.
    pub done: Vec<Option<(u64, u64)>>,
    /// The current chunk.
    pub chunk: Vec<Part>,
    /// How many items of it have arrived: each is a frame RECORD or MISSED, whether it was any good or not.
    pub items: u64,
    /// A chunk was announced in a way that nobody understands.
    pub is_forfeit: bool,
}

impl Announced {
    /// The next chunk begins: so the one before has arrived as a whole.
    pub(crate) fn chunk(&mut self, payload: &[u8]) -> Option<()> {
        let (skipped, parts) = read_chunk(payload)?;
        self.done.resize(MAX_SLOTS as usize + 1, None);
        for part in std::mem::replace(&mut self.chunk, parts) {
            if let Some(done) = self.done.get_mut(part.slot as usize) {
                *done = Some((part.to, part.lost));
            }
        }
        self.items = skipped;
        Some(())
    }

    /// Up to where a slot's messages were in chunks before the current one.
    pub(crate) fn done(&self, slot: u64) -> Option<(u64, u64)> {
        self.done.get(slot as usize).copied().flatten()
    }
}
