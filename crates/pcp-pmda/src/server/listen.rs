//! Sockets to be connected to.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::sys::socket::{getsockopt, sockopt};

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
    Tcp(TcpListener),
    Unix(UnixListener),
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
    pub fn inside(socket: UnixStream) -> Peer {
        Peer { attributes: credentials(&socket), socket: socket.into(), address: "local:".to_owned() }
    }
}

impl Listener {
    pub fn bind(address: &Listen) -> io::Result<Listener> {
        let socket = match address {
            Listen::Tcp(address) => {
                let socket = TcpListener::bind(address)?;
                socket.set_nonblocking(true)?;
                Socket::Tcp(socket)
            }
            Listen::Unix { path, mode } => {
                remove_stale(path)?;
                let socket = UnixListener::bind(path)?;
                fs::set_permissions(path, fs::Permissions::from_mode(*mode))?;
                socket.set_nonblocking(true)?;
                Socket::Unix(socket)
            }
        };
        let address = match &socket {
            Socket::Tcp(socket) => Listen::Tcp(socket.local_addr()?),
            Socket::Unix(_) => address.clone(),
        };
        Ok(Listener { socket, address })
    }

    /// Where it really listens: with the port the system has chosen.
    pub fn address(&self) -> &Listen {
        &self.address
    }

    pub fn fd(&self) -> RawFd {
        match &self.socket {
            Socket::Tcp(socket) => socket.as_raw_fd(),
            Socket::Unix(socket) => socket.as_raw_fd(),
        }
    }

    /// The next who has connected; `None` if nobody waits.
    pub fn accept(&self) -> io::Result<Option<Peer>> {
        loop {
            let peer = match &self.socket {
                Socket::Tcp(socket) => socket.accept().and_then(|(socket, address)| {
                    socket.set_nodelay(true)?;
                    let address = address.ip().to_string();
                    Ok(Peer { socket: socket.into(), address, attributes: Attributes::default() })
                }),
                Socket::Unix(socket) => socket.accept().map(|(socket, _)| {
                    let attributes = credentials(&socket);
                    Peer { socket: socket.into(), address: "unix:".to_owned(), attributes }
                }),
            };
            match peer {
                Ok(peer) => return Ok(Some(peer)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                // Gone again before it was accepted.
                Err(error)
                    if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listen::Unix { path, .. } = &self.address {
            // Somebody may have removed it already.
            let _ = fs::remove_file(path);
        }
    }
}

/// Who is at the other end of a Unix socket, according to the kernel.
fn credentials(socket: &UnixStream) -> Attributes {
    match getsockopt(socket, sockopt::PeerCredentials) {
        Ok(peer) => Attributes {
            uid: Some(peer.uid()),
            gid: Some(peer.gid()),
            pid: Some(peer.pid()),
            ..Attributes::default()
        },
        Err(_) => Attributes::default(),
    }
}

/// Removes a socket that nobody listens on any more, left behind by a process that was killed.
fn remove_stale(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(file) if !file.file_type().is_socket() => Err(ErrorKind::AlreadyExists.into()),
        Ok(_) => match UnixStream::connect(path) {
            Ok(_) => Err(ErrorKind::AddrInUse.into()),
            Err(_) => fs::remove_file(path),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unix_sockets_replace_dead_ones_only_and_go_with_the_listener() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listen = Listen::Unix { path: path.clone(), mode: 0o660 };
        // Dropping the std listener leaves the file behind, as a killed process does.
        drop(UnixListener::bind(&path).unwrap());
        let listener = Listener::bind(&listen).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        assert_eq!(Listener::bind(&listen).unwrap_err().kind(), ErrorKind::AddrInUse);
        let _client = UnixStream::connect(&path).unwrap();
        let peer = (0..1000).find_map(|_| listener.accept().unwrap()).unwrap();
        assert_eq!(peer.attributes.uid, Some(nix::unistd::geteuid().as_raw()));
        drop(listener);
        assert!(!path.exists());
        fs::write(&path, "x").unwrap();
        assert_eq!(Listener::bind(&listen).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert!(path.exists());
    }
}
