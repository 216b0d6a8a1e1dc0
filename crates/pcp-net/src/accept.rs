//! Taking in connections.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;

use nix::sys::socket::{getsockopt, sockopt};

/// The next connection of a non-blocking listener, as its `accept` gives it; `None` if nobody waits.
///
/// # Errors
/// The system has no descriptors or no memory left: the connection stays in the backlog, and is to be accepted later.
/// A listener that is polled with edges has to be tried again without being told to.
pub fn next_connection<C>(mut accept: impl FnMut() -> io::Result<C>) -> io::Result<Option<C>> {
    loop {
        match accept() {
            Ok(connection) => return Ok(Some(connection)),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => return Ok(None),
                // A client that has gone again before its turn says nothing about the next one.
                ErrorKind::Interrupted | ErrorKind::ConnectionAborted => {}
                _ => return Err(error),
            },
        }
    }
}

/// Who is at the other end of a Unix socket: the kernel's word, as of the moment of connecting (`SO_PEERCRED`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCredentials {
    /// Process id.
    pub pid: i32,
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
}

impl PeerCredentials {
    /// Those of the peer of a connected Unix socket.
    ///
    /// # Errors
    /// It is no such socket.
    pub fn of(socket: &impl AsFd) -> io::Result<PeerCredentials> {
        let peer = getsockopt(&socket.as_fd(), sockopt::PeerCredentials)?;
        Ok(PeerCredentials { pid: peer.pid(), uid: peer.uid(), gid: peer.gid() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_of_the_listener_are_told() {
        let mut answers = [
            Err(ErrorKind::ConnectionAborted),
            Err(ErrorKind::Interrupted),
            Ok(7),
            Err(ErrorKind::WouldBlock),
            Err(ErrorKind::OutOfMemory),
        ]
        .into_iter();
        let mut accept = || answers.next().expect("one more").map_err(io::Error::from);
        assert_eq!(next_connection(&mut accept).expect("accepted"), Some(7));
        assert_eq!(next_connection(&mut accept).expect("nobody"), None);
        assert_eq!(next_connection(&mut accept).expect_err("none left").kind(), ErrorKind::OutOfMemory);
    }
}
