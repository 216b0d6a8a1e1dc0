//! How records are kept: those alike in few bytes, others as they are, and those of a version before.

use std::ops::ControlFlow;
use std::sync::Arc;

use jumpseat_log::{Entry, Limits, LogDir, SourceLog, SyncMode, inspect};
use pcp_event::batch::Batch;
use pcp_event::log::{Recall, Stretch};
use pcp_event::pack::{EventFlags, Param};
use pcp_model::{Pmid, Timestamp};

use crate::seen;

const LIMITS: Limits = Limits { source: 1 << 22, total: 1 << 22, segment: 1 << 20, sync: SyncMode::Never };
const NAME: &str = "000000-00000000000000000000.log";

fn append(log: &SourceLog, batch: &Batch) {
    let lost = (0, Timestamp::default());
    assert!(log.append(&Entry { lost, batch, counters: &[], marks: &[], numbered: 0 }).written);
}

/// Records as programs send them: a name, a number that grows, a text that is mostly the same.
fn requests(numbers: std::ops::Range<u64>) -> Batch {
    let mut batch = Batch::default();
    for number in numbers {
        let mut record = batch.record(Timestamp::new(1_800_000_000, number as u32), EventFlags::POINT);
        record.param(Pmid::new(400, 16, 0), Param::String(b"request"));
        record.param(Pmid::new(400, 16, 1), Param::String(format!("GET /items/{number:06}").as_bytes()));
        record.param(Pmid::new(400, 16, 2), Param::U64(number));
        record.param(Pmid::new(400, 16, 3), Param::String(b"a user whose name is rather long"));
        record.commit().expect("it is short");
    }
    batch
}

/// All records, as a reader gets them.
fn records(logs: &LogDir, log: &Arc<SourceLog>) -> Vec<u8> {
    let (mut history, mut stretch) = (logs.history(log), Stretch::default());
    let (mut records, mut seq) = (Vec::new(), 0);
    while seq < log.next() {
        match history.read(seq, &mut stretch) {
            Recall::Found => {
                assert_eq!(
                    (stretch.first, stretch.ends.last().copied()),
                    (seq, Some(stretch.records.len() as u32))
                );
                records.extend_from_slice(&stretch.records);
                seq += stretch.ends.len() as u64;
            }
            Recall::Later => std::thread::yield_now(),
            lost @ Recall::Lost { .. } => panic!("{seq}: {lost:?}"),
        }
    }
    records
}

#[test]
fn records_alike_take_a_fraction_of_their_bytes_and_are_read_as_they_were() {
    let dir = tempfile::tempdir().expect("a directory");
    // Batches alike, of noise, of one record, and of none, in turn; each life begins with another one.
    let batches: Vec<Batch> = (0..60)
        .map(|n| match n % 4 {
            0 => requests(n * 100..n * 100 + 50),
            1 => seen::batch(n * 100..n * 100 + 9, 300),
            2 => requests(n..n + 1),
            _ => Batch::default(),
        })
        .collect();
    let whole: Vec<u8> = batches.iter().flat_map(Batch::bytes).copied().collect();
    for part in batches.chunks(21) {
        let logs = LogDir::open(dir.path(), 400, LIMITS).expect("it is ours");
        let log = logs.source(0, "shop");
        part.iter().for_each(|batch| append(&log, batch));
    }
    let logs = LogDir::open(dir.path(), 400, LIMITS).expect("it is ours");
    let _fetching = logs.fetch_thread().expect("there are threads");
    let log = logs.source(0, "shop");
    assert!(records(&logs, &log) == whole);

    let (mut inspected, mut count) = (Vec::new(), 0);
    for name in inspect::segments(dir.path()).expect("it is there").0 {
        let report = inspect::segment(dir.path(), &name, true).expect("it can be read");
        assert_eq!((report.damage.len(), report.head.is_some()), (0, true), "{report:?}");
        count += report.records;
        inspect::read(dir.path(), &name, |stretch| {
            inspected.extend_from_slice(&stretch.records);
            ControlFlow::Continue(())
        })
        .expect("it can be read");
    }
    assert_eq!(count, log.next());
    assert!(inspected == whole);

    let before = log.stats().bytes;
    let alike = requests(0..1000);
    append(&log, &alike);
    let taken = log.stats().bytes - before;
    assert!(taken < alike.bytes().len() as u64 / 4, "{taken} of {}", alike.bytes().len());
}

/// `version-1.log` is what jumpseat wrote before records were kept by what differs: eight of them, in two batches.
#[test]
fn files_of_version_1_are_read_and_gone_on_from() {
    let before = include_bytes!("version-1.log");
    let mut whole = [&before[0xb1..][..448], &before[0x2d6..][..448]].concat();
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join(NAME), before).expect("it is ours");
    let logs = LogDir::open(dir.path(), 400, LIMITS).expect("it is ours");
    let _fetching = logs.fetch_thread().expect("there are threads");
    assert_eq!(logs.found(), [(0, "socket".to_owned())]);
    let log = logs.source(0, "socket");
    assert_eq!((log.next(), logs.stats().set_aside), (8, 0));
    assert!(log.newest().is_some_and(|newest| newest.first == 4 && newest.records == whole[448..]));
    assert!(records(&logs, &log) == whole);
    append(&log, &requests(0..30));
    whole.extend_from_slice(requests(0..30).bytes());
    assert!(records(&logs, &log) == whole);
    assert_eq!(log.stats().segments, 2, "a file is never gone on with by another life");
    let report = inspect::segment(dir.path(), NAME, true).expect("it can be read");
    assert_eq!((report.batches, report.records, report.damage.len()), (2, 8, 0));
}
