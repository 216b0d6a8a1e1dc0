//! Which user the agent runs as (spec `agent.md` 20, `__pmSetProcessIdentity(3)`).

use std::ffi::CString;
use std::path::Path;

use nix::errno::Errno;
use nix::unistd::{User, chown, geteuid, initgroups, setgid, setuid};

/// The user PCP's own programs run as.
pub const DEFAULT_USER: &str = "pcp";

/// Root could not become another user.
#[derive(Debug, thiserror::Error)]
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
        error: Errno,
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
    let refused = |step| move |error| IdentityError::Refused { user: user.to_owned(), step, error };
    let account = User::from_name(user).map_err(refused("looking it up"))?;
    let account = account.ok_or_else(|| IdentityError::NoUser(user.to_owned()))?;
    for path in own {
        match chown(*path, Some(account.uid), Some(account.gid)) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(error) => return Err(refused("chown")(error)),
        }
    }
    let name = CString::new(user).map_err(|_| IdentityError::NoUser(user.to_owned()))?;
    initgroups(&name, account.gid).map_err(refused("initgroups"))?;
    setgid(account.gid).map_err(refused("setgid"))?;
    setuid(account.uid).map_err(refused("setuid"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
