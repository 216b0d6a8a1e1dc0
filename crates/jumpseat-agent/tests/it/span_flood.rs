//! A million names and a million open spans: the memory for span metrics has its bound, and all are accounted for.

use std::fmt::Write as _;

use crate::ingest_support::{Desk, NOW};
use jumpseat_agent::config::SpansConfig;
use jumpseat_agent::{Fields, SourceSpans, Spans};
use jumpseat_source::event::Limits;
use jumpseat_source::registry::{Definition, RegistryConfig};
use rustc_hash::FxHashMap;
use support::alloc::held;

const SPANS: usize = 1_000_000;
const A_TIME: usize = 5000;
/// Names, each with 17 KiB at most, and open spans, each with about 64 bytes twice over while their table grows.
const NAMES: usize = 200;
const OPEN: usize = 10_000;
const ROOM: isize = (NAMES as isize + 1) * 20 * 1024 + OPEN as isize * 256 + 8 * 1024 * 1024;

/// What the core makes of what a connection sent.
fn take_in(
    desk: &mut Desk,
    spans: &mut Spans,
    open: &mut FxHashMap<i32, SourceSpans>,
    fields: &Fields,
) -> usize {
    desk.shared.lanes.flush();
    let mut names = 0;
    while let Some(delivery) = desk.inlet.take(|definition| {
        if let Definition::Span { id, source, name, span } = definition {
            spans.define(id, source, &name, span);
            names += 1;
        }
    }) {
        spans.batch(open, delivery.source, &delivery.batch, fields);
    }
    names
}

#[test]
fn a_million_names_and_a_million_open_spans_have_their_bounds() {
    let registry = RegistryConfig { max_types: 220, max_spans: NAMES, ..RegistryConfig::new(400) };
    let mut desk = Desk::with(Limits::default(), &registry, 1000);
    let limits = SpansConfig { max_open: OPEN as u32, ..SpansConfig::default() };
    let (mut spans, mut open_spans) = (Spans::new(400, limits), FxHashMap::default());
    let fields = Fields::default();
    let mut text = String::with_capacity(A_TIME * 64);
    let (before, mut most, mut names) = (held(), 0, 0);
    for first in (0..SPANS).step_by(A_TIME) {
        text.clear();
        for n in first..first + A_TIME {
            writeln!(text, r#"{{"ph":"b","id":{n},"type":"n{n}"}}"#).expect("a text takes all");
        }
        let used = desk.intake.feed(text.as_bytes(), NOW, &mut desk.shared, &mut desk.replies);
        assert_eq!(used, text.len());
        names += take_in(&mut desk, &mut spans, &mut open_spans, &fields);
        most = most.max(held() - before);
        assert!(spans.open() <= OPEN && most < ROOM, "{} open, {most} of {ROOM} bytes", spans.open());
    }
    assert_eq!(desk.intake.account.accepted, SPANS as u64);
    assert_eq!(names, NAMES + 1, "those, and one for all others");
    let insts: Vec<_> = (0..).map_while(|inst| spans.get(inst)).collect();
    assert_eq!(insts.len(), NAMES + 1);
    let (open, unfinished) = insts.iter().fold((0, 0), |(open, unfinished), span| {
        (open + span.active as usize, unfinished + span.unfinished as usize)
    });
    assert_eq!((open, open + unfinished, spans.untold), (OPEN, SPANS, 0));
    // Those that ended after all count, and leave room.
    text.clear();
    for n in SPANS - OPEN..SPANS {
        writeln!(text, r#"{{"ph":"e","id":{n}}}"#).expect("a text takes all");
    }
    desk.intake.feed(text.as_bytes(), NOW, &mut desk.shared, &mut desk.replies);
    take_in(&mut desk, &mut spans, &mut open_spans, &fields);
    assert_eq!(spans.open(), 0);
    let ended: u64 = (0..).map_while(|inst| spans.get(inst)).map(|span| span.count).sum();
    assert_eq!(ended, OPEN as u64);
    assert!(held() - before < ROOM);
}

/// Memory for each of 100 names whose spans take so long, in microseconds.
fn of_a_name(durations: impl Fn(u64) -> u64) -> isize {
    const MANY: usize = 100;
    let registry = RegistryConfig { max_types: 220, max_spans: MANY, ..RegistryConfig::new(400) };
    let mut desk = Desk::with(Limits::default(), &registry, 1000);
    let (mut spans, mut open) = (Spans::new(400, SpansConfig::default()), FxHashMap::default());
    let fields = Fields::default();
    let mut pass = |duration: u64| {
        let mut text = String::new();
        for n in 0..MANY {
            let (second, micros) = (duration / 1_000_000, duration % 1_000_000);
            writeln!(text, r#"{{"ph":"b","id":{n},"type":"n{n}","time":1000.0}}"#).expect("a text takes all");
            writeln!(text, r#"{{"ph":"e","id":{n},"time":{}.{micros:06}}}"#, 1000 + second)
                .expect("a text takes all");
        }
        desk.intake.feed(text.as_bytes(), NOW, &mut desk.shared, &mut desk.replies);
        take_in(&mut desk, &mut spans, &mut open, &fields);
    };
    // All there is but counts.
    pass(durations(0));
    let before = held();
    (0..100).for_each(|n| pass(durations(n)));
    let took = held() - before;
    let count: u64 = (0..).map_while(|inst| spans.get(inst)).map(|span| span.count).sum();
    assert_eq!(count, 101 * MANY as u64);
    took / MANY as isize
}

#[test]
fn a_name_takes_memory_for_durations_that_there_are() {
    let alike = of_a_name(|n| 1000 + 10 * n);
    let apart = of_a_name(|n| [1, 1_000_000_000][n as usize % 2]);
    assert!(alike < 1024, "{alike} bytes");
    assert!((2048..4096).contains(&apart), "{apart} bytes");
}
