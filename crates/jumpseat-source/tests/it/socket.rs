//! The socket source over real sockets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::ingest_support::Names;
use crossbeam_channel::bounded;
use jumpseat_source::StartError;
use jumpseat_source::delivery::{Delivery, Inlet, Tallies};
use jumpseat_source::registry::{Registry, RegistryConfig};
use jumpseat_source::socket::SocketSource;
use jumpseat_source::{Outlet, SocketConfig};
use jumpseat_wire as binary;
use jumpseat_wire::encode::{Encoder, Record};

struct Server {
    source: Option<SocketSource>,
    inlet: Inlet,
    names: Names,
    path: PathBuf,
    woken: crossbeam_channel::Receiver<()>,
    _dir: tempfile::TempDir,
}

impl Server {
    fn start(change: impl FnOnce(&mut SocketConfig)) -> Server {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("socket");
        let mut config = SocketConfig { path: path.clone(), ..SocketConfig::default() };
        change(&mut config);
        let (registry, definitions) = Registry::open(&RegistryConfig::new(400)).expect("registry");
        let (out, deliveries) = bounded(config.queue);
        let (wake, woken) = bounded(1);
        let wake = Arc::new(move || {
            let _ = wake.try_send(());
        });
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
        let inlet = Inlet::new(definitions, deliveries);
        Server { source: Some(source), inlet, names: Names::default(), path, woken, _dir: dir }
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.path).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("timeout");
        stream
    }

    /// The next delivery, waiting only for the wake-up.
    fn next(&mut self) -> Delivery {
        loop {
            let names = &mut self.names;
            if let Some(delivery) = self.inlet.take(|definition| names.define(definition)) {
                return delivery;
            }
            self.woken.recv_timeout(Duration::from_secs(20)).expect("a delivery wakes the core");
        }
    }

    /// Deliveries until this many events are received.
    fn collect(&mut self, events: u64) -> (Vec<Delivery>, Tallies) {
        let mut sum = Tallies::default();
        let mut all = Vec::new();
        while sum.received < events {
            let delivery = self.next();
            sum.received += delivery.tallies.received;
            sum.truncated += delivery.tallies.truncated;
            all.push(delivery);
        }
        (all, sum)
    }
}

/// Everything the server says until it closes.
fn answers(mut stream: UnixStream) -> String {
    stream.shutdown(Shutdown::Write).expect("shutdown");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("the summary");
    text
}

#[test]
fn lines_arrive_while_the_connection_stays_open_and_the_end_is_answered() {
    let mut server = Server::start(|_| ());
    let mut stream = server.connect();
    stream
        .write_all(b"{\"jumpseat\":{\"source\":\"app\",\"ack\":true}}\n{\"type\":\"a\",\"n\":1}\n{\"n\"")
        .expect("sent");
    let mut hello = String::new();
    BufReader::new(&stream).read_line(&mut hello).expect("an answer");
    assert!(hello.contains("\"source\":\"app\""), "{hello}");
    let first = server.next();
    assert_eq!(server.names.source(first.source), "app");
    let records = server.names.records(&first.batch);
    assert_eq!(records.len(), 1);
    assert!(records[0].ends_with("point {type \"a\", n 1}"), "{}", records[0]);
    let peer = first.peer.expect("the kernel knows");
    assert_eq!(peer.pid as u32, std::process::id());

    stream.write_all(b":2}\nbad\n\n{\"n\":3}").expect("sent");
    assert_eq!(
        answers(stream),
        "{\"accepted\":3,\"first_error\":{\"column\":1,\"detail\":\"expected an object: {\",\"line\":4,\
         \"reason\":\"syntax\"},\"missed\":0,\"rejected\":1,\"truncated\":0}\n"
    );
    assert_eq!(server.collect(2).1.received, 2);
}

#[test]
fn many_connections_at_once_keep_their_order_and_nothing_is_lost() {
    const SENDERS: usize = 50;
    const EACH: u64 = 2000;
    let mut server = Server::start(|config| config.patience_ms = 1000);
    let senders: Vec<_> = (0..SENDERS)
        .map(|sender| {
            let mut stream = server.connect();
            std::thread::spawn(move || {
                if sender % 2 == 0 {
                    let mut text = format!("{{\"jumpseat\":{{\"source\":\"s{sender}\"}}}}\n");
                    for n in 0..EACH {
                        text.push_str(&format!(
                            "{{\"time\":{n},\"message\":\"{}\"}}\n",
                            "m".repeat(n as usize % 90)
                        ));
                    }
                    stream.write_all(text.as_bytes()).expect("sent");
                    assert!(answers(stream).contains("\"accepted\":2000,"));
                    return;
                }
                let mut out = Vec::new();
                let mut encoder = Encoder::new(&mut out);
                encoder.source(&format!("s{sender}"), &mut out).expect("a name");
                for n in 0..EACH {
                    let time = Some(n as i64 * 1_000_000_000);
                    encoder.record(&Record { time, ..Record::default() }, &mut out).expect("encodes");
                }
                stream.write_all(&out).expect("sent");
                stream.shutdown(Shutdown::Write).expect("shutdown");
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer).expect("the summary");
                let (kind, payload, _) = binary::frame(&answer).expect("a frame");
                assert_eq!(kind, binary::SUMMARY);
                assert!(String::from_utf8_lossy(payload).contains("\"accepted\":2000,"));
            })
        })
        .collect();
    let mut next = vec![0u64; SENDERS];
    let (deliveries, sum) = server.collect(SENDERS as u64 * EACH);
    assert_eq!(sum.received, SENDERS as u64 * EACH);
    for delivery in deliveries {
        assert_eq!(delivery.missed, None);
        let sender: usize = server.names.source(delivery.source)[1..].parse().expect("a number");
        for record in server.names.records(&delivery.batch) {
            assert!(record.starts_with(&format!("{}.000000000 ", next[sender])), "{record}");
            next[sender] += 1;
        }
    }
    assert!(next.iter().all(|n| *n == EACH));
    for sender in senders {
        sender.join().expect("the sender is content");
    }
}

#[test]
fn a_core_that_does_not_take_loses_records_but_none_uncounted() {
    const EVENTS: u64 = 60_000;
    let mut server = Server::start(|config| {
        config.queue = 2;
        config.patience_ms = 0;
    });
    let mut stream = server.connect();
    stream
        .write_all("{\"time\":7,\"a\":1}\n".repeat(EVENTS as usize).as_bytes())
        .expect("never blocks for good");
    let summary: serde_json::Value = serde_json::from_str(&answers(stream)).expect("JSON");
    let (deliveries, sum) = server.collect(EVENTS);
    assert_eq!(sum.received, EVENTS);
    let kept: u64 = deliveries.iter().map(|delivery| delivery.batch.len() as u64).sum();
    let missed: u64 = deliveries.iter().filter_map(|delivery| delivery.missed).map(|loss| loss.count).sum();
    assert!(missed > 0, "two batches of 64 KiB do not hold them");
    assert_eq!(kept + missed, EVENTS);
    assert_eq!((&summary["accepted"], &summary["missed"]), (&EVENTS.into(), &missed.into()));
}

#[test]
fn sync_is_answered_after_the_hand_over() {
    let mut server = Server::start(|_| ());
    let mut stream = server.connect();
    stream.write_all(b"{}\n{}\n{\"jumpseat\":{\"sync\":5}}\n").expect("sent");
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).expect("an answer");
    assert_eq!(line, "{\"jumpseat\":{\"accepted\":2,\"missed\":0,\"rejected\":0,\"synced\":5}}\n");
    let names = &mut server.names;
    let delivery = server.inlet.take(|definition| names.define(definition)).expect("handed over before");
    assert_eq!(delivery.batch.len(), 2);
}

#[test]
fn connections_are_bounded_and_freed() {
    let server = Server::start(|config| config.max_connections = 2);
    let stats = Arc::clone(&server.source.as_ref().expect("running").stats);
    let first = server.connect();
    let mut second = server.connect();
    // Answered, so both are admitted.
    second.write_all(b"{\"jumpseat\":{\"sync\":1}}\n").expect("sent");
    BufReader::new(&second).read_line(&mut String::new()).expect("an answer");
    let mut text = String::new();
    server.connect().read_to_string(&mut text).expect("told");
    assert_eq!(text, "{\"error\":\"too many connections\"}\n");
    drop(first);
    let start = Instant::now();
    while stats.connections.load(Ordering::Relaxed) > 1 {
        assert!(start.elapsed() < Duration::from_secs(20), "the slot is freed");
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(answers(server.connect()).starts_with("{\"accepted\":0,"));
    assert_eq!(stats.refused.load(Ordering::Relaxed), 1);
}

#[test]
fn a_client_that_never_reads_is_dropped() {
    let server = Server::start(|_| ());
    let stats = Arc::clone(&server.source.as_ref().expect("running").stats);
    let mut stream = server.connect();
    let asks = "{\"jumpseat\":{\"sync\":1}}\n".repeat(1000);
    let gone = (0..1000).any(|_| stream.write_all(asks.as_bytes()).is_err());
    assert!(gone, "the server does not keep a megabyte of answers");
    assert_eq!(stats.unread.load(Ordering::Relaxed), 1);
}

#[test]
fn a_client_that_closes_without_reading_is_still_counted() {
    let mut server = Server::start(|_| ());
    let mut stream = server.connect();
    stream.write_all("{\"jumpseat\":{\"sync\":1}}\n{\"a\":1}\n".repeat(500).as_bytes()).expect("sent");
    drop(stream);
    assert_eq!(server.collect(500).1.received, 500);
}

#[test]
fn oversized_lines_do_not_take_memory_or_their_neighbours() {
    let mut server = Server::start(|config| config.max_line = 1000);
    let mut stream = server.connect();
    let monster = vec![b'x'; 3_000_000];
    stream.write_all(b"{\"n\":1}\n").expect("sent");
    stream.write_all(&monster).expect("sent");
    stream.write_all(b"\n{\"n\":2}\n").expect("sent");
    let summary: serde_json::Value = serde_json::from_str(&answers(stream)).expect("JSON");
    assert_eq!((&summary["accepted"], &summary["rejected"]), (&2.into(), &1.into()));
    assert_eq!(summary["first_error"]["reason"], "oversize_line");
    assert_eq!(server.collect(2).1.received, 2);
}

#[test]
fn stopping_removes_the_socket_and_a_second_one_is_refused() {
    let mut server = Server::start(|_| ());
    let config = SocketConfig { path: server.path.clone(), ..SocketConfig::default() };
    let start = |config: &SocketConfig| {
        let (registry, _definitions) = Registry::open(&RegistryConfig::new(400)).expect("registry");
        let (out, wake) = (bounded(1).0, Arc::new(|| ()));
        SocketSource::start(
            config,
            &Outlet {
                series: Default::default(),
                registry,
                out,
                wake,
                state_dir: None,
                restarts: Arc::default(),
                kept: Default::default(),
                starting: Default::default(),
            },
        )
    };
    let error = start(&config).expect_err("in use").to_string();
    assert!(error.contains("another process listens there"), "{error}");
    let error = start(&SocketConfig { max_line: 1, ..config.clone() }).expect_err("out of range");
    assert!(matches!(error, StartError::Config(_)), "{error}");
    server.source = None;
    assert!(!server.path.exists());
    drop(start(&config).expect("free again"));
}
