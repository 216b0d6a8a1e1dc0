//! `jumpseat info`, which stands in for `pminfo(1)`: all about metrics (spec `tools.md` 4).

mod events;
mod json;
mod metadata;
mod report;

use std::collections::HashMap;
use std::process::ExitCode;
use std::rc::Rc;

use jumpseat::client::{ClientError, Context, Fetched, Mode};
use jumpseat::model::{Desc, InDom, PmError, Pmid, Timestamp, ValueType};

use crate::tool::{
    Call, Clock, Instances, Opt, Options, Out, Row, Standard, Tool, count, open, put, replay_from,
    tell_of_definitions,
};
use metadata::Labels;

/// The command line.
pub const TOOL: Tool = Tool {
    name: "pminfo",
    subcommand: "info",
    operands: "[metricname | pmid | indom]...",
    permute: true,
    local_failure: "make standalone connection on localhost",
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
        Row::Heading("Protocol options"),
        Row::Own(Opt::with(Some('b'), "batch", "N", "fetch N metrics at a time for -f and -v [128]")),
        Row::Own(Opt::flag(Some('d'), "desc", "get and print metric description")),
        Row::Own(Opt::flag(Some('f'), "fetch", "fetch and print values for all instances")),
        Row::Own(Opt::flag(Some('F'), "fetchall", "fetch and print values for non-enumerable indoms")),
        Row::Own(Opt::flag(Some('I'), "fullindom", "print InDom in verbose format")),
        Row::Own(Opt::flag(Some('l'), "labels", "print InDom, metric and instance labels")),
        Row::Own(Opt::flag(Some('m'), "pmid", "print PMID")),
        Row::Own(Opt::flag(Some('M'), "fullpmid", "print PMID in verbose format")),
        Row::Own(Opt::flag(Some('s'), "series", "print source, metric, instance series identifiers")),
        Row::Own(Opt::flag(Some('t'), "oneline", "get and display (terse) oneline text")),
        Row::Own(Opt::flag(Some('T'), "helptext", "get and display (verbose) help text")),
        Row::Heading("Metrics options"),
        Row::Own(Opt::with(
            Some('c'),
            "derived",
            "FILE",
            "load global derived metric definitions from FILE(s)",
        )),
        Row::Own(Opt::with(Some('r'), "register", "name=expr", "register a per-context derived metric")),
        Row::Own(Opt::flag(Some('x'), "events", "unpack and report on any fetched event records")),
        Row::Own(Opt::flag(Some('v'), "verify", "verify mode, be quiet and only report errors")),
    ],
    extra: &[Row::Own(Opt::flag(
        None,
        "json",
        "print one JSON object a line, by default all but help and labels",
    ))],
};

/// Metrics asked about with one request of each kind.
const BATCH: usize = 128;

/// What is wanted.
#[derive(Default)]
struct Wanted {
    batch: usize,
    desc: bool,
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
    json: bool,
}

impl Wanted {
    /// Takes one of the tool's own options; false if it is none of these.
    fn take(&mut self, name: &str) {
        match name {
            "desc" => self.desc = true,
            "events" => (self.events, self.fetch) = (true, true),
            "fetch" => self.fetch = true,
            "fetchall" => (self.fetch_all, self.fetch) = (true, true),
            "fullindom" => (self.full_indom, self.desc) = (true, true),
            "fullpmid" => (self.full_pmid, self.pmid) = (true, true),
            "helptext" => self.help = true,
            "json" => self.json = true,
            "labels" => self.labels = true,
            "oneline" => self.oneline = true,
            "pmid" => self.pmid = true,
            "series" => self.series = true,
            "verify" => self.verify = true,
            _ => {}
        }
    }

    /// What follows from several options together.
    fn settle(&mut self) {
        if self.verify {
            *self = Wanted { batch: self.batch, json: self.json, verify: true, ..Wanted::default() };
        } else if self.json && !self.reports() {
            (self.desc, self.fetch) = (true, true);
        }
    }

    fn reports(&self) -> bool {
        self.desc || self.fetch || self.labels || self.series || self.oneline || self.help || self.pmid
    }

    fn needs_desc(&self) -> bool {
        self.desc || self.fetch || self.labels || self.series || self.verify
    }

    fn needs_values(&self) -> bool {
        self.fetch || self.verify
    }

    /// Whether a report has several lines, and so a blank one before it.
    fn is_long(&self) -> bool {
        self.desc || self.fetch || self.labels || self.help
    }
}

/// A metric to report on.
struct Metric<'a> {
    name: &'a str,
    pmid: Pmid,
    /// Its descriptor, if there is need of it.
    desc: Option<Desc>,
}

impl Metric<'_> {
    fn indom(&self) -> InDom {
        self.desc.map_or(InDom::NULL, |desc| desc.indom)
    }

    fn value_type(&self) -> ValueType {
        self.desc.map_or(ValueType::Unknown, |desc| desc.value_type)
    }
}

/// Names and type of the metric that an event parameter is of.
type Parameter = (Option<Rc<str>>, Result<ValueType, PmError>);

struct Info {
    wanted: Wanted,
    context: Context,
    /// Where each metric's first record is looked for, in an archive.
    origin: Option<Timestamp>,
    instances: Instances,
    labels: Labels,
    clock: Clock,
    out: Out,
    /// Names of metrics to report on, until they are enough for a batch.
    names: Vec<String>,
    fetched: Fetched,
    /// Names and types of event parameters.
    parameters: HashMap<Pmid, Parameter>,
    /// Whether an operand is nothing known.
    failed: bool,
    /// How the tool was called.
    name: String,
}

/// Runs the tool.
pub fn run(call: Call, words: Vec<String>) -> ExitCode {
    let mut options = Options::new(&TOOL, call, words);
    let mut wanted = Wanted { batch: BATCH, ..Wanted::default() };
    let mut definitions = Vec::new();
    while let Some(own) = options.next() {
        match own.name {
            "batch" => match count(&own.argument).and_then(|batch| usize::try_from(batch).ok()) {
                Some(batch) => wanted.batch = batch.max(1),
                None => options.complain("-b requires numeric argument"),
            },
            "derived" => {
                if let Err(error) = options.load_definitions(&own.argument) {
                    options.warn(&format!("derived configuration(s) error: {error}"));
                }
            }
            "register" => definitions.push(own.argument),
            name => wanted.take(name),
        }
    }
    let mut ready = match options.finish() {
        Ok(ready) => ready,
        Err(code) => return code,
    };
    let mut context = match open(&mut ready) {
        Ok(context) => context,
        Err(code) => return code,
    };
    if let Err(error) = context.trim_names() {
        eprintln!("{}: pmTrimNameSpace: {}", ready.call.name, error.code());
        return ExitCode::FAILURE;
    }
    if !register(&mut context, &definitions, &ready.call) {
        return ExitCode::FAILURE;
    }
    wanted.settle();
    let mut out = Out::new();
    let (clock, origin) = match replay_from(&ready, &mut context, &mut out) {
        Ok(found) => found,
        Err(code) => return code,
    };
    if origin.is_some() {
        wanted.batch = 1;
    }
    let mut info = Info {
        wanted,
        context,
        origin,
        instances: Instances::default(),
        labels: Labels::new(ready.call.pcp),
        clock,
        out,
        names: Vec::new(),
        fetched: Fetched::new(),
        parameters: HashMap::new(),
        failed: false,
        name: ready.call.name.clone(),
    };
    info.operands(&ready.operands);
    match info.out.finish(&ready.call) && !info.failed {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
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
        eprint!("{}: {problem}", call.name);
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
            if self.out.is_lost() {
                return;
            }
            match identifier(operand) {
                Some(Identifier::Metric(pmid)) => match self.context.names_of(pmid) {
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
        match self.context.traverse(name) {
            Ok(names) => names.into_iter().for_each(|name| self.add(name)),
            Err(error) => self.unknown(name, error.code()),
        }
    }

    fn unknown(&mut self, operand: &str, error: PmError) {
        let colon = if operand.is_empty() { "" } else { ": " };
        eprintln!("Error: {operand}{colon}{error}");
        self.failed = true;
    }

    fn add(&mut self, name: String) {
        self.names.push(name);
        if self.names.len() == self.wanted.batch {
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
        if names.is_empty() || self.out.is_lost() {
            return;
        }
        let refs: Vec<&str> = names.iter().map(String::as_str).collect();
        let found = match self.context.lookup_names(&refs) {
            Ok(pmids) => pmids,
            Err(error) => {
                refs.iter().for_each(|name| self.failure(name, "pmLookupName", error.code()));
                return;
            }
        };
        let (mut wanted, mut pmids) = (Vec::with_capacity(names.len()), Vec::with_capacity(names.len()));
        for (&name, pmid) in refs.iter().zip(found) {
            match pmid {
                Some(pmid) => {
                    wanted.push(name);
                    pmids.push(pmid);
                }
                None => self.failure(name, "pmLookupName", PmError::NAME),
            }
        }
        if pmids.is_empty() {
            return;
        }
        let mut fetched = std::mem::take(&mut self.fetched);
        // Labels are those at the time of the values.
        if self.wanted.needs_values() || self.wanted.labels && self.origin.is_some() {
            self.rewind();
            if let Err(error) = self.context.fetch(&pmids, &mut fetched) {
                wanted.iter().for_each(|name| self.failure(name, "pmFetch", error.code()));
                return;
            }
        } else {
            fetched.clear();
        }
        let descs: Vec<Option<Result<Desc, PmError>>> = match self.wanted.needs_desc() {
            false => vec![None; pmids.len()],
            true => match self.context.descs(&pmids) {
                Ok(descs) => descs.into_iter().map(Some).collect(),
                Err(error) => vec![Some(Err(error.code())); pmids.len()],
            },
        };
        tell_of_definitions(&mut self.context);
        let mut sets = fetched.sets();
        for ((name, pmid), desc) in wanted.into_iter().zip(pmids).zip(descs) {
            let set = sets.next();
            match desc.transpose() {
                Err(error) => self.failure(name, "pmLookupDesc", error),
                Ok(desc) => self.metric(&Metric { name, pmid, desc }, set),
            }
        }
        drop(sets);
        self.fetched = fetched;
    }

    /// Goes back to where each metric is looked for: then it is another time, with other instances and labels.
    fn rewind(&mut self) {
        if let Some(origin) = self.origin {
            // Archives have this mode.
            let _ = self.context.set_mode(Mode::Forward, Some(origin));
            self.instances = Instances::default();
            self.labels.forget();
        }
    }

    fn metric(&mut self, metric: &Metric<'_>, set: Option<jumpseat::pdu::SetRef<'_>>) {
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
            false => put!(self.out, "{name}: {call}: {error}\n"),
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
