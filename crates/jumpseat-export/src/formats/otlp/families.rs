//! Points of metrics that came by OTLP, as they came: by resource and scope, under their own names and attributes.
//!
//! ```text
//! Pushed --end of a sample--> a buffer of encoded points for each (resource, scope, family) --> ResourceMetrics
//! ```
//!
//! Sums and histograms are cumulative, whatever they were; their start is what came with them, if that was kept, or the first point that
//! is exported, and again one that is smaller than the last.
//!
//! **Cost:** a number of a series that is known is its attributes, copied, and some thirty bytes; a histogram allocates its buckets.

use hashbrown::HashMap;
use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics;
use opentelemetry_proto::tonic::metrics::v1::exemplar;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::summary_data_point::ValueAtQuantile;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogramDataPoint, HistogramDataPoint, SummaryDataPoint,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use pcp_client::ValuesRef;
use pcp_model::{Number, Timestamp};
use prost::Message as _;
use serde_json::Value as Json;

use super::attribute::{attribute, json, overlay, text};
use super::points::{ENOUGH_BYTES, ENOUGH_POINTS, Ready, begin, fixed, nanos, put, whole};
use crate::formats::pushed::{Exemplar, Family, Kind, Point, Pushed, Series};
use crate::formats::source::Source;

/// The finest scale of an exponential histogram that the agent keeps, and the coarsest there is.
const FINEST: i32 = 3;
const COARSEST: i32 = -10;
/// The power of two that no double reaches.
const TOP: f64 = 1024.0;

/// Metrics that came by OTLP on their way out.
pub(super) struct Families {
    pushed: Pushed,
    groups: Groups,
    /// Requests that are full.
    pub ready: Vec<Ready>,
}

/// What is to be sent.
struct Groups {
    /// `name`, `description` and `unit` of each family, encoded.
    heads: Vec<Vec<u8>>,
    kinds: Vec<Kind>,
    /// The attributes of whoever has no resource of its own.
    host: Vec<KeyValue>,
    all: Vec<Group>,
    by_origin: HashMap<(Vec<u8>, Vec<u8>), usize>,
    /// By the numbers of the series.
    series: Vec<Option<Sent>>,
    generation: u64,
    points: u64,
    bytes: usize,
}

/// All of a resource and scope.
struct Group {
    resource: Vec<u8>,
    scope: Vec<u8>,
    /// Families, and their `data_points`, encoded.
    metrics: Vec<(usize, Vec<u8>)>,
}

/// What is known of a series.
struct Sent {
    group: usize,
    metric: usize,
    /// `attributes` of its kind of point, encoded.
    attributes: Vec<u8>,
    /// When its sum began, and what it was last.
    start: u64,
    last: f64,
}

impl Families {
    /// Those of a source. `host`: the attributes of the host's resource.
    pub(super) fn new(source: &mut Source, host: &[KeyValue]) -> Families {
        let pushed = Pushed::new(source);
        let head = |family: &Family| {
            let mut head = Vec::new();
            for (field, text) in [(1, &family.name), (2, &family.help), (3, &family.unit)] {
                if !text.is_empty() {
                    put(&mut head, field, text.as_bytes());
                }
            }
            head
        };
        let groups = Groups {
            heads: pushed.families.iter().map(head).collect(),
            kinds: pushed.families.iter().map(|family| family.kind).collect(),
            host: host.to_vec(),
            all: Vec::new(),
            by_origin: HashMap::default(),
            series: Vec::new(),
            generation: 0,
            points: 0,
            bytes: 0,
        };
        Families { pushed, groups, ready: Vec::new() }
    }

    /// Whether the metric at a place is one of them.
    pub(super) fn has(&self, at: usize) -> bool {
        self.pushed.has(at)
    }

    /// Takes in the values of the metric at a place.
    pub(super) fn add(&mut self, source: &mut Source, at: usize, time: Timestamp, values: ValuesRef<'_>) {
        self.pushed.add(source, at, time, values);
    }

    /// The sample is over: makes points of it.
    pub(super) fn end(&mut self, time: Timestamp) {
        let Families { pushed, groups, ready } = self;
        if pushed.generation != groups.generation {
            ready.extend(groups.take());
            groups.forget(pushed.generation);
        }
        pushed.end(|family, at, number, series, point| {
            groups.push((family, at), number, series, point, nanos(time));
            if groups.points >= ENOUGH_POINTS || groups.bytes >= ENOUGH_BYTES {
                ready.extend(groups.take());
            }
        });
    }

    /// How many points there are by now that are in no request, and bytes of them.
    pub(super) fn waiting(&self) -> (u64, usize) {
        (self.groups.points, self.groups.bytes)
    }

    /// The rest.
    pub(super) fn take(&mut self) -> Option<Ready> {
        self.groups.take()
    }
}

impl Groups {
    fn forget(&mut self, generation: u64) {
        self.all.clear();
        self.by_origin.clear();
        self.series.clear();
        self.generation = generation;
    }

    fn push(
        &mut self,
        (family, at): (&Family, usize),
        number: usize,
        series: &Series,
        point: &Point,
        time: u64,
    ) {
        if self.series.len() <= number {
            self.series.resize_with(number + 1, || None);
        }
        if self.series[number].is_none() {
            self.series[number] = Some(self.begin_series(family.kind, at, series, time));
        }
        let Some(sent) = &mut self.series[number] else { return };
        let size = match family.kind {
            Kind::Gauge | Kind::Counter | Kind::UpDownCounter => point.value.map_or(0.0, Number::to_f64),
            _ => point.total() as f64,
        };
        // What is no sum of what only grows has the start of its first point.
        if family.kind != Kind::UpDownCounter && size < sent.last {
            sent.start = time;
        }
        sent.last = size;
        // One of the future is a clock's that is wrong.
        let start = series.start.filter(|start| *start <= time).unwrap_or(sent.start);
        let exemplar = series.exemplar.as_ref().map_or_else(Vec::new, |one| exemplar(one, family.kind));
        let out = &mut self.all[sent.group].metrics[sent.metric].1;
        let before = out.len();
        let encoded = match family.kind {
            Kind::Gauge | Kind::Counter | Kind::UpDownCounter => {
                let Some(value) = point.value else { return };
                let has_start = family.kind != Kind::Gauge;
                begin(out, 1, sent.attributes.len() + exemplar.len() + if has_start { 27 } else { 18 });
                if has_start {
                    fixed(out, 2, start);
                }
                fixed(out, 3, time);
                match whole(value) {
                    Some(integer) if has_start => fixed(out, 6, integer.cast_unsigned()),
                    _ => fixed(out, 4, value.to_f64().to_bits()),
                }
                None
            }
            Kind::Histogram => Some(histogram(point, start, time).encode_to_vec()),
            Kind::Exponential => Some(exponential(point, start, time).encode_to_vec()),
            Kind::Summary => Some(summary(point, start, time).encode_to_vec()),
        };
        if let Some(encoded) = encoded {
            begin(out, 1, sent.attributes.len() + exemplar.len() + encoded.len());
            out.extend_from_slice(&encoded);
        }
        out.extend_from_slice(&sent.attributes);
        out.extend_from_slice(&exemplar);
        self.bytes += out.len() - before;
        self.points += 1;
    }

    #[cold]
    fn begin_series(&mut self, kind: Kind, at: usize, series: &Series, start: u64) -> Sent {
        let pairs = |pairs: &[(String, Json)]| -> Vec<KeyValue> {
            pairs.iter().map(|(name, value)| attribute(name, json(value))).collect()
        };
        let resource = match &series.resource {
            Some(resource) => pairs(resource),
            None => {
                let mut attributes = self.host.clone();
                overlay(&mut attributes, series.service.as_deref().map(|name| text("service.name", name)));
                attributes
            }
        };
        let resource = Resource { attributes: resource, ..Resource::default() }.encode_to_vec();
        let [name, version] = series.scope.clone();
        let scope = InstrumentationScope { name, version, ..InstrumentationScope::default() }.encode_to_vec();
        let key = (resource, scope);
        let group = match self.by_origin.get(&key) {
            Some(group) => *group,
            None => {
                let (resource, scope) = key.clone();
                self.all.push(Group { resource, scope, metrics: Vec::new() });
                self.by_origin.insert(key, self.all.len() - 1);
                self.all.len() - 1
            }
        };
        let metrics = &mut self.all[group].metrics;
        let metric = metrics.iter().position(|(family, _)| *family == at).unwrap_or_else(|| {
            metrics.push((at, Vec::new()));
            metrics.len() - 1
        });
        let field = match kind {
            Kind::Histogram => 9,
            Kind::Exponential => 1,
            _ => 7,
        };
        let mut attributes = Vec::new();
        for pair in pairs(&series.attributes) {
            put(&mut attributes, field, &pair.encode_to_vec());
        }
        Sent { group, metric, attributes, start, last: f64::NEG_INFINITY }
    }

    fn take(&mut self) -> Option<Ready> {
        if self.points == 0 {
            return None;
        }
        let mut body = Vec::with_capacity(self.bytes + 4096);
        for group in &mut self.all {
            let mut scoped = Vec::new();
            if !group.scope.is_empty() {
                put(&mut scoped, 1, &group.scope);
            }
            let mut any = false;
            for (family, points) in group.metrics.iter_mut().filter(|(_, points)| !points.is_empty()) {
                let (field, tail) = shape(self.kinds[*family]);
                let mut data = std::mem::take(points);
                data.extend_from_slice(tail);
                let mut metric = self.heads[*family].clone();
                put(&mut metric, field, &data);
                put(&mut scoped, 2, &metric);
                data.clear();
                *points = data;
                any = true;
            }
            if any {
                let mut whole = Vec::with_capacity(scoped.len() + group.resource.len() + 16);
                put(&mut whole, 1, &group.resource);
                put(&mut whole, 2, &scoped);
                put(&mut body, 1, &whole);
            }
        }
        self.bytes = 0;
        Some((body, std::mem::take(&mut self.points)))
    }
}

/// The field of `Metric` with the data, and what stands behind the points there: `aggregation_temporality` cumulative,
/// `is_monotonic`.
fn shape(kind: Kind) -> (u32, &'static [u8]) {
    match kind {
        Kind::Gauge => (5, &[]),
        Kind::Counter => (7, &[0x10, 2, 0x18, 1]),
        Kind::UpDownCounter => (7, &[0x10, 2]),
        Kind::Histogram => (9, &[0x10, 2]),
        Kind::Exponential => (10, &[0x10, 2]),
        Kind::Summary => (11, &[]),
    }
}

/// `exemplars` of a point of this kind, encoded; a summary has none.
fn exemplar(one: &Exemplar, kind: Kind) -> Vec<u8> {
    let field = match kind {
        Kind::Gauge | Kind::Counter | Kind::UpDownCounter => 5,
        Kind::Histogram => 8,
        Kind::Exponential => 11,
        Kind::Summary => return Vec::new(),
    };
    let value = match one.value {
        Number::I64(whole) => exemplar::Value::AsInt(whole),
        other => exemplar::Value::AsDouble(other.to_f64()),
    };
    let message = metrics::v1::Exemplar {
        time_unix_nano: one.time,
        span_id: one.span_id.clone(),
        trace_id: one.trace_id.clone(),
        value: Some(value),
        filtered_attributes: one.attributes.iter().map(|(name, value)| text(name, value)).collect(),
    };
    let mut out = Vec::new();
    put(&mut out, field, &message.encode_to_vec());
    out
}

fn histogram(point: &Point, start: u64, time: u64) -> HistogramDataPoint {
    let (explicit_bounds, bucket_counts) = point.apart();
    HistogramDataPoint {
        start_time_unix_nano: start,
        time_unix_nano: time,
        count: point.total(),
        sum: point.sum,
        min: point.min,
        max: point.max,
        explicit_bounds,
        bucket_counts,
        ..HistogramDataPoint::default()
    }
}

fn summary(point: &Point, start: u64, time: u64) -> SummaryDataPoint {
    let value = |&(quantile, value): &(f64, f64)| ValueAtQuantile { quantile, value };
    SummaryDataPoint {
        start_time_unix_nano: start,
        time_unix_nano: time,
        count: point.total(),
        sum: point.sum.unwrap_or_default(),
        quantile_values: point.quantiles.iter().map(value).collect(),
        ..SummaryDataPoint::default()
    }
}

fn exponential(point: &Point, start: u64, time: u64) -> ExponentialHistogramDataPoint {
    let (bounds, counts) = point.apart();
    let scale = point.scale.unwrap_or_else(|| coarsest(&bounds)).clamp(COARSEST, FINEST);
    let power = |bound: f64| (bound.log2() * f64::from(scale).exp2()).round() as i32;
    let (mut positive, mut negative, mut zero_count) = (Vec::new(), Vec::new(), 0);
    let beyond = bounds.len();
    for (at, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        match bounds.get(at) {
            // Between its upper bound and the next smaller power; below zero it is the smaller one that is known.
            Some(&bound) if bound > 0.0 => positive.push((power(bound) - 1, count)),
            Some(&bound) if bound < 0.0 => negative.push((power(-bound), count)),
            None if at == beyond => {
                positive.push(((TOP * f64::from(scale).exp2()).ceil() as i32 - 1, count));
            }
            _ => zero_count += count,
        }
    }
    ExponentialHistogramDataPoint {
        start_time_unix_nano: start,
        time_unix_nano: time,
        count: point.total(),
        sum: point.sum,
        min: point.min,
        max: point.max,
        scale,
        zero_count,
        positive: side(positive),
        negative: side(negative),
        ..ExponentialHistogramDataPoint::default()
    }
}

/// The counts by number as OTLP has them: all from the first to the last.
fn side(counts: Vec<(i32, u64)>) -> Option<Buckets> {
    let first = counts.iter().map(|(number, _)| *number).min()?;
    let last = counts.iter().map(|(number, _)| *number).max()?;
    let mut bucket_counts = vec![0; (last - first) as usize + 1];
    for (number, count) in counts {
        bucket_counts[(number - first) as usize] += count;
    }
    Some(Buckets { offset: first, bucket_counts })
}

/// The coarsest scale that has all of these bounds: what is said of values is true then, if not all that was known.
fn coarsest(bounds: &[f64]) -> i32 {
    let has = |scale: i32| {
        bounds.iter().filter(|bound| **bound != 0.0).all(|bound| {
            let power = bound.abs().log2() * f64::from(scale).exp2();
            (power - power.round()).abs() < 1e-6
        })
    };
    (COARSEST..FINEST).find(|scale| has(*scale)).unwrap_or(FINEST)
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::metrics::v1::{MetricsData, metric};

    use super::*;

    #[test]
    fn buckets_of_powers_come_back_at_their_scale() {
        let point = Point {
            count: Some(10),
            scale: Some(1),
            buckets: vec![(-2.0, 1), (0.0, 3), (2.0_f64.sqrt(), 4), (2.0, 4), (4.0, 9), (f64::INFINITY, 10)],
            ..Point::default()
        };
        let told = exponential(&point, 1, 2);
        assert_eq!((told.scale, told.zero_count, told.count), (1, 2, 10));
        assert_eq!(told.negative, Some(Buckets { offset: 2, bucket_counts: vec![1] }));
        let positive = told.positive.expect("some");
        assert_eq!((positive.offset, positive.bucket_counts.len()), (0, 2048));
        assert_eq!(&positive.bucket_counts[..5], [1, 0, 0, 5, 0]);
        assert_eq!(positive.bucket_counts[2047], 1);
        assert_eq!(coarsest(&[0.0, 2.0, 8.0]), 0);
        assert_eq!(coarsest(&[-(0.25_f64.exp2()), 2.0]), 2);
    }

    #[test]
    fn one_metric_of_two_targets_is_two_series() {
        let family = Family {
            name: "load1".to_owned(),
            unit: String::new(),
            help: String::new(),
            kind: Kind::Gauge,
            units: pcp_model::Units::NONE,
        };
        let mut groups = Groups {
            heads: vec![Vec::new()],
            kinds: vec![Kind::Gauge],
            host: Vec::new(),
            all: Vec::new(),
            by_origin: HashMap::default(),
            series: Vec::new(),
            generation: 0,
            points: 0,
            bytes: 0,
        };
        let point = Point { value: Some(Number::Double(0.5)), ..Point::default() };
        for (number, target) in ["a:9100", "b:9100"].into_iter().enumerate() {
            let labels = [("instance", format!("\"{target}\"")), ("job", "\"node\"".to_owned())];
            let labels = labels.each_ref().map(|(name, value)| (*name, value.as_str()));
            let series = crate::formats::pushed::tests::series(&format!("node@{target}"), &labels);
            groups.push((&family, 0), number, &series, &point, 1);
        }
        let (body, points) = groups.take().expect("two points");
        let sent = MetricsData::decode(body.as_slice()).expect("encoded");
        let mut told = Vec::new();
        for resource in &sent.resource_metrics {
            let Some(metric::Data::Gauge(gauge)) = &resource.scope_metrics[0].metrics[0].data else {
                panic!("a gauge")
            };
            told.extend(gauge.data_points.iter().map(|point| point.attributes.clone()));
        }
        let expected = |target: &str| vec![text("instance", target), text("job", "node")];
        assert_eq!((points, told), (2, vec![expected("a:9100"), expected("b:9100")]));
    }

    #[test]
    fn what_went_back_in_between_is_no_count_below_zero() {
        let point = Point { buckets: vec![(1.0, 5), (2.0, 3), (f64::INFINITY, 6)], ..Point::default() };
        assert_eq!(point.apart(), (vec![1.0, 2.0], vec![5, 0, 1]));
        assert_eq!(point.total(), 6);
    }
}
