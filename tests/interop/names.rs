//! Names and memory are for everybody: who makes names up takes neither from others.

use std::fmt::Write as _;
use std::fs;

use crate::seat::{Endpoint, JUMPSEAT, Seat};
use jumpseat::client::{Context, Fetched};
use support::{PcpEnv, temp_dir};

/// Lines of as many sources that nobody knows.
fn junk(count: usize) -> String {
    let mut lines = String::new();
    for n in 0..count {
        let _ = writeln!(lines, "{{\"source\":\"junk{n}\",\"type\":\"t\"}}");
    }
    lines
}

#[test]
fn a_configured_source_has_its_place_also_after_others_have_taken_all() {
    const FEW: &str = "[events]\nmax_sources = 16\n";
    let dir = temp_dir();
    let billing = "{\"source\":\"billing\",\"type\":\"invoice\"}\n";
    let received = |seat: &Seat| {
        let endpoint = seat.serve([]);
        seat.feed([], &junk(100)).ok();
        seat.feed([], billing).ok();
        endpoint.run("pminfo", ["-f", "jumpseat.source.received"]).ok()
    };
    // Nobody has said that it matters: those who came first have all.
    let shown = received(&Seat::in_dir(dir.path(), FEW));
    assert!(!shown.contains("\"billing\""), "{shown}");
    // The table on disk is full, and it has a place.
    let named = format!("{FEW}[[source]]\nname = \"billing\"\n");
    let shown = received(&Seat::in_dir(dir.path(), &named));
    assert!(shown.contains("\"billing\"] value 1"), "{shown}");
    // So it has if the table was empty.
    let other = temp_dir();
    let shown = received(&Seat::in_dir(other.path(), &named));
    assert!(shown.contains("\"billing\"] value 1"), "{shown}");
}

#[test]
fn sources_that_hold_little_leave_the_memory_to_those_that_send() {
    const KEPT: u64 = 4 << 20;
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let endpoint = seat.serve([]);
    seat.feed([], "{\"source\":\"busy\",\"type\":\"t\"}\n").ok();
    seat.feed([], &junk(254)).ok();
    // A client that does not read on, so that the agent keeps what it can.
    let mut client = Context::host(&endpoint.host()).expect("the endpoint takes clients");
    let records = client.pmid("jumpseat.event.records").expect("a metric of every agent");
    client.fetch(&[records], &mut Fetched::new()).expect("the endpoint answers");
    // Each of them has a record in its log now.
    seat.feed([], &junk(254)).ok();
    let line = format!("{{\"source\":\"busy\",\"type\":\"t\",\"message\":\"{}\"}}\n", "x".repeat(4000));
    seat.feed([], &line.repeat(3000)).ok();
    let shown = endpoint.run("pminfo", ["-f", "jumpseat.source.memory"]).ok();
    let memory: Vec<u64> =
        shown.lines().filter_map(|line| line.rsplit_once("value ")?.1.parse().ok()).collect();
    let busy = shown.lines().find(|line| line.contains("\"busy\"")).expect("it is known");
    let held: u64 = busy.rsplit_once("value ").expect("a value").1.parse().expect("a number");
    assert!(held > KEPT, "{held} bytes, {} sources", memory.len());
    assert!(memory.iter().sum::<u64>() <= 64 << 20, "{shown}");
}

#[test]
fn places_of_names_that_nobody_uses_come_back_and_their_numbers_do_not() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "[events]\nmax_sources = 16\n");
    let ids = seat.state_dir().display().to_string();
    let names = |args: &[&str]| {
        let place = ["--state-dir", &ids];
        PcpEnv::new().run(JUMPSEAT, ["names"].iter().chain(args).chain(&place).copied())
    };
    let sources = |endpoint: &Endpoint| endpoint.run("pminfo", ["-f", "jumpseat.source.received"]).ok();
    let keeper = "{\"source\":\"keeper\",\"type\":\"t\",\"a-b\":1}\n";
    let mut endpoint = seat.serve([]);
    seat.feed([], "{\"source\":\"first\",\"type\":\"t\",\"a.b\":1}\n").ok();
    seat.feed([], keeper).ok();
    seat.feed([], &junk(100)).ok();
    let number = endpoint.run("pminfo", ["-m", "jumpseat.field.a_b_2"]).ok();
    let refused = names(&["retire", "--before", "1d"]).fails(1);
    assert!(refused.contains(&format!("process {} uses it", endpoint.process.pid())), "{refused}");
    endpoint.process.stop();

    // All of it was long ago, but for one.
    age(&seat);
    let mut endpoint = seat.serve([]);
    seat.feed([], keeper).ok();
    endpoint.process.stop();
    let told = names(&["retire", "--before", "1d", "--dry-run"]).ok();
    assert!(told.contains("\"junk1\"") && !told.contains("keeper"), "{told}");
    assert!(names(&["--json"]).ok().contains("\"name\":\"junk1\""));
    names(&["retire", "--before", "1d"]).ok();
    assert!(!names(&[]).ok().contains("junk1"));

    let endpoint = seat.serve([]);
    seat.feed([], "{\"source\":\"billing\",\"type\":\"t\"}\n").ok();
    seat.feed([], keeper).ok();
    let shown = sources(&endpoint);
    assert!(!shown.contains("junk") && !shown.contains("\"first\""), "{shown}");
    assert!(shown.contains("inst [2 or \"keeper\"]"), "{shown}");
    let billing = shown.lines().find(|line| line.contains("\"billing\"")).expect("it has a place");
    let inst: u32 = billing.split_whitespace().nth(1).unwrap().trim_start_matches('[').parse().unwrap();
    assert!(inst > 2, "{billing}");
    assert_eq!(endpoint.run("pminfo", ["-m", "jumpseat.field.a_b_2"]).ok(), number);
}

/// Makes all names on file look as if they had last been used in 1970.
fn age(seat: &Seat) {
    let entries = fs::read_dir(seat.state_dir()).unwrap().map(|entry| entry.unwrap().path());
    for file in entries.filter(|path| path.is_file()) {
        let text = fs::read_to_string(&file).unwrap();
        let mut aged = String::new();
        for (number, line) in text.lines().enumerate() {
            let mut words = line.splitn(3, ' ');
            let (id, _, name) = (words.next().unwrap(), words.next(), words.next().unwrap_or_default());
            let _ = match number {
                0 => writeln!(aged, "{line}"),
                _ => writeln!(aged, "{id} 7 {name}"),
            };
        }
        fs::write(&file, aged).unwrap();
    }
}
