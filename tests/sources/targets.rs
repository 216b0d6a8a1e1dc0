//! The real agent scrapes real HTTP servers (`[[scrape]]`); PCP's tools read what becomes of it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use nix::sys::signal::Signal;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{Exemplar, exemplar};
use support::{Certificates, PcpEnv, PrivatePmcd, Process, eventually, free_port, temp_dir};
use tempfile::TempDir;

use crate::otlp_out::{Receiver, pair};
use crate::seat::{Endpoint, JUMPSEAT, Seat, Transport};

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sources/target_server.py");

/// What a Go program says of itself, and more.
const PLAIN: &str = "\
# HELP shop_orders_total Orders so far.
# TYPE shop_orders_total counter
shop_orders_total{item=\"green tea\",paid=\"yes\"} 3
shop_orders_total{item=\"cake\",paid=\"no\"} 1.5 1395066363000
# HELP shop_heap_bytes Memory.\\nAll of it.
# TYPE shop_heap_bytes gauge
shop_heap_bytes 1.048576e+06
# TYPE shop_wait_seconds histogram
shop_wait_seconds_bucket{le=\"0.1\"} 2
shop_wait_seconds_bucket{le=\"+Inf\"} 5
shop_wait_seconds_sum 4.25
shop_wait_seconds_count 5
# TYPE shop_size summary
shop_size{quantile=\"0.5\"} 12
shop_size_sum 40
shop_size_count 3
shop_untyped 7
";

/// The example of OpenMetrics, shortened.
const OPEN: &str = "\
# TYPE acme_http_router_request_seconds summary
# UNIT acme_http_router_request_seconds seconds
# HELP acme_http_router_request_seconds Latency though all of ACME's HTTP request router.
acme_http_router_request_seconds_sum{path=\"/api/v1\",method=\"GET\"} 9036.32
acme_http_router_request_seconds_count{path=\"/api/v1\",method=\"GET\"} 807283.0
acme_http_router_request_seconds_created{path=\"/api/v1\",method=\"GET\"} 1605281325.0
# TYPE go_goroutines gauge
go_goroutines 69
# TYPE process_cpu_seconds counter
# UNIT process_cpu_seconds seconds
process_cpu_seconds_total 4.20072246e+06 # {trace_id=\"4bf92f3577b34da6a3ce929d0e0e4736\"} 0.5 1605281325.5
# EOF
";

/// A server and its files.
struct Targets {
    dir: TempDir,
    port: u16,
    server: Option<Process>,
    tls: Option<String>,
}

impl Targets {
    fn start() -> Targets {
        Targets::with(None)
    }

    fn with(tls: Option<String>) -> Targets {
        let mut targets = Targets { dir: temp_dir(), port: free_port(), server: None, tls };
        targets.come_back();
        targets
    }

    fn come_back(&mut self) {
        let mut env = PcpEnv::new();
        if let Some(tls) = &self.tls {
            env.set("TARGET_TLS", tls);
        }
        let mut command = env.command("python3");
        command.arg(SERVER).arg(self.port.to_string()).arg(self.dir.path());
        let server = Process::start(&mut command, self.dir.path(), "server");
        let port = self.port;
        eventually("the server", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
        self.server = Some(server);
    }

    fn go_away(&mut self) {
        self.server = None;
    }

    /// Writes a file, as a whole.
    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.dir.path().join(name);
        fs::write(path.with_extension("new"), text).expect("the test's directory");
        fs::rename(path.with_extension("new"), path).expect("the test's directory");
    }

    /// A table for some of the files. Those behind the first have an instance of their own: their paths.
    fn table(&self, name: &str, paths: &[&str], more: &str) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let host = if self.tls.is_some() { "localhost" } else { "127.0.0.1" };
        let url = |path: &str| format!("{scheme}://{host}:{}/{path}", self.port);
        let lines: Vec<String> =
            paths[1..].iter().map(|path| format!("{} instance={path}\n", url(path))).collect();
        let list = format!("{name}.list");
        self.write(&list, lines.concat());
        let (urls, list) = ([url(paths[0])], self.dir.path().join(list));
        format!(
            "[[scrape]]\nname = {name:?}\ntargets = {urls:?}\ntargets_file = {list:?}\ninterval = \"300ms\"\n{more}\n"
        )
    }

    fn instance(&self, table: &str, path: &str) -> String {
        format!("{table}@http://127.0.0.1:{}/{path}", self.port)
    }

    fn connections(&self) -> usize {
        fs::read_to_string(self.dir.path().join("connections")).map_or(0, |text| text.lines().count())
    }
}

/// Instances and values of a metric, as `pminfo -f` prints them.
fn values(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| {
        let (instance, value) = line.split_once(" or \"")?.1.split_once("\"] value ")?;
        Some((instance.to_owned(), value.trim_matches('"').to_owned()))
    });
    lines.collect()
}

fn of(endpoint: &Endpoint, metric: &str) -> BTreeMap<String, String> {
    values(&endpoint.run("pminfo", ["-f", metric]).stdout)
}

#[track_caller]
fn wait(endpoint: &Endpoint, metric: &str, instance: &str, value: &str) {
    eventually(&format!("{metric}[{instance}] {value}: {}", endpoint.process.text()), || {
        (of(endpoint, metric).get(instance)? == value).then_some(())
    });
}

#[track_caller]
fn reload(endpoint: &mut Endpoint, reloads: usize) {
    endpoint.process.signal(Signal::SIGHUP);
    eventually("a reload", || {
        let log = endpoint.process.text();
        assert!(!log.contains("not read again"), "{log}");
        (log.matches("sources are as configured").count() == reloads).then_some(())
    });
}

#[test]
fn both_formats_become_metrics_with_units_labels_and_numbers_that_stay() {
    let targets = Targets::start();
    targets.write("plain", PLAIN);
    targets.write("open.om.gz", OPEN);
    let dir = temp_dir();
    let more = "labels = { env = \"test\" }";
    let seat = Seat::in_dir(dir.path(), &targets.table("shop", &["plain", "open.om.gz"], more));
    let mut pmcd = PrivatePmcd::with([seat.agent(Transport::Pipe)]).start();
    let both = |pmcd: &PrivatePmcd| {
        eventually(&format!("both targets: {}", seat.log()), || {
            let text = pmcd.run("pminfo", ["-f", "jumpseat.scrape.up"]).stdout;
            (values(&text).values().filter(|up| *up == "1").count() == 2).then_some(())
        });
        pmcd.run("pminfo", ["-f", "jumpseat.otel", "jumpseat.otel_exemplar"]).ok()
    };
    let text = both(&pmcd);
    let here = format!("127.0.0.1:{}", targets.port);
    let of_path = "env=test,method=GET,path=/api/v1";
    for (metric, labels, value) in [
        ("otel.shop_orders_total", "env=test,item=green%20tea,paid=yes", "3"),
        ("otel.shop_orders_total", "env=test,item=cake,paid=no", "1.5"),
        ("otel.shop_heap_bytes", "env=test", "1048576"),
        ("otel.shop_wait_seconds.bucket", "env=test,le=0.1", "2"),
        ("otel.shop_wait_seconds.bucket", "env=test,le=+Inf", "5"),
        ("otel.shop_wait_seconds.sum", "env=test", "4.25"),
        ("otel.shop_wait_seconds.count", "env=test", "5"),
        ("otel.shop_size.quantile", "env=test,quantile=0.5", "12"),
        ("otel.shop_size.count", "env=test", "3"),
        ("otel.shop_untyped", "env=test", "7"),
        ("otel.acme_http_router_request_seconds.sum", of_path, "9036.32"),
        ("otel.acme_http_router_request_seconds.count", of_path, "807283"),
        ("otel.acme_http_router_request_seconds_created", of_path, "1605281325"),
        ("otel.go_goroutines", "env=test", "69"),
        ("otel.process_cpu_seconds_total", "env=test", "4200722.46"),
        (
            "otel_exemplar.process_cpu_seconds_total",
            "env=test",
            "trace_id=4bf92f3577b34da6a3ce929d0e0e4736 value=0.5 time=1605281325.500000000",
        ),
    ] {
        let part = text
            .split("\n\n")
            .find(|part| part.trim_start().lines().next() == Some(&format!("jumpseat.{metric}")));
        let found = values(part.unwrap_or_default());
        let from = if metric.contains(".shop_") { &*here } else { "open.om.gz" };
        assert_eq!(
            found.get(&format!("shop@{from}{{{labels}}}")).map(String::as_str),
            Some(value),
            "{metric} {labels}: {text}"
        );
    }
    for (metric, parts) in [
        (
            "shop_orders_total",
            &[
                "[Orders so far.]",
                "double",
                "Semantics: counter  Units: none",
                "\"item\":\"green tea\"",
                "\"job\":\"shop\"",
                "\"env\":\"test\"",
            ][..],
        ),
        ("shop_heap_bytes", &["Memory.", "All of it.", "Semantics: instant  Units: byte"]),
        ("shop_wait_seconds.sum", &["Semantics: counter  Units: sec"]),
        (
            "shop_wait_seconds.bucket",
            &["64-bit unsigned int", "Semantics: counter  Units: count", "\"le\":0.1", "\"le\":\"+Inf\""],
        ),
        (
            "acme_http_router_request_seconds.sum",
            &["Latency though all", "Units: sec", "\"otel_unit\":\"s\"", "\"path\":\"/api/v1\""],
        ),
        ("process_cpu_seconds_total", &["Semantics: counter  Units: sec"]),
    ] {
        let about = pmcd.run("pminfo", ["-dtTl", &format!("jumpseat.otel.{metric}")]).ok();
        for part in parts {
            assert!(about.contains(part), "{metric} {part}: {about}");
        }
    }
    // What is told of the targets.
    let text = pmcd.run("pminfo", ["-f", "jumpseat.scrape.samples"]).ok();
    let samples = values(&text);
    assert_eq!(samples[&targets.instance("shop", "plain")], "11", "{text}");
    assert_eq!(samples[&targets.instance("shop", "open.om.gz")], "5", "{text}");
    let about = pmcd.run("pminfo", ["-dl", "jumpseat.scrape.up"]).ok();
    for part in [
        "\"job\":\"shop\"",
        "\"instance\":\"127.0.0.1:",
        "\"url\":\"http://127.0.0.1:",
        "\"indom_name\":\"per target\"",
    ] {
        assert!(about.contains(part), "{part}: {about}");
    }
    let mut spent = values(&pmcd.run("pminfo", ["-f", "jumpseat.scrape.duration"]).ok()).into_values();
    assert!(spent.all(|nanos| nanos.parse::<u64>().is_ok_and(|nanos| nanos > 0)));
    let help = pmcd.run("pminfo", ["-T", "jumpseat.scrape", "jumpseat.self.scrape"]).ok();
    assert!(!help.contains("Error") && help.contains("Redirects are not followed"), "{help}");

    // Connections are kept, whatever the number of scrapes.
    eventually("many scrapes", || {
        let scrapes = values(&pmcd.run("pminfo", ["-f", "jumpseat.scrape.scrapes"]).stdout);
        scrapes.values().all(|count| count.parse::<u64>().is_ok_and(|count| count > 5)).then_some(())
    });
    assert_eq!(targets.connections(), 3, "one to see whether it is there, and one for each target");

    // Numbers of metrics, instances and targets are those of the run before.
    let numbers = |pmcd: &PrivatePmcd| -> Vec<String> {
        let _ = both(pmcd);
        eventually("all metrics", || {
            let text = pmcd.run("pminfo", ["-mf", "jumpseat.otel", "jumpseat.scrape.up"]).stdout;
            let all: Vec<String> = text
                .lines()
                .filter(|line| line.contains("PMID:") || line.contains("inst ["))
                .map(|line| line.split(" value ").next().unwrap_or(line).to_owned())
                .collect();
            (all.len() >= 34).then_some(all)
        })
    };
    let before = numbers(&pmcd);
    pmcd.restart();
    pmcd.wait_ready("jumpseat");
    assert_eq!(numbers(&pmcd), before);
}

#[test]
fn a_target_that_is_wrong_or_without_end_costs_no_other_one() {
    let targets = Targets::start();
    targets.write("plain", PLAIN);
    let line = "spam{n=\"1\"} 1\n";
    for (name, body) in [
        ("a.hang", String::new()),
        ("b.endless", line.repeat(1000)),
        ("c", "<html>\n<body>It works!</body>\n</html>\n".to_owned()),
        ("d.moved", String::new()),
        ("e.headers", line.to_owned()),
        ("f.slow", line.repeat(10)),
        ("g.gz", line.repeat(400_000)),
        ("h.cut", line.repeat(10)),
        ("i.om", "cut_off 1\n".to_owned()),
        ("j.noise", "SSH-2.0-OpenSSH_9.2p1\r\n".to_owned()),
        (
            "k",
            "good 1\nbad one\nbad{ 1\nneg -1\n# TYPE count_total counter\ncount_total -1\ngood 2\n"
                .to_owned(),
        ),
    ] {
        targets.write(name, body);
    }
    let names = [
        "a.hang",
        "b.endless",
        "c",
        "d.moved",
        "e.headers",
        "f.slow",
        "g.gz",
        "h.cut",
        "i.om",
        "j.noise",
        "away",
    ];
    let dir = temp_dir();
    let tables = [
        targets.table("good", &["plain", "k"], ""),
        targets.table("bad", &names, "timeout = \"250ms\"\nmax_body = \"1MiB\""),
        format!(
            "[[scrape]]\nname = \"none\"\ntargets = [\"http://127.0.0.1:{}/x\"]\ninterval = \"300ms\"\n",
            free_port()
        ),
    ];
    let seat = Seat::in_dir(dir.path(), &tables.concat());
    let endpoint = seat.serve([]);
    let bad = |name: &str| targets.instance("bad", name);
    for (name, reasons) in [
        ("a.hang", &["timeout"][..]),
        ("b.endless", &["size", "timeout"]),
        ("c", &["syntax"]),
        ("d.moved", &["status"]),
        ("e.headers", &["protocol"]),
        ("f.slow", &["timeout"]),
        ("g.gz", &["size", "timeout"]),
        ("h.cut", &["protocol"]),
        ("i.om", &["syntax"]),
        ("j.noise", &["protocol"]),
        ("away", &["status"]),
    ] {
        eventually(&format!("{name} to fail: {}", endpoint.process.text()), || {
            let counts = |reason: &&&str| {
                of(&endpoint, &format!("jumpseat.scrape.failed.{reason}"))
                    .get(&bad(name))
                    .is_some_and(|count| count != "0")
            };
            reasons.iter().find(counts)
        });
    }
    let none = of(&endpoint, "jumpseat.scrape.failed.connect");
    let none = none.iter().find(|(instance, _)| instance.starts_with("none@")).expect("a target");
    assert_ne!(none.1, "0");
    let up = of(&endpoint, "jumpseat.scrape.up");
    let well: Vec<&String> = up.iter().filter(|(_, up)| *up == "1").map(|(name, _)| name).collect();
    assert_eq!(well, [&targets.instance("good", "k"), &targets.instance("good", "plain")], "{up:?}");
    let problems = of(&endpoint, "jumpseat.scrape.problem");
    for (name, part) in [
        ("c", "syntax: no metrics: line 1, column 7: a value that is no number"),
        ("d.moved", "status: answered 302 Found: redirects are not followed"),
        ("i.om", "no # EOF"),
        ("a.hang", "no whole answer within 250ms"),
    ] {
        assert!(problems[&bad(name)].contains(part), "{name}: {}", problems[&bad(name)]);
    }

    // Nothing of them is a metric, and the others have gone on as often as they should.
    let text = endpoint.run("pminfo", ["-f", "jumpseat.otel"]).ok();
    assert!(!text.contains("spam") && !text.contains("cut_off"), "{text}");
    let count = || {
        of(&endpoint, "jumpseat.scrape.scrapes")[&targets.instance("good", "plain")]
            .parse::<u64>()
            .expect("a number")
    };
    let before = count();
    eventually("further scrapes", || (count() >= before + 5).then_some(()));
    assert_eq!(of(&endpoint, "jumpseat.scrape.late")[&targets.instance("good", "plain")], "0");

    // A line that is wrong costs itself.
    let k = targets.instance("good", "k");
    assert_eq!(of(&endpoint, "jumpseat.scrape.samples")[&k], "2");
    assert!(
        problems[&k].starts_with("4 samples refused, the first in line 2, column 8:"),
        "{}",
        problems[&k]
    );
    for (reason, each) in [("syntax", 2), ("number", 1), ("duplicate", 1), ("label", 0)] {
        let refused =
            of(&endpoint, &format!("jumpseat.scrape.refused.{reason}"))[&k].parse::<u64>().expect("a number");
        assert_eq!(refused == 0, each == 0, "{reason}");
    }
    let memory = endpoint.run("pminfo", ["-f", "jumpseat.self.scrape.memory"]).ok();
    let bytes: u64 =
        memory.split("value ").nth(1).and_then(|text| text.trim().parse().ok()).expect("a value");
    assert!(bytes < 16 << 20, "{memory}");
}

#[test]
fn a_target_behind_tls_and_a_token_is_scraped_and_the_token_is_nowhere() {
    let certificates = Certificates::new();
    let targets =
        Targets::with(Some(format!("{},{}", certificates.text("pcp.crt"), certificates.text("pcp.key"))));
    targets.write("x.token", PLAIN);
    targets.write("token.expected", "open-sesame-1");
    let dir = temp_dir();
    let secret = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).expect("the test's directory");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("ours");
    };
    secret("token", "open-sesame-1\n");
    let ca = certificates.text("ca.crt");
    let keys = format!("token_file = \"token\"\nheaders = {{ X-Key = \"key\" }}\ntls = {{ ca = {ca:?} }}");
    let tables = [
        targets.table("good", &["x.token"], &keys),
        targets.table("untrusted", &["x.token"], ""),
        targets.table("stranger", &["x.token"], &format!("tls = {{ ca = {ca:?} }}")),
        targets.table(
            "other",
            &["x.token"],
            &format!("{keys}\n").replace("ca = ", "server_name = \"elsewhere\", ca = "),
        ),
    ];
    let seat = Seat::in_dir(dir.path(), &tables.concat());
    let mut endpoint = seat.serve([]);
    let name =
        |table: &str| targets.instance(table, "x.token").replace("http://127.0.0.1", "https://localhost");
    wait(&endpoint, "jumpseat.scrape.up", &name("good"), "1");
    for (table, reason) in [("untrusted", "tls"), ("stranger", "status"), ("other", "tls")] {
        eventually(table, || {
            let count = of(&endpoint, &format!("jumpseat.scrape.failed.{reason}"));
            (count.get(&name(table))? != "0").then_some(())
        });
    }
    // Another token, which the file has later.
    targets.write("token.expected", "open-sesame-2");
    wait(&endpoint, "jumpseat.scrape.up", &name("good"), "0");
    secret("token", "open-sesame-2\n");
    wait(&endpoint, "jumpseat.scrape.up", &name("good"), "1");
    // A file that all may read is no secret: the one before stays. Without a file nobody is asked.
    fs::set_permissions(dir.path().join("token"), fs::Permissions::from_mode(0o644)).expect("ours");
    secret("token.new", "open-sesame-2\n");
    fs::set_permissions(dir.path().join("token.new"), fs::Permissions::from_mode(0o644)).expect("ours");
    fs::rename(dir.path().join("token.new"), dir.path().join("token")).expect("ours");
    eventually("a token that is no secret", || {
        endpoint.process.text().contains("with what the files said before").then_some(())
    });
    wait(&endpoint, "jumpseat.scrape.up", &name("good"), "1");
    fs::remove_file(dir.path().join("token")).expect("ours");
    eventually("a token that is gone", || {
        (of(&endpoint, "jumpseat.scrape.failed.setup").get(&name("good"))? != "0").then_some(())
    });

    secret("token", "open-sesame-2\n");
    fs::set_permissions(dir.path().join("token"), fs::Permissions::from_mode(0o644)).expect("ours");
    reload(&mut endpoint, 1);
    let config = PcpEnv::new().run(JUMPSEAT, ["config", "show", seat.config().to_str().expect("text")]);
    let told = [endpoint.process.text(), config.stdout, config.stderr].concat();
    assert!(!told.contains("sesame") && !told.contains("\"key\""), "{told}");
    let all = endpoint.run("pminfo", ["-fl", "jumpseat"]);
    assert!(!all.stdout.contains("sesame"));
    let check = PcpEnv::new().run(JUMPSEAT, ["config", "check", seat.config().to_str().expect("text")]);
    assert!(
        check.stdout.contains("[[scrape]] good.token_file") && check.stdout.contains("everybody may use it"),
        "{check}"
    );
}

#[test]
fn targets_go_and_come_back_with_their_numbers_and_tables_and_files_change() {
    let mut targets = Targets::start();
    targets.write("plain", PLAIN);
    targets.write("more", "more{n=\"1\"} 1\nmore{n=\"2\"} 2\n");
    let dir = temp_dir();
    let file = dir.path().join("list");
    fs::write(&file, "# none yet\n").expect("the test's directory");
    let shop = targets.table("shop", &["plain"], "");
    let listed = "[[scrape]]\nname = \"listed\"\ntargets_file = \"list\"\ninterval = \"300ms\"\n";
    let seat = Seat::in_dir(dir.path(), &format!("{shop}{listed}"));
    let mut endpoint = seat.serve([]);
    let plain = targets.instance("shop", "plain");
    wait(&endpoint, "jumpseat.scrape.up", &plain, "1");
    let numbers = |endpoint: &Endpoint| {
        let text = endpoint.run("pminfo", ["-f", "jumpseat.otel.shop_orders_total"]).stdout;
        let lines = text.lines().filter(|line| line.contains("inst ["));
        lines.map(|line| line.split(" value ").next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let before = numbers(&endpoint);
    assert_eq!(before.len(), 2);

    // It goes away, and its series with it, at once; and comes back, as the same ones.
    targets.go_away();
    wait(&endpoint, "jumpseat.scrape.up", &plain, "0");
    eventually("its series to go", || numbers(&endpoint).is_empty().then_some(()));
    targets.come_back();
    wait(&endpoint, "jumpseat.scrape.up", &plain, "1");
    assert_eq!(numbers(&endpoint), before);
    // A series that it leaves out goes, too.
    targets.write(
        "plain",
        PLAIN.replace("shop_orders_total{item=\"cake\",paid=\"no\"} 1.5 1395066363000\n", ""),
    );
    eventually("one less", || (numbers(&endpoint) == before[..1]).then_some(()));
    targets.write("plain", PLAIN);
    eventually("the same again", || (numbers(&endpoint) == before).then_some(()));

    // A file gets targets, in both notations, and loses them.
    let port = targets.port;
    fs::write(&file, format!("127.0.0.1:{port}/more rack=7 instance=one\nnonsense:port\n"))
        .expect("the test's directory");
    let more = targets.instance("listed", "more");
    wait(&endpoint, "jumpseat.scrape.up", &more, "1");
    assert_eq!(of(&endpoint, "jumpseat.otel.more").len(), 2);
    assert_eq!(of(&endpoint, "jumpseat.otel.more")["listed@one{n=2,rack=7}"], "2");
    let json =
        format!(r#"[{{"targets":["127.0.0.1:{port}"],"labels":{{"rack":"8","__metrics_path__":"/more"}}}}]"#);
    fs::write(&file, json).expect("the test's directory");
    wait(&endpoint, "jumpseat.otel.more", &format!("listed@127.0.0.1:{port}{{n=1,rack=8}}"), "1");
    assert_eq!(of(&endpoint, "jumpseat.otel.more").len(), 2);
    // One that cannot be read changes nothing.
    fs::write(&file, "[{").expect("the test's directory");
    eventually("the file to be looked at", || {
        let text = endpoint.run("pminfo", ["-f", "jumpseat.self.scrape.unreadable"]).stdout;
        (!text.contains("value 0")).then_some(())
    });
    assert_eq!(of(&endpoint, "jumpseat.scrape.up").len(), 2);

    // Tables change; one that is the same goes on.
    let scrapes = |endpoint: &Endpoint| {
        of(endpoint, "jumpseat.scrape.scrapes")[&plain].parse::<u64>().expect("a number")
    };
    let (count, connections) = (scrapes(&endpoint), targets.connections());
    Seat::in_dir(dir.path(), &shop);
    reload(&mut endpoint, 1);
    eventually("the other table to go", || (of(&endpoint, "jumpseat.scrape.up").len() == 1).then_some(()));
    eventually("its series to go", || of(&endpoint, "jumpseat.otel.more").is_empty().then_some(()));
    eventually("further scrapes", || (scrapes(&endpoint) > count + 3).then_some(()));
    assert_eq!(targets.connections(), connections);
    Seat::in_dir(dir.path(), &shop.replace("interval", "labels = { env = \"b\" }\ninterval"));
    reload(&mut endpoint, 2);
    wait(&endpoint, "jumpseat.otel.shop_untyped", &format!("shop@127.0.0.1:{port}{{env=b}}"), "7");
    assert_eq!(of(&endpoint, "jumpseat.otel.shop_untyped").len(), 1);
    Seat::in_dir(dir.path(), "");
    reload(&mut endpoint, 3);
    eventually("all to go", || {
        let up = of(&endpoint, "jumpseat.scrape.up");
        (up.is_empty() && of(&endpoint, "jumpseat.otel.shop_untyped").is_empty()).then_some(())
    });
}

#[test]
fn a_real_node_exporter_is_scraped_whole() {
    let exporter = "/usr/bin/prometheus-node-exporter";
    assert!(Path::new(exporter).exists(), "{exporter} is not there: run ./test, which installs it");
    let (dir, port) = (temp_dir(), free_port());
    let mut command = PcpEnv::new().command(exporter);
    command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    let _exporter = Process::start(&mut command, dir.path(), "exporter");
    let body = eventually("the exporter", || {
        let output = PcpEnv::new().run("curl", ["-sSf", &format!("http://127.0.0.1:{port}/metrics")]);
        (output.status.success() && output.stdout.contains("node_")).then_some(output.stdout)
    });
    let tables =
        format!("[[scrape]]\nname = \"node\"\ntargets = [\"127.0.0.1:{port}\"]\ninterval = \"1s\"\n");
    let seat = Seat::in_dir(dir.path(), &tables);
    let pmcd = PrivatePmcd::with([seat.agent(Transport::Pipe)]).start();
    let name = format!("node@http://127.0.0.1:{port}/metrics");
    let get = |metric: &str| values(&pmcd.run("pminfo", ["-f", metric]).stdout).remove(&name);
    eventually(&format!("a scrape: {}", seat.log()), || (get("jumpseat.scrape.up")? == "1").then_some(()));
    assert_eq!(get("jumpseat.scrape.problem").as_deref(), Some(""));
    // As many as it tells; a few come and go.
    let told = body.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).count() as f64;
    let samples: f64 = get("jumpseat.scrape.samples").expect("a value").parse().expect("a number");
    assert!(samples > 100.0 && (samples - told).abs() < told / 20.0, "{samples} of {told}");
    let text = pmcd.run("pminfo", ["-f", "jumpseat.otel.node_memory_MemTotal_bytes"]).ok();
    let line =
        body.lines().find_map(|line| line.strip_prefix("node_memory_MemTotal_bytes ")).expect("a line");
    let memory: f64 = line.parse().expect("a number");
    let found = values(&text).remove(&format!("node@127.0.0.1:{port}"));
    assert_eq!(found.and_then(|value| value.parse().ok()), Some(memory), "{text}");
    let about = pmcd.run("pminfo", ["-d", "jumpseat.otel.node_cpu_seconds_total"]).ok();
    assert!(about.contains("Semantics: counter  Units: sec"), "{about}");
    let mut env = pmcd.env().clone();
    // The system's, which PCP's module is for.
    env.set("PCP_PYTHON_PROG", "/usr/bin/python3");
    let rates = env
        .run("pmrep", ["-h", &pmcd.inet(), "-s", "2", "-t", "1", "jumpseat.otel.node_cpu_seconds_total"])
        .ok();
    let last = rates.trim_end().lines().last().unwrap_or_default();
    let is_rate = |word: &str| word.parse::<f64>().is_ok_and(|rate| (0.0..100.0).contains(&rate));
    assert!(rates.contains("s/s") && last.split_whitespace().any(is_rate), "{rates}");
}

#[test]
fn names_of_any_characters_are_taken_as_prometheus_writes_them() {
    let targets = Targets::start();
    targets.write(
        "utf8",
        "# HELP \"http.server.size\" Bodies.\n# TYPE \"http.server.size\" gauge\n\
         {\"http.server.size\",\"http.route\"=\"/a\",method=\"GET\"} 7\nbare{\"x y\"=\"1\"} 8\n{\"no\\\\name\"} 9\n",
    );
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), &targets.table("shop", &["utf8"], ""));
    let pmcd = PrivatePmcd::with([seat.agent(Transport::Pipe)]).start();
    let text = eventually(&format!("the target: {}", seat.log()), || {
        let shown = pmcd.run("pminfo", ["-fT", "jumpseat.otel.http.server.size", "jumpseat.otel.bare"]);
        shown.status.success().then_some(shown.stdout)
    });
    let here = format!("shop@127.0.0.1:{}", targets.port);
    assert!(text.contains("Bodies.") && text.contains("\"http.server.size\""), "{text}");
    let found = values(&text);
    for (labels, value) in [("{http.route=/a,method=GET}", "7"), ("{x%20y=1}", "8")] {
        assert_eq!(found.get(&format!("{here}{labels}")).map(String::as_str), Some(value), "{text}");
    }
    let problem = pmcd.run("pminfo", ["-f", "jumpseat.scrape.problem"]).ok();
    assert!(problem.contains("a name with a quote, a backslash"), "{problem}");
}

#[test]
fn exemplars_go_from_the_target_through_an_archive_to_a_receiver_as_they_were() {
    let targets = Targets::start();
    targets.write(
        "shop.om",
        "# TYPE a counter\na_total 3 # {trace_id=\"4bf92f3577b34da6a3ce929d0e0e4736\",span_id=\"00f067aa0ba902b7\",\
         user=\"ann \\\"b\\\" c\\\\d=\\n100%\"} 1 1605281325.123456789\n# EOF\n",
    );
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), &targets.table("shop", &["shop.om"], ""));
    let pmcd = PrivatePmcd::with([seat.agent(Transport::Pipe)]).start();
    eventually(&format!("the exemplar: {}", seat.log()), || {
        let shown = pmcd.run("pminfo", ["-f", "jumpseat.otel_exemplar.a_total"]);
        shown.stdout.contains("value=1.0").then_some(())
    });
    let archive = pmcd.dir().join("archive").display().to_string();
    let roots = ["jumpseat.otel", "jumpseat.otel_exemplar"];
    let host = pmcd.inet();
    let record = ["record", "-q", "-s", "1", "-h", &host, &archive];
    pmcd.run(JUMPSEAT, record.into_iter().chain(roots)).ok();
    let receiver = Receiver::start(dir.path(), "http", &[]);
    let url = receiver.url();
    let export = ["export", "--otlp", &url, "-a", &archive];
    pmcd.run(JUMPSEAT, export.into_iter().chain(roots)).ok();
    let received: Vec<ExportMetricsServiceRequest> = receiver.messages("metrics", &["ok"]);
    let groups = received.iter().flat_map(|request| &request.resource_metrics);
    let metrics = groups.flat_map(|group| &group.scope_metrics).flat_map(|scope| &scope.metrics);
    let sums = metrics.filter_map(|metric| match &metric.data {
        Some(Data::Sum(sum)) if metric.name == "a_total" => Some(sum),
        _ => None,
    });
    let found: Vec<&Exemplar> =
        sums.flat_map(|sum| &sum.data_points).flat_map(|point| &point.exemplars).collect();
    let expected = Exemplar {
        time_unix_nano: 1_605_281_325_123_456_789,
        value: Some(exemplar::Value::AsDouble(1.0)),
        trace_id: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736_u128.to_be_bytes().to_vec(),
        span_id: 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes().to_vec(),
        filtered_attributes: vec![pair("user", Any::StringValue("ann \"b\" c\\d=\n100%".to_owned()))],
    };
    assert_eq!(found, [&expected]);
}
