//! Contexts on archives, which pmproxy has none of: times, modes, growth, and what is not to be opened.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value as Json;
use support::{AgentSpec, PcpEnv, PrivatePmcd, eventually, temp_dir};

use crate::replay::ARCHIVES;
use crate::web_support::Web;

/// Values of a metric by the names of instances, as pmval interpolates those of an archive at a time.
fn recorded(archive: &str, time: &str, metric: &str) -> BTreeMap<String, String> {
    let options = ["-r", "-Z", "UTC", "-a", archive, "-S", time, "-t", "1", "-s", "1", "-w", "16", metric];
    let text = PcpEnv::new().run("pmval", options).ok();
    let mut lines = text.lines().rev().map(str::split_whitespace);
    let (values, names) = (lines.next().expect("values"), lines.next().expect("names"));
    names.map(str::to_owned).zip(values.skip(1).map(str::to_owned)).collect()
}

/// The same of an answer.
fn named(web: &Web, context: &Json, answer: &Json) -> BTreeMap<String, String> {
    let indom = web.json(&format!(
        "/pmapi/{context}/indom?name={}",
        answer["values"][0]["name"].as_str().expect("a name")
    ));
    let values = values(answer);
    let pair = |instance: &Json| {
        let value = values.get(&instance["instance"].as_u64()?)?.clone();
        Some((instance["name"].as_str()?.to_owned(), value))
    };
    indom["instances"].as_array().expect("instances").iter().filter_map(pair).collect()
}

fn values(answer: &Json) -> BTreeMap<u64, String> {
    let instances = answer["values"][0]["instances"].as_array().expect("instances");
    let pair = |value: &Json| (value["instance"].as_u64().expect("a number"), value["value"].to_string());
    instances.iter().map(pair).collect()
}

#[test]
fn values_of_an_archive_are_those_of_the_time_asked_for() {
    let dir = temp_dir();
    let archive = format!("{ARCHIVES}/snort-disks");
    let web = Web::start(dir.path(), &["-a", &archive]);
    let context = web.json(&format!("/pmapi/context?archivefile={archive}&interval=5sec&polltimeout=60"));
    assert_eq!((&context["hostspec"], context["source"].as_str().map(str::len)), (&"snort".into(), Some(40)));
    let number = &context["context"];
    let expected = recorded(&archive, "@2005-05-26 02:37:15", "disk.dev.total");
    assert!(expected.len() > 10);
    // In seconds, in words, without a context of its own.
    for request in [
        format!("/pmapi/{number}/fetch?names=disk.dev.total&time=1117075035"),
        format!("/pmapi/{number}/fetch?names=disk.dev.total&time=2005-05-26T02:37:15Z"),
        format!("/pmapi/fetch?archivefile={archive}&names=disk.dev.total&time=1117075035.000"),
    ] {
        let answer = web.json(&request);
        assert_eq!(answer["timestamp"].to_string(), "1117075035.0", "{request}");
        assert_eq!(named(&web, number, &answer), expected, "{request}");
    }
    // The next samples follow from there.
    web.json(&format!("/pmapi/{number}/fetch?names=disk.dev.total&time=1117075030"));
    let next = web.json(&format!("/pmapi/{number}/fetch?names=disk.dev.total"));
    assert_eq!(
        (next["timestamp"].to_string().as_str(), named(&web, number, &next)),
        ("1117075035.0", expected)
    );
    // Behind the end there is nothing.
    let end = web.get(&format!("/pmapi/{number}/fetch?names=disk.dev.total&time=@1200000000"));
    assert_eq!((end.status, &end.json()["message"]), (400, &"End of PCP archive".into()));
    // Instances, metrics and pages are as with a host.
    let indom = web.json(&format!("/pmapi/{number}/indom?name=disk.dev.total&iname=dks9d1"));
    assert_eq!(indom["instances"][0]["instance"], 339);
    let metric = web.json(&format!("/pmapi/{number}/metric?names=disk.dev.total,disk.dev.none"));
    assert_eq!(
        (&metric["metrics"][0]["sem"], &metric["metrics"][1]["success"]),
        (&"counter".into(), &false.into())
    );
    let page =
        web.get(&format!("/metrics?archivefile={archive}&names=disk.dev&time=1117075035&times=true")).text();
    let line = page.lines().find(|line| line.starts_with("disk_dev_total{") && line.contains("\"dks9d1\""));
    assert!(line.is_some_and(|line| line.ends_with(" 7085141 1117075035000")), "{page}");
}

#[test]
fn derived_metrics_go_on_from_sample_to_sample_of_an_archive() {
    let dir = temp_dir();
    let archive = format!("{ARCHIVES}/snort-disks");
    let web = Web::start(dir.path(), &["-a", &archive]);
    let number =
        web.json(&format!("/pmapi/context?archivefile={archive}&interval=5s&polltimeout=60"))["context"]
            .clone();
    web.json(&format!("/pmapi/{number}/derive?name=r.total&expr=rate(sum(disk.dev.total))"));
    let total = |time: u64| {
        let answer =
            web.json(&format!("/pmapi/fetch?archivefile={archive}&names=disk.dev.total&time={time}"));
        values(&answer).values().map(|value| value.parse::<f64>().expect("a number")).sum::<f64>()
    };
    let first = web.json(&format!("/pmapi/{number}/fetch?names=r.total&time=1117075030"));
    assert_eq!(first["values"][0]["instances"], Json::Array(Vec::new()));
    let second = web.json(&format!("/pmapi/{number}/fetch?names=r.total"));
    let rate = second["values"][0]["instances"][0]["value"].as_f64().expect("a number");
    let expected = (total(1_117_075_035) - total(1_117_075_030)) / 5.0;
    assert!((rate - expected).abs() < 1e-3 * expected.abs().max(1.0), "{rate} {expected}");
}

#[test]
fn events_of_an_archive_are_records_with_what_was_missed() {
    let dir = temp_dir();
    let archive = format!("{ARCHIVES}/eventrec");
    let web = Web::start(dir.path(), &["-a", &archive]);
    let number =
        web.json(&format!("/pmapi/context?archivefile={archive}&mode=forward&polltimeout=60"))["context"]
            .clone();
    let mut records = Vec::new();
    loop {
        let answer = web.get(&format!("/pmapi/{number}/fetch?names=sample.event.records&events=true"));
        if answer.status == 400 {
            assert_eq!(answer.json()["message"], "End of PCP archive");
            break;
        }
        for instance in answer.json()["values"][0]["instances"].as_array().expect("instances") {
            records.extend(instance["value"].as_array().into_iter().flatten().cloned());
        }
    }
    let printed = PcpEnv::new().run("pmevent", ["-a", &archive, "-z", "sample.event.records"]).ok();
    assert_eq!(records.len(), printed.matches("--- event record [").count());
    let first = &records[0];
    assert_eq!(first["flags"], "start,id,parent");
    assert!(first["timestamp"].to_string().contains('.'));
    let parameter = |at: usize| (&first["parameters"][at]["name"], &first["parameters"][at]["value"]);
    assert_eq!(parameter(0), (&"sample.event.type".into(), &4.into()));
    assert_eq!(parameter(1), (&"sample.event.param_u64".into(), &5.into()));
    assert_eq!(parameter(2), (&"sample.event.param_string".into(), &"6".into()));
    let missed = records.iter().find(|record| record["flags"] == "missed").expect("one is");
    assert_eq!((&missed["missed"], &missed["parameters"]), (&7.into(), &Json::Array(Vec::new())));
}

#[test]
fn archives_are_read_while_they_grow_and_only_those_that_were_named() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let logger = pmcd.record(&["sample.long.million"], Duration::from_millis(200));
    let base = logger.archive().base().display().to_string();
    let dir = temp_dir();
    let web = Web::start(
        dir.path(),
        &["-a", logger.archive().base().parent().expect("a directory").to_str().expect("ASCII")],
    );
    let path = format!("/pmapi/context?archivefile={base}&polltimeout=60");
    let number = eventually("it is found", || {
        let answer = web.get(&path);
        (answer.status == 200).then(|| answer.json()["context"].clone())
    });
    let newest = || web.json(&format!("/pmapi/{number}/fetch?names=sample.long.million&time=0s"));
    let first = newest()["timestamp"].as_f64().expect("a number");
    eventually("it grows", || {
        let answer = newest();
        (answer["timestamp"].as_f64() > Some(first) && values_of_one(&answer) == 1_000_000).then_some(())
    });
    for other in
        [format!("{ARCHIVES}/snort-disks"), "/etc/passwd".to_owned(), format!("{base}/../x"), String::new()]
    {
        let answer = web.get(&format!("/pmapi/context?archivefile={other}"));
        let message = answer.json()["message"].to_string();
        assert!(answer.status == 400 && message.contains("not among the archives"), "{message}");
    }
    // Only archives were named.
    assert_eq!(web.get("/pmapi/context").status, 400);
    for bad in ["mode=x", "interval=0", "interval=x", "start=yesterweek"] {
        assert_eq!(web.get(&format!("{path}&{bad}")).status, 400, "{bad}");
    }
}

#[test]
fn a_page_of_records_is_one_record_and_the_next_page_the_next() {
    let dir = temp_dir();
    // With more metrics than are fetched at a time, in records of some of them each.
    let archive = format!("{ARCHIVES}/all-irix-6.5.25");
    let web = Web::start(dir.path(), &["-a", &archive]);
    let make = || {
        let path = format!("/pmapi/context?archivefile={archive}&mode=forward&polltimeout=60");
        web.json(&path)["context"].clone()
    };
    let (records, pages) = (make(), make());
    let metrics = web.json(&format!("/pmapi/{records}/metric"))["metrics"].clone();
    let numbers = metrics.as_array().expect("metrics").iter();
    let numbers = numbers.filter(|metric| {
        matches!(metric["type"].as_str(), Some("32" | "u32" | "64" | "u64" | "float" | "double"))
    });
    let names: Vec<&str> = numbers.map(|metric| metric["name"].as_str().expect("a name")).collect();
    assert!(names.len() > 1000, "{}", names.len());
    let body = format!("names={}", names.join(","));
    let mut with_values = 0;
    for _ in 0..10 {
        let record = web.ask("POST", &format!("/pmapi/{records}/fetch"), &[], body.as_bytes()).json();
        let seconds = record["timestamp"].as_f64().expect("a time");
        let page = web.get(&format!("/metrics?context={pages}&times=true"));
        assert_eq!(page.status, 200, "{}", page.text());
        let text = page.text();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let times: Vec<&str> = lines.filter_map(|line| Some(line.rsplit_once(' ')?.1)).collect();
        // Some records have nothing but errors.
        with_values += usize::from(!times.is_empty());
        for time in times {
            let time: f64 = time.parse().expect("a time");
            assert!((time / 1000.0 - seconds).abs() < 0.002, "{time} {seconds}");
        }
    }
    assert!(with_values >= 5, "{with_values}");
}

fn values_of_one(answer: &Json) -> u64 {
    answer["values"][0]["instances"][0]["value"].as_u64().unwrap_or_default()
}
