//! `jumpseat store`, which stands in for `pmstore(1)`: changes a metric's value (spec `tools.md` 8).

use std::process::ExitCode;

use jumpseat::client::{Context, Fetched};
use jumpseat::model::{
    Desc, InDom, Inst, InstanceValue, PM_IN_NULL, PmError, Pmid, Value, ValueSet, ValueType,
};
use jumpseat::pdu::{ValueRef, ValuesRef};

use serde_json::{Map, Value as Json, json};

use crate::tool::json::{text_json, value_json};
use crate::tool::{Call, Clock, Opt, Options, Out, Row, Standard, Tool, open, put, values};

/// The command line.
pub const TOOL: Tool = Tool {
    name: "pmstore",
    subcommand: "store",
    operands: "metricname value",
    permute: false,
    local_failure: "make standalone local connection",
    zone_needs_source: true,
    interval_parser: "pmParseInterval",
    rows: &[
        Row::Standard(Standard::Debug),
        Row::Heading("General options"),
        Row::Standard(Standard::Host),
        Row::Standard(Standard::Local),
        Row::Standard(Standard::SpecLocal),
        Row::Standard(Standard::Namespace),
        Row::Standard(Standard::Version),
        Row::Standard(Standard::Help),
        Row::Heading("Value options"),
        Row::Own(Opt::flag(Some('F'), "fetch", "perform pmFetch after pmStore to confirm value")),
        Row::Own(Opt::flag(Some('f'), "force", "store the value even if there is no current value set")),
        Row::Own(Opt::with(
            Some('i'),
            "insts",
            "INSTS",
            "restrict store to comma-separated list of instances",
        )),
    ],
    extra: &[Row::Own(Opt::flag(None, "json", "print one JSON object for each instance"))],
};

/// What is wanted.
#[derive(Default)]
struct Wanted {
    /// Fetch the value afterwards.
    confirm: bool,
    /// Store where there is no value yet.
    force: bool,
    instances: Vec<String>,
    json: bool,
}

/// What ends the tool, in its own words.
enum Failure {
    /// On standard output, as PCP's tool has it.
    Told(String),
    /// On standard error.
    Warned(String),
}

/// Runs the tool.
pub fn run(call: Call, words: Vec<String>) -> ExitCode {
    let mut options = Options::new(&TOOL, call, words);
    let mut wanted = Wanted::default();
    for own in options.by_ref() {
        match own.name {
            "fetch" => wanted.confirm = true,
            "json" => wanted.json = true,
            "force" => wanted.force = true,
            "insts" => {
                let names = own.argument.split(',').filter(|name| !name.is_empty());
                wanted.instances.extend(names.map(str::to_owned));
            }
            _ => {}
        }
    }
    if options.operands().len() != 2 {
        options.misused();
    }
    let mut ready = match options.finish() {
        Ok(ready) => ready,
        Err(code) => return code,
    };
    let context = match open(&mut ready) {
        Ok(context) => context,
        Err(code) => return code,
    };
    let mut out = Out::new();
    let [name, value] = &ready.operands[..] else {
        unreachable!("checked above: two operands");
    };
    let mut store = Store { wanted, context, clock: Clock::local(), name };
    let mut stored = true;
    match store.run(value, &mut out) {
        Ok(()) => {}
        Err(Failure::Told(what)) => {
            match store.wanted.json {
                true => put!(out, "{}\n", json!({"metric": name, "error": what})),
                false => put!(out, "{what}\n"),
            }
            stored = false;
        }
        Err(Failure::Warned(what)) => {
            eprintln!("{}", what.replacen("{tool}", &ready.call.name, 1));
            stored = false;
        }
    }
    match out.finish(&ready.call) && stored {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

struct Store<'a> {
    wanted: Wanted,
    context: Context,
    clock: Clock,
    name: &'a str,
}

impl Store<'_> {
    fn run(&mut self, text: &str, out: &mut Out) -> Result<(), Failure> {
        let pmid = self.context.pmid(self.name).map_err(|error| self.told("pmLookupName", error.code()))?;
        let desc = self.context.desc(pmid).map_err(|error| self.told("pmLookupDesc", error.code()))?;
        match desc.value_type {
            ValueType::Aggregate | ValueType::AggregateStatic => {
                return Err(Failure::Warned(
                    "{tool}: Cannot modify values for PM_TYPE_AGGREGATE metrics".into(),
                ));
            }
            ValueType::Event | ValueType::HighResEvent => {
                return Err(Failure::Warned("{tool}: Cannot modify values for event type metrics".into()));
            }
            _ => {}
        }
        let chosen = self.choose(desc.indom)?;
        let (old_result, before) = self.fetch(pmid, "pre pmFetch")?;
        let new = parse(text, desc.value_type).map_err(Failure::Warned)?;
        let instances = match before.is_empty() {
            false => before.clone(),
            true if self.wanted.force => self.instances_without_values(&desc, chosen)?,
            true => return Err(Failure::Told(format!("{}: No value(s) available!", self.name))),
        };
        let values = instances.iter().map(|&inst| InstanceValue { inst, value: new.clone() });
        let set = ValueSet { pmid, values: Ok(values.collect()) };
        self.context
            .store(&[set])
            .map_err(|error| self.told(&format!("new value=\"{text}\" pmStore"), error.code()))?;
        let after = match self.wanted.confirm {
            true => Some(self.fetch(pmid, "post pmFetch")?.0),
            false => None,
        };
        for (at, inst) in instances.into_iter().enumerate() {
            let old = value_at(&old_result, at);
            if self.wanted.json {
                let now = match &after {
                    Some(after) => {
                        let now = value_of(after, inst).or_else(|| value_at(after, at));
                        now.map_or(Json::Null, |now| value_json(now, desc.value_type))
                    }
                    None => owned_json(&new),
                };
                self.report_json(&desc, inst, old, now, out);
                continue;
            }
            self.report(&desc, inst, old, out);
            match &after {
                Some(after) => {
                    // By place, as both fetches have the same instances; by itself if they do not.
                    let now = value_of(after, inst).or_else(|| value_at(after, at));
                    put!(out, " new value={}\n", self.text(now, desc.value_type));
                }
                None => {
                    let mut now = Vec::new();
                    new.print(values::print_options(1), &mut now);
                    put!(out, " new value={}\n", String::from_utf8_lossy(&now));
                }
            }
        }
        Ok(())
    }

    fn told(&self, what: &str, error: PmError) -> Failure {
        Failure::Told(format!("{}: {what}: {error}", self.name))
    }

    /// Restricts the context to the instances wanted.
    fn choose(&mut self, indom: InDom) -> Result<Vec<Inst>, Failure> {
        let mut chosen = Vec::with_capacity(self.wanted.instances.len());
        for name in &self.wanted.instances {
            let inst = self.context.instance(indom, name).map_err(|error| {
                Failure::Told(format!("pmLookupInDom {}[{name}]: {}", self.name, error.code()))
            })?;
            chosen.push(inst);
        }
        if !chosen.is_empty() {
            let restricted = self
                .context
                .delete_profile(indom, &[])
                .and_then(|()| self.context.add_profile(indom, &chosen));
            restricted.map_err(|error| self.told("pmAddProfile", error.code()))?;
        }
        Ok(chosen)
    }

    /// The metric's values now, and which instances have one.
    fn fetch(&mut self, pmid: Pmid, when: &str) -> Result<(Fetched, Vec<Inst>), Failure> {
        let mut fetched = Fetched::new();
        self.context.fetch(&[pmid], &mut fetched).map_err(|error| self.told(when, error.code()))?;
        let instances = match values_in(&fetched) {
            Ok(values) => values.iter().map(|(inst, _)| inst).collect(),
            Err(error) => return Err(self.told("Error", error)),
        };
        Ok((fetched, instances))
    }

    /// Where to store if nothing has a value: everywhere that was chosen, or could be.
    fn instances_without_values(&mut self, desc: &Desc, chosen: Vec<Inst>) -> Result<Vec<Inst>, Failure> {
        if desc.indom == InDom::NULL {
            return Ok(vec![PM_IN_NULL]);
        }
        if !chosen.is_empty() {
            return Ok(chosen);
        }
        let all =
            self.context.instances(desc.indom).map_err(|error| self.told("pmGetInDom", error.code()))?;
        Ok(all.into_iter().map(|instance| instance.id).collect())
    }

    fn report_json(&mut self, desc: &Desc, inst: Inst, old: Option<ValueRef<'_>>, new: Json, out: &mut Out) {
        let mut object = Map::new();
        object.insert("metric".to_owned(), json!(self.name));
        if desc.indom != InDom::NULL {
            object.insert("id".to_owned(), json!(inst));
            let name = self.context.instance_name(desc.indom, inst).ok();
            object.insert("instance".to_owned(), json!(name));
        }
        let old = old.map_or(Json::Null, |old| value_json(old, desc.value_type));
        object.insert("old".to_owned(), old);
        object.insert("new".to_owned(), new);
        put!(out, "{}\n", Json::Object(object));
    }

    fn report(&mut self, desc: &Desc, inst: Inst, old: Option<ValueRef<'_>>, out: &mut Out) {
        put!(out, "{}", self.name);
        if desc.indom != InDom::NULL {
            match self.context.instance_name(desc.indom, inst) {
                Ok(name) => put!(out, " inst [{inst} or \"{name}\"]"),
                Err(_) => put!(out, " inst [{inst}]"),
            }
        }
        match old {
            Some(_) => put!(out, " old value={}", self.text(old, desc.value_type)),
            None => put!(out, " old value=\"(none)\""),
        }
    }

    fn text(&self, value: Option<ValueRef<'_>>, value_type: ValueType) -> String {
        let Some(value) = value else { return "\"(none)\"".to_owned() };
        let mut text = Vec::new();
        values::print(value, value_type, values::print_options(1), &self.clock, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }
}

fn values_in(fetched: &Fetched) -> Result<ValuesRef<'_>, PmError> {
    fetched.set(0).ok_or(PmError::IPC)?.values
}

fn value_at(fetched: &Fetched, at: usize) -> Option<ValueRef<'_>> {
    values_in(fetched).ok()?.get(at).map(|(_, value)| value)
}

fn value_of(fetched: &Fetched, inst: Inst) -> Option<ValueRef<'_>> {
    values_in(fetched).ok()?.iter().find(|(other, _)| *other == inst).map(|(_, value)| value)
}

/// A value that was stored: these types can be.
fn owned_json(value: &Value) -> Json {
    match value {
        Value::I32(v) => json!(v),
        Value::U32(v) => json!(v),
        Value::I64(v) => json!(v),
        Value::U64(v) => json!(v),
        Value::Float(v) => json!(v),
        Value::Double(v) => json!(v),
        Value::String(text) => text_json(text),
        _ => Json::Null,
    }
}

fn parse(text: &str, value_type: ValueType) -> Result<Value, String> {
    Value::parse(text, value_type).map_err(|error| {
        let what = match error {
            PmError::TYPE => "incompatible with",
            _ => "out of range for",
        };
        format!("The value \"{text}\" is {what} the data type (PM_TYPE_{})", value_type.name())
    })
}
