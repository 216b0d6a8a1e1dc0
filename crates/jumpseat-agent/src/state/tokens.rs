//! The names of receivers' tokens, as the source threads have them.

use std::sync::Arc;

use jumpseat_source::guard::book::TokenCounts;
use jumpseat_source::registry::Registry;
use pcp_model::Inst;
use pcp_pmda::Instances;
use rustc_hash::FxHashMap;

/// Those that are known.
pub(crate) struct Tokens {
    instances: Instances,
    counts: FxHashMap<Inst, Arc<TokenCounts>>,
    generation: u64,
}

impl Default for Tokens {
    fn default() -> Tokens {
        Tokens { instances: Instances::in_memory(), counts: FxHashMap::default(), generation: 0 }
    }
}

impl Tokens {
    /// Takes in names that have come.
    pub(crate) fn refresh(&mut self, registry: &Registry) {
        let Some((generation, known)) = registry.tokens().since(self.generation) else { return };
        self.generation = generation;
        for token in known {
            // A number that is there already is of the same name.
            if self.instances.add_as(token.id, &token.name).is_ok() {
                self.counts.insert(token.id, token.counts);
            }
        }
    }

    /// Their names.
    pub(crate) fn instances(&self) -> &Instances {
        &self.instances
    }

    /// What is done with one.
    pub(crate) fn counts(&self, inst: Inst) -> Option<&TokenCounts> {
        self.counts.get(&inst).map(|counts| &**counts)
    }
}
