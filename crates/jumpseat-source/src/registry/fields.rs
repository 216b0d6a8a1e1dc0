//! Fields of events: those that every agent has, their metrics, how they get them, and each thread's memory of them.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use hashbrown::HashMap;
use pcp_event::filter::FieldResolver;

use super::definition::Definition;
use super::leaf::{type_of_word, type_word};
use super::names::{Cap, Giving};
use super::{Registry, RegistryError, Taker};
use pcp_model::text::cut;
use pcp_model::{Inst, Pmid, ValueType};

/// First cluster of `jumpseat.field`; field `n` is item `n % 1024` of cluster `16 + n / 1024`.
pub const FIELD_CLUSTER: u16 = 16;
/// Most fields the sixteen clusters can hold.
pub const MAX_FIELDS: usize = 16 * 1024;
/// Longest field name in bytes.
pub const MAX_FIELD_NAME: usize = 128;

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

pub(super) const WELL_KNOWN: [(&str, ValueType); 9] = [
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

/// What stands in the id file for a field: its type and its name.
pub(super) fn file_text(field: &str, value_type: ValueType) -> String {
    format!("{} {field}", type_word(value_type))
}

/// What stands in the id file for one of the first ids: a field that every agent has, or nothing yet.
pub(super) fn reserved_text(id: usize) -> String {
    match WELL_KNOWN.get(id) {
        Some((name, value_type)) => file_text(name, *value_type),
        None => format!("reserved {id}"),
    }
}

/// Names are kept as they come, except that control characters become underscores, blanks at the end go, and what
/// exceeds [`MAX_FIELD_NAME`] bytes is cut.
pub(super) fn tidy_field(name: &str) -> String {
    let tidy: String =
        cut(name, MAX_FIELD_NAME).trim_end().chars().map(|c| if c.is_control() { '_' } else { c }).collect();
    if tidy.is_empty() { "_".to_owned() } else { tidy }
}

/// Where a field's values go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldRef {
    /// The field's own metric.
    Own(Pmid),
    /// [`WellKnown::Other`], as `name=value`.
    Folded,
}

/// One thread's memory of fields: a look-up is one hash of the name, without a lock.
///
/// Holds only fields that have a metric of their own, in at most twice as many spellings (that
/// [`Registry::field`] treats as the same) as there may be fields, none longer than a name may be.
#[derive(Debug)]
pub(crate) struct FieldCache {
    registry: Arc<Registry>,
    known: HashMap<Box<[u8]>, Known>,
    /// When there were too many spellings, and those of fields that nobody uses any more were left out.
    swept: u32,
}

/// The metrics of a spelling.
#[derive(Debug)]
struct Known {
    /// When the registry was asked.
    epoch: u32,
    /// By type code. [`Pmid::NULL`]: not asked for yet.
    by_type: [Pmid; 8],
}

/// What somebody who keeps a name remembers of its metrics, beside the cache.
#[derive(Clone, Debug)]
pub(crate) struct FieldMemo {
    epoch: Cell<u32>,
    by_type: [Cell<Pmid>; 8],
}

impl Default for FieldMemo {
    fn default() -> FieldMemo {
        FieldMemo { epoch: Cell::default(), by_type: [const { Cell::new(Pmid::NULL) }; 8] }
    }
}

impl FieldCache {
    /// An empty cache in front of `registry`.
    pub(crate) fn new(registry: Arc<Registry>) -> FieldCache {
        FieldCache { registry, known: HashMap::default(), swept: 0 }
    }

    /// The metric of a field. `name` is UTF-8 (anything else is read lossily).
    #[inline]
    pub(crate) fn field(&mut self, name: &[u8], value_type: ValueType, taker: Taker) -> FieldRef {
        match self.known(name, value_type) {
            Some(pmid) => FieldRef::Own(pmid),
            None => self.ask(name, value_type, taker),
        }
    }

    /// The same, if the registry need not be asked.
    #[inline]
    pub(crate) fn known(&self, name: &[u8], value_type: ValueType) -> Option<Pmid> {
        let known = self.known.get(name)?;
        let pmid = known.by_type[slot(value_type)];
        // So the registry knows which fields are in use. Until it is asked the metric is the field's, also if it has given
        // its place meanwhile: metrics of fields stay.
        (pmid != Pmid::NULL && known.epoch == self.registry.epoch()).then_some(pmid)
    }

    /// The same for who keeps the name, and with it what was found.
    #[inline]
    pub(crate) fn kept(&self, memo: &FieldMemo, name: &[u8], value_type: ValueType) -> Option<Pmid> {
        let (known, epoch) = (&memo.by_type[slot(value_type)], self.registry.epoch());
        if known.get() != Pmid::NULL && memo.epoch.get() == epoch {
            return Some(known.get());
        }
        let pmid = self.known(name, value_type)?;
        if memo.epoch.replace(epoch) != epoch {
            memo.by_type.iter().for_each(|other| other.set(Pmid::NULL));
        }
        known.set(pmid);
        Some(pmid)
    }

    #[cold]
    fn ask(&mut self, name: &[u8], value_type: ValueType, taker: Taker) -> FieldRef {
        let slot = slot(value_type);
        let field = self.registry.field_for(&String::from_utf8_lossy(name), value_type, taker);
        match field {
            FieldRef::Own(pmid) => {
                let epoch = self.registry.epoch();
                if let Some(known) = self.known.get_mut(name) {
                    if known.epoch != epoch {
                        *known = Known { epoch, by_type: [Pmid::NULL; 8] };
                    }
                    known.by_type[slot] = pmid;
                } else if name.len() <= MAX_FIELD_NAME && self.has_room(epoch) {
                    let mut by_type = [Pmid::NULL; 8];
                    by_type[slot] = pmid;
                    self.known.insert(name.into(), Known { epoch, by_type });
                }
            }
            // Not remembered, as there is no limit to such names.
            FieldRef::Folded => {
                self.known.remove(name);
            }
        }
        field
    }

    /// Whether one more spelling may be remembered: they are bounded, as senders choose them. Once an epoch those give way
    /// that were not used in it.
    fn has_room(&mut self, epoch: u32) -> bool {
        let most = 2 * self.registry.max_fields();
        if self.known.len() >= most && self.swept != epoch {
            self.swept = epoch;
            self.known.retain(|_, known| known.epoch == epoch);
        }
        self.known.len() < most
    }
}

/// Types of events have the codes 0 to 7; the mask spares the check of bounds.
#[inline]
fn slot(value_type: ValueType) -> usize {
    value_type.code() as usize & 7
}

impl Registry {
    /// The metric of a field. Names are kept as they come, except that control characters become
    /// underscores, blanks at the end go, and what exceeds [`MAX_FIELD_NAME`] bytes is cut.
    pub fn field(&self, name: &str, value_type: ValueType) -> FieldRef {
        self.field_for(name, value_type, Taker::Trusted)
    }

    /// The same, for somebody who may take a share of the names only.
    pub fn field_for(&self, name: &str, value_type: ValueType, taker: Taker) -> FieldRef {
        let field = tidy_field(name);
        let text = file_text(&field, value_type);
        let id = self.fields.define((&text, taker), Cap::Applies, &self.giving_fields(), |id| {
            // Filters that know fields by their numbers look again when this has changed.
            self.generation.fetch_add(1, Ordering::Relaxed);
            ((), self.field_definition(id, &field, value_type))
        });
        id.map_or(FieldRef::Folded, |id| FieldRef::Own(self.pmid(id)))
    }

    /// For who will ask for all of these fields now: those that are new wait for the disk once, not once each.
    pub fn prepare_fields(
        &self,
        fields: impl IntoIterator<Item = (impl AsRef<str>, ValueType)>,
        taker: Taker,
    ) {
        let fields = fields.into_iter();
        let texts = fields.map(|(name, value_type)| file_text(&tidy_field(name.as_ref()), value_type));
        self.fields.prepare(texts, taker, &self.giving_fields());
    }

    /// How fields give their places: those that all agents have do not.
    fn giving_fields(&self) -> Giving<'_> {
        Giving { keeps: &|id, _| (id as usize) < FIRST_FREE, ..self.giving() }
    }

    /// Most fields.
    pub(super) fn max_fields(&self) -> usize {
        self.fields.cap()
    }

    fn pmid(&self, id: Inst) -> Pmid {
        debug_assert!((0..MAX_FIELDS as Inst).contains(&id), "ids of fields are bounded by their file");
        field_pmid(self.domain, id as u16)
    }

    pub(super) fn field_definition(&self, id: Inst, field: &str, value_type: ValueType) -> Definition {
        let mut leaves = self.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        let leaf = leaves.allocate(field, value_type);
        Definition::Field { pmid: self.pmid(id), leaf, field: field.to_owned(), value_type }
    }

    /// Puts the well-known fields at their ids in a new file, and checks them in an old one.
    pub(super) fn reserve_fields(&self) -> Result<(), RegistryError> {
        // A file in which these ids mean something else is not ours, and would give wrong names to all values.
        self.fields.reserve((0..FIRST_FREE).map(|id| (id as Inst, reserved_text(id))))
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
        let ids = TYPES.into_iter().filter_map(|value_type| self.fields.get(&file_text(name, value_type)));
        ids.map(|id| self.pmid(id)).for_each(found);
    }
}

/// Type and name of a field, as in the id file.
pub(super) fn parse_field(text: &str) -> Option<(ValueType, &str)> {
    let (word, field) = text.split_once(' ')?;
    Some((type_of_word(word)?, field))
}
