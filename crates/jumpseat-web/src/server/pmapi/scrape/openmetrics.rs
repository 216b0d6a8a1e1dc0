//! OpenMetrics 1.0:
//!
//! ```text
//! # HELP disk_dev_read_bytes per-disk count of bytes read
//! # TYPE disk_dev_read_bytes counter
//! # UNIT disk_dev_read_bytes bytes
//! disk_dev_read_bytes_total{hostname="web1",instname="sda"} 4711
//! # TYPE jumpseat_span histogram
//! jumpseat_span_bucket{le="0.05",source="app",span="request"} 812
//! jumpseat_span_series_count_total{...} 5 # {trace_id="...",span_id="..."} 0.3 1795386499.5
//! # EOF
//! ```
//!
//! * Times become seconds and sizes bytes, as the format wants them, and names end in the unit.
//! * `jumpseat.span.bucket`, `.sum` and `.count` are one histogram, so who asks for one gets all, from one fetch; its lines have no `instname`,
//!   which would set the buckets of a span apart.
//! * The slowest and the last failed span of a series are exemplars of its `.count` and `.errors`, and no metrics of their own.
//! * Text is not on the page: as a label it would begin a new series with each value.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;

use jumpseat_tools::exposition::{base_unit, family_name, push_escaped, push_labels};
use pcp_model::{Desc, Inst, Number, Semantics, Timestamp};
use pcp_pdu::TypedRef;

use super::text::{float, number};
use super::{Metric, Page, Value};
use crate::server::pmapi::call::Output;

const CONTENT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The metrics of the histogram of spans.
const HISTOGRAM: [&str; 3] = ["jumpseat.span.bucket", "jumpseat.span.sum", "jumpseat.span.count"];
/// Its name.
const SPANS: &str = "jumpseat_span";
/// Counters with exemplars, and below which node these are.
const COUNTERS: [(&str, &str); 2] = [
    ("jumpseat.span.series.count", "jumpseat.span.series.slowest."),
    ("jumpseat.span.series.errors", "jumpseat.span.series.failed."),
];
const PARTS: [&str; 4] = ["trace_id", "span_id", "value", "time"];
/// Most characters of an exemplar's labels, as the format says.
const MAX_EXEMPLAR: usize = 128;

pub(super) struct OpenMetrics {
    out: String,
    times: bool,
    /// Names of families that are on the page.
    families: HashSet<String>,
    /// By node and instance, of the group that is being added.
    exemplars: HashMap<(&'static str, Inst), Exemplar>,
    histogram: BTreeMap<BTreeMap<String, String>, Histogram>,
    histogram_help: Option<String>,
}

#[derive(Clone, Debug, Default)]
struct Exemplar {
    trace: String,
    span: String,
    seconds: Option<f64>,
    time: Option<f64>,
}

/// The histogram of a span.
#[derive(Clone, Debug, Default)]
struct Histogram {
    /// Bounds as they are written, and how many took no longer.
    buckets: Vec<(f64, String, u64)>,
    sum: Option<f64>,
    count: Option<u64>,
    time: Timestamp,
}

impl OpenMetrics {
    pub(super) fn new(times: bool) -> OpenMetrics {
        OpenMetrics {
            out: String::new(),
            times,
            families: HashSet::new(),
            exemplars: HashMap::new(),
            histogram: BTreeMap::new(),
            histogram_help: None,
        }
    }

    fn head(&mut self, family: &str, kind: &str, unit: Option<&str>, help: &str) {
        let out = &mut self.out;
        // Memory takes everything.
        let _ = writeln!(out, "# TYPE {family} {kind}");
        if let Some(unit) = unit {
            let _ = writeln!(out, "# UNIT {family} {unit}");
        }
        let _ = write!(out, "# HELP {family} ");
        // Quotes, too, unlike in the older format.
        push_escaped(help, true, out);
        out.push('\n');
    }

    fn time(&mut self, time: Timestamp) {
        if self.times {
            let _ = write!(self.out, " {}.{:09}", time.sec, time.nsec);
        }
    }

    /// Takes note of a part of the histogram of spans.
    fn add_histogram(&mut self, metric: &Metric<'_>, values: &[Value<'_>], time: Timestamp) {
        if metric.name == HISTOGRAM[0] {
            self.histogram_help.clone_from(&metric.one_line);
        }
        for Value { value, labels, .. } in values {
            let TypedRef::Number(value) = value else { continue };
            let mut labels = labels.clone();
            let bound = labels.remove("le");
            // It says what the instance domain is of, which sets counts and bounds apart.
            labels.remove("indom_name");
            let histogram = self.histogram.entry(labels).or_default();
            histogram.time = time;
            match (metric.name, bound) {
                ("jumpseat.span.bucket", Some(bound)) => {
                    if let (Some(limit), Some(count)) = (limit(&bound), integer(*value)) {
                        histogram.buckets.push((limit, bound, count));
                    }
                }
                ("jumpseat.span.sum", _) => histogram.sum = Some(value.to_f64()),
                ("jumpseat.span.count", _) => histogram.count = integer(*value),
                _ => {}
            }
        }
    }

    fn put_histograms(&mut self) {
        let histograms = std::mem::take(&mut self.histogram);
        if histograms.values().all(|histogram| histogram.buckets.is_empty()) {
            return;
        }
        let help = self.histogram_help.take().unwrap_or_else(|| HISTOGRAM[0].to_owned());
        self.families.insert(SPANS.to_owned());
        self.head(SPANS, "histogram", None, &help);
        for (known, mut histogram) in histograms {
            histogram.buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
            // The format has one without a bound, whose count is that of all.
            let Some((_, _, all)) = histogram.buckets.last().filter(|last| last.0 == f64::INFINITY).cloned()
            else {
                continue;
            };
            let lines =
                histogram.buckets.iter().map(|(_, bound, count)| ("_bucket", Some(bound), count.to_string()));
            let count = ("_count", None, all.to_string());
            let sum = histogram.sum.map(|sum| ("_sum", None, float(sum, |sum| sum.to_string())));
            for (ending, bound, value) in lines.chain([count]).chain(sum) {
                if self.is_too_long() {
                    return;
                }
                self.out.push_str(SPANS);
                self.out.push_str(ending);
                let bound = bound.map(|bound| ("le", bound.as_str()));
                let known = known.iter().map(|(name, value)| (name.as_str(), value.as_str()));
                push_labels(bound.into_iter().chain(known), &mut self.out);
                let _ = write!(self.out, " {value}");
                self.time(histogram.time);
                self.out.push('\n');
            }
        }
    }

    /// Takes note of a part of exemplars.
    fn add_exemplar(&mut self, node: &'static str, part: &str, values: &[Value<'_>]) {
        for Value { value, instance, .. } in values {
            let Some((inst, _)) = instance else { continue };
            let exemplar = self.exemplars.entry((node, *inst)).or_default();
            match (part, value) {
                ("trace_id", TypedRef::Text(text)) => {
                    exemplar.trace = String::from_utf8_lossy(text).into_owned()
                }
                ("span_id", TypedRef::Text(text)) => {
                    exemplar.span = String::from_utf8_lossy(text).into_owned()
                }
                ("value", TypedRef::Number(nanos)) => exemplar.seconds = Some(nanos.to_f64() / 1e9),
                ("time", TypedRef::Number(time)) => exemplar.time = Some(time.to_f64()),
                _ => {}
            }
        }
    }
}

impl Page for OpenMetrics {
    fn takes(&self, metric: &str, desc: &Desc) -> bool {
        desc.value_type.is_numeric() || exemplar_of(metric).is_some()
    }

    fn has_optional_labels(&self) -> bool {
        // They are not part of what a metric is, so they are none of a series.
        false
    }

    fn groups(&self, names: &mut Vec<String>) -> Vec<Vec<String>> {
        // They are with the counters that they are of.
        names.retain(|name| exemplar_of(name).is_none());
        let mut groups = Vec::new();
        // The histogram is whole or not there.
        if take(names, &HISTOGRAM) {
            groups.push(HISTOGRAM.map(str::to_owned).to_vec());
        }
        for (counter, node) in COUNTERS {
            if take(names, &[counter]) {
                // Exemplars first, so that they are known when their counter comes.
                let parts = PARTS.iter().map(|part| format!("{node}{part}"));
                groups.push(parts.chain([counter.to_owned()]).collect());
            }
        }
        groups
    }

    fn add(&mut self, metric: &Metric<'_>, values: &[Value<'_>], time: Timestamp) {
        if HISTOGRAM.contains(&metric.name) {
            return self.add_histogram(metric, values, time);
        }
        if let Some((node, part)) = exemplar_of(metric.name) {
            return self.add_exemplar(node, part, values);
        }
        let (unit, factor) = base_unit(metric.desc.units);
        let family = family_name(metric.name, unit);
        // Another metric has the name already, in one spelling or another.
        if !self.families.insert(family.clone()) {
            return;
        }
        let is_counter = metric.desc.semantics == Semantics::Counter;
        let help = metric.one_line.as_deref().unwrap_or(metric.name);
        self.head(&family, if is_counter { "counter" } else { "gauge" }, unit, help);
        let node = COUNTERS.iter().find(|(counter, _)| *counter == metric.name).map(|(_, node)| *node);
        for Value { value, instance, labels: known } in values {
            if self.is_too_long() {
                return;
            }
            let TypedRef::Number(value) = value else { continue };
            self.out.push_str(&family);
            if is_counter {
                self.out.push_str("_total");
            }
            let mut known = known.clone();
            if let Some((_, name)) = instance {
                known.entry("instname".to_owned()).or_insert_with(|| (*name).to_owned());
            }
            push_labels(known.iter().map(|(name, value)| (name.as_str(), value.as_str())), &mut self.out);
            let text = match factor {
                Some(factor) => float(value.to_f64() * factor, |value| value.to_string()),
                // A float has its own shortest text.
                None => match value {
                    Number::Float(v) if v.is_finite() => v.to_string(),
                    value => number(*value, |value| value.to_string()),
                },
            };
            let _ = write!(self.out, " {text}");
            self.time(time);
            let exemplar =
                node.zip(instance.as_ref()).and_then(|(node, (inst, _))| self.exemplars.get(&(node, *inst)));
            if let Some(text) = exemplar.and_then(Exemplar::text) {
                self.out.push_str(&text);
            }
            self.out.push('\n');
        }
    }

    fn end_of_group(&mut self) {
        self.put_histograms();
        self.exemplars.clear();
    }

    fn len(&self) -> usize {
        self.out.len()
    }

    fn finish(mut self: Box<Self>) -> Output {
        self.out.push_str("# EOF\n");
        Output::text(CONTENT, self.out.into_bytes())
    }
}

impl Exemplar {
    /// ` # {trace_id="...",span_id="..."} SECONDS TIME`, if there is a trace.
    fn text(&self) -> Option<String> {
        let seconds = self.seconds.filter(|seconds| seconds.is_finite())?;
        if self.trace.is_empty() {
            return None;
        }
        let mut known = vec![("trace_id", self.trace.as_str())];
        if !self.span.is_empty() {
            known.push(("span_id", self.span.as_str()));
        }
        let len = |known: &[(&str, &str)]| -> usize {
            known.iter().map(|(name, value)| name.chars().count() + value.chars().count()).sum()
        };
        if len(&known) > MAX_EXEMPLAR {
            known.truncate(1);
        }
        if len(&known) > MAX_EXEMPLAR {
            return None;
        }
        let mut text = String::from(" # ");
        push_labels(known, &mut text);
        let _ = write!(text, " {seconds}");
        if let Some(time) = self.time.filter(|time| time.is_finite()) {
            let _ = write!(text, " {time}");
        }
        Some(text)
    }
}

/// Takes names out. Whether any of them was there.
fn take(names: &mut Vec<String>, which: &[&str]) -> bool {
    let before = names.len();
    names.retain(|name| !which.contains(&name.as_str()));
    names.len() < before
}

/// The node and the part of an exemplar that a metric is.
fn exemplar_of(metric: &str) -> Option<(&'static str, &str)> {
    COUNTERS.iter().find_map(|(_, node)| Some((*node, metric.strip_prefix(node)?)))
}

/// The bound that a label says.
fn limit(bound: &str) -> Option<f64> {
    if bound == "+Inf" {
        Some(f64::INFINITY)
    } else {
        bound.parse().ok().filter(|limit: &f64| !limit.is_nan())
    }
}

fn integer(number: Number) -> Option<u64> {
    match number {
        Number::U64(v) => Some(v),
        Number::U32(v) => Some(v.into()),
        Number::I64(v) => v.try_into().ok(),
        Number::I32(v) => v.try_into().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exemplars_are_as_long_as_the_format_lets_them() {
        let of = |trace: &str, span: &str| Exemplar {
            trace: trace.to_owned(),
            span: span.to_owned(),
            seconds: Some(0.25),
            time: Some(1.5),
        };
        assert_eq!(of("ab", "cd").text().as_deref(), Some(" # {trace_id=\"ab\",span_id=\"cd\"} 0.25 1.5"));
        assert_eq!(of("", "cd").text(), None);
        let long = "x".repeat(110);
        assert_eq!(of(&long, "abcdefghij").text(), Some(format!(" # {{trace_id=\"{long}\"}} 0.25 1.5")));
        assert_eq!(of(&"x".repeat(200), "").text(), None);
    }
}
