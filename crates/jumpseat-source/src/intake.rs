//! One connection's protocol, sans-I/O: bytes in, records and replies out (`docs/ingest-protocol.md`).
//!
//! The first byte decides the framing: `0xFF`, which no text starts with, is the binary one, anything
//! else NDJSON. Every line or frame that carries an event is either accepted or rejected; the first
//! rejection is kept for the summary, all are counted by reason and reported rate-limited.

use std::time::{Duration, Instant};

use memchr::memchr;
use serde::Deserialize;
use serde_json::json;

use jumpseat_wire as wire;

use super::binary::{self, Decoder};
use super::clock::{Offset, SenderClock};
use super::delivery::{MAX_SENDER_LOSS, Peer, Reason};
use super::event::{Event, Limits, Refusal};
use super::lanes::{ConnId, LaneId, Lanes};
use super::ndjson::{self, Line};
use super::report::Limiter;
use pcp_model::Timestamp;

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
    event: Event,
    report: Limiter,
}

impl Shared {
    /// Shared state around `lanes`.
    ///
    /// # Errors
    /// The default source cannot exist.
    pub fn new(
        mut lanes: Lanes,
        limits: Limits,
        default_name: &str,
    ) -> Result<Shared, super::registry::SourceRefused> {
        Ok(Shared {
            default_source: lanes.source(default_name.as_bytes())?,
            default_name: default_name.to_owned(),
            default_clock: SenderClock::default(),
            lanes,
            limits,
            event: Event::default(),
            report: Limiter::new(5, Duration::from_secs(10)),
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
    /// The first refusal.
    pub first_error: Option<FirstError>,
}

/// The first refusal of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstError {
    /// Line number, or frame number, from 1; blank and control lines count.
    pub line: u64,
    /// What was wrong.
    pub refusal: Refusal,
}

enum Framing {
    Unknown,
    Lines,
    Binary(Box<Decoder>),
}

/// One connection.
pub struct Intake {
    conn: ConnId,
    peer: Option<Peer>,
    framing: Framing,
    lane: LaneId,
    clock: SenderClock,
    /// From the sender's clock to real time, as of the current call.
    offset: Offset,
    line: u64,
    /// Bytes of the input's rest that hold no newline.
    scanned: usize,
    /// The rest of an oversized line is being skipped.
    skipping: bool,
    /// The account so far.
    pub account: Account,
    /// Nothing more can be made of this connection's bytes.
    pub broken: bool,
}

impl Intake {
    /// A connection. `conn` must be unique among the live connections of the thread.
    pub fn new(conn: ConnId, peer: Option<Peer>, shared: &Shared) -> Intake {
        Intake {
            conn,
            peer,
            framing: Framing::Unknown,
            lane: shared.default_source,
            clock: shared.default_clock,
            offset: Offset::default(),
            line: 0,
            scanned: 0,
            skipping: false,
            account: Account::default(),
            broken: false,
        }
    }

    /// Takes in the connection's bytes: those not consumed by the call before, and new ones. Returns how
    /// many are consumed, which is all but an incomplete line or frame within the limit.
    pub fn feed(&mut self, input: &[u8], shared: &mut Shared, replies: &mut Vec<u8>) -> usize {
        if self.broken {
            return input.len();
        }
        if let Framing::Unknown = self.framing {
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
        match self.framing {
            Framing::Binary(_) => self.frames(input, shared, replies),
            _ => self.lines(input, shared, replies),
        }
    }

    /// The end of the connection's bytes: `rest` is what was not consumed. Hands over what is batched and
    /// appends the summary.
    pub fn finish(&mut self, rest: &[u8], shared: &mut Shared, replies: &mut Vec<u8>) {
        if !rest.is_empty() && !self.broken {
            match self.framing {
                Framing::Binary(_) => {
                    self.line += 1;
                    let refusal = Refusal::at(rest.len(), Reason::Frame, "the stream ends within a frame");
                    shared.lanes.bytes(self.lane, rest.len());
                    self.reject(refusal, shared);
                }
                _ => {
                    self.line += 1;
                    self.offset.adjust_to(self.clock);
                    self.line(rest, false, shared, replies);
                    shared.lanes.bytes(self.lane, rest.len());
                }
            }
        }
        self.summary(shared, replies);
    }

    fn summary(&self, shared: &mut Shared, replies: &mut Vec<u8>) {
        shared.lanes.flush();
        let first_error = self.account.first_error.as_ref().map(|first| {
            json!({
                "line": first.line,
                "column": first.refusal.column,
                "reason": first.refusal.reason.word(),
                "detail": first.refusal.detail,
            })
        });
        let summary = json!({
            "accepted": self.account.accepted,
            "rejected": self.account.rejected,
            "truncated": self.account.truncated,
            "missed": shared.lanes.lost(self.conn),
            "first_error": first_error,
        });
        match self.framing {
            Framing::Binary(_) => {
                wire::put_frame(replies, wire::SUMMARY, summary.to_string().as_bytes());
            }
            _ => replies.extend_from_slice(format!("{summary}\n").as_bytes()),
        }
    }

    fn lines(&mut self, input: &[u8], shared: &mut Shared, replies: &mut Vec<u8>) -> usize {
        let max = shared.limits.max_line;
        let mut at = 0;
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
                    self.oversized(rest, shared, replies);
                    self.skipping = true;
                    at = input.len();
                } else {
                    self.scanned = rest.len();
                }
                shared.lanes.bytes(self.lane, at - start_of_lane);
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
                    self.oversized(&rest[..end], shared, replies);
                } else {
                    self.line(&rest[..end], false, shared, replies);
                }
                if lane != self.lane {
                    shared.lanes.bytes(lane, at - start_of_lane);
                    start_of_lane = at;
                }
            }
            at += end + 1;
        }
    }

    #[cold]
    fn oversized(&mut self, line: &[u8], shared: &mut Shared, replies: &mut Vec<u8>) {
        let max = shared.limits.max_line;
        if shared.limits.truncate {
            self.line(&line[..max.min(line.len())], true, shared, replies);
        } else {
            let refusal = Refusal::at(max, Reason::OversizeLine, "a line longer than the limit");
            self.reject(refusal, shared);
        }
    }

    fn line(&mut self, line: &[u8], cut: bool, shared: &mut Shared, replies: &mut Vec<u8>) {
        let result = match ndjson::parse(line, &shared.limits, cut, &mut shared.event) {
            Ok(Line::Event) => self.event(line, shared),
            Ok(Line::Blank) => Ok(()),
            Ok(Line::Control) => self.control(line, shared, replies),
            Err(refusal) => Err(refusal),
        };
        if let Err(refusal) = result {
            self.reject(refusal, shared);
        }
    }

    #[inline]
    fn event(&mut self, line: &[u8], shared: &mut Shared) -> Result<(), Refusal> {
        let Shared { lanes, event, default_source, .. } = shared;
        if self.clock != SenderClock::Realtime {
            event.take_time_of(self.offset, line)?;
        }
        let lane = match event.source {
            None => self.lane,
            // The registry counts what it refuses.
            Some(name) => lanes.source(event.text(line, name)).unwrap_or(*default_source),
        };
        lanes.write(self.conn, lane, line, event)?;
        self.account.accepted += 1;
        self.account.truncated += u64::from(event.truncated);
        Ok(())
    }

    fn control(&mut self, line: &[u8], shared: &mut Shared, replies: &mut Vec<u8>) -> Result<(), Refusal> {
        let control: ControlLine = serde_json::from_slice(line).map_err(|error| {
            // The only words of a fixed set in it are those of clocks.
            let detail = if error.to_string().starts_with("unknown variant") {
                "not a clock: realtime, monotonic and boottime are allowed"
            } else {
                "not a control line: source, clock, ack, sync, missed and time are allowed"
            };
            Refusal::at(error.column().saturating_sub(1), Reason::Control, detail)
        })?;
        let Control { source, clock, ack, sync, missed, time } = control.jumpseat;
        let mut refused = None;
        if let Some(name) = &source {
            self.lane = shared.lanes.source(name.as_bytes()).unwrap_or_else(|why| {
                refused = Some(why.to_string());
                shared.default_source
            });
            shared.lanes.peer(self.lane, self.peer);
        }
        if let Some(clock) = clock {
            self.set_clock(clock);
        }
        if let Some(count) = missed.filter(|count| *count > 0) {
            if count > MAX_SENDER_LOSS {
                return Err(Refusal::at(0, Reason::Control, "more than 2^32 lost records at a time"));
            }
            let time = match &time {
                None => shared.lanes.now,
                Some(time) => self
                    .time(time.as_text().as_bytes())
                    .map_err(|detail| Refusal::at(0, Reason::Time, detail))?,
            };
            shared.lanes.missed(self.lane, count, time);
        }
        if ack {
            let used = source.filter(|_| refused.is_none()).unwrap_or_else(|| shared.default_name.clone());
            let hello = json!({"jumpseat": {"version": wire::VERSION, "source": used, "refused": refused}});
            replies.extend_from_slice(format!("{hello}\n").as_bytes());
        }
        if let Some(token) = sync {
            let (accepted, rejected, missed) = self.synced(shared);
            let synced = json!({"jumpseat": {
                "synced": token, "accepted": accepted, "rejected": rejected, "missed": missed,
            }});
            replies.extend_from_slice(format!("{synced}\n").as_bytes());
        }
        Ok(())
    }

    fn set_clock(&mut self, clock: SenderClock) {
        self.clock = clock;
        self.offset.adjust_to(clock);
    }

    /// A time of a control line.
    fn time(&self, text: &[u8]) -> Result<Timestamp, &'static str> {
        if self.clock == SenderClock::Realtime || ndjson::time::is_rfc3339(text) {
            return ndjson::time::from_text(text);
        }
        ndjson::time::from_clock(text).map(|time| self.offset.realtime(time))
    }

    /// Hands over what is batched, and tells accepted, rejected and missed.
    fn synced(&mut self, shared: &mut Shared) -> (u64, u64, u64) {
        shared.lanes.flush();
        (self.account.accepted, self.account.rejected, shared.lanes.lost(self.conn))
    }

    fn frames(&mut self, input: &[u8], shared: &mut Shared, replies: &mut Vec<u8>) -> usize {
        // Taken out for the loop, so that the rest of `self` stays usable.
        let Framing::Binary(mut decoder) = std::mem::replace(&mut self.framing, Framing::Unknown) else {
            return input.len();
        };
        decoder.offset = self.offset;
        let mut at = 0;
        loop {
            let step = decoder.step(&input[at..], self.lane, self.conn, shared);
            at += step.consumed;
            self.line += u64::from(step.frame);
            match step.outcome {
                Ok(binary::Outcome::Incomplete) => break,
                Ok(binary::Outcome::Nothing) => {}
                Ok(binary::Outcome::Record { truncated }) => {
                    self.account.accepted += 1;
                    self.account.truncated += u64::from(truncated);
                }
                Ok(binary::Outcome::Source(lane)) => {
                    self.lane = lane;
                    shared.lanes.peer(lane, self.peer);
                }
                Ok(binary::Outcome::Clock(clock)) => {
                    self.set_clock(clock);
                    decoder.offset = self.offset;
                }
                Ok(binary::Outcome::Sync(token)) => {
                    let (accepted, rejected, missed) = self.synced(shared);
                    wire::put_ack(replies, token, accepted, rejected, missed);
                }
                Err(refusal) => {
                    self.reject(refusal, shared);
                    if decoder.is_lost() {
                        self.broken = true;
                        at = input.len();
                        break;
                    }
                }
            }
        }
        self.framing = Framing::Binary(decoder);
        shared.lanes.bytes(self.lane, at);
        at
    }

    #[cold]
    fn reject(&mut self, refusal: Refusal, shared: &mut Shared) {
        self.account.rejected += 1;
        shared.lanes.reject(self.lane, refusal.reason);
        let line = self.line;
        self.account.first_error.get_or_insert(FirstError { line, refusal });
        if let Some(held_back) = shared.report.allow(Instant::now()) {
            tracing::warn!(
                connection = self.conn,
                pid = self.peer.map(|peer| peer.pid),
                line,
                column = refusal.column,
                reason = refusal.reason.word(),
                held_back,
                "event refused: {}",
                refusal.detail
            );
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ControlLine {
    jumpseat: Control,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Control {
    source: Option<String>,
    clock: Option<SenderClock>,
    ack: bool,
    sync: Option<u64>,
    missed: Option<u64>,
    time: Option<ControlTime>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ControlTime {
    Text(String),
    Nanos(i64),
}

impl ControlTime {
    fn as_text(&self) -> String {
        match self {
            ControlTime::Text(text) => text.clone(),
            ControlTime::Nanos(number) => number.to_string(),
        }
    }
}
