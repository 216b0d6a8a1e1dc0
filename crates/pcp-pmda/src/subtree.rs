//! Dynamic parts of the name space: metrics that come and go while the agent runs.

use super::call::Call;
use super::labels::LabelList;
use super::own::OwnMetrics;
use super::set::SetWriter;
use pcp_model::{Desc, Inst, PmError, Pmid, Value};
use pcp_pdu::TextLevel;

/// The metrics below one dynamic root (`name D:*:*` in the name space).
///
/// The framework keeps a copy of the names, sorted both ways, and asks for them again only when
/// [`Subtree::generation`] has changed: naming requests never call back into the agent. PMIDs are the
/// agent's choice within its own domain (the domain part is put in by the framework), must differ from those
/// of all other metrics, and must keep their meaning for ever: derive them from an [`pcp_ids::IdMap`].
pub trait Subtree<S> {
    /// A number that changes whenever names do. Clients are notified of the change with their next fetch.
    fn generation(&self, state: &S) -> u64;

    /// Gives each name, relative to the root (`a`, `a.b`), with its cluster and item. Several names may share
    /// a PMID.
    fn names(&self, state: &S, name: &mut dyn FnMut(&str, Pmid));

    /// Names that are found by whoever asks for them, but not listed: metrics that are defined yet unusable.
    /// The default has none.
    fn unlisted(&self, state: &S, name: &mut dyn FnMut(&str, Pmid)) {
        let _ = (state, name);
    }

    /// The descriptor of a metric that has a name. Its PMID carries the domain of `pmid`, and so does an instance
    /// domain of domain 0; another agent's stays as it is.
    fn desc(&self, state: &S, pmid: Pmid) -> Option<Desc>;

    /// Writes the metric's values, as [`Fetch::Set`](crate::Fetch::Set) does. The default gives none.
    ///
    /// # Errors
    /// What the client is to see instead of values.
    fn fetch(&self, state: &mut S, call: &Call<'_>, values: &mut SetWriter<'_>) -> Result<(), PmError> {
        let _ = (state, call, values);
        Ok(())
    }

    /// As [`Subtree::fetch`], for metrics made of the agent's own other metrics: those, and the state, are
    /// reached through `own`. The framework calls this; the default calls [`Subtree::fetch`].
    ///
    /// # Errors
    /// What the client is to see instead of values.
    fn compute(
        &self,
        own: &mut OwnMetrics<'_, S>,
        call: &Call<'_>,
        values: &mut SetWriter<'_>,
    ) -> Result<(), PmError> {
        self.fetch(own.state, call, values)
    }

    /// Why [`Subtree::desc`] gives nothing for a metric that has a name.
    fn desc_error(&self, state: &S, pmid: Pmid) -> PmError {
        let _ = (state, pmid);
        PmError::PMID
    }

    /// Stores one instance's value, which has the metric's type. The default refuses.
    ///
    /// # Errors
    /// What the client is to see.
    fn store(&self, state: &mut S, call: &Call<'_>, inst: Inst, value: &Value) -> Result<(), PmError> {
        let _ = (state, call, inst, value);
        Err(PmError::PERMISSION)
    }

    /// Help for a metric that has a name.
    fn text(&self, state: &S, pmid: Pmid, level: TextLevel) -> Option<String>;

    /// Labels of a metric that has a name. The default adds none.
    ///
    /// # Errors
    /// What the client is to see instead of labels.
    fn labels(&self, state: &S, pmid: Pmid, labels: &mut LabelList) -> Result<(), PmError> {
        let _ = (state, pmid, labels);
        Ok(())
    }
}
