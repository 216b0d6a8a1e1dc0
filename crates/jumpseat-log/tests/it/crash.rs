//! The program, or the power, goes at every moment of some random days.

use std::collections::BTreeMap;
use std::sync::Arc;

use jumpseat_log::{Entry as Appending, LOST, Limits, LogDir, Mark, SyncMode};
use pcp_model::{Inst, Timestamp};
use support::SimulatedDisk;
use support::random::Random;

use crate::seen::{self, Entry};

const DOMAIN: u16 = 400;
pub(crate) const BOOT: [u8; 16] = [1; 16];
pub(crate) const ANOTHER_BOOT: [u8; 16] = [2; 16];
const RECORDS: u32 = 1;

/// What was appended in a day, by source.
#[derive(Default)]
struct Day {
    appended: Vec<Appended>,
    /// Operations when a sync had ended, the source, and sequence number behind what was synced.
    synced: Vec<(usize, Inst, u64)>,
    time: u64,
}

struct Appended {
    source: Inst,
    first: u64,
    entries: Vec<Entry>,
    /// Operations of the disk before and after it.
    before: usize,
    after: usize,
    /// Number that the mark says.
    mark: u64,
}

fn name(source: Inst) -> String {
    format!("source {source}")
}

pub(crate) fn limits() -> Limits {
    Limits { source: 1 << 30, total: 1 << 30, segment: 3000, sync: SyncMode::Interval }
}

impl Day {
    /// One random day on a disk.
    fn of(random: &mut Random) -> (Day, SimulatedDisk) {
        let (mut day, disk) = (Day::default(), SimulatedDisk::default());
        let mut marks: BTreeMap<Inst, u64> = BTreeMap::new();
        let mut dir = open(&disk, BOOT);
        for _ in 0..random.below(20) + 5 {
            let source = random.below(2) as Inst;
            match random.below(10) {
                0 => {
                    drop(dir);
                    dir = open(&disk, BOOT);
                }
                1 | 2 => {
                    let log = dir.source(source, &name(source));
                    let end = log.next();
                    log.sync().expect("the disk is sound");
                    day.synced.push((disk.operations(), source, end));
                }
                _ => day.append(&disk, &dir, source, &mut marks, random),
            }
        }
        (day, disk)
    }

    fn append(
        &mut self,
        disk: &SimulatedDisk,
        dir: &LogDir,
        source: Inst,
        marks: &mut BTreeMap<Inst, u64>,
        random: &mut Random,
    ) {
        let log = dir.source(source, &name(source));
        let (count, lost) = (random.below(6), if random.percent(20) { random.below(4) } else { 0 });
        let times: Vec<u64> = (0..count as u64).map(|n| self.time + n).collect();
        self.time += count as u64;
        let number = marks.entry(source).or_default();
        *number += (count + lost) as u64;
        let mark = Mark { stream: b"s"[..].into(), number: *number, above: Vec::new(), text: Vec::new() };
        let batch = seen::batch(times.iter().copied(), random.below(900));
        let before = disk.operations();
        let entry = Appending {
            lost: (lost as u64, Timestamp::new(5, 0)),
            batch: &batch,
            counters: &[(RECORDS, count as u64)],
            marks: &[mark],
            numbered: if random.percent(50) { count as u32 } else { 0 },
        };
        let appended = log.append(&entry);
        assert!(appended.written);
        let lost = std::iter::repeat_n(Entry::Lost, lost);
        self.appended.push(Appended {
            source,
            first: appended.first,
            entries: lost.chain(times.into_iter().map(Entry::Record)).collect(),
            before,
            after: disk.operations(),
            mark: *number,
        });
    }

    fn of_source(&self, source: Inst) -> impl Iterator<Item = &Appended> {
        self.appended.iter().filter(move |appended| appended.source == source)
    }

    /// What is there after a crash behind `done` operations: nothing that was not sent, everything that must be.
    fn check(&self, disk: SimulatedDisk, boot: [u8; 16], done: usize) {
        let dir = open(&disk, boot);
        for source in 0..2 {
            let log = dir.source(source, &name(source));
            let next = log.next();
            let found = seen::entries(&dir, &log);
            let is_whole = |appended: &Appended| match boot {
                BOOT => appended.after <= done,
                _ => {
                    let end = appended.first + appended.entries.len() as u64;
                    self.synced.iter().any(|(at, of, until)| *at <= done && *of == source && end <= *until)
                }
            };
            let mut whole = 0;
            for appended in self.of_source(source) {
                for (index, entry) in appended.entries.iter().enumerate() {
                    let seq = (appended.first + index as u64) as usize;
                    match found.get(seq) {
                        Some(Entry::Gone) | None => assert!(!is_whole(appended), "{seq} of {source} is gone"),
                        Some(other) => {
                            assert_eq!(other, entry, "{seq} of source {source}");
                            assert!(appended.before <= done, "{seq} of {source} was never sent");
                        }
                    }
                }
                whole += usize::from(is_whole(appended));
            }
            let last = self.of_source(source).filter(|appended| appended.before <= done).last();
            let most = last.map_or(0, |last| last.first + last.entries.len() as u64);
            assert!(next <= most, "{next} of {source}: at most {most} were given out");
            let state = log.state();
            assert_eq!(state.counter(RECORDS) + state.counter(LOST), next, "the account of {source}");
            // What a mark covers is there, or is counted as gone.
            let mark = state.marks().next().map_or(0, |mark| mark.number);
            let known = self.of_source(source).take(whole).last().map_or(0, |appended| appended.mark);
            assert!(mark >= known, "{mark} of {source}: {known} was acknowledged");
            assert!(mark <= next, "{mark} of {source}: only {next} are there");
            self.go_on(&dir, source, found);
        }
    }

    /// The log takes more, and gives it back with what was there.
    fn go_on(&self, dir: &LogDir, source: Inst, mut found: Vec<Entry>) {
        let log = dir.source(source, &name(source));
        let batch = seen::batch([self.time + 1], 10);
        let entry = Appending {
            lost: (1, Timestamp::new(6, 0)),
            batch: &batch,
            counters: &[],
            marks: &[],
            numbered: 0,
        };
        assert_eq!(log.append(&entry).first, found.len() as u64);
        found.extend([Entry::Lost, Entry::Record(self.time + 1)]);
        assert_eq!(seen::entries(dir, &log), found);
    }
}

fn open(disk: &SimulatedDisk, boot: [u8; 16]) -> LogDir {
    LogDir::on(Arc::new(disk.clone()), DOMAIN, boot, limits()).expect("a disk in memory")
}

/// How many moments to try: some thousand in everyday's tests, more if `JUMPSEAT_CRASH_POINTS` says so.
pub(crate) fn points() -> usize {
    std::env::var("JUMPSEAT_CRASH_POINTS").ok().and_then(|points| points.parse().ok()).unwrap_or(3000)
}

fn crash(stream: u64, boot: [u8; 16], image: impl Fn(&SimulatedDisk, usize, &mut Random) -> SimulatedDisk) {
    let (mut tried, mut seed) = (0, 0);
    while tried < points() {
        let mut random = Random::new(seed, stream);
        seed += 1;
        let (day, disk) = Day::of(&mut random);
        for done in 0..=disk.operations() {
            day.check(image(&disk, done, &mut random), boot, done);
            tried += 1;
        }
    }
    eprintln!("{tried} moments of {seed} days");
}

#[test]
fn a_kill_at_any_moment_loses_nothing_that_was_written() {
    crash(1, BOOT, SimulatedDisk::killed);
}

#[test]
fn a_loss_of_power_at_any_moment_loses_nothing_that_was_synced() {
    crash(2, ANOTHER_BOOT, SimulatedDisk::unpowered);
}
