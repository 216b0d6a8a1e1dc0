//! Files of all tables: finding them, taking turns, rotation, positions.
//!
//! Names are looked at once a second, and at once when inotify says so. A file is known by device and inode number, so
//! that one that was renamed is read on, whatever it is called. When a name leads to another file, the old one is read to
//! its end before the new one begins, and is followed for a while longer, as its writer may not have noticed yet.
//! A file that is shorter than what was read of it, or begins otherwise, was truncated: it is read from its beginning.
//!
//! **Cost:** a turn is three system calls (`fstat`, the first 256 bytes, up to 256 KiB of lines) for a file that grew;
//! once a second one `stat` for each file. Nothing of a file is held in memory: an incomplete line is read again. Only of a
//! record that waits for more lines there is a copy, of `max_bytes` at most, in case the file is truncated meanwhile.

mod find;
mod lack;
mod positions;
mod tail;
mod watch;

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::StartError;
use super::config::{FileConfig, source_of};
use super::lines::{Join, Parser};
use super::stats::Phase;
use super::stream::{Format, Sink, Stream};
use crate::Origin;
use pcp_net::Limiter;

pub use find::look;
use lack::Found;
pub(super) use positions::Positions;
use tail::{Fate, FileId, TURN, Tail, Turn};

/// How often names and lengths are looked at, whatever inotify says.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a file without changes is followed after another has taken its name.
const REPLACED: Duration = Duration::from_secs(30);
/// The same for one that was deleted: as long as it is open, it takes up space.
const DELETED: Duration = Duration::from_secs(5);
/// The same for one that has gone where no table leads.
const MOVED: Duration = Duration::from_secs(3600);

struct Table {
    config: FileConfig,
    /// What the table is known by over restarts.
    key: String,
    format: Format,
    /// The source of all its files, unless each has its own.
    stream: Option<Stream>,
    /// An earlier run had it: files that have no position are new.
    known: bool,
    files: usize,
    /// No look was made yet.
    first: bool,
    /// It was told that there are more files than allowed.
    full: bool,
    /// Whether there was any.
    found: Found,
}

/// The files of all tables.
pub(super) struct Files {
    tables: Vec<Table>,
    tails: Vec<Option<Tail>>,
    by_id: FxHashMap<(usize, FileId), usize>,
    ready: VecDeque<usize>,
    /// Those that have read what is not handed over yet.
    ahead: Vec<usize>,
    watcher: watch::Watcher,
    positions: Positions,
    /// Room for one turn.
    buffer: Vec<u8>,
    next_look: Instant,
    /// When a record of several lines may have waited long enough for the next.
    record_due: Option<Instant>,
    /// Not before this, whatever inotify says.
    earliest: Instant,
    wanted: bool,
    report: Limiter,
}

impl Files {
    /// The tables' files, none of them looked for yet.
    ///
    /// # Errors
    /// [`StartError`]: a table's source cannot be.
    pub(super) fn new(
        configs: &[FileConfig],
        positions: Positions,
        sink: &mut Sink,
    ) -> Result<Files, StartError> {
        let one = |config: &FileConfig| Table::new(config, &positions, sink);
        let tables = configs.iter().map(one).collect::<Result<Vec<Table>, _>>()?;
        let now = Instant::now();
        Ok(Files {
            tails: Vec::new(),
            by_id: FxHashMap::default(),
            ready: VecDeque::new(),
            ahead: Vec::new(),
            watcher: watch::Watcher::new(),
            positions,
            buffer: vec![0; room(&tables)],
            tables,
            next_look: now,
            record_due: None,
            earliest: now,
            wanted: false,
            report: Limiter::new(5, Duration::from_secs(10)),
        })
    }

    /// Follows what other tables say. Those that are the same go on as if nothing had happened; the files of the others
    /// are closed where everything was handed over up to, and opened there again if a table with the same name has them.
    pub(super) fn reconfigure(&mut self, configs: &[FileConfig], sink: &mut Sink) {
        let is_gone = |table: &Table| !configs.contains(&table.config);
        for number in 0..self.tails.len() {
            if self.tails[number].as_ref().is_some_and(|tail| is_gone(&self.tables[tail.table])) {
                self.close(number, true);
            }
        }
        for stream in self.tables.iter().filter(|table| is_gone(table)).filter_map(|table| table.stream) {
            sink.stats.ended(stream.slot);
        }
        let mut before: Vec<Option<Table>> = self.tables.drain(..).map(Some).collect();
        let mut moved: FxHashMap<usize, usize> = FxHashMap::default();
        for config in configs {
            let same = |table: &Option<Table>| table.as_ref().is_some_and(|table| table.config == *config);
            match before.iter().position(same) {
                Some(number) => {
                    moved.insert(number, self.tables.len());
                    self.tables.extend(before[number].take());
                }
                None => match Table::new(config, &self.positions, sink) {
                    Ok(table) => self.tables.push(table),
                    Err(error) => self.complain(&config.path, &error, sink),
                },
            }
        }
        self.by_id.clear();
        for (number, tail) in self.tails.iter_mut().enumerate() {
            let Some(tail) = tail else { continue };
            // Those of tables that are gone were closed.
            tail.table = moved.get(&tail.table).copied().unwrap_or_default();
            self.by_id.insert((tail.table, tail.id), number);
        }
        self.buffer.resize(room(&self.tables).max(self.buffer.len()), 0);
        self.positions.dirty = true;
        self.next_look = Instant::now();
    }

    /// What to poll for notifications.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.watcher.fd()
    }

    /// Takes notifications.
    pub(super) fn notified(&mut self) {
        let news = self.watcher.read();
        self.wanted |= news.names;
        for number in news.files {
            self.enqueue(number);
        }
    }

    /// Whether some file may have something to read.
    pub(super) fn has_work(&self) -> bool {
        !self.ready.is_empty()
    }

    /// When to look next; `None` without any table.
    pub(super) fn next_look(&self) -> Option<Instant> {
        let next = if self.wanted { self.earliest.min(self.next_look) } else { self.next_look };
        (!self.tables.is_empty()).then_some(next)
    }

    /// When [`Files::end_records`] has something to do.
    pub(super) fn record_due(&self) -> Option<Instant> {
        self.record_due
    }

    /// The positions file, for journals.
    pub(super) fn positions(&mut self) -> &mut Positions {
        &mut self.positions
    }

    /// One read for each file that may have something, as long as the core has room.
    pub(super) fn round(&mut self, sink: &mut Sink) {
        for _ in 0..self.ready.len() {
            if sink.lanes.is_stuck() {
                return;
            }
            let Some(number) = self.ready.pop_front() else { return };
            if let Some(tail) = self.tails.get_mut(number).and_then(Option::as_mut) {
                tail.queued = false;
                self.turn(number, sink);
            }
        }
    }

    /// Everything that was read has been handed over.
    pub(super) fn handed(&mut self) {
        self.positions.dirty |= !self.ahead.is_empty();
        for number in self.ahead.drain(..) {
            if let Some(Some(tail)) = self.tails.get_mut(number) {
                tail.handed = tail.mark();
                tail.noted = None;
            }
        }
    }

    /// Notes where reading is: it will be kept when everything before it has left.
    pub(super) fn note(&mut self) {
        for tail in self.tails.iter_mut().flatten() {
            tail.noted = Some(tail.mark());
        }
    }

    /// Everything up to the note has been handed over.
    pub(super) fn handed_as_noted(&mut self) {
        for tail in self.tails.iter_mut().flatten() {
            if let Some(mark) = tail.noted.take() {
                tail.handed = mark;
                self.positions.dirty = true;
            }
        }
    }

    /// Writes the positions.
    pub(super) fn save(&mut self, sink: &Sink) {
        let tables = self.tables.iter().map(|table| table.key.clone()).collect();
        let position = |tail: &Tail| tail.position(&self.tables[tail.table].key);
        let files = self.tails.iter().flatten().map(position).collect();
        match self.positions.save(tables, files) {
            true => sink.stats.saves.fetch_add(1, Ordering::Relaxed),
            false => sink.stats.errors.fetch_add(1, Ordering::Relaxed),
        };
    }

    /// Looks at all names and lengths, if it is time to.
    pub(super) fn look(&mut self, sink: &mut Sink) {
        let begin = Instant::now();
        if self.next_look().is_none_or(|next| next > begin) {
            return;
        }
        self.wanted = false;
        for table in 0..self.tables.len() {
            self.find(table, begin, sink);
        }
        let lacking = self.tables.iter().filter(|table| table.found == Found::Nothing).count();
        sink.stats.unmatched.store(lacking as u64, Ordering::Relaxed);
        self.check(begin, sink);
        for table in &mut self.tables {
            // From now on it is known, with or without files.
            self.positions.dirty |= std::mem::take(&mut table.first);
        }
        let cost = begin.elapsed();
        self.next_look = begin + LOOK_EVERY.max(cost * 20);
        self.earliest = begin + cost * 10;
    }

    /// Tells the account of each source how it stands.
    pub(super) fn account(&self, sink: &Sink, held: bool) {
        let mut sums: FxHashMap<usize, (u32, u64)> = FxHashMap::default();
        for stream in self.tables.iter().filter_map(|table| table.stream) {
            sums.insert(stream.slot, (0, 0));
        }
        for tail in self.tails.iter().flatten() {
            let sum = sums.entry(tail.stream.slot).or_default();
            sum.0 += 1;
            sum.1 += tail.size.saturating_sub(tail.handed.offset);
        }
        for (slot, (files, behind)) in sums {
            let Some(stats) = sink.stats.slot(slot) else { continue };
            stats.files.store(files, Ordering::Relaxed);
            stats.behind.store(behind, Ordering::Relaxed);
            stats.set_phase(match files {
                0 => Phase::Waiting,
                _ if held && behind > 0 => Phase::Held,
                _ => Phase::Following,
            });
        }
    }

    fn enqueue(&mut self, number: usize) {
        if let Some(Some(tail)) = self.tails.get_mut(number)
            && !std::mem::replace(&mut tail.queued, true)
        {
            self.ready.push_back(number);
        }
    }

    fn turn(&mut self, number: usize, sink: &mut Sink) {
        if self.waits_for_another(number, sink) {
            return;
        }
        let Files { tails, tables, buffer, ahead, .. } = self;
        let Some(Some(tail)) = tails.get_mut(number) else { return };
        let turn = tail.turn(&mut tables[tail.table].format, sink, buffer);
        if tail.mark() != tail.handed {
            ahead.push(number);
        }
        if tail.has_open_record()
            && let Some(join) = &tables[tail.table].format.join
        {
            let due = tail.grown() + join.timeout;
            self.record_due = Some(self.record_due.map_or(due, |other| other.min(due)));
        }
        match turn {
            Turn::More => self.enqueue(number),
            Turn::Drained => {}
            Turn::Broken => {
                sink.stats.error();
                self.close(number, true);
            }
        }
    }

    /// Whether another file of the name has to be read to its end before. If it has been, its last line is taken.
    fn waits_for_another(&mut self, number: usize, sink: &mut Sink) -> bool {
        let Some(Some(tail)) = self.tails.get_mut(number) else { return true };
        let Some(before) = tail.after else { return false };
        // Until it has something to read, the one before may still get the rest of its last line.
        if tail.look(sink).is_ok() && tail.size == 0 {
            return true;
        }
        let key = (tail.table, before);
        let other = self.by_id.get(&key).copied();
        match other.and_then(|other| self.tails.get(other)?.as_ref().map(|tail| (other, tail.drained))) {
            Some((other, false)) => {
                self.enqueue(other);
                self.enqueue(number);
                true
            }
            found => {
                if let Some((other, _)) = found {
                    self.finish_line(other, sink);
                }
                if let Some(Some(tail)) = self.tails.get_mut(number) {
                    tail.after = None;
                }
                false
            }
        }
    }

    fn finish_line(&mut self, number: usize, sink: &mut Sink) {
        let Files { tails, tables, buffer, ahead, .. } = self;
        if let Some(Some(tail)) = tails.get_mut(number) {
            tail.finish_line(&mut tables[tail.table].format, sink, buffer);
            if tail.mark() != tail.handed {
                ahead.push(number);
            }
        }
    }

    /// Ends records of several lines that no further one has come to for so long.
    pub(super) fn end_records(&mut self, now: Instant, sink: &mut Sink) {
        if self.record_due.is_none_or(|due| due > now) {
            return;
        }
        self.record_due = None;
        for number in 0..self.tails.len() {
            self.end_record(number, now, sink);
        }
    }

    fn end_record(&mut self, number: usize, now: Instant, sink: &mut Sink) {
        let Some(Some(tail)) = self.tails.get_mut(number) else { return };
        if !tail.has_open_record() {
            return;
        }
        // What has come meanwhile belongs to it, however late it is read.
        if tail.look(sink).is_err() || !tail.drained {
            self.enqueue(number);
            return;
        }
        let Files { tails: _, tables, ahead, record_due, .. } = self;
        let format = &mut tables[tail.table].format;
        let due = format.join.as_ref().map_or(now, |join| tail.grown() + join.timeout);
        if due > now {
            *record_due = Some(record_due.map_or(due, |other| other.min(due)));
            return;
        }
        tail.end_record(format, sink);
        if tail.mark() != tail.handed {
            ahead.push(number);
        }
    }

    /// Goes through the open files: what has grown is read, what has ended is closed.
    fn check(&mut self, now: Instant, sink: &mut Sink) {
        for number in 0..self.tails.len() {
            let Some(Some(tail)) = self.tails.get_mut(number) else { continue };
            if tail.look(sink).is_ok() && tail.drained {
                let quiet = tail.quiet(now);
                let Table { config, format, .. } = &self.tables[tail.table];
                // The rest may be lines of a record that waits longer.
                let timeout = format.join.as_ref().map_or(Duration::ZERO, |join| join.timeout);
                let partial = Duration::from_millis(config.partial_ms).max(timeout);
                let deleted = || tail.file().metadata().is_ok_and(|meta| meta.nlink() == 0);
                let over = match tail.fate {
                    Fate::Here => None,
                    Fate::Replaced(since) => Some((since, REPLACED)),
                    Fate::Gone(since) if deleted() => Some((since, DELETED)),
                    Fate::Gone(since) => Some((since, MOVED)),
                };
                let over =
                    over.filter(|(since, wait)| quiet.min(now.saturating_duration_since(*since)) >= *wait);
                let finish = tail.has_partial() && (quiet >= partial || over.is_some());
                let known_on = matches!(tail.fate, Fate::Gone(_)) && !deleted();
                if finish {
                    self.finish_line(number, sink);
                }
                // What is not handed over yet is closed with a later look.
                if over.is_some() && !finish && !self.ahead.contains(&number) {
                    self.close(number, known_on);
                }
            } else {
                self.enqueue(number);
            }
        }
    }

    /// Stops following a file. `keep`: its position is kept, should it come back.
    fn close(&mut self, number: usize, keep: bool) {
        let Some(tail) = self.tails.get_mut(number).and_then(Option::take) else { return };
        self.watcher.forget(number);
        self.by_id.remove(&(tail.table, tail.id));
        let table = &mut self.tables[tail.table];
        table.files -= 1;
        if keep {
            self.positions.waiting.push(tail.position(&table.key));
        }
        self.ahead.retain(|other| *other != number);
        self.positions.dirty = true;
        tracing::info!(offset = tail.offset, "{}: no longer followed", tail.path.display());
    }

    #[cold]
    fn complain(&mut self, path: &Path, error: &dyn std::fmt::Display, sink: &Sink) {
        sink.stats.error();
        if let Some(held_back) = self.report.allow(Instant::now()) {
            tracing::error!(held_back, "{}: cannot follow: {error}", path.display());
        }
    }
}

impl Table {
    /// None of its files looked for yet.
    fn new(config: &FileConfig, positions: &Positions, sink: &mut Sink) -> Result<Table, StartError> {
        let key = format!("{} {}", config.path.display(), config.source.as_deref().unwrap_or_default());
        let parser = Parser::new(&config.reading()).map_err(StartError::Format)?;
        let name = match &config.source {
            Some(name) => Some(name.clone()),
            None if config.is_pattern() => None,
            None => Some(source_of(&config.path)),
        };
        let stream = match name {
            Some(name) => Some(stream(sink, &name, &config.path)?),
            None => None,
        };
        let join = config.multiline.as_ref().map(Join::new).transpose().map_err(StartError::Format)?;
        Ok(Table {
            known: positions.knows(&key),
            format: Format { parser, limits: config.limits(), join },
            key,
            stream,
            config: config.clone(),
            files: 0,
            first: true,
            full: false,
            found: Found::default(),
        })
    }
}

/// Bytes for one turn of any file.
fn room(tables: &[Table]) -> usize {
    let longest = tables.iter().map(|table| table.format.longest()).max();
    longest.map_or(0, |longest| longest + 1 + TURN)
}

/// A source's stream, and what it is told about where it reads.
fn stream(sink: &mut Sink, name: &str, path: &Path) -> Result<Stream, StartError> {
    super::stream(sink, name, Origin { kind: "file", address: path.display().to_string(), service: None })
}
