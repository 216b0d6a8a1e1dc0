//! A file that one process at a time has for itself.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::error::FileError;
use crate::open::{Writes, open};

/// How long to wait for a process that is just going.
const PATIENCE: Duration = Duration::from_secs(2);
const RETRY: Duration = Duration::from_millis(20);

/// Why a file could not be had alone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another process has it.
    #[error("{0} uses it; stop that one, or configure another directory")]
    InUse(User),
    /// The file could not be opened or made.
    #[error(transparent)]
    File(#[from] FileError),
    /// The system refuses the lock.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A process that has a file for itself, if the kernel tells which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User(pub Option<u32>);

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(process) => write!(f, "process {process}"),
            None => f.write_str("another process"),
        }
    }
}

/// Opens the file, making it if it is missing, for this process alone: until what is returned is dropped.
///
/// # Errors
/// [`LockError`]. Waits up to two seconds for a process that is just ending.
pub fn lock(path: &Path) -> Result<Flock<File>, LockError> {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(file) = try_lock(path)? {
            return Ok(file);
        }
        if Instant::now() >= until {
            return Err(LockError::InUse(user_of(path)));
        }
        std::thread::sleep(RETRY);
    }
}

/// The same without waiting: `None` while another process has it.
///
/// # Errors
/// [`LockError::File`] and [`LockError::Io`].
pub fn try_lock(path: &Path) -> Result<Option<Flock<File>>, LockError> {
    let file = open(path, Writes::Anywhere)?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(file) => {
            let same = |a: fs::Metadata, b: fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
            // The one before may have put a new file in its place, or removed it, in between.
            let is_it =
                fs::symlink_metadata(path).is_ok_and(|now| file.metadata().is_ok_and(|ours| same(now, ours)));
            Ok(is_it.then_some(file))
        }
        Err((_, Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, errno)) => Err(io::Error::from(errno).into()),
    }
}

/// The process that has locked a file, as far as the kernel tells.
fn user_of(path: &Path) -> User {
    let told = || {
        let inode = format!(":{}", fs::symlink_metadata(path).ok()?.ino());
        let locks = fs::read_to_string("/proc/locks").ok()?;
        // Number, kind, nature, access, process, device and inode, extent. A process elsewhere is 0 or less.
        let of_line = |line: &str| -> Option<u32> {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let [_, "FLOCK", _, _, process, place, ..] = words[..] else { return None };
            process.parse().ok().filter(|process| *process > 0 && place.ends_with(&inode))
        };
        locks.lines().find_map(of_line)
    };
    User(told())
}
