//! The way to an ingest socket: a Unix socket, or TCP with TLS ([`jumpseat_wire::remote`]).

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use jumpseat_wire::remote::{Remote, RemoteError, RemoteStream};

/// How long an agent on another host may take nothing and say nothing: it does so for up to a minute when a token has sent too much.
const SLOW: Duration = Duration::from_secs(75);

/// A connection.
pub(super) enum Way {
    Local(UnixStream),
    Remote(Box<RemoteStream>),
}

impl Way {
    /// Connects. Nothing but looking up a host's name takes longer than `patience`; what is written and read later, on another host,
    /// than [`SLOW`].
    ///
    /// # Errors
    /// [`RemoteError`]; of a Unix socket the system's.
    pub(super) fn open(
        socket: &Path,
        remote: Option<&Remote>,
        patience: Duration,
    ) -> Result<Way, RemoteError> {
        if let Some(remote) = remote {
            let stream = remote.connect(patience)?;
            stream.set_read_timeout(SLOW)?;
            stream.set_write_timeout(SLOW)?;
            return Ok(Way::Remote(Box::new(stream)));
        }
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Way::Local(stream))
    }

    /// Whether a read that finds nothing waits.
    pub(super) fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        match self {
            Way::Local(stream) => stream.set_nonblocking(on),
            Way::Remote(stream) => stream.set_nonblocking(on),
        }
    }

    /// How long a read waits.
    pub(super) fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Way::Local(stream) => stream.set_read_timeout(Some(timeout)),
            Way::Remote(stream) => stream.set_read_timeout(timeout),
        }
    }

    /// Says that nothing more comes.
    pub(super) fn end(&mut self) -> io::Result<()> {
        match self {
            Way::Local(stream) => stream.shutdown(Shutdown::Write),
            Way::Remote(stream) => stream.end(),
        }
    }
}

impl Read for Way {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Way::Local(stream) => stream.read(buffer),
            Way::Remote(stream) => stream.read(buffer),
        }
    }
}

impl Write for Way {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Way::Local(stream) => stream.write(bytes),
            Way::Remote(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Way::Local(stream) => stream.flush(),
            Way::Remote(stream) => stream.flush(),
        }
    }
}
