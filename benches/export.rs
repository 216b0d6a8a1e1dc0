//! `jumpseat export --parquet` of 21,340 metrics in 1,000 samples, one after the other of four types, 100 below each name: how long
//! it takes, and how much processor time a value. pcp2arrow needs 5.5 s for as many.
//!
//! Beside it the floor of that: the bytes of the archive are read, and columns that are there in whole are encoded by the same library to memory; nothing
//! is taken out of a record.
//!
//! The archive and the files are made in the directory for temporary files, which needs 2 GB. Times count only if the files have all
//! rows.

mod common;

use std::hint::black_box;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::clock::children_cpu;
use common::{Figure, Goal, Row, Times, race, rounds};
use jumpseat::archive::{ArchiveWriter, LabelInfo, WriteOptions};
use jumpseat::model::{Desc, InDom, PM_IN_NULL, Pmid, Semantics, Timestamp, Units, Value, ValueType};
use jumpseat::pdu::Fetched;
use parquet::basic::{Compression, Encoding};
use parquet::data_type::{DoubleType, Int32Type, Int64Type};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

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
    let mut lakes = 0..;
    let lake = |number: u32| dir.path().join(format!("lake{number}"));
    let mut cpu = Vec::new();
    let mut export = || {
        // Each time another one, and none goes: for some seconds ext4 steps over each inode of a file that was deleted.
        let lake = lake(lakes.next().unwrap_or_default());
        let before = children_cpu();
        let begun = Instant::now();
        let program = env!("CARGO_BIN_EXE_jumpseat-export");
        let run = Command::new(program).args(["-a", &archive, "--parquet"]).arg(lake).arg("bench").status();
        let took = begun.elapsed();
        assert!(run.is_ok_and(|status| status.success()), "it exports");
        cpu.push(children_cpu() - before);
        took
    };
    let columns: Vec<Numbers> = (0..METRICS).map(Numbers::of).collect();
    let volume = format!("{archive}.0");
    let [times, floor] = race(rounds(5), [&mut export, &mut || least(&volume, &columns)]);
    let tables = METRICS.div_ceil(BELOW);
    let expected = u64::from(tables) * u64::from(SAMPLES);
    for number in 0..lakes.start {
        assert_eq!(rows(&lake(number)), expected, "each table has a row for each sample");
    }
    let values = f64::from(METRICS) * f64::from(SAMPLES);
    Row::new("archive of 21,340 metrics x 1,000 samples to Parquet", Figure::time(&times, 1.0, 1.0, "s"))
        .goal(Goal::AtMost(GOAL_SECONDS))
        .headline()
        .print();
    Row::new(
        "the floor of that: its bytes read, and columns encoded that are there",
        Figure::time(&floor, 1.0, 1.0, "s"),
    )
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

/// The value of metric number `n` in a sample.
fn value(n: u32, sample: u32) -> Value {
    let number = sample * (n % 977 + 1);
    match value_type(n) {
        ValueType::U32 => Value::U32(number),
        ValueType::Double => Value::Double(f64::from(number) / 8.0),
        _ => Value::U64(u64::from(number) * 4096),
    }
}

/// All values of a metric, as Parquet has them.
enum Numbers {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Double(Vec<f64>),
}

impl Numbers {
    fn of(n: u32) -> Numbers {
        let all = (0..SAMPLES).map(|sample| value(n, sample));
        match value_type(n) {
            ValueType::U32 => Numbers::Int32(
                all.map(|value| if let Value::U32(value) = value { value.cast_signed() } else { 0 })
                    .collect(),
            ),
            ValueType::Double => Numbers::Double(
                all.map(|value| if let Value::Double(value) = value { value } else { 0.0 }).collect(),
            ),
            _ => Numbers::Int64(
                all.map(|value| if let Value::U64(value) = value { value.cast_signed() } else { 0 })
                    .collect(),
            ),
        }
    }
}

/// A thread reads the archive, and two encode tables of columns.
fn least(volume: &str, columns: &[Numbers]) -> Duration {
    const THREADS: usize = 2;
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = std::fs::File::open(volume).expect("readable");
            let mut block = vec![0; 128 << 10];
            while file.read(&mut block).expect("readable") > 0 {}
        });
        for thread in 0..THREADS {
            scope.spawn(move || {
                columns.chunks(BELOW as usize).skip(thread).step_by(THREADS).for_each(|table| {
                    black_box(encoded(table));
                });
            });
        }
    });
    begun.elapsed()
}

/// A file with these columns, as `jumpseat export` has them encoded.
fn encoded(columns: &[Numbers]) -> Vec<u8> {
    let field = |(at, column): (usize, &Numbers)| {
        let name = match column {
            Numbers::Int32(_) => "int32",
            Numbers::Int64(_) => "int64",
            Numbers::Double(_) => "double",
        };
        format!("required {name} c{at};")
    };
    let fields: String = columns.iter().enumerate().map(field).collect();
    let schema = parse_message_type(&format!("message table {{ {fields} }}")).expect("a schema");
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true);
    for (at, column) in columns.iter().enumerate() {
        if !matches!(column, Numbers::Double(_)) {
            let path = ColumnPath::from(vec![format!("c{at}")]);
            properties = properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    let mut file = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties.build()))
        .expect("a file");
    let mut group = file.next_row_group().expect("a row group");
    for column in columns {
        let mut writer = group.next_column().expect("a column").expect("as many as the schema has");
        let written = match column {
            Numbers::Int32(values) => writer.typed::<Int32Type>().write_batch(values, None, None),
            Numbers::Int64(values) => writer.typed::<Int64Type>().write_batch(values, None, None),
            Numbers::Double(values) => writer.typed::<DoubleType>().write_batch(values, None, None),
        };
        assert_eq!(written.expect("memory"), SAMPLES as usize);
        writer.close().expect("memory");
    }
    group.close().expect("memory");
    file.into_inner().expect("memory")
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
            values.begin_set(pmid(n));
            values.push_value(PM_IN_NULL, &value(n, sample)).expect("values of one type");
            values.end_set();
        }
        archive.result(&values).expect("the disk has room");
    }
    archive.flush().expect("the disk has room");
    base.to_str().expect("a path of ours").to_owned()
}
