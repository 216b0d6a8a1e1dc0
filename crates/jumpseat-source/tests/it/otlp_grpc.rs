//! OTLP over gRPC on real sockets: what is answered, and what clients that mean no good come to.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::ingest_support::Names;
use crate::otlp_support::{Message, logs, span, traces};
use bytes::Bytes;
use crossbeam_channel::bounded;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::Request;
use jumpseat_source::delivery::{Inlet, Tallies};
use jumpseat_source::otlp::{OtlpConfig, OtlpSource as GrpcSource, OtlpStats};
use jumpseat_source::registry::{Registry, RegistryConfig};
use jumpseat_source::{Outlet, Reason};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::Span;

/// Said in each call, and known to servers that are told of it.
const SECRET: &str = "correct-horse-staple";
const TRACES: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
const LOGS: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
const PROFILES: &str = "/opentelemetry.proto.collector.profiles.v1.ProfilesService/Export";
const METRICS: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

struct Server {
    source: GrpcSource,
    stats: Arc<OtlpStats>,
    inlet: Inlet,
    names: Names,
    sum: Tallies,
}

impl Server {
    fn start(change: impl FnOnce(&mut OtlpConfig)) -> Server {
        let mut config = OtlpConfig { grpc: Some("localhost:0".to_owned()), ..OtlpConfig::default() };
        change(&mut config);
        let (registry, definitions) = Registry::open(&RegistryConfig::new(400)).expect("registry");
        let (out, deliveries) = bounded(config.queue);
        let outlet = Outlet {
            series: Default::default(),
            registry,
            out,
            wake: Arc::new(|| ()),
            state_dir: None,
            restarts: Arc::default(),
            kept: Default::default(),
            starting: Default::default(),
        };
        let stats = Arc::new(OtlpStats::default());
        let source = GrpcSource::start(&config, &outlet, &stats).expect("starts");
        let inlet = Inlet::new(definitions, deliveries);
        Server { source, stats, inlet, names: Names::default(), sum: Tallies::default() }
    }

    fn address(&self) -> SocketAddr {
        self.source.addresses[0]
    }

    /// Waits for what the core gets and for counters.
    fn wait(&mut self, what: &str, mut enough: impl FnMut(&OtlpStats, &Tallies) -> bool) {
        let start = Instant::now();
        loop {
            let names = &mut self.names;
            while let Some(delivery) = self.inlet.take(|definition| names.define(definition)) {
                names.records(&delivery.batch);
                self.sum.received += delivery.tallies.received;
                for (total, count) in self.sum.rejected.iter_mut().zip(delivery.tallies.rejected) {
                    *total += count;
                }
            }
            if enough(&self.stats, &self.sum) {
                return;
            }
            assert!(start.elapsed() < Duration::from_secs(30), "{what}: {:?} {:?}", self.stats, self.sum);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Makes calls on one connection, one after the other.
    fn calls(&self, calls: &[(&str, &str, Vec<u8>)]) -> Vec<Answer> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect(self.address()).await.expect("connects");
            let (mut client, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
            let connection = tokio::spawn(connection);
            let mut answers = Vec::new();
            for (path, encoding, body) in calls {
                client = client.ready().await.expect("ready");
                answers.push(call(&mut client, path, encoding, body).await);
            }
            drop(client);
            connection.await.expect("no panic").expect("a clean end");
            answers
        })
    }

    fn call(&self, path: &str, encoding: &str, body: Vec<u8>) -> Answer {
        self.calls(&[(path, encoding, body)]).pop().expect("one answer")
    }
}

#[derive(Debug)]
struct Answer {
    code: u32,
    text: String,
    /// `grpc-status-details-bin`.
    details: String,
    body: Vec<u8>,
}

async fn call(
    client: &mut h2::client::SendRequest<Bytes>,
    path: &str,
    encoding: &str,
    body: &[u8],
) -> Answer {
    let request = Request::post(format!("http://localhost{path}"))
        .header("authorization", format!("Bearer {SECRET}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-encoding", encoding)
        .body(())
        .expect("a request");
    let (response, mut send) = client.send_request(request, false).expect("sent");
    let mut rest = Bytes::copy_from_slice(body);
    // As much as the server lets, until it answers.
    let sending = async move {
        while !rest.is_empty() {
            send.reserve_capacity(rest.len().min(100_000));
            match std::future::poll_fn(|context| send.poll_capacity(context)).await {
                Some(Ok(room)) if send.send_data(rest.split_to(room.min(rest.len())), false).is_ok() => {}
                _ => return,
            }
        }
        let _ = send.send_data(Bytes::new(), true);
    };
    let sending = tokio::spawn(sending);
    let response = response.await.expect("an answer");
    let (head, mut data) = response.into_parts();
    let mut body = Vec::new();
    while let Some(Ok(bytes)) = data.data().await {
        let _ = data.flow_control().release_capacity(bytes.len());
        body.extend_from_slice(&bytes);
    }
    let trailers = data.trailers().await.ok().flatten().unwrap_or_default();
    sending.await.expect("no panic");
    let get = |name| trailers.get(name).or(head.headers.get(name)).and_then(|value| value.to_str().ok());
    Answer {
        code: get("grpc-status").and_then(|text| text.parse().ok()).expect("a status"),
        text: get("grpc-message").unwrap_or_default().to_owned(),
        details: get("grpc-status-details-bin").unwrap_or_default().to_owned(),
        body,
    }
}

fn message(compressed: u8, body: &[u8]) -> Vec<u8> {
    [&[compressed][..], &(body.len() as u32).to_be_bytes(), body].concat()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("to memory");
    encoder.finish().expect("to memory")
}

fn spans(number: u8) -> Vec<u8> {
    traces("shop", (1..=number).map(span).collect()).encode_to_vec()
}

#[test]
fn who_does_not_know_the_token_calls_nothing() {
    let file = tempfile::NamedTempFile::new().expect("temporary file");
    std::fs::write(file.path(), "correct-horse-battery\n").expect("written");
    let mut server = Server::start(|config| config.token_file = Some(file.path().to_owned()));
    let answer =
        server.call("/opentelemetry.proto.collector.trace.v1.TraceService/Export", "identity", Vec::new());
    assert_eq!(answer.code, 16, "{answer:?}");
    assert!(answer.text.contains("otlp.token_file"), "{answer:?}");
    server.wait("it is counted", |_, tallies| tallies.rejected[Reason::Protocol as usize] == 1);
}

#[test]
fn who_has_sent_too_much_with_a_token_is_told_when_to_send_again() {
    let file = tempfile::NamedTempFile::new().expect("temporary file");
    std::fs::write(file.path(), format!("shop {SECRET} bytes=1KiB\n")).expect("written");
    let mut server = Server::start(|config| config.token_file = Some(file.path().to_owned()));
    // A debt of a minute and more.
    let large = message(0, &traces(&"x".repeat(100_000), vec![span(1)]).encode_to_vec());
    let answers = server.calls(&[(TRACES, "identity", large), (TRACES, "identity", message(0, &spans(1)))]);
    assert_eq!((answers[0].code, answers[1].code), (0, 8), "{answers:?}");
    // "type.googleapis.com/google.rpc.RetryInfo" is in it.
    assert!(!answers[1].details.is_empty() && answers[0].details.is_empty(), "{answers:?}");
    assert!(answers[1].text.contains("send it again later"), "{answers:?}");
    server.wait("it is counted", |stats, _| stats.over_limit.load(Ordering::Relaxed) == 1);
}

#[test]
fn spans_and_logs_plain_and_compressed_on_one_connection() {
    let mut server = Server::start(|_| ());
    let log = logs("shop", vec![LogRecord::default()]).encode_to_vec();
    let bad = traces("shop", vec![span(1), Span { span_id: Vec::new(), ..span(2) }]).encode_to_vec();
    let answers = server.calls(&[
        (TRACES, "identity", message(0, &spans(10))),
        (TRACES, "gzip", message(1, &gzip(&spans(10)))),
        (TRACES, "gzip", message(0, &spans(10))),
        (LOGS, "identity", message(0, &log)),
        (TRACES, "identity", message(0, &bad)),
        (TRACES, "identity", message(0, b"")),
        // A gauge with a point, five messages deep.
        (METRICS, "identity", message(0, b"\x0a\x08\x12\x06\x12\x04\x2a\x02\x0a\x00")),
    ]);
    assert!(answers.iter().all(|answer| answer.code == 0), "{answers:?}");
    let response = ExportTraceServiceResponse::decode(&answers[6].body[5..]).expect("of the same fields");
    let partial = response.partial_success.expect("not all");
    assert_eq!(partial.rejected_spans, 1);
    assert!(partial.error_message.contains("a point without a value"), "{partial:?}");
    for all in [0, 1, 2, 3, 5] {
        assert_eq!(answers[all].body, [0, 0, 0, 0, 0]);
    }
    let response = ExportTraceServiceResponse::decode(&answers[4].body[5..]).expect("a response");
    assert_eq!(response.partial_success.expect("not all").rejected_spans, 1);
    server.wait("all is there", |stats, sum| {
        sum.received == 3 * 20 + 1 + 2
            && sum.rejected[Reason::Body as usize] == 1
            && stats.requests.load(Ordering::Relaxed) == 7
            && stats.connections.load(Ordering::Relaxed) == 0
            && stats.memory.load(Ordering::Relaxed) == 0
    });
}

#[test]
fn what_cannot_be_served_is_refused_with_a_status_and_counted() {
    let mut server = Server::start(|config| {
        config.max_body = 100_000;
        config.max_decompressed = 1_000_000;
    });
    let bomb = gzip(&vec![0; 50 << 20]);
    let calls = [
        (PROFILES, "identity", message(0, b""), 12, Reason::Protocol),
        (TRACES, "zstd", message(0, b""), 12, Reason::Protocol),
        (TRACES, "identity", message(1, &gzip(b"")), 3, Reason::Protocol),
        (TRACES, "identity", vec![0, 0, 0], 3, Reason::Protocol),
        (TRACES, "identity", vec![0, 0, 0, 0, 9, 1], 3, Reason::Protocol),
        (TRACES, "identity", message(0, b"\xff\xff"), 3, Reason::Body),
        (TRACES, "gzip", message(1, b"no gzip"), 3, Reason::Compression),
        (TRACES, "gzip", message(1, &bomb), 8, Reason::OversizeLine),
        (TRACES, "identity", message(0, &vec![0; 3_000_000]), 8, Reason::OversizeLine),
    ];
    let mut expected = [0; Reason::COUNT];
    for (path, encoding, body, code, reason) in calls {
        let answer = server.call(path, encoding, body);
        assert_eq!(answer.code, code, "{path} {encoding}: {answer:?}");
        assert!(!answer.text.is_empty());
        expected[reason as usize] += 1;
    }
    // What is not HTTP/2 at all.
    for bytes in
        [&b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"[..], &[0xff; 100]]
    {
        let mut stream = TcpStream::connect(server.address()).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("timeout");
        stream.write_all(bytes).expect("sent");
        // The server closes, with or without a word.
        let _ = stream.read_to_end(&mut Vec::new());
        expected[Reason::Protocol as usize] += 1;
    }
    server.wait("all are counted", |stats, sum| {
        sum.rejected == expected && stats.memory.load(Ordering::Relaxed) == 0
    });
    assert_eq!(server.call(TRACES, "identity", message(0, &spans(1))).code, 0);
}

#[test]
fn slow_clients_too_many_of_them_and_an_agent_that_is_behind() {
    let mut server = Server::start(|config| {
        config.timeout_ms = 2000;
        config.max_connections = 2;
        config.queue = 1;
        config.patience_ms = 1;
    });
    let silent: Vec<TcpStream> =
        (0..2).map(|_| TcpStream::connect(server.address()).expect("connects")).collect();
    server.wait("both", |stats, _| stats.connections.load(Ordering::Relaxed) == 2);
    let mut third = TcpStream::connect(server.address()).expect("connects");
    third.set_read_timeout(Some(Duration::from_secs(30))).expect("timeout");
    let mut rest = Vec::new();
    let _ = third.read_to_end(&mut rest);
    assert!(rest.is_empty());
    assert_eq!(server.stats.turned_away.load(Ordering::Relaxed), 1);
    server.wait("they are too slow", |stats, _| {
        stats.slow.load(Ordering::Relaxed) == 2 && stats.connections.load(Ordering::Relaxed) == 0
    });
    drop(silent);
    // Fill the channel, which nobody empties now.
    let codes: Vec<u32> =
        (0..5).map(|_| server.call(TRACES, "identity", message(0, &spans(1))).code).collect();
    assert_eq!(codes.last(), Some(&14), "{codes:?}");
    let taken = codes.iter().filter(|code| **code == 0).count() as u64;
    server.wait("those that were taken", |_, sum| sum.received == 2 * taken);
    assert_eq!(server.call(TRACES, "identity", message(0, &spans(1))).code, 0);
}
