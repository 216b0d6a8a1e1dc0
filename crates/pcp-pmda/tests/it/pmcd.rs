//! Agents made with the framework, under a private pmcd and under dbpmda.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use crate::agent_support::wire::{self, answer, words};
use crate::agent_support::{PMNS, Serving};
use pcp_pmda::{Exit, PmcdOptions, Server, Transport};
use support::{AgentSpec, Dbpmda, PcpEnv, PmnsSource, PrivatePmcd, eventually, free_port, temp_dir, user};

const TRIVIAL_PMNS: &str = "
trivial { fetches TRIVIAL:0:0 uptime TRIVIAL:0:1 colour }
trivial.colour { wavelength TRIVIAL:1:0 brightness TRIVIAL:1:1 }
";

/// The example's program.
fn trivial() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| support::example("pcp-pmda", "trivial").display().to_string())
}

fn trivial_pmns() -> PmnsSource {
    PmnsSource::new("trivial", "TRIVIAL", TRIVIAL_PMNS)
}

/// The example's name space for dbpmda.
fn root(dir: &Path) -> PathBuf {
    let path = dir.join("root");
    let text = format!("root {{ trivial }}\n{}", TRIVIAL_PMNS.replace("TRIVIAL:", "450:"));
    std::fs::write(&path, text).unwrap();
    path
}

fn check_trivial(spec: AgentSpec) {
    let pmcd = PrivatePmcd::with([spec.with_pmns(trivial_pmns())]).start();
    pmcd.wait_ready("trivial");
    assert_eq!(pmcd.value("trivial.fetches").as_deref(), Some("1"), "{}", pmcd.logs());
    assert_eq!(pmcd.value("trivial.fetches").as_deref(), Some("2"));
    pmcd.run("pmstore", ["-i", "green", "trivial.colour.brightness", "75"]).ok();
    let refused = pmcd.run("pmstore", ["trivial.colour.brightness", "101"]).fails(1);
    assert!(refused.contains("Impossible value or scale conversion"), "{refused}");
    let probe = pmcd.run("pmprobe", ["-v", "trivial.colour"]).ok();
    assert!(probe.contains("trivial.colour.brightness 3 50 75 50\n"), "{probe}");
    let info = pmcd.run("pminfo", ["-dmtTl", "trivial.uptime"]).ok();
    for text in ["450.0.1", "Units: sec", "Seconds since it was started.", "\"agent\":\"trivial\""] {
        assert!(info.contains(text), "{text} in:\n{info}");
    }
}

#[test]
fn over_a_pipe() {
    check_trivial(AgentSpec::pipe("trivial", 450, &[trivial(), "-d", "450", "-U", &user()]));
}

#[test]
fn over_a_unix_socket() {
    let dir = temp_dir();
    let socket = dir.path().join("trivial.socket");
    let argv = [trivial(), "-d", "450", "-U", &user(), "-u", socket.to_str().unwrap()];
    check_trivial(AgentSpec::unix("trivial", 450, &socket, &argv));
}

#[test]
fn over_inet() {
    let port = free_port();
    let argv = [trivial(), "-d", "450", "-U", &user(), "-i", &port.to_string()];
    check_trivial(AgentSpec::inet("trivial", 450, port, &argv));
}

#[test]
fn the_log_is_one_of_pcps() {
    let dir = temp_dir();
    let (root, log) = (root(dir.path()), dir.path().join("x.log"));
    let argv = [trivial(), "-d", "450", "-U", &user(), "-l", log.to_str().unwrap()];
    for _ in 0..2 {
        Dbpmda::pipe(&PcpEnv::new(), &argv).namespace(&root).command("status").run();
    }
    for path in [log.clone(), PathBuf::from(format!("{}.prev", log.display()))] {
        let text = eventually("the log to be finished", || {
            std::fs::read_to_string(&path).ok().filter(|text| text.contains("\nLog finished "))
        });
        assert!(text.starts_with("Log for pmdatrivial on "), "{text}");
        assert!(text.contains(") Info: ending"), "{text}");
    }
}

#[test]
fn dbpmda_has_an_answer_to_every_command() {
    let dir = temp_dir();
    let root = root(dir.path());
    let log = dir.path().join("x.log");
    let argv = [trivial(), "-d", "450", "-U", &user(), "-l", log.to_str().unwrap()];
    let session = Dbpmda::pipe(&PcpEnv::new(), &argv).namespace(&root);
    let commands = [
        ("getdesc on", ""),
        ("desc trivial.uptime", "Data Type: double"),
        ("fetch trivial.fetches trivial.uptime", "numpmid: 2"),
        ("profile 450.0 none", ""),
        ("fetch trivial.colour.wavelength", "No values returned!"),
        ("profile 450.0 add 1", ""),
        ("fetch trivial.colour.brightness", "value 50"),
        ("store trivial.colour.brightness \"7\"", "50 -> 7"),
        ("profile 450.0 all", ""),
        ("profile 450.0 delete 1", ""),
        ("instance 450.0", "name: \"blue\""),
        ("instance 450.0 1", "name: \"green\""),
        ("instance 450.0 \"blue\"", "inst: 2"),
        ("instance 450.7", "Unknown or illegal instance domain identifier"),
        ("text trivial.uptime", "[How long the agent runs]"),
        ("text indom 450.0", "[Colours]"),
        ("children trivial", "non-leaf colour"),
        ("traverse trivial", "trivial.colour.wavelength"),
        ("pmid trivial.uptime", "450.0.1"),
        ("name 450.0.1", "trivial.uptime"),
        ("name 450.0.99", "Unknown or illegal metric identifier"),
        ("attr \"userid\" \"0\"", "Success"),
        ("label domain", "agent=\"trivial\""),
        ("label indom 450.0", "0 label sets"),
        ("label cluster 450.1", "0 label sets"),
        ("label item trivial.uptime", "0 label sets"),
        ("label instances 450.0", "Labels inst: 2"),
        ("status", "450"),
    ];
    let session = commands.iter().fold(session, |session, (command, _)| session.command(command));
    let transcript = session.run();
    for (command, expected) in commands {
        let found = transcript.answer(command).contains(expected) || transcript.stderr.contains(expected);
        assert!(found, "{command}: {expected}\n{}", transcript.whole);
    }
}

#[test]
fn wrong_options_end_with_usage() {
    let env = PcpEnv::new();
    let clash = env.run(trivial(), ["-i", "1", "-u", "/x"]).fails(1);
    assert!(clash.contains("pmdatrivial: -u option clashes with -i option\nUsage: pmdatrivial"), "{clash}");
    assert!(env.run(trivial(), ["--help"]).ok().is_empty(), "usage is for standard error");
}

/// The test agent in this process, pmcd connecting to its Unix socket.
fn probe(dir: &Path, options: PmcdOptions, stay: bool) -> (Serving, AgentSpec) {
    let socket = dir.join("probe.socket");
    let serving =
        Serving { pmcd: Some((Transport::Unix(socket.clone()), options, stay)), ..Serving::default() };
    let spec = AgentSpec::unix("probe", 460, &socket, &[]).with_pmns(PmnsSource::new("probe", "PROBE", PMNS));
    (serving, spec)
}

#[test]
fn everything_through_pmcd() {
    let dir = temp_dir();
    let options = PmcdOptions { identity: true, container: true, ..PmcdOptions::default() };
    let (serving, spec) = probe(dir.path(), options, false);
    let server = serving.start();
    let mut pmcd = PrivatePmcd::with([spec]).start();
    pmcd.wait_ready("probe");
    let all = pmcd.run("pminfo", ["-dfmtTl", "probe"]).ok();
    for text in [
        "inst [1 or \"green two\"] value 20",
        "Error: Try again. Information not currently available",
        "probe.dyn.add PMID: 460.8.1023 [dynamic metric 1023]",
        "\"thing\":\"green two\"",
    ] {
        assert!(all.contains(text), "{text:?} in:\n{all}");
    }
    // An error that would make pmcd drop the agent is sent as another.
    let gone = pmcd.run("pminfo", ["-f", "probe.gone"]).stdout;
    assert!(gone.contains("Generic error"), "{gone}");
    assert_eq!(pmcd.agent_status("probe"), Some(0));
    // Attributes of local clients, and none of others.
    assert_eq!(pmcd.value("probe.uid"), Some(nix::unistd::geteuid().to_string()));
    let remote = pmcd.run("pminfo", ["-h", &pmcd.inet(), "-f", "probe.uid"]).stdout;
    assert!(remote.contains("No value(s) available!"), "{remote}");
    // New names are found at once, and pmcd is told of them.
    pmcd.run("pmstore", ["probe.dyn.add", "fresh"]).ok();
    assert_eq!(pmcd.value("probe.dyn.fresh").as_deref(), Some("7"));
    let ended: u32 = pmcd.value("probe.clients").unwrap().parse().unwrap();
    assert!(ended >= 4, "{ended} clients of several have ended");
    let events = pmcd.run("pminfo", ["-xf", "probe.events"]).ok();
    assert!(events.contains("probe.param (460.0.1)\n        value 42"), "{events}");
    pmcd.stop();
    assert_eq!(server.join().unwrap(), Exit::PmcdGone);
}

#[test]
fn an_agent_that_stays_meets_the_next_pmcd() {
    let dir = temp_dir();
    let (serving, spec) = probe(dir.path(), PmcdOptions::default(), true);
    let server = serving.start();
    let mut pmcd = PrivatePmcd::with([spec]).start();
    pmcd.wait_ready("probe");
    assert_eq!(pmcd.value("probe.count").as_deref(), Some("1"));
    pmcd.stop();
    // pmcd removes the agent's socket; a pmcd that finds none when it starts does not look again.
    let socket = dir.path().join("probe.socket");
    eventually("the agent to listen again", || socket.exists().then_some(()));
    pmcd.restart();
    pmcd.wait_ready("probe");
    assert_eq!(pmcd.value("probe.count").as_deref(), Some("2"), "{}", pmcd.logs());
    assert_eq!(server.stop(), Exit::Stopped);
}

#[test]
fn the_end_of_pmcd_is_seen_behind_its_last_request() {
    for _ in 0..30 {
        let dir = temp_dir();
        let (serving, _) = probe(dir.path(), PmcdOptions::default(), false);
        let server = serving.start();
        let mut pmcd = UnixStream::connect(dir.path().join("probe.socket")).unwrap();
        pmcd.read_exact(&mut [0; 20]).unwrap();
        pmcd.write_all(&[0, 0, 0, 16, 0, 0, 0x70, 4, 0, 0, 0, 0, 0x73, 0, 0, 0]).unwrap();
        drop(pmcd);
        assert_eq!(server.join().unwrap(), Exit::PmcdGone);
    }
}

#[test]
fn an_agent_that_is_busy_says_so() {
    let dir = temp_dir();
    let (serving, spec) = probe(dir.path(), PmcdOptions::default(), false);
    let _server = Serving { not_ready: Some(Duration::from_secs(4)), ..serving }.start();
    let pmcd = PrivatePmcd::with([spec]).start();
    let early = pmcd.run("pminfo", ["-f", "probe.count"]).stdout;
    assert!(early.contains("Try again"), "{early}\n{}", pmcd.logs());
    eventually("the agent to be ready", || pmcd.value("probe.count"));
    assert_eq!(pmcd.agent_status("probe"), Some(0));
}

#[test]
fn a_signal_ends_it_in_order() {
    let dir = temp_dir();
    let (socket, log) = (dir.path().join("s"), dir.path().join("x.log"));
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let mut child = PcpEnv::new()
        .command(trivial())
        .args(["-U", &user(), "-u", &text(&socket), "-l", &text(&log)])
        .spawn()
        .unwrap();
    eventually("the socket", || socket.exists().then_some(()));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), nix::sys::signal::SIGTERM).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(!socket.exists());
    assert!(std::fs::read_to_string(&log).unwrap().contains("\nLog finished "));
}

#[test]
fn ipv6_is_served_on_loopback() {
    let port = free_port();
    let transport = Transport::Ipv6(port);
    if !support::has_ipv6() {
        let mut server = Server::new(crate::agent_support::agent(None)).unwrap();
        let error = server.serve_pmcd(&transport, PmcdOptions::default(), false).unwrap_err();
        assert!(error.to_string().starts_with("cannot talk to pmcd: "), "{error}");
        return;
    }
    let serving = Serving { pmcd: Some((transport, PmcdOptions::default(), false)), ..Serving::default() };
    let server = serving.start();
    let mut pmcd = TcpStream::connect(("::1", port)).unwrap();
    let mut creds = [0; 20];
    pmcd.read_exact(&mut creds).unwrap();
    assert_eq!(creds[16..], [1, 2, 0, 0]);
    drop(pmcd);
    assert_eq!(server.join().unwrap(), Exit::PmcdGone);
}

/// pmcd sends a profile before a label request too, numbered by the client and not by the context.
#[test]
fn each_context_of_each_client_keeps_its_profile() {
    let dir = temp_dir();
    let path = dir.path().join("probe.socket");
    let transport = Transport::Unix(path.clone());
    let serving = Serving { pmcd: Some((transport, PmcdOptions::default(), false)), ..Serving::default() };
    let _server = serving.start();
    let spec = AgentSpec::unix("probe", 460, &path, &[]).with_pmns(PmnsSource::new("probe", "PROBE", PMNS));
    let pmcd = PrivatePmcd::with([spec]).start();
    pmcd.wait_ready("probe");
    let host = format!("127.0.0.1:{}", pmcd.port());
    const NAMES: u32 = 460 << 22 | 1 << 10 | 1;
    const THINGS: u32 = 460 << 22 | 3;
    let ask = |stream: &mut TcpStream, pdu: &[u32]| {
        stream.write_all(&words(pdu)).unwrap();
        answer(stream)
    };
    let fetched = |stream: &mut TcpStream, context: u32| {
        let result = ask(stream, &[32, 0x7003, 0, context, 0, 0, 1, NAMES]);
        assert_eq!(result[4..8], words(&[0x7001]));
        result[31]
    };
    let mut clients = [wire::hello(&host).0, wire::hello(&host).0, wire::hello(&host).0];
    for stream in &mut clients {
        // Context 0: one instance; context 1: all.
        stream.write_all(&words(&[48, 0x7002, 0, 0, 0, 1, 0, THINGS, 1, 1, 0, 1])).unwrap();
        stream.write_all(&words(&[28, 0x7002, 0, 1, 0, 0, 0])).unwrap();
    }
    for round in 0..3 {
        for (slot, stream) in clients.iter_mut().enumerate() {
            let at = format!("client {slot}, round {round}");
            assert_eq!(fetched(stream, 0), 1, "{at}");
            assert_eq!(fetched(stream, 1), 3, "{at}");
            assert_eq!(fetched(stream, 0), 1, "{at}");
            let labels = ask(stream, &[20, 0x7012, 0, THINGS, 0x20]);
            assert_eq!(labels[4..8], words(&[0x7013]), "{at}");
            assert_eq!(fetched(stream, 0), 1, "{at}, after labels");
        }
    }
}
