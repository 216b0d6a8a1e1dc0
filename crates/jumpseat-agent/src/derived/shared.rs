//! The agent's own history: one for everybody who has none yet.
//!
//! A reader that opens a context for each look, such as a scrape of pmproxy's `/metrics`, never has two samples, and so no rate.
//! If the configuration says so, the agent samples what its definitions are made of by itself, once a window, and such a
//! reader gets what came out for the last whole window. Its second look is by its own history, as ever.
//!
//! **Bounded:** one history, by half of the budget for all; if it does not fit there is none until the definitions are read again.
//! **Cost:** each definition is evaluated once a window, over all instances, whether or not anybody looks.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use pcp_derive::{Column, Registry};
use pcp_model::Pmid;
use pcp_pmda::{Call, OwnMetrics};

use super::catalogue::Catalogue;
use super::session::{Session, bytes};

/// What came out for the last window, and the history for the next one.
#[derive(Default)]
pub(super) struct SharedHistory {
    session: Session,
    columns: FxHashMap<Pmid, Arc<Column>>,
    bytes: usize,
    /// It took more memory than there is for it.
    too_large: bool,
}

impl SharedHistory {
    /// What came out for a definition.
    pub(super) fn of(&self, definition: Pmid) -> Option<Arc<Column>> {
        self.columns.get(&definition).cloned()
    }

    /// Memory that it takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it is to be kept.
    pub(super) fn is_wanted(&self) -> bool {
        !self.too_large
    }

    /// Definitions mean other things now.
    pub(super) fn forget_columns(&mut self) {
        self.columns.clear();
    }

    fn count(&mut self, most: u64) {
        let columns: usize = self.columns.values().map(|column| bytes(column)).sum();
        self.bytes = self.session.bytes() + columns;
        if self.bytes as u64 > most {
            tracing::warn!(
                "derived.history: {} bytes, more than half of derived.history_budget: there is no history of the agent's own",
                self.bytes
            );
            *self = SharedHistory { too_large: true, ..SharedHistory::default() };
        }
    }
}

/// All definitions that are made of the agent's own metrics, on their way to what comes out of them for everybody. Taken out
/// of the state, which operands are read from meanwhile.
pub(crate) struct Sampling {
    definitions: Vec<Pmid>,
    registry: Arc<Registry>,
    catalogue: Arc<Catalogue>,
    history: SharedHistory,
}

impl Sampling {
    /// These definitions, with the history there is.
    pub(super) fn new(
        definitions: Vec<Pmid>,
        registry: Arc<Registry>,
        catalogue: Arc<Catalogue>,
        mut history: SharedHistory,
    ) -> Sampling {
        history.columns.retain(|known, _| definitions.contains(known));
        Sampling { definitions, registry, catalogue, history }
    }

    /// The history, after it, by at most so many bytes.
    pub(super) fn end(mut self, most: u64) -> SharedHistory {
        self.history.count(most);
        self.history
    }

    /// Evaluates them.
    pub(crate) fn evaluate<S>(&mut self, own: &mut OwnMetrics<'_, S>, call: &Call<'_>) {
        let Sampling { definitions, registry, catalogue, history: SharedHistory { session, columns, .. } } =
            self;
        for definition in &*definitions {
            session.evaluate((*definition, registry, catalogue), own, call, |column| match column {
                Ok(column) if !column.ids.is_empty() => {
                    columns.insert(*definition, Arc::new(column.clone()));
                }
                _ => _ = columns.remove(definition),
            });
        }
    }
}
