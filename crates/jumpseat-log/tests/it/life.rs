//! Logs on real files, over several lives.

use byteorder::BigEndian;
use jumpseat_log::{DELIVERED, Entry as Appending, Limits, LogDir, LogError, SyncMode};
use pcp_event::log::{EventLog, LogConfig, Place, Recall, Stretch};
use pcp_event::pack::ArrayKind;
use pcp_event::reader::ArrayReader;
use pcp_model::{Pmid, Timestamp};

use crate::seen::{self, Entry};

const LIMITS: Limits = Limits { source: 300_000, total: 500_000, segment: 65_536, sync: SyncMode::Batch };

fn append(log: &jumpseat_log::SourceLog, times: std::ops::Range<u64>, text: usize) {
    let batch = seen::batch(times.clone(), text);
    let count = times.end - times.start;
    let entry = Appending {
        lost: (0, Timestamp::default()),
        batch: &batch,
        counters: &[(7, count)],
        marks: &[],
        numbered: 0,
    };
    assert!(log.append(&entry).written);
}

#[test]
fn budgets_hold_and_the_oldest_goes_first() {
    let dir = tempfile::tempdir().expect("a directory");
    for life in 0..3 {
        let logs = LogDir::open(dir.path(), 400, LIMITS).expect("it is ours");
        let _fetching = logs.fetch_thread().expect("there are threads");
        for source in 0..3 {
            let log = logs.source(source, &format!("s{source}"));
            assert_eq!((log.next(), log.state().counter(7)), (life * 2000, life * 2000));
            for n in 0..200 {
                let first = life * 2000 + n * 10;
                append(&log, first..first + 10, 400);
            }
            let stats = log.stats();
            assert!(stats.bytes <= LIMITS.source + LIMITS.segment, "{stats:?}");
            assert!(logs.stats().bytes <= LIMITS.total + 3 * LIMITS.segment, "{:?}", logs.stats());
            let files =
                std::fs::read_dir(dir.path()).expect("it is there").map(|entry| entry.expect("an entry"));
            let on_disk: u64 = files.map(|entry| entry.metadata().expect("a file").len()).sum();
            assert_eq!(on_disk, logs.stats().bytes);
            let seen = seen::entries(&logs, &log);
            let gone = seen.iter().filter(|entry| **entry == Entry::Gone).count();
            assert_eq!(gone as u64, stats.first);
            for (seq, entry) in seen.iter().enumerate().skip(gone) {
                assert_eq!(*entry, Entry::Record(seq as u64));
            }
        }
    }
}

#[test]
fn room_is_set_aside_for_busy_sources_and_given_back() {
    use std::os::unix::fs::MetadataExt as _;
    const MIB: u64 = 1 << 20;
    let dir = tempfile::tempdir().expect("a directory");
    let limits = Limits { source: 100 * MIB, total: 100 * MIB, segment: 4 * MIB, sync: SyncMode::Never };
    let sizes = || -> Vec<(u64, u64)> {
        let files = std::fs::read_dir(dir.path()).expect("it is there").map(|file| file.expect("an entry"));
        let mut files: Vec<_> =
            files.filter(|file| file.path().extension().is_some_and(|of| of == "log")).collect();
        files.sort_by_key(|file| file.file_name());
        let sizes = files.iter().map(|file| file.metadata().expect("a file"));
        // Blocks are of 512 bytes.
        sizes.map(|meta| (meta.len(), meta.blocks() * 512)).collect()
    };
    // What a file of so many bytes takes by itself: whole blocks, and those that the file system needs to find them.
    let takes = |len: u64| len + 32 * 1024;
    let logs = LogDir::open(dir.path(), 400, limits).expect("it is ours");
    let log = logs.source(0, "busy");
    append(&log, 0..10, 1000);
    let [(len, room)] = sizes()[..] else { panic!("one file") };
    assert!(room <= takes(len), "nothing is set aside for a few records: {len} bytes in {room}");
    let mut most = 0;
    for first in (10..).step_by(100) {
        append(&log, first..first + 100, 1000);
        let sizes = sizes();
        let (len, room) = *sizes.last().expect("a file");
        most = most.max(room.saturating_sub(len));
        assert!(room <= takes(2 * len).min(takes(len + MIB)), "{len} bytes in {room}");
        for (len, room) in &sizes[..sizes.len() - 1] {
            assert!(
                *room <= takes(*len),
                "a segment that is full has given its room back: {len} bytes in {room}"
            );
        }
        if sizes.len() == 3 && len > 2 * MIB {
            break;
        }
    }
    assert!(most > MIB / 2, "{most} bytes set aside");
    drop((log, logs));
    for (len, room) in sizes() {
        assert!(room <= takes(len), "after its end: {len} bytes in {room}");
    }
}

#[test]
fn long_segments_are_for_large_batches_and_have_a_quarter_of_the_budget() {
    const MIB: u64 = 1 << 20;
    let limits = Limits { source: 64 * MIB, total: 40 * MIB, segment: MIB, sync: SyncMode::Never };
    // The length of each source's first file, once that is full.
    let firsts = |per_batch: u64| -> Vec<u64> {
        let dir = tempfile::tempdir().expect("a directory");
        let logs = LogDir::open(dir.path(), 400, limits).expect("it is ours");
        let sources: Vec<_> = (0..4).map(|source| logs.source(source, "busy")).collect();
        for source in &sources {
            for first in (0..).step_by(per_batch as usize) {
                append(source, first..first + per_batch, 1000);
                if source.stats().segments > 1 {
                    break;
                }
            }
        }
        let file = |source: usize| dir.path().join(format!("{source:06}-{:020}.log", 0));
        (0..4).map(|source| file(source).metadata().expect("its first file").len()).collect()
    };
    // A sixteenth of the source's budget is 4 MiB, 3 more than what each has by itself: a quarter of the total is enough for three.
    let long = firsts(100);
    assert!(long[..3].iter().all(|len| (3 * MIB..4 * MIB + 4096).contains(len)), "{long:?}");
    assert!(long[3] <= MIB + 4096, "{long:?}");
    let short = firsts(4);
    assert!(short.iter().all(|len| (MIB / 2..MIB + 4096).contains(len)), "{short:?}");
}

#[test]
fn one_process_has_a_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = LogDir::open(dir.path(), 400, LIMITS).expect("it is ours");
    let second = LogDir::open(dir.path(), 400, LIMITS).expect_err("it is taken");
    assert!(matches!(second, LogError::Lock { .. }));
    assert!(second.to_string().contains(&format!("process {} uses it", std::process::id())), "{second}");
    drop(first);
    assert!(LogDir::open(dir.path(), 400, LIMITS).is_ok());
}

#[test]
fn an_agent_of_another_domain_or_name_begins_anew() {
    let dir = tempfile::tempdir().expect("a directory");
    append(&LogDir::open(dir.path(), 400, LIMITS).expect("it is ours").source(0, "a"), 0..3, 5);
    let logs = LogDir::open(dir.path(), 400, LIMITS).expect("it is ours");
    assert_eq!(logs.found(), [(0, "a".to_owned())]);
    let log = logs.source(0, "b");
    assert_eq!(log.next(), 0);
    append(&log, 10..11, 5);
    assert_eq!(logs.stats().set_aside, 1);
    drop((log, logs));
    let logs = LogDir::open(dir.path(), 401, LIMITS).expect("it is ours");
    assert_eq!((logs.source(0, "b").next(), logs.stats().set_aside), (0, 1));
}

#[test]
fn a_cursor_reads_from_files_what_memory_has_not_got() {
    let dir = tempfile::tempdir().expect("a directory");
    let limits = Limits { source: 64 << 20, total: 64 << 20, ..LIMITS };
    let logs = LogDir::open(dir.path(), 400, limits).expect("it is ours");
    let _fetching = logs.fetch_thread().expect("there are threads");
    let log = logs.source(0, "a");
    let config = LogConfig { budget: 16 << 10, recent: 5, missed_pmid: Pmid::new(400, 16, 0) };
    let mut memory = EventLog::with_history(config, 0, None, logs.history(&log));
    let cursor = memory.join();
    for n in 0..3000 {
        let batch = seen::batch(n * 5..n * 5 + 5, 50);
        let entry = Appending {
            lost: (0, Timestamp::default()),
            batch: &batch,
            counters: &[],
            marks: &[],
            numbered: 0,
        };
        log.append(&entry);
        memory.append(batch);
    }
    assert!(memory.stats().bytes <= 16 << 10);
    assert_eq!(memory.cursor_stats(cursor).map(|stats| stats.queued), Some(15_000));
    let mut times = Vec::new();
    while times.len() < 15_000 {
        let mut array = Vec::new();
        let outcome = memory.read(cursor, ArrayKind::HighRes, &mut array, 100_000).expect("it has joined");
        assert_eq!(outcome.missed, 0);
        if outcome.records > 0 {
            let array = ArrayReader::<BigEndian>::new(ArrayKind::HighRes, &array).expect("an array");
            times.extend(array.records().map(|record| record.time.sec as u64));
        }
    }
    assert!(times.into_iter().eq(0..15_000));
    let stats = memory.cursor_stats(cursor).expect("it has joined");
    assert_eq!((stats.delivered, stats.missed, stats.queued), (15_000, 0, 0));
}

#[test]
fn cursors_far_apart_do_not_keep_each_other_from_reading() {
    let dir = tempfile::tempdir().expect("a directory");
    let limits = Limits { source: 64 << 20, total: 64 << 20, ..LIMITS };
    let logs = LogDir::open(dir.path(), 400, limits).expect("it is ours");
    let _fetching = logs.fetch_thread().expect("there are threads");
    let log = logs.source(0, "a");
    let config = LogConfig { budget: 16 << 10, recent: 5, missed_pmid: Pmid::new(400, 16, 0) };
    let mut memory = EventLog::with_history(config, 0, None, logs.history(&log));
    for n in 0..3000 {
        append(&log, n * 5..n * 5 + 5, 200);
        memory.append(seen::batch(n * 5..n * 5 + 5, 200));
    }
    // More than there are segments open at a time, each in another one, and each reads a little at a time.
    let mut cursors: Vec<_> = (0..30).map(|at| (memory.join(), at * 500)).collect();
    assert!(log.stats().segments > 30);
    for (cursor, at) in &cursors {
        memory.seek(*cursor, Place::Seq(*at)).expect("it is there");
    }
    while cursors.iter().any(|(_, at)| *at < 15_000) {
        for (cursor, at) in &mut cursors {
            let mut array = Vec::new();
            memory.read(*cursor, ArrayKind::HighRes, &mut array, 20_000).expect("it has joined");
            if !array.is_empty() {
                let array = ArrayReader::<BigEndian>::new(ArrayKind::HighRes, &array).expect("an array");
                for record in array.records() {
                    assert_eq!(record.time.sec as u64, *at);
                    *at += 1;
                }
            }
        }
    }
}

#[test]
fn what_readers_have_had_is_noted_at_the_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let logs = LogDir::open(dir.path(), 400, LIMITS).expect("it is ours");
    let fetching = logs.fetch_thread().expect("there are threads");
    let log = logs.source(0, "a");
    append(&log, 0..4, 5);
    log.delivered(3);
    drop(fetching);
    drop((log, logs));
    let logs = LogDir::open(dir.path(), 400, LIMITS).expect("it is ours");
    let log = logs.source(0, "a");
    assert_eq!((log.next(), log.state().counter(DELIVERED)), (4, 3));
    // And the newest records are still at hand.
    assert_eq!(log.newest().map(|newest| (newest.first, newest.ends.len())), Some((0, 4)));
}

#[test]
fn a_file_without_records_that_gives_way_is_not_read_on() {
    let dir = tempfile::tempdir().expect("a directory");
    append(&LogDir::open(dir.path(), 400, LIMITS).expect("it is ours").source(0, "a"), 0..10, 5);
    // A life in which a reader was told of the first, and nothing came: its file begins where the next one does.
    let logs = LogDir::open(dir.path(), 400, LIMITS).expect("it is ours");
    let fetching = logs.fetch_thread().expect("there are threads");
    logs.source(0, "a").delivered(10);
    drop((fetching, logs));
    let logs = LogDir::open(dir.path(), 400, LIMITS).expect("it is ours");
    let _fetching = logs.fetch_thread().expect("there are threads");
    let log = logs.source(0, "a");
    let (mut history, mut stretch) = (logs.history(&log), Stretch::default());
    // A reader of the first has it opened, too, as it will come there next.
    let mut read = |seq| loop {
        match history.read(seq, &mut stretch) {
            Recall::Later => std::thread::yield_now(),
            recall => return recall,
        }
    };
    assert_eq!(read(0), Recall::Found);
    assert!(matches!(read(10), Recall::Lost { .. }));
    append(&log, 10..20, 5);
    assert_eq!(read(10), Recall::Found);
}
