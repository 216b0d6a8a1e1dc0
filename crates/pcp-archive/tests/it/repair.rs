//! All archives of the suite that are bad, and some that are not, written anew: pmlogcheck takes what comes, and every record
//! that is whole is in it.

use std::fs;
use std::path::Path;

use pcp_archive::{Archive, RepairError, Step, WriteError, check, repair};
use support::random::Random;
use support::{PcpEnv, temp_dir};

use crate::suite::archives;

/// What pmlogcheck may say of an archive that is written anew: what was recorded, and not how it is kept.
fn is_of_contents(line: &str) -> bool {
    let contents = [
        " wrap",
        "\tvalue",
        "in pmDesc",
        "domain of pmid",
        "encoding botch",
        "pmExtractValue",
        "Note: timezone",
        "possibly corrupt archive?",
    ];
    line.trim().is_empty() || contents.iter().any(|words| line.contains(words))
}

#[test]
fn bad_archives_are_written_anew() {
    let env = PcpEnv::new();
    let (mut written, mut nothing) = (0, Vec::new());
    let some = archives("archives").into_iter().step_by(9);
    for name in archives("badarchives").into_iter().chain(some) {
        let dir = temp_dir();
        let out = dir.path().join("out");
        let place = name.display();
        let repaired = match repair(&name, &out, &mut |_| {}) {
            Ok(repaired) => repaired,
            Err(RepairError::Nothing { .. }) => {
                assert_eq!(fs::read_dir(dir.path()).expect("there").count(), 0, "{place}: something is left");
                nothing.push(name);
                continue;
            }
            Err(error) => panic!("{place}: {error}"),
        };
        assert_eq!(fs::read_dir(dir.path()).expect("there").count(), 3, "{place}");
        let said = env.run("pmlogcheck", [out.as_path()]);
        let said = format!("{}\n{}", said.stdout, said.stderr);
        let bad: Vec<&str> = said.lines().filter(|line| !is_of_contents(line)).collect();
        assert!(bad.is_empty(), "{place}: {bad:#?}");
        // Every record that is whole, but such of which nothing is described.
        let checked = check(&out).expect("there");
        assert_eq!(checked.records, repaired.records + repaired.marks, "{place}");
        let empty: u64 = repaired.checked.records - repaired.records;
        assert!(empty == 0 || repaired.left_out.iter().any(|left| left.count >= empty), "{place}");
        assert!(
            env.run("pmdumplog", ["-a".as_ref(), out.as_os_str()] as [&std::ffi::OsStr; 2]).status.success(),
            "{place}: pmdumplog refuses it"
        );
        same_values(&name, &out);
        written += 1;
    }
    // Version 1 was never read by this or PCP's own library; the others have not one whole record.
    let nothing: Vec<String> =
        nothing.iter().filter_map(|name| Some(name.file_name()?.to_string_lossy().into_owned())).collect();
    assert!(written >= 40, "{written} written, nothing of {nothing:?}");
    assert!(nothing.len() <= 18, "nothing of {nothing:?}");
}

/// An archive that the reader takes as it is holds the same values when it is written anew.
fn same_values(name: &Path, out: &Path) {
    let (Some(before), Some(after)) = (values(name), values(out)) else { return };
    let (Some(first), Some(last)) = (before.first(), before.last()) else { return };
    let is_sorted = before.is_sorted_by_key(|record| record.0);
    if is_sorted && first.0 <= last.0 {
        assert_eq!(before, after, "{}", name.display());
    }
}

/// All records but marks, as text.
fn values(name: &Path) -> Option<Vec<(pcp_model::Timestamp, String)>> {
    let mut archive = Archive::open(name.to_str()?).ok()?;
    let described = archive.pmids();
    let mut all = Vec::new();
    let mut at = archive.first();
    while let Some(step) = archive.next(at).ok()? {
        at = match step {
            Step::Record(place, after) => {
                let record = archive.record(place).ok()?;
                let mut text = String::new();
                for set in record.sets().filter(|set| described.contains(&set.pmid)) {
                    text.push_str(&format!("{}", set.pmid));
                    match set.values {
                        Ok(values) => values.iter().for_each(|value| text.push_str(&format!(" {value:?}"))),
                        Err(error) => text.push_str(&error.to_string()),
                    }
                }
                if !text.is_empty() {
                    all.push((record.timestamp, text));
                }
                after
            }
            Step::Gap(_, after) => after,
        };
    }
    Some(all)
}

#[test]
fn nothing_is_written_over() {
    let dir = temp_dir();
    let out = dir.path().join("out");
    let name = Path::new("/var/lib/pcp/testsuite/archives/ok-foo");
    for suffix in ["0", "meta", "index", "3.xz"] {
        let there = dir.path().join(format!("out.{suffix}"));
        fs::write(&there, "precious").expect("written");
        let error = repair(name, &out, &mut |_| {}).expect_err("there is one already");
        assert!(matches!(error, RepairError::Write(WriteError::Exists(_))), "{suffix}: {error}");
        assert_eq!(fs::read_to_string(&there).expect("there"), "precious");
        assert_eq!(fs::read_dir(dir.path()).expect("there").count(), 1);
        fs::remove_file(there).expect("removed");
    }
    repair(name, &out, &mut |_| {}).expect("room for it");
}

#[test]
fn any_damage_is_told_of_and_left_out() {
    const ROUNDS: u64 = 300;
    let mut random = Random::new(17, 0);
    let dir = temp_dir();
    let mut written = 0;
    for round in 0..ROUNDS {
        let name = dir.path().join(format!("a{round}"));
        for suffix in ["0", "meta", "index"] {
            let mut bytes =
                fs::read(format!("/var/lib/pcp/testsuite/badarchives/badlog-2.{suffix}")).expect("there");
            for _ in 0..random.below(4) {
                let at = random.below(bytes.len());
                match random.below(4) {
                    0 => bytes.truncate(at),
                    1 => bytes[at] = 0xff,
                    2 => drop(bytes.drain(at..(at + 5).min(bytes.len()))),
                    _ => bytes[at] ^= 1 << random.below(8),
                }
                if bytes.is_empty() {
                    break;
                }
            }
            fs::write(dir.path().join(format!("a{round}.{suffix}")), bytes).expect("written");
        }
        check(&name).expect("there");
        let out = dir.path().join(format!("out{round}"));
        if let Ok(repaired) = repair(&name, &out, &mut |_| {}) {
            let again = check(&out).expect("there");
            assert_eq!(again.records, repaired.records + repaired.marks, "round {round}");
            let worst: Vec<_> = again
                .findings
                .iter()
                .filter(|finding| finding.kind.grade() == pcp_archive::Grade::Error)
                .collect();
            let of_values = |finding: &&&pcp_archive::Finding| finding.kind == pcp_archive::Kind::Value;
            assert!(worst.iter().all(|finding| of_values(&finding)), "round {round}: {worst:?}");
            written += 1;
        }
    }
    assert!(written > ROUNDS / 3, "{written}");
}

#[test]
fn what_is_in_the_way_is_told_once() {
    let name = Path::new("/var/lib/pcp/testsuite/archives/ok-foo");
    // Where nobody can make a file.
    for (out, told) in [("/nosuch/out", "/nosuch"), ("/proc/out", "/proc/out")] {
        let error = repair(name, out.as_ref(), &mut |_| {}).expect_err("no place for it").to_string();
        assert_eq!(error, format!("{told}: No such file or directory (os error 2)"));
    }
}
