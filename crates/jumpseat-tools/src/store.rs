//! `jumpseat store`, which stands in for `pmstore(1)`: changes a metric's value (`docs/pcp/tools.md` 8).

use std::process::ExitCode;

use pcp_client::{Context, Fetched};
use pcp_model::{
    Desc, InDom, Inst, InstanceValue, Level, PM_IN_NULL, PmError, Pmid, Value, ValueSet, ValueType,
};
use pcp_pdu::{ValueRef, ValuesRef};

use serde_json::{Map, Value as Json, json};

use crate::tool::json::{json_line, text_json, value_json};
use crate::tool::{
    Call, Clock, CommandLine, Opt, Out, Row, Standard, Tool, hint_name, open, put, refused, values,
};

/// The command line.
pub(crate) const TOOL: Tool<StoreOption> = Tool {
    name: "pmstore",
    subcommand: "store",
    operands: "metricname value",
    permute: false,
    operands_name_source: false,
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
        Row::Own(
            StoreOption::Fetch,
            Opt::flag(Some('F'), "fetch", "perform pmFetch after pmStore to confirm value"),
        ),
        Row::Own(
            StoreOption::Force,
            Opt::flag(Some('f'), "force", "store the value even if there is no current value set"),
        ),
        Row::Own(
            StoreOption::Instances,
            Opt::with(Some('i'), "insts", "INSTS", "restrict store to comma-separated list of instances"),
        ),
    ],
    extra: &[
        Row::Own(StoreOption::Json, Opt::flag(None, "json", "print one JSON object for each instance")),
        Row::Standard(Standard::PcpLevel),
    ],
};

/// The options that no other tool has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreOption {
    Fetch,
    Force,
    Instances,
    Json,
}

/// What is to be done.
#[derive(Default)]
struct StoreSettings {
    /// Fetch the value afterwards.
    confirm: bool,
    /// Store where there is no value yet.
    force: bool,
    instances: Vec<String>,
    json: bool,
}

impl StoreSettings {
    /// Reads the tool's own options.
    fn read(line: &mut CommandLine<StoreOption>) -> StoreSettings {
        let mut wanted = StoreSettings::default();
        for own in line {
            match own.option {
                StoreOption::Fetch => wanted.confirm = true,
                StoreOption::Force => wanted.force = true,
                StoreOption::Instances => {
                    let names = own.argument.split(',').filter(|name| !name.is_empty());
                    wanted.instances.extend(names.map(str::to_owned));
                }
                StoreOption::Json => wanted.json = true,
            }
        }
        wanted
    }
}

/// What ends the tool, in its own words.
enum Failure {
    /// On standard output, as PCP's tool has it.
    Reported(String),
    /// On standard error, behind the tool's name.
    Refused(String),
    /// On standard error, without it.
    BadValue(String),
}

/// "Numerical result out of range", the errno.
const ERANGE: i32 = 34;

/// Runs the tool.
pub(crate) fn run(call: Call, words: Vec<String>) -> ExitCode {
    store(call, words).unwrap_or_else(|code| code)
}

fn store(call: Call, words: Vec<String>) -> Result<ExitCode, ExitCode> {
    let mut line = CommandLine::new(&TOOL, call, words);
    let wanted = StoreSettings::read(&mut line);
    let operands = <[String; 2]>::try_from(line.operands());
    if operands.is_err() {
        line.misused();
    }
    let mut ready = line.finish()?;
    // A command line without them did not come to here.
    let [name, value] = operands.map_err(|_| ExitCode::FAILURE)?;
    let context = open(&mut ready)?;
    let mut out = Out::new(&ready.call);
    let mut store = Store { wanted, context, clock: Clock::local(), call: &ready.call, name: &name };
    let stored = store.run(&value, &mut out);
    let is_stored = stored.is_ok();
    match stored {
        Ok(()) => {}
        Err(Failure::Reported(what)) => match store.wanted.json {
            true => put!(out, "{}\n", json_line(&json!({"metric": name, "error": what}))),
            false => put!(out, "{what}\n"),
        },
        Err(Failure::Refused(what)) => complain!("{}: {what}", ready.call.name),
        Err(Failure::BadValue(what)) => complain!("{what}"),
    }
    match out.finish(&ready.call) && is_stored {
        true => Ok(ExitCode::SUCCESS),
        false => Ok(ExitCode::FAILURE),
    }
}

struct Store<'a> {
    wanted: StoreSettings,
    context: Context,
    clock: Clock,
    call: &'a Call,
    name: &'a str,
}

impl Store<'_> {
    fn run(&mut self, text: &str, out: &mut Out) -> Result<(), Failure> {
        let pmid = self.context.pmid(self.name).map_err(|error| {
            hint_name(&mut self.context, self.call, self.name, error.code());
            self.failed("pmLookupName", error.code())
        })?;
        let desc = self.context.desc(pmid).map_err(|error| self.failed("pmLookupDesc", error.code()))?;
        match desc.value_type {
            ValueType::Aggregate | ValueType::AggregateStatic => {
                return Err(Failure::Refused("Cannot modify values for PM_TYPE_AGGREGATE metrics".into()));
            }
            ValueType::Event | ValueType::HighResEvent => {
                return Err(Failure::Refused("Cannot modify values for event type metrics".into()));
            }
            _ => {}
        }
        let chosen = self.choose(desc.indom)?;
        // Before the new value is read, as in PCP: a metric that cannot be fetched is the worse news.
        let (old_result, before) = self.fetch(pmid, "pre pmFetch")?;
        let new = parse(text, desc.value_type, self.call.level).map_err(Failure::BadValue)?;
        let instances = match before.is_empty() {
            false => before.clone(),
            true if self.wanted.force => self.instances_without_values(&desc, chosen)?,
            true => return Err(Failure::Reported(format!("{}: No value(s) available!", self.name))),
        };
        // The same value for all of them, as in PCP.
        let values = instances.iter().map(|&inst| InstanceValue { inst, value: new.clone() });
        let set = ValueSet { pmid, values: Ok(values.collect()) };
        if let Err(error) = self.context.store(&[set]) {
            let error = error.code();
            let why = refused(self.call, &mut self.context, self.name, error).unwrap_or_default();
            let what =
                format!("{}: new value=\"{text}\" pmStore: {}{why}", self.name, error.at(self.call.level));
            return Err(Failure::Reported(what));
        }
        let after = match self.wanted.confirm {
            true => Some(self.fetch(pmid, "post pmFetch")?.0),
            false => None,
        };
        for (at, inst) in instances.into_iter().enumerate() {
            let old = value_at(&old_result, at);
            // By instance where it can be; else by place, as both fetches have the same instances then.
            let now = after.as_ref().map(|after| value_of(after, inst).or_else(|| value_at(after, at)));
            match self.wanted.json {
                true => {
                    let now = match now {
                        Some(now) => now.map_or(Json::Null, |now| value_json(now, desc.value_type)),
                        None => owned_json(&new),
                    };
                    self.report_json(&desc, inst, old, now, out);
                }
                false => {
                    self.report(&desc, inst, old, out);
                    let now = match now {
                        Some(now) => self.text(now, desc.value_type),
                        None => owned_text(&new, self.call.level),
                    };
                    put!(out, " new value={now}\n");
                }
            }
        }
        Ok(())
    }

    fn failed(&self, what: &str, error: PmError) -> Failure {
        Failure::Reported(format!("{}: {what}: {}", self.name, error.at(self.call.level)))
    }

    /// Restricts the context to the instances wanted.
    fn choose(&mut self, indom: InDom) -> Result<Vec<Inst>, Failure> {
        let mut chosen = Vec::with_capacity(self.wanted.instances.len());
        for name in &self.wanted.instances {
            let inst = self.context.instance(indom, name).map_err(|error| {
                Failure::Reported(format!(
                    "pmLookupInDom {}[{name}]: {}",
                    self.name,
                    error.code().at(self.call.level)
                ))
            })?;
            chosen.push(inst);
        }
        if !chosen.is_empty() {
            let restricted = self
                .context
                // All but these: the profile says what is fetched, and so what "all" means below.
                .delete_profile(indom, &[])
                .and_then(|()| self.context.add_profile(indom, &chosen));
            restricted.map_err(|error| self.failed("pmAddProfile", error.code()))?;
        }
        Ok(chosen)
    }

    /// The metric's values now, and which instances have one.
    fn fetch(&mut self, pmid: Pmid, when: &str) -> Result<(Fetched, Vec<Inst>), Failure> {
        let mut fetched = Fetched::new();
        self.context.fetch(&[pmid], &mut fetched).map_err(|error| self.failed(when, error.code()))?;
        let instances = match values_in(&fetched) {
            Ok(values) => values.insts().collect(),
            Err(error) => return Err(self.failed("Error", error)),
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
            self.context.instances(desc.indom).map_err(|error| self.failed("pmGetInDom", error.code()))?;
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
        put!(out, "{}\n", json_line(&Json::Object(object)));
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
        let options = values::print_options(1, self.call.level);
        values::print(value, value_type, options, &self.clock, &mut text);
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

/// A value that was stored, as it is printed.
fn owned_text(value: &Value, level: Level) -> String {
    let mut text = Vec::new();
    value.print(values::print_options(1, level), &mut text);
    String::from_utf8_lossy(&text).into_owned()
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

fn parse(text: &str, value_type: ValueType, level: Level) -> Result<Value, String> {
    let parsed = match Value::parse(text, value_type) {
        // Older releases take it for a number that is too small.
        Ok(Value::Float(0.0)) if level < Level::V721 => Err(PmError::from_errno(ERANGE)),
        parsed => parsed,
    };
    parsed.map_err(|error| {
        let what = match error {
            // PCP tells "no number at all" from "too large for the type".
            PmError::TYPE => "incompatible with",
            _ => "out of range for",
        };
        format!("The value \"{text}\" is {what} the data type (PM_TYPE_{})", value_type.name())
    })
}
