//! OTLP over gRPC. A call is one message each way; what is done with a message is the same as with HTTP/1.1.

use std::cell::Cell;
use std::convert::Infallible;
use std::error::Error as _;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use bytes::BufMut;
use http::{HeaderMap, HeaderValue, Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use tokio::time::{Instant, sleep_until, timeout};

use super::answer::{self, Code};
use super::bearer::tell;
use super::bearer::{self, Stopped};
use super::decode::Signal;
use super::http::Format;
use super::inflate::Encoding;
use super::intake::{Export, Refused};
use super::reply::{Held, Reply, next_data};
use super::server::{Port, add, now};
use super::transport::{Stream, ThisThread, Watch, Watched};
use crate::delivery::Reason;
use crate::guard::tokens::Entered;
use crate::lanes::Arrival;

/// Calls at the same time on one connection.
const MAX_STREAMS: u32 = 16;
/// Longest headers of a call.
const MAX_HEADERS: u32 = 16 * 1024;
/// Bytes a client may send of one call, and of all calls of a connection, before they are looked at.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// A message's head: whether it is compressed, and its length.
const HEAD: usize = 5;
/// What every connection of HTTP/2 begins with, in bytes (RFC 9113, 3.4).
const PREFACE: usize = 24;

/// What goes on on a connection.
struct Activity {
    /// Bytes that have come, as far as they are of interest.
    read: Cell<usize>,
    /// Calls so far, and those under way.
    calls: Cell<u64>,
    open: Cell<u64>,
    /// When the last call came.
    last: Cell<Instant>,
}

impl Activity {
    fn is_greeted(&self) -> bool {
        self.read.get() >= PREFACE
    }
}

impl Watch for Activity {
    fn read(&self, bytes: usize) {
        if !self.is_greeted() {
            self.read.set(self.read.get() + bytes);
            self.last.set(Instant::now());
        }
    }
}

/// Serves a connection to its end.
pub(super) async fn serve(port: &Rc<Port>, stream: Stream, peer: SocketAddr, conn: u32) {
    if let Err(problem) = connection(port, stream, peer, conn).await {
        port.refuse(peer, 0, Reason::Protocol, &problem);
    }
}

async fn connection(port: &Rc<Port>, stream: Stream, peer: SocketAddr, conn: u32) -> Result<(), String> {
    let began = Instant::now();
    let activity = Rc::new(Activity {
        read: Cell::new(0),
        calls: Cell::new(0),
        open: Cell::new(0),
        last: Cell::new(began),
    });
    let (of_calls, ours) = (Rc::clone(&activity), Rc::clone(port));
    let service = service_fn(move |request| {
        let call = Call::begin(&of_calls, &ours, conn);
        let port = Rc::clone(&ours);
        async move {
            let response = answer(&port, request, peer, conn).await;
            drop(call);
            Ok::<_, Infallible>(response)
        }
    });
    let mut connection = pin!(
        http2::Builder::new(ThisThread)
            .auto_date_header(false)
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(MAX_HEADERS)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .serve_connection(Watched::new(stream, Rc::clone(&activity)), service)
    );
    let mut alarm = pin!(sleep_until(began + port.limit()));
    loop {
        let ended = std::future::poll_fn(|context| match connection.as_mut().poll(context) {
            Poll::Ready(ended) => Poll::Ready(Some(ended)),
            Poll::Pending => alarm.as_mut().poll(context).map(|()| None),
        });
        match ended.await {
            Some(ended) => return ended.or_else(|error| problem(&error, &activity)),
            None if !activity.is_greeted() => {
                add(&port.stats.slow, 1);
                return Err("a client was too slow, and is disconnected".to_owned());
            }
            None => {
                let now = Instant::now();
                let idle_at = match activity.open.get() {
                    0 => activity.last.get() + port.idle(),
                    // Calls have a limit of their own.
                    _ => now + port.idle(),
                };
                if idle_at <= now {
                    return Ok(());
                }
                alarm.as_mut().reset(idle_at);
            }
        }
    }
}

/// A call that is under way.
struct Call {
    activity: Rc<Activity>,
    port: Rc<Port>,
    conn: u32,
}

impl Call {
    fn begin(activity: &Rc<Activity>, port: &Rc<Port>, conn: u32) -> Call {
        activity.calls.set(activity.calls.get() + 1);
        activity.open.set(activity.open.get() + 1);
        activity.last.set(Instant::now());
        port.mark(conn, true);
        Call { activity: Rc::clone(activity), port: Rc::clone(port), conn }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let open = self.activity.open.get() - 1;
        self.activity.open.set(open);
        if open == 0 {
            self.port.mark(self.conn, false);
        }
    }
}

/// What is to be told of the end of a connection, if anything is.
fn problem(error: &hyper::Error, activity: &Activity) -> Result<(), String> {
    let source = error.source();
    let text = source.map_or_else(|| error.to_string(), ToString::to_string);
    let gone = source.is_some_and(|source| {
        source.is::<std::io::Error>() || source.downcast_ref::<h2::Error>().is_some_and(h2::Error::is_go_away)
    });
    match (activity.is_greeted(), activity.calls.get()) {
        (false, _) => Err(format!("not HTTP/2, which gRPC takes: {text}")),
        // Both sides end a connection of HTTP/2 with GOAWAY: only before the first call it is worth a word.
        (true, 0) if source.is_some_and(|source| source.is::<h2::Error>()) => {
            Err(format!("not HTTP/2, which gRPC takes: {text}"))
        }
        _ if gone => Ok(()),
        _ => Err(format!("not HTTP/2 as it should be: {text}")),
    }
}

/// One call, from its first byte to its answer.
async fn answer(port: &Rc<Port>, request: Request<Incoming>, peer: SocketAddr, conn: u32) -> Response<Reply> {
    add(&port.stats.requests, 1);
    let (head, mut body) = request.into_parts();
    let mut message = Held::new(port);
    let taken = match call_of(port, &head) {
        Err(refused) => Err(refuse(port, peer, 0, Reason::Protocol, refused)),
        Ok((signal, encoding, entered)) => {
            let read = timeout(port.limit(), read(port, &mut body, &mut message, peer)).await;
            if let Some(Entered { token }) = &entered {
                token.spend(message.bytes.len() as u64);
            }
            match read {
                Ok(Ok(())) => take(port, (signal, encoding), &message.bytes, (peer, conn), entered.as_ref()),
                Ok(Err(refused)) => Err(refused),
                Err(_) => {
                    add(&port.stats.slow, 1);
                    let text = "the request took too long";
                    let refused = Refused::new(Code::InvalidArgument, text);
                    Err(refuse(port, peer, message.bytes.len(), Reason::Protocol, refused))
                }
            }
        }
    };
    match taken {
        Ok(message) => success(&message),
        Err(refused) => failure(&refused),
    }
}

/// What is called by whom may, and how its message is compressed if it says that it is.
fn call_of(port: &Port, head: &http::request::Parts) -> Result<(Signal, Encoding, Option<Entered>), Refused> {
    let entered = bearer::admit(port, &head.headers).map_err(|stopped| match stopped {
        Stopped::Unknown => Refused::new(Code::Unauthenticated, bearer::REFUSED),
        Stopped::Limited(wait) => {
            Refused { wait: Some(wait), ..Refused::new(Code::ResourceExhausted, bearer::LIMITED) }
        }
    })?;
    let refused = |message: &str| Refused::new(Code::Unimplemented, message);
    let signal = match head.uri.path() {
        "/opentelemetry.proto.collector.trace.v1.TraceService/Export" => Signal::Traces,
        "/opentelemetry.proto.collector.logs.v1.LogsService/Export" => Signal::Logs,
        "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export" => Signal::Metrics,
        _ => return Err(refused("only traces and logs are taken in here")),
    };
    match head.headers.get("grpc-encoding").map(HeaderValue::as_bytes) {
        None | Some(b"identity") => Ok((signal, Encoding::Identity, entered)),
        Some(b"gzip") => Ok((signal, Encoding::Gzip, entered)),
        Some(_) => Err(refused("grpc-encoding must be gzip or identity")),
    }
}

/// Reads a call's message to its end.
async fn read(
    port: &Rc<Port>,
    body: &mut Incoming,
    message: &mut Held,
    peer: SocketAddr,
) -> Result<(), Refused> {
    let most = port.config.max_body + HEAD;
    while let Some(data) = next_data(body).await {
        let data = data.map_err(|error| {
            let error = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            let text = format!("the call ends early: {error}");
            let refused = Refused::new(Code::InvalidArgument, text);
            refuse(port, peer, message.bytes.len(), Reason::Protocol, refused)
        })?;
        add(&port.stats.bytes, data.len() as u64);
        if message.bytes.len() + data.len() > most {
            let text = "the message has more bytes than the configuration allows: send smaller batches";
            let refused = Refused::new(Code::ResourceExhausted, text);
            let bytes = message.bytes.len() + data.len();
            return Err(refuse(port, peer, bytes, Reason::OversizeLine, refused));
        }
        message.extend(&data, None);
        if message.is_too_much() {
            return Err(port.out_of_memory());
        }
    }
    Ok(())
}

/// Takes in a complete message; returns that of the answer.
fn take(
    port: &Rc<Port>,
    (signal, encoding): (Signal, Encoding),
    message: &[u8],
    (peer, conn): (SocketAddr, u32),
    entered: Option<&Entered>,
) -> Result<Vec<u8>, Refused> {
    let wrong = |text: &str| {
        let refused = Refused::new(Code::InvalidArgument, text);
        refuse(port, peer, message.len(), Reason::Protocol, refused)
    };
    let Some((&[compressed, a, b, c, d], body)) = message.split_first_chunk::<HEAD>() else {
        return Err(wrong("a call without a message"));
    };
    if u32::from_be_bytes([a, b, c, d]) as usize != body.len() {
        return Err(wrong("a message of another length than it says"));
    }
    let encoding = match compressed {
        0 => Encoding::Identity,
        1 if encoding != Encoding::Identity => encoding,
        _ => return Err(wrong("a compressed message of a call that says nothing of that")),
    };
    let arrival = Arrival { conn, time: now() };
    let (format, pass) = (Format::Protobuf, entered.and_then(|entered| entered.token.pass()));
    let export = Export { arrival, peer, signal, format, encoding, pass, body };
    let outcome = port.intake.borrow_mut().take(export);
    tell(entered, &outcome);
    port.hand_over();
    Ok(answer::success(signal, Format::Protobuf, &outcome?))
}

/// Counts a refusal.
fn refuse(port: &Port, peer: SocketAddr, bytes: usize, reason: Reason, refused: Refused) -> Refused {
    port.refuse(peer, bytes, reason, &refused.message);
    refused
}

fn success(message: &[u8]) -> Response<Reply> {
    let mut data = Vec::with_capacity(HEAD + message.len());
    data.put_u8(0);
    // An answer is a count and a line of text.
    data.put_u32(message.len() as u32);
    data.put_slice(message);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    response(Reply::with_trailers(data, trailers))
}

fn failure(refused: &Refused) -> Response<Reply> {
    let mut response = response(Reply::default());
    let headers = response.headers_mut();
    headers.insert("grpc-status", HeaderValue::from(refused.code as u16));
    headers.insert("grpc-accept-encoding", HeaderValue::from_static("gzip"));
    if let Ok(text) = HeaderValue::from_str(&percent(&refused.message)) {
        headers.insert("grpc-message", text);
    }
    if let Some(wait) = refused.wait {
        let details = answer::retry_info(refused.code, &refused.message, wait);
        if let Ok(details) = HeaderValue::from_str(&BASE64.encode(details)) {
            headers.insert("grpc-status-details-bin", details);
        }
    }
    response
}

fn response(reply: Reply) -> Response<Reply> {
    let mut response = Response::new(reply);
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    response
}

/// A text as `grpc-message` has it: printable ASCII, all else and `%` as `%XX`.
fn percent(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b' '..=b'~' if byte != b'%' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
