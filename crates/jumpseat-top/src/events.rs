//! Event records: how many came from whom, and the newest.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use pcp_model::{Inst, Timestamp};

use pcp_event::EventFlags;

use super::sample::{Batch, EventRecord, Id, Item};
use super::series::{Cell, HISTORY};
use super::trace::{field, seconds};

/// Newest records that are kept.
pub(crate) const KEPT: usize = 4_000;

/// The records of all event metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events {
    /// Where records come from: instances of event metrics.
    pub streams: BTreeMap<(Id, Inst), Stream>,
    /// The newest records, the newest last.
    pub newest: VecDeque<Shown>,
    /// Number of records that were ever in `newest`.
    pub seen: u64,
    /// When that began of which the first record is among `newest`, by stream and span id.
    begun: HashMap<(Arc<str>, String), Timestamp>,
    at: Timestamp,
    elapsed: Option<f64>,
    /// Records of the sample that is being taken, until they are in order.
    fresh: Vec<Shown>,
}

/// An instance of an event metric.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    /// Its name.
    pub name: Arc<str>,
    /// Records per second.
    pub rate: Cell,
    /// Records so far.
    pub records: u64,
    /// Records missed so far.
    pub missed: u64,
    /// Records missed in the last sample.
    pub missed_now: u64,
    /// Records of the sample that is being taken.
    taken: Option<u64>,
    /// Samples since the last that it was in.
    absent: usize,
}

/// A record to be shown.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    /// Where it came from.
    pub stream: Arc<str>,
    /// The record.
    pub record: EventRecord,
    /// If it ends something, how long that took, in seconds.
    pub took: Option<f64>,
}

impl Shown {
    pub(crate) fn new(stream: Arc<str>, record: EventRecord) -> Shown {
        Shown { stream, record, took: None }
    }

    /// What tells what it begins or ends from others, if it has these flags.
    fn span(&self, flags: EventFlags) -> Option<(Arc<str>, String)> {
        // One that does both says nothing of a time between.
        let both = EventFlags::START | EventFlags::END;
        let is = |record: &EventRecord| record.flags.contains(flags) && !record.flags.contains(both);
        let id = field(&self.record, "span_id").filter(|_| is(&self.record))?;
        Some((self.stream.clone(), id.to_owned()))
    }
}

impl Events {
    /// Forgets a metric.
    pub(crate) fn remove(&mut self, id: Id) {
        self.streams.retain(|&(metric, _), _| metric != id);
    }

    /// Begins to take the batches of a sample.
    pub(crate) fn begin(&mut self, at: Timestamp) {
        // The first sample after the start or a gap has nothing to make a rate from.
        let before = std::mem::replace(&mut self.at, at);
        let elapsed = (at.as_nanos() - before.as_nanos()) as f64 * 1e-9;
        self.elapsed = (before != Timestamp::default() && elapsed > 0.0).then_some(elapsed);
    }

    /// Takes what came of an event metric. Streams that there is nothing of had no records.
    pub(crate) fn take(&mut self, metric: Id, batches: Vec<Item<Batch>>) {
        for (_, stream) in self.streams.range_mut((metric, Inst::MIN)..=(metric, Inst::MAX)) {
            (stream.taken, stream.missed_now) = (Some(0), 0);
            stream.absent += 1;
        }
        for Item { inst, name, value } in batches {
            let stream = self.streams.entry((metric, inst)).or_default();
            stream.name = name.clone();
            stream.records += value.records;
            stream.missed += value.missed;
            stream.missed_now = value.missed;
            (stream.taken, stream.absent) = (Some(value.records), 0);
            let shown = |record| Shown::new(name.clone(), record);
            self.fresh.extend(value.newest.into_iter().map(shown));
        }
    }

    /// Ends a sample. Streams that are long gone are forgotten.
    pub(crate) fn end(&mut self) {
        for stream in self.streams.values_mut() {
            let records = stream.taken.take().map(|records| records as f64);
            stream.rate.push(records.zip(self.elapsed).map(|(records, elapsed)| records / elapsed));
        }
        self.streams.retain(|_, stream| stream.absent < HISTORY);
        // Stable: records of one stream stay in the order in which they came.
        self.fresh.sort_by_key(|shown| shown.record.time);
        self.seen += self.fresh.len() as u64;
        for mut shown in self.fresh.drain(..) {
            if let Some(span) = shown.span(EventFlags::START) {
                self.begun.insert(span, shown.record.time);
            }
            let began = shown.span(EventFlags::END).and_then(|span| self.begun.remove(&span));
            shown.took = began.map(|began| seconds(began, shown.record.time));
            self.newest.push_back(shown);
        }
        // The oldest go, whichever stream they are of.
        let surplus = self.newest.len().saturating_sub(KEPT);
        for gone in self.newest.drain(..surplus) {
            // Its end may have come, and another beginning of the same name.
            if let Some(span) = gone.span(EventFlags::START)
                && self.begun.get(&span) == Some(&gone.record.time)
            {
                self.begun.remove(&span);
            }
        }
    }

    /// Records per second of all streams of a metric in the last sample.
    pub(crate) fn rate(&self, metric: Id) -> Option<f64> {
        self.elapsed?;
        let streams = self.of(metric).filter(|stream| stream.rate.age == 0);
        Some(streams.filter_map(|stream| stream.rate.last).sum())
    }

    /// The newest records with their numbers, which they keep while others come.
    pub(crate) fn numbered(&self) -> impl DoubleEndedIterator<Item = (u64, &Shown)> {
        let first = self.seen - self.newest.len() as u64;
        self.newest.iter().enumerate().map(move |(at, shown)| (first + at as u64, shown))
    }

    /// The record of a number, if it is among the newest.
    pub(crate) fn get(&self, number: u64) -> Option<&Shown> {
        let first = self.seen - self.newest.len() as u64;
        self.newest.get(usize::try_from(number.checked_sub(first)?).ok()?)
    }

    /// The streams of a metric.
    pub(crate) fn of(&self, metric: Id) -> impl Iterator<Item = &Stream> {
        self.streams.range((metric, Inst::MIN)..=(metric, Inst::MAX)).map(|(_, stream)| stream)
    }

    /// A sample that failed.
    pub(crate) fn gap(&mut self) {
        self.at = Timestamp::default();
        self.streams.values_mut().for_each(|stream| stream.rate.push(None));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::tests::record;

    fn at(sec: i64) -> Timestamp {
        Timestamp { sec, nsec: 0 }
    }

    fn batch(inst: Inst, times: &[i64], missed: u64) -> Item<Batch> {
        let record = |&sec: &i64| EventRecord {
            time: at(sec),
            flags: EventFlags::POINT,
            missed: None,
            params: Vec::new(),
            packed: Arc::default(),
        };
        let newest: Vec<_> = times.iter().map(record).collect();
        let value = Batch { records: newest.len() as u64, missed, newest };
        Item { inst, name: format!("s{inst}").into(), value }
    }

    #[test]
    fn rates_and_losses_are_counted_for_each_stream() {
        let mut events = Events::default();
        events.begin(at(10));
        events.take(1, vec![batch(0, &[3], 0), batch(1, &[], 0)]);
        events.end();
        events.begin(at(12));
        events.take(1, vec![batch(0, &[7, 11, 12], 0), batch(1, &[9], 5)]);
        events.end();
        let rate = |inst| events.streams[&(1, inst)].rate.last;
        assert_eq!((rate(0), rate(1)), (Some(1.5), Some(0.5)));
        let stream = &events.streams[&(1, 1)];
        assert_eq!((stream.records, stream.missed, stream.missed_now), (1, 5, 5));
        let order: Vec<_> = events.newest.iter().map(|s| (s.record.time.sec, &*s.stream)).collect();
        assert_eq!(order, [(3, "s0"), (7, "s0"), (9, "s1"), (11, "s0"), (12, "s0")]);
    }

    #[test]
    fn only_the_newest_records_are_kept() {
        let mut events = Events::default();
        let times: Vec<i64> = (0..KEPT as i64 * 7 / 10).collect();
        for _ in 0..3 {
            events.begin(at(1));
            events.take(1, vec![batch(0, &times, 0)]);
            events.end();
        }
        assert_eq!((events.newest.len(), events.seen), (KEPT, KEPT as u64 * 21 / 10));
        let (first, last) = (events.numbered().next().unwrap().0, events.seen - 1);
        assert!(events.get(first - 1).is_none() && events.get(last + 1).is_none());
        assert_eq!(
            (first, events.get(last).unwrap().record.time),
            (events.seen - KEPT as u64, at(times.len() as i64 - 1))
        );
    }

    #[test]
    fn no_rate_is_made_across_a_gap() {
        let mut events = Events::default();
        for round in 0..3 {
            if round == 2 {
                events.gap();
            }
            events.begin(at(10 + round));
            events.take(1, vec![batch(0, &[1], 0)]);
            events.end();
        }
        let series: Vec<_> = events.streams[&(1, 0)].rate.series.newest(9).collect();
        assert_eq!(series, [None, Some(1.0), None, None]);
    }

    #[test]
    fn an_end_tells_how_long_it_took() {
        let mut events = Events::default();
        let sample = |records: Vec<EventRecord>| {
            let value = Batch { records: records.len() as u64, missed: 0, newest: records };
            vec![Item { inst: 0, name: "web".into(), value }]
        };
        let (start, end) = (EventFlags::START, EventFlags::END);
        events.take(
            1,
            sample(vec![
                record(100, start, &[("span_id", "a")]),
                record(110, start, &[("span_id_u64", "7")]),
            ]),
        );
        events.end();
        // In the order of time, whichever comes first; of what nobody has seen the beginning, nothing is known.
        events.take(
            1,
            sample(vec![
                record(350, end, &[("span_id", "a")]),
                record(120, end, &[("span_id_u64", "7")]),
                record(360, end, &[("span_id", "b")]),
                record(370, end, &[("span_id", "a")]),
            ]),
        );
        events.end();
        let took: Vec<_> =
            events.newest.iter().map(|shown| shown.took.map(|took| (took * 1e3).round())).collect();
        assert_eq!(took, [None, None, Some(10.0), Some(250.0), None, None]);
        assert!(events.begun.is_empty());
        // What does not end goes with its record.
        let many = |n: usize| record(400 + n as i64, start, &[("span_id", &n.to_string())]);
        for n in 0..2 * KEPT {
            events.take(1, sample(vec![many(n)]));
            events.end();
        }
        assert_eq!((events.newest.len(), events.begun.len()), (KEPT, KEPT));
    }
}
