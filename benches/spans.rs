//! What span metrics cost the event loop: nanoseconds for a START and its END, from packed batches.
//!
//! There is no peer that does the same (the OpenTelemetry Collector's span metrics connector takes whole spans, which
//! know their name and duration). The floor is what nothing can do without, with the same spans as plain values that need no
//! parsing: a `HashMap` of open spans (with a keyed hash, too), one of names, and for each name count, time and an
//! array of buckets; with dimensions, one more by name and values, and the same figures for each of these.
//!
//! With two dimensions, a START has the id of its trace, too, and an END the two values; each name has four combinations of them.
//! Ten million distinct ones are offered, some times over, to see that memory is flat.
//!
//! And what a span costs the agent as it runs (`jumpseat serve`), from the ingest socket to the log, all its threads: with span
//! metrics, and against the same lines as events that are no spans.
//!
//! `cargo bench --bench spans`; add `-- --quick` for a tenth of the rounds.

mod common;

use std::collections::HashMap;
use std::fmt::Write;
use std::hint::black_box;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::agent::Served;
use common::clock::resident_kib;
use common::{Figure, Goal, Row, Times, race, repeat, rounds, time};
use jumpseat::agent::config::{DimensionsConfig, SpansConfig};
use jumpseat::agent::{Fields, SourceSpans, Spans};
use jumpseat::client::group::{FetchGroup, Scale};
use jumpseat::event::{Batch, EventFlags, Param};
use jumpseat::model::{Inst, Pmid, Timestamp, ValueType};
use jumpseat::source::registry::{SentName, WellKnown};
use rustc_hash::FxHashMap;

const AGENT: &str = env!("CARGO_BIN_EXE_jumpseat");
const DOMAIN: u16 = 400;
/// Spans of a round, in batches as a busy source sends them.
const SPANS: u64 = 100_000;
const BATCH: u64 = 200;
/// Batches without spans are to cost next to nothing: no more than this for each record.
const POINT_GOAL_NS: f64 = 10.0;
const GOAL_NS: f64 = 60.0;
/// Flat: what the allocator may take by the way.
const GOAL_GROWTH_KIB: f64 = 1024.0;
const ROUTE: Pmid = Pmid::new(DOMAIN, 16, 20);
const STATUS: Pmid = Pmid::new(DOMAIN, 16, 21);
const TRACE_ID: Pmid = Pmid::new(DOMAIN, 16, 22);

fn main() {
    for (names, open) in [(1, 1), (100, 64), (1000, 10_000)] {
        let texts: Vec<String> = (0..names).map(|name| format!("name{name}")).collect();
        let marks = marks(&texts, open);
        let batches: Vec<Batch> = marks.chunks(2 * BATCH as usize).map(batch).collect();
        let (mut ours, mut open_spans) = ours(names);
        let mut floor = Floor::default();
        let fields = Fields::default();
        let [ours, floor] = race(
            rounds(20),
            [
                &mut || {
                    time(|| {
                        for batch in &batches {
                            ours.batch(&mut open_spans, 0, batch, &fields);
                        }
                    })
                },
                &mut || time(|| marks.iter().for_each(|mark| _ = floor.take(mark))),
            ],
        );
        let each = |times: &Times| Figure::nanos(times, SPANS as f64, "ns a span");
        Row::new(format!("span metrics, {names} names, {open} open at a time"), each(&ours))
            .peer("plain maps", each(&floor))
            .goal(Goal::AtMost(GOAL_NS))
            .headline()
            .print();
    }
    for (names, open) in [(1, 1), (100, 64), (1000, 10_000)] {
        dimensions(names, open);
    }
    flood();
    points();
    served();
}

/// Spans with two dimensions: 100,000 of these names.
fn dimensions(names: u64, open: u64) {
    let texts: Vec<String> = (0..names).map(|name| format!("name{name}")).collect();
    let marks = marks(&texts, open);
    let batches: Vec<Batch> = marks
        .chunks(2 * BATCH as usize)
        .map(|marks| {
            let mut batch = Batch::default();
            marks.iter().for_each(|mark| put_with(&mut batch, mark, mark.id / names % 4));
            batch
        })
        .collect();
    let (mut spans, fields) = with_dimensions(names);
    let mut open_spans = FxHashMap::default();
    let routes = [0, 1, 2, 3].map(|values| format!("/users/{values}"));
    let (mut floor, mut series) = (Floor::default(), SeriesFloor::default());
    let [times, least] = race(
        rounds(20),
        [
            &mut || {
                time(|| {
                    for batch in &batches {
                        spans.batch(&mut open_spans, 0, batch, &fields);
                    }
                })
            },
            &mut || {
                time(|| {
                    for mark in &marks {
                        if let Some((name, nanos)) = floor.take(mark) {
                            let values = mark.id / names % 4;
                            series.take((name, &routes[values as usize], 200 + values), nanos);
                        }
                    }
                })
            },
        ],
    );
    assert_eq!(series.places.len() as u64, 4 * names, "the floor has as many combinations");
    let what = format!("span metrics with two dimensions, {names} names, {open} open at a time");
    let each = |times: &Times| Figure::nanos(times, SPANS as f64, "ns a span");
    Row::new(what, each(&times)).peer("plain maps", each(&least)).goal(Goal::AtMost(GOAL_NS)).print();
}

/// Some million spans, each with other values than all before, several times over.
fn flood() {
    let number = rounds(10) as u64 * 1_000_000;
    let (mut grown, mut each) = (Vec::new(), Vec::new());
    for (more, took) in repeat(|| flooded(number)) {
        grown.push(more as f64);
        each.push(took.as_nanos() as f64 / number as f64);
    }
    let what = format!("growth by {} million distinct label sets", number / 1_000_000);
    Row::new(what, Figure::most(grown, "KiB")).goal(Goal::AtMost(GOAL_GROWTH_KIB)).print();
    Row::new("the same, with making the batches", Figure::costs(each, "ns a span")).print();
}

/// KiB by which this process grows with so many spans, and how long they take.
fn flooded(number: u64) -> (u64, Duration) {
    let (mut spans, fields) = with_dimensions(1);
    let mut open_spans = FxHashMap::default();
    let mut batch = Batch::default();
    let mut offer = |from: u64, number: u64| {
        for first in (from..from + number).step_by(BATCH as usize) {
            batch.clear();
            for n in first..first + BATCH {
                let start = Mark { phase: EventFlags::START, id: n, nanos: n, name: Some("name0") };
                put_with(&mut batch, &start, n);
                put_with(
                    &mut batch,
                    &Mark { phase: EventFlags::END, name: None, nanos: n + 1000, ..start },
                    n,
                );
            }
            spans.batch(&mut open_spans, 0, &batch, &fields);
        }
    };
    // What a budget of series takes is there then.
    offer(0, 100_000);
    let before = resident_kib(std::process::id());
    let took = time(|| offer(100_000, number));
    (resident_kib(std::process::id()).saturating_sub(before), took)
}

/// Lines of STARTs and ENDs to the agent, 64 spans of 100 names open at a time, against the same as POINTs.
fn served() {
    let texts: Vec<String> = (0..100).map(|name| format!("name{name}")).collect();
    let marks = marks(&texts, 64);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let lines = |start: &str, end: &str| {
        marks.iter().fold(String::new(), |mut lines, Mark { phase, id, nanos, name }| {
            let (phase, name) = (if *phase == EventFlags::START { start } else { end }, name.unwrap_or("done"));
            let time = now + nanos / 1_000_000_000;
            let nanos = nanos % 1_000_000_000;
            let _ = writeln!(
                lines,
                r#"{{"source":"bench","time":{time}.{nanos:09},"type":"{name}","phase":"{phase}","span_id":"{id:016x}","status":200}}"#
            );
            lines
        })
    };
    let (spans, points) = (lines("start", "end"), lines("point", "point"));
    let feed = |lines: &str, are_spans: bool| {
        let dir = tempfile::tempdir().expect("a directory");
        let agent = Served::start(AGENT, dir.path(), "");
        let before = agent.cpu();
        agent.feed(lines.as_bytes(), marks.len() as u64);
        // The summary comes when all is handed over; that all of it was taken out again is what the first answer waits for.
        let mut group = FetchGroup::host(&agent.address.to_string()).expect("it listens");
        let count =
            group.item::<u64>("jumpseat.source.received", Some("bench"), Scale::Instant).expect("known");
        while {
            group.fetch().expect("it answers");
            group.value(count).expect("a number") < marks.len() as u64
        } {
            std::thread::sleep(Duration::from_millis(1));
        }
        let took = agent.cpu() - before;
        if are_spans {
            let all = group.item::<u64>("jumpseat.span.count", Some("bench/name0"), Scale::Instant);
            group.fetch().expect("it answers");
            assert_eq!(group.value(all.expect("known")).expect("a number"), SPANS / 100);
        }
        took
    };
    let [spans, points] = race(rounds(10), [&mut || feed(&spans, true), &mut || feed(&points, false)]);
    let each = |times: &Times| Figure::nanos(times, marks.len() as f64, "ns an event");
    Row::new("START and END as NDJSON, from the socket to the log, with span metrics", each(&spans))
        .peer("the same as events that are no spans", each(&points))
        .print();
}

/// Records that are no part of a span: only their flags are looked at.
fn points() {
    let mut batch = Batch::default();
    for n in 0..BATCH {
        put(&mut batch, &Mark { phase: EventFlags::POINT, id: n, nanos: n, name: Some("request") });
    }
    let ((mut spans, mut open_spans), fields) = (ours(1), Fields::default());
    let passes = 1000;
    let mut work = || -> Duration {
        time(|| {
            (0..passes).for_each(|_| spans.batch(&mut open_spans, 0, black_box(&batch), &fields));
        })
    };
    let [times] = race(rounds(20), [&mut work]);
    Row::new(
        "span metrics, records that are no spans",
        Figure::nanos(&times, (passes * BATCH) as f64, "ns a record"),
    )
    .goal(Goal::AtMost(POINT_GOAL_NS))
    .print();
}

fn ours(names: u64) -> (Spans, FxHashMap<Inst, SourceSpans>) {
    let mut spans = Spans::new(DOMAIN, SpansConfig::default());
    for name in 0..names {
        let sent = SentName::of(Some(format!("name{name}").as_bytes()));
        spans.define(name as Inst, 0, &format!("app/name{name}"), sent);
    }
    (spans, FxHashMap::default())
}

/// The same with dimensions, and the fields that are known.
fn with_dimensions(names: u64) -> (Spans, Fields) {
    let fields = ["http.route", "http.status_code"].map(str::to_owned).to_vec();
    let table = DimensionsConfig { fields, max_per_source: 60_000, ..DimensionsConfig::default() };
    let limits = SpansConfig { max_series: 60_000, ..SpansConfig::default() };
    let mut spans = Spans::with_dimensions(DOMAIN, limits, vec![table]);
    for name in 0..names {
        let sent = SentName::of(Some(format!("name{name}").as_bytes()));
        spans.define(name as Inst, 0, &format!("app/name{name}"), sent);
    }
    let mut fields = Fields::default();
    for (pmid, name) in [(ROUTE, "http.route"), (STATUS, "http.status_code"), (TRACE_ID, "trace_id")] {
        let value_type = if pmid == STATUS { ValueType::U64 } else { ValueType::String };
        fields.define(pmid, name.replace('.', "_"), name.to_owned(), value_type);
    }
    (spans, fields)
}

#[derive(Clone, Copy)]
struct Mark<'a> {
    phase: EventFlags,
    id: u64,
    nanos: u64,
    name: Option<&'a str>,
}

/// STARTs and ENDs of spans with these names. The END of each comes `open` spans later.
fn marks(names: &[String], open: u64) -> Vec<Mark<'_>> {
    let both = |n: u64| {
        let name = names.get(n as usize % names.len()).map(String::as_str);
        let start = Mark { phase: EventFlags::START, id: n, nanos: n * 1000, name };
        let end = n.checked_sub(open).map(|id| {
            // Durations from a microsecond to a second.
            let nanos = id * 1000 + 1000 + id * 7919 % 1_000_000_000;
            Mark { phase: EventFlags::END, id, nanos, name: None }
        });
        [(n < SPANS).then_some(start), end].into_iter().flatten()
    };
    (0..SPANS + open).flat_map(both).collect()
}

fn batch(marks: &[Mark<'_>]) -> Batch {
    let mut batch = Batch::default();
    marks.iter().for_each(|mark| put(&mut batch, mark));
    batch
}

fn put(batch: &mut Batch, mark: &Mark<'_>) {
    let time = Timestamp::from_nanos(mark.nanos.into());
    let mut record = batch.record(time, mark.phase | EventFlags::ID);
    record.param(WellKnown::SpanIdU64.pmid(DOMAIN), Param::U64(mark.id));
    if let Some(name) = mark.name {
        record.param(WellKnown::Type.pmid(DOMAIN), Param::String(name.as_bytes()));
    }
    record.param(Pmid::new(DOMAIN, 16, 8), Param::U64(200));
    record.commit().expect("a small record");
}

/// The same with the id of a trace, or with values of dimensions of this number.
fn put_with(batch: &mut Batch, mark: &Mark<'_>, values: u64) {
    let mut record = batch.record(Timestamp::from_nanos(mark.nanos.into()), mark.phase | EventFlags::ID);
    record.param(WellKnown::SpanIdU64.pmid(DOMAIN), Param::U64(mark.id));
    if let Some(name) = mark.name {
        record.param(WellKnown::Type.pmid(DOMAIN), Param::String(name.as_bytes()));
    }
    if mark.phase == EventFlags::START {
        record.param(TRACE_ID, Param::String(b"0af7651916cd43dd8448eb211c80319c"));
    } else {
        record.param(ROUTE, Param::String(format!("/users/{values}").as_bytes()));
        record.param(STATUS, Param::U64(200 + values % 4));
    }
    record.commit().expect("a small record");
}

/// The least that tells count, time and distribution of spans by name.
#[derive(Default)]
struct Floor<'a> {
    open: HashMap<u64, (usize, u64)>,
    names: HashMap<&'a str, usize>,
    figures: Vec<Figures>,
}

struct Figures {
    count: u64,
    time: u64,
    buckets: [u64; 64],
}

impl Default for Figures {
    fn default() -> Figures {
        Figures { count: 0, time: 0, buckets: [0; 64] }
    }
}

impl<'a> Floor<'a> {
    /// The name of a span that ends, and how long it was.
    fn take(&mut self, mark: &Mark<'a>) -> Option<(usize, u64)> {
        if let Some(name) = mark.name {
            let figures = &mut self.figures;
            let at = *self.names.entry(name).or_insert_with(|| {
                figures.push(Figures::default());
                figures.len() - 1
            });
            self.open.insert(mark.id, (at, mark.nanos));
            return None;
        }
        let (at, began) = self.open.remove(&mark.id)?;
        let nanos = (mark.nanos - began).max(1);
        self.figures[at].add(nanos);
        Some((at, nanos))
    }
}

/// The same by name and two values, which are there as they are.
#[derive(Default)]
struct SeriesFloor<'a> {
    places: HashMap<(usize, &'a str, u64), usize>,
    figures: Vec<Figures>,
}

impl<'a> SeriesFloor<'a> {
    fn take(&mut self, key: (usize, &'a str, u64), nanos: u64) {
        let figures = &mut self.figures;
        let at = *self.places.entry(key).or_insert_with(|| {
            figures.push(Figures::default());
            figures.len() - 1
        });
        figures[at].add(nanos);
    }
}

impl Figures {
    fn add(&mut self, nanos: u64) {
        self.count += 1;
        self.time += nanos;
        self.buckets[nanos.ilog2() as usize] += 1;
    }
}
