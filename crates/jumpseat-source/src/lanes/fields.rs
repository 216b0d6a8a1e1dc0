//! The fields of a thread's records: each looked up by its name, or once for all records that have it.

use std::cell::Cell;
use std::io::Write;
use std::sync::Arc;

use crate::registry::{FieldCache, FieldMemo, FieldRef, MAX_FIELD_NAME, Registry, Taker, WellKnown};
use pcp_event::Param;
use pcp_model::{Pmid, ValueType};

/// A field that was looked up once.
#[derive(Clone, Debug, PartialEq)]
pub struct InternedField {
    /// Its type.
    pub value_type: ValueType,
    /// Its metric; [`WellKnown::Other`] if it has none of its own.
    pmid: Pmid,
    /// Its name, if its values are folded.
    folded: Option<Box<[u8]>>,
    /// When the registry was told that it is in use.
    epoch: Cell<u32>,
}

impl InternedField {
    /// Its name, if its values are folded.
    #[inline]
    pub(super) fn folded_name(&self) -> Option<&[u8]> {
        self.folded.as_deref()
    }
}

/// Most places in a record at which fields are remembered.
const MAX_RECENT: usize = 64;

/// A field as it was looked up last.
#[derive(Debug)]
struct RecentField {
    name: Vec<u8>,
    value_type: ValueType,
    pmid: Pmid,
    /// When the registry was asked.
    epoch: u32,
}

/// The names of fields, for the records of one thread.
pub(super) struct FieldNames {
    registry: Arc<Registry>,
    cache: FieldCache,
    /// The fields of the newest records, by their place in them.
    recent: Vec<RecentField>,
    /// Memory for `name=value`.
    folded: Vec<u8>,
    domain: u16,
    /// Who sends what is looked up.
    pub taker: Taker,
}

impl FieldNames {
    pub(super) fn new(registry: Arc<Registry>) -> FieldNames {
        FieldNames {
            cache: FieldCache::new(Arc::clone(&registry)),
            domain: registry.domain(),
            recent: Vec::new(),
            folded: Vec::new(),
            taker: Taker::Trusted,
            registry,
        }
    }

    pub(super) fn intern(&mut self, name: &[u8], value_type: ValueType) -> InternedField {
        match self.own(name, value_type) {
            Some(pmid) => {
                InternedField { value_type, pmid, folded: None, epoch: Cell::new(self.registry.epoch()) }
            }
            None => {
                let pmid = WellKnown::Other.pmid(self.domain);
                InternedField { value_type, pmid, folded: Some(name.into()), epoch: Cell::default() }
            }
        }
    }

    /// For who will ask for all of these fields now: those that are new wait for the disk once ([`Registry::prepare_fields`]).
    pub(super) fn prepare<'a>(&self, fields: impl Iterator<Item = (&'a [u8], ValueType)>) {
        let new = fields.filter(|(name, value_type)| self.cache.known(name, *value_type).is_none());
        let texts = new.map(|(name, value_type)| (String::from_utf8_lossy(name), value_type));
        self.registry.prepare_fields(texts, self.taker);
    }

    pub(super) fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    #[inline]
    pub(super) fn domain(&self) -> u16 {
        self.domain
    }

    /// The field's own metric, if it has one.
    #[inline]
    pub(super) fn own(&mut self, name: &[u8], value_type: ValueType) -> Option<Pmid> {
        match self.cache.field(name, value_type, self.taker) {
            FieldRef::Own(pmid) => Some(pmid),
            FieldRef::Folded => None,
        }
    }

    /// The same, if the registry need not be asked, where the name is kept, and with it what was found.
    #[inline]
    pub(super) fn kept(&self, memo: &FieldMemo, name: &[u8], value_type: ValueType) -> Option<Pmid> {
        self.cache.kept(memo, name, value_type)
    }

    /// The same of a field by its place in its record: mostly what was there in the record before is there again, and then this is
    /// a comparison of the names.
    #[inline]
    pub(super) fn known_at(&mut self, place: usize, name: &[u8], value_type: ValueType) -> Option<Pmid> {
        match self.recent.get(place) {
            Some(recent)
                if recent.epoch == self.registry.epoch()
                    && recent.value_type == value_type
                    && *recent.name == *name =>
            {
                Some(recent.pmid)
            }
            _ => self.other_at(place, name, value_type),
        }
    }

    #[inline(never)]
    fn other_at(&mut self, place: usize, name: &[u8], value_type: ValueType) -> Option<Pmid> {
        let epoch = self.registry.epoch();
        let pmid = self.cache.known(name, value_type)?;
        if name.len() > MAX_FIELD_NAME {
            return Some(pmid);
        }
        if let Some(recent) = self.recent.get_mut(place) {
            recent.name.clear();
            recent.name.extend_from_slice(name);
            (recent.value_type, recent.pmid, recent.epoch) = (value_type, pmid, epoch);
        } else if place == self.recent.len() && place < MAX_RECENT {
            self.recent.push(RecentField { name: name.to_vec(), value_type, pmid, epoch });
        }
        Some(pmid)
    }

    /// The metric of a field that was looked up before, if it has one of its own. It stays the field's, also if its place is
    /// somebody else's by now.
    #[inline]
    pub(super) fn interned(&self, field: &InternedField) -> Pmid {
        let epoch = self.registry.epoch();
        if field.epoch.replace(epoch) != epoch {
            self.registry.note_field(field.pmid);
        }
        field.pmid
    }

    /// The metric of a field, and the value that goes there.
    pub(super) fn resolve<'a>(&'a mut self, name: &[u8], value: Param<'a>) -> (Pmid, Param<'a>) {
        match self.own(name, value.value_type()) {
            Some(pmid) => (pmid, value),
            None => {
                let (pmid, text) = self.fold(name, &value);
                (pmid, Param::String(text))
            }
        }
    }

    /// The metric of fields without one of their own, and `name=value` for it.
    pub(super) fn fold(&mut self, name: &[u8], value: &Param<'_>) -> (Pmid, &[u8]) {
        let out = &mut self.folded;
        // One buffer for all: the value is copied into the batch at once.
        out.clear();
        out.extend_from_slice(name);
        out.push(b'=');
        // Writing to a vector cannot fail.
        let _ = match value {
            Param::I32(n) => write!(out, "{n}"),
            Param::U32(n) => write!(out, "{n}"),
            Param::I64(n) => write!(out, "{n}"),
            Param::U64(n) => write!(out, "{n}"),
            Param::Float(n) => write!(out, "{n}"),
            Param::Double(n) => write!(out, "{n}"),
            Param::String(bytes) => out.write_all(bytes),
            Param::Aggregate(bytes) => bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}")),
        };
        (WellKnown::Other.pmid(self.domain), out)
    }
}
