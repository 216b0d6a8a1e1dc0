//! Local contexts (`-L`, `-K`): the tools start agents themselves. Next to PCP's own tools, which load the shared object of the same
//! agent.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::User;

use crate::tools_support::Pair;
use support::{AgentSpec, Output, PmnsSource, PrivatePmcd, Process, SAMPLE_PMDA, eventually, user};

const SAMPLE_DSO: &str = "/var/lib/pcp/pmdas/sample/pmda_sample.so";

/// The sample agent as a shared object in pmcd's configuration, and a daemon that is not there. pmcd itself does not run any more.
fn pair() -> Pair {
    let dso = AgentSpec::dso("sampledso", 30, "sample_init", SAMPLE_DSO)
        .with_pmns(AgentSpec::sample_pmns("sampledso"));
    let gone = AgentSpec::pipe("gone", 31, &["/nosuch/pmdagone"]).with_pmns(AgentSpec::sample_pmns("gone"));
    let mut pmcd = PrivatePmcd::with([dso, gone]).start();
    pmcd.stop();
    Pair::new(pmcd)
}

/// What tools say of an agent whose program is not there.
const GONE: &str = "agent gone (domain 31) cannot be started: /nosuch/pmdagone: No such file or directory";

#[test]
fn values_and_metadata_are_those_of_pcp() {
    let mut pair = pair();
    for args in [
        "-L -f sampledso.long sampledso.string sampledso.bin sampledso.double",
        "-L -dm sampledso.long sampledso.bin sampledso.aggregate sampledso.event",
        "-L -M sampledso.bin",
        "-L sampledso.secret",
        "-L -m sampledso.secret.bar sampledso.secret.foo.bar.max.redirect",
        "-L -df sampledso.secret",
        "-L -d sampledso.ghosts",
        "-L -f sampledso.bad sampledso.bogus_bin sampledso.part_bin sampledso.scramble.version",
        "-L -F sampledso.needprofile",
        "-L -v sampledso.long sampledso.bad.unknown",
        "-L -tT sampledso.long.one",
        "-L -l sampledso.long.one sampledso.bin",
        "-L -l 30.2",
        "-L -I 30.2 30.99",
        "-L -f 30.0.6 30.1.99",
        "-L -x sampledso.event.records",
        "-L -x sampledso.event.highres_records sampledso.event.no_indom_records",
        "-L sampledso.nosuch",
        "-L nosuch",
        "-L -f pmcd.numagents",
        "-L -d 2.0.1",
        "-L -h nosuch.host -f sampledso.long.one",
        "-L -a nosuch -f sampledso.long.one",
        "-L -K clear -f sampledso.long.one",
        "-L -K del,30 -f sampledso.long.one",
        "-L -K del,,/var/lib/pcp/pmdas/sample/pmda_sample.so -f sampledso.long.one",
        "-L -K del,,sample/pmda_sample.so -f sampledso.long.one",
        "-L -K del,31 -f sampledso.long.one",
        "-L -K clear -K add,30,sample/pmda_sample,sample_init -f sampledso.long.one",
        "-L -K clear -K add,30,sample/pmda_sample.so,sample_init -f sampledso.long.one",
        "-L -K add,31,/var/lib/pcp/pmdas/sample/pmda_sample,sample_init -f gone.long.one",
        "-L -K add,511,sample/pmda_sample,sample_init -f sampledso.long.one",
        "-K add,31,sample/pmda_sample,sample_init -h localhost:1 -f gone.long.one",
    ] {
        pair.compare("pminfo", args);
    }
    let definitions = pair.file("derived", "d.sum = sampledso.long.one + sampledso.long.ten\n");
    pair.compare("pminfo", &format!("-L -c {definitions} -df d.sum sampledso.long.one"));
    let names = pair.file("names", "root { qa }\nqa { colour 30:0:5 one 30:0:10 }\n");
    for args in ["qa.one", "-m qa", "-f qa.one qa.colour", "sampledso.bin"] {
        pair.compare("pminfo", &format!("-L -n {names} {args}"));
    }
    for args in [
        "-L -v sampledso.long sampledso.bin sampledso.string",
        "-L -i sampledso.bin sampledso.colour",
        "-L -I sampledso.bin sampledso.bad",
        "-L -v sampledso.secret.foo",
        "-L sampledso.nosuch",
        "-L -K clear -v sampledso.long.one",
    ] {
        pair.compare("pmprobe", args);
    }
    for args in [
        "-L -s 2 -t 0.01 sampledso.bin",
        "-L -s 1 -i bin-300,bin-500 sampledso.bin",
        "-L -s 2 -t 0.01 -r sampledso.long.ten",
        "-L -s 1 sampledso.string.hullo",
        "-L -z -s 1 sampledso.bin",
        "-L -s 1 sampledso.nosuch",
        "-L -s 1 sampledso.needprofile",
        "-s 1 @:sampledso.long.hundred",
        "-L -K clear -s 1 sampledso.bin",
        "-K clear -K add,30,sample/pmda_sample.so,sample_init -L -s 1 sampledso.bin",
    ] {
        pair.compare("pmval", args);
    }
    for args in [
        "-L sampledso.long.write_me 7",
        "-L sampledso.long.one 7",
        "-L -i red sampledso.colour 5",
        "-L -f sampledso.string.write_me 'two words'",
        "-L sampledso.nosuch 1",
        "-L -K clear sampledso.long.write_me 1",
        "-L -K clear -K add,30,sample/pmda_sample.so,sample_init sampledso.write_me 1",
    ] {
        pair.compare("pmstore", args);
    }
    assert!(pair.finish() > 50);
}

#[test]
fn the_environment_asks_for_local_contexts_too() {
    let mut pair = pair();
    let dir = support::temp_dir();
    let definitions = dir.path().join("definitions").display().to_string();
    fs::write(&definitions, "my.good = 1 + 2\nmy.bad = no.such\n").expect("writable");
    pair.with_env("PCP_LOCALMODE", "1", |pair| pair.compare("pminfo", "-f sampledso.long.one"));
    pair.with_env("PCP_LOCALPMDA", "", |pair| pair.compare("pminfo", "-f sampledso.long.one"));
    pair.with_env("PCP_SPECLOCAL", "add,31,sample/pmda_sample,sample_init", |pair| {
        pair.compare("pminfo", "-L -f gone.long.one");
    });
    pair.with_env("PMNS_DEFAULT", "/nosuch", |pair| {
        for args in ["-L -f sampledso.bin", "-L", "-L -d 30.0.6", "-L nosuch"] {
            pair.compare("pminfo", args);
        }
        pair.compare("pmprobe", "-L sampledso.bin");
        // Definitions are no names where there are none else.
        for args in ["", "my", "my.good", "-f my.good", "event.missed"] {
            pair.with_env("PCP_DERIVED_CONFIG", &definitions, |pair| {
                pair.compare("pminfo", &format!("-L {args}"));
            });
        }
        pair.with_env("PCP_DERIVED_CONFIG", &definitions, |pair| pair.compare("pmprobe", "-L"));
        pair.compare("pmval", "-L sampledso.bin");
        pair.compare("pmstore", "-L sampledso.bin 1");
    });
    assert!(pair.finish() >= 16);
}

/// Runs `jumpseat info -L` and more, without pmcd.
fn info(pair: &Pair, words: &[&str]) -> Output {
    pair.pmcd().run(crate::seat::JUMPSEAT, [&["info", "-L"], words].concat())
}

#[test]
fn what_cannot_be_started_is_told_once_and_the_others_answer() {
    let pair = pair();
    let both = ["-f", "gone.long.one", "gone.long.ten", "sampledso.long.one"];
    let output = info(&pair, &both);
    assert!(output.stderr.starts_with(&format!("jumpseat info: {GONE}")), "{output}");
    assert_eq!(output.stderr.lines().count(), 1, "{output}");
    let none = "\nError: No PMCD agent for domain of request\n";
    let expected = format!("\ngone.long.one{none}\ngone.long.ten{none}\nsampledso.long.one\n    value 1\n");
    assert_eq!(output.stdout, expected, "{output}");
    let pmcds = info(&pair, &["-f", "pmcd.numagents"]);
    let told = "jumpseat info: agent pmcd (domain 2) is pmcd's alone: ask pmcd, without a local context\n";
    assert_eq!(pmcds.stderr, told, "{pmcds}");
    // The routine is not that of the daemon beside the shared object; and one that has no daemon beside it.
    let alone = pair.file("pmda_alone.so", "");
    for (object, init) in [(SAMPLE_DSO, "other_init"), (&alone, "alone_init")] {
        let output = info(
            &pair,
            &["-K", &format!("add,31,{object},{init}"), "-K", "del,30", "-f", "sampledso.long.one"],
        );
        assert_eq!(output.stderr, "", "{output}");
        let output =
            info(&pair, &["-K", "clear", "-K", &format!("add,31,{object},{init}"), "-f", "gone.long.one"]);
        let told =
            format!("(domain 31) is there as a shared object only ({object}), which is not loaded here");
        assert!(output.stderr.contains(&told), "{output}");
    }
    let output = info(&pair, &["-K", "add,31,x/pmda_x,x_init", "-f", "gone.long.one"]);
    assert!(output.stderr.contains("agent x (domain 31) is not there: no "), "{output}");
}

/// A program that a test writes, as an agent of domain 31 besides the sample agent of domain 30.
fn with_agent(script: &str) -> Pair {
    let builder = PrivatePmcd::with([]);
    let path = agent(builder.dir(), script);
    let path = path.to_str().expect("temporary paths are UTF-8");
    let odd = AgentSpec::pipe("odd", 31, &[path]).with_pmns(AgentSpec::sample_pmns("odd"));
    let (domain, log) = ("30", "sample.log");
    let words = [SAMPLE_PMDA, "-d", domain, "-U", &user(), "-l", log];
    let sample = AgentSpec::pipe("sample", 30, &words).with_pmns(AgentSpec::sample_pmns("sample"));
    let mut pmcd = builder.agent(sample).agent(odd).options(["-q", "1", "-t", "1"]).start();
    pmcd.stop();
    Pair::new(pmcd)
}

fn agent(dir: &Path, script: &str) -> PathBuf {
    let path = dir.join("odd");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("the test's directory is writable");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is the test's");
    path
}

/// Credentials, as an agent begins.
const CREDS: &str =
    r"printf '\000\000\000\024\000\000\160\014\000\000\000\001\000\000\000\001\001\002\000\000'";

#[test]
fn agents_that_break_the_protocol_are_ended_and_told() {
    let (none, broken) = ("No PMCD agent for domain of request", "IPC protocol failure");
    for (script, code, told) in [
        ("exit 3", none, "has ended by itself"),
        ("printf 'This is no PDU at all'; exec cat >/dev/null", none, "was ended: bad reply: "),
        (&format!("{CREDS}; head -c 20 >/dev/null"), broken, "has ended by itself"),
        (&format!("{CREDS}; exec cat"), broken, "was ended: the reply does not answer the request"),
        // The beginning of an answer.
        (
            &format!("{CREDS}; head -c 36 >/dev/null; printf '\\000\\001\\377\\377\\000\\000\\160\\005'"),
            broken,
            "has ended by itself",
        ),
    ] {
        let pair = with_agent(script);
        let output = info(&pair, &["-b", "1", "-d", "odd.long.one", "odd.long.ten", "sample.long.one"]);
        let mut lines = output.stdout.lines();
        assert_eq!(lines.next(), Some(&*format!("odd.long.one: pmLookupDesc: {code}")), "{script}: {output}");
        let second = "odd.long.ten: pmLookupDesc: No PMCD agent for domain of request";
        assert_eq!(lines.next(), Some(second), "{script}: {output}");
        assert!(output.stdout.contains("\nsample.long.one\n    Data Type: 32-bit int"), "{script}: {output}");
        let told = format!("jumpseat info: agent odd (domain 31) {told}");
        assert!(output.stderr.starts_with(&told), "{script}: {output}");
        assert_eq!(output.stderr.lines().count(), 1, "{script}: {output}");
    }
}

#[test]
fn an_agent_that_does_not_answer_is_killed_after_five_seconds() {
    // It does not end with its input either.
    let pair = with_agent(&format!("{CREDS}; echo $$ >\"$PCP_TMP_DIR/odd.pid\"; exec sleep 1000"));
    let begin = Instant::now();
    let output = info(&pair, &["-d", "odd.long.one", "sample.long.one"]);
    assert!((5..20).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
    assert!(output.stdout.starts_with("odd.long.one: pmLookupDesc: Timeout waiting"), "{output}");
    assert!(output.stdout.contains("\nsample.long.one\n    Data Type: 32-bit int"), "{output}");
    let told = "jumpseat info: agent odd (domain 31) was ended: no reply within 5 seconds\n";
    assert_eq!(output.stderr, told, "{output}");
    let pid = fs::read_to_string(pair.pmcd().dir().join("tmp/odd.pid")).expect("it was started");
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "it runs on");
}

/// The processes that one has started.
fn children(pid: u32) -> Vec<u32> {
    let parent = format!("\nPPid:\t{pid}\n");
    let of = |entry: fs::DirEntry| {
        let child: u32 = entry.file_name().to_str()?.parse().ok()?;
        // Others may end while they are looked at.
        let status = fs::read_to_string(entry.path().join("status")).ok()?;
        status.contains(&parent).then_some(child)
    };
    fs::read_dir("/proc").expect("the system tells its processes").flatten().filter_map(of).collect()
}

#[test]
fn agents_end_with_the_tool_and_leave_nothing() {
    let pair = pair();
    let tmp = pair.pmcd().dir().join("own");
    fs::create_dir(&tmp).expect("the test's directory is writable");
    for signal in [Signal::SIGTERM, Signal::SIGKILL, Signal::SIGINT] {
        let mut pmval = pair.pmcd().env().command(pair.path("pmval"));
        pmval.args(["-L", "-t", "0.05", "sampledso.long.one"]).env("TMPDIR", &tmp).current_dir(&tmp);
        let mut tool = Process::start(&mut pmval, pair.pmcd().dir(), signal.as_str());
        eventually("values", || tool.text().contains("\n          1").then_some(()));
        let agents = children(tool.pid());
        assert_eq!(agents.len(), 1, "{agents:?}");
        assert_eq!(fs::read_dir(&tmp).expect("readable").count(), 0, "a folder is left while the agent runs");
        tool.signal(signal);
        eventually("the agent to end", || {
            (!Path::new(&format!("/proc/{}", agents[0])).exists()).then_some(())
        });
    }
    let mut pminfo = pair.pmcd().env().command(pair.path("pminfo"));
    let begin = Instant::now();
    let output =
        pminfo.args(["-L", "-f", "sampledso.long.one"]).env("TMPDIR", &tmp).output().expect("it runs");
    assert!(output.status.success());
    assert!(begin.elapsed() < Duration::from_secs(20));
    assert_eq!(fs::read_dir(&tmp).expect("readable").count(), 0);
}

#[test]
fn an_agent_that_is_gone_from_the_configuration_is_told() {
    // Its names are still there, with those among them that only it knows.
    let names = PmnsSource::new("other", "OTHER", "other {\n dyn 77:*:*\n one 77:0:1\n}\n");
    let gone = AgentSpec::unix("other", 77, Path::new("/nosuch/socket"), &[]).with_pmns(names);
    let pmcd = PrivatePmcd::with([AgentSpec::sample(), gone]).start();
    let none = "pmLookupName: No PMCD agent for domain of request\n";
    let run = |words: &[&str]| pmcd.run(crate::seat::JUMPSEAT, [&["info", "-d"], words].concat());
    let alone = run(&["-b", "1", "other.dyn"]);
    assert_eq!(alone.stdout, format!("other.dyn: {none}"), "{alone}");
    let twice = run(&["other.dyn", "other.dyn"]);
    assert_eq!(twice.stdout, format!("other.dyn: {none}other.dyn: {none}"), "{twice}");
    let among = run(&["sample.bin", "other.dyn"]);
    let desc = "    Data Type: 32-bit int  InDom: 29.2 0x7400002\n    Semantics: instant  Units: none\n";
    assert_eq!(among.stdout, format!("other.dyn: {none}\nsample.bin\n{desc}"), "{among}");
}

#[test]
fn agents_have_a_folder_and_an_environment_of_their_own() {
    let pair = with_agent("{ env; stat -c 'dir %u %a' .; } >\"$PCP_TMP_DIR/odd.env\"");
    let file = pair.pmcd().dir().join("tmp/odd.env");
    fs::remove_file(&file).expect("pmcd has started it");
    let mut tool = pair.pmcd().env().command(crate::seat::JUMPSEAT);
    tool.args(["info", "-d", "odd.long.one"]).env("PCP_LOCALMODE", "1").env("OTHER", "is passed on");
    tool.env("PCP_SPECLOCAL", "add,99,x,x_init").env("PCP_TIMEZONE", "UTC").env("PCP_DEBUG", "context");
    let output = tool.output().expect("it runs");
    let said = fs::read_to_string(file).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    for variable in ["LOCALMODE", "SPECLOCAL", "TIMEZONE", "DEBUG"] {
        assert!(!said.contains(&format!("PCP_{variable}=")), "{said}");
    }
    assert!(said.contains("OTHER=is passed on\n"), "{said}");
    // Root's is not PCP's.
    let dir = format!("dir {} ", nix::unistd::geteuid());
    let mode = said.lines().find_map(|line| line.strip_prefix(&*dir)).expect("a folder of its own");
    assert!(matches!(mode, "755" | "750" | "700"), "{said}");
    // What is shown of it.
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(shown.contains("context: agent odd (domain 31): process "), "{shown}");
    assert!(shown.contains("context: agent of domain 31: ended: "), "{shown}");
}

#[test]
fn what_a_shell_has_started_for_an_agent_ends_too() {
    let pair = with_agent(&format!("{CREDS}; sleep 60 & echo $! >\"$PCP_TMP_DIR/odd.pid\"; wait"));
    // It has the standard error of the tool, which is read to its end.
    let output = info(&pair, &["-D", "context", "-d", "odd.long.one", "sample.long.one"]);
    assert!(
        output.stderr.contains("agent odd (domain 31) was ended: no reply within 5 seconds\n"),
        "{output}"
    );
    let pid = fs::read_to_string(pair.pmcd().dir().join("tmp/odd.pid")).expect("it was started");
    eventually("it to end", || (!Path::new("/proc").join(pid.trim()).exists()).then_some(()));
    assert!(output.stderr.contains(": ready\n"), "{output}");
}

#[test]
fn objects_are_looked_for_where_pcp_does() {
    let mut pair = pair();
    let expected = info(&pair, &["-f", "sampledso.long.one"]).ok().replace("sampledso", "gone");
    let dir = Path::new(SAMPLE_DSO).parent().expect("it is in a folder");
    for object in ["pmda_sample", "pmda_sample.so", "./pmdasample", "../sample/pmda_sample"] {
        let mut tool = pair.pmcd().env().command(crate::seat::JUMPSEAT);
        let spec = format!("add,31,{object},sample_init");
        tool.args(["info", "-L", "-K", &spec, "-f", "gone.long.one"]).current_dir(dir);
        let output = tool.output().expect("it runs");
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{object}: {output:?}");
    }
    // Without an end, and without a sense.
    pair.env_set("PCP_PMCDCONF_PATH", "/dev/zero");
    let none = pair.ours("pminfo", "-L -d sampledso.long.one");
    assert!(none.stdout.contains("No PMCD agent for domain of request"), "{none}");
}

#[test]
fn an_agent_of_somebody_else_than_root_runs_on_as_that_one() {
    let pair = pair();
    // Where that one can run it.
    let program = pair.pmcd().dir().join("jumpseat");
    fs::copy(crate::seat::JUMPSEAT, &program).expect("the test's directory is writable");
    let mut tool = pair.pmcd().env().command(&program);
    tool.args(["info", "-L", "-f", "sampledso.long.one"]);
    if nix::unistd::geteuid().is_root() {
        let nobody = User::from_name("nobody").expect("a system").expect("nobody");
        tool.uid(nobody.uid.as_raw()).gid(nobody.gid.as_raw());
    }
    let output = tool.output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "\nsampledso.long.one\n    value 1\n", "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}
