//! Debug options (`-D`, `PCP_DEBUG`): which there are is PCP's, what they show is our own, and is what one needs to find a
//! fault.

use std::collections::BTreeSet;
use std::fs;

use crate::seat::{JUMPSEAT, Seat};
use crate::tools_support::Pair;
use support::{AgentSpec, Certificates, Output, PcpEnv, PrivatePmcd, temp_dir};

/// Where Debian's pcp-testsuite has them.
const ARCHIVE_DIR: &str = "/var/lib/pcp/testsuite/archives";

/// Definitions of derived metrics that bind, and do not.
const DEFINITIONS: &str = "d.good = rate(sample.milliseconds) / 2\nd.bad = sample.milliseconds + 1\n\
                           d.unknown = no.such.metric\nd.wrong = 1 +\nsample.long.one = 3\n";

fn archive(name: &str) -> String {
    format!("{ARCHIVE_DIR}/{name}")
}

/// What `jumpseat` prints for some words with debug options, and that standard output is as without them, when nothing at
/// all is said on standard error.
#[track_caller]
fn shown(env: &PcpEnv, options: &str, words: &[&str]) -> String {
    let (tool, rest) = words.split_first().unwrap();
    let silent = env.run(JUMPSEAT, words);
    let told = env.run(JUMPSEAT, [&[*tool, "-D", options], rest].concat());
    assert_eq!((&told.stdout, told.status), (&silent.stdout, silent.status), "{told}");
    assert!(!told.stdout.is_empty(), "{told}");
    assert_eq!(silent.stderr, "", "{words:?}");
    told.stderr
}

/// Each of the texts is there, in this order.
#[track_caller]
fn tells(shown: &str, texts: &[&str]) {
    let mut rest = shown;
    for text in texts {
        match rest.split_once(text) {
            Some((_, after)) => rest = after,
            None => panic!("{text:?} is not there, or not in its place:\n{shown}"),
        }
    }
}

/// Every line begins with a time and one of these options, or goes on with the line before.
#[track_caller]
fn only(shown: &str, options: &[&str]) {
    for line in shown.lines().filter(|line| !line.starts_with("    ")) {
        let (time, rest) = line.split_once(' ').unwrap_or_else(|| panic!("{line:?}"));
        assert!(time.parse::<f64>().is_ok(), "{line:?}");
        let option = rest.split_once(':').unwrap_or_else(|| panic!("{line:?}")).0;
        assert!(options.contains(&option), "{line:?}");
    }
}

#[test]
fn every_option_of_pcp_is_taken() {
    let pair = Pair::new(PrivatePmcd::with([AgentSpec::sample()]).start());
    let env = pair.pmcd().env();
    let listed = |args: &[&str], column: usize| -> Vec<String> {
        let lines = env.run("pmdbg", args).ok();
        // Behind a title and the columns' names.
        let words = lines.lines().skip(2).filter_map(|line| line.split_whitespace().nth(column));
        words.map(str::to_owned).collect()
    };
    let (names, numbers) = (listed(&["-l"], 0), listed(&["-l", "-o"], 1));
    assert!(names.len() >= 53 && numbers.len() >= 29, "{names:?} {numbers:?}");
    let ours = pair.path("pmprobe");
    let run = |program: &str, spec: &str| env.run(program, ["-D", spec, "-v", "sample.long.one"]);
    let others = ["all", "PDU", "derive,appl0", "derive,appl1,", "3,log", "-1", "0"].map(str::to_owned);
    for spec in names.iter().chain(&numbers).chain(&others) {
        let (pcp, ours) = (run("/usr/bin/pmprobe", spec), run(ours.to_str().unwrap(), spec));
        assert!(pcp.status.success(), "{spec}: {pcp}");
        assert_eq!((&ours.stdout, ours.status), (&pcp.stdout, pcp.status), "{spec}: {ours}");
    }
}

#[test]
fn what_is_no_option_is_refused_as_by_pcp() {
    let mut pair = Pair::new(PrivatePmcd::with([]).start());
    for tool in ["pminfo", "pmprobe", "pmval", "pmevent", "pmstore"] {
        for spec in ["nosuch", "-all", ",pdu", "pdu,,fetch", "0x4", "derive=appl0", "9x", "'pdu fetch'", ","]
        {
            pair.compare(tool, &format!("-D {spec} x"));
        }
        for spec in ["nosuch", "pdu,nosuch"] {
            pair.with_env("PCP_DEBUG", spec, |pair| pair.compare(tool, "-Q x"));
        }
    }
    assert_eq!(pair.finish(), 55);
}

#[test]
fn a_collector_and_what_is_said_to_it() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let host = pmcd.inet();
    let words = ["probe", "-h", &host, "-v", "sample.bin", "sample.long.one"];
    let show = |options: &str, words: &[&str]| {
        let shown = shown(pmcd.env(), options, words);
        // What comes with an option is what belongs to it.
        let with: &[&str] = if options == "attr" { &["attr", "auth"] } else { &[options] };
        only(&shown, with);
        shown
    };
    let pdus = show("pdu", &words);
    tells(
        &pdus,
        &[
            "pdu: received ERROR on ",
            ", 20 bytes, from ",
            "greeting, version 2, features ",
            "\n    0000  00000014 00007000 ",
            "pdu: sent CREDS on ",
            "version 2, wishes ",
            "pdu: sent PMNS_TRAVERSE on ",
            "metrics below \"sample.bin\"",
            "pdu: received PMNS_NAMES on ",
            "1 names: sample.bin",
            "pdu: sent HIGHRES_FETCH on ",
            "context 0, 2 metrics: 29.0.6 29.0.10",
            "pdu: received HIGHRES_RESULT on ",
            "29.0.6: 9; 29.0.10: 1;",
        ],
    );
    let fetches = show("fetch", &words);
    tells(
        &fetches,
        &[
            "asked for 2 metrics: 29.0.6 29.0.10; instances: all\n",
            "profile sent before the request\n",
            "2 metrics, 0 of them failed, 10 values; numbers of values: 29.0.6: 9; 29.0.10: 1;",
        ],
    );
    let one_bad = show("fetch", &["probe", "-h", &host, "-v", "sample.bad.unknown", "sample.long.one"]);
    tells(&one_bad, &["2 metrics, 1 of them failed, 1 values"]);
    let contexts = show("context", &words);
    let address = format!("try 127.0.0.1:{}", pmcd.port());
    tells(
        &contexts,
        &["new context: Host", "connect to host \"127.0.0.1\"", " addresses to try", &address, "connected\n"],
    );
    tells(&show("attr", &words), &["the collector can: ", "labels", "wished for: ", "a network address\n"]);
    tells(
        &show("pmns", &words),
        &["metrics below sample.bin: 1: sample.bin\n", "looked up 2: sample.bin = "],
    );
    tells(
        &show("indom", &["probe", "-h", &host, "-I", "sample.bin"]),
        &["instances of 29.2: 9: 100 \"bin-100\""],
    );
    let labels = show("labels", &["info", "-h", &host, "-l", "sample.bin"]);
    tells(
        &labels,
        &[
            "labels of the source: 1 sets\n    domainname=",
            "labels of domain 29: ",
            "merged of the source domain 29",
            "{\"",
        ],
    );
    let times = show("timecontrol", &["val", "-h", &host, "-s", "2", "-t", "0.1", "sample.long.one"]);
    tells(&times, &["samples: 2, 100ms apart", "sample 1 at ", "sample 2 at "]);
}

#[test]
fn a_collector_that_is_not_there() {
    let env = PcpEnv::new();
    let port = support::free_port();
    let told = env.run(JUMPSEAT, ["probe", "-D", "context", "-h", &format!("localhost:{port}"), "x"]);
    told_why(&told, &[&format!("try 127.0.0.1:{port}"), "no connection: cannot connect to 127.0.0.1:"]);
}

#[track_caller]
fn told_why(told: &Output, texts: &[&str]) {
    assert!(!told.status.success(), "{told}");
    tells(&told.stderr, texts);
}

#[test]
fn an_archive_and_how_values_come_about() {
    let env = PcpEnv::new();
    let name = archive("changeinst");
    let metric = "irix.network.interface.total.packets";
    let words = ["val", "-a", &name, "-s", "3", "-t", "3", "-O", "+1s", metric];
    let show = |option: &str| {
        let shown = shown(&env, option, &words);
        only(&shown, &[option]);
        shown
    };
    tells(
        &show("log"),
        &[
            "changeinst.0: opened, not compressed\n",
            "changeinst.meta: metadata from byte 132 to 1416: 9 descriptors, 8 instance domains, 0 label sets",
            "1 volumes, 9 entries in the temporal index, 9 used\n",
            "record at byte ",
            " of volume 0: ",
            " metrics\n",
        ],
    );
    tells(
        &show("context"),
        &["version 2, host \"gonzo\", zone \"EST-11", "from 1997-08-04T21:45:41.422332000Z"],
    );
    tells(
        &show("interp"),
        &[
            "sample of 1997-08-04T21:45:42.422332000Z, Forward",
            "metric 1.25.19, a counter: on the line between the two\n",
            "instance 3: passed 315790 at 1997-08-04T21:45:42.422184000Z, next 315838 at 1997-08-04T21:45:43.422126000Z: 315790\n",
            "instance 2: passed none, next none: no value",
            "sample of 1997-08-04T21:45:45.422332000Z",
        ],
    );
    tells(
        &show("timecontrol"),
        &[
            "asked for: -S None, -T None, -A None, -O Some(\"+1s\")",
            "window: 1997-08-04T21:45:41.422332000Z to 1997-08-04T21:45:59.912855000Z, first sample \
             1997-08-04T21:45:42.422332000Z\n",
            "samples: 3, 3s apart, at these times, as rates\n",
            "mode Interpolate",
            "sample 1 at 1997-08-04T21:45:42.422332000Z\n",
        ],
    );
    tells(
        &show("fetch"),
        &["asked for 1 metrics: 1.25.19", "values of 1997-08-04T21:45:42.422332000Z: 1 metrics"],
    );
}

#[test]
fn what_is_wrong_with_an_archive() {
    let (dir, env) = (temp_dir(), PcpEnv::new());
    let base = dir.path().join("cut");
    for suffix in ["0", "index", "meta"] {
        let mut bytes = fs::read(archive(&format!("changeinst.{suffix}"))).unwrap();
        match suffix {
            // The last record is not whole.
            "0" => bytes.truncate(bytes.len() - 7),
            // The third entry is of a volume that is not there.
            "index" => bytes[132 + 2 * 20 + 11] = 9,
            _ => {}
        }
        fs::write(base.with_extension(suffix), bytes).unwrap();
    }
    let base = base.display().to_string();
    let told = env.run(JUMPSEAT, ["val", "-D", "log", "-a", &base, "-s", "2", "-t", "1", "sample.seconds"]);
    assert!(told.status.success(), "{told}");
    tells(
        &told.stderr,
        &[
            "index entry of 1997-08-04T",
            ": there is no volume 9, not used\n",
            "9 entries in the temporal index, 8 used\n",
            "the last bytes of volume 0 are no record: looking for the last that is one\n",
            "volume 0 counts up to byte ",
        ],
    );
    let packed = shown(&env, "log", &["probe", "-a", &archive("multi-xz"), "kernel.all.load"]);
    tells(&packed, &[": opened, compressed (Xz)\n"]);
}

#[test]
fn definitions_and_what_becomes_of_them() {
    let (dir, mut env) = (temp_dir(), PcpEnv::new());
    let file = dir.path().join("definitions");
    fs::write(&file, DEFINITIONS).unwrap();
    let name = archive("changeinst");
    env.set("PCP_DERIVED_CONFIG", &file);
    // Definitions that are wrong are told without any option.
    let run = |options: &str, metrics: &[&str]| {
        let words = ["probe", "-a", &name, "-v", "-D", options];
        env.run(JUMPSEAT, [&words, metrics].concat()).stderr
    };
    let derive = run("derive", &["d"]);
    tells(
        &derive,
        &[
            "derive: defined: d.good (511.0.3) = rate(sample.milliseconds) / 2\n",
            "    parsed: (SLASH (RATE sample.milliseconds) 2)\n",
            "derive: defined: d.bad (511.0.4)",
            "derive: refused: d.wrong\n    error: ",
            "definitions taken\n",
            "derive: bound: d.good (511.0.3): DOUBLE instant, no units, singular; operands: 29.0.3\n",
            "derive: does not bind: d.bad (511.0.4)\n    error: Illegal operator for counter and non-counter\n",
            "      d.bad = sample.milliseconds + 1\n              ~~~~~~~~~~~~~~~~~~~ ^ ~\n",
            "derive: does not bind: d.unknown (511.0.5)\n",
            "no.such.metric",
        ],
    );
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let mut live = pmcd.env().clone();
    live.set("PCP_DERIVED_CONFIG", &file);
    let told = live.run(JUMPSEAT, ["probe", "-h", &pmcd.inet(), "-D", "derive", "sample.long"]).stderr;
    tells(&told, &["derive: not used: sample.long.one (511.0.6): the source has a metric of that name\n"]);
    for (option, text) in
        [("appl0", "token at"), ("appl1", "node by node"), ("appl2", "node 0, metric 29.0.3")]
    {
        assert!(!derive.contains(text), "{derive}");
        assert!(!run(option, &["d"]).contains("derive: "), "{option} alone");
    }
    tells(
        &run("derive,appl0", &["d.good"]),
        &[
            "token at 0: function rate\n",
            "token at 4: punctuation (\n",
            "token at 5: name sample.milliseconds\n",
            "end\n",
        ],
    );
    tells(
        &run("derive,appl1", &["d.good"]),
        &[
            "operand sample.milliseconds: 29.0.3\n",
            "operand 29.0.3: DOUBLE counter, millisec, singular\n",
            "d.good, node by node:\n    Expression ",
            "      rate(sample.milliseconds)  DOUBLE  instant ",
        ],
    );
    let words = ["val", "-a", &name, "-s", "3", "-S", "+9s", "-t", "1", "-D", "derive,appl2", "d.good"];
    tells(
        &env.run(JUMPSEAT, words).stderr,
        &[
            "node 0, metric 29.0.3: 10001266.138136575\n",
            "node 1, rate(node 0): no values\n",
            "node 2, constant: 2\n",
            "node 3, node 1 / node 2: no values\n",
            "d.good (511.0.3) at 1997-08-04T21:45:50.422332000Z: no values\n",
            "node 3, node 1 / node 2: 0.",
            "d.good (511.0.3) at 1997-08-04T21:45:51.422332000Z: 0.",
        ],
    );
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of all dumps, in a row.
fn dumped(shown: &str) -> String {
    let bytes = |line: &str| {
        let (place, rest) = line.strip_prefix("    ")?.split_once("  ")?;
        let is_place = place.len() == 4 && place.bytes().all(|byte| byte.is_ascii_hexdigit());
        let (words, _) = rest.split_at_checked(35)?;
        is_place.then(|| words.replace(' ', ""))
    };
    shown.lines().filter_map(bytes).collect()
}

#[test]
fn a_password_is_never_shown() {
    let (dir, certificates, user) = (temp_dir(), Certificates::new(), support::user());
    let passwords = dir.path().join("passwords").display().to_string();
    let secret = "Xq7unlikely";
    let text = format!("{secret}\n");
    PcpEnv::new().run_with_input(JUMPSEAT, ["passwd", &passwords, &user], text.as_bytes()).ok();
    let settings = format!("[access]\nfetch = [\"{user}\"]\npasswords = \"{passwords}\"\n");
    let (certificate, key) = (certificates.text("pcp.crt"), certificates.text("pcp.key"));
    let endpoint = Seat::in_dir(dir.path(), &settings).serve(["--tls-cert", &certificate, "--tls-key", &key]);
    let mut env = PcpEnv::new();
    env.set("PCP_TLSCONF_PATH", certificates.path("trust.conf"));
    let host = |secret: &str| {
        let port = endpoint.port();
        format!("pcps://localhost:{port}?method=plain&user={user}&pass={secret}")
    };
    let is_silent = |told: &Output, secret: &str| {
        assert!(!told.stderr.contains(secret), "{told}");
        assert!(!dumped(&told.stderr).contains(&hex(secret)), "{told}");
    };
    let metric = "jumpseat.self.pid";
    let right = env.run(JUMPSEAT, ["probe", "-D", "all", "-v", "-h", &host(secret), metric]);
    assert!(right.status.success(), "{right}");
    is_silent(&right, secret);
    // What is no secret is found in the dumps, over their lines: this name takes two.
    assert!(dumped(&right.stderr).contains(&hex(metric)), "{right}");
    tells(
        &right.stderr,
        &[
            "attr: the collector can: ",
            "attr: wished for: ",
            &format!("user Some({user:?})"),
            "tls: encrypted: TLSv1_",
            "auth: mechanisms offered: \"",
            "PLAIN",
            &format!("auth: PLAIN: name and password of {user:?} are sent\n"),
            "pdu: sent ATTR on ",
            "authentication, ",
            " bytes that are not shown\n",
            "auth: the collector has let the user in\n",
        ],
    );
    // In hints, too.
    let hint = env.run(JUMPSEAT, ["export", "-h", &host(secret), "no.such.metric"]);
    tells(&hint.stderr, &["jumpseat info -h pcps://localhost:", "&pass=...` lists"]);
    is_silent(&hint, secret);
    let other = "Wq9improbable";
    let wrong = env.run(JUMPSEAT, ["probe", "-D", "all", "-h", &host(other), metric]);
    assert!(!wrong.status.success(), "{wrong}");
    is_silent(&wrong, other);
    tells(&wrong.stderr, &["attr: refused (FirstAnswer): Authentication", "context: refused: "]);
    tells(&wrong.stderr, &["Cannot connect to PMCD on host \"pcps://localhost:", "&pass=...\": "]);
    // Nor where the environment has the host.
    env.set("PCP_HOST", host(secret));
    env.set("PCP_DEBUG", "all");
    let environment = env.run(JUMPSEAT, ["probe", "-v", metric]);
    assert!(environment.status.success(), "{environment}");
    is_silent(&environment, secret);
    tells(&environment.stderr, &["config: the environment asks for Host ...\n"]);
}

#[test]
fn messages_about_a_host_hide_its_password() {
    let (env, port) = (PcpEnv::new(), support::free_port());
    let dir = temp_dir();
    let out = dir.path().join("out").display().to_string();
    let definitions = dir.path().join("definitions").display().to_string();
    fs::write(&definitions, "x = 1\n").unwrap();
    for host in [
        format!("pcp://localhost:{port}?method=plain&user=u&pass=Xq7unlikely"),
        "local:a:b?pass=Xq7unlikely".to_owned(),
        "?pass=Xq7unlikely".to_owned(),
        "host?secure=x&password=Xq7unlikely".to_owned(),
    ] {
        let definitions = definitions.as_str();
        for words in [
            &["probe", "-h", &host, "x"] as &[&str],
            &["probe", "-h", &host, "-h", &host, "x"],
            &["record", "-h", &host, &out, "x"],
            &["export", "-h", &host, "x"],
            &["top", "-h", &host, "--once", "x"],
            &["self-check", "-h", &host],
            &["derive", "check", "--host", &host, definitions],
        ] {
            let told = env.run(JUMPSEAT, words);
            assert!(!told.status.success(), "{told}");
            assert!(told.stderr.contains("=..."), "{told}");
            assert!(!format!("{}{}", told.stdout, told.stderr).contains("Xq7"), "{told}");
        }
    }
    let mut of_list = env.clone();
    of_list.set("PCP_HOST_LIST", "a,b?container=c,d?pass=Xq7unlikely");
    let told = of_list.run(JUMPSEAT, ["probe", "x"]);
    assert!(told.stderr.contains("too many hosts requested: a,b?container=c,d?pass=...\n"), "{told}");
    assert!(!told.stderr.contains("Xq7"), "{told}");
}

#[test]
fn the_environment_sets_options_for_all_programs() {
    let (dir, mut env) = (temp_dir(), PcpEnv::new());
    let name = archive("changeinst");
    let out = dir.path().join("recorded").display().to_string();
    let probe: &[&str] = &["probe", "-a", &name, "-v", "sample.seconds"];
    let top: &[&str] = &["top", "-a", &name, "--once", "sample.seconds"];
    let record: &[&str] = &["record", "-a", &name, &out, "sample.seconds"];
    for words in [probe, top, record] {
        for (options, shows) in [("", false), ("log", true)] {
            env.set("PCP_DEBUG", options);
            for file in fs::read_dir(dir.path()).unwrap() {
                fs::remove_file(file.unwrap().path()).unwrap();
            }
            let told = env.run(JUMPSEAT, words);
            assert!(told.status.success(), "{told}");
            assert_eq!(told.stderr.contains("log: "), shows, "{told}");
            assert_eq!(told.stderr.contains("changeinst.meta: opened, not compressed\n"), shows, "{told}");
        }
    }
    let definitions = dir.path().join("definitions").display().to_string();
    fs::write(&definitions, "x = 1 + 2\n").unwrap();
    env.set("PCP_DEBUG", "derive");
    let check = env.run(JUMPSEAT, ["derive", "check", &definitions]);
    tells(&check.stderr, &["derive: defined: x (511.0.", ") = 1 + 2\n    parsed: (PLUS 1 2)\n"]);
    // Both add up.
    env.set("PCP_DEBUG", "log");
    let both = env.run(JUMPSEAT, ["probe", "-D", "context", "-a", &name, "sample.seconds"]).stderr;
    tells(&both, &["log: ", "context: "]);
    only(&both, &["log", "context"]);
    env.set("PCP_DEBUG", "nosuch");
    let refused = env.run(JUMPSEAT, ["derive", "check", &definitions]).stderr;
    tells(&refused, &["Error: $PCP_DEBUG=nosuch is not valid, ignored\n"]);
}

#[test]
fn what_is_shown_belongs_to_options_that_the_page_tells() {
    let page = fs::read_to_string(support::repository().join("docs/debugging.md")).unwrap();
    let known = PcpEnv::new().run("pmdbg", ["-l"]).ok();
    let is_known = |word: &str| known.lines().any(|line| line.split_whitespace().next() == Some(word));
    let mut targets = BTreeSet::new();
    for krate in ["pcp-archive", "pcp-client", "pcp-derive", "jumpseat-tools"] {
        let mut todo = vec![support::repository().join("crates").join(krate).join("src")];
        while let Some(path) = todo.pop() {
            if path.is_dir() {
                todo.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
                continue;
            }
            let text = fs::read_to_string(path).unwrap();
            let found = text.split("target: \"pcp::").skip(1).filter_map(|rest| rest.split('"').next());
            targets.extend(found.map(str::to_owned));
        }
    }
    assert!(targets.len() >= 15, "{targets:?}");
    for target in targets {
        assert!(target.split("::").all(is_known), "{target}");
        assert!(page.contains(&format!("`{}`", target.replace("::", ","))), "{target}");
    }
}
