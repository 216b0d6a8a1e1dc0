//! The agent's own metrics, as seen from within a fetch: what derived metrics are made of.

use std::collections::HashMap;

use rustc_hash::FxHashMap;

use crate::call::Call;
use crate::indom::{Indom, Instances};
use crate::metric::{Fetch, Metric};
use crate::set::SetWriter;
use pcp_model::{Desc, Inst, InstanceValue, PM_IN_NULL, PmError, Pmid};

/// The metrics with a fixed name, and the state they read. A [`Subtree`](crate::Subtree) gets it to compute
/// values from other metrics' values, within the same fetch and under the same profile.
pub struct OwnMetrics<'a, S> {
    /// The agent's own state.
    pub state: &'a mut S,
    pub(super) metrics: &'a [Metric<S>],
    /// Index into `metrics`, and descriptor, by [`Pmid::local`].
    pub(super) table: &'a FxHashMap<u32, (usize, Desc)>,
    pub(super) indoms: &'a [Indom<S>],
    pub(super) indom_table: &'a HashMap<u32, usize>,
    pub(super) scratch: &'a mut Vec<Inst>,
}

impl<S> OwnMetrics<'_, S> {
    /// Appends the values of a metric to `out`, for the client and under the profile of `call`.
    ///
    /// # Errors
    /// What the metric's value set would have for an error; `PM_ERR_PMID` for a metric that is not one of
    /// those with a fixed name, `PM_ERR_TYPE` for event records, which only leave as they are.
    pub fn values(
        &mut self,
        call: &Call<'_>,
        pmid: Pmid,
        out: &mut Vec<InstanceValue>,
    ) -> Result<(), PmError> {
        let &(index, desc) = self.table.get(&pmid.local()).ok_or(PmError::PMID)?;
        let call = Call { pmid, indom: desc.indom, ..*call };
        let mut set = SetWriter::collecting(out, desc.value_type, &call);
        self.write(index, &call, &mut set)?;
        set.outcome()
    }

    /// The instances of one of the agent's domains, brought up to date.
    ///
    /// # Errors
    /// `PM_ERR_INDOM` for an unknown domain.
    pub fn instances(&mut self, serial: u32) -> Result<&Instances, PmError> {
        let at = *self.indom_table.get(&serial).ok_or(PmError::INDOM)?;
        // The table was made together with the domains.
        Ok(self.indoms[at].instances(self.state))
    }

    /// Has the metric at `index` of the table write its values.
    #[inline]
    pub(super) fn write(
        &mut self,
        index: usize,
        call: &Call<'_>,
        set: &mut SetWriter<'_>,
    ) -> Result<(), PmError> {
        // The table was made together with the metrics.
        let metric = &self.metrics[index];
        match &metric.fetch {
            Fetch::None => {}
            Fetch::Set(write) => write(self.state, call, set)?,
            Fetch::Each(each) => {
                // The ids are copied out first: the callback gets the state, in which the instances may live, and
                // may change them.
                self.scratch.clear();
                match metric.indom.and_then(|serial| self.indom_table.get(&serial)) {
                    None => self.scratch.push(PM_IN_NULL),
                    Some(&at) => {
                        let instances = self.indoms[at].instances(self.state);
                        set.wanted(instances.active(), self.scratch);
                    }
                }
                each(self.state, call, self.scratch, set);
            }
        }
        Ok(())
    }
}
