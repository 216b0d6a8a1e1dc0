//! Opening: a look, `O_NOFOLLOW`, and another look at the descriptor.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl, renameat};
use nix::sys::stat::{FileStat, fstat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::error::{FileError, FileProblem};
use crate::owner::{DEVICE, REGULAR, of_ours, one_name, only, regular};
use crate::place::Place;

/// Where writes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Where the writer says.
    Anywhere,
    /// At the end, wherever that is by then.
    AtEnd,
}

impl Writes {
    fn flags(self) -> OFlag {
        match self {
            Writes::Anywhere => OFlag::O_RDWR,
            Writes::AtEnd => OFlag::O_RDWR | OFlag::O_APPEND,
        }
    }
}

/// Whether a path may end in a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// No; and on the way only links of root and of the effective user count.
    Refused,
    /// Yes, and whoever has made it chooses what is read.
    Followed,
}

/// Opens a file of ours for reading.
///
/// # Errors
/// [`FileError`]; its kind is `NotFound` if there is none.
pub fn read(path: &Path) -> Result<File, FileError> {
    let place = Place::of(path)?;
    let (file, stat) = opened(&place, OFlag::O_RDONLY)?;
    of_ours(&stat, &place).map_err(|problem| place.failed(problem))?;
    Ok(file)
}

/// Opens a file of ours for reading and writing; makes it if it is missing.
///
/// # Errors
/// [`FileError`].
pub fn open(path: &Path, writes: Writes) -> Result<File, FileError> {
    let place = Place::of(path)?;
    let (file, stat) = opened(&place, writes.flags() | OFlag::O_CREAT)?;
    of_ours(&stat, &place).and_then(|()| one_name(&stat)).map_err(|problem| place.failed(problem))?;
    Ok(file)
}

/// Makes a file, for reading and writing.
///
/// # Errors
/// [`FileError`]; its kind is `AlreadyExists` if there is anything of that name.
pub fn create(path: &Path, writes: Writes) -> Result<File, FileError> {
    let place = Place::of(path)?;
    made(&place, &place.name, writes).map_err(|errno| place.failed(errno))
}

/// Makes a file for a new log; one of that name, or a link, gets the name with `suffix` first.
///
/// # Errors
/// [`FileError`]: nothing is done if what is there is neither a file nor a link.
pub fn begin_anew(path: &Path, suffix: &str) -> Result<File, FileError> {
    let place = Place::of(path)?;
    if let Some(found) = place.look()? {
        match regular(&found) {
            // What moves is the link itself; what it leads to stays as it is.
            Ok(()) | Err(FileProblem::Link) => {}
            Err(problem) => return Err(place.failed(problem)),
        }
        let mut previous = place.name.clone();
        previous.push(suffix);
        // In place of another one it would be written out at once by some systems (ext4), while its owner waits.
        let _ = unlinkat(&place.dir, previous.as_os_str(), UnlinkatFlags::NoRemoveDir);
        match renameat(&place.dir, place.name.as_os_str(), &place.dir, previous.as_os_str()) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(place.failed(errno)),
        }
    }
    made(&place, &place.name, Writes::AtEnd).map_err(|errno| place.failed(errno))
}

/// Opens a character device for writing, without ever waiting for it: what it does not take at once is an error then.
///
/// # Errors
/// [`FileError`].
pub fn device(path: &Path) -> Result<File, FileError> {
    let place = Place::of(path)?;
    let check = |stat: &FileStat| only(stat.st_mode, DEVICE).map_err(|problem| place.failed(problem));
    place.look()?.as_ref().map_or(Ok(()), check)?;
    let flags = OFlag::O_WRONLY | OFlag::O_APPEND;
    let file = place.open(&place.name, flags).map_err(|errno| place.failed(errno))?;
    check(&fstat(&file).map_err(|errno| place.failed(errno))?)?;
    Ok(File::from(file))
}

/// Opens anybody's regular file for reading. It stays `O_NONBLOCK`, which means nothing to a regular file.
///
/// # Errors
/// [`FileError`].
pub fn read_anyones(path: &Path, links: Links) -> Result<(File, Metadata), FileError> {
    let failed = |problem| FileError { path: path.to_owned(), problem };
    if links == Links::Refused {
        let (file, _) = opened(&Place::of(path)?, OFlag::O_RDONLY)?;
        let meta = file.metadata().map_err(|error| failed(error.into()))?;
        return Ok((file, meta));
    }
    // A device may do something when it is only opened.
    let check = |meta: Metadata| only(meta.mode(), REGULAR).map(|()| meta);
    let look = || {
        check(fs::metadata(path)?)?;
        let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
        let meta = check(file.metadata()?)?;
        Ok((file, meta))
    };
    look().map_err(failed)
}

/// Makes a file in the directory of a place.
pub(crate) fn made(place: &Place, name: &OsStr, writes: Writes) -> Result<File, Errno> {
    let file = place.open(name, writes.flags() | OFlag::O_CREAT | OFlag::O_EXCL)?;
    waiting(file, writes.flags())
}

/// Opens what is there, or is made there, if it is a regular file.
fn opened(place: &Place, flags: OFlag) -> Result<(File, FileStat), FileError> {
    let failed = |problem: FileProblem| place.failed(problem);
    // What it is, before it is opened: the errors of open(2) do not say it, and a device may do something by then.
    place.look()?.as_ref().map_or(Ok(()), regular).map_err(failed)?;
    let file = place.open(&place.name, flags).map_err(|errno| match errno {
        // Put there since.
        Errno::ELOOP => failed(FileProblem::Link),
        errno => failed(errno.into()),
    })?;
    let stat = fstat(&file).map_err(|errno| failed(errno.into()))?;
    regular(&stat).map_err(failed)?;
    let file = waiting(file, flags).map_err(|errno| failed(errno.into()))?;
    Ok((file, stat))
}

/// Takes `O_NONBLOCK` off again, which was for what turned out not to be there.
fn waiting(file: OwnedFd, flags: OFlag) -> Result<File, Errno> {
    fcntl(&file, FcntlArg::F_SETFL(flags & OFlag::O_APPEND))?;
    Ok(File::from(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, Read, Write};
    use std::os::unix::fs::symlink;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    #[test]
    fn files_of_ours_are_read_written_and_made() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        assert_eq!(read(&path).expect_err("not there yet").kind(), io::ErrorKind::NotFound);
        open(&path, Writes::AtEnd).expect("made").write_all(b"one").expect("writable");
        open(&path, Writes::AtEnd).expect("there").write_all(b"two").expect("writable");
        let mut text = String::new();
        read(&path).expect("there").read_to_string(&mut text).expect("readable");
        assert_eq!(text, "onetwo");
        assert_eq!(create(&path, Writes::Anywhere).expect_err("there").kind(), io::ErrorKind::AlreadyExists);
        begin_anew(&path, ".prev").expect("made").write_all(b"three").expect("writable");
        begin_anew(&dir.path().join("other"), ".prev").expect("made");
        assert_eq!(fs::read(dir.path().join("file.prev")).expect("moved"), b"onetwo");
    }

    #[test]
    fn what_is_no_file_of_ours_is_refused_and_not_waited_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        fs::write(at("precious"), "kept").expect("writable");
        symlink("precious", at("link")).expect("writable");
        symlink("absent", at("dangling")).expect("writable");
        fs::write(at("twice"), "kept").expect("writable");
        fs::hard_link(at("twice"), at("second")).expect("writable");
        mkfifo(&at("fifo"), Mode::S_IRWXU).expect("writable");
        fs::create_dir(at("dir")).expect("writable");
        let cases = [
            ("link", "is a symbolic link; only a regular file"),
            ("dangling", "is a symbolic link; only a regular file"),
            ("twice", "has 2 names (hard links); only one is allowed"),
            ("fifo", "is a FIFO; only a regular file is allowed: remove it, or configure another path"),
            ("dir", "is a directory; only a regular file"),
        ];
        for (name, expected) in cases {
            let error = open(&at(name), Writes::Anywhere).expect_err(name).to_string();
            assert!(error.contains(&format!("{name}: {expected}")), "{error}");
            if name != "twice" {
                let error = read(&at(name)).expect_err(name).to_string();
                assert!(error.contains(expected), "{error}");
                read_anyones(&at(name), Links::Refused).expect_err(name);
            }
        }
        assert!(!at("absent").exists());
        read_anyones(&at("link"), Links::Followed).expect("followed");
        read_anyones(&at("fifo"), Links::Followed).expect_err("no file");
        assert!(begin_anew(&at("fifo"), ".prev").expect_err("a FIFO").to_string().contains("is a FIFO"));
        begin_anew(&at("link"), ".prev").expect("moved away").write_all(b"x").expect("writable");
        assert_eq!(fs::read(at("precious")).expect("there"), b"kept");
        device(Path::new("/dev/null")).expect("everybody's").write_all(b"x").expect("writable");
        device(&at("fifo")).expect_err("no device");
    }
}
