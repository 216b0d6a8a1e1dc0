//! What is in a context of a client: a context on a host or an archive, and what is known of its metrics.

use std::collections::HashMap;

use pcp_client::{ClientError, Context, ContextKind, Fetched, StateChange};
use pcp_model::{Desc, PmError, Pmid};

use super::call::{BATCH, refused};
use crate::server::answer::Refusal;

/// Most metrics that are kept in mind.
const MAX_KNOWN: usize = 16_384;

/// Most bytes of the definitions of derived metrics of a context.
const MAX_DEFINITIONS: usize = 1 << 18;

/// A context of a client.
pub(super) struct Session {
    pub context: Context,
    /// Metrics by name, so that polling the same costs nothing but the fetch.
    known: HashMap<String, (Pmid, Desc)>,
    /// Memory of fetches.
    pub fetched: Fetched,
    /// Names and expressions of derived metrics, as a new connection knows none of them.
    definitions: Vec<(String, String)>,
    /// They are not all defined, or not bound: an agent may not be there yet.
    unbound: bool,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Session {
    pub(super) fn new(context: Context) -> Session {
        Session {
            context,
            known: HashMap::new(),
            fetched: Fetched::new(),
            definitions: Vec::new(),
            unbound: false,
        }
    }

    /// Connects again if the connection was lost.
    ///
    /// # Errors
    /// It cannot.
    pub(super) fn connected(&mut self) -> Result<(), Refusal> {
        if !self.context.is_connected() {
            self.forget();
            self.unbound = !self.definitions.is_empty();
            let connected = self.context.reconnect();
            connected.map_err(|error| Refusal::bad(format!("cannot reconnect context: {}", error.code())))?;
        }
        if self.unbound {
            self.define_again();
        }
        Ok(())
    }

    fn define_again(&mut self) {
        self.forget();
        self.context.derived().reset();
        let context = &mut self.context;
        let defined = self.definitions.iter().map(|(name, expr)| context.add_derived(name, expr).is_ok());
        // All of them, also behind one that fails.
        self.unbound = defined.filter(|is_defined| !is_defined).count() > 0;
    }

    /// Defines a derived metric.
    ///
    /// # Errors
    /// The text of PCP's library for what is wrong.
    pub(super) fn define(&mut self, name: &str, expr: &str) -> Result<(), String> {
        let held: usize = self.definitions.iter().map(|(name, expr)| name.len() + expr.len()).sum();
        if held + name.len() + expr.len() > MAX_DEFINITIONS {
            return Err(format!("the definitions of a context have at most {MAX_DEFINITIONS} bytes\n"));
        }
        self.forget();
        match self.context.add_derived(name, expr) {
            Ok(_) => {
                self.definitions.push((name.to_owned(), expr.to_owned()));
                Ok(())
            }
            Err(ClientError::Derived(error)) => Err(error.report(name, expr)),
            Err(error) => Err(refused(&error).message),
        }
    }

    pub(super) fn is_archive(&self) -> bool {
        self.context.kind() == ContextKind::Archive
    }

    /// Metrics may have other names and descriptors now.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    /// Metrics by their names; `None` for what is no metric, or has no descriptor.
    ///
    /// # Errors
    /// Those of the source as a whole.
    pub(super) fn metrics(&mut self, names: &[&str]) -> Result<Vec<Option<(Pmid, Desc)>>, Refusal> {
        let new: Vec<&str> = names.iter().copied().filter(|name| !self.known.contains_key(*name)).collect();
        if self.known.len() + new.len() > MAX_KNOWN {
            self.known.clear();
            return self.look_up(names);
        }
        if !new.is_empty() {
            for (name, found) in new.iter().zip(self.look_up(&new)?) {
                if let Some(found) = found {
                    self.known.insert((*name).to_owned(), found);
                }
            }
        }
        Ok(names.iter().map(|name| self.known.get(*name).copied()).collect())
    }

    fn look_up(&mut self, names: &[&str]) -> Result<Vec<Option<(Pmid, Desc)>>, Refusal> {
        let mut found = Vec::with_capacity(names.len());
        for names in names.chunks(BATCH) {
            let pmids = self.pmids(names)?;
            let known: Vec<Pmid> = pmids.iter().copied().flatten().collect();
            let mut descs = self.descs(&known)?.into_iter();
            found.extend(pmids.into_iter().map(|pmid| {
                let pmid = pmid?;
                descs.next().and_then(Result::ok).map(|desc| (pmid, desc))
            }));
        }
        Ok(found)
    }

    fn pmids(&mut self, names: &[&str]) -> Result<Vec<Option<Pmid>>, Refusal> {
        match self.context.lookup_names(names) {
            Ok(pmids) => Ok(pmids),
            Err(ClientError::Pcp(_)) => Ok(vec![None; names.len()]),
            // Names that the protocol has no room for are none. The others may be.
            Err(ClientError::Request(_)) if names.len() == 1 => Ok(vec![None]),
            Err(ClientError::Request(_)) => {
                let each = names.iter().map(|name| self.pmids(&[*name]));
                each.map(|found| Ok(found?.into_iter().next().flatten())).collect()
            }
            Err(error) => Err(refused(&error)),
        }
    }

    /// Descriptors, each or why there is none.
    ///
    /// # Errors
    /// Those of the source as a whole.
    pub(super) fn descs(&mut self, pmids: &[Pmid]) -> Result<Vec<Result<Desc, PmError>>, Refusal> {
        if pmids.is_empty() {
            return Ok(Vec::new());
        }
        self.context.descs(pmids).map_err(|error| refused(&error))
    }

    /// Fetches into `fetched`.
    ///
    /// # Errors
    /// Those of the source as a whole.
    pub(super) fn fetch(&mut self, pmids: &[Pmid]) -> Result<(), ClientError> {
        let changes = self.context.fetch(pmids, &mut self.fetched)?;
        if changes != StateChange::default() {
            self.forget();
        }
        Ok(())
    }
}
