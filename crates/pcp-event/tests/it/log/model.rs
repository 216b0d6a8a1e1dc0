//! The log against a model that keeps everything: after every step, each record sent is delivered,
//! filtered, missed or queued, for each cursor, and told so.

use std::sync::Arc;

use pcp_event::log::LogConfig;
use pcp_event::{ArrayKind, CursorId, CursorStats, EventLog, Filter};
use pcp_model::Timestamp;
use proptest::prelude::*;

use super::check::{Fields, Item, MISSED, batch, items, severity_of, shown, time, type_of};

const BUDGET: usize = 32 << 10;

/// A filter and, independently, what it means.
type Meaning = (&'static str, fn(u64) -> bool);

const FILTERS: [Meaning; 6] = [
    ("*", |_| true),
    ("type == \"db.query\"", |id| type_of(id) == "db.query"),
    ("severity >= warn and not end", |id| {
        id % 11 != 0 && matches!(severity_of(id), "warning" | "err") && id % 3 != 2
    }),
    ("n < 5 || type =~ '^t'", |id| id % 10 < 5 || type_of(id) == "tick"),
    ("!exists(severity)", |id| id % 11 == 0),
    ("id == 18446744073709551615", |_| false),
];

#[derive(Clone, Debug)]
enum Step {
    Append(u64),
    Lose(u64),
    Join,
    Leave(usize),
    Filter(usize, usize),
    Read(usize, ArrayKind, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![Just(ArrayKind::Event), Just(ArrayKind::HighRes)];
    prop_oneof![
        6 => (0u64..40).prop_map(Step::Append),
        2 => (100u64..400).prop_map(Step::Append),
        2 => (0u64..5).prop_map(Step::Lose),
        1 => Just(Step::Join),
        1 => (0usize..4).prop_map(Step::Leave),
        2 => (0usize..4, 0usize..FILTERS.len()).prop_map(|(cursor, filter)| Step::Filter(cursor, filter)),
        5 => (0usize..4, kind, prop_oneof![0usize..400, 0usize..5_000, 0usize..40_000]).prop_map(|(cursor, kind, max)| Step::Read(cursor, kind, max)),
    ]
}

#[derive(Clone, Copy)]
enum Sent {
    Record(u64),
    Lost(Timestamp),
}

struct Client {
    id: CursorId,
    passes: fn(u64) -> bool,
    stats: CursorStats,
    /// When each record that was missed and not told yet happened.
    untold: Vec<Timestamp>,
}

struct Model {
    log: EventLog,
    recent: usize,
    sent: Vec<Sent>,
    clients: Vec<Client>,
    next_id: u64,
}

impl Model {
    fn new(recent: usize) -> Model {
        let log = EventLog::new(LogConfig { budget: BUDGET, recent, missed_pmid: MISSED });
        Model { log, recent, sent: Vec::new(), clients: Vec::new(), next_id: 0 }
    }

    fn step(&mut self, step: Step) {
        let mut got = None;
        match step {
            Step::Append(count) => {
                let ids = self.next_id..self.next_id + count;
                self.next_id = ids.end;
                self.sent.extend(ids.clone().map(Sent::Record));
                self.log.append(batch(ids));
            }
            Step::Lose(count) => {
                let at = time(1_000_000 + self.sent.len() as u64);
                self.sent.extend((0..count).map(|_| Sent::Lost(at)));
                self.log.append_missed(count, at);
            }
            Step::Join if self.clients.len() < 4 => {
                let id = self.log.join();
                let stats = self.log.cursor_stats(id).expect("it has just joined");
                assert_eq!((stats.joined_at, stats.queued), (self.sent.len() as u64, 0));
                self.clients.push(Client { id, passes: FILTERS[0].1, stats, untold: Vec::new() });
            }
            Step::Leave(client) if client < self.clients.len() => {
                self.log.leave(self.clients.remove(client).id);
            }
            Step::Filter(client, filter) if client < self.clients.len() => {
                // What was lost until now was lost under the old filter.
                self.follow(client, None);
                let (text, passes) = FILTERS[filter];
                let filter = Filter::parse(text).expect("the filters here are right").map(Arc::new);
                self.log.set_filter(self.clients[client].id, filter, &Fields);
                self.clients[client].passes = passes;
            }
            Step::Read(client, kind, max) if client < self.clients.len() => {
                // All that happened before the read first, as reading does.
                self.follow(client, None);
                let mut out = b"before".to_vec();
                let outcome =
                    self.log.read(self.clients[client].id, kind, &mut out, max).expect("the cursor is known");
                let array = out.strip_prefix(b"before").expect("what was there stays");
                let items = items(kind, array);
                assert!(array.len() <= max || items.len() == 1);
                assert_eq!(items.is_empty(), outcome.records == 0);
                got = Some((client, kind, items));
                let stats = self.log.cursor_stats(self.clients[client].id).expect("the cursor is known");
                assert_eq!(outcome.more, stats.queued > 0 || stats.owed > 0);
                assert!(outcome.records > 0 || !outcome.more, "each read gets on");
            }
            _ => return,
        }
        for client in 0..self.clients.len() {
            let got = got.as_ref().filter(|(reader, ..)| *reader == client);
            self.follow(client, got.map(|(_, kind, items)| (*kind, &items[..])));
        }
        self.check_log();
    }

    /// Checks what has become of the records that a cursor has passed since the last look.
    fn follow(&mut self, client: usize, got: Option<(ArrayKind, &[Item])>) {
        let Client { id, passes, stats: before, untold } = &mut self.clients[client];
        let after = self.log.cursor_stats(*id).expect("the cursor is known");
        let sum = after.delivered + after.filtered + after.missed + after.queued;
        assert_eq!(self.sent.len() as u64 - after.joined_at, sum);

        let range = (before.joined_at + before.delivered + before.filtered + before.missed) as usize
            ..self.sent.len() - after.queued as usize;
        let mut items = got.map_or(&[][..], |(_, items)| items).iter().peekable();
        let (mut delivered, mut filtered, mut missed) = (0, 0, 0);
        let tell = |untold: &mut Vec<Timestamp>,
                    items: &mut std::iter::Peekable<std::slice::Iter<'_, Item>>| {
            // Missed records in front of the next record tell of all that was lost there.
            while let (Some((kind, _)), Some(Item::Missed(count, time))) = (got, items.peek().copied()) {
                let told: Vec<Timestamp> = untold.drain(..*count as usize).collect();
                assert_eq!(Some(*time), told.last().map(|time| shown(kind, *time)));
                items.next();
            }
        };
        for &entry in &self.sent[range] {
            match entry {
                Sent::Record(id) if !passes(id) => filtered += 1,
                Sent::Record(id) if got.is_some() => {
                    // Nothing is lost during a read but what the source lost.
                    tell(untold, &mut items);
                    assert!(untold.is_empty());
                    assert_eq!(items.next(), Some(&Item::Record(id)));
                    delivered += 1;
                }
                Sent::Record(id) => {
                    untold.push(time(id));
                    missed += 1;
                }
                Sent::Lost(at) => {
                    untold.push(at);
                    missed += 1;
                }
            }
        }
        tell(untold, &mut items);
        assert_eq!(items.next(), None);
        assert_eq!(after.owed, untold.len() as u64);
        assert_eq!(
            (
                after.delivered - before.delivered,
                after.filtered - before.filtered,
                after.missed - before.missed
            ),
            (delivered, filtered, missed)
        );
        *before = after;
    }

    fn check_log(&mut self) {
        let stats = self.log.stats();
        assert_eq!(stats.seq, self.sent.len() as u64);
        assert_eq!(stats.appended + stats.missed, stats.seq);
        assert_eq!((stats.appended, stats.cursors), (self.next_id, self.clients.len()));
        assert!(stats.bytes <= BUDGET, "{stats:?}");
        if self.clients.iter().all(|client| client.stats.queued == 0) {
            assert!(stats.records <= 2 * self.recent, "{stats:?}");
        }
        if stats.evicted == 0 {
            for client in &self.clients {
                let lost = |sent: &&Sent| matches!(sent, Sent::Lost(_));
                let sent = &self.sent[client.stats.joined_at as usize..];
                assert!(client.stats.missed <= sent.iter().filter(lost).count() as u64);
            }
        }
        let mut out = Vec::new();
        self.log.recent(ArrayKind::HighRes, self.recent, &mut out, usize::MAX);
        let kept = (self.recent as u64).min(self.next_id);
        let newest: Vec<Item> = (self.next_id - kept..self.next_id).map(Item::Record).collect();
        assert_eq!(items(ArrayKind::HighRes, &out), newest);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_record_is_accounted_for(recent in 0usize..12, steps in proptest::collection::vec(step(), 1..120)) {
        let mut model = Model::new(recent);
        model.step(Step::Join);
        for step in steps {
            model.step(step);
        }
    }
}
