//! Order and time under a real pmcd: the order window, and times that cannot be.

use crate::seat::{Seat, Transport};
use nix::time::{ClockId, clock_gettime};
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::time::{SystemTime, UNIX_EPOCH};
use support::{PrivatePmcd, Record, eventually, records};

fn start(settings: &str) -> (PrivatePmcd, Seat) {
    let builder = PrivatePmcd::with([]);
    let seat = Seat::in_dir(builder.dir(), &format!("[events]\nrecent = 1000\n{settings}"));
    let agent = seat.agent(Transport::Pipe);
    let pmcd = builder.agent(agent).start();
    pmcd.wait_ready("jumpseat");
    (pmcd, seat)
}

fn recent(pmcd: &PrivatePmcd, source: &str) -> Vec<Record> {
    let text = pmcd.run("pminfo", ["-x", "jumpseat.event.recent"]).ok();
    // One instance after the other; the first line of each has its name.
    let wanted = format!("or \"{source}\"]");
    let mut parts = text.split("    inst [");
    records(parts.find(|part| part.contains(&wanted)).unwrap_or_default())
}

fn numbers(records: &[Record]) -> Vec<u32> {
    records.iter().filter_map(|record| record.get("jumpseat.field.n")?.parse().ok()).collect()
}

/// A value of one source, as pminfo shows it.
fn count(pmcd: &PrivatePmcd, name: &str, source: &str) -> u64 {
    let text = pmcd.run("pminfo", ["-f", &format!("jumpseat.source.{name}")]).ok();
    let wanted = format!("or \"{source}\"] value ");
    let value = text.lines().find_map(|line| line.split_once(&wanted)).map(|(_, value)| value.trim());
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{source}: {text}"))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// Numbered events whose times are not in the order in which they come, all within the first half of a second.
fn shuffled(number: u32, second: u64) -> String {
    (0..number).fold(String::new(), |mut text, n| {
        // 7 and any of these numbers have no common factor.
        let n = n * 7 % number;
        writeln!(text, r#"{{"n":{n},"time":{second}.{:03}}}"#, n * 500 / number).expect("a text takes all");
        text
    })
}

#[test]
fn records_leave_in_the_order_of_their_times_within_the_window() {
    let (pmcd, seat) = start("[[source]]\nname = 'ordered*'\norder_window = '2s'");
    for (source, framing) in [("ordered", &[][..]), ("ordered-bin", &["--binary"]), ("as-they-come", &[])] {
        let options = ["--source", source].into_iter().chain(framing.iter().copied());
        seat.feed(options, &shuffled(100, now())).ok();
        // Without anything that follows: the window alone lets go of them.
        let got = eventually("all records", || {
            let got = numbers(&recent(&pmcd, source));
            (got.len() == 100).then_some(got)
        });
        assert_eq!(got.is_sorted(), source != "as-they-come", "{source}: {got:?}");
        assert_eq!((count(&pmcd, "received", source), count(&pmcd, "late", source)), (100, 0));
    }
    // Switched off by pmstore, what is held leaves at once, and nothing waits any more.
    pmcd.run("pmstore", ["-i", "ordered", "jumpseat.control.source.order_window", "0"]).ok();
    seat.feed(["--source", "ordered"], &shuffled(10, now())).ok();
    assert_eq!(numbers(&recent(&pmcd, "ordered"))[100..], [0, 7, 4, 1, 8, 5, 2, 9, 6, 3]);
}

#[test]
fn a_senders_loss_lets_go_of_what_waits() {
    let (pmcd, seat) = start("[[source]]\norder_window = '1min'");
    let hello = "{\"jumpseat\":{\"source\":\"app\"}}\n".to_owned();
    let text = hello + &shuffled(10, now()) + "{\"jumpseat\":{\"missed\":5}}\n" + &shuffled(10, now() + 2);
    seat.wait_for_socket();
    let mut sender = UnixStream::connect(seat.socket()).expect("the agent listens");
    sender.write_all(text.as_bytes()).expect("the agent reads");
    // The loss lets go of what came before it; the rest waits for its minute, or for somebody to end that.
    eventually("the first ten", || (numbers(&recent(&pmcd, "app")).len() == 10).then_some(()));
    pmcd.run("pmstore", ["-i", "app", "jumpseat.control.source.order_window", "0"]).ok();
    let all = eventually("the others", || {
        let all = recent(&pmcd, "app");
        (numbers(&all).len() == 20).then_some(all)
    });
    assert!(numbers(&all)[..10].is_sorted() && numbers(&all)[10..].is_sorted(), "{all:?}");
    assert_eq!((count(&pmcd, "missed", "app"), count(&pmcd, "received", "app")), (5, 25));
}

#[test]
fn times_that_cannot_be_are_counted_and_flagged_where_asked() {
    let (pmcd, seat) = start("[[source]]\nname = 'flagged'\nflag_clock = true");
    let now = now();
    let text = format!(
        "{{\"n\":0,\"time\":{}}}\n{{\"n\":1,\"time\":{now}}}\n{{\"n\":2,\"time\":{}}}\n",
        now - 2 * 86_400,
        now + 600
    );
    for source in ["flagged", "plain"] {
        seat.feed(["--source", source], &text).ok();
        assert_eq!((count(&pmcd, "past", source), count(&pmcd, "future", source)), (1, 1));
        let records = recent(&pmcd, source);
        let words: Vec<&str> =
            records.iter().map(|r| r.get("jumpseat.field.clock_suspect").unwrap_or_default()).collect();
        assert_eq!(words, if source == "flagged" { ["past", "", "future"] } else { ["", "", ""] });
    }
}

/// A clock's time as a number: of seconds, or of nanoseconds.
fn of(clock: ClockId, seconds: bool) -> String {
    let time = clock_gettime(clock).expect("there is this clock");
    if seconds {
        return format!("{}.{:09}", time.tv_sec(), time.tv_nsec());
    }
    format!("{}{:09}", time.tv_sec(), time.tv_nsec())
}

#[test]
fn monotonic_times_of_senders_become_real_times_in_order() {
    let (pmcd, seat) = start("[[source]]\nflag_clock = true\norder_window = '100ms'");
    let (mono, boot) = (ClockId::CLOCK_MONOTONIC, ClockId::CLOCK_BOOTTIME);
    for (source, clock, options) in [
        ("mono", mono, &["--clock", "monotonic"][..]),
        ("boot", boot, &["--clock", "boottime"]),
        ("mono-bin", mono, &["--clock", "monotonic", "--binary"]),
        ("by-line", mono, &[]),
    ] {
        let mut text = String::new();
        if options.is_empty() {
            text.push_str("{\"jumpseat\":{\"clock\":\"monotonic\"}}\n");
        }
        let times: Vec<String> = (0..10).map(|n| of(clock, n % 2 == 0)).collect();
        // The latest first: it is put in order, so these times are compared with each other.
        for (n, time) in times.iter().enumerate().rev() {
            writeln!(text, "{{\"n\":{n},\"time\":{time}}}").expect("a text takes all");
        }
        let options = ["--source", source].into_iter().chain(options.iter().copied());
        seat.feed(options, &text).ok();
        let records = eventually("all records", || {
            let records = recent(&pmcd, source);
            (records.len() == 10).then_some(records)
        });
        assert_eq!(numbers(&records), Vec::from_iter(0..10), "{source}: {records:?}");
        // Neither of 1970 nor of the future, as real times.
        assert_eq!((count(&pmcd, "past", source), count(&pmcd, "future", source)), (0, 0), "{source}");
    }
    // Unconverted they are suspect.
    seat.feed(["--source", "plain"], &format!("{{\"time\":{}}}", of(mono, true))).ok();
    assert_eq!(count(&pmcd, "past", "plain"), 1);
    let refused = seat.feed(["--clock", "sundial"], "");
    assert!(refused.stderr.contains("realtime, monotonic, boottime"), "{refused:?}");
}

#[test]
fn a_socket_has_a_clock_for_its_lines() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("mono.socket");
    let socket = format!("[[socket]]\npath = '{}'\nsource = 'mono'\nclock = 'monotonic'", path.display());
    let (pmcd, _seat) = start(&socket);
    let mut sender = eventually("the socket", || UnixStream::connect(&path).ok());
    let text = format!("{{\"n\":1,\"time\":{}}}\n", of(ClockId::CLOCK_MONOTONIC, false));
    sender.write_all(text.as_bytes()).expect("the agent reads");
    eventually("the record", || (recent(&pmcd, "mono").len() == 1).then_some(()));
    assert_eq!((count(&pmcd, "past", "mono"), count(&pmcd, "future", "mono")), (0, 0));
}
