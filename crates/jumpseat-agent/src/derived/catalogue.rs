//! The metrics that definitions may be made of.

use std::sync::Arc;

use hashbrown::HashMap;
use rustc_hash::FxHashMap;

use crate::sampler::Handle;
use pcp_derive::{Meta, MetricSource};
use pcp_model::{Desc, PmError, Pmid};

/// The metrics that definitions may use, by name and PMID.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalogue {
    /// The agent's own. These never change.
    pub by_name: HashMap<String, Desc>,
    pub by_pmid: FxHashMap<u32, Desc>,
    /// Those of other agents that definitions name and pmcd knows, and their metadata.
    pub foreign: HashMap<Arc<str>, Handle>,
    pub foreign_meta: FxHashMap<Handle, Meta>,
}

impl Catalogue {
    /// Of these metrics.
    pub(crate) fn new<'a>(metrics: impl Iterator<Item = (&'a str, Desc)>) -> Catalogue {
        let mut catalogue = Catalogue::default();
        for (name, desc) in metrics {
            catalogue.by_name.insert(name.to_owned(), desc);
            catalogue.by_pmid.insert(desc.pmid.local(), desc);
        }
        catalogue
    }

    /// The metadata of a metric, by the PMID that [`Metadata`] gave it.
    pub(crate) fn meta(&self, pmid: Pmid) -> Option<Meta> {
        match Handle::of(pmid) {
            Some(handle) => self.foreign_meta.get(&handle).copied(),
            None => self.by_pmid.get(&pmid.local()).copied().map(Meta::from),
        }
    }
}

/// The metadata of all metrics that definitions may use, for binding without evaluating.
pub(super) struct Metadata<'a>(pub &'a Catalogue);

impl MetricSource for Metadata<'_> {
    fn pmid(&mut self, name: &str) -> Result<Pmid, PmError> {
        let own = self.0.by_name.get(name).map(|desc| desc.pmid);
        own.or_else(|| Some(self.0.foreign.get(name)?.pmid())).ok_or(PmError::NAME)
    }

    fn meta(&mut self, pmid: Pmid) -> Result<Meta, PmError> {
        self.0.meta(pmid).ok_or(PmError::PMID)
    }
}
