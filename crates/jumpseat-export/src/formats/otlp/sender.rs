//! Requests on their way to the receiver: a bounded queue, and a thread that sends what is in it, one after the other.
//!
//! ```text
//! the walk --push--> queue (bounded in bytes) --> the thread: send, wait, send again --> receiver
//!                                                     |
//!                                                     +-- the mark of what was taken: State::save
//! ```
//!
//! * A request is sent until it is answered for good. In between the thread waits as long as the receiver says, or else half a
//!   second and longer each time, up to [`MAX_PAUSE`]; the last half of each wait is by chance, so that many senders do not come at once.
//! * Where the queue is full, [`Pushed`] says what becomes of a request: samples of a live host push out the oldest samples, which
//!   are counted; all else waits for room.
//! * What is not taken for [`Limits::give_up`] is given up: samples of a live host are dropped, and anything else ends the
//!   export, as it can be exported again from there.
//!
//! **Invariant:** requests are sent in the order in which they were pushed, each until its fate is known. So whenever one
//! is answered, all before it were; and its mark can be written.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::state::{Mark, State};
use super::transport::{Answer, Signal, Transport};
use crate::formats::source::NAME;
use jumpseat_tools::complain;

/// The first wait before a request is sent again, and the longest, also of those that a receiver asks for.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(30);
const MAX_ASKED: Duration = Duration::from_secs(300);
/// How often whoever waits for room looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);
/// Most reasons that are told; further ones are only counted.
const MAX_TOLD: usize = 20;

/// A request that waits.
pub(super) struct Item {
    pub signal: Signal,
    /// The message, not yet compressed.
    pub message: Vec<u8>,
    /// Points, spans or log records.
    pub count: u64,
    /// What is done when it was taken, and all before it.
    pub mark: Option<Mark>,
    /// Whether it may be dropped for newer ones.
    pub droppable: bool,
}

/// What there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Bytes of requests that wait.
    pub queue: usize,
    /// How long a request is sent again and again.
    pub give_up: Duration,
    /// How long the end waits for the rest.
    pub flush: Duration,
}

/// What became of everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub points: u64,
    pub spans: u64,
    pub logs: u64,
    pub requests: u64,
    /// Requests that were sent again.
    pub again: u64,
    /// Items that the receiver did not take.
    pub rejected: u64,
    /// Items that newer ones pushed out, or that were given up.
    pub dropped: u64,
    /// Items that were left at the end.
    pub left: u64,
}

/// The queue and its thread.
pub(super) struct Sender {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    limits: Limits,
}

struct Shared {
    queue: Mutex<Queue>,
    /// There is room, or the thread has ended.
    room: Condvar,
    /// There is something to do.
    work: Notify,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    /// Bytes of those that wait, and of the one that is being sent.
    bytes: usize,
    counts: Counts,
    /// No more will come.
    closed: bool,
    /// When the thread has to end.
    deadline: Option<Instant>,
    /// The thread has ended.
    ended: bool,
    /// Why nothing more can be sent.
    failed: Option<String>,
    /// Reasons that were told.
    told: Vec<String>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sender {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub(super) fn start(
        transport: Transport,
        state: Option<Arc<State>>,
        limits: Limits,
    ) -> std::io::Result<Sender> {
        let shared = Arc::new(Shared { queue: Mutex::default(), room: Condvar::new(), work: Notify::new() });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let worker = Worker { shared: Arc::clone(&shared), transport, state, limits };
        let thread = std::thread::Builder::new().name("otlp".to_owned()).spawn(move || {
            runtime.block_on(worker.run());
        })?;
        Ok(Sender { shared, thread: Some(thread), limits })
    }

    /// Takes a request. Where there is no room for it waits, unless there are samples to drop; `is_ending` says whether that is
    /// to be no longer than the end may take.
    ///
    /// # Errors
    /// Why nothing more can be sent.
    pub(super) fn push(&self, item: Item, mut is_ending: impl FnMut() -> bool) -> Result<(), String> {
        let len = item.message.len();
        let mut queue = self.shared.lock();
        let mut until: Option<Instant> = None;
        loop {
            if let Some(reason) = &queue.failed {
                return Err(reason.clone());
            }
            // One that is larger than the queue is alone in it.
            if queue.bytes == 0 || queue.bytes + len <= self.limits.queue {
                break;
            }
            if queue.drop_oldest() {
                continue;
            }
            if item.droppable {
                queue.lose(&item, "the queue is full (--queue): the receiver is too slow, or away");
                return Ok(());
            }
            if until.is_none() && is_ending() {
                until = Some(jumpseat_tools::later(Instant::now(), self.limits.flush));
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                queue.counts.left += item.count;
                return Err("the receiver did not take what was left in time".to_owned());
            }
            queue = self.shared.room.wait_timeout(queue, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        queue.bytes += len;
        queue.items.push_back(item);
        drop(queue);
        self.shared.work.notify_one();
        Ok(())
    }

    /// Waits until all is sent, or it takes too long; of an archive (`patient`) as long as anything is taken at all. What became of it.
    pub(super) fn finish(mut self, patient: bool) -> (Counts, Option<String>) {
        self.close(patient);
        let queue = self.shared.lock();
        (queue.counts, queue.failed.clone())
    }

    fn close(&mut self, patient: bool) {
        let Some(thread) = self.thread.take() else { return };
        {
            let mut queue = self.shared.lock();
            queue.closed = true;
            queue.deadline = (!patient).then(|| jumpseat_tools::later(Instant::now(), self.limits.flush));
        }
        self.shared.work.notify_one();
        // A thread that panicked has said so; what was left is counted by then or never.
        let _ = thread.join();
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.close(false);
    }
}

impl Queue {
    /// Drops the oldest request that may be; false if there is none.
    fn drop_oldest(&mut self) -> bool {
        let Some(at) = self.items.iter().position(|item| item.droppable) else { return false };
        let Some(item) = self.items.remove(at) else { return false };
        self.bytes -= item.message.len();
        self.lose(&item, "the queue is full (--queue): the oldest samples are dropped for newer ones");
        true
    }

    fn lose(&mut self, item: &Item, why: &str) {
        self.counts.dropped += item.count;
        self.tell(why);
    }

    /// Says something once.
    fn tell(&mut self, what: &str) {
        if self.told.len() < MAX_TOLD && !self.told.iter().any(|told| told == what) {
            complain!("{NAME}: {what}");
            self.told.push(what.to_owned());
        }
    }
}

/// What the thread has.
struct Worker {
    shared: Arc<Shared>,
    transport: Transport,
    state: Option<Arc<State>>,
    limits: Limits,
}

impl Worker {
    async fn run(mut self) {
        while let Some(item) = self.next().await {
            if let Err(reason) = self.deliver(&item).await {
                let mut queue = self.shared.lock();
                queue.counts.left += item.count;
                queue.failed = Some(reason);
                break;
            }
            self.shared.lock().bytes -= item.message.len();
            self.shared.room.notify_all();
        }
        let mut queue = self.shared.lock();
        queue.counts.left += queue.items.iter().map(|item| item.count).sum::<u64>();
        queue.items.clear();
        queue.ended = true;
        self.shared.room.notify_all();
    }

    async fn next(&self) -> Option<Item> {
        loop {
            {
                let mut queue = self.shared.lock();
                if let Some(item) = queue.items.pop_front() {
                    return Some(item);
                }
                if queue.closed {
                    return None;
                }
            }
            self.shared.work.notified().await;
        }
    }

    /// Sends a request until its fate is known.
    async fn deliver(&mut self, item: &Item) -> Result<(), String> {
        let body = self.transport.wrap(&item.message);
        let begun = Instant::now();
        let mut pause = FIRST_PAUSE;
        let mut is_first = true;
        loop {
            let Some(answer) = self.in_time(self.transport.send(item.signal, body.clone())).await else {
                return Err("the receiver did not answer in time".to_owned());
            };
            let (after, reason) = match answer {
                Answer::Taken { rejected, reason } => {
                    self.taken(item, rejected, &reason);
                    return self.save(item);
                }
                Answer::Refused { reason } => {
                    let mut queue = self.shared.lock();
                    queue.counts.rejected += item.count;
                    queue.tell(&format!("the receiver refused {} items: {reason}", item.count));
                    drop(queue);
                    return self.save(item);
                }
                Answer::Barred { reason } => return Err(format!("the receiver takes nothing: {reason}")),
                Answer::Later { after, reason } => (after, reason),
            };
            {
                let mut queue = self.shared.lock();
                queue.counts.again += 1;
                if is_first {
                    queue.tell(&format!("not taken, will be sent again: {reason}"));
                }
            }
            is_first = false;
            let wait = after.map_or_else(|| by_chance(pause), |after| after.min(MAX_ASKED));
            pause = (pause * 2).min(MAX_PAUSE);
            if begun.elapsed() + wait > self.limits.give_up {
                if !item.droppable {
                    return Err(format!("given up after {} s: {reason}", begun.elapsed().as_secs()));
                }
                let mut queue = self.shared.lock();
                queue.lose(item, &format!("given up: {reason}"));
                return Ok(());
            }
            if self.in_time(tokio::time::sleep(wait)).await.is_none() {
                return Err(format!("not taken before the end: {reason}"));
            }
        }
    }

    /// What comes of work; `None` if it is not done before the export has to end.
    async fn in_time<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        loop {
            let deadline = self.shared.lock().deadline;
            let end = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                    None => self.shared.work.notified().await,
                }
            };
            tokio::select! {
                done = &mut work => return Some(done),
                () = end => {
                    if deadline.is_some() {
                        return None;
                    }
                }
            }
        }
    }

    fn taken(&self, item: &Item, rejected: u64, reason: &str) {
        let mut queue = self.shared.lock();
        let rejected = rejected.min(item.count);
        let taken = item.count - rejected;
        let counts = &mut queue.counts;
        counts.requests += 1;
        counts.rejected += rejected;
        *match item.signal {
            Signal::Metrics => &mut counts.points,
            Signal::Traces => &mut counts.spans,
            Signal::Logs => &mut counts.logs,
        } += taken;
        if rejected > 0 {
            queue.tell(&format!("the receiver rejected {rejected} of {} items: {reason}", item.count));
        } else if !reason.is_empty() {
            queue.tell(&format!("the receiver warns: {reason}"));
        }
    }

    fn save(&self, item: &Item) -> Result<(), String> {
        match (&self.state, &item.mark) {
            (Some(state), Some(mark)) => state.save(mark),
            _ => Ok(()),
        }
    }
}

/// A wait from half of this one to all of it.
fn by_chance(pause: Duration) -> Duration {
    pause.mul_f64(0.5 + fastrand::f64() / 2.0)
}
