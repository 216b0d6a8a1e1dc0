//! The kinds of sources, each a type with all that the agent has to know of it; [`ALL`] is the one list of them.
//!
//! To add a kind: its configuration section in [`Config`], a file here, and a line in [`ALL`]; its metrics go into the
//! name space and the help.

mod follow;
mod kernel;
mod otlp;
mod socket;

use std::any::Any;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jumpseat_source::{InvalidKey, Outlet};
use pcp_pmda::Metric;

use crate::config::{Config, InvalidTable};
use crate::state::State;

/// All kinds, in the order in which they are checked and started.
pub const ALL: [&dyn Kind; 4] = [&socket::Sockets, &otlp::Otlp, &follow::Followed, &kernel::Kernel];

/// A kind of source.
pub trait Kind {
    /// Checks its tables in the configuration.
    ///
    /// # Errors
    /// The first value that cannot be taken.
    fn check(&self, config: &Config) -> Result<(), InvalidTable>;

    /// How many sources its tables name, without those that senders may.
    fn sources(&self, config: &Config) -> usize;

    /// How many batches of its sources may wait for the event loop.
    fn queue(&self, config: &Config) -> usize;

    /// Starts what its tables say.
    ///
    /// # Errors
    /// The first that does not start; those that did are in `running`.
    fn start(&self, config: &Config, outlet: &Outlet, running: &mut Running<'_>) -> Result<(), StartError>;

    /// The metrics that tell how it does.
    fn metrics(&self) -> Vec<Metric<State>>;
}

/// Why a source does not start.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {error}")]
pub struct StartError {
    /// What it is and where, such as `ingest socket /run/pcp/jumpseat.socket`.
    pub what: String,
    /// Why not.
    #[source]
    pub error: Box<dyn Error + Send + Sync>,
}

impl StartError {
    fn new(what: String, error: impl Error + Send + Sync + 'static) -> StartError {
        StartError { what, error: Box::new(error) }
    }
}

/// The threads of sources: they end when this is dropped.
pub type Threads = Vec<Box<dyn Any + Send>>;

/// Where a kind puts what it has started.
pub struct Running<'a> {
    threads: Threads,
    state: &'a mut State,
}

impl Running<'_> {
    /// A thread runs until its handle is dropped.
    fn add(&mut self, thread: impl Any + Send) {
        self.threads.push(Box::new(thread));
    }

    /// What threads count, for the metrics of their kind.
    fn count_in<T: Send + Sync + 'static>(&mut self, stats: Arc<T>) {
        self.state.threads.add(stats);
    }
}

/// Starts all sources that the configuration names.
///
/// # Errors
/// The first that does not start; those that did have ended then.
pub fn start(config: &Config, outlet: &Outlet, state: &mut State) -> Result<Threads, StartError> {
    let mut running = Running { threads: Threads::new(), state };
    for kind in ALL {
        kind.start(config, outlet, &mut running)?;
    }
    Ok(running.threads)
}

/// How many sources the tables of all kinds name. An agent without any is worth one source, besides that of OTLP.
pub fn sources(config: &Config) -> usize {
    ALL.iter().map(|kind| kind.sources(config)).sum::<usize>().max(1 + otlp::Otlp.sources(config))
}

/// How many batches may wait for the event loop, over all sources.
pub fn queue(config: &Config) -> usize {
    ALL.iter().map(|kind| kind.queue(config)).sum::<usize>().max(1)
}

/// Checks one table after the other, and whether it gets into the way of an earlier one.
fn check_tables<T>(
    table: &'static str,
    tables: &[T],
    check: impl Fn(&T) -> Result<(), InvalidKey>,
    clash: impl Fn(&T, &T) -> Option<InvalidKey>,
) -> Result<(), InvalidTable> {
    for (nth, this) in tables.iter().enumerate() {
        let found = check(this).err().or_else(|| tables[..nth].iter().find_map(|before| clash(before, this)));
        if let Some(invalid) = found {
            return Err(InvalidTable { table, nth, invalid });
        }
    }
    Ok(())
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
