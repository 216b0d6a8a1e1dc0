//! TLS and passwords on the endpoint: PCP's own clients and ours, and those who do not keep to it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::seat::{Endpoint, JUMPSEAT, Seat};
use jumpseat::model::PmError;
use jumpseat::pdu::{Attr, AttrCode, CredFlags, Creds, Pdu, PmnsChild};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use support::{Certificates, Output, PcpEnv, Process, eventually, temp_dir};

/// Far above what a round of the loop takes, for a build without optimization on a machine with other work.
const LONGEST: Duration = Duration::from_secs(3);
/// Who is nobody in particular on every machine.
const OTHER: &str = "nobody";

/// A directory with an endpoint's files, and certificates.
struct Place {
    dir: tempfile::TempDir,
    certificates: Certificates,
}

impl Place {
    fn new() -> Place {
        Place { dir: temp_dir(), certificates: Certificates::new() }
    }

    /// Starts `jumpseat serve` with this configuration and these options, with a certificate.
    #[track_caller]
    fn serve(&self, settings: &str, options: &[&str]) -> Endpoint {
        let (certificate, key) = (self.certificates.text("pcp.crt"), self.certificates.text("pcp.key"));
        let tls = ["--tls-cert", &certificate, "--tls-key", &key];
        Seat::in_dir(self.dir.path(), settings).serve(tls.into_iter().chain(options.iter().copied()))
    }

    /// A file of passwords, made as users make it.
    #[track_caller]
    fn passwords(&self, users: &[(&str, &str)]) -> String {
        let path = self.dir.path().join("passwords").display().to_string();
        for (user, password) in users {
            PcpEnv::new()
                .run_with_input(JUMPSEAT, ["passwd", &path, user], format!("{password}\n").as_bytes())
                .ok();
        }
        path
    }

    /// Runs a tool in an environment whose configuration of TLS is this file.
    fn run(&self, config: &str, program: &str, args: &[&str]) -> Output {
        let mut env = PcpEnv::new();
        env.set("PCP_TLSCONF_PATH", self.certificates.path(config));
        env.run(program, args)
    }

    /// The value of a metric, over TLS.
    #[track_caller]
    fn number(&self, endpoint: &Endpoint, name: &str) -> u64 {
        let host = format!("pcps://localhost:{}", endpoint.port());
        value(&self.run("trust.conf", JUMPSEAT, &["info", "-h", &host, "-f", name]).ok())
    }
}

fn value(shown: &str) -> u64 {
    let value = shown.lines().find_map(|line| line.trim().strip_prefix("value "));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{shown}"))
}

fn bytes(pdu: &Pdu) -> Vec<u8> {
    pdu.to_bytes(1).unwrap().to_vec()
}

/// A client that has read the greeting and sent its CREDS.
fn begin(endpoint: &Endpoint, flags: CredFlags) -> TcpStream {
    let mut stream = TcpStream::connect(endpoint.host()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.read_exact(&mut [0; 20]).unwrap();
    stream.write_all(&bytes(&Pdu::Creds(Creds::version(flags)))).unwrap();
    stream
}

/// One that may begin TLS now.
fn begin_tls(endpoint: &Endpoint) -> TcpStream {
    let mut stream = begin(endpoint, CredFlags::SECURE.union(CredFlags::SECURE_ACK));
    assert_eq!(error_code(&mut stream), 0, "the server is about to begin");
    stream
}

/// The code of the ERROR that comes next.
fn error_code(stream: &mut TcpStream) -> i32 {
    let mut pdu = [0; 16];
    stream.read_exact(&mut pdu).unwrap();
    assert_eq!(pdu[4..8], [0, 0, 0x70, 0], "an ERROR");
    i32::from_be_bytes([pdu[12], pdu[13], pdu[14], pdu[15]])
}

/// A client's side of TLS, with nobody to trust or this authority.
fn session(authority: Option<&Path>) -> rustls::ClientConnection {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    for authority in authority.into_iter().flat_map(|path| CertificateDer::pem_file_iter(path).unwrap()) {
        roots.add(authority.unwrap()).unwrap();
    }
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    rustls::ClientConnection::new(Arc::new(config), name).unwrap()
}

/// The first bytes of TLS that a client sends.
fn client_hello() -> Vec<u8> {
    let mut hello = Vec::new();
    session(None).write_tls(&mut hello).unwrap();
    hello
}

#[test]
fn clients_of_pcp_and_ours_encrypt_and_others_need_not() {
    let place = Place::new();
    let endpoint = place.serve("", &[]);
    let host = format!("pcps://localhost:{}", endpoint.port());
    let name = "jumpseat.self.endpoint.encrypted";
    for (count, program, args) in
        [(1, "pminfo", vec!["-h", &host, "-f", name]), (2, JUMPSEAT, vec!["info", "-h", &host, "-f", name])]
    {
        assert_eq!(value(&place.run("trust.conf", program, &args).ok()), count, "{program}");
    }
    // A whole name space with help, labels and values, next to what is said in clear.
    let args = |host: &str| ["-h", host, "-mdtT", "jumpseat"].map(str::to_owned);
    let secret = args(&host);
    let secret = secret.each_ref().map(String::as_str);
    let clear = endpoint.run("pminfo", &args(&endpoint.host())[2..]).ok();
    assert!(clear.len() > 10_000, "{clear}");
    assert_eq!(place.run("trust.conf", "pminfo", &secret).ok(), clear);
    let ours = [&["info"][..], &secret].concat();
    assert_eq!(place.run("trust.conf", JUMPSEAT, &ours).ok(), clear);
    let shown = endpoint.run("pminfo", ["-f", "pmcd.feature.secure"]).ok();
    assert_eq!(value(&shown), 1);
}

/// Answers of many records, and more than the system takes at once.
#[test]
fn large_answers_come_whole() {
    let place = Place::new();
    let settings = "[events]\nrecent = 1000\n";
    let endpoint = place.serve(settings, &[]);
    let line = format!("{{\"type\":\"long\",\"note\":\"{}\"}}\n", "n".repeat(3000));
    Seat::in_dir(place.dir.path(), settings).feed([], &line.repeat(1000)).ok();
    let clear = endpoint.run("pminfo", ["-x", "jumpseat.event.recent"]).ok();
    assert!(clear.len() > 3_000_000, "{} bytes", clear.len());
    let host = format!("pcps://localhost:{}", endpoint.port());
    for (program, first) in [("pminfo", None), (JUMPSEAT, Some("info"))] {
        let args: Vec<&str> = first.into_iter().chain(["-h", &host, "-x", "jumpseat.event.recent"]).collect();
        assert!(place.run("trust.conf", program, &args).ok() == clear, "{program}");
    }
}

#[test]
fn a_client_is_told_what_is_wrong_with_a_certificate() {
    let place = Place::new();
    let endpoint = place.serve("", &[]);
    let run = |config: &Path, host: &str| {
        let mut env = PcpEnv::new();
        env.set("PCP_TLSCONF_PATH", config);
        let host = format!("pcps://{host}:{}", endpoint.port());
        env.run(JUMPSEAT, ["info", "-h", &host, "-f", "jumpseat.self.pid"]).fails(1)
    };
    let trust = place.certificates.path("trust.conf");
    let name = run(&trust, "127.0.0.1");
    assert!(name.contains("not for the name '127.0.0.1'") && name.contains("subjectAltName"), "{name}");
    let issuer = run(&Certificates::new().path("trust.conf"), "localhost");
    assert!(issuer.contains("nobody who is trusted") && issuer.contains("tls-ca-cert-file"), "{issuer}");
    let nobody = run(Path::new("/nonexistent/tls.conf"), "localhost");
    assert!(
        nobody.contains("/nonexistent/tls.conf") && nobody.contains("tls-ca-cert-file = FILE"),
        "{nobody}"
    );
    assert!(place.number(&endpoint, "jumpseat.self.endpoint.tls_failed") >= 2);
}

#[test]
fn who_does_not_encrypt_where_it_is_required_is_refused_everything() {
    let place = Place::new();
    let socket = place.dir.path().join("clients").display().to_string();
    let endpoint = place.serve("", &["--require-tls", "--listen", &format!("unix:{socket}")]);
    let refused = endpoint.run("pminfo", ["-f", "jumpseat.self.pid"]).fails(1);
    assert!(refused.contains("No permission"), "{refused}");
    let mut client = begin(&endpoint, CredFlags(0));
    for _ in 0..3 {
        client.write_all(&bytes(&Pdu::PmnsChild(PmnsChild { name: "".into(), status: false }))).unwrap();
        assert_eq!(error_code(&mut client), PmError::PERMISSION.0);
    }
    assert!(place.number(&endpoint, "jumpseat.self.endpoint.denied") >= 2);
    assert!(endpoint.process.text().contains("TLS is required"), "{}", endpoint.process.text());
    // Nobody listens on a Unix socket.
    PcpEnv::new().run("pminfo", ["-h", &format!("unix:{socket}"), "-f", "jumpseat.self.pid"]).ok();
}

#[test]
fn clients_show_certificates_where_they_have_to() {
    let place = Place::new();
    let endpoint = place.serve("", &["--tls-client-ca", &place.certificates.text("ca.crt")]);
    let host = format!("pcps://localhost:{}", endpoint.port());
    let args = ["-h", &host, "-f", "jumpseat.self.pid"];
    for (program, first) in [("pminfo", None), (JUMPSEAT, Some("info"))] {
        let args: Vec<&str> = first.into_iter().chain(args).collect();
        place.run("tls.conf", program, &args).ok();
        place.run("trust.conf", program, &args).fails(1);
    }
    let refused = endpoint.run("pminfo", ["-f", "jumpseat.self.pid"]).fails(1);
    assert!(refused.contains("requires a client certificate"), "{refused}");
    let strangers = Certificates::new();
    let mut env = PcpEnv::new();
    let config = format!(
        "tls-ca-cert-file = {}\ntls-cert-file = {}\ntls-key-file = {}\n",
        place.certificates.text("ca.crt"),
        strangers.text("pcp.crt"),
        strangers.text("pcp.key")
    );
    fs::write(strangers.path("both.conf"), config).unwrap();
    env.set("PCP_TLSCONF_PATH", strangers.path("both.conf"));
    env.run("pminfo", args).fails(1);
}

#[test]
fn a_key_that_others_may_read_is_refused() {
    let place = Place::new();
    let key = place.certificates.path("pcp.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let run = |args: &[&str]| {
        let config = Seat::in_dir(place.dir.path(), "").config().display().to_string();
        let all = [&["serve", "--listen", "127.0.0.1:0", "--config", &config][..], args].concat();
        PcpEnv::new().run(JUMPSEAT, all).fails(1)
    };
    let (certificate, key) = (place.certificates.text("pcp.crt"), place.certificates.text("pcp.key"));
    let refused = run(&["--tls-cert", &certificate, "--tls-key", &key]);
    assert!(refused.contains("644") && refused.contains(&format!("chmod 600 {key}")), "{refused}");
    let refused = run(&["--require-tls"]);
    assert!(refused.contains("--tls-cert FILE --tls-key FILE"), "{refused}");
    let refused = run(&["--tls-cert", &place.certificates.text("names"), "--tls-key", &key]);
    assert!(refused.contains("no certificate in PEM form"), "{refused}");
}

#[test]
fn who_logs_in_is_that_user() {
    let (place, user) = (Place::new(), support::user());
    let passwords = place.passwords(&[(&user, "right one"), (OTHER, "x")]);
    let settings =
        format!("[access]\nfetch = [\"{user}\"]\nstore = [\"{user}\"]\npasswords = \"{passwords}\"\n");
    let endpoint = place.serve(&settings, &[]);
    let at = |way: &str, who: &str| format!("{way}localhost:{}{who}", endpoint.port());
    let pid = |host: &str| {
        let args = ["-h", host, "-f", "jumpseat.self.pid"];
        let pcp = place.run("trust.conf", "pminfo", &args);
        let ours = place.run("trust.conf", JUMPSEAT, &[&["info"], &args[..]].concat());
        assert_eq!(pcp.status, ours.status, "{host}: {pcp}\n{ours}");
        (pcp.status.success(), pcp.stderr + &ours.stderr)
    };
    let right = at("pcps://", &format!("?method=plain&user={user}&pass=right%20one"));
    assert_eq!(pid(&right), (true, String::new()));
    for (host, text) in [
        (at("pcps://", &format!("?method=plain&user={user}&pass=wrong")), "Authentication"),
        (at("pcps://", "?method=plain&user=root2&pass=x"), "Authentication"),
        // It is, but may not.
        (at("pcps://", &format!("?method=plain&user={OTHER}&pass=x")), "No permission"),
        // In clear nobody can log in.
        (at("", &format!("?method=plain&user={user}&pass=right%20one")), ""),
        (at("", ""), ""),
        (at("pcps://", ""), ""),
    ] {
        let (let_in, told) = pid(&host);
        assert!(!let_in && told.contains(text), "{host}: {told}");
    }
    // What is everybody's can be changed by whom the agent trusts, now that it knows who it is.
    let store = ["-h", &right, "jumpseat.control.recent", "7"];
    place.run("trust.conf", "pmstore", &store).ok();
    let counters =
        place.run("trust.conf", "pminfo", &["-h", &right, "-f", "jumpseat.self.endpoint.logins"]).ok();
    assert!(value(&counters) >= 4, "{counters}");
}

#[test]
fn passwords_are_taken_over_unix_sockets_and_records_go_by_them() {
    let (place, user) = (Place::new(), support::user());
    let passwords = place.passwords(&[(&user, "a"), (OTHER, "b")]);
    let settings = format!("[[source]]\nname = \"secret\"\nreaders = [\"{OTHER}\"]\n");
    let socket = place.dir.path().join("clients").display().to_string();
    let endpoint =
        place.serve(&settings, &["--passwords", &passwords, "--listen", &format!("unix:{socket}")]);
    let seat = Seat::in_dir(place.dir.path(), &settings);
    seat.feed([], "{\"source\":\"secret\",\"note\":\"psst\"}\n").ok();
    let shown = |who: &str| {
        let host = format!("unix://{socket}{who}");
        PcpEnv::new().run(JUMPSEAT, ["info", "-h", &host, "-x", "jumpseat.event.recent"])
    };
    assert!(!shown("").ok().contains("psst"));
    assert!(!shown(&format!("?user={user}&pass=a")).ok().contains("psst"));
    assert!(shown(&format!("?user={OTHER}&pass=b")).ok().contains("psst"));
    shown(&format!("?user={OTHER}&pass=a")).fails(1);
    drop(endpoint);
}

#[test]
fn guessing_comes_to_an_end_and_others_log_in() {
    let (place, user) = (Place::new(), support::user());
    let passwords = place.passwords(&[(&user, "right")]);
    let socket = place.dir.path().join("clients").display().to_string();
    let endpoint = place.serve("", &["--passwords", &passwords, "--listen", &format!("unix:{socket}")]);
    let guess = |password: &str| {
        let host = format!("pcps://localhost:{}?user={user}&pass={password}", endpoint.port());
        place.run("trust.conf", JUMPSEAT, &["info", "-h", &host, "-f", "jumpseat.self.pid"])
    };
    eventually("too many attempts", || {
        guess("wrong").fails(1).contains("temporarily unavailable").then_some(())
    });
    guess("right").fails(1);
    let host = format!("unix://{socket}?user={user}&pass=right");
    PcpEnv::new().run(JUMPSEAT, ["info", "-h", &host, "-f", "jumpseat.self.pid"]).ok();
    assert!(endpoint.process.text().contains("too many attempts"), "{}", endpoint.process.text());
}

#[test]
fn what_comes_in_clear_behind_the_request_for_tls_does_not_count() {
    let place = Place::new();
    let endpoint = place.serve("", &[]);
    let mut stream = TcpStream::connect(endpoint.host()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.read_exact(&mut [0; 20]).unwrap();
    let mut sent = bytes(&Pdu::Creds(Creds::version(CredFlags::SECURE)));
    sent.extend(bytes(&Pdu::PmnsChild(PmnsChild { name: "".into(), status: false })));
    stream.write_all(&sent).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    // At most the alert of TLS.
    assert!(answer.len() <= 7 && answer.first().is_none_or(|kind| *kind == 21), "{answer:x?}");
    assert_eq!(place.number(&endpoint, "jumpseat.self.endpoint.tls_failed"), 1);
}

#[test]
fn garbage_in_place_of_tls_ends_that_connection_only() {
    let place = Place::new();
    let endpoint = place.serve("", &[]);
    let hello = client_hello();
    let mut cases = vec![b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![0; 100], vec![0xff; 70_000]];
    // The right beginning, and something else behind it; records without end, of what is no handshake.
    cases.push([&hello[..], &[0xff; 300]].concat());
    cases.push([&hello[..hello.len() / 2], &[0; 70_000]].concat());
    cases.push([22, 3, 1, 0x40, 0].into_iter().chain(std::iter::repeat_n(1, 0x4000)).collect());
    cases.push([20, 3, 3, 0, 1, 1].repeat(12_000));
    let count = cases.len() as u64;
    for garbage in cases {
        let mut stream = begin_tls(&endpoint);
        let _ = stream.write_all(&garbage);
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        // The server's part of a handshake, and an alert: never an answer.
        assert!(!rest.windows(4).any(|bytes| bytes == [0, 0, 0x70, 0]), "{rest:x?}");
    }
    assert_eq!(place.number(&endpoint, "jumpseat.self.endpoint.tls_failed"), count);
}

#[test]
fn what_comes_behind_a_farewell_is_not_looked_at() {
    let place = Place::new();
    let endpoint = place.serve("", &[]);
    let request = bytes(&Pdu::PmnsChild(PmnsChild { name: "".into(), status: false }));
    for behind in [&b""[..], &[0; 5], &[0xff; 100_000]] {
        let mut stream = begin_tls(&endpoint);
        let mut session = session(Some(&place.certificates.path("ca.crt")));
        while session.is_handshaking() {
            session.complete_io(&mut stream).unwrap();
        }
        // What was asked before is answered.
        session.writer().write_all(&request).unwrap();
        session.send_close_notify();
        let mut sent = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut sent).unwrap();
        }
        sent.extend_from_slice(behind);
        let _ = stream.write_all(&sent);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(!behind.is_empty() || answer.len() > request.len(), "{} bytes", answer.len());
    }
    assert_eq!(place.number(&endpoint, "jumpseat.self.endpoint.tls_failed"), 0);
}

#[test]
fn handshakes_that_are_left_keep_nobody_waiting() {
    const LEFT: usize = 900;
    let place = Place::new();
    let endpoint = place.serve("", &[]);
    let limit = [format!("--nofile={0}:{0}", 4096), format!("--pid={}", endpoint.process.pid())];
    assert!(Command::new("prlimit").args(limit).status().unwrap().success());
    let hello = client_hello();
    // All at once, so that the loop has as much of this work as it can get.
    let mut left: Vec<TcpStream> = (0..LEFT).map(|_| begin_tls(&endpoint)).collect();
    for (nth, stream) in left.iter_mut().enumerate() {
        let sent = if nth % 3 == 0 { &hello[..hello.len() / 2] } else { &hello[..] };
        stream.write_all(sent).unwrap();
    }
    for _ in 0..10 {
        endpoint.run("pminfo", ["-f", "jumpseat.self.pid"]).ok();
    }
    // Another one can still begin, and end, its own.
    let longest = Duration::from_nanos(place.number(&endpoint, "jumpseat.self.loop.longest"));
    assert!(longest < LONGEST, "a round of the loop took {longest:?}");
    assert_eq!(place.number(&endpoint, "jumpseat.self.endpoint.tls_failed"), 0);
    drop(left);
    eventually("their places to be free", || (place.number(&endpoint, "pmcd.numclients") == 1).then_some(()));
}

#[test]
fn a_login_that_is_none_ends_in_an_error() {
    let (place, user) = (Place::new(), support::user());
    let passwords = place.passwords(&[(&user, "right")]);
    let endpoint = place.serve("", &["--passwords", &passwords]);
    // In clear the list of mechanisms is empty.
    let mut stream = begin(&endpoint, CredFlags::AUTH);
    assert_eq!(error_code(&mut stream), -21_348);
    let payload = bytes::Bytes::from(format!("PLAIN\0\0{user}\0right"));
    stream.write_all(&bytes(&Pdu::Attr(Attr { code: AttrCode::SASL, payload }))).unwrap();
    assert_eq!(error_code(&mut stream), -21_348);
    assert!(endpoint.process.text().contains("over TLS"), "{}", endpoint.process.text());
    assert_eq!(place.number(&endpoint, "jumpseat.self.endpoint.logins"), 0);
}

#[test]
fn a_reload_reads_certificates_again_and_leaves_connections_alone() {
    let (place, other) = (Place::new(), Certificates::new());
    let dir = place.dir.path();
    let (cert, key) = (dir.join("own.crt"), dir.join("own.key"));
    let install = |from: &Certificates| {
        for (name, to) in [("pcp.crt", &cert), ("pcp.key", &key)] {
            fs::copy(from.path(name), to).expect("writable");
            fs::set_permissions(to, fs::Permissions::from_mode(0o600)).expect("ours");
        }
    };
    install(&place.certificates);
    // Relative to the configuration.
    let tls = "[tls]\ncertificate = 'own.crt'\nkey = 'own.key'\n";
    let mut endpoint = Seat::in_dir(dir, tls).serve([]);
    let host = format!("pcps://localhost:{}", endpoint.port());
    let asks = |trusted: &Certificates, program: &str| {
        let mut env = PcpEnv::new();
        env.set("PCP_TLSCONF_PATH", trusted.path("trust.conf"));
        let first: &[&str] = if program == JUMPSEAT { &["info"] } else { &[] };
        env.run(program, [first, &["-h", &host, "-f", "jumpseat.self.pid"]].concat())
    };
    let mut command = PcpEnv::new().command("pmval");
    command.env("PCP_TLSCONF_PATH", place.certificates.path("trust.conf"));
    command.args(["-h", &host, "-t", "0.1", "jumpseat.self.pid"]);
    let before = Process::start(&mut command, dir, "pmval");
    let samples = || before.stdout().lines().count();
    eventually("samples", || (samples() > 8).then_some(()));
    let mut reloads = 0;
    let mut reload = |endpoint: &mut Endpoint| {
        endpoint.process.signal(nix::sys::signal::Signal::SIGHUP);
        reloads += 1;
        let done = || endpoint.process.text().matches("sources are as configured").count() == reloads;
        eventually("the reload", || done().then_some(()));
    };

    // A new certificate in the same files, as those who renew them do.
    install(&other);
    assert!(asks(&place.certificates, JUMPSEAT).stdout.contains("value"), "not before the reload");
    reload(&mut endpoint);
    for program in ["pminfo", JUMPSEAT] {
        asks(&other, program).ok();
    }
    assert!(!asks(&place.certificates, JUMPSEAT).stdout.contains("value"));
    let now = samples();
    eventually("who was connected goes on", || (samples() > now + 3).then_some(()));

    // What cannot be used changes nothing, and is told; the rest of the configuration is in effect.
    fs::write(&key, "nothing\n").expect("writable");
    Seat::in_dir(dir, &format!("{tls}[events]\nrecent = 7\n"));
    reload(&mut endpoint);
    asks(&other, "pminfo").ok();
    let text = endpoint.process.text();
    assert!(text.contains("own.key holds no private key"), "{text}");
    assert!(text.contains("goes on with the certificate it has"), "{text}");
    assert_eq!(value(&endpoint.run("pminfo", ["-f", "jumpseat.control.recent"]).ok()), 7);

    // TLS has to be, need not be, and is gone.
    install(&other);
    Seat::in_dir(dir, &format!("{tls}required = true\n"));
    reload(&mut endpoint);
    asks(&other, "pminfo").ok();
    endpoint.run("pminfo", ["-f", "jumpseat.self.pid"]).fails(1);
    Seat::in_dir(dir, "");
    reload(&mut endpoint);
    assert_eq!(value(&endpoint.run("pminfo", ["-f", "pmcd.feature.secure"]).ok()), 0);
    assert!(!asks(&other, "pminfo").stdout.contains("value"));
}
