//! The threads that encode and write: tables' rows come in portions, each becomes a row group of the table's file.
//!
//! ```text
//! TABLE/host=HOST/date=YYYY-MM-DD/NAME.parquet, NAME-1.parquet ...
//! ```
//!
//! `NAME` is that of the archive's start, so that a second export of an archive takes the place of the first. A table whose columns
//! have become more goes on in a further part; parts that an earlier export had and this one has not are removed.
//!
//! **Invariant:** all rows of a table go to the same thread, so that they are in its file in their order.
//!
//! **Bounded:** rows that wait for all threads, and those that they encode, have [`AHEAD`] bytes, or are one portion; encoded bytes beyond [`HELD`] of all of them go to the disk, the longest file first.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{JoinHandle, available_parallelism};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use rustc_hash::FxHashMap;

use super::store::{Sink, Store};
use crate::formats::error::ExportError;

/// Most threads: one reads for all of them.
const THREADS: usize = 4;

/// Bytes of rows that are handed over and not yet encoded: what becomes ready at once ([`super::AT_ONCE`]) and as much again, lest who reads waits.
const AHEAD: usize = 32 << 20;

/// Encoded bytes in memory, of all threads.
const HELD: usize = 64 << 20;

/// Hands portions to the threads.
pub(super) struct Writer {
    encoders: Vec<Encoder>,
    /// Which of them has a table.
    tables: FxHashMap<Arc<str>, usize>,
    room: Arc<Room>,
}

/// A thread.
struct Encoder {
    sender: Sender<Message>,
    thread: JoinHandle<Result<(), ExportError>>,
}

enum Message {
    Rows {
        table: Arc<str>,
        batch: RecordBatch,
        /// Its room, until it is encoded, or dropped as its thread has ended.
        place: Place,
    },
    /// Files of the day are whole. The next day's.
    Day(String),
}

impl Writer {
    /// Threads that write files of a host, by a name, below a store: one for each processor.
    pub(super) fn start(store: &Store, host: &str, name: &str, day: &str) -> Writer {
        let number = available_parallelism().map_or(1, usize::from).min(THREADS);
        let encoder = |_| {
            let (sender, receiver) = channel();
            let files = Files {
                store: store.clone(),
                host: escaped(host),
                name: name.to_owned(),
                day: day.to_owned(),
                most: HELD / number,
                open: BTreeMap::new(),
            };
            Encoder { sender, thread: std::thread::spawn(move || files.run(receiver)) }
        };
        let encoders = (0..number).map(encoder).collect();
        Writer { encoders, tables: FxHashMap::default(), room: Arc::default() }
    }

    /// Hands rows of a table over.
    pub(super) fn rows(&mut self, table: &Arc<str>, batch: RecordBatch) -> Result<(), ExportError> {
        // In turns: tables that come one after the other are about as long.
        let turn = self.tables.len() % self.encoders.len().max(1);
        let at = *self.tables.entry(Arc::clone(table)).or_insert(turn);
        let place = Room::take(&self.room, batch.get_array_memory_size());
        self.send(at, Message::Rows { table: Arc::clone(table), batch, place })
    }

    /// Ends the day: what comes is of the next one.
    pub(super) fn day(&mut self, next: &str) -> Result<(), ExportError> {
        (0..self.encoders.len()).try_for_each(|at| self.send(at, Message::Day(next.to_owned())))
    }

    /// Waits until all is written.
    pub(super) fn finish(&mut self) -> Result<(), ExportError> {
        let mut written = Ok(());
        // All senders go before the first thread is waited for.
        let threads: Vec<_> = self.encoders.drain(..).map(|encoder| encoder.thread).collect();
        for thread in threads {
            match thread.join() {
                Ok(own) => written = written.and(own),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        written
    }

    fn send(&mut self, at: usize, message: Message) -> Result<(), ExportError> {
        match self.encoders.get(at).map(|encoder| encoder.sender.send(message)) {
            Some(Ok(())) => Ok(()),
            // It has ended, which it does because of an error only.
            _ => self.finish(),
        }
    }
}

/// How many bytes of rows are handed over and not yet encoded.
#[derive(Default)]
struct Room {
    used: Mutex<usize>,
    freed: Condvar,
}

/// Some of them, which are given back with it.
struct Place {
    room: Arc<Room>,
    bytes: usize,
}

impl Room {
    /// Waits until there is room for so many; what is larger than all room is alone in it.
    fn take(room: &Arc<Room>, bytes: usize) -> Place {
        let used = room.used.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |used: &mut usize| *used > 0 && used.saturating_add(bytes) > AHEAD;
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
}

/// The parts of a table.
struct Table {
    /// The one that is being written.
    writer: ArrowWriter<Sink>,
    schema: SchemaRef,
    part: usize,
}

impl Files {
    fn run(mut self, receiver: Receiver<Message>) -> Result<(), ExportError> {
        while let Ok(message) = receiver.recv() {
            match message {
                Message::Rows { table, batch, place } => {
                    self.rows(&table, &batch)?;
                    drop(place);
                }
                Message::Day(next) => {
                    self.end()?;
                    self.day = next;
                }
            }
        }
        self.end()
    }

    fn rows(&mut self, name: &Arc<str>, batch: &RecordBatch) -> Result<(), ExportError> {
        let failed = |error| ExportError::Parquet { path: PathBuf::from(&**name), error };
        let part = match self.open.remove(name) {
            Some(table) if table.schema == batch.schema() => {
                self.open.insert(Arc::clone(name), table);
                None
            }
            Some(table) => {
                let next = table.part + 1;
                close(name, table)?;
                Some(next)
            }
            None => Some(0),
        };
        if let Some(part) = part {
            let sink = self.store.begin(&self.path(name, part));
            let writer = ArrowWriter::try_new(sink, batch.schema(), properties(batch)).map_err(failed)?;
            self.open.insert(Arc::clone(name), Table { writer, schema: batch.schema(), part });
        }
        let Some(table) = self.open.get_mut(name) else { return Ok(()) };
        table.writer.write(batch).and_then(|()| table.writer.flush()).map_err(failed)?;
        self.spill()
    }

    /// Moves the longest files out of memory while all together are too much.
    fn spill(&mut self) -> Result<(), ExportError> {
        let mut held: usize = self.open.values().map(|table| table.writer.inner().held()).sum();
        while held > self.most {
            let Some((name, table)) =
                self.open.iter_mut().max_by_key(|(_, table)| table.writer.inner().held())
            else {
                break;
            };
            held -= table.writer.inner().held();
            // What the writer itself has buffered goes first, lest bytes change their order.
            table.writer.sync().map_err(ExportError::write(&PathBuf::from(&**name)))?;
            table.writer.inner_mut().spill().map_err(ExportError::write(&PathBuf::from(&**name)))?;
        }
        Ok(())
    }

    /// Makes all files whole, and removes parts that an earlier export had.
    fn end(&mut self) -> Result<(), ExportError> {
        for (name, table) in std::mem::take(&mut self.open) {
            let mut next = table.part + 1;
            close(&name, table)?;
            while self.store.remove(&self.path(&name, next))? {
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

fn close(name: &str, table: Table) -> Result<(), ExportError> {
    let failed = |error| ExportError::Parquet { path: PathBuf::from(name), error };
    table.writer.into_inner().map_err(failed)?.finish()
}

/// How columns are encoded: text in dictionaries, whole numbers by their differences, which for counters are small.
fn properties(batch: &RecordBatch) -> Option<WriterProperties> {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_created_by(concat!("jumpseat ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_max_row_group_row_count(None);
    for field in batch.schema().fields() {
        let column = ColumnPath::from(vec![field.name().clone()]);
        let data_type = field.data_type();
        if matches!(data_type, arrow_schema::DataType::Dictionary(..)) {
            properties = properties.set_column_dictionary_enabled(column, true);
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

    #[test]
    fn who_hands_over_waits_for_room_and_what_is_too_large_is_alone() {
        let room = Arc::new(Room::default());
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
