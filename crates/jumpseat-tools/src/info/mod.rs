//! `jumpseat info`, which stands in for `pminfo(1)`: all about metrics (`docs/pcp/tools.md` 4).

mod events;
mod json;
mod metadata;
mod report;

use std::collections::HashMap;
use std::process::ExitCode;
use std::rc::Rc;

use pcp_client::{ClientError, Context};
use pcp_model::{InDom, Level, PmError, Pmid, ValueType};
use pcp_pdu::SetRef;

use crate::tool::{
    Answer, Call, CommandLine, Inquiry, Metric, Needs, Opt, Row, Standard, Tool, count, hint_name, open, put,
    report_unusable,
};
use metadata::Labels;

/// The command line.
pub(crate) const TOOL: Tool<InfoOption> = Tool {
    name: "pminfo",
    subcommand: "info",
    operands: "[metricname | pmid | indom]...",
    permute: true,
    operands_name_source: false,
    zone_needs_source: true,
    interval_parser: "pmParseInterval",
    rows: &[
        Row::Heading("General options"),
        Row::Standard(Standard::Archive),
        Row::Standard(Standard::Debug),
        Row::Standard(Standard::Host),
        Row::Standard(Standard::Container),
        Row::Standard(Standard::Local),
        Row::Standard(Standard::SpecLocal),
        Row::Standard(Standard::Namespace),
        Row::Standard(Standard::UniqueNames),
        Row::Standard(Standard::Origin),
        Row::Standard(Standard::TimeZone),
        Row::Standard(Standard::HostZone),
        Row::Standard(Standard::Version),
        Row::Standard(Standard::Help),
        Row::Before(Level::V721, &Row::Heading("Protocol options")),
        Row::Since(Level::V721, &Row::Heading("Protocol and reporting options")),
        Row::Own(
            InfoOption::Batch,
            Opt::with(Some('b'), "batch", "N", "fetch N metrics at a time for -f and -v [128]"),
        ),
        Row::Own(InfoOption::Desc, Opt::flag(Some('d'), "desc", "get and print metric description")),
        Row::Since(
            Level::V721,
            &Row::Own(
                InfoOption::DescOneLine,
                Opt::flag(Some('1'), "desc-oneline", "variant of -d with one output line per metric"),
            ),
        ),
        Row::Since(
            Level::V721,
            &Row::Own(
                InfoOption::MetadataErrors,
                Opt::flag(Some('e'), "metadata-errors", "like -v, but don't report metrics with no values"),
            ),
        ),
        Row::Own(
            InfoOption::Fetch,
            Opt::flag(Some('f'), "fetch", "fetch and print values for all instances"),
        ),
        Row::Own(
            InfoOption::FetchAll,
            Opt::flag(Some('F'), "fetchall", "fetch and print values for non-enumerable indoms"),
        ),
        Row::Own(InfoOption::FullInDom, Opt::flag(Some('I'), "fullindom", "print InDom in verbose format")),
        Row::Own(
            InfoOption::Labels,
            Opt::flag(Some('l'), "labels", "print InDom, metric and instance labels"),
        ),
        Row::Own(InfoOption::Pmid, Opt::flag(Some('m'), "pmid", "print PMID")),
        Row::Own(InfoOption::FullPmid, Opt::flag(Some('M'), "fullpmid", "print PMID in verbose format")),
        Row::Own(
            InfoOption::Series,
            Opt::flag(Some('s'), "series", "print source, metric, instance series identifiers"),
        ),
        Row::Own(
            InfoOption::OneLine,
            Opt::flag(Some('t'), "oneline", "get and display (terse) oneline text"),
        ),
        Row::Own(
            InfoOption::HelpText,
            Opt::flag(Some('T'), "helptext", "get and display (verbose) help text"),
        ),
        Row::Heading("Metrics options"),
        Row::Own(
            InfoOption::Derived,
            Opt::with(Some('c'), "derived", "FILE", "load global derived metric definitions from FILE(s)")
                .formerly(Level::V638, "load derived metric definitions from FILE(s)"),
        ),
        Row::Since(
            Level::V638,
            &Row::Own(
                InfoOption::Register,
                Opt::with(Some('r'), "register", "name=expr", "register a per-context derived metric"),
            ),
        ),
        Row::Own(
            InfoOption::Events,
            Opt::flag(Some('x'), "events", "unpack and report on any fetched event records"),
        ),
        Row::Own(
            InfoOption::Verify,
            Opt::flag(Some('v'), "verify", "verify mode, be quiet and only report errors"),
        ),
        // Taken, and not shown.
        Row::Before(Level::V721, &Row::Own(InfoOption::Unused, Opt::flag(Some('C'), "", ""))),
    ],
    extra: &[
        Row::Own(
            InfoOption::Json,
            Opt::flag(None, "json", "print one JSON object a line, by default all but help and labels"),
        ),
        Row::Standard(Standard::PcpLevel),
    ],
};

/// The options that no other tool has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InfoOption {
    Batch,
    Derived,
    Desc,
    DescOneLine,
    Events,
    Fetch,
    FetchAll,
    FullInDom,
    FullPmid,
    HelpText,
    Json,
    Labels,
    MetadataErrors,
    OneLine,
    Pmid,
    Register,
    Series,
    /// Does nothing, as in PCP.
    Unused,
    Verify,
}

/// What is to be reported.
#[derive(Default)]
struct InfoSettings {
    batch: Option<usize>,
    desc: bool,
    /// Descriptors on one line.
    desc_oneline: bool,
    full_indom: bool,
    fetch: bool,
    /// Also of metrics that want to be told which instances.
    fetch_all: bool,
    labels: bool,
    pmid: bool,
    full_pmid: bool,
    series: bool,
    oneline: bool,
    help: bool,
    events: bool,
    verify: bool,
    /// To verify metadata only, not whether there are values.
    only_metadata: bool,
    json: bool,
    /// Derived metrics to be added, `NAME=EXPRESSION`.
    definitions: Vec<String>,
}

impl InfoSettings {
    /// Reads the tool's own options.
    fn read(line: &mut CommandLine<InfoOption>) -> InfoSettings {
        let mut wanted = InfoSettings::default();
        while let Some(own) = line.next() {
            match own.option {
                InfoOption::Batch => match count(&own.argument).and_then(|batch| usize::try_from(batch).ok())
                {
                    Some(batch) => wanted.batch = Some(batch.max(1)),
                    None => line.complain("-b requires numeric argument"),
                },
                InfoOption::Derived => {
                    if let Err(error) = line.load_definitions(&own.argument) {
                        line.warn(&format!("derived configuration(s) error: {error}"));
                    }
                }
                InfoOption::Desc => wanted.desc = true,
                InfoOption::DescOneLine => (wanted.desc_oneline, wanted.desc) = (true, true),
                InfoOption::Events => (wanted.events, wanted.fetch) = (true, true),
                InfoOption::Fetch => wanted.fetch = true,
                InfoOption::FetchAll => (wanted.fetch_all, wanted.fetch) = (true, true),
                InfoOption::FullInDom => (wanted.full_indom, wanted.desc) = (true, true),
                InfoOption::FullPmid => (wanted.full_pmid, wanted.pmid) = (true, true),
                InfoOption::HelpText => wanted.help = true,
                InfoOption::Json => wanted.json = true,
                InfoOption::Labels => wanted.labels = true,
                InfoOption::MetadataErrors => (wanted.only_metadata, wanted.verify) = (true, true),
                InfoOption::OneLine => wanted.oneline = true,
                InfoOption::Pmid => wanted.pmid = true,
                InfoOption::Register => wanted.definitions.push(own.argument),
                InfoOption::Series => wanted.series = true,
                InfoOption::Unused => {}
                InfoOption::Verify => wanted.verify = true,
            }
        }
        wanted.settle();
        wanted
    }

    /// What follows from several options together.
    fn settle(&mut self) {
        if self.verify {
            // Only errors are reported then, so that nothing else has to be asked for.
            let definitions = std::mem::take(&mut self.definitions);
            let InfoSettings { batch, json, only_metadata, .. } = *self;
            *self = InfoSettings {
                batch,
                json,
                definitions,
                verify: true,
                only_metadata,
                ..InfoSettings::default()
            };
        } else if self.json && !self.reports() {
            (self.desc, self.fetch) = (true, true);
        }
    }

    fn reports(&self) -> bool {
        self.desc || self.fetch || self.labels || self.series || self.oneline || self.help || self.pmid
    }

    /// What has to be asked. The labels of an archive are those at the time of the values, so that these are fetched.
    fn needs(&self, archive: bool) -> Needs {
        Needs {
            values: self.fetch || self.verify || self.labels && archive,
            descs: self.desc || self.fetch || self.labels || self.series || self.verify,
            unknown_names: false,
        }
    }

    /// Whether a report has several lines, and so a blank one before it.
    fn is_long(&self) -> bool {
        self.desc || self.fetch || self.labels || self.help
    }
}

/// Names and type of the metric that an event parameter is of.
type Parameter = (Option<Rc<str>>, Result<ValueType, PmError>);

struct Info {
    wanted: InfoSettings,
    inquiry: Inquiry,
    labels: Labels,
    /// Names of metrics to report on, until they are enough for a batch.
    names: Vec<String>,
    /// How many are enough.
    batch: usize,
    /// Names and types of event parameters.
    parameters: HashMap<Pmid, Parameter>,
    /// Room for a line of the report.
    line: Vec<u8>,
    /// Whether an operand is nothing known.
    failed: bool,
    /// How the tool was called.
    call: Call,
}

/// Runs the tool.
pub(crate) fn run(call: Call, words: Vec<String>) -> ExitCode {
    report(call, words).unwrap_or_else(|code| code)
}

fn report(call: Call, words: Vec<String>) -> Result<ExitCode, ExitCode> {
    let mut line = CommandLine::new(&TOOL, call, words);
    let wanted = InfoSettings::read(&mut line);
    let mut ready = line.finish()?;
    let mut context = open(&mut ready)?;
    if let Err(error) = context.trim_names() {
        complain!("{}: pmTrimNameSpace: {}", ready.call.name, error.code().at(ready.call.level));
        return Err(ExitCode::FAILURE);
    }
    if !register(&mut context, &wanted.definitions, &ready.call) {
        return Err(ExitCode::FAILURE);
    }
    let inquiry = Inquiry::new(context, &ready)?;
    let mut info = Info {
        batch: inquiry.batch(wanted.batch),
        wanted,
        inquiry,
        labels: Labels::new(ready.call.pcp),
        names: Vec::new(),
        parameters: HashMap::new(),
        line: Vec::new(),
        failed: false,
        call: ready.call.clone(),
    };
    info.operands(&ready.operands);
    match info.inquiry.out.finish(&ready.call) && !info.failed {
        true => Ok(ExitCode::SUCCESS),
        false => Ok(ExitCode::FAILURE),
    }
}

/// Adds derived metrics to the context. False if any is refused, after messages about all that are.
fn register(context: &mut Context, definitions: &[String], call: &Call) -> bool {
    let mut good = true;
    for definition in definitions {
        let problem = match definition.split_once('=') {
            None => "bad register string, no =\n".to_owned(),
            Some((_, expression)) if expression.trim().is_empty() => {
                "bad register string, no expr after =\n".to_owned()
            }
            Some((name, expression)) => {
                let (name, expression) = (name.trim(), expression.trim_start());
                match context.add_derived(name, expression) {
                    Ok(_) => continue,
                    Err(ClientError::Derived(error)) => format!(
                        "per-context derived metric registration error:\n{}",
                        error.report(name, expression)
                    ),
                    Err(error) => {
                        format!("per-context derived metric registration error:\n{name}: {error}\n")
                    }
                }
            }
        };
        complain!("{}: {}", call.name, problem.to_string().trim_end());
        good = false;
    }
    good
}

impl Info {
    fn operands(&mut self, operands: &[String]) {
        if operands.is_empty() {
            self.below("");
        }
        for operand in operands {
            if self.inquiry.out.is_lost() {
                return;
            }
            match identifier(operand) {
                Some(Identifier::Metric(pmid)) => match self.inquiry.context.names_of(pmid) {
                    // A metric of several names is reported by one of them.
                    Ok(names) => names.into_iter().take(1).for_each(|name| self.add(name)),
                    Err(error) => self.unknown(operand, error.code()),
                },
                Some(Identifier::InDom(indom)) => self.indom(indom),
                None => self.below(operand),
            }
        }
        self.batch();
    }

    fn below(&mut self, name: &str) {
        match self.inquiry.context.traverse(name) {
            Ok(names) => names.into_iter().for_each(|name| self.add(name)),
            Err(error) => self.unknown(name, error.code()),
        }
    }

    fn unknown(&mut self, operand: &str, error: PmError) {
        let colon = if operand.is_empty() { "" } else { ": " };
        // It may be one that cannot be had here.
        report_unusable(&mut self.inquiry.context);
        complain!("Error: {operand}{colon}{}", error.at(self.call.level));
        hint_name(&mut self.inquiry.context, &self.call, operand, error);
        self.failed = true;
    }

    fn add(&mut self, name: String) {
        self.names.push(name);
        if self.names.len() == self.batch {
            self.batch();
        }
    }

    fn indom(&mut self, indom: InDom) {
        match (self.wanted.verify, self.wanted.json) {
            (true, _) => {}
            (_, true) => self.indom_json(indom),
            _ => self.indom_text(indom),
        }
    }

    /// Reports on the metrics that have been collected.
    fn batch(&mut self) {
        let names = std::mem::take(&mut self.names);
        if names.is_empty() || self.inquiry.out.is_lost() {
            return;
        }
        let archive = self.inquiry.origin.is_some();
        let needs = self.wanted.needs(archive);
        let Answer { unknown, metrics, values } = self.inquiry.ask(&names, needs);
        if let Some(metric) = metrics.first().filter(|_| needs.values && archive) {
            // The time is another one after the fetch.
            self.labels.move_to(metric.pmid);
        }
        unknown.into_iter().for_each(|(name, error)| self.failure(name, "pmLookupName", error));
        let fetched = match values {
            Ok(fetched) => fetched,
            Err(error) => {
                return metrics.iter().for_each(|metric| self.failure(metric.name, "pmFetch", error));
            }
        };
        // Of several that 6.3 asks a collector about at once it shows the one that fails with the others.
        let shows_failed = self.call.level >= Level::V638
            && needs.values
            && !archive
            && metrics.len() > 1
            && !self.wanted.json;
        let mut sets = fetched.sets();
        for metric in &metrics {
            let set = sets.next();
            match metric.desc {
                Err(error) if !shows_failed => self.failure(metric.name, "pmLookupDesc", error),
                _ => self.metric(metric, set),
            }
        }
        drop(sets);
        self.inquiry.reuse(fetched);
    }

    fn metric(&mut self, metric: &Metric<'_>, set: Option<SetRef<'_>>) {
        match (self.wanted.json, self.wanted.verify) {
            (true, _) => self.metric_json(metric, set),
            (_, true) => self.verify(metric, set),
            _ => self.metric_text(metric, set),
        }
    }

    /// Why there is nothing else to report on a metric.
    fn failure(&mut self, name: &str, call: &str, error: PmError) {
        match self.wanted.json {
            true => self.failure_json(name, call, error),
            false => put!(self.inquiry.out, "{name}: {call}: {}\n", error.at(self.call.level)),
        }
    }
}

/// What an operand that starts with a digit stands for.
enum Identifier {
    Metric(Pmid),
    InDom(InDom),
}

/// `DOMAIN.CLUSTER.ITEM` or `DOMAIN.SERIAL`; what follows is not looked at, as PCP does.
fn identifier(operand: &str) -> Option<Identifier> {
    let mut rest = operand;
    // A digit in front is enough to make it an identifier: no name of a metric begins with one.
    let mut number = |dot: bool| -> Option<u32> {
        if dot {
            rest = rest.strip_prefix('.')?;
        }
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at_checked(digits)?;
        rest = after;
        number.parse().ok()
    };
    let (domain, second) = (number(false)?, number(true)?);
    // Numbers that are too large lose their upper bits.
    let domain = (domain & 0x1ff) as u16;
    Some(match number(true) {
        None => Identifier::InDom(InDom::new(domain, second & 0x3f_ffff)),
        Some(item) => Identifier::Metric(Pmid::new(domain, (second & 0xfff) as u16, (item & 0x3ff) as u16)),
    })
}
