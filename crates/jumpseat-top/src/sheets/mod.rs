//! The tables of the views, made of the model. No screen: what is made here is drawn, or exported.

mod errors;
mod events;
mod flame;
mod metrics;
mod spans;
mod traces;

pub(crate) use errors::errors;
pub(crate) use events::{details, events};
pub(crate) use flame::flame;
pub(crate) use metrics::metrics;
pub(crate) use spans::{examples, histogram, spans};
pub(crate) use traces::{fields, traces, waterfall};

use pcp_model::Timestamp;
use pcp_model::time::Zone;

use crate::measure::duration;

/// A time of day, to the millisecond.
fn clock(zone: &Zone, time: Timestamp) -> String {
    zone.clock(time, 3)
}

/// Fields as one text.
fn joined<'a>(fields: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    fields.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}
