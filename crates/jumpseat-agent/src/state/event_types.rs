//! How many events of each type each source has sent.

use pcp_model::Inst;
use pcp_pmda::Instances;

use super::by_inst::ByInst;
use super::sources::announced;

/// All (source, event type) pairs.
pub(crate) struct EventTypes {
    names: Instances,
    by_inst: ByInst<EventType>,
    /// How often it came out later how the type of one of them was sent.
    renamed: u64,
}

/// One event type of one source.
#[derive(Debug)]
pub(crate) struct EventType {
    /// The source's instance.
    pub source: Inst,
    /// The type as it was sent.
    pub event_type: String,
    /// Events so far.
    pub count: u64,
}

impl EventTypes {
    /// None yet.
    pub(crate) fn new() -> EventTypes {
        EventTypes { names: Instances::in_memory(), by_inst: ByInst::default(), renamed: 0 }
    }

    /// The instance domain.
    pub(crate) fn names(&self) -> &Instances {
        &self.names
    }

    /// A pair by its instance.
    pub(crate) fn get(&self, inst: Inst) -> Option<&EventType> {
        self.by_inst.get(inst)
    }

    /// Changes whenever labels of pairs do.
    pub(crate) fn label_generation(&self) -> u64 {
        self.names.active().len() as u64 + self.renamed
    }

    /// Takes in a pair that the registry has announced; `count`: its events so far.
    pub(crate) fn add(&mut self, inst: Inst, name: &str, source: Inst, event_type: String, count: u64) {
        if let Some(known) = self.by_inst.get_mut(inst) {
            known.event_type = event_type;
            self.renamed += 1;
        } else if announced(self.names.add_as(inst, name), name) {
            self.by_inst.insert(inst, EventType { source, event_type, count });
        }
    }

    /// Takes out a pair that has given its place to a newcomer. How many instances have gone.
    pub(crate) fn remove(&mut self, inst: Inst) -> u64 {
        self.names.forget(inst);
        u64::from(self.by_inst.remove(inst).is_some())
    }

    /// Counts events by pair.
    pub(crate) fn count(&mut self, counts: &[(Inst, u64)]) {
        for &(inst, count) in counts {
            if let Some(event_type) = self.by_inst.get_mut(inst) {
                event_type.count += count;
            }
        }
    }
}
