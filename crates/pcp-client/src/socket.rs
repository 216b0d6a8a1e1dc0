//! Non-blocking stream sockets to a collector, over the network or on the same machine.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrStorage, UnixAddr};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::{setsockopt_impl, sockopt_impl};

sockopt_impl!(
    /// Bytes from which on a socket is readable.
    LowWaterMark,
    SetOnly,
    libc::SOL_SOCKET,
    libc::SO_RCVLOWAT,
    i32
);

/// Where a socket leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Inet(SocketAddr),
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Inet(address) => address.fmt(f),
            Address::Unix(path) => path.display().fmt(f),
        }
    }
}

impl Address {
    /// Whether what is sent there stays on this machine.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Address::Inet(address) => address.ip().is_loopback(),
            Address::Unix(_) => true,
        }
    }
}

/// A socket on its way to be connected, or connected.
#[derive(Debug)]
pub(super) enum Socket {
    Inet(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Starts to connect. The socket becomes writable when that is done, well or not: see [`Socket::connected`].
    pub(crate) fn connect(address: &Address) -> io::Result<Socket> {
        match address {
            Address::Inet(address) => {
                let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
                let fd = new_socket(family)?;
                start(&fd, &SockaddrStorage::from(*address))?;
                let stream = TcpStream::from(fd);
                stream.set_nodelay(true)?;
                Ok(Socket::Inet(stream))
            }
            Address::Unix(path) => {
                let fd = new_socket(AddressFamily::Unix)?;
                start(&fd, &unix_address(path)?)?;
                Ok(Socket::Unix(UnixStream::from(fd)))
            }
        }
    }

    /// Whether [`Socket::connected`] can be asked.
    pub(crate) fn is_ready(&self) -> io::Result<bool> {
        let mut fds = [PollFd::new(self.as_fd(), PollFlags::POLLOUT)];
        Ok(poll(&mut fds, PollTimeout::ZERO)? > 0)
    }

    /// Asks the system to call it readable only from so many bytes on, or its end. TCP does; others may wake us up earlier.
    pub(crate) fn wake_for(&self, bytes: usize) {
        let bytes = i32::try_from(bytes.max(1)).unwrap_or(i32::MAX);
        // Without it all is as well, if not as cheap.
        let _ = socket::setsockopt(self, LowWaterMark, &bytes);
    }

    /// Once the socket is writable: whether it is connected.
    pub(crate) fn connected(&self) -> io::Result<()> {
        let error = match self {
            Socket::Inet(stream) => stream.take_error()?,
            Socket::Unix(stream) => stream.take_error()?,
        };
        error.map_or(Ok(()), Err)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Inet(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Inet(stream) => stream.write(bytes),
            Socket::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Inet(stream) => stream.read(buffer),
            Socket::Unix(stream) => stream.read(buffer),
        }
    }
}

/// A time to let pass, as a descriptor that becomes readable then.
pub(super) struct Pause(TimerFd);

impl Pause {
    pub(crate) fn start(length: Duration) -> io::Result<Pause> {
        let timer =
            TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        timer.set(Expiration::OneShot(TimeSpec::from_duration(length)), TimerSetTimeFlags::empty())?;
        Ok(Pause(timer))
    }

    pub(crate) fn is_over(&self) -> io::Result<bool> {
        Ok(poll(&mut [PollFd::new(self.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO)? > 0)
    }
}

impl AsFd for Pause {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn new_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    Ok(socket::socket(family, SockType::Stream, flags, None)?)
}

fn start(fd: &OwnedFd, address: &dyn socket::SockaddrLike) -> io::Result<()> {
    match socket::connect(fd.as_raw_fd(), address) {
        Ok(()) | Err(Errno::EINPROGRESS | Errno::EINTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

fn unix_address(path: &Path) -> io::Result<UnixAddr> {
    Ok(UnixAddr::new(path)?)
}
