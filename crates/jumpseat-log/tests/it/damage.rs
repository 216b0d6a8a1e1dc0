//! Files that others have had their hands on.

use std::sync::Arc;

use jumpseat_log::{Entry as Appending, Limits, LogDir, SyncMode};
use pcp_model::Timestamp;
use support::SimulatedDisk;

use crate::seen::{self, Entry};

const LIMITS: Limits = Limits { source: 1 << 20, total: 1 << 20, segment: 600, sync: SyncMode::Never };

fn open(disk: &SimulatedDisk) -> LogDir {
    LogDir::on(Arc::new(disk.clone()), 400, [1; 16], LIMITS).expect("a disk in memory")
}

/// A small log of some segments, and what is in it.
fn small() -> (SimulatedDisk, Vec<Entry>) {
    let disk = SimulatedDisk::default();
    let dir = open(&disk);
    let log = dir.source(3, "a");
    let mut all = Vec::new();
    for time in 0..12 {
        let batch = seen::batch([2 * time, 2 * time + 1], 5);
        let entry = Appending {
            lost: (time % 2, Timestamp::new(1, 0)),
            batch: &batch,
            counters: &[(1, 2)],
            marks: &[],
            numbered: 0,
        };
        log.append(&entry);
        all.extend((0..time % 2).map(|_| Entry::Lost));
        all.extend([Entry::Record(2 * time), Entry::Record(2 * time + 1)]);
    }
    (disk, all)
}

#[test]
fn no_changed_bit_shows_a_record_that_was_not_sent() {
    let (disk, all) = small();
    let mut lacking = 0;
    for at in 0.. {
        let image = disk.killed(disk.operations(), &mut support::random::Random::new(1, 1));
        if !image.flip(at, (at % 8) as u8) {
            assert!(at > 1000, "the log is {at} bytes");
            break;
        }
        let dir = open(&image);
        let _fetching = dir.fetch_thread().expect("there are threads");
        let log = dir.source(3, "a");
        let found = seen::entries(&dir, &log);
        assert!(found.len() <= all.len(), "byte {at}");
        for (seq, entry) in found.iter().enumerate() {
            assert!(*entry == all[seq] || *entry == Entry::Gone, "byte {at}: {seq} is {entry:?}");
        }
        let gone = found.iter().filter(|entry| **entry == Entry::Gone).count() + all.len() - found.len();
        // A segment's worth at most, where its head is damaged.
        assert!(gone <= 10, "byte {at}: {gone} gone");
        lacking += usize::from(gone > 0);
    }
    assert!(lacking > 500, "most bytes matter: {lacking}");
}

#[test]
fn a_file_that_another_process_cuts_short_is_told_and_left() {
    let dir = tempfile::tempdir().expect("a directory");
    let logs = LogDir::open(dir.path(), 400, LIMITS).expect("it is ours");
    let _fetching = logs.fetch_thread().expect("there are threads");
    let log = logs.source(0, "a");
    let append = |time: u64| {
        let batch = seen::batch([time], 5);
        let entry = Appending {
            lost: (0, Timestamp::default()),
            batch: &batch,
            counters: &[],
            marks: &[],
            numbered: 0,
        };
        log.append(&entry).written
    };
    assert!(append(1) && append(2));
    let path = dir.path().join("000000-00000000000000000000.log");
    let len = path.metadata().expect("it was written").len();
    std::fs::File::options()
        .write(true)
        .open(&path)
        .and_then(|file| file.set_len(len - 1))
        .expect("it is ours");
    assert!(!append(3), "that one is in memory only");
    assert_eq!(logs.stats().failures, 1);
    assert!(log.stats().failing);
    // After a while it goes on in a new file.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let mut time = 4;
    while !append(time) {
        assert!(std::time::Instant::now() < until);
        std::thread::sleep(std::time::Duration::from_millis(50));
        time += 1;
    }
    assert!(!log.stats().failing);
    let seen = seen::entries(&logs, &log);
    assert_eq!(seen.first(), Some(&Entry::Record(1)));
    assert!(seen[1..seen.len() - 1].iter().all(|entry| *entry == Entry::Gone), "{seen:?}");
    assert_eq!(seen.last(), Some(&Entry::Record(time)));
}

#[test]
fn files_of_others_and_of_other_versions_are_kept_aside() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("000000-00000000000000000007.log");
    let other =
        b"jmpslog\n\0\x63\x01\x90and what another version has written behind it, at least seventy-two bytes";
    std::fs::write(&path, other).expect("it is ours");
    let logs = LogDir::open(dir.path(), 400, LIMITS).expect("it is ours");
    assert_eq!((logs.stats().set_aside, logs.source(0, "a").next()), (1, 0));
    let aside = dir.path().join("000000-00000000000000000007.log.aside");
    assert_eq!(std::fs::read(aside).expect("it is kept"), other);
}
