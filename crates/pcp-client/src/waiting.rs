//! What something that must not wait is waiting for, and the one place of the client that does wait.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::error::{ClientError, Result};

/// What has to come before something that was started can go on.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'a> {
    /// The descriptor.
    pub fd: BorrowedFd<'a>,
    /// What it has to be ready for.
    pub interest: Interest,
    /// When to go on at the latest, ready or not.
    pub deadline: Option<Instant>,
}

/// What a descriptor has to be ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Either of them.
    ReadOrWrite,
}

impl Interest {
    /// The events as `poll(2)` takes them.
    pub const fn poll_events(self) -> i16 {
        let events = match self {
            Interest::Read => PollFlags::POLLIN,
            Interest::Write => PollFlags::POLLOUT,
            Interest::ReadOrWrite => PollFlags::POLLIN.union(PollFlags::POLLOUT),
        };
        events.bits()
    }
}

/// Waits until one of the descriptors is ready, not beyond the deadline.
pub(super) fn wait<'a>(
    waits: impl IntoIterator<Item = Waiting<'a>>,
    deadline: Option<Instant>,
) -> Result<()> {
    let mut fds: Vec<PollFd<'_>> = waits.into_iter().map(poll_fd).collect();
    wait_until(&mut fds, deadline)
}

/// Waits for one descriptor. Without a list: a fetch allocates nothing.
pub(super) fn wait_for(waiting: Waiting<'_>) -> Result<()> {
    wait_until(&mut [poll_fd(waiting)], waiting.deadline)
}

fn poll_fd(waiting: Waiting<'_>) -> PollFd<'_> {
    PollFd::new(waiting.fd, PollFlags::from_bits_retain(waiting.interest.poll_events()))
}

fn wait_until(fds: &mut [PollFd<'_>], deadline: Option<Instant>) -> Result<()> {
    let timeout = deadline.map_or(PollTimeout::NONE, |deadline| {
        // Rounded up: rounded down, poll(2) would return just before the deadline, again and again.
        let left = deadline.saturating_duration_since(Instant::now()).as_nanos().div_ceil(1_000_000);
        PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
    });
    match poll(fds, timeout) {
        // After a signal whoever waits looks what there is, as after anything else.
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(errno) => Err(ClientError::Io(errno.into())),
    }
}
