//! The requests of one connection, sans-I/O: HTTP/1.1 with bodies of a given length or in chunks.
//!
//! A head is at most [`MAX_HEAD`] bytes, a body as long as configured; nothing is taken memory for before it came.

use super::decode::Signal;
use super::inflate::Encoding;
use crate::delivery::Reason;

/// Longest head of a request, and longest end of one in chunks.
pub const MAX_HEAD: usize = 16 * 1024;
/// Longest line before a chunk.
const MAX_CHUNK_LINE: usize = 256;
const MAX_HEADERS: usize = 64;
/// A body's memory is given back when it is larger than this.
const KEEP: usize = 256 * 1024;

/// What a body is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `application/x-protobuf`.
    Protobuf,
    /// `application/json`.
    Json,
}

/// What the head of a request says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it has.
    pub signal: Signal,
    /// What its body is written in, and the answer's.
    pub format: Format,
    /// How its body is encoded.
    pub encoding: Encoding,
    /// The client wants no further request on this connection.
    pub close: bool,
}

/// A request that cannot be served. The connection is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Status code.
    pub status: u16,
    /// What its answer is written in.
    pub format: Format,
    /// What it counts as.
    pub reason: Reason,
    /// What is wrong, and what to do.
    pub detail: &'static str,
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// All is used up and the request is not complete.
    More,
    /// The client waits for "100 Continue" before it sends the body.
    Continue,
    /// [`Http::body`] is complete. Call [`Http::next`] before the next step.
    Complete(Request),
    /// It cannot be served.
    Refused(Refused),
}

#[derive(Clone, Copy, Debug)]
enum State {
    Head,
    /// So many bytes of the body are to come.
    Body(usize),
    /// The line with the size of a chunk.
    Size,
    /// So many bytes of a chunk are to come.
    Chunk(usize),
    /// The end of a chunk's last line.
    ChunkEnd,
    /// Lines behind the last chunk, so many bytes so far.
    Trailer(usize),
    Complete,
}

/// One connection.
pub struct Http {
    max_body: usize,
    state: State,
    /// The head, or a line between chunks, as far as it has come.
    line: Vec<u8>,
    request: Option<Request>,
    /// The body, as far as it has come.
    pub body: Vec<u8>,
}

impl Http {
    /// A new connection. `max_body`: longest body, as it is sent.
    pub fn new(max_body: usize) -> Http {
        Http { max_body, state: State::Head, line: Vec::new(), request: None, body: Vec::new() }
    }

    /// Whether nothing of a request has come.
    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Head) && self.line.is_empty()
    }

    /// Memory it holds, in bytes.
    pub fn held(&self) -> usize {
        self.line.capacity() + self.body.capacity()
    }

    /// Takes in bytes up to the next step; returns how many.
    pub fn feed(&mut self, input: &[u8]) -> (usize, Step) {
        let mut at = 0;
        loop {
            let rest = input.get(at..).unwrap_or_default();
            let (used, step) = self.step(rest);
            at += used;
            match step {
                Ok(None) if at < input.len() => {}
                Ok(None) if matches!(self.state, State::Complete) => {}
                Ok(None) => return (at, Step::More),
                Ok(Some(step)) => return (at, step),
                Err(refused) => return (at, Step::Refused(refused)),
            }
        }
    }

    /// Gets ready for the next request.
    pub fn next(&mut self) {
        self.state = State::Head;
        self.request = None;
        self.line.clear();
        self.line.shrink_to(KEEP.min(1024));
        self.body.clear();
        self.body.shrink_to(KEEP);
    }

    fn step(&mut self, input: &[u8]) -> (usize, Result<Option<Step>, Refused>) {
        match self.state {
            State::Head => self.head(input),
            State::Body(left) | State::Chunk(left) => {
                let taken = input.get(..left).unwrap_or(input);
                if taken.len() > self.body.capacity() - self.body.len() {
                    // Twice as much each time, but not more than there will be.
                    let more = left.min(self.body.len().max(KEEP)).max(taken.len());
                    self.body.reserve_exact(more);
                }
                self.body.extend_from_slice(taken);
                let left = left - taken.len();
                self.state = match self.state {
                    State::Body(_) if left == 0 => State::Complete,
                    State::Body(_) => State::Body(left),
                    _ if left == 0 => State::ChunkEnd,
                    _ => State::Chunk(left),
                };
                (taken.len(), Ok(None))
            }
            State::Size => self.line(input, |http, line| {
                http.state = match httparse::parse_chunk_size(line) {
                    Ok(httparse::Status::Complete((_, 0))) => State::Trailer(0),
                    Ok(httparse::Status::Complete((_, size))) => {
                        let room = http.max_body - http.body.len();
                        match usize::try_from(size) {
                            Ok(size) if size <= room => State::Chunk(size),
                            _ => return Err(http.too_long()),
                        }
                    }
                    _ => return Err(http.refuse(400, "the size of a chunk is not hexadecimal")),
                };
                Ok(())
            }),
            State::ChunkEnd => self.line(input, |http, line| {
                http.state = State::Size;
                let ends = line == b"\r\n" || line == b"\n";
                if ends { Ok(()) } else { Err(http.refuse(400, "a chunk longer than its size")) }
            }),
            State::Trailer(so_far) => self.line(input, |http, line| {
                http.state = match line {
                    b"\r\n" | b"\n" => State::Complete,
                    line if so_far + line.len() <= MAX_HEAD => State::Trailer(so_far + line.len()),
                    _ => return Err(http.refuse(431, "too much behind the last chunk")),
                };
                Ok(())
            }),
            State::Complete => match self.request {
                Some(request) => (0, Ok(Some(Step::Complete(request)))),
                None => (0, Ok(Some(Step::More))),
            },
        }
    }

    /// Takes in bytes up to the end of a line; gives a complete line to `take`.
    fn line(
        &mut self,
        input: &[u8],
        take: impl FnOnce(&mut Http, &[u8]) -> Result<(), Refused>,
    ) -> (usize, Result<Option<Step>, Refused>) {
        let end = memchr::memchr(b'\n', input);
        let taken = end.and_then(|end| input.get(..=end)).unwrap_or(input);
        if self.line.len() + taken.len() > MAX_CHUNK_LINE {
            return (taken.len(), Err(self.refuse(400, "too long a line between chunks")));
        }
        self.line.extend_from_slice(taken);
        if end.is_none() {
            return (taken.len(), Ok(None));
        }
        let line = std::mem::take(&mut self.line);
        let result = take(self, &line);
        self.line = line;
        self.line.clear();
        (taken.len(), result.map(|()| None))
    }

    fn head(&mut self, input: &[u8]) -> (usize, Result<Option<Step>, Refused>) {
        let before = self.line.len();
        // Empty lines before a request are skipped, as HTTP wants.
        if before == 0
            && let Some(b'\r' | b'\n') = input.first()
        {
            return (1, Ok(None));
        }
        if before == 0 && input.first().is_some_and(|byte| !byte.is_ascii_alphabetic()) {
            let what = match input.first() {
                Some(0x16) => "TLS is not served here: send plain HTTP",
                _ => "not HTTP",
            };
            return (input.len(), Err(self.refuse(400, what)));
        }
        let room = MAX_HEAD.saturating_sub(before);
        self.line.extend_from_slice(input.get(..room).unwrap_or(input));
        let from = before.saturating_sub(3);
        let end = memchr::memmem::find(self.line.get(from..).unwrap_or_default(), b"\r\n\r\n");
        let Some(end) = end.map(|end| from + end + 4) else {
            return match self.line.len() >= MAX_HEAD {
                true => (input.len(), Err(self.refuse(431, "the head of the request is longer than 16 KiB"))),
                false => (input.len(), Ok(None)),
            };
        };
        let mut line = std::mem::take(&mut self.line);
        let head = line.get(..end).unwrap_or_default();
        let parsed = self.parse(head);
        line.clear();
        self.line = line;
        (end - before, parsed)
    }

    /// Reads a complete head.
    fn parse(&mut self, head: &[u8]) -> Result<Option<Step>, Refused> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut parsed = httparse::Request::new(&mut headers);
        match parsed.parse(head) {
            Ok(httparse::Status::Complete(_)) => {}
            Ok(httparse::Status::Partial) => {
                return Err(self.refuse(400, "the head of the request is not HTTP"));
            }
            Err(httparse::Error::TooManyHeaders) => return Err(self.refuse(431, "more than 64 headers")),
            Err(httparse::Error::Version) => {
                return Err(self.refuse(505, "only HTTP/1.1 is served here; gRPC has a port of its own"));
            }
            Err(_) => return Err(self.refuse(400, "the head of the request is not HTTP")),
        }
        let headers = Headers::of(parsed.headers);
        let format = headers.format();
        let refuse = |status, detail| Refused {
            status,
            format: format.unwrap_or(Format::Protobuf),
            reason: Reason::Protocol,
            detail,
        };
        let path = parsed.path.unwrap_or_default().split('?').next();
        let signal = match path {
            Some("/v1/traces") => Signal::Traces,
            Some("/v1/logs") => Signal::Logs,
            Some("/v1/metrics") => {
                return Err(refuse(404, "metrics are not taken in here, only traces and logs"));
            }
            _ => return Err(refuse(404, "nothing is served here but /v1/traces and /v1/logs")),
        };
        if parsed.method != Some("POST") {
            return Err(refuse(405, "only POST is served here"));
        }
        let Some(format) = format else {
            return Err(refuse(415, "content-type must be application/x-protobuf or application/json"));
        };
        let Some(encoding) = headers.encoding() else {
            return Err(refuse(415, "content-encoding must be gzip, deflate or identity"));
        };
        let http_1_0 = parsed.version == Some(0);
        let close = headers.has_token(headers.connection, "close")
            || http_1_0 && !headers.has_token(headers.connection, "keep-alive");
        if headers.bad_length {
            return Err(refuse(400, "content-length is not one number"));
        }
        self.state = match (headers.transfer, headers.length) {
            (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") => State::Size,
            (Some(_), _) => {
                return Err(refuse(
                    400,
                    "a transfer-encoding besides chunked, or a content-length next to it",
                ));
            }
            (None, length) => match usize::try_from(length.unwrap_or(0)) {
                Ok(0) => State::Complete,
                Ok(length) if length <= self.max_body => State::Body(length),
                _ => return Err(Refused { format, ..self.too_long() }),
            },
        };
        self.request = Some(Request { signal, format, encoding, close });
        let waits = headers.expect && !matches!(self.state, State::Complete);
        Ok(waits.then_some(Step::Continue))
    }

    fn refuse(&self, status: u16, detail: &'static str) -> Refused {
        let format = self.request.map_or(Format::Protobuf, |request| request.format);
        Refused { status, format, reason: Reason::Protocol, detail }
    }

    fn too_long(&self) -> Refused {
        let detail = "the body has more bytes than the configuration allows: send smaller batches";
        Refused { reason: Reason::OversizeLine, ..self.refuse(413, detail) }
    }
}

/// The headers that matter here.
#[derive(Default)]
struct Headers<'a> {
    length: Option<u64>,
    bad_length: bool,
    transfer: Option<&'a [u8]>,
    encoding: Option<&'a [u8]>,
    content_type: Option<&'a [u8]>,
    connection: Option<&'a [u8]>,
    expect: bool,
}

impl<'a> Headers<'a> {
    fn of(all: &[httparse::Header<'a>]) -> Headers<'a> {
        let mut found = Headers::default();
        let is = |header: &httparse::Header<'_>, name: &str| header.name.eq_ignore_ascii_case(name);
        for header in all {
            let value = header.value.trim_ascii();
            if is(header, "content-length") {
                let digits = std::str::from_utf8(value).ok().filter(|text| !text.starts_with('+'));
                let length = digits.and_then(|text| text.parse().ok());
                found.bad_length |= length.is_none() || found.length.is_some() && found.length != length;
                found.length = length;
            } else if is(header, "transfer-encoding") {
                // Two of them are none that is known.
                found.transfer = Some(if found.transfer.is_some() { b"" } else { value });
            } else if is(header, "content-encoding") {
                found.encoding = Some(value);
            } else if is(header, "content-type") {
                found.content_type = Some(value);
            } else if is(header, "connection") {
                found.connection = Some(value);
            } else if is(header, "expect") {
                found.expect |= value.eq_ignore_ascii_case(b"100-continue");
            }
        }
        found
    }

    fn format(&self) -> Option<Format> {
        let media = self.content_type?.split(|byte| *byte == b';').next()?.trim_ascii();
        if media.eq_ignore_ascii_case(b"application/x-protobuf") {
            return Some(Format::Protobuf);
        }
        media.eq_ignore_ascii_case(b"application/json").then_some(Format::Json)
    }

    fn encoding(&self) -> Option<Encoding> {
        let Some(encoding) = self.encoding else { return Some(Encoding::Identity) };
        match encoding.to_ascii_lowercase().as_slice() {
            b"gzip" | b"x-gzip" => Some(Encoding::Gzip),
            b"deflate" => Some(Encoding::Deflate),
            b"identity" | b"" => Some(Encoding::Identity),
            _ => None,
        }
    }

    fn has_token(&self, header: Option<&[u8]>, token: &str) -> bool {
        let mut parts = header.unwrap_or_default().split(|byte| *byte == b',');
        parts.any(|part| part.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n";

    /// All steps that the bytes lead to, fed `at_once` bytes at a time, with the bodies.
    fn steps(bytes: &[u8], at_once: usize) -> Vec<(Step, Vec<u8>)> {
        let mut http = Http::new(1000);
        let mut out = Vec::new();
        for mut piece in bytes.chunks(at_once) {
            loop {
                let (used, step) = http.feed(piece);
                piece = &piece[used..];
                match step {
                    Step::More => break,
                    Step::Continue => out.push((step, Vec::new())),
                    Step::Complete(_) => {
                        out.push((step, http.body.clone()));
                        http.next();
                    }
                    Step::Refused(_) => {
                        out.push((step, Vec::new()));
                        return out;
                    }
                }
                if piece.is_empty() {
                    break;
                }
            }
        }
        out
    }

    fn refused(head: &str) -> (u16, &'static str) {
        match steps(head.as_bytes(), 1 << 20).pop() {
            Some((Step::Refused(refused), _)) => (refused.status, refused.detail),
            other => panic!("{head:?}: {other:?}"),
        }
    }

    #[test]
    fn lengths_chunks_and_pipelines_in_pieces_of_any_size() {
        let request = Request {
            signal: Signal::Traces,
            format: Format::Protobuf,
            encoding: Encoding::Identity,
            close: false,
        };
        let bytes = format!(
            "{HEAD}content-length: 3\r\n\r\nabc\r\n{HEAD}Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n\
             2;x=y\r\nde\r\n1\r\nf\r\n0\r\nTrailer: 1\r\n\r\n{HEAD}Content-Length: 0\r\nConnection: x, Close\r\n\r\n"
        );
        for at_once in [1, 2, 3, 7, 50, 10_000] {
            assert_eq!(
                steps(bytes.as_bytes(), at_once),
                [
                    (Step::Complete(request), b"abc".to_vec()),
                    (Step::Continue, Vec::new()),
                    (Step::Complete(request), b"def".to_vec()),
                    (Step::Complete(Request { close: true, ..request }), Vec::new()),
                ],
                "{at_once}"
            );
        }
        let json = b"POST /v1/logs?x HTTP/1.0\r\ncontent-type: Application/JSON; charset=utf-8\r\n\
                     content-encoding: GZIP\r\ncontent-length: 2\r\n\r\n{}";
        let request =
            Request { signal: Signal::Logs, format: Format::Json, encoding: Encoding::Gzip, close: true };
        assert_eq!(steps(json, 5), [(Step::Complete(request), b"{}".to_vec())]);
    }

    #[test]
    fn what_cannot_be_served_is_told() {
        for (head, status) in [
            (format!("{HEAD}Content-Length: 1001\r\n\r\n"), 413),
            (format!("{HEAD}Content-Length: 99999999999999999999\r\n\r\n"), 400),
            (format!("{HEAD}Content-Length: +1\r\n\r\n"), 400),
            (format!("{HEAD}Content-Length: 1\r\nContent-Length: 2\r\n\r\n"), 400),
            (format!("{HEAD}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"), 400),
            (format!("{HEAD}Transfer-Encoding: gzip, chunked\r\n\r\n"), 400),
            (format!("{HEAD}Transfer-Encoding: chunked\r\n\r\nzz\r\n"), 400),
            (format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n3e9\r\n"), 413),
            (format!("{HEAD}Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"), 413),
            (format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n"), 400),
            (format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n{}", "1".repeat(300)), 400),
            (format!("{HEAD}Content-Encoding: br\r\n\r\n"), 415),
            (format!("{HEAD}{}\r\n", "x: y\r\n".repeat(70)), 431),
            (format!("{HEAD}x: {}", "y".repeat(20_000)), 431),
            ("POST /v1/traces HTTP/1.1\r\n\r\n".into(), 415),
            (HEAD.replace("POST", "GET") + "\r\n", 405),
            (HEAD.replace("traces", "metrics") + "\r\n", 404),
            (HEAD.replace("/v1/traces", "/") + "\r\n", 404),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into(), 505),
            ("\x16\x03\x01".into(), 400),
            ("{\"a\":1}".into(), 400),
        ] {
            assert_eq!(refused(&head).0, status, "{head:?}");
        }
    }
}
