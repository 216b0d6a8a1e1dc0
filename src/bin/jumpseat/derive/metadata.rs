//! Where `derive check` and `derive explain` know metrics from: a collector, this very agent, or a file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use clap::Args;
use jumpseat::client::Connection;
use jumpseat::derive::{Dialect, Level, Meta, Registry, Source};
use jumpseat::model::{InDom, PmError, Pmid, Semantics, Units, UnitsVocabulary, ValueType};
use jumpseat::seat::{self, Config, Seat, Setup, Signals};

/// How long a collector may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// pmcd's port.
const PORT: u16 = 44321;

/// Options of the language and of where metrics come from.
#[derive(Args)]
pub struct MetadataArgs {
    /// Ask this collector about metrics: HOST or HOST:PORT.
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
    pub fn dialect(&self) -> Dialect {
        self.level.map_or_else(Dialect::default, Dialect::strict)
    }

    /// The metrics, if there is anything to know them from.
    pub fn open(&self) -> io::Result<Option<Metadata>> {
        if let Some(host) = &self.host {
            let port = if host.contains(':') { host.clone() } else { format!("{host}:{PORT}") };
            let connection = Connection::open(port.as_str(), PATIENCE)
                .map_err(|error| io::Error::other(format!("{host}: {error}")))?;
            return Ok(Some(Metadata::Host(Box::new(connection))));
        }
        if self.agent {
            // Its derived metrics are not real ones, and would hide definitions of the same names.
            let mut config = Config::default();
            config.derived.files = Some(Vec::new());
            let setup = Setup {
                config: &config,
                domain: seat::DEFAULT_DOMAIN,
                state_dir: None,
                help: None,
                signals: Signals::Leave,
            };
            return Ok(Some(Metadata::Agent(Box::new(Seat::open(&setup).map_err(io::Error::other)?))));
        }
        let Some(file) = &self.metrics else {
            return Ok(None);
        };
        let text = fs::read_to_string(file).map_err(|error| named(file, error))?;
        Ok(Some(Metadata::File(recorded(&text).map_err(|error| named(file, error))?)))
    }
}

/// Loads what `PCP_DERIVED_CONFIG` may name: a configuration file, every file of a directory and those below it
/// in the order of their names, or several of these with colons between them. What is neither file nor directory
/// is left out, as `pmLoadDerivedConfig(3)` does.
pub fn load(registry: &mut Registry, path: &Path, problems: &mut Vec<String>) -> io::Result<usize> {
    if path.is_dir() {
        let mut entries: Vec<PathBuf> =
            fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
        entries.sort();
        return entries.iter().try_fold(0, |sum, entry| Ok(sum + load(registry, entry, problems)?));
    }
    if path.exists() && !path.is_file() {
        return Ok(0);
    }
    if let Some(list) = path.to_str().filter(|text| text.contains(':') && !path.exists()) {
        let list = list.strip_suffix(':').unwrap_or(list);
        return list.split(':').try_fold(0, |sum, one| Ok(sum + load(registry, Path::new(one), problems)?));
    }
    let loaded = registry.load(&fs::read(path).map_err(|error| named(path, error))?);
    problems.extend(loaded.problems.iter().map(|problem| problem.report(&path.display().to_string())));
    Ok(loaded.registered)
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
pub enum Metadata {
    /// From a file.
    File(Recorded),
    /// From a collector.
    Host(Box<Connection>),
    /// From the agent's own tables.
    Agent(Box<Seat>),
}

impl Source for Metadata {
    fn pmid(&mut self, name: &str) -> Result<Pmid, PmError> {
        match self {
            Metadata::File(metrics) => metrics.get(name).map(|(pmid, _)| *pmid).ok_or(PmError::NAME),
            Metadata::Host(connection) => connection
                .lookup_names(&[name])
                .ok()
                .and_then(|pmids| pmids.into_iter().next().flatten())
                .ok_or(PmError::NAME),
            Metadata::Agent(seat) => seat.server.core().pmid(name),
        }
    }

    fn meta(&mut self, pmid: Pmid) -> Result<Meta, PmError> {
        match self {
            Metadata::File(metrics) => {
                metrics.values().find(|(other, _)| *other == pmid).map(|(_, meta)| *meta).ok_or(PmError::PMID)
            }
            Metadata::Host(connection) => connection.desc(pmid).map(Meta::from).map_err(|_| PmError::PMID),
            Metadata::Agent(seat) => seat.server.core().desc(pmid).map(Meta::from),
        }
    }
}
