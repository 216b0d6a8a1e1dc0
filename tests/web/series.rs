//! `/series`: answers of a real server to the same requests, what Grafana's Valkey source sends, archives that grow, come, go and are
//! damaged, and requests that nobody should send. Values are those that pmdumplog shows.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use regex::Regex;
use serde_json::{Value as Json, json};
use support::{AgentSpec, PcpEnv, PrivatePmcd, Process, eventually, temp_dir};

use crate::pmapi::corrected;
use crate::replay::{ARCHIVES, cases, replay};
use crate::seat::JUMPSEAT;
use crate::web_support::{Answer, Web};

/// The archives that the real server had loaded.
const LOADED: [&str; 7] =
    ["sample_expr", "sample-labels", "snort-disks", "instant-1", "eventrec", "viewqa1", "wrap"];
/// Disks of `bozo`, and a counter without instances.
const READ: &str = "b2d8247efe39e8b95394f04c0e4f508cbaf3d7ee";
const BYTES: &str = "84b94b4357ca0dfcc36f663b81127870a1b5f5bf";

/// Answers that are others than the real server's, and why.
const BETTER: [(&str, &str); 16] = [
    ("urls-011", "nothing is there: 404 (D3)"),
    ("urls-012", "nothing is there: 404 (D3)"),
    ("urls-014", "nothing is there: 404 (D3)"),
    ("series-window-006", "an offset leaves samples out, as the manual says (D17)"),
    ("series-func-022", "nth_percentile_sample has an identifier of its own (D16)"),
    ("series-func-023", "nth_percentile_sample has an identifier of its own (D16)"),
    ("series-func-042", "a difference below 0 is a number, not the text `no value` (D16)"),
    ("series-meta-011", "metrics that only event records have are listed: metadata does not tell them apart"),
    ("series-meta-012", "metrics that only event records have are listed"),
    ("grafana-020", "metrics that only event records have are listed"),
    ("series-window-034", "labels of instances count always, not only after other requests (D18)"),
    ("series-labels-011", "labels of instances count always (D18)"),
    ("series-labels-012", "labels of instances count always (D18)"),
    ("series-labels-024", "labels of instances count always (D18)"),
    ("grafana-021", "labels of instances count always (D18)"),
    ("grafana-035", "the window holds for all operands, not only for the first one's source"),
];

fn web(dir: &Path) -> Web {
    let mut env = PcpEnv::new();
    env.set("TZ", "UTC");
    let paths: Vec<String> = LOADED.iter().map(|name| format!("{ARCHIVES}/{name}")).collect();
    let mut words: Vec<&str> = paths.iter().flat_map(|path| ["-a", path]).collect();
    // As a real server's pages of others may.
    words.extend(["--allow-origin", "*"]);
    let web = Web::start_in(&env, dir, &words);
    loaded(&web, &paths[0]);
    web
}

/// Waits until the index has what is there.
#[track_caller]
fn loaded(web: &Web, path: &str) {
    let load = format!("/series/load?expr={}", escaped(&format!("{{source.path: \"{path}\"}}")));
    assert_eq!(web.json(&load), json!({"success": true}));
}

#[track_caller]
fn query(web: &Web, expr: &str) -> Json {
    web.json(&format!("/series/query?expr={}", escaped(expr)))
}

fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// A message with status 400 in the form of the protocol.
#[track_caller]
fn refused(answer: &Answer) -> String {
    assert_eq!(answer.status, 400, "{}", answer.text());
    let json = answer.json();
    assert_eq!(json["success"], json!(false));
    json["message"].as_str().expect("a message").to_owned()
}

#[test]
fn answers_are_those_of_a_real_server() {
    let dir = temp_dir();
    let web = web(dir.path());
    let cases = cases(true);
    assert_eq!(cases.len(), 389);
    replay(&web, &cases, corrected).expect_only(&BETTER);
}

/// What the plugin sends for a panel, step by step, each made of the answers before, and what it needs of each.
#[test]
fn grafanas_valkey_source_gets_what_it_needs() {
    let dir = temp_dir();
    let web = web(dir.path());
    let json_type: &[(&str, &str)] = &[("Content-Type", "application/json")];
    let ping = web.ask("GET", "/series/ping", json_type, b"");
    assert_eq!((ping.status, ping.json()["success"].clone()), (200, json!(true)));
    assert_eq!(ping.header("content-type"), Some("application/json"));
    let strings = |path: &str| -> BTreeSet<String> {
        let json = web.json(path);
        json.as_array().expect(path).iter().map(|item| item.as_str().expect("a string").to_owned()).collect()
    };
    assert!(strings("/series/metrics?match=disk.d%2A").contains("disk.dev.read"));
    assert!(strings("/series/labels?match=%2A").contains("hostname"));
    assert!(
        web.json("/series/labels?names=hostname")["hostname"].as_array().is_some_and(|all| all.len() == 6)
    );
    for (expr, is_rate) in [("disk.dev.read", false), ("rate(disk.dev.read{hostname == \"bozo\"})", true)] {
        let series = strings(&format!("/series/query?expr={}", escaped(expr)));
        assert!(!series.is_empty());
        let list = series.iter().cloned().collect::<Vec<_>>().join("%2C");
        let names = web.json(&format!("/series/metrics?series={list}"));
        let names: BTreeSet<&str> =
            names.as_array().expect("rows").iter().filter_map(|row| row["series"].as_str()).collect();
        assert_eq!(names.len(), series.len(), "a name for each");
        let descs = web.json(&format!("/series/descs?series={list}"));
        for desc in descs.as_array().expect("rows") {
            assert!(["double", "u32", "u64"].contains(&desc["type"].as_str().expect("a type")));
            assert_ne!(desc["indom"], json!("none"));
            assert_eq!(desc["units"], if is_rate { json!("count / sec") } else { json!("count") });
        }
        let values =
            web.json(&format!("/series/values?finish=1432633200&interval=2&series={list}&start=1432633000"));
        let values = values.as_array().expect("rows");
        assert!(!values.is_empty());
        let mut instances = BTreeSet::new();
        for value in values {
            assert!(series.contains(value["series"].as_str().expect("a series")));
            assert!(value["timestamp"].is_number());
            let number: f64 = value["value"].as_str().expect("a string").parse().expect("a number");
            assert!(number.is_finite());
            instances.insert(value["instance"].as_str().expect("it has instances").to_owned());
        }
        let mut known = BTreeSet::new();
        for one in &series {
            for row in web.json(&format!("/series/instances?series={one}")).as_array().expect("rows") {
                assert!(row["id"].is_i64() && row["name"].is_string());
                known.insert(row["instance"].as_str().expect("an instance").to_owned());
            }
        }
        assert!(instances.is_subset(&known), "each value's instance has a name");
        let list = known.iter().cloned().collect::<Vec<_>>().join("%2C");
        let labels = web.json(&format!("/series/labels?series={list}"));
        let labels = labels.as_array().expect("rows");
        assert_eq!(labels.len(), known.len());
        assert!(labels.iter().all(|row| row["labels"]["hostname"].is_string()));
        // The same as a body, as the plugin sends it when the URL would be long.
        let body = format!("series={list}");
        let posted = web.ask("POST", "/series/labels", &[], body.as_bytes());
        assert_eq!((posted.status, posted.json()), (200, Json::Array(labels.clone())));
    }
}

/// Times of a day in microseconds, and values, as pmdumplog shows them, of a metric without instances.
fn dumped(env: &PcpEnv, archive: &Path, metric: &str) -> Vec<(i64, String)> {
    let text = env.run("pmdumplog", [archive.to_str().expect("a text"), metric]).ok();
    let time = Regex::new(r"^(\d+):(\d+):(\d+)\.(\d{6})\d*\s+\d+ metrics?").expect("it is one");
    let value = Regex::new(r"^    [\d.]+ \(.*\): value (\S+)").expect("it is one");
    let (mut now, mut all) = (0, Vec::new());
    for line in text.lines() {
        if let Some(parts) = time.captures(line) {
            let part = |at: usize| parts[at].parse::<i64>().expect("a number");
            now = ((part(1) * 60 + part(2)) * 60 + part(3)) * 1_000_000 + part(4);
        } else if let Some(parts) = value.captures(line) {
            all.push((now, parts[1].to_owned()));
        }
    }
    all
}

/// The same of an answer.
fn answered(values: &Json) -> Vec<(i64, String)> {
    let row = |row: &Json| {
        let time = (row["timestamp"].as_f64().expect("a time") * 1000.0).round() as i64;
        (time % 86_400_000_000, row["value"].as_str().expect("a text").to_owned())
    };
    values.as_array().expect("rows").iter().map(row).collect()
}

#[test]
fn values_are_those_that_pmdumplog_shows() {
    let dir = temp_dir();
    let web = web(dir.path());
    let mut env = PcpEnv::new();
    env.set("TZ", "UTC");
    for (archive, metric) in
        [("sample_expr", "sample.byte_ctr"), ("viewqa1", "kernel.all.cpu.user"), ("wrap", "sample.wrap.long")]
    {
        let expected = dumped(&env, &Path::new(ARCHIVES).join(archive), metric);
        assert!(expected.len() > 5, "{metric}: {expected:?}");
        assert_eq!(answered(&query(&web, &format!("{metric}[samples:0]"))), expected, "{metric}");
        let mut newest = expected.clone();
        newest.reverse();
        newest.truncate(3);
        assert_eq!(answered(&query(&web, &format!("{metric}[samples:3]"))), newest, "{metric}");
    }
}

#[test]
fn an_archive_that_is_written_and_a_new_one_show_by_themselves() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let logger = pmcd.record(&["sample.seconds", "sample.colour"], Duration::from_millis(200));
    let below = logger.archive().base().parent().expect("a directory").to_owned();
    eventually("something is recorded", || {
        fs::metadata(logger.archive().base().with_extension("0")).ok().filter(|about| about.len() > 1000)
    });
    let dir = temp_dir();
    let web = Web::start(dir.path(), &["-a", below.to_str().expect("a text")]);
    let newest = || -> Option<f64> {
        let values = query(&web, "sample.seconds[samples:1]");
        values.as_array()?.first()?["timestamp"].as_f64()
    };
    let first = eventually("it is in the index", newest);
    let mut before = first;
    for _ in 0..3 {
        before = eventually("newer values show", || newest().filter(|time| *time > before));
    }
    // In a window that goes on beyond what was there when the index was made.
    let colours = query(&web, &format!("sample.colour[start:\"{}\"]", first / 1000.0));
    assert!(colours.as_array().is_some_and(|rows| rows.len() >= 6), "{colours}");

    // Another host's archive, whole, in the same directory.
    for end in ["0", "index", "meta"] {
        fs::copy(format!("{ARCHIVES}/viewqa1.{end}"), below.join(format!("another.{end}")))
            .expect("it is written");
    }
    let user = eventually("the new one shows", || {
        let found = query(&web, "kernel.all.cpu.user");
        found.as_array().is_some_and(|ids| ids.len() == 1).then_some(found)
    });
    let expected = query(&web, "kernel.all.cpu.user[samples:0]");
    assert!(expected.as_array().is_some_and(|rows| rows.len() > 10), "{user} {expected}");
    for end in ["0", "index", "meta"] {
        fs::remove_file(below.join(format!("another.{end}"))).expect("it is there");
    }
    eventually("and is gone again", || (query(&web, "kernel.all.cpu.user") == json!([])).then_some(()));
    drop(logger.finish());
}

#[test]
fn what_jumpseat_records_shows_while_it_is_recorded() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let dir = temp_dir();
    let base = dir.path().join("archives/own");
    fs::create_dir_all(dir.path().join("archives")).expect("it can be made");
    // The server is there first, and the directory is empty.
    let below = dir.path().join("archives");
    let web = Web::start(dir.path(), &["-a", below.to_str().expect("a text")]);
    assert_eq!(query(&web, "sample.seconds"), json!([]));
    let mut command = PcpEnv::new().command(JUMPSEAT);
    command.args(["record", "-q", "-t", "100msec", "-h", &pmcd.inet()]).arg(&base).arg("sample.seconds");
    let _recorder = Process::start(&mut command, dir.path(), "record");
    let count = || query(&web, "sample.seconds[samples:0]").as_array().map_or(0, Vec::len);
    let mut before = 0;
    for _ in 0..3 {
        before = eventually("more values show", || Some(count()).filter(|count| *count > before));
    }
    assert!(before > 3);
}

#[test]
fn two_archives_of_a_host_are_one_series() {
    let dir = temp_dir();
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let record = || {
        let logger = pmcd.record(&["sample.seconds"], Duration::from_millis(100));
        eventually("something is recorded", || {
            fs::metadata(logger.archive().base().with_extension("0")).ok().filter(|about| about.len() > 800)
        });
        logger.finish()
    };
    let (one, other) = (record(), record());
    let words = [&one, &other].map(|archive| archive.base().to_str().expect("a text").to_owned());
    let mut env = PcpEnv::new();
    env.set("TZ", "UTC");
    let web = Web::start_in(&env, dir.path(), &["-a", &words[1], "-a", &words[0]]);
    loaded(&web, &words[0]);
    assert_eq!(query(&web, "sample.seconds").as_array().map(Vec::len), Some(1));
    let mut expected = dumped(&env, one.base(), "sample.seconds");
    let of_first = expected.len();
    expected.extend(dumped(&env, other.base(), "sample.seconds"));
    assert_eq!(answered(&query(&web, "sample.seconds[samples:0]")), expected);
    // The newest, more than the newer one has.
    let count = expected.len() - of_first + 2;
    expected.reverse();
    expected.truncate(count);
    assert_eq!(answered(&query(&web, &format!("sample.seconds[samples:{count}]"))), expected);
}

#[test]
fn what_of_a_damaged_archive_is_done_without_is_said_and_shown() {
    let dir = temp_dir();
    let below = dir.path().join("archives");
    fs::create_dir(&below).expect("the directory is ours");
    let archive = below.join("torn");
    let copy = |bytes_less: u64, age: Duration| {
        for end in ["0", "index", "meta"] {
            let path = archive.with_extension(end);
            fs::copy(format!("{ARCHIVES}/viewqa1.{end}"), &path).expect("PCP's test suite is installed");
            let file = fs::File::options().write(true).open(&path).expect("it is ours");
            let len = file.metadata().expect("it is there").len();
            file.set_len(if end == "0" { len - bytes_less } else { len }).expect("it is ours");
            // Of one that is being written the end says nothing.
            file.set_modified(SystemTime::now() - age).expect("it is ours");
        }
    };
    copy(10, Duration::from_secs(7200));
    let archive = archive.to_str().expect("a temporary path is UTF-8");
    let start = || {
        let web = Web::start(dir.path(), &["-a", below.to_str().expect("a temporary path is UTF-8")]);
        loaded(&web, archive);
        web
    };
    let problems = |web: &Web| -> Vec<String> {
        serde_json::from_value(web.json("/page/hosts")["problems"].clone()).expect("a list of texts")
    };
    let expected = format!("{archive}: the last record that is whole ends at byte ");
    drop(start());
    // The second one has it from the file of facts.
    let web = start();
    let shown = eventually("it is shown", || problems(&web).pop());
    assert!(shown.starts_with(&expected) && shown.contains("bytes behind it are left out"), "{shown}");
    assert_eq!(problems(&web), [shown.as_str()]);
    // It is looked at again when the files change, and not said again.
    copy(10, Duration::from_secs(3600));
    eventually("it is looked at", || {
        let load = web.json("/page/hosts")["archives"][0]["bytes"].as_u64();
        load.filter(|_| problems(&web) == [shown.as_str()])
    });
    copy(0, Duration::from_secs(1800));
    eventually("it is whole", || problems(&web).is_empty().then_some(()));
    // Once by each of them.
    assert_eq!(web.process.text().matches(&expected).count(), 2, "{}", web.process.text());
}

#[test]
fn a_damaged_index_is_made_anew() {
    let dir = temp_dir();
    drop(web(dir.path()));
    let start = || web(dir.path());
    let series = dir.path().join("cache/series");
    let files = || -> Vec<String> {
        let entries = fs::read_dir(&series).expect("it is there");
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a text")).collect()
    };
    assert_eq!(files(), ["0.pack"]);
    let pack = series.join("0.pack");
    let good = fs::read(&pack).expect("it can be read");
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 0x55;
    for bad in [&good[..good.len() / 2], &flipped, &[0xff; 100_000], &[]] {
        fs::write(&pack, bad).expect("it can be written");
        // One that somebody left half written, and one of a version before.
        fs::write(series.join("7.pack"), &good[..good.len() / 3]).expect("it can be written");
        fs::write(series.join("0000.facts"), &good[..30]).expect("it can be written");
        let web = start();
        assert_eq!(query(&web, "disk.dev.read{hostname==\"bozo\"}"), json!([READ]));
        assert_eq!(query(&web, "sample.byte_ctr"), json!([BYTES]));
        assert_eq!(files(), ["0.pack"]);
        drop(web);
        // All of it is there again: the next one writes nothing.
        let again = fs::read(&pack).expect("it can be read");
        assert!(again.len() >= good.len());
        drop(start());
        assert!(fs::read(&pack).expect("it can be read") == again, "nothing is read again");
    }
}

#[test]
fn two_servers_keep_the_same_archives_beside_each_other() {
    let dir = temp_dir();
    let one = web(dir.path());
    let other = web(dir.path());
    for web in [&one, &other] {
        assert_eq!(query(web, "sample.byte_ctr"), json!([BYTES]));
    }
    let names = || fs::read_dir(dir.path().join("cache/series")).expect("it is there").count();
    assert_eq!(names(), 2);
    drop((one, other));
    assert_eq!(query(&web(dir.path()), "sample.byte_ctr"), json!([BYTES]));
    assert_eq!(names(), 1, "what the second one has left was taken over");
}

#[test]
fn without_a_directory_for_the_index_it_is_kept_in_memory() {
    let dir = temp_dir();
    fs::write(dir.path().join("cache"), "no directory").expect("it can be written");
    let web = web(dir.path());
    assert_eq!(query(&web, "sample.byte_ctr"), json!([BYTES]));
}

#[test]
fn derived_metrics_are_found_by_name_and_by_expression() {
    let dir = temp_dir();
    fs::write(
        dir.path().join("derived"),
        "my.total = disk.dev.read + disk.dev.write\nmy.double = sample.byte_ctr * 2\nmy.nothing = no.such + 1\n",
    )
    .expect("it can be written");
    let mut env = PcpEnv::new();
    env.set("PCP_DERIVED_CONFIG", dir.path().join("derived"));
    let archive = format!("{ARCHIVES}/sample_expr");
    let other = format!("{ARCHIVES}/instant-1");
    let web = Web::start_in(&env, dir.path(), &["-a", &archive, "-a", &other]);
    loaded(&web, &archive);
    let plain = answered(&query(&web, "sample.byte_ctr[samples:0]"));
    let doubled: Vec<(i64, f64)> =
        plain.iter().map(|(time, value)| (*time, 2.0 * value.parse::<f64>().expect("a number"))).collect();
    // The metric is in one of the two archives: the newer one of a host tells whether it can be derived at all.
    let newest = query(&web, "derived(\"disk.dev.read + disk.dev.write\")");
    assert_eq!(newest.as_array().map(Vec::len), Some(1), "{newest}");
    assert_eq!(query(&web, "my.nothing"), json!([]));
    let id = query(&web, "my.total")[0].as_str().expect("a series").to_owned();
    assert_eq!(web.json(&format!("/series/metrics?series={id}"))[0]["name"], json!("my.total"));
    let desc = &web.json(&format!("/series/descs?series={id}"))[0];
    assert_eq!((&desc["indom"], &desc["semantics"]), (&json!("60.1"), &json!("counter")));
    let instances = web.json(&format!("/series/instances?series={id}"));
    assert_eq!(instances.as_array().map(Vec::len), Some(3));
    let sum = |metric: &str| -> f64 {
        let rows = query(&web, &format!("{metric}[samples:1]"));
        rows.as_array()
            .expect("rows")
            .iter()
            .map(|row| row["value"].as_str().and_then(|value| value.parse::<f64>().ok()).expect("a number"))
            .sum()
    };
    assert_eq!(sum("my.total"), sum("disk.dev.read") + sum("disk.dev.write"));
    let by_id = web.json(&format!("/series/values?series={id}&samples=1"));
    assert_eq!(by_id, query(&web, "my.total[samples:1]"));
    // In an archive alone.
    let dir = temp_dir();
    let web = Web::start_in(&env, dir.path(), &["-a", &archive]);
    loaded(&web, &archive);
    let numbers = |expr: &str| -> Vec<(i64, f64)> {
        let values = answered(&query(&web, expr));
        values.into_iter().map(|(time, value)| (time, value.parse().expect("a number"))).collect()
    };
    assert_eq!(numbers("my.double[samples:0]"), doubled);
    assert_eq!(numbers("derived(\"sample.byte_ctr * 2\"){hostname==\"bozo\"}[samples:0]"), doubled);
    assert_eq!(numbers("derived(\"sample.byte_ctr * 2\")[samples:2]"), {
        let mut newest = doubled.clone();
        newest.reverse();
        newest.truncate(2);
        newest
    });
    assert_eq!(query(&web, "derived(\"sample.byte_ctr\"){hostname==\"other\"}"), json!([]));
    let bad = web.get(&format!("/series/query?expr={}", escaped("derived(\"sample.byte_ctr +\")")));
    assert!(refused(&bad).starts_with("cannot derive sample.byte_ctr +: "));
}

#[test]
fn requests_that_nobody_should_send_are_refused_and_cost_nobody_else() {
    let dir = temp_dir();
    let web = web(dir.path());
    let exprs = [
        "(".repeat(60_000),
        "abs(".repeat(10_000),
        format!("disk.dev.read{{{}a==b}}", "a==b,".repeat(5000)),
        format!("a{}", "+a".repeat(5000)),
        "disk.dev.read{hostname=~\"((((a{200}){200}){200}){200})\"}".to_owned(),
        "disk.dev.read[samples:99999999999999999999]".to_owned(),
        "disk.dev.read[interval:\"1e400\",start:0]".to_owned(),
        "disk.dev.read[start:\"99999999999999999999999\"]".to_owned(),
        "\u{1}\u{7f}\"\\".to_owned(),
        "rescale(disk.dev.read[samples:1],\"sec\")".to_owned(),
        "log(pmcd.pmlogger.host[samples:1],0)".to_owned(),
    ];
    for expr in &exprs {
        let body = format!("expr={}", escaped(expr));
        let message = refused(&web.ask("POST", "/series/query", &[], body.as_bytes()));
        assert!(!message.is_empty());
    }
    for path in [
        "/series/query?expr=%zz",
        "/series/query?expr=%ff",
        "/series/values?series=&samples=1",
        "/series/values?series=0000",
        &format!("/series/values?series={READ}&samples=-5"),
        &format!("/series/values?series={READ}&start=0&interval=-1"),
        &format!("/series/values?series={READ}&start=nonsense"),
        "/series/labels?names=",
        &format!("/series/descs?series={}", "0,".repeat(4001)),
        "/series/nothing",
        "/search/text?query=x",
    ] {
        let answer = web.get(path);
        assert_eq!(answer.status, 400, "{path}: {}", answer.text());
        assert_eq!(answer.json()["success"], json!(false), "{path}");
    }
    let long = vec![b'x'; 2 << 20];
    assert_eq!(web.ask("POST", "/series/query", &[], &long).status, 413);
    assert_eq!(web.ask("DELETE", "/series/query?expr=x", &[], b"").status, 405);
    // Numbers at the ends of their ranges are good ones.
    for window in
        ["start=0&finish=9223372036", "start=0&interval=9223372036", "samples=2147483647&offset=2147483647"]
    {
        web.json(&format!("/series/values?series={READ}&{window}"));
    }
    // A file is no zone: reading this one would not end.
    for zone in ["zone=/dev/zero", "timezone=:/dev/zero"] {
        web.json(&format!("/series/values?series={READ}&start=2010-01-01&{zone}"));
    }
    query(&web, "sample.byte_ctr[start:\"2010-01-01\",timezone:\"/dev/zero\"]");
    // In nobody's way: what is asked for is answered.
    assert_eq!(query(&web, "sample.byte_ctr"), json!([BYTES]));
}
