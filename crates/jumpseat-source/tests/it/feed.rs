//! The sending side against a real socket source.

use std::io::{Cursor, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::ingest_support::Names;
use crossbeam_channel::bounded;
use jumpseat_source::delivery::Inlet;
use jumpseat_source::feed::{FeedError, FeedOptions, Input, LineKind, Progress, Rejection, Report, feed};
use jumpseat_source::registry::{Registry, RegistryConfig};
use jumpseat_source::socket::SocketSource;
use jumpseat_source::{Outlet, SocketConfig};

fn input(name: &str, text: impl Into<Vec<u8>>) -> Input {
    let text = text.into();
    Input { name: name.to_owned(), size: Some(text.len() as u64), reader: Box::new(Cursor::new(text)) }
}

fn options(socket: &Path, binary: bool) -> FeedOptions {
    FeedOptions {
        remote: None,
        socket: socket.to_owned(),
        source: Some("app".to_owned()),
        lines: LineKind::Json,
        binary,
        sender: None,
        retry: Duration::ZERO,
        clock: None,
    }
}

struct Server {
    _source: SocketSource,
    inlet: Inlet,
    dir: tempfile::TempDir,
}

impl Server {
    fn start(change: impl FnOnce(&mut SocketConfig)) -> Server {
        let dir = tempfile::tempdir().expect("temporary directory");
        let mut config = SocketConfig { path: dir.path().join("s"), ..SocketConfig::default() };
        change(&mut config);
        let registry = RegistryConfig { max_sources: 2, ..RegistryConfig::new(400) };
        let (registry, definitions) = Registry::open(&registry).expect("registry");
        let (out, deliveries) = bounded(1000);
        let wake = Arc::new(|| ());
        let outlet = Outlet {
            series: Default::default(),
            registry,
            out,
            wake,
            state_dir: None,
            restarts: Arc::default(),
            kept: Default::default(),
            starting: Default::default(),
        };
        let source = SocketSource::start(&config, &outlet).expect("starts");
        Server { _source: source, inlet: Inlet::new(definitions, deliveries), dir }
    }

    fn feed(&self, change: impl FnOnce(&mut FeedOptions), inputs: Vec<Input>) -> Result<Report, FeedError> {
        let mut options = options(&self.dir.path().join("s"), false);
        change(&mut options);
        feed(&options, inputs, &mut |_| ())
    }

    /// What the core got, without times.
    fn records(&self) -> Vec<String> {
        let mut names = Names::default();
        let mut records = Vec::new();
        while let Some(delivery) = self.inlet.take(|definition| names.define(definition)) {
            let source = names.source(delivery.source).to_owned();
            records.extend(names.records(&delivery.batch).iter().map(|record| {
                format!("{source} {}", record.split_once(' ').expect("the time comes first").1)
            }));
        }
        records
    }
}

const MIXED: &str = "{\"type\":\"a\",\"n\":1}\n\n  \nbad\n{\"n\":2}\n{\"n\":}\n{\"n\":3}";

#[test]
fn both_framings_report_the_same() {
    for binary in [false, true] {
        let server = Server::start(|_| ());
        let report = server
            .feed(|o| o.binary = binary, vec![input("good", "{}\n{\"x\":1.5}"), input("mixed", MIXED)])
            .expect("sent");
        assert_eq!((report.sent, report.accepted, report.rejected, report.missed), (7, 5, 2, 0), "{binary}");
        assert_eq!(report.bytes, 12 + MIXED.len() as u64);
        assert_eq!(
            report.first_rejection,
            Some(Rejection {
                input: "mixed".to_owned(),
                line: 4,
                column: 1,
                reason: "syntax".to_owned(),
                detail: "expected an object: {".to_owned(),
            })
        );
        assert_eq!(
            server.records(),
            [
                "app point {}",
                "app point {x 1.5}",
                "app point {type \"a\", n 1}",
                "app point {n 2}",
                "app point {n 3}"
            ]
        );
    }
}

#[test]
fn a_servers_refusal_of_a_frame_leads_to_the_line() {
    let server = Server::start(|config| config.max_field = 16);
    let text =
        "{\"a\":1}\n{\"b\":1}\n\n{\"a\":2,\"c\":3}\n{\"a\":3}\n{\"a\":\"0123456789abcdefg\"}\n{\"a\":4}\n";
    let report = server.feed(|o| o.binary = true, vec![input("in", text)]).expect("sent");
    assert_eq!((report.sent, report.accepted, report.rejected), (6, 5, 1));
    let first = report.first_rejection.expect("one was refused");
    assert_eq!((first.line, first.reason.as_str()), (6, "oversize_field"));
}

#[test]
fn plain_lines() {
    for binary in [false, true] {
        let server = Server::start(|_| ());
        let plain = LineKind::Plain { event_type: Some("log".to_owned()), severity: Some("warn".to_owned()) };
        let text = b"first\r\n\n{\"not\":\"parsed\"}\nlast \xff".to_vec();
        let report = server
            .feed(
                |o| {
                    o.binary = binary;
                    o.lines = plain;
                },
                vec![input("in", text)],
            )
            .expect("sent");
        assert_eq!((report.sent, report.accepted, report.rejected), (3, 3, 0));
        assert_eq!(
            server.records(),
            [
                r#"app point {type "log", severity "warning", message "first"}"#,
                r#"app point {type "log", severity "warning", message "{\"not\":\"parsed\"}"}"#,
                "app point {type \"log\", severity \"warning\", message \"last \u{fffd}\"}",
            ]
        );
    }
}

#[test]
fn large_inputs_and_progress() {
    for binary in [false, true] {
        let server = Server::start(|config| config.patience_ms = 1000);
        let text = "{\"type\":\"t\",\"message\":\"a message of some length\",\"n\":12345}\n".repeat(50_000);
        let path = server.dir.path().join("s");
        let mut last: Option<Progress> = None;
        let report = feed(&options(&path, binary), vec![input("in", text.clone())], &mut |progress| {
            assert!(last.is_none_or(|last| last.events <= progress.events && last.bytes <= progress.bytes));
            last = Some(*progress);
        })
        .expect("sent");
        assert_eq!((report.sent, report.accepted, report.rejected), (50_000, 50_000, 0));
        let last = last.expect("told at the end");
        assert_eq!(
            (last.events, last.bytes, last.total),
            (50_000, text.len() as u64, Some(text.len() as u64))
        );
        assert_eq!(server.records().len() as u64 + report.missed, 50_000);
    }
}

#[test]
fn control_lines_in_the_input_are_no_events() {
    let server = Server::start(|_| ());
    let text = "{\"jumpseat\":{\"source\":\"two\"}}\n{}\n{\"jumpseat\":{\"source\":\"app\"}}\n{}\n";
    let report = server.feed(|o| o.source = None, vec![input("in", text)]).expect("sent");
    assert_eq!((report.sent, report.accepted), (2, 2));
}

#[test]
fn errors_say_what_to_do() {
    let server = Server::start(|_| ());
    let error = |result: Result<Report, FeedError>| result.expect_err("cannot work").to_string();
    let nowhere = server.feed(|o| o.socket = "/nonexistent/socket".into(), vec![input("in", "{}")]);
    let text = error(nowhere);
    assert!(text.contains("/nonexistent/socket") && text.contains("Is the agent running?"), "{text}");
    let text = error(server.feed(|o| o.source = Some("a b".to_owned()), vec![]));
    assert!(text.contains("\"a b\" was refused"), "{text}");
    server.feed(|_| (), vec![]).expect("the second of two sources");
    let text = error(server.feed(|o| o.source = Some("third".to_owned()), vec![]));
    assert!(text.contains("as many sources as the configuration allows"), "{text}");
    let loud = LineKind::Plain { event_type: None, severity: Some("loud".to_owned()) };
    let text = error(server.feed(|o| o.lines = loud, vec![]));
    assert!(text.contains("\"loud\" is no severity: use emergency, alert"), "{text}");
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("disk on fire"))
        }
    }
    let broken = Input { name: "broken".to_owned(), size: None, reader: Box::new(Broken) };
    assert_eq!(error(server.feed(|_| (), vec![broken])), "cannot read broken: disk on fire");
}

#[test]
fn servers_that_turn_away_or_go_away() {
    for binary in [false, true] {
        let server = Server::start(|config| config.max_connections = 1);
        let mut holder = UnixStream::connect(server.dir.path().join("s")).expect("connects");
        holder.write_all(b"{\"jumpseat\":{\"sync\":1}}\n").expect("sent");
        holder.read_exact(&mut [0]).expect("admitted");
        let error = server.feed(|o| o.binary = binary, vec![]).expect_err("full").to_string();
        assert!(error.contains("too many connections"), "{error}");

        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).expect("bind");
        let server = std::thread::spawn(move || drop(listener.accept().expect("one connection")));
        let error = feed(&options(&path, binary), vec![], &mut |_| ()).expect_err("gone").to_string();
        assert!(error.contains("the server is gone after 0 events"), "{error}");
        server.join().expect("the listener");
    }
}

/// Between a sender and a server, both ways: after so many bytes the connection breaks.
struct Cutter {
    path: std::path::PathBuf,
    _dir: tempfile::TempDir,
}

impl Cutter {
    /// In front of `server`: the first connections break after as many bytes as `cuts` say, those after them never.
    fn start(server: std::path::PathBuf, cuts: Vec<usize>) -> Cutter {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).expect("bind");
        std::thread::spawn(move || {
            let mut cuts = cuts.into_iter();
            for stream in listener.incoming() {
                let (Ok(near), Ok(far)) = (stream, UnixStream::connect(&server)) else { return };
                let left = Arc::new(AtomicUsize::new(cuts.next().unwrap_or(usize::MAX)));
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (from, to) = (from.try_clone().expect("a clone"), to.try_clone().expect("a clone"));
                    let left = Arc::clone(&left);
                    std::thread::spawn(move || pass(from, to, &left));
                }
            }
        });
        Cutter { path, _dir: dir }
    }
}

fn pass(mut from: UnixStream, mut to: UnixStream, left: &AtomicUsize) {
    let mut bytes = [0; 700];
    loop {
        let read = from.read(&mut bytes).unwrap_or(0);
        let allowed = left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(read)))
            .expect("it is changed");
        let is_over = allowed < read;
        let _ = to.write_all(&bytes[..read.min(allowed)]);
        if is_over {
            let _ = from.shutdown(Shutdown::Both);
        }
        if read == 0 || is_over {
            let _ = to.shutdown(if is_over { Shutdown::Both } else { Shutdown::Write });
            return;
        }
    }
}

#[test]
fn connections_that_break_at_any_byte_lose_and_repeat_nothing() {
    for binary in [false, true] {
        let server = Server::start(|config| config.patience_ms = 1000);
        // The first is long enough for a greeting: where nobody ever answered there is nothing to go on with.
        let cuts = (0..100usize).map(|n| n * n * 7 % 4001 + n % 50);
        let cuts: Vec<usize> = std::iter::once(5000).chain(cuts).collect();
        let cutter = Cutter::start(server.dir.path().join("s"), cuts);
        let lines: String = (0..20_000).map(|n| format!("{{\"n\":{n}}}\n")).collect();
        let lines = format!("{lines}bad\n");
        let mut options = options(&cutter.path, binary);
        (options.sender, options.retry) = (Some("me".to_owned()), Duration::from_secs(60));
        let report = feed(&options, vec![input("in", lines)], &mut |_| ()).expect("sent");
        assert_eq!((report.sent, report.missed), (20_001, 0), "{report:?}");
        assert!(report.reconnects > 20, "{report:?}");
        assert_eq!(report.first_rejection.map(|first| first.line), Some(20_001));
        let expected: Vec<String> = (0..20_000).map(|n| format!("app point {{n {n}}}")).collect();
        let records = server.records();
        assert!(records == expected, "{} records, {binary}", records.len());
    }
}

#[test]
fn a_file_that_is_sent_again_is_there_once() {
    for binary in [false, true] {
        let server = Server::start(|_| ());
        let named = |options: &mut FeedOptions| {
            options.binary = binary;
            options.sender = Some("a file".to_owned());
        };
        let report = server.feed(named, vec![input("in", MIXED)]).expect("sent");
        assert_eq!((report.sent, report.accepted, report.rejected, report.repeated), (5, 3, 2, 0));
        let more = format!("{MIXED}\n{{\"n\":4}}\n");
        let report = server.feed(named, vec![input("in", more)]).expect("sent");
        assert_eq!((report.sent, report.accepted + report.repeated), (6, if binary { 4 } else { 6 }));
        assert_eq!(report.accepted, 1);
        let records = server.records();
        assert_eq!(records.len(), 4, "{records:?}");
    }
}

#[test]
fn a_first_connection_that_is_cut_before_it_is_greeted_is_tried_again() {
    let server = Server::start(|_| ());
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("s");
    // One that is about to end: who has connected is cut, and the next one listens at the same path.
    let ending = UnixListener::bind(&path).expect("free");
    let next = server.dir.path().join("s");
    let at = path.clone();
    let end = std::thread::spawn(move || {
        drop(ending.accept().expect("somebody comes"));
        drop(ending);
        std::fs::remove_file(&at).expect("ours");
        std::os::unix::fs::symlink(&next, &at).expect("free");
    });
    let retry = |options: &mut FeedOptions| {
        options.socket = path.clone();
        options.retry = Duration::from_secs(20);
    };
    let report = server.feed(retry, vec![input("one", "{\"n\":1}\n")]).expect("sent");
    assert_eq!((report.sent, report.accepted), (1, 1));
    end.join().expect("it ends");
    // Nobody at all is an error at once.
    std::fs::remove_file(&path).expect("ours");
    assert!(matches!(server.feed(retry, vec![input("one", "{}")]), Err(FeedError::Connect { .. })));
}
