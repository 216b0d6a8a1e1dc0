//! Control lines of the ingest socket: `{"jumpseat":{...}}` (`docs/ingest-protocol.md`).

use serde::Deserialize;
use serde_json::json;

use super::{Intake, Shared};
use crate::clock::SenderClock;
use crate::delivery::{MAX_SENDER_LOSS, Reason};
use crate::event::Refusal;
use crate::ndjson;
use jumpseat_wire as wire;
use pcp_model::Timestamp;

impl Intake {
    /// Does what a control line says, in the order of its meanings, not of its members.
    pub(super) fn control(
        &mut self,
        line: &[u8],
        arrived: Timestamp,
        shared: &mut Shared,
        replies: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let Control { source, clock, sender, next, ack, sync, missed, time, line: next_line } = parse(line)?;
        // The source first: a loss and the acknowledgement are of the source that the same line names.
        let mut refused = None;
        if let Some(name) = &source {
            self.lane = shared.lanes.source(name.as_bytes()).unwrap_or_else(|why| {
                refused = Some(why.to_string());
                self.own
            });
            shared.lanes.peer(self.lane, self.peer);
        }
        if let Some(clock) = clock {
            self.set_clock(clock);
        }
        if let Some(number) = next_line {
            // That of the next line is one more. A number is the sender's: those behind it are to fit, too.
            self.line = number.saturating_sub(1).min(u64::MAX / 2);
        }
        let known = match &sender {
            Some(id) => Some(self.set_sender(id.as_bytes(), next, arrived, shared)?),
            None if next.is_some() => {
                return Err(Refusal::at(
                    0,
                    Reason::Control,
                    "`next` without the `sender` whose number it is",
                ));
            }
            None => None,
        };
        if let Some(count) = missed.filter(|count| *count > 0) {
            if count > MAX_SENDER_LOSS {
                return Err(Refusal::at(0, Reason::Control, "more than 2^32 lost records at a time"));
            }
            let time = match &time {
                None => arrived,
                Some(time) => self
                    .time(time.as_text().as_bytes())
                    .map_err(|detail| Refusal::at(0, Reason::Time, detail))?,
            };
            shared.lanes.missed(self.lane, count, time);
        }
        if ack {
            let used = source.filter(|_| refused.is_none()).unwrap_or_else(|| self.own_name(shared));
            let hello = json!({"jumpseat": {
                "version": wire::VERSION, "source": used, "refused": refused, "line": self.line + 1,
            }});
            replies.extend_from_slice(format!("{hello}\n").as_bytes());
        }
        if let Some(known) = known {
            let answer = json!({"jumpseat": {"sender": sender, "known": known}});
            replies.extend_from_slice(format!("{answer}\n").as_bytes());
        }
        if let Some(token) = sync {
            // The answer says that all before it was handed over, so it is.
            let (accepted, rejected, missed) = self.synced(shared);
            let synced = json!({"jumpseat": {
                "synced": token, "accepted": accepted, "rejected": rejected, "missed": missed,
            }});
            replies.extend_from_slice(format!("{synced}\n").as_bytes());
        }
        Ok(())
    }

    /// A time of a control line.
    fn time(&self, text: &[u8]) -> Result<Timestamp, &'static str> {
        if self.clock == SenderClock::Realtime || ndjson::time::is_rfc3339(text) {
            return ndjson::time::from_text(text);
        }
        ndjson::time::from_clock(text).map(|time| self.offset.realtime(time))
    }
}

fn parse(line: &[u8]) -> Result<Control<SenderClock>, Refusal> {
    let parsed: Result<ControlLine<SenderClock>, _> = serde_json::from_slice(line);
    parsed.map(|line| line.jumpseat).map_err(|error| {
        // The parser's error does not say which member it is about. If any word will do for a clock, it was the
        // clock.
        let is_clock = serde_json::from_slice::<ControlLine<String>>(line).is_ok();
        let detail = if is_clock {
            "not a clock: realtime, monotonic and boottime are allowed"
        } else {
            "not a control line: source, clock, line, sender, next, ack, sync, missed and time are allowed"
        };
        Refusal::at(error.column().saturating_sub(1), Reason::Control, detail)
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ControlLine<C> {
    jumpseat: Control<C>,
}

/// What a control line says; `C` is a clock.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Control<C> {
    source: Option<String>,
    clock: Option<C>,
    line: Option<u64>,
    sender: Option<String>,
    next: Option<u64>,
    #[serde(default)]
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
