//! Tables of values: one for the metrics right below a name, a row for each time and instance.
//!
//! ```text
//! disk.dev:  time | instance | labels | disk.dev.read | disk.dev.write | ...
//! ```
//!
//! Metrics right below a name are mostly of one instance domain; where they are of several, or of none, each has rows of its own
//! and the others' columns are empty there. So the table of a metric depends on its name only: two hosts have the same tables,
//! whatever else they record.
//!
//! **Cost:** of a value whose instance is where it was in the metric before, a comparison; else a search among the instances.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, TimestampMicrosecondArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use hashbrown::HashMap;
use pcp_client::ValuesRef;
use pcp_model::{Desc, InDom, Inst, Timestamp, ValueType};
use pcp_pdu::{TypedRef, ValueRef};

use super::column::{Column, data_type, words_type};
use super::rows::Rows;
use super::stage;
use crate::formats::labels;
use crate::formats::source::{Metric, Source};

/// Columns that are empty where no metric has instances.
pub(super) const INSTANCE: &str = "instance";
pub(super) const LABELS: &str = "labels";
/// Columns in front of those of the metrics.
const BEFORE: usize = 3;

/// A table of values, and its rows that are not yet written.
pub(super) struct Table {
    /// The name that its metrics are right below.
    pub name: Arc<str>,
    /// From the first rows on that are written: until then there is enough to do.
    schema: Option<SchemaRef>,
    /// The metrics of the columns, by their places in the source.
    metrics: Vec<usize>,
    /// None where the numbers come to who encodes them in stages.
    columns: Vec<Option<Column>>,
    /// Which of them hold more than numbers.
    holding: Vec<usize>,
    times: Vec<i64>,
    instances: Column,
    labels: Column,
    /// The row of the metrics without instances in the sample.
    single: Option<usize>,
    /// Which other rows the sample has, by instance domain.
    groups: Vec<Group>,
    /// The number of that sample.
    sample: u64,
}

/// The rows of the instances of a domain in one sample.
struct Group {
    indom: InDom,
    /// Those whose rows follow one another, in their order.
    instances: Vec<Inst>,
    first: usize,
    /// The rows of all instances, looked for only when one is not where it was in the metric before.
    places: HashMap<Inst, usize>,
}

/// The type of times.
pub(super) fn time_type() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// A time in microseconds since 1970, as all engines have it.
pub(super) fn micros(time: Timestamp) -> i64 {
    time.sec.saturating_mul(1_000_000).saturating_add(i64::from(time.usec()))
}

/// Times as an array.
pub(super) fn times(times: &mut Vec<i64>) -> ArrayRef {
    let next = Vec::with_capacity(times.len());
    Arc::new(TimestampMicrosecondArray::new(std::mem::replace(times, next).into(), None).with_timezone("UTC"))
}

impl Table {
    /// Of metrics of the source right below a name.
    pub(super) fn new(name: &str, metrics: Vec<usize>, source: &Source) -> Table {
        let (mut columns, mut holding) = (Vec::new(), Vec::new());
        for &metric in &metrics {
            let metric = &source.metrics[metric];
            if !metric.desc.value_type.is_numeric() {
                holding.push(columns.len());
            }
            columns.push((!is_staged(&metric.desc)).then(|| Column::new(metric.desc.value_type)));
        }
        Table {
            name: name.into(),
            schema: None,
            metrics,
            columns,
            holding,
            times: Vec::new(),
            instances: Column::new(ValueType::String),
            labels: Column::new(ValueType::String),
            single: None,
            groups: Vec::new(),
            sample: 0,
        }
    }

    /// The columns whose numbers come to who encodes them in stages: their places in a row, and their types.
    pub(super) fn staged(&self, source: &Source) -> Vec<(usize, ValueType)> {
        let own = self.metrics.iter().zip(&self.columns).enumerate();
        let staged = own.filter(|(_, (_, column))| column.is_none());
        staged.map(|(at, (metric, _))| (BEFORE + at, source.metrics[*metric].desc.value_type)).collect()
    }

    /// How many values there is room for in the rows that are not yet written; eight bytes of text are one more.
    pub(super) fn cells(&self) -> usize {
        let holding = self.holding.iter().filter_map(|column| self.columns.get(*column)?.as_ref());
        let own = [&self.instances, &self.labels].into_iter().chain(holding);
        self.times.len() * (self.metrics.len() + 1) + own.map(Column::held).sum::<usize>() / 8
    }

    /// How many rows are not yet written.
    pub(super) fn rows(&self) -> usize {
        self.times.len()
    }

    /// Adds the values of the metric of a column in the sample of a number.
    pub(super) fn add(
        &mut self,
        column: usize,
        values: ValuesRef<'_>,
        source: &mut Source,
        (sample, time): (u64, Timestamp),
    ) {
        let desc = source.metrics[self.metrics[column]].desc;
        if desc.indom == InDom::NULL {
            // One row, whatever number the value goes by.
            let row = self.single_row((sample, time));
            values.iter().for_each(|(_, value)| self.put(column, row, value, desc.value_type));
            return;
        }
        let (place, is_new) = self.group(desc.indom, values.len(), sample);
        for (at, (inst, value)) in values.iter().enumerate() {
            let group = &self.groups[place];
            let row = match group.instances.get(at) {
                Some(known) if *known == inst => group.first + at,
                // The first metric of a domain brings all of its instances.
                _ if is_new => self.begin_row(place, inst, source, time),
                _ => self.row(place, inst, source, time),
            };
            self.put(column, row, value, desc.value_type);
        }
    }

    /// Puts a value into a row of a column that is here.
    #[inline]
    fn put(&mut self, column: usize, row: usize, value: ValueRef<'_>, value_type: ValueType) {
        let Some(Some(column)) = self.columns.get_mut(column) else { return };
        if let Some(number) = value.usual_number(value_type) {
            return column.number(row, number);
        }
        match value.typed(value_type) {
            Ok(TypedRef::Number(number)) => column.number(row, number),
            Ok(TypedRef::Text(text)) => column.text(row, &String::from_utf8_lossy(text)),
            Ok(TypedRef::Aggregate(bytes) | TypedRef::Events(_, bytes)) => column.bytes(row, bytes),
            // It is not of the type that the metric says it is.
            Err(_) => {}
        }
    }

    /// The row of the metrics without instances in the sample of a number.
    pub(super) fn single_row(&mut self, (sample, time): (u64, Timestamp)) -> usize {
        self.go_to(sample);
        *self.single.get_or_insert_with(|| {
            self.times.push(micros(time));
            self.times.len() - 1
        })
    }

    /// Forgets the rows of an earlier sample.
    fn go_to(&mut self, sample: u64) {
        if self.sample != sample {
            self.sample = sample;
            self.single = None;
            self.groups.clear();
        }
    }

    /// The group of a domain in the sample of a number, and whether it is new.
    fn group(&mut self, indom: InDom, room: usize, sample: u64) -> (usize, bool) {
        self.go_to(sample);
        let known = self.groups.iter().position(|group| group.indom == indom);
        if let Some(place) = known {
            return (place, false);
        }
        let (instances, first) = (Vec::with_capacity(room), self.times.len());
        self.groups.push(Group { indom, instances, first, places: HashMap::default() });
        (self.groups.len() - 1, true)
    }

    /// The row of an instance in the sample; a new one, if there is none.
    fn row(&mut self, place: usize, inst: Inst, source: &mut Source, time: Timestamp) -> usize {
        let Group { instances, first, places, .. } = &mut self.groups[place];
        if places.is_empty() {
            places.extend(instances.iter().zip(*first..).map(|(inst, row)| (*inst, row)));
        }
        match places.get(&inst) {
            Some(row) => *row,
            None => self.begin_row(place, inst, source, time),
        }
    }

    /// Begins the row of an instance.
    fn begin_row(&mut self, place: usize, inst: Inst, source: &mut Source, time: Timestamp) -> usize {
        let row = self.times.len();
        let Group { indom, instances, first, places } = &mut self.groups[place];
        let indom = *indom;
        if row == *first + instances.len() {
            instances.push(inst);
        }
        if !places.is_empty() {
            places.insert(inst, row);
        }
        self.times.push(micros(time));
        let version = source.instances.version(&mut source.context, indom, time);
        self.instances.text(row, source.instances.name(&mut source.context, indom, inst, time));
        if let Some(labels) = source.labels.of_instance(&mut source.context, indom, inst, version) {
            self.labels.text(row, labels);
        }
        row
    }

    /// Takes the rows out, to be written.
    pub(super) fn take(&mut self, source: &mut Source) -> Rows {
        let count = self.times.len();
        // Rows of the sample that go on would be those of a table that begins anew.
        self.single = None;
        self.groups.clear();
        let own = [times(&mut self.times), self.instances.take(count), self.labels.take(count)];
        let columns = self.columns.iter_mut().map(|column| Some(column.as_mut()?.take(count)));
        let columns = own.map(Some).into_iter().chain(columns).collect();
        let schema = self.schema.get_or_insert_with(|| Arc::new(schema(&self.metrics, source)));
        let has_instances =
            self.metrics.iter().any(|metric| source.metrics[*metric].desc.indom != InDom::NULL);
        Rows { schema: Arc::clone(schema), columns, count, has_instances }
    }
}

/// The columns of a table of metrics, and what is known of these.
fn schema(metrics: &[usize], source: &mut Source) -> Schema {
    let mut fields = Vec::with_capacity(BEFORE + metrics.len());
    fields.extend([
        Field::new("time", time_type(), false),
        Field::new(INSTANCE, words_type(), true),
        Field::new(LABELS, words_type(), true),
    ]);
    fields.extend(metrics.iter().map(|metric| {
        let help = source.one_line(*metric);
        let Metric { name, desc } = &source.metrics[*metric];
        let labels = source.labels.of_metric(&mut source.context, desc);
        let about = BTreeMap::from([
            ("pcp.pmid".to_owned(), desc.pmid.to_string()),
            ("pcp.indom".to_owned(), desc.indom.to_string()),
            ("pcp.type".to_owned(), desc.value_type.name().to_owned()),
            ("pcp.semantics".to_owned(), desc.semantics.name().to_owned()),
            ("pcp.units".to_owned(), desc.units.to_string()),
            ("pcp.help".to_owned(), help),
            ("pcp.labels".to_owned(), labels::json(&labels)),
        ]);
        Field::new(name, data_type(desc.value_type), true).with_metadata(about)
    }));
    Schema::new(fields)
}

/// Whether numbers of a metric go to their column in stages.
pub(super) fn is_staged(desc: &Desc) -> bool {
    desc.indom == InDom::NULL && stage::takes(desc.value_type)
}
