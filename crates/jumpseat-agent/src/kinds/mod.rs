//! The kinds of sources, each a type with all that the agent has to know of it; [`ALL`] is the one list of them.
//!
//! To add a kind: its tables in [`Config`], a file here, and a line in [`ALL`]; its metrics go into the name space and the
//! help.

mod follow;
mod kernel;
mod kind;
mod otlp;
mod scrape;
mod socket;

use jumpseat_source::Outlet;

use crate::config::Config;
use crate::confine::Trust;
use crate::reach::Reach;
use crate::state::threads::ThreadStats;

use kind::{Site, SourceKind, Started, Wanted};

pub(crate) use kind::StartError;

/// All kinds, in the order in which they are checked and started.
pub(crate) const ALL: [&dyn SourceKind; 5] =
    [&socket::Sockets, &otlp::Otlp, &follow::Followed, &kernel::Kernel, &scrape::Scrape];

/// All sources that run. They end when this is dropped.
#[derive(Default)]
pub(crate) struct Sources {
    running: Vec<Running>,
    /// What their threads count.
    stats: ThreadStats,
}

/// One that runs.
struct Running {
    /// Its kind's number in [`ALL`].
    kind: usize,
    what: String,
    key: String,
    started: Started,
}

impl Sources {
    /// Starts what the configuration names and does not run, ends what runs and is not named any more, and leaves alone
    /// what is the same. Gives what could not be started, in that order.
    pub(crate) fn apply(&mut self, config: &Config, outlet: &Outlet, trust: &Trust) -> Vec<StartError> {
        let mut wanted: Vec<(usize, Wanted<'_>)> = Vec::new();
        for (number, kind) in ALL.iter().enumerate() {
            wanted.extend(kind.wanted(config).into_iter().map(|wanted| (number, wanted)));
        }
        let is = |running: &Running, (kind, wanted): &(usize, Wanted<'_>)| {
            running.kind == *kind && running.key == wanted.key
        };
        // What cannot be started anew goes on as it is: better than nothing.
        let is_stuck = |running: &Running| {
            let same =
                |(kind, wanted): &&(usize, Wanted<'_>)| running.kind == *kind && running.what == wanted.what;
            wanted.iter().find(same).is_some_and(|(_, wanted)| trust.reach().refuses(wanted.need).is_some())
        };
        // First, as what is new may need the places of what has gone.
        let stats = &mut self.stats;
        self.running.retain(|running| {
            let stays = wanted.iter().any(|wanted| is(running, wanted)) || is_stuck(running);
            if let Some(counted) = running.started.stats.as_ref().filter(|_| !stays) {
                stats.remove(counted);
            }
            stays
        });
        let refused = trust.reach().refused_programs(config).into_iter();
        let mut failed: Vec<StartError> = refused.map(|(what, why)| StartError::words(what, why)).collect();
        for one in &wanted {
            if let Some(running) = self.running.iter().find(|running| is(running, one)) {
                ALL[one.0].adapt(running.started.thread.as_ref(), config, trust);
                continue;
            }
            match start(&one.1, &mut Site { outlet, trust, stats: &mut self.stats }) {
                Ok(started) => {
                    self.stats.extend(started.stats.clone());
                    let Wanted { what, key, .. } = &one.1;
                    let (what, key) = (what.clone(), key.clone());
                    self.running.push(Running { kind: one.0, what, key, started });
                }
                Err(error) => failed.push(error),
            }
        }
        failed
    }

    /// Whether any runs.
    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// What the threads count that run now.
    pub(crate) fn stats(&self) -> ThreadStats {
        self.stats.clone()
    }
}

fn start(wanted: &Wanted<'_>, site: &mut Site<'_>) -> Result<Started, StartError> {
    match site.trust.reach().refuses(wanted.need) {
        Some(why) => Err(StartError::words(wanted.what.clone(), why)),
        None => (wanted.start)(site),
    }
}

/// What of a configuration a process may not start any more, and why.
pub(crate) fn refused(config: &Config, reach: &Reach) -> Vec<(String, String)> {
    let mut refused = reach.refused_programs(config);
    for wanted in ALL.iter().flat_map(|kind| kind.wanted(config)) {
        refused.extend(reach.refuses(wanted.need).map(|why| (wanted.what, why)));
    }
    refused
}

/// How many sources the tables of all kinds name. An agent without any is worth one source, besides that of OTLP.
pub(crate) fn sources(config: &Config) -> usize {
    ALL.iter().map(|kind| kind.sources(config)).sum::<usize>().max(1 + otlp::Otlp.sources(config))
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
