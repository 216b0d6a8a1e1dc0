//! Puts the agent together and starts its sources.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use crossbeam_channel::Receiver;
use jumpseat_log::LogError;
use jumpseat_source::lanes::Wake;
use jumpseat_source::registry::{RegistryConfig, RegistryError};
use jumpseat_source::series::batch::Branch;
use jumpseat_source::tracefs::KernelStats;
use jumpseat_source::{Inlet, Outlet, Registry, Rules, Series, Starting};
use nix::sys::signal::Signal;
use pcp_ids::IdsError;
use pcp_net::{Kept, Worker};
use pcp_pmda::{Access, Agent, BuildError, Exit, Indom, Listen, ServeError, Server};

use crate::config::Config;
use crate::confine::Trust;
use crate::derived::Catalogue;
use crate::handover::{self, Handover};
use crate::housekeeper::Housekeeper;
use crate::identity::{
    CALLS, DERIVED_ROOT, EXEMPLAR_ROOT, FIELD_ROOT, NAME, OBJECTIVES, REASONS, SCRAPE_TARGETS,
    SERIES_BUCKETS, SERIES_QUANTILES, SERIES_ROOT, SERIES_SETS, SOURCES, SPAN_BOUNDS, SPAN_BUCKETS,
    SPAN_SERIES, SPANS, START_ROOT, STREAMS, TOKENS, TYPES,
};
use crate::kinds::{self, Sources, StartError};
use crate::logs;
use crate::metrics::{self, DerivedMetrics, FieldMetrics, SeriesMetrics, labels};
use crate::reload::{Adjust, Applier, Notes, Reloader, reload};
use crate::restart::Restart;
use crate::running::{Running, tables};
use crate::sampler::Sampler;
use crate::settled::Settled;
use crate::state::State;
use crate::state::spans::namer::Namer;
use crate::state::threads::ThreadStats;
use crate::trim;
use crate::{HELP, PMNS};

/// Least room for batches of sources that wait for the event loop, where others may come with a reload.
const QUEUE: usize = 64;

/// Why the agent cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The files with identifiers.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The file with the numbers of derived metrics, or any of the others, which could not be brought to disk.
    #[error(transparent)]
    Derived(#[from] IdsError),
    /// The tables do not fit together; a defect of this program.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The log on disk is another process's.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The system has no thread for the log on disk, or for what is read at the start.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// The event loop.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// A source.
    #[error(transparent)]
    Source(#[from] StartError),
}

impl OpenError {
    /// Whether another agent uses the same directory.
    pub fn is_in_use(&self) -> bool {
        match self {
            OpenError::Registry(RegistryError::File { error: IdsError::InUse { .. }, .. }) => true,
            OpenError::Log(error) => error.is_in_use(),
            _ => false,
        }
    }
}

/// What becomes of SIGTERM, SIGINT and SIGHUP.
#[derive(Clone, Copy)]
pub enum Signals<'a> {
    /// The agent does nothing about them.
    Leave,
    /// The first two end the event loop, SIGHUP reads the configuration and derived metrics again.
    Handle {
        /// The configuration file.
        reload: Option<&'a Path>,
        /// What is done to it each time it was read, by options of the program.
        adjust: Option<&'a Adjust>,
    },
}

impl std::fmt::Debug for Signals<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Signals::Leave => f.write_str("Leave"),
            Signals::Handle { reload, .. } => f.debug_struct("Handle").field("reload", reload).finish(),
        }
    }
}

/// How to set up the agent.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// What the configuration says. Its `domain` and `state_dir` are suggestions to whoever makes this.
    pub config: &'a Config,
    /// The domain number.
    pub domain: u16,
    /// Where identifiers are kept; `None` keeps them in memory.
    pub state_dir: Option<&'a Path>,
    /// Help text in place of the built-in [`HELP`], and the name it goes by in errors.
    pub help: Option<(&'a str, &'a str)>,
    /// What becomes of signals.
    pub signals: Signals<'a>,
    /// Who asks the agent, and so knows the instances of other agents' domains.
    pub clients: Clients,
    /// What this process keeps of its rights.
    pub trust: &'a Trust,
}

/// Who asks the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// pmcd does. It is also asked for metrics of other agents, unless the configuration names another one.
    Pmcd,
    /// Clients themselves do. Metrics of other agents are had only of a pmcd that the configuration names.
    Direct,
    /// There is no thread for metrics of other agents: definitions that use them are refused.
    Alone,
}

/// The agent, with its source threads running. They end when this is dropped.
pub struct RunningAgent {
    /// The event loop: tell it whom to serve, then run it.
    pub server: Server<State>,
    kernels: Vec<Arc<KernelStats>>,
    handover: Option<Arc<Handover>>,
    housekeeper: Housekeeper,
    /// Running as long as this lives.
    _sources: Arc<Mutex<Sources>>,
    /// These end after them.
    _threads: Vec<Worker>,
}

impl RunningAgent {
    /// Puts the agent together and starts its sources.
    ///
    /// # Errors
    /// [`OpenError`]; nothing is left running then.
    pub fn open(setup: &Setup<'_>) -> Result<RunningAgent, OpenError> {
        let &Setup { config, domain, state_dir, help, signals, clients, trust } = setup;
        let (registry, definitions, settling) = Registry::begin(&registry_config(config, domain, state_dir))?;
        logs::open(config, domain, state_dir, &registry)?;
        // From here on this is the only agent of the state directory.
        if !trust.handover().is_some_and(|handover| handover.has_keeper())
            && let Some(dir) = state_dir
            && let Err(error) = handover::end(dir, domain)
        {
            tracing::warn!(
                "the keeper of the agent before cannot be told that there is none any more: {error}"
            );
        }
        if let Some(handover) = trust.handover() {
            handover.begin();
        }
        let (hand_over, deliveries) = crossbeam_channel::bounded(room(config, &signals));
        let inlet = Inlet::new(definitions, deliveries);
        let mut state = State::open(config, Arc::clone(&registry), inlet, state_dir)?;
        let settling = settling.with(std::mem::take(&mut state.derived.settling));
        // Beside everything else that the start has to do, as it is half of that.
        let mut settled = Settled::begin(settling)?;
        state.trust = trust.clone();
        if clients == Clients::Pmcd {
            state.contexts = logs::contexts(config, domain, state_dir, &state.registry);
        }

        let control = config.control.access();
        let agent = agent(state, domain, help, &control).grants(config.access.grants());
        let mut server = Server::new(agent.build()?)?;
        if let Signals::Handle { .. } = signals {
            // Before there are source threads, which must not get them.
            server.handle_signals()?;
            server.on_reload(|state| {
                reload(state);
            });
        }
        let (tell_stats, news) = crossbeam_channel::unbounded();
        take_in(&mut server, control, news);
        server.at_intervals(
            |state: &State| state.derived.shared_window(),
            |core| metrics::derived::sample_for_all(core, SystemTime::now().into()),
        );
        join(&mut server, clients);
        // After the sampler is there, or definitions with operands of other agents would be refused first and then not.
        // What is wrong with the files is in the log; an agent without derived metrics is better than none.
        server.core().state.derived.read();

        if let Some(dir) = state_dir {
            let namer = |serial: u32| {
                let (path, handle) = (dir.join(format!("{domain}.{serial}")), server.handle());
                Namer::on_file(&path, Arc::new(move || handle.wake()))
            };
            let (series, of_series) = namer(SPAN_SERIES)?;
            let (calls, of_calls) = namer(CALLS)?;
            let (objectives, of_objectives) = namer(OBJECTIVES)?;
            settled.and(of_series.with(of_calls).with(of_objectives))?;
            let spans = &mut server.core().state.spans;
            spans.series.name_by(series);
            spans.services.name_by(calls);
            spans.objectives.name_by(objectives);
            let (path, handle) = (dir.join(format!("jumpseat-{domain}-objectives.json")), server.handle());
            server.core().state.spans.objectives.keep_in(&path, Arc::new(move || handle.wake()));
        }
        let threads = logs::threads(config, &registry).map_err(OpenError::Thread)?;
        let handle = server.handle();
        let wake: Wake = Arc::new(move || handle.wake());
        let (series, batches, settling) =
            Series::open_unsettled(config.series.clone(), domain, state_dir, Arc::clone(&wake))?;
        settled.and(settling)?;
        let state = &mut server.core().state;
        state.series.take_from(batches, Arc::clone(series.stats()));
        state.series_limits = Some(series.clone());
        let housekeeper = Housekeeper::start(series.clone()).map_err(OpenError::Thread)?;
        let outlet = Outlet {
            registry,
            out: hand_over,
            wake,
            series,
            state_dir: state_dir.map(Path::to_owned),
            restarts: Arc::clone(&server.core().state.restarts),
            kept: trust.kept(),
            starting: Starting::default(),
        };
        // From here on ids are given to somebody.
        settled.finish()?;
        // Last: from here on threads hand over, and everything must be there that takes it.
        let mut sources = Sources::default();
        // It goes before them if one cannot be started: they wait while it is there.
        let starting = outlet.starting.begin();
        for error in sources.apply(config, &outlet, trust) {
            if !error.is_bearable || sources.is_empty() {
                return Err(error.into());
            }
            tracing::error!("{error}; the agent goes on without it: reload it when that is mended");
        }
        let endpoint = server.handle();
        let state = &mut server.core().state;
        state.starting = Some(starting);
        state.threads = sources.stats();
        let kernels = state.threads.shared().collect();
        let sources = Arc::new(Mutex::new(sources));
        let notes = |path: &Path| state_dir.map(|dir| note(config, (dir, domain), path, trust));
        if let Signals::Handle { reload: Some(path), adjust } = signals {
            let applier = Applier {
                sources: Arc::clone(&sources),
                outlet,
                trust: trust.clone(),
                stats: tell_stats,
                thread: None,
                notes: notes(path),
            };
            let mut reloader = Reloader::new(path, adjust.cloned(), config, applier);
            // Under pmcd, connections are pmcd's.
            reloader.endpoint = (clients == Clients::Direct).then_some(endpoint);
            state.reload = Some(Box::new(move |state| reloader.run(state)));
        }
        let handover = trust.handover().cloned();
        let handle = server.handle();
        server.core().state.restart = Some(Restart::new(handover.clone(), clients == Clients::Pmcd, handle));
        Ok(RunningAgent { server, kernels, handover, housekeeper, _sources: sources, _threads: threads })
    }

    /// Serves PMAPI clients directly, as [`Server::listen`]; those who wait since the agent before has ended come first.
    ///
    /// # Errors
    /// As [`Server::listen`].
    pub fn listen(&mut self, address: &Listen) -> Result<Listen, ServeError> {
        let kept = self.handover.clone().map_or_else(Kept::default, |handover| Kept::by(handover));
        self.server.listen_kept(address, &kept)
    }

    /// Runs the event loop, when the agent listens everywhere it is going to. Where it listens is left to the next agent,
    /// unless somebody at a terminal has ended this one (SIGINT).
    ///
    /// # Errors
    /// As [`Server::run`].
    pub fn run(&mut self) -> Result<Exit, ServeError> {
        if let Some(handover) = &self.handover {
            handover.settle();
        }
        trim::keep();
        self.housekeeper.settle();
        let exit = self.server.run();
        if let Some(handover) = &self.handover
            && !matches!(exit, Ok(Exit::Signal(number)) if number == Signal::SIGINT as i32)
        {
            handover.leave();
        }
        // Threads end by this, and with them listeners.
        self.server.core().state.close();
        exit
    }

    /// What the kernel sources tell of themselves.
    pub fn kernel_sources(&self) -> Vec<Arc<KernelStats>> {
        self.kernels.clone()
    }
}

/// How many batches may wait for the loop: what the sources' queues add up to. Each waits, and then counts losses, by itself.
fn room(config: &Config, signals: &Signals<'_>) -> usize {
    match signals {
        Signals::Handle { reload: Some(_), .. } => kinds::queue(config).max(QUEUE),
        _ => kinds::queue(config),
    }
}

/// Has the event loop take what it is woken for: deliveries, what a reload has changed, and what the sampler reports.
fn take_in(server: &mut Server<State>, mut control: Access, news: Receiver<ThreadStats>) {
    let again = server.handle();
    server.on_wake(move |core| {
        core.state.starting = None;
        if core.state.drain() {
            again.wake();
        }
        if let Some((grants, access)) = core.state.grants.take() {
            core.set_grants(grants);
            core.replace_access(&control, &access);
            control = access;
        }
        if let Some(stats) = news.try_iter().last() {
            core.state.threads = stats;
        }
        core.state.refresh_targets();
        metrics::derived::take_report(core);
    });
}

/// Notes what was read, for who asks what a reload would change.
fn note(config: &Config, (dir, domain): (&Path, u16), path: &Path, trust: &Trust) -> Notes {
    // As the file has it: options of the program may have changed it since.
    let read = Config::load(path).map_or_else(|_| tables(config), |config| tables(&config));
    let running = Running {
        pid: std::process::id(),
        path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
        started: read.clone(),
        current: read,
        reach: trust.reach().clone(),
    };
    let notes = Notes { state_dir: dir.to_owned(), domain, running };
    notes.write(true);
    notes
}

/// Gives the state what only a complete event loop has: its counters, the metrics that definitions may use, and a way
/// to be woken by the sampler.
fn join(server: &mut Server<State>, clients: Clients) {
    let (load, handle) = (server.stats(), server.handle());
    let catalogue = Catalogue::new(server.core().fixed_metrics());
    let state = &mut server.core().state;
    state.load = load;
    state.derived.set_catalogue(catalogue);
    if clients != Clients::Alone {
        let sampler = Sampler::new(Arc::new(move || handle.wake()));
        let host = (clients == Clients::Pmcd).then_some("local:");
        state.derived.foreign.enable(sampler, host, clients == Clients::Direct);
    }
}

fn registry_config(config: &Config, domain: u16, dir: Option<&Path>) -> RegistryConfig {
    RegistryConfig {
        domain,
        dir: dir.map(Path::to_owned),
        max_fields: config.fields.max as usize,
        max_sources: config.events.max_sources as usize,
        max_types: config.events.max_types as usize,
        max_spans: config.spans.max_names as usize,
        recycle_after: config.events.recycle_after.0,
        keeps_records: config.log.dir(dir, domain).is_some(),
        rules: Rules(config.source.clone()),
        reserved: kinds::source_names(config),
        own: kinds::own_source_names(config),
    }
}

/// The agent's tables over its state. `help`: the name of a file and its text, in place of the built-in ones.
pub(crate) fn agent(state: State, domain: u16, help: Option<(&str, &str)>, access: &Access) -> Agent<State> {
    let (help_file, help) = help.unwrap_or(("help/jumpseat", HELP));
    Agent::new(NAME, domain, state)
        .version(env!("CARGO_PKG_VERSION"))
        .pmns("pmns/jumpseat", PMNS)
        .help(help_file, help)
        .indom(Indom::of(SOURCES, |state: &State| state.sources.names()))
        .indom(Indom::of(TYPES, |state: &State| state.types.names()))
        .indom(Indom::of(REASONS, |state: &State| state.sources.reasons()))
        .indom(Indom::of(SPANS, |state: &State| &state.spans.names))
        .indom(Indom::of(SPAN_BUCKETS, |state: &State| &state.spans.buckets))
        .indom(
            Indom::of(SPAN_BOUNDS, |state: &State| &state.spans.bounds)
                .refreshed_by(|state: &mut State| state.spans.refresh_bounds()),
        )
        .indom(Indom::of(CALLS, |state: &State| &state.spans.services.instances))
        .indom(Indom::of(OBJECTIVES, |state: &State| &state.spans.objectives.instances))
        .indom(
            Indom::of(TOKENS, |state: &State| state.tokens.instances())
                .refreshed_by(|state: &mut State| state.tokens.refresh(&state.registry)),
        )
        .indom(Indom::of(SPAN_SERIES, |state: &State| &state.spans.series.instances))
        .indom(Indom::of(SERIES_SETS, |state: &State| state.series.instances(SERIES_SETS)))
        .indom(Indom::of(SERIES_BUCKETS, |state: &State| state.series.instances(SERIES_BUCKETS)))
        .indom(Indom::of(SERIES_QUANTILES, |state: &State| state.series.instances(SERIES_QUANTILES)))
        .indom(Indom::of(SCRAPE_TARGETS, |state: &State| &state.targets.instances))
        .indom(Indom::of(STREAMS, |state: &State| &state.streams.names))
        .metrics(metrics::all(access))
        .subtree(FIELD_ROOT, FieldMetrics)
        .subtree(DERIVED_ROOT, DerivedMetrics)
        .subtree(SERIES_ROOT, SeriesMetrics(Branch::Values))
        .subtree(EXEMPLAR_ROOT, SeriesMetrics(Branch::Exemplars))
        .subtree(START_ROOT, SeriesMetrics(Branch::Starts))
        .labels(|state, target, labels| labels::add(state, target, labels).map_err(Into::into))
        .label_generation(State::label_generation)
        .on_client_end(State::client_end)
        .on_pmcd(State::pmcd_event, State::pmcd_answer)
        .foreign_instances(|state, indom| state.derived.foreign.instances(indom))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_help_and_tables_fit_together() {
        let config = Config::default();
        let agent = RunningAgent::open(&Setup {
            config: &config,
            domain: crate::DEFAULT_DOMAIN,
            state_dir: None,
            help: None,
            signals: Signals::Leave,
            clients: Clients::Alone,
            trust: &Trust::default(),
        });
        if let Err(error) = agent {
            panic!("{error}");
        }
    }
}
