//! Values (spec `agent.md` 16).

use super::Core;
use crate::agent::set::SetWriter;
use crate::agent::{Call, ClientId, Fetch};
use crate::model::{InDom, PM_IN_NULL, PmError, Pmid, Profile};
use crate::pdu::{EncodeError, ResultWriter};

impl<S> Core<S> {
    /// Writes the value set of one metric. A problem becomes the set's error, never more than that.
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
        if !self.owns(pmid) {
            return Err(PmError::PMID);
        }
        let mut call = Call { client, attributes, profile, pmid, indom: InDom::NULL };
        let Some(&(index, desc)) = self.table.get(&pmid.local()) else {
            let at = *self.dynamic.get(&pmid.local()).ok_or(PmError::PMID)?;
            let dynamic = self.subtrees.get(at).ok_or(PmError::PMID)?;
            let desc = dynamic.desc(&self.state, pmid, self.domain)?;
            call.indom = desc.indom;
            let mut set = SetWriter::new(out, desc.value_type, &call);
            dynamic.subtree.fetch(&mut self.state, &call, &mut set)?;
            return set.outcome();
        };
        call.indom = desc.indom;
        let mut set = SetWriter::new(out, desc.value_type, &call);
        // The table was made together with the metrics.
        let metric = &self.metrics[index];
        match &metric.fetch {
            Fetch::None => {}
            Fetch::Set(write) => write(&mut self.state, &call, &mut set)?,
            Fetch::Each(each) => {
                self.scratch.clear();
                match metric.indom.and_then(|serial| self.indom_table.get(&serial)) {
                    None => self.scratch.push(PM_IN_NULL),
                    Some(&at) => {
                        let instances = self.indoms[at].instances(&mut self.state);
                        match set.wants_all() {
                            true => self.scratch.extend_from_slice(instances.active()),
                            false => {
                                self.scratch
                                    .extend(instances.active().iter().filter(|inst| set.wants(**inst)));
                            }
                        }
                    }
                }
                for &inst in &self.scratch {
                    // By reference: moving the answer costs more than all the rest.
                    match &each(&mut self.state, &call, inst) {
                        // A value of another type is noted as the instance's error.
                        Ok(Some(value)) => drop(set.value(inst, value)),
                        Ok(None) => set.no_value(),
                        Err(error) => set.error(*error),
                    }
                }
            }
        }
        set.outcome()
    }
}

/// The code to send for an error. pmcd takes two codes for a broken connection and drops the agent, and a
/// code that is not negative for no error at all (spec `agent.md` 5).
pub(in crate::agent) fn sendable(error: PmError) -> PmError {
    match error {
        PmError::IPC | PmError::TIMEOUT => PmError::GENERIC,
        PmError(0..) => PmError::GENERIC,
        error => error,
    }
}
