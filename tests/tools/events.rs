//! Event records as traces for ui.perfetto.dev: what is in them, and that viewers can take them.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::seat::{Endpoint, JUMPSEAT, SOURCE, Seat};
use nix::sys::signal::Signal;
use serde_json::Value as Json;
use support::{AgentSpec, PcpEnv, PrivatePmcd, Process, eventually, temp_dir};

/// A trace that has been checked, by the names of tracks.
struct Trace {
    slices: Vec<Event>,
    instants: Vec<Event>,
    /// From and to.
    arrows: Vec<(Event, Event)>,
    other: Json,
}

#[derive(Clone, Debug)]
struct Event {
    track: String,
    name: String,
    /// Nanoseconds.
    start: i64,
    end: i64,
    args: Json,
}

/// Reads a trace and checks everything that viewers rely on: members and their types, names of all tracks, slices
/// of a track nested or apart, arrows from within a slice to the begin of one.
fn check(text: &str) -> Trace {
    let json: Json = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}:\n{text}"));
    assert_eq!(json["displayTimeUnit"], "ns");
    let events = json["traceEvents"].as_array().expect("a list of events");
    let mut tracks: BTreeMap<u64, String> = BTreeMap::new();
    for event in events.iter().filter(|event| event["ph"] == "M") {
        let name = event["args"]["name"].as_str().expect("metadata has a name").to_owned();
        match event["name"].as_str() {
            Some("thread_name") => {
                let twice = tracks.insert(event["tid"].as_u64().unwrap(), name);
                assert_eq!(twice, None, "a track has one name");
            }
            Some("process_name") => {}
            other => panic!("unknown metadata {other:?}"),
        }
    }
    let nanos = |json: &Json| (json.as_f64().expect("a number") * 1_000.0).round() as i64;
    let read = |event: &Json| {
        assert_eq!(event["pid"], 1, "{event}");
        let start = nanos(&event["ts"]);
        let duration = event.get("dur").map_or(0, nanos);
        assert!(duration >= 0, "{event}");
        Event {
            track: tracks[&event["tid"].as_u64().expect("a track")].clone(),
            name: event["name"].as_str().expect("a name").to_owned(),
            start,
            end: start + duration,
            args: event.get("args").cloned().unwrap_or_default(),
        }
    };
    let of = |phase: &str| -> Vec<&Json> { events.iter().filter(|event| event["ph"] == phase).collect() };
    let slices: Vec<Event> = of("X").into_iter().map(read).collect();
    let instants: Vec<Event> = of("i").into_iter().map(read).collect();
    let known = of("M").len() + slices.len() + instants.len() + of("s").len() + of("f").len();
    assert_eq!(known, events.len(), "only known phases");
    assert!(slices.iter().chain(&instants).all(|event| event.args.is_object()));
    nested(&slices);
    let mut arrows = Vec::new();
    for from in of("s") {
        let ends: Vec<&Json> = of("f").into_iter().filter(|to| to["id"] == from["id"]).collect();
        let [to] = ends[..] else { panic!("{from} has ends {ends:?}") };
        assert_eq!(to["bp"], "e");
        let (from, to) = (read(from), read(to));
        assert!(from.start <= to.start, "{from:?} {to:?}");
        let within =
            |slice: &&Event| slice.track == from.track && (slice.start..=slice.end).contains(&from.start);
        assert!(slices.iter().any(|slice| within(&slice)), "{from:?} starts in a slice");
        assert!(slices.iter().any(|slice| slice.track == to.track && slice.start == to.start), "{to:?}");
        arrows.push((from, to));
    }
    assert_eq!(of("f").len(), arrows.len());
    Trace { slices, instants, arrows, other: json["otherData"].clone() }
}

/// Slices of one track contain each other or do not overlap.
fn nested(slices: &[Event]) {
    let mut by_track: BTreeMap<&str, Vec<&Event>> = BTreeMap::new();
    for slice in slices {
        by_track.entry(&slice.track).or_default().push(slice);
    }
    for (track, mut slices) in by_track {
        slices.sort_by_key(|slice| (slice.start, -slice.end));
        let mut open: Vec<&Event> = Vec::new();
        for slice in slices {
            while open.last().is_some_and(|outer| outer.end <= slice.start && outer.end < slice.end) {
                open.pop();
            }
            if let Some(outer) = open.last() {
                assert!(slice.end <= outer.end, "on {track} {slice:?} sticks out of {outer:?}");
            }
            open.push(slice);
        }
    }
}

const METRIC: &str = "jumpseat.event.highres_records";

/// A trace of what is fed after the trace has begun. It is ended by the signal of Ctrl-C.
fn trace_of(lines: &str, last: &str) -> (Trace, String) {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let endpoint = seat.serve([]);
    seat.feed([], "{\"type\":\"before\"}\n").ok();
    let file = dir.path().join("trace.json");
    let mut tracer = start(&endpoint, &file, dir.path());
    let readers = || {
        let shown = endpoint.run("pminfo", ["-f", "jumpseat.source.readers"]).stdout;
        let line = shown.lines().find(|line| line.contains(&format!("or \"{SOURCE}\"]")))?;
        (line.rsplit(' ').next()? == "1").then_some(())
    };
    eventually("the trace to begin", readers);
    seat.feed([], lines).ok();
    eventually("the last record", || fs::read_to_string(&file).ok()?.contains(last).then_some(()));
    tracer.signal(Signal::SIGINT);
    let code = eventually("the end of the trace", || tracer.exited());
    assert!(code.success(), "{}", tracer.text());
    (check(&fs::read_to_string(&file).unwrap()), tracer.stdout())
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
        line(1.5, r#""type":"note","n":7"#),
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
    let (trace, summary) = trace_of(&lines, "stray");
    let slice = |name: &str, start: i64| {
        let found =
            trace.slices.iter().find(|slice| slice.name == name && slice.start == start * 100_000_000);
        found.unwrap_or_else(|| panic!("no {name} at {start} in {:?}", trace.slices))
    };
    let second = 1_000_000_000;
    let (first, query, other) = (slice("request", 0), slice("query", 10), slice("request", 25));
    assert_eq!((first.end, query.end, other.end), (3 * second, 2 * second, 4 * second));
    assert_eq!((first.track.as_str(), query.track.as_str()), (SOURCE, SOURCE));
    assert_eq!(other.track, format!("{SOURCE} (2)"), "they overlap, and neither is the other's parent");
    assert_eq!(first.args["jumpseat.field.url"], "/a");
    assert_eq!(first.args["jumpseat.field.url (end)"], "/b");
    assert_eq!(query.args["jumpseat.field.rows"], 3);
    let (parent, child) = (slice("parent", 50), slice("child", 60));
    assert_ne!(parent.track, child.track, "it outlives its parent");
    let [(from, to)] = &trace.arrows[..] else { panic!("{:?}", trace.arrows) };
    assert_eq!(
        (&from.track, from.start, &to.track, to.start),
        (&parent.track, 6 * second, &child.track, 6 * second)
    );
    let forever = slice("forever (unfinished)", 90);
    assert_eq!(forever.args["unfinished"], true);
    assert!(forever.end > 10 * second);
    let instants: Vec<&str> = trace.instants.iter().map(|instant| instant.name.as_str()).collect();
    assert_eq!(instants, ["note", "end of stray"]);
    assert_eq!(trace.instants[0].args["jumpseat.field.n"], 7);
    assert_eq!(trace.slices.len(), 6);
    assert_eq!(trace.other["records"], 13);
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
    let (trace, _) = trace_of(&lines, "the last one");
    assert_eq!(trace.slices.len(), spans.len());
    // Times in the file count from the first record on.
    let first =
        trace.slices.iter().find(|slice| slice.name.trim_end_matches(" (unfinished)") == "s0").unwrap();
    let offset = first.start - spans["s0"].0 * 1_000_000;
    for slice in &trace.slices {
        let (start, end) = spans[slice.name.trim_end_matches(" (unfinished)")];
        assert_eq!(slice.start, offset + start * 1_000_000, "{slice:?}");
        match end {
            -1 => assert_eq!(slice.args["unfinished"], true),
            end => assert_eq!(slice.end, offset + end * 1_000_000, "{slice:?}"),
        }
    }
    assert!(trace.arrows.len() > 50, "{}", trace.arrows.len());
}

#[test]
fn records_of_another_agent_with_missed_ones() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    for metric in ["sample.event.records", "sample.event.highres_records", "sample.event.no_indom_records"] {
        let file = pmcd.dir().join("trace.json");
        let words = ["events", "-s", "8", "-t", "0.02", "--perfetto", file.to_str().unwrap(), metric];
        pmcd.run(JUMPSEAT, words).ok();
        let trace = check(&fs::read_to_string(&file).unwrap());
        assert!(trace.instants.len() > 8, "{metric}");
        if metric.ends_with("no_indom_records") {
            assert!(trace.instants.iter().all(|instant| instant.track == metric));
            continue;
        }
        let missed =
            trace.slices.iter().find(|slice| slice.track == "fungus: missed").expect("missed records");
        // pmcd loses the count of high-resolution arrays.
        let count = if metric.contains("highres") { 0 } else { 7 };
        assert_eq!(missed.args["missed"], count);
        assert_eq!(missed.end - missed.start, 1_000_000_000, "from the record before on");
        assert!(trace.slices.iter().any(|slice| slice.args["unfinished"] == true && slice.track == "fungus"));
        assert!(trace.instants.iter().any(|instant| instant.track == "bogus" && instant.name == "bingo!"));
    }
    let output =
        pmcd.run(JUMPSEAT, ["events", "-s", "1", "--perfetto", "/nonexistent/x", "sample.event.records"]);
    assert!(output.fails(1).contains("cannot write /nonexistent/x"));
    let output = pmcd.run(JUMPSEAT, ["events", "-s", "1", "--perfetto", "x", "sample.bin"]);
    assert!(output.fails(1).contains("no event records"));
}
