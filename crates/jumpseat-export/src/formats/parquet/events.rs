//! Tables of event records: a column for each field, which come as records bring them; and of spans.
//!
//! ```text
//! METRIC:        time | time_ns | instance | kind | missed | span_id | type | message | severity | FIELD ...
//! METRIC.spans:  time | time_ns | duration_ns | instance | error | span_id | parent_id | trace_id | type | FIELD ...
//! ```
//!
//! Fields of jumpseat have their own names (`jumpseat.field.message` is `message`), others' those of their metrics. A span is the
//! record that begins it and the one that ends it: it has the fields of both, and those of the end where both have one.
//!
//! **Bounded:** a table has [`FIELDS`] columns for fields, further ones are a JSON object in `other_fields`; [`OPEN`] spans that have
//! begun are waited for, and what is not is told.
//!
//! **Cost:** of a field, a look-up of its column and one of its text among those that the column has.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use hashbrown::HashMap;
use jumpseat_tools::{Emphasis, complain};
use pcp_event::{EventFlags, Param};
use pcp_model::{Inst, Number, Pmid, Timestamp, ValueType};

use super::column::{Column, data_type, words_type};
use super::table::{micros, time_type, times};
use crate::formats::source::{NAME, Source};
use crate::formats::text::{self, Record};

/// Columns for fields.
const FIELDS: usize = 2_048;

/// Spans that are waited for.
const OPEN: usize = 200_000;

/// What names of jumpseat's own fields begin with.
const PREFIX: &str = "jumpseat.field.";

/// Where the columns of records are.
const TIME_NS: usize = 0;
const INSTANCE: usize = 1;
const KIND: usize = 2;
const MISSED: usize = 3;

/// Where those of spans are that records do not have.
const DURATION: usize = 2;
const ERROR: usize = 3;

/// Rows that fields are added to as they come.
pub(super) struct Rows {
    /// The table.
    pub name: Arc<str>,
    times: Vec<i64>,
    /// All but the times.
    fields: Vec<Field>,
    columns: Vec<Column>,
    places: HashMap<Pmid, usize>,
    /// How many columns are no fields.
    base: usize,
    /// Where further fields go, once there are any.
    other: Option<usize>,
    schema: Option<SchemaRef>,
}

/// The records of a metric, and its spans.
pub(super) struct Events {
    pub records: Rows,
    pub spans: Rows,
    open: HashMap<(Inst, Vec<u8>), Begun>,
    /// Spans that could not be waited for.
    passed_over: u64,
}

/// A span that has begun.
struct Begun {
    time: Timestamp,
    fields: Vec<(Pmid, Kept)>,
}

/// A value that is kept until the span has ended.
enum Kept {
    Number(Number),
    Text(Vec<u8>),
    Bytes(Vec<u8>),
}

/// A value of a field.
#[derive(Clone, Copy)]
enum Cell<'a> {
    Number(Number),
    Text(&'a [u8]),
    Bytes(&'a [u8]),
}

impl Events {
    /// Of a metric.
    pub(super) fn new(metric: &str) -> Events {
        let common = [("time_ns", DataType::Int64), ("instance", words_type())];
        let of_records = [("kind", words_type()), ("missed", DataType::Int32)];
        let of_spans = [("duration_ns", DataType::Int64), ("error", DataType::Boolean)];
        let columns = |last: Vec<Column>| {
            let mut columns = vec![Column::new(ValueType::I64), Column::new(ValueType::String)];
            columns.extend(last);
            columns
        };
        let records = columns(vec![Column::new(ValueType::String), Column::new(ValueType::I32)]);
        let spans = columns(vec![Column::new(ValueType::I64), Column::flags()]);
        Events {
            records: Rows::new(metric, common.iter().cloned().chain(of_records), records),
            spans: Rows::new(&format!("{metric}.spans"), common.into_iter().chain(of_spans), spans),
            open: HashMap::default(),
            passed_over: 0,
        }
    }

    /// Adds a record of an instance, whose name is `instance`.
    pub(super) fn add(
        &mut self,
        source: &mut Source,
        inst: Inst,
        instance: Option<&str>,
        record: &Record<'_>,
    ) {
        let rows = &mut self.records;
        let row = rows.begin(record.time, instance);
        rows.columns[KIND].text(row, kind(record.flags));
        if let Some(missed) = record.missed() {
            rows.columns[MISSED].number(row, missed.into());
            return;
        }
        let mut other = Vec::new();
        for param in record.params() {
            rows.put(source, row, param.pmid, Cell::of(param.value), &mut other);
        }
        rows.put_other(row, other);
        self.span(source, inst, instance, record);
    }

    fn span(&mut self, source: &mut Source, inst: Inst, instance: Option<&str>, record: &Record<'_>) {
        let has = |flag| record.flags.contains(flag);
        let (starts, ends) = (has(EventFlags::START), has(EventFlags::END));
        if !has(EventFlags::ID) || !(starts || ends) {
            return;
        }
        let Some(id) = record.params().next() else { return };
        let id = match Cell::of(id.value) {
            Cell::Number(number) => format!("{number:?}").into_bytes(),
            Cell::Text(bytes) | Cell::Bytes(bytes) => bytes.to_vec(),
        };
        if starts && !ends {
            if self.open.len() >= OPEN {
                self.passed_over += 1;
                return;
            }
            let fields = record.params().map(|param| (param.pmid, Cell::of(param.value).kept())).collect();
            self.open.insert((inst, id), Begun { time: record.time, fields });
            return;
        }
        // An end whose beginning is before the window has no duration here.
        let begun = match self.open.remove(&(inst, id)) {
            Some(begun) => begun,
            None if starts => Begun { time: record.time, fields: Vec::new() },
            None => return,
        };
        let rows = &mut self.spans;
        let row = rows.begin(begun.time, instance);
        let duration = (record.time.as_nanos() - begun.time.as_nanos()).clamp(0, i64::MAX.into());
        rows.columns[DURATION].number(row, (duration as i64).into());
        let mut error = false;
        let mut other = Vec::new();
        for (pmid, value) in &begun.fields {
            rows.put(source, row, *pmid, value.cell(), &mut other);
        }
        for param in record.params() {
            let value = Cell::of(param.value);
            if let Cell::Text(text) = value {
                error |= match &*source.field(param.pmid) {
                    "jumpseat.field.severity" => Emphasis::of(text) == Emphasis::Error,
                    "jumpseat.field.status" => text == b"error",
                    _ => false,
                };
            }
            rows.put(source, row, param.pmid, value, &mut other);
        }
        rows.columns[ERROR].flag(row, error);
        rows.put_other(row, other);
    }

    /// Tells what is not among the spans.
    pub(super) fn finish(&self) {
        if self.passed_over > 0 {
            complain!(
                "{NAME}: {}: {} spans are left out, as {OPEN} others had begun and not ended: export less at a time (-S, -T)",
                self.spans.name,
                self.passed_over
            );
        }
    }
}

impl Rows {
    fn new(name: &str, base: impl Iterator<Item = (&'static str, DataType)>, columns: Vec<Column>) -> Rows {
        let fields: Vec<Field> = base.map(|(name, data_type)| Field::new(name, data_type, true)).collect();
        Rows {
            name: name.into(),
            times: Vec::new(),
            base: fields.len(),
            fields,
            columns,
            places: HashMap::default(),
            other: None,
            schema: None,
        }
    }

    /// How many rows are not yet written.
    pub(super) fn rows(&self) -> usize {
        self.times.len()
    }

    /// How many values there is room for in the rows that are not yet written; eight bytes of text are one more.
    pub(super) fn cells(&self) -> usize {
        self.times.len() * (self.columns.len() + 1) + self.columns.iter().map(Column::held).sum::<usize>() / 8
    }

    fn begin(&mut self, time: Timestamp, instance: Option<&str>) -> usize {
        let row = self.times.len();
        self.times.push(micros(time));
        let nanos = time.as_nanos().clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        self.columns[TIME_NS].number(row, nanos.into());
        if let Some(instance) = instance {
            self.columns[INSTANCE].text(row, instance);
        }
        row
    }

    fn put(&mut self, source: &mut Source, row: usize, pmid: Pmid, value: Cell<'_>, other: &mut Vec<u8>) {
        let place = match self.places.get(&pmid) {
            Some(place) => *place,
            None if self.columns.len() - self.base < FIELDS => self.add_field(source, pmid, value),
            None => {
                other.push(if other.is_empty() { b'{' } else { b',' });
                text::quoted(other, source.field(pmid).as_bytes());
                other.push(b':');
                match value {
                    Cell::Number(number) => text::number(other, number),
                    Cell::Text(bytes) | Cell::Bytes(bytes) => text::quoted(other, bytes),
                }
                return;
            }
        };
        let column = &mut self.columns[place];
        match value {
            Cell::Number(number) => column.number(row, number),
            Cell::Text(text) => column.text(row, &String::from_utf8_lossy(text)),
            Cell::Bytes(bytes) => column.bytes(row, bytes),
        }
    }

    /// Adds the column of a field that has not come before.
    fn add_field(&mut self, source: &mut Source, pmid: Pmid, value: Cell<'_>) -> usize {
        let metric = source.field(pmid);
        let short = metric.strip_prefix(PREFIX).unwrap_or(&metric);
        let taken = |name: &str| name == "time" || self.fields.iter().any(|field| field.name() == name);
        let name = match (taken(short), taken(&metric)) {
            (false, _) => short.to_owned(),
            (true, false) => metric.to_string(),
            (true, true) => format!("{metric} {pmid}"),
        };
        let value_type = match value {
            Cell::Number(Number::I32(_)) => ValueType::I32,
            Cell::Number(Number::U32(_)) => ValueType::U32,
            Cell::Number(Number::I64(_)) => ValueType::I64,
            Cell::Number(Number::U64(_)) => ValueType::U64,
            Cell::Number(Number::Float(_)) => ValueType::Float,
            Cell::Number(Number::Double(_)) => ValueType::Double,
            Cell::Text(_) => ValueType::String,
            Cell::Bytes(_) => ValueType::Aggregate,
        };
        let mut about = BTreeMap::from([
            ("pcp.metric".to_owned(), metric.to_string()),
            ("pcp.type".to_owned(), value_type.name().to_owned()),
        ]);
        if let Ok(desc) = source.context.desc(pmid) {
            about.insert("pcp.units".to_owned(), desc.units.to_string());
            about.insert("pcp.semantics".to_owned(), desc.semantics.name().to_owned());
        }
        self.push(
            Field::new(name, data_type(value_type), true).with_metadata(about),
            Column::new(value_type),
        );
        self.places.insert(pmid, self.columns.len() - 1);
        self.columns.len() - 1
    }

    fn put_other(&mut self, row: usize, mut other: Vec<u8>) {
        if other.is_empty() {
            return;
        }
        other.push(b'}');
        let place = self.other.unwrap_or_else(|| {
            self.push(Field::new("other_fields", words_type(), true), Column::new(ValueType::String));
            self.columns.len() - 1
        });
        self.other = Some(place);
        self.columns[place].text(row, &String::from_utf8_lossy(&other));
    }

    fn push(&mut self, field: Field, column: Column) {
        self.fields.push(field);
        self.columns.push(column);
        self.schema = None;
    }

    /// Takes the rows out, to be written.
    pub(super) fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        let rows = self.times.len();
        let fields = &self.fields;
        let schema = self.schema.get_or_insert_with(|| {
            let time = Field::new("time", time_type(), false);
            Arc::new(Schema::new([time].into_iter().chain(fields.iter().cloned()).collect::<Vec<_>>()))
        });
        let mut arrays = vec![times(&mut self.times)];
        arrays.extend(self.columns.iter_mut().map(|column| column.take(rows)));
        RecordBatch::try_new(Arc::clone(schema), arrays)
    }
}

impl<'a> Cell<'a> {
    fn of(param: Param<'a>) -> Cell<'a> {
        match param {
            Param::I32(v) => Cell::Number(v.into()),
            Param::U32(v) => Cell::Number(v.into()),
            Param::I64(v) => Cell::Number(v.into()),
            Param::U64(v) => Cell::Number(v.into()),
            Param::Float(v) => Cell::Number(v.into()),
            Param::Double(v) => Cell::Number(v.into()),
            Param::String(text) => Cell::Text(text),
            Param::Aggregate(bytes) => Cell::Bytes(bytes),
        }
    }

    fn kept(self) -> Kept {
        match self {
            Cell::Number(number) => Kept::Number(number),
            Cell::Text(text) => Kept::Text(text.to_vec()),
            Cell::Bytes(bytes) => Kept::Bytes(bytes.to_vec()),
        }
    }
}

impl Kept {
    fn cell(&self) -> Cell<'_> {
        match self {
            Kept::Number(number) => Cell::Number(*number),
            Kept::Text(text) => Cell::Text(text),
            Kept::Bytes(bytes) => Cell::Bytes(bytes),
        }
    }
}

/// What a record is.
fn kind(flags: EventFlags) -> &'static str {
    match (flags.contains(EventFlags::START), flags.contains(EventFlags::END)) {
        _ if flags.contains(EventFlags::MISSED) => "missed",
        (true, true) => "span",
        (true, false) => "start",
        (false, true) => "end",
        (false, false) => "point",
    }
}
