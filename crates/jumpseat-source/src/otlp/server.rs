//! The thread that listens, for OTLP over HTTP and over gRPC: one small runtime of tokio, whose tasks are the
//! connections. hyper speaks the protocols; [`super::http`] and [`super::grpc`] say what is answered.
//!
//! Nobody can hold a place for free: connections, requests at the same time and their memory are bounded, and
//! requests that take too long, and connections that ask for nothing, are closed.
//!
//! **Cost:** tasks take turns where they wait for the network; decoding a request is one turn. What a turn has made is
//! handed over when all others that were ready have had theirs, so that many small requests are one delivery. Against an
//! HTTP server written for this alone, in the same run of `benches/otlp.rs`: 6 % less (plain), 2 % less (gzip).

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use pcp_model::Timestamp;
use pcp_net::{Limiter, Worker, listen_tcp};
use slab::Slab;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};

use super::answer::{self, Code};
use super::config::OtlpConfig;
use super::intake::{Intake, Refused};
use super::stats::OtlpStats;
use super::{grpc, http};
use crate::delivery::Reason;
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
        let (mut ports, mut addresses) = (Vec::new(), Vec::new());
        for (protocol, address) in [(Protocol::Http, &config.listen), (Protocol::Grpc, &config.grpc)] {
            let Some(address) = address else { continue };
            let intake =
                Intake::new(config, outlet, stats, address).map_err(StartError::source(&config.source))?;
            let listeners = listen_tcp(address)
                .map_err(|error| StartError::Address { address: address.clone(), error })?;
            for listener in &listeners {
                addresses.push(listener.local_addr().map_err(&system)?);
            }
            ports.push((Port::new(protocol, config, intake, stats), listeners));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(&system)?;
        let control = Arc::new(Control::default());
        let of_thread = Arc::clone(&control);
        let run = move || {
            let local = LocalSet::new();
            let ports = local.block_on(&runtime, serve(ports, &of_thread));
            // Connections end before the last flush: what they have written so far is not lost because of the stop.
            drop(local);
            for port in ports {
                port.intake.borrow_mut().decoder.lanes.flush();
            }
        };
        let tell = move || {
            control.stop.store(true, Ordering::Relaxed);
            control.stir.notify_one();
            true
        };
        let worker = Worker::spawn("jumpseat-otlp", tell, run).map_err(&system)?;
        Ok(OtlpSource { _worker: worker, addresses })
    }
}

/// How the thread is told to look after things.
#[derive(Debug, Default)]
pub(super) struct Control {
    stop: AtomicBool,
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
    /// Counters.
    pub stats: Arc<OtlpStats>,
    /// Memory of requests that are not complete.
    pub held: Cell<usize>,
    /// The connections, by their number in the lanes.
    open: RefCell<Slab<()>>,
    /// A flush is under way.
    flushes: Cell<bool>,
    report: RefCell<Limiter>,
}

impl Port {
    fn new(protocol: Protocol, config: &OtlpConfig, intake: Intake, stats: &Arc<OtlpStats>) -> Port {
        Port {
            protocol,
            config: config.clone(),
            intake: RefCell::new(intake),
            stats: Arc::clone(stats),
            held: Cell::new(0),
            open: RefCell::new(Slab::new()),
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
        !self.open.borrow().is_empty() || self.intake.borrow().decoder.lanes.is_pending()
    }

    fn is_closed(&self) -> bool {
        self.intake.borrow().decoder.lanes.is_closed()
    }

    /// Tells a client beyond the limit to come again.
    fn turn_away(&self, stream: &TcpStream, peer: SocketAddr, open: usize) {
        add(&self.stats.turned_away, 1);
        if self.protocol == Protocol::Grpc {
            // What it would understand takes a handshake.
            let text = "a gRPC connection was turned away: too many";
            return self.intake.borrow_mut().warn(peer, Reason::Protocol, text);
        }
        let message = answer::status(Code::Unavailable, http::Format::Protobuf, "too many connections");
        let mut bytes = Vec::new();
        answer::response(&mut bytes, 503, http::Format::Protobuf, &message, true);
        // As much as the socket takes at once; then it is closed.
        let _ = stream.try_write(&bytes);
        if let Some(held_back) = self.report.borrow_mut().allow(Instant::now()) {
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

/// Serves until it is to stop, or the core has gone.
async fn serve(ports: Vec<(Port, Vec<std::net::TcpListener>)>, control: &Arc<Control>) -> Vec<Rc<Port>> {
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
    all
}

async fn accept(port: Rc<Port>, listener: TcpListener, control: Arc<Control>) {
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
    let open = port.open.borrow().len();
    if open >= port.config.max_connections {
        return port.turn_away(&stream, peer, open);
    }
    // Answers are short and wanted at once.
    let _ = stream.set_nodelay(true);
    let place = Place::new(port);
    spawn_local(async move {
        let (port, conn) = (&place.port, place.conn);
        match port.protocol {
            Protocol::Http => http::serve(port, stream, peer, conn).await,
            Protocol::Grpc => grpc::serve(port, stream, peer, conn).await,
        }
    });
}

/// A connection's place among all. Dropping it frees the place, however the connection has ended.
struct Place {
    port: Rc<Port>,
    conn: u32,
}

impl Place {
    fn new(port: &Rc<Port>) -> Place {
        // There are at most as many as the configuration allows.
        let conn = port.open.borrow_mut().insert(()) as u32;
        add(&port.stats.connections, 1);
        Place { port: Rc::clone(port), conn }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let lanes = &mut self.port.intake.borrow_mut().decoder.lanes;
        // Its last records must have left before another connection can get its number.
        lanes.flush();
        lanes.forget(self.conn);
        self.port.open.borrow_mut().try_remove(self.conn as usize);
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
