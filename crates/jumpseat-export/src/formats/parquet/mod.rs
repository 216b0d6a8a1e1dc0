//! Parquet files that engines read as tables of a fleet: DuckDB, pandas, Spark, ClickHouse.
//!
//! ```text
//! LAKE/disk.dev/host=web1/date=2026-11-20/20261120T000001.parquet         time | instance | labels | disk.dev.read | ...
//! LAKE/jumpseat.event.records/host=web1/date=2026-11-20/...               time | time_ns | instance | kind | message | ...
//! LAKE/jumpseat.event.records.spans/host=web1/date=2026-11-20/...         time | time_ns | duration_ns | instance | error | ...
//! LAKE/pcp.metrics/host=web1/date=2026-11-20/...                          metric | table | type | semantics | units | help | labels
//! ```
//!
//! A metric is a column of its own type, as engines want it: narrow tables of (name, value) pairs would keep every number as a
//! double, and be several times as large. `table`: rows of samples; `events`: of records and spans; `column`: their values until they are written.
//! `stage`: the way of numbers without instances, which most are, to the thread that encodes them; `plan`: which ones of a record go it; `staged`:
//! their columns there. `rows`: all else that is handed over to `writer`, those threads; `meeting`: where they wait for each other. `store`:
//! directories and buckets.
//!
//! **Bounded:** a table is written when it has [`ROWS`] rows or [`CELLS`] values; all tables together hold [`ALL_CELLS`], beyond which the
//! fullest of them are written, [`AT_ONCE`]. Within them text is kept once. Numbers on their way are some MB, whatever there is.
//!
//! **Cost:** see `table`, `column`, `stage` and `staged`. Encoding is done by other threads, a table by one of them.

mod column;
mod events;
mod meeting;
mod plan;
mod rows;
mod stage;
mod staged;
mod store;
mod table;
mod writer;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::builder::StringBuilder;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use jumpseat_tools::complain;
use parquet::errors::ParquetError;
use pcp_client::{ValueRef, ValuesRef};
use pcp_model::{Timestamp, ValueType};
use pcp_pdu::TypedRef;

use crate::args::ExportArgs;
use crate::formats::error::ExportError;
use crate::formats::labels;
use crate::formats::source::{Metric, NAME, Source};
use crate::formats::text;
use crate::formats::walk::{Fixed, Format, Sample};
use events::Events;
use plan::Plans;
use rows::Rows;
use stage::{Stage, Stages};
use staged::Staged;
use store::Store;
use table::Table;
use writer::{Bounds, Writer};

/// Rows of a row group.
const ROWS: usize = 1 << 17;

/// Values of a row group.
const CELLS: usize = 1 << 21;

/// Values of all tables that are not yet written.
const ALL_CELLS: usize = 1 << 24;

/// Values that are handed over when there are as many: some tables' only, so that they are encoded while all are filled again. With fewer, the
/// parts of wide archives become short, and parts cost.
const AT_ONCE: usize = 1 << 22;

/// How much is kept until it is handed over.
#[derive(Clone, Copy)]
struct Limits {
    rows: usize,
    cells: usize,
    all_cells: usize,
    at_once: usize,
}

const LIMITS: Limits = Limits { rows: ROWS, cells: CELLS, all_cells: ALL_CELLS, at_once: AT_ONCE };

/// The table of what there is.
const CATALOG: &str = "pcp.metrics";

/// Writes Parquet files.
pub(crate) struct Lake {
    store: Store,
    /// The name of files.
    name: String,
    limits: Limits,
    bounds: Bounds,
    /// From the first sample on.
    writer: Option<Writer>,
    /// The day that is being written, in days since 1970.
    day: i64,
    tables: Vec<Table>,
    events: Vec<Events>,
    /// What becomes of each metric.
    places: Vec<Place>,
    /// Numbers without instances, on their way to who encodes them.
    stage: Stage,
    stages: Stages,
    /// Their columns, until there is who does.
    staged: Vec<Staged>,
    plans: Plans,
    sample: u64,
}

/// What becomes of a metric.
#[derive(Clone, Copy)]
enum Place {
    Column {
        table: usize,
        column: usize,
    },
    /// A number without instances, by its place in the stage.
    Staged {
        number: u32,
        table: u32,
        value_type: ValueType,
    },
    Events(usize),
}

impl Lake {
    /// Below a directory, or in a bucket.
    pub(crate) fn new(target: &str, args: &ExportArgs, source: &mut Source) -> Result<Lake, ExportError> {
        let store = Store::open(target)?;
        let mut below: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        let mut places = vec![Place::Events(0); source.metrics.len()];
        let mut events = Vec::new();
        for (at, metric) in source.metrics.iter().enumerate() {
            if matches!(metric.desc.value_type, ValueType::Event | ValueType::HighResEvent) {
                places[at] = Place::Events(events.len());
                events.push(Events::new(&metric.name));
                continue;
            }
            // A metric at the root is a table of its own.
            let name = metric.name.rsplit_once('.').map_or(metric.name.as_str(), |(parent, _)| parent);
            below.entry(name.to_owned()).or_default().push(at);
        }
        let mut tables = Vec::with_capacity(below.len());
        let mut staged = Vec::new();
        let mut numbers = 0;
        for (name, metrics) in below {
            for (column, metric) in metrics.iter().enumerate() {
                let desc = source.metrics[*metric].desc;
                places[*metric] = if table::is_staged(&desc) {
                    numbers += 1;
                    let (number, table) = (numbers - 1, tables.len() as u32);
                    Place::Staged { number, table, value_type: desc.value_type }
                } else {
                    Place::Column { table: tables.len(), column }
                };
            }
            let table = Table::new(&name, metrics, source);
            let columns = table.staged(source);
            if !columns.is_empty() {
                let first = numbers as usize - columns.len();
                staged.push(Staged::new(&table.name, tables.len(), first, &columns));
            }
            tables.push(table);
        }
        let mut name = compact(source.began);
        // Parts of an archive that are exported one by one are files of their own.
        if args.start.is_some() || args.origin.is_some() {
            name.push_str(&format!("-from-{}", compact(source.window.0)));
        }
        let stages = Stages::new(numbers as usize, tables.len());
        let lake = Lake {
            store,
            name,
            limits: LIMITS,
            bounds: Bounds::of_machine(),
            writer: None,
            day: 0,
            tables,
            events,
            places,
            stage: Stage::default(),
            stages,
            staged,
            plans: Plans::default(),
            sample: 0,
        };
        Ok(lake)
    }

    /// The writer, for samples of a day.
    fn enter(&mut self, source: &mut Source, day: i64) -> Result<(), ExportError> {
        // The file of an earlier day is whole: a sample that comes late goes into this one, its rows have their own times.
        if self.writer.is_some() && day <= self.day {
            return Ok(());
        }
        self.end_day(source)?;
        let date = Timestamp { sec: day.saturating_mul(86_400), nsec: 0 }.to_string();
        let date = date.split('T').next().unwrap_or_default().to_owned();
        match &mut self.writer {
            Some(writer) => writer.day(&date)?,
            None => {
                let staged = std::mem::take(&mut self.staged);
                let writer = Writer::start(&self.store, &source.host, &self.name, &date, self.bounds, staged);
                self.writer = Some(writer);
            }
        }
        self.day = day;
        Ok(())
    }

    /// Hands over what is left of a day, and what there is.
    fn end_day(&mut self, source: &mut Source) -> Result<(), ExportError> {
        if self.writer.is_none() {
            return Ok(());
        }
        self.flush(source, 0, usize::MAX, true)?;
        let catalog = self.catalog(source).map_err(unfit(CATALOG))?;
        self.hand_over(&CATALOG.into(), catalog.into(), true)
    }

    /// Hands the numbers over that are in the stage.
    fn unload(&mut self) -> Result<(), ExportError> {
        let Some(writer) = self.writer.as_mut().filter(|_| !self.stage.is_empty()) else { return Ok(()) };
        // The next one is only waited for when this one is being read.
        let stage = std::mem::take(&mut self.stage);
        writer.numbers(self.stages.full(stage))
    }

    /// Hands tables over that have at least so many values, until as many values are handed over as may be at once; `are_last`: of the day.
    fn flush(
        &mut self,
        source: &mut Source,
        least: usize,
        mut most: usize,
        are_last: bool,
    ) -> Result<(), ExportError> {
        self.unload()?;
        for at in 0..self.tables.len() {
            let table = &mut self.tables[at];
            if table.rows() > 0 && table.cells() >= least && most > 0 {
                most = most.saturating_sub(table.cells());
                let (name, rows) = (Arc::clone(&table.name), table.take(source));
                self.hand_over(&name, rows, are_last)?;
            }
        }
        for at in 0..self.events.len() {
            for spans in [false, true] {
                let events = &mut self.events[at];
                let table = if spans { &mut events.spans } else { &mut events.records };
                if table.rows() > 0 && table.cells() >= least && most > 0 {
                    most = most.saturating_sub(table.cells());
                    let (name, rows) = (Arc::clone(&table.name), table.take());
                    self.hand_over(&name, rows.map_err(unfit(&name))?.into(), are_last)?;
                }
            }
        }
        Ok(())
    }

    fn hand_over(&mut self, table: &Arc<str>, rows: Rows, are_last: bool) -> Result<(), ExportError> {
        self.writer.as_mut().map_or(Ok(()), |writer| writer.rows(table, rows, are_last))
    }

    /// Rows and values of all tables.
    fn sizes(&self) -> impl Iterator<Item = (usize, usize)> {
        let rows = self.events.iter().flat_map(|events| [&events.records, &events.spans]);
        let rows = rows.map(|rows| (rows.rows(), rows.cells()));
        self.tables.iter().map(|table| (table.rows(), table.cells())).chain(rows)
    }

    /// Hands over what has become long.
    fn relieve(&mut self, source: &mut Source) -> Result<(), ExportError> {
        let limits = self.limits;
        let (mut all, mut long) = (0, false);
        for (rows, cells) in self.sizes() {
            all += cells;
            long |= rows >= limits.rows || cells >= limits.cells;
        }
        if all >= limits.all_cells {
            let sizes = self.sizes().map(|(_, cells)| cells).collect();
            return self.flush(source, least_of_fullest(sizes, limits.at_once), limits.at_once, false);
        }
        if long { self.flush(source, limits.cells.min(limits.rows), usize::MAX, false) } else { Ok(()) }
    }

    /// What there is: a row for each metric.
    fn catalog(&self, source: &mut Source) -> Result<RecordBatch, ArrowError> {
        let names = ["metric", "table", "type", "semantics", "units", "indom", "help", "labels"];
        // Wide archives have many rows, and memory that has to grow is touched anew each time.
        let rows = source.metrics.len();
        let mut cells: [StringBuilder; 8] =
            std::array::from_fn(|_| StringBuilder::with_capacity(rows, 32 * rows));
        for at in 0..source.metrics.len() {
            let help = source.one_line(at);
            let labels =
                labels::json(&source.labels.of_metric(&mut source.context, &source.metrics[at].desc));
            let Metric { name, desc } = &source.metrics[at];
            let table = match self.places[at] {
                Place::Column { table, .. } => &*self.tables[table].name,
                Place::Staged { table, .. } => &*self.tables[table as usize].name,
                Place::Events(_) => name,
            };
            let [units, indom] = [desc.units.to_string(), desc.indom.to_string()];
            let (value_type, semantics) = (desc.value_type.name(), desc.semantics.name());
            let row = [name, table, value_type, semantics, &units, &indom, &help, &labels];
            cells.iter_mut().zip(row).for_each(|(column, cell)| column.append_value(cell));
        }
        let fields: Vec<Field> = names.map(|name| Field::new(name, DataType::Utf8, false)).into();
        let arrays = cells.map(|mut column| Arc::new(column.finish()) as _);
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays.into())
    }
}

impl Lake {
    /// Takes a record whose layout is known.
    fn fixed(&mut self, source: &mut Source, time: Timestamp, record: &Fixed<'_>) {
        let plan = self.plans.take(record, &self.places);
        for &table in &plan.tables {
            self.stage.row(table, self.tables[table].single_row((self.sample, time)));
        }
        self.stage.put_all::<4>(&plan.fours, record.sets.data());
        self.stage.put_all::<8>(&plan.eights, record.sets.data());
        for &(set, metric) in &plan.others {
            if let Some(Ok(values)) = record.sets.get(set).map(|set| set.values)
                && !values.is_empty()
            {
                self.values(source, time, metric, values);
            }
        }
        self.plans.put(plan);
    }

    /// Takes the values of a metric.
    fn values(&mut self, source: &mut Source, time: Timestamp, metric: usize, values: ValuesRef<'_>) {
        match self.places[metric] {
            Place::Column { table, column } => {
                self.tables[table].add(column, values, source, (self.sample, time));
            }
            Place::Staged { number, table, value_type } => {
                let table = table as usize;
                // Also where there is none of this type.
                self.stage.row(table, self.tables[table].single_row((self.sample, time)));
                if let Some((_, value)) = values.get(0)
                    && let Ok(TypedRef::Number(value)) = value.typed(value_type)
                {
                    self.stage.put(number as usize, value);
                }
            }
            Place::Events(at) => self.records(source, time, (metric, at), values),
        }
    }

    /// Takes event records.
    fn records(
        &mut self,
        source: &mut Source,
        time: Timestamp,
        (metric, events): (usize, usize),
        values: ValuesRef<'_>,
    ) {
        let kind = source.metrics[metric].desc.value_type;
        for (inst, value) in values.iter() {
            let ValueRef::Block(array) = value else { continue };
            let records = match text::records(kind, array) {
                Ok(records) => records,
                Err(error) => {
                    complain!("{NAME}: {}: {time}: {error}", source.metrics[metric].name);
                    continue;
                }
            };
            let instance = source.instance(metric, inst, time).map(str::to_owned);
            for record in records {
                self.events[events].add(source, inst, instance.as_deref(), &record);
            }
        }
    }
}

impl Format for Lake {
    fn sample(&mut self, source: &mut Source, sample: &Sample<'_>) -> Result<(), ExportError> {
        self.enter(source, sample.time.sec.div_euclid(86_400))?;
        self.sample += 1;
        if !self.stage.begin() {
            self.unload()?;
            self.stage = self.stages.empty();
            self.stage.begin();
        }
        match sample.fixed() {
            Some(record) => self.fixed(source, sample.time, &record),
            None => {
                sample.sets().for_each(|(metric, values)| self.values(source, sample.time, metric, values));
            }
        }
        self.relieve(source)
    }

    fn finish(&mut self, source: &mut Source) -> Result<(), ExportError> {
        self.end_day(source)?;
        self.events.iter().for_each(Events::finish);
        self.writer.as_mut().map_or(Ok(()), Writer::finish)
    }

    fn cut_short(&mut self, source: &mut Source) -> Result<(), ExportError> {
        // What is live has files of its own.
        if !source.is_archive() {
            return self.finish(source);
        }
        complain!(
            "{NAME}: files of the day that cannot be read on are not written, what was there stays: \
             `jumpseat check --repair OUT ARCHIVE` writes anew what is whole, which can be exported, or end before (-T)"
        );
        self.writer = None;
        Ok(())
    }
}

/// How many values the least of those tables has that come to `at_once` together, the fullest first.
fn least_of_fullest(mut sizes: Vec<usize>, at_once: usize) -> usize {
    sizes.sort_unstable_by(|one, other| other.cmp(one));
    let mut sum = 0;
    let last = sizes.iter().find(|cells| {
        sum += **cells;
        sum >= at_once
    });
    last.copied().unwrap_or(0)
}

/// An error about rows of a table.
fn unfit(table: &str) -> impl FnOnce(ArrowError) -> ExportError + '_ {
    move |error| ExportError::Parquet { path: PathBuf::from(table), error: ParquetError::from(error) }
}

/// A time as part of a name: `20261120T104440.089618863Z`.
fn compact(time: Timestamp) -> String {
    time.to_string().replace(['-', ':'], "")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, Int32Type, TimestampMicrosecondType, UInt64Type};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use pcp_archive::{ArchiveWriter, LabelInfo, WriteOptions};
    use pcp_client::Fetched;
    use pcp_model::{Desc, InDom, PM_IN_NULL, Pmid, Semantics, Units, Value};

    use super::*;
    use crate::formats::walk::walk;

    #[test]
    fn the_fullest_tables_go_first() {
        let least_of_fullest = |sizes| least_of_fullest(sizes, AT_ONCE);
        assert_eq!(least_of_fullest(vec![10, AT_ONCE - 1, 7, 30]), 30);
        assert_eq!(least_of_fullest(vec![10, AT_ONCE, 7]), AT_ONCE);
        assert_eq!(least_of_fullest(vec![1, 2, 3]), 0);
        assert_eq!(least_of_fullest(vec![AT_ONCE / 8; 100]), AT_ONCE / 8);
    }

    const SAMPLES: u64 = 3_000;
    /// Over midnight.
    const START: i64 = 1_700_000_000;

    /// An archive of seven tables with six metrics each, a sample every ten seconds. Its base name.
    fn archive(dir: &Path) -> String {
        let base = dir.join("made");
        let label = LabelInfo { host: "web1".into(), zone: "UTC".into(), ..LabelInfo::default() };
        let mut archive = ArchiveWriter::create(&base, label, WriteOptions::default()).expect("new");
        let pmid = |n: u32| Pmid::new(60, 0, n as u16);
        for n in 0..42 {
            let (value_type, semantics) = (ValueType::U64, Semantics::Counter);
            let desc = Desc { pmid: pmid(n), value_type, indom: InDom::NULL, semantics, units: Units::COUNT };
            archive.desc(&desc, &[format!("made.group{}.metric{n}", n / 6)]).expect("described once");
        }
        let mut values = Fetched::new();
        for sample in 0..SAMPLES {
            values.clear();
            values.timestamp = Timestamp::new(START + sample as i64 * 10, 0);
            for n in 0..42 {
                values.begin_set(pmid(n));
                values.push_value(PM_IN_NULL, &Value::U64(sample * u64::from(n))).expect("of one type");
                values.end_set();
            }
            archive.result(&values).expect("the disk has room");
        }
        archive.flush().expect("the disk has room");
        base.display().to_string()
    }

    /// The times of a table's rows and the values of one of its metrics, over both days.
    fn rows(table: &Path, metric: &str) -> Vec<(i64, u64)> {
        let mut rows = Vec::new();
        for day in ["2023-11-14", "2023-11-15"] {
            let dir = table.join("host=web1").join(format!("date={day}"));
            let mut files = fs::read_dir(dir).expect("there is the day").flatten();
            let file = fs::File::open(files.next().expect("a file").path()).expect("readable");
            assert!(files.next().is_none(), "one part");
            let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("a whole file").build();
            for batch in reader.expect("readable") {
                let batch = batch.expect("readable");
                let times =
                    batch.column_by_name("time").expect("there").as_primitive::<TimestampMicrosecondType>();
                let values = batch.column_by_name(metric).expect("there").as_primitive::<UInt64Type>();
                rows.extend(times.values().iter().copied().zip(values.values().iter().copied()));
            }
        }
        rows
    }

    /// What a command line asks for.
    fn args(archive: &str, target: &str, metric: &str) -> ExportArgs {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: ExportArgs,
        }
        let line = ["export", "-a", archive, "--parquet", target, metric];
        <Line as clap::Parser>::parse_from(line).args
    }

    #[test]
    fn tables_that_go_out_in_many_portions_have_every_row_in_order_of_time() {
        let dir = tempfile::tempdir().expect("a directory");
        let (archive, lake) = (archive(dir.path()), dir.path().join("lake"));
        let target = lake.display().to_string();
        let args = args(&archive, &target, "made");
        // By rows, and by values of the fullest tables.
        for (rows_at_once, all_cells) in [(37, 1 << 20), (1 << 20, 600)] {
            let mut source = Source::open(&args).expect("it is there");
            let mut made = Lake::new(&target, &args, &mut source).expect("a new one");
            made.limits = Limits { rows: rows_at_once, cells: 1 << 20, all_cells, at_once: 200 };
            made.bounds = Bounds { threads: 4, ahead: 1 << 12, held: 1 << 12 };
            assert_eq!(walk(&args, &mut source, &mut made).expect("it is exported"), SAMPLES);
            for n in 0..42 {
                let table = lake.join(format!("made.group{}", n / 6));
                let rows = rows(&table, &format!("made.group{}.metric{n}", n / 6));
                let expected = (0..SAMPLES).map(|at| ((START + at as i64 * 10) * 1_000_000, at * n));
                assert!(rows.into_iter().eq(expected), "metric{n}, {rows_at_once} rows at once");
            }
            fs::remove_dir_all(&lake).expect("it is there");
        }
    }

    /// The values of sample `at` that come in records of turn `at % 3`: a long and a short one, then all, then a double; now and then one is missing.
    fn turn(at: i64) -> (Option<u64>, Option<i32>, Option<f64>) {
        let long = (at % 3 != 2).then_some(at as u64);
        let short = (at % 3 != 2 && at % 28 != 0).then_some(-at as i32);
        let double = (at % 3 != 0).then_some(at as f64 / 2.0);
        (long, short, double)
    }

    #[test]
    fn records_that_take_turns_are_told_apart() {
        let dir = tempfile::tempdir().expect("a directory");
        let base = dir.path().join("made");
        let label = LabelInfo { host: "web1".into(), zone: "UTC".into(), ..LabelInfo::default() };
        let mut archive = ArchiveWriter::create(&base, label, WriteOptions::default()).expect("new");
        let types = [ValueType::U64, ValueType::I32, ValueType::Double];
        for (n, value_type) in types.into_iter().enumerate() {
            let (pmid, indom, semantics) = (Pmid::new(60, 0, n as u16), InDom::NULL, Semantics::Instant);
            let desc = Desc { pmid, value_type, indom, semantics, units: Units::NONE };
            archive.desc(&desc, &[format!("made.all.metric{n}")]).expect("described once");
        }
        let mut values = Fetched::new();
        // Some stages, the last of which is not full.
        let samples = 5 * stage::DEPTH as i64 + 7;
        for at in 0..samples {
            values.clear();
            values.timestamp = Timestamp::new(START + at, 0);
            let (long, short, double) = turn(at);
            let of_record = [long.map(Value::U64), short.map(Value::I32), double.map(Value::Double)];
            for (n, value) in of_record.into_iter().enumerate() {
                let Some(value) = value else { continue };
                values.begin_set(Pmid::new(60, 0, n as u16));
                values.push_value(PM_IN_NULL, &value).expect("of one type");
                values.end_set();
            }
            archive.result(&values).expect("the disk has room");
        }
        archive.flush().expect("the disk has room");
        let target = dir.path().join("lake").display().to_string();
        let base = base.display().to_string();
        let export = |target: &str, metric: &str| {
            let args = args(&base, target, metric);
            let mut source = Source::open(&args).expect("it is there");
            let mut lake = Lake::new(target, &args, &mut source).expect("a new one");
            walk(&args, &mut source, &mut lake).expect("it is exported")
        };
        assert_eq!(export(&target, "made"), samples as u64);
        let table = dir.path().join("lake/made.all/host=web1/date=2023-11-14");
        let path = fs::read_dir(table).expect("the day").flatten().next().expect("a file").path();
        let file = fs::File::open(path).expect("readable");
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("a whole file").build();
        let batches: Vec<RecordBatch> =
            reader.expect("readable").map(|batch| batch.expect("readable")).collect();
        let mut expected = (0..samples).map(turn);
        for batch in &batches {
            let column = |n| batch.column_by_name(&format!("made.all.metric{n}")).expect("there");
            let (long, short) =
                (column(0).as_primitive::<UInt64Type>(), column(1).as_primitive::<Int32Type>());
            let rows = long.iter().zip(short).zip(column(2).as_primitive::<Float64Type>());
            for ((long, short), double) in rows {
                assert_eq!(Some((long, short, double)), expected.next());
            }
        }
        assert_eq!(expected.next(), None);
        // Records without any of the metrics are no samples.
        let with_it = (0..samples).filter(|at| turn(*at).2.is_some()).count();
        assert_eq!(export(&format!("{target}-of-one"), "made.all.metric2"), with_it as u64);
    }
}
