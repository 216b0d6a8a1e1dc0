//! The records of event arrays (spec `events.md` 3.7).

use byteorder::NetworkEndian;
use bytes::Bytes;
use pcp_event::{ArrayKind, ArrayReader, EventFlags, Param};
use pcp_model::{Pmid, PrintOptions, UntypedValue, Value, ValueType};
use pcp_pdu::ValueRef;

use super::Info;
use crate::tool::put;

/// Arrays within parameters of arrays: deeper ones are not looked into.
const MAX_DEPTH: usize = 8;

impl Info {
    /// Prints the records of a value, if it is an event array.
    pub(super) fn events(&mut self, value_type: ValueType, value: ValueRef<'_>) {
        let kind = match value_type {
            ValueType::Event => ArrayKind::Event,
            ValueType::HighResEvent => ArrayKind::HighRes,
            _ => return,
        };
        let block = match value {
            ValueRef::Block(block) => block,
            // Too short for any array, which the reader says in PCP's words.
            ValueRef::InSitu(_) => &[],
        };
        self.records(kind, block, 0);
    }

    /// Prints the records of a value block, header word included.
    fn records(&mut self, kind: ArrayKind, block: &[u8], depth: usize) {
        // An array that does not add up is refused whole: no record of it can be trusted.
        let array = match ArrayReader::<NetworkEndian>::new(kind, block) {
            Ok(array) => array,
            Err(error) => {
                let call = match kind {
                    ArrayKind::Event => "pmUnpackEventRecords",
                    ArrayKind::HighRes => "pmUnpackHighResEventRecords",
                };
                complain!("{}: {call}: {}", self.call.name, error.code().at(self.call.level));
                return;
            }
        };
        let digits = match kind {
            ArrayKind::Event => 3,
            ArrayKind::HighRes => 9,
        };
        for (at, record) in array.records().enumerate() {
            let time = self.inquiry.clock.zone.clock(record.time, digits);
            put!(self.inquiry.out, "    --- event record [{at}] timestamp {time}");
            match record.flags.0 {
                0 => put!(self.inquiry.out, " ---\n"),
                flags => put!(self.inquiry.out, " flags {flags:#x} ({}) ---\n", flags_text(record.flags)),
            }
            if let Some(missed) = record.missed() {
                put!(self.inquiry.out, "        ==> {} missed event records\n", missed);
                continue;
            }
            // A damaged record: what the count says is all that can be said.
            if record.count < 0 {
                put!(self.inquiry.out, "\tError: illegal number of parameters ({})\n", record.count);
            } else if record.count == 0 && record.flags.0 == 0 {
                put!(self.inquiry.out, "\tNo parameters\n");
            }
            for param in record.params() {
                self.parameter(param.pmid, param.value, depth);
            }
        }
    }

    fn parameter(&mut self, pmid: Pmid, value: Param<'_>, depth: usize) {
        let (names, value_type) = self.metadata_of(pmid);
        match names {
            Some(names) => put!(self.inquiry.out, "    {names} ({pmid})\n"),
            None => put!(self.inquiry.out, "\tPMID: {pmid}\n"),
        }
        let value_type = match value_type {
            Ok(value_type) => value_type,
            Err(error) => return put!(self.inquiry.out, "\tpmLookupDesc: {}\n", error.at(self.call.level)),
        };
        let mut text = b"        value ".to_vec();
        print(value, value_type, &mut text);
        text.push(b'\n');
        self.inquiry.out.bytes(&text);
        let nested = match value_type {
            ValueType::Event => ArrayKind::Event,
            ValueType::HighResEvent => ArrayKind::HighRes,
            _ => return,
        };
        if let Param::Aggregate(bytes) = value
            && depth < MAX_DEPTH
        {
            // As a value of its own it would have this header.
            let header = (value_type.code() as u32) << 24 | (bytes.len() as u32 + 4) & 0xff_ffff;
            self.records(nested, &[&header.to_be_bytes(), bytes].concat(), depth + 1);
        }
    }
}

/// A parameter, in the type of its metric where it has that.
fn print(param: Param<'_>, value_type: ValueType, out: &mut Vec<u8>) {
    let (value, payload) = match param {
        // Among whole numbers of 32 bits, the metric knows the sign.
        Param::I32(v) => return print_word(v as u32, value_type, out),
        Param::U32(v) => return print_word(v, value_type, out),
        Param::I64(v) => (Value::I64(v), v.to_be_bytes().to_vec()),
        Param::U64(v) => (Value::U64(v), v.to_be_bytes().to_vec()),
        Param::Float(v) => (Value::Float(v), v.to_be_bytes().to_vec()),
        Param::Double(v) => (Value::Double(v), v.to_be_bytes().to_vec()),
        Param::String(text) => (Value::String(Bytes::copy_from_slice(text)), text.to_vec()),
        Param::Aggregate(bytes) => (Value::Aggregate(Bytes::copy_from_slice(bytes)), bytes.to_vec()),
    };
    let kind = param.value_type();
    // What PCP's program prints if a parameter is not what its descriptor says: every reading of the bytes.
    let same =
        kind == value_type || (kind == ValueType::Aggregate && value_type == ValueType::AggregateStatic);
    match same {
        true => value.print(PrintOptions::width(1), out),
        false => UntypedValue::Block { kind, payload: &payload }.print(1, out),
    }
}

fn print_word(word: u32, value_type: ValueType, out: &mut Vec<u8>) {
    match value_type {
        ValueType::I32 => Value::I32(word as i32).print(PrintOptions::width(1), out),
        // Whoever packed it may have taken one for the other.
        ValueType::U32 => Value::U32(word).print(PrintOptions::width(1), out),
        _ => UntypedValue::InSitu(word).print(1, out),
    }
}

/// The words of `pmEventFlagsStr(3)`.
fn flags_text(flags: EventFlags) -> String {
    if flags.contains(EventFlags::MISSED) {
        return "missed".to_owned();
    }
    let words = [
        (EventFlags::POINT, "point"),
        (EventFlags::START, "start"),
        (EventFlags::END, "end"),
        (EventFlags::ID, "id"),
        (EventFlags::PARENT, "parent"),
    ];
    let set = words.iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, word)| *word);
    set.collect::<Vec<_>>().join(",")
}
