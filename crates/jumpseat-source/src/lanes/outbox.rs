//! The way to the core: the log on disk, a bounded channel, and what happens when that is full.
//!
//! What is handed over is in the log first, and goes to the core under the lock of its source's log: in the order in which
//! it was written. There is room in the channel by then: what the core does not take in time is not written either, but lost.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{SendTimeoutError, Sender, TrySendError};
use rustc_hash::FxHashMap;

use jumpseat_log::{Entry, SourceLog};
use pcp_event::batch::Batch;
use pcp_model::Timestamp;

use super::account::{LaneAccount, LaneId};
use crate::delivery::{ConnId, Delivery};
use crate::ledger;
use crate::outlet::Starting;
use crate::spares::Shelf;

/// How often a full channel is looked at.
const STEP: Duration = Duration::from_millis(1);

/// Tells the core that there is something in its channels.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// What hands over for all lanes of a thread.
pub(super) struct Outbox {
    out: Sender<Delivery>,
    wake: Wake,
    patience: Duration,
    starting: Starting,
    /// Whether the last hand-over of records worked; only then a full channel is worth waiting for.
    is_moving: bool,
    /// Keep what does not fit the channel, instead of losing it.
    keeps: bool,
    is_closed: bool,
    /// Lanes that have something to hand over.
    marked: Vec<LaneId>,
    /// Records that were lost, by the connection they came on.
    lost: FxHashMap<ConnId, u64>,
    /// Logs that have something which is not synced, and should be.
    unsynced: Vec<Arc<SourceLog>>,
    /// Deliveries that would not survive the death of this process, or of the machine if they should.
    undurable: u64,
    /// For its memory.
    counters: Vec<(u32, u64)>,
    /// Memory of batches that the core has done with.
    shelf: Shelf,
    /// Something was handed over since the core was woken last.
    has_news: bool,
}

impl Outbox {
    pub(super) fn new(out: Sender<Delivery>, wake: Wake, patience: Duration) -> Outbox {
        Outbox {
            out,
            wake,
            patience,
            starting: Starting::default(),
            is_moving: true,
            keeps: false,
            is_closed: false,
            marked: Vec::new(),
            lost: FxHashMap::default(),
            unsynced: Vec::new(),
            undurable: 0,
            counters: Vec::new(),
            shelf: Shelf::new(),
            has_news: false,
        }
    }

    /// Gives a lane's batch memory, if it has none.
    #[inline]
    pub(super) fn provide(&self, batch: &mut Batch, account: &LaneAccount) {
        if batch.capacity() == 0 {
            *batch = self.shelf.batch(account.expected());
        }
    }

    /// Tells the core, if something was handed over.
    pub(super) fn tell(&mut self) {
        if std::mem::take(&mut self.has_news) {
            (self.wake)();
        }
    }

    pub(super) fn wait_while(&mut self, starting: Starting) {
        self.starting = starting;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub(super) fn is_full(&self) -> bool {
        self.out.is_full()
    }

    pub(super) fn hold(&mut self) {
        self.keeps = true;
    }

    pub(super) fn is_stuck(&self) -> bool {
        self.keeps && !self.is_moving
    }

    /// The lanes that have something to hand over.
    pub(super) fn pending(&self) -> &[LaneId] {
        &self.marked
    }

    /// Grows with each delivery that would not survive as the configuration says.
    pub(super) fn undurable(&self) -> u64 {
        self.undurable
    }

    pub(super) fn lost(&self, conn: ConnId) -> u64 {
        self.lost.get(&conn).copied().unwrap_or(0)
    }

    pub(super) fn forget(&mut self, conn: ConnId) {
        self.lost.remove(&conn);
    }

    /// Notes that a lane has something to hand over.
    #[inline]
    pub(super) fn mark(&mut self, account: &mut LaneAccount) {
        if !account.is_marked {
            account.is_marked = true;
            self.marked.push(account.lane());
        }
    }

    /// The lanes that were marked; none is any longer.
    pub(super) fn take_waiting(&mut self) -> Vec<LaneId> {
        if self.marked.is_empty() {
            // Nothing has come: what comes next may be long in coming.
            self.shelf.clear();
        }
        std::mem::take(&mut self.marked)
    }

    /// Gives the emptied list of [`Outbox::take_waiting`] back for its memory, unless there is a new one.
    pub(super) fn give_back(&mut self, list: Vec<LaneId>) {
        if self.marked.is_empty() {
            self.marked = list;
        }
    }

    /// Sends what a lane has, and wakes the core. When that fails, its records become missed, or are kept, and the rest stays.
    pub(super) fn hand_over(&mut self, batch: &mut Batch, account: &mut LaneAccount) {
        self.put_in(batch, account);
        self.tell();
    }

    /// The same without waking the core, which is to be [told](Outbox::tell) soon.
    pub(super) fn put_in(&mut self, batch: &mut Batch, account: &mut LaneAccount) {
        let Some(delivery) = account.delivery(batch, self.shelf.spares()) else { return };
        while self.starting.is_on() && self.out.is_full() && !self.keeps {
            (self.wake)();
            std::thread::sleep(STEP);
        }
        let has_records = !delivery.batch.is_empty();
        let sent = match account.log() {
            Some(log) => self.log(delivery, log),
            None => {
                self.undurable += 1;
                self.send(delivery)
            }
        };
        match sent {
            Sent::Arrived => {
                account.delivered();
                self.is_moving = true;
                self.has_news = true;
                return;
            }
            Sent::Full(delivery) if self.keeps => account.take_back(delivery, batch),
            Sent::Full(delivery) => self.lose(delivery, batch, account),
            Sent::Closed(delivery) => {
                self.is_closed = true;
                self.lose(delivery, batch, account);
            }
        }
        // Counts alone have not waited for room: that there was none says nothing of the core, and shall cost no records.
        self.is_moving &= !has_records;
        // What is left to tell goes with the next flush, even if no more records come.
        self.mark(account);
    }

    fn lose(&mut self, delivery: Delivery, batch: &mut Batch, account: &mut LaneAccount) {
        account.lose(delivery, batch, |conn, count| {
            *self.lost.entry(conn).or_insert(0) += u64::from(count);
        });
    }

    /// Writes a delivery to its source's log, and sends it.
    fn log(&mut self, mut delivery: Delivery, log: &Arc<SourceLog>) -> Sent {
        if !self.waits_for_room(&delivery) {
            return Sent::Full(delivery);
        }
        ledger::put(&delivery.tallies, delivery.missed, &mut self.counters);
        let lost = delivery.missed.map_or((0, Timestamp::default()), |loss| (loss.count, loss.time));
        let mut log_of_source = log.lock();
        let appended = log_of_source.append(&Entry {
            lost,
            batch: &delivery.batch,
            counters: &self.counters,
            marks: &delivery.marks,
            numbered: delivery.numbered,
        });
        self.undurable += u64::from(!appended.written);
        delivery.logged = Some(appended.first);
        if let Some(loss) = &mut delivery.missed {
            loss.count = appended.lost;
        }
        let is_closed = match self.out.try_send(delivery) {
            Ok(()) => false,
            Err(TrySendError::Disconnected(_)) => true,
            // Another thread has taken the room: then this waits for the core, which never waits for a disk.
            Err(TrySendError::Full(delivery)) => {
                (self.wake)();
                self.out.send(delivery).is_err()
            }
        };
        drop(log_of_source);
        self.is_closed |= is_closed;
        if log.syncs_batches() && !self.unsynced.iter().any(|known| Arc::ptr_eq(known, log)) {
            self.unsynced.push(Arc::clone(log));
        }
        // Without a core it is in the log all the same, for the next one.
        Sent::Arrived
    }

    /// Whether there is room in the channel: within the patience, if it is worth waiting for.
    fn waits_for_room(&self, delivery: &Delivery) -> bool {
        let mut waited = Duration::ZERO;
        while self.out.is_full() {
            if !self.is_moving || delivery.batch.is_empty() || waited >= self.patience {
                return false;
            }
            (self.wake)();
            std::thread::sleep(STEP);
            waited += STEP;
        }
        true
    }

    /// Has what was handed over survive a loss of power, if it should by now.
    pub(super) fn sync(&mut self) {
        for log in self.unsynced.drain(..) {
            // Told, and counted; what the disk does not take is in the next file.
            self.undurable += u64::from(log.sync().is_err());
        }
    }

    fn send(&self, delivery: Delivery) -> Sent {
        // Once a wait was in vain the next records are lost at once: senders would otherwise be slowed down to one
        // batch per patience for as long as the core is behind.
        let is_worth_waiting = self.is_moving && !delivery.batch.is_empty() && !self.patience.is_zero();
        match self.out.try_send(delivery) {
            Ok(()) => Sent::Arrived,
            Err(TrySendError::Full(delivery)) if is_worth_waiting => {
                // Whatever is in the channel, the core is to empty it now.
                (self.wake)();
                match self.out.send_timeout(delivery, self.patience) {
                    Ok(()) => Sent::Arrived,
                    Err(SendTimeoutError::Timeout(delivery)) => Sent::Full(delivery),
                    Err(SendTimeoutError::Disconnected(delivery)) => Sent::Closed(delivery),
                }
            }
            Err(TrySendError::Full(delivery)) => Sent::Full(delivery),
            Err(TrySendError::Disconnected(delivery)) => Sent::Closed(delivery),
        }
    }
}

/// What became of a delivery.
enum Sent {
    Arrived,
    /// There is no room for it.
    Full(Delivery),
    /// Nobody is there to take it.
    Closed(Delivery),
}
