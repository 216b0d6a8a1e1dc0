//! The examples as a user runs them: as programs, against a real pmcd and the real agent.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use support::{
    AgentSpec, PcpEnv, PmnsSource, PrivatePmcd, Process, eventually, example, repository, temp_dir, user,
};

use crate::seat::{JUMPSEAT, Seat, Transport};

/// All of them; each has a test below.
const EXAMPLES: [&str; 6] = ["archive", "embedded", "events", "fetch_group", "pmda", "traced"];

#[test]
fn every_example_has_a_test() {
    let files = fs::read_dir(repository().join("examples")).expect("the examples");
    let names = files.map(|file| file.expect("an entry").path().file_stem().map(|stem| stem.to_owned()));
    let there: BTreeSet<_> = names.flatten().filter_map(|name| name.into_string().ok()).collect();
    assert_eq!(there, EXAMPLES.map(str::to_owned).into());
}

fn program(name: &str) -> String {
    example("jumpseat", name).display().to_string()
}

fn start(env: &PcpEnv, dir: &Path, name: &str, args: &[&str]) -> Process {
    let mut command: Command = env.command(program(name));
    command.args(args);
    Process::start(&mut command, dir, name)
}

#[test]
fn archive_shows_values_and_records_to_the_end() {
    let builder = PrivatePmcd::with([AgentSpec::sample()]);
    let seat = Seat::in_dir(builder.dir(), "");
    let agent = seat.agent(Transport::Pipe);
    let pmcd = builder.agent(agent).start();
    pmcd.wait_ready("jumpseat");
    let dir = temp_dir();
    let base = dir.path().join("today").display().to_string();
    let host = pmcd.inet();
    let record = |more: &[&str]| {
        let mut words = vec!["record", "-h", &host, "-t", "50msec", "-s", "3"];
        words.extend(more);
        words.extend([&base, "jumpseat.event.records", "sample.milliseconds", "sample.colour"]);
        pmcd.run(JUMPSEAT, words).ok();
    };
    record(&[]);
    seat.feed(["--source", "shop"], "{\"message\":\"one book\",\"price\":12.5}\n").ok();
    record(&["--append"]);

    let metrics = ["sample.milliseconds", "sample.colour", "jumpseat.event.records"];
    let args = [[base.as_str()].as_slice(), &metrics].concat();
    let shown = PcpEnv::new().run(&program("archive"), args).ok();
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].contains(", from 2") && lines[0].contains("Z to 2"), "{shown}");
    let of = |word: &str| lines.iter().filter(|line| line.contains(word)).count();
    assert_eq!(of(" sample.milliseconds"), 6, "{shown}");
    assert!(
        lines[1].ends_with("sample.milliseconds: Try again. Information not currently available"),
        "{shown}"
    );
    assert_eq!(of(" sample.colour[red] "), 6, "{shown}");
    let record = lines.iter().find(|line| line.contains(" shop ")).expect("the record");
    assert!(record.contains("jumpseat.field.message=one book jumpseat.field.price=12.5"), "{record}");

    // What cannot be read is told, and is not the end.
    let volume = format!("{base}.0");
    let mut bytes = fs::read(&volume).expect("the archive");
    bytes.truncate(bytes.len() - 5);
    fs::write(&volume, bytes).expect("writable");
    let told = PcpEnv::new().run(&program("archive"), [base.as_str(), "sample.colour"]).fails(1);
    assert!(told.contains("truncated") || told.contains("Record"), "{told}");
}

#[test]
fn fetch_group_shows_rates() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let args = [&pmcd.inet(), "sample.milliseconds", "second / second", "sample.colour", ""];
    let shown = pmcd.run(program("fetch_group").as_ref(), args).ok();
    assert_eq!(shown.matches("---").count(), 5, "{shown}");
    assert_eq!(shown.matches("sample.colour[green] ").count(), 5, "{shown}");
    let again = "sample.milliseconds -- Try again. Information not currently available";
    assert_eq!(shown.matches(again).count(), 1, "{shown}");
    // Of a clock: about a second a second.
    let rates =
        shown.lines().filter_map(|line| line.strip_prefix("sample.milliseconds ")?.parse::<f64>().ok());
    let rates: Vec<f64> = rates.collect();
    assert!(rates.len() == 4 && rates.iter().all(|rate| (0.5..2.0).contains(rate)), "{shown}");
}

#[test]
fn events_shows_what_comes() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let endpoint = seat.serve([]);
    let args = [&endpoint.host(), "jumpseat.event.highres_records", "2"];
    let mut process = start(&PcpEnv::new(), dir.path(), "events", &args);
    eventually("the example to wait", || process.text().contains("waiting for").then_some(()));
    let lines = "{\"type\":\"pay\",\"phase\":\"start\",\"span_id\":\"7\",\"message\":\"a card\"}\n\
                 {\"type\":\"pay\",\"phase\":\"end\",\"span_id\":\"7\",\"euros\":3}\n";
    seat.feed(["--source", "shop"], lines).ok();
    assert!(process.wait().success(), "{}", process.text());
    let shown = process.stdout();
    assert!(shown.contains(" + shop: a card span_id=7 type=pay"), "{shown}");
    assert!(shown.contains(" - shop:  span_id=7 type=pay euros=3"), "{shown}");
}

/// The name space as the example's own text has it.
fn names_of_the_example() -> PmnsSource {
    let source = fs::read_to_string(repository().join("examples/pmda.rs")).expect("the example");
    let names = source.split_once("const PMNS: &str = \"").and_then(|(_, rest)| rest.split_once("\";"));
    PmnsSource::new("doors", "DOORS", names.expect("its name space").0)
}

#[test]
fn pmda_has_instances_labels_stores_and_events() {
    let builder = PrivatePmcd::with([]);
    let log = builder.dir().join("doors.log").display().to_string();
    let argv = [&program("pmda"), "-d", "452", "-U", &user(), "-l", &log];
    let agent = AgentSpec::pipe("doors", 452, &argv).with_pmns(names_of_the_example());
    let pmcd = builder.agent(agent).start();
    pmcd.wait_ready("doors");
    let open = |door: &str| pmcd.run("pmstore", ["doors.control.open", door]);
    let none = pmcd.run("pminfo", ["-f", "doors.opened"]).ok();
    assert!(none.contains("No value(s) available"), "{none}");
    open("cellar").ok();
    open("attic").ok();

    let watching = pmcd.spawn("pmevent", ["-t", "0.2", "doors.event.records"], "pmevent");
    eventually("pmevent to have a place", || watching.stdout().contains("samples").then_some(()));
    open("cellar").ok();
    pmcd.run("pmstore", ["-i", "cellar", "doors.locked", "1"]).ok();
    let refused = open("cellar");
    assert!(!refused.status.success() && refused.stdout.contains("No permission"), "{refused}");
    let odd = pmcd.run("pmstore", ["-i", "attic", "doors.locked", "2"]);
    assert!(odd.stdout.contains("Bad input"), "{odd}");

    let seen = eventually("three records", || {
        let text = watching.stdout();
        (text.matches("doors.event.action").count() >= 3).then_some(text)
    });
    for action in ["opened", "locked", "refused"] {
        assert!(seen.contains(&format!("doors.event.action \"{action}\"")), "{seen}");
    }
    assert!(!seen.contains("attic"), "what was before it came: {seen}");
    let values = pmcd.run("pminfo", ["-f", "doors"]).ok();
    assert!(values.contains("or \"cellar\"] value 2"), "{values}");
    assert!(values.contains("or \"attic\"] value 1"), "{values}");
    let labels = pmcd.run("pminfo", ["-l", "doors.opened"]).ok();
    assert!(labels.contains("\"agent\":\"doors\"") && labels.contains("\"door\":\"attic\""), "{labels}");
}

#[test]
fn embedded_answers_others_while_it_works() {
    let dir = temp_dir();
    let mut process = start(&PcpEnv::new(), dir.path(), "embedded", &["127.0.0.1:0", "3"]);
    let line = eventually("its first line", || {
        let text = process.stdout();
        text.split_once('\n').map(|(line, _)| line.to_owned())
    });
    let words: Vec<&str> = line.split(' ').collect();
    let told = PcpEnv::new().run(words[0], &words[1..]).ok();
    assert!(
        told.contains("\nworker.jobs\n    value ") && told.contains("\nworker.busy\n    value "),
        "{told}"
    );
    assert!(process.wait().success(), "{}", process.text());
    let shown = process.stdout();
    assert!(shown.contains("no rate yet: Try again."), "{shown}");
    assert!(shown.lines().filter(|line| line.contains(" jobs a second, ")).count() >= 2, "{shown}");
}

#[test]
fn traced_sends_its_spans() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let endpoint = seat.serve([]);
    seat.wait_for_socket();
    let socket = seat.socket().display().to_string();
    PcpEnv::new().run(&program("traced"), [socket.as_str()]).ok();
    eventually("its spans", || {
        let text = PcpEnv::new().run(JUMPSEAT, ["info", "-h", &endpoint.host(), "-f", "jumpseat.span.count"]);
        (text.stdout.contains("traced/order\"] value 10") && text.stdout.contains("traced/pay\"] value 10"))
            .then_some(())
    });
}
