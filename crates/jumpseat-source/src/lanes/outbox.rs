//! The way to the core: a bounded channel, and what happens when it is full.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{SendTimeoutError, Sender, TrySendError};
use rustc_hash::FxHashMap;

use super::account::{LaneAccount, LaneId};
use crate::delivery::{ConnId, Delivery};
use pcp_event::batch::Batch;

/// Tells the core that there is something in its channels.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// What hands over for all lanes of a thread.
pub(super) struct Outbox {
    out: Sender<Delivery>,
    wake: Wake,
    patience: Duration,
    /// Whether the last hand-over worked; only then a full channel is worth waiting for.
    is_moving: bool,
    /// Keep what does not fit the channel, instead of losing it.
    keeps: bool,
    is_closed: bool,
    /// Lanes that have something to hand over.
    marked: Vec<LaneId>,
    /// Records that were lost, by the connection they came on.
    lost: FxHashMap<ConnId, u64>,
}

impl Outbox {
    pub(super) fn new(out: Sender<Delivery>, wake: Wake, patience: Duration) -> Outbox {
        Outbox {
            out,
            wake,
            patience,
            is_moving: true,
            keeps: false,
            is_closed: false,
            marked: Vec::new(),
            lost: FxHashMap::default(),
        }
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

    pub(super) fn is_pending(&self) -> bool {
        !self.marked.is_empty()
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
        std::mem::take(&mut self.marked)
    }

    /// Gives the emptied list of [`Outbox::take_waiting`] back for its memory, unless there is a new one.
    pub(super) fn give_back(&mut self, list: Vec<LaneId>) {
        if self.marked.is_empty() {
            self.marked = list;
        }
    }

    /// Sends what a lane has. When that fails, its records become missed, or are kept, and the rest stays.
    pub(super) fn hand_over(&mut self, batch: &mut Batch, account: &mut LaneAccount) {
        let Some(delivery) = account.delivery(batch) else { return };
        match self.send(delivery) {
            Sent::Arrived => {
                account.delivered();
                self.is_moving = true;
                (self.wake)();
                return;
            }
            Sent::Full(delivery) if self.keeps => account.take_back(delivery, batch),
            Sent::Full(delivery) => self.lose(delivery, batch, account),
            Sent::Closed(delivery) => {
                self.is_closed = true;
                self.lose(delivery, batch, account);
            }
        }
        self.is_moving = false;
        // What is left to tell goes with the next flush, even if no more records come.
        self.mark(account);
    }

    fn lose(&mut self, delivery: Delivery, batch: &mut Batch, account: &mut LaneAccount) {
        account.lose(delivery, batch, |conn, count| {
            *self.lost.entry(conn).or_insert(0) += u64::from(count);
        });
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
