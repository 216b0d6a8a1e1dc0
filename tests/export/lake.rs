//! `--parquet`: every value, once, in a directory and in a bucket.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{PcpEnv, Process, eventually, free_port, temp_dir};

use crate::seat::JUMPSEAT;
use crate::{PYTHON, archive, export, python};

const CHECK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/export/check_values.py");
const BUCKET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/export/bucket.py");

/// What `jumpseat val` prints of the metrics, as they were recorded, in a file.
fn values(dir: &Path, archive: &str, metrics: &[&str]) -> String {
    let mut text = String::new();
    for metric in metrics {
        text.push_str(&PcpEnv::new().run(JUMPSEAT, ["val", "-U", archive, "-r", "--json", metric]).ok());
    }
    let path = dir.join("values");
    fs::write(&path, text).expect("the test's directory is writable");
    path.display().to_string()
}

/// The files of a lake, sorted.
fn files(lake: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![lake.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("there is a directory").flatten() {
            let path = entry.path();
            if path.is_dir() { dirs.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

#[track_caller]
fn check(name: &str, metrics: &[&str], least: usize) {
    let dir = temp_dir();
    let lake = dir.path().join("lake").display().to_string();
    let archive = archive(name);
    export(["-a", &archive, "--parquet", &lake].into_iter().chain(metrics.iter().copied())).ok();
    let printed = python([CHECK, &lake, &values(dir.path(), &archive, metrics)]);
    let compared: usize = printed.trim().parse().expect("a number");
    assert!(compared >= least, "{name}: {compared} values");
}

#[test]
fn every_value_of_an_archive_over_two_days_is_in_its_table() {
    let metrics = [
        "disk.dev.read",
        "disk.dev.write",
        "kernel.all.load",
        "kernel.all.cpu.user",
        "mem.util.used",
        "network.interface.in.bytes",
    ];
    check("20130706", &metrics, 20_000);
}

#[test]
fn instances_that_come_and_go_have_their_names() {
    check("pcp-pidstat-process-states", &["proc.psinfo.utime"], 1_000);
}

#[test]
fn a_second_export_takes_the_place_of_the_first() {
    let dir = temp_dir();
    let lake = dir.path().join("lake");
    let (archive, lake_name) = (archive("20130706"), lake.display().to_string());
    let words = ["-a", &archive, "--parquet", &lake_name, "disk.dev", "kernel.all"];
    export(words).ok();
    let first = files(&lake);
    // A part that an earlier export has left, and one that is none of this archive's.
    let (stale, other) = (first[0].with_extension(""), first[0].with_file_name("other.parquet"));
    let stale = PathBuf::from(format!("{}-1.parquet", stale.display()));
    fs::write(&stale, "").expect("writable");
    fs::write(&other, "").expect("writable");
    export(words).ok();
    assert!(!stale.exists() && other.exists());
    fs::remove_file(&other).expect("it is there");
    assert_eq!(files(&lake), first, "no file more or less, and none without its name");
    let counted = "import duckdb, sys; print(duckdb.sql(f\"select count(*) - count(distinct (time, instance)) \
                   from '{sys.argv[1]}/disk.dev/**/*.parquet'\").fetchall()[0][0])";
    assert_eq!(python(["-c", counted, &lake_name]).trim(), "0");
}

#[test]
fn an_export_that_fails_leaves_what_was_there() {
    let dir = temp_dir();
    let (lake, archive) = (dir.path().join("lake"), archive("20130706"));
    fs::write(&lake, "not a directory").expect("writable");
    let failed = export(["-a", &archive, "--parquet", &lake.display().to_string(), "kernel.all.load"]);
    let said = failed.fails(1);
    assert!(said.contains("lake"), "{said}");
    assert_eq!(fs::read_to_string(&lake).expect("it is there"), "not a directory");
}

/// Copies an archive, its volume unpacked. Its base name, and the volume.
fn unpacked(dir: &Path, name: &str) -> (String, PathBuf) {
    let base = dir.join(name).display().to_string();
    for suffix in [".index", ".meta"] {
        fs::copy(format!("{}{suffix}", archive(name)), format!("{base}{suffix}")).expect("it can be copied");
    }
    let packed = fs::File::open(format!("{}.0.bz2", archive(name))).expect("there is a volume");
    let volume = PathBuf::from(format!("{base}.0"));
    let mut unpacked = fs::File::create(&volume).expect("writable");
    std::io::copy(&mut bzip2::read::BzDecoder::new(packed), &mut unpacked).expect("it can be unpacked");
    (base, volume)
}

/// The files of a lake, with what is in them.
fn contents(lake: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    files(lake).into_iter().map(|path| (path.clone(), fs::read(path).expect("readable"))).collect()
}

#[test]
fn an_archive_that_cannot_be_read_on_leaves_what_was_there() {
    let dir = temp_dir();
    let lake = dir.path().join("lake");
    let (base, volume) = unpacked(dir.path(), "20130706");
    let lake_name = lake.display().to_string();
    let words = ["-a", &base, "--parquet", &lake_name, "disk.dev", "kernel.all"];
    export(words).ok();
    let before = contents(&lake);
    let mut bytes = fs::read(&volume).expect("readable");
    // In the first day, of which less would be there.
    let at = bytes.len() / 16;
    bytes[at..at + 4096].fill(0xff);
    fs::write(&volume, bytes).expect("writable");
    let said = export(words).fails(1);
    assert!(said.contains("jumpseat check --repair"), "{said}");
    assert!(contents(&lake) == before, "every file is as it was");
}

#[test]
fn a_table_that_cannot_be_written_leaves_those_of_the_same_day() {
    let dir = temp_dir();
    let lake = dir.path().join("lake");
    let (lake_name, archive) = (lake.display().to_string(), archive("20130706"));
    export(["-a", &archive, "--parquet", &lake_name, "disk.dev", "kernel.all"]).ok();
    let in_the_way = lake.join("mem.util");
    fs::write(&in_the_way, "no directory").expect("writable");
    let before = contents(&lake);
    let fewer = ["-a", &archive, "--parquet", &lake_name, "disk.dev.read", "kernel.all.load", "mem.util"];
    let said = export(fewer).fails(1);
    assert!(said.contains("mem.util"), "{said}");
    assert!(contents(&lake) == before, "every file is as it was");
}

#[test]
fn a_bucket_of_s3_gets_the_same_files() {
    let dir = temp_dir();
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let mut server = Command::new("python3");
    server.args(["-m", "moto.server", "-p", &port.to_string()]).env("PYTHONPATH", PYTHON);
    let _server = Process::start(&mut server, dir.path(), "moto");
    eventually("moto", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
    let mut env = PcpEnv::new();
    for (name, value) in [
        ("AWS_ENDPOINT_URL", url.as_str()),
        ("AWS_ACCESS_KEY_ID", "a"),
        ("AWS_SECRET_ACCESS_KEY", "b"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
        ("PYTHONPATH", PYTHON),
    ] {
        env.set(name, value);
    }
    env.run("python3", [BUCKET, "make", "fleet"]).ok();
    let (archive, local) = (archive("20130706"), dir.path().join("lake").display().to_string());
    let metrics = ["disk.dev", "kernel.all.load"];
    let words = |target| ["export", "-a", &archive, "--parquet", target].into_iter().chain(metrics);
    env.run(JUMPSEAT, words(local.as_str())).ok();
    for _ in 0..2 {
        env.run(JUMPSEAT, words("s3://fleet/a/lake")).ok();
        env.run("python3", [BUCKET, "compare", "fleet", "a/lake", &local]).ok();
    }
    let missing = env.run(JUMPSEAT, words("s3://nobodys/lake")).fails(1);
    assert!(missing.contains("s3://nobodys/lake/") && missing.contains("AWS_ENDPOINT_URL"), "{missing}");
}
