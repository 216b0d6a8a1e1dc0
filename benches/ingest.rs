//! Events over the ingest socket of the agent as it runs (`jumpseat serve`, its log on disk as by default): processor time of all its
//! threads for an event, by the system's account.
//!
//! Lines of 128 bytes with a time, type, severity, message, an integer, a double and a user; the same events as binary frames. Against
//! that, in the same run: `sonic-rs` and `serde_json` that parse the same lines into a value of their own and do nothing else, and
//! reading the same bytes from a socket into nothing.

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jumpseat::wire::encode::{Encoder, Phase, Record, Value};

mod common;
use common::agent::Served;
use common::clock::thread_cpu;
use common::{Figure, Goal, Row, Times, race, rounds};

const AGENT: &str = env!("CARGO_BIN_EXE_jumpseat");
const EVENTS: u64 = 1_000_000;
const SEVERITIES: [&str; 4] = ["info", "info", "warning", "error"];
/// Nanoseconds an event.
const LINES_GOAL: f64 = 350.0;
const FRAMES_GOAL: f64 = 100.0;

fn main() {
    let rounds = rounds(10);
    let events: Vec<Event> = (0..EVENTS).map(Event::new).collect();
    let lines: Vec<u8> = events.iter().flat_map(|event| event.line().into_bytes()).collect();
    let frames = frames(&events);
    let (lines_shared, frames_shared) = (Arc::new(lines.clone()), Arc::new(frames.clone()));
    let [as_lines, as_frames, sonic, serde, lines_read, frames_read] = race(
        rounds,
        [
            &mut || agent(&lines),
            &mut || agent(&frames),
            &mut || {
                parse(&lines, |line| {
                    drop(black_box(sonic_rs::from_slice::<sonic_rs::Value>(line).expect("valid")))
                })
            },
            &mut || {
                parse(&lines, |line| {
                    drop(black_box(serde_json::from_slice::<serde_json::Value>(line).expect("valid")))
                })
            },
            &mut || read_only(&lines_shared),
            &mut || read_only(&frames_shared),
        ],
    );
    let each = |times: &Times| Figure::nanos(times, EVENTS as f64, "ns an event");
    let what = format!("ingest, NDJSON of {} bytes, CPU of the agent", lines.len() as u64 / EVENTS);
    Row::new(&what, each(&as_lines))
        .peer("sonic-rs into its own value, nothing else", each(&sonic))
        .goal(Goal::AtMost(LINES_GOAL))
        .print();
    Row::new(&what, each(&as_lines)).peer("sonic-rs", each(&sonic)).goal(Goal::Ratio(1.0)).headline().print();
    Row::new(&what, each(&as_lines)).peer("serde_json", each(&serde)).print();
    Row::new(&what, each(&as_lines)).peer("only reading the bytes", each(&lines_read)).print();
    let what = format!("ingest, frames of {} bytes, CPU of the agent", frames.len() as u64 / EVENTS);
    Row::new(what, each(&as_frames))
        .peer("only reading the bytes", each(&frames_read))
        .goal(Goal::AtMost(FRAMES_GOAL))
        .headline()
        .print();
}

/// What a sender tells.
struct Event {
    micros: u64,
    severity: &'static str,
    message: String,
    ms: i64,
    ratio: f64,
    user: String,
}

impl Event {
    /// Of the present: those of another year would be counted as such.
    fn new(n: u64) -> Event {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Spread, so that no value follows from the one before.
        let random = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        Event {
            micros: now.as_micros() as u64,
            severity: SEVERITIES[(random % 4) as usize],
            message: format!("GET /{:04}", random % 10_000),
            ms: (random % 1000) as i64,
            ratio: (random % 10_000) as f64 / 10_000.0,
            user: format!("u{}", random % 500),
        }
    }

    fn line(&self) -> String {
        format!(
            "{{\"time\":{}.{:06},\"type\":\"request\",\"severity\":\"{}\",\"message\":\"{}\",\"ms\":{},\"ratio\":{:.4},\"user\":\"{}\"}}\n",
            self.micros / 1_000_000,
            self.micros % 1_000_000,
            self.severity,
            self.message,
            self.ms,
            self.ratio,
            self.user
        )
    }
}

fn frames(events: &[Event]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    for event in events {
        let fields: [(&[u8], Value<'_>); 3] = [
            (b"ms", Value::I64(event.ms)),
            (b"ratio", Value::Double(event.ratio)),
            (b"user", Value::Text(event.user.as_bytes())),
        ];
        let record = Record {
            time: Some(event.micros as i64 * 1000),
            phase: Phase::Point,
            event_type: Some(b"request"),
            severity: Some(event.severity.as_bytes()),
            message: Some(event.message.as_bytes()),
            fields: &fields,
            ..Record::default()
        };
        encoder.record(&record, &mut out).expect("few names");
    }
    out
}

/// Processor time of an agent for all events.
fn agent(data: &[u8]) -> Duration {
    let dir = tempfile::tempdir().expect("a directory");
    let agent = Served::start(AGENT, dir.path(), "");
    let before = agent.cpu();
    agent.feed(data, EVENTS);
    agent.cpu() - before
}

/// Processor time of doing this with each line.
fn parse(lines: &[u8], with: impl Fn(&[u8])) -> Duration {
    let before = thread_cpu();
    lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).for_each(with);
    thread_cpu() - before
}

/// Processor time of reading all bytes from a socket and doing nothing with them.
fn read_only(data: &Arc<Vec<u8>>) -> Duration {
    let (mut stream, mut theirs) = UnixStream::pair().expect("a pair");
    let data = Arc::clone(data);
    let sender = std::thread::spawn(move || {
        theirs.write_all(&data).expect("it reads");
        theirs.shutdown(Shutdown::Write).expect("half closed");
    });
    let mut buffer = vec![0; 64 * 1024];
    let before = thread_cpu();
    while stream.read(&mut buffer).expect("readable") > 0 {
        black_box(&buffer);
    }
    let spent = thread_cpu() - before;
    sender.join().expect("the sender is content");
    spent
}
