//! What the settings of a source do to a record that was just committed: drop it, hold it back to be put in order, and
//! check its time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::account::{BATCH_BYTES, LaneAccount};
use super::fields::FieldNames;
use super::marks::Numbered;
use super::order::Held;
use super::outbox::Outbox;
use super::sieve::Sieve;
use crate::delivery::{Arrival, ConnId, Tallies};
use crate::gate::{Gate, Settings};
use crate::registry::Registry;
use pcp_event::Param;
use pcp_event::batch::{Batch, record_time};
use pcp_model::Timestamp;

/// The field of records whose time is suspect: `future` or `past`.
pub const CLOCK_FIELD: &str = "clock_suspect";

/// The settings of one lane's source, as far as the lane has taken them over.
#[derive(Debug)]
pub(super) struct Policy {
    gate: Arc<Gate>,
    settings: Arc<Settings>,
    /// The gate's version that they are of.
    version: u64,
    /// Whole seconds that a time may be behind and ahead.
    bounds: (i64, i64),
    sieve: Option<Box<Sieve>>,
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
        let mut policy =
            Policy { gate, settings: Arc::default(), version: 0, bounds: (0, 0), sieve: None, held: None };
        policy.take_settings(registry);
        policy
    }

    /// Whether something has to be done about a record of this time. For nearly all there has not.
    #[inline]
    pub(super) fn has_a_say(&self, time: Timestamp, arrived: Timestamp) -> bool {
        self.version != self.gate.version()
            || self.sieve.is_some()
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
            account.tallies.received += 1;
            account.tallies.dropped[cause as usize] += 1;
            if let Some(numbered) = numbered {
                account.marks.raise(numbered);
            }
            batch.truncate(batch.len() - 1);
            return Verdict::Gone;
        }
        // A wrong time says nothing about the order: one far in the future would let go of all others at once.
        let Some(held) = self.held.as_mut().filter(|_| suspect.is_none()) else { return Verdict::Stays };
        if self.settings.order_window.is_zero() {
            // The window was closed, and what it held leaves with the next flush.
            return Verdict::Stays;
        }
        if !held.push(record, arrival.conn, numbered) {
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
    pub(super) fn puts_in_order(&self) -> bool {
        self.held.is_some()
    }

    /// Whether records are held back.
    pub(super) fn holds_records(&self) -> bool {
        self.held.as_ref().is_some_and(|held| !held.is_empty())
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
        if self.held.is_none() {
            return;
        }
        // The window may have been closed since the last record came.
        self.follow_gate(registry);
        let is_closed = self.settings.order_window.is_zero();
        let until = match &mut self.held {
            Some(held) if !everything && !is_closed => match held.watermark(Instant::now()) {
                None => return,
                until => until,
            },
            _ => None,
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
        if self.version != self.gate.version() {
            self.take_settings(registry);
        }
    }

    fn take_settings(&mut self, registry: &Registry) {
        let (version, settings) = self.gate.settings();
        let seconds = |span: Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
        self.bounds = (seconds(settings.max_behind), seconds(settings.max_ahead));
        self.sieve = Sieve::new(&settings, registry);
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
