//! The harness itself, tried on PCP's own agents: what the other interop tests stand on.

use std::time::Duration;
use support::{
    AgentSpec, Dbpmda, PrivatePmcd, Record, SAMPLE_PMDA, eventually, free_port, records, temp_dir, user,
};

#[test]
fn a_private_pmcd_answers_over_both_transports() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample(), AgentSpec::sample_as("second", 30)]).start();
    let expected = "\nsample.long.one\n    value 1\n";
    assert_eq!(pmcd.run("pminfo", ["-f", "sample.long.one"]).ok(), expected);
    assert_eq!(pmcd.run("pminfo", ["-h", &pmcd.inet(), "-f", "sample.long.one"]).ok(), expected);
    assert_eq!(pmcd.run("pminfo", ["-h", &pmcd.unix(), "-f", "sample.long.one"]).ok(), expected);
    assert_eq!(pmcd.value("pmcd.pid"), Some(pmcd.pid().to_string()));
    assert_eq!(pmcd.agent_status("second"), Some(0));
    assert_eq!(pmcd.agent_status("nobody"), None);
    let missing = pmcd.run("pminfo", ["-f", "no.such.metric"]).fails(1);
    assert!(missing.contains("Unknown metric name"), "{missing}");
}

#[test]
fn two_pmcds_are_two_worlds() {
    let one = PrivatePmcd::with([AgentSpec::sample()]).start();
    let two = PrivatePmcd::with([AgentSpec::sample()]).start();
    one.run("pmstore", ["sample.write_me", "41"]).ok();
    two.run("pmstore", ["sample.write_me", "42"]).ok();
    assert_eq!(one.value("sample.write_me").as_deref(), Some("41"));
    assert_eq!(two.value("sample.write_me").as_deref(), Some("42"));
}

#[test]
fn restart_keeps_the_address_and_starts_agents_anew() {
    let mut pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    pmcd.run("pmstore", ["sample.write_me", "41"]).ok();
    let (port, pid) = (pmcd.port(), pmcd.pid());
    pmcd.restart();
    assert_eq!(pmcd.port(), port);
    assert_ne!(pmcd.pid(), pid);
    assert_eq!(pmcd.value("sample.write_me").as_deref(), Some("2"));
}

#[test]
fn reconfiguration_adds_an_agent() {
    let mut pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    assert_eq!(pmcd.agent_status("second"), None);
    pmcd.set_agent(AgentSpec::sample_as("second", 30));
    pmcd.reconfigure();
    pmcd.wait_ready("second");
}

#[test]
fn access_rules_hold() {
    // everybody over IPv4; an additional `local:` would cover loopback as well as the Unix socket
    let rules = "disallow \".*\" : store;";
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).access(rules).start();
    pmcd.run("pmstore", ["sample.write_me", "7"]).ok();
    let refused = pmcd.run("pmstore", ["-h", &pmcd.inet(), "sample.write_me", "8"]).fails(1);
    assert!(refused.contains("No permission"), "{refused}");
}

#[test]
fn unix_and_inet_agents_of_pcp_connect() {
    let builder = PrivatePmcd::with([]);
    let path = builder.dir().join("agent.socket");
    let (port, me) = (free_port(), user());
    let common =
        |domain, way, address| [SAMPLE_PMDA, "-d", domain, "-U", &me, way, address, "-l", "sample.log"];
    let pmcd = builder
        .agent(
            AgentSpec::unix("sample", 29, &path, &common("29", "-u", &path.display().to_string()))
                .with_pmns(AgentSpec::sample_pmns("sample")),
        )
        .agent(
            AgentSpec::inet("second", 30, port, &common("30", "-i", &port.to_string()))
                .with_pmns(AgentSpec::sample_pmns("second")),
        )
        .start();
    assert_eq!(pmcd.value("sample.long.ten").as_deref(), Some("10"));
    assert_eq!(pmcd.value("second.long.ten").as_deref(), Some("10"));
}

#[test]
fn dbpmda_answers_are_told_apart() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let log = pmcd.dir().join("db.log").display().to_string();
    let transcript = Dbpmda::pipe(pmcd.env(), &[SAMPLE_PMDA, "-d", "29", "-U", &user(), "-l", &log])
        .command("desc sample.bin")
        .command("instance 29.1")
        .command("store sample.long.one \"1\"")
        .run();
    assert!(transcript.answer("desc sample.bin").contains("PMID: 29.0.6"), "{}", transcript.whole);
    assert!(transcript.answer("instance 29.1").contains("name: \"green\""), "{}", transcript.whole);
    assert!(
        transcript.whole.contains("No permission to perform requested operation"),
        "{}",
        transcript.whole
    );
}

#[test]
fn an_archive_is_recorded_and_read_back() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let logger = pmcd.record(&["sample.long.ten", "sample.bin"], Duration::from_millis(100));
    eventually("three records in the archive", || {
        let dump = logger.archive().dump(["-z"], ["sample.long.ten"]);
        (dump.stdout.matches("(sample.long.ten)").count() >= 3).then_some(())
    });
    let archive = logger.finish();
    let dump = archive.dump(["-z"], ["sample.long.ten"]).ok();
    assert!(dump.contains("value 10"), "{dump}");
    let values = archive.run("pminfo", ["-f", "sample.bin"]).ok();
    assert!(values.contains("or \"bin-100\"] value 100"), "{values}");
}

#[test]
fn nothing_is_left_behind() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let (dir, pid) = (pmcd.dir().to_owned(), pmcd.pid());
    drop(pmcd);
    assert!(!dir.exists());
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    let dir = temp_dir();
    let path = dir.path().to_owned();
    drop(dir);
    assert!(!path.exists());
}

#[test]
fn records_are_read_from_every_tool() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    // the sample agent makes up these records at each fetch, in a cycle of four
    let of_bogus = |records: Vec<Record>| -> Vec<Record> {
        records.into_iter().filter(|record| record.instance == "bogus" && record.params.len() == 1).collect()
    };
    let check = |text: &str, digits: usize, count: u64| {
        let records = records(text);
        let missed = records.iter().find(|record| record.is_missed()).unwrap_or_else(|| panic!("{text}"));
        assert_eq!((missed.instance.as_str(), missed.flags), ("fungus", 0x8000_0000), "{text}");
        assert_eq!(missed.missed, Some(count), "{text}");
        let start = records.iter().find(|record| record.flags == 0x1a).unwrap_or_else(|| panic!("{text}"));
        let digits_shown = start.time.rsplit_once('.').expect("times have a fraction").1.len();
        assert_eq!(digits_shown, digits, "{text}");
        assert_eq!(start.get("sample.event.type"), Some("4"), "{text}");
        assert_eq!(start.get("sample.event.param_u64"), Some("5"), "{text}");
        assert_eq!(start.get("sample.event.param_string"), Some("6"), "{text}");
        assert_eq!(start.params.len(), 3, "{text}");
    };
    // pmcd sets the number of missed records to zero in arrays with nanoseconds
    check(&pmcd.run("pmval", ["-s", "6", "-t", "0.01", "sample.event.records"]).ok(), 3, 7);
    check(&pmcd.run("pmevent", ["-s", "6", "-t", "0.01", "sample.event.records"]).ok(), 3, 7);
    check(&pmcd.run("pmval", ["-s", "6", "-t", "0.01", "sample.event.highres_records"]).ok(), 9, 0);
    let shown = (0..4).map(|_| pmcd.run("pminfo", ["-x", "sample.event.records"]).ok()).collect::<String>();
    check(&shown, 3, 7);
    assert!(!of_bogus(records(&shown)).is_empty(), "{shown}");
    let logger = pmcd.record(&["sample.event.records"], Duration::from_millis(20));
    eventually("a cycle of records in the archive", || {
        let dump = logger.archive().dump(["-z"], ["sample.event.records"]);
        (dump.stdout.matches("0x80000000").count() >= 2).then_some(())
    });
    let archive = logger.finish();
    check(&archive.dump(["-z"], ["sample.event.records"]).ok(), 6, 7);
    check(&archive.run("pmval", ["-z", "sample.event.records"]).ok(), 3, 7);
}
