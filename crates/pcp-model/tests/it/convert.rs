//! Replays what a real PCP's `pmExtractValue` said about numbers and texts.

use crate::units_support::{bytes, code, rows, word};
use bytes::Bytes;
use pcp_model::{PmError, Value, ValueType};
use serde_json::Value as Json;

/// The input of a row, if it is in an encoding that its type may have (others never become values).
fn input(row: &Json) -> Option<Value> {
    let kind = ValueType::from_code(code(&row["itype"]));
    if row["valfmt"] == "insitu" {
        let bits = row.get("lval").map(word)?;
        return Some(match kind {
            ValueType::I32 => Value::I32(bits as i32),
            ValueType::U32 => Value::U32(bits),
            ValueType::Float => Value::Float(f32::from_bits(bits)),
            _ => return None,
        });
    }
    if row["valfmt"] == "bad" || code(&row["vtype"]) != kind.code() {
        return None;
    }
    let bytes = row.get("vbuf").map(bytes)?;
    Some(match kind {
        ValueType::I64 => Value::I64(i64::from_le_bytes(bytes.try_into().ok()?)),
        ValueType::U64 => Value::U64(u64::from_le_bytes(bytes.try_into().ok()?)),
        ValueType::Float => Value::Float(f32::from_le_bytes(bytes.try_into().ok()?)),
        ValueType::Double => Value::Double(f64::from_le_bytes(bytes.try_into().ok()?)),
        ValueType::String => Value::String(Bytes::from(bytes)),
        ValueType::Aggregate => Value::Aggregate(Bytes::from(bytes)),
        _ => return None,
    })
}

fn bits(value: &Value) -> Option<u64> {
    Some(match value {
        Value::I32(v) => u64::from(*v as u32),
        Value::U32(v) => u64::from(*v),
        Value::I64(v) => *v as u64,
        Value::U64(v) => *v,
        Value::Float(v) => u64::from(v.to_bits()),
        Value::Double(v) => v.to_bits(),
        _ => return None,
    })
}

#[test]
fn extraction() {
    let mut checked = 0;
    for row in rows("extract.ndjson") {
        let Some(input) = input(&row) else {
            continue;
        };
        checked += 1;
        let found = input.convert(ValueType::from_code(code(&row["otype"])));
        if row["sts"] != 0 {
            assert_eq!(found, Err(PmError(code(&row["sts"]))), "{row}");
            continue;
        }
        let found = found.unwrap_or_else(|error| panic!("{row}: {error}"));
        let nan =
            matches!(found, Value::Float(v) if v.is_nan()) || matches!(found, Value::Double(v) if v.is_nan());
        if let Some(bits) = bits(&found).filter(|_| !nan) {
            let raw = row["out_raw"].as_str().map(|raw| match raw.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16).unwrap(),
                None => raw.parse().unwrap(),
            });
            let raw = raw.or_else(|| row["out_raw"].as_u64()).unwrap();
            assert_eq!(bits, raw, "{row}");
        }
    }
    assert!(checked > 1400, "{checked}");
}
