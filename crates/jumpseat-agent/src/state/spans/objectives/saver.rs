//! A thread that puts what objectives know on file, every ten seconds and at the end, so that the event loop never waits for a disk.
//!
//! The thread says when it is time, the loop gives it what there is to write, if anything has changed, and never waits: while
//! the disk takes long, what is newer waits for the next time.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, TrySendError, bounded};
use nix::sys::signal::{SigSet, SigmaskHow};
use pcp_net::Worker;

use super::kept::{self, Kept};

/// How often it is written.
const INTERVAL: Duration = Duration::from_secs(10);
/// Most complaints about the file.
const COMPLAINTS: u32 = 10;

/// Where the file is, and who is woken when it is time to write it.
pub(super) struct Place {
    pub path: PathBuf,
    pub wake: Arc<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Place").field(&self.path).finish()
    }
}

/// The thread.
#[derive(Debug)]
pub(super) struct Saver {
    is_due: Arc<AtomicBool>,
    /// The thread ends when this goes, after it has written what is in it.
    give: Option<Sender<Vec<Kept>>>,
    _thread: Worker,
}

impl Saver {
    /// Starts it.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub(super) fn start(place: &Place) -> std::io::Result<Saver> {
        let (path, wake) = (place.path.clone(), Arc::clone(&place.wake));
        let is_due = Arc::new(AtomicBool::new(false));
        let (give, given) = bounded::<Vec<Kept>>(1);
        let due = Arc::clone(&is_due);
        let work = move || {
            let mut complaints = 0;
            loop {
                match given.recv_timeout(INTERVAL) {
                    Ok(all) => {
                        if let Err(error) = save(&path, &all)
                            && complaints < COMPLAINTS
                        {
                            complaints += 1;
                            tracing::warn!("{}: what objectives know is not kept: {error}", path.display());
                        }
                    }
                    Err(RecvTimeoutError::Timeout) => {
                        due.store(true, Ordering::Relaxed);
                        wake();
                    }
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        // It is told to end by `give`, which goes before it.
        let thread = Worker::spawn("jumpseat-budgets", || true, work);
        before.thread_set_mask()?;
        Ok(Saver { is_due, give: Some(give), _thread: thread? })
    }

    /// Whether it is time to give what has changed. Once.
    pub(super) fn is_due(&self) -> bool {
        self.is_due.load(Ordering::Relaxed) && self.is_due.swap(false, Ordering::Relaxed)
    }

    /// Has this written. False: it still writes what was given before.
    pub(super) fn give(&self, all: Vec<Kept>) -> bool {
        let Some(give) = &self.give else { return false };
        !matches!(give.try_send(all), Err(TrySendError::Full(_)))
    }

    /// Has this written, and waits until it is. At the end only.
    pub(super) fn finish(mut self, all: Vec<Kept>) {
        if let Some(give) = self.give.take() {
            let _ = give.send(all);
        }
    }
}

impl Drop for Saver {
    fn drop(&mut self) {
        self.give = None;
    }
}

fn save(path: &Path, all: &[Kept]) -> Result<(), Box<dyn std::error::Error>> {
    pcp_files::replace(path, &kept::write(all)?)?;
    Ok(())
}

/// What is on file. What is damaged is told, and left out.
pub(super) fn load(path: &Path) -> Vec<Kept> {
    pcp_files::sweep(path);
    let file = match pcp_files::read(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            tracing::warn!("{}: objectives begin anew: {error}", path.display());
            return Vec::new();
        }
    };
    let mut text = Vec::new();
    let read = file.take(kept::MAX_FILE).read_to_end(&mut text).map_err(|error| error.to_string());
    match read.and_then(|_| kept::read(&text)) {
        Ok((all, 0)) => all,
        Ok((all, damaged)) => {
            tracing::warn!("{}: objectives that are damaged begin anew: {damaged}", path.display());
            all
        }
        Err(why) => {
            tracing::warn!("{}: objectives begin anew: {why}", path.display());
            Vec::new()
        }
    }
}
