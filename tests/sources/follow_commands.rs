//! Commands and the journal as sources of the real agent.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::follow_support::Agent;
use support::{Record, eventually};

fn is_running(pid: &str) -> bool {
    // A process that was killed and not yet waited for has ended all the same.
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !matches!(stat.rsplit(')').next().and_then(|rest| rest.trim().chars().next()), Some('Z' | 'X'))
    })
}

#[test]
fn json_of_a_command_becomes_records_as_bpftrace_writes_it() {
    // What `bpftrace -f json` prints.
    let agent = Agent::new(
        "[[command]]\nrun = [\"/bin/cat\", \"DIR/out\"]\nsource = \"bpf\"\nformat = \"json\"\nrestart = \"never\"\n",
    );
    agent.append(
        "out",
        "{\"type\": \"attached_probes\", \"data\": {\"probes\": 1}}\n\
         {\"type\": \"printf\", \"data\": \"open 42\\n\"}\n\
         {\"type\": \"map\", \"data\": {\"@opens\": {\"bash\": 3, \"ls\": 5}}}\n\
         {\"type\": \"hist\", \"data\": {\"@us\": [{\"min\": 2, \"max\": 3, \"count\": 7}]}}",
    );
    let mut agent = agent;
    agent.start();
    agent.wait_received("bpf", 4);
    let shown: Vec<Vec<(String, String)>> =
        agent.recent("bpf").into_iter().map(|record| record.params).collect();
    // The newline at the end of what printf wrote is in the value, and so in what is shown.
    let param = |name: &str, value: &str| (format!("jumpseat.field.{name}"), value.to_owned());
    assert_eq!(
        shown,
        [
            vec![param("type", "\"attached_probes\""), param("data_probes", "1")],
            vec![param("type", "\"printf\""), param("data", "\"open 42")],
            vec![param("type", "\"map\""), param("data__opens_bash", "3"), param("data__opens_ls", "5")],
            vec![
                param("type", "\"hist\""),
                param("data__us", "\"[{\"min\": 2, \"max\": 3, \"count\": 7}]\"")
            ],
        ]
    );
    agent.wait_state("bpf", "ended");
    assert_eq!(agent.value("jumpseat.self.follow.status", Some("bpf")).as_deref(), Some("0"));
    let labels = agent.endpoint().run("pminfo", ["-l", "jumpseat.source.received"]).ok();
    assert!(labels.contains("\"kind\":\"command\"") && labels.contains("/bin/cat"), "{labels}");
}

#[test]
fn commands_are_started_again_and_their_status_and_errors_told() {
    let agent = Agent::started(
        "[[command]]\nrun = \"echo run; echo oh dear >&2; exit 3\"\nsource = \"sh\"\nbackoff_ms = 20\nmax_backoff_ms = 100\n\
         [[command]]\nrun = [\"/nonexistent/program\"]\nsource = \"nothing\"\nbackoff_ms = 20\n\
         [[command]]\nrun = \"kill -9 $$\"\nsource = \"killed\"\nrestart = \"on-failure\"\nbackoff_ms = 20\n\
         [[command]]\nrun = \"echo fine\"\nsource = \"fine\"\nrestart = \"on-failure\"\nbackoff_ms = 20\n",
    );
    agent.wait_received("sh", 3);
    assert_eq!(agent.messages("sh")[..3], ["run", "run", "run"]);
    assert!(agent.number("jumpseat.self.follow.restarts", "sh") >= 2);
    let status = |source: &str| agent.value("jumpseat.self.follow.status", Some(source));
    assert_eq!(status("sh").as_deref(), Some("3"));
    eventually("the killed one to be started again", || {
        (agent.number("jumpseat.self.follow.restarts", "killed") >= 1).then_some(())
    });
    assert_eq!(status("killed").as_deref(), Some("-9"));
    agent.wait_state("fine", "ended");
    assert_eq!(agent.number("jumpseat.self.follow.restarts", "fine"), 0);
    agent.wait_state("nothing", "restarting");
    assert!(agent.total("jumpseat.self.follow.errors") >= 1);
    eventually("everything in the log", || {
        let text = agent.text();
        [
            "oh dear",
            "exit status: 3; starting it again in",
            "/nonexistent/program: cannot be started",
            "SIGKILL",
        ]
        .iter()
        .all(|part| text.contains(part))
        .then_some(())
    });
}

#[test]
fn at_the_agents_end_a_command_ends_with_all_its_processes() {
    let mut agent = Agent::started(
        "[[command]]\nrun = \"sleep 1000 & echo $$ $!; wait\"\nsource = \"kind\"\n\
         [[command]]\nrun = \"trap '' TERM; sleep 1000 & echo $$ $!; while :; do wait; done\"\nsource = \"stubborn\"\n\
         [[command]]\nrun = \"sleep 1000 & echo $!\"\nsource = \"leaves\"\nrestart = \"never\"\n",
    );
    let mut pids: Vec<String> = Vec::new();
    for source in ["kind", "stubborn", "leaves"] {
        agent.wait_received(source, 1);
        pids.extend(agent.messages(source)[0].split(' ').map(str::to_owned));
    }
    // What a command leaves behind goes with it.
    agent.wait_state("leaves", "ended");
    eventually("the process left behind to end", || (!is_running(&pids[4])).then_some(()));
    assert!(pids[..4].iter().all(|pid| is_running(pid)), "{pids:?}");
    // It must be possible to ask them to end: signals that the agent blocks are not blocked there.
    let status = fs::read_to_string(format!("/proc/{}/status", pids[0])).expect("it runs");
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).expect("Linux has it");
    let blocked = u64::from_str_radix(blocked.trim(), 16).expect("a mask");
    assert_eq!(blocked & 1 << (15 - 1), 0, "SIGTERM is blocked");
    agent.stop();
    for pid in &pids {
        eventually(&format!("{pid} of {pids:?} to end"), || (!is_running(pid)).then_some(()));
    }
}

#[test]
fn the_output_of_a_command_waits_for_the_agent() {
    const LINES: u64 = 300_000;
    let agent = Agent::started(&format!(
        "[[command]]\nrun = \"seq 1 {LINES}; printf last\"\nsource = \"seq\"\nrestart = \"never\"\n"
    ));
    agent.wait_received("seq", LINES + 1);
    agent.wait_state("seq", "ended");
    assert_eq!(agent.number("jumpseat.source.received", "seq"), LINES + 1);
    assert_eq!(agent.number("jumpseat.source.missed", "seq"), 0);
    assert_eq!(agent.messages("seq").last().map(String::as_str), Some("last"));
}

/// Behaves as journalctl does as far as the agent is concerned: what its options ask for in the format of `-o json`
/// (as systemd 252 prints it), entries after a cursor, then more as they come.
const JOURNALCTL: &str = r#"#!/bin/sh
echo "$*" >> "$JOURNAL/args"
after=0
for word; do
    case $word in
    --after-cursor=s=*) after=${word##*=} ;;
    --lines=0) after=$(wc -l < "$JOURNAL/entries") ;;
    esac
done
exec tail -n +$((after + 1)) -f "$JOURNAL/entries"
"#;

fn entry(number: u64, message: &str) -> String {
    format!(
        "{{\"__CURSOR\":\"s={number}\",\"__REALTIME_TIMESTAMP\":\"179518056600000{number}\",\
         \"__MONOTONIC_TIMESTAMP\":\"55\",\"_BOOT_ID\":\"b1\",\"PRIORITY\":\"4\",\"MESSAGE\":{message},\
         \"SYSLOG_IDENTIFIER\":\"sshd\",\"_SYSTEMD_UNIT\":\"ssh.service\",\"_PID\":\"77\",\"_UID\":\"0\",\
         \"_CMDLINE\":\"/usr/sbin/sshd\",\"_HOSTNAME\":\"here\"}}\n"
    )
}

fn with_journal() -> Agent {
    let mut agent = Agent::new("[[journal]]\nfrom = \"beginning\"\nunits = [\"ssh.service\"]\n");
    let program = agent.path("journalctl");
    fs::write(&program, JOURNALCTL).expect("writable");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("ours");
    let path = std::env::var("PATH").expect("there is one");
    agent.set("PATH", &format!("{}:{path}", agent.dir().display()));
    agent.set("JOURNAL", &agent.dir().display().to_string());
    agent
}

#[test]
fn the_journal_goes_on_after_its_cursor() {
    let mut agent = with_journal();
    agent.append("entries", entry(1, "\"one\"") + &entry(2, "[116,119,111,255]"));
    agent.start();
    agent.wait_messages("journal", &["one", "two\u{fffd}"]);
    let records = agent.recent("journal");
    let get = |record: &Record, name: &str| record.get(&format!("jumpseat.field.{name}")).map(str::to_owned);
    for (name, value) in [
        ("type", Some("sshd")),
        ("severity", Some("warning")),
        ("systemd_unit", Some("ssh.service")),
        ("pid", Some("77")),
        ("hostname", Some("here")),
        ("cmdline", None),
    ] {
        assert_eq!(get(&records[0], name).as_deref(), value, "{name}");
    }
    assert_eq!(records[0].time, "13:16:06.000");
    // It ends, and is started again.
    agent.append("entries", entry(3, "\"three\""));
    agent.wait_received("journal", 3);
    agent.stop();
    agent.append("entries", entry(4, "\"four\"") + "not json\n" + &entry(5, "\"five\""));
    agent.start();
    // The fifth line is the fourth entry.
    agent.wait_received("journal", 5);
    assert_eq!(agent.on_disk("journal")[3..], ["four", "five"]);
    assert_eq!(agent.number("jumpseat.source.malformed", "journal"), 1);
    let args = fs::read_to_string(agent.path("args")).expect("it was started");
    let words = "--output=json --follow --all --quiet --merge --no-tail";
    assert_eq!(args, format!("{words} --unit ssh.service\n{words} --after-cursor=s=3 --unit ssh.service\n"));
}

#[test]
fn a_killed_agent_neither_loses_nor_repeats_entries_of_the_journal() {
    let mut agent = with_journal();
    let mut next = 1;
    let mut entries = |agent: &Agent, count: u64| {
        let text: String = (next..next + count).map(|n| entry(n, &format!("\"{n}\""))).collect();
        agent.append("entries", text);
        next += count;
        next - 1
    };
    entries(&agent, 3);
    for kill in 0..10 {
        agent.start();
        let sent = entries(&agent, 50);
        if kill % 2 == 0 {
            agent.wait_received("journal", sent);
            entries(&agent, 20);
        }
        agent.kill();
    }
    agent.start();
    let sent = entries(&agent, 1);
    agent.wait_received("journal", sent);
    assert_eq!(agent.on_disk("journal"), (1..=sent).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[test]
fn a_journal_that_is_begun_once_more_repeats_nothing() {
    let mut agent = with_journal();
    agent.append("entries", "");
    agent.start();
    let file = agent.path("ids/jumpseat-400-positions.json");
    let begun = eventually("where it begins, on disk", || {
        fs::read_to_string(&file).ok().filter(|text| text.contains(r#""journal_bytes":{"journal":0}"#))
    });
    agent.append("entries", (1..=50).map(|n| entry(n, &format!("\"{n}\""))).collect::<String>());
    agent.wait_received("journal", 50);
    agent.kill();
    // As if it had been killed before any cursor was on disk.
    fs::write(&file, begun).expect("writable");
    agent.append("entries", entry(51, "\"51\""));
    agent.start();
    agent.wait_received("journal", 51);
    assert_eq!(agent.on_disk("journal"), (1..=51).map(|n| n.to_string()).collect::<Vec<_>>());
    let args = fs::read_to_string(agent.path("args")).expect("it was started");
    assert!(!args.contains("cursor"), "{args}");
}
