//! An archive with jumpseat's own events, logged by a real pmlogger from a pmcd with jumpseat under it: all tools on
//! it, as texts that PCP's print too, as JSON, as a trace, and recorded once more.

use std::fs;
use std::time::Duration;

use crate::seat::{JUMPSEAT, SOURCE, Seat, Transport};
use crate::tools_support::Pair;
use crate::trace_file::{Event, check};
use serde_json::Value as Json;
use support::{Archive, LoggerRun, Output, PcpEnv, PrivatePmcd, eventually, records, temp_dir};

const EVENTS: &str = concat!(
    r#"{"type":"request","phase":"start","span_id":"a1","path":"/index","time":1795083558.25}"#,
    "\n",
    r#"{"type":"login","user":"ann","time":1795083558.5}"#,
    "\n",
    r#"{"jumpseat":{"missed":5,"time":"2026-11-19T10:19:18.625Z"}}"#,
    "\n",
    r#"{"type":"request","phase":"end","span_id":"a1","bytes":512,"time":1795083558.75}"#,
    "\n",
);
/// pmlogger records it with an identifier of domain 511 and the instances of domain 400.
const TWICE: &str = "mine.twice = 2 * jumpseat.source.received";
const METRIC: &str = "jumpseat.event.records";

/// An archive with no times that libpcp prints as `02.1000`.
fn logged() -> Archive {
    let decent = |archive: &Archive| {
        let dumped = archive.dump(["-a", "-z"], []).ok();
        let fraction = |word: &str| -> Option<u32> {
            let (_, digits) = word.rsplit_once(':')?.1.split_once('.')?;
            digits.get(..6)?.parse().ok()
        };
        dumped.split_whitespace().filter_map(fraction).all(|micros| micros % 100_000 < 99_400)
    };
    (0..20).map(|_| log()).find(decent).expect("few times are such")
}

/// An archive of that pmlogger's, without a pmcd.
fn log() -> Archive {
    let builder = PrivatePmcd::with([]);
    let seat = Seat::in_dir(builder.dir(), "");
    let agent = seat.agent(Transport::Pipe);
    let pmcd = builder.agent(agent).start();
    pmcd.wait_ready("jumpseat");
    // A source is there with its first event, and records come from a client's first fetch on.
    seat.feed([], "{\"type\":\"before\"}\n").ok();
    let definitions = pmcd.dir().join("derived");
    fs::write(&definitions, format!("{TWICE}\n")).expect("the test's directory is writable");
    let mut env = pmcd.env().clone();
    env.set("PCP_DERIVED_CONFIG", &definitions);
    let metrics = [METRIC, "jumpseat.event.count", "jumpseat.source", "mine.twice"];
    let logger = LoggerRun::start(&env, &pmcd.inet(), &metrics, Duration::from_millis(100));
    eventually("pmlogger's cursor", || {
        let shown = pmcd.run("pminfo", ["-f", "jumpseat.source.readers"]).stdout;
        shown.contains(&format!("or \"{SOURCE}\"] value 1")).then_some(())
    });
    seat.feed([], EVENTS).ok();
    let all = || {
        let dumped = logger.archive().dump(["-z"], [METRIC]).stdout;
        let samples = dumped.lines().filter(|line| line.ends_with(" metric")).count();
        (records(&dumped).len() >= 4 && samples > 10).then_some(())
    };
    eventually("the records in the archive, and some samples", all);
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

/// The archive, and PCP's tools and ours on it.
fn compare(lines: &[(&str, &str)]) {
    let archive = logged();
    let base = archive.base().display();
    let mut pair = Pair::of_archives(PrivatePmcd::with([]).start());
    for (tool, words) in lines {
        pair.compare(tool, &format!("-a {base} {words}"));
    }
    assert_eq!(pair.finish(), lines.len());
}

#[test]
fn texts_are_those_of_pcp() {
    compare(&[
        ("pmevent", METRIC),
        ("pmevent", "-z -X jumpseat.event.records"),
        ("pmval", METRIC),
        ("pmval", "-r -t 0.1 jumpseat.source.received"),
        ("pmval", "-r -t 0.1 jumpseat.event.count"),
        ("pmval", "-s 3 jumpseat.source.state"),
        ("pminfo", "-dfmtT jumpseat"),
        ("pminfo", "-x -O 0.3 jumpseat.event.records"),
        ("pmprobe", "-I jumpseat"),
        ("pmprobe", "-v -O -0 jumpseat"),
    ]);
}

#[test]
fn records_as_text_as_json_and_as_a_trace() {
    let archive = logged();
    let base = archive.base().to_str().expect("temporary paths are ASCII");
    let shown = records(&jumpseat(&["events", "-a", base, METRIC]));
    assert_eq!(shown.len(), 4, "{shown:?}");
    assert_eq!(shown[0].get("jumpseat.field.path"), Some("/index"));
    assert_eq!(shown[1].get("jumpseat.field.user"), Some("ann"));
    assert_eq!(shown[2].missed, Some(5));
    assert_eq!(shown[3].get("jumpseat.field.bytes"), Some("512"));

    let all = lines(&jumpseat(&["events", "-a", base, "--json", METRIC]));
    assert_eq!(all.len(), 4, "{all:?}");
    assert_eq!(all[1]["time"], "2026-11-19T10:19:18.500000000Z");
    assert_eq!(all[2]["jumpseat"]["missed"], 5);
    let counts = lines(&jumpseat(&["val", "-U", base, "-r", "--json", "jumpseat.source.received"]));
    let last = counts.last().expect("samples");
    assert_eq!(
        last["values"].as_array().expect("one source")[0]["value"],
        9,
        "events and what was missed: {last}"
    );

    let dir = temp_dir();
    let file = dir.path().join("trace.pftrace");
    let file = file.to_str().expect("temporary paths are ASCII");
    jumpseat(&["events", "-a", base, "--perfetto", file, METRIC]);
    let trace = check(&fs::read(file).expect("written"));
    let length = |slice: &Event| slice.end.expect("checked") - slice.start;
    let request = trace.slice("request");
    assert_eq!(length(request), 500_000_000);
    assert_eq!((&request.args["path"], &request.args["bytes"]), (&"/index".into(), &512.into()));
    let gap = trace.slices.iter().find(|slice| slice.args["missed"] == 5).expect("what was missed");
    assert_eq!(length(gap), 125_000_000, "from the record before on: {gap:?}");
    assert_eq!(trace.slices.len(), 2, "{trace:?}");
    let [login] = &trace.instants[..] else { panic!("one instant: {trace:?}") };
    assert_eq!((login.name.as_str(), &login.args["user"]), ("login", &"ann".into()));
}

#[test]
fn recorded_once_more() {
    let archive = logged();
    let base = archive.base().to_str().expect("temporary paths are ASCII");
    let dir = temp_dir();
    let copy = |name: &str| dir.path().join(name).to_str().expect("temporary paths are ASCII").to_owned();
    // Of a derived metric with instances pmlogcheck says that its domain is another.
    let checked = |base: &str| {
        let checked = run("pmlogcheck", [base]);
        assert!(checked.status.success() && checked.stdout.is_empty(), "{checked}");
        let told = checked.stderr.replace(base, "ARCHIVE");
        let (before, after) = told.split_once('[').unwrap_or((&told, ""));
        format!("{before}{}", after.split_once(']').unwrap_or_default().1)
    };
    let told = checked(base);
    assert_eq!(told.lines().count(), 1, "{told}");

    // As it is: the same records at the same times.
    let again = copy("again");
    jumpseat(&["record", "-a", base, "-U", "-q", &again, "jumpseat.event", "jumpseat.source", "mine"]);
    assert_eq!(checked(&again), told);
    let source = ["jumpseat.event.count", "jumpseat.source.received", "jumpseat.source.state"];
    let described = run("pminfo", ["-a", base, "-dmtT"].into_iter().chain(source)).ok();
    assert_eq!(run("pminfo", ["-a", &again, "-dmtT"].into_iter().chain(source)).ok(), described);
    // The archives differ in where they start and end: pmlogger's first and last records are about itself.
    let is_shared = |line: &&str| {
        !["archive:", "start:", "end:", "samples:"].iter().any(|word| line.starts_with(word))
            && !line.contains("No values available")
    };
    let raw = source.map(|metric| ("pmval", ["-z", "-r"].as_slice(), metric));
    for (tool, options, metric) in raw.into_iter().chain([("pmevent", ["-z"].as_slice(), METRIC)]) {
        let shown = |base: &str| {
            let shown = run(tool, options.iter().copied().chain(["-U", base, metric])).ok();
            shown.lines().filter(is_shared).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(shown(&again), shown(base), "{metric}");
        assert!(shown(base).lines().count() > 10, "{}", shown(base));
    }
    assert_eq!(records(&run("pmevent", ["-a", &again, METRIC]).ok()).len(), 4);

    // At equal intervals: interpolated values, and a derived metric of them.
    let sampled = copy("sampled");
    let metric = "jumpseat.source.received";
    jumpseat(&["record", "-a", base, "-t", "0.05", "-q", &sampled, metric, TWICE]);
    assert_eq!(checked(&sampled), told);
    let values = |base: &str, metric: &str| -> Vec<String> {
        let shown = run("pmval", ["-z", "-a", base, "-t", "0.05", "-r", metric]).ok();
        let value = |line: &str| line.split_whitespace().nth(1).map(str::to_owned);
        shown.lines().skip_while(|line| !line.contains(SOURCE)).skip(1).filter_map(value).collect()
    };
    let (copied, doubled) = (values(&sampled, metric), values(&sampled, "mine.twice"));
    let original = values(base, metric);
    assert_eq!(copied[..], original[..copied.len()]);
    assert!(original.len() - copied.len() <= 1, "{} of {}", copied.len(), original.len());
    // Past the metric's last record there is no value.
    let last = |values: &[String]| values.iter().rfind(|value| *value != "No").cloned();
    assert_eq!((last(&copied), last(&doubled)), (Some("9".to_owned()), Some("18".to_owned())));
    run(JUMPSEAT, ["record", "-a", "/nonexistent/a", &again, "x"]).fails(1);
}
