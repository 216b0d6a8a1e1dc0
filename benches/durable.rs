//! What the log on disk costs.
//!
//! * An event's CPU time in the running agent (`jumpseat serve`, all its threads, by the system's account), sent over the ingest
//!   socket: records in memory only, and on disk with each setting of `sync`. All kinds take turns.
//! * The start with 1 GB of log, until the agent listens, next to one without.
//! * A reader that replays 1 GB from files, next to one that has it in memory.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use jumpseat::event::log::{EventLog, LogConfig};
use jumpseat::event::{ArrayKind, Batch, EventFlags, Param};
use jumpseat::model::{Pmid, Timestamp};
use jumpseat::wire::encode::{Encoder, Phase, Record, Value};
use jumpseat_log::{Entry, Limits, LogDir, SyncMode};

mod common;
use common::{Times, si};

const AGENT: &str = env!("CARGO_BIN_EXE_jumpseat");
const EVENTS: u64 = 500_000;
/// The settings, and the most that they may cost, with memory first.
const SETTINGS: [(&str, &str, f64); 4] = [
    ("memory only", "dir = \"memory\"", 1.0),
    ("sync = \"never\"", "sync = \"never\"", 1.15),
    ("sync = \"interval\"", "sync = \"interval\"", 1.20),
    ("sync = \"batch\"", "sync = \"batch\"", f64::INFINITY),
];
const START_GOAL: Duration = Duration::from_millis(50);
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
}

fn ingest(what: &str, data: &[u8], rounds: usize) {
    let mut times = SETTINGS.map(|_| Vec::new());
    for round in 0..=rounds {
        for ((_, settings, _), times) in SETTINGS.iter().zip(&mut times) {
            let took = agent_cpu(settings, data);
            if round > 0 {
                times.push(took);
            }
        }
    }
    let times = times.map(Times::of);
    let per_event = |times: &Times| times.best.as_nanos() as f64 / EVENTS as f64;
    for ((setting, _, goal), of) in SETTINGS.iter().zip(&times) {
        let ratio = per_event(of) / per_event(&times[0]);
        let verdict = match goal {
            goal if goal.is_infinite() || *goal == 1.0 => String::new(),
            goal if ratio <= *goal => format!(", goal {goal}: met"),
            goal => format!(", goal {goal}: MISSED"),
        };
        println!(
            "log, {what}, {setting}: {:.0} ns of agent CPU an event, {ratio:.2} of memory only{verdict} (noise {:.0} %)",
            per_event(of),
            of.noise()
        );
    }
}

/// The CPU time that an agent takes for all events.
fn agent_cpu(settings: &str, data: &[u8]) -> Duration {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut agent, _) = serve(dir.path(), settings);
    let before = cpu(agent.id());
    let mut stream = UnixStream::connect(dir.path().join("socket")).expect("it listens");
    stream.write_all(data).expect("it reads");
    stream.shutdown(Shutdown::Write).expect("half closed");
    let mut summary = Vec::new();
    stream.read_to_end(&mut summary).expect("it answers");
    let took = cpu(agent.id()) - before;
    let text = String::from_utf8_lossy(&summary);
    assert!(text.contains(&format!("\"accepted\":{EVENTS},")) && text.contains("\"missed\":0"), "{text}");
    end(&mut agent);
    took
}

/// Starts an agent, and waits until it listens: how long that took.
fn serve(dir: &Path, settings: &str) -> (Child, Duration) {
    let config = dir.join("config");
    let text = format!(
        "state_dir = {dir:?}\n[log]\n{settings}\nsource_budget = \"2GiB\"\ntotal_budget = \"2GiB\"\n\
         [[socket]]\npath = {:?}\npatience_ms = 1000\n",
        dir.join("socket")
    );
    fs::write(&config, text).expect("the directory is ours");
    let begin = Instant::now();
    let mut agent = Command::new(AGENT)
        .args(["serve", "--listen", "127.0.0.1:0", "--config"])
        .arg(&config)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program is built");
    let mut line = String::new();
    let output = agent.stdout.take().expect("it is piped");
    BufReader::new(output).read_line(&mut line).expect("it says where");
    assert!(line.starts_with("PCP clients"), "{line}");
    (agent, begin.elapsed())
}

fn end(agent: &mut Child) {
    agent.kill().expect("it is ours");
    agent.wait().expect("it ends");
}

/// CPU time of all threads of a process.
fn cpu(pid: u32) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it lives").flatten();
    let nanos = tasks.map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|nanos| nanos.parse::<u64>().ok()).unwrap_or(0)
    });
    Duration::from_nanos(nanos.sum())
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
    let mut batch = Batch::with_capacity(66 << 10);
    while batch.bytes().len() < 64 << 10 {
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
    let run = |dir: &Path| {
        let (mut agent, took) = serve(dir, "sync = \"never\"");
        end(&mut agent);
        took
    };
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..=rounds {
        for (dir, times) in [dir, empty.path()].into_iter().zip(&mut times) {
            let took = run(dir);
            if round > 0 {
                times.push(took);
            }
        }
    }
    let [full, none] = times.map(Times::of);
    println!(
        "log, start with 1 GB: {:.1} ms until it listens, {:.1} without a log, goal {:.0}: {} (noise {:.0} %)",
        full.median.as_secs_f64() * 1e3,
        none.median.as_secs_f64() * 1e3,
        START_GOAL.as_secs_f64() * 1e3,
        if full.median <= START_GOAL { "met" } else { "MISSED" },
        full.noise()
    );
}

/// Reads all of 1 GB through a cursor, from files and from memory.
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
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..=rounds {
        for ((log, cursors), times) in readers.iter_mut().zip(&cursors).zip(&mut times) {
            let took = common::time(|| assert_eq!(read_all(log, cursors[round]), events));
            if round > 0 {
                times.push(took);
            }
        }
    }
    let [files, memory] = times.map(Times::of);
    let ratio = memory.best.as_secs_f64() / files.best.as_secs_f64();
    println!(
        "log, replay of 1 GB from files: {} records/s, {ratio:.2} of memory ({} records/s), goal {REPLAY_GOAL}: {} \
         (noise {:.0} %, {:.0} %)",
        si(events as f64 / files.best.as_secs_f64()),
        si(events as f64 / memory.best.as_secs_f64()),
        if ratio >= REPLAY_GOAL { "met" } else { "MISSED" },
        files.noise(),
        memory.noise()
    );
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
