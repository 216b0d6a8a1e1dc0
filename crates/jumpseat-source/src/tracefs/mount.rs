//! Where tracefs is mounted, or a place where it is from now on.

use std::fs;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::TracefsError;

/// Where the kernel wants tracefs to be.
const STANDARD: &str = "/sys/kernel/tracing";

/// A mounted tracefs. What was mounted in a place of its own is unmounted when this is dropped.
#[derive(Debug)]
pub struct Tracefs {
    root: PathBuf,
    own: bool,
}

impl Tracefs {
    /// Finds tracefs among the mounts; else mounts it at its standard place, where it stays for all to use; else
    /// in a directory of its own.
    ///
    /// # Errors
    /// [`TracefsError::Mount`].
    pub fn find() -> Result<Tracefs, TracefsError> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        if let Some(root) = mounted(&mounts).find(|root| is_usable(root)) {
            return Ok(Tracefs { root, own: false });
        }
        if !nix::unistd::geteuid().is_root() {
            return Err(TracefsError::Mount { error: nix::errno::Errno::EPERM });
        }
        let standard = Path::new(STANDARD);
        let Err(error) = mount_at(standard) else {
            return Ok(Tracefs { root: standard.to_owned(), own: false });
        };
        let refused = |error| TracefsError::Mount { error };
        let dir = std::env::temp_dir().join(format!("jumpseat-tracefs-{}", std::process::id()));
        // Not somebody else's directory, and nobody's business.
        fs::DirBuilder::new().create(&dir).map_err(|_| refused(error))?;
        match mount_at(&dir) {
            Ok(()) => Ok(Tracefs { root: dir, own: true }),
            Err(error) => {
                let _ = fs::remove_dir(&dir);
                Err(refused(error))
            }
        }
    }

    /// Whether it was mounted here, and goes with this.
    pub(super) fn is_own(&self) -> bool {
        self.own
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }
}

impl Drop for Tracefs {
    fn drop(&mut self) {
        if self.own {
            // Detached: it goes as soon as nobody uses it.
            let _ = umount2(&self.root, MntFlags::MNT_DETACH);
            let _ = fs::remove_dir(&self.root);
        }
    }
}

fn mount_at(dir: &Path) -> Result<(), nix::Error> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("nodev"), dir, Some("tracefs"), flags, None::<&str>)
}

/// Places of tracefs in the text of `/proc/self/mounts`, the standard one first.
fn mounted(mounts: &str) -> impl Iterator<Item = PathBuf> {
    let mut places: Vec<PathBuf> = mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            let (_, dir, kind) = (words.next()?, words.next()?, words.next()?);
            (kind == "tracefs").then(|| unescape(dir))
        })
        .collect();
    places.sort_by_key(|place| place != Path::new(STANDARD));
    places.into_iter()
}

fn is_usable(root: &Path) -> bool {
    root.join("instances").is_dir()
}

/// Blanks and the like are three octal digits behind a backslash there.
fn unescape(text: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let octal = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| first == b'\\') {
            Some(byte) => {
                out.push(byte);
                rest = &after[3..];
            }
            None => {
                out.push(first);
                rest = after;
            }
        }
    }
    std::ffi::OsString::from_vec(out).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read() {
        let text = "proc /proc proc rw 0 0\nnodev /my\\040place tracefs rw 0 0\nx /sys/kernel/tracing tracefs rw 0 0\n";
        let places: Vec<PathBuf> = mounted(text).collect();
        assert_eq!(places, [Path::new(STANDARD), Path::new("/my place")]);
    }
}
