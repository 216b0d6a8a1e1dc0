//! Lanes: for each source the batch being filled and its accounting, and the hand-over to the core.
//!
//! A source thread owns one [`Lanes`]. Records go straight into the batch, packed; a batch leaves when
//! it has 64 KiB or when the thread has nothing more to read ([`Lanes::flush`]), so that a lone event
//! does not wait for company. Nothing here waits for the core for longer than the configured patience.
//! What cannot be handed over is counted with the time of the loss, and told before the next delivery
//! of that source.
//!
//! Every record, whichever way it was written, passes [`Lanes::committed`]. There the settings of its source
//! ([`super::gate`]) hold: records are dropped, or held back to be put in order, and times that cannot be are
//! counted. A loss is a barrier: what is held leaves before it.
//!
//! **Cost:** one allocation a batch. A record is one pass over its fields, a hash look-up each. Settings cost one
//! relaxed load a record while there are none, and the check of the time two comparisons.

mod record;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{SendTimeoutError, Sender, TrySendError};
use rustc_hash::FxHashMap;

use super::delivery::{Delivery, Loss, Peer, Reason, Tallies};
use super::event::{Event, Refusal, Severity, SpanId, Text};
use super::gate::{Gate, Settings};
use super::order::Held;
use super::origin::{Labels, Origin};
use super::registry::{FieldCache, FieldRef, MAX_TYPE_NAME, Registry, WellKnown};
use super::sieve::Sieve;
use pcp_event::batch::{Batch, record_time};
use pcp_event::{EventFlags, Param, packed};
use pcp_model::{Inst, Pmid, Timestamp, ValueType};

pub use record::LaneRecord;

/// A batch of this size leaves at once.
pub const BATCH_BYTES: usize = 64 * 1024;
/// First allocation of a batch whose predecessor was small.
const MIN_BATCH: usize = 1024;
/// Most spellings of event types a lane remembers, and the longest; others cost a look at the registry
/// each.
const MAX_TYPE_CACHE: usize = 1024;
const MAX_CACHED_TYPE: usize = 2 * MAX_TYPE_NAME;

/// Tells the core that there is something in its channels.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// The number of a connection, as far as the accounting goes.
pub type ConnId = u32;
/// The connection of records that are held although theirs is gone.
const GONE: ConnId = ConnId::MAX;

/// The field of records whose time is suspect: `future` or `past`.
pub const CLOCK_FIELD: &str = "clock_suspect";

/// A source's lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaneId(u32);

/// An event type's place in its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeSlot(u32);

impl TypeSlot {
    /// No place: nothing is counted. Do not keep it, as a later look-up may find one.
    pub const NONE: TypeSlot = TypeSlot(u32::MAX);
}

/// One source's batch and accounting.
#[derive(Debug)]
pub struct Lane {
    source: Inst,
    /// The batch being filled. Whoever commits a record to it calls [`Lanes::committed`].
    pub batch: Batch,
    /// The accounting since the last delivery, except for event types.
    pub tallies: Tallies,
    missed: Option<Loss>,
    peer: Option<Peer>,
    /// Where the records come from, if the core has not been told yet.
    origin: Option<Box<Origin>>,
    /// That alone is worth a delivery.
    origin_due: bool,
    /// What else is known of the source, if the core has not been told yet.
    labels: Option<Box<Labels>>,
    /// Which connections the batch's records are from, in order.
    shares: Vec<(ConnId, u32)>,
    type_slots: FxHashMap<Box<[u8]>, TypeSlot>,
    /// Instance id and events since the last delivery.
    types: Vec<(Inst, u64)>,
    /// Of which of them the registry knows that there are spans.
    spans: Vec<bool>,
    untyped: Option<TypeSlot>,
    /// Batch size to expect.
    expected: usize,
    dirty: bool,
    /// What the source lets through, and what of it has been taken over.
    gate: Arc<Gate>,
    settings: Arc<Settings>,
    version: u64,
    /// Whole seconds that a time may be behind and ahead.
    bounds: (i64, i64),
    sieve: Option<Box<Sieve>>,
    held: Option<Box<Held>>,
}

/// All lanes of a thread.
pub struct Lanes {
    registry: Arc<Registry>,
    fields: FieldCache,
    lanes: Vec<Lane>,
    by_name: FxHashMap<Box<[u8]>, LaneId>,
    dirty: Vec<LaneId>,
    out: Sender<Delivery>,
    wake: Wake,
    patience: Duration,
    /// Whether the last hand-over worked; only then a full channel is worth waiting for.
    moving: bool,
    /// Keep what does not fit the channel, instead of losing it.
    hold: bool,
    closed: bool,
    lost: FxHashMap<ConnId, u64>,
    folded: Vec<u8>,
    /// Where sources are that do not tell for themselves.
    default_origin: Option<Origin>,
    /// The time of arrival of what is being read.
    pub now: Timestamp,
}

impl Lanes {
    /// Lanes that deliver to `out` and call `wake` after each delivery. `patience`: how long to wait for
    /// room in a full channel before records are lost.
    pub fn new(registry: Arc<Registry>, out: Sender<Delivery>, wake: Wake, patience: Duration) -> Lanes {
        Lanes {
            fields: FieldCache::new(Arc::clone(&registry)),
            registry,
            lanes: Vec::new(),
            by_name: FxHashMap::default(),
            dirty: Vec::new(),
            out,
            wake,
            patience,
            moving: true,
            hold: false,
            closed: false,
            lost: FxHashMap::default(),
            folded: Vec::new(),
            default_origin: None,
            now: Timestamp::default(),
        }
    }

    /// The registry behind these lanes.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Whether the core is gone.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Where the records of all lanes come from that are made from now on, unless [`Lanes::origin`] says otherwise.
    /// It is told along with the first records.
    pub fn default_origin(&mut self, origin: Origin) {
        self.default_origin = Some(origin);
    }

    /// Whether something still waits to be handed over after a [`Lanes::flush`]: for room, or for its turn in the
    /// order of time. Flush again within 20 ms or so.
    pub fn is_pending(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Whether the core's channel is full: what is handed over now may be lost.
    pub fn is_full(&self) -> bool {
        self.out.is_full()
    }

    /// From now on what finds the channel full is kept instead of lost, and goes with the next attempt. The caller
    /// stops reading while [`Lanes::is_stuck`]: batches grow otherwise.
    pub fn hold(&mut self) {
        self.hold = true;
    }

    /// Whether the newest attempt to hand over failed, and what was to go is kept.
    pub fn is_stuck(&self) -> bool {
        self.hold && !self.moving
    }

    /// The lane of a source.
    ///
    /// # Errors
    /// Why there cannot be a source of this name.
    pub fn source(&mut self, name: &[u8]) -> Result<LaneId, super::registry::SourceRefused> {
        if let Some(lane) = self.by_name.get(name) {
            return Ok(*lane);
        }
        let source = self.registry.source(&String::from_utf8_lossy(name))?;
        let lane = LaneId(self.lanes.len() as u32);
        let mut new = Lane::new(source, self.registry.gate(source));
        new.origin = self.default_origin.clone().map(Box::new);
        new.take_settings(&self.registry);
        self.lanes.push(new);
        self.by_name.insert(name.into(), lane);
        Ok(lane)
    }

    /// A lane, to write a record to its batch.
    #[inline]
    pub fn lane(&mut self, lane: LaneId) -> &mut Lane {
        // Lane ids come from `source` alone and lanes are never removed.
        &mut self.lanes[lane.0 as usize]
    }

    /// The metric of a field.
    pub fn field(&mut self, name: &[u8], value_type: ValueType) -> FieldRef {
        self.fields.field(name, value_type)
    }

    /// The place where events of a type are counted.
    #[inline]
    pub fn type_slot(&mut self, lane: LaneId, event_type: Option<&[u8]>) -> TypeSlot {
        let Lanes { lanes, registry, .. } = self;
        lanes[lane.0 as usize].type_slot(registry, event_type)
    }

    /// Counts a record just committed to the lane's batch, has the settings of its source decide about it, and hands
    /// the batch over if it is full.
    #[inline]
    pub fn committed(&mut self, conn: ConnId, id: LaneId, event_type: TypeSlot) {
        let now = self.now;
        let lane = self.lane(id);
        if let Some((_, count)) = lane.types.get_mut(event_type.0 as usize) {
            *count += 1;
        }
        if lane.is_new_span(event_type) {
            self.new_span(id, event_type);
        }
        let lane = self.lane(id);
        if lane.version != lane.gate.version() || lane.is_special(now) {
            self.touch(id);
            if self.special(conn, id) {
                return;
            }
        }
        let lane = self.lane(id);
        lane.left(conn);
        let full = lane.batch.bytes().len() >= BATCH_BYTES;
        self.touch(id);
        if full {
            self.hand_over(id);
        }
    }

    #[cold]
    fn new_span(&mut self, id: LaneId, event_type: TypeSlot) {
        let Lanes { lanes, registry, .. } = self;
        let lane = &mut lanes[id.0 as usize];
        let at = event_type.0 as usize;
        if let (Some((of, _)), Some(known)) = (lane.types.get(at), lane.spans.get_mut(at)) {
            registry.span(*of);
            *known = true;
        }
    }

    /// What is not done to every record just committed. Returns whether it is no longer in the batch.
    #[cold]
    fn special(&mut self, conn: ConnId, id: LaneId) -> bool {
        let Lanes { lanes, registry, fields, folded, now, .. } = self;
        let lane = &mut lanes[id.0 as usize];
        if lane.version != lane.gate.version() {
            lane.take_settings(registry);
        }
        let suspect = lane.count_suspect(*now);
        if let Some(word) = suspect.filter(|_| lane.settings.flag_clock) {
            flag_clock(&mut lane.batch, word, fields, folded, registry.domain());
        }
        let Some(record) = lane.batch.last() else { return true };
        if let Some(cause) = lane.sieve.as_mut().and_then(|sieve| sieve.drops(record, registry)) {
            lane.tallies.received += 1;
            lane.tallies.dropped[cause as usize] += 1;
            lane.batch.truncate(lane.batch.len() - 1);
            return true;
        }
        // A wrong time says nothing about the order.
        let Some(held) = lane.held.as_mut().filter(|_| suspect.is_none()) else { return false };
        if lane.settings.order_window.is_zero() || !held.push(record, conn) {
            lane.tallies.late += u64::from(!lane.settings.order_window.is_zero());
            return false;
        }
        let full = held.is_full();
        lane.batch.truncate(lane.batch.len() - 1);
        while full && self.lane(id).held.as_ref().is_some_and(|held| held.is_full()) {
            self.release_one(id, None);
        }
        true
    }

    /// Moves the earliest held record to the batch, if it is not after `until`. False: there was none.
    fn release_one(&mut self, id: LaneId, until: Option<Timestamp>) -> bool {
        let lane = self.lane(id);
        let Some(conn) = lane.held.as_mut().and_then(|held| held.release(until, &mut lane.batch)) else {
            return false;
        };
        lane.left(conn);
        if lane.batch.bytes().len() >= BATCH_BYTES {
            self.hand_over(id);
        }
        true
    }

    /// Moves what is held to the batch: what is due by now, or everything.
    fn release(&mut self, id: LaneId, everything: bool) {
        let Lanes { lanes, registry, .. } = self;
        let lane = &mut lanes[id.0 as usize];
        if lane.held.is_none() {
            return;
        }
        if lane.version != lane.gate.version() {
            lane.take_settings(registry);
        }
        let everything = everything || lane.settings.order_window.is_zero();
        let until = match &mut lane.held {
            Some(held) if !everything => match held.watermark(Instant::now()) {
                None => return,
                until => until,
            },
            _ => None,
        };
        while self.release_one(id, until) {}
        let lane = self.lane(id);
        if lane.settings.order_window.is_zero() {
            lane.held = None;
        }
    }

    /// Counts bytes of input.
    #[inline]
    pub fn bytes(&mut self, id: LaneId, bytes: usize) {
        self.lane(id).tallies.bytes += bytes as u64;
        self.touch(id);
    }

    /// Counts a refused event.
    pub fn reject(&mut self, id: LaneId, reason: Reason) {
        self.lane(id).tallies.rejected[reason as usize] += 1;
        self.touch(id);
    }

    /// Notes who is sending.
    pub fn peer(&mut self, id: LaneId, peer: Option<Peer>) {
        self.lane(id).peer = peer;
    }

    /// Tells where a source's records come from. Once is enough, until it changes.
    pub fn origin(&mut self, id: LaneId, origin: Origin) {
        let lane = self.lane(id);
        lane.origin = Some(Box::new(origin));
        lane.origin_due = true;
        self.touch(id);
    }

    /// Tells what else is known of a source. Once is enough, until it changes.
    pub fn labels(&mut self, id: LaneId, labels: Labels) {
        self.lane(id).labels = Some(Box::new(labels));
        self.touch(id);
    }

    /// Notes records that the sender lost before it sent what comes next.
    pub fn missed(&mut self, id: LaneId, count: u64, time: Timestamp) {
        self.release(id, true);
        self.hand_over(id);
        self.lane(id).add_loss(Loss { count, received: 0, time });
        self.touch(id);
    }

    /// How many accepted records of a connection could not be handed over so far.
    pub fn lost(&self, conn: ConnId) -> u64 {
        self.lost.get(&conn).copied().unwrap_or(0)
    }

    /// Forgets a connection that is gone, so that its number can be used again. Flush first.
    pub fn forget(&mut self, conn: ConnId) {
        self.lost.remove(&conn);
        for held in self.lanes.iter_mut().filter_map(|lane| lane.held.as_mut()) {
            held.forget(conn, GONE);
        }
        self.lost.remove(&GONE);
    }

    /// Hands over everything that waits, except for records whose turn in the order of time has not come.
    pub fn flush(&mut self) {
        // Those that still cannot go mark themselves dirty again.
        let mut dirty = std::mem::take(&mut self.dirty);
        for id in &dirty {
            self.lane(*id).dirty = false;
        }
        for id in dirty.drain(..) {
            self.release(id, false);
            self.hand_over(id);
            if self.lane(id).held.as_ref().is_some_and(|held| !held.is_empty()) {
                self.touch(id);
            }
        }
        if self.dirty.is_empty() {
            self.dirty = dirty;
        }
    }

    /// Writes an event as a record. `input` is what the event was parsed from.
    ///
    /// # Errors
    /// The record is too large.
    pub fn write(&mut self, conn: ConnId, id: LaneId, input: &[u8], event: &Event) -> Result<(), Refusal> {
        let event_type = event.event_type.map(|text| event.text(input, text));
        let slot = self.type_slot(id, event_type);
        let time = event.time.unwrap_or(self.now);
        let mut record = self.record(id, time, record_flags(event));
        let text = |text: Text| Param::String(event.text(input, text));
        match event.id {
            Some(SpanId::U64(n)) => record.known(WellKnown::SpanIdU64, Param::U64(n)),
            Some(SpanId::Text(t)) => record.known(WellKnown::SpanId, text(t)),
            None => {}
        }
        match event.parent {
            Some(SpanId::U64(n)) => record.known(WellKnown::ParentIdU64, Param::U64(n)),
            Some(SpanId::Text(t)) => record.known(WellKnown::ParentId, text(t)),
            None => {}
        }
        if let Some(event_type) = event_type {
            record.known(WellKnown::Type, Param::String(event_type));
        }
        match event.severity {
            Some(Severity::Word(word)) => record.known(WellKnown::Severity, Param::String(word.as_bytes())),
            Some(Severity::Text(t)) => record.known(WellKnown::Severity, text(t)),
            None => {}
        }
        if let Some(message) = event.message {
            record.known(WellKnown::Message, text(message));
        }
        for field in &event.fields {
            record.field(event.text(input, field.name), event.param(input, field.value));
        }
        record.commit().map_err(|_| {
            Refusal::at(0, Reason::OversizeLine, "more fields than a record can hold (256 KiB packed)")
        })?;
        if event.truncated {
            self.lane(id).tallies.truncated += 1;
        }
        self.committed(conn, id, slot);
        Ok(())
    }

    #[inline]
    fn touch(&mut self, id: LaneId) {
        let lane = &mut self.lanes[id.0 as usize];
        if !lane.dirty {
            lane.dirty = true;
            self.dirty.push(id);
        }
    }

    /// Sends what the lane has. When that fails, its records become missed and the rest stays.
    fn hand_over(&mut self, id: LaneId) {
        let lane = &mut self.lanes[id.0 as usize];
        let Some(delivery) = lane.take() else { return };
        let worth_waiting = self.moving && !delivery.batch.is_empty() && !self.patience.is_zero();
        let mut outcome = match self.out.try_send(delivery) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(delivery)) => Err(SendTimeoutError::Timeout(delivery)),
            Err(TrySendError::Disconnected(delivery)) => Err(SendTimeoutError::Disconnected(delivery)),
        };
        if worth_waiting && let Err(SendTimeoutError::Timeout(delivery)) = outcome {
            (self.wake)();
            outcome = self.out.send_timeout(delivery, self.patience);
        }
        let lane = &mut self.lanes[id.0 as usize];
        match outcome {
            Ok(()) => {
                lane.shares.clear();
                self.moving = true;
                (self.wake)();
            }
            Err(error) => {
                self.moving = false;
                self.closed |= matches!(error, SendTimeoutError::Disconnected(_));
                let (SendTimeoutError::Timeout(delivery) | SendTimeoutError::Disconnected(delivery)) = error;
                if self.hold && !self.closed {
                    lane.take_back(delivery);
                } else {
                    for (conn, count) in lane.shares.drain(..) {
                        *self.lost.entry(conn).or_insert(0) += u64::from(count);
                    }
                    lane.restore(delivery, self.now);
                }
                self.touch(id);
            }
        }
    }
}

/// What is held has nobody to come back for it.
impl Drop for Lanes {
    fn drop(&mut self) {
        for index in 0..self.lanes.len() {
            let id = LaneId(index as u32);
            if self.lane(id).held.is_some() {
                self.release(id, true);
                self.hand_over(id);
            }
        }
    }
}

impl Lane {
    fn new(source: Inst, gate: Arc<Gate>) -> Lane {
        Lane {
            source,
            batch: Batch::default(),
            tallies: Tallies::default(),
            missed: None,
            peer: None,
            origin: None,
            origin_due: false,
            labels: None,
            shares: Vec::new(),
            type_slots: FxHashMap::default(),
            types: Vec::new(),
            spans: Vec::new(),
            untyped: None,
            expected: MIN_BATCH,
            dirty: false,
            gate,
            settings: Arc::default(),
            version: 0,
            bounds: (0, 0),
            sieve: None,
            held: None,
        }
    }

    /// Takes over what the gate says.
    fn take_settings(&mut self, registry: &Registry) {
        let (version, settings) = self.gate.settings();
        let seconds = |span: Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
        self.bounds = (seconds(settings.max_behind), seconds(settings.max_ahead));
        self.sieve = Sieve::new(&settings, registry);
        let window = settings.order_window;
        match &mut self.held {
            Some(held) => held.set_window(window),
            None if window.is_zero() => {}
            None => self.held = Some(Box::new(Held::new(window))),
        }
        self.version = version;
        self.settings = settings;
    }

    /// Whether the record just committed begins or ends a span, for the first time for one of its type. An END without
    /// a type has the name of its START.
    #[inline]
    fn is_new_span(&self, event_type: TypeSlot) -> bool {
        let flags = self.batch.last().map_or(EventFlags(0), packed::flags);
        let is_span = flags.contains(EventFlags::START)
            || flags.contains(EventFlags::END) && self.untyped != Some(event_type);
        is_span && self.spans.get(event_type.0 as usize) == Some(&false)
    }

    /// Whether something has to be done about the record just committed.
    #[inline]
    fn is_special(&self, now: Timestamp) -> bool {
        self.sieve.is_some() || self.held.is_some() || self.is_suspect(now)
    }

    #[inline]
    fn is_suspect(&self, now: Timestamp) -> bool {
        let time = self.batch.last().map_or(now, record_time);
        let ahead = time.sec.saturating_sub(now.sec);
        let (behind_bound, ahead_bound) = self.bounds;
        // Without a clock there is nothing to compare with.
        (ahead > ahead_bound || ahead < -behind_bound) && now != Timestamp::default()
    }

    /// Counts the record just committed if its time cannot be, and gives the word for it.
    fn count_suspect(&mut self, now: Timestamp) -> Option<&'static str> {
        if !self.is_suspect(now) {
            return None;
        }
        let ahead = self.batch.last().map(record_time).is_some_and(|time| time > now);
        *if ahead { &mut self.tallies.future } else { &mut self.tallies.past } += 1;
        Some(if ahead { "future" } else { "past" })
    }

    /// Counts a record of the batch that will not be looked at again.
    #[inline]
    fn left(&mut self, conn: ConnId) {
        self.tallies.received += 1;
        match self.shares.last_mut() {
            Some((last, count)) if *last == conn => *count += 1,
            _ => self.shares.push((conn, 1)),
        }
    }

    #[inline]
    fn type_slot(&mut self, registry: &Registry, event_type: Option<&[u8]>) -> TypeSlot {
        let known = match event_type {
            Some(name) => self.type_slots.get(name),
            None => self.untyped.as_ref(),
        };
        match known {
            Some(slot) => *slot,
            None => self.new_type_slot(registry, event_type),
        }
    }

    #[cold]
    fn new_type_slot(&mut self, registry: &Registry, event_type: Option<&[u8]>) -> TypeSlot {
        let Some(id) = registry.event_type(self.source, event_type) else {
            // The disk is full, say. Not remembered, so that a later event tries again.
            return TypeSlot::NONE;
        };
        let index = self.types.iter().position(|(known, _)| *known == id).unwrap_or_else(|| {
            self.types.push((id, 0));
            self.spans.push(false);
            self.types.len() - 1
        });
        let slot = TypeSlot(index as u32);
        match event_type {
            None => self.untyped = Some(slot),
            Some(name) if self.type_slots.len() < MAX_TYPE_CACHE && name.len() <= MAX_CACHED_TYPE => {
                self.type_slots.insert(name.into(), slot);
            }
            Some(_) => {}
        }
        slot
    }

    fn add_loss(&mut self, loss: Loss) {
        match &mut self.missed {
            Some(missed) => {
                missed.count = missed.count.saturating_add(loss.count);
                missed.received += loss.received;
                missed.time = loss.time;
            }
            None => self.missed = Some(loss),
        }
    }

    /// Everything there is to tell, if there is anything.
    fn take(&mut self) -> Option<Delivery> {
        let accounting = self.missed.is_some() || self.tallies != Tallies::default();
        if self.batch.is_empty() && !accounting && !self.origin_due && self.labels.is_none() {
            return None;
        }
        let size = self.batch.bytes().len();
        // Follows a growing stream at once and a drying one slowly.
        self.expected = size.max(self.expected / 2).max(MIN_BATCH);
        let capacity = (self.expected + self.expected / 8).min(BATCH_BYTES + BATCH_BYTES / 8);
        let empty = if size == 0 { Batch::default() } else { Batch::with_capacity(capacity) };
        let mut tallies = std::mem::take(&mut self.tallies);
        for (id, count) in self.types.iter_mut().filter(|(_, count)| *count > 0) {
            tallies.types.push((*id, std::mem::take(count)));
        }
        let batch = std::mem::replace(&mut self.batch, empty);
        let missed = self.missed.take();
        let (origin, labels) = (self.origin.take(), self.labels.take());
        self.origin_due = false;
        Some(Delivery { source: self.source, missed, batch, tallies, peer: self.peer, origin, labels })
    }

    /// Takes back what could not be handed over, its records included: nothing is lost.
    fn take_back(&mut self, mut delivery: Delivery) {
        let batch = std::mem::take(&mut delivery.batch);
        self.restore(delivery, Timestamp::default());
        self.batch = batch;
    }

    /// Takes back what could not be handed over. Its records become missed.
    fn restore(&mut self, delivery: Delivery, now: Timestamp) {
        let Delivery { missed, batch, mut tallies, origin, labels, .. } = delivery;
        for (id, count) in tallies.types.drain(..) {
            if let Some((_, kept)) = self.types.iter_mut().find(|(known, _)| *known == id) {
                *kept += count;
            }
        }
        self.tallies = tallies;
        self.missed = missed;
        self.origin_due = origin.is_some();
        self.origin = origin;
        self.labels = labels;
        let lost = batch.len() as u64;
        if lost > 0 {
            self.add_loss(Loss { count: lost, received: lost, time: batch.last_time().unwrap_or(now) });
        }
        self.batch = batch;
        self.batch.clear();
    }
}

/// Has the newest record say that its time is suspect.
fn flag_clock(batch: &mut Batch, word: &str, fields: &mut FieldCache, folded: &mut Vec<u8>, domain: u16) {
    let value = Param::String(word.as_bytes());
    // There is always room but in a record of the largest size, which goes without.
    let _ = match fields.field(CLOCK_FIELD.as_bytes(), ValueType::String) {
        FieldRef::Own(pmid) => batch.amend_last(pmid, value),
        FieldRef::Folded => {
            fold(folded, CLOCK_FIELD.as_bytes(), &value);
            batch.amend_last(WellKnown::Other.pmid(domain), Param::String(folded))
        }
    };
}

/// The flags of an event's record: PARENT only next to ID, as it speaks of the second parameter.
fn record_flags(event: &Event) -> EventFlags {
    let mut flags = if event.phase == EventFlags(0) { EventFlags::POINT } else { event.phase };
    if event.id.is_some() {
        flags |= EventFlags::ID;
        if event.parent.is_some() {
            flags |= EventFlags::PARENT;
        }
    }
    flags
}

/// `name=value`, for fields without a metric of their own.
pub fn fold(out: &mut Vec<u8>, name: &[u8], value: &Param<'_>) {
    use std::io::Write;
    out.clear();
    out.extend_from_slice(name);
    out.push(b'=');
    // Writing to a vector cannot fail.
    let _ = match value {
        Param::I32(n) => write!(out, "{n}"),
        Param::U32(n) => write!(out, "{n}"),
        Param::I64(n) => write!(out, "{n}"),
        Param::U64(n) => write!(out, "{n}"),
        Param::Float(n) => write!(out, "{n}"),
        Param::Double(n) => write!(out, "{n}"),
        Param::String(bytes) => out.write_all(bytes),
        Param::Aggregate(bytes) => bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}")),
    };
}

/// A field that was looked up once, for framings that intern names.
#[derive(Clone, Debug, PartialEq)]
pub struct InternedField {
    /// Its type.
    pub value_type: ValueType,
    /// Its metric; [`WellKnown::Other`] if it has none of its own.
    pub pmid: Pmid,
    /// Its name, if its values are folded.
    pub folded: Option<Box<[u8]>>,
}

impl Lanes {
    /// Looks a field up for a connection that interned its name.
    pub fn intern(&mut self, name: &[u8], value_type: ValueType) -> InternedField {
        match self.fields.field(name, value_type) {
            FieldRef::Own(pmid) => InternedField { value_type, pmid, folded: None },
            FieldRef::Folded => {
                let pmid = WellKnown::Other.pmid(self.registry.domain());
                InternedField { value_type, pmid, folded: Some(name.into()) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::{IngestFilter, SampleBy};
    use crate::registry::RegistryConfig;
    use crossbeam_channel::{Receiver, bounded};
    use std::sync::atomic::{AtomicU32, Ordering};

    fn lanes(room: usize) -> (Lanes, Receiver<Delivery>, Arc<AtomicU32>) {
        let (registry, _) = Registry::open(&RegistryConfig::new(400)).expect("in memory");
        let (out, deliveries) = bounded(room);
        let woken = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&woken);
        let wake: Wake = Arc::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        (Lanes::new(registry, out, wake, Duration::ZERO), deliveries, woken)
    }

    fn write(lanes: &mut Lanes, lane: LaneId, conn: ConnId, sec: i64) {
        let event = Event { time: Some(Timestamp::new(sec, 0)), ..Event::default() };
        lanes.write(conn, lane, b"", &event).expect("fits");
    }

    #[test]
    fn what_cannot_be_handed_over_is_missed_before_the_next_delivery() {
        let (mut lanes, deliveries, woken) = lanes(1);
        let lane = lanes.source(b"app").expect("source");
        write(&mut lanes, lane, 1, 10);
        lanes.flush();
        assert_eq!(woken.load(Ordering::Relaxed), 1);
        write(&mut lanes, lane, 1, 11);
        write(&mut lanes, lane, 2, 12);
        lanes.reject(lane, Reason::Time);
        lanes.flush();
        assert!(lanes.is_pending());
        write(&mut lanes, lane, 2, 13);
        lanes.flush();
        assert_eq!((lanes.lost(1), lanes.lost(2)), (1, 2));

        let first = deliveries.try_recv().expect("the first");
        assert_eq!((first.batch.len(), first.missed, first.tallies.received), (1, None, 1));
        write(&mut lanes, lane, 2, 14);
        lanes.flush();
        let second = deliveries.try_recv().expect("the second");
        assert_eq!(second.missed, Some(Loss { count: 3, received: 3, time: Timestamp::new(13, 0) }));
        assert_eq!((second.batch.len(), second.tallies.received), (1, 4));
        assert_eq!(second.tallies.types.iter().map(|(_, n)| n).sum::<u64>(), 4);
        assert_eq!(second.tallies.rejected[Reason::Time as usize], 1);
        lanes.flush();
        assert!(!lanes.is_pending() && deliveries.is_empty());
        drop(deliveries);
        write(&mut lanes, lane, 2, 15);
        lanes.flush();
        assert!(lanes.is_closed());
    }

    #[test]
    fn what_is_held_waits_and_goes_whole() {
        let (mut lanes, deliveries, _) = lanes(1);
        lanes.hold();
        let lane = lanes.source(b"app").expect("source");
        for sec in 10..13 {
            write(&mut lanes, lane, 1, sec);
            lanes.flush();
        }
        assert!(lanes.is_stuck() && lanes.is_pending());
        assert_eq!(deliveries.try_recv().expect("the first").batch.len(), 1);
        lanes.flush();
        let second = deliveries.try_recv().expect("the second");
        assert_eq!((second.batch.len(), second.missed, second.tallies.received), (2, None, 2));
        assert_eq!(second.tallies.types.iter().map(|(_, n)| n).sum::<u64>(), 2);
        assert!(!lanes.is_stuck() && !lanes.is_pending() && lanes.lost(1) == 0);
    }

    #[test]
    fn a_full_batch_leaves_at_once_and_a_senders_loss_keeps_its_place() {
        let (mut lanes, deliveries, _) = lanes(1000);
        let lane = lanes.source(b"app").expect("source");
        for sec in 0..4000 {
            write(&mut lanes, lane, 1, sec);
        }
        assert!(!deliveries.is_empty());
        lanes.missed(lane, 7, Timestamp::new(5000, 1));
        write(&mut lanes, lane, 1, 5001);
        lanes.flush();
        let all: Vec<Delivery> = deliveries.try_iter().collect();
        assert_eq!(all.iter().map(|d| d.batch.len()).sum::<usize>(), 4001);
        let last = all.last().expect("several");
        assert_eq!(last.missed, Some(Loss { count: 7, received: 0, time: Timestamp::new(5000, 1) }));
        assert_eq!((last.batch.len(), last.tallies.received), (1, 1));
        assert_eq!(lanes.source(b"app"), Ok(lane));
    }

    #[test]
    fn what_a_gate_keeps_back_is_dropped_and_counted_by_cause() {
        let (mut lanes, deliveries, _) = lanes(1000);
        let lane = lanes.source(b"app").expect("source");
        let gate = lanes.registry().gate(0);
        let mut counts = Vec::new();
        for settings in [
            Settings::default(),
            Settings { enabled: false, ..Settings::default() },
            Settings {
                filter: IngestFilter::parse("exists(nothing)").expect("a filter"),
                ..Settings::default()
            },
            Settings { sample: 4, ..Settings::default() },
            Settings::default(),
        ] {
            gate.set(settings);
            (0..10).for_each(|sec| write(&mut lanes, lane, 1, sec));
            lanes.flush();
            let all: Vec<Delivery> = deliveries.try_iter().collect();
            let [delivery] = &all[..] else { panic!("{all:?}") };
            assert_eq!(delivery.tallies.received, 10);
            assert_eq!(delivery.tallies.types.iter().map(|(_, n)| n).sum::<u64>(), 10);
            counts.push((delivery.batch.len(), delivery.tallies.dropped));
        }
        let [all, none] = [(10, [0, 0, 0]), (0, [10, 0, 0])];
        assert_eq!(counts, [all, none, (0, [0, 10, 0]), (3, [0, 0, 7]), all]);
    }

    #[test]
    fn a_trace_is_kept_or_dropped_as_a_whole() {
        let (mut lanes, deliveries, _) = lanes(1000);
        let gate = {
            lanes.source(b"app").expect("source");
            lanes.registry().gate(0)
        };
        gate.set(Settings { sample: 3, sample_by: SampleBy::Trace, ..Settings::default() });
        let lane = lanes.source(b"app").expect("source");
        for id in (0..300).chain(0..300) {
            let event = Event { id: Some(SpanId::U64(id)), phase: EventFlags::START, ..Event::default() };
            lanes.write(1, lane, b"", &event).expect("fits");
        }
        lanes.flush();
        let mut times = std::collections::HashMap::new();
        for delivery in deliveries.try_iter() {
            for at in 0..delivery.batch.len() {
                let record = delivery.batch.get(at).expect("it is there");
                let id = packed::params(record).next().expect("an id").bytes.to_vec();
                *times.entry(id).or_insert(0) += 1;
            }
        }
        assert!(times.values().all(|times| *times == 2), "{times:?}");
        assert!((60..140).contains(&times.len()), "{} of 300", times.len());
    }

    #[test]
    fn what_is_held_leaves_in_order_and_before_a_loss_and_at_the_end() {
        let (mut lanes, deliveries, _) = lanes(1000);
        let lane = lanes.source(b"app").expect("source");
        let window = Duration::from_secs(20);
        lanes.registry().gate(0).set(Settings { order_window: window, ..Settings::default() });
        let times = |delivery: &Delivery| -> Vec<i64> {
            let batch = &delivery.batch;
            (0..batch.len()).filter_map(|at| batch.get(at)).map(|record| record_time(record).sec).collect()
        };
        for sec in [103, 101, 102] {
            write(&mut lanes, lane, 1, sec);
        }
        lanes.flush();
        assert!(lanes.is_pending() && deliveries.is_empty(), "they wait");
        lanes.missed(lane, 5, Timestamp::new(104, 0));
        let first = deliveries.try_recv().expect("the loss ends their wait");
        assert_eq!((times(&first), first.missed, first.tallies.received), (vec![101, 102, 103], None, 3));
        write(&mut lanes, lane, 1, 102);
        write(&mut lanes, lane, 1, 107);
        write(&mut lanes, lane, 1, 106);
        lanes.flush();
        let second = deliveries.try_recv().expect("the loss");
        assert_eq!((times(&second), second.missed.map(|loss| loss.count)), (vec![102], Some(5)));
        assert_eq!((second.tallies.late, second.tallies.received), (1, 1));
        write(&mut lanes, lane, 1, 150);
        lanes.flush();
        assert_eq!(times(&deliveries.try_recv().expect("a later one lets go of them")), [106, 107]);
        drop(lanes);
        assert_eq!(times(&deliveries.try_recv().expect("the end lets go of all")), [150]);
    }

    #[test]
    fn times_that_cannot_be_are_counted_and_flagged_if_asked() {
        let (mut lanes, deliveries, _) = lanes(1000);
        let lane = lanes.source(b"app").expect("source");
        lanes.now = Timestamp::new(1_000_000, 0);
        let times =
            [1_000_000 - 86_401, 1_000_000 - 86_000, 1_000_000, 1_000_050, 1_000_061, i64::MAX, i64::MIN];
        for flag_clock in [false, true] {
            lanes.registry().gate(0).set(Settings { flag_clock, ..Settings::default() });
            times.into_iter().for_each(|sec| write(&mut lanes, lane, 1, sec));
            lanes.flush();
            let delivery = deliveries.try_recv().expect("records");
            assert_eq!((delivery.tallies.future, delivery.tallies.past), (2, 2));
            let words: Vec<String> = (0..delivery.batch.len())
                .filter_map(|at| packed::params(delivery.batch.get(at)?).last()?.text())
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect();
            let expected: &[&str] = if flag_clock { &["past", "future", "future", "past"] } else { &[] };
            assert_eq!(words, expected);
        }
    }

    #[test]
    fn more_than_may_be_held_leaves_before_its_time() {
        let (mut lanes, deliveries, _) = lanes(100_000);
        let lane = lanes.source(b"app").expect("source");
        lanes
            .registry()
            .gate(0)
            .set(Settings { order_window: Duration::from_secs(60), ..Settings::default() });
        for n in 0..100_000 {
            // All within the window.
            let event = Event { time: Some(Timestamp::new(0, n ^ 1)), ..Event::default() };
            lanes.write(1, lane, b"", &event).expect("fits");
        }
        let left: usize = deliveries.try_iter().map(|delivery| delivery.batch.bytes().len()).sum();
        assert!(left > 1_000_000, "{left} of 2.4 MB");
        drop(lanes);
        let rest: usize = deliveries.try_iter().map(|delivery| delivery.batch.bytes().len()).sum();
        assert_eq!(left + rest, 2_400_000);
    }
}
