//! `pmval` and `pmevent` next to ours: the same command lines in the same order, each against a pmcd of its own
//! whose sample agent has just been started. Output, messages and exit codes must be equal but for times of day and,
//! where a case says so, for numbers that are never the same twice.

use std::os::unix::fs::symlink;
use std::path::Path;

use crate::seat::{JUMPSEAT, SOURCE, Seat, Transport};
use crate::tools_support::{LEVEL, installed_level};
use support::{AgentSpec, Output, PcpEnv, PrivatePmcd, Record, eventually, whole_records};
use tempfile::TempDir;

/// What of a case's output is compared.
#[derive(Clone, Copy, PartialEq)]
enum Compare {
    /// Everything but times of day.
    All,
    /// Numbers in data lines are not.
    Shape,
    /// Standard error only as far as it is a message of the tool.
    Message,
}
use Compare::{All, Message, Shape};

/// Command lines: options, operands. `@` is the host, `%` the directory of files.
fn cases() -> Vec<(String, Compare)> {
    let mut cases: Vec<(String, Compare)> = Vec::new();
    let mut add = |text: &str, compare| cases.push((text.to_owned(), compare));
    // Each kind of metric in each form.
    let metrics = [
        "sample.long.one",
        "sample.long.million",
        "sample.longlong.hundred",
        "sample.ulong.ten",
        "sample.ulonglong.million",
        "sample.float.one",
        "sample.float.hundred",
        "sample.double.ten",
        "sample.double.million",
        "sample.string.hullo",
        "sample.string.null",
        "sample.aggregate.hullo",
        "sample.aggregate.null",
        "sample.bin",
        "sample.part_bin",
        "sample.double.bin",
        "sample.float.bin",
        "sample.longlong.bin",
        "sample.colour",
        "sample.bad.novalues",
        "sample.bogus_bin",
        "sample.needprofile",
        "sample.dynamic.counter",
        "sample.dynamic.discrete",
        "sample.noinst",
        "sample.many.int",
        "sample.hordes.one",
        "sample.negative.instant.m_32",
        "sample.negative.discrete.m_64",
        "sample.negative.instant.m_double",
        "sample.negative.instant.m_float",
        "sample.ghosts.visible",
        "sample.magnitude",
        "sample.scale_step.bytes_up",
        "sample.event.type",
        "event.flags",
        "pmcd.numagents",
        "pmcd.version",
    ];
    for metric in metrics {
        add(&format!("-h @ -s 2 -t 0.02 {metric}"), All);
    }
    for metric in [
        "sample.bin",
        "sample.double.bin",
        "sample.float.ten",
        "sample.string.hullo",
        "sample.aggregate.hullo",
    ] {
        for options in [
            "-w 3",
            "-w 8",
            "-w 30",
            "-f 0",
            "-f 3",
            "-f 3 -w 12",
            "-v",
            "-r",
            "-X",
            "-Z EST5EDT",
            "-z",
            "-f 30",
        ] {
            add(&format!("-h @ -s 1 {options} {metric}"), All);
        }
    }
    // Instances that come and go: the agent takes the same for the same requests.
    for options in ["-s 4", "-s 9 -r", "-s 6 -i bin-300,bin-500"] {
        add(&format!("-h @ -t 0.02 {options} sample.scramble.bin"), All);
        add(&format!("-h @ -t 0.02 {options} --derived=%definitions d"), All);
    }
    add("-h @ -t 0.02 -s 3 sample.bogus_bin", All);
    // Counters that stand still, and those that do not.
    let still = [
        "sample.long.bin_ctr",
        "sample.double.bin_ctr",
        "sample.float.bin_ctr",
        "sample.longlong.bin_ctr",
        "sample.ulong.bin_ctr",
        "sample.negative.counter.m_double",
        "sample.secret.bar",
    ];
    for metric in still {
        for options in ["", "-r", "-f 2", "-w 25", "-w 9", "-T 0.5 -t 0.2"] {
            let samples = if options.starts_with("-T") { "" } else { "-s 2" };
            add(&format!("-h @ {samples} -t 0.02 {options} {metric}"), All);
        }
    }
    for metric in [
        "sample.milliseconds",
        "sample.ulonglong.bin",
        "sample.ulonglong.bin_ctr",
        "sample.byte_ctr",
        "sample.rapid",
        "sample.seconds",
        "pmcd.pdu_in.total",
        "sample.wrap.long",
        "sample.ulong.count.base",
        "sample.kbyte_ctr",
    ] {
        add(&format!("-h @ -s 2 -t 0.05 {metric}"), Shape);
        add(&format!("-h @ -s 2 -t 0.05 -r {metric}"), Shape);
        add(&format!("-h @ -s 2 -t 0.05 -f 2 -w 25 {metric}"), Shape);
    }
    // Instances.
    for (spec, options) in [
        ("sample.bin[bin-100,bin-300]", ""),
        ("sample.bin[ bin-300 , bin-100 ]", ""),
        ("sample.bin[]", ""),
        ("sample.bin['bin-100']", ""),
        ("sample.bin[bin-100]x", ""),
        ("sample.bin[bin-100", ""),
        ("sample.bin[nope]", ""),
        ("sample.bin", "-i bin-300,bin-100"),
        // Its agent leaves the instance domain of answers open.
        ("pmcd.control.register", "-i 1"),
        ("sample.bin", "-i bin-300 -i bin-100"),
        ("sample.bin", "-i nope"),
        ("sample.bin", "-i bin-100,,bin-200"),
        ("sample.bin", "-i bin-100,bin-100"),
        ("sample.bin", "-i ,"),
        ("sample.bin[bin-200]", "-i bin-100"),
        ("sample.long.one", "-i x"),
        ("sample.long.one[x]", ""),
        ("sample.bin_ctr", "-i x"),
        ("sample.double.bin_ctr[bin-500]", ""),
    ] {
        add(&format!("-h @ -s 1 -t 0.02 {options} {}", spec.replace(' ', "\u{a0}")), All);
    }
    // Stores before the first sample.
    for (value, metric) in [
        ("7", "sample.long.write_me"),
        ("-7", "sample.long.write_me"),
        ("0x1f", "sample.long.write_me"),
        ("foo", "sample.long.write_me"),
        ("99999999999", "sample.long.write_me"),
        ("2.5", "sample.float.write_me"),
        ("1e3", "sample.double.write_me"),
        ("x", "sample.double.write_me"),
        ("hi", "sample.string.write_me"),
        ("1", "sample.aggregate.write_me"),
        ("-1", "sample.ulonglong.write_me"),
        ("13", "sample.bin"),
        ("14", "sample.bin[bin-100]"),
        ("x", "sample.event.records"),
        ("1", "sample.long.one"),
    ] {
        add(&format!("-h @ -s 1 -x {value} {metric}"), All);
    }
    // Events: the sample agent's records are different with each fetch.
    for metric in ["sample.event.records", "sample.event.highres_records", "sample.event.no_indom_records"] {
        for options in ["", "-v", "-i fungus", "-r -w 3", "-X", "-f 0", "-z", "-Z UTC"] {
            add(&format!("-h @ -s 3 -t 0.02 {options} {metric}"), All);
        }
    }
    for options in ["-i nope", "-x y", "-U /nonexist", "-d"] {
        add(&format!("-h @ -s 1 {options} sample.event.records"), All);
    }
    add("-h @ -s 2 -t 0.02 jumpseat.event.recent", All);
    add("-h @ -s 2 -t 0.02 -v jumpseat.event.records", All);
    add("-h @ -s 1 jumpseat.event.count", All);
    add("-h @ -s 1 jumpseat.field.n", All);
    // Where the metric is: names, hosts, archives.
    for line in [
        "-h @ -s 1 sample.nosuch",
        "-h @ -s 1 sample",
        "-h @ -s 1 sample.bad.unknown",
        "-h @ -s 1 sample.bad.nosupport",
        "-s 1 @:sample.long.one",
        "-h @ -s 1 x:y:z",
        "-h 127.0.0.1:1 x",
        "-h @ -s 1 nosuch/x",
        "-a nosuch -h @ x",
        "-h @ -a nosuch x",
        "-h @ -h @ x",
        "-h @ :x",
        "-h @ x:",
        "-h @ /x",
        "-h @ x/",
        "-a nosuch -s 1 127.0.0.1:x",
        "-h @ a[",
        "-h @ a[b",
        "-h @ a[]",
        "-s 1 nosuchhost.invalid:x",
        "-s 1 sample.long.one",
        "-s 1 -z sample.bin",
    ] {
        add(line, All);
    }
    // What is wrong with a command line.
    for line in [
        "",
        "-h @",
        "-h @ a b",
        "-h @ -q x",
        "-h @ --foo x",
        "-h @ --f x",
        "-h @ -s",
        "-h @ --archive",
        "-h @ --raw=1 x",
        "-h @ -s x x",
        "-h @ -s -1 x",
        "-h @ -s 5x x",
        "-h @ -f x x",
        "-h @ -f -1 x",
        "-h @ -w 0 x",
        "-h @ -w x x",
        "-h @ -d x",
        "-h @ -t foo x",
        "-h @ -t 5x x",
        "-h @ -S 10 x",
        "-h @ -A 1 x",
        "-h @ -O 1 x",
        "-z -Z UTC x",
        "-Z UTC -z x",
        "-g -p 1 x",
        "-p 1 -g x",
        "-h @ -D blah x",
        "-K x y",
        "-h @ -T foo sample.bin",
        "-?",
        "--help",
        "-h @ -f 12 -s 1 sample.float.ten",
        "-h @ -f 11 -s 1 sample.float.ten",
        "-h @ --sam=1 sample.bin",
        "-h @ --precision=2 --samples 1 sample.double.ten",
        "-h @ -rs1 sample.long.bin_ctr",
    ] {
        add(line, All);
    }
    // Ends.
    for line in [
        "-s 0 sample.long.one",
        "-s 5 -T 0.5 -t 0.2 sample.bin",
        "-T 0.5 -t 0.2 sample.bin",
        "-s 1 -T 10 sample.bin",
        "-t 0 -s 1 sample.bin",
        "-t 0 -s 2 sample.bin",
        "-s 2 -t 20msec sample.bin",
        "-T 0 sample.bin",
    ] {
        add(&format!("-h @ {line}"), All);
    }
    add("-V", Message);
    cases
}

/// A pmcd with a sample agent and a jumpseat agent that has the same records as all others.
struct World {
    pmcd: PrivatePmcd,
    seat: Seat,
}

impl World {
    fn new() -> World {
        let builder = PrivatePmcd::with([AgentSpec::sample()]);
        let seat = Seat::in_dir(builder.dir(), "");
        let agent = seat.agent(Transport::Pipe);
        let pmcd = builder.agent(agent).start();
        let lines = "{\"type\":\"start\",\"time\":\"2026-11-22T01:02:03.123456789Z\",\"n\":7,\"text\":\"a b\"}\n\
                     {\"severity\":\"error\",\"time\":\"2026-11-22T01:02:04Z\",\"f\":-1.5,\"yes\":true}\n";
        seat.feed([], lines).ok();
        let definitions = pmcd.dir().join("definitions");
        std::fs::write(definitions, "d = delta(sample.scramble.bin)\n").expect("the directory is the test's");
        World { pmcd, seat }
    }

    fn run(&self, program: &str, line: &str) -> Output {
        let words: Vec<String> = line
            .split_ascii_whitespace()
            .map(|word| word.replace('%', &format!("{}/", self.pmcd.dir().display())))
            .map(|word| word.replace('@', &self.pmcd.inet()).replace('\u{a0}', " "))
            .collect();
        let mut env = self.pmcd.env().clone();
        env.set(LEVEL, installed_level());
        env.run(program, &words)
    }
}

/// Ours under PCP's names.
fn ours() -> TempDir {
    let dir = support::temp_dir();
    for name in ["pmval", "pmevent"] {
        symlink(JUMPSEAT, dir.path().join(name)).unwrap();
    }
    dir
}

fn program(dir: &Path, name: &str) -> String {
    dir.join(name).to_str().unwrap().to_owned()
}

/// Times of day as `T`, ports as `P`; for shapes also numbers as `#`.
fn normal(text: &str, world: &World, compare: Compare) -> String {
    let text = text.replace(&world.pmcd.port().to_string(), "P");
    let mut header = true;
    let lines = text.lines().map(|line| {
        // Times of records, but not their digits' number.
        let line = match line.strip_prefix("  ").and_then(|rest| rest.split_once(" --- event record")) {
            Some((time, rest)) => {
                let form: String = time.chars().map(|c| if c.is_ascii_digit() { 'd' } else { c }).collect();
                format!("  {form} --- event record{rest}")
            }
            None => line.to_owned(),
        };
        if compare == Shape && !header {
            // A number has any width less than its column's.
            let words: Vec<&str> = line
                .split_whitespace()
                .map(|word| {
                    if word.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '!') {
                        "#"
                    } else {
                        word
                    }
                })
                .collect();
            return words.join(" ");
        }
        header = !line.starts_with("interval:") && header;
        line
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn command_lines() {
    let (theirs, mine) = (World::new(), World::new());
    let links = ours();
    let cases = cases();
    let mut wrong = Vec::new();
    for (at, (line, compare)) in cases.iter().enumerate() {
        let name = if at % 2 == 0 || line.contains("event") { "pmevent" } else { "pmval" };
        let own = program(links.path(), name);
        let text = |output: &Output, world| match compare {
            Message => {
                format!(
                    "{} {:?}",
                    output.stderr.starts_with(&format!("{name} version ")),
                    output.status.code()
                )
            }
            _ => {
                let part = |text| normal(text, world, *compare);
                format!(
                    "{}\n--- stderr\n{}\n--- {:?}",
                    part(&output.stdout),
                    part(&output.stderr),
                    output.status.code()
                )
            }
        };
        let both = || {
            std::thread::scope(|scope| {
                let expected = scope.spawn(|| theirs.run(name, line));
                let found = mine.run(&own, line);
                (text(&expected.join().unwrap(), &theirs), text(&found, &mine))
            })
        };
        let (mut expected, mut found) = both();
        // How many samples fit before an end time depends on how soon a tool comes to the first.
        for _ in 0..if line.contains("-T") { 10 } else { 0 } {
            if expected != found {
                (expected, found) = both();
            }
        }
        if expected != found {
            wrong.push(format!("$ {name} {line}\n--- PCP\n{expected}\n--- jumpseat\n{found}\n"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    println!("{} command lines", cases.len());
    assert!(cases.len() >= 150);
}

#[test]
fn streams_of_records() {
    let world = World::new();
    let links = ours();
    let own = program(links.path(), "pmevent");
    let args = ["-t", "0.3", "jumpseat.event.highres_records"];
    let clients = [world.pmcd.spawn("pmevent", args, "theirs"), world.pmcd.spawn(&own, args, "ours")];
    let readers = || {
        let shown = world.pmcd.run("pminfo", ["-f", "jumpseat.source.readers"]).stdout;
        let line = shown.lines().find(|line| line.contains(&format!("or \"{SOURCE}\"]")))?;
        (line.rsplit(' ').next()? == "2").then_some(())
    };
    eventually("two streams", readers);
    for part in 0..10 {
        let lines: String = (0..50)
            .map(|n| {
                format!(
                    "{{\"type\":\"t{}\",\"n\":{},\"text\":\"line {n}\",\"f\":{n}.25}}\n",
                    n % 3,
                    part * 50 + n
                )
            })
            .collect();
        world.seat.feed([], &lines).ok();
    }
    let shown: Vec<Vec<Record>> = clients
        .iter()
        .map(|client| eventually("all records", || whole_records(&client.stdout(), 500, "jumpseat.field.f")))
        .collect();
    assert_eq!(shown[0], shown[1]);
}

#[test]
fn what_is_wrong_comes_behind_what_was_said_before_it() {
    let world = World::new();
    let dir = ours();
    let own = program(dir.path(), "pmval");
    for line in ["-Z UTC -s 1 no.such", "-Z UTC -s 1 sample.bin[nope]", "-z -s 1 -i nope sample.bin"] {
        // Both streams into one.
        let merged = |program: &str| {
            let command = format!("{program} -h {} {line} 2>&1", world.pmcd.inet());
            world.pmcd.run("sh", ["-c", &command]).stdout.replace(&world.pmcd.inet(), "@")
        };
        let theirs = merged("pmval");
        assert!(theirs.starts_with("Note: ") && theirs.contains("no"), "{theirs}");
        assert_eq!(merged(&own), theirs, "{line}");
    }
}

#[test]
fn json_lines() {
    let world = World::new();
    let env = world.pmcd.env();
    let run = |env: &PcpEnv, words: &[&str]| -> Vec<serde_json::Value> {
        let text = env.run(JUMPSEAT, words).ok();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let lines = run(env, &["val", "--json", "-s", "2", "-t", "0.02", "sample.bin"]);
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["metric"], "sample.bin");
    assert_eq!(lines[0]["values"][2], serde_json::json!({"id": 300, "instance": "bin-300", "value": 300}));
    assert!(lines[0]["time"].as_str().unwrap().ends_with('Z'));
    let lines = run(env, &["val", "--json", "-s", "1", "-t", "0.02", "sample.long.bin_ctr"]);
    assert_eq!((lines.len(), &lines[0]["units"]), (1, &"Kbyte / sec".into()));
    assert_eq!(lines[0]["values"][0]["value"], 0.0);
    let lines = run(env, &["val", "--json", "-s", "1", "sample.aggregate.hullo"]);
    assert_eq!(lines[0]["values"][0]["value"], "68756c6c6f20776f726c6421");
}
