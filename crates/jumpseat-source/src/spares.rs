//! Memory of batches on its way back from the core to the thread that fills them, that of batches which were copied or of what an event
//! log had to drop for them: what was just written is still in the cache, and new memory costs a page fault for each 4 KiB.
//!
//! **Bounds:** [`KEPT`] batches a thread, and none once there is nothing more to hand over.

use crossbeam_channel::{Receiver, Sender, bounded};

use pcp_event::batch::Batch;

/// Most batches that wait.
const KEPT: usize = 4;
/// Less is not worth the way.
const MIN_BYTES: usize = 32 * 1024;

/// Where the core gives batches back.
#[derive(Clone, Debug)]
pub struct Spares(Sender<Batch>);

impl Spares {
    /// Gives back what is left of a batch. Never waits.
    pub fn give_back(&self, batch: Batch) {
        if batch.capacity() >= MIN_BYTES {
            // If there are enough, or the thread is gone, the memory is freed.
            _ = self.0.try_send(batch);
        }
    }
}

/// The thread's end.
#[derive(Debug)]
pub(crate) struct Shelf {
    spares: Spares,
    returned: Receiver<Batch>,
}

impl Shelf {
    pub(crate) fn new() -> Shelf {
        let (give_back, returned) = bounded(KEPT);
        Shelf { spares: Spares(give_back), returned }
    }

    pub(crate) fn spares(&self) -> Spares {
        self.spares.clone()
    }

    /// An empty batch for so many bytes.
    pub(crate) fn batch(&self, bytes: usize) -> Batch {
        // One that would have to grow is not worth it.
        if bytes >= MIN_BYTES
            && let Some(batch) = self.returned.try_iter().find(|batch| batch.capacity() >= bytes)
        {
            return batch;
        }
        Batch::with_capacity(bytes)
    }

    /// Frees what waits.
    pub(crate) fn clear(&self) {
        self.returned.try_iter().for_each(drop);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_batches_come_back_as_far_as_there_is_room() {
        let shelf = Shelf::new();
        let spares = shelf.spares();
        spares.give_back(Batch::with_capacity(100));
        for _ in 0..2 * KEPT {
            spares.give_back(Batch::with_capacity(2 * MIN_BYTES));
        }
        assert_eq!(shelf.returned.len(), KEPT);
        assert_eq!(shelf.batch(200).capacity(), 200, "a small one is not worth a large one");
        assert_eq!(shelf.batch(MIN_BYTES).capacity(), 2 * MIN_BYTES);
        assert_eq!(shelf.returned.len(), KEPT - 1);
        assert_eq!(shelf.batch(3 * MIN_BYTES).capacity(), 3 * MIN_BYTES, "none has room for so much");
        shelf.clear();
        assert_eq!(shelf.batch(MIN_BYTES).capacity(), MIN_BYTES);
    }
}
