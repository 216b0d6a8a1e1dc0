//! What an archive says of its metrics: all that the index needs of it, and no value.
//!
//! ```text
//! .meta --Archive--> Facts: metrics, instances, labels --cache--> file of facts
//! ```
//!
//! Labels of the context are those at the start of the archive, as pmseries takes them, or the host's name, if there are none yet.
//! Loggers mostly write them with the first record, a moment later: those are kept beside, for conditions of queries. All other labels
//! are those that hold at the end. Names of instances are all that an identifier ever had.
//!
//! **Cost:** one walk over the metadata; in memory about the size of what is different in it.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use hashbrown::HashMap;
use pcp_archive::{Archive, ArchiveError, Glance};
use pcp_model::{
    Desc, InDom, Inst, Label, LabelFlags, LabelSet, PM_IN_NULL, Pmid, Semantics, Timestamp, Units, ValueType,
};
use pcp_pdu::LabelTarget;
use serde::{Deserialize, Serialize};

use crate::server::identity::{Id, merged, object};

/// Most metrics and instances of one archive: what is beyond is not found.
const MAX_METRICS: usize = 200_000;
const MAX_INSTANCES: usize = 1_000_000;

/// What an archive says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Facts {
    /// Labels of the archive's context.
    pub labels: Labels,
    /// Those that it has later on.
    pub later: Labels,
    /// Its metrics.
    pub metrics: Vec<Metric>,
    /// Its instance domains.
    pub indoms: Vec<Domain>,
    /// Labels that metrics and instances have.
    pub sets: Vec<Labels>,
    /// What of it is done without, as it is damaged, up to the end that it had when it was read.
    pub damage: Vec<String>,
}

/// The identifiers of what an archive says: they cost more than to look them up, so nobody holds the index for them.
#[derive(Clone, Debug)]
pub(super) struct Ids {
    /// Of metrics, in the order of [`Facts::metrics`].
    pub metrics: Vec<Id>,
    /// Of instances, in the order of [`Facts::indoms`] and theirs.
    pub instances: Vec<Vec<Id>>,
}

/// Labels: names and JSON values, sorted by name.
pub(super) type Labels = Vec<(String, String)>;

/// A metric under one of its names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Metric {
    pub name: String,
    pub pmid: u32,
    pub indom: u32,
    pub value_type: i32,
    pub semantics: i32,
    pub units: u32,
    /// Which of the sets of labels.
    pub labels: u32,
}

/// An instance domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Domain {
    pub indom: u32,
    pub instances: Vec<Instance>,
}

/// An instance under one of the names it had.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Instance {
    pub id: Inst,
    pub name: String,
    /// Which of the sets of labels.
    pub labels: u32,
}

/// What tells that metadata is as it was: which file, its length, and when it was last written to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    pub len: u64,
    pub changed: (u64, u32),
    pub start: (i64, u32),
    pub pid: i32,
}

impl Stamp {
    /// The stamp of an archive's metadata as it is now; `None` if there is none.
    pub(super) fn of(glance: &Glance) -> Option<Stamp> {
        const ENDS: [&str; 9] = ["", ".xz", ".lzma", ".bz2", ".bz", ".gz", ".Z", ".z", ".zst"];
        let about = ENDS.iter().find_map(|end| std::fs::metadata(member(&glance.name, end)).ok())?;
        let label = &glance.label;
        Some(Stamp {
            len: about.len(),
            changed: about.modified().map(since_epoch).unwrap_or_default(),
            start: (label.start.sec, label.start.nsec),
            pid: label.pid,
        })
    }
}

impl Facts {
    /// Reads an archive's metadata, and the time of its last record.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn read(glance: &Glance) -> Result<(Facts, Timestamp), ArchiveError> {
        let mut archive = Archive::open(&glance.name.to_string_lossy())?;
        // An archive without records has metrics all the same.
        let end = archive.end().unwrap_or(glance.last);
        let damage = damage(&mut archive);
        Ok((Facts { damage, ..Facts::of(&archive) }, end))
    }

    fn of(archive: &Archive) -> Facts {
        let newest = Timestamp::new(i64::MAX, 0);
        let labels = |target| archive.labels(target, newest);
        let mut context = archive.labels(LabelTarget::Context, archive.label().start);
        if context.iter().all(|set| set.labels.as_ref().is_ok_and(Vec::is_empty)) {
            context = vec![host_only(&archive.label().host)];
        }
        let mut sets = Sets::default();
        // Most metrics have no labels but those of the context.
        let of_context = sets.number(merged(&context));
        let mut metrics = Vec::new();
        for pmid in archive.pmids() {
            let Ok(desc) = archive.desc(pmid) else { continue };
            let names = archive.names_of(pmid);
            if names.is_empty() || metrics.len() + names.len() > MAX_METRICS {
                continue;
            }
            let levels = [
                labels(LabelTarget::Domain(pmid.domain().into())),
                if desc.indom == InDom::NULL { Vec::new() } else { labels(LabelTarget::InDom(desc.indom)) },
                labels(LabelTarget::Cluster(Pmid::new(pmid.domain(), pmid.cluster(), 0))),
                labels(LabelTarget::Item(pmid)),
            ];
            let labels = match levels.iter().all(Vec::is_empty) {
                true => of_context,
                false => sets.number(merged(context.iter().chain(levels.iter().flatten()))),
            };
            metrics.extend(names.into_iter().map(|name| Metric::of(name, &desc, labels)));
        }
        let mut instances = 0;
        let mut indoms = Vec::new();
        for indom in archive.indoms() {
            let of_domain =
                [labels(LabelTarget::Domain(indom.domain().into())), labels(LabelTarget::InDom(indom))];
            let of_domain: Vec<&LabelSet> = context.iter().chain(of_domain.iter().flatten()).collect();
            let plain = sets.number(merged(of_domain.iter().copied()));
            let own: HashMap<Inst, u32> = labels(LabelTarget::Instances(indom))
                .iter()
                .filter(|set| set.inst != PM_IN_NULL)
                .map(|set| (set.inst, sets.number(merged(of_domain.iter().copied().chain([set])))))
                .collect();
            let mut known: Vec<Instance> = Vec::new();
            let mut seen: HashMap<(Inst, &[u8]), ()> = HashMap::new();
            for record in archive.indom_records(indom) {
                for (id, name) in record.instances {
                    let Some(name) = name else { continue };
                    if instances == MAX_INSTANCES || seen.insert((id, name), ()).is_some() {
                        continue;
                    }
                    instances += 1;
                    let labels = own.get(&id).copied().unwrap_or(plain);
                    known.push(Instance { id, name: String::from_utf8_lossy(name).into_owned(), labels });
                }
            }
            known.sort();
            indoms.push(Domain { indom: indom.0, instances: known });
        }
        let later = merged(&labels(LabelTarget::Context));
        Facts { labels: merged(&context), later, metrics, indoms, sets: sets.all, damage: Vec::new() }
    }

    /// Whether the numbers in it are those of sets that are there: what comes from a file may say anything.
    pub(super) fn is_sound(&self) -> bool {
        let instances = self.indoms.iter().flat_map(|domain| &domain.instances);
        let numbers =
            self.metrics.iter().map(|metric| metric.labels).chain(instances.map(|instance| instance.labels));
        numbers.into_iter().all(|number| (number as usize) < self.sets.len())
    }
}

/// What of an archive was done without, as far as it was read.
pub(super) fn damage(archive: &mut Archive) -> Vec<String> {
    archive.take_mended().iter().map(ToString::to_string).collect()
}

impl Ids {
    /// Those of facts that are sound.
    pub(super) fn of(facts: &Facts) -> Ids {
        let labels: Vec<String> = facts.sets.iter().map(|labels| object(labels)).collect();
        let metric =
            |metric: &Metric| Id::metric(&metric.name, &labels[metric.labels as usize], &metric.desc());
        let instance = |instance: &Instance| Id::instance(&instance.name, &labels[instance.labels as usize]);
        Ids {
            metrics: facts.metrics.iter().map(metric).collect(),
            instances: facts
                .indoms
                .iter()
                .map(|domain| domain.instances.iter().map(instance).collect())
                .collect(),
        }
    }
}

impl Metric {
    fn of(name: String, desc: &Desc, labels: u32) -> Metric {
        Metric {
            name,
            pmid: desc.pmid.0,
            indom: desc.indom.0,
            value_type: desc.value_type.code(),
            semantics: desc.semantics.code(),
            units: desc.units.to_word(),
            labels,
        }
    }

    pub(super) fn desc(&self) -> Desc {
        Desc {
            pmid: Pmid(self.pmid),
            value_type: ValueType::from_code(self.value_type),
            indom: InDom(self.indom),
            semantics: Semantics::of_code(self.semantics),
            units: Units::from_word(self.units),
        }
    }
}

/// Sets of labels, each once.
#[derive(Default)]
struct Sets {
    all: Vec<Labels>,
    numbers: HashMap<Labels, u32>,
}

impl Sets {
    fn number(&mut self, labels: Labels) -> u32 {
        let next = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        *self.numbers.entry(labels).or_insert_with_key(|labels| {
            self.all.push(labels.clone());
            next
        })
    }
}

/// The labels of a context that has none.
fn host_only(host: &str) -> LabelSet {
    let value = serde_json::to_string(host).unwrap_or_default();
    let label = Label { name: "hostname".to_owned(), value, flags: LabelFlags::default() };
    LabelSet { inst: PM_IN_NULL, labels: Ok(vec![label]) }
}

/// The `.meta` of an archive, compressed in the way of this ending.
fn member(name: &Path, end: &str) -> PathBuf {
    let mut name = name.as_os_str().to_owned();
    name.push(".meta");
    name.push(end);
    name.into()
}

/// A time of the file system, for files.
pub(super) fn since_epoch(time: SystemTime) -> (u64, u32) {
    time.duration_since(UNIX_EPOCH).map(|since| (since.as_secs(), since.subsec_nanos())).unwrap_or_default()
}
