//! Targets scraped by the agent as it runs (`jumpseat serve`, `[[scrape]]`): processor time of all its threads for a sample, by the system's
//! account, plain and with gzip. 200 targets of 1,000 series each, in 100 families of a shape that exporters have, twice a second: as many samples in two
//! and a half seconds as 1,000 targets of 1,000 series have in half a minute. And those 1,000 targets, each five seconds. Numbers differ from scrape to scrape.
//!
//! Against it, in the same run and of the same targets: Prometheus (Debian's package), which keeps what it scrapes in its database; the agent keeps
//! the newest values, as PCP's clients ask for them.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use jumpseat::client::group::{FetchGroup, Scale};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

mod common;
use common::agent::Served;
use common::clock::{peak_kib, process_cpu};
use common::{Figure, Goal, Row, Times, race, repeat, rounds};

const AGENT: &str = env!("CARGO_BIN_EXE_jumpseat");
const TARGETS: u64 = 200;
const SERIES: u64 = 1000;
/// Samples that the times are told for; what was measured is that many and a few more.
const SAMPLES: u64 = 4 * TARGETS * SERIES;
/// Samples a second on one core, with which 1,000 targets of 1,000 series a minute are 1.7 % of it; the goal that was set is 50 %.
const GOAL: f64 = 1_000_000.0;

/// Targets: an HTTP server that answers everything with the one or the other of two bodies.
struct Server {
    address: SocketAddr,
    /// Answers so far.
    answers: Arc<AtomicU64>,
}

impl Server {
    /// With compressed answers, or plain ones; for so many targets.
    fn start(is_gzip: bool, targets: u64) -> Server {
        let bodies = [0, 1].map(|variant| answer(&body(variant), is_gzip));
        let answers = Arc::new(AtomicU64::new(0));
        let (tell, told) = std::sync::mpsc::channel();
        let counted = Arc::clone(&answers);
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
                tell.send(listener.local_addr().expect("it is bound")).expect("somebody waits");
                let bodies = Arc::new(bodies);
                loop {
                    let (mut stream, _) = listener.accept().await.expect("a connection");
                    let (bodies, counted) = (Arc::clone(&bodies), Arc::clone(&counted));
                    tokio::spawn(async move {
                        let mut head = Vec::new();
                        while let Ok(1..) = stream.read_buf(&mut head).await {
                            if head.ends_with(b"\r\n\r\n") {
                                head.clear();
                                let nth = counted.fetch_add(1, Ordering::Relaxed);
                                if stream.write_all(&bodies[(nth / targets % 2) as usize]).await.is_err() {
                                    return;
                                }
                            }
                        }
                    });
                }
            });
        });
        Server { address: told.recv().expect("it listens"), answers }
    }

    fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }
}

fn body(variant: u64) -> String {
    let mut text = String::new();
    for family in 0..100 {
        let kind = ["counter", "gauge"][family % 2];
        let name = format!("node_subsystem_{family}_bytes{}", ["_total", ""][family % 2]);
        let _ = writeln!(
            text,
            "# HELP {name} What the device of a number has done so far.\n# TYPE {name} {kind}"
        );
        for device in 0..SERIES / 100 {
            let value = device * 1_234_567 + variant * 1000 + family as u64;
            let _ = match family % 3 {
                0 => writeln!(text, "{name}{{device=\"eth{device}\",direction=\"receive\"}} {value}"),
                1 => writeln!(text, "{name}{{device=\"eth{device}\",direction=\"receive\"}} {}.25", value),
                _ => writeln!(
                    text,
                    "{name}{{device=\"eth{device}\",direction=\"receive\"}} {:e}",
                    value as f64
                ),
            };
        }
    }
    text
}

fn answer(body: &str, is_gzip: bool) -> Vec<u8> {
    let (mut body, mut encoding) = (body.as_bytes().to_vec(), "");
    if is_gzip {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&body).expect("to memory");
        body = encoder.finish().expect("to memory");
        encoding = "Content-Encoding: gzip\r\n";
    }
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n{encoding}Content-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), &body].concat()
}

fn main() {
    let [plain_server, gzip_server] = [false, true].map(|is_gzip| Server::start(is_gzip, TARGETS));
    let has_peer = Command::new("prometheus").arg("--version").output().is_ok();
    let [plain, gzip, peer, peer_gzip] = race(
        rounds(5),
        [
            &mut || agent(&plain_server),
            &mut || agent(&gzip_server),
            &mut || if has_peer { prometheus(&plain_server) } else { Duration::ZERO },
            &mut || if has_peer { prometheus(&gzip_server) } else { Duration::ZERO },
        ],
    );
    let bytes = body(0).len() as u64 / SERIES;
    let rate = |times: &Times| Figure::rate(times, SAMPLES as f64, "samples/s on a core");
    let row = |what: &str, times: &Times, peer: &Times| {
        let row = Row::new(
            format!("scraping {TARGETS} targets of {SERIES} series, {bytes} bytes a sample{what}"),
            rate(times),
        );
        if has_peer {
            row.peer("Prometheus", rate(peer))
        } else {
            row.note("Prometheus NOT MEASURED: not installed")
        }
    };
    row("", &plain, &peer).goal(Goal::AtLeast(GOAL)).headline().print();
    row(", gzip", &gzip, &peer_gzip).print();
    drop((plain_server, gzip_server));
    many();
}

/// A thousand targets: what a minute of them costs, and what memory they take.
fn many() {
    const MANY: u64 = 1000;
    let server = Server::start(false, MANY);
    let (shares, peaks): (Vec<f64>, Vec<u64>) = repeat(|| {
        let (took, peak) = scraped(&server, MANY, "5s", MANY * SERIES);
        (took.as_secs_f64() / 60.0 * 100.0, peak)
    })
    .into_iter()
    .unzip();
    let peak = peaks.into_iter().max().unwrap_or_default();
    Row::new(
        format!("scraping {MANY} targets of {SERIES} series once a minute"),
        Figure::costs(shares, "% of a core"),
    )
    .goal(Goal::AtMost(50.0))
    .note(format!("by a scrape of all; {:.0} MiB at most", peak as f64 / 1024.0))
    .print();
}

/// Processor time of an agent for [`SAMPLES`], after it has met all of them.
fn agent(server: &Server) -> Duration {
    scraped(server, TARGETS, "500ms", SAMPLES).0
}

/// Processor time of an agent for so many samples of so many targets, after it has met all of them; and the most memory that it took, in KiB.
fn scraped(server: &Server, targets: u64, interval: &str, samples: u64) -> (Duration, u64) {
    let dir = tempfile::tempdir().expect("a directory");
    let urls: Vec<String> = (0..targets).map(|n| format!("http://{}/{n}", server.address)).collect();
    // Series of targets are told apart by their instances, which are told apart by host and port.
    let list: String =
        urls.iter().enumerate().map(|(n, url)| format!("{url} instance=host-{n}:9100\n")).collect();
    std::fs::write(dir.path().join("targets"), list).expect("the directory is ours");
    let config = format!(
        "[series]\nmax_series = {0}\nmax_per_metric = {0}\nbudget = \"4GiB\"\n[[scrape]]\nname = \"node\"\n\
         targets_file = \"targets\"\ninterval = \"{interval}\"\n",
        2 * targets * SERIES
    );
    let agent = Served::start(AGENT, dir.path(), &config);
    let mut group = FetchGroup::host(&agent.address.to_string()).expect("it listens");
    let series = group.item::<u64>("jumpseat.self.series.count", None, Scale::Instant).expect("it is there");
    let points = group.item::<u64>("jumpseat.self.series.points", None, Scale::Instant).expect("it is there");
    let mut wait = |item, least: u64| loop {
        group.fetch().expect("it answers");
        let value: u64 = group.value(item).expect("a number");
        if value >= least {
            return group.value(points).expect("a number");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    wait(series, targets * SERIES);
    // All have been there twice, so none is new.
    let met: u64 = wait(points, 2 * targets * SERIES);
    let before = (agent.cpu(), met);
    let met = wait(points, met + samples);
    let took = (agent.cpu() - before.0).mul_f64(samples as f64 / (met - before.1) as f64);
    (took, peak_kib(agent.pid()))
}

/// The same of a Prometheus.
fn prometheus(server: &Server) -> Duration {
    let dir = tempfile::tempdir().expect("a directory");
    let mut config = String::from(
        "global:\n  scrape_interval: 500ms\n  scrape_timeout: 500ms\nscrape_configs:\n- job_name: node\n  static_configs:\n",
    );
    for n in 0..TARGETS {
        let _ = writeln!(
            config,
            "  - targets: [\"{}\"]\n    labels: {{ __metrics_path__: \"/{n}\", instance: \"host-{n}:9100\" }}",
            server.address
        );
    }
    let file = dir.path().join("prometheus.yml");
    std::fs::write(&file, config).expect("the directory is ours");
    let process = Running::start(&file, dir.path());
    let wait = |least: u64| {
        while server.answers() < least {
            std::thread::sleep(Duration::from_millis(20));
        }
        server.answers()
    };
    let met = wait(server.answers() + 2 * TARGETS);
    let before = (process_cpu(process.0.id()), met);
    let met = wait(met + SAMPLES / SERIES);
    scaled(process_cpu(process.0.id()) - before.0, (met - before.1) * SERIES)
}

/// A Prometheus that runs until this is dropped.
struct Running(Child);

impl Running {
    fn start(config: &Path, dir: &Path) -> Running {
        let mut command = Command::new("prometheus");
        command.arg("--config.file").arg(config).arg("--storage.tsdb.path").arg(dir.join("data"));
        command.args(["--web.listen-address=127.0.0.1:0", "--log.level=error"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Running(command.spawn().expect("it is installed"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What so many samples took, as time for [`SAMPLES`].
fn scaled(time: Duration, samples: u64) -> Duration {
    time.mul_f64(SAMPLES as f64 / samples as f64)
}
