//! The rings of a connection's sender, from the descriptor that comes with a frame to what is taken over at the end.

use std::os::fd::OwnedFd;

use super::{Framing, Intake, Shared};
use crate::binary::Frame;
use crate::delivery::{MAX_SENDER_LOSS, Reason};
use crate::event::Refusal;
use crate::rings::reader::Portion;
use crate::rings::sites::{Sites, timestamp};
use jumpseat_wire::ring::chunk::{MAX_READ, put_read};
use jumpseat_wire::ring::merge::Item;
use pcp_model::Timestamp;

use super::sender::Sender;

/// Most memory that is kept for what is read of rings.
const KEEP: usize = 2 * MAX_READ as usize;

impl Intake {
    /// A file descriptor has come with the bytes that are fed next, or with some before them.
    pub fn descriptor(&mut self, descriptor: OwnedFd, shared: &Shared) {
        self.rings.pass(descriptor, self.taker, &shared.rings);
    }

    /// A RINGS frame.
    #[cold]
    pub(super) fn rings(&mut self, connection: u64, shared: &mut Shared, replies: &mut Vec<u8>) {
        match self.rings.accept(connection) {
            Ok(()) => put_read(replies, 0),
            Err(detail) => self.reject(Refusal::at(0, Reason::Control, detail), None, shared),
        }
    }

    /// A CHUNK frame: reads the chunk, as if its frames had come. If that cannot be, the connection ends: what is in the chunk would be
    /// lost otherwise, and all that has numbers behind it.
    pub(super) fn chunk(
        &mut self,
        number: u64,
        arrived: Timestamp,
        shared: &mut Shared,
        replies: &mut Vec<u8>,
    ) {
        let mut portion = std::mem::take(&mut shared.portion);
        portion.clear();
        match self.read_chunk(number, &mut portion) {
            Ok(count) => {
                // In the sender's file there is room for others from here on, if need be.
                put_read(replies, number.saturating_add(1));
                if let Some(mut known) = self.rings.known.take() {
                    self.take_in(&portion, Some(count), &mut known.sites, arrived, shared);
                    self.rings.known = Some(known);
                }
            }
            Err(detail) => {
                self.reject(Refusal::at(0, Reason::Control, detail), None, shared);
                self.broken = true;
            }
        }
        portion.give_back(KEEP);
        shared.portion = portion;
    }

    /// Reads a chunk: how many numbers it has.
    fn read_chunk(&mut self, number: u64, portion: &mut Portion) -> Result<u64, &'static str> {
        let known = self.rings.known.as_mut().ok_or("a CHUNK frame needs rings that were passed before")?;
        let next = self.sender.as_ref().map(Sender::next).ok_or("a CHUNK frame needs a sender")?;
        let chunk = known.reader.chunk(number)?;
        if chunk.first != next.number {
            return Err("a chunk of rings whose first number is not the next one");
        }
        if chunk.bytes() > MAX_READ {
            return Err("a chunk of rings to be read is too large: 1 MiB is allowed");
        }
        known.sites.renew(&known.reader)?;
        for part in &chunk.parts {
            known.reader.part(part, portion);
        }
        Ok(chunk.count)
    }

    /// Takes in what was read of rings. `count`: how many numbers it has, where that is known; what is missing is missed, and what is
    /// too much refused.
    fn take_in(
        &mut self,
        portion: &Portion,
        count: Option<u64>,
        sites: &mut Sites,
        arrived: Timestamp,
        shared: &mut Shared,
    ) {
        let mut left = count;
        for item in portion.items() {
            if let Some(left) = &mut left {
                let Some(less) = left.checked_sub(item.numbers()) else {
                    let detail = "a chunk of rings with more messages than it says";
                    self.reject(Refusal::at(0, Reason::Frame, detail), None, shared);
                    break;
                };
                *left = less;
            }
            let message = match item {
                Item::Message(message) => message,
                Item::Missed(count, time) => {
                    self.sender_missed(count, time.map_or(arrived, timestamp), shared);
                    continue;
                }
            };
            let number = self.sender.as_ref().map(Sender::next);
            let written = sites.write(&message, &mut self.destination(arrived, number, shared));
            if let Ok(Frame::Missed { count, time }) = written {
                self.sender_missed(count, time, shared);
                continue;
            }
            self.next_number();
            match written {
                Ok(Frame::Record { truncated }) => {
                    self.account.accepted += 1;
                    self.account.truncated += u64::from(truncated);
                }
                Ok(_) => self.account.repeated += 1,
                Err(refusal) => self.reject(refusal, number, shared),
            }
        }
        // Messages that were in no file are lost with the program, unless they had come.
        let mut left = left.unwrap_or_default();
        while left > 0 {
            let piece = left.min(MAX_SENDER_LOSS);
            self.sender_missed(piece, arrived, shared);
            left -= piece;
        }
        shared.lanes.bytes(self.lane, portion.len());
        for detail in &portion.broken {
            self.reject(Refusal::at(0, Reason::Frame, detail), None, shared);
        }
    }

    /// The sender is gone. Whether it has left something in its rings, for [`Intake::take_over`]; what it had sent of a
    /// frame is there, too.
    pub fn inherits(&mut self, shared: &mut Shared) -> bool {
        if self.broken || !matches!(self.framing, Framing::Binary(_)) {
            return false;
        }
        self.rings.inherit().unwrap_or_else(|detail| {
            self.reject(Refusal::at(0, Reason::Control, detail), None, shared);
            false
        })
    }

    /// Takes a portion of the sender's rings over. Whether there may be more.
    pub fn take_over(&mut self, arrived: Timestamp, shared: &mut Shared) -> bool {
        let Some(mut heir) = self.rings.heir.take() else { return false };
        self.speak(shared);
        if !heir.is_begun {
            heir.is_begun = true;
            let begun = self.set_sender(heir.sender.as_bytes(), Some(heir.first), arrived, shared);
            if let Err(refusal) = begun {
                self.reject(refusal, None, shared);
                return false;
            }
        }
        let (mut portion, before) = (std::mem::take(&mut shared.portion), self.account.accepted);
        portion.clear();
        let turn = heir.turn(&mut portion);
        self.take_in(&portion, turn.count, &mut heir.sites, arrived, shared);
        self.numbers_done(shared);
        portion.give_back(KEEP);
        shared.portion = portion;
        tracing::debug!(
            connection = self.conn,
            pid = self.peer.map(|peer| peer.pid),
            records = self.account.accepted - before,
            "took over what a program had not sent"
        );
        if !turn.is_last {
            self.rings.heir = Some(heir);
        }
        self.rings.heir.is_some()
    }
}
