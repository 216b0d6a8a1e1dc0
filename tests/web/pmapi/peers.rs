//! A real pmproxy and `jumpseat web`, asked the same about the same collector at the same time.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value as Json, json};
use support::{PcpEnv, Process, eventually, free_port};

use super::{Sample, merge_labels};
use crate::replay::difference;
use crate::web_support::Answer;

/// A pmproxy without a key server.
fn pmproxy(env: &PcpEnv, dir: &std::path::Path) -> (Process, u16) {
    let port = free_port();
    let conf = dir.join("pmproxy.conf");
    let text = "[pmproxy]\npcp.enabled = true\nhttp.enabled = true\nredis.enabled = false\nsecure.enabled = false\n\
                [discover]\nenabled = false\n[pmseries]\nenabled = false\n[pmsearch]\nenabled = false\n";
    fs::write(&conf, text).expect("the test's directory is writable");
    let mut command = env.command("/usr/lib/pcp/bin/pmproxy");
    command.arg("-f").arg("-A").arg("-t").arg("-c").arg(&conf).arg("-s").arg(dir.join("pmproxy.socket"));
    command.arg("-l").arg(dir.join("pmproxy.log")).arg("-i").arg("127.0.0.1").arg("-p").arg(port.to_string());
    let process = Process::start(&mut command, dir, "pmproxy");
    eventually("pmproxy listens", || TcpStream::connect(("127.0.0.1", port)).ok());
    (process, port)
}

/// Requests, and the rule for what pmproxy gets wrong there.
const REQUESTS: &[(&str, Rule)] = &[
    ("/pmapi/context?client=me", Rule::Same),
    ("/pmapi/context?polltimeout=x", Rule::Same),
    ("/pmapi/children?prefix=sample", Rule::Same),
    ("/pmapi/children?prefix=sample.secret.foo", Rule::Same),
    ("/pmapi/children?prefix=pmcd", Rule::Same),
    ("/pmapi/children?prefix=none", Rule::Same),
    ("/pmapi/metric?prefix=sample", Rule::Same),
    ("/pmapi/metric?prefix=pmcd", Rule::Same),
    ("/pmapi/metric?names=sample.colour,none,sample.long", Rule::Same),
    ("/pmapi/metric?name=none", Rule::Same),
    ("/pmapi/_metric?names=sample.colour", Rule::Same),
    ("/pmapi/indom?name=sample.colour", Rule::Labels),
    ("/pmapi/indom?name=sample.bin&iname=bin-[1-4]00&match=glob", Rule::Labels),
    ("/pmapi/indom?name=sample.family", Rule::Labels),
    ("/pmapi/indom?name=sample.long.one", Rule::Same),
    ("/pmapi/indom?indom=xyz", Rule::Same),
    (
        "/pmapi/fetch?names=sample.long.one,sample.ulonglong.million,sample.string.hullo,sample.aggregate.hullo",
        Rule::Same,
    ),
    ("/pmapi/fetch?names=sample.float.one,sample.double.million,sample.bigid", Rule::Same),
    ("/pmapi/fetch?names=sample.hordes", Rule::Same),
    ("/pmapi/fetch?names=sample.hordes.one,sample.hordes.two,sample.bin", Rule::Names),
    ("/pmapi/fetch?names=sample.long.bin,sample.float.bin,sample.string.bin", Rule::Names),
    ("/pmapi/fetch?names=sample.long.write_me,sample.string.write_me", Rule::Same),
    ("/pmapi/fetch?names=sample.noinst", Rule::Empty),
    ("/pmapi/fetch?name=sample.none", Rule::Same),
    ("/pmapi/fetch?names=", Rule::Same),
    ("/pmapi/_fetch?names=sample.long.bin_ctr", Rule::Same),
    ("/pmapi/derive?name=a.b&expr=sample.long.one%20%2B", Rule::Same),
    ("/pmapi/derive?name=a.b&expr=avg(sample.long.bin_ctr)", Rule::Same),
    ("/pmapi/profile?expr=del&name=sample.colour", Rule::Same),
    ("/pmapi/profile?expr=x", Rule::Same),
    ("/pmapi/store?name=sample.long.write_me&value=x", Rule::Same),
    ("/pmapi/store?name=sample.long.one&value=1", Rule::Same),
    ("/pmapi/store?name=sample.long.write_me&value=7", Rule::Same),
    ("/pmapi/fetch?names=sample.long.write_me", Rule::Same),
    ("/pmapi/store?name=sample.long.write_me&value=2", Rule::Same),
    ("/pmapi/fetch?context=1&names=sample.long.one", Rule::Same),
    ("/metrics?names=sample.long.one,sample.double.million", Rule::Levels),
    ("/metrics?names=sample.long.bin_ctr,sample.hordes.one,sample.ulong.count", Rule::Levels),
    ("/pmapi/_metrics?names=sample.float.one", Rule::Levels),
    ("/metrics?names=sample.none", Rule::Same),
];

#[derive(Clone, Copy, PartialEq)]
enum Rule {
    /// Field by field the same.
    Same,
    /// D5: only the names that were asked for.
    Names,
    /// D7: what has no value has none.
    Empty,
    /// D18: labels of domains are merged.
    Labels,
    /// Pages of 6.0.3 lack labels of agents, clusters and domains.
    Levels,
}

#[test]
fn pmproxy_and_jumpseat_web_answer_the_same_field_by_field() {
    let sample = Sample::start(&["-h", "local:", "--allow-store", "--allow-origin", "*"]);
    let (_proxy, port) = pmproxy(sample.pmcd.env(), sample.dir.path());
    let mut wrong = Vec::new();
    for (path, rule) in REQUESTS {
        let (theirs, ours) = (ask_proxy(port, path), sample.web.get(path));
        if let Some(difference) = compare(path, *rule, &theirs, &ours) {
            wrong.push(format!("{path}: {difference}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// GET on a connection that stays open: where it may end, pmproxy cuts long answers off.
fn ask_proxy(port: u16, path: &str) -> Answer {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).expect("it reads");
    let (mut bytes, mut part) = (Vec::new(), [0; 65_536]);
    loop {
        let len = stream.read(&mut part).expect("it answers");
        bytes.extend_from_slice(&part[..len]);
        if len == 0 || is_whole(&bytes) {
            return Answer::parse(&bytes);
        }
    }
}

fn is_whole(bytes: &[u8]) -> bool {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    match length {
        Some(length) => bytes.len() >= end + 4 + length,
        None => bytes.ends_with(b"\r\n0\r\n\r\n"),
    }
}

fn compare(path: &str, rule: Rule, theirs: &Answer, ours: &Answer) -> Option<String> {
    let head = |answer: &Answer| {
        let names = ["content-type", "access-control-allow-origin", "access-control-max-age"];
        let headers: Vec<Json> = names.iter().map(|name| json!(answer.header(name))).collect();
        json!([answer.status, headers])
    };
    if let Some(wrong) = difference(&head(theirs), &head(ours), "head") {
        return Some(wrong);
    }
    if theirs.header("content-type") != Some("application/json") {
        return difference(&page(&theirs.text(), false), &page(&ours.text(), true), "");
    }
    let (mut theirs, mut ours) = (theirs.json(), ours.json());
    match rule {
        Rule::Names => {
            let names = path.split_once('=').map(|(_, names)| names.split(',')).expect("names");
            let names: Vec<&str> = names.collect();
            let values = theirs["values"].as_array_mut().expect("values");
            values.retain(|value| value["name"].as_str().is_some_and(|name| names.contains(&name)));
        }
        Rule::Empty => theirs["values"][0]["instances"] = json!([]),
        Rule::Labels => {
            if let Some(answer) = theirs.as_object_mut() {
                merge_labels(answer);
            }
        }
        Rule::Same | Rule::Levels => {}
    }
    // The same collector, but other contexts and a moment later.
    for answer in [&mut theirs, &mut ours] {
        for member in ["context", "timestamp"] {
            if let Some(value) = answer.get_mut(member) {
                *value = json!(member);
            }
        }
        // Who is connected, pmproxy tells the collector by another way.
        if let Some(Json::Object(labels)) = answer.get_mut("labels") {
            labels.retain(|name, _| name != "userid" && name != "groupid");
            if let Some(source) = answer.get_mut("source") {
                *source = json!("source");
            }
        }
        for value in answer.get_mut("instances").and_then(Json::as_array_mut).into_iter() {
            value.sort_by_key(|instance| instance["instance"].as_u64());
        }
    }
    difference(&theirs, &ours, "")
}

/// Lines, labels in order.
fn page(text: &str, ours: bool) -> Json {
    let line = |line: &str| {
        let Some((name, rest)) = line.split_once('{').filter(|_| !line.starts_with('#')) else {
            return line.to_owned();
        };
        let (labels, value) = rest.rsplit_once("} ").expect("a value");
        let mut labels: Vec<&str> = labels.split(',').collect();
        if ours {
            let extra = ["userid=", "groupid=", "agent=", "cluster=", "role=", "model="];
            labels.retain(|label| !extra.iter().any(|level| label.starts_with(level)));
        }
        labels.sort_unstable();
        format!("{name}{{{}}} {value}", labels.join(","))
    };
    text.lines().map(line).collect::<Vec<_>>().into()
}
