//! Event records as traces for ui.perfetto.dev: what is in them, and that viewers can take them.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use crate::seat::{Endpoint, JUMPSEAT, SOURCE, Seat};
use crate::trace_file::{Event, TraceFile, check, check_cut};
use nix::sys::signal::Signal;
use serde_json::{Value as Json, json};
use support::{AgentSpec, PcpEnv, PrivatePmcd, Process, eventually, free_port, temp_dir};
use tracing_subscriber::layer::SubscriberExt as _;

const METRIC: &str = "jumpseat.event.highres_records";

/// A trace of what is fed after the trace has begun. It is ended by the signal of Ctrl-C.
fn trace_of(lines: &str) -> (TraceFile, String) {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let endpoint = seat.serve([]);
    seat.feed([], "{\"type\":\"before\"}\n").ok();
    let file = dir.path().join("trace.pftrace");
    let mut tracer = start(&endpoint, &file, dir.path());
    wait_for_reader(&endpoint, SOURCE);
    seat.feed([], lines).ok();
    wait_until_read(&endpoint, SOURCE, lines.lines().count() as u64);
    (end(&mut tracer, &file), tracer.stdout())
}

/// Waits until somebody reads the records of a source.
fn wait_for_reader(endpoint: &Endpoint, source: &str) {
    let readers = || (value(endpoint, "jumpseat.source.readers", source)? == 1).then_some(());
    eventually("the trace to begin", readers);
}

/// Waits until the reader of a source has so many records.
fn wait_until_read(endpoint: &Endpoint, source: &str, count: u64) {
    let read = || (value(endpoint, "jumpseat.source.delivered", source)? >= count).then_some(());
    eventually("the records to be read", read);
}

fn value(endpoint: &Endpoint, metric: &str, source: &str) -> Option<u64> {
    let shown = endpoint.run("pminfo", ["-f", metric]).stdout;
    let line = shown.lines().find(|line| line.contains(&format!("or \"{source}\"]")))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Ends a tracer as Ctrl-C does. What it has written.
fn end(tracer: &mut Process, file: &Path) -> TraceFile {
    tracer.signal(Signal::SIGINT);
    let code = eventually("the end of the trace", || tracer.exited());
    assert!(code.success(), "{}", tracer.text());
    check(&fs::read(file).unwrap())
}

fn start(endpoint: &Endpoint, file: &Path, dir: &Path) -> Process {
    let mut command = PcpEnv::new().command(JUMPSEAT);
    command.args(["events", "-h", &endpoint.host(), "-t", "0.1", "--perfetto"]).arg(file).arg(METRIC);
    Process::start(&mut command, dir, "tracer")
}

fn line(second: f64, rest: &str) -> String {
    format!("{{\"time\":{},{rest}}}\n", 1_795_000_000.0 + second)
}

#[test]
fn slices_instants_arrows_and_what_never_ends() {
    let lines = [
        line(0.0, r#""type":"request","phase":"start","span_id":"1","url":"/a""#),
        line(1.0, r#""type":"query","phase":"start","span_id":"2","parent_id":"1""#),
        line(1.5, r#""type":"note","n":7,"severity":"warning""#),
        line(2.0, r#""type":"query","phase":"end","span_id":"2","rows":3"#),
        line(2.5, r#""type":"request","phase":"start","span_id":"3""#),
        line(3.0, r#""type":"request","phase":"end","span_id":"1","url":"/b""#),
        line(4.0, r#""type":"request","phase":"end","span_id":"3""#),
        line(5.0, r#""type":"parent","phase":"start","span_id":"4""#),
        line(6.0, r#""type":"child","phase":"start","span_id":"5","parent_id":"4""#),
        line(7.0, r#""type":"parent","phase":"end","span_id":"4""#),
        line(8.0, r#""type":"child","phase":"end","span_id":"5""#),
        line(9.0, r#""type":"forever","phase":"start","span_id":"9""#),
        line(10.0, r#""type":"stray","phase":"end","span_id":"77""#),
    ]
    .concat();
    let (trace, summary) = trace_of(&lines);
    let base = 1_795_000_000_000_000_000;
    let second = 1_000_000_000;
    let slice = |name: &str, start: u64| {
        let found =
            trace.slices.iter().find(|slice| slice.name == name && slice.start == base + start * second / 10);
        found.unwrap_or_else(|| panic!("no {name} at {start} in {:#?}", trace.slices))
    };
    let (first, query, other) = (slice("request", 0), slice("query", 10), slice("request", 25));
    let at = |seconds: u64| Some(base + seconds * second);
    assert_eq!((first.end, query.end, other.end), (at(3), at(2), at(4)));
    for slice in [first, query, other] {
        assert_eq!((slice.process.as_str(), slice.track.as_str()), (SOURCE, SOURCE), "{slice:?}");
    }
    assert_eq!((query.uuid, query.within.as_deref()), (first.uuid, Some("request")));
    assert_ne!(other.uuid, first.uuid, "they overlap, and neither is the other's parent");
    assert_eq!(first.args["url"], "/a");
    assert_eq!(first.args["url (end)"], "/b");
    assert_eq!(query.args["rows"], 3);
    assert_eq!(query.categories, ["span"]);
    let (parent, child) = (slice("parent", 50), slice("child", 60));
    assert_ne!(parent.uuid, child.uuid, "it outlives its parent");
    assert_eq!(trace.arrow_names(), [("parent", "child")]);
    let forever = slice("forever", 90);
    assert_eq!(forever.args["unfinished"], true);
    assert!(forever.end > at(10));
    let instants: Vec<&str> = trace.instants.iter().map(|instant| instant.name.as_str()).collect();
    assert_eq!(instants, ["note", "end of stray"]);
    assert_eq!(trace.instants[0].args["n"], 7);
    assert_eq!(trace.instants[0].categories, ["event", "warning"]);
    assert_eq!((trace.slices.len(), trace.unsorted), (6, 0));
    let rates = &trace.counters[&(SOURCE.to_owned(), "records".to_owned())];
    // Ends are not counted: a span is one.
    let expected = [(1, 1), (2, 2), (3, 1), (4, 0), (6, 1), (8, 0), (10, 1), (12, 0)];
    assert_eq!(rates.as_slice(), expected.map(|(seconds, count)| (base + seconds * second, count)));
    assert!(summary.contains("13 records: 6 slices (1 unfinished), 2 instants, 0 missed"), "{summary}");
}

#[test]
fn any_activities_make_tracks_that_viewers_can_show() {
    // xorshift: the same activities each time.
    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut below = |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % n
    };
    let (mut open, mut lines, mut spans): (Vec<usize>, String, HashMap<String, (i64, i64)>) =
        Default::default();
    let mut begun = 0;
    for at in 0..4_000 {
        let millis = at as i64;
        let time = format!("\"time\":{}", 1_795_000_000_000 + millis);
        match below(10) {
            0..4 => {
                let parent = match below(3) {
                    0 if !open.is_empty() => format!(",\"parent_id\":{}", open[below(open.len())]),
                    1 if begun > 0 => format!(",\"parent_id\":{}", below(begun)),
                    _ => String::new(),
                };
                let _ = writeln!(
                    lines,
                    "{{{time},\"type\":\"s{begun}\",\"phase\":\"start\",\"span_id\":{begun}{parent}}}"
                );
                spans.insert(format!("s{begun}"), (millis, -1));
                open.push(begun);
                begun += 1;
            }
            4..8 if !open.is_empty() => {
                // Mostly the latest, as in nested calls.
                let which = if below(3) > 0 { open.len() - 1 } else { below(open.len()) };
                let id = open.remove(which);
                let _ = writeln!(lines, "{{{time},\"phase\":\"end\",\"span_id\":{id}}}");
                spans.get_mut(&format!("s{id}")).unwrap().1 = millis;
            }
            _ => {
                let _ = writeln!(lines, "{{{time},\"type\":\"point\"}}");
            }
        }
    }
    lines += &line(5_000.0, "\"type\":\"the last one\"");
    let (trace, _) = trace_of(&lines);
    assert_eq!((trace.slices.len(), trace.unsorted), (spans.len(), 0));
    let base = 1_795_000_000_000_000_000;
    for slice in &trace.slices {
        let (start, end) = spans[&slice.name];
        assert_eq!(slice.start, base + start as u64 * 1_000_000, "{slice:?}");
        match end {
            -1 => assert_eq!(slice.args["unfinished"], true),
            end => assert_eq!(slice.end, Some(base + end as u64 * 1_000_000), "{slice:?}"),
        }
    }
    assert!(trace.arrows.len() > 50, "{}", trace.arrows.len());
}

#[test]
fn records_of_another_agent_with_missed_ones() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    for metric in ["sample.event.records", "sample.event.highres_records", "sample.event.no_indom_records"] {
        let file = pmcd.dir().join("trace.pftrace");
        let words = ["events", "-s", "8", "-t", "0.02", "--perfetto", file.to_str().unwrap(), metric];
        pmcd.run(JUMPSEAT, words).ok();
        let trace = check(&fs::read(&file).unwrap());
        assert!(trace.instants.len() > 8, "{metric}");
        if metric.ends_with("no_indom_records") {
            assert!(
                trace.instants.iter().all(|instant| instant.process == metric && instant.track == metric)
            );
            continue;
        }
        let mut missed = trace.slices.iter().filter(|slice| slice.track == "missed");
        let missed = missed.next().expect("missed records");
        assert_eq!((missed.process.as_str(), &missed.categories[..]), ("fungus", &["missed".to_owned()][..]));
        // pmcd loses the count of high-resolution arrays.
        let count = if metric.contains("highres") { 0 } else { 7 };
        assert_eq!(missed.args["missed"], count);
        assert_eq!(missed.end, Some(missed.start + 1_000_000_000), "from the record before on");
        let counter = trace.counters.get(&("fungus".to_owned(), "missed".to_owned()));
        assert_eq!(counter.map(|values| values[0].1), (count > 0).then_some(count));
        let is_unfinished = |slice: &Event| slice.args["unfinished"] == true && slice.process == "fungus";
        assert!(trace.slices.iter().any(is_unfinished), "{trace:#?}");
        assert!(trace.instants.iter().any(|instant| instant.process == "bogus" && instant.name == "bingo!"));
    }
    let fails = |words: &[&str], reason: &str| {
        let words = ["events", "-s", "1", "--perfetto"].iter().chain(words);
        let output = pmcd.run(JUMPSEAT, words).fails(1);
        assert!(output.contains(reason), "{output}");
    };
    fails(&["/nonexistent/x", "sample.event.records"], "cannot write /nonexistent/x");
    fails(&["x", "sample.bin"], "no event records");
    fails(&["x", "--json", "sample.event.records"], "choose one of them");
    fails(&["-", "-Z", "UTC", "sample.event.records"], "leave -z and -Z out");
    assert!(!pmcd.dir().join("x").exists());
}

/// A span as OTLP's JSON has it. Times are milliseconds after a time of the test's.
fn span(trace: u64, id: u64, parent: u64, name: &str, (start, end): (u64, u64), attributes: Json) -> Json {
    const BASE: u64 = 1_795_000_000_000;
    let attributes: Vec<Json> = attributes
        .as_object()
        .unwrap()
        .iter()
        .map(|(key, value)| json!({ "key": key, "value": { "stringValue": value } }))
        .collect();
    let nanos = |millis: u64| ((BASE + millis) * 1_000_000).to_string();
    let mut span = json!({ "traceId": format!("{trace:032x}"), "spanId": format!("{id:016x}"), "name": name, "kind": 2,
        "startTimeUnixNano": nanos(start), "endTimeUnixNano": nanos(end), "attributes": attributes });
    if parent != 0 {
        span["parentSpanId"] = format!("{parent:016x}").into();
    }
    span
}

/// Posts spans of a service, as its SDK does.
fn post(port: u16, service: &str, spans: &[Json]) {
    let name = json!([{ "key": "service.name", "value": { "stringValue": service } }]);
    let body = json!({ "resourceSpans": [{ "resource": { "attributes": name }, "scopeSpans": [{ "spans": spans }] }] });
    let body = body.to_string();
    let mut stream = eventually("the OTLP listener", || TcpStream::connect(("localhost", port)).ok());
    write!(
        stream,
        "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// An agent that takes OTLP, with the sources that the test will use: a reader sees those that are there.
fn otlp_seat(dir: &Path) -> (Endpoint, u16) {
    let port = free_port();
    let seat = Seat::in_dir(dir, &format!("[otlp]\nlisten = \"localhost:{port}\"\n"));
    let endpoint = seat.serve([]);
    for (number, service) in SERVICES.iter().enumerate() {
        post(port, service, &[span(99, number as u64 + 1, 0, "before", (0, 1), json!({}))]);
    }
    (endpoint, port)
}

const SERVICES: [&str; 3] = ["frontend", "orders", "stock"];

#[test]
fn spans_of_three_services_nest_though_children_come_first() {
    let dir = temp_dir();
    let (endpoint, port) = otlp_seat(dir.path());
    let file = dir.path().join("trace.pftrace");
    let mut tracer = start(&endpoint, &file, dir.path());
    SERVICES.iter().for_each(|service| wait_for_reader(&endpoint, service));
    let none = || json!({});
    let pool = || json!({ "thread.name": "pool-1" });
    // Innermost services and spans first, long after those that came before them in time.
    for trace in 1..=40 {
        let at = |from: u64, to: u64| (10_000 - trace * 100 + from, 10_000 - trace * 100 + to);
        let id = |number: u64| trace * 100 + number;
        post(
            port,
            "stock",
            &[
                span(trace, id(7), id(6), "reserve", at(31, 35), pool()),
                span(trace, id(6), id(4), "POST /stock", at(30, 40), pool()),
            ],
        );
        post(
            port,
            "orders",
            &[
                span(trace, id(5), id(3), "audit", at(45, 70), none()),
                span(trace, id(4), id(3), "call stock", at(25, 42), none()),
                span(trace, id(3), id(2), "POST /orders", at(20, 50), none()),
            ],
        );
        post(
            port,
            "frontend",
            &[
                span(trace, id(2), id(1), "call orders", at(10, 60), none()),
                span(trace, id(1), 0, "GET /", at(0, 90), none()),
            ],
        );
    }
    for (service, spans) in SERVICES.iter().zip([2, 3, 2]) {
        wait_until_read(&endpoint, service, 40 * spans * 2);
    }
    let trace = end(&mut tracer, &file);
    assert_eq!((trace.slices.len(), trace.unsorted), (7 * 40, 0));
    let of = |name: &str| -> Vec<_> { trace.slices.iter().filter(|slice| slice.name == name).collect() };
    for (name, process, within) in [
        ("GET /", "frontend", None),
        ("call orders", "frontend", Some("GET /")),
        ("POST /orders", "orders", None),
        ("call stock", "orders", Some("POST /orders")),
        ("audit", "orders", None),
        ("POST /stock", "stock", None),
        ("reserve", "stock", Some("POST /stock")),
    ] {
        let slices = of(name);
        assert_eq!(slices.len(), 40, "{name}");
        for slice in slices {
            assert_eq!((slice.process.as_str(), slice.within.as_deref()), (process, within), "{slice:?}");
            let track = if process == "stock" { "pool-1" } else { process };
            assert_eq!(
                (slice.track.as_str(), &slice.categories[..2]),
                (track, &["span".to_owned(), "server".to_owned()][..])
            );
        }
    }
    let tracks: HashSet<u64> = trace.slices.iter().map(|slice| slice.uuid).collect();
    assert_eq!(tracks.len(), 4, "one for each service, and one for what outlives its parent");
    let mut arrows: HashMap<(&str, &str), usize> = HashMap::new();
    trace.arrow_names().into_iter().for_each(|arrow| *arrows.entry(arrow).or_default() += 1);
    let expected = [
        (("call orders", "POST /orders"), 40),
        (("call stock", "POST /stock"), 40),
        (("POST /orders", "audit"), 40),
    ];
    assert_eq!(arrows, expected.into());
}

#[test]
fn threads_of_a_program_with_the_layer_are_tracks() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let endpoint = seat.serve([]);
    let layer = jumpseat::layer().source("shop").socket(seat.socket());
    let guard = layer.guard();
    let dispatch = tracing::Dispatch::new(tracing_subscriber::registry().with(layer));
    // So that there is something to read.
    tracing::dispatcher::with_default(&dispatch, || tracing::info!("before"));
    assert!(guard.flush(Duration::from_secs(20)));
    let file = dir.path().join("trace.pftrace");
    let mut tracer = start(&endpoint, &file, dir.path());
    wait_for_reader(&endpoint, "shop");
    let workers = ["cook", "waiter", "waiter"].map(|name| {
        let dispatch = dispatch.clone();
        let work = move || {
            tracing::dispatcher::with_default(&dispatch, || {
                for _ in 0..20 {
                    let order = tracing::info_span!("order").entered();
                    tracing::info_span!("dish").in_scope(|| tracing::warn!("hot"));
                    drop(order);
                }
            });
        };
        std::thread::Builder::new().name(name.to_owned()).spawn(work).unwrap()
    });
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    assert!(guard.flush(Duration::from_secs(20)));
    wait_until_read(&endpoint, "shop", 3 * 20 * 5);
    let trace = end(&mut tracer, &file);
    assert_eq!((trace.slices.len(), trace.instants.len(), trace.unsorted), (3 * 20 * 2, 3 * 20, 0));
    let mut tracks: HashMap<&str, HashSet<u64>> = HashMap::new();
    for slice in &trace.slices {
        assert_eq!(
            (slice.process.as_str(), &slice.categories[..]),
            ("shop", &["span".to_owned(), "info".to_owned()][..])
        );
        assert_eq!(slice.within.as_deref(), (slice.name == "dish").then_some("order"), "{slice:?}");
        assert!(slice.args["duration_ns"].is_u64() && slice.args["line"].is_u64(), "{slice:?}");
        tracks.entry(&slice.track).or_default().insert(slice.uuid);
    }
    assert!(trace.instants.iter().all(|hot| hot.within.as_deref() == Some("dish")), "{:?}", trace.instants);
    assert!(
        tracks.keys().all(|track| track.starts_with("cook ") || track.starts_with("waiter ")),
        "{tracks:?}"
    );
    assert!(tracks.len() == 3 && tracks.values().all(|lanes| lanes.len() == 1), "{tracks:?}");
}

#[test]
fn a_killed_writer_leaves_a_trace() {
    let dir = temp_dir();
    let (endpoint, port) = otlp_seat(dir.path());
    let file = dir.path().join("trace.pftrace");
    let mut tracer = start(&endpoint, &file, dir.path());
    SERVICES.iter().for_each(|service| wait_for_reader(&endpoint, service));
    post(
        port,
        "orders",
        &[span(1, 2, 1, "inner", (10, 20), json!({})), span(1, 1, 0, "outer", (0, 30), json!({}))],
    );
    // As long as its place is kept for what may come before it.
    let inner = || fs::read(&file).unwrap().windows(5).any(|bytes| bytes == b"inner").then_some(());
    for _ in 0..6 {
        std::thread::sleep(Duration::from_secs(2));
    }
    eventually("the spans to be written", inner);
    tracer.signal(Signal::SIGKILL);
    eventually("the end of the writer", || tracer.exited());
    let trace = check_cut(&fs::read(&file).unwrap());
    assert_eq!(trace.slice("inner").within.as_deref(), Some("outer"));
    assert_eq!(trace.slices.len(), 2);

    // Its parent comes after it has its place, and is shown all the same.
    let mut tracer = start(&endpoint, &file, dir.path());
    SERVICES.iter().for_each(|service| wait_for_reader(&endpoint, service));
    post(port, "orders", &[span(2, 12, 11, "inner", (10, 20), json!({}))]);
    std::thread::sleep(Duration::from_secs(11));
    eventually("the span to be written", inner);
    post(port, "orders", &[span(2, 11, 0, "slow", (0, 30), json!({}))]);
    wait_until_read(&endpoint, "orders", 8);
    let trace = end(&mut tracer, &file);
    assert_eq!((trace.slice("slow").track.as_str(), trace.slice("slow").within.as_deref()), ("orders", None));
    assert_ne!(trace.slice("slow").uuid, trace.slice("inner").uuid);
    let summary = tracer.stdout();
    assert!(summary.contains("; 1 came more than 10 s after what followed"), "{summary}");
}

#[test]
fn a_trace_goes_to_standard_output() {
    let dir = temp_dir();
    let (endpoint, port) = otlp_seat(dir.path());
    post(port, "stock", &[span(1, 1, 0, "reserve", (0, 30), json!({}))]);
    let file = dir.path().join("out");
    let mut command = PcpEnv::new().command(JUMPSEAT);
    command.args(["events", "-h", &endpoint.host(), "-s", "2", "-t", "0.1", "--since", "oldest"]);
    command
        .args(["--perfetto", "-", METRIC])
        .stdout(fs::File::create(&file).unwrap())
        .current_dir(dir.path());
    let output = command.stderr(std::process::Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let trace = check(&fs::read(&file).unwrap());
    assert_eq!(trace.slice("reserve").process, "stock");
    assert!(said.contains("standard output: 8 records: 4 slices (0 unfinished)"), "{said}");
    assert!(!dir.path().join("-").exists());
}
