//! Senders that name themselves and number their events: what is known of them, and what is acknowledged.

use serde_json::json;

use super::{Framing, Intake, Shared};
use crate::delivery::{MAX_SENDER_LOSS, Reason};
use crate::event::Refusal;
use crate::lanes::{Numbered, StreamId};
use jumpseat_wire as wire;
use pcp_model::Timestamp;

/// The sender at the other end of a connection.
#[derive(Debug)]
pub(super) struct Sender {
    stream: StreamId,
    /// The number of its newest event.
    newest: u64,
    /// The number that was acknowledged last.
    told: u64,
    /// [`crate::lanes::Lanes::undurable`] then.
    undurable: u64,
}

impl Sender {
    /// The number that its next event will have.
    pub(super) fn next(&self) -> Numbered {
        // What one connection can send never gets to the end of all numbers.
        Numbered { stream: self.stream, number: self.newest.saturating_add(1) }
    }
}

impl Intake {
    /// The connection is one of a sender, whose next event has the number `next`. Gives the highest number that is known of
    /// it, 0 if none is; what it has left out above that is missed. Without `next`, the one behind that.
    pub(super) fn set_sender(
        &mut self,
        id: &[u8],
        next: Option<u64>,
        arrived: Timestamp,
        shared: &mut Shared,
    ) -> Result<u64, Refusal> {
        let refused = |detail| Refusal::at(0, Reason::Control, detail);
        if !(1..=wire::MAX_SENDER).contains(&id.len()) {
            return Err(refused("a sender's name has 1 to 128 bytes"));
        }
        if next.is_some_and(|next| !(1..=wire::MAX_NUMBER).contains(&next)) {
            return Err(refused("events are numbered from 1 to 2^62"));
        }
        let stream = shared.lanes.open_stream(&self.stream_name(id));
        let stream = stream.map_err(|_| refused("too many senders of this user are connected"))?;
        self.leave(shared);
        if let Some(other) = shared.senders.insert(stream, self.conn).filter(|other| *other != self.conn) {
            shared.displaced.push(other);
        }
        // What came on an earlier connection is known when it is committed.
        shared.lanes.flush();
        let undurable = shared.lanes.undurable();
        let known = Some(shared.lanes.reached(self.lane, stream)).filter(|known| *known > 0);
        let next = next.unwrap_or_else(|| known.unwrap_or(0) + 1);
        // What was left out is acknowledged as well, as it is accounted for.
        let told = known.unwrap_or(u64::MAX).min(next - 1);
        self.sender = Some(Sender { stream, newest: next - 1, told, undurable });
        let left_out = known.map_or(0, |known| (next - 1).saturating_sub(known));
        if left_out > MAX_SENDER_LOSS {
            self.leave(shared);
            return Err(refused("more than 2^32 events left out"));
        }
        if left_out > 0 {
            shared.lanes.missed(self.lane, left_out, arrived);
        }
        shared.lanes.done(self.lane, Numbered { stream, number: next - 1 });
        Ok(known.map_or(0, |number| shared.lanes.committed(Numbered { stream, number })))
    }

    /// The sender says that it has lost so many events. If it numbers them, these have numbers, too: it may say so again.
    pub(super) fn sender_missed(&mut self, count: u64, time: Timestamp, shared: &mut Shared) {
        let mut news = count;
        if let Some(Sender { stream, newest, .. }) = &mut self.sender {
            let known = shared.lanes.reached(self.lane, *stream).max(*newest);
            *newest = newest.saturating_add(count).min(wire::MAX_NUMBER);
            news = newest.saturating_sub(known);
        }
        if news > 0 {
            shared.lanes.missed(self.lane, news, time);
        }
        if let Some(Sender { stream, newest, .. }) = self.sender {
            shared.lanes.done(self.lane, Numbered { stream, number: newest });
        }
    }

    /// The number of an event that has just begun.
    #[inline]
    pub(super) fn next_number(&mut self) -> Option<Numbered> {
        let sender = self.sender.as_mut()?;
        let number = sender.next();
        sender.newest = number.number;
        Some(number)
    }

    /// The numbers of events that were refused, or went to other sources, are done.
    pub(super) fn numbers_done(&mut self, shared: &mut Shared) {
        if let Some(Sender { stream, newest, .. }) = self.sender {
            shared.lanes.done(self.lane, Numbered { stream, number: newest });
        }
    }

    /// Whether there is something that the sender was not told is committed.
    pub fn has_to_tell(&self) -> bool {
        self.sender.as_ref().is_some_and(|sender| sender.told < sender.newest)
    }

    /// Tells the sender what is committed by now, if that is news. Flush first.
    pub fn acknowledge(&mut self, shared: &Shared, replies: &mut Vec<u8>) {
        let Some(sender) = &mut self.sender else { return };
        let committed = shared.lanes.committed(Numbered { stream: sender.stream, number: sender.newest });
        if committed <= sender.told {
            return;
        }
        sender.told = committed;
        let rejected = self.account.rejected;
        let is_durable = shared.lanes.undurable() == sender.undurable;
        sender.undurable = shared.lanes.undurable();
        match self.framing {
            Framing::Binary(_) => wire::put_committed(replies, committed, is_durable, rejected),
            _ => {
                let line = json!({"jumpseat": {"committed": committed, "durable": is_durable, "rejected": rejected}});
                replies.extend_from_slice(format!("{line}\n").as_bytes());
            }
        }
    }

    /// Another connection goes on as this sender: nothing more is taken in from this one.
    pub fn displace(&mut self, shared: &mut Shared, replies: &mut Vec<u8>) {
        (self.broken, self.displaced) = (true, true);
        let detail = "another connection goes on as this sender";
        self.reject(Refusal::at(0, Reason::Control, detail), None, shared);
        // What came until now is committed, and the other one was told so, or will be.
        self.finish(&[], Timestamp::default(), shared, replies);
        self.leave(shared);
    }

    /// The connection is nobody's any more.
    pub fn leave(&mut self, shared: &mut Shared) {
        let Some(Sender { stream, .. }) = self.sender.take() else { return };
        if shared.senders.get(&stream) == Some(&self.conn) {
            shared.senders.remove(&stream);
        }
        shared.lanes.close_stream(stream);
    }

    /// A user's senders, or those with a token, are not those of another.
    fn stream_name(&self, id: &[u8]) -> Vec<u8> {
        // A user is a number; no name of a token begins so.
        let user = match &self.remote {
            None => self.peer.map(|peer| peer.uid.to_string()).unwrap_or_default(),
            Some(from) => format!("token {}", from.token.name()),
        };
        [b"sender:", user.as_bytes(), b":", id].concat()
    }
}
