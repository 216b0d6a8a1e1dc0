//! The agent's metric tables, one file for each branch of the name space.

mod client;
mod control;
mod event;
mod follow;
mod kernel;
mod own;
mod source;
mod source_control;
mod span;

use super::State;
use pcp_pmda::Metric;

/// Serial of the sources' instance domain.
pub const SOURCES: u32 = jumpseat_source::registry::SOURCE_SERIAL;
/// Serial of the instance domain of (source, event type) pairs.
pub const TYPES: u32 = jumpseat_source::registry::TYPE_SERIAL;
/// Serial of the instance domain of client streams.
pub const STREAMS: u32 = 3;
/// Serial of the spans' instance domain.
pub const SPANS: u32 = jumpseat_source::registry::SPAN_SERIAL;
/// Serial of the instance domain of spans and buckets.
pub const BUCKETS: u32 = 7;
/// Serial of the instance domain of (source, reason) pairs.
pub const REASONS: u32 = 8;

/// All metrics with a fixed name.
pub fn all(access: &pcp_pmda::Access) -> Vec<Metric<State>> {
    let mut metrics = event::metrics();
    metrics.extend(source::metrics());
    metrics.extend(kernel::metrics());
    metrics.extend(client::metrics());
    metrics.extend(control::metrics(access));
    metrics.extend(source_control::metrics(access));
    metrics.extend(span::metrics());
    metrics.extend(own::metrics());
    metrics.extend(follow::metrics());
    metrics
}
