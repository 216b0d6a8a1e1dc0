//! `jumpseat probe`, which stands in for `pmprobe(1)`: how many values metrics have, and which (`docs/pcp/tools.md` 7).

use std::process::ExitCode;

use pcp_model::{Desc, InDom, Level, PmError};
use pcp_pdu::ValuesRef;

use serde_json::{Map, Value as Json, json};

use crate::tool::json::{error_json, json_line, value_json};
use crate::tool::{
    Answer, Call, CommandLine, Inquiry, Metric, Needs, Opt, Row, Standard, Tool, count, hint_name, open, put,
    report_unusable, values,
};

/// The command line.
pub(crate) const TOOL: Tool<ProbeOption> = Tool {
    name: "pmprobe",
    subcommand: "probe",
    operands: "[metricname ...]",
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
        Row::Standard(Standard::Derived),
        Row::Standard(Standard::Local),
        Row::Standard(Standard::SpecLocal),
        Row::Standard(Standard::Namespace),
        Row::Standard(Standard::Origin),
        Row::Standard(Standard::TimeZone),
        Row::Standard(Standard::HostZone),
        // Older releases show the letter, and do not take it.
        Row::Before(
            Level::V721,
            &Row::StandardAs(
                Standard::Version,
                Opt::flag(Some('d'), "version", "display version number and exit").without_letter(),
            ),
        ),
        Row::Since(
            Level::V721,
            &Row::StandardAs(
                Standard::Version,
                Opt::flag(Some('d'), "version", "display version number and exit"),
            ),
        ),
        Row::Standard(Standard::Help),
        Row::Heading("Protocol options"),
        Row::Own(
            ProbeOption::Batch,
            Opt::with(Some('b'), "batch", "N", "fetch at most N metrics at a time [128]"),
        ),
        Row::Heading("Reporting options"),
        Row::Own(
            ProbeOption::Force,
            Opt::flag(Some('f'), "force", "report all pmGetIndom or pmGetInDomArchive instances"),
        ),
        Row::Own(
            ProbeOption::Faster,
            Opt::flag(Some('F'), "faster", "assume given metric names are PMNS leaf nodes"),
        ),
        Row::Own(ProbeOption::External, Opt::flag(Some('I'), "external", "list external instance names")),
        Row::Own(ProbeOption::Internal, Opt::flag(Some('i'), "internal", "list internal instance numbers")),
        Row::Own(ProbeOption::Verbose, Opt::flag(Some('V'), "verbose", "report PDU operations (verbose)")),
        Row::Own(ProbeOption::Values, Opt::flag(Some('v'), "values", "list metric values")),
        // Taken, and not shown: what it once meant has gone.
        Row::Before(Level::V721, &Row::StandardAs(Standard::Help, Opt::flag(Some('e'), "", ""))),
    ],
    extra: &[
        Row::Own(ProbeOption::Json, Opt::flag(None, "json", "print one JSON object for each metric")),
        Row::Standard(Standard::PcpLevel),
    ],
};

/// The options that no other tool has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeOption {
    Batch,
    External,
    Faster,
    Force,
    Internal,
    Json,
    Values,
    Verbose,
}

/// What is to be reported.
#[derive(Default)]
struct ProbeSettings {
    batch: Option<usize>,
    /// All instances of the domain, not those with values.
    force: bool,
    /// Names are metrics'; do not look what is below.
    leaves: bool,
    external: bool,
    internal: bool,
    values: bool,
    /// Counts of PDUs at the end.
    pdus: bool,
    json: bool,
}

impl ProbeSettings {
    /// Reads the tool's own options.
    fn read(line: &mut CommandLine<ProbeOption>) -> ProbeSettings {
        let mut wanted = ProbeSettings::default();
        while let Some(own) = line.next() {
            match own.option {
                ProbeOption::Batch => {
                    match count(&own.argument).and_then(|batch| usize::try_from(batch).ok()) {
                        Some(batch @ 1..) => wanted.batch = Some(batch),
                        _ => line.complain("-b requires numeric argument"),
                    }
                }
                ProbeOption::External if wanted.values => line.complain("at most one of -I and -v allowed"),
                ProbeOption::External => wanted.external = true,
                ProbeOption::Faster => wanted.leaves = true,
                ProbeOption::Force => wanted.force = true,
                ProbeOption::Internal if wanted.values => line.complain("at most one of -i and -v allowed"),
                ProbeOption::Internal => wanted.internal = true,
                ProbeOption::Json => wanted.json = true,
                ProbeOption::Values if wanted.internal || wanted.external => {
                    line.complain("at most one of -v and (-i or -I) allowed");
                }
                ProbeOption::Values => wanted.values = true,
                ProbeOption::Verbose => wanted.pdus = true,
            }
        }
        wanted
    }

    /// Of one name alone PCP tells why it is unknown; among others it stands for a metric that nobody has.
    fn needs(&self, is_alone: bool) -> Needs {
        let descs = self.external || self.internal || self.values;
        Needs { values: true, descs, unknown_names: self.leaves && !is_alone }
    }

    /// Whether instances are listed that need not have values.
    fn lists_all_instances(&self) -> bool {
        self.force && (self.internal || self.external)
    }
}

/// Runs the tool.
pub(crate) fn run(call: Call, words: Vec<String>) -> ExitCode {
    report(call, words).unwrap_or_else(|code| code)
}

fn report(call: Call, words: Vec<String>) -> Result<ExitCode, ExitCode> {
    let mut line = CommandLine::new(&TOOL, call, words);
    let wanted = ProbeSettings::read(&mut line);
    let mut ready = line.finish()?;
    let context = open(&mut ready)?;
    let inquiry = Inquiry::new(context, &ready)?;
    let call = ready.call.clone();
    let mut probe = Probe { wanted, call, inquiry, names: Vec::new(), text: Vec::new() };
    probe.operands(&ready.operands);
    if probe.wanted.pdus {
        probe.pdus(ready.call.pcp);
    }
    match probe.inquiry.out.finish(&ready.call) {
        true => Ok(ExitCode::SUCCESS),
        false => Ok(ExitCode::FAILURE),
    }
}

struct Probe {
    wanted: ProbeSettings,
    /// How the tool was called.
    call: Call,
    inquiry: Inquiry,
    /// Names of the metrics to report on.
    names: Vec<String>,
    /// A value as text, reused from one to the next.
    text: Vec<u8>,
}

impl Probe {
    fn operands(&mut self, operands: &[String]) {
        if operands.is_empty() {
            self.below("");
        }
        for name in operands {
            match self.wanted.leaves {
                true => self.names.push(name.clone()),
                false => self.below(name),
            }
        }
        // All names are known before the first report: PCP's messages about names come first, too.
        let names = std::mem::take(&mut self.names);
        let is_alone = names.len() == 1 || self.wanted.batch == Some(1);
        for batch in names.chunks(self.inquiry.batch(self.wanted.batch)) {
            self.report(batch, is_alone);
            if self.inquiry.out.is_lost() {
                return;
            }
        }
    }

    /// How many PDUs of each type went both ways, in the order of the types.
    fn pdus(&mut self, as_pcp: bool) {
        let counts = self.inquiry.context.pdu_counts();
        if self.wanted.json {
            let (sent, received) = (counts.sent.as_slice(), counts.received.as_slice());
            return put!(
                self.inquiry.out,
                "{}\n",
                json_line(&json!({"pdus": {"sent": sent, "received": received}}))
            );
        }
        for (way, counts) in [("send", counts.sent), ("recv", counts.received)] {
            // PCP's tool does not know the last type, which it never receives.
            let counts = counts.get(..counts.len() - usize::from(as_pcp)).unwrap_or(&counts);
            put!(self.inquiry.out, "PDUs {way}");
            counts.iter().for_each(|count| put!(self.inquiry.out, " {count:3}"));
            put!(self.inquiry.out, "\nTotal: {}\n", counts.iter().sum::<u64>());
        }
    }

    fn below(&mut self, name: &str) {
        match self.inquiry.context.traverse(name) {
            Ok(names) => self.names.extend(names),
            Err(error) => {
                // It may be a derived one that cannot be had here.
                report_unusable(&mut self.inquiry.context);
                // Of the root PCP's tool says nothing.
                if !name.is_empty() {
                    self.failure(name, "pmTraversePMNS", error.code(), false);
                } else if !self.call.pcp {
                    complain!("{}: {}", self.call.name, error.code().at(self.call.level));
                }
                hint_name(&mut self.inquiry.context, &self.call, name, error.code());
            }
        }
    }

    /// A metric about which nothing else can be told. PCP's line names the request that failed for some requests
    /// only.
    fn failure(&mut self, name: &str, call: &str, error: PmError, tell_call: bool) {
        if self.wanted.json {
            let object = json!({"metric": name, "error": error_json(call, error)});
            return put!(self.inquiry.out, "{object}\n");
        }
        let text = error.at(self.call.level);
        match tell_call {
            true => put!(self.inquiry.out, "{name} {} {text} ({call})\n", error.0),
            false => put!(self.inquiry.out, "{name} {} {text}\n", error.0),
        }
    }

    /// Reports on metrics; `is_alone` if each of them was asked about by itself.
    fn report(&mut self, names: &[String], is_alone: bool) {
        let Answer { unknown, metrics, values } = self.inquiry.ask(names, self.wanted.needs(is_alone));
        for (name, error) in unknown {
            self.failure(name, "pmLookupName", error, false);
            hint_name(&mut self.inquiry.context, &self.call, name, error);
        }
        let fetched = match values {
            Ok(fetched) => fetched,
            // Those of an archive are known without values, too.
            Err(_) if self.inquiry.origin.is_some() && self.wanted.lists_all_instances() => {
                return self.instances_of(&metrics);
            }
            Err(error) => {
                return metrics.iter().for_each(|metric| self.failure(metric.name, "pmFetch", error, true));
            }
        };
        for (metric, set) in metrics.iter().zip(fetched.sets()) {
            let name = metric.name;
            match (metric.desc, set.values) {
                (Err(error), _) => self.failure(name, "pmLookupDesc", error, true),
                (Ok(Some(desc)), values) => self.details(name, &desc, values),
                (Ok(None), Ok(values)) if self.wanted.json => {
                    put!(
                        self.inquiry.out,
                        "{}\n",
                        json_line(&json!({"metric": name, "count": values.len()}))
                    );
                }
                (Ok(None), Ok(values)) => put!(self.inquiry.out, "{name} {}\n", values.len()),
                (Ok(None), Err(error)) => self.failure(name, "pmFetch", error, false),
            }
        }
        self.inquiry.reuse(fetched);
    }

    fn instances_of(&mut self, metrics: &[Metric<'_>]) {
        for metric in metrics {
            match self.inquiry.context.desc(metric.pmid) {
                Ok(desc) => self.all_instances(metric.name, &desc),
                Err(error) => self.failure(metric.name, "pmLookupDesc", error.code(), true),
            }
        }
    }

    fn details(&mut self, name: &str, desc: &Desc, values: Result<ValuesRef<'_>, PmError>) {
        if self.wanted.lists_all_instances() {
            return self.all_instances(name, desc);
        }
        let values = match values {
            Ok(values) => values,
            Err(error) => return self.failure(name, "pmFetch", error, false),
        };
        if self.wanted.json {
            let values: Vec<Json> = values
                .iter()
                .map(|(inst, value)| {
                    let mut object = self.instance_json(desc.indom, inst);
                    if self.wanted.values {
                        object.insert("value".to_owned(), value_json(value, desc.value_type));
                    }
                    Json::Object(object)
                })
                .collect();
            return put!(
                self.inquiry.out,
                "{}\n",
                json_line(&json!({"metric": name, "count": values.len(), "values": values}))
            );
        }
        put!(self.inquiry.out, "{name} {}", values.len());
        for (inst, value) in values.iter() {
            if self.wanted.values {
                self.text.clear();
                self.text.push(b' ');
                values::print(
                    value,
                    desc.value_type,
                    values::print_options(1, self.call.level),
                    &self.inquiry.clock,
                    &mut self.text,
                );
                self.inquiry.out.bytes(&self.text);
            }
            self.instance(desc.indom, inst);
        }
        put!(self.inquiry.out, "\n");
    }

    fn all_instances(&mut self, name: &str, desc: &Desc) {
        if desc.indom == InDom::NULL && self.wanted.json {
            return put!(
                self.inquiry.out,
                "{}\n",
                json_line(&json!({"metric": name, "count": 1, "instances": [{}]}))
            );
        }
        if desc.indom == InDom::NULL {
            // A metric without instances has one value, or none; PCP does not look which.
            put!(self.inquiry.out, "{name} 1");
            self.instance(InDom::NULL, 0);
            return put!(self.inquiry.out, "\n");
        }
        if self.inquiry.origin.is_some() {
            // All that the archive has ever seen.
            self.inquiry.instances.ask_ever(&mut self.inquiry.context, desc.indom);
        }
        let ids = match self.inquiry.instances.ids(&mut self.inquiry.context, desc.indom) {
            Ok(ids) => ids.to_vec(),
            Err(error) => return self.failure(name, "pmGetInDom", error, true),
        };
        if self.wanted.json {
            let instances: Vec<Json> =
                ids.into_iter().map(|inst| Json::Object(self.instance_json(desc.indom, inst))).collect();
            return put!(
                self.inquiry.out,
                "{}\n",
                json_line(&json!({"metric": name, "count": instances.len(), "instances": instances}))
            );
        }
        put!(self.inquiry.out, "{name} {}", ids.len());
        for inst in ids {
            self.instance(desc.indom, inst);
        }
        put!(self.inquiry.out, "\n");
    }

    /// Number and name of an instance; nothing of a singular metric.
    fn instance_json(&mut self, indom: InDom, inst: i32) -> Map<String, Json> {
        let mut object = Map::new();
        if indom != InDom::NULL {
            object.insert("id".to_owned(), json!(inst));
            let name = self.inquiry.instances.name(&mut self.inquiry.context, indom, inst).ok();
            object.insert("instance".to_owned(), json!(name));
        }
        object
    }

    fn instance(&mut self, indom: InDom, inst: i32) {
        if self.wanted.internal {
            match indom {
                InDom::NULL => put!(self.inquiry.out, " PM_IN_NULL"),
                _ => put!(self.inquiry.out, " ?{inst}"),
            }
        }
        if self.wanted.external {
            match indom {
                InDom::NULL => put!(self.inquiry.out, " PM_IN_NULL"),
                _ => match self.inquiry.instances.name(&mut self.inquiry.context, indom, inst) {
                    Ok(name) => put!(self.inquiry.out, " \"{name}\""),
                    Err(_) => put!(self.inquiry.out, " ?{inst}"),
                },
            }
        }
    }
}
