//! Samples of metrics as OTLP's data points.
//!
//! ```text
//! Fetched --> a buffer of encoded points for each metric --> ExportMetricsServiceRequest, when there are enough
//! ```
//!
//! | PCP | OTLP |
//! | --- | --- |
//! | counter | monotonic cumulative sum; start is the time of the first point, and again that of one that is smaller than the last |
//! | instant, discrete | gauge |
//! | text | gauge of 1 with the attribute `value` |
//! | instance | attribute `pcp.instance`, and its labels |
//!
//! **Cost:** a point of a series that is known is its attributes, copied, and some thirty bytes; nothing is allocated once the
//! buffers have grown. What is known of a series was asked for once.

use hashbrown::HashMap;
use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use pcp_client::ValuesRef;
use pcp_model::{Desc, InDom, Inst, Label, LabelFlags, Number, Semantics, Timestamp, ValueType};
use pcp_pdu::TypedRef;
use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

use super::attribute::{label, overlay, text};
use super::families::Families;
use super::unit::ucum;
use crate::formats::source::Source;

/// Points, and bytes of them, that make a request.
pub(super) const ENOUGH_POINTS: u64 = 8192;
pub(super) const ENOUGH_BYTES: usize = 2 << 20;
/// Most series that are remembered; then all are looked up anew, and sums start again.
const MAX_SERIES: usize = 1 << 20;
/// The attribute with the name of the instance.
const INSTANCE: &str = "pcp.instance";

/// A request, and how many points it has.
pub(super) type Ready = (Vec<u8>, u64);

/// Metrics on their way out.
pub(super) struct Points {
    /// By the places of the source's metrics.
    metrics: Vec<Outgoing>,
    /// `Resource`, encoded.
    resource: Vec<u8>,
    series: usize,
    points: u64,
    bytes: usize,
    /// Those that came by OTLP.
    families: Families,
    /// Values that were left out, as OTLP has no form for them: aggregates, and what is not of its metric's type.
    pub left_out: u64,
}

struct Outgoing {
    desc: Desc,
    /// `name`, `description` and `unit` of `Metric`, encoded.
    head: Vec<u8>,
    /// Labels of all its series.
    common: Vec<KeyValue>,
    series: HashMap<Inst, Series>,
    /// The instances are those of this version of their domain.
    version: u64,
    /// `data_points`, encoded.
    points: Vec<u8>,
}

struct Series {
    /// `attributes` of `NumberDataPoint`, encoded.
    attributes: Vec<u8>,
    /// The name of its instance.
    name: Box<str>,
    /// When its sum began, and what it was last.
    start: u64,
    last: f64,
}

impl Points {
    /// For the metrics of a source, those of event records included, which have no points. `host`: the attributes of the
    /// resource.
    pub(super) fn new(source: &mut Source, host: &[KeyValue]) -> Points {
        let resource = Resource { attributes: host.to_vec(), ..Resource::default() };
        let metrics = (0..source.metrics.len()).map(|at| Outgoing::new(source, at, host)).collect();
        let families = Families::new(source, host);
        let resource = resource.encode_to_vec();
        Points { metrics, resource, series: 0, points: 0, bytes: 0, families, left_out: 0 }
    }

    /// Takes in the values of the metric at a place.
    pub(super) fn add(&mut self, source: &mut Source, at: usize, time: Timestamp, values: ValuesRef<'_>) {
        if self.families.has(at) {
            return self.families.add(source, at, time, values);
        }
        let Desc { value_type, indom, .. } = self.metrics[at].desc;
        if indom != InDom::NULL {
            let version = source.instances.version(&mut source.context, indom, time);
            if version != self.metrics[at].version {
                self.renamed(source, at, time);
                self.metrics[at].version = version;
            }
        }
        for (inst, value) in values.iter() {
            let typed = match value.usual_number(value_type) {
                Some(number) => Ok(TypedRef::Number(number)),
                None => value.typed(value_type),
            };
            match typed {
                Ok(TypedRef::Number(number)) => self.number(source, at, inst, time, number),
                Ok(TypedRef::Text(bytes)) => {
                    self.text(source, at, inst, time, &String::from_utf8_lossy(bytes));
                }
                _ => self.left_out += 1,
            }
        }
    }

    /// Whether there is enough for a request.
    pub(super) fn is_enough(&self) -> bool {
        let (points, bytes) = self.families.waiting();
        self.points + points >= ENOUGH_POINTS
            || self.bytes + bytes >= ENOUGH_BYTES
            || !self.families.ready.is_empty()
    }

    /// The sample is over.
    pub(super) fn end(&mut self, time: Timestamp) {
        self.families.end(time);
    }

    /// The requests for what there is by now, and how many points each has.
    pub(super) fn take(&mut self) -> Vec<Ready> {
        let mut all = std::mem::take(&mut self.families.ready);
        all.extend(self.families.take());
        all.extend(self.take_own());
        all
    }

    fn take_own(&mut self) -> Option<Ready> {
        if self.points == 0 {
            return None;
        }
        let scope = InstrumentationScope {
            name: "jumpseat".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        let mut body = Vec::with_capacity(self.bytes + 4096);
        let mut metrics = Vec::with_capacity(self.bytes + 4096);
        put(&mut metrics, 1, &scope.encode_to_vec());
        for metric in self.metrics.iter_mut().filter(|metric| !metric.points.is_empty()) {
            let (field, tail) = metric.shape();
            let data = metric.points.len() + tail.len();
            let len = metric.head.len() + key_len(field) + encoded_len_varint(data as u64) + data;
            begin(&mut metrics, 2, len);
            metrics.extend_from_slice(&metric.head);
            begin(&mut metrics, field, data);
            metrics.append(&mut metric.points);
            metrics.extend_from_slice(tail);
        }
        let mut whole = Vec::with_capacity(metrics.len() + self.resource.len() + 16);
        put(&mut whole, 1, &self.resource);
        put(&mut whole, 2, &metrics);
        put(&mut body, 1, &whole);
        self.bytes = 0;
        Some((body, std::mem::take(&mut self.points)))
    }

    /// Instances may mean other things now: what is known of those that do goes.
    fn renamed(&mut self, source: &mut Source, at: usize, time: Timestamp) {
        let metric = &mut self.metrics[at];
        let before = metric.series.len();
        let Source { context, instances, .. } = source;
        let indom = metric.desc.indom;
        metric.series.retain(|inst, series| *series.name == *instances.name(context, indom, *inst, time));
        self.series -= before - metric.series.len();
    }

    fn number(&mut self, source: &mut Source, at: usize, inst: Inst, time: Timestamp, number: Number) {
        let nanos = nanos(time);
        if !self.metrics[at].series.contains_key(&inst) {
            self.begin_series(source, at, inst, time);
        }
        let metric = &mut self.metrics[at];
        let Some(series) = metric.series.get_mut(&inst) else { return };
        let before = metric.points.len();
        let sum = metric.desc.semantics == Semantics::Counter;
        let value = number.to_f64();
        if sum && value < series.last {
            series.start = nanos;
        }
        series.last = value;
        begin(&mut metric.points, 1, series.attributes.len() + if sum { 27 } else { 18 });
        if sum {
            fixed(&mut metric.points, 2, series.start);
        }
        fixed(&mut metric.points, 3, nanos);
        match whole(number) {
            Some(integer) => fixed(&mut metric.points, 6, integer.cast_unsigned()),
            None => fixed(&mut metric.points, 4, value.to_bits()),
        }
        metric.points.extend_from_slice(&series.attributes);
        self.bytes += metric.points.len() - before;
        self.points += 1;
    }

    fn text(&mut self, source: &mut Source, at: usize, inst: Inst, time: Timestamp, value: &str) {
        if !self.metrics[at].series.contains_key(&inst) {
            self.begin_series(source, at, inst, time);
        }
        let metric = &mut self.metrics[at];
        let Some(series) = metric.series.get(&inst) else { return };
        let more = text("value", value).encode_to_vec();
        let before = metric.points.len();
        let own = 1 + encoded_len_varint(more.len() as u64) + more.len();
        begin(&mut metric.points, 1, series.attributes.len() + own + 18);
        fixed(&mut metric.points, 3, nanos(time));
        fixed(&mut metric.points, 6, 1);
        metric.points.extend_from_slice(&series.attributes);
        put(&mut metric.points, 7, &more);
        self.bytes += metric.points.len() - before;
        self.points += 1;
    }

    #[cold]
    fn begin_series(&mut self, source: &mut Source, at: usize, inst: Inst, time: Timestamp) {
        if self.series >= MAX_SERIES {
            self.metrics.iter_mut().for_each(|metric| metric.series.clear());
            self.series = 0;
        }
        let mut attributes = self.metrics[at].common.clone();
        let name = source.instance(at, inst, time).unwrap_or_default().to_owned();
        let indom = self.metrics[at].desc.indom;
        if indom != InDom::NULL {
            overlay(&mut attributes, instance_labels(source, indom, inst, time));
            overlay(&mut attributes, [text(INSTANCE, &name)]);
        }
        let mut encoded = Vec::new();
        attributes.iter().for_each(|attribute| put(&mut encoded, 7, &attribute.encode_to_vec()));
        let (name, start) = (name.into(), nanos(time));
        let series = Series { attributes: encoded, name, start, last: f64::NEG_INFINITY };
        self.metrics[at].series.insert(inst, series);
        self.series += 1;
    }
}

impl Outgoing {
    fn new(source: &mut Source, at: usize, host: &[KeyValue]) -> Outgoing {
        let help = source.one_line(at);
        let crate::formats::Metric { name, desc } = source.metrics[at].clone();
        let mut head = Vec::new();
        put(&mut head, 1, name.as_bytes());
        put(&mut head, 2, help.trim().as_bytes());
        if desc.value_type != ValueType::String {
            put(&mut head, 3, ucum(desc.units).as_bytes());
        }
        // Of a derived metric nothing but its operands have labels; what the host has stands in the resource.
        let labels = match desc.pmid.is_derived() {
            true => Vec::new(),
            false => source.labels.of_metric(&mut source.context, &desc),
        };
        let common: Vec<KeyValue> = labels.iter().map(label).filter(|label| !host.contains(label)).collect();
        Outgoing { desc, head, common, series: HashMap::default(), version: 0, points: Vec::new() }
    }

    /// The field of `Metric` with its data, and what stands behind the points there.
    fn shape(&self) -> (u32, &'static [u8]) {
        /// `aggregation_temporality` cumulative, `is_monotonic`.
        const CUMULATIVE: &[u8] = &[0x10, 2, 0x18, 1];
        match self.desc.semantics {
            Semantics::Counter if self.desc.value_type != ValueType::String => (7, CUMULATIVE),
            _ => (5, &[]),
        }
    }
}

/// The attributes of the host that a source is of: its name and its labels.
pub(super) fn host(source: &mut Source) -> Vec<KeyValue> {
    let mut attributes = vec![text("service.name", "pcp"), text("host.name", &source.host)];
    overlay(&mut attributes, source.labels.of_host(&mut source.context).iter().map(label));
    attributes
}

/// The labels that an instance has for itself.
pub(super) fn instance_labels(
    source: &mut Source,
    indom: InDom,
    inst: Inst,
    time: Timestamp,
) -> Vec<KeyValue> {
    let version = source.instances.version(&mut source.context, indom, time);
    let json = source.labels.of_instance(&mut source.context, indom, inst, version);
    let object = json.and_then(|json| serde_json::from_str::<serde_json::Map<_, _>>(json).ok());
    let of = |(name, value): (String, serde_json::Value)| {
        label(&Label { name, value: value.to_string(), flags: LabelFlags::default() })
    };
    object.unwrap_or_default().into_iter().map(of).collect()
}

/// Nanoseconds since 1970; what was before is 0.
pub(super) fn nanos(time: Timestamp) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or_default()
}

/// The number, if OTLP has it as an integer.
pub(super) fn whole(number: Number) -> Option<i64> {
    match number {
        Number::I32(number) => Some(number.into()),
        Number::U32(number) => Some(number.into()),
        Number::I64(number) => Some(number),
        Number::U64(number) => i64::try_from(number).ok(),
        Number::Float(_) | Number::Double(_) => None,
    }
}

/// The beginning of a field of so many bytes.
pub(super) fn begin(out: &mut Vec<u8>, field: u32, len: usize) {
    encode_key(field, WireType::LengthDelimited, out);
    encode_varint(len as u64, out);
}

pub(super) fn put(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    begin(out, field, bytes.len());
    out.extend_from_slice(bytes);
}

pub(super) fn fixed(out: &mut Vec<u8>, field: u32, word: u64) {
    encode_key(field, WireType::SixtyFourBit, out);
    out.extend_from_slice(&word.to_le_bytes());
}
