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
//! One sample of a collector has no times, as who reads it does so now; all else has. The lines of a metric stand together, so text is
//! put together in memory, up to [`LIMIT`].

use std::collections::BTreeMap;
use std::io::Write as _;

use jumpseat_tools::complain;
use pcp_model::{Label, Number, Semantics, Timestamp, Units, ValueType};
use pcp_pdu::TypedRef;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::formats::error::ExportError;
use crate::formats::source::{NAME, Source};
use crate::formats::text::Output;
use crate::formats::walk::{Format, Sample};

/// How much text is held.
const LIMIT: usize = 1 << 30;

/// Puts a page together.
pub(crate) struct OpenMetrics {
    output: Output,
    /// Of each metric; `None` for one that the format has nothing for.
    families: Vec<Option<Family>>,
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
    places: FxHashMap<Vec<u8>, usize>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Counter,
    Gauge,
    Info,
}

impl OpenMetrics {
    /// A page; `timed` tells whether lines have times.
    pub(crate) fn new(output: Output, source: &mut Source, timed: bool) -> OpenMetrics {
        let mut names = FxHashSet::default();
        let mut families = Vec::new();
        for at in 0..source.metrics.len() {
            let family = Family::new(source, at);
            families.push(family.filter(|family| {
                let fresh = names.insert(family.name.clone());
                if !fresh {
                    complain!(
                        "{NAME}: {} is left out: another metric is {} already",
                        source.metrics[at].name,
                        family.name
                    );
                }
                fresh
            }));
        }
        OpenMetrics { output, families, held: 0, timed }
    }
}

impl Format for OpenMetrics {
    fn sample(&mut self, source: &mut Source, sample: &Sample<'_>) -> Result<(), ExportError> {
        for (metric, values) in sample.sets() {
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
        if self.held > LIMIT { Err(ExportError::TooMuch { limit: LIMIT }) } else { Ok(()) }
    }

    fn finish(&mut self, _: &mut Source) -> Result<(), ExportError> {
        for family in self.families.iter().flatten().filter(|family| !family.lines.is_empty()) {
            let Family { name, kind, unit, help, lines, .. } = family;
            let out = &mut self.output.buffer;
            // Memory takes everything.
            let _ = writeln!(out, "# HELP {name} {}", escaped(help, false));
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
            Kind::Counter | Kind::Gauge => base_unit(metric.desc.units),
        };
        let mut name = sanitized(&metric.name);
        for ending in ["_total", "_info"] {
            // The format's own, which comes back on the line of what it belongs to.
            if let Some(rest) = name.strip_suffix(ending) {
                name.truncate(rest.len());
            }
        }
        if let Some(unit) = unit
            && !name.ends_with(&format!("_{unit}"))
        {
            name.push('_');
            name.push_str(unit);
        }
        let help = source.one_line(at);
        let mut labels = BTreeMap::new();
        for label in source.labels.of_metric(&mut source.context, &metric.desc) {
            add_label(&mut labels, &label);
        }
        let help = if help.is_empty() { metric.name } else { help };
        Some(Family {
            name,
            kind,
            factor,
            unit,
            help,
            labels,
            lines: Vec::new(),
            places: FxHashMap::default(),
        })
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
        let mut before = '{';
        for (name, value) in &labels {
            let _ = write!(out, "{before}{name}=\"{}\"", escaped(value, true));
            before = ',';
        }
        if !labels.is_empty() {
            out.push(b'}');
        }
        out.push(b' ');
        let at = self.places.get(&out).copied();
        let fresh = if at.is_some() { 0 } else { out.len() };
        let at = at.unwrap_or_else(|| {
            self.places.insert(out.clone(), self.lines.len());
            self.lines.push(Vec::new());
            self.lines.len() - 1
        });
        let _ = match (value, self.factor) {
            (TypedRef::Number(number), Some(factor)) => write!(out, "{}", float(as_f64(*number) * factor)),
            (TypedRef::Number(Number::I32(v)), None) => write!(out, "{v}"),
            (TypedRef::Number(Number::U32(v)), None) => write!(out, "{v}"),
            (TypedRef::Number(Number::I64(v)), None) => write!(out, "{v}"),
            (TypedRef::Number(Number::U64(v)), None) => write!(out, "{v}"),
            (TypedRef::Number(Number::Float(v)), None) if v.is_finite() => write!(out, "{v}"),
            (TypedRef::Number(number), None) => write!(out, "{}", float(as_f64(*number))),
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
        }
    }

    const fn ending(self) -> &'static str {
        match self {
            Kind::Counter => "_total",
            Kind::Gauge => "",
            Kind::Info => "_info",
        }
    }
}

/// The unit that the format has for times and sizes, and what values become it by.
fn base_unit(units: Units) -> (Option<&'static str>, Option<f64>) {
    /// Seconds of nanoseconds to hours.
    const TIMES: [f64; 6] = [1e-9, 1e-6, 1e-3, 1.0, 60.0, 3600.0];
    let not_one = |factor: f64| (factor != 1.0).then_some(factor);
    match (units.dim_space, units.dim_time, units.dim_count) {
        (1, 0, 0) => (Some("bytes"), not_one(1024_f64.powi(units.scale_space.into()))),
        (0, 1, 0) => match TIMES.get(usize::from(units.scale_time)) {
            Some(factor) => (Some("seconds"), not_one(*factor)),
            None => (None, None),
        },
        _ => (None, None),
    }
}

fn as_f64(number: Number) -> f64 {
    match number {
        Number::I32(v) => v.into(),
        Number::U32(v) => v.into(),
        Number::I64(v) => v as f64,
        Number::U64(v) => v as f64,
        Number::Float(v) => v.into(),
        Number::Double(v) => v,
    }
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

/// A name of letters, digits and underscores, that does not begin with a digit.
fn sanitized(name: &str) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let first = if name.starts_with(|c: char| c.is_ascii_digit()) { "_" } else { "" };
    first.chars().chain(name.chars().map(legal)).collect()
}

/// Adds a label of PCP's. Text loses its quotes, all other values are JSON as they are.
fn add_label(labels: &mut BTreeMap<String, String>, label: &Label) {
    let value = serde_json::from_str::<String>(&label.value).unwrap_or_else(|_| label.value.clone());
    labels.insert(sanitized(&label.name), value);
}

/// Text as it is written in HELP, or in quotes.
fn escaped(text: &str, quoted: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if quoted { text.replace('"', "\\\"") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_become_the_formats_own() {
        assert_eq!(base_unit(Units::MILLISECOND), (Some("seconds"), Some(1e-3)));
        assert_eq!(base_unit(Units::BYTE), (Some("bytes"), None));
        assert_eq!(base_unit(Units::dimension(1, 0, 0, 1, 0, 0)), (Some("bytes"), Some(1024.0)));
        assert_eq!(base_unit(Units::COUNT), (None, None));
        assert_eq!(base_unit(Units::dimension(1, -1, 0, 1, 3, 0)), (None, None));
    }

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
            places: FxHashMap::default(),
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
    fn names_and_texts_are_escaped() {
        assert_eq!(sanitized("kernel.all.cpu-user"), "kernel_all_cpu_user");
        assert_eq!(sanitized("3com.x"), "_3com_x");
        assert_eq!(escaped("a\"b\\c\nd", true), "a\\\"b\\\\c\\nd");
        assert_eq!(escaped("a\"b\\c\nd", false), "a\"b\\\\c\\nd");
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
