//! Names to ids, for good: fields, sources and (source, event type) pairs.
//!
//! One [`Registry`] is shared by all source threads. It has a mutex for each kind of names that only they take, and
//! only for names they have not met before: each thread keeps a `FieldCache` (and lanes keep theirs for event
//! types), so that the cost per field of an event is one hash look-up without a lock. A new name is
//! appended to its id file before anybody sees the id, then announced as a [`Definition`] on an
//! unbounded channel. The channel is bounded all the same, by the caps on the number of names.
//!
//! Sources that the configuration names have their places, whoever else has taken all others, now or before a restart.
//!
//! A name that nobody has used for long gives its place to a newcomer that finds none (`recycle`). Its id is burnt: neither
//! the name, if it comes back, nor any other gets it again.
//!
//! What exceeds a cap is folded, never dropped: a field becomes `name=value` in `jumpseat.field.other`,
//! an event type counts under `source/(other)`, a source becomes the listener's default source.
//!
//! * `names`: one kind of names: ids, cap, announcement; `taker`: who may take how many of them.
//! * `fields`: fields and their metrics; `leaf`: what a field's metric is called.
//! * `described`: what else is known of sources.
//! * `sent`: names of event types and spans as they were sent, and as parts of instances.
//! * `words`: what names may be. `retire`: which there are, and places that come back; `recycle`: places that come back
//!   while the agent runs; `uses`: what threads tell and ask about that.

mod config;
mod definition;
mod described;
mod fields;
mod leaf;
mod names;
mod recycle;
#[cfg(test)]
mod recycle_tests;
mod retire;
mod sent;
mod taker;
mod uses;
mod words;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use crossbeam_channel::{Receiver, unbounded};

use super::gate::{Changes, Gate};
use super::guard::book::{TOKEN_SERIAL, TokenBook};
use super::origin::{Labels, Origin};
use super::rules::Rules;
use super::tail::Tail;
use jumpseat_log::{LogDir, SourceLog};
use leaf::LeafNames;
use names::{Cap, Giving, Kind, Names, NoId};
use pcp_ids::Settling;
use pcp_model::Inst;
use pcp_net::{Limiter, Who};
use recycle::Gone;

pub use config::{RegistryConfig, RegistryError};
pub use definition::Definition;
pub use described::Described;
use described::Descriptions;
pub use fields::{FIELD_CLUSTER, FIRST_FREE, FieldRef, MAX_FIELD_NAME, MAX_FIELDS, WellKnown, field_pmid};
pub(crate) use fields::{FieldCache, FieldMemo};
pub(crate) use leaf::sanitize;
pub use retire::{KnownName, known_names, retire};
use sent::Place;
pub use sent::{MAX_SENT_NAME, SentName};
pub use taker::Taker;
pub use words::{
    MAX_SOURCE_NAME, MAX_TYPE_NAME, NotASourceName, OTHER_TYPES, SOURCE_NAME_RULE, UNTYPED,
    check_source_name, is_source_name,
};

/// Serial of the id file, and of the instance domain, of sources.
pub const SOURCE_SERIAL: u32 = 1;
/// Serial of the id file, and of the instance domain, of (source, event type) pairs.
pub const TYPE_SERIAL: u32 = 2;
/// Serial of the id file, and of the instance domain, of spans.
pub const SPAN_SERIAL: u32 = 6;
/// Serial of the id file of fields.
pub const FIELD_SERIAL: u32 = 4;

/// A source cannot have this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceRefused {
    /// Not a valid name.
    #[error("not a source name: {SOURCE_NAME_RULE}")]
    Name,
    /// It is for others.
    #[error("the name is for others to send in (senders of [[source]])")]
    Forbidden,
    /// The sender's token is for others.
    #[error("the token is for other sources")]
    NotOfToken,
    /// The cap is reached.
    #[error("there are as many sources as the configuration allows")]
    Full,
    /// The id could not be stored.
    #[error("its id could not be stored")]
    Store,
}

/// Names to ids. See the module's description.
#[derive(Debug)]
pub struct Registry {
    domain: u16,
    sources: Names<SourceKind>,
    types: Names<TypeKind>,
    spans: Names<SpanKind>,
    fields: Names<FieldKind>,
    /// Taken while the lock of the fields is held, by nobody else.
    leaves: Mutex<LeafNames>,
    /// Names of the receivers' tokens.
    tokens: Arc<TokenBook>,
    /// Taken before the lock of event types or of spans: a word is for one name.
    naming: Mutex<()>,
    descriptions: Descriptions,
    /// Grows with each field.
    generation: AtomicU64,
    /// For gates of sources that are new.
    rules: ArcSwap<Rules>,
    /// Of all gates.
    gate_changes: Changes,
    /// Sources that have a place, besides those that rules name.
    reserved: ArcSwap<Vec<String>>,
    own: ArcSwap<Vec<String>>,
    /// Times a source was refused because its name is for others.
    forbidden: AtomicU64,
    report: Mutex<Limiter>,
    /// Which traces are kept, over all sources.
    tail: Arc<Tail>,
    /// Where the records of sources are kept on disk, if anywhere.
    logs: OnceLock<Arc<LogDir>>,
    /// Records there that went with their sources.
    records_gone: AtomicU64,
    /// Fields that are retired keep their metrics.
    keeps_records: bool,
    /// See [`Registry::epoch`].
    epoch: AtomicU32,
    /// The last period that has begun.
    period: AtomicU64,
    recycle_after: ArcSwap<Duration>,
    started: Instant,
    /// Seconds by which the clock of a test is ahead.
    #[cfg(test)]
    ahead: AtomicU64,
}

#[derive(Debug)]
struct SourceKind;
#[derive(Debug)]
struct TypeKind;
#[derive(Debug)]
struct SpanKind;
#[derive(Debug)]
struct FieldKind;

/// A source and a name of an event type or span below it.
#[derive(Clone, Debug)]
struct Pair {
    source: Inst,
    name: SentName,
}

impl Kind for SourceKind {
    const SERIAL: u32 = SOURCE_SERIAL;
    const WHAT: &'static str = "source";
    type Kept = Arc<Gate>;

    fn gone(id: Inst) -> Option<Definition> {
        Some(Definition::SourceGone { id })
    }
}

impl Kind for TypeKind {
    const SERIAL: u32 = TYPE_SERIAL;
    const WHAT: &'static str = "event type";
    type Kept = Pair;

    fn gone(id: Inst) -> Option<Definition> {
        Some(Definition::EventTypeGone { id })
    }
}

impl Kind for SpanKind {
    const SERIAL: u32 = SPAN_SERIAL;
    const WHAT: &'static str = "span";
    type Kept = ();

    fn gone(id: Inst) -> Option<Definition> {
        Some(Definition::SpanGone { id })
    }
}

impl Kind for FieldKind {
    const SERIAL: u32 = FIELD_SERIAL;
    const MAX_ID: Inst = MAX_FIELDS as Inst - 1;
    const WHAT: &'static str = "field";
    type Kept = ();

    // Records that are there still have it: only its place is somebody else's now.
    fn gone(_: Inst) -> Option<Definition> {
        None
    }
}

impl Registry {
    /// Loads the id files. The receiver first yields everything already known.
    ///
    /// # Errors
    /// [`RegistryError`] when a file cannot be read, created or is not what this agent wrote.
    pub fn open(config: &RegistryConfig) -> Result<(Arc<Registry>, Receiver<Definition>), RegistryError> {
        let (registry, definitions, settling) = Registry::begin(config)?;
        settling
            .finish()
            .map_err(|error| RegistryError::File { file: format!("{}.*", config.domain), error })?;
        Ok((registry, definitions))
    }

    /// The same for who has other things to do until what was read is sure to be on disk: before that nobody may be given an id.
    ///
    /// # Errors
    /// As [`Registry::open`].
    pub fn begin(
        config: &RegistryConfig,
    ) -> Result<(Arc<Registry>, Receiver<Definition>, Settling), RegistryError> {
        let (announce, definitions) = unbounded();
        let (sources, of_sources) = Names::load(config, config.max_sources, &announce)?;
        let (types, of_types) = Names::load(config, config.max_types, &announce)?;
        let (fields, of_fields) = Names::load(config, config.max_fields.min(MAX_FIELDS), &announce)?;
        let (spans, of_spans) = Names::load(config, config.max_spans, &announce)?;
        let (tokens, of_tokens) =
            TokenBook::begin(config.dir.as_deref(), config.domain).map_err(|error| RegistryError::File {
                file: format!("{}.{TOKEN_SERIAL}", config.domain),
                error,
            })?;
        let registry = Registry {
            domain: config.domain,
            sources,
            types,
            fields,
            spans,
            leaves: Mutex::default(),
            tokens: Arc::new(tokens),
            naming: Mutex::default(),
            descriptions: Descriptions::load(config.dir.as_deref(), config.domain),
            generation: AtomicU64::new(0),
            rules: ArcSwap::from_pointee(config.rules.clone()),
            gate_changes: Changes::default(),
            reserved: ArcSwap::from_pointee(config.reserved.clone()),
            own: ArcSwap::from_pointee(config.own.clone()),
            forbidden: AtomicU64::new(0),
            report: Mutex::new(Limiter::new(3, Duration::from_secs(10))),
            tail: Arc::default(),
            logs: OnceLock::new(),
            records_gone: AtomicU64::new(0),
            keeps_records: config.keeps_records,
            epoch: AtomicU32::new(0),
            period: AtomicU64::new(0),
            recycle_after: ArcSwap::from_pointee(config.recycle_after),
            started: Instant::now(),
            #[cfg(test)]
            ahead: AtomicU64::new(0),
        };
        // Before any event can get one of their ids.
        registry.reserve_fields()?;
        registry.restore_sources()?;
        registry.keep_places();
        registry.announce_known()?;
        let settling = of_sources.with(of_types).with(of_fields).with(of_spans).with(of_tokens);
        Ok((Arc::new(registry), definitions, settling))
    }

    /// The names of the receivers' tokens, and what is done with them.
    pub fn tokens(&self) -> &Arc<TokenBook> {
        &self.tokens
    }

    /// Has the records of all sources kept in these logs. Once, before there are any.
    pub fn keep_in(&self, logs: Arc<LogDir>) {
        let kept = self.logs.set(logs);
        debug_assert!(kept.is_ok(), "there are logs already");
    }

    /// Where records are kept on disk, if anywhere.
    pub fn logs(&self) -> Option<&Arc<LogDir>> {
        self.logs.get()
    }

    /// The log of a source on disk, if there is one.
    pub(crate) fn log(&self, source: Inst, name: &str) -> Option<Arc<SourceLog>> {
        Some(self.logs.get()?.source(source, name))
    }

    /// The agent's domain number.
    pub fn domain(&self) -> u16 {
        self.domain
    }

    /// How often a source was refused and its events went to the default source instead.
    pub fn sources_refused(&self) -> u64 {
        self.sources.overflow()
    }

    /// How often an event type was refused and its events counted under [`OTHER_TYPES`] instead.
    pub fn types_folded(&self) -> u64 {
        self.types.overflow()
    }

    /// How many names of spans were refused and went under [`OTHER_TYPES`] instead.
    pub fn spans_folded(&self) -> u64 {
        self.spans.overflow()
    }

    /// How often a new name of any kind was refused because whoever sent it has had its share.
    pub fn over_share(&self) -> u64 {
        self.sources.over_share()
            + self.types.over_share()
            + self.spans.over_share()
            + self.fields.over_share()
    }

    /// The instance id of a source.
    ///
    /// # Errors
    /// [`SourceRefused`]; the caller then uses its default source.
    pub fn source(&self, name: &str) -> Result<Inst, SourceRefused> {
        self.source_for(name, Taker::Trusted)
    }

    /// The same, for somebody who may take a share of the names only.
    ///
    /// # Errors
    /// As [`Registry::source`].
    pub fn source_for(&self, name: &str, taker: Taker) -> Result<Inst, SourceRefused> {
        let id = if is_source_name(name) {
            let define = |id| self.source_definition(id, name);
            self.define_source((name, taker), Cap::Applies, define).map_err(|why| match why {
                NoId::Full => SourceRefused::Full,
                NoId::Store => SourceRefused::Store,
            })
        } else {
            // Not looked up: a name that cannot be is in no file.
            Err(SourceRefused::Name)
        };
        id.inspect_err(|_| self.sources.count_overflow())
    }

    /// Tells where a source reads, and what its sender says of itself, if that is news.
    pub(crate) fn describe(&self, source: Inst, origin: Option<&Origin>, labels: Option<&Labels>) {
        self.descriptions.tell(source, origin, labels, |source| self.sources.has(source));
    }

    /// What is known of a source besides its name, from lives before and this one. Never waits for a disk.
    pub fn described(&self, source: Inst) -> Option<Described> {
        self.descriptions.get(source)
    }

    /// The same for a lane whose source has lost its place though it is held: it gets one, and be it beyond the limit.
    pub(crate) fn source_again(&self, name: &str) -> Option<Inst> {
        let define = |id| self.source_definition(id, name);
        self.define_source((name, Taker::Trusted), Cap::Waived, define).ok()
    }

    fn define_source(
        &self,
        name: (&str, Taker),
        cap: Cap,
        define: impl FnOnce(Inst) -> (Arc<Gate>, Definition),
    ) -> Result<Inst, NoId> {
        let keeps = |_: Inst, name: &str| self.is_named(name);
        // The order of the files: a type or a span must not be there without its source.
        let before = |gone: &[Gone]| {
            let goes = |text: &str| {
                let source = text.split_once('/').map(|(source, _)| source);
                gone.iter().any(|gone| source == Some(&gone.name))
            };
            self.types.give_up(goes);
            self.spans.give_up(goes);
            if let Some(logs) = self.logs.get() {
                let records: u64 = gone.iter().map(|gone| logs.remove(gone.id)).sum();
                self.records_gone.fetch_add(records, Ordering::Relaxed);
            }
            self.epoch.fetch_add(1, Ordering::Relaxed);
        };
        self.sources.define(name, cap, &Giving { keeps: &keeps, before: &before }, define)
    }

    /// Who may send in the name of a source, besides root and the configuration; `None`: whoever may send at all.
    pub fn senders(&self, source: &str) -> Option<Who> {
        let named = self.rules.load().senders_of(source);
        named.or_else(|| self.own.load().iter().any(|own| own == source).then(Who::default))
    }

    /// Counts, and tells of, somebody who may not send in the name of a source.
    pub fn forbid(&self, source: &str, taker: Taker) {
        self.forbidden.fetch_add(1, Ordering::Relaxed);
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held_back) = report.allow(Instant::now()) {
            tracing::warn!(
                held_back,
                "{taker} may not send as source {source}: it goes to the default source (senders of [[source]])"
            );
        }
    }

    /// How often somebody named a source that is for others.
    pub fn forbidden(&self) -> u64 {
        self.forbidden.load(Ordering::Relaxed)
    }

    /// What a source lets through.
    pub fn gate(&self, source: Inst) -> Arc<Gate> {
        self.sources.kept(source).unwrap_or_default()
    }

    /// How often any source's settings have changed.
    #[inline]
    pub(crate) fn gate_changes(&self) -> u64 {
        self.gate_changes.count()
    }

    /// Which traces are kept, over all sources.
    pub fn tail(&self) -> &Arc<Tail> {
        &self.tail
    }

    /// Replaces the rules for sources that are new from now on. The gates of the others are the caller's to set.
    pub fn set_rules(&self, rules: Rules) {
        self.rules.store(Arc::new(rules));
        self.keep_places();
    }

    /// Replaces the names of sources that have a place, and of those that the configuration feeds itself
    /// ([`RegistryConfig::reserved`], [`RegistryConfig::own`]).
    pub fn set_own(&self, reserved: Vec<String>, own: Vec<String>) {
        self.own.store(Arc::new(own));
        self.reserved.store(Arc::new(reserved));
        self.keep_places();
    }

    /// Whether the configuration names this source.
    pub fn is_named(&self, source: &str) -> bool {
        let rules = self.rules.load();
        rules.0.iter().any(|rule| rule.name.plain() == Some(source))
            || self.reserved.load().iter().any(|name| name == source)
    }

    /// Keeps the places of the sources that the configuration names.
    fn keep_places(&self) {
        let rules = self.rules.load();
        let names = rules.0.iter().filter_map(|rule| rule.name.plain()).map(str::to_owned);
        let reserved = self.reserved.load();
        self.sources.keep_places(names.chain(reserved.iter().cloned()).filter(|name| is_source_name(name)));
    }

    /// The instance id that events of this type (`None`: without a type) count under. `None` when not even the
    /// id of [`OTHER_TYPES`] could be stored: such events count by source only.
    pub fn event_type(&self, source: Inst, event_type: Option<&[u8]>) -> Option<Inst> {
        self.event_type_for(source, event_type, Taker::Trusted)
    }

    /// The same, for somebody who may take a share of the names only.
    pub fn event_type_for(&self, source: Inst, event_type: Option<&[u8]>, taker: Taker) -> Option<Inst> {
        let define = |name: &SentName| {
            self.pair(&self.types, (source, name, taker), |id, instance| {
                type_definition(id, instance, Pair { source, name: name.clone() })
            })
        };
        match define(&SentName::of(event_type)) {
            Ok(id) => Some(id),
            Err(_) => {
                self.types.count_overflow();
                define(&SentName::Other).ok()
            }
        }
    }

    /// Makes known that spans are named like the event type that counts under this instance. Beyond the cap they go
    /// under [`OTHER_TYPES`], one for each source.
    pub fn span(&self, event_type: Inst, taker: Taker) {
        let pair = self.types.kept(event_type);
        // It has given its place just now, and with the next event gets one again.
        let Some(Pair { source, name }) = pair else { return };
        let define = |name: &SentName| {
            self.pair(&self.spans, (source, name, taker), |id, instance| {
                let (name, span) = (instance.to_owned(), name.clone());
                ((), Definition::Span { id, source, name, span })
            })
        };
        if define(&name) == Err(NoId::Full) {
            self.spans.count_overflow();
            // What cannot be stored was complained about, and is tried again with the next lane.
            let _ = define(&SentName::Other);
        }
    }

    /// How names without anything below them give their places.
    fn giving(&self) -> Giving<'_> {
        Giving { keeps: &|_, _| false, before: &|_| {} }
    }

    /// The id of a name below a source. `define` is told the id and the name of the instance.
    fn pair<K: Kind>(
        &self,
        names: &Names<K>,
        (source, name, taker): (Inst, &SentName, Taker),
        define: impl Fn(Inst, &str) -> (K::Kept, Definition),
    ) -> Result<Inst, NoId> {
        let source_name = self.sources.name(source);
        debug_assert!(source_name.is_some(), "source {source} was never handed out");
        let source_name = source_name.unwrap_or_default();
        // Nobody else may get a word between the look at the words that there are and the new one.
        let _naming = self.naming.lock().unwrap_or_else(PoisonError::into_inner);
        let instance_of = |text: &str| text.split(' ').next().unwrap_or_default().to_owned();
        let text = match names.look(|ids| name.place(&source_name, ids)) {
            Place::Text(text) => text,
            Place::Claim(id, text) => {
                names.extend(id, &text, |id| define(id, &instance_of(&text)))?;
                text
            }
            Place::None => return Err(NoId::Full),
        };
        // One instance per source beyond the cap, so that nothing goes uncounted.
        let cap = if *name == SentName::Other { Cap::Waived } else { Cap::Applies };
        names.define((&text, taker), cap, &self.giving(), |id| define(id, &instance_of(&text)))
    }

    fn source_definition(&self, id: Inst, name: &str) -> (Arc<Gate>, Definition) {
        // The gate is made with the name, so that the first record of a source finds its settings.
        let gate = Arc::new(Gate::new(self.rules.load().of(name).0, self.gate_changes.clone()));
        (Arc::clone(&gate), Definition::Source { id, name: name.to_owned(), gate })
    }

    /// The files are written one after the other. After a loss of power the one of sources can lack what the
    /// one of event types already refers to: such a source is new again.
    fn restore_sources(&self) -> Result<(), RegistryError> {
        for (_, name) in self.types.all() {
            if let Some((source, _)) = name.split_once('/')
                && self.sources.get(source).is_none()
                && is_source_name(source)
            {
                let (id, file) = (self.sources.restore(source)?, self.sources.file());
                tracing::warn!("source {source} has event types but no id in {file}: it gets {id}");
            }
        }
        Ok(())
    }

    /// Tells the core of all names but those of spans, which it is told as they come again: for most nobody asks any
    /// more.
    fn announce_known(&self) -> Result<(), RegistryError> {
        self.sources.announce_known(|_, _| None, |id, name| Ok(Some(self.source_definition(id, name))))?;
        let announce_type = |id, text: &str| {
            let known = sent::parse(text).and_then(|known| Some((self.sources.get(known.source)?, known)));
            let (source, known) = known.ok_or("source/type with a known source")?;
            Ok(Some(type_definition(id, known.instance, Pair { source, name: known.name })))
        };
        self.types.announce_known(|_, _| None, announce_type)?;
        // What others are called depends on those that are retired, too.
        let replay = |id, text: &str| {
            let (value_type, field) = fields::parse_field(text)?;
            let definition = self.field_definition(id, field, value_type);
            // Records from before may have them.
            self.keeps_records.then_some(definition)
        };
        // In the order of ids, so that every field's metric is called as it was when the field was new.
        self.fields.announce_known(replay, |id, text| {
            // Ids that wait for more fields that every agent has.
            let is_unused = (fields::WELL_KNOWN.len()..FIRST_FREE).contains(&(id as usize));
            match fields::parse_field(text) {
                Some((value_type, field)) if (id as usize) < MAX_FIELDS => {
                    Ok(Some(((), self.field_definition(id, field, value_type))))
                }
                _ if is_unused => Ok(None),
                _ => Err(format!("\"<type> <field name>\" with an id below {MAX_FIELDS}")),
            }
        })
    }
}

fn type_definition(id: Inst, instance: &str, pair: Pair) -> (Pair, Definition) {
    let (source, event_type) = (pair.source, pair.name.as_str().to_owned());
    (pair, Definition::EventType { id, source, name: instance.to_owned(), event_type })
}

#[cfg(test)]
mod tests {
    use super::fields::WELL_KNOWN;
    use super::*;
    use crate::rules::{Pattern, SourceRule};
    use pcp_ids::IdMap;
    use pcp_model::{Pmid, ValueType};

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
    fn fields_that_are_prepared_are_on_file_and_not_announced() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let max_fields = FIRST_FREE + 3;
        let config =
            RegistryConfig { dir: Some(dir.path().to_owned()), max_fields, ..RegistryConfig::new(400) };
        let (registry, definitions) = Registry::open(&config).expect("open");
        definitions.try_iter().count();
        assert_eq!(registry.field("a", ValueType::I64), FieldRef::Own(Pmid::new(400, 16, 16)));
        assert_eq!(leaves(&definitions), ["16.16 a 64"]);
        let fields: Vec<(&str, ValueType)> = ["a", "b", "c", "d"].map(|name| (name, ValueType::I64)).into();
        registry.prepare_fields(fields.iter().copied(), Taker::Trusted);
        assert!(leaves(&definitions).is_empty(), "nobody has asked yet");
        let path = std::fs::read_dir(dir.path()).expect("there").flatten().map(|entry| entry.path());
        let text: String = path.filter_map(|path| std::fs::read_to_string(path).ok()).collect();
        let has = |name: &str| text.contains(&format!(" {}\n", fields::file_text(name, ValueType::I64)));
        assert_eq!(["a", "b", "c", "d"].map(has), [true, true, true, false], "{text}");
        let own = |item| FieldRef::Own(Pmid::new(400, 16, item));
        let found: Vec<FieldRef> = fields.iter().map(|(name, t)| registry.field(name, *t)).collect();
        assert_eq!(found, [own(16), own(17), own(18), FieldRef::Folded]);
        assert_eq!(leaves(&definitions), ["16.17 b 64", "16.18 c 64"]);
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
            event_type: "GET /x y".to_owned()
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
    fn names_that_look_alike_are_told_apart_and_stay_so() {
        let dir = tempfile::tempdir().expect("temporary directory");
        // Of a release that did not tell them apart.
        std::fs::write(dir.path().join("400.1"), "2 0 2147483647\n0 1 app\n").expect("write");
        std::fs::write(dir.path().join("400.2"), "2 0 2147483647\n0 1 app/x_y\n1 1 app/a_b\n")
            .expect("write");
        std::fs::write(dir.path().join("400.6"), "2 0 2147483647\n7 1 app/x_y\n").expect("write");
        let config = RegistryConfig { dir: Some(dir.path().to_owned()), ..RegistryConfig::new(400) };
        let ids = |registry: &Registry| {
            ["x y", "x_y", "x\ty"].map(|name| {
                let id = registry.event_type(0, Some(name.as_bytes())).expect("stored");
                registry.span(id, Taker::Trusted);
                id
            })
        };
        let labels = |definitions: &Receiver<Definition>| {
            let mut told = std::collections::BTreeMap::new();
            for definition in definitions.try_iter() {
                match definition {
                    Definition::EventType { id, name, event_type, .. } => {
                        told.insert((TYPE_SERIAL, id), (name, event_type));
                    }
                    Definition::Span { id, name, span, .. } => {
                        told.insert((SPAN_SERIAL, id), (name, span.as_str().to_owned()));
                    }
                    _ => {}
                }
            }
            told.into_values().collect::<Vec<_>>()
        };
        let (registry, definitions) = Registry::open(&config).expect("open");
        assert_eq!(labels(&definitions)[0].1, "x_y");
        assert_eq!(ids(&registry), [0, 2, 3]);
        let told = labels(&definitions);
        let types = [("app/x_y", "x y"), ("app/x_y~b97783", "x_y"), ("app/x_y~e2f429", "x\ty")];
        let pair = |(name, sent): (&str, &str)| (name.to_owned(), sent.to_owned());
        assert_eq!(told, [types, types].concat().into_iter().map(pair).collect::<Vec<_>>());
        drop(registry);
        let (registry, definitions) = Registry::open(&config).expect("open again");
        let known = labels(&definitions);
        assert_eq!(ids(&registry), [0, 2, 3]);
        assert_eq!(known[0], pair(types[0]));
        assert_eq!(known[1], pair(("app/a_b", "a_b")), "nobody has come for it yet");
        assert_eq!(known[2..4], told[1..3]);
        assert_eq!(labels(&definitions), told[3..], "spans are told as they come again");
        assert_eq!(registry.event_type(0, Some(b"a b")), Some(1));
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
        assert!(matches!(cache.field(b"one", ValueType::I64, Taker::Trusted), FieldRef::Own(_)));
        assert_eq!(cache.field(b"two", ValueType::I64, Taker::Trusted), FieldRef::Folded);
        assert_eq!(cache.field(b"one", ValueType::Double, Taker::Trusted), FieldRef::Folded);
        assert!(matches!(cache.field(b"one", ValueType::I64, Taker::Trusted), FieldRef::Own(_)));

        assert_eq!(registry.source("a"), Ok(0));
        assert_eq!(registry.source("b"), Err(SourceRefused::Full));
        for bad in ["", "[x", "a b", "a/b", "a\u{0}", &"n".repeat(65)] {
            assert_eq!(registry.source(bad), Err(SourceRefused::Name), "{bad:?}");
        }
        assert_eq!(registry.sources_refused(), 7);

        let first = registry.event_type(0, None);
        let other = registry.event_type(0, Some(b"x"));
        assert_ne!(first, other);
        assert_eq!(registry.event_type(0, Some(b"y")), other);
        assert_eq!(registry.types_folded(), 2);
    }

    #[test]
    fn what_stays_is_called_as_before_when_others_are_retired() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let config = RegistryConfig { dir: Some(dir.path().to_owned()), ..RegistryConfig::new(400) };
        let (registry, _definitions) = Registry::open(&config).expect("open");
        let app = registry.source("app").expect("source");
        registry.event_type(app, Some(b"login")).expect("stored");
        let junk = registry.source("junk").expect("source");
        let fields = ["a.b", "a-b", "c"].map(|name| registry.field(name, ValueType::I64));
        drop(registry);
        let age = |serial: u32, name: &str| {
            let path = dir.path().join(format!("400.{serial}"));
            let text = std::fs::read_to_string(&path).expect("an id file");
            let aged = text.lines().map(|line| match line.strip_suffix(&format!(" {name}")) {
                Some(begin) => format!("{} 7 {name}\n", begin.split(' ').next().unwrap_or_default()),
                None => format!("{line}\n"),
            });
            std::fs::write(&path, aged.collect::<String>()).expect("write");
        };
        age(SOURCE_SERIAL, "app");
        age(SOURCE_SERIAL, "junk");
        age(FIELD_SERIAL, "i64 a.b");
        age(FIELD_SERIAL, "string type");
        let told = retire(dir.path(), 400, 8, true).expect("it can be read");
        assert_eq!(told.iter().map(|known| &*known.name).collect::<Vec<_>>(), ["junk", "i64 a.b"]);
        assert_eq!(retire(dir.path(), 400, 8, false).expect("it can be written"), told);
        assert_eq!(retire(dir.path(), 400, 8, false).expect("it is done"), []);

        let (registry, definitions) = Registry::open(&config).expect("open again");
        let leaves = leaves(&definitions);
        assert!(leaves.iter().any(|leaf| leaf == "16.17 a_b_2 64"), "{leaves:?}");
        assert!(!leaves.iter().any(|leaf| leaf.contains(" a_b 64")), "{leaves:?}");
        assert_eq!(registry.field("a-b", ValueType::I64), fields[1]);
        assert_ne!(registry.field("a.b", ValueType::I64), fields[0]);
        assert_eq!(registry.source("app"), Ok(app));
        assert_eq!(registry.source("junk"), Ok(junk + 1));
    }

    #[test]
    fn sources_that_are_configured_have_their_places() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let config = RegistryConfig {
            dir: Some(dir.path().to_owned()),
            max_sources: 4,
            reserved: vec!["app".to_owned(), "not a name".to_owned()],
            ..RegistryConfig::new(400)
        };
        let (registry, _definitions) = Registry::open(&config).expect("open");
        let strangers = |registry: &Registry| {
            let got = (0..9).map(|n| registry.source(&format!("junk{n}")).is_ok());
            got.filter(|got| *got).count()
        };
        assert_eq!(strangers(&registry), 3);
        assert_eq!(registry.source_for("app", Taker::Texts), Ok(3));
        assert_eq!(strangers(&registry), 3, "those from before");
        drop(registry);
        // One that is named only after the table was full has a place beyond it, but once.
        let (registry, _definitions) = Registry::open(&config).expect("open again");
        assert_eq!(registry.source("billing"), Err(SourceRefused::Full));
        let named = |name: &str| SourceRule { name: Pattern(name.to_owned()), ..SourceRule::default() };
        registry.set_rules(Rules(vec![named("billing"), named("b*")]));
        assert_eq!(registry.source("bill"), Err(SourceRefused::Full));
        assert_eq!(registry.source("billing"), Ok(4));
        assert_eq!(registry.source("billing2"), Err(SourceRefused::Full));
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
