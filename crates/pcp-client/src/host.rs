//! Contexts on a host's collector: which addresses are tried, in which order, and how (spec `fetchgroup.md` 21).
//!
//! ```text
//! specification, options --> attempts: (address, pmcd behind a proxy?), ... --> socket [--> proxy] --> handshake
//! ```
//! An attempt that does not get as far as a collector that answers is followed by the next one. What a
//! collector refuses is not asked of others.

use std::collections::VecDeque;
use std::io;
use std::net::ToSocketAddrs;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::libc;

use super::context::Context;
use super::error::{ClientError, Result};
use super::handshake::{Handshake, HandshakeConfig};
use super::line::Line;
use super::options::HostOptions;
use super::provider::ContextKind;
use super::registry::global_registry;
use super::socket::{Address, Pause, Socket};
use super::spec::{HostPorts, HostSpec, Place, Security, is_container_name};
use super::waiting::{Interest, Waiting};
use super::wire::{Connecting, Connector, WireProvider};
use tracing::trace;

use pcp_model::PmError;
use pcp_model::text::listed;
use pcp_pdu::Features;

/// How long to wait for one's turn at a Unix socket before asking again.
const QUEUE_PAUSE: Duration = Duration::from_millis(10);
/// Addresses of a host that are shown.
const ADDRESSES: usize = 8;
const PROXY_HELLO: &[u8] = b"pmproxy-client 1\n";
const PROXY_ANSWER: &str = "pmproxy-server 1";

impl Context {
    /// A context on the collector of a host (`pmNewContext(3)`), with the options of the environment. What the
    /// environment says wrongly is ignored; [`HostOptions::from_env`] tells.
    ///
    /// # Errors
    /// Why it cannot be reached.
    pub fn host(spec: &str) -> Result<Context> {
        Context::host_with(&spec.parse()?, &HostOptions::from_env().0)
    }

    /// As [`Context::host`], with options.
    ///
    /// # Errors
    /// Why it cannot be reached.
    pub fn host_with(spec: &HostSpec, options: &HostOptions) -> Result<Context> {
        let mut context = Context::host_unconnected(spec, options)?;
        context.reconnect()?;
        Ok(context)
    }

    /// A context on the collector of a host that is not connected yet, for programs that have many:
    /// [`Context::start_reconnect`] and [`Context::advance`] connect it without waiting. (Names of hosts are
    /// looked up by `start_reconnect`, which may take time. Addresses need not be.)
    ///
    /// # Errors
    /// `-EINVAL` for a bad container name in the options.
    pub fn host_unconnected(spec: &HostSpec, options: &HostOptions) -> Result<Context> {
        let host = Host::new(spec, options)?;
        Ok(Context::new(Box::new(WireProvider::new(Box::new(host))), global_registry()))
    }
}

/// A host, and how to connect to it.
struct Host {
    place: Place,
    options: HostOptions,
    config: HandshakeConfig,
}

impl Host {
    fn new(spec: &HostSpec, options: &HostOptions) -> Result<Host> {
        let mut attributes = spec.attributes.clone();
        if attributes.container.is_none() && options.container.is_some() {
            attributes.container = options.container.clone().filter(|name| is_container_name(name));
            if attributes.container.is_none() {
                return Err(PmError::from_errno(libc::EINVAL).into());
            }
        }
        let security = match spec.security {
            Security::Plain => options.security,
            security => security,
        };
        let config = HandshakeConfig {
            security,
            attributes,
            limit: options.request_timeout,
            tls_config: options.tls_config.clone(),
            ..HandshakeConfig::default()
        };
        Ok(Host { place: spec.place.clone(), options: options.clone(), config })
    }

    /// Every attempt to be made, in turn.
    fn attempts(&self) -> (VecDeque<Attempt>, Option<ClientError>) {
        let mut attempts = Attempts { options: &self.options, queue: VecDeque::new(), error: None };
        match &self.place {
            Place::Socket { path, or_localhost } => {
                let path = path.as_ref().unwrap_or(&self.options.socket);
                attempts.add(Address::Unix(path.clone()), 1, "localhost", None);
                if *or_localhost {
                    attempts.direct(&HostPorts { host: "localhost".to_owned(), ports: Vec::new() });
                }
            }
            Place::Inet { host, proxy } => match (proxy, &self.options.proxy) {
                (Some(proxy), _) => attempts.proxied(host, &proxy.host, proxy.ports.first().copied()),
                (None, Some(proxy)) => attempts.proxied(host, proxy, None),
                (None, None) => attempts.direct(host),
            },
        }
        (attempts.queue, attempts.error)
    }
}

impl Connector for Host {
    fn kind(&self) -> ContextKind {
        ContextKind::Host
    }

    fn options(&self) -> &HostOptions {
        &self.options
    }

    fn host_name(&self) -> String {
        match &self.place {
            Place::Inet { host, .. } => host.host.clone(),
            Place::Socket { .. } => this_host(),
        }
    }

    fn start(&mut self) -> Result<Box<dyn Connecting>> {
        let (attempts, error) = self.attempts();
        trace!(target: "pcp::context", "{}", told(&self.place, &attempts, error.as_ref()));
        let mut connecting =
            HostConnecting { attempts, config: self.config.clone(), stage: Stage::Idle, error };
        connecting.next()?;
        Ok(Box::new(connecting))
    }
}

/// A connection that begins, in words.
fn told(place: &Place, attempts: &VecDeque<Attempt>, error: Option<&ClientError>) -> String {
    let addresses = listed(attempts.iter().map(|attempt| format!("{},", attempt.address)), ADDRESSES);
    let error = error.map(|error| format!(" ({error})")).unwrap_or_default();
    let place = match place {
        Place::Socket { path: None, .. } => "this host's collector".to_owned(),
        Place::Socket { path: Some(path), .. } => format!("the socket {}", path.display()),
        Place::Inet { host, .. } => format!("host {:?}", host.host),
    };
    let count = attempts.len();
    format!("connect to {place}: {count} addresses to try: {}{error}", addresses.trim_end_matches(','))
}

/// What this machine calls itself.
pub(super) fn this_host() -> String {
    nix::unistd::gethostname().unwrap_or_default().to_string_lossy().into_owned()
}

/// One address to try.
#[derive(Debug)]
struct Attempt {
    address: Address,
    /// Longest wait for the connection.
    limit: Option<Duration>,
    /// The host as the user calls it.
    host: String,
    /// Behind a proxy: what the proxy is to connect to.
    behind: Option<String>,
}

/// The attempts that a specification and options lead to.
struct Attempts<'a> {
    options: &'a HostOptions,
    queue: VecDeque<Attempt>,
    /// Why there are fewer attempts than there could be.
    error: Option<ClientError>,
}

impl Attempts<'_> {
    fn direct(&mut self, host: &HostPorts) {
        for &port in self.ports(host) {
            self.inet(&host.host, port, &host.host, None);
        }
    }

    fn proxied(&mut self, host: &HostPorts, proxy: &str, proxy_port: Option<u16>) {
        for port in self.ports(host) {
            let behind = format!("{} {port}", host.host);
            self.inet(proxy, proxy_port.unwrap_or(self.options.proxy_port), &host.host, Some(behind));
        }
    }

    fn ports<'h>(&self, host: &'h HostPorts) -> &'h [u16]
    where
        Self: 'h,
    {
        if host.ports.is_empty() { &self.options.ports } else { &host.ports }
    }

    fn inet(&mut self, name: &str, port: u16, host: &str, behind: Option<String>) {
        // A literal address is not looked up.
        let addresses: Vec<_> = match (name, port).to_socket_addrs() {
            Ok(addresses) => addresses.collect(),
            Err(_) => Vec::new(),
        };
        if addresses.is_empty() {
            self.error = Some(ClientError::UnknownHost { host: name.to_owned() });
        }
        for address in &addresses {
            self.add(Address::Inet(*address), addresses.len() as u32, host, behind.clone());
        }
    }

    /// Adds an attempt, one of several that share the time for connecting.
    fn add(&mut self, address: Address, shared_by: u32, host: &str, behind: Option<String>) {
        // Shared, so that a name with many addresses takes no longer to be given up than a name with one.
        let limit = self.options.connect_timeout.map(|limit| limit / shared_by.max(1));
        self.queue.push_back(Attempt { address, limit, host: host.to_owned(), behind });
    }
}

/// A connection to a host being made.
struct HostConnecting {
    attempts: VecDeque<Attempt>,
    config: HandshakeConfig,
    stage: Stage,
    /// Why the last attempt failed.
    error: Option<ClientError>,
}

enum Stage {
    Idle,
    Socket {
        socket: Socket,
        attempt: Attempt,
        deadline: Option<Instant>,
    },
    /// Others are before us at a Unix socket, and nothing tells when it is our turn.
    Queue {
        pause: Pause,
        attempt: Attempt,
        deadline: Option<Instant>,
    },
    Proxy {
        line: Line,
        attempt: Attempt,
    },
    Handshake(Box<Handshake>),
}

impl Connecting for HostConnecting {
    fn advance(&mut self) -> Result<Option<(Line, Features)>> {
        loop {
            let is_local = matches!(&self.stage, Stage::Handshake(handshake) if handshake.is_local());
            match self.step() {
                Ok(Progress::Wait) => return Ok(None),
                Ok(Progress::Go) => {}
                Ok(Progress::Done(handshake)) => {
                    trace!(target: "pcp::context", "connected");
                    return Ok(Some(handshake.finish()));
                }
                // Its rules may let in from `localhost` whom they do not from its Unix socket.
                Err(error @ ClientError::Pcp(PmError::PERMISSION))
                    if is_local && !self.attempts.is_empty() =>
                {
                    self.error = Some(error);
                    self.next()?;
                }
                // A collector has answered, and would say the same on its other addresses.
                Err(error @ (ClientError::Pcp(_) | ClientError::Unsupported(_))) => {
                    trace!(target: "pcp::context", "refused: {error}");
                    return Err(error);
                }
                Err(error) => {
                    trace!(target: "pcp::context", "no connection: {error}");
                    self.error = Some(error);
                    self.next()?;
                }
            }
        }
    }

    fn waiting(&self) -> Option<Waiting<'_>> {
        match &self.stage {
            Stage::Idle => None,
            Stage::Socket { socket, deadline, .. } => {
                Some(Waiting { fd: socket.as_fd(), interest: Interest::Write, deadline: *deadline })
            }
            Stage::Queue { pause, deadline, .. } => {
                Some(Waiting { fd: pause.as_fd(), interest: Interest::Read, deadline: *deadline })
            }
            Stage::Proxy { line, .. } => Some(line.waiting()),
            Stage::Handshake(handshake) => Some(handshake.waiting()),
        }
    }
}

enum Progress {
    Wait,
    Go,
    Done(Box<Handshake>),
}

impl HostConnecting {
    /// Begins the next attempt that can be begun.
    fn next(&mut self) -> Result<()> {
        while let Some(attempt) = self.attempts.pop_front() {
            let deadline = attempt.limit.and_then(|limit| Instant::now().checked_add(limit));
            trace!(
                target: "pcp::context",
                "try {}, for {:?} at most{}",
                attempt.address,
                attempt.limit.unwrap_or(Duration::MAX),
                attempt.behind.as_deref().map(|to| format!(", a proxy on the way to {to}")).unwrap_or_default(),
            );
            match self.connect(attempt, deadline) {
                Ok(()) => return Ok(()),
                Err(error) => {
                    trace!(target: "pcp::context", "no connection: {error}");
                    self.error = Some(error);
                }
            }
        }
        self.stage = Stage::Idle;
        Err(self.error.take().unwrap_or(ClientError::Closed))
    }

    fn connect(&mut self, attempt: Attempt, deadline: Option<Instant>) -> Result<()> {
        self.stage = match Socket::connect(&attempt.address) {
            Ok(socket) => Stage::Socket { socket, attempt, deadline },
            // A Unix socket whose backlog is full: unlike TCP's, the kernel does not queue us up.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !is_past(deadline) => {
                Stage::Queue { pause: Pause::start(QUEUE_PAUSE)?, attempt, deadline }
            }
            Err(error) => return Err(attempt.failed(error)),
        };
        Ok(())
    }

    fn step(&mut self) -> Result<Progress> {
        // Taken out, so that a stage that fails leaves nothing of itself behind: its socket is closed.
        match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Idle => Err(ClientError::Closed),
            Stage::Socket { socket, attempt, deadline } => {
                if !socket.is_ready()? {
                    if is_past(deadline) {
                        return Err(attempt.failed(io::Error::from_raw_os_error(libc::ETIMEDOUT)));
                    }
                    self.stage = Stage::Socket { socket, attempt, deadline };
                    return Ok(Progress::Wait);
                }
                if let Err(error) = socket.connected() {
                    return Err(attempt.failed(error));
                }
                let mut line = Line::new(socket);
                self.stage = match &attempt.behind {
                    None => self.open(line, &attempt),
                    Some(_) => {
                        line.set_limit(self.config.limit);
                        line.put_bytes(PROXY_HELLO);
                        Stage::Proxy { line, attempt }
                    }
                };
                Ok(Progress::Go)
            }
            Stage::Queue { pause, attempt, deadline } => {
                if pause.is_over()? || is_past(deadline) {
                    self.connect(attempt, deadline)?;
                    return Ok(Progress::Go);
                }
                self.stage = Stage::Queue { pause, attempt, deadline };
                Ok(Progress::Wait)
            }
            Stage::Proxy { mut line, attempt } => match line.pump_text()? {
                None => {
                    self.stage = Stage::Proxy { line, attempt };
                    Ok(Progress::Wait)
                }
                Some(answer) if answer == PROXY_ANSWER => {
                    debug_assert!(attempt.behind.is_some(), "only attempts behind a proxy talk to one");
                    let behind = attempt.behind.as_deref().unwrap_or_default();
                    line.put_bytes(behind.as_bytes());
                    line.put_bytes(b"\n");
                    self.stage = self.open(line, &attempt);
                    Ok(Progress::Go)
                }
                Some(_) => Err(ClientError::Unexpected),
            },
            Stage::Handshake(mut handshake) => match handshake.advance()? {
                true => Ok(Progress::Done(handshake)),
                false => {
                    self.stage = Stage::Handshake(handshake);
                    Ok(Progress::Wait)
                }
            },
        }
    }

    fn open(&self, line: Line, attempt: &Attempt) -> Stage {
        let known_to_kernel = matches!(attempt.address, Address::Unix(_));
        let config = HandshakeConfig {
            known_to_kernel,
            host: attempt.host.clone(),
            local: attempt.behind.is_none() && attempt.address.is_local(),
            local_by_name: known_to_kernel || attempt.host.contains("localhost"),
            ..self.config.clone()
        };
        Stage::Handshake(Box::new(Handshake::new(line, config)))
    }
}

impl Attempt {
    fn failed(&self, error: io::Error) -> ClientError {
        ClientError::Connect { to: self.address.to_string(), error }
    }
}

fn is_past(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}
