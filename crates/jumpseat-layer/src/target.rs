//! Where a layer sends to: the ingest socket of this machine's agent, or that of one elsewhere (`elsewhere`).

use std::io::{self, IoSlice, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, sendmsg};

use crate::memory::RingFile;

/// Pauses between attempts to connect to a socket of this machine: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// How long an agent of this machine may take to read, and to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where to send.
pub(crate) trait Target: Send + Sync {
    /// Connects. What is written later is waited for as long as [`Target::patience`] says.
    fn connect(&self) -> io::Result<Box<dyn Stream>>;

    /// How long the agent may take to read, and to answer.
    fn patience(&self) -> Duration {
        PATIENCE
    }

    /// Where it is, for people.
    fn place(&self) -> String;

    /// Pauses between attempts to connect: the first, and the longest.
    fn pauses(&self) -> (Duration, Duration);
}

/// A connection.
pub(crate) trait Stream: Send {
    /// Writes all of it.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Reads what comes within this time.
    fn read_within(&mut self, wait: Duration, buffer: &mut [u8]) -> io::Result<usize>;

    /// Reads what is there.
    fn read_now(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes bytes, with them the descriptor of the rings; how many went out. `None` where descriptors cannot be passed.
    fn send_with(&mut self, bytes: &[u8], file: &RingFile) -> Option<io::Result<usize>>;
}

/// Where the agents of this machine listen, looked for anew each time: one may be the user's own, and later than the program.
pub(crate) struct Here;

impl Target for Here {
    fn connect(&self) -> io::Result<Box<dyn Stream>> {
        connect(&jumpseat_wire::socket::to_use())
    }

    fn place(&self) -> String {
        jumpseat_wire::socket::to_use().display().to_string()
    }

    fn pauses(&self) -> (Duration, Duration) {
        PAUSES
    }
}

/// A socket of this machine.
impl Target for PathBuf {
    fn connect(&self) -> io::Result<Box<dyn Stream>> {
        connect(self)
    }

    fn place(&self) -> String {
        self.display().to_string()
    }

    fn pauses(&self) -> (Duration, Duration) {
        PAUSES
    }
}

fn connect(path: &Path) -> io::Result<Box<dyn Stream>> {
    let stream = UnixStream::connect(path)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(Box::new(stream))
}

impl Stream for UnixStream {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        io::Write::write_all(self, bytes)
    }

    fn read_within(&mut self, wait: Duration, buffer: &mut [u8]) -> io::Result<usize> {
        self.set_read_timeout(Some(wait))?;
        self.read(buffer)
    }

    fn read_now(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(recv(self, buffer, RecvFlags::DONTWAIT)?.0)
    }

    fn send_with(&mut self, bytes: &[u8], file: &RingFile) -> Option<io::Result<usize>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [file.file.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        let sent = sendmsg(self, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL);
        Some(sent.map_err(Into::into))
    }
}
