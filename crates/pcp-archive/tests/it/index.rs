//! The temporal index, which is read when somebody searches: whatever has become of its file until then, each time is found.

use std::fs;
use std::path::Path;

use pcp_archive::{Archive, ArchiveWriter, Direction, Step, WriteOptions};
use pcp_model::Timestamp;
use support::temp_dir;

use crate::first::{at, record, writer};

const RECORDS: i64 = 300;
/// An entry for every few records.
const OPTIONS: WriteOptions = WriteOptions { volume_size: 1 << 20, index_every: 100, together: 0 };

fn write(writer: &mut ArchiveWriter, seconds: std::ops::Range<i64>) {
    seconds.for_each(|sec| record(writer, sec, 0..1));
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
        write(&mut writer(&base, OPTIONS), 0..RECORDS);
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
    let mut writer = writer(&base, OPTIONS);
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
