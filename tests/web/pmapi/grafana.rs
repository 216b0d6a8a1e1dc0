//! What grafana-pcp's Vector data source sends, in its order, and what it reads of the answers.

use std::thread::sleep;
use std::time::Duration;

use serde_json::Value as Json;
use support::eventually;

use super::Sample;
use crate::web_support::Web;

const JSON: (&str, &str) = ("Content-Type", "application/json");

fn get(web: &Web, path: &str) -> (u16, Json) {
    let answer = web.ask("GET", path, &[JSON], b"");
    assert_eq!(answer.header("content-type"), Some("application/json"), "{path}");
    assert_eq!(answer.text().matches("\r\n").count(), 1, "{path}: one line");
    (answer.status, answer.json())
}

fn good(web: &Web, path: &str) -> Json {
    let (status, answer) = get(web, path);
    assert_eq!(status, 200, "{path}: {answer}");
    answer
}

#[test]
fn vector_tests_completes_polls_and_begins_anew() {
    let mut sample = Sample::start(&[]);
    let web = &sample.web;
    let host = "hostspec=pcp%3A%2F%2F127.0.0.1";
    // Save & test.
    let number = good(web, &format!("/pmapi/context?{host}&polltimeout=30"))["context"].clone();
    let version = good(web, &format!("/pmapi/fetch?context={number}&names=pmcd.version"));
    assert!(
        version["timestamp"].is_f64() && version["values"][0]["instances"][0]["value"].is_string(),
        "{version}"
    );
    // Completion of names, level by level.
    let top = good(web, &format!("/pmapi/children?{host}&prefix="));
    assert!(top["nonleaf"].as_array().is_some_and(|nodes| nodes.contains(&"sample".into())), "{top}");
    assert_eq!(top["leaf"], Json::Array(Vec::new()));
    let leaves = good(web, &format!("/pmapi/children?{host}&prefix=sample.long"));
    let leaves: Vec<&str> =
        leaves["leaf"].as_array().expect("leaves").iter().filter_map(Json::as_str).collect();
    let names: Vec<String> = leaves.iter().map(|leaf| format!("sample.long.{leaf}")).collect();
    let metrics = good(web, &format!("/pmapi/metric?{host}&names={}", names.join(",")));
    let metrics = metrics["metrics"].as_array().expect("metrics");
    assert_eq!(metrics.len(), leaves.len());
    for metric in metrics {
        for member in ["name", "type", "sem", "units", "text-help", "text-oneline"] {
            assert!(metric[member].is_string(), "{member}: {metric}");
        }
    }
    // Completion of instances.
    let instances = good(web, &format!("/pmapi/indom?{host}&name=sample.colour"));
    assert_eq!(instances["instances"].as_array().map(Vec::len), Some(3));
    let (status, none) = get(web, &format!("/pmapi/indom?{host}&name=sample.long.one"));
    assert!(
        status == 400 && none["message"].as_str().is_some_and(|text| text.contains("metric has null indom"))
    );
    // A panel: plain names, and an expression that becomes a derived metric.
    let derived = "derived_0123456789abcdef0123456789abcdef";
    let begin = |polltimeout: u32| {
        let context = good(web, &format!("/pmapi/context?{host}&polltimeout={polltimeout}"));
        assert!(context["labels"]["hostname"].is_string());
        let number = context["context"].clone();
        let derive =
            format!("/pmapi/derive?context={number}&expr=rate(sample.long.bin_ctr)%20%2A%202&name={derived}");
        assert_eq!(good(web, &derive)["success"], true);
        let (status, again) = get(web, &derive);
        let text = again["message"].as_str().unwrap_or_default();
        assert!(status == 400 && text.contains("Duplicate per-context derived metric name"), "{text}");
        let metrics = good(
            web,
            &format!("/pmapi/metric?context={number}&names=sample.long.bin_ctr,{derived},sample.none"),
        );
        let ok = metrics["metrics"]
            .as_array()
            .expect("metrics")
            .iter()
            .filter(|metric| metric["success"] != false);
        assert_eq!(ok.count(), 2);
        number
    };
    let number = begin(30);
    let path = format!("/pmapi/fetch?context={number}&names=sample.long.bin_ctr,{derived},sample.none");
    let mut last = 0.0;
    for _ in 0..3 {
        let poll = good(web, &path);
        let names: Vec<&str> = poll["values"]
            .as_array()
            .expect("values")
            .iter()
            .filter_map(|value| value["name"].as_str())
            .collect();
        assert_eq!(names, ["sample.long.bin_ctr", derived], "none that was not asked for");
        let time = poll["timestamp"].as_f64().expect("a number");
        assert!(time > last);
        last = time;
    }
    let rates = good(web, &path)["values"][1]["instances"].clone();
    assert!(
        rates.as_array().is_some_and(|rates| rates.len() == 9 && rates.iter().all(|rate| rate["value"] == 0)),
        "{rates}"
    );
    // A context expires while nobody looks, in words that it knows: it begins anew.
    let brief = good(web, &format!("/pmapi/context?{host}&polltimeout=0.2"))["context"].clone();
    sleep(Duration::from_millis(400));
    let path = format!("/pmapi/fetch?context={brief}&names=sample.long.one");
    let (status, answer) = get(web, &path);
    let text = answer["message"].as_str().unwrap_or_default().to_owned();
    assert!(
        status == 400
            && (text == format!("expired context identifier: {brief}") || text.starts_with("unknown ")),
        "{text}"
    );
    eventually("it is unknown", || {
        get(web, &path).1["message"].as_str()?.contains("unknown context identifier: ").then_some(())
    });
    let number = begin(60);
    // The collector is started again: the context goes on by itself, definitions included.
    sample.pmcd.restart();
    let path = format!("/pmapi/fetch?context={number}&names=sample.long.one,{derived}");
    eventually("all of it is there again", || {
        let (_, answer) = get(&sample.web, &path);
        (answer["values"].as_array().map(Vec::len) == Some(2)).then_some(())
    });
}

#[test]
fn without_leave_nothing_is_stored() {
    let sample = Sample::start(&[]);
    let (status, answer) = get(&sample.web, "/pmapi/store?name=sample.long.write_me&value=77");
    let text = answer["message"].as_str().unwrap_or_default();
    assert!(
        status == 403 && text.ends_with("No permission to perform requested operation"),
        "{status} {text}"
    );
    assert_eq!(sample.pmcd.value("sample.long.write_me").as_deref(), Some("13"));
    // Pages of others may not read unless they were named.
    let answer = sample.web.ask("GET", "/pmapi/context", &[("Origin", "http://dashboard.example")], b"");
    assert_eq!(answer.header("access-control-allow-origin"), None);
}
