//! Where to go on after a restart: the positions of files and the cursors of journals, in one file of the state directory.
//!
//! The file is replaced as a whole, at most every [`SAVE_EVERY`] while lines are read, and at the end; it is on disk before it
//! has its name, so that after a power failure no position is lost. That takes two waits for the disk,
//! and no more than a fiftieth of the time on a slow one. What
//! is in it was handed over to the core. So after an orderly end nothing is lost or repeated; after SIGKILL the lines
//! handed over since the file was written last are read again, which are those of [`SAVE_EVERY`] (more only if writing the
//! file itself takes longer than a fiftieth of that). With a log on disk they are not taken again: they are numbered, and the log
//! says which it has (`lanes/marks`).

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pcp_files::FileError;
use serde::{Deserialize, Serialize};

use pcp_net::Limiter;

/// How often positions are written while they change.
pub(super) const SAVE_EVERY: Duration = Duration::from_millis(250);
/// How much of a file's beginning tells it from others.
pub(super) const START: usize = 256;
/// Files that are not there are remembered for a week: a volume may be unmounted.
const KEEP: u64 = 7 * 86_400;
/// And at most this many of them.
const KEEP_FILES: usize = 10_000;
/// Largest file read; more than that many files can have.
const MAX_FILE: u64 = 64 << 20;

/// Where reading one file got to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Position {
    /// The table it belongs to.
    pub table: String,
    /// Its path.
    pub path: PathBuf,
    /// Device number.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Offset of the first byte not handed over.
    pub offset: u64,
    /// Number of the line before it.
    pub line: u64,
    /// It is within a line that is too long.
    pub skipping: bool,
    /// Length of the beginning that `hash` is of.
    pub start: usize,
    /// What tells its beginning from that of other files.
    pub hash: u64,
    /// When it was followed last, in seconds since the epoch.
    pub seen: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Stored {
    version: u32,
    tables: Vec<String>,
    files: Vec<Position>,
    journals: BTreeMap<String, String>,
    journal_bytes: BTreeMap<String, u64>,
}

const VERSION: u32 = 1;

/// The positions of earlier runs, and the file for those of this one.
#[derive(Debug)]
pub(crate) struct Positions {
    path: Option<PathBuf>,
    /// Tables that were there before.
    tables: Vec<String>,
    /// Files of earlier runs that were not found yet.
    pub waiting: Vec<Position>,
    /// Cursors of journals, by source.
    pub journals: BTreeMap<String, String>,
    /// Bytes of their entries up to there, as far as they were counted. Without a cursor: the number of the oldest entry's first byte.
    pub journal_bytes: BTreeMap<String, u64>,
    /// Something has changed since the file was written.
    pub dirty: bool,
    next: Instant,
    report: Limiter,
}

impl Positions {
    /// Reads what an earlier run has left in `dir`; `None` keeps nothing. A file that makes no sense is told of and left
    /// aside: it must not keep the agent from starting.
    pub(crate) fn load(dir: Option<&Path>, domain: u16) -> Positions {
        let path = dir.map(|dir| dir.join(format!("jumpseat-{domain}-positions.json")));
        if let Some(path) = &path {
            // The identifiers' lock keeps other agents with this domain from this directory.
            pcp_files::sweep(path);
        }
        let stored = path.as_deref().and_then(read).unwrap_or_default();
        Positions {
            path,
            tables: stored.tables,
            waiting: stored.files,
            journals: stored.journals,
            journal_bytes: stored.journal_bytes,
            dirty: false,
            next: Instant::now(),
            report: Limiter::new(1, Duration::from_secs(60)),
        }
    }

    /// Whether an earlier run had this table: files that it did not have are new then, not old.
    pub(crate) fn knows(&self, table: &str) -> bool {
        self.tables.iter().any(|known| known == table)
    }

    /// When to save, if there is something to.
    pub(crate) fn due(&self) -> Option<Instant> {
        (self.dirty && self.path.is_some()).then_some(self.next)
    }

    /// Has them saved at this time, however short ago they were.
    pub(crate) fn save_at(&mut self, time: Instant) {
        (self.dirty, self.next) = (true, time);
    }

    /// Writes the positions of `files`, which are open, and of those that wait. Whether it worked is in the log and told;
    /// it is tried again with the next change.
    pub(crate) fn save(&mut self, tables: Vec<String>, mut files: Vec<Position>) -> bool {
        let Some(path) = &self.path else { return true };
        let begin = Instant::now();
        let now = seconds();
        for file in &mut files {
            file.seen = now;
        }
        self.waiting.retain(|file| file.seen + KEEP > now);
        self.waiting.truncate(KEEP_FILES);
        files.extend(self.waiting.iter().cloned());
        let stored = Stored {
            version: VERSION,
            tables,
            files,
            journals: self.journals.clone(),
            journal_bytes: self.journal_bytes.clone(),
        };
        let written = write(path, &stored);
        if let Err(error) = &written
            && let Some(held_back) = self.report.allow(begin)
        {
            tracing::error!(held_back, "cannot write the positions of files: {error}");
        }
        self.dirty = false;
        self.next = begin + SAVE_EVERY.max(begin.elapsed() * 50);
        written.is_ok()
    }
}

fn read(path: &Path) -> Option<Stored> {
    let text = match pcp_files::read(path) {
        Ok(file) => {
            let mut text = String::new();
            let read = file.take(MAX_FILE + 1).read_to_string(&mut text);
            match read.map_err(|error| error.to_string()) {
                Ok(length) if length as u64 > MAX_FILE => Err(format!("longer than {MAX_FILE} bytes")),
                read => read.map(|_| text),
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        Err(error) => Err(error.problem.to_string()),
    };
    let stored =
        text.and_then(|text| serde_json::from_str::<Stored>(&text).map_err(|error| error.to_string()));
    match stored {
        Ok(stored) if stored.version == VERSION => Some(stored),
        Ok(stored) => {
            tracing::error!(
                "{}: version {} of positions is not known; files are followed as if new",
                path.display(),
                stored.version
            );
            None
        }
        Err(error) => {
            tracing::error!(
                "{}: cannot read the positions of files: {error}; they are followed as if new",
                path.display()
            );
            None
        }
    }
}

fn write(path: &Path, stored: &Stored) -> Result<(), FileError> {
    let text = serde_json::to_vec(stored);
    let text = text
        .map_err(|error| FileError { path: path.to_owned(), problem: std::io::Error::from(error).into() })?;
    pcp_files::replace(path, &text)
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// FNV-1a: the same in every version of this program.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_written_is_read_and_rubbish_is_not_fatal() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let mut positions = Positions::load(Some(dir.path()), 400);
        assert!(!positions.knows("t") && positions.waiting.is_empty());
        let file = Position { table: "t".into(), path: "/x".into(), offset: 7, ..Position::default() };
        positions.journals.insert("j".into(), "s=1".into());
        assert!(positions.save(vec!["t".into()], vec![file]));
        let mut again = Positions::load(Some(dir.path()), 400);
        assert!(again.knows("t"));
        assert_eq!((again.waiting[0].offset, again.journals["j"].as_str()), (7, "s=1"));
        again.waiting[0].seen -= 8 * 86_400;
        assert!(again.save(vec![], vec![]));
        assert!(Positions::load(Some(dir.path()), 400).waiting.is_empty(), "old ones are forgotten");

        for rubbish in ["", "{", "[]", r#"{"version":9}"#, r#"{"version":1,"files":[{"path":5}]}"#] {
            fs::write(dir.path().join("jumpseat-400-positions.json"), rubbish).expect("writable");
            assert!(Positions::load(Some(dir.path()), 400).waiting.is_empty(), "{rubbish}");
        }
        let mut nowhere = Positions::load(Some(Path::new("/nonexistent")), 400);
        assert!(!nowhere.save(vec![], vec![]));
        assert!(Positions::load(None, 400).save(vec![], vec![]));
    }
}
