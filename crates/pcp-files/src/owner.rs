//! What a file is, whose it is, and whose it becomes.

use std::os::fd::AsFd;
use std::path::Path;

use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{FileStat, SFlag, fstat};
use nix::unistd::{Gid, Uid, fchownat, geteuid};

use crate::error::{FileError, FileProblem};
use crate::place::Place;

pub(crate) const REGULAR: &str = "a regular file";
pub(crate) const DEVICE: &str = "a character device";
pub(crate) const LINK: &str = "a symbolic link";
const SOCKET: &str = "a socket";

/// Gives a regular file without a second name, or a socket, to somebody. What is there is held while it is looked at,
/// so that nothing else can take its place.
///
/// # Errors
/// [`FileError`]: nothing was changed.
pub fn give(path: &Path, uid: u32, gid: u32) -> Result<(), FileError> {
    let place = Place::of(path)?;
    let held = place.open(&place.name, OFlag::O_PATH).map_err(|errno| place.failed(errno))?;
    let stat = fstat(&held).map_err(|errno| place.failed(errno))?;
    match kind_of(stat.st_mode) {
        SOCKET => {}
        _ => regular(&stat).and_then(|()| one_name(&stat)).map_err(|problem| place.failed(problem))?,
    }
    let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
    fchownat(held.as_fd(), "", uid, gid, AtFlags::AT_EMPTY_PATH).map_err(|errno| place.failed(errno))
}

/// What a file of this mode is, in words.
pub(crate) fn kind_of(mode: u32) -> &'static str {
    match SFlag::from_bits_truncate(mode & SFlag::S_IFMT.bits()) {
        SFlag::S_IFREG => REGULAR,
        SFlag::S_IFDIR => "a directory",
        SFlag::S_IFLNK => LINK,
        SFlag::S_IFIFO => "a FIFO",
        SFlag::S_IFSOCK => SOCKET,
        SFlag::S_IFBLK => "a block device",
        SFlag::S_IFCHR => DEVICE,
        _ => "of an unknown kind",
    }
}

/// Whether it is a regular file.
pub(crate) fn regular(stat: &FileStat) -> Result<(), FileProblem> {
    only(stat.st_mode, REGULAR)
}

/// Whether a file of this mode is what is allowed.
pub(crate) fn only(mode: u32, allowed: &'static str) -> Result<(), FileProblem> {
    match kind_of(mode) {
        found if found == allowed => Ok(()),
        LINK => Err(FileProblem::Link),
        found => Err(FileProblem::Kind { found, allowed }),
    }
}

/// Whether it has no second name: writing to it would write to a file elsewhere.
pub(crate) fn one_name(stat: &FileStat) -> Result<(), FileProblem> {
    // 32 bits on some machines.
    #[allow(clippy::useless_conversion)]
    match u64::from(stat.st_nlink) {
        0 | 1 => Ok(()),
        names => Err(FileProblem::Names { names }),
    }
}

/// Whether it is of somebody who may put files in its place anyway.
pub(crate) fn of_ours(stat: &FileStat, place: &Place) -> Result<(), FileProblem> {
    if [0, geteuid().as_raw(), place.dir_owner()?].contains(&stat.st_uid) {
        return Ok(());
    }
    Err(FileProblem::Owner { uid: stat.st_uid })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::os::unix::net::UnixListener;

    #[test]
    fn only_files_and_sockets_with_one_name_are_given_away() {
        const NOBODY: u32 = 65534;
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "").expect("writable");
        fs::write(at("twice"), "").expect("writable");
        fs::hard_link(at("twice"), at("second")).expect("writable");
        symlink("file", at("link")).expect("writable");
        let _socket = UnixListener::bind(at("socket")).expect("bound");
        let error = |name: &str| give(&at(name), NOBODY, NOBODY).expect_err(name).to_string();
        assert!(error("link").contains("link: is a symbolic link; only a regular file is allowed"));
        assert!(error("twice").contains("has 2 names"));
        assert!(error(".").contains("is a directory") || error(".").contains("Is a directory"));
        for name in ["file", "socket"] {
            match geteuid().is_root() {
                true => {
                    give(&at(name), NOBODY, NOBODY).expect(name);
                    assert_eq!(fs::symlink_metadata(at(name)).expect("there").uid(), NOBODY);
                }
                false => assert!(error(name).contains("not permitted"), "{}", error(name)),
            }
        }
    }
}
