//! A question of the page of `jumpseat web`: parameters, and behind a line break the message of a record that its filter is asked about. It
//! is good or refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (parameters, message) = text.split_once('\n').unwrap_or((text, ""));
    jumpseat_web::fuzzing::page_query(parameters, message);
});
