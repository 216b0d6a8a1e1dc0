//! An archive while a real pmlogger writes it: event records of our agent, numbers of the sample agent, one volume
//! after the other, and no chance to end it properly. What was read while it grew, what is read of it afterwards and
//! what libpcp reads are the same.

use std::time::Duration;

use crate::archive_support::{CPeer, ORACLE, record_line, record_lines, set_text};
use crate::seat::{Seat, Transport};
use jumpseat::archive::{Archive, Direction, Replay, ReplayMode, Step};
use jumpseat::model::{Pmid, Profile, Timestamp};
use jumpseat::pdu::Fetched;
use support::{AgentSpec, LoggerRun, PrivatePmcd, eventually};

/// Event records, counters, readings, text that never changes.
const METRICS: [&str; 6] = [
    "jumpseat.event.records",
    "jumpseat.source.received",
    "sample.milliseconds",
    "sample.bin",
    "sample.colour",
    "sample.string.hullo",
];
const RECORDS: usize = 30;
const VOLUMES: u32 = 3;
/// The one that is a counter and DOUBLE, and by how many units in the last place libpcp may round it otherwise
/// (`docs/differences.md`).
const DOUBLE_COUNTER: &str = "sample.milliseconds";
const LAST_PLACES: u64 = 2;
/// `pmSetMode` of libpcp.
const INTERP: i32 = 1;

/// Reads on from `at` to the end there is now.
fn read_on(archive: &mut Archive, at: &mut jumpseat::archive::Place, lines: &mut Vec<String>) {
    // A record that the logger has written half is there later.
    while let Ok(Some(Step::Record(place, after))) = archive.next(*at) {
        lines.push(record_line(&archive.record(place).expect("whole records are sound")));
        *at = after;
    }
}

#[test]
fn what_pmlogger_writes_until_it_is_killed() {
    let builder = PrivatePmcd::with([AgentSpec::sample()]);
    let seat = Seat::in_dir(builder.dir(), "");
    let agent = seat.agent(Transport::Pipe);
    let pmcd = builder.agent(agent).start();
    pmcd.wait_ready("jumpseat");
    seat.feed([], "{\"type\":\"first\"}\n").ok();
    let logger =
        LoggerRun::with_options(pmcd.env(), &pmcd.inet(), &METRICS, Duration::from_millis(50), &["-v", "9"]);
    let name = logger.archive().base().to_str().expect("a path of ours").to_owned();
    let mut archive = eventually("an archive that can be opened", || Archive::open(&name).ok());
    let (mut at, mut lines, mut grown, mut fed) = (archive.first(), Vec::new(), 0, 0);
    eventually("some volumes with records", || {
        seat.feed([], &format!("{{\"type\":\"tick\",\"n\":{fed}}}\n")).ok();
        fed += 1;
        grown += usize::from(archive.refresh().expect("it can be read while it grows"));
        read_on(&mut archive, &mut at, &mut lines);
        let volume = std::fs::metadata(format!("{name}.{VOLUMES}")).is_ok();
        (lines.len() >= RECORDS && volume && grown > 1).then_some(())
    });
    let _files = logger.kill();
    archive.refresh().expect("it can be read when its logger is gone");
    read_on(&mut archive, &mut at, &mut lines);
    let mut fresh = Archive::open(&name).expect("a killed logger leaves an archive");
    let mut forward = record_lines(&mut fresh, Direction::Forward);
    forward.pop();
    assert_eq!(lines, forward);

    let mut oracle = CPeer::start(ORACLE);
    oracle.ask(&format!("open {name}"));
    for line in &forward {
        assert_eq!(oracle.ask("next"), *line);
    }
    let end = fresh.end().expect("there are records");
    assert_eq!(oracle.ask("end"), crate::archive_support::time(end));
    let events = fresh.lookup_name("jumpseat.event.records").expect("it was recorded");
    let found = events_in(&mut fresh, events);
    assert!((1..=1 + fed).contains(&found), "{found} events of {fed}");
    interpolated(&name, fresh, end, &mut oracle);
}

/// How many event records the archive has, by the counts of its arrays.
fn events_in(archive: &mut Archive, pmid: Pmid) -> usize {
    let (mut at, mut events) = (archive.first(), 0);
    while let Some(Step::Record(place, after)) = archive.next(at).unwrap() {
        let record = archive.record(place).unwrap();
        for set in record.sets().filter(|set| set.pmid == pmid) {
            for (_, value) in set.values.iter().flat_map(|values| values.iter()) {
                let jumpseat::pdu::ValueRef::Block(block) = value else {
                    panic!("an event array is a block")
                };
                events += u32::from_be_bytes(block[4..8].try_into().unwrap()) as usize;
            }
        }
        at = after;
    }
    events
}

/// Values between the records, to the end and back, as libpcp has them.
fn interpolated(name: &str, archive: Archive, end: Timestamp, oracle: &mut CPeer) {
    let start = archive.label().start;
    let pmids: Vec<Pmid> = METRICS[1..].iter().map(|metric| archive.lookup_name(metric).unwrap()).collect();
    let list: String = pmids.iter().map(|pmid| format!(" {}", pmid.0)).collect();
    let mut replay = Replay::new(archive);
    replay.set_nearest(false);
    let counter = replay.archive().lookup_name(DOUBLE_COUNTER).expect("it was recorded");
    let (mut out, mut compared) = (Fetched::new(), 0);
    for (origin, step) in [(start, 33_000_000_i64), (end, -41_000_000)] {
        replay.set_mode(ReplayMode::Interpolate(step), Some(origin));
        oracle.ask(&format!("open {name}"));
        oracle.ask(&format!("mode {INTERP} {} {} 0 {step}", origin.sec, origin.nsec));
        for sample in 0..40 {
            let theirs = oracle.ask(&format!("fetch{list}"));
            match replay.fetch(&pmids, &Profile::default(), &mut out) {
                Err(error) => assert_eq!(theirs, format!("err {}", error.code().0)),
                Ok(()) => {
                    let ours: Vec<String> = out.sets().map(|set| set_text(&set)).collect();
                    let theirs: Vec<&str> = theirs.split(' ').skip(2).collect();
                    let same = theirs.len() == ours.len()
                        && theirs.iter().zip(&ours).all(|(a, b)| same(a, b, counter));
                    compared += ours.iter().filter(|set| set.contains('=')).count();
                    assert!(same, "sample {sample} of step {step}: {theirs:?}, here {ours:?}");
                }
            }
        }
    }
    assert!(compared > 40, "{compared} sets with values are too few");
}

/// Whether two sets are the same, but for how a DOUBLE counter is rounded between records.
fn same(theirs: &str, ours: &str, counter: Pmid) -> bool {
    if !theirs.starts_with(&format!("{}:", counter.0)) {
        return theirs == ours;
    }
    let double = |value: &str| {
        let (inst, bits) = value.split_once("=5/12/")?;
        Some((inst.to_owned(), u64::from_str_radix(bits, 16).ok()?))
    };
    let value = |(theirs, ours): (&str, &str)| match (double(theirs), double(ours)) {
        (Some(theirs), Some(ours)) => theirs.0 == ours.0 && theirs.1.abs_diff(ours.1) <= LAST_PLACES,
        _ => theirs == ours,
    };
    theirs.split(',').count() == ours.split(',').count() && theirs.split(',').zip(ours.split(',')).all(value)
}
