//! Options, usage texts, messages and environment variables of the tools that stand in for PCP's, next to PCP's own.

use crate::tools_support::Pair;
use support::{AgentSpec, PrivatePmcd};

/// Words that each tool is called with.
#[rustfmt::skip]
const OF_ALL: &[&str] = &[
    "-?", "--help", "-V", "--version", "-Q", "-QR", "-= ", "--foo", "--foo=1", "--=x", "-h", "--host", "--h",
    "--ho", "--d", "--de", "--v", "--ver", "--f", "--n", "--s", "--i", "--in", "--b", "--ba", "--u", "--o",
    "--t", "--c", "--local=1", "--local-PMDA=1", "--version=2", "--help=1", "-Q -V", "-V -Q", "-? -V", "-VQ",
    "-b", "-b x a", "-b 3x a", "-b 0x3 a", "-h a -h b x 1", "-h a -h b -h c x 1", "-D", "-D foo x 1",
    "-D derive,foo x 1", "-D , x 1", "-D 3x x 1", "-D appl0,nope", "-K foo", "-K ''", "-K add", "-K addx",
    "-K add,", "-K add,30", "-K add,30,", "-K add,30,foo", "-K add,30,foo,", "-K add,abc,foo,init",
    "-K add,30x,foo,init", "-K add,1000,foo,init", "-K 'add 30 foo init'", "-K del", "-K del,", "-K del,x",
    "-K del,29", "-K clearx", "-K 'clear|foo'", "-K Clear", "-K 'add,30,x,y|del,31|foo'", "-n", "-n /nosuch",
    "-n /nosuch -Q", "--namespace=/nosuch x", "-h localhost:x x 1", "-h '[::1' x 1", "-h '[::1]x' x 1",
    "-h ::1 x 1", "-h localhost: x 1", "-h '' x 1", "-h nosuch.host.invalid x 1", "-h localhost:1 x 1",
    "-h unix:///nosuch x 1", "-h 'local:/nosuch:x' x 1", "-- -d 1", "-", "- 1",
];

/// Words for those that read.
#[rustfmt::skip]
const OF_READERS: &[&str] = &[
    "-a", "--archive", "-a x -h y", "-h y -a x", "-a x -h y -h z", "-Z UTC -z", "-z -Z UTC", "-z", "-z -L",
    "-z -h localhost -a x", "-O 5 -h localhost", "-O x -L", "-Z", "--container", "-h a -h b -a x",
    "-Z U -z -h foo -a bar -b x", "-b x -Q", "--batch=x sample.long.one", "--batch x", "-b ' 3' sample.long",
    "-a x -Q", "-z sample.long.one", "--hostzone --timezone=UTC",
];

/// Words for pmprobe.
#[rustfmt::skip]
const OF_PMPROBE: &[&str] = &[
    "-d", "-i -v", "-v -i", "-vI", "-Iv", "-v -I -i", "-iI sample.long.one",
    "--derived=/nosuch -v sample.long.one", "--derived /nosuch", "-c x", "--values --external",
    "--internal --values",
];

/// Words for pminfo.
#[rustfmt::skip]
const OF_PMINFO: &[&str] = &[
    "--desc=3", "--l", "--full", "--fu=3", "--uniqname", "-N /nosuch", "-n /nosuch -N /nosuch2",
    "-c /nosuch sample.long.one", "-c /nosuch:/nosuch2 sample.long.one", "--derived /nosuch sample.long.one",
    "-g", "-t x -t", "sample.long.one -d", "-d -- sample.long.one -f", "-dhlocalhost:1", "-a=foo -h x",
];

/// Words for pmstore.
#[rustfmt::skip]
const OF_PMSTORE: &[&str] = &[
    "", "m", "m 1 2", "m 1 -h a", "-fF m", "-i", "--insts", "--insts=a", "-a x m 1", "-z m 1", "m -1",
    "-- m -1",
];

fn pair() -> Pair {
    Pair::new(PrivatePmcd::with([AgentSpec::sample()]).start())
}

/// Tests that share one list.
const PARTS: usize = 3;

#[test]
fn options_of_pminfo_1_of_3() {
    options("pminfo", OF_PMINFO, 1);
}

#[test]
fn options_of_pminfo_2_of_3() {
    options("pminfo", OF_PMINFO, 2);
}

#[test]
fn options_of_pminfo_3_of_3() {
    options("pminfo", OF_PMINFO, 3);
}

#[test]
fn options_of_pmprobe_1_of_3() {
    options("pmprobe", OF_PMPROBE, 1);
}

#[test]
fn options_of_pmprobe_2_of_3() {
    options("pmprobe", OF_PMPROBE, 2);
}

#[test]
fn options_of_pmprobe_3_of_3() {
    options("pmprobe", OF_PMPROBE, 3);
}

#[test]
fn options_of_pmstore_1_of_3() {
    options("pmstore", OF_PMSTORE, 1);
}

#[test]
fn options_of_pmstore_2_of_3() {
    options("pmstore", OF_PMSTORE, 2);
}

#[test]
fn options_of_pmstore_3_of_3() {
    options("pmstore", OF_PMSTORE, 3);
}

/// Compares the `part`th third of the words.
fn options(tool: &str, own: &[&str], part: usize) {
    let mut pair = pair();
    let of_readers = if tool == "pmstore" { &[] } else { OF_READERS };
    for args in OF_ALL.iter().chain(of_readers).chain(own).skip(part - 1).step_by(PARTS) {
        pair.compare(tool, args);
    }
    assert!(pair.finish() > 70 / PARTS);
}

/// Variables, one at a time.
const VARIABLES: [(&str, &str); 27] = [
    ("PCP_ALIGN_TIME", "5"),
    ("PCP_START_TIME", "5"),
    ("PCP_FINISH_TIME", "5"),
    ("PCP_DEBUG", "foo"),
    ("PCP_DEBUG", "0"),
    ("PCP_DEBUG", ""),
    ("PCP_FOLIO", "/nosuch"),
    ("PCP_HOST", "nosuch.host.invalid"),
    ("PCP_HOST", "localhost"),
    ("PCP_HOST", ""),
    ("PCP_HOST_LIST", "a,b"),
    ("PCP_HOST_LIST", "nosuch.host.invalid"),
    ("PCP_SPECLOCAL", "foo"),
    ("PCP_NAMESPACE", "/nosuch"),
    ("PCP_UNIQNAMES", "/nosuch"),
    ("PCP_INTERVAL", "5 foo"),
    ("PCP_INTERVAL", "2sec"),
    ("PCP_SAMPLES", "5"),
    ("PCP_SAMPLES", "x"),
    ("PCP_SAMPLES", "-1"),
    ("PCP_SAMPLES", "0x5"),
    ("PCP_TIMEZONE", "EST5EDT"),
    ("PCP_HOSTZONE", "1"),
    ("PCP_HOSTZONE", ""),
    ("PCP_GUIMODE", "1"),
    ("PCP_GUIPORT", "5"),
    ("PMCD_REQUEST_TIMEOUT", "abc"),
];

#[test]
fn environment_of_pminfo_1_of_3() {
    environment("pminfo", 1);
}

#[test]
fn environment_of_pminfo_2_of_3() {
    environment("pminfo", 2);
}

#[test]
fn environment_of_pminfo_3_of_3() {
    environment("pminfo", 3);
}

#[test]
fn environment_of_pmprobe_1_of_3() {
    environment("pmprobe", 1);
}

#[test]
fn environment_of_pmprobe_2_of_3() {
    environment("pmprobe", 2);
}

#[test]
fn environment_of_pmprobe_3_of_3() {
    environment("pmprobe", 3);
}

#[test]
fn environment_of_pmstore_1_of_3() {
    environment("pmstore", 1);
}

#[test]
fn environment_of_pmstore_2_of_3() {
    environment("pmstore", 2);
}

#[test]
fn environment_of_pmstore_3_of_3() {
    environment("pmstore", 3);
}

/// Compares the `part`th third of the variables, alone and two together.
fn environment(tool: &str, part: usize) {
    let mut pair = pair();
    for (name, value) in VARIABLES.into_iter().skip(part - 1).step_by(PARTS) {
        pair.with_env(name, value, |pair| {
            let good = if tool == "pmstore" { "-i x sample.long.one 1" } else { "sample.long.one" };
            for args in [good, "-h localhost:1 -Q", "-V", "-z -b x -D x"] {
                pair.compare(tool, args);
            }
        });
    }
    let pairs = [
        (("PCP_TIMEZONE", "UTC"), ("PCP_GUIMODE", "1")),
        (("PCP_GUIMODE", "1"), ("PCP_GUIPORT", "3")),
        (("PCP_ARCHIVE", "a"), ("PCP_HOST", "b")),
        (("PCP_SAMPLES", "x"), ("PCP_SPECLOCAL", "foo")),
        (("PCP_DEBUG", "foo"), ("PCP_SAMPLES", "x")),
    ];
    for (first, second) in pairs.into_iter().skip(part - 1).step_by(PARTS) {
        pair.with_env(first.0, first.1, |pair| {
            pair.with_env(second.0, second.1, |pair| {
                pair.compare(tool, "-Q sample.long.one");
            });
        });
    }
    assert!(pair.finish() >= 100 / PARTS);
}

#[test]
fn messages_go_where_pcp_stderr_says() {
    let pair = pair();
    let file = pair.pmcd().dir().join("messages");
    let mut env = pair.pmcd().env().clone();
    env.set("PCP_STDERR", &file);
    for name in ["/usr/bin/pminfo".into(), pair.path("pminfo")] {
        std::fs::write(&file, "before\n").unwrap();
        let output = env.run(name.to_str().unwrap(), ["-Q"]);
        assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("", ""), "{output}");
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("before\npminfo: invalid option -- 'Q'\nUsage: pminfo [options]"), "{text}");
        // This is no message about the command line.
        let output = env.run(name.to_str().unwrap(), ["nosuch"]);
        assert_eq!(output.stderr, "Error: nosuch: Unknown metric name\n");
    }
    env.set("PCP_STDERR", "/nosuch/file");
    for name in ["/usr/bin/pminfo".into(), pair.path("pminfo")] {
        let output = env.run(name.to_str().unwrap(), ["-Q"]);
        let first =
            "pmflush: cannot append to file '/nosuch/file' (from $PCP_STDERR): No such file or directory\n";
        assert!(output.stderr.starts_with(&format!("{first}pminfo: invalid option")), "{output}");
    }
}

#[test]
fn as_subcommands() {
    let pair = pair();
    let run = |words: &[&str]| pair.pmcd().run(crate::seat::JUMPSEAT, words);
    let usage = run(&["info", "--help"]);
    assert_eq!(usage.status.code(), Some(1));
    assert!(
        usage.stderr.starts_with("Usage: jumpseat info [options] [metricname | pmid | indom]...\n"),
        "{usage}"
    );
    assert!(usage.stderr.contains("\n  --json "), "{usage}");
    // Not an option of PCP's.
    assert!(pair.ours("pminfo", "--json").stderr.starts_with("pminfo: unrecognized option '--json'\n"));
    assert_eq!(run(&["info", "sample.long.one"]).ok(), "sample.long.one\n");
    assert_eq!(run(&["probe", "-v", "sample.long.one"]).ok(), "sample.long.one 1 1\n");
    let version = run(&["store", "-V"]);
    assert_eq!(version.stderr, concat!("jumpseat store version ", env!("CARGO_PKG_VERSION"), "\n"));
    let help = run(&["--help"]).ok();
    for line in ["  info    ", "  probe   ", "  store   "] {
        assert!(help.contains(line), "{help}");
    }
}
