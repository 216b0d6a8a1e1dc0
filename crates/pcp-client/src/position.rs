//! Places in the event records of the jumpseat agent: the metrics in which a client is told where it is, and stores
//! where it wants to be (`jumpseat.control.client.position`).

use super::context::Context;
use super::error::{ClientError, Result};
use pcp_pdu::Fetched;

/// Metrics with records, and those with the positions in them.
pub const METRICS: [(&str, &str); 2] = [
    ("jumpseat.event.records", "jumpseat.event.position"),
    ("jumpseat.event.highres_records", "jumpseat.event.highres_position"),
];
/// Why the last store was refused.
const REFUSED: &str = "jumpseat.control.client.refused";

/// The metric with the positions in the records of another one. The collector may not have it.
pub fn metric_for(records: &str) -> Option<&'static str> {
    METRICS.iter().find(|(name, _)| *name == records).map(|(_, position)| *position)
}

/// Why the agent refused what this context stored last; `None` if it does not say.
///
/// # Errors
/// Those of the connection.
pub fn refusal(context: &mut Context) -> Result<Option<String>> {
    match told(context) {
        Err(ClientError::Pcp(_)) => Ok(None),
        told => told,
    }
}

fn told(context: &mut Context) -> Result<Option<String>> {
    let pmid = context.pmid(REFUSED)?;
    let mut fetched = Fetched::new();
    context.fetch(&[pmid], &mut fetched)?;
    let value = fetched.set(0).and_then(|set| set.values.ok()?.get(0));
    let text = value.and_then(|(_, value)| value.text().ok());
    Ok(text.map(|text| String::from_utf8_lossy(text).into_owned()))
}
