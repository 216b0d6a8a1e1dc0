//! What is watched, with its recent past. Samples go in; the screen reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use pcp_model::{Desc, InDom, Inst, Timestamp, ValueType};

use super::events::Events;
use super::measure::Measure;
use super::sample::{Id, Item, Reading, Sample};
use super::series::{Cell, HISTORY};

/// Instances of a metric that are kept.
const MAX_ROWS: usize = 50_000;

/// All that is watched.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    /// In the order in which they were asked for.
    pub metrics: Vec<Metric>,
    /// What the views are made of, besides: not in the list of metrics.
    pub hidden: Vec<Metric>,
    /// Event records, and how many there were.
    pub events: Events,
    /// When the last sample was taken.
    pub at: Option<Timestamp>,
    /// How many samples there were.
    pub samples: u64,
    /// How many samples failed as a whole, and metrics in samples.
    pub errors: u64,
}

/// A metric or an expression.
#[derive(Clone, Debug)]
pub(crate) struct Metric {
    /// Which.
    pub id: Id,
    /// What it is called on the screen.
    pub name: String,
    /// How its values are shown; unknown until there is a descriptor.
    pub measure: Option<Measure>,
    /// Whether it has instances.
    pub instanced: bool,
    /// Whether its values are event records.
    pub is_event: bool,
    hidden: bool,
    /// The sum of its instances, or their mean where they do not add up.
    pub total: Cell,
    /// Its last value as text, for values that are not numbers.
    pub text: Option<String>,
    /// Why there are no values.
    pub error: Option<String>,
    /// The instances.
    pub rows: BTreeMap<Inst, Row>,
    previous: Option<Timestamp>,
}

/// An instance of a metric.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    /// Its name.
    pub name: Arc<str>,
    /// Its values.
    pub cell: Cell,
    /// Its value as text, if it is not a number.
    pub text: Option<String>,
    /// What the source gave last, to make a rate of.
    previous: Option<f64>,
}

impl Model {
    /// Watches something else.
    pub(crate) fn add(&mut self, id: Id, name: &str) {
        self.metrics.push(Metric::new(id, name));
    }

    /// Watches something for the views.
    pub(crate) fn add_hidden(&mut self, id: Id, name: &str) {
        self.hidden.push(Metric { hidden: true, ..Metric::new(id, name) });
    }

    /// What is watched for the views, by its name.
    pub(crate) fn background(&self, name: &str) -> Option<&Metric> {
        self.hidden.iter().find(|metric| metric.name == name)
    }

    /// Watches something no more.
    pub(crate) fn remove(&mut self, id: Id) {
        self.metrics.retain(|metric| metric.id != id);
        self.events.remove(id);
    }

    /// Takes a descriptor. Values that do not go with the earlier one are forgotten.
    pub(crate) fn describe(&mut self, id: Id, desc: &Desc) {
        let Some(metric) = self.all_mut().find(|metric| metric.id == id) else { return };
        let measure = Measure::of(desc);
        let instanced = desc.indom != InDom::NULL;
        // Numbers in other units must not stand in one row of bars.
        if metric.measure.as_ref().is_some_and(|old| *old != measure) || metric.instanced != instanced {
            (metric.total, metric.text) = (Cell::default(), None);
            metric.rows.clear();
        }
        metric.measure = Some(measure);
        metric.instanced = instanced;
        metric.is_event = matches!(desc.value_type, ValueType::Event | ValueType::HighResEvent);
        metric.error = None;
        // Another collector may count from zero.
        metric.forget();
    }

    /// Why a metric has no values, before the first sample.
    pub(crate) fn explain(&mut self, id: Id, error: &str) {
        if let Some(metric) = self.metrics.iter_mut().find(|metric| metric.id == id) {
            metric.error = Some(error.to_owned());
        }
    }

    /// Takes a sample. What was not asked for in it has a gap there.
    pub(crate) fn apply(&mut self, sample: Sample) {
        self.samples += 1;
        self.at = Some(sample.at);
        // What was removed while the fetch was under way is left over in it.
        let mut readings: BTreeMap<Id, Reading> = sample.readings.into_iter().collect();
        self.events.begin(sample.at);
        for metric in self.metrics.iter_mut().chain(&mut self.hidden) {
            match readings.remove(&metric.id) {
                Some(Reading::Events(batches)) => {
                    metric.error = None;
                    self.events.take(metric.id, batches);
                }
                Some(reading) => {
                    // What a view cannot show it says itself.
                    self.errors += u64::from(!metric.hidden && matches!(reading, Reading::Failed(_)));
                    metric.take(sample.at, reading);
                }
                None => metric.gap(),
            }
        }
        self.events.end();
        for metric in self
            .metrics
            .iter_mut()
            .chain(&mut self.hidden)
            .filter(|metric| metric.is_event && metric.error.is_none())
        {
            metric.total.push(self.events.rate(metric.id));
        }
    }

    /// A sample that failed as a whole: a gap in every series.
    pub(crate) fn gap(&mut self) {
        self.all_mut().for_each(Metric::gap);
        self.events.gap();
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Metric> {
        self.metrics.iter_mut().chain(&mut self.hidden)
    }
}

impl Metric {
    fn new(id: Id, name: &str) -> Metric {
        Metric {
            id,
            name: name.to_owned(),
            measure: None,
            instanced: false,
            is_event: false,
            hidden: false,
            total: Cell::default(),
            text: None,
            error: None,
            rows: BTreeMap::new(),
            previous: None,
        }
    }

    fn gap(&mut self) {
        self.total.push(None);
        self.rows.values_mut().for_each(|row| row.take(None));
        self.forget();
    }

    /// The next rate needs two values after this.
    fn forget(&mut self) {
        self.previous = None;
        self.rows.values_mut().for_each(|row| row.previous = None);
    }

    fn take(&mut self, at: Timestamp, reading: Reading) {
        match reading {
            Reading::Numbers(items) => self.numbers(at, items),
            Reading::Texts(items) => self.texts(items),
            Reading::Failed(error) => {
                self.gap();
                self.error = Some(error);
            }
            Reading::Events(_) => {}
        }
    }

    fn numbers(&mut self, at: Timestamp, items: Vec<Item<f64>>) {
        let Some(measure) = self.measure.clone() else { return };
        // Between the times of the collector, not those of this program: the network takes its time, too.
        let elapsed = self.previous.map(|before| (at.as_nanos() - before.as_nanos()) as f64 * 1e-9);
        self.error = None;
        self.previous = Some(at);
        let (mut sum, mut number) = (0.0, 0u32);
        self.update(items, |row, raw| {
            let value = match (raw, row.previous, elapsed) {
                (Some(raw), _, _) if !measure.rate => Some(measure.convert(raw)),
                // A counter that went back was reset, or wrapped: nobody knows.
                (Some(raw), Some(before), Some(elapsed)) if elapsed > 0.0 && raw >= before => {
                    Some(measure.convert(raw - before) / elapsed)
                }
                _ => None,
            };
            row.previous = raw;
            if let Some(value) = value {
                (sum, number) = (sum + value, number + 1);
            }
            row.take(value);
        });
        // Temperatures do not add up.
        let mean = if measure.additive { 1.0 } else { f64::from(number) };
        self.total.push((number > 0).then(|| sum / mean));
    }

    fn texts(&mut self, items: Vec<Item<String>>) {
        self.error = None;
        self.text = match items.as_slice() {
            [only] if !self.instanced => Some(only.value.clone()),
            _ => None,
        };
        self.update(items, |row, text| {
            row.cell.age = if text.is_some() { 0 } else { row.cell.age.saturating_add(1) };
            // The last one stays, dimmed, until the row is forgotten.
            row.text = text.or(row.text.take());
        });
    }

    /// Gives every row its value; new instances become rows, those that are long gone none.
    fn update<T>(&mut self, items: Vec<Item<T>>, mut take: impl FnMut(&mut Row, Option<T>)) {
        let mut values: BTreeMap<Inst, T> = BTreeMap::new();
        for item in items {
            // Those that are there go on: a flood of new instances must not freeze the old ones.
            let row = match self.rows.len() < MAX_ROWS {
                true => Some(self.rows.entry(item.inst).or_default()),
                false => self.rows.get_mut(&item.inst),
            };
            if let Some(row) = row {
                row.name = item.name;
                values.insert(item.inst, item.value);
            }
        }
        self.rows.iter_mut().for_each(|(inst, row)| take(row, values.remove(inst)));
        self.rows.retain(|_, row| row.cell.age < HISTORY);
    }
}

impl Row {
    /// What the source gave last: of a counter the count.
    pub(crate) fn raw(&self) -> Option<f64> {
        self.previous
    }

    fn take(&mut self, value: Option<f64>) {
        self.cell.push(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcp_model::{Pmid, Semantics, Units};

    const ID: Id = 7;

    fn model(semantics: Semantics, indom: InDom) -> Model {
        let mut model = Model::default();
        model.add(ID, "some.metric");
        let units = Units::BYTE;
        model.describe(ID, &Desc { pmid: Pmid(1), value_type: ValueType::U64, indom, semantics, units });
        model
    }

    fn sample(model: &mut Model, sec: i64, values: &[(Inst, f64)]) {
        let item = |&(inst, value): &(Inst, f64)| Item { inst, name: format!("i{inst}").into(), value };
        let numbers = Reading::Numbers(values.iter().map(item).collect());
        model.apply(Sample { at: Timestamp { sec, nsec: 0 }, readings: vec![(ID, numbers)] });
    }

    fn history(cell: &Cell) -> Vec<Option<f64>> {
        cell.series.newest(usize::MAX).collect()
    }

    #[test]
    fn counters_are_rates_between_two_values() {
        let mut model = model(Semantics::Counter, InDom::new(1, 1));
        sample(&mut model, 10, &[(0, 100.0), (1, 5.0)]);
        sample(&mut model, 12, &[(0, 300.0), (1, 5.0)]);
        sample(&mut model, 13, &[(0, 400.0)]);
        sample(&mut model, 14, &[(0, 50.0), (1, 9.0)]);
        sample(&mut model, 15, &[(0, 60.0), (1, 19.0)]);
        let metric = &model.metrics[0];
        assert_eq!(history(&metric.rows[&0].cell), [None, Some(100.0), Some(100.0), None, Some(10.0)]);
        assert_eq!(history(&metric.rows[&1].cell), [None, Some(0.0), None, None, Some(10.0)]);
        assert_eq!(history(&metric.total), [None, Some(100.0), Some(100.0), None, Some(20.0)]);
    }

    #[test]
    fn a_lost_connection_leaves_a_gap_and_no_rate_across_it() {
        let mut model = model(Semantics::Counter, InDom::NULL);
        sample(&mut model, 1, &[(-1, 1.0)]);
        sample(&mut model, 2, &[(-1, 3.0)]);
        model.gap();
        assert_eq!((model.metrics[0].total.last, model.metrics[0].total.age), (Some(2.0), 1));
        sample(&mut model, 4, &[(-1, 9.0)]);
        sample(&mut model, 5, &[(-1, 10.0)]);
        assert_eq!(history(&model.metrics[0].total), [None, Some(2.0), None, None, Some(1.0)]);
        assert_eq!(model.metrics[0].total.age, 0);
    }

    #[test]
    fn errors_are_kept_until_there_is_a_value() {
        let mut model = model(Semantics::Instant, InDom::NULL);
        sample(&mut model, 1, &[(-1, 1.0)]);
        let failed = Reading::Failed("Try again".to_owned());
        model.apply(Sample { at: Timestamp::default(), readings: vec![(ID, failed)] });
        assert_eq!((model.errors, model.metrics[0].error.as_deref()), (1, Some("Try again")));
        sample(&mut model, 3, &[(-1, 2.0)]);
        assert_eq!(model.metrics[0].error, None);
        assert_eq!(history(&model.metrics[0].total), [Some(1.0), None, Some(2.0)]);
    }

    #[test]
    fn instances_that_are_long_gone_are_forgotten() {
        let mut model = model(Semantics::Instant, InDom::new(1, 1));
        sample(&mut model, 0, &[(3, 1.0), (4, 1.0)]);
        for sec in 1..=HISTORY as i64 {
            sample(&mut model, sec, &[(4, 2.0)]);
        }
        assert_eq!(model.metrics[0].rows.keys().collect::<Vec<_>>(), [&4]);
    }

    #[test]
    fn readings_that_do_not_add_up_are_averaged() {
        let mut model = Model::default();
        model.add(ID, "load");
        let (indom, units) = (InDom::new(1, 1), Units::NONE);
        let (value_type, semantics) = (ValueType::Float, Semantics::Instant);
        model.describe(ID, &Desc { pmid: Pmid(1), value_type, indom, semantics, units });
        sample(&mut model, 1, &[(1, 1.0), (5, 3.0)]);
        assert_eq!(history(&model.metrics[0].total), [Some(2.0)]);
    }
}
