//! OpenMetrics text (openmetrics.io), which Prometheus and promtool read.
//!
//! ```text
//! # HELP kernel_all_cpu_user_seconds total user CPU time from /proc/stat for all CPUs
//! # TYPE kernel_all_cpu_user_seconds counter
//! # UNIT kernel_all_cpu_user_seconds seconds
//! kernel_all_cpu_user_seconds_total{hostname="web1"} 4711.23
//! # EOF
//! ```
//!
//! Times become seconds and sizes bytes, as the format wants them, so values of such metrics are divided or multiplied; all others
//! are as they are. Text is the value of an `_info`, as a label. Event records are no metrics. Labels are those that PCP has for the
//! metric and the instance, and `instname`, the name of the instance, as PCP's own exporter has it.
//!
//! Metrics that came from elsewhere go out under the names and attributes that they came with, histograms and summaries as such.
//!
//! One sample of a collector has no times, as who reads it does so now; all else has. The lines of a metric stand together, so text is
//! put together in memory, up to [`LIMIT`].

use std::collections::BTreeMap;
use std::io::Write as _;

use hashbrown::{HashMap, HashSet};
use jumpseat_tools::complain;
use jumpseat_tools::exposition::{self, base_unit, family_name, push_escaped, push_labels};
use jumpseat_wire::series;
use pcp_model::{Label, Number, Semantics, Timestamp, ValueType};
use pcp_pdu::TypedRef;
use serde_json::Value as Json;

use crate::formats::error::ExportError;
use crate::formats::pushed::{self, Point, Pushed, Series};
use crate::formats::source::{NAME, Source};
use crate::formats::text::Output;
use crate::formats::walk::{Format, Sample};

/// How much text is held.
const LIMIT: usize = 1 << 30;

/// Puts a page together.
pub(crate) struct OpenMetrics {
    output: Output,
    /// Of each metric; `None` for one that the format has nothing for, or that came from elsewhere.
    families: Vec<Option<Family>>,
    pushed: Pushed,
    /// Of each metric that came from elsewhere, likewise.
    returned: Vec<Option<Family>>,
    held: usize,
    timed: bool,
}

/// The lines of a metric.
struct Family {
    /// The name, without the ending that tells what a line is.
    name: String,
    kind: Kind,
    /// What values are multiplied by.
    factor: Option<f64>,
    unit: Option<&'static str>,
    help: String,
    labels: BTreeMap<String, String>,
    /// Of each label set, by the head of its lines, in the order in which these came: a set's samples stand together.
    lines: Vec<Vec<u8>>,
    places: HashMap<Vec<u8>, usize>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Counter,
    Gauge,
    Info,
    Histogram,
    Summary,
}

impl OpenMetrics {
    /// A page; `timed` tells whether lines have times.
    pub(crate) fn new(output: Output, source: &mut Source, timed: bool) -> OpenMetrics {
        let mut names = HashSet::new();
        let mut is_fresh = |family: &Family, name: &str| {
            let fresh = names.insert(family.name.clone());
            if !fresh {
                complain!("{NAME}: {name} is left out: another metric is {} already", family.name);
            }
            fresh
        };
        let pushed = Pushed::new(source);
        let mut families = Vec::new();
        for at in 0..source.metrics.len() {
            let family = if pushed.has_values(at) { None } else { Family::new(source, at) };
            families.push(family.filter(|family| is_fresh(family, &source.metrics[at].name)));
        }
        let host: BTreeMap<String, String> = host_labels(source);
        let returned = pushed.families.iter().map(|came| {
            let family = Family::returned(came, &host);
            is_fresh(&family, &came.name).then_some(family)
        });
        let returned = returned.collect();
        OpenMetrics { output, families, pushed, returned, held: 0, timed }
    }
}

impl Format for OpenMetrics {
    fn sample(&mut self, source: &mut Source, sample: &Sample<'_>) -> Result<(), ExportError> {
        for (metric, values) in sample.sets() {
            self.pushed.add(source, metric, sample.time, values);
            let Some(family) = &mut self.families[metric] else { continue };
            let desc = source.metrics[metric].desc;
            for (inst, value) in values.iter() {
                let Ok(value) = value.typed(desc.value_type) else { continue };
                let mut labels = family.labels.clone();
                if let Some(name) = source.instance(metric, inst, sample.time) {
                    labels.insert("instname".to_owned(), name.to_owned());
                    let version = source.instances.version(&mut source.context, desc.indom, sample.time);
                    let own = source.labels.list_of_instance(&mut source.context, desc.indom, inst, version);
                    own.iter().for_each(|label| add_label(&mut labels, label));
                }
                self.held += family.line(&value, labels, self.timed.then_some(sample.time));
            }
        }
        let (returned, held) = (&mut self.returned, &mut self.held);
        let time = self.timed.then_some(sample.time);
        self.pushed.end(|_, family, _, series, point| {
            if let Some(family) = &mut returned[family] {
                *held += family.point(series, point, time);
            }
        });
        if self.held > LIMIT { Err(ExportError::TooMuch { limit: LIMIT }) } else { Ok(()) }
    }

    fn finish(&mut self, _: &mut Source) -> Result<(), ExportError> {
        let families = self.families.iter().chain(&self.returned).flatten();
        for family in families.filter(|family| !family.lines.is_empty()) {
            let Family { name, kind, unit, help, lines, .. } = family;
            let out = &mut self.output.buffer;
            // Memory takes everything.
            let mut text = String::new();
            push_escaped(help, true, &mut text);
            let _ = writeln!(out, "# HELP {name} {text}");
            let _ = writeln!(out, "# TYPE {name} {}", kind.word());
            if let Some(unit) = unit {
                let _ = writeln!(out, "# UNIT {name} {unit}");
            }
            lines.iter().for_each(|lines| out.extend_from_slice(lines));
            self.output.pass(false)?;
        }
        self.output.buffer.extend_from_slice(b"# EOF\n");
        self.output.finish()
    }
}

impl Family {
    fn new(source: &mut Source, at: usize) -> Option<Family> {
        let metric = source.metrics[at].clone();
        let kind = match metric.desc.value_type {
            ValueType::String => Kind::Info,
            value_type if !value_type.is_numeric() => return None,
            _ if metric.desc.semantics == Semantics::Counter => Kind::Counter,
            _ => Kind::Gauge,
        };
        let (unit, factor) = match kind {
            Kind::Info => (None, None),
            _ => base_unit(metric.desc.units),
        };
        let name = family_name(&metric.name, unit);
        let help = source.one_line(at);
        let mut labels = BTreeMap::new();
        for label in source.labels.of_metric(&mut source.context, &metric.desc) {
            add_label(&mut labels, &label);
        }
        let help = if help.is_empty() { metric.name } else { help };
        Some(Family { name, kind, factor, unit, help, labels, lines: Vec::new(), places: HashMap::default() })
    }

    /// Of a metric that came from elsewhere.
    fn returned(came: &pushed::Family, host: &BTreeMap<String, String>) -> Family {
        let (unit, factor) = base_unit(came.units);
        let kind = match came.kind {
            pushed::Kind::Counter => Kind::Counter,
            pushed::Kind::Gauge | pushed::Kind::UpDownCounter => Kind::Gauge,
            pushed::Kind::Histogram | pushed::Kind::Exponential => Kind::Histogram,
            pushed::Kind::Summary => Kind::Summary,
        };
        Family {
            name: family_name(&came.name, unit),
            kind,
            factor,
            unit,
            help: if came.help.is_empty() { came.name.clone() } else { came.help.clone() },
            labels: host.clone(),
            lines: Vec::new(),
            places: HashMap::default(),
        }
    }

    /// Adds the lines of a point of one that came from elsewhere. How many bytes are held for them.
    fn point(&mut self, series: &Series, point: &Point, time: Option<Timestamp>) -> usize {
        let mut labels = self.labels.clone();
        let mut add = |pairs: &[(String, Json)]| {
            // Of two that have one name here, both.
            let mut own: BTreeMap<String, String> = BTreeMap::new();
            for (name, value) in pairs {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let known = own.entry(exposition::name(name, '_')).or_default();
                *known = if known.is_empty() { text } else { format!("{known};{text}") };
            }
            labels.extend(own);
        };
        add(series.resource.as_deref().unwrap_or_default());
        for (name, text) in [series::SCOPE_NAME, series::SCOPE_VERSION].into_iter().zip(&series.scope) {
            if !text.is_empty() {
                add(&[(name.to_owned(), text.as_str().into())]);
            }
        }
        match series.untold_service() {
            None => add(&series.attributes),
            Some(service) => {
                let mut attributes = vec![("service.name".to_owned(), Json::from(service))];
                attributes.extend_from_slice(&series.attributes);
                add(&attributes);
            }
        }
        let set = label_text(&labels);
        let mut out = Vec::new();
        let mut line = |ending: &str, more: Option<(&str, f64)>, value: String| {
            let _ = write!(out, "{}{ending}", self.name);
            match more {
                None => out.extend_from_slice(set.as_bytes()),
                Some((name, bound)) => {
                    let mut labels = labels.clone();
                    labels.insert(name.to_owned(), canonical(bound));
                    out.extend_from_slice(label_text(&labels).as_bytes());
                }
            }
            let _ = write!(out, " {value}");
            if let Some(time) = time {
                let _ = write!(out, " {}.{:09}", time.sec, time.nsec);
            }
            out.push(b'\n');
        };
        let factor = self.factor.unwrap_or(1.0);
        if let Some(value) = point.value {
            let text = match self.factor {
                None => number_text(value),
                Some(factor) => float(value.to_f64() * factor),
            };
            line(self.kind.ending(), None, text);
        }
        for &(bound, below) in &point.buckets {
            line("_bucket", Some((series::BOUND, bound * factor)), below.to_string());
        }
        // All that there is has no bound.
        if self.kind == Kind::Histogram && point.buckets.last().is_none_or(|(bound, _)| bound.is_finite()) {
            line("_bucket", Some((series::BOUND, f64::INFINITY)), point.total().to_string());
        }
        for &(quantile, value) in &point.quantiles {
            line("", Some((series::QUANTILE, quantile)), float(value * factor));
        }
        // The format has neither without the other, and no sum that can fall.
        if let Some(sum) = point.sum
            && matches!(self.kind, Kind::Histogram | Kind::Summary)
            && point.buckets.first().is_none_or(|(bound, _)| *bound >= 0.0)
        {
            line("_count", None, point.total().to_string());
            line("_sum", None, float(sum * factor));
        }
        let fresh = if self.places.contains_key(set.as_bytes()) { 0 } else { set.len() };
        let at = *self.places.entry(set.into_bytes()).or_insert_with(|| {
            self.lines.push(Vec::new());
            self.lines.len() - 1
        });
        self.lines[at].extend_from_slice(&out);
        out.len() + fresh
    }

    /// Adds a line. How many bytes are held for it.
    fn line(
        &mut self,
        value: &TypedRef<'_>,
        mut labels: BTreeMap<String, String>,
        time: Option<Timestamp>,
    ) -> usize {
        let mut out = Vec::new();
        out.extend_from_slice(self.name.as_bytes());
        out.extend_from_slice(self.kind.ending().as_bytes());
        if let TypedRef::Text(text) = value {
            labels.insert("value".to_owned(), String::from_utf8_lossy(text).into_owned());
        }
        out.extend_from_slice(label_text(&labels).as_bytes());
        out.push(b' ');
        let at = self.places.get(&out).copied();
        let fresh = if at.is_some() { 0 } else { out.len() };
        let at = at.unwrap_or_else(|| {
            self.places.insert(out.clone(), self.lines.len());
            self.lines.push(Vec::new());
            self.lines.len() - 1
        });
        let _ = match (value, self.factor) {
            (TypedRef::Number(number), Some(factor)) => write!(out, "{}", float(number.to_f64() * factor)),
            (TypedRef::Number(number), None) => write!(out, "{}", number_text(*number)),
            _ => write!(out, "1"),
        };
        if let Some(time) = time {
            let _ = write!(out, " {}.{:09}", time.sec, time.nsec);
        }
        out.push(b'\n');
        self.lines[at].extend_from_slice(&out);
        out.len() + fresh
    }
}

impl Kind {
    const fn word(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Info => "info",
            Kind::Histogram => "histogram",
            Kind::Summary => "summary",
        }
    }

    const fn ending(self) -> &'static str {
        match self {
            Kind::Counter => "_total",
            Kind::Gauge | Kind::Histogram | Kind::Summary => "",
            Kind::Info => "_info",
        }
    }
}

/// The labels of the host.
fn host_labels(source: &mut Source) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    source.labels.of_host(&mut source.context).iter().for_each(|label| add_label(&mut labels, label));
    labels
}

/// Labels in braces; nothing for none.
fn label_text(labels: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    push_labels(labels.iter().map(|(name, value)| (name.as_str(), value.as_str())), &mut text);
    text
}

fn number_text(number: Number) -> String {
    match number {
        Number::I32(v) => v.to_string(),
        Number::U32(v) => v.to_string(),
        Number::I64(v) => v.to_string(),
        Number::U64(v) => v.to_string(),
        Number::Float(v) if v.is_finite() => v.to_string(),
        Number::Float(_) | Number::Double(_) => float(number.to_f64()),
    }
}

/// A bound or quantile as the format wants it, so that the same one is the same text: `0.5`, `1.0`, `1e+06`, `1e-05`.
fn canonical(value: f64) -> String {
    if !value.is_finite() || (1e-4..1e6).contains(&value.abs()) || value == 0.0 {
        return if value.is_finite() { format!("{value:?}") } else { float(value) };
    }
    let text = format!("{value:e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let sign = if power.starts_with('-') { '-' } else { '+' };
    format!("{digits}e{sign}{:0>2}", power.trim_start_matches('-'))
}

/// A number as the format writes it.
fn float(value: f64) -> String {
    match value {
        v if v.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        v => v.to_string(),
    }
}

/// Adds a label of PCP's. Text loses its quotes, all other values are JSON as they are.
fn add_label(labels: &mut BTreeMap<String, String>, label: &Label) {
    let value = serde_json::from_str::<String>(&label.value).unwrap_or_else(|_| label.value.clone());
    labels.insert(exposition::name(&label.name, '_'), value);
}

#[cfg(test)]
mod tests {
    use pcp_model::Units;

    use super::*;

    #[test]
    fn samples_of_a_label_set_stand_together() {
        let mut family = Family {
            name: "m".to_owned(),
            kind: Kind::Gauge,
            factor: None,
            unit: None,
            help: String::new(),
            labels: BTreeMap::new(),
            lines: Vec::new(),
            places: HashMap::default(),
        };
        for (sec, name) in [(1, "a"), (1, "b"), (2, "a"), (2, "b")] {
            let labels = BTreeMap::from([("instname".to_owned(), name.to_owned())]);
            let time = Timestamp { sec, nsec: 0 };
            assert!(family.line(&TypedRef::Number(Number::I32(7)), labels, Some(time)) > 0);
        }
        let text = String::from_utf8(family.lines.concat()).expect("text");
        let heads: Vec<&str> = text.lines().map(|line| &line[..15]).collect();
        assert_eq!(
            heads,
            ["m{instname=\"a\"}", "m{instname=\"a\"}", "m{instname=\"b\"}", "m{instname=\"b\"}"]
        );
    }

    #[test]
    fn one_metric_of_two_targets_is_two_series() {
        let came = pushed::Family {
            name: "load1".to_owned(),
            unit: String::new(),
            help: String::new(),
            kind: pushed::Kind::Gauge,
            units: Units::NONE,
        };
        let mut family = Family::returned(&came, &BTreeMap::new());
        let point = Point { value: Some(Number::Double(0.5)), ..Point::default() };
        for target in ["\"a:9100\"", "\"b:9100\""] {
            let name = format!("node@{}", target.trim_matches('"'));
            let labels = [("instance", target), ("job", "\"node\"")];
            family.point(&pushed::tests::series(&name, &labels), &point, None);
            family.point(&pushed::tests::series(&name, &[]), &point, None);
        }
        let text = String::from_utf8(family.lines.concat()).expect("text");
        let expected = "load1{instance=\"a:9100\",job=\"node\"} 0.5\nload1{service_name=\"node@a:9100\"} 0.5\n\
                        load1{instance=\"b:9100\",job=\"node\"} 0.5\nload1{service_name=\"node@b:9100\"} 0.5\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn bounds_have_one_form() {
        for (value, text) in [
            (0.5, "0.5"),
            (1.0, "1.0"),
            (1e6, "1e+06"),
            (1_234_567.0, "1.234567e+06"),
            (1e-5, "1e-05"),
            (0.0, "0.0"),
        ] {
            assert_eq!(canonical(value), text);
        }
    }

    #[test]
    fn numbers_that_are_none_have_their_words() {
        for (value, text) in
            [(f64::NAN, "NaN"), (f64::INFINITY, "+Inf"), (f64::NEG_INFINITY, "-Inf"), (0.5, "0.5")]
        {
            assert_eq!(float(value), text);
        }
    }
}
