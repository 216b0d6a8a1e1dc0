//! What a connection runs on: a Unix socket; or TCP with TLS, on which a token has to come before anything else.
//!
//! ```text
//! TLS: {"jumpseat":{"token":"SECRET"}}\n  ->  {"jumpseat":{"admitted":"NAME"}}\n, then lines or frames as on a Unix socket
//!                                         ->  {"error":"..."}\n, and the end
//! ```
//!
//! **Bounded:** before the token a connection holds what TLS holds of a handshake (64 KiB) and a line of 8 KiB; after it, what one
//! read has brought, and sealed bytes of one reply.
//!
//! **Cost:** a copy of what comes, on top of decryption.

use std::io::{self, ErrorKind, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Instant;

use bytes::{Buf as _, BytesMut};
use memchr::memchr;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token as Key};
use pcp_net::{TlsError, TlsSession};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use serde::Deserialize;

use crate::guard::Guard;
use crate::guard::tokens::Entered;

/// Longest line with a token.
const MAX_TOKEN_LINE: usize = 8 * 1024;
/// Sealed at a time.
const PORTION: usize = 16 * 1024;
/// Memory for bytes on their way is given back when it was more than this.
const KEEP: usize = 16 * 1024;

/// What a connection runs on.
pub(super) enum Line {
    /// A socket of this machine.
    Local(UnixStream),
    /// From elsewhere, and encrypted.
    Remote(Box<Remote>),
}

/// A connection from elsewhere.
pub(super) struct Remote {
    stream: TcpStream,
    tls: TlsSession,
    /// Who it is from.
    pub(super) peer: SocketAddr,
    /// Until when its token must have come.
    pub(super) until: Instant,
    /// Decrypted, and not taken yet.
    plain: BytesMut,
    /// To be written.
    sealed: BytesMut,
    /// Nothing more comes.
    ended: bool,
    /// What it came in with.
    pub(super) entered: Option<Entered>,
}

/// Why somebody is not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Denied {
    /// It went before it had said who it is.
    Gone,
    /// No TLS, or none that both sides agree on.
    Tls(String),
    /// No token that counts.
    Token(&'static str),
    /// As many as its token allows are there.
    Limit,
}

impl Line {
    pub(super) fn register(&mut self, registry: &Registry, key: Key) -> io::Result<()> {
        // Both directions from the start: edge-triggered readiness costs nothing while nothing changes.
        let interest = Interest::READABLE | Interest::WRITABLE;
        match self {
            Line::Local(stream) => registry.register(stream, key, interest),
            Line::Remote(remote) => registry.register(&mut remote.stream, key, interest),
        }
    }

    /// The end. Nothing can fail in a way that matters for a connection that is going away.
    pub(super) fn close(&mut self, registry: &Registry) {
        match self {
            Line::Local(stream) => {
                let _ = registry.deregister(stream);
                let _ = stream.shutdown(Shutdown::Both);
            }
            Line::Remote(remote) => {
                remote.tls.close(&mut remote.sealed);
                let _ = remote.flush();
                let _ = registry.deregister(&mut remote.stream);
                let _ = remote.stream.shutdown(Shutdown::Both);
            }
        }
    }

    /// What it says, and the file descriptor that comes with it, if any: the first; others are closed.
    ///
    /// # Errors
    /// The system's; `InvalidData` for what is no TLS.
    pub(super) fn read(&mut self, room: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
        match self {
            Line::Local(stream) => receive(stream, room),
            Line::Remote(remote) => remote.read(room).map(|read| (read, None)),
        }
    }

    /// Writes some of it; with nothing, what is left of earlier.
    ///
    /// # Errors
    /// The system's; `WouldBlock` also where it was earlier bytes that the system does not take.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Line::Local(stream) => stream.write(bytes),
            Line::Remote(remote) => remote.write(bytes),
        }
    }

    /// Whether something is left of earlier writes.
    pub(super) fn is_unwritten(&self) -> bool {
        matches!(self, Line::Remote(remote) if !remote.sealed.is_empty())
    }

    /// The host that it is from, if that is not this machine.
    pub(super) fn host(&self) -> Option<IpAddr> {
        match self {
            Line::Local(_) => None,
            Line::Remote(remote) => Some(remote.peer.ip().to_canonical()),
        }
    }

    /// The same, as long as it has to say who it is.
    pub(super) fn unknown(&mut self) -> Option<&mut Remote> {
        match self {
            Line::Remote(remote) if remote.entered.is_none() => Some(remote),
            _ => None,
        }
    }

    /// What it came in with, where that is asked for.
    pub(super) fn entered(&self) -> Option<&Entered> {
        match self {
            Line::Local(_) => None,
            Line::Remote(remote) => remote.entered.as_ref(),
        }
    }
}

impl Remote {
    pub(super) fn new(stream: TcpStream, tls: TlsSession, peer: SocketAddr, until: Instant) -> Remote {
        let (plain, sealed) = (BytesMut::new(), BytesMut::new());
        Remote { stream, tls, peer, until, plain, sealed, ended: false, entered: None }
    }

    /// Whether both sides have agreed on TLS.
    pub(super) fn is_secret(&self) -> bool {
        self.tls.is_established()
    }

    /// Goes on as far as the bytes that have come allow. False: more have to come first. `room` is for what is read.
    ///
    /// # Errors
    /// Why it is not let in.
    pub(super) fn knock(&mut self, guard: &Guard, room: &mut [u8]) -> Result<bool, Denied> {
        loop {
            if let Some(end) = memchr(b'\n', &self.plain) {
                let line = self.plain.split_to(end + 1);
                self.entered = Some(admit(guard, line.trim_ascii())?);
                return Ok(true);
            }
            if self.plain.len() > MAX_TOKEN_LINE {
                return Err(Denied::Token("no line with a token at the beginning"));
            }
            if self.ended {
                return Err(Denied::Gone);
            }
            match self.read_more(room) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    return Err(Denied::Tls(error.to_string()));
                }
                Err(_) => return Err(Denied::Gone),
            }
        }
    }

    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.plain.is_empty() && !self.ended {
            self.read_more(room)?;
            if self.plain.is_empty() && !self.ended {
                // Half a record, or one that is not for us.
                return Err(ErrorKind::Interrupted.into());
            }
        }
        let len = self.plain.len().min(room.len());
        room[..len].copy_from_slice(&self.plain[..len]);
        self.plain.advance(len);
        if self.plain.is_empty() && self.plain.capacity() > KEEP {
            self.plain = BytesMut::new();
        }
        if let Some(Entered { token }) = &self.entered {
            token.spend(len as u64);
        }
        Ok(len)
    }

    /// One read of the socket, decrypted to the end of `plain`.
    fn read_more(&mut self, room: &mut [u8]) -> io::Result<()> {
        let read = match self.stream.read(room) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            read => read?,
        };
        if read == 0 {
            self.ended = true;
            return Ok(());
        }
        let said = self.tls.receive(&room[..read], &mut self.plain, &mut self.sealed);
        // The answer is part of what both sides agree on; if it is the reason why they do not, it may get there or not.
        let written = self.flush();
        match said {
            Err(error @ TlsError { .. }) => Err(io::Error::new(ErrorKind::InvalidData, error)),
            Ok(goes_on) => {
                self.ended |= !goes_on;
                if written.is_err_and(|error| error.kind() != ErrorKind::WouldBlock) {
                    // It does not listen any more; what it has sent counts all the same.
                    self.sealed.clear();
                }
                Ok(())
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        if !self.tls.is_established() {
            // Whoever cannot read it gets nothing.
            return Ok(bytes.len());
        }
        let portion = &bytes[..bytes.len().min(PORTION)];
        if !portion.is_empty() {
            self.tls.seal(portion, &mut self.sealed);
        }
        match self.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(portion.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        while !self.sealed.is_empty() {
            match self.stream.write(&self.sealed) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => self.sealed.advance(written),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.sealed.capacity() > KEEP {
            self.sealed = BytesMut::new();
        }
        Ok(())
    }
}

impl Denied {
    /// Told to the client.
    pub(super) fn words(&self) -> String {
        match self {
            Denied::Gone => "the connection has ended".to_owned(),
            Denied::Tls(error) => error.clone(),
            Denied::Token(what) => {
                format!("{what}: begin with a line {{\"jumpseat\":{{\"token\":\"...\"}}}}")
            }
            Denied::Limit => "as much as this token allows is under way: come again later".to_owned(),
        }
    }
}

/// Lets in who has begun with this line.
fn admit(guard: &Guard, line: &[u8]) -> Result<Entered, Denied> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct First {
        jumpseat: Said,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Said {
        token: String,
    }
    let first: First =
        serde_json::from_slice(line).map_err(|_| Denied::Token("no line with a token at the beginning"))?;
    let token = guard.token(first.jumpseat.token.as_bytes());
    let token = token.ok_or(Denied::Token("a token that does not count"))?;
    token.enter(Instant::now()).map_err(|_| Denied::Limit)
}

/// Reads bytes, and the file descriptor that comes with them, if any: the first; others are closed.
fn receive(stream: &UnixStream, room: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let read = recvmsg(stream, &mut [IoSliceMut::new(room)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptor = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            descriptors.for_each(|other| {
                descriptor.get_or_insert(other);
            });
        }
    }
    Ok((read.bytes, descriptor))
}
