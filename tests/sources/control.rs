//! Control of single sources under a real pmcd: listed, switched, filtered, sampled; by pmstore and by configuration.

use crate::seat::{JUMPSEAT, Seat, Transport};
use std::collections::HashMap;
use std::fmt::Write as _;
use support::{PrivatePmcd, eventually, records};

fn start(settings: &str) -> (PrivatePmcd, Seat) {
    let builder = PrivatePmcd::with([]);
    let seat = Seat::in_dir(builder.dir(), settings);
    let agent = seat.agent(Transport::Pipe);
    let pmcd = builder.agent(agent).start();
    pmcd.wait_ready("jumpseat");
    (pmcd, seat)
}

/// The values of a metric by instance, as pminfo shows them.
fn values(pmcd: &PrivatePmcd, metric: &str) -> HashMap<String, String> {
    let text = pmcd.run("pminfo", ["-f", metric]).ok();
    let lines = text.lines().filter_map(|line| {
        // inst [0 or "app"] value 5
        let (_, rest) = line.split_once(" or \"")?;
        let (name, value) = rest.split_once("\"] value ")?;
        Some((name.to_owned(), value.trim_matches('"').to_owned()))
    });
    lines.collect()
}

fn value(pmcd: &PrivatePmcd, metric: &str, inst: &str) -> String {
    values(pmcd, metric).remove(inst).unwrap_or_default()
}

fn count(pmcd: &PrivatePmcd, metric: &str, inst: &str) -> u64 {
    let value = value(pmcd, metric, inst);
    value.parse().unwrap_or_else(|_| panic!("{metric}[{inst}] = {value:?}"))
}

fn store(pmcd: &PrivatePmcd, name: &str, source: &str, value: &str) {
    pmcd.run("pmstore", ["-i", source, &format!("jumpseat.control.source.{name}"), value]).ok();
}

/// What was received of a source is in its log, was missed, or was dropped.
fn check_balance(pmcd: &PrivatePmcd, source: &str) {
    let of = |name: &str| count(pmcd, &format!("jumpseat.source.{name}"), source);
    let dropped = of("dropped.disabled") + of("dropped.filtered") + of("dropped.sampled");
    assert_eq!(of("received"), of("queued") + of("missed") + dropped);
}

fn events(numbers: std::ops::Range<u32>) -> String {
    numbers.fold(String::new(), |mut text, n| {
        writeln!(
            text,
            r#"{{"type":"t","n":{n},"severity":"{}"}}"#,
            if n % 2 == 0 { "info" } else { "error" }
        )
        .expect("a text takes all");
        text
    })
}

#[test]
fn sources_are_listed_switched_filtered_and_sampled_with_pmstore() {
    let (pmcd, seat) = start("[events]\nrecent = 1000");
    seat.feed(["--source", "app"], &events(0..10)).ok();
    seat.feed(["--source", "db"], &events(0..3)).ok();
    for (metric, expected) in [
        ("source.state", "active"),
        ("source.kind", "socket"),
        ("source.address", &seat.socket().display().to_string()),
        ("control.source.enabled", "1"),
        ("control.source.filter", ""),
        ("control.source.sample", "1"),
        ("control.source.sample_by", "count"),
        ("control.source.budget", "0"),
        ("control.source.order_window", "0"),
    ] {
        assert_eq!(value(&pmcd, &format!("jumpseat.{metric}"), "app"), expected, "{metric}");
    }
    let labels = pmcd.run("pminfo", ["-l", "jumpseat.source.received"]).ok();
    let app = labels.lines().find(|line| line.contains(r#""source":"app""#)).unwrap_or_default();
    assert!(app.contains(r#""kind":"socket""#) && app.contains(r#""address":"#), "{labels}");

    store(&pmcd, "enabled", "app", "0");
    seat.feed(["--source", "app"], &events(10..15)).ok();
    seat.feed(["--source", "db"], &events(3..5)).ok();
    assert_eq!(value(&pmcd, "jumpseat.source.state", "app"), "disabled");
    assert_eq!(count(&pmcd, "jumpseat.source.dropped.disabled", "app"), 5);
    assert_eq!(count(&pmcd, "jumpseat.source.received", "app"), 15);
    assert_eq!(
        (count(&pmcd, "jumpseat.source.queued", "app"), count(&pmcd, "jumpseat.source.queued", "db")),
        (10, 5)
    );

    store(&pmcd, "enabled", "app", "1");
    store(&pmcd, "filter", "app", "severity >= error && n > 20");
    seat.feed(["--source", "app"], &events(15..30)).ok();
    assert_eq!(count(&pmcd, "jumpseat.source.dropped.filtered", "app"), 10);
    let text = pmcd.run("pminfo", ["-x", "jumpseat.event.recent"]).ok();
    let seen: Vec<u32> =
        records(&text).iter().filter_map(|r| r.get("jumpseat.field.n")?.parse().ok()).collect();
    assert!(seen.ends_with(&[0, 1, 2, 3, 4]), "{seen:?}");
    assert_eq!(seen[10..15], [21, 23, 25, 27, 29], "{seen:?}");

    store(&pmcd, "filter", "app", "");
    store(&pmcd, "sample", "app", "10");
    seat.feed(["--source", "app"], &events(0..100)).ok();
    assert_eq!(count(&pmcd, "jumpseat.source.dropped.sampled", "app"), 90);
    assert_eq!(count(&pmcd, "jumpseat.source.received", "app"), 130);
    assert_eq!(count(&pmcd, "jumpseat.event.count", "app/t"), 130, "counted whether dropped or not");
    assert_eq!(count(&pmcd, "jumpseat.source.missed", "app"), 0, "nobody lost anything");
    for source in ["app", "db"] {
        check_balance(&pmcd, source);
    }

    // What cannot be is refused, and changes nothing.
    for (name, wrong) in [
        ("enabled", "2"),
        ("filter", "severity >="),
        ("sample", "0"),
        ("sample_by", "luck"),
        ("budget", "5"),
        ("order_window", "60001"),
    ] {
        let before = value(&pmcd, &format!("jumpseat.control.source.{name}"), "app");
        pmcd.run("pmstore", ["-i", "app", &format!("jumpseat.control.source.{name}"), wrong]).fails(1);
        assert_eq!(value(&pmcd, &format!("jumpseat.control.source.{name}"), "app"), before);
        // pmstore can tell an error number only: the reason is there for the next one who asks as the same user.
        let told = pmcd.run("pminfo", ["-f", "jumpseat.control.refused"]).ok();
        let stored = format!("jumpseat.control.source.{name}[app] = ");
        assert!(told.contains(&stored) && told.contains(wrong), "{told}");
        // Ours tells it at once.
        let metric = format!("jumpseat.control.source.{name}");
        let ours = pmcd.run(JUMPSEAT, ["store", "-i", "app", &metric, wrong]);
        let text = told.rsplit_once("value \"").expect("a text").1.trim_end().trim_end_matches('"');
        let reason = text.split_once(": ").expect("a reason").1;
        assert!(ours.stdout.contains(&format!("Bad input to pmstore: {reason}")), "{ours} {reason}");
    }
    let metric = "jumpseat.event.records";
    let events = pmcd.run(JUMPSEAT, ["events", "-x", "severity >= loud", metric]).fails(1);
    assert!(
        events.contains("failed: Bad input to pmstore: column 13: ") && events.contains("loud"),
        "{events}"
    );
    let own = ["-h", &pmcd.inet(), "jumpseat.control.recent", "5"];
    let unknown = pmcd.run(JUMPSEAT, ["store"].iter().chain(&own)).stdout;
    assert!(unknown.contains("No permission to perform requested operation: root may"), "{unknown}");
    let log = seat.log();
    for words in [
        "jumpseat.control.source.filter[app] = \"severity >=\" refused: filter: column",
        "jumpseat.control.source.enabled[app] = 2 refused: ",
    ] {
        assert!(log.contains(words), "{words}: {log}");
    }
    assert!(!log.contains("held_back"), "{log}");
}

#[test]
fn a_trace_is_sampled_as_a_whole_in_either_framing() {
    let (pmcd, seat) = start("[events]\nrecent = 1000\n[[source]]\nsample = 3\nsample_by = 'trace'");
    let mut text = String::new();
    for trace in 0..60 {
        for span in 0..4 {
            writeln!(
                text,
                r#"{{"trace_id":"t{trace}","span_id":"{trace}-{span}","phase":"start","type":"x"}}"#
            )
            .expect("a text takes all");
        }
    }
    seat.feed(["--source", "lines"], &text).ok();
    seat.feed(["--source", "frames", "--binary"], &text).ok();
    let mut kept = Vec::new();
    for source in ["lines", "frames"] {
        check_balance(&pmcd, source);
        kept.push(count(&pmcd, "jumpseat.source.queued", source));
        assert_eq!(count(&pmcd, "jumpseat.source.received", source), 240);
    }
    assert_eq!(kept[0], kept[1], "the same traces");
    assert!((20..=160).contains(&kept[0]), "{kept:?} of 240");
    let recent = pmcd.run("pminfo", ["-x", "jumpseat.event.recent"]).ok();
    let mut spans: HashMap<String, u32> = HashMap::new();
    for record in records(&recent) {
        *spans.entry(record.get("jumpseat.field.trace_id").expect("a trace").to_owned()).or_default() += 1;
    }
    assert!(spans.values().all(|spans| *spans == 8), "{spans:?}");
}

#[test]
fn the_configuration_decides_for_sources_that_are_new_and_again_at_reload() {
    let rules = |number: u32| {
        format!(
            "[[source]]\nname = 'app*'\nsample = {number}\nbudget = '128KiB'\n\
             [[source]]\nname = 'app-off'\nenabled = false\n"
        )
    };
    let (pmcd, seat) = start(&rules(5));
    for source in ["app-1", "app-off", "other"] {
        seat.feed(["--source", source], &events(0..20)).ok();
    }
    let queued = |source| count(&pmcd, "jumpseat.source.queued", source);
    // Not even the first records of a new source pass.
    assert_eq!((queued("app-1"), queued("app-off"), queued("other")), (4, 0, 10));
    assert_eq!(count(&pmcd, "jumpseat.control.source.budget", "app-1"), 128 << 10);
    assert_eq!(value(&pmcd, "jumpseat.source.state", "app-off"), "disabled");

    store(&pmcd, "sample", "app-1", "2");
    store(&pmcd, "enabled", "app-off", "1");
    assert_eq!(value(&pmcd, "jumpseat.control.source.sample", "app-1"), "2");
    let text = std::fs::read_to_string(seat.config()).expect("the configuration");
    std::fs::write(seat.config(), text.replace("sample = 5", "sample = 7")).expect("written");
    pmcd.run("pmstore", ["jumpseat.control.reload", "1"]).ok();
    assert_eq!(value(&pmcd, "jumpseat.control.source.sample", "app-1"), "7");
    assert_eq!(value(&pmcd, "jumpseat.control.source.enabled", "app-off"), "0", "stored values give way");
    // A wrong one changes nothing.
    std::fs::write(seat.config(), text.replace("sample = 5", "sample = 5\nfilter = 'a =='"))
        .expect("written");
    pmcd.run("pmstore", ["jumpseat.control.reload", "1"]).fails(1);
    assert_eq!(value(&pmcd, "jumpseat.control.source.sample", "app-1"), "7");
    assert!(seat.log().contains("source.filter: column"), "{}", seat.log());
}

#[test]
fn what_is_refused_is_counted_by_reason() {
    let (pmcd, seat) = start("");
    seat.feed(["--source", "app"], "{\"n\":1}\nnonsense\n{\"time\":\"yesterday\"}\n{\"n\":}\n");
    eventually("three refusals", || (count(&pmcd, "jumpseat.source.malformed", "app") == 3).then_some(()));
    let rejected = values(&pmcd, "jumpseat.source.rejected");
    assert_eq!(rejected["app/syntax"], "2");
    assert_eq!(rejected["app/time"], "1");
    assert_eq!(rejected.len(), 2, "those there have been: {rejected:?}");
    // Bytes are of the source that a line names, though it came over another's connection.
    let own = r#"{"source":"named","n":1}"#;
    seat.feed(["--source", "app"], &format!("{own}\n{own}\n")).ok();
    assert_eq!(count(&pmcd, "jumpseat.source.bytes", "named"), 2 * own.len() as u64);
    let labels = pmcd.run("pminfo", ["-l", "jumpseat.source.rejected"]).ok();
    assert!(labels.contains(r#""reason":"syntax""#), "{labels}");
}
