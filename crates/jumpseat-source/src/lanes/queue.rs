//! Records of one source that wait until their traces are decided ([`crate::tail`]), in the order in which they came.
//!
//! A record leaves when its trace is decided and all that came before it has left: so the order of a source is the same with tail
//! sampling and without, starts of spans are before their ends, and numbered streams leave without gaps. What is kept in any case
//! (records without a trace, of traces that are decided, losses) waits for its turn as well, if there is anything before it. Nothing
//! waits for longer than the window. What is dropped in the meantime gives its memory when room is needed (`sweep`).
//!
//! **Bounds:** bytes and places are charged to the source ([`crate::gate::Gate::held`]) and to all ([`crate::tail::Tail::held`]); when
//! either has too much, what came first leaves, decided early.
//!
//! **Cost:** two copies of each record, and a place of 64 bytes. Memory is taken in chunks, of which one is used again.

use std::collections::VecDeque;
use std::sync::Arc;

use super::marks::Numbered;
use crate::delivery::Loss;
use crate::gate::Gate;
use crate::tail::{Fate, Tail, Told, TraceKey};
use pcp_event::batch::Batch;

/// Size of the first chunk and of large ones. A record that does not fit gets one of its own.
const CHUNK: (usize, usize) = (4 * 1024, 64 * 1024);
/// What a place costs.
const PLACE: u64 = size_of::<Place>() as u64;
/// Places that an empty queue keeps.
const KEPT_PLACES: usize = 1024;

/// Records that wait.
#[derive(Debug)]
pub(super) struct Queue {
    tail: Arc<Tail>,
    gate: Arc<Gate>,
    places: VecDeque<Place>,
    /// Bytes of the records, one behind the other; none is in two chunks.
    chunks: VecDeque<Vec<u8>>,
    /// Bytes of the first chunk that have left.
    head: usize,
    spare: Option<Vec<u8>>,
    /// Bytes of `chunks` that wait.
    live: usize,
    /// Bytes that have come since they were swept, with those of their places.
    unswept: usize,
}

/// In the order in which they came.
#[derive(Debug)]
struct Place {
    what: What,
    numbered: Option<Numbered>,
    len: u32,
    is_suspect: bool,
}

#[derive(Debug)]
enum What {
    /// A record of a trace that was not decided when it came.
    Waits(TraceKey),
    /// A record that is kept.
    Kept,
    /// One that was dropped, of which nothing but its number is here.
    Dropped,
    /// What a sender lost.
    Loss(Loss),
}

/// What becomes of a record that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offer {
    /// It is kept, and there is nothing that it would have to wait for.
    Passes,
    /// It is dropped.
    Dropped,
    /// It waits.
    Waits,
}

/// What leaves.
#[derive(Clone, Copy, Debug)]
pub(super) enum Leaves {
    /// A record, which is in the batch now.
    Record { numbered: Option<Numbered>, is_suspect: bool },
    /// A record that is dropped.
    Dropped(Option<Numbered>),
    /// A loss.
    Loss(Loss),
}

impl Queue {
    /// An empty one, of a source with this gate.
    pub(super) fn new(tail: Arc<Tail>, gate: Arc<Gate>) -> Queue {
        Queue {
            tail,
            gate,
            places: VecDeque::new(),
            chunks: VecDeque::new(),
            head: 0,
            spare: None,
            live: 0,
            unswept: 0,
        }
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Takes a record in if it has to wait. `told`: what it tells of its trace; `None`: it is kept. `of`: one of so many traces is.
    pub(super) fn offer(
        &mut self,
        record: &[u8],
        (told, of): (Option<&Told>, u32),
        numbered: Option<Numbered>,
        is_suspect: bool,
    ) -> Offer {
        let fate = told.map(|told| (told.key, self.tail.note(told, of, self.tail.now())));
        let what = match fate {
            Some((_, Fate::Dropped)) => return Offer::Dropped,
            Some((key, Fate::Waits)) => What::Waits(key),
            _ if self.is_empty() => return Offer::Passes,
            _ => What::Kept,
        };
        self.store(record);
        // Records are far smaller than four gigabytes.
        self.push(Place { what, numbered, len: record.len() as u32, is_suspect });
        Offer::Waits
    }

    /// Takes in what a sender has lost. False: there is nothing that it would have to wait for.
    pub(super) fn lose(&mut self, loss: Loss) -> bool {
        match self.places.back_mut().map(|place| &mut place.what) {
            None => return false,
            Some(What::Loss(last)) => {
                last.count = last.count.saturating_add(loss.count);
                last.time = loss.time;
            }
            Some(_) => {
                self.push(Place { what: What::Loss(loss), numbered: None, len: 0, is_suspect: false });
            }
        }
        true
    }

    /// Whether more waits than may. Memory of what is dropped by now is given back first.
    pub(super) fn is_over(&mut self) -> bool {
        let is_over = |queue: &Queue| !queue.is_empty() && queue.tail.is_over(queue.gate.held().bytes());
        // Places of what was dropped stay, and are looked at by each sweep: of these, too, a quarter has come since the last one.
        if is_over(self) && self.unswept > (self.live + self.places.len() * PLACE as usize) / 4 {
            self.sweep();
        }
        is_over(self)
    }

    /// Lets go of what came first, if that is decided, or is to be with `forced`. A record that is kept goes into the batch.
    pub(super) fn next(&mut self, forced: bool, batch: &mut Batch) -> Option<Leaves> {
        let first = self.places.front_mut()?;
        if let What::Waits(key) = first.what {
            match self.tail.settle(key, forced, self.tail.now()) {
                Fate::Waits => return None,
                Fate::Kept => first.what = What::Kept,
                Fate::Dropped => first.what = What::Dropped,
            }
        }
        let Place { what, numbered, len, is_suspect } = self.places.pop_front()?;
        let leaves = match what {
            What::Kept => {
                let record =
                    self.chunks.front().and_then(|chunk| chunk.get(self.head..)?.get(..len as usize));
                // The caller hands batches over long before they are full.
                let pushed = record.map(|record| batch.push_packed(record));
                debug_assert!(matches!(pushed, Some(Ok(()))), "its bytes are those that came first");
                Leaves::Record { numbered, is_suspect }
            }
            What::Loss(loss) => Leaves::Loss(loss),
            What::Waits(_) | What::Dropped => Leaves::Dropped(numbered),
        };
        let is_record = !matches!(leaves, Leaves::Loss(_));
        self.advance(len as usize);
        self.charge_less(u64::from(len) + PLACE, u64::from(is_record));
        if self.places.is_empty() && self.places.capacity() > KEPT_PLACES {
            self.places = VecDeque::new();
        }
        Some(leaves)
    }

    /// Whether a loss is what came first.
    pub(super) fn begins_with_loss(&self) -> bool {
        self.places.front().is_some_and(|place| matches!(place.what, What::Loss(_)))
    }

    fn push(&mut self, place: Place) {
        let (bytes, records) = (u64::from(place.len) + PLACE, !matches!(place.what, What::Loss(_)));
        self.places.push_back(place);
        self.unswept += PLACE as usize;
        self.tail.held().add(bytes, records.into());
        self.gate.held().add(bytes, records.into());
    }

    fn charge_less(&self, bytes: u64, records: u64) {
        self.tail.held().sub(bytes, records);
        self.gate.held().sub(bytes, records);
    }

    /// Puts bytes behind those that are there.
    fn store(&mut self, record: &[u8]) {
        let has_room = |chunk: &Vec<u8>| chunk.capacity() - chunk.len() >= record.len();
        if !self.chunks.back().is_some_and(has_room) {
            // As much again as there is: a source with few records has little.
            let size = self.live.clamp(CHUNK.0, CHUNK.1).max(record.len());
            let spare = self.spare.take().filter(|spare| spare.capacity() >= size);
            self.chunks.push_back(spare.unwrap_or_else(|| Vec::with_capacity(size)));
        }
        if let Some(chunk) = self.chunks.back_mut() {
            chunk.extend_from_slice(record);
        }
        self.live += record.len();
        self.unswept += record.len();
    }

    /// The first so many bytes have left.
    fn advance(&mut self, len: usize) {
        self.head += len;
        self.live -= len;
        let is_used_up = self.chunks.front().is_some_and(|chunk| self.head >= chunk.len());
        if len > 0 && is_used_up {
            self.head = 0;
            if let Some(mut chunk) = self.chunks.pop_front() {
                chunk.clear();
                self.spare = (chunk.capacity() <= 2 * CHUNK.1 && self.live > 0).then_some(chunk);
            }
        }
    }

    /// Gives back the bytes of records whose traces have been dropped since they came. They keep their places, so that they are
    /// counted, and numbers leave, in order.
    fn sweep(&mut self) {
        self.unswept = 0;
        let now = self.tail.now();
        let (places, chunks) = (std::mem::take(&mut self.places), std::mem::take(&mut self.chunks));
        let (mut chunks, mut from) = (chunks.into_iter(), std::mem::take(&mut self.head));
        let mut chunk = chunks.next().unwrap_or_default();
        self.live = 0;
        self.places.reserve(places.len() / 2);
        for mut place in places {
            let len = place.len as usize;
            if len > 0 && from >= chunk.len() {
                // What has been copied is given back as it goes.
                (chunk, from) = (chunks.next().unwrap_or_default(), 0);
            }
            if let What::Waits(key) = place.what {
                match self.tail.settle(key, false, now) {
                    Fate::Waits => {}
                    Fate::Kept => place.what = What::Kept,
                    Fate::Dropped => place.what = What::Dropped,
                }
            }
            let record = chunk.get(from..from + len).unwrap_or_default();
            from += len;
            if matches!(place.what, What::Dropped) {
                self.charge_less(u64::from(place.len), 0);
                place.len = 0;
            } else if len > 0 {
                self.store(record);
            }
            self.places.push_back(place);
        }
        self.unswept = 0;
    }
}

/// What is left waits no more: nobody asks for it.
impl Drop for Queue {
    fn drop(&mut self) {
        let mut batch = Batch::default();
        while self.next(true, &mut batch).is_some() {
            batch.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Barrier;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::interval::Interval;
    use crate::size::ByteSize;
    use crate::tail::{SpanEnd, TailConfig};
    use pcp_event::batch::record_time;
    use pcp_event::{EventFlags, Param};
    use pcp_model::{Pmid, Timestamp};

    /// Records of their number, the time.
    fn record(number: i64, size: usize) -> Batch {
        let mut batch = Batch::default();
        let mut record = batch.record(Timestamp::new(number, 0), EventFlags::POINT);
        record.param(Pmid(1), Param::String(&vec![b'x'; size]));
        record.commit().expect("fits");
        batch
    }

    fn key(trace: u64) -> TraceKey {
        TraceKey(trace.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Two or more queues, what came and what became of it.
    struct Bench {
        tail: Arc<Tail>,
        queues: Vec<Queue>,
        /// By number: the trace, and whether it was kept.
        records: Vec<(Option<u64>, Option<bool>)>,
        /// Traces of which a failure was taken in.
        failed: Vec<u64>,
        /// Numbers in the order in which they were kept, by queue.
        order: Vec<Vec<i64>>,
        /// Numbers that wait, by queue.
        waiting: Vec<VecDeque<usize>>,
    }

    impl Bench {
        fn new(queues: usize, memory: u64) -> Bench {
            let tail = Arc::new(Tail::default());
            let slow = Interval(Duration::from_secs(2));
            tail.configure(TailConfig { slow, memory: ByteSize(memory), ..TailConfig::default() });
            let queue = |_| Queue::new(Arc::clone(&tail), Arc::default());
            Bench {
                queues: (0..queues).map(queue).collect(),
                tail,
                records: Vec::new(),
                failed: Vec::new(),
                order: vec![Vec::new(); queues],
                waiting: vec![VecDeque::new(); queues],
            }
        }

        fn offer(&mut self, at: usize, trace: u64, failed: bool, span: Option<SpanEnd>, size: usize) {
            let number = self.records.len();
            let told = (trace > 0).then_some(Told { key: key(trace), failed, span });
            let batch = record(number as i64, size);
            let bytes = batch.last().expect("one");
            let offer = self.queues[at].offer(bytes, (told.as_ref(), 4), None, false);
            let now = match offer {
                Offer::Passes => Some(true),
                Offer::Dropped => Some(false),
                Offer::Waits => None,
            };
            self.records.push(((trace > 0).then_some(trace), now));
            match offer {
                Offer::Passes => self.order[at].push(number as i64),
                Offer::Waits => self.waiting[at].push_back(number),
                Offer::Dropped => {}
            }
            if failed && offer != Offer::Dropped {
                self.failed.push(trace);
            }
            while self.queues[at].is_over() {
                self.next(at, true);
            }
        }

        fn next(&mut self, at: usize, forced: bool) -> bool {
            let mut batch = Batch::default();
            let Some(leaves) = self.queues[at].next(forced, &mut batch) else { return false };
            let number = self.waiting[at].pop_front().expect("as many leave as came");
            let kept = matches!(leaves, Leaves::Record { .. });
            if kept {
                let found = record_time(batch.last().expect("it is in the batch")).sec;
                assert_eq!(found, number as i64, "records leave in order, with their own bytes");
                self.order[at].push(found);
            }
            assert_eq!(self.records[number].1.replace(kept), None);
            true
        }

        /// Lets everything go, and checks that nothing is left.
        fn finish(mut self) -> Bench {
            for at in 0..self.queues.len() {
                while self.next(at, true) {}
            }
            assert_eq!((self.tail.held().bytes(), self.tail.held().records()), (0, 0));
            assert!(self.queues.iter().all(|queue| queue.live == 0 && queue.chunks.is_empty()));
            self
        }

        /// What became of each trace: kept, dropped, records of it.
        fn fates(&self) -> BTreeMap<u64, (u32, u32)> {
            let mut fates = BTreeMap::new();
            for (trace, kept) in &self.records {
                let kept = kept.expect("each has left");
                let Some(trace) = trace else {
                    assert!(kept, "what is of no trace is kept");
                    continue;
                };
                let (kept_of, dropped_of): &mut (u32, u32) = fates.entry(*trace).or_default();
                *(if kept { kept_of } else { dropped_of }) += 1;
            }
            fates
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Offer { queue: usize, trace: u64, failed: bool, span: Option<(bool, u32, i64)>, size: usize },
        Pass(u64),
        Pump(usize),
        Force(usize),
        Sweep(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let span = prop::option::of((any::<bool>(), 1..4u32, 0..2500i64));
        let size = prop_oneof![9 => 0..200usize, 1 => 50_000..100_000usize];
        let offer = (0..3usize, 0..7u64, prop::bool::weighted(0.05), span, size);
        let offer = offer.prop_map(|(queue, trace, failed, span, size)| Step::Offer {
            queue,
            trace,
            failed,
            span,
            size,
        });
        prop_oneof![
            12 => offer,
            3 => (0..900u64).prop_map(Step::Pass),
            3 => (0..3usize).prop_map(Step::Pump),
            1 => (0..3usize).prop_map(Step::Force),
            1 => (0..3usize).prop_map(Step::Sweep),
        ]
    }

    proptest! {
        /// Whatever comes in whichever order over the lanes of several sources and threads: a trace is kept as a whole or
        /// dropped as a whole, one of which a failure was taken in is kept, and each lane keeps its order.
        #[test]
        fn traces_are_kept_or_dropped_as_a_whole(steps in prop::collection::vec(step(), 0..100)) {
            let mut bench = Bench::new(3, 1 << 20);
            for step in steps {
                match step {
                    Step::Offer { queue, trace, failed, span, size } => {
                        let span = span.map(|(is_start, id, millis)| SpanEnd {
                            is_start,
                            id,
                            has_parent: id > 1,
                            nanos: Some(millis * 1_000_000),
                        });
                        bench.offer(queue, trace, failed && trace > 0, span, size);
                    }
                    Step::Pass(millis) => bench.tail.pass(millis),
                    Step::Pump(queue) => while bench.next(queue, false) {},
                    Step::Force(queue) => drop(bench.next(queue, true)),
                    Step::Sweep(queue) => bench.queues[queue].sweep(),
                }
                prop_assert!(bench.tail.held().bytes() <= 1 << 20);
            }
            let bench = bench.finish();
            let (fates, sums) = (bench.fates(), bench.tail.sums());
            prop_assert!(fates.values().all(|(kept, dropped)| *kept == 0 || *dropped == 0), "{:?}", fates);
            prop_assert!(bench.failed.iter().all(|trace| fates[trace].1 == 0));
            prop_assert!(bench.order.iter().all(|order| order.is_sorted()));
            let decided = sums.failed + sums.slow + sums.sampled + sums.dropped;
            prop_assert_eq!((decided, sums.open, sums.untracked), (fates.len() as u64, 0, 0));
            let dropped = fates.values().filter(|(_, dropped)| *dropped > 0).count();
            prop_assert_eq!(sums.dropped, dropped as u64);
        }
    }

    #[test]
    fn threads_agree_about_traces_that_they_share() {
        const TRACES: u64 = 300;
        let tail = Arc::new(Tail::default());
        let barrier = Barrier::new(4);
        let of_thread = |thread: u64| {
            let bench = Bench::new(1, 1 << 20);
            let queue = Queue::new(Arc::clone(&tail), Arc::default());
            let mut bench = Bench { tail: Arc::clone(&tail), queues: vec![queue], ..bench };
            for round in 0..6 {
                for n in 0..TRACES {
                    let trace = 1 + (n * 7 + thread * 31) % TRACES;
                    // One thread's last record of it tells that it has failed.
                    let failed = trace.is_multiple_of(7) && round == 5 && thread == trace % 4;
                    bench.offer(0, trace, failed, None, 100);
                    if n.is_multiple_of(16) {
                        while bench.next(0, false) {}
                    }
                }
            }
            barrier.wait();
            tail.pass(10_000);
            while bench.next(0, false) {}
            assert!(bench.queues[0].is_empty(), "nothing waits for longer than the window");
            bench.fates()
        };
        let fates: Vec<BTreeMap<u64, (u32, u32)>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || of_thread(thread))).collect();
            threads.into_iter().map(|thread| thread.join().expect("it ends")).collect()
        });
        let mut dropped_traces = 0;
        for trace in 1..=TRACES {
            let of_trace = fates.iter().map(|fates| fates[&trace]);
            let (kept, dropped) = of_trace.fold((0, 0), |(k, d), (kept, dropped)| (k + kept, d + dropped));
            assert!(matches!((kept, dropped), (24, 0) | (0, 24)), "{trace}: {kept} {dropped}");
            assert!(dropped == 0 || !trace.is_multiple_of(7), "{trace} has failed");
            dropped_traces += u64::from(dropped > 0);
        }
        assert!((100..280).contains(&dropped_traces), "{dropped_traces}");
        let sums = tail.sums();
        assert_eq!((sums.early, sums.late, sums.untracked, sums.open), (0, 0, 0, 0));
        assert_eq!((sums.dropped, sums.failed), (dropped_traces, TRACES / 7));
    }

    #[test]
    fn places_of_what_was_dropped_are_not_swept_again_and_again() {
        let mut bench = Bench::new(1, 1 << 20);
        let (mut sweeps, mut records) = (0, 0);
        for trace in (1..1_000).filter(|trace| !key(*trace).is_sampled(4)) {
            for step in 0..20 {
                let span = SpanEnd { is_start: step == 0, id: 5, has_parent: false, nanos: Some(0) };
                let span = [0, 19].contains(&step).then_some(span);
                let before = bench.queues[0].unswept;
                bench.offer(0, trace, false, span, 10);
                sweeps += u32::from(bench.queues[0].unswept < before);
                records += 1;
            }
            // Over after its grace, a second.
            bench.tail.pass(400);
        }
        assert_eq!(bench.tail.sums().untracked, 0);
        assert!(records > 10_000 && (1..=records / 200).contains(&sweeps), "{sweeps} of {records}");
        bench.finish();
    }

    #[test]
    fn memory_of_what_was_dropped_comes_back_without_early_decisions() {
        let mut bench = Bench::new(1, 1 << 20);
        // One that is open for the window blocks the way; the others are over after their grace.
        bench.offer(0, 1, false, Some(SpanEnd { is_start: true, id: 1, has_parent: false, nanos: None }), 10);
        let mut taken = 0;
        for trace in (2..60).filter(|trace| !key(*trace).is_sampled(4)) {
            for is_start in [true, false] {
                let span = SpanEnd { is_start, id: 5, has_parent: false, nanos: Some(0) };
                bench.offer(0, trace, false, Some(span), 50_000);
                taken += 50_000;
            }
            // Of those within their grace, a second, there is always room.
            bench.tail.pass(300);
        }
        assert!(taken > 3 << 20);
        assert_eq!(bench.tail.sums().early, 0);
        assert!(bench.tail.held().bytes() <= 1 << 20);
        let chunks: usize = bench.queues[0].chunks.iter().map(Vec::capacity).sum();
        assert!(chunks < 1 << 20, "{chunks}");
        bench.finish();
    }
}
