//! The files of an archive, each with its own way to grow without ever being seen half-grown.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

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
}

impl Growing {
    /// A new file.
    ///
    /// # Errors
    /// [`WriteError::Exists`], or the system's.
    pub(super) fn create(path: PathBuf) -> Result<Growing, WriteError> {
        match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => Ok(Growing { path, len: 0, file }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(WriteError::Exists(path)),
            Err(error) => Err(WriteError::Io { path, error }),
        }
    }

    /// Appends. What was written of bytes that do not all fit is taken back.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
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
        let copy = hidden(&self.path);
        match self.copied(&copy, bytes) {
            Ok(file) => {
                self.file = file;
                self.len += bytes.len() as u64;
                Ok(())
            }
            Err(error) => {
                let _ = fs::remove_file(&copy);
                Err(WriteError::io(&self.path)(error))
            }
        }
    }

    fn copied(&mut self, copy: &Path, bytes: &[u8]) -> io::Result<File> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(copy)?;
        file.set_permissions(self.file.metadata()?.permissions())?;
        self.file.rewind()?;
        io::copy(&mut (&self.file).take(self.len), &mut file)?;
        file.write_all(bytes)?;
        fs::rename(copy, &self.path)?;
        Ok(file)
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

/// A name next to the file's, that readers do not take for one of the archive's.
fn hidden(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".new");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
