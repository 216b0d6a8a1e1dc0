//! Which user the agent runs as (spec `agent.md` 20, `__pmSetProcessIdentity(3)`).

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{User, fchownat, geteuid, initgroups, setgid, setuid};

/// The user PCP's own programs run as.
pub const DEFAULT_USER: &str = "pcp";

/// The number of [`DEFAULT_USER`], if there is one.
pub(crate) fn pcp_user() -> Option<u32> {
    User::from_name(DEFAULT_USER).ok().flatten().map(|user| user.uid.as_raw())
}

/// Root could not become another user.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The user does not exist.
    #[error("cannot find the {0} user to switch to")]
    NoUser(String),
    /// A step on the way failed.
    #[error("cannot become the {user} user: {step}: {error}")]
    Refused {
        /// The user to become.
        user: String,
        /// What was being done.
        step: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

/// Becomes `user` for good, if this process is root; everybody else stays who they are, as with the C library.
/// Files in `own` (a Unix socket, the log) are given to the user before.
///
/// # Errors
/// [`IdentityError`]. The process may have given up some rights by then: end it.
pub fn drop_privileges(user: &str, own: &[&Path]) -> Result<(), IdentityError> {
    if !geteuid().is_root() || user == "root" {
        return Ok(());
    }
    let refused = |step| {
        move |errno: Errno| IdentityError::Refused { user: user.to_owned(), step, error: errno.into() }
    };
    let account = User::from_name(user).map_err(refused("looking it up"))?;
    let account = account.ok_or_else(|| IdentityError::NoUser(user.to_owned()))?;
    for path in own {
        give(path, &account).map_err(refused("chown"))?;
    }
    // Groups before the user: afterwards the right to change them is gone.
    let name = CString::new(user).map_err(|_| IdentityError::NoUser(user.to_owned()))?;
    initgroups(&name, account.gid).map_err(refused("initgroups"))?;
    setgid(account.gid).map_err(refused("setgid"))?;
    setuid(account.uid).map_err(refused("setuid"))
}

/// Makes a file or socket the user's. Neither what a symbolic link leads to nor a device (a log to `/dev/stderr`)
/// is the agent's to give away.
fn give(path: &Path, account: &User) -> Result<(), Errno> {
    match fs::symlink_metadata(path).map(|found| found.file_type()) {
        Ok(kind) if kind.is_file() || kind.is_socket() => {}
        _ => return Ok(()),
    }
    let (uid, gid) = (Some(account.uid), Some(account.gid));
    // The link itself, should somebody have put one there since: what it leads to is not ours to give.
    match fchownat(AT_FDCWD, path, uid, gid, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Err(Errno::ENOENT) => Ok(()),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_and_sockets_of_the_agents_own_are_given_away() {
        use std::os::unix::fs::{MetadataExt, symlink};
        let Ok(Some(nobody)) = User::from_name("nobody") else { panic!("no user nobody") };
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "").unwrap();
        symlink(&file, &link).unwrap();
        let me = geteuid().as_raw();
        give(&link, &nobody).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().uid(), me);
        give(dir.path(), &nobody).unwrap();
        assert_eq!(fs::metadata(dir.path()).unwrap().uid(), me);
        give(&dir.path().join("absent"), &nobody).unwrap();
        if geteuid().is_root() {
            give(&file, &nobody).unwrap();
            assert_eq!(fs::metadata(&file).unwrap().uid(), nobody.uid.as_raw());
        } else {
            assert_eq!(give(&file, &nobody), Err(Errno::EPERM));
        }
    }

    #[test]
    fn an_unknown_user_is_told_of() {
        let result = drop_privileges("no-such-user-here", &[]);
        if geteuid().is_root() {
            assert!(matches!(result, Err(IdentityError::NoUser(name)) if name == "no-such-user-here"));
        } else {
            assert!(result.is_ok());
        }
    }

    #[test]
    fn staying_root_is_no_change() {
        drop_privileges("root", &[]).unwrap();
    }
}
