//! [`Workplace`]: a directory in which several files are written that get their names together.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, renameat};
use nix::sys::stat::{Mode, fstat, mkdirat};
use nix::unistd::{UnlinkatFlags, geteuid, linkat, unlinkat};

use crate::error::FileError;
use crate::place::Place;
use crate::replace::temporary;

/// Names that are tried: that even one is taken is next to impossible.
const TRIES: usize = 8;

/// A directory beside a path, under a name that nobody can guess and for this program's user alone; gone in the end.
///
/// It and the directory it is in are held open: whatever others do with names on the way, what gets a name is what was
/// written here, and gets it in the directory that was looked at first.
#[derive(Debug)]
pub struct Workplace {
    /// The path, whose directory is that of the names.
    beside: Place,
    name: OsString,
    dir: OwnedFd,
    path: PathBuf,
    files: Vec<OsString>,
}

impl Workplace {
    /// Makes one beside `path`, on the same file system. `files`: the names that files in it will have.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn beside(path: &Path, files: &[&str]) -> Result<Workplace, FileError> {
        let beside = Place::of(path)?;
        for _ in 0..TRIES {
            let random = RandomState::new().build_hasher().finish();
            let name: OsString = temporary(&beside.name.to_string_lossy(), random).into();
            match mkdirat(&beside.dir, name.as_os_str(), Mode::S_IRWXU) {
                Ok(()) => {}
                Err(Errno::EEXIST) => continue,
                Err(errno) => return Err(beside.failed(errno)),
            }
            let dir = match opened(&beside, &name) {
                Ok(dir) => dir,
                Err(errno) => {
                    // It is empty, or not the one that was made: then it may stay, and nobody is left to be told.
                    let _ = unlinkat(&beside.dir, name.as_os_str(), UnlinkatFlags::RemoveDir);
                    return Err(beside.failed(errno));
                }
            };
            let (path, files) = (path.with_file_name(&name), files.iter().map(OsString::from).collect());
            return Ok(Workplace { beside, name, dir, path, files });
        }
        Err(beside.failed(Errno::EEXIST))
    }

    /// Its path, to make files below.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives its files their names beside it, in that order: `names` has one for each, and nobody has one of them. All of
    /// them or none, and then the names are on disk, too; what is in the files is for who wrote them to sync.
    ///
    /// # Errors
    /// [`FileError`] with the name it is about, of the kind `AlreadyExists` if there is such a file.
    pub fn publish(self, names: &[OsString]) -> Result<(), FileError> {
        debug_assert_eq!(names.len(), self.files.len(), "a name for each file");
        for (at, (file, name)) in self.files.iter().zip(names).enumerate() {
            if let Err(errno) = self.named(file, name) {
                for there in &names[..at] {
                    // Nobody is left to be told of an error.
                    let _ = unlinkat(&self.beside.dir, there.as_os_str(), UnlinkatFlags::NoRemoveDir);
                }
                return Err(self.beside.failed_beside(name, errno));
            }
        }
        // To read a directory takes another right than to write to it.
        if let Ok(dir) = self.beside.open(OsStr::new("."), OFlag::O_RDONLY | OFlag::O_DIRECTORY) {
            // The names are there; some file systems cannot sync a directory.
            let _ = File::from(dir).sync_all();
        }
        Ok(())
    }

    fn named(&self, file: &OsStr, name: &OsStr) -> Result<(), Errno> {
        // A link, unlike a renaming, never takes a name that somebody has.
        match linkat(&self.dir, file, &self.beside.dir, name, AtFlags::empty()) {
            // a file system without links, such as vfat: nearly as good
            Err(Errno::EPERM | Errno::EOPNOTSUPP | Errno::ENOSYS) => {
                if self.beside.has(name)? {
                    return Err(Errno::EEXIST);
                }
                renameat(&self.dir, file, &self.beside.dir, name)
            }
            done => done,
        }
    }
}

/// Opens the directory that was made.
fn opened(beside: &Place, name: &OsStr) -> Result<OwnedFd, Errno> {
    let dir = beside.open(name, OFlag::O_PATH | OFlag::O_DIRECTORY)?;
    // Who may write to the directory may have put another one in its place by now.
    if fstat(&dir)?.st_uid != geteuid().as_raw() { Err(Errno::EPERM) } else { Ok(dir) }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        // What cannot be removed is in nobody's way.
        for file in &self.files {
            let _ = unlinkat(&self.dir, file.as_os_str(), UnlinkatFlags::NoRemoveDir);
        }
        let _ = unlinkat(&self.beside.dir, self.name.as_os_str(), UnlinkatFlags::RemoveDir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).expect("a directory");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("ours")).collect();
        names.sort();
        names
    }

    fn written(path: &Path) -> Workplace {
        let place = Workplace::beside(path, &["one", "two"]).expect("made");
        fs::write(place.path().join("one"), "1").expect("writable");
        fs::write(place.path().join("two"), "2").expect("writable");
        place
    }

    fn publish(place: Workplace) -> Result<(), FileError> {
        place.publish(&["a.one".into(), "a.two".into()])
    }

    #[test]
    fn files_get_their_names_together_and_nothing_is_left_over() {
        let dir = tempfile::tempdir().expect("a directory");
        let place = written(&dir.path().join("a"));
        assert_eq!(fs::metadata(place.path()).expect("there").permissions().mode() & 0o777, 0o700);
        publish(place).expect("nobody has the names");
        assert_eq!(names(dir.path()), ["a.one", "a.two"]);
        assert_eq!(fs::read_to_string(dir.path().join("a.two")).expect("there"), "2");
        drop(written(&dir.path().join("b")));
        assert_eq!(names(dir.path()), ["a.one", "a.two"]);
    }

    #[test]
    fn a_name_that_somebody_has_stays_theirs_and_then_none_is_given() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, taken) = (dir.path().join("a"), dir.path().join("a.two"));
        fs::write(&taken, "theirs").expect("writable");
        let refused = publish(written(&path)).expect_err("somebody has it");
        assert_eq!((refused.kind(), &refused.path), (std::io::ErrorKind::AlreadyExists, &taken));
        assert_eq!(fs::read_to_string(&taken).expect("there"), "theirs");
        assert_eq!(names(dir.path()), ["a.two"]);
        fs::remove_file(&taken).expect("there");
        symlink(dir.path().join("elsewhere"), &taken).expect("writable");
        publish(written(&path)).expect_err("a link is somebody's too");
        assert_eq!(names(dir.path()), ["a.two"]);
    }

    #[test]
    fn what_gets_a_name_was_written_here_whoever_puts_another_directory_in_its_place() {
        let dir = tempfile::tempdir().expect("a directory");
        let place = written(&dir.path().join("a"));
        fs::rename(place.path(), dir.path().join("moved")).expect("writable");
        fs::create_dir(place.path()).expect("writable");
        fs::write(place.path().join("one"), "of somebody else").expect("writable");
        publish(place).expect("nobody has the names");
        assert_eq!(fs::read_to_string(dir.path().join("a.one")).expect("there"), "1");
    }
}
