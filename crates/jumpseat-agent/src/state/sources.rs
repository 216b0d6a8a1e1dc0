//! All sources, by instance: the one map that says what a source is.

use std::collections::BTreeMap;
use std::collections::btree_map;

use jumpseat_source::rules::SourceRule;
use jumpseat_source::{Delivery, Reason, Rules};
use pcp_ids::IdsError;
use pcp_model::Inst;
use pcp_pmda::Instances;

use crate::config::{EventsConfig, who};
use crate::identity::reason_inst;

use super::shares::{levels, use_of};
use super::source::Source;
use super::spans::{SourceSpans, SpansBySource};

/// All sources.
pub(crate) struct Sources {
    by_inst: BTreeMap<Inst, Source>,
    /// The instance domain of sources.
    names: Instances,
    /// The instance domain of (source, reason) pairs: those of sources that have sent something.
    reasons: Instances,
    /// How often the labels of one of them have changed.
    label_changes: u64,
    /// What the configuration says of single sources.
    rules: Rules,
}

impl Sources {
    /// None yet.
    pub(crate) fn new(rules: Rules) -> Sources {
        Sources {
            by_inst: BTreeMap::new(),
            names: Instances::in_memory(),
            reasons: Instances::in_memory(),
            label_changes: 0,
            rules,
        }
    }

    /// The instance domain of sources.
    pub(crate) fn names(&self) -> &Instances {
        &self.names
    }

    /// The instance domain of (source, reason) pairs.
    pub(crate) fn reasons(&self) -> &Instances {
        &self.reasons
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_inst.len()
    }

    /// The source of an instance.
    pub(crate) fn get(&self, inst: Inst) -> Option<&Source> {
        self.by_inst.get(&inst)
    }

    /// The source of an instance.
    pub(crate) fn get_mut(&mut self, inst: Inst) -> Option<&mut Source> {
        self.by_inst.get_mut(&inst)
    }

    /// All, by instance.
    pub(crate) fn iter(&self) -> btree_map::Iter<'_, Inst, Source> {
        self.by_inst.iter()
    }

    /// All, by instance.
    pub(crate) fn iter_mut(&mut self) -> btree_map::IterMut<'_, Inst, Source> {
        self.by_inst.iter_mut()
    }

    /// Memory for all records, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.by_inst.values().map(|source| source.log.stats().bytes).sum()
    }

    /// Changes whenever labels of sources and reasons do.
    pub(crate) fn label_generation(&self) -> u64 {
        (self.by_inst.len() + self.reasons.active().len()) as u64 + self.label_changes
    }

    /// Takes in a source that the registry has announced, under the rules for its name; gives it back if it is new.
    pub(crate) fn add(&mut self, inst: Inst, source: Source, limits: &EventsConfig) -> Option<&mut Source> {
        if !announced(self.names.add_as(inst, &source.name), &source.name) {
            return None;
        }
        self.by_inst.insert(inst, source);
        // Of lives before.
        self.add_reasons(inst);
        // The registry made its gate under the rules of that time; they may have changed since.
        self.store_rule(inst, SourceRule::default(), limits);
        self.by_inst.get_mut(&inst)
    }

    /// Takes out a source that has given its place to a newcomer.
    pub(crate) fn remove(&mut self, inst: Inst) -> Option<Source> {
        let source = self.by_inst.remove(&inst)?;
        self.names.forget(inst);
        let reasons = Reason::ALL.into_iter().filter_map(|reason| reason_inst(inst, reason));
        let reasons: Vec<Inst> = reasons.filter(|inst| self.reasons.contains(*inst)).collect();
        self.reasons.forget_all(&reasons);
        // More than what there is less now, so that the generation is a new one.
        self.label_changes += 2 * (1 + reasons.len() as u64);
        Some(source)
    }

    /// Notes that a source has sent something, some of which may have been refused for reasons that are new.
    pub(crate) fn activate(&mut self, inst: Inst) {
        if let Some(source) = self.by_inst.get_mut(&inst) {
            source.active = true;
        }
        self.add_reasons(inst);
    }

    /// Gives a source the instances of the reasons for which something of it was refused.
    fn add_reasons(&mut self, inst: Inst) {
        let Some(source) = self.by_inst.get_mut(&inst) else { return };
        for reason in Reason::ALL.into_iter().filter(|reason| source.account.rejected[*reason as usize] > 0) {
            // Instances are 31 bits: sources with very large ones have no instances of reasons, and lose nothing else.
            let Some(inst) = reason_inst(inst, reason) else { continue };
            if self.reasons.name(inst).is_none() {
                announced(
                    self.reasons.add_as(inst, &format!("{}/{}", source.name, reason.word())),
                    &source.name,
                );
            }
        }
    }

    /// Takes over what a delivery says of its sender.
    pub(crate) fn update_sender(&mut self, delivery: &mut Delivery) {
        let source = self.by_inst.get_mut(&delivery.source);
        if source.is_some_and(|source| source.sender.update(delivery)) {
            self.label_changes += 1;
        }
    }

    /// Gives a source memory for what comes in, as far as there is any.
    pub(crate) fn make_room(&mut self, inst: Inst, coming: usize, limits: &EventsConfig) {
        let Some(source) = self.by_inst.get_mut(&inst) else { return };
        // A loss takes memory, too.
        let wanted = use_of(source.log.stats().bytes + coming.max(1), source.most(limits));
        if wanted > source.wanted {
            self.share(Some((inst, wanted)), limits);
        }
    }

    /// Shares the memory for records out anew.
    pub(crate) fn share_budget(&mut self, limits: &EventsConfig) {
        self.share(None, limits);
    }

    /// The same. `asking`: a source that has use for more than for what it holds.
    fn share(&mut self, asking: Option<(Inst, u64)>, limits: &EventsConfig) {
        let (mut named, mut others) = (Vec::new(), Vec::new());
        for (inst, source) in &mut self.by_inst {
            let wanted = use_of(source.log.stats().bytes, source.most(limits));
            source.wanted =
                asking.filter(|(asks, _)| asks == inst).map_or(wanted, |(_, more)| more.max(wanted));
            match (source.wanted, source.named) {
                (0, _) => {}
                (wanted, true) => named.push(wanted),
                (wanted, false) => others.push(wanted),
            }
        }
        let (of_named, of_others) = levels(&mut named, &mut others, limits.total_budget.0);
        for source in self.by_inst.values_mut() {
            let level = if source.named { of_named } else { of_others };
            source.log.set_budget(level.min(source.wanted) as usize);
        }
    }

    /// Puts what the configuration says of single sources into effect. What was stored gives way.
    pub(crate) fn set_rules(&mut self, rules: Rules, limits: &EventsConfig) {
        self.rules = rules;
        for source in self.by_inst.values_mut() {
            apply_rules(&self.rules, source, SourceRule::default());
        }
        self.share_budget(limits);
    }

    /// Puts what clients have stored for a source into effect, on top of what the configuration says.
    pub(crate) fn store_rule(&mut self, inst: Inst, stored: SourceRule, limits: &EventsConfig) {
        let Some(source) = self.by_inst.get_mut(&inst) else { return };
        apply_rules(&self.rules, source, stored);
        self.share_budget(limits);
    }
}

impl SpansBySource for Sources {
    fn spans(&mut self, source: Inst) -> Option<&mut SourceSpans> {
        self.by_inst.get_mut(&source)?.spans.as_deref_mut()
    }

    fn begin(&mut self, source: Inst) {
        if let Some(source) = self.by_inst.get_mut(&source) {
            source.spans.get_or_insert_default();
        }
    }

    fn all(&mut self) -> impl Iterator<Item = (Inst, &mut SourceSpans)> {
        self.by_inst.iter_mut().filter_map(|(inst, source)| Some((*inst, source.spans.as_deref_mut()?)))
    }
}

fn apply_rules(rules: &Rules, source: &mut Source, stored: SourceRule) {
    let (mut settings, mut budget) = rules.of(&source.name);
    stored.apply(&mut settings, &mut budget);
    source.stored = stored;
    source.readers = rules.readers_of(&source.name).map(|entries| who(entries, "source.readers"));
    source.gate.set(settings);
    source.budget = budget;
}

/// Whether an instance that the registry has announced is new here.
pub(super) fn announced(added: Result<(), IdsError>, name: &str) -> bool {
    if let Err(error) = &added {
        tracing::error!("instance {name}: {error}");
    }
    added.is_ok()
}
