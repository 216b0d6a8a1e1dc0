//! All that is wrong with an archive is found, and what is whole of it written anew. The first byte says which file of
//! `archive.rs` the rest is.
#![no_main]

mod archive;

use std::ops::ControlFlow;

use archive::Member;
use jumpseat::archive::{Kind, check, repair};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((which, data)) = data.split_first() else { return };
    let member = match which % 4 {
        0 => Member::Label,
        1 => Member::Metadata,
        2 => Member::Index,
        _ => Member::Volume,
    };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let name = archive::make(dir.path(), member, data);
    let checked = check(&name).expect("there is one");
    assert!(checked.more() == 0 || checked.findings.len() >= 10_000);
    let out = dir.path().join("out");
    let Ok(repaired) = repair(&name, &out, &mut |_| ControlFlow::Continue(())) else { return };
    assert_eq!(repaired.checked.counts, checked.counts);
    let again = check(&out).expect("it was written");
    assert_eq!(again.records, repaired.records + repaired.marks);
    assert_eq!(again.metadata, repaired.metadata);
    // What is left is of what values and descriptors say.
    let kinds = [Kind::Wrap, Kind::Value, Kind::Encoding, Kind::Descriptor];
    assert!(again.counts.keys().all(|kind| kinds.contains(kind)), "{:?}", again.findings);
});
