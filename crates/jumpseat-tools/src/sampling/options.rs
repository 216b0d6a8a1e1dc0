//! The command lines of `val` and `events`.

use std::time::Duration;

use super::spec::{self, MetricSource, MetricSpec};
use super::trace;
use crate::tool::{CommandLine, Opt, Row, Standard, Tool, count};

/// PCP's first name for the program that has two.
pub(crate) const PMVAL: &str = "pmval";

/// What the command lines of both names have in common.
pub(crate) const SAMPLING: Tool<SamplingOption> = Tool {
    name: PMVAL,
    subcommand: "val",
    operands: "metricname",
    permute: true,
    operands_name_source: true,
    zone_needs_source: false,
    interval_parser: "pmParseHighResInterval",
    rows: ROWS,
    extra: &[BEYOND, JSON, Row::Standard(Standard::PcpLevel)],
};

const ROWS: &[Row<SamplingOption>] = &[
    Row::Heading("General options"),
    Row::Standard(Standard::Align),
    Row::Standard(Standard::Archive),
    Row::Standard(Standard::Debug),
    Row::Standard(Standard::GuiMode),
    Row::Standard(Standard::Host),
    Row::Standard(Standard::Namespace),
    Row::Standard(Standard::Origin),
    Row::Standard(Standard::GuiPort),
    Row::Standard(Standard::Start),
    Row::Standard(Standard::Samples),
    Row::Standard(Standard::Finish),
    Row::Standard(Standard::Interval),
    Row::Standard(Standard::TimeZone),
    Row::Standard(Standard::HostZone),
    Row::Standard(Standard::Version),
    Row::Standard(Standard::Help),
    Row::Standard(Standard::SpecLocal),
    Row::Standard(Standard::Local),
    Row::Standard(Standard::Container),
    Row::Standard(Standard::Derived),
    Row::Heading("Reporting options"),
    Row::Own(
        SamplingOption::Delay,
        Opt::flag(Some('d'), "delay", "delay, pause between updates for archive replay"),
    ),
    Row::Own(
        SamplingOption::Precision,
        Opt::with(Some('f'), "precision", "N", "fixed output format with N digits precision"),
    ),
    Row::Own(
        SamplingOption::Instances,
        Opt::with(Some('i'), "instances", "INST", "comma-separated metrics instance list"),
    ),
    Row::Own(
        SamplingOption::Raw,
        Opt::flag(Some('r'), "raw", "output raw counter values (no rate conversion)"),
    ),
    Row::Own(
        SamplingOption::NoInterp,
        Opt::with(Some('U'), "nointerp", "FILE", "non-interpolated fetching; ignores interval"),
    ),
    Row::Own(SamplingOption::Verbose, Opt::flag(Some('v'), "verbose", "increase diagnostic output")),
    Row::Own(
        SamplingOption::Width,
        Opt::with(Some('w'), "width", "N", "set the width of each column of output"),
    ),
    Row::Own(
        SamplingOption::Filter,
        Opt::with(Some('x'), "filter", "VALUE", "store to the metric before fetching (filter)"),
    ),
    Row::Own(
        SamplingOption::Timestamp,
        Opt::flag(Some('X'), "timestamp", "include date and microseconds in reported timestamps"),
    ),
];

/// The heading of what PCP's program does not have.
pub(crate) const BEYOND: Row<SamplingOption> = Row::Heading("Beyond PCP");

/// One JSON object a sample, or an event record.
pub(crate) const JSON: Row<SamplingOption> =
    Row::Own(SamplingOption::Json, Opt::flag(None, "json", "one JSON object a sample, or an event record"));

/// The options that no other tool has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SamplingOption {
    Delay,
    Filter,
    Instances,
    Json,
    NoInterp,
    Perfetto,
    Precision,
    Raw,
    Since,
    Timestamp,
    Verbose,
    Width,
}

/// What is to be sampled, and how it is to be shown.
#[derive(Default)]
pub(super) struct SamplingSettings {
    /// Keep to the interval in archives, too.
    pub delay: bool,
    /// Digits after the point.
    pub precision: Option<usize>,
    /// How often the date and more digits of the second are asked for.
    pub dated: usize,
    /// Names of instances; none means all of them.
    pub instances: Vec<String>,
    /// Whether any were named, be it none.
    pub some_instances: bool,
    /// Whether they were named together with the metric.
    pub bracketed: bool,
    /// Counters as they are.
    pub raw: bool,
    /// The records of an archive as they are.
    pub uninterpolated: bool,
    /// Tell of samples without event records.
    pub verbose: bool,
    /// Columns of a value.
    pub width: Option<usize>,
    /// What to store to the metric first.
    pub filter: Option<String>,
    /// Where in the records of a host to begin.
    pub since: Option<String>,
    /// Write JSON.
    pub json: bool,
    /// The file to write a trace to.
    pub perfetto: Option<String>,
    /// Time between two samples.
    pub interval: Option<Duration>,
    /// The metric.
    pub metric: String,
}

impl SamplingSettings {
    /// Reads the options of both tools, and the metric's specification.
    pub(super) fn read(line: &mut CommandLine<SamplingOption>) -> SamplingSettings {
        let mut wanted = SamplingSettings::default();
        while let Some(own) = line.next() {
            let number = || count(&own.argument).and_then(|n| usize::try_from(n).ok());
            match own.option {
                SamplingOption::Delay => wanted.delay = true,
                SamplingOption::Filter => wanted.filter = Some(own.argument),
                SamplingOption::Instances => {
                    wanted.some_instances = true;
                    wanted.instances.extend(spec::names(&own.argument));
                }
                SamplingOption::Json => wanted.json = true,
                SamplingOption::NoInterp => {
                    wanted.uninterpolated = true;
                    match line.common().host {
                        Some(_) => line.complain("only one host or archive allowed"),
                        None => line.common().archives.push(own.argument),
                    }
                }
                SamplingOption::Perfetto => wanted.perfetto = Some(own.argument),
                SamplingOption::Precision => match number() {
                    Some(digits) => wanted.precision = Some(digits),
                    None => line.complain("-f requires +ve numeric argument"),
                },
                SamplingOption::Raw => wanted.raw = true,
                SamplingOption::Since => wanted.since = Some(own.argument),
                SamplingOption::Timestamp => wanted.dated += 1,
                SamplingOption::Verbose => wanted.verbose = true,
                SamplingOption::Width => match number() {
                    // No wider than `format!` makes them.
                    Some(width @ 1..) => wanted.width = Some(width.min(u16::MAX.into())),
                    _ => line.complain("-w requires +ve numeric argument"),
                },
            }
        }
        wanted.check(line);
        wanted
    }

    /// Checks what can only be known when all options are, and reads the metric's specification.
    fn check(&mut self, line: &mut CommandLine<SamplingOption>) {
        self.interval = line.common().interval;
        if self.perfetto.is_some() && self.json {
            line.complain("--perfetto writes a trace and --json writes JSON: choose one of them");
        }
        if self.perfetto.as_deref() == Some(trace::STDOUT) && line.common().zone.is_some() {
            line.complain("--perfetto - writes a trace, which has no time zone: leave -z and -Z out");
        }
        // Of what is wrong PCP tells of the options first; the metric is looked at when these are right, and then what depends
        // on the source that it may name.
        if line.is_wrong() {
            return;
        }
        let operands = line.operands();
        let [operand] = &operands[..] else {
            return line.complain(match operands.len() {
                0 => "error - no metricname specified",
                _ => "error - too many arguments",
            });
        };
        match MetricSpec::parse(operand) {
            Ok(spec) => self.take(spec, line),
            Err(text) => line.show(&text),
        }
        line.check_source();
        let archive = !line.common().archives.is_empty();
        if self.delay && !archive {
            line.complain("delay can only be used with archives");
        }
        if self.since.is_some() && archive {
            line.complain("since can only be used with hosts: -S is for archives");
        }
    }

    /// Takes over what the metric's specification says, its source too.
    fn take(&mut self, spec: MetricSpec, line: &mut CommandLine<SamplingOption>) {
        let archive = !line.common().archives.is_empty();
        self.metric = spec.metric;
        if !spec.instances.is_empty() {
            self.instances = spec.instances;
            // Those in brackets win over -i, as they are nearer to the metric.
            (self.some_instances, self.bracketed) = (true, true);
        }
        match spec.source {
            None => {}
            Some(MetricSource::Host(_)) if archive => line.complain("only one host or archive allowed"),
            Some(MetricSource::Host(host)) => line.common().host = Some(host),
            Some(MetricSource::Archive(_)) if line.common().host.is_some() => {
                line.complain("only one host or archive allowed");
            }
            Some(MetricSource::Archive(name)) => line.common().archives = vec![name],
            Some(MetricSource::Local) => line.common().local = true,
        }
    }
}
