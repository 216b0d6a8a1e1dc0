//! Lanes: for each source the batch being filled and its account, and the hand-over to the core.
//!
//! A source thread owns one [`Lanes`]. Every format writes its records the same way: [`Lanes::begin`], the
//! parameters, [`Record::commit`]. They go straight into the batch, packed; a batch leaves when it has 256 KiB or when
//! the thread has nothing more to read ([`Lanes::flush`]), so that a lone event does not wait for company. Nothing
//! here waits for the core for longer than the configured patience. What cannot be handed over is counted with the
//! time of the loss, and told before the next delivery of that source.
//!
//! * `record`: a record from its beginning to its commit; `fields`: the look-ups that its fields take; `event`: a
//!   parsed event as a record.
//! * `account`: what is counted for a lane, and what goes into a delivery; `types`: events by their type.
//! * `policy`: the settings of the source ([`super::gate`]), kept by `sieve` (drop or pass), `queue` (hold until its trace is decided)
//!   and `order` (hold until it is its turn), and the check of times.
//! * `by_name`: lanes by the names of their sources. `marks`: numbered streams, of which nothing comes twice.
//! * `outbox`: the core's channel: hand over, hold, or lose and count.
//!
//! **Sources come and go.** A lane is one of a name. What it is to the core is asked for again whenever the registry's epoch has
//! moved on: so the registry knows which sources are in use, and a lane whose source has given its place to a newcomer turns
//! to the instance that its name gets next.
//!
//! A loss is a barrier: what is held to be put in order leaves before it; behind what waits in a queue it waits for its turn.
//!
//! With a log on disk a batch is in a file before it is handed over, so that what a [`Lanes::flush`] has handed over survives
//! the death of the process, and of the machine if the log is one that is synced with each batch.
//!
//! **Cost:** one allocation a batch, none where the memory of others comes back from the core (`spares`). A record is one pass over its fields, a hash look-up each. Settings cost one
//! relaxed load a record while there are none, and the check of the time two comparisons.

mod account;
mod by_name;
mod event;
mod fields;
mod marks;
mod order;
mod outbox;
mod policy;
mod queue;
mod record;
mod sieve;
#[cfg(test)]
mod tests;
mod types;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_channel::Sender;

use super::delivery::{ConnId, Delivery, Loss, Peer, Reason};
use super::guard::tokens::Pass;
use super::origin::{Labels, Origin};
use super::outlet::Starting;
use super::registry::{Registry, SourceRefused, Taker, WellKnown};
use account::LaneAccount;
use by_name::ByName;
use fields::FieldNames;
use marks::Streams;
use outbox::Outbox;
use pcp_event::batch::Batch;
use pcp_model::{Inst, Pmid, Timestamp, ValueType};
use pcp_net::{Identity, Who};
use policy::Policy;

pub use super::delivery::Arrival;
pub use account::{BATCH_BYTES, LaneId};
pub use fields::InternedField;
pub use marks::{MAX_OF_ONE, MAX_STREAMS, Numbered, StreamId, TooManyStreams};
pub use outbox::Wake;
pub use policy::CLOCK_FIELD;
pub use record::{At, Record};
pub use types::TypeSlot;

/// The connection of records that are held although theirs is gone.
const GONE: ConnId = ConnId::MAX;

/// All lanes of a thread.
pub struct Lanes {
    lanes: Vec<Lane>,
    by_name: ByName,
    names: FieldNames,
    /// Who sends; nobody needs to know it of what is trusted.
    sender: Identity,
    /// In the name of which sources they may send, if that is told.
    pass: Option<Arc<Pass>>,
    outbox: Outbox,
    /// Where sources are that do not tell for themselves.
    default_origin: Option<Origin>,
    streams: Streams,
    /// The number of the next record, if it has one.
    numbered: Option<Numbered>,
}

/// One source's batch, its account, and what is done to its records. Apart, so that a record can be written into the
/// batch while the other two are at hand. Where many sources take turns, what a record takes of its lane is far from the processor: it is
/// together, in five lines of memory.
#[repr(C, align(128))]
struct Lane {
    policy: Policy,
    batch: Batch,
    /// When the registry was asked for its source.
    epoch: u32,
    /// Whether not everybody may send in its name.
    is_reserved: bool,
    account: LaneAccount,
    /// Who may send in its name, if that is not everybody.
    senders: Option<Who>,
    /// Its source's.
    name: Box<[u8]>,
}

// Up to what is counted of each record.
const _: () = assert!(std::mem::offset_of!(Lane, account) + LaneAccount::TOUCHED <= 5 * 64);

impl Lanes {
    /// Lanes that deliver to `out` and call `wake` after each delivery. `patience`: how long to wait for
    /// room in a full channel before records are lost.
    pub fn new(registry: Arc<Registry>, out: Sender<Delivery>, wake: Wake, patience: Duration) -> Lanes {
        Lanes {
            lanes: Vec::new(),
            by_name: ByName::default(),
            names: FieldNames::new(registry),
            sender: Identity::default(),
            pass: None,
            outbox: Outbox::new(out, wake, patience),
            default_origin: None,
            streams: Streams::default(),
            numbered: None,
        }
    }

    /// The registry behind these lanes.
    pub fn registry(&self) -> &Arc<Registry> {
        self.names.registry()
    }

    /// Says who sends what comes from now on: new names count as taken by them, and sources may be for others.
    pub fn set_sender(&mut self, taker: Taker, sender: Identity) {
        (self.names.taker, self.sender, self.pass) = (taker, sender, None);
    }

    /// Says in the name of which sources those may send of whom [`Lanes::set_sender`] has told.
    pub(crate) fn set_pass(&mut self, pass: Option<Arc<Pass>>) {
        self.pass = pass;
    }

    /// In the name of which sources those may send who send now, if not in that of any.
    pub(crate) fn pass(&self) -> Option<Arc<Pass>> {
        self.pass.clone()
    }

    /// Whether there is one.
    pub(crate) fn has_pass(&self) -> bool {
        self.pass.is_some()
    }

    /// [`Lanes::set_sender`] for those of whom no more is known.
    pub fn set_taker(&mut self, taker: Taker) {
        self.set_sender(taker, Identity::default());
    }

    /// Whether the core is gone.
    pub fn is_closed(&self) -> bool {
        self.outbox.is_closed()
    }

    /// Where the records of all lanes come from that are made from now on, unless [`Lanes::origin`] says otherwise.
    /// It is told along with the first records.
    pub fn default_origin(&mut self, origin: Origin) {
        self.default_origin = Some(origin);
    }

    /// Whether something still waits to be handed over after a [`Lanes::flush`]: for room, or for its turn in the
    /// order of time. Flush again within 20 ms or so.
    pub fn is_pending(&self) -> bool {
        !self.outbox.pending().is_empty()
    }

    /// How many batches the next [`Lanes::flush`] writes to disk.
    pub(crate) fn writes(&self) -> usize {
        let is_on_disk = |id: &&LaneId| self.lanes[id.0 as usize].account.log().is_some();
        self.outbox.pending().iter().filter(is_on_disk).count()
    }

    /// Whether the core's channel is full: what is handed over now may be lost.
    pub fn is_full(&self) -> bool {
        self.outbox.is_full()
    }

    /// A channel that is full is waited for as long as this holds.
    pub(crate) fn wait_while(&mut self, starting: Starting) {
        self.outbox.wait_while(starting);
    }

    /// From now on what finds the channel full is kept instead of lost, and goes with the next attempt. The caller
    /// stops reading while [`Lanes::is_stuck`]: batches grow otherwise.
    pub fn hold(&mut self) {
        self.outbox.hold();
    }

    /// Whether the newest attempt to hand over failed, and what was to go is kept.
    pub fn is_stuck(&self) -> bool {
        self.outbox.is_stuck()
    }

    /// The lane of a source.
    ///
    /// # Errors
    /// Why there cannot be a source of this name.
    pub fn source(&mut self, name: &[u8]) -> Result<LaneId, SourceRefused> {
        if let Some(pass) = self.pass.as_ref().filter(|pass| !pass.covers(name)) {
            pass.counts.forbidden.fetch_add(1, Ordering::Relaxed);
            self.names.registry().forbid(&String::from_utf8_lossy(name), self.names.taker);
            return Err(SourceRefused::NotOfToken);
        }
        if let Some(lane) = self.by_name.get(name) {
            if self.is_stale(lane) {
                self.ask_again(lane, Registry::source_for)?;
            }
            return if self.lane(lane).is_reserved { self.reserved(lane, name) } else { Ok(lane) };
        }
        let registry = self.names.registry();
        let name_text = String::from_utf8_lossy(name);
        let senders = registry.senders(&name_text);
        // Before it is known: a name that is for others shall not be there because somebody else used it.
        if senders.as_ref().is_some_and(|senders| !self.is_one_of(senders)) {
            registry.forbid(&name_text, self.names.taker);
            return Err(SourceRefused::Forbidden);
        }
        let source = registry.source_for(&name_text, self.names.taker)?;
        let (epoch, log) = (registry.epoch(), registry.log(source, &name_text));
        if let Some(origin) = &self.default_origin {
            registry.describe(source, Some(origin), None);
        }
        let policy = Policy::new(registry.gate(source), registry);
        let id = self.free_lane();
        let account = LaneAccount::new(id, source, self.default_origin.clone(), log);
        let (batch, is_reserved) = (Batch::default(), senders.is_some());
        let lane = Lane { policy, batch, epoch, is_reserved, account, senders, name: name.into() };
        match self.lanes.get_mut(id.0 as usize) {
            Some(free) => *free = lane,
            None => self.lanes.push(lane),
        }
        self.by_name.insert(name, id);
        Ok(id)
    }

    /// Keeps the place of a lane's source for as long as somebody holds the lane. To be called whenever
    /// [`Lanes::epoch`] is another one, by whoever holds a lane beyond that.
    #[inline]
    pub fn keep(&mut self, lane: LaneId) {
        if self.is_stale(lane) {
            // If its name cannot be stored, the next record tries again.
            let _ = self.ask_again(lane, again);
        }
    }

    /// Changes when what is held has to be [kept](Lanes::keep), and when what is remembered by name has to be asked for again.
    #[inline]
    pub fn epoch(&self) -> u32 {
        self.names.registry().epoch()
    }

    /// How long an epoch lasts at most.
    pub fn period(&self) -> Duration {
        self.names.registry().period()
    }

    #[inline]
    fn is_stale(&self, lane: LaneId) -> bool {
        self.lanes[lane.0 as usize].epoch != self.epoch()
    }

    /// How many lanes there are.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.lanes.len()
    }

    /// Asks the registry for a lane's source: it knows that it is in use then. If its place is somebody else's by now, the
    /// lane turns to the instance that `define` gives.
    #[cold]
    fn ask_again(
        &mut self,
        id: LaneId,
        define: fn(&Registry, &str, Taker) -> Result<Inst, SourceRefused>,
    ) -> Result<(), SourceRefused> {
        let epoch = self.epoch();
        let source = self.lane(id).account.source();
        if !self.names.registry().note_source(source) {
            // What is left to tell, if anything is, is of what is gone, and goes with it.
            self.release(id, true);
            let Lanes { lanes, outbox, names, default_origin, .. } = self;
            let Lane { batch, account, policy, name, .. } = &mut lanes[id.0 as usize];
            let name = String::from_utf8_lossy(name);
            let registry = names.registry();
            let source = define(registry, &name, names.taker)?;
            outbox.hand_over(batch, account);
            account.turn_to(source, default_origin.clone(), registry.log(source, &name));
            *policy = Policy::new(registry.gate(source), registry);
        }
        self.lane(id).epoch = epoch;
        Ok(())
    }

    /// A lane for a source that is new here: that of one whose place is somebody else's by now, if nobody can hold it any
    /// more, or one more. Whoever holds a lane [keeps](Lanes::keep) it.
    fn free_lane(&mut self) -> LaneId {
        let (epoch, registry) = (self.epoch(), self.names.registry());
        let free = self.lanes.iter().position(|lane| {
            lane.epoch != epoch
                && !lane.account.is_marked
                && !lane.policy.holds_records()
                && !registry.has_source(lane.account.source())
        });
        if let Some(lane) = free.and_then(|at| self.lanes.get(at)) {
            self.by_name.remove(&lane.name);
        }
        LaneId(free.unwrap_or(self.lanes.len()) as u32)
    }

    /// The lane of a source that is not for everybody.
    #[cold]
    fn reserved(&mut self, lane: LaneId, name: &[u8]) -> Result<LaneId, SourceRefused> {
        let senders = self.lanes.get(lane.0 as usize).and_then(|lane| lane.senders.as_ref());
        if senders.is_none_or(|senders| self.is_one_of(senders)) {
            return Ok(lane);
        }
        self.names.registry().forbid(&String::from_utf8_lossy(name), self.names.taker);
        Err(SourceRefused::Forbidden)
    }

    /// Whether everybody who may send at all may send in the name of this source.
    pub fn is_anybodys(&self, lane: LaneId) -> bool {
        self.lanes.get(lane.0 as usize).is_some_and(|lane| lane.senders.is_none())
    }

    /// Whether who sends now is among these. Root and the configuration always are.
    fn is_one_of(&self, senders: &Who) -> bool {
        self.names.taker == Taker::Trusted || senders.includes(self.sender)
    }

    /// One of the agent's own streams, by what it is read from. It is known for as long as these lanes.
    pub fn stream(&mut self, name: &[u8]) -> StreamId {
        self.streams.own(name)
    }

    /// Opens a stream of who sends now. It is known at least until [`Lanes::close_stream`].
    ///
    /// # Errors
    /// As many of the sender's as there may be are in use.
    pub fn open_stream(&mut self, name: &[u8]) -> Result<StreamId, TooManyStreams> {
        let Lanes { lanes, names, streams, .. } = self;
        // A lane that is not marked has no record left to hand over.
        let waits = |lanes: &[Lane], stream| {
            let mut marked = lanes.iter().filter(|lane| lane.account.is_marked);
            marked.any(|lane| lane.account.marks.unsettled(stream).is_some())
        };
        let mut gone = None;
        let opened = streams.open(name, names.taker, |stream| waits(lanes, stream), |id| gone = Some(id));
        if let Some(gone) = gone {
            lanes.iter_mut().for_each(|lane| lane.account.marks.forget(gone));
        }
        opened
    }

    /// A stream is not used any more by who opened it.
    pub fn close_stream(&mut self, stream: StreamId) {
        self.streams.close(stream);
    }

    /// Whether the record of a number is in a lane already; counts it there if it is.
    #[inline]
    pub fn is_there(&mut self, lane: LaneId, numbered: Numbered) -> bool {
        let there = self.covers(lane, numbered);
        if there {
            self.changed(lane).tallies.repeated += 1;
        }
        there
    }

    /// The same without counting.
    #[inline]
    pub fn covers(&mut self, lane: LaneId, numbered: Numbered) -> bool {
        let Lanes { lanes, streams, .. } = self;
        let name = streams.name(numbered.stream);
        name.is_some_and(|name| lanes[lane.0 as usize].account.covers(numbered, name))
    }

    /// The number up to which a stream has come in a lane, in this life or those before; 0 if it is new there.
    pub fn reached(&mut self, lane: LaneId, stream: StreamId) -> u64 {
        let Lanes { lanes, streams, .. } = self;
        let name = streams.name(stream);
        name.map_or(0, |name| lanes[lane.0 as usize].account.reached(stream, name))
    }

    /// Says the number of the record that is begun next, after [`Lanes::is_there`] has said that it is not.
    pub fn number(&mut self, numbered: Numbered) {
        self.numbered = Some(numbered);
    }

    /// Everything of a stream up to a number was seen to: what is no record in this lane, too. It is told with the lane's next
    /// records.
    pub fn done(&mut self, lane: LaneId, numbered: Numbered) {
        self.numbered = None;
        // So that what the log knows is known here.
        self.reached(lane, numbered.stream);
        self.lane(lane).account.marks.raise(numbered);
    }

    /// Up to where everything of a stream is committed, whose newest number so far is this: written, if there is a log on
    /// disk, and handed over. Flush first.
    pub fn committed(&self, newest: Numbered) -> u64 {
        let unsettled = self.lanes.iter().filter_map(|lane| lane.account.marks.unsettled(newest.stream));
        unsettled.min().unwrap_or(newest.number).min(newest.number)
    }

    /// Grows with each delivery that is not as safe as the log on disk promises: there is none, or it fails.
    pub fn undurable(&self) -> u64 {
        self.outbox.undurable()
    }

    /// The place where events of a type are counted.
    #[inline]
    pub fn type_slot(&mut self, lane: LaneId, event_type: Option<&[u8]>) -> TypeSlot {
        let Lanes { lanes, names, .. } = self;
        let account = &mut lanes[lane.0 as usize].account;
        account.types.slot((names.registry(), names.taker), account.source(), event_type)
    }

    /// For who will look up all of these fields now ([`Registry::prepare_fields`]).
    pub fn prepare(&mut self, fields: &[(&str, ValueType)]) {
        self.names.registry().prepare_fields(fields.iter().copied(), self.names.taker);
    }

    /// Looks a field up once, for formats whose records have the same fields again and again.
    pub fn intern(&mut self, name: &[u8], value_type: ValueType) -> InternedField {
        self.names.intern(name, value_type)
    }

    /// The metric of a field that was looked up before, if it has one of its own, for formats that pack parameters themselves. To be
    /// asked for again whenever [`Lanes::epoch`] is another one: so the registry knows that the field is in use.
    pub fn own(&self, field: &InternedField) -> Option<Pmid> {
        field.folded_name().is_none().then(|| self.names.interned(field))
    }

    /// The metric of one of the fields that every agent has.
    pub fn known(&self, field: WellKnown) -> Pmid {
        field.pmid(self.names.domain())
    }

    /// Begins a record. It is part of its lane's batch, and counted, once [`Record::commit`] has returned `Ok`.
    #[inline(always)] // so that what it is made of need not be put together in memory
    pub fn begin<'a>(&'a mut self, at: At<'a>) -> Record<'a> {
        self.keep(at.lane);
        let numbered = self.numbered.take();
        let Lane { batch, account, policy, .. } = &mut self.lanes[at.lane.0 as usize];
        self.outbox.provide(batch, account);
        Record::new((at, numbered), batch, account, policy, &mut self.names, &mut self.outbox)
    }

    /// Counts bytes of input.
    #[inline]
    pub fn bytes(&mut self, id: LaneId, bytes: usize) {
        let account = self.changed(id);
        account.tallies.bytes += bytes as u64;
    }

    /// Counts a refused event.
    pub fn reject(&mut self, id: LaneId, reason: Reason) {
        let account = self.changed(id);
        account.tallies.rejected[reason as usize] += 1;
    }

    /// Notes who is sending.
    pub fn peer(&mut self, id: LaneId, peer: Option<Peer>) {
        self.lane(id).account.peer = peer;
    }

    /// Tells where a source's records come from. Once is enough, until it changes.
    pub fn origin(&mut self, id: LaneId, origin: Origin) {
        let source = self.lane(id).account.source();
        self.names.registry().describe(source, Some(&origin), None);
        self.changed(id).set_origin(origin);
    }

    /// Tells what else is known of a source. Once is enough, until it changes.
    pub fn labels(&mut self, id: LaneId, labels: Labels) {
        let source = self.lane(id).account.source();
        self.names.registry().describe(source, None, Some(&labels));
        self.changed(id).set_labels(labels);
    }

    /// Notes records that the sender lost before it sent what comes next.
    pub fn missed(&mut self, id: LaneId, count: u64, time: Timestamp) {
        self.keep(id);
        let loss = Loss { count, received: 0, time };
        if self.lane(id).policy.lose(loss) {
            // It is in the queue, and so it was marked.
            self.release(id, false);
            return;
        }
        self.release(id, true);
        let Lanes { lanes, outbox, .. } = self;
        let Lane { batch, account, .. } = &mut lanes[id.0 as usize];
        // A delivery tells its loss before its records, so the records that came before the loss leave first.
        outbox.hand_over(batch, account);
        account.add_loss(loss);
        outbox.mark(account);
    }

    /// How many accepted records of a connection could not be handed over so far.
    pub fn lost(&self, conn: ConnId) -> u64 {
        self.outbox.lost(conn)
    }

    /// Forgets a connection that is gone, so that its number can be used again. Flush first.
    pub fn forget(&mut self, conn: ConnId) {
        for lane in &mut self.lanes {
            lane.policy.forget(conn, GONE);
        }
        self.outbox.forget(conn);
        // Nobody asks for these.
        self.outbox.forget(GONE);
    }

    /// Hands over everything that waits, except for records whose turn in the order of time has not come.
    pub fn flush(&mut self) {
        let mut waiting = self.outbox.take_waiting();
        for id in &waiting {
            self.lane(*id).account.is_marked = false;
        }
        for id in waiting.drain(..) {
            self.release(id, false);
            let Lanes { lanes, outbox, .. } = self;
            let Lane { batch, account, policy, .. } = &mut lanes[id.0 as usize];
            // A lane that still cannot go marks itself again, for the next flush.
            outbox.put_in(batch, account);
            if policy.holds_records() {
                outbox.mark(account);
            }
        }
        self.outbox.give_back(waiting);
        self.outbox.tell();
        self.outbox.sync();
        self.names.registry().tick();
    }

    #[inline]
    fn lane(&mut self, id: LaneId) -> &mut Lane {
        // Ids come from `source` alone, and lanes only become those of other sources.
        &mut self.lanes[id.0 as usize]
    }

    /// The account of a lane that has something to tell from now on.
    #[inline]
    fn changed(&mut self, id: LaneId) -> &mut LaneAccount {
        self.keep(id);
        let account = &mut self.lanes[id.0 as usize].account;
        self.outbox.mark(account);
        account
    }

    /// Moves what a lane holds to its batch: what is due by now, or everything.
    fn release(&mut self, id: LaneId, everything: bool) {
        let Lanes { lanes, names, outbox, .. } = self;
        let Lane { batch, account, policy, .. } = &mut lanes[id.0 as usize];
        policy.release(everything, names.registry(), batch, account, outbox);
    }
}

/// Another instance for a source that somebody holds.
fn again(registry: &Registry, name: &str, _: Taker) -> Result<Inst, SourceRefused> {
    registry.source_again(name).ok_or(SourceRefused::Store)
}

/// The thread ends, by itself or because something in it broke: nobody will come back for records that wait to be handed over,
/// or for their turn, so they leave now. One that is not complete does not count.
impl Drop for Lanes {
    fn drop(&mut self) {
        for index in 0..self.lanes.len() {
            let id = LaneId(index as u32);
            if self.lane(id).policy.may_hold() {
                self.release(id, true);
            }
            let Lane { batch, account, .. } = &mut self.lanes[index];
            self.outbox.hand_over(batch, account);
        }
    }
}
