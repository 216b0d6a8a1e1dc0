//! Which user the agent runs as (`docs/pcp/agent.md` 20, `__pmSetProcessIdentity(3)`).

use std::ffi::CString;
use std::io;
use std::path::Path;

use nix::errno::Errno;
use nix::unistd::{Gid, User, fchown, geteuid, getgroups, initgroups, setgid, setgroups, setuid};

use crate::log::LogFile;

/// The user PCP's own programs run as: `PCP_USER` of the environment or of `pcp.conf`, else `pcp`.
pub fn default_user() -> String {
    pcp_files::settings::user()
}

/// The number of [`default_user`], if there is one.
pub(crate) fn pcp_user() -> Option<u32> {
    User::from_name(&default_user()).ok().flatten().map(|user| user.uid.as_raw())
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
/// The log, if it is a file that was made here, and a Unix socket are given to the user before. The process keeps `groups`
/// besides the user's own, to make files for them.
///
/// # Errors
/// [`IdentityError`]. The process may have given up some rights by then: end it.
pub fn drop_privileges(
    user: &str,
    log: Option<&LogFile>,
    socket: Option<&Path>,
    groups: &[u32],
) -> Result<(), IdentityError> {
    if !geteuid().is_root() || user == "root" {
        return Ok(());
    }
    let refused = |step| {
        move |errno: Errno| IdentityError::Refused { user: user.to_owned(), step, error: errno.into() }
    };
    let account = User::from_name(user).map_err(refused("looking it up"))?;
    let account = account.ok_or_else(|| IdentityError::NoUser(user.to_owned()))?;
    let (uid, gid) = (account.uid, account.gid);
    if let Some(file) = log.and_then(|log| log.own.as_ref()) {
        fchown(file, Some(uid), Some(gid)).map_err(refused("chown of the log"))?;
    }
    if let Some(path) = socket {
        pcp_files::give(path, uid.as_raw(), gid.as_raw()).map_err(|error| IdentityError::Refused {
            user: user.to_owned(),
            step: "chown of the socket",
            error: error.into(),
        })?;
    }
    // Groups before the user: afterwards the right to change them is gone.
    let name = CString::new(user).map_err(|_| IdentityError::NoUser(user.to_owned()))?;
    initgroups(&name, gid).map_err(refused("initgroups"))?;
    if !groups.is_empty() {
        let mut all = getgroups().map_err(refused("getgroups"))?;
        all.extend(groups.iter().copied().map(Gid::from_raw));
        setgroups(&all).map_err(refused("setgroups"))?;
    }
    setgid(gid).map_err(refused("setgid"))?;
    setuid(uid).map_err(refused("setuid"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_user_is_told_of() {
        let result = drop_privileges("no-such-user-here", None, None, &[]);
        if geteuid().is_root() {
            assert!(matches!(result, Err(IdentityError::NoUser(name)) if name == "no-such-user-here"));
        } else {
            assert!(result.is_ok());
        }
    }

    #[test]
    fn staying_root_is_no_change() {
        drop_privileges("root", None, None, &[]).unwrap();
    }
}
