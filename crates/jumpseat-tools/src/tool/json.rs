//! Values and errors as JSON. Whole numbers are exact, also those beyond what JavaScript keeps.

use std::io::{self, Write};

use byteorder::NetworkEndian;
use pcp_event::reader::RecordParam;
use pcp_event::{ArrayKind, ArrayReader, Param};
use pcp_model::{PmError, Value, ValueType};
use pcp_pdu::ValueRef;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};
use serde_json::{Value as Json, json};

/// JSON on one line, in which nothing drives a terminal: DEL and the controls of C1 (U+0080 to U+009F), too, are escaped,
/// which JSON itself asks for below U+0020 only.
pub(crate) fn json_line(json: &Json) -> String {
    let mut bytes = Vec::with_capacity(128);
    let mut serializer = Serializer::with_formatter(&mut bytes, NoControls);
    // Memory takes everything, and what is no text does not come here.
    let _ = serde::Serialize::serialize(json, &mut serializer);
    String::from_utf8(bytes).unwrap_or_default()
}

struct NoControls;

impl Formatter for NoControls {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, text: &str) -> io::Result<()> {
        let mut plain = CompactFormatter;
        let mut rest = text;
        while let Some((at, control)) = rest.char_indices().find(|&(_, c)| matches!(c, '\u{7f}'..='\u{9f}')) {
            plain.write_string_fragment(out, &rest[..at])?;
            write!(out, "\\u{:04x}", u32::from(control))?;
            rest = &rest[at + control.len_utf8()..];
        }
        plain.write_string_fragment(out, rest)
    }
}

/// A value of a metric whose descriptor says `value_type`. Bytes are hexadecimal, event arrays lists of records;
/// what is not of the metric's type is `null`, as are numbers that JSON does not have.
pub(crate) fn value_json(value: ValueRef<'_>, value_type: ValueType) -> Json {
    match value.to_value(value_type) {
        Ok(Value::I32(v)) => json!(v),
        Ok(Value::U32(v)) => json!(v),
        Ok(Value::I64(v)) => json!(v),
        Ok(Value::U64(v)) => json!(v),
        Ok(Value::Float(v)) => float_json(v),
        Ok(Value::Double(v)) => json!(v),
        Ok(Value::String(text)) => text_json(&text),
        Ok(Value::Aggregate(bytes)) => hex_json(&bytes),
        Ok(Value::Event(bytes)) => records_json(ArrayKind::Event, &bytes),
        Ok(Value::HighResEvent(bytes)) => records_json(ArrayKind::HighRes, &bytes),
        Err(_) => Json::Null,
    }
}

/// A value in JSON's type for it. Bytes are in hexadecimal, and what is no number for JSON is null.
pub(crate) fn typed_json(value: &Value) -> Json {
    match value {
        Value::I32(v) => (*v).into(),
        Value::U32(v) => (*v).into(),
        Value::I64(v) => (*v).into(),
        Value::U64(v) => (*v).into(),
        Value::Float(v) => float_json(*v),
        Value::Double(v) => json!(v),
        Value::String(text) => text_json(text),
        Value::Aggregate(bytes) | Value::Event(bytes) | Value::HighResEvent(bytes) => hex_json(bytes),
    }
}

/// Text, with replacements for what is no UTF-8.
pub(crate) fn text_json(text: &[u8]) -> Json {
    json!(String::from_utf8_lossy(text))
}

/// Why there is nothing: the request that failed, PCP's code, its name and its words.
pub(crate) fn error_json(call: &str, error: PmError) -> Json {
    json!({"call": call, "code": error.0, "name": error.name(), "message": error.to_string()})
}

/// A single-precision number with its own digits, not those of the double it would become.
fn float_json(v: f32) -> Json {
    // 0.1 is to be 0.1, not 0.10000000149011612.
    v.to_string().parse::<f64>().map_or(Json::Null, |v| json!(v))
}

fn hex_json(bytes: &[u8]) -> Json {
    json!(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

fn records_json(kind: ArrayKind, bytes: &[u8]) -> Json {
    let Ok(array) = ArrayReader::<NetworkEndian>::new(kind, bytes) else { return Json::Null };
    let records = array.records().map(|record| {
        let time = json!({"sec": record.time.sec, "nsec": record.time.nsec});
        if let Some(missed) = record.missed() {
            return json!({"time": time, "flags": record.flags.0, "missed": missed});
        }
        let param = |param: RecordParam<'_>| {
            let value = match param.value {
                Param::I32(v) => json!(v),
                Param::U32(v) => json!(v),
                Param::I64(v) => json!(v),
                Param::U64(v) => json!(v),
                Param::Float(v) => float_json(v),
                Param::Double(v) => json!(v),
                Param::String(text) => text_json(text),
                Param::Aggregate(bytes) => hex_json(bytes),
            };
            json!({"pmid": param.pmid.to_string(), "value": value})
        };
        json!({"time": time, "flags": record.flags.0, "parameters": record.params().map(param).collect::<Json>()})
    });
    records.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_character_is_left_in_a_line() {
        let text = "a\u{7f}\u{80}é\u{9b}31m\u{9f}\u{a0}\u{1b}\n\"";
        let json = json!({ text: [text, 1.5, null] });
        let line = json_line(&json);
        let escaped = "a\\u007f\\u0080é\\u009b31m\\u009f\u{a0}\\u001b\\n\\\"";
        assert_eq!(line, format!("{{\"{escaped}\":[\"{escaped}\",1.5,null]}}"));
        assert_eq!(serde_json::from_str::<Json>(&line).ok(), Some(json));
    }
}
