//! The agent's metric tables, one file for each branch of the name space. Those of kinds of sources are with the kinds.

mod client;
mod control;
pub(crate) mod derived;
mod event;
mod field;
pub(crate) mod labels;
mod log;
mod objective;
mod own;
mod position;
mod refusal;
mod series;
mod service;
mod source;
mod source_control;
mod span;
mod tail;

use pcp_pmda::{Access, Metric};

use crate::kinds;
use crate::state::State;

pub(crate) use derived::DerivedMetrics;
pub(crate) use field::FieldMetrics;
pub(crate) use series::SeriesMetrics;

/// All metrics with a fixed name. `access`: who may change the control metrics.
pub(crate) fn all(access: &Access) -> Vec<Metric<State>> {
    let mut metrics = event::metrics();
    metrics.extend(source::metrics());
    metrics.extend(log::metrics());
    metrics.extend(client::metrics());
    metrics.extend(position::metrics());
    metrics.extend(refusal::metrics());
    metrics.extend(control::metrics(access));
    metrics.extend(source_control::metrics(access));
    metrics.extend(span::metrics());
    metrics.extend(service::metrics());
    metrics.extend(objective::metrics());
    metrics.extend(tail::metrics(access));
    metrics.extend(own::metrics());
    metrics.extend(series::metrics());
    metrics.extend(kinds::ALL.iter().flat_map(|kind| kind.metrics()));
    metrics
}
