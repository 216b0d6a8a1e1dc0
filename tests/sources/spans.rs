//! Span metrics under a real pmcd: figures of known spans, their derived metrics, and floods.

use crate::seat::{Seat, Transport};
use std::collections::HashMap;
use std::fmt::Write as _;
use support::{PrivatePmcd, eventually};

pub(crate) fn start(settings: &str) -> (PrivatePmcd, Seat) {
    let builder = PrivatePmcd::with([]);
    let seat = Seat::in_dir(builder.dir(), settings);
    let agent = seat.agent(Transport::Pipe);
    let pmcd = builder.agent(agent).start();
    pmcd.wait_ready("jumpseat");
    (pmcd, seat)
}

/// The values of a metric by instance, as pminfo shows them.
pub(crate) fn values(pmcd: &PrivatePmcd, metric: &str) -> HashMap<String, u64> {
    let text = pmcd.run("pminfo", ["-f", &format!("jumpseat.span.{metric}")]).ok();
    let lines = text.lines().filter_map(|line| {
        let (_, rest) = line.split_once(" or \"")?;
        let (name, value) = rest.split_once("\"] value ")?;
        Some((name.to_owned(), value.parse().ok()?))
    });
    lines.collect()
}

fn single(pmcd: &PrivatePmcd, metric: &str) -> u64 {
    let text = pmcd.value(&format!("jumpseat.span.{metric}")).unwrap_or_default();
    text.parse().unwrap_or_else(|_| panic!("{metric} = {text:?}"))
}

/// A line about the span `id`, `nanos` after some point in time.
fn mark(text: &mut String, phase: &str, id: &str, nanos: u64, rest: &str) {
    let (sec, nanos) = (1_795_000_000 + nanos / 1_000_000_000, nanos % 1_000_000_000);
    writeln!(text, r#"{{"phase":"{phase}","span_id":"{id}","time":{sec}.{nanos:09}{rest}}}"#)
        .expect("a text takes all");
}

/// `number` spans that take 1, 2, 3 ... milliseconds; every tenth fails.
pub(crate) fn spans(number: u64) -> String {
    let mut text = String::new();
    for n in 1..=number {
        let mut line = String::new();
        mark(&mut line, "start", &format!("s{n}"), n, r#","type":"request""#);
        let failed = if n % 10 == 0 { r#","status":"error""# } else { r#","status":"ok""# };
        mark(&mut line, "end", &format!("s{n}"), n + n * 1_000_000, failed);
        text += &line;
    }
    text
}

#[test]
fn known_spans_give_known_figures_in_either_framing() {
    let (pmcd, seat) = start("[spans]\nwindow = \"1h\"");
    seat.feed(["--source", "app"], &spans(100)).ok();
    seat.feed(["--source", "bin", "--binary"], &spans(100)).ok();
    for name in ["app/request", "bin/request"] {
        let of = |metric: &str| values(&pmcd, metric)[name];
        assert_eq!((of("count"), of("errors"), of("active"), of("unfinished")), (100, 10, 0, 0));
        assert_eq!(of("time"), 5050 * 1_000_000);
        assert_eq!(of("longest"), 100_000_000);
        for (metric, exact) in [("p50", 50.0), ("p90", 90.0), ("p95", 95.0), ("p99", 99.0)] {
            let found = of(metric) as f64 / 1_000_000.0;
            assert!((found / exact - 1.0).abs() <= 0.05, "{metric} {found}");
        }
        let histogram = values(&pmcd, "histogram");
        assert_eq!(histogram[&format!("{name}/60ms")], 10, "{histogram:?}");
        assert_eq!(histogram[&format!("{name}/2ms")], 1);
        let sum: u64 = histogram.iter().filter(|(bucket, _)| bucket.starts_with(name)).map(|(_, n)| n).sum();
        assert_eq!(sum, 100);
    }
    let labels = pmcd.run("pminfo", ["-l", "jumpseat.span.histogram"]).ok();
    assert!(labels.contains(r#""below":"60ms""#) && labels.contains(r#""span":"request""#), "{labels}");
    assert!(labels.contains(r#""le":0.06,"#), "{labels}");
    let mut reader = pmcd.spawn("pmevent", ["-t", "0.2", "jumpseat.event.records"], "reader");
    eventually("labels of who reads", || {
        let labels = pmcd.run("pminfo", ["-l", "jumpseat.client.delivered"]).ok();
        (labels.contains(r#""client":"#) && labels.contains(r#""pid":"#)).then_some(())
    });
    reader.stop();
    let desc = pmcd.run("pminfo", ["-dt", "jumpseat.span.time", "jumpseat.span.p99"]).ok();
    assert!(desc.contains("Semantics: counter  Units: nanosec") && desc.contains("99 % of recent"), "{desc}");
}

#[test]
fn names_that_look_alike_are_told_apart() {
    let names = ["GET /users", "GET_/users", "GET\\t/users"];
    let lines = |names: &[&str]| {
        let mut text = String::new();
        for name in names {
            mark(&mut text, "start", name, 1, &format!(r#","type":"{name}""#));
            mark(&mut text, "end", name, 2, "");
        }
        text
    };
    let (mut pmcd, seat) = start("");
    seat.feed(["--source", "app"], &lines(&names)).ok();
    let counts = values(&pmcd, "count");
    assert_eq!(counts.len(), 3, "{counts:?}");
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    // By name, as PCP takes names: up to a blank.
    for name in counts.keys() {
        let by_name = pmcd.run("pmprobe", ["-I", "jumpseat.span.count"]).ok();
        assert!(by_name.contains(&format!("\"{name}\"")) && !name.contains(' '), "{by_name}");
        let value = pmcd.run("pmval", ["-s", "1", "-w", "10", "-i", name, "-r", "jumpseat.span.count"]).ok();
        assert!(value.trim_end().ends_with(" 1"), "{name}: {value}");
    }
    let labels = |pmcd: &PrivatePmcd| {
        let shown = pmcd.run("pminfo", ["-fl", "jumpseat.span.count", "jumpseat.event.count"]).ok();
        let line = |line: &str| line.contains("inst [").then(|| line.trim().to_owned());
        shown.lines().filter_map(line).collect::<Vec<_>>()
    };
    let before = labels(&pmcd);
    for (label, count) in [("span", 1), ("type", 1)] {
        for name in names {
            let text = format!("\"{label}\":\"{name}\"");
            assert_eq!(
                before.iter().filter(|line| line.contains(&text)).count(),
                count,
                "{text}: {before:#?}"
            );
        }
    }
    // After a restart they come in another order, and are the same.
    pmcd.restart();
    pmcd.wait_ready("jumpseat");
    seat.wait_for_socket();
    let again: Vec<&str> = names.into_iter().rev().collect();
    seat.feed(["--source", "app"], &lines(&again)).ok();
    let ids = |labels: &[String]| {
        let label = |line: &String| line.contains("labels").then(|| line.clone());
        labels.iter().filter_map(label).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(ids(&labels(&pmcd)), ids(&before));
    // Records have the names as they were sent, and filters mean these.
    let socket = pmcd.inet();
    let mut reader = pmcd.spawn(
        crate::seat::JUMPSEAT,
        ["events", "--json", "-h", &socket, "-x", r#"type == "GET /users""#, "jumpseat.event.records"],
        "events",
    );
    eventually("a record of that type", || {
        seat.feed(["--source", "app"], &lines(&names)).ok();
        reader.stdout().contains(r#""type":"GET /users""#).then_some(())
    });
    assert!(!reader.stdout().contains("GET_/users"), "{}", reader.stdout());
    assert!(!reader.text().contains("has come yet"), "a type that is known: {}", reader.text());
    reader.stop();
}

#[test]
fn labels_of_a_source_are_the_same_before_its_first_event() {
    let (mut pmcd, seat) = start("");
    seat.feed(["--source", "app"], "{}\n").ok();
    let labels = |pmcd: &PrivatePmcd| {
        let shown = pmcd.run("pminfo", ["-l", "jumpseat.source.received"]).ok();
        shown.lines().find(|line| line.contains("\"source\":\"app\"")).map(str::to_owned)
    };
    let before = labels(&pmcd).expect("labels of the source");
    let address = format!("\"address\":{:?}", seat.socket());
    assert!(before.contains(&address) && before.contains("\"kind\":\"socket\""), "{before}");
    pmcd.restart();
    pmcd.wait_ready("jumpseat");
    assert_eq!(labels(&pmcd), Some(before));
}

#[test]
fn lines_in_the_log_are_those_of_the_input() {
    let (_pmcd, seat) = start("");
    let told = seat.feed(["--source", "app"], "{}\n\n{\"a\":}\n");
    let told = format!("{}{}", told.stdout, told.stderr);
    assert!(told.contains("line 3,"), "{told}");
    let log = seat.log();
    let refused = log.lines().find(|line| line.contains("event refused")).unwrap_or_default();
    assert!(refused.contains("line=3 "), "{log}");
}

#[test]
fn the_shipped_definitions_give_the_mean() {
    let (pmcd, seat) = start("");
    seat.feed(["--source", "app"], &spans(1)).ok();
    let mut pmval =
        pmcd.spawn("pmval", ["-t", "0.2", "-s", "100", "jumpseat.derived.span.mean_time"], "pmval");
    eventually("pmval to have its first value", || pmval.stdout().contains("No values").then_some(()));
    // 1, 2, ... 9 ms, as often as it takes for all of them to be in one interval.
    eventually("the mean of nine spans", || {
        seat.feed(["--source", "app"], &spans(9)).ok();
        pmval
            .stdout()
            .lines()
            .any(|line| line.trim().parse::<f64>().is_ok_and(|n| (n - 5e6).abs() < 1.0))
            .then_some(())
    });
    pmval.stop();
}

#[test]
fn a_flood_of_names_and_open_spans_is_bounded_and_told() {
    let (pmcd, seat) =
        start("[spans]\nmax_names = 20\nmax_open = 500\ngrace = \"100ms\"\n[events]\nmax_types = 100");
    let mut text = String::new();
    for n in 0..30_000 {
        writeln!(text, r#"{{"phase":"start","span_id":"{n}","type":"name {n}"}}"#).expect("a text takes all");
    }
    for n in 0..5000 {
        writeln!(text, r#"{{"phase":"end","span_id":"lonely {n}"}}"#).expect("a text takes all");
    }
    seat.feed(["--source", "app"], &text).ok();
    assert_eq!(single(&pmcd, "open"), 500);
    let unfinished = values(&pmcd, "unfinished");
    assert_eq!(unfinished.len(), 21, "20 names and the one for all others");
    assert_eq!(unfinished.values().sum::<u64>(), 29_500);
    assert_eq!(values(&pmcd, "active")["app/(other)"], 500);
    assert!(single(&pmcd, "folded") > 0);
    eventually("lonely ends to be given up", || (values(&pmcd, "orphans")["app"] == 5000).then_some(()));
    // An END before its START, and a START of an id that is open.
    let mut text = String::new();
    mark(&mut text, "end", "early", 5_000_000, "");
    mark(&mut text, "start", "early", 2_000_000, r#","type":"late""#);
    mark(&mut text, "start", "29999", 1, r#","type":"twice""#);
    seat.feed(["--source", "other"], &text.replace("29999", "again")).ok();
    let mut again = String::new();
    mark(&mut again, "start", "again", 2, r#","type":"twice""#);
    seat.feed(["--source", "other"], &again).ok();
    assert_eq!(values(&pmcd, "duplicates")["other"], 1);
    assert_eq!(
        (values(&pmcd, "count")["other/(other)"], values(&pmcd, "time")["other/(other)"]),
        (1, 3_000_000)
    );
}
