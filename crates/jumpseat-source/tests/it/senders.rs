//! Senders that name themselves and number their events, over real sockets: acknowledged, sent again, recognised.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::ingest_support::Names;
use crossbeam_channel::{Receiver, bounded};
use jumpseat_log::{Limits, LogDir, SyncMode};
use jumpseat_source::delivery::Inlet;
use jumpseat_source::gate::Settings;
use jumpseat_source::registry::{Registry, RegistryConfig};
use jumpseat_source::socket::SocketSource;
use jumpseat_source::{Outlet, SocketConfig};
use jumpseat_wire as wire;
use jumpseat_wire::encode::{Encoder, Record};

struct Server {
    source: Option<SocketSource>,
    registry: Arc<Registry>,
    inlet: Inlet,
    names: Names,
    path: PathBuf,
    woken: Receiver<()>,
    /// The `n` of all records, and 0 for a missed record with its count.
    seen: Vec<(u64, u64)>,
    repeated: u64,
}

impl Server {
    /// A life of the agent, as far as it concerns this: its log is in `dir`.
    fn start(dir: &tempfile::TempDir) -> Server {
        let path = dir.path().join("socket");
        let config = SocketConfig { path: path.clone(), patience_ms: 1000, ..SocketConfig::default() };
        let ids = RegistryConfig { dir: Some(dir.path().to_owned()), ..RegistryConfig::new(400) };
        let (registry, definitions) = Registry::open(&ids).expect("registry");
        let limits = Limits::new(1 << 24, 1 << 24, 10, SyncMode::Never);
        registry.keep_in(Arc::new(LogDir::open(&dir.path().join("log"), 400, limits).expect("the log")));
        let (out, deliveries) = bounded(10_000);
        let (wake, woken) = bounded(1);
        let wake = Arc::new(move || {
            let _ = wake.try_send(());
        });
        let outlet = Outlet {
            series: Default::default(),
            registry: Arc::clone(&registry),
            out,
            wake,
            state_dir: None,
            restarts: Arc::default(),
            kept: Default::default(),
            starting: Default::default(),
        };
        let source = SocketSource::start(&config, &outlet).expect("starts");
        let inlet = Inlet::new(definitions, deliveries);
        let (names, seen) = (Names::default(), Vec::new());
        Server { source: Some(source), registry, inlet, names, path, woken, seen, repeated: 0 }
    }

    fn connect(&self) -> Connection {
        let stream = UnixStream::connect(&self.path).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("timeout");
        Connection { reader: BufReader::new(stream.try_clone().expect("a clone")), stream }
    }

    /// Takes what has been handed over.
    fn drain(&mut self) {
        let names = &mut self.names;
        while let Some(delivery) = self.inlet.take(|definition| names.define(definition)) {
            self.seen.extend(delivery.missed.map(|loss| (0, loss.count)));
            self.repeated += delivery.tallies.repeated;
            self.seen.extend(names.records(&delivery.batch).iter().map(|record| {
                let n = record.split("n ").nth(1).and_then(|rest| rest.trim_end_matches('}').parse().ok());
                (n.expect("an n"), 1)
            }));
        }
    }

    fn wait(&mut self, until: impl Fn(&Server) -> bool) {
        self.drain();
        while !until(self) {
            self.woken.recv_timeout(Duration::from_secs(20)).expect("a delivery wakes the core");
            self.drain();
        }
    }
}

struct Connection {
    stream: UnixStream,
    reader: BufReader<UnixStream>,
}

impl Connection {
    fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).expect("sent");
    }

    /// The next line; empty at the end.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    /// Reads until this number is acknowledged.
    fn wait_for(&mut self, number: u64) {
        while committed(&self.line()) != Some(number) {}
    }

    /// The rest, after the end of what is sent.
    fn end(mut self) -> Vec<String> {
        self.stream.shutdown(Shutdown::Write).expect("shut down");
        let mut rest = String::new();
        self.reader.read_to_string(&mut rest).expect("the rest");
        rest.lines().map(str::to_owned).collect()
    }
}

fn committed(line: &str) -> Option<u64> {
    let line: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line:?}"));
    line["jumpseat"]["committed"].as_u64()
}

fn hello(next: u64) -> String {
    format!("{{\"jumpseat\":{{\"source\":\"app\",\"sender\":\"s\",\"next\":{next}}}}}\n")
}

fn events(numbers: impl Iterator<Item = u64>) -> String {
    numbers.map(|n| format!("{{\"n\":{n}}}\n")).collect()
}

fn once(numbers: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
    numbers.map(|n| (n, 1)).collect()
}

#[test]
fn what_the_protocols_description_shows_happens() {
    let text = include_str!("../../../../docs/ingest-protocol.md");
    let dialogue = text.split("<!-- dialogue -->").nth(1).expect("the example is marked");
    let dir = tempfile::tempdir().expect("temporary directory");
    let server = Server::start(&dir);
    let mut connection = server.connect();
    let mut lines = 0;
    for line in dialogue.lines() {
        if let Some(sent) = line.strip_prefix("> ") {
            connection.send(&format!("{sent}\n"));
        } else if let Some(answer) = line.strip_prefix("< ") {
            assert_eq!(connection.line(), answer);
        } else if line == "(the connection breaks)" {
            connection.stream.shutdown(Shutdown::Both).expect("broken");
            connection = server.connect();
        } else {
            continue;
        }
        lines += 1;
    }
    assert!(lines > 8, "{lines}");
}

#[test]
fn what_is_sent_again_is_there_once_and_what_is_left_out_is_missed() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut server = Server::start(&dir);
    let mut first = server.connect();
    first.send(&hello(1));
    assert_eq!(first.line(), r#"{"jumpseat":{"known":0,"sender":"s"}}"#);
    first.send(&events(1..=5));
    first.wait_for(5);
    // Half a line is not taken for it, as the whole one will come.
    first.send("{\"n\":6}\n{\"n\":7");
    first.wait_for(6);
    drop(first);

    let mut second = server.connect();
    second.send(&(hello(4) + &events(4..=8)));
    assert_eq!(second.line(), r#"{"jumpseat":{"known":6,"sender":"s"}}"#);
    second.wait_for(8);
    second.send(&(hello(11) + "bad\n" + &events(12..=12)));
    assert_eq!(second.line(), r#"{"jumpseat":{"known":8,"sender":"s"}}"#);
    let end = second.end();
    assert!(end[0].contains("\"committed\":12") && end[0].contains("\"durable\":true"), "{end:?}");
    let summary = "\"repeated\":3";
    assert!(end.last().is_some_and(|last| last.contains(summary)), "{end:?}");
    server.wait(|server| server.seen.len() == 10);
    assert_eq!(server.seen, [once(1..=8), vec![(0, 2), (12, 1)]].concat());
    assert_eq!(server.repeated, 3);
}

#[test]
fn a_life_later_it_is_known_as_well() {
    let dir = tempfile::tempdir().expect("temporary directory");
    for life in 0..3u64 {
        let mut server = Server::start(&dir);
        let mut connection = server.connect();
        connection.send(&(hello(1) + &events(1..=10 + life)));
        let known = if life == 0 { 0 } else { 9 + life };
        assert_eq!(connection.line(), format!("{{\"jumpseat\":{{\"known\":{known},\"sender\":\"s\"}}}}"));
        connection.wait_for(10 + life);
        server.wait(|server| !server.seen.is_empty());
        assert_eq!(server.seen, once(known + 1..=10 + life));
        drop(server.source.take());
    }
}

#[test]
fn connections_that_break_anywhere_lose_and_repeat_nothing() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut server = Server::start(&dir);
    // Any fixed sequence does, as long as it cuts in many different places.
    let mut random = 12_345u64;
    let mut next_random = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    let (mut acknowledged, last) = (0, 5_000);
    for turn in 0..100 {
        let mut connection = server.connect();
        let text = hello(acknowledged + 1) + &events(acknowledged + 1..=(acknowledged + 200).min(last));
        let cut = next_random(text.len());
        let _ = connection.stream.write_all(&text.as_bytes()[..cut]);
        if turn % 3 == 0 {
            // Nothing is read: what was acknowledged is not known.
            continue;
        }
        connection.stream.shutdown(Shutdown::Write).expect("shut down");
        while let Ok(Some(line)) = connection.reader.by_ref().lines().next().transpose() {
            acknowledged = committed(&line).unwrap_or(acknowledged);
            if next_random(4) == 0 {
                break;
            }
        }
    }
    let mut connection = server.connect();
    connection.send(&(hello(acknowledged + 1) + &events(acknowledged + 1..=last)));
    connection.wait_for(last);
    server.wait(|server| server.seen.len() as u64 >= last);
    assert_eq!(server.seen, once(1..=last));
}

#[test]
fn what_waits_for_its_turn_is_not_acknowledged_before() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut server = Server::start(&dir);
    let mut connection = server.connect();
    connection.send("{\"jumpseat\":{\"source\":\"app\",\"ack\":true}}\n");
    connection.line();
    let gate = server.registry.gate(server.registry.source("app").expect("it is there"));
    gate.set(Settings { order_window: Duration::from_secs(50), ..Settings::default() });
    let at = |n: u64, sec: u64| format!("{{\"time\":{sec},\"n\":{n}}}\n");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("now").as_secs();
    connection.send(&(hello(1) + &at(1, now - 30) + &at(2, now - 40) + &at(3, now - 100)));
    connection.line();
    connection.send(&at(4, now - 10 + 60));
    connection.send("{\"jumpseat\":{\"sync\":1}}\n");
    let said = connection.line();
    assert!(said.contains("synced"), "nothing was acknowledged: {said}");
    drop(connection);
    // They are known, though they were not written.
    let mut again = server.connect();
    again.send(&(hello(1) + &events(1..=4)));
    again.send("{\"jumpseat\":{\"missed\":1}}\n");
    again.wait_for(4);
    server.wait(|server| server.seen.len() == 5);
    let mut numbers: Vec<u64> = server.seen.iter().map(|(n, _)| *n).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
    assert_eq!(server.repeated, 4);
}

#[test]
fn of_two_connections_of_a_sender_the_newer_stays() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut server = Server::start(&dir);
    let mut older = server.connect();
    older.send(&(hello(1) + &events(1..=3)));
    older.line();
    older.wait_for(3);
    let mut newer = server.connect();
    newer.send(&hello(4));
    assert_eq!(newer.line(), r#"{"jumpseat":{"known":3,"sender":"s"}}"#);
    let told = older.line();
    assert!(told.contains("another connection goes on as this sender"), "{told}");
    assert_eq!(older.line(), "", "it is closed");
    newer.send(&events(4..=4));
    newer.wait_for(4);
    server.wait(|server| server.seen.len() == 4);
    assert_eq!(server.seen, once(1..=4));
}

#[test]
fn frames_are_acknowledged_and_recognised() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut server = Server::start(&dir);
    for (next, known) in [(1u64, 0u64), (2, 3)] {
        let mut connection = server.connect();
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        encoder.source("app", &mut out).expect("a source");
        encoder.sender(b"s", next, &mut out);
        for n in next..next + 3 {
            let fields: [(&[u8], wire::encode::Value<'_>); 1] = [(b"n", wire::encode::Value::U64(n))];
            encoder.record(&Record { fields: &fields, ..Record::default() }, &mut out).expect("fits");
        }
        connection.stream.write_all(&out).expect("sent");
        let mut expected = Vec::new();
        wire::put_known(&mut expected, known);
        wire::put_committed(&mut expected, next + 2, true, 0);
        let mut said = vec![0; expected.len()];
        connection.reader.read_exact(&mut said).expect("answers");
        assert_eq!(said, expected);
    }
    server.wait(|server| server.seen.len() == 4);
    assert_eq!((server.seen.clone(), server.repeated), (once(1..=4), 2));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let server = Server::start(&dir);
    let long = "x".repeat(129);
    for (control, word) in [
        (r#"{"sender":"","next":1}"#.to_owned(), "1 to 128 bytes"),
        (format!(r#"{{"sender":"{long}"}}"#), "1 to 128 bytes"),
        (r#"{"sender":"a","next":0}"#.to_owned(), "numbered from 1 to 2^62"),
        (r#"{"sender":"a","next":18446744073709551615}"#.to_owned(), "numbered from 1 to 2^62"),
        (r#"{"next":7}"#.to_owned(), "without the `sender`"),
    ] {
        let mut connection = server.connect();
        connection.send(&format!("{{\"jumpseat\":{control}}}\n"));
        let end = connection.end();
        assert!(end.last().is_some_and(|end| end.contains(word)), "{control}: {end:?}");
    }
    let mut connection = server.connect();
    connection.send(&(hello(1) + &events(1..=1)));
    connection.send(&hello(1 << 40));
    let end = connection.end();
    assert!(end.last().is_some_and(|end| end.contains("more than 2^32 events left out")), "{end:?}");
}

#[test]
fn names_by_the_thousand_and_answers_never_read_harm_nobody_else() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut server = Server::start(&dir);
    let mut good = server.connect();
    good.send(&(hello(1) + &events(1..=1)));
    good.line();
    good.wait_for(1);
    let mut bad = server.connect();
    let flood: String =
        (0..3000).map(|n| format!("{{\"jumpseat\":{{\"sender\":\"id{n}\",\"next\":1}}}}\n")).collect();
    // It is closed when it has not read too much.
    let _ = bad.stream.write_all(flood.repeat(10).as_bytes());
    let unread = Arc::clone(&server.source.as_ref().expect("it runs").stats);
    while unread.unread.load(Ordering::Relaxed) == 0 {
        if bad.stream.write_all(flood.as_bytes()).is_err() {
            break;
        }
    }
    good.send(&events(2..=2));
    good.wait_for(2);
    server.wait(|server| server.seen.len() == 2);
    assert_eq!(server.seen, once(1..=2));
}
