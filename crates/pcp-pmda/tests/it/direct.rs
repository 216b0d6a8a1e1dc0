//! The direct endpoint, no pmcd, asked by PCP's own tools.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::agent_support::wire::{self, answer, words};
use crate::agent_support::{Running, Serving};
use pcp_net::{Certificate, CertificateFiles};
use pcp_pmda::{Exit, Limits, Listen, Security};
use support::{Certificates, LoggerRun, PcpEnv, temp_dir};

fn run(server: &Running, program: &str, args: &[&str]) -> support::Output {
    let mut all = vec!["-h", server.host()];
    all.extend(args);
    PcpEnv::new().run(program, all)
}

#[test]
fn pminfo_shows_everything() {
    let server = Serving::tcp().start();
    let names = run(&server, "pminfo", &[]).ok();
    let mut names: Vec<&str> = names.lines().map(str::trim).collect();
    names.sort_unstable();
    for name in ["probe.count", "probe.dyn.add", "probe.set.size", "pmcd.hostname", "pmcd.client.whoami"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    let all = run(&server, "pminfo", &["-dfmtTl", "probe", "pmcd"]).ok();
    for text in [
        "probe.set.size PMID: 460.1.0 [Size of each thing]",
        "Data Type: 32-bit unsigned int  InDom: 460.3 0x73000003",
        "inst [1 or \"green two\"] value 20",
        "inst [2 or \"blue three\"] value \"blue three\"",
        "With PM_ERR_AGAIN.",
        "probe.dyn.add PMID: 460.8.1023 [dynamic metric 1023]",
        "value \"store a name here\"",
        "Error: Try again. Information not currently available",
        "labels {\"agent\":\"probe \\\"quoted\\\"\",\"cluster\":1,",
        "\"thing\":\"green two\"",
        "\"dynamic\":1023",
    ] {
        assert!(all.contains(text), "{text:?} in:\n{all}");
    }
}

#[test]
fn pminfo_shows_events() {
    let server = Serving::tcp().start();
    let events = run(&server, "pminfo", &["-xf", "probe.events"]).ok();
    let record =
        "timestamp 22:13:20.000 flags 0x1 (point) ---\n    probe.param (460.0.1)\n        value 42\n";
    assert!(events.contains(record), "{events}");
}

#[test]
fn pmprobe_pmval_and_pmstore() {
    let server = Serving::tcp().start();
    assert_eq!(run(&server, "pmprobe", &["-v", "probe.set.size"]).ok(), "probe.set.size 2 10 20\n");
    let instances = run(&server, "pmprobe", &["-I", "probe.set.name"]).ok();
    assert_eq!(instances, "probe.set.name 3 \"red one\" \"green two\" \"blue three\"\n");
    let values = run(&server, "pmval", &["-s", "2", "-t", "0.1", "probe.count"]).ok();
    assert!(values.contains("metric:    probe.count"), "{values}");
    run(&server, "pmstore", &["-i", "green", "probe.set.size", "33"]).ok();
    assert_eq!(run(&server, "pmprobe", &["-v", "probe.set.size"]).ok(), "probe.set.size 2 10 33\n");
    let refused = run(&server, "pmstore", &["probe.count", "1"]).fails(1);
    assert!(refused.contains("No permission"), "{refused}");
    let whole = run(&server, "pmval", &["-s", "1", "-i", "red", "probe.set.size"]).ok();
    assert!(whole.contains("red \n         10 \n"), "{whole}");
}

#[test]
fn names_that_appear_are_found() {
    let server = Serving::tcp().start();
    run(&server, "pmstore", &["probe.dyn.add", "new.leaf"]).ok();
    let info = run(&server, "pminfo", &["-f", "probe.dyn.new"]).ok();
    assert_eq!(info, "\nprobe.dyn.new.leaf\n    value 7\n");
    let missing = run(&server, "pminfo", &["-f", "probe.dyn.old"]).fails(1);
    assert!(missing.contains("Unknown metric name"), "{missing}");
}

#[test]
fn pmlogger_records_and_pmdumplog_reads() {
    let server = Serving::tcp().start();
    let env = PcpEnv::new();
    let metrics = ["probe.count", "probe.set", "probe.events", "probe.param"];
    let log = LoggerRun::start(&env, server.host(), &metrics, Duration::from_millis(200));
    let texts = ["probe.set.name", "\"green two\"", "460.3", "flags 0x1"];
    support::eventually("all of it in the archive", || {
        let dump = log.archive().dump(["-a"], []).stdout;
        texts.iter().all(|text| dump.contains(text)).then_some(())
    });
    let archive = log.finish();
    let dump = archive.dump(["-a"], []).ok();
    for text in texts {
        assert!(dump.contains(text), "{text} in:\n{dump}");
    }
}

#[test]
fn unix_socket_clients_have_attributes() {
    let dir = temp_dir();
    let path = dir.path().join("direct.socket");
    let serving =
        Serving { direct: Some(Listen::Unix { path: path.clone(), mode: 0o600 }), ..Serving::default() };
    let server = serving.start();
    let host = format!("unix:/{}", path.display());
    let uid = PcpEnv::new().run("pminfo", ["-h", &host, "-f", "probe.uid"]).ok();
    let expected = format!("value {}\n", nix::unistd::geteuid());
    assert!(uid.ends_with(&expected), "{uid}");
    let labels = PcpEnv::new().run("pminfo", ["-h", &host, "-l", "probe.count"]).ok();
    assert!(labels.contains("\"userid\":"), "{labels}");
    assert_eq!(server.stop(), Exit::Stopped);
    assert!(!path.exists());
}

#[test]
fn a_container_reaches_agent_and_labels() {
    let server = Serving::tcp().start();
    let host = format!("{}?container=my-box", server.host());
    let labels = PcpEnv::new().run("pminfo", ["-h", &host, "-l", "probe.count"]).ok();
    assert!(labels.contains("\"container\":\"my-box\""), "{labels}");
    let name = PcpEnv::new().run("pminfo", ["-h", &host, "-f", "pmcd.client.container"]).ok();
    assert!(name.contains("value \"my-box\""), "{name}");
}

/// Introduces itself as a client does.
fn hello(server: &Running) -> TcpStream {
    let (stream, challenge) = wire::hello(server.host());
    assert_eq!(challenge[16..], [0x02, 0x01, 0x0e, 0x40]);
    stream
}

const PROFILE: [u32; 7] = [28, 0x7002, 0, 0, 0, 0, 0];
const COUNT: u32 = 460 << 22;

#[test]
fn hundreds_of_clients_at_once() {
    let server = Serving::tcp().start();
    let mut clients: Vec<TcpStream> = (0..300).map(|_| hello(&server)).collect();
    for round in 0..3 {
        for client in &mut clients {
            client.write_all(&words(&PROFILE)).unwrap();
            client.write_all(&words(&[32, 0x7014, 0, 0, 0, 0, 1, COUNT])).unwrap();
        }
        for client in &mut clients {
            let result = answer(client);
            assert_eq!(result[4..8], words(&[0x7015]), "round {round}");
        }
    }
    assert!(run(&server, "pminfo", &["-f", "pmcd.numclients"]).ok().contains("value 301"));
    drop(clients);
    let ended = support::wait_until(Duration::from_secs(10), || {
        run(&server, "pminfo", &["-f", "probe.clients"]).ok().contains("value 30").then_some(())
    });
    assert!(ended.is_some(), "ends of clients are told");
}

#[test]
fn the_client_too_many_is_told() {
    let limits = Limits { clients: 1, ..Limits::default() };
    let server = Serving { limits: Some(limits), ..Serving::tcp() }.start();
    let _first = hello(&server);
    let refused = run(&server, "pminfo", &["-f", "probe.count"]).fails(1);
    assert!(refused.contains("connection limit"), "{refused}");
}

#[test]
fn slow_clients_are_dropped_and_others_never_wait() {
    let limits = Limits {
        body: Duration::from_millis(200),
        reading: Duration::from_millis(500),
        handshake: Duration::from_millis(300),
        ..Limits::default()
    };
    let server = Serving { limits: Some(limits), ..Serving::tcp() }.start();
    // One says nothing, one stops in the middle of a request, one never reads its answers.
    let mut silent = TcpStream::connect(server.host()).unwrap();
    let mut half = hello(&server);
    half.write_all(&words(&[32, 0x7014])).unwrap();
    let mut deaf = hello(&server);
    deaf.write_all(&words(&PROFILE)).unwrap();
    deaf.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut fetch = vec![28 + 4 * 16_000, 0x7014, 0, 0, 0, 0, 16_000];
    fetch.extend([460 << 22 | 1 << 10 | 1; 16_000]);
    let fetch = words(&fetch);
    let started = Instant::now();
    // Each answer is a megabyte or two; sooner or later the server stops reading, then closes.
    while deaf.write_all(&fetch).is_ok() {
        assert!(started.elapsed() < Duration::from_secs(30), "a client that does not read is dropped");
    }
    let mut rest = Vec::new();
    half.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
    silent.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    silent.read_to_end(&mut rest).unwrap();
    assert_eq!(rest.len(), 20, "nothing but the challenge");
    assert!(run(&server, "pminfo", &["-f", "probe.count"]).ok().contains("value"));
}

#[test]
fn errors_and_drops_are_those_of_pmcd() {
    let server = Serving::tcp().start();
    let ipc = |code: i32| words(&[16, 0x7000, 0, code as u32]);
    let cases: &[(&str, Vec<u8>, i32)] = &[
        ("unknown type", words(&[12, 0x7018, 0]), -12366),
        ("a reply", words(&[16, 0x7000, 0, 0]), -12366),
        ("short fetch", words(&[16, 0x7003, 0, 0]), -12366),
        ("fetch without profile", words(&[32, 0x7003, 0, 0, 0, 0, 1, COUNT]), -12381),
        ("context 64", words(&[28, 0x7002, 0, 64, 0, 0, 0]), -11),
        ("no names", words(&[24, 0x700e, 0, 0, 0, 0]), -12443),
        ("two ids", words(&[28, 0x700d, 0, 0, 2, COUNT, COUNT]), -12366),
        ("unknown domain", words(&[16, 0x7004, 0, 7 << 22]), -12358),
        ("unknown metric", words(&[16, 0x7004, 0, COUNT + 999]), -12358),
        ("name of unknown domain", words(&[24, 0x700d, 0, 0, 1, 7 << 22]), -12386),
        ("unknown instance domain", words(&[32, 0x7006, 0, COUNT, 0, 0, u32::MAX, 0]), -12359),
        ("text of unknown domain", words(&[20, 0x7008, 0, 7 << 22, 9]), -12358),
        ("text of neither", words(&[20, 0x7008, 0, COUNT, 1]), -12358),
        ("no text", words(&[20, 0x7008, 0, COUNT + 999, 5]), -12349),
        ("label type", words(&[20, 0x7012, 0, COUNT, 3]), -12397),
        ("labels of unknown domain", words(&[20, 0x7012, 0, 7, 2]), -12386),
        ("instance labels of unknown serial", words(&[20, 0x7012, 0, COUNT + 99, 0x20]), -12359),
        ("labels of unknown metric's domain", words(&[20, 0x7012, 0, 7 << 22, 0x10]), -12358),
        ("store to unknown domain", words(&[32, 0x7001, 0, 0, 0, 1, 7 << 22, 0]), -12386),
        ("store of nothing", words(&[24, 0x7001, 0, 0, 0, 0]), 0),
    ];
    let mut stream = hello(&server);
    for (what, request, code) in cases {
        stream.write_all(request).unwrap();
        assert_eq!(answer(&mut stream), ipc(*code), "{what}");
    }
    for (what, bytes) in [
        ("short length", words(&[8, 0x7003, 0])),
        ("negative length", words(&[u32::MAX, 0x7003, 0])),
        ("too long", words(&[65_540, 0x7003, 0])),
        ("type 0", words(&[16, 0, 0, 0])),
    ] {
        let mut stream = hello(&server);
        stream.write_all(&bytes).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty(), "{what}: closed without an answer");
    }
    let mut stream = TcpStream::connect(server.host()).unwrap();
    stream.write_all(&words(&[16, 0x7004, 0, COUNT])).unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert_eq!(rest.len(), 20, "the first PDU has to be CREDS");
}

#[test]
fn the_end_is_seen_behind_the_last_request() {
    let server = Serving::tcp().start();
    for _ in 0..100 {
        let mut stream = hello(&server);
        // The request and the end of the stream mostly arrive together.
        stream.write_all(&words(&[16, 0x7004, 0, COUNT])).unwrap();
    }
    let gone = support::wait_until(Duration::from_secs(10), || {
        run(&server, "pminfo", &["-f", "pmcd.numclients"]).ok().contains("value 1\n").then_some(())
    });
    assert!(gone.is_some(), "clients that have closed are gone");
}

/// The beginning of a record that a client may begin TLS with, and nothing behind it.
const HALF_A_HELLO: [u8; 9] = [22, 3, 1, 2, 0, 1, 0, 1, 0xfc];

#[test]
fn a_handshake_that_goes_no_further_gives_its_place_back() {
    let made = Certificates::new();
    let files =
        CertificateFiles { certificate: made.path("pcp.crt"), key: made.path("pcp.key"), client_ca: None };
    let certificate = Some(Certificate::load(&files).unwrap());
    let security = Security { certificate, ..Security::default() };
    let limits = Limits { clients: 1, handshake: Duration::from_millis(200), ..Limits::default() };
    for sent in [&[][..], &HALF_A_HELLO] {
        let server = Serving { limits: Some(limits), security: security.clone(), ..Serving::tcp() }.start();
        let mut stream = TcpStream::connect(server.host()).unwrap();
        let mut greeting = [0; 20];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(greeting[16..], [0x02, 0x01, 0x0e, 0x51], "TLS is on offer, and its start is told");
        stream.write_all(&words(&[20, 0x700c, 1, 1, 0x0102_0011])).unwrap();
        assert_eq!(answer(&mut stream)[12..], [0; 4], "the server is about to begin");
        stream.write_all(sent).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "it had to go");
        assert!(run(&server, "pminfo", &["-f", "probe.count"]).ok().contains("value"));
    }
}

#[test]
fn a_client_that_asks_for_nothing_gives_way_when_all_places_are_taken() {
    let limits = Limits { clients: 2, idle: Duration::ZERO, ..Limits::default() };
    let server = Serving { limits: Some(limits), ..Serving::tcp() }.start();
    let mut silent = hello(&server);
    let mut busy = hello(&server);
    busy.write_all(&words(&PROFILE)).unwrap();
    busy.write_all(&words(&[32, 0x7014, 0, 0, 0, 0, 1, COUNT])).unwrap();
    answer(&mut busy);
    assert!(run(&server, "pminfo", &["-f", "probe.count"]).ok().contains("value"));
    silent.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(silent.read(&mut [0; 1]).unwrap(), 0, "it had to go");
    busy.write_all(&words(&[32, 0x7014, 0, 0, 0, 0, 1, COUNT])).unwrap();
    assert_eq!(answer(&mut busy)[4..8], words(&[0x7015]));
}

/// The profile of a context, with as many instances as fit into a PDU, and what is answered to a fetch with it.
fn large_profile(client: &mut TcpStream, context: u32) -> Vec<u8> {
    const INSTANCES: u32 = 16_000;
    let mut profile = vec![44 + 4 * INSTANCES, 0x7002, 0, context, 0, 1, 0, 460 << 22 | 1, 0, INSTANCES, 0];
    profile.extend(0..INSTANCES);
    client.write_all(&words(&profile)).unwrap();
    client.write_all(&words(&[32, 0x7014, 0, context, 0, 0, 1, COUNT])).unwrap();
    answer(client)
}

#[test]
fn the_profiles_of_all_clients_have_a_limit() {
    let server = Serving::tcp().start();
    let mut clients = Vec::new();
    let refused = (0..40).find(|_| {
        let mut client = hello(&server);
        let refused = (0..4).any(|context| large_profile(&mut client, context)[4..8] == words(&[0x7000]));
        clients.push(client);
        refused
    });
    assert!(refused.is_some_and(|number| number >= 16), "{refused:?}: a million entries");
    // Room comes back with those who leave, and small ones were never refused for want of more.
    drop(clients);
    let taken = support::wait_until(Duration::from_secs(20), || {
        let mut client = hello(&server);
        (large_profile(&mut client, 0)[4..8] == words(&[0x7015])).then_some(())
    });
    assert!(taken.is_some());
}
