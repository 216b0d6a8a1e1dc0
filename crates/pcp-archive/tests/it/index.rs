//! The temporal index, which is read when somebody searches: whatever has become of its file until then, each time is found.

use std::fs;
use std::path::Path;

use pcp_archive::{Archive, ArchiveWriter, Direction, LabelInfo, Step, WriteOptions};
use pcp_model::{Desc, InDom, PM_IN_NULL, Pmid, Semantics, Timestamp, Units, Value, ValueType};
use pcp_pdu::Fetched;
use support::temp_dir;

const RECORDS: i64 = 300;

fn at(sec: i64) -> Timestamp {
    Timestamp::new(1_700_000_000 + sec, 0)
}

fn writer(base: &Path) -> ArchiveWriter {
    let label = LabelInfo { host: "host".into(), zone: "UTC".into(), pid: 7, ..LabelInfo::default() };
    let options = WriteOptions { index_every: 100, ..WriteOptions::default() };
    let mut writer = ArchiveWriter::create(base, label, options).expect("nothing is there");
    let (pmid, value_type) = (Pmid::new(60, 1, 1), ValueType::I64);
    let desc =
        Desc { pmid, value_type, indom: InDom::NULL, semantics: Semantics::Instant, units: Units::NONE };
    writer.desc(&desc, &["m".to_owned()]).expect("described once");
    writer
}

fn write(writer: &mut ArchiveWriter, seconds: std::ops::Range<i64>) {
    let mut fetched = Fetched::new();
    for sec in seconds {
        fetched.clear();
        fetched.timestamp = at(sec);
        fetched.begin_set(Pmid::new(60, 1, 1));
        fetched.push_value(PM_IN_NULL, &Value::I64(sec)).expect("a number");
        fetched.end_set();
        writer.result(&fetched).expect("room for it");
    }
    writer.flush().expect("room for it");
}

/// The record that comes next from a time on.
fn next(archive: &mut Archive, from: Timestamp) -> Timestamp {
    let place = archive.seek(from, Direction::Forward).expect("a place");
    match archive.next(place).expect("readable").expect("not the end") {
        Step::Record(record, _) => archive.record(record).expect("whole").timestamp,
        step @ Step::Gap(..) => panic!("{step:?}"),
    }
}

fn finds_all(archive: &mut Archive, seconds: std::ops::Range<i64>) {
    for sec in seconds.rev() {
        assert_eq!(next(archive, at(sec)), at(sec));
    }
}

#[test]
fn whatever_becomes_of_its_file() {
    type Fate = fn(&Path);
    let fates: [(&str, Fate); 4] = [
        ("stays", |_| {}),
        ("goes", |file| fs::remove_file(file).expect("it is there")),
        ("is cut", |file| {
            let bytes = fs::read(file).expect("it is there");
            // In place, in the middle of an entry.
            fs::write(file, &bytes[..bytes.len() / 2 + 7]).expect("writable");
        }),
        ("is another one", |file| {
            let mut bytes = fs::read(file).expect("it is there");
            // Every place a few bytes further on, in a new file.
            let label = bytes.len() % 32;
            bytes[label..].chunks_exact_mut(32).for_each(|entry| entry[31] ^= 8);
            let new = file.with_extension("new");
            fs::write(&new, bytes).expect("writable");
            fs::rename(new, file).expect("it is there");
        }),
    ];
    for (name, fate) in fates {
        let dir = temp_dir();
        let base = dir.path().join("a");
        write(&mut writer(&base), 0..RECORDS);
        let mut archive = Archive::open(base.to_str().expect("a path of ours")).expect("written");
        assert!(archive.index().expect("it is there").len() > 50, "many entries");
        fate(&base.with_extension("index"));
        println!("an index that {name}");
        finds_all(&mut archive, 0..RECORDS);
        assert_eq!(archive.take_mended(), [], "an index that {name}");
    }
}

#[test]
fn what_is_added_is_found() {
    let dir = temp_dir();
    let base = dir.path().join("a");
    let mut writer = writer(&base);
    write(&mut writer, 0..RECORDS);
    let mut archive = Archive::open(base.to_str().expect("a path of ours")).expect("written");
    // Once before anybody has searched, and then again and again.
    for round in 1..4 {
        write(&mut writer, round * RECORDS..(round + 1) * RECORDS);
        assert!(archive.refresh().expect("it is sound"));
        finds_all(&mut archive, 0..(round + 1) * RECORDS);
    }
    assert!(!archive.refresh().expect("it is sound"));
}
