//! `jumpseat.derived.*`: metrics computed from other metrics, in the fetch that asks for them.
//!
//! ```text
//! files --files--> definitions --reload--> Derived: registry, descriptors, texts, PMIDs
//!                                              |
//!          fetch of a client --> its Session: bindings and history <-- values of own metrics (session)
//!                                              ^
//!                  sampler --> Foreign: metadata, newest sample of other agents' metrics (foreign)
//! ```
//!
//! Each client has a [`Session`] from its first fetch of a derived metric until it goes, so `rate` and
//! `delta` see that client's own intervals. A reload replaces what has changed, and whatever is made of
//! what has changed; all else keeps its history. So does news of what an operand of another agent is.
//! Definitions that cannot be used keep their name and PMID (a client that asks gets `PM_ERR_BADDERIVE`)
//! but are not listed, as in PCP; nor are those with operands whose metadata pmcd has not given yet (`PM_ERR_AGAIN`).
//!
//! If it is configured, the agent has a history of its own, for those who look once ([`shared`]).
//!
//! Cost of a fetch: the operands' callbacks once for each fetch, however many derived metrics it asks for,
//! and one pass over the instances for each node of the expressions. With operands of other agents: that
//! pass once for each sample that the client's fetches find.

mod catalogue;
mod definitions;
pub(crate) mod files;
mod foreign;
mod session;
mod sessions;
mod shared;
mod snapshot;
mod steady;

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use pcp_derive::{DerivedContext, Dialect, Registry};
use pcp_ids::{IdMap, IdsError, Settling};
use pcp_model::{Desc, InDom, InstanceValue, PmError, Pmid};
use pcp_pmda::{Call, ClientId};

use crate::config::DerivedConfig;
use crate::identity::{DERIVED_NAMES, DERIVED_NAMES_MAX, DERIVED_ROOT as ROOT, derived_id, derived_pmid};
use crate::sampler::Report;
use catalogue::Metadata;
use files::{Definitions, FilesError};
use foreign::{Foreign, Needs};
use sessions::Sessions;
use shared::{Sampling, SharedHistory};
use snapshot::Snapshot;

pub(crate) use catalogue::Catalogue;
pub(crate) use files::Wanted;
pub(crate) use session::Computation;

/// The derived metrics and their clients.
pub(crate) struct Derived {
    catalogue: Arc<Catalogue>,
    /// This agent's.
    domain: u16,
    /// Names and their numbers, for ever.
    ids: IdMap,
    /// What was read of them, until it is sure to be on disk.
    pub settling: Settling,
    dialect: Dialect,
    /// The usable definitions; PMIDs in it are the engine's own.
    registry: Arc<Registry>,
    /// Where definitions are bound to learn their descriptors; evaluates nothing.
    binder: DerivedContext,
    /// By name below the root.
    entries: BTreeMap<String, Arc<Entry>>,
    /// The same by their numbers, up to [`DERIVED_NAMES_MAX`]: each value that is fetched asks for one, mostly for that behind the one before it.
    by_id: Vec<Option<Arc<Entry>>>,
    sessions: Sessions,
    /// The agent's own history.
    shared: SharedHistory,
    /// [`DerivedConfig::history`].
    window: Duration,
    /// Metrics of other agents.
    pub foreign: Foreign,
    generation: u64,
    reloads: u32,
    /// What the configuration says; some of it comes into effect when the files are read.
    config: DerivedConfig,
    /// [`DerivedConfig::history_budget`].
    history_budget: u64,
    /// [`DerivedConfig::max_operands`].
    max_operands: usize,
}

/// A definition, and what has become of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// The metric, without a domain.
    pub pmid: Pmid,
    /// As its file has it.
    pub wanted: Wanted,
    /// Whether it can be used.
    pub status: Status,
}

/// Whether a definition can be used.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Status {
    Usable {
        /// The engine's PMID.
        engine: Pmid,
        desc: Desc,
        /// For one that is computed from samples.
        needs: Option<Arc<Needs>>,
    },
    /// It has operands whose metadata pmcd has not given yet.
    Waiting,
    /// Why not.
    Refused(String),
}

/// How many definitions stand how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub usable: u32,
    pub waiting: u32,
    pub refused: u32,
}

impl Derived {
    /// No definitions yet. Numbers of names are kept in `dir`, or in memory only.
    ///
    /// # Errors
    /// Those of [`IdMap::begin`].
    pub(crate) fn open(config: DerivedConfig, dir: Option<&Path>, domain: u16) -> Result<Derived, IdsError> {
        let file = dir.map(|dir| dir.join(InDom::new(domain, DERIVED_NAMES).to_string()));
        let dialect = Dialect::default();
        let (ids, settling) = IdMap::begin_within(file.as_deref(), DERIVED_NAMES_MAX)?;
        Ok(Derived {
            catalogue: Arc::default(),
            domain,
            ids,
            settling,
            dialect,
            registry: Arc::new(Registry::new(dialect)),
            binder: DerivedContext::new(),
            entries: BTreeMap::new(),
            by_id: Vec::new(),
            sessions: Sessions::default(),
            shared: SharedHistory::default(),
            window: config.history.0,
            foreign: Foreign::new(&config),
            generation: 0,
            reloads: 0,
            history_budget: config.history_budget.0,
            max_operands: config.max_operands as usize,
            config,
        })
    }

    /// The agent's own metrics, which definitions may use: known once its tables are complete.
    pub(crate) fn set_catalogue(&mut self, catalogue: Catalogue) {
        self.catalogue = Arc::new(catalogue);
    }

    /// Another configuration holds from the next [`Derived::read`] on.
    pub(crate) fn configure(&mut self, config: DerivedConfig) {
        self.config = config;
    }

    /// Reads the definition files (again), and tells the log what is wrong with them and how many can be used. Whether
    /// they could be read; otherwise nothing has changed.
    pub(crate) fn read(&mut self) -> bool {
        if let Err(error) = self.try_read() {
            let outcome = match self.reloads {
                0 => "there are none until a reload finds them, and all else goes on",
                _ => "those that there are stay as they are",
            };
            tracing::error!("derived metrics: {error}; {outcome}");
            // What comes next is a reload, whatever became of the start.
            self.reloads = self.reloads.max(1);
            return false;
        }
        let Counts { usable, waiting, refused } = self.counts();
        let waiting = match waiting {
            0 => String::new(),
            number => format!(", {number} waiting for news of their operands"),
        };
        tracing::info!("derived metrics: {usable} usable, {refused} refused{waiting}");
        true
    }

    fn try_read(&mut self) -> Result<(), FilesError> {
        let dialect = if self.config.portable { Dialect::portable() } else { Dialect::default() };
        let Definitions { wanted, problems } = files::read(self.config.files.as_deref(), dialect)?;
        for problem in problems {
            tracing::error!("{problem}");
        }
        self.history_budget = self.config.history_budget.0;
        if self.window != self.config.history.0 || !self.shared.is_wanted() {
            (self.window, self.shared) = (self.config.history.0, SharedHistory::default());
        }
        let before = (self.foreign.host.clone(), self.max_operands);
        self.max_operands = self.config.max_operands as usize;
        self.foreign.configure(&self.config);
        // Where another pmcd is asked, or fewer metrics may be, what is made of them is judged anew.
        // Only read anew, so that clients' histories survive a reload of the same.
        let same = before == (self.foreign.host.clone(), self.max_operands);
        let changed = if same { HashSet::new() } else { self.foreign.names() };
        self.replace(wanted, dialect, changed);
        for (name, entry) in &self.entries {
            entry.log_refusal(name);
        }
        self.reloads = self.reloads.wrapping_add(1);
        Ok(())
    }

    /// How often the files have been read since the start, when they were read first.
    pub(crate) fn reloads(&self) -> u32 {
        self.reloads.saturating_sub(1)
    }

    /// How many definitions can be used, and how many cannot.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for entry in self.entries.values() {
            match entry.status {
                Status::Usable { .. } => counts.usable += 1,
                Status::Waiting => counts.waiting += 1,
                Status::Refused(_) => counts.refused += 1,
            }
        }
        counts
    }

    /// Memory for values of earlier fetches, of all clients, in bytes.
    pub(crate) fn history_bytes(&mut self) -> usize {
        self.sessions.bytes() + self.shared.bytes()
    }

    /// Clients that were told to come again, as there was no memory for their history.
    pub(crate) fn history_refused(&self) -> u64 {
        self.sessions.refused()
    }

    /// Forgets a client's history.
    pub(crate) fn client_end(&mut self, client: ClientId) {
        if let Some(session) = self.sessions.remove(client) {
            self.foreign.leave(&session.asked);
        }
    }

    /// Changes the time between samples.
    pub(crate) fn set_interval(&mut self, interval: Duration) {
        self.foreign.set_interval(interval);
        self.follow();
    }

    /// Puts definitions in place of those before, which come back. Unchanged ones keep their history, unless operands
    /// among `changed` are in them.
    fn replace(
        &mut self,
        wanted: Vec<Wanted>,
        dialect: Dialect,
        changed: HashSet<Arc<str>>,
    ) -> BTreeMap<String, Arc<Entry>> {
        let before = std::mem::take(&mut self.entries);
        let registry = Arc::make_mut(&mut self.registry);
        if self.dialect != dialect {
            // Another language: nothing means what it did.
            self.dialect = dialect;
            *registry = Registry::new(dialect);
            self.binder.reset();
            self.sessions.forget();
            self.shared = SharedHistory::default();
        }
        // A definition that stays in the registry keeps the engine's PMID, and with it each client's history. So only
        // those go whose meaning has changed, by their own text or by what they are made of.
        let outdated = definitions::outdated(registry, &wanted, changed);
        registry.retain(|definition| !outdated.contains(&definition.name));
        if !outdated.is_empty() {
            self.shared.forget_columns();
        }
        // All of them wait for the disk once.
        let ids: Vec<_> = wanted.iter().map(|wanted| self.ids.get_or_add_unsettled(&wanted.name)).collect();
        if let Err(error) = self.ids.settle() {
            tracing::error!("the identities of new derived metrics cannot be stored: {error}");
        }
        let mut registered = Vec::with_capacity(wanted.len());
        for (wanted, id) in wanted.into_iter().zip(ids) {
            match id {
                // A metric without identity could mean another one tomorrow.
                Ok(id) if !self.ids.is_settled(id) => {
                    tracing::error!("{ROOT}.{} is left out: its identity is not on disk", wanted.name);
                }
                Ok(id) => {
                    let engine = definitions::register(registry, &self.catalogue, &wanted);
                    registered.push((derived_pmid(id), engine, wanted));
                }
                Err(error) => tracing::error!("{ROOT}.{} is left out: {error}", wanted.name),
            }
        }
        let waiting = self.name_operands();
        // Only now, as definitions may use later ones.
        for (pmid, engine, wanted) in registered {
            let status = match engine.and_then(|engine| self.bind(engine, pmid, &waiting)) {
                Ok(status) => status,
                Err(reason) => Status::Refused(reason),
            };
            self.entries.insert(wanted.name.clone(), Arc::new(Entry { pmid, wanted, status }));
        }
        // What the engine would log is in the status, in words of this agent.
        self.binder.take_messages();
        self.by_id = by_id(self.entries.values());
        if seen(&before) != seen(&self.entries) {
            self.generation += 1;
        }
        self.follow();
        before
    }

    /// Settles which operands are other agents', and gives the definitions that wait for news of them; those
    /// that are refused for naming too many are not among them.
    fn name_operands(&mut self) -> HashSet<Arc<str>> {
        // Without a pmcd to ask, a name that is not the agent's own is no operand, and is refused by its name.
        let most = if self.foreign.host.is_some() { self.max_operands } else { 0 };
        let names = definitions::foreign_names(&self.registry, &self.catalogue, most);
        self.foreign.set_names(&names);
        // Clients that compute at the moment keep the catalogue they have begun with.
        self.foreign.fill(Arc::make_mut(&mut self.catalogue));
        definitions::waiting(&self.registry, &self.foreign)
    }

    fn bind(&mut self, engine: Pmid, pmid: Pmid, waiting: &HashSet<Arc<str>>) -> Result<Status, String> {
        let name = self.registry.find_pmid(engine).map(|definition| &definition.name);
        if name.is_some_and(|name| waiting.contains(name)) {
            return Ok(Status::Waiting);
        }
        match self.binder.attach(&self.registry, &mut Metadata(&self.catalogue)).binding(engine) {
            Ok(bound) => {
                let needs = definitions::check(&bound, &self.catalogue, &self.foreign, self.domain)?;
                Ok(Status::Usable { engine, desc: bound.meta().desc(pmid), needs: needs.map(Arc::new) })
            }
            Err(Some(error)) => Err(definitions::reason(&error, &self.foreign, self.max_operands)),
            Err(None) => Err("the name is taken by another metric".to_owned()),
        }
    }

    /// Judges the definitions anew that have these operands, of which other things have become known.
    fn learn(&mut self, changed: HashSet<Arc<str>>) {
        let wanted = self.entries.values().map(|entry| entry.wanted.clone()).collect();
        let before = self.replace(wanted, self.dialect, changed);
        // Only what is news: a definition that stays refused has been in the log.
        for (name, entry) in &self.entries {
            match (&entry.status, before.get(name).map(|entry| &entry.status)) {
                (Status::Refused(_), before) if before != Some(&entry.status) => entry.log_refusal(name),
                (Status::Usable { .. }, Some(Status::Refused(_))) => {
                    tracing::info!("{ROOT}.{name} can be used now");
                }
                _ => {}
            }
        }
    }

    /// What the definitions that clients want need.
    fn needs(&mut self) -> Needs {
        let mut all = Needs::default();
        let by_id = &self.by_id;
        for local in self.foreign.interesting() {
            let status = found(by_id, local).map(|entry| &entry.status);
            if let Some(Status::Usable { needs: Some(needs), .. }) = status {
                all.operands.extend(&needs.operands);
                all.own.extend(&needs.own);
                all.indoms.extend(&needs.indoms);
            }
        }
        all
    }

    /// Has the sampler get what clients want.
    fn follow(&mut self) {
        let needs = self.needs();
        self.foreign.follow(&needs);
    }

    /// Changes whenever names, PMIDs or descriptors do.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// All definitions, by name below the root.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), &**entry))
    }

    /// The definition of a metric.
    pub(crate) fn entry(&self, pmid: Pmid) -> Option<&Entry> {
        found(&self.by_id, pmid.local())
    }

    /// Begins to compute a metric for a client. What comes out must be [given back](Derived::end).
    ///
    /// # Errors
    /// The error of the value set: the definition cannot be used (yet), or there is no memory for another client.
    pub(crate) fn begin(&mut self, call: &Call<'_>) -> Result<Computation, PmError> {
        let (definition, needs) = match &self.entry(call.pmid).ok_or(PmError::PMID)?.status {
            Status::Usable { engine, needs, .. } => (*engine, needs.clone()),
            Status::Waiting => return Err(PmError::AGAIN),
            Status::Refused(_) => return Err(PmError::BADDERIVE),
        };
        let budget = self.history_budget.saturating_sub(self.shared.bytes() as u64);
        let mut session = self.sessions.take(call, budget)?;
        let snapshot = needs.map(|needs| {
            if session.ask(call.pmid) {
                self.foreign.join(call.pmid.local());
                self.follow();
            }
            self.foreign.fresh(&needs)
        });
        let (registry, catalogue) = (Arc::clone(&self.registry), Arc::clone(&self.catalogue));
        let shared = self.shared.of(definition);
        Ok(Computation { definition, registry, catalogue, session, shared, snapshot })
    }

    /// Takes back what [`Derived::begin`] gave: the client's history.
    pub(crate) fn end(&mut self, client: ClientId, computation: Computation) {
        self.sessions.put(client, computation.session);
    }

    /// How often the agent samples for everybody; `None`: never.
    pub(crate) fn shared_window(&self) -> Option<Duration> {
        (!self.window.is_zero() && self.shared.is_wanted()).then_some(self.window)
    }

    /// Begins a sample for everybody, of what is made of the agent's own metrics. It must be
    /// [given back](Derived::end_shared).
    pub(crate) fn begin_shared(&mut self) -> Sampling {
        let own_only = |entry: &Arc<Entry>| match entry.status {
            Status::Usable { engine, needs: None, .. } => Some(engine),
            _ => None,
        };
        let definitions = self.entries.values().filter_map(own_only).collect();
        let (registry, catalogue) = (Arc::clone(&self.registry), Arc::clone(&self.catalogue));
        Sampling::new(definitions, registry, catalogue, std::mem::take(&mut self.shared))
    }

    /// Takes back what [`Derived::begin_shared`] gave.
    pub(crate) fn end_shared(&mut self, sampling: Sampling) {
        self.shared = sampling.end(self.history_budget / 2);
    }

    /// Takes over what the sampler has found out, up to its sample: the values of this agent's own metrics at its time
    /// are for the caller to read, [`OwnOperands::pmids`], and to give to [`Derived::set_sample`].
    pub(crate) fn take_report(&mut self) -> Option<OwnOperands> {
        let report = self.foreign.report()?;
        Some(self.apply(report))
    }

    fn apply(&mut self, report: Report) -> OwnOperands {
        let (changed, sample) = self.foreign.apply(report);
        if !changed.is_empty() {
            self.learn(changed);
        }
        OwnOperands { sample, needs: self.needs() }
    }

    /// Puts a report into effect, with the own values next to its sample, by [`Pmid::local`].
    pub(crate) fn set_sample(
        &mut self,
        operands: OwnOperands,
        own: FxHashMap<u32, Result<Vec<InstanceValue>, PmError>>,
    ) {
        if let Some(sample) = operands.sample {
            self.foreign.set_newest(Snapshot { sample, own });
        }
        self.foreign.follow(&operands.needs);
    }
}

/// The agent's own metrics that definitions have next to sampled ones: the values of a definition are of one time.
pub(crate) struct OwnOperands {
    sample: Option<Arc<crate::sampler::ForeignSample>>,
    needs: Needs,
}

impl OwnOperands {
    /// Those whose values are wanted now, without a domain: none without a new sample.
    pub(crate) fn pmids(&self) -> impl Iterator<Item = Pmid> {
        let own = self.sample.iter().flat_map(|_| &self.needs.own);
        own.map(|&local| Pmid(local))
    }
}

impl Entry {
    /// The metric's descriptor, if it can be used.
    pub(crate) fn desc(&self) -> Option<Desc> {
        match self.status {
            Status::Usable { desc, .. } => Some(desc),
            Status::Waiting | Status::Refused(_) => None,
        }
    }

    fn log_refusal(&self, name: &str) {
        if let Status::Refused(reason) = &self.status {
            tracing::error!("{}: {ROOT}.{name} cannot be used: {reason}", self.wanted.file.display());
        }
    }
}

/// What a client sees of definitions without asking for values.
fn seen(entries: &BTreeMap<String, Arc<Entry>>) -> Vec<(Pmid, Option<Desc>)> {
    entries.values().map(|entry| (entry.pmid, entry.desc())).collect()
}

/// Definitions at the places of their numbers.
fn by_id<'a>(entries: impl Iterator<Item = &'a Arc<Entry>>) -> Vec<Option<Arc<Entry>>> {
    let mut all: Vec<Option<Arc<Entry>>> = Vec::new();
    for entry in entries {
        let Some(id) = derived_id(entry.pmid.local()) else { continue };
        all.resize(all.len().max(id + 1), None);
        all[id] = Some(Arc::clone(entry));
    }
    all
}

/// The definition of a metric, by its PMID without a domain.
fn found(by_id: &[Option<Arc<Entry>>], local: u32) -> Option<&Entry> {
    by_id.get(derived_id(local)?)?.as_deref()
}

#[cfg(test)]
mod sampled_tests;
#[cfg(test)]
mod tests;
