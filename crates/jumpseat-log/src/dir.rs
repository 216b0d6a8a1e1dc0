//! [`LogDir`]: the logs of all sources, in one directory, for one process.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use nix::fcntl::Flock;
use pcp_event::log::History;
use pcp_files::{Directory, Disk, LockError};
use pcp_model::Inst;
use pcp_net::Worker;

use crate::common::{Common, Limits};
use crate::fetcher::Fetcher;
use crate::reader::Reader;
use crate::recover::{Found, recover, set_aside};
use crate::source::SourceLog;

/// The file that says who uses the directory.
pub(crate) const LOCK: &str = "lock";

/// The logs of all sources.
#[derive(Debug)]
pub struct LogDir {
    common: Arc<Common>,
    fetcher: Fetcher,
    sources: Mutex<Sources>,
    /// Held as long as this is there.
    _lock: Option<Flock<File>>,
}

#[derive(Debug)]
struct Sources {
    known: BTreeMap<Inst, Arc<SourceLog>>,
    found: BTreeMap<Inst, Found>,
}

/// The directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// Another process uses it, or its lock cannot be had.
    #[error("event log {}: {source}", .path.display())]
    Lock {
        /// The lock.
        path: std::path::PathBuf,
        /// Why.
        source: LockError,
    },
    /// It cannot be read.
    #[error("event log {}: {source}", .path.display())]
    Io {
        /// The directory.
        path: std::path::PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl LogError {
    /// Whether another process uses the directory.
    pub fn is_in_use(&self) -> bool {
        matches!(self, LogError::Lock { source: LockError::InUse(_), .. })
    }
}

/// All logs in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogStats {
    /// Bytes on disk.
    pub bytes: u64,
    /// Most bytes on disk.
    pub budget: u64,
    /// Times a file could not be written, synced or removed.
    pub failures: u64,
    /// Sources that were found at the start.
    pub recovered: u64,
    /// Batches that were not written to their end when the program, or the machine, went.
    pub torn: u64,
    /// Times a batch or a segment could not be read because of damage.
    pub damaged: u64,
    /// Files that were set aside because they are none of this program's.
    pub set_aside: u64,
}

impl LogDir {
    /// Takes the directory for this process, and looks through it. Makes it if it is missing.
    ///
    /// # Errors
    /// [`LogError`]
    pub fn open(path: &Path, domain: u16, limits: Limits) -> Result<LogDir, LogError> {
        let failed = |source| LogError::Io { path: path.to_owned(), source };
        let disk = Directory::open(path).map_err(failed)?;
        let lock_path = path.join(LOCK);
        let lock = pcp_files::lock(&lock_path)
            .map_err(|source| LogError::Lock { path: lock_path.clone(), source })?;
        let mut dir = LogDir::on(Arc::new(disk), domain, boot(), limits).map_err(failed)?;
        dir._lock = Some(lock);
        Ok(dir)
    }

    /// The same on any disk, which nobody else uses. `boot`: what the machine's run is called, from its start on.
    ///
    /// # Errors
    /// The disk's: its names cannot be read.
    pub fn on(disk: Arc<dyn Disk>, domain: u16, boot: [u8; 16], limits: Limits) -> io::Result<LogDir> {
        let common = Arc::new(Common::new(disk, domain, boot, limits));
        let found = recover(&common)?;
        common.counts.recovered.store(found.len() as u64, Ordering::Relaxed);
        let sources = Mutex::new(Sources { known: BTreeMap::new(), found });
        Ok(LogDir { common, fetcher: Fetcher::new(), sources, _lock: None })
    }

    /// The log of a source: as it was found, if that is the source's, or a new one.
    pub fn source(&self, source: Inst, name: &str) -> Arc<SourceLog> {
        let mut sources = self.sources();
        if let Some(log) = sources.known.get(&source) {
            return Arc::clone(log);
        }
        let found = sources.found.remove(&source).and_then(|found| {
            if found.name == name {
                return Some(found);
            }
            // Identifiers were begun anew, and the files were not: they are somebody else's now.
            for segment in &found.files.segments {
                set_aside(
                    &self.common,
                    &segment.name,
                    &format!("is of source {:?}, not {name:?}", found.name),
                );
            }
            self.common.freed(found.files.bytes);
            None
        });
        let log = Arc::new(SourceLog::new(Arc::clone(&self.common), source, name, found));
        self.common.add(&log);
        sources.known.insert(source, Arc::clone(&log));
        log
    }

    /// Removes what is kept of a source that is no more. Who still reads there finds nothing, and who still writes writes for
    /// nobody. How many records that were, lost ones included.
    pub fn remove(&self, source: Inst) -> u64 {
        let (known, found) = {
            let mut sources = self.sources();
            (sources.known.remove(&source), sources.found.remove(&source))
        };
        let mut records = known.map_or(0, |log| log.drop_all());
        if let Some(found) = found {
            self.common.freed(found.files.bytes);
            records += found.files.segments.front().map_or(0, |oldest| found.next - oldest.first);
            found.files.segments.iter().for_each(|segment| self.common.remove(&segment.name));
        }
        records
    }

    /// The sources that were found at the start and that nobody has asked for yet: number and name.
    pub fn found(&self) -> Vec<(Inst, String)> {
        self.sources().found.iter().map(|(inst, found)| (*inst, found.name.clone())).collect()
    }

    /// What reads a source's files.
    pub fn history(&self, log: &Arc<SourceLog>) -> Box<dyn History> {
        Box::new(Reader::new(Arc::clone(log), self.fetcher.clone()))
    }

    /// All logs in numbers.
    pub fn stats(&self) -> LogStats {
        let counts = &self.common.counts;
        let count = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        LogStats {
            bytes: self.common.total(),
            budget: self.common.limits().total,
            failures: count(&counts.failures),
            recovered: count(&counts.recovered),
            torn: count(&counts.torn),
            damaged: count(&counts.damaged),
            set_aside: count(&counts.set_aside),
        }
    }

    /// How much there may be.
    pub fn limits(&self) -> Limits {
        self.common.limits()
    }

    /// Changes how much there may be, in bytes: for each source, and for all of them. What is too much goes with the next
    /// segment that is begun.
    pub fn set_budgets(&self, source: u64, total: u64) {
        self.common.set_budgets(source, total);
    }

    /// Has everything that was appended survive a loss of power, as far as the disk lets it.
    pub fn sync(&self) {
        if self.common.is_dirty.swap(false, Ordering::AcqRel) {
            for source in self.common.each() {
                // Told, and counted; what the disk does not take is in the next file.
                _ = source.sync();
            }
        }
    }

    /// The thread that fetches what readers want, and writes down what was only noted.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn fetch_thread(&self) -> io::Result<Worker> {
        let fetcher = self.fetcher.clone();
        let (end, ended) = until_dropped();
        let common = Arc::clone(&self.common);
        let settle = move || common.each().iter().for_each(|source| source.settle());
        Worker::spawn("log-fetch", end, move || fetcher.work(&ended, settle))
    }

    /// Does what readers wait for at present, in place of [`LogDir::fetch_thread`]: for who reads a log by itself, and may wait for the disk.
    pub fn fetch_now(&self) {
        self.fetcher.work_off();
    }

    /// The thread that syncs what was appended, once an interval.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn sync_thread(self: &Arc<Self>, interval: Duration) -> io::Result<Worker> {
        let dir = Arc::clone(self);
        let (end, ended) = until_dropped();
        Worker::spawn("log-sync", end, move || {
            while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                dir.sync();
            }
            dir.sync();
        })
    }

    fn sources(&self) -> MutexGuard<'_, Sources> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A channel that is disconnected when a thread is to end.
fn until_dropped() -> (impl FnMut() -> bool + Send + Sync, Receiver<Infallible>) {
    let (end, ended) = bounded(0);
    let mut end = Some(end);
    (move || end.take().is_some(), ended)
}

/// The kernel's name for this run of the machine; zeros if it has none.
fn boot() -> [u8; 16] {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let mut boot = [0; 16];
    let digits: Vec<u8> =
        text.bytes().filter_map(|byte| char::from(byte).to_digit(16)).map(|digit| digit as u8).collect();
    boot.iter_mut().zip(digits.chunks_exact(2)).for_each(|(byte, pair)| *byte = pair[0] << 4 | pair[1]);
    boot
}
