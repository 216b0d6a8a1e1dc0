//! Event records as PCP prints them (spec `tools.md` 5.8), and what they need to be read.

use std::collections::HashMap;

use byteorder::NetworkEndian;
use bytes::Bytes;
use jumpseat::client::Context;
use jumpseat::event::reader::Record;
use jumpseat::event::{ArrayKind, ArrayReader, Param};
use jumpseat::model::{Desc, InDom, Inst, PmError, Pmid, PrintOptions, Value, ValueType};
use jumpseat::pdu::{ValueRef, ValuesRef};

use super::setup::Subject;
use super::style::Style;
use crate::tool::put;

/// What has been asked about parameters and instances. Each is asked about once, errors included.
#[derive(Default)]
pub struct Names {
    params: HashMap<Pmid, ParamMetric>,
    instances: HashMap<Inst, Option<String>>,
}

/// The metric that describes a parameter.
#[derive(Clone)]
pub struct ParamMetric {
    /// Its first name.
    pub name: Result<String, PmError>,
    /// Its descriptor.
    pub desc: Result<Desc, PmError>,
}

impl Names {
    /// The metric of a parameter.
    pub fn param(&mut self, context: &mut Context, pmid: Pmid) -> &ParamMetric {
        self.params.entry(pmid).or_insert_with(|| ParamMetric {
            name: match context.names_of(pmid) {
                Ok(names) => names.into_iter().next().ok_or(PmError::PMID),
                Err(error) => Err(error.code()),
            },
            desc: context.desc(pmid).map_err(|error| error.code()),
        })
    }

    /// The name of an instance, if it has one.
    pub fn instance(&mut self, context: &mut Context, indom: InDom, inst: Inst) -> Option<&str> {
        if indom == InDom::NULL {
            return None;
        }
        self.instances.entry(inst).or_insert_with(|| context.instance_name(indom, inst).ok()).as_deref()
    }
}

/// The event array that a value is.
///
/// # Errors
/// As `pmUnpackEventRecords(3)` has it.
pub fn array(value: ValueRef<'_>, value_type: ValueType) -> Result<ArrayReader<'_, NetworkEndian>, PmError> {
    let kind = if value_type == ValueType::HighResEvent { ArrayKind::HighRes } else { ArrayKind::Event };
    match value {
        ValueRef::InSitu(_) => Err(PmError::CONV),
        ValueRef::Block(bytes) => Ok(ArrayReader::new(kind, bytes)?),
    }
}

/// Calls a function for each record of a set of values, with its instance.
///
/// # Errors
/// The first that the function returns.
pub fn for_each_record<E>(
    values: ValuesRef<'_>,
    value_type: ValueType,
    mut each: impl FnMut(Inst, &Record<'_, NetworkEndian>) -> Result<(), E>,
) -> Result<(), E> {
    for (inst, value) in values.iter() {
        if let Ok(array) = array(value, value_type) {
            for record in array.records() {
                each(inst, &record)?;
            }
        }
    }
    Ok(())
}

/// A parameter's value on its own.
pub fn value(param: Param<'_>) -> Value {
    match param {
        Param::I32(v) => Value::I32(v),
        Param::U32(v) => Value::U32(v),
        Param::I64(v) => Value::I64(v),
        Param::U64(v) => Value::U64(v),
        Param::Float(v) => Value::Float(v),
        Param::Double(v) => Value::Double(v),
        Param::String(bytes) => Value::String(Bytes::copy_from_slice(text(bytes))),
        Param::Aggregate(bytes) => Value::Aggregate(Bytes::copy_from_slice(bytes)),
    }
}

/// A text up to its first NUL.
pub fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Prints the records of all values of instances that are wanted. False if there are none.
pub fn print(subject: &mut Subject, names: &mut Names, metric: &str, values: ValuesRef<'_>) -> bool {
    let style = Style::of(&subject.ready.call);
    let (indom, value_type) = (subject.desc.indom, subject.desc.value_type);
    let mut any = false;
    for (inst, value) in values.iter() {
        if !subject.wants(inst) {
            continue;
        }
        any = true;
        let label = match names.instance(&mut subject.context, indom, inst) {
            _ if indom == InDom::NULL => metric.to_owned(),
            Some(name) => format!("{metric}[{name}]"),
            None => format!("{metric}[{inst}]"),
        };
        put!(subject.out, "{}:", style.name(&label));
        match array(value, value_type) {
            Err(error) => {
                let kind = if value_type == ValueType::HighResEvent { "HighRes" } else { "" };
                put!(subject.out, " pmUnpack{kind}EventRecords: {error}\n");
            }
            Ok(array) => {
                put!(subject.out, " {} event records\n", array.len());
                for (at, record) in array.records().enumerate() {
                    print_record(subject, names, &array, at, &record, style);
                }
            }
        }
    }
    any
}

fn print_record(
    subject: &mut Subject,
    names: &mut Names,
    array: &ArrayReader<'_, NetworkEndian>,
    at: usize,
    record: &Record<'_, NetworkEndian>,
    style: Style,
) {
    let digits = if array.kind() == ArrayKind::HighRes { 9 } else { 3 };
    let time = style.label(&subject.clock.zone.clock(record.time, digits));
    put!(subject.out, "  {time} --- event record [{at}]");
    let flags = record.flags;
    if flags.0 != 0 {
        let words = flags.to_string();
        let words = if record.missed().is_some() { style.warning(&words) } else { style.kind(&words) };
        put!(subject.out, " flags {:#x} ({words})", flags.0);
    }
    put!(subject.out, " ---\n");
    if let Some(missed) = record.missed() {
        return put!(subject.out, "    ==> {missed} missed event records\n");
    }
    if flags.0 == 0 && record.count == 0 {
        return put!(subject.out, "    ==> No parameters\n");
    }
    for param in record.params() {
        let metric = names.param(&mut subject.context, param.pmid);
        match (&metric.name, &metric.desc) {
            (Err(error), _) => put!(subject.out, "\t{}: pmNameID: {error}\n", param.pmid),
            (Ok(name), Err(error)) => put!(subject.out, "\t{name}: pmLookupDesc: {error}\n"),
            (Ok(name), Ok(_)) => {
                let mut line = format!("    {name} ").into_bytes();
                match param.value {
                    Param::Aggregate(bytes) => {
                        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                        line.extend_from_slice(format!("[{hex}]").as_bytes());
                    }
                    other => {
                        let squash = crate::tool::values::print_options(1);
                        value(other).print(PrintOptions { width: 1, ..squash }, &mut line);
                    }
                }
                line.push(b'\n');
                subject.out.bytes(&line);
            }
        }
    }
}
