//! The index: which series and instances there are, under which names and labels, and in which archives.
//!
//! ```text
//! Facts of an archive --add--> names, labels, series, instances: each once, by number
//!                              archive: series with PMID, instances with number: slices that archives of a host share
//! ```
//!
//! **Invariant:** what no archive has any more is not found; its row stays until the index is built anew, which [`Index::is_worn`]
//! asks for.
//!
//! **Cost:** an archive whose metadata is like that of another one of its host costs its name; 12 bytes a metric and 8 an
//! instance where it differs. Series and instances cost some 100 bytes, once.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use pcp_archive::Glance;
use pcp_model::{Desc, InDom, Inst, Pmid, Timestamp};

use super::facts::{Facts, Ids, Labels};
use crate::server::identity::{Id, object};

/// Most series and instances: what is beyond is not found.
const MAX_ROWS: usize = 4_000_000;

/// The index.
#[derive(Debug, Default)]
pub(super) struct Index {
    names: Names,
    labels: Vec<LabelRow>,
    label_numbers: HashMap<Box<str>, u32>,
    series: Vec<Series>,
    series_numbers: HashMap<Id, u32>,
    by_name: BTreeMap<u32, Vec<u32>>,
    instances: Vec<InstanceRow>,
    instance_numbers: HashMap<Id, u32>,
    sources: Vec<Source>,
    source_numbers: HashMap<Id, u32>,
    archives: HashMap<PathBuf, Entry>,
    /// Slices that archives share.
    metric_slices: HashSet<Arc<[MetricAt]>>,
    instance_slices: HashSet<Arc<[InstanceAt]>>,
    removed: usize,
}

/// A metric of a source.
#[derive(Debug)]
pub(super) struct Series {
    pub id: Id,
    pub name: u32,
    pub labels: u32,
    pub source: u32,
    /// As the first archive has it: another one may have another PMID.
    pub desc: Desc,
    uses: u32,
}

/// An instance.
#[derive(Debug)]
pub(super) struct InstanceRow {
    pub id: Id,
    pub name: u32,
    pub labels: u32,
    uses: u32,
}

/// What is recorded: a host, by its labels.
#[derive(Debug)]
pub(super) struct Source {
    pub id: Id,
    pub labels: u32,
    /// Labels that its archives have later on.
    pub later: BTreeSet<u32>,
    pub archives: Vec<PathBuf>,
}

/// Labels, as JSON and one by one.
#[derive(Debug)]
pub(super) struct LabelRow {
    /// `{"name":VALUE,...}`, or `null`.
    pub json: Box<str>,
    pub pairs: Box<[(Box<str>, Box<str>)]>,
    /// Whether a metric without instances has them, or an instance.
    is_shown: bool,
}

/// An archive.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub glance: Glance,
    /// The time of the last record; `None` while it is being written.
    pub end: Option<Timestamp>,
    pub source: u32,
    /// By number of the series.
    pub metrics: Arc<[MetricAt]>,
    /// By domain.
    pub indoms: Arc<[(InDom, Arc<[InstanceAt]>)]>,
}

/// A series in an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct MetricAt {
    pub series: u32,
    pub pmid: Pmid,
    pub indom: InDom,
}

/// An instance in an archive; an identifier that had several names is there several times in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct InstanceAt {
    pub inst: Inst,
    pub row: u32,
}

/// Texts, each once.
#[derive(Debug, Default)]
struct Names {
    all: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
}

/// Building.
impl Index {
    /// Takes an archive in, in place of what was known of it.
    pub(super) fn add(&mut self, glance: Glance, facts: &Facts, ids: &Ids, end: Option<Timestamp>) {
        self.remove(&glance.name);
        let json = object(&facts.labels);
        let labels = self.label_row(&facts.labels);
        let source = self.source(Id::source(&json), labels);
        let later = self.label_row(&facts.later);
        self.sources[source as usize].later.insert(later);
        let sets: Vec<u32> = facts.sets.iter().map(|labels| self.label_row(labels)).collect();
        let mut metrics: Vec<MetricAt> = Vec::with_capacity(facts.metrics.len());
        for (metric, &id) in facts.metrics.iter().zip(&ids.metrics) {
            let (desc, labels) = (metric.desc(), sets[metric.labels as usize]);
            let Some(series) = self.series_row(id, &metric.name, labels, source, desc) else { break };
            if desc.indom == InDom::NULL {
                self.labels[labels as usize].is_shown = true;
            }
            metrics.push(MetricAt { series, pmid: desc.pmid, indom: desc.indom });
        }
        metrics.sort_unstable_by_key(|metric| metric.series);
        metrics.dedup_by_key(|metric| metric.series);
        let mut indoms: Vec<(InDom, Arc<[InstanceAt]>)> = Vec::with_capacity(facts.indoms.len());
        for (domain, ids) in facts.indoms.iter().zip(&ids.instances) {
            let mut all = Vec::with_capacity(domain.instances.len());
            for (instance, &id) in domain.instances.iter().zip(ids) {
                let labels = sets[instance.labels as usize];
                let Some(row) = self.instance_row(id, &instance.name, labels) else { break };
                self.labels[labels as usize].is_shown = true;
                all.push(InstanceAt { inst: instance.id, row });
            }
            all.sort_by_key(|instance| instance.inst);
            indoms.push((InDom(domain.indom), shared(&mut self.instance_slices, all)));
        }
        indoms.sort_by_key(|(indom, _)| *indom);
        let metrics = shared(&mut self.metric_slices, metrics);
        for metric in metrics.iter() {
            self.series[metric.series as usize].uses += 1;
        }
        for instance in indoms.iter().flat_map(|(_, all)| all.iter()) {
            self.instances[instance.row as usize].uses += 1;
        }
        self.sources[source as usize].archives.push(glance.name.clone());
        let entry = Entry { end, source, metrics, indoms: indoms.into(), glance };
        self.archives.insert(entry.glance.name.clone(), entry);
    }

    /// An archive has grown, or its end is known now; its metadata is as it was.
    pub(super) fn grown(&mut self, glance: Glance, end: Option<Timestamp>) {
        if let Some(entry) = self.archives.get_mut(&glance.name) {
            (entry.glance, entry.end) = (glance, end);
        }
    }

    /// Forgets an archive.
    pub(super) fn remove(&mut self, archive: &Path) {
        let Some(entry) = self.archives.remove(archive) else { return };
        self.removed += 1;
        for metric in entry.metrics.iter() {
            self.series[metric.series as usize].uses -= 1;
        }
        for instance in entry.indoms.iter().flat_map(|(_, all)| all.iter()) {
            self.instances[instance.row as usize].uses -= 1;
        }
        self.sources[entry.source as usize].archives.retain(|other| other != archive);
        let Entry { metrics, indoms, .. } = entry;
        unshared(&mut self.metric_slices, metrics);
        let slices: Vec<Arc<[InstanceAt]>> = indoms.iter().map(|(_, all)| Arc::clone(all)).collect();
        drop(indoms);
        slices.into_iter().for_each(|slice| unshared(&mut self.instance_slices, slice));
    }

    /// Whether so much was removed that it should be built anew.
    pub(super) fn is_worn(&self) -> bool {
        self.removed > 64.max(2 * self.archives.len())
    }

    fn source(&mut self, id: Id, labels: u32) -> u32 {
        let next = number(self.sources.len());
        *self.source_numbers.entry(id).or_insert_with(|| {
            self.sources.push(Source { id, labels, later: BTreeSet::new(), archives: Vec::new() });
            next
        })
    }

    fn label_row(&mut self, labels: &Labels) -> u32 {
        let json: Box<str> = object(labels).into();
        let next = number(self.labels.len());
        *self.label_numbers.entry(json).or_insert_with_key(|json| {
            let pairs =
                labels.iter().map(|(name, value)| (name.as_str().into(), value.as_str().into())).collect();
            self.labels.push(LabelRow { json: json.clone(), pairs, is_shown: false });
            next
        })
    }

    fn series_row(&mut self, id: Id, name: &str, labels: u32, source: u32, desc: Desc) -> Option<u32> {
        if let Some(known) = self.series_numbers.get(&id) {
            return Some(*known);
        }
        if self.series.len() >= MAX_ROWS {
            return None;
        }
        let (row, name) = (number(self.series.len()), self.names.number(name));
        self.series.push(Series { id, name, labels, source, desc, uses: 0 });
        self.series_numbers.insert(id, row);
        self.by_name.entry(name).or_default().push(row);
        Some(row)
    }

    fn instance_row(&mut self, id: Id, name: &str, labels: u32) -> Option<u32> {
        if let Some(known) = self.instance_numbers.get(&id) {
            return Some(*known);
        }
        if self.instances.len() >= MAX_ROWS {
            return None;
        }
        let (row, name) = (number(self.instances.len()), self.names.number(name));
        self.instances.push(InstanceRow { id, name, labels, uses: 0 });
        self.instance_numbers.insert(id, row);
        Some(row)
    }
}

/// Looking up.
impl Index {
    /// An archive.
    pub(super) fn archive(&self, name: &Path) -> Option<&Entry> {
        self.archives.get(name)
    }

    /// The number of a series.
    pub(super) fn series_of(&self, id: Id) -> Option<u32> {
        self.series_numbers.get(&id).copied().filter(|&row| self.series[row as usize].uses > 0)
    }

    /// A series by its number.
    pub(super) fn series(&self, row: u32) -> &Series {
        &self.series[row as usize]
    }

    /// The numbers of all series that there are.
    pub(super) fn all_series(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.series).filter(|(_, series)| series.uses > 0).map(|(row, _)| row)
    }

    /// The numbers of the series under a name.
    pub(super) fn series_named(&self, name: &str) -> impl Iterator<Item = u32> {
        let rows = self.names.numbers.get(name).and_then(|name| self.by_name.get(name));
        rows.into_iter().flatten().copied().filter(|&row| self.series[row as usize].uses > 0)
    }

    /// The names of metrics that there are, with a series each.
    pub(super) fn metric_names(&self) -> impl Iterator<Item = (&str, impl Iterator<Item = u32>)> {
        self.by_name.iter().filter_map(|(name, rows)| {
            let mut rows = rows.iter().copied().filter(|&row| self.series[row as usize].uses > 0).peekable();
            rows.peek()?;
            Some((self.name(*name), rows))
        })
    }

    /// An instance.
    pub(super) fn instance_of(&self, id: Id) -> Option<&InstanceRow> {
        let row = self.instance_numbers.get(&id)?;
        Some(self.instance(*row)).filter(|instance| instance.uses > 0)
    }

    pub(super) fn instance(&self, row: u32) -> &InstanceRow {
        &self.instances[row as usize]
    }

    /// All instances that there are.
    pub(super) fn all_instances(&self) -> impl Iterator<Item = &InstanceRow> {
        self.instances.iter().filter(|instance| instance.uses > 0)
    }

    /// A name of a metric or an instance.
    pub(super) fn name(&self, number: u32) -> &str {
        &self.names.all[number as usize]
    }

    pub(super) fn labels(&self, row: u32) -> &LabelRow {
        &self.labels[row as usize]
    }

    /// All labels that metrics without instances, or instances, have.
    pub(super) fn shown_labels(&self) -> impl Iterator<Item = &LabelRow> {
        self.labels.iter().filter(|labels| labels.is_shown)
    }

    pub(super) fn source_of(&self, id: Id) -> Option<&Source> {
        self.source_row(id).map(|row| self.source_at(row))
    }

    /// The number of a source.
    pub(super) fn source_row(&self, id: Id) -> Option<u32> {
        self.source_numbers.get(&id).copied()
    }

    /// All sources that there are.
    pub(super) fn sources(&self) -> impl Iterator<Item = &Source> {
        self.sources.iter().filter(|source| !source.archives.is_empty())
    }

    /// A series of a source with this instance domain.
    pub(super) fn series_with(&self, source: Id, indom: InDom) -> Option<u32> {
        let source = self.source_of(source)?;
        let entries = source.archives.iter().filter_map(|name| self.archives.get(name));
        let mut metrics = entries.flat_map(|entry| entry.metrics.iter());
        metrics.find(|metric| metric.indom == indom).map(|metric| metric.series)
    }

    pub(super) fn source_at(&self, row: u32) -> &Source {
        &self.sources[row as usize]
    }

    /// The names of a source: its archives and hosts.
    pub(super) fn source_names(&self, source: &Source) -> BTreeSet<String> {
        let entries = source.archives.iter().filter_map(|name| self.archives.get(name));
        entries
            .flat_map(|entry| {
                [entry.glance.name.to_string_lossy().into_owned(), entry.glance.label.host.clone()]
            })
            .collect()
    }

    /// The archives that a series is in, and what it is there.
    pub(super) fn archives_of(&self, row: u32) -> impl Iterator<Item = (&Entry, MetricAt)> {
        let source = &self.sources[self.series[row as usize].source as usize];
        source.archives.iter().filter_map(move |name| {
            let entry = self.archives.get(name)?;
            let at = entry.metrics.binary_search_by_key(&row, |metric| metric.series).ok()?;
            Some((entry, entry.metrics[at]))
        })
    }

    /// The instances of a series in all archives, each row once, by number of the instance in the newest archive that has it.
    pub(super) fn instances_of(&self, row: u32) -> Vec<InstanceAt> {
        let mut archives: Vec<(&Entry, MetricAt)> =
            self.archives_of(row).filter(|(_, metric)| metric.indom != InDom::NULL).collect();
        archives.sort_by_key(|(entry, _)| std::cmp::Reverse(entry.glance.label.start));
        let mut slices: Vec<&Arc<[InstanceAt]>> = Vec::new();
        for (entry, metric) in archives {
            let Some(slice) = entry.instances(metric.indom) else { continue };
            if !slices.iter().any(|known| Arc::ptr_eq(known, slice)) {
                slices.push(slice);
            }
        }
        let mut seen = HashSet::new();
        let all = slices.into_iter().flat_map(|slice| slice.iter().copied());
        all.filter(|instance| seen.insert(instance.row)).collect()
    }

    /// The rows of labels that count for a series: its own, or those of its instances.
    pub(super) fn labels_of(&self, row: u32) -> Vec<u32> {
        if self.series(row).desc.indom == InDom::NULL {
            return vec![self.series(row).labels];
        }
        let rows: BTreeSet<u32> =
            self.instances_of(row).iter().map(|instance| self.instance(instance.row).labels).collect();
        rows.into_iter().collect()
    }
}

impl Entry {
    /// The instances of a domain.
    pub(super) fn instances(&self, indom: InDom) -> Option<&Arc<[InstanceAt]>> {
        let at = self.indoms.binary_search_by_key(&indom, |(indom, _)| *indom).ok()?;
        Some(&self.indoms[at].1)
    }

    /// Whether something has been written to it since.
    pub(super) fn has_grown(&self, glance: &Glance) -> bool {
        glance.bytes != self.glance.bytes || glance.changed != self.glance.changed
    }
}

impl Names {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let (next, name): (u32, Arc<str>) = (number(self.all.len()), name.into());
        self.all.push(Arc::clone(&name));
        self.numbers.insert(name, next);
        next
    }
}

/// A slice that may be there already.
fn shared<T: Eq + Hash>(slices: &mut HashSet<Arc<[T]>>, slice: Vec<T>) -> Arc<[T]> {
    if let Some(known) = slices.get(slice.as_slice()) {
        return Arc::clone(known);
    }
    let slice: Arc<[T]> = slice.into();
    slices.insert(Arc::clone(&slice));
    slice
}

/// Lets a slice go; nobody else may have use for it.
fn unshared<T: Eq + Hash>(slices: &mut HashSet<Arc<[T]>>, slice: Arc<[T]>) {
    // This one, and that of the set.
    if Arc::strong_count(&slice) == 2 {
        slices.remove(&slice);
    }
}

/// Rows are limited to less than 2^32.
fn number(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use pcp_archive::LogLabel;
    use std::time::SystemTime;

    use super::super::facts::{Domain, Instance, Metric};
    use super::*;

    fn glance(name: &str, start: i64) -> Glance {
        let label = LogLabel {
            version: 3,
            pid: 1,
            start: Timestamp::new(start, 0),
            host: "h".to_owned(),
            zone: String::new(),
            zone_info: String::new(),
            features: 0,
        };
        let last = label.start;
        Glance { name: name.into(), label, last, bytes: 1, changed: SystemTime::UNIX_EPOCH }
    }

    fn facts(instances: &[&str]) -> Facts {
        let metric = |name: &str, pmid, indom| Metric {
            name: name.to_owned(),
            pmid,
            indom,
            value_type: 3,
            semantics: 1,
            units: 0,
            labels: 0,
        };
        let labels = vec![("hostname".to_owned(), "\"h\"".to_owned())];
        Facts {
            labels: labels.clone(),
            later: labels.clone(),
            metrics: vec![metric("a.one", 1, u32::MAX), metric("a.many", 2, 7)],
            indoms: vec![Domain {
                indom: 7,
                instances: (0..)
                    .zip(instances)
                    .map(|(id, name)| Instance { id, name: (*name).to_owned(), labels: 0 })
                    .collect(),
            }],
            sets: vec![labels],
            damage: Vec::new(),
        }
    }

    impl Index {
        fn add_facts(&mut self, glance: Glance, facts: &Facts, end: Option<Timestamp>) {
            self.add(glance, facts, &Ids::of(facts), end);
        }
    }

    #[test]
    fn archives_of_a_host_share_what_is_the_same() {
        let mut index = Index::default();
        for day in 0..10 {
            index.add_facts(
                glance(&format!("/{day}"), day),
                &facts(&["x", "y"]),
                Some(Timestamp::new(day, 9)),
            );
        }
        index.add_facts(glance("/10", 10), &facts(&["x", "z"]), None);
        assert_eq!((index.series.len(), index.instances.len()), (2, 3));
        assert_eq!((index.metric_slices.len(), index.instance_slices.len()), (1, 2));
        let many = index.series_named("a.many").next().expect("there");
        assert_eq!(index.archives_of(many).count(), 11);
        let names: BTreeSet<&str> = index
            .instances_of(many)
            .iter()
            .map(|instance| index.name(index.instance(instance.row).name))
            .collect();
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["x", "y", "z"]);
        // What only the last one had goes with it.
        index.remove(Path::new("/10"));
        assert_eq!(index.all_instances().count(), 2);
        for day in 0..10 {
            index.remove(Path::new(&format!("/{day}")));
        }
        assert_eq!((index.all_series().count(), index.metric_names().count()), (0, 0));
        assert_eq!((index.metric_slices.len(), index.instance_slices.len()), (0, 0));
    }

    #[test]
    fn an_index_of_which_much_was_removed_is_worn() {
        let mut index = Index::default();
        let change = |index: &mut Index, count: i64| {
            for _ in 0..count {
                index.add_facts(glance("/grows", 1), &facts(&["x"]), None);
            }
        };
        change(&mut index, 65);
        assert!(!index.is_worn(), "taken in anew 64 times");
        change(&mut index, 1);
        assert!(index.is_worn());
        // The more archives there are, the longer it lasts.
        for day in 0..50 {
            index.add_facts(glance(&format!("/{day}"), day), &facts(&["x"]), None);
        }
        assert!(!index.is_worn());
        change(&mut index, 2 * 51 - 65);
        assert!(!index.is_worn());
        change(&mut index, 1);
        assert!(index.is_worn());
    }
}
