//! The rings of a connection's sender, from the descriptor that comes with a frame to what is taken over at the end.

use std::os::fd::OwnedFd;

use super::{Framing, Intake, Shared};
use crate::clock::SenderClock;
use crate::delivery::Reason;
use crate::event::Refusal;
use pcp_model::Timestamp;

impl Intake {
    /// A file descriptor has come with the bytes that are fed next, or with some before them.
    pub fn descriptor(&mut self, descriptor: OwnedFd, shared: &Shared) {
        self.rings.pass(descriptor, self.taker, &shared.rings);
    }

    /// A RINGS frame.
    #[cold]
    pub(super) fn rings(&mut self, connection: u64, shared: &mut Shared) {
        if let Err(detail) = self.rings.accept(connection) {
            self.reject(Refusal::at(0, Reason::Control, detail), None, shared);
        }
    }

    /// The sender is gone. Whether it has left something in its rings, for [`Intake::take_over`]; what it had sent of a
    /// frame is there, too.
    pub fn inherits(&mut self, shared: &mut Shared) -> bool {
        if self.broken || !matches!(self.framing, Framing::Binary(_)) {
            return false;
        }
        match self.rings.inherit() {
            Ok(false) => false,
            Ok(true) => {
                // The frames that are made of them begin anew.
                self.framing = Framing::Binary(Box::default());
                self.clock = SenderClock::Realtime;
                true
            }
            Err(detail) => {
                self.reject(Refusal::at(0, Reason::Control, detail), None, shared);
                false
            }
        }
    }

    /// Takes a portion of the sender's rings over. Whether there may be more.
    pub fn take_over(&mut self, arrived: Timestamp, shared: &mut Shared, replies: &mut Vec<u8>) -> bool {
        let Some(mut heir) = self.rings.heir.take() else { return false };
        let now = arrived.sec.saturating_mul(1_000_000_000).saturating_add(arrived.nsec.into());
        let (mut frames, before) = (Vec::new(), self.account.accepted);
        let turn = heir.turn(now, &mut frames);
        self.feed(&frames, arrived, shared, replies);
        for detail in turn.broken {
            self.reject(Refusal::at(0, Reason::Frame, detail), None, shared);
        }
        tracing::debug!(
            connection = self.conn,
            pid = self.peer.map(|peer| peer.pid),
            records = self.account.accepted - before,
            "took over what a program had not sent"
        );
        if !turn.is_last && !self.broken {
            self.rings.heir = Some(heir);
        }
        self.rings.heir.is_some()
    }
}
