//! What is to be read for a series: which archives, and what its values are of. Taken out of the index, so that nothing of the index is
//! held while a disk is waited for.

use std::path::PathBuf;
use std::sync::Arc;

use pcp_model::{Desc, InDom, Inst, Pmid, Timestamp};
use rustc_hash::FxHashMap;

use super::identity::Id;
use super::index::{Entry, Index, InstanceAt};

/// A series and where its values are.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub id: Id,
    pub source: Id,
    pub name: String,
    pub desc: Desc,
    /// The instances that it has, in all parts together.
    pub instances: Arc<[Id]>,
    /// By start.
    pub parts: Vec<Part>,
}

/// A series in an archive.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub archive: PathBuf,
    pub start: Timestamp,
    /// The last record's time; `None` while there may be later ones.
    pub end: Option<Timestamp>,
    pub metric: What,
    pub indom: InDom,
    /// Places among the instances of the plan.
    pub instances: Arc<Instances>,
}

/// What is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// What was recorded.
    Recorded(Pmid),
    /// A derived metric, by its expression.
    Derived(Arc<str>),
}

/// What an instance's number means.
#[derive(Clone, Debug, Default)]
pub(super) struct Instances(FxHashMap<Inst, Named>);

#[derive(Clone, Debug)]
enum Named {
    /// The place of the instance.
    One(u32),
    /// Its number had several names, one after the other.
    Several(Vec<(String, u32)>),
}

impl Plan {
    /// Of a series of the index.
    pub(super) fn of(index: &Index, row: u32) -> Plan {
        let series = index.series(row);
        let mut places = Places::default();
        let mut slices: Vec<(*const InstanceAt, Arc<Instances>)> = Vec::new();
        let mut parts: Vec<Part> = index
            .archives_of(row)
            .map(|(entry, metric)| {
                let instances = places.of(index, entry, metric.indom, &mut slices);
                Part::of(entry, What::Recorded(metric.pmid), metric.indom, instances)
            })
            .collect();
        parts.sort_by_key(|part| part.start);
        Plan {
            id: series.id,
            source: index.source_at(series.source).id,
            name: index.name(series.name).to_owned(),
            desc: series.desc,
            instances: places.ids.into(),
            parts,
        }
    }

    /// Of a derived metric, which all archives of a source may have.
    pub(super) fn derived(
        index: &Index,
        source: Id,
        id: Id,
        name: &str,
        desc: Desc,
        expression: &str,
    ) -> Plan {
        let expression: Arc<str> = expression.into();
        let mut places = Places::default();
        let mut slices = Vec::new();
        let archives = index.source_of(source).map(|source| source.archives.as_slice()).unwrap_or_default();
        let mut parts: Vec<Part> = archives
            .iter()
            .filter_map(|name| index.archive(name))
            .map(|entry| {
                let instances = places.of(index, entry, desc.indom, &mut slices);
                Part::of(entry, What::Derived(Arc::clone(&expression)), desc.indom, instances)
            })
            .collect();
        parts.sort_by_key(|part| part.start);
        Plan { id, source, name: name.to_owned(), desc, instances: places.ids.into(), parts }
    }

    /// Whether there may be records of one part among those of another.
    pub(super) fn overlaps(&self) -> bool {
        self.parts.windows(2).any(|pair| pair[0].end.is_none_or(|end| end >= pair[1].start))
    }
}

impl Part {
    fn of(entry: &Entry, metric: What, indom: InDom, instances: Arc<Instances>) -> Part {
        Part {
            archive: entry.glance.name.clone(),
            start: entry.glance.label.start,
            end: entry.end,
            metric,
            indom,
            instances,
        }
    }
}

impl Instances {
    /// The place of an instance; `name` tells its name where its number has several.
    pub(super) fn place(&self, inst: Inst, name: impl FnOnce() -> Option<String>) -> Option<u32> {
        match self.0.get(&inst)? {
            Named::One(place) => Some(*place),
            Named::Several(names) => {
                let now = name();
                let known = now.and_then(|now| names.iter().find(|(name, _)| *name == now));
                known.or(names.last()).map(|(_, place)| *place)
            }
        }
    }
}

/// Instances by the order in which they are found.
#[derive(Default)]
struct Places {
    ids: Vec<Id>,
    known: FxHashMap<u32, u32>,
}

impl Places {
    fn of(
        &mut self,
        index: &Index,
        entry: &Entry,
        indom: InDom,
        slices: &mut Vec<(*const InstanceAt, Arc<Instances>)>,
    ) -> Arc<Instances> {
        let Some(slice) = entry.instances(indom) else { return Arc::default() };
        if let Some((_, known)) = slices.iter().find(|(known, _)| *known == slice.as_ptr()) {
            return Arc::clone(known);
        }
        let mut named: FxHashMap<Inst, Named> = FxHashMap::default();
        for same in slice.chunk_by(|one, other| one.inst == other.inst) {
            let mut places = same.iter().map(|instance| self.place(index, instance.row));
            let all = match same {
                [_] => places.next().map(Named::One),
                _ => {
                    let name =
                        |instance: &InstanceAt| index.name(index.instance(instance.row).name).to_owned();
                    Some(Named::Several(same.iter().map(name).zip(places).collect()))
                }
            };
            named.extend(all.map(|all| (same[0].inst, all)));
        }
        let instances = Arc::new(Instances(named));
        slices.push((slice.as_ptr(), Arc::clone(&instances)));
        instances
    }

    fn place(&mut self, index: &Index, row: u32) -> u32 {
        let next = u32::try_from(self.ids.len()).unwrap_or(u32::MAX);
        *self.known.entry(row).or_insert_with(|| {
            self.ids.push(index.instance(row).id);
            next
        })
    }
}
