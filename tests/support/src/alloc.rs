//! An allocator that counts what each thread allocates. A test binary declares it:
//!
//! ```ignore
//! #[global_allocator]
//! static ALLOCATOR: support::alloc::Counting = support::alloc::Counting;
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The allocator.
pub struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

/// How many allocations this thread has made, those that make one larger or smaller among them.
pub fn allocations() -> u64 {
    ALLOCATIONS.get()
}

/// Bytes this thread has taken and not given back.
pub fn held() -> isize {
    HELD.get()
}

/// The most bytes that this thread has taken at a time while `work` ran, beyond what it held before.
pub fn most_taken(work: impl FnOnce()) -> usize {
    let before = HELD.get();
    MOST.set(before);
    work();
    usize::try_from(MOST.get() - before).unwrap_or(0)
}

fn count(allocations: u64, taken: usize, given_back: usize) {
    ALLOCATIONS.set(ALLOCATIONS.get() + allocations);
    let held = HELD.get() + taken as isize - given_back as isize;
    HELD.set(held);
    MOST.set(MOST.get().max(held));
}

// SAFETY: hands every call on to the system's allocator unchanged; the counter does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size(), 0);
        // SAFETY: the caller keeps GlobalAlloc's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, size, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(0, 0, layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}
