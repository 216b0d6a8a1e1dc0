//! The thread that keeps the index as the archives are.
//!
//! **Cost:** nothing while the library says that nothing has changed. An archive that is new costs what was kept of it, or its metadata
//! if there is nothing, which others read ([`super::reading`]); one that has grown costs its last record.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use pcp_archive::{Archive, Glance};
use pcp_model::Timestamp;

use super::super::library::Library;
use super::cache::Cache;
use super::facts::{Facts, Ids, Stamp, damage};
use super::index::Index;
use super::reading::{self, Found};

/// How often to ask the library whether there is anything new.
const EVERY: Duration = Duration::from_millis(250);
/// An archive that has not grown for so long is taken to be whole.
const AT_REST: Duration = Duration::from_secs(90);

/// The index, for all.
#[derive(Debug, Default)]
pub(super) struct Shared {
    index: RwLock<Index>,
    progress: Mutex<Progress>,
}

/// How far the index is.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// The version of the library that it is of.
    pub version: Option<u64>,
    /// Archives whose metadata was read, and those whose facts were kept.
    pub read: u64,
    pub kept: u64,
    /// Bytes of metadata that was read, and how long that took, of all threads together.
    pub bytes: u64,
    pub took: Duration,
}

impl Progress {
    fn count(&mut self, stamp: &Stamp, took: Option<Duration>) {
        match took {
            None => self.kept += 1,
            Some(took) => {
                self.read += 1;
                self.bytes += stamp.len;
                self.took += took;
            }
        }
    }
}

impl Shared {
    /// The index as it is. Not to be kept while anything is waited for.
    pub(super) fn index(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn progress(&self) -> Progress {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change(&self, change: impl FnOnce(&mut Index)) {
        change(&mut self.index.write().unwrap_or_else(PoisonError::into_inner));
    }
}

/// What the thread knows.
pub(super) struct Builder {
    library: Arc<Library>,
    shared: Arc<Shared>,
    cache: Arc<Cache>,
    /// The metadata that the index is of.
    stamps: HashMap<PathBuf, Stamp>,
    /// Archives that cannot be read, until they change.
    bad: HashMap<PathBuf, Glance>,
    /// Archives that have grown, and when that was seen last.
    growing: HashMap<PathBuf, Instant>,
    progress: Progress,
}

impl Builder {
    pub(super) fn new(library: Arc<Library>, shared: Arc<Shared>, cache: Cache) -> Builder {
        Builder {
            library,
            shared,
            cache: Arc::new(cache),
            stamps: HashMap::default(),
            bad: HashMap::default(),
            growing: HashMap::default(),
            progress: Progress::default(),
        }
    }

    /// Until it is told to stop.
    pub(super) fn run(mut self, stopped: &Receiver<()>) {
        self.cache.sweep();
        loop {
            let version = self.library.version();
            if self.progress.version != Some(version) {
                if !self.follow(stopped) {
                    return;
                }
                self.progress.version = Some(version);
                self.report();
            }
            self.close();
            if stopped.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }

    /// Makes the index what the library is; false if it was told to stop on the way.
    fn follow(&mut self, stopped: &Receiver<()>) -> bool {
        let found = self.library.all();
        let names: HashSet<&Path> = found.iter().map(|glance| glance.name.as_path()).collect();
        let gone: Vec<PathBuf> =
            self.stamps.keys().filter(|name| !names.contains(name.as_path())).cloned().collect();
        for name in gone {
            self.shared.change(|index| index.remove(&name));
            self.stamps.remove(&name);
            self.cache.forget(&name);
        }
        self.bad.retain(|name, _| names.contains(name.as_path()));
        let shared = Arc::clone(&self.shared);
        if shared.index().is_worn() {
            // All facts again, most of them as they were kept. Until then what is there answers.
            let mut anew = Index::default();
            let all: Vec<&Glance> = found.iter().collect();
            let whole = self.take(&all, stopped, |glance, facts, ids, end| {
                anew.add(glance.clone(), facts, ids, end);
            });
            if whole {
                shared.change(|index| *index = anew);
            }
            return whole;
        }
        let mut new: Vec<&Glance> = Vec::new();
        for glance in found.iter() {
            let known = shared.index().archive(&glance.name).map(|entry| entry.has_grown(glance));
            match known {
                Some(false) => {}
                Some(true) if self.is_of(glance) => {
                    self.growing.insert(glance.name.clone(), Instant::now());
                    shared.change(|index| index.grown(glance.clone(), None));
                }
                _ => new.push(glance),
            }
        }
        self.take(&new, stopped, |glance, facts, ids, end| {
            shared.change(|index| index.add(glance.clone(), facts, ids, end));
        })
    }

    /// Finds the ends of archives that do not grow any more, so that queries for later times leave them alone.
    fn close(&mut self) {
        let Builder { growing, shared, library, .. } = self;
        growing.retain(|name, grew| {
            if grew.elapsed() < AT_REST {
                return true;
            }
            let glance = shared.index().archive(name).map(|entry| entry.glance.clone());
            if let Some(glance) = glance
                && let Ok(mut archive) = Archive::open(&name.to_string_lossy())
                && let Ok(end) = archive.end()
            {
                shared.change(|index| index.grown(glance, Some(end)));
                library.tell_damage(name, damage(&mut archive));
            }
            false
        });
    }

    /// Whether the index is of the metadata as it is now.
    fn is_of(&self, glance: &Glance) -> bool {
        let stamp = Stamp::of(glance);
        stamp.is_some() && self.stamps.get(&glance.name) == stamp.as_ref()
    }

    /// Hands over what archives say, of those that can be read; false if it was told to stop on the way.
    fn take(
        &mut self,
        all: &[&Glance],
        stopped: &Receiver<()>,
        mut add: impl FnMut(&Glance, &Facts, &Ids, Option<Timestamp>),
    ) -> bool {
        let good: Vec<&Glance> =
            all.iter().copied().filter(|glance| self.bad.get(&glance.name) != Some(*glance)).collect();
        let cache = Arc::clone(&self.cache);
        let read = |glance: &&Glance| reading::find(&cache, glance);
        reading::each(&good, read, |glance, found| {
            if is_told(stopped) {
                return false;
            }
            match found {
                Ok(Found { facts, ids, end, stamp, took }) => {
                    self.progress.count(&stamp, took);
                    let end = self.end(glance, end);
                    add(glance, &facts, &ids, end);
                    // Of one that is being written the end says nothing yet.
                    if end.is_some() {
                        self.library.tell_damage(&glance.name, facts.damage);
                    }
                    self.stamps.insert(glance.name.clone(), stamp);
                    self.bad.remove(&glance.name);
                }
                Err(error) => {
                    tracing::warn!("not in the index: {error}");
                    self.bad.insert(glance.name.clone(), (*glance).clone());
                }
            }
            true
        })
    }

    /// The end of an archive, unless somebody may be writing to it: then it is looked for when it has been at rest for a while.
    fn end(&mut self, glance: &Glance, end: Option<Timestamp>) -> Option<Timestamp> {
        let is_at_rest = glance.changed.elapsed().is_ok_and(|age| age > AT_REST);
        if end.is_none() || !is_at_rest {
            self.growing.insert(glance.name.clone(), Instant::now());
            return None;
        }
        end
    }

    fn report(&self) {
        *self.shared.progress.lock().unwrap_or_else(PoisonError::into_inner) = self.progress.clone();
        let Progress { read, kept, bytes, took, .. } = &self.progress;
        tracing::debug!("index: {read} archives read, {kept} kept; {bytes} bytes of metadata in {took:?}");
    }
}

fn is_told(stopped: &Receiver<()>) -> bool {
    stopped.try_recv() != Err(std::sync::mpsc::TryRecvError::Empty)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use pcp_archive::{ArchiveWriter, LabelInfo, WriteOptions};
    use pcp_client::Fetched;
    use pcp_model::{Desc, InDom, Pmid, Semantics, Units, Value, ValueType};

    use super::*;

    fn write(directory: &Path, number: u16) {
        let label = LabelInfo { host: "h".to_owned(), zone: "UTC".to_owned(), ..LabelInfo::default() };
        let base = directory.join(format!("a{number}"));
        let mut archive =
            ArchiveWriter::create(&base, label, WriteOptions::default()).expect("nothing is there");
        let pmid = Pmid::new(60, 0, number);
        let desc = Desc {
            pmid,
            value_type: ValueType::U32,
            indom: InDom::NULL,
            semantics: Semantics::Instant,
            units: Units::NONE,
        };
        archive.desc(&desc, &[format!("m.n{number}")]).expect("described once");
        let mut fetched = Fetched::new();
        fetched.timestamp = Timestamp::new(1_700_000_000 + i64::from(number), 0);
        fetched.begin_set(pmid);
        fetched.push_value(pcp_model::PM_IN_NULL, &Value::U32(7)).expect("one value");
        fetched.end_set();
        archive.result(&fetched).expect("the disk has room");
    }

    /// Opens the directory anew, as the library's own thread looks only now and then.
    fn followed(mut builder: Builder, directory: &Path) -> Builder {
        let (_stop, stopped) = mpsc::channel();
        builder.library = Arc::new(Library::open(&[directory.to_owned()]).expect("it is there"));
        assert!(builder.follow(&stopped));
        builder
    }

    #[test]
    fn an_index_that_is_worn_is_built_anew() {
        let dir = tempfile::tempdir().expect("a directory can be made");
        (0..70).for_each(|number| write(dir.path(), number));
        let library = Arc::new(Library::open(&[dir.path().to_owned()]).expect("it is there"));
        let builder = Builder::new(library, Arc::default(), Cache::open(None).0);
        let builder = followed(builder, dir.path());
        assert_eq!(builder.shared.index().all_series().count(), 70);
        for number in 0..66 {
            for end in ["meta", "index", "0"] {
                std::fs::remove_file(dir.path().join(format!("a{number}.{end}"))).expect("it was written");
            }
        }
        let read = builder.progress.read;
        let builder = followed(builder, dir.path());
        let index = builder.shared.index();
        assert!(!index.is_worn());
        let mut names: Vec<&str> = index.metric_names().map(|(name, _)| name).collect();
        names.sort_unstable();
        assert_eq!(names, ["m.n66", "m.n67", "m.n68", "m.n69"]);
        assert_eq!(index.all_series().max(), Some(3), "rows of what has gone are gone");
        assert_eq!(builder.progress.read - read, 4, "there is no cache: all that are left were read again");
    }
}
