//! A connection to a pmcd: the few requests that the sampler makes.

use pcp_client::{ClientError, Context, Fetched};
use pcp_model::{Desc, InDom, Instance, PmError, Pmid};

/// What there is under a name.
pub(super) type Found = Result<(Pmid, Result<Desc, PmError>), PmError>;

/// A connection to a pmcd.
pub(super) struct Link {
    context: Context,
    fetched: Fetched,
}

impl Link {
    /// Connects to a host.
    pub(super) fn connect(host: &str) -> Result<Link, ClientError> {
        Ok(Link { context: Context::host(host)?, fetched: Fetched::new() })
    }

    /// The PMIDs and descriptors of metrics by their names, or why there are none. Only real metrics: derived
    /// metrics of this process are none of pmcd's.
    pub(super) fn look_up(&mut self, names: &[&str]) -> Result<Vec<Found>, ClientError> {
        let provider = self.context.provider();
        let pmids = match provider.lookup_names(names) {
            Err(ClientError::Pcp(error)) if names.len() == 1 => return Ok(vec![Err(error)]),
            pmids => pmids?,
        };
        let known: Vec<Pmid> = pmids.iter().copied().flatten().collect();
        let descs = if known.is_empty() { Vec::new() } else { provider.descs(&known)? };
        let mut descs = descs.into_iter();
        let found = |pmid: &Option<Pmid>| match pmid {
            Some(pmid) => Ok((*pmid, descs.next().unwrap_or(Err(PmError::IPC)))),
            None => Err(PmError::NAME),
        };
        Ok(pmids.iter().map(found).collect())
    }

    /// The instances of a domain, or why there are none.
    pub(super) fn instances(&mut self, indom: InDom) -> Result<Result<Vec<Instance>, PmError>, ClientError> {
        match self.context.provider().instances(indom) {
            Err(ClientError::Pcp(error)) => Ok(Err(error)),
            instances => Ok(Ok(instances?)),
        }
    }

    /// The values of metrics, one set for each.
    pub(super) fn fetch(&mut self, pmids: &[Pmid]) -> Result<&Fetched, ClientError> {
        self.context.fetch(pmids, &mut self.fetched)?;
        Ok(&self.fetched)
    }
}
