//! The files of an archive, each with its own way to grow without ever being seen half-grown.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use pcp_files::{Ahead, Replacement, Writes};

use super::error::WriteError;

/// A process that is killed while it writes can leave a part of what it wrote, but never a part of what was
/// to go into one page.
const PAGE: u64 = 4096;

/// Metadata beyond that is appended to in place, whatever its length: to copy it would take too long.
const MAX_COPIED: u64 = 16 << 20;

/// A file that grows at its end.
#[derive(Debug)]
pub(super) struct Growing {
    pub path: PathBuf,
    /// Length up to which the file is whole.
    pub len: u64,
    pub file: File,
    ahead: Ahead,
}

impl Growing {
    /// A new file.
    ///
    /// # Errors
    /// [`WriteError::Exists`], or the system's.
    pub(super) fn create(path: PathBuf) -> Result<Growing, WriteError> {
        match pcp_files::create(&path, Writes::Anywhere) {
            Ok(file) => Ok(Growing { path, len: 0, file, ahead: Ahead::default() }),
            Err(error) => Err(WriteError::file(error)),
        }
    }

    /// A file that is there, or an empty one.
    ///
    /// # Errors
    /// The system's, or that it is not to be written to.
    pub(super) fn open(path: PathBuf) -> Result<Growing, WriteError> {
        let file = pcp_files::open(&path, Writes::Anywhere).map_err(WriteError::file)?;
        let len = file.metadata().map_err(WriteError::io(&path))?.len();
        Ok(Growing { path, len, file, ahead: Ahead::default() })
    }

    /// Appends. What was written of bytes that do not all fit is taken back.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.ahead.reserve(&self.file, self.len, self.len + bytes.len() as u64, u64::MAX);
        match self.file.write_all_at(bytes, self.len) {
            Ok(()) => {
                self.len += bytes.len() as u64;
                Ok(())
            }
            Err(error) => {
                // If that fails too, the next attempt writes over it.
                let _ = self.file.set_len(self.len);
                Err(WriteError::io(&self.path)(error))
            }
        }
    }

    /// Appends all of it or nothing, even if the process is killed in the middle: in place what fits into the
    /// page that the file ends in, else into a copy that takes the file's place.
    pub(super) fn append_whole(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        let room = PAGE - self.len % PAGE;
        if bytes.len() as u64 <= room || self.len == 0 || self.len > MAX_COPIED {
            return self.append(bytes);
        }
        self.file = self.copied(bytes).map_err(WriteError::io(&self.path))?;
        self.ahead = Ahead::default();
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// On disk when the writer says so, with the rest of the archive ([`Growing::sync`]).
    fn copied(&mut self, bytes: &[u8]) -> io::Result<File> {
        let mut copy = Replacement::begin(&self.path).map_err(|error| error.problem)?;
        copy.file().set_permissions(self.file.metadata()?.permissions())?;
        self.file.rewind()?;
        io::copy(&mut (&self.file).take(self.len), copy.file())?;
        copy.file().write_all(bytes)?;
        Ok(copy.finish_unsynced().map_err(|error| error.problem)?)
    }

    /// Takes the lock by which writers of archives keep each other out.
    ///
    /// # Errors
    /// [`WriteError::Locked`], or the system's.
    pub(super) fn lock(&self) -> Result<Flock<File>, WriteError> {
        let file = self.file.try_clone().map_err(WriteError::io(&self.path))?;
        Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
            Errno::EWOULDBLOCK => WriteError::Locked(self.path.clone()),
            errno => WriteError::io(&self.path)(errno.into()),
        })
    }

    /// Waits until the file is on disk.
    pub(super) fn sync(&self) -> Result<(), WriteError> {
        self.file.sync_data().map_err(WriteError::io(&self.path))
    }
}

impl Drop for Growing {
    fn drop(&mut self) {
        self.ahead.give_back(&self.file, self.len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn room_that_was_set_aside_is_given_back() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.0");
        let mut file = Growing::create(path.clone()).expect("created");
        let room = || fs::metadata(&path).expect("there").blocks() * 512;
        (0..20).for_each(|_| file.append(&[1; 100_000]).expect("written"));
        assert!(room() > file.len + 10_000, "{} bytes in {}", file.len, room());
        drop(file);
        assert!(room() <= 2_000_000 + 32_768, "{}", room());
        assert_eq!(fs::metadata(&path).expect("there").len(), 2_000_000);
    }

    #[test]
    fn metadata_grows_in_place_or_by_a_copy() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.meta");
        let mut file = Growing::create(path.clone()).expect("created");
        let mut expected = Vec::new();
        for (at, len) in [100, 3996, 1, 4095, 1, 9000, 10].into_iter().enumerate() {
            let bytes = vec![at as u8; len];
            file.append_whole(&bytes).expect("written");
            expected.extend(bytes);
            assert_eq!(fs::read(&path).expect("readable"), expected);
        }
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 1, "nothing left over");
        assert!(matches!(Growing::create(path), Err(WriteError::Exists(_))));
    }

    #[test]
    fn nothing_is_written_through_links() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, precious) = (dir.path().join("a.meta"), dir.path().join("precious"));
        fs::write(&precious, "kept").expect("writable");
        std::os::unix::fs::symlink(&precious, dir.path().join(".a.meta.new")).expect("writable");
        let mut file = Growing::create(path.clone()).expect("created");
        file.append_whole(&[1; 100]).expect("written");
        file.append_whole(&[2; 5000]).expect("written, by a copy");
        assert!(fs::symlink_metadata(&path).expect("there").is_file());
        fs::remove_file(&path).expect("ours");
        std::os::unix::fs::symlink(&precious, &path).expect("writable");
        let error = Growing::open(path).expect_err("a link").to_string();
        assert!(error.contains("a.meta: is a symbolic link; only a regular file is allowed"), "{error}");
        assert_eq!(fs::read_to_string(&precious).expect("there"), "kept");
    }
}
