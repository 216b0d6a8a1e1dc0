//! What the event log costs: a fetch against `memcpy` of the same bytes, and one client against 1,000.
//!
//! `cargo bench --bench event_log`; add `-- --quick` for a tenth of the rounds.

mod common;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use common::{Figure, Goal, Row, Times, race, rounds, time};
use jumpseat::event::log::LogConfig;
use jumpseat::event::{ArrayKind, Batch, CursorId, EventFlags, EventLog, FieldResolver, Filter, Param};
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
/// Of the speed of memcpy, for the kind that has to be made anew and for the one that is stored.
const GOAL_EVENT: f64 = 0.6;
const GOAL_HIGHRES: f64 = 0.6;
/// Many clients.
const CROWD: usize = 1_000;

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
    let batch = batch();
    let len = batch.bytes().len() as f64 / batch.len() as f64;
    println!("event log: records of {len:.0} packed bytes, 4 parameters, in batches of {BATCH}");
    for records in [1_000, 10_000, 50_000] {
        reads(&batch, records);
    }
    appends(&batch, "appending batches", 64 << 20, 250, None);
    appends(&batch, "appending batches, each driving out another", 4 << 20, 250, None);
    let filter = Some("severity >= warn && type == \"http.request\"");
    appends(&batch, "the same, all cursors with one filter", 4 << 20, 250, filter);
    let single = first(&batch);
    appends(&single, "appending single records", 64 << 20, 50_000, None);
    let (alone, crowd) = (memory(&batch, 1), memory(&batch, CROWD));
    let bytes = |bytes| Figure::cost(bytes, "bytes an event");
    Row::new(format!("memory of the log, {CROWD} cursors"), bytes(crowd))
        .peer("1 cursor", bytes(alone))
        .print();
}

/// The first record of a batch alone.
fn first(batch: &Batch) -> Batch {
    let mut single = batch.clone();
    single.truncate(1);
    single
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

/// A log with one cursor that is filled and read again and again.
struct Reader {
    log: EventLog,
    cursor: CursorId,
    kind: ArrayKind,
    out: Vec<u8>,
}

impl Reader {
    fn new(kind: ArrayKind, filter: Option<&str>) -> Reader {
        let mut log = new_log(256 << 20);
        let cursor = log.join();
        log.set_filter(cursor, parse(filter), &Fields);
        Reader { log, cursor, kind, out: Vec::new() }
    }

    /// The time to read it all, in as many arrays as it takes.
    fn round(&mut self, batch: &Batch, batches: u64) -> Duration {
        (0..batches).for_each(|_| self.log.append(batch.clone()));
        let mut took = Duration::ZERO;
        let mut more = true;
        while more {
            self.out.clear();
            took += time(|| {
                let outcome = self.log.read(self.cursor, self.kind, &mut self.out, usize::MAX);
                more = outcome.expect("the cursor is known").more;
            });
            black_box(&self.out);
        }
        took
    }
}

/// Reading all at once against memcpy of all.
fn reads(batch: &Batch, records: u64) {
    let batches = records.div_ceil(BATCH);
    let bytes = batch.bytes().repeat(batches as usize);
    let mut copy = Vec::new();
    let mut highres = Reader::new(ArrayKind::HighRes, None);
    let mut event = Reader::new(ArrayKind::Event, None);
    let mut filtered = Reader::new(ArrayKind::Event, Some("severity >= warn"));
    let [copy, highres, event, filtered] = race(
        rounds(100),
        [
            &mut || {
                // Written just now, as what is in the logs.
                let source = bytes.clone();
                copy.clear();
                let took = time(|| copy.extend_from_slice(black_box(&source)));
                black_box(&copy);
                took
            },
            &mut || highres.round(batch, batches),
            &mut || event.round(batch, batches),
            &mut || filtered.round(batch, batches),
        ],
    );
    let row = |what: &str, times: &Times| {
        let rate = |times: &Times| Figure::rate(times, bytes.len() as f64, "B/s");
        Row::new(format!("fetch of {} records, {what}", batches * BATCH), rate(times))
            .peer("memcpy", rate(&copy))
    };
    row("HIGHRES_EVENT", &highres).goal(Goal::Ratio(GOAL_HIGHRES)).print();
    row("EVENT", &event).goal(Goal::Ratio(GOAL_EVENT)).print();
    row("EVENT, half of them filtered", &filtered).print();
}

fn parse(filter: Option<&str>) -> Option<Arc<Filter>> {
    filter.and_then(|text| Filter::parse(text).expect("it is right")).map(Arc::new)
}

fn clients(log: &mut EventLog, count: usize, filter: Option<&str>) {
    let filter = parse(filter);
    for _ in 0..count {
        let cursor = log.join();
        log.set_filter(cursor, filter.clone(), &Fields);
    }
}

/// Appending `count` batches with many cursors against one, none of which reads.
fn appends(batch: &Batch, what: &str, budget: usize, count: usize, filter: Option<&str>) {
    let round = |cursors: usize| {
        let mut log = new_log(budget);
        clients(&mut log, cursors, filter);
        let mut ready: Vec<Batch> = (0..count).map(|_| batch.clone()).collect();
        time(|| ready.drain(..).for_each(|batch| log.append(batch)))
    };
    let [alone, crowd] = race(rounds(50), [&mut || round(1), &mut || round(CROWD)]);
    let records = (count * batch.len()) as f64;
    let rate = |times: &Times| Figure::rate(times, records, "records/s");
    Row::new(format!("{what}, {CROWD} cursors"), rate(&crowd))
        .peer("1 cursor", rate(&alone))
        .goal(Goal::Ratio(1.0 / 1.2))
        .print();
}

/// Bytes held for one record.
fn memory(batch: &Batch, cursors: usize) -> f64 {
    let mut log = new_log(64 << 20);
    clients(&mut log, cursors, None);
    (0..250).for_each(|_| log.append(batch.clone()));
    log.stats().bytes as f64 / log.stats().records as f64
}
