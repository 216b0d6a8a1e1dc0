//! The tools that people use on a large archive, next to PCP's: processor time of each program, from its start to its end.
//!
//! What both print is compared byte by byte, and what both copy value by value, before a time counts.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

#[allow(dead_code, reason = "tests use the rest")]
#[path = "../../tests/seat/mod.rs"]
pub(crate) mod seat;

use seat::JUMPSEAT;

use crate::common::clock::children_cpu;
use crate::common::{Figure, Goal, Row, Times, floor, race, rounds};
use crate::made::METRICS;
use crate::scan::{numbers, read_all};
use crate::suite;

/// Of PCP's time, at most.
const GOAL: f64 = 3.0;
/// Archives of the suite of which `info -f` prints something else than pminfo ([the differences](docs/differences.md)): names of
/// instances for which that says "Unknown or illegal instance identifier", and texts that are not UTF-8.
const DIFFERENT: [&str; 8] = [
    "20180127.08.40",
    "960624.08.17_v2",
    "all-sles9-sp1",
    "babylon.pmview_v2",
    "bozo.client_v2",
    "bug1057",
    "procpid-encode2",
    "tricky_4_507",
];
/// Metrics that are taken out of the archive.
const TAKEN: u32 = 20;

pub(crate) fn run(dir: &Path, name: &str, records: u32) {
    let metric = "bench.m6";
    let read: Floor<'_> = ("reading its bytes, nothing else", &|| floor::read_archive(name));
    let start: Floor<'_> = ("info --version, its start", &|| floor::start(JUMPSEAT, &["info", "--version"]));
    let (one, raw) = (["-a", name, "-t", "1min", metric], ["-U", name, metric]);
    print("val", "pmval", &one, "val -t 1min of one metric over all of 1 GB", read);
    print("val", "pmval", &raw, "val -U of one metric over all of 1 GB", read);
    print("info", "pminfo", &["-f", "-a", name], "info -f of 200 metrics of 1 GB", start);
    print("info", "pminfo", &["-f", "-O", "-10sec", "-a", name], "info -f near the end of 1 GB", start);
    all();
    let some: Vec<String> = (0..TAKEN).map(|n| format!("bench.m{}", n * METRICS / TAKEN)).collect();
    copy(dir, name, records, Some(&some), &format!("record -U, {TAKEN} of {METRICS} metrics out of 1 GB"));
    copy(dir, name, records, None, "record -U, a copy of 1 GB");
}

/// What a program prints, and its processor time.
fn output(command: &mut Command) -> (Vec<u8>, Duration) {
    let before = children_cpu();
    let output = command.env("PCP_DERIVED_CONFIG", "").output().expect("it is installed");
    let took = children_cpu() - before;
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    (output.stdout, took)
}

/// What of a job cannot be done without, and its processor time.
type Floor<'a> = (&'a str, &'a dyn Fn() -> Duration);

/// A tool that prints against PCP's, both with the same arguments.
fn print(tool: &str, peer: &str, args: &[&str], what: &str, floor: Floor<'_>) {
    let text = RefCell::new(None);
    let run = |command: &mut Command| {
        let (printed, took) = output(command.args(args));
        assert!(!printed.is_empty());
        let mut text = text.borrow_mut();
        let first = text.get_or_insert_with(|| printed.clone());
        assert!(*first == printed, "{tool} and {peer} {args:?} print the same");
        took
    };
    let ours = &mut || run(Command::new(JUMPSEAT).arg(tool));
    let (least, mut floor) = floor;
    let times = race(rounds(10), [ours, &mut || run(&mut Command::new(peer)), &mut floor]);
    rows(what, &times, [peer, least]);
}

/// `info -f` of many archives, one after the other.
fn all() {
    let archives = suite::archives_without(&DIFFERENT);
    // As the peer of this machine prints.
    let ours = || {
        let mut command = Command::new(JUMPSEAT);
        command.env("JUMPSEAT_PCP_LEVEL", "6.0.3").arg("info");
        command
    };
    let print = |program: &dyn Fn() -> Command| -> (Vec<Vec<u8>>, Vec<Duration>) {
        archives.iter().map(|name| output(program().args(["-f", "-a", name]))).unzip()
    };
    let theirs = || Command::new("pminfo");
    for ((ours, theirs), name) in print(&ours).0.iter().zip(print(&theirs).0).zip(&archives) {
        assert!(*ours == theirs, "{name}: info -f and pminfo -f print the same");
    }
    let files = suite::files(&archives);
    let times = race(
        rounds(3),
        [&mut || print(&ours).1.iter().sum(), &mut || print(&theirs).1.iter().sum(), &mut || {
            suite::unpacked(&files)
        }],
    );
    let what = format!("info -f of {} archives of PCP's test suite, one by one", archives.len());
    rows(&what, &times, ["pminfo", suite::UNPACKED]);
}

/// Copies what is wanted of an archive, as it is.
fn copy(dir: &Path, name: &str, records: u32, wanted: Option<&[String]>, what: &str) {
    let base = dir.join("copy");
    let config = dir.join("config");
    fs::write(&config, wanted.unwrap_or_default().join("\n")).expect("the directory is ours");
    let sum = RefCell::new(None);
    let run = |command: &mut Command| {
        let took = output(command).1;
        // pmlogextract ends with a record of its own that says where the archive ends.
        let copied = read_all(base.to_str().expect("a path of ours"), records, numbers);
        let before = *sum.borrow_mut().get_or_insert(copied);
        assert_eq!(copied, before, "{command:?}");
        for part in fs::read_dir(dir).expect("it is ours").flatten() {
            if part.file_name().to_str().is_some_and(|part| part.starts_with("copy.")) {
                fs::remove_file(part.path()).expect("it is ours");
            }
        }
        took
    };
    // As somebody says it who wants all.
    let all = ["bench".to_owned()];
    let mut ours = || {
        let mut command = Command::new(JUMPSEAT);
        command.args(["record", "-q", "-U", "-a", name]).arg(&base).args(wanted.unwrap_or(&all));
        run(&mut command)
    };
    let mut theirs = || {
        let mut command = Command::new("pmlogextract");
        if wanted.is_some() {
            command.arg("-c").arg(&config);
        }
        run(command.arg(name).arg(&base))
    };
    let (least, mut floor): (_, &mut dyn FnMut() -> Duration) = match wanted {
        Some(_) => ("reading its bytes, nothing else", &mut || floor::read_archive(name)),
        None => ("reading and writing its bytes", &mut || floor::copy_archive(name, &dir.join("bytes"))),
    };
    let times = race(rounds(3), [&mut ours, &mut theirs, &mut floor]);
    rows(what, &times, ["pmlogextract", least]);
}

/// Ours against the peer, and against what cannot be done without.
fn rows(what: &str, [ours, theirs, floor]: &[Times; 3], [peer, least]: [&str; 2]) {
    let ms = |times: &Times| Figure::time(times, 1.0, 1e-3, "ms of CPU");
    Row::new(what, ms(ours)).peer(peer, ms(theirs)).goal(Goal::Ratio(GOAL)).headline().print();
    Row::new(what, ms(ours)).peer(least, ms(floor)).print();
}
