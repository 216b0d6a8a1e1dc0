//! Archives: PCP's own, next to libpcp; what pmlogger records of the agent; and such as mean harm.

mod archive_support;
mod bounded;
mod context;
mod glance;
mod hostile;
mod interpolate;
mod logged;
mod oracle;
mod positions;
#[allow(dead_code, reason = "each area uses a part of it")]
#[path = "../seat/mod.rs"]
mod seat;
mod to_the_end;

/// Counts, for the tests of what is allocated.
#[global_allocator]
static ALLOCATOR: support::alloc::Counting = support::alloc::Counting;
