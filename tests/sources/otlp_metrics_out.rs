//! Metrics that come by OTLP, are recorded, and go out by OTLP and OpenMetrics as they came: names, units, attributes, resources,
//! scopes, values, and what kind of metric it is. `docs/otel-out.md` lists what comes back changed.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpStream;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::exemplar;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::summary_data_point::ValueAtQuantile;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Exemplar, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram,
    HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, Summary,
    SummaryDataPoint,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use support::random::Random;
use support::{PrivatePmcd, eventually, free_port, temp_dir};

use crate::otlp_out::{Receiver, pair, post};
use crate::seat::{JUMPSEAT, Seat, Transport};

/// Where ./test puts Prometheus' own parser.
const LAKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/lake-python");
/// Values, exemplars, and when sums began.
const ROOTS: [&str; 3] = ["jumpseat.otel", "jumpseat.otel_exemplar", "jumpseat.otel_start"];
const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;
/// Names that PCP's rules change, and some that they do not.
const NAMES: [&str; 10] = [
    "http.server.request.duration",
    "queue-depth",
    "9lives.x_y",
    "größe",
    "a..b",
    "a",
    "x_",
    "jvm.gc/pause",
    "total_",
    "a.b",
];
/// Units that PCP has, and some that it does not.
const UNITS: [&str; 8] = ["s", "ms", "By", "{request}", "kBy", "Cel", "1", ""];

struct Maker(Random);

impl Maker {
    fn number(&mut self, below: u64) -> u64 {
        self.0.word() % below
    }

    fn double(&mut self) -> f64 {
        self.number(1 << 40) as f64 / 1024.0 + 0.25
    }

    fn text(&mut self) -> String {
        const PARTS: [&str; 8] = ["x", "größe", "a b", "\"q\"", "{y}", "1.5", "true", "a=b,c%20"];
        (0..=self.number(2)).map(|_| self.0.pick(&PARTS)).collect()
    }

    fn any(&mut self) -> Any {
        match self.number(5) {
            0 => Any::BoolValue(self.number(2) == 1),
            1 => Any::IntValue(self.number(u64::MAX - 1).cast_signed()),
            2 => Any::DoubleValue(self.double()),
            3 => Any::DoubleValue(self.number(4) as f64),
            _ => Any::StringValue(self.text()),
        }
    }

    /// With the number, so that each set is another one.
    fn attributes(&mut self, number: usize) -> Vec<KeyValue> {
        const NAMES: [&str; 7] =
            ["http.route", "http-method", "9lives", "größe", "a b", "k8s.pod/x", "x=y,z"];
        let first = self.number(7) as usize;
        let more = (0..self.number(4) as usize).map(|at| pair(NAMES[(first + at) % 7], self.any()));
        let mut all: Vec<KeyValue> = more.collect();
        if number > 0 {
            all.push(pair("number", Any::IntValue(number as i64)));
        }
        all
    }

    fn counts(&mut self, count: usize) -> Vec<u64> {
        (0..count).map(|_| self.number(100)).collect()
    }

    /// One, or none; each is another one.
    fn exemplars(&mut self, time: u64) -> Vec<Exemplar> {
        let value = match self.number(3) {
            0 => return Vec::new(),
            1 => exemplar::Value::AsInt(self.number(1000).cast_signed() - 500),
            _ => exemplar::Value::AsDouble(self.number(1000) as f64 / 2.0),
        };
        let trace = [self.number(u64::MAX).to_be_bytes(), self.number(u64::MAX).to_be_bytes()].concat();
        vec![Exemplar {
            time_unix_nano: time - self.number(1 << 30),
            value: Some(value),
            span_id: trace[4..12].to_vec(),
            trace_id: trace,
            ..Exemplar::default()
        }]
    }

    /// Points of a metric: one for each set of attributes.
    fn data(&mut self, kind: usize, time: u64) -> Data {
        const POINTS: usize = 3;
        let start = time - 1_000_000_000;
        let numbers = |maker: &mut Maker, value: &dyn Fn(&mut Maker) -> Value| -> Vec<NumberDataPoint> {
            let point = |number| NumberDataPoint {
                attributes: maker.attributes(number),
                start_time_unix_nano: start - maker.number(1000),
                time_unix_nano: time,
                value: Some(value(maker)),
                exemplars: maker.exemplars(time),
                ..NumberDataPoint::default()
            };
            (0..POINTS).map(point).collect()
        };
        let whole = |maker: &mut Maker| Value::AsInt((maker.number(1 << 62)).cast_signed());
        let signed = |maker: &mut Maker| Value::AsInt(maker.number(1 << 62).cast_signed() - (1 << 61));
        let double = |maker: &mut Maker| Value::AsDouble(maker.double());
        let sum = |data_points, is_monotonic| {
            Data::Sum(Sum { data_points, is_monotonic, aggregation_temporality: CUMULATIVE })
        };
        match kind {
            0 => Data::Gauge(Gauge {
                data_points: numbers(self, &|maker| Value::AsDouble(1000.0 - maker.double())),
            }),
            1 => sum(numbers(self, &whole), true),
            2 => sum(numbers(self, &double), true),
            3 => sum(numbers(self, &signed), false),
            4 => sum(numbers(self, &double), false),
            5 => Data::Histogram(Histogram {
                data_points: (0..POINTS).map(|number| self.histogram(number, start, time)).collect(),
                aggregation_temporality: CUMULATIVE,
            }),
            6 => Data::ExponentialHistogram(ExponentialHistogram {
                data_points: (0..POINTS).map(|number| self.exponential(number, start, time)).collect(),
                aggregation_temporality: CUMULATIVE,
            }),
            _ => Data::Summary(Summary {
                data_points: (0..POINTS).map(|number| self.summary(number, start, time)).collect(),
            }),
        }
    }

    fn histogram(&mut self, number: usize, start: u64, time: u64) -> HistogramDataPoint {
        let bounds: &[f64] = self.0.pick(&[&[][..], &[0.005, 0.01, 0.1, 1.0, 2.5], &[-1.0, 0.0, 1e9]]);
        let bucket_counts = self.counts(bounds.len() + 1);
        HistogramDataPoint {
            attributes: self.attributes(number),
            start_time_unix_nano: start,
            time_unix_nano: time,
            count: bucket_counts.iter().sum(),
            sum: (self.number(3) > 0).then(|| self.double()),
            explicit_bounds: bounds.to_vec(),
            bucket_counts,
            min: (self.number(2) > 0).then(|| self.double()),
            max: (self.number(2) > 0).then(|| self.double()),
            exemplars: self.exemplars(time),
            ..HistogramDataPoint::default()
        }
    }

    fn exponential(&mut self, number: usize, start: u64, time: u64) -> ExponentialHistogramDataPoint {
        let scale = self.number(7) as i32 - 3;
        let side = |maker: &mut Maker| {
            let mut counts = maker.counts(5);
            // Empty ones within, and none at the ends, which nobody would see.
            counts[2] = 0;
            counts.iter_mut().step_by(4).for_each(|count| *count += 1);
            Buckets { offset: maker.number(40) as i32 - 20, bucket_counts: counts }
        };
        let positive = (self.number(4) > 0).then(|| side(self));
        let negative = (self.number(3) == 0).then(|| side(self));
        let zero_count = self.number(9);
        let sides = [&positive, &negative].into_iter().flatten();
        let count = zero_count + sides.flat_map(|side| &side.bucket_counts).sum::<u64>();
        ExponentialHistogramDataPoint {
            attributes: self.attributes(number),
            start_time_unix_nano: start,
            time_unix_nano: time,
            count,
            sum: (self.number(3) > 0).then(|| self.double()),
            scale,
            zero_count,
            positive,
            negative,
            min: (self.number(2) > 0).then(|| self.double()),
            max: (self.number(2) > 0).then(|| self.double()),
            exemplars: self.exemplars(time),
            ..ExponentialHistogramDataPoint::default()
        }
    }

    fn summary(&mut self, number: usize, start: u64, time: u64) -> SummaryDataPoint {
        let quantiles: &[f64] = self.0.pick(&[&[0.5, 0.99, 1.0][..], &[0.0, 0.9]]);
        SummaryDataPoint {
            attributes: self.attributes(number),
            start_time_unix_nano: start,
            time_unix_nano: time,
            count: self.number(1000),
            sum: self.double(),
            quantile_values: quantiles
                .iter()
                .map(|&quantile| ValueAtQuantile { quantile, value: self.double() })
                .collect(),
            ..SummaryDataPoint::default()
        }
    }
}

fn resource(number: usize) -> Resource {
    let text = |text: &str| Any::StringValue(text.to_owned());
    let mut attributes = match number {
        // One that an instance's id identifies, one whose attributes do, one without a name.
        0 => vec![
            pair("service.namespace", text("eu/west")),
            pair("service.name", text("shop")),
            pair("service.instance.id", text("pod@7")),
            pair("process.pid", Any::IntValue(4711)),
            pair("share", Any::DoubleValue(2.0)),
        ],
        1 => vec![pair("service.name", text("shop 1")), pair("canary", Any::BoolValue(true))],
        _ => Vec::new(),
    };
    attributes.push(pair("k8s.pod-name/x", text("größe \"q\"")));
    attributes.push(pair("telemetry.sdk.name", text("opentelemetry")));
    Resource { attributes, ..Resource::default() }
}

fn scope(number: usize) -> Option<InstrumentationScope> {
    (number > 0).then(|| InstrumentationScope {
        name: format!("lib {number}"),
        version: if number > 1 { "1.2".to_owned() } else { String::new() },
        ..InstrumentationScope::default()
    })
}

/// Points by all that tells them apart, without their own times and exemplars: what they are, and when they began, is in the text.
type Whole = BTreeMap<String, String>;

/// All points of requests; later ones take the place of earlier ones.
fn whole(requests: &[ExportMetricsServiceRequest]) -> Whole {
    let mut all = Whole::new();
    for group in requests.iter().flat_map(|request| &request.resource_metrics) {
        let resource = sorted(&group.resource.clone().unwrap_or_default().attributes);
        for scoped in &group.scope_metrics {
            for metric in &scoped.metrics {
                let Metric { name, description, unit, data, .. } = metric;
                let about = format!("{resource} {:?} {name:?} {unit:?} {description:?}", scoped.scope);
                let mut add = |attributes: &[KeyValue], point: String| {
                    all.insert(format!("{about} {}", sorted(attributes)), point);
                };
                let numbers =
                    |points: &[NumberDataPoint], kind: &str, add: &mut dyn FnMut(&[KeyValue], String)| {
                        for point in points {
                            // The start of a gauge tells nothing.
                            let start = if kind == "gauge" { 0 } else { point.start_time_unix_nano };
                            add(&point.attributes, format!("{kind} {:?} {start}", point.value));
                        }
                    };
                match data.as_ref().expect("data") {
                    Data::Gauge(gauge) => numbers(&gauge.data_points, "gauge", &mut add),
                    Data::Sum(sum) => {
                        let kind = format!("sum {} {}", sum.aggregation_temporality, sum.is_monotonic);
                        numbers(&sum.data_points, &kind, &mut add);
                    }
                    Data::Histogram(histogram) => {
                        for point in &histogram.data_points {
                            let mut own = HistogramDataPoint { time_unix_nano: 0, ..point.clone() };
                            (own.exemplars, own.attributes) = (Vec::new(), Vec::new());
                            add(&point.attributes, format!("{} {own:?}", histogram.aggregation_temporality));
                        }
                    }
                    Data::ExponentialHistogram(histogram) => {
                        for point in &histogram.data_points {
                            let mut own =
                                ExponentialHistogramDataPoint { time_unix_nano: 0, ..point.clone() };
                            (own.exemplars, own.attributes) = (Vec::new(), Vec::new());
                            add(&point.attributes, format!("{} {own:?}", histogram.aggregation_temporality));
                        }
                    }
                    Data::Summary(summary) => {
                        for point in &summary.data_points {
                            let mut own = SummaryDataPoint { time_unix_nano: 0, ..point.clone() };
                            own.attributes = Vec::new();
                            add(&point.attributes, format!("{own:?}"));
                        }
                    }
                }
            }
        }
    }
    all
}

/// All exemplars, with the name of their metric and the attributes of their series.
fn exemplars(requests: &[ExportMetricsServiceRequest]) -> Vec<String> {
    let mut all = Vec::new();
    let groups = requests.iter().flat_map(|request| &request.resource_metrics);
    for metric in groups.flat_map(|group| &group.scope_metrics).flat_map(|scoped| &scoped.metrics) {
        let mut add = |attributes: &[KeyValue], exemplars: &[Exemplar]| {
            let about = format!("{} {}", metric.name, sorted(attributes));
            all.extend(exemplars.iter().map(|exemplar| format!("{about} {exemplar:?}")));
        };
        match metric.data.as_ref().expect("data") {
            Data::Gauge(Gauge { data_points }) | Data::Sum(Sum { data_points, .. }) => {
                data_points.iter().for_each(|point| add(&point.attributes, &point.exemplars));
            }
            Data::Histogram(Histogram { data_points, .. }) => {
                data_points.iter().for_each(|point| add(&point.attributes, &point.exemplars));
            }
            Data::ExponentialHistogram(ExponentialHistogram { data_points, .. }) => {
                data_points.iter().for_each(|point| add(&point.attributes, &point.exemplars));
            }
            Data::Summary(_) => {}
        }
    }
    all.sort();
    all
}

fn sorted(attributes: &[KeyValue]) -> String {
    let mut all: Vec<String> =
        attributes.iter().map(|pair| format!("{:?}={:?}", pair.key, pair.value)).collect();
    all.sort();
    all.join(", ")
}

/// All kinds of metrics of three resources with up to three scopes.
fn requests(maker: &mut Maker, time: u64) -> Vec<ExportMetricsServiceRequest> {
    let mut all = Vec::new();
    for (number, from) in (0..9).map(|number| (number, (number / 3, number % 3))) {
        let metrics = (0..16).map(|at| Metric {
            // Each name is of one kind and unit.
            name: format!("{}.k{}", NAMES[at % 10], at % 8),
            description: ["", "In words.", "In words.\n\nAnd more."][at % 3].to_owned(),
            unit: UNITS[(at * 3 + at / 8) % 8].to_owned(),
            data: Some(maker.data(at % 8, time + number as u64)),
            ..Metric::default()
        });
        all.push(ExportMetricsServiceRequest {
            resource_metrics: vec![ResourceMetrics {
                resource: Some(resource(from.0)),
                scope_metrics: vec![ScopeMetrics {
                    scope: scope(from.1),
                    metrics: metrics.collect(),
                    ..ScopeMetrics::default()
                }],
                ..ResourceMetrics::default()
            }],
        });
    }
    all
}

#[test]
fn metrics_come_out_of_archives_as_they_came_in() {
    let dir = temp_dir();
    let port = free_port();
    let seat = Seat::in_dir(
        dir.path(),
        &format!("[series]\nstarts = true\n[otlp]\nlisten = \"localhost:{port}\"\n"),
    );
    let pmcd = PrivatePmcd::with([seat.agent(Transport::Pipe)]).start();
    eventually("the agent's receiver", || TcpStream::connect(("localhost", port)).ok());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("later");
    let sent = requests(&mut Maker(Random::new(15, 1)), now.as_nanos() as u64);
    sent.iter().for_each(|request| post(port, "/v1/metrics", request));
    let expected = whole(&sent);
    assert_eq!(expected.len(), 9 * 16 * 3);
    let told = exemplars(&sent);
    assert!(told.len() > 100, "{}", told.len());

    let host = pmcd.inet();
    let ours = pmcd.dir().join("ours").display().to_string();
    let theirs = pmcd.dir().join("theirs").display().to_string();
    let config = pmcd.dir().join("config").display().to_string();
    fs::write(
        &config,
        "log mandatory on 100 msec { jumpseat.otel jumpseat.otel_exemplar jumpseat.otel_start }\n",
    )
    .expect("writable");
    let mut args = vec!["record", "-q", "-s", "2", "-t", "100msec", "-h", &host, &ours];
    args.extend(ROOTS);
    pmcd.run(JUMPSEAT, args).ok();
    let log = pmcd.dir().join("log").display().to_string();
    pmcd.run("pmlogger", ["-c", &config, "-h", &host, "-s", "2", "-l", &log, &theirs]).ok();
    for (from, name) in [(["-a", &ours], "record"), (["-a", &theirs], "pmlogger"), (["-h", &host], "live")] {
        for protocol in ["http", "grpc"] {
            let dir = temp_dir();
            let receiver = Receiver::start(dir.path(), protocol, &[]);
            let url = receiver.url();
            let mut args = vec!["export", "--otlp", &url, "--protocol", protocol, "-s", "2"];
            args.extend(ROOTS.into_iter().chain(from));
            pmcd.run(JUMPSEAT, args).ok();
            let received = receiver.messages("metrics", &["ok"]);
            let mut back = whole(&received);
            // What the agent itself counts there.
            back.retain(|key, _| !key.contains(".x_metrics\""));
            let others = |one: &Whole, other: &Whole| -> Vec<String> {
                let differs = |(key, point): &(&String, &String)| other.get(*key) != Some(*point);
                one.iter().filter(differs).map(|(key, point)| format!("{key} {point}")).collect()
            };
            let (lacking, other) = (others(&expected, &back), others(&back, &expected));
            assert!(
                lacking.is_empty() && other.is_empty(),
                "{name} {protocol}: {lacking:#?} came back as {other:#?}"
            );
            assert_eq!(exemplars(&received), told, "each once, however many samples there are");
        }
    }
    openmetrics(&pmcd, &ours);
}

/// Prometheus' own parser reads them, with the words of OpenMetrics for what they are.
#[track_caller]
fn openmetrics(pmcd: &PrivatePmcd, archive: &str) {
    let page = pmcd.dir().join("page").display().to_string();
    let to = format!("--openmetrics={page}");
    pmcd.run(JUMPSEAT, ["export", "-a", archive, "-s", "1", &to, "jumpseat.otel"]).ok();
    let read = "import sys; from prometheus_client.openmetrics.parser import text_string_to_metric_families as read\n\
                for family in read(open(sys.argv[1]).read()): print(family.type, family.name, family.unit, len(family.samples))";
    let mut command = std::process::Command::new("python3");
    command.args(["-c", read, &page]).env("PYTHONPATH", LAKE);
    let output = command.output().expect("python3 is there");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for (kind, name) in [
        ("histogram", "gr__e_k5_seconds seconds"),
        ("histogram", "x__k6"),
        ("summary", "jvm_gc_pause_k7"),
        ("counter", "queue_depth_k1"),
        ("gauge", "http_server_request_duration_k0"),
    ] {
        assert!(
            text.lines().any(|line| line.starts_with(&format!("{kind} {name}"))),
            "{kind} {name}: {text}"
        );
    }
    // Buckets, and what they were called.
    let text = fs::read_to_string(&page).expect("written");
    let bucket = text.lines().find(|line| line.starts_with("gr__e_k5_seconds_bucket{")).expect("a bucket");
    assert!(bucket.contains("le=\"") && bucket.contains("k8s_pod_name_x="), "{bucket}");
    assert!(!bucket.contains("instname"), "{bucket}");
}
