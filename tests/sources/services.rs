//! The map of services and objectives, under a real pmcd: from the Python SDK over two services, and from lines.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::otlp_sdk::{SDK, wait_for};
use crate::spans::start;
use support::{PcpEnv, PrivatePmcd, eventually, free_port};

const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sources/otlp_services.py");

/// The value of an instance of a metric.
fn value(pmcd: &PrivatePmcd, metric: &str, instance: &str) -> Option<f64> {
    let text = pmcd.run("pminfo", ["-f", &format!("jumpseat.{metric}")]).stdout;
    let line = text.lines().find(|line| line.contains(&format!("or \"{instance}\"]")))?;
    line.rsplit_once("value ")?.1.trim().parse().ok()
}

fn single(pmcd: &PrivatePmcd, metric: &str) -> Option<u64> {
    pmcd.value(&format!("jumpseat.{metric}")).and_then(|text| text.parse().ok())
}

/// A span of a trace: who it is, whom it is called by, its kind, and its time in milliseconds.
fn span(trace: &str, id: &str, parent: &str, kind: &str, [began, ended]: [u64; 2], end: &str) -> String {
    let time = |millis: u64| format!("{}.{:03}", 1_795_000_000 + millis / 1000, millis % 1000);
    let parent = if parent.is_empty() { String::new() } else { format!(",\"parent_id\":\"{parent}\"") };
    format!(
        "{{\"phase\":\"start\",\"span_id\":\"{id}\"{parent},\"type\":\"work\",\"trace_id\":\"{trace}\",\
         \"kind\":\"{kind}\",\"time\":{}}}\n{{\"phase\":\"end\",\"span_id\":\"{id}\",\"time\":{}{end}}}\n",
        time(began),
        time(ended)
    )
}

#[test]
fn services_of_the_python_sdk_are_a_map() {
    let port = free_port();
    let (pmcd, _seat) =
        start(&format!("[otlp]\nlisten = \"localhost:{port}\"\n[service_map]\nenabled = true\n"));
    wait_for(port);
    assert!(
        Path::new(SDK).join("opentelemetry").is_dir(),
        "the OpenTelemetry SDK is not in {SDK}: run ./test"
    );
    let mut env = PcpEnv::new();
    env.set("PYTHONPATH", SDK);
    env.set("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://localhost:{port}"));
    env.run("python3", [CLIENT]).ok();
    let calls = |pair: &str| value(&pmcd, "service.calls", pair);
    eventually("all calls", || {
        (calls("web->shop") == Some(20.0) && calls("shop->db") == Some(20.0)).then_some(())
    });
    assert_eq!(value(&pmcd, "service.errors", "shop->db"), Some(5.0));
    assert_eq!((calls("web->db"), calls("shop->web")), (None, None));
    let time = |metric: &str| value(&pmcd, metric, "web->shop").expect("a call");
    assert!(time("service.time") >= time("service.called_time") && time("service.called_time") > 0.0);
    assert_eq!(value(&pmcd, "service.skewed", "web->shop"), Some(0.0), "one clock");
    let labels = pmcd.run("pminfo", ["-l", "jumpseat.service.calls"]).ok();
    assert!(labels.contains("\"client\":\"web\"") && labels.contains("\"server\":\"shop\""), "{labels}");
}

#[test]
fn calls_from_lines_outlive_the_agent_by_number_and_losses_are_counted() {
    // Both ends of a call are fed by processes of their own, between which a busy machine may take seconds.
    let [long, short] = ["wait = \"1h\"", "wait = \"1s\""];
    let (mut pmcd, seat) = start(&format!("[service_map]\nenabled = true\n{long}\nmax_edges = 2\n"));
    let send = |source: &str, text: &str| {
        seat.feed(["--source", source], text).ok();
    };
    // The called one first, and its clock is ahead by a second.
    send("b", &span("t1", "b1", "a1", "server", [1000, 1100], ""));
    send("a", &span("t1", "a1", "", "client", [0, 200], ",\"status\":\"error\""));
    // Another trace with the same ids is another call.
    send("a", &span("t2", "a1", "", "client", [0, 200], ""));
    send("b", &span("t2", "b1", "a1", "server", [50, 150], ""));
    send("b", &span("t3", "b9", "nobody", "server", [0, 1], ""));
    send("a", &span("t3", "a9", "", "client", [0, 1], ""));
    send("c", &span("t2", "c1", "b1", "server", [0, 1], ""));
    let number = |pmcd: &PrivatePmcd| {
        let text = pmcd.run("pminfo", ["-f", "jumpseat.service.calls"]).ok();
        text.lines()
            .find(|line| line.contains("a->b"))
            .and_then(|line| Some(line.split_once(" or ")?.0.to_owned()))
    };
    eventually("the pair", || (value(&pmcd, "service.calls", "a->b") == Some(2.0)).then_some(()));
    assert_eq!(value(&pmcd, "service.errors", "a->b"), Some(1.0));
    assert_eq!(value(&pmcd, "service.skewed", "a->b"), Some(1.0));
    assert_eq!(value(&pmcd, "service.time", "a->b"), Some(400e6));
    assert_eq!(value(&pmcd, "service.called_time", "a->b"), Some(200e6));
    // Three without the other end, two callers.
    eventually("all ends", || (single(&pmcd, "service.pending") == Some(3 + 2)).then_some(()));
    // Those whose other side does not come: `b` is a server, and so calls nobody.
    let config = fs::read_to_string(seat.config()).expect("it is there");
    fs::write(seat.config(), config.replace(long, short)).expect("writable");
    pmcd.run("pmstore", ["jumpseat.control.reload", "1"]).ok();
    eventually("nobody to come", || {
        (single(&pmcd, "service.orphans") == Some(2) && single(&pmcd, "service.unanswered") == Some(1))
            .then_some(())
    });
    assert_eq!((single(&pmcd, "service.pending"), single(&pmcd, "service.overflow")), (Some(0), Some(0)));
    let before = number(&pmcd);
    fs::write(seat.config(), &config).expect("writable");
    pmcd.restart();
    pmcd.wait_ready("jumpseat");
    seat.wait_for_socket();
    // Others come first, and more than there may be.
    for (caller, called) in [("x", "y"), ("a", "b"), ("y", "z")] {
        send(caller, &span(called, "1", "", "client", [0, 1], ""));
        send(called, &span(called, "2", "1", "server", [0, 1], ""));
    }
    eventually("the pairs", || (value(&pmcd, "service.calls", "(other)") == Some(1.0)).then_some(()));
    assert_eq!((number(&pmcd), before.is_some()), (before.clone(), true));
    assert_eq!(single(&pmcd, "service.folded"), Some(1));
}

#[test]
fn objectives_tell_good_spans_and_burn_rates_and_a_reload_keeps_them() {
    let objective =
        "[[objective]]\nname = \"fast\"\nspans = \"app/work\"\nthreshold = \"100ms\"\ntarget = 0.9\n";
    let (mut pmcd, seat) = start(objective);
    let mut text = String::new();
    for n in 0..100_u64 {
        // Twenty that are slow, ten that fail.
        let millis = if n < 20 { 101 } else { 100 };
        let end = if (50..60).contains(&n) { ",\"status\":\"error\"" } else { "" };
        let _ = write!(text, "{}", span("t", &n.to_string(), "", "internal", [0, millis], end));
    }
    seat.feed(["--source", "app"], &text).ok();
    seat.feed(["--source", "other"], &text).ok();
    let of = |pmcd: &PrivatePmcd, metric: &str, name: &str| value(pmcd, &format!("objective.{metric}"), name);
    let near = |found: Option<f64>, expected: f64| {
        let found = found.expect("a value");
        assert!((found - expected).abs() < 1e-6, "{found} instead of {expected}");
    };
    eventually("the objective", || (of(&pmcd, "total", "fast") == Some(100.0)).then_some(()));
    assert_eq!((of(&pmcd, "good", "fast"), of(&pmcd, "threshold", "fast")), (Some(70.0), Some(0.1)));
    near(of(&pmcd, "error_ratio", "fast"), 0.3);
    near(of(&pmcd, "budget", "fast"), -2.0);
    for burn in ["m5", "h1", "h6"] {
        near(of(&pmcd, &format!("burn_rate.{burn}"), "fast"), 3.0);
    }
    let help = pmcd.run("pminfo", ["-T", "jumpseat.objective.burn_rate.m5"]).ok();
    assert!(help.contains("/ (1 - target)") && help.contains("1: as fast as"), "{help}");
    let ids = |pmcd: &PrivatePmcd, name: &str| {
        let text = pmcd.run("pminfo", ["-f", "jumpseat.objective.target"]).ok();
        let line = text.lines().find(|line| line.contains(&format!("\"{name}\"")))?;
        Some(line.split_once(" or ")?.0.to_owned())
    };
    let before = ids(&pmcd, "fast");
    // Another one before it, which begins now.
    let config = fs::read_to_string(seat.config()).expect("it is there");
    let more = config.replace(
        objective,
        &format!(
            "[[objective]]\nname = \"whole\"\nspans = \"*\"\ntarget = 0.5\nwindow = \"1h\"\n{objective}"
        ),
    );
    fs::write(seat.config(), &more).expect("writable");
    pmcd.run("pmstore", ["jumpseat.control.reload", "1"]).ok();
    seat.feed(["--source", "app"], &text).ok();
    eventually("both", || (of(&pmcd, "total", "whole") == Some(100.0)).then_some(()));
    assert_eq!((of(&pmcd, "total", "fast"), ids(&pmcd, "fast")), (Some(200.0), before.clone()));
    near(of(&pmcd, "budget", "whole"), 0.8);
    // What cannot be changes nothing.
    fs::write(seat.config(), more.replace("target = 0.5", "target = 1.5")).expect("writable");
    pmcd.run("pmstore", ["jumpseat.control.reload", "1"]).fails(1);
    assert!(seat.log().contains("1.5 is not between 0 and 1"), "{}", seat.log());
    // After a restart windows go on; one whose threshold is another begins anew.
    let covered = of(&pmcd, "covered", "fast").expect("a value");
    let changed = more.replace("target = 0.5", "target = 0.5\nthreshold = \"1h\"");
    fs::write(seat.config(), &changed).expect("writable");
    pmcd.restart();
    pmcd.wait_ready("jumpseat");
    eventually("its name", || (ids(&pmcd, "fast") == before).then_some(()));
    assert_eq!((of(&pmcd, "total", "fast"), of(&pmcd, "error_ratio", "whole")), (Some(0.0), None));
    near(of(&pmcd, "error_ratio", "fast"), 0.3);
    near(of(&pmcd, "burn_rate.h6", "fast"), 3.0);
    assert!((covered..600.0).contains(&of(&pmcd, "covered", "fast").expect("a value")));
    // The same as derived metrics, which tell how.
    let derived = |metric: &str| value(&pmcd, &format!("derived.objective.{metric}"), "fast");
    for metric in ["error_ratio", "budget", "burn_rate.m5", "burn_rate.h1", "burn_rate.h6"] {
        near(derived(metric), of(&pmcd, metric, "fast").expect("a value"));
    }
    assert_eq!(value(&pmcd, "derived.objective.budget", "whole"), None, "no spans");
    let help = pmcd.run("pminfo", ["-T", "jumpseat.derived.objective.burn_rate.h1"]).ok();
    assert!(help.contains("jumpseat.objective.bad.h1 / jumpseat.objective.ended.h1 / (1 -"), "{help}");
    // So they do after a kill, but for what came within the last seconds.
    let state = seat.state_dir().join("jumpseat-400-objectives.json");
    let written = || {
        let text = fs::read_to_string(&state).expect("it is there");
        let lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let fast = lines.into_iter().find(|line| line["name"] == "fast").expect("it is kept");
        let slots = fast["slots"].as_array().expect("a list");
        slots.iter().filter_map(|slot| slot[2].as_u64()).sum::<u64>()
    };
    seat.feed(["--source", "app"], &text).ok();
    eventually("it to be written", || (written() == 300).then_some(()));
    let pid = single(&pmcd, "self.pid").expect("it runs").to_string();
    assert!(Command::new("kill").args(["-9", &pid]).status().expect("there is a kill").success());
    pmcd.restart();
    pmcd.wait_ready("jumpseat");
    eventually("its name", || (ids(&pmcd, "fast") == before).then_some(()));
    assert_eq!(of(&pmcd, "ended.window", "fast"), Some(300.0));
    assert_eq!(of(&pmcd, "bad.window", "fast"), Some(90.0));
    assert!(!seat.log().contains("begin anew"), "{}", seat.log());
}
