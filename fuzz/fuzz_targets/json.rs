//! Values as JSON: the type in the first byte, the value in the rest. What is printed is one line that can be parsed
//! again, to the same, and nothing in it drives a terminal.
#![no_main]

use jumpseat::model::ValueType;
use jumpseat_tools::fuzzing::json_line;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((first, bytes)) = data.split_first() else { return };
    let value_type = ValueType::from_code(i32::from(first % 12));
    let line = json_line(value_type, bytes);
    assert!(!line.chars().any(char::is_control), "{line:?}");
    let parsed: serde_json::Value = serde_json::from_str(&line).expect("it is JSON");
    if value_type == ValueType::String {
        let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        assert_eq!(parsed.as_str(), Some(&*String::from_utf8_lossy(text)));
    }
});
