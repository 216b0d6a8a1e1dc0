//! `jumpseat export --otlp` of an archive: points a second by the clock, and by processor time of the program, with and without gzip.
//!
//! The receiver reads requests and answers them, and looks into none; it has a thread of its own in this process.

mod common;
use common::clock::children_cpu;
use common::{Figure, Goal, Row};

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

use jumpseat::archive::{ArchiveWriter, LabelInfo, WriteOptions};
use jumpseat::model::{Desc, InDom, Instance, Pmid, Semantics, Timestamp, Units, Value, ValueType};
use jumpseat::pdu::Fetched;

const EXPORT: &str = env!("CARGO_BIN_EXE_jumpseat-export");
const METRICS: u16 = 100;
const INSTANCES: i32 = 100;
const SAMPLES: u32 = 300;
const ROUNDS: usize = 7;
/// Points a second.
const GOAL: f64 = 1e6;

fn main() {
    let dir = tempfile::tempdir().expect("a directory");
    let archive = make(&dir.path().join("archive"));
    let listener = TcpListener::bind("localhost:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    std::thread::spawn(move || listener.incoming().flatten().for_each(|stream| take(&stream)));
    let run = |more: &[&str]| {
        let before = children_cpu();
        let wall = common::time(|| {
            let mut command = Command::new(EXPORT);
            command.args(["-a", &archive, "--otlp", &url, "--protocol", "http", "bench"]).args(more);
            let status = command.stderr(Stdio::null()).status();
            assert!(status.is_ok_and(|status| status.success()), "not all was taken");
        });
        (wall, children_cpu() - before)
    };
    let points = f64::from(METRICS) * f64::from(INSTANCES) * f64::from(SAMPLES);
    for (how, more) in [("", &["--no-gzip"][..]), (", gzip", &[])] {
        let [wall, cpu] = common::race(common::rounds(ROUNDS), [&mut || run(more).0, &mut || run(more).1]);
        let rate = |times| Figure::rate(times, points, "points/s");
        let what = format!("OTLP out of an archive{how}");
        Row::new(format!("{what}, by the clock"), rate(&wall)).goal(Goal::AtLeast(GOAL)).print();
        Row::new(format!("{what}, processor time"), rate(&cpu)).print();
    }
}

/// Takes requests until the client goes.
fn take(stream: &TcpStream) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        let mut line = String::new();
        loop {
            line.clear();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            if let Some(number) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                length = number.parse().unwrap_or(0);
            }
        }
        let taken = std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink());
        let mut writer = stream;
        if taken.is_err() || writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").is_err() {
            return;
        }
    }
}

/// Writes an archive of one record a second, counters and gauges. Its base name.
fn make(base: &Path) -> String {
    let label = LabelInfo { host: "bench".into(), zone: "UTC".into(), ..LabelInfo::default() };
    let mut archive = ArchiveWriter::create(base, label, WriteOptions::default()).expect("nothing is there");
    let indom = InDom::new(60, 1);
    let instances: Vec<Instance> =
        (0..INSTANCES).map(|id| Instance { id, name: format!("disk{id}") }).collect();
    let start = 1_790_000_000;
    archive.indom(Timestamp::new(start, 0), indom, &instances);
    let descs: Vec<Desc> = (0..METRICS)
        .map(|n| Desc {
            pmid: Pmid::new(60, 1, n),
            value_type: if n % 2 == 0 { ValueType::U64 } else { ValueType::Double },
            indom,
            semantics: if n % 2 == 0 { Semantics::Counter } else { Semantics::Instant },
            units: Units::BYTE,
        })
        .collect();
    for (n, desc) in descs.iter().enumerate() {
        archive.desc(desc, &[format!("bench.m{n}")]).expect("described once");
    }
    let mut values = Fetched::new();
    for record in 0..SAMPLES {
        values.clear();
        values.timestamp = Timestamp::new(start + i64::from(record), 0);
        for desc in &descs {
            values.begin_set(desc.pmid);
            for inst in 0..INSTANCES {
                let number = record * (inst + 2) as u32;
                let value = match desc.value_type {
                    ValueType::Double => Value::Double(f64::from(number) / 7.0),
                    _ => Value::U64(u64::from(number) * 4096),
                };
                values.push_value(inst, &value).expect("values of one type");
            }
            values.end_set();
        }
        archive.result(&values).expect("the disk has room");
    }
    archive.flush().expect("the disk has room");
    base.to_str().expect("a path of ours").to_owned()
}
