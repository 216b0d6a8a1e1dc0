//! Labels of metrics and of their instances (`pmLookupLabels(3)`), as JSON text.
//!
//! Asked for once for each thing that may have some, and again for instances when these have changed.

use hashbrown::HashMap;
use pcp_client::{Context, LabelTarget};
use pcp_model::{Desc, InDom, Inst, Label};

use super::source::Metric;

/// What is known of labels.
#[derive(Debug, Default)]
pub struct Labels {
    levels: HashMap<(i32, u32), Vec<Label>>,
    /// All metrics that are exported were asked for: what is not in `levels` has none.
    are_all: bool,
    instances: HashMap<InDom, (u64, HashMap<Inst, Own>)>,
}

/// The labels that an instance has for itself.
#[derive(Debug)]
struct Own {
    list: Vec<Label>,
    text: String,
}

impl Labels {
    /// Asks for the labels of these metrics, which are all that will be asked for, as they are at the place where an archive is.
    pub fn ask(&mut self, context: &mut Context, metrics: &[Metric]) {
        self.of_host(context);
        for metric in metrics {
            for target in levels(&metric.desc) {
                match target {
                    // Nearly all of wide archives have none of their own, and each is asked for once.
                    LabelTarget::Item(_) => {
                        let labels = asked(context, target);
                        if !labels.is_empty() {
                            self.levels.insert(key(target), labels);
                        }
                    }
                    _ => {
                        self.level(context, target);
                    }
                }
            }
        }
        self.are_all = true;
    }

    /// The labels of a metric, from those of its host to its own; the nearer one wins where two have a name.
    pub fn of_metric(&mut self, context: &mut Context, desc: &Desc) -> Vec<Label> {
        let mut merged = Vec::new();
        for target in levels(desc) {
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
        if self.are_all {
            return self.levels.get(&key(target)).map_or(&[], Vec::as_slice);
        }
        self.levels.entry(key(target)).or_insert_with(|| asked(context, target))
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

fn key(target: LabelTarget) -> (i32, u32) {
    (target.kind().code(), target.ident())
}

fn asked(context: &mut Context, target: LabelTarget) -> Vec<Label> {
    let sets = context.labels(target).unwrap_or_default();
    sets.into_iter().next().and_then(|set| set.labels.ok()).unwrap_or_default()
}

/// What a metric has its labels from, the farthest first.
fn levels(desc: &Desc) -> impl Iterator<Item = LabelTarget> + use<> {
    let indom = (desc.indom != InDom::NULL).then_some(LabelTarget::InDom(desc.indom));
    let around = [LabelTarget::Context, LabelTarget::Domain(desc.pmid.domain().into())];
    around.into_iter().chain(indom).chain([LabelTarget::Cluster(desc.pmid), LabelTarget::Item(desc.pmid)])
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

#[cfg(test)]
mod tests {
    use pcp_archive::{ArchiveWriter, LabelInfo, WriteOptions};
    use pcp_client::{Fetched, Mode};
    use pcp_model::{Instance, LabelFlags, LabelSet, Pmid, Semantics, Timestamp, Units, Value, ValueType};

    use super::*;
    use crate::formats::instances::Instances;

    #[test]
    fn labels_that_change_while_instances_do_not_are_seen_from_then_on() {
        let dir = tempfile::tempdir().expect("a directory");
        let base = dir.path().join("made");
        let label = LabelInfo { host: "web1".into(), zone: "UTC".into(), ..LabelInfo::default() };
        let mut archive = ArchiveWriter::create(&base, label, WriteOptions::default()).expect("new");
        let indom = InDom::new(60, 1);
        let desc = Desc {
            pmid: Pmid::new(60, 0, 1),
            value_type: ValueType::U32,
            indom,
            semantics: Semantics::Instant,
            units: Units::NONE,
        };
        archive.desc(&desc, &["made.of".to_owned()]).expect("described once");
        let time = |second: i64| Timestamp::new(1_700_000_000 + second, 0);
        archive.indom(time(0), indom, &[Instance { id: 1, name: "shop".to_owned() }]);
        for second in 0..30 {
            // As of a source that is known a moment before what its sender says of itself.
            if second == 10 || second == 20 {
                let label = Label { name: "at".to_owned(), value: second.to_string(), flags: LabelFlags(0) };
                let set = LabelSet { inst: 1, labels: Ok(vec![label]) };
                archive.labels(time(second), LabelTarget::Instances(indom), &[set]);
            }
            let mut values = Fetched::new();
            values.timestamp = time(second);
            values.begin_set(desc.pmid);
            values.push_value(1, &Value::U32(7)).expect("of one type");
            values.end_set();
            archive.result(&values).expect("the disk has room");
        }
        archive.flush().expect("the disk has room");
        let mut context = Context::archive(base.to_str().expect("text")).expect("it is there");
        let (mut labels, mut instances) = (Labels::default(), Instances::default());
        let mut seen = Vec::new();
        for second in 0..30 {
            context.set_mode(Mode::Forward, Some(time(second))).expect("an archive has it");
            let version = instances.version(&mut context, indom, time(second));
            let of = labels.of_instance(&mut context, indom, 1, version).map(str::to_owned);
            if seen.last().is_none_or(|(_, last)| *last != of) {
                seen.push((second, of));
            }
        }
        let at = |second: i64| Some(format!("{{\"at\":{second}}}"));
        assert_eq!(seen, [(0, None), (10, at(10)), (20, at(20))]);
    }
}
