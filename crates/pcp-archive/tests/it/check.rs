//! What is found in all archives of the suite, beside what pmlogcheck finds in them.
//!
//! The rule: in each archive, every kind that pmlogcheck tells of is found. Of an archive without an error of either, the
//! number of findings of each kind is the same, wraps and values that are encoded otherwise counted one by one. What more is
//! found is of the index (places at which no record begins, which pmlogcheck does not look at; that there is none), or of an
//! archive that pmlogcheck gives up.

use std::collections::BTreeMap;
use std::fs;

use pcp_archive::{Kind, check};
use support::{PcpEnv, temp_dir};

use crate::suite::archives;

/// Old loggers' 64-bit values have no type in their blocks. PCP's library on a little-endian machine then takes their bytes the
/// wrong way round, and pmlogcheck sees counters go back that did not.
const UNTYPED: [&str; 3] = ["960624.08.17_v2", "babylon.pmview_v2", "bozo.client_v2"];

type Counts = BTreeMap<Kind, u64>;

/// The kind of what a line of pmlogcheck tells, and whether the check ends with it.
fn kind_of(line: &str) -> Option<(Kind, bool)> {
    let has = |words: &[&str]| words.iter().any(|word| line.contains(word));
    let found = if has(&[
        "\tvalue",
        "last valid record",
        "Note: timezone",
        "corrupt archive?",
        "abandoned",
        "cannot continue",
    ]) || line.trim().is_empty()
    {
        return None;
    } else if has(&[" wrap"]) {
        (Kind::Wrap, false)
    } else if has(&["contains no PCP data", "[record 0]: unexpected EOF", "Empty archive"]) {
        (Kind::Empty, true)
    } else if has(&["unexpected record type"]) {
        (Kind::RecordType, false)
    } else if has(&["file missing for log", "missing metadata file"]) {
        (Kind::Missing, false)
    } else if has(&[".index[", "index is missing"]) {
        (Kind::Index, false)
    } else if has(&["label record", "bad label", "mismatched label"]) {
        (Kind::Label, true)
    } else if has(&["[record "]) {
        (Kind::Damage, true)
    } else if has(&["in pmDesc", "domain of pmid", "no name in PMNS"]) {
        (Kind::Descriptor, false)
    } else if has(&["timestamp"]) {
        (Kind::Time, false)
    } else if has(&["pmLookupDesc"]) {
        (Kind::Undescribed, false)
    } else if has(&["encoding botch"]) {
        (Kind::Encoding, false)
    } else if has(&["pmExtractValue"]) {
        (Kind::Value, true)
    } else if has(&["Corrupted record"]) {
        (Kind::Metadata, true)
    } else {
        panic!("pmlogcheck says what nobody expects: {line}");
    };
    Some(found)
}

#[test]
fn what_pmlogcheck_finds_is_found() {
    let env = PcpEnv::new();
    let (mut compared, mut equal, mut misread) = (0, 0, 0);
    for name in archives("archives").into_iter().chain(archives("badarchives")) {
        let said = env.run("pmlogcheck", [name.as_path()]);
        assert!(said.status.code().is_some(), "pmlogcheck came to no end of its own: {said}");
        let mut theirs = Counts::new();
        let mut ends = false;
        let untyped = UNTYPED.iter().any(|untyped| name.ends_with(untyped));
        for line in format!("{}\n{}", said.stdout, said.stderr).lines() {
            if untyped && line.contains("64-bit wrap") {
                misread += 1;
                continue;
            }
            let Some((kind, is_last)) = kind_of(line) else { continue };
            *theirs.entry(kind).or_default() += 1;
            ends |= is_last;
        }
        let checked = check(&name).expect("there");
        let mut ours = Counts::new();
        for finding in &checked.findings {
            *ours.entry(finding.kind).or_default() += match finding.kind {
                Kind::Wrap => finding.count,
                _ => 1,
            };
        }
        compared += 1;
        let place = name.display();
        for kind in theirs.keys() {
            // A record of metadata whose contents are wrong is one to them.
            let found =
                ours.contains_key(kind) || (*kind == Kind::Metadata && ours.contains_key(&Kind::Damage));
            assert!(found, "{place}: {kind:?} is not found\n{theirs:?}\n{ours:?}");
        }
        if ends || theirs.contains_key(&Kind::Encoding) {
            continue;
        }
        for (kind, count) in &ours {
            let told = theirs.get(kind).copied().unwrap_or_default();
            match kind {
                Kind::Index => assert!(*count >= told, "{place}: {kind:?}"),
                _ => assert_eq!(*count, told, "{place}: {kind:?}\n{:?}", checked.findings),
            }
        }
        equal += 1;
    }
    assert_eq!(misread, 85, "counters that pmlogcheck misreads");
    assert!(compared >= 240 && equal >= 190, "{compared} compared, {equal} of them to the last");
}

#[test]
fn damage_costs_what_is_damaged() {
    let env = PcpEnv::new();
    let whole = check("/var/lib/pcp/testsuite/archives/ok-bigbin".as_ref()).expect("there");
    let dir = temp_dir();
    for suffix in ["0", "meta", "index"] {
        let from = format!("/var/lib/pcp/testsuite/archives/ok-bigbin.{suffix}");
        fs::copy(from, dir.path().join(format!("a.{suffix}"))).expect("copied");
    }
    let volume = dir.path().join("a.0");
    let mut bytes = fs::read(&volume).expect("there");
    let middle = bytes.len() / 2;
    bytes[middle..middle + 64].fill(0xff);
    // Bytes that are no record at all, in front of the last half.
    bytes.splice(middle..middle, std::iter::repeat_n(0, 1001));
    fs::write(&volume, bytes).expect("written");
    let damaged = check(&dir.path().join("a")).expect("there");
    assert!(damaged.findings.iter().any(|finding| finding.kind == Kind::Damage), "{:?}", damaged.findings);
    assert!(damaged.records >= whole.records - 3, "{} of {}", damaged.records, whole.records);
    drop(env);
}
