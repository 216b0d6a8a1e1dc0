//! Rings of programs on the ingest socket (`docs/ingest-protocol.md`, "Rings"): chunks of messages that a program has its agent read
//! by itself, and what it had written and not sent when it was killed.
//!
//! * [`mod@file`]: the descriptor that a connection passes: whether it is what it should be, and how many there may be.
//! * [`reader`]: what the file says, in portions.
//! * [`sites`]: messages as records, with what their places in the program have in common.
//! * [`heir`]: the rest of the rings, once the connection has ended.
//!
//! **Invariants:** the file is never mapped, only read, so nothing that its owner does to it can harm this process; and it is
//! read in portions, each of which is bounded, whatever it says.

pub(crate) mod file;
pub(crate) mod heir;
pub(crate) mod reader;
pub(crate) mod sites;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use file::{Held, Quota};
use heir::Heir;
use reader::Reader;
use sites::Sites;

use crate::registry::Taker;

/// What a connection has to do with rings.
#[derive(Debug, Default)]
pub(crate) struct Rings {
    /// A descriptor that no frame has asked for yet, or why it was refused.
    passed: Option<Result<Held, &'static str>>,
    /// The rings of the sender.
    pub known: Option<Box<Known>>,
    /// What is being taken over.
    pub heir: Option<Box<Heir>>,
}

/// The rings of a sender.
#[derive(Debug)]
pub(crate) struct Known {
    pub reader: Reader,
    pub sites: Sites,
    /// The number that the sender gives to this connection.
    connection: u64,
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
        let reader = Reader::new(held)?;
        self.known = Some(Box::new(Known { reader, sites: Sites::default(), connection }));
        Ok(())
    }

    /// The connection has ended: whether there is something to take over from now on.
    ///
    /// # Errors
    /// The file makes no sense.
    pub(crate) fn inherit(&mut self) -> Result<bool, &'static str> {
        self.passed = None;
        let Some(known) = self.known.take() else { return Ok(false) };
        let Known { reader, sites, connection } = *known;
        self.heir = Heir::new(reader, sites, connection)?.map(Box::new);
        Ok(self.heir.is_some())
    }
}
