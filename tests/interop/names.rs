//! Names and memory are for everybody: who makes names up takes neither from others.

use std::fmt::Write as _;

use crate::seat::Seat;
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
