//! What is in a context of a client: a context on a host or an archive, and what is known of its metrics. That of a host has a
//! connection while a request uses it ([`super::connections`]).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use pcp_client::{ClientError, Context, ContextKind, Fetched, HostSpec, StateChange};
use pcp_model::{Desc, PmError, Pmid, ValueType};
use tokio::sync::OwnedSemaphorePermit;

use super::back_off::{Door, Wants, logs_in};
use super::call::{BATCH, Deadline, refused};
use super::connections::{Connections, Link, Own};
use super::metric::Help;
use super::readiness::Readiness;
use crate::server::answer::Refusal;
use crate::server::sources::{SourceError, Sources};

/// Most metrics that are kept in mind.
const MAX_KNOWN: usize = 16_384;

/// Most bytes of the definitions of derived metrics of a context.
const MAX_DEFINITIONS: usize = 1 << 18;

/// Below this are metrics that the jumpseat agent computes from one sample of a client to the next.
const REMEMBERED: &str = "jumpseat.derived.";

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
    /// Places of those that connect, until it is connected.
    connecting: Option<[OwnedSemaphorePermit; 2]>,
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
    /// Up to which [`Connections::news`] it is known what metrics are.
    seen: u64,
    /// What goes with the connection that it has, or had last.
    link: Link,
    /// The source without a connection that the context has while others have the connection.
    spare: Option<Context>,
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
            connecting: None,
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
        let (seen, link) = (connections.news(), Link::new(connections.losses()));
        let own = if logs_in(&spec.attributes) {
            Some(connections.own().map_err(SourceError::Busy)?)
        } else {
            None
        };
        let spec = Arc::new(spec);
        session.sharing =
            Some(Sharing { connections, sources, spec, seen, link, spare: None, own, has_had_one: false });
        session.take_connection();
        if !session.context.is_connected() {
            session.connect(Wants::Anew)?;
        }
        session.end();
        Ok(session)
    }

    /// Has a connection from now on to [`Session::end`], if there is one to be had.
    pub(super) fn begin(&mut self) {
        self.take_connection();
        let Some(sharing) = &mut self.sharing else { return };
        sharing.has_had_one = self.context.is_connected();
        self.hear_news();
    }

    /// Forgets what metrics were, if others have heard of a change. What has a connection of its own hears of it itself.
    fn hear_news(&mut self) {
        if let Some(Sharing { connections, seen, own: None, .. }) = &mut self.sharing {
            let now = connections.news();
            if std::mem::replace(seen, now) != now {
                self.known.clear();
                // There are none but those that all contexts have, and they remember nothing yet.
                self.context.derived().reset();
            }
        }
    }

    /// Opens a connection, if it is due.
    fn connect(&mut self, wants: Wants) -> Result<(), ClientError> {
        let Some(Sharing { connections, sources, spec, link, spare, own, .. }) = &mut self.sharing else {
            return self.context.reconnect();
        };
        // That of the one that was lost.
        link.readiness = None;
        let door = Door::of(spec);
        connections.back_off.expect_due(&door, wants, Instant::now())?;
        let losses = connections.losses();
        let mut fresh = match own {
            Some(_) => None,
            None => Some(sources.unconnected(spec)?),
        };
        if let Err(error) = fresh.as_mut().unwrap_or(&mut self.context).reconnect() {
            connections.back_off.failed(&door, &error, sources.reconnect_delays(), Instant::now());
            return Err(error);
        }
        // Whoever has it: another collector may answer now, and what is known of the last one holds no longer.
        connections.has_connected(&door);
        if let Some(mut fresh) = fresh {
            *link = Link::new(losses);
            self.context.swap_source(&mut fresh)?;
            *spare = Some(fresh);
        }
        self.hear_news();
        Ok(())
    }

    fn take_connection(&mut self) {
        if let Some(Sharing { connections, spec, link, spare, own: None, .. }) = &mut self.sharing
            && !self.context.is_connected()
            && let Some((of, source)) = connections.take(spec, &mut self.context)
        {
            (*link, *spare) = (of, Some(source));
        }
    }

    /// Whether its next request will have to connect.
    pub(super) fn has_to_connect(&self) -> bool {
        let is_connected = self.context.is_connected();
        match &self.sharing {
            Some(Sharing { connections, spec, own: None, .. }) => {
                !is_connected && !connections.has_idle(spec)
            }
            _ => !is_connected,
        }
    }

    /// Takes the places that it needs to connect; they are given back when it has, at the latest with [`Session::end`].
    pub(super) fn may_connect(&mut self, places: Option<[OwnedSemaphorePermit; 2]>) {
        self.connecting = places;
    }

    /// Others may have the connection.
    pub(super) fn end(&mut self) {
        self.connecting = None;
        let Some(Sharing { connections, spec, link, spare, own, .. }) = &mut self.sharing else { return };
        if !self.context.is_connected() {
            link.readiness = None;
        } else if own.is_none() {
            // There is a spare one: it has come by its connection in exchange for it.
            connections.put_back(spec, link, &mut self.context, spare);
        }
    }

    /// Keeps the connection for itself, as something is remembered of what it asks for.
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
        let done = if self.context.is_connected() { Ok(()) } else { self.connect_again() };
        self.connecting = None;
        done.map_err(|error| Refusal::bad(format!("cannot reconnect context: {}", error.code())))?;
        if self.unbound {
            self.define_again();
        }
        Ok(())
    }

    fn connect_again(&mut self) -> Result<(), ClientError> {
        match &mut self.sharing {
            Some(Sharing { own: None, .. }) => self.lose(),
            _ => {
                self.forget();
                self.unbound = !self.definitions.is_empty();
            }
        }
        self.connect(Wants::Again)
    }

    /// The connection that the request had, if it had one, is lost: others of its time most likely are, too.
    pub(super) fn lose(&mut self) {
        if let Some(Sharing { connections, link, own: None, has_had_one, .. }) = &mut self.sharing
            && std::mem::replace(has_had_one, true)
        {
            connections.lost(link.opened);
        }
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
    /// Those of the source as a whole; the time is over.
    pub(super) fn metrics(
        &mut self,
        names: &[&str],
        deadline: Deadline,
    ) -> Result<Vec<Option<(Pmid, Desc)>>, Refusal> {
        let new: Vec<&str> = names.iter().copied().filter(|name| !self.known.contains_key(*name)).collect();
        if self.known.len() + new.len() > MAX_KNOWN {
            self.known.clear();
            return self.look_up(names, deadline);
        }
        if !new.is_empty() {
            for (name, found) in new.iter().zip(self.look_up(&new, deadline)?) {
                if let Some(found) = found {
                    self.known.insert((*name).to_owned(), found);
                }
            }
        }
        Ok(names.iter().map(|name| self.known.get(*name).copied()).collect())
    }

    fn look_up(&mut self, names: &[&str], deadline: Deadline) -> Result<Vec<Option<(Pmid, Desc)>>, Refusal> {
        let mut found = Vec::with_capacity(names.len());
        for names in names.chunks(BATCH) {
            let pmids = self.pmids(names, deadline)?;
            let known: Vec<Pmid> = pmids.iter().copied().flatten().collect();
            let mut descs = self.descs(&known)?.into_iter();
            found.extend(pmids.into_iter().map(|pmid| {
                let pmid = pmid?;
                descs.next().and_then(Result::ok).map(|desc| (pmid, desc))
            }));
        }
        Ok(found)
    }

    /// Of which news it is what is asked for now; see [`Connections::news`].
    pub(super) fn news(&self) -> u64 {
        self.sharing.as_ref().map_or(0, |sharing| sharing.connections.news())
    }

    /// The help texts of a metric, if somebody has asked for them lately.
    pub(super) fn kept_help(&self, pmid: Pmid, news: u64, now: Instant) -> Option<Help> {
        let sharing = self.sharing.as_ref().filter(|_| !pmid.is_derived())?;
        sharing.connections.texts().of(pmid, news, now)
    }

    /// Keeps them, where others have the same metrics. What an agent did not tell is asked for again: it may not be ready yet.
    pub(super) fn keep_help(&self, pmid: Pmid, help: &Help, news: u64, asked: Instant) {
        if let Some(sharing) = self.sharing.as_ref().filter(|_| help.is_told) {
            sharing.connections.texts().keep(pmid, help, news, asked);
        }
    }

    /// What a metric is, if that is known.
    pub(super) fn known(&self, name: &str) -> Option<&(Pmid, Desc)> {
        self.known.get(name)
    }

    /// Which of these names are metrics of the source itself, as it says now.
    ///
    /// # Errors
    /// Those of the source as a whole; the time is over.
    pub(super) fn are_metrics(&mut self, names: &[&str], deadline: Deadline) -> Result<Vec<bool>, Refusal> {
        let mut found = Vec::with_capacity(names.len());
        for names in names.chunks(BATCH) {
            for (name, pmid) in names.iter().zip(self.pmids(names, deadline)?) {
                // Somebody may have given the name to another one.
                if self.known.get(*name).is_some_and(|(known, _)| pmid != Some(*known)) {
                    self.known.remove(*name);
                }
                found.push(pmid.is_some_and(|pmid| !pmid.is_derived()));
            }
        }
        Ok(found)
    }

    fn pmids(&mut self, names: &[&str], deadline: Deadline) -> Result<Vec<Option<Pmid>>, Refusal> {
        deadline.check()?;
        match self.context.lookup_names(names) {
            Ok(pmids) => Ok(pmids),
            Err(ClientError::Pcp(_)) => Ok(vec![None; names.len()]),
            // Names that the protocol has no room for are none. The others may be.
            Err(ClientError::Request(_)) if names.len() == 1 => Ok(vec![None]),
            Err(ClientError::Request(_)) => {
                let each = names.iter().map(|name| self.pmids(&[*name], deadline));
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

    /// Fetches metrics, by their names, into `fetched`. If something is remembered of that, here or by an agent, it keeps the connection
    /// for itself from now on. True if a change is told of with the values: then they are of metrics as they were known before, and
    /// should be looked up and fetched once more; but not what is remembered, of which a second fetch would tell less.
    ///
    /// # Errors
    /// Those of the source as a whole; too many have a connection of their own.
    pub(super) fn fetch<'a>(
        &mut self,
        metrics: impl Iterator<Item = (&'a str, &'a Desc)> + Clone,
    ) -> Result<bool, Refusal> {
        let is_remembered = metrics.clone().any(|(name, desc)| is_remembered(name, desc));
        if is_remembered {
            self.keep_connection()?;
        }
        let pmids: Vec<Pmid> = metrics.map(|(_, desc)| desc.pmid).collect();
        let changes = self.context.fetch(&pmids, &mut self.fetched).map_err(|error| refused(&error))?;
        self.heed(changes);
        Ok(changes != StateChange::default() && !is_remembered)
    }

    /// Starts to fetch metrics of which nothing is remembered; false if there is no connection for that.
    pub(super) fn start_fetch(&mut self, pmids: &[Pmid]) -> bool {
        !self.unbound && self.context.is_connected() && self.context.start_fetch(pmids).is_ok()
    }

    /// Goes on with what was started, without waiting. True when it is done.
    ///
    /// # Errors
    /// Those of the source as a whole.
    pub(super) fn advance(&mut self) -> Result<bool, ClientError> {
        let is_done = self.context.advance(&mut self.fetched)?;
        if is_done {
            self.heed(self.fetched.changes);
        }
        Ok(is_done)
    }

    /// Takes out what tells when there is something to read, if it was waited for before.
    pub(super) fn take_readiness(&mut self) -> Option<Readiness> {
        self.sharing.as_mut().and_then(|sharing| sharing.link.readiness.take())
    }

    /// Keeps it with the connection, for the next who waits.
    pub(super) fn keep_readiness(&mut self, readiness: Readiness) {
        if let Some(sharing) = &mut self.sharing {
            sharing.link.readiness = Some(readiness);
        }
    }

    /// The collector has told what has changed.
    fn heed(&mut self, changes: StateChange) {
        if changes != StateChange::default() {
            self.forget();
            // It is told once over each connection, to whoever has it then.
            if let Some(sharing) = &self.sharing {
                sharing.connections.changed();
            }
        }
    }
}

/// Whether a fetch of it is remembered: event records, that a client has had them; derived metrics, whose operands may be such, the
/// sample before.
pub(super) fn is_remembered(name: &str, desc: &Desc) -> bool {
    matches!(desc.value_type, ValueType::Event | ValueType::HighResEvent)
        || desc.pmid.is_derived()
        || name.starts_with(REMEMBERED)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pcp_model::{InDom, Semantics, Units};

    use super::*;

    #[test]
    fn lists_of_names_are_looked_up_until_the_time_is_over() {
        let spec: HostSpec = "web1".parse().expect("a host");
        let context = Context::host_unconnected(&spec, &pcp_client::HostOptions::default());
        let mut session = Session::new(context.expect("not yet connected"));
        let names = vec!["no.such"; 2 * BATCH];
        let past = Instant::now().checked_sub(Duration::from_secs(61)).expect("the machine runs longer");
        for (begun, status) in [(Instant::now(), 400), (past, 503)] {
            let deadline = Deadline::since(begun);
            let refused = session.are_metrics(&names, deadline).expect_err("there is no connection");
            assert_eq!(refused.status.as_u16(), status, "{refused:?}");
            let refused = session.metrics(&names, deadline).expect_err("there is no connection");
            assert_eq!(refused.status.as_u16(), status, "{refused:?}");
        }
    }

    #[test]
    fn what_remembers_is_known_by_name_type_and_identifier() {
        let desc = |pmid, value_type| Desc {
            pmid,
            value_type,
            indom: InDom::NULL,
            semantics: Semantics::Instant,
            units: Units::default(),
        };
        let (real, derived) = (Pmid::new(400, 1, 0), Pmid::new(511, 2047, 1));
        assert!(derived.is_derived());
        for (name, desc, is) in [
            ("jumpseat.event.total", desc(real, ValueType::U64), false),
            ("jumpseat.event.records", desc(real, ValueType::Event), true),
            ("jumpseat.event.highres_records", desc(real, ValueType::HighResEvent), true),
            ("jumpseat.derived.rate", desc(real, ValueType::Double), true),
            ("my.count", desc(derived, ValueType::U32), true),
        ] {
            assert_eq!(is_remembered(name, &desc), is, "{name}");
        }
    }
}
