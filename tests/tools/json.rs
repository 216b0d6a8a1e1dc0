//! What `jumpseat probe --json` and `jumpseat store --json` print. `info`, `val` and `events` have their own tests.

use crate::seat::JUMPSEAT;
use serde_json::{Value as Json, json};
use support::{AgentSpec, PrivatePmcd};

fn lines(pmcd: &PrivatePmcd, args: &[&str]) -> Vec<Json> {
    let output = pmcd.run(JUMPSEAT, args);
    output.stdout.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
}

#[test]
fn probe_tells_counts_values_instances_and_errors() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let names = ["sample.long.one", "sample.bad.novalues", "sample.bad.unknown", "no.such"];
    let probed = lines(&pmcd, &[&["probe", "--json", "-v"], &names[..]].concat());
    let of = |name: &str| probed.iter().find(|object| object["metric"] == name).expect("one a metric");
    assert_eq!(probed.len(), 4);
    assert_eq!(
        *of("sample.long.one"),
        json!({"metric": "sample.long.one", "count": 1, "values": [{"value": 1}]})
    );
    assert_eq!(
        *of("sample.bad.novalues"),
        json!({"metric": "sample.bad.novalues", "count": 0, "values": []})
    );
    assert_eq!(of("sample.bad.unknown")["error"]["call"], "pmLookupDesc");
    assert_eq!(of("sample.bad.unknown")["error"]["code"], -12358);
    assert_eq!(of("no.such")["error"]["name"], "PM_ERR_NAME");
    let colours = json!([
        {"id": 0, "instance": "red"}, {"id": 1, "instance": "green"}, {"id": 2, "instance": "blue"}
    ]);
    let listed = lines(&pmcd, &["probe", "--json", "-I", "sample.colour"]);
    assert_eq!(listed, [json!({"metric": "sample.colour", "count": 3, "values": colours})]);
    let all = lines(&pmcd, &["probe", "--json", "-fI", "sample.colour"]);
    assert_eq!(all, [json!({"metric": "sample.colour", "count": 3, "instances": colours})]);
    assert_eq!(
        lines(&pmcd, &["probe", "--json", "sample.bin"]),
        [json!({"metric": "sample.bin", "count": 9})]
    );
}

#[test]
fn store_tells_old_and_new_values_and_errors() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let metric = "sample.long.write_me";
    let stored = lines(&pmcd, &["store", "--json", metric, "7"]);
    assert_eq!(stored[0]["metric"], metric);
    assert_eq!(stored[0]["new"], 7);
    let again = lines(&pmcd, &["store", "--json", "-F", metric, "8"]);
    assert_eq!(again, [json!({"metric": metric, "old": 7, "new": 8})]);
    let colour = lines(&pmcd, &["store", "--json", "-i", "green", "sample.colour", "5"]);
    assert_eq!((colour.len(), &colour[0]["id"], &colour[0]["instance"]), (1, &json!(1), &json!("green")));
    let refused = pmcd.run(JUMPSEAT, ["store", "--json", "sample.load", "5"]);
    let object: Json = serde_json::from_str(&refused.stdout).expect("a JSON object");
    assert!(object["error"].as_str().is_some_and(|why| why.contains("No permission")), "{object}");
    assert_eq!(refused.status.code(), Some(1));
}
