//! Storing values (`docs/pcp/agent.md` 11, `pmStore(3)`).

use super::Core;
use crate::call::{Call, ClientId};
use pcp_model::{InDom, InstanceValue, PM_IN_NULL, PmError, Profile, ValueType};
use pcp_pdu::RawValueSet;
use rustc_hash::FxHashSet;

impl<S> Core<S> {
    /// Stores the values of one metric. Everything that can be checked is checked for all of them before the
    /// first is stored; then they are stored in order up to the first that the agent refuses.
    ///
    /// # Errors
    /// `PM_ERR_PMID` for an unknown metric, `PM_ERR_PERMISSION` for one that is read-only or not for this
    /// client, `PM_ERR_CONV` for values of another type, `PM_ERR_INST` for unknown instances, or the same one twice,
    /// `PM_ERR_VALUE` for no values at all, and what the agent says.
    pub fn store(&mut self, client: ClientId, set: &RawValueSet) -> Result<(), PmError> {
        self.refresh_names();
        let pmid = set.pmid;
        let desc = self.desc(pmid)?;
        let attributes = self.clients.attributes(client).ok_or(PmError::NOCONTEXT)?;
        if !self.grants.store.includes(attributes.identity()) {
            return Err(PmError::PERMISSION);
        }
        let profile = Profile::default();
        let call = Call { client, attributes, profile: &profile, pmid, indom: desc.indom, fetch: self.stamp };
        let metric = self.table.get(&pmid.local()).map(|(index, _)| &self.metrics[*index]);
        if let Some(metric) = metric
            && (metric.store.is_none() || !metric.access.permits(attributes))
        {
            return Err(PmError::PERMISSION);
        }
        // What is stored into an event metric is not events but text about them, such as a filter (pmval -x),
        // and it may be meant for all instances.
        let about_events = matches!(desc.value_type, ValueType::Event | ValueType::HighResEvent);
        let stored_type = if about_events { ValueType::String } else { desc.value_type };
        let values = set.to_values(stored_type)?.values?;
        if values.is_empty() {
            return Err(PmError::VALUE);
        }
        // A dynamic metric's domain may be one the framework does not keep.
        let indom = self.indom_table.get(&desc.indom.serial()).filter(|_| desc.indom != InDom::NULL);
        match indom {
            _ if desc.indom == InDom::NULL && values.len() > 1 => return Err(PmError::INST),
            Some(&at) if !metric.is_some_and(|metric| metric.any_instance) => {
                let instances = self.indoms[at].instances(&mut self.state);
                let known = |inst| instances.contains(inst) || about_events && inst == PM_IN_NULL;
                if !values.iter().all(|value| known(value.inst)) {
                    return Err(PmError::INST);
                }
            }
            _ => {}
        }
        if about_events && !is_one_text(&values) {
            return Err(PmError::BADSTORE);
        }
        if metric.is_some_and(|metric| metric.any_instance) && !are_distinct(&values) {
            return Err(PmError::INST);
        }
        // From here on a refusal leaves the values before it stored: nobody can take a value back.
        for InstanceValue { inst, value } in &values {
            // The instance of a singular metric means nothing, whatever the client sent.
            let inst = if desc.indom == InDom::NULL { PM_IN_NULL } else { *inst };
            match metric.map(|metric| &metric.store) {
                Some(Some(store)) => store(&mut self.state, &call, inst, value)?,
                Some(None) => return Err(PmError::PERMISSION),
                None => {
                    let at = self.dynamic.get(pmid).ok_or(PmError::PMID)?;
                    self.subtrees[at].subtree.store(&mut self.state, &call, inst, value)?;
                }
            }
        }
        Ok(())
    }
}

/// Whether one text is stored, once for each instance: what a text means takes its time to find out, and a request has
/// room for a thousand.
fn is_one_text(values: &[InstanceValue]) -> bool {
    values.iter().all(|value| value.value == values[0].value) && are_distinct(values)
}

/// Whether each instance is there once: what is stored for one may be work, too.
fn are_distinct(values: &[InstanceValue]) -> bool {
    let mut seen = FxHashSet::default();
    values.iter().all(|value| seen.insert(value.inst))
}
