//! Where `derive check` and `derive explain` know metrics from: a collector, this very agent, or a file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::Args;
use jumpseat_agent::{self as agent, Clients, Config, RunningAgent, Setup, Signals, Trust};
use pcp_client::{Context, without_password};
use pcp_derive::{BindError, BindErrorKind, ConfigProblem, Dialect, Level, Meta, MetricSource, Registry};
use pcp_model::text::nearest;
use pcp_model::{InDom, PmError, Pmid, Semantics, Units, UnitsVocabulary, ValueType};

use crate::definitions;

/// Options of the language and of where metrics come from.
#[derive(Args)]
pub(super) struct MetadataArgs {
    /// Ask this collector about metrics: HOST, HOST:PORT, unix:SOCKET or as PCPIntro(1) has it.
    #[arg(short = 'H', long, value_name = "HOST", conflicts_with = "metrics")]
    host: Option<String>,

    /// Know the metrics of the jumpseat agent; it need not run.
    #[arg(short, long, conflicts_with_all = ["host", "metrics"])]
    agent: bool,

    /// Read metrics from a file: NAME TYPE SEMANTICS INDOM UNITS a line, - for no instances, none for no units.
    #[arg(short, long, value_name = "FILE")]
    metrics: Option<PathBuf>,

    /// Accept only what this PCP release knows: 6.0.3, 6.3.8 or 7.2.1.
    #[arg(long, value_name = "RELEASE")]
    level: Option<Level>,
}

impl MetadataArgs {
    /// The language.
    pub(super) fn dialect(&self) -> Dialect {
        self.level.map_or_else(Dialect::default, Dialect::strict)
    }

    /// What to do about a name that is not known, if anything can be said.
    pub(super) fn hint(&self, error: &BindError, metadata: &mut Metadata) -> Option<String> {
        let (BindErrorKind::UnknownOperand(name) | BindErrorKind::UnknownInTernary(name)) = &error.kind
        else {
            return None;
        };
        if let Some(near) = metadata.nearest(name) {
            return Some(format!("did you mean {near}?"));
        }
        (self.agent && !name.starts_with("jumpseat.")).then(|| {
            "--agent knows the metrics of the jumpseat agent only; for those of other agents ask a pmcd that has \
             all of them: --host"
                .to_owned()
        })
    }

    /// The metrics, if there is anything to know them from.
    pub(super) fn open(&self) -> io::Result<Option<Metadata>> {
        if let Some(host) = &self.host {
            let failed = |error| io::Error::other(format!("{}: {error}", without_password(host)));
            let context = Context::host(host).map_err(failed)?;
            return Ok(Some(Metadata::Host(Box::new(context))));
        }
        if self.agent {
            // Its derived metrics are not real ones, and would hide definitions of the same names.
            let mut config = Config::default();
            config.derived.files = Some(Vec::new());
            let setup = Setup {
                config: &config,
                domain: agent::DEFAULT_DOMAIN,
                state_dir: None,
                help: None,
                signals: Signals::Leave,
                clients: Clients::Alone,
                trust: &Trust::default(),
            };
            return Ok(Some(Metadata::Agent(Box::new(
                RunningAgent::open(&setup).map_err(io::Error::other)?,
            ))));
        }
        let Some(file) = &self.metrics else {
            return Ok(None);
        };
        let text = fs::read_to_string(file).map_err(|error| named(file, error))?;
        Ok(Some(Metadata::File(recorded(&text).map_err(|error| named(file, error))?)))
    }
}

/// Loads what `PCP_DERIVED_CONFIG` may name; see [`definitions::load`]. Problems are put as people read them.
pub(super) fn load(registry: &mut Registry, path: &Path, problems: &mut Vec<String>) -> io::Result<usize> {
    let mut problem =
        |file: &Path, problem: &ConfigProblem| problems.push(problem.report(&file.display().to_string()));
    Ok(definitions::load(registry, path, &mut problem)?)
}

fn named(path: &Path, error: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {error}", path.display()))
}

/// Metrics by name.
type Recorded = HashMap<String, (Pmid, Meta)>;

fn recorded(text: &str) -> Result<Recorded, String> {
    let mut metrics = Recorded::new();
    let lines = text.lines().enumerate().filter(|(_, line)| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#')
    });
    for (number, line) in lines {
        let bad = |what: &str| format!("line {}: {what}", number + 1);
        let mut words = line.split_whitespace();
        let mut word = |what: &str| words.next().ok_or_else(|| bad(&format!("{what} missing")));
        let name = word("metric name")?.to_owned();
        let kind = word("type")?;
        let value_type = (0..=10).map(ValueType::from_code).find(|t| t.name().eq_ignore_ascii_case(kind));
        let semantics = word("semantics")?;
        let semantics = [Semantics::Counter, Semantics::Instant, Semantics::Discrete]
            .into_iter()
            .find(|s| s.name().eq_ignore_ascii_case(semantics));
        let indom = match word("instance domain")? {
            "-" => InDom::NULL,
            indom => indom.parse().map_err(|_| bad("instance domain is neither - nor D.S"))?,
        };
        let units = words.collect::<Vec<_>>().join(" ");
        let units = if units == "none" { "" } else { &units };
        let (units, _) =
            Units::parse(units, UnitsVocabulary::Extra).map_err(|error| bad(&error.to_string()))?;
        let meta = Meta {
            value_type: value_type.ok_or_else(|| bad("unknown type"))?,
            indom,
            semantics: Some(semantics.ok_or_else(|| bad("unknown semantics"))?),
            units,
        };
        // Recorded metrics have no PMIDs; any that differ will do.
        let pmid = Pmid(u32::try_from(metrics.len()).unwrap_or(u32::MAX >> 2));
        metrics.insert(name, (pmid, meta));
    }
    Ok(metrics)
}

/// What is known about metrics.
pub(super) enum Metadata {
    /// From a file.
    File(Recorded),
    /// From a collector.
    Host(Box<Context>),
    /// From the agent's own tables.
    Agent(Box<RunningAgent>),
}

impl Metadata {
    /// The name that must have been meant by one that there is not.
    fn nearest(&mut self, name: &str) -> Option<String> {
        match self {
            Metadata::File(metrics) => nearest(name, metrics.keys().map(String::as_str)).map(str::to_owned),
            Metadata::Host(context) => context.nearest_name(name),
            Metadata::Agent(running) => {
                let names = running.server.core().traverse("").ok()?;
                nearest(name, names.iter().map(String::as_str)).map(str::to_owned)
            }
        }
    }
}

impl MetricSource for Metadata {
    fn pmid(&mut self, name: &str) -> Result<Pmid, PmError> {
        match self {
            Metadata::File(metrics) => metrics.get(name).map(|(pmid, _)| *pmid).ok_or(PmError::NAME),
            Metadata::Host(context) => context.pmid(name).map_err(|_| PmError::NAME),
            Metadata::Agent(running) => running.server.core().pmid(name),
        }
    }

    fn meta(&mut self, pmid: Pmid) -> Result<Meta, PmError> {
        match self {
            Metadata::File(metrics) => {
                metrics.values().find(|(other, _)| *other == pmid).map(|(_, meta)| *meta).ok_or(PmError::PMID)
            }
            Metadata::Host(context) => context.desc(pmid).map(Meta::from).map_err(|_| PmError::PMID),
            Metadata::Agent(running) => running.server.core().desc(pmid).map(Meta::from),
        }
    }
}
