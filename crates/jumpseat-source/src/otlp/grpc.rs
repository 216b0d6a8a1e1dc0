//! OTLP over gRPC: a thread with an event loop of tokio, as that is what the HTTP/2 of crate `h2` runs on.
//!
//! A call is one message each way. Connections, calls at the same time, headers and messages are bounded, and so is the
//! time that each may take, as with HTTP/1.1; what is done with a message is the same.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

use super::answer::{self, Code};
use super::config::OtlpConfig;
use super::decode::Signal;
use super::http::Format;
use super::inflate::Encoding;
use super::intake::{Export, Intake, Refused};
use super::server::{StartError, listen, now};
use super::stats::OtlpStats;
use crate::delivery::Reason;
use crate::lanes::Arrival;
use crate::outlet::Outlet;
use pcp_net::Limiter;

/// Calls at the same time on one connection.
const MAX_STREAMS: u32 = 16;
/// Longest headers of a call.
const MAX_HEADERS: u32 = 16 * 1024;
/// Bytes a client may send of one call, and of all calls of a connection, before they are looked at.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// A message's head: whether it is compressed, and its length.
const HEAD: usize = 5;
/// How often to look whether to stop, and to hand over again what did not fit.
const LOOK: Duration = Duration::from_millis(100);

/// A running listener. Dropping it stops the thread.
#[derive(Debug)]
pub struct GrpcSource {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// Where it listens.
    pub addresses: Vec<SocketAddr>,
}

impl GrpcSource {
    /// Listens at `config.grpc` (at all its addresses) and starts the thread.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(
        config: &OtlpConfig,
        outlet: &Outlet,
        stats: &Arc<OtlpStats>,
    ) -> Result<GrpcSource, StartError> {
        config.validate().map_err(StartError::Config)?;
        let address = config.grpc.clone().unwrap_or_default();
        let intake = Intake::new(config, outlet, stats, &address)
            .map_err(|why| StartError::Source { name: config.source.clone(), why })?;
        let listeners = listen(&address)?;
        let addresses = listeners.iter().map(std::net::TcpListener::local_addr).collect::<Result<_, _>>()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, config) = (Arc::clone(&stop), config.clone());
        let thread = std::thread::Builder::new().name("jumpseat-grpc".to_owned()).spawn(move || {
            let report = Limiter::new(3, Duration::from_secs(10));
            let shared = Shared { intake, config, open: 0, held: 0, next: 0, report };
            let shared = Rc::new(RefCell::new(shared));
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime, serve(&shared, listeners, &stopped));
            drop(local);
            if let Ok(mut shared) = shared.try_borrow_mut() {
                shared.intake.decoder.lanes.flush();
            }
        })?;
        Ok(GrpcSource { stop, thread: Some(thread), addresses })
    }
}

impl Drop for GrpcSource {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What all connections share. Never borrowed over an `await`.
struct Shared {
    intake: Intake,
    config: OtlpConfig,
    /// Connections.
    open: usize,
    /// Memory of messages that are not complete.
    held: usize,
    /// The number of the next connection.
    next: u32,
    report: Limiter,
}

type All = Rc<RefCell<Shared>>;

async fn serve(shared: &All, listeners: Vec<std::net::TcpListener>, stop: &AtomicBool) {
    for listener in listeners {
        match TcpListener::from_std(listener) {
            Ok(listener) => drop(spawn_local(accept(Rc::clone(shared), listener))),
            Err(error) => tracing::error!("OTLP over gRPC is not served: {error}"),
        }
    }
    while !stop.load(Ordering::Relaxed) && !shared.borrow().intake.decoder.lanes.is_closed() {
        sleep(LOOK).await;
        shared.borrow_mut().intake.decoder.lanes.flush();
    }
}

async fn accept(shared: All, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => admit(&shared, stream, peer),
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            Err(error) => {
                // Out of descriptors or memory: the connection stays in the backlog.
                turned_away(&shared, &error);
                sleep(LOOK).await;
            }
        }
    }
}

fn turned_away(all: &All, error: &std::io::Error) {
    let shared = &mut *all.borrow_mut();
    shared.intake.stats.turned_away.fetch_add(1, Ordering::Relaxed);
    if let Some(held_back) = shared.report.allow(Instant::now()) {
        tracing::warn!(held_back, "OTLP: cannot accept a gRPC connection: {error}");
    }
}

fn admit(all: &All, stream: TcpStream, peer: SocketAddr) {
    let mut shared = all.borrow_mut();
    if shared.open >= shared.config.max_connections {
        shared.intake.stats.turned_away.fetch_add(1, Ordering::Relaxed);
        shared.intake.warn(peer, Reason::Protocol, "a gRPC connection was turned away: too many");
        return;
    }
    // Answers are short and wanted at once.
    let _ = stream.set_nodelay(true);
    shared.open += 1;
    shared.intake.stats.connections.fetch_add(1, Ordering::Relaxed);
    let conn = shared.next;
    shared.next = shared.next.wrapping_add(1);
    let all = Rc::clone(all);
    spawn_local(async move {
        if let Err(problem) = connection(&all, stream, peer, conn).await {
            let mut shared = all.borrow_mut();
            shared.intake.refuse(peer, 0, Reason::Protocol, &problem);
        }
        let mut shared = all.borrow_mut();
        shared.open -= 1;
        shared.intake.stats.connections.fetch_sub(1, Ordering::Relaxed);
        shared.intake.decoder.lanes.flush();
        shared.intake.decoder.lanes.forget(conn);
    });
}

/// Serves a connection to its end.
async fn connection(all: &All, stream: TcpStream, peer: SocketAddr, conn: u32) -> Result<(), String> {
    let (limit, idle) = {
        let config = &all.borrow().config;
        (Duration::from_millis(config.timeout_ms), Duration::from_millis(config.idle_ms))
    };
    let handshake = h2::server::Builder::new()
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADERS)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .handshake::<_, Bytes>(stream);
    let mut connection = match timeout(limit, handshake).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => return Err(format!("not HTTP/2, which gRPC takes: {error}")),
        Err(_) => {
            all.borrow().intake.stats.slow.fetch_add(1, Ordering::Relaxed);
            return Err("a client was too slow, and is disconnected".to_owned());
        }
    };
    // Each call holds one.
    let calls = Rc::new(());
    loop {
        match timeout(idle, connection.accept()).await {
            Ok(Some(Ok((request, respond)))) => {
                let (all, call) = (Rc::clone(all), Rc::clone(&calls));
                spawn_local(async move {
                    self::call(&all, request, respond, peer, conn, limit).await;
                    drop(call);
                });
            }
            Ok(Some(Err(error))) if error.is_io() || error.is_go_away() => return Ok(()),
            Ok(Some(Err(error))) => return Err(format!("not HTTP/2 as it should be: {error}")),
            Ok(None) => return Ok(()),
            Err(_) if Rc::strong_count(&calls) > 1 => {}
            Err(_) => return Ok(()),
        }
    }
}

/// One call, from its first byte to its answer.
async fn call(
    all: &All,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    peer: SocketAddr,
    conn: u32,
    limit: Duration,
) {
    all.borrow().intake.stats.requests.fetch_add(1, Ordering::Relaxed);
    let (head, mut body) = request.into_parts();
    let mut message = Held { bytes: BytesMut::new(), all: Rc::clone(all) };
    let taken = match call_of(&head) {
        Err(refused) => Err(refuse(all, peer, 0, Reason::Protocol, refused)),
        Ok((signal, encoding)) => match timeout(limit, read(all, &mut body, &mut message, peer)).await {
            Ok(Ok(())) => take(all, signal, encoding, &message.bytes, peer, conn),
            Ok(Err(refused)) => Err(refused),
            Err(_) => {
                all.borrow().intake.stats.slow.fetch_add(1, Ordering::Relaxed);
                let text = "the request took too long".to_owned();
                let refused = Refused { code: Code::InvalidArgument, message: text };
                Err(refuse(all, peer, message.bytes.len(), Reason::Protocol, refused))
            }
        },
    };
    drop(message);
    // The client may have gone; then there is nobody to tell.
    let _ = match taken {
        Ok(message) => succeed(&mut respond, &message),
        Err(refused) => fail(&mut respond, &refused),
    };
}

/// A message as far as it has come, counted among the memory of all.
struct Held {
    bytes: BytesMut,
    all: All,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Ok(mut shared) = self.all.try_borrow_mut() {
            shared.held = shared.held.saturating_sub(self.bytes.len());
            shared.intake.stats.memory.fetch_sub(self.bytes.len() as u64, Ordering::Relaxed);
        }
    }
}

/// What is called, and how its message is compressed if it says that it is.
fn call_of(head: &http::request::Parts) -> Result<(Signal, Encoding), Refused> {
    let refused = |message: &str| Refused { code: Code::Unimplemented, message: message.to_owned() };
    let signal = match head.uri.path() {
        "/opentelemetry.proto.collector.trace.v1.TraceService/Export" => Signal::Traces,
        "/opentelemetry.proto.collector.logs.v1.LogsService/Export" => Signal::Logs,
        _ => return Err(refused("only traces and logs are taken in here")),
    };
    match head.headers.get("grpc-encoding").map(HeaderValue::as_bytes) {
        None | Some(b"identity") => Ok((signal, Encoding::Identity)),
        Some(b"gzip") => Ok((signal, Encoding::Gzip)),
        Some(_) => Err(refused("grpc-encoding must be gzip or identity")),
    }
}

/// Reads a call's message to its end.
async fn read(all: &All, body: &mut RecvStream, message: &mut Held, peer: SocketAddr) -> Result<(), Refused> {
    while let Some(data) = body.data().await {
        let data = data.map_err(|error| {
            let text = format!("the call ends early: {error}");
            let refused = Refused { code: Code::InvalidArgument, message: text };
            refuse(all, peer, message.bytes.len(), Reason::Protocol, refused)
        })?;
        // Room for as much again; an error means that the call is over, which is found next.
        let _ = body.flow_control().release_capacity(data.len());
        let (max_body, max_memory) = {
            let mut shared = all.borrow_mut();
            shared.held += data.len();
            shared.intake.stats.memory.fetch_add(data.len() as u64, Ordering::Relaxed);
            shared.intake.stats.bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
            (shared.config.max_body, shared.config.max_memory)
        };
        message.bytes.extend_from_slice(&data);
        if message.bytes.len() > max_body + HEAD {
            let text = "the message has more bytes than the configuration allows: send smaller batches";
            let refused = Refused { code: Code::ResourceExhausted, message: text.to_owned() };
            return Err(refuse(all, peer, message.bytes.len(), Reason::OversizeLine, refused));
        }
        if all.borrow().held > max_memory {
            return Err(all.borrow_mut().intake.busy("too many requests at the same time"));
        }
    }
    Ok(())
}

/// Takes in a complete message; returns that of the answer.
fn take(
    all: &All,
    signal: Signal,
    encoding: Encoding,
    message: &[u8],
    peer: SocketAddr,
    conn: u32,
) -> Result<Vec<u8>, Refused> {
    let wrong = |text: &str| {
        let refused = Refused { code: Code::InvalidArgument, message: text.to_owned() };
        refuse(all, peer, message.len(), Reason::Protocol, refused)
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
    let mut shared = all.borrow_mut();
    let arrival = Arrival { conn, time: now() };
    let export = Export { arrival, peer, signal, format: Format::Protobuf, encoding, body };
    let outcome = shared.intake.take(export)?;
    Ok(answer::success(signal, Format::Protobuf, &outcome))
}

/// Counts a refusal.
fn refuse(all: &All, peer: SocketAddr, bytes: usize, reason: Reason, refused: Refused) -> Refused {
    all.borrow_mut().intake.refuse(peer, bytes, reason, &refused.message);
    refused
}

fn succeed(respond: &mut SendResponse<Bytes>, message: &[u8]) -> Result<(), h2::Error> {
    let mut stream = respond.send_response(response(HeaderMap::new()), false)?;
    let mut data = BytesMut::with_capacity(HEAD + message.len());
    data.put_u8(0);
    // An answer is a count and a line of text.
    data.put_u32(message.len() as u32);
    data.put_slice(message);
    stream.send_data(data.freeze(), false)?;
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    stream.send_trailers(trailers)
}

fn fail(respond: &mut SendResponse<Bytes>, refused: &Refused) -> Result<(), h2::Error> {
    let mut headers = HeaderMap::new();
    headers.insert("grpc-status", HeaderValue::from(refused.code as u16));
    headers.insert("grpc-accept-encoding", HeaderValue::from_static("gzip"));
    if let Ok(text) = HeaderValue::from_str(&percent(&refused.message)) {
        headers.insert("grpc-message", text);
    }
    respond.send_response(response(headers), true)?;
    Ok(())
}

fn response(headers: HeaderMap) -> Response<()> {
    let mut response = Response::new(());
    *response.headers_mut() = headers;
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
