//! What the event log costs: a fetch against `memcpy` of the same bytes, and one client against 1,000.
//!
//! `cargo bench --bench event_log`; add `-- --quick` for a tenth of the rounds.

mod common;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use common::{Figure, Goal, Row, Times, race, rounds, time};
use jumpseat::event::log::LogConfig;
use jumpseat::event::{
    ArrayKind, Batch, CursorId, EventFlags, EventLog, FieldResolver, Filter, NetEventArray, Param,
};
use jumpseat::model::{Pmid, Timestamp};

/// Bytes of an array before its records.
const ARRAY_HEADER: usize = 8;
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
    let (alone, crowd) = common::repeat(|| (memory(&batch, 1), memory(&batch, CROWD))).into_iter().unzip();
    let bytes = |bytes| Figure::middle(bytes, "bytes an event");
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

/// When the event of this number was.
fn time_of(id: u64) -> Timestamp {
    Timestamp::new(1_700_000_000, id as u32 * 1000)
}

/// What the event of this number tells.
fn params(id: u64) -> [(Pmid, Param<'static>); 4] {
    [
        (FIELDS[0].1, Param::String(b"http.request")),
        (FIELDS[2].1, Param::String(if is_warning(id) { b"warn" } else { b"info" })),
        (STATUS, Param::U32(200)),
        (FIELDS[1].1, Param::String(b"GET /index.html in 12 ms")),
    ]
}

fn is_warning(id: u64) -> bool {
    id % 2 == 1
}

fn batch() -> Batch {
    let mut batch = Batch::with_capacity(64 * 1024);
    for id in 0..BATCH {
        let mut record = batch.record(time_of(id), EventFlags::POINT);
        params(id).into_iter().for_each(|(pmid, param)| record.param(pmid, param));
        record.commit().expect("a small record fits");
    }
    batch
}

/// The array of those of the events that are wanted, as it is built record by record.
fn built(kind: ArrayKind, batches: u64, is_wanted: fn(u64) -> bool) -> Vec<u8> {
    let mut array = NetEventArray::new(kind);
    for id in (0..batches).flat_map(|_| 0..BATCH).filter(|id| is_wanted(*id)) {
        let added = array.add_record(time_of(id), EventFlags::POINT);
        added.expect("it fits");
        params(id).into_iter().for_each(|(pmid, param)| array.add_param(pmid, param).expect("it fits"));
    }
    array.get().to_vec()
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
    /// What it gives, as one array.
    expected: Vec<u8>,
}

impl Reader {
    fn new(kind: ArrayKind, filter: Option<&str>, expected: Vec<u8>) -> Reader {
        let mut log = new_log(256 << 20);
        let cursor = log.join();
        log.set_filter(cursor, parse(filter), &Fields);
        Reader { log, cursor, kind, out: Vec::new(), expected }
    }

    /// The time to read it all, in as many arrays as it takes.
    fn round(&mut self, batch: &Batch, batches: u64) -> Duration {
        (0..batches).for_each(|_| self.log.append(batch.clone()));
        let (mut took, mut more) = (Duration::ZERO, true);
        let mut expected = &self.expected[ARRAY_HEADER..];
        while more {
            self.out.clear();
            took += time(|| {
                let outcome = self.log.read(self.cursor, self.kind, &mut self.out, usize::MAX);
                more = outcome.expect("the cursor is known").more;
            });
            let records = self.out.get(ARRAY_HEADER..).unwrap_or_default();
            let rest = expected.strip_prefix(records);
            expected = rest.expect("the records are those that are built one by one");
        }
        assert!(expected.is_empty(), "all records are there");
        took
    }
}

/// Reading all at once against memcpy of all.
fn reads(batch: &Batch, records: u64) {
    let batches = records.div_ceil(BATCH);
    let bytes = batch.bytes().repeat(batches as usize);
    let mut copy = Vec::new();
    let reader = |kind, filter, is_wanted| Reader::new(kind, filter, built(kind, batches, is_wanted));
    let mut highres = reader(ArrayKind::HighRes, None, |_| true);
    let mut event = reader(ArrayKind::Event, None, |_| true);
    let mut filtered = reader(ArrayKind::Event, Some("severity >= warn"), is_warning);
    let ends: Vec<usize> = (0..batches as usize)
        .flat_map(|at| batch.ends().iter().map(move |&end| at * batch.bytes().len() + end as usize))
        .collect();
    let mut places = vec![0; bytes.len()];
    let [copy, each, highres, event, filtered] = race(
        rounds(100),
        [
            &mut || {
                // Written just now, as what is in the logs.
                let source = bytes.clone();
                copy.clear();
                let took = time(|| copy.extend_from_slice(black_box(&source)));
                assert!(copy == bytes);
                took
            },
            &mut || {
                let source = bytes.clone();
                time(|| copy_each(black_box(&source), &ends, black_box(&mut places)))
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
    let rate = |times: &Times| Figure::rate(times, bytes.len() as f64, "B/s");
    Row::new(format!("fetch of {} records, EVENT", batches * BATCH), rate(&event))
        .peer("one copy for each record, nothing else", rate(&each))
        .note("the least that can be done where records get shorter one by one")
        .print();
    row("EVENT, half of them filtered", &filtered).print();
}

/// Copies each record alone, as much of it as an EVENT record has, without a look at it.
fn copy_each(source: &[u8], ends: &[usize], mut places: &mut [u8]) {
    const SHORTER: usize = 8;
    let mut from = 0;
    for &to in ends {
        let record = &source[from + SHORTER..to];
        let (place, behind) = places.split_at_mut(record.len());
        place.copy_from_slice(record);
        (places, from) = (behind, to);
    }
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
