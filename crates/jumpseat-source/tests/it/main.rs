//! What `jumpseat-source` promises, seen from outside.

mod binary;
mod feed;
mod follow_alloc;
mod follow_formats;
mod follow_lines;
mod hostile;
mod ingest_alloc;
mod ingest_support;
mod lines;
mod multiline;
mod otlp_alloc;
mod otlp_grpc;
mod otlp_http;
mod otlp_metrics;
mod otlp_properties;
mod otlp_records;
mod otlp_support;
mod rings;
mod scrape_alloc;
mod senders;
mod socket;

/// Counts, for the tests of what is allocated.
#[global_allocator]
static ALLOCATOR: support::alloc::Counting = support::alloc::Counting;
