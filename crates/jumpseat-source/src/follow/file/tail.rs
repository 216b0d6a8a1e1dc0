//! One open file and where reading it got to.

use std::fmt;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::unistd::{Whence, lseek};

use super::positions::{self, Position, START};
use crate::follow::lines::Splitter;
use crate::follow::stream::{Chunk, Format, Sink, Stream};
use crate::lanes::{Numbered, StreamId};

/// Most bytes of a turn, besides an incomplete line.
pub(super) const TURN: usize = 256 * 1024;

/// Bits of a number for an offset; those above it are for how often the file was begun anew.
const GENERATION: u32 = 48;
const OFFSET: u64 = (1 << GENERATION) - 1;

/// What tells a file from all others that exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileId {
    /// Device number.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
}

impl FileId {
    /// Of what `stat(2)` says.
    pub(super) fn of(meta: &Metadata) -> FileId {
        FileId { dev: meta.dev(), ino: meta.ino() }
    }
}

/// Whether a file's name still leads to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It does.
    Here,
    /// There is another file of its name, since then.
    Replaced(Instant),
    /// There is none, since then.
    Gone(Instant),
}

/// Where reading is, and was when everything read had been handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// Offset of the first byte that is not consumed.
    pub offset: u64,
    /// Number of the line before it.
    pub line: u64,
    /// It is within a line that is too long.
    pub skipping: bool,
}

/// What a turn has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// There is more to read.
    More,
    /// Everything was read, but for an incomplete line.
    Drained,
    /// The file cannot be read any more.
    Broken,
}

/// A file that is followed.
#[derive(Debug)]
pub(super) struct Tail {
    /// Number of its table.
    pub table: usize,
    /// Where it was seen last.
    pub path: PathBuf,
    /// Which file it is.
    pub id: FileId,
    file: File,
    /// Where its lines go.
    pub stream: Stream,
    /// Offset of the first byte not consumed.
    pub offset: u64,
    /// What was handed over.
    pub handed: Mark,
    /// What will have been handed over before long.
    pub noted: Option<Mark>,
    /// Its length when it was looked at last.
    pub size: u64,
    /// Its first bytes, of those that were consumed.
    start: Vec<u8>,
    /// When it was seen to grow last.
    pub grown: Instant,
    /// Whether its name leads to it.
    pub fate: Fate,
    /// The file of the same name before it, which is read to its end first.
    pub after: Option<FileId>,
    /// It is among those that have a turn next.
    pub queued: bool,
    /// Everything was read at its last turn, but for an incomplete line.
    pub drained: bool,
    /// How often what is in it was begun anew, as far as is known; `None` as long as it is not known what to call it.
    stream_of: Option<(StreamId, u64)>,
    /// It was cut short since.
    is_cut: bool,
    /// Lines of a record that waits for more, with tables that have such: they are gone from the file if that is cut short.
    waiting: Vec<u8>,
    /// Such lines, of before it was cut short.
    orphan: Option<Orphan>,
}

/// Lines that are in no file any more.
#[derive(Debug)]
struct Orphan {
    bytes: Vec<u8>,
    numbers: Option<Numbered>,
    splitter: Splitter,
}

/// Whether the file begins with what a position says of it.
pub(super) fn is_same(file: &File, meta: &Metadata, position: &Position) -> bool {
    let mut start = [0; START];
    let Some(start) = start.get_mut(..position.start) else { return false };
    position.ino == meta.ino()
        && meta.len() >= position.offset
        && file.read_exact_at(start, 0).is_ok()
        && positions::hash(start) == position.hash
}

impl Tail {
    /// A file from `mark` on.
    pub(super) fn new(
        table: usize,
        path: PathBuf,
        file: File,
        meta: &Metadata,
        stream: Stream,
        mark: Mark,
    ) -> Tail {
        let mut tail = Tail {
            table,
            path,
            id: FileId::of(meta),
            file,
            stream: Stream { splitter: Splitter::resume(mark.line, mark.skipping), ..stream },
            offset: mark.offset,
            handed: mark,
            noted: None,
            size: meta.len(),
            start: Vec::new(),
            grown: Instant::now(),
            fate: Fate::Here,
            after: None,
            queued: false,
            drained: false,
            stream_of: None,
            is_cut: false,
            waiting: Vec::new(),
            orphan: None,
        };
        tail.learn_start();
        tail
    }

    /// The open file.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Where reading is.
    pub(super) fn mark(&self) -> Mark {
        let Splitter { line, skipping, .. } = self.stream.splitter;
        Mark { offset: self.offset, line, skipping }
    }

    /// What to keep of it over a restart.
    pub(super) fn position(&self, table: &str) -> Position {
        // The beginning may not be longer than what was handed over: it may change up to there.
        let start = self.start.len().min(usize::try_from(self.handed.offset).unwrap_or(START));
        Position {
            table: table.to_owned(),
            path: self.path.clone(),
            dev: self.id.dev,
            ino: self.id.ino,
            offset: self.handed.offset,
            line: self.handed.line,
            skipping: self.handed.skipping,
            start,
            hash: positions::hash(&self.start[..start]),
            seen: 0,
        }
    }

    /// Reads once, and takes the lines in. `buffer` holds a line of any allowed length and [`TURN`] bytes more.
    pub(super) fn turn(&mut self, format: &mut Format, sink: &mut Sink, buffer: &mut [u8]) -> Turn {
        if self.look(sink).is_err() {
            return Turn::Broken;
        }
        self.take_orphan(format, sink);
        self.number(sink);
        let read = match self.file.read_at(buffer, self.offset) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Turn::More,
            Err(error) => {
                tracing::error!("{}: cannot read: {error}", self.path.display());
                return Turn::Broken;
            }
        };
        if buffer[..read].first() == Some(&0) {
            self.skip_hole(&buffer[..read], sink);
            return Turn::More;
        }
        let place = Place { path: &self.path, offset: self.offset };
        let used = self.stream.take(Chunk::now(&buffer[..read]), format, sink, &place);
        self.offset += used as u64;
        if self.start.len() < START && used > 0 {
            self.learn_start();
        }
        // A file system may give less than there is.
        self.drained =
            !sink.lanes.is_stuck() && (read == 0 || self.offset + (read - used) as u64 >= self.size);
        self.waiting.clear();
        if format.join.is_some() && self.drained {
            self.waiting.extend_from_slice(&buffer[used..read]);
        }
        if self.drained { Turn::Drained } else { Turn::More }
    }

    /// Numbers its bytes, so that what the log has of it already does not come again: by its offsets, and by how often it was
    /// begun anew. What tells it from other files is its first line, besides its number; that of a file without a whole
    /// line is not known yet.
    fn number(&mut self, sink: &mut Sink) {
        if self.stream_of.is_none() {
            self.stream_of = self.identify(sink);
        }
        self.stream.numbers = self.numbers();
    }

    /// The number of the byte where reading is.
    fn numbers(&self) -> Option<Numbered> {
        let (stream, generation) = self.stream_of?;
        Some(Numbered { stream, number: (generation << GENERATION) | (self.offset & OFFSET) })
    }

    fn identify(&mut self, sink: &mut Sink) -> Option<(StreamId, u64)> {
        let mut start = [0; START];
        let read = self.file.read_at(&mut start, 0).ok()?;
        let line = start[..read].iter().position(|byte| *byte == b'\n');
        let line = line.or((read == START).then_some(START))?;
        let FileId { dev, ino } = self.id;
        let name = format!("file:{dev}:{ino}:{:x}", positions::hash(&start[..line]));
        let stream = sink.lanes.stream(name.as_bytes());
        let reached = sink.lanes.reached(self.stream.lane, stream);
        let (generation, offset) = (reached >> GENERATION, reached & OFFSET);
        if reached == 0 {
            return Some((stream, 0));
        }
        // It is shorter than what has been read of it: others have the offsets now.
        if std::mem::take(&mut self.is_cut) || offset > self.size {
            return Some((stream, generation + 1));
        }
        // The log has lost what was read last, with the power: it is read again.
        if offset < self.offset {
            tracing::info!(offset, "{}: reading again what the log does not have", self.path.display());
            self.offset = offset;
            self.stream.splitter = Splitter::resume(self.stream.splitter.line, false);
        }
        Some((stream, generation))
    }

    /// Passes over NULs: a file that was truncated under its writer begins with a hole, which reads as such, of any length.
    /// What the file system knows to be a hole costs one call, whatever its length; the rest is read.
    fn skip_hole(&mut self, read: &[u8], sink: &mut Sink) {
        let zeros = read.iter().position(|byte| *byte != 0).unwrap_or(read.len());
        let begin = self.offset;
        let behind = begin + zeros as u64;
        if zeros < read.len() {
            self.offset = behind;
            if !self.stream.splitter.skipping {
                self.stream.repaired(sink);
            }
        } else {
            self.offset = match lseek(&self.file, i64::try_from(behind).unwrap_or(i64::MAX), Whence::SeekData)
            {
                Ok(data) => behind.max(u64::try_from(data).unwrap_or_default()),
                // Nothing but a hole up to the end.
                Err(Errno::ENXIO) => behind.max(self.size),
                // A file system that does not know.
                Err(_) => behind,
            };
        }
        if self.stream.splitter.skipping {
            // A part of the line that is too long, which counts as it does without a hole.
            let skipped = usize::try_from(self.offset - begin).unwrap_or(usize::MAX);
            sink.lanes.bytes(self.stream.lane, skipped);
        }
        self.stream.splitter.rescan();
        self.drained = false;
    }

    /// Takes a last line without a newline, as there is no more to come of it.
    pub(super) fn finish_line(&mut self, format: &mut Format, sink: &mut Sink, buffer: &mut [u8]) {
        if !self.has_partial() {
            return;
        }
        let room = buffer.len().min(format.longest());
        let Ok(read) = self.file.read_at(&mut buffer[..room], self.offset) else { return };
        self.number(sink);
        let place = Place { path: &self.path, offset: self.offset };
        self.stream.last(Chunk::now(&buffer[..read]), format, sink, &place);
        self.offset += read as u64;
        self.waiting.clear();
    }

    /// Takes the record that waits for more lines.
    pub(super) fn end_record(&mut self, format: &mut Format, sink: &mut Sink) {
        self.number(sink);
        let place = Place { path: &self.path, offset: self.offset };
        let used = self.stream.end_record(Chunk::now(&self.waiting), format, sink, &place);
        self.offset += used as u64;
        self.waiting.drain(..used);
    }

    /// Whether a record waits for more lines.
    pub(super) fn has_open_record(&self) -> bool {
        self.drained && self.stream.splitter.has_open_record() && !self.waiting.is_empty()
    }

    /// Takes the lines that waited when the file was cut short: what would have followed them is not in it any more.
    fn take_orphan(&mut self, format: &mut Format, sink: &mut Sink) {
        let Some(Orphan { bytes, numbers, splitter }) = self.orphan.take() else { return };
        let after = std::mem::replace(&mut self.stream.splitter, splitter);
        self.stream.numbers = numbers;
        let place = Place { path: &self.path, offset: numbers.map_or(0, |first| first.number & OFFSET) };
        self.stream.last(Chunk::now(&bytes), format, sink, &place);
        self.stream.splitter = after;
    }

    /// Whether there is an incomplete line.
    pub(super) fn has_partial(&self) -> bool {
        self.drained && self.size > self.offset
    }

    /// Looks at the file's length and beginning: what was cut short is read from its beginning on.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn look(&mut self, sink: &Sink) -> io::Result<()> {
        let size = self.file.metadata()?.len();
        if size < self.offset || !self.begins_as_before() {
            let unread = self.size.saturating_sub(self.offset + self.waiting.len() as u64);
            tracing::info!(
                offset = self.offset,
                size,
                unread,
                "{}: was truncated; reading it from its beginning",
                self.path.display()
            );
            sink.stats.truncations.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if !self.waiting.is_empty() {
                let bytes = std::mem::take(&mut self.waiting);
                self.orphan = Some(Orphan { bytes, numbers: self.numbers(), splitter: self.stream.splitter });
            }
            self.offset = 0;
            self.drained = false;
            (self.stream_of, self.is_cut) = (None, true);
            self.noted = None;
            self.start.clear();
            self.stream.splitter = Splitter::default();
            self.grown = Instant::now();
        } else if size != self.size {
            self.grown = Instant::now();
        }
        self.drained &= size == self.size;
        self.size = size;
        Ok(())
    }

    /// When it was seen to have grown last.
    pub(super) fn grown(&self) -> Instant {
        self.grown
    }

    /// How long it has not grown, at `now`.
    pub(super) fn quiet(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.grown)
    }

    fn begins_as_before(&self) -> bool {
        let mut start = [0; START];
        let Some(start) = start.get_mut(..self.start.len()) else { return false };
        // What cannot be read now will tell in the turn.
        self.file.read_exact_at(start, 0).map_or(true, |()| *start == *self.start)
    }

    fn learn_start(&mut self) {
        let length = START.min(usize::try_from(self.offset).unwrap_or(START));
        let mut start = [0; START];
        if let Some(start) = start.get_mut(..length)
            && self.file.read_exact_at(start, 0).is_ok()
        {
            self.start.clear();
            self.start.extend_from_slice(start);
        }
    }
}

/// Where lines are from, for messages.
struct Place<'a> {
    path: &'a Path,
    /// Where the read that gave them began.
    offset: u64,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (read at offset {})", self.path.display(), self.offset)
    }
}
