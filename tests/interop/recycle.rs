//! Names that nobody uses give their places to newcomers while the agent runs, and no number is ever given twice.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::seat::{JUMPSEAT, SOURCE, Seat, Transport};
use support::{PcpEnv, PrivatePmcd, eventually, temp_dir};

/// How long names may be unused.
const AFTER: Duration = Duration::from_secs(6);
const SETTINGS: &str = "[events]\nrecycle_after = \"6s\"\n";

fn junk(names: std::ops::Range<usize>) -> String {
    let mut lines = String::new();
    for n in names {
        let _ = writeln!(lines, "{{\"source\":\"junk{n}\",\"type\":\"t{n}\",\"field{n}\":{n}}}");
    }
    lines
}

fn of(source: &str) -> String {
    format!("{{\"source\":\"{source}\",\"type\":\"t\"}}\n")
}

/// Instances of a metric as `pminfo -f` shows them: numbers by name.
fn instances(shown: &str) -> BTreeMap<String, u32> {
    let lines = shown.lines().filter_map(|line| line.trim().strip_prefix("inst ["));
    let parts = lines.filter_map(|line| line.split_once(" or \""));
    parts
        .map(|(number, name)| {
            (name.split('"').next().unwrap_or_default().to_owned(), number.parse().expect("a number"))
        })
        .collect()
}

/// Sends a line again and again until names that nobody else uses have been unused for long enough.
fn rest(busy: &mut UnixStream, line: &str) {
    let until = Instant::now() + AFTER * 3 / 2;
    while Instant::now() < until {
        busy.write_all(line.as_bytes()).expect("the agent takes it");
        std::thread::sleep(AFTER / 20);
    }
}

fn names(seat: &Seat) -> String {
    let ids = seat.state_dir().display().to_string();
    PcpEnv::new().run(JUMPSEAT, ["names", "--state-dir", &ids]).ok()
}

#[test]
fn a_newcomer_finds_a_place_among_256_sources_that_nobody_uses() {
    // Beyond pmcd's own directory, which goes with it.
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), SETTINGS);
    let pmcd = PrivatePmcd::with([]).agent(seat.agent(Transport::Pipe)).start();
    pmcd.wait_ready("jumpseat");
    let sources = || instances(&pmcd.run("pminfo", ["-f", "jumpseat.source.received"]).ok());
    let number = |metric: &str| -> u64 {
        pmcd.value(metric).and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{metric}"))
    };
    // One that is connected and says nothing, and one that sends.
    seat.wait_for_socket();
    let mut quiet = UnixStream::connect(seat.socket()).expect("the agent listens");
    quiet.write_all(b"{\"jumpseat\":{\"source\":\"quiet\"}}\n").expect("the agent takes it");
    let mut busy = UnixStream::connect(seat.socket()).expect("the agent listens");
    busy.write_all(of("busy").as_bytes()).expect("the agent takes it");
    eventually("both are known", || (sources().len() == 3).then_some(()));
    let logger =
        pmcd.record(&["jumpseat.source.received", "jumpseat.event.records"], Duration::from_millis(200));
    seat.feed([], &junk(0..300)).ok();
    seat.feed([], &of("newcomer")).ok();
    let before = sources();
    assert_eq!(before.len(), 256);
    assert!(!before.contains_key("newcomer"), "all of them are in use");
    assert!(number("jumpseat.self.sources_refused") >= 48);
    assert!(!seat.on_disk("junk0").is_empty());
    eventually("what there is to do is said", || {
        seat.log().contains("none has been unused for 6 s (events.recycle_after)").then_some(())
    });

    rest(&mut busy, &of("busy"));
    seat.feed([], &of("newcomer")).ok();
    let after = sources();
    let newcomer = after["newcomer"];
    assert!(before.values().all(|number| *number < newcomer), "{newcomer} is new");
    assert!(!after.contains_key("junk0"), "the least recently used");
    for kept in [SOURCE, "quiet", "busy"] {
        assert_eq!(after.get(kept), before.get(kept), "{kept}");
    }
    let recycled = number("jumpseat.self.recycled.sources");
    assert_eq!(recycled, 256 + 1 - after.len() as u64, "{after:?}");
    assert!((1..=4).contains(&recycled), "no more than a few at once: {recycled}");
    assert_eq!(number("jumpseat.self.recycled.types"), recycled);
    assert_eq!(number("jumpseat.self.recycled.records"), recycled, "one each, on disk");
    let told = seat.log();
    assert!(
        told.contains("names of sources are full: junk0 (id 3, unused for ")
            && told.contains("make room for newcomer"),
        "{told}"
    );
    // Who asks for it is told that it is not there, and so is who looks for its files.
    let gone = pmcd.run("pmval", ["-s", "1", "-i", "junk0", "jumpseat.source.received"]);
    assert!(gone.stderr.contains("junk0"), "{}", gone.stderr);
    assert!(seat.on_disk("newcomer").len() == 1);
    let shown = PcpEnv::new().run(JUMPSEAT, ["log", "--state-dir", &seat.state_dir().display().to_string()]);
    assert!(!shown.stdout.contains("\"junk0\""), "{}", shown.stdout);

    // It comes back as a new one, with records and counters of its own.
    seat.feed([], &of("junk0").repeat(2)).ok();
    let back = sources();
    assert!(back["junk0"] > newcomer, "{back:?}");
    let shown = pmcd.run("pminfo", ["-f", "jumpseat.source.received"]).ok();
    assert!(shown.contains("or \"junk0\"] value 2"), "{shown}");
    // A quiet connection's next event is still its source's.
    quiet.write_all(b"{\"type\":\"t\"}\n").expect("the agent takes it");
    eventually("its event", || {
        let shown = pmcd.run("pminfo", ["-f", "jumpseat.source.received"]).ok();
        shown.contains(&format!("inst [{} or \"quiet\"] value 1", before["quiet"])).then_some(())
    });
    eventually("the archive has it", || {
        let dumped = logger.archive().dump(["-i"], []).stdout;
        dumped.contains(&format!("{} or \"junk0\"", back["junk0"])).then_some(())
    });
    let archive = logger.finish();

    // In the archive, as everywhere, a number is one name's.
    let dumped = archive.dump(["-i"], []).ok();
    let mut meant: BTreeMap<u32, String> = BTreeMap::new();
    let mut of_sources = false;
    for line in dumped.lines() {
        if line.starts_with("InDom:") {
            of_sources = line.starts_with("InDom: 400.1 ") || line.trim_end() == "InDom: 400.1";
        }
        let Some((number, name)) = line.trim().split_once(" or \"") else { continue };
        if of_sources && let Ok(number) = number.trim_start_matches("inst [").trim().parse() {
            let name = name.split('"').next().unwrap_or_default().to_owned();
            let known = meant.entry(number).or_insert_with(|| name.clone());
            assert_eq!(*known, name, "{number} means two names");
        }
    }
    assert!(meant.len() > 256, "{} instances: {dumped}", meant.len());
    let twice = meant.values().filter(|name| *name == "junk0").count();
    assert_eq!(twice, 2, "two numbers for the name that came back");
    drop(pmcd);

    // The next life knows all of it. Nothing is that old, but only who has the files can retire anything.
    let ids = seat.state_dir().display().to_string();
    let retire = ["names", "retire", "--before", "90d", "--state-dir", &ids];
    eventually("the agent has gone", || {
        let retired = PcpEnv::new().run(JUMPSEAT, retire);
        (!retired.stderr.contains("uses it")).then_some(())
    });
    let endpoint = seat.serve([]);
    let again = instances(&endpoint.run("pminfo", ["-f", "jumpseat.source.received"]).ok());
    assert_eq!(again, back);
    let names = names(&seat);
    assert!(names.contains("newcomer") && names.contains("junk0") && !names.contains("junk1\""), "{names}");
}

#[test]
fn types_spans_and_fields_full_of_junk_recover_also_over_a_kill() {
    let dir = temp_dir();
    let small = format!("{SETTINGS}max_types = 40\n[spans]\nmax_names = 20\n[fields]\nmax = 60\n");
    let seat = Seat::in_dir(dir.path(), &small);
    let mut endpoint = seat.serve([]);
    let mut lines = String::new();
    for n in 0..100 {
        let _ = writeln!(lines, "{{\"type\":\"junk{n}\",\"phase\":\"start\",\"id\":{n},\"junk{n}\":1}}");
        let _ = writeln!(lines, "{{\"type\":\"junk{n}\",\"phase\":\"end\",\"id\":{n}}}");
    }
    seat.feed([], &lines).ok();
    let wanted = "{\"type\":\"checkout\",\"phase\":\"start\",\"id\":7,\"invoice\":1}\n\
                  {\"type\":\"checkout\",\"phase\":\"end\",\"id\":7}\n";
    let shown =
        |endpoint: &crate::seat::Endpoint, metric: &str| endpoint.run("pminfo", ["-f", metric]).stdout;
    let has_all = |endpoint: &crate::seat::Endpoint| {
        let name = format!("\"{SOURCE}/checkout\"");
        (
            shown(endpoint, "jumpseat.event.count").contains(&name),
            shown(endpoint, "jumpseat.span.count").contains(&name),
            shown(endpoint, "jumpseat.field.invoice").contains("jumpseat.field.invoice"),
        )
    };
    seat.feed([], wanted).ok();
    assert_eq!(has_all(&endpoint), (false, false, false));
    // It is killed, and what it has known of the times with it, but for what is on file.
    endpoint.process.crash();
    std::thread::sleep(AFTER * 3 / 2);
    let endpoint = seat.serve([]);
    seat.feed([], wanted).ok();
    assert_eq!(has_all(&endpoint), (true, true, true));
    let counts = shown(&endpoint, "jumpseat.self.recycled");
    let count = |what: &str| {
        let metric = counts.split(&format!("jumpseat.self.recycled.{what}\n")).nth(1).unwrap_or_default();
        metric.lines().next().and_then(|line| line.trim().strip_prefix("value ")?.parse::<u64>().ok())
    };
    for what in ["types", "spans", "fields"] {
        assert!(count(what) >= Some(1), "{what}: {counts}");
    }
    assert_eq!(count("sources"), Some(0), "{counts}");
    // Figures of the newcomers are their own, whatever their instances' places had before.
    let spans = shown(&endpoint, "jumpseat.span.count");
    assert!(spans.contains(&format!("\"{SOURCE}/checkout\"] value 1")), "{spans}");
    // Records on disk have the fields that have gone: their metrics are still there, under their names.
    let fields = shown(&endpoint, "jumpseat.field");
    assert!(fields.contains("jumpseat.field.junk0"), "{fields}");
    assert!(!names(&seat).contains("i64 junk0"));
}
