//! The event loop: one thread that owns the core and serves pmcd, direct clients, wake-ups, signals and a
//! periodic task.
//!
//! **Invariant:** the loop waits in one place only, for the system to tell that something can be done; it
//! sleeps for as long as nothing is to be done, and nobody can make it wait for them.

mod clients;
mod io;
mod listen;
mod pmcd;
mod signals;

pub use clients::Limits;
pub use listen::Listen;
pub use pmcd::Transport;

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use nix::sys::signal::Signal;

use super::{BuildError, Core, DirectConnection, Endpoint, HostInfo, PmcdOptions};
use crate::model::PmError;
use crate::pdu::ResultWriter;
use clients::{Clients, Gone};
use io::{Channel, Closed, Line, Rest};
use listen::{Listener, Peer};
use pmcd::PmcdLine;
use signals::Signals;

const WAKE: Token = Token(0);
const SIGNALS: Token = Token(1);
const PMCD_LISTENER: Token = Token(2);
const PMCD_INPUT: Token = Token(3);
const PMCD_OUTPUT: Token = Token(4);
/// Tokens of listeners, then those of clients.
const LISTENERS: usize = 16;
const CLIENTS: usize = 1024;
/// What is read at a time.
const READ: usize = 1 << 16;
/// Longest answer.
const MAX_RESULT: usize = 64 << 20;
/// Memory for answers that is kept between requests.
const KEEP_RESULT: usize = 1 << 20;

/// What went wrong with a server as a whole.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Listening on an address.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The line to pmcd could not be opened.
    #[error("cannot talk to pmcd: {0}")]
    Pmcd(std::io::Error),
    /// The line to pmcd broke.
    #[error("IPC Error: {0}")]
    PmcdBroken(String),
    /// Too many addresses.
    #[error("at most {} addresses can be listened on", CLIENTS - LISTENERS)]
    Addresses,
    /// The endpoint could not be made.
    #[error(transparent)]
    Endpoint(#[from] BuildError),
    /// The system refused something else.
    #[error("event loop: {0}")]
    System(#[from] std::io::Error),
}

/// Why a server has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// pmcd has closed its line.
    PmcdGone,
    /// SIGTERM or SIGINT.
    Signal(i32),
    /// [`Handle::stop`].
    Stopped,
}

/// Numbers about a server, for its agent's own metrics. Each only grows but `clients` and `contexts`.
#[derive(Debug, Default)]
pub struct Stats {
    /// Direct clients that are connected.
    pub clients: AtomicU64,
    /// Direct clients taken in so far.
    pub accepted: AtomicU64,
    /// Direct clients turned away because there were too many.
    pub refused: AtomicU64,
    /// Direct clients dropped because they were too slow.
    pub slow: AtomicU64,
    /// Direct clients dropped because they broke the protocol.
    pub broken: AtomicU64,
    /// Times the loop woke up.
    pub wakeups: AtomicU64,
    /// Nanoseconds that the loop did not sleep.
    pub busy_nanos: AtomicU64,
    /// PDUs that have come, from pmcd and from direct clients.
    pub requests: AtomicU64,
    /// Nanoseconds it took to answer them, writing the answers included.
    pub request_nanos: AtomicU64,
    /// Nanoseconds the longest of them took.
    pub longest_nanos: AtomicU64,
    /// Client contexts that the core knows.
    pub contexts: AtomicU64,
}

impl Stats {
    /// Counts requests that took so long together.
    fn answered(&self, requests: u64, took: Duration) {
        if requests > 0 {
            let nanos = took.as_nanos() as u64;
            self.requests.fetch_add(requests, Ordering::Relaxed);
            self.request_nanos.fetch_add(nanos, Ordering::Relaxed);
            self.longest_nanos.fetch_max(nanos / requests, Ordering::Relaxed);
        }
    }
}

/// Reaches a server from other threads.
#[derive(Clone, Debug)]
pub struct Handle {
    waker: Arc<mio::Waker>,
    stop: Arc<AtomicBool>,
}

impl Handle {
    /// Makes the loop call its wake hook soon. Calls that come before it has done so are one.
    pub fn wake(&self) {
        if let Err(error) = self.waker.wake() {
            tracing::error!(%error, "cannot wake the event loop");
        }
    }

    /// Ends the loop.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.wake();
    }
}

type Hook<S> = Box<dyn FnMut(&mut S)>;
type ReadyFn<S> = Box<dyn Fn(&S) -> bool>;

/// The event loop around a [`Core`].
pub struct Server<S> {
    core: Core<S>,
    endpoint: Option<Endpoint>,
    poll: Poll,
    handle: Handle,
    stats: Arc<Stats>,
    pmcd: Option<PmcdLine>,
    listeners: Vec<Listener>,
    clients: Clients,
    /// Clients that have more to do than one turn.
    busy: Vec<usize>,
    signals: Option<Signals>,
    on_wake: Option<Hook<S>>,
    on_reload: Option<Hook<S>>,
    tick: Option<(Duration, Instant, Hook<S>)>,
    ready: Option<ReadyFn<S>>,
    is_ready: Option<bool>,
    results: ResultWriter,
    scratch: Vec<u8>,
}

impl<S> Server<S> {
    /// A server that serves nobody yet.
    ///
    /// # Errors
    /// What the system says when the event queue is made.
    pub fn new(core: Core<S>) -> Result<Server<S>, ServeError> {
        let poll = Poll::new()?;
        let waker = Arc::new(mio::Waker::new(poll.registry(), WAKE)?);
        Ok(Server {
            core,
            endpoint: None,
            poll,
            handle: Handle { waker, stop: Arc::new(AtomicBool::new(false)) },
            stats: Arc::default(),
            pmcd: None,
            listeners: Vec::new(),
            clients: Clients::default(),
            busy: Vec::new(),
            signals: None,
            on_wake: None,
            on_reload: None,
            tick: None,
            ready: None,
            is_ready: None,
            results: ResultWriter::new(MAX_RESULT),
            scratch: vec![0; READ],
        })
    }

    /// The core, and with it the agent's state.
    pub fn core(&mut self) -> &mut Core<S> {
        &mut self.core
    }

    /// For other threads.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Numbers about this server.
    pub fn stats(&self) -> Arc<Stats> {
        self.stats.clone()
    }

    /// Sets what direct clients may cost.
    pub fn set_limits(&mut self, limits: Limits) {
        self.clients.limits = limits;
    }

    /// Sets what is called after [`Handle::wake`].
    pub fn on_wake(&mut self, hook: impl FnMut(&mut S) + 'static) {
        self.on_wake = Some(Box::new(hook));
    }

    /// Sets what is called upon SIGHUP.
    pub fn on_reload(&mut self, hook: impl FnMut(&mut S) + 'static) {
        self.on_reload = Some(Box::new(hook));
    }

    /// Sets what is called every `period`.
    pub fn every(&mut self, period: Duration, hook: impl FnMut(&mut S) + 'static) {
        self.tick = Some((period, Instant::now() + period, Box::new(hook)));
    }

    /// Sets what tells whether requests from pmcd can be answered; asked after each hook. Without it the agent
    /// is ready from the start.
    pub fn ready_when(&mut self, ready: impl Fn(&S) -> bool + 'static) {
        self.ready = Some(Box::new(ready));
    }

    /// Handles SIGTERM and SIGINT (end), and SIGHUP (reload). Call it before starting other threads: they
    /// inherit that these signals are for the loop.
    ///
    /// # Errors
    /// What the system says.
    pub fn handle_signals(&mut self) -> Result<(), ServeError> {
        let signals = Signals::new()?;
        self.watch(signals.fd(), SIGNALS, Interest::READABLE)?;
        self.signals = Some(signals);
        Ok(())
    }

    /// Serves pmcd. With a socket the first to connect is pmcd. When pmcd goes away, [`Server::run`] ends, as
    /// the C agents do; with `stay` (sockets only) the agent waits for the next one to connect instead.
    ///
    /// # Errors
    /// [`ServeError::Listen`], [`ServeError::Pmcd`].
    pub fn serve_pmcd(
        &mut self,
        transport: &Transport,
        options: PmcdOptions,
        stay: bool,
    ) -> Result<(), ServeError> {
        let mut pmcd = PmcdLine::open(transport, options, stay).map_err(ServeError::Pmcd)?;
        if let Some(listener) = pmcd.listener() {
            self.watch(listener.fd(), PMCD_LISTENER, Interest::READABLE)?;
        }
        if let Some(line) = pmcd.line() {
            line.watch(self.poll.registry(), PMCD_INPUT)?;
            line.watch_output(self.poll.registry(), PMCD_INPUT, PMCD_OUTPUT)?;
        }
        self.pmcd = Some(pmcd);
        Ok(())
    }

    /// Serves PMAPI clients directly. Gives the address with the port the system has chosen for port 0.
    ///
    /// # Errors
    /// [`ServeError::Listen`]; [`ServeError::Endpoint`] for an agent with domain 2.
    pub fn listen(&mut self, address: &Listen) -> Result<Listen, ServeError> {
        let fail = |source| ServeError::Listen { address: address.to_string(), source };
        let index = self.listeners.len();
        if index >= CLIENTS - LISTENERS {
            return Err(ServeError::Addresses);
        }
        let local = match address {
            Listen::Tcp(address) => address.ip().is_loopback(),
            Listen::Unix { .. } => true,
        };
        match &mut self.endpoint {
            None => {
                let host = HostInfo { local, ..HostInfo::of_this_host() };
                self.endpoint = Some(Endpoint::new(&self.core, host)?);
            }
            Some(endpoint) => endpoint.restrict(local),
        }
        let listener = Listener::bind(address).map_err(fail)?;
        self.watch(listener.fd(), Token(LISTENERS + index), Interest::READABLE)?;
        let address = listener.address().clone();
        self.listeners.push(listener);
        Ok(address)
    }

    /// Serves until pmcd goes away, a signal comes, or [`Handle::stop`] is called.
    ///
    /// # Errors
    /// [`ServeError::PmcdBroken`] when the line to pmcd breaks, [`ServeError::System`].
    pub fn run(&mut self) -> Result<Exit, ServeError> {
        let exit = self.serve();
        if let Some(pmcd) = &mut self.pmcd {
            pmcd.close(&mut self.core);
        }
        if let Some(endpoint) = &mut self.endpoint {
            self.clients.clear(&mut self.core, endpoint);
        }
        exit
    }

    fn serve(&mut self) -> Result<Exit, ServeError> {
        let mut events = Events::with_capacity(256);
        self.check_ready()?;
        loop {
            let timeout = self.timeout();
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                polled => polled?,
            }
            let woken = Instant::now();
            self.stats.wakeups.fetch_add(1, Ordering::Relaxed);
            for place in std::mem::take(&mut self.busy) {
                self.drive_client(place)?;
            }
            for event in &events {
                match event.token() {
                    WAKE => {
                        if self.handle.stop.load(Ordering::Acquire) {
                            return Ok(Exit::Stopped);
                        }
                        if let Some(hook) = &mut self.on_wake {
                            hook(&mut self.core.state);
                            self.check_ready()?;
                        }
                    }
                    SIGNALS => {
                        if let Some(exit) = self.take_signals()? {
                            return Ok(exit);
                        }
                    }
                    PMCD_LISTENER => {
                        // The pmcd before this one may have gone in the same moment: it must be known first.
                        if let Some(line) = self.pmcd.as_mut().and_then(PmcdLine::line) {
                            line.look_for_end();
                            if let Some(exit) = self.drive_pmcd()? {
                                return Ok(exit);
                            }
                        }
                        self.accept_pmcd()?;
                    }
                    PMCD_INPUT | PMCD_OUTPUT => {
                        if let Some(line) = self.pmcd.as_mut().and_then(PmcdLine::line) {
                            line.told(event);
                        }
                        if let Some(exit) = self.drive_pmcd()? {
                            return Ok(exit);
                        }
                    }
                    Token(token) if token < CLIENTS => self.accept_clients(token - LISTENERS)?,
                    Token(token) => {
                        if let Some(line) = self.clients.line(token - CLIENTS) {
                            line.told(event);
                        }
                        self.drive_client(token - CLIENTS)?;
                    }
                }
            }
            self.run_timers()?;
            self.stats.contexts.store(self.core.clients() as u64, Ordering::Relaxed);
            self.stats.busy_nanos.fetch_add(woken.elapsed().as_nanos() as u64, Ordering::Relaxed);
            self.results.shrink_to(KEEP_RESULT);
        }
    }

    /// How long there is nothing to do but wait.
    fn timeout(&self) -> Option<Duration> {
        if !self.busy.is_empty() {
            return Some(Duration::ZERO);
        }
        let tick = self.tick.as_ref().map(|(_, next, _)| *next);
        let check = self.pmcd.as_ref().and_then(PmcdLine::next_check);
        let next = [tick, check, self.clients.next_due()].into_iter().flatten().min()?;
        // One more millisecond: the system's clock of waits is coarser than ours.
        Some(next.saturating_duration_since(Instant::now()) + Duration::from_millis(1))
    }

    fn run_timers(&mut self) -> Result<(), ServeError> {
        let now = Instant::now();
        if let Some((period, next, hook)) = &mut self.tick
            && *next <= now
        {
            // Ticks that were missed are not made up for.
            *next = now + *period;
            hook(&mut self.core.state);
            self.check_ready()?;
        }
        if let Some(pmcd) = &mut self.pmcd
            && pmcd.next_check().is_some_and(|check| check <= now)
            && pmcd.check_socket().map_err(ServeError::Pmcd)?
            && let Some(listener) = pmcd.listener()
        {
            let fd = listener.fd();
            self.watch(fd, PMCD_LISTENER, Interest::READABLE)?;
        }
        if self.clients.next_due().is_some_and(|due| due <= now)
            && let Some(endpoint) = &mut self.endpoint
        {
            let late = self.clients.drop_late(&mut self.core, endpoint);
            self.stats.slow.fetch_add(late, Ordering::Relaxed);
            self.count_clients();
        }
        Ok(())
    }

    fn take_signals(&mut self) -> Result<Option<Exit>, ServeError> {
        while let Some(signal) = self.signals.as_mut().and_then(Signals::next) {
            match signal {
                Signal::SIGHUP => {
                    if let Some(hook) = &mut self.on_reload {
                        hook(&mut self.core.state);
                    }
                    self.check_ready()?;
                }
                signal => return Ok(Some(Exit::Signal(signal as i32))),
            }
        }
        Ok(None)
    }

    fn check_ready(&mut self) -> Result<(), ServeError> {
        let Some(ready) = &self.ready else { return Ok(()) };
        let ready = ready(&self.core.state);
        if self.is_ready != Some(ready)
            && let Some(pmcd) = &mut self.pmcd
        {
            // A line that breaks here is noticed when it is driven.
            let _ = pmcd.set_ready(&mut self.core, ready);
            if let Some(line) = pmcd.line() {
                line.watch_output(self.poll.registry(), PMCD_INPUT, PMCD_OUTPUT)?;
            }
        }
        self.is_ready = Some(ready);
        Ok(())
    }

    fn accept_pmcd(&mut self) -> Result<(), ServeError> {
        let Some(pmcd) = &mut self.pmcd else { return Ok(()) };
        match pmcd.accept() {
            Ok(false) => return Ok(()),
            Ok(true) => {}
            Err(error) => {
                tracing::warn!(%error, "connection from pmcd lost before it began");
                return Ok(());
            }
        }
        if let Some(line) = pmcd.line() {
            line.watch(self.poll.registry(), PMCD_INPUT)?;
            line.watch_output(self.poll.registry(), PMCD_INPUT, PMCD_OUTPUT)?;
        }
        self.is_ready = None;
        self.check_ready()
    }

    fn drive_pmcd(&mut self) -> Result<Option<Exit>, ServeError> {
        let Some(pmcd) = &mut self.pmcd else { return Ok(None) };
        let closed = loop {
            match pmcd.drive(&mut self.core, &mut self.results, &mut self.scratch, &self.stats) {
                Ok(Rest::Wait) => {
                    if let Some(line) = pmcd.line() {
                        line.watch_output(self.poll.registry(), PMCD_INPUT, PMCD_OUTPUT)?;
                    }
                    return Ok(None);
                }
                // pmcd goes before everybody else.
                Ok(Rest::More) => {}
                Err(closed) => break closed,
            }
        };
        let broken = match &closed {
            Closed::Eof => None,
            Closed::Io(error) if error.kind() == std::io::ErrorKind::BrokenPipe => None,
            Closed::Io(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            other => Some(other.to_string()),
        };
        let listens = pmcd.lost(&mut self.core).map_err(ServeError::Pmcd)?;
        match (listens, broken) {
            (true, reason) => {
                tracing::info!(reason, "pmcd has gone: waiting for it to connect again");
                Ok(None)
            }
            (false, None) => Ok(Some(Exit::PmcdGone)),
            (false, Some(reason)) => Err(ServeError::PmcdBroken(reason)),
        }
    }

    fn accept_clients(&mut self, index: usize) -> Result<(), ServeError> {
        loop {
            let Some(listener) = self.listeners.get(index) else { return Ok(()) };
            match listener.accept() {
                Ok(None) => return Ok(()),
                Ok(Some(peer)) => self.add_client(peer)?,
                Err(error) => {
                    // No descriptors left, most likely. The listener tells again with the next connection.
                    tracing::warn!(%error, "cannot accept a client");
                    return Ok(());
                }
            }
        }
    }

    fn add_client(&mut self, peer: Peer) -> Result<(), ServeError> {
        let Some(endpoint) = &mut self.endpoint else { return Ok(()) };
        if self.clients.len() >= self.clients.limits.clients {
            self.stats.refused.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(client = peer.address, "turned away: too many clients");
            // As much as the socket takes at once; then it is closed.
            let refuse =
                |channel| Line::new(channel).say(|out| DirectConnection::refuse(PmError::CONNLIMIT, out));
            let _ = Channel::socket(peer.socket).map(refuse);
            return Ok(());
        }
        let start = super::time::ctime(std::time::SystemTime::now());
        let place = match self.clients.add(peer, &mut self.core, endpoint, &start) {
            Ok(place) => place,
            Err(_) => return Ok(()),
        };
        self.stats.accepted.fetch_add(1, Ordering::Relaxed);
        self.count_clients();
        if let Some(line) = self.clients.line(place) {
            line.watch(self.poll.registry(), Token(CLIENTS + place))?;
            line.watch_output(self.poll.registry(), Token(CLIENTS + place), Token(CLIENTS + place))?;
        }
        Ok(())
    }

    fn drive_client(&mut self, place: usize) -> Result<(), ServeError> {
        let Some(endpoint) = &mut self.endpoint else { return Ok(()) };
        let (core, results, scratch) = (&mut self.core, &mut self.results, &mut self.scratch);
        let gone = match self.clients.drive(place, core, endpoint, results, scratch, &self.stats) {
            Ok(Rest::Wait) => {
                if let Some(line) = self.clients.line(place) {
                    line.watch_output(self.poll.registry(), Token(CLIENTS + place), Token(CLIENTS + place))?;
                }
                return Ok(());
            }
            Ok(Rest::More) => {
                self.busy.push(place);
                return Ok(());
            }
            Err(gone) => gone,
        };
        match gone {
            Gone::Left => {}
            Gone::Broken => drop(self.stats.broken.fetch_add(1, Ordering::Relaxed)),
            Gone::Slow => drop(self.stats.slow.fetch_add(1, Ordering::Relaxed)),
        }
        self.count_clients();
        Ok(())
    }

    fn count_clients(&self) {
        self.stats.clients.store(self.clients.len() as u64, Ordering::Relaxed);
    }

    fn watch(&self, fd: RawFd, token: Token, interest: Interest) -> Result<(), ServeError> {
        Ok(self.poll.registry().register(&mut SourceFd(&fd), token, interest)?)
    }
}
