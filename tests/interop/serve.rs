//! `jumpseat serve`: the agent without pmcd, for PCP's own clients.

use crate::seat::{JUMPSEAT, SOURCE, Seat};
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use support::{LoggerRun, PcpEnv, Process, Record, eventually, free_port, records, temp_dir, whole_records};

#[test]
fn pcp_clients_work_without_pmcd() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let endpoint = seat.serve([]);
    seat.feed([], "{\"type\":\"a\",\"n\":7}\n").ok();
    let names = endpoint.run("pminfo", ["jumpseat"]).ok();
    assert!(names.lines().any(|line| line == "jumpseat.event.records"), "{names}");
    assert!(names.lines().any(|line| line == "jumpseat.field.n"), "{names}");
    let shown = endpoint.run("pminfo", ["-dfmtTl", "jumpseat"]);
    assert_eq!(shown.stderr, "", "{shown}");
    let text = shown.ok();
    assert!(!text.contains("Error"), "{text}");
    let shown = endpoint.run("pminfo", ["-x", "jumpseat.event.recent"]).ok();
    assert_eq!(records(&shown)[0].get("jumpseat.field.n"), Some("7"), "{shown}");
    let shown = endpoint.run("pmprobe", ["-v", "jumpseat.source.received"]).ok();
    assert_eq!(shown, "jumpseat.source.received 1 1\n");
    let shown = endpoint.run("pmval", ["-s", "1", "jumpseat.control.recent"]).ok();
    assert!(shown.contains("samples:"), "{shown}");
    let unknown = endpoint.run("pminfo", ["-f", "jumpseat.nothing"]).fails(1);
    assert!(unknown.contains("Unknown metric name"), "{unknown}");
}

#[test]
fn pmlogger_records_from_the_endpoint() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let endpoint = seat.serve([]);
    seat.feed([], "{\"type\":\"before\"}\n").ok();
    let metrics = ["jumpseat.event.records", "jumpseat.source.received"];
    let logger = LoggerRun::start(&PcpEnv::new(), &endpoint.host(), &metrics, Duration::from_millis(100));
    eventually("pmlogger's cursor", || {
        let shown = endpoint.run("pminfo", ["-f", "jumpseat.source.readers"]).stdout;
        shown.contains(&format!("or \"{SOURCE}\"] value 1")).then_some(())
    });
    seat.feed([], "{\"type\":\"a\",\"n\":1}\n{\"type\":\"a\",\"n\":2}\n").ok();
    eventually("the records in the archive", || {
        let shown = logger.archive().dump(["-z"], ["jumpseat.event.records"]).stdout;
        (records(&shown).len() >= 2).then_some(())
    });
    let archive = logger.finish();
    let shown = archive.dump(["-z"], ["jumpseat.event.records"]).ok();
    let numbers: Vec<_> =
        records(&shown).iter().map(|r| r.get("jumpseat.field.n").map(str::to_owned)).collect();
    assert_eq!(numbers, [Some("1".to_owned()), Some("2".to_owned())], "{shown}");
}

#[test]
fn two_hundred_clients_at_once_each_get_everything() {
    const CLIENTS: usize = 200;
    const EVENTS: usize = 100;
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let endpoint = seat.serve([]);
    seat.feed([], "{\"type\":\"before\"}\n").ok();
    let env = PcpEnv::new();
    let host = endpoint.host();
    let start = |n: usize| {
        let mut command = env.command("pmval");
        command.args(["-h", &host, "-t", "0.5", "jumpseat.event.records"]);
        Process::start(&mut command, dir.path(), &format!("client{n}"))
    };
    let clients: Vec<Process> = (0..CLIENTS).map(start).collect();
    eventually("all clients to read", || {
        let shown = endpoint.run("pminfo", ["-f", "jumpseat.source.readers"]).stdout;
        shown.contains(&format!("or \"{SOURCE}\"] value {CLIENTS}")).then_some(())
    });
    let lines = (0..EVENTS).fold(String::new(), |mut lines, n| {
        let _ = writeln!(lines, "{{\"type\":\"a\",\"n\":{n}}}");
        lines
    });
    seat.feed([], &lines).ok();
    let number = |record: &Record| record.get("jumpseat.field.n").and_then(|n| n.parse::<usize>().ok());
    for client in &clients {
        let shown = eventually("all records", || whole_records(&client.stdout(), EVENTS, "jumpseat.field.n"));
        let numbers: Vec<_> = shown.iter().map(number).collect();
        assert_eq!(numbers, (0..EVENTS).map(Some).collect::<Vec<_>>(), "{}", client.text());
    }
    drop(clients);
    eventually("the streams to be gone", || {
        let shown = endpoint.run("pminfo", ["-f", "jumpseat.source.readers"]).stdout;
        shown.contains(&format!("or \"{SOURCE}\"] value 0")).then_some(())
    });
}

#[test]
fn clients_beyond_the_systems_limit_get_their_turn_when_others_leave() {
    const CLIENTS: usize = 60;
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let endpoint = seat.serve([]);
    let limit = ["--nofile=40:40", &format!("--pid={}", endpoint.process.pid())];
    assert!(Command::new("prlimit").args(limit).status().unwrap().success());
    let connect = |_| {
        let client = TcpStream::connect(endpoint.host()).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        client
    };
    let mut clients: Vec<TcpStream> = (0..CLIENTS).map(connect).collect();
    let mut greeting = [0; 20];
    clients[0].read_exact(&mut greeting).unwrap();
    // The last connect went unnoticed: the system completes connections by itself.
    let mut last = clients.pop().unwrap();
    last.set_nonblocking(true).unwrap();
    assert_eq!(last.read(&mut greeting).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    last.set_nonblocking(false).unwrap();
    drop(clients);
    last.read_exact(&mut greeting).unwrap();
}

#[test]
fn otlp_needs_no_configuration_and_all_addresses_are_told() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let address = format!("127.0.0.1:{}", free_port());
    let endpoint = seat.serve([format!("--otlp={address}").as_str()]);
    eventually("the addresses", || {
        let said = endpoint.process.text();
        let socket = format!("events:      {}", seat.socket().display());
        [socket, format!("OTLP, HTTP:  http://{address}")]
            .iter()
            .all(|line| said.lines().any(|said| said == line))
            .then_some(())
    });
    // In plain text for everybody only if that is said in words.
    let everywhere = format!("--otlp=0.0.0.0:{}", free_port());
    let state = dir.path().join("other").display().to_string();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--state-dir", &state, &everywhere];
    let refused = PcpEnv::new().run(JUMPSEAT, serve);
    assert!(!refused.status.success() && refused.stderr.contains("--otlp-insecure"), "{refused:?}");
    let other = temp_dir();
    let open = Seat::in_dir(other.path(), "").serve([everywhere.as_str(), "--otlp-insecure"]);
    let told = everywhere.replace("--otlp=", "OTLP, HTTP:  http://");
    eventually("the address", || open.process.text().lines().any(|said| said == told).then_some(()));
    let body = r#"{"resourceLogs":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shell"}}]},
        "scopeLogs":[{"logRecords":[{"body":{"stringValue":"hello"}}]}]}]}"#;
    let mut stream = eventually("the port", || TcpStream::connect(&address).ok());
    let head = "POST /v1/logs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).expect("sent");
    let shown = eventually("the record", || {
        let shown = endpoint.run("pminfo", ["-x", "jumpseat.event.recent"]).ok();
        shown.contains("hello").then_some(shown)
    });
    assert!(shown.contains("or \"shell\""), "{shown}");
}

/// Runs `jumpseat serve` without `--listen` as somebody who has a home of their own. What it says, and the process.
fn serve_by_default(home: &Path, name: &str) -> Process {
    let mut command = PcpEnv::new().command(JUMPSEAT);
    let [socket, state] = ["jumpseat.socket", "state"].map(|file| home.join(file));
    command.arg("serve").arg("--socket").arg(socket).arg("--state-dir").arg(state);
    Process::start(&mut command, home, name)
}

#[test]
fn beside_a_pmcd_another_port_is_taken_and_whoever_started_it_may_store() {
    // As pmcd has it, if there is none on this machine.
    let _taken = TcpListener::bind("127.0.0.1:44321");
    let home = temp_dir();
    let server = serve_by_default(home.path(), "serve");
    let unix = format!("unix:{}", home.path().join("jumpseat-pcp.socket").display());
    let port = eventually("the addresses", || {
        let said = server.text();
        let line = said.lines().find(|line| line.starts_with("PCP clients: "))?;
        said.lines().find(|line| line.trim() == unix)?;
        line.rsplit_once(':')?.1.parse::<u16>().ok()
    });
    assert_ne!(port, 44321);
    assert!(
        server.text().contains("jumpseat: localhost:44321 is in use, probably by pmcd"),
        "{}",
        server.text()
    );
    let env = PcpEnv::new();
    assert!(
        env.run("pminfo", ["-h", &format!("127.0.0.1:{port}"), "-f", "jumpseat.self.pid"])
            .ok()
            .contains("value")
    );
    let store = |host: &str| {
        let words = ["-h", host, "-i", "socket", "jumpseat.control.source.enabled", "0"];
        env.run("pmstore", words)
    };
    let socket = home.path().join("jumpseat.socket").display().to_string();
    env.run_with_input(JUMPSEAT, ["feed", "--socket", &socket], b"{}\n").ok();
    assert!(store(&unix).ok().contains("new value=0"));
    store(&format!("127.0.0.1:{port}")).fails(1);

    // Another one in the same place says with what it would run.
    let mut second = serve_by_default(home.path(), "second");
    second.wait();
    let said = second.text();
    let user = format!("process {} uses it", server.pid());
    assert!(said.contains(&user) && said.contains("--state-dir DIR --socket PATH"), "{said}");
}

#[test]
fn where_identifiers_cannot_be_kept_it_does_not_start_and_says_what_to_do() {
    let dir = temp_dir();
    let socket = dir.path().join("s").display().to_string();
    // Nobody can make a file there.
    let words = ["serve", "--listen", "127.0.0.1:0", "--socket", &socket, "--state-dir", "/proc"];
    let said = PcpEnv::new().run(JUMPSEAT, words).fails(1);
    assert!(said.contains("make the directory writable, or configure another one"), "{said}");
}
