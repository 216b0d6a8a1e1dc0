//! Ingest allocates per batch, not per event.

use crate::ingest_support::{Desk, NOW};
use jumpseat_source::event::Limits;
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
