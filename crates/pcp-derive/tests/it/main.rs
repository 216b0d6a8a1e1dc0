//! What `pcp-derive` promises, seen from outside.

mod alloc;
mod context;
mod differential;
mod properties;

/// Counts, for the tests of what is allocated.
#[global_allocator]
static ALLOCATOR: support::alloc::Counting = support::alloc::Counting;
