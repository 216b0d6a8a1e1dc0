//! What the event loop and the thread tell each other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use pcp_model::{Desc, InDom, InstanceValue, PmError, Pmid, Timestamp};
use pcp_pmda::Instances;

/// Stands for the name of a metric of another agent, whatever its PMID is at the time. Never given to
/// another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Handle(u32);

impl Handle {
    /// How many there can be.
    pub(crate) const MAX: u32 = 1 << 22;

    /// The handle of a number below [`Handle::MAX`].
    pub(crate) fn new(number: u32) -> Option<Handle> {
        (number < Handle::MAX).then_some(Handle(number))
    }

    /// As the expression engine sees it: a PMID of domain 0, which no agent has.
    pub(crate) fn pmid(self) -> Pmid {
        Pmid(self.0)
    }

    /// The handle that a PMID of the engine stands for, if it is no metric of this agent.
    pub(crate) fn of(pmid: Pmid) -> Option<Handle> {
        Handle::new(pmid.0)
    }
}

/// What the thread is to do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SamplingPlan {
    /// Which pmcd, as a host specification.
    pub host: String,
    /// Time between samples.
    pub interval: Duration,
    /// Most bytes of values in a sample.
    pub budget: usize,
    /// The metrics whose metadata are wanted.
    pub names: Arc<BTreeMap<Handle, Arc<str>>>,
    /// Those whose values are wanted, in ascending order. Nothing is fetched while there are none.
    pub wanted: Vec<Handle>,
    /// The instance domains whose instances are wanted by name.
    pub indoms: Vec<InDom>,
    /// Another number than before: look all names up again.
    pub lookups: u64,
}

/// What the thread knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    /// Which pmcd it is about.
    pub host: String,
    /// Another one than before if anything has changed.
    pub metadata: Arc<Metadata>,
    /// The newest sample.
    pub sample: Option<Arc<ForeignSample>>,
}

/// Descriptors, with the PMIDs they had, or why there are none: `PM_ERR_NAME` where pmcd does not know the
/// name. What is not there yet has not been answered for.
pub(crate) type Metadata = FxHashMap<Handle, Result<Desc, PmError>>;

/// Values of one fetch.
#[derive(Debug)]
pub(crate) struct ForeignSample {
    /// Grows with each sample.
    pub number: u64,
    /// The time that pmcd gave it.
    pub time: Timestamp,
    /// When it was there.
    pub taken: Instant,
    /// The values of each metric, or why there are none.
    pub values: FxHashMap<Handle, Result<Vec<InstanceValue>, PmError>>,
    /// The instances of [`SamplingPlan::indoms`].
    pub indoms: FxHashMap<InDom, Result<Arc<Instances>, PmError>>,
}

/// Whether a metric may well have a descriptor later.
pub(crate) fn is_passing(error: PmError) -> bool {
    [PmError::AGAIN, PmError::NOAGENT, PmError::PMDANOTREADY, PmError::PMDAREADY].contains(&error)
}
