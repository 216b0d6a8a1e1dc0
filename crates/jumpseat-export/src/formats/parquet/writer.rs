//! The threads that encode and write: tables' rows come in portions, each becomes a row group of the table's file.
//!
//! ```text
//! TABLE/host=HOST/date=YYYY-MM-DD/NAME.parquet, NAME-1.parquet ...
//! ```
//!
//! `NAME` is that of the archive's start, so that a second export of an archive takes the place of the first. A table whose columns
//! have become more goes on in a further part; parts that an earlier export had and this one has not are removed.
//!
//! **Invariant:** all rows of a table go to the same thread, so that they are in its file in their order. A file gets its name, and takes
//! the place of an earlier export's, only when all files of its day are encoded to their ends: if one thread fails, or who reads
//! does, and so the writer is dropped, what was there stays as it was.
//!
//! **Bounded:** rows that wait for all threads, and those that they encode, have [`AHEAD`] bytes, or are one portion; encoded bytes beyond
//! [`HELD`] of all of them go to the disk, the longest file first.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{JoinHandle, available_parallelism};

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use hashbrown::HashMap;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use super::meeting::{Meeting, Member};
use super::rows::Rows;
use super::stage::Full;
use super::staged::Staged;
use super::store::{Sink, Store};
use super::table::{INSTANCE, LABELS};
use crate::formats::error::ExportError;

/// Most threads: one reads for all of them.
const THREADS: usize = 4;

/// Bytes of rows that are handed over and not yet encoded: what becomes ready at once ([`super::AT_ONCE`]) and as much again, lest who reads waits.
const AHEAD: usize = 64 << 20;

/// Encoded bytes in memory, of all threads.
const HELD: usize = 64 << 20;

/// Files that are written as soon as they are encoded, of a thread: they stay open until all of the day get their names.
const FILES: usize = 128;

/// How many threads, and how much they may hold.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub threads: usize,
    /// Bytes of rows that are not yet encoded.
    pub ahead: usize,
    /// Encoded bytes.
    pub held: usize,
}

impl Bounds {
    /// A thread for each processor.
    pub(super) fn of_machine() -> Bounds {
        let threads = available_parallelism().map_or(1, usize::from).min(THREADS);
        Bounds { threads, ahead: AHEAD, held: HELD }
    }
}

/// Hands portions to the threads.
pub(super) struct Writer {
    encoders: Vec<Encoder>,
    /// Which of them has a table.
    tables: HashMap<Arc<str>, usize>,
    room: Arc<Room>,
}

/// A thread.
struct Encoder {
    sender: Sender<Message>,
    thread: JoinHandle<Result<(), ExportError>>,
}

enum Message {
    Numbers(Arc<Full>),
    Rows {
        table: Arc<str>,
        rows: Rows,
        /// There are no more of the day.
        are_last: bool,
        /// Its room, until it is encoded, or dropped as its thread has ended.
        place: Place,
    },
    /// All rows of the day are there. The next day.
    Day(String),
    /// All rows are there. A channel that closes without it is that of an export that has failed.
    End,
}

impl Writer {
    /// Threads that write files of a host, by a name, below a store.
    pub(super) fn start(
        store: &Store,
        host: &str,
        name: &str,
        day: &str,
        bounds: Bounds,
        staged: Vec<Staged>,
    ) -> Writer {
        let number = bounds.threads.max(1);
        let meeting = Meeting::of(number);
        let mut tables = HashMap::default();
        let mut of_each: Vec<Vec<Staged>> = (0..number).map(|_| Vec::new()).collect();
        // In turns: tables that come one after the other are about as long.
        for (turn, staged) in (0..number).cycle().zip(staged) {
            tables.insert(Arc::clone(&staged.name), turn);
            of_each[turn].push(staged);
        }
        let encoder = |staged| {
            let (sender, receiver) = channel();
            let files = Files {
                store: store.clone(),
                host: escaped(host),
                name: name.to_owned(),
                day: day.to_owned(),
                most: bounds.held / number,
                open: BTreeMap::new(),
                encoded: Vec::new(),
                staged,
            };
            let member = Member::new(&meeting);
            Encoder { sender, thread: std::thread::spawn(move || files.run(&receiver, &member)) }
        };
        let encoders = of_each.into_iter().map(encoder).collect();
        Writer { encoders, tables, room: Room::of(bounds.ahead) }
    }

    /// Hands numbers of staged columns over, whose rows come later.
    pub(super) fn numbers(&mut self, stage: Full) -> Result<(), ExportError> {
        let stage = Arc::new(stage);
        (0..self.encoders.len()).try_for_each(|at| self.send(at, Message::Numbers(Arc::clone(&stage))))
    }

    /// Hands rows of a table over; `are_last`: there are no more of the day.
    pub(super) fn rows(&mut self, table: &Arc<str>, rows: Rows, are_last: bool) -> Result<(), ExportError> {
        // In turns, as above.
        let turn = self.tables.len() % self.encoders.len().max(1);
        let at = *self.tables.entry(Arc::clone(table)).or_insert(turn);
        let place = Room::take(&self.room, rows.bytes());
        self.send(at, Message::Rows { table: Arc::clone(table), rows, are_last, place })
    }

    /// Ends the day: what comes is of the next one.
    pub(super) fn day(&mut self, next: &str) -> Result<(), ExportError> {
        (0..self.encoders.len()).try_for_each(|at| self.send(at, Message::Day(next.to_owned())))
    }

    /// Ends the last day, and waits until all is written.
    pub(super) fn finish(&mut self) -> Result<(), ExportError> {
        (0..self.encoders.len()).try_for_each(|at| self.send(at, Message::End))?;
        self.join()
    }

    fn send(&mut self, at: usize, message: Message) -> Result<(), ExportError> {
        match self.encoders.get(at).map(|encoder| encoder.sender.send(message)) {
            Some(Ok(())) => Ok(()),
            // It has ended, which it does because of its own error or another's.
            _ => self.join(),
        }
    }

    /// Waits for all threads. The error of the first that has one.
    fn join(&mut self) -> Result<(), ExportError> {
        let mut written = Ok(());
        let mut panicked = None;
        for thread in self.leave() {
            match thread.join() {
                Ok(own) => written = written.and(own),
                Err(panic) => panicked = panicked.or(Some(panic)),
            }
        }
        match panicked {
            Some(panic) => std::panic::resume_unwind(panic),
            None => written,
        }
    }

    /// Closes all channels, before the first thread is waited for.
    fn leave(&mut self) -> Vec<JoinHandle<Result<(), ExportError>>> {
        self.encoders.drain(..).map(|encoder| encoder.thread).collect()
    }
}

impl Drop for Writer {
    /// Files that are not whole are gone before the program is.
    fn drop(&mut self) {
        for thread in self.leave() {
            // There is an error to tell already.
            let _ = thread.join();
        }
    }
}

/// How many bytes of rows are handed over and not yet encoded.
struct Room {
    most: usize,
    used: Mutex<usize>,
    freed: Condvar,
}

/// Some of them, which are given back with it.
struct Place {
    room: Arc<Room>,
    bytes: usize,
}

impl Room {
    fn of(most: usize) -> Arc<Room> {
        Arc::new(Room { most, used: Mutex::default(), freed: Condvar::new() })
    }

    /// Waits until there is room for so many; what is larger than all room is alone in it.
    fn take(room: &Arc<Room>, bytes: usize) -> Place {
        let used = room.used.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |used: &mut usize| *used > 0 && used.saturating_add(bytes) > room.most;
        let mut used = room.freed.wait_while(used, is_full).unwrap_or_else(PoisonError::into_inner);
        *used += bytes;
        Place { room: Arc::clone(room), bytes }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut used = self.room.used.lock().unwrap_or_else(PoisonError::into_inner);
        *used = used.saturating_sub(self.bytes);
        drop(used);
        self.room.freed.notify_one();
    }
}

/// The files of a day.
struct Files {
    store: Store,
    host: String,
    name: String,
    day: String,
    /// Encoded bytes in memory.
    most: usize,
    open: BTreeMap<Arc<str>, Table>,
    /// Parts of the day that wait for their names.
    encoded: Vec<Part>,
    /// Columns of its tables that are filled in stages, in the order of the tables.
    staged: Vec<Staged>,
}

/// A part of a table that is encoded to its end.
struct Part {
    table: Arc<str>,
    part: usize,
    sink: Sink,
}

/// The parts of a table.
struct Table {
    /// The one that is being written.
    writer: ArrowWriter<Sink>,
    schema: SchemaRef,
    part: usize,
}

impl Files {
    /// Takes portions to their files until the end, or until one of all threads fails.
    fn run(mut self, receiver: &Receiver<Message>, member: &Member) -> Result<(), ExportError> {
        while let Ok(message) = receiver.recv() {
            match message {
                Message::Numbers(stage) => {
                    let stage = stage.stage();
                    stage
                        .iter()
                        .for_each(|stage| self.staged.iter_mut().for_each(|staged| staged.take(stage)));
                }
                Message::Rows { table, rows, are_last, place } => {
                    let has_instances = rows.has_instances;
                    let batch = self.whole(&table, rows)?;
                    self.rows(&table, &batch, has_instances)?;
                    if are_last {
                        self.close(&table)?;
                    }
                    drop(place);
                }
                Message::Day(next) => {
                    self.encode()?;
                    if !member.meet() {
                        return Ok(());
                    }
                    self.publish()?;
                    self.day = next;
                }
                Message::End => {
                    self.encode()?;
                    return if member.meet() { self.publish() } else { Ok(()) };
                }
            }
        }
        // Who reads has failed, or another thread has.
        Ok(())
    }

    /// Rows with the columns that are here.
    fn whole(&mut self, name: &Arc<str>, rows: Rows) -> Result<RecordBatch, ExportError> {
        let count = rows.count;
        let staged = self.staged.iter_mut().find(|staged| staged.name == *name);
        let whole = rows.whole(staged.into_iter().flat_map(|staged| staged.arrays(count)));
        whole.map_err(|error| ExportError::Parquet { path: PathBuf::from(&**name), error: error.into() })
    }

    fn rows(&mut self, name: &Arc<str>, batch: &RecordBatch, has_instances: bool) -> Result<(), ExportError> {
        let failed = |error| ExportError::Parquet { path: PathBuf::from(&**name), error };
        let part = match self.open.remove(name) {
            Some(table) if table.schema == batch.schema() => {
                self.open.insert(Arc::clone(name), table);
                None
            }
            Some(table) => {
                let next = table.part + 1;
                self.encoded.push(table.close(name)?);
                Some(next)
            }
            None => Some(0),
        };
        if let Some(part) = part {
            let sink = self.store.begin(&self.path(name, part));
            let writer =
                ArrowWriter::try_new(sink, batch.schema(), properties(&batch.schema(), has_instances))
                    .map_err(failed)?;
            self.open.insert(Arc::clone(name), Table { writer, schema: batch.schema(), part });
        }
        let Some(table) = self.open.get_mut(name) else { return Ok(()) };
        table.writer.write(batch).and_then(|()| table.writer.flush()).map_err(failed)?;
        self.spill()
    }

    /// Moves the longest files out of memory while all together are too much.
    fn spill(&mut self) -> Result<(), ExportError> {
        let open: usize = self.open.values().map(|table| table.writer.inner().held()).sum();
        let encoded: usize = self.encoded.iter().map(|part| part.sink.held()).sum();
        let mut held = open + encoded;
        while held > self.most {
            let longest = self.open.iter_mut().max_by_key(|(_, table)| table.writer.inner().held());
            let whole = self.encoded.iter_mut().max_by_key(|part| part.sink.held());
            let of_whole = whole.as_ref().map_or(0, |part| part.sink.held());
            let of_open = longest.as_ref().map_or(0, |(_, table)| table.writer.inner().held());
            held -= of_whole.max(of_open);
            match (longest, whole) {
                (Some((name, table)), _) if of_open >= of_whole => {
                    // What the writer itself has buffered goes first, lest bytes change their order.
                    let spilled = table.writer.sync().and_then(|()| table.writer.inner_mut().spill());
                    spilled.map_err(ExportError::write(&PathBuf::from(&**name)))?;
                }
                (_, Some(part)) => {
                    part.sink.spill().map_err(ExportError::write(&PathBuf::from(&*part.table)))?;
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// Encodes the file of a table to its end, as soon as that is known: what is known of its columns takes more memory than their numbers.
    fn close(&mut self, name: &Arc<str>) -> Result<(), ExportError> {
        let Some(table) = self.open.remove(name) else { return Ok(()) };
        let mut part = table.close(name)?;
        if part.sink.is_local() && self.encoded.len() < FILES {
            part.sink.spill().map_err(ExportError::write(&PathBuf::from(&**name)))?;
        }
        self.encoded.push(part);
        Ok(())
    }

    /// Encodes all files of the day to their ends. They have no names yet.
    fn encode(&mut self) -> Result<(), ExportError> {
        for (name, table) in std::mem::take(&mut self.open) {
            self.encoded.push(table.close(&name)?);
        }
        self.encoded.iter().try_for_each(|part| part.sink.prepare())
    }

    /// Gives the files of the day their names, and removes parts that an earlier export had.
    fn publish(&mut self) -> Result<(), ExportError> {
        let mut parts: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for Part { table, part, sink } in std::mem::take(&mut self.encoded) {
            sink.finish()?;
            let last = parts.entry(table).or_default();
            *last = part.max(*last);
        }
        for (table, last) in parts {
            let mut next = last + 1;
            while self.store.remove(&self.path(&table, next))? {
                next += 1;
            }
        }
        Ok(())
    }

    fn path(&self, table: &str, part: usize) -> String {
        let Files { host, day, name, .. } = self;
        let part = if part == 0 { String::new() } else { format!("-{part}") };
        format!("{}/host={host}/date={day}/{name}{part}.parquet", escaped(table))
    }
}

impl Table {
    /// Encodes the part that is being written to its end.
    fn close(self, name: &Arc<str>) -> Result<Part, ExportError> {
        let failed = |error| ExportError::Parquet { path: PathBuf::from(&**name), error };
        let sink = self.writer.into_inner().map_err(failed)?;
        Ok(Part { table: Arc::clone(name), part: self.part, sink })
    }
}

/// How columns are encoded: text in dictionaries, whole numbers by their differences, which for counters are small.
fn properties(schema: &Schema, has_instances: bool) -> Option<WriterProperties> {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_created_by(concat!("jumpseat ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_max_row_group_row_count(None);
    for field in schema.fields() {
        let column = ColumnPath::from(vec![field.name().clone()]);
        let data_type = field.data_type();
        if matches!(data_type, arrow_schema::DataType::Dictionary(..)) {
            // A dictionary takes 64 KiB, which is too much for a column that will have nothing.
            let is_empty = !has_instances && matches!(field.name().as_str(), INSTANCE | LABELS);
            properties = properties.set_column_dictionary_enabled(column, !is_empty);
        } else if data_type.is_integer() || data_type.is_temporal() {
            properties = properties.set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
        }
    }
    Some(properties.build())
}

/// A text as a name of a directory: all but letters, digits, `.`, `-` and `_` as Hive has them, `%` and two digits.
fn escaped(text: &str) -> String {
    let mut name = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => name.push(byte.into()),
            // Not at the front, where it would make the name a hidden one, or lead upwards.
            b'.' if !name.is_empty() => name.push('.'),
            _ => name.push_str(&format!("%{byte:02X}")),
        }
    }
    if name.is_empty() { "%".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use arrow_array::cast::AsArray;
    use arrow_array::types::Int32Type;
    use arrow_array::{Array, ArrayRef, DictionaryArray, Int64Array};
    use arrow_schema::{DataType, Field, Schema};
    use bytes::Bytes;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::*;

    #[test]
    fn no_name_leads_out_of_the_directory() {
        for (text, name) in [
            ("web-1.example.org", "web-1.example.org"),
            ("../../etc", "%2E.%2F..%2Fetc"),
            ("a=b", "a%3Db"),
            ("", "%"),
            ("..", "%2E."),
        ] {
            assert_eq!(escaped(text), name);
        }
    }

    /// A portion of a table: times that go on from one to the next.
    fn portion(number: usize, rows: usize) -> RecordBatch {
        batch((number * rows..(number + 1) * rows).map(|time| time as i64).collect())
    }

    fn batch(times: Vec<i64>) -> RecordBatch {
        let fields = vec![Field::new("time", DataType::Int64, false)];
        let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(times))];
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("as long as each other")
    }

    /// As many threads as there may be, for little at a time: all have to wait, and to spill.
    const SMALL: Bounds = Bounds { threads: 4, ahead: 1 << 10, held: 1 << 10 };
    const TABLES: usize = 7;

    fn names() -> Vec<Arc<str>> {
        (0..TABLES).map(|table| format!("table{table}").into()).collect()
    }

    fn start(dir: &Path) -> Writer {
        Writer::start(&Store::Local(dir.to_owned()), "web1", "a", "2026-11-20", SMALL, Vec::new())
    }

    /// Hands so many portions of all tables over.
    fn hand_over(writer: &mut Writer, portions: usize) -> Result<(), ExportError> {
        (0..portions).try_for_each(|number| {
            names().iter().try_for_each(|table| writer.rows(table, portion(number, 50).into(), false))
        })
    }

    /// The files below a directory, with what is in them.
    fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(dir).expect("a directory").flatten() {
            let path = entry.path();
            if path.is_dir() {
                found.append(&mut files(&path));
            } else {
                found.insert(path.clone(), fs::read(&path).expect("readable"));
            }
        }
        found
    }

    fn times(bytes: Vec<u8>) -> Vec<i64> {
        let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes)).expect("a whole file");
        let batches = reader.build().expect("readable");
        let of = |batch: RecordBatch| -> Vec<i64> {
            batch.column(0).as_primitive::<arrow_array::types::Int64Type>().values().to_vec()
        };
        batches.flat_map(|batch| of(batch.expect("readable"))).collect()
    }

    #[test]
    fn tables_of_several_threads_have_all_rows_in_their_order() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut writer = start(dir.path());
        hand_over(&mut writer, 40).expect("it goes on");
        writer.day("2026-11-21").expect("it goes on");
        hand_over(&mut writer, 3).expect("it goes on");
        writer.finish().expect("it is written");
        let files = files(dir.path());
        assert_eq!(files.len(), 2 * TABLES);
        for (path, bytes) in files {
            let rows = if path.display().to_string().contains("date=2026-11-20") { 2_000 } else { 150 };
            assert!(times(bytes).into_iter().eq(0..rows), "{}", path.display());
        }
    }

    #[test]
    fn instances_that_come_later_are_in_a_dictionary_too() {
        let portion = |number: usize, instance: Option<&str>| {
            let times = portion(number, 50);
            let instances: DictionaryArray<Int32Type> = std::iter::repeat_n(instance, 50).collect();
            let fields = vec![
                times.schema().field(0).clone(),
                Field::new(INSTANCE, instances.data_type().clone(), true),
            ];
            let columns: Vec<ArrayRef> = vec![Arc::clone(times.column(0)), Arc::new(instances)];
            RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("as long as each other")
        };
        let dir = tempfile::tempdir().expect("a directory");
        let mut writer = start(dir.path());
        for (number, instance) in [(0, None), (1, Some("sda"))] {
            for (table, has_instances) in [("with", true), ("without", false)] {
                let rows = Rows { has_instances, ..portion(number, instance).into() };
                writer.rows(&table.into(), rows, false).expect("it goes on");
            }
        }
        writer.finish().expect("it is written");
        for (path, bytes) in files(dir.path()) {
            let file = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes)).expect("a whole file");
            let later = file.metadata().row_group(1).column(1);
            let has_dictionary = later.dictionary_page_offset().is_some();
            assert_eq!(has_dictionary, path.starts_with(dir.path().join("with")), "{}", path.display());
        }
    }

    /// An earlier export, and then what becomes of its files.
    #[track_caller]
    fn leaves_all(then: impl FnOnce(&Path)) {
        let dir = tempfile::tempdir().expect("a directory");
        let mut writer = start(dir.path());
        hand_over(&mut writer, 3).expect("it goes on");
        writer.finish().expect("it is written");
        let stale = dir.path().join("table0/host=web1/date=2026-11-20/a-1.parquet");
        fs::write(stale, "a further part").expect("writable");
        let before = files(dir.path());
        then(dir.path());
        let after = files(dir.path());
        assert!(before.keys().eq(after.keys()), "{:?}", after.keys());
        for (path, bytes) in before {
            assert_eq!(after[&path], bytes, "{}", path.display());
        }
    }

    #[test]
    fn a_table_that_cannot_be_written_leaves_all_tables_as_they_were() {
        // When its first portion is spilled, of more than a writer itself buffers, and when all are encoded.
        let many = (0..20_000_i64).map(|n| n.wrapping_pow(9).rotate_left(17).wrapping_mul(n)).collect();
        for first in [batch(many), portion(0, 10)] {
            leaves_all(|dir| {
                let mut writer = start(dir);
                let in_the_way = dir.join("table7");
                fs::write(&in_the_way, "no directory").expect("writable");
                let written = writer
                    .rows(&"table7".into(), first.into(), false)
                    .and_then(|()| hand_over(&mut writer, 2))
                    .and_then(|()| writer.finish());
                let said = written.expect_err("a table has no directory").to_string();
                assert!(said.contains("table7"), "{said}");
                fs::remove_file(in_the_way).expect("it is there still");
            });
        }
    }

    #[test]
    fn who_fails_to_read_leaves_all_tables_as_they_were() {
        leaves_all(|dir| {
            let mut writer = start(dir);
            hand_over(&mut writer, 2).expect("it goes on");
        });
    }

    #[test]
    fn who_hands_over_waits_for_room_and_what_is_too_large_is_alone() {
        let room = Room::of(AHEAD);
        let large = Room::take(&room, 2 * AHEAD);
        let waiting = std::thread::spawn({
            let room = Arc::clone(&room);
            move || Room::take(&room, AHEAD).bytes
        });
        assert_eq!(*room.used.lock().expect("no panic"), 2 * AHEAD, "nobody else is in it");
        drop(large);
        assert_eq!(waiting.join().expect("it has room"), AHEAD);
        assert_eq!(*room.used.lock().expect("no panic"), 0, "given back");
    }
}
