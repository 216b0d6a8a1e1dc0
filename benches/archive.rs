//! Archives against libpcp: reading all of one from front to back, interpolated values of 50 metrics at 10,000
//! times, and one sample near the end of an archive of 1 GB. One of these alone: `scan`, `interpolate`, `large`.
//!
//! The archives are made here, in the directory for temporary files, which needs 1.2 GB. Times are processor times,
//! but that of `pmdumplog`, which is its user's and system's.

mod common;

use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::clock::children_cpu;
use common::{Figure, Goal, Row, Times, race, rounds};
use jumpseat::archive::{
    Archive, ArchiveWriter, Found, LabelInfo, Record, Replay, ReplayMode, Step, Stretch, WriteOptions,
};
use jumpseat::model::{
    Desc, InDom, Instance, PM_IN_NULL, Pmid, Profile, Semantics, Timestamp, Units, Value, ValueType,
};
use jumpseat::pdu::{Fetched, ValueRef};
use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};
use support::CPeer;

const ORACLE: &str = "tests/c/archive_oracle.c";
const SMALL: u64 = 128 << 20;
const LARGE: u64 = 1 << 30;
const POINTS: u32 = 10_000;
/// Metrics in the archives, and of these, those that are interpolated.
const METRICS: u32 = 200;
const WANTED: u32 = 50;
const INSTANCES: i32 = 8;
const START: i64 = 1_700_000_000;
const DISKS: InDom = InDom(60 << 22 | 1);
const GOAL: f64 = 3.0;
/// Of the rate of one thread, what each of two is to have.
const LINEAR: f64 = 0.8;
const GOAL_CPU_MS: f64 = 50.0;
const GOAL_KIB: f64 = 64.0 * 1024.0;

fn main() {
    if let Some(base) = std::env::args().skip_while(|arg| arg != "--near-the-end").nth(1) {
        return near_the_end(&base);
    }
    let part = |name: &str| {
        let mut named = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).peekable();
        named.peek().is_none() || named.any(|arg| arg == name)
    };
    let dir = tempfile::tempdir().expect("a directory can be made");
    let (small, records) = make(&dir.path().join("small"), SMALL);
    if part("scan") {
        scan(&small, records);
    }
    if part("interpolate") {
        interpolate(&small, records);
    }
    if part("large") {
        let (large, records) = make(&dir.path().join("large"), LARGE);
        let program = std::env::current_exe().expect("a program has a path");
        let output = Command::new(program).args(["--near-the-end", &large]).output();
        let output = output.expect("it is this program");
        print!("{records} records, {}", String::from_utf8_lossy(&output.stdout));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Metric number `n`: types and semantics as on a Linux host, most of them 64-bit counters; a third of them have
/// instances.
fn desc(n: u32) -> Desc {
    let (value_type, semantics) = match n % 10 {
        0 | 1 => (ValueType::U32, Semantics::Counter),
        2 => (ValueType::I32, Semantics::Instant),
        3 => (ValueType::Float, Semantics::Instant),
        4 => (ValueType::Double, Semantics::Instant),
        5 => (ValueType::U64, Semantics::Instant),
        _ => (ValueType::U64, Semantics::Counter),
    };
    let indom = if n.is_multiple_of(3) { DISKS } else { InDom::NULL };
    Desc { pmid: Pmid::new(60, 1, n as u16), value_type, indom, semantics, units: Units::NONE }
}

/// Writes an archive of one record a second. Its base name, and how many records.
fn make(base: &Path, size: u64) -> (String, u32) {
    let label = LabelInfo { host: "bench".into(), zone: "UTC".into(), ..LabelInfo::default() };
    let mut archive = ArchiveWriter::create(base, label, WriteOptions::default()).expect("nothing is there");
    let instances: Vec<Instance> =
        (0..INSTANCES).map(|id| Instance { id, name: format!("disk{id}") }).collect();
    archive.indom(Timestamp::new(START, 0), DISKS, &instances);
    let descs: Vec<Desc> = (0..METRICS).map(desc).collect();
    for (n, desc) in descs.iter().enumerate() {
        archive.desc(desc, &[format!("bench.m{n}")]).expect("described once");
    }
    let mut values = Fetched::new();
    let mut records = 0;
    while archive.size() < size {
        values.clear();
        values.timestamp = Timestamp::new(START + i64::from(records), 0);
        for desc in &descs {
            values.begin_set(desc.pmid);
            let insts = if desc.indom == InDom::NULL { PM_IN_NULL..0 } else { 0..INSTANCES };
            for inst in insts {
                let number = records * (inst + 2) as u32;
                let value = match desc.value_type {
                    ValueType::U32 => Value::U32(number),
                    ValueType::I32 => Value::I32(number as i32),
                    ValueType::Float => Value::Float(number as f32),
                    ValueType::Double => Value::Double(number.into()),
                    _ => Value::U64(u64::from(number) * 4096),
                };
                values.push_value(inst, &value).expect("values of one type");
            }
            values.end_set();
        }
        archive.result(&values).expect("the disk has room");
        records += 1;
    }
    archive.flush().expect("the disk has room");
    (base.to_str().expect("a path of ours").to_owned(), records)
}

/// Processor time of this process.
fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map(Duration::from).expect("processes have a clock")
}

/// Takes every record and adds up what `of` makes of it.
fn read_all(name: &str, records: u32, of: impl Fn(&Record<'_>) -> u64) -> u64 {
    let mut archive = Archive::open(name).expect("it was written before");
    let (mut at, mut seen, mut sum) = (archive.first(), 0, 0_u64);
    while let Some(Step::Record(place, after)) = archive.next(at).expect("it is sound") {
        let record = archive.record(place).expect("it is sound");
        sum = sum.wrapping_add(of(&record));
        seen += 1;
        at = after;
    }
    assert_eq!(seen, records);
    sum
}

/// The bits of all numbers in a record, added up.
fn numbers(record: &Record<'_>) -> u64 {
    let values = record.sets().filter_map(|set| set.values.ok()).flat_map(|values| values.iter());
    values.fold(0, |sum, (_, value)| {
        sum.wrapping_add(match value {
            ValueRef::InSitu(word) => u32::from_be_bytes(word).into(),
            ValueRef::Block(&[_, _, _, _, ref number @ ..]) => match *number {
                [a, b, c, d] => u32::from_be_bytes([a, b, c, d]).into(),
                [a, b, c, d, e, f, g, h] => u64::from_be_bytes([a, b, c, d, e, f, g, h]),
                _ => 0,
            },
            ValueRef::Block(_) => 0,
        })
    })
}

/// The numbers of an archive, by as many threads: their sum, and the processor time of the thread that needed most.
fn in_threads(name: &str, count: usize) -> (u64, Duration) {
    let mut archive = Archive::open(name).expect("it was written before");
    let stretches = archive.stretches(count).expect("it is sound");
    assert_eq!(stretches.len(), count);
    let read = |mut stretch: Stretch| {
        let (start, mut sum) = (thread_cpu(), 0_u64);
        while let Some(found) = stretch.next().expect("it is sound") {
            if let Found::Record(record) = found {
                sum = sum.wrapping_add(numbers(&record));
            }
        }
        (sum, thread_cpu() - start)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            stretches.into_iter().map(|stretch| scope.spawn(move || read(stretch))).collect();
        let each = threads.into_iter().map(|thread| thread.join().expect("it does not panic"));
        each.fold((0_u64, Duration::ZERO), |(sum, longest), (its, took)| {
            (sum.wrapping_add(its), longest.max(took))
        })
    })
}

/// Processor time of this thread.
fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).expect("threads have a clock")
}

/// Two threads against one, in processor time of the one that needs longest: what a core each gives, whoever else is there.
fn scale(name: &str, records: u32, sum: u64) {
    let run = |count: usize| {
        let (found, took) = in_threads(name, count);
        assert_eq!(found, sum);
        took
    };
    let [two, one] = race(rounds(10), [&mut || run(2), &mut || run(1)]);
    let rate =
        |times: &Times, threads: f64| Figure::rate(times, f64::from(records) / threads, "records/s a thread");
    Row::new("scan of 128 MB, all values, two threads", rate(&two, 2.0))
        .peer("one thread", rate(&one, 1.0))
        .goal(Goal::Ratio(LINEAR))
        .print();
}

fn scan(name: &str, records: u32) {
    let mut peer = CPeer::start(ORACLE);
    peer.ask(&format!("open {name}"));
    let sum = read_all(name, records, numbers);
    let mut ours = [|record: &Record<'_>| record.timestamp.nsec.into(), numbers].map(|of| {
        move || {
            let start = cpu();
            black_box(read_all(name, records, of));
            cpu() - start
        }
    });
    // Ours are checked when they are read and turned into numbers when they are looked at, libpcp's when they are read.
    let kinds =
        [("records not looked into", "scan", None), ("records and all their values", "sum", Some(GOAL))];
    for (ours, (what, question, goal)) in ours.iter_mut().zip(kinds) {
        let mut theirs = || {
            peer.ask(&format!("mode 2 {START} 0 0 0"));
            let line = peer.ask(question);
            let (line, theirs) = line.rsplit_once(' ').expect("three numbers");
            assert!(question == "scan" || theirs.parse() == Ok(sum));
            answer(line, records)
        };
        let [took, peer] = race(rounds(10), [ours, &mut theirs]);
        let what = format!("scan of 128 MB, {what}");
        let rate = |times: &Times| Figure::rate(times, records.into(), "records/s");
        Row::new(what, rate(&took))
            .peer("pmFetchArchive", rate(&peer))
            .goal(goal.map(Goal::Ratio))
            .headline()
            .print();
    }
    scale(name, records, sum);
    let mut dump = || {
        let before = children_cpu();
        let status = Command::new("pmdumplog").args(["-m", name]).stdout(Stdio::null()).status();
        assert!(status.is_ok_and(|status| status.success()), "pmdumplog fails");
        children_cpu() - before
    };
    let [took, peer] = race(2, [&mut ours[1], &mut dump]);
    let rate = |times: &Times| Figure::rate(times, records.into(), "records/s");
    Row::new("scan of 128 MB, records and all their values", rate(&took))
        .peer("pmdumplog -m, which prints them", rate(&peer))
        .print();
}

/// What the oracle says: how long it took, and for how many.
fn answer(line: &str, count: u32) -> Duration {
    let (nanos, done) = line.split_once(' ').expect("a time and a number");
    assert_eq!(done.parse(), Ok(count));
    Duration::from_nanos(nanos.parse().expect("a number of nanoseconds"))
}

fn interpolate(name: &str, records: u32) {
    let step = i64::from(records - 1) * 1_000_000_000 / i64::from(POINTS);
    let pmids: Vec<Pmid> = (0..WANTED).map(|n| desc(n).pmid).collect();
    let list: String = pmids.iter().map(|pmid| format!(" {}", pmid.0)).collect();
    let begin = Timestamp::new(START, 1);
    let end = Timestamp::new(START + i64::from(records - 1), 0);
    for (what, begin, step, points) in [
        ("forward", begin, step, POINTS),
        ("backward", end, -step, POINTS),
        ("ten times as far apart", begin, step * 10, POINTS / 10),
    ] {
        let ours = |nearest: bool| {
            let start = cpu();
            let mut replay = Replay::new(Archive::open(name).expect("it was written before"));
            replay.set_nearest(nearest);
            replay.set_mode(ReplayMode::Interpolate(step), Some(begin));
            let mut out = Fetched::new();
            for _ in 0..points {
                replay.fetch(&pmids, &Profile::default(), &mut out).expect("it is sound");
            }
            assert_eq!(out.len(), pmids.len());
            cpu() - start
        };
        let mut theirs = || {
            let mut peer = CPeer::start(ORACLE);
            peer.ask(&format!("open {name}"));
            let (sec, nsec) = (step / 1_000_000_000, step % 1_000_000_000);
            peer.ask(&format!("mode 1 {} {} {sec} {nsec}", begin.sec, begin.nsec));
            answer(&peer.ask(&format!("time {points}{list}")), points)
        };
        let [ours, default, peer] = race(rounds(10), [&mut || ours(false), &mut || ours(true), &mut theirs]);
        let what = format!("{WANTED} metrics at {points} times, {what}");
        let rate = |times: &Times| Figure::rate(times, points.into(), "samples/s");
        Row::new(format!("{what}, by libpcp's rule"), rate(&ours))
            .peer("libpcp", rate(&peer))
            .goal(Goal::Ratio(GOAL))
            .print();
        Row::new(format!("{what}, as by default"), rate(&default))
            .peer("libpcp", rate(&peer))
            .goal(Goal::Ratio(GOAL))
            .print();
    }
}

/// In a process of its own: opens an archive and reads the record that was current ten seconds before its end.
fn near_the_end(name: &str) {
    let mut replay = Replay::new(Archive::open(name).expect("it was written before"));
    let end = replay.archive_mut().end().expect("it is sound");
    let pmids: Vec<Pmid> = (0..METRICS).map(|n| desc(n).pmid).collect();
    let mut out = Fetched::new();
    replay.set_mode(ReplayMode::Forward, Some(Timestamp::new(end.sec - 10, 0)));
    replay.fetch(&pmids, &Profile::default(), &mut out).expect("there is a record");
    assert_eq!(out.timestamp.sec, end.sec - 10);
    let cpu = cpu();
    let kib = getrusage(UsageWho::RUSAGE_SELF).expect("every process has them").max_rss() as u64;
    let what = "a sample near the end of 1 GB";
    Row::new(what, Figure::cost(cpu.as_secs_f64() * 1000.0, "ms of CPU"))
        .goal(Goal::AtMost(GOAL_CPU_MS))
        .print();
    Row::new(format!("{what}, resident memory"), Figure::cost(kib as f64, "KiB"))
        .goal(Goal::AtMost(GOAL_KIB))
        .print();
}
