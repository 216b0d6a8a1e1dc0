//! Batches, losses, settings and order, by what the core gets.

use super::*;
use crate::event::{Event, Field, SeverityText, SpanId, Text, Value};
use crate::gate::{IngestFilter, SampleBy, Settings};
use crate::registry::{Definition, FIRST_FREE, RegistryConfig};
use crossbeam_channel::{Receiver, bounded};
use pcp_event::batch::record_time;
use pcp_event::{EventFlags, packed};
use std::sync::atomic::{AtomicU32, Ordering};

fn lanes(room: usize) -> (Lanes, Receiver<Delivery>, Arc<AtomicU32>) {
    let (registry, _) = Registry::open(&RegistryConfig::new(400)).expect("in memory");
    let (out, deliveries) = bounded(room);
    let woken = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&woken);
    let wake: Wake = Arc::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    (Lanes::new(registry, out, wake, Duration::ZERO), deliveries, woken)
}

const FIRST: Arrival = Arrival { conn: 1, time: Timestamp::new(0, 0) };

fn write(lanes: &mut Lanes, lane: LaneId, conn: ConnId, sec: i64) {
    let event = Event { time: Some(Timestamp::new(sec, 0)), ..Event::default() };
    lanes.write(Arrival { conn, ..Arrival::default() }, lane, b"", &event).expect("fits");
}

#[test]
fn what_cannot_be_handed_over_is_missed_before_the_next_delivery() {
    let (mut lanes, deliveries, woken) = lanes(1);
    let lane = lanes.source(b"app").expect("source");
    write(&mut lanes, lane, 1, 10);
    lanes.flush();
    assert_eq!(woken.load(Ordering::Relaxed), 1);
    write(&mut lanes, lane, 1, 11);
    write(&mut lanes, lane, 2, 12);
    lanes.reject(lane, Reason::Time);
    lanes.flush();
    assert!(lanes.is_pending());
    write(&mut lanes, lane, 2, 13);
    lanes.flush();
    assert_eq!((lanes.lost(1), lanes.lost(2)), (1, 2));

    let first = deliveries.try_recv().expect("the first");
    assert_eq!((first.batch.len(), first.missed, first.tallies.received), (1, None, 1));
    write(&mut lanes, lane, 2, 14);
    lanes.flush();
    let second = deliveries.try_recv().expect("the second");
    assert_eq!(second.missed, Some(Loss { count: 3, received: 3, time: Timestamp::new(13, 0) }));
    assert_eq!((second.batch.len(), second.tallies.received), (1, 4));
    assert_eq!(second.tallies.types.iter().map(|(_, n)| n).sum::<u64>(), 4);
    assert_eq!(second.tallies.rejected[Reason::Time as usize], 1);
    lanes.flush();
    assert!(!lanes.is_pending() && deliveries.is_empty());
    drop(deliveries);
    write(&mut lanes, lane, 2, 15);
    lanes.flush();
    assert!(lanes.is_closed());
}

#[test]
fn records_wait_for_room_although_counts_have_found_none() {
    let (registry, _) = Registry::open(&RegistryConfig::new(400)).expect("in memory");
    let (out, deliveries) = bounded(1);
    let mut lanes = Lanes::new(registry, out, Arc::new(|| ()), Duration::from_secs(60));
    let lane = lanes.source(b"app").expect("source");
    write(&mut lanes, lane, 1, 10);
    lanes.flush();
    // The channel is full: neither waits, and both are told later.
    lanes.bytes(lane, 100);
    lanes.flush();
    lanes.reject(lane, Reason::Time);
    lanes.flush();
    assert!(lanes.is_pending() && lanes.lost(1) == 0);
    // Records do, for the core to take what came before them.
    write(&mut lanes, lane, 1, 11);
    let core = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        [(); 2].map(|()| deliveries.recv_timeout(Duration::from_secs(60)).expect("both come"))
    });
    lanes.flush();
    let [first, second] = core.join().expect("it takes what comes");
    assert_eq!((first.batch.len(), first.tallies.rejected_total()), (1, 0));
    assert_eq!((second.batch.len(), second.missed), (1, None));
    assert_eq!((second.tallies.bytes, second.tallies.rejected_total()), (100, 1));
    assert!(lanes.lost(1) == 0 && !lanes.is_pending());
}

#[test]
fn fields_that_are_new_together_are_as_if_they_came_one_by_one() {
    let registry = || {
        let config = RegistryConfig { max_fields: FIRST_FREE + 2, ..RegistryConfig::new(400) };
        Registry::open(&config).expect("in memory")
    };
    let input = b"a b a c";
    let field = |at: usize, value| Field::new(Text::of_input(at, at + 1), value);
    // Of one name two types, and the same once more.
    let fields = vec![
        field(0, Value::I64(1)),
        field(2, Value::I64(2)),
        field(4, Value::I64(3)),
        field(4, Value::Bool(true)),
        field(6, Value::I64(4)),
    ];
    let written = |events: &[Event]| {
        let (registry, definitions) = registry();
        let (out, deliveries) = bounded(10);
        let mut lanes = Lanes::new(registry, out, Arc::new(|| {}), Duration::ZERO);
        lanes.set_taker(Taker::User(1));
        let lane = lanes.source(b"app").expect("source");
        for event in events {
            lanes.write(FIRST, lane, input, event).expect("fits");
        }
        lanes.flush();
        let delivery = deliveries.try_recv().expect("all in one");
        let params = delivery
            .batch
            .iter()
            .flat_map(|record| packed::params(record).map(|p| (p.pmid, p.bytes.to_vec())));
        let defined = definitions.try_iter().filter(|defined| matches!(defined, Definition::Field { .. }));
        let defined: Vec<String> = defined.map(|defined| format!("{defined:?}")).collect();
        let registry = lanes.registry();
        (params.collect::<Vec<_>>(), defined, delivery.tallies.folded, registry.over_share())
    };
    let together = Event { fields: fields.clone(), ..Event::default() };
    let alone: Vec<Event> =
        fields.iter().map(|field| Event { fields: vec![*field], ..Event::default() }).collect();
    let (params, _, folded, _) = written(std::slice::from_ref(&together));
    // One has its share of the two places, the rest is folded.
    assert_eq!((params.len(), folded), (5, 3), "{params:?}");
    assert_eq!(written(&[together]), written(&alone));
}

#[test]
fn what_is_held_waits_and_goes_whole() {
    let (mut lanes, deliveries, _) = lanes(1);
    lanes.hold();
    let lane = lanes.source(b"app").expect("source");
    for sec in 10..13 {
        write(&mut lanes, lane, 1, sec);
        lanes.flush();
    }
    assert!(lanes.is_stuck() && lanes.is_pending());
    assert_eq!(deliveries.try_recv().expect("the first").batch.len(), 1);
    lanes.flush();
    let second = deliveries.try_recv().expect("the second");
    assert_eq!((second.batch.len(), second.missed, second.tallies.received), (2, None, 2));
    assert_eq!(second.tallies.types.iter().map(|(_, n)| n).sum::<u64>(), 2);
    assert!(!lanes.is_stuck() && !lanes.is_pending() && lanes.lost(1) == 0);
}

#[test]
fn a_full_batch_leaves_at_once_and_a_senders_loss_keeps_its_place() {
    let (mut lanes, deliveries, _) = lanes(1000);
    let lane = lanes.source(b"app").expect("source");
    // A record without parameters has 24 bytes.
    let full = BATCH_BYTES.div_ceil(24) as i64;
    for sec in 1..full {
        write(&mut lanes, lane, 1, sec);
    }
    assert!(deliveries.is_empty());
    for sec in [full, full + 1] {
        write(&mut lanes, lane, 1, sec);
    }
    assert_eq!(deliveries.len(), 1);
    lanes.missed(lane, 7, Timestamp::new(50_000, 1));
    write(&mut lanes, lane, 1, 50_001);
    lanes.flush();
    let all: Vec<Delivery> = deliveries.try_iter().collect();
    assert_eq!(all.iter().map(|d| d.batch.len()).sum::<usize>(), full as usize + 2);
    let last = all.last().expect("several");
    assert_eq!(last.missed, Some(Loss { count: 7, received: 0, time: Timestamp::new(50_000, 1) }));
    assert_eq!((last.batch.len(), last.tallies.received), (1, 1));
    assert_eq!(lanes.source(b"app"), Ok(lane));
}

#[test]
fn what_a_gate_keeps_back_is_dropped_and_counted_by_cause() {
    let (mut lanes, deliveries, _) = lanes(1000);
    let lane = lanes.source(b"app").expect("source");
    let gate = lanes.registry().gate(0);
    let mut counts = Vec::new();
    for settings in [
        Settings::default(),
        Settings { enabled: false, ..Settings::default() },
        Settings { filter: IngestFilter::parse("exists(nothing)").expect("a filter"), ..Settings::default() },
        Settings { sample: 4, ..Settings::default() },
        Settings::default(),
    ] {
        gate.set(settings);
        (0..10).for_each(|sec| write(&mut lanes, lane, 1, sec));
        lanes.flush();
        let all: Vec<Delivery> = deliveries.try_iter().collect();
        let [delivery] = &all[..] else { panic!("{all:?}") };
        assert_eq!(delivery.tallies.received, 10);
        assert_eq!(delivery.tallies.types.iter().map(|(_, n)| n).sum::<u64>(), 10);
        counts.push((delivery.batch.len(), delivery.tallies.dropped));
    }
    let [all, none] = [(10, [0, 0, 0]), (0, [10, 0, 0])];
    assert_eq!(counts, [all, none, (0, [0, 10, 0]), (3, [0, 0, 7]), all]);
}

#[test]
fn a_trace_is_kept_or_dropped_as_a_whole() {
    let (mut lanes, deliveries, _) = lanes(1000);
    let gate = {
        lanes.source(b"app").expect("source");
        lanes.registry().gate(0)
    };
    gate.set(Settings { sample: 3, sample_by: SampleBy::Trace, ..Settings::default() });
    let lane = lanes.source(b"app").expect("source");
    for id in (0..300).chain(0..300) {
        let event = Event { id: Some(SpanId::U64(id)), phase: EventFlags::START, ..Event::default() };
        lanes.write(FIRST, lane, b"", &event).expect("fits");
    }
    lanes.flush();
    let mut times = std::collections::HashMap::new();
    for delivery in deliveries.try_iter() {
        for at in 0..delivery.batch.len() {
            let record = delivery.batch.get(at).expect("it is there");
            let id = packed::params(record).next().expect("an id").bytes.to_vec();
            *times.entry(id).or_insert(0) += 1;
        }
    }
    assert!(times.values().all(|times| *times == 2), "{times:?}");
    assert!((60..140).contains(&times.len()), "{} of 300", times.len());
}

#[test]
fn what_is_held_leaves_in_order_and_before_a_loss_and_at_the_end() {
    let (mut lanes, deliveries, _) = lanes(1000);
    let lane = lanes.source(b"app").expect("source");
    let window = Duration::from_secs(20);
    lanes.registry().gate(0).set(Settings { order_window: window, ..Settings::default() });
    let times = |delivery: &Delivery| -> Vec<i64> {
        let batch = &delivery.batch;
        (0..batch.len()).filter_map(|at| batch.get(at)).map(|record| record_time(record).sec).collect()
    };
    for sec in [103, 101, 102] {
        write(&mut lanes, lane, 1, sec);
    }
    lanes.flush();
    assert!(lanes.is_pending() && deliveries.is_empty(), "they wait");
    lanes.missed(lane, 5, Timestamp::new(104, 0));
    let first = deliveries.try_recv().expect("the loss ends their wait");
    assert_eq!((times(&first), first.missed, first.tallies.received), (vec![101, 102, 103], None, 3));
    write(&mut lanes, lane, 1, 102);
    write(&mut lanes, lane, 1, 107);
    write(&mut lanes, lane, 1, 106);
    lanes.flush();
    let second = deliveries.try_recv().expect("the loss");
    assert_eq!((times(&second), second.missed.map(|loss| loss.count)), (vec![102], Some(5)));
    assert_eq!((second.tallies.late, second.tallies.received), (1, 1));
    write(&mut lanes, lane, 1, 150);
    lanes.flush();
    assert_eq!(times(&deliveries.try_recv().expect("a later one lets go of them")), [106, 107]);
    drop(lanes);
    assert_eq!(times(&deliveries.try_recv().expect("the end lets go of all")), [150]);
}

/// Lanes of two threads with a source each, of which one of ever so many traces is kept by tail.
fn two_threads() -> ([Lanes; 2], [LaneId; 2], Receiver<Delivery>) {
    let (registry, _) = Registry::open(&RegistryConfig::new(400)).expect("in memory");
    let (out, deliveries) = bounded(1000);
    let lanes = || Lanes::new(Arc::clone(&registry), out.clone(), Arc::new(|| ()), Duration::ZERO);
    let mut threads = [lanes(), lanes()];
    let [web, db] = &mut threads;
    let ids = [web.source(b"web").expect("source"), db.source(b"db").expect("source")];
    for source in 0..2 {
        let settings = Settings { sample: 1_000_000, sample_by: SampleBy::Tail, ..Settings::default() };
        registry.gate(source).set(settings);
    }
    (threads, ids, deliveries)
}

fn traced(lanes: &mut Lanes, lane: LaneId, trace: &str, severity: &'static str, sec: i64) {
    let input = format!("trace_id{trace}");
    let (time, severity) = (Some(Timestamp::new(sec, 0)), Some(SeverityText::Word(severity)));
    let mut event = Event { time, severity, ..Event::default() };
    if !trace.is_empty() {
        let [name, value] = [(0, 8), (8, input.len())].map(|(start, end)| Text::of_input(start, end));
        event.fields.push(Field::new(name, Value::Text(value)));
    }
    lanes.write(FIRST, lane, input.as_bytes(), &event).expect("fits");
}

/// Times of all records by source, and what was received, dropped and missed.
fn outcome(deliveries: &Receiver<Delivery>) -> [(Vec<i64>, u64, u64, u64); 2] {
    let mut outcome = [const { (Vec::new(), 0, 0, 0) }; 2];
    for delivery in deliveries.try_iter() {
        let (times, received, dropped, missed) = &mut outcome[delivery.source as usize];
        times.extend(delivery.batch.iter().map(|record| record_time(record).sec));
        *received += delivery.tallies.received;
        *dropped += delivery.tallies.dropped[crate::Cause::Sampled as usize];
        *missed += delivery.missed.map_or(0, |loss| loss.count);
    }
    outcome
}

#[test]
fn a_failure_in_one_source_keeps_the_trace_in_all() {
    let ([mut web, mut db], [of_web, of_db], deliveries) = two_threads();
    let tail = Arc::clone(web.registry().tail());
    for (sec, trace) in [(1, "good"), (2, "bad"), (3, ""), (4, "good"), (5, "bad")] {
        traced(&mut web, of_web, trace, "info", sec);
        traced(&mut db, of_db, trace, "info", sec);
    }
    web.flush();
    db.flush();
    assert!(web.is_pending() && db.is_pending());
    assert_eq!(outcome(&deliveries), [const { (Vec::new(), 0, 0, 0) }; 2], "held is not received yet");
    assert_eq!((tail.held().records(), web.registry().gate(0).held().records()), (10, 5));
    traced(&mut db, of_db, "bad", "error", 6);
    // Time passes: what is not decided by then is by its id.
    tail.pass(10_000);
    web.flush();
    db.flush();
    let [of_web, of_db] = outcome(&deliveries);
    assert_eq!(of_web, (vec![2, 3, 5], 5, 2, 0), "in the order in which they came");
    assert_eq!(of_db, (vec![2, 3, 5, 6], 6, 2, 0));
    assert!(!web.is_pending() && !db.is_pending());
    let sums = tail.sums();
    assert_eq!((sums.failed, sums.dropped, sums.early, tail.held().records()), (1, 1, 0, 0));
}

#[test]
fn what_waits_is_decided_when_a_thread_ends_or_its_source_is_sampled_otherwise() {
    let ([mut web, mut db], [of_web, of_db], deliveries) = two_threads();
    let tail = Arc::clone(web.registry().tail());
    for sec in 0..4 {
        traced(&mut web, of_web, "good", "info", sec);
        traced(&mut db, of_db, "bad", if sec == 3 { "critical" } else { "debug" }, sec);
    }
    traced(&mut web, of_web, "bad", "info", 4);
    // What comes after the change leaves behind what waits.
    web.registry().gate(0).set(Settings::default());
    traced(&mut web, of_web, "good", "info", 5);
    web.flush();
    assert!(!web.is_pending());
    traced(&mut db, of_db, "good", "info", 6);
    drop(db);
    assert_eq!(outcome(&deliveries), [(vec![4, 5], 6, 4, 0), (vec![0, 1, 2, 3], 5, 1, 0)]);
    assert_eq!((tail.held().records(), tail.sums().early, tail.sums().open), (0, 1, 0));
}

#[test]
fn losses_numbers_and_the_order_of_times_wait_for_their_turn_behind_a_trace() {
    let ([mut web, _db], [lane, _], deliveries) = two_threads();
    let tail = Arc::clone(web.registry().tail());
    let settings = Settings {
        sample: 1_000_000,
        sample_by: SampleBy::Tail,
        order_window: Duration::from_secs(1),
        ..Settings::default()
    };
    web.registry().gate(0).set(settings);
    let stream = web.stream(b"s");
    let mut number = 0;
    let mut numbered = |web: &mut Lanes, trace, sec| {
        number += 1;
        assert!(!web.is_there(lane, Numbered { stream, number }));
        web.number(Numbered { stream, number });
        traced(web, lane, trace, "info", sec);
    };
    numbered(&mut web, "", 1);
    numbered(&mut web, "good", 2);
    numbered(&mut web, "", 4);
    numbered(&mut web, "", 3);
    web.missed(lane, 7, Timestamp::new(5, 0));
    web.missed(lane, 2, Timestamp::new(5, 0));
    numbered(&mut web, "", 6);
    web.flush();
    let newest = Numbered { stream, number: 5 };
    assert_eq!(web.committed(newest), 0, "the first waits for its turn in the order of times");
    assert!(web.is_there(lane, newest), "it is not taken twice in this life");
    tail.pass(10_000);
    web.flush();
    drop(web);
    let all: Vec<Delivery> = deliveries.try_iter().collect();
    let marks: Vec<u64> = all.iter().flat_map(|delivery| &delivery.marks).map(|mark| mark.number).collect();
    assert!(marks.is_sorted() && marks.last() == Some(&5), "{marks:?}");
    assert_eq!(all.iter().map(|delivery| delivery.numbered).sum::<u32>(), 4);
    let before: Vec<i64> = all
        .iter()
        .take_while(|delivery| delivery.missed.is_none())
        .flat_map(|delivery| delivery.batch.iter().map(|record| record_time(record).sec).collect::<Vec<_>>())
        .collect();
    assert_eq!(before, [1, 3, 4], "the loss is where it was");
    assert_eq!(all.iter().filter_map(|delivery| delivery.missed).map(|loss| loss.count).sum::<u64>(), 9);
    let dropped = all.iter().map(|delivery| delivery.tallies.dropped[2]).sum::<u64>();
    assert_eq!((dropped, all.iter().map(|delivery| delivery.tallies.received).sum::<u64>()), (1, 5));
}

#[test]
fn a_loss_waits_while_the_core_does_not_take_what_came_before_it() {
    let (mut lanes, deliveries, _) = lanes(1);
    lanes.hold();
    let lane = lanes.source(b"app").expect("source");
    let tail = Arc::clone(lanes.registry().tail());
    let settings = Settings { sample: 1_000_000, sample_by: SampleBy::Tail, ..Settings::default() };
    lanes.registry().gate(0).set(settings);
    write(&mut lanes, lane, 1, 10);
    lanes.flush();
    traced(&mut lanes, lane, "good", "info", 11);
    write(&mut lanes, lane, 1, 12);
    lanes.missed(lane, 3, Timestamp::new(13, 0));
    tail.pass(10_000);
    lanes.flush();
    assert!(lanes.is_stuck() && lanes.is_pending());
    let mut told = Vec::new();
    while let Ok(delivery) = deliveries.try_recv() {
        let times: Vec<i64> = delivery.batch.iter().map(|record| record_time(record).sec).collect();
        told.push((times, delivery.missed.map(|loss| loss.count)));
        lanes.flush();
    }
    lanes.flush();
    told.extend(deliveries.try_iter().map(|last| (vec![], last.missed.map(|loss| loss.count))));
    assert_eq!(told, [(vec![10], None), (vec![12], None), (vec![], Some(3))]);
}

#[test]
fn a_stream_of_which_records_wait_is_not_forgotten() {
    let ([mut web, _db], [lane, _], _deliveries) = two_threads();
    web.set_taker(Taker::User(1));
    let stream = web.open_stream(b"first").expect("room");
    let first = Numbered { stream, number: 1 };
    assert!(!web.is_there(lane, first));
    web.number(first);
    traced(&mut web, lane, "good", "info", 1);
    web.flush();
    web.close_stream(stream);
    for n in 0..2 * MAX_OF_ONE as u32 {
        let other = web.open_stream(&n.to_be_bytes()).expect("others are not used");
        web.close_stream(other);
    }
    assert_eq!(web.open_stream(b"first"), Ok(stream));
    assert!(web.is_there(lane, first), "who sends it again is told so");
}

#[test]
fn times_that_cannot_be_are_counted_and_flagged_if_asked() {
    let (mut lanes, deliveries, _) = lanes(1000);
    let lane = lanes.source(b"app").expect("source");
    let arrival = Arrival { conn: 1, time: Timestamp::new(1_000_000, 0) };
    let times = [1_000_000 - 86_401, 1_000_000 - 86_000, 1_000_000, 1_000_050, 1_000_061, i64::MAX, i64::MIN];
    for flag_clock in [false, true] {
        lanes.registry().gate(0).set(Settings { flag_clock, ..Settings::default() });
        for sec in times {
            let event = Event { time: Some(Timestamp::new(sec, 0)), ..Event::default() };
            lanes.write(arrival, lane, b"", &event).expect("fits");
        }
        lanes.flush();
        let delivery = deliveries.try_recv().expect("records");
        assert_eq!((delivery.tallies.future, delivery.tallies.past), (2, 2));
        let words: Vec<String> = (0..delivery.batch.len())
            .filter_map(|at| packed::params(delivery.batch.get(at)?).last()?.text())
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect();
        let expected: &[&str] = if flag_clock { &["past", "future", "future", "past"] } else { &[] };
        assert_eq!(words, expected);
    }
}

#[test]
fn more_than_may_be_held_leaves_before_its_time() {
    let (mut lanes, deliveries, _) = lanes(100_000);
    let lane = lanes.source(b"app").expect("source");
    lanes.registry().gate(0).set(Settings { order_window: Duration::from_secs(60), ..Settings::default() });
    for n in 0..100_000 {
        // All within the window.
        let event = Event { time: Some(Timestamp::new(0, n ^ 1)), ..Event::default() };
        lanes.write(FIRST, lane, b"", &event).expect("fits");
    }
    let left: usize = deliveries.try_iter().map(|delivery| delivery.batch.bytes().len()).sum();
    assert!(left > 1_000_000, "{left} of 2.4 MB");
    drop(lanes);
    let rest: usize = deliveries.try_iter().map(|delivery| delivery.batch.bytes().len()).sum();
    assert_eq!(left + rest, 2_400_000);
}

#[test]
fn what_is_complete_when_a_thread_breaks_is_delivered() {
    let (mut lanes, deliveries, _) = lanes(10);
    let lane = lanes.source(b"app").expect("source");
    let broke = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        write(&mut lanes, lane, 1, 10);
        write(&mut lanes, lane, 1, 11);
        let event_type = lanes.type_slot(lane, None);
        let (time, flags) = (Timestamp::new(12, 0), EventFlags::POINT);
        let _half = lanes.begin(At { arrival: &FIRST, lane, event_type, time, flags });
        panic!("in the middle of a record");
    }));
    assert!(broke.is_err());
    let delivery = deliveries.try_recv().expect("what was there");
    assert_eq!((delivery.batch.len(), delivery.tallies.received), (2, 2));
}

#[test]
fn nothing_is_lost_to_a_core_that_is_being_started() {
    let (mut lanes, deliveries, _) = lanes(1);
    let starting = Starting::default();
    let begun = starting.begin();
    lanes.wait_while(starting);
    let lane = lanes.source(b"app").expect("source");
    let sender = std::thread::spawn(move || {
        for number in 0..3 {
            write(&mut lanes, lane, 1, number);
            lanes.flush();
        }
        lanes.lost(1)
    });
    // Two of them find the channel full, and would have been lost at once.
    while !deliveries.is_full() {
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(20));
    let received: Vec<_> = (0..3).map(|_| deliveries.recv_timeout(Duration::from_secs(20))).collect();
    assert!(
        received.iter().all(|delivery| delivery.as_ref().is_ok_and(|delivery| delivery.missed.is_none()))
    );
    assert_eq!(sender.join().expect("it ends"), 0);
    drop(begun);
}
