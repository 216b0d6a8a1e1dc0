//! `jumpseat probe`, which stands in for `pmprobe(1)`: how many values metrics have, and which (spec `tools.md` 7).

use std::process::ExitCode;

use jumpseat::client::{Context, Fetched, Mode};
use jumpseat::model::{Desc, InDom, PmError, Pmid, Timestamp};
use jumpseat::pdu::ValuesRef;

use serde_json::{Map, Value as Json, json};

use crate::tool::json::{error_json, value_json};
use crate::tool::{
    Call, Clock, Instances, Opt, Options, Out, Row, Standard, Tool, count, open, put, replay_from,
    tell_of_definitions, values,
};

/// The command line.
pub const TOOL: Tool = Tool {
    name: "pmprobe",
    subcommand: "probe",
    operands: "[metricname ...]",
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
        Row::Standard(Standard::Derived),
        Row::Standard(Standard::Local),
        Row::Standard(Standard::SpecLocal),
        Row::Standard(Standard::Namespace),
        Row::Standard(Standard::Origin),
        Row::Standard(Standard::TimeZone),
        Row::Standard(Standard::HostZone),
        Row::Own(
            Opt::flag(Some('d'), "version", "display version number and exit")
                .without_letter()
                .means(Standard::Version),
        ),
        Row::Standard(Standard::Help),
        Row::Heading("Protocol options"),
        Row::Own(Opt::with(Some('b'), "batch", "N", "fetch at most N metrics at a time [128]")),
        Row::Heading("Reporting options"),
        Row::Own(Opt::flag(Some('f'), "force", "report all pmGetIndom or pmGetInDomArchive instances")),
        Row::Own(Opt::flag(Some('F'), "faster", "assume given metric names are PMNS leaf nodes")),
        Row::Own(Opt::flag(Some('I'), "external", "list external instance names")),
        Row::Own(Opt::flag(Some('i'), "internal", "list internal instance numbers")),
        Row::Own(Opt::flag(Some('V'), "verbose", "report PDU operations (verbose)")),
        Row::Own(Opt::flag(Some('v'), "values", "list metric values")),
    ],
    extra: &[Row::Own(Opt::flag(None, "json", "print one JSON object for each metric"))],
};

/// Metrics asked about with one request of each kind.
const BATCH: usize = 128;

/// What is wanted.
struct Wanted {
    batch: usize,
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

impl Wanted {
    fn needs_desc(&self) -> bool {
        self.external || self.internal || self.values
    }
}

/// Runs the tool.
pub fn run(call: Call, words: Vec<String>) -> ExitCode {
    let mut options = Options::new(&TOOL, call, words);
    let mut wanted = Wanted {
        batch: BATCH,
        force: false,
        leaves: false,
        external: false,
        internal: false,
        values: false,
        pdus: false,
        json: false,
    };
    while let Some(own) = options.next() {
        match own.name {
            "batch" => match count(&own.argument).and_then(|batch| usize::try_from(batch).ok()) {
                Some(batch @ 1..) => wanted.batch = batch,
                _ => options.complain("-b requires numeric argument"),
            },
            "force" => wanted.force = true,
            "faster" => wanted.leaves = true,
            "external" if wanted.values => options.complain("at most one of -I and -v allowed"),
            "external" => wanted.external = true,
            "internal" if wanted.values => options.complain("at most one of -i and -v allowed"),
            "internal" => wanted.internal = true,
            "values" if wanted.internal || wanted.external => {
                options.complain("at most one of -v and (-i or -I) allowed");
            }
            "values" => wanted.values = true,
            "verbose" => wanted.pdus = true,
            "json" => wanted.json = true,
            _ => {}
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
    let mut out = Out::new();
    let (clock, origin) = match replay_from(&ready, &mut context, &mut out) {
        Ok(found) => found,
        Err(code) => return code,
    };
    if origin.is_some() {
        wanted.batch = 1;
    }
    let mut probe = Probe {
        wanted,
        context,
        origin,
        instances: Instances::default(),
        clock,
        out,
        names: Vec::new(),
        fetched: Fetched::new(),
        text: Vec::new(),
    };
    probe.operands(&ready.operands);
    if probe.wanted.pdus {
        probe.pdus(ready.call.pcp);
    }
    match probe.out.finish(&ready.call) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

struct Probe {
    wanted: Wanted,
    context: Context,
    /// Where each metric's first record is looked for, in an archive.
    origin: Option<Timestamp>,
    instances: Instances,
    clock: Clock,
    out: Out,
    /// Names of the metrics to report on.
    names: Vec<String>,
    fetched: Fetched,
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
        let names = std::mem::take(&mut self.names);
        for batch in names.chunks(self.wanted.batch) {
            self.report(batch);
            if self.out.is_lost() {
                return;
            }
        }
    }

    /// How many PDUs of each type went both ways, in the order of the types.
    fn pdus(&mut self, as_pcp: bool) {
        let counts = self.context.pdu_counts();
        if self.wanted.json {
            let (sent, received) = (counts.sent.as_slice(), counts.received.as_slice());
            return put!(self.out, "{}\n", json!({"pdus": {"sent": sent, "received": received}}));
        }
        for (way, counts) in [("send", counts.sent), ("recv", counts.received)] {
            // PCP's tool does not know the last type, which it never receives.
            let counts = counts.get(..counts.len() - usize::from(as_pcp)).unwrap_or(&counts);
            put!(self.out, "PDUs {way}");
            counts.iter().for_each(|count| put!(self.out, " {count:3}"));
            put!(self.out, "\nTotal: {}\n", counts.iter().sum::<u64>());
        }
    }

    fn below(&mut self, name: &str) {
        match self.context.traverse(name) {
            Ok(names) => self.names.extend(names),
            Err(error) => {
                self.failure(name, "pmTraversePMNS", error.code(), false);
            }
        }
    }

    /// A metric about which nothing else can be told. PCP's line names the request that failed for some requests
    /// only.
    fn failure(&mut self, name: &str, call: &str, error: PmError, tell_call: bool) {
        if self.wanted.json {
            let object = json!({"metric": name, "error": error_json(call, error)});
            return put!(self.out, "{object}\n");
        }
        match tell_call {
            true => put!(self.out, "{name} {} {error} ({call})\n", error.0),
            false => put!(self.out, "{name} {} {error}\n", error.0),
        }
    }

    /// Reports on metrics.
    fn report(&mut self, names: &[String]) {
        let refs: Vec<&str> = names.iter().map(String::as_str).collect();
        let pmids = match self.context.lookup_names(&refs) {
            Ok(pmids) => pmids,
            Err(_) if self.wanted.leaves && self.origin.is_some() => vec![None; names.len()],
            Err(error) => {
                let error = error.code();
                names.iter().for_each(|name| self.failure(name, "pmLookupName", error, false));
                return;
            }
        };
        let mut metrics: Vec<(&str, Pmid)> = Vec::with_capacity(names.len());
        for (name, pmid) in refs.iter().copied().zip(pmids) {
            match pmid {
                Some(pmid) => metrics.push((name, pmid)),
                None if self.wanted.leaves => metrics.push((name, Pmid::NULL)),
                None => self.failure(name, "pmLookupName", PmError::NAME, false),
            }
        }
        if metrics.is_empty() {
            return;
        }
        let pmids: Vec<Pmid> = metrics.iter().map(|(_, pmid)| *pmid).collect();
        if let Some(origin) = self.origin {
            // Archives have this mode. At another time there are other instances.
            let _ = self.context.set_mode(Mode::Forward, Some(origin));
            self.instances = Instances::default();
        }
        if let Err(error) = self.context.fetch(&pmids, &mut self.fetched) {
            let error = error.code();
            if self.origin.is_some() && self.wanted.force && (self.wanted.internal || self.wanted.external) {
                // Instances are known without values, too.
                return self.instances_of(&metrics);
            }
            metrics.iter().for_each(|(name, _)| self.failure(name, "pmFetch", error, true));
            return;
        }
        let descs = if self.wanted.needs_desc() { self.descs(&pmids) } else { Vec::new() };
        tell_of_definitions(&mut self.context);
        let fetched = std::mem::take(&mut self.fetched);
        let mut descs = descs.into_iter();
        for (&(name, _), set) in metrics.iter().zip(fetched.sets()) {
            match (descs.next(), set.values) {
                (Some(Err(error)), _) => self.failure(name, "pmLookupDesc", error, true),
                (Some(Ok(desc)), values) => self.details(name, &desc, values),
                (None, Ok(values)) if self.wanted.json => {
                    put!(self.out, "{}\n", json!({"metric": name, "count": values.len()}));
                }
                (None, Ok(values)) => put!(self.out, "{name} {}\n", values.len()),
                (None, Err(error)) => self.failure(name, "pmFetch", error, false),
            }
        }
        self.fetched = fetched;
    }

    fn instances_of(&mut self, metrics: &[(&str, Pmid)]) {
        for &(name, pmid) in metrics {
            match self.context.desc(pmid) {
                Ok(desc) => self.all_instances(name, &desc),
                Err(error) => self.failure(name, "pmLookupDesc", error.code(), true),
            }
        }
    }

    fn descs(&mut self, pmids: &[Pmid]) -> Vec<Result<Desc, PmError>> {
        match self.context.descs(pmids) {
            Ok(descs) => descs,
            Err(error) => vec![Err(error.code()); pmids.len()],
        }
    }

    fn details(&mut self, name: &str, desc: &Desc, values: Result<ValuesRef<'_>, PmError>) {
        let listed = self.wanted.internal || self.wanted.external;
        if self.wanted.force && listed {
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
            return put!(self.out, "{}\n", json!({"metric": name, "count": values.len(), "values": values}));
        }
        put!(self.out, "{name} {}", values.len());
        for (inst, value) in values.iter() {
            if self.wanted.values {
                self.text.clear();
                self.text.push(b' ');
                values::print(value, desc.value_type, values::print_options(1), &self.clock, &mut self.text);
                self.out.bytes(&self.text);
            }
            self.instance(desc.indom, inst);
        }
        put!(self.out, "\n");
    }

    fn all_instances(&mut self, name: &str, desc: &Desc) {
        if desc.indom == InDom::NULL && self.wanted.json {
            return put!(self.out, "{}\n", json!({"metric": name, "count": 1, "instances": [{}]}));
        }
        if desc.indom == InDom::NULL {
            put!(self.out, "{name} 1");
            self.instance(InDom::NULL, 0);
            return put!(self.out, "\n");
        }
        if self.origin.is_some() {
            // All that the archive has ever seen.
            self.instances.ask_ever(&mut self.context, desc.indom);
        }
        let ids = match self.instances.ids(&mut self.context, desc.indom) {
            Ok(ids) => ids.to_vec(),
            Err(error) => return self.failure(name, "pmGetInDom", error, true),
        };
        if self.wanted.json {
            let instances: Vec<Json> =
                ids.into_iter().map(|inst| Json::Object(self.instance_json(desc.indom, inst))).collect();
            return put!(
                self.out,
                "{}\n",
                json!({"metric": name, "count": instances.len(), "instances": instances})
            );
        }
        put!(self.out, "{name} {}", ids.len());
        for inst in ids {
            self.instance(desc.indom, inst);
        }
        put!(self.out, "\n");
    }

    /// Number and name of an instance; nothing of a singular metric.
    fn instance_json(&mut self, indom: InDom, inst: i32) -> Map<String, Json> {
        let mut object = Map::new();
        if indom != InDom::NULL {
            object.insert("id".to_owned(), json!(inst));
            let name = self.instances.name(&mut self.context, indom, inst).ok();
            object.insert("instance".to_owned(), json!(name));
        }
        object
    }

    fn instance(&mut self, indom: InDom, inst: i32) {
        if self.wanted.internal {
            match indom {
                InDom::NULL => put!(self.out, " PM_IN_NULL"),
                _ => put!(self.out, " ?{inst}"),
            }
        }
        if self.wanted.external {
            match indom {
                InDom::NULL => put!(self.out, " PM_IN_NULL"),
                _ => match self.instances.name(&mut self.context, indom, inst) {
                    Ok(name) => put!(self.out, " \"{name}\""),
                    Err(_) => put!(self.out, " ?{inst}"),
                },
            }
        }
    }
}
