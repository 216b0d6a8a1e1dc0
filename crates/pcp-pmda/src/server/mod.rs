//! The event loop: one thread that owns the core and serves pmcd, direct clients, wake-ups, signals and a
//! periodic task.
//!
//! **Invariant:** the loop waits in one place only, for the system to tell that something can be done; it
//! sleeps for as long as nothing is to be done, and nobody can make it wait for them.

mod clients;
mod io;
mod listen;
mod logins;
mod pmcd;
mod run;
mod secure;
mod security;
mod signals;

pub use clients::Limits;
pub use listen::Listen;
pub use pmcd::Transport;
pub use security::Security;

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use mio::unix::SourceFd;
use mio::{Interest, Poll, Token};

use super::{BuildError, Core, Endpoint, HostInfo, PmcdOptions};
use clients::Clients;
use listen::Listener;
use logins::Logins;
use pcp_net::{Certificate, Kept};
use pcp_pdu::ResultWriter;
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
/// Longest answer: a bound on the work for one request as well. This much of small values takes some 40 ms, and everybody else
/// waits meanwhile.
const MAX_RESULT: usize = 16 << 20;
/// Memory for answers that is kept between requests.
const KEEP_RESULT: usize = 1 << 20;

/// What went wrong with a server as a whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
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
    /// Direct clients dropped because they asked for nothing and others waited for a place.
    pub idle: AtomicU64,
    /// Direct clients dropped because they broke the protocol.
    pub broken: AtomicU64,
    /// Direct clients that have begun TLS and agreed on it.
    pub encrypted: AtomicU64,
    /// Direct clients dropped because they began TLS and did not keep to it, or were not trusted.
    pub tls_failed: AtomicU64,
    /// Direct clients that have logged in.
    pub logins: AtomicU64,
    /// Direct clients that are refused everything: for want of TLS, of a password that is right, or of a grant.
    pub denied: AtomicU64,
    /// Times the loop woke up.
    pub wakeups: AtomicU64,
    /// Nanoseconds that the loop did not sleep.
    pub busy_nanos: AtomicU64,
    /// Nanoseconds of the longest round of the loop: how long somebody may have had to wait for others.
    pub longest_round_nanos: AtomicU64,
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
    /// It was used, and the loop has not begun to do what it is woken for.
    is_woken: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    door: Sender<UnixStream>,
    fresh: Arc<Mutex<Option<Fresh>>>,
}

/// Another certificate, or none, and whether clients over TCP have to begin TLS.
type Fresh = (Option<Certificate>, bool);

impl Handle {
    /// Makes the loop call its wake hook soon. Calls that come before it has done so are one.
    pub fn wake(&self) {
        // What was done before this is seen by the loop then, which has yet to look.
        if self.is_woken.swap(true, Ordering::AcqRel) {
            return;
        }
        while let Err(error) = self.waker.wake() {
            if error.kind() != ErrorKind::Interrupted {
                tracing::error!(%error, "cannot wake the event loop");
                self.is_woken.store(false, Ordering::Release);
                return;
            }
        }
    }

    /// A connection of a direct client from within this program. The server speaks first, as it does to any
    /// client, as soon as it runs.
    ///
    /// # Errors
    /// The server is gone, or the system has no more sockets.
    pub fn connect(&self) -> std::io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        let gone = |_| std::io::Error::new(ErrorKind::NotConnected, "the agent in this program has ended");
        self.door.send(theirs).map_err(gone)?;
        self.wake();
        Ok(ours)
    }

    /// Has direct clients that connect from now on find this certificate, or none, and whether they have to begin TLS over
    /// TCP. Those who are connected go on as they are.
    pub fn set_certificate(&self, certificate: Option<Certificate>, required: bool) {
        *self.fresh.lock().unwrap_or_else(PoisonError::into_inner) = Some((certificate, required));
        self.wake();
    }

    /// Ends the loop.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.wake();
    }
}

type Hook<S> = Box<dyn FnMut(&mut S)>;
type CoreHook<S> = Box<dyn FnMut(&mut Core<S>)>;
type ReadyFn<S> = Box<dyn Fn(&S) -> bool>;
type PeriodFn<S> = Box<dyn Fn(&S) -> Option<Duration>>;

/// What is done now and then.
struct Tick<S> {
    /// How often, for now.
    period: PeriodFn<S>,
    /// When it was done last, or would have been.
    last: Instant,
    hook: CoreHook<S>,
}

impl<S> Tick<S> {
    /// When it is to be done next.
    fn due(&self, state: &S) -> Option<Instant> {
        self.last.checked_add((self.period)(state)?)
    }
}

/// The event loop around a [`Core`].
pub struct Server<S> {
    core: Core<S>,
    endpoint: Option<Endpoint>,
    poll: Poll,
    handle: Handle,
    stats: Arc<Stats>,
    pmcd: Option<PmcdLine>,
    listeners: Vec<Listener>,
    /// Where clients within this program come in.
    inside: Receiver<UnixStream>,
    clients: Clients,
    security: Security,
    logins: Option<Logins>,
    /// Clients that have something to do, each once, in the order of their turns.
    busy: VecDeque<usize>,
    /// pmcd has, too.
    pmcd_busy: bool,
    /// When to look for connections that the system will not tell of once more.
    accept_again: Option<Instant>,
    signals: Option<Signals>,
    on_wake: Option<CoreHook<S>>,
    on_reload: Option<Hook<S>>,
    tick: Option<Tick<S>>,
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
        let (door, inside) = crossbeam_channel::unbounded();
        Ok(Server {
            core,
            endpoint: None,
            poll,
            handle: Handle {
                waker,
                is_woken: Arc::default(),
                stop: Arc::default(),
                door,
                fresh: Arc::default(),
            },
            stats: Arc::default(),
            pmcd: None,
            listeners: Vec::new(),
            inside,
            clients: Clients::default(),
            security: Security::default(),
            logins: None,
            busy: VecDeque::new(),
            pmcd_busy: false,
            accept_again: None,
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

    /// Sets what direct clients may prove, or have to. Call it before [`Server::listen`].
    ///
    /// # Errors
    /// The system has no room for the thread that looks at passwords.
    pub fn secure(&mut self, security: Security) -> Result<(), ServeError> {
        self.logins = match &security.passwords {
            Some(passwords) => Some(Logins::start(passwords.clone(), self.handle())?),
            None => None,
        };
        self.security = security;
        Ok(())
    }

    /// Sets what is called after [`Handle::wake`].
    pub fn on_wake(&mut self, hook: impl FnMut(&mut Core<S>) + 'static) {
        self.on_wake = Some(Box::new(hook));
    }

    /// Sets what is called upon SIGHUP.
    pub fn on_reload(&mut self, hook: impl FnMut(&mut S) + 'static) {
        self.on_reload = Some(Box::new(hook));
    }

    /// Sets what is called every `period`.
    pub fn every(&mut self, period: Duration, mut hook: impl FnMut(&mut S) + 'static) {
        self.at_intervals(move |_| Some(period), move |core| hook(&mut core.state));
    }

    /// Sets what is called at intervals, in place of [`Server::every`]. `period` says how long they are, as of now, or that
    /// nothing is to be done.
    pub fn at_intervals(
        &mut self,
        period: impl Fn(&S) -> Option<Duration> + 'static,
        hook: impl FnMut(&mut Core<S>) + 'static,
    ) {
        self.tick = Some(Tick { period: Box::new(period), last: Instant::now(), hook: Box::new(hook) });
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
        let mut pmcd = PmcdLine::open(transport, options, stay, &mut self.core).map_err(ServeError::Pmcd)?;
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
        self.listen_kept(address, &Kept::default())
    }

    /// The same with a listener that outlives the process.
    ///
    /// # Errors
    /// As [`Server::listen`].
    pub fn listen_kept(&mut self, address: &Listen, kept: &Kept) -> Result<Listen, ServeError> {
        let fail = |source| ServeError::Listen { address: address.to_string(), source };
        let index = self.listeners.len();
        if index >= CLIENTS - LISTENERS {
            return Err(ServeError::Addresses);
        }
        let local = match address {
            Listen::Tcp(address) => address.ip().is_loopback(),
            Listen::Unix { .. } => true,
        };
        self.open_endpoint(local)?;
        let listener = Listener::bind(address, kept).map_err(fail)?;
        self.watch(listener.fd(), Token(LISTENERS + index), Interest::READABLE)?;
        let address = listener.address().clone();
        self.listeners.push(listener);
        Ok(address)
    }

    /// Has what direct clients need besides the agent.
    fn open_endpoint(&mut self, local: bool) -> Result<(), BuildError> {
        match &mut self.endpoint {
            None => {
                let host = HostInfo { local, ..HostInfo::of_this_host() };
                let mut endpoint = Endpoint::new(&self.core, host)?;
                endpoint.offers(self.security.certificate.is_some(), self.security.passwords.is_some());
                self.endpoint = Some(endpoint);
            }
            Some(endpoint) => endpoint.restrict(local),
        }
        Ok(())
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

    fn watch(&self, fd: RawFd, token: Token, interest: Interest) -> Result<(), ServeError> {
        Ok(self.poll.registry().register(&mut SourceFd(&fd), token, interest)?)
    }
}
