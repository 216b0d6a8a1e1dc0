//! `jumpseat val` and `jumpseat events`, which stand in for `pmval(1)` and `pmevent(1)`: one metric's values, sample
//! by sample (spec `tools.md` 5 and 6). In PCP the two are one program by two names, and so they are here.

mod header;
mod json;
mod pace;
mod plan;
mod rate;
mod real;
mod records;
mod samples;
mod setup;
mod spec;
mod style;
mod table;

use std::process::ExitCode;
use std::time::Duration;

use crate::tool::{Call, Opt, Options, Row, Standard, Tool, count};
use spec::{Source, Spec};

pub use json::typed_param;
pub use records::{Names, for_each_record};

/// `pmval`.
pub const VAL: Tool = Tool { name: "pmval", subcommand: "val", extra: JSON, ..EVENTS };

/// `pmevent`.
pub const EVENTS: Tool = Tool {
    name: "pmevent",
    subcommand: "events",
    operands: "metricname",
    permute: true,
    local_failure: "establish local context",
    zone_needs_source: false,
    interval_parser: "pmParseHighResInterval",
    rows: &[
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
        Row::Own(Opt::flag(Some('d'), "delay", "delay, pause between updates for archive replay")),
        Row::Own(Opt::with(Some('f'), "precision", "N", "fixed output format with N digits precision")),
        Row::Own(Opt::with(Some('i'), "instances", "INST", "comma-separated metrics instance list")),
        Row::Own(Opt::flag(Some('r'), "raw", "output raw counter values (no rate conversion)")),
        Row::Own(Opt::with(Some('U'), "nointerp", "FILE", "non-interpolated fetching; ignores interval")),
        Row::Own(Opt::flag(Some('v'), "verbose", "increase diagnostic output")),
        Row::Own(Opt::with(Some('w'), "width", "N", "set the width of each column of output")),
        Row::Own(Opt::with(Some('x'), "filter", "VALUE", "store to the metric before fetching (filter)")),
        Row::Own(Opt::flag(Some('X'), "timestamp", "include date and microseconds in reported timestamps")),
    ],
    extra: &[
        Row::Heading("Beyond PCP"),
        Row::Own(Opt::flag(None, "json", "one JSON object a sample, with typed values")),
        Row::Own(Opt::with(None, "perfetto", "FILE", "write event records as a trace for ui.perfetto.dev")),
    ],
};

const JSON: &[Row] = &[
    Row::Heading("Beyond PCP"),
    Row::Own(Opt::flag(None, "json", "one JSON object a sample, with typed values")),
];

/// What is wanted.
#[derive(Default)]
struct Wanted {
    delay: bool,
    precision: Option<usize>,
    /// How often the date and more digits of the second are wanted.
    dated: usize,
    /// Names of instances; none means all of them.
    instances: Vec<String>,
    /// Whether any were named, be it none.
    some_instances: bool,
    /// Whether they were named together with the metric.
    bracketed: bool,
    raw: bool,
    uninterpolated: bool,
    verbose: bool,
    width: Option<usize>,
    filter: Option<String>,
    json: bool,
    perfetto: Option<String>,
    interval: Option<Duration>,
    /// The metric.
    metric: String,
}

/// Runs the tool under its first name.
pub fn run_val(call: Call, words: Vec<String>) -> ExitCode {
    run(&VAL, call, words)
}

/// Runs the tool under its second name.
pub fn run_events(call: Call, words: Vec<String>) -> ExitCode {
    run(&EVENTS, call, words)
}

fn run(tool: &'static Tool, call: Call, words: Vec<String>) -> ExitCode {
    let mut options = Options::new(tool, call, words);
    let mut wanted = Wanted::default();
    while let Some(own) = options.next() {
        let number = || count(&own.argument).and_then(|n| usize::try_from(n).ok());
        match own.name {
            "delay" => wanted.delay = true,
            "precision" => match number() {
                Some(digits) => wanted.precision = Some(digits),
                None => options.complain("-f requires +ve numeric argument"),
            },
            "instances" => {
                wanted.some_instances = true;
                wanted.instances.extend(spec::names(&own.argument));
            }
            "raw" => wanted.raw = true,
            "nointerp" => {
                wanted.uninterpolated = true;
                match options.common().host {
                    Some(_) => options.complain("only one host or archive allowed"),
                    None => options.common().archives.push(own.argument),
                }
            }
            "timestamp" => wanted.dated += 1,
            "verbose" => wanted.verbose = true,
            "width" => match number() {
                // No wider than `format!` makes them.
                Some(width @ 1..) => wanted.width = Some(width.min(u16::MAX.into())),
                _ => options.complain("-w requires +ve numeric argument"),
            },
            "filter" => wanted.filter = Some(own.argument),
            "json" => wanted.json = true,
            "perfetto" => wanted.perfetto = Some(own.argument),
            _ => {}
        }
    }
    check(&mut options, &mut wanted);
    let ready = match options.finish() {
        Ok(ready) => ready,
        Err(code) => return code,
    };
    match setup::Subject::new(ready, &wanted) {
        Ok(subject) => samples::run(subject, wanted),
        Err(code) => code,
    }
}

/// Checks what can only be known when all options are, and reads the metric's specification.
fn check(options: &mut Options, wanted: &mut Wanted) {
    wanted.interval = options.common().interval;
    let archive = !options.common().archives.is_empty();
    if wanted.delay && !archive {
        options.complain("delay can only be used with archives");
    }
    if options.is_wrong() {
        return;
    }
    let operands = options.operands();
    let [operand] = &operands[..] else {
        return options.complain(match operands.len() {
            0 => "error - no metricname specified",
            _ => "error - too many arguments",
        });
    };
    let spec = match Spec::parse(operand) {
        Ok(spec) => spec,
        Err(text) => return options.show(&text),
    };
    wanted.metric = spec.metric;
    if !spec.instances.is_empty() {
        wanted.instances = spec.instances;
        (wanted.some_instances, wanted.bracketed) = (true, true);
    }
    match spec.source {
        None => {}
        Some(Source::Host(_)) if archive => options.complain("only one host or archive allowed"),
        Some(Source::Host(host)) => options.common().host = Some(host),
        Some(Source::Archive(_)) if options.common().host.is_some() => {
            options.complain("only one host or archive allowed");
        }
        Some(Source::Archive(name)) => options.common().archives = vec![name],
        Some(Source::Local) => options.common().local = true,
    }
}
