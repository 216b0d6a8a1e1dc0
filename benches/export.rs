//! `jumpseat export --parquet` of 21,340 metrics in 1,000 samples, one after the other of four types, 100 below each name: how long
//! it takes, and how much processor time a value. pcp2arrow needs 5.5 s for as many.
//!
//! The archive and the files are made in the directory for temporary files, which needs 1 GB. Times count only if the files have all
//! rows.

mod common;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use common::clock::children_cpu;
use common::{Figure, Goal, Row, Times, race, rounds};
use jumpseat::archive::{ArchiveWriter, LabelInfo, WriteOptions};
use jumpseat::model::{Desc, InDom, PM_IN_NULL, Pmid, Semantics, Timestamp, Units, Value, ValueType};
use jumpseat::pdu::Fetched;
use parquet::file::reader::{FileReader, SerializedFileReader};

const METRICS: u32 = 21_340;
const SAMPLES: u32 = 1_000;
const BELOW: u32 = 100;
const START: i64 = 1_700_000_000;
const GOAL_SECONDS: f64 = 0.5;
/// Five million values a second of processor time.
const GOAL_NANOS: f64 = 200.0;

fn main() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let archive = make(&dir.path().join("wide"));
    let lake = dir.path().join("lake");
    let mut cpu = Vec::new();
    let mut export = || {
        let _ = std::fs::remove_dir_all(&lake);
        let before = children_cpu();
        let begun = Instant::now();
        let program = env!("CARGO_BIN_EXE_jumpseat-export");
        let run = Command::new(program).args(["-a", &archive, "--parquet"]).arg(&lake).arg("bench").status();
        let took = begun.elapsed();
        assert!(run.is_ok_and(|status| status.success()), "it exports");
        cpu.push(children_cpu() - before);
        took
    };
    let [times] = race(rounds(5), [&mut export]);
    let tables = METRICS.div_ceil(BELOW);
    let expected = u64::from(tables) * u64::from(SAMPLES);
    assert_eq!(rows(&lake), expected, "each table has a row for each sample");
    let values = f64::from(METRICS) * f64::from(SAMPLES);
    Row::new("archive of 21,340 metrics x 1,000 samples to Parquet", Figure::time(&times, 1.0, 1.0, "s"))
        .goal(Goal::AtMost(GOAL_SECONDS))
        .headline()
        .print();
    let cpu = Times::of(cpu);
    Row::new("the same, processor time of a value", Figure::nanos(&cpu, values, "ns"))
        .goal(Goal::AtMost(GOAL_NANOS))
        .print();
}

/// The rows of all tables, by the footers of their files, without that of what there is.
fn rows(lake: &Path) -> u64 {
    let mut rows = 0;
    for entry in std::fs::read_dir(lake).expect("a directory").flatten() {
        let path = entry.path();
        rows += if path.is_file() {
            let file = std::fs::File::open(&path).expect("readable");
            let footer = SerializedFileReader::new(file).expect("a whole file");
            footer.metadata().file_metadata().num_rows().cast_unsigned()
        } else if path.ends_with("pcp.metrics") {
            0
        } else {
            self::rows(&path)
        };
    }
    rows
}

/// The type of metric number `n`.
fn value_type(n: u32) -> ValueType {
    [ValueType::U64, ValueType::U32, ValueType::Double, ValueType::U64][n as usize % 4]
}

/// Writes the archive, a sample every ten seconds. Its base name.
fn make(base: &Path) -> String {
    let label = LabelInfo { host: "bench".into(), zone: "UTC".into(), ..LabelInfo::default() };
    let mut archive = ArchiveWriter::create(base, label, WriteOptions::default()).expect("nothing is there");
    let pmid = |n: u32| Pmid::new(60, (n / 1000) as u16, (n % 1000) as u16);
    for n in 0..METRICS {
        let (value_type, semantics) = (value_type(n), Semantics::Counter);
        let desc = Desc { pmid: pmid(n), value_type, indom: InDom::NULL, semantics, units: Units::COUNT };
        archive.desc(&desc, &[format!("bench.group{}.metric{n}", n / BELOW)]).expect("described once");
    }
    let mut values = Fetched::new();
    for sample in 0..SAMPLES {
        values.clear();
        values.timestamp = Timestamp::new(START + i64::from(sample) * 10, 0);
        for n in 0..METRICS {
            let number = sample * (n % 977 + 1);
            values.begin_set(pmid(n));
            let value = match value_type(n) {
                ValueType::U32 => Value::U32(number),
                ValueType::Double => Value::Double(f64::from(number) / 8.0),
                _ => Value::U64(u64::from(number) * 4096),
            };
            values.push_value(PM_IN_NULL, &value).expect("values of one type");
            values.end_set();
        }
        archive.result(&values).expect("the disk has room");
    }
    archive.flush().expect("the disk has room");
    base.to_str().expect("a path of ours").to_owned()
}
