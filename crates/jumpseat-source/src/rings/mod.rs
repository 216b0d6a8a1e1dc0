//! Rings of programs on the ingest socket: what a program had written and not sent when it was killed
//! (`docs/ingest-protocol.md`, "Rings").
//!
//! * [`mod@file`]: the descriptor that a connection passes: whether it is what it should be, and how many there may be.
//! * [`heir`]: the rest of the rings as frames, once the connection has ended.
//!
//! **Invariants:** the file is never mapped, only read, so nothing that its owner does to it can harm this process; and it is
//! read in portions, each of which is bounded, whatever it says.

pub(crate) mod file;
pub(crate) mod heir;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use file::{Held, Quota};
use heir::Heir;

use crate::registry::Taker;

/// What a connection has to do with rings.
#[derive(Debug, Default)]
pub(crate) struct Rings {
    /// A descriptor that no frame has asked for yet, or why it was refused.
    passed: Option<Result<Held, &'static str>>,
    /// The file, and the number that the sender gives to this connection.
    known: Option<(Held, u64)>,
    /// What is being taken over.
    pub heir: Option<Box<Heir>>,
}

impl Rings {
    /// A descriptor has come with the bytes.
    pub(crate) fn pass(&mut self, descriptor: OwnedFd, taker: Taker, quota: &Arc<Quota>) {
        // One at a time, whatever comes: what was there is closed first.
        self.passed = None;
        self.passed = Some(if self.known.is_some() {
            Err("the connection has passed the file of its rings before: once is allowed")
        } else {
            Quota::hold(quota, taker, descriptor)
        });
    }

    /// A RINGS frame says that the descriptor is that of rings.
    pub(crate) fn accept(&mut self, connection: u64) -> Result<(), &'static str> {
        let none = "a RINGS frame needs a file descriptor that comes with its bytes";
        let held = self.passed.take().unwrap_or(Err(none))?;
        held.check()?;
        self.known = Some((held, connection));
        Ok(())
    }

    /// The connection has ended: whether there is something to take over from now on.
    ///
    /// # Errors
    /// The file makes no sense.
    pub(crate) fn inherit(&mut self) -> Result<bool, &'static str> {
        self.passed = None;
        let Some((file, connection)) = self.known.take() else { return Ok(false) };
        self.heir = Heir::new(file, connection)?.map(Box::new);
        Ok(self.heir.is_some())
    }
}
