//! OTLP over HTTP/1.1: hyper reads requests and writes responses, this says which.
//!
//! Three things are not hyper's. What is no HTTP at all is answered in words here, as somebody has configured the wrong
//! port; hyper's own answers have no body. A request has a time from its first byte to its last, which hyper does not
//! know. And a client that is refused while it still sends gets to read why, for which the connection has to be kept
//! open a while.

use std::cell::Cell;
use std::convert::Infallible;
use std::error::Error as _;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use http::header::{self, HeaderName};
use http::uri::Authority;
use http::{HeaderMap, Method, Request, Response};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};

use super::answer::{self, Code};
use super::bearer::tell;
use super::bearer::{self, Stopped};
use super::cors;
use super::decode::Signal;
use super::inflate::Encoding;
use super::intake::Export;
use super::reply::{Held, Reply, next_data};
use super::server::{Port, add, now};
use super::transport::{Stream, Watch, Watched};
use crate::delivery::Reason;
use crate::guard::tokens::Entered;
use crate::lanes::Arrival;

/// Longest head of a request, in bytes.
const MAX_HEAD: usize = 16 * 1024;
const MAX_HEADERS: usize = 64;
/// Most bytes of one read. hyper takes as much memory for a connection only if the connection fills it.
const READ_BYTES: usize = 256 * 1024;
/// How long a client that was refused may go on sending, so that it gets to read why.
const LINGER: Duration = Duration::from_secs(5);

/// What a body is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// `application/x-protobuf`.
    Protobuf,
    /// `application/json`.
    Json,
}

/// A request that cannot be served. The connection is of no use any more.
struct Refused {
    status: u16,
    /// What its answer is written in.
    format: Format,
    /// What it counts as.
    reason: Reason,
    /// What is wrong, and what to do.
    detail: &'static str,
    /// How long to wait before it is sent again, where that is known.
    wait: Option<Duration>,
}

impl Refused {
    /// One of what does not keep to HTTP, or is for nothing that there is here.
    fn new(status: u16, format: Format, detail: &'static str) -> Refused {
        Refused { status, format, reason: Reason::Protocol, detail, wait: None }
    }
}

/// Serves a connection to its end.
pub(super) async fn serve(port: &Rc<Port>, stream: Stream, peer: SocketAddr, conn: u32) {
    if let Stream::Plain(plain) = &stream {
        let mut first = [0; 3];
        match timeout(port.limit(), plain.peek(&mut first)).await {
            Ok(Ok(1..)) => {}
            // It went without a word, or has none to say.
            _ => return,
        }
        if let Some(refused) = not_http(first) {
            return refuse_unread(port, stream, peer, first.len(), &refused).await;
        }
    }
    let is_local = stream.tcp().local_addr().is_ok_and(|address| address.ip().is_loopback());
    let exchange = Rc::new(Exchange::new(port, peer, conn, is_local));
    let ours = Rc::clone(&exchange);
    let service = service_fn(move |request| {
        let exchange = Rc::clone(&ours);
        Box::pin(async move { Ok::<_, Infallible>(exchange.answer(request).await) })
    });
    let mut connection = http1::Builder::new()
        .auto_date_header(false)
        .header_read_timeout(None)
        .max_headers(MAX_HEADERS)
        .max_buf_size(READ_BYTES)
        // Head and message of an answer are one write.
        .writev(false)
        .serve_connection(Watched::new(stream, Rc::clone(&exchange)), service);
    let mut alarm = pin!(sleep_until(exchange.deadline.get()));
    let ended = std::future::poll_fn(|context| {
        if let Poll::Ready(ended) = connection.poll_without_shutdown(context) {
            return Poll::Ready(Some(ended));
        }
        loop {
            // It moves with each request; only hyper, by reading and writing, makes it move.
            if alarm.deadline() != exchange.deadline.get() {
                alarm.as_mut().reset(exchange.deadline.get());
            }
            match alarm.as_mut().poll(context) {
                Poll::Ready(()) if exchange.deadline.get() <= Instant::now() => return Poll::Ready(None),
                Poll::Ready(()) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
    let mut stream = connection.into_parts().io.into_inner().stream;
    match ended {
        None => exchange.too_late(&mut stream).await,
        Some(_) if exchange.lingers.get() => linger(port, stream).await,
        Some(Err(error)) if exchange.silenced.get() => {
            let refused = malformed(&error);
            refuse_unread(port, stream, peer, exchange.received.get(), &refused).await;
        }
        Some(_) => {}
    }
}

/// What the first bytes of a connection say, if they are not the beginning of a request.
fn not_http(first: [u8; 3]) -> Option<Refused> {
    let (status, detail) = match first {
        [0x16, ..] => (400, "TLS is not served here: send plain HTTP"),
        // The preface of HTTP/2.
        [b'P', b'R', b'I'] => (505, "only HTTP/1.1 is served here; gRPC has a port of its own"),
        // Empty lines before a request are skipped, as HTTP wants.
        [b'\r' | b'\n', ..] => return None,
        [byte, ..] if byte.is_ascii_alphabetic() => return None,
        _ => (400, "not HTTP"),
    };
    Some(Refused::new(status, Format::Protobuf, detail))
}

/// What hyper says of a head that it cannot read.
fn malformed(error: &hyper::Error) -> Refused {
    let (status, detail) = match error.is_parse_too_large() {
        true => (431, "the head of the request is longer than 16 KiB, or has more than 64 headers"),
        false => (400, "the head of the request is not HTTP"),
    };
    Refused::new(status, Format::Protobuf, detail)
}

/// Tells a client in plain text that it has to encrypt.
pub(super) async fn only_tls(port: &Rc<Port>, stream: TcpStream) {
    let detail = "only TLS is served here: send to https://";
    say(port, Stream::Plain(stream), &Refused::new(400, Format::Protobuf, detail)).await;
}

/// Answers in place of hyper, which could not read what came.
async fn refuse_unread(port: &Rc<Port>, stream: Stream, peer: SocketAddr, bytes: usize, refused: &Refused) {
    add(&port.stats.requests, 1);
    port.refuse(peer, bytes, refused.reason, refused.detail);
    say(port, stream, refused).await;
}

async fn say(port: &Rc<Port>, mut stream: Stream, refused: &Refused) {
    let message = answer::status(Code::of_status(refused.status), refused.format, refused.detail);
    let mut bytes = Vec::new();
    answer::response(&mut bytes, refused.status, refused.format, &message, true);
    // A client that does not read it has had its chance.
    let _ = timeout(LINGER, last_words(&mut stream, &bytes)).await;
    linger(port, stream).await;
}

/// Throws away what a client still sends: closed with bytes unread, the connection would be reset, and the client might
/// lose the answer.
async fn linger(port: &Rc<Port>, mut stream: Stream) {
    let _ = timeout(LINGER, stream.shutdown()).await;
    let mut buffer = vec![0; 16 * 1024];
    let drain = async {
        while let Ok(read @ 1..) = stream.read(&mut buffer).await {
            add(&port.stats.bytes, read as u64);
        }
    };
    let _ = timeout(LINGER, drain).await;
}

async fn last_words(stream: &mut Stream, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

/// What is going on on a connection: which request is under way, and until when it may be.
struct Exchange {
    port: Rc<Port>,
    peer: SocketAddr,
    conn: u32,
    /// Whether it came to a loopback address.
    is_local: bool,
    stage: Cell<Stage>,
    /// Something of a request has come, and not all of it.
    busy: Cell<bool>,
    /// Bytes of that request.
    received: Cell<usize>,
    /// When it is too late for what is going on.
    deadline: Cell<Instant>,
    /// A request was refused while the client still sends.
    lingers: Cell<bool>,
    /// An answer of hyper's own was thrown away.
    silenced: Cell<bool>,
}

/// How far the answer to the last request is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// None is due: hyper reads, and whatever it writes is its own idea.
    Unasked,
    /// The head of a request is read.
    Asked,
    /// The response is made.
    Answered,
    /// Some of it at least has been written.
    Written,
}

impl Watch for Exchange {
    fn read(&self, bytes: usize) {
        add(&self.port.stats.bytes, bytes as u64);
        self.begin();
        self.received.set(self.received.get() + bytes);
    }

    fn may_write(&self) -> bool {
        match self.stage.get() {
            // hyper is about to say that it cannot read a head, and then ends.
            Stage::Unasked => self.silenced.set(true),
            Stage::Answered => self.stage.set(Stage::Written),
            Stage::Asked | Stage::Written => {}
        }
        !self.silenced.get()
    }

    fn flushed(&self) {
        if self.stage.get() == Stage::Written {
            self.stage.set(Stage::Unasked);
            if !self.busy.get() {
                self.deadline.set(Instant::now() + self.port.idle());
                self.port.mark(self.conn, false);
            }
        }
    }
}

impl Exchange {
    fn new(port: &Rc<Port>, peer: SocketAddr, conn: u32, is_local: bool) -> Exchange {
        Exchange {
            port: Rc::clone(port),
            peer,
            conn,
            is_local,
            stage: Cell::new(Stage::Unasked),
            busy: Cell::new(false),
            received: Cell::new(0),
            deadline: Cell::new(Instant::now() + port.limit()),
            lingers: Cell::new(false),
            silenced: Cell::new(false),
        }
    }

    /// A request has begun. The time for it runs from its first byte, however many there are.
    fn begin(&self) {
        if !self.busy.replace(true) {
            self.received.set(0);
            self.port.mark(self.conn, true);
            self.deadline.set(Instant::now() + self.port.limit());
        }
    }

    /// Nothing more is to be read of a request: its answer is to be.
    fn end(&self) {
        add(&self.port.stats.requests, 1);
        self.busy.set(false);
        self.stage.set(Stage::Answered);
        self.deadline.set(Instant::now() + self.port.limit());
    }

    /// Answers a request, so that a web page that may send can read it.
    async fn answer(&self, request: Request<Incoming>) -> Response<Reply> {
        let origin = cors::origin(request.headers(), &self.port.config.origins).cloned();
        let mut response = self.respond(request, origin.is_some()).await;
        if let Some(origin) = origin {
            cors::allow(response.headers_mut(), origin);
        }
        response
    }

    /// Reads a request and answers it. `is_known`: it is of a web page that may send.
    async fn respond(&self, request: Request<Incoming>, is_known: bool) -> Response<Reply> {
        // Its first byte may have come together with the last one of the request before it.
        self.begin();
        self.stage.set(Stage::Asked);
        let (parts, mut body) = request.into_parts();
        if is_known && cors::is_preflight(&parts) {
            self.end();
            return cors::preflight(&parts.headers);
        }
        let head = Head::of(&parts, body.size_hint().exact(), self.port.config.max_body);
        let head = head.and_then(|head| self.not_by_a_web_page(&parts.headers, head, is_known));
        let (head, entered) = match head.and_then(|head| self.by_one_of_ours(&parts.headers, head)) {
            Ok(admitted) => admitted,
            Err(refused) => return self.refuse(&refused),
        };
        let mut held = Held::new(&self.port);
        let read = self.read(&head, &mut body, &mut held).await;
        if let Some(Entered { token }) = &entered {
            token.spend(held.bytes.len() as u64);
        }
        if let Err(response) = read {
            return *response;
        }
        let response = self.take(&head, &held.bytes, entered.as_ref());
        self.port.hand_over();
        response
    }

    /// Refuses what a browser sends for a page from elsewhere: it says where from, which must be known, or comes to this
    /// machine by a name of the page's making.
    fn not_by_a_web_page(&self, headers: &HeaderMap, head: Head, is_known: bool) -> Result<Head, Refused> {
        let refuse = |detail| Refused::new(403, head.format, detail);
        if headers.contains_key(header::ORIGIN) && !is_known {
            return Err(refuse("the Origin is of no web page that may send: name it in otlp.origins"));
        }
        let hosts = &self.port.config.hosts;
        match headers.get(header::HOST) {
            Some(host) if self.is_local && !is_own_name(host.as_bytes(), hosts) => Err(refuse(
                "the Host is no name of this machine: send to localhost, or name it in otlp.hosts",
            )),
            _ => Ok(head),
        }
    }

    /// Refuses whoever does not know a token, if there are any, and who has sent too much with it.
    fn by_one_of_ours(&self, headers: &HeaderMap, head: Head) -> Result<(Head, Option<Entered>), Refused> {
        let format = head.format;
        let admitted = bearer::admit(&self.port, headers).map(|entered| (head, entered));
        admitted.map_err(|stopped| match stopped {
            Stopped::Unknown => Refused::new(401, format, bearer::REFUSED),
            Stopped::Limited(wait) => {
                Refused { wait: Some(wait), ..Refused::new(429, format, bearer::LIMITED) }
            }
        })
    }

    /// Reads a body to its end, or gives the response to what it has of it.
    async fn read(
        &self,
        head: &Head,
        body: &mut Incoming,
        held: &mut Held,
    ) -> Result<(), Box<Response<Reply>>> {
        while let Some(data) = next_data(body).await {
            let data = match data {
                Ok(data) => data,
                Err(error) => return Err(Box::new(self.broken(head, &error))),
            };
            if held.bytes.len() + data.len() > self.port.config.max_body {
                return Err(Box::new(self.refuse(&too_long(head.format))));
            }
            let left = body.size_hint().exact().map(|left| left as usize + data.len());
            held.extend(&data, left);
            if held.is_too_much() {
                let refused = self.port.out_of_memory();
                return Err(Box::new(self.turn_away(503, Format::Protobuf, &refused.message)));
            }
        }
        Ok(())
    }

    fn take(&self, head: &Head, body: &[u8], entered: Option<&Entered>) -> Response<Reply> {
        self.end();
        let Head { signal, format, encoding } = *head;
        let arrival = Arrival { conn: self.conn, time: now() };
        let pass = entered.and_then(|entered| entered.token.pass());
        let export = Export { arrival, peer: self.peer, signal, format, encoding, pass, body };
        let taken = self.port.intake.borrow_mut().take(export);
        tell(entered, &taken);
        match taken {
            Ok(outcome) => answer::http(200, format, answer::success(signal, format, &outcome), false),
            Err(refused) => {
                let status = match refused.code {
                    Code::Unavailable => 503,
                    Code::ResourceExhausted => 413,
                    _ => 400,
                };
                let message = answer::status(refused.code, format, &refused.message);
                answer::http(status, format, message, false)
            }
        }
    }

    /// The body cannot be read to its end.
    fn broken(&self, head: &Head, error: &hyper::Error) -> Response<Reply> {
        let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        let malformed = [io::ErrorKind::InvalidInput, io::ErrorKind::InvalidData];
        if source.is_some_and(|error| malformed.contains(&error.kind())) {
            let detail = "the body is not in chunks as HTTP has them";
            return self.refuse(&Refused::new(400, head.format, detail));
        }
        // The client has gone: nobody reads this, and a request that nobody waits for counts for nothing.
        self.stage.set(Stage::Answered);
        answer::http(400, head.format, Vec::new(), true)
    }

    /// Answers a request that is not read to its end.
    fn refuse(&self, refused: &Refused) -> Response<Reply> {
        self.port.refuse(self.peer, self.received.get(), refused.reason, refused.detail);
        let mut response = self.turn_away(refused.status, refused.format, refused.detail);
        if let Some(wait) = refused.wait {
            let seconds = wait.as_secs_f64().ceil() as u64;
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }

    fn turn_away(&self, status: u16, format: Format, text: &str) -> Response<Reply> {
        self.end();
        self.lingers.set(true);
        answer::http(status, format, answer::status(Code::of_status(status), format, text), true)
    }

    /// The time of what is going on is over.
    async fn too_late(&self, stream: &mut Stream) {
        let (busy, received) = (self.busy.get(), self.received.get());
        let answering = self.stage.get() != Stage::Unasked && !busy;
        if !busy && !answering {
            // A connection without a request: neither side has lost anything.
            return;
        }
        let port = &self.port;
        if !answering {
            let text = "the request took too long";
            let message = answer::status(Code::InvalidArgument, Format::Protobuf, text);
            let mut bytes = Vec::new();
            answer::response(&mut bytes, 408, Format::Protobuf, &message, true);
            // As much as the socket takes at once.
            let _ = timeout(Duration::ZERO, last_words(stream, &bytes)).await;
        }
        add(&port.stats.slow, 1);
        let mut intake = port.intake.borrow_mut();
        intake.warn(self.peer, Reason::Protocol, "a client was too slow, and is disconnected");
        if busy && received > 0 {
            intake.decoder.refuse(received, Reason::Protocol);
        }
    }
}

/// Whether a `Host` names this machine, as those do who mean it: by a loopback address, as `localhost`, or as configured.
fn is_own_name(host: &[u8], hosts: &[String]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host();
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    match address {
        Ok(address) => address.is_loopback() || hosts.iter().any(|own| own == name),
        Err(_) => {
            let is_localhost =
                name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost");
            is_localhost || hosts.iter().any(|own| own.eq_ignore_ascii_case(name))
        }
    }
}

/// What the head of a request says.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    signal: Signal,
    /// What its body is written in, and the answer's.
    format: Format,
    /// How its body is encoded.
    encoding: Encoding,
}

impl Head {
    /// `length`: that of the body, if it is told.
    fn of(parts: &http::request::Parts, length: Option<u64>, max_body: usize) -> Result<Head, Refused> {
        let headers = &parts.headers;
        let format = format(headers);
        let refuse = |status, detail| Err(Refused::new(status, format.unwrap_or(Format::Protobuf), detail));
        if size(parts) > MAX_HEAD {
            return refuse(431, "the head of the request is longer than 16 KiB");
        }
        let signal = match parts.uri.path() {
            "/v1/traces" => Signal::Traces,
            "/v1/logs" => Signal::Logs,
            "/v1/metrics" => Signal::Metrics,
            _ => return refuse(404, "nothing is served here but /v1/traces and /v1/logs"),
        };
        if parts.method != Method::POST {
            return refuse(405, "only POST is served here");
        }
        let Some(format) = format else {
            return refuse(415, "content-type must be application/x-protobuf or application/json");
        };
        let Some(encoding) = encoding(headers) else {
            return refuse(415, "content-encoding must be gzip, deflate or identity");
        };
        if !is_plainly_chunked(headers) {
            return refuse(400, "a transfer-encoding besides chunked");
        }
        match length {
            Some(length) if length > max_body as u64 => Err(too_long(format)),
            _ => Ok(Head { signal, format, encoding }),
        }
    }
}

fn too_long(format: Format) -> Refused {
    let detail = "the body has more bytes than the configuration allows: send smaller batches";
    Refused { reason: Reason::OversizeLine, ..Refused::new(413, format, detail) }
}

/// Bytes of a head, as it was sent or a few less.
fn size(parts: &http::request::Parts) -> usize {
    let path = parts.uri.path_and_query().map_or(0, |path| path.as_str().len());
    let headers =
        parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    path + headers.sum::<usize>()
}

fn value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a [u8]> {
    Some(headers.get(name)?.as_bytes().trim_ascii())
}

fn format(headers: &HeaderMap) -> Option<Format> {
    let media = value(headers, &header::CONTENT_TYPE)?.split(|byte| *byte == b';').next()?.trim_ascii();
    if media.eq_ignore_ascii_case(b"application/x-protobuf") {
        return Some(Format::Protobuf);
    }
    media.eq_ignore_ascii_case(b"application/json").then_some(Format::Json)
}

fn encoding(headers: &HeaderMap) -> Option<Encoding> {
    let Some(encoding) = value(headers, &header::CONTENT_ENCODING) else { return Some(Encoding::Identity) };
    match encoding.to_ascii_lowercase().as_slice() {
        b"gzip" | b"x-gzip" => Some(Encoding::Gzip),
        b"deflate" => Some(Encoding::Deflate),
        b"identity" | b"" => Some(Encoding::Identity),
        _ => None,
    }
}

/// Whether the only coding of a transfer is one that hyper undoes. A length next to it is out of the game before this is
/// asked: chunks count (RFC 9112, 6.3).
fn is_plainly_chunked(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => true,
        (Some(coding), None) => coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_ours_if_whoever_says_it_means_this_machine() {
        let hosts = ["collector.example".to_owned()];
        for (host, expected) in [
            ("localhost:4318", true),
            ("LOCALHOST", true),
            ("app.localhost:1", true),
            ("127.0.0.1:4318", true),
            ("[::1]:4318", true),
            ("Collector.Example:4318", true),
            ("evil.example:4318", false),
            ("192.0.2.1:4318", false),
            ("localhost.evil.example", false),
            ("", false),
            ("a b", false),
        ] {
            assert_eq!(is_own_name(host.as_bytes(), &hosts), expected, "{host}");
        }
    }
}
