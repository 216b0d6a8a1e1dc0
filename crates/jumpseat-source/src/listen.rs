//! Unix sockets to listen on: made with their permissions already set, without a gap, over a stale one.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Longest path of a Unix socket (`sun_path` without its NUL).
const MAX_PATH: usize = 107;

/// A socket could not be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The path does not fit a socket address.
    #[error("{}: the path of a Unix socket has at most {MAX_PATH} bytes, with 8 more while it is made", .0.display())]
    TooLong(PathBuf),
    /// There is something else at the path.
    #[error("{}: exists and is not a socket; remove it or configure another path", .0.display())]
    NotASocket(PathBuf),
    /// Another process listens there.
    #[error("{}: another process listens there; stop it or configure another path", .0.display())]
    InUse(PathBuf),
    /// Anything the system refused.
    #[error("{}: cannot {doing}: {error}", .path.display())]
    System {
        /// The socket's path.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// The system's answer.
        error: io::Error,
    },
}

/// A listening socket; its file is removed when this is dropped, if it is still the same.
#[derive(Debug)]
pub struct Listening {
    /// The socket, non-blocking.
    pub listener: UnixListener,
    path: PathBuf,
    /// Device and inode.
    file: (u64, u64),
}

impl Listening {
    /// Listens at `path` with permission bits `mode`. A socket nobody listens on any more is replaced.
    ///
    /// The socket is made under another name, gets its mode there and is then renamed, so that nobody
    /// can connect before the mode is set.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn bind(path: &Path, mode: u32) -> Result<Listening, ListenError> {
        let system = |doing| move |error| ListenError::System { path: path.to_owned(), doing, error };
        check_free(path)?;
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".{:x}", std::process::id() & 0xfff_ffff));
        let temporary = PathBuf::from(temporary);
        if temporary.as_os_str().len() > MAX_PATH {
            return Err(ListenError::TooLong(path.to_owned()));
        }
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(system("remove a left-over temporary socket")(error));
            }
            _ => {}
        }
        let listener = UnixListener::bind(&temporary).map_err(system("create the socket"))?;
        let made = fs::set_permissions(&temporary, fs::Permissions::from_mode(mode))
            .map_err(system("set the socket's mode"))
            .and_then(|()| fs::symlink_metadata(&temporary).map_err(system("look at the socket")))
            .and_then(|meta| {
                fs::rename(&temporary, path).map_err(system("put the socket in place"))?;
                Ok((meta.dev(), meta.ino()))
            });
        let file = match made {
            Ok(file) => file,
            Err(error) => {
                // Best effort: the error tells more than a failing clean-up would.
                let _ = fs::remove_file(&temporary);
                return Err(error);
            }
        };
        listener.set_nonblocking(true).map_err(system("make the socket non-blocking"))?;
        Ok(Listening { listener, path: path.to_owned(), file })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // A successor may have put its own socket there.
        let ours = fs::symlink_metadata(&self.path).is_ok_and(|meta| (meta.dev(), meta.ino()) == self.file);
        if ours {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn check_free(path: &Path) -> Result<(), ListenError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            return Err(ListenError::System { path: path.to_owned(), doing: "look at the path", error });
        }
        Ok(meta) if !meta.file_type().is_socket() => return Err(ListenError::NotASocket(path.to_owned())),
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Ok(_) => Err(ListenError::InUse(path.to_owned())),
        // A listener whose backlog is full is one, too.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(ListenError::InUse(path.to_owned())),
        Err(error) => {
            Err(ListenError::System { path: path.to_owned(), doing: "tell whether it is in use", error })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_stale_sockets_and_what_is_not_ours() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("s");
        let first = Listening::bind(&path, 0o600).expect("bind");
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o7777, 0o600);
        assert!(matches!(Listening::bind(&path, 0o600), Err(ListenError::InUse(_))));
        drop(first);
        assert!(!path.exists());

        drop(UnixListener::bind(&path).expect("left behind"));
        assert!(path.exists());
        let second = Listening::bind(&path, 0o666).expect("replaces a stale socket");
        fs::remove_file(&path).expect("somebody removes it");
        fs::write(&path, "precious").expect("and puts a file there");
        drop(second);
        assert!(path.exists(), "not ours");
        assert!(matches!(Listening::bind(&path, 0o666), Err(ListenError::NotASocket(_))));
        assert_eq!(fs::read_dir(dir.path()).expect("directory").count(), 1, "nothing left over");

        let long = dir.path().join("x".repeat(100));
        assert!(matches!(Listening::bind(&long, 0o600), Err(ListenError::TooLong(_))));
        let error = Listening::bind(Path::new("/nonexistent/dir/s"), 0o600).expect_err("no directory");
        assert!(error.to_string().contains("/nonexistent/dir/s: cannot create the socket"), "{error}");
    }
}
