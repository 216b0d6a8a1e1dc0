//! What is exported: a context, the metrics of it that were asked for, and all that is known of them besides values.

use std::io;
use std::path::Path;
use std::sync::PoisonError;
use std::time::{Duration, SystemTime};

use hashbrown::HashMap;
use jumpseat_tools::{Call, Definitions, archive, complain, definitions};
use pcp_client::{
    Context, ContextKind, HostOptions, HostSpec, Mode, TextLevel, TextTarget, without_password,
};
use pcp_derive::Dialect;
use pcp_model::time::{Reference, Switches, Zone, parse_interval, parse_window};
use pcp_model::{Desc, Pmid, Timestamp};

use crate::args::ExportArgs;
use crate::formats::error::ExportError;
use crate::formats::instances::Instances;
use crate::formats::labels::Labels;

/// How messages begin.
pub(crate) const NAME: &str = "jumpseat export";

/// Time between two samples of a collector.
const INTERVAL: Duration = Duration::from_secs(1);

/// A metric that is exported.
#[derive(Clone, Debug)]
pub struct Metric {
    /// Its name, by which it was asked for or found below a name.
    pub name: String,
    /// Type, instance domain, semantics, units.
    pub desc: Desc,
}

/// The source of an export.
pub struct Source {
    /// The context, at the start of the window.
    pub context: Context,
    /// The name of the host that the metrics are of.
    pub host: String,
    /// The metrics, each once, in the order of the command line.
    pub metrics: Vec<Metric>,
    /// Names of instances.
    pub instances: Instances,
    /// Labels.
    pub labels: Labels,
    /// Names of the parameters of event records.
    fields: HashMap<Pmid, std::sync::Arc<str>>,
    /// In which times are written.
    pub zone: Option<Zone>,
    /// The window, an end only if there is one.
    pub window: (Timestamp, Option<Timestamp>),
    /// When what is exported began to be recorded; of a collector, now.
    pub began: Timestamp,
}

impl Source {
    /// Opens what a command line asks for. Metrics that are not there, or cannot be exported, are told of and left out.
    ///
    /// # Errors
    /// Why there is nothing to export.
    pub fn open(args: &ExportArgs) -> Result<Source, ExportError> {
        let call = Call::subcommand("export");
        let mut defined = Definitions::new(Dialect::default(), NAME);
        let archives = args.archives.join(",");
        let mut context = match archives.as_str() {
            "" => connect(args.host.as_deref())?,
            names => archive(names).map_err(ExportError::source(names))?,
        };
        tell_mended(&mut context);
        defined.load_defaults(&call);
        define(args, &context)?;
        let option = match (archives.as_str(), &args.host) {
            ("", None) => String::new(),
            ("", Some(host)) => format!(" -h {}", without_password(host)),
            (names, _) => format!(" -a {names}"),
        };
        let metrics = select(args, &mut context)?;
        if metrics.is_empty() {
            return Err(ExportError::NoMetrics { option });
        }
        let host = context.host_name().map_err(ExportError::source("the name of its host"))?;
        let zone = match (&args.timezone, args.hostzone) {
            (Some(zone), _) => Some(Zone::new(zone)),
            (None, true) => {
                Some(Zone::new(&context.time_zone().map_err(ExportError::source("the zone of its host"))?))
            }
            (None, false) => None,
        };
        let mut labels = Labels::default();
        if !archives.is_empty() {
            // Labels come with the first values: at the start there are none yet. The window sets mode and place again.
            let (_, end) = context.span().map_err(ExportError::source("its start and end"))?;
            context.set_mode(Mode::Forward, Some(end)).map_err(ExportError::source("its end"))?;
            labels.ask(&mut context, &metrics);
        }
        let (began, window) = window(args, &mut context, zone.as_ref())?;
        // Now its end was looked for.
        tell_mended(&mut context);
        Ok(Source {
            host,
            metrics,
            instances: Instances::default(),
            labels,
            fields: HashMap::default(),
            zone,
            window,
            began,
            context,
        })
    }

    /// Whether it is recorded, and not live.
    pub fn is_archive(&self) -> bool {
        self.context.kind() == ContextKind::Archive
    }

    /// The name of an instance; its number in brackets where the source does not know it. `None` for a metric without instances.
    pub fn instance(&mut self, metric: usize, inst: pcp_model::Inst, time: Timestamp) -> Option<&str> {
        let indom = self.metrics[metric].desc.indom;
        (indom != pcp_model::InDom::NULL).then(|| self.instances.name(&mut self.context, indom, inst, time))
    }

    /// What is said of a metric: the text of a line.
    pub fn one_line(&mut self, metric: usize) -> String {
        let pmid = self.metrics[metric].desc.pmid;
        self.context.text(TextTarget::Metric(pmid), TextLevel::OneLine).unwrap_or_default()
    }

    /// The name of a parameter of event records, or its number where it has none.
    pub fn field(&mut self, pmid: Pmid) -> std::sync::Arc<str> {
        let context = &mut self.context;
        let name = self.fields.entry(pmid).or_insert_with(|| {
            let names = context.names_of(pmid).unwrap_or_default();
            names.into_iter().next().unwrap_or_else(|| pmid.to_string()).into()
        });
        std::sync::Arc::clone(name)
    }
}

/// The time between two samples that a command line asks for; `None` for the recorded samples of an archive.
pub(crate) fn interval(args: &ExportArgs) -> Result<Option<Duration>, ExportError> {
    match &args.interval {
        None => Ok(args.archives.is_empty().then_some(INTERVAL)),
        Some(text) => match parse_interval(text) {
            Ok(Duration::ZERO) => {
                Err(ExportError::Usage("-t 0: samples take an interval above 0".to_owned()))
            }
            Ok(interval) => Ok(Some(interval)),
            Err(error) => Err(ExportError::Usage(format!("-t:\n{error}"))),
        },
    }
}

/// Tells what of damaged archives is done without, each once.
fn tell_mended(context: &mut Context) {
    context.take_mended().iter().for_each(|mended| complain!("{NAME}: Warning: {mended}"));
}

fn connect(host: Option<&str>) -> Result<Context, ExportError> {
    let (options, warnings) = HostOptions::from_env();
    warnings.iter().for_each(|warning| complain!("{NAME}: {warning}"));
    let host = host.unwrap_or("local:");
    let shown = without_password(host);
    let spec: HostSpec = host.parse().map_err(|error| ExportError::Usage(format!("-h {shown}: {error}")))?;
    Context::host_with(&spec, &options).map_err(ExportError::source(&shown))
}

/// Definitions of derived metrics: those of a file, and those among the operands.
fn define(args: &ExportArgs, context: &Context) -> Result<(), ExportError> {
    let registry = context.registry().clone();
    let mut registry = registry.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = &args.derived {
        let mut problem = |file: &Path, problem: &pcp_derive::ConfigProblem| {
            complain!("{}", problem.text(&file.display().to_string()).trim_end());
        };
        if !path.exists() {
            return Err(ExportError::Write { path: path.clone(), error: io::ErrorKind::NotFound.into() });
        }
        definitions::load(&mut registry, path, &mut problem)
            .map_err(|unreadable| ExportError::Usage(format!("-c {unreadable}")))?;
    }
    for (name, expression) in args.metrics.iter().filter_map(|word| word.split_once('=')) {
        let (name, expression) = (name.trim(), expression.trim());
        let registered = registry.register(name, expression);
        registered
            .map_err(|error| ExportError::Usage(error.report(name, expression).trim_end().to_owned()))?;
    }
    Ok(())
}

/// The metrics at and below the names of the operands, each once.
fn select(args: &ExportArgs, context: &mut Context) -> Result<Vec<Metric>, ExportError> {
    let wanted = args.metrics.iter().map(|word| name_of(word)).collect::<Result<Vec<&str>, ExportError>>()?;
    let below = context.traverse_each(&wanted).map_err(ExportError::source("names of metrics"))?;
    let mut names = Vec::new();
    for (name, found) in wanted.into_iter().zip(below) {
        match found {
            Ok(found) => names.extend(found),
            Err(error) => {
                let near = context.nearest_name(name);
                let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
                complain!("{NAME}: {name}: {error}{hint}");
            }
        }
    }
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let words: Vec<&str> = names.iter().map(String::as_str).collect();
    let pmids = context.lookup_names(&words).map_err(ExportError::source("names of metrics"))?;
    let known: Vec<(String, Pmid)> =
        names.into_iter().zip(pmids).filter_map(|(name, pmid)| Some((name, pmid?))).collect();
    let pmids: Vec<Pmid> = known.iter().map(|(_, pmid)| *pmid).collect();
    if pmids.is_empty() {
        return Ok(Vec::new());
    }
    let descs = context.descs(&pmids).map_err(ExportError::source("descriptors of metrics"))?;
    let mut metrics = Vec::with_capacity(known.len());
    let mut seen = hashbrown::HashSet::new();
    for ((name, pmid), desc) in known.into_iter().zip(descs) {
        match desc {
            // Two names of one metric, or a name that two operands stand for.
            Ok(desc) if seen.insert(pmid) => metrics.push(Metric { name, desc }),
            Ok(_) => {}
            Err(error) => complain!("{NAME}: {name}: {error}"),
        }
    }
    Ok(metrics)
}

/// The name in an operand, which may be a definition.
fn name_of(word: &str) -> Result<&str, ExportError> {
    let name = word.split_once('=').map_or(word, |(name, _)| name).trim();
    match name.is_empty() {
        true => Err(ExportError::Usage(format!("'{word}': write a metric, or a name in front of ="))),
        false => Ok(name),
    }
}

/// When recording began, and the window; an archive's context is set to where to start.
fn window(
    args: &ExportArgs,
    context: &mut Context,
    zone: Option<&Zone>,
) -> Result<(Timestamp, (Timestamp, Option<Timestamp>)), ExportError> {
    let now = SystemTime::now().into();
    let reference = match args.archives.is_empty() {
        true => Reference::live(now),
        false => {
            let (start, end) = context.span().map_err(ExportError::source("its start and end"))?;
            Reference { start, end, now }
        }
    };
    let switches = Switches {
        start: args.start.as_deref(),
        finish: args.finish.as_deref(),
        align: args.align.as_deref(),
        origin: args.origin.as_deref(),
    };
    let local = Zone::local();
    let window = parse_window(&switches, &reference, zone.unwrap_or(&local))
        .map_err(|error| ExportError::Usage(format!("the time window:\n{error}")))?;
    if !args.archives.is_empty() {
        let mode = match interval(args)? {
            Some(step) => Mode::Interpolate { step: i64::try_from(step.as_nanos()).unwrap_or(i64::MAX) },
            None => Mode::Forward,
        };
        context.set_mode(mode, Some(window.origin)).map_err(ExportError::source("its start"))?;
    }
    Ok((reference.start, (window.origin, window.finite_end())))
}
