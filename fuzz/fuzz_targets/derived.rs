//! The expression of a derived metric, in the language of the newest PCP.
#![no_main]

use jumpseat::derive::{Dialect, Registry};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = Registry::new(Dialect::default()).register("fuzz.metric", text);
});
