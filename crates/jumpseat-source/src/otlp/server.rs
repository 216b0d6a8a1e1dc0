//! OTLP over HTTP: a thread with a mio event loop that serves all connections.
//!
//! Connections take turns: each gets one read of up to 256 KiB a round. A connection holds the request that is not
//! complete yet and the answers that are not read yet. While there are such answers, nothing more is read from it.
//! Requests that take too long, and connections that ask for nothing, are closed; so nobody can hold a place for free.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};

use super::answer::{self, Code};
use super::config::OtlpConfig;
use super::http::{Format, Http, Request, Step};
use super::intake::{Export, Intake};
use super::stats::OtlpStats;
use crate::delivery::Reason;
use crate::lanes::Arrival;
use crate::outlet::Outlet;
use crate::registry::SourceRefused;
use pcp_model::Timestamp;
use pcp_net::Limiter;

/// Most bytes of one read.
const READ_BYTES: usize = 256 * 1024;
/// How long a client that was refused may go on sending, so that it gets to read why.
const LINGER: Duration = Duration::from_secs(5);
/// How often to look for connections that are too slow, and to hand over again what did not fit.
const SWEEP: Duration = Duration::from_millis(100);
/// How soon to try again to accept when there were no descriptors left.
const ACCEPT_RETRY: Duration = Duration::from_millis(200);

const WAKER: Token = Token(usize::MAX);
/// Tokens of listeners count down from here.
const LISTENERS: usize = usize::MAX - 1;

/// The OTLP source could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A configuration value out of its range.
    #[error("{0}")]
    Config(crate::setting::InvalidKey),
    /// The address cannot be listened on.
    #[error("{address}: cannot listen: {error}; stop what listens there, or configure another address")]
    Listen {
        /// Host and port.
        address: String,
        /// The system's answer.
        error: io::Error,
    },
    /// The source of what names no service.
    #[error("source {name}: {why}")]
    Source {
        /// Its name.
        name: String,
        /// Why it cannot be.
        why: SourceRefused,
    },
    /// The event loop or the thread.
    #[error("cannot start the OTLP source: {0}")]
    System(#[from] io::Error),
}

/// A running listener. Dropping it stops the thread.
#[derive(Debug)]
pub struct OtlpSource {
    stop: Arc<AtomicBool>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
    /// Where it listens.
    pub addresses: Vec<SocketAddr>,
}

impl OtlpSource {
    /// Listens at `config.listen` (at all its addresses) and starts the thread.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(
        config: &OtlpConfig,
        outlet: &Outlet,
        stats: &Arc<OtlpStats>,
    ) -> Result<OtlpSource, StartError> {
        config.validate().map_err(StartError::Config)?;
        let address = config.listen.clone().unwrap_or_default();
        let intake = Intake::new(config, outlet, stats, &address)
            .map_err(|why| StartError::Source { name: config.source.clone(), why })?;
        let listeners = listen(&address)?;
        let addresses = listeners.iter().map(std::net::TcpListener::local_addr).collect::<Result<_, _>>()?;
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let mut listeners: Vec<TcpListener> = listeners.into_iter().map(TcpListener::from_std).collect();
        for (index, listener) in listeners.iter_mut().enumerate() {
            poll.registry().register(listener, Token(LISTENERS - index), Interest::READABLE)?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let mut service = Service {
            poll,
            listeners,
            intake,
            config: config.clone(),
            conns: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            accept_at: None,
            swept: Instant::now(),
            held: 0,
            told: 0,
            buffer: vec![0; READ_BYTES],
            stop: Arc::clone(&stop),
            report: Limiter::new(3, Duration::from_secs(10)),
        };
        let thread = std::thread::Builder::new().name("jumpseat-otlp".to_owned()).spawn(move || {
            service.run();
        })?;
        Ok(OtlpSource { stop, waker, thread: Some(thread), addresses })
    }
}

impl Drop for OtlpSource {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Without the wake-up the thread notices at the next event; then there is nothing to wait for.
        if self.waker.wake().is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

/// Listens at all addresses of a host; one of them is enough, as a machine may lack IPv6.
pub(super) fn listen(address: &str) -> Result<Vec<std::net::TcpListener>, StartError> {
    let failed = |error| StartError::Listen { address: address.to_owned(), error };
    let mut listeners: Vec<std::net::TcpListener> = Vec::new();
    let mut problem = io::Error::new(ErrorKind::NotFound, "the host has no address");
    for mut socket in address.to_socket_addrs().map_err(failed)? {
        // Where the system chooses the port, it is the same for all addresses.
        if let (0, Some(Ok(first))) =
            (socket.port(), listeners.first().map(std::net::TcpListener::local_addr))
        {
            socket.set_port(first.port());
        }
        match std::net::TcpListener::bind(socket).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        }) {
            Ok(listener) => listeners.push(listener),
            // Somebody else's: clients would come to either of us.
            Err(error) if error.kind() == ErrorKind::AddrInUse => return Err(failed(error)),
            Err(error) => problem = error,
        }
    }
    if listeners.is_empty() { Err(failed(problem)) } else { Ok(listeners) }
}

struct Conn {
    stream: TcpStream,
    peer: SocketAddr,
    http: Http,
    /// Answers not yet written.
    answers: Vec<u8>,
    written: usize,
    /// In the queue of those that may have something to read.
    queued: bool,
    /// When it is too late for what is going on.
    deadline: Instant,
    /// Something of a request or of an answer is under way.
    busy: bool,
    /// No more requests: it is closed when the answers are written.
    last: bool,
    /// It was refused and told why; what it still sends is thrown away.
    lingers: bool,
}

struct Service {
    poll: Poll,
    listeners: Vec<TcpListener>,
    intake: Intake,
    config: OtlpConfig,
    /// By token.
    conns: Vec<Option<Conn>>,
    free: Vec<usize>,
    ready: VecDeque<usize>,
    accept_at: Option<Instant>,
    swept: Instant,
    /// Memory of requests that are not complete.
    held: usize,
    /// What of it is in the counter, which other listeners count in, too.
    told: usize,
    buffer: Vec<u8>,
    stop: Arc<AtomicBool>,
    report: Limiter,
}

/// What a read came to.
enum Turn {
    /// There may be more.
    Again,
    /// There is no more for now.
    Drained,
    /// The client has gone, or is to go at once.
    Gone,
}

impl Service {
    fn run(&mut self) {
        let mut events = Events::with_capacity(256);
        while !self.stop.load(Ordering::Relaxed) && !self.intake.decoder.lanes.is_closed() {
            if let Err(error) = self.poll.poll(&mut events, self.timeout())
                && error.kind() != ErrorKind::Interrupted
            {
                tracing::error!("the OTLP source stops: polling failed: {error}");
                break;
            }
            for event in &events {
                match event.token() {
                    WAKER => {}
                    Token(index) if index > LISTENERS - self.listeners.len() => {
                        self.accept_at = Some(Instant::now());
                    }
                    Token(index) => {
                        if event.is_writable() && !self.write(index) {
                            continue;
                        }
                        self.enqueue(index);
                    }
                }
            }
            if self.accept_at.is_some_and(|at| at <= Instant::now()) {
                self.accept();
            }
            self.round();
            self.intake.decoder.lanes.flush();
            self.sweep();
        }
        self.intake.decoder.lanes.flush();
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        let open = self.conns.len() > self.free.len();
        let accept = self.accept_at.map(|at| at.saturating_duration_since(Instant::now()));
        let sweep = (open || self.intake.decoder.lanes.is_pending()).then_some(SWEEP);
        [accept, sweep].into_iter().flatten().min()
    }

    fn accept(&mut self) {
        self.accept_at = None;
        for index in 0..self.listeners.len() {
            while let Some(listener) = self.listeners.get(index) {
                match listener.accept() {
                    Ok((stream, peer)) => self.admit(stream, peer),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                    Err(error) => {
                        // Out of descriptors or memory: the connection stays in the backlog.
                        add(&self.intake.stats.turned_away, 1);
                        if let Some(held_back) = self.report.allow(Instant::now()) {
                            tracing::warn!(held_back, "OTLP: cannot accept a connection: {error}");
                        }
                        self.accept_at = Some(Instant::now() + ACCEPT_RETRY);
                        return;
                    }
                }
            }
        }
    }

    fn admit(&mut self, mut stream: TcpStream, peer: SocketAddr) {
        let open = self.conns.len() - self.free.len();
        if open >= self.config.max_connections {
            add(&self.intake.stats.turned_away, 1);
            let mut answer = Vec::new();
            let message = answer::status(Code::Unavailable, Format::Protobuf, "too many connections");
            answer::response(&mut answer, 503, Format::Protobuf, &message, true);
            let _ = stream.write(&answer);
            if let Some(held_back) = self.report.allow(Instant::now()) {
                tracing::warn!(%peer, open, held_back, "OTLP: a connection was turned away: too many");
            }
            return;
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.conns.push(None);
            self.conns.len() - 1
        });
        // Answers are short and wanted at once.
        let _ = stream.set_nodelay(true);
        // Both directions from the start: edge-triggered readiness costs nothing while nothing changes.
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self.poll.registry().register(&mut stream, Token(index), interest) {
            tracing::warn!("OTLP: cannot poll a connection: {error}");
            self.free.push(index);
            return;
        }
        let conn = Conn {
            stream,
            peer,
            http: Http::new(self.config.max_body),
            answers: Vec::new(),
            written: 0,
            queued: false,
            deadline: Instant::now() + self.limit(),
            busy: false,
            last: false,
            lingers: false,
        };
        if let Some(place) = self.conns.get_mut(index) {
            *place = Some(conn);
        }
        add(&self.intake.stats.connections, 1);
        self.enqueue(index);
    }

    /// How long a request may take.
    fn limit(&self) -> Duration {
        Duration::from_millis(self.config.timeout_ms)
    }

    fn enqueue(&mut self, index: usize) {
        if let Some(Some(conn)) = self.conns.get_mut(index)
            && !conn.queued
        {
            conn.queued = true;
            self.ready.push_back(index);
        }
    }

    /// One read for each connection that may have something.
    fn round(&mut self) {
        for _ in 0..self.ready.len() {
            let Some(index) = self.ready.pop_front() else { return };
            let Some(place) = self.conns.get_mut(index) else { continue };
            // Out of its place for the time, so that the rest of the service can be used.
            let Some(mut conn) = place.take() else { continue };
            conn.queued = false;
            self.held = self.held.saturating_sub(conn.http.held());
            let turn = self.read(index, &mut conn);
            self.held += conn.http.held();
            if let Some(place) = self.conns.get_mut(index) {
                *place = Some(conn);
            }
            match turn {
                Turn::Gone => {
                    self.close(index);
                    continue;
                }
                Turn::Again => {
                    if self.write(index) {
                        self.enqueue(index);
                    }
                }
                Turn::Drained => drop(self.write(index)),
            }
        }
        self.tell_memory();
    }

    fn read(&mut self, index: usize, conn: &mut Conn) -> Turn {
        if !conn.answers.is_empty() {
            return Turn::Drained;
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let turn = match conn.stream.read(&mut buffer) {
            Ok(0) => Turn::Gone,
            Ok(read) => {
                add(&self.intake.stats.bytes, read as u64);
                self.feed(index, conn, buffer.get(..read).unwrap_or_default());
                Turn::Again
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Turn::Drained,
            Err(error) if error.kind() == ErrorKind::Interrupted => Turn::Again,
            Err(_) => Turn::Gone,
        };
        self.buffer = buffer;
        turn
    }

    /// Takes in what was read: any number of requests.
    fn feed(&mut self, index: usize, conn: &mut Conn, mut input: &[u8]) {
        while !input.is_empty() && !conn.last && !conn.lingers {
            if !conn.busy {
                conn.busy = true;
                conn.deadline = Instant::now() + self.limit();
            }
            let (used, step) = conn.http.feed(input);
            input = input.get(used..).unwrap_or_default();
            match step {
                Step::More => {}
                Step::Continue => conn.answers.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n"),
                Step::Complete(request) => {
                    self.request(index, conn, request);
                    conn.http.next();
                    conn.busy = false;
                    conn.deadline = Instant::now() + self.limit();
                }
                Step::Refused(refused) => {
                    add(&self.intake.stats.requests, 1);
                    let text = refused.detail;
                    self.intake.refuse(conn.peer, conn.http.held(), refused.reason, text);
                    self.refuse(conn, refused.status, refused.format, text);
                }
            }
            if !conn.lingers && self.held + conn.http.held() > self.config.max_memory {
                add(&self.intake.stats.requests, 1);
                let refused = self.intake.busy("too many requests at the same time");
                self.refuse(conn, 503, Format::Protobuf, &refused.message);
            }
        }
    }

    fn request(&mut self, index: usize, conn: &mut Conn, request: Request) {
        let Request { signal, format, encoding, close } = request;
        add(&self.intake.stats.requests, 1);
        // Connections of this thread count up from 0, as do those of others with lanes of their own.
        let taken = self.intake.take(Export {
            arrival: Arrival { conn: index as u32, time: now() },
            peer: conn.peer,
            signal,
            format,
            encoding,
            body: &conn.http.body,
        });
        let (status, message) = match taken {
            Ok(outcome) => (200, answer::success(signal, format, &outcome)),
            Err(refused) => {
                let status = match refused.code {
                    Code::Unavailable => 503,
                    Code::ResourceExhausted => 413,
                    _ => 400,
                };
                (status, answer::status(refused.code, format, &refused.message))
            }
        };
        answer::response(&mut conn.answers, status, format, &message, close);
        conn.last = close;
    }

    /// Answers a request that is not read to its end.
    fn refuse(&mut self, conn: &mut Conn, status: u16, format: Format, text: &str) {
        let message = answer::status(Code::of_status(status), format, text);
        answer::response(&mut conn.answers, status, format, &message, true);
        conn.http = Http::new(self.config.max_body);
        conn.lingers = true;
        conn.deadline = Instant::now() + LINGER;
    }

    /// Writes what answers there are. Returns whether the connection is still there, without answers to write.
    fn write(&mut self, index: usize) -> bool {
        let Some(Some(conn)) = self.conns.get_mut(index) else { return false };
        while let Some(rest) = conn.answers.get(conn.written..).filter(|rest| !rest.is_empty()) {
            match conn.stream.write(rest) {
                Ok(written) => conn.written += written,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(_) => {
                    self.close(index);
                    return false;
                }
            }
        }
        let had = !conn.answers.is_empty();
        conn.answers = Vec::new();
        conn.written = 0;
        if had && conn.lingers {
            // The client reads the answer to its end, and may stop sending.
            let _ = conn.stream.shutdown(Shutdown::Write);
        } else if conn.last {
            self.close(index);
            return false;
        }
        if had && !conn.busy && !conn.lingers {
            conn.deadline = Instant::now() + Duration::from_millis(self.config.idle_ms);
        }
        true
    }

    fn tell_memory(&mut self) {
        let memory = &self.intake.stats.memory;
        memory.fetch_add(self.held as u64, Ordering::Relaxed);
        memory.fetch_sub(self.told as u64, Ordering::Relaxed);
        self.told = self.held;
    }

    /// Closes what is too late.
    fn sweep(&mut self) {
        let now = Instant::now();
        if now.duration_since(self.swept) < SWEEP {
            return;
        }
        self.swept = now;
        for index in 0..self.conns.len() {
            let Some(Some(conn)) = self.conns.get_mut(index) else { continue };
            if conn.deadline > now {
                continue;
            }
            let under_way = conn.busy || !conn.answers.is_empty();
            if under_way && !conn.lingers {
                let (peer, held) = (conn.peer, conn.http.held());
                if conn.answers.is_empty() {
                    let text = "the request took too long";
                    let message = answer::status(Code::InvalidArgument, Format::Protobuf, text);
                    let mut answer = Vec::new();
                    answer::response(&mut answer, 408, Format::Protobuf, &message, true);
                    let _ = conn.stream.write(&answer);
                }
                add(&self.intake.stats.slow, 1);
                self.intake.warn(peer, Reason::Protocol, "a client was too slow, and is disconnected");
                if held > 0 {
                    self.intake.decoder.refuse(held, Reason::Protocol);
                }
            }
            self.close(index);
        }
    }

    fn close(&mut self, index: usize) {
        let Some(mut conn) = self.conns.get_mut(index).and_then(Option::take) else { return };
        self.intake.decoder.lanes.flush();
        self.intake.decoder.lanes.forget(index as u32);
        self.held = self.held.saturating_sub(conn.http.held());
        self.tell_memory();
        // Neither can fail in a way that matters for a connection that is going away.
        let _ = self.poll.registry().deregister(&mut conn.stream);
        let _ = conn.stream.shutdown(Shutdown::Both);
        // A ready queue entry that still names it finds nothing, or a successor with nothing to read.
        self.free.push(index);
        self.intake.stats.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}

/// The time, for records that have none.
pub(super) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::new(since.as_secs() as i64, since.subsec_nanos())
}
