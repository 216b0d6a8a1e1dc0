//! A file through the whole source, to the event log: the thread that follows (read, parse, pack, hand over) and the core
//! (take, append). Printed: lines per second of CPU time of both together, which is what one core can do whatever else
//! the machine is busy with.
//!
//! Against it, in the same run: a C program that reads the same file with `getline(3)` (the floor of any reader in C), and
//! one that puts each line through `regexec(3)` and copies the groups out (the job of format `plain`).

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crossbeam_channel::bounded;
use jumpseat::event::log::{EventLog, LogConfig};
use jumpseat::model::Pmid;
use jumpseat::source::delivery::Inlet;
use jumpseat::source::follow::{FileConfig, Follow, FollowConfig, FormatName, From, QUEUE};
use jumpseat::source::outlet::Outlet;
use jumpseat::source::registry::{Registry, RegistryConfig};

mod common;
use common::clock::{cpu_of, thread_cpu};
use common::{Figure, Row, Times};
use support::CPeer;

const LINES: u64 = 500_000;

/// For both: POSIX has no named groups, the library of this crate does.
const PATTERN: &str = r"^(?<host>[0-9.]+) - - \[(?<time>[^]]+)\] (?<type>[A-Z]+) (?<message>[^ ]+) (?<status>[0-9]+) (?<bytes>[0-9]+)$";
const POSIX: &str = "^([0-9.]+) - - \\[([^]]+)\\] ([A-Z]+) ([^ ]+) ([0-9]+) ([0-9]+)$";

fn line(format: FormatName, n: u64) -> String {
    let (micros, id) = (n % 1_000_000, n % 50_000);
    // Of the present: times of another year would be counted as such.
    let sec = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs()) + n / 1_000_000;
    match format {
        FormatName::Text => format!(
            "{sec}.{micros:06} info GET /items/{micros:06} took {id} us, all of it well spent, status 200"
        ),
        FormatName::Json => format!(
            r#"{{"time":{sec}.{micros:06},"type":"request","level":"info","msg":"GET /items/{micros:06}","latency_us":{id}}}"#
        ),
        FormatName::Logfmt => {
            format!(
                r#"ts={sec}.{micros:06} type=request level=info msg="GET /items/{micros:06}" latency_us={id} ok=true"#
            )
        }
        FormatName::Syslog => format!(
            "<14>1 2026-11-20T13:16:{:02}.{micros:06}Z host shop 123 - - GET /items/{micros:06} took {id} us, ok",
            n % 60
        ),
        FormatName::Plain => format!(
            "10.0.0.{} - - [20/Nov/2026:13:16:{:02} +0000] GET /items/{micros:06}?limit=100&page=7 200 {id}",
            n % 256,
            n % 60
        ),
        FormatName::Nginx | FormatName::Apache => format!(
            "10.0.0.{} - - [20/Nov/2026:13:16:{:02} +0000] \"GET /items/{micros:06} HTTP/1.1\" 200 {id} \"-\" \"curl\"",
            n % 256,
            n % 60
        ),
        FormatName::Klog => format!(
            "I1120 13:16:{:02}.{micros:06}       1 items.go:77] GET /items/{micros:06} took {id} us, ok",
            n % 60
        ),
    }
}

fn main() {
    let rounds = common::rounds(5);
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut peer = CPeer::start("benches/c/follow.c");
    for format in [
        FormatName::Text,
        FormatName::Json,
        FormatName::Logfmt,
        FormatName::Syslog,
        FormatName::Plain,
        FormatName::Nginx,
        FormatName::Klog,
    ] {
        let path = dir.path().join(format!("{format:?}.log"));
        let text: String = (0..LINES).map(|n| line(format, n) + "\n").collect();
        std::fs::write(&path, &text).expect("room for the lines");
        let size = text.len() as u64 / LINES;
        let what = format!("follow, {format:?}, {size} bytes a line");
        let [mut ours, mut floor, mut regexec] = [const { Vec::new() }; 3];
        for _ in 0..rounds {
            ours.push(follow(&path, format));
            floor.push(ask(&mut peer, &format!("lines\t{}", path.display())));
            if format == FormatName::Plain {
                regexec.push(ask(&mut peer, &format!("regexec\t{}\t{POSIX}", path.display())));
            }
        }
        let ours = Times::of(ours);
        let rate = |times: &Times| Figure::rate(times, LINES as f64, "lines/s on a core");
        Row::new(&what, rate(&ours)).peer("getline in C, nothing else", rate(&Times::of(floor))).print();
        if format == FormatName::Plain {
            let peer = rate(&Times::of(regexec));
            Row::new(&what, rate(&ours)).peer("getline and glibc's regexec", peer).print();
        }
    }
}

/// CPU time of the peer for a file, which must have all lines.
fn ask(peer: &mut CPeer, command: &str) -> Duration {
    let answer = peer.ask(command);
    let (count, nanos) = answer.split_once('\t').expect("two numbers");
    assert_eq!(count.parse(), Ok(LINES));
    Duration::from_nanos(nanos.parse().expect("a number"))
}

/// CPU time of following a file to its end, both threads.
fn follow(path: &Path, format: FormatName) -> Duration {
    let (registry, definitions) = Registry::open(&RegistryConfig::new(400)).expect("in memory");
    let (out, deliveries) = bounded(QUEUE);
    let core = std::thread::current();
    let outlet = Outlet {
        registry,
        out,
        wake: Arc::new(move || core.unpark()),
        state_dir: None,
        restarts: Arc::default(),
        kept: Default::default(),
        starting: Default::default(),
    };
    let file = FileConfig {
        path: path.to_owned(),
        format,
        pattern: (format == FormatName::Plain).then(|| PATTERN.to_owned()),
        from: From::Beginning,
        ..FileConfig::default()
    };
    let config = FollowConfig { files: vec![file], ..FollowConfig::default() };
    let mut log = EventLog::new(LogConfig {
        budget: 64 * 1024 * 1024,
        recent: 100,
        missed_pmid: Pmid::new(400, 16, 5),
    });
    // Without a reader the log keeps next to nothing.
    log.join();
    let cpu = thread_cpu();
    let inlet = Inlet::new(definitions, deliveries);
    let follow = Follow::start(&config, 16, &outlet).expect("starts");
    let mut received = 0;
    while received < LINES {
        while let Some(delivery) = inlet.take(|definition| drop(black_box(definition))) {
            assert_eq!((delivery.missed, delivery.tallies.rejected_total()), (None, 0), "nothing is lost");
            received += delivery.tallies.received;
            log.append(delivery.batch);
        }
        if received < LINES {
            std::thread::park();
        }
    }
    let spent = thread_cpu() - cpu + cpu_of("jumpseat-follow");
    assert_eq!(log.stats().seq, LINES);
    drop(follow);
    spent
}
