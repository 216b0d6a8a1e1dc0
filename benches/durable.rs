//! What the log on disk costs.
//!
//! * An event's CPU time in the running agent (`jumpseat serve`, all its threads, by the system's account), sent over the ingest
//!   socket: records in memory only, and on disk with each setting of `sync`. All kinds take turns.
//! * What of that the kernel takes: `write` of as many bytes to a new file, in pieces as long as the agent's, and nothing else.
//! * The start with 1 GB of log, until the agent listens, next to one without.
//! * A reader that replays 1 GB of records from files, next to one that has them in memory, and next to the reading of the files' bytes.
//! * A reader that comes back, as a logger that was killed does, of records that came few at a time: beside one that is at the end, and alone.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jumpseat::event::log::{EventLog, History, LogConfig, Recall, Stretch};
use jumpseat::event::{ArrayKind, Batch, EventFlags, Param};
use jumpseat::model::{Pmid, Timestamp};
use jumpseat::wire::encode::{Encoder, Phase, Record, Value};
use jumpseat_log::{Entry, Limits, LogDir, SyncMode};

mod common;
use common::agent::Served;
use common::clock::thread_cpu;
use common::{Figure, Goal, Row, Times};

const AGENT: &str = env!("CARGO_BIN_EXE_jumpseat");
const EVENTS: u64 = 500_000;
/// The settings, and the most that they may cost, with memory first.
const SETTINGS: [(&str, &str, Option<f64>); 4] = [
    ("memory only", "dir = \"memory\"", None),
    ("sync = \"never\"", "sync = \"never\"", Some(1.15)),
    ("sync = \"interval\"", "sync = \"interval\"", Some(1.20)),
    ("sync = \"batch\"", "sync = \"batch\"", None),
];
/// The setting whose cost is shown next to that of writing the bytes.
const FLOOR_OF: &str = "sync = \"never\"";
const START_GOAL_MS: f64 = 50.0;
const REPLAY_GOAL: f64 = 0.5;
const GIB: u64 = 1 << 30;

fn main() {
    let rounds = common::rounds(5);
    for (what, data) in [("NDJSON", lines()), ("binary", frames())] {
        ingest(what, &data, rounds);
    }
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("400.log");
    fill(&log);
    start(dir.path(), 4 * rounds);
    replay(rounds);
    read_on(2 * rounds);
}

fn ingest(what: &str, data: &[u8], rounds: usize) {
    let mut times = SETTINGS.map(|_| Vec::new());
    let mut floors = Vec::new();
    for round in common::turns(rounds) {
        for ((setting, settings, _), times) in SETTINGS.iter().zip(&mut times) {
            let (took, bytes) = agent_cpu(settings, data);
            if round > 0 {
                times.push(took);
            }
            if round > 0 && *setting == FLOOR_OF {
                floors.push(write_cpu(bytes));
            }
        }
    }
    let times = times.map(Times::of);
    let each = |times: &Times| Figure::nanos(times, EVENTS as f64, "ns an event");
    for ((setting, _, goal), of) in SETTINGS.iter().zip(&times).skip(1) {
        Row::new(format!("log on disk, {what}, {setting}, CPU of the agent"), each(of))
            .peer("memory only", each(&times[0]))
            .goal(goal.map(|goal| Goal::Ratio(1.0 / goal)))
            .print();
        if *setting == FLOOR_OF {
            let floor = Times::of(std::mem::take(&mut floors));
            Row::new(format!("log on disk, {what}, {setting}, CPU of the agent"), each(of))
                .peer("write of as many bytes to a new file, nothing else", each(&floor))
                .print();
        }
    }
}

/// The CPU time that an agent takes for all events, and how many bytes it has on disk then.
fn agent_cpu(settings: &str, data: &[u8]) -> (Duration, u64) {
    let dir = tempfile::tempdir().expect("a directory");
    let agent = serve(dir.path(), settings);
    let before = agent.cpu();
    agent.feed(data, EVENTS);
    let took = agent.cpu() - before;
    (
        took,
        files_below(dir.path()).iter().filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum(),
    )
}

/// The CPU time of writing so many bytes to a new file, as many at a time as the agent writes when it has much to write. To several files, as
/// one takes only milliseconds.
fn write_cpu(bytes: u64) -> Duration {
    const FILES: u32 = 16;
    let dir = tempfile::tempdir().expect("a directory");
    let piece = vec![0x5a; 64 << 10];
    let before = thread_cpu();
    for number in 0..FILES {
        let mut file = File::create(dir.path().join(number.to_string())).expect("the directory is ours");
        let mut left = bytes;
        while left > 0 {
            let now = left.min(piece.len() as u64);
            file.write_all(&piece[..now as usize]).expect("the disk has room");
            left -= now;
        }
    }
    (thread_cpu() - before) / FILES
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("it is there").flatten().map(|entry| entry.path());
    let (dirs, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    files.into_iter().chain(dirs.iter().flat_map(|dir| files_below(dir))).collect()
}

fn serve(dir: &Path, settings: &str) -> Served {
    let log = format!("[log]\n{settings}\nsource_budget = \"2GiB\"\ntotal_budget = \"2GiB\"");
    Served::start(AGENT, dir, &log)
}

/// 1 GB of records of one source.
fn fill(log: &Path) {
    let limits = Limits::new(2 * GIB, 2 * GIB, 256, SyncMode::Never);
    let logs = LogDir::open(log, 400, limits).expect("it is ours");
    let source = logs.source(0, "jumpseat");
    while logs.stats().bytes < GIB {
        append(&source, &batch(source.next()));
    }
}

fn append(source: &jumpseat_log::SourceLog, batch: &Batch) {
    let lost = (0, Timestamp::default());
    let entry = Entry { lost, batch, counters: &[(1, batch.len() as u64)], marks: &[], numbered: 0 };
    assert!(source.append(&entry).written);
}

/// A batch of 64 KiB, as the agent makes them.
fn batch(first: u64) -> Batch {
    batch_while(first, |batch| batch.bytes().len() < 64 << 10)
}

/// A batch of records with numbers from `first` on, as long as it is to have more.
fn batch_while(first: u64, goes_on: impl Fn(&Batch) -> bool) -> Batch {
    let mut batch = Batch::with_capacity(66 << 10);
    while goes_on(&batch) {
        let number = first + batch.len() as u64;
        let mut record = batch.record(Timestamp::new(number as i64, 0), EventFlags::POINT);
        record.param(Pmid::new(400, 16, 0), Param::String(b"request"));
        record.param(Pmid::new(400, 16, 1), Param::String(b"GET /api/v1/customers/000017/orders?limit=100"));
        record.param(Pmid::new(400, 16, 16), Param::U64(number));
        record.commit().expect("it is short");
    }
    batch
}

fn start(dir: &Path, rounds: usize) {
    let empty = tempfile::tempdir().expect("a directory");
    // Sources are known by their identifiers: one life of the agent makes them.
    let run = |dir: &Path| serve(dir, "sync = \"never\"").took;
    let mut times = [Vec::new(), Vec::new()];
    for round in common::turns(rounds) {
        for (dir, times) in [dir, empty.path()].into_iter().zip(&mut times) {
            let took = run(dir);
            if round > 0 {
                times.push(took);
            }
        }
    }
    let [full, none] = times.map(Times::of);
    let ms = |times: &Times| Figure::time(times, 1.0, 1e-3, "ms");
    Row::new("start until it listens, with 1 GB of log", ms(&full))
        .peer("without a log", ms(&none))
        .goal(Goal::AtMost(START_GOAL_MS))
        .print();
}

/// Reads 1 GB of records through a cursor, from files and from memory.
fn replay(rounds: usize) {
    let dir = tempfile::tempdir().expect("a directory");
    let limits = Limits::new(2 * GIB, 2 * GIB, 256, SyncMode::Never);
    let logs = LogDir::open(dir.path(), 400, limits).expect("it is ours");
    let _fetching = logs.fetch_thread().expect("there are threads");
    let source = logs.source(0, "jumpseat");
    let config = |budget| LogConfig { budget, recent: 10, missed_pmid: Pmid::new(400, 16, 5) };
    let behind = EventLog::with_history(config(16 << 10), 0, None, logs.history(&source));
    let mut readers = [behind, EventLog::new(config(2 * GIB as usize))];
    // Each reads from the beginning in each round.
    let mut cursors: [Vec<_>; 2] = [Vec::new(), Vec::new()];
    for (log, cursors) in readers.iter_mut().zip(&mut cursors) {
        cursors.extend((0..=rounds).map(|_| log.join()));
    }
    let mut bytes = 0;
    while bytes < GIB {
        let batch = batch(source.next());
        bytes += batch.bytes().len() as u64;
        append(&source, &batch);
        readers.iter_mut().for_each(|log| log.append(batch.clone()));
    }
    let events = source.next();
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..=rounds {
        let [.., bytes_alone] = &mut times;
        let took = common::time(|| assert!(read_files(dir.path()) >= logs.stats().bytes));
        if round > 0 {
            bytes_alone.push(took);
        }
        for ((log, cursors), times) in readers.iter_mut().zip(&cursors).zip(&mut times) {
            let took = common::time(|| assert_eq!(read_all(log, cursors[round]), events));
            if round > 0 {
                times.push(took);
            }
        }
    }
    let [files, memory, alone] = times.map(Times::of);
    let rate = |times: &Times| Figure::rate(times, events as f64, "records/s");
    Row::new("replay of 1 GB of records from files", rate(&files))
        .peer("from memory", rate(&memory))
        .goal(Goal::Ratio(REPLAY_GOAL))
        .print();
    Row::new("replay of 1 GB of records from files", rate(&files))
        .peer("read of the files' bytes, nothing else", rate(&alone))
        .print();
}

/// Reads records that came twenty at a time, while another one is at the end, or nobody.
fn read_on(rounds: usize) {
    const RECORDS: u64 = 50_000;
    let dir = tempfile::tempdir().expect("a directory");
    let limits = Limits::new(GIB, GIB, 16, SyncMode::Never);
    let logs = LogDir::open(dir.path(), 400, limits).expect("it is ours");
    let source = logs.source(0, "jumpseat");
    while source.next() < RECORDS {
        append(&source, &batch_while(source.next(), |batch| batch.len() < 20));
    }
    let find = |history: &mut dyn History, stretch: &mut Stretch, seq| {
        while history.read(seq, stretch) != Recall::Found {
            logs.fetch_now();
        }
    };
    let mut times = [Vec::new(), Vec::new()];
    for round in common::turns(rounds) {
        for (first, times) in [RECORDS - 1, 0].into_iter().zip(&mut times) {
            let (mut history, mut stretch) = (logs.history(&source), Stretch::default());
            find(&mut *history, &mut stretch, first);
            let mut seen = 0;
            let took = common::time(|| {
                while seen < RECORDS {
                    find(&mut *history, &mut stretch, seen);
                    assert_eq!((stretch.first, stretch.lost), (seen, 0));
                    seen += stretch.ends.len() as u64;
                }
            });
            assert_eq!(seen, RECORDS);
            if round > 0 {
                times.push(took);
            }
        }
    }
    let [beside, alone] = times.map(Times::of);
    let ns = |times: &Times| Figure::time(times, RECORDS as f64, 1e-9, "ns a record");
    Row::new("read on from files, 20 records at a time, beside a reader at the end", ns(&beside))
        .peer("alone", ns(&alone))
        .goal(Goal::Ratio(1.0 / 1.2))
        .print();
}

/// Reads all files below a directory into one buffer, as long as the agent's. How many bytes they have.
fn read_files(dir: &Path) -> u64 {
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0;
    for path in files_below(dir) {
        let mut file = File::open(path).expect("it is there");
        loop {
            match file.read(&mut buffer).expect("it can be read") {
                0 => break,
                read => bytes += read as u64,
            }
        }
    }
    bytes
}

fn read_all(log: &mut EventLog, cursor: jumpseat::event::log::CursorId) -> u64 {
    let (mut out, mut delivered) = (Vec::new(), 0);
    loop {
        out.clear();
        let outcome = log.read(cursor, ArrayKind::HighRes, &mut out, 4 << 20).expect("it has joined");
        assert_eq!(outcome.missed, 0);
        delivered += outcome.delivered;
        if !outcome.more {
            return delivered;
        }
        if outcome.records == 0 {
            // The thread fetches what is next: a client would come again later.
            std::thread::yield_now();
        }
    }
}

/// Events as NDJSON, about 130 bytes each.
fn lines() -> Vec<u8> {
    let mut out = String::new();
    for n in 0..EVENTS {
        out += &format!(
            "{{\"type\":\"request\",\"level\":\"info\",\"msg\":\"GET /items/{:06}\",\"latency_us\":{},\"load\":{}.25,\
             \"user\":\"ann\",\"status\":200}}\n",
            n % 1_000_000,
            n % 50_000,
            n % 100
        );
    }
    out.into_bytes()
}

/// The same as frames.
fn frames() -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    for n in 0..EVENTS {
        let message = format!("GET /items/{:06}", n % 1_000_000);
        let fields: [(&[u8], Value<'_>); 4] = [
            (b"latency_us", Value::U64(n % 50_000)),
            (b"load", Value::Double((n % 100) as f64 + 0.25)),
            (b"user", Value::Text(b"ann")),
            (b"status", Value::U32(200)),
        ];
        let record = Record {
            phase: Phase::Point,
            event_type: Some(b"request"),
            severity: Some(b"info"),
            message: Some(message.as_bytes()),
            fields: &fields,
            ..Record::default()
        };
        encoder.record(&record, &mut out).expect("few names");
    }
    out
}
