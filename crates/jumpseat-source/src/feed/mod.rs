//! Sending events to an ingest socket: the library behind `jumpseat feed`.
//!
//! Input is read line by line and goes out in either framing. Lines of JSON in the line framing are sent
//! as they are and judged by the server; otherwise they are parsed here first. The server's summary at
//! the end tells what became of them.

mod error;
mod input;
mod options;
mod record;
mod session;

pub use error::FeedError;
pub use options::{FeedOptions, LineKind};
pub use record::record_of;

use std::io::Read;
use std::time::{Duration, Instant};

use self::input::{LineReader, Position};
use self::session::Session;
use super::clock::{Offset, SenderClock};
use super::event::{Event, Limits, Refusal};
use super::ndjson::{self, Line};
use jumpseat_wire::encode::{Encoder, Record};
use jumpseat_wire::severity;

/// Longest line sent. Servers take less ([`super::SocketConfig::max_line`]), so what is longer is cut
/// here, and refused or cut there, all the same.
const MAX_LINE: usize = 1024 * 1024;
/// Bytes collected before they are written.
const WRITE_BYTES: usize = 64 * 1024;
/// How often progress is told.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// One input.
pub struct Input {
    /// Its name in messages.
    pub name: String,
    /// Its size in bytes, if known.
    pub size: Option<u64>,
    /// Where it is read from.
    pub reader: Box<dyn Read>,
}

/// How far a feed is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Events read so far.
    pub events: u64,
    /// Bytes read so far.
    pub bytes: u64,
    /// Bytes there are, if all inputs have a known size.
    pub total: Option<u64>,
    /// Time since the start.
    pub elapsed: Duration,
}

/// What became of the events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Events sent: lines that were not blank, and not control lines.
    pub sent: u64,
    /// Taken in by the server.
    pub accepted: u64,
    /// Refused, by the server or before sending.
    pub rejected: u64,
    /// Taken in with something cut off.
    pub truncated: u64,
    /// Taken in, but lost because the agent could not keep up. They are part of `accepted`.
    pub missed: u64,
    /// Bytes read.
    pub bytes: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// The first refusal.
    pub first_rejection: Option<Rejection>,
}

/// A refusal, where it is in the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The input's name.
    pub input: String,
    /// Line number in it, from 1.
    pub line: u64,
    /// 1-based byte position: in the line, or in the binary frame made of it.
    pub column: u64,
    /// The reason's word ([`super::Reason::word`]).
    pub reason: String,
    /// The defect in words.
    pub detail: String,
}

/// Sends all inputs, one after the other, over one connection. `progress` is called now and then.
///
/// # Errors
/// [`FeedError`]; what the server took in until then stays there.
pub fn feed(
    options: &FeedOptions,
    inputs: Vec<Input>,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Report, FeedError> {
    if let LineKind::Plain { severity: Some(word), .. } = &options.lines
        && severity::from_word(word.as_bytes()).is_none()
    {
        return Err(FeedError::Severity(word.clone()));
    }
    let start = Instant::now();
    let total = inputs.iter().map(|input| input.size).sum();
    let mut feeder = Feeder {
        session: Session::open(options)?,
        options,
        position: Position::default(),
        report: Report::default(),
        event: Event::default(),
        line: Vec::new(),
        first: None,
        offset: Offset::default(),
    };
    let mut told = start;
    for input in inputs {
        feeder.position.next_input(&input.name);
        let mut lines = LineReader::new(input.reader, MAX_LINE);
        let before = feeder.report.bytes;
        // Clocks are compared once for all lines that were read and go out together.
        let mut compare = true;
        loop {
            let line = match lines.next() {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(error) => return Err(FeedError::Input { input: input.name, error }),
            };
            feeder.position.next_line();
            if compare {
                feeder.offset.adjust_to(options.clock.unwrap_or_default());
            }
            feeder.send(line)?;
            // Input from a terminal or a pipe should not wait for a full buffer.
            compare = feeder.session.buffered() >= WRITE_BYTES || !lines.has_buffered();
            if compare {
                feeder.flush()?;
            }
            if told.elapsed() >= PROGRESS_EVERY {
                told = Instant::now();
                let bytes = before + lines.consumed();
                progress(&Progress { events: feeder.report.sent, bytes, total, elapsed: start.elapsed() });
            }
        }
        feeder.report.bytes = before + lines.consumed();
    }
    let mut report = feeder.finish()?;
    report.elapsed = start.elapsed();
    let Report { sent: events, bytes, elapsed, .. } = report;
    progress(&Progress { events, bytes, total, elapsed });
    Ok(report)
}

struct Feeder<'a> {
    session: Session,
    options: &'a FeedOptions,
    position: Position,
    report: Report,
    event: Event,
    /// The line as it goes out.
    line: Vec<u8>,
    /// The first refusal before sending: its global line number.
    first: Option<(u64, Rejection)>,
    /// From the lines' clock to real time, in the binary framing.
    offset: Offset,
}

impl Feeder<'_> {
    fn send(&mut self, line: &[u8]) -> Result<(), FeedError> {
        if line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r')) {
            // Keeps the server's line numbers ours.
            self.session.blank_line();
            return Ok(());
        }
        self.report.sent += 1;
        match (&self.options.lines, self.session.encoder()) {
            (LineKind::Json, None) => {
                self.report.sent -= u64::from(is_control(line));
                self.session.line(line);
            }
            (LineKind::Plain { event_type, severity }, None) => {
                self.line.clear();
                put_plain(&mut self.line, &message(line), event_type.as_deref(), severity.as_deref());
                self.session.line(&self.line);
            }
            (LineKind::Plain { event_type, severity }, Some(encoder)) => {
                let message = message(line);
                let record = Record {
                    event_type: event_type.as_deref().map(str::as_bytes),
                    severity: severity.as_deref().map(str::as_bytes),
                    message: Some(message.as_bytes()),
                    ..Record::default()
                };
                let encoded = encoder.0.record(&record, encoder.1).map_err(|error| error.to_string());
                self.encoded(encoded);
            }
            (LineKind::Json, Some(encoder)) => {
                // In frames, unlike lines, times in text would be of the clock, too: so it is read here.
                let offset = self.options.clock.is_some_and(|clock| clock != SenderClock::Realtime);
                let offset = offset.then_some(self.offset);
                let encoded = encode(line, offset, &mut self.event, encoder);
                match encoded {
                    Ok(true) => self.encoded(Ok(())),
                    // A control line: it speaks of a connection in the line framing.
                    Ok(false) => self.report.sent -= 1,
                    Err((column, reason, detail)) => self.refuse(column, reason, detail),
                }
            }
        }
        Ok(())
    }

    fn encoded(&mut self, encoded: Result<(), String>) {
        match encoded {
            Ok(()) => self.session.mark_frames(self.position.line()),
            Err(detail) => self.refuse(1, "frame", detail),
        }
    }

    fn refuse(&mut self, column: u32, reason: &str, detail: String) {
        self.report.rejected += 1;
        if self.first.is_none() {
            let (input, line) = self.position.resolve(self.position.line());
            let (column, reason) = (column.into(), reason.to_owned());
            self.first = Some((self.position.line(), Rejection { input, line, column, reason, detail }));
        }
    }

    fn flush(&mut self) -> Result<(), FeedError> {
        let sent = self.report.sent;
        self.session.flush().map_err(|error| self.session.gone(&self.options.socket, sent, error))
    }

    fn finish(mut self) -> Result<Report, FeedError> {
        self.flush()?;
        let sent = self.report.sent;
        let summary = self
            .session
            .finish()
            .map_err(|error| self.session.gone(&self.options.socket, sent, error))?
            .map_err(|answer| FeedError::Answer { socket: self.options.socket.clone(), answer })?;
        let mut report = self.report;
        report.accepted = summary.accepted;
        report.rejected += summary.rejected;
        report.truncated = summary.truncated;
        report.missed = summary.missed;
        let theirs = summary.first_error.map(|error| {
            let global = self.session.line_of(error.line);
            let (input, line) = self.position.resolve(global);
            let session::FirstError { column, reason, detail, .. } = error;
            (global, Rejection { input, line, column, reason, detail })
        });
        report.first_rejection =
            [self.first, theirs].into_iter().flatten().min_by_key(|(line, _)| *line).map(|(_, first)| first);
        Ok(report)
    }
}

/// Parses a line and appends its frames. `Ok(false)`: a control line.
fn encode(
    line: &[u8],
    offset: Option<Offset>,
    event: &mut Event,
    (encoder, out): (&mut Encoder, &mut Vec<u8>),
) -> Result<bool, (u32, &'static str, String)> {
    let limits = Limits { max_line: MAX_LINE, max_field: MAX_LINE, truncate: false };
    let refused = |refusal: Refusal| (refusal.column, refusal.reason.word(), refusal.detail.to_owned());
    match ndjson::parse(line, &limits, false, event).map_err(refused)? {
        Line::Event => {}
        Line::Blank | Line::Control => return Ok(false),
    }
    if let Some(offset) = offset {
        event.take_time_of(offset, line).map_err(refused)?;
    }
    encoder
        .record(&record_of(line, event, &mut Vec::new()), out)
        .map(|()| true)
        .map_err(|error| (1, "frame", error.to_string()))
}

/// Whether the server takes a line for a control line.
fn is_control(line: &[u8]) -> bool {
    let mut event = Event::default();
    // Cheap for nearly all lines: only those that mention the word are parsed.
    memchr::memmem::find(line, b"\"jumpseat\"").is_some()
        && ndjson::parse(line, &Limits::default(), true, &mut event) == Ok(Line::Control)
}

/// A plain line as message text: UTF-8, no NUL, no carriage return at the end.
fn message(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    String::from_utf8_lossy(line).replace('\0', "\u{fffd}")
}

fn put_plain(out: &mut Vec<u8>, message: &str, event_type: Option<&str>, severity: Option<&str>) {
    let members = [("type", event_type), ("severity", severity), ("message", Some(message))];
    let mut before = b'{';
    for (name, text) in members {
        let Some(text) = text else { continue };
        out.push(before);
        out.extend_from_slice(format!("\"{name}\":").as_bytes());
        // Writing a text into a vector cannot fail.
        let _ = serde_json::to_writer(&mut *out, text);
        before = b',';
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_lines_become_json() {
        let mut out = Vec::new();
        put_plain(&mut out, &message(b"a \"b\" \xff\0\r"), Some("t"), None);
        assert_eq!(
            String::from_utf8(out).expect("UTF-8"),
            "{\"type\":\"t\",\"message\":\"a \\\"b\\\" \u{fffd}\u{fffd}\"}"
        );
    }

    #[test]
    fn control_lines_are_recognised_as_the_server_does() {
        assert!(is_control(br#" { "jumpseat" : {"sync":1}}"#));
        assert!(!is_control(br#"{"jumpseat":1}"#));
        assert!(!is_control(br#"{"a":"jumpseat"}"#));
        assert!(!is_control(br#"{"a":1,"jumpseat":{}}"#));
    }
}
