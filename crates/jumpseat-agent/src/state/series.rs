//! The values of metrics that others push or that are scraped, as the receivers' batches ([`jumpseat_source::series`]) make them.
//!
//! **Cost:** a value is one store into an array; a new series is an insertion into the sorted series of its metric. A batch has so few
//! of both that it is taken in as a whole.

use std::sync::Arc;

use jumpseat_source::series::batch::MetricMeaning;
use jumpseat_source::series::{
    BUCKET_SERIAL, Batch, Batches, Defined, Gone, LabelText, QUANTILE_SERIAL, SET_SERIAL, SeriesStats,
};
use pcp_model::{Inst, Pmid};
use pcp_pmda::Instances;
use rustc_hash::FxHashMap;

/// The labels of an instance.
pub(crate) type Told = Arc<[(String, LabelText)]>;

/// All metrics and their values.
pub(crate) struct SeriesValues {
    batches: Option<Batches>,
    /// What the receivers' end counts.
    pub(crate) stats: Arc<SeriesStats>,
    /// By [`Pmid::local`].
    metrics: FxHashMap<u32, SeriesMetric>,
    /// By slot.
    values: Vec<u64>,
    texts: FxHashMap<u32, Box<str>>,
    sets: [Set; 3],
    generation: u64,
    label_generation: u64,
}

/// A metric.
pub(crate) struct SeriesMetric {
    /// What it is.
    pub(crate) meaning: Arc<MetricMeaning>,
    /// Its instances, ascending, and the slots of their values.
    series: Vec<(Inst, u32)>,
}

/// An instance domain.
struct Set {
    serial: u32,
    instances: Instances,
    labels: FxHashMap<Inst, Told>,
}

impl Default for SeriesValues {
    fn default() -> SeriesValues {
        let set = |serial| Set { serial, instances: Instances::in_memory(), labels: FxHashMap::default() };
        SeriesValues {
            batches: None,
            stats: Arc::default(),
            metrics: FxHashMap::default(),
            values: Vec::new(),
            texts: FxHashMap::default(),
            sets: [SET_SERIAL, BUCKET_SERIAL, QUANTILE_SERIAL].map(set),
            generation: 0,
            label_generation: 0,
        }
    }
}

impl SeriesValues {
    /// Takes batches from there from now on.
    pub(crate) fn take_from(&mut self, batches: Batches, stats: Arc<SeriesStats>) {
        self.batches = Some(batches);
        self.stats = stats;
    }

    /// Takes in what has come, until `is_over`; whether there may be more.
    pub(super) fn drain(&mut self, is_over: impl Fn() -> bool) -> bool {
        loop {
            if is_over() {
                return true;
            }
            let Some(batch) = self.batches.as_ref().and_then(Batches::take) else { return false };
            self.apply(batch);
        }
    }

    /// Takes one batch: so many come in each turn, however many records there are.
    pub(super) fn take_one(&mut self) {
        if let Some(batch) = self.batches.as_ref().and_then(Batches::take) {
            self.apply(batch);
        }
    }

    fn apply(&mut self, batch: Batch) {
        for gone in batch.gone {
            self.gone(gone);
        }
        for defined in batch.defined {
            self.define(defined);
        }
        for point in batch.points {
            if let Some(value) = self.values.get_mut(point.slot as usize) {
                *value = point.bits;
            }
        }
        self.texts.extend(batch.texts);
    }

    fn define(&mut self, defined: Defined) {
        match defined {
            Defined::Metric(meaning) => {
                self.generation += 1;
                let metric = SeriesMetric { meaning, series: Vec::new() };
                self.metrics.insert(metric.meaning.pmid.local(), metric);
            }
            Defined::Instance { serial, inst, name, labels } => {
                let Some(set) = self.sets.iter_mut().find(|set| set.serial == serial) else { return };
                if let Err(error) = set.instances.add_as(inst, &name) {
                    // The file of ids has each name once.
                    tracing::error!("instance {inst} of domain {serial}: {error}");
                }
                set.labels.insert(inst, labels);
                self.label_generation += 1;
            }
            Defined::Series { pmid, inst, slot } => {
                if self.values.len() <= slot as usize {
                    self.values.resize(slot as usize + 1, 0);
                }
                self.values[slot as usize] = 0;
                if let Some(metric) = self.metrics.get_mut(&pmid.local())
                    && let Err(at) = metric.series.binary_search_by_key(&inst, |series| series.0)
                {
                    metric.series.insert(at, (inst, slot));
                }
            }
        }
    }

    fn gone(&mut self, gone: Gone) {
        match gone {
            Gone::Series { pmid, inst, slot } => {
                self.texts.remove(&slot);
                if let Some(metric) = self.metrics.get_mut(&pmid.local())
                    && let Ok(at) = metric.series.binary_search_by_key(&inst, |series| series.0)
                {
                    metric.series.remove(at);
                }
            }
            Gone::Instance { serial, inst } => {
                if let Some(set) = self.sets.iter_mut().find(|set| set.serial == serial) {
                    set.instances.forget(inst);
                    set.labels.remove(&inst);
                    self.label_generation += 1;
                }
            }
        }
    }

    /// Changes whenever names do.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Changes whenever labels do.
    pub(super) fn label_generation(&self) -> u64 {
        self.label_generation
    }

    /// Batches that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.batches.as_ref().map_or(0, Batches::waiting)
    }

    /// All metrics.
    pub(crate) fn metrics(&self) -> impl Iterator<Item = &SeriesMetric> {
        self.metrics.values()
    }

    /// The metric of a PMID.
    pub(crate) fn metric(&self, pmid: Pmid) -> Option<&SeriesMetric> {
        self.metrics.get(&pmid.local())
    }

    /// The instances of one of the domains.
    pub(crate) fn instances(&self, serial: u32) -> &Instances {
        &self.sets.iter().find(|set| set.serial == serial).unwrap_or(&self.sets[0]).instances
    }

    /// The labels of an instance of one of the domains.
    pub(crate) fn labels(&self, serial: u32, inst: Inst) -> Option<&Told> {
        self.sets.iter().find(|set| set.serial == serial)?.labels.get(&inst)
    }

    /// The instances of a metric and the bits of their values.
    pub(crate) fn values<'a>(&'a self, metric: &'a SeriesMetric) -> impl Iterator<Item = (Inst, u64)> + 'a {
        metric.series.iter().map(|&(inst, slot)| (inst, self.values.get(slot as usize).copied().unwrap_or(0)))
    }

    /// The instances of a metric of exemplars and their texts.
    pub(crate) fn texts<'a>(
        &'a self,
        metric: &'a SeriesMetric,
    ) -> impl Iterator<Item = (Inst, &'a str)> + 'a {
        metric.series.iter().filter_map(|&(inst, slot)| Some((inst, &**self.texts.get(&slot)?)))
    }
}
