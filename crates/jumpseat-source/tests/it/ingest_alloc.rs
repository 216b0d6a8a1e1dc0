//! Ingest allocates per batch, not per event.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use crate::ingest_support::{Desk, NOW};
use jumpseat_source::Interval;
use jumpseat_source::event::Limits;
use jumpseat_source::gate::{SampleBy, Settings};
use jumpseat_source::tail::TailConfig;
use jumpseat_wire::encode::{Encoder, Record, Value};
use support::alloc::allocations;

const EVENTS: usize = 60_000;

/// Feeds `bytes` twice, to warm up and to count; returns allocations and batches of the second time.
fn count(bytes: &[u8], again: &[u8]) -> (u64, u64) {
    let mut desk = Desk::new(Limits::default());
    desk.intake.feed(bytes, NOW, &mut desk.shared, &mut desk.replies);
    desk.deliveries();
    let before = allocations();
    let used = desk.intake.feed(again, NOW, &mut desk.shared, &mut desk.replies);
    let allocations = allocations() - before;
    assert_eq!(used, again.len());
    let deliveries = desk.deliveries();
    assert_eq!(deliveries.iter().map(|delivery| delivery.batch.len()).sum::<usize>(), EVENTS);
    (allocations, deliveries.len() as u64)
}

#[test]
fn events_cost_no_allocation_of_their_own() {
    let line = "{\"time\":\"2026-11-20T13:16:06.5Z\",\"type\":\"t\",\"level\":\"warn\",\"msg\":\"esc\\u0061ped \\\"x\\\"\",\
                \"id\":7,\"o\":{\"a\":1,\"b\":[1,2]},\"f\":1.5,\"new\":true}\n";
    let lines = line.repeat(EVENTS).into_bytes();
    let mut frames = Vec::new();
    let mut encoder = Encoder::new(&mut frames);
    let fields: [(&[u8], Value<'_>); 2] = [(b"a", Value::I64(1)), (b"b", Value::Text(b"text"))];
    let record = Record {
        event_type: Some(b"t"),
        severity: Some(b"info"),
        message: Some(b"hello"),
        fields: &fields,
        ..Record::default()
    };
    encoder.record(&record, &mut frames).expect("few names");
    let mut more = Vec::new();
    for _ in 0..EVENTS {
        encoder.record(&record, &mut more).expect("few names");
    }
    for (what, first, again) in [("lines", &lines, &lines), ("frames", &frames, &more)] {
        let (allocations, batches) = count(first, again);
        assert!(batches > 10, "{what}: {batches} batches");
        // A batch is its two vectors, the second of which grows, and its tallies.
        let most = batches * 16;
        assert!(
            allocations <= most,
            "{what}: {allocations} allocations for {EVENTS} events in {batches} batches"
        );
    }
}

/// What waits until its trace is decided is copied into chunks, and nothing more.
#[test]
fn events_that_wait_for_their_traces_cost_no_allocation_of_their_own() {
    let mut desk = Desk::new(Limits::default());
    let registry = Arc::clone(desk.shared.lanes.registry());
    let (sample, sample_by) = (10, SampleBy::Tail);
    registry.gate(0).set(Settings { sample, sample_by, ..Settings::default() });
    // Other traces each time: what is remembered of the first must not decide about the second.
    let mut feed = |first: usize| {
        let lines: String = (0..EVENTS).fold(String::new(), |mut lines, n| {
            let (trace, severity) = (first + n % 500, if n % 50 == 49 { "error" } else { "info" });
            writeln!(lines, "{{\"trace_id\":\"{trace:032x}\",\"severity\":\"{severity}\",\"n\":{n}}}")
                .expect("a text takes all");
            lines
        });
        let before = allocations();
        let used = desk.intake.feed(lines.as_bytes(), NOW, &mut desk.shared, &mut desk.replies);
        assert_eq!(used, lines.len());
        let held = registry.tail().held().records();
        // Those of the traces that have failed wait as well, behind the first that is not decided.
        assert!(held > EVENTS as u64 / 2, "{held}");
        registry
            .tail()
            .configure(TailConfig { window: Interval(Duration::from_millis(100)), ..TailConfig::default() });
        let mut sum = (0, 0);
        // Nothing is waited for but the window.
        while sum.1 < EVENTS as u64 {
            for delivery in desk.deliveries() {
                sum = (sum.0 + delivery.batch.len(), sum.1 + delivery.tallies.received);
            }
        }
        registry.tail().configure(TailConfig::default());
        (allocations() - before, sum.0)
    };
    feed(0);
    let (allocations, kept) = feed(500);
    assert!((EVENTS / 50..EVENTS).contains(&kept), "{kept}");
    assert!(allocations < EVENTS as u64 / 50, "{allocations} allocations for {EVENTS} events");
}
