//! What the kernel shows: pages of its ring buffer by whatever layout, and descriptions of events.
#![no_main]

use jumpseat::source::tracefs::format::Format;
use jumpseat::source::tracefs::page::{Layout, Walk};

libfuzzer_sys::fuzz_target!(|data: (&str, &[u8])| {
    let (text, page) = data;
    let layout = Layout::parse(text).unwrap_or(Layout::NATIVE);
    let format = Format::parse("fuzz", text);
    let Some(mut walk) = Walk::begin(page, layout) else { return };
    while let Some(entry) = walk.next(page) {
        assert!(entry.start <= entry.end && entry.end <= page.len());
        let Ok(format) = &format else { continue };
        for field in &format.fields {
            let record = &page[entry.start..entry.end];
            let _ = (field.bytes(record), field.int(record));
        }
    }
});
