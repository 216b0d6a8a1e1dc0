//! Several clients at once, and agents and pmcds that go away and come back.

use crate::seat::{DOMAIN, PMDA, SOURCE, Seat, Transport};
use std::fmt::Write as _;
use support::{AgentSpec, PcpEnv, PrivatePmcd, Process, Record, eventually, records, whole_records};

/// Lines with numbers in a field, so that order and completeness show.
fn numbered(range: std::ops::Range<u64>) -> String {
    range.fold(String::new(), |mut lines, n| {
        let _ = writeln!(lines, "{{\"type\":\"count\",\"n\":{n}}}");
        lines
    })
}

fn numbers(records: &[Record]) -> Vec<u64> {
    let number = |record: &Record| record.get("jumpseat.field.n").and_then(|n| n.parse().ok());
    records.iter().map(|record| number(record).unwrap_or_else(|| panic!("no number: {record:?}"))).collect()
}

/// Number of streams that clients read from the test's source.
fn readers(pmcd: &PrivatePmcd) -> u64 {
    let shown = pmcd.run("pminfo", ["-f", "jumpseat.source.readers"]).stdout;
    let line = shown.lines().find(|line| line.contains(&format!("or \"{SOURCE}\"]")));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

#[test]
fn each_client_gets_each_record_exactly_once_whatever_its_interval() {
    let builder = PrivatePmcd::with([]);
    let seat = Seat::in_dir(builder.dir(), "");
    let agent = seat.agent(Transport::Pipe);
    let pmcd = builder.agent(agent).start();
    seat.feed([], "{\"type\":\"before\"}\n").ok();
    let metrics = [
        ("0.05", "jumpseat.event.highres_records"),
        ("0.13", "jumpseat.event.records"),
        ("0.7", "jumpseat.event.highres_records"),
    ];
    let start = |(index, (interval, metric)): (usize, &(&str, &str))| {
        pmcd.spawn("pmval", ["-t", interval, metric], &format!("client{index}"))
    };
    let clients: Vec<Process> = metrics.iter().enumerate().map(start).collect();
    eventually("three streams", || (readers(&pmcd) == 3).then_some(()));
    for part in 0..20 {
        seat.feed([], &numbered(part * 50..(part + 1) * 50)).ok();
        // one-shot clients come and go meanwhile
        pmcd.run("pminfo", ["-f", "jumpseat.event.records", "jumpseat.event.recent"]).ok();
    }
    let expected: Vec<u64> = (0..1000).collect();
    for client in &clients {
        let shown =
            eventually("all records", || whole_records(&client.stdout(), expected.len(), "jumpseat.field.n"));
        assert_eq!(numbers(&shown), expected, "{}", client.text());
    }
    // a client that leaves gives its stream back
    drop(clients);
    eventually("the streams to be gone", || (readers(&pmcd) == 0).then_some(()));
}

#[test]
fn a_filter_is_for_the_client_that_set_it() {
    let builder = PrivatePmcd::with([]);
    let seat = Seat::in_dir(builder.dir(), "");
    let agent = seat.agent(Transport::Pipe);
    let pmcd = builder.agent(agent).start();
    seat.feed([], "{\"type\":\"before\"}\n").ok();
    let metric = "jumpseat.event.records";
    let all = pmcd.spawn("pmval", ["-t", "0.1", metric], "all");
    let some = pmcd.spawn("pmevent", ["-t", "0.1", "-x", "severity >= error", metric], "some");
    eventually("two streams", || (readers(&pmcd) == 2).then_some(()));
    let lines = ["debug", "error", "info", "fatal"].map(|s| format!("{{\"severity\":\"{s}\"}}\n")).concat();
    seat.feed([], &lines).ok();
    eventually("all records", || (records(&all.stdout()).len() == 4).then_some(()));
    let shown =
        eventually("the filtered records", || whole_records(&some.stdout(), 2, "jumpseat.field.severity"));
    let severities: Vec<_> = shown
        .iter()
        .map(|record| record.get("jumpseat.field.severity").unwrap_or_default().to_owned())
        .collect();
    assert_eq!(severities, ["error", "critical"], "{}", some.text());
    assert!(records(&some.stdout()).iter().all(|record| !record.is_missed()), "filtered is not missed");
}

/// Instance ids, field metrics and their names, as clients see them.
fn identities(pmcd: &PrivatePmcd) -> String {
    let instances = pmcd.run("pminfo", ["-f", "jumpseat.event.count"]).ok();
    let ids = instances.lines().filter_map(|line| line.split_once("] value")).map(|(id, _)| id);
    let fields = pmcd.run("pminfo", ["-md", "jumpseat.field"]).ok();
    ids.collect::<Vec<_>>().join("\n") + &fields
}

const KINDS: &str = "{\"type\":\"b\",\"x\":1}\n{\"type\":\"a\",\"x\":\"text\",\"y\":2.5}\n{\"type\":\"c\"}\n";

fn identities_outlive(transport: Transport, disturb: impl FnOnce(&mut PrivatePmcd)) {
    let builder = PrivatePmcd::with([]);
    let seat = Seat::in_dir(builder.dir(), "");
    let agent = seat.agent(transport);
    let mut pmcd = builder.agent(agent).start();
    seat.feed([], KINDS).ok();
    let before = identities(&pmcd);
    let pid = pmcd.value("jumpseat.self.pid").expect("the agent tells its process id");
    disturb(&mut pmcd);
    eventually("another agent process", || pmcd.value("jumpseat.self.pid").filter(|now| *now != pid));
    // in another order: ids must not depend on it
    let reversed: String = KINDS.lines().rev().map(|line| format!("{line}\n")).collect();
    seat.feed([], &reversed).ok();
    assert_eq!(identities(&pmcd), before);
}

#[test]
fn identities_outlive_a_restart_of_pmcd_over_pipes() {
    identities_outlive(Transport::Pipe, |pmcd| pmcd.restart());
}

#[test]
fn identities_outlive_a_restart_of_pmcd_over_a_unix_socket() {
    identities_outlive(Transport::Unix, |pmcd| pmcd.restart());
}

#[test]
fn identities_outlive_a_crash_of_the_agent() {
    identities_outlive(Transport::Pipe, |pmcd| {
        let pid = pmcd.value("jumpseat.self.pid").expect("the agent tells its process id");
        // this very process: the agent of this test's own pmcd
        pmcd.run("kill", ["-KILL", &pid]).ok();
        // pmcd notices at the next request
        pmcd.run("pminfo", ["-f", "jumpseat.self.pid"]);
    });
}

#[test]
fn the_agent_ends_with_pmcd() {
    let builder = PrivatePmcd::with([]);
    let seat = Seat::in_dir(builder.dir(), "");
    let agent = seat.agent(Transport::Pipe);
    let mut pmcd = builder.agent(agent).start();
    let pid = pmcd.value("jumpseat.self.pid").expect("the agent tells its process id");
    pmcd.stop();
    eventually("the agent to end", || {
        (!std::path::Path::new(&format!("/proc/{pid}")).exists()).then_some(())
    });
    assert!(!seat.socket().exists(), "the ingest socket is left behind\n{}", seat.log());
}

#[test]
fn an_agent_that_pmcd_did_not_start_outlives_it() {
    let builder = PrivatePmcd::with([]);
    let seat = Seat::in_dir(builder.dir(), "");
    let socket = seat.agent_socket();
    let mut command = PcpEnv::new().command(PMDA);
    command.args(seat.args()).arg("-u").arg(&socket).current_dir(builder.dir());
    let mut agent = Process::start(&mut command, builder.dir(), "agent");
    eventually("the agent's socket", || socket.exists().then_some(()));
    let spec = AgentSpec::unix("jumpseat", DOMAIN, &socket, &[]).with_pmns(seat.pmns());
    let mut pmcd = builder.agent(spec).start();
    pmcd.wait_ready("jumpseat");
    seat.feed([], &numbered(0..10)).ok();
    let pid = Some(agent.pid().to_string());
    assert_eq!(pmcd.value("jumpseat.self.pid"), pid);
    pmcd.stop();
    seat.feed([], &numbered(10..20)).ok();
    // pmcd removes the socket of an agent it lets go of; the agent makes it again
    eventually("the agent's socket", || socket.exists().then_some(()));
    pmcd.start_again();
    pmcd.wait_ready("jumpseat");
    assert_eq!(pmcd.value("jumpseat.self.pid"), pid);
    let shown = pmcd.run("pmprobe", ["-v", "jumpseat.source.received"]).ok();
    assert_eq!(shown, "jumpseat.source.received 1 20\n", "what came while there was no pmcd counts");
    pmcd.stop();
    assert!(agent.stop().success(), "{}", agent.text());
    assert!(!seat.socket().exists() && !socket.exists(), "sockets are left behind\n{}", seat.log());
}
