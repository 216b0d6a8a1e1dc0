//! The jumpseat agent itself: sources, event logs, client streams, and the metrics made of them.
//!
//! [`Seat::open`] puts everything together from a [`Config`] and starts the source threads; the binaries
//! then choose who is served, pmcd or direct clients, and run the event loop.

#[cfg(test)]
mod balance;
pub mod config;
mod derived;
mod fields;
mod interval;
mod metrics;
mod sampler;
mod sources;
mod spans;
mod state;
mod streams;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jumpseat_source::registry::{RegistryConfig, RegistryError};
use jumpseat_source::tracefs::KernelStats;
use jumpseat_source::{Inlet, Outlet, Registry, Rules};
use pcp_ids::IdsError;
use pcp_model::Inst;
use pcp_pmda::{Access, Agent, BuildError, Indom, LabelError, LabelList, LabelTarget, ServeError, Server};

pub use config::{Config, ConfigError};
pub use fields::Fields;
pub use interval::Interval;
pub use spans::{Spans, SpansConfig};
pub use state::{Source, State};
pub use streams::{FilterRefused, Stream, Streams};

use derived::{Catalogue, Derived, DerivedMetrics};
use fields::FieldMetrics;
use metrics::{BUCKETS, REASONS, SOURCES, SPANS, STREAMS, TYPES};
use sampler::Sampler;

/// The agent's domain number unless something else is said.
pub const DEFAULT_DOMAIN: u16 = 400;
/// The agent's name, under pmcd and in the name space.
pub const NAME: &str = "jumpseat";
/// The source text of the agent's name space.
pub const PMNS: &str = include_str!("../pmns/jumpseat");
/// The source text of the agent's help.
pub const HELP: &str = include_str!("../help/jumpseat");

/// Where identifiers are kept unless something else is said: PCP's own place for instance identifiers.
pub fn default_state_dir() -> PathBuf {
    let var = std::env::var_os("PCP_VAR_DIR").map_or_else(|| PathBuf::from("/var/lib/pcp"), PathBuf::from);
    var.join("config/pmda")
}

/// Why the agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum SeatError {
    /// The files with identifiers.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The file with the numbers of derived metrics.
    #[error(transparent)]
    Derived(#[from] IdsError),
    /// The tables do not fit together; a defect of this program.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The event loop.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// A source.
    #[error("{what}: {error}")]
    Source {
        /// What it is and where, such as `ingest socket /run/pcp/jumpseat.socket`.
        what: String,
        /// Why not.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// What becomes of SIGTERM, SIGINT and SIGHUP.
#[derive(Clone, Copy, Debug)]
pub enum Signals<'a> {
    /// They are left as they are.
    Leave,
    /// The first two end the event loop, SIGHUP reads limits and derived metrics again.
    Handle {
        /// The configuration file to read them from.
        reload: Option<&'a Path>,
    },
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
pub struct Seat {
    /// The event loop: tell it whom to serve, then run it.
    pub server: Server<State>,
    kernels: Vec<Arc<KernelStats>>,
    /// Running as long as this lives.
    _sources: sources::Running,
}

impl Seat {
    /// Puts the agent together and starts its sources.
    ///
    /// # Errors
    /// [`SeatError`]; nothing is left running then.
    pub fn open(setup: &Setup<'_>) -> Result<Seat, SeatError> {
        let &Setup { config, domain, state_dir, help, signals, clients } = setup;
        let (registry, definitions) = Registry::open(&RegistryConfig {
            domain,
            dir: state_dir.map(Path::to_owned),
            max_fields: config.fields.max as usize,
            max_sources: config.events.max_sources as usize,
            max_types: config.events.max_types as usize,
            max_spans: config.spans.max_names as usize,
            rules: Rules(config.source.clone()),
        })?;
        let queue = sources::queue(config);
        let (hand_over, deliveries) = crossbeam_channel::bounded(queue);
        let inlet = Inlet::new(definitions, deliveries);
        let mut state = State::new(Arc::clone(&registry), inlet, config.events.clone());
        state.set_rules(Rules(config.source.clone()));
        state.spans.limits = config.spans.clone();

        let mut server = Server::new(agent(state, domain, help, &access(config)).build()?)?;
        server.core().state.load = server.stats();
        let catalogue = Catalogue::new(server.core().fixed_metrics());
        let state = &mut server.core().state;
        state.derived = Derived::open(catalogue, state_dir, domain)?;
        state.configuration.1 = config.derived.clone();
        if let Signals::Handle { reload } = signals {
            // Before there are source threads, which must not get them.
            server.handle_signals()?;
            server.core().state.configuration.0 = reload.map(Path::to_owned);
            server.on_reload(|state| {
                state.reload();
            });
        }
        server.on_wake(|core| {
            core.state.drain();
            derived::take_report(core);
        });
        let host = (clients == Clients::Pmcd).then_some("local:");
        let handle = server.handle();
        let state = &mut server.core().state;
        if clients != Clients::Alone {
            let sampler = Sampler::new(Arc::new(move || handle.wake()));
            state.derived.foreign.enable(sampler, host, clients == Clients::Direct);
        }
        state.read_derived();

        let handle = server.handle();
        let outlet = Outlet {
            registry,
            out: hand_over,
            wake: Arc::new(move || handle.wake()),
            state_dir: state_dir.map(Path::to_owned),
        };
        let sources = sources::start(config, &outlet, &mut server.core().state)?;
        let kernels = server.core().state.kernels.clone();
        Ok(Seat { server, kernels, _sources: sources })
    }

    /// What the kernel sources tell of themselves.
    pub fn kernel_sources(&self) -> Vec<Arc<KernelStats>> {
        self.kernels.clone()
    }
}

fn agent(state: State, domain: u16, help: Option<(&str, &str)>, access: &Access) -> Agent<State> {
    let (help_file, help) = help.unwrap_or(("help/jumpseat", HELP));
    Agent::new(NAME, domain, state)
        .pmns("pmns/jumpseat", PMNS)
        .help(help_file, help)
        .indom(Indom::of(SOURCES, |state: &State| &state.source_names))
        .indom(Indom::of(TYPES, |state: &State| &state.type_names))
        .indom(Indom::of(REASONS, |state: &State| &state.reason_names))
        .indom(Indom::of(SPANS, |state: &State| &state.spans.names))
        .indom(Indom::of(BUCKETS, |state: &State| &state.spans.buckets))
        .indom(Indom::of(STREAMS, |state: &State| &state.streams.names))
        .metrics(metrics::all(access))
        .subtree("jumpseat.field", FieldMetrics)
        .subtree(derived::ROOT, DerivedMetrics)
        .labels(|state, target, labels| label(state, target, labels).map_err(Into::into))
        .label_generation(State::label_generation)
        .on_client_end(State::client_end)
        .foreign_instances(|state, indom| state.derived.foreign.instances(indom))
}

/// Who may change the control metrics. Under pmcd its own access control comes first; clients over TCP have
/// no user, and pmcd by default lets none of them store.
fn access(config: &Config) -> Access {
    let Access::Users { mut uids, unknown } = Access::root_or_self(false) else { return Access::Anyone };
    for name in &config.control.users {
        match nix::unistd::User::from_name(name) {
            Ok(Some(user)) => uids.push(user.uid.as_raw()),
            _ => tracing::warn!("control.users: there is no user {name:?} on this machine"),
        }
    }
    Access::Users { uids, unknown }
}

fn label(state: &State, target: LabelTarget, labels: &mut LabelList) -> Result<(), LabelError> {
    match target {
        LabelTarget::Domain => labels.add("agent", NAME),
        LabelTarget::Cluster(cluster) => match cluster {
            0 => labels.add("about", "agent"),
            1 => labels.add("about", "events"),
            2 => labels.add("about", "sources"),
            3 => labels.add("about", "clients"),
            4 => labels.add("about", "spans"),
            7 => labels.add("about", "kernel"),
            cluster if derived::CLUSTERS.contains(&cluster) => labels.add("about", "derived"),
            _ => labels.add("about", "fields"),
        },
        LabelTarget::InDom(indom) => match indom.serial() {
            SOURCES => labels.add("indom_name", "per source"),
            TYPES => labels.add("indom_name", "per source and event type"),
            STREAMS => labels.add("indom_name", "per client stream"),
            REASONS => labels.add("indom_name", "per source and reason"),
            SPANS => labels.add("indom_name", "per source and span"),
            BUCKETS => labels.add("indom_name", "per source, span and duration"),
            _ => Ok(()),
        },
        LabelTarget::Item(_) => Ok(()),
        LabelTarget::Instance(indom, inst) => match indom.serial() {
            SOURCES => match state.source_names.name(inst) {
                Some(name) => source_labels(state, inst, name, labels),
                None => Ok(()),
            },
            TYPES => match state.event_types.get(&inst) {
                Some(of) => {
                    labels.add("source", state.source_names.name(of.source).unwrap_or_default())?;
                    labels.add("type", of.event_type.as_str())
                }
                None => Ok(()),
            },
            SPANS => state.spans.get(inst).map_or(Ok(()), |span| span_labels(state, span, labels)),
            BUCKETS => match state.spans.of_bucket(inst) {
                Some((span, bucket)) => {
                    span_labels(state, span, labels)?;
                    labels.add("below", Spans::bucket_name(bucket))
                }
                None => Ok(()),
            },
            REASONS => {
                let (source, reason) = state::reason_of(inst);
                labels.add("source", state.source_names.name(source).unwrap_or_default())?;
                reason.map_or(Ok(()), |reason| labels.add("reason", reason.word()))
            }
            STREAMS => match state.streams.get(inst) {
                Some(stream) => {
                    labels.add("source", state.source_names.name(stream.source).unwrap_or_default())?;
                    labels.add("metric", streams::kind_word(stream.kind))
                }
                None => Ok(()),
            },
            _ => Ok(()),
        },
    }
}

fn span_labels(state: &State, span: &spans::Span, labels: &mut LabelList) -> Result<(), LabelError> {
    labels.add("source", state.source_names.name(span.source).unwrap_or_default())?;
    labels.add("span", span.name.as_str())
}

fn source_labels(state: &State, inst: Inst, name: &str, labels: &mut LabelList) -> Result<(), LabelError> {
    labels.add("source", name)?;
    let Some(source) = state.sources.get(&inst) else { return Ok(()) };
    if let Some(origin) = &source.origin {
        labels.add("kind", origin.kind)?;
        labels.add("address", origin.address.as_str())?;
        origin.service.as_ref().map_or(Ok(()), |service| labels.add("service", service.as_str()))?;
    }
    for (name, value) in source.labels.iter().flat_map(|given| given.iter()) {
        // What the sender calls like one of ours, or what is too much, is left out.
        let _ = labels.add_optional(name, value.as_str());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_help_and_tables_fit_together() {
        let config = Config::default();
        let seat = Seat::open(&Setup {
            config: &config,
            domain: DEFAULT_DOMAIN,
            state_dir: None,
            help: None,
            signals: Signals::Leave,
            clients: Clients::Alone,
        });
        if let Err(error) = seat {
            panic!("{error}");
        }
    }
}

/// The examples of README.md are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
