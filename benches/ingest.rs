//! Ingest over a real Unix socket, one connection, end to end to the event log: socket thread (read, parse,
//! pack, hand over) and core thread (take, append). A third thread sends data made beforehand.
//!
//! Printed: events per second of CPU time of both threads together (what one core can do, whatever else
//! the machine is busy with), of the socket thread alone, and by the clock. As floors, in the same run:
//! `serde_json` parsing the same lines into a `Value`, and reading the same bytes from a socket into
//! nothing.

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crossbeam_channel::bounded;
use jumpseat::event::log::{EventLog, LogConfig};
use jumpseat::model::Pmid;
use jumpseat::source::delivery::Inlet;
use jumpseat::source::registry::{Registry, RegistryConfig};
use jumpseat::source::socket::SocketSource;
use jumpseat::source::{Outlet, SocketConfig};
use jumpseat::wire::encode::{Encoder, Phase, Record, Value};

mod common;
use common::si;

const LINES_GOAL: f64 = 500_000.0;
const FRAMES_GOAL: f64 = 3_000_000.0;

struct Figures {
    socket_cpu: Duration,
    core_cpu: Duration,
    wall: Duration,
}

/// Events as NDJSON, about 100 bytes each.
fn lines(events: u64) -> Vec<u8> {
    let now = now().as_secs();
    let mut out = Vec::new();
    for n in 0..events {
        let line = format!(
            r#"{{"time":{}.{:06},"type":"request","level":"info","msg":"GET /items/{:06}","latency_us":{}}}"#,
            now + n / 1_000_000,
            n % 1_000_000,
            n % 1_000_000,
            n % 50_000
        );
        out.extend_from_slice(line.as_bytes());
        out.push(b'\n');
    }
    out
}

/// Events as binary frames, about 100 bytes each: a longer message than the lines have, as frames say
/// everything else in fewer bytes.
fn frames(events: u64) -> Vec<u8> {
    let now = now().as_nanos() as i128;
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    for n in 0..events {
        let message =
            format!("GET /api/v1/customers/{:06}/orders?limit=100&page=7 from 10.0.0.17", n % 1_000_000);
        let fields: [(&[u8], Value<'_>); 2] =
            [(b"latency_us", Value::U64(n % 50_000)), (b"status", Value::U32(200))];
        let record = Record {
            time: Some(now as i64 + n as i64),
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

/// Events are of the present: those of another year would be counted as such.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn main() {
    let rounds = common::rounds(5);
    let events = 1_000_000;
    for (what, data, goal) in [("NDJSON", lines(events), LINES_GOAL), ("binary", frames(events), FRAMES_GOAL)]
    {
        let per_event = data.len() as f64 / events as f64;
        let data = Arc::new(data);
        let all: Vec<Figures> = (0..rounds).map(|_| ingest(&data, events)).collect();
        let best = |of: fn(&Figures) -> Duration| {
            let time = all.iter().map(of).min().expect("at least one round");
            events as f64 / time.as_secs_f64()
        };
        let core = best(|figures| figures.socket_cpu + figures.core_cpu);
        println!(
            "ingest, {what}, {per_event:.0} bytes an event, one connection, to the log: {} events/s on one core, \
             goal {}: {} (socket thread alone {}, by the clock {})",
            si(core),
            si(goal),
            if core >= goal { "met" } else { "MISSED" },
            si(best(|figures| figures.socket_cpu)),
            si(best(|figures| figures.wall)),
        );
        let floor = (0..rounds).map(|_| read_only(&data)).min().expect("at least one round");
        let floor = events as f64 / floor.as_secs_f64();
        println!("  only reading the bytes: {} events/s, ratio {:.2}", si(floor), core / floor);
        if what == "NDJSON" {
            let floor = (0..rounds).map(|_| serde(&data)).min().expect("at least one round");
            let floor = events as f64 / floor.as_secs_f64();
            println!("  only parsing with serde_json: {} events/s, ratio {:.2}", si(floor), core / floor);
        }
    }
}

fn ingest(data: &Arc<Vec<u8>>, events: u64) -> Figures {
    let dir = tempfile::tempdir().expect("temporary directory");
    let config =
        SocketConfig { path: dir.path().join("socket"), patience_ms: 1000, ..SocketConfig::default() };
    let (registry, definitions) = Registry::open(&RegistryConfig::new(400)).expect("in memory");
    let (out, deliveries) = bounded(config.queue);
    let core = std::thread::current();
    let wake = Arc::new(move || core.unpark());
    let outlet = Outlet {
        registry,
        out,
        wake,
        state_dir: None,
        restarts: Arc::default(),
        kept: Default::default(),
        starting: Default::default(),
    };
    let source = SocketSource::start(&config, &outlet).expect("starts");
    let inlet = Inlet::new(definitions, deliveries);
    let mut log = EventLog::new(LogConfig {
        budget: 64 * 1024 * 1024,
        recent: 100,
        missed_pmid: Pmid::new(400, 16, 5),
    });
    // Without a reader the log keeps next to nothing.
    log.join();
    let start = Instant::now();
    let cpu = thread_cpu();
    let sender = send(UnixStream::connect(&config.path).expect("connects"), Arc::clone(data));
    let mut received = 0;
    while received < events {
        while let Some(delivery) = inlet.take(|definition| drop(black_box(definition))) {
            assert_eq!(delivery.missed, None, "the core keeps up");
            received += delivery.tallies.received;
            log.append(delivery.batch);
        }
        if received < events {
            std::thread::park();
        }
    }
    let wall = start.elapsed();
    let core_cpu = thread_cpu() - cpu;
    let socket_cpu = cpu_of("jumpseat-socket");
    assert_eq!(log.stats().seq, events);
    drop(source);
    sender.join().expect("the sender is content");
    Figures { socket_cpu, core_cpu, wall }
}

fn send(mut stream: UnixStream, data: Arc<Vec<u8>>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        stream.write_all(&data).expect("the server reads");
        stream.shutdown(Shutdown::Write).expect("half-closed");
        // The summary, or nothing if the bench is over already.
        let _ = stream.read_to_end(&mut Vec::new());
    })
}

/// CPU time of reading all bytes from a socket and doing nothing with them.
fn read_only(data: &Arc<Vec<u8>>) -> Duration {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    let sender = send(theirs, Arc::clone(data));
    let mut stream = ours;
    let mut buffer = vec![0; 256 * 1024];
    let cpu = thread_cpu();
    while stream.read(&mut buffer).expect("readable") > 0 {
        black_box(&buffer);
    }
    let spent = thread_cpu() - cpu;
    drop(stream);
    sender.join().expect("the sender is content");
    spent
}

fn serde(data: &[u8]) -> Duration {
    let cpu = thread_cpu();
    for line in data.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        black_box(serde_json::from_slice::<serde_json::Value>(line).expect("valid"));
    }
    thread_cpu() - cpu
}

/// CPU time of this thread.
fn thread_cpu() -> Duration {
    let task = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells");
    run_time(&task)
}

/// CPU time of the thread of this process with this name.
fn cpu_of(name: &str) -> Duration {
    for task in std::fs::read_dir("/proc/self/task").expect("Linux tells").flatten() {
        let comm = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if comm.trim_end() == name {
            return run_time(&std::fs::read_to_string(task.path().join("schedstat")).expect("it is alive"));
        }
    }
    panic!("no thread {name}");
}

/// The first number of `schedstat`: nanoseconds on a CPU.
fn run_time(schedstat: &str) -> Duration {
    let nanos = schedstat.split(' ').next().and_then(|number| number.parse().ok());
    Duration::from_nanos(nanos.expect("schedstat starts with a number"))
}
