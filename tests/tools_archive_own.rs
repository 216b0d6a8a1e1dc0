//! An archive with jumpseat's own events, logged by a real pmlogger from a pmcd with jumpseat under it: all tools on
//! it, as texts that PCP's print too, as JSON, as a trace, recorded once more, and played on the screen.
#![cfg(feature = "cli")]

mod common;

use std::fs;
use std::time::Duration;

use common::{
    Archive, JUMPSEAT, Output, PcpEnv, PrivatePmcd, SOURCE, Seat, Transport, eventually, records, temp_dir,
};
use serde_json::Value as Json;

const EVENTS: &str = concat!(
    r#"{"type":"request","phase":"start","span_id":"a1","path":"/index","time":1795083558.25}"#,
    "\n",
    r#"{"type":"login","user":"ann","time":1795083558.5}"#,
    "\n",
    r#"{"type":"request","phase":"end","span_id":"a1","bytes":512,"time":1795083558.75}"#,
    "\n",
);
const METRIC: &str = "jumpseat.event.records";

/// An archive of that pmlogger's, without a pmcd.
fn logged() -> Archive {
    let builder = PrivatePmcd::with([]);
    let seat = Seat::in_dir(builder.dir(), "");
    let agent = seat.agent(Transport::Pipe);
    let pmcd = builder.agent(agent).start();
    pmcd.wait_ready("jumpseat");
    let logger =
        pmcd.record(&[METRIC, "jumpseat.event.count", "jumpseat.source"], Duration::from_millis(100));
    eventually("pmlogger's cursor", || {
        let shown = pmcd.run("pminfo", ["-f", "jumpseat.source.readers"]).stdout;
        shown.contains(&format!("or \"{SOURCE}\"] value 1")).then_some(())
    });
    seat.feed([], EVENTS).ok();
    eventually("the records in the archive", || {
        (records(&logger.archive().dump(["-z"], [METRIC]).stdout).len() >= 3).then_some(())
    });
    logger.finish()
}

fn run<'a>(program: &str, words: impl IntoIterator<Item = &'a str>) -> Output {
    let mut env = PcpEnv::new();
    env.set("PCP_DERIVED_CONFIG", "");
    env.run(program, words)
}

fn jumpseat(words: &[&str]) -> String {
    run(JUMPSEAT, words.iter().copied()).ok()
}

fn lines(text: &str) -> Vec<Json> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

#[test]
fn every_tool_reads_what_pmlogger_wrote() {
    let archive = logged();
    let base = archive.base().to_str().expect("temporary paths are ASCII").to_owned();

    // The same texts as PCP's tools, but for their names.
    for (ours, pcp, words) in [
        (["events", "-a"], "pmevent", vec![METRIC]),
        (["val", "-a"], "pmval", vec!["-s", "3", "jumpseat.source.received"]),
        (["info", "-a"], "pminfo", vec!["-dfmtT", "jumpseat"]),
        (["info", "-a"], "pminfo", vec!["-x", METRIC]),
        (["probe", "-a"], "pmprobe", vec!["-I", "jumpseat"]),
    ] {
        let told = run(pcp, ["-a", &*base].into_iter().chain(words.iter().copied()));
        let own = run(JUMPSEAT, ours.into_iter().chain([&*base]).chain(words.iter().copied()));
        assert!(!own.stdout.is_empty());
        assert_eq!((own.stdout, own.stderr), (told.stdout, told.stderr), "{pcp} {words:?}");
    }
    let shown = jumpseat(&["events", "-a", &base, METRIC]);
    for text in ["user \"ann\"", "path \"/index\"", "bytes 512"] {
        assert!(shown.contains(text), "{text} in {shown}");
    }

    // JSON.
    let samples = lines(&jumpseat(&["events", "-a", &base, "--json", METRIC]));
    let all: Vec<&Json> = samples
        .iter()
        .flat_map(|sample| sample["values"].as_array().expect("values"))
        .flat_map(|value| value["records"].as_array().expect("records"))
        .collect();
    assert_eq!(all.len(), 3, "{samples:?}");
    assert_eq!(all[1]["time"], "2026-11-19T10:19:18.500000000Z");
    let counts =
        lines(&jumpseat(&["val", "-a", &base, "-t", "0.1", "-r", "--json", "jumpseat.source.received"]));
    let last = counts.last().expect("samples");
    assert_eq!(last["values"].as_array().expect("one source")[0]["value"], 3, "{last}");
    let about = lines(&jumpseat(&["info", "-a", &base, "--json", "jumpseat.event.count"]));
    assert_eq!(about[0]["metric"], "jumpseat.event.count");
    let probed = lines(&jumpseat(&["probe", "-a", &base, "--json", METRIC]));
    assert_eq!(probed[0]["count"], 1);

    // A trace.
    let dir = temp_dir();
    let file = dir.path().join("trace.json");
    let file = file.to_str().expect("temporary paths are ASCII");
    jumpseat(&["events", "-a", &base, "--perfetto", file, METRIC]);
    let trace: Json = serde_json::from_str(&fs::read_to_string(file).expect("written")).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    let slices: Vec<&Json> = events.iter().filter(|event| event["ph"] == "X").collect();
    assert_eq!(slices.len(), 1, "{trace}");
    assert_eq!(slices[0]["dur"].as_f64(), Some(500_000.0));
    assert!(events.iter().any(|event| event["ph"] == "i"), "{trace}");

    // Recorded once more, as it is and at equal intervals.
    let again = dir.path().join("again");
    let again = again.to_str().expect("temporary paths are ASCII");
    jumpseat(&["record", "-a", &base, "-U", "-q", again, "jumpseat.event", "jumpseat.source"]);
    let checked = run("pmlogcheck", [again]);
    assert!(checked.status.success() && checked.stdout.is_empty() && checked.stderr.is_empty(), "{checked}");
    let records_of = |base: &str| {
        let shown = run("pmevent", ["-a", base, METRIC]).ok();
        shown.lines().filter(|line| line.starts_with("  ")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(records_of(again), records_of(&base));
    assert_eq!(records_of(again).iter().filter(|line| line.contains("--- event record")).count(), 3);
    let sampled = dir.path().join("sampled");
    let sampled = sampled.to_str().expect("temporary paths are ASCII");
    let twice = "twice=2 * jumpseat.source.received";
    jumpseat(&["record", "-a", &base, "-t", "0.05", "-q", sampled, "jumpseat.source.received", twice]);
    let read = run("pmval", ["-a", sampled, "-t", "0.05", "-r", "twice"]).ok();
    assert!(read.lines().any(|line| line.trim_end().ends_with(" 6")), "{read}");
    run(JUMPSEAT, ["record", "-a", "/nonexistent/a", again, "x"]).fails(1);

    // On the screen.
    let screen = jumpseat(&[
        "top",
        "-a",
        &base,
        "-t",
        "0.1",
        "--frames",
        "60",
        "--size",
        "100x20",
        METRIC,
        "jumpseat.source.received",
    ]);
    assert!(screen.contains("user=ann"), "{screen}");
    assert!(screen.contains("end"), "{screen}");
}
