//! What `jumpseat-agent` promises, seen from outside.

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../../jumpseat-source/tests/it/ingest_support.rs"]
mod ingest_support;
mod span_flood;

/// Counts, for the tests of what is allocated.
#[global_allocator]
static ALLOCATOR: support::alloc::Counting = support::alloc::Counting;
