//! A lane's account: what happened since its last delivery, and the deliveries made of it.

use std::sync::Arc;

use jumpseat_log::SourceLog;

use super::marks::{Marks, Numbered, StreamId};
use super::types::EventTypes;
use crate::delivery::{Cause, ConnId, Delivery, Loss, Peer, Tallies};
use crate::origin::{Labels, Origin};
use crate::spares::Spares;
use pcp_event::batch::Batch;
use pcp_model::Inst;

/// A batch of this size leaves at once. The system's part of writing it to the log, and of waking the core, is a third less for a
/// byte than with a quarter of it.
pub const BATCH_BYTES: usize = 256 * 1024;
/// First allocation of a batch whose predecessor was small.
const MIN_BATCH: usize = 1024;

/// A source's lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaneId(pub(super) u32);

/// One lane's account. What each record changes comes first, and is together.
#[derive(Debug)]
#[repr(C)]
pub(super) struct LaneAccount {
    lane: LaneId,
    source: Inst,
    /// Whether the lane is in the outbox's list of those that have something to hand over.
    pub is_marked: bool,
    /// Whether the origin alone is worth a delivery.
    is_origin_due: bool,
    /// The connection that the batch's last records are from, and how many.
    share: (ConnId, u32),
    pub types: EventTypes,
    /// Since the last delivery, except for event types.
    pub tallies: Tallies,
    /// The source's log on disk, if there is one.
    log: Option<Arc<SourceLog>>,
    /// How far numbered streams are.
    pub marks: Marks,
    pub peer: Option<Peer>,
    missed: Option<Loss>,
    /// Where the records come from, if the core has not been told yet.
    origin: Option<Box<Origin>>,
    /// What else is known of the source, if the core has not been told yet.
    labels: Option<Box<Labels>>,
    /// Which connections the records before those are from, in order.
    shares: Vec<(ConnId, u32)>,
    /// Batch size to expect, in bytes.
    expected: usize,
}

impl LaneAccount {
    /// Bytes in the front that each record touches.
    pub(super) const TOUCHED: usize =
        std::mem::offset_of!(LaneAccount, tallies) + std::mem::offset_of!(Tallies, dropped);

    pub(super) fn new(
        lane: LaneId,
        source: Inst,
        origin: Option<Origin>,
        log: Option<Arc<SourceLog>>,
    ) -> LaneAccount {
        LaneAccount {
            lane,
            source,
            tallies: Tallies::default(),
            types: EventTypes::default(),
            marks: Marks::default(),
            log,
            peer: None,
            is_marked: false,
            missed: None,
            origin: origin.map(Box::new),
            is_origin_due: false,
            labels: None,
            share: (0, 0),
            shares: Vec::new(),
            expected: MIN_BATCH,
        }
    }

    /// Turns to the log of another instance, as the source has lost its place and got one again. Nothing may be left to tell.
    pub(super) fn turn_to(&mut self, source: Inst, origin: Option<Origin>, log: Option<Arc<SourceLog>>) {
        let types = std::mem::take(&mut self.types).of_another_source();
        let (peer, is_marked) = (self.peer, self.is_marked);
        *self = LaneAccount { types, peer, is_marked, ..LaneAccount::new(self.lane, source, origin, log) };
    }

    pub(super) fn lane(&self) -> LaneId {
        self.lane
    }

    pub(super) fn source(&self) -> Inst {
        self.source
    }

    pub(super) fn log(&self) -> Option<&Arc<SourceLog>> {
        self.log.as_ref()
    }

    /// Whether the record of a number has come.
    #[inline]
    pub(super) fn covers(&mut self, number: Numbered, name: &Arc<[u8]>) -> bool {
        self.marks.covers(number, name, self.log.as_deref())
    }

    /// Up to where a stream has come; 0 if nothing has.
    pub(super) fn reached(&mut self, stream: StreamId, name: &Arc<[u8]>) -> u64 {
        self.marks.reached(stream, name, self.log.as_deref())
    }

    pub(super) fn set_origin(&mut self, origin: Origin) {
        self.origin = Some(Box::new(origin));
        self.is_origin_due = true;
    }

    pub(super) fn set_labels(&mut self, labels: Labels) {
        self.labels = Some(Box::new(labels));
    }

    /// Counts a record that is in the batch to stay. Held records count only when they get there: what a delivery
    /// says was received is what the core finds in it.
    #[inline]
    pub(super) fn receive(&mut self, conn: ConnId) {
        self.tallies.received += 1;
        let (last, count) = &mut self.share;
        if *last == conn {
            *count += 1;
        } else {
            self.begin_share(conn);
        }
    }

    /// Connections take turns of many records, so there are few of these.
    #[cold]
    fn begin_share(&mut self, conn: ConnId) {
        self.shares.extend(Some(self.share).filter(|(_, count)| *count > 0));
        self.share = (conn, 1);
    }

    /// Counts a record that was dropped.
    pub(super) fn drop(&mut self, cause: Cause) {
        self.tallies.received += 1;
        self.tallies.dropped[cause as usize] += 1;
    }

    pub(super) fn add_loss(&mut self, loss: Loss) {
        match &mut self.missed {
            Some(missed) => {
                missed.count = missed.count.saturating_add(loss.count);
                missed.received += loss.received;
                // The newest, as a missed record stands at the end of what is lost.
                missed.time = loss.time;
            }
            None => self.missed = Some(loss),
        }
    }

    /// Bytes that the next batch will have room for, if things go on like this.
    pub(super) fn expected(&self) -> usize {
        // The last record may not end where a batch is full.
        (self.expected + self.expected / 8).min(BATCH_BYTES + BATCH_BYTES / 8)
    }

    /// Everything there is to tell, if there is anything. The shares stay until it is known whether it arrived.
    pub(super) fn delivery(&mut self, batch: &mut Batch, home: Spares) -> Option<Delivery> {
        let is_counted = self.missed.is_some() || self.tallies != Tallies::default();
        if batch.is_empty() && !is_counted && !self.is_origin_due && self.labels.is_none() {
            return None;
        }
        let size = batch.bytes().len();
        // Follows a growing stream at once and a drying one slowly: a batch that grows in steps copies its records
        // at each.
        self.expected = size.max(self.expected / 2).max(MIN_BATCH);
        let mut tallies = std::mem::take(&mut self.tallies);
        self.types.drain_into(&mut tallies.types);
        self.is_origin_due = false;
        Some(Delivery {
            source: self.source,
            missed: self.missed.take(),
            batch: std::mem::take(batch),
            tallies,
            logged: None,
            marks: self.marks.moved(),
            numbered: std::mem::take(&mut self.marks.numbered),
            peer: self.peer,
            origin: self.origin.take(),
            labels: self.labels.take(),
            home: Some(home),
        })
    }

    /// A delivery has arrived: what its records' connections lose from now on is none of them.
    pub(super) fn delivered(&mut self) {
        self.marks.settle();
        self.share.1 = 0;
        self.shares.clear();
    }

    /// Takes back what could not be handed over, its records included: nothing is lost.
    pub(super) fn take_back(&mut self, delivery: Delivery, batch: &mut Batch) {
        *batch = self.restore(delivery);
    }

    /// Takes back what could not be handed over. Its records become missed; `lose` is told whose they were.
    pub(super) fn lose(&mut self, delivery: Delivery, batch: &mut Batch, mut lose: impl FnMut(ConnId, u32)) {
        let mut lost = self.restore(delivery);
        if let Some(time) = lost.last_time() {
            let count = lost.len() as u64;
            self.add_loss(Loss { count, received: count, time });
        }
        // So a sender that asks how many were lost is told of its own.
        let last = std::mem::take(&mut self.share);
        for (conn, count) in self.shares.drain(..).chain([last].into_iter().filter(|(_, count)| *count > 0)) {
            lose(conn, count);
        }
        self.marks.numbered = 0;
        lost.clear();
        *batch = lost;
    }

    /// Puts everything of a delivery back where it was but its records, which it gives.
    fn restore(&mut self, delivery: Delivery) -> Batch {
        let Delivery { missed, batch, mut tallies, origin, labels, numbered, .. } = delivery;
        self.marks.numbered = numbered;
        self.types.take_back(&mut tallies.types);
        self.tallies = tallies;
        self.missed = missed;
        self.is_origin_due = origin.is_some();
        self.origin = origin;
        self.labels = labels;
        batch
    }
}
