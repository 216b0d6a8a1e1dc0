//! Records of one source that wait for earlier ones, for the length of the order window.
//!
//! A record leaves as soon as the window has passed since it arrived, or as soon as one has arrived whose time is
//! later by the window; whatever is held with an earlier time leaves before it. One that comes later than its
//! window allows leaves at once, out of order, and is counted. A lane holds at most [`MAX_HELD`] bytes: beyond,
//! the earliest leave before their time.
//!
//! **Cost:** two copies of each record, and a place in a heap (64 bytes). Nothing while the window is zero.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use super::marks::Numbered;
use crate::delivery::ConnId;
use pcp_event::batch::{Batch, record_time};
use pcp_model::Timestamp;

/// Most bytes of records that a lane holds.
pub(super) const MAX_HELD: usize = 1024 * 1024;
/// Memory of records that have left is taken back when there is at least as much.
const COMPACT: usize = 64 * 1024;

/// Records that wait.
#[derive(Debug)]
pub(super) struct Held {
    window: Duration,
    bytes: Vec<u8>,
    /// By time, then in the order of arrival.
    heap: BinaryHeap<Reverse<Place>>,
    arrived: u64,
    /// Bytes of `bytes` that still wait.
    live: usize,
    /// When what arrived up to then is due, and the latest time among it.
    due: VecDeque<(Instant, Timestamp)>,
    /// The latest time since the last flush.
    fresh: Option<Timestamp>,
    /// The latest time that has arrived.
    newest: Timestamp,
    /// The latest time that was released: what is earlier comes too late.
    released: Timestamp,
}

/// In the order in which records leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    time: (i64, u32),
    arrival: u64,
    start: u32,
    len: u32,
    conn: ConnId,
    numbered: Option<Numbered>,
}

impl Held {
    /// Holds nothing yet.
    pub(super) fn new(window: Duration) -> Held {
        Held {
            window,
            bytes: Vec::new(),
            heap: BinaryHeap::new(),
            arrived: 0,
            live: 0,
            due: VecDeque::new(),
            fresh: None,
            newest: Timestamp::new(i64::MIN, 0),
            released: Timestamp::new(i64::MIN, 0),
        }
    }

    /// Changes the window, for what arrives from now on.
    pub(super) fn set_window(&mut self, window: Duration) {
        self.window = window;
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Whether more waits than may.
    pub(super) fn is_full(&self) -> bool {
        self.live > MAX_HELD
    }

    /// Takes a record in. False: it is too late to be put in order, and has to leave at once.
    pub(super) fn push(&mut self, record: &[u8], conn: ConnId, numbered: Option<Numbered>) -> bool {
        let time = record_time(record);
        // Those released before it cannot be called back.
        if time < self.released {
            return false;
        }
        let place = Place {
            time: (time.sec, time.nsec),
            arrival: self.arrived,
            // At most twice MAX_HELD and a record.
            start: self.bytes.len() as u32,
            len: record.len() as u32,
            conn,
            numbered,
        };
        self.arrived += 1;
        self.bytes.extend_from_slice(record);
        self.live += record.len();
        self.heap.push(Reverse(place));
        self.fresh = self.fresh.max(Some(time));
        self.newest = self.newest.max(time);
        true
    }

    /// The time up to which records are to leave now; what has arrived since the last call begins to wait.
    pub(super) fn watermark(&mut self, now: Instant) -> Option<Timestamp> {
        if let Some(fresh) = self.fresh.take() {
            self.due.push_back((now + self.window, fresh));
        }
        // By the records' own clock: a later record shows that the window has passed, even if no time has.
        let mut until = (!self.is_empty()).then(|| minus(self.newest, self.window));
        // By ours: nothing waits longer than the window, even if nothing comes any more.
        while let Some((_, time)) = self.due.front().filter(|(due, _)| *due <= now) {
            until = until.max(Some(*time));
            self.due.pop_front();
        }
        until
    }

    /// Moves the earliest record to the batch if its time is not after `until`; `None`: whatever it is. Gives the
    /// connection it came from, and its number.
    pub(super) fn release(
        &mut self,
        until: Option<Timestamp>,
        batch: &mut Batch,
    ) -> Option<(ConnId, Option<Numbered>)> {
        let Reverse(first) = *self.heap.peek()?;
        let time = Timestamp::new(first.time.0, first.time.1);
        if until.is_some_and(|until| time > until) {
            return None;
        }
        self.heap.pop();
        let record = &self.bytes[first.start as usize..][..first.len as usize];
        // The caller hands batches over long before they are full.
        let _ = batch.push_packed(record);
        self.released = self.released.max(time);
        self.live -= record.len();
        // Half of it, so that each byte is moved at most about once more.
        if self.bytes.len() - self.live >= self.live.max(COMPACT) || self.live == 0 {
            self.compact();
        }
        Some((first.conn, first.numbered))
    }

    /// The number of a connection that is gone will mean another one.
    pub(super) fn forget(&mut self, conn: ConnId, instead: ConnId) {
        let mut places = std::mem::take(&mut self.heap).into_vec();
        for Reverse(place) in places.iter_mut().filter(|Reverse(place)| place.conn == conn) {
            place.conn = instead;
        }
        self.heap = places.into();
    }

    fn compact(&mut self) {
        let mut places = std::mem::take(&mut self.heap).into_vec();
        let mut bytes = Vec::with_capacity(self.live);
        for Reverse(place) in &mut places {
            let start = bytes.len() as u32;
            bytes.extend_from_slice(&self.bytes[place.start as usize..][..place.len as usize]);
            place.start = start;
        }
        self.bytes = bytes;
        // The order is the same, as arrival decides before the place in memory does.
        self.heap = places.into();
    }
}

fn minus(time: Timestamp, span: Duration) -> Timestamp {
    let span = Timestamp::new(span.as_secs() as i64, span.subsec_nanos());
    match time.nsec.checked_sub(span.nsec) {
        Some(nsec) => Timestamp::new(time.sec.saturating_sub(span.sec), nsec),
        None => Timestamp::new(time.sec.saturating_sub(span.sec + 1), time.nsec + 1_000_000_000 - span.nsec),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcp_event::EventFlags;

    fn push(held: &mut Held, sec: i64) -> bool {
        let mut batch = Batch::default();
        batch.record(Timestamp::new(sec, 0), EventFlags::POINT).commit().unwrap();
        held.push(batch.last().unwrap(), 1, None)
    }

    fn release(held: &mut Held, until: Option<Timestamp>) -> Vec<i64> {
        let mut batch = Batch::default();
        while held.release(until, &mut batch).is_some() {}
        (0..batch.len()).map(|n| record_time(batch.get(n).unwrap()).sec).collect()
    }

    #[test]
    fn records_leave_in_order_when_their_window_has_passed_by_either_clock() {
        let start = Instant::now();
        let mut held = Held::new(Duration::from_secs(10));
        for sec in [105, 101, 103] {
            assert!(push(&mut held, sec));
        }
        let until = held.watermark(start);
        assert_eq!(release(&mut held, until), [0i64; 0]);
        // A later time lets go of what is earlier by the window.
        assert!(push(&mut held, 112));
        let until = held.watermark(start + Duration::from_secs(1));
        assert_eq!(release(&mut held, until), [101]);
        assert!(!push(&mut held, 100), "its turn has passed");
        assert!(push(&mut held, 102));
        // The wait of those that came first is over.
        let until = held.watermark(start + Duration::from_secs(10));
        assert_eq!(release(&mut held, until), [102, 103, 105]);
        let until = held.watermark(start + Duration::from_secs(11));
        assert_eq!((release(&mut held, until), held.is_empty()), (vec![112], true));
    }

    #[test]
    fn memory_of_what_has_left_is_used_again() {
        let mut held = Held::new(Duration::from_secs(1));
        for sec in 0..100_000 {
            assert!(push(&mut held, sec ^ 7));
            if sec % 100 == 99 {
                let mut batch = Batch::default();
                while held.live > 10_000 {
                    held.release(None, &mut batch);
                }
            }
        }
        assert!(held.bytes.capacity() < 512 * 1024, "{}", held.bytes.capacity());
        let rest = release(&mut held, None);
        assert!(rest.is_sorted() && !rest.is_empty());
    }
}
