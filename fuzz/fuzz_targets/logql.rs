//! A query of LogQL, and what it says of a record: what is written of it means the same.
#![no_main]

use jumpseat_web::fuzzing::logql;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // The query, and behind a NUL the message of the record.
    let text = String::from_utf8_lossy(data);
    let (query, message) = text.split_once('\0').unwrap_or((&text, "hello"));
    logql(query, message);
});
