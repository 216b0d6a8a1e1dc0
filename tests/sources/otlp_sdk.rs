//! The real OpenTelemetry SDK for Python sends to the real agent; PCP's tools read the records.

use std::path::Path;
use std::time::Duration;

use crate::seat::{Seat, Transport};
use support::{Output, PcpEnv, PrivatePmcd, Record, eventually, free_port, records, temp_dir};

/// Where ./test puts the SDK.
pub(crate) const SDK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/otlp-sdk");
const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sources/otlp_client.py");
/// What the client makes.
const SPANS: u64 = 1002;
const RECORDS: u64 = 2 * SPANS + 2;

/// Runs the client, set up by the environment as any program with the SDK is.
#[track_caller]
pub(crate) fn send(port: u16, settings: &[(&str, &str)]) -> Output {
    assert!(
        Path::new(SDK).join("opentelemetry").is_dir(),
        "the OpenTelemetry SDK is not in {SDK}: run ./test, which installs it there"
    );
    let mut env = PcpEnv::new();
    env.set("PYTHONPATH", SDK);
    env.set("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://localhost:{port}"));
    for (name, value) in settings {
        env.set(name, *value);
    }
    env.run("python3", [CLIENT])
}

pub(crate) fn wait_for(port: u16) {
    eventually("the OTLP listener", || std::net::TcpStream::connect(("localhost", port)).ok());
}

/// The value of the instance in what `pminfo -f` prints.
fn value(text: &str, instance: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains(&format!("or \"{instance}\"]")))?;
    line.rsplit_once("value ")?.1.trim().parse().ok()
}

fn of_type<'a>(records: &'a [Record], event_type: &str, flags: u32) -> Vec<&'a Record> {
    let is = |record: &&Record| {
        record.get("jumpseat.field.type") == Some(event_type) && record.flags & 0x7 == flags
    };
    records.iter().filter(is).collect()
}

#[test]
fn spans_and_logs_of_the_python_sdk_are_read_by_pmevent() {
    let dir = temp_dir();
    let port = free_port();
    let settings = format!("[events]\nrecent = 1000\n[otlp]\nlisten = \"localhost:{port}\"\n");
    let seat = Seat::in_dir(dir.path(), &settings);
    let pmcd = PrivatePmcd::with([seat.agent(Transport::Pipe)]).start();
    wait_for(port);
    let first = send(port, &[]).ok();
    eventually("all records", || {
        let text = pmcd.run("pminfo", ["-f", "jumpseat.source.received"]).ok();
        (value(&text, "checkout") == Some(RECORDS)).then_some(())
    });

    // A reader that is there before the records: pmevent, for records that come with the second run.
    let pmevent = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            pmcd.run("pmevent", ["-t", "1sec", "-s", "6", "jumpseat.event.records[\"checkout\"]"]).ok()
        });
        eventually("pmevent to read", || {
            let text = pmcd.run("pminfo", ["-f", "jumpseat.source.readers"]).ok();
            value(&text, "checkout").filter(|readers| *readers > 0)
        });
        let second = send(port, &[("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")]).ok();
        assert_ne!(first, second, "a trace of its own");
        let text = reader.join().expect("pmevent ran");
        (text, second.trim().to_owned())
    });
    let (text, trace_id) = pmevent;
    let records = records(&text);
    let ours: Vec<Record> = records
        .into_iter()
        .filter(|record| record.get("jumpseat.field.trace_id") == Some(&trace_id))
        .collect();
    let [start] = of_type(&ours, "order", 0x2)[..] else { panic!("one start: {text}") };
    let [end] = of_type(&ours, "order", 0x4)[..] else { panic!("one end: {text}") };
    assert_eq!(start.get("jumpseat.field.kind"), Some("server"));
    assert_eq!(start.get("jumpseat.field.span_id"), end.get("jumpseat.field.span_id"));
    assert_eq!(end.get("jumpseat.field.status"), Some("unset"));
    assert_eq!(end.get("jumpseat.field.http_status"), Some("200"));
    assert_eq!(end.get("jumpseat.field.tags"), Some("[\"a\",\"b\"]"));
    assert_eq!(end.get("jumpseat.field.scope"), Some("shop.lib"));
    assert!(end.get("jumpseat.field.duration_ns").is_some_and(|text| text.parse::<u64>().is_ok()));

    let [pay] = of_type(&ours, "pay", 0x4)[..] else { panic!("one end: {text}") };
    assert_eq!(pay.flags, 0x4 | 0x8 | 0x10);
    assert_eq!(pay.get("jumpseat.field.parent_id"), end.get("jumpseat.field.span_id"));
    assert_eq!(pay.get("jumpseat.field.status"), Some("error"));
    assert_eq!(pay.get("jumpseat.field.severity"), Some("error"));
    assert_eq!(pay.get("jumpseat.field.message"), Some("card declined"));
    let linked = format!("{trace_id}-{}", end.get("jumpseat.field.span_id").expect("an id"));
    assert_eq!(pay.get("jumpseat.field.link"), Some(linked.as_str()));

    let [retry] = of_type(&ours, "retry", 0x1)[..] else { panic!("one event: {text}") };
    assert_eq!(retry.get("jumpseat.field.attempt"), Some("2"));
    assert_eq!(retry.get("jumpseat.field.span_id"), pay.get("jumpseat.field.span_id"));
    let [log] = of_type(&ours, "log", 0x1)[..] else { panic!("one log record: {text}") };
    assert_eq!(log.get("jumpseat.field.severity"), Some("warning"));
    assert_eq!(log.get("jumpseat.field.message"), Some("card of bob declined"));
    assert_eq!(log.get("jumpseat.field.amount"), Some("9.5"));
    assert_eq!(log.get("jumpseat.field.span_id"), pay.get("jumpseat.field.span_id"));

    // What is known of the source, and the accounts.
    let labels = pmcd.run("pminfo", ["-l", "jumpseat.event.records"]).ok();
    for label in [
        "\"kind\":\"otlp\"",
        "\"service\":\"checkout\"",
        "\"deployment\":\"test\"",
        "\"telemetry_sdk_language\":\"python\"",
        &format!("\"address\":\"localhost:{port}\""),
    ] {
        assert!(labels.contains(label), "{label}: {labels}");
    }
    let counts = pmcd.run("pminfo", ["-f", "jumpseat.event.count"]).ok();
    assert_eq!(value(&counts, "checkout/step"), Some(2 * 2 * 1000), "{counts}");
    for metric in ["jumpseat.source.missed", "jumpseat.source.malformed", "jumpseat.source.truncated"] {
        let text = pmcd.run("pminfo", ["-f", metric]).ok();
        assert_eq!(value(&text, "checkout"), Some(0), "{text}");
    }
    let requests = pmcd.run("pmval", ["-s", "1", "-r", "jumpseat.self.otlp.requests"]).ok();
    let number: u64 = requests.lines().last().and_then(|line| line.trim().parse().ok()).expect("a number");
    assert!(number >= 4, "{requests}");
}

#[test]
fn a_client_that_starts_before_the_agent_sends_again() {
    let dir = temp_dir();
    let port = free_port();
    let seat = Seat::in_dir(dir.path(), &format!("[otlp]\nlisten = \"localhost:{port}\"\n"));
    std::thread::scope(|scope| {
        let client = scope.spawn(|| send(port, &[]).ok());
        // The SDK tries for ten seconds or more.
        std::thread::sleep(Duration::from_millis(500));
        let endpoint = seat.serve([]);
        client.join().expect("the client ran");
        eventually("all records", || {
            let text = endpoint.run("pminfo", ["-f", "jumpseat.source.received"]).ok();
            (value(&text, "checkout") == Some(RECORDS)).then_some(())
        });
    });
}

#[test]
fn the_python_sdk_sends_over_grpc_too() {
    let dir = temp_dir();
    let port = free_port();
    let seat = Seat::in_dir(dir.path(), &format!("[otlp]\ngrpc = \"localhost:{port}\"\n"));
    let endpoint = seat.serve([]);
    let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    let gzip = ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip");
    for (round, settings) in [(1, &[grpc][..]), (2, &[grpc, gzip])] {
        send(port, settings).ok();
        eventually("all records", || {
            let text = endpoint.run("pminfo", ["-f", "jumpseat.source.received"]).ok();
            (value(&text, "checkout") == Some(round * RECORDS)).then_some(())
        });
    }
    let text = endpoint.run("pminfo", ["-f", "jumpseat.source.malformed", "jumpseat.self.otlp"]).ok();
    assert_eq!(value(&text, "otlp"), Some(0), "{text}");
    let text = endpoint.run("pmval", ["-s", "1", "-r", "jumpseat.self.otlp.memory"]).ok();
    assert_eq!(text.lines().last().map(str::trim), Some("0"), "{text}");
}
