//! The agent under pmcd: every transport, and every tool that shows what it serves.
#![cfg(feature = "cli")]

mod common;

use common::{PrivatePmcd, Record, SOURCE, Seat, Transport, eventually, records};
use std::fmt::Write as _;
use std::time::Duration;

/// Two events with a field of each kind there is.
const EVENTS: &str = concat!(
    r#"{"time":"2026-11-20T10:19:17.203284222Z","type":"request","phase":"start","span_id":"a1","parent_id":"p0","#,
    r#""severity":"warn","message":"GET /","bytes":1234567890123,"delta":-5,"ratio":0.25,"path":"/index.html","#,
    r#""cached":true,"user":{"name":"ann"}}"#,
    "\n",
    r#"{"time":1795083558.5,"type":"tick"}"#,
    "\n",
);

/// The events above as a client must get them. `decimals` of the time are shown.
fn check_events(records: &[Record], decimals: usize, text: &str) {
    assert_eq!(records.len(), 2, "{text}");
    let (request, tick) = (&records[0], &records[1]);
    assert_eq!(request.time, "10:19:17.203284222"[..9 + decimals], "{text}");
    // start, with an identifier and a parent
    assert_eq!(request.flags, 0x2 | 0x8 | 0x10, "{text}");
    for (field, value) in [
        ("type", "request"),
        ("message", "GET /"),
        ("severity", "warning"),
        ("span_id", "a1"),
        ("parent_id", "p0"),
        ("bytes", "1234567890123"),
        ("delta", "-5"),
        ("ratio", "0.25"),
        ("path", "/index.html"),
        ("cached", "1"),
        // dots would make a subtree
        ("user_name", "ann"),
    ] {
        assert_eq!(request.get(&format!("jumpseat.field.{field}")), Some(value), "{field}\n{text}");
    }
    assert_eq!(tick.get("jumpseat.field.type"), Some("tick"), "{text}");
    assert_eq!(tick.flags, 0x1, "{text}");
}

fn start(transport: Transport) -> (PrivatePmcd, Seat) {
    let builder = PrivatePmcd::with([]);
    let settings = if transport == Transport::PipeNotReady { "notready = true" } else { "" };
    let seat = Seat::in_dir(builder.dir(), settings);
    let agent = seat.agent(transport);
    (builder.agent(agent).start(), seat)
}

fn works_over(transport: Transport) {
    let (pmcd, seat) = start(transport);
    pmcd.wait_ready("jumpseat");
    assert_eq!(pmcd.value("jumpseat.self.version"), Some(format!("{:?}", env!("CARGO_PKG_VERSION"))));
    seat.feed([], EVENTS).ok();
    let shown = pmcd.run("pminfo", ["-x", "jumpseat.event.recent"]).ok();
    check_events(&records(&shown), 3, &shown);
}

#[test]
fn works_over_pipes() {
    works_over(Transport::Pipe);
}

#[test]
fn works_over_pipes_when_not_ready_at_first() {
    works_over(Transport::PipeNotReady);
}

#[test]
fn works_over_a_unix_socket() {
    works_over(Transport::Unix);
}

#[test]
fn works_over_tcp() {
    works_over(Transport::Inet);
}

/// A client that reads the records of the test's source continuously.
fn reader(pmcd: &PrivatePmcd, tool: &str, metric: &str, interval: &str, name: &str) -> common::Process {
    let reader = pmcd.spawn(tool, ["-t", interval, metric], name);
    let streams = format!("or \"{SOURCE}\"] value");
    eventually("the reader's first fetch", || {
        let shown = pmcd.run("pminfo", ["-f", "jumpseat.source.readers"]).stdout;
        shown.lines().find(|line| line.contains(&streams) && !line.ends_with(" 0")).map(|_| ())
    });
    reader
}

#[test]
fn pmval_and_pmevent_show_the_records_as_they_come() {
    for (tool, metric, decimals) in
        [("pmval", "jumpseat.event.highres_records", 9), ("pmevent", "jumpseat.event.records", 3)]
    {
        let (pmcd, seat) = start(Transport::Pipe);
        // so that the source is there when the reader begins
        seat.feed([], "{\"type\":\"before\"}\n").ok();
        let reader = reader(&pmcd, tool, metric, "0.1", "reader");
        seat.feed([], EVENTS).ok();
        eventually("both records", || (records(&reader.stdout()).len() == 2).then_some(()));
        let shown = reader.stdout();
        check_events(&records(&shown), decimals, &shown);
    }
}

#[test]
fn every_kind_of_pminfo_query_is_answered_for_every_metric() {
    let (pmcd, seat) = start(Transport::Pipe);
    seat.feed([], EVENTS).ok();
    let names = pmcd.run("pminfo", ["jumpseat"]).ok();
    assert!(names.lines().count() > 40, "{names}");
    let shown = pmcd.run("pminfo", ["-dfmtTlL", "jumpseat"]);
    // -L (a context without pmcd) and -l (labels) are different things; the former excludes this pmcd
    let shown = if shown.status.success() { shown } else { pmcd.run("pminfo", ["-dfmtTl", "jumpseat"]) };
    assert_eq!(shown.stderr, "", "{shown}");
    let text = shown.ok();
    for line in text.lines() {
        assert!(!line.contains("Error") && !line.contains("not available"), "{line}\n{text}");
    }
    for name in names.lines() {
        let name = name.trim();
        assert_eq!(text.matches(&format!("\n{name} PMID: 400.")).count(), 1, "{name}\n{text}");
    }
    // verified by pminfo itself: nothing to complain about but metrics without values
    let verified = pmcd.run("pminfo", ["-v", "jumpseat"]).ok();
    for line in verified.lines() {
        assert!(line.ends_with("No value(s) available") && !line.contains(".self."), "{verified}");
    }
    for indom in ["400.1", "400.2", "400.3"] {
        let shown = pmcd.run("pminfo", ["-tT", indom]).ok();
        assert!(shown.contains(&format!("InDom: {indom}")) && shown.contains("Help:"), "{shown}");
    }
}

#[test]
fn pmprobe_shows_values_and_instances() {
    let (pmcd, seat) = start(Transport::Pipe);
    seat.feed([], EVENTS).ok();
    let shown = pmcd.run("pmprobe", ["-v", "jumpseat.source.received", "jumpseat.event.recent"]).ok();
    let lines: Vec<_> = shown.lines().collect();
    assert_eq!(lines.first(), Some(&"jumpseat.source.received 1 2"), "{shown}");
    assert!(
        lines.get(1).is_some_and(|l| l.starts_with("jumpseat.event.recent 1 [2 event records timestamps")),
        "{shown}"
    );
    let shown = pmcd.run("pmprobe", ["-I", "jumpseat.event.count"]).ok();
    assert!(shown.contains(&format!("\"{SOURCE}/request\" \"{SOURCE}/tick\"")), "{shown}");
    for line in pmcd.run("pmprobe", ["-v", "jumpseat"]).ok().lines() {
        let count = line.split(' ').nth(1).and_then(|count| count.parse::<i32>().ok());
        assert!(count.is_some_and(|count| count >= 0), "{line}");
    }
}

#[test]
fn pmstore_changes_what_may_be_changed() {
    let (pmcd, _seat) = start(Transport::Pipe);
    pmcd.run("pmstore", ["jumpseat.control.recent", "3"]).ok();
    assert_eq!(pmcd.value("jumpseat.control.recent").as_deref(), Some("3"));
    let refused = pmcd.run("pmstore", ["jumpseat.self.pid", "1"]).fails(1);
    assert!(refused.contains("No permission") || refused.contains("not permitted"), "{refused}");
    let refused = pmcd.run("pmstore", ["jumpseat.control.recent", "1000000"]).fails(1);
    assert!(refused.contains("pmStore"), "{refused}");
    assert_eq!(pmcd.value("jumpseat.control.recent").as_deref(), Some("3"));
}

#[test]
fn an_archive_holds_the_records() {
    let (pmcd, seat) = start(Transport::Pipe);
    // so that the source is there when pmlogger begins
    seat.feed([], "{\"type\":\"before\"}\n").ok();
    let metrics = ["jumpseat.event.records", "jumpseat.event.highres_records", "jumpseat.event.count"];
    let logger = pmcd.record(&metrics, Duration::from_millis(100));
    eventually("pmlogger's cursors", || {
        let shown = pmcd.run("pminfo", ["-f", "jumpseat.source.readers"]).stdout;
        shown.contains(&format!("or \"{SOURCE}\"] value 2")).then_some(())
    });
    seat.feed([], EVENTS).ok();
    eventually("the records in the archive", || {
        let shown = logger.archive().dump(["-z"], ["jumpseat.event.highres_records"]).stdout;
        (records(&shown).len() >= 2).then_some(())
    });
    let archive = logger.finish();
    // pmlogger saves names and descriptors of the parameters in arrays with microseconds only; those with
    // nanoseconds can be read because both are recorded
    for (metric, pmdumplog, pmval) in [("highres_records", 9, 9), ("records", 6, 3)] {
        let metric = format!("jumpseat.event.{metric}");
        let shown = archive.dump(["-z"], [metric.as_str()]).ok();
        check_events(&records(&shown), pmdumplog, &shown);
        let shown = archive.run("pmval", ["-z", &metric]).ok();
        check_events(&records(&shown), pmval, &shown);
    }
    // everything in the archive has a name and a descriptor
    let whole = archive.dump(["-a"], []).ok();
    assert!(
        !whole.contains("pmLookupDesc") && !whole.contains("???") && !whole.contains("<noname>"),
        "{whole}"
    );
}

#[test]
fn a_flood_beyond_the_budget_becomes_missed_records() {
    const SENT: u64 = 60_000;
    let builder = PrivatePmcd::with([]);
    let seat =
        Seat::in_dir(builder.dir(), "[events]\nsource_budget = \"256KiB\"\nfetch_limit = \"128KiB\"\n");
    let agent = seat.agent(Transport::Pipe);
    let pmcd = builder.agent(agent).start();
    seat.feed([], "{\"type\":\"before\"}\n").ok();
    let reader = reader(&pmcd, "pmval", "jumpseat.event.records", "1", "reader");
    let mut lines = String::new();
    for n in 0..SENT {
        let _ = writeln!(
            lines,
            "{{\"type\":\"flood\",\"n\":{n},\"text\":\"some text that takes a little room\"}}"
        );
    }
    seat.feed([], &lines).ok();
    // each of them was delivered or is part of a missed record, at its place
    let total = |records: &[Record]| -> u64 {
        records.iter().map(|record| if record.is_missed() { record.missed.unwrap_or(0) } else { 1 }).sum()
    };
    eventually("every record, delivered or missed", || {
        (total(&records(&reader.stdout())) >= SENT).then_some(())
    });
    let shown = records(&reader.stdout());
    assert_eq!(total(&shown), SENT);
    let mut next = 0;
    let mut missed = 0;
    for record in &shown {
        if record.is_missed() {
            let count = record.missed.expect("a missed record has a count");
            assert!(count > 0);
            missed += count;
            next += count;
        } else {
            assert_eq!(record.get("jumpseat.field.n"), Some(next.to_string().as_str()));
            next += 1;
        }
    }
    assert_eq!(next, SENT);
    assert!(missed > 0, "no loss: the flood was too small");
    // and the accounts balance
    let delivered = SENT - missed;
    for (metric, value) in [("delivered", delivered), ("missed", missed), ("queued", 0), ("received", SENT)] {
        let text = pmcd.run("pminfo", ["-f", &format!("jumpseat.client.{metric}")]).ok();
        assert!(text.contains(&format!("value {value}\n")), "{metric} is not {value}: {text}");
    }
    let memory = pmcd.run("pmprobe", ["-v", "jumpseat.source.memory"]).ok();
    let bytes: u64 = memory.trim().rsplit(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    assert!(bytes <= 256 << 10, "{memory}");
}
