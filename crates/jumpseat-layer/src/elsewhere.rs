//! An agent on another host, as the target of a layer.

use std::io::{self, Read as _};
use std::sync::Arc;
use std::time::Duration;

use jumpseat_wire::remote::RemoteStream;
pub use jumpseat_wire::remote::{Remote, RemoteError};

use crate::EventLayer;
use crate::memory::RingFile;
use crate::target::{Stream, Target};

/// Pauses between attempts to connect, each of which costs both sides a handshake of TLS: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));
/// How long a connection may take until this sender is let in.
const CONNECT: Duration = Duration::from_secs(5);
/// How long the agent may take to read, and to answer: it reads nothing for up to a minute when a token has sent too much.
const PATIENCE: Duration = Duration::from_secs(75);

/// # Agents on other hosts (feature `remote`)
impl EventLayer {
    /// Sends to an agent on another host, with TLS and a token. What has to be said of it, and the files that it names, are
    /// looked at for each attempt to connect; [`Remote::check`] does it before, and [`Guard::trouble`](crate::Guard::trouble) tells what is wrong.
    ///
    /// ```no_run
    /// use jumpseat_layer::Remote;
    ///
    /// let remote = Remote::to("box.example:4319").ca("/etc/shop/ca.crt").token_file("/etc/shop/token");
    /// remote.check()?;
    /// let layer = jumpseat_layer::layer().source("shop").remote(remote);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remote(mut self, remote: Remote) -> EventLayer {
        self.target = Arc::new(remote);
        self
    }
}

impl Target for Remote {
    fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let stream = Remote::connect(self, CONNECT).map_err(|error| match error {
            RemoteError::Io(error) => error,
            other => io::Error::other(other),
        })?;
        stream.set_write_timeout(PATIENCE)?;
        Ok(Box::new(stream))
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }

    fn place(&self) -> String {
        self.address().to_owned()
    }

    fn pauses(&self) -> (Duration, Duration) {
        PAUSES
    }
}

impl Stream for RemoteStream {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        io::Write::write_all(self, bytes)
    }

    fn read_within(&mut self, wait: Duration, buffer: &mut [u8]) -> io::Result<usize> {
        self.set_read_timeout(wait)?;
        self.read(buffer)
    }

    fn read_now(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // TLS may have to read several times for a byte of what was said.
        self.set_nonblocking(true)?;
        let read = self.read(buffer);
        self.set_nonblocking(false)?;
        read
    }

    /// Memory is not shared with another host.
    fn send_with(&mut self, _: &[u8], _: &RingFile) -> Option<io::Result<usize>> {
        None
    }
}
