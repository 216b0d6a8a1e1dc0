//! `jumpseat.derived.*`: metrics computed from other metrics, in the fetch that asks for them.
//!
//! ```text
//! files --files--> definitions --reload--> Derived: registry, descriptors, texts, PMIDs
//!                                              |
//!          fetch of a client --> its Session: bindings and history <-- values of own metrics (world)
//!                                              ^
//!                  sampler --> Foreign: metadata, newest sample of other agents' metrics (foreign)
//! ```
//!
//! Each client has a [`Session`] from its first fetch of a derived metric until it goes, so `rate` and
//! `delta` see that client's own intervals. A reload replaces what has changed, and whatever is made of
//! what has changed; all else keeps its history. So does news of what an operand of another agent is.
//! Definitions that cannot be used keep their name and PMID (a client that asks is told `PM_ERR_BADDERIVE`)
//! but are not listed, as in PCP; nor are those whose operands pmcd has not told of yet (`PM_ERR_AGAIN`).
//!
//! Cost of a fetch: the operands' callbacks once for each fetch, however many derived metrics it asks for,
//! and one pass over the instances for each node of the expressions. With operands of other agents: that
//! pass once for each sample that the client's fetches find.

mod definitions;
mod files;
mod foreign;
mod world;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use pcp_derive::{Context, Dialect, Registry};
use pcp_ids::{IdMap, IdsError};
use pcp_model::{Desc, InDom, PmError, Pmid};
use pcp_pmda::{Call, ClientId, Core, OwnMetrics, SetWriter, Subtree, TextKind};

use super::State;
use super::config::DerivedConfig;
use super::sampler::Report;
use files::{Definitions, FilesError, Wanted};
use foreign::{Foreign, Needs};
use world::{Metadata, Session, Snapshot};

pub use world::Catalogue;

/// The node of the name space.
pub const ROOT: &str = "jumpseat.derived";
/// Number of the file with the identifiers, which is also the serial no instance domain may have.
pub const ID_SERIAL: u32 = 5;
/// Clusters of derived metrics: 1,024 items each.
pub const CLUSTERS: std::ops::RangeInclusive<u16> = 64..=127;
const ITEMS: i32 = 1024;
/// Longest text given out: well below the longest PDU of pmcd.
const MAX_TEXT: usize = 8 << 10;
/// Longest expression in a line of text.
const MAX_ONELINE: usize = 80;

/// The derived metrics and their clients.
pub struct Derived {
    catalogue: Arc<Catalogue>,
    /// This agent's.
    domain: u16,
    /// Names and their numbers, for ever.
    ids: IdMap,
    dialect: Dialect,
    /// The usable definitions; PMIDs in it are the engine's own.
    registry: Arc<Registry>,
    /// Where definitions are bound to learn their descriptors; evaluates nothing.
    binder: Context,
    /// By name below the root.
    entries: BTreeMap<String, Entry>,
    by_pmid: FxHashMap<u32, String>,
    sessions: FxHashMap<ClientId, Box<Session>>,
    /// Metrics of other agents.
    pub foreign: Foreign,
    generation: u64,
    reloads: u32,
    /// [`DerivedConfig::history_budget`].
    history_budget: u64,
    /// [`DerivedConfig::max_operands`].
    max_operands: usize,
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    pmid: Pmid,
    wanted: Wanted,
    standing: Standing,
}

/// Whether a definition can be used.
#[derive(Clone, Debug, PartialEq)]
enum Standing {
    Usable {
        /// The engine's PMID.
        engine: Pmid,
        desc: Desc,
        /// For one that is computed from samples.
        needs: Option<Arc<Needs>>,
    },
    /// It has operands that pmcd has not told of yet.
    Waiting,
    /// Why not.
    Refused(String),
}

/// How many definitions stand how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub usable: u32,
    pub waiting: u32,
    pub refused: u32,
}

impl Default for Derived {
    fn default() -> Derived {
        Derived::with_ids(Catalogue::default(), IdMap::in_memory(), 0)
    }
}

impl Derived {
    /// No definitions yet. Numbers of names are kept in `dir`, or in memory only.
    ///
    /// # Errors
    /// Those of [`IdMap::load`].
    pub fn open(catalogue: Catalogue, dir: Option<&Path>, domain: u16) -> Result<Derived, IdsError> {
        let clusters = i32::from(CLUSTERS.end() - CLUSTERS.start()) + 1;
        let file = dir.map(|dir| dir.join(InDom::new(domain, ID_SERIAL).to_string()));
        Ok(Derived::with_ids(catalogue, IdMap::load(file.as_deref(), clusters * ITEMS - 1)?, domain))
    }

    fn with_ids(catalogue: Catalogue, ids: IdMap, domain: u16) -> Derived {
        let (dialect, defaults) = (Dialect::default(), DerivedConfig::default());
        Derived {
            catalogue: Arc::new(catalogue),
            domain,
            ids,
            dialect,
            registry: Arc::new(Registry::new(dialect)),
            binder: Context::new(),
            entries: BTreeMap::new(),
            by_pmid: FxHashMap::default(),
            sessions: FxHashMap::default(),
            foreign: Foreign::default(),
            generation: 0,
            reloads: 0,
            history_budget: defaults.history_budget.0,
            max_operands: defaults.max_operands as usize,
        }
    }

    /// Reads the definition files (again), and tells the log what is wrong with them.
    ///
    /// # Errors
    /// Files that cannot be read or are too large; nothing has changed then.
    pub fn reload(&mut self, config: &DerivedConfig) -> Result<(), FilesError> {
        let dialect = if config.portable { Dialect::portable() } else { Dialect::default() };
        let Definitions { wanted, problems } = files::read(config.files.as_deref(), dialect)?;
        for problem in problems {
            tracing::error!("{problem}");
        }
        self.history_budget = config.history_budget.0;
        let before = (self.foreign.host.clone(), self.max_operands);
        self.max_operands = config.max_operands as usize;
        self.foreign.configure(config);
        // Where another pmcd is asked, or fewer metrics may be, what is made of them is judged anew.
        let same = before == (self.foreign.host.clone(), self.max_operands);
        let changed = if same { HashSet::new() } else { self.foreign.names() };
        self.replace(wanted, dialect, changed);
        for (name, entry) in &self.entries {
            entry.tell_refusal(name);
        }
        self.reloads = self.reloads.wrapping_add(1);
        Ok(())
    }

    /// How often the files have been read since the start, when they were read first.
    pub fn reloads(&self) -> u32 {
        self.reloads.saturating_sub(1)
    }

    /// How many definitions can be used, and how many cannot.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for entry in self.entries.values() {
            match entry.standing {
                Standing::Usable { .. } => counts.usable += 1,
                Standing::Waiting => counts.waiting += 1,
                Standing::Refused(_) => counts.refused += 1,
            }
        }
        counts
    }

    /// Memory for values of earlier fetches, of all clients, in bytes.
    pub fn history_bytes(&self) -> usize {
        self.sessions.values().map(|session| session.bytes()).sum()
    }

    /// Forgets a client's history.
    pub fn client_end(&mut self, client: ClientId) {
        if let Some(session) = self.sessions.remove(&client) {
            self.foreign.leave(&session.asked);
        }
    }

    /// Changes the time between samples.
    pub fn set_interval(&mut self, interval: std::time::Duration) {
        self.foreign.set_interval(interval);
        self.follow();
    }

    /// Puts definitions in place of those before. Unchanged ones keep their history, unless operands among
    /// `changed` are in them.
    fn replace(&mut self, wanted: Vec<Wanted>, dialect: Dialect, changed: HashSet<Arc<str>>) {
        let before = std::mem::take(&mut self.entries);
        let registry = Arc::make_mut(&mut self.registry);
        if self.dialect != dialect {
            // Another language: nothing means what it did.
            self.dialect = dialect;
            *registry = Registry::new(dialect);
            self.binder.reset();
            for session in self.sessions.values_mut() {
                session.forget();
            }
        }
        let outdated = definitions::outdated(registry, &wanted, changed);
        registry.retain(|definition| !outdated.contains(&definition.name));
        let mut registered = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            match self.ids.get_or_add(&wanted.name) {
                Ok(id) => {
                    let engine = definitions::register(registry, &self.catalogue, &wanted);
                    registered.push((pmid(id), engine, wanted));
                }
                Err(error) => {
                    // A metric without identity could mean another one tomorrow.
                    tracing::error!("{ROOT}.{} is left out: {error}", wanted.name);
                }
            }
        }
        let waiting = self.name_operands();
        // Only now, as definitions may use later ones.
        for (pmid, engine, wanted) in registered {
            let standing = match engine.and_then(|engine| self.bind(engine, pmid, &waiting)) {
                Ok(standing) => standing,
                Err(reason) => Standing::Refused(reason),
            };
            self.entries.insert(wanted.name.clone(), Entry { pmid, wanted, standing });
        }
        // The reasons have been told better.
        self.binder.take_messages();
        self.by_pmid = self.entries.iter().map(|(name, e)| (e.pmid.local(), name.clone())).collect();
        if seen(&before) != seen(&self.entries) {
            self.generation += 1;
        }
        self.follow();
    }

    /// Settles which operands are other agents', and gives the definitions that wait for news of them; those
    /// that are refused for naming too many are not among them.
    fn name_operands(&mut self) -> HashSet<Arc<str>> {
        let most = if self.foreign.host.is_some() { self.max_operands } else { 0 };
        let names = definitions::foreign_names(&self.registry, &self.catalogue, most);
        self.foreign.set_names(&names);
        self.foreign.fill(Arc::make_mut(&mut self.catalogue));
        definitions::waiting(&self.registry, &self.foreign)
    }

    fn bind(&mut self, engine: Pmid, pmid: Pmid, waiting: &HashSet<Arc<str>>) -> Result<Standing, String> {
        let name = self.registry.find_pmid(engine).map(|definition| &definition.name);
        if name.is_some_and(|name| waiting.contains(name)) {
            return Ok(Standing::Waiting);
        }
        match self.binder.binding(&self.registry, &mut Metadata(&self.catalogue), engine) {
            Ok(bound) => {
                let needs = definitions::check(&bound, &self.catalogue, &self.foreign, self.domain)?;
                Ok(Standing::Usable { engine, desc: bound.meta().desc(pmid), needs: needs.map(Arc::new) })
            }
            Err(Some(error)) => Err(definitions::reason(&error, &self.foreign, self.max_operands)),
            Err(None) => Err("the name is taken by another metric".to_owned()),
        }
    }

    /// Other things have become known of these operands.
    fn learn(&mut self, changed: HashSet<Arc<str>>) {
        let before: BTreeMap<String, Standing> =
            self.entries.iter().map(|(name, entry)| (name.clone(), entry.standing.clone())).collect();
        let wanted = self.entries.values().map(|entry| entry.wanted.clone()).collect();
        self.replace(wanted, self.dialect, changed);
        for (name, entry) in &self.entries {
            match (&entry.standing, before.get(name)) {
                (Standing::Refused(_), before) if before != Some(&entry.standing) => entry.tell_refusal(name),
                (Standing::Usable { .. }, Some(Standing::Refused(_))) => {
                    tracing::info!("{ROOT}.{name} can be used now");
                }
                _ => {}
            }
        }
    }

    /// What the definitions that clients want need.
    fn needs(&mut self) -> Needs {
        let mut all = Needs::default();
        let (by_pmid, entries) = (&self.by_pmid, &self.entries);
        for local in self.foreign.interesting() {
            let entry = by_pmid.get(&local).and_then(|name| entries.get(name));
            if let Some(Entry { standing: Standing::Usable { needs: Some(needs), .. }, .. }) = entry {
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

    fn entry(&self, pmid: Pmid) -> Option<&Entry> {
        self.entries.get(self.by_pmid.get(&pmid.local())?)
    }
}

impl Entry {
    fn desc(&self) -> Option<Desc> {
        match self.standing {
            Standing::Usable { desc, .. } => Some(desc),
            Standing::Waiting | Standing::Refused(_) => None,
        }
    }

    fn tell_refusal(&self, name: &str) {
        if let Standing::Refused(reason) = &self.standing {
            tracing::error!("{}: {ROOT}.{name} cannot be used: {reason}", self.wanted.file.display());
        }
    }
}

/// Takes what the sampler has reported.
pub fn take_report(core: &mut Core<State>) {
    if let Some(report) = core.state.derived.foreign.report() {
        apply(core, report);
    }
}

/// Puts a report into effect. The agent's own metrics that definitions have next to sampled ones are read now:
/// the values of a definition are of one time.
fn apply(core: &mut Core<State>, report: Report) {
    let (changed, sample) = core.state.derived.foreign.apply(report);
    if !changed.is_empty() {
        core.state.derived.learn(changed);
    }
    let needs = core.state.derived.needs();
    if let Some(sample) = sample {
        let mut own = FxHashMap::default();
        for &local in &needs.own {
            let mut values = Vec::new();
            let read = core.own_values(Pmid(local), &mut values);
            own.insert(local, read.map(|()| values));
        }
        core.state.derived.foreign.set_newest(Snapshot { sample, own });
    }
    core.state.derived.foreign.follow(&needs);
}

/// What a client sees of definitions without asking for values.
fn seen(entries: &BTreeMap<String, Entry>) -> Vec<(Pmid, Option<Desc>)> {
    entries.values().map(|entry| (entry.pmid, entry.desc())).collect()
}

fn full_name(name: &str) -> String {
    format!("{ROOT}.{name}")
}

/// The PMID of a name's number, without a domain.
fn pmid(id: i32) -> Pmid {
    // The map holds no larger or negative ids than there are items in the clusters.
    Pmid::new(0, CLUSTERS.start() + (id / ITEMS) as u16, (id % ITEMS) as u16)
}

/// The start of a text, if it is longer than `most` bytes.
fn cut(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}...", pcp_model::text::cut(text, most)))
}

/// The dynamic subtree over [`State::derived`].
pub struct DerivedMetrics;

impl Subtree<State> for DerivedMetrics {
    fn generation(&self, state: &State) -> u64 {
        state.derived.generation
    }

    fn names(&self, state: &State, name: &mut dyn FnMut(&str, Pmid)) {
        for (leaf, entry) in state.derived.entries.iter().filter(|(_, entry)| entry.desc().is_some()) {
            name(leaf, entry.pmid);
        }
    }

    fn unlisted(&self, state: &State, name: &mut dyn FnMut(&str, Pmid)) {
        for (leaf, entry) in state.derived.entries.iter().filter(|(_, entry)| entry.desc().is_none()) {
            name(leaf, entry.pmid);
        }
    }

    fn desc(&self, state: &State, pmid: Pmid) -> Option<Desc> {
        state.derived.entry(pmid)?.desc()
    }

    fn desc_error(&self, state: &State, pmid: Pmid) -> PmError {
        match state.derived.entry(pmid).map(|entry| &entry.standing) {
            Some(Standing::Waiting) => PmError::AGAIN,
            _ => PmError::BADDERIVE,
        }
    }

    fn compute(
        &self,
        own: &mut OwnMetrics<'_, State>,
        call: &Call<'_>,
        values: &mut SetWriter<'_>,
    ) -> Result<(), PmError> {
        let derived = &mut own.state.derived;
        let (engine, needs) = match &derived.entry(call.pmid).ok_or(PmError::PMID)?.standing {
            Standing::Usable { engine, needs, .. } => (*engine, needs.clone()),
            Standing::Waiting => return Err(PmError::AGAIN),
            Standing::Refused(_) => return Err(PmError::BADDERIVE),
        };
        let (registry, catalogue) = (Arc::clone(&derived.registry), Arc::clone(&derived.catalogue));
        // Taken out of the state, which operands are read from meanwhile.
        let mut session = match derived.sessions.remove(&call.client) {
            Some(session) => session,
            None if derived.history_bytes() as u64 >= derived.history_budget => return Err(PmError::AGAIN),
            None => Box::default(),
        };
        let definition = (engine, &*registry, &*catalogue);
        let result = match needs {
            None => session.write(definition, own, call, values),
            Some(needs) => {
                if session.ask(call.pmid) {
                    derived.foreign.join(call.pmid.local());
                    derived.follow();
                }
                match derived.foreign.fresh(&needs) {
                    Ok(snapshot) => session.write_sampled(definition, &snapshot, own, call, values),
                    Err(error) => Err(error),
                }
            }
        };
        own.state.derived.sessions.insert(call.client, session);
        result
    }

    fn text(&self, state: &State, pmid: Pmid, kind: TextKind) -> Option<String> {
        let Entry { wanted: Wanted { expression, oneline, help, .. }, standing, .. } =
            state.derived.entry(pmid)?;
        if let Standing::Refused(reason) = standing {
            let text = format!("cannot be used: {reason}");
            return Some(cut(&text, if kind == TextKind::OneLine { MAX_ONELINE } else { MAX_TEXT }).into());
        }
        let text = match (kind, oneline, help) {
            (TextKind::OneLine, Some(oneline), _) => oneline.clone(),
            (TextKind::OneLine, None, _) => format!("derived: {}", cut(expression, MAX_ONELINE)),
            (TextKind::Help, _, Some(help)) => help.clone(),
            (TextKind::Help, Some(oneline), None) => format!("{oneline}\n\nDerived: {expression}"),
            (TextKind::Help, None, None) => format!("Derived: {expression}"),
        };
        Some(cut(&text, MAX_TEXT).into())
    }
}

#[cfg(test)]
mod sampled_tests;
#[cfg(test)]
mod tests;
