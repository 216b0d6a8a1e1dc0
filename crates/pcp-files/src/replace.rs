//! [`Replacement`]: a whole file takes the place of another.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, renameat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::error::FileError;
use crate::open::{Writes, made};
use crate::place::Place;

/// Names that are tried: that even one is taken is next to impossible.
const TRIES: usize = 8;
const END: &str = ".new";
/// Digits of the random part.
const DIGITS: usize = 16;

/// A file that will have a name by and by. Readers, and a crash, see the old file or the new one, never half of one.
#[derive(Debug)]
pub struct Replacement {
    place: Place,
    temporary: Option<OsString>,
    file: File,
}

impl Replacement {
    /// Makes an empty file next to `path`, under a name that nobody can guess.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn begin(path: &Path) -> Result<Replacement, FileError> {
        let place = Place::of(path)?;
        for _ in 0..TRIES {
            let mut temporary = beginning(&place.name);
            temporary.push(ending(RandomState::new().build_hasher().finish()));
            match made(&place, &temporary, Writes::Anywhere) {
                Ok(file) => return Ok(Replacement { place, temporary: Some(temporary), file }),
                Err(Errno::EEXIST) => {}
                Err(errno) => return Err(place.failed(errno)),
            }
        }
        Err(place.failed(Errno::EEXIST))
    }

    /// The file, for reading and writing.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Removes the file that has the name, when it is worth nothing to anybody any more. The name is free until this one has it; but a
    /// file that replaces another is written out at once by some systems (ext4), and whoever gives it the name waits for that.
    pub fn drop_old(&mut self) {
        // If it is not there, or is a directory, all is as it was.
        let _ = unlinkat(&self.place.dir, self.place.name.as_os_str(), UnlinkatFlags::NoRemoveDir);
    }

    /// Gives it the name, when it is on disk: a crash must not leave a name without what it names.
    ///
    /// # Errors
    /// [`FileError`]; what had the name before has it still.
    pub fn finish(self) -> Result<File, FileError> {
        self.file.sync_data().map_err(|error| self.place.failed(error))?;
        self.renamed(true)
    }

    /// Gives it the name, for writers that say themselves what has to be on disk.
    ///
    /// # Errors
    /// As [`Replacement::finish`].
    pub fn finish_unsynced(self) -> Result<File, FileError> {
        self.renamed(false)
    }

    fn renamed(mut self, synced: bool) -> Result<File, FileError> {
        let file = self.file.try_clone().map_err(|error| self.place.failed(error))?;
        if let Some(temporary) = &self.temporary {
            let (dir, name) = (&self.place.dir, self.place.name.as_os_str());
            renameat(dir, temporary.as_os_str(), dir, name).map_err(|errno| self.place.failed(errno))?;
        }
        self.temporary = None;
        // To read a directory takes another right than to write to it.
        let dir = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        if synced && let Ok(dir) = self.place.open(OsStr::new("."), dir) {
            // The name is there; some file systems cannot sync a directory.
            let _ = File::from(dir).sync_all();
        }
        Ok(file)
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // Nobody is left to be told of an error.
            let _ = unlinkat(&self.place.dir, temporary.as_os_str(), UnlinkatFlags::NoRemoveDir);
        }
    }
}

/// Replaces a whole file, or makes it.
///
/// # Errors
/// [`FileError`]; the old file is still in place then.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let mut replacement = Replacement::begin(path)?;
    let written = replacement.file().write_all(bytes);
    written.map_err(|error| replacement.place.failed(error))?;
    replacement.finish().map(drop)
}

/// Removes what a process that was killed has left of its replacements of `path`. Whoever calls this is the only one
/// who replaces that file.
pub fn sweep(path: &Path) {
    let Ok(place) = Place::of(path) else { return };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let beginning = beginning(&place.name);
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let random = name.as_bytes().strip_prefix(beginning.as_bytes());
        let random = random.and_then(|rest| rest.strip_suffix(END.as_bytes()));
        if random.is_some_and(|random| random.len() == DIGITS && random.iter().all(u8::is_ascii_hexdigit)) {
            // What cannot be removed is in nobody's way.
            let _ = unlinkat(&place.dir, name.as_os_str(), UnlinkatFlags::NoRemoveDir);
        }
    }
}

/// The name of a temporary file that is to take the place of `name`: [`sweep`] finds it. `random`: so that nobody can guess it.
pub fn temporary(name: &str, random: u64) -> String {
    format!(".{name}.{}", ending(random))
}

fn ending(random: u64) -> String {
    format!("{random:0DIGITS$x}{END}")
}

/// How the names of temporary files begin; readers of archives pass over names with a leading dot.
fn beginning(name: &OsStr) -> OsString {
    let mut beginning = OsString::from(".");
    beginning.push(name);
    beginning.push(".");
    beginning
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn names(dir: &Path) -> Vec<OsString> {
        let entries = fs::read_dir(dir).expect("a directory");
        entries.map(|entry| entry.expect("an entry").file_name()).collect()
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_is_left_over() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        for text in ["one", "two"] {
            replace(&path, text.as_bytes()).expect("replaced");
            assert_eq!(fs::read_to_string(&path).expect("there"), text);
        }
        let mut given_up = Replacement::begin(&path).expect("made");
        given_up.file().write_all(b"three").expect("writable");
        assert_eq!(names(dir.path()).len(), 2);
        drop(given_up);
        assert_eq!(fs::read_to_string(&path).expect("there"), "two");
        assert_eq!(names(dir.path()), ["file"]);
    }

    #[test]
    fn a_link_is_replaced_and_what_it_leads_to_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let (precious, path) = (dir.path().join("precious"), dir.path().join("file"));
        fs::write(&precious, "kept").expect("writable");
        symlink(&precious, &path).expect("writable");
        replace(&path, b"new").expect("replaced");
        assert_eq!(fs::read(&precious).expect("there"), b"kept");
        assert!(!fs::symlink_metadata(&path).expect("there").is_symlink());
    }

    #[test]
    fn left_overs_of_killed_processes_are_swept_and_nothing_else() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.meta");
        std::mem::forget(Replacement::begin(&path).expect("made"));
        for name in [".a.meta.new", ".a.meta.0.new", ".other.0123456789abcdef.new", "a.meta"] {
            fs::write(dir.path().join(name), "").expect("writable");
        }
        assert_eq!(names(dir.path()).len(), 5);
        sweep(&path);
        assert_eq!(names(dir.path()).len(), 4);
    }
}
