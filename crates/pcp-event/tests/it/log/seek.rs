//! Cursors that are moved: what they are given is all that lies behind the place, once, or a missed record for it, and
//! the accounts balance.

use pcp_event::log::{LogConfig, MAX_LOSS};
use pcp_event::{ArrayKind, Batch, CursorId, CursorStats, EventFlags, EventLog, Param, Place, SeekError};
use pcp_model::Timestamp;
use proptest::prelude::*;

use super::check::{Fields, ID, Item, MISSED, batch, items, time};

fn log(budget: usize, recent: usize) -> EventLog {
    EventLog::new(LogConfig { budget, recent, missed_pmid: MISSED })
}

fn read(log: &mut EventLog, cursor: CursorId, max: usize) -> Vec<Item> {
    let mut out = Vec::new();
    log.read(cursor, ArrayKind::HighRes, &mut out, max).expect("the cursor is known");
    items(ArrayKind::HighRes, &out)
}

fn read_all(log: &mut EventLog, cursor: CursorId) -> Vec<Item> {
    let mut all = Vec::new();
    loop {
        let items = read(log, cursor, 10_000);
        if items.is_empty() {
            return all;
        }
        all.extend(items);
    }
}

fn balance(log: &EventLog, cursor: CursorId) {
    let stats = log.cursor_stats(cursor).expect("the cursor is known");
    let sum = stats.delivered + stats.filtered + stats.missed + stats.queued;
    assert_eq!(log.stats().seq - stats.joined_at + stats.again, sum, "{stats:?}");
}

#[test]
fn a_cursor_goes_back_to_what_was_kept_for_another() {
    let mut log = log(1 << 20, 0);
    let _keeps = log.join();
    let cursor = log.join();
    log.append(batch(0..10));
    log.append_missed(5, time(90));
    log.append(batch(10..20));
    assert_eq!(read_all(&mut log, cursor).len(), 21);
    assert_eq!(log.position(cursor), Some(25));
    let records = |from: u64, to: u64| (from..to).map(Item::Record);
    for (place, first, missed, second) in [
        (Place::Oldest, 0, 5, 10),
        (Place::Seq(0), 0, 5, 10),
        (Place::Seq(7), 7, 5, 10),
        (Place::Seq(10), 10, 5, 10),
        // Within the loss: so many are left of it.
        (Place::Seq(12), 10, 3, 10),
        (Place::Seq(15), 10, 0, 10),
        (Place::Seq(24), 10, 0, 19),
        (Place::Seq(25), 10, 0, 20),
        (Place::Newest, 10, 0, 20),
        (Place::Time(time(3)), 3, 5, 10),
    ] {
        log.seek(cursor, place).unwrap();
        balance(&log, cursor);
        let lost = (missed > 0).then_some(Item::Missed(missed, time(90)));
        let expected: Vec<Item> = records(first, 10).chain(lost).chain(records(second, 20)).collect();
        assert_eq!(read_all(&mut log, cursor), expected, "{place:?}");
        balance(&log, cursor);
    }
    let ahead = log.seek(cursor, Place::Seq(26)).unwrap_err();
    assert_eq!(ahead, SeekError::Ahead { asked: 26, next: 25 });
    assert_eq!(ahead.to_string(), "there is no record 26 yet: the next one is 25");
    assert_eq!(log.position(cursor), Some(25));
}

#[test]
fn what_is_no_longer_there_is_one_missed_record() {
    // Nobody reads, so hardly more than the newest three are kept.
    let mut log = log(1 << 20, 3);
    log.append(batch(0..10));
    log.append_missed(2, time(50));
    log.append(batch(10..11));
    let cursor = log.join();
    log.seek(cursor, Place::Seq(4)).unwrap();
    assert_eq!(log.position(cursor), Some(4), "it has not been told yet");
    let left = [
        Item::Missed(3, time(6)),
        Item::Record(7),
        Item::Record(8),
        Item::Record(9),
        Item::Missed(2, time(50)),
        Item::Record(10),
    ];
    assert_eq!(read_all(&mut log, cursor), left);
    balance(&log, cursor);
    // Nothing at all is kept.
    let mut log = self::log(1 << 20, 0);
    log.append(batch(0..10));
    log.append_missed(2, time(50));
    let cursor = log.join();
    log.seek(cursor, Place::Seq(4)).unwrap();
    assert_eq!(read_all(&mut log, cursor), [Item::Missed(8, time(50))]);
    log.seek(cursor, Place::Oldest).unwrap();
    assert_eq!(read_all(&mut log, cursor), []);
    balance(&log, cursor);
}

#[test]
fn a_position_that_is_sought_again_changes_nothing() {
    let mut log = log(16 << 10, 0);
    let cursor = log.join();
    for ids in 0..40 {
        log.append(batch(ids * 10..ids * 10 + 10));
    }
    log.append_missed(3, time(400));
    let lost = log.cursor_stats(cursor).unwrap().owed;
    assert!(lost > 0, "the budget is full");
    let before = log.position(cursor).unwrap();
    log.seek(cursor, Place::Seq(before)).unwrap();
    assert_eq!(log.position(cursor), Some(before));
    let items = read_all(&mut log, cursor);
    assert_eq!(items.first(), Some(&Item::Missed(lost, time(lost - 1))));
    assert_eq!(items.last(), Some(&Item::Missed(3, time(400))));
    assert_eq!(log.position(cursor), Some(403));
    balance(&log, cursor);
}

#[test]
fn a_time_finds_the_first_record_that_is_not_before_it_in_whatever_order() {
    let mut log = log(1 << 20, 0);
    let _keeps = log.join();
    let cursor = log.join();
    let seconds = [10, 20, 15, 30, 25, 30, 40, 5, 50];
    for second in seconds {
        let mut batch = Batch::default();
        let mut record = batch.record(Timestamp::new(second, 0), EventFlags::POINT);
        record.param(ID, Param::U64(0));
        record.commit().unwrap();
        log.append(batch);
    }
    for (second, expected) in
        [(0, 0), (10, 0), (11, 1), (20, 1), (21, 3), (30, 3), (31, 6), (45, 8), (50, 8), (51, 9)]
    {
        log.seek(cursor, Place::Time(Timestamp::new(second, 0))).unwrap();
        assert_eq!(log.position(cursor), Some(expected), "{second}");
    }
    balance(&log, cursor);
}

#[test]
fn a_filter_holds_at_the_new_place_and_those_behind_it_are_counted_on() {
    let mut log = log(16 << 10, 0);
    let keeps = log.join();
    let cursor = log.join();
    let filter = pcp_event::Filter::parse("id >= 0").unwrap().map(std::sync::Arc::new);
    log.set_filter(cursor, filter, &Fields);
    log.append(batch(0..10));
    assert_eq!(read_all(&mut log, cursor).len(), 10);
    log.seek(cursor, Place::Seq(5)).unwrap();
    for ids in 1..40 {
        log.append(batch(ids * 10..ids * 10 + 10));
    }
    // It has fallen behind, and is moved while it is.
    log.seek(cursor, Place::Seq(3)).unwrap();
    balance(&log, cursor);
    let first = log.stats().first;
    assert!(first > 10);
    let items = read_all(&mut log, cursor);
    assert_eq!(items[0], Item::Missed(first - 3, time(first - 1)));
    assert_eq!(items.len() as u64, 400 - first + 1);
    balance(&log, cursor);
    log.leave(cursor);
    log.leave(keeps);
    assert_eq!((log.stats().cursors, log.stats().records), (0, 0));
}

#[test]
fn counters_end_within_64_bits_whatever_is_claimed_and_asked_for() {
    let mut log = log(1 << 20, 0);
    let cursor = log.join();
    // Each at a place of its own.
    while log.stats().seq < 1 << 46 {
        log.append_missed(MAX_LOSS, time(1));
        log.append(batch(0..1));
    }
    let moves = (0..1 << 18).find_map(|moves| {
        log.seek(cursor, Place::Newest).unwrap();
        balance(&log, cursor);
        log.seek(cursor, Place::Seq(0)).err().map(|error| (moves, error))
    });
    let (moves, error) = moves.expect("there is an end");
    assert_eq!(error, SeekError::TooOften);
    assert_eq!(moves, (1 << 62) / log.stats().seq);
    balance(&log, cursor);
}

#[derive(Clone, Debug)]
enum Step {
    Append(u64),
    Lose(u64),
    /// A cursor that keeps what is there comes or goes.
    Keep(bool),
    Filter(bool),
    /// To a sequence number, in thousandths of what there is.
    Seek(u64),
    SeekTime(u64),
    Ends(bool),
    Read(usize),
    /// Back to where it says it is.
    Resume,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u64..40).prop_map(Step::Append),
        2 => (100u64..400).prop_map(Step::Append),
        3 => (0u64..5).prop_map(Step::Lose),
        2 => any::<bool>().prop_map(Step::Keep),
        1 => any::<bool>().prop_map(Step::Filter),
        4 => (0u64..=1000).prop_map(Step::Seek),
        2 => (0u64..=1000).prop_map(Step::SeekTime),
        1 => any::<bool>().prop_map(Step::Ends),
        3 => prop_oneof![0usize..400, 0usize..5_000].prop_map(Step::Read),
        2 => Just(Step::Resume),
    ]
}

#[derive(Clone, Copy, Debug)]
enum Sent {
    Record(u64),
    Lost,
}

/// A log, what was sent to it, and one cursor that is moved about.
struct Bench {
    log: EventLog,
    sent: Vec<Sent>,
    next_id: u64,
    keeper: Option<CursorId>,
    cursor: CursorId,
    /// What the cursor has been told of.
    told: u64,
}

impl Bench {
    fn new(recent: usize) -> Bench {
        let mut log = log(32 << 10, recent);
        let cursor = log.join();
        Bench { log, sent: Vec::new(), next_id: 0, keeper: None, cursor, told: 0 }
    }

    fn step(&mut self, step: Step) {
        let now = self.sent.len() as u64;
        match step {
            Step::Append(count) => {
                let ids = self.next_id..self.next_id + count;
                self.next_id = ids.end;
                self.sent.extend(ids.clone().map(Sent::Record));
                self.log.append(batch(ids));
            }
            Step::Lose(count) => {
                self.sent.extend((0..count).map(|_| Sent::Lost));
                self.log.append_missed(count, time(self.next_id));
            }
            Step::Keep(true) if self.keeper.is_none() => self.keeper = Some(self.log.join()),
            Step::Keep(true) => {}
            Step::Keep(false) => self.keeper.take().into_iter().for_each(|keeper| self.log.leave(keeper)),
            Step::Filter(is_set) => {
                // All pass: what is counted differs only in how.
                let text = if is_set { "id >= 0" } else { "" };
                let filter = pcp_event::Filter::parse(text).unwrap().map(std::sync::Arc::new);
                self.log.set_filter(self.cursor, filter, &Fields);
            }
            Step::Seek(part) => {
                let seq = now * part / 1000;
                self.log.seek(self.cursor, Place::Seq(seq)).unwrap();
                self.told = seq;
            }
            Step::SeekTime(part) => {
                let first = self.log.stats().first;
                let id = self.next_id * part / 1000;
                self.log.seek(self.cursor, Place::Time(time(id))).unwrap();
                self.told = self.log.position(self.cursor).unwrap();
                let at = |sent: &Sent| matches!(sent, Sent::Record(other) if *other == id);
                let sent = self.sent.iter().position(at).map_or(now, |at| at as u64);
                assert!(self.told <= sent.max(first), "nothing from then on is left out");
                assert!(self.told >= first);
            }
            Step::Ends(true) => {
                self.log.seek(self.cursor, Place::Newest).unwrap();
                self.told = now;
            }
            Step::Ends(false) => {
                self.told = self.log.stats().first;
                self.log.seek(self.cursor, Place::Oldest).unwrap();
            }
            Step::Read(max) => {
                let items = read(&mut self.log, self.cursor, max);
                self.tell(&items);
            }
            Step::Resume => {
                let position = self.log.position(self.cursor).unwrap();
                let before = self.log.cursor_stats(self.cursor).unwrap();
                self.log.seek(self.cursor, Place::Seq(position)).unwrap();
                let after = self.log.cursor_stats(self.cursor).unwrap();
                // A loss that it is owed may lie in front of it again.
                let coming = |stats: &CursorStats| stats.missed + stats.queued;
                assert_eq!(coming(&after), coming(&before));
                let counts = |stats: &CursorStats| (stats.delivered, stats.filtered, stats.again);
                assert_eq!(counts(&after), counts(&before));
            }
        }
        balance(&self.log, self.cursor);
        assert_eq!(self.log.position(self.cursor), Some(self.told));
        let held = self.log.stats();
        assert!(held.bytes <= 32 << 10, "{held:?}");
    }

    /// Each record in its place, and missed ones for those between.
    fn tell(&mut self, items: &[Item]) {
        for item in items {
            match (item, self.sent[self.told as usize]) {
                (Item::Missed(count, _), _) => self.told += count,
                (Item::Record(id), Sent::Record(sent)) if *id == sent => self.told += 1,
                (item, sent) => panic!("{item:?} where {sent:?} was"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn wherever_it_is_moved_all_behind_the_place_is_delivered_once_or_missed(
        recent in prop_oneof![Just(0usize), 1usize..12, 100usize..300],
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let mut bench = Bench::new(recent);
        for step in steps {
            bench.step(step);
        }
        let items = read_all(&mut bench.log, bench.cursor);
        bench.tell(&items);
        assert_eq!(bench.told, bench.sent.len() as u64);
        balance(&bench.log, bench.cursor);
        // Nobody is left behind in the counts of readers: all can be freed.
        bench.log.leave(bench.cursor);
        bench.end();
    }
}

impl Bench {
    fn end(mut self) {
        self.keeper.take().into_iter().for_each(|keeper| self.log.leave(keeper));
        self.log.set_recent(0);
        assert_eq!((self.log.stats().records, self.log.stats().chunks), (0, 0));
    }
}
