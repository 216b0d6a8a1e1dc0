//! See `archive.rs`.
#![no_main]

mod archive;

libfuzzer_sys::fuzz_target!(|data: &[u8]| archive::read(archive::Member::Volume, data));
