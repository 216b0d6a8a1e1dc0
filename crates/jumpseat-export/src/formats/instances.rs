//! Names of instances, at the time of the sample, and from when on their labels may be others.
//!
//! Between two records of an archive a value can be of an instance that the domain has no more at that time, or not yet: then its name
//! is the last one that it had until then, or else the first that it gets.
//!
//! **Cost:** of a name, two look-ups in hash tables; a domain is asked for anew where an archive says that it or its labels have changed, of a
//! collector when an instance comes that is not known, once a sample, or when it says so. The first name that is missing in an archive costs the domain's
//! records up to there, each once.

use hashbrown::HashMap;
use pcp_client::{Context, ContextKind, LabelTarget, Recording};
use pcp_model::{InDom, Inst, Timestamp};

/// What is known of instance domains.
#[derive(Debug, Default)]
pub struct Instances {
    domains: HashMap<InDom, Domain>,
}

/// A domain as it was when it was last asked for.
#[derive(Debug, Default)]
struct Domain {
    names: HashMap<Inst, String>,
    /// When an archive has it, or its labels, anew.
    changes: Vec<Timestamp>,
    /// How many of these are behind.
    passed: usize,
    /// The last name of each instance in those of them that were looked at.
    former: HashMap<Inst, String>,
    looked_at: usize,
    /// The first name of each, once it was asked for.
    ever: Option<HashMap<Inst, String>>,
    /// For which sample it was asked.
    asked: Option<Timestamp>,
    /// How often names or labels may have changed.
    version: u64,
}

impl Instances {
    /// The name of an instance in the sample of a time, its number in brackets if it has none.
    pub fn name(&mut self, context: &mut Context, indom: InDom, inst: Inst, time: Timestamp) -> &str {
        let domain = self.at(context, indom, time);
        if !domain.names.contains_key(&inst) {
            if domain.asked != Some(time) {
                domain.ask(context, indom, time);
            }
            if !domain.names.contains_key(&inst) {
                let name = domain.other_name(context, indom, inst);
                // So that one that nobody knows is not asked for again and again within a sample.
                domain.names.insert(inst, name.unwrap_or_else(|| format!("inst [{inst}]")));
            }
        }
        domain.names.get(&inst).map_or("", String::as_str)
    }

    /// Changes when names or labels of the domain's instances do.
    pub fn version(&mut self, context: &mut Context, indom: InDom, time: Timestamp) -> u64 {
        self.at(context, indom, time).version
    }

    /// A collector has said that labels or instances have changed: all is asked for anew.
    pub fn renew(&mut self) {
        self.domains.values_mut().for_each(|domain| domain.asked = None);
    }

    fn at(&mut self, context: &mut Context, indom: InDom, time: Timestamp) -> &mut Domain {
        let domain = self.domains.entry(indom).or_insert_with(|| {
            let changes = context.provider().recording_mut().map(|recording| changes(recording, indom));
            Domain { changes: changes.unwrap_or_default(), ..Domain::default() }
        });
        let passed = domain.passed;
        while domain.changes.get(domain.passed).is_some_and(|change| *change <= time) {
            domain.passed += 1;
        }
        if domain.passed != passed || domain.asked.is_none() {
            domain.ask(context, indom, time);
        }
        domain
    }
}

/// When an archive has a domain or the labels of its instances anew, oldest first.
fn changes(recording: &mut dyn Recording, indom: InDom) -> Vec<Timestamp> {
    let mut changes = recording.instance_changes(indom);
    changes.extend(recording.label_changes(LabelTarget::Instances(indom)));
    changes.sort_unstable();
    changes.dedup();
    changes
}

impl Domain {
    /// The name that an instance had last, or gets later, in an archive.
    fn other_name(&mut self, context: &mut Context, indom: InDom, inst: Inst) -> Option<String> {
        for change in &self.changes[self.looked_at..self.passed] {
            let then = context.instances_at(indom, *change).unwrap_or_default();
            self.former.extend(then.into_iter().map(|instance| (instance.id, instance.name)));
        }
        self.looked_at = self.passed;
        if let Some(name) = self.former.get(&inst) {
            return Some(name.clone());
        }
        if self.ever.is_none() {
            let ever = context.provider().recording_mut()?.instances_ever(indom).unwrap_or_default();
            // The first one of a number, which an instance of another name may have later.
            self.ever = Some(ever.into_iter().rev().map(|instance| (instance.id, instance.name)).collect());
        }
        self.ever.as_ref()?.get(&inst).cloned()
    }

    fn ask(&mut self, context: &mut Context, indom: InDom, time: Timestamp) {
        self.asked = Some(time);
        self.version += 1;
        // Behind a fetch of interpolated values an archive is at the next step already.
        let found = match context.kind() {
            ContextKind::Archive => context.instances_at(indom, time),
            _ => context.instances(indom),
        };
        let found = found.unwrap_or_default();
        self.names = found.into_iter().map(|instance| (instance.id, instance.name)).collect();
    }
}
