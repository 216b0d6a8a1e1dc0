//! One connection's protocol, sans-I/O: bytes in, records and replies out (`docs/ingest-protocol.md`).
//!
//! The first byte decides the framing: `0xFF`, which no text starts with, is the binary one, anything
//! else NDJSON. Every line or frame that carries an event is either accepted or rejected; the first
//! rejection is kept for the summary, all are counted by reason and reported rate-limited.

mod control;
mod rings;
mod sender;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use memchr::{memchr, memrchr};
use rustc_hash::FxHashMap;
use serde_json::json;

use jumpseat_wire as wire;

use super::binary::{Decoder, Destination, Frame};
use super::clock::{Offset, SenderClock};
use super::delivery::{ConnId, Peer, Reason};
use super::event::{Event, Limits, Refusal};
use super::guard::tokens::Token;
use super::lanes::{Arrival, LaneId, Lanes, Numbered, StreamId};
use super::ndjson::{self, Line, Utf8};
use super::registry::{SourceRefused, Taker};
use super::rings::Rings;
use super::rings::file::Quota;
use super::rings::reader::Portion;
use pcp_model::Timestamp;
use pcp_net::{Identity, Limiter};

/// What all connections of a thread share.
pub struct Shared {
    /// Where records go.
    pub lanes: Lanes,
    /// How long things may be.
    pub limits: Limits,
    /// The source of connections that name none.
    pub default_source: LaneId,
    /// Its name.
    pub default_name: String,
    /// The clock of lines on connections that name none.
    pub default_clock: SenderClock,
    /// Which connection is a sender's.
    senders: FxHashMap<StreamId, ConnId>,
    /// Connections whose sender has come on another one: to be given to [`Intake::displace`].
    pub displaced: Vec<ConnId>,
    event: Event,
    report: Limiter,
    /// For whom files of rings are held.
    rings: Arc<Quota>,
    /// What was read of rings, for its memory.
    portion: Portion,
}

impl Shared {
    /// Shared state around `lanes`.
    ///
    /// # Errors
    /// The default source cannot exist.
    pub fn new(mut lanes: Lanes, limits: Limits, default_name: &str) -> Result<Shared, SourceRefused> {
        Ok(Shared {
            default_source: lanes.source(default_name.as_bytes())?,
            default_name: default_name.to_owned(),
            default_clock: SenderClock::default(),
            lanes,
            limits,
            senders: FxHashMap::default(),
            displaced: Vec::new(),
            event: Event::default(),
            report: Limiter::new(5, Duration::from_secs(10)),
            rings: Arc::default(),
            portion: Portion::default(),
        })
    }
}

/// A connection's account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Events taken in.
    pub accepted: u64,
    /// Events refused.
    pub rejected: u64,
    /// Events taken in with something cut off.
    pub truncated: u64,
    /// Events that were there already.
    pub repeated: u64,
    /// The first refusal.
    pub first_error: Option<FirstError>,
}

/// The first refusal of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstError {
    /// Line number, as the sender counts if it says so; else from 1, and blank and control lines count. In the binary
    /// framing the number of a frame.
    pub line: u64,
    /// What was wrong.
    pub refusal: Refusal,
}

enum Framing {
    Unknown,
    Lines,
    Binary(Box<Decoder>),
}

/// Where a connection is from that is not of this machine.
struct From {
    host: IpAddr,
    token: Arc<Token>,
    /// Events taken in and refused that were counted with it.
    told: (u64, u64),
}

/// One connection.
pub struct Intake {
    conn: ConnId,
    peer: Option<Peer>,
    /// Whose names these are.
    taker: Taker,
    framing: Framing,
    lane: LaneId,
    /// The source of what names none, or one that is for others.
    own: LaneId,
    /// What it came in with, if it is from elsewhere.
    remote: Option<From>,
    clock: SenderClock,
    /// From the sender's clock to real time, as of the current call.
    offset: Offset,
    line: u64,
    sender: Option<sender::Sender>,
    /// Another connection goes on as its sender.
    displaced: bool,
    /// Bytes of the input's rest that hold no newline.
    scanned: usize,
    /// Bytes of this call's lines that named a source for themselves, and are counted to that.
    elsewhere: usize,
    /// The rest of an oversized line is being skipped.
    skipping: bool,
    /// Those of the sender.
    rings: Rings,
    /// There may be whole frames in what was not consumed.
    is_held: bool,
    /// The account so far.
    pub account: Account,
    /// Nothing more can be made of this connection's bytes.
    pub broken: bool,
}

impl Intake {
    /// Keeps the places of the sources that this connection may send under without naming them again.
    pub fn keep(&self, lanes: &mut Lanes) {
        lanes.keep(self.lane);
        if let Framing::Binary(decoder) = &self.framing {
            decoder.sources().iter().for_each(|lane| lanes.keep(*lane));
        }
    }

    /// A connection. `conn` must be unique among the live connections of the thread.
    pub fn new(conn: ConnId, peer: Option<Peer>, shared: &Shared) -> Intake {
        Intake {
            conn,
            peer,
            // Root could write the files of names itself.
            taker: peer.map_or(Taker::Trusted, |peer| match peer.uid {
                0 => Taker::Trusted,
                uid => Taker::User(uid),
            }),
            framing: Framing::Unknown,
            lane: shared.default_source,
            own: shared.default_source,
            remote: None,
            clock: shared.default_clock,
            offset: Offset::default(),
            line: 0,
            elsewhere: 0,
            sender: None,
            displaced: false,
            scanned: 0,
            skipping: false,
            rings: Rings::default(),
            is_held: false,
            account: Account::default(),
            broken: false,
        }
    }

    /// A connection from a host that has said a token.
    pub(crate) fn admitted(conn: ConnId, host: IpAddr, token: &Arc<Token>, shared: &mut Shared) -> Intake {
        let mut intake = Intake::new(conn, None, shared);
        intake.taker = Taker::Host(host);
        intake.remote = Some(From { host, token: Arc::clone(token), told: (0, 0) });
        intake.speak(shared);
        if let Some(pass) = token.pass()
            && let Ok(own) = shared.lanes.source(pass.own.as_bytes())
        {
            (intake.own, intake.lane) = (own, own);
        }
        intake
    }

    /// Says whose what comes next is.
    fn speak(&self, shared: &mut Shared) {
        let of_user = |peer: Peer| Identity { uid: Some(peer.uid), gid: Some(peer.gid), host: None };
        let sender = match &self.remote {
            None => self.peer.map(of_user).unwrap_or_default(),
            Some(From { host, .. }) => Identity { host: Some(*host), ..Identity::default() },
        };
        shared.lanes.set_sender(self.taker, sender);
        if let Some(From { token, .. }) = &self.remote {
            shared.lanes.set_pass(token.pass().cloned());
        }
    }

    /// The name of the source of what names none.
    fn own_name(&self, shared: &Shared) -> String {
        let pass = self.remote.as_ref().and_then(|from| from.token.pass());
        pass.map_or_else(|| shared.default_name.clone(), |pass| pass.own.clone())
    }

    /// Takes in the connection's bytes: those not consumed by the call before, and new ones, which were read at
    /// `arrived`. Returns how many are consumed, which is all but an incomplete line or frame within the limit, or what is left for
    /// another turn ([`Intake::is_held`]).
    pub fn feed(
        &mut self,
        input: &[u8],
        arrived: Timestamp,
        shared: &mut Shared,
        replies: &mut Vec<u8>,
    ) -> usize {
        if self.broken {
            return input.len();
        }
        self.speak(shared);
        if let Framing::Unknown = self.framing {
            // No text begins with the first byte of the binary greeting, so one byte tells.
            match input.first() {
                None => return 0,
                Some(&wire::MAGIC_0) => {
                    self.framing = Framing::Binary(Box::default());
                    // The default is one of lines: who sends frames knows that they are of real time.
                    self.clock = SenderClock::Realtime;
                }
                Some(_) => self.framing = Framing::Lines,
            }
            shared.lanes.peer(self.lane, self.peer);
        }
        self.offset.adjust_to(self.clock);
        let used = match self.framing {
            Framing::Binary(_) => self.frames(input, arrived, shared, replies),
            _ => self.lines(input, arrived, shared, replies),
        };
        self.numbers_done(shared);
        self.tell_token();
        used
    }

    /// Whether what was not consumed is to be given again before more is read: there was so much to do that others have their turn.
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// The end of the connection's bytes, which came at `arrived`: `rest` is what was not consumed. Hands over what is
    /// batched and appends the summary.
    pub fn finish(&mut self, rest: &[u8], arrived: Timestamp, shared: &mut Shared, replies: &mut Vec<u8>) {
        // Who numbers its events sends the last one again if it did not come whole: half of it must not be taken for it.
        if !rest.is_empty() && !self.broken && self.sender.is_none() {
            self.speak(shared);
            match self.framing {
                Framing::Binary(_) => {
                    self.line += 1;
                    let refusal = Refusal::at(rest.len(), Reason::Frame, "the stream ends within a frame");
                    shared.lanes.bytes(self.lane, rest.len());
                    self.reject(refusal, None, shared);
                }
                _ => {
                    self.line += 1;
                    self.offset.adjust_to(self.clock);
                    self.line((rest, Utf8::Unknown, false), arrived, shared, replies);
                    self.count_bytes(self.lane, rest.len(), shared);
                }
            }
        }
        self.tell_token();
        self.summary(shared, replies);
    }

    /// Counts what has come since the last time with the token of the connection.
    fn tell_token(&mut self) {
        let Some(From { token, told, .. }) = &mut self.remote else { return };
        let Account { accepted, rejected, .. } = self.account;
        let before = std::mem::replace(told, (accepted, rejected));
        token.counts().records(accepted - before.0, rejected - before.1);
    }

    fn summary(&mut self, shared: &mut Shared, replies: &mut Vec<u8>) {
        shared.lanes.flush();
        self.acknowledge(shared, replies);
        let first_error = self.account.first_error.as_ref().map(|first| {
            json!({
                "line": first.line,
                "column": first.refusal.column,
                "reason": first.refusal.reason.word(),
                "detail": first.refusal.detail,
            })
        });
        let mut summary = json!({
            "accepted": self.account.accepted,
            "rejected": self.account.rejected,
            "truncated": self.account.truncated,
            "missed": shared.lanes.lost(self.conn),
            "first_error": first_error,
        });
        if self.sender.is_some() {
            summary["repeated"] = self.account.repeated.into();
            summary["displaced"] = self.displaced.into();
        }
        match self.framing {
            Framing::Binary(_) => {
                wire::put_frame(replies, wire::SUMMARY, summary.to_string().as_bytes());
            }
            _ => replies.extend_from_slice(format!("{summary}\n").as_bytes()),
        }
    }

    fn lines(
        &mut self,
        input: &[u8],
        arrived: Timestamp,
        shared: &mut Shared,
        replies: &mut Vec<u8>,
    ) -> usize {
        let max = shared.limits.max_line;
        let mut at = 0;
        // Whole lines, and so whole characters, in one go: seldom anything else than UTF-8 comes.
        let whole = memrchr(b'\n', input).map_or(0, |last| last + 1);
        let utf8 = if ndjson::is_utf8(&input[..whole]) { Utf8::Known } else { Utf8::Unknown };
        // The bytes are told to the lanes in one go per call, not per line.
        let mut start_of_lane = 0;
        loop {
            let rest = &input[at..];
            let Some(newline) = memchr(b'\n', rest.get(self.scanned..).unwrap_or_default()) else {
                self.scanned = 0;
                if self.skipping {
                    at = input.len();
                } else if rest.len() > max {
                    self.line += 1;
                    self.oversized(rest, arrived, shared, replies);
                    // Its rest is skipped as it comes, so that it takes no memory.
                    self.skipping = true;
                    at = input.len();
                } else {
                    self.scanned = rest.len();
                }
                // What is incomplete counts when it is given again.
                self.count_bytes(self.lane, at - start_of_lane, shared);
                return at;
            };
            let end = self.scanned + newline;
            self.scanned = 0;
            if self.skipping {
                self.skipping = false;
            } else {
                let lane = self.lane;
                self.line += 1;
                if end > max {
                    self.oversized(&rest[..end], arrived, shared, replies);
                } else {
                    self.line((&rest[..end], utf8, false), arrived, shared, replies);
                }
                // A control line has changed the source: what came before it is of the one before.
                if lane != self.lane {
                    self.count_bytes(lane, at - start_of_lane, shared);
                    start_of_lane = at;
                }
            }
            at += end + 1;
        }
    }

    /// Counts the bytes of lines to a lane, but for those that have been counted to others.
    fn count_bytes(&mut self, lane: LaneId, bytes: usize, shared: &mut Shared) {
        let elsewhere = std::mem::take(&mut self.elsewhere);
        shared.lanes.bytes(lane, bytes.saturating_sub(elsewhere));
    }

    #[cold]
    fn oversized(&mut self, line: &[u8], arrived: Timestamp, shared: &mut Shared, replies: &mut Vec<u8>) {
        let max = shared.limits.max_line;
        if shared.limits.truncate {
            self.line((&line[..max.min(line.len())], Utf8::Unknown, true), arrived, shared, replies);
        } else {
            let refusal = Refusal::at(max, Reason::OversizeLine, "a line longer than the limit");
            let number = self.next_number();
            self.reject(refusal, number, shared);
        }
    }

    /// Takes in a line, or with `cut` the beginning of a longer one.
    fn line(
        &mut self,
        (line, utf8, cut): (&[u8], Utf8, bool),
        arrived: Timestamp,
        shared: &mut Shared,
        replies: &mut Vec<u8>,
    ) {
        let parsed = ndjson::parse_checked((line, utf8), &shared.limits, cut, &mut shared.event);
        let is_event = !matches!(parsed, Ok(Line::Blank | Line::Control));
        let number = if is_event { self.next_number() } else { None };
        let result = match parsed {
            Ok(Line::Event) => self.event((line, number), arrived, shared),
            Ok(Line::Blank) => Ok(()),
            Ok(Line::Control) => self.control(line, arrived, shared, replies),
            Err(refusal) => Err(refusal),
        };
        if let Err(refusal) = result {
            self.reject(refusal, number, shared);
        }
    }

    #[inline]
    fn event(
        &mut self,
        (line, number): (&[u8], Option<Numbered>),
        arrived: Timestamp,
        shared: &mut Shared,
    ) -> Result<(), Refusal> {
        let Shared { lanes, event, .. } = shared;
        // Nearly all senders use the real clock, and their times are right as they were parsed.
        if self.clock != SenderClock::Realtime {
            event.take_time_of(self.offset, line)?;
        }
        let lane = match event.source {
            None => self.lane,
            // The registry counts what it refuses.
            Some(name) => {
                let lane = lanes.source(event.text(line, name)).unwrap_or(self.own);
                lanes.bytes(lane, line.len());
                self.elsewhere += line.len();
                lane
            }
        };
        if let Some(number) = number {
            if lanes.is_there(lane, number) {
                self.account.repeated += 1;
                return Ok(());
            }
            lanes.number(number);
        }
        lanes.write(Arrival { conn: self.conn, time: arrived }, lane, line, event)?;
        self.account.accepted += 1;
        self.account.truncated += u64::from(event.truncated);
        Ok(())
    }

    /// Hands over what is batched, and tells accepted, rejected and missed.
    fn synced(&mut self, shared: &mut Shared) -> (u64, u64, u64) {
        shared.lanes.flush();
        (self.account.accepted, self.account.rejected, shared.lanes.lost(self.conn))
    }

    fn set_clock(&mut self, clock: SenderClock) {
        self.clock = clock;
        self.offset.adjust_to(clock);
    }

    fn frames(
        &mut self,
        input: &[u8],
        arrived: Timestamp,
        shared: &mut Shared,
        replies: &mut Vec<u8>,
    ) -> usize {
        // Taken out for the loop, so that the rest of `self` stays usable.
        let Framing::Binary(mut decoder) = std::mem::replace(&mut self.framing, Framing::Unknown) else {
            return input.len();
        };
        decoder.offset = self.offset;
        self.is_held = false;
        let mut at = 0;
        loop {
            // Taken by a record only.
            let number = self.sender.as_ref().map(sender::Sender::next);
            let taken = decoder.take(&input[at..], &mut self.destination(arrived, number, shared));
            at += taken.consumed;
            self.line += u64::from(taken.frame);
            let number = if taken.is_record { self.next_number() } else { None };
            match taken.outcome {
                Ok(Frame::Incomplete) => break,
                Ok(Frame::Nothing) => {}
                Ok(Frame::Record { truncated }) => {
                    self.account.accepted += 1;
                    self.account.truncated += u64::from(truncated);
                }
                Ok(Frame::Repeated) => self.account.repeated += 1,
                Ok(Frame::Missed { count, time }) => self.sender_missed(count, time, shared),
                Ok(Frame::Sender { id, next }) => match self.set_sender(&id, Some(next), arrived, shared) {
                    Ok(known) => wire::put_known(replies, known),
                    Err(refusal) => self.reject(refusal, None, shared),
                },
                Ok(Frame::Source(lane)) => {
                    self.lane = lane;
                    shared.lanes.peer(lane, self.peer);
                }
                Ok(Frame::Clock(clock)) => {
                    self.set_clock(clock);
                    decoder.offset = self.offset;
                }
                Ok(Frame::Sync(token)) => {
                    let (accepted, rejected, missed) = self.synced(shared);
                    wire::put_ack(replies, token, accepted, rejected, missed);
                }
                Ok(Frame::Rings(connection)) => self.rings(connection, shared, replies),
                Ok(Frame::Chunk(number)) => {
                    self.chunk(number, arrived, shared, replies);
                    // As much work as a few reads may be: what is behind it waits for its turn.
                    self.is_held = !self.broken;
                    break;
                }
                // The sender goes on as if nothing had happened, and so do we, unless the frames' bounds are lost.
                Err(refusal) => {
                    self.reject(refusal, number, shared);
                    if decoder.is_lost() {
                        self.broken = true;
                        break;
                    }
                }
            }
        }
        if self.broken {
            // Nobody comes back for the rest.
            at = input.len();
        }
        self.framing = Framing::Binary(decoder);
        shared.lanes.bytes(self.lane, at);
        at
    }

    /// Where a record goes that has come now.
    #[inline]
    fn destination<'a>(
        &self,
        arrived: Timestamp,
        number: Option<Numbered>,
        shared: &'a mut Shared,
    ) -> Destination<'a> {
        Destination {
            lanes: &mut shared.lanes,
            limits: &shared.limits,
            lane: self.lane,
            default_source: self.own,
            arrival: Arrival { conn: self.conn, time: arrived },
            number,
        }
    }

    #[cold]
    fn reject(&mut self, refusal: Refusal, number: Option<Numbered>, shared: &mut Shared) {
        // It was refused already, when it came first.
        if number.is_some_and(|number| shared.lanes.is_there(self.lane, number)) {
            self.account.repeated += 1;
            return;
        }
        self.account.rejected += 1;
        shared.lanes.reject(self.lane, refusal.reason);
        let line = self.line;
        // The first is kept, as the others are often its consequences.
        self.account.first_error.get_or_insert(FirstError { line, refusal });
        if let Some(held_back) = shared.report.allow(Instant::now()) {
            let is_frame = matches!(self.framing, Framing::Binary(_) | Framing::Unknown);
            tracing::warn!(
                connection = self.conn,
                pid = self.peer.map(|peer| peer.pid),
                line = (!is_frame).then_some(line),
                frame = is_frame.then_some(line),
                column = refusal.column,
                reason = refusal.reason.word(),
                held_back,
                "event refused: {}",
                refusal.detail
            );
        }
    }
}
