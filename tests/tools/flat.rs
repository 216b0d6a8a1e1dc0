//! `jumpseat events --json`: an object a record, which `jumpseat feed` takes back.

use serde_json::{Value as Json, json};
use support::{AgentSpec, Output, PcpEnv, PrivatePmcd, temp_dir};

use crate::seat::{JUMPSEAT, Seat, Transport};

/// What is told of itself, in its order, with everything that may make a difference.
const SENT: &str = r#"{"time":"2026-11-20T13:16:06.25Z","type":"request","severity":"info","message":"GET /","latency_ms":12.5,"user":"ann","span_id":"ab","parent_id":7,"phase":"start","source":"web"}
{"time":"2026-11-20T13:16:06.5Z","type":"request","span_id":"ab","phase":"end","source":"web"}
{"jumpseat":{"source":"web","missed":3,"time":"2026-11-20T13:16:06.75Z"}}
{"time":"2026-11-20T13:16:07Z","source":"web","n":18446744073709551615,"http.method":"GET","a b":1,"a_b":2,"obj":{"k":[1,2]}}
{"time":"2026-11-20T13:16:08Z","source":"web","n":-1,"message":"\u001b[31m \"quoted\" ä"}
{"time":"2026-11-20T13:16:09Z","source":"web","n":0.5,"time":"of another meaning","phase":"of the moon"}
"#;

fn told() -> Vec<Json> {
    vec![
        json!({"time": "2026-11-20T13:16:06.250000000Z", "source": "web", "phase": "start", "span_id": "ab",
            "parent_id": 7, "type": "request", "severity": "info", "message": "GET /", "latency_ms": 12.5, "user": "ann"}),
        json!({"time": "2026-11-20T13:16:06.500000000Z", "source": "web", "phase": "end", "span_id": "ab",
            "type": "request"}),
        json!({"jumpseat": {"source": "web", "missed": 3, "time": "2026-11-20T13:16:06.750000000Z"}}),
        json!({"time": "2026-11-20T13:16:07.000000000Z", "source": "web", "n": 18446744073709551615_u64,
            "http.method": "GET", "a b": 1, "a_b": 2, "obj.k": "[1,2]"}),
        json!({"time": "2026-11-20T13:16:08.000000000Z", "source": "web", "message": "\u{1b}[31m \"quoted\" ä", "n": -1}),
        json!({"time": "2026-11-20T13:16:09.000000000Z", "source": "web", "n": 0.5,
            "field.time": "of another meaning", "field.phase": "of the moon"}),
    ]
}

fn lines(output: &Output) -> Vec<Json> {
    output.stdout.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
}

#[test]
fn records_go_out_and_come_back_as_they_were() {
    let builder = PrivatePmcd::with([]);
    let seat = Seat::in_dir(builder.dir(), "");
    let pmcd = builder.agent(seat.agent(Transport::Pipe)).start();
    pmcd.wait_ready("jumpseat");
    seat.feed([], SENT).ok();
    let read = ["events", "--json", "--since", "oldest", "-s", "1", "-t", "0.01"];
    for metric in ["jumpseat.event.records", "jumpseat.event.highres_records"] {
        let output = pmcd.run(JUMPSEAT, [&read[..], &[metric]].concat());
        assert_eq!(lines(&output), told(), "{metric}: {output}");

        let dir = temp_dir();
        let other = Seat::in_dir(dir.path(), "");
        let serving = other.serve([]);
        other.feed([], &output.stdout).ok();
        let host = serving.host();
        let words = [&["events", "-h", &host], &read[1..], &[metric]].concat();
        let again = PcpEnv::new().run(JUMPSEAT, words);
        assert_eq!(again.stdout, output.stdout, "{again}");
    }
}

#[test]
fn records_of_other_agents_have_the_names_of_their_metrics() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let run = |args: &[&str]| pmcd.run(JUMPSEAT, [&["events", "--json", "-t", "0.02"], args].concat());
    let records = lines(&run(&["-s", "5", "-i", "fungus", "sample.event.records"]));
    assert!(
        records.iter().all(|record| record["source"] == "fungus" || record["jumpseat"]["source"] == "fungus")
    );
    assert!(records.iter().any(|record| record["jumpseat"]["missed"] == 7), "{records:?}");
    let param = |record: &Json| record["sample.event.param_string"].is_string();
    assert!(records.iter().any(param), "{records:?}");
    // What goes wrong is not among the records.
    let failed = run(&["-s", "1", "sample.event.no_such_metric"]);
    assert_eq!(failed.stdout, "", "{failed}");
    failed.fails(1);
}
