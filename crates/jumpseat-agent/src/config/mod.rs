//! What the configuration file says: TOML, every key optional.
//!
//! This is the data, one file for each table of the agent's own; a kind of source has its tables with it, in
//! `jumpseat_source`. [`Config::load`] (`load.rs`) reads a file and checks all of it.

mod confine;
mod derived;
mod dimensions;
pub(crate) mod document;
mod events;
mod fields;
mod handover;
mod log;
mod objective;
mod problem;
mod service_map;
mod spans;
mod tls;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use jumpseat_source::SocketConfig;
use jumpseat_source::follow::{CommandConfig, FileConfig, JournalConfig};
use jumpseat_source::otlp::OtlpConfig;
use jumpseat_source::rules::SourceRule;
use jumpseat_source::series::SeriesConfig;
use jumpseat_source::setting::InvalidKey;
use jumpseat_source::tail::TailConfig;
use jumpseat_source::tracefs::KernelConfig;
use pcp_net::Who;
use pcp_pmda::{Access, Grants};

pub use confine::ConfineConfig;
pub use derived::{DerivedConfig, MAX_OPERANDS, SAMPLE_INTERVAL};
pub use dimensions::{DimensionsConfig, MAX_DIMENSIONS, MIN_IDLE};
pub use events::{EventsConfig, FETCH_LIMIT, MAX_RECENT, MIN_SOURCE_BUDGET};
pub use fields::{FieldsConfig, MAX_FIELDS};
pub use handover::HandoverConfig;
pub use jumpseat_source::{ByteSize, Interval};
pub use log::{LogConfig, MIN_LOG_BUDGET, SYNC_INTERVAL, Syncing};
pub use objective::{MAX_OBJECTIVES, OBJECTIVE_WINDOW, ObjectiveConfig};
pub use problem::{ConfigError, ConfigProblem, InvalidTable, Mistake, OutOfRange};
pub use service_map::{MAP_WAIT, MAX_EDGES, MAX_PENDING, ServiceMapConfig};
pub use spans::{MAX_OPEN_SPANS, MAX_SERIES, MAX_SPANS, SPAN_WINDOW, SpansConfig};
pub use tls::TlsConfig;

pub use document::FormError;

pub(crate) use objective::check_all as check_objectives;
use problem::limit;

/// Everything the configuration file says. Keys that are not there take the defaults that
/// `install/jumpseat.toml` spells out.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The agent's domain number; option `-d` takes precedence.
    pub domain: Option<u16>,
    /// Where identifiers are kept across restarts; `None` is PCP's own place for it.
    pub state_dir: Option<PathBuf>,
    /// pmcd.conf says `notready` for this agent: pmcd waits until the agent says that it is.
    pub notready: bool,
    /// Limits of the event logs.
    pub events: EventsConfig,
    /// The event logs on disk.
    pub log: LogConfig,
    /// Limits of the field metrics.
    pub fields: FieldsConfig,
    /// The derived metrics.
    pub derived: DerivedConfig,
    /// Who may fetch and store.
    pub access: AccessConfig,
    /// Encrypted connections of direct clients.
    pub tls: TlsConfig,
    /// Who may change the control metrics.
    pub control: ControlConfig,
    /// What the process gives up.
    pub confine: ConfineConfig,
    /// What is left to the next agent.
    pub handover: HandoverConfig,
    /// The ingest sockets.
    pub socket: Vec<SocketConfig>,
    /// OpenTelemetry's protocol.
    pub otlp: OtlpConfig,
    /// Limits of metrics that others push.
    pub series: SeriesConfig,
    /// Limits of the span metrics.
    pub spans: SpansConfig,
    /// By what spans are told apart besides their names.
    pub dimensions: Vec<DimensionsConfig>,
    /// Which source's spans call which other's.
    pub service_map: ServiceMapConfig,
    /// What is expected of spans.
    pub objective: Vec<ObjectiveConfig>,
    /// Which whole traces are kept of sources that are sampled by tail.
    pub tail: TailConfig,
    /// What is to be done with the records of single sources.
    pub source: Vec<SourceRule>,
    /// Files to follow.
    pub file: Vec<FileConfig>,
    /// Commands whose output is a source.
    pub command: Vec<CommandConfig>,
    /// Systemd journals.
    pub journal: Vec<JournalConfig>,
    /// The kernel sources.
    pub kernel: Vec<KernelConfig>,
}

/// Who may fetch and who may store, on top of pmcd's own access control: entries of [`pcp_net::Who`].
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct AccessConfig {
    /// Who may fetch values.
    pub fetch: Vec<String>,
    /// Who may store them: filters for themselves, and with [`ControlConfig`] what is everybody's.
    pub store: Vec<String>,
    /// Users and passwords, for direct clients over TLS and Unix sockets; `jumpseat passwd` writes the file.
    pub passwords: Option<PathBuf>,
}

impl Default for AccessConfig {
    fn default() -> AccessConfig {
        AccessConfig { fetch: vec!["*".to_owned()], store: vec!["*".to_owned()], passwords: None }
    }
}

impl AccessConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidTable> {
        for (key, entries) in [("fetch", &self.fetch), ("store", &self.store)] {
            for entry in entries {
                Who::default().add(entry).map_err(|error| {
                    let invalid = InvalidKey::other(key, error.to_string());
                    InvalidTable { table: "access", nth: 0, invalid }
                })?;
            }
        }
        Ok(())
    }

    /// What it comes to. Entries that name nobody any more match nobody, and are told of in the log.
    pub(crate) fn grants(&self) -> Grants {
        Grants { fetch: who(&self.fetch, "access.fetch"), store: who(&self.store, "access.store") }
    }
}

/// The people that a list means; `key` is where it is, for messages.
pub(crate) fn who(entries: &[String], key: &str) -> Who {
    Who::of(entries.iter().map(String::as_str), |error| tracing::warn!("{key}: {error}"))
}

/// Who may change the control metrics, on top of pmcd's own access control.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ControlConfig {
    /// User names besides root and the user the agent runs as (but for `pcp`, which is not this agent's alone).
    pub users: Vec<String>,
}

impl ControlConfig {
    /// Who may change the control metrics. Under pmcd its own access control comes first; clients over TCP have
    /// no user, and pmcd by default lets none of them store.
    pub(crate) fn access(&self) -> Access {
        let Access::Users { mut uids, unknown } = Access::root_or_self(false) else { return Access::Anyone };
        for name in &self.users {
            match nix::unistd::User::from_name(name) {
                Ok(Some(user)) => uids.push(user.uid.as_raw()),
                // One who is gone must not keep the agent from starting.
                _ => tracing::warn!("control.users: there is no user {name:?} on this machine"),
            }
        }
        Access::Users { uids, unknown }
    }
}

impl Config {
    /// Has relative paths of definitions, of files to follow, and of certificates, passwords and tokens begin at a directory.
    pub(crate) fn start_paths_at(&mut self, directory: &Path) {
        let files = self.file.iter_mut().map(|file| &mut file.path);
        for path in self.derived.files.iter_mut().flatten().chain(files) {
            *path = directory.join(&*path);
        }
        if let Some(path) = &mut self.access.passwords {
            *path = directory.join(&*path);
        }
        self.tls.start_paths_at(directory);
        let receivers = self.socket.iter_mut().map(|socket| (&mut socket.tls, &mut socket.token_file));
        for (tls, tokens) in receivers.chain([(&mut self.otlp.tls, &mut self.otlp.token_file)]) {
            if let Some(tls) = tls {
                tls.start_paths_at(directory);
            }
            if let Some(path) = tokens {
                *path = directory.join(&*path);
            }
        }
    }

    /// Checks the keys outside of all tables.
    pub(crate) fn check_agent(&self) -> Result<(), OutOfRange> {
        let named = self.state_dir.as_ref().is_none_or(|dir| !dir.as_os_str().is_empty());
        limit(named, ("", "state_dir"), "\"\"", || "the path of a directory".to_owned())?;
        let Some(domain) = self.domain else { return Ok(()) };
        limit((1..=510).contains(&domain), ("", "domain"), domain, || "1 to 510".to_owned())
    }
}
