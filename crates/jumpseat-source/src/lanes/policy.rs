//! What the settings of a source do to a record that was just committed: drop it, hold it back until its trace is decided and to
//! be put in order, and check its time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::GONE;
use super::account::{BATCH_BYTES, LaneAccount};
use super::fields::FieldNames;
use super::marks::Numbered;
use super::order::Held;
use super::outbox::Outbox;
use super::queue::{Leaves, Offer, Queue};
use super::sieve::Sieve;
use crate::delivery::{Arrival, Cause, ConnId, Loss, Tallies};
use crate::gate::{Gate, Settings};
use crate::registry::Registry;
use pcp_event::Param;
use pcp_event::batch::{Batch, record_time};
use pcp_model::Timestamp;

/// The field of records whose time is suspect: `future` or `past`.
pub const CLOCK_FIELD: &str = "clock_suspect";

/// The settings of one lane's source, as far as the lane has taken them over. What each record takes a look at is together.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Policy {
    gate: Arc<Gate>,
    settings: Arc<Settings>,
    /// The gate's version that they are of.
    version: u64,
    /// How often the settings of any source had changed then.
    changes: u64,
    /// Whole seconds that a time may be behind and ahead.
    bounds: (i64, i64),
    sieve: Option<Box<Sieve>>,
    /// Records whose traces are not decided, and what came behind them.
    queue: Option<Box<Queue>>,
    held: Option<Box<Held>>,
}

/// Where a record is after the policy had its say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Still in the batch.
    Stays,
    /// Dropped and counted, or held until it is its turn.
    Gone,
}

/// A time that cannot be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suspect {
    Future,
    Past,
}

impl Suspect {
    const fn word(self) -> &'static str {
        match self {
            Suspect::Future => "future",
            Suspect::Past => "past",
        }
    }

    fn count(self, tallies: &mut Tallies) {
        match self {
            Suspect::Future => tallies.future += 1,
            Suspect::Past => tallies.past += 1,
        }
    }
}

impl Policy {
    pub(super) fn new(gate: Arc<Gate>, registry: &Registry) -> Policy {
        let (settings, bounds) = (Arc::default(), (0, 0));
        let (version, changes) = (0, registry.gate_changes());
        let mut policy =
            Policy { gate, settings, version, changes, bounds, sieve: None, queue: None, held: None };
        policy.take_settings(registry);
        policy
    }

    /// Whether something has to be done about a record of this time. For nearly all there has not.
    #[inline]
    pub(super) fn has_a_say(&self, time: Timestamp, arrived: Timestamp, registry: &Registry) -> bool {
        self.changes != registry.gate_changes()
            || self.sieve.is_some()
            || self.queue.is_some()
            || self.held.is_some()
            || self.suspect(time, arrived).is_some()
    }

    /// Does it, to the newest record of the batch.
    #[cold]
    pub(super) fn apply(
        &mut self,
        (arrival, numbered): (Arrival, Option<Numbered>),
        batch: &mut Batch,
        account: &mut LaneAccount,
        names: &mut FieldNames,
        outbox: &mut Outbox,
    ) -> Verdict {
        self.follow_gate(names.registry());
        let newest = batch.last().map(record_time);
        debug_assert!(newest.is_some(), "a record was just committed");
        let suspect = newest.and_then(|time| self.suspect(time, arrival.time));
        if let Some(suspect) = suspect {
            suspect.count(&mut account.tallies);
            if self.settings.flag_clock {
                flag_clock(batch, suspect, names);
            }
        }
        let Some(record) = batch.last() else { return Verdict::Gone };
        if let Some(cause) = self.sieve.as_mut().and_then(|sieve| sieve.drops(record, names.registry())) {
            account.drop(cause);
            if let Some(numbered) = numbered {
                account.marks.raise(numbered);
            }
            batch.truncate(batch.len() - 1);
            return Verdict::Gone;
        }
        if let Some(queue) = &mut self.queue {
            // With sampling by tail switched off, what comes still leaves behind what waits.
            let told = match &mut self.sieve {
                Some(sieve) if self.settings.is_by_tail() => {
                    sieve.told(record, suspect.is_some(), names.registry())
                }
                _ => None,
            };
            let told = (told.as_ref(), self.settings.sample);
            match queue.offer(record, told, numbered, suspect.is_some()) {
                Offer::Passes => {}
                Offer::Dropped => {
                    account.drop(Cause::Sampled);
                    if let Some(numbered) = numbered {
                        account.marks.raise(numbered);
                    }
                    batch.truncate(batch.len() - 1);
                    return Verdict::Gone;
                }
                Offer::Waits => {
                    if let Some(numbered) = numbered {
                        account.marks.wait(numbered);
                    }
                    batch.truncate(batch.len() - 1);
                    while self.queue.as_mut().is_some_and(|queue| queue.is_over())
                        && self.let_go((true, false), batch, account, outbox)
                    {}
                    return Verdict::Gone;
                }
            }
        }
        self.put_in_order((arrival.conn, numbered), suspect.is_some(), batch, account, outbox)
    }

    /// Holds the newest record of the batch until it is its turn in the order of time, if there is one.
    fn put_in_order(
        &mut self,
        (conn, numbered): (ConnId, Option<Numbered>),
        is_suspect: bool,
        batch: &mut Batch,
        account: &mut LaneAccount,
        outbox: &mut Outbox,
    ) -> Verdict {
        // A wrong time says nothing about the order: one far in the future would let go of all others at once.
        let Some(held) = self.held.as_mut().filter(|_| !is_suspect) else { return Verdict::Stays };
        let Some(record) = batch.last() else { return Verdict::Stays };
        if self.settings.order_window.is_zero() {
            // The window was closed, and what it held leaves with the next flush.
            return Verdict::Stays;
        }
        if !held.push(record, conn, numbered) {
            account.tallies.late += 1;
            return Verdict::Stays;
        }
        if let Some(numbered) = numbered {
            account.marks.hold(numbered);
        }
        batch.truncate(batch.len() - 1);
        // The earliest leave before their time: order is worth less than the memory's bound.
        while self.held.as_ref().is_some_and(|held| held.is_full()) {
            self.release_one(None, batch, account, outbox);
        }
        Verdict::Gone
    }

    /// Whether records may be held back.
    pub(super) fn may_hold(&self) -> bool {
        self.held.is_some() || self.queue.is_some()
    }

    /// Whether records are held back.
    pub(super) fn holds_records(&self) -> bool {
        self.held.as_ref().is_some_and(|held| !held.is_empty())
            || self.queue.as_ref().is_some_and(|queue| !queue.is_empty())
    }

    /// Has a loss wait behind what came before it. False: nothing did that has to leave on its own time.
    pub(super) fn lose(&mut self, loss: Loss) -> bool {
        self.queue.as_mut().is_some_and(|queue| queue.lose(loss))
    }

    /// A connection's number will mean another one: what is held of it belongs to `instead`.
    pub(super) fn forget(&mut self, conn: ConnId, instead: ConnId) {
        if let Some(held) = &mut self.held {
            held.forget(conn, instead);
        }
    }

    /// Moves what is held to the batch: what is due by now, or everything.
    pub(super) fn release(
        &mut self,
        everything: bool,
        registry: &Registry,
        batch: &mut Batch,
        account: &mut LaneAccount,
        outbox: &mut Outbox,
    ) {
        if !self.may_hold() {
            return;
        }
        // What holds records may have been switched off since the last record came.
        self.follow_gate(registry);
        let is_by_tail = self.settings.is_by_tail();
        // Where the core does not take what leaves, it waits here, but for the last time.
        while (everything || !outbox.is_stuck())
            && self.let_go((everything || !is_by_tail, everything), batch, account, outbox)
        {}
        if !is_by_tail && self.queue.as_ref().is_some_and(|queue| queue.is_empty()) {
            self.queue = None;
        }
        self.release_in_order(everything, batch, account, outbox);
    }

    /// Lets go of the first record of the queue, or loss, if it is decided or is to be. False: there was none, or a loss has to wait
    /// until the core takes what came before it, but for the `last` time.
    fn let_go(
        &mut self,
        (forced, last): (bool, bool),
        batch: &mut Batch,
        account: &mut LaneAccount,
        outbox: &mut Outbox,
    ) -> bool {
        if self.queue.as_ref().is_some_and(|queue| queue.begins_with_loss()) {
            self.release_in_order(true, batch, account, outbox);
            outbox.hand_over(batch, account);
            // A delivery tells its loss before its records.
            if !batch.is_empty() && !last {
                return false;
            }
        }
        outbox.provide(batch, account);
        let Some(leaves) = self.queue.as_mut().and_then(|queue| queue.next(forced, batch)) else {
            return false;
        };
        let numbered = match leaves {
            Leaves::Loss(loss) => {
                account.add_loss(loss);
                outbox.mark(account);
                return true;
            }
            Leaves::Dropped(numbered) => {
                account.drop(Cause::Sampled);
                numbered
            }
            Leaves::Record { numbered, is_suspect } => {
                // Whose it was is not known any more: that it is lost, if it is, its source tells.
                let of = (GONE, numbered);
                if self.put_in_order(of, is_suspect, batch, account, outbox) == Verdict::Stays {
                    account.receive(GONE);
                    account.marks.numbered += u32::from(numbered.is_some());
                }
                numbered
            }
        };
        if let Some(numbered) = numbered {
            account.marks.leave(numbered);
        }
        if batch.bytes().len() >= BATCH_BYTES {
            outbox.hand_over(batch, account);
        }
        true
    }

    /// Moves what is held to be put in order to the batch: what is due by now, or everything.
    fn release_in_order(
        &mut self,
        everything: bool,
        batch: &mut Batch,
        account: &mut LaneAccount,
        outbox: &mut Outbox,
    ) {
        let is_closed = self.settings.order_window.is_zero();
        let until = match &mut self.held {
            None => return,
            Some(held) if !everything && !is_closed => match held.watermark(Instant::now()) {
                None => return,
                until => until,
            },
            Some(_) => None,
        };
        while self.release_one(until, batch, account, outbox) {}
        if is_closed {
            self.held = None;
        }
    }

    /// Moves the earliest held record to the batch, if it is not after `until`. False: there was none.
    fn release_one(
        &mut self,
        until: Option<Timestamp>,
        batch: &mut Batch,
        account: &mut LaneAccount,
        outbox: &mut Outbox,
    ) -> bool {
        outbox.provide(batch, account);
        let released = self.held.as_mut().and_then(|held| held.release(until, batch));
        let Some((conn, numbered)) = released else { return false };
        if let Some(numbered) = numbered {
            account.marks.release(numbered);
            account.marks.numbered += 1;
        }
        account.receive(conn);
        if batch.bytes().len() >= BATCH_BYTES {
            outbox.hand_over(batch, account);
        }
        true
    }

    #[inline]
    fn suspect(&self, time: Timestamp, arrived: Timestamp) -> Option<Suspect> {
        // Whole seconds are enough for bounds of seconds, and cannot overflow.
        let ahead = time.sec.saturating_sub(arrived.sec);
        let (behind_bound, ahead_bound) = self.bounds;
        // Without a clock there is nothing to compare with.
        if (-behind_bound..=ahead_bound).contains(&ahead) || arrived == Timestamp::default() {
            return None;
        }
        Some(if time > arrived { Suspect::Future } else { Suspect::Past })
    }

    /// Takes over what the gate says, if that has changed.
    fn follow_gate(&mut self, registry: &Registry) {
        // First the number: what changes meanwhile is looked at once more.
        self.changes = registry.gate_changes();
        if self.version != self.gate.version() {
            self.take_settings(registry);
        }
    }

    fn take_settings(&mut self, registry: &Registry) {
        let (version, settings) = self.gate.settings();
        let seconds = |span: Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
        self.bounds = (seconds(settings.max_behind), seconds(settings.max_ahead));
        self.sieve = Sieve::new(&settings, registry);
        if settings.is_by_tail() && self.queue.is_none() {
            let queue = Queue::new(Arc::clone(registry.tail()), Arc::clone(&self.gate));
            self.queue = Some(Box::new(queue));
        }
        let window = settings.order_window;
        match &mut self.held {
            // What is held keeps the wait it began with.
            Some(held) => held.set_window(window),
            None if window.is_zero() => {}
            None => self.held = Some(Box::new(Held::new(window))),
        }
        self.version = version;
        self.settings = settings;
    }
}

/// Has the newest record say that its time is suspect.
fn flag_clock(batch: &mut Batch, suspect: Suspect, names: &mut FieldNames) {
    let value = Param::String(suspect.word().as_bytes());
    let (pmid, value) = names.resolve(CLOCK_FIELD.as_bytes(), value);
    // There is always room but in a record of the largest size, which goes without.
    let _ = batch.amend_last(pmid, value);
}
