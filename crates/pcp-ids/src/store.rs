//! The file of a map: every write to it, and every sync, goes through [`Disk`].

use std::fs::{self, File};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::Flock;
use pcp_files::{Directory, Disk, DiskFile, LockError};

use crate::error::IdsError;

/// What was read of files, on its way to the disk: a process that was killed may have left it, and the files' names, in the
/// system's memory only, and from now on it is relied on. As long as this is there, nobody else can use the files.
///
/// **Cost:** two waits for the disk a file, whether or not anything is left to write, if each finishes by itself; one a file, and one for
/// their directory, if they [finish together](Settling::with). None for a file without identifiers, on which nobody relies.
#[derive(Debug, Default)]
#[must_use]
pub struct Settling {
    files: Vec<Unsettled>,
}

#[derive(Debug)]
struct Unsettled {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    file: Arc<dyn DiskFile>,
}

impl Settling {
    /// This, and that of another file of the same directory.
    pub fn with(mut self, other: Settling) -> Settling {
        self.files.extend(other.files);
        self
    }

    /// Whether there is nothing to wait for.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns when everything is on disk.
    ///
    /// # Errors
    /// [`IdsError::Io`].
    pub fn finish(self) -> Result<(), IdsError> {
        for Unsettled { path, file, .. } in &self.files {
            file.sync().map_err(|source| IdsError::Io { path: path.clone(), source })?;
        }
        // Some file systems cannot sync a directory.
        let _ = self.files.last().map(|last| last.disk.sync_names());
        Ok(())
    }
}

/// A file with a name on a disk.
#[derive(Debug)]
pub(crate) struct Store {
    disk: Arc<dyn Disk>,
    name: String,
    file: Arc<dyn DiskFile>,
    len: u64,
    /// Whether its name survives a loss of power, or will when its [`Settling`] has finished.
    named: bool,
    /// Whether what others have left of it is gone.
    swept: bool,
    /// Of a file of the system: where it is, and the file with the lock that keeps other processes away.
    lock: Option<(PathBuf, Arc<Flock<File>>)>,
}

impl Store {
    /// The file at `path`, for this process alone; made, and its directory, if it is missing.
    pub(crate) fn lock(path: &Path) -> Result<Store, IdsError> {
        let fail = |source| IdsError::Io { path: path.to_owned(), source };
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| fail(io::Error::other("a name that is no text")))?;
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let lock = match locked(path) {
            Err(IdsError::File(error)) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(dir).map_err(fail)?;
                // The name of the directory is to be there, too, when that of the file is.
                let above = dir.parent().and_then(|above| File::open(above).ok());
                above.map_or(Ok(()), |above| above.sync_all()).map_err(fail)?;
                locked(path)?
            }
            locked => locked?,
        };
        let file = Arc::new(lock);
        let len = file.extent().map_err(fail)?.0;
        let (disk, lock) = (Arc::new(Directory::of(dir)), Some((path.to_owned(), Arc::clone(&file))));
        Ok(Store { disk, name: name.to_owned(), file, len, named: false, swept: false, lock })
    }

    /// The file of this name on any disk, which nobody else uses; made if it is missing.
    pub(crate) fn on(disk: Arc<dyn Disk>, name: &str) -> io::Result<Store> {
        let file = disk.edit(name)?;
        let len = file.extent()?.0;
        Ok(Store { disk, name: name.to_owned(), file, len, named: false, swept: false, lock: None })
    }

    /// What messages call it.
    pub(crate) fn path(&self) -> &Path {
        self.lock.as_ref().map_or(Path::new(&self.name), |(path, _)| path)
    }

    /// All of it.
    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.len as usize];
        let len = self.file.read_at(&mut bytes, 0)?;
        bytes.truncate(len);
        Ok(bytes)
    }

    /// Cuts off what is behind the first `len` bytes.
    pub(crate) fn cut(&mut self, len: usize) -> io::Result<()> {
        self.file.set_len(len as u64)?;
        self.len = len as u64;
        Ok(())
    }

    /// What is still to be done so that what is there, and its name, survives a loss of power.
    pub(crate) fn settling(&mut self) -> Settling {
        self.named = true;
        let file = Unsettled {
            path: self.path().to_owned(),
            disk: Arc::clone(&self.disk),
            file: Arc::clone(&self.file),
        };
        Settling { files: vec![file] }
    }

    /// Begins an empty file with bytes that nobody relies on before [`Store::append`] brings them to disk with its own.
    pub(crate) fn begin(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(&[bytes], 0)?;
        self.len = bytes.len() as u64;
        Ok(())
    }

    /// Appends bytes, which are on disk then, and not only on their way.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.file.write_at(&[bytes], self.len);
        if let Err(error) = written.and_then(|()| self.file.sync()) {
            // Half a line must not become part of the next one, nor a whole one be found later.
            let _ = self.file.set_len(self.len);
            return Err(error);
        }
        self.len += bytes.len() as u64;
        if !self.named {
            // Some file systems cannot sync a directory.
            let _ = self.disk.sync_names();
            self.named = true;
        }
        Ok(())
    }

    /// Puts another file in its place, as a whole: readers, and a crash, see the old one or the new one.
    pub(crate) fn replace(&mut self, bytes: &[u8]) -> Result<(), IdsError> {
        if let Some((path, _)) = &self.lock
            && !std::mem::replace(&mut self.swept, true)
        {
            // What a process before this one has left that was killed in here: one file at most, as this is where they are made. Not
            // when the file is opened, as the whole directory is looked through for it, and an agent opens a dozen.
            pcp_files::sweep(path);
        }
        let random = RandomState::new().build_hasher().finish();
        let temporary = pcp_files::temporary(&self.name, random);
        let replaced = self.replace_by(&temporary, bytes);
        if replaced.is_err() {
            // Nobody is left to be told of another error.
            let _ = self.disk.remove(&temporary);
        }
        replaced
    }

    fn replace_by(&mut self, temporary: &str, bytes: &[u8]) -> Result<(), IdsError> {
        let path = self.path().to_owned();
        let fail = |source| IdsError::Io { path: path.clone(), source };
        let file = self.disk.create(temporary).map_err(fail)?;
        file.write_at(&[bytes], 0).map_err(fail)?;
        let lock = match &self.lock {
            Some((_, old)) => {
                Some((path.clone(), Arc::new(successor(old, &path.with_file_name(temporary))?)))
            }
            None => None,
        };
        file.sync().map_err(fail)?;
        self.disk.rename(temporary, &self.name).map_err(fail)?;
        (self.file, self.lock, self.len) = (file, lock, bytes.len() as u64);
        // The name is there; some file systems cannot sync a directory.
        let _ = self.disk.sync_names();
        self.named = true;
        Ok(())
    }
}

/// The new file is whose the old one was, as root may do this for an agent that runs as somebody else, and locked before
/// others can find it: whoever waits for the old file's lock looks again then.
fn successor(old: &Flock<File>, new: &Path) -> Result<Flock<File>, IdsError> {
    let fail = |source| IdsError::Io { path: new.to_owned(), source };
    let lock = locked(new)?;
    let (old, made) = (old.metadata().map_err(fail)?, lock.metadata().map_err(fail)?);
    if (old.uid(), old.gid()) != (made.uid(), made.gid()) {
        pcp_files::give(new, old.uid(), old.gid())?;
    }
    Ok(lock)
}

/// The file, made if it is missing, for this process alone.
fn locked(path: &Path) -> Result<Flock<File>, IdsError> {
    pcp_files::lock(path).map_err(|problem| match problem {
        LockError::InUse(user) => IdsError::InUse { path: path.to_owned(), user },
        LockError::File(error) => error.into(),
        LockError::Io(source) => IdsError::Io { path: path.to_owned(), source },
        other => IdsError::Io { path: path.to_owned(), source: io::Error::other(other) },
    })
}
