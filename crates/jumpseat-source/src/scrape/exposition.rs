//! The text that targets answer with: Prometheus' format 0.0.4 and OpenMetrics 1.0, over one buffer and without I/O.
//!
//! ```text
//! # HELP name text        \\ and \n in it, and \" in OpenMetrics
//! # TYPE name type        of all samples that have this name, or it and one of the type's suffixes
//! # UNIT name unit        OpenMetrics
//! # EOF                   OpenMetrics: the last line, without which the answer was cut short
//! name{label="value",...} value [time] [# {label="value",...} value [time]]
//! |------- series ------| |------------------- tail --------------------|
//! {"name",label="value","label"="value",...}      names of any characters, as Prometheus 3 writes them; so in HELP, TYPE, UNIT
//! ```
//!
//! A series is told apart by the bytes that say what it is: [`series_end`] finds where they end, so that who has seen them before
//! ([`super::known`]) needs not take them apart ([`Series::read`]).
//!
//! **Invariants:** every byte sequence gives lines, and each line is taken or is [`Wrong`] with a column; nothing is looked at twice but for
//! the numbers.
//!
//! **Cost:** no allocation but for labels with escapes. `benches/scrape.rs` measures a whole scrape.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

/// Most labels of a series.
pub const MAX_LABELS: usize = 64;

/// Which of the two formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text format 0.0.4.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The format of a content type; whatever is not said to be OpenMetrics is Prometheus'.
    pub fn of(content_type: &str) -> Format {
        let word = content_type.split(';').next().unwrap_or_default().trim();
        match word.eq_ignore_ascii_case("application/openmetrics-text") {
            true => Format::OpenMetrics,
            false => Format::Text,
        }
    }

    /// Whether the body is there to its end, as far as the format tells.
    pub fn is_complete(self, body: &[u8]) -> bool {
        let body = body.strip_suffix(b"\n").unwrap_or(body);
        let last = body.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        self == Format::Text || last.strip_suffix(b"\r").unwrap_or(last) == b"# EOF"
    }
}

/// What a line has that cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Bytes of the line before the place.
    pub at: usize,
    /// What is wrong there.
    pub what: &'static str,
}

/// The lines of a body, without their ends, and where they are.
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    body: &'a [u8],
    at: usize,
    number: u64,
}

impl<'a> Lines<'a> {
    /// Those of a body.
    pub fn of(body: &'a [u8]) -> Lines<'a> {
        Lines { body, at: 0, number: 0 }
    }

    /// The number of the line that came last, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.body.get(self.at..).filter(|rest| !rest.is_empty())?;
        let end = memchr(b'\n', rest).unwrap_or(rest.len());
        self.at += end + 1;
        self.number += 1;
        let line = &rest[..end];
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

/// What a family of samples is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the formats")]
pub enum Kind {
    #[default]
    Unknown,
    Counter,
    Gauge,
    Histogram,
    GaugeHistogram,
    Summary,
    Info,
    StateSet,
}

impl Kind {
    fn of(word: &[u8]) -> Option<Kind> {
        Some(match word {
            b"unknown" | b"untyped" => Kind::Unknown,
            b"counter" => Kind::Counter,
            b"gauge" => Kind::Gauge,
            b"histogram" => Kind::Histogram,
            b"gaugehistogram" => Kind::GaugeHistogram,
            b"summary" => Kind::Summary,
            b"info" => Kind::Info,
            b"stateset" => Kind::StateSet,
            _ => return None,
        })
    }
}

/// What a line with `#` says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the formats")]
pub enum Meta<'a> {
    Help { name: &'a [u8], text: Cow<'a, str> },
    Type { name: &'a [u8], kind: Kind },
    Unit { name: &'a [u8], unit: &'a [u8] },
    End,
    Comment,
}

/// Whether a line is about others, or about nothing; else it is a sample.
#[inline]
pub fn is_meta(line: &[u8]) -> bool {
    match line.first() {
        None | Some(b'#') => true,
        Some(b' ' | b'\t') => matches!(line.trim_ascii_start().first(), None | Some(b'#')),
        Some(_) => false,
    }
}

impl<'a> Meta<'a> {
    /// What the line says; blank ones are comments.
    ///
    /// # Errors
    /// A `TYPE` without a name, or of a type that is none; `UNIT` and `HELP` without a name.
    pub fn read(line: &'a [u8], format: Format) -> Result<Meta<'a>, Wrong> {
        let all = line;
        let line = line.trim_ascii_start();
        if line == b"# EOF" && format == Format::OpenMetrics {
            return Ok(Meta::End);
        }
        let at = |part: &[u8]| all.len() - part.len();
        let Some(line) = line.strip_prefix(b"#") else { return Ok(Meta::Comment) };
        let (keyword, rest) = word(line);
        if !matches!(keyword, b"HELP" | b"TYPE" | b"UNIT") {
            return Ok(Meta::Comment);
        }
        let (name, rest) = match rest.trim_ascii_start() {
            quoted @ [b'"', ..] => {
                let begin = at(quoted);
                let end = quote_end(all, begin + 1)?;
                (quoted_name(all, begin, end)?.as_bytes(), all.get(end..).unwrap_or_default())
            }
            _ => {
                let (name, rest) = word(rest);
                if !is_name(name) {
                    return Err(Wrong {
                        at: at(rest),
                        what: "no name of a metric behind HELP, TYPE or UNIT",
                    });
                }
                (name, rest)
            }
        };
        let text = rest.trim_ascii();
        Ok(match keyword {
            b"HELP" => Meta::Help { name, text: unescaped(rest.trim_ascii_start()) },
            b"UNIT" => Meta::Unit { name, unit: text },
            _ => match Kind::of(text) {
                Some(kind) => Meta::Type { name, kind },
                None => return Err(Wrong { at: at(rest), what: "a type of metric that is not known" }),
            },
        })
    }
}

/// The next word, and what is behind it.
fn word(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii_start();
    text.split_at(memchr2(b' ', b'\t', text).unwrap_or(text.len()))
}

fn is_name(name: &[u8]) -> bool {
    let is_start = |byte: u8| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b':');
    name.first().is_some_and(|first| is_start(*first))
        && name.iter().all(|byte| is_start(*byte) || byte.is_ascii_digit())
}

/// Where the bytes end that say which series a sample is of. What is in them need not be right.
///
/// # Errors
/// Labels without an end.
#[inline]
pub fn series_end(line: &[u8]) -> Result<usize, Wrong> {
    let begin = line.len() - line.trim_ascii_start().len();
    let is_end = |byte: &u8| matches!(byte, b'{' | b' ' | b'\t');
    let name = line[begin..].iter().position(is_end).map_or(line.len(), |at| begin + at);
    let mut at = name + (line[name..].len() - line[name..].trim_ascii_start().len());
    if line.get(at) != Some(&b'{') {
        return Ok(name);
    }
    loop {
        let rest = line.get(at..).unwrap_or_default();
        match memchr2(b'"', b'}', rest) {
            Some(found) if rest[found] == b'}' => return Ok(at + found + 1),
            Some(found) => at = quote_end(line, at + found + 1)?,
            None => return Err(Wrong { at: line.len(), what: "labels without an end" }),
        }
    }
}

/// Where the text in quotes ends that begins at `at`: behind its last quote.
fn quote_end(line: &[u8], mut at: usize) -> Result<usize, Wrong> {
    loop {
        let rest = line.get(at..).unwrap_or_default();
        match memchr2(b'"', b'\\', rest) {
            Some(found) if rest[found] == b'"' => return Ok(at + found + 1),
            Some(found) => at += found + 2,
            None => return Err(Wrong { at: line.len(), what: "a text in quotes without an end" }),
        }
    }
}

/// What a sample has behind its series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tail<'a> {
    /// Its value, which may be any number.
    pub value: f64,
    /// Its time as it is written: milliseconds in Prometheus' format, seconds in OpenMetrics.
    pub time: Option<f64>,
    /// Its exemplar, with all behind the `#`.
    pub exemplar: Option<&'a [u8]>,
}

impl<'a> Tail<'a> {
    /// Reads what is behind `start` in a line.
    ///
    /// # Errors
    /// It is not value, time and exemplar.
    #[inline]
    pub fn read(line: &'a [u8], start: usize, format: Format) -> Result<Tail<'a>, Wrong> {
        let rest = line.get(start..).unwrap_or_default();
        let (value, mut rest) = word(rest);
        let at = |rest: &[u8]| line.len() - rest.len();
        let Some(value) = number(value) else {
            return Err(Wrong { at: at(rest), what: "a value that is no number" });
        };
        let mut tail = Tail { value, time: None, exemplar: None };
        if rest.is_empty() {
            return Ok(tail);
        }
        rest = rest.trim_ascii_start();
        if !rest.is_empty() && rest[0] != b'#' {
            let (time, behind) = word(rest);
            tail.time = number(time).filter(|time| time.is_finite());
            if tail.time.is_none() {
                return Err(Wrong { at: at(behind), what: "a time that is no number" });
            }
            rest = behind.trim_ascii_start();
        }
        if let Some(exemplar) = rest.strip_prefix(b"#").filter(|_| format == Format::OpenMetrics) {
            tail.exemplar = Some(exemplar);
        } else if !rest.is_empty() {
            return Err(Wrong { at: at(rest), what: "more behind value and time" });
        }
        Ok(tail)
    }
}

/// A number as both formats write it.
#[inline]
pub fn number(text: &[u8]) -> Option<f64> {
    /// Digits that are exact in a double.
    const EXACT: usize = 15;
    if (1..=EXACT).contains(&text.len()) && text.iter().all(u8::is_ascii_digit) {
        let whole = text.iter().fold(0_u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
        return Some(whole as f64);
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A label.
pub type Label<'a> = (&'a str, Cow<'a, str>);

/// A series, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series<'a> {
    /// The name of the sample.
    pub name: &'a str,
    /// Its labels, in their order; no name comes twice.
    pub labels: Vec<Label<'a>>,
}

impl<'a> Series<'a> {
    /// Takes apart what [`series_end`] has found.
    ///
    /// # Errors
    /// It is no name and labels, or not in UTF-8, or a label comes twice, or there are more than [`MAX_LABELS`].
    pub fn read(text: &'a [u8]) -> Result<Series<'a>, Wrong> {
        let begin = text.len() - text.trim_ascii_start().len();
        let end = text.iter().position(|byte| *byte == b'{').unwrap_or(text.len());
        let name = text.get(begin..end).unwrap_or_default().trim_ascii_end();
        let no_name =
            Wrong { at: begin, what: "no name of a metric: letters, digits, _ and :, or any text in quotes" };
        let is_within = name.is_empty() && end < text.len();
        if !is_within && !is_name(name) {
            return Err(no_name);
        }
        let mut series = Series { name: utf8(name, begin)?, labels: Vec::new() };
        if end < text.len() {
            let mut within = None;
            labels(text, end, &mut series.labels, if is_within { Some(&mut within) } else { None })?;
            if is_within {
                series.name = within.ok_or(no_name)?;
            }
        }
        Ok(series)
    }
}

/// An exemplar.
#[derive(Clone, Debug, PartialEq)]
pub struct Exemplar<'a> {
    /// Its labels.
    pub labels: Vec<Label<'a>>,
    /// Its value.
    pub value: f64,
    /// Its time, in nanoseconds since 1970; none for one before that.
    pub time: Option<u64>,
}

impl<'a> Exemplar<'a> {
    /// Reads what is behind the `#`.
    ///
    /// # Errors
    /// It is no labels, value and time.
    pub fn read(text: &'a [u8]) -> Result<Exemplar<'a>, Wrong> {
        let begin = text.len() - text.trim_ascii_start().len();
        if text.get(begin) != Some(&b'{') {
            return Err(Wrong { at: begin, what: "an exemplar without labels in braces" });
        }
        let mut found = Vec::new();
        let end = labels(text, begin, &mut found, None)?;
        let tail = Tail::read(text, end, Format::Text)?;
        let (_, behind) = word(text.get(end..).unwrap_or_default());
        // A double has the seconds of today to a quarter of a microsecond.
        let time = tail.time.and_then(|seconds| nanoseconds(word(behind).0, seconds));
        Ok(Exemplar { labels: found, value: tail.value, time })
    }
}

/// A time in nanoseconds: from the digits where it has no exponent, else from the double that it is. Further digits are cut off.
fn nanoseconds(text: &[u8], seconds: f64) -> Option<u64> {
    const SECOND: u64 = 1_000_000_000;
    let exact = || {
        let text = std::str::from_utf8(text).ok()?;
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let nanos = format!("{:0<9}", fraction.get(..fraction.len().min(9))?);
        whole.parse::<u64>().ok()?.checked_mul(SECOND)?.checked_add(nanos.parse().ok()?)
    };
    let nanos = seconds * SECOND as f64;
    exact().or_else(|| (0.0..u64::MAX as f64).contains(&nanos).then_some(nanos as u64))
}

/// Reads labels from the brace at `at` on. Gives where what is behind them begins. `of`: the name of what has them, if it is among them.
fn labels<'a>(
    text: &'a [u8],
    at: usize,
    found: &mut Vec<Label<'a>>,
    mut of: Option<&mut Option<&'a str>>,
) -> Result<usize, Wrong> {
    let skip = |at: usize| {
        let rest = text.get(at..).unwrap_or_default();
        at + rest.len() - rest.trim_ascii_start().len()
    };
    let mut at = skip(at + 1);
    while text.get(at) != Some(&b'}') {
        let begin = at;
        let name;
        if text.get(at) == Some(&b'"') {
            let end = quote_end(text, at + 1)?;
            name = quoted_name(text, at, end)?;
            at = skip(end);
            if let (Some(place), Some(b',' | b'}')) = (&mut of, text.get(at)) {
                if place.replace(name).is_some() {
                    return Err(Wrong { at: begin, what: "a second name of the metric" });
                }
                if text.get(at) == Some(&b',') {
                    at = skip(at + 1);
                }
                continue;
            }
        } else {
            let name_end = text[at..].iter().position(|byte| matches!(byte, b'=' | b' ' | b'\t'));
            let name_end = name_end.map_or(text.len(), |found| at + found);
            let bare = text.get(at..name_end).unwrap_or_default();
            if !is_name(bare) || bare.contains(&b':') {
                return Err(Wrong {
                    at,
                    what: "no name of a label: letters, digits and _, or any text in quotes",
                });
            }
            name = utf8(bare, at)?;
            at = skip(name_end);
        }
        if text.get(at) != Some(&b'=') {
            return Err(Wrong { at, what: "no = behind the name of a label" });
        }
        at = skip(at + 1);
        if text.get(at) != Some(&b'"') {
            return Err(Wrong { at, what: "the value of a label that is not in quotes" });
        }
        let end = quote_end(text, at + 1)?;
        let value = text.get(at + 1..end - 1).unwrap_or_default();
        if let Err(error) = std::str::from_utf8(value) {
            return Err(Wrong { at: at + 1 + error.valid_up_to(), what: "text that is not UTF-8" });
        }
        if found.iter().any(|(known, _)| *known == name) {
            return Err(Wrong { at, what: "a label twice" });
        }
        if found.len() >= MAX_LABELS {
            return Err(Wrong { at, what: "more than 64 labels" });
        }
        found.push((name, unescaped(value)));
        at = skip(end);
        match text.get(at) {
            Some(b',') => at = skip(at + 1),
            Some(b'}') => {}
            _ => return Err(Wrong { at, what: "neither a comma nor a brace behind a label" }),
        }
    }
    Ok(at + 1)
}

/// The name in quotes that is in `text[begin..end]` with them.
fn quoted_name(text: &[u8], begin: usize, end: usize) -> Result<&str, Wrong> {
    let inside = text.get(begin + 1..end - 1).unwrap_or_default();
    if inside.is_empty() {
        return Err(Wrong { at: begin, what: "an empty name in quotes" });
    }
    match memchr(b'\\', inside) {
        // Where names are kept, they are bytes of the answer.
        Some(at) => Err(Wrong { at: begin + 1 + at, what: "a name with a quote, a backslash or a line end" }),
        None => utf8(inside, begin + 1),
    }
}

fn utf8(bytes: &[u8], at: usize) -> Result<&str, Wrong> {
    std::str::from_utf8(bytes).map_err(|_| Wrong { at, what: "text that is not UTF-8" })
}

/// The text that is meant. A backslash before another character than those is itself.
fn unescaped(text: &[u8]) -> Cow<'_, str> {
    if memchr(b'\\', text).is_none() {
        return String::from_utf8_lossy(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let escaped =
            bytes.peek().copied().filter(|next| byte == b'\\' && matches!(next, b'\\' | b'"' | b'n'));
        match escaped {
            Some(next) => {
                bytes.next();
                out.push(if next == b'n' { b'\n' } else { next });
            }
            None => out.push(byte),
        }
    }
    match String::from_utf8(out) {
        Ok(text) => Cow::Owned(text),
        Err(error) => Cow::Owned(String::from_utf8_lossy(error.as_bytes()).into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A line as it is read: series, value, time, exemplar.
    fn told(line: &str, format: Format) -> Result<String, String> {
        let line = line.as_bytes();
        let wrong = |wrong: Wrong| format!("{}: {}", wrong.at, wrong.what);
        let end = series_end(line).map_err(wrong)?;
        let series = Series::read(&line[..end]).map_err(wrong)?;
        let tail = Tail::read(line, end, format).map_err(wrong)?;
        let mut text = series.name.to_owned();
        for (name, value) in &series.labels {
            text += &format!(" {name}={value}");
        }
        text += &format!(" -> {}", tail.value);
        if let Some(time) = tail.time {
            text += &format!(" @{time}");
        }
        if let Some(exemplar) = tail.exemplar {
            let Exemplar { labels, value, time } = Exemplar::read(exemplar).map_err(wrong)?;
            text += &format!(" # {labels:?} {value} {time:?}");
        }
        Ok(text)
    }

    #[test]
    fn samples_of_the_formats_descriptions() {
        for (line, expected) in [
            // Prometheus' description of its text format.
            (
                r#"http_requests_total{method="post",code="200"} 1027 1395066363000"#,
                "http_requests_total method=post code=200 -> 1027 @1395066363000",
            ),
            (
                r#"msdos_file_access_time_seconds{path="C:\\DIR\\FILE.TXT",error="Cannot find file:\n\"FILE.TXT\""} 1.458255915e9"#,
                "msdos_file_access_time_seconds path=C:\\DIR\\FILE.TXT error=Cannot find file:\n\"FILE.TXT\" -> 1458255915",
            ),
            ("metric_without_timestamp_and_labels 12.47", "metric_without_timestamp_and_labels -> 12.47"),
            (
                r#"something_weird{problem="division by zero"} +Inf -3982045"#,
                "something_weird problem=division by zero -> inf @-3982045",
            ),
            (
                r#"http_request_duration_seconds_bucket{le="+Inf"} 144320"#,
                "http_request_duration_seconds_bucket le=+Inf -> 144320",
            ),
            (r#"rpc_duration_seconds{quantile="0.99"} 76656"#, "rpc_duration_seconds quantile=0.99 -> 76656"),
            // Blanks wherever they may be, and a comma too much.
            ("\t x { a = \"}\" , b=\"\\\\\", } \t -1e-3\t5 ", "x a=} b=\\ -> -0.001 @5"),
            ("x{} NaN", "x -> NaN"),
            ("a:b_c 007", "a:b_c -> 7"),
            ("x 123456789012345678", "x -> 123456789012345680"),
            (r#"x{a="\q\"} 1"#, "10: a text in quotes without an end"),
            // Prometheus 3's description of names in quotes.
            (r#"{"my.metric", label="x"} 1"#, "my.metric label=x -> 1"),
            (r#"{"my.metric"} 1"#, "my.metric -> 1"),
            (r#"{"größe","http.route"="/a{b}","x y" = "}",} 2 5"#, "größe http.route=/a{b} x y=} -> 2 @5"),
            (r#"plain{"quoted label"="x",bare="y"} 3"#, "plain quoted label=x bare=y -> 3"),
        ] {
            let got = told(line, Format::Text);
            match expected.split_once(": ").filter(|(at, _)| at.parse::<u32>().is_ok()) {
                Some(_) => assert!(got.is_err(), "{line}: {got:?}"),
                None => assert_eq!(got.as_deref(), Ok(expected), "{line}"),
            }
        }
        for (line, expected) in [
            // OpenMetrics' description.
            (
                r#"foo_bucket{le="10.0"} 17 # {trace_id="oHg5SJYRHA0"} 9.8 1520879607.789"#,
                "foo_bucket le=10.0 -> 17 # [(\"trace_id\", \"oHg5SJYRHA0\")] 9.8 Some(1520879607789000000)",
            ),
            (r#"foo_bucket{le="0.1"} 8 123.5 # {} 0.054"#, "foo_bucket le=0.1 -> 8 @123.5 # [] 0.054 None"),
            ("foo_total 17.0 1520879607.789", "foo_total -> 17 @1520879607.789"),
            (
                r#"foo_info{entity="controller",version="8.2.7"} 1.0"#,
                "foo_info entity=controller version=8.2.7 -> 1",
            ),
        ] {
            assert_eq!(told(line, Format::OpenMetrics).as_deref(), Ok(expected), "{line}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (line, at, what) in [
            ("9x 1", 0, "no name of a metric"),
            ("x", 1, "a value that is no number"),
            ("x y", 3, "a value that is no number"),
            ("x 1 y", 5, "a time that is no number"),
            ("x 1 2 3", 6, "more behind value and time"),
            ("x 1 # {} 1", 4, "more behind value and time"),
            ("x{a=\"1\" b=\"2\"} 1", 8, "neither a comma nor a brace"),
            ("x{a=\"1\",a=\"2\"} 1", 10, "a label twice"),
            ("x{a} 1", 2, "no name of a label"),
            ("x{a b=\"\"} 1", 4, "no = behind"),
            ("x{a=1} 1", 4, "not in quotes"),
            ("x{a=\"1\" 1", 9, "labels without an end"),
            ("x{a=\"1 1", 8, "without an end"),
            ("x{1a=\"1\"} 1", 2, "no name of a label"),
            ("<html> 1", 0, "no name of a metric"),
            ("{} 1", 0, "no name of a metric"),
            ("{a=\"1\"} 1", 0, "no name of a metric"),
            ("{\"a\",\"b\"} 1", 5, "a second name"),
            ("x{\"a\"} 1", 5, "no = behind"),
            ("{\"\"} 1", 1, "an empty name"),
            ("x{\"\"=\"1\"} 1", 2, "an empty name"),
            ("{\"a\\\\b\"} 1", 3, "a backslash"),
            ("{\"a\",\"b.c\"=\"1\",\"b.c\"=\"2\"} 1", 21, "a label twice"),
        ] {
            let error = told(line, Format::Text).expect_err(line);
            let (place, words) = error.split_once(": ").expect("place and words");
            assert!(place == at.to_string() && words.contains(what), "{line}: {error}");
        }
        let bytes = b"x{a=\"\xff\"} 1";
        let end = series_end(bytes).expect("it has an end");
        assert_eq!(Series::read(&bytes[..end]), Err(Wrong { at: 5, what: "text that is not UTF-8" }));
        let many: String = (0..65).map(|n| format!("l{n}=\"\",")).collect();
        assert!(Series::read(format!("x{{{many}}}").as_bytes()).is_err());
    }

    #[test]
    fn lines_with_what_is_said_of_others() {
        let read = |line: &'static str| Meta::read(line.as_bytes(), Format::OpenMetrics);
        assert_eq!(read("# TYPE a_total counter"), Ok(Meta::Type { name: b"a_total", kind: Kind::Counter }));
        assert_eq!(read("#\tTYPE  a   untyped "), Ok(Meta::Type { name: b"a", kind: Kind::Unknown }));
        assert_eq!(read("# UNIT a seconds"), Ok(Meta::Unit { name: b"a", unit: b"seconds" }));
        let help = Meta::Help { name: b"a", text: "two\nlines \\ \"x\"".into() };
        assert_eq!(read(r#"# HELP a two\nlines \\ \"x\""#), Ok(help));
        assert_eq!(
            read("# TYPE \"http.server.duration\" histogram"),
            Ok(Meta::Type { name: b"http.server.duration", kind: Kind::Histogram })
        );
        assert_eq!(read("# HELP \"a b\" words"), Ok(Meta::Help { name: b"a b", text: "words".into() }));
        assert_eq!(read("# UNIT \"a.b\" s"), Ok(Meta::Unit { name: b"a.b", unit: b"s" }));
        assert!(read("# TYPE \"a gauge").is_err());
        assert!(read("# TYPE \"\" gauge").is_err());
        assert_eq!(read("# HELP a"), Ok(Meta::Help { name: b"a", text: "".into() }));
        assert_eq!(read("# EOF"), Ok(Meta::End));
        assert_eq!(Meta::read(b"# EOF", Format::Text), Ok(Meta::Comment));
        for comment in ["", "#", "# ", "# anything", "#HELPX a", "  # TYPES"] {
            assert_eq!(read(comment), Ok(Meta::Comment), "{comment}");
            assert!(is_meta(comment.as_bytes()));
        }
        assert!(read("# TYPE a gadget").is_err());
        assert!(read("# TYPE 9 gauge").is_err());
        assert!(!is_meta(b" a 1"));
    }

    #[test]
    fn lines_end_with_or_without_a_return_and_the_last_need_not() {
        let mut lines = Lines::of(b"a 1\r\n\n# x\nb 2");
        let all: Vec<&[u8]> = lines.by_ref().collect();
        assert_eq!(all, [&b"a 1"[..], b"", b"# x", b"b 2"]);
        assert_eq!(lines.number(), 4);
    }

    #[test]
    fn formats_and_their_ends() {
        assert_eq!(
            Format::of("application/openmetrics-text; version=1.0.0; charset=utf-8"),
            Format::OpenMetrics
        );
        assert_eq!(Format::of("text/plain; version=0.0.4"), Format::Text);
        assert_eq!(Format::of(""), Format::Text);
        assert!(Format::Text.is_complete(b"a 1"));
        for (body, whole) in
            [("a 1\n# EOF\n", true), ("# EOF", true), ("# EOF\r\n", true), ("a 1\n", false), ("", false)]
        {
            assert_eq!(Format::OpenMetrics.is_complete(body.as_bytes()), whole, "{body:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_is_lines(body in prop::collection::vec(any::<u8>(), 0..300)) {
            for line in Lines::of(&body) {
                if is_meta(line) {
                    let _ = Meta::read(line, Format::OpenMetrics);
                } else if let Ok(end) = series_end(line) {
                    let _ = Series::read(&line[..end]);
                    if let Ok(Tail { exemplar: Some(text), .. }) = Tail::read(line, end, Format::OpenMetrics) {
                        let _ = Exemplar::read(text);
                    }
                }
            }
        }

        #[test]
        fn labels_come_back(value in "\\PC*|[\\\\\"\n}{,]{0,12}", number: f64) {
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let line = format!("x{{a=\"{escaped}\"}} {number}");
            let end = series_end(line.as_bytes()).expect("an end");
            let series = Series::read(&line.as_bytes()[..end]).expect("right");
            prop_assert_eq!(&series.labels, &[("a", Cow::Borrowed(&*value))]);
            let tail = Tail::read(line.as_bytes(), end, Format::Text).expect("right");
            prop_assert!(tail.value == number || number.is_nan() && tail.value.is_nan());
        }
    }
}
