//! OTLP over HTTP on real sockets: what is answered, and what clients that mean no good come to.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::ingest_support::Names;
use crate::otlp_support::{Message, span, traces};
use crossbeam_channel::bounded;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use jumpseat_source::delivery::{Inlet, Tallies};
use jumpseat_source::otlp::{OtlpConfig, OtlpSource, OtlpStats};
use jumpseat_source::registry::{Registry, RegistryConfig};
use jumpseat_source::{Outlet, Reason};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_proto::tonic::trace::v1::Span;

const PROTOBUF: &str = "Content-Type: application/x-protobuf\r\n";
const JSON: &str = "Content-Type: application/json\r\n";

/// A `google.rpc.Status`.
#[derive(Clone, PartialEq, prost::Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
}

struct Server {
    source: Option<OtlpSource>,
    stats: Arc<OtlpStats>,
    inlet: Inlet,
    names: Names,
    sum: Tallies,
    deliveries: u64,
}

impl Server {
    fn start(change: impl FnOnce(&mut OtlpConfig)) -> Server {
        let mut config = OtlpConfig { listen: Some("localhost:0".to_owned()), ..OtlpConfig::default() };
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
        let source = OtlpSource::start(&config, &outlet, &stats).expect("starts");
        let inlet = Inlet::new(definitions, deliveries);
        Server {
            source: Some(source),
            stats,
            inlet,
            names: Names::default(),
            sum: Tallies::default(),
            deliveries: 0,
        }
    }

    fn address(&self) -> SocketAddr {
        self.source.as_ref().expect("runs").addresses[0]
    }

    fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.address()).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("timeout");
        Client { stream, rest: Vec::new() }
    }

    /// What the core has got so far, added up.
    fn tallies(&mut self) -> &Tallies {
        let names = &mut self.names;
        while let Some(delivery) = self.inlet.take(|definition| names.define(definition)) {
            names.records(&delivery.batch);
            self.deliveries += 1;
            self.sum.received += delivery.tallies.received;
            for (total, count) in self.sum.rejected.iter_mut().zip(delivery.tallies.rejected) {
                *total += count;
            }
        }
        &self.sum
    }

    /// A connection to a server that has handed over all it had to tell at the start.
    fn connect_first(&mut self) -> Client {
        let client = self.connect();
        let start = Instant::now();
        while self.deliveries == 0 {
            assert!(start.elapsed() < Duration::from_secs(30), "nothing is handed over");
            self.tallies();
        }
        client
    }

    /// Waits for a counter, taking what arrives meanwhile.
    fn wait(&mut self, what: &str, mut enough: impl FnMut(&OtlpStats, &Tallies) -> bool) {
        let start = Instant::now();
        let stats = Arc::clone(&self.stats);
        while !enough(&stats, self.tallies()) {
            assert!(start.elapsed() < Duration::from_secs(30), "{what}: {stats:?} {:?}", self.sum);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

struct Client {
    stream: TcpStream,
    /// Read, but not used yet.
    rest: Vec<u8>,
}

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn refusal(&self) -> Status {
        assert!(self.head.contains("content-type: application/x-protobuf"), "{self:?}");
        Status::decode(&self.body[..]).expect("a google.rpc.Status")
    }
}

impl Client {
    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("sent");
    }

    fn post(&mut self, path: &str, headers: &str, body: &[u8]) -> Answer {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {}\r\n\r\n",
            body.len()
        );
        self.send(head.as_bytes());
        // A client that is refused early may find the connection closed.
        let _ = self.stream.write_all(body);
        self.answer()
    }

    /// Reads one answer.
    fn answer(&mut self) -> Answer {
        self.try_answer().expect("an answer")
    }

    /// Reads one answer, if there is one before the end.
    fn try_answer(&mut self) -> Option<Answer> {
        loop {
            if let Some(end) = self.rest.windows(4).position(|window| window == b"\r\n\r\n") {
                let head = String::from_utf8(self.rest[..end + 2].to_vec()).expect("ASCII").to_lowercase();
                let status = head[9..12].parse().expect("a status");
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let length: usize = length.map_or(0, |text| text.parse().expect("a number"));
                if self.rest.len() >= end + 4 + length {
                    let body = self.rest[end + 4..end + 4 + length].to_vec();
                    self.rest.drain(..end + 4 + length);
                    return Some(Answer { status, head, body });
                }
            }
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(read) => self.rest.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Whether the server closes the connection, now that all it had to say is read.
    fn ends(&mut self) -> bool {
        self.try_answer().is_none()
    }
}

fn spans(number: u8) -> Vec<u8> {
    traces("shop", (1..=number).map(span).collect()).encode_to_vec()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("to memory");
    encoder.finish().expect("to memory")
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("to memory");
    encoder.finish().expect("to memory")
}

#[test]
fn every_way_to_send_on_one_connection() {
    let mut server = Server::start(|_| ());
    let mut client = server.connect();
    let body = spans(10);
    let answer = client.post("/v1/traces", PROTOBUF, &body);
    assert_eq!((answer.status, &answer.body[..]), (200, &b""[..]));
    assert!(answer.head.contains("content-type: application/x-protobuf"), "{answer:?}");
    for (encoding, body) in [("gzip", gzip(&body)), ("deflate", zlib(&body))] {
        let headers = format!("{PROTOBUF}Content-Encoding: {encoding}\r\n");
        assert_eq!(client.post("/v1/traces", &headers, &body).status, 200);
    }
    let json = r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"1"}]}]}]}"#;
    let answer = client.post("/v1/logs", JSON, json.as_bytes());
    assert_eq!((answer.status, &answer.body[..]), (200, &b"{}"[..]));
    assert!(answer.head.contains("content-type: application/json"), "{answer:?}");

    // In chunks, after having asked.
    let head =
        "POST /v1/traces HTTP/1.1\r\nContent-Type: application/x-protobuf\r\nTransfer-Encoding: chunked\r\n";
    client.send(format!("{head}Expect: 100-continue\r\n\r\n").as_bytes());
    assert_eq!(client.answer().status, 100);
    for chunk in body.chunks(100) {
        client.send(format!("{:x}\r\n", chunk.len()).as_bytes());
        client.send(chunk);
        client.send(b"\r\n");
    }
    client.send(b"0\r\n\r\n");
    assert_eq!(client.answer().status, 200);

    // Two at once, the second the last.
    let head = format!("POST /v1/traces HTTP/1.1\r\n{PROTOBUF}Content-Length: {}\r\n", body.len());
    let mut two = format!("{head}\r\n").into_bytes();
    two.extend_from_slice(&body);
    two.extend_from_slice(format!("{head}Connection: close\r\n\r\n").as_bytes());
    two.extend_from_slice(&body);
    client.send(&two);
    assert_eq!((client.answer().status, client.answer().status), (200, 200));
    assert!(client.ends());

    server.wait("all is there", |_, sum| sum.received == 6 * 20 + 1);
    assert_eq!(server.tallies().rejected_total(), 0);
    assert_eq!(server.stats.requests.load(Ordering::Relaxed), 7);
    assert_eq!(server.stats.refused.load(Ordering::Relaxed), 0);
    server.wait("the connection's end", |stats, _| stats.connections.load(Ordering::Relaxed) == 0);
}

#[test]
fn partial_success_tells_how_many_and_why() {
    let mut server = Server::start(|_| ());
    let mut client = server.connect();
    let bad = Span { span_id: Vec::new(), ..span(2) };
    let body = traces("shop", vec![span(1), bad.clone(), bad]).encode_to_vec();
    let answer = client.post("/v1/traces", PROTOBUF, &body);
    assert_eq!(answer.status, 200);
    let response = ExportTraceServiceResponse::decode(&answer.body[..]).expect("a response");
    let partial = response.partial_success.expect("not all");
    assert_eq!(partial.rejected_spans, 2);
    assert!(partial.error_message.starts_with("2 of 3 spans refused; the first: byte "), "{partial:?}");
    assert!(partial.error_message.contains("a span whose id is not 8 bytes"), "{partial:?}");
    // The second and the third have values of other types than theirs; those around them are taken in.
    let good = |id: u8| {
        format!(
            r#"{{"traceId":"{0}","spanId":"{1}","name":"s","startTimeUnixNano":1795180566000000000}}"#,
            "ab".repeat(16),
            format!("{id:02x}").repeat(8)
        )
    };
    let json = format!(
        r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{},{},{},{}]}}]}}]}}"#,
        good(1),
        good(2).replace("ab", "xy"),
        good(3).replace(r#""s""#, "7"),
        good(4)
    );
    let answer = client.post("/v1/traces", JSON, json.as_bytes());
    let text = String::from_utf8(answer.body).expect("JSON");
    assert!(text.contains(r#""rejectedSpans":"2""#), "{text}");
    let first = "[1]: traceId: this text, expected an id in hexadecimal digits";
    assert!(text.contains(&format!("2 of 4 spans refused; the first: {first}")), "{text}");
    server.wait("the counts", |_, sum| sum.rejected[Reason::Syntax as usize] == 2 && sum.received == 6);
    let json = r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"x"}]}]}]}"#;
    let answer = client.post("/v1/traces", JSON, json.as_bytes());
    let text = String::from_utf8(answer.body).expect("JSON");
    assert!(text.contains(r#""partialSuccess":{"#) && text.contains(r#""rejectedSpans":"1""#), "{text}");
    server.wait("the counts", |_, sum| sum.rejected[Reason::Body as usize] == 3 && sum.received == 6);
}

#[test]
fn what_cannot_be_served_is_refused_with_a_status_and_counted() {
    let mut server = Server::start(|config| {
        config.max_body = 100_000;
        config.max_decompressed = 1_000_000;
    });
    let bomb = gzip(&vec![0; 50 << 20]);
    let gzipped = format!("{PROTOBUF}Content-Encoding: gzip\r\n");
    type Case<'a> = (&'a str, &'a str, &'a [u8], u16, i32, Reason);
    let cases: [Case<'_>; 10] = [
        ("/", PROTOBUF, b"", 404, 12, Reason::Protocol),
        ("/v1/traces", "Content-Type: text/plain\r\n", b"", 415, 3, Reason::Protocol),
        ("/v1/traces", &format!("{PROTOBUF}Content-Encoding: br\r\n"), b"", 415, 3, Reason::Protocol),
        ("/v1/traces", PROTOBUF, &[0; 200_000], 413, 8, Reason::OversizeLine),
        ("/v1/traces", &gzipped, &bomb, 413, 8, Reason::OversizeLine),
        ("/v1/traces", &gzipped, b"no gzip", 400, 3, Reason::Compression),
        ("/v1/traces", PROTOBUF, b"\xff\xff", 400, 3, Reason::Body),
        ("/v1/logs", PROTOBUF, &spans(1)[..20], 400, 3, Reason::Body),
        ("/v1/traces", "Transfer-Encoding: chunked\r\n", b"", 415, 3, Reason::Protocol),
        ("/v1/traces", PROTOBUF, &[0xff; 99_999], 400, 3, Reason::Body),
    ];
    let number = cases.len() as u64;
    let mut expected = [0; Reason::COUNT];
    for (path, headers, body, status, code, reason) in cases {
        let answer = server.connect().post(path, headers, body);
        assert_eq!((answer.status, answer.refusal().code), (status, code), "{path} {headers}: {answer:?}");
        assert!(!answer.refusal().message.is_empty());
        expected[reason as usize] += 1;
    }
    let answer = server.connect().post("/v1/traces", JSON, b"{\"resourceSpans\":\n[5]}");
    expected[Reason::Syntax as usize] += 1;
    let text = String::from_utf8(answer.body).expect("JSON");
    assert!(answer.status == 400 && text.contains("resourceSpans: [0]: 5, expected an object"), "{text}");
    let mut client = server.connect();
    client.send(b"\x16\x03\x01\x02\x00");
    assert!(client.answer().refusal().message.contains("TLS"));
    expected[Reason::Protocol as usize] += 1;
    let mut client = server.connect();
    client.send(b"GET /v1/traces HTTP/1.1\r\n\r\n");
    assert!(client.answer().head.contains("allow: post"));
    expected[Reason::Protocol as usize] += 1;
    server.wait("all are counted", |stats, sum| {
        sum.rejected == expected && stats.refused.load(Ordering::Relaxed) == number + 3
    });

    // Malformed bodies do not cost the connection.
    let mut client = server.connect();
    assert_eq!(client.post("/v1/traces", PROTOBUF, b"\xff").status, 400);
    assert_eq!(client.post("/v1/traces", PROTOBUF, &spans(1)).status, 200);
}

#[test]
fn what_a_web_page_has_a_browser_send_is_refused() {
    let mut server = Server::start(|config| config.hosts = vec!["collector.example".to_owned()]);
    let send = |server: &Server, headers: &str| {
        let body = spans(1);
        let head =
            format!("POST /v1/traces HTTP/1.1\r\n{headers}{PROTOBUF}Content-Length: {}\r\n\r\n", body.len());
        let mut client = server.connect();
        client.send(&[head.as_bytes(), &body].concat());
        client.answer()
    };
    for (headers, told) in [
        ("Host: localhost\r\nOrigin: http://evil.example\r\n", "the Origin is of no web page that may send"),
        ("Host: evil.example:4318\r\n", "the Host is no name of this machine"),
    ] {
        let answer = send(&server, headers);
        assert!(answer.status == 403 && answer.refusal().message.contains(told), "{answer:?}");
    }
    for headers in ["", "Host: localhost:4318\r\n", "Host: 127.0.0.1\r\n", "Host: collector.example\r\n"] {
        assert_eq!(send(&server, headers).status, 200, "{headers}");
    }
    server.wait("both are counted", |_, sum| sum.rejected[Reason::Protocol as usize] == 2);
}

#[test]
fn a_web_page_of_a_known_origin_may_send() {
    let server = Server::start(|config| config.origins = vec!["https://shop.example".to_owned()]);
    let exchange = |method: &str, headers: &str, body: &[u8]| {
        let head = format!(
            "{method} /v1/traces HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {}\r\n\r\n",
            body.len()
        );
        let mut client = server.connect();
        client.send(&[head.as_bytes(), body].concat());
        client.answer()
    };
    let asks = "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Private-Network: true\r\n";
    let answer = exchange("OPTIONS", &format!("Origin: https://shop.example\r\n{asks}"), b"");
    assert_eq!(answer.status, 204, "{answer:?}");
    for header in [
        "access-control-allow-origin: https://shop.example\r\n",
        "access-control-allow-methods: post\r\n",
        "access-control-allow-headers: authorization, content-encoding, content-type\r\n",
        "access-control-allow-private-network: true\r\n",
        "vary: origin\r\n",
    ] {
        assert!(answer.head.contains(header), "{header}: {answer:?}");
    }
    let ours = format!("Origin: https://shop.example\r\n{PROTOBUF}");
    let answer = exchange("POST", &ours, &spans(1));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.head.contains("access-control-allow-origin: https://shop.example\r\n"), "{answer:?}");
    // A refusal can be read by the page, too.
    let answer = exchange("POST", &ours, b"\xff");
    assert_eq!(answer.status, 400, "{answer:?}");
    assert!(answer.head.contains("access-control-allow-origin:"), "{answer:?}");
    for origin in ["https://evil.example", "https://shop.example.evil.example", "null", "http://shop.example"]
    {
        let answer = exchange("POST", &format!("Origin: {origin}\r\n{PROTOBUF}"), &spans(1));
        assert!(answer.status == 403 && !answer.head.contains("access-control"), "{origin}: {answer:?}");
        let answer = exchange("OPTIONS", &format!("Origin: {origin}\r\n{asks}"), b"");
        assert!(answer.status == 405 && !answer.head.contains("access-control"), "{origin}: {answer:?}");
    }
}

#[test]
fn points_without_a_value_are_refused_with_success_and_the_reason() {
    let server = Server::start(|_| ());
    let mut client = server.connect();
    let field = |number: u8, inner: &[u8]| [&[number << 3 | 2, inner.len() as u8], inner].concat();
    // Three points of a gauge (field 5 of a Metric).
    let metric = field(5, &field(1, b"").repeat(3));
    let body = field(1, &field(2, &field(2, &metric)));
    for round in 1..=2 {
        let answer = client.post("/v1/metrics", PROTOBUF, &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        let partial = ExportTraceServiceResponse::decode(&answer.body[..]).expect("protobuf");
        // Messages of the three signals have the same fields.
        let partial = partial.partial_success.expect("a partial success");
        assert_eq!(partial.rejected_spans, 3);
        assert!(
            partial.error_message.contains("3 of 3 data points refused; the first: byte "),
            "{partial:?}"
        );
        assert_eq!(server.stats.data_points.load(Ordering::Relaxed), 3 * round);
    }
    let points = r#"[{"asDouble":1.5,"timeUnixNano":"1"},{"asInt":"2","attributes":[]}]"#;
    let metric = format!(r#"{{"name":"m","unit":"1","sum":{{"dataPoints":{points},"isMonotonic":true}}}}"#);
    let json =
        format!(r#"{{"resourceMetrics":[{{"resource":{{}},"scopeMetrics":[{{"metrics":[{metric}]}}]}}]}}"#);
    let answer = client.post("/v1/metrics", JSON, json.as_bytes());
    let told = String::from_utf8(answer.body).expect("JSON");
    assert_eq!(told, "{}");
    assert_eq!(server.stats.refused.load(Ordering::Relaxed), 0);
}

#[test]
fn a_body_without_end_is_cut_off_early() {
    let server = Server::start(|config| {
        config.max_body = 1 << 20;
        config.max_memory = 2 << 20;
    });
    let mut client = server.connect();
    client.send(
        b"POST /v1/traces HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    let chunk = [&b"10000\r\n"[..], &[b'['; 0x10000], b"\r\n"].concat();
    let mut sent = 0;
    let mut most = 0;
    // A gigabyte, if it is let.
    while sent < 1 << 30 && client.stream.write_all(&chunk).is_ok() {
        sent += chunk.len();
        most = most.max(server.stats.memory.load(Ordering::Relaxed));
        if server.stats.refused.load(Ordering::Relaxed) > 0 {
            break;
        }
    }
    assert!(sent < 100 << 20, "{sent}");
    assert!(most <= 2 << 20, "{most}");
    let answer = client.answer();
    assert_eq!(answer.status, 413);
    assert!(String::from_utf8_lossy(&answer.body).contains("send smaller batches"));
}

#[test]
fn clients_that_are_too_slow_are_disconnected_and_others_served() {
    let mut server = Server::start(|config| {
        config.timeout_ms = 2000;
        config.idle_ms = 2500;
    });
    let mut silent = server.connect();
    let mut head = server.connect();
    head.send(b"POST /v1/tra");
    let mut body = server.connect();
    body.send(format!("POST /v1/traces HTTP/1.1\r\n{PROTOBUF}Content-Length: 1000\r\n\r\n123").as_bytes());
    let mut idle = server.connect();
    assert_eq!(idle.post("/v1/traces", PROTOBUF, &spans(1)).status, 200);
    // One byte after the other does not help.
    let mut dripping = server.connect();
    dripping.send(b"P");
    let mut drips = 0;
    while dripping.stream.write_all(b"O").is_ok() && drips < 2000 {
        drips += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(drips < 2000);
    for (client, what) in [(&mut head, "head"), (&mut body, "body")] {
        let answer = client.try_answer();
        assert_eq!(answer.map(|answer| answer.status), Some(408), "{what}");
        assert!(client.ends(), "{what}");
    }
    assert!(silent.ends() && idle.ends());
    server.wait("they are counted", |stats, _| {
        stats.slow.load(Ordering::Relaxed) == 3 && stats.connections.load(Ordering::Relaxed) == 0
    });
    assert_eq!(server.connect().post("/v1/traces", PROTOBUF, &spans(1)).status, 200);
}

#[test]
fn when_the_core_is_behind_clients_are_told_to_come_again_and_nothing_is_lost() {
    let mut server = Server::start(|config| {
        config.queue = 1;
        config.patience_ms = 1;
    });
    let mut client = server.connect_first();
    // The first delivery fills the channel.
    assert_eq!(client.post("/v1/traces", PROTOBUF, &spans(1)).status, 200);
    let answer = client.post("/v1/traces", PROTOBUF, &spans(1));
    assert_eq!((answer.status, answer.refusal().code), (503, 14));
    assert!(answer.head.contains("retry-after: 1"), "{answer:?}");
    assert_eq!(server.stats.busy.load(Ordering::Relaxed), 1);
    let mut received = 0;
    server.wait("the first", |_, sum| {
        received = sum.received;
        received == 2
    });
    assert_eq!(client.post("/v1/traces", PROTOBUF, &spans(1)).status, 200);
    server.wait("the second", |_, sum| sum.received == 4);
    assert_eq!(server.tallies().rejected_total(), 0);
}

#[test]
fn what_was_lost_all_the_same_is_told() {
    let mut server = Server::start(|config| {
        config.queue = 1;
        config.patience_ms = 0;
    });
    let mut client = server.connect_first();
    // More than fits the channel, in one request.
    let body = traces("shop", (0..2000).map(|n| span((n % 255) as u8 + 1)).collect()).encode_to_vec();
    let answer = client.post("/v1/traces", PROTOBUF, &body);
    assert_eq!(answer.status, 200);
    let response = ExportTraceServiceResponse::decode(&answer.body[..]).expect("a response");
    let partial = response.partial_success.expect("not all");
    assert!(partial.rejected_spans > 0 && partial.error_message.contains("records lost"), "{partial:?}");
}

#[test]
fn connections_and_memory_are_bounded() {
    let mut server = Server::start(|config| {
        config.max_connections = 4;
        config.max_body = 1 << 20;
        config.max_memory = 1 << 20;
    });
    let mut clients: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    server.wait("all four", |stats, _| stats.connections.load(Ordering::Relaxed) == 4);
    assert_eq!(server.connect().answer().status, 503);
    assert_eq!(server.stats.turned_away.load(Ordering::Relaxed), 1);
    // Each has 400 KiB of a request under way.
    for client in &mut clients {
        let head = format!("POST /v1/traces HTTP/1.1\r\n{PROTOBUF}Content-Length: 500000\r\n\r\n");
        client.send(head.as_bytes());
        let _ = client.stream.write_all(&vec![0; 400 << 10]);
    }
    server.wait("two have no room", |stats, _| stats.busy.load(Ordering::Relaxed) >= 2);
    assert!(server.stats.memory.load(Ordering::Relaxed) <= 1 << 20);
    drop(clients);
    server.wait("all is given back", |stats, _| {
        stats.connections.load(Ordering::Relaxed) == 0 && stats.memory.load(Ordering::Relaxed) == 0
    });
    assert_eq!(server.connect().post("/v1/traces", PROTOBUF, &spans(1)).status, 200);
}

#[test]
fn who_does_not_know_the_token_sends_nothing() {
    let file = tempfile::NamedTempFile::new().expect("temporary file");
    std::fs::write(file.path(), "correct-horse-battery\n").expect("written");
    let mut server = Server::start(|config| config.token_file = Some(file.path().to_owned()));
    for authorization in
        ["", "Authorization: Bearer correct-horse-batterx\r\n", "Authorization: Basic eDp5\r\n"]
    {
        let answer = server.connect().post("/v1/traces", &format!("{PROTOBUF}{authorization}"), &spans(1));
        assert_eq!(answer.status, 401, "{authorization}");
        assert!(answer.head.contains("www-authenticate: bearer"), "{}", answer.head);
        let status = answer.refusal();
        assert_eq!(status.code, 16);
        assert!(status.message.contains("otlp.token_file"), "{}", status.message);
    }
    let known = format!("{PROTOBUF}Authorization: Bearer correct-horse-battery\r\n");
    assert_eq!(server.connect().post("/v1/traces", &known, &spans(1)).status, 200);
    server.wait("the one", |_, tallies| tallies.received > 0);
    assert_eq!(server.stats.refused.load(Ordering::Relaxed), 3);
}

#[test]
fn nobody_keeps_others_out_by_holding_places() {
    let mut server = Server::start(|config| config.max_connections = 8);
    // Each has had a request, as cheap as they come, and would now be left alone for a minute.
    let mut holders: Vec<Client> = (0..8).map(|_| server.connect()).collect();
    for holder in &mut holders {
        assert_eq!(holder.post("/v1/traces", PROTOBUF, &[]).status, 200);
    }
    let start = Instant::now();
    let served = loop {
        let answer = server.connect().post("/v1/traces", PROTOBUF, &spans(1));
        if answer.status == 200 {
            break answer;
        }
        assert_eq!(answer.status, 503);
        assert!(start.elapsed() < Duration::from_secs(20), "kept out");
    };
    assert_eq!(served.status, 200);
    assert_eq!(server.stats.made_room.load(Ordering::Relaxed), 1);
    let closed = holders.iter_mut().filter_map(|holder| {
        holder.stream.set_nonblocking(true).expect("a socket");
        holder.stream.read(&mut [0; 1]).ok()
    });
    assert_eq!(closed.collect::<Vec<_>>(), [0], "one was closed, and in good order");
    server.wait("what was sent", |_, tallies| tallies.received > 0);
}

#[test]
fn a_line_of_a_head_that_ends_without_a_carriage_return_hides_no_other() {
    let server = Server::start(|_| ());
    // What is smuggled behind the bare newline, if a proxy in front takes it for part of the value.
    let smuggled = "GET /v1/traces HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut client = server.connect();
    let head = format!(
        "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\n{PROTOBUF}X: y\nContent-Length: {}\r\n\r\n",
        smuggled.len()
    );
    client.send(format!("{head}{smuggled}").as_bytes());
    let answer = client.answer();
    // It ends a line, as RFC 9112 (2.2) allows: the length behind it counts, and what it is of is a body, and no good one.
    assert_eq!(answer.status, 400, "{answer:?}");
    client.stream.shutdown(Shutdown::Write).expect("open");
    assert!(client.try_answer().is_none(), "one request, one answer");
}

#[test]
fn many_clients_at_once_and_none_is_starved() {
    const CLIENTS: u64 = 20;
    const REQUESTS: u64 = 30;
    let mut server = Server::start(|config| config.patience_ms = 1000);
    let done = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let mut client = server.connect();
            let done = Arc::clone(&done);
            std::thread::spawn(move || {
                let body = traces(&format!("s{number}"), (1..=50).map(span).collect()).encode_to_vec();
                for _ in 0..REQUESTS {
                    assert_eq!(client.post("/v1/traces", PROTOBUF, &body).status, 200);
                }
                client.stream.shutdown(Shutdown::Both).expect("shut down");
                done.fetch_add(1, Ordering::Relaxed);
            })
        })
        .collect();
    server.wait("all spans", |_, sum| sum.received == CLIENTS * REQUESTS * 100);
    for thread in threads {
        thread.join().expect("a client");
    }
    assert_eq!(done.load(Ordering::Relaxed), CLIENTS);
}

#[test]
fn an_address_in_use_is_told() {
    let server = Server::start(|_| ());
    let config = OtlpConfig {
        listen: Some(format!("localhost:{}", server.address().port())),
        ..OtlpConfig::default()
    };
    let (registry, _definitions) = Registry::open(&RegistryConfig::new(400)).expect("registry");
    let (out, _deliveries) = bounded(1);
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
    let error = OtlpSource::start(&config, &outlet, &Arc::default()).expect_err("taken").to_string();
    assert!(error.contains("cannot listen") && error.contains("stop what listens there"), "{error}");
}

#[test]
fn lengths_chunks_and_pipelines_in_pieces_of_any_size() {
    let mut server = Server::start(|_| ());
    let body = spans(1);
    let head = "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n";
    let (first, second) = body.split_at(body.len() / 2);
    let all = [
        format!("{head}content-length: {}\r\n\r\n", body.len()).as_bytes(),
        &body,
        format!("\r\n{head}Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n").as_bytes(),
        format!("{:x};x=y\r\n", first.len()).as_bytes(),
        first,
        format!("\r\n{:x}\r\n", second.len()).as_bytes(),
        second,
        b"\r\n0\r\nTrailer: 1\r\n\r\n",
        format!("{head}Content-Length: 0\r\nConnection: x, Close\r\n\r\n").as_bytes(),
    ]
    .concat();
    let sizes = [1, 2, 3, 7, 50, 10_000];
    for size in sizes {
        let mut client = server.connect();
        client.stream.set_nodelay(true).expect("a TCP socket");
        for piece in all.chunks(size) {
            client.send(piece);
        }
        let mut answers = Vec::new();
        while let Some(answer) = client.try_answer() {
            answers.push(answer.status);
        }
        // Who has the body already does not have to be told to send it.
        answers.retain(|status| *status != 100);
        assert_eq!(answers, [200, 200, 200], "pieces of {size}");
    }
    let number = sizes.len() as u64;
    server.wait("all spans", |_, sum| sum.received == 2 * 2 * number);
    assert_eq!(server.stats.requests.load(Ordering::Relaxed), 3 * number);
}

#[test]
fn heads_and_chunks_that_cannot_be_served_are_told() {
    const HEAD: &str =
        "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n";
    let mut server = Server::start(|config| config.max_body = 1024);
    let cases = [
        (format!("{HEAD}Content-Length: 1025\r\n\r\n"), 413),
        (format!("{HEAD}Content-Length: 99999999999999999999\r\n\r\n"), 400),
        (format!("{HEAD}Content-Length: +1\r\n\r\n"), 400),
        (format!("{HEAD}Content-Length: 1\r\nContent-Length: 2\r\n\r\n"), 400),
        // Of the two, chunks count (RFC 9112, 6.3).
        (format!("{HEAD}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), 400),
        (format!("{HEAD}Transfer-Encoding: gzip, chunked\r\n\r\n"), 400),
        (format!("{HEAD}Transfer-Encoding: chunked\r\n\r\nzz\r\n"), 400),
        (format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n401\r\n{}", "x".repeat(0x401)), 413),
        (format!("{HEAD}Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n"), 400),
        (format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n"), 400),
        (format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n{}", "1".repeat(300)), 400),
        (format!("{HEAD}Content-Encoding: br\r\n\r\n"), 415),
        (format!("{HEAD}{}\r\n", "x: y\r\n".repeat(70)), 431),
        (format!("{HEAD}x: {}\r\n\r\n", "y".repeat(20_000)), 431),
        ("POST /v1/traces HTTP/1.1\r\n\r\n".into(), 415),
        (HEAD.replace("POST", "GET") + "\r\n", 405),
        (HEAD.replace("traces", "profiles") + "\r\n", 404),
        (HEAD.replace("/v1/traces", "/") + "\r\n", 404),
        (HEAD.replace("HTTP/1.1", "FTP/1.1") + "\r\n", 400),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into(), 505),
        ("\x16\x03\x01".into(), 400),
        ("{\"a\":1}".into(), 400),
    ];
    let number = cases.len() as u64;
    for (head, status) in cases {
        let mut client = server.connect();
        client.send(head.as_bytes());
        let answer = client.answer();
        assert_eq!(answer.status, status, "{head:?}: {answer:?}");
        assert!(!answer.refusal().message.is_empty(), "{head:?}");
        assert!(answer.head.contains("connection: close"), "{head:?}: {answer:?}");
        assert!(client.ends(), "{head:?}");
    }
    server.wait("all are counted", |stats, sum| {
        stats.refused.load(Ordering::Relaxed) == number && sum.rejected_total() == number
    });
    assert_eq!(server.stats.requests.load(Ordering::Relaxed), number);
    server.wait("all have ended", |stats, _| stats.connections.load(Ordering::Relaxed) == 0);
}

#[test]
fn malformed_heads_behind_a_good_request_are_told_as_well() {
    let mut server = Server::start(|_| ());
    let mut client = server.connect();
    assert_eq!(client.post("/v1/traces", PROTOBUF, &spans(1)).status, 200);
    client.send(b"what is this?\r\n\r\n");
    let answer = client.answer();
    assert_eq!((answer.status, answer.refusal().code), (400, 3));
    assert!(client.ends());
    server.wait("it is counted", |_, sum| sum.rejected[Reason::Protocol as usize] == 1);
}

#[test]
fn whatever_comes_the_listener_goes_on() {
    let mut server = Server::start(|config| config.max_body = 1024);
    let head =
        "POST /v1/logs HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    // xorshift: the same bytes each time.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    for round in 0..100 {
        let mut client = server.connect();
        let garbage: Vec<u8> = (0..200).map(|_| byte()).collect();
        let prefix = if round % 2 == 0 { head.as_bytes() } else { b"" };
        for piece in [prefix, &garbage].concat().chunks(7) {
            // It may have been closed already.
            if client.stream.write_all(piece).is_err() {
                break;
            }
        }
        let _ = client.stream.shutdown(Shutdown::Write);
        let _ = client.stream.read_to_end(&mut Vec::new());
        // What is refused is handed over, too.
        server.tallies();
    }
    assert_eq!(server.connect().post("/v1/traces", PROTOBUF, &spans(1)).status, 200);
    server.wait("all have ended", |stats, _| {
        stats.connections.load(Ordering::Relaxed) == 0 && stats.memory.load(Ordering::Relaxed) == 0
    });
}
