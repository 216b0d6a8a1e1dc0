//! What is to be read for a series: which archives, and what its values are of. Taken out of the index, so that nothing of the index is
//! held while a disk is waited for.

use std::path::PathBuf;
use std::sync::Arc;

use hashbrown::HashMap;
use pcp_model::{Desc, InDom, Inst, Pmid, Timestamp};

use super::index::{Entry, Index, InstanceAt, MetricAt};
use super::remembered::Derived;
use crate::server::identity::Id;

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
pub(super) struct Instances(HashMap<Inst, Named>);

#[derive(Clone, Debug)]
enum Named {
    /// The place of the instance.
    One(u32),
    /// Its number had several names, one after the other.
    Several(Vec<(String, u32)>),
}

/// Makes plans. Series of one source and instance domain share what instances mean.
pub(super) struct Planner<'a> {
    index: &'a Index,
    tables: HashMap<(u32, Vec<InDom>), Arc<Table>>,
}

/// What the instances of some domains are, in all archives of a source.
#[derive(Debug, Default)]
struct Table {
    ids: Arc<[Id]>,
    /// By where the slice of an archive is: archives share them.
    slices: HashMap<usize, Arc<Instances>>,
}

impl<'a> Planner<'a> {
    pub(super) fn new(index: &'a Index) -> Planner<'a> {
        Planner { index, tables: HashMap::new() }
    }

    /// Of a series of the index.
    pub(super) fn of(&mut self, row: u32) -> Plan {
        let series = self.index.series(row);
        let archives: Vec<(&Entry, MetricAt)> = self.index.archives_of(row).collect();
        let table = self.table(series.source, archives.iter().map(|(_, metric)| metric.indom).collect());
        let part = |(entry, metric): (&Entry, MetricAt)| {
            Part::of(entry, What::Recorded(metric.pmid), metric.indom, &table)
        };
        let mut parts: Vec<Part> = archives.into_iter().map(part).collect();
        parts.sort_by_key(|part| part.start);
        Plan {
            id: series.id,
            source: self.index.source_at(series.source).id,
            name: self.index.name(series.name).to_owned(),
            desc: series.desc,
            instances: Arc::clone(&table.ids),
            parts,
        }
    }

    /// Of a derived metric, which all archives of a source may have.
    pub(super) fn derived(&mut self, derived: &Derived) -> Plan {
        let Derived { id, source, name, expression, desc } = derived;
        let mut plan = Plan {
            id: *id,
            source: *source,
            name: name.clone(),
            desc: *desc,
            instances: Arc::default(),
            parts: Vec::new(),
        };
        let Some(row) = self.index.source_row(*source) else { return plan };
        let expression: Arc<str> = expression.as_str().into();
        let table = self.table(row, vec![desc.indom]);
        let archives = self.index.source_at(row).archives.iter();
        let part =
            |entry: &Entry| Part::of(entry, What::Derived(Arc::clone(&expression)), desc.indom, &table);
        plan.parts = archives.filter_map(|name| self.index.archive(name)).map(part).collect();
        plan.parts.sort_by_key(|part| part.start);
        plan.instances = Arc::clone(&table.ids);
        plan
    }

    fn table(&mut self, source: u32, mut indoms: Vec<InDom>) -> Arc<Table> {
        indoms.sort_unstable();
        indoms.dedup();
        indoms.retain(|indom| *indom != InDom::NULL);
        if indoms.is_empty() {
            return Arc::default();
        }
        let index = self.index;
        let make = |(source, indoms): &(u32, Vec<InDom>)| {
            let (mut places, mut slices) = (Places::default(), HashMap::default());
            let archives = index.source_at(*source).archives.iter();
            let entries = archives.filter_map(|name| index.archive(name));
            for slice in entries.flat_map(|entry| indoms.iter().filter_map(|indom| entry.instances(*indom))) {
                slices.entry(slice.as_ptr().addr()).or_insert_with(|| places.of(index, slice));
            }
            Arc::new(Table { ids: places.ids.into(), slices })
        };
        Arc::clone(self.tables.entry((source, indoms)).or_insert_with_key(make))
    }
}

impl Plan {
    /// Whether there may be records of one part among those of another.
    pub(super) fn overlaps(&self) -> bool {
        self.parts.windows(2).any(|pair| pair[0].end.is_none_or(|end| end >= pair[1].start))
    }
}

impl Part {
    fn of(entry: &Entry, metric: What, indom: InDom, table: &Table) -> Part {
        let slice = entry.instances(indom).and_then(|slice| table.slices.get(&slice.as_ptr().addr()));
        let instances = slice.map(Arc::clone).unwrap_or_default();
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
    known: HashMap<u32, u32>,
}

impl Places {
    fn of(&mut self, index: &Index, slice: &[InstanceAt]) -> Arc<Instances> {
        let mut named: HashMap<Inst, Named> = HashMap::default();
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
        Arc::new(Instances(named))
    }

    fn place(&mut self, index: &Index, row: u32) -> u32 {
        let next = u32::try_from(self.ids.len()).unwrap_or(u32::MAX);
        *self.known.entry(row).or_insert_with(|| {
            self.ids.push(index.instance(row).id);
            next
        })
    }
}
