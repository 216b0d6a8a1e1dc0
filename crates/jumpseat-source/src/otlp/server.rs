//! The thread that listens, for OTLP over HTTP and over gRPC: one small runtime of tokio, whose tasks are the
//! connections. hyper speaks the protocols; [`super::http`] and [`super::grpc`] say what is answered.
//!
//! Nobody can hold a place for free: connections, requests at the same time and their memory are bounded, and
//! requests that take too long, and connections that ask for nothing, are closed.
//!
//! **Cost:** tasks take turns where they wait for the network; decoding a request is one turn. What a turn has made is
//! handed over when all others that were ready have had theirs, so that many small requests are one delivery. Against an
//! HTTP server written for this alone, in the same run of `benches/otlp`: 6 % less (plain), 2 % less (gzip).

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};

use pcp_model::Timestamp;
use pcp_net::{End, Life, Limiter, TcpListening, Worker, listen_tcp};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::answer::{self, Code};
use super::config::OtlpConfig;
use super::intake::{Intake, Refused};
use super::places::Places;
use super::stats::OtlpStats;
use super::transport::Stream;
use super::{grpc, http as http1};
use crate::delivery::Reason;
use crate::guard::Guard;
use crate::outlet::Outlet;
use crate::start::StartError;

/// How often to hand over again what did not fit.
const SWEEP: Duration = Duration::from_millis(100);
/// How soon to try again to accept when there were no descriptors left.
const ACCEPT_RETRY: Duration = Duration::from_millis(200);

/// The running listeners. Dropping this stops the thread.
#[derive(Debug)]
pub struct OtlpSource {
    _worker: Worker,
    /// Where they listen: first those for HTTP.
    pub addresses: Vec<SocketAddr>,
}

impl OtlpSource {
    /// Listens at `config.listen` and `config.grpc` (at all addresses of each) and starts the thread.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(
        config: &OtlpConfig,
        outlet: &Outlet,
        stats: &Arc<OtlpStats>,
    ) -> Result<OtlpSource, StartError> {
        config.validate().map_err(StartError::Config)?;
        let system = StartError::system("the OTLP source");
        // They outlive the thread's lives: between two of them, clients wait.
        let (mut listening, mut addresses) = (Vec::new(), Vec::new());
        for (protocol, address) in [(Protocol::Http, &config.listen), (Protocol::Grpc, &config.grpc)] {
            let Some(address) = address else { continue };
            let listeners = listen_tcp(address, &outlet.kept)
                .map_err(|error| StartError::Address { address: address.clone(), error })?;
            for listener in &listeners {
                addresses.push(listener.listener.local_addr().map_err(&system)?);
            }
            listening.push(Listening { protocol, address: address.clone(), listeners });
        }
        let (config, of_lives, stats) = (config.clone(), outlet.clone(), Arc::clone(stats));
        let again = move || life(&config, &of_lives, &stats, &listening);
        let first = again()?;
        let worker = Worker::kept("jumpseat-otlp", &outlet.restarts, first, again).map_err(&system)?;
        Ok(OtlpSource { _worker: worker, addresses })
    }
}

/// Where one of the protocols is listened for.
struct Listening {
    protocol: Protocol,
    address: String,
    listeners: Vec<TcpListening>,
}

/// A life of the thread: one runtime, one set of connections.
fn life(
    config: &OtlpConfig,
    outlet: &Outlet,
    stats: &Arc<OtlpStats>,
    listening: &[Listening],
) -> Result<Life, StartError> {
    let system = StartError::system("the OTLP source");
    let guard = Arc::new(config.guard(Some(outlet.registry.tokens())).map_err(StartError::Config)?);
    let mut ports = Vec::new();
    for Listening { protocol, address, listeners } in listening {
        let intake =
            Intake::new(config, outlet, stats, address).map_err(StartError::source(&config.source))?;
        let listeners: Result<Vec<_>, _> = listeners.iter().map(|one| one.listener.try_clone()).collect();
        ports.push((
            Port::new(*protocol, config, Arc::clone(&guard), intake, stats),
            listeners.map_err(&system)?,
        ));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    let runtime = runtime.map_err(&system)?;
    let control = Arc::new(Control::default());
    let of_thread = Arc::clone(&control);
    let run = move || {
        let local = LocalSet::new();
        let (ports, end) = local.block_on(&runtime, serve(ports, &of_thread));
        // Connections end before the last flush: what they have written so far is not lost because of the stop.
        drop(local);
        for port in ports {
            port.intake.borrow_mut().decoder.lanes.flush();
        }
        end
    };
    let stop = move || {
        control.stop.store(true, Ordering::Relaxed);
        control.stir.notify_one();
    };
    Ok(Life { run: Box::new(run), stop: Box::new(stop) })
}

/// How the thread is told to look after things.
#[derive(Debug, Default)]
pub(super) struct Control {
    stop: AtomicBool,
    /// A task that accepts has ended, which only a panic makes it do.
    is_broken: AtomicBool,
    stir: Notify,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Http,
    Grpc,
}

/// What all connections to one address share. They are tasks of one thread, and none borrows anything over an `await`.
pub(super) struct Port {
    protocol: Protocol,
    /// Its settings.
    pub config: OtlpConfig,
    /// Where complete requests go.
    pub intake: RefCell<Intake>,
    /// Who is let in.
    pub guard: Arc<Guard>,
    /// Counters.
    pub stats: Arc<OtlpStats>,
    /// Memory of requests that are not complete.
    pub held: Cell<usize>,
    /// The connections.
    places: RefCell<Places>,
    /// A flush is under way.
    flushes: Cell<bool>,
    report: RefCell<Limiter>,
}

impl Port {
    fn new(
        protocol: Protocol,
        config: &OtlpConfig,
        guard: Arc<Guard>,
        intake: Intake,
        stats: &Arc<OtlpStats>,
    ) -> Port {
        Port {
            protocol,
            config: config.clone(),
            intake: RefCell::new(intake),
            guard,
            stats: Arc::clone(stats),
            held: Cell::new(0),
            places: RefCell::new(Places::new(config.max_connections)),
            flushes: Cell::new(false),
            report: RefCell::new(Limiter::new(3, Duration::from_secs(10))),
        }
    }

    /// How long a request may take.
    pub(super) fn limit(&self) -> Duration {
        Duration::from_millis(self.config.timeout_ms)
    }

    /// How long a connection may be without one.
    pub(super) fn idle(&self) -> Duration {
        Duration::from_millis(self.config.idle_ms)
    }

    /// Counts a request that cannot be served, and says so in the log. `bytes`: what has come of it.
    pub(super) fn refuse(&self, peer: SocketAddr, bytes: usize, reason: Reason, text: &str) {
        self.intake.borrow_mut().refuse(peer, bytes, reason, text);
    }

    /// Refuses a request for which there is no memory.
    pub(super) fn out_of_memory(&self) -> Refused {
        self.intake.borrow_mut().busy("too many requests at the same time")
    }

    /// A connection's request has begun, or the answer to its last one has left.
    pub(super) fn mark(&self, conn: u32, is_busy: bool) {
        self.places.borrow_mut().mark(conn, is_busy, Instant::now());
    }

    /// Has what a request has made handed over when all tasks that are ready now have had their turn.
    pub(super) fn hand_over(self: &Rc<Port>) {
        if !self.flushes.replace(true) {
            let port = Rc::clone(self);
            // Tasks run in the order in which they became ready.
            spawn_local(async move {
                port.flushes.set(false);
                port.intake.borrow_mut().decoder.lanes.flush();
            });
        }
    }

    /// Whether there is something to look after from time to time.
    fn is_busy(&self) -> bool {
        !self.places.borrow().is_empty() || self.intake.borrow().decoder.lanes.is_pending()
    }

    fn is_closed(&self) -> bool {
        self.intake.borrow().decoder.lanes.is_closed()
    }

    /// Whether there is a place for somebody, or one is made.
    fn has_room(&self, peer: SocketAddr) -> bool {
        let mut places = self.places.borrow_mut();
        if !places.is_full() {
            return true;
        }
        let Some(address) = places.make_room(peer.ip(), Instant::now()) else { return false };
        add(&self.stats.made_room, 1);
        if let Some(held_back) = self.report.borrow_mut().allow(Instant::now()) {
            tracing::warn!(%address, held_back, "OTLP: a connection was closed: others wait for a place");
        }
        true
    }

    /// Tells a client beyond the limit to come again.
    fn turn_away(&self, stream: &TcpStream, peer: SocketAddr) {
        add(&self.stats.turned_away, 1);
        if self.protocol == Protocol::Grpc || self.guard.encrypts() {
            // What it would understand takes a handshake.
            let text = "a connection over gRPC or TLS was turned away: too many";
            return self.intake.borrow_mut().warn(peer, Reason::Protocol, text);
        }
        let message = answer::status(Code::Unavailable, http1::Format::Protobuf, "too many connections");
        let mut bytes = Vec::new();
        answer::response(&mut bytes, 503, http1::Format::Protobuf, &message, true);
        // As much as the socket takes at once; then it is closed.
        let _ = stream.try_write(&bytes);
        if let Some(held_back) = self.report.borrow_mut().allow(Instant::now()) {
            let open = self.config.max_connections;
            tracing::warn!(%peer, open, held_back, "OTLP: a connection was turned away: too many");
        }
    }

    /// Takes note of an error that is not a client's.
    fn cannot_accept(&self, error: &std::io::Error) {
        add(&self.stats.turned_away, 1);
        let Some(held_back) = self.report.borrow_mut().allow(Instant::now()) else { return };
        match self.protocol {
            Protocol::Http => tracing::warn!(held_back, "OTLP: cannot accept a connection: {error}"),
            Protocol::Grpc => tracing::warn!(held_back, "OTLP: cannot accept a gRPC connection: {error}"),
        }
    }
}

/// Serves until it is to stop, the core has gone, or nobody is accepted any more.
async fn serve(
    ports: Vec<(Port, Vec<std::net::TcpListener>)>,
    control: &Arc<Control>,
) -> (Vec<Rc<Port>>, End) {
    let mut all = Vec::new();
    for (port, listeners) in ports {
        let port = Rc::new(port);
        for listener in listeners {
            match TcpListener::from_std(listener) {
                Ok(listener) => {
                    drop(spawn_local(accept(Rc::clone(&port), listener, Arc::clone(control))));
                }
                Err(error) => tracing::error!("OTLP is not served at one of its addresses: {error}"),
            }
        }
        all.push(port);
    }
    while !control.stop.load(Ordering::Relaxed) && !all.iter().any(|port| port.is_closed()) {
        if control.is_broken.load(Ordering::Relaxed) {
            return (all, End::Broken);
        }
        if all.iter().any(|port| port.is_busy()) {
            // Too late or stirred, it comes to the same.
            let _ = timeout(SWEEP, control.stir.notified()).await;
        } else {
            control.stir.notified().await;
        }
        for port in &all {
            port.intake.borrow_mut().decoder.lanes.flush();
        }
    }
    (all, End::Asked)
}

/// Tells of the end of a task that has none.
struct Alarm(Arc<Control>);

impl Drop for Alarm {
    fn drop(&mut self) {
        self.0.is_broken.store(true, Ordering::Relaxed);
        self.0.stir.notify_one();
    }
}

async fn accept(port: Rc<Port>, listener: TcpListener, control: Arc<Control>) {
    let _alarm = Alarm(Arc::clone(&control));
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                admit(&port, stream, peer);
                // The thread may have been asleep for want of connections.
                control.stir.notify_one();
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                // Out of descriptors or memory: the connection stays in the backlog.
                port.cannot_accept(&error);
                sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

fn admit(port: &Rc<Port>, stream: TcpStream, peer: SocketAddr) {
    if !port.has_room(peer) {
        return port.turn_away(&stream, peer);
    }
    // Answers are short and wanted at once.
    let _ = stream.set_nodelay(true);
    let (place, leave) = Place::new(port, peer);
    spawn_local(async move {
        let (port, conn) = (&place.port, place.conn);
        let served = async {
            let Some(stream) = agree(port, stream, peer).await else { return };
            match port.protocol {
                Protocol::Http => http1::serve(port, stream, peer, conn).await,
                Protocol::Grpc => grpc::serve(port, stream, peer, conn).await,
            }
        };
        let (mut served, mut told) = (pin!(served), pin!(leave.notified()));
        std::future::poll_fn(|context| match told.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => served.as_mut().poll(context),
        })
        .await;
    });
}

/// What a record of TLS begins with in which somebody says hello (RFC 8446, 5.1).
const HANDSHAKE: u8 = 22;

/// Gets as far as both sides can talk: encrypted, if that is wanted. Nothing if they do not agree in the time of a request, which is
/// counted and told.
async fn agree(port: &Rc<Port>, stream: TcpStream, peer: SocketAddr) -> Option<Stream> {
    port.guard.renew(Instant::now());
    let Some(certificate) = port.guard.certificate() else { return Some(Stream::Plain(stream)) };
    let failed = |text: &str| {
        add(&port.stats.handshakes_failed, 1);
        port.intake.borrow_mut().warn(peer, Reason::Protocol, text);
    };
    let mut first = [0; 1];
    let agreed = timeout(port.limit(), async {
        match stream.peek(&mut first).await {
            Ok(1..) if first[0] == HANDSHAKE => {}
            // It went without a word.
            Ok(0) | Err(_) => return None,
            Ok(_) => return Some(Err(stream)),
        }
        let protocol = match port.protocol {
            Protocol::Http => "http/1.1",
            Protocol::Grpc => "h2",
        };
        match TlsAcceptor::from(certificate.server_config(&[protocol])).accept(stream).await {
            Ok(stream) => Some(Ok(Stream::Secret(Box::new(stream)))),
            Err(error) => {
                failed(&format!("no agreement on TLS: {error}"));
                None
            }
        }
    });
    match agreed.await {
        Ok(Some(Ok(stream))) => Some(stream),
        Ok(Some(Err(stream))) => {
            failed("plain text where TLS is served");
            if port.protocol == Protocol::Http {
                http1::only_tls(port, stream).await;
            }
            None
        }
        Ok(None) => None,
        Err(_) => {
            add(&port.stats.slow, 1);
            failed("a client was too slow to agree on TLS, and is disconnected");
            None
        }
    }
}

/// A connection's place among all. Dropping it frees the place, however the connection has ended.
struct Place {
    port: Rc<Port>,
    conn: u32,
}

impl Place {
    fn new(port: &Rc<Port>, peer: SocketAddr) -> (Place, Arc<Notify>) {
        let (conn, leave) = port.places.borrow_mut().take(peer.ip(), Instant::now());
        add(&port.stats.connections, 1);
        (Place { port: Rc::clone(port), conn }, leave)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let lanes = &mut self.port.intake.borrow_mut().decoder.lanes;
        // Its last records must have left before another connection can get its number.
        lanes.flush();
        lanes.forget(self.conn);
        self.port.places.borrow_mut().free(self.conn);
        self.port.stats.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}

/// The time, for records that have none.
pub(super) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::new(since.as_secs() as i64, since.subsec_nanos())
}
