//! The text of an event filter.
#![no_main]

use jumpseat::event::filter::Filter;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(Some(filter)) = Filter::parse(text) {
        let _ = filter.memory();
    }
});
