//! Metrics that are looked for one by one from the same time on: each is found where a reader finds it that has looked for nothing else.

use std::path::Path;

use pcp_archive::{Archive, ArchiveWriter, LabelInfo, Replay, ReplayMode, WriteOptions};
use pcp_model::{Desc, InDom, PM_IN_NULL, Pmid, Profile, Semantics, Timestamp, Units, Value, ValueType};
use pcp_pdu::Fetched;
use support::temp_dir;

const METRICS: u32 = 40;
const RECORDS: i64 = 200;

fn pmid(n: u32) -> Pmid {
    Pmid::new(60, 1, n as u16)
}

pub(crate) fn at(sec: i64) -> Timestamp {
    Timestamp::new(1_700_000_000 + sec, 0)
}

pub(crate) fn writer(base: &Path, options: WriteOptions) -> ArchiveWriter {
    let label = LabelInfo { host: "host".into(), zone: "UTC".into(), pid: 7, ..LabelInfo::default() };
    let mut writer = ArchiveWriter::create(base, label, options).expect("nothing is there");
    for n in 0..METRICS {
        let (value_type, semantics) = (ValueType::U32, Semantics::Instant);
        let desc = Desc { pmid: pmid(n), value_type, indom: InDom::NULL, semantics, units: Units::NONE };
        writer.desc(&desc, &[format!("m{n}")]).expect("described once");
    }
    writer
}

pub(crate) fn record(writer: &mut ArchiveWriter, sec: i64, metrics: impl Iterator<Item = u32>) {
    let mut fetched = Fetched::new();
    fetched.timestamp = at(sec);
    for n in metrics {
        fetched.begin_set(pmid(n));
        fetched.push_value(PM_IN_NULL, &Value::U32(sec as u32)).expect("a number");
        fetched.end_set();
    }
    writer.result(&fetched).expect("room for it");
}

/// What one finds that goes to a time and fetches, and what it finds when it fetches again.
fn found(replay: &mut Replay, from: Timestamp, pmids: &[Pmid]) -> [Result<String, String>; 2] {
    replay.set_mode(ReplayMode::Forward, Some(from));
    let mut fetched = Fetched::new();
    [(); 2].map(|()| {
        let outcome = replay.fetch(pmids, &Profile::default(), &mut fetched);
        let sets: Vec<_> = fetched.sets().collect();
        outcome.map(|()| format!("{} {sets:?}", fetched.timestamp)).map_err(|error| error.to_string())
    })
}

/// When these are there first from a time on, and again, by reading every record.
fn there(names: &str, from: Timestamp, pmids: &[Pmid]) -> [Result<String, String>; 2] {
    let mut replay = open(names);
    replay.set_mode(ReplayMode::Forward, Some(from));
    let (mut fetched, mut last) = (Fetched::new(), from);
    [(); 2].map(|()| {
        loop {
            replay.next_record(&mut fetched).map_err(|error| error.to_string())?;
            // Of a reader's, time does not run back.
            if fetched.timestamp >= last && fetched.sets().any(|set| pmids.contains(&set.pmid)) {
                last = fetched.timestamp;
                return Ok(last.to_string());
            }
        }
    })
}

fn open(names: &str) -> Replay {
    Replay::new(Archive::open(names).expect("it was written"))
}

#[test]
fn each_is_found_as_if_it_were_the_only_one() {
    let dir = temp_dir();
    let [first, second] = ["a", "b"].map(|name| dir.path().join(name));
    let mut archive = writer(&first, WriteOptions::default());
    for sec in 0..RECORDS {
        if sec == 50 {
            archive.mark().expect("room for it");
        }
        // Most metrics come late, some never; two groups take turns.
        let latest = (sec / 7) as u32;
        record(&mut archive, sec, (0..=latest).filter(|n| i64::from(n % 3) != sec % 3));
    }
    archive.flush().expect("room for it");
    let mut later = writer(&second, WriteOptions::default());
    record(&mut later, RECORDS + 100, 30..35);
    record(&mut later, RECORDS + 101, 34..37);
    later.flush().expect("room for it");
    // Two that are out of order: which ones count depends on when one begins.
    let volume = first.with_extension("0");
    let mut bytes = std::fs::read(&volume).expect("there");
    let stamps = |bytes: &[u8]| -> Vec<usize> {
        let mut at = 0;
        std::iter::from_fn(|| {
            let this = at;
            at += u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize;
            Some(this + 4)
        })
        .collect()
    };
    let stamps = stamps(&bytes);
    for record in [60, 100] {
        let sec = at(30).sec.to_be_bytes();
        bytes[stamps[record]..stamps[record] + 8].copy_from_slice(&sec);
    }
    std::fs::write(&volume, bytes).expect("written");

    let names = format!("{},{}", first.display(), second.display());
    let mut replay = open(&names);
    let mut differ = 0;
    for from in [0, 31, 80, 150, RECORDS + 50, RECORDS + 1000] {
        for n in (0..METRICS).rev().chain(0..METRICS) {
            let several = [pmid(n), pmid(n / 2 + 20), Pmid::new(60, 2, 9)];
            for pmids in [&several[..1], &several, &several[2..]] {
                let alone = found(&mut open(&names), at(from), pmids);
                assert_eq!(found(&mut replay, at(from), pmids), alone, "metric {n} from {from} on");
                let when = alone.clone().map(|found| {
                    found.map(|found| found.split(' ').next().expect("the time is in front").to_owned())
                });
                assert_eq!(when, there(&names, at(from), pmids), "metric {n} from {from} on");
                differ += usize::from(alone[0].is_err());
            }
        }
    }
    assert!(differ > 100, "some are found, some are not");
}

#[test]
fn what_was_not_there_is_found_when_it_has_come() {
    let dir = temp_dir();
    let base = dir.path().join("a");
    let mut archive = writer(&base, WriteOptions::default());
    record(&mut archive, 0, 0..2);
    record(&mut archive, 1, 1..3);
    archive.flush().expect("room for it");
    let mut replay = open(base.to_str().expect("a path of ours"));
    let is_found = |replay: &mut Replay, n: u32| found(replay, at(0), &[pmid(n)])[0].is_ok();
    for _ in 0..3 {
        assert_eq!([0, 2, 3, 7].map(|n| is_found(&mut replay, n)), [true, true, false, false]);
    }
    record(&mut archive, 2, 3..5);
    archive.flush().expect("room for it");
    assert!(replay.refresh().expect("it is sound"));
    for _ in 0..3 {
        assert_eq!([0, 2, 3, 7].map(|n| is_found(&mut replay, n)), [true, true, true, false]);
    }
}
