//! Metrics: how many data points a request has. They are not taken in, and whoever sends them is told so, and how to stop it.

use super::wire::{Fields, Place};
use crate::event::Refusal;

/// What clients are told.
pub(super) const REFUSED: &str = "metrics are not taken in here, only traces and logs: set OTEL_METRICS_EXPORTER=none in the sender's environment";

/// The fields from a request down to what has data points: `ResourceMetrics`, `ScopeMetrics`, `Metric`.
const PATH: [u32; 3] = [1, 2, 2];
/// Those of a `Metric` that have data points, as field 1: gauge, sum, histogram, exponential histogram, summary.
const DATA: [u32; 5] = [5, 7, 9, 10, 11];

/// The data points of a request.
///
/// # Errors
/// It is no protobuf.
pub(super) fn count(body: &[u8]) -> Result<u64, Refusal> {
    below(body, 0..body.len(), &PATH)
}

fn below(body: &[u8], place: Place, path: &[u32]) -> Result<u64, Refusal> {
    let mut fields = Fields::of(body, place);
    let mut points = 0;
    loop {
        let at = fields.at();
        let Some((number, wire)) = fields.next()? else { return Ok(points) };
        match path.split_first() {
            Some((wanted, rest)) if number == *wanted => points += below(body, wire.place(at)?, rest)?,
            None if DATA.contains(&number) => points += listed(body, wire.place(at)?)?,
            _ => {}
        }
    }
}

/// How many of field 1 a message has.
fn listed(body: &[u8], place: Place) -> Result<u64, Refusal> {
    let mut fields = Fields::of(body, place);
    let mut count = 0;
    while let Some((number, _)) = fields.next()? {
        count += u64::from(number == 1);
    }
    Ok(count)
}
