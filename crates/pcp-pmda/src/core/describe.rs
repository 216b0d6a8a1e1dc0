//! Descriptors, instances, help text and labels.

use super::{Core, Dynamic};
use crate::help::Topic;
use crate::indom::Instances;
use crate::labels::{LabelList, LabelSubject};
use pcp_model::{Desc, InDom, Inst, Label, LabelSet, PM_IN_NULL, PmError, Pmid};
use pcp_pdu::TextLevel;

impl<S> Core<S> {
    /// The descriptor of a metric.
    ///
    /// # Errors
    /// `PM_ERR_PMID` for an unknown metric.
    pub fn desc(&mut self, pmid: Pmid) -> Result<Desc, PmError> {
        self.refresh_names();
        if !self.owns(pmid) {
            return Err(PmError::PMID);
        }
        if let Some((_, desc)) = self.table.get(&pmid.local()) {
            return Ok(*desc);
        }
        self.dynamic_of(pmid)?.desc(&self.state, pmid, self.domain)
    }

    /// The instances of an instance domain, brought up to date.
    ///
    /// # Errors
    /// `PM_ERR_INDOM` for an unknown domain.
    pub fn instances(&mut self, indom: InDom) -> Result<&Instances, PmError> {
        if indom.0 >> 22 != u32::from(self.domain) {
            let foreign = self.foreign_instances.as_ref().and_then(|find| find(&self.state, indom));
            return foreign.ok_or(PmError::INDOM);
        }
        let at = self.indom_table.get(&indom.serial()).ok_or(PmError::INDOM)?;
        // The table was made together with the domains.
        Ok(self.indoms[*at].instances(&mut self.state))
    }

    /// Help text of a metric.
    ///
    /// # Errors
    /// `PM_ERR_TEXT` if there is none.
    pub fn metric_text(&mut self, pmid: Pmid, level: TextLevel) -> Result<String, PmError> {
        self.refresh_names();
        if !self.owns(pmid) {
            return Err(PmError::TEXT);
        }
        match self.dynamic_of(pmid) {
            Ok(dynamic) => dynamic.subtree.text(&self.state, pmid, level).ok_or(PmError::TEXT),
            Err(_) => self.static_text(Topic::Metric(pmid), level),
        }
    }

    /// Help text of an instance domain.
    ///
    /// # Errors
    /// `PM_ERR_TEXT` if there is none.
    pub fn indom_text(&self, indom: InDom, level: TextLevel) -> Result<String, PmError> {
        self.static_text(Topic::InDom(indom), level)
    }

    fn static_text(&self, topic: Topic, level: TextLevel) -> Result<String, PmError> {
        let help = self.help.get(topic).ok_or(PmError::TEXT)?;
        Ok(match level {
            TextLevel::OneLine => help.oneline.to_owned(),
            TextLevel::Help => help.text.to_owned(),
        })
    }

    /// The labels of a subject other than instances: one set, or none if there are no labels.
    ///
    /// # Errors
    /// What the agent's callback says.
    pub fn labels(&mut self, subject: LabelSubject) -> Result<Vec<LabelSet>, PmError> {
        self.refresh_names();
        let labels = self.labels_of(subject)?;
        Ok(if labels.is_empty() {
            Vec::new()
        } else {
            vec![LabelSet { inst: PM_IN_NULL, labels: Ok(labels) }]
        })
    }

    /// The labels of the instances of a domain: one set each, perhaps without labels.
    ///
    /// # Errors
    /// `PM_ERR_INDOM` for an unknown domain.
    pub fn instance_labels(&mut self, indom: InDom) -> Result<Vec<LabelSet>, PmError> {
        // Copied, as the callback gets the state that the instances may live in.
        let active: Vec<Inst> = self.instances(indom)?.active().to_vec();
        let set = |inst| LabelSet { inst, labels: self.labels_of(LabelSubject::Instance(indom, inst)) };
        Ok(active.into_iter().map(set).collect())
    }

    fn labels_of(&self, subject: LabelSubject) -> Result<Vec<Label>, PmError> {
        let mut list = LabelList::new(subject.kind());
        match subject {
            LabelSubject::Item(pmid) if self.dynamic.get(pmid).is_some() => {
                self.dynamic_of(pmid)?.subtree.labels(&self.state, pmid, &mut list)?;
            }
            // Unknown metrics and domains have no labels, which is no error (`docs/pcp/wire.md` 17.1).
            LabelSubject::Item(pmid) if !self.table.contains_key(&pmid.local()) => {}
            LabelSubject::InDom(indom) if !self.indom_table.contains_key(&indom.serial()) => {}
            _ => {
                if let Some(labels) = &self.labels {
                    labels(&self.state, subject, &mut list)?;
                }
            }
        }
        Ok(list.into_labels())
    }

    fn dynamic_of(&self, pmid: Pmid) -> Result<&Dynamic<S>, PmError> {
        let at = self.dynamic.get(pmid).ok_or(PmError::PMID)?;
        self.subtrees.get(at).ok_or(PmError::PMID)
    }
}

impl<S> Dynamic<S> {
    /// The descriptor of a metric of the subtree, with the agent's domain put in.
    pub(super) fn desc(&self, state: &S, pmid: Pmid, domain: u16) -> Result<Desc, PmError> {
        let desc = self.subtree.desc(state, pmid).ok_or_else(|| self.subtree.desc_error(state, pmid))?;
        // A subtree is written without knowing the domain that a configuration gives its agent.
        let indom = match desc.indom.domain() {
            0 => InDom::new(domain, desc.indom.serial()),
            _ => desc.indom,
        };
        Ok(Desc { pmid, indom, ..desc })
    }
}
