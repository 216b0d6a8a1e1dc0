//! Receivers on a network: TLS, client certificates and tokens, of OTLP and of the ingest socket, with real clients; and those who
//! mean no good, who hold up nobody else.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::seat::{Endpoint, JUMPSEAT, Seat};
use jumpseat::layer::{Guard, Remote};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use support::{Certificates, Output, PcpEnv, eventually, free_port, temp_dir, user};
use tracing_subscriber::prelude::*;

const SDK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/otlp-sdk");
const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sources/otlp_client.py");
const SECRET: &str = "correct-horse-battery";
const OTHER: &str = "incorrect-horse-battery";
/// A request that exports nothing.
const NOTHING: &str = r#"{"resourceLogs":[]}"#;
/// What the SDK's client makes.
const RECORDS: u64 = 2 * 1002 + 2;
/// Far above what a turn takes, for a build without optimization on a machine with other work.
const LONGEST: Duration = Duration::from_secs(20);
/// Less than all places for those who have not said who they are, from one host.
const FEW: usize = 8;

type Tls = StreamOwned<ClientConnection, TcpStream>;

/// An agent with receivers, and the certificates of both sides.
struct Place {
    dir: tempfile::TempDir,
    certificates: Certificates,
    http: u16,
    grpc: u16,
    events: u16,
}

impl Place {
    fn new() -> Place {
        let place = Place {
            dir: temp_dir(),
            certificates: Certificates::new(),
            http: free_port(),
            grpc: free_port(),
            events: free_port(),
        };
        place.tokens(&format!("shop {SECRET}\n"));
        place.secret(SECRET);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file that is not for everybody, in one go.
    fn private(&self, name: &str, text: &str) {
        let new = self.path("new");
        fs::write(&new, text).expect("the directory is ours");
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).expect("the file is ours");
        fs::rename(new, self.path(name)).expect("the directory is ours");
    }

    fn tokens(&self, text: &str) {
        self.private("tokens", text);
    }

    /// What clients of ours say.
    fn secret(&self, secret: &str) {
        self.private("secret", secret);
    }

    /// Starts an agent whose receivers are like this; `client_ca`: they want certificates, too.
    #[track_caller]
    fn serve(&self, client_ca: bool, more: &str) -> Endpoint {
        let (certificate, key) = (self.certificates.text("pcp.crt"), self.certificates.text("pcp.key"));
        let authority = match client_ca {
            true => format!(", client_ca = {:?}", self.certificates.text("ca.crt")),
            false => String::new(),
        };
        let tls = format!(
            "tls = {{ certificate = {certificate:?}, key = {key:?}{authority} }}\ntoken_file = \"tokens\"\n"
        );
        let settings = format!(
            "[otlp]\nlisten = \"localhost:{}\"\ngrpc = \"localhost:{}\"\n{tls}timeout_ms = 3000\n{more}\n\
             [[socket]]\nlisten = \"localhost:{}\"\nsource = \"far\"\ntimeout_ms = 3000\n{tls}",
            self.http, self.grpc, self.events
        );
        Seat::in_dir(self.dir.path(), &settings).serve([])
    }

    /// Runs the SDK's client.
    #[track_caller]
    fn send(&self, protocol: &str, settings: &[(&str, &str)]) -> Output {
        assert!(Path::new(SDK).join("opentelemetry").is_dir(), "run ./test, which installs the SDK in {SDK}");
        let port = if protocol == "grpc" { self.grpc } else { self.http };
        let mut env = PcpEnv::new();
        env.set("PYTHONPATH", SDK);
        env.set("OTEL_EXPORTER_OTLP_PROTOCOL", protocol);
        env.set("OTEL_EXPORTER_OTLP_ENDPOINT", format!("https://localhost:{port}"));
        env.set("OTEL_EXPORTER_OTLP_CERTIFICATE", self.certificates.text("ca.crt"));
        // They would take the place of what the SDK is told.
        env.set("REQUESTS_CA_BUNDLE", "");
        env.set("CURL_CA_BUNDLE", "");
        for (name, value) in settings {
            env.set(name, *value);
        }
        env.run("python3", [CLIENT])
    }

    /// Status and headers of the answer to a request of curl's.
    #[track_caller]
    fn curl(&self, options: &[&str]) -> Output {
        let mut args = vec!["-sS", "-i", "-m", "20"];
        args.extend(["-H", "content-type: application/json"]);
        args.extend(options);
        PcpEnv::new().run("curl", args)
    }

    #[track_caller]
    fn post(&self, token: &str) -> String {
        let url = format!("https://localhost:{}/v1/logs", self.http);
        let bearer = format!("authorization: Bearer {token}");
        self.curl(&["--cacert", &self.certificates.text("ca.crt"), "-H", &bearer, "-d", NOTHING, &url]).ok()
    }

    /// Runs `jumpseat feed` towards the address.
    fn feed(&self, options: &[&str], lines: &str) -> Output {
        let (address, ca) = (format!("localhost:{}", self.events), self.certificates.text("ca.crt"));
        let secret = self.path("secret").display().to_string();
        let mut args = vec!["feed", "--connect", &address, "--ca", &ca, "--token-file", &secret];
        args.extend(options);
        PcpEnv::new().run_with_input(JUMPSEAT, args, lines.as_bytes())
    }

    /// A client's side of TLS to the ingest socket that trusts the authority, and shows a certificate if it has one.
    fn connect(&self, own: Option<(&Path, &Path)>) -> Tls {
        let stream = TcpStream::connect(("localhost", self.events)).expect("the agent listens");
        stream.set_read_timeout(Some(LONGEST)).expect("a socket");
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_file_iter(self.certificates.path("ca.crt")).expect("a file") {
            roots.add(authority.expect("a certificate")).expect("an authority");
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = CertificateDer::pem_file_iter(certificate).expect("a file");
                let chain = chain.map(|one| one.expect("a certificate")).collect();
                let key = PrivateKeyDer::from_pem_file(key).expect("a key");
                builder.with_client_auth_cert(chain, key).expect("a pair")
            }
        };
        let name = ServerName::try_from("localhost").expect("a name");
        StreamOwned::new(ClientConnection::new(Arc::new(config), name).expect("a session"), stream)
    }

    /// One that has said its token.
    fn sender(&self) -> Tls {
        let mut tls = self.connect(None);
        say(&mut tls, &format!("{{\"jumpseat\":{{\"token\":\"{SECRET}\"}}}}\n"));
        assert_eq!(line(&mut tls), "{\"jumpseat\":{\"admitted\":\"shop\"}}");
        tls
    }

    /// Makes a certificate for a client with these options of `openssl x509`, by an authority of ours or another one.
    fn client_certificate(&self, name: &str, by: &str, options: &str) -> (PathBuf, PathBuf) {
        let openssl = |arguments: &str| {
            let mut command = Command::new("openssl");
            let output = output_of(command.args(arguments.split(' ')).current_dir(self.certificates.dir()));
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
        if !self.certificates.path(&format!("{by}.crt")).exists() {
            openssl(&format!("req -x509 {key} -keyout {by}.key -out {by}.crt -subj /CN={by}"));
        }
        openssl(&format!("req {key} -keyout {name}.key -out {name}.csr -subj /CN={name}"));
        let names = self.certificates.path(&format!("{name}.ext"));
        fs::write(&names, "subjectAltName=DNS:client\n").expect("the directory is ours");
        openssl(&format!(
            "x509 -req -in {name}.csr -CA {by}.crt -CAkey {by}.key -CAcreateserial -extfile {name}.ext -out {name}.crt{options}"
        ));
        (self.certificates.path(&format!("{name}.crt")), self.certificates.path(&format!("{name}.key")))
    }
}

fn output_of(command: &mut Command) -> std::process::Output {
    command.output().expect("openssl is installed")
}

fn say(tls: &mut Tls, text: &str) {
    tls.write_all(text.as_bytes()).and_then(|()| tls.flush()).expect("it listens");
}

/// The next line of what it says.
fn line(tls: &mut Tls) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while tls.read_exact(&mut byte).is_ok() && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    String::from_utf8(line).expect("UTF-8")
}

/// What a sender is told at the end.
fn summary(mut tls: Tls) -> serde_json::Value {
    tls.conn.send_close_notify();
    tls.flush().expect("it listens");
    let mut text = String::new();
    tls.read_to_string(&mut text).expect("it says farewell");
    serde_json::from_str(text.lines().last().expect("a summary")).expect("JSON")
}

/// Whether a connection has been ended by the other side.
fn is_over(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(50))).expect("a socket");
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }
}

/// The value of a metric, or of its instance.
#[track_caller]
fn value(endpoint: &Endpoint, metric: &str, instance: Option<&str>) -> u64 {
    let shown = endpoint.run("pminfo", ["-f", metric]).ok();
    let wanted = instance.map_or_else(|| "value ".to_owned(), |name| format!("or \"{name}\"] value "));
    let line = shown.lines().find_map(|line| line.split_once(&wanted));
    line.and_then(|(_, number)| number.trim().parse().ok()).unwrap_or(0)
}

#[track_caller]
fn wait_for(endpoint: &Endpoint, metric: &str, instance: Option<&str>, expected: u64) {
    eventually(&format!("{metric} of {instance:?} to be {expected}"), || {
        (value(endpoint, metric, instance) == expected).then_some(())
    });
}

#[test]
fn the_python_sdk_sends_over_tls_with_a_token_and_a_certificate() {
    let place = Place::new();
    let endpoint = place.serve(true, "");
    let (certificate, key) = place.client_certificate("me", "ca", "");
    let (certificate, key) = (certificate.display().to_string(), key.display().to_string());
    let bearer = format!("authorization=Bearer%20{SECRET}");
    let all = [
        ("OTEL_EXPORTER_OTLP_HEADERS", bearer.as_str()),
        ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", certificate.as_str()),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", key.as_str()),
    ];
    let mut expected = 0;
    for protocol in ["http/protobuf", "grpc"] {
        let sent = place.send(protocol, &all);
        assert!(sent.status.success() && sent.stderr.is_empty(), "{sent}");
        expected += RECORDS;
        wait_for(&endpoint, "jumpseat.source.received", Some("checkout"), expected);
        // Two batches of spans or more, and one of logs: each is told that it is not let in.
        let before = value(&endpoint, "jumpseat.self.otlp.unauthenticated", None);
        let wrong = format!("authorization=Bearer%20{OTHER}");
        place.send(protocol, &[&[("OTEL_EXPORTER_OTLP_HEADERS", wrong.as_str())], &all[1..]].concat());
        assert!(value(&endpoint, "jumpseat.self.otlp.unauthenticated", None) > before, "{protocol}");
        assert_eq!(value(&endpoint, "jumpseat.source.received", Some("checkout")), expected);
    }
    assert_eq!(value(&endpoint, "jumpseat.self.otlp.handshakes_failed", None), 0);
    let log = fs::read_to_string(place.path("serve.err")).unwrap_or_default();
    assert!(!log.contains(SECRET) && !log.contains(OTHER), "{log}");
}

#[test]
fn what_is_no_client_of_ours_is_told_so_in_the_protocol() {
    let place = Place::new();
    place.tokens(&format!("shop {SECRET} bytes=1KiB\nmill {SECRET}-of-the-mill sources=mill,mill-*\n"));
    let endpoint = place.serve(false, "");
    let ca = place.certificates.text("ca.crt");
    let url = format!("https://localhost:{}/v1/logs", place.http);
    let bearer = format!("authorization: Bearer {SECRET}");
    let large = format!("{{\"resourceLogs\":[{}]}}", " ".repeat(100_000));
    let answer = place.curl(&["--cacert", &ca, "-H", &bearer, "--data-binary", &large, &url]).ok();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // What was too much for a second has to be worked off.
    let answer = place.post(SECRET);
    assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
    assert!(answer.contains("retry-after: 60"), "{answer}");
    let answer = place.post(OTHER);
    assert!(answer.starts_with("HTTP/1.1 401") && answer.contains("www-authenticate: Bearer"), "{answer}");
    let plain = format!("http://localhost:{}/v1/logs", place.http);
    let answer = place.curl(&["-d", NOTHING, &plain]).ok();
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("only TLS is served here"), "{answer}");
    // The certificate is checked by clients.
    assert!(!place.curl(&["-d", NOTHING, &url]).status.success());
    wait_for(&endpoint, "jumpseat.self.otlp.handshakes_failed", None, 2);
    assert_eq!(value(&endpoint, "jumpseat.self.otlp.unauthenticated", None), 1);
    assert_eq!(value(&endpoint, "jumpseat.self.otlp.over_limit", None), 1);
    // A token that is for some names gives what it may not name its own.
    let logs = |service: &str| {
        format!(
            r#"{{"resourceLogs":[{{"resource":{{"attributes":[{{"key":"service.name","value":{{"stringValue":"{service}"}}}}]}},"scopeLogs":[{{"logRecords":[{{"severityNumber":9,"body":{{"stringValue":"hello"}}}}]}}]}}]}}"#
        )
    };
    let bearer = format!("authorization: Bearer {SECRET}-of-the-mill");
    for service in ["mill-1", "shop"] {
        let logs = logs(service);
        let args = ["-sS", "-f", "--cacert", &ca, "-H", &bearer, "-H", "content-type: application/json"];
        PcpEnv::new().run("curl", [&args[..], &["-d", &logs, &url]].concat()).ok();
    }
    wait_for(&endpoint, "jumpseat.source.received", Some("mill-1"), 1);
    wait_for(&endpoint, "jumpseat.source.received", Some("mill"), 1);
    assert_eq!(value(&endpoint, "jumpseat.source.received", Some("shop")), 0);
    // So it is for metrics: whoever may not be the shop does not set the shop's.
    let url = format!("https://localhost:{}/v1/metrics", place.http);
    let point = |value: u64| format!(r#"{{"asInt":"{value}"}}"#);
    let orders = |service: &str, value: u64| {
        format!(
            r#"{{"resourceMetrics":[{{"resource":{{"attributes":[{{"key":"service.name","value":{{"stringValue":"{service}"}}}},{{"key":"service.instance.id","value":{{"stringValue":"1"}}}}]}},"scopeMetrics":[{{"metrics":[{{"name":"orders","sum":{{"aggregationTemporality":2,"isMonotonic":true,"dataPoints":[{}]}}}}]}}]}}]}}"#,
            point(value)
        )
    };
    // That of the shop has no more than 1 KiB a second, and has to wait for what it has had.
    place.tokens(&format!("shop {SECRET}\nmill {SECRET}-of-the-mill sources=mill,mill-*\n"));
    let shop = format!("authorization: Bearer {SECRET}");
    eventually("the tokens are read again", || place.post(SECRET).starts_with("HTTP/1.1 200").then_some(()));
    for (bearer, service, value) in [(&shop, "shop", 7), (&bearer, "shop", 99), (&bearer, "mill-1", 5)] {
        let args = ["-sS", "-f", "--cacert", &ca, "-H", bearer, "-H", "content-type: application/json"];
        PcpEnv::new().run("curl", [&args[..], &["-d", &orders(service, value), &url]].concat()).ok();
    }
    let told = eventually("all three are there", || {
        let told = endpoint.run("pminfo", ["-f", "jumpseat.otel.orders"]).stdout;
        (told.matches("value ").count() == 3).then_some(told)
    });
    for (instance, value) in [("shop@1", 7), ("mill-1@1", 5)] {
        assert!(told.contains(&format!("or \"{instance}\"] value {value}\n")), "{told}");
    }
    assert!(told.contains("or \"mill") && told.contains("value 99"), "{told}");
}

#[test]
fn tokens_and_certificates_are_read_again_when_their_files_change() {
    let place = Place::new();
    let endpoint = place.serve(false, "");
    assert!(place.post(SECRET).starts_with("HTTP/1.1 200"));
    let mut open = place.sender();
    // A file that others may read does not count: what was known before does.
    fs::set_permissions(place.path("tokens"), fs::Permissions::from_mode(0o644)).expect("ours");
    std::thread::sleep(Duration::from_millis(1100));
    assert!(place.post(SECRET).starts_with("HTTP/1.1 200"));
    place.tokens(&format!("shop {OTHER}\n"));
    eventually("the new token", || place.post(OTHER).starts_with("HTTP/1.1 200").then_some(()));
    assert!(place.post(SECRET).starts_with("HTTP/1.1 401"));
    // Who is connected with a token that has gone is told so, and is not any more.
    let told = line(&mut open);
    assert!(told.contains("the token counts no more"), "{told}");
    assert_eq!(line(&mut open), "");
    assert_eq!(value(&endpoint, "jumpseat.self.connections.unauthenticated", None), 1);
    fs::remove_file(place.path("tokens")).expect("ours");
    eventually("no token at all", || place.post(OTHER).starts_with("HTTP/1.1 401").then_some(()));
    // Another certificate in the same files.
    let serial = || {
        let mut tls = place.connect(None);
        while tls.conn.is_handshaking() {
            tls.conn.complete_io(&mut tls.sock).expect("both sides agree");
        }
        tls.conn.peer_certificates().expect("it has shown one")[0].to_vec()
    };
    let before = serial();
    let dir = place.certificates.dir();
    let arguments =
        "x509 -req -in pcp.csr -CA ca.crt -CAkey ca.key -CAcreateserial -extfile names -out pcp.crt";
    let made = output_of(Command::new("openssl").args(arguments.split(' ')).current_dir(dir));
    assert!(made.status.success());
    eventually("the new certificate", || (serial() != before).then_some(()));
}

#[test]
fn events_come_over_tcp_in_both_framings_and_each_once() {
    let place = Place::new();
    let endpoint = place.serve(false, "");
    let lines: String =
        (0..5000).map(|number| format!("{{\"message\":\"m\",\"number\":{number}}}\n")).collect();
    place.feed(&["--source", "app"], &lines).ok();
    wait_for(&endpoint, "jumpseat.source.received", Some("app"), 5000);
    place.feed(&["--binary", "--source", "app"], &lines).ok();
    wait_for(&endpoint, "jumpseat.source.received", Some("app"), 10_000);
    // Who numbers its events has each there once, however often they come.
    for _ in 0..2 {
        place.feed(&["--source", "numbered", "--sender", "s1"], &lines).ok();
    }
    wait_for(&endpoint, "jumpseat.source.received", Some("numbered"), 5000);
    // Without a name of its own it is the socket's.
    place.feed(&[], "{\"message\":\"x\"}\n").ok();
    wait_for(&endpoint, "jumpseat.source.received", Some("far"), 1);
    place.secret(OTHER);
    let refused = place.feed(&[], "{\"message\":\"x\"}\n");
    assert!(
        !refused.status.success() && refused.stderr.contains("a token that does not count"),
        "{refused:?}"
    );
    assert!(!refused.stderr.contains(OTHER));
    // A name that the certificate is not for, and an authority that it is not by.
    let (other, _) = place.client_certificate("x", "others", "");
    let address = format!("localhost:{}", place.events);
    let secret = place.path("secret").display().to_string();
    let args = ["feed", "--connect", &address, "--ca", &other.display().to_string(), "--token-file", &secret];
    let refused = PcpEnv::new().run_with_input(JUMPSEAT, args, b"{}\n");
    assert!(!refused.status.success() && refused.stderr.contains("is trusted"), "{refused:?}");
}

#[test]
fn a_token_may_be_for_some_sources_and_for_so_much_at_a_time() {
    let place = Place::new();
    place.tokens(&format!("shop {SECRET} sources=shop,shop-* bytes=64KiB in_flight=2\n"));
    let endpoint = place.serve(false, "");
    let mut sender = place.sender();
    say(&mut sender, "{\"jumpseat\":{\"source\":\"bank\",\"ack\":true}}\n");
    let answer = line(&mut sender);
    assert!(
        answer.contains("the token is for other sources") && answer.contains("\"source\":\"shop\""),
        "{answer}"
    );
    say(
        &mut sender,
        "{\"message\":\"a\"}\n{\"source\":\"shop-7\",\"message\":\"b\"}\n{\"source\":\"far\",\"message\":\"c\"}\n",
    );
    wait_for(&endpoint, "jumpseat.source.received", Some("shop"), 2);
    wait_for(&endpoint, "jumpseat.source.received", Some("shop-7"), 1);
    for other in ["bank", "far"] {
        assert_eq!(value(&endpoint, "jumpseat.source.received", Some(other)), 0, "{other}");
    }
    let second = place.sender();
    let mut third = place.connect(None);
    say(&mut third, &format!("{{\"jumpseat\":{{\"token\":\"{SECRET}\"}}}}\n"));
    let told = line(&mut third);
    assert!(told.contains("as much as this token allows"), "{told}");
    wait_for(&endpoint, "jumpseat.self.connections.over_limit", None, 1);
    drop(second);
    // Two seconds' worth more than at once: it is read slower, and nothing is lost.
    let begun = Instant::now();
    let event = format!("{{\"message\":\"{}\"}}\n", "x".repeat(1000));
    say(&mut sender, &event.repeat(192));
    let summary = summary(sender);
    assert_eq!((summary["accepted"].as_u64(), summary["missed"].as_u64()), (Some(195), Some(0)), "{summary}");
    assert!(begun.elapsed() > Duration::from_millis(1500), "{:?}", begun.elapsed());
}

#[test]
fn openssl_sends_events_and_is_refused_what_it_may_not() {
    let place = Place::new();
    let endpoint = place.serve(false, "");
    let address = format!("localhost:{}", place.events);
    let run = |options: &[&str], text: &str| {
        let mut client = Command::new("openssl");
        client.args([
            "s_client",
            "-quiet",
            "-connect",
            &address,
            "-CAfile",
            &place.certificates.text("ca.crt"),
        ]);
        client.args(options).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut client = client.spawn().expect("openssl is installed");
        let mut input = client.stdin.take().expect("piped");
        input.write_all(text.as_bytes()).expect("it reads");
        // It ends when the agent has said its last word, or here.
        let mut output = std::io::BufReader::new(client.stdout.take().expect("piped"));
        let mut first = String::new();
        let _ = std::io::BufRead::read_line(&mut output, &mut first);
        (client, input, first)
    };
    for version in ["-tls1_2", "-tls1_3"] {
        let text = format!("{{\"jumpseat\":{{\"token\":\"{SECRET}\"}}}}\n{{\"message\":\"by hand\"}}\n");
        let (mut client, input, first) = run(&[version], &text);
        assert!(first.contains("admitted"), "{version}: {first}");
        let expected = if version == "-tls1_2" { 1 } else { 2 };
        wait_for(&endpoint, "jumpseat.source.received", Some("far"), expected);
        drop(input);
        let _ = client.kill();
        client.wait().expect("it ends");
    }
    // An event in place of a token.
    let (mut client, _input, first) = run(&[], "{\"message\":\"by hand\"}\n");
    assert!(first.contains("no line with a token"), "{first}");
    let _ = client.kill();
    client.wait().expect("it ends");
    // One that wants to agree anew (R), which TLS 1.2 once allowed: it gets no answer to that, and others go on.
    let mut again = Command::new("openssl");
    again.args(["s_client", "-connect", &address, "-tls1_2"]).stdin(Stdio::piped());
    let mut again = again.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("openssl is installed");
    let mut input = again.stdin.take().expect("piped");
    for _ in 0..5 {
        let _ = input.write_all(b"R\n");
    }
    let known = summary(place.sender());
    assert_eq!(known["accepted"].as_u64(), Some(0));
    let _ = again.kill();
    again.wait().expect("it ends");
}

#[test]
fn only_certificates_by_the_authority_that_are_in_their_time_are_taken() {
    let place = Place::new();
    let _endpoint = place.serve(true, "");
    let mut admitted = 0;
    for (name, by, options, good) in
        [("good", "ca", "", true), ("foreign", "others", "", false), ("over", "ca", " -days -1", false)]
    {
        let (certificate, key) = place.client_certificate(name, by, options);
        let mut tls = place.connect(Some((&certificate, &key)));
        let said = tls
            .write_all(format!("{{\"jumpseat\":{{\"token\":\"{SECRET}\"}}}}\n").as_bytes())
            .and_then(|()| tls.flush())
            .map(|()| line(&mut tls));
        assert_eq!(said.is_ok_and(|line| line.contains("admitted")), good, "{name}");
        admitted += u64::from(good);
    }
    // None at all.
    let mut tls = place.connect(None);
    let said = tls.write_all(b"{\"jumpseat\":{\"token\":\"\"}}\n").and_then(|()| tls.flush());
    assert!(said.is_err() || line(&mut tls).is_empty());
    assert_eq!(admitted, 1);
    wait_for(&_endpoint, "jumpseat.self.connections.handshakes_failed", None, 3);
}

/// Those who begin and do not go on, say nothing that is TLS, guess, or come in numbers: a sender and OTLP go on meanwhile, and
/// each of them is ended, and counted.
#[test]
fn who_means_no_good_holds_up_nobody_else() {
    let place = Place::new();
    let endpoint = place.serve(false, "");
    let mut sender = place.sender();
    let mut sent = 0;
    let mut goes_on = |what: &str| {
        let begun = Instant::now();
        sent += 1;
        say(&mut sender, &format!("{{\"message\":\"{what}\"}}\n{{\"jumpseat\":{{\"sync\":{sent}}}}}\n"));
        let answer = line(&mut sender);
        assert!(answer.contains(&format!("\"accepted\":{sent}")), "{what}: {answer}");
        assert!(place.post(SECRET).starts_with("HTTP/1.1 200"), "{what}");
        assert!(begun.elapsed() < LONGEST, "{what}: {:?}", begun.elapsed());
    };
    let count = |metric: &str| value(&endpoint, metric, None);
    let connect = |port: u16| TcpStream::connect(("localhost", port)).expect("it listens");

    // Silent ones, and such as say a byte of a handshake now and then.
    let mut slow: Vec<TcpStream> = Vec::new();
    for port in [place.events, place.http, place.grpc] {
        for number in 0..FEW / 2 {
            let mut stream = connect(port);
            if number % 2 == 0 {
                stream.write_all(&[22, 3, 1]).expect("it listens");
            }
            slow.push(stream);
        }
    }
    goes_on("slow handshakes");
    let begun = Instant::now();
    while begun.elapsed() < LONGEST && !slow.iter_mut().all(is_over) {
        for stream in &mut slow {
            let _ = stream.write_all(&[1]);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(slow.iter_mut().all(is_over), "somebody who does not go on is still there");
    goes_on("slow handshakes that are over");
    assert!(count("jumpseat.self.connections.handshakes_failed") >= FEW as u64 / 2);

    // Plain text where there is TLS, and bytes that are nothing.
    for text in [
        &b"{\"message\":\"x\"}\n"[..],
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xff; 4096],
        &[22, 3, 1, 0xff, 0xff, 9, 9],
    ] {
        for port in [place.events, place.http, place.grpc] {
            let mut stream = connect(port);
            let _ = stream.write_all(text);
            goes_on("no TLS");
            eventually("the end of what is no TLS", || is_over(&mut stream).then_some(()));
        }
    }

    // Guesses.
    let before = count("jumpseat.self.connections.unauthenticated");
    for number in 0..50 {
        let mut tls = place.connect(None);
        say(&mut tls, &format!("{{\"jumpseat\":{{\"token\":\"{OTHER}{number}\"}}}}\n"));
        let told = line(&mut tls);
        assert!(told.contains("a token that does not count"), "{told}");
    }
    goes_on("guesses");
    assert_eq!(count("jumpseat.self.connections.unauthenticated"), before + 50);
    // A first line that has no end.
    let mut tls = place.connect(None);
    let _ = tls.write_all(&[b'x'; 64 * 1024]).and_then(|()| tls.flush());
    let told = line(&mut tls);
    assert!(told.is_empty() || told.contains("no line with a token"), "{told}");
    goes_on("a line without an end");

    // A flood of connections, from one host: there are some of it, and the others are turned away.
    let before = count("jumpseat.self.connections.refused");
    let flood: Vec<TcpStream> = (0..300).map(|_| connect(place.events)).collect();
    eventually("the flood to be turned away", || {
        (count("jumpseat.self.connections.refused") > before + 100).then_some(())
    });
    goes_on("a flood");
    drop(flood);
    eventually("a place for one who comes with a token", || {
        let mut tls = place.connect(None);
        let token = format!("{{\"jumpseat\":{{\"token\":\"{SECRET}\"}}}}\n");
        tls.write_all(token.as_bytes()).and_then(|()| tls.flush()).ok()?;
        line(&mut tls).contains("admitted").then_some(())
    });
    let summary = summary(sender);
    assert_eq!((summary["accepted"].as_u64(), summary["missed"].as_u64()), (Some(sent), Some(0)));
}

#[test]
fn plain_text_and_everybody_beyond_this_machine_are_refused_unless_said_in_words() {
    let place = Place::new();
    let (certificate, key) = (place.certificates.text("pcp.crt"), place.certificates.text("pcp.key"));
    let tls = format!("tls = {{ certificate = {certificate:?}, key = {key:?} }}\n");
    let port = place.http;
    let check = |table: &str| {
        let path = place.path("checked.toml");
        fs::write(&path, format!("state_dir = {:?}\n{table}", place.path("ids")))
            .expect("the directory is ours");
        PcpEnv::new().run(JUMPSEAT, ["config", "check", "-U", &user(), path.to_str().expect("ASCII")])
    };
    let listen = format!("listen = \"0.0.0.0:{port}\"\n");
    for (table, part) in [
        (format!("[otlp]\n{listen}"), "in plain text"),
        (format!("[otlp]\n{listen}{tls}"), "to everybody"),
        (format!("[otlp]\n{listen}{tls}token_file = \"tokens\"\n"), ""),
        (format!("[otlp]\n{listen}insecure = true\n"), ""),
        (format!("[[socket]]\n{listen}"), "only with TLS and tokens"),
        (format!("[[socket]]\n{listen}{tls}"), "only with TLS and tokens"),
        ("[[socket]]\ntoken_file = \"tokens\"\n".to_owned(), "is for a socket that listens on an address"),
        (
            format!("[[socket]]\npath = \"/x/y\"\n{listen}{tls}token_file = \"tokens\"\n"),
            "two need two tables",
        ),
        (format!("[otlp]\n{listen}{tls}token_file = \"checked.toml\"\n"), "everybody may use it"),
    ] {
        let checked = check(&table);
        let said = format!("{}{}", checked.stdout, checked.stderr);
        assert_eq!(checked.status.success(), part.is_empty(), "{table}{said}");
        assert!(said.contains(part), "{table}{said}");
    }
}

#[test]
fn what_is_done_with_tokens_is_told_by_their_names() {
    let place = Place::new();
    place.tokens(&format!("shop {SECRET}\nmill {OTHER} sources=mill bytes=1KiB\n"));
    let endpoint = place.serve(false, "");
    let told =
        |metric: &str, token: &str| value(&endpoint, &format!("jumpseat.self.tokens.{metric}"), Some(token));
    let names = || {
        let shown = endpoint.run("pminfo", ["-f", "jumpseat.self.tokens.requests"]).ok();
        let inst = shown
            .lines()
            .filter_map(|line| Some(line.split_once("inst [")?.1.split("] value").next()?.to_owned()));
        inst.collect::<Vec<_>>()
    };
    assert_eq!(names(), ["0 or \"shop\"", "1 or \"mill\""]);
    assert_eq!((told("requests", "shop"), told("last_seen", "shop")), (0, 0));
    // Over both receivers, with what is malformed apart.
    place.feed(&[], "{\"type\":\"t\"}\nnot JSON\n{\"type\":\"t\"}\n");
    let ca = place.certificates.text("ca.crt");
    let logs = |secret: &str, service: &str| {
        let body = format!(
            r#"{{"resourceLogs":[{{"resource":{{"attributes":[{{"key":"service.name","value":{{"stringValue":"{service}"}}}}]}},"scopeLogs":[{{"logRecords":[{{"body":{{"stringValue":"x"}}}},{{"body":{{"stringValue":"y"}}}}]}}]}}]}}"#
        );
        let bearer = format!("authorization: Bearer {secret}");
        let (url, blanks) = (format!("https://localhost:{}/v1/logs", place.http), " ".repeat(60_000));
        place.curl(&["--cacert", &ca, "-H", &bearer, "-d", &(body + &blanks), &url]).ok()
    };
    assert!(logs(SECRET, "shop").starts_with("HTTP/1.1 200"));
    eventually("four records of the shop's", || (told("records", "shop") == 4).then_some(()));
    assert_eq!((told("requests", "shop"), told("rejected", "shop")), (2, 1));
    eventually("nothing under way", || (told("in_flight", "shop") == 0).then_some(()));
    assert!(told("bytes", "shop") > 100 && told("last_seen", "shop") > 1_700_000_000_000);
    // Beyond what is allowed, and in another's name.
    assert!(logs(OTHER, "shop").starts_with("HTTP/1.1 200"));
    assert!(logs(OTHER, "shop").starts_with("HTTP/1.1 429"));
    assert_eq!((told("requests", "mill"), told("over_limit", "mill"), told("records", "mill")), (1, 1, 2));
    assert_eq!((told("forbidden", "mill"), told("forbidden", "shop")), (1, 0));
    // A name that comes later; the numbers of those before are for ever, and no secret is anywhere.
    place.tokens(&format!("till {SECRET}\nmill {OTHER}\n"));
    eventually("the token to count under its new name", || {
        place.post(SECRET);
        (told("requests", "till") > 0).then_some(())
    });
    assert_eq!(names(), ["0 or \"shop\"", "1 or \"mill\"", "2 or \"till\""]);
    let labels = endpoint.run("pminfo", ["-l", "-f", "jumpseat.self.tokens.requests"]).ok();
    assert!(labels.contains("\"token\":\"till\"") && !labels.contains(SECRET), "{labels}");
    drop(endpoint);
    let endpoint = place.serve(false, "");
    let shown = endpoint.run("pminfo", ["-f", "jumpseat.self.tokens.requests"]).ok();
    assert!(shown.contains("inst [1 or \"mill\"]") && shown.contains("inst [2 or \"till\"]"), "{shown}");
    assert!(!shown.contains("shop"), "{shown}");
}

impl Place {
    /// What a program's layer has to know of the ingest socket, but for the token.
    fn remote(&self) -> Remote {
        Remote::to(format!("localhost:{}", self.events)).ca(self.certificates.path("ca.crt"))
    }
}

/// A program with a layer that sends there.
fn program(source: &str, remote: Remote) -> (tracing::Dispatch, Guard) {
    let layer = jumpseat::layer().source(source).remote(remote);
    let guard = layer.guard();
    (tracing::Dispatch::new(tracing_subscriber::registry().with(layer)), guard)
}

fn trace(program: &tracing::Dispatch, events: u64) {
    tracing::dispatcher::with_default(program, || {
        (0..events).for_each(|number| tracing::info!(number, text = "some text", "a thing"));
    });
}

#[track_caller]
fn wait_for_trouble(guard: &Guard, part: &str) -> String {
    eventually(&format!("trouble with {part:?}: {:?}", guard.trouble()), || {
        guard.trouble().filter(|trouble| trouble.contains(part))
    })
}

#[test]
fn a_program_with_the_layer_sends_over_tls_and_goes_on_with_the_next_agent() {
    let place = Place::new();
    let remote = place.remote().token_file(place.path("secret"));
    remote.check().expect("all of it is there");
    let (program, guard) = program("app", remote);
    // Nobody is there yet.
    trace(&program, 100);
    wait_for_trouble(&guard, "refused");
    let log = format!("[log]\ndir = {:?}\n", place.path("log"));
    let endpoint = place.serve(true, &log);
    // The agent wants a certificate, too.
    wait_for_trouble(&guard, "CertificateRequired");
    drop(endpoint);
    let endpoint = place.serve(false, &log);
    wait_for(&endpoint, "jumpseat.source.received", Some("app"), 100);
    // A megabyte of frames, in both directions at once with the answers to them.
    for _ in 0..20 {
        trace(&program, 1000);
        assert!(guard.flush(LONGEST), "{:?}", guard.trouble());
    }
    assert_eq!(guard.trouble(), None);
    wait_for(&endpoint, "jumpseat.source.received", Some("app"), 20_100);
    drop(endpoint);
    trace(&program, 50);
    let endpoint = place.serve(false, &log);
    wait_for(&endpoint, "jumpseat.source.received", Some("app"), 20_150);
    assert_eq!(value(&endpoint, "jumpseat.source.missed", Some("app")), 0);
    assert_eq!(value(&endpoint, "jumpseat.self.tokens.records", Some("shop")), 50);
}

#[test]
fn a_layers_token_is_judged_and_can_be_replaced_while_the_program_runs() {
    let place = Place::new();
    place.secret(OTHER);
    let endpoint = place.serve(false, "");
    let (program, guard) = program("app", place.remote().token_file(place.path("secret")));
    trace(&program, 10);
    let trouble = wait_for_trouble(&guard, "a token that does not count");
    assert!(trouble.starts_with(&format!("localhost:{}: ", place.events)), "{trouble}");
    assert!(!trouble.contains(OTHER), "{trouble}");
    assert!(value(&endpoint, "jumpseat.self.connections.unauthenticated", None) > 0);
    let log = || fs::read_to_string(place.path("serve.err")).unwrap_or_default();
    eventually("the log tells", || log().contains("a token that does not count").then_some(()));
    assert!(!log().contains(OTHER));
    // The file is read anew, and what was traced meanwhile is there.
    place.secret(SECRET);
    wait_for(&endpoint, "jumpseat.source.received", Some("app"), 10);
    // A token that is taken back ends the connection; nothing is lost.
    place.tokens(&format!("mill {OTHER}\n"));
    eventually("the connection is ended", || {
        trace(&program, 1);
        guard.trouble().filter(|trouble| trouble.contains("a token that does not count"))
    });
    place.tokens(&format!("shop {SECRET}\n"));
    trace(&program, 1);
    let received = || value(&endpoint, "jumpseat.source.received", Some("app"));
    eventually("it is let in again", || guard.trouble().is_none().then_some(()));
    assert!(guard.flush(LONGEST), "{:?}", guard.trouble());
    assert!(received() > 11);
    assert_eq!(value(&endpoint, "jumpseat.source.missed", Some("app")), 0);
}

#[test]
fn a_layer_sends_nothing_to_a_server_that_it_cannot_trust() {
    let place = Place::new();
    let endpoint = place.serve(false, "");
    place.client_certificate("x", "others", "");
    for (remote, part) in [
        (place.remote().token(SECRET).server_name("elsewhere.example"), "not valid for name"),
        (place.remote().token(SECRET).ca(place.certificates.path("others.crt")), "UnknownIssuer"),
    ] {
        let before = value(&endpoint, "jumpseat.self.connections.handshakes_failed", None);
        let (program, guard) = program("app", remote);
        trace(&program, 1);
        wait_for_trouble(&guard, part);
        eventually("it is counted", || {
            (value(&endpoint, "jumpseat.self.connections.handshakes_failed", None) > before).then_some(())
        });
    }
    assert_eq!(value(&endpoint, "jumpseat.source.received", Some("app")), 0);
    assert_eq!(value(&endpoint, "jumpseat.self.connections.unauthenticated", None), 0);
}

#[test]
fn a_server_that_says_nothing_holds_up_no_traced_thread() {
    let place = Place::new();
    let listener = std::net::TcpListener::bind(("localhost", place.events)).expect("the port is free");
    let (program, guard) = program("app", place.remote().token(SECRET));
    trace(&program, 1);
    let (silent, _) = listener.accept().expect("the layer connects");
    // More than the ring holds, while the layer waits for a word of the server.
    trace(&program, 100_000);
    assert!(!guard.flush(Duration::ZERO) && guard.trouble().is_none(), "it waits: {:?}", guard.trouble());
    wait_for_trouble(&guard, "it does not answer in time");
    drop((silent, listener));
}
