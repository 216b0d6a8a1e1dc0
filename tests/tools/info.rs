//! `jumpseat info` next to PCP's `pminfo`, on the same collector.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Stdio;

use crate::seat::{Seat, Transport};
use crate::tools_support::{Pair, installed_level};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::{AgentSpec, PrivatePmcd};

/// Events for the agent: of two types, with fields of several kinds.
const EVENTS: &str = concat!(
    r#"{"time":"2026-11-20T10:19:17.203284222Z","type":"request","phase":"start","span_id":"a1","parent_id":"p0","#,
    r#""message":"GET /","bytes":1234567890123,"delta":-5,"ratio":0.25,"cached":true}"#,
    "\n",
    r#"{"time":1795083558.5,"type":"tick"}"#,
    "\n",
);

/// The sample agent, and the jumpseat agent with some events.
fn pair() -> Pair {
    let builder = PrivatePmcd::with([AgentSpec::sample()]);
    let seat = Seat::in_dir(builder.dir(), "");
    let agent = seat.agent(Transport::Pipe);
    let pmcd = builder.agent(agent).start();
    seat.feed([], EVENTS).ok();
    Pair::new(pmcd)
}

/// Metrics of every kind, good and bad, and operands that are none.
const METRICS: [&str; 12] = [
    "sample.long sample.string.hullo",
    "sample.bad",
    "sample.bad.unknown",
    "sample.bogus_bin sample.part_bin sample.darkness",
    "sample.needprofile sample.noinst",
    "sample.aggregate sample.string sample.float sample.double",
    "sample.bad.unknown sample.long.one sample.bad.nosupport sample.ulong.one",
    "sample.nosuch sample.long.one sample.long.nosuch",
    "29.0.5 29.0.10 29.2 29.1 99.1 99.1.1 29.999.999 1.2.3.4 1 1.x 1.2.x 29.0 600.1.1 9x",
    "pmcd.version pmcd.agent pmcd.feature 2.3",
    "jumpseat.field jumpseat.event.count jumpseat.source",
    "event sample.event.type",
];

/// Compares each choice of options for all kinds of metrics.
fn every_kind_of_metric(options: &[&str]) {
    let mut pair = pair();
    for options in options {
        for metrics in METRICS {
            pair.compare("pminfo", &format!("{options} {metrics}"));
        }
    }
    assert!(pair.finish() >= 80);
}

#[test]
fn names_and_identifiers_of_every_kind_of_metric() {
    every_kind_of_metric(&["", "-m", "-M", "-t", "-T", "-d", "-I", "-l", "-s"]);
}

#[test]
fn descriptions_and_values_of_every_kind_of_metric() {
    every_kind_of_metric(&["-f", "-F", "-x", "-v", "-tM", "-dm", "-tT", "-ls", "-Il"]);
}

#[test]
fn everything_about_every_kind_of_metric() {
    every_kind_of_metric(&["-mMtTdI", "-fd", "-Fl", "-dfmtTlsM", "-b 1 -f", "-b 3 -d", "-b 0 -m"]);
}

#[test]
fn the_whole_name_space() {
    let mut pair = pair();
    for options in
        ["", "-m", "-d", "-t", "-T", "-f sample", "-F sample", "-dfmtTM sample", "-v sample", "-f pmcd", "-l"]
    {
        pair.compare("pminfo", options);
    }
    pair.finish();
}

#[test]
fn events() {
    let mut pair = pair();
    for reset in 0..5 {
        pair.after(&format!("pmstore sample.event.reset {reset}"), |pair| {
            for args in
                ["-f sample.event.records", "-x sample.event.records", "-dmx sample.event.no_indom_records"]
            {
                pair.compare("pminfo", args);
            }
        });
        pair.after(&format!("pmstore sample.event.reset_highres {reset}"), |pair| {
            pair.compare("pminfo", "-x sample.event.highres_records");
        });
    }
    // The jumpseat agent gives each client what came after its first fetch: nothing yet.
    pair.compare("pminfo", "-x jumpseat.event.records");
    pair.finish();
}

#[test]
fn derived_metrics() {
    let mut pair = pair();
    let good = pair.file(
        "good.conf",
        "d.twice = 2 * sample.long.ten\nd.twice(oneline) = twice ten\nd.twice(helptext) = two times ten\n\
         d.rate = rate(sample.long.ten)\nd.bins = sample.long.bin + 1\n",
    );
    let bad = pair.file("bad.conf", "b.syntax = 2*\nb c\nb.good = sample.long.one\nb.good = 3\n");
    let part = pair.file("part.conf", "p.good = sample.long.one\np.bad = no.such + 1\nq.bad = no.such\n");
    let kinds =
        pair.file("kinds.conf", "k.bad = sample.bin + sample.string.hullo\nk.good = sample.long.one\n");
    let commands = [
        format!("-c {good} -dfmtTl d"),
        format!("-c {good} -dfmtTls d.twice d.bins"),
        format!("-c {good} -M d"),
        format!("-c {bad} -f b"),
        format!("-c {bad} -c {good} -f b d"),
        format!("-c {good}:{bad} -f b d"),
        format!("-c {bad} -c /nosuch b"),
        format!("-c {part} p q p.bad p.good"),
        format!("-c {part} -v p"),
        format!("-c {kinds} -f k.bad"),
        format!("-c {kinds} -d k.bad k.good"),
        format!("-c {kinds} k"),
        format!("-c {good} -c {good} d"),
        format!("--derived={good} -v d.rate d.twice"),
    ];
    for command in &commands {
        pair.compare("pminfo", command);
    }
    for config in
        [&good, &bad, &part, &"/nosuch".to_owned(), &format!("/nosuch:{good}:{bad}"), &format!("{good}:")]
    {
        pair.with_env("PCP_DERIVED_CONFIG", config, |pair| {
            for args in ["-f d", "b p q", "-d p.bad d.twice", "-m event d", "-h nosuch.host.invalid d"] {
                pair.compare("pminfo", args);
            }
            pair.compare("pminfo", &format!("-c {good} -f d"));
        });
    }
    pair.finish();
    // `-r` is of 6.3.8, and so not in the tool that is compared with (spec `tools.md` 4.6).
}

#[test]
fn definitions_for_one_context() {
    let mut pair = pair();
    let unknown = pair.ours("pminfo", "-r a=b sample.long.one").stderr;
    assert!(
        installed_level() != "6.0.3" || unknown.starts_with("pminfo: invalid option -- 'r'\n"),
        "{unknown}"
    );
    pair.set_level("6.3.8");
    let output = pair.ours("pminfo", "-r 'a.b = 2 * sample.long.ten' -r 'c=a.b + 1' -f a.b");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        output.stderr,
        "pminfo: per-context derived metric registration error:\n\
         Semantic Error: pmAddDerivedMetric(\"c\", ...)\na.b + 1\n^\nIllegal nested derived metric\n"
    );
    let output = pair.ours("pminfo", "-r 'a.b = 2 * sample.long.ten' -f a.b");
    assert_eq!(output.ok(), "\na.b\n    value 20\n");
    let output = pair.ours("pminfo", "-r x -r y= -r 'p.x=2*' -f sample.long.one");
    assert_eq!(
        output.fails(1),
        "pminfo: bad register string, no =\npminfo: bad register string, no expr after =\n\
         pminfo: per-context derived metric registration error:\n\
         Syntax Error: pmAddDerivedMetric(\"p.x\", ...)\n2*\n ^\nArithmetic expression expected to follow STAR\n"
    );
}

/// Since 6.3, so the installed tool may not have them: what is expected is what 6.3.8 printed.
#[test]
fn instance_domains_may_be_declared_equivalent() {
    let mut pair = pair();
    pair.set_level("6.3.8");
    let definitions = pair.file("definitions", "e.a = sample.bin + sample.colour\ne.b = 2 * sample.bin\n");
    let run = |pair: &mut Pair, domains: &str, metric: &str| {
        let file = pair.file("indom.conf", domains);
        pair.env_set("PCP_INDOM_CONFIG", &file);
        let output = pair.ours("pminfo", &format!("-c {definitions} -f {metric}"));
        pair.env_unset();
        // Without the time and the number of the process.
        let said = output.stderr.replace(&file, "FILE");
        (output.stdout, said.split_once("Error: __").map_or(said.clone(), |(_, said)| said.to_owned()))
    };
    let (values, said) = run(&mut pair, "29.1 29.2\n", "e.a");
    // It binds; that no instance of one has the number of one of the other is another matter.
    assert_eq!((values.as_str(), said.as_str()), ("\ne.a\nNo value(s) available!\n", ""));
    let differ = "Semantic error: derived metric e.a: sample.bin + sample.colour: Operands should have the same instance \
                  domain\nError: e.a: Unknown metric name\n";
    let malformed = "29.7 29.8\n29.1 29.x\n";
    let told = "pmEquivInDom: [FILE:2] digit or '*' expected after <domain> 29, found 'x'\n";
    assert_eq!(run(&mut pair, malformed, "e.a"), (String::new(), format!("{told}{differ}")));
    assert_eq!(run(&mut pair, "", "e.a"), (String::new(), differ.to_owned()));
    // Nobody has compared any.
    let (values, said) = run(&mut pair, malformed, "e.b");
    assert!(values.contains("value 200") && said.is_empty(), "{values}{said}");
}

#[test]
fn json_is_exact_and_complete() {
    let pair = pair();
    let run = |args: &str| -> Vec<serde_json::Value> {
        let words = ["info", "--json"].into_iter().chain(args.split(' '));
        let output = pair.pmcd().run(crate::seat::JUMPSEAT, words).ok();
        output.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
    };
    pair.pmcd().run("pmstore", ["sample.ulonglong.write_me", "18446744073709551615"]).ok();
    let found = run("-dfTl sample.ulonglong.write_me sample.bad sample.bogus_bin");
    let first = &found[0];
    assert_eq!(first["metric"], "sample.ulonglong.write_me");
    assert_eq!(first["pmid"], "29.0.102");
    assert_eq!((&first["type"], &first["semantics"]), (&"U64".into(), &"instant".into()));
    assert_eq!(first["values"][0]["value"].as_u64(), Some(u64::MAX));
    assert_eq!(first["labels"]["agent"], "sample");
    let error = |metric: &str| &found.iter().find(|one| one["metric"] == metric).unwrap()["error"];
    assert_eq!(error("sample.bad.unknown")["code"], -12358);
    assert_eq!(error("sample.bad.nosupport")["name"], "PM_ERR_APPVERSION");
    let bins = found.iter().find(|one| one["metric"] == "sample.bogus_bin").unwrap();
    assert_eq!(bins["values"][0], serde_json::json!({"id": 100, "instance": "bin-100", "value": 100}));
    assert_eq!(bins["values"][1], serde_json::json!({"id": 250, "instance": null, "value": 250}));
    let found = run("-tTs jumpseat.event.count");
    assert!(
        found[0]["help"].as_str().unwrap().len() > found[0]["oneline"].as_str().unwrap().len(),
        "{found:?}"
    );
    assert_eq!(found[0]["series"].as_str().unwrap().len(), 40);
    // Without options: description and values.
    let found = run("sample.string.hullo");
    assert_eq!(found[0]["values"][0]["value"], "hullo world!");
    assert_eq!(found[0]["indom"], serde_json::Value::Null);
}

#[test]
fn a_reader_that_goes_away_and_a_full_disk() {
    let pair = pair();
    for tool in ["pminfo", "pmprobe"] {
        let mut command = pair.pmcd().env().command(pair.path(tool));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        assert!(!first.is_empty());

        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = pair.pmcd().env().command(pair.path(tool));
        let output = command.stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(error, format!("{tool}: cannot write: No space left on device\n"));
    }
}

/// A collector that greets everybody with an error.
fn refusing() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let words: [i32; 5] = [20, 0x7000, 0, -12387, 0];
            let greeting: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            let _ = connection.and_then(|mut connection| {
                connection.write_all(&greeting)?;
                connection.read_to_end(&mut Vec::new())
            });
        }
    });
    port
}

#[test]
fn a_collector_that_refuses_or_is_gone() {
    let mut pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    pmcd.stop();
    let mut pair = Pair::new(pmcd);
    let port = refusing();
    for source in [format!("-h 127.0.0.1:{port}"), String::new()] {
        for tool in ["pminfo", "pmprobe"] {
            pair.compare(tool, &format!("{source} -f sample.long.one"));
        }
        pair.compare("pmstore", &format!("{source} sample.long.write_me 1"));
    }
    pair.finish();
}

#[test]
fn an_agent_that_does_not_answer() {
    let answers = ["/usr/bin/pminfo", "ours"].map(|tool| {
        let pair = Pair::new(PrivatePmcd::with([AgentSpec::sample()]).options(["-t", "1"]).start());
        let agent = pair.pmcd().value("sample.daemon_pid").unwrap().parse().unwrap();
        kill(Pid::from_raw(agent), Signal::SIGSTOP).unwrap();
        let path = if tool == "ours" { pair.path("pminfo") } else { tool.into() };
        let answer = pair.pmcd().run(path.to_str().unwrap(), ["-m", "-f", "sample.long.one", "pmcd.version"]);
        kill(Pid::from_raw(agent), Signal::SIGCONT).unwrap();
        (answer.stdout, answer.stderr, answer.status)
    });
    assert_eq!(answers[0], answers[1]);
}
