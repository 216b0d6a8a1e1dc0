//! Whole traces, kept by what becomes of them in the socket and in OTLP at once, under a real pmcd.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::SystemTime;

use crate::otlp_sdk::wait_for;
use crate::seat::Seat;
use crate::spans::start;
use support::{PrivatePmcd, eventually, free_port};

const GOOD: &str = "000000000000000000000000000000a1";
const BAD: &str = "000000000000000000000000000000b2";
const SLOW: &str = "000000000000000000000000000000c3";
const OPEN: &str = "000000000000000000000000000000d4";

/// Sends the root of each trace to OTLP, with its duration in milliseconds.
fn spans(port: u16, traces: &[(&str, u64)]) {
    // Now: how long a trace took is not told by times that cannot be right.
    let began =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
    let spans = traces.iter().enumerate().map(|(n, (trace, millis))| {
        format!(
            r#"{{"traceId":"{trace}","spanId":"000000000000000{}","name":"page","startTimeUnixNano":"{began}","endTimeUnixNano":"{}"}}"#,
            n + 1,
            began + millis * 1_000_000
        )
    });
    let spans = spans.collect::<Vec<_>>().join(",");
    let body = format!(
        r#"{{"resourceSpans":[{{"resource":{{"attributes":[{{"key":"service.name","value":{{"stringValue":"web"}}}}]}},"scopeSpans":[{{"spans":[{spans}]}}]}}]}}"#
    );
    let mut stream = TcpStream::connect(("localhost", port)).expect("the agent listens");
    let head = "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n";
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).expect("it takes the request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("{}"), "{answer}");
}

/// Sends events to the socket, of a trace or of none, and waits until they are taken in. Not by `jumpseat feed`, which ends when they
/// are safe, and so not before they are decided.
fn lines(seat: &Seat, events: &[(&str, &str)]) {
    let line = |(trace, severity): &(&str, &str)| {
        let trace = if trace.is_empty() { String::new() } else { format!(",\"trace_id\":\"{trace}\"") };
        format!("{{\"source\":\"app\",\"severity\":\"{severity}\",\"type\":\"work\"{trace}}}\n")
    };
    let mut stream = UnixStream::connect(seat.socket()).expect("the agent listens");
    stream.write_all(events.iter().map(line).collect::<String>().as_bytes()).expect("it takes lines");
    stream.shutdown(Shutdown::Write).expect("it is open");
    let mut summary = String::new();
    stream.read_to_string(&mut summary).expect("it answers");
    assert!(summary.contains(&format!("\"accepted\":{}", events.len())), "{summary}");
}

fn number(pmcd: &PrivatePmcd, metric: &str, instance: &str) -> u64 {
    let text = pmcd.run("pminfo", ["-f", &format!("jumpseat.{metric}")]).ok();
    let wanted = if instance.is_empty() { "value ".to_owned() } else { format!("or \"{instance}\"] value ") };
    let value = text.lines().find_map(|line| line.rsplit_once(&wanted));
    let (_, value) = value.unwrap_or_else(|| panic!("{metric}[{instance}]: {text}"));
    value.trim().parse().unwrap_or_else(|_| panic!("{metric}: {value:?}"))
}

/// Received, in the log, dropped by sampling, missed.
fn account(pmcd: &PrivatePmcd, source: &str) -> [u64; 4] {
    ["received", "queued", "dropped.sampled", "missed"]
        .map(|name| number(pmcd, &format!("source.{name}"), source))
}

fn settled(pmcd: &PrivatePmcd) {
    eventually("all traces to be decided", || {
        (number(pmcd, "tail.held.records", "") == 0 && number(pmcd, "tail.open", "") == 0).then_some(())
    });
}

#[test]
fn failed_and_slow_traces_are_kept_in_all_sources_and_the_others_dropped() {
    let port = free_port();
    let (mut pmcd, seat) = start(&format!(
        "[otlp]\nlisten = \"localhost:{port}\"\n[tail]\nwindow = \"5min\"\ngrace = \"100ms\"\nslow = \"1s\"\n\
         [[source]]\nsample_by = \"tail\"\nsample = 1000000\n"
    ));
    wait_for(port);
    // What is of no trace passes at once; then both sources are there for a reader.
    lines(&seat, &[("", "info")]);
    spans(port, &[(SLOW, 1000)]);
    eventually("both sources", || {
        let text = pmcd.run("pminfo", ["-f", "jumpseat.source.queued"]).ok();
        (text.contains("\"app\"] value 1") && text.contains("\"web\"] value 2")).then_some(())
    });
    let reader = pmcd.spawn("pmevent", ["-t", "0.1", "jumpseat.event.records"], "pmevent");
    eventually("pmevent to read", || {
        let text = pmcd.run("pminfo", ["-f", "jumpseat.source.readers"]).ok();
        (text.contains("\"app\"] value 1") && text.contains("\"web\"] value 1")).then_some(())
    });

    lines(
        &seat,
        &[(GOOD, "info"), (BAD, "info"), ("", "info"), (SLOW, "info"), (BAD, "error"), (GOOD, "warning")],
    );
    assert_eq!(number(&pmcd, "source.held.records", "app"), 6, "in the order in which they came");
    assert!(number(&pmcd, "source.held.bytes", "app") > 6 * 24);
    assert_eq!(account(&pmcd, "app"), [1, 1, 0, 0], "what waits was not received yet");
    spans(port, &[(GOOD, 10), (BAD, 10)]);
    settled(&pmcd);
    eventually("the account", || {
        (account(&pmcd, "app") == [7, 5, 2, 0] && account(&pmcd, "web") == [6, 4, 2, 0]).then_some(())
    });
    for (metric, expected) in
        [("kept.failed", 1), ("kept.slow", 1), ("kept.sampled", 0), ("dropped", 1), ("early", 0), ("late", 0)]
    {
        assert_eq!(number(&pmcd, &format!("tail.{metric}"), ""), expected, "{metric}");
    }
    eventually("pmevent to show what was kept", || {
        let text = reader.stdout();
        (text.matches(BAD).count() == 4 && text.matches(SLOW).count() == 1).then_some(())
    });
    assert!(!reader.stdout().contains(GOOD), "{}", reader.stdout());
    // The metrics of spans are those of what was kept.
    assert_eq!(number(&pmcd, "span.count", "web/page"), 2);

    // The agent ends while events wait: they are decided by the sample, and counted; nothing is lost silently.
    lines(&seat, &[(OPEN, "info"), ("", "notice"), (OPEN, "info")]);
    assert_eq!(number(&pmcd, "tail.held.records", ""), 3);
    pmcd.restart();
    pmcd.wait_ready("jumpseat");
    seat.wait_for_socket();
    let [received, _, dropped, missed] = account(&pmcd, "app");
    assert_eq!((received, seat.on_disk("app").len(), dropped, missed), (10, 6, 4, 0));

    // Limits and settings hold at once.
    lines(&seat, &[(OPEN, "info"), (BAD, "info")]);
    assert_eq!(number(&pmcd, "tail.open", ""), 2);
    pmcd.run("pmstore", ["jumpseat.control.tail.window", "99"]).fails(1);
    let told = pmcd.run("pminfo", ["-f", "jumpseat.control.refused"]).ok();
    assert!(told.contains("tail.window = 99") && told.contains("window: 99ms is not between"), "{told}");
    pmcd.run("pmstore", ["jumpseat.control.tail.window", "100"]).ok();
    settled(&pmcd);
    assert_eq!((number(&pmcd, "tail.dropped", ""), number(&pmcd, "tail.early", "")), (2, 0));
    pmcd.run("pmstore", ["jumpseat.control.reload", "1"]).ok();
    assert_eq!(number(&pmcd, "control.tail.window", ""), 300_000, "it has given way");
    lines(&seat, &[(GOOD, "info")]);
    assert_eq!(number(&pmcd, "tail.held.records", ""), 1);
    pmcd.run("pmstore", ["-i", "app", "jumpseat.control.source.sample_by", "trace"]).ok();
    settled(&pmcd);
    eventually("the account", || {
        let [received, _, dropped, missed] = account(&pmcd, "app");
        ([received, dropped, missed] == [13, 7, 0]).then_some(())
    });
    assert_eq!(seat.on_disk("app").len(), 6);
    assert_eq!(number(&pmcd, "tail.early", ""), 1);
}
