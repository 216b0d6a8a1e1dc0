//! All archives of the suite that are bad, and some that are not, written anew. PCP's own tools judge: pmlogcheck says nothing
//! of what comes that it does not say of what was there, and pmdumplog shows all records that it showed before, in the same
//! order, as the first ones. What there is more, because pmdumplog gives up what is damaged, is in a sound archive of the
//! suite: the bad ones are copies of those that were damaged in one place.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use pcp_archive::{Kind, RepairError, Repaired, WriteError, check, repair};
use support::random::Random;
use support::{PcpEnv, temp_dir};

use crate::suite::{SUITE, archives};

/// Bad archives of which pmdumplog does not show all that is whole, with the sound ones that they were, and which of the
/// records of those there are.
const SOUND: [(&str, &str, std::ops::RangeFrom<usize>); 11] = [
    ("badlabel-1", "badlabel-0", 0..),
    ("badlabel-2", "badlabel-0", 0..),
    // Its first record is the one that is damaged.
    ("badlen-1", "badlen-0", 1..),
    ("badlen-6", "badlen-0", 0..),
    ("badlen-7", "badlen-0", 0..),
    ("badlen-8", "badlen-0", 0..),
    ("badlog-4", "badti-1", 0..),
    ("badmeta-3", "badti-1", 0..),
    ("badmeta-4", "badti-1", 0..),
    ("badmeta-5", "badti-1", 0..),
    ("badti-4", "badti-1", 0..),
];
/// Those whose records are in no other archive, and how many more there are than pmdumplog shows.
const MORE: [(&str, usize); 4] = [
    // pmdumplog does not open these two.
    ("badlen-9", 9),
    ("corrupted_labelset", 2),
    // One is of 2001, in front of the label, and stands first now.
    ("badlog-3", 1),
    // All that is whole is in front of the damage.
    ("ok-truncbin", 0),
];
/// Lines of pmlogcheck that are new, as it gives up the archive that was there before it comes to them: descriptors behind
/// records of values that are damaged; a counter that went back to a record that was out of order.
const NEW: [(&str, usize); 2] = [("archive-20150417.131733", 3), ("badlog-3", 3)];
/// Those of which nothing is written: of version 1, or without one whole record.
const NOTHING: [&str; 17] = [
    "541380",
    "951127.23.01",
    "960624.08.17",
    "ace",
    "babylon.percpu",
    "babylon.pmview",
    "badlen-10",
    "badlen-11",
    "badlen-2",
    "badlen-3",
    "badlen-4",
    "badlen-5",
    "bigace",
    "bozo.client",
    "bug",
    "empty",
    "err_v1",
];
/// Of each of these, the record of the only instance domain is lost.
const WITHOUT_NAMES: [&str; 3] = ["badmeta-3", "badmeta-4", "badmeta-5"];

/// What pmdumplog shows of a record: its time, and the values of each metric.
type Shown = (String, Vec<String>);

/// The records of an archive but marks, as pmdumplog shows them up to where it gives up, and how many marks.
/// `metrics`: those that are looked at.
fn shown(env: &PcpEnv, archive: &Path, metrics: &BTreeSet<String>, names: bool) -> (Vec<Shown>, usize) {
    let dumped = env.run("pmdumplog", ["-Z".as_ref(), "UTC".as_ref(), archive.as_os_str()] as [&OsStr; 3]);
    let (mut records, mut marks): (Vec<Shown>, _) = (Vec::new(), 0);
    let mut is_wanted = false;
    for line in dumped.stdout.lines() {
        let time = line.split_once(' ').filter(|_| line.as_bytes().first().is_some_and(u8::is_ascii_digit));
        if let Some((time, what)) = time {
            is_wanted = false;
            if what.contains("<mark>") {
                marks += 1;
            } else {
                // Version 3 has nanoseconds, which are none if they come from version 2.
                records.push((time[..time.len().min(15)].to_owned(), Vec::new()));
            }
            continue;
        }
        let Some((_, values)) = records.last_mut() else { continue };
        let name = line.strip_prefix("    ").filter(|rest| !rest.starts_with(' '));
        if let Some(name) =
            name.and_then(|rest| rest.split_once('(')).and_then(|(_, rest)| rest.split_once(')'))
        {
            is_wanted = metrics.contains(name.0);
            if is_wanted {
                values.push(String::new());
            }
        }
        if let Some(value) = values.last_mut().filter(|_| is_wanted && !line.is_empty()) {
            let (front, back) = match (line.split_once(" or "), line.split_once("] value")) {
                (Some((front, _)), Some((_, back))) if !names => (front, back),
                _ => (line, ""),
            };
            *value += &format!("{front}{back}\n");
        }
    }
    // Readers do not see records of which nothing is looked at.
    records.retain(|(_, values)| !values.is_empty());
    (records, marks)
}

/// The names of all metrics of an archive.
fn metrics(env: &PcpEnv, archive: &Path) -> BTreeSet<String> {
    let named = env.run("pminfo", ["-a".as_ref(), archive.as_os_str()] as [&OsStr; 2]);
    named.ok().lines().map(str::to_owned).collect()
}

/// What pmlogcheck says of an archive, without its name.
fn said(env: &PcpEnv, archive: &Path) -> Vec<String> {
    let said = env.run("pmlogcheck", [archive]);
    let name = archive.to_str().expect("a usual name");
    let lines = format!("{}\n{}", said.stdout, said.stderr);
    lines.lines().filter(|line| !line.trim().is_empty()).map(|line| line.replace(name, "")).collect()
}

fn of<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(of, _)| *of == name).map(|(_, what)| *what)
}

#[test]
fn bad_archives_are_written_anew() {
    let env = PcpEnv::new();
    let mut nothing = Vec::new();
    let (mut written, mut sound) = (0, 0);
    let some = archives("archives").into_iter().step_by(9);
    for name in archives("badarchives").into_iter().chain(some) {
        let dir = temp_dir();
        let out = dir.path().join("out");
        let short = name.file_name().and_then(OsStr::to_str).expect("a usual name");
        let repaired = match repair(&name, &out, &mut |_| ControlFlow::Continue(())) {
            Ok(repaired) => repaired,
            Err(RepairError::Nothing { .. }) => {
                assert_eq!(fs::read_dir(dir.path()).expect("there").count(), 0, "{short}: something is left");
                nothing.push(short.to_owned());
                continue;
            }
            Err(error) => panic!("{short}: {error}"),
        };
        assert_eq!(fs::read_dir(dir.path()).expect("there").count(), 3, "{short}");
        written += 1;
        let mut before = said(&env, &name);
        let mut new = Vec::new();
        for line in said(&env, &out) {
            match before.iter().position(|said| *said == line) {
                Some(at) => _ = before.swap_remove(at),
                None => new.push(line),
            }
        }
        assert_eq!(new.len(), of(&NEW, short).unwrap_or(0), "{short}: {new:#?}");
        sound += usize::from(compare(&env, &name, short, &out, &repaired));
    }
    nothing.sort();
    assert_eq!(nothing, NOTHING);
    assert!(
        written >= 50 && sound == SOUND.len(),
        "{written} written, {sound} of them beside what they were"
    );
}

/// Compares the records with those that were there. Whether it was a sound archive that they were compared with.
fn compare(env: &PcpEnv, name: &Path, short: &str, out: &Path, repaired: &Repaired) -> bool {
    let metrics = metrics(env, out);
    let names = !WITHOUT_NAMES.contains(&short);
    let (after, marks) = shown(env, out, &metrics, names);
    assert_eq!((after.len() + marks) as u64, repaired.records + repaired.marks, "{short}");
    if let Some((_, sound, range)) = SOUND.iter().find(|(bad, _, _)| *bad == short) {
        let sound = Path::new(SUITE).join("badarchives").join(sound);
        let (before, _) = shown(env, &sound, &metrics, names);
        assert!(!before.is_empty(), "{short}");
        same(short, &before[range.clone()], &after);
        return true;
    }
    let (before, marks_before) = shown(env, name, &metrics, names);
    let more = of(&MORE, short).unwrap_or(0);
    assert_eq!(before.len() + more, after.len(), "{short}");
    match short {
        // The one that is out of order stands elsewhere now.
        "badlog-3" => assert!(before.iter().all(|record| after.contains(record)), "{short}"),
        _ => same(short, &before, &after[..before.len()]),
    }
    assert_eq!(marks as u64, marks_before as u64 + repaired.marks, "{short}");
    false
}

fn same(short: &str, before: &[Shown], after: &[Shown]) {
    assert_eq!(before.len(), after.len(), "{short}");
    for (before, after) in before.iter().zip(after) {
        assert_eq!(before, after, "{short}");
    }
}

#[test]
fn nothing_is_written_over() {
    let dir = temp_dir();
    let out = dir.path().join("out");
    let name = Path::new("/var/lib/pcp/testsuite/archives/ok-foo");
    for suffix in ["0", "meta", "index", "3.xz"] {
        let there = dir.path().join(format!("out.{suffix}"));
        fs::write(&there, "precious").expect("written");
        let error = repair(name, &out, &mut |_| ControlFlow::Continue(())).expect_err("there is one already");
        assert!(matches!(error, RepairError::Write(WriteError::Exists(_))), "{suffix}: {error}");
        assert_eq!(fs::read_to_string(&there).expect("there"), "precious");
        assert_eq!(fs::read_dir(dir.path()).expect("there").count(), 1);
        fs::remove_file(there).expect("removed");
    }
    repair(name, &out, &mut |_| ControlFlow::Continue(())).expect("room for it");
}

#[test]
fn a_repair_that_is_stopped_leaves_nothing() {
    let dir = temp_dir();
    let out = dir.path().join("out");
    let name = Path::new("/var/lib/pcp/testsuite/archives/ok-foo");
    let mut calls = 0;
    repair(name, &out, &mut |_| {
        calls += 1;
        ControlFlow::Continue(())
    })
    .expect("sound");
    for suffix in ["0", "meta", "index"] {
        fs::remove_file(out.with_extension(suffix)).expect("written");
    }
    // In the first walk, and in the second.
    for last in [1, calls / 2, calls] {
        let mut left = last;
        let stopped = repair(name, &out, &mut |_| {
            left -= 1;
            if left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        assert!(matches!(stopped, Err(RepairError::Stopped { .. })), "{last} of {calls}: {stopped:?}");
        assert_eq!(fs::read_dir(dir.path()).expect("there").count(), 0, "{last} of {calls}");
    }
}

#[test]
fn any_damage_is_told_of_and_left_out() {
    const ROUNDS: u64 = 300;
    let env = PcpEnv::new();
    let mut random = Random::new(17, 0);
    let dir = temp_dir();
    let (mut written, mut judged) = (0, 0);
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
        if let Ok(repaired) = repair(&name, &out, &mut |_| ControlFlow::Continue(())) {
            let again = check(&out).expect("there");
            assert_eq!(again.records, repaired.records + repaired.marks, "round {round}");
            let errors = again.findings.iter().filter(|finding| {
                finding.kind.grade() == pcp_archive::Grade::Error && finding.kind != Kind::Value
            });
            assert_eq!(errors.count(), 0, "round {round}: {:?}", again.findings);
            if round % 10 == 0 {
                // What PCP's tools say of values is of what was in the bytes that were hit.
                let lines = said(&env, &out);
                let is_of_values = |line: &String| {
                    [
                        " wrap",
                        "\tvalue",
                        "encoding botch",
                        "pmExtractValue",
                        "in pmDesc",
                        "domain of pmid",
                        "corrupt archive?",
                    ]
                    .iter()
                    .any(|words| line.contains(words))
                };
                assert!(lines.iter().all(is_of_values), "round {round}: {lines:#?}");
                let (records, marks) = shown(&env, &out, &metrics(&env, &out), true);
                assert_eq!(
                    (records.len() + marks) as u64,
                    repaired.records + repaired.marks,
                    "round {round}"
                );
                judged += 1;
            }
            written += 1;
        }
    }
    assert!(written > ROUNDS / 3 && judged >= 10, "{written}, {judged} of them judged");
}

#[test]
fn what_is_in_the_way_is_told_once() {
    let name = Path::new("/var/lib/pcp/testsuite/archives/ok-foo");
    // Where nobody can make a file.
    for (out, told) in [("/nosuch/out", "/nosuch"), ("/proc/out", "/proc/out")] {
        let error = repair(name, out.as_ref(), &mut |_| ControlFlow::Continue(()))
            .expect_err("no place for it")
            .to_string();
        assert_eq!(error, format!("{told}: No such file or directory (os error 2)"));
    }
}
