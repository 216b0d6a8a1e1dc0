//! A request of PMWEBAPI before a context is looked at, a line each: path, parameters, what is accepted, and the rest is a body. It is good
//! or refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut lines = text.splitn(4, '\n');
    let mut next = || lines.next().unwrap_or_default();
    let (path, parameters, accept, body) = (next(), next(), next(), next());
    jumpseat_web::fuzzing::web_query(path, parameters, body, accept);
});
