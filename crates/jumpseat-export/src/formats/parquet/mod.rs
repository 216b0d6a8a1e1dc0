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
//! double, and be several times as large. `column`: values until they are written. `table`: rows of samples. `events`: of
//! records and spans. `writer`: the thread that encodes. `store`: directories and buckets.
//!
//! **Bounded:** a table is written when it has [`ROWS`] rows or [`CELLS`] values; all tables together hold [`ALL_CELLS`]. Within them
//! text is kept once.
//!
//! **Cost:** see `table` and `column`. Encoding is done by a second thread.

mod column;
mod events;
mod store;
mod table;
mod writer;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use jumpseat_tools::complain;
use parquet::errors::ParquetError;
use pcp_model::{Timestamp, ValueType};

use crate::args::ExportArgs;
use crate::formats::error::ExportError;
use crate::formats::labels;
use crate::formats::source::{NAME, Source};
use crate::formats::text;
use crate::formats::walk::{Format, Sample};
use events::Events;
use store::Store;
use table::Table;
use writer::Writer;

/// Rows of a row group.
const ROWS: usize = 1 << 17;

/// Values of a row group.
const CELLS: usize = 1 << 21;

/// Values of all tables that are not yet written.
const ALL_CELLS: usize = 1 << 24;

/// The table of what there is.
const CATALOG: &str = "pcp.metrics";

/// Writes Parquet files.
pub(crate) struct Lake {
    store: Store,
    /// The name of files.
    name: String,
    /// From the first sample on.
    writer: Option<Writer>,
    /// The day that is being written, in days since 1970.
    day: i64,
    tables: Vec<Table>,
    events: Vec<Events>,
    /// What becomes of each metric.
    places: Vec<Place>,
    sample: u64,
}

#[derive(Clone, Copy)]
enum Place {
    Column { table: usize, column: usize },
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
        for (name, metrics) in below {
            for (column, metric) in metrics.iter().enumerate() {
                places[*metric] = Place::Column { table: tables.len(), column };
            }
            tables.push(Table::new(&name, metrics, source));
        }
        let mut name = compact(source.began);
        // Parts of an archive that are exported one by one are files of their own.
        if args.start.is_some() || args.origin.is_some() {
            name.push_str(&format!("-from-{}", compact(source.window.0)));
        }
        Ok(Lake { store, name, writer: None, day: 0, tables, events, places, sample: 0 })
    }

    /// The writer, for samples of a day.
    fn enter(&mut self, source: &mut Source, day: i64) -> Result<(), ExportError> {
        // The file of an earlier day is whole: a sample that comes late goes into this one, its rows have their own times.
        if self.writer.is_some() && day <= self.day {
            return Ok(());
        }
        self.flush(0)?;
        let date = Timestamp { sec: day.saturating_mul(86_400), nsec: 0 }.to_string();
        let date = date.split('T').next().unwrap_or_default().to_owned();
        match &mut self.writer {
            Some(writer) => writer.day(date)?,
            None => {
                self.writer = Some(Writer::start(self.store.clone(), &source.host, self.name.clone(), date))
            }
        }
        self.day = day;
        let catalog = self.catalog(source).map_err(unfit(CATALOG))?;
        self.hand_over(&CATALOG.into(), catalog)
    }

    /// Hands all tables over that have at least so many values.
    fn flush(&mut self, least: usize) -> Result<(), ExportError> {
        for at in 0..self.tables.len() {
            let table = &mut self.tables[at];
            if table.rows() > 0 && table.cells() >= least {
                let (name, rows) = (Arc::clone(&table.name), table.take());
                self.hand_over(&name.clone(), rows.map_err(unfit(&name))?)?;
            }
        }
        for at in 0..self.events.len() {
            for spans in [false, true] {
                let events = &mut self.events[at];
                let table = if spans { &mut events.spans } else { &mut events.records };
                if table.rows() > 0 && table.cells() >= least {
                    let (name, rows) = (Arc::clone(&table.name), table.take());
                    self.hand_over(&name.clone(), rows.map_err(unfit(&name))?)?;
                }
            }
        }
        Ok(())
    }

    fn hand_over(&mut self, table: &Arc<str>, rows: RecordBatch) -> Result<(), ExportError> {
        self.writer.as_mut().map_or(Ok(()), |writer| writer.rows(table, rows))
    }

    /// Hands over what has become long.
    fn relieve(&mut self) -> Result<(), ExportError> {
        let rows = self.events.iter().flat_map(|events| [&events.records, &events.spans]);
        let rows = rows.map(|rows| (rows.rows(), rows.cells()));
        let sizes = self.tables.iter().map(|table| (table.rows(), table.cells())).chain(rows);
        let (mut all, mut count, mut long) = (0, 0, false);
        for (rows, cells) in sizes {
            all += cells;
            count += 1;
            long |= rows >= ROWS || cells >= CELLS;
        }
        if all >= ALL_CELLS {
            // Those that have at least their share.
            return self.flush(all / count);
        }
        if long { self.flush(CELLS.min(ROWS)) } else { Ok(()) }
    }

    /// What there is: a row for each metric.
    fn catalog(&self, source: &mut Source) -> Result<RecordBatch, ArrowError> {
        let names = ["metric", "table", "type", "semantics", "units", "indom", "help", "labels"];
        let mut cells: [Vec<String>; 8] = Default::default();
        for at in 0..source.metrics.len() {
            let help = source.one_line(at);
            let metric = source.metrics[at].clone();
            let table = match self.places[at] {
                Place::Column { table, .. } => self.tables[table].name.to_string(),
                Place::Events(_) => metric.name.clone(),
            };
            let labels = labels::json(&source.labels.of_metric(&mut source.context, &metric.desc));
            let row = [
                metric.name,
                table,
                metric.desc.value_type.name().to_owned(),
                metric.desc.semantics.name().to_owned(),
                metric.desc.units.to_string(),
                metric.desc.indom.to_string(),
                help,
                labels,
            ];
            cells.iter_mut().zip(row).for_each(|(column, cell)| column.push(cell));
        }
        let fields: Vec<Field> = names.map(|name| Field::new(name, DataType::Utf8, false)).into();
        let arrays = cells.map(|column| Arc::new(StringArray::from(column)) as _);
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays.into())
    }
}

impl Format for Lake {
    fn sample(&mut self, source: &mut Source, sample: &Sample<'_>) -> Result<(), ExportError> {
        self.enter(source, sample.time.sec.div_euclid(86_400))?;
        self.sample += 1;
        for (metric, values) in sample.sets() {
            match self.places[metric] {
                Place::Column { table, column } => {
                    self.tables[table].add(column, values, source, (self.sample, sample.time));
                }
                Place::Events(at) => {
                    let kind = source.metrics[metric].desc.value_type;
                    for (inst, value) in values.iter() {
                        let pcp_client::ValueRef::Block(array) = value else { continue };
                        let records = match text::records(kind, array) {
                            Ok(records) => records,
                            Err(error) => {
                                complain!(
                                    "{NAME}: {}: {}: {error}",
                                    source.metrics[metric].name,
                                    sample.time
                                );
                                continue;
                            }
                        };
                        let instance = source.instance(metric, inst, sample.time).map(str::to_owned);
                        for record in records {
                            self.events[at].add(source, inst, instance.as_deref(), &record);
                        }
                    }
                }
            }
        }
        self.relieve()
    }

    fn finish(&mut self, _: &mut Source) -> Result<(), ExportError> {
        self.flush(0)?;
        self.events.iter().for_each(Events::finish);
        self.writer.as_mut().map_or(Ok(()), Writer::finish)
    }
}

/// An error about rows of a table.
fn unfit(table: &str) -> impl FnOnce(ArrowError) -> ExportError + '_ {
    move |error| ExportError::Parquet { path: PathBuf::from(table), error: ParquetError::from(error) }
}

/// A time as part of a name: `20261120T104440.089618863Z`.
fn compact(time: Timestamp) -> String {
    time.to_string().replace(['-', ':'], "")
}
