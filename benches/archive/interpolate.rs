//! Interpolated values of many metrics at many times, forward and back.

use jumpseat::archive::{Archive, Replay, ReplayMode};
use jumpseat::model::{Pmid, Profile, Timestamp};
use jumpseat::pdu::Fetched;
use support::CPeer;

use crate::common::{Figure, Goal, Row, Times, floor, race, rounds};
use crate::made::{START, desc};
use crate::{GOAL, ORACLE, answer, cpu};

const POINTS: u32 = 10_000;
/// Metrics that are interpolated.
const WANTED: u32 = 50;

pub(crate) fn interpolate(name: &str, records: u32) {
    let step = i64::from(records - 1) * 1_000_000_000 / i64::from(POINTS);
    let pmids: Vec<Pmid> = (0..WANTED).map(|n| desc(n).pmid).collect();
    let list: String = pmids.iter().map(|pmid| format!(" {}", pmid.0)).collect();
    let begin = Timestamp::new(START, 1);
    let end = Timestamp::new(START + i64::from(records - 1), 0);
    for (what, begin, step, points) in [
        ("forward", begin, step, POINTS),
        ("backward", end, -step, POINTS),
        ("ten times as far apart", begin, step * 10, POINTS / 10),
    ] {
        let ours = |nearest: bool| {
            let start = cpu();
            let mut replay = Replay::new(Archive::open(name).expect("it was written before"));
            replay.set_nearest(nearest);
            replay.set_mode(ReplayMode::Interpolate(step), Some(begin));
            let mut out = Fetched::new();
            for _ in 0..points {
                replay.fetch(&pmids, &Profile::default(), &mut out).expect("it is sound");
            }
            assert_eq!(out.len(), pmids.len());
            cpu() - start
        };
        let mut theirs = || {
            let mut peer = CPeer::start(ORACLE);
            peer.ask(&format!("open {name}"));
            let (sec, nsec) = (step / 1_000_000_000, step % 1_000_000_000);
            peer.ask(&format!("mode 1 {} {} {sec} {nsec}", begin.sec, begin.nsec));
            answer(&peer.ask(&format!("time {points}{list}")), points)
        };
        let mut read = || floor::read_archive(name);
        let [ours, default, peer, read] =
            race(rounds(10), [&mut || ours(false), &mut || ours(true), &mut theirs, &mut read]);
        let what = format!("{WANTED} metrics at {points} times, {what}");
        let rate = |times: &Times| Figure::rate(times, points.into(), "samples/s");
        Row::new(format!("{what}, by libpcp's rule"), rate(&ours))
            .peer("libpcp", rate(&peer))
            .goal(Goal::Ratio(GOAL))
            .print();
        Row::new(format!("{what}, as by default"), rate(&default))
            .peer("libpcp", rate(&peer))
            .goal(Goal::Ratio(GOAL))
            .print();
        Row::new(format!("{what}, as by default"), rate(&default))
            .peer("reading the archive's bytes, nothing else", rate(&read))
            .print();
    }
}
