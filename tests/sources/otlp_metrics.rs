//! The real OpenTelemetry SDKs for Python and Node send metrics to the real agent; PCP's tools read them.

use std::path::Path;
use std::time::Duration;

use crate::seat::{JUMPSEAT, Seat, Transport};
use support::{Output, PcpEnv, PrivatePmcd, eventually, free_port, temp_dir};

const PYTHON_SDK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/otlp-sdk");
const PYTHON_CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sources/otlp_metrics_client.py");
const NODE_SDK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/otlp-node/node_modules");
const NODE_CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sources/otlp_metrics_client.js");

/// The ports of HTTP and gRPC.
#[derive(Clone, Copy)]
struct Ports {
    http: u16,
    grpc: u16,
}

impl Ports {
    fn free() -> Ports {
        Ports { http: free_port(), grpc: free_port() }
    }

    fn settings(self) -> String {
        format!("[otlp]\nlisten = \"localhost:{}\"\ngrpc = \"localhost:{}\"\n", self.http, self.grpc)
    }

    fn env(self, protocol: &str) -> PcpEnv {
        let port = if protocol == "grpc" { self.grpc } else { self.http };
        eventually("the OTLP listener", || std::net::TcpStream::connect(("localhost", port)).ok());
        let mut env = PcpEnv::new();
        env.set("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://localhost:{port}"));
        env
    }

    #[track_caller]
    fn python(self, protocol: &str, temporality: &str, instance: &str) {
        assert!(
            Path::new(PYTHON_SDK).join("opentelemetry").is_dir(),
            "the OpenTelemetry SDK is not in {PYTHON_SDK}: run ./test, which installs it there"
        );
        let mut env = self.env(protocol);
        env.set("PYTHONPATH", PYTHON_SDK);
        quiet(&env.run("python3", [PYTHON_CLIENT, protocol, temporality, instance]));
    }

    #[track_caller]
    fn node(self, protocol: &str) {
        assert!(
            Path::new(NODE_SDK).join("@opentelemetry").is_dir(),
            "the OpenTelemetry SDK is not in {NODE_SDK}: run ./test, which installs it there"
        );
        let mut env = self.env(protocol);
        env.set("NODE_PATH", NODE_SDK);
        quiet(&env.run("node", [NODE_CLIENT, protocol]));
    }
}

/// SDKs tell of partial successes and errors in their logs.
#[track_caller]
fn quiet(output: &Output) {
    let told = output.stderr.to_lowercase();
    assert!(output.status.success() && !told.contains("error") && !told.contains("partial"), "{output:?}");
}

/// Fails unless all of these values are in what `pminfo -f` prints: metric below the root, instance, value.
#[track_caller]
fn expect(text: &str, values: &[(&str, &str, &str)]) {
    for (metric, instance, value) in values {
        let of_metric = text
            .split("\n\n")
            .find(|part| part.trim_start().lines().next() == Some(&format!("jumpseat.otel.{metric}")));
        let end = format!("or \"{instance}\"] value {value}");
        let found = of_metric.is_some_and(|part| part.lines().any(|line| line.ends_with(&end)));
        assert!(found, "{metric}[{instance}] {value}: {text}");
    }
}

#[test]
fn metrics_of_the_python_sdk_are_read_by_all_tools() {
    let (dir, ports) = (temp_dir(), Ports::free());
    let seat = Seat::in_dir(dir.path(), &ports.settings());
    let mut pmcd = PrivatePmcd::with([seat.agent(Transport::Pipe)]).start();
    ports.python("http", "delta", "one");
    ports.python("grpc", "cumulative", "two");
    let text = eventually("all values", || {
        let text = pmcd.run("pminfo", ["-f", "jumpseat.otel"]).stdout;
        (text.matches("shop@two{otel.scope.name=shop.lib}").count() >= 5).then_some(text)
    });
    for instance in ["one", "two"] {
        let named = |attributes: &str| format!("shop@{instance}{{{attributes}}}");
        let scope = "otel.scope.name=shop.lib";
        let tea = named(&format!("item=tea,{scope},paid=true"));
        let cart = named(&format!("http.route=/cart,{scope}"));
        let alone = named(scope);
        let bucket = |le: &str| named(&format!("http.route=/cart,le={le},{scope}"));
        let duration = |part: &str| format!("http.server.request.duration.{part}");
        expect(
            &text,
            &[
                ("shop.orders", &tea, "4"),
                ("shop.cart.items", &alone, "4"),
                ("shop.temperature", &named(&format!("{scope},room=cold%20store")), "-3.5"),
                (&duration("count"), &cart, "4"),
                (&duration("sum"), &cart, "1.46"),
                (&duration("max"), &cart, "0.7"),
                (&duration("bucket"), &bucket("0"), "0"),
                (&duration("bucket"), &bucket("5"), "4"),
                (&duration("bucket"), &bucket("+Inf"), "4"),
                ("shop.size.count", &alone, "8"),
                ("shop.size.sum", &alone, "2222"),
                ("shop.size.bucket", &named(&format!("le=1,{scope}")), "2"),
                ("shop.size.bucket", &named(&format!("le=1024,{scope}")), "8"),
            ],
        );
    }
    let about = pmcd.run("pminfo", ["-dtl", "jumpseat.otel.shop.orders"]).ok();
    for part in [
        "[Orders so far.]",
        "64-bit unsigned int",
        "Semantics: counter  Units: count",
        "\"otel_unit\":\"{order}\"",
        "\"item\":\"tea\"",
        "\"paid\":true",
        "\"service_name\":\"shop\"",
        "\"service_instance_id\":\"two\"",
        "\"deployment\":\"test\"",
        "\"otel_scope_version\":\"1.2\"",
    ] {
        assert!(about.contains(part), "{part}: {about}");
    }
    let about = pmcd.run("pminfo", ["-d", "jumpseat.otel.http.server.request.duration.sum"]).ok();
    assert!(about.contains("Semantics: counter  Units: sec"), "{about}");
    let exemplars = pmcd.run("pminfo", ["-f", "jumpseat.otel_exemplar.shop.orders"]).ok();
    assert!(exemplars.contains("trace_id=") && exemplars.contains(" value=2 time="), "{exemplars}");

    // Other tools, an archive, and a derived metric.
    let host = pmcd.inet();
    let env = pmcd.env();
    let pmrep = |from: &[&str]| {
        let mut env = env.clone();
        // The system's, which PCP's module is for.
        env.set("PCP_PYTHON_PROG", "/usr/bin/python3");
        let args = ["-r", "-s", "2", "-t", "0.1", "jumpseat.otel.shop.temperature"];
        let text = env.run("pmrep", from.iter().copied().chain(args)).ok();
        assert!(text.contains("-3.5"), "{text}");
    };
    pmrep(&["-h", &host]);
    let val = env.run(JUMPSEAT, ["val", "-h", &host, "-s", "1", "-r", "jumpseat.otel.shop.cart.items"]).ok();
    assert!(val.lines().last().is_some_and(|line| line.contains('4')), "{val}");
    let top = env.run(JUMPSEAT, ["top", "-h", &host, "--once", "jumpseat.otel.shop.temperature"]).ok();
    assert!(top.contains("-3.5"), "{top}");
    let definitions = dir.path().join("derived");
    let expression = "shop.spread = jumpseat.otel.shop.size.max - jumpseat.otel.shop.size.min\n";
    std::fs::write(&definitions, expression).expect("the test's directory is writable");
    let mut derived = env.clone();
    derived.set("PCP_DERIVED_CONFIG", &definitions);
    let spread = derived.run("pminfo", ["-h", &host, "-f", "shop.spread"]).ok();
    assert_eq!(spread.matches("value 999").count(), 2, "{spread}");
    let logger = pmcd.record(&["jumpseat.otel"], Duration::from_millis(100));
    eventually("an archive with values", || {
        let text = logger.archive().run("pminfo", ["-f", "jumpseat.otel.shop.orders"]).stdout;
        text.contains("item=milk").then_some(())
    });
    let archive = logger.finish();
    // Not interpolated: there may be one sample only.
    pmrep(&["-u", "-a", archive.base().to_str().expect("temporary paths are ASCII")]);

    // Identities outlive the agent, in whatever order things come.
    let identity = |pmcd: &PrivatePmcd| {
        let text = pmcd.run("pminfo", ["-fm", "jumpseat.otel"]).stdout;
        let kept = |line: &&str| line.contains("PMID") || line.contains("inst [");
        let mut lines: Vec<String> = text
            .lines()
            .filter(kept)
            .map(|line| line.split(" value ").next().unwrap_or_default().to_owned())
            .collect();
        lines.sort();
        lines
    };
    let before = identity(&pmcd);
    pmcd.restart();
    ports.python("http", "cumulative", "two");
    ports.python("http", "delta", "one");
    eventually("the same identities", || (identity(&pmcd) == before).then_some(()));
}

#[test]
fn metrics_of_the_node_sdk_arrive_by_every_protocol() {
    let (dir, ports) = (temp_dir(), Ports::free());
    let seat = Seat::in_dir(dir.path(), &ports.settings());
    let endpoint = seat.serve([]);
    for protocol in ["proto", "http", "grpc"] {
        ports.node(protocol);
        let named = |attributes: &str| format!("web@{protocol}{{{attributes}}}");
        let alone = named("otel.scope.name=web.lib");
        let text = eventually("its values", || {
            let text = endpoint.run("pminfo", ["-f", "jumpseat.otel"]).stdout;
            text.contains(&named("cpu=1,otel.scope.name=web.lib")).then_some(text)
        });
        expect(
            &text,
            &[
                ("web.hits", &named("otel.scope.name=web.lib,page=/a%20b"), "8"),
                ("web.sessions", &alone, "2"),
                ("web.load", &named("cpu=1,otel.scope.name=web.lib"), "0.25"),
                ("web.duration.count", &alone, "2"),
                ("web.duration.sum", &alone, "24"),
                ("web.duration.bucket", &named("le=10,otel.scope.name=web.lib"), "0"),
                ("web.duration.bucket", &named("le=25,otel.scope.name=web.lib"), "2"),
                ("web.size.bucket", &named("le=4096,otel.scope.name=web.lib"), "2"),
            ],
        );
    }
    let refused = endpoint.run("pminfo", ["-f", "jumpseat.self.otlp.points_refused"]).ok();
    assert!(refused.contains("value 0"), "{refused}");
}

/// A program with three series of deltas, which exports once.
const THREE_ORDERS: &str = r#"
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import Counter, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, PeriodicExportingMetricReader
exporter = OTLPMetricExporter(preferred_temporality={Counter: AggregationTemporality.DELTA})
provider = MeterProvider(metric_readers=[PeriodicExportingMetricReader(exporter, 3600_000)])
orders = provider.get_meter("shop").create_counter("orders")
for item in ["tea", "milk", "rice"]:
    orders.add(1, {"item": item})
provider.shutdown()
"#;

#[test]
fn what_is_beyond_the_limits_shows_and_what_stops_is_forgotten() {
    let (dir, ports) = (temp_dir(), Ports::free());
    let series = "[series]\nmax_per_metric = 1\nforget_after = \"3s\"\n";
    let seat = Seat::in_dir(dir.path(), &format!("{}{series}", ports.settings()));
    let endpoint = seat.serve([]);
    let mut env = ports.env("http");
    env.set("PYTHONPATH", PYTHON_SDK);
    env.run("python3", ["-c", THREE_ORDERS]).ok();
    let text = eventually("the overflow instance", || {
        let text = endpoint.run("pminfo", ["-f", "jumpseat.otel.orders"]).stdout;
        text.contains("or \"{otel.metric.overflow=true}\"] value 2").then_some(text)
    });
    assert_eq!(text.matches("inst [").count(), 2, "{text}");
    let text = endpoint.run("pminfo", ["-f", "jumpseat.self.series"]).ok();
    let value = |metric: &str| -> u64 {
        let part = text.split("\n\n").find(|part| part.contains(&format!("jumpseat.self.series.{metric}\n")));
        part.and_then(|part| part.rsplit_once("value ")?.1.trim().parse().ok()).expect(metric)
    };
    assert_eq!(value("overflowed"), 2, "{text}");
    eventually("all to be forgotten", || {
        let text =
            endpoint.run("pminfo", ["-f", "jumpseat.self.series.count", "jumpseat.otel.orders"]).stdout;
        (text.contains("value 0") && !text.contains("inst [")).then_some(())
    });
}
