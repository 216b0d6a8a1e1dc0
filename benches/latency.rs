//! How long things take that somebody waits for, by the clock, at the agent as it runs (`jumpseat serve`): from the sending of an event
//! to its being in what a client fetches, and from a fetch to its answer. At rest, with 100,000 events a second from
//! another sender, and with as many as the agent takes.

mod common;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use common::agent::Served;
use common::{Figure, Row};
use jumpseat::client::group::{FetchGroup, ItemHandle, Scale};

const AGENT: &str = env!("CARGO_BIN_EXE_jumpseat");
/// Events, and fetches.
const TIMES: usize = 20_000;
/// What the other sender sends in a millisecond to make 100,000 a second.
const PORTION: usize = 100;

fn main() {
    let dir = tempfile::tempdir().expect("a directory");
    let agent = Served::start(AGENT, dir.path(), "");
    let mut client = Client::new(&agent);
    let mut at_rest = None;
    for (load, portion) in
        [("at rest", None), ("with 100,000 events/s", Some(PORTION)), ("under a flood", Some(usize::MAX))]
    {
        let _flood = portion.map(|portion| Flood::start(&agent.socket, portion));
        std::thread::sleep(Duration::from_millis(200));
        let times = common::rounds(TIMES);
        percentiles(&format!("from sending an event to fetching it, {load}"), client.arrivals(times));
        let what = format!("answer to a fetch of eight metrics, {load}");
        let [_, p99, _] = percentiles(&what, client.fetches(times));
        if portion == Some(usize::MAX) {
            Row::new(format!("{what}, p99"), micros(p99))
                .peer("at rest", micros(at_rest.unwrap_or(p99)))
                .print();
        }
        at_rest = at_rest.or(Some(p99));
    }
}

/// A row each for the middle, the 99th of a hundred and the 999th of a thousand.
fn percentiles(what: &str, mut times: Vec<Duration>) -> [Duration; 3] {
    times.sort_unstable();
    [("p50", 500), ("p99", 990), ("p99.9", 999)].map(|(name, per_mille)| {
        let time = times[(times.len() - 1) * per_mille / 1000];
        Row::new(format!("{what}, {name}"), micros(time)).print();
        time
    })
}

fn micros(time: Duration) -> Figure {
    Figure::cost(time.as_secs_f64() * 1e6, "us")
}

/// A PCP client, and a sender whose events it looks for.
struct Client {
    sender: UnixStream,
    arrived: FetchGroup,
    count: ItemHandle<u64>,
    eight: FetchGroup,
}

impl Client {
    fn new(agent: &Served) -> Client {
        let mut sender = UnixStream::connect(&agent.socket).expect("it listens");
        send(&mut sender);
        let mut arrived = FetchGroup::host(&agent.address.to_string()).expect("it listens");
        let count = loop {
            // The source is there once its first event is.
            match arrived.item("jumpseat.source.received", Some("probe"), Scale::Instant) {
                Ok(count) => break count,
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        let mut eight = FetchGroup::host(&agent.address.to_string()).expect("it listens");
        for leaf in ["received", "bytes", "missed", "delivered", "queued", "memory", "readers", "truncated"] {
            let item = eight.item::<u64>(&format!("jumpseat.source.{leaf}"), Some("probe"), Scale::Instant);
            item.expect("each source has it");
        }
        Client { sender, arrived, count, eight }
    }

    /// Events one by one: how long each took until the client had it.
    fn arrivals(&mut self, count: usize) -> Vec<Duration> {
        let mut known = self.received();
        let one = |_| {
            let begin = Instant::now();
            send(&mut self.sender);
            loop {
                self.arrived.fetch().expect("it answers");
                let now = self.arrived.value(self.count).expect("the source is there");
                if now > known {
                    known = now;
                    return begin.elapsed();
                }
            }
        };
        (0..count).map(one).collect()
    }

    fn received(&mut self) -> u64 {
        self.arrived.fetch().expect("it answers");
        self.arrived.value(self.count).expect("the source is there")
    }

    fn fetches(&mut self, count: usize) -> Vec<Duration> {
        let one = |_| {
            common::time(|| {
                self.eight.fetch().expect("it answers");
            })
        };
        (0..count).map(one).collect()
    }
}

fn send(sender: &mut UnixStream) {
    sender.write_all(b"{\"source\":\"probe\",\"message\":\"here I am\"}\n").expect("it reads");
}

/// Another sender.
struct Flood {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    /// Sends `portion` events a millisecond, or as many as are taken.
    fn start(socket: &Path, portion: usize) -> Flood {
        let mut stream = UnixStream::connect(socket).expect("it listens");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let lines: Vec<u8> = (0..portion.min(1000))
            .flat_map(|n| format!("{{\"source\":\"flood\",\"type\":\"request\",\"message\":\"GET /items/{n:06}\",\"ms\":{n}}}\n").into_bytes())
            .collect();
        let thread = std::thread::spawn(move || {
            let mut next = Instant::now();
            while !stopped.load(Ordering::Relaxed) && stream.write_all(&lines).is_ok() {
                if portion < usize::MAX {
                    next += Duration::from_millis(1);
                    std::thread::sleep(next.saturating_duration_since(Instant::now()));
                }
            }
        });
        Flood { stop, thread: Some(thread) }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it cannot fail");
        }
    }
}
