//! What the event log costs, against `memcpy` of the same bytes in the same run.
//!
//! `cargo bench --bench event_log`; the first argument changes the number of rounds.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jumpseat::event::log::LogConfig;
use jumpseat::event::{ArrayKind, Batch, EventFlags, EventLog, FieldResolver, Filter, Param};
use jumpseat::model::{Pmid, Timestamp};

const MISSED: Pmid = Pmid::new(400, 16, 5);
const FIELDS: [(&str, Pmid); 3] = [
    ("type", Pmid::new(400, 16, 0)),
    ("message", Pmid::new(400, 16, 1)),
    ("severity", Pmid::new(400, 16, 2)),
];
const STATUS: Pmid = Pmid::new(400, 16, 8);
/// Records of a batch, as a busy source sends them.
const BATCH: u64 = 400;

struct Fields;

impl FieldResolver for Fields {
    fn generation(&self) -> u64 {
        1
    }

    fn resolve(&self, name: &str, found: &mut dyn FnMut(Pmid)) {
        FIELDS.iter().filter(|(field, _)| *field == name).for_each(|&(_, pmid)| found(pmid));
    }
}

fn main() {
    let rounds = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(60);
    let batch = batch();
    let len = batch.bytes().len() as f64 / batch.len() as f64;
    println!("records of {len:.0} packed bytes with 4 parameters, median of {rounds} rounds\n");
    println!("a fetch from the log, as part of the speed of memcpy of the same HIGHRES bytes (goal: 0.50):");
    for records in [1_000, 10_000, 50_000] {
        reads(&batch, records, rounds);
    }
    println!("\nappending batches of {BATCH} records that are packed already:");
    let alone = appends(&batch, 1, rounds, None);
    let crowd = appends(&batch, 1_000, rounds, None);
    println!("  1,000 cursors against 1: {:.2} times the time", crowd / alone);
    println!("\nthe same with the log full and no cursor keeping up, so that every record is evicted:");
    let alone = overflows(&batch, 1, rounds, None);
    let crowd = overflows(&batch, 1_000, rounds, None);
    println!("  1,000 cursors against 1: {:.2} times the time", crowd / alone);
    let text = "severity >= warn && type == \"http.request\"";
    let alone = overflows(&batch, 1, rounds, Some(text));
    let crowd = overflows(&batch, 1_000, rounds, Some(text));
    println!("  1,000 cursors against 1: {:.2} times the time", crowd / alone);
    println!("\nmemory for one event, one batch after the other, no cursor keeping up:");
    let (alone, crowd) = (memory(&batch, 1), memory(&batch, 1_000));
    println!("  1 cursor {alone:.1} bytes, 1,000 cursors {crowd:.1} bytes (packed {len:.1})");
}

fn batch() -> Batch {
    let mut batch = Batch::with_capacity(64 * 1024);
    for id in 0..BATCH {
        let mut record = batch.record(Timestamp::new(1_700_000_000, id as u32 * 1000), EventFlags::POINT);
        record.param(FIELDS[0].1, Param::String(b"http.request"));
        record.param(FIELDS[2].1, Param::String([&b"info"[..], b"warn"][id as usize % 2]));
        record.param(STATUS, Param::U32(200));
        record.param(FIELDS[1].1, Param::String(b"GET /index.html in 12 ms"));
        record.commit().expect("a small record fits");
    }
    batch
}

fn new_log(budget: usize) -> EventLog {
    EventLog::new(LogConfig { budget, recent: 100, missed_pmid: MISSED })
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64()
}

/// Reading all at once, each kind, without and with a filter, against memcpy.
fn reads(batch: &Batch, records: u64, rounds: usize) {
    let batches = records.div_ceil(BATCH);
    let bytes = batch.bytes().repeat(batches as usize);
    let mut log = new_log(256 << 20);
    let mut out = Vec::with_capacity(bytes.len() + 4096);
    let filter = Filter::parse("severity >= warn").expect("it is right").map(Arc::new);
    let (mut copy, mut highres, mut event, mut filtered) = (vec![], vec![], vec![], vec![]);
    for _ in 0..rounds {
        // Fresh memory, written just now, as in the log.
        let source = bytes.clone();
        out.clear();
        let start = Instant::now();
        out.extend_from_slice(black_box(&source));
        copy.push(start.elapsed());
        black_box(&out);

        for (kind, filter, times) in [
            (ArrayKind::HighRes, None, &mut highres),
            (ArrayKind::Event, None, &mut event),
            (ArrayKind::Event, filter.clone(), &mut filtered),
        ] {
            let cursor = log.join();
            log.set_filter(cursor, filter, &Fields);
            (0..batches).for_each(|_| log.append(batch.clone()));
            let mut took = Duration::ZERO;
            loop {
                out.clear();
                let start = Instant::now();
                let outcome = log.read(cursor, kind, &mut out, usize::MAX).expect("the cursor is known");
                took += start.elapsed();
                black_box(&out);
                if !outcome.more {
                    break;
                }
            }
            times.push(took);
            log.leave(cursor);
        }
    }
    let copy = median(copy);
    let speed = |time: f64| bytes.len() as f64 / time / 1e9;
    println!(
        "  {} records, {:.1} MB, memcpy {:.2} GB/s",
        batches * BATCH,
        bytes.len() as f64 / 1e6,
        speed(copy)
    );
    for (what, times) in
        [("HIGHRES", highres), ("EVENT", event), ("EVENT, filter that half of them pass", filtered)]
    {
        let time = median(times);
        println!("    {:.2}  {what}, {:.2} GB/s", copy / time, speed(time));
    }
}

fn clients(log: &mut EventLog, count: usize, filter: Option<&str>) {
    let filter = filter.and_then(|text| Filter::parse(text).expect("it is right")).map(Arc::new);
    for _ in 0..count {
        let cursor = log.join();
        log.set_filter(cursor, filter.clone(), &Fields);
    }
}

/// Seconds for one record while the log has room.
fn appends(batch: &Batch, cursors: usize, rounds: usize, filter: Option<&str>) -> f64 {
    let times = (0..rounds).map(|_| {
        let mut log = new_log(64 << 20);
        clients(&mut log, cursors, filter);
        let mut ready: Vec<Batch> = (0..250).map(|_| batch.clone()).collect();
        let start = Instant::now();
        ready.drain(..).for_each(|batch| log.append(batch));
        start.elapsed()
    });
    report(median(times.collect()), 250 * BATCH, cursors, filter)
}

/// Seconds for one record while each drives out another.
fn overflows(batch: &Batch, cursors: usize, rounds: usize, filter: Option<&str>) -> f64 {
    let mut log = new_log(4 << 20);
    clients(&mut log, cursors, filter);
    (0..100).for_each(|_| log.append(batch.clone()));
    let times = (0..rounds).map(|_| {
        let mut ready: Vec<Batch> = (0..100).map(|_| batch.clone()).collect();
        let start = Instant::now();
        ready.drain(..).for_each(|batch| log.append(batch));
        start.elapsed()
    });
    report(median(times.collect()), 100 * BATCH, cursors, filter)
}

fn report(seconds: f64, records: u64, cursors: usize, filter: Option<&str>) -> f64 {
    let each = seconds / records as f64;
    let filter = filter.map_or(String::new(), |text| format!(", all with the filter {text}"));
    println!("  {:.1} ns a record, {:.1} million/s with {cursors} cursors{filter}", each * 1e9, 1e-6 / each);
    each
}

/// Bytes held for one record.
fn memory(batch: &Batch, cursors: usize) -> f64 {
    let mut log = new_log(64 << 20);
    clients(&mut log, cursors, None);
    (0..250).for_each(|_| log.append(batch.clone()));
    log.stats().bytes as f64 / log.stats().records as f64
}
