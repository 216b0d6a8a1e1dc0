//! OTLP metrics, made with the official types, as what the core gets.

use std::collections::BTreeMap;
use std::sync::Arc;

use jumpseat_source::otlp::decode::{Outcome, Signal};
use jumpseat_source::series::{Batches, Defined, Gone, Series, SeriesConfig};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::summary_data_point::ValueAtQuantile;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint,
    Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, Summary, SummaryDataPoint, exemplar,
};
use pcp_model::ValueType;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::otlp_support::*;

/// A second before the arrival of everything.
const TIME: u64 = 999_000_000_000;
const SECOND: u64 = 1_000_000_000;

/// A decoder with series, and what the core makes of them: `metric[instance]` to value.
struct Board {
    desk: Desk,
    batches: Batches,
    metrics: BTreeMap<u32, (String, ValueType, String)>,
    instances: BTreeMap<(u32, i32), String>,
    slots: BTreeMap<u32, (u32, u32, i32)>,
    serials: BTreeMap<u32, u32>,
    values: BTreeMap<String, f64>,
    texts: BTreeMap<String, String>,
    /// How many numbers the core was given.
    numbers: usize,
}

impl Board {
    fn new() -> Board {
        Board::with(SeriesConfig::default())
    }

    fn with(config: SeriesConfig) -> Board {
        let (series, batches) = Series::open(config, 400, None, Arc::new(|| ())).expect("in memory");
        let mut desk = Desk::new();
        desk.decoder.set_series(series);
        Board {
            desk,
            batches,
            metrics: BTreeMap::new(),
            instances: BTreeMap::new(),
            slots: BTreeMap::new(),
            serials: BTreeMap::new(),
            values: BTreeMap::new(),
            texts: BTreeMap::new(),
            numbers: 0,
        }
    }

    fn send(&mut self, metrics: Vec<Metric>) -> Outcome {
        self.take(&request(metrics).encode_to_vec())
    }

    fn take(&mut self, body: &[u8]) -> Outcome {
        let outcome = self.desk.decoder.request(ARRIVAL, Signal::Metrics, body);
        self.desk.records();
        while let Some(batch) = self.batches.take() {
            for gone in batch.gone {
                match gone {
                    Gone::Series { slot, .. } => {
                        let name = self.name(slot);
                        self.values.remove(&name);
                        self.texts.remove(&name);
                        self.slots.remove(&slot);
                    }
                    Gone::Instance { serial, inst } => {
                        self.instances.remove(&(serial, inst)).expect("it was there");
                    }
                }
            }
            for defined in batch.defined {
                match defined {
                    Defined::Metric(meaning) => {
                        let mark = meaning.branch.mark();
                        let about = format!("{} {}", meaning.semantics.name(), meaning.units);
                        let told = (format!("{mark}{}", meaning.name), meaning.value_type, about);
                        self.metrics.insert(meaning.pmid.local(), told);
                        self.serials.insert(meaning.pmid.local(), meaning.serial);
                    }
                    Defined::Instance { serial, inst, name, .. } => {
                        self.instances.insert((serial, inst), name.into());
                    }
                    Defined::Series { pmid, inst, slot } => {
                        self.slots.insert(slot, (pmid.local(), self.serials[&pmid.local()], inst));
                    }
                }
            }
            self.numbers += batch.points.len();
            for point in batch.points {
                let value = match self.metrics[&self.slots[&point.slot].0].1 {
                    ValueType::Double => f64::from_bits(point.bits),
                    ValueType::I64 => point.bits as i64 as f64,
                    _ => point.bits as f64,
                };
                self.values.insert(self.name(point.slot), value);
            }
            for (slot, text) in batch.texts {
                self.texts.insert(self.name(slot), text.into());
            }
        }
        outcome
    }

    fn name(&self, slot: u32) -> String {
        let (metric, serial, inst) = self.slots[&slot];
        format!("{}[{}]", self.metrics[&metric].0, self.instances[&(serial, inst)])
    }

    /// The values, in order, without what all instances have in common.
    fn told(&self) -> Vec<String> {
        let short = |name: &str| name.replace("shop@1{", "{").replace(",otel.scope.name=lib", "");
        self.values.iter().map(|(name, value)| format!("{} {value}", short(name))).collect()
    }

    fn about(&self, metric: &str) -> String {
        let found = self.metrics.values().find(|(name, ..)| name == metric).expect("it is there");
        format!("{:?} {}", found.1, found.2)
    }
}

fn request(metrics: Vec<Metric>) -> ExportMetricsServiceRequest {
    let scope = Some(InstrumentationScope { name: "lib".to_owned(), ..InstrumentationScope::default() });
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: resource(&[("service.name", text("shop")), ("service.instance.id", text("1"))]),
            scope_metrics: vec![ScopeMetrics { scope, metrics, ..ScopeMetrics::default() }],
            ..ResourceMetrics::default()
        }],
    }
}

fn metric(name: &str, unit: &str, data: Data) -> Metric {
    let (name, unit) = (name.to_owned(), unit.to_owned());
    Metric { name, unit, description: "A metric.".to_owned(), data: Some(data), ..Metric::default() }
}

fn at(time: u64, value: Number, key: &str) -> NumberDataPoint {
    NumberDataPoint {
        attributes: attributes(&[("a.b", text(key))]),
        start_time_unix_nano: TIME - 10 * SECOND,
        time_unix_nano: time,
        value: Some(value),
        ..NumberDataPoint::default()
    }
}

fn gauge(points: Vec<NumberDataPoint>) -> Metric {
    metric("temperature", "Cel", Data::Gauge(Gauge { data_points: points }))
}

fn sum(name: &str, is_monotonic: bool, temporality: i32, data_points: Vec<NumberDataPoint>) -> Metric {
    let sum = Sum { data_points, aggregation_temporality: temporality, is_monotonic };
    metric(name, "By", Data::Sum(sum))
}

fn histogram(temporality: i32, time: u64, counts: Vec<u64>, bounds: Vec<f64>) -> Metric {
    let point = HistogramDataPoint {
        start_time_unix_nano: TIME - 10 * SECOND,
        time_unix_nano: time,
        count: counts.iter().sum(),
        sum: Some(7.5),
        bucket_counts: counts,
        explicit_bounds: bounds,
        min: Some(0.5),
        max: Some(4.0),
        exemplars: vec![Exemplar {
            time_unix_nano: TIME,
            trace_id: vec![0xab; 16],
            span_id: vec![0xcd; 8],
            value: Some(exemplar::Value::AsDouble(4.0)),
            ..Exemplar::default()
        }],
        ..HistogramDataPoint::default()
    };
    let histogram = Histogram { data_points: vec![point], aggregation_temporality: temporality };
    metric("http.duration", "s", Data::Histogram(histogram))
}

#[test]
fn numbers_become_metrics_by_their_kind() {
    let mut board = Board::new();
    let outcome = board.send(vec![
        gauge(vec![at(TIME, Number::AsInt(3), "x"), at(TIME, Number::AsDouble(-1.5), "y")]),
        sum("sent.bytes", true, 2, vec![at(TIME, Number::AsInt(100), "x")]),
        sum("queue-depth", false, 2, vec![at(TIME, Number::AsInt(-4), "x")]),
    ]);
    assert_eq!((outcome.accepted, outcome.rejected), (4, 0), "{outcome:?}");
    assert_eq!(
        board.told(),
        [
            "queue_x2ddepth[{a.b=x}] -4",
            "sent.bytes[{a.b=x}] 100",
            "temperature[{a.b=x}] 3",
            "temperature[{a.b=y}] -1.5",
        ]
    );
    assert_eq!(board.about("sent.bytes"), "U64 counter byte");
    assert_eq!(board.about("queue_x2ddepth"), "I64 instant byte");
    assert_eq!(board.about("temperature"), "Double instant ");
}

#[test]
fn delta_is_added_up_and_nothing_is_added_twice() {
    let mut board = Board::new();
    let delta = |time, value: i64| {
        let point =
            NumberDataPoint { start_time_unix_nano: time - SECOND, ..at(time, Number::AsInt(value), "x") };
        vec![sum("orders", true, 1, vec![point])]
    };
    for (time, value, accepted) in
        [(TIME - 2 * SECOND, 5, 1), (TIME - SECOND, 6, 1), (TIME - SECOND, 6, 0), (TIME, 7, 1)]
    {
        let outcome = board.send(delta(time, value));
        assert_eq!((outcome.accepted, outcome.rejected), (accepted, 1 - accepted), "{outcome:?}");
    }
    assert_eq!(board.told(), ["orders[{a.b=x}] 18"]);
    // Overlapping.
    let late = NumberDataPoint { start_time_unix_nano: TIME - 1, ..at(TIME + 5, Number::AsInt(1), "x") };
    let outcome = board.send(vec![sum("orders", true, 1, vec![late])]);
    let first = outcome.first.expect("refused");
    assert_eq!(first.reason.word(), "order", "{first}");
}

#[test]
fn delta_has_the_start_of_its_first_point_which_the_core_is_told_once() {
    let mut board = Board::with(SeriesConfig { starts: true, ..SeriesConfig::default() });
    for n in 1..=5 {
        let time = TIME + n;
        let point = NumberDataPoint { start_time_unix_nano: time - 1, ..at(time, Number::AsInt(2), "x") };
        assert_eq!(board.send(vec![sum("orders", true, 1, vec![point])]).accepted, 1);
    }
    assert_eq!(board.numbers, 5 + 1, "five sums, one start");
    let start = board.told().into_iter().find(|told| told.starts_with('^')).expect("a start");
    assert_eq!(start.rsplit_once(' ').map(|(_, start)| start), Some(&*TIME.to_string()));
}

#[test]
fn restarts_go_back_and_what_is_older_is_refused() {
    let mut board = Board::new();
    let cumulative = |start, time, value| {
        let point = NumberDataPoint { start_time_unix_nano: start, ..at(time, Number::AsInt(value), "x") };
        vec![sum("orders", true, 2, vec![point])]
    };
    assert_eq!(board.send(cumulative(TIME - 9, TIME - 5, 50)).accepted, 1);
    assert_eq!(board.send(cumulative(TIME - 4, TIME - 3, 2)).accepted, 1);
    // The process before, whose last export was held up.
    assert_eq!(board.send(cumulative(TIME - 9, TIME - 2, 60)).rejected, 1);
    // Sent again, as its answer was lost: the same.
    assert_eq!(board.send(cumulative(TIME - 4, TIME - 3, 2)).accepted, 1);
    assert_eq!(board.told(), ["orders[{a.b=x}] 2"]);
}

#[test]
fn fractions_make_another_metric_of_whole_numbers_and_lose_nothing() {
    let mut board = Board::new();
    board.send(vec![sum("cost", true, 2, vec![at(TIME - 1, Number::AsInt(2), "x")])]);
    let outcome = board.send(vec![sum("cost", true, 2, vec![at(TIME, Number::AsDouble(2.5), "x")])]);
    assert_eq!(outcome.accepted, 1, "{outcome:?}");
    assert_eq!(board.told(), ["cost_x02[{a.b=x}] 2.5"]);
    // Of what is delta the first one has the sum so far.
    board.send(vec![sum("fee", true, 1, vec![at(TIME - 1, Number::AsInt(2), "x")])]);
    let next = NumberDataPoint { start_time_unix_nano: TIME - 1, ..at(TIME, Number::AsDouble(2.5), "x") };
    assert_eq!(board.send(vec![sum("fee", true, 1, vec![next])]).accepted, 1);
    assert_eq!(board.told(), ["cost_x02[{a.b=x}] 2.5", "fee[{a.b=x}] 2", "fee_x02[{a.b=x}] 2.5"]);
}

#[test]
fn histograms_have_cumulative_buckets_and_exemplars() {
    for temporality in [1, 2] {
        let mut board = Board::new();
        let outcome = board.send(vec![histogram(temporality, TIME - SECOND, vec![1, 2, 3], vec![1.0, 2.5])]);
        assert_eq!(outcome.rejected, 0, "{outcome:?}");
        let named = |count: u64, sum: f64, buckets: [u64; 3]| {
            let bucket = |le: &str, count: u64| {
                format!("http.duration.bucket[shop@1{{le={le},otel.scope.name=lib}}] {count}")
            };
            let one = |part: &str, value: f64| {
                format!("http.duration.{part}[shop@1{{otel.scope.name=lib}}] {value}")
            };
            let mut all = vec![
                bucket("+Inf", buckets[2]),
                bucket("1", buckets[0]),
                bucket("2.5", buckets[1]),
                one("count", count as f64),
                one("max", 4.0),
                one("min", 0.5),
                one("sum", sum),
            ];
            all.sort();
            all
        };
        let told = |board: &Board| -> Vec<String> {
            board.values.iter().map(|(name, value)| format!("{name} {value}")).collect()
        };
        assert_eq!(told(&board), named(6, 7.5, [1, 3, 6]));
        let mut more = histogram(temporality, TIME, vec![1, 2, 4], vec![1.0, 2.5]);
        if let Some(Data::Histogram(histogram)) = &mut more.data {
            histogram.data_points[0].start_time_unix_nano = 0;
        }
        board.send(vec![more]);
        let expected = match temporality {
            1 => named(13, 15.0, [2, 6, 13]),
            _ => named(7, 7.5, [1, 3, 7]),
        };
        assert_eq!(told(&board), expected);
        let [exemplar] = &board.texts.values().collect::<Vec<_>>()[..] else { panic!("{:?}", board.texts) };
        let id = "ab".repeat(16);
        assert_eq!(
            **exemplar,
            format!("trace_id={id} span_id={} value=4.0 time=999.000000000", "cd".repeat(8))
        );
    }
}

#[test]
fn exponential_histograms_keep_their_bounds_as_they_grow_coarser() {
    let mut board = Board::new();
    let point = |time, scale, offset, counts: Vec<u64>| {
        let count = counts.iter().sum::<u64>() + 1;
        let point = ExponentialHistogramDataPoint {
            time_unix_nano: time,
            count,
            scale,
            zero_count: 1,
            positive: Some(Buckets { offset, bucket_counts: counts }),
            ..ExponentialHistogramDataPoint::default()
        };
        let data = ExponentialHistogram { data_points: vec![point], aggregation_temporality: 2 };
        vec![metric("size", "By", Data::ExponentialHistogram(data))]
    };
    assert_eq!(board.send(point(TIME - 1, 0, 0, vec![1, 2])).rejected, 0);
    let bounds = |board: &Board| -> Vec<String> {
        let buckets = board.told().into_iter().filter(|text| text.starts_with("size.bucket"));
        buckets
            .map(|text| {
                text.replace("size.bucket[{le=", "").replace(",otel.scope.name=lib}]", "").replace("}]", "")
            })
            .collect()
    };
    assert_eq!(bounds(&board), ["+Inf 4", "0 1", "2 2", "4 4"]);
    assert_eq!(board.send(point(TIME, -1, 0, vec![3, 1])).rejected, 0);
    assert_eq!(bounds(&board), ["+Inf 5", "0 1", "16 5", "4 4"]);
}

#[test]
fn summaries_and_points_without_a_value() {
    let mut board = Board::new();
    let summary = |time, flags| {
        let quantile = |quantile, value| ValueAtQuantile { quantile, value };
        let point = SummaryDataPoint {
            time_unix_nano: time,
            count: 9,
            sum: 4.5,
            flags,
            quantile_values: vec![quantile(0.5, 0.25), quantile(0.99, 2.0)],
            ..SummaryDataPoint::default()
        };
        vec![metric("rpc", "s", Data::Summary(Summary { data_points: vec![point] }))]
    };
    board.send(summary(TIME - 1, 0));
    assert_eq!(board.values.len(), 4, "{:?}", board.told());
    assert_eq!(board.about("rpc.quantile"), "Double instant sec");
    // "No recorded value": the series has stopped.
    board.send(summary(TIME, 1));
    assert_eq!(board.told(), <[String; 0]>::default());
    board.send(summary(TIME + 1, 0));
    assert_eq!(board.values.len(), 4);
}

#[test]
fn what_cannot_be_is_refused_alone_and_told() {
    let with = |change: fn(&mut HistogramDataPoint)| {
        let mut metric = histogram(2, TIME, vec![1, 2], vec![1.0]);
        if let Some(Data::Histogram(histogram)) = &mut metric.data {
            change(&mut histogram.data_points[0]);
        }
        metric
    };
    let mut no_name = gauge(vec![at(TIME, Number::AsInt(1), "x")]);
    no_name.name.clear();
    let long = "x".repeat(1 << 20);
    for (metric, reason) in [
        (gauge(vec![at(TIME, Number::AsDouble(f64::NAN), "x")]), "number"),
        (sum("s", true, 2, vec![at(TIME, Number::AsInt(-1), "x")]), "number"),
        (sum("s", true, 2, vec![at(TIME, Number::AsDouble(f64::INFINITY), "x")]), "number"),
        (gauge(vec![at(u64::MAX, Number::AsInt(1), "x")]), "time"),
        (
            gauge(vec![NumberDataPoint {
                start_time_unix_nano: TIME + 1,
                ..at(TIME, Number::AsInt(1), "x")
            }]),
            "time",
        ),
        (gauge(vec![NumberDataPoint { value: None, ..at(TIME, Number::AsInt(1), "x") }]), "number"),
        (gauge(vec![at(TIME, Number::AsInt(1), &long)]), "oversize_field"),
        (no_name, "encoding"),
        (with(|point| point.explicit_bounds = vec![2.0, 1.0]), "number"),
        (with(|point| point.bucket_counts = vec![1, 2, 3]), "number"),
        (with(|point| point.count = 77), "number"),
        (with(|point| point.sum = Some(f64::NAN)), "number"),
        (with(|point| point.explicit_bounds = vec![0.0; 5000]), "limit"),
        (histogram(2, TIME, vec![1, 1, 1], vec![2.0, 1.0]), "number"),
    ] {
        let mut board = Board::new();
        // With one that is right, which is taken in.
        let outcome = board.send(vec![metric, sum("right", true, 2, vec![at(TIME, Number::AsInt(1), "x")])]);
        let first = outcome.first.unwrap_or_else(|| panic!("{reason}: {outcome:?}"));
        assert_eq!((first.reason.word(), outcome.rejected, outcome.accepted), (reason, 1, 1), "{first}");
        assert_eq!(board.told(), ["right[{a.b=x}] 1"]);
    }
}

#[test]
fn what_is_beyond_the_limits_is_added_up_or_refused_and_never_silent() {
    let mut board = Board::with(SeriesConfig { max_per_metric: 2, ..SeriesConfig::default() });
    let points = |temporality| {
        let points = (0..10).map(|n| at(TIME, Number::AsInt(n), &n.to_string())).collect();
        vec![sum(if temporality == 1 { "delta" } else { "total" }, true, temporality, points)]
    };
    let outcome = board.send(points(1));
    assert_eq!((outcome.accepted, outcome.overflowed, outcome.rejected), (10, 8, 0));
    assert!(board.told().contains(&"delta[{otel.metric.overflow=true}] 44".to_owned()), "{:?}", board.told());
    let outcome = board.send(points(2));
    assert_eq!((outcome.accepted, outcome.rejected), (2, 8));
    assert_eq!(outcome.first.expect("refused").reason.word(), "limit");
}

#[test]
fn memory_is_flat_whatever_label_sets_are_offered() {
    let mut board = Board::with(SeriesConfig { max_series: 1000, ..SeriesConfig::default() });
    let mut overflowed = 0;
    for round in 0..50_u64 {
        let point = |n: u64| at(TIME, Number::AsInt(1), &format!("{}", round * 1000 + n));
        let outcome = board.send(vec![sum("orders", true, 1, (0..1000).map(point).collect())]);
        assert_eq!(outcome.accepted, 1000);
        overflowed += outcome.overflowed;
    }
    assert_eq!(overflowed, 49_000);
    assert_eq!(board.instances.len(), 1001);
    let sum: f64 = board.values.values().sum();
    assert_eq!(sum, 50_000.0, "no point is lost");
}

#[test]
fn a_loop_that_is_behind_refuses_the_request_as_a_whole() {
    let mut board = Board::new();
    let body = request(vec![gauge(vec![at(TIME, Number::AsInt(1), "x")])]).encode_to_vec();
    let taken = (0..1000)
        .take_while(|_| !board.desk.decoder.request(ARRIVAL, Signal::Metrics, &body).is_busy)
        .count();
    assert!((64..100).contains(&taken), "{taken}");
    while board.batches.take().is_some() {}
    assert!(!board.desk.decoder.request(ARRIVAL, Signal::Metrics, &body).is_busy);
}

#[test]
fn json_is_the_same() {
    let json = r#"{"resourceMetrics":[{"resource":{"attributes":[
        {"key":"service.name","value":{"stringValue":"shop"}},
        {"key":"service.instance.id","value":{"stringValue":"1"}}]},
      "scopeMetrics":[{"scope":{"name":"lib"},"metrics":[
        {"name":"sent","unit":"By","sum":{"aggregationTemporality":2,"isMonotonic":true,"dataPoints":[
          {"asInt":"5","timeUnixNano":"999000000000","attributes":[{"key":"a","value":{"stringValue":"x"}}]},
          {"asInt":{},"timeUnixNano":"999000000000"}]}},
        {"name":"level","gauge":{"dataPoints":[{"asInt":-2,"timeUnixNano":"999000000000"}]}},
        {"name":"h","histogram":{"aggregationTemporality":2,"dataPoints":[{"count":"3","sum":2.5,
          "bucketCounts":["1",2],"explicitBounds":[1],"timeUnixNano":"999000000000"}]}},
        {"name":"e","exponentialHistogram":{"aggregationTemporality":2,"dataPoints":[{"count":"3","scale":0,
          "zeroCount":"0","positive":{"offset":-1,"bucketCounts":["1","2"]},"timeUnixNano":"999000000000"}]}}
      ]}]}]}"#;
    let mut board = Board::new();
    let mut body = Vec::new();
    let left_out = jumpseat_source::otlp::json::transcode(Signal::Metrics, json.as_bytes(), &mut body);
    assert_eq!(left_out.expect("JSON").count, 1);
    let outcome = board.take(&body);
    assert_eq!((outcome.accepted, outcome.rejected), (4, 0), "{outcome:?}");
    let told = board.told();
    for line in [
        "sent[{a=x}] 5",
        "level[{otel.scope.name=lib}] -2",
        "h.bucket[{le=+Inf}] 3",
        "h.bucket[{le=1}] 1",
        "e.bucket[{le=1}] 1",
        "e.bucket[{le=2}] 3",
    ] {
        assert!(told.contains(&line.to_owned()), "{line}: {told:?}");
    }
}

fn everything() -> Vec<u8> {
    let exponential = ExponentialHistogramDataPoint {
        count: 4,
        scale: 2,
        positive: Some(Buckets { offset: -3, bucket_counts: vec![1, 0, 2] }),
        negative: Some(Buckets { offset: 1, bucket_counts: vec![1] }),
        time_unix_nano: TIME,
        ..ExponentialHistogramDataPoint::default()
    };
    let exponential = ExponentialHistogram { data_points: vec![exponential], aggregation_temporality: 1 };
    let summary = SummaryDataPoint {
        count: 1,
        quantile_values: vec![ValueAtQuantile { quantile: 0.5, value: 1.0 }],
        ..SummaryDataPoint::default()
    };
    let summary = Summary { data_points: vec![summary] };
    let all = vec![
        gauge(vec![at(TIME, Number::AsDouble(1.5), "x")]),
        sum("a", true, 1, vec![at(TIME, Number::AsInt(1), "y")]),
        histogram(1, TIME, vec![1, 2, 3], vec![1.0, 2.0]),
        metric("e", "1", Data::ExponentialHistogram(exponential)),
        metric("s", "1", Data::Summary(summary)),
    ];
    request(all).encode_to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Whatever is done to a request, nothing panics, nothing grows, and the next one is taken in.
    #[test]
    fn requests_that_were_changed_do_no_harm(
        changes in proptest::collection::vec((any::<Index>(), any::<u8>(), 0..3_u8), 1..8),
    ) {
        let mut body = everything();
        for (place, byte, how) in changes {
            let at = place.index(body.len());
            match how {
                0 => body[at] = byte,
                1 => body.insert(at, byte),
                _ => body.truncate(at.max(1)),
            }
        }
        let mut board = Board::with(SeriesConfig { max_series: 100, ..SeriesConfig::default() });
        board.take(&body);
        prop_assert!(board.instances.len() < 200);
        let outcome = board.take(&everything());
        prop_assert!(!outcome.is_busy && outcome.broken.is_none());
        prop_assert!(outcome.accepted >= 1, "{:?}", outcome);
    }

    /// What the official decoder reads is read, and the other way round.
    #[test]
    fn bytes_of_any_kind_do_no_harm(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let outcome = Board::new().take(&body);
        if ExportMetricsServiceRequest::decode(&body[..]).is_err() {
            prop_assert_eq!(outcome.accepted, 0);
        }
    }
}
