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

const LOADS: [(&str, Option<usize>); 3] =
    [("at rest", None), ("with 100,000 events/s", Some(PORTION)), ("under a flood", Some(usize::MAX))];
/// The middle, the 99th of a hundred and the 999th of a thousand.
const PERCENTILES: [(&str, usize); 3] = [("p50", 500), ("p99", 990), ("p99.9", 999)];

fn main() {
    let dir = tempfile::tempdir().expect("a directory");
    let agent = Served::start(AGENT, dir.path(), "");
    let mut client = Client::new(&agent);
    let times = common::rounds(TIMES);
    // In turn: of each load the percentiles of arrivals and of answers.
    let rounds = common::repeat(|| {
        LOADS.map(|(_, portion)| {
            let _flood = portion.map(|portion| Flood::start(&agent.socket, portion));
            std::thread::sleep(Duration::from_millis(200));
            [percentiles(client.arrivals(times)), percentiles(client.fetches(times))]
        })
    });
    let figure = |load: usize, what: usize, percentile: usize| {
        Figure::middle(rounds.iter().map(|round| round[load][what][percentile]).collect(), "us")
    };
    for (load, (name, _)) in LOADS.iter().enumerate() {
        for (what, text) in
            ["from sending an event to fetching it", "answer to a fetch of eight metrics"].iter().enumerate()
        {
            for (percentile, (p, _)) in PERCENTILES.iter().enumerate() {
                Row::new(format!("{text}, {name}, {p}"), figure(load, what, percentile)).print();
            }
        }
    }
    Row::new("answer to a fetch of eight metrics, under a flood, p99", figure(2, 1, 1))
        .peer("at rest", figure(0, 1, 1))
        .print();
}

/// In microseconds.
fn percentiles(mut times: Vec<Duration>) -> [f64; 3] {
    times.sort_unstable();
    PERCENTILES.map(|(_, per_mille)| times[(times.len() - 1) * per_mille / 1000].as_secs_f64() * 1e6)
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
