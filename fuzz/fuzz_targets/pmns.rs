//! The source text of a name space, macros and conditions included; nothing is read from files.
#![no_main]

use jumpseat::model::pmns::{Includes, blocks, lines};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let symbols = [("JUMPSEAT", "400".to_owned())];
    if let Ok(lines) = lines("fuzz", text, &symbols, &Includes::Refused) {
        let _ = blocks(&lines);
    }
});
