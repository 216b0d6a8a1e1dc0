//! A log with a history: random appends, losses and reads, with whatever fits in memory. Each cursor gets each entry once.

use std::sync::{Arc, Mutex};

use byteorder::BigEndian;
use pcp_event::batch::Batch;
use pcp_event::log::{CursorId, EventLog, History, LogConfig, Place, Recall, Stretch};
use pcp_event::pack::{ArrayKind, EventFlags, Param};
use pcp_event::reader::ArrayReader;
use pcp_model::{Pmid, Timestamp};
use support::random::Random;

const MISSED: Pmid = Pmid::new(400, 16, 5);

/// Stretches as they were appended; some gone, some not to be had at once.
#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<Vec<(Stretch, Fate)>>>);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    There,
    /// After so many questions.
    Slow(u32),
    Gone,
}

fn end(stretch: &Stretch) -> u64 {
    stretch.first + stretch.lost + stretch.ends.len() as u64
}

impl History for Kept {
    fn read(&mut self, seq: u64, stretch: &mut Stretch) -> Recall {
        let mut kept = self.0.lock().expect("nobody panics");
        match kept.iter_mut().find(|(kept, _)| (kept.first..end(kept)).contains(&seq)) {
            Some((_, Fate::Slow(left))) if *left > 0 => {
                *left -= 1;
                Recall::Later
            }
            Some((kept, Fate::Gone)) => Recall::Lost { to: end(kept), time: Timestamp::new(7, 0) },
            Some((kept, _)) => {
                stretch.clone_from(kept);
                Recall::Found
            }
            None => Recall::Lost { to: u64::MAX, time: Timestamp::new(8, 0) },
        }
    }

    fn first(&self) -> Option<u64> {
        self.0.lock().expect("nobody panics").first().map(|(oldest, _)| oldest.first)
    }

    fn before(&self, _: Timestamp) -> Option<u64> {
        self.first()
    }
}

/// A cursor, and what it has been given: numbers of records, and how many were missed in front of each.
#[derive(Debug)]
struct Reader {
    cursor: CursorId,
    joined: u64,
    seen: u64,
    missed: u64,
    /// It was moved to a time, and has not seen where that is.
    since: Option<u64>,
}

impl Reader {
    /// Reads once. `what`: the entries, `None` for a lost one.
    fn read(&mut self, log: &mut EventLog, kept: &Kept, what: &[Option<u64>], max: usize) -> bool {
        let mut array = Vec::new();
        let outcome = log.read(self.cursor, ArrayKind::HighRes, &mut array, max).expect("it has joined");
        if outcome.records > 0 {
            let array = ArrayReader::<BigEndian>::new(ArrayKind::HighRes, &array).expect("an array");
            for record in array.records() {
                let first = record.params().next();
                match first.map(|param| (param.pmid, param.value)) {
                    None => {}
                    Some((MISSED, Param::U64(count))) => {
                        assert_eq!(self.since, None, "a time does not say how many there were");
                        self.seen += count;
                        self.missed += count;
                    }
                    Some((_, Param::U64(number))) => {
                        if let Some(since) = self.since.take() {
                            assert!(number >= since, "{number} is older than {since}");
                            self.passed(what, kept, since..number);
                            self.seen = number;
                        }
                        assert_eq!(what[self.seen as usize], Some(number), "entry {}", self.seen);
                        self.seen += 1;
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        let stats = log.cursor_stats(self.cursor).expect("it has joined");
        let sum = stats.delivered + stats.filtered + stats.missed + stats.queued;
        assert_eq!(sum, what.len() as u64 - self.joined + stats.again, "the account balances: {stats:?}");
        if self.since.is_some() && !outcome.more {
            let since = self.since.take().unwrap_or_default();
            self.passed(what, kept, since..what.len() as u64);
            self.seen = what.len() as u64;
        }
        assert!(self.since.is_some() || log.position(self.cursor) == Some(self.seen));
        outcome.more
    }

    /// Of what a search for a time has passed over, nothing could have been given.
    fn passed(&self, what: &[Option<u64>], kept: &Kept, mut passed: std::ops::Range<u64>) {
        let kept = kept.0.lock().expect("nobody panics");
        let is_gone = |seq| {
            let stretch = kept.iter().find(|(kept, _)| (kept.first..end(kept)).contains(&seq));
            stretch.is_none_or(|(_, fate)| *fate == Fate::Gone)
        };
        let given = passed.find(|&seq| what[seq as usize].is_some() && !is_gone(seq));
        assert_eq!(given, None, "{self:?}");
    }

    /// Moves it anywhere.
    fn seek(&mut self, log: &mut EventLog, what: &[Option<u64>], random: &mut Random) {
        let seq = random.below(what.len() + 1) as u64;
        self.since = None;
        let place = match random.below(6) {
            0 => Place::Newest,
            1 => Place::Oldest,
            2 | 3 => Place::Time(Timestamp::new(seq as i64 + 4, 0)),
            _ => Place::Seq(seq),
        };
        log.seek(self.cursor, place).expect("there is such a place");
        self.seen = log.position(self.cursor).expect("it has joined");
        if let Place::Time(time) = place {
            // In memory it is found at once, in the history when it is read.
            let found = what.get(self.seen as usize);
            let is_found = found.is_none_or(|found| found.is_some_and(|n| n as i64 >= time.sec));
            self.since = (!is_found).then_some(time.sec as u64);
        }
        match place {
            Place::Seq(seq) => assert_eq!(self.seen, seq),
            Place::Oldest => assert_eq!(self.seen, 0),
            _ => {}
        }
    }
}

fn append(log: &mut EventLog, kept: &Kept, what: &mut Vec<Option<u64>>, random: &mut Random) {
    let (count, lost) = (random.below(60), if random.percent(15) { random.below(5) as u64 } else { 0 });
    let longest = if random.percent(2) { 30_000 } else { 400 };
    let text = vec![b'x'; random.below(longest)];
    let mut batch = Batch::default();
    let first = what.len() as u64;
    what.extend((0..lost).map(|_| None));
    for _ in 0..count {
        let number = what.len() as u64;
        let mut record = batch.record(Timestamp::new(number as i64, 0), EventFlags::POINT);
        record.param(Pmid::new(400, 16, 20), Param::U64(number));
        record.param(Pmid::new(400, 16, 21), Param::String(&text));
        record.commit().expect("it is short");
        what.push(Some(number));
    }
    let fate = match random.below(20) {
        0 => Fate::Gone,
        1..4 => Fate::Slow(random.below(3) as u32),
        _ => Fate::There,
    };
    let stretch = Stretch {
        first,
        lost,
        lost_time: Timestamp::new(3, 0),
        records: batch.bytes().to_vec(),
        ends: batch.ends().to_vec(),
    };
    if lost + count as u64 > 0 {
        kept.0.lock().expect("nobody panics").push((stretch, fate));
    }
    log.append_missed(lost, Timestamp::new(3, 0));
    log.append(batch);
}

#[test]
fn each_cursor_gets_each_entry_once_wherever_it_is() {
    for seed in 0..300 {
        let mut random = Random::new(seed, 77);
        let kept = Kept::default();
        let config = LogConfig { budget: 16 << 10, recent: random.below(20), missed_pmid: MISSED };
        let mut log = EventLog::with_history(config, 0, None, Box::new(kept.clone()));
        let (mut what, mut readers) = (Vec::new(), Vec::<Reader>::new());
        for _ in 0..120 {
            match random.below(10) {
                0 => {
                    let joined = what.len() as u64;
                    readers.push(Reader { cursor: log.join(), joined, seen: joined, missed: 0, since: None });
                }
                1 if readers.len() > 1 => {
                    let gone = readers.swap_remove(random.below(readers.len()));
                    log.leave(gone.cursor);
                }
                2 => {
                    if let Some(reader) = readers.last_mut() {
                        reader.seek(&mut log, &what, &mut random);
                    }
                }
                3..6 => {
                    let max = random.below(20_000);
                    if let Some(reader) = readers.last_mut() {
                        reader.read(&mut log, &kept, &what, max);
                    }
                }
                _ => append(&mut log, &kept, &mut what, &mut random),
            }
            assert!(log.stats().bytes <= log.stats().budget);
        }
        for reader in &mut readers {
            while reader.read(&mut log, &kept, &what, 50_000) {}
            assert_eq!(reader.seen, what.len() as u64);
        }
    }
}
