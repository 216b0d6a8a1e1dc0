//! Waiting for descriptors: the one place where the program sleeps.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use pcp_client::Waiting;

/// What a context waits for, as [`until`] takes it.
pub(crate) fn of_client(waiting: Waiting<'_>) -> (BorrowedFd<'_>, PollFlags) {
    (waiting.fd, PollFlags::from_bits_truncate(waiting.interest.poll_events()))
}

/// Waits until one of the descriptors is ready, or the time has come. Which are ready, or have failed.
pub(crate) fn until(fds: &[(BorrowedFd<'_>, PollFlags)], deadline: Option<Instant>) -> Vec<PollFlags> {
    let timeout = deadline.map_or(PollTimeout::NONE, |deadline| {
        // Rounded up, lest it wakes up too early again and again.
        let left = deadline.saturating_duration_since(Instant::now()).as_nanos().div_ceil(1_000_000);
        PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
    });
    let mut polled: Vec<PollFd<'_>> = fds.iter().map(|&(fd, events)| PollFd::new(fd, events)).collect();
    match poll(&mut polled, timeout) {
        Ok(_) => polled.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())).collect(),
        Err(_) => vec![PollFlags::empty(); fds.len()],
    }
}
