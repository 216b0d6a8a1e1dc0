//! What the log promises, one by one.

use std::sync::Arc;

use pcp_event::log::{LogConfig, MAX_LOSS, MIN_BUDGET};
use pcp_event::{ArrayKind, Batch, CursorId, EventFlags, EventLog, Filter, Param, ReadOutcome, Work};
use pcp_model::Timestamp;

use super::check::{Fields, Item, MESSAGE, MISSED, batch, items, time};

const BOTH: [ArrayKind; 2] = [ArrayKind::Event, ArrayKind::HighRes];

fn log(budget: usize, recent: usize) -> EventLog {
    EventLog::new(LogConfig { budget, recent, missed_pmid: MISSED })
}

fn read(log: &mut EventLog, cursor: CursorId, kind: ArrayKind) -> Vec<Item> {
    let mut out = Vec::new();
    log.read(cursor, kind, &mut out, usize::MAX).expect("the cursor is known");
    items(kind, &out)
}

fn ids(items: &[Item]) -> Vec<u64> {
    items
        .iter()
        .map(|item| match *item {
            Item::Record(id) => id,
            Item::Missed(..) => panic!("{items:?}"),
        })
        .collect()
}

fn filter(text: &str) -> Option<Arc<Filter>> {
    Filter::parse(text).unwrap().map(Arc::new)
}

fn balance(log: &EventLog, cursor: CursorId) -> (u64, u64, u64, u64) {
    let stats = log.cursor_stats(cursor).unwrap();
    let sum = stats.delivered + stats.filtered + stats.missed + stats.queued;
    assert_eq!(log.stats().seq - stats.joined_at, sum, "{stats:?}");
    (stats.delivered, stats.filtered, stats.missed, stats.queued)
}

#[test]
fn each_client_gets_each_record_once_from_where_it_joined() {
    for kind in BOTH {
        let mut log = log(1 << 20, 0);
        log.append(batch(0..3));
        let a = log.join();
        log.append(batch(3..5));
        let b = log.join();
        log.append(batch(5..6));
        assert_eq!(ids(&read(&mut log, a, kind)), [3, 4, 5]);
        assert!(read(&mut log, a, kind).is_empty());
        assert_eq!(ids(&read(&mut log, b, kind)), [5]);
        log.append(batch(6..7));
        assert_eq!(ids(&read(&mut log, b, kind)), [6]);
        assert_eq!(ids(&read(&mut log, a, kind)), [6]);
        assert_eq!((balance(&log, a), balance(&log, b)), ((4, 0, 0, 0), (2, 0, 0, 0)));
    }
}

#[test]
fn an_empty_read_writes_nothing() {
    let mut log = log(1 << 20, 10);
    log.append(batch(0..3));
    let cursor = log.join();
    let mut out = vec![1, 2, 3];
    assert_eq!(
        log.read(cursor, ArrayKind::Event, &mut out, 0),
        Some(ReadOutcome { records: 0, delivered: 0, missed: 0, more: false })
    );
    assert_eq!(out, [1, 2, 3]);
}

#[test]
fn a_name_of_a_cursor_that_left_finds_nothing() {
    let mut log = log(1 << 20, 0);
    let old = log.join();
    log.leave(old);
    let new = log.join();
    log.append(batch(0..1));
    let mut out = Vec::new();
    assert_eq!(log.read(old, ArrayKind::Event, &mut out, usize::MAX), None);
    log.set_filter(old, filter("type == 'none'"), &Fields);
    log.leave(old);
    assert!(log.cursor_stats(old).is_none() && out.is_empty());
    assert_eq!((log.stats().cursors, ids(&read(&mut log, new, ArrayKind::Event))), (1, vec![0]));
}

#[test]
fn memory_is_freed_when_all_have_read_or_left() {
    let mut log = log(1 << 20, 0);
    let (a, b) = (log.join(), log.join());
    log.append(batch(0..500));
    let held = log.stats();
    assert_eq!((held.records, held.evicted), (500, 0));
    read(&mut log, a, ArrayKind::HighRes);
    assert_eq!(log.stats().bytes, held.bytes);
    log.leave(b);
    assert_eq!((log.stats().records, log.stats().bytes, log.stats().chunks), (0, 0, 0));
    log.leave(a);
    log.append(batch(0..500));
    assert_eq!((log.stats().records, log.stats().bytes), (0, 0));
}

#[test]
fn the_newest_records_are_kept_for_anyone() {
    for kind in BOTH {
        let mut log = log(1 << 20, 10);
        let recent = |log: &EventLog, count, max| {
            let mut out = Vec::new();
            log.recent(kind, count, &mut out, max);
            ids(&items(kind, &out))
        };
        assert!(recent(&log, 10, usize::MAX).is_empty());
        log.append(batch(0..4));
        assert_eq!(recent(&log, 10, usize::MAX), [0, 1, 2, 3]);
        log.append(batch(4..5000));
        assert_eq!(recent(&log, 100, usize::MAX), Vec::from_iter(4990..5000));
        assert!(log.stats().records <= 20, "{:?}", log.stats());
        let cursor = log.join();
        log.append(batch(5000..5002));
        assert_eq!(recent(&log, 3, usize::MAX), [4999, 5000, 5001]);
        assert_eq!(ids(&read(&mut log, cursor, kind)), [5000, 5001]);
        for id in 5002..5100 {
            log.append(batch(id..id + 1));
            assert_eq!(ids(&read(&mut log, cursor, kind)), [id]);
        }
        assert_eq!(recent(&log, 10, usize::MAX), Vec::from_iter(5090..5100));
        assert!(log.stats().records <= 20, "{:?}", log.stats());
    }
}

#[test]
fn a_limit_leaves_the_rest_for_the_next_fetch() {
    for kind in BOTH {
        let mut log = log(64 << 20, 0);
        let cursor = log.join();
        let mut next = 0;
        log.append(batch(0..10_000));
        for fetch in 0.. {
            let mut out = Vec::new();
            let outcome = log.read(cursor, kind, &mut out, 200_000).unwrap();
            assert!(out.len() <= 200_000);
            let got = ids(&items(kind, &out));
            assert_eq!((got.len(), got.len() as u64), (outcome.records, outcome.delivered));
            assert_eq!(got, Vec::from_iter(next..next + got.len() as u64));
            next += got.len() as u64;
            if !outcome.more {
                assert!(fetch > 3 && next == 10_000);
                break;
            }
            assert!(out.len() > 200_000 - 500, "filled as far as possible");
        }
    }
}

#[test]
fn an_overflow_is_one_missed_record_in_front_of_the_survivors() {
    for kind in BOTH {
        let mut log = log(64 << 10, 0);
        let cursor = log.join();
        let mut next = 0;
        for _ in 0..2 {
            for _ in 0..200 {
                log.append(batch(next..next + 10));
                next += 10;
                assert!(log.stats().bytes <= 64 << 10);
            }
            let queued = balance(&log, cursor).3;
            let got = read(&mut log, cursor, kind);
            let first = next - queued;
            let lost = 2000 - queued;
            assert!(lost > 0 && queued > 100, "{queued}");
            assert_eq!(got[0], Item::Missed(lost, super::check::shown(kind, time(first - 1))));
            assert_eq!(ids(&got[1..]), Vec::from_iter(first..next));
        }
        assert_eq!(balance(&log, cursor).3, 0);
    }
}

#[test]
fn losses_before_the_log_appear_at_their_own_places() {
    let t = |sec| Timestamp::new(sec, 5_000);
    for kind in BOTH {
        let mut log = log(1 << 20, 0);
        log.append_missed(100, t(1));
        let cursor = log.join();
        log.append_missed(2, t(2));
        log.append_missed(3, t(3));
        log.append(batch(0..2));
        log.append_missed(4, t(4));
        let other = log.join();
        log.append_missed(1, t(5));
        log.append(batch(2..3));
        let expected = [
            Item::Missed(5, t(3)),
            Item::Record(0),
            Item::Record(1),
            Item::Missed(4, t(4)),
            Item::Missed(1, t(5)),
            Item::Record(2),
        ];
        assert_eq!(read(&mut log, cursor, kind), expected);
        assert_eq!(read(&mut log, other, kind), expected[4..]);
        assert_eq!((balance(&log, cursor), balance(&log, other)), ((3, 0, 10, 0), (1, 0, 1, 0)));
        assert_eq!((log.stats().missed, log.stats().appended, log.stats().seq), (110, 3, 113));
    }
}

#[test]
fn counts_beyond_31_bits_become_several_missed_records() {
    for kind in BOTH {
        let mut log = log(1 << 20, 0);
        let cursor = log.join();
        log.append_missed(5_000_000_000, time(1));
        let at = super::check::shown(kind, time(1));
        let max = i32::MAX as u64;
        assert_eq!(
            read(&mut log, cursor, kind),
            [Item::Missed(max, at), Item::Missed(max, at), Item::Missed(5_000_000_000 - 2 * max, at)]
        );
        log.append_missed(u64::MAX, time(2));
        log.append_missed(u64::MAX, time(3));
        assert_eq!(log.stats().missed, 5_000_000_000 + MAX_LOSS);
        let told: u64 = read(&mut log, cursor, kind)
            .iter()
            .map(|item| match item {
                Item::Missed(count, _) => *count,
                Item::Record(_) => 0,
            })
            .sum();
        assert_eq!(told, MAX_LOSS);
        assert_eq!(balance(&log, cursor).3, 0);
    }
}

#[test]
fn rejected_records_are_not_missed() {
    for kind in BOTH {
        let mut log = log(64 << 10, 0);
        let cursors: Vec<CursorId> = (0..3).map(|_| log.join()).collect();
        for &cursor in &cursors[..2] {
            log.set_filter(cursor, filter("type == 'db.query'"), &Fields);
        }
        assert!(log.filter(cursors[1]).is_some() && log.filter(cursors[2]).is_none());
        let passes = |id: u64| super::check::type_of(id) == "db.query";
        for id in 0..2000 {
            log.append(batch(id..id + 1));
        }
        let queued = balance(&log, cursors[0]).3;
        let lost = 2000 - queued;
        for &cursor in &cursors[..2] {
            let missed = (0..lost).filter(|&id| passes(id)).count() as u64;
            assert_eq!(balance(&log, cursor), (0, lost - missed, missed, queued));
            let got = read(&mut log, cursor, kind);
            let newest = (0..lost).rev().find(|&id| passes(id)).unwrap();
            assert_eq!(got[0], Item::Missed(missed, super::check::shown(kind, time(newest))));
            assert_eq!(ids(&got[1..]), Vec::from_iter((lost..2000).filter(|&id| passes(id))));
        }
        assert_eq!(balance(&log, cursors[2]), (0, 0, lost, queued));
        log.set_filter(cursors[0], None, &Fields);
        log.append(batch(2000..2003));
        assert_eq!(ids(&read(&mut log, cursors[0], kind)), [2000, 2001, 2002]);
    }
}

#[test]
fn a_record_beyond_the_budget_is_a_loss() {
    let mut log = log(0, 1);
    let cursor = log.join();
    let mut big = Batch::default();
    for len in [10, 2 * MIN_BUDGET, 20] {
        let mut record = big.record(time(7), EventFlags::POINT);
        record.param(MESSAGE, Param::String(&vec![b'x'; len]));
        record.commit().unwrap();
    }
    log.append(big);
    let mut out = Vec::new();
    let outcome = log.read(cursor, ArrayKind::Event, &mut out, usize::MAX).unwrap();
    // The big one has driven out the first.
    assert_eq!((outcome.records, outcome.delivered, outcome.missed), (3, 1, 2));
    assert_eq!((log.stats().appended, log.stats().missed, log.stats().evicted), (2, 1, 1));
    assert!(log.stats().bytes <= MIN_BUDGET);
    assert_eq!(balance(&log, cursor), (1, 0, 2, 0));
}

#[test]
fn memory_for_each_event_does_not_grow_with_clients() {
    let held = |clients: usize| {
        let mut log = log(1 << 20, 0);
        for _ in 0..clients {
            log.join();
        }
        (0..1000).for_each(|id| log.append(batch(id..id + 1)));
        log.stats().bytes
    };
    assert_eq!(held(1), held(1000));
}

#[test]
fn one_read_scans_a_bounded_stretch() {
    let mut log = log(64 << 20, 0);
    let cursor = log.join();
    log.set_filter(cursor, filter("type == 'none'"), &Fields);
    (0..10).for_each(|_| log.append(batch(0..5000)));
    let mut reads = 0;
    loop {
        let mut out = Vec::new();
        let outcome = log.read(cursor, ArrayKind::HighRes, &mut out, usize::MAX).unwrap();
        assert!(outcome.records == 0 && out.is_empty());
        reads += 1;
        if !outcome.more {
            break;
        }
    }
    assert!(reads >= 3, "{reads}");
    assert_eq!(balance(&log, cursor), (0, 50_000, 0, 0));
}

#[test]
fn without_work_a_filtered_read_waits_and_another_does_not() {
    let mut log = log(1 << 20, 0);
    let [filtered, plain] = [log.join(), log.join()];
    log.set_filter(filtered, filter("type == 'none'"), &Fields);
    log.append(batch(0..100));
    log.set_work(Work::new(1));
    let mut out = Vec::new();
    let outcome = log.read(filtered, ArrayKind::HighRes, &mut out, usize::MAX).unwrap();
    assert!(outcome.more && outcome.records == 0);
    assert_eq!(ids(&read(&mut log, plain, ArrayKind::HighRes)).len(), 100);
    log.set_work(Work::new(1 << 20));
    assert!(read(&mut log, filtered, ArrayKind::HighRes).is_empty());
    assert_eq!(balance(&log, filtered), (0, 100, 0, 0));
    assert!(log.work().steps() < 1 << 20, "it was charged");
}

#[test]
fn without_work_what_is_evicted_counts_as_missed_without_a_look() {
    let mut log = log(MIN_BUDGET, 0);
    let [looked, unlooked] = [log.join(), log.join()];
    log.set_filter(looked, filter("type == 'none'"), &Fields);
    log.append(batch(0..50));
    // Only now is there somebody whose filter it would take more work to ask.
    log.set_filter(unlooked, filter("type == 'nothing'"), &Fields);
    log.set_work(Work::new(0));
    log.append(batch(50..2000));
    for cursor in [looked, unlooked] {
        let (delivered, filtered, missed, queued) = balance(&log, cursor);
        assert_eq!((delivered, filtered), (0, 0));
        assert_eq!(missed + queued, 2000);
    }
    log.set_work(Work::UNLIMITED);
    log.append(batch(2000..4000));
    let (.., filtered_now, _, _) = balance(&log, looked);
    assert!(filtered_now > 0, "looked at again");
}

#[test]
fn clients_with_the_same_filter_fall_behind_at_different_places() {
    let mut log = log(64 << 10, 0);
    let early = log.join();
    let cursors: Vec<CursorId> = (0..3)
        .map(|n| {
            let cursor = log.join();
            log.append(batch(n * 5..n * 5 + 5));
            cursor
        })
        .collect();
    for cursor in cursors.iter().copied().chain([early]) {
        log.set_filter(cursor, filter("type == 'db.query'"), &Fields);
    }
    log.append(batch(15..2000));
    let queued = balance(&log, early).3;
    let passing = |from| (from..2000 - queued).filter(|&id| super::check::type_of(id) == "db.query").count();
    for (cursor, from) in [(early, 0), (cursors[0], 0), (cursors[1], 5), (cursors[2], 10)] {
        let missed = passing(from) as u64;
        assert_eq!(balance(&log, cursor), (0, 2000 - queued - from - missed, missed, queued));
    }
}

#[test]
fn a_smaller_budget_evicts_at_once() {
    let mut log = log(1 << 20, 0);
    let cursor = log.join();
    log.append(batch(0..2000));
    assert!(log.stats().bytes > 300_000 && log.stats().evicted == 0);
    log.set_budget(100_000);
    let stats = log.stats();
    assert!(stats.bytes <= 100_000 && stats.records > 0, "{stats:?}");
    assert_eq!((stats.budget, balance(&log, cursor)), (100_000, (0, 0, stats.evicted, stats.records as u64)));
    log.set_budget(0);
    assert_eq!((log.stats().budget, log.stats().records), (MIN_BUDGET, 0));
}

#[test]
fn a_full_log_gives_the_memory_of_what_goes_for_the_next_batch() {
    const LARGE: usize = 40 << 10;
    let mut log = log(1 << 20, 0);
    let cursor = log.join();
    let mut memory = Batch::default();
    for round in 0..100 {
        // As large as is not copied, and full.
        let mut batch = if memory.capacity() == 0 { Batch::with_capacity(LARGE) } else { memory };
        assert!(batch.is_empty() && batch.capacity() >= LARGE, "round {round}");
        while batch.bytes().len() < LARGE - 1100 {
            let mut record = batch.record(time(round), EventFlags::POINT);
            record.param(MESSAGE, Param::String(&[b'a'; 1000]));
            record.commit().unwrap();
        }
        memory = log.absorb(batch);
        assert_eq!(memory.capacity() > 0, log.stats().evicted > 0, "round {round}");
    }
    let (delivered, filtered, missed, queued) = balance(&log, cursor);
    assert_eq!((delivered, filtered, missed + queued), (0, 0, log.stats().seq));
    assert!(queued > 0 && log.stats().bytes <= 1 << 20);
    log.read(cursor, ArrayKind::HighRes, &mut Vec::new(), usize::MAX).unwrap();
    assert_eq!(balance(&log, cursor), (queued, 0, missed, 0));
}
