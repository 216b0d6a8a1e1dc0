//! A connected socket, encrypted once both sides have agreed on it.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use super::socket::Socket;
use super::tls::Session;

/// Bytes to and from a collector. Nothing here waits.
pub(super) struct Stream {
    socket: Socket,
    session: Option<Box<Session>>,
}

impl Stream {
    pub(crate) fn new(socket: Socket) -> Stream {
        Stream { socket, session: None }
    }

    /// From here on, everything is encrypted.
    pub(crate) fn encrypt(&mut self, session: Session) {
        self.session = Some(Box::new(session));
    }

    /// Whether the two sides have not agreed on the encryption yet.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.is_handshaking())
    }

    /// Takes bytes to be sent; `WouldBlock` if none can be taken now.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(session) = &mut self.session {
            return session.write(&mut self.socket, bytes);
        }
        self.socket.write(bytes)
    }

    /// Gives bytes that have come; `WouldBlock` if there are none yet, 0 at the end.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(session) = &mut self.session {
            return session.read(&mut self.socket, buffer);
        }
        self.socket.read(buffer)
    }

    /// Waiting may last until so many bytes have come.
    pub(crate) fn wake_for(&self, bytes: usize) {
        self.socket.wake_for(bytes);
    }

    /// The session, once everything is encrypted.
    pub(crate) fn session(&self) -> Option<&Session> {
        self.session.as_deref()
    }

    /// Whether there are bytes to be sent besides those that could not be taken.
    pub(crate) fn wants_write(&self) -> bool {
        if let Some(session) = &self.session {
            return session.wants_write();
        }
        false
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
