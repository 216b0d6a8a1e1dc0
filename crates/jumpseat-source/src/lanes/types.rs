//! The events of a source by their type, counted without a look at the registry for each.

use hashbrown::HashMap;

use crate::registry::{MAX_SENT_NAME, Registry, Taker};
use pcp_event::EventFlags;
use pcp_model::Inst;

/// Most spellings of event types a lane remembers, and the longest; others cost a look at the registry
/// each.
const MAX_SPELLINGS: usize = 1024;
const MAX_SPELLING: usize = MAX_SENT_NAME;

/// The instance of a type that was not looked up yet.
const NO_TYPE: Inst = -1;

/// An event type's place in its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeSlot(u32);

impl TypeSlot {
    /// No place: nothing is counted. Do not keep it, as a later look-up may find one.
    pub const NONE: TypeSlot = TypeSlot(u32::MAX);
}

/// The event types of one lane. What each record takes a look at comes first.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct EventTypes {
    /// The spelling that came last.
    last: LastSpelling,
    types: Vec<EventType>,
    untyped: Option<TypeSlot>,
    by_spelling: HashMap<Box<[u8]>, TypeSlot>,
    /// When there were too many spellings, and they were forgotten.
    swept: u32,
}

/// A spelling, as most events have the type of the one before: a comparison instead of a hash.
#[derive(Debug)]
struct LastSpelling {
    bytes: [u8; 32],
    slot: TypeSlot,
    len: u8,
}

impl Default for LastSpelling {
    fn default() -> LastSpelling {
        LastSpelling { bytes: [0; 32], len: 0, slot: TypeSlot::NONE }
    }
}

impl LastSpelling {
    #[inline]
    fn slot(&self, name: &[u8]) -> Option<TypeSlot> {
        (self.slot != TypeSlot::NONE && self.bytes.get(..self.len.into()) == Some(name)).then_some(self.slot)
    }

    fn set(&mut self, name: &[u8], slot: TypeSlot) {
        if let Some(bytes) = self.bytes.get_mut(..name.len()) {
            bytes.copy_from_slice(name);
            (self.len, self.slot) = (name.len() as u8, slot);
        }
    }
}

#[derive(Debug)]
struct EventType {
    id: Inst,
    /// What the registry is asked for; `None`: events without a type.
    spelling: Option<Box<[u8]>>,
    /// When it was.
    epoch: u32,
    /// Events since the last delivery.
    count: u64,
    /// Whether the registry knows that there are spans of this type.
    has_spans: bool,
}

impl EventTypes {
    /// The place where events of a type are counted.
    #[inline]
    pub(super) fn slot(
        &mut self,
        registry: (&Registry, Taker),
        source: Inst,
        event_type: Option<&[u8]>,
    ) -> TypeSlot {
        let Some(name) = event_type else {
            return self.untyped.unwrap_or_else(|| self.new_slot(registry, source, None));
        };
        if let Some(slot) = self.last.slot(name) {
            return slot;
        }
        match self.by_spelling.get(name) {
            Some(&slot) => {
                self.last.set(name, slot);
                slot
            }
            None => self.new_slot(registry, source, event_type),
        }
    }

    #[cold]
    fn new_slot(
        &mut self,
        (registry, taker): (&Registry, Taker),
        source: Inst,
        event_type: Option<&[u8]>,
    ) -> TypeSlot {
        let Some(id) = registry.event_type_for(source, event_type, taker) else {
            // The disk is full, say. Not remembered, so that a later event tries again.
            return TypeSlot::NONE;
        };
        let epoch = registry.epoch();
        // Several spellings, and all types beyond the cap, are one type to the registry.
        let index = self.types.iter().position(|known| known.id == id).unwrap_or_else(|| {
            let spelling = event_type.map(Box::from);
            self.types.push(EventType { id, spelling, epoch, count: 0, has_spans: false });
            self.types.len() - 1
        });
        let slot = TypeSlot(index as u32);
        if self.by_spelling.len() >= MAX_SPELLINGS && self.swept != epoch {
            self.swept = epoch;
            self.by_spelling.clear();
            self.last = LastSpelling::default();
        }
        match event_type {
            // Not among the spellings: an event with an empty type has one.
            None => self.untyped = Some(slot),
            Some(name) if self.by_spelling.len() < MAX_SPELLINGS && name.len() <= MAX_SPELLING => {
                self.by_spelling.insert(name.into(), slot);
            }
            Some(_) => {}
        }
        slot
    }

    /// The source has another instance: all types are looked up again as events come.
    pub(super) fn of_another_source(mut self) -> EventTypes {
        self.types.iter_mut().for_each(|event_type| (event_type.id, event_type.has_spans) = (NO_TYPE, false));
        self
    }

    /// Asks the registry again for a type, whose place may be somebody else's by now; so it knows which are in use.
    #[cold]
    fn ask_again(&mut self, slot: TypeSlot, (registry, taker): (&Registry, Taker), source: Inst) {
        let Some(event_type) = self.types.get_mut(slot.0 as usize) else { return };
        let epoch = registry.epoch();
        // Spans of it are noted with the next one.
        event_type.has_spans = false;
        if event_type.id != NO_TYPE && registry.note_event_type(event_type.id) {
            event_type.epoch = epoch;
        } else if let Some(id) = registry.event_type_for(source, event_type.spelling.as_deref(), taker) {
            (event_type.id, event_type.epoch) = (id, epoch);
        }
    }

    /// Counts an event. Gives the instance id of its type if it begins or ends a span, for the first time for one of
    /// its type: the registry has to know.
    #[inline]
    pub(super) fn count(
        &mut self,
        slot: TypeSlot,
        flags: EventFlags,
        registry: (&Registry, Taker),
        source: Inst,
    ) -> Option<Inst> {
        if self.types.get(slot.0 as usize)?.epoch != registry.0.epoch() {
            self.ask_again(slot, registry, source);
        }
        let event_type = self.types.get_mut(slot.0 as usize)?;
        event_type.count += 1;
        // An END without a type has the name of its START, which came with a type of its own.
        let is_span = flags.contains(EventFlags::START)
            || flags.contains(EventFlags::END) && self.untyped != Some(slot);
        if !is_span || event_type.has_spans {
            return None;
        }
        event_type.has_spans = true;
        Some(event_type.id)
    }

    /// Moves the counts into a delivery's: only types with events.
    pub(super) fn drain_into(&mut self, counts: &mut Vec<(Inst, u64)>) {
        let counted =
            self.types.iter_mut().filter(|event_type| event_type.count > 0 && event_type.id != NO_TYPE);
        counts.extend(counted.map(|event_type| (event_type.id, std::mem::take(&mut event_type.count))));
    }

    /// Takes back the counts of a delivery that could not be handed over.
    pub(super) fn take_back(&mut self, counts: &mut Vec<(Inst, u64)>) {
        for (id, count) in counts.drain(..) {
            let known = self.types.iter_mut().find(|event_type| event_type.id == id);
            debug_assert!(known.is_some(), "types are never removed, and {id} was counted here");
            if let Some(event_type) = known {
                event_type.count += count;
            }
        }
    }
}
