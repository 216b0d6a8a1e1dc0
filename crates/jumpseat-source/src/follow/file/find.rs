//! From names to open files: patterns, rotation, and where to begin.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Instant;

use pcp_files::{FileProblem, Links, read_anyones};

use super::lack::{Found, Lack};
use super::positions::Position;
use super::tail::{Fate, FileId, Mark, Tail, is_same};
use super::{Files, Table, stream};
use crate::follow::config::{FileConfig, From, source_of};
use crate::follow::stream::{Sink, Stream};

/// The files that a table finds now.
///
/// # Errors
/// Why there are none.
pub fn look(config: &FileConfig) -> Result<Vec<PathBuf>, String> {
    let found: Vec<PathBuf> = paths(config).into_iter().flatten().filter(|path| path.exists()).collect();
    if found.is_empty() { Err(Lack::of(&config.path).to_string()) } else { Ok(found) }
}

/// The paths that a table's pattern stands for now, or the one that it names.
fn paths(config: &FileConfig) -> Vec<glob::GlobResult> {
    if !config.is_pattern() {
        return vec![Ok(config.path.clone())];
    }
    let options = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::new() };
    // Checked with the configuration: a pattern it is.
    let found = glob::glob_with(&config.path.to_string_lossy(), options).ok();
    found.into_iter().flatten().collect()
}

impl Files {
    /// Looks for the files of a table.
    pub(super) fn find(&mut self, table: usize, now: Instant, sink: &mut Sink) {
        let config = &self.tables[table].config;
        let mut met = Vec::new();
        let mut directories: Vec<PathBuf> = Vec::new();
        let mut directory = |path: &Path| {
            if let Some(parent) = path.parent()
                && directories.last().is_none_or(|last| last != parent)
            {
                directories.push(parent.to_owned());
            }
        };
        directory(&config.path);
        let paths = paths(config);
        let mut first = None;
        for path in paths {
            match path {
                Ok(path) => {
                    directory(&path);
                    if first.is_none() && fs::symlink_metadata(&path).is_ok() {
                        first = Some(path.clone());
                    }
                    met.extend(self.meet(table, path, now, sink));
                }
                Err(error) => self.complain(error.path(), error.error(), sink),
            }
        }
        directories.sort_unstable();
        directories.dedup();
        for directory in &directories {
            self.watcher.directory(directory);
        }
        self.tell(table, first.as_deref());
        met.sort_unstable();
        for (number, tail) in self.tails.iter_mut().enumerate() {
            if let Some(tail) = tail
                && tail.table == table
                && tail.fate == Fate::Here
                && met.binary_search(&number).is_err()
            {
                tail.fate = Fate::Gone(now);
            }
        }
    }

    /// Tells once that nothing was found for a table, and when something is: what a path or pattern should match, and does not,
    /// looks as a quiet log does.
    fn tell(&mut self, table: usize, first: Option<&Path>) {
        let Table { found, config, .. } = &mut self.tables[table];
        let pattern = config.path.display();
        match (*found, first) {
            (Found::Unknown, None) => {
                *found = Found::Nothing;
                tracing::warn!("{pattern}: matches nothing yet: {}", Lack::of(&config.path));
            }
            (Found::Nothing, Some(first)) => {
                *found = Found::Something;
                tracing::info!("{pattern}: matches {} now", first.display());
            }
            (Found::Unknown, Some(_)) => *found = Found::Something,
            (Found::Nothing, None) | (Found::Something, _) => {}
        }
    }

    /// Meets a path that is a table's: gives the number of its file, which is opened if it is new.
    fn meet(&mut self, table: usize, path: PathBuf, now: Instant, sink: &mut Sink) -> Option<usize> {
        let links = self.tables[table].config.links();
        let looked = match links {
            Links::Followed => fs::metadata(&path),
            Links::Refused => fs::symlink_metadata(&path),
        };
        let meta = match looked {
            Ok(meta) => meta,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            Err(error) => {
                self.complain(&path, &error, sink);
                return None;
            }
        };
        if let Some(&number) = self.by_id.get(&(table, FileId::of(&meta))) {
            if let Some(Some(tail)) = self.tails.get_mut(number) {
                tail.fate = Fate::Here;
                if tail.path != path {
                    tail.path = path;
                    self.positions.dirty = true;
                }
            }
            return Some(number);
        }
        let (file, meta) = match read_anyones(&path, links) {
            Ok(opened) => opened,
            Err(error) => {
                let link = matches!(error.problem, FileProblem::Link | FileProblem::LinkOnTheWay { .. });
                let advice =
                    if link { "; or set follow_links, if nobody else may make links there" } else { "" };
                self.complain(&path, &format_args!("{}{advice}", error.problem), sink);
                return None;
            }
        };
        let before = self.replaced(table, &path, now, sink);
        if self.is_full(table, &path, sink) {
            return None;
        }
        let stream = self.stream_of(table, &path, sink)?;
        let (mark, after) = self.begin(table, &path, &file, &meta, now, sink);
        let mut tail = Tail::new(table, path, file, &meta, stream, mark);
        tail.after = before.or(after);
        tracing::info!(offset = mark.offset, "{}: following", tail.path.display());
        Some(self.add(tail))
    }

    fn add(&mut self, tail: Tail) -> usize {
        let number = self.tails.iter().position(Option::is_none).unwrap_or_else(|| {
            self.tails.push(None);
            self.tails.len() - 1
        });
        self.watcher.file(tail.file(), number);
        self.by_id.insert((tail.table, tail.id), number);
        self.tables[tail.table].files += 1;
        self.tails[number] = Some(tail);
        self.positions.dirty = true;
        self.enqueue(number);
        number
    }

    /// Notes that the name leads to another file from now on; gives the one that had it.
    fn replaced(&mut self, table: usize, path: &Path, now: Instant, sink: &Sink) -> Option<FileId> {
        let had =
            |tail: &Tail| tail.table == table && tail.path == path && !matches!(tail.fate, Fate::Replaced(_));
        let number = self.tails.iter().position(|tail| tail.as_ref().is_some_and(had))?;
        let tail = self.tails[number].as_mut()?;
        tail.fate = Fate::Replaced(now);
        // What was written between its last turn and now must not be missed.
        tail.drained = false;
        let id = tail.id;
        sink.stats.rotations.fetch_add(1, Ordering::Relaxed);
        tracing::info!("{}: was replaced", path.display());
        self.enqueue(number);
        Some(id)
    }

    fn is_full(&mut self, table: usize, path: &Path, sink: &Sink) -> bool {
        let max = self.tables[table].config.max_files;
        let open = self.tables[table].files;
        // Those whose name another file has by now are over soon; yet there is a limit to them, too.
        let replaced = |tail: &&Tail| tail.table == table && matches!(tail.fate, Fate::Replaced(_));
        let full = open >= max && {
            let replaced = self.tails.iter().flatten().filter(replaced).count();
            open - replaced >= max || open >= 2 * max
        };
        let table = &mut self.tables[table];
        if !full {
            table.full = false;
            return false;
        }
        if !std::mem::replace(&mut table.full, true) {
            sink.stats.error();
            let pattern = table.config.path.display();
            tracing::error!(
                "{}: not followed: {pattern} matches more than {max} files; raise max_files",
                path.display()
            );
        }
        true
    }

    /// Where to begin with a file that is not open yet, and which one to read before it.
    fn begin(
        &mut self,
        table: usize,
        path: &Path,
        file: &fs::File,
        meta: &fs::Metadata,
        now: Instant,
        sink: &mut Sink,
    ) -> (Mark, Option<FileId>) {
        let Table { key, known, first, config, .. } = &self.tables[table];
        let waiting = &mut self.positions.waiting;
        let is_own = |position: &Position| position.table == *key && is_same(file, meta, position);
        // Device numbers may change when the machine starts again; then the path must be the same.
        let same = |position: &Position| position.dev == meta.dev() || position.path == path;
        if let Some(found) = waiting.iter().position(|position| same(position) && is_own(position)) {
            return (mark_of(&waiting.swap_remove(found)), None);
        }
        if let Some(found) =
            waiting.iter().position(|position| position.table == *key && position.path == path)
        {
            let position = waiting.swap_remove(found);
            return (Mark::default(), self.adopt(table, &position, now, sink));
        }
        let old = *first && !known;
        let mark = match config.from {
            From::End if old => Mark { offset: last_line(file, meta.len()), ..Mark::default() },
            _ => Mark::default(),
        };
        (mark, None)
    }

    /// Looks next to a path for the file that had it when the agent ran last, to read the rest of it.
    fn adopt(&mut self, table: usize, position: &Position, now: Instant, sink: &mut Sink) -> Option<FileId> {
        let links = self.tables[table].config.links();
        let entries = fs::read_dir(position.path.parent()?).ok()?;
        let (file, meta, path) = entries.flatten().find_map(|entry| {
            // Of most files the entry itself tells that they are not it.
            use std::os::unix::fs::DirEntryExt;
            if entry.ino() != position.ino {
                return None;
            }
            let (file, meta) = read_anyones(&entry.path(), links).ok()?;
            is_same(&file, &meta, position).then(|| (file, meta, entry.path()))
        })?;
        let id = FileId::of(&meta);
        if self.by_id.contains_key(&(table, id)) {
            return Some(id);
        }
        let stream = self.stream_of(table, &position.path, sink)?;
        let mut tail = Tail::new(table, path, file, &meta, stream, mark_of(position));
        tail.fate = Fate::Replaced(now);
        tracing::info!(offset = tail.offset, "{}: reading the rest", tail.path.display());
        self.add(tail);
        Some(id)
    }

    /// The source of a file.
    fn stream_of(&mut self, table: usize, path: &Path, sink: &mut Sink) -> Option<Stream> {
        if let Some(stream) = self.tables[table].stream {
            return Some(stream);
        }
        match stream(sink, &source_of(path), path) {
            Ok(stream) => Some(stream),
            Err(error) => {
                self.complain(path, &error, sink);
                None
            }
        }
    }
}

fn mark_of(position: &Position) -> Mark {
    Mark { offset: position.offset, line: position.line, skipping: position.skipping }
}

/// Where the last line of a file begins that is not complete yet, or its end.
fn last_line(file: &fs::File, size: u64) -> u64 {
    use std::os::unix::fs::FileExt;
    const BACK: u64 = 64 * 1024;
    let from = size.saturating_sub(BACK);
    let mut bytes = vec![0; (size - from) as usize];
    match file.read_exact_at(&mut bytes, from).ok().and_then(|()| memchr::memrchr(b'\n', &bytes)) {
        Some(newline) => from + newline as u64 + 1,
        None if from == 0 => 0,
        None => size,
    }
}
