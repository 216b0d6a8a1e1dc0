//! A configuration file.
#![no_main]

use std::path::Path;

use jumpseat::agent::Config;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Err(error) = Config::parse(text, Path::new("fuzz.toml")) {
        assert!(error.to_string().starts_with("fuzz.toml"), "{error}");
    }
});
