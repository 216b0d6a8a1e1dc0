//! Where a layer sends to: the ingest socket of this machine's agent, or that of one elsewhere (feature `remote`).

use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

#[cfg(feature = "remote")]
use jumpseat_wire::remote::{Remote, RemoteError, RemoteStream};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, sendmsg};

use crate::memory::RingFile;

/// Pauses between attempts to connect: the first, and the longest.
const LOCAL_PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// Each attempt costs both sides a handshake of TLS.
#[cfg(feature = "remote")]
const REMOTE_PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// Where to send.
#[derive(Clone)]
pub(crate) enum Target {
    /// Where the agents of this machine listen, looked for anew each time: one may be the user's own, and later than the program.
    Here,
    Socket(PathBuf),
    #[cfg(feature = "remote")]
    Remote(Box<Remote>),
}

impl Target {
    /// Connects. What is written later is waited for so long, and so is a connection to another host.
    pub(crate) fn connect(&self, patience: Duration) -> io::Result<Stream> {
        let path = match self {
            Target::Here => jumpseat_wire::socket::to_use(),
            Target::Socket(path) => path.clone(),
            #[cfg(feature = "remote")]
            Target::Remote(remote) => {
                let stream = remote.connect(patience).map_err(|error| match error {
                    RemoteError::Io(error) => error,
                    other => io::Error::other(other),
                })?;
                return Ok(Stream::Remote(Box::new(stream)));
            }
        };
        let stream = UnixStream::connect(path)?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Stream::Local(stream))
    }

    /// Where it is, for people.
    pub(crate) fn place(&self) -> String {
        match self {
            Target::Here => jumpseat_wire::socket::to_use().display().to_string(),
            Target::Socket(path) => path.display().to_string(),
            #[cfg(feature = "remote")]
            Target::Remote(remote) => remote.address().to_owned(),
        }
    }

    /// Pauses between attempts to connect: the first, and the longest.
    pub(crate) fn pauses(&self) -> (Duration, Duration) {
        match self {
            Target::Here | Target::Socket(_) => LOCAL_PAUSES,
            #[cfg(feature = "remote")]
            Target::Remote(_) => REMOTE_PAUSES,
        }
    }
}

/// A connection.
pub(crate) enum Stream {
    Local(UnixStream),
    #[cfg(feature = "remote")]
    Remote(Box<RemoteStream>),
}

impl Stream {
    /// Writes all of it.
    pub(crate) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Local(stream) => stream.write_all(bytes),
            #[cfg(feature = "remote")]
            Stream::Remote(stream) => stream.write_all(bytes),
        }
    }

    /// Reads what comes within this time.
    pub(crate) fn read_within(&mut self, wait: Duration, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Local(stream) => {
                stream.set_read_timeout(Some(wait))?;
                stream.read(buffer)
            }
            #[cfg(feature = "remote")]
            Stream::Remote(stream) => {
                stream.set_read_timeout(wait)?;
                stream.read(buffer)
            }
        }
    }

    /// Reads what is there.
    pub(crate) fn read_now(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Local(stream) => {
                recv(stream, buffer, RecvFlags::DONTWAIT).map(|(len, _)| len).map_err(Into::into)
            }
            #[cfg(feature = "remote")]
            Stream::Remote(stream) => {
                // TLS may have to read several times for a byte of what was said.
                stream.set_nonblocking(true)?;
                let read = stream.read(buffer);
                stream.set_nonblocking(false)?;
                read
            }
        }
    }

    /// Whether descriptors can be passed.
    pub(crate) fn takes_files(&self) -> bool {
        matches!(self, Stream::Local(_))
    }

    /// Writes bytes, with them the descriptor of the rings; how many went out.
    pub(crate) fn send_with(&mut self, bytes: &[u8], file: &RingFile) -> io::Result<usize> {
        let stream = match self {
            Stream::Local(stream) => stream,
            #[cfg(feature = "remote")]
            Stream::Remote(_) => return Ok(0),
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [file.file.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        Ok(sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
    }
}
