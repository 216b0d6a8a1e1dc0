//! What a kind of source is.

use std::any::Any;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jumpseat_source::{InvalidKey, Outlet};
use pcp_pmda::Metric;

use crate::config::{Config, InvalidTable};
use crate::confine::Trust;
use crate::reach::Need;
use crate::state::State;
use crate::state::threads::ThreadStats;

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

    /// What is to run for its tables.
    fn wanted<'a>(&self, config: &'a Config) -> Vec<Wanted<'a>>;

    /// Has one that runs, and runs on, do what the tables say now.
    fn adapt(&self, _thread: &(dyn Any + Send), _config: &Config, _trust: &Trust) {}

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
    /// Whether it costs no more than this source, as long as there are others.
    pub is_bearable: bool,
}

impl StartError {
    pub(super) fn new(what: String, error: impl Error + Send + Sync + 'static) -> StartError {
        StartError { what, error: Box::new(error), is_bearable: false }
    }

    /// An agent with others goes on without it.
    pub(super) fn bearable(self, is_bearable: bool) -> StartError {
        StartError { is_bearable, ..self }
    }

    /// For what words are enough.
    pub(super) fn words(what: String, words: String) -> StartError {
        StartError { what, error: words.into(), is_bearable: false }
    }
}

/// One thread that is to run.
pub(crate) struct Wanted<'a> {
    /// What it is and where, for messages.
    pub(super) what: String,
    /// All that it depends on: one that runs runs on as long as this is the same.
    pub(super) key: String,
    /// What it needs of what an agent may have given up.
    pub(super) need: Need<'a>,
    /// Starts it.
    pub(super) start: Box<Start<'a>>,
}

/// What starts a source.
type Start<'a> = dyn Fn(&mut Site<'_>) -> Result<Started, StartError> + 'a;

/// Where sources are started.
pub(crate) struct Site<'a> {
    /// Where they hand over.
    pub(super) outlet: &'a Outlet,
    /// What the process has kept of its rights.
    pub(super) trust: &'a Trust,
    /// What threads count, for the metrics of their kind.
    pub(super) stats: &'a mut ThreadStats,
}

/// A thread that runs until this is dropped.
pub(crate) struct Started {
    pub(super) thread: Box<dyn Any + Send>,
    /// What it counts. Nobody is told of that any more when it has ended, unless it was given to [`Site::stats`] by itself.
    pub(super) stats: Option<Arc<dyn Any + Send + Sync>>,
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
