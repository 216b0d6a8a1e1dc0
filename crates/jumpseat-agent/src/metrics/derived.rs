//! `jumpseat.derived.*`: what clients see of the derived metrics.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use pcp_model::{Desc, PmError, Pmid, Timestamp};
use pcp_pmda::{Call, Core, OwnMetrics, SetWriter, Subtree, TextLevel};

use crate::derived::{Entry, OwnOperands, Status, Wanted};
use crate::state::State;

/// Longest text given out: well below the longest PDU of pmcd.
pub(crate) const MAX_TEXT: usize = 8 << 10;
/// Longest expression in a line of text.
const MAX_ONELINE: usize = 80;

/// The dynamic subtree over [`State::derived`].
pub(crate) struct DerivedMetrics;

impl Subtree<State> for DerivedMetrics {
    fn generation(&self, state: &State) -> u64 {
        state.derived.generation()
    }

    fn names(&self, state: &State, name: &mut dyn FnMut(&str, Pmid)) {
        for (leaf, entry) in state.derived.entries().filter(|(_, entry)| entry.desc().is_some()) {
            name(leaf, entry.pmid);
        }
    }

    fn unlisted(&self, state: &State, name: &mut dyn FnMut(&str, Pmid)) {
        for (leaf, entry) in state.derived.entries().filter(|(_, entry)| entry.desc().is_none()) {
            name(leaf, entry.pmid);
        }
    }

    fn desc(&self, state: &State, pmid: Pmid) -> Option<Desc> {
        state.derived.entry(pmid)?.desc()
    }

    fn desc_error(&self, state: &State, pmid: Pmid) -> PmError {
        match state.derived.entry(pmid).map(|entry| &entry.status) {
            Some(Status::Waiting) => PmError::AGAIN,
            _ => PmError::BADDERIVE,
        }
    }

    fn compute(
        &self,
        own: &mut OwnMetrics<'_, State>,
        call: &Call<'_>,
        values: &mut SetWriter<'_>,
    ) -> Result<(), PmError> {
        let mut computation = own.state.derived.begin(call)?;
        let result = computation.write(own, call, values);
        // Also after an error: the client keeps its history.
        own.state.derived.end(call.client, computation);
        result
    }

    fn text(&self, state: &State, pmid: Pmid, kind: TextLevel) -> Option<String> {
        let Entry { wanted: Wanted { expression, oneline, help, .. }, status, .. } =
            state.derived.entry(pmid)?;
        if let Status::Refused(reason) = status {
            let text = format!("cannot be used: {reason}");
            return Some(cut(&text, if kind == TextLevel::OneLine { MAX_ONELINE } else { MAX_TEXT }).into());
        }
        let text = match (kind, oneline, help) {
            (TextLevel::OneLine, Some(oneline), _) => oneline.clone(),
            (TextLevel::OneLine, None, _) => format!("derived: {}", cut(expression, MAX_ONELINE)),
            (TextLevel::Help, _, Some(help)) => format!("{help}\n\nDerived: {expression}"),
            (TextLevel::Help, Some(oneline), None) => format!("{oneline}\n\nDerived: {expression}"),
            (TextLevel::Help, None, None) => format!("Derived: {expression}"),
        };
        Some(cut(&text, MAX_TEXT).into())
    }
}

/// Takes what the sampler has reported. The agent's own metrics that definitions have next to sampled ones are read
/// now: the values of a definition are of one time.
pub(crate) fn take_report(core: &mut Core<State>) {
    if let Some(operands) = core.state.derived.take_report() {
        read_own(core, operands);
    }
}

/// Reads them, and completes the sample with them.
pub(crate) fn read_own(core: &mut Core<State>, operands: OwnOperands) {
    let mut own = FxHashMap::default();
    for pmid in operands.pmids() {
        let mut values = Vec::new();
        let read = core.own_values(pmid, &mut values);
        own.insert(pmid.local(), read.map(|()| values));
    }
    core.state.derived.set_sample(operands, own);
}

/// Has what is computed of the agent's own metrics computed for everybody, at a time.
pub(crate) fn sample_for_all(core: &mut Core<State>, time: Timestamp) {
    core.outside(time, |own, call| {
        let mut sampling = own.state.derived.begin_shared();
        sampling.evaluate(own, call);
        own.state.derived.end_shared(sampling);
    });
}

/// The start of a text, if it is longer than `most` bytes.
fn cut(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}...", pcp_model::text::cut(text, most)))
}
