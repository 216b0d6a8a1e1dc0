//! Values of one time: a sample of other agents' metrics, and the agent's own next to it.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::sampler::{self, Handle};
use pcp_model::{InDom, InstanceValue, PmError, Pmid};
use pcp_pmda::Instances;

/// A sample, with the values that the agent's own metrics had when it came.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub sample: Arc<sampler::ForeignSample>,
    /// By [`Pmid::local`].
    pub own: FxHashMap<u32, Result<Vec<InstanceValue>, PmError>>,
}

impl Snapshot {
    /// The instances of a domain of another agent.
    pub(crate) fn instances(&self, indom: InDom) -> Result<&Instances, PmError> {
        match self.sample.indoms.get(&indom) {
            Some(Ok(instances)) => Ok(instances),
            Some(Err(error)) => Err(*error),
            None => Err(PmError::INDOM),
        }
    }

    /// The values of a metric.
    pub(crate) fn values(&self, pmid: Pmid) -> Result<&[InstanceValue], PmError> {
        let values = match Handle::of(pmid) {
            Some(handle) => self.sample.values.get(&handle),
            None => self.own.get(&pmid.local()),
        };
        values.map_or(Err(PmError::AGAIN), |values| values.as_deref().map_err(|error| *error))
    }
}
