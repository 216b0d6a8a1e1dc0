//! Spans by the values of their dimensions, under a real pmcd: series, exemplars, histograms, floods, restarts and reloads.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs;

use crate::otlp_sdk::{send, wait_for};
use crate::spans::{start, values};
use support::{PrivatePmcd, eventually, free_port};

const TABLE: &str = "[[dimensions]]\nsource = \"shop*\"\nfields = [\"http.route\", \"status_code\"]\n";

/// The START and the END of a span: the route is told by the one, the status by the other.
fn span(id: &str, route: &str, status: u32, millis: u64, rest: &str) -> String {
    let (sec, nanos) = (1_795_000_000 + millis / 1000, millis % 1000 * 1_000_000);
    format!(
        "{{\"phase\":\"start\",\"span_id\":\"{id}\",\"type\":\"get\",\"time\":1795000000,\"trace_id\":\"t-{id}\",\
         \"http.route\":\"{route}\"}}\n\
         {{\"phase\":\"end\",\"span_id\":\"{id}\",\"time\":{sec}.{nanos:09},\"status_code\":{status}{rest}}}\n"
    )
}

/// What pminfo shows of a metric with text, by instance.
fn texts(pmcd: &PrivatePmcd, metric: &str) -> HashMap<String, String> {
    let text = pmcd.run("pminfo", ["-f", &format!("jumpseat.span.{metric}")]).ok();
    let lines = text.lines().filter_map(|line| {
        let (_, rest) = line.split_once(" or \"")?;
        let (name, value) = rest.split_once("\"] value ")?;
        Some((name.to_owned(), value.trim_matches('"').replace("\\\"", "\"")))
    });
    lines.collect()
}

/// Values of a metric once there are so many instances: their names are put on file meanwhile.
fn series(pmcd: &PrivatePmcd, metric: &str, number: usize) -> BTreeMap<String, u64> {
    eventually("the series", || {
        let found = values(pmcd, &format!("series.{metric}"));
        (found.len() == number).then(|| found.into_iter().collect())
    })
}

fn single(pmcd: &PrivatePmcd, metric: &str) -> u64 {
    pmcd.value(&format!("jumpseat.span.series.{metric}"))
        .and_then(|text| text.parse().ok())
        .expect("a number")
}

#[test]
fn spans_of_known_dimensions_give_known_series_in_either_framing() {
    let (pmcd, seat) = start(&format!("{TABLE}[spans]\nwindow = \"1h\"\n"));
    let mut text = String::new();
    for n in 1..=100_u32 {
        let failed = if n == 40 { ",\"error\":true" } else { "" };
        let (route, status) = if n % 4 == 0 { ("/pay now", 500) } else { ("/cart", 200) };
        text += &span(&format!("s{n}"), route, status, n.into(), failed);
    }
    seat.feed(["--source", "shop"], &text).ok();
    seat.feed(["--source", "shop2", "--binary"], &text).ok();
    seat.feed(["--source", "other"], &text).ok();
    let counts = series(&pmcd, "count", 4);
    let pay =
        counts.keys().find(|name| name.starts_with("shop/get:/pay_now:500~")).expect("told apart").clone();
    let pay2 = pay.replace("shop/", "shop2/");
    let expected = [("shop/get:/cart:200", 75), ("shop2/get:/cart:200", 75), (&pay, 25), (&pay2, 25)];
    assert_eq!(counts, expected.map(|(name, count)| (name.to_owned(), count)).into());
    assert_eq!(values(&pmcd, "series.errors")[&pay], 1);
    assert_eq!(values(&pmcd, "series.time")[&pay], (1..=25).map(|n| n * 4_000_000).sum::<u64>());
    assert_eq!(values(&pmcd, "series.longest")[&pay], 100_000_000);
    let median = values(&pmcd, "series.p50")["shop/get:/cart:200"] as f64 / 50e6;
    assert!((median - 1.0).abs() < 0.06, "{median}");
    // The names have the same sums.
    assert_eq!(values(&pmcd, "count")["shop/get"], 100);
    let labels = pmcd.run("pminfo", ["-l", "jumpseat.span.series.count"]).ok();
    let of_pay =
        labels.lines().find(|line| line.contains("/pay now") && line.contains("\"shop\"")).expect("labels");
    for label in
        [r#""http_route":"/pay now""#, r#""status_code":"500""#, r#""span":"get""#, r#""source":"shop""#]
    {
        assert!(of_pay.contains(label), "{label}: {of_pay}");
    }
    // Exemplars.
    assert_eq!(texts(&pmcd, "series.slowest.trace_id")[&pay], "t-s100");
    assert_eq!(texts(&pmcd, "series.slowest.span_id")[&pay], "s100");
    assert_eq!(values(&pmcd, "series.slowest.value")[&pay], 100_000_000);
    assert_eq!(texts(&pmcd, "series.failed.trace_id")[&pay], "t-s40");
    assert_eq!(texts(&pmcd, "series.failed.time")[&pay].parse::<f64>(), Ok(1_795_000_000.04));
    assert!(!texts(&pmcd, "series.failed.trace_id").contains_key("shop/get:/cart:200"));
    // Histograms of two hosts are merged by adding; here of two sources.
    let histograms = texts(&pmcd, "series.exponential");
    let merged = ["shop/get:/cart:200", &pay].map(|name| buckets(&histograms[name]));
    let mut sum: BTreeMap<u64, u64> = BTreeMap::new();
    merged.iter().flatten().for_each(|(index, count)| *sum.entry(*index).or_default() += count);
    let mut expected: BTreeMap<u64, u64> = BTreeMap::new();
    for n in 1..=100_u64 {
        *expected.entry((((n * 1_000_000) as f64).log2() * 8.0).ceil() as u64 - 1).or_default() += 1;
    }
    assert_eq!(sum, expected);
    // PCP's tools take an instance by its name.
    let value = pmcd.run(
        "pmval",
        ["-s", "1", "-w", "10", "-i", "shop/get:/cart:200", "-r", "jumpseat.span.series.count"],
    );
    assert!(value.ok().trim_end().ends_with(" 75"));
}

/// Counts by index of an exponential histogram, as OpenTelemetry counts it.
fn buckets(json: &str) -> BTreeMap<u64, u64> {
    let json: serde_json::Value = serde_json::from_str(json).expect("JSON");
    let offset = json["offset"].as_u64().expect("a number");
    let counts =
        json["bucketCounts"].as_array().expect("a list").iter().filter_map(serde_json::Value::as_u64);
    counts
        .enumerate()
        .filter(|(_, count)| *count > 0)
        .map(|(at, count)| (offset + at as u64, count))
        .collect()
}

#[test]
fn numbers_of_series_outlive_the_agent_and_a_reload_changes_dimensions() {
    let (mut pmcd, seat) = start(TABLE);
    let text = |routes: &[&str]| {
        let spans = routes.iter().map(|route| span(route, route, 200, 1, ""));
        spans.collect::<String>()
    };
    seat.feed(["--source", "shop"], &text(&["/a", "/b", "/c"])).ok();
    series(&pmcd, "count", 3);
    let ids = |pmcd: &PrivatePmcd| {
        let text = pmcd.run("pminfo", ["-f", "jumpseat.span.series.count"]).ok();
        let id = |line: &str| {
            let (id, rest) = line.trim().strip_prefix("inst [")?.split_once(" or ")?;
            Some((rest.split('"').nth(1)?.to_owned(), id.to_owned()))
        };
        text.lines().filter_map(id).collect::<BTreeMap<_, _>>()
    };
    let before = ids(&pmcd);
    pmcd.restart();
    pmcd.wait_ready("jumpseat");
    seat.wait_for_socket();
    seat.feed(["--source", "shop"], &text(&["/c", "/b", "/a"])).ok();
    series(&pmcd, "count", 3);
    assert_eq!((ids(&pmcd), before.len()), (before.clone(), 3));

    let config = fs::read_to_string(seat.config()).expect("it is there");
    let other = config.replace("\"http.route\", \"status_code\"", "\"status_code\"");
    fs::write(seat.config(), &other).expect("writable");
    pmcd.run("pmstore", ["jumpseat.control.reload", "1"]).ok();
    seat.feed(["--source", "shop"], &text(&["/a", "/b"])).ok();
    let counts = series(&pmcd, "count", 1);
    assert_eq!(counts["shop/get:200"], 2);
    let wrong = other.replace("\"status_code\"", "\"status_code\", \"status_code\"");
    fs::write(seat.config(), wrong).expect("writable");
    pmcd.run("pmstore", ["jumpseat.control.reload", "1"]).fails(1);
    assert!(seat.log().contains("\"status_code\" is there twice"), "{}", seat.log());
    assert_eq!(series(&pmcd, "count", 1)["shop/get:200"], 2, "as before");
}

#[test]
fn a_flood_of_label_sets_counts_as_other() {
    let (pmcd, seat) = start(&format!("{TABLE}max_per_name = 50\n"));
    for part in 0..10 {
        let mut text = String::new();
        for n in 0..2000 {
            let id = part * 2000 + n;
            let _ = write!(text, "{}", span(&id.to_string(), &format!("/{id}"), 200, 1, ""));
        }
        seat.feed(["--source", "shop"], &text).ok();
    }
    let counts = series(&pmcd, "count", 51);
    assert_eq!(counts["shop/get:(other)"], 20_000 - 50);
    assert_eq!(counts.values().sum::<u64>(), values(&pmcd, "count")["shop/get"]);
    assert_eq!((single(&pmcd, "number"), single(&pmcd, "folded"), single(&pmcd, "evicted")), (50, 19_950, 0));
    let labels = pmcd.run("pminfo", ["-l", "jumpseat.span.series.count"]).ok();
    assert!(labels.contains("\"other\":true"), "{labels}");
}

#[test]
fn spans_of_the_python_sdk_have_dimensions() {
    let port = free_port();
    let (pmcd, _seat) = start(&format!(
        "[otlp]\nlisten = \"localhost:{port}\"\n[[dimensions]]\nsource = \"check*\"\n\
         fields = [\"number\", \"http.status\", \"kind\"]\nmax_per_name = 100\n"
    ));
    wait_for(port);
    let trace = send(port, &[]).ok().trim().to_owned();
    let counts = series(&pmcd, "count", 103);
    assert_eq!(counts["checkout/order::200:server"], 1);
    assert_eq!(counts["checkout/pay:::internal"], 1);
    assert_eq!((counts["checkout/step:7::internal"], counts["checkout/step:(other)"]), (1, 900));
    assert_eq!(texts(&pmcd, "series.failed.trace_id")["checkout/pay:::internal"], trace);
}
