//! PMWEBAPI and `/metrics`: the answers of a real pmproxy, Grafana's and Prometheus's requests, events, archives, hostile requests.

mod archives;
mod events;
mod grafana;
mod hostile;
mod logins;
mod peers;
mod prometheus;
mod sharing;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Map, Value as Json, json};
use support::{AgentSpec, PcpEnv, PmcdBuilder, PrivatePmcd, temp_dir};
use tempfile::TempDir;

use crate::replay::{cases, replay};
use crate::web_support::Web;

/// A collector with PCP's sample agent and its help, and the server on it.
struct Sample {
    web: Web,
    pmcd: PrivatePmcd,
    dir: TempDir,
}

impl Sample {
    fn start(words: &[&str]) -> Sample {
        Sample::with(PrivatePmcd::with([AgentSpec::sample()]), words)
    }

    fn with(pmcd: PmcdBuilder, words: &[&str]) -> Sample {
        let dir = temp_dir();
        let help = with_help(dir.path());
        let pmcd = pmcd.env("PCP_PMDAS_DIR", &help).start();
        let web = Web::start_in(pmcd.env(), dir.path(), words);
        Sample { web, pmcd, dir }
    }
}

/// A directory of agents in which the sample agent has its help texts, which its installation would make.
fn with_help(dir: &Path) -> String {
    const PMDAS: &str = "/var/lib/pcp/pmdas";
    let pmdas = dir.join("pmdas");
    fs::create_dir_all(pmdas.join("sample")).expect("the test's directory is writable");
    symlink(format!("{PMDAS}/pmcd"), pmdas.join("pmcd")).expect("the test's directory is writable");
    let names = AgentSpec::sample_pmns("sample").text.replace("SAMPLE:", "29:");
    let root = dir.join("root");
    fs::write(&root, format!("root {{\n    sample\n}}\n{names}")).expect("the test's directory is writable");
    let texts = dir.join("help");
    let text = fs::read_to_string(format!("{PMDAS}/sample/help")).expect("it is installed");
    fs::write(&texts, text.replace("@ SAMPLE.", "@ 29.")).expect("the test's directory is writable");
    make_help(dir);
    pmdas.display().to_string()
}

/// Makes the help of the agent anew: texts are of names, which have their numbers in the root.
fn make_help(dir: &Path) {
    let out = dir.join("pmdas/sample/help");
    let [root, texts, out] =
        [&dir.join("root"), &dir.join("help"), &out].map(|path| path.display().to_string());
    let made = PcpEnv::new().run("newhelp", ["-n", &root, "-v", "2", "-o", &out, &texts]);
    assert!(dir.join("pmdas/sample/help.pag").exists(), "{made:?}");
}

/// What real servers answer, and we do not. No more than these.
const BUT: &[(&str, &str)] = &[
    ("urls-001", "the page is at /"),
    ("urls-010", "not of PMWEBAPI: 404"),
    ("urls-015", "not of PMWEBAPI: 404"),
    ("urls-016", "not of PMWEBAPI: 404"),
    ("children-004", "PCP 6.0.3 has fewer metrics there"),
    ("profile-009", "D18: instances that there are not are no instances, rather than all"),
    ("derive-034", "D7: anon() has no value, rather than 0"),
    ("scrape-039", "D19: not of PMWEBAPI: 404"),
    ("scrape-040", "D19: not of PMWEBAPI: 404"),
    ("http-006", "of deflate and gzip, gzip is taken"),
    ("http-004", "not of PMWEBAPI: 404"),
    ("http-031", "not of PMWEBAPI: 404"),
    ("http-032", "OPTIONS of * is asked by nobody: 404"),
    ("http-038", "the body of a 414 is JSON, not HTML"),
    ("http-039", "URLs are good up to 8191 bytes, which Grafana sends"),
    ("http-042", "D19: exact paths, nobody escapes letters of them"),
];

#[test]
fn real_answers_are_given_again() {
    let sample = Sample::start(&["-h", "local:", "--any-host", "--allow-store", "--allow-origin", "*"]);
    let mut cases = cases(false);
    // Those have a test of their own.
    cases.retain(|case| case.text("group") != "grafana");
    assert_eq!(cases.len(), 448);
    let outcome = replay(&sample.web, &cases, corrected);
    outcome.expect_only(BUT);
    assert_eq!(outcome.passed + BUT.len(), cases.len());
}

#[test]
fn grafanas_requests_are_answered_as_by_a_real_server() {
    let sample = Sample::start(&["-h", "local:", "--allow-origin", "*"]);
    let mut cases = cases(false);
    cases.retain(|case| case.text("group") == "grafana");
    assert_eq!(cases.len(), 17);
    replay(&sample.web, &cases, corrected).expect_only(&[]);
}

/// What the right answer is, by the rules for defects that are in too many cases to be marked there.
pub(crate) fn corrected(case: &crate::replay::Case, want: &mut Json) {
    // D13: pages may log in.
    if let Some(Json::String(allowed)) = want.pointer_mut("/headers/access-control-allow-headers") {
        allowed.push_str(", Authorization");
    }
    // D12: JSON is told to be JSON.
    if let Some(content) = want.pointer_mut("/headers/content-type")
        && *content == "application/octet-stream"
    {
        *content = json!("application/json");
    }
    let path = case.text("path");
    let (path, parameters) = path.split_once('?').unwrap_or((path, ""));
    // D5: only the names that were asked for.
    if path.ends_with("fetch") && case.0["defect"].is_null() && parameters.contains("name") {
        let asked = parameters.replace("%2C", ",").replace("%2E", ".");
        let is_asked = |name: &str| asked.split(['=', ',', '&']).any(|word| word == name);
        if let Some(Json::Array(values)) = want.pointer_mut("/json/values") {
            values.retain(|value| value["name"].as_str().is_some_and(is_asked));
        }
    }
    if path.ends_with("indom")
        && let Some(Json::Object(answer)) = want.get_mut("json")
    {
        merge_labels(answer);
    }
}

/// D18: labels of instance domains have those of the agent, and those of instances have all of the domain's.
fn merge_labels(answer: &mut Map<String, Json>) {
    let of_sample = match &answer.get("indom") {
        Some(Json::String(indom)) => indom.starts_with("29."),
        Some(Json::Number(indom)) => indom.as_u64().is_some_and(|indom| indom >> 22 == 29),
        _ => return,
    };
    let Some(Json::Object(labels)) = answer.get_mut("labels") else { return };
    if of_sample {
        labels.insert("agent".to_owned(), json!("sample"));
        labels.insert("role".to_owned(), json!("testing"));
    }
    let all = labels.clone();
    let has_bins = answer["indom"] == "29.2" || answer["indom"] == 29_u32 << 22 | 2;
    for instance in answer.get_mut("instances").and_then(Json::as_array_mut).into_iter().flatten() {
        let number = instance["instance"].clone();
        let Some(Json::Object(own)) = instance.get_mut("labels") else { continue };
        // As they are in real answers of /metrics.
        if has_bins {
            own.insert("bin".to_owned(), number);
        }
        for (name, value) in &all {
            own.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
}
