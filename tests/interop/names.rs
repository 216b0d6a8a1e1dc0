//! Names and memory are for everybody: who makes names up takes neither from others.

use std::fmt::Write as _;

use crate::seat::Seat;
use jumpseat::client::{Context, Fetched};
use support::temp_dir;

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
