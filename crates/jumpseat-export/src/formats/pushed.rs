//! Metrics that came from elsewhere (`docs/otel.md`), as they were: under the names, units and attributes that they came with, and
//! the parts of histograms and summaries put together again.
//!
//! ```text
//! jumpseat.otel.latency.bucket "shop{le=0.5,route=/a}" --+
//! jumpseat.otel.latency.count  "shop{route=/a}"        --+--> family latency, series {route=/a} of shop, a point
//! jumpseat.otel.latency.sum    "shop{route=/a}"        --+
//! ```
//!
//! What they were is in labels of the metrics and of the instances, and in the names of the instances ([`jumpseat_wire::series`]).
//! [`Pushed::add`] takes the values of a sample, [`Pushed::end`] gives a point for each series that had some.
//!
//! **Cost:** of a value of a series that is known, two look-ups in hash tables; its name and labels are read once.

use hashbrown::HashMap;
use jumpseat_wire::series::{self, Form};
use pcp_client::{TextLevel, TextTarget, ValuesRef};
use pcp_model::{Desc, InDom, Inst, Label, Number, Semantics, Timestamp, Units};
use pcp_pdu::TypedRef;
use serde_json::Value as Json;

use crate::formats::source::Source;

/// Most series that are remembered; then all are looked up anew.
const MAX_SERIES: usize = 1 << 20;
/// What the agent's help goes on with behind the sender's.
const PUSHED_AS: &str = "\n\nPushed as \"";

/// The metrics of a source that came from elsewhere.
pub(crate) struct Pushed {
    /// By the places of the source's metrics.
    metrics: Vec<Option<Metric>>,
    pub families: Vec<Family>,
    series: Vec<Series>,
    by_name: HashMap<(usize, series::Parsed), usize>,
    /// Changes when series have other numbers.
    pub generation: u64,
    /// The series that have values in this sample.
    open: Vec<usize>,
}

/// A metric of PCP: a part of a family, or all of it.
struct Metric {
    family: usize,
    form: Form,
    desc: Desc,
    instances: HashMap<Inst, Place>,
    /// The instances are those of this version of their domain.
    version: u64,
}

/// What an instance is.
struct Place {
    name: Box<str>,
    series: usize,
    /// Of a bucket or a quantile.
    bound: f64,
}

/// A metric as it came.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Family {
    pub name: String,
    pub unit: String,
    pub help: String,
    pub kind: Kind,
    /// The unit as PCP has it.
    pub units: Units,
}

/// What a metric was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Gauge,
    Counter,
    UpDownCounter,
    Histogram,
    Exponential,
    Summary,
}

/// What tells a series from others of its family.
#[derive(Debug, Default)]
pub(crate) struct Series {
    family: usize,
    /// The attributes of its resource; `None` where the agent has made it.
    pub resource: Option<Vec<(String, Json)>>,
    /// The service, as far as the name of the instance tells it.
    pub service: Option<String>,
    /// Name and version of its scope.
    pub scope: [String; 2],
    /// Those of its points. Where there is no resource, with what labels alone tell of its instance: who it is of, as `job` and
    /// `instance` of what was scraped.
    pub attributes: Vec<(String, Json)>,
    point: Point,
    /// When its sum began, in nanoseconds since the epoch, as far as that came.
    pub start: Option<u64>,
    /// An exemplar that has not gone out yet.
    pub exemplar: Option<Exemplar>,
    /// The text of the newest one.
    told: Box<[u8]>,
}

/// An exemplar, as the agent tells it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Exemplar {
    /// In nanoseconds since the epoch.
    pub time: u64,
    pub value: Number,
    pub trace_id: Vec<u8>,
    pub span_id: Vec<u8>,
    /// What else is told of it.
    pub attributes: Vec<(String, String)>,
}

impl Exemplar {
    /// `trace_id=HEX span_id=HEX value=NUMBER time=SECONDS.FRACTION`; of what was scraped without the ids and the time, if it had none,
    /// and with further `NAME=VALUE` before the value, in which blanks and the like are escaped ([`series::escape`]).
    fn parse(text: &[u8]) -> Option<Exemplar> {
        let text = std::str::from_utf8(text).ok()?;
        let (labels, rest) = match text.rsplit_once(" value=") {
            Some(apart) => apart,
            None => ("", text.strip_prefix("value=")?),
        };
        let (value, time) = match rest.split_once(' ') {
            Some((value, time)) => (value, nanoseconds(time.strip_prefix("time=")?)?),
            None => (rest, 0),
        };
        let value = match value.parse() {
            Ok(whole) => Number::I64(whole),
            Err(_) => Number::Double(value.parse().ok()?),
        };
        let mut exemplar =
            Exemplar { time, value, trace_id: Vec::new(), span_id: Vec::new(), attributes: Vec::new() };
        for word in labels.split(' ').filter(|word| !word.is_empty()) {
            let (name, text) = word.split_once('=')?;
            match (name, hexadecimal(text)) {
                ("trace_id", Some(id)) if id.len() == 16 => exemplar.trace_id = id,
                ("span_id", Some(id)) if id.len() == 8 => exemplar.span_id = id,
                // An exemplar without a trace, or a span.
                ("trace_id" | "span_id", _) if text.is_empty() => {}
                _ => exemplar.attributes.push((plain(name), plain(text))),
            }
        }
        Some(exemplar)
    }
}

/// What was escaped; what escapes cannot have made is as it was. Archives do not tell whether their agent had escapes: what could be
/// escaped is taken for it.
fn plain(text: &str) -> String {
    series::unescape(text).unwrap_or_else(|| text.to_owned())
}

/// Seconds since the epoch with up to nine digits behind the point.
fn nanoseconds(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = u32::try_from(fraction.len()).ok().filter(|digits| (1..=9).contains(digits))?;
    let nanos = fraction.parse::<u64>().ok()? * 10_u64.pow(9 - digits);
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos)
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    if text.len().is_multiple_of(2) { text.as_bytes().chunks(2).map(pair).collect() } else { None }
}

/// The values of a series in a sample.
#[derive(Debug, Default)]
pub(crate) struct Point {
    pub value: Option<Number>,
    pub count: Option<u64>,
    pub sum: Option<f64>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    /// Of an exponential histogram.
    pub scale: Option<i32>,
    /// Upper bounds, and how many values are not above them: ascending, the last one infinite.
    pub buckets: Vec<(f64, u64)>,
    /// Quantiles and their values, ascending.
    pub quantiles: Vec<(f64, f64)>,
}

impl Series {
    fn set_exemplar(&mut self, text: &[u8]) {
        if *self.told != *text {
            self.told = text.into();
            self.exemplar = Exemplar::parse(text);
        }
    }
}

impl Pushed {
    /// Finds those that came from elsewhere. A part of a histogram or summary whose buckets or quantiles are not exported is a
    /// metric of PCP as any other; so is one of a histogram whose counts may fall, as what is exported are cumulative ones.
    pub(crate) fn new(source: &mut Source) -> Pushed {
        let about: Vec<Option<About>> = (0..source.metrics.len()).map(|at| About::of(source, at)).collect();
        let mut families: Vec<Family> = Vec::new();
        let mut metrics: Vec<Option<Metric>> = Vec::new();
        let shape = |own: &About| {
            about.iter().flatten().find_map(|other| {
                let is_same = (&other.name, &other.unit) == (&own.name, &own.unit);
                other.shape().filter(|_| is_same)
            })
        };
        // What exemplars and starts are of: the one metric of that name which is exported, too.
        let whole = |own: &About| {
            let mut kinds = about.iter().flatten().filter_map(|other| {
                let is_same = (&other.name, &other.unit) == (&own.name, &own.unit);
                other.kind().filter(|_| is_same)
            });
            let kind = kinds.next()?;
            kinds.all(|other| other == kind).then_some(kind)
        };
        for (at, own) in about.iter().enumerate() {
            let metric = own.as_ref().and_then(|own| {
                let kind = match own.form {
                    Form::Bucket | Form::ExponentialBucket | Form::Count if !own.only_grows => return None,
                    Form::Gauge => Kind::Gauge,
                    Form::Counter => Kind::Counter,
                    Form::UpDownCounter => Kind::UpDownCounter,
                    Form::Exemplar | Form::Start => whole(own)?,
                    _ => own.shape().or_else(|| shape(own))?,
                };
                let known = families.iter().position(|family| {
                    (&family.name, &family.unit, family.kind) == (&own.name, &own.unit, kind)
                });
                let family = known.unwrap_or_else(|| {
                    let (name, unit) = (own.name.clone(), own.unit.clone());
                    families.push(Family { name, unit, help: help(source, at), kind, units: Units::NONE });
                    families.len() - 1
                });
                let desc = source.metrics[at].desc;
                if !own.form.is_of_no_unit() {
                    families[family].units = desc.units;
                }
                let instances = HashMap::default();
                Some(Metric { family, form: own.form, desc, instances, version: 0 })
            });
            metrics.push(metric);
        }
        Pushed {
            metrics,
            families,
            series: Vec::new(),
            by_name: HashMap::default(),
            generation: 0,
            open: Vec::new(),
        }
    }

    /// Whether the metric at a place came from elsewhere.
    pub(crate) fn has(&self, at: usize) -> bool {
        self.metrics.get(at).is_some_and(Option::is_some)
    }

    /// Whether the metric at a place is part of the points of one that came from elsewhere, and not something told beside them.
    pub(crate) fn has_values(&self, at: usize) -> bool {
        let is_value = |metric: &Metric| !matches!(metric.form, Form::Exemplar | Form::Start);
        self.metrics.get(at).and_then(Option::as_ref).is_some_and(is_value)
    }

    /// Takes in the values of the metric at a place, if it came from elsewhere.
    pub(crate) fn add(&mut self, source: &mut Source, at: usize, time: Timestamp, values: ValuesRef<'_>) {
        let Some(Some(metric)) = self.metrics.get_mut(at) else { return };
        let Desc { value_type, indom, .. } = metric.desc;
        let version = source.instances.version(&mut source.context, indom, time);
        if version != metric.version {
            let Source { context, instances, .. } = source;
            metric
                .instances
                .retain(|inst, place| *place.name == *instances.name(context, indom, *inst, time));
            metric.version = version;
        }
        for (inst, value) in values.iter() {
            let Ok(typed) = value.typed(value_type) else { continue };
            let Some((series, bound)) = self.place(source, at, inst, time) else { continue };
            let Some(Some(metric)) = self.metrics.get(at) else { continue };
            let series_of = &mut self.series[series];
            let number = match (metric.form, typed) {
                (Form::Exemplar, TypedRef::Text(text)) => {
                    series_of.set_exemplar(text);
                    continue;
                }
                (Form::Start, TypedRef::Number(Number::U64(start))) => {
                    series_of.start = Some(start).filter(|start| *start > 0);
                    continue;
                }
                (Form::Exemplar | Form::Start, _) => continue,
                (_, TypedRef::Number(number)) => number,
                _ => continue,
            };
            let Series { point, .. } = series_of;
            let was_empty = point.is_empty();
            point.set(metric.form, bound, number);
            // A bucket or quantile without a bound is none.
            if was_empty && !point.is_empty() {
                self.open.push(series);
            }
        }
    }

    /// Gives the points of a sample, each with its family, the family's number, and the number of its series.
    pub(crate) fn end(&mut self, mut each: impl FnMut(&Family, usize, usize, &Series, &Point)) {
        for number in self.open.drain(..) {
            let series = &mut self.series[number];
            let mut point = std::mem::take(&mut series.point);
            point.order();
            each(&self.families[series.family], series.family, number, series, &point);
            // Its memory is used again.
            point.clear();
            series.point = point;
            series.exemplar = None;
        }
        if self.series.len() > MAX_SERIES {
            self.series.clear();
            self.by_name.clear();
            self.metrics.iter_mut().flatten().for_each(|metric| metric.instances.clear());
            self.generation += 1;
        }
    }

    /// The series of an instance, and the bound that it stands for.
    fn place(&mut self, source: &mut Source, at: usize, inst: Inst, time: Timestamp) -> Option<(usize, f64)> {
        let metric = self.metrics.get_mut(at)?.as_mut()?;
        if let Some(place) = metric.instances.get(&inst) {
            return Some((place.series, place.bound));
        }
        let name = source.instance(at, inst, time).unwrap_or_default().to_owned();
        let labels = own_labels(source, metric.desc.indom, inst, time);
        let read = Read::of(&name, &labels, metric.form);
        let family = metric.family;
        let series = *self.by_name.entry((family, read.base)).or_insert_with(|| {
            self.series.push(Series { family, ..read.series });
            self.series.len() - 1
        });
        metric.instances.insert(inst, Place { name: name.into(), series, bound: read.bound });
        Some((series, read.bound))
    }
}

/// What the labels of a metric say.
struct About {
    name: String,
    unit: String,
    form: Form,
    only_grows: bool,
}

impl About {
    fn of(source: &mut Source, at: usize) -> Option<About> {
        let desc = source.metrics[at].desc;
        if desc.pmid.is_derived() || desc.indom == InDom::NULL {
            return None;
        }
        let labels = source.labels.of_metric(&mut source.context, &desc);
        let text = |name: &str| -> Option<String> {
            let label = labels.iter().find(|label| label.name == name)?;
            serde_json::from_str(&label.value).ok()
        };
        let form = Form::from_word(&text(series::KIND)?)?;
        if desc.value_type.is_numeric() == (form == Form::Exemplar) {
            return None;
        }
        let only_grows = desc.semantics == Semantics::Counter;
        let unit = text(series::UNIT).unwrap_or_default();
        Some(About { name: text(series::NAME)?, unit, form, only_grows })
    }

    /// What has such a value, or such parts, and nothing else has.
    fn kind(&self) -> Option<Kind> {
        match self.form {
            Form::Gauge => Some(Kind::Gauge),
            Form::Counter => Some(Kind::Counter),
            Form::UpDownCounter => Some(Kind::UpDownCounter),
            _ => self.shape(),
        }
    }

    /// What has such parts and nothing else has.
    fn shape(&self) -> Option<Kind> {
        match self.form {
            Form::Bucket | Form::ExponentialBucket if !self.only_grows => None,
            Form::Bucket => Some(Kind::Histogram),
            Form::ExponentialBucket => Some(Kind::Exponential),
            Form::Quantile => Some(Kind::Summary),
            _ => None,
        }
    }
}

/// An instance, taken apart.
struct Read {
    /// What it has in common with the other parts of its series.
    base: series::Parsed,
    series: Series,
    bound: f64,
}

impl Read {
    fn of(name: &str, labels: &[Label], form: Form) -> Read {
        let Some(mut parsed) = series::parse(name) else {
            // Whatever is named by other rules is told apart by its name all the same.
            let attributes = vec![("pcp.instance".to_owned(), Json::from(name))];
            let series = Series { attributes, ..Series::default() };
            let base = series::Parsed { head: name.to_owned(), pairs: Vec::new() };
            return Read { base, series, bound: f64::NAN };
        };
        let in_name: Vec<String> = parsed.pairs.iter().map(|(key, _)| series::label(key)).collect();
        let mut bound = f64::NAN;
        let of_bound = match form {
            Form::Bucket | Form::ExponentialBucket => Some(series::BOUND),
            Form::Quantile => Some(series::QUANTILE),
            _ => None,
        };
        if let Some(at) = parsed.pairs.iter().position(|(key, _)| Some(key.as_str()) == of_bound) {
            bound = match parsed.pairs.remove(at).1.as_str() {
                "+Inf" => f64::INFINITY,
                text => text.parse().unwrap_or(f64::NAN),
            };
        }
        let base = parsed.clone();
        let service = Some(parsed.head).filter(|head| !head.is_empty());
        let label = |key: &str| -> Option<Json> {
            let name = series::label(key);
            let label = labels.iter().find(|label| label.name == name)?;
            serde_json::from_str(&label.value).ok()
        };
        let mut scope = <[String; 2]>::default();
        let mut attributes: Vec<(String, Json)> = Vec::with_capacity(parsed.pairs.len());
        for (key, text) in parsed.pairs {
            if key == series::SCOPE_NAME {
                scope[0] = text;
                continue;
            }
            // With the type that the label has; of two that PCP cannot tell apart it is another's.
            let value = label(&key).filter(|value| shown(value) == text).unwrap_or(Json::String(text));
            attributes.push((key, value));
        }
        let names = label(series::RESOURCE_NAMES);
        let names = names.as_ref().and_then(Json::as_str).and_then(series::parse_names);
        let resource = names.map(|names| {
            let take = |name: String| {
                let own = attributes.iter().position(|(key, _)| *key == name);
                let value = own.map(|at| attributes.remove(at).1).or_else(|| label(&name))?;
                Some((name, value))
            };
            names.into_iter().filter_map(take).collect()
        });
        if let Some(Json::String(version)) = label(series::SCOPE_VERSION) {
            scope[1] = version;
        }
        if resource.is_none() {
            let is_told = |name: &str| {
                name == series::RESOURCE_NAMES
                    || name == series::label(series::SCOPE_VERSION)
                    || in_name.iter().any(|known| known == name)
            };
            let others = labels.iter().filter(|label| !is_told(&label.name));
            attributes
                .extend(others.filter_map(|label| {
                    Some((label.name.clone(), serde_json::from_str(&label.value).ok()?))
                }));
        }
        Read { base, series: Series { resource, service, scope, attributes, ..Series::default() }, bound }
    }
}

impl Series {
    /// The service of one without a resource, unless its attributes tell the same.
    pub(crate) fn untold_service(&self) -> Option<&str> {
        let service = self.service.as_deref().filter(|_| self.resource.is_none())?;
        let told = |name: &str| self.attributes.iter().find(|(known, _)| known == name)?.1.as_str();
        let tells = |namespace: &str, name: &str, instance: &str| {
            let namespace = told(namespace).map_or_else(String::new, |text| format!("{text}/"));
            let instance = told(instance).map_or_else(String::new, |text| format!("@{text}"));
            told(name).is_some_and(|name| format!("{namespace}{name}{instance}") == service)
        };
        let is_told =
            tells("", "job", "instance") || tells("service_namespace", "service_name", "service_instance_id");
        (!is_told).then_some(service)
    }
}

impl Point {
    fn set(&mut self, form: Form, bound: f64, number: Number) {
        let whole = match number {
            Number::U64(number) => number,
            other => other.to_f64() as u64,
        };
        match form {
            // Delta that turned out to have fractions is in two metrics, and was added up in both.
            Form::Gauge | Form::Counter | Form::UpDownCounter => {
                self.value = Some(match self.value {
                    Some(other) => Number::Double(other.to_f64() + number.to_f64()),
                    None => number,
                });
            }
            Form::Bucket | Form::ExponentialBucket if bound.is_nan() => {}
            Form::Bucket | Form::ExponentialBucket => self.buckets.push((bound, whole)),
            Form::Quantile if bound.is_nan() => {}
            Form::Quantile => self.quantiles.push((bound, number.to_f64())),
            Form::Count => self.count = Some(whole),
            Form::Sum => self.sum = Some(number.to_f64()),
            Form::Min => self.min = Some(number.to_f64()),
            Form::Max => self.max = Some(number.to_f64()),
            Form::Scale => self.scale = Some(number.to_f64() as i32),
            // Told beside the point.
            Form::Exemplar | Form::Start => {}
        }
    }

    fn is_empty(&self) -> bool {
        let Point { value, count, sum, min, max, scale, buckets, quantiles } = self;
        value.is_none()
            && count.is_none()
            && scale.is_none()
            && [sum, min, max].into_iter().all(|value| value.is_none())
            && buckets.is_empty()
            && quantiles.is_empty()
    }

    fn order(&mut self) {
        self.buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        self.quantiles.sort_by(|one, other| one.0.total_cmp(&other.0));
    }

    /// Without values; the memory stays.
    fn clear(&mut self) {
        let Point { mut buckets, mut quantiles, .. } = std::mem::take(self);
        buckets.clear();
        quantiles.clear();
        *self = Point { buckets, quantiles, ..Point::default() };
    }

    /// How many values there were: what was counted, or else what is not above any bound.
    pub(crate) fn total(&self) -> u64 {
        self.count.or_else(|| self.buckets.last().map(|(_, below)| *below)).unwrap_or(0)
    }

    /// The finite bounds, and how many values are in the bucket below each and in the last one, which has none.
    pub(crate) fn apart(&self) -> (Vec<f64>, Vec<u64>) {
        let mut before = 0;
        let finite = self.buckets.iter().filter(|(bound, _)| bound.is_finite());
        let (bounds, mut counts): (Vec<f64>, Vec<u64>) = finite
            .map(|&(bound, below)| {
                let own = below.saturating_sub(before);
                before = before.max(below);
                (bound, own)
            })
            .unzip();
        counts.push(self.total().saturating_sub(before));
        (bounds, counts)
    }
}

/// A value as it is in the name of an instance.
fn shown(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Number(number) if number.is_f64() => number.as_f64().unwrap_or_default().to_string(),
        other => other.to_string(),
    }
}

/// The labels that an instance has for itself.
fn own_labels(source: &mut Source, indom: InDom, inst: Inst, time: Timestamp) -> Vec<Label> {
    let version = source.instances.version(&mut source.context, indom, time);
    source.labels.list_of_instance(&mut source.context, indom, inst, version).to_vec()
}

/// What the sender said of a metric.
fn help(source: &mut Source, at: usize) -> String {
    let pmid = source.metrics[at].desc.pmid;
    let text = source.context.text(TextTarget::Metric(pmid), TextLevel::Help).unwrap_or_default();
    match text.rsplit_once(PUSHED_AS) {
        Some((help, _)) => help.to_owned(),
        None => source.one_line(at).trim().to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use pcp_model::LabelFlags;

    use super::*;

    #[test]
    fn exemplars_are_read_as_the_agent_tells_them_and_go_out_once() {
        let text = b"trace_id=0af7651916cd43dd8448eb211c80319c span_id=b7ad6b7169203331 value=-2 time=1700000000.000000005";
        let mut series = Series::default();
        series.set_exemplar(text);
        let exemplar = series.exemplar.take().expect("a new one");
        let expected = Exemplar {
            time: 1_700_000_000_000_000_005,
            value: Number::I64(-2),
            trace_id: hexadecimal("0af7651916cd43dd8448eb211c80319c").expect("digits"),
            span_id: hexadecimal("b7ad6b7169203331").expect("digits"),
            attributes: Vec::new(),
        };
        assert_eq!(exemplar, expected);
        series.set_exemplar(text);
        assert_eq!(series.exemplar, None, "the same as before");
        series.set_exemplar(b"trace_id= span_id= value=1e300 time=0.000000000");
        assert_eq!(series.exemplar.as_ref().map(|one| one.value), Some(Number::Double(1e300)));
        let scraped = Exemplar::parse(b"trace_id=4b user=ann value=0.5 time=1605281325.5").expect("one");
        assert_eq!((scraped.time, scraped.trace_id.len()), (1_605_281_325_500_000_000, 0));
        let told: Vec<&str> = scraped.attributes.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(told, ["trace_id", "user"], "what is no id of a trace is not taken for one");
        let escaped =
            Exemplar::parse(b"us%20er=ann%20b%3d%0a%25 old=100% route=/a%20b empty= span_id= value=1.0")
                .expect("one");
        assert_eq!(escaped.value, Number::Double(1.0));
        let told: Vec<(&str, &str)> =
            escaped.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(told, [("us er", "ann b=\n%"), ("old", "100%"), ("route", "/a b"), ("empty", "")]);
        assert_eq!(Exemplar::parse(b"value=1").map(|one| (one.time, one.value)), Some((0, Number::I64(1))));
        for wrong in [
            "",
            "trace_id=0a",
            "trace_id=0a two words value=2 time=1.000000000",
            "trace_id=0a span_id=b7 value=two time=1.000000000",
            "trace_id=0a span_id=b7 value=2 time=1.0000000001",
            "trace_id=0a span_id=b7 value=2 time=99999999999999999999.000000000",
        ] {
            assert_eq!(Exemplar::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    /// A series as it is read from an instance with labels of its own.
    pub(crate) fn series(name: &str, labels: &[(&str, &str)]) -> Series {
        let label = |&(name, value): &(&str, &str)| Label {
            name: name.to_owned(),
            value: value.to_owned(),
            flags: LabelFlags::default(),
        };
        let labels: Vec<Label> = labels.iter().map(label).collect();
        Read::of(name, &labels, Form::Gauge).series
    }

    #[test]
    fn histograms_whose_counts_may_fall_are_none_here() {
        let about = |form, only_grows| About { name: String::new(), unit: String::new(), form, only_grows };
        assert_eq!(about(Form::Bucket, true).shape(), Some(Kind::Histogram));
        assert_eq!(about(Form::Bucket, false).shape(), None);
        assert_eq!(about(Form::ExponentialBucket, false).shape(), None);
        assert_eq!(about(Form::Quantile, false).shape(), Some(Kind::Summary));
    }

    #[test]
    fn buckets_without_bounds_leave_a_point_empty() {
        let mut point = Point::default();
        point.set(Form::Bucket, f64::NAN, Number::U64(3));
        point.set(Form::Quantile, f64::NAN, Number::Double(3.0));
        assert!(point.is_empty());
        point.set(Form::Bucket, f64::INFINITY, Number::U64(3));
        assert!(!point.is_empty());
    }

    #[test]
    fn without_a_resource_labels_and_service_tell_whose_it_is() {
        let scraped = series(
            "node@a:9100{cpu=0}",
            &[("cpu", "\"0\""), ("instance", "\"a:9100\""), ("job", "\"node\"")],
        );
        let told: Vec<(&str, &str)> = scraped
            .attributes
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default()))
            .collect();
        assert_eq!(told, [("cpu", "0"), ("instance", "a:9100"), ("job", "node")]);
        assert_eq!((scraped.untold_service(), scraped.service.as_deref()), (None, Some("node@a:9100")));
        let bare = series("node@a:9100{cpu=0}", &[]);
        assert_eq!(bare.untold_service(), Some("node@a:9100"));
        let large = series("shop{k=v}", &[("service_name", "\"shop\""), ("otel_scope_version", "\"1\"")]);
        assert_eq!((large.untold_service(), large.scope[1].as_str(), large.attributes.len()), (None, "1", 2));
        let with_resource = series("shop{k=v}", &[("otel_resource_names", "\"k\""), ("x", "1")]);
        assert_eq!((with_resource.attributes.len(), with_resource.untold_service()), (0, None));
    }
}
