//! Positions at random times in all modes, with and without profiles, over archives that follow each other, next to
//! libpcp. The seed is fixed.

use jumpseat::archive::{Archive, Replay, ReplayMode};
use jumpseat::model::{InDom, Pmid, Profile, Timestamp};
use jumpseat::pdu::Fetched;

use crate::archive_support::*;
use support::random::Random;

const INTERP: i32 = 1;
const FORW: i32 = 2;
const BACK: i32 = 3;
/// Positions in each list of archives.
const POSITIONS: usize = 150;
/// Most fetches from one position.
const FETCHES: usize = 6;
const SEED: u64 = 20_261_122;

fn compare(names: &str, stream: u64) {
    let mut random = Random::new(SEED, stream);
    let mut oracle = CPeer::start(ORACLE);
    let mut archive = Archive::open(names).unwrap();
    let (start, end) = (archive.label().start, archive.end().unwrap());
    let (all, indoms) = (archive.pmids(), indoms(&archive));
    let mut out = Fetched::new();
    let mut counts = [0; 3];
    drop(archive);
    for position in 0..POSITIONS {
        // Behind a new mode the library remembers some of what it read for the one before.
        oracle.ask(&format!("open {names}"));
        let mut replay = Replay::new(Archive::open(names).unwrap());
        replay.set_nearest(false);
        let mut profile = Profile::default();
        oracle.ask("noprofile");
        if random.percent(50) && !indoms.is_empty() {
            let indom: InDom = random.pick(&indoms);
            let mut wanted: Vec<i32> = replay
                .archive()
                .instances_ever(indom)
                .unwrap_or_default()
                .iter()
                .map(|instance| instance.id)
                .collect();
            wanted.retain(|_| random.percent(40));
            if !wanted.is_empty() {
                profile.delete(indom, &[]).unwrap();
                profile.add(indom, &wanted).unwrap();
                let list: String = wanted.iter().map(|inst| format!(" {inst}")).collect();
                assert_eq!(oracle.ask(&format!("profile {}{list}", indom.0)), "0");
            }
        }
        let mut pmids: Vec<Pmid> = (0..1 + random.below(12)).map(|_| random.pick(&all)).collect();
        pmids.sort_unstable();
        pmids.dedup();
        let list: String = pmids.iter().map(|pmid| format!(" {}", pmid.0)).collect();
        let length = (end.as_nanos() - start.as_nanos()) as usize;
        let from = start.as_nanos() + random.below(length) as i128;
        let origin = Timestamp::from_nanos(from);
        let step = 1 + random.below(length / 4) as i64;
        let (mode, code, step) = match random.below(4) {
            0 => (ReplayMode::Forward, FORW, 0),
            1 => (ReplayMode::Backward, BACK, 0),
            2 => (ReplayMode::Interpolate(step), INTERP, step),
            _ => (ReplayMode::Interpolate(-step), INTERP, -step),
        };
        replay.set_mode(mode, Some(origin));
        let (sec, nsec) = (step / 1_000_000_000, step % 1_000_000_000);
        assert_eq!(oracle.ask(&format!("mode {code} {} {} {sec} {nsec}", origin.sec, origin.nsec)), "0");
        counts[code as usize - 1] += 1;
        for fetch in 0..FETCHES {
            let theirs = oracle.ask(&format!("fetch{list}"));
            let ours = match replay.fetch(&pmids, &profile, &mut out) {
                Err(error) => format!("err {}", error.code().0),
                Ok(()) => {
                    let sets: String = out.sets().map(|set| format!(" {}", set_text(&set))).collect();
                    format!("{} {}{sets}", time(out.timestamp), pmids.len())
                }
            };
            let place =
                format!("{names}: position {position}, {mode:?} from {}, fetch {fetch}", time(origin));
            assert_eq!(theirs, ours, "{place}");
            if theirs.starts_with("err") {
                break;
            }
        }
    }
    println!("{names}: {counts:?} positions interpolated, forward and backward");
    assert!(counts.iter().all(|count| *count > 10), "{counts:?}");
}

#[test]
fn a_directory() {
    compare(&suite("archives/multi"), 1);
}

#[test]
fn a_list() {
    let of = |time| suite(&format!("archives/multi/20150508.{time}"));
    compare(&["11.44", "11.46", "11.57"].map(of).join(","), 2);
}

#[test]
fn one_archive_with_instances_that_come_and_go() {
    compare(&suite("archives/dyninsts"), 3);
}
