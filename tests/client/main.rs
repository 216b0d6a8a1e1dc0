//! The client side: contexts, fetch groups and the recorder, on real collectors and next to libpcp.

mod agents;
mod client_support;
mod context;
mod faults;
mod group;
mod group_alloc;
mod group_failures;
mod group_wire;
mod host;
mod recorder;
mod roundtrip;
#[allow(dead_code, reason = "each area uses a part of it")]
#[path = "../seat/mod.rs"]
mod seat;

/// Counts, for the tests of what is allocated.
#[global_allocator]
static ALLOCATOR: support::alloc::Counting = support::alloc::Counting;
