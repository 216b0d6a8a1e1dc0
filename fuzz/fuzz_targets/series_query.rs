//! A query of `/series`, a glob over what is behind its first newline, and a file of the index: answered or refused.
//! The canonical text of a query, which need not be one, too.
#![no_main]

use jumpseat_web::series_fuzzing::{cached, canonical, glob};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    cached(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (pattern, name) = text.split_once('\n').unwrap_or((text, "disk.dev.read"));
    glob(pattern, name);
    let Some(first) = canonical(text) else { return };
    canonical(&first);
});
