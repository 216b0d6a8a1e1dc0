//! [`Place`]: a name in a directory that is held open.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, OpenHow, ResolveFlag, openat, openat2, readlinkat};
use nix::sys::stat::{FileStat, Mode, fstat, fstatat};
use nix::unistd::geteuid;

use crate::error::{FileError, FileProblem};
use crate::owner::{LINK, kind_of};

/// As the system's own limit.
const MAX_LINKS: usize = 40;

/// A name in a directory that is held open, so that nobody can put another directory in its place.
#[derive(Debug)]
pub(crate) struct Place {
    /// Opened with `O_PATH`: good for reaching what is in it, and for nothing else.
    pub dir: OwnedFd,
    pub name: OsString,
    path: PathBuf,
}

impl Place {
    /// The place of `path`.
    ///
    /// # Errors
    /// [`FileProblem::LinkOnTheWay`], or the system's.
    pub(crate) fn of(path: &Path) -> Result<Place, FileError> {
        let failed = |problem| FileError { path: path.to_owned(), problem };
        let name = path.file_name().ok_or_else(|| failed(Errno::EISDIR.into()))?.to_owned();
        let dir = walk(path.parent().unwrap_or(Path::new(""))).map_err(failed)?;
        Ok(Place { dir, name, path: path.to_owned() })
    }

    /// The error for a problem with what is here.
    pub(crate) fn failed(&self, problem: impl Into<FileProblem>) -> FileError {
        FileError { path: self.path.clone(), problem: problem.into() }
    }

    /// What is at the name, links not followed; `None` if there is nothing.
    pub(crate) fn look(&self) -> Result<Option<FileStat>, FileError> {
        self.stat(&self.name).map_err(|errno| self.failed(errno))
    }

    /// Whether there is anything at another name in the same directory.
    pub(crate) fn has(&self, name: &OsStr) -> Result<bool, Errno> {
        self.stat(name).map(|found| found.is_some())
    }

    fn stat(&self, name: &OsStr) -> Result<Option<FileStat>, Errno> {
        match fstatat(&self.dir, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// The error for a problem with another name in the same directory.
    pub(crate) fn failed_beside(&self, name: &OsStr, problem: impl Into<FileProblem>) -> FileError {
        FileError { path: self.path.with_file_name(name), problem: problem.into() }
    }

    /// Opens the name, or another one in the same directory. A link there is not followed, and nothing is waited for.
    pub(crate) fn open(&self, name: &OsStr, flags: OFlag) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        // Narrowed by the umask, as for every file that a program makes without saying otherwise.
        patiently(|| openat(&self.dir, name, flags, Mode::from_bits_truncate(0o666)))
    }

    /// Whose the directory is.
    pub(crate) fn dir_owner(&self) -> Result<u32, Errno> {
        fstat(&self.dir).map(|stat| stat.st_uid)
    }
}

/// Opens a directory.
fn walk(dir: &Path) -> Result<OwnedFd, FileProblem> {
    // Where no link is on the way, as nearly everywhere, nothing has to be looked at: one call in place of two for each step.
    match without_links(dir) {
        Ok(dir) => Ok(dir),
        // Of a kernel before 5.6 or a filter of system calls, too. What it was is found out on the way.
        Err(_) => step_by_step(dir),
    }
}

/// Opens a directory unless there is a link on the way.
fn without_links(dir: &Path) -> Result<OwnedFd, Errno> {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let how = OpenHow::new().flags(flags).resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
    patiently(|| openat2(AT_FDCWD, dir, how))
}

/// Opens a directory, looking at each link on the way.
fn step_by_step(dir: &Path) -> Result<OwnedFd, FileProblem> {
    let start = if dir.is_absolute() { "/" } else { "." };
    let mut at = step(AT_FDCWD, start.as_ref(), OFlag::O_DIRECTORY)?;
    let mut rest = steps(dir);
    let mut so_far = PathBuf::from(if dir.is_absolute() { "/" } else { "" });
    let mut links = 0;
    while let Some(name) = rest.pop() {
        // Asking for a directory has the automounter mount what is to be there.
        match step(&at, &name, OFlag::O_DIRECTORY) {
            Ok(next) => {
                at = next;
                so_far.push(name);
                continue;
            }
            // A link, or no directory at all.
            Err(Errno::ENOTDIR | Errno::ELOOP) => {}
            Err(errno) => return Err(errno.into()),
        }
        let link = step(&at, &name, OFlag::empty())?;
        let stat = fstat(&link)?;
        if kind_of(stat.st_mode) != LINK {
            return Err(Errno::ENOTDIR.into());
        }
        if stat.st_uid != 0 && stat.st_uid != geteuid().as_raw() {
            return Err(FileProblem::LinkOnTheWay { link: so_far.join(name), uid: stat.st_uid });
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(Errno::ELOOP.into());
        }
        // Of the link that was looked at, whatever has that name by now.
        let target = PathBuf::from(readlinkat(&link, "")?);
        if target.is_absolute() {
            at = step(AT_FDCWD, "/".as_ref(), OFlag::O_DIRECTORY)?;
            so_far = PathBuf::from("/");
        }
        rest.extend(steps(&target));
    }
    Ok(at)
}

/// The steps of a path, the first one last.
fn steps(path: &Path) -> Vec<OsString> {
    let named = |component: Component<'_>| match component {
        Component::Normal(_) | Component::ParentDir => Some(component.as_os_str().to_owned()),
        _ => None,
    };
    path.components().rev().filter_map(named).collect()
}

fn step(at: impl std::os::fd::AsFd, name: &OsStr, flags: OFlag) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    patiently(|| openat(at.as_fd(), name, flags, Mode::empty()))
}

/// Tries again what a signal has interrupted.
fn patiently<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn ways_through_links_of_ours_and_around_in_circles() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(dir.path().join("a/b")).expect("writable");
        fs::write(dir.path().join("a/b/file"), "").expect("writable");
        symlink("a/../a/b", dir.path().join("relative")).expect("writable");
        symlink(dir.path().join("relative"), dir.path().join("absolute")).expect("writable");
        symlink("circle", dir.path().join("circle")).expect("writable");
        let dir_of = |way: &str| dir.path().canonicalize().expect("a directory").join(way);
        for (way, has_link) in [("a/b", false), ("relative", true), ("absolute", true), ("a/./b/../b", false)]
        {
            let place = Place::of(&dir_of(way).join("file")).expect(way);
            assert!(place.look().expect(way).is_some(), "{way}");
            // As on a kernel that cannot do it in one call.
            step_by_step(&dir_of(way)).expect(way);
            match without_links(&dir_of(way)) {
                Err(Errno::ENOSYS | Errno::EPERM) => {}
                opened => assert_eq!(opened.err(), has_link.then_some(Errno::ELOOP), "{way}"),
            }
        }
        let error = |way: &str| Place::of(&dir.path().join(way).join("file")).expect_err(way).to_string();
        assert!(error("circle").contains("ymbolic link"), "{}", error("circle"));
        assert!(error("a/b/file").contains("Not a directory"));
        assert!(error("a/none").contains("No such file"));
        assert!(Place::of(Path::new("Cargo.toml")).expect("here").look().expect("here").is_some());
        assert!(Place::of(Path::new("/")).is_err());
    }
}
