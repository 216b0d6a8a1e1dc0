//! Archives against libpcp and PCP's tools: reading all of one from front to back, interpolated values of 50 metrics at 10,000 times
//! and of archives of real machines with gaps in them, and, of an archive of 1 GB, one sample near its end and the tools that
//! people use on it, with the check of all that is wrong. One of these alone: `scan`, `interpolate`, `gaps`, `large`, `tools`,
//! `check`.
//!
//! The archives are made here ([`made`]), in the directory for temporary files, which needs 3 GB; those of real machines are of PCP's
//! own test suite. Times are processor times.

mod check;
#[path = "../common/mod.rs"]
mod common;
mod gaps;
mod interpolate;
mod made;
mod scan;
mod suite;
mod tools;

use std::process::Command;
use std::time::Duration;

use common::{Figure, Goal, Row};
use jumpseat::archive::{Archive, Replay, ReplayMode};
use jumpseat::model::{Pmid, Profile, Timestamp};
use jumpseat::pdu::Fetched;
use made::{METRICS, desc};
use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};

const ORACLE: &str = "tests/c/archive_oracle.c";
const SMALL: u64 = 128 << 20;
const LARGE: u64 = 1 << 30;
/// Of libpcp's time.
const GOAL: f64 = 3.0;
const GOAL_CPU_MS: f64 = 50.0;
const GOAL_KIB: f64 = 64.0 * 1024.0;

fn main() {
    if let Some(base) = std::env::args().skip_while(|arg| arg != "--near-the-end").nth(1) {
        return one_near_the_end(&base);
    }
    let part = |name: &str| {
        let mut named = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).peekable();
        named.peek().is_none() || named.any(|arg| arg == name)
    };
    let dir = tempfile::tempdir().expect("a directory can be made");
    let (small, records) = made::make(&dir.path().join("small"), SMALL);
    if part("scan") {
        scan::scan(&small, records);
    }
    if part("interpolate") {
        interpolate::interpolate(&small, records);
    }
    if part("gaps") {
        gaps::interpolate();
    }
    if !part("large") && !part("tools") && !part("check") {
        return;
    }
    let (large, records) = made::make(&dir.path().join("large"), LARGE);
    if part("large") {
        println!("{records} records");
        near_the_end(&large);
    }
    if part("tools") {
        tools::run(dir.path(), &large, records);
    }
    if part("check") {
        check::run(&large);
    }
}

/// Processor time of this process.
fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map(Duration::from).expect("processes have a clock")
}

/// What the oracle says: how long it took, and for how many.
fn answer(line: &str, count: u32) -> Duration {
    let (nanos, done) = line.split_once(' ').expect("a time and a number");
    assert_eq!(done.parse(), Ok(count));
    Duration::from_nanos(nanos.parse().expect("a number of nanoseconds"))
}

/// One sample near the end, in processes of its own: what each takes.
fn near_the_end(name: &str) {
    let program = std::env::current_exe().expect("a program has a path");
    let (ms, kib): (Vec<f64>, Vec<f64>) = common::repeat(|| {
        let output = Command::new(&program).args(["--near-the-end", name]).output();
        let output = output.expect("it is this program");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("numbers");
        let (ms, kib) = text.trim().split_once(' ').expect("two numbers");
        (ms.parse::<f64>().expect("a number"), kib.parse::<f64>().expect("a number"))
    })
    .into_iter()
    .unzip();
    let what = "a sample near the end of 1 GB";
    Row::new(what, Figure::costs(ms, "ms of CPU")).goal(Goal::AtMost(GOAL_CPU_MS)).print();
    Row::new(format!("{what}, resident memory"), Figure::middle(kib, "KiB"))
        .goal(Goal::AtMost(GOAL_KIB))
        .print();
}

/// Opens an archive and reads the record that was current ten seconds before its end; prints what this process has taken.
fn one_near_the_end(name: &str) {
    let mut replay = Replay::new(Archive::open(name).expect("it was written before"));
    let end = replay.archive_mut().end().expect("it is sound");
    let pmids: Vec<Pmid> = (0..METRICS).map(|n| desc(n).pmid).collect();
    let mut out = Fetched::new();
    replay.set_mode(ReplayMode::Forward, Some(Timestamp::new(end.sec - 10, 0)));
    replay.fetch(&pmids, &Profile::default(), &mut out).expect("there is a record");
    assert_eq!(out.timestamp.sec, end.sec - 10);
    let cpu = cpu();
    let kib = getrusage(UsageWho::RUSAGE_SELF).expect("every process has them").max_rss();
    println!("{} {kib}", cpu.as_secs_f64() * 1000.0);
}
