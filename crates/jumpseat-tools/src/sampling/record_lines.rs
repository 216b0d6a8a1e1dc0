//! Event records as PCP prints them (spec `tools.md` 5.8).

use byteorder::NetworkEndian;
use pcp_event::reader::Record;
use pcp_event::{ArrayKind, ArrayReader, Param};
use pcp_model::{InDom, PrintOptions, ValueType};
use pcp_pdu::ValuesRef;

use super::records::{self, RecordNames};
use super::style::Style;
use super::subject::Subject;
use crate::tool::{put, values};

/// Prints the records of all values of instances that are wanted. False if there are none.
pub(super) fn print(
    subject: &mut Subject,
    names: &mut RecordNames,
    metric: &str,
    values: ValuesRef<'_>,
) -> bool {
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
            // The instance may be gone: its number is still what tells its records from others.
            Some(name) => format!("{metric}[{name}]"),
            None => format!("{metric}[{inst}]"),
        };
        put!(subject.out, "{}:", style.name(&label));
        match records::array(value, value_type) {
            Err(error) => {
                let kind = if value_type == ValueType::HighResEvent { "HighRes" } else { "" };
                put!(subject.out, " pmUnpack{kind}EventRecords: {}\n", error.at(subject.ready.call.level));
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
    names: &mut RecordNames,
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
    let level = subject.ready.call.level;
    for param in record.params() {
        let metric = names.param(&mut subject.context, param.pmid);
        match (&metric.name, &metric.desc) {
            (Err(error), _) => put!(subject.out, "\t{}: pmNameID: {}\n", param.pmid, error.at(level)),
            (Ok(name), Err(error)) => put!(subject.out, "\t{name}: pmLookupDesc: {}\n", error.at(level)),
            (Ok(name), Ok(_)) => {
                let mut line = format!("    {name} ").into_bytes();
                match param.value {
                    Param::Aggregate(bytes) => {
                        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                        line.extend_from_slice(format!("[{hex}]").as_bytes());
                    }
                    other => {
                        let squash = values::print_options(1);
                        records::value(other).print(PrintOptions { width: 1, ..squash }, &mut line);
                    }
                }
                line.push(b'\n');
                subject.out.bytes(&line);
            }
        }
    }
}
