//! What is never the same twice with a real collector, by value: live rates, times of events, runs that end at a time,
//! and counts of PDUs. PCP's tools and ours ask a collector that replays records ([`crate::collector`]).

use std::time::Duration;

use crate::collector::Collector;
use crate::tools_support::Pair;
use support::{AgentSpec, Archive, PrivatePmcd, eventually};

/// Records in the archive, at least.
const RECORDS: usize = 12;

/// Counters of all types and units, readings that move, event records of both kinds with all their parameters.
const METRICS: [&str; 21] = [
    "pmcd.hostname",
    "pmcd.timezone",
    "sample.byte_ctr",
    "sample.kbyte_ctr",
    "sample.milliseconds",
    "sample.seconds",
    "sample.long.bin_ctr",
    "sample.ulong.bin_ctr",
    "sample.longlong.bin_ctr",
    "sample.ulonglong.bin_ctr",
    "sample.float.bin_ctr",
    "sample.double.bin_ctr",
    "sample.wrap.long",
    "sample.ulonglong.bin",
    "sample.ulong.count.base",
    "sample.rapid",
    "sample.negative.counter.m_double",
    "sample.colour",
    "sample.drift",
    "sample.string",
    "sample.event",
];

fn record(pmcd: &PrivatePmcd) -> Archive {
    let logger = pmcd.record(&METRICS, Duration::from_millis(50));
    eventually("enough records", || {
        let dump = logger.archive().dump(["-z"], ["sample.colour"]).stdout;
        (dump.matches("sample.colour").count() >= RECORDS).then_some(())
    });
    logger.finish()
}

struct Setting {
    pair: Pair,
    collector: Collector,
    archive: Archive,
}

impl Setting {
    fn new() -> Setting {
        let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
        let archive = record(&pmcd);
        let collector = Collector::start(archive.base().to_str().expect("a path of ours"));
        Setting { pair: Pair::of_replays(pmcd), collector, archive }
    }

    /// Compares with a host that replays.
    fn compare(&mut self, tool: &str, args: &str) {
        let line = format!("-h {} {args}", self.collector.host());
        self.pair.compare(tool, &line);
    }
}

#[test]
fn rates_of_a_live_host() {
    let mut setting = Setting::new();
    for metric in &METRICS[2..19] {
        for options in ["-s 6", "-s 6 -r", "-s 5 -f 2 -w 25", "-s 3 -v"] {
            setting.compare("pmval", &format!("{options} -t 0.01 {metric}"));
        }
        setting.compare("pminfo", &format!("-f {metric}"));
        setting.compare("pminfo", &format!("-dfmtT {metric}"));
        setting.compare("pmprobe", &format!("-v {metric}"));
    }
    for names in ["bin-100", "bin-300,bin-900", "bin-500,nope"] {
        setting.compare("pmval", &format!("-s 4 -t 0.01 -i {names} sample.long.bin_ctr"));
    }
    assert!(setting.pair.finish() >= 120);
}

#[test]
fn runs_that_end_at_a_time() {
    let mut setting = Setting::new();
    for metric in ["sample.colour", "sample.long.bin_ctr", "sample.milliseconds"] {
        // No whole numbers of intervals: whether the last sample of those is in, PCP's tool decides by how it rounds a
        // time of day.
        for end in [
            "0.055 -t 0.01",
            "0.05 -t 0.02",
            "0.03 -t 0.05",
            "+0.07 -t 0.02",
            "0 -t 0.01",
            "0.055 -t 0.01 -s 2",
        ] {
            setting.compare("pmval", &format!("-T {end} {metric}"));
        }
    }
    // The clock of the collector is a day ahead: the first sample lies behind the end.
    setting.collector = Collector::ahead(setting.archive.base().to_str().expect("a path of ours"), 86400);
    for args in ["-T 5 -t 0.01", "-T 5 -t 0.01 -s 3", "-s 2 -t 0.01", "-T 2days -t 12hours -s 1"] {
        setting.compare("pmval", &format!("{args} sample.colour"));
    }
    assert_eq!(setting.pair.finish(), 22);
}

#[test]
fn times_of_events() {
    let mut setting = Setting::new();
    let metrics = ["sample.event.records", "sample.event.highres_records", "sample.event.no_indom_records"];
    for metric in metrics {
        for tool in ["pmval", "pmevent"] {
            for options in ["-s 6", "-s 6 -v", "-s 6 -Z UTC", "-s 6 -z"] {
                setting.compare(tool, &format!("{options} -t 0.01 {metric}"));
            }
        }
        for options in ["-f", "-x", "-dx", "-fx"] {
            setting.compare("pminfo", &format!("{options} {metric}"));
        }
        setting.compare("pmprobe", &format!("-v {metric}"));
    }
    setting.compare("pmevent", "-s 4 -t 0.01 sample.event.records[fungus]");
    assert!(setting.pair.finish() >= 39);
}

/// `pmprobe -V` tells what has been sent: that is what came.
#[test]
fn counts_of_pdus_are_those_that_came() {
    let setting = Setting::new();
    let (host, pair) = (setting.collector.host(), &setting.pair);
    let mut lines = 0;
    for args in [
        "-V sample.colour",
        "-V sample",
        "-V -v sample.long",
        "-V -I sample.long sample.colour",
        "-V -i sample.string nope",
        "-V -fi sample.long.bin_ctr",
        "-V -F sample.colour sample.drift",
        "-V -b 2 -v sample",
        "-V -v sample.event",
    ] {
        let args = format!("-h {host} {args}");
        let theirs = pair.pmcd().run("/usr/bin/pmprobe", args.split(' ')).stdout;
        let their_kinds = setting.collector.asked();
        let ours = pair.ours("pmprobe", &args).stdout;
        let our_kinds = setting.collector.asked();
        for (text, kinds) in [(theirs, their_kinds), (ours, our_kinds)] {
            assert_eq!(sent(&text), came(&kinds), "{args}\n{text}");
            lines += 1;
        }
    }
    assert_eq!(lines, 18);
}

/// The counts in the line of what was sent, by type.
fn sent(text: &str) -> Vec<usize> {
    let line = text.lines().find_map(|line| line.strip_prefix("PDUs send"));
    let line = line.unwrap_or_else(|| panic!("no counts: {text}"));
    line.split_whitespace().map(|count| count.parse().expect("a count")).collect()
}

/// How many PDUs of each type came.
fn came(kinds: &[u32]) -> Vec<usize> {
    (0x7000..0x7017).map(|kind| kinds.iter().filter(|came| **came == kind).count()).collect()
}
