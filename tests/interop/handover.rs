//! From one agent to the next: nobody who connects is refused, and no event is lost or taken twice.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use jumpseat::layer::{Guard, Remote, RemoteError};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::{
    Certificates, PcpEnv, PrivatePmcd, Process, eventually, free_port, is_listening, temp_dir, user,
};
use tracing_subscriber::prelude::*;

use crate::seat::{JUMPSEAT, PMDA, SOURCE, Seat, Transport};

/// How often the agent is started again.
const RESTARTS: usize = 50;
/// Settings of agents that leave their listeners to the next one.
const KEEP: &str = "[handover]\nkeep = '60s'\n";

/// Something that is done again and again until it is told to stop.
struct Again {
    stop: Arc<AtomicBool>,
    times: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Again {
    fn start(mut one: impl FnMut(u64) + Send + 'static) -> Again {
        let (stop, times) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (to_stop, counted) = (Arc::clone(&stop), Arc::clone(&times));
        let thread = std::thread::spawn(move || {
            while !to_stop.load(Ordering::Relaxed) {
                one(counted.fetch_add(1, Ordering::Relaxed));
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        Again { stop, times, thread }
    }

    #[track_caller]
    fn finish(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        if let Err(panic) = self.thread.join() {
            std::panic::resume_unwind(panic);
        }
        self.times.load(Ordering::Relaxed)
    }
}

/// Connects to the ingest socket anew for each event, which it sends until it is accepted.
fn unix_sender(path: PathBuf) -> Again {
    Again::start(move |number| {
        let line = format!("{{\"source\":\"unix\",\"n\":{number}}}\n");
        let mut answer = String::new();
        while !answer.contains("\"accepted\":1") {
            answer.clear();
            let mut stream = UnixStream::connect(&path).expect("nobody is refused");
            // The agent may end before it has answered.
            let _ = stream.write_all(line.as_bytes()).and_then(|()| stream.shutdown(Shutdown::Write));
            let _ = stream.read_to_string(&mut answer);
        }
    })
}

/// The same over OTLP.
fn otlp_sender(port: u16) -> Again {
    Again::start(move |number| {
        let body = serde_json::json!({ "resourceLogs": [{
            "resource": { "attributes": [{ "key": "service.name", "value": { "stringValue": "otlp" } }] },
            "scopeLogs": [{ "logRecords": [{ "attributes": [{ "key": "n", "value": { "intValue": number } }] }] }],
        }] })
        .to_string();
        let mut answer = String::new();
        while !answer.starts_with("HTTP/1.1 200") {
            answer.clear();
            let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("nobody is refused");
            let head = "POST /v1/logs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n";
            let _ = write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len());
            let _ = stream.read_to_string(&mut answer);
        }
    })
}

/// `jumpseat feed` of numbered lines, whose input goes on until it is told to stop.
struct Feed {
    writer: Again,
    process: Child,
}

impl Feed {
    /// `options` say where it sends to.
    fn start(options: &[&str]) -> Feed {
        let mut command = Command::new(JUMPSEAT);
        command.args(["feed", "--quiet"]).args(options);
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("the program is built");
        let mut input = process.stdin.take().expect("piped");
        let writer = Again::start(move |number| {
            // What it said at its end is looked at then.
            let _ = writeln!(input, "{{\"n\":{number}}}");
        });
        Feed { writer, process }
    }

    #[track_caller]
    fn finish(self) -> u64 {
        let written = self.writer.finish();
        let output = self.process.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains(&format!("sent {written}, ")), "{said}");
        written
    }
}

/// Connects to an ingest socket on a network anew for each event, which it sends until it is accepted.
fn remote_sender(remote: Remote) -> Again {
    Again::start(move |number| {
        let line = format!("{{\"source\":\"remote\",\"n\":{number}}}\n");
        let mut answer = String::new();
        while !answer.contains("\"accepted\":1") {
            answer.clear();
            let mut stream = match remote.connect(Duration::from_secs(30)) {
                Ok(stream) => stream,
                // The agent may end before it has let anybody in, but somebody listens.
                Err(RemoteError::Io(error)) if error.kind() != ErrorKind::ConnectionRefused => continue,
                Err(error) => panic!("nobody is refused: {error}"),
            };
            let _ = stream.write_all(line.as_bytes()).and_then(|()| stream.end());
            let _ = stream.read_to_string(&mut answer);
        }
    })
}

/// A program with the layer: its events have numbers.
fn traced_program(remote: Remote) -> (Again, Guard) {
    let layer = jumpseat::layer().source("traced").remote(remote);
    let guard = layer.guard();
    let program = tracing::Dispatch::new(tracing_subscriber::registry().with(layer));
    let one = move |n: u64| tracing::dispatcher::with_default(&program, || tracing::info!(n, "a thing"));
    (Again::start(one), guard)
}

/// The numbers of a source's events on disk.
fn numbers(seat: &Seat, source: &str) -> Vec<u64> {
    seat.on_disk(source).iter().filter_map(|record| record["n"].as_u64()).collect()
}

/// All of them, each once.
#[track_caller]
fn assert_in_order(seat: &Seat, source: &str, found: &[u64], sent: u64) {
    let wrong = (0..sent).zip(found).position(|(expected, found)| expected != *found);
    if wrong.is_some() || found.len() as u64 != sent {
        let at = wrong.unwrap_or(found.len().min(sent as usize));
        let near = &found[at.saturating_sub(3)..found.len().min(at + 10)];
        let args = ["log", "show", source, "--state-dir"].map(std::ffi::OsString::from);
        let shown = PcpEnv::new().run(JUMPSEAT, args.into_iter().chain([seat.state_dir().into()])).ok();
        let lines: Vec<&str> = shown.lines().collect();
        let losses = lines
            .iter()
            .enumerate()
            .filter(|(_, line)| !line.contains("\"seq\""))
            .map(|(nth, _)| lines[nth.saturating_sub(1)..lines.len().min(nth + 2)].join("\n"));
        panic!(
            "{source}: {} found of {sent}; at {at}: {near:?}; losses: {}\n{}",
            found.len(),
            losses.collect::<Vec<_>>().join("\n--\n"),
            seat.log()
        );
    }
}

/// Everybody who sends, to the end of what is done meanwhile.
fn with_senders(seat: &Seat, port: u16, restarts: impl FnOnce()) {
    let (unix, otlp) = (unix_sender(seat.socket()), otlp_sender(port));
    let feed = Feed::start(&["--socket", &seat.socket().display().to_string()]);
    restarts();
    let (unix, otlp, fed) = (unix.finish(), otlp.finish(), feed.finish());
    assert_in_order(seat, SOURCE, &numbers(seat, SOURCE), fed);
    // Without numbers known to the agent, an event that was taken but not answered is there twice.
    for (source, sent) in [("unix", unix), ("otlp", otlp)] {
        let mut found = numbers(seat, source);
        found.dedup();
        assert_in_order(seat, source, &found, sent);
        assert!(sent > 20, "{source}: {sent}");
    }
}

/// The keepers whose door is in a directory.
fn keepers(dir: &Path) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").expect("it is there").flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let holds = |pid: &i32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let doors = fs::read_to_string("/proc/net/unix").unwrap_or_default();
        let inodes: Vec<_> =
            fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten().collect();
        let inodes: Vec<String> = inodes
            .iter()
            .filter_map(|entry| {
                let link = fs::read_link(entry.path()).ok()?;
                Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
            })
            .collect();
        let dir = dir.to_str().expect("ASCII");
        name.trim() == "jumpseat-keeper"
            && doors.lines().filter(|line| line.contains(dir)).any(|line| {
                line.split_whitespace().nth(6).is_some_and(|inode| inodes.iter().any(|own| own == inode))
            })
    };
    pids.filter(holds).map(Pid::from_raw).collect()
}

#[track_caller]
fn agent_pid(pmcd: &PrivatePmcd) -> Pid {
    let text = eventually("the agent's process", || pmcd.value("jumpseat.self.pid"));
    Pid::from_raw(text.parse().expect("a number"))
}

#[test]
fn fifty_restarts_under_pmcd_refuse_nobody_and_lose_nothing() {
    let builder = PrivatePmcd::with([]);
    let port = free_port();
    let seat = Seat::in_dir(builder.dir(), &format!("{KEEP}[otlp]\nlisten = '127.0.0.1:{port}'\n"));
    let mut pmcd = builder.agent(seat.agent(Transport::Pipe)).start();
    pmcd.wait_ready("jumpseat");
    with_senders(&seat, port, || {
        for nth in 0..RESTARTS {
            let before = agent_pid(&pmcd);
            match nth % 5 {
                4 => pmcd.restart(),
                3 => kill(before, Signal::SIGKILL).expect("it runs"),
                2 => kill(before, Signal::SIGTERM).expect("it runs"),
                _ => _ = pmcd.run("pmstore", ["jumpseat.control.handover", "1"]).ok(),
            }
            eventually("another agent", || {
                let now = pmcd.value("jumpseat.self.pid").and_then(|pid| pid.parse::<i32>().ok());
                if now.is_none() {
                    // As an upgrade does.
                    pmcd.reconfigure();
                }
                now.filter(|now| *now != before.as_raw())
            });
        }
        let held = pmcd.value("jumpseat.control.handover");
        assert_eq!(held.as_deref(), Some("2"), "{}", seat.log());
    });
    assert_eq!(keepers(pmcd.dir()).len(), 1, "each has ended when it was relieved");
}

/// Kills the agent, and waits for its end.
#[track_caller]
fn crash(pmcd: &PrivatePmcd) {
    let pid = agent_pid(pmcd);
    kill(pid, Signal::SIGKILL).expect("it runs");
    // pmcd has not waited for it yet.
    eventually("its end", || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        (stat.is_empty() || stat.contains(") Z")).then_some(())
    });
}

/// Whether somebody who connects is refused.
fn is_refused(path: &Path) -> bool {
    UnixStream::connect(path).is_err()
}

#[test]
fn where_no_agent_comes_nothing_is_left_after_a_while() {
    let builder = PrivatePmcd::with([]);
    let port = free_port();
    let settings = format!("[handover]\nkeep = '1s'\n[otlp]\nlisten = '127.0.0.1:{port}'\n");
    let seat = Seat::in_dir(builder.dir(), &settings);
    let pmcd = builder.agent(seat.agent(Transport::Pipe)).start();
    pmcd.wait_ready("jumpseat");
    crash(&pmcd);
    assert!(!is_refused(&seat.socket()) && is_listening(port), "for a second");
    assert_eq!(keepers(pmcd.dir()).len(), 1);
    eventually("nothing is left", || keepers(pmcd.dir()).is_empty().then_some(()));
    assert!(!seat.socket().exists() && !is_listening(port));
    let left: Vec<_> = fs::read_dir(seat.state_dir()).expect("it is there").flatten().collect();
    assert!(!left.iter().any(|entry| entry.file_name().to_string_lossy().contains("keeper")), "{left:?}");
}

#[test]
fn what_is_removed_on_purpose_leaves_nothing_at_once() {
    let builder = PrivatePmcd::with([]);
    let seat = Seat::in_dir(builder.dir(), KEEP);
    let pmcd = builder.agent(seat.agent(Transport::Pipe)).start();
    pmcd.wait_ready("jumpseat");
    let mut args = vec!["--let-go".to_owned()];
    args.extend(seat.args());
    // As for a Remove that comes before the agent has ended.
    PcpEnv::new().run(PMDA, &args).ok();
    assert!(!is_refused(&seat.socket()), "the agent goes on");
    crash(&pmcd);
    eventually("nothing is left", || keepers(pmcd.dir()).is_empty().then_some(()));
    assert!(!seat.socket().exists());
    // And after it has.
    let mut pmcd = pmcd;
    eventually("pmcd to notice", || pmcd.value("pmcd.sighups"));
    pmcd.reconfigure();
    pmcd.wait_ready("jumpseat");
    crash(&pmcd);
    assert!(!is_refused(&seat.socket()));
    PcpEnv::new().run(PMDA, &args).ok();
    assert!(!seat.socket().exists(), "when the command returns");
    eventually("nothing is left", || keepers(pmcd.dir()).is_empty().then_some(()));
    // Where there is nobody, nothing is wrong.
    PcpEnv::new().run(PMDA, &args).ok();
}

#[test]
fn the_next_agent_takes_what_is_configured_for_it_and_closes_the_rest() {
    let dir = temp_dir();
    let (first, second) = (free_port(), free_port());
    let base = |otlp: u16| format!("{KEEP}[otlp]\nlisten = '127.0.0.1:{otlp}'\n");
    let other = dir.path().join("other.socket");
    let tables = format!("[[socket]]\npath = {other:?}\nsource = 'other'\n");
    let seat = Seat::in_dir(dir.path(), &format!("{}{tables}", base(first)));
    let mut agent = seat.serve([]);
    agent.process.crash();
    assert!(!is_refused(&other) && is_listening(first));
    // What waits for the next agent is not in its way.
    let config = seat.config().display().to_string();
    let check = PcpEnv::new().run(JUMPSEAT, ["config", "check", "-U", &user(), &config]).ok();
    assert!(check.contains(": no errors"), "{check}");
    // Somebody has put a socket of their own in the place of the agent's: it is not taken for it.
    fs::remove_file(seat.socket()).expect("it was left");
    let squatter = std::os::unix::net::UnixListener::bind(seat.socket()).expect("free");
    let mut refused = PcpEnv::new().command(JUMPSEAT);
    refused.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(seat.config());
    let mut refused = Process::start(&mut refused, dir.path(), "refused");
    assert!(!refused.wait().success());
    assert!(refused.text().contains("another process listens there"), "{}", refused.text());
    drop(squatter);
    // The rest was left to the next one all the same.
    assert!(!is_refused(&other) && is_listening(first));
    Seat::in_dir(dir.path(), &base(second));
    let agent = seat.serve([]);
    assert!(is_listening(second));
    eventually("the rest to be closed", || {
        (is_refused(&other) && !other.exists() && !is_listening(first)).then_some(())
    });
    let shown = agent.run("pminfo", ["-f", "jumpseat.control.handover"]).ok();
    assert!(shown.contains("value 2"), "{shown}");
    // Without anybody to start it again, it does not end.
    let store = agent.run("pmstore", ["jumpseat.control.handover", "1"]);
    assert!(!store.stdout.contains("new value=\"1\"\n") || store.stderr.contains("denied"), "{store:?}");
    seat.feed([], "{\"n\":1}\n").ok();
}

#[test]
fn a_keeper_of_another_version_gives_way_and_strangers_get_nothing() {
    let dir = temp_dir();
    let port = free_port();
    let seat = Seat::in_dir(dir.path(), &format!("{KEEP}[otlp]\nlisten = '127.0.0.1:{port}'\n"));
    let mut agent = seat.serve([]);
    let door = seat.state_dir().join("jumpseat-400-keeper.socket");
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&door).expect("it is there").permissions());
    assert_eq!(mode & 0o777, 0o600);
    let say = |bytes: &[u8]| {
        let mut stream = UnixStream::connect(&door).expect("it is ours");
        stream.write_all(bytes).expect("sent");
        stream.shutdown(Shutdown::Write).expect("sent");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    let visit = |text: &str| {
        let mut bytes = vec![b'v', text.len() as u8, 0];
        bytes.extend_from_slice(text.as_bytes());
        say(&bytes)
    };
    // While the agent runs nobody gets what is its own, whatever they say.
    assert!(visit("1 take").contains("still runs"));
    assert!(visit("1 look").contains("alive"));
    for garbage in [&b""[..], b"v", b"v\xff\xff", b"?????", b"h\x05\0tcp,1", b"s\x02\0{}"] {
        assert_eq!(say(garbage), "");
    }
    seat.feed([], "{\"n\":1}\n").ok();
    agent.process.crash();
    assert!(visit("1 look").contains("alone"));
    // One who takes it all and does not say that it has come: it is there for the next.
    assert!(visit("1 take").contains("tcp,127.0.0.1"));
    assert!(is_listening(port));
    assert!(visit("2 take").contains("another version"));
    eventually("its end", || keepers(dir.path()).is_empty().then_some(()));
    let _agent = seat.serve([]);
    seat.feed([], "{\"n\":2}\n").ok();
    assert_eq!(numbers(&seat, SOURCE), [1, 2]);
}

#[test]
fn another_user_than_root_leaves_its_sockets_to_itself() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let dir = temp_dir();
    let nobody = nix::unistd::User::from_name("nobody").expect("a system").expect("nobody");
    let seat = Seat::in_dir(dir.path(), KEEP);
    for place in [dir.path().to_owned(), seat.state_dir()] {
        nix::unistd::chown(&place, Some(nobody.uid), Some(nobody.gid)).expect("root may");
    }
    for round in 0..3 {
        let mut agent = seat.serve(["--user", "nobody"]);
        let keepers = keepers(dir.path());
        let owner = |pid: &Pid| {
            std::os::unix::fs::MetadataExt::uid(&fs::metadata(format!("/proc/{pid}")).expect("it runs"))
        };
        assert_eq!(keepers.iter().map(owner).collect::<Vec<_>>(), [nobody.uid.as_raw()]);
        let status = fs::read_to_string(format!("/proc/{}/status", keepers[0])).expect("it runs");
        for part in ["CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"] {
            assert!(status.contains(part), "{part}: {status}");
        }
        if round > 0 {
            assert!(agent.process.text().contains("goes on where the agent before has listened"));
        }
        agent.process.crash();
        assert!(!is_refused(&seat.socket()));
    }
}

/// An agent of its own at a port that is given.
fn serve(seat: &Seat, dir: &Path, port: u16) -> Process {
    let mut command = PcpEnv::new().command(JUMPSEAT);
    let unix = format!("unix:{}", dir.join("pcp.socket").display());
    command.args(["serve", "--listen", &format!("127.0.0.1:{port}"), "--listen", &unix, "--config"]);
    Process::start(command.arg(seat.config()), dir, "serve")
}

#[test]
fn fifty_restarts_of_an_agent_of_its_own_refuse_nobody_and_lose_nothing() {
    let dir = temp_dir();
    let (port, otlp) = (free_port(), free_port());
    let seat = Seat::in_dir(dir.path(), &format!("{KEEP}[otlp]\nlisten = '127.0.0.1:{otlp}'\n"));
    let mut agent = serve(&seat, dir.path(), port);
    eventually("it listens", || is_listening(port).then_some(()));
    eventually("it listens", || dir.path().join("pcp.socket").exists().then_some(()));
    // PCP's clients are not refused either: each is told something by the agent, sooner or later, or is cut off.
    let path = dir.path().join("pcp.socket");
    let clients = Again::start(move |number| {
        let mut first = [0; 4];
        if number % 2 == 0 {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("nobody is refused");
            let _ = stream.read_exact(&mut first);
        } else {
            let mut stream = UnixStream::connect(&path).expect("nobody is refused");
            let _ = stream.read_exact(&mut first);
        }
    });
    with_senders(&seat, otlp, || {
        for nth in 0..RESTARTS {
            match nth % 2 {
                0 => agent.crash(),
                _ => _ = agent.stop(),
            }
            agent = serve(&seat, dir.path(), port);
            let host = format!("127.0.0.1:{port}");
            let shown = PcpEnv::new().run("pminfo", ["-h", &host, "-f", "jumpseat.control.handover"]);
            assert!(shown.stdout.contains("value 4"), "restart {nth}: {shown:?}\n{}", agent.text());
        }
    });
    assert!(clients.finish() > RESTARTS as u64);
    assert_eq!(keepers(dir.path()).len(), 1);
    // Somebody at a terminal ends it for good: nothing is left.
    agent.signal(Signal::SIGINT);
    agent.wait();
    eventually("nothing is left", || {
        let gone = !is_listening(port) && !is_listening(otlp) && !seat.socket().exists();
        (gone && keepers(dir.path()).is_empty()).then_some(())
    });
    assert!(!dir.path().join("pcp.socket").exists());
}

#[test]
fn senders_on_a_network_wait_for_the_next_agent_and_lose_nothing() {
    let dir = temp_dir();
    let (port, events) = (free_port(), free_port());
    let certificates = Certificates::new();
    let (token, secret) = (dir.path().join("token"), "correct-horse-battery");
    for (path, text) in [(&token, secret.to_owned()), (&dir.path().join("tokens"), format!("far {secret}\n"))]
    {
        fs::write(path, text).expect("the directory is ours");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(path, mode).expect("the file is ours");
    }
    let (certificate, key) = (certificates.text("pcp.crt"), certificates.text("pcp.key"));
    let far = format!(
        "[[socket]]\nlisten = 'localhost:{events}'\ntoken_file = 'tokens'\ntls = {{ certificate = {certificate:?}, key = {key:?} }}\n"
    );
    let seat = Seat::in_dir(dir.path(), &format!("{KEEP}{far}"));
    let address = format!("localhost:{events}");
    let mut agent = serve(&seat, dir.path(), port);
    eventually("it listens", || (is_listening(port) && is_listening(events)).then_some(()));
    let remote = Remote::to(&address).ca(certificates.path("ca.crt")).token_file(&token);
    let sender = remote_sender(remote.clone());
    let (program, guard) = traced_program(remote);
    let (ca, file) = (certificates.text("ca.crt"), token.display().to_string());
    let feed = Feed::start(&["--connect", &address, "--ca", &ca, "--token-file", &file, "--source", "fed"]);
    let times = Arc::clone(&sender.times);
    for nth in 0..RESTARTS / 5 {
        match nth % 2 {
            0 => agent.crash(),
            _ => _ = agent.stop(),
        }
        assert!(is_listening(events), "restart {nth}: the keeper holds it");
        let before = times.load(Ordering::Relaxed);
        agent = serve(&seat, dir.path(), port);
        let host = format!("127.0.0.1:{port}");
        let shown = PcpEnv::new().run("pminfo", ["-h", &host, "-f", "jumpseat.control.handover"]);
        assert!(shown.stdout.contains("value "), "restart {nth}: {shown:?}\n{}", agent.text());
        assert!(!shown.stdout.contains("value 0"), "restart {nth}: {shown:?}\n{}", agent.text());
        // Who has waited at the listener is served by the next one.
        eventually("events go on", || (times.load(Ordering::Relaxed) > before + 2).then_some(()));
    }
    let (sent, traced, fed) = (sender.finish(), program.finish(), feed.finish());
    let patience = Duration::from_secs(30);
    eventually("all is acknowledged", || (guard.trouble().is_none() && guard.flush(patience)).then_some(()));
    assert_in_order(&seat, "fed", &numbers(&seat, "fed"), fed);
    assert_in_order(&seat, "traced", &numbers(&seat, "traced"), traced);
    // Without numbers known to the agent, an event that was taken but not answered is there twice.
    let mut found = numbers(&seat, "remote");
    found.dedup();
    assert_in_order(&seat, "remote", &found, sent);
    assert!(sent > 20 && fed > 20 && traced > 20, "{sent} {fed} {traced}");
}

#[test]
fn systemd_holds_the_sockets_of_its_unit_and_a_store_has_it_start_the_agent_anew() {
    let dir = temp_dir();
    let (port, otlp) = (free_port(), free_port());
    let settings = |otlp: u16| format!("[handover]\nkeep = '0s'\n[otlp]\nlisten = '127.0.0.1:{otlp}'\n");
    let seat = Seat::in_dir(dir.path(), &settings(otlp));
    let unix = format!("unix:{}", dir.path().join("pcp.socket").display());
    let mut command = Command::new("python3");
    command
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/systemd.py"))
        .arg(dir.path().join("notify"));
    command.args([
        JUMPSEAT,
        "serve",
        "--fd-store",
        "--listen",
        &format!("127.0.0.1:{port}"),
        "--listen",
        &unix,
    ]);
    command.arg("--config").arg(seat.config());
    let mut systemd = Process::start(&mut command, dir.path(), "systemd");
    let value = |name: &str| {
        let shown = PcpEnv::new().run("pminfo", ["-h", &unix, "-f", name]).stdout;
        shown.lines().find_map(|line| line.strip_prefix("    value ")).map(str::to_owned)
    };
    let restart = || {
        let before = eventually("the agent", || value("jumpseat.self.pid"));
        PcpEnv::new().run("pmstore", ["-h", &unix, "jumpseat.control.handover", "1"]).ok();
        let another = || value("jumpseat.self.pid").filter(|now| *now != before);
        eventually("another agent", another);
    };
    eventually("the agent", || value("jumpseat.self.pid"));
    with_senders(&seat, otlp, || {
        for _ in 0..RESTARTS / 2 {
            restart();
            assert_eq!(value("jumpseat.control.handover").as_deref(), Some("4"), "{}", systemd.text());
        }
    });
    assert!(keepers(dir.path()).is_empty());
    // What is not configured any more is taken back.
    let other = free_port();
    Seat::in_dir(dir.path(), &settings(other));
    restart();
    assert!(is_listening(other) && !is_listening(otlp));
    assert_eq!(value("jumpseat.control.handover").as_deref(), Some("4"), "{}", systemd.text());
    // And so it is by a reload, which listens there anew.
    let same = fs::read_to_string(seat.config()).expect("it is there");
    let text = same.replace("[otlp]\n", "[otlp]\nmax_connections = 17\n");
    fs::write(seat.config(), text).expect("writable");
    PcpEnv::new().run("pmstore", ["-h", &unix, "jumpseat.control.reload", "1"]).ok();
    let done = || systemd.text().matches("sources are as configured").count() == 1;
    eventually("the reload", || done().then_some(()));
    assert!(is_listening(other) && !systemd.text().contains("not started"), "{}", systemd.text());
    assert!(systemd.stop().success(), "{}", systemd.text());
    assert!(!is_listening(port) && !is_listening(other));
}

#[test]
fn what_takes_a_start_is_told_by_a_reload_and_comes_with_a_handover() {
    let builder = PrivatePmcd::with([]);
    let dir = builder.dir().to_owned();
    let seat = Seat::in_dir(&dir, KEEP);
    let mut pmcd = builder.agent(seat.agent(Transport::Pipe)).start();
    pmcd.wait_ready("jumpseat");
    let more = "[events]\nmax_types = 77\n[[command]]\nrun = 'echo x; sleep 1000'\nsource = 'cmd'\n";
    Seat::in_dir(&dir, &format!("{KEEP}{more}"));
    pmcd.run("pmstore", ["jumpseat.control.reload", "1"]).ok();
    let advice = "for what takes a start: pmstore jumpseat.control.handover 1";
    for part in
        [advice, "events.max_types: 4096 -> 77", "restart the agent (pmstore jumpseat.control.handover 1)"]
    {
        eventually(part, || seat.log().contains(part).then_some(()));
    }
    // Who may not change the agent does not end it, and nothing but 1 does.
    pmcd.run("pmstore", ["jumpseat.control.handover", "2"]).fails(1);
    let before = agent_pid(&pmcd);
    let waiting = UnixStream::connect(seat.socket()).expect("it is served");
    pmcd.run("pmstore", ["jumpseat.control.handover", "1"]).ok();
    eventually("its end", || seat.log().contains("ends for the next agent").then_some(()));
    eventually("the next agent", || {
        let now = pmcd.value("jumpseat.self.pid").and_then(|pid| pid.parse::<i32>().ok());
        if now.is_none() {
            pmcd.reconfigure();
        }
        now.filter(|now| *now != before.as_raw())
    });
    drop(waiting);
    eventually("the command's output", || {
        let received = pmcd.run("pminfo", ["-f", "jumpseat.source.received"]).stdout;
        received.contains("\"cmd\"] value 1").then_some(())
    });
    // Where nobody keeps the sockets open, a store does not close them.
    Seat::in_dir(&dir, "");
    let before = agent_pid(&pmcd);
    kill(before, Signal::SIGTERM).expect("it runs");
    eventually("the next agent", || {
        let now = pmcd.value("jumpseat.self.pid").and_then(|pid| pid.parse::<i32>().ok());
        if now.is_none() {
            pmcd.reconfigure();
        }
        now.filter(|now| *now != before.as_raw())
    });
    pmcd.run("pmstore", ["jumpseat.control.handover", "1"]).fails(1);
    let refused = pmcd.run("pminfo", ["-f", "jumpseat.control.refused"]).ok();
    assert!(refused.contains("nobody keeps its sockets open meanwhile"), "{refused}");
    assert!(keepers(&dir).is_empty());
}
