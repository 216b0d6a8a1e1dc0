//! Events of the jumpseat agent as JSON, numbers that JavaScript cannot hold.

use std::path::Path;

use serde_json::Value as Json;
use support::{PrivatePmcd, eventually, temp_dir};

use crate::seat::{Seat, Transport};
use crate::web_support::Web;

/// A collector with the jumpseat agent, and the server on it.
pub(super) fn start(settings: &str, dir: &Path, words: &[&str]) -> (PrivatePmcd, Seat, Web) {
    let builder = PrivatePmcd::with([]);
    let seat = Seat::in_dir(builder.dir(), settings);
    let agent = seat.agent(Transport::Pipe);
    let pmcd = builder.agent(agent).start();
    pmcd.wait_ready("jumpseat");
    let web = Web::start_in(pmcd.env(), dir, words);
    (pmcd, seat, web)
}

/// The records of all instances of the first metric.
fn records(answer: &Json) -> Vec<Json> {
    let instances = answer["values"][0]["instances"].as_array().expect("instances");
    instances.iter().flat_map(|instance| instance["value"].as_array().cloned().unwrap_or_default()).collect()
}

fn field<'a>(record: &'a Json, name: &str) -> &'a Json {
    let parameters = record["parameters"].as_array().expect("parameters");
    let found = parameters
        .iter()
        .find(|parameter| parameter["name"].as_str().is_some_and(|known| known.ends_with(name)));
    found.map_or(&Json::Null, |parameter| &parameter["value"])
}

#[test]
fn event_records_have_typed_fields_by_name_once_for_each_context() {
    let dir = temp_dir();
    let (_pmcd, seat, web) = start("", dir.path(), &[]);
    let numbers: Vec<Json> =
        (0..2).map(|_| web.json("/pmapi/context?polltimeout=60")["context"].clone()).collect();
    let fetch = |number: &Json, more: &str| {
        web.json(&format!("/pmapi/{number}/fetch?names=jumpseat.event.records{more}"))
    };
    // From here on.
    numbers.iter().for_each(|number| drop(fetch(number, "&events=true")));
    let line = "{\"message\":\"grün \\\"x\\\"\",\"big\":9007199254740993,\"ratio\":0.1,\"ok\":true,\"time\":1795000000.000000001}\n";
    seat.feed(["--source", "app"], line).ok();
    for (number, exact) in numbers.iter().zip(["", "&exact=true"]) {
        let found = eventually("the record", || {
            let found = records(&fetch(number, &format!("&events=true{exact}")));
            (!found.is_empty()).then_some(found)
        });
        assert_eq!(found.len(), 1);
        let record = &found[0];
        assert_eq!(field(record, ".message"), "grün \"x\"");
        assert_eq!(field(record, ".ratio"), &Json::from(0.1));
        match exact {
            "" => assert_eq!(field(record, ".big").to_string(), "9007199254740993"),
            _ => assert_eq!(field(record, ".big"), "9007199254740993"),
        }
        assert_eq!(record["flags"], "point");
        assert!(records(&fetch(number, "&events=true")).is_empty(), "it was given");
    }
    // As pmproxy has it, where nobody asks for more.
    seat.feed(["--source", "app"], line).ok();
    let answer = eventually("values", || {
        let answer = fetch(&numbers[0], "");
        (answer["values"][0]["instances"].as_array().is_some_and(|all| !all.is_empty())).then_some(answer)
    });
    assert!(
        answer["values"][0]["instances"]
            .as_array()
            .expect("instances")
            .iter()
            .all(|one| one["value"].is_null())
    );
    let metric = web.json("/pmapi/metric?names=jumpseat.event.records,jumpseat.event.highres_records");
    assert_eq!(
        (&metric["metrics"][0]["type"], &metric["metrics"][1]["type"]),
        (&"event".into(), &"highres_event".into())
    );
}

#[test]
fn times_of_high_resolution_records_have_nine_digits() {
    let dir = temp_dir();
    let (_pmcd, seat, web) = start("", dir.path(), &[]);
    let number = web.json("/pmapi/context?polltimeout=60")["context"].clone();
    let path = format!("/pmapi/{number}/fetch?names=jumpseat.event.highres_records&events=true");
    web.json(&path);
    seat.feed(["--source", "app"], "{\"message\":\"m\",\"time\":1795000000.000000001}\n").ok();
    eventually("the record", || {
        web.get(&path).text().contains("\"timestamp\":1795000000.000000001,\"flags\":").then_some(())
    });
}
