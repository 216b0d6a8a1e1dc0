//! Labels of metrics and of their instances (`pmLookupLabels(3)`), as JSON text.
//!
//! Asked for once for each thing that may have some, and again for instances when these have changed.

use pcp_client::{Context, LabelTarget};
use pcp_model::{Desc, InDom, Inst, Label};
use rustc_hash::FxHashMap;

/// What is known of labels.
#[derive(Debug, Default)]
pub struct Labels {
    levels: FxHashMap<(i32, u32), Vec<Label>>,
    instances: FxHashMap<InDom, (u64, FxHashMap<Inst, Own>)>,
}

/// The labels that an instance has for itself.
#[derive(Debug)]
struct Own {
    list: Vec<Label>,
    text: String,
}

impl Labels {
    /// The labels of a metric, from those of its host to its own; the nearer one wins where two have a name.
    pub fn of_metric(&mut self, context: &mut Context, desc: &Desc) -> Vec<Label> {
        let mut merged = Vec::new();
        let mut targets = vec![LabelTarget::Context, LabelTarget::Domain(desc.pmid.domain().into())];
        if desc.indom != InDom::NULL {
            targets.push(LabelTarget::InDom(desc.indom));
        }
        targets.extend([LabelTarget::Cluster(desc.pmid), LabelTarget::Item(desc.pmid)]);
        for target in targets {
            for label in self.level(context, target) {
                match merged.binary_search_by(|known: &Label| known.name.cmp(&label.name)) {
                    Ok(at) => merged[at] = label.clone(),
                    Err(at) => merged.insert(at, label.clone()),
                }
            }
        }
        merged
    }

    /// The labels of the host.
    pub fn of_host(&mut self, context: &mut Context) -> &[Label] {
        self.level(context, LabelTarget::Context)
    }

    fn level(&mut self, context: &mut Context, target: LabelTarget) -> &[Label] {
        self.levels.entry((target.kind().code(), target.ident())).or_insert_with(|| {
            let sets = context.labels(target).unwrap_or_default();
            sets.into_iter().next().and_then(|set| set.labels.ok()).unwrap_or_default()
        })
    }

    /// The labels that an instance has for itself as a JSON object, as its domain was at a version; `None` for none.
    pub fn of_instance(
        &mut self,
        context: &mut Context,
        indom: InDom,
        inst: Inst,
        version: u64,
    ) -> Option<&str> {
        self.own(context, indom, inst, version).map(|own| own.text.as_str())
    }

    /// As [`Labels::of_instance`], one by one.
    pub fn list_of_instance(
        &mut self,
        context: &mut Context,
        indom: InDom,
        inst: Inst,
        version: u64,
    ) -> &[Label] {
        self.own(context, indom, inst, version).map_or(&[], |own| own.list.as_slice())
    }

    fn own(&mut self, context: &mut Context, indom: InDom, inst: Inst, version: u64) -> Option<&Own> {
        let (known, sets) = self.instances.entry(indom).or_default();
        if *known != version {
            *known = version;
            let found = context.labels(LabelTarget::Instances(indom)).unwrap_or_default();
            let own = |set: pcp_model::LabelSet| {
                let list = set.labels.ok().filter(|labels| !labels.is_empty())?;
                Some((set.inst, Own { text: json(&list), list }))
            };
            *sets = found.into_iter().filter_map(own).collect();
        }
        sets.get(&inst)
    }
}

/// Labels as a JSON object. Values are JSON already.
pub(crate) fn json(labels: &[Label]) -> String {
    let mut text = String::from("{");
    for (at, label) in labels.iter().enumerate() {
        text.push_str(if at == 0 { "\"" } else { ",\"" });
        text.push_str(&label.name);
        text.push_str("\":");
        text.push_str(&label.value);
    }
    text.push('}');
    text
}
