//! Interpolated values of every archive of PCP's test suite against libpcp, at several steps in both directions.
//!
//! libpcp is 6.0.3 here, so readings between two records are compared as the last one; that the nearer one
//! is taken otherwise is tested where it is computed.

use std::collections::BTreeMap;

use jumpseat::archive::{Archive, Replay, ReplayMode, Step};
use jumpseat::model::{Desc, Pmid, Profile, Semantics, Timestamp, ValueType};
use jumpseat::pdu::{Fetched, ValueRef};

use crate::archive_support::*;

const INTERP: i32 = 1;
/// Metrics of an archive that are fetched together.
const METRICS: usize = 40;
/// Samples of a run.
const SAMPLES: i64 = 25;
/// Volumes that were compressed as one block: going back, the library and we decode them again from the start.
const SLOW: [&str; 2] = ["archives/20180416.10.00", "archives/pcp-pidstat-process-args"];
const SAMPLES_OF_SLOW: i64 = 3;
/// Archives with longer volumes get one run only.
const LARGE: u64 = 200_000;

/// "sec.nsec count sets": the time, and the sets.
fn split(line: &str) -> (Timestamp, Vec<&str>) {
    let mut words = line.split(' ');
    let (sec, nsec) = words.next().unwrap().split_once('.').unwrap();
    // Now and then the library leaves a whole second in the nanoseconds.
    let time = Timestamp::new(sec.parse().unwrap(), nsec.parse().unwrap());
    (time, words.skip(1).collect())
}

#[derive(Default)]
struct Tally {
    samples: usize,
    sets: usize,
    values: usize,
    known: BTreeMap<&'static str, usize>,
    wrong: Vec<String>,
}

const MARK: &str = "a value from in front of a mark";
const END: &str = "the end of a damaged archive";
const TYPE: &str = "a block that does not say its type";
/// How many sets of a run may differ for which reason.
const KNOWN: [(&str, usize); 3] = [(MARK, 40), (END, 2), (TYPE, 100)];
/// How many values have to be compared for each archive, at least.
const VALUES: usize = 500;

/// What both sides are asked for.
struct Asked {
    name: String,
    pmids: Vec<Pmid>,
    samples: i64,
}

/// One run through an archive on both sides, opened anew: the library does not forget all when the mode is set.
fn run(asked: &Asked, origin: Timestamp, step: i64, tally: &mut Tally) {
    let Asked { name, pmids, samples } = asked;
    let mut oracle = CPeer::start(ORACLE);
    oracle.ask(&format!("open {name}"));
    let mut replay = Replay::new(Archive::open(name).unwrap());
    replay.set_nearest(false);
    replay.set_mode(ReplayMode::Interpolate(step), Some(origin));
    let (sec, nsec) = (step / 1_000_000_000, step % 1_000_000_000);
    let answer = oracle.ask(&format!("mode {INTERP} {} {} {sec} {nsec}", origin.sec, origin.nsec));
    assert_eq!(answer, "0");
    let list: String = pmids.iter().map(|pmid| format!(" {}", pmid.0)).collect();
    let mut out = Fetched::new();
    for sample in 0..*samples {
        let theirs = oracle.ask(&format!("fetch{list}"));
        let ours = replay.fetch(pmids, &Profile::default(), &mut out);
        if let Err(error) = &ours {
            let ours = format!("err {}", error.code().0);
            if theirs != ours {
                tally
                    .wrong
                    .push(format!("{name} step {step} sample {sample}: {theirs:.60}, here {ours} {error}"));
            }
            return;
        }
        // The last bytes of the last volume are no record.
        if theirs == "err -12373" && (name.ends_with("/pcp-mpstat3") || name.ends_with("/binning")) {
            *tally.known.entry(END).or_default() += 1;
            return;
        }
        if theirs.starts_with("err") {
            tally.wrong.push(format!("{name} step {step} sample {sample}: {theirs}, here values"));
            return;
        }
        let (time, sets) = split(&theirs);
        assert_eq!(time, out.timestamp, "{name} step {step}");
        tally.samples += 1;
        for (theirs, ours) in sets.iter().zip(out.sets()) {
            tally.sets += 1;
            tally.values += ours.values.as_ref().map_or(0, |values| values.len());
            let text = set_text(&ours);
            if *theirs != text {
                let desc = replay.archive().desc(ours.pmid).unwrap();
                let what = format!(
                    "{name} step {step} sample {sample} at {}: {} {:?} {:?}: {theirs:.300}, here {text:.300}",
                    crate::archive_support::time(time),
                    ours.pmid,
                    desc.semantics,
                    desc.value_type
                );
                match known(name, &desc, step, &text) {
                    Some(why) => *tally.known.entry(why).or_default() += 1,
                    None => tally.wrong.push(what),
                }
            }
        }
    }
}

/// Why libpcp's set need not be ours.
fn known(name: &str, desc: &Desc, step: i64, ours: &str) -> Option<&'static str> {
    let none = ours.ends_with(":0");
    if desc.semantics == Semantics::Discrete && step < 0 && none {
        // Going back, the library takes a value from in front of a mark when it is at its first sample.
        return Some(MARK);
    }
    let is_long = matches!(desc.value_type, ValueType::I64 | ValueType::U64 | ValueType::Double);
    if is_long && recorded_type(name, desc.pmid) != Some(desc.value_type) {
        // It does not bring the bytes of such a block into the machine's order.
        return Some(TYPE);
    }
    None
}

/// The type that the first block of a metric says it has.
fn recorded_type(name: &str, pmid: Pmid) -> Option<ValueType> {
    let mut archive = Archive::open(name).ok()?;
    let mut at = archive.first();
    while let Some(Step::Record(place, after)) = archive.next(at).ok()? {
        at = after;
        let record = archive.record(place).ok()?;
        let values = record.sets().filter(|set| set.pmid == pmid).find_map(|set| set.values.ok());
        if let Some((_, ValueRef::Block(block))) = values.and_then(|values| values.get(0)) {
            return Some(ValueType::from_code(block[0].into()));
        }
    }
    None
}

fn compare(names: Vec<String>, samples: i64) {
    let (mut tally, mut walked) = (Tally::default(), 0);
    for name in names {
        let Ok(mut archive) = Archive::open(&name) else { continue };
        let Ok(end) = archive.end() else { continue };
        let start = archive.label().start;
        let all = archive.pmids();
        let pmids = all.iter().step_by(all.len().div_ceil(METRICS)).copied().collect();
        let length = (end.as_nanos() - start.as_nanos()) as i64;
        let limits = |step: i64| step.clamp(1_000_000, 86_400_000_000_000);
        walked += 1;
        let asked = Asked { name, pmids, samples };
        run(&asked, start, limits(length / 23), &mut tally);
        if std::fs::metadata(format!("{}.0", asked.name)).map_or(true, |file| file.len() > LARGE) {
            continue;
        }
        for step in [length / 7, length / 50].map(limits) {
            run(&asked, end, -step, &mut tally);
            let inside = Timestamp::from_nanos(start.as_nanos() + i128::from(length / 3));
            run(&asked, inside, step / 3 + 1, &mut tally);
        }
    }
    println!(
        "{walked} archives, {} samples, {} sets, {} values, {:?}",
        tally.samples, tally.sets, tally.values, tally.known
    );
    for wrong in tally.wrong.iter().take(400) {
        println!("WRONG {wrong}");
    }
    assert!(tally.wrong.is_empty(), "{} differ", tally.wrong.len());
    assert!(walked > 0 && tally.values >= walked * VALUES, "too little was compared");
    for (why, most) in KNOWN {
        let count = tally.known.get(why).copied().unwrap_or_default();
        assert!(count <= most, "{count} sets differ because of {why}");
    }
}

/// Most archives; those that take both sides long to decode are left to tests of their own.
fn most(number: usize) {
    let mut names = portion("archives", number, 4);
    names.retain(|name| !SLOW.iter().any(|slow| *name == suite(slow)));
    compare(names, SAMPLES);
}

#[test]
fn archives_1_of_4() {
    most(1);
}

#[test]
fn archives_2_of_4() {
    most(2);
}

#[test]
fn archives_3_of_4() {
    most(3);
}

#[test]
fn archives_4_of_4() {
    most(4);
}

#[test]
fn an_archive_that_is_slow_to_decode() {
    compare(vec![suite(SLOW[0])], SAMPLES_OF_SLOW);
}

#[test]
fn another_archive_that_is_slow_to_decode() {
    compare(vec![suite(SLOW[1])], SAMPLES_OF_SLOW);
}
