//! A connection to an ingest socket: greeting, sending, and the server's last word.

use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::error::FeedError;
use super::options::FeedOptions;
use super::way::Way;
use crate::registry::{SOURCE_NAME_RULE, is_source_name};
use jumpseat_wire::remote::RemoteError;
use jumpseat_wire::{self as wire, encode::Encoder};

/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest answer.
const MAX_ANSWER: u64 = 64 * 1024;

/// The server's summary.
#[derive(Debug, Deserialize)]
pub(super) struct Summary {
    pub accepted: u64,
    pub rejected: u64,
    #[serde(default)]
    pub truncated: u64,
    #[serde(default)]
    pub missed: u64,
    #[serde(default)]
    pub repeated: u64,
    #[serde(default)]
    pub displaced: bool,
    pub first_error: Option<FirstError>,
}

/// The first refusal in it.
#[derive(Debug, Deserialize)]
pub(super) struct FirstError {
    /// Line or frame number.
    pub line: u64,
    pub column: u64,
    pub reason: String,
    pub detail: String,
}

/// What the server said without being asked.
#[derive(Debug)]
pub(super) enum Said {
    /// Nothing yet.
    Nothing,
    /// Everything up to this number is committed, and so many events of the connection were refused.
    Committed { number: u64, rejected: u64 },
    /// Its last word.
    Summary(Summary),
}

/// A connection.
pub(super) struct Session {
    way: Way,
    out: Vec<u8>,
    /// What the server said and nobody has looked at.
    inbox: Vec<u8>,
    encoder: Option<Encoder>,
    /// Lines or frames sent so far.
    frames: u64,
    /// How much of `out` is counted in `frames`.
    counted: usize,
    /// From which frame on a line of the input has which distance to its frame: (frame, line), where that changes.
    marks: Vec<(u64, u64)>,
    /// The number that the next line has for the server, if it lets itself be told.
    told: Option<u64>,
}

impl Session {
    /// Connects and greets. `next`: the number of the first event, for senders that name themselves.
    pub(super) fn open(options: &FeedOptions, next: u64) -> Result<Session, FeedError> {
        if let Some(name) = &options.source
            && !is_source_name(name)
        {
            let why = SOURCE_NAME_RULE.to_owned();
            return Err(FeedError::Source { name: name.clone(), why });
        }
        let socket = || options.place();
        let way =
            Way::open(&options.socket, options.remote.as_ref(), PATIENCE).map_err(|error| match error {
                RemoteError::Refused { answer } => FeedError::Answer { socket: socket(), answer },
                RemoteError::Io(error) => FeedError::Connect { socket: socket(), error },
                other => FeedError::Connect { socket: socket(), error: io::Error::other(other) },
            })?;
        let (out, encoder) = (Vec::new(), None);
        let mut session = Session {
            way,
            out,
            inbox: Vec::new(),
            encoder,
            frames: 0,
            counted: 0,
            marks: Vec::new(),
            told: None,
        };
        if options.binary {
            session.greet_binary(options, next)?
        } else {
            session.greet_lines(options, next)?
        }
        Ok(session)
    }

    fn greet_lines(&mut self, options: &FeedOptions, next: u64) -> Result<(), FeedError> {
        let mut hello = json!({"ack": true});
        if let Some(source) = &options.source {
            hello["source"] = source.as_str().into();
        }
        if let Some(clock) = options.clock {
            hello["clock"] = clock.word().into();
        }
        self.line(json!({"jumpseat": hello}).to_string().as_bytes());
        let gone = |session: &mut Session, error| session.gone(&options.place(), 0, error);
        self.flush().map_err(|error| gone(self, error))?;
        let (_, answer) = self.message().map_err(|error| gone(self, error))?;
        let answer = text(&answer);
        let parsed: Result<HelloLine, _> = serde_json::from_str(&answer);
        match (parsed, &options.source) {
            (Ok(HelloLine { jumpseat: Hello { refused: Some(why), .. } }), Some(name)) => {
                return Err(FeedError::Source { name: name.clone(), why });
            }
            (Ok(HelloLine { jumpseat: hello }), _) => self.told = hello.line,
            (Err(_), _) => return Err(FeedError::Answer { socket: options.place(), answer }),
        }
        let Some(sender) = &options.sender else { return Ok(()) };
        // Behind it a question that is always answered: the server does not answer what it refuses.
        self.line(json!({"jumpseat": {"sender": sender, "next": next}}).to_string().as_bytes());
        self.line(b"{\"jumpseat\":{\"sync\":0}}");
        self.flush().map_err(|error| gone(self, error))?;
        let (_, answer) = self.message().map_err(|error| gone(self, error))?;
        if !text(&answer).contains("\"known\"") {
            return Err(FeedError::Sender(sender.clone()));
        }
        Ok(())
    }

    fn greet_binary(&mut self, options: &FeedOptions, next: u64) -> Result<(), FeedError> {
        let mut encoder = Encoder::new(&mut self.out);
        self.counted = self.out.len();
        if let Some(name) = &options.source {
            let refused = |why: wire::encode::EncodeError| FeedError::Source {
                name: name.clone(),
                why: why.to_string(),
            };
            encoder.source(name, &mut self.out).map_err(refused)?;
        }
        if let Some(sender) = &options.sender {
            encoder.sender(sender.as_bytes(), next, &mut self.out);
        }
        encoder.sync(0, &mut self.out);
        self.encoder = Some(encoder);
        let gone = |session: &mut Session, error| session.gone(&options.place(), 0, error);
        self.flush().map_err(|error| gone(self, error))?;
        let (kind, payload) = self.message().map_err(|error| gone(self, error))?;
        match (kind, &options.sender) {
            (wire::ACK, None) | (wire::KNOWN, Some(_)) => Ok(()),
            (wire::ACK, Some(sender)) => Err(FeedError::Sender(sender.clone())),
            _ => Err(FeedError::Answer { socket: options.place(), answer: text(&payload) }),
        }
    }

    /// The encoder and where it writes to, in the binary framing.
    pub(super) fn encoder(&mut self) -> Option<(&mut Encoder, &mut Vec<u8>)> {
        self.encoder.as_mut().map(|encoder| (encoder, &mut self.out))
    }

    /// Bytes not yet written.
    pub(super) fn buffered(&self) -> usize {
        self.out.len()
    }

    /// Sends a line of the input, in the line framing. The server is told its number where it would count otherwise.
    pub(super) fn input_line(&mut self, line: &[u8], number: u64) {
        if self.told.is_some_and(|told| told != number) {
            self.line(json!({"jumpseat": {"line": number}}).to_string().as_bytes());
            self.told = Some(number);
        }
        self.line(line);
        self.mark_frames(number);
    }

    /// Sends a line, in the line framing.
    pub(super) fn line(&mut self, line: &[u8]) {
        self.out.extend_from_slice(line);
        self.out.push(b'\n');
        self.frames += 1;
        self.told = self.told.map(|told| told + 1);
    }

    /// Sends a blank line, in the line framing; nothing in the binary one.
    pub(super) fn blank_line(&mut self) {
        if self.encoder.is_none() {
            self.line(b"");
        }
    }

    /// Notes that the last line or frame appended is this line's of the input.
    pub(super) fn mark_frames(&mut self, line: u64) {
        if self.encoder.is_some() {
            self.count_frames();
        }
        let expected = self.marks.last().map(|(frame, marked)| marked + (self.frames - frame));
        if expected != Some(line) {
            self.marks.push((self.frames, line));
        }
    }

    fn count_frames(&mut self) {
        while let Some((_, _, len)) = self.out.get(self.counted..).and_then(wire::frame) {
            self.counted += len;
            self.frames += 1;
        }
    }

    /// The line that the server's line or frame number stands for.
    pub(super) fn line_of(&self, number: u64) -> u64 {
        if self.told.is_some() {
            return number;
        }
        // Frames that define names belong to the record behind them.
        let next = self.marks.partition_point(|(frame, _)| *frame <= number);
        let at = next.checked_sub(1).and_then(|index| self.marks.get(index));
        let at_next = self.marks.get(next);
        match (at, at_next) {
            (Some((frame, line)), _) => line + (number - frame),
            (None, Some((_, line))) => *line,
            (None, None) => 0,
        }
    }

    /// Writes what is collected.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.encoder.is_some() {
            self.count_frames();
            self.counted = 0;
        }
        let result = self.way.write_all(&self.out).and_then(|()| self.way.flush());
        self.out.clear();
        result
    }

    /// Says that this was all, and gets the summary; inside, `Err` is an answer that is none.
    pub(super) fn finish(&mut self) -> io::Result<Result<Summary, String>> {
        self.flush()?;
        self.way.end()?;
        loop {
            let (kind, message) = self.message()?;
            // Other answers may still be under way.
            let is_last = matches!(kind, wire::SUMMARY | b'{') && !message.starts_with(b"{\"jumpseat\"");
            if !is_last {
                continue;
            }
            let text = text(&message);
            return Ok(serde_json::from_str(&text).map_err(|_| text));
        }
    }

    /// What the server says without being asked. `wait`: until it says something.
    pub(super) fn said(&mut self, wait: bool) -> io::Result<Said> {
        while wait || self.has_message()? {
            let (kind, message) = self.message()?;
            if kind == wire::COMMITTED {
                let (number, width) = wire::varint(&message).ok_or(ErrorKind::InvalidData)?;
                let rejected = message.get(width + 1..).and_then(wire::varint).map_or(0, |(count, _)| count);
                return Ok(Said::Committed { number, rejected });
            }
            if let Ok(CommittedLine { jumpseat }) = serde_json::from_slice(&message) {
                return Ok(Said::Committed { number: jumpseat.committed, rejected: jumpseat.rejected });
            }
            if let Ok(summary) = serde_json::from_slice(&message) {
                return Ok(Said::Summary(summary));
            }
        }
        Ok(Said::Nothing)
    }

    /// Why the connection broke: the server may have said something before it went.
    pub(super) fn gone(&mut self, socket: &Path, sent: u64, error: io::Error) -> FeedError {
        let mut answer = std::mem::take(&mut self.inbox);
        // Whatever there is by now; nothing is fine, too.
        let _ = self.way.set_read_timeout(Duration::from_millis(200));
        let _ = (&mut self.way).take(MAX_ANSWER).read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).trim().to_owned();
        // A greeting is no reason to go.
        let greeting = serde_json::from_str::<HelloLine>(&answer);
        if answer.is_empty() || greeting.is_ok_and(|line| line.jumpseat.refused.is_none()) {
            return FeedError::Gone { sent, error };
        }
        FeedError::Answer { socket: socket.to_owned(), answer }
    }

    /// Whether there is a whole message by now. Does not wait.
    fn has_message(&mut self) -> io::Result<bool> {
        if self.whole().is_some() {
            return Ok(true);
        }
        self.way.set_nonblocking(true)?;
        let read = self.read_more();
        self.way.set_nonblocking(false)?;
        match read {
            Ok(()) => Ok(self.whole().is_some()),
            Err(error) if error.kind() == ErrorKind::TimedOut => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The next message, its kind and what is in it; for a line the kind is `{`.
    fn message(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let len = loop {
            if let Some(len) = self.whole() {
                break len;
            }
            self.read_more()?;
        };
        let bytes: Vec<u8> = self.inbox.drain(..len).collect();
        if !self.has_frames(&bytes) {
            return Ok((b'{', bytes.trim_ascii_end().to_vec()));
        }
        let (kind, payload, _) = wire::frame(&bytes).ok_or(ErrorKind::InvalidData)?;
        Ok((kind, payload.to_vec()))
    }

    /// The length of the message that the inbox begins with, if it is whole.
    fn whole(&self) -> Option<usize> {
        if self.has_frames(&self.inbox) {
            return wire::frame(&self.inbox).map(|(_, _, len)| len);
        }
        memchr::memchr(b'\n', &self.inbox).map(|end| end + 1)
    }

    /// A server that turns connections away says so in a line, whatever the framing.
    fn has_frames(&self, bytes: &[u8]) -> bool {
        self.encoder.is_some() && bytes.first() != Some(&b'{')
    }

    /// Reads what there is.
    fn read_more(&mut self) -> io::Result<()> {
        let mut piece = [0; 4096];
        loop {
            match self.way.read(&mut piece) {
                Ok(0) => {
                    return Err(io::Error::new(ErrorKind::UnexpectedEof, "it closed the connection"));
                }
                Ok(read) => self.inbox.extend_from_slice(&piece[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Err(io::Error::new(ErrorKind::TimedOut, "it does not answer"));
                }
                Err(error) => return Err(error),
            }
            if self.inbox.len() as u64 > MAX_ANSWER {
                return Err(io::Error::new(ErrorKind::InvalidData, "its answer is too long"));
            }
            return Ok(());
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[derive(Deserialize)]
struct CommittedLine {
    jumpseat: Committed,
}

#[derive(Deserialize)]
struct Committed {
    committed: u64,
    rejected: u64,
}

#[derive(Deserialize)]
struct HelloLine {
    jumpseat: Hello,
}

#[derive(Deserialize)]
struct Hello {
    refused: Option<String>,
    line: Option<u64>,
}
