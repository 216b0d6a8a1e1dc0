//! OTLP at the agent as it runs (`jumpseat serve`, span metrics on, its log on disk as by default): processor time of all its
//! threads for a span, by the system's account. One connection; requests of 512 spans each, as the SDKs send them: over HTTP as
//! protobuf, plain and compressed, and as JSON; over gRPC. Once with the log in memory, which shows what the files cost. And for a
//! data point of a cumulative sum, of 10,000 series with three attributes each, one of a sum of deltas, also with starts that are kept and
//! with none, and one of a new series when there may be no more. At last, more clients at a time than it can take ([`overload`]).
//!
//! Against it, in the same run: `prost` decoding the same requests into the official types of `opentelemetry-proto`, without socket,
//! HTTP or records; that is the least any collector does whose decoder is generated.

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use jumpseat::client::group::{FetchGroup, Scale};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, metric,
    number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message;
use serde_json::json;

#[path = "../common/mod.rs"]
mod common;
mod overload;
use common::agent::Served;
use common::clock::thread_cpu;
use common::{Figure, Goal, Row, Times, race, rounds};

const AGENT: &str = env!("CARGO_BIN_EXE_jumpseat");
/// Spans a second on one core.
const GOAL: f64 = 1_200_000.0;
/// Data points a second on one core.
const POINTS_GOAL: f64 = 2_000_000.0;
/// What gRPC calls to send spans.
const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
/// Where spans and data points are sent.
const TRACES: &str = "/v1/traces";
const METRICS: &str = "/v1/metrics";
/// Spans in a request, and requests.
const SPANS: u64 = 512;
const REQUESTS: u64 = 400;
/// Data points in a request, and series.
const POINTS: u64 = 1000;
const SERIES: u64 = 10_000;

/// The counter that tells that all was taken in.
#[derive(Clone, Copy)]
struct Taken {
    metric: &'static str,
    instance: Option<&'static str>,
    count: u64,
}

const SPANS_IN: Taken =
    Taken { metric: "jumpseat.span.count", instance: Some("shop/get-customer"), count: SPANS * REQUESTS };
const POINTS_IN: Taken =
    Taken { metric: "jumpseat.self.otlp.data_points", instance: None, count: POINTS * REQUESTS };

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

/// A request of an HTTP server's spans, about 250 bytes each, that began at `now`.
fn request(number: u64, now: u64) -> ExportTraceServiceRequest {
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
}

/// The same request as JSON, as the specification maps it.
fn json(request: &ExportTraceServiceRequest) -> Vec<u8> {
    let hex = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let attributes = |attributes: &[KeyValue]| {
        let all = attributes.iter().map(|KeyValue { key, value, .. }| {
            let value = match value.as_ref().and_then(|value| value.value.as_ref()) {
                Some(Value::StringValue(text)) => json!({ "stringValue": text }),
                Some(Value::IntValue(number)) => json!({ "intValue": number.to_string() }),
                other => panic!("no such values are made: {other:?}"),
            };
            json!({ "key": key, "value": value })
        });
        all.collect::<Vec<_>>()
    };
    let span = |span: &Span| {
        json!({
            "traceId": hex(&span.trace_id),
            "spanId": hex(&span.span_id),
            "parentSpanId": hex(&span.parent_span_id),
            "name": span.name,
            "kind": span.kind,
            "startTimeUnixNano": span.start_time_unix_nano.to_string(),
            "endTimeUnixNano": span.end_time_unix_nano.to_string(),
            "attributes": attributes(&span.attributes),
            "status": {},
        })
    };
    let scope = |scope: &ScopeSpans| {
        json!({
            "scope": { "name": scope.scope.as_ref().map(|scope| &scope.name) },
            "spans": scope.spans.iter().map(span).collect::<Vec<_>>(),
        })
    };
    let resource = |resource: &ResourceSpans| {
        let of = resource.resource.as_ref().map(|resource| attributes(&resource.attributes));
        json!({
            "resource": { "attributes": of },
            "scopeSpans": resource.scope_spans.iter().map(scope).collect::<Vec<_>>(),
        })
    };
    let resources: Vec<_> = request.resource_spans.iter().map(resource).collect();
    json!({ "resourceSpans": resources }).to_string().into_bytes()
}

/// A request with points of a sum, of a tenth of the series.
fn points(
    number: u64,
    now: u64,
    series: u64,
    temporality: AggregationTemporality,
) -> ExportMetricsServiceRequest {
    let time = now + number;
    // What is delta begins where the one before has ended.
    let start = match temporality {
        AggregationTemporality::Delta => time.saturating_sub(SERIES / POINTS),
        _ => now - 1_000_000_000,
    };
    let text = |text: &str| Value::StringValue(text.to_owned());
    let points = (0..POINTS).map(|n| {
        let this = (number * POINTS + n) % series;
        NumberDataPoint {
            attributes: vec![
                attribute("http.request.method", text("GET")),
                attribute("http.route", Value::StringValue(format!("/api/v1/customers/{this}"))),
                attribute("http.response.status_code", Value::IntValue(200)),
            ],
            start_time_unix_nano: start,
            time_unix_nano: time,
            value: Some(number_data_point::Value::AsInt((number * 100 + n) as i64)),
            ..NumberDataPoint::default()
        }
    });
    let sum = Sum {
        data_points: points.collect(),
        aggregation_temporality: temporality.into(),
        is_monotonic: true,
    };
    let metric = Metric {
        name: "http.server.requests".to_owned(),
        unit: "{request}".to_owned(),
        data: Some(metric::Data::Sum(sum)),
        ..Metric::default()
    };
    let attributes =
        vec![attribute("service.name", text("shop")), attribute("service.instance.id", text("web-1"))];
    let scope_metrics = vec![ScopeMetrics { metrics: vec![metric], ..ScopeMetrics::default() }];
    let resource = Some(Resource { attributes, ..Resource::default() });
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() }],
    }
}

/// The same request of points that do not tell when they began.
fn without_start(mut request: ExportMetricsServiceRequest) -> ExportMetricsServiceRequest {
    let scopes = request.resource_metrics.iter_mut().flat_map(|resource| &mut resource.scope_metrics);
    for metric in scopes.flat_map(|scope| &mut scope.metrics) {
        if let Some(metric::Data::Sum(sum)) = &mut metric.data {
            sum.data_points.iter_mut().for_each(|point| point.start_time_unix_nano = 0);
        }
    }
    request
}

fn main() {
    // Of the present: those of another year would be counted as such.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let requests: Vec<_> = (0..REQUESTS).map(|number| request(number, now)).collect();
    let bodies: Vec<Vec<u8>> = requests.iter().map(Message::encode_to_vec).collect();
    let zipped: Vec<Vec<u8>> = bodies.iter().map(|body| gzip(body)).collect();
    let jsons: Vec<Vec<u8>> = requests.iter().map(json).collect();
    drop(requests);
    let protobuf = "Content-Type: application/x-protobuf\r\n";
    let compressed = format!("{protobuf}Content-Encoding: gzip\r\n");
    let sums = |series, temporality| -> Vec<Vec<u8>> {
        (0..REQUESTS).map(|number| points(number, now, series, temporality).encode_to_vec()).collect()
    };
    let samples = sums(SERIES, AggregationTemporality::Cumulative);
    let deltas = sums(SERIES, AggregationTemporality::Delta);
    let without_starts: Vec<Vec<u8>> = (0..REQUESTS)
        .map(|number| {
            without_start(points(number, now, SERIES, AggregationTemporality::Delta)).encode_to_vec()
        })
        .collect();
    let beyond = sums(u64::MAX, AggregationTemporality::Cumulative);
    let few = format!("[series]\nmax_per_metric = {SERIES}\n");
    let keeping = format!("{few}starts = true\n");
    let [plain, memory, gzip, json, grpc, floor, taken, added, with_starts, startless, refused, points_floor] =
        race(
            rounds(10),
            [
                &mut || agent("", SPANS_IN, |http, _| post(http, TRACES, &bodies, protobuf)),
                &mut || {
                    agent("[log]\ndir = \"memory\"\n", SPANS_IN, |http, _| {
                        post(http, TRACES, &bodies, protobuf)
                    })
                },
                &mut || agent("", SPANS_IN, |http, _| post(http, TRACES, &zipped, &compressed)),
                &mut || {
                    agent("", SPANS_IN, |http, _| {
                        post(http, TRACES, &jsons, "Content-Type: application/json\r\n")
                    })
                },
                &mut || agent("", SPANS_IN, |_, grpc| call(grpc, &bodies)),
                &mut || prost::<ExportTraceServiceRequest>(&bodies),
                &mut || agent(&few, POINTS_IN, |http, _| post(http, METRICS, &samples, protobuf)),
                &mut || agent(&few, POINTS_IN, |http, _| post(http, METRICS, &deltas, protobuf)),
                &mut || agent(&keeping, POINTS_IN, |http, _| post(http, METRICS, &deltas, protobuf)),
                &mut || agent(&keeping, POINTS_IN, |http, _| post(http, METRICS, &without_starts, protobuf)),
                &mut || agent(&few, POINTS_IN, |http, _| post(http, METRICS, &beyond, protobuf)),
                &mut || prost::<ExportMetricsServiceRequest>(&samples),
            ],
        );
    let spans = (SPANS * REQUESTS) as f64;
    let rate = |times: &Times| Figure::rate(times, spans, "spans/s on a core");
    let each = |bodies: &[Vec<u8>]| bodies.iter().map(Vec::len).sum::<usize>() as u64 / (SPANS * REQUESTS);
    let (size, json_size) = (each(&bodies), each(&jsons));
    let what = format!("OTLP over HTTP, {size} bytes a span, with span metrics");
    let row =
        |what: &str, times: &Times| Row::new(what, rate(times)).peer("prost decoding alone", rate(&floor));
    row(&what, &plain).goal(Goal::AtLeast(GOAL)).headline().print();
    row(&what, &plain).goal(Goal::Ratio(1.0)).print();
    row(&format!("{what}, log in memory"), &memory).print();
    row(&format!("{what}, gzip"), &gzip).print();
    row(&format!("OTLP over HTTP as JSON, {json_size} bytes a span, with span metrics"), &json).print();
    row(&format!("OTLP over gRPC, {size} bytes a span, with span metrics"), &grpc).print();
    let of_points = (POINTS * REQUESTS) as f64;
    let rate = |times: &Times| Figure::rate(times, of_points, "points/s on a core");
    let bytes = samples.iter().map(Vec::len).sum::<usize>() as u64 / (POINTS * REQUESTS);
    let row = |what: String, times: &Times| {
        Row::new(&what, rate(times)).peer("prost decoding alone", rate(&points_floor))
    };
    row(format!("OTLP metrics over HTTP, {bytes} bytes a point, {SERIES} series"), &taken)
        .goal(Goal::AtLeast(POINTS_GOAL))
        .print();
    row("the same as deltas, which are added up".to_owned(), &added).goal(Goal::AtLeast(POINTS_GOAL)).print();
    row("the same deltas, starts kept".to_owned(), &with_starts).goal(Goal::AtLeast(POINTS_GOAL)).print();
    row("the same deltas, starts kept where points have none".to_owned(), &startless)
        .goal(Goal::AtLeast(POINTS_GOAL))
        .print();
    row(format!("the same, each point of a new series, {SERIES} of {} taken", POINTS * REQUESTS), &refused)
        .print();
    overload::run(&bodies[0]);
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(body).expect("to memory");
    encoder.finish().expect("to memory")
}

/// Processor time of an agent for all requests, which `send` sends to one of its addresses: that for HTTP, or that for gRPC. Its
/// metrics say that all spans were taken in.
fn agent(config: &str, taken: Taken, send: impl FnOnce(SocketAddr, SocketAddr)) -> Duration {
    let dir = tempfile::tempdir().expect("a directory");
    let free = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let [http, grpc] = free.each_ref().map(|listener| listener.local_addr().expect("it is bound"));
    drop(free);
    let otlp = format!("{config}[otlp]\nlisten = \"{http}\"\ngrpc = \"{grpc}\"\npatience_ms = 1000");
    let agent = Served::start(AGENT, dir.path(), &otlp);
    let before = agent.cpu();
    send(http, grpc);
    // By the last answer all is handed over; whatever the agent's own thread still has to do counts.
    let mut group = FetchGroup::host(&agent.address.to_string()).expect("it listens");
    let count = group.item::<u64>(taken.metric, taken.instance, Scale::Instant).expect("it is there");
    while {
        group.fetch().expect("it answers");
        group.value(count).expect("a number") < taken.count
    } {
        std::thread::sleep(Duration::from_millis(1));
    }
    agent.cpu() - before
}

/// Sends all over one connection of HTTP/1.1, with these headers.
fn post(address: SocketAddr, path: &str, bodies: &[Vec<u8>], headers: &str) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    // Head and body in two writes would wait for each other.
    stream.set_nodelay(true).expect("a TCP socket");
    let mut answer = [0; 1024];
    for body in bodies {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("the server reads");
        stream.write_all(body).expect("the server reads");
        let read = stream.read(&mut answer).expect("the server answers");
        assert!(answer[..read].starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    }
}

/// Sends all over one connection of gRPC, one call after the other.
fn call(address: SocketAddr, bodies: &[Vec<u8>]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
        stream.set_nodelay(true).expect("a TCP socket");
        let (mut client, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
        let connection = tokio::spawn(connection);
        for body in bodies {
            client = client.ready().await.expect("ready");
            let request = http::Request::post(format!("http://localhost{EXPORT}"))
                .header("content-type", "application/grpc")
                .header("te", "trailers");
            let request = request.body(()).expect("a request");
            let (response, mut send) = client.send_request(request, false).expect("sent");
            // Not compressed, and its length.
            let mut message = vec![0];
            message.extend_from_slice(&(body.len() as u32).to_be_bytes());
            message.extend_from_slice(body);
            // As much as the server lets.
            let mut rest = Bytes::from(message);
            while !rest.is_empty() {
                send.reserve_capacity(rest.len());
                let room = std::future::poll_fn(|context| send.poll_capacity(context)).await;
                let room = room.expect("the stream is open").expect("the server reads").min(rest.len());
                let is_last = room == rest.len();
                send.send_data(rest.split_to(room), is_last).expect("the server reads");
            }
            let mut answer = response.await.expect("an answer").into_body();
            while let Some(data) = answer.data().await {
                let data = data.expect("an answer");
                answer.flow_control().release_capacity(data.len()).expect("it was counted");
            }
            let trailers = answer.trailers().await.expect("an answer").unwrap_or_default();
            assert_eq!(
                trailers.get("grpc-status").map(http::HeaderValue::as_bytes),
                Some(&b"0"[..]),
                "{trailers:?}"
            );
        }
        drop(client);
        connection.await.expect("no panic").expect("a clean end");
    });
}

/// Processor time of decoding all requests into the official types.
fn prost<T: Message + Default>(bodies: &[Vec<u8>]) -> Duration {
    let before = thread_cpu();
    for body in bodies {
        black_box(T::decode(&body[..]).expect("valid"));
    }
    thread_cpu() - before
}
