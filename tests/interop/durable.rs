//! What an agent has taken in is there when it comes back.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use support::random::Random;
use support::{PcpEnv, eventually, temp_dir};

use crate::seat::{Endpoint, JUMPSEAT, SOURCE, Seat};

/// How often the agent is killed, unless `JUMPSEAT_KILLS` says so.
const KILLS: usize = 40;

fn line(n: u64) -> String {
    format!("{{\"type\":\"t{}\",\"n\":{n},\"message\":\"event number {n}\"}}\n", n % 3)
}

fn lines(numbers: impl IntoIterator<Item = u64>) -> String {
    numbers.into_iter().map(line).collect()
}

/// `jumpseat log`, which must succeed.
#[track_caller]
fn log(seat: &Seat, args: &[&str]) -> String {
    let output =
        Command::new(JUMPSEAT).arg("log").args(args).arg("--state-dir").arg(seat.state_dir()).output();
    let output = output.expect("the program is built");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("JSON")
}

/// The events of the test's source on disk, by `n`, in their order.
#[track_caller]
fn on_disk(seat: &Seat) -> Vec<u64> {
    seat.on_disk(SOURCE).iter().filter_map(|record| record["n"].as_u64()).collect()
}

/// Values of a metric by their instances.
#[track_caller]
fn values(endpoint: &Endpoint, metric: &str) -> BTreeMap<String, String> {
    let shown = endpoint.run("pminfo", ["-f", metric]).ok();
    let values = shown.lines().filter_map(|line| line.trim().strip_prefix("inst ["));
    let parts = values.filter_map(|line| line.split_once(" or ")?.1.split_once("] value "));
    parts.map(|(name, value)| (name.trim_matches('"').to_owned(), value.to_owned())).collect()
}

#[track_caller]
fn value(endpoint: &Endpoint, metric: &str, instance: &str) -> String {
    values(endpoint, metric).remove(instance).unwrap_or_else(|| panic!("{metric} has no {instance}"))
}

#[test]
fn records_and_accounts_survive_a_kill() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let mut first = seat.serve([]);
    let refused = "no JSON\n";
    seat.feed([], &format!("{}{refused}", lines(0..1000)));
    let epoch = value(&first, "jumpseat.log.epoch", SOURCE);
    first.process.crash();
    // Whoever looks at it finds it whole.
    assert_eq!(on_disk(&seat), (0..1000).collect::<Vec<_>>());
    assert!(log(&seat, &["verify"]).contains("1000 records, 0 places damaged"));
    let again = seat.serve([]);
    let shown = |metric| value(&again, metric, SOURCE);
    assert_eq!(
        (shown("jumpseat.source.received"), shown("jumpseat.source.malformed")),
        ("1000".into(), "1".into())
    );
    assert_eq!((shown("jumpseat.log.next"), shown("jumpseat.log.first")), ("1000".into(), "0".into()));
    assert_eq!((shown("jumpseat.log.state"), shown("jumpseat.log.epoch")), ("\"disk\"".into(), epoch));
    let counts = values(&again, "jumpseat.event.count");
    assert_eq!(counts.get(&format!("{SOURCE}/t0")).map(String::as_str), Some("334"));
    let recent = again.run("pminfo", ["-x", "jumpseat.event.recent"]).ok();
    assert!(recent.contains("event number 999"), "{recent}");
    seat.feed([], &lines(1000..1010)).ok();
    assert_eq!(shown("jumpseat.source.received"), "1010");
    assert_eq!(on_disk(&seat), (0..1010).collect::<Vec<_>>());
    let listed: Value =
        serde_json::from_str(log(&seat, &["list", "--json"]).lines().next().expect("a source"))
            .expect("JSON");
    assert_eq!(
        (&listed["source"], &listed["next"], &listed["damage"]),
        (&SOURCE.into(), &1010.into(), &0.into())
    );
}

#[test]
fn nothing_that_was_taken_in_is_lost_by_kills_under_load() {
    let kills = std::env::var("JUMPSEAT_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "[log]\nsource_budget = \"64MiB\"\ntotal_budget = \"64MiB\"\n");
    let mut random = Random::new(12, 12);
    let (mut sent, mut taken) = (0, Vec::new());
    for kill in 0..kills {
        let mut agent = seat.serve([]);
        let stream = UnixStream::connect(seat.socket()).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time");
        let (mut answers, mut stream) = (BufReader::new(stream.try_clone().expect("a descriptor")), stream);
        let rounds = random.below(12);
        for round in 0..=rounds {
            // A batch that is answered, or one that the agent is killed with.
            let count = random.below(400) as u64 + 1;
            let text = lines(sent..sent + count);
            if round == rounds {
                let part = random.below(text.len());
                let written = stream.write_all(&text.as_bytes()[..part]);
                if random.percent(50) {
                    std::thread::sleep(Duration::from_micros(random.below(3000) as u64));
                }
                agent.process.crash();
                drop(written);
            } else {
                stream.write_all(text.as_bytes()).expect("the agent lives");
                writeln!(stream, "{{\"jumpseat\":{{\"sync\":{round}}}}}").expect("the agent lives");
                let mut answer = String::new();
                answers.read_line(&mut answer).expect("an answer");
                let answer: Value = serde_json::from_str(&answer).expect("JSON");
                assert_eq!(answer["jumpseat"]["missed"], 0, "kill {kill}: {answer}");
                taken.extend(sent..sent + count);
            }
            sent += count;
        }
    }
    let found = on_disk(&seat);
    assert!(found.is_sorted_by(|a, b| a < b), "each once, in order");
    let lacking: Vec<_> = taken.iter().filter(|n| found.binary_search(n).is_err()).collect();
    assert!(lacking.is_empty(), "of {} that were taken in, lacking: {lacking:?}", taken.len());
    assert!(found.last().is_none_or(|last| *last < sent));
    let agent = seat.serve([]);
    let received: u64 = value(&agent, "jumpseat.source.received", SOURCE).parse().expect("a number");
    let missed: u64 = value(&agent, "jumpseat.source.missed", SOURCE).parse().expect("a number");
    assert_eq!(received - missed, found.len() as u64);
    eprintln!(
        "{kills} kills, {} events taken in, {} found, {missed} in torn batches",
        taken.len(),
        found.len()
    );
}

#[test]
fn who_is_behind_memory_reads_on_from_disk() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "[events]\nsource_budget = \"64KiB\"\nmax_sources = 8\n");
    let agent = seat.serve([]);
    seat.feed([], &line(0)).ok();
    let mut reader = agent.process_of("pmval", &["-t", "0.05", "jumpseat.event.highres_records"]);
    eventually("the reader has joined", || {
        (value(&agent, "jumpseat.source.readers", SOURCE) == "1").then_some(())
    });
    // More than ten times what memory holds, between two fetches or not.
    seat.feed([], &lines(1..20_001)).ok();
    eventually("all are delivered", || {
        (value(&agent, "jumpseat.source.delivered", SOURCE) == "20000").then_some(())
    });
    let missed = values(&agent, "jumpseat.client.missed");
    assert!(missed.values().all(|missed| missed == "0"), "{missed:?}");
    reader.crash();
}

#[test]
fn a_second_agent_with_the_same_log_says_whose_it_is() {
    let dir = temp_dir();
    let log_dir = dir.path().join("log");
    let settings = format!("[log]\ndir = {log_dir:?}\n");
    let seat = Seat::in_dir(&dir.path().join("one"), &settings);
    let first = seat.serve([]);
    let other = Seat::in_dir(&dir.path().join("two"), &settings);
    let output = Command::new(JUMPSEAT)
        .args(["serve", "--listen", "127.0.0.1:0", "--config"])
        .arg(other.config())
        .output()
        .expect("the program is built");
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(
        message.contains(&format!("process {} uses it; stop that one", first.process.pid())),
        "{message}"
    );
}

#[test]
fn memory_is_enough_for_who_says_so() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "[log]\ndir = \"memory\"\n");
    let mut agent = seat.serve([]);
    seat.feed([], &lines(0..10)).ok();
    assert_eq!(value(&agent, "jumpseat.log.state", SOURCE), "\"memory\"");
    assert!(agent.process.stop().success());
    let files =
        fs::read_dir(seat.state_dir()).expect("it is there").map(|entry| entry.expect("an entry").path());
    assert!(files.filter(|path| path.is_dir()).count() == 0);
    let agent = seat.serve([]);
    assert_eq!(values(&agent, "jumpseat.source.received").get(SOURCE).map(String::as_str), Some("0"));
}

/// An agent whose log is on a disk of its own, of so many bytes: a file system in memory that only it sees.
fn on_a_small_disk(seat: &Seat, log: &Path, bytes: u64) -> Endpoint {
    fs::create_dir_all(log).expect("the test's directory");
    let mut command = PcpEnv::new().command("unshare");
    let script = format!("mount -t tmpfs -o size={bytes} none {log:?} && exec \"$0\" \"$@\"");
    command.args(["--mount", "sh", "-c", &script, JUMPSEAT]);
    seat.serve_by(command, [])
}

/// A path as a process sees it.
fn seen_by(endpoint: &Endpoint, path: &Path) -> PathBuf {
    let root = format!("/proc/{}/root", endpoint.process.pid());
    Path::new(&root).join(path.strip_prefix("/").expect("an absolute path"))
}

/// Sends events, of which none may be lost.
#[track_caller]
fn send(seat: &Seat, numbers: std::ops::Range<u64>) {
    let output = seat.feed([], &lines(numbers));
    assert!(output.status.success() && output.stderr.contains("rejected 0"), "{output:?}");
}

#[test]
fn a_full_disk_is_told_and_left_and_come_back_to() {
    let dir = temp_dir();
    let log = dir.path().join("log");
    let seat = Seat::in_dir(dir.path(), &format!("[log]\ndir = {log:?}\n"));
    let agent = on_a_small_disk(&seat, &log, 600 << 10);
    let ballast = seen_by(&agent, &log).join("ballast");
    fs::write(&ballast, vec![7; 300 << 10]).expect("there is room");
    send(&seat, 0..1000);
    let state = || value(&agent, "jumpseat.log.state", SOURCE);
    assert_eq!(state(), "\"disk\"");
    // Many times what there is room for.
    for part in 1..50 {
        send(&seat, part * 1000..(part + 1) * 1000);
    }
    assert_eq!(state(), "\"memory: the disk does not take them\"");
    assert_eq!(value(&agent, "jumpseat.source.received", SOURCE), "50000");
    assert_eq!(value(&agent, "jumpseat.source.missed", SOURCE), "0");
    assert!(agent.process.text().contains("the log of test: goes on in memory: No space left on device"));
    // What is on disk is whole, but for what was being written when there was no room.
    let mut verify = Command::new("nsenter");
    verify.args([
        "--mount",
        "--target",
        &agent.process.pid().to_string(),
        JUMPSEAT,
        "log",
        "verify",
        "--dir",
    ]);
    let verified = verify.arg(&log).output().expect("util-linux is installed");
    let verified = String::from_utf8(verified.stdout).expect("text");
    let damage = verified.lines().filter(|line| !line.contains("was not written to its end"));
    assert_eq!(damage.count(), 1, "{verified}");
    // With room again it comes back by itself, a moment later.
    fs::remove_file(&ballast).expect("it is there");
    let mut next = 50_000;
    eventually("the disk is used again", || {
        send(&seat, next..next + 1);
        next += 1;
        (state() == "\"disk\"").then_some(())
    });
    assert!(agent.process.text().contains("the log of test: is on disk again"));
    assert_eq!(value(&agent, "jumpseat.source.received", SOURCE), next.to_string());
}

#[test]
fn a_file_whose_feed_is_killed_again_and_again_is_there_once() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let mut agent = seat.serve([]);
    seat.wait_for_socket();
    let file = dir.path().join("events.ndjson");
    fs::write(&file, lines(0..20_000)).expect("the test's directory is writable");
    let feed = || {
        let mut command = Command::new(JUMPSEAT);
        command.args(["feed", "--quiet", "--sender", "the file", "--socket"]).arg(seat.socket()).arg(&file);
        command.stderr(std::process::Stdio::piped());
        command
    };
    let mut random = Random::new(12, 13);
    for kill in 0..100 {
        let mut running = feed().spawn().expect("the program is built");
        // Any moment will do: of its start, while it sends, or when it is done.
        std::thread::sleep(Duration::from_micros(random.below(60_000) as u64));
        running.kill().expect("it is ours");
        running.wait().expect("it is ours");
        if kill % 25 == 24 {
            agent.process.crash();
            agent = seat.serve([]);
            seat.wait_for_socket();
        }
    }
    let last = feed().output().expect("the program is built");
    assert!(last.status.success(), "{last:?}");
    assert!(on_disk(&seat) == (0..20_000).collect::<Vec<_>>());
    let shown = |metric| value(&agent, metric, SOURCE);
    assert_eq!(
        (shown("jumpseat.source.received"), shown("jumpseat.source.missed")),
        ("20000".into(), "0".into())
    );
    assert_ne!(shown("jumpseat.source.repeated"), "0");
}

#[test]
fn feed_goes_on_with_the_next_agent() {
    for framing in [&[][..], &["--binary"]] {
        let dir = temp_dir();
        let seat = Seat::in_dir(dir.path(), "");
        let mut agent = seat.serve([]);
        seat.wait_for_socket();
        let mut feed = Command::new(JUMPSEAT)
            .args(["feed", "--quiet", "--socket"])
            .arg(seat.socket())
            .args(framing)
            .stdin(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("the program is built");
        let mut input = feed.stdin.take().expect("it is piped");
        let mut random = Random::new(12, 14);
        // Where nobody ever answered it would not wait for the next.
        input.write_all(line(0).as_bytes()).expect("it reads");
        let received = || values(&agent, "jumpseat.source.received").remove(SOURCE);
        eventually("the first is there", || (received()? == "1").then_some(()));
        let mut sent = 1;
        for _ in 0..10 {
            let count = random.below(3000) as u64 + 1;
            input.write_all(lines(sent..sent + count).as_bytes()).expect("it reads");
            sent += count;
            std::thread::sleep(Duration::from_micros(random.below(20_000) as u64));
            agent.process.crash();
            agent = seat.serve([]);
        }
        drop(input);
        let output = feed.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains(&format!("sent {sent}, ")), "{said}");
        assert!(on_disk(&seat) == (0..sent).collect::<Vec<_>>(), "{said}");
    }
}

#[test]
fn what_an_otlp_client_was_told_is_taken_in_survives_a_kill() {
    let dir = temp_dir();
    let port = support::free_port();
    let seat = Seat::in_dir(dir.path(), &format!("[otlp]\nlisten = \"127.0.0.1:{port}\"\n"));
    let body = |round: u64| {
        let records: Vec<_> = (0..100)
            .map(|n| serde_json::json!({ "attributes": [{ "key": "n", "value": { "intValue": round * 100 + n } }] }))
            .collect();
        let service = serde_json::json!([{ "key": "service.name", "value": { "stringValue": "told" } }]);
        let scopes = serde_json::json!([{ "logRecords": records }]);
        serde_json::json!({ "resourceLogs": [{ "resource": { "attributes": service }, "scopeLogs": scopes }] })
            .to_string()
    };
    for round in 0..10 {
        let mut agent = seat.serve([]);
        let mut stream = eventually("the port", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
        let body = body(round);
        let head = "POST /v1/logs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
        write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).expect("sent");
        let mut answer = String::new();
        BufReader::new(&stream).read_line(&mut answer).expect("an answer");
        agent.process.crash();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let shown = log(&seat, &["show", "told"]);
    let records = shown.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let found: Vec<_> = records.filter_map(|record| record["n"].as_u64()).collect();
    assert!(found == (0..1000).collect::<Vec<_>>(), "{found:?}");
}
