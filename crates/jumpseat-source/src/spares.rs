//! Memory of batches on its way back from the core to the thread that fills them, that of batches which were copied or of what an event
//! log had to drop for them: what was just written is still in the cache, and new memory costs a page fault for each 4 KiB. Where there
//! are many sources, batches are small and many, and to take their memory from the allocator and give it back on another thread
//! is nearly a tenth of all.
//!
//! **Bounds:** [`LARGE`] large batches a thread, [`MIDDLE`] of up to 32 KiB and [`SMALL`] of up to 4 KiB, and none once there is nothing more
//! to hand over.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use pcp_event::batch::Batch;

/// Most large batches that wait.
const LARGE: usize = 4;
/// Most that are neither.
const MIDDLE: usize = 128;
/// Most small ones.
const SMALL: usize = 256;
/// Batches of this size are large.
const MIN_LARGE: usize = 32 * 1024;
/// Those up to this one are small.
const MAX_SMALL: usize = 4 * 1024;
/// What the lengths of others are multiples of.
const STEP: usize = 1024;

/// Where the core gives batches back.
#[derive(Clone, Debug)]
pub struct Spares(Arc<Waiting>);

/// What waits to be used again.
#[derive(Debug)]
struct Waiting {
    large: (Sender<Batch>, Receiver<Batch>),
    // These take memory as they fill: most threads have few sources.
    middle: (Sender<Batch>, Receiver<Batch>),
    small: (Sender<Batch>, Receiver<Batch>),
}

impl Waiting {
    /// Where batches of so many bytes wait, and how many of them at most.
    fn of(&self, bytes: usize) -> (&(Sender<Batch>, Receiver<Batch>), usize) {
        if bytes <= MAX_SMALL {
            (&self.small, SMALL)
        } else if bytes < MIN_LARGE {
            (&self.middle, MIDDLE)
        } else {
            (&self.large, LARGE)
        }
    }
}

impl Spares {
    /// Gives back what is left of a batch. Never waits.
    pub fn give_back(&self, batch: Batch) {
        let ((back, _), most) = self.0.of(batch.capacity());
        // If there are enough the memory is freed.
        if batch.capacity() > 0 && back.len() < most {
            _ = back.try_send(batch);
        }
    }
}

/// The thread's end.
#[derive(Debug)]
pub(crate) struct Shelf(Spares);

impl Shelf {
    pub(crate) fn new() -> Shelf {
        Shelf(Spares(Arc::new(Waiting { large: bounded(LARGE), middle: unbounded(), small: unbounded() })))
    }

    pub(crate) fn spares(&self) -> Spares {
        self.0.clone()
    }

    /// An empty batch for so many bytes.
    pub(crate) fn batch(&self, bytes: usize) -> Batch {
        // A source's batches are about as long as each other: this way most of those that come back fit.
        let bytes = if bytes <= MAX_SMALL { bytes } else { bytes.next_multiple_of(STEP) };
        let ((_, returned), _) = self.0.0.of(bytes);
        // One that would have to grow is not worth it.
        let fits = returned.try_iter().find(|batch| batch.capacity() >= bytes);
        fits.unwrap_or_else(|| Batch::with_capacity(bytes))
    }

    /// Frees what waits.
    pub(crate) fn clear(&self) {
        let Waiting { large, middle, small } = &*self.0.0;
        [large, middle, small].into_iter().flat_map(|(_, returned)| returned.try_iter()).for_each(drop);
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
        let waiting =
            || [&shelf.0.0.large, &shelf.0.0.middle, &shelf.0.0.small].map(|(_, returned)| returned.len());
        assert_eq!(waiting(), [LARGE, MIDDLE, SMALL]);
        assert_eq!(shelf.batch(200).capacity(), 2000, "a small one for a small one");
        assert_eq!(shelf.batch(MIN_LARGE).capacity(), 2 * MIN_LARGE);
        assert_eq!(shelf.batch(MAX_SMALL + 1).capacity(), 2 * MAX_SMALL, "and one between for one between");
        assert_eq!(waiting(), [LARGE - 1, MIDDLE - 1, SMALL - 1]);
        assert_eq!(shelf.batch(3 * MIN_LARGE).capacity(), 3 * MIN_LARGE, "none has room for so much");
        shelf.clear();
        assert_eq!(waiting(), [0, 0, 0]);
        assert_eq!(shelf.batch(MIN_LARGE).capacity(), MIN_LARGE);
    }
}
