//! Labels as they are merged, identifiers of time series, and what is known about event parameters.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::rc::Rc;

use pcp_client::{Context, ContextKind, LabelTarget};
use pcp_model::text::listed;
use pcp_model::{InDom, Inst, Label, LabelFlags, LabelSet, PM_IN_NULL, Pmid};
use sha1::{Digest, Sha1};
use tracing::trace;

use super::{Info, Parameter};
use crate::tool::Metric;

/// Labels, asked for once a run.
#[derive(Default)]
pub(super) struct Labels {
    known: HashMap<LabelTarget, Option<Rc<Vec<LabelSet>>>>,
    /// As PCP's program has them: clusters are asked about with the item, so that archives know labels of the first one only; and
    /// what was found of a domain or cluster stays, whatever the time, for the metrics of it that follow right behind.
    quirk: bool,
}

/// Labels of several levels, by name: the lowest level wins (`pmMergeLabelSets(3)`).
#[derive(Clone, Debug, Default)]
pub(super) struct Merged {
    /// Values as JSON, and whether they are part of the identity.
    labels: BTreeMap<String, (String, bool)>,
}

impl Labels {
    /// None known yet. Where `quirk` is set, those of archives are as with PCP's program.
    pub(super) fn new(quirk: bool) -> Labels {
        Labels { quirk, ..Labels::default() }
    }

    /// Forgets what held at the time of an archive before that of this metric. Labels of the source are asked for once a run all the
    /// same.
    pub(super) fn move_to(&mut self, pmid: Pmid) {
        let (domain, cluster) = (LabelTarget::Domain(pmid.domain().into()), cluster(pmid));
        let quirk = self.quirk;
        self.known.retain(|target, _| {
            *target == LabelTarget::Context || quirk && (*target == domain || *target == cluster)
        });
    }

    /// The label sets of one level; `None` where they cannot be had. An archive without labels of the source, yet or
    /// at all, has the name of its host.
    pub(super) fn sets(&mut self, context: &mut Context, target: LabelTarget) -> Option<Rc<Vec<LabelSet>>> {
        let known_as = match target {
            LabelTarget::Cluster(pmid) => cluster(pmid),
            target => target,
        };
        let sets = || {
            // No labels and no answer look the same to the user, as in PCP's program.
            let mut sets = context.labels(target).ok()?;
            if target == LabelTarget::Context && context.kind() == ContextKind::Archive && sets.is_empty() {
                let value = serde_json::Value::from(context.host_name().ok()?).to_string();
                let flags = LabelFlags(1);
                let label = Label { name: "hostname".to_owned(), value, flags };
                sets.push(LabelSet { inst: PM_IN_NULL, labels: Ok(vec![label]) });
            }
            Some(Rc::new(sets))
        };
        self.known.entry(known_as).or_insert_with(sets).clone()
    }

    /// Those of the source of metrics.
    pub(super) fn of_source(&mut self, context: &mut Context) -> Merged {
        self.merge(context, &[LabelTarget::Context])
    }

    /// Those that all instances of a domain have.
    pub(super) fn of_indom(&mut self, context: &mut Context, indom: InDom) -> Merged {
        // Labels of metrics, clusters and items are not a domain's: several metrics share it.
        let domain = LabelTarget::Domain(indom.domain().into());
        self.merge(context, &[LabelTarget::Context, domain, LabelTarget::InDom(indom)])
    }

    /// Those that each value of a metric with instances has: derived metrics share those of their operands' agent.
    pub(super) fn of_instances(&mut self, context: &mut Context, pmid: Pmid, indom: InDom) -> Merged {
        let mut merged = self.of_indom(context, indom);
        // The metric's win over the domain's.
        merged.labels.append(&mut self.of_metric(context, pmid, indom).labels);
        merged
    }

    /// Those that all values of a metric have.
    pub(super) fn of_metric(&mut self, context: &mut Context, pmid: Pmid, indom: InDom) -> Merged {
        let domain = LabelTarget::Domain(pmid.domain().into());
        let cluster = match self.quirk && context.kind() == ContextKind::Archive {
            true => LabelTarget::Cluster(pmid),
            false => cluster(pmid),
        };
        // From the general to the particular, as pmMergeLabelSets(3) wants them.
        let (above, below) = ([LabelTarget::Context, domain], [cluster, LabelTarget::Item(pmid)]);
        let indom = (indom != InDom::NULL).then_some(LabelTarget::InDom(indom));
        let targets: Vec<LabelTarget> = above.into_iter().chain(indom).chain(below).collect();
        self.merge(context, &targets)
    }

    fn merge(&mut self, context: &mut Context, targets: &[LabelTarget]) -> Merged {
        let mut merged = Merged::default();
        for &target in targets {
            for set in self.sets(context, target).iter().flat_map(|sets| sets.iter()) {
                merged = merged.with(set);
            }
        }
        trace!(target: "pcp::labels", "merged of {}: {}", listed(targets, targets.len()), merged.text());
        merged
    }
}

/// The labels of a metric's cluster.
fn cluster(pmid: Pmid) -> LabelTarget {
    LabelTarget::Cluster(Pmid::new(pmid.domain(), pmid.cluster(), 0))
}

impl Merged {
    /// These, and those of a lower level.
    pub(super) fn with(&self, set: &LabelSet) -> Merged {
        let mut merged = self.clone();
        for label in set.labels.iter().flatten() {
            let identity = label.flags.0 & LabelFlags::OPTIONAL == 0;
            merged.labels.insert(label.name.clone(), (label.value.clone(), identity));
        }
        merged
    }

    /// As a JSON object.
    pub(super) fn text(&self) -> String {
        self.object(|_| true)
    }

    /// Values by names, as JSON.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.labels.iter().map(|(name, (value, _))| (name.as_str(), value.as_str()))
    }

    fn identity(&self) -> String {
        self.object(|identity| identity)
    }

    fn object(&self, wanted: impl Fn(bool) -> bool) -> String {
        // By hand, as the series' identifiers are hashes of just these bytes: no blanks, ordered by name.
        let mut text = "{".to_owned();
        for (name, (value, _)) in self.labels.iter().filter(|(_, (_, identity))| wanted(*identity)) {
            let comma = if text.len() > 1 { "," } else { "" };
            // Writing to a String does not fail.
            let _ = write!(text, "{comma}\"{name}\":{value}");
        }
        text.push('}');
        text
    }
}

impl Info {
    /// The identifiers of the source of a metric, and of its time series (`pmSeriesSetup(3)`).
    pub(super) fn series(&mut self, metric: &Metric<'_>) -> (String, String) {
        let source = self.labels.of_source(&mut self.inquiry.context).identity();
        let labels = self.labels.of_metric(&mut self.inquiry.context, metric.pmid, metric.indom()).identity();
        let semantics = metric.desc().map_or("???", |desc| desc.semantics.name());
        let units = metric.desc().map_or_else(String::new, |desc| desc.units.text_at(self.call.level));
        (
            sha1(&format!("{{\"series\":\"source\",\"labels\":{source}}}")),
            sha1(&format!(
                "{{\"series\":\"metric\",\"name\":\"{}\",\"labels\":{labels},\"semantics\":\"{semantics}\",\
                 \"type\":\"{}\",\"units\":\"{units}\"}}",
                metric.name,
                metric.value_type().name(),
            )),
        )
    }

    /// The identifiers of the series of its instances, with their names.
    pub(super) fn series_of_instances(&mut self, metric: &Metric<'_>) -> Vec<(Inst, String, String)> {
        let indom = metric.indom();
        if indom == InDom::NULL {
            return Vec::new();
        }
        let above = self.labels.of_indom(&mut self.inquiry.context, indom);
        let sets =
            self.labels.sets(&mut self.inquiry.context, LabelTarget::Instances(indom)).unwrap_or_default();
        // By instance, as domains of thousands would take the square of that otherwise.
        let sets: HashMap<Inst, &LabelSet> = sets.iter().map(|set| (set.inst, set)).collect();
        let ids = self
            .inquiry
            .instances
            .ids(&mut self.inquiry.context, indom)
            .map(<[Inst]>::to_vec)
            .unwrap_or_default();
        let series = |inst: Inst| {
            let name = self.inquiry.instances.name(&mut self.inquiry.context, indom, inst).ok()?.to_owned();
            let labels = sets.get(&inst).map_or_else(|| above.text(), |set| above.with(set).text());
            let series =
                sha1(&format!("{{\"series\":\"instance\",\"name\":\"{name}\",\"labels\":{labels}}}"));
            Some((inst, name, series))
        };
        ids.into_iter().filter_map(series).collect()
    }

    /// The label sets of the instances of a domain: where no instance has labels of its own, an empty set for each.
    pub(super) fn instance_label_sets(&mut self, indom: InDom) -> Rc<Vec<LabelSet>> {
        let Some(sets) = self.labels.sets(&mut self.inquiry.context, LabelTarget::Instances(indom)) else {
            return Rc::default();
        };
        if !sets.is_empty() {
            return sets;
        }
        let ids = self.inquiry.instances.ids(&mut self.inquiry.context, indom).unwrap_or_default();
        Rc::new(ids.iter().map(|&inst| LabelSet { inst, labels: Ok(Vec::new()) }).collect())
    }

    /// Names and type of an event parameter.
    pub(super) fn metadata_of(&mut self, pmid: Pmid) -> Parameter {
        let context = &mut self.inquiry.context;
        let (names, value_type) = self.parameters.entry(pmid).or_insert_with(|| {
            let names = context.names_of(pmid).ok().map(|names| names.join(" or ").into());
            (names, context.desc(pmid).map(|desc| desc.value_type).map_err(|error| error.code()))
        });
        (names.clone(), *value_type)
    }
}

fn sha1(text: &str) -> String {
    Sha1::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}
