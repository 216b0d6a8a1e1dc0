//! The way to the core: a bounded channel, and what happens when it is full.

use std::time::Duration;

use crossbeam_channel::{SendTimeoutError, Sender, TrySendError};
use rustc_hash::FxHashMap;

use super::account::Account;
use super::{LaneId, Wake};
use crate::delivery::{ConnId, Delivery};
use pcp_event::batch::Batch;

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
    pub fn new(out: Sender<Delivery>, wake: Wake, patience: Duration) -> Outbox {
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

    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub fn is_full(&self) -> bool {
        self.out.is_full()
    }

    pub fn hold(&mut self) {
        self.keeps = true;
    }

    pub fn is_stuck(&self) -> bool {
        self.keeps && !self.is_moving
    }

    pub fn is_pending(&self) -> bool {
        !self.marked.is_empty()
    }

    pub fn lost(&self, conn: ConnId) -> u64 {
        self.lost.get(&conn).copied().unwrap_or(0)
    }

    pub fn forget(&mut self, conn: ConnId) {
        self.lost.remove(&conn);
    }

    /// Notes that a lane has something to hand over.
    #[inline]
    pub fn mark(&mut self, account: &mut Account) {
        if !account.is_marked {
            account.is_marked = true;
            self.marked.push(account.lane());
        }
    }

    /// The lanes that were marked; none is any longer.
    pub fn take_waiting(&mut self) -> Vec<LaneId> {
        std::mem::take(&mut self.marked)
    }

    /// Gives the emptied list of [`Outbox::take_waiting`] back for its memory, unless there is a new one.
    pub fn give_back(&mut self, list: Vec<LaneId>) {
        if self.marked.is_empty() {
            self.marked = list;
        }
    }

    /// Sends what a lane has. When that fails, its records become missed, or are kept, and the rest stays.
    pub fn hand_over(&mut self, batch: &mut Batch, account: &mut Account) {
        let Some(delivery) = account.delivery(batch) else { return };
        match self.send(delivery) {
            Ok(()) => {
                account.delivered();
                self.is_moving = true;
                (self.wake)();
            }
            Err(error) => {
                self.is_moving = false;
                self.is_closed |= matches!(error, SendTimeoutError::Disconnected(_));
                let (SendTimeoutError::Timeout(delivery) | SendTimeoutError::Disconnected(delivery)) = error;
                if self.keeps && !self.is_closed {
                    account.take_back(delivery, batch);
                } else {
                    let lost = &mut self.lost;
                    account.lose(delivery, batch, |conn, count| {
                        *lost.entry(conn).or_insert(0) += u64::from(count);
                    });
                }
                // What is left to tell goes with the next flush, even if no more records come.
                self.mark(account);
            }
        }
    }

    fn send(&self, delivery: Delivery) -> Result<(), SendTimeoutError<Delivery>> {
        // Once a wait was in vain the next records are lost at once: senders would otherwise be slowed down to one
        // batch per patience for as long as the core is behind.
        let is_worth_waiting = self.is_moving && !delivery.batch.is_empty() && !self.patience.is_zero();
        match self.out.try_send(delivery) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(delivery)) if is_worth_waiting => {
                // The core may be asleep with a full channel only if it missed the call before.
                (self.wake)();
                self.out.send_timeout(delivery, self.patience)
            }
            Err(TrySendError::Full(delivery)) => Err(SendTimeoutError::Timeout(delivery)),
            Err(TrySendError::Disconnected(delivery)) => Err(SendTimeoutError::Disconnected(delivery)),
        }
    }
}
