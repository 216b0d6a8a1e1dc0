//! The newest records of a host, in memory: so many bytes, the oldest go.

use std::collections::VecDeque;
use std::sync::Arc;

use super::record::Record;

/// The records, numbered from 0 in the order in which they came.
#[derive(Debug)]
pub(crate) struct Ring {
    records: VecDeque<Arc<Record>>,
    /// The number of the first of them.
    first: u64,
    bytes: usize,
    budget: usize,
    /// How many records the host said were lost.
    missed: u64,
}

/// What came since a number.
#[derive(Debug, Default)]
pub(crate) struct Since {
    pub records: Vec<Arc<Record>>,
    /// The number to go on with.
    pub next: u64,
    /// How many are gone already.
    pub gone: u64,
}

impl Ring {
    /// An empty one for so many bytes.
    pub(crate) fn new(budget: usize) -> Ring {
        Ring { records: VecDeque::new(), first: 0, bytes: 0, budget, missed: 0 }
    }

    /// Takes one more.
    pub(crate) fn push(&mut self, record: Record) {
        self.missed += u64::from(record.missed.unwrap_or_default());
        self.bytes += record.bytes();
        self.records.push_back(Arc::new(record));
        while self.bytes > self.budget {
            let Some(oldest) = self.records.pop_front() else { break };
            self.bytes -= oldest.bytes();
            self.first += 1;
        }
    }

    /// Those whose times are in a window, in the order in which they came.
    pub(crate) fn within(&self, from: i64, to: i64) -> Vec<Arc<Record>> {
        self.records.iter().filter(|record| (from..to).contains(&record.time)).cloned().collect()
    }

    /// Those from a number on, so many at most.
    pub(crate) fn since(&self, number: u64, most: usize) -> Since {
        let begin = number.clamp(self.first, self.next());
        let skip = usize::try_from(begin - self.first).unwrap_or(usize::MAX);
        let records: Vec<_> = self.records.iter().skip(skip).take(most).cloned().collect();
        Since { next: begin + records.len() as u64, gone: self.first.saturating_sub(number), records }
    }

    /// The number of the next one.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.records.len() as u64
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many had to go.
    pub(crate) fn dropped(&self) -> u64 {
        self.first
    }

    /// How many the host said were lost.
    pub(crate) fn missed(&self) -> u64 {
        self.missed
    }
}

#[cfg(test)]
mod tests {
    use pcp_event::EventFlags;

    use super::super::record::tests::{origin, record};
    use super::*;

    #[test]
    fn the_oldest_go_and_are_counted() {
        let origin = origin("h", "app");
        let one = |ms| Record::clone(&record(&origin, ms, EventFlags::POINT, &[("message", "hello")]));
        let mut ring = Ring::new(10 * one(0).bytes());
        (0..25).for_each(|ms| ring.push(one(ms)));
        assert_eq!((ring.len(), ring.dropped(), ring.next()), (10, 15, 25));
        assert!(ring.bytes() <= 10 * one(0).bytes());
        assert_eq!(ring.within(20_000_000, 23_000_000).len(), 3);
        let since = ring.since(12, 4);
        assert_eq!((since.records.len(), since.next, since.gone), (4, 19, 3));
        assert_eq!(since.records[0].time, 15_000_000);
        let none = ring.since(25, 4);
        assert_eq!((none.records.len(), none.next, none.gone), (0, 25, 0));
        assert_eq!(ring.since(99, 4).next, 25, "numbers of another ring lead to the end");
    }

    #[test]
    fn one_that_is_larger_than_the_budget_does_not_stay() {
        let origin = origin("h", "app");
        let mut ring = Ring::new(100);
        ring.push(Record::clone(&record(&origin, 1, EventFlags::POINT, &[("message", &"x".repeat(1000))])));
        assert_eq!((ring.len(), ring.bytes(), ring.dropped()), (0, 0, 1));
    }
}
