//! What to send where.

use std::path::PathBuf;
use std::time::Duration;

use jumpseat_wire::remote::Remote;

use crate::clock::SenderClock;

/// What to send where.
#[derive(Clone, Debug)]
pub struct FeedOptions {
    /// The server's socket.
    pub socket: PathBuf,
    /// Where it is instead, if it is at an address.
    pub remote: Option<Remote>,
    /// The source to name; `None` leaves it to the server.
    pub source: Option<String>,
    /// The name under which events are numbered, so that they can be sent again after a connection broke and are there once;
    /// `None`: they are sent once, and what was under way when a connection breaks is lost.
    pub sender: Option<String>,
    /// How long to try to go on after a connection broke, if there is a sender's name.
    pub retry: Duration,
    /// What the lines are.
    pub lines: LineKind,
    /// Use the binary framing.
    pub binary: bool,
    /// The clock of this machine that numeric times of JSON lines are of; `None` leaves it to the server, or is real time
    /// in the binary framing.
    pub clock: Option<SenderClock>,
}

impl FeedOptions {
    /// Where the server is, as messages say it.
    pub(super) fn place(&self) -> PathBuf {
        self.remote.as_ref().map_or_else(|| self.socket.clone(), |remote| PathBuf::from(remote.address()))
    }
}

/// What the input's lines are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// A JSON object each.
    Json,
    /// A message each.
    Plain {
        /// The event type to give them.
        event_type: Option<String>,
        /// The severity to give them.
        severity: Option<String>,
    },
}
