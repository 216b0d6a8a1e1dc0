//! Unix sockets to listen on: made with their permissions already set, without a gap, over a stale one.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, listen, socket};
use nix::sys::stat::{FchmodatFlags, Mode, fchmod, fchmodat};
use nix::unistd::{Gid, fchownat};

use crate::keep::{FileId, Holding, Kept, Spot};

/// Longest path of a Unix socket (`sun_path` without its NUL).
const MAX_PATH: usize = 107;

/// A socket could not be listened on.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", .path.display())]
pub struct ListenError {
    /// The socket's path.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: ListenProblem,
}

/// What is wrong with the path of a socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenProblem {
    /// The path does not fit a socket address.
    #[error("the path of a Unix socket has at most {MAX_PATH} bytes")]
    TooLong,
    /// There is something else at the path.
    #[error("exists and is not a socket; remove it or configure another path")]
    NotASocket,
    /// Another process listens there.
    #[error("another process listens there; stop it or configure another path")]
    InUse,
    /// Anything the system refused.
    #[error("cannot {doing}: {error}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// The system's answer.
        error: io::Error,
    },
}

impl From<ListenProblem> for io::Error {
    fn from(problem: ListenProblem) -> io::Error {
        let kind = match &problem {
            ListenProblem::TooLong => ErrorKind::InvalidInput,
            ListenProblem::NotASocket => ErrorKind::AlreadyExists,
            ListenProblem::InUse => ErrorKind::AddrInUse,
            ListenProblem::System { error, .. } => error.kind(),
        };
        io::Error::new(kind, problem)
    }
}

/// A listening socket; its file is removed when this is dropped, if it is still the same.
#[derive(Debug)]
pub struct UnixListening {
    /// The socket, non-blocking.
    pub listener: UnixListener,
    path: PathBuf,
    file: FileId,
    holding: Holding,
}

impl UnixListening {
    /// Listens at `path` with permission bits `mode`. A socket nobody listens on any more is replaced; anything else
    /// that is there, and a socket somebody listens on, is left alone.
    ///
    /// The socket is made under another name in the same directory, gets its mode there and is then renamed, so that
    /// at no moment anybody can connect whom `mode` keeps out.
    ///
    /// # Errors
    /// [`ListenError`]; nothing is left behind.
    pub fn bind(path: &Path, mode: u32) -> Result<UnixListening, ListenError> {
        UnixListening::bind_for(path, mode, None, &Kept::default())
    }

    /// As [`UnixListening::bind`], with a group of its own, which this process must be a member of unless it is root.
    /// One that was kept from the process before is taken up again, with who is waiting at it.
    ///
    /// # Errors
    /// As [`UnixListening::bind`].
    pub fn bind_for(
        path: &Path,
        mode: u32,
        group: Option<Gid>,
        kept: &Kept,
    ) -> Result<UnixListening, ListenError> {
        let problem = |problem| ListenError { path: path.to_owned(), problem };
        let is_there = |file| file_id(path).is_ok_and(|there| there == file);
        // Who holds it may be elsewhere.
        let held_at = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        if let Some((listener, file)) = kept.take_unix(&held_at, is_there) {
            let holding = kept.held(Spot::Unix { path: held_at, file });
            let taken = UnixListening { listener: listener.into(), path: path.to_owned(), file, holding };
            // What is configured may be another mode now, or another group.
            set_owner(path, mode, group).map_err(problem)?;
            return Ok(taken);
        }
        check_free(path).map_err(problem)?;
        let temporary = temporary_name(path);
        if path.as_os_str().len().max(temporary.as_os_str().len()) > MAX_PATH {
            return Err(problem(ListenProblem::TooLong));
        }
        // Of a process that had our id, and was killed between making and renaming it.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(problem(system("remove a left-over temporary socket")(error)));
            }
            _ => {}
        }
        let made = make(&temporary, mode, group).and_then(|(listener, file)| {
            fs::rename(&temporary, path).map_err(system("put the socket in place"))?;
            let holding = kept.hold(Spot::Unix { path: held_at, file }, listener.as_fd());
            Ok(UnixListening { listener, path: path.to_owned(), file, holding })
        });
        made.map_err(|error| {
            // Best effort: the error tells more than a failing clean-up would.
            let _ = fs::remove_file(&temporary);
            problem(error)
        })
    }
}

impl UnixListening {
    /// Whether who goes to the path still comes here.
    pub fn is_there(&self) -> bool {
        file_id(&self.path).is_ok_and(|file| file == self.file)
    }
}

impl Drop for UnixListening {
    fn drop(&mut self) {
        // A successor may have put its own socket there, or is to have this one.
        if !self.holding.is_left() && file_id(&self.path).is_ok_and(|file| file == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Listens on a new socket at `path`, with permission bits `mode`.
fn make(path: &Path, mode: u32, group: Option<Gid>) -> Result<(UnixListener, FileId), ListenProblem> {
    let listener = bind_within(path, mode).map_err(system("create the socket"))?;
    // The umask has taken bits away; nobody can connect before `listen`.
    set_owner(path, mode, group)?;
    listen(&listener, Backlog::MAXCONN).map_err(|error| system("listen on the socket")(error.into()))?;
    let file = file_id(path).map_err(system("look at the socket"))?;
    Ok((listener, file))
}

/// Gives a socket's file its group and mode. Whoever may write to the directory may have put a link there by now: what it leads
/// to keeps its own.
fn set_owner(path: &Path, mode: u32, group: Option<Gid>) -> Result<(), ListenProblem> {
    if let Some(group) = group {
        fchownat(AT_FDCWD, path, None, Some(group), AtFlags::AT_SYMLINK_NOFOLLOW)
            .map_err(|errno| system("give the socket its group")(errno.into()))?;
    }
    let mode = Mode::from_bits_truncate(mode);
    fchmodat(AT_FDCWD, path, mode, FchmodatFlags::NoFollowSymlink)
        .map_err(|errno| system("set the socket's mode")(errno.into()))
}

/// Binds a non-blocking socket whose file has no permissions besides `mode` from its first moment on.
fn bind_within(path: &Path, mode: u32) -> io::Result<UnixListener> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    // Linux gives the file the mode of the socket, less the umask (unix(7)). The umask itself, which would do as well,
    // is that of all threads.
    fchmod(&socket, Mode::from_bits_truncate(mode))?;
    bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(UnixListener::from(socket))
}

/// A name in the directory of `path` that no other thread or process uses.
fn temporary_name(path: &Path) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    path.with_file_name(format!(".{:x}.{number:x}", std::process::id()))
}

fn check_free(path: &Path) -> Result<(), ListenProblem> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(system("look at the path")(error)),
        Ok(meta) if !meta.file_type().is_socket() => return Err(ListenProblem::NotASocket),
        Ok(_) => {}
    }
    match is_served(path) {
        Ok(false) => Ok(()),
        Ok(true) => Err(ListenProblem::InUse),
        Err(error) => Err(system("tell whether it is in use")(error)),
    }
}

/// Whether a process listens on the socket at `path`, also one that has not accepted anybody for so long that no more
/// fit its backlog. Waits for nobody: to connect to such a one would not end.
///
/// # Errors
/// What the system says where it cannot be told.
pub fn is_served(path: &Path) -> io::Result<bool> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let probe = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    match connect(probe.as_raw_fd(), &UnixAddr::new(path)?) {
        // A Unix socket connects at once or not at all; what says "later" is a full backlog.
        Ok(()) | Err(Errno::EAGAIN | Errno::EINPROGRESS) => Ok(true),
        Err(Errno::ECONNREFUSED) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

fn file_id(path: &Path) -> io::Result<FileId> {
    fs::symlink_metadata(path).map(|meta| (meta.dev(), meta.ino()))
}

fn system(doing: &'static str) -> impl Fn(io::Error) -> ListenProblem {
    move |error| ListenProblem::System { doing, error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn problem(path: &Path) -> ListenProblem {
        UnixListening::bind(path, 0o600).expect_err("not ours").problem
    }

    #[test]
    fn modes_stale_sockets_and_what_is_not_ours() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("s");
        let first = UnixListening::bind(&path, 0o600).expect("bind");
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o7777, 0o600);
        assert!(matches!(problem(&path), ListenProblem::InUse));
        drop(first);
        assert!(!path.exists());

        drop(UnixListener::bind(&path).expect("left behind"));
        assert!(path.exists());
        let second = UnixListening::bind(&path, 0o666).expect("replaces a stale socket");
        UnixStream::connect(&path).expect("it is listened on");
        fs::remove_file(&path).expect("somebody removes it");
        fs::write(&path, "precious").expect("and puts a file there");
        drop(second);
        assert!(path.exists(), "not ours");
        assert!(matches!(problem(&path), ListenProblem::NotASocket));
        assert_eq!(fs::read_dir(dir.path()).expect("directory").count(), 1, "nothing left over");

        let long = dir.path().join("x".repeat(100));
        assert!(matches!(problem(&long), ListenProblem::TooLong));
        let error = UnixListening::bind(Path::new("/nonexistent/dir/s"), 0o600).expect_err("no directory");
        assert!(error.to_string().contains("/nonexistent/dir/s: cannot create the socket"), "{error}");
    }

    #[test]
    fn a_listener_that_accepts_nobody_is_found_without_waiting_for_it() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("s");
        assert_eq!(is_served(&path).expect_err("nothing there").kind(), ErrorKind::NotFound);
        let stuck = bind_within(&path, 0o600).expect("bind");
        listen(&stuck, Backlog::new(0).expect("a backlog")).expect("listens");
        // Each one that connects and is never accepted takes a place; the last of them finds none.
        let connects = |_: &i32| {
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            let client = socket(AddressFamily::Unix, SockType::Stream, flags, None).expect("a socket");
            let outcome = connect(client.as_raw_fd(), &UnixAddr::new(&path).expect("a short path"));
            std::mem::forget(client);
            outcome.is_ok()
        };
        assert!((0..100).take_while(connects).count() < 100, "the backlog is full");
        assert!(is_served(&path).expect("it is there"));
        assert!(matches!(problem(&path), ListenProblem::InUse));
        drop(stuck);
        assert!(!is_served(&path).expect("it is there"));
    }

    #[test]
    fn a_successors_socket_stays() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("s");
        let first = UnixListening::bind(&path, 0o600).expect("bind");
        fs::remove_file(&path).expect("somebody removes it");
        let second = UnixListening::bind(&path, 0o600).expect("bind");
        drop(first);
        UnixStream::connect(&path).expect("the second listens");
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_never_has_wider_permissions_than_asked_for() {
        let dir = tempfile::tempdir().expect("temporary directory");
        for mode in [0o600, 0o660, 0o620, 0o000] {
            let path = dir.path().join(format!("{mode:o}"));
            // As it is before anything else is done to it, whatever the umask is.
            let _socket = bind_within(&path, mode).expect("bind");
            let first = fs::symlink_metadata(&path).expect("there").mode() & 0o7777;
            assert_eq!(first & !mode, 0, "{first:o} is wider than {mode:o}");
            UnixStream::connect(&path).expect_err("nobody listens yet");
        }
    }

    #[test]
    fn a_link_to_a_file_is_left_alone() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "precious").expect("a file");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        assert!(matches!(problem(&link), ListenProblem::NotASocket));
        assert_eq!(fs::read(&file).expect("there"), b"precious");
    }
}
