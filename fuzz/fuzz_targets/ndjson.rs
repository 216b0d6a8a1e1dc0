//! A line of a feed, whole and as the beginning of a longer one.
#![no_main]

use jumpseat::source::event::{Event, Limits};
use jumpseat::source::ndjson;

libfuzzer_sys::fuzz_target!(|line: &[u8]| {
    for cut in [false, true] {
        let _ = ndjson::parse(line, &Limits::default(), cut, &mut Event::default());
    }
});
