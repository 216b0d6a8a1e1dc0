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

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, TimestampMicrosecondArray};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use pcp_client::ValuesRef;
use pcp_model::{InDom, Inst, PM_IN_NULL, Timestamp, ValueType};
use pcp_pdu::TypedRef;
use rustc_hash::FxHashMap;

use super::column::{Column, data_type, words_type};
use super::stage::Stage;
use crate::formats::labels;
use crate::formats::source::Source;

/// A table of values, and its rows that are not yet written.
pub(super) struct Table {
    /// The name that its metrics are right below.
    pub name: Arc<str>,
    schema: SchemaRef,
    /// The metrics of the columns, by their places in the source.
    metrics: Vec<usize>,
    columns: Vec<Column>,
    /// Which of them hold more than numbers.
    holding: Vec<usize>,
    times: Vec<i64>,
    instances: Column,
    labels: Column,
    /// Which rows the sample has, by instance domain.
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
    places: FxHashMap<Inst, usize>,
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
    pub(super) fn new(name: &str, metrics: Vec<usize>, source: &mut Source) -> Table {
        let mut fields = vec![
            Field::new("time", time_type(), false),
            Field::new("instance", words_type(), true),
            Field::new("labels", words_type(), true),
        ];
        let (mut columns, mut holding) = (Vec::new(), Vec::new());
        for &metric in &metrics {
            let help = source.one_line(metric);
            let metric = &source.metrics[metric];
            let labels = source.labels.of_metric(&mut source.context, &metric.desc);
            let about = HashMap::from([
                ("pcp.pmid".to_owned(), metric.desc.pmid.to_string()),
                ("pcp.indom".to_owned(), metric.desc.indom.to_string()),
                ("pcp.type".to_owned(), metric.desc.value_type.name().to_owned()),
                ("pcp.semantics".to_owned(), metric.desc.semantics.name().to_owned()),
                ("pcp.units".to_owned(), metric.desc.units.to_string()),
                ("pcp.help".to_owned(), help),
                ("pcp.labels".to_owned(), labels::json(&labels)),
            ]);
            let field = Field::new(&metric.name, data_type(metric.desc.value_type), true);
            fields.push(field.with_metadata(about));
            if !metric.desc.value_type.is_numeric() {
                holding.push(columns.len());
            }
            columns.push(Column::new(metric.desc.value_type));
        }
        Table {
            name: name.into(),
            schema: Arc::new(Schema::new(fields)),
            metrics,
            columns,
            holding,
            times: Vec::new(),
            instances: Column::new(ValueType::String),
            labels: Column::new(ValueType::String),
            groups: Vec::new(),
            sample: 0,
        }
    }

    /// How many values there is room for in the rows that are not yet written; eight bytes of text are one more.
    pub(super) fn cells(&self) -> usize {
        let holding = self.holding.iter().filter_map(|column| self.columns.get(*column));
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
        let (place, is_new) = self.group(desc.indom, values.len(), sample);
        for (at, (inst, value)) in values.iter().enumerate() {
            // A metric without instances has one row, whatever number its value goes by.
            let inst = if desc.indom == InDom::NULL { PM_IN_NULL } else { inst };
            let group = &self.groups[place];
            let row = match group.instances.get(at) {
                Some(known) if *known == inst => group.first + at,
                // The first metric of a domain brings all of its instances.
                _ if is_new => self.begin_row(place, inst, source, time),
                _ => self.row(place, inst, source, time),
            };
            if let Some(number) = value.usual_number(desc.value_type) {
                self.columns[column].number(row, number);
                continue;
            }
            match value.typed(desc.value_type) {
                Ok(TypedRef::Number(number)) => self.columns[column].number(row, number),
                Ok(TypedRef::Text(text)) => self.columns[column].text(row, &String::from_utf8_lossy(text)),
                Ok(TypedRef::Aggregate(bytes) | TypedRef::Events(_, bytes)) => {
                    self.columns[column].bytes(row, bytes);
                }
                // It is not of the type that the metric says it is.
                Err(_) => {}
            }
        }
    }

    /// The row of the metrics without instances in the sample of a number.
    pub(super) fn single_row(&mut self, source: &mut Source, (sample, time): (u64, Timestamp)) -> usize {
        let (place, _) = self.group(InDom::NULL, 1, sample);
        match self.groups[place].instances.first() {
            Some(_) => self.groups[place].first,
            None => self.begin_row(place, PM_IN_NULL, source, time),
        }
    }

    /// Puts the numbers of a metric into their rows of a column. `table`: the number of this one, and [`Stage::run`] of it.
    pub(super) fn numbers(
        &mut self,
        column: usize,
        stage: &Stage,
        table: (usize, Option<usize>),
        metric: usize,
    ) {
        self.columns[column].numbers(stage, table, metric);
    }

    /// The group of a domain in the sample of a number, and whether it is new.
    fn group(&mut self, indom: InDom, room: usize, sample: u64) -> (usize, bool) {
        if self.sample != sample {
            self.sample = sample;
            self.groups.clear();
        }
        let known = self.groups.iter().position(|group| group.indom == indom);
        if let Some(place) = known {
            return (place, false);
        }
        let (instances, first) = (Vec::with_capacity(room), self.times.len());
        self.groups.push(Group { indom, instances, first, places: FxHashMap::default() });
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
        if indom != InDom::NULL {
            let version = source.instances.version(&mut source.context, indom, time);
            self.instances.text(row, source.instances.name(&mut source.context, indom, inst, time));
            if let Some(labels) = source.labels.of_instance(&mut source.context, indom, inst, version) {
                self.labels.text(row, labels);
            }
        }
        row
    }

    /// Takes the rows out, to be written.
    pub(super) fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        let rows = self.times.len();
        // Rows of the sample that go on would be those of a table that begins anew.
        self.groups.clear();
        let mut arrays = vec![times(&mut self.times), self.instances.take(rows), self.labels.take(rows)];
        arrays.extend(self.columns.iter_mut().map(|column| column.take(rows)));
        RecordBatch::try_new(Arc::clone(&self.schema), arrays)
    }
}
