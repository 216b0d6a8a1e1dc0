//! Interpolated values of every archive of PCP's test suite against libpcp, at several steps in both directions.
//!
//! From PCP 6.3 on, a reading between two records is the nearer one, which is our way unless told otherwise; before, the
//! earlier. Each libpcp is compared in its own mode: with the installed one that is the earlier on Debian 12, and
//! `JUMPSEAT_ARCHIVE_PREFIX` (see [`oracle`]) leads to another. What the nearer one is can be had from any libpcp, by
//! its records: [`readings_are_those_of_the_nearer_record`].

use std::cell::OnceCell;
use std::collections::BTreeMap;

use jumpseat::archive::{Archive, Replay, ReplayMode};
use jumpseat::model::{Desc, InDom, PM_IN_NULL, Pmid, Profile, Semantics, Timestamp, ValueType};
use jumpseat::pdu::Fetched;

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
    refused: usize,
    known: BTreeMap<&'static str, usize>,
    wrong: Vec<String>,
}

const MARK: &str = "a value from in front of a mark";
const END: &str = "the end of a damaged archive";
const TYPE: &str = "a block that does not say its type";
const COUNTER: &str = "a counter of such blocks";
/// How many sets of a run may differ for which reason.
const KNOWN: [(&str, usize); 4] = [(MARK, 40), (END, 2), (TYPE, 5), (COUNTER, 100)];
/// How many values have to be compared for each archive, at least.
const VALUES: usize = 500;

/// How many of the archives neither side opens.
const REFUSED: usize = 0;

/// What both sides are asked for.
struct Asked {
    name: String,
    pmids: Vec<Pmid>,
    samples: i64,
    /// What libpcp has in the records of the archive; read only where a difference needs it.
    recorded: OnceCell<Recorded>,
}

impl Asked {
    fn recorded(&self) -> &Recorded {
        self.recorded.get_or_init(|| Recorded::of(&self.name, &self.pmids))
    }
}

/// One run through an archive on both sides, opened anew: the library does not forget all when the mode is set.
fn run(asked: &Asked, origin: Timestamp, step: i64, tally: &mut Tally) {
    let Asked { name, pmids, samples, .. } = asked;
    let mut oracle = oracle();
    oracle.ask(&format!("open {name}"));
    let mut replay = Replay::new(Archive::open(name).unwrap());
    if takes_the_earlier(&oracle.ask("version")) {
        replay.set_nearest(false);
    }
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
        assert_eq!(sets.len(), out.sets().count(), "{name} step {step}");
        for (theirs, ours) in sets.iter().zip(out.sets()) {
            tally.sets += 1;
            tally.values += theirs.matches('=').count();
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
                match known(asked, &desc, step, time, theirs) {
                    Some((why, expected)) if expected == text => {
                        *tally.known.entry(why).or_default() += 1;
                    }
                    Some((why, expected)) => {
                        tally.wrong.push(format!("{what}; {why}, expected {expected:.300}"));
                    }
                    None => tally.wrong.push(what),
                }
            }
        }
    }
}

/// Whether readings between two records are the earlier one in this version of PCP.
fn takes_the_earlier(version: &str) -> bool {
    let mut numbers = version.split('.').map(|word| word.parse::<u32>().expect("versions are numbers"));
    (numbers.next(), numbers.next()) < (Some(6), Some(3))
}

/// Why libpcp's set need not be ours, and which ours has to be then: what the records that it delivers itself say.
fn known(
    asked: &Asked,
    desc: &Desc,
    step: i64,
    at: Timestamp,
    theirs: &str,
) -> Option<(&'static str, String)> {
    let pmid = desc.pmid.0;
    if desc.semantics == Semantics::Discrete && step < 0 && asked.recorded().marked(pmid, at) {
        // Going back, the library takes a value from in front of a mark when it is at its first sample.
        return Some((MARK, format!("{pmid}:0")));
    }
    let is_long = matches!(desc.value_type, ValueType::I64 | ValueType::U64 | ValueType::Double);
    if is_long && asked.recorded().type_of(pmid) != Some(desc.value_type.code()) {
        // It does not bring the bytes of such a block into the machine's order: readings are the same in reverse, and
        // what it makes of counters between two records has no meaning: they are on the line between the right ones.
        return Some(match desc.semantics {
            Semantics::Counter => (COUNTER, asked.recorded().counters_at(desc, at)),
            _ => (TYPE, reversed(theirs)),
        });
    }
    None
}

/// A set with the bytes of each 64-bit value in reverse.
fn reversed(set: &str) -> String {
    let value = |value: &str| match value.rsplit_once('/') {
        Some((head, number)) => {
            let bits = u64::from_str_radix(number, 16).expect("the oracle prints hexadecimal numbers");
            format!("{head}/{:016x}", bits.swap_bytes())
        }
        None => value.to_owned(),
    };
    set.split(',').map(value).collect::<Vec<_>>().join(",")
}

fn compare(names: Vec<String>, samples: i64) {
    let (mut tally, mut walked) = (Tally::default(), 0);
    for name in names {
        let theirs = oracle().ask(&format!("open {name}"));
        let mut archive = match Archive::open(&name) {
            Ok(archive) => archive,
            Err(error) => {
                assert_eq!(theirs, format!("err {}", error.code().0), "{name}");
                tally.refused += 1;
                continue;
            }
        };
        let end = archive.end().unwrap_or_else(|error| panic!("{name}: {error}"));
        let start = archive.label().start;
        let all = archive.pmids();
        let pmids = all.iter().step_by(all.len().div_ceil(METRICS)).copied().collect();
        let length = (end.as_nanos() - start.as_nanos()) as i64;
        let limits = |step: i64| step.clamp(1_000_000, 86_400_000_000_000);
        walked += 1;
        let asked = Asked { name, pmids, samples, recorded: OnceCell::new() };
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
        "{walked} archives and {} refused, {} samples, {} sets, {} values, {:?}",
        tally.refused, tally.samples, tally.sets, tally.values, tally.known
    );
    for wrong in tally.wrong.iter().take(400) {
        println!("WRONG {wrong}");
    }
    assert!(tally.wrong.is_empty(), "{} differ", tally.wrong.len());
    assert!(walked > 0 && tally.refused == REFUSED, "too many archives are refused");
    assert!(tally.values >= walked * VALUES, "too little was compared");
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

/// A recorded value with its time.
type Reading = (Timestamp, String);

/// What libpcp delivers of an archive, record by record: the values of each metric and instance, and the times of marks.
struct Recorded {
    readings: BTreeMap<(u32, i32), Vec<Reading>>,
    marks: Vec<Timestamp>,
}

impl Recorded {
    fn of(name: &str, pmids: &[Pmid]) -> Recorded {
        let mut recorded = Recorded { readings: BTreeMap::new(), marks: Vec::new() };
        let mut oracle = oracle();
        oracle.ask(&format!("open {name}"));
        loop {
            let line = oracle.ask("next");
            let Some((time, rest)) = line.split_once(' ').filter(|_| !line.starts_with("err")) else { break };
            if rest.starts_with("0 ") {
                recorded.marks.push(split(&format!("{time} 0")).0);
            }
        }
        oracle.ask(&format!("open {name}"));
        let list: String = pmids.iter().map(|pmid| format!(" {}", pmid.0)).collect();
        loop {
            let line = oracle.ask(&format!("fetch{list}"));
            if line.starts_with("err") {
                return recorded;
            }
            let (time, sets) = split(&line);
            for (pmid, values) in sets.iter().filter_map(|set| set.split_once(':')) {
                for (inst, value) in values.split(',').filter_map(|value| value.split_once('=')) {
                    let key = (pmid.parse().unwrap(), inst.parse().unwrap());
                    recorded.readings.entry(key).or_default().push((time, value.to_owned()));
                }
            }
        }
    }

    /// All readings of a metric.
    fn of_metric(&self, pmid: u32) -> impl Iterator<Item = (i32, &[Reading])> {
        let keys = (pmid, i32::MIN)..=(pmid, i32::MAX);
        self.readings.range(keys).map(|((_, inst), readings)| (*inst, readings.as_slice()))
    }

    /// Whether there is a mark between the last values of a metric up to a time, and that time.
    fn marked(&self, pmid: u32, at: Timestamp) -> bool {
        let last = self.of_metric(pmid).flat_map(|(_, readings)| readings).map(|(time, _)| *time);
        let last = last.filter(|time| *time <= at).max();
        self.marks.iter().any(|mark| *mark <= at && last.is_none_or(|last| last <= *mark))
    }

    /// The type that the first block of a metric says it has.
    fn type_of(&self, pmid: u32) -> Option<i32> {
        let first = self.of_metric(pmid).flat_map(|(_, readings)| readings).min_by_key(|(time, _)| *time)?;
        first.1.split('/').next()?.parse().ok()
    }

    /// The set of a counter whose blocks do not say that they hold 64 bits: each value on the line between the one before and
    /// the one behind. Of such blocks the oracle prints the bytes as they are in the file.
    fn counters_at(&self, desc: &Desc, at: Timestamp) -> String {
        assert_eq!(desc.value_type, ValueType::U64, "other counters are not recorded so");
        let number = |(time, block): &Reading| {
            let bits = block.rsplit('/').next().expect("there is a last part");
            let bits = u64::from_str_radix(bits, 16).unwrap_or_else(|error| panic!("{block}: {error}"));
            (time.as_nanos(), i128::from(bits))
        };
        let value = |readings: &[Reading]| {
            let next = readings.partition_point(|(time, _)| *time < at);
            let (end, after) = number(readings.get(next)?);
            if end == at.as_nanos() {
                return Some(after);
            }
            let (begin, before) = number(readings.get(next.checked_sub(1)?)?);
            // to the nearer integer
            let (part, whole) =
                (2 * (after - before) * (at.as_nanos() - begin) + (end - begin), 2 * (end - begin));
            Some(before + part.div_euclid(whole))
        };
        let mut instances: BTreeMap<i32, Vec<Reading>> = BTreeMap::new();
        for (inst, readings) in self.of_metric(desc.pmid.0) {
            // Without a domain, what is recorded as its number means nothing.
            let inst = if desc.indom == InDom::NULL { PM_IN_NULL } else { inst };
            instances.entry(inst).or_default().extend(readings.iter().cloned());
        }
        instances.values_mut().for_each(|readings| readings.sort_by_key(|(time, _)| *time));
        let values: Vec<(i32, i128)> =
            instances.iter().filter_map(|(inst, readings)| Some((*inst, value(readings)?))).collect();
        let text =
            values.iter().map(|(inst, value)| format!(",{inst}={}/12/{value:016x}", desc.value_type.code()));
        format!("{}:{}{}", desc.pmid.0, values.len(), text.collect::<String>())
    }

    /// The value at a time, by the rule of PCP 6.3: that of the nearer record, or of the earlier of two as near, unless
    /// a mark is in between; a discrete one needs none behind it.
    fn nearer(&self, key: (u32, i32), discrete: bool, at: Timestamp) -> Option<&str> {
        let readings = self.readings.get(&key)?;
        let next = readings.partition_point(|(time, _)| *time <= at);
        let free =
            |from: Timestamp, to: Timestamp| !self.marks.iter().any(|mark| from <= *mark && *mark <= to);
        let before = readings.get(next.checked_sub(1)?).filter(|(time, _)| free(*time, at))?;
        if before.0 == at {
            return Some(&before.1);
        }
        let after = readings.get(next).filter(|(time, _)| free(at, *time));
        match after {
            None => discrete.then_some(before.1.as_str()),
            Some(after) => {
                let far = at.as_nanos() - before.0.as_nanos() > after.0.as_nanos() - at.as_nanos();
                Some(if far { &after.1 } else { &before.1 })
            }
        }
    }
}

/// The instances that libpcp knows of each domain of an archive: what has none has no values between records.
fn instances_of(name: &str, indoms: impl Iterator<Item = InDom>) -> BTreeMap<InDom, Vec<i32>> {
    let mut oracle = oracle();
    oracle.ask(&format!("open {name}"));
    let mut all = BTreeMap::new();
    for indom in indoms.filter(|indom| *indom != InDom::NULL) {
        all.entry(indom).or_insert_with(|| {
            let answer = oracle.ask(&format!("indom {}", indom.0));
            let ids = answer.split(' ').skip(1).filter_map(|word| word.split_once(':'));
            ids.map(|(id, _)| id.parse().expect("the oracle prints numbers")).collect()
        });
    }
    all
}

/// In the mode that users have unless they say otherwise, next to the records as libpcp of any version delivers them.
#[test]
fn readings_are_those_of_the_nearer_record() {
    let (mut compared, mut none, mut walked) = (0, 0, 0);
    let mut wrong = Vec::new();
    let small = |name: &String| std::fs::metadata(format!("{name}.0")).is_ok_and(|file| file.len() < LARGE);
    for name in archives("archives").into_iter().filter(small) {
        let mut archive = Archive::open(&name).expect("libpcp opens all of these");
        let end = archive.end().expect("libpcp finds the end of all of these");
        let start = archive.label().start;
        // Instances of large domains have life spans, which a discrete one outlives here.
        let reading = |pmid: &Pmid| {
            let desc = archive.desc(*pmid).unwrap();
            let single = desc.indom == InDom::NULL;
            let kind =
                desc.semantics == Semantics::Instant || (desc.semantics == Semantics::Discrete && single);
            kind && matches!(desc.value_type, ValueType::I32 | ValueType::U32)
        };
        let pmids: Vec<Pmid> = archive.pmids().into_iter().filter(reading).take(METRICS).collect();
        if pmids.is_empty() {
            continue;
        }
        walked += 1;
        let recorded = Recorded::of(&name, &pmids);
        let instances = instances_of(&name, pmids.iter().map(|pmid| archive.desc(*pmid).unwrap().indom));
        let step = ((end.as_nanos() - start.as_nanos()) as i64 / 37).max(1_000_000);
        let mut replay = Replay::new(archive);
        replay.set_mode(ReplayMode::Interpolate(step), Some(start));
        let mut out = Fetched::new();
        while replay.fetch(&pmids, &Profile::default(), &mut out).is_ok() {
            for set in out.sets() {
                let desc = replay.archive().desc(set.pmid).unwrap();
                let discrete = desc.semantics == Semantics::Discrete;
                let known = instances.get(&desc.indom);
                let mut theirs: Vec<(i32, &str)> = recorded
                    .readings
                    .range((set.pmid.0, i32::MIN)..=(set.pmid.0, i32::MAX))
                    .filter(|((_, inst), _)| known.is_none_or(|known| known.contains(inst)))
                    .filter_map(|(key, _)| {
                        Some((
                            known.map_or(PM_IN_NULL, |_| key.1),
                            recorded.nearer(*key, discrete, out.timestamp)?,
                        ))
                    })
                    .collect();
                theirs.sort_unstable();
                let text = set_text(&set);
                assert!(set.values.is_ok(), "{name}: {text}");
                let mut ours: Vec<(i32, &str)> = text
                    .split(',')
                    .filter_map(|value| value.split_once('='))
                    .map(|(inst, value)| (inst.parse().unwrap(), value))
                    .collect();
                ours.sort_unstable();
                compared += theirs.len();
                none += usize::from(theirs.is_empty());
                if theirs != ours {
                    let at = time(out.timestamp);
                    wrong.push(format!("{name} at {at}: {}: {theirs:?}, here {ours:?}", set.pmid));
                }
            }
        }
    }
    println!("{walked} archives, {compared} values, {none} sets without any");
    for wrong in wrong.iter().take(40) {
        println!("WRONG {wrong:.400}");
    }
    assert!(wrong.is_empty(), "{} differ", wrong.len());
    assert!(walked > 20 && compared > 10_000, "too little was compared");
}
