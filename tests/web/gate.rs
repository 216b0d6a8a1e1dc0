//! Who may look: names, origins, passwords, tokens, certificates; and what a hostile client can keep from others.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use support::{Certificates, PcpEnv, eventually, free_port, temp_dir, user};

use crate::seat::JUMPSEAT;
use crate::web_support::{JUMPSEAT_WEB, Web};

/// A path that nothing is at: 404 means that the gate was passed.
const NOWHERE: &str = "/nowhere";

#[test]
fn beyond_this_machine_it_takes_a_certificate_and_people() {
    let dir = temp_dir();
    let certificates = Certificates::new();
    let (certificate, key) = (certificates.text("pcp.crt"), certificates.text("pcp.key"));
    let tokens = secrets(dir.path(), "tokens", "who 0123456789abcdef\n");
    for (words, tells) in [
        (vec![], "--certificate and --key, and --passwords or --tokens"),
        (vec!["--certificate", &certificate, "--key", &key], "--passwords or --tokens"),
        (vec!["--tokens", &tokens], "--certificate and --key"),
    ] {
        let listen = format!("0.0.0.0:{}", free_port());
        let all = [vec!["--listen", &listen, "-a", "/var/lib/pcp/testsuite/archives"], words].concat();
        let error = PcpEnv::new().run(JUMPSEAT_WEB, all).fails(1);
        assert!(error.contains("can be reached from other machines") && error.contains(tells), "{error}");
    }
}

#[test]
fn names_and_origins_of_others_are_refused() {
    let dir = temp_dir();
    let web = Web::start(dir.path(), &["--allow-origin", "https://grafana.example.com"]);
    let status = |headers: &[(&str, &str)]| web.ask("GET", NOWHERE, headers, b"").status;
    assert_eq!(status(&[]), 404);
    assert_eq!(status(&[("Host", "127.0.0.1")]), 404);
    assert_eq!(status(&[("Host", "rebound.example:44322")]), 403);
    assert_eq!(status(&[("Origin", "https://grafana.example.com")]), 404);
    assert_eq!(status(&[("Origin", "https://evil.example")]), 403);
    assert_eq!(status(&[("Sec-Fetch-Site", "cross-site")]), 403);
    let refused = web.ask("GET", NOWHERE, &[("Origin", "https://evil.example")], b"");
    let message = refused.json()["message"].to_string();
    assert!(message.contains("--allow-origin https://evil.example"), "{message}");
    // Each protocol has its own form of it.
    let jaeger = web.ask("GET", "/api/services", &[("Host", "evil")], b"");
    assert_eq!(jaeger.json()["errors"][0]["code"], 403);
    let loki = web.ask("GET", "/loki/api/v1/labels", &[("Host", "evil")], b"");
    assert!(loki.text().contains("--allow-name evil"), "{}", loki.text());
}

#[test]
fn people_log_in_with_passwords_and_tokens_that_can_be_revoked() {
    let dir = temp_dir();
    let passwords = dir.path().join("people");
    let set = |password: &str| {
        let file = passwords.to_str().expect("a text");
        PcpEnv::new()
            .run_with_input(JUMPSEAT, ["passwd", file, &user()], format!("{password}\n").as_bytes())
            .ok()
    };
    set("a good password");
    let tokens = secrets(dir.path(), "tokens", "grafana 0123456789abcdef\nother fedcba9876543210\n");
    let words = ["--passwords", passwords.to_str().expect("a text"), "--tokens", &tokens];
    let web = Web::start(dir.path(), &words);
    let status =
        |authorization: &str| web.ask("GET", NOWHERE, &[("Authorization", authorization)], b"").status;
    let basic = |user: &str, password: &str| {
        let (who, url) = (format!("{user}:{password}"), format!("http://localhost:{}{NOWHERE}", web.port));
        PcpEnv::new().run("curl", ["-s", "-o", "/dev/null", "-w", "%{http_code}", "-u", &who, &url]).ok()
    };
    let refused = web.get(NOWHERE);
    assert_eq!(refused.status, 401);
    assert!(refused.header("www-authenticate").is_some_and(|way| way.starts_with("Basic realm=")));
    assert_eq!(status("Bearer 0123456789abcdef"), 404);
    assert_eq!(status("Bearer 0123456789abcdeg"), 401);
    assert_eq!(basic(&user(), "a good password"), "404");
    assert_eq!(basic(&user(), "another password"), "401");
    assert_eq!(basic("grafana", "0123456789abcdef"), "404", "a token, for who has a form for passwords only");
    assert_eq!(basic("other", "0123456789abcdef"), "401");
    assert_eq!(status("Basic !"), 401);
    // In a URL a secret is none.
    assert_eq!(web.get(&format!("{NOWHERE}?token=0123456789abcdef")).status, 401);
    // Files that change count at once.
    secrets(dir.path(), "tokens", "other fedcba9876543210\n");
    set("another password");
    eventually("the token is revoked", || (status("Bearer 0123456789abcdef") == 401).then_some(()));
    eventually("the password has changed", || (basic(&user(), "another password") == "404").then_some(()));
    assert_eq!(status("Bearer fedcba9876543210"), 404);
    assert!(!web.process.text().contains("0123456789abcdef"), "no secret is told");
}

#[test]
fn who_guesses_has_to_wait() {
    let dir = temp_dir();
    let tokens = secrets(dir.path(), "tokens", "who 0123456789abcdef\n");
    let web = Web::start(dir.path(), &["--tokens", &tokens]);
    let guess = || web.ask("GET", NOWHERE, &[("Authorization", "Bearer wrong wrong wrong")], b"");
    let answers: Vec<_> = (0..40).map(|_| guess()).collect();
    assert!(answers.iter().take(20).all(|answer| answer.status == 401));
    let last = answers.last().expect("some");
    assert_eq!(last.status, 429);
    assert!(last.header("retry-after").is_some());
}

#[test]
fn a_certificate_is_read_again_when_it_changes() {
    let dir = temp_dir();
    let (one, other) = (Certificates::new(), Certificates::new());
    let copy = |from: &Certificates| {
        for name in ["pcp.crt", "pcp.key"] {
            fs::copy(from.path(name), dir.path().join(name)).expect("copied");
        }
        fs::set_permissions(dir.path().join("pcp.key"), fs::Permissions::from_mode(0o600)).expect("ours");
    };
    copy(&one);
    let path = |name: &str| dir.path().join(name).into_os_string().into_string().expect("a text");
    let web = Web::start(dir.path(), &["--certificate", &path("pcp.crt"), "--key", &path("pcp.key")]);
    let url = format!("https://localhost:{}{NOWHERE}", web.port);
    let asked = |authority: &Certificates| {
        let authority = authority.text("ca.crt");
        PcpEnv::new()
            .run("curl", ["-s", "-o", "/dev/null", "-w", "%{http_code}", "--cacert", &authority, &url])
    };
    assert_eq!(asked(&one).ok(), "404");
    asked(&other).fails(60);
    copy(&other);
    eventually("the other certificate counts", || (asked(&other).stdout == "404").then_some(()));
    // Who is connected in plain text gets nothing.
    let mut plain = TcpStream::connect(("127.0.0.1", web.port)).expect("it listens");
    plain.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("written");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}

#[test]
fn pages_that_may_read_are_told_so() {
    let dir = temp_dir();
    let web = Web::start(dir.path(), &["--allow-origin", "https://grafana.example.com"]);
    let origin = ("Origin", "https://grafana.example.com");
    for path in ["/api/services", "/loki/api/v1/labels", "/pmapi/children?hostspec=local:", NOWHERE] {
        let answer = web.ask("GET", path, &[origin], b"");
        assert_eq!(answer.header("access-control-allow-origin"), Some(origin.1), "{path}");
        let first = web.ask("OPTIONS", path, &[origin, ("Access-Control-Request-Method", "GET")], b"");
        assert_eq!(
            (first.status, first.header("access-control-allow-origin")),
            (200, Some(origin.1)),
            "{path}"
        );
    }
    assert_eq!(web.get("/api/services").header("access-control-allow-origin"), None);
}

#[test]
fn clients_that_read_nothing_are_closed() {
    let dir = temp_dir();
    let web = Web::start(dir.path(), &["-a", "/var/lib/pcp/testsuite/archives"]);
    let path = "/pmapi/metric?archivefile=/var/lib/pcp/testsuite/archives/pcp-zeroconf";
    assert_eq!(web.get(path).status, 200, "{}", web.get(path).text());
    let mut lazy: Vec<TcpStream> = Vec::new();
    for _ in 0..3 {
        let mut stream = TcpStream::connect(("127.0.0.1", web.port)).expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        // More than the system takes for who does not read.
        stream.write_all(request.repeat(20).as_bytes()).expect("written");
        lazy.push(stream);
    }
    let is_closed = |stream: &mut TcpStream| {
        stream.set_nonblocking(true).expect("ours");
        stream.write_all(b"\r\n").is_err()
    };
    eventually("they are closed", || lazy.iter_mut().all(is_closed).then_some(()));
    assert_eq!(web.get(path).status, 200);
}

#[test]
fn clients_that_send_nothing_or_nonsense_cost_others_nothing() {
    let dir = temp_dir();
    let mut web = Web::start(dir.path(), &[]);
    let connect = || TcpStream::connect(("127.0.0.1", web.port)).expect("it listens");
    let mut silent: Vec<TcpStream> = (0..500).map(|_| connect()).collect();
    for (number, stream) in silent.iter_mut().enumerate() {
        let begun: &[u8] = match number % 4 {
            0 => b"",
            1 => b"GET /nowh",
            2 => b"\x00\x01\x02\xff\xff\r\n\r\n",
            _ => b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\nx",
        };
        let _ = stream.write_all(begun);
    }
    let begun = Instant::now();
    for _ in 0..20 {
        assert_eq!(web.get(NOWHERE).status, 404);
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let long = format!("/{}", "x".repeat(100_000));
    assert!(matches!(web.get(&long).status, 414 | 431), "{}", web.get(&long).status);
    assert!(web.process.exited().is_none());
    assert!(web.process.stop().success(), "SIGTERM ends it, whoever is connected");
}

#[track_caller]
fn secrets(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    fs::write(&path, text).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("ours");
    path.into_os_string().into_string().expect("temporary paths are text")
}
