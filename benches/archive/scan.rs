//! Reading all of an archive from front to back, by one thread and by two.

use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::Duration;

use jumpseat::archive::{Archive, Found, Record, Step, Stretch};
use jumpseat::pdu::ValueRef;
use support::CPeer;

use crate::common::clock::{children_cpu, thread_cpu};
use crate::common::{Figure, Goal, Row, Times, floor, race, rounds};
use crate::made::START;
use crate::{GOAL, ORACLE, answer, cpu};

/// Of the rate of one thread, what each of two is to have.
const LINEAR: f64 = 0.8;

pub(crate) fn scan(name: &str, records: u32) {
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
    let rate = |times: &Times| Figure::rate(times, records.into(), "records/s");
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
        Row::new(what, rate(&took))
            .peer("pmFetchArchive", rate(&peer))
            .goal(goal.map(Goal::Ratio))
            .headline()
            .print();
    }
    let [took, floor] = race(rounds(10), [&mut ours[1], &mut || floor::read_archive(name)]);
    Row::new("scan of 128 MB, records and all their values", rate(&took))
        .peer("reading its bytes, nothing else", rate(&floor))
        .print();
    scale(name, records, sum);
    let mut dump = || {
        let before = children_cpu();
        let status = Command::new("pmdumplog").args(["-m", name]).stdout(Stdio::null()).status();
        assert!(status.is_ok_and(|status| status.success()), "pmdumplog fails");
        children_cpu() - before
    };
    let [took, peer] = race(2, [&mut ours[1], &mut dump]);
    Row::new("scan of 128 MB, records and all their values", rate(&took))
        .peer("pmdumplog -m, which prints them", rate(&peer))
        .print();
}

/// Takes every record and adds up what `of` makes of it.
pub(crate) fn read_all(name: &str, records: u32, of: impl Fn(&Record<'_>) -> u64) -> u64 {
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
pub(crate) fn numbers(record: &Record<'_>) -> u64 {
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
