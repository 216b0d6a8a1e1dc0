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

use super::source::Source;
use super::spans::{SourceSpans, SpansBySource};

/// All sources.
pub(crate) struct Sources {
    by_inst: BTreeMap<Inst, Source>,
    /// The instance domain of sources.
    names: Instances,
    /// The instance domain of (source, reason) pairs: those of sources that have sent something.
    reasons: Instances,
    /// How many have sent something.
    active: usize,
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
            active: 0,
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
        // The registry made its gate under the rules of that time; they may have changed since.
        self.store_rule(inst, SourceRule::default(), limits);
        self.by_inst.get_mut(&inst)
    }

    /// Notes that a source has sent something; the first time it gets its reasons and a share of the memory.
    pub(crate) fn activate(&mut self, inst: Inst, limits: &EventsConfig) {
        let Some(source) = self.by_inst.get_mut(&inst).filter(|source| !source.active) else { return };
        source.active = true;
        self.active += 1;
        for reason in Reason::ALL {
            // Instances are 31 bits: sources with very large ones have no instances of reasons, and lose nothing else.
            let Some(inst) = reason_inst(inst, reason) else { continue };
            announced(self.reasons.add_as(inst, &format!("{}/{}", source.name, reason.word())), &source.name);
        }
        self.share_budget(limits);
    }

    /// Takes over what a delivery says of its sender.
    pub(crate) fn update_sender(&mut self, delivery: &mut Delivery) {
        let source = self.by_inst.get_mut(&delivery.source);
        if source.is_some_and(|source| source.sender.update(delivery)) {
            self.label_changes += 1;
        }
    }

    /// Memory for the records of one more source, in bytes: its budget, or an equal share of the total if that is
    /// less. Those that have sent nothing since the start, only known from earlier runs, take no share.
    pub(crate) fn budget(&self, limits: &EventsConfig) -> usize {
        // Hundreds of sources may be known from earlier runs; memory set aside for them would be taken from those that send.
        let share = limits.total_budget.0 / self.active.max(1) as u64;
        share.min(limits.source_budget.0) as usize
    }

    /// Holds each source to [`Sources::budget`] and to its own limit.
    pub(crate) fn share_budget(&mut self, limits: &EventsConfig) {
        let budget = self.budget(limits);
        for source in self.by_inst.values_mut() {
            // A source's own limit only lowers what it gets: the total must hold.
            let own = if source.budget == 0 { usize::MAX } else { source.budget as usize };
            source.log.set_budget(budget.min(own));
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
