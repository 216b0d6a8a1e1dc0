//! Replays what a real PCP printed: values, identifiers, error texts; and what it read from text.

use crate::units_support::{bytes, code, rows, word};
use bytes::Bytes;
use pcp_event::EventFlags;
use pcp_model::{InDom, PmError, Pmid, PrintOptions, Semantics, UntypedValue, Value, ValueType, number_text};
use serde_json::Value as Json;

/// The rows of the table, with the results of 6.3.8 where those differ.
fn atomstr() -> Vec<Json> {
    let mut table = rows("atomstr.ndjson");
    assert_eq!(table.len(), 1171);
    for newer in rows("units-versions.ndjson").iter().filter(|row| row["table"] == "atomstr") {
        let row = table
            .iter_mut()
            .find(|row| row["fn"] == newer["key"]["fn"] && row["in"] == newer["key"]["in"])
            .unwrap_or_else(|| panic!("no row for {newer}"));
        row["out"] = newer["v638"]["out"].clone();
    }
    table
}

fn of<'a>(table: &'a [Json], function: &'a str) -> impl Iterator<Item = &'a Json> {
    table.iter().filter(move |row| row["fn"] == function)
}

/// The payload of a row's value block as it is on the wire: the tables have the memory of a little-endian
/// machine, where numbers are in reverse.
fn payload(row: &Json) -> Vec<u8> {
    let mut payload = bytes(&row["vbuf"]);
    if (2..=5).contains(&code(&row["vtype"])) {
        payload.reverse();
    }
    payload
}

/// A value of its own type, or `None` for what never becomes one.
fn value(kind: ValueType, raw: &UntypedValue<'_>) -> Option<Value> {
    Some(match (*raw, kind) {
        (UntypedValue::InSitu(word), ValueType::I32) => Value::I32(word as i32),
        (UntypedValue::InSitu(word), ValueType::U32) => Value::U32(word),
        (UntypedValue::InSitu(word), ValueType::Float) => Value::Float(f32::from_bits(word)),
        (UntypedValue::Block { kind: block, payload }, kind) if block == kind => match kind {
            ValueType::I64 => Value::I64(i64::from_be_bytes(payload.try_into().ok()?)),
            ValueType::U64 => Value::U64(u64::from_be_bytes(payload.try_into().ok()?)),
            ValueType::Float => Value::Float(f32::from_be_bytes(payload.try_into().ok()?)),
            ValueType::Double => Value::Double(f64::from_be_bytes(payload.try_into().ok()?)),
            ValueType::String => Value::String(Bytes::copy_from_slice(payload.strip_suffix(b"\0")?)),
            ValueType::Aggregate => Value::Aggregate(Bytes::copy_from_slice(payload)),
            _ => return None,
        },
        _ => return None,
    })
}

#[test]
fn print_value() {
    let (mut typed, mut untyped, mut control, mut bad) = (0, 0, 0, 0);
    for row in of(&atomstr(), "pmPrintValue") {
        let bytes;
        let raw = match row["valfmt"].as_str().unwrap() {
            // A value format other than the three is refused when the result is decoded.
            "bad" => {
                bad += 1;
                continue;
            }
            "insitu" => UntypedValue::InSitu(word(&row["lval"])),
            _ => {
                bytes = payload(row);
                UntypedValue::Block { kind: ValueType::from_code(code(&row["vtype"])), payload: &bytes }
            }
        };
        let kind = ValueType::from_code(code(&row["type"]));
        let width = row["minwidth"].as_u64().unwrap() as usize;
        let mut out = Vec::new();
        match (value(kind, &raw), raw) {
            (Some(value), _) => {
                typed += 1;
                value.print(PrintOptions::width(width), &mut out);
            }
            (None, UntypedValue::InSitu(word)) if kind == ValueType::Event => {
                control += 1;
                out = UntypedValue::log_control(word).into_bytes();
            }
            (None, raw) => {
                untyped += 1;
                raw.print(width, &mut out);
            }
        }
        assert_eq!(String::from_utf8(out).unwrap(), row["out"].as_str().unwrap(), "{row}");
    }
    assert_eq!((typed, untyped, control, bad), (516, 78, 3, 3));
}

#[test]
fn squashed_newlines() {
    let text = Value::from("a\n\tb\x0bc");
    let mut out = Vec::new();
    text.print(PrintOptions { width: 10, squash_newlines: true }, &mut out);
    assert_eq!(out, b"  \"a  b c\"");
}

#[test]
fn atom_str() {
    let (mut shown, mut no_value) = (0, 0);
    for row in of(&atomstr(), "pmAtomStr") {
        let number = |row: &Json| {
            u64::from_str_radix(row["in_raw"].as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
        };
        let mut out = Vec::new();
        match ValueType::from_code(code(&row["type"])) {
            ValueType::I32 => Value::I32(number(row) as i32).print_short(&mut out),
            ValueType::U32 => Value::U32(number(row) as u32).print_short(&mut out),
            ValueType::I64 => Value::I64(number(row) as i64).print_short(&mut out),
            ValueType::U64 => Value::U64(number(row)).print_short(&mut out),
            ValueType::Float => Value::Float(f32::from_bits(number(row) as u32)).print_short(&mut out),
            ValueType::Double => Value::Double(f64::from_bits(number(row))).print_short(&mut out),
            ValueType::String if row.get("in_s").is_some() => {
                Value::from(row["in_s"].as_str().unwrap().to_owned()).print_short(&mut out);
            }
            ValueType::Aggregate if row["vtype"] == 7 => {
                Value::Aggregate(Bytes::from(bytes(&row["vbuf"]))).print_short(&mut out);
            }
            ValueType::Aggregate | ValueType::AggregateStatic if row.get("vbuf").is_some() => {
                let kind = ValueType::from_code(code(&row["vtype"]));
                UntypedValue::Block { kind, payload: &bytes(&row["vbuf"]) }.print_short(&mut out);
            }
            kind @ (ValueType::Event | ValueType::HighResEvent) => {
                // A header word, then the number of records, here in the order of the machine.
                let mut array = bytes(&row["vbuf"]);
                array.reverse();
                let array = Bytes::from([&[kind as u8, 0, 0, 8][..], &array].concat());
                match kind {
                    ValueType::Event => Value::Event(array).print_short(&mut out),
                    _ => Value::HighResEvent(array).print_short(&mut out),
                }
            }
            // Null pointers and types that a value cannot have.
            _ => {
                no_value += 1;
                continue;
            }
        }
        shown += 1;
        assert_eq!(String::from_utf8(out).unwrap(), row["out"].as_str().unwrap(), "{row}");
    }
    assert_eq!((shown, no_value), (135, 6));
}

type Print = fn(&Json) -> String;

fn int(row: &Json) -> i64 {
    row["in"].as_i64().unwrap()
}

#[test]
fn names_identifiers_and_numbers() {
    let table = atomstr();
    let printers: [(&str, usize, Print); 7] = [
        ("pmErrStr", 257, |row| PmError(int(row) as i32).to_string()),
        ("pmEventFlagsStr", 64, |row| EventFlags(int(row) as u32).to_string()),
        ("pmNumberStr", 55, |row| number_text(row["in"].as_str().unwrap().parse().unwrap())),
        ("pmTypeStr", 19, |row| ValueType::name_of(int(row) as i32).to_owned()),
        ("pmIDStr", 17, |row| Pmid(int(row) as u32).to_string()),
        ("pmInDomStr", 10, |row| InDom(int(row) as u32).to_string()),
        ("pmSemStr", 8, |row| Semantics::name_of(int(row) as i32).to_owned()),
    ];
    for (function, count, print) in printers {
        for row in of(&table, function) {
            assert_eq!(print(row), row["out"].as_str().unwrap(), "{row}");
        }
        assert_eq!(of(&table, function).count(), count, "{function}");
    }
}

#[test]
fn string_values() {
    let mut table = rows("stringvalue.ndjson");
    assert_eq!(table.len(), 609);
    // A zero is a valid FLOAT, as in 7.2.
    for newer in rows("units-versions.ndjson").iter().filter(|row| row["table"] == "stringvalue") {
        let key = &newer["key"];
        let row =
            table.iter_mut().find(|row| row["in"] == key["in"] && row["type_s"] == key["type_s"]).unwrap();
        row["sts"] = newer["v721"]["sts"].clone();
        row["out"] = newer["v721"]["out"].clone();
    }
    // An earlier error never matters here.
    table.retain(|row| row.get("errno_in").is_none());
    for row in &table {
        let found = Value::parse(row["in"].as_str().unwrap(), ValueType::from_code(code(&row["type"])));
        if row["sts"] != 0 {
            assert_eq!(found, Err(PmError(code(&row["sts"]))), "{row}");
            continue;
        }
        let out = row["out"].as_str().unwrap();
        let text = match found.unwrap_or_else(|error| panic!("{row}: {error}")) {
            Value::String(text) => String::from_utf8(text.to_vec()).unwrap(),
            Value::Float(v) if v.is_nan() && out.contains("nan") => continue,
            Value::Double(v) if v.is_nan() && out.contains("nan") => continue,
            Value::Float(v) => {
                assert_eq!(v, out.parse::<f32>().unwrap(), "{row}");
                assert_eq!(v.is_sign_negative(), out.starts_with('-'), "{row}");
                continue;
            }
            Value::Double(v) => {
                assert_eq!(v.to_bits(), out.parse::<f64>().unwrap().to_bits(), "{row}");
                continue;
            }
            other => {
                let mut text = Vec::new();
                other.print(PrintOptions::default(), &mut text);
                String::from_utf8(text).unwrap()
            }
        };
        assert_eq!(text, out, "{row}");
    }
    assert!(table.len() > 580, "{}", table.len());
}
