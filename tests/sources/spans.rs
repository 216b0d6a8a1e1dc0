//! Span metrics under a real pmcd: figures of known spans, their derived metrics, and floods.

use crate::seat::{Seat, Transport};
use std::collections::HashMap;
use std::fmt::Write as _;
use support::{PrivatePmcd, eventually};

fn start(settings: &str) -> (PrivatePmcd, Seat) {
    let builder = PrivatePmcd::with([]);
    let seat = Seat::in_dir(builder.dir(), settings);
    let agent = seat.agent(Transport::Pipe);
    let pmcd = builder.agent(agent).start();
    pmcd.wait_ready("jumpseat");
    (pmcd, seat)
}

/// The values of a metric by instance, as pminfo shows them.
fn values(pmcd: &PrivatePmcd, metric: &str) -> HashMap<String, u64> {
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
fn spans(number: u64) -> String {
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
