//! When there is something to read on a connection, as the runtime tells. It is told for as long as the connection is open: to ask the
//! system for each wait anew is four calls, of eleven that a poll takes.
//!
//! **Invariant:** it belongs to one connection, goes wherever that goes ([`super::connections`]), and ends with it, at the latest when
//! a request does: its descriptor, a copy, would keep the connection open.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::time::timeout_at;

/// Tells when there is something to read.
#[derive(Debug)]
pub(super) struct Readiness(UnixStream);

impl Readiness {
    /// Of a connection's socket. For a runtime's task.
    ///
    /// # Errors
    /// The system has no descriptor left, or no place for one more to be watched.
    pub(super) fn of(socket: BorrowedFd<'_>) -> io::Result<Readiness> {
        // Whatever the socket is, nothing of it is used but that it gets ready.
        UnixStream::from_std(socket.try_clone_to_owned()?.into()).map(Readiness)
    }

    /// Waits until the socket is ready, or until `deadline`: who goes on finds out that it is late.
    ///
    /// # Errors
    /// The runtime ends.
    pub(super) async fn wait(&self, interest: Interest, deadline: Option<Instant>) -> io::Result<()> {
        let ready = self.0.ready(interest);
        match deadline {
            None => ready.await.map(drop),
            Some(deadline) => {
                timeout_at(deadline.into(), ready).await.map_or(Ok(()), |ready| ready.map(drop))
            }
        }
    }

    /// Does what reads all that is there, and from then on tells of what arrives after that: the system tells of each arrival once.
    pub(super) fn drained<T>(&self, mut read: impl FnMut() -> T) -> T {
        let mut done = None;
        // What is told meanwhile is not forgotten: what was known before `read` is.
        let _ = self.0.try_io(Interest::READABLE, || {
            done = Some(read());
            Err::<(), _>(io::ErrorKind::WouldBlock.into())
        });
        // It is not ready: it was the time.
        done.unwrap_or_else(read)
    }
}
