//! OTLP over HTTP at the agent as it runs (`jumpseat serve`, span metrics on, its log on disk as by default): processor time of all its
//! threads for a span, by the system's account. One connection; requests of 512 spans each, as the SDKs send them.
//!
//! Against it, in the same run: `prost` decoding the same requests into the official types of `opentelemetry-proto`, without socket,
//! HTTP or records; that is the least any collector does whose decoder is generated.

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;
use jumpseat::client::group::{FetchGroup, Scale};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message;

mod common;
use common::agent::Served;
use common::clock::thread_cpu;
use common::{Figure, Goal, Row, Times, race, rounds};

const AGENT: &str = env!("CARGO_BIN_EXE_jumpseat");
/// Spans a second on one core.
const GOAL: f64 = 1_200_000.0;
/// Spans in a request, and requests.
const SPANS: u64 = 512;
const REQUESTS: u64 = 400;

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

/// A request of an HTTP server's spans, about 250 bytes each, that began at `now`.
fn request(number: u64, now: u64) -> Vec<u8> {
    let text = |text: &str| Value::StringValue(text.to_owned());
    let spans = (0..SPANS).map(|n| {
        let n = number * SPANS + n;
        let start = now + n * 1000;
        Span {
            trace_id: (u128::from(n) | 1 << 100).to_be_bytes().to_vec(),
            span_id: (n | 1 << 60).to_be_bytes().to_vec(),
            parent_span_id: (n | 1 << 61).to_be_bytes().to_vec(),
            name: "get-customer".to_owned(),
            kind: 2,
            start_time_unix_nano: start,
            end_time_unix_nano: start + 1_500_000,
            attributes: vec![
                attribute("http.request.method", text("GET")),
                attribute("url.path", Value::StringValue(format!("/api/v1/customers/{n}"))),
                attribute("http.response.status_code", Value::IntValue(200)),
                attribute("server.address", text("shop.example.org")),
                attribute("network.protocol.version", text("1.1")),
                attribute("user_agent.original", text("Mozilla/5.0 (X11; Linux x86_64)")),
            ],
            status: Some(Status::default()),
            ..Span::default()
        }
    });
    let resource = Resource {
        attributes: vec![attribute("service.name", text("shop")), attribute("host.name", text("web-1"))],
        ..Resource::default()
    };
    let scope = Some(InstrumentationScope { name: "http".to_owned(), ..InstrumentationScope::default() });
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource),
            scope_spans: vec![ScopeSpans { scope, spans: spans.collect(), ..ScopeSpans::default() }],
            ..ResourceSpans::default()
        }],
    }
    .encode_to_vec()
}

fn main() {
    // Of the present: those of another year would be counted as such.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let bodies: Vec<Vec<u8>> = (0..REQUESTS).map(|number| request(number, now)).collect();
    let zipped: Vec<Vec<u8>> = bodies.iter().map(|body| gzip(body)).collect();
    let [plain, gzip, floor] = race(
        rounds(10),
        [&mut || agent(&bodies, ""), &mut || agent(&zipped, "Content-Encoding: gzip\r\n"), &mut || {
            prost(&bodies)
        }],
    );
    let spans = (SPANS * REQUESTS) as f64;
    let rate = |times: &Times| Figure::rate(times, spans, "spans/s on a core");
    let size = bodies.iter().map(Vec::len).sum::<usize>() as u64 / (SPANS * REQUESTS);
    let what = format!("OTLP over HTTP, {size} bytes a span, with span metrics");
    let prost = || ("prost decoding alone", rate(&floor));
    let (name, peer) = prost();
    Row::new(&what, rate(&plain)).peer(name, peer).goal(Goal::AtLeast(GOAL)).print();
    Row::new(&what, rate(&plain)).peer(name, peer).goal(Goal::Ratio(1.0)).print();
    Row::new(format!("{what}, gzip"), rate(&gzip)).peer(name, peer).print();
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(body).expect("to memory");
    encoder.finish().expect("to memory")
}

/// Processor time of an agent for all requests. Its metrics say that all spans were taken in.
fn agent(bodies: &[Vec<u8>], encoding: &str) -> Duration {
    let dir = tempfile::tempdir().expect("a directory");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    drop(listener);
    let agent =
        Served::start(AGENT, dir.path(), &format!("[otlp]\nlisten = \"{address}\"\npatience_ms = 1000"));
    let before = agent.cpu();
    post(TcpStream::connect(address).expect("it listens"), bodies, encoding);
    // By the last answer all is handed over; whatever the agent's own thread still has to do counts.
    let mut group = FetchGroup::host(&agent.address.to_string()).expect("it listens");
    let count = group
        .item::<u64>("jumpseat.span.count", Some("shop/get-customer"), Scale::Instant)
        .expect("there are spans");
    while {
        group.fetch().expect("it answers");
        group.value(count).expect("a number") < SPANS * REQUESTS
    } {
        std::thread::sleep(Duration::from_millis(1));
    }
    agent.cpu() - before
}

fn post(mut stream: TcpStream, bodies: &[Vec<u8>], encoding: &str) {
    // Head and body in two writes would wait for each other.
    stream.set_nodelay(true).expect("a TCP socket");
    let mut answer = [0; 1024];
    for body in bodies {
        let head = format!(
            "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n{encoding}\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("the server reads");
        stream.write_all(body).expect("the server reads");
        let read = stream.read(&mut answer).expect("the server answers");
        assert!(answer[..read].starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    }
}

/// Processor time of decoding all requests into the official types.
fn prost(bodies: &[Vec<u8>]) -> Duration {
    let before = thread_cpu();
    for body in bodies {
        black_box(ExportTraceServiceRequest::decode(&body[..]).expect("valid"));
    }
    thread_cpu() - before
}
