//! Tables of what a real PCP's library said about units and values.

use serde_json::Value as Json;

/// The rows of a table in `tests/data/units`.
pub(crate) fn rows(file: &str) -> Vec<Json> {
    let path = support::repository().join("tests/data/units").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A field that holds 32 bits in hexadecimal.
pub(crate) fn word(text: &Json) -> u32 {
    u32::from_str_radix(text.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

/// A field that holds bytes in hexadecimal.
pub(crate) fn bytes(hex: &Json) -> Vec<u8> {
    let hex = hex.as_str().unwrap();
    (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect()
}

/// A field that holds a type or status.
pub(crate) fn code(json: &Json) -> i32 {
    json.as_i64().unwrap() as i32
}
