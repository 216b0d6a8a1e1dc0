//! The archives that may be looked at: those on the command line, and all in and below directories there, watched.
//!
//! A thread looks at them every [`EVERY`]: new archives, new volumes and growth show without a restart.
//!
//! **Cost:** for each look a listing of the directories and a `stat` a file (0.1 s for 1400 archives); files that have not changed are not
//! opened (`pcp_archive::glances`). Where that takes long, looks are as much rarer: a fiftieth of the time at most.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pcp_archive::{ArchiveError, Glance, glance_at, glances};
use pcp_client::{ClientError, Context};
use pcp_net::Worker;

/// How often to look.
pub(super) const EVERY: Duration = Duration::from_secs(2);
/// So many times as long as a look has taken nobody looks.
const SHARE: u32 = 50;
/// How deep below a directory of the command line archives are looked for.
const MAX_DEPTH: usize = 8;
/// Most archives, and most directories.
const MAX_ARCHIVES: usize = 100_000;
const MAX_DIRECTORIES: usize = 20_000;
/// Most problems that are listed.
const MAX_PROBLEMS: usize = 200;

/// The archives.
#[derive(Debug)]
pub(super) struct Library {
    roots: Vec<Root>,
    state: Mutex<State>,
}

/// What was found at the last look.
#[derive(Debug, Default)]
struct State {
    /// Sorted by name.
    found: Arc<[Glance]>,
    version: u64,
    bad: Arc<[String]>,
    /// What of those that are damaged is done without, a line each.
    damage: BTreeMap<PathBuf, Vec<String>>,
}

/// Something named on the command line.
#[derive(Clone, Debug)]
enum Root {
    /// A directory: all in it and below.
    Below(PathBuf),
    /// One archive.
    One(PathBuf),
}

impl Library {
    /// Takes what was named on the command line, and looks there first.
    ///
    /// # Errors
    /// One of them is not there.
    pub(super) fn open(names: &[PathBuf]) -> Result<Library, ArchiveError> {
        let roots: Result<Vec<Root>, ArchiveError> = names.iter().map(|name| Root::of(name)).collect();
        let library = Library { roots: roots?, state: Mutex::default() };
        library.look();
        Ok(library)
    }

    /// Whether there is nothing to look at, and never will be.
    pub(super) fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// All archives, by name.
    pub(super) fn all(&self) -> Arc<[Glance]> {
        Arc::clone(&self.state().found)
    }

    /// A number that is another one after something has changed.
    pub(super) fn version(&self) -> u64 {
        self.state().version
    }

    /// What cannot be read, and why; then what of damaged archives is done without.
    pub(super) fn problems(&self) -> Vec<String> {
        let state = self.state();
        let all = || state.bad.iter().chain(state.damage.values().flatten());
        let mut problems: Vec<String> = all().take(MAX_PROBLEMS).cloned().collect();
        let more = all().count() - problems.len();
        if more > 0 {
            problems.push(format!("{more} further problems are not listed"));
        }
        problems
    }

    /// Takes what of an archive is done without, as it is damaged; nothing if it is whole. In the log it is said once.
    pub(super) fn tell_damage(&self, archive: &Path, lines: Vec<String>) {
        let mut state = self.state();
        let State { found, damage, .. } = &mut *state;
        // It may have gone meanwhile.
        let is_found = found.binary_search_by(|glance| glance.name.as_path().cmp(archive)).is_ok();
        let before = match lines.is_empty() || !is_found {
            true => return drop(damage.remove(archive)),
            false => damage.insert(archive.to_owned(), lines.clone()).unwrap_or_default(),
        };
        drop(state);
        for line in lines.iter().filter(|line| !before.contains(line)) {
            tracing::warn!("{line}");
        }
    }

    /// The archive of this name, if it is one of these: nothing else is ever opened.
    pub(super) fn find(&self, name: &str) -> Option<Glance> {
        let found = self.all();
        let at = found.binary_search_by(|glance| glance.name.as_path().cmp(Path::new(name))).ok()?;
        Some(found[at].clone())
    }

    /// Looks again. For the thread that watches; waits for the disk.
    fn look(&self) {
        let known = self.all();
        let (mut found, mut bad) = (Vec::new(), Vec::new());
        for root in &self.roots {
            root.look(&known, &mut found, &mut bad);
        }
        found.sort_by(|one: &Glance, other| one.name.cmp(&other.name));
        found.dedup_by(|one, other| one.name == other.name);
        found.truncate(MAX_ARCHIVES);
        found.retain(|glance| {
            // To those who open it, a comma in a name is one between names.
            let is_one = !glance.name.to_string_lossy().contains(',');
            if !is_one {
                bad.push(format!(
                    "{}: archives with a comma in their names cannot be read",
                    glance.name.display()
                ));
            }
            is_one
        });
        let mut state = self.state();
        if *state.found != *found || *state.bad != *bad {
            let mut damage = std::mem::take(&mut state.damage);
            damage.retain(|name, _| found.binary_search_by(|glance| glance.name.cmp(name)).is_ok());
            *state = State { found: found.into(), version: state.version + 1, bad: bad.into(), damage };
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A context on an archive of the library. Reads its metadata: for the pool only.
///
/// # Errors
/// It cannot be read.
pub(super) fn open(glance: &Glance) -> Result<Context, ClientError> {
    Context::archive(&glance.name.to_string_lossy())
}

/// The thread that looks again and again.
///
/// # Errors
/// There is no thread to be had.
pub(super) fn watch(library: &Arc<Library>) -> io::Result<Worker> {
    let (stop, stopped) = mpsc::channel::<()>();
    let library = Arc::clone(library);
    let run = move || {
        let mut pause = EVERY;
        while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            let begun = Instant::now();
            library.look();
            pause = EVERY.max(SHARE * begun.elapsed());
        }
    };
    Worker::spawn("jumpseat-look", move || stop.send(()).is_ok(), run)
}

impl Root {
    fn of(name: &Path) -> Result<Root, ArchiveError> {
        if name.is_dir() {
            return Ok(Root::Below(name.to_owned()));
        }
        // Of it and of its members the name may be given.
        let archive = pcp_archive::name_of(name)?;
        Ok(Root::One(match archive.parent() {
            // As listings name it.
            Some(parent) if parent == Path::new("") => Path::new(".").join(archive),
            _ => archive,
        }))
    }

    fn look(&self, known: &[Glance], found: &mut Vec<Glance>, bad: &mut Vec<String>) {
        match self {
            Root::One(name) => match glance_at(name, known) {
                Ok(Some(Ok(glance))) => found.push(glance),
                Ok(Some(Err(error))) => bad.push(error.to_string()),
                // It has gone, and may come back.
                Ok(None) => {}
                Err(error) => bad.push(format!("{}: {error}", name.display())),
            },
            Root::Below(directory) => {
                let mut left = vec![(directory.clone(), 0)];
                let mut seen = 0;
                while let Some((directory, depth)) = left.pop() {
                    seen += 1;
                    if seen > MAX_DIRECTORIES || found.len() > MAX_ARCHIVES {
                        bad.push(format!(
                            "{}: more than {MAX_DIRECTORIES} directories or {MAX_ARCHIVES} archives: the rest is left out",
                            directory.display()
                        ));
                        return;
                    }
                    match glances(&directory, known) {
                        Ok(of_directory) => {
                            for glance in of_directory {
                                match glance {
                                    Ok(glance) => found.push(glance),
                                    Err(error) => bad.push(error.to_string()),
                                }
                            }
                        }
                        Err(error) => bad.push(format!("{}: {error}", directory.display())),
                    }
                    if depth < MAX_DEPTH {
                        left.extend(directories(&directory).into_iter().map(|below| (below, depth + 1)));
                    }
                }
            }
        }
    }
}

/// The directories in a directory. Links are not followed: they might lead in a circle.
fn directories(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let is_directory = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.flatten().filter(is_directory).map(|entry| entry.path()).collect()
}
