//! Identifiers and the records that refer to them, over chains of kills and losses of power at any moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use byteorder::BigEndian;
use jumpseat_log::{Entry as Appending, LogDir, SourceLog};
use pcp_event::batch::Batch;
use pcp_event::log::{EventLog, LogConfig, Place};
use pcp_event::pack::{ArrayKind, EventFlags, Param};
use pcp_event::reader::ArrayReader;
use pcp_ids::IdMap;
use pcp_model::{Pmid, Timestamp};
use support::SimulatedDisk;
use support::random::Random;

use crate::crash::{ANOTHER_BOOT, BOOT, limits, points};

const NAME: &str = "400.1";

/// What a field is called, and how it got its identifier: after so many operations.
type Given = Vec<(usize, String, i32)>;

fn open(disk: &SimulatedDisk, boot: [u8; 16]) -> (IdMap, Arc<SourceLog>, LogDir) {
    let ids = IdMap::load_on(Arc::new(disk.clone()), NAME, 1000).expect("whatever has happened, it is whole");
    let dir = LogDir::on(Arc::new(disk.clone()), 400, boot, limits()).expect("a disk in memory");
    (ids, dir.source(0, "a"), dir)
}

/// A random day: fields get identifiers, and records refer to them.
fn live(disk: &SimulatedDisk, boot: [u8; 16], random: &mut Random, day: usize) -> Given {
    let (mut ids, log, _dir) = open(disk, boot);
    let mut given = Vec::new();
    for n in 0..random.below(12) + 1 {
        match random.below(10) {
            0 => drop(log.sync()),
            1 => ids.save().expect("the disk is sound"),
            2 => {
                if let Some((id, old)) = ids.iter().last().map(|(id, name)| (id, name.to_owned())) {
                    // Of its own: what was `old` may have got more text on a day before, and another is `old` since.
                    let name = format!("{old} {day}.{n}{}", "y".repeat(random.below(50)));
                    ids.extend(id, &name).expect("there is room");
                    given.push((disk.operations(), name, id));
                }
            }
            _ => {
                // Long enough for its line to be in two sectors now and then.
                let name = match random.below(3) {
                    0 => format!("old {}", random.below(3)),
                    _ => format!("{day}.{n} {}", "x".repeat(random.below(200))),
                };
                let id = ids.get_or_add(&name).expect("there is room");
                given.push((disk.operations(), name.clone(), id));
                let mut batch = Batch::default();
                let mut record = batch.record(Timestamp::new(1, 0), EventFlags::POINT);
                record.param(Pmid::new(400, 16, id as u16), Param::String(name.as_bytes()));
                record.commit().expect("it is short");
                let entry = Appending {
                    lost: (0, Timestamp::default()),
                    batch: &batch,
                    counters: &[],
                    marks: &[],
                    numbered: 0,
                };
                assert!(log.append(&entry).written);
            }
        }
    }
    given
}

/// Each record that is there is about a field that has an identifier, and is that one.
fn check_records(ids: &IdMap, log: &Arc<SourceLog>, dir: &LogDir) {
    let config = LogConfig { budget: 0, recent: 0, missed_pmid: Pmid::new(400, 17, 0) };
    let mut memory = EventLog::with_history(config, log.next(), None, dir.history(log));
    let cursor = memory.join();
    memory.seek(cursor, Place::Oldest).expect("there is an oldest");
    while memory.cursor_stats(cursor).is_some_and(|stats| stats.queued > 0) {
        let mut array = Vec::new();
        memory.read(cursor, ArrayKind::HighRes, &mut array, 1 << 20).expect("it has joined");
        if array.is_empty() {
            dir.fetch_now();
            continue;
        }
        let array = ArrayReader::<BigEndian>::new(ArrayKind::HighRes, &array).expect("an array");
        for param in array.records().flat_map(|record| record.params()) {
            if let Param::String(name) = param.value {
                let found = ids.name(param.pmid.item().into()).expect("it was handed out");
                assert!(is_or_begins(&String::from_utf8_lossy(name), found), "{found:?}");
            }
        }
    }
}

/// Whether a name is another, or that with more behind a blank.
fn is_or_begins(name: &str, other: &str) -> bool {
    other.strip_prefix(name).is_some_and(|more| more.is_empty() || more.starts_with(' '))
}

#[test]
fn an_identifier_means_one_name_whatever_dies() {
    let (mut tried, mut seed) = (0, 0);
    while tried < points() / 2 {
        let mut random = Random::new(seed, 3);
        seed += 1;
        let mut disk = SimulatedDisk::default();
        let mut known: BTreeMap<i32, String> = BTreeMap::new();
        let mut boot = BOOT;
        for day in 0..4 {
            let first = disk.operations();
            let given = live(&disk, boot, &mut random, day);
            let done = first + random.below(disk.operations() + 1 - first);
            for (_, name, id) in given.into_iter().filter(|(at, ..)| *at <= done) {
                let before = known.insert(id, name.clone());
                let is_same = |before: String| is_or_begins(&before, &name);
                assert!(before.is_none_or(is_same), "{id} means {name:?}, too");
            }
            if random.percent(50) {
                disk = disk.killed(done, &mut random);
            } else {
                (disk, boot) =
                    (disk.unpowered(done, &mut random), if boot == BOOT { ANOTHER_BOOT } else { BOOT });
            }
            let (ids, log, dir) = open(&disk, boot);
            for (id, name) in &known {
                // More of it may have come there just before.
                let found = ids.name(*id).expect("it was handed out");
                assert!(is_or_begins(name, found), "{id} was {name:?} and is {found:?}");
            }
            check_records(&ids, &log, &dir);
            tried += 1;
        }
    }
}

#[test]
fn only_identifiers_wait_for_the_disk() {
    let disk = SimulatedDisk::default();
    let load = || IdMap::load_on(Arc::new(disk.clone()), NAME, 1000).expect("it is whole");
    load();
    let mut ids = load();
    assert_eq!(disk.syncs(), 0, "nobody relies on a file without identifiers");
    ids.get_or_add("first").expect("there is room");
    assert_eq!(disk.syncs(), 2, "what is in it, and its name");
    ids.get_or_add("second").expect("there is room");
    assert_eq!(disk.syncs(), 3);
    load();
    assert_eq!(disk.syncs(), 5, "a process that was killed may have left it in memory only");
}
