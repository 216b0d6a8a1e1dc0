//! dbpmda in pmcd's place: every command it has.

use crate::seat::{PMDA, SOURCE, Seat};
use support::{Dbpmda, PcpEnv, Process, Transcript, eventually, free_port, is_listening, records, temp_dir};

const EVENTS: &str = "{\"type\":\"a\",\"n\":7}\n{\"type\":\"b\",\"n\":8}\n";

/// Every command but `watch`, which opens a window, in an order in which later ones see what earlier ones did.
const COMMANDS: [&str; 42] = [
    "desc jumpseat.event.recent",
    "desc jumpseat.control.recent",
    "getdesc on",
    "getiname on",
    "fetch jumpseat.control.recent jumpseat.self.version",
    "fetch jumpseat.event.recent",
    "instance 400.1",
    "instance 400.1 0",
    "instance 400.1 \"test\"",
    "instance 400.1 \"nobody\"",
    "instance 400.1 4711",
    "profile 400.2 none",
    "fetch jumpseat.event.count",
    "profile 400.2 all",
    "fetch jumpseat.event.count jumpseat.source.received",
    "profile 400.2 delete 0",
    "profile 400.2 add 0",
    "store jumpseat.control.recent \"4\"",
    "attr \"userid\" \"0\"",
    "store jumpseat.control.recent \"5\"",
    "fetch jumpseat.control.recent",
    "store jumpseat.self.pid \"5\"",
    "text jumpseat.event.recent",
    "text indom 400.1",
    "children jumpseat.field",
    "traverse jumpseat.field",
    "pmid jumpseat.field.type",
    "name 400.16.0",
    "name 400.999.0",
    "attr \"username\" \"root\"",
    "label context",
    "label domain",
    "label indom 400.1",
    "label cluster 400.1",
    "label item jumpseat.event.recent",
    "label instances 400.1",
    "status",
    "debug all",
    "debug none",
    "help",
    "wait 0",
    "timer on",
];

fn session(open: &str, seat: &Seat) -> Transcript {
    COMMANDS
        .into_iter()
        .fold(Dbpmda::open(&PcpEnv::new(), open).namespace(seat.pmns_root()), Dbpmda::command)
        .command(&format!("namespace {}", seat.pmns_root().display()))
        .command("desc jumpseat.self.pid")
        .run()
}

/// What must hold on any transport. `fed` tells whether the events above have been sent, `known` whether the agent believes
/// who the client is: over TCP anybody might say so.
fn check(transcript: &Transcript, fed: bool, known: bool) {
    let answer = |command: &str| transcript.answer(command);
    let has = |command: &str, text: &str| {
        assert!(
            answer(command).contains(text),
            "{command}: no {text:?} in\n{}\n\n{}",
            answer(command),
            transcript.whole
        );
    };
    has("desc jumpseat.event.recent", "Data Type: event record array  InDom: 400.1");
    has("desc jumpseat.control.recent", "InDom: PM_INDOM_NULL");
    has("fetch jumpseat.control.recent jumpseat.self.version", "value 10");
    has("fetch jumpseat.control.recent jumpseat.self.version", env!("CARGO_PKG_VERSION"));
    has("instance 400.1", &format!("name: \"{SOURCE}\""));
    // nobody may store before it is known who it is
    has("store jumpseat.control.recent \"4\"", "10 -> 4");
    has("store jumpseat.control.recent \"5\"", "10 -> 5");
    has("fetch jumpseat.control.recent", stored(known));
    has("instance 400.1 0", &format!("name: \"{SOURCE}\""));
    has(&format!("instance 400.1 \"{SOURCE}\""), "inst: 0");
    has("text jumpseat.event.recent", "the newest event records of each source");
    has("text indom 400.1", "the tracing sources, by name");
    has("children jumpseat.field", "leaf type");
    has("children jumpseat.field", "leaf message");
    has("traverse jumpseat.field", "jumpseat.field.severity");
    has("pmid jumpseat.field.type", "400.16.0");
    has("name 400.16.0", "jumpseat.field.type");
    has("attr \"userid\" \"0\"", "Success");
    has("label domain", "agent=\"jumpseat\"");
    has("status", "Connection:");
    has("desc jumpseat.self.pid", "Timer:");
    assert_eq!(transcript.sections().len(), COMMANDS.len() + 5, "{}", transcript.whole);

    // refusals: one for each of these and for nothing else; the second store is one more if nobody is known
    for text in ["Unknown or illegal instance identifier", "No permission to perform requested operation"] {
        assert!(transcript.whole.contains(text), "no {text:?} in\n{}", transcript.whole);
    }
    assert_eq!(
        transcript.whole.matches("Error PDU: ").count(),
        if known { 5 } else { 6 },
        "{}",
        transcript.whole
    );

    if fed {
        let shown = answer("fetch jumpseat.event.recent");
        assert!(shown.contains("[2 event records timestamps"), "{shown}");
        has("children jumpseat.field", "leaf n");
        has("fetch jumpseat.event.count jumpseat.source.received", &format!("\"{SOURCE}/a\"] value 1"));
        has("fetch jumpseat.event.count jumpseat.source.received", &format!("\"{SOURCE}\"] value 2"));
        let none = answer("fetch jumpseat.event.count");
        assert!(!none.contains("value 1"), "the profile excludes everything: {none}");
        assert!(records(shown).is_empty(), "dbpmda does not unpack records");
    }
}

/// What is in effect behind the store that root does.
fn stored(known: bool) -> &'static str {
    if known { "value 5" } else { "value 10" }
}

#[test]
fn every_command_over_pipes() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    // identifiers are for good: the events of an earlier run are gone, their source and types are known
    let earlier = seat.serve([]);
    seat.feed([], EVENTS).ok();
    drop(earlier);
    let transcript = session(&format!("pipe {PMDA} {}", seat.args().join(" ")), &seat);
    check(&transcript, false, true);
}

/// Starts the agent with these arguments, feeds it, and lets dbpmda connect, twice: the agent stays for the next pmcd.
fn over_socket(seat: &Seat, dir: &std::path::Path, args: &[&str], open: &str, listens: impl Fn() -> bool) {
    let mut command = PcpEnv::new().command(PMDA);
    command.args(seat.args()).args(args).current_dir(dir);
    let mut agent = Process::start(&mut command, dir, "agent");
    eventually("the agent to listen", || {
        assert!(agent.exited().is_none(), "the agent ended:\n{}\n{}", agent.text(), seat.log());
        listens().then_some(())
    });
    seat.feed([], EVENTS).ok();
    let known = !open.contains("inet");
    check(&session(open, seat), true, known);
    let again = Dbpmda::open(&PcpEnv::new(), open)
        .namespace(seat.pmns_root())
        .command("getdesc on")
        .command("fetch jumpseat.control.recent")
        .run();
    // what the first one stored
    assert!(again.answer("fetch jumpseat.control.recent").contains(stored(known)), "{}", again.whole);
    assert!(agent.stop().success(), "{}\n{}", agent.text(), seat.log());
}

#[test]
fn every_command_over_a_unix_socket() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let path = seat.agent_socket();
    let text = path.display().to_string();
    over_socket(&seat, dir.path(), &["-u", &text], &format!("socket unix {text}"), || path.exists());
}

#[test]
fn every_command_over_tcp() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let port = free_port();
    let number = port.to_string();
    over_socket(&seat, dir.path(), &["-i", &number], &format!("socket inet {number}"), || is_listening(port));
}
