//! More than the receiver can take: clients whose requests need twice the memory that there is for incomplete ones, each with its next request
//! as soon as the last one is answered, for some seconds. What is taken in, what is told to come again, and what memory that takes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jumpseat::client::group::{FetchGroup, Scale};

use crate::common::agent::Served;
use crate::common::clock::{peak_kib, resident_kib};
use crate::common::{Figure, Goal, Row, is_quick, repeat};
use crate::{AGENT, SPANS, SPANS_IN, TRACES};

/// For incomplete requests: the least that may be configured.
const MEMORY: usize = 16 << 20;

/// What came of the requests.
#[derive(Default)]
struct Answers {
    taken: AtomicU64,
    /// Told to come again.
    busy: AtomicU64,
    /// Neither: another answer, or none.
    other: AtomicU64,
}

/// What a round has shown.
struct Shown {
    /// Memory when idle, after half of the time, and at its most, in KiB.
    idle: u64,
    early: u64,
    peak: u64,
    /// Requests.
    taken: u64,
    busy: u64,
    other: u64,
    took: Duration,
}

pub(crate) fn run(body: &[u8]) {
    // Each holds its length rounded up, while it is incomplete.
    let clients = 2 * MEMORY / body.len();
    let seconds = if is_quick() { 8 } else { 40 };
    let rounds = repeat(|| round(body, clients, Duration::from_secs(seconds)));
    let mib = |kib: u64| kib as f64 / 1024.0;
    let of = |figure: &dyn Fn(&Shown) -> f64| rounds.iter().map(figure).collect::<Vec<f64>>();
    let sum = |count: fn(&Shown) -> u64| rounds.iter().map(count).sum::<u64>();
    let most = |count: fn(&Shown) -> u64| mib(rounds.iter().map(count).max().unwrap_or_default());
    Row::new(
        format!("OTLP by {clients} clients, with twice the memory for requests: memory beyond that after half of the time"),
        Figure::most(of(&|shown| mib(shown.peak.saturating_sub(shown.early))), "MiB"),
    )
    .goal(Goal::AtMost(2.0))
    .note(format!(
        "{seconds} s; idle {:.1} MiB, the most {:.1} MiB, of which requests {} MiB",
        most(|shown| shown.idle),
        most(|shown| shown.peak),
        MEMORY >> 20
    ))
    .print();
    Row::new(
        "the same, requests that were neither taken in nor told to come again",
        Figure::most(of(&|shown| shown.other as f64), "requests"),
    )
    .goal(Goal::AtMost(0.0))
    .note(format!(
        "{} taken in, {} told to come again, all counted",
        sum(|shown| shown.taken),
        sum(|shown| shown.busy)
    ))
    .print();
    let each = of(&|shown| shown.took.as_secs_f64() * 1e9 / (shown.taken * SPANS) as f64);
    Row::new("the same, processor time for a span that was taken in", Figure::costs(each, "ns")).print();
}

fn round(body: &[u8], clients: usize, time: Duration) -> Shown {
    let dir = tempfile::tempdir().expect("a directory");
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let http = free.local_addr().expect("it is bound");
    drop(free);
    let config = format!("[otlp]\nlisten = \"{http}\"\nmax_memory = {MEMORY}\nmax_connections = 1024\n");
    let agent = Served::start(AGENT, dir.path(), &config);
    let idle = resident_kib(agent.pid());
    let answers = Answers::default();
    let (begun, before) = (Instant::now(), agent.cpu());
    let end = begun + time;
    let early = std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                while Instant::now() < end {
                    // Who is told to come again may be hung up on: its body is not read to the end.
                    ask(http, body, end, &answers);
                }
            });
        }
        std::thread::sleep(time / 2);
        peak_kib(agent.pid())
    });
    let took = agent.cpu() - before;
    let peak = peak_kib(agent.pid());
    let [taken, busy, other] =
        [&answers.taken, &answers.busy, &answers.other].map(|count| count.load(Ordering::Relaxed));
    let mut group = FetchGroup::host(&agent.address.to_string()).expect("it listens");
    let spans = group.item::<u64>(SPANS_IN.metric, SPANS_IN.instance, Scale::Instant).expect("it is there");
    let told = group.item::<u64>("jumpseat.self.otlp.busy", None, Scale::Instant).expect("it is there");
    while {
        group.fetch().expect("it answers");
        group.value(spans).expect("a number") < taken * SPANS
    } {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(group.value(spans).expect("a number"), taken * SPANS, "each that was acknowledged, once");
    assert_eq!(group.value(told).expect("a number"), busy, "each that was told to come again is counted");
    Shown { idle, early, peak, taken, busy, other, took }
}

/// One connection, until it ends.
fn ask(address: SocketAddr, body: &[u8], end: Instant, answers: &Answers) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_nodelay(true).expect("a TCP socket");
    let head = format!(
        "POST {TRACES} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut answer = [0; 1024];
    while Instant::now() < end {
        let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        let read = stream.read(&mut answer).unwrap_or(0);
        let count = match &answer[..read] {
            told if told.starts_with(b"HTTP/1.1 200") => &answers.taken,
            told if told.starts_with(b"HTTP/1.1 503") => &answers.busy,
            _ => &answers.other,
        };
        count.fetch_add(1, Ordering::Relaxed);
        if sent.is_err() || read == 0 || !answer.starts_with(b"HTTP/1.1 200") {
            return;
        }
    }
}
