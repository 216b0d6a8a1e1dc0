//! Requests that nobody should send: each has an answer in the form of the protocol, and nobody else notices.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use support::{eventually, temp_dir};

use super::Sample;
use crate::replay::ARCHIVES;
use crate::web_support::{Answer, Web};

fn expect_refusal(answer: &Answer, statuses: &[u16], what: &str) {
    let json: Json = serde_json::from_slice(&answer.body)
        .unwrap_or_else(|error| panic!("{what}: {error}: {}", answer.text()));
    assert!(statuses.contains(&answer.status), "{what}: {} {json}", answer.status);
    assert!(json["success"] == false && json["message"].is_string(), "{what}: {json}");
}

#[test]
fn bad_requests_are_refused_in_the_form_of_the_protocol() {
    let sample = Sample::start(&["--allow-store"]);
    let web = &sample.web;
    let number = web.json("/pmapi/context?polltimeout=60")["context"].clone();
    let long = "x".repeat(7000);
    let many = |item: &str, count: usize| vec![item; count].join(",");
    for path in [
        "/pmapi/fetch?names=%zz".to_owned(),
        "/pmapi/fetch?names=%ff".to_owned(),
        "/pmapi/fetch?names".to_owned(),
        format!("/pmapi/fetch?name={long}"),
        format!("/pmapi/fetch?context={long}&names=a"),
        format!("/pmapi/fetch?context={}&names=a", u64::MAX),
        "/pmapi/fetch?context=-1&names=a".to_owned(),
        "/pmapi/fetch?context=%00&names=a".to_owned(),
        "/pmapi/nosuch".to_owned(),
        format!("/pmapi/{long}/fetch?names=a"),
        "/pmapi/..%2fcontext".to_owned(),
        format!("/pmapi/children?prefix={long}"),
        "/pmapi/children?prefix=..".to_owned(),
        format!("/pmapi/metric?name={long}"),
        format!("/pmapi/{number}/indom?name=sample.bin&match=regex&iname={}", "(".repeat(500)),
        format!("/pmapi/{number}/indom?name=sample.bin&match=regex&iname=a%7B32767%7D%7B32767%7D"),
        format!("/pmapi/{number}/indom?name=sample.bin&match=glob&iname={}", many("*", 500)),
        format!("/pmapi/{number}/indom?name=sample.bin&match=glob&iname={}", "*a".repeat(1000)),
        format!("/pmapi/{number}/indom?indom=511.4194304"),
        format!("/pmapi/{number}/profile?expr=add&indom=29.2&instance={}", many("x", 100)),
        format!("/pmapi/{number}/derive?name=a&expr={}", "(".repeat(5000)),
        format!("/pmapi/{number}/derive?name={long}&expr=%%"),
        format!("/pmapi/{number}/derive?name=b&expr={}", many("1", 1000)),
        format!("/pmapi/{number}/derive?expr={}", "%0A=".repeat(1000)),
        format!("/pmapi/{number}/store?name=sample.long.write_me&value=99999999999999"),
        format!("/pmapi/{number}/store?name=sample.long.write_me&value={long}"),
        format!("/pmapi/{number}/store?name=sample.bin&instance={}&value=1", many("7", 1000)),
        format!("/pmapi/{number}/fetch?names=sample.long.one&time=1"),
        "/pmapi/context?hostspec=%22%00%ff".to_owned(),
        "/pmapi/context?hostspec=".to_owned(),
        "/pmapi/context?polltimeout=nan".to_owned(),
        "/pmapi/context?polltimeout=-1".to_owned(),
        "/metrics?names=none".to_owned(),
        "/metrics?filter=(&match=regex&names=sample.long.one".to_owned(),
        format!("/pmapi/context?{}", "a&".repeat(3000)).replace("a&", "a1&"),
    ] {
        let answer = web.get(&path);
        let shown: String = path.chars().take(120).collect();
        if path.contains("a1&") {
            // One name, many times: the first counts.
            assert_eq!(answer.status, 414, "{shown}");
            continue;
        }
        expect_refusal(&answer, &[400, 414], &shown);
    }
    // Images on pages of others.
    let image = format!("/pmapi/{number}/store?name=sample.long.write_me&value=99");
    for header in [("Referer", "http://evil.example/"), ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64)")] {
        expect_refusal(&web.ask("GET", &image, &[header], b""), &[403], header.0);
    }
    // Parameters beyond all measure, and bodies.
    let pairs: String = (0..1500).map(|n| format!("{n:x}&")).collect();
    expect_refusal(&web.get(&format!("/pmapi/context?{pairs}")), &[400], "many parameters");
    let names = format!("names={}", many("sample.long.one", 70_000));
    expect_refusal(&web.ask("POST", "/pmapi/fetch", &[], names.as_bytes()), &[400, 413], "many names");
    let mut distinct = String::from("names=sample.long.one");
    (0..60_000).for_each(|n| distinct.push_str(&format!(",n{n}")));
    let answer = web.ask("POST", "/pmapi/fetch", &[], distinct.as_bytes());
    assert_eq!(
        (answer.status, answer.json()["values"].as_array().map(Vec::len)),
        (200, Some(1)),
        "unknown names are left out"
    );
    let large = vec![b'x'; 3 << 20];
    for path in ["/pmapi/derive", "/pmapi/store?name=sample.string.write_me", "/pmapi/fetch"] {
        expect_refusal_or_end(web, path, &large);
    }
    expect_refusal(&web.ask("POST", "/pmapi/derive", &[], b"\xff\xfe=\x00"), &[400], "no text");
    expect_refusal(
        &web.ask("POST", "/pmapi/fetch", &[], b"{\"names\":\"a\"}"),
        &[400],
        "JSON where none is wanted",
    );
    for method in ["PUT", "DELETE", "TRACE", "PATCH", "X"] {
        expect_refusal(&web.ask(method, "/pmapi/context", &[], b""), &[405], method);
    }
    // Nothing else was hurt.
    let answer = web.json(&format!("/pmapi/{number}/fetch?names=sample.long.one"));
    assert_eq!(answer["values"][0]["instances"][0]["value"], 1);
    assert_eq!(sample.pmcd.value("sample.long.write_me").as_deref(), Some("13"));
    let log = sample.web.process.text();
    assert!(!log.contains("panicked"), "{log}");
}

/// Who sends too much may be cut off while sending.
fn expect_refusal_or_end(web: &Web, path: &str, body: &[u8]) {
    let mut stream = TcpStream::connect(("127.0.0.1", web.port)).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(&[head.as_bytes(), body].concat());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let text = String::from_utf8_lossy(&answer);
    assert!(
        text.is_empty() || text.starts_with("HTTP/1.1 413") || text.starts_with("HTTP/1.1 400"),
        "{text}"
    );
}

#[test]
fn only_hosts_that_were_named_are_connected_to() {
    let sample = Sample::start(&[]);
    let trap = TcpListener::bind("127.0.0.1:0").expect("a port");
    trap.set_nonblocking(true).expect("it can");
    let port = trap.local_addr().expect("it has one").port();
    for host in [
        format!("127.0.0.1:{port}"),
        format!("localhost@127.0.0.1:{port}"),
        format!("pcp://localhost:{port}"),
        "unix:/tmp/x".to_owned(),
    ] {
        let answer = sample.web.get(&format!("/pmapi/context?hostspec={host}"));
        expect_refusal(&answer, &[403, 400], &host);
    }
    assert!(trap.accept().is_err(), "nobody came");
}

#[test]
fn a_host_that_does_not_answer_costs_others_nothing() {
    // They take connections and say nothing.
    let silent: Vec<TcpListener> =
        (0..5).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    let port = |silent: &TcpListener| silent.local_addr().expect("it has one").port();
    let hosts: Vec<String> = silent.iter().map(|silent| format!("127.0.0.1:{}", port(silent))).collect();
    let mut args = vec!["-h", "local:"];
    hosts.iter().for_each(|host| args.extend(["-h", host]));
    let sample = Sample::start(&args);
    let port = sample.web.port;
    // More than the pool has places, and more than contexts are made at a time.
    for host in hosts.iter().cycle().take(100) {
        let request = format!("GET /pmapi/context?hostspec={host} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        thread::spawn(move || {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
            let _ = stream.write_all(request.as_bytes());
            let _ = stream.read(&mut [0; 1024]);
        });
    }
    thread::sleep(Duration::from_millis(500));
    let begin = Instant::now();
    for _ in 0..20 {
        let answer = sample.web.json("/pmapi/fetch?names=sample.long.one");
        assert_eq!(answer["values"][0]["instances"][0]["value"], 1);
    }
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    drop(silent);
}

#[test]
fn a_host_that_is_down_is_not_dialled_for_each_request() {
    // Takes connections and hangs up.
    let closing = TcpListener::bind("127.0.0.1:0").expect("a port");
    let host = format!("127.0.0.1:{}", closing.local_addr().expect("it has one").port());
    let dialled = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&dialled);
    thread::spawn(move || {
        for stream in closing.incoming().flatten() {
            noted.lock().expect("nobody panics").push(Instant::now());
            drop(stream);
        }
    });
    let dir = temp_dir();
    let web = Web::start(dir.path(), &["-h", &host]);
    let refused = |attributes: &str| {
        let answer = web.get(&format!("/pmapi/fetch?hostspec={host}%3F{attributes}&names=sample.long.one"));
        expect_refusal(&answer, &[400], "it is down");
        answer.text()
    };
    let dialled = || dialled.lock().expect("nobody panics").len();
    // Whoever asks, for whichever container: it is the same host.
    for attributes in ["container%3Dc", "password%3Dsecret%26username%3Du"] {
        let (before, begun) = (dialled(), Instant::now());
        let first = refused(&format!("{attributes}0"));
        let for_one = dialled() - before;
        assert!(for_one > 0 && first.contains("cannot connect to PMCD"), "{first}");
        for number in 1..=30 {
            assert_eq!(refused(&format!("{attributes}{number}")), first, "as the attempt was answered");
        }
        // Once a second, however many ask.
        let most = for_one * (2 + begun.elapsed().as_secs() as usize);
        let count = dialled() - before;
        assert!(count <= most, "{count} times, {for_one} for the first");
    }
}

#[test]
fn contexts_are_bounded_and_come_back() {
    let sample = Sample::start(&[]);
    let web = &sample.web;
    // Many more than a collector has places for at a time are no problem.
    let numbers: Vec<Json> =
        (0..200).map(|_| web.json("/pmapi/context?polltimeout=120")["context"].clone()).collect();
    let distinct: std::collections::BTreeSet<String> = numbers.iter().map(Json::to_string).collect();
    assert_eq!(distinct.len(), 200);
    for number in numbers.iter().step_by(20) {
        assert_eq!(web.json(&format!("/pmapi/{number}/fetch?names=sample.long.one"))["context"], *number);
    }
    // One that nobody has used for longer than it says is gone.
    let short = web.json("/pmapi/context?polltimeout=0.001")["context"].clone();
    eventually("it is put away", || {
        let answer = web.get(&format!("/pmapi/{short}/context"));
        (answer.json()["message"] == format!("unknown context identifier: {short}")).then_some(())
    });
}

/// How many clients the collector has.
pub(super) fn clients(sample: &Sample) -> usize {
    sample.pmcd.run("pminfo", ["-f", "pmcd.client.start_date"]).ok().matches("inst [").count()
}

#[test]
fn archives_have_so_many_contexts_and_no_more() {
    let dir = temp_dir();
    let archive = format!("{ARCHIVES}/eventrec");
    let web = Web::start(dir.path(), &["-a", &archive]);
    let path = format!("/pmapi/_context?archivefile={archive}&polltimeout=600");
    let mut stream = TcpStream::connect(("127.0.0.1", web.port)).expect("it listens");
    let mut made = 0;
    // On one connection, as clients do it.
    loop {
        stream
            .write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())
            .expect("it reads");
        let mut part = [0; 2048];
        let len = stream.read(&mut part).expect("it answers");
        let text = String::from_utf8_lossy(&part[..len]).into_owned();
        if !text.starts_with("HTTP/1.1 200") {
            assert!(
                text.starts_with("HTTP/1.1 503") && text.contains("64 contexts on archives are in use"),
                "{text}"
            );
            assert!(text.contains("\"success\":false"), "{text}");
            break;
        }
        made += 1;
        assert!(made <= 64, "{made}");
    }
    assert_eq!(made, 64);
}
