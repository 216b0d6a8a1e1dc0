//! The table of traces, by itself.

use std::time::Duration;

use super::*;
use crate::interval::Interval;
use crate::size::ByteSize;

const POINT: Option<SpanEnd> = None;

fn tail(memory: u64) -> Tail {
    let tail = Tail::default();
    let millis = |millis| Interval(Duration::from_millis(millis));
    tail.configure(TailConfig {
        slow: millis(500),
        window: millis(10_000),
        grace: millis(1000),
        memory: ByteSize(memory),
    });
    tail
}

fn span(is_start: bool, id: u32, has_parent: bool, millis: i64) -> Option<SpanEnd> {
    Some(SpanEnd { is_start, id, has_parent, nanos: Some(millis * 1_000_000) })
}

fn told(key: u64, failed: bool, span: Option<SpanEnd>) -> Told {
    Told { key: TraceKey(key), failed, span }
}

/// A trace that one of three keeps, and one that it does not.
const SAMPLED: u64 = 3 << 32;
const OTHER: u64 = (3 << 32) + 1;

#[test]
fn a_trace_is_decided_by_what_becomes_of_it() {
    type Step = (u64, bool, Option<SpanEnd>);
    let whole = |took| vec![(0, false, span(true, 7, false, 0)), (1, false, span(false, 7, false, took))];
    let cases: [(&str, Vec<Step>, u64, Fate, Fate); 10] = [
        ("nothing told, within the window", vec![(0, false, POINT)], 9_999, Fate::Waits, Fate::Waits),
        ("nothing told, at its end", vec![(0, false, POINT)], 10_000, Fate::Kept, Fate::Dropped),
        (
            "the window is from the first record on",
            vec![(0, false, POINT), (9_000, false, POINT)],
            10_000,
            Fate::Kept,
            Fate::Dropped,
        ),
        ("a failure", vec![(0, false, POINT), (5, true, POINT)], 5, Fate::Kept, Fate::Kept),
        ("whole and quick, within the grace", whole(499), 1000, Fate::Waits, Fate::Waits),
        ("whole and quick, after it", whole(499), 1001, Fate::Kept, Fate::Dropped),
        ("whole and slow", whole(500), 1, Fate::Kept, Fate::Kept),
        (
            "a span below the root is open",
            [whole(10), vec![(2, false, span(true, 9, true, 5))]].concat(),
            9_000,
            Fate::Waits,
            Fate::Waits,
        ),
        (
            "open at the end of the window",
            vec![(0, false, span(true, 7, false, 0))],
            10_000,
            Fate::Kept,
            Fate::Kept,
        ),
        (
            "an end that is no root's",
            vec![(0, false, span(true, 7, true, 0)), (1, false, span(false, 7, true, 9))],
            5_000,
            Fate::Waits,
            Fate::Waits,
        ),
    ];
    for (what, steps, at, sampled, other) in cases {
        for (key, expected) in [(SAMPLED, sampled), (OTHER, other)] {
            let tail = tail(1 << 20);
            let waiting = steps
                .iter()
                .filter(|(now, failed, span)| tail.note(&told(key, *failed, *span), 3, *now) == Fate::Waits);
            let waiting = waiting.count();
            for _ in 0..waiting {
                assert_eq!(tail.settle(TraceKey(key), false, at), expected, "{what}, {key}");
            }
            let sums = tail.sums();
            let decided = sums.failed + sums.slow + sums.sampled + sums.dropped;
            assert_eq!((sums.open, sums.early), (u64::from(expected == Fate::Waits), 0), "{what}");
            assert_eq!(decided, 1 - sums.open, "{what}");
        }
    }
}

#[test]
fn what_comes_late_follows_the_decision_and_an_early_one_is_counted() {
    let tail = tail(1 << 20);
    for key in [SAMPLED, OTHER] {
        assert_eq!(tail.note(&told(key, false, POINT), 3, 0), Fate::Waits);
        let expected = if key == SAMPLED { Fate::Kept } else { Fate::Dropped };
        assert_eq!(tail.settle(TraceKey(key), true, 1), expected);
        assert_eq!(tail.note(&told(key, true, POINT), 1, 2), expected);
    }
    let sums = tail.sums();
    assert_eq!((sums.early, sums.late, sums.late_failed), (2, 2, 1));
    assert_eq!((sums.sampled, sums.dropped, sums.failed), (1, 1, 0));
}

#[test]
fn the_most_generous_source_of_a_trace_decides_which_part_is_kept() {
    let tail = tail(1 << 20);
    for of in [100, 3, 7] {
        assert_eq!(tail.note(&told(SAMPLED, false, POINT), of, 0), Fate::Waits);
    }
    assert_eq!(tail.settle(TraceKey(SAMPLED), false, 10_000), Fate::Kept);
}

#[test]
fn the_table_is_bounded_and_keeps_what_waits() {
    // 2048 traces, 128 a part.
    let (tail, most) = (tail(1 << 20), 2048);
    let key = |n: u64| n << 32;
    let mut waiting = Vec::new();
    for n in 0..2 * most {
        match tail.note(&told(key(n), n % 5 == 0, POINT), 1, 0) {
            Fate::Waits => waiting.push(n),
            fate => assert_eq!((fate, n % 5 == 0 || n >= most), (Fate::Kept, true), "{n}"),
        }
    }
    let sums = tail.sums();
    assert!(sums.known <= most && sums.untracked > 0 && sums.forgotten > 0, "{sums:?}");
    assert_eq!(sums.open, waiting.len() as u64);
    // Those that wait are there all the same.
    for n in waiting {
        assert_eq!(tail.settle(TraceKey(key(n)), false, 10_000), Fate::Kept, "{n}");
    }
    // When nobody comes back for them for six windows, they make room by themselves.
    let forgotten = tail.sums().forgotten;
    for n in 0..most {
        tail.note(&told(key(n) + 1, true, POINT), 1, 80_000);
    }
    assert_eq!(tail.sums().forgotten, forgotten, "none had to go before its time");
    assert_eq!(tail.sums().known, most);
}

#[test]
fn limits_are_checked() {
    let of = |change: fn(&mut TailConfig)| {
        let mut config = TailConfig::default();
        change(&mut config);
        config.validate().map_err(|invalid| invalid.to_string())
    };
    assert_eq!(of(|_| ()), Ok(()));
    assert_eq!(
        of(|config| config.window = Interval(Duration::ZERO)).unwrap_err(),
        "window: 0s is not between 100ms and 600s"
    );
    assert!(of(|config| config.memory = ByteSize(5)).unwrap_err().starts_with("memory: 5 is not between"));
    assert_eq!(
        of(|config| (config.slow, config.grace) =
            (Interval(Duration::from_secs(1)), Interval(Duration::ZERO))),
        Ok(())
    );
}
