//! The agent's side: what it has held, and what it gets of the agent before.

use std::io::{self, ErrorKind};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pcp_net::{Keep, Spot};

use super::door::door;
use super::keeper::{KEEPER_ARGUMENT, Settings};
use super::store::Store;
use super::wire::{self, Message, Word};

/// How long a keeper may take for an answer. It waits for the end of the agent before.
const ANSWER: Duration = Duration::from_secs(8);

/// Listeners that the next agent gets.
#[derive(Debug)]
pub(crate) struct Handover {
    /// Who holds listeners, as long as it answers.
    link: Mutex<Option<Link>>,
    /// What the agent before has left, and nobody has asked for yet.
    found: Mutex<Vec<(Spot, OwnedFd)>>,
    /// The keeper was told to begin, and its answer not waited for yet.
    begins: Mutex<bool>,
    /// What is held.
    held: Mutex<Vec<Spot>>,
    /// The agent runs: what it closes is closed for good.
    runs: AtomicBool,
}

/// Who holds listeners.
#[derive(Debug)]
enum Link {
    Keeper(UnixStream),
    Systemd(Store),
}

/// What a keeper is started with.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    /// Where identifiers are kept, and the keeper's door is.
    pub state_dir: &'a Path,
    /// The domain number.
    pub domain: u16,
    /// How long to wait for the next agent.
    pub keep: Duration,
    /// Where files of sockets are.
    pub places: Vec<PathBuf>,
    /// Whether the keeper gives up its rights.
    pub confine: bool,
}

impl Handover {
    /// Starts the program that runs now once more, as a keeper. For the time when the process is the user that it is going
    /// to be, and may still start programs.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn start(plan: Plan<'_>) -> io::Result<Handover> {
        let (ours, theirs) = UnixStream::pair()?;
        Command::new("/proc/self/exe")
            .arg0("jumpseat-keeper")
            .arg(KEEPER_ARGUMENT)
            .env_clear()
            .current_dir("/")
            // What ends the agent from a terminal is not for its keeper. Nobody waits for its output either.
            .process_group(0)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let settings = Settings {
            door: absolute(&door(plan.state_dir, plan.domain)),
            keep_ms: u64::try_from(plan.keep.as_millis()).unwrap_or(u64::MAX),
            places: plan.places.iter().map(absolute).collect(),
            confine: plan.confine,
        };
        wire::send(&ours, Word::Settings, &serde_json::to_string(&settings)?, None)?;
        ours.set_read_timeout(Some(ANSWER))?;
        ours.set_write_timeout(Some(ANSWER))?;
        Ok(Handover::over(Link::Keeper(ours)))
    }

    /// Leaves listeners with systemd, which has started the process.
    ///
    /// # Errors
    /// It has not, or does not listen.
    pub(crate) fn with_systemd() -> io::Result<Handover> {
        let handover = Handover::over(Link::Systemd(Store::open()?));
        // Later on there is no right to.
        *lock(&handover.found) = Store::left();
        Ok(handover)
    }

    fn over(link: Link) -> Handover {
        Handover {
            link: Mutex::new(Some(link)),
            found: Mutex::default(),
            begins: Mutex::default(),
            held: Mutex::default(),
            runs: AtomicBool::new(false),
        }
    }

    /// Whether it is a keeper that holds them, which takes over from the one before.
    pub(crate) fn has_keeper(&self) -> bool {
        matches!(&*lock(&self.link), Some(Link::Keeper(_)))
    }

    /// Has what the agent before has left fetched. For the time when this agent is the only one of its state directory.
    pub(crate) fn begin(&self) {
        let begun = match &*lock(&self.link) {
            Some(Link::Keeper(keeper)) => wire::send(keeper, Word::Begin, "", None),
            None | Some(Link::Systemd(_)) => Ok(()),
        };
        match begun {
            Ok(()) => *lock(&self.begins) = true,
            Err(error) => self.lose(&error),
        }
    }

    /// Gets it, the first time that it is needed: the keeper has had time meanwhile to become a process that answers.
    fn begun(&self) {
        let mut begins = lock(&self.begins);
        if !std::mem::take(&mut *begins) {
            return;
        }
        let found = match &*lock(&self.link) {
            None => return,
            Some(Link::Keeper(keeper)) => answer(keeper),
            Some(Link::Systemd(_)) => Ok(std::mem::take(&mut *lock(&self.found))),
        };
        match found {
            Ok(found) => {
                if !found.is_empty() {
                    let spots: Vec<String> = found.iter().map(|(spot, _)| shown(spot)).collect();
                    tracing::info!("goes on where the agent before has listened: {}", spots.join(", "));
                }
                *lock(&self.held) = found.iter().map(|(spot, _)| spot.clone()).collect();
                *lock(&self.found) = found;
            }
            Err(error) => self.lose(&error),
        }
    }

    /// The agent listens everywhere: gives up what was left and is not configured any more.
    pub(crate) fn settle(&self) {
        self.begun();
        let unclaimed = std::mem::take(&mut *lock(&self.found));
        for (spot, _) in unclaimed {
            if let Spot::Unix { path, file } = &spot
                && std::fs::symlink_metadata(path).is_ok_and(|meta| (meta.dev(), meta.ino()) == *file)
            {
                let _ = std::fs::remove_file(path);
            }
            self.forget(&spot);
        }
        self.runs.store(true, Ordering::Release);
    }

    /// What is closed from now on stays open for the next agent.
    pub(crate) fn leave(&self) {
        self.runs.store(false, Ordering::Release);
    }

    /// How many listeners the next agent would get.
    pub(crate) fn held(&self) -> usize {
        self.begun();
        lock(&self.held).len()
    }

    /// Goes on without.
    fn lose(&self, error: &io::Error) {
        tracing::warn!(
            "listeners will be closed between this agent and the next one: who keeps them: {error}"
        );
        *lock(&self.link) = None;
        lock(&self.held).clear();
    }
}

impl Keep for Handover {
    fn take(&self, fits: &dyn Fn(&Spot) -> bool) -> Option<(Spot, OwnedFd)> {
        self.begun();
        let mut found = lock(&self.found);
        let place = found.iter().position(|(spot, _)| fits(spot))?;
        Some(found.swap_remove(place))
    }

    fn hold(&self, spot: &Spot, listener: BorrowedFd<'_>) {
        self.begun();
        let held = match &*lock(&self.link) {
            None => return,
            Some(Link::Keeper(keeper)) => {
                ask(keeper, Word::Hold, &spot.to_string(), Some(listener)).map(|_| ())
            }
            Some(Link::Systemd(store)) => store.hold(spot, listener),
        };
        match held {
            Ok(()) => lock(&self.held).push(spot.clone()),
            Err(error) => self.lose(&error),
        }
    }

    fn forget(&self, spot: &Spot) {
        self.begun();
        lock(&self.held).retain(|held| held != spot);
        let forgotten = match &*lock(&self.link) {
            None => return,
            Some(Link::Keeper(keeper)) => ask(keeper, Word::Forget, &spot.to_string(), None).map(|_| ()),
            Some(Link::Systemd(store)) => store.forget(spot),
        };
        if let Err(error) = forgotten {
            self.lose(&error);
        }
    }

    fn is_leaving(&self) -> bool {
        // Where nobody holds them, nothing is left to anybody.
        !self.runs.load(Ordering::Acquire) && lock(&self.link).is_some()
    }
}

/// Asks a keeper, and gives what it lists.
fn ask(
    keeper: &UnixStream,
    word: Word,
    text: &str,
    listener: Option<BorrowedFd<'_>>,
) -> io::Result<Vec<(Spot, OwnedFd)>> {
    wire::send(keeper, word, text, listener)?;
    answer(keeper)
}

/// What a keeper lists for an answer.
fn answer(keeper: &UnixStream) -> io::Result<Vec<(Spot, OwnedFd)>> {
    let mut listed = Vec::new();
    loop {
        match wire::receive(keeper)? {
            Some(Message { word: Word::Listed, text, listener: Some(listener) }) => {
                listed.extend(Spot::parse(&text).map(|spot| (spot, listener)));
            }
            Some(Message { word: Word::Done, .. }) => return Ok(listed),
            Some(Message { word: Word::Refused, text, .. }) => return Err(io::Error::other(text)),
            Some(_) => return Err(ErrorKind::InvalidData.into()),
            None => return Err(ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// As people know it.
fn shown(spot: &Spot) -> String {
    match spot {
        Spot::Unix { path, .. } => path.display().to_string(),
        Spot::Tcp(address) => address.to_string(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
