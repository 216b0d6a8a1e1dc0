//! Memory of batches on its way back from the core to the thread that fills them, that of batches which were copied or of what an event
//! log had to drop for them: what was just written is still in the cache, and new memory costs a page fault for each 4 KiB. Where there
//! are many sources, batches are small and many, and to take their memory from the allocator and give it back on another thread
//! is nearly a tenth of all.
//!
//! **Bounds:** [`LARGE`] large batches a thread and [`SMALL`] small ones of 4 KiB at most, and none once there is nothing more to
//! hand over.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use pcp_event::batch::Batch;

/// Most large batches that wait.
const LARGE: usize = 4;
/// Most small ones.
const SMALL: usize = 256;
/// Batches of this size are large.
const MIN_LARGE: usize = 32 * 1024;
/// Those up to this one are small. What is between holds so many records that new memory is next to nothing for each, and is not so
/// large that it is taken from the system anew.
const MAX_SMALL: usize = 4 * 1024;

/// Where the core gives batches back.
#[derive(Clone, Debug)]
pub struct Spares(Arc<Waiting>);

/// What waits to be used again.
#[derive(Debug)]
struct Waiting {
    large: (Sender<Batch>, Receiver<Batch>),
    /// Takes memory as it fills: most threads have few sources.
    small: (Sender<Batch>, Receiver<Batch>),
}

impl Spares {
    /// Gives back what is left of a batch. Never waits.
    pub fn give_back(&self, batch: Batch) {
        // If there are enough the memory is freed.
        match batch.capacity() {
            MIN_LARGE.. => _ = self.0.large.0.try_send(batch),
            1..=MAX_SMALL if self.0.small.0.len() < SMALL => _ = self.0.small.0.try_send(batch),
            _ => {}
        }
    }
}

/// The thread's end.
#[derive(Debug)]
pub(crate) struct Shelf(Spares);

impl Shelf {
    pub(crate) fn new() -> Shelf {
        Shelf(Spares(Arc::new(Waiting { large: bounded(LARGE), small: unbounded() })))
    }

    pub(crate) fn spares(&self) -> Spares {
        self.0.clone()
    }

    /// An empty batch for so many bytes.
    pub(crate) fn batch(&self, bytes: usize) -> Batch {
        let Waiting { large, small } = &*self.0.0;
        let returned = match bytes {
            MIN_LARGE.. => &large.1,
            ..=MAX_SMALL => &small.1,
            _ => return Batch::with_capacity(bytes),
        };
        // One that would have to grow is not worth it.
        let fits = returned.try_iter().find(|batch| batch.capacity() >= bytes);
        fits.unwrap_or_else(|| Batch::with_capacity(bytes))
    }

    /// Frees what waits.
    pub(crate) fn clear(&self) {
        let Waiting { large, small } = &*self.0.0;
        large.1.try_iter().chain(small.1.try_iter()).for_each(drop);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_come_back_as_far_as_there_is_room() {
        let shelf = Shelf::new();
        let spares = shelf.spares();
        for _ in 0..2 * SMALL {
            spares.give_back(Batch::with_capacity(2000));
            spares.give_back(Batch::with_capacity(2 * MIN_LARGE));
            spares.give_back(Batch::with_capacity(2 * MAX_SMALL));
            spares.give_back(Batch::default());
        }
        let waiting = || (shelf.0.0.large.1.len(), shelf.0.0.small.1.len());
        assert_eq!(waiting(), (LARGE, SMALL));
        assert_eq!(shelf.batch(200).capacity(), 2000, "a small one for a small one");
        assert_eq!(shelf.batch(MIN_LARGE).capacity(), 2 * MIN_LARGE);
        assert_eq!(shelf.batch(2 * MAX_SMALL).capacity(), 2 * MAX_SMALL, "what is between is new");
        assert_eq!(waiting(), (LARGE - 1, SMALL - 1));
        assert_eq!(shelf.batch(3 * MIN_LARGE).capacity(), 3 * MIN_LARGE, "none has room for so much");
        shelf.clear();
        assert_eq!(waiting(), (0, 0));
        assert_eq!(shelf.batch(MIN_LARGE).capacity(), MIN_LARGE);
    }
}
