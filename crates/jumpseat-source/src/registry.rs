//! Names to ids, for good: fields, sources and (source, event type) pairs.
//!
//! One [`Registry`] is shared by all source threads, behind a mutex that only they take, and only for
//! names they have not met before: each thread keeps a [`FieldCache`] (and lanes keep theirs for event
//! types), so that the cost per field of an event is one hash look-up without a lock. A new name is
//! appended to its id file before anybody sees the id, then announced as a [`Definition`] on an
//! unbounded channel. The channel is bounded all the same, by the caps on the number of names.
//!
//! What exceeds a cap is folded, never dropped: a field becomes `name=value` in `jumpseat.field.other`,
//! an event type counts under `source/(other)`, a source becomes the listener's default source.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use crossbeam_channel::{Receiver, Sender, unbounded};
use rustc_hash::{FxHashMap, FxHashSet};

use super::gate::Gate;
use super::names::{LeafNames, type_of_word, type_word};
use super::report::Limiter;
use super::rules::Rules;
use pcp_event::filter::FieldResolver;
use pcp_ids::{IdMap, IdsError, MAX_ID};
use pcp_model::{Inst, Pmid, ValueType};

/// Serial of the id file, and of the instance domain, of sources.
pub const SOURCE_SERIAL: u32 = 1;
/// Serial of the id file, and of the instance domain, of (source, event type) pairs.
pub const TYPE_SERIAL: u32 = 2;
/// Serial of the id file, and of the instance domain, of spans.
pub const SPAN_SERIAL: u32 = 6;
/// Serial of the id file of fields.
pub const FIELD_SERIAL: u32 = 4;
/// First cluster of `jumpseat.field`; field `n` is item `n % 1024` of cluster `16 + n / 1024`.
pub const FIELD_CLUSTER: u16 = 16;
/// Most fields the sixteen clusters can hold.
pub const MAX_FIELDS: usize = 16 * 1024;
/// Longest source name in bytes.
pub const MAX_SOURCE_NAME: usize = 64;
/// Longest event type in bytes, as far as counting by type goes.
pub const MAX_TYPE_NAME: usize = 64;
/// Longest field name in bytes.
pub const MAX_FIELD_NAME: usize = 128;
/// Counted under this event type: events without a type.
pub const UNTYPED: &str = "(none)";
/// Counted under this event type: events of types beyond the cap.
pub const OTHER_TYPES: &str = "(other)";

/// The fields every jumpseat agent has, with their fixed ids. Up to [`FIRST_FREE`] ids are reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum WellKnown {
    /// Event type.
    Type = 0,
    /// Message text.
    Message = 1,
    /// Severity, one of [`jumpseat_wire::severity::WORDS`] where it was recognised.
    Severity = 2,
    /// Span id that is text.
    SpanId = 3,
    /// Parent span id that is text.
    ParentId = 4,
    /// Number of lost records, in the record that tells of them.
    Missed = 5,
    /// Span id that is a number.
    SpanIdU64 = 6,
    /// Parent span id that is a number.
    ParentIdU64 = 7,
    /// `name=value` of fields beyond the cap.
    Other = 8,
}

/// First id of fields that come from events.
pub const FIRST_FREE: usize = 16;

const WELL_KNOWN: [(&str, ValueType); 9] = [
    ("type", ValueType::String),
    ("message", ValueType::String),
    ("severity", ValueType::String),
    ("span_id", ValueType::String),
    ("parent_id", ValueType::String),
    ("missed", ValueType::U64),
    ("span_id_u64", ValueType::U64),
    ("parent_id_u64", ValueType::U64),
    ("other", ValueType::String),
];

/// The PMID of field number `id`.
pub const fn field_pmid(domain: u16, id: u16) -> Pmid {
    Pmid::new(domain, FIELD_CLUSTER + id / 1024, id % 1024)
}

impl WellKnown {
    /// The field's PMID.
    pub const fn pmid(self, domain: u16) -> Pmid {
        field_pmid(domain, self as u16)
    }
}

/// A name the core has to know before the first delivery that uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Definition {
    /// An instance of the sources' instance domain.
    Source {
        /// Instance id.
        id: Inst,
        /// Instance name.
        name: String,
        /// What it lets through.
        gate: Arc<Gate>,
    },
    /// An instance of the (source, event type) instance domain.
    EventType {
        /// Instance id.
        id: Inst,
        /// The source's instance id.
        source: Inst,
        /// Instance name, `source/type`.
        name: String,
        /// The event type alone.
        event_type: String,
    },
    /// An instance of the spans' instance domain.
    Span {
        /// Instance id.
        id: Inst,
        /// The source's instance id.
        source: Inst,
        /// Instance name, `source/span`.
        name: String,
        /// The span's name alone.
        span: String,
    },
    /// A metric below `jumpseat.field`.
    Field {
        /// The metric.
        pmid: Pmid,
        /// The last component of the metric's name.
        leaf: String,
        /// The field's name as events carry it.
        field: String,
        /// Type of its values.
        value_type: ValueType,
    },
}

/// Where ids persist and how many there may be.
#[derive(Clone, Debug)]
pub struct RegistryConfig {
    /// The agent's domain number.
    pub domain: u16,
    /// Directory of the id files; `None` keeps ids in memory only.
    pub dir: Option<PathBuf>,
    /// Most fields, the reserved ones included; at most [`MAX_FIELDS`].
    pub max_fields: usize,
    /// Most sources.
    pub max_sources: usize,
    /// Most (source, event type) pairs.
    pub max_types: usize,
    /// Most spans, counted as pairs of source and name.
    pub max_spans: usize,
    /// What sources let through.
    pub rules: Rules,
}

impl RegistryConfig {
    /// Defaults, in memory only.
    pub fn new(domain: u16) -> RegistryConfig {
        let rules = Rules::default();
        RegistryConfig {
            domain,
            dir: None,
            max_fields: 4096,
            max_sources: 256,
            max_types: 4096,
            max_spans: 1000,
            rules,
        }
    }
}

/// The registry could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// An id file could not be read or written.
    #[error("id file {file}: {error}")]
    File {
        /// The file's name, `DOMAIN.SERIAL`.
        file: String,
        /// What went wrong.
        error: IdsError,
    },
    /// An id file has names of another form.
    #[error(
        "id file {file}: id {id} is {found:?}, expected {expected}; restore the file, or remove it to start afresh"
    )]
    Content {
        /// The file's name.
        file: String,
        /// The id.
        id: Inst,
        /// What the file has there.
        found: String,
        /// What should be there.
        expected: String,
    },
}

/// A source cannot have this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceRefused {
    /// Not a valid name.
    #[error("not a source name: 1 to 64 bytes without blanks, slashes, control characters and leading [")]
    Name,
    /// The cap is reached.
    #[error("there are as many sources as the configuration allows")]
    Full,
    /// The id could not be stored.
    #[error("its id could not be stored")]
    Store,
}

/// Where a field's values go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldRef {
    /// The field's own metric.
    Own(Pmid),
    /// [`WellKnown::Other`], as `name=value`.
    Folded,
}

/// Names to ids. See the module's description.
#[derive(Debug)]
pub struct Registry {
    domain: u16,
    max_fields: usize,
    max_sources: usize,
    max_types: usize,
    /// Sources that had to become the default source.
    pub sources_refused: AtomicU64,
    /// Event types counted under [`OTHER_TYPES`]; how often a new name was refused.
    pub types_folded: AtomicU64,
    /// Names of spans beyond the cap, counted under [`OTHER_TYPES`].
    pub spans_folded: AtomicU64,
    max_spans: usize,
    /// Grows with each field.
    generation: AtomicU64,
    /// For gates of sources that are new.
    rules: ArcSwap<Rules>,
    tables: Mutex<Tables>,
}

#[derive(Debug)]
struct Tables {
    sources: IdMap,
    types: IdMap,
    fields: IdMap,
    spans: IdMap,
    /// Spans that the core knows of.
    told: FxHashSet<Inst>,
    leaves: LeafNames,
    gates: FxHashMap<Inst, Arc<Gate>>,
    announce: Sender<Definition>,
    report: Limiter,
}

impl Registry {
    /// Loads the id files. The receiver first yields everything already known.
    ///
    /// # Errors
    /// [`RegistryError`] when a file cannot be read, created or is not what this agent wrote.
    pub fn open(config: &RegistryConfig) -> Result<(Arc<Registry>, Receiver<Definition>), RegistryError> {
        let load = |serial: u32, max: Inst| {
            let file = format!("{}.{serial}", config.domain);
            let path = config.dir.as_ref().map(|dir| dir.join(&file));
            IdMap::load(path.as_deref(), max).map_err(|error| RegistryError::File { file, error })
        };
        let (announce, definitions) = unbounded();
        let mut tables = Tables {
            sources: load(SOURCE_SERIAL, MAX_ID)?,
            types: load(TYPE_SERIAL, MAX_ID)?,
            fields: load(FIELD_SERIAL, MAX_FIELDS as Inst - 1)?,
            spans: load(SPAN_SERIAL, MAX_ID)?,
            told: FxHashSet::default(),
            leaves: LeafNames::default(),
            gates: FxHashMap::default(),
            announce,
            report: Limiter::new(3, Duration::from_secs(60)),
        };
        tables.reserve_fields(config.domain)?;
        tables.announce_known(config.domain, &config.rules)?;
        let registry = Registry {
            domain: config.domain,
            max_fields: config.max_fields.min(MAX_FIELDS),
            max_sources: config.max_sources,
            max_types: config.max_types,
            sources_refused: AtomicU64::new(0),
            types_folded: AtomicU64::new(0),
            spans_folded: AtomicU64::new(0),
            max_spans: config.max_spans,
            generation: AtomicU64::new(0),
            rules: ArcSwap::from_pointee(config.rules.clone()),
            tables: Mutex::new(tables),
        };
        Ok((Arc::new(registry), definitions))
    }

    /// The agent's domain number.
    pub fn domain(&self) -> u16 {
        self.domain
    }

    /// The instance id of a source.
    ///
    /// # Errors
    /// [`SourceRefused`]; the caller then uses its default source.
    pub fn source(&self, name: &str) -> Result<Inst, SourceRefused> {
        let refused = |why| {
            self.sources_refused.fetch_add(1, Ordering::Relaxed);
            Err(why)
        };
        if !is_source_name(name) {
            return refused(SourceRefused::Name);
        }
        let mut tables = self.lock();
        if let Some(id) = tables.sources.get(name) {
            return Ok(id);
        }
        if tables.sources.len() >= self.max_sources {
            return refused(SourceRefused::Full);
        }
        match tables.sources.get_or_add(name) {
            Ok(id) => {
                let gate = tables.gate(id, name, &self.rules.load());
                tables.announce(Definition::Source { id, name: name.to_owned(), gate });
                Ok(id)
            }
            Err(error) => {
                tables.complain("source", name, &error);
                refused(SourceRefused::Store)
            }
        }
    }

    /// What a source lets through.
    pub fn gate(&self, source: Inst) -> Arc<Gate> {
        let mut tables = self.lock();
        let name = tables.sources.name(source).unwrap_or_default().to_owned();
        tables.gate(source, &name, &self.rules.load())
    }

    /// Replaces the rules for sources that are new from now on. The gates of the others are the caller's to set.
    pub fn set_rules(&self, rules: Rules) {
        self.rules.store(Arc::new(rules));
    }

    /// The instance id that events of this type (`None`: without a type) count under. `None` when not even the
    /// id of [`OTHER_TYPES`] could be stored: such events count by source only.
    pub fn event_type(&self, source: Inst, event_type: Option<&[u8]>) -> Option<Inst> {
        let event_type = event_type.map_or_else(|| UNTYPED.to_owned(), tidy_type);
        let mut tables = self.lock();
        let source_name = tables.sources.name(source).unwrap_or_default().to_owned();
        let name = format!("{source_name}/{event_type}");
        if let Some(id) = tables.types.get(&name) {
            return Some(id);
        }
        // One instance per source beyond the cap, so that nothing goes uncounted.
        if tables.types.len() < self.max_types || event_type == OTHER_TYPES {
            match tables.types.get_or_add(&name) {
                Ok(id) => {
                    tables.announce(Definition::EventType { id, source, name, event_type });
                    return Some(id);
                }
                Err(error) => tables.complain("event type", &name, &error),
            }
            if event_type == OTHER_TYPES {
                return None;
            }
        }
        drop(tables);
        self.types_folded.fetch_add(1, Ordering::Relaxed);
        self.event_type(source, Some(OTHER_TYPES.as_bytes()))
    }

    /// Makes known that spans are named like the event type that counts under this instance. Beyond the cap they go
    /// under [`OTHER_TYPES`], one for each source.
    pub fn span(&self, event_type: Inst) {
        let mut tables = self.lock();
        let Some((source, span)) = tables.types.name(event_type).and_then(|name| name.split_once('/')) else {
            return;
        };
        let (source, mut span) = (source.to_owned(), span.to_owned());
        let mut name = format!("{source}/{span}");
        if tables.spans.get(&name).is_none() && tables.spans.len() >= self.max_spans && span != OTHER_TYPES {
            self.spans_folded.fetch_add(1, Ordering::Relaxed);
            span = OTHER_TYPES.to_owned();
            name = format!("{source}/{span}");
        }
        let Some(source) = tables.sources.get(&source) else { return };
        match tables.spans.get_or_add(&name) {
            Ok(id) if tables.told.insert(id) => {
                tables.announce(Definition::Span { id, source, name, span });
            }
            Ok(_) => {}
            Err(error) => tables.complain("span", &name, &error),
        }
    }

    /// The metric of a field. Names are kept as they come, except that control characters become
    /// underscores, blanks at the end go, and what exceeds [`MAX_FIELD_NAME`] bytes is cut.
    pub fn field(&self, name: &str, value_type: ValueType) -> FieldRef {
        let field = tidy_field(name);
        let key = format!("{} {field}", type_word(value_type));
        let mut tables = self.lock();
        if let Some(id) = tables.fields.get(&key) {
            return self.own(id);
        }
        if tables.fields.len() < self.max_fields {
            match tables.fields.get_or_add(&key) {
                Ok(id) => {
                    self.generation.fetch_add(1, Ordering::Relaxed);
                    let leaf = tables.leaves.allocate(&field, value_type);
                    if let FieldRef::Own(pmid) = self.own(id) {
                        tables.announce(Definition::Field { pmid, leaf, field, value_type });
                        return FieldRef::Own(pmid);
                    }
                }
                Err(error) => tables.complain("field", &key, &error),
            }
        }
        FieldRef::Folded
    }

    /// An id beyond the clusters (only a hand-made file has one) cannot be a metric.
    fn own(&self, id: Inst) -> FieldRef {
        match u16::try_from(id) {
            Ok(id) if usize::from(id) < MAX_FIELDS => FieldRef::Own(field_pmid(self.domain, id)),
            _ => FieldRef::Folded,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        // The tables stay consistent at every step, so a panic elsewhere does not spoil them.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For filters on the threads of sources.
impl FieldResolver for Registry {
    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    fn resolve(&self, name: &str, found: &mut dyn FnMut(Pmid)) {
        const TYPES: [ValueType; 8] = [
            ValueType::I32,
            ValueType::U32,
            ValueType::I64,
            ValueType::U64,
            ValueType::Float,
            ValueType::Double,
            ValueType::String,
            ValueType::Aggregate,
        ];
        let tables = self.lock();
        for value_type in TYPES {
            let key = format!("{} {name}", type_word(value_type));
            if let Some(FieldRef::Own(pmid)) = tables.fields.get(&key).map(|id| self.own(id)) {
                found(pmid);
            }
        }
    }
}

impl Tables {
    fn gate(&mut self, source: Inst, name: &str, rules: &Rules) -> Arc<Gate> {
        Arc::clone(self.gates.entry(source).or_insert_with(|| Arc::new(Gate::new(rules.of(name).0))))
    }

    fn announce(&self, definition: Definition) {
        // Nobody listens any more only when the agent is shutting down.
        let _ = self.announce.send(definition);
    }

    fn complain(&mut self, what: &str, name: &str, error: &IdsError) {
        if let Some(held_back) = self.report.allow(Instant::now()) {
            tracing::error!(name, held_back, "cannot store the id of a new {what}: {error}");
        }
    }

    /// Puts the well-known fields at their ids in a new file, and checks them in an old one.
    fn reserve_fields(&mut self, domain: u16) -> Result<(), RegistryError> {
        for id in 0..FIRST_FREE {
            let expected = match WELL_KNOWN.get(id) {
                Some((name, value_type)) => format!("{} {name}", type_word(*value_type)),
                None => format!("reserved {id}"),
            };
            self.fields
                .reserve(id as Inst, &expected)
                .map_err(|error| RegistryError::File { file: format!("{domain}.{FIELD_SERIAL}"), error })?;
        }
        Ok(())
    }

    /// The files are written one after the other. After a loss of power the one of sources can lack what the
    /// one of event types already refers to: such a source is new again.
    fn restore_sources(&mut self, domain: u16) -> Result<(), RegistryError> {
        let file = || format!("{domain}.{SOURCE_SERIAL}");
        for (_, name) in self.types.iter() {
            if let Some((source, _)) = name.split_once('/')
                && self.sources.get(source).is_none()
                && is_source_name(source)
            {
                let id = self
                    .sources
                    .get_or_add(source)
                    .map_err(|error| RegistryError::File { file: file(), error })?;
                tracing::warn!("source {source} has event types but no id in {}: it gets {id}", file());
            }
        }
        Ok(())
    }

    fn announce_known(&mut self, domain: u16, rules: &Rules) -> Result<(), RegistryError> {
        self.restore_sources(domain)?;
        let sources: Vec<_> = self.sources.iter().map(|(id, name)| (id, name.to_owned())).collect();
        for (id, name) in sources {
            let gate = self.gate(id, &name, rules);
            self.announce(Definition::Source { id, name, gate });
        }
        for (id, name) in self.types.iter() {
            let known =
                name.split_once('/').and_then(|(source, rest)| Some((self.sources.get(source)?, rest)));
            let Some((source, event_type)) = known else {
                return Err(RegistryError::Content {
                    file: format!("{domain}.{TYPE_SERIAL}"),
                    id,
                    found: name.to_owned(),
                    expected: "source/type with a known source".to_owned(),
                });
            };
            let (name, event_type) = (name.to_owned(), event_type.to_owned());
            self.announce(Definition::EventType { id, source, name, event_type });
        }
        let mut leaves = LeafNames::default();
        let mut keys: Vec<(Inst, &str)> = self.fields.iter().collect();
        keys.sort_unstable_by_key(|(id, _)| *id);
        for (id, key) in keys {
            if key.starts_with("reserved ") {
                continue;
            }
            let parsed = key.split_once(' ').and_then(|(word, field)| Some((type_of_word(word)?, field)));
            let number = u16::try_from(id).ok().filter(|id| usize::from(*id) < MAX_FIELDS);
            let (Some((value_type, field)), Some(number)) = (parsed, number) else {
                return Err(RegistryError::Content {
                    file: format!("{domain}.{FIELD_SERIAL}"),
                    id,
                    found: key.to_owned(),
                    expected: format!("\"<type> <field name>\" with an id below {MAX_FIELDS}"),
                });
            };
            let leaf = leaves.allocate(field, value_type);
            let field = field.to_owned();
            self.announce(Definition::Field { pmid: field_pmid(domain, number), leaf, field, value_type });
        }
        self.leaves = leaves;
        Ok(())
    }
}

/// Whether a source may be called this: instance names end at the first blank for most of PCP, and a
/// slash separates source and event type in instance names.
pub fn is_source_name(name: &str) -> bool {
    (1..=MAX_SOURCE_NAME).contains(&name.len())
        // The id file would take it for a key.
        && !name.starts_with('[')
        && !name.chars().any(|c| c.is_whitespace() || c.is_control() || c == '/')
}

/// The longest start of `text` of at most `max` bytes that does not cut a character in two.
pub fn cut(text: &str, max: usize) -> &str {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Event types as part of an instance name: no blanks, no control characters, bounded.
pub fn tidy_type(event_type: &[u8]) -> String {
    let text = String::from_utf8_lossy(event_type);
    let tidy: String = cut(&text, MAX_TYPE_NAME)
        .chars()
        .map(|c| if c.is_whitespace() || c.is_control() { '_' } else { c })
        .collect();
    if tidy.is_empty() { UNTYPED.to_owned() } else { tidy }
}

fn tidy_field(name: &str) -> String {
    let tidy: String =
        cut(name, MAX_FIELD_NAME).trim_end().chars().map(|c| if c.is_control() { '_' } else { c }).collect();
    if tidy.is_empty() { "_".to_owned() } else { tidy }
}

/// One thread's memory of fields: a look-up is one hash of the name, without a lock.
///
/// Holds only fields that have a metric of their own, in at most twice as many spellings (that
/// [`Registry::field`] treats as the same) as there may be fields, none longer than a name may be.
#[derive(Debug)]
pub struct FieldCache {
    registry: Arc<Registry>,
    /// By name, then by type code. [`Pmid::NULL`]: not asked for yet.
    known: FxHashMap<Box<[u8]>, [Pmid; 8]>,
}

impl FieldCache {
    /// An empty cache in front of `registry`.
    pub fn new(registry: Arc<Registry>) -> FieldCache {
        FieldCache { registry, known: FxHashMap::default() }
    }

    /// The metric of a field. `name` is UTF-8 (anything else is read lossily).
    #[inline]
    pub fn field(&mut self, name: &[u8], value_type: ValueType) -> FieldRef {
        let slot = value_type.code() as usize & 7;
        match self.known.get(name) {
            Some(by_type) if by_type[slot] != Pmid::NULL => FieldRef::Own(by_type[slot]),
            _ => self.ask(name, value_type, slot),
        }
    }

    #[cold]
    fn ask(&mut self, name: &[u8], value_type: ValueType, slot: usize) -> FieldRef {
        let field = self.registry.field(&String::from_utf8_lossy(name), value_type);
        match field {
            FieldRef::Own(pmid) => {
                if self.known.len() < 2 * self.registry.max_fields && name.len() <= MAX_FIELD_NAME {
                    self.known.entry(name.into()).or_insert([Pmid::NULL; 8])[slot] = pmid;
                }
            }
            // Not remembered, as there is no limit to such names.
            FieldRef::Folded => {}
        }
        field
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(definitions: &Receiver<Definition>) -> Vec<String> {
        definitions
            .try_iter()
            .filter_map(|definition| match definition {
                Definition::Field { pmid, leaf, value_type, .. } => {
                    Some(format!("{}.{} {leaf} {}", pmid.cluster(), pmid.item(), value_type.name()))
                }
                _ => None,
            })
            .collect()
    }

    #[test]
    fn ids_and_names_survive_a_restart() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let config = RegistryConfig { dir: Some(dir.path().to_owned()), ..RegistryConfig::new(400) };
        let (registry, definitions) = Registry::open(&config).expect("open");
        assert_eq!(leaves(&definitions).len(), WELL_KNOWN.len());
        let app = registry.source("app").expect("source");
        let kind = registry.event_type(app, Some(b"GET /x y")).expect("stored");
        let fields = [
            ("a.b", ValueType::I64),
            ("a-b", ValueType::I64),
            ("a.b", ValueType::Double),
            ("odd\nname ", ValueType::String),
        ];
        let ids: Vec<FieldRef> = fields.iter().map(|(name, t)| registry.field(name, *t)).collect();
        assert_eq!(ids[0], FieldRef::Own(Pmid::new(400, 16, 16)));
        let told: Vec<Definition> = definitions.try_iter().collect();
        assert_eq!(told.len(), 6);
        assert!(told.contains(&Definition::EventType {
            id: kind,
            source: app,
            name: "app/GET_/x_y".to_owned(),
            event_type: "GET_/x_y".to_owned()
        }));
        drop(registry);

        let (registry, definitions) = Registry::open(&config).expect("open again");
        let again: Vec<Definition> = definitions.try_iter().collect();
        assert!(told.iter().all(|definition| again.contains(definition)), "{told:?}\n{again:?}");
        assert_eq!(registry.source("app"), Ok(app));
        assert_eq!(registry.event_type(app, Some(b"GET /x y")), Some(kind));
        assert_eq!(fields.iter().map(|(name, t)| registry.field(name, *t)).collect::<Vec<_>>(), ids);
        assert!(definitions.try_recv().is_err(), "nothing is announced twice");
        assert_eq!(
            registry.field("a_b", ValueType::I64),
            FieldRef::Own(Pmid::new(400, 16, 20)),
            "the next free id"
        );
        assert_eq!(leaves(&definitions), ["16.20 a_b_3 64"]);
    }

    #[test]
    fn a_source_that_only_its_event_types_remember_is_new_again() {
        let dir = tempfile::tempdir().expect("temporary directory");
        std::fs::write(dir.path().join("400.2"), "2 0 2147483647\n0 1 app/login\n").expect("write");
        let config = RegistryConfig { dir: Some(dir.path().to_owned()), ..RegistryConfig::new(400) };
        let (registry, definitions) = Registry::open(&config).expect("open");
        let app = registry.source("app").expect("source");
        let told: Vec<Definition> = definitions.try_iter().collect();
        assert!(told.contains(&Definition::Source { id: app, name: "app".to_owned(), gate: Arc::default() }));
        assert_eq!(registry.event_type(app, Some(b"login")), Some(0));
    }

    #[test]
    fn beyond_the_caps_names_are_folded_and_counted() {
        let config = RegistryConfig {
            max_fields: FIRST_FREE + 1,
            max_sources: 1,
            max_types: 1,
            ..RegistryConfig::new(400)
        };
        let (registry, _definitions) = Registry::open(&config).expect("open");
        let mut cache = FieldCache::new(Arc::clone(&registry));
        assert!(matches!(cache.field(b"one", ValueType::I64), FieldRef::Own(_)));
        assert_eq!(cache.field(b"two", ValueType::I64), FieldRef::Folded);
        assert_eq!(cache.field(b"one", ValueType::Double), FieldRef::Folded);
        assert!(matches!(cache.field(b"one", ValueType::I64), FieldRef::Own(_)));

        assert_eq!(registry.source("a"), Ok(0));
        assert_eq!(registry.source("b"), Err(SourceRefused::Full));
        for bad in ["", "[x", "a b", "a/b", "a\u{0}", &"n".repeat(65)] {
            assert_eq!(registry.source(bad), Err(SourceRefused::Name), "{bad:?}");
        }
        assert_eq!(registry.sources_refused.load(Ordering::Relaxed), 7);

        let first = registry.event_type(0, None);
        let other = registry.event_type(0, Some(b"x"));
        assert_ne!(first, other);
        assert_eq!(registry.event_type(0, Some(b"y")), other);
        assert_eq!(registry.types_folded.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_foreign_field_file_is_refused() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("400.4");
        IdMap::load(Some(&path), i32::MAX).expect("new file").get_or_add("something else").expect("added");
        let config = RegistryConfig { dir: Some(dir.path().to_owned()), ..RegistryConfig::new(400) };
        let error = Registry::open(&config).expect_err("not ours").to_string();
        assert!(error.contains("400.4") && error.contains("something else"), "{error}");
    }
}
