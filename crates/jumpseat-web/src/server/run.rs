//! Start and end of the server.

use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use jumpseat_tools::complain;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use pcp_archive::ArchiveError;
use pcp_client::HostSpecError;
use pcp_net::{CertificateError, PasswordError, TokenError, Worker};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::gate::Gate;
use super::library::{self, Library};
use super::listen;
use super::page::Page;
use super::pmapi::Contexts;
use super::pool::Pool;
use super::records::Records;
use super::series::Series;
use super::sources::Sources;
use super::web::{Web, router};
use crate::WebArgs;

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebError {
    /// A host that is none.
    #[error("-h {host}: {error}")]
    Host {
        /// As it was named.
        host: String,
        /// Why not.
        error: HostSpecError,
    },
    /// An archive that is none.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// It cannot listen there.
    #[error("cannot listen at {address}: {error}")]
    Listen {
        /// Where.
        address: String,
        /// Why not.
        error: io::Error,
    },
    /// Certificate or key.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A file of passwords.
    #[error(transparent)]
    Passwords(#[from] PasswordError),
    /// A file of tokens.
    #[error(transparent)]
    Tokens(#[from] TokenError),
    /// The system refuses a thread or the like.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
    /// Options that do not go together.
    #[error("{0}")]
    Usage(String),
}

/// A running server. Dropping this ends it.
pub struct Serving {
    /// Where it listens.
    pub addresses: Vec<SocketAddr>,
    /// Whether it is encrypted.
    pub encrypted: bool,
    stop: watch::Sender<bool>,
    _watch: Option<Worker>,
    // Last: its tasks use what is above.
    runtime: Option<Runtime>,
}

/// Starts a server on threads of its own.
///
/// # Errors
/// [`WebError`].
pub fn start(args: &WebArgs) -> Result<Serving, WebError> {
    let pool = Pool::new();
    let library = Arc::new(Library::open(&args.archives)?);
    let sources = Sources::new(&args.hosts, !library.is_empty(), args.any_host)
        .map_err(|error| WebError::Host { host: without_secrets(&args.hosts), error })?;
    let listeners = listen::bind(&args.listen)
        .map_err(|error| WebError::Listen { address: args.listen.clone(), error })?;
    let addresses: Result<Vec<SocketAddr>, io::Error> =
        listeners.iter().map(|one| one.local_addr()).collect();
    let addresses = addresses?;
    let gate = Arc::new(Gate::open(args, &addresses)?);
    let watching = if library.is_empty() { None } else { Some(library::watch(&library)?) };
    let sources = Arc::new(sources);
    let records = Arc::new(Records::start(Arc::clone(&sources), Arc::clone(&library))?);
    let web = Arc::new(Web {
        args: args.clone(),
        pool,
        page: Page::new(Arc::clone(&sources)),
        contexts: Contexts::new(),
        series: Series::open(args, Arc::clone(&library))?,
        sources,
        library,
        records,
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("jumpseat-web")
        .enable_all()
        .build()?;
    let (stop, stopped) = watch::channel(false);
    let router = router(&web, &gate);
    let inside = runtime.enter();
    for listener in listeners {
        let listener = TcpListener::from_std(listener)?;
        runtime.spawn(listen::serve(listener, router.clone(), Arc::clone(&gate), stopped.clone()));
    }
    drop(inside);
    Ok(Serving { addresses, encrypted: gate.encrypts(), stop, _watch: watching, runtime: Some(runtime) })
}

/// Hosts for a message: what is behind a `?` may be a password.
fn without_secrets(hosts: &[String]) -> String {
    let hosts: Vec<&str> = hosts.iter().filter_map(|host| host.split('?').next()).collect();
    hosts.join(", ")
}

/// `jumpseat web`: serves until it is told to end.
pub fn run(args: &WebArgs) -> ExitCode {
    more_descriptors();
    // Who started it may have blocked them, and that is inherited.
    let mut ends = SigSet::empty();
    ends.add(Signal::SIGINT);
    ends.add(Signal::SIGTERM);
    let _ = ends.thread_unblock();
    let serving = match start(args) {
        Ok(serving) => serving,
        Err(error) => {
            complain!("jumpseat web: {error}");
            return ExitCode::FAILURE;
        }
    };
    let scheme = if serving.encrypted { "https" } else { "http" };
    for address in &serving.addresses {
        println!("{scheme}://{address}/");
    }
    serving.wait();
    ExitCode::SUCCESS
}

/// As many descriptors as the system allows: clients, and for each a collector.
fn more_descriptors() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // What cannot be had is not needed to begin.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

impl Serving {
    /// Waits for SIGTERM or SIGINT.
    fn wait(&self) {
        let Some(runtime) = &self.runtime else { return };
        runtime.block_on(async {
            let (Ok(mut term), Ok(mut int)) =
                (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
            else {
                return std::future::pending().await;
            };
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
        });
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(std::time::Duration::from_millis(500));
        }
    }
}
