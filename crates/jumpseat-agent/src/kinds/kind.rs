//! What a kind of source is.

use std::any::Any;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jumpseat_source::tracefs::Helpers;
use jumpseat_source::{InvalidKey, Outlet};
use pcp_pmda::Metric;

use crate::config::{Config, InvalidTable};
use crate::state::State;

/// A kind of source.
pub(crate) trait SourceKind {
    /// Checks its tables in the configuration.
    ///
    /// # Errors
    /// The first value that cannot be taken.
    fn check(&self, config: &Config) -> Result<(), InvalidTable>;

    /// How many sources its tables name, without those that senders may.
    fn sources(&self, config: &Config) -> usize;

    /// The names of those that have one.
    fn source_names(&self, config: &Config) -> Vec<String>;

    /// Whether nobody else sends in the name of its sources, unless the configuration says who may.
    fn is_own(&self) -> bool {
        false
    }

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
    pub(super) fn new(what: String, error: impl Error + Send + Sync + 'static) -> StartError {
        StartError { what, error: Box::new(error) }
    }
}

/// The threads of sources: they end when this is dropped.
pub(crate) type Threads = Vec<Box<dyn Any + Send>>;

/// Where a kind puts what it has started.
pub(crate) struct Running<'a> {
    pub(super) threads: Threads,
    /// Who opens the kernel's files.
    pub(super) helpers: &'a Helpers,
    pub(super) state: &'a mut State,
}

impl Running<'_> {
    /// A thread runs until its handle is dropped.
    pub(crate) fn add(&mut self, thread: impl Any + Send) {
        self.threads.push(Box::new(thread));
    }

    /// What threads count, for the metrics of their kind.
    pub(crate) fn count_in<T: Send + Sync + 'static>(&mut self, stats: Arc<T>) {
        self.state.threads.add(stats);
    }
}

/// Checks one table after the other, and whether it gets into the way of an earlier one.
pub(super) fn check_tables<T>(
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

/// A counter's value.
pub(super) fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
