//! The agent under pmcd: every transport, and every tool that shows what it serves.

use crate::seat::{PMDA, SOURCE, Seat, Transport};
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::time::Duration;
use support::{
    Archive, PcpEnv, PrivatePmcd, Process, Record, eventually, free_port, has_ipv6, is_listening, records,
    temp_dir,
};

/// Two events with a field of each kind there is.
const EVENTS: &str = concat!(
    r#"{"time":"2026-11-20T10:19:17.203284222Z","type":"request","phase":"start","span_id":"a1","parent_id":"p0","#,
    r#""severity":"warn","message":"GET /","bytes":1234567890123,"delta":-5,"ratio":0.25,"path":"/index.html","#,
    r#""cached":true,"user":{"name":"ann"}}"#,
    "\n",
    r#"{"time":1795083558.5,"type":"tick"}"#,
    "\n",
);

/// The events above as a client must get them. `decimals` of the time are shown.
fn check_events(records: &[Record], decimals: usize, text: &str) {
    assert_eq!(records.len(), 2, "{text}");
    let (request, tick) = (&records[0], &records[1]);
    assert_eq!(request.time, "10:19:17.203284222"[..9 + decimals], "{text}");
    // start, with an identifier and a parent
    assert_eq!(request.flags, 0x2 | 0x8 | 0x10, "{text}");
    for (field, value) in [
        ("type", "request"),
        ("message", "GET /"),
        ("severity", "warning"),
        ("span_id", "a1"),
        ("parent_id", "p0"),
        ("bytes", "1234567890123"),
        ("delta", "-5"),
        ("ratio", "0.25"),
        ("path", "/index.html"),
        ("cached", "1"),
        // dots would make a subtree
        ("user_name", "ann"),
    ] {
        assert_eq!(request.get(&format!("jumpseat.field.{field}")), Some(value), "{field}\n{text}");
    }
    assert_eq!(tick.get("jumpseat.field.type"), Some("tick"), "{text}");
    assert_eq!(tick.flags, 0x1, "{text}");
}

fn start(transport: Transport) -> (PrivatePmcd, Seat) {
    let builder = PrivatePmcd::with([]);
    let settings = if transport == Transport::PipeNotReady { "notready = true" } else { "" };
    let seat = Seat::in_dir(builder.dir(), settings);
    let agent = seat.agent(transport);
    (builder.agent(agent).start(), seat)
}

fn works_over(transport: Transport) {
    let (pmcd, seat) = start(transport);
    pmcd.wait_ready("jumpseat");
    assert_eq!(pmcd.value("jumpseat.self.version"), Some(format!("{:?}", env!("CARGO_PKG_VERSION"))));
    seat.feed([], EVENTS).ok();
    let shown = pmcd.run("pminfo", ["-x", "jumpseat.event.recent"]).ok();
    check_events(&records(&shown), 3, &shown);
}

#[test]
fn works_over_pipes() {
    works_over(Transport::Pipe);
}

#[test]
fn works_over_pipes_when_not_ready_at_first() {
    works_over(Transport::PipeNotReady);
}

#[test]
fn works_over_a_unix_socket() {
    works_over(Transport::Unix);
}

#[test]
fn works_over_tcp() {
    works_over(Transport::Inet);
}

/// pmcd and dbpmda connect to the IPv6 address of the name `localhost`, which many machines do not have; so this
/// test is the pmcd.
#[test]
fn works_over_ipv6() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    if !has_ipv6() {
        let port = free_port().to_string();
        PcpEnv::new().run(PMDA, seat.args().iter().map(String::as_str).chain(["-6", &port])).fails(1);
        assert!(seat.log().contains("cannot talk to pmcd: "), "{}", seat.log());
        return;
    }
    let (agent, port) = start_on_free_port(&seat, dir.path());
    let mut pmcd = TcpStream::connect(("::1", port)).expect("the agent listens");
    pmcd.set_read_timeout(Some(Duration::from_secs(30))).expect("not zero");
    let creds = read_pdu(&mut pmcd);
    assert_eq!(creds[4..8], 0x700c_u32.to_be_bytes(), "{creds:x?}");
    // CREDS with version 2, then DESC_REQ for jumpseat.self.version
    let pmid = (400_u32 << 22) | 100;
    for words in [[20, 0x700c, 0, 1, 0x0102_0000].as_slice(), &[16, 0x7004, 0, pmid]] {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        pmcd.write_all(&bytes).expect("the agent reads");
    }
    let desc = read_pdu(&mut pmcd);
    assert_eq!(desc[4..8], 0x7005_u32.to_be_bytes(), "{desc:x?}");
    assert_eq!(desc[12..16], pmid.to_be_bytes(), "{desc:x?}");
    drop(agent);
}

/// Starts the agent on an IPv6 port. Another process may take the port between choosing it and using it.
fn start_on_free_port(seat: &Seat, dir: &std::path::Path) -> (Process, u16) {
    for attempt in 0..5 {
        let port = free_port();
        let mut command = PcpEnv::new().command(PMDA);
        command.args(seat.args()).args(["-6", &port.to_string()]).current_dir(dir);
        let mut agent = Process::start(&mut command, dir, &format!("agent{attempt}"));
        let listens = eventually("the agent to listen or to end", || match agent.exited() {
            Some(_) => Some(false),
            None => seat.socket().exists().then_some(true),
        });
        if listens {
            eventually("the port", || (is_listening(port) || agent.exited().is_some()).then_some(()));
        }
        if agent.exited().is_none() {
            return (agent, port);
        }
    }
    panic!("the agent does not start:\n{}", seat.log());
}

fn read_pdu(from: &mut impl Read) -> Vec<u8> {
    let mut pdu = vec![0; 12];
    from.read_exact(&mut pdu).expect("the agent answers");
    let len = u32::from_be_bytes([pdu[0], pdu[1], pdu[2], pdu[3]]);
    pdu.resize(len as usize, 0);
    from.read_exact(&mut pdu[12..]).expect("the agent answers");
    pdu
}

/// A client that reads the records of the test's source continuously.
fn reader(pmcd: &PrivatePmcd, tool: &str, metric: &str, interval: &str, name: &str) -> Process {
    let reader = pmcd.spawn(tool, ["-t", interval, metric], name);
    wait_for_readers(pmcd, 1);
    reader
}

/// Waits until so many streams are read from the test's source.
fn wait_for_readers(pmcd: &PrivatePmcd, streams: usize) {
    let expected = format!("or \"{SOURCE}\"] value {streams}\n");
    eventually("the clients' first fetches", || {
        pmcd.run("pminfo", ["-f", "jumpseat.source.readers"]).stdout.contains(&expected).then_some(())
    });
}

#[test]
fn pmval_and_pmevent_show_the_records_as_they_come() {
    for (tool, metric, decimals) in
        [("pmval", "jumpseat.event.highres_records", 9), ("pmevent", "jumpseat.event.records", 3)]
    {
        let (pmcd, seat) = start(Transport::Pipe);
        // so that the source is there when the reader begins
        seat.feed([], "{\"type\":\"before\"}\n").ok();
        let reader = reader(&pmcd, tool, metric, "0.1", "reader");
        seat.feed([], EVENTS).ok();
        eventually("both records", || (records(&reader.stdout()).len() == 2).then_some(()));
        let shown = reader.stdout();
        check_events(&records(&shown), decimals, &shown);
    }
}

#[test]
fn every_kind_of_pminfo_query_is_answered_for_every_metric() {
    let (pmcd, seat) = start(Transport::Pipe);
    seat.feed([], EVENTS).ok();
    let names = pmcd.run("pminfo", ["jumpseat"]).ok();
    assert!(names.lines().count() > 40, "{names}");
    let shown = pmcd.run("pminfo", ["-dfmMItTlx", "jumpseat"]);
    assert_eq!(shown.stderr, "", "{shown}");
    let text = shown.ok();
    for line in text.lines() {
        assert!(!line.contains("Error") && !line.contains("not available"), "{line}\n{text}");
    }
    for name in names.lines() {
        let name = name.trim();
        assert_eq!(text.matches(&format!("\n{name} PMID: 400.")).count(), 1, "{name}\n{text}");
    }
    // verified by pminfo itself: nothing to complain about but metrics without values
    let verified = pmcd.run("pminfo", ["-v", "jumpseat"]).ok();
    for line in verified.lines() {
        // Of the agent itself only what there never was one of has no age; nothing is followed, and there are no tokens here.
        let none_of = ["jumpseat.self.sampler.age:", "jumpseat.self.follow.", "jumpseat.self.tokens."];
        let may_be_without = !line.contains(".self.") || none_of.iter().any(|name| line.starts_with(name));
        assert!(line.ends_with("No value(s) available") && may_be_without, "{verified}");
    }
    for indom in ["400.1", "400.2", "400.3"] {
        let shown = pmcd.run("pminfo", ["-tT", indom]).ok();
        assert!(shown.contains(&format!("InDom: {indom}")) && shown.contains("Help:"), "{shown}");
    }
}

#[test]
fn pmprobe_shows_values_and_instances() {
    let (pmcd, seat) = start(Transport::Pipe);
    seat.feed([], EVENTS).ok();
    let shown = pmcd.run("pmprobe", ["-v", "jumpseat.source.received", "jumpseat.event.recent"]).ok();
    let lines: Vec<_> = shown.lines().collect();
    assert_eq!(lines.first(), Some(&"jumpseat.source.received 1 2"), "{shown}");
    assert!(
        lines.get(1).is_some_and(|l| l.starts_with("jumpseat.event.recent 1 [2 event records timestamps")),
        "{shown}"
    );
    let shown = pmcd.run("pmprobe", ["-I", "jumpseat.event.count"]).ok();
    assert!(shown.contains(&format!("\"{SOURCE}/request\" \"{SOURCE}/tick\"")), "{shown}");
    for line in pmcd.run("pmprobe", ["-v", "jumpseat"]).ok().lines() {
        let count = line.split(' ').nth(1).and_then(|count| count.parse::<i32>().ok());
        assert!(count.is_some_and(|count| count >= 0), "{line}");
    }
}

#[test]
fn pmstore_changes_what_may_be_changed() {
    let (pmcd, _seat) = start(Transport::Pipe);
    pmcd.run("pmstore", ["jumpseat.control.recent", "3"]).ok();
    assert_eq!(pmcd.value("jumpseat.control.recent").as_deref(), Some("3"));
    let refused = pmcd.run("pmstore", ["jumpseat.self.pid", "1"]).fails(1);
    assert!(refused.contains("No permission") || refused.contains("not permitted"), "{refused}");
    let refused = pmcd.run("pmstore", ["jumpseat.control.recent", "1000000"]).fails(1);
    assert!(refused.contains("pmStore"), "{refused}");
    assert_eq!(pmcd.value("jumpseat.control.recent").as_deref(), Some("3"));
}

#[test]
fn an_archive_holds_the_records() {
    let (pmcd, seat) = start(Transport::Pipe);
    // so that the source is there when pmlogger begins
    seat.feed([], "{\"type\":\"before\"}\n").ok();
    let metrics = ["jumpseat.event.records", "jumpseat.event.highres_records", "jumpseat.event.count"];
    let logger = pmcd.record(&metrics, Duration::from_millis(100));
    wait_for_readers(&pmcd, 2);
    seat.feed([], EVENTS).ok();
    eventually("the records in the archive", || {
        let shown = logger.archive().dump(["-z"], ["jumpseat.event.highres_records"]).stdout;
        (records(&shown).len() >= 2).then_some(())
    });
    let archive = logger.finish();
    // pmlogger saves names and descriptors of the parameters in arrays with microseconds only; those with
    // nanoseconds can be read because both are recorded
    for (metric, pmdumplog, pmval) in [("highres_records", 9, 9), ("records", 6, 3)] {
        let metric = format!("jumpseat.event.{metric}");
        let shown = archive.dump(["-z"], [metric.as_str()]).ok();
        check_events(&records(&shown), pmdumplog, &shown);
        let shown = archive.run("pmval", ["-z", &metric]).ok();
        check_events(&records(&shown), pmval, &shown);
    }
    // everything in the archive has a name and a descriptor
    let whole = archive.dump(["-a"], []).ok();
    assert!(
        !whole.contains("pmLookupDesc") && !whole.contains("???") && !whole.contains("<noname>"),
        "{whole}"
    );
}

const SENT: u64 = 60_000;

/// Checks what a client got of `SENT` numbered records: each one or its place in a missed record, in order.
/// Returns how many were missed.
fn check_flood(records: &[Record], what: &str) -> u64 {
    let (mut next, mut missed) = (0, 0);
    let mut records = records.iter();
    while let Some(record) = records.next() {
        if record.is_missed() {
            let count = match record.missed {
                // arrays with nanoseconds lose the number on their way; the next record repeats it
                Some(0) => records.next().and_then(|next| next.get("jumpseat.field.missed")?.parse().ok()),
                count => count,
            };
            let count =
                count.unwrap_or_else(|| panic!("{what}: a missed record without a number: {record:?}"));
            assert!(count > 0, "{what}");
            missed += count;
            next += count;
        } else {
            assert_eq!(record.get("jumpseat.field.n"), Some(next.to_string().as_str()), "{what}");
            next += 1;
        }
    }
    assert_eq!(next, SENT, "{what}");
    assert!(missed > 0, "{what}: no loss, the flood was too small");
    missed
}

/// Whether the last of the numbered records, or a missed record after the flood, has come.
fn flood_is_over(records: &[Record]) -> bool {
    let count = |record: &Record| match record.missed {
        Some(count) => count,
        None => record.get("jumpseat.field.missed").map_or(1, |count| count.parse().unwrap_or(0)),
    };
    records.iter().map(count).sum::<u64>() >= SENT
}

#[test]
fn a_flood_beyond_the_budget_becomes_missed_records() {
    let builder = PrivatePmcd::with([]);
    let events = "[events]\nsource_budget = \"256KiB\"\nfetch_limit = \"128KiB\"\n";
    let seat = Seat::in_dir(builder.dir(), &format!("[log]\ndir = \"memory\"\n{events}"));
    let agent = seat.agent(Transport::Pipe);
    let pmcd = builder.agent(agent).start();
    seat.feed([], "{\"type\":\"before\"}\n").ok();
    let micros = pmcd.spawn("pmval", ["-t", "1", "jumpseat.event.records"], "micros");
    let nanos = pmcd.spawn("pmval", ["-t", "0.7", "jumpseat.event.highres_records"], "nanos");
    let logger = pmcd.record(&["jumpseat.event.records"], Duration::from_millis(800));
    wait_for_readers(&pmcd, 3);
    let mut lines = String::new();
    for n in 0..SENT {
        let _ = writeln!(
            lines,
            "{{\"type\":\"flood\",\"n\":{n},\"text\":\"some text that takes a little room\"}}"
        );
    }
    seat.feed([], &lines).ok();

    for (client, what) in [(&micros, "pmval, microseconds"), (&nanos, "pmval, nanoseconds")] {
        let shown = eventually("every record, delivered or missed", || {
            let shown = client.stdout();
            // whole lines only, and the last record with the last of its fields
            let last = |record: &Record| {
                let has = |field| record.get(field).is_some();
                record.missed.is_some() || has("jumpseat.field.missed") || has("jumpseat.field.text")
            };
            let shown = records(&shown[..shown.rfind('\n')? + 1]);
            (flood_is_over(&shown) && shown.last().is_some_and(last)).then_some(shown)
        });
        check_flood(&shown, what);
    }
    let dump = |archive: &Archive| archive.dump(["-z"], ["jumpseat.event.records"]);
    eventually("every record, recorded or missed", || {
        flood_is_over(&records(&dump(logger.archive()).stdout)).then_some(())
    });

    // the accounts balance, for each client
    let account = |metric: &str| -> Vec<u64> {
        let text = pmcd.run("pminfo", ["-f", &format!("jumpseat.client.{metric}")]).ok();
        text.lines().filter_map(|line| line.split_once("] value ")?.1.parse().ok()).collect()
    };
    let (delivered, missed) = (account("delivered"), account("missed"));
    assert_eq!((delivered.len(), missed.len()), (3, 3));
    for (delivered, missed) in delivered.iter().zip(&missed) {
        assert_eq!(delivered + missed, SENT);
    }
    assert_eq!(account("received"), [SENT; 3]);
    assert_eq!(account("queued"), [0; 3]);
    let memory = pmcd.run("pmprobe", ["-v", "jumpseat.source.memory"]).ok();
    let bytes: u64 = memory.trim().rsplit(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    assert!(bytes <= 256 << 10, "{memory}");

    let archive = logger.finish();
    let recorded = check_flood(&records(&dump(&archive).ok()), "archive");
    assert!(missed.contains(&recorded), "{recorded} is none of {missed:?}");
}

/// pmcd starts the program of a socket agent each time, also when the agent of the pmcd before is there still.
#[test]
fn a_second_agent_leaves_the_first_its_log() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let socket = seat.agent_socket().display().to_string();
    let arguments: Vec<String> = seat.args().into_iter().chain(["-u".to_owned(), socket]).collect();
    let mut command = PcpEnv::new().command(PMDA);
    command.args(&arguments).current_dir(dir.path());
    let first = Process::start(&mut command, dir.path(), "first");
    eventually("the agent to listen", || seat.agent_socket().exists().then_some(()));
    let log = seat.log();
    assert!(log.starts_with("Log for pmdajumpseat on "), "{log}");
    let said = PcpEnv::new().run(PMDA, &arguments).fails(1);
    assert!(said.contains("not started: the agent that serves"), "{said}");
    assert_eq!(seat.log(), log);
    assert!(!dir.path().join("jumpseat.log.prev").exists());
    drop(first);
}
