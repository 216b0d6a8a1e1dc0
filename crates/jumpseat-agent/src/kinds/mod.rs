//! The kinds of sources, each a type with all that the agent has to know of it; [`ALL`] is the one list of them.
//!
//! To add a kind: its tables in [`Config`], a file here, and a line in [`ALL`]; its metrics go into the name space and the
//! help.

mod follow;
mod kernel;
mod kind;
mod otlp;
mod socket;

use jumpseat_source::Outlet;
use jumpseat_source::tracefs::Helpers;

use crate::config::Config;
use crate::state::State;

use kind::{Running, SourceKind};

pub(crate) use kind::StartError;
pub(crate) use kind::Threads;

/// All kinds, in the order in which they are checked and started.
pub(crate) const ALL: [&dyn SourceKind; 4] =
    [&socket::Sockets, &otlp::Otlp, &follow::Followed, &kernel::Kernel];

/// Starts all sources that the configuration names.
///
/// # Errors
/// The first that does not start; those that did have ended then.
pub(crate) fn start(
    config: &Config,
    outlet: &Outlet,
    helpers: &Helpers,
    state: &mut State,
) -> Result<Threads, StartError> {
    let mut running = Running { threads: Threads::new(), helpers, state };
    for kind in ALL {
        kind.start(config, outlet, &mut running)?;
    }
    Ok(running.threads)
}

/// How many sources the tables of all kinds name. An agent without any is worth one source, besides that of OTLP.
pub(crate) fn sources(config: &Config) -> usize {
    ALL.iter().map(|kind| kind.sources(config)).sum::<usize>().max(1 + otlp::Otlp.sources(config))
}

/// How many sources the tables of all kinds but this one name.
fn sources_of_others(kind: &dyn SourceKind, config: &Config) -> usize {
    ALL.iter().map(|kind| kind.sources(config)).sum::<usize>() - kind.sources(config)
}

/// The names of those sources, as far as they have one.
pub(crate) fn source_names(config: &Config) -> Vec<String> {
    ALL.iter().flat_map(|kind| kind.source_names(config)).collect()
}

/// Of these, the ones that the configuration feeds itself.
pub(crate) fn own_source_names(config: &Config) -> Vec<String> {
    ALL.iter().filter(|kind| kind.is_own()).flat_map(|kind| kind.source_names(config)).collect()
}

/// How many batches may wait for the event loop, over all sources.
pub(crate) fn queue(config: &Config) -> usize {
    ALL.iter().map(|kind| kind.queue(config)).sum::<usize>().max(1)
}
