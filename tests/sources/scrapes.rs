//! What readers see that come once: scrapes of pmproxy's `/metrics`, and tools that fetch once.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::spans::{spans, start, values};
use support::{PcpEnv, PrivatePmcd, Process, eventually, free_port, temp_dir, user};
use tempfile::TempDir;

/// A pmproxy of the test's own, for a pmcd.
struct Proxy {
    _process: Process,
    _files: TempDir,
    port: u16,
    pmcd: u16,
}

impl Proxy {
    fn of(pmcd: &PrivatePmcd) -> Proxy {
        let (files, port) = (temp_dir(), free_port());
        let mut env = PcpEnv::new();
        for name in ["PCP_RUN_DIR", "PCP_TMP_DIR", "PCP_LOG_DIR"] {
            env.set(name, files.path());
        }
        let mut command = env.command("pmproxy");
        command.args(["-f", "-t", "-i", "127.0.0.1", "-p", &port.to_string(), "-U", &user()]);
        command.arg("-s").arg(files.path().join("socket")).arg("-l").arg(files.path().join("log"));
        let process = Process::start(&mut command, files.path(), "pmproxy");
        eventually("pmproxy to listen", || TcpStream::connect(("127.0.0.1", port)).is_ok().then_some(()));
        Proxy { _process: process, _files: files, port, pmcd: pmcd.port() }
    }

    /// The lines of a scrape. It knows its pages only a moment after it listens.
    fn scrape(&self, names: &str) -> Vec<String> {
        eventually("an answer of pmproxy", || {
            let lines = self.get(names);
            lines.first().is_some_and(|line| line.contains(" 200 ")).then_some(lines)
        })
    }

    fn get(&self, names: &str) -> Vec<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        // Of HTTP/1.1, or long answers are refused; it keeps the connection, whatever it is asked for.
        let path = format!("/metrics?names={names}&hostspec=127.0.0.1:{}", self.pmcd);
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it reads");
        let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
        while !is_whole(&answer) {
            match stream.read(&mut piece) {
                Ok(read) if read > 0 => answer.extend_from_slice(&piece[..read]),
                other => panic!("{other:?} after {}", String::from_utf8_lossy(&answer)),
            }
        }
        String::from_utf8_lossy(&answer).lines().map(str::to_owned).collect()
    }
}

/// Whether all of an answer is there: as much as it says, or up to the last chunk.
fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    match length {
        Some(length) => length.trim().parse() == Ok(body.len()),
        None => body.ends_with("0\r\n\r\n"),
    }
}

/// The value in the line of a metric that has all these labels.
fn value(lines: &[String], metric: &str, labels: &[&str]) -> Option<f64> {
    let of = |line: &&String| {
        line.starts_with(&format!("{metric}{{")) && labels.iter().all(|label| line.contains(label))
    };
    lines.iter().find(of)?.rsplit_once(' ')?.1.parse().ok()
}

#[test]
fn prometheus_reads_a_histogram() {
    let (pmcd, seat) = start("");
    seat.feed(["--source", "app"], &spans(100)).ok();
    let buckets = values(&pmcd, "bucket");
    assert_eq!(buckets.len(), 29, "{buckets:?}");
    for (bound, below) in [("1us", 0), ("1ms", 0), ("2ms", 1), ("5ms", 4), ("50ms", 49), ("100ms", 99)] {
        assert_eq!(buckets[&format!("app/request/{bound}")], below, "{bound}: {buckets:?}");
    }
    for bound in ["200ms", "1ks", "inf"] {
        assert_eq!(buckets[&format!("app/request/{bound}")], 100, "{bound}: {buckets:?}");
    }
    let sum = pmcd.run("pminfo", ["-df", "jumpseat.span.sum"]).ok();
    assert!(sum.contains("value 5.05") && sum.contains("Semantics: counter  Units: sec"), "{sum}");
    // And what comes out at the other end.
    let lines = Proxy::of(&pmcd).scrape("jumpseat.span");
    assert!(lines.iter().any(|line| line == "# TYPE jumpseat_span_bucket counter"), "{lines:#?}");
    let mut all = Vec::new();
    for line in lines.iter().filter(|line| line.starts_with("jumpseat_span_bucket{")) {
        let (_, label) = line.split_once("le=\"").unwrap_or_else(|| panic!("{line}"));
        // As Prometheus reads it: `+Inf`, too, is a number.
        let bound: f64 = label.split('"').next().unwrap_or_default().parse().expect("a number");
        all.push((bound, value(std::slice::from_ref(line), "jumpseat_span_bucket", &[]).expect("a number")));
    }
    all.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    assert_eq!(all.len(), 29, "{lines:#?}");
    assert!(all.is_sorted_by_key(|(_, count)| *count), "cumulative: {all:?}");
    for (bound, below) in [(1e-6, 0.0), (0.002, 1.0), (0.05, 49.0), (1000.0, 100.0), (f64::INFINITY, 100.0)] {
        assert!(all.contains(&(bound, below)), "{bound}: {all:?}");
    }
    let of = |metric: &str| value(&lines, metric, &["source=\"app\"", "span=\"request\""]);
    assert_eq!((of("jumpseat_span_count"), of("jumpseat_span_sum")), (Some(100.0), Some(5.05)));
    // The quantile as `histogram_quantile` has it: interpolated in the bucket that it is in.
    let rank = 0.9 * 100.0;
    let at = all.partition_point(|(_, count)| *count < rank);
    let ((low, before), (high, until)) = (all[at - 1], all[at]);
    let p90 = low + (high - low) * (rank - before) / (until - before);
    assert!((p90 - 0.09).abs() < 0.01, "{p90}");
}

/// Events a second, in bursts of ten.
const PACE: f64 = 100.0;

#[test]
fn who_comes_once_has_rates_and_leaves_no_instances() {
    const DEFINITION: &str = "pace = rate(jumpseat.source.received)\n";
    let dir = temp_dir();
    let file = dir.path().join("pace.conf");
    std::fs::write(&file, DEFINITION).expect("the test's directory is writable");
    let (pmcd, seat) = start(&format!("[derived]\nfiles = [{file:?}]\npmcd = \"\"\nhistory = \"1s\""));
    let done = Arc::new(AtomicBool::new(false));
    let feeder = std::thread::spawn({
        let (done, socket) = (Arc::clone(&done), seat.socket());
        move || {
            let mut stream = UnixStream::connect(socket).expect("the agent listens");
            stream.write_all(b"{\"jumpseat\":{\"source\":\"app\"}}\n").expect("it reads");
            let (start, mut sent) = (Instant::now(), 0.0);
            while !done.load(Ordering::Relaxed) {
                // By the clock, so that a pause is made up for.
                while sent < start.elapsed().as_secs_f64() * PACE {
                    stream.write_all("{}\n".repeat(10).as_bytes()).expect("it reads");
                    sent += 10.0;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            // The summary, so that nothing breaks.
            let _ = stream.shutdown(Shutdown::Write);
        }
    });
    let once = || {
        let shown = pmcd.run("pminfo", ["-f", "jumpseat.derived.pace"]).stdout;
        let line = shown.lines().find(|line| line.contains("\"app\""))?;
        line.rsplit_once("value ")?.1.parse::<f64>().ok()
    };
    let is_right = |rate: f64| (rate - PACE).abs() <= 0.2 * PACE;
    eventually("a rate at the first fetch of a context", || once().filter(|rate| is_right(*rate)));
    // From then on each has one.
    for _ in 0..3 {
        let rate = once().expect("the agent has a history");
        assert!((0.0..10.0 * PACE).contains(&rate), "{rate}");
    }
    let proxy = Proxy::of(&pmcd);
    eventually("a rate in a scrape", || {
        let lines = proxy.scrape("jumpseat.derived,jumpseat.event,jumpseat.source");
        value(&lines, "jumpseat_derived_pace", &["source=\"app\""]).filter(|rate| is_right(*rate))
    });
    // A client that comes again has its own: over its own interval, which is not a second.
    let shown =
        pmcd.run("pmval", ["-t", "0.3", "-s", "4", "-f", "3", "-i", "app", "jumpseat.derived.pace"]).ok();
    assert!(!shown.contains("No values"), "{shown}");
    done.store(true, Ordering::Relaxed);
    feeder.join().expect("the feeder ends");
    // What scrapes fetched of records has left nothing behind.
    pmcd.run("pminfo", ["-f", "jumpseat.event.records", "jumpseat.event.highres_records"]).ok();
    let clients = pmcd.run("pminfo", ["-f", "jumpseat.client.received"]).stdout;
    assert!(!clients.contains("inst ["), "{clients}");
    // Nobody computes for anybody once it is switched off.
    let off = std::fs::read_to_string(seat.config()).expect("it is there").replace("history = \"1s\"", "");
    std::fs::write(seat.config(), off).expect("the test's directory is writable");
    pmcd.run("pmstore", ["jumpseat.control.reload", "1"]).ok();
    eventually("no rate at a first fetch", || once().is_none().then_some(()));
}

#[test]
fn who_comes_again_for_records_has_an_instance() {
    let (pmcd, seat) = start("");
    seat.feed(["--source", "app"], "{}\n").ok();
    let mut reader = pmcd.spawn("pmevent", ["-t", "0.2", "jumpseat.event.records"], "reader");
    eventually("the reader's instance", || {
        let shown = pmcd.run("pminfo", ["-f", "jumpseat.client.received"]).stdout;
        shown.contains("/app/records\"").then_some(())
    });
    reader.stop();
}
