//! `--csv`, `--json`, `--openmetrics`, and what is said where there is nothing to export.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value as Json;
use support::{AgentSpec, PcpEnv, PrivatePmcd, temp_dir};

use crate::seat::JUMPSEAT;
use crate::{archive, export, python};

#[test]
fn json_has_the_values_that_val_prints() {
    let archive = archive("20130706");
    let lines = export(["-a", &archive, "--json", "disk.dev.read"]).ok();
    let mut exported = lines.lines().map(|line| serde_json::from_str::<Json>(line).expect("JSON"));
    let printed = PcpEnv::new().run(JUMPSEAT, ["val", "-U", &archive, "-r", "--json", "disk.dev.read"]).ok();
    let mut count = 0;
    for sample in printed.lines().map(|line| serde_json::from_str::<Json>(line).expect("JSON")) {
        for value in sample["values"].as_array().into_iter().flatten() {
            let line = exported.next().expect("a line for each value");
            assert_eq!((&line["time"], &line["host"]), (&sample["time"], &sample["host"]));
            assert_eq!((&line["instance"], &line["value"]), (&value["instance"], &value["value"]));
            assert_eq!(line["metric"], "disk.dev.read");
            count += 1;
        }
    }
    assert!(count > 1_000 && exported.next().is_none(), "{count}");
}

#[test]
fn a_collectors_values_are_exact_and_have_derived_metrics_among_them() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let host = pmcd.inet();
    let words = |rest: &[&str]| {
        let fixed = ["export", "-h", &host, "-s", "2", "-t", "10msec"].map(str::to_owned);
        fixed.into_iter().chain(rest.iter().map(|word| (*word).to_owned())).collect::<Vec<_>>()
    };
    let text = pmcd.run(JUMPSEAT, words(&["--json", "sample.longlong.bin", "twice=2*sample.long.ten"])).ok();
    let lines: Vec<Json> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let twice: Vec<&Json> = lines.iter().filter(|line| line["metric"] == "twice").collect();
    assert!(
        twice.len() == 2 && twice.iter().all(|line| line["value"] == 20 && line["instance"].is_null()),
        "{text}"
    );
    assert!(lines.iter().any(|line| line["instance"] == "bin-100" && line["value"] == 100), "{text}");
    let text = pmcd.run(JUMPSEAT, words(&["--csv", "-Z", "Asia/Tokyo", "sample.ulonglong.hundred"])).ok();
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!((rows[0], rows.len()), ("time,host,metric,instance,value", 3));
    assert!(rows[1].contains("+09:00,") && rows[1].ends_with(",sample.ulonglong.hundred,,100"), "{text}");
}

#[test]
fn openmetrics_is_what_its_readers_take() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let dir = temp_dir();
    let path = dir.path().join("page");
    let file = format!("--openmetrics={}", path.display());
    let names = [
        "sample.milliseconds",
        "sample.kilo_bytes",
        "sample.long.hundred",
        "sample.bin",
        "sample.string.hullo",
    ];
    let host = pmcd.inet();
    let known = pmcd.run("pminfo", ["sample"]).ok();
    let names = names.iter().copied().filter(|name| known.lines().any(|line| line.starts_with(name)));
    let names: Vec<&str> = names.chain(["sample.seconds", "sample.load"]).collect();
    pmcd.run(JUMPSEAT, ["export", "-h", &host, "-s", "1", &file].into_iter().chain(names.iter().copied()))
        .ok();
    let read = "import sys; from prometheus_client.openmetrics.parser import text_string_to_metric_families as read\n\
                for family in read(open(sys.argv[1]).read()):\n    \
                for sample in family.samples: print(family.type, family.unit, sample.name, sample.labels.get('instname'), \
                sample.value, sample.timestamp)";
    let text = python(["-c", read, &path.display().to_string()]);
    assert!(text.contains("gauge  sample_long_hundred None 100 None"), "{text}");
    assert!(text.contains("sample_bin bin-300 300 None"), "{text}");
    assert!(text.contains("info  sample_string_hullo_info None 1 None"), "{text}");
    assert!(text.contains("counter seconds sample_seconds_total"), "{text}");
}

#[test]
fn promtool_checks_a_page_and_makes_blocks_of_an_archive() {
    let dir = temp_dir();
    let page = dir.path().join("page").display().to_string();
    let archive = archive("20130706");
    let file = format!("--openmetrics={page}");
    export(["-a", &archive, &file, "kernel.all.load", "disk.dev.read", "mem.util.used", "kernel.uname"]).ok();
    let blocks = dir.path().join("blocks").display().to_string();
    let env = PcpEnv::new();
    env.run("promtool", ["tsdb", "create-blocks-from", "openmetrics", &page, &blocks]).ok();
    assert!(fs::read_dir(&blocks).expect("blocks were made").count() > 0);
    // Its other check is for the older text format, which has gauges in the same way; times, and endings of counters, in another.
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let host = pmcd.inet();
    let text = pmcd
        .run(JUMPSEAT, ["export", "-h", &host, "-s", "1", "--openmetrics", "sample.load", "sample.bin"])
        .ok();
    env.run_with_input("promtool", ["check", "metrics"], text.as_bytes()).ok();
}

#[test]
fn samples_are_interpolated_where_an_interval_is_given() {
    let archive = archive("20130706");
    let words =
        ["-a", &archive, "-t", "1hour", "-O", "1hour", "-A", "1hour", "-s", "3", "--csv", "kernel.all.load"];
    let text = export(words).ok();
    assert_eq!(text.lines().count(), 1 + 3 * 3, "{text}");
    assert!(text.lines().skip(1).all(|line| line.contains(":00:00.000000000Z,")), "{text}");
}

/// Between two records an instance has a value that the domain has no more at that time, or not yet.
#[test]
fn instances_that_come_and_go_between_samples_keep_their_names() {
    for (name, metrics) in [("node_archive", "proc"), ("bug1057", "pmcd.pmlogger")] {
        let archive = archive(name);
        let named = |interval: &[&str]| -> BTreeSet<(String, String)> {
            let words = ["-a", &archive].into_iter().chain(interval.iter().copied());
            let text = export(words.chain(["--csv", metrics])).ok();
            let cell = |line: &str, at: usize| line.split(',').nth(at).unwrap_or_default().to_owned();
            text.lines().skip(1).map(|line| (cell(line, 2), cell(line, 3))).collect()
        };
        let recorded = named(&[]);
        let sampled = named(&["-t", "7sec"]);
        assert!(sampled.len() > 3, "{name}: {sampled:?}");
        let other: Vec<_> = sampled.difference(&recorded).collect();
        assert!(other.is_empty(), "{name}: {other:?}");
    }
}

#[test]
fn what_cannot_be_exported_is_told_with_what_can() {
    let archive = archive("20130706");
    for (words, said) in [
        (&["-a", &archive, "--csv", "kernel.all.laod"][..], "did you mean kernel.all.load"),
        (&["-a", &archive, "--csv", "nothing.there"], "jumpseat info -a"),
        (&["-a", "/nowhere/archive", "--csv", "x"], "/nowhere/archive"),
        (&["-a", &archive, "-t", "0", "--csv", "kernel"], "above 0"),
        (&["-a", &archive, "kernel"], "--parquet DIR"),
        (&["-a", &archive, "--parquet", "s3://", "kernel"], "s3://BUCKET/PREFIX"),
    ] {
        let text = export(words.iter().copied()).fails(1);
        assert!(text.contains(said), "{words:?}: {text}");
    }
}

#[test]
fn the_main_program_tells_where_the_other_comes_from() {
    let dir = temp_dir();
    let alone = dir.path().join("jumpseat").display().to_string();
    fs::copy(JUMPSEAT, &alone).expect("room for a copy");
    let mut env = PcpEnv::new();
    env.set("PATH", dir.path().display().to_string());
    let said = env.run(&alone, ["export", "--csv", "x"]).fails(1);
    assert!(said.contains("package jumpseat") && said.contains("cargo build"), "{said}");
    // By the path, if it is not next to it.
    symlink(env!("CARGO_BIN_EXE_jumpseat-export"), dir.path().join("jumpseat-export")).expect("a link");
    let help = env.run(&alone, ["export", "--help"]).ok();
    assert!(help.contains("--parquet <DIR>") && help.contains("Usage: jumpseat export"), "{help}");
}

#[test]
fn what_is_left_out_of_a_damaged_archive_is_told_once() {
    let dir = temp_dir();
    let base = dir.path().join("cut");
    for suffix in ["0", "index", "meta"] {
        let mut bytes = fs::read(archive(&format!("changeinst.{suffix}"))).expect("PCP's test suite");
        match suffix {
            // The last record is not whole.
            "0" => bytes.truncate(bytes.len() - 7),
            // The third entry is of a volume that is not there.
            "index" => bytes[132 + 2 * 20 + 11] = 9,
            _ => {}
        }
        fs::write(base.with_extension(suffix), bytes).expect("the test's directory is writable");
    }
    let cut = base.display().to_string();
    let parquet = format!("--parquet={}", dir.path().join("lake").display());
    for format in ["--csv", "--json", "--openmetrics", &parquet] {
        let told = export(["-a", &cut, format, "sample.seconds"]);
        // Reading up to the damage is not all that was asked for.
        assert_eq!(told.status.code(), Some(1), "{told}");
        let index = format!(
            "jumpseat export: Warning: {cut}: 1 of 9 entries of the temporal index cannot be meant, and are not used\n"
        );
        let end = format!("jumpseat export: Warning: {cut}: the last record that is whole ends at byte ");
        for text in [index, end] {
            assert_eq!(told.stderr.matches(&text).count(), 1, "{told}");
        }
        assert_eq!(told.stderr.matches("Warning").count(), 2, "{told}");
    }
    let sound = export(["-a", &archive("changeinst"), "--csv", "sample.seconds"]);
    assert!(sound.status.success() && sound.stderr.is_empty(), "{sound}");
}
