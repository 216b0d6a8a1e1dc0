//! Sockets to be connected to.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use nix::sys::socket::{setsockopt, sockopt::KeepAlive};
use pcp_net::{Kept, PeerCredentials, TcpListening, UnixListening, next_connection};

use crate::Attributes;

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// TCP. Port 0 is any free port.
    Tcp(SocketAddr),
    /// A Unix stream socket, made with these permission bits.
    Unix {
        /// Its path.
        path: PathBuf,
        /// Permission bits, such as 0o660.
        mode: u32,
    },
}

impl std::fmt::Display for Listen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Listen::Tcp(address) => address.fmt(f),
            Listen::Unix { path, .. } => path.display().fmt(f),
        }
    }
}

#[derive(Debug)]
pub(super) struct Listener {
    socket: Socket,
    address: Listen,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListening),
    Unix(UnixListening),
}

/// Somebody who has connected.
#[derive(Debug)]
pub(super) struct Peer {
    pub socket: OwnedFd,
    pub address: String,
    pub attributes: Attributes,
}

impl Peer {
    /// Somebody in this program, who can do what this program may.
    pub(super) fn inside(socket: UnixStream) -> Peer {
        Peer { attributes: attributes(&socket), socket: socket.into(), address: "local:".to_owned() }
    }
}

impl Listener {
    /// Listens. The file of a Unix socket is gone with the listener, unless it is another's by then.
    ///
    /// # Errors
    /// The system's; of a path that is somebody else's, `AlreadyExists` or `AddrInUse`, in words.
    pub(super) fn bind(address: &Listen, kept: &Kept) -> io::Result<Listener> {
        match address {
            Listen::Tcp(address) => {
                let socket = TcpListening::bind(*address, kept)?;
                let address = Listen::Tcp(socket.listener.local_addr()?);
                Ok(Listener { socket: Socket::Tcp(socket), address })
            }
            Listen::Unix { path, mode } => {
                // Whoever reports the error names the path.
                let socket =
                    UnixListening::bind_for(path, *mode, None, kept).map_err(|error| error.problem)?;
                Ok(Listener { socket: Socket::Unix(socket), address: address.clone() })
            }
        }
    }

    /// Where it really listens: with the port the system has chosen.
    pub(super) fn address(&self) -> &Listen {
        &self.address
    }

    pub(super) fn fd(&self) -> RawFd {
        match &self.socket {
            Socket::Tcp(socket) => socket.listener.as_raw_fd(),
            Socket::Unix(socket) => socket.listener.as_raw_fd(),
        }
    }

    /// The next who has connected; `None` if nobody waits.
    ///
    /// # Errors
    /// See [`next_connection`].
    pub(super) fn accept(&self) -> io::Result<Option<Peer>> {
        match &self.socket {
            Socket::Tcp(listening) => next_connection(|| {
                let (socket, address) = listening.listener.accept()?;
                socket.set_nodelay(true)?;
                // One whose machine has gone without a word is noticed some day.
                setsockopt(&socket, KeepAlive, &true)?;
                let host = address.ip();
                let attributes = Attributes { host: Some(host), ..Attributes::default() };
                Ok(Peer { socket: socket.into(), address: host.to_string(), attributes })
            }),
            Socket::Unix(listening) => next_connection(|| {
                let (socket, _) = listening.listener.accept()?;
                let attributes = attributes(&socket);
                Ok(Peer { socket: socket.into(), address: "unix:".to_owned(), attributes })
            }),
        }
    }
}

/// Who is at the other end of a Unix socket. Where the kernel does not tell, nobody in particular.
fn attributes(socket: &UnixStream) -> Attributes {
    match PeerCredentials::of(socket) {
        Ok(peer) => Attributes {
            uid: Some(peer.uid),
            gid: Some(peer.gid),
            pid: Some(peer.pid),
            ..Attributes::default()
        },
        Err(_) => Attributes::default(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::ErrorKind;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn unix_sockets_replace_dead_ones_only_and_go_with_the_listener() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listen = Listen::Unix { path: path.clone(), mode: 0o660 };
        // Dropping the std listener leaves the file behind, as a killed process does.
        drop(UnixListener::bind(&path).unwrap());
        let listener = Listener::bind(&listen, &Kept::default()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        assert_eq!(Listener::bind(&listen, &Kept::default()).unwrap_err().kind(), ErrorKind::AddrInUse);
        let _client = UnixStream::connect(&path).unwrap();
        let peer = (0..1000).find_map(|_| listener.accept().unwrap()).unwrap();
        assert_eq!(peer.attributes.uid, Some(nix::unistd::geteuid().as_raw()));
        drop(listener);
        assert!(!path.exists());
        fs::write(&path, "x").unwrap();
        assert_eq!(Listener::bind(&listen, &Kept::default()).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert!(path.exists());
    }

    #[test]
    fn what_is_not_the_listeners_own_stays_and_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listen = Listen::Unix { path: path.clone(), mode: 0o600 };
        let first = Listener::bind(&listen, &Kept::default()).unwrap();
        let error = Listener::bind(&listen, &Kept::default()).unwrap_err().to_string();
        assert_eq!(error, "another process listens there; stop it or configure another path");
        // Somebody else has taken the place while the first was running.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "precious").unwrap();
        drop(first);
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        let error = Listener::bind(&listen, &Kept::default()).unwrap_err().to_string();
        assert_eq!(error, "exists and is not a socket; remove it or configure another path");
        // The same for a successor's socket.
        fs::remove_file(&path).unwrap();
        let second = Listener::bind(&listen, &Kept::default()).unwrap();
        fs::remove_file(&path).unwrap();
        let third = Listener::bind(&listen, &Kept::default()).unwrap();
        drop(second);
        UnixStream::connect(&path).unwrap();
        drop(third);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind");
    }
}
