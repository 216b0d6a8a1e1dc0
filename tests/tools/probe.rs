//! `jumpseat probe` next to PCP's `pmprobe`, on the same collector.

use crate::seat::{self, Seat, Transport};
use crate::tools_support::Pair;
use support::{AgentSpec, PrivatePmcd};

/// Metrics of every kind, good and bad, and operands that are none.
const METRICS: [&str; 12] = [
    "sample.long sample.string.hullo",
    "sample.bad",
    "sample.bad.unknown sample.long.one",
    "sample.bogus_bin sample.part_bin sample.darkness",
    "sample.needprofile sample.noinst",
    "sample.aggregate sample.string sample.float sample.double",
    "sample.long.one sample.nosuch sample.ulong.one nosuch",
    "sample.nosuch",
    "29.0.5",
    "pmcd.version pmcd.agent",
    "jumpseat.field jumpseat.event.count",
    "event.flags sample.event.type",
];

fn pair() -> Pair {
    let builder = PrivatePmcd::with([AgentSpec::sample()]);
    let seat = Seat::in_dir(builder.dir(), "");
    let agent = seat.agent(Transport::Pipe);
    Pair::new(builder.agent(agent).start())
}

/// Compares each choice of options for all kinds of metrics.
fn every_kind_of_metric(options: &[&str]) {
    let mut pair = pair();
    for options in options {
        for metrics in METRICS {
            // Of single unknown names with -F PCP's tool prints garbage.
            let unknown = metrics.contains("nosuch") || metrics == "29.0.5";
            if !(options.contains('F') && unknown) {
                pair.compare("pmprobe", &format!("{options} {metrics}"));
            }
        }
    }
    assert!(pair.finish() >= 80);
}

#[test]
fn values_and_instances_of_every_kind_of_metric() {
    every_kind_of_metric(&["", "-v", "-i", "-I", "-iI", "-f", "-fi", "-fI", "-fiI"]);
}

#[test]
fn everything_about_every_kind_of_metric() {
    every_kind_of_metric(&[
        "-fv",
        "-b 1 -v",
        "-b 3 -I",
        "-b 1000",
        "-V -v",
        "-F -v",
        "--values",
        "--external --force",
    ]);
}

/// Where nothing is asked for at once that PCP's tool asks for one by one, every count is the same.
#[test]
fn counts_of_pdus() {
    let pair = pair();
    let names = pair.file("names", "root { mid 29:0:11 }\n");
    let cases = [
        "-V sample.long.one",
        "-V sample.long",
        "-V nope",
        "-V nope sample.colour no.more",
        "-V -F sample.long.one sample.colour",
        "-Vv sample.long.one",
        "-VI sample.colour",
        "--verbose sample.bin",
        &format!("-n {names} -V mid"),
    ];
    for args in cases {
        let ours = pair.ours("pmprobe", args).ok();
        let theirs = pair.pmcd().run("/usr/bin/pmprobe", args.split(' ')).ok();
        let counts = |text: &str| text.lines().rev().take(4).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(counts(&ours), counts(&theirs), "{args}");
        assert!(ours.contains("PDUs send   0   0 "), "{ours}");
    }
}

#[test]
fn whole_trees_derived_metrics_and_events() {
    let mut pair = pair();
    for args in
        ["", "-v sample", "-I sample", "-i pmcd", "-F sample sample.long.one", "-Fv nosuch sample.long.one"]
    {
        pair.compare("pmprobe", args);
    }
    let config = pair.file(
        "derived.conf",
        "d.bins = sample.long.bin + 1\nd.rate = rate(sample.long.one)\nd.bad = no.such\n\
         d.kinds = sample.bin + sample.string.hullo\n",
    );
    for args in ["-v d", "-I d", "d.bad", "-v d.bad d.bins", "-v d.kinds", "d.kinds d.bins"] {
        pair.compare("pmprobe", &format!("--derived={config} {args}"));
        pair.with_env("PCP_DERIVED_CONFIG", &config, |pair| pair.compare("pmprobe", args));
    }
    for reset in 0..5 {
        pair.after(&format!("pmstore sample.event.reset {reset}"), |pair| {
            pair.compare("pmprobe", "-v sample.event.records sample.event.no_indom_records");
        });
    }
    assert!(pair.finish() > 15);
}

/// What both say of metrics whose agent was killed just before: pmcd notices when it asks it.
#[test]
fn metrics_of_an_agent_that_was_killed() {
    let said = |program: &str, words: &[&str]| {
        let builder = PrivatePmcd::with([]);
        let seat = Seat::in_dir(builder.dir(), "");
        let agent = seat.agent(Transport::Pipe);
        let pmcd = builder.agent(agent).start();
        pmcd.wait_ready("jumpseat");
        let pid = pmcd.value("jumpseat.self.pid").expect("it is ready");
        pmcd.run("kill", ["-KILL", &pid]).ok();
        let output = pmcd.run(program, words);
        (output.status.code(), output.stdout, output.stderr)
    };
    for (tool, ours, words) in [
        ("pmprobe", "probe", "-v jumpseat.event.count"),
        ("pmprobe", "probe", "-i jumpseat.event.count"),
        ("pminfo", "info", "-f jumpseat.self.pid"),
        ("pminfo", "info", "-df jumpseat.self.pid"),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        // pmcd's answer depends on what it meets first, the request or the end of the agent: this one is compared.
        let in_time = |program: &str, words: &[&str]| {
            let mut all = (0..6).map(|_| said(program, words));
            let found = all.find(|said| format!("{said:?}").contains("Try again"));
            found.unwrap_or_else(|| panic!("{program} {words:?} never says that it is to be tried again"))
        };
        let theirs = in_time(tool, &words);
        assert_eq!(in_time(seat::JUMPSEAT, &[&[ours], &words[..]].concat()), theirs, "{tool} {words:?}");
    }
}
