//! Sending events to an ingest socket: the library behind `jumpseat feed`.
//!
//! Input is read line by line and goes out in either framing. Lines of JSON in the line framing are sent
//! as they are and judged by the server; otherwise they are parsed here first. The server's summary at
//! the end tells what became of them.

mod error;
mod input;
mod keep;
mod options;
mod record;
mod session;
mod way;

pub use error::FeedError;
pub use jumpseat_wire::remote::Remote;
pub use options::{FeedOptions, LineKind};
pub use record::record_of;

use std::io::Read;
use std::time::{Duration, Instant};

use self::input::{LineReader, Position};
use self::keep::Keep;
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
    /// The connection broke, and there is no other yet.
    pub waiting: bool,
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
    /// Recognised by the server as there already.
    pub repeated: u64,
    /// How often the connection broke and there was another.
    pub reconnects: u64,
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

/// Sends all inputs, one after the other, over one connection, or several if they break and the sender has a name. `progress` is called now and then.
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
        session: keep::begin(options)?,
        keep: options.sender.as_ref().map(|_| Keep::new()),
        options,
        start,
        total,
        progress,
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
                feeder.report.bytes = before + lines.consumed();
                feeder.tell_progress(false);
            }
        }
        feeder.report.bytes = before + lines.consumed();
    }
    feeder.finish()?;
    feeder.tell_progress(false);
    Ok(Report { elapsed: start.elapsed(), ..feeder.report })
}

struct Feeder<'a> {
    session: Session,
    /// What is not acknowledged, if the sender has a name.
    keep: Option<Keep>,
    start: Instant,
    total: Option<u64>,
    progress: &'a mut dyn FnMut(&Progress),
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
        if self.keep.is_some() {
            return self.send_kept(line);
        }
        self.report.sent += 1;
        self.transmit(line, self.position.line());
        Ok(())
    }

    /// Has a line go out, in the framing of the connection.
    fn transmit(&mut self, line: &[u8], number: u64) {
        match (&self.options.lines, self.session.encoder()) {
            (LineKind::Json, None) => {
                self.report.sent -= u64::from(is_control(line));
                self.session.input_line(line, number);
            }
            (LineKind::Plain { event_type, severity }, None) => {
                self.line.clear();
                put_plain(&mut self.line, &message(line), event_type.as_deref(), severity.as_deref());
                self.session.input_line(&self.line, number);
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
                self.encoded(encoded, number);
            }
            (LineKind::Json, Some(encoder)) => {
                // In frames, unlike lines, times in text would be of the clock, too: so it is read here.
                let offset = self.options.clock.is_some_and(|clock| clock != SenderClock::Realtime);
                let offset = offset.then_some(self.offset);
                let encoded = encode(line, offset, &mut self.event, encoder);
                match encoded {
                    Ok(true) => self.encoded(Ok(()), number),
                    // A control line: it speaks of a connection in the line framing.
                    Ok(false) => self.report.sent -= 1,
                    Err((column, reason, detail)) => self.refuse(number, column, reason, detail),
                }
            }
        }
    }

    fn encoded(&mut self, encoded: Result<(), String>, number: u64) {
        match encoded {
            Ok(()) => self.session.mark_frames(number),
            Err(detail) => self.refuse(number, 1, "frame", detail),
        }
    }

    fn refuse(&mut self, number: u64, column: u32, reason: &str, detail: String) {
        self.report.rejected += 1;
        if self.first.is_none() {
            let (input, line) = self.position.resolve(number);
            let (column, reason) = (column.into(), reason.to_owned());
            self.first = Some((number, Rejection { input, line, column, reason, detail }));
        }
    }

    fn tell_progress(&mut self, waiting: bool) {
        let Report { sent: events, bytes, .. } = self.report;
        let elapsed = self.start.elapsed();
        (self.progress)(&Progress { events, bytes, total: self.total, waiting, elapsed });
    }

    fn flush(&mut self) -> Result<(), FeedError> {
        if self.keep.is_some() {
            return self.send_all();
        }
        let sent = self.report.sent;
        self.session.flush().map_err(|error| self.session.gone(&self.options.place(), sent, error))
    }

    /// Waits for the end of all that was sent, and fills in the report.
    fn finish(&mut self) -> Result<(), FeedError> {
        self.flush()?;
        self.wait_for_all()?;
        let socket = &self.options.place();
        let summary = match self.session.finish() {
            // All is acknowledged: nothing is missing but details.
            Err(_) if self.keep.as_ref().is_some_and(Keep::is_done) => {
                self.count_broken();
                None
            }
            Err(error) => return Err(self.session.gone(socket, self.report.sent, error)),
            Ok(Err(answer)) => return Err(FeedError::Answer { socket: socket.clone(), answer }),
            Ok(Ok(summary)) => Some(summary),
        };
        let mut theirs = None;
        if let Some(summary) = summary {
            self.report.accepted += summary.accepted;
            self.report.rejected += summary.rejected;
            self.report.truncated += summary.truncated;
            self.report.missed += summary.missed;
            self.report.repeated += summary.repeated;
            theirs = summary.first_error.map(|error| self.rejection(error));
        }
        let first = [self.first.take(), theirs].into_iter().flatten().min_by_key(|(line, _)| *line);
        self.report.first_rejection = first.map(|(_, first)| first);
        Ok(())
    }

    /// The server's first refusal, with its line over all inputs.
    fn rejection(&self, error: session::FirstError) -> (u64, Rejection) {
        let session::FirstError { line, column, reason, detail } = error;
        let global = self.session.line_of(line);
        let (input, line) = self.position.resolve(global);
        (global, Rejection { input, line, column, reason, detail })
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
