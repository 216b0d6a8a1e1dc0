//! A connection to an ingest socket: greeting, sending, and the server's last word.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::error::FeedError;
use super::options::FeedOptions;
use crate::registry::{SOURCE_NAME_RULE, is_source_name};
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

/// A connection.
pub(super) struct Session {
    stream: UnixStream,
    out: Vec<u8>,
    encoder: Option<Encoder>,
    /// Frames sent so far.
    frames: u64,
    /// How much of `out` is counted in `frames`.
    counted: usize,
    /// From which frame on a line has which distance to its frame: (frame, line), where that changes.
    marks: Vec<(u64, u64)>,
}

impl Session {
    /// Connects and greets.
    pub(super) fn open(options: &FeedOptions) -> Result<Session, FeedError> {
        if let Some(name) = &options.source
            && !is_source_name(name)
        {
            let why = SOURCE_NAME_RULE.to_owned();
            return Err(FeedError::Source { name: name.clone(), why });
        }
        let connect = |error| FeedError::Connect { socket: options.socket.clone(), error };
        let stream = UnixStream::connect(&options.socket).map_err(connect)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(connect)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(connect)?;
        let (out, encoder) = (Vec::new(), None);
        let mut session = Session { stream, out, encoder, frames: 0, counted: 0, marks: Vec::new() };
        if options.binary {
            session.greet_binary(options)?
        } else {
            session.greet_lines(options)?
        }
        Ok(session)
    }

    fn greet_lines(&mut self, options: &FeedOptions) -> Result<(), FeedError> {
        let mut hello = json!({"ack": true});
        if let Some(source) = &options.source {
            hello["source"] = source.as_str().into();
        }
        if let Some(clock) = options.clock {
            hello["clock"] = clock.word().into();
        }
        self.line(json!({"jumpseat": hello}).to_string().as_bytes());
        let answer = self.flush().and_then(|()| self.read_line());
        let answer = answer.map_err(|error| self.gone(&options.socket, 0, error))?;
        let parsed: Result<HelloLine, _> = serde_json::from_str(&answer);
        match (parsed, &options.source) {
            (Ok(HelloLine { jumpseat: Hello { refused: Some(why) } }), Some(name)) => {
                Err(FeedError::Source { name: name.clone(), why })
            }
            (Ok(_), _) => Ok(()),
            (Err(_), _) => Err(FeedError::Answer { socket: options.socket.clone(), answer }),
        }
    }

    fn greet_binary(&mut self, options: &FeedOptions) -> Result<(), FeedError> {
        let mut encoder = Encoder::new(&mut self.out);
        self.counted = self.out.len();
        if let Some(name) = &options.source {
            let refused = |why: wire::encode::EncodeError| FeedError::Source {
                name: name.clone(),
                why: why.to_string(),
            };
            encoder.source(name, &mut self.out).map_err(refused)?;
        }
        encoder.sync(0, &mut self.out);
        self.encoder = Some(encoder);
        let answer = self.flush().and_then(|()| self.read_frame());
        let (kind, payload) = answer.map_err(|error| self.gone(&options.socket, 0, error))?;
        if kind == wire::ACK {
            return Ok(());
        }
        let answer = String::from_utf8_lossy(&payload).into_owned();
        Err(FeedError::Answer { socket: options.socket.clone(), answer })
    }

    /// The encoder and where it writes to, in the binary framing.
    pub(super) fn encoder(&mut self) -> Option<(&mut Encoder, &mut Vec<u8>)> {
        self.encoder.as_mut().map(|encoder| (encoder, &mut self.out))
    }

    /// Bytes not yet written.
    pub(super) fn buffered(&self) -> usize {
        self.out.len()
    }

    /// Sends a line, in the line framing.
    pub(super) fn line(&mut self, line: &[u8]) {
        self.out.extend_from_slice(line);
        self.out.push(b'\n');
    }

    /// Sends a blank line, in the line framing; nothing in the binary one.
    pub(super) fn blank_line(&mut self) {
        if self.encoder.is_none() {
            self.out.push(b'\n');
        }
    }

    /// Notes that the last frame appended is this line's.
    pub(super) fn mark_frames(&mut self, line: u64) {
        self.count_frames();
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
        if self.encoder.is_none() {
            // The greeting was the first.
            return number.saturating_sub(1);
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
        let result = self.stream.write_all(&self.out);
        self.out.clear();
        result
    }

    /// Says that this was all, and gets the summary; inside, `Err` is an answer that is none.
    pub(super) fn finish(&mut self) -> io::Result<Result<Summary, String>> {
        self.flush()?;
        self.stream.shutdown(Shutdown::Write)?;
        let text = if self.encoder.is_some() {
            let (kind, payload) = self.read_frame()?;
            let text = String::from_utf8_lossy(&payload).into_owned();
            if kind == wire::SUMMARY { text } else { return Ok(Err(text)) }
        } else {
            self.read_line()?
        };
        Ok(serde_json::from_str(&text).map_err(|_| text))
    }

    /// Why the connection broke: the server may have said something before it went.
    pub(super) fn gone(&mut self, socket: &Path, sent: u64, error: io::Error) -> FeedError {
        let mut answer = Vec::new();
        // Whatever there is by now; nothing is fine, too.
        let _ = self.stream.set_read_timeout(Some(Duration::from_millis(200)));
        let _ = (&self.stream).take(MAX_ANSWER).read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).trim().to_owned();
        // A greeting is no reason to go.
        let greeting = serde_json::from_str::<HelloLine>(&answer);
        if answer.is_empty() || greeting.is_ok_and(|line| line.jumpseat.refused.is_none()) {
            return FeedError::Gone { sent, error };
        }
        FeedError::Answer { socket: socket.to_owned(), answer }
    }

    fn read_line(&mut self) -> io::Result<String> {
        let bytes = self.read_until(|bytes| memchr::memchr(b'\n', bytes))?;
        Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    }

    fn read_frame(&mut self) -> io::Result<(u8, Vec<u8>)> {
        // A server that turns connections away says so in a line, whatever the framing.
        let whole = |bytes: &[u8]| match bytes.first() {
            Some(b'{') => memchr::memchr(b'\n', bytes),
            _ => wire::frame(bytes).map(|(_, _, len)| len),
        };
        let bytes = self.read_until(whole)?;
        if bytes.first() == Some(&b'{') {
            return Ok((b'{', bytes.trim_ascii_end().to_vec()));
        }
        // `read_until` has seen it whole.
        let (kind, payload, _) = wire::frame(&bytes).ok_or(ErrorKind::InvalidData)?;
        Ok((kind, payload.to_vec()))
    }

    /// Reads until `done` is content. The server says one thing at a time, so nothing is read too far.
    fn read_until(&mut self, done: impl Fn(&[u8]) -> Option<usize>) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut piece = [0; 4096];
        while done(&bytes).is_none() {
            match self.stream.read(&mut piece) {
                Ok(0) if bytes.is_empty() => {
                    return Err(io::Error::new(ErrorKind::UnexpectedEof, "it closed the connection"));
                }
                Ok(0) => break,
                Ok(read) => bytes.extend_from_slice(&piece[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Err(io::Error::new(ErrorKind::TimedOut, "it does not answer"));
                }
                Err(error) => return Err(error),
            }
            if bytes.len() as u64 > MAX_ANSWER {
                return Err(io::Error::new(ErrorKind::InvalidData, "its answer is too long"));
            }
        }
        Ok(bytes)
    }
}

#[derive(Deserialize)]
struct HelloLine {
    jumpseat: Hello,
}

#[derive(Deserialize)]
struct Hello {
    refused: Option<String>,
}
