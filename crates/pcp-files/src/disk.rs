//! [`Disk`]: the few operations that keep what must not be lost.
//!
//! Who promises that something survives writes, reads and syncs through this interface alone, so that a test can put a disk
//! in its place that forgets what was not synced. [`Directory`] is the real one.

use std::fmt::Debug;
use std::fs::{self, File};
use std::io::{self, IoSlice};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{Flock, renameat};
use nix::sys::uio::pwritev;
use nix::unistd::{UnlinkatFlags, unlinkat};
use rustix::fs::FallocateFlags;
use rustix::io::{ReadWriteFlags, preadv2};

use crate::open::{self, Writes};
use crate::place::Place;

/// A directory of files.
pub trait Disk: Debug + Send + Sync {
    /// Makes a file, to write to.
    ///
    /// # Errors
    /// The system's; `AlreadyExists` if there is anything of that name.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens a file, to read.
    ///
    /// # Errors
    /// The system's.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens a file, to read and to write; makes it if it is missing.
    ///
    /// # Errors
    /// The system's.
    fn edit(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// The names in the directory, in any order.
    ///
    /// # Errors
    /// The system's.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Gives a file another name; what had that name is gone.
    ///
    /// # Errors
    /// The system's.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// The system's.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Has the names survive a loss of power.
    ///
    /// # Errors
    /// The system's.
    fn sync_names(&self) -> io::Result<()>;
}

/// A file of a [`Disk`]. Offsets and lengths are bytes.
pub trait DiskFile: Debug + Send + Sync {
    /// Writes all of `parts`, one behind the other, from `at` on: in one system call, if the system takes them at once.
    ///
    /// # Errors
    /// The system's; some of it may have been written.
    fn write_at(&self, parts: &[&[u8]], at: u64) -> io::Result<()>;

    /// Fills the buffer from `at` on, as far as the file goes. Returns how far.
    ///
    /// # Errors
    /// The system's.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize>;

    /// As [`DiskFile::read_at`], but never waits for a device.
    ///
    /// # Errors
    /// The system's; `WouldBlock` if the bytes are not in memory, `Unsupported` if nobody can know.
    fn read_now(&self, buffer: &mut [u8], at: u64) -> io::Result<usize>;

    /// How long the file is, and whether it still has a name.
    ///
    /// # Errors
    /// The system's.
    fn extent(&self) -> io::Result<(u64, bool)>;

    /// Makes the file so long: what is behind that is gone, room that was set aside as well; what is new is zeros.
    ///
    /// # Errors
    /// The system's.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Sets room aside for what will be written between two offsets: the file gets no longer ([`Ahead`](crate::Ahead)).
    ///
    /// # Errors
    /// The system's; `Unsupported` where it cannot do this.
    fn reserve(&self, from: u64, to: u64) -> io::Result<()>;

    /// Has what was written survive a loss of power.
    ///
    /// # Errors
    /// The system's; then nobody knows what of it will.
    fn sync(&self) -> io::Result<()>;
}

/// A directory of the file system.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    /// The directory at `path`; makes it if it is missing, for this program's user alone.
    ///
    /// # Errors
    /// The system's.
    pub fn open(path: &Path) -> io::Result<Directory> {
        use std::os::unix::fs::DirBuilderExt as _;
        fs::DirBuilder::new().recursive(true).mode(0o750).create(path)?;
        Ok(Directory { path: path.to_owned() })
    }

    /// The directory at `path`, which is there.
    ///
    /// # Errors
    /// The system's.
    pub fn existing(path: &Path) -> io::Result<Directory> {
        fs::read_dir(path)?;
        Ok(Directory { path: path.to_owned() })
    }

    /// The directory at `path`, where the caller has just been.
    pub fn of(path: &Path) -> Directory {
        Directory { path: path.to_owned() }
    }

    fn place(&self, name: &str) -> io::Result<Place> {
        Ok(Place::of(&self.path.join(name))?)
    }
}

impl Disk for Directory {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(open::create(&self.path.join(name), Writes::Anywhere)?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(open::read(&self.path.join(name))?))
    }

    fn edit(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(open::open(&self.path.join(name), Writes::Anywhere)?))
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let names = fs::read_dir(&self.path)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        // A name that is no text is none that a program of ours has given.
        names.filter_map(Result::transpose).collect()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (self.place(from)?, self.place(to)?);
        Ok(renameat(&from.dir, from.name.as_os_str(), &to.dir, to.name.as_os_str())?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let place = self.place(name)?;
        Ok(unlinkat(&place.dir, place.name.as_os_str(), UnlinkatFlags::NoRemoveDir)?)
    }

    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

impl DiskFile for File {
    fn write_at(&self, parts: &[&[u8]], at: u64) -> io::Result<()> {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let offset = i64::try_from(at).map_err(|_| Errno::EFBIG)?;
        let written = match pwritev(self, &slices, offset) {
            Err(Errno::EINTR) => 0,
            written => written?,
        };
        if written == total {
            return Ok(());
        }
        // A signal, or a disk that is nearly full: the rest piece by piece, or the reason why not.
        let mut before = 0;
        for part in parts {
            let done = written.saturating_sub(before).min(part.len());
            self.write_all_at(&part[done..], at + (before + done) as u64)?;
            before += part.len();
        }
        Ok(())
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        fill(buffer, |rest, done| FileExt::read_at(self, rest, at + done))
    }

    fn read_now(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        fill(buffer, |rest, done| {
            Ok(preadv2(self, &mut [io::IoSliceMut::new(rest)], at + done, ReadWriteFlags::NOWAIT)?)
        })
    }

    fn extent(&self) -> io::Result<(u64, bool)> {
        let meta = self.metadata()?;
        Ok((meta.len(), meta.nlink() > 0))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        File::set_len(self, len)
    }

    fn reserve(&self, from: u64, to: u64) -> io::Result<()> {
        Ok(rustix::fs::fallocate(self, FallocateFlags::KEEP_SIZE, from, to.saturating_sub(from))?)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// A file that nobody else uses meanwhile.
impl DiskFile for Flock<File> {
    fn write_at(&self, parts: &[&[u8]], at: u64) -> io::Result<()> {
        DiskFile::write_at(&**self, parts, at)
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        DiskFile::read_at(&**self, buffer, at)
    }

    fn read_now(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        DiskFile::read_now(&**self, buffer, at)
    }

    fn extent(&self) -> io::Result<(u64, bool)> {
        DiskFile::extent(&**self)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        DiskFile::set_len(&**self, len)
    }

    fn reserve(&self, from: u64, to: u64) -> io::Result<()> {
        DiskFile::reserve(&**self, from, to)
    }

    fn sync(&self) -> io::Result<()> {
        DiskFile::sync(&**self)
    }
}

/// Reads until the buffer is full or there is no more.
fn fill(buffer: &mut [u8], mut read: impl FnMut(&mut [u8], u64) -> io::Result<usize>) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match read(&mut buffer[done..], done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_written_in_parts_read_renamed_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Directory::open(&dir.path().join("deep/er")).unwrap();
        let file = disk.create("a").unwrap();
        file.write_at(&[b"one", b"", b"two"], 4).unwrap();
        assert_eq!(disk.create("a").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        let mut buffer = [0; 20];
        let read = disk.open("a").unwrap();
        assert_eq!((read.read_at(&mut buffer, 1).unwrap(), &buffer[..9]), (9, &b"\0\0\0onetwo"[..]));
        // In memory, as it has just been written, unless this file system does not tell.
        let now = read.read_now(&mut buffer, 4);
        assert!(matches!(now, Ok(6)) || now.is_err_and(|error| error.kind() == io::ErrorKind::Unsupported));
        assert_eq!(file.extent().unwrap(), (10, true));
        file.reserve(10, 1 << 16).unwrap();
        assert_eq!(file.extent().unwrap(), (10, true), "room is no part of the file");
        file.set_len(10).unwrap();
        file.sync().unwrap();
        disk.sync_names().unwrap();
        disk.rename("a", "b").unwrap();
        assert_eq!(disk.names().unwrap(), ["b"]);
        disk.remove("b").unwrap();
        assert_eq!(file.extent().unwrap(), (10, false));
        assert_eq!(disk.open("b").unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
