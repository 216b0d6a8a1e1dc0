//! Prometheus from Debian: its parser, and a server that scrapes both forms of the page.

use std::fs;
use std::net::TcpStream;
use std::process::Command;

use serde_json::Value as Json;
use support::{PcpEnv, Process, eventually, free_port, temp_dir};

use super::Sample;
use super::events::start;
use crate::web_support::ask;

/// Values of a query by one of their labels.
fn query(port: u16, expr: &str, label: &str) -> Vec<(String, f64)> {
    let answer = ask(port, "GET", &format!("/api/v1/query?query={expr}"), &[], b"").json();
    let results = answer["data"]["result"].as_array().cloned().unwrap_or_default();
    let pair = |result: &Json| {
        let value = result["value"][1].as_str().and_then(|text| text.parse().ok());
        (result["metric"][label].as_str().unwrap_or_default().to_owned(), value.expect("a number"))
    };
    let mut pairs: Vec<_> = results.iter().map(pair).collect();
    pairs.sort_by(|one, other| one.0.cmp(&other.0));
    pairs
}

fn prometheus(dir: &std::path::Path, jobs: &str) -> (Process, u16) {
    let port = free_port();
    let config = dir.join("prometheus.yml");
    fs::write(&config, format!("global:\n  scrape_interval: 1s\nscrape_configs:\n{jobs}"))
        .expect("it is writable");
    let mut command = Command::new("prometheus");
    command
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", dir.join("tsdb").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .args(["--enable-feature=exemplar-storage", "--log.level=warn"]);
    let process = Process::start(&mut command, dir, "prometheus");
    eventually("prometheus listens", || TcpStream::connect(("127.0.0.1", port)).ok());
    eventually("prometheus is ready", || {
        (ask(port, "GET", "/-/ready", &[], b"").status == 200).then_some(())
    });
    (process, port)
}

fn job(name: &str, port: u16, params: &str) -> String {
    format!(
        "- job_name: {name}\n  params: {{{params}}}\n  static_configs:\n  - targets: ['127.0.0.1:{port}']\n"
    )
}

#[test]
fn promtool_reads_the_page_of_all_metrics() {
    let sample = Sample::start(&[]);
    let page = sample.web.get("/metrics");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/plain")));
    let page = page.text();
    assert!(page.lines().count() > 500, "{page}");
    let checked = PcpEnv::new().run_with_input("/usr/bin/promtool", ["check", "metrics"], page.as_bytes());
    // 3 is for advice on names, which are PCP's; 1 for what cannot be read.
    assert!(!format!("{checked:?}").contains("error while linting"), "{checked:?}");
    assert!([Some(0), Some(3)].contains(&checked.status.code()), "{checked:?}");
}

#[test]
fn prometheus_scrapes_both_pages_and_has_the_values_of_pcps_tools() {
    let sample = Sample::start(&[]);
    sample.pmcd.run("pmstore", ["sample.double.write_me", "0.25"]).ok();
    let names = "names: ['sample.long,sample.bin,sample.double.write_me,sample.float.bin_ctr,sample.ulonglong.million,sample.milliseconds']";
    let jobs = [
        job("open", sample.web.port, names),
        job("plain", sample.web.port, &format!("{names}, format: ['text']")),
        job("whole", sample.web.port, ""),
    ];
    let (_server, port) = prometheus(sample.dir.path(), &jobs.concat());
    eventually("all are scraped", || {
        let up = query(port, "up", "job");
        (up.iter().map(|(_, up)| *up).collect::<Vec<_>>() == [1.0, 1.0, 1.0]).then_some(())
    });
    let only = |expr: &str| {
        let found = query(port, expr, "instname");
        assert_eq!(found.len(), 1, "{expr} {found:?}");
        found[0].1
    };
    // The same numbers as PCP's own tool has, in both.
    for metric in
        ["sample.long.million", "sample.ulonglong.million", "sample.double.write_me", "sample.long.ten"]
    {
        let expected: f64 = sample.pmcd.value(metric).and_then(|text| text.parse().ok()).expect("a number");
        let name = metric.replace('.', "_");
        for job in ["open", "plain", "whole"] {
            assert_eq!(only(&format!("{name}{{job=\"{job}\"}}")), expected, "{metric} {job}");
        }
    }
    let bins = query(port, "sample_bin{job=\"open\"}", "instname");
    let expected: Vec<(String, f64)> = (1..=9).map(|n| (format!("bin-{n}00"), f64::from(n * 100))).collect();
    assert_eq!(bins, expected);
    // pmproxy's names and numbers; OpenMetrics has the unit in the name.
    let kbytes = query(port, "sample_float_bin_ctr{job=\"plain\"}", "instid");
    let bytes = query(port, "sample_float_bin_ctr_bytes_total{job=\"open\"}", "instname");
    assert_eq!((kbytes.len(), bytes.len()), (9, 9));
    assert!(
        kbytes.iter().zip(&bytes).all(|(kbytes, bytes)| kbytes.1 * 1024.0 == bytes.1),
        "{kbytes:?} {bytes:?}"
    );
    let millis = only("sample_milliseconds{job=\"plain\"}");
    let seconds = only("sample_milliseconds_seconds_total{job=\"open\"}");
    assert!((millis / 1000.0 - seconds).abs() < 3600.0, "{millis} {seconds}");
    let labels = ask(port, "GET", "/api/v1/query?query=sample_long_one{job=\"open\"}", &[], b"").json();
    assert_eq!(labels["data"]["result"][0]["metric"]["agent"], "sample");
    let types = ask(port, "GET", "/api/v1/metadata?metric=sample_float_bin_ctr_bytes", &[], b"").json();
    let found = &types["data"]["sample_float_bin_ctr_bytes"][0];
    assert_eq!((&found["type"], &found["unit"]), (&"counter".into(), &"bytes".into()), "{types}");
    // A clean form.
    let page = sample.web.ask(
        "GET",
        "/metrics?names=sample.bin",
        &[("Accept", "application/openmetrics-text; version=1.0.0")],
        b"",
    );
    let content = page.header("content-type").unwrap_or_default().to_owned();
    assert!(content.starts_with("application/openmetrics-text; version=1.0.0"), "{content}");
    assert!(page.text().ends_with("\n# EOF\n"));
    assert_eq!(sample.web.get("/metrics?format=x").status, 400);
}

/// The start and the end of a span that takes half a millisecond more.
fn span(id: &str, millis: u64, rest: &str) -> String {
    format!(
        "{{\"phase\":\"start\",\"span_id\":\"{id}\",\"type\":\"get\",\"time\":1795000000,\"trace_id\":\"t-{id}\",\"http.route\":\"/cart\"}}\n\
         {{\"phase\":\"end\",\"span_id\":\"{id}\",\"time\":1795000000.{:09}{rest}}}\n",
        millis * 1_000_000 + 500_000
    )
}

#[test]
fn spans_are_a_histogram_with_exemplars_of_the_slowest_and_the_failed() {
    let dir = temp_dir();
    let settings =
        "[[dimensions]]\nsource = \"shop*\"\nfields = [\"http.route\"]\n[spans]\nwindow = \"1h\"\n";
    let (pmcd, seat, web) = start(settings, dir.path(), &[]);
    let text: String =
        (0..100).map(|n| span(&format!("s{n}"), n, if n == 40 { ",\"error\":true" } else { "" })).collect();
    seat.feed(["--source", "shop"], &text).ok();
    eventually("the series", || {
        pmcd.run("pminfo", ["-f", "jumpseat.span.series.count"]).ok().contains("value 100").then_some(())
    });
    let jobs = job("open", web.port, "names: ['jumpseat.span']");
    let (_server, port) = prometheus(dir.path(), &jobs);
    let found = eventually("it is scraped", || {
        let found = query(port, "jumpseat_span_bucket", "le");
        (!found.is_empty()).then_some(found)
    });
    let at = |bound: &str| found.iter().find(|(le, _)| le == bound).map(|(_, count)| *count);
    assert_eq!(
        (at("0.05"), at("0.1"), at("+Inf"), at("0.001")),
        (Some(50.0), Some(100.0), Some(100.0), Some(1.0))
    );
    assert_eq!(query(port, "jumpseat_span_count", "span"), [("get".to_owned(), 100.0)]);
    let sum = query(port, "jumpseat_span_sum", "span");
    let page = web.get("/metrics?names=jumpseat.span&format=openmetrics").text();
    assert_eq!(sum.len(), 1, "{page}");
    assert!((sum[0].1 - 5.0).abs() < 1e-6, "{sum:?}");
    let quantile = query(port, "histogram_quantile(0.5,jumpseat_span_bucket)", "span");
    assert!((quantile[0].1 - 0.05).abs() < 1e-9, "{quantile:?}");
    let types = ask(port, "GET", "/api/v1/metadata?metric=jumpseat_span", &[], b"").json();
    assert_eq!(types["data"]["jumpseat_span"][0]["type"], "histogram", "{types}");
    // From a number to a trace.
    let exemplars = |name: &str| {
        let path = format!("/api/v1/query_exemplars?query={name}&start=1794990000&end=1795010000");
        ask(port, "GET", &path, &[], b"").json()["data"][0]["exemplars"][0].clone()
    };
    let slowest = eventually("an exemplar", || {
        Some(exemplars("jumpseat_span_series_count_total")).filter(Json::is_object)
    });
    assert_eq!(
        (&slowest["labels"]["trace_id"], &slowest["labels"]["span_id"]),
        (&"t-s99".into(), &"s99".into())
    );
    assert_eq!(slowest["value"], "0.0995");
    assert_eq!(exemplars("jumpseat_span_series_errors_total")["labels"]["trace_id"], "t-s40");
    // The parts are no metrics of their own there, but as ever in pmproxy's form.
    assert!(query(port, "jumpseat_span_series_slowest_value_seconds", "le").is_empty());
    assert!(
        web.get("/metrics?names=jumpseat.span.series.slowest")
            .text()
            .contains("jumpseat_span_series_slowest_value{")
    );
}
