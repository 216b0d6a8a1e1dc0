//! Interpolated values of archives of real machines, in which metrics, instances and whole hours are missing: those of PCP's own test
//! suite that have marks between their records.
//!
//! By libpcp's rule, which is that of the product's default but for readings between two records, all values of all times are compared
//! before any time counts: how many there are, and the sum of their sizes.

use jumpseat::archive::{Archive, Replay, ReplayMode};
use jumpseat::model::{Pmid, Profile, Timestamp, Value, ValueType};
use jumpseat::pdu::Fetched;
use support::CPeer;

use crate::common::{Figure, Goal, Row, Times, race, rounds};
use crate::{GOAL, ORACLE, answer, cpu};

const ARCHIVES: &str = "/var/lib/pcp/testsuite/archives";
/// Name, and how many times there are from its start to its end.
const REAL: [(&str, u32); 4] =
    [("20180102", 1000), ("bozo-20170904", 4000), ("count-mark", 20_000), ("bug-1044", 10_000)];

pub(crate) fn interpolate() {
    for (archive, points) in REAL {
        let name = format!("{ARCHIVES}/{archive}");
        for direction in ["forward", "backward"] {
            race_one(&name, archive, points, direction == "backward");
        }
    }
}

/// What is asked for.
struct Asked {
    pmids: Vec<Pmid>,
    begin: Timestamp,
    /// Nanoseconds.
    step: i64,
    points: u32,
}

fn race_one(name: &str, archive: &str, points: u32, is_backward: bool) {
    let asked = asked(name, points, is_backward);
    let list: String = asked.pmids.iter().map(|pmid| format!(" {}", pmid.0)).collect();
    let their = |question: &str| {
        let mut peer = CPeer::start(ORACLE);
        peer.ask(&format!("open {name}"));
        let (sec, nsec) = (asked.step / 1_000_000_000, asked.step % 1_000_000_000);
        peer.ask(&format!("mode 1 {} {} {sec} {nsec}", asked.begin.sec, asked.begin.nsec));
        peer.ask(&format!("{question} {points}{list}"))
    };
    let (count, sizes) = (|line: &str| {
        let (count, sizes) = line.split_once(' ')?;
        Some((count.parse::<u64>().ok()?, sizes.parse::<f64>().ok()?))
    })(&their("sizes"))
    .expect("a count and a sum");
    let (our_count, our_sizes) = sizes_of(name, &asked);
    assert_eq!(our_count, count, "{archive}");
    assert!((our_sizes - sizes).abs() <= sizes * 1e-9, "{archive}: {our_sizes}, libpcp {sizes}");
    let ours = |nearest: bool| {
        let start = cpu();
        let mut replay = replay(name, &asked, nearest);
        let mut out = Fetched::new();
        for _ in 0..points {
            replay.fetch(&asked.pmids, &Profile::default(), &mut out).expect("it is sound");
        }
        cpu() - start
    };
    let mut theirs = || answer(&their("time"), points);
    let [by_rule, default, peer] = race(rounds(10), [&mut || ours(false), &mut || ours(true), &mut theirs]);
    let rate = |times: &Times| Figure::rate(times, points.into(), "samples/s");
    let direction = if is_backward { "backward" } else { "forward" };
    let metrics = asked.pmids.len();
    let what = format!("{archive}, {metrics} metrics at {points} times, {direction}");
    for (mode, ours) in [("by libpcp's rule", by_rule), ("as by default", default)] {
        let row = Row::new(format!("{what}, {mode}"), rate(&ours)).peer("libpcp", rate(&peer));
        row.goal(Goal::Ratio(GOAL)).note(format!("{count} values")).print();
    }
}

/// All metrics with numbers, at times from one end of the archive to the other.
fn asked(name: &str, points: u32, is_backward: bool) -> Asked {
    let mut archive = Archive::open(name).expect("PCP's test suite is installed");
    let (start, end) = (archive.label().start, archive.end().expect("it is sound"));
    let mut pmids = archive.pmids();
    pmids.retain(|&pmid| archive.desc(pmid).is_ok_and(|desc| is_number(desc.value_type)));
    pmids.sort_unstable();
    let nanos = |time: Timestamp| time.sec * 1_000_000_000 + i64::from(time.nsec);
    // The first and the last time lie a bit within: which record is the very last is another question.
    let step = (nanos(end) - nanos(start)) / i64::from(points + 1);
    let (begin, step) = if is_backward { (nanos(end) - step, -step) } else { (nanos(start) + step, step) };
    Asked {
        pmids,
        begin: Timestamp::new(begin / 1_000_000_000, (begin % 1_000_000_000) as u32),
        step,
        points,
    }
}

fn is_number(value_type: ValueType) -> bool {
    use ValueType::{Double, Float, I32, I64, U32, U64};
    matches!(value_type, I32 | U32 | I64 | U64 | Float | Double)
}

fn replay(name: &str, asked: &Asked, nearest: bool) -> Replay {
    let mut replay = Replay::new(Archive::open(name).expect("PCP's test suite is installed"));
    replay.set_nearest(nearest);
    replay.set_mode(ReplayMode::Interpolate(asked.step), Some(asked.begin));
    replay
}

/// How many values there are at all times, and the sum of their sizes.
fn sizes_of(name: &str, asked: &Asked) -> (u64, f64) {
    let mut replay = replay(name, asked, false);
    let types: Vec<ValueType> = asked
        .pmids
        .iter()
        .map(|&pmid| replay.archive_mut().desc(pmid).expect("it was listed").value_type)
        .collect();
    let (mut out, mut count, mut sum) = (Fetched::new(), 0, 0.0);
    for _ in 0..asked.points {
        replay.fetch(&asked.pmids, &Profile::default(), &mut out).expect("it is sound");
        for (set, &value_type) in out.sets().zip(&types) {
            for (_, value) in set.values.iter().flat_map(|values| values.iter()) {
                count += 1;
                sum += match value.to_value(value_type).expect("a number") {
                    Value::I32(number) => f64::from(number).abs(),
                    Value::U32(number) => number.into(),
                    Value::I64(number) => (number as f64).abs(),
                    Value::U64(number) => number as f64,
                    Value::Float(number) => f64::from(number).abs(),
                    Value::Double(number) => number.abs(),
                    other => panic!("no number: {other:?}"),
                };
            }
        }
    }
    (count, sum)
}
