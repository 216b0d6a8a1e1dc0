//! Answers of real servers of PCP (6.3.8, with a 6.3.8 pmcd and the sample agent), asked for again: `tests/data/web/cases.ndjson.gz`.
//!
//! A line is a case: request, what was done before it in the same context, and the answer, masked. `tests/data/web/README.md` has the
//! members. Cases of defects pass with the right answer, or with any that is well formed and has the right status.
#![allow(dead_code, reason = "each area uses a part of it")]

use std::collections::BTreeSet;
use std::io::Read as _;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value as Json, json};

use crate::web_support::{Answer, Web};

/// Where the archives of PCP's QA suite are.
pub(crate) const ARCHIVES: &str = "/var/lib/pcp/testsuite/archives";
/// Arrays whose order counts; all others are compared as sets.
const ORDERED: [&str; 4] = ["metrics", "values", "lines", "samples"];
const OF_HOST: [&str; 3] = ["hostname", "domainname", "machineid"];
const OF_USER: [&str; 2] = ["userid", "groupid"];

/// A request and its answer.
pub(crate) struct Case(pub Json);

/// What came of cases.
#[derive(Default)]
pub(crate) struct Outcome {
    pub passed: usize,
    /// Of these, by an answer that is better than the real one.
    pub better: usize,
    /// Names of cases, and the first difference.
    pub failed: Vec<(String, String)>,
}

/// The cases about series of archives, or all others.
pub(crate) fn cases(of_series: bool) -> Vec<Case> {
    let file = support::repository().join("tests/data/web/cases.ndjson.gz");
    let file = std::fs::File::open(file).expect("it is in the repository");
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("text");
    // The first line tells the format.
    let cases = text.lines().skip(1).map(|line| Case(serde_json::from_str(line).expect("JSON")));
    let is_of_series =
        |case: &Case| ["/series", "/search"].iter().any(|path| case.text("path").starts_with(path));
    cases.filter(|case| is_of_series(case) == of_series).collect()
}

/// Asks all of it; `corrected` changes what is wanted by the rules for known defects that cases are not marked with.
pub(crate) fn replay(web: &Web, cases: &[Case], corrected: impl Fn(&Case, &mut Json)) -> Outcome {
    let mut outcome = Outcome::default();
    for case in cases {
        match one(web, case, &corrected) {
            Ok(better) => {
                outcome.passed += 1;
                outcome.better += usize::from(better);
            }
            Err(difference) => outcome.failed.push((case.id().to_owned(), difference)),
        }
    }
    outcome
}

impl Outcome {
    /// Nothing failed but these, each with its reason; and all of these did, so that the list stays true.
    #[track_caller]
    pub(crate) fn expect_only(&self, but: &[(&str, &str)]) {
        let known: BTreeSet<&str> = but.iter().map(|(id, _)| *id).collect();
        let failed: BTreeSet<&str> = self.failed.iter().map(|(id, _)| id.as_str()).collect();
        let unexpected: Vec<String> = self
            .failed
            .iter()
            .filter(|(id, _)| !known.contains(id.as_str()))
            .map(|(id, difference)| format!("{id}: {difference}"))
            .collect();
        assert!(unexpected.is_empty(), "{} cases:\n{}", unexpected.len(), unexpected.join("\n"));
        let stale: Vec<_> = known.difference(&failed).collect();
        assert!(stale.is_empty(), "they pass: {stale:?}");
    }
}

impl Case {
    pub(crate) fn id(&self) -> &str {
        self.text("id")
    }

    pub(crate) fn text(&self, member: &str) -> &str {
        self.0[member].as_str().unwrap_or_default()
    }

    /// Whether it is about a collector, and not about series of archives.
    fn is_live(&self) -> bool {
        !self.0["series"].as_bool().unwrap_or(false)
    }
}

/// Whether the answer is a better one than the real server's, or where it differs.
fn one(web: &Web, case: &Case, corrected: &impl Fn(&Case, &mut Json)) -> Result<bool, String> {
    let (got, raw) = answer(web, case);
    let mut want = case.0["want"].clone();
    corrected(case, &mut want);
    let mut wrong = difference(&canonical(&want, ""), &canonical(&got, ""), "");
    if wrong.is_none() && !is_in_order(case, &got) {
        wrong = Some("order of the timestamps".to_owned());
    }
    if wrong.is_none() && got["type"] == "application/json" && case.is_live() {
        wrong = bad_identifier(&raw);
    }
    let Some(wrong) = wrong else { return Ok(false) };
    if case.0["defect"].is_null() {
        return Err(wrong);
    }
    let is_right = match &case.0["right"] {
        Json::Null => {
            let status = case.0["better"].as_u64().unwrap_or(200);
            got.get("malformed").is_none() && got["status"] == status
        }
        right => difference(&canonical(right, ""), &canonical(&got, ""), "").is_none(),
    };
    if is_right { Ok(true) } else { Err(format!("{} {wrong}", case.text("defect"))) }
}

/// The masked answer, and the body as it came.
fn answer(web: &Web, case: &Case) -> (Json, String) {
    let (path, body) = (case.text("path"), case.text("body"));
    let setup: Vec<&str> =
        case.0["setup"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    let texts = || [path, body].into_iter().chain(setup.iter().copied());
    let context = texts()
        .any(|text| text.contains("{context}"))
        .then(|| web.json("/pmapi/context?polltimeout=4")["context"].as_u64().expect("a number").to_string());
    let filled = |text: &str| {
        let text = context.as_ref().map_or(text.to_owned(), |context| text.replace("{context}", context));
        text.replace("{archives}", ARCHIVES)
    };
    for path in &setup {
        web.get(&filled(path));
    }
    let method = case.0["method"].as_str().unwrap_or("GET");
    let headers: Vec<(&str, &str)> = case.0["headers"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
        .collect();
    let answer = web.ask(method, &filled(path), &headers, filled(body).as_bytes());
    masked(case, method, &answer)
}

fn masked(case: &Case, method: &str, answer: &Answer) -> (Json, String) {
    let mut got = Map::new();
    got.insert("status".to_owned(), json!(answer.status));
    let is_bare = matches!(method, "HEAD" | "OPTIONS" | "TRACE");
    if is_bare || !case.0["want_headers"].is_null() {
        let names = case.0["want_headers"].as_array().into_iter().flatten().filter_map(Json::as_str);
        let headers = names.map(|name| (name.to_owned(), json!(answer.header(name))));
        got.insert("headers".to_owned(), Json::Object(headers.collect()));
    }
    let data = if is_bare { Vec::new() } else { plain_body(answer) };
    let raw = String::from_utf8_lossy(&data).replace(&format!("{ARCHIVES}/"), "{archives}/");
    if data.is_empty() {
        return (Json::Object(got), raw);
    }
    let mut content = answer.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default();
    if content == "application/octet-stream" && raw.starts_with(['{', '[']) {
        content = "application/json";
    }
    got.insert("type".to_owned(), json!(content));
    if content != "application/json" {
        let subset = case.0["subset"].as_str().map(|subset| Regex::new(subset).expect("good"));
        let lines = masked_lines(&raw)
            .into_iter()
            .filter(|line| subset.as_ref().is_none_or(|subset| subset.is_match(line)));
        got.insert("lines".to_owned(), lines.collect::<Vec<_>>().into());
        return (Json::Object(got), raw);
    }
    let text = if case.is_live() { raw.clone() } else { padded_times(&raw) };
    match serde_json::from_str::<Json>(&text) {
        Ok(json) => {
            let json = masked_json(json, "", case.is_live());
            let text = masked_ids(&json.to_string());
            got.insert("json".to_owned(), serde_json::from_str(&text).expect("still JSON"));
        }
        Err(_) => {
            got.insert("malformed".to_owned(), json!(raw));
        }
    }
    (Json::Object(got), raw)
}

fn plain_body(answer: &Answer) -> Vec<u8> {
    let mut plain = Vec::new();
    match answer.header("content-encoding") {
        Some("gzip") => flate2::read::GzDecoder::new(&*answer.body).read_to_end(&mut plain).map(|_| plain),
        Some("deflate") => {
            flate2::read::ZlibDecoder::new(&*answer.body).read_to_end(&mut plain).map(|_| plain)
        }
        _ => Ok(answer.body.clone()),
    }
    .expect("it is compressed as it says")
}

/// Hides what differs from host to host, and from time to time.
fn masked_json(value: Json, key: &str, live: bool) -> Json {
    static SHA1: LazyLock<Regex> = LazyLock::new(|| Regex::new("^[0-9a-f]{40}$").expect("good"));
    match value {
        Json::Object(members) if key == "labels" && live => {
            let members = members.into_iter().filter(|(name, _)| !OF_USER.contains(&name.as_str()));
            Json::Object(members.map(|(name, value)| masked_label(name, value)).collect())
        }
        Json::Object(members) if key == "labels" => Json::Object(members),
        Json::Object(mut members) => {
            if live
                && members.contains_key("text-help")
                && members.get("text-help") == members.get("text-oneline")
            {
                members.insert("text-help".to_owned(), json!("<text-oneline>"));
            }
            let masked = members.into_iter().map(|(name, value)| {
                let value = masked_json(value, &name, live);
                (name, value)
            });
            Json::Object(masked.collect())
        }
        Json::Array(items) => items.into_iter().map(|item| masked_json(item, key, live)).collect(),
        Json::Number(number) => match key {
            "context" if number.is_u64() => json!("<context>"),
            "timestamp" if live && number.is_f64() => json!("<time>"),
            "s" | "us" if live && !number.is_f64() => json!("<time>"),
            _ => Json::Number(number),
        },
        Json::String(text) if live => match key {
            "series" | "source" if SHA1.is_match(&text) => json!("<sha1>"),
            "hostspec" => json!("<host>"),
            "text-oneline" | "text-help" if !text.is_empty() && text != "<text-oneline>" => json!("<text>"),
            _ => json!(text),
        },
        other => other,
    }
}

fn masked_label(name: String, value: Json) -> (String, Json) {
    let is_masked = OF_HOST.contains(&name.as_str()) && value.is_string();
    (name, if is_masked { json!("*") } else { value })
}

/// Error pages and expositions; the order of labels does not count.
fn masked_lines(text: &str) -> Vec<String> {
    static PROGRAM: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(<i>)[^/<]+/[^<]*(</i>)").expect("good"));
    static HELP: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^(# HELP \S+) .*").expect("good"));
    static SAMPLE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^([a-zA-Z_:][\w:]*)\{(.*)\} (\S+)( \S+)?$").expect("good"));
    static LABEL: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"([\w.]+)="((?:[^"\\]|\\.)*)""#).expect("good"));
    let masked = |line: &str| {
        let line = PROGRAM.replace_all(line, "$1<program>/<version>$2");
        let line = HELP.replace(&line, "$1 <text>").into_owned();
        let Some(sample) = SAMPLE.captures(&line) else { return line };
        let mut labels: Vec<(String, String)> = LABEL
            .captures_iter(&sample[2])
            .filter(|label| !OF_USER.contains(&&label[1]))
            .map(|label| {
                (label[1].to_owned(), if OF_HOST.contains(&&label[1]) { "*" } else { &label[2] }.to_owned())
            })
            .collect();
        labels.sort();
        let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        let time = if sample.get(4).is_some() { " <time>" } else { "" };
        format!("{}{{{}}} {}{time}", &sample[1], labels.join(","), &sample[3])
    };
    text.replace("\r\n", "\n").split('\n').map(masked).collect()
}

fn masked_ids(text: &str) -> String {
    static IDS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"((?:unknown|expired) context identifier: )\d+").expect("good"));
    static TMP: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#"/tmp/pcp-[^\s"]+"#).expect("good"));
    TMP.replace_all(&IDS.replace_all(text, "$1<context>"), "<tmp>").into_owned()
}

/// Microseconds of the real server's times have no zeros in front.
fn padded_times(text: &str) -> String {
    static TIME: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#""timestamp":(\d+)\.(\d+)"#).expect("good"));
    TIME.replace_all(text, |time: &regex::Captures<'_>| {
        format!("\"timestamp\":\"{}.{:0>3}\"", &time[1], &time[2])
    })
    .into_owned()
}

/// Values of one series and instance come in the order that the case tells.
fn is_in_order(case: &Case, got: &Json) -> bool {
    let Some(times) = case.0["times"].as_str() else { return true };
    let Some(rows) = got["json"].as_array() else { return true };
    let mut last: std::collections::HashMap<String, f64> = std::collections::HashMap::new();
    rows.iter().all(|row| {
        let time = match &row["timestamp"] {
            Json::String(text) => text.parse().ok(),
            other => other.as_f64(),
        };
        let Some(time) = time else { return false };
        let before = last.insert(format!("{} {}", row["series"], row["instance"]), time);
        before.is_none_or(|before| before == time || (before < time) == (times == "up"))
    })
}

/// Sorts what has no order.
pub(crate) fn canonical(value: &Json, key: &str) -> Json {
    match value {
        Json::Object(members) => {
            Json::Object(members.iter().map(|(name, value)| (name.clone(), canonical(value, name))).collect())
        }
        Json::Array(items) => {
            let mut items: Vec<Json> =
                items.iter().map(|item| canonical(item, if item.is_array() { key } else { "" })).collect();
            if !ORDERED.contains(&key) {
                items.sort_by_key(Json::to_string);
            }
            Json::Array(items)
        }
        other => other.clone(),
    }
}

/// The first difference.
pub(crate) fn difference(want: &Json, got: &Json, path: &str) -> Option<String> {
    let cut = |value: &Json| value.to_string().chars().take(200).collect::<String>();
    match (want, got) {
        (Json::Object(want), Json::Object(got)) => {
            let wrong = want.iter().find_map(|(name, value)| match got.get(name) {
                None => Some(format!("{path}/{name}: missing")),
                Some(other) => difference(value, other, &format!("{path}/{name}")),
            });
            let more = || got.iter().find(|(name, _)| !want.contains_key(*name));
            wrong.or_else(|| more().map(|(name, value)| format!("{path}/{name}: not wanted: {}", cut(value))))
        }
        (Json::Array(want), Json::Array(got)) => {
            (0..want.len().max(got.len())).find_map(|at| match (want.get(at), got.get(at)) {
                (Some(want), Some(got)) => difference(want, got, &format!("{path}[{at}]")),
                (Some(want), None) => Some(format!("{path}[{at}]: missing: {}", cut(want))),
                (_, Some(got)) => Some(format!("{path}[{at}]: not wanted: {}", cut(got))),
                (None, None) => None,
            })
        }
        _ if want != got => Some(format!("{path}: want {}, got {}", cut(want), cut(got))),
        _ => None,
    }
}

/// The rule for identifiers, checked on answers about contexts and metrics.
pub(crate) fn bad_identifier(raw: &str) -> Option<String> {
    static SOURCE: LazyLock<Regex> = LazyLock::new(|| {
        let pattern =
            r#"(?s)^\{"context":\d+.*?,"source":"([0-9a-f]{40})","hostspec":"[^"]*","labels":(\{.*?\})\}"#;
        Regex::new(pattern).expect("good")
    });
    static SERIES: LazyLock<Regex> = LazyLock::new(|| {
        let pattern = concat!(
            r#""name":"([^"]*)","series":"([0-9a-f]{40})","pmid":"[\d.]+"(?:,"indom":"[\d.]+")?,"#,
            r#""type":"([^"]*)","sem":"([^"]*)","units":"([^"]*)","labels":(\{[^{}]*\})"#
        );
        Regex::new(pattern).expect("good")
    });
    if let Some(found) = SOURCE.captures(raw) {
        let is_good = sha1(&format!("{{\"series\":\"source\",\"labels\":{}}}", &found[2])) == found[1];
        return (!is_good).then(|| "source identifier".to_owned());
    }
    SERIES.captures_iter(raw).find_map(|found| {
        let word = match &found[3] {
            "unsupported" => "NO_SUPPORT".to_owned(),
            word => word.to_uppercase(),
        };
        let units = if &found[5] == "none" { "" } else { &found[5] };
        let text = format!(
            "{{\"series\":\"metric\",\"name\":\"{}\",\"labels\":{},\"semantics\":\"{}\",\"type\":\"{word}\",\"units\":\"{units}\"}}",
            &found[1], &found[6], &found[4]
        );
        (sha1(&text) != found[2]).then(|| format!("series identifier of {}", &found[1]))
    })
}

pub(crate) fn sha1(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
