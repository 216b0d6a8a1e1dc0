//! Values (`docs/pcp/agent.md` 16).

use super::Core;
use crate::call::{Attributes, Call, ClientId};
use crate::own::OwnMetrics;
use crate::set::SetWriter;
use pcp_model::{Desc, InDom, InstanceValue, PmError, Pmid, Profile, Timestamp};
use pcp_pdu::{EncodeError, ResultWriter};

/// An answer with less room than this is full. Errors in place of values fit in for all metrics that a client
/// can name in one request, so that what was read before is not lost with the answer.
const RESERVE: usize = 1 << 18;

impl<S> Core<S> {
    /// Writes the value set of one metric. A problem becomes the set's error, never more than that. In an
    /// answer that is full already it is `PM_ERR_TOOBIG`, and the agent is not asked: whoever wants everything
    /// sixteen thousand times would keep everybody waiting.
    ///
    /// # Errors
    /// Only for an `out` with a set left open, which is the caller's mistake.
    pub fn fetch(
        &mut self,
        client: ClientId,
        profile: &Profile,
        pmid: Pmid,
        out: &mut ResultWriter,
    ) -> Result<(), EncodeError> {
        if out.room() < RESERVE {
            return out.set_error(pmid, PmError::TOOBIG);
        }
        out.begin_set(pmid)?;
        match self.fetch_values(client, profile, pmid, out) {
            Ok(()) => out.end_set(),
            Err(error) => out.fail_set(sendable(error)),
        }
    }

    fn fetch_values(
        &mut self,
        client: ClientId,
        profile: &Profile,
        pmid: Pmid,
        out: &mut ResultWriter,
    ) -> Result<(), PmError> {
        let attributes = self.clients.attributes(client).ok_or(PmError::NOCONTEXT)?;
        if !self.grants.fetch.includes(attributes.identity()) {
            return Err(PmError::PERMISSION);
        }
        if !self.owns(pmid) {
            return Err(PmError::PMID);
        }
        let (stamp, domain) = (self.stamp, self.domain);
        let mut call = Call { client, attributes, profile, pmid, indom: InDom::NULL, fetch: stamp };
        let fixed = self.table.get(&pmid.local()).copied();
        // Borrowed field by field: a subtree computes with the other metrics while it is itself borrowed from here.
        let (subtrees, dynamic) = (&self.subtrees, &self.dynamic);
        let mut own = OwnMetrics {
            state: &mut self.state,
            metrics: &self.metrics,
            table: &self.table,
            indoms: &self.indoms,
            indom_table: &self.indom_table,
            scratch: &mut self.scratch,
        };
        if let Some((index, desc)) = fixed {
            call.indom = desc.indom;
            let mut set = SetWriter::new(out, desc.value_type, &call);
            own.write(index, &call, &mut set)?;
            return set.outcome();
        }
        let at = dynamic.get(pmid).ok_or(PmError::PMID)?;
        let dynamic = subtrees.get(at).ok_or(PmError::PMID)?;
        let desc = dynamic.desc(own.state, pmid, domain)?;
        call.indom = desc.indom;
        let mut set = SetWriter::new(out, desc.value_type, &call);
        dynamic.subtree.compute(&mut own, &call, &mut set)?;
        set.outcome()
    }

    /// Appends the values that a metric with a fixed name has now to `out`, outside of any request: for nobody
    /// in particular, and of all instances.
    ///
    /// # Errors
    /// As [`OwnMetrics::values`].
    pub fn own_values(&mut self, pmid: Pmid, out: &mut Vec<InstanceValue>) -> Result<(), PmError> {
        let (attributes, profile) = (Attributes::default(), Profile::default());
        let call = Call {
            // Slots are handed out from 0: no client is ever this one, so callbacks keep nothing for it.
            client: ClientId { slot: u32::MAX, generation: u32::MAX },
            attributes: &attributes,
            profile: &profile,
            pmid,
            indom: InDom::NULL,
            fetch: self.stamp,
        };
        let mut own = OwnMetrics {
            state: &mut self.state,
            metrics: &self.metrics,
            table: &self.table,
            indoms: &self.indoms,
            indom_table: &self.indom_table,
            scratch: &mut self.scratch,
        };
        own.values(&call, pmid, out)
    }

    /// Has the agent's own metrics read outside of any request, at one time as in a fetch: for nobody in particular, and of
    /// all instances.
    pub fn outside<T>(
        &mut self,
        time: Timestamp,
        read: impl FnOnce(&mut OwnMetrics<'_, S>, &Call<'_>) -> T,
    ) -> T {
        self.begin_fetch(time);
        let (attributes, profile) = (Attributes::default(), Profile::default());
        let call = Call {
            // As in `own_values`.
            client: ClientId { slot: u32::MAX, generation: u32::MAX },
            attributes: &attributes,
            profile: &profile,
            pmid: Pmid::new(self.domain, 0, 0),
            indom: InDom::NULL,
            fetch: self.stamp,
        };
        let mut own = OwnMetrics {
            state: &mut self.state,
            metrics: &self.metrics,
            table: &self.table,
            indoms: &self.indoms,
            indom_table: &self.indom_table,
            scratch: &mut self.scratch,
        };
        read(&mut own, &call)
    }

    /// Names and descriptors of the metrics with a fixed name, in no particular order.
    pub fn fixed_metrics(&self) -> impl Iterator<Item = (&str, Desc)> {
        self.table.values().map(|(index, desc)| (self.metrics[*index].name.as_str(), *desc))
    }
}

/// The code to send for an error. pmcd takes two codes for a broken connection and drops the agent, and a
/// code that is not negative for no error at all (`docs/pcp/agent.md` 5).
pub(crate) fn sendable(error: PmError) -> PmError {
    match error {
        PmError::IPC | PmError::TIMEOUT => PmError::GENERIC,
        PmError(0..) => PmError::GENERIC,
        error => error,
    }
}
