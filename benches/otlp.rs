//! OTLP over HTTP on a real TCP socket, one connection, end to end to the event log: listener thread (read,
//! decompress, decode, pack, hand over) and core thread (take, append). A third thread sends requests made beforehand,
//! of 512 spans each, as the SDKs do.
//!
//! Printed: spans per second of CPU time of both threads together (what one core can do, whatever else the machine is
//! busy with) and by the clock. As floor, in the same run: `prost` decoding the same requests into the official types
//! of `opentelemetry-proto`, without socket, HTTP or records; that is the least any collector does whose decoder is
//! generated.

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use flate2::Compression;
use flate2::write::GzEncoder;
use jumpseat::event::log::{EventLog, LogConfig};
use jumpseat::model::Pmid;
use jumpseat::source::Outlet;
use jumpseat::source::delivery::Inlet;
use jumpseat::source::otlp::{OtlpConfig, OtlpSource};
use jumpseat::source::registry::{Registry, RegistryConfig};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message;

mod common;
use common::si;

const GOAL: f64 = 100_000.0;
/// Spans in a request, and requests.
const SPANS: u64 = 512;
const REQUESTS: u64 = 400;

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

/// A request of an HTTP server's spans, about 250 bytes each.
fn request(number: u64) -> Vec<u8> {
    let text = |text: &str| Value::StringValue(text.to_owned());
    let spans = (0..SPANS).map(|n| {
        let n = number * SPANS + n;
        let start = 1_795_180_566_000_000_000 + n * 1000;
        Span {
            trace_id: (u128::from(n) | 1 << 100).to_be_bytes().to_vec(),
            span_id: (n | 1 << 60).to_be_bytes().to_vec(),
            parent_span_id: (n | 1 << 61).to_be_bytes().to_vec(),
            name: "GET /api/v1/customers/{id}".to_owned(),
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
    let rounds = common::rounds(5);
    let bodies: Vec<Vec<u8>> = (0..REQUESTS).map(request).collect();
    let zipped: Vec<Vec<u8>> = bodies.iter().map(|body| gzip(body)).collect();
    let spans = (SPANS * REQUESTS) as f64;
    let rate = |time: Option<Duration>| spans / time.expect("at least one round").as_secs_f64();
    let floor = rate((0..rounds).map(|_| prost(&bodies)).min());
    for (what, bodies, encoding) in [("plain", bodies, ""), ("gzip", zipped, "Content-Encoding: gzip\r\n")] {
        let per_span = bodies.iter().map(Vec::len).sum::<usize>() as f64 / spans;
        let bodies = Arc::new(bodies);
        let all: Vec<(Duration, Duration)> = (0..rounds).map(|_| ingest(&bodies, encoding)).collect();
        let core = rate(all.iter().map(|(cpu, _)| *cpu).min());
        let wall = rate(all.iter().map(|(_, wall)| *wall).min());
        println!(
            "OTLP over HTTP, {what}, {per_span:.0} bytes a span, one connection, to the log: {} spans/s on one core, \
             goal {}: {} (by the clock {})",
            si(core),
            si(GOAL),
            if core >= GOAL { "met" } else { "MISSED" },
            si(wall),
        );
        println!("  only decoding with prost: {} spans/s, ratio {:.2}", si(floor), core / floor);
    }
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(body).expect("to memory");
    encoder.finish().expect("to memory")
}

/// CPU time of listener and core, and time by the clock.
fn ingest(bodies: &Arc<Vec<Vec<u8>>>, encoding: &'static str) -> (Duration, Duration) {
    let config =
        OtlpConfig { listen: Some("127.0.0.1:0".to_owned()), patience_ms: 1000, ..OtlpConfig::default() };
    let (registry, definitions) = Registry::open(&RegistryConfig::new(400)).expect("in memory");
    let (out, deliveries) = bounded(config.queue);
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
    let source = OtlpSource::start(&config, &outlet, &Arc::default()).expect("starts");
    let inlet = Inlet::new(definitions, deliveries);
    let mut log = EventLog::new(LogConfig {
        budget: 64 * 1024 * 1024,
        recent: 100,
        missed_pmid: Pmid::new(400, 16, 5),
    });
    // Without a reader the log keeps next to nothing.
    log.join();
    let start = Instant::now();
    let cpu = thread_cpu();
    let sender =
        send(TcpStream::connect(source.addresses[0]).expect("connects"), Arc::clone(bodies), encoding);
    let mut received = 0;
    while received < 2 * SPANS * REQUESTS {
        while let Some(delivery) = inlet.take(|definition| drop(black_box(definition))) {
            assert_eq!(delivery.missed, None, "the core keeps up");
            received += delivery.tallies.received;
            log.append(delivery.batch);
        }
        if received < 2 * SPANS * REQUESTS {
            std::thread::park_timeout(Duration::from_millis(100));
        }
    }
    let wall = start.elapsed();
    let cpu = thread_cpu() - cpu + cpu_of("jumpseat-otlp");
    drop(source);
    sender.join().expect("the sender is content");
    (cpu, wall)
}

fn send(
    mut stream: TcpStream,
    bodies: Arc<Vec<Vec<u8>>>,
    encoding: &'static str,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        // Head and body in two writes would wait for each other.
        stream.set_nodelay(true).expect("a TCP socket");
        let mut answer = [0; 1024];
        for body in &*bodies {
            let head = format!(
                "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n{encoding}\
                 Content-Length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes()).expect("the server reads");
            stream.write_all(body).expect("the server reads");
            // The bench may be over before the last answer.
            let read = stream.read(&mut answer).unwrap_or(0);
            assert!(read == 0 || answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
        }
    })
}

/// CPU time of decoding all requests into the official types.
fn prost(bodies: &[Vec<u8>]) -> Duration {
    let cpu = thread_cpu();
    for body in bodies {
        black_box(ExportTraceServiceRequest::decode(&body[..]).expect("valid"));
    }
    thread_cpu() - cpu
}

/// CPU time of this thread.
fn thread_cpu() -> Duration {
    run_time(&std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells"))
}

/// CPU time of the thread of this process with this name.
fn cpu_of(name: &str) -> Duration {
    for task in std::fs::read_dir("/proc/self/task").expect("Linux tells").flatten() {
        let comm = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if comm.trim_end() == name {
            return run_time(&std::fs::read_to_string(task.path().join("schedstat")).expect("it is alive"));
        }
    }
    panic!("no thread {name}");
}

/// The first number of `schedstat`: nanoseconds on a CPU.
fn run_time(schedstat: &str) -> Duration {
    let nanos = schedstat.split(' ').next().and_then(|number| number.parse().ok());
    Duration::from_nanos(nanos.expect("schedstat starts with a number"))
}
