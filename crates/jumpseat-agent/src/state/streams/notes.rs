//! What has to be written down of pmcd's clients before they are answered.

use pcp_event::log::CursorState;
use pcp_model::Inst;
use pcp_pmda::ClientId;
use rustc_hash::{FxHashMap, FxHashSet};

/// Notes of what has happened since the last answer.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Those whose contexts are kept.
    kept: FxHashSet<ClientId>,
    /// Those who are not as they were written down.
    changed: FxHashSet<ClientId>,
    /// Streams that were read, and how they were before.
    moved: FxHashMap<Inst, CursorState>,
}

impl Notes {
    /// The client's context is to be kept from now on.
    pub(crate) fn keep(&mut self, client: ClientId) {
        self.kept.insert(client);
    }

    /// Whether the client's context is kept.
    pub(crate) fn keeps(&self, client: ClientId) -> bool {
        self.kept.contains(&client)
    }

    /// The client has gone.
    pub(super) fn end(&mut self, client: ClientId) {
        self.kept.remove(&client);
        self.changed.remove(&client);
    }

    /// Anything of the client has changed but where its streams are.
    pub(super) fn change(&mut self, client: ClientId) {
        if self.keeps(client) {
            self.changed.insert(client);
        }
    }

    /// A stream of a client whose context is kept has been read.
    pub(crate) fn shift(&mut self, stream: Inst, before: CursorState) {
        // The first time in an answer, if it is more than one.
        self.moved.entry(stream).or_insert(before);
    }

    /// Whether there is nothing to write down.
    pub(crate) fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.moved.is_empty()
    }

    /// Clients to be written down.
    pub(crate) fn changed(&self) -> impl Iterator<Item = ClientId> {
        self.changed.iter().copied()
    }

    /// The streams that were read.
    pub(crate) fn moved(&self) -> impl Iterator<Item = Inst> {
        self.moved.keys().copied()
    }

    /// How a stream was before the answer.
    pub(crate) fn before(&self, stream: Inst) -> Option<CursorState> {
        self.moved.get(&stream).copied()
    }

    /// It is written down.
    pub(crate) fn clear(&mut self) {
        self.changed.clear();
        self.moved.clear();
    }
}
