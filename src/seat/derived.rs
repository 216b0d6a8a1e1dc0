//! `jumpseat.derived.*`: metrics computed from the agent's own metrics, in the fetch that asks for them.
//!
//! ```text
//! files --derived_files--> definitions --reload--> Derived: registry, descriptors, texts, PMIDs
//!                                                     |
//!                 fetch of a client --> its Session: bindings and history <-- values of own metrics
//! ```
//!
//! Each client has a [`Session`] from its first fetch of a derived metric until it goes, so `rate` and
//! `delta` see that client's own intervals. A reload replaces what has changed, and whatever is made of
//! what has changed; all else keeps its history. Definitions that cannot be used keep their name and PMID
//! (a client that asks is told `PM_ERR_BADDERIVE`) but are not listed, as in PCP.
//!
//! Cost of a fetch: the operands' callbacks once for each fetch, however many derived metrics it asks for,
//! and one pass over the instances for each node of the expressions.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::agent::{Call, ClientId, OwnMetrics, SetWriter, Subtree, TextKind};
use crate::derive::{
    BindError, BindErrorKind, Context, Definition, Dialect, Kind, Meta, Registry, Tree, parse,
};
use crate::ids::{IdMap, IdsError};
use crate::model::{Desc, InDom, PmError, Pmid, ValueType};

use super::State;
use super::config::DerivedConfig;
use super::derived_files::{self, Definitions, FilesError, Wanted};
use super::derived_world::{Catalogue, Metadata, Session, World};

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
#[derive(Debug)]
pub struct Derived {
    catalogue: Arc<Catalogue>,
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
    generation: u64,
    reloads: u32,
    /// [`DerivedConfig::history_budget`].
    history_budget: u64,
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    pmid: Pmid,
    wanted: Wanted,
    /// The engine's PMID and the descriptor, or why there is none.
    usable: Result<(Pmid, Desc), String>,
}

impl Default for Derived {
    fn default() -> Derived {
        Derived::with_ids(Catalogue::default(), IdMap::in_memory())
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
        Ok(Derived::with_ids(catalogue, IdMap::load(file.as_deref(), clusters * ITEMS - 1)?))
    }

    fn with_ids(catalogue: Catalogue, ids: IdMap) -> Derived {
        let dialect = Dialect::default();
        Derived {
            catalogue: Arc::new(catalogue),
            ids,
            dialect,
            registry: Arc::new(Registry::new(dialect)),
            binder: Context::new(),
            entries: BTreeMap::new(),
            by_pmid: FxHashMap::default(),
            sessions: FxHashMap::default(),
            generation: 0,
            reloads: 0,
            history_budget: DerivedConfig::default().history_budget.0,
        }
    }

    /// Reads the definition files (again), and tells the log what is wrong with them.
    ///
    /// # Errors
    /// Files that cannot be read or are too large; nothing has changed then.
    pub fn reload(&mut self, config: &DerivedConfig) -> Result<(), FilesError> {
        let dialect = if config.portable { Dialect::portable() } else { Dialect::default() };
        let Definitions { wanted, problems } = derived_files::read(config.files.as_deref(), dialect)?;
        for problem in problems {
            tracing::error!("{problem}");
        }
        self.history_budget = config.history_budget.0;
        self.replace(wanted, dialect);
        for (name, entry) in &self.entries {
            if let Err(reason) = &entry.usable {
                tracing::error!("{}: {ROOT}.{name} cannot be used: {reason}", entry.wanted.file.display());
            }
        }
        self.reloads = self.reloads.wrapping_add(1);
        Ok(())
    }

    /// How often the files have been read since the start, when they were read first.
    pub fn reloads(&self) -> u32 {
        self.reloads.saturating_sub(1)
    }

    /// How many definitions can be used, and how many cannot.
    pub fn counts(&self) -> (usize, usize) {
        let usable = self.entries.values().filter(|entry| entry.usable.is_ok()).count();
        (usable, self.entries.len() - usable)
    }

    /// Memory for values of earlier fetches, of all clients, in bytes.
    pub fn history_bytes(&self) -> usize {
        self.sessions.values().map(|session| session.context.history_bytes()).sum()
    }

    /// Forgets a client's history.
    pub fn client_end(&mut self, client: ClientId) {
        self.sessions.remove(&client);
    }

    /// Puts definitions in place of those before. Unchanged ones keep their history.
    fn replace(&mut self, wanted: Vec<Wanted>, dialect: Dialect) {
        let before = std::mem::take(&mut self.entries);
        let registry = Arc::make_mut(&mut self.registry);
        if self.dialect != dialect {
            // Another language: nothing means what it did.
            self.dialect = dialect;
            *registry = Registry::new(dialect);
            self.binder.reset();
            for session in self.sessions.values_mut() {
                session.context.reset();
            }
        }
        let outdated = outdated(registry, &wanted);
        registry.retain(|definition| !outdated.contains(&definition.name));
        let mut metadata = Metadata(&self.catalogue);
        let mut registered = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            match self.ids.get_or_add(&wanted.name) {
                Ok(id) => registered.push((pmid(id), register(registry, &self.catalogue, &wanted), wanted)),
                Err(error) => {
                    // A metric without identity could mean another one tomorrow.
                    tracing::error!("{ROOT}.{} is left out: {error}", wanted.name);
                }
            }
        }
        // Only now, as definitions may use later ones.
        for (pmid, engine, wanted) in registered {
            let usable =
                engine.and_then(|engine| match self.binder.binding(registry, &mut metadata, engine) {
                    Ok(bound) => check(bound.meta(), &self.catalogue).map(|meta| (engine, meta.desc(pmid))),
                    Err(Some(error)) => Err(reason(&error)),
                    Err(None) => Err("the name is taken by another metric".to_owned()),
                });
            self.entries.insert(wanted.name.clone(), Entry { pmid, wanted, usable });
        }
        // The reasons have been told better.
        self.binder.take_messages();
        self.by_pmid = self.entries.iter().map(|(name, e)| (e.pmid.local(), name.clone())).collect();
        if seen(&before) != seen(&self.entries) {
            self.generation += 1;
        }
    }

    fn entry(&self, pmid: Pmid) -> Option<&Entry> {
        self.entries.get(self.by_pmid.get(&pmid.local())?)
    }
}

/// What a client sees of definitions without asking for values.
fn seen(entries: &BTreeMap<String, Entry>) -> Vec<(Pmid, Option<Desc>)> {
    let seen = |entry: &Entry| (entry.pmid, entry.usable.as_ref().ok().map(|(_, desc)| *desc));
    entries.values().map(seen).collect()
}

fn full_name(name: &str) -> String {
    format!("{ROOT}.{name}")
}

/// The PMID of a name's number, without a domain.
fn pmid(id: i32) -> Pmid {
    // The map holds no larger or negative ids than there are items in the clusters.
    Pmid::new(0, CLUSTERS.start() + (id / ITEMS) as u16, (id % ITEMS) as u16)
}

/// The definitions to be taken out: those that are gone or have another expression, and, up to the last,
/// those made of something that has come, gone or changed.
fn outdated(registry: &Registry, wanted: &[Wanted]) -> HashSet<Arc<str>> {
    let new: HashMap<String, &str> =
        wanted.iter().map(|wanted| (full_name(&wanted.name), wanted.expression.as_str())).collect();
    let same = |definition: &Definition| new.get(&*definition.name) == Some(&&*definition.expression);
    let mut outdated: HashSet<Arc<str>> = HashSet::new();
    let mut touched: HashSet<Arc<str>> = new.keys().map(|name| name.as_str().into()).collect();
    for definition in registry.definitions() {
        if same(definition) {
            touched.remove(&definition.name);
        } else {
            touched.insert(definition.name.clone());
            outdated.insert(definition.name.clone());
        }
    }
    loop {
        let before = outdated.len();
        for definition in registry.definitions() {
            if !outdated.contains(&definition.name)
                && names(&definition.tree).any(|(name, _)| touched.contains(name))
            {
                outdated.insert(definition.name.clone());
                touched.insert(definition.name.clone());
            }
        }
        if outdated.len() == before {
            return outdated;
        }
    }
}

/// The metrics that an expression names, each with whether its values are wanted.
fn names(tree: &Tree) -> impl Iterator<Item = (&str, bool)> {
    tree.nodes().iter().filter_map(|node| match &node.kind {
        Kind::Metric(name) => Some((&**name, true)),
        Kind::Defined(name) => Some((&**name, false)),
        Kind::Constant(constant) => Some((constant.tags.as_ref()?.meta.as_deref()?, false)),
        Kind::NoValue(tags) => Some((tags.meta.as_deref()?, false)),
        _ => None,
    })
}

/// Puts a definition into the registry, unless it is there. The engine's PMID, or why it cannot be used.
fn register(registry: &mut Registry, catalogue: &Catalogue, wanted: &Wanted) -> Result<Pmid, String> {
    let name = full_name(&wanted.name);
    if let Some(definition) = registry.find(&name) {
        return Ok(definition.pmid);
    }
    let tree = parse(&wanted.expression, registry.dialect()).map_err(|error| error.to_string())?;
    let is_events = |name: &str| catalogue.by_name.get(name).is_some_and(is_events);
    if let Some((operand, _)) = names(&tree).find(|(name, values)| *values && is_events(name)) {
        return Err(format!(
            "{operand} gives event records, which are nothing to compute with, and each of which a client \
             gets only once"
        ));
    }
    registry.register(&name, &wanted.expression).map_err(|error| error.to_string())
}

/// Refuses what can be bound and yet is no metric of this agent's.
fn check(meta: Meta, catalogue: &Catalogue) -> Result<Meta, String> {
    let known = |indom| catalogue.by_pmid.values().any(|desc| desc.indom == indom);
    if meta.is_set() && !known(meta.indom) {
        return Err(format!("instance domain {} is not one of this agent's", meta.indom));
    }
    Ok(meta)
}

fn is_events(desc: &Desc) -> bool {
    matches!(desc.value_type, ValueType::Event | ValueType::HighResEvent)
}

/// Why a definition does not bind, for people.
fn reason(error: &BindError) -> String {
    match &error.kind {
        BindErrorKind::UnknownOperand(name) if name.starts_with("jumpseat.field.") => {
            format!("{name} is a parameter of event records and has no value of its own")
        }
        BindErrorKind::UnknownOperand(name) => format!("{name} is not a metric of this agent"),
        _ => error.to_string(),
    }
}

/// The start of a text, if it is longer than `most` bytes.
fn cut(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let end = (0..=most).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    Cow::Owned(format!("{}...", &text[..end]))
}

/// The dynamic subtree over [`State::derived`].
pub struct DerivedMetrics;

impl Subtree<State> for DerivedMetrics {
    fn generation(&self, state: &State) -> u64 {
        state.derived.generation
    }

    fn names(&self, state: &State, name: &mut dyn FnMut(&str, Pmid)) {
        for (leaf, entry) in state.derived.entries.iter().filter(|(_, entry)| entry.usable.is_ok()) {
            name(leaf, entry.pmid);
        }
    }

    fn unlisted(&self, state: &State, name: &mut dyn FnMut(&str, Pmid)) {
        for (leaf, entry) in state.derived.entries.iter().filter(|(_, entry)| entry.usable.is_err()) {
            name(leaf, entry.pmid);
        }
    }

    fn desc(&self, state: &State, pmid: Pmid) -> Option<Desc> {
        Some(state.derived.entry(pmid)?.usable.as_ref().ok()?.1)
    }

    fn desc_error(&self, _: &State, _: Pmid) -> PmError {
        PmError::BADDERIVE
    }

    fn compute(
        &self,
        own: &mut OwnMetrics<'_, State>,
        call: &Call<'_>,
        values: &mut SetWriter<'_>,
    ) -> Result<(), PmError> {
        let derived = &mut own.state.derived;
        let usable = &derived.entry(call.pmid).ok_or(PmError::PMID)?.usable;
        let definition = usable.as_ref().map_err(|_| PmError::BADDERIVE)?.0;
        let (registry, catalogue) = (Arc::clone(&derived.registry), Arc::clone(&derived.catalogue));
        // Taken out of the state, which operands are read from meanwhile.
        let mut session = match derived.sessions.remove(&call.client) {
            Some(session) => session,
            None if derived.history_bytes() as u64 >= derived.history_budget => return Err(PmError::AGAIN),
            None => Box::default(),
        };
        let world = World::new(&mut *own, &catalogue, call);
        let result = session.write(definition, &registry, &world, values);
        own.state.derived.sessions.insert(call.client, session);
        result
    }

    fn text(&self, state: &State, pmid: Pmid, kind: TextKind) -> Option<String> {
        let Entry { wanted: Wanted { expression, oneline, help, .. }, usable, .. } =
            state.derived.entry(pmid)?;
        if let Err(reason) = usable {
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
mod tests {
    use super::*;
    use crate::agent::Core;
    use crate::model::{IndomProfile, Profile, ProfileState, Timestamp, Value};
    use crate::pdu::{Frame, Pdu, ResultKind, ResultWriter};
    use crate::seat::{Config, Seat, Setup, Signals};

    /// An agent whose definitions are in a file.
    struct Fixture {
        seat: Seat,
        file: std::path::PathBuf,
        profile: Profile,
        _dir: tempfile::TempDir,
    }

    impl Fixture {
        fn new(definitions: &str) -> Fixture {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("derived.conf");
            std::fs::write(&file, definitions).unwrap();
            let mut config = Config::default();
            config.derived.files = Some(vec![file.clone()]);
            let setup = Setup {
                config: &config,
                domain: 400,
                state_dir: Some(dir.path()),
                help: None,
                signals: Signals::Leave,
            };
            Fixture { seat: Seat::open(&setup).unwrap(), file, profile: Profile::default(), _dir: dir }
        }

        fn core(&mut self) -> &mut Core<State> {
            self.seat.server.core()
        }

        fn rewrite(&mut self, definitions: &str) -> bool {
            std::fs::write(&self.file, definitions).unwrap();
            self.core().state.reload()
        }

        fn pmid(&mut self, name: &str) -> Pmid {
            self.core().pmid(&full_name(name)).unwrap()
        }

        /// One fetch, at a time in seconds, with `jumpseat.control.recent` being `recent`.
        fn fetch(
            &mut self,
            client: ClientId,
            time: i64,
            recent: u32,
            names: &[&str],
        ) -> Vec<Result<Vec<Value>, PmError>> {
            let pmids: Vec<Pmid> = names.iter().map(|name| self.pmid(name)).collect();
            let profile = self.profile.clone();
            let core = self.core();
            core.state.limits.recent = recent;
            core.begin_fetch(Timestamp::new(time, 0));
            let mut out = ResultWriter::new(1 << 20);
            for &pmid in &pmids {
                core.fetch(client, &profile, pmid, &mut out).unwrap();
            }
            let parts = out.finish(ResultKind::HighRes, Timestamp::default(), 0).unwrap();
            let mut reader = crate::pdu::FrameReader::new(1 << 20);
            let mut bytes = bytes::BytesMut::new();
            for part in parts {
                bytes.extend_from_slice(part);
            }
            let frame: Frame = reader.next(&mut bytes).unwrap().unwrap();
            let Pdu::HighResResult(result) = Pdu::decode(&frame).unwrap() else { panic!("not a result") };
            let types: Vec<ValueType> = pmids
                .iter()
                .map(|&pmid| core.desc(pmid).map_or(ValueType::Unknown, |desc| desc.value_type))
                .collect();
            result
                .sets
                .iter()
                .zip(types)
                .map(|(set, value_type)| {
                    let values = set.to_values(value_type)?.values?;
                    Ok(values.into_iter().map(|value| value.value).collect())
                })
                .collect()
        }
    }

    #[test]
    fn each_client_has_its_own_history_until_it_goes() {
        let mut fixture =
            Fixture::new("d = delta(jumpseat.control.recent)\nr = rate(jumpseat.control.recent)\n");
        let (a, b) = (fixture.core().client_open(), fixture.core().client_open());
        let both = ["d", "r"];
        assert_eq!(fixture.fetch(a, 100, 10, &both), [Ok(vec![]), Ok(vec![])]);
        assert_eq!(fixture.fetch(b, 101, 14, &both), [Ok(vec![]), Ok(vec![])]);
        let values = |delta, rate| [Ok(vec![Value::I64(delta)]), Ok(vec![Value::Double(rate)])];
        assert_eq!(fixture.fetch(a, 104, 30, &both), values(20, 5.0));
        assert_eq!(fixture.fetch(b, 109, 30, &both), values(16, 2.0));
        let held = fixture.core().state.derived.history_bytes();
        assert!(held > 0);
        fixture.core().client_close(a);
        assert_eq!(fixture.core().state.derived.history_bytes(), held / 2);
        fixture.core().client_close(b);
        assert_eq!(fixture.core().state.derived.history_bytes(), 0);
    }

    #[test]
    fn when_memory_is_used_up_clients_with_a_history_keep_it_and_new_ones_wait() {
        let mut fixture = Fixture::new("d = delta(jumpseat.control.recent)\n");
        let (a, b) = (fixture.core().client_open(), fixture.core().client_open());
        assert_eq!(fixture.fetch(a, 100, 10, &["d"]), [Ok(vec![])]);
        let derived = &mut fixture.core().state.derived;
        derived.history_budget = derived.history_bytes() as u64;
        assert_eq!(fixture.fetch(b, 101, 20, &["d"]), [Err(PmError::AGAIN)]);
        assert_eq!(fixture.fetch(a, 102, 30, &["d"]), [Ok(vec![Value::I64(20)])]);
        fixture.core().client_close(a);
        assert_eq!(fixture.fetch(b, 103, 30, &["d"]), [Ok(vec![])]);
    }

    #[test]
    fn a_reload_costs_the_history_of_what_has_changed_and_of_what_is_made_of_it() {
        let mut fixture = Fixture::new(
            "same = delta(jumpseat.control.recent)\nbase = jumpseat.control.recent\n\
             above = delta(jumpseat.derived.base)\ngone = jumpseat.control.recent\n",
        );
        let client = fixture.core().client_open();
        let names = ["same", "above"];
        let before = fixture.core().generations();
        fixture.fetch(client, 1, 10, &names);
        let ids = names.map(|name| fixture.pmid(name));
        // Another order, another text, another name: nothing that matters.
        assert!(fixture.rewrite(
            "new = 1\nabove = delta(jumpseat.derived.base)\nbase = jumpseat.control.recent\n\
             same = delta(jumpseat.control.recent)\nsame(oneline) = text\n"
        ));
        assert_eq!(names.map(|name| fixture.pmid(name)), ids);
        assert_ne!(fixture.core().generations().names, before.names);
        assert_eq!(fixture.core().pmid("jumpseat.derived.gone"), Err(PmError::NAME));
        let three = || Ok(vec![Value::I64(3)]);
        assert_eq!(fixture.fetch(client, 2, 13, &names), [three(), three()]);
        // What it is made of has changed.
        assert!(fixture.rewrite(
            "above = delta(jumpseat.derived.base)\nbase = 2 * jumpseat.control.recent\n\
             same = delta(jumpseat.control.recent)\n"
        ));
        assert_eq!(fixture.fetch(client, 3, 16, &names), [three(), Ok(vec![])]);
        assert_eq!(fixture.fetch(client, 4, 19, &names), [three(), Ok(vec![Value::I64(6)])]);
        // Files that cannot be read change nothing.
        std::fs::remove_file(&fixture.file).unwrap();
        assert!(!fixture.core().state.reload());
        assert_eq!(fixture.fetch(client, 5, 22, &["same"]), [three()]);
    }

    #[test]
    fn what_cannot_be_used_is_found_by_name_but_not_listed() {
        let mut fixture = Fixture::new(
            "good = 1\nforeign = kernel.all.load + 1\nevents = count(jumpseat.event.records)\n\
             field = jumpseat.field.type\nuser = jumpseat.derived.foreign + 1\nloop = jumpseat.derived.loop\n\
             indom = mkconst(1, indom=\"60.1\")\nasked = defined(jumpseat.event.records)\n",
        );
        assert_eq!(fixture.core().state.derived.counts(), (2, 6));
        let listed = fixture.core().traverse(ROOT).unwrap();
        assert_eq!(listed, ["jumpseat.derived.asked", "jumpseat.derived.good"]);
        let client = fixture.core().client_open();
        for (name, reason) in [
            ("foreign", "kernel.all.load is not a metric of this agent"),
            ("events", "jumpseat.event.records gives event records"),
            ("field", "jumpseat.field.type is a parameter of event records"),
            ("user", "operand jumpseat.derived.foreign: Derived operand has errors"),
            ("loop", "jumpseat.derived.loop -> jumpseat.derived.loop"),
            ("indom", "instance domain 60.1 is not one of this agent's"),
        ] {
            let pmid = fixture.pmid(name);
            assert_eq!(fixture.core().desc(pmid), Err(PmError::BADDERIVE), "{name}");
            assert_eq!(fixture.core().names(pmid).unwrap(), [full_name(name)]);
            let text = fixture.core().metric_text(pmid, TextKind::Help).unwrap();
            assert!(text.starts_with(&format!("cannot be used: {reason}")), "{name}: {text}");
            assert_eq!(fixture.fetch(client, 1, 1, &[name]), [Err(PmError::BADDERIVE)], "{name}");
        }
        assert_eq!(fixture.fetch(client, 1, 1, &["asked"]), [Ok(vec![Value::U32(1)])]);
    }

    #[test]
    fn texts_are_those_of_the_file_or_the_expression() {
        let long = format!("1{}", " + 1".repeat(5000));
        let mut fixture = Fixture::new(&format!(
            "a = 1\na(oneline) = one\na(helptext) = two\nb = 1\nb(oneline) = one\nc = 1 + 1\nd = {long}\n"
        ));
        let mut texts = |name: &str| {
            let pmid = fixture.pmid(name);
            [TextKind::OneLine, TextKind::Help].map(|kind| fixture.core().metric_text(pmid, kind).unwrap())
        };
        assert_eq!(texts("a"), ["one", "two"]);
        assert_eq!(texts("b"), ["one", "one\n\nDerived: 1"]);
        assert_eq!(texts("c"), ["derived: 1 + 1", "Derived: 1 + 1"]);
        let [oneline, help] = texts("d");
        assert!(oneline.len() < 100 && oneline.ends_with("..."), "{oneline}");
        assert!(help.len() < MAX_TEXT + 10 && help.ends_with("..."), "{}", help.len());
    }

    #[test]
    fn operands_are_read_under_the_clients_profile() {
        let mut fixture = Fixture::new(
            "all = jumpseat.source.received\nsum = sum(jumpseat.source.received)\none = jumpseat.source.received[one]\n\
             set = mkconst(7, meta=jumpseat.source.received, type=u32)\nnot = matchinst(!/zero/, jumpseat.source.received)\n",
        );
        let core = fixture.core();
        for (id, name) in [(0, "zero"), (1, "one one")] {
            core.state.define(crate::source::Definition::Source { id, name: name.to_owned() });
            core.state.sources.get_mut(&id).unwrap().received = 5 + id as u64;
        }
        let client = core.client_open();
        let names = ["all", "sum", "one", "set", "not"];
        let u64s = |values: &[u64]| Ok(values.iter().map(|&value| Value::U64(value)).collect());
        let u32s = |values: &[u32]| Ok(values.iter().map(|&value| Value::U32(value)).collect());
        let all = fixture.fetch(client, 1, 1, &names);
        assert_eq!(all, [u64s(&[5, 6]), u64s(&[11]), u64s(&[6]), u32s(&[7, 7]), u64s(&[6])]);
        let sources = InDom::new(400, crate::source::registry::SOURCE_SERIAL);
        let only_zero = IndomProfile { indom: sources, state: ProfileState::Exclude, instances: vec![0] };
        fixture.profile.indoms.push(only_zero);
        let some = fixture.fetch(client, 2, 1, &names);
        assert_eq!(some, [u64s(&[5]), u64s(&[5]), u64s(&[]), u32s(&[7]), u64s(&[])]);
        let pmid = fixture.pmid("all");
        let desc = fixture.core().desc(pmid).unwrap();
        assert_eq!((desc.indom, desc.pmid), (sources, Pmid::new(400, *CLUSTERS.start(), 0)));
    }

    #[test]
    fn the_definitions_that_are_shipped_are_right_and_portable() {
        let mut fixture = Fixture::new("");
        for portable in [false, true] {
            let config = DerivedConfig { portable, ..DerivedConfig::default() };
            fixture.core().state.derived.reload(&config).unwrap();
            let entries = &fixture.core().state.derived.entries;
            assert!(entries.len() >= 5);
            for (name, entry) in entries {
                assert!(entry.usable.is_ok(), "{name}: {entry:?}");
                assert!(entry.wanted.oneline.is_some() && entry.wanted.help.is_some(), "{name}");
            }
        }
    }
}
