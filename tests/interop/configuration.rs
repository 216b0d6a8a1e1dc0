//! The configuration file: the one that is shipped, and what the programs say about a wrong one.

use jumpseat::agent::Config;
use jumpseat::agent::config::{DerivedConfig, DimensionsConfig};
use jumpseat::source::guard::tls::TlsFiles;
use jumpseat::source::otlp::OtlpConfig;
use jumpseat::source::rules::SourceRule;
use jumpseat::source::tracefs::KernelConfig;
use jumpseat::source::{Rules, SocketConfig};
use std::path::Path;
use std::process::Command;

const SHIPPED: &str = include_str!("../../install/jumpseat.toml");

fn parse(text: &str) -> Config {
    Config::parse(text, Path::new("jumpseat.toml")).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Turns the commented-out defaults into settings.
fn uncommented() -> String {
    let is_setting = |line: &str| {
        line.strip_prefix('#').and_then(|rest| rest.split_once(" = ")).is_some_and(|(key, _)| {
            !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        }) || line.starts_with("#[")
    };
    let lines = SHIPPED.lines().map(|line| if is_setting(line) { &line[1..] } else { line });
    lines.collect::<Vec<_>>().join("\n")
}

/// The shipped file has the definitions that are shipped with it.
fn derived() -> DerivedConfig {
    DerivedConfig { files: Some(vec!["derived.conf".into()]), ..DerivedConfig::default() }
}

#[test]
fn the_shipped_file_changes_nothing_but_derived_metrics() {
    let shipped = parse(SHIPPED);
    let expected = Config {
        derived: derived(),
        socket: vec![SocketConfig::default()],
        source: vec![SourceRule::default()],
        ..Config::default()
    };
    assert_eq!(format!("{shipped:?}"), format!("{expected:?}"));
}

#[test]
fn the_shipped_file_shows_the_defaults_of_all_keys() {
    let text = uncommented();
    let all = parse(&text);
    let otlp = OtlpConfig {
        listen: Some("localhost:4318".to_owned()),
        grpc: Some("localhost:4317".to_owned()),
        tls: Some(TlsFiles {
            certificate: "/etc/pcp/tls/jumpseat.crt".into(),
            key: "/etc/pcp/tls/jumpseat.key".into(),
            client_ca: None,
        }),
        token_file: Some("/etc/jumpseat/otlp.token".into()),
        ..OtlpConfig::default()
    };
    let mut expected = Config {
        domain: Some(400),
        state_dir: Some("/var/lib/pcp/config/pmda".into()),
        derived: DerivedConfig { pmcd: Some("local:".into()), ..derived() },
        socket: vec![SocketConfig { group: Some("jumpseat".into()), ..SocketConfig::default() }],
        otlp,
        source: all.source.clone(),
        dimensions: all.dimensions.clone(),
        objective: all.objective.clone(),
        kernel: vec![KernelConfig::default()],
        ..Config::default()
    };
    // Of these there are none by default: the defaults of their keys are shown.
    let [dimensions] = &all.dimensions[..] else { panic!("one table is shown") };
    let shown = DimensionsConfig { fields: dimensions.fields.clone(), ..DimensionsConfig::default() };
    assert_eq!(format!("{dimensions:?}"), format!("{shown:?}"));
    assert_eq!(all.objective.len(), 1);
    // Places for what has none by default.
    expected.access.passwords = Some("passwords".into());
    expected.log.dir = Some("/var/lib/pcp/config/pmda/400.log".into());
    expected.log.contexts = Some("/run/pcp".into());
    expected.tls.certificate = Some("/etc/pcp/tls/jumpseat.crt".into());
    expected.tls.key = Some("/etc/pcp/tls/jumpseat.key".into());
    expected.tls.client_ca = Some("/etc/pcp/tls/ca.crt".into());
    assert_eq!(Rules(all.source.clone()).of("any"), Rules::default().of("any"));
    assert_eq!(format!("{all:?}"), format!("{expected:?}"));
    // every key that there is: each appears in the message about one that does not exist
    let tables = [
        "",
        "[events]\n",
        "[log]\n",
        "[fields]\n",
        "[derived]\n",
        "[control]\n",
        "[handover]\n",
        "[[socket]]\n",
        "[otlp]\n",
        "[[source]]\n",
        "[[file]]\n",
        "[[command]]\n",
        "[[journal]]\n",
        "[spans]\n",
        "[[kernel]]\n",
        "[[scrape]]\n",
    ];
    for table in tables {
        let wrong = format!("{table}no_such_key = 1\n");
        let error = Config::parse(&wrong, Path::new("jumpseat.toml")).expect_err("no such key").to_string();
        // "unknown field `no_such_key`, expected one of `a`, `b`"
        let keys: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
        assert!(!keys.is_empty(), "{error}");
        for key in keys {
            // Tables that no agent has by default are shown as comments.
            let shown = text.lines().map(|line| line.strip_prefix("#  ").unwrap_or(line)).any(|line| {
                line.starts_with(&format!("{key} = "))
                    || line == format!("[{key}]")
                    || line == format!("[[{key}]]")
            });
            assert!(shown, "install/jumpseat.toml does not show {key}");
        }
    }
}

#[test]
fn a_wrong_file_is_told_with_place_and_remedy_and_ends_the_program() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("wrong.toml");
    let name = file.display().to_string();
    for (text, place, what) in [
        ("[events]\n\nrecent = 5000\n", ":3: ", "0 to 1000"),
        ("[events]\nrecnt = 5\n", ":2: ", "expected one of `source_budget`"),
        ("[[socket]]\nmode = \"rw\"\n", ":2: ", "octal"),
        ("domain = \n", ":1: ", "string"),
    ] {
        std::fs::write(&file, text).expect("the directory is ours");
        for program in [
            Command::new(env!("CARGO_BIN_EXE_pmdajumpseat")).args(["-c", &name, "-l", "stderr"]),
            Command::new(env!("CARGO_BIN_EXE_jumpseat")).args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "-c",
                &name,
            ]),
        ] {
            let output = program.current_dir(dir.path()).output().expect("the program runs");
            let log = std::fs::read_to_string(dir.path().join("stderr")).unwrap_or_default();
            let said = String::from_utf8_lossy(&output.stderr).into_owned() + &log;
            assert_eq!(output.status.code(), Some(1), "{program:?}: {said}");
            assert!(said.contains(&format!("{name}{place}")), "{program:?} does not name {place}: {said}");
            assert!(said.contains(what), "{program:?} does not say {what}: {said}");
        }
    }
    let missing = dir.path().join("missing.toml");
    let output = Command::new(env!("CARGO_BIN_EXE_jumpseat")).arg("serve").arg("-c").arg(&missing).output();
    let output = output.expect("the program runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("missing.toml"), "{output:?}");
}
