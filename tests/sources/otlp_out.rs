//! `jumpseat export --otlp`: a real receiver (OpenTelemetry's own Python code over http.server and grpcio) writes down what comes.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use nix::sys::signal::Signal;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status, span};
use prost::Message;
use serde_json::Value as Json;
use support::random::Random;
use support::{Certificates, PcpEnv, PrivatePmcd, Process, eventually, free_port, temp_dir};

use crate::seat::{JUMPSEAT, Seat, Transport};

/// Where ./test puts OpenTelemetry's SDK with its protocol and grpcio, and a collector, rotel.
const SDK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/otlp-sdk");
const RECEIVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sources/otlp_receiver.py");
/// The program that `jumpseat export` starts, so that it is built.
const EXPORT: &str = env!("CARGO_BIN_EXE_jumpseat-export");

/// A receiver that runs.
pub(crate) struct Receiver {
    process: Process,
    port: u16,
}

impl Receiver {
    #[track_caller]
    pub(crate) fn start(dir: &Path, protocol: &str, plan: &[&str]) -> Receiver {
        Receiver::on(free_port(), dir, protocol, plan, &[])
    }

    /// At this port; what an earlier one wrote is kept.
    #[track_caller]
    fn on(port: u16, dir: &Path, protocol: &str, plan: &[&str], env: &[(&str, &str)]) -> Receiver {
        assert!(
            Path::new(SDK).join("opentelemetry").is_dir(),
            "the OpenTelemetry SDK is not in {SDK}: run ./test, which installs it there"
        );
        let mut command = Command::new("python3");
        command.args([RECEIVER, protocol, &port.to_string()]).args(plan).env("PYTHONPATH", SDK);
        command.envs(env.iter().copied());
        let process = Process::start(&mut command, dir, "receiver");
        eventually("the receiver", || TcpStream::connect(("localhost", port)).ok());
        Receiver { process, port }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://localhost:{}", self.port)
    }

    /// The requests that came, in their order.
    fn requests(&self) -> Vec<Json> {
        self.process.stdout().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Those of a kind that were answered in a way.
    pub(crate) fn messages<M: Message + Default>(&self, kind: &str, answers: &[&str]) -> Vec<M> {
        let is = |request: &&Json| {
            request["kind"] == kind && answers.iter().any(|answer| request["answer"] == *answer)
        };
        let raw = |request: &Json| {
            let hex = request["raw"].as_str().expect("hexadecimal");
            let bytes = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16));
            M::decode(&*bytes.collect::<Result<Vec<u8>, _>>().expect("hexadecimal")).expect("protobuf")
        };
        self.requests().iter().filter(is).map(raw).collect()
    }
}

/// A body to the agent's own receiver.
#[track_caller]
pub(crate) fn post(port: u16, path: &str, message: &impl Message) {
    let mut stream = TcpStream::connect(("localhost", port)).expect("the agent listens");
    let body = message.encode_to_vec();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/x-protobuf\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)).expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("answered");
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\n"), "{answer}");
}

/// An archive of a collector's metrics, made by `jumpseat record` while `work` is done, until it has so many records.
#[track_caller]
fn recorded(pmcd: &PrivatePmcd, metrics: &[&str], records: usize, work: impl FnOnce()) -> String {
    let archive = pmcd.dir().join("archive").display().to_string();
    let host = pmcd.inet();
    let mut args = vec!["record", "-q", "-t", "100msec", "-h", &host, &archive];
    args.extend(metrics);
    let mut recorder = pmcd.spawn(JUMPSEAT, args, "recorder");
    eventually("the recorder's first sample", || {
        let label = pmcd.run("pmdumplog", ["-l", &archive]);
        (label.status.success() && std::fs::metadata(format!("{archive}.0")).ok()?.len() > 200).then_some(())
    });
    work();
    eventually("all records in the archive", || {
        let mut args = vec!["export", "-a", &archive, "--json"];
        args.extend(metrics);
        let text = pmcd.run(JUMPSEAT, args).stdout;
        (text.lines().count() >= records).then_some(())
    });
    recorder.signal(Signal::SIGTERM);
    assert!(recorder.wait().success(), "{}", recorder.text());
    archive
}

/// Everything that a span or a log record can have, but for what docs/otel-out.md lists as changed.
struct Maker(Random);

impl Maker {
    fn number(&mut self, below: u64) -> u64 {
        self.0.word() % below
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.number(255) as u8 + 1).collect()
    }

    fn bytes_or_none(&mut self, count: usize) -> Vec<u8> {
        if self.number(2) == 0 { Vec::new() } else { self.bytes(count) }
    }

    fn text(&mut self) -> String {
        const PARTS: [&str; 8] = ["x", "größe", "a b", "\"quoted\"", "日本", "1.5", "true", "[1,2]"];
        (0..self.number(3)).map(|_| self.0.pick(&PARTS)).collect()
    }

    fn any(&mut self) -> Any {
        match self.number(6) {
            0 => Any::BoolValue(self.number(2) == 1),
            1 => Any::IntValue(self.number(u64::MAX - 1).cast_signed()),
            2 => Any::IntValue(self.number(2).cast_signed()),
            3 => Any::DoubleValue(self.number(1 << 50) as f64 / 1024.0),
            4 => Any::DoubleValue(self.number(3) as f64),
            _ => Any::StringValue(self.text()),
        }
    }

    fn attributes(&mut self) -> Vec<KeyValue> {
        const NAMES: [&str; 9] =
            ["http.route", "http-route", "http_route", "9lives", "größe", "x.", "a b", "k8s.pod/name", "_"];
        let first = self.number(9) as usize;
        (0..self.number(6) as usize).map(|at| pair(NAMES[(first + at) % NAMES.len()], self.any())).collect()
    }

    fn time(&mut self) -> u64 {
        1_790_000_000_000_000_000 + self.number(1_000_000_000_000)
    }

    fn scope(&mut self, number: u64) -> Option<InstrumentationScope> {
        (number > 0).then(|| InstrumentationScope {
            name: format!("lib {number}"),
            version: if number > 1 { "1.2".to_owned() } else { String::new() },
            ..InstrumentationScope::default()
        })
    }

    fn span(&mut self) -> Span {
        let start = self.time();
        let end = start + self.number(1_000_000_000);
        let code = self.number(3) as i32;
        let message = if code == 2 { self.text() } else { String::new() };
        let events = self.number(4) as usize;
        let links = self.number(3) as usize;
        Span {
            trace_id: self.bytes(16),
            span_id: self.bytes(8),
            trace_state: ["", "a=b,c=d"][self.number(2) as usize].to_owned(),
            parent_span_id: self.bytes_or_none(8),
            flags: self.number(0x400) as u32,
            name: self.text(),
            kind: self.number(6) as i32,
            start_time_unix_nano: start,
            end_time_unix_nano: end,
            attributes: self.attributes(),
            dropped_attributes_count: self.number(3) as u32,
            events: (0..events)
                .map(|_| span::Event {
                    time_unix_nano: start + self.number(1000),
                    name: self.text(),
                    attributes: self.attributes(),
                    dropped_attributes_count: self.number(3) as u32,
                })
                .collect(),
            dropped_events_count: self.number(3) as u32,
            links: (0..links)
                .map(|_| span::Link {
                    trace_id: self.bytes(16),
                    span_id: self.bytes(8),
                    trace_state: ["", "x=y"][self.number(2) as usize].to_owned(),
                    attributes: self.attributes(),
                    dropped_attributes_count: self.number(3) as u32,
                    flags: self.number(0x400) as u32,
                })
                .collect(),
            dropped_links_count: self.number(3) as u32,
            status: (code != 0).then_some(Status { message, code }),
        }
    }

    fn log(&mut self) -> LogRecord {
        let body = self.text();
        LogRecord {
            time_unix_nano: self.time(),
            observed_time_unix_nano: [0, self.time()][self.number(2) as usize],
            severity_number: self.number(25) as i32,
            severity_text: ["", "INFO", "warn", "Fatal", "my own"][self.number(5) as usize].to_owned(),
            body: (!body.is_empty()).then_some(AnyValue { value: Some(Any::StringValue(body)) }),
            attributes: self.attributes(),
            dropped_attributes_count: self.number(3) as u32,
            flags: self.number(0x200) as u32,
            trace_id: self.bytes_or_none(16),
            span_id: self.bytes_or_none(8),
            event_name: ["", "device.crash"][self.number(2) as usize].to_owned(),
        }
    }
}

pub(crate) fn pair(key: &str, value: Any) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn resource(number: u64) -> Resource {
    let attributes = vec![
        pair("service.name", Any::StringValue(format!("shop {number}"))),
        pair("service.instance.id", Any::StringValue("pod-7".to_owned())),
        pair("k8s.pod-name/x", Any::StringValue("größe \"q\"".to_owned())),
        pair("hostname", Any::StringValue("theirs".to_owned())),
        pair("process.pid", Any::IntValue(4711)),
        pair("share", Any::DoubleValue(2.0)),
        pair("canary", Any::BoolValue(true)),
    ];
    Resource { attributes, ..Resource::default() }
}

/// With all around it, by what tells it from others, so that two sides can be compared whatever their order.
type Whole<T> = BTreeMap<String, (Resource, String, Option<InstrumentationScope>, String, T)>;

fn spans(requests: &[ExportTraceServiceRequest]) -> Whole<Span> {
    let mut all = Whole::new();
    for group in requests.iter().flat_map(|request| &request.resource_spans) {
        for scope in &group.scope_spans {
            for span in &scope.spans {
                let whole = (
                    group.resource.clone().expect("a resource"),
                    group.schema_url.clone(),
                    scope.scope.clone(),
                    scope.schema_url.clone(),
                    span.clone(),
                );
                assert!(all.insert(format!("{:02x?}", span.span_id), whole).is_none(), "twice: {span:?}");
            }
        }
    }
    all
}

fn logs(requests: &[ExportLogsServiceRequest]) -> Whole<LogRecord> {
    let mut all = Whole::new();
    for group in requests.iter().flat_map(|request| &request.resource_logs) {
        for scope in &group.scope_logs {
            for log in &scope.log_records {
                let whole = (
                    group.resource.clone().expect("a resource"),
                    group.schema_url.clone(),
                    scope.scope.clone(),
                    scope.schema_url.clone(),
                    log.clone(),
                );
                assert!(all.insert(log.time_unix_nano.to_string(), whole).is_none(), "twice: {log:?}");
            }
        }
    }
    all
}

#[test]
fn spans_and_logs_come_out_of_an_archive_as_they_came_in() {
    let dir = temp_dir();
    let port = free_port();
    let seat = Seat::in_dir(dir.path(), &format!("[otlp]\nlisten = \"localhost:{port}\"\n"));
    let pmcd = PrivatePmcd::with([seat.agent(Transport::Pipe)]).start();
    eventually("the agent's receiver", || TcpStream::connect(("localhost", port)).ok());
    let mut maker = Maker(Random::new(15, 0));
    let schema = |number: u64| ["", "https://opentelemetry.io/schemas/1.30.0"][number as usize].to_owned();
    let sent_spans: Vec<ExportTraceServiceRequest> = (0..20)
        .map(|number| ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(resource(number % 3)),
                schema_url: schema(number % 2),
                scope_spans: vec![ScopeSpans {
                    scope: maker.scope(number % 3),
                    schema_url: schema(number / 2 % 2),
                    spans: (0..10).map(|_| maker.span()).collect(),
                }],
            }],
        })
        .collect();
    let sent_logs: Vec<ExportLogsServiceRequest> = (0..20)
        .map(|number| ExportLogsServiceRequest {
            resource_logs: vec![ResourceLogs {
                resource: Some(resource(number % 3)),
                schema_url: schema(number % 2),
                scope_logs: vec![ScopeLogs {
                    scope: maker.scope(number % 3),
                    schema_url: schema(number / 2 % 2),
                    log_records: (0..10).map(|_| maker.log()).collect(),
                }],
            }],
        })
        .collect();
    let events: usize = spans(&sent_spans).values().map(|whole| whole.4.events.len()).sum();
    let records = 2 * 200 + events + 200;
    let metric = "jumpseat.event.highres_records";
    let archive = recorded(&pmcd, &[metric], records, || {
        sent_spans.iter().for_each(|request| post(port, "/v1/traces", request));
        sent_logs.iter().for_each(|request| post(port, "/v1/logs", request));
    });
    for protocol in ["http", "grpc"] {
        let dir = temp_dir();
        let receiver = Receiver::start(dir.path(), protocol, &[]);
        pmcd.run(
            JUMPSEAT,
            ["export", "-a", &archive, "--otlp", &receiver.url(), "--protocol", protocol, metric],
        )
        .ok();
        let (back_spans, back_logs) =
            (spans(&receiver.messages("traces", &["ok"])), logs(&receiver.messages("logs", &["ok"])));
        for (id, sent) in spans(&sent_spans) {
            assert_eq!(back_spans.get(&id), Some(&sent), "{protocol}");
        }
        for (id, sent) in logs(&sent_logs) {
            assert_eq!(back_logs.get(&id), Some(&sent), "{protocol}");
        }
        assert_eq!((back_spans.len(), back_logs.len()), (200, 200));
    }
}

/// A program is deployed anew, and is the same source: what it says of itself then goes out with what it sends then.
#[test]
fn a_resource_that_changes_goes_out_live_from_then_on() {
    let dir = temp_dir();
    let port = free_port();
    let seat = Seat::in_dir(dir.path(), &format!("[otlp]\nlisten = \"localhost:{port}\"\n"));
    let pmcd = PrivatePmcd::with([seat.agent(Transport::Pipe)]).start();
    eventually("the agent's receiver", || TcpStream::connect(("localhost", port)).ok());
    let pods = ["old", "new"].map(|pod| pair("k8s.pod.name", Any::StringValue(pod.to_owned())));
    let send = |pod: &KeyValue, message: &str| {
        let service = pair("service.name", Any::StringValue("shop".to_owned()));
        let resource = Resource { attributes: vec![service, pod.clone()], ..Resource::default() };
        let body = Some(AnyValue { value: Some(Any::StringValue(message.to_owned())) });
        let scope_logs = ScopeLogs {
            log_records: vec![LogRecord { body, ..LogRecord::default() }],
            ..ScopeLogs::default()
        };
        let resource_logs = vec![ResourceLogs {
            resource: Some(resource),
            scope_logs: vec![scope_logs],
            ..ResourceLogs::default()
        }];
        post(port, "/v1/logs", &ExportLogsServiceRequest { resource_logs });
    };
    // So that the source is there, and nothing else of it changes.
    send(&pods[0], "before");
    let receiver = Receiver::start(dir.path(), "http", &[]);
    let (host, url) = (pmcd.inet(), receiver.url());
    let args = ["export", "-h", &host, "-t", "100msec", "--otlp", &url, "jumpseat.event.highres_records"];
    let mut exporter = pmcd.spawn(JUMPSEAT, args, "exporter");
    eventually("the exporter to fetch", || {
        let text = pmcd.run("pminfo", ["-f", "jumpseat.source.readers"]).stdout;
        text.contains("or \"shop\"] value 1").then_some(())
    });
    for (number, pod) in pods.iter().enumerate() {
        send(pod, &format!("number {number}"));
        eventually("the record", || (numbers(&receiver).len() > number).then_some(()));
    }
    exporter.signal(Signal::SIGTERM);
    assert!(exporter.wait().success(), "{}", exporter.text());
    let logs = receiver.messages::<ExportLogsServiceRequest>("logs", &["ok"]);
    let groups = logs.iter().flat_map(|request| &request.resource_logs);
    let attributes = groups.filter_map(|group| group.resource.as_ref()).map(|of| &of.attributes);
    let found: Vec<&KeyValue> = attributes.flatten().filter(|pair| pair.key == pods[0].key).collect();
    assert_eq!(found, pods.iter().collect::<Vec<_>>());
}

/// `(metric, instance, time, value)` of all points that were taken, sorted.
fn points(receiver: &Receiver, answers: &[&str]) -> Vec<(String, String, String, String)> {
    let mut all = Vec::new();
    for request in receiver.requests() {
        if request["kind"] != "metrics" || !answers.iter().any(|answer| request["answer"] == *answer) {
            continue;
        }
        for group in list(&request["message"]["resourceMetrics"]) {
            for metric in group["scopeMetrics"]
                .as_array()
                .into_iter()
                .flatten()
                .flat_map(|scope| list(&scope["metrics"]))
            {
                let data = if metric["sum"].is_null() { &metric["gauge"] } else { &metric["sum"] };
                for point in list(&data["dataPoints"]) {
                    let instance = list(&point["attributes"])
                        .find(|pair| pair["key"] == "pcp.instance")
                        .map_or("", |pair| pair["value"]["stringValue"].as_str().expect("a name"));
                    let value = match &point["asInt"] {
                        Json::Null => point["asDouble"].to_string(),
                        text => text.as_str().expect("a number as text").to_owned(),
                    };
                    let text = |value: &Json| value.as_str().expect("text").to_owned();
                    all.push((
                        text(&metric["name"]),
                        instance.to_owned(),
                        text(&point["timeUnixNano"]),
                        value,
                    ));
                }
            }
        }
    }
    all.sort();
    all
}

fn list(value: &Json) -> impl Iterator<Item = &Json> {
    value.as_array().into_iter().flatten()
}

/// The metrics of these tests: counters and others, with instances and without.
const METRICS: [&str; 4] = ["sample.bin", "sample.long.write_me", "sample.double.bin", "sample.seconds"];

#[test]
fn every_value_of_an_archive_goes_out_once_whatever_the_receiver_answers() {
    let pmcd = PrivatePmcd::with([support::AgentSpec::sample()]).start();
    let archive = recorded(&pmcd, &METRICS, 100, || ());
    let export = |receiver: &Receiver, more: &[&str]| {
        let url = receiver.url();
        let mut args = vec!["export", "-a", &archive, "--otlp", &url, "--give-up", "20sec"];
        args.extend(more);
        args.extend(METRICS);
        args.push("twice = 2 * sample.double.bin");
        pmcd.run(JUMPSEAT, args)
    };
    let plain = temp_dir();
    let receiver = Receiver::start(plain.path(), "grpc", &[]);
    let report = export(&receiver, &["--protocol", "grpc", "--no-gzip"]);
    assert!(report.status.success(), "{report}");
    let all = points(&receiver, &["ok"]);
    // As the text formats have it.
    let mut args = vec!["export", "-a", &archive, "--csv"];
    args.extend(METRICS);
    args.push("twice = 2 * sample.double.bin");
    let csv = pmcd.run(JUMPSEAT, args).ok();
    let mut expected: Vec<(String, String, String)> = csv
        .lines()
        .skip(1)
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            (cells[2].to_owned(), cells[3].to_owned(), number(cells[4]))
        })
        .collect();
    expected.sort();
    let mut values: Vec<_> =
        all.iter().map(|(metric, inst, _, value)| (metric.clone(), inst.clone(), number(value))).collect();
    values.sort();
    assert!(values.len() > 100);
    assert_eq!(values, expected);
    // What a counter is, and what its unit and host are.
    let request = receiver.requests().into_iter().next().expect("one");
    let group = &request["message"]["resourceMetrics"][0];
    let metric = |name: &str| {
        list(&group["scopeMetrics"][0]["metrics"])
            .find(|metric| metric["name"] == name)
            .cloned()
            .expect("there")
    };
    assert_eq!(metric("sample.seconds")["unit"], "s");
    assert_eq!(metric("sample.seconds")["sum"]["isMonotonic"], true);
    assert_eq!(
        metric("sample.seconds")["sum"]["aggregationTemporality"],
        "AGGREGATION_TEMPORALITY_CUMULATIVE"
    );
    assert!(metric("sample.bin")["gauge"].is_object());
    assert!(list(&group["resource"]["attributes"]).any(|pair| pair["key"] == "host.name"));

    for protocol in ["http", "grpc"] {
        // Not now, then slowly, then gone; nothing is lost or taken twice.
        let dir = temp_dir();
        let receiver = Receiver::start(dir.path(), protocol, &["later=1", "slow=1"]);
        let report = export(&receiver, &["--protocol", protocol]);
        assert!(report.status.success(), "{report}");
        assert_eq!(points(&receiver, &["ok", "slow"]), all, "{protocol}");
        assert!(receiver.requests().iter().any(|request| request["answer"] == "later"));

        // In part: what it rejects is told and not sent again.
        let dir = temp_dir();
        let receiver = Receiver::start(dir.path(), protocol, &["partial=7"]);
        let report = export(&receiver, &["--protocol", protocol]);
        assert_eq!(report.status.code(), Some(1), "{report}");
        assert!(report.stderr.contains("7 items rejected"), "{report}");
        assert!(report.stderr.contains("too many of them"), "{report}");
        assert_eq!(points(&receiver, &["ok", "partial"]), all, "{protocol}");

        // Not at all.
        for (word, part) in [("refuse", "refused"), ("bar", "takes nothing")] {
            let dir = temp_dir();
            let receiver = Receiver::start(dir.path(), protocol, &[word]);
            let report = export(&receiver, &["--protocol", protocol]);
            assert_eq!(report.status.code(), Some(1), "{report}");
            assert!(report.stderr.contains(part), "{report}");
            assert_eq!(receiver.requests().iter().filter(|request| request["answer"] == word).count(), 1);
        }
    }
    // A connection that ends without an answer.
    let dir = temp_dir();
    let receiver = Receiver::start(dir.path(), "http", &["silent"]);
    let report = export(&receiver, &[]);
    assert!(report.status.success(), "{report}");
    assert_eq!(points(&receiver, &["ok"]), all);
}

#[test]
fn a_collector_takes_metrics_and_passes_them_on() {
    let pmcd = PrivatePmcd::with([support::AgentSpec::sample()]).start();
    let archive = recorded(&pmcd, &METRICS, 50, || ());
    let mut taken = Vec::new();
    for protocol in ["http", "grpc"] {
        let dir = temp_dir();
        let receiver = Receiver::start(dir.path(), "http", &[]);
        let [grpc, http] = [free_port(), free_port()];
        let mut command = Command::new(Path::new(SDK).join("rotel/rotel-agent"));
        command.args(["start", "--exporter", "otlp", "--otlp-exporter-protocol", "http"]);
        command.args(["--otlp-exporter-endpoint", &receiver.url()]);
        command.args(["--otlp-grpc-endpoint", &format!("localhost:{grpc}")]);
        command.args(["--otlp-http-endpoint", &format!("localhost:{http}")]);
        let _collector = Process::start(&mut command, dir.path(), "rotel");
        let port = if protocol == "grpc" { grpc } else { http };
        eventually("the collector", || TcpStream::connect(("localhost", port)).ok());
        let url = format!("http://localhost:{port}");
        let mut args = vec!["export", "-a", &archive, "--otlp", &url, "--protocol", protocol];
        args.extend(METRICS);
        let report = pmcd.run(JUMPSEAT, args);
        assert!(report.status.success(), "{report}");
        let words: Vec<&str> = report.stderr.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "points,").expect("how many were taken");
        let count: usize = words[at - 1].parse().expect("a number");
        assert!(count >= 50);
        eventually("all points behind the collector", || {
            (points(&receiver, &["ok"]).len() >= count).then_some(())
        });
        taken.push(points(&receiver, &["ok"]));
    }
    assert_eq!(taken[0], taken[1]);
}

/// A number in one form.
fn number(text: &str) -> String {
    text.parse::<f64>().map_or_else(|_| text.to_owned(), |number| number.to_string())
}

#[test]
fn https_takes_a_certificate_and_a_token() {
    let pmcd = PrivatePmcd::with([support::AgentSpec::sample()]).start();
    let archive = recorded(&pmcd, &["sample.bin"], 9, || ());
    let certificates = Certificates::new();
    let dir = temp_dir();
    let token = dir.path().join("token");
    std::fs::write(&token, "s3cret\n").expect("the directory is writable");
    let tls = format!("{},{}", certificates.text("pcp.crt"), certificates.text("pcp.key"));
    let env = [("OTLP_TLS", tls.as_str()), ("OTLP_TOKEN", "s3cret")];
    let receiver = Receiver::on(free_port(), dir.path(), "http", &[], &env);
    let url = format!("https://localhost:{}", receiver.port);
    let (ca, token) = (certificates.text("ca.crt"), token.display().to_string());
    let export = |more: &[&str]| {
        let mut args = vec!["export", "-a", &archive, "--otlp", &url, "--give-up", "1sec"];
        args.extend(more);
        args.push("sample.bin");
        pmcd.run(EXPORT, args[1..].iter())
    };
    // An authority that nobody knows, no token, both.
    let report = export(&["--token-file", &token]).fails(1);
    assert!(report.contains("certificate"), "{report}");
    let report = export(&["--ca", &ca]).fails(1);
    assert!(report.contains("401"), "{report}");
    export(&["--ca", &ca, "--token-file", &token, "--header", "x-tenant=shop"]).ok();
    let taken: Vec<Json> =
        receiver.requests().into_iter().filter(|request| request["answer"] == "ok").collect();
    assert_eq!(taken[0]["headers"]["x-tenant"], "shop");
    assert!(!points(&receiver, &["ok"]).is_empty());
}

/// The numbers in the bodies of the log records that were taken.
fn numbers(receiver: &Receiver) -> Vec<u64> {
    let requests = receiver.messages::<ExportLogsServiceRequest>("logs", &["ok"]);
    let groups = requests.into_iter().flat_map(|request| request.resource_logs);
    let logs = groups.flat_map(|group| group.scope_logs).flat_map(|scope| scope.log_records);
    logs.filter_map(|log| match log.body?.value? {
        Any::StringValue(text) => text.strip_prefix("number ")?.parse().ok(),
        _ => None,
    })
    .collect()
}

#[test]
fn records_go_out_once_while_receivers_die_and_exports_end() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let endpoint = seat.serve([]);
    let mut fed = 0;
    let mut feed = |count: u64| {
        let lines: String =
            (fed..fed + count).map(|n| format!("{{\"type\":\"t\",\"message\":\"number {n}\"}}\n")).collect();
        fed += count;
        seat.feed([], &lines).ok();
    };
    let port = free_port();
    let state = dir.path().join("state").display().to_string();
    let host = endpoint.host();
    let url = format!("http://localhost:{port}");
    let export = |name: &str| {
        let mut command = PcpEnv::new().command(JUMPSEAT);
        command.args(["export", "-h", &host, "-t", "100msec", "--otlp", &url, "--state", &state]);
        command.args(["--flush", "2sec", "jumpseat.event.highres_records"]);
        Process::start(&mut command, dir.path(), name)
    };
    let receive = |plan: &[&str]| Receiver::on(port, dir.path(), "http", plan, &[]);
    let all = |receiver: &Receiver, count: u64| {
        eventually("all records", || (numbers(receiver).len() as u64 >= count).then_some(()));
        let mut found = numbers(receiver);
        found.sort_unstable();
        assert_eq!(found, (0..count).collect::<Vec<_>>());
    };
    // So that the source is there.
    seat.feed([], "{\"type\":\"t\",\"message\":\"before\"}\n").ok();
    let receiver = receive(&["ok", "later=1", "ok", "die"]);
    let mut exporter = export("export1");
    eventually("the exporter to fetch", || {
        let text = endpoint.run("pminfo", ["-f", "jumpseat.source.readers"]).stdout;
        text.contains("or \"test\"] value 1").then_some(())
    });
    feed(50);
    all(&receiver, 50);
    feed(50);
    all(&receiver, 100);
    // The receiver dies in the middle of the next request, and another one takes its place.
    feed(50);
    eventually("the receiver to die", || TcpStream::connect(("localhost", port)).is_err().then_some(()));
    let receiver = receive(&[]);
    all(&receiver, 150);
    // The exporter ends in order, more comes, another exporter goes on.
    exporter.signal(Signal::SIGTERM);
    assert!(exporter.wait().success(), "{}", exporter.text());
    feed(50);
    let mut exporter = export("export2");
    all(&receiver, 200);
    // It is killed while nobody takes anything.
    drop(receiver);
    feed(50);
    exporter.signal(Signal::SIGKILL);
    exporter.wait();
    let receiver = receive(&[]);
    feed(10);
    let mut exporter = export("export3");
    all(&receiver, 260);
    // What nobody takes is told at the end, in time.
    drop(receiver);
    feed(10);
    eventually("the exporter to try", || exporter.text().contains("will be sent again").then_some(()));
    exporter.signal(Signal::SIGTERM);
    assert_eq!(exporter.wait().code(), Some(1), "{}", exporter.text());
    assert!(exporter.text().contains("10 items not sent"), "{}", exporter.text());
    let receiver = receive(&[]);
    let mut exporter = export("export4");
    all(&receiver, 270);
    exporter.signal(Signal::SIGTERM);
    assert!(exporter.wait().success(), "{}", exporter.text());
}

/// Records that nobody has taken when the first export is killed come with the next one: with a source that was there at the first
/// answer, and with one that was not.
#[test]
fn what_comes_after_the_first_answer_is_not_lost_with_an_export_that_nobody_answered() {
    for has_source in [true, false] {
        let dir = temp_dir();
        let seat = Seat::in_dir(dir.path(), "");
        let endpoint = seat.serve([]);
        let (port, host) = (free_port(), endpoint.host());
        let state = dir.path().join("state");
        let export = |name: &str| {
            let mut command = PcpEnv::new().command(JUMPSEAT);
            command.args(["export", "-h", &host, "-t", "100msec", "--flush", "2sec"]);
            command.args(["--otlp", &format!("http://localhost:{port}"), "--state"]).arg(&state);
            command.arg("jumpseat.event.highres_records");
            Process::start(&mut command, dir.path(), name)
        };
        let feed = |message: &str| {
            seat.feed([], &format!("{{\"type\":\"t\",\"message\":\"{message}\"}}\n")).ok();
        };
        if has_source {
            feed("before");
        }
        let mut exporter = export("export1");
        eventually("the state of the first answer", || state.exists().then_some(()));
        (0..10).for_each(|number| feed(&format!("number {number}")));
        eventually("a request that nobody takes", || {
            exporter.text().contains("will be sent again").then_some(())
        });
        exporter.signal(Signal::SIGKILL);
        exporter.wait();
        (10..20).for_each(|number| feed(&format!("number {number}")));
        let receiver = Receiver::on(port, dir.path(), "http", &[], &[]);
        let mut exporter = export("export2");
        eventually("all records", || (numbers(&receiver).len() >= 20).then_some(()));
        exporter.signal(Signal::SIGTERM);
        assert!(exporter.wait().success(), "{}", exporter.text());
        assert_eq!(numbers(&receiver), (0..20).collect::<Vec<_>>(), "has_source: {has_source}");
        let logs = receiver.messages::<ExportLogsServiceRequest>("logs", &["ok"]);
        let count: usize = logs
            .iter()
            .flat_map(|request| &request.resource_logs)
            .flat_map(|group| &group.scope_logs)
            .map(|scope| scope.log_records.len())
            .sum();
        assert_eq!(count, 20, "what was there before the first export is not exported");
    }
}
