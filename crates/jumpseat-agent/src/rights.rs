//! What a user may do with files, also one that this process is not.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nix::sys::stat::Mode;
use nix::unistd::{Gid, Uid, User, getegid, geteuid, getgrouplist, getgroups};

/// A user with its groups.
#[derive(Clone, Debug)]
pub(crate) struct Rights {
    name: String,
    uid: Uid,
    gids: Vec<Gid>,
}

impl Rights {
    /// Of the process.
    pub(crate) fn own() -> Rights {
        let mut gids = getgroups().unwrap_or_default();
        gids.push(getegid());
        Rights { name: crate::confine::user(), uid: geteuid(), gids }
    }

    /// Of a user of this machine.
    ///
    /// # Errors
    /// There is none of the name.
    pub(crate) fn of_user(name: &str) -> Result<Rights, String> {
        let user = User::from_name(name).ok().flatten();
        let user = user.ok_or_else(|| format!("there is no user {name:?} on this machine"))?;
        let text = std::ffi::CString::new(name).map_err(|error| error.to_string())?;
        let gids = getgrouplist(&text, user.gid).unwrap_or_else(|_| vec![user.gid]);
        Ok(Rights { name: user.name, uid: user.uid, gids })
    }

    /// The user's name.
    pub(crate) fn name(&self) -> String {
        self.name.clone()
    }

    /// Whether the user may do so with what is at a path: `wanted` has the bits of an owner. By permission bits: what else
    /// there may be, such as lists of access control, is not looked at.
    pub(crate) fn may(&self, path: &Path, wanted: Mode) -> bool {
        let Ok(path) = path.canonicalize() else { return false };
        let mut above = path.ancestors().skip(1);
        above.all(|dir| self.has(dir, Mode::S_IXUSR)) && self.has(&path, wanted)
    }

    fn has(&self, path: &Path, wanted: Mode) -> bool {
        let Ok(meta) = std::fs::metadata(path) else { return false };
        if self.uid.is_root() {
            // Root runs only what somebody may.
            return meta.is_dir() || !wanted.contains(Mode::S_IXUSR) || meta.mode() & 0o111 != 0;
        }
        let shift = match () {
            () if meta.uid() == self.uid.as_raw() => 0,
            () if self.gids.contains(&Gid::from_raw(meta.gid())) => 3,
            () => 6,
        };
        let wanted = wanted.bits() >> shift;
        meta.mode() & wanted == wanted
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn permissions_count_along_the_whole_path() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (inner, file) = (dir.path().join("inner"), dir.path().join("inner/file"));
        fs::create_dir(&inner).expect("writable");
        fs::write(&file, "").expect("writable");
        let set =
            |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
        set(dir.path(), 0o755);
        set(&inner, 0o755);
        set(&file, 0o640);
        let stranger = Rights { name: "nobody".into(), uid: Uid::from_raw(65_534), gids: Vec::new() };
        let member = Rights { gids: vec![getegid()], ..stranger.clone() };
        assert!(Rights::own().may(&file, Mode::S_IRUSR));
        assert!(member.may(&file, Mode::S_IRUSR) && !member.may(&file, Mode::S_IWUSR));
        assert!(!stranger.may(&file, Mode::S_IRUSR));
        set(&file, 0o644);
        assert!(stranger.may(&file, Mode::S_IRUSR));
        set(&inner, 0o750);
        assert!(!stranger.may(&file, Mode::S_IRUSR) && member.may(&file, Mode::S_IRUSR));
        assert!(!stranger.may(&dir.path().join("missing"), Mode::S_IRUSR));
        assert!(Rights::of_user("no such user").is_err());
    }
}
