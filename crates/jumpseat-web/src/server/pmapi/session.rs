//! What is in a context of a client: a context on a host or an archive, and what is known of its metrics. That of a host has a
//! connection while a request uses it ([`super::connections`]).

use std::collections::HashMap;
use std::sync::Arc;

use pcp_client::{ClientError, Context, ContextKind, Fetched, HostAttributes, HostSpec, StateChange};
use pcp_model::{Desc, PmError, Pmid};

use super::call::{BATCH, refused};
use super::connections::{Connections, Epochs, Own};
use crate::server::answer::Refusal;
use crate::server::sources::{SourceError, Sources};

/// Most metrics that are kept in mind.
const MAX_KNOWN: usize = 16_384;

/// Most bytes of the definitions of derived metrics of a context.
const MAX_DEFINITIONS: usize = 1 << 18;

/// A context of a client.
pub(super) struct Session {
    pub context: Context,
    /// `None`: nobody else may have its source.
    sharing: Option<Sharing>,
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

/// What a context on a host shares with others.
struct Sharing {
    connections: Arc<Connections>,
    sources: Arc<Sources>,
    spec: Arc<HostSpec>,
    /// What is known of here.
    seen: Epochs,
    /// There, if it has a connection of its own.
    own: Option<Own>,
    /// Whether the request has had a connection: if there is none now, that one was lost.
    has_had_one: bool,
}

impl Session {
    /// On a context that nobody shares anything with: an archive.
    pub(super) fn new(context: Context) -> Session {
        Session {
            context,
            sharing: None,
            known: HashMap::new(),
            fetched: Fetched::new(),
            definitions: Vec::new(),
            unbound: false,
        }
    }

    /// On a host, whose connections it shares; who logs in does not.
    ///
    /// # Errors
    /// There is no connection to be had.
    pub(super) fn on_host(
        spec: HostSpec,
        sources: Arc<Sources>,
        connections: Arc<Connections>,
    ) -> Result<Session, SourceError> {
        let mut session = Session::new(sources.unconnected(&spec)?);
        let HostAttributes { userauth, username, password, .. } = &spec.attributes;
        let logs_in = userauth.is_some() || username.is_some() || password.is_some();
        let seen = connections.epochs();
        let own = if logs_in { Some(connections.own().map_err(SourceError::Busy)?) } else { None };
        let spec = Arc::new(spec);
        session.sharing = Some(Sharing { connections, sources, spec, seen, own, has_had_one: false });
        session.take_connection();
        if !session.context.is_connected() {
            session.connect()?;
        }
        session.end();
        Ok(session)
    }

    /// Has a connection from now on to [`Session::end`], if there is one to be had.
    pub(super) fn begin(&mut self) {
        self.take_connection();
        let Some(sharing) = &mut self.sharing else { return };
        sharing.has_had_one = self.context.is_connected();
        if sharing.own.is_some() {
            return;
        }
        let (now, seen) = (sharing.connections.epochs(), sharing.seen);
        sharing.seen = now;
        if now.losses != seen.losses {
            // Others are connected to what may be another collector.
            self.forget();
            self.context.derived().reset();
            self.unbound = !self.definitions.is_empty();
        } else if now.changes != seen.changes {
            self.forget();
        }
    }

    /// Opens a connection. What is bound to the metrics stays so: they are the same.
    fn connect(&mut self) -> Result<(), ClientError> {
        let Some(Sharing { sources, spec, own: None, .. }) = &self.sharing else {
            return self.context.reconnect();
        };
        let mut fresh = sources.unconnected(spec)?;
        fresh.reconnect()?;
        self.context.swap_source(&mut fresh)
    }

    fn take_connection(&mut self) {
        if let Some(Sharing { connections, spec, own: None, .. }) = &self.sharing
            && !self.context.is_connected()
        {
            connections.take(spec, &mut self.context);
        }
    }

    /// Others may have the connection.
    pub(super) fn end(&mut self) {
        if let Some(Sharing { connections, sources, spec, own: None, .. }) = &self.sharing
            && self.context.is_connected()
            && let Ok(empty) = sources.unconnected(spec)
        {
            connections.put_back(spec, &mut self.context, empty);
        }
    }

    /// Keeps the connection for itself: agents tell clients apart by it.
    ///
    /// # Errors
    /// Too many do.
    pub(super) fn keep_connection(&mut self) -> Result<(), Refusal> {
        if let Some(Sharing { connections, own: own @ None, .. }) = &mut self.sharing {
            *own = Some(connections.own()?);
        }
        Ok(())
    }

    /// Connects, or again if the connection was lost.
    ///
    /// # Errors
    /// It cannot.
    pub(super) fn connected(&mut self) -> Result<(), Refusal> {
        let failed = |error: ClientError| Refusal::bad(format!("cannot reconnect context: {}", error.code()));
        if !self.context.is_connected() {
            match &mut self.sharing {
                Some(sharing) if sharing.own.is_none() && !sharing.has_had_one => {
                    sharing.has_had_one = true;
                    self.connect().map_err(failed)?;
                }
                sharing => {
                    sharing.iter().for_each(|sharing| sharing.connections.lost());
                    self.forget();
                    self.unbound = !self.definitions.is_empty();
                    self.context.reconnect().map_err(failed)?;
                }
            }
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
            // It is told once over each connection, to whoever has it then.
            if let Some(sharing) = &self.sharing {
                sharing.connections.changed();
            }
        }
        Ok(())
    }
}
