//! Receiving the binary framing.
//!
//! **Cost:** a record is one pass over its parameters, each found by its number in a table and put into
//! the batch; no look-up by name, no allocation. About 55 ns for a record of six parameters.

mod read;

use crate::clock::{Offset, SenderClock};
use crate::delivery::{MAX_SENDER_LOSS, Reason};
use crate::event::{Limits, Refusal};
use crate::lanes::{Arrival, At, InternedField, LaneId, Lanes, Numbered, Record, TypeSlot};
use crate::registry::WellKnown;
use jumpseat_wire::ring::chunk::{read_number, read_rings};
use jumpseat_wire::severity::Severity;
use jumpseat_wire::{
    CHUNK, CLOCK, FIELD, HELLO, MAX_VARINT, MISSED, RECORD, RINGS, SENDER, SOURCE, SYNC, TYPE, USE, flag,
    varint,
};
use pcp_event::{EventFlags, Param};
use pcp_model::Timestamp;
use read::Reader;

/// Where a connection's records go, and what holds for them.
pub(crate) struct Destination<'a> {
    /// All lanes.
    pub lanes: &'a mut Lanes,
    /// How long things may be.
    pub limits: &'a Limits,
    /// The connection's current source.
    pub lane: LaneId,
    /// The source of what names one that cannot be.
    pub default_source: LaneId,
    /// How the bytes got here.
    pub arrival: Arrival,
    /// The number that a record will have, if the sender numbers them.
    pub number: Option<Numbered>,
}

/// One frame taken off the input.
#[derive(Debug)]
pub(crate) struct TakenFrame {
    /// Bytes it used up.
    pub consumed: usize,
    /// Whether they began a frame.
    pub frame: bool,
    /// Whether that is, or was to be, a record.
    pub is_record: bool,
    /// What they were.
    pub outcome: Result<Frame, Refusal>,
}

/// What a frame was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// Nothing to do without more bytes.
    Incomplete,
    /// Something that only concerns the decoder.
    Nothing,
    /// A record, now in its lane.
    Record {
        /// Something was cut off it.
        truncated: bool,
    },
    /// A record that was there already.
    Repeated,
    /// So many records were lost, the newest of them then.
    Missed {
        /// How many.
        count: u64,
        /// When.
        time: Timestamp,
    },
    /// The connection is this sender's, and its records are numbered from here on.
    Sender {
        /// Its name.
        id: Box<[u8]>,
        /// The next record's number.
        next: u64,
    },
    /// The connection's source is this from now on.
    Source(LaneId),
    /// Asks for an ACK with this token.
    Sync(u64),
    /// Times are of this clock from now on.
    Clock(SenderClock),
    /// The descriptor that came with it is that of the sender's rings; this is the connection's number there.
    Rings(u64),
    /// This chunk of the sender's rings is to be read here.
    Chunk(u64),
}

/// The tables of a connection.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// From the sender's clock to real time.
    pub offset: Offset,
    greeted: bool,
    lost: bool,
    /// Bytes of an oversized frame still to be skipped.
    skip: u64,
    sources: Vec<LaneId>,
    types: Vec<EventType>,
    fields: Vec<InternedField>,
    /// Bytes of all names that were defined.
    name_bytes: usize,
}

/// An event type, looked up once.
#[derive(Debug)]
pub(crate) struct EventType {
    name: Box<[u8]>,
    /// Where it is counted, for the lane it was last seen in.
    slot: Option<(LaneId, TypeSlot)>,
}

impl Decoder {
    /// The sources that were defined.
    pub(crate) fn sources(&self) -> &[LaneId] {
        &self.sources
    }

    /// Whether the frames' bounds are lost, so that nothing more can be read.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Takes one frame off the start of `input`.
    pub(crate) fn take(&mut self, input: &[u8], to: &mut Destination<'_>) -> TakenFrame {
        if self.skip > 0 {
            return self.skip(input);
        }
        if !self.greeted {
            return self.hello(input);
        }
        let incomplete =
            TakenFrame { consumed: 0, frame: false, is_record: false, outcome: Ok(Frame::Incomplete) };
        let Some((&kind, rest)) = input.split_first() else { return incomplete };
        let (len, width) = match varint(rest) {
            Some(found) => found,
            // More bytes may complete the number; so many cannot be cut short, only wrong.
            None if rest.len() < MAX_VARINT => return incomplete,
            None => {
                // Without its length nobody knows where the next frame begins.
                self.lost = true;
                let refusal = Refusal::at(1, Reason::Frame, "not a frame length");
                return TakenFrame {
                    consumed: input.len(),
                    frame: true,
                    is_record: false,
                    outcome: Err(refusal),
                };
            }
        };
        let head = 1 + width;
        if len > to.limits.max_line as u64 {
            // It is not waited for: what is here of it goes now, the rest as it comes.
            let skipped = len.min((input.len() - head) as u64);
            self.skip = len - skipped;
            let refusal = Refusal::at(0, Reason::OversizeLine, "a frame longer than the limit");
            return TakenFrame {
                consumed: head + skipped as usize,
                frame: true,
                is_record: kind == RECORD,
                outcome: Err(refusal),
            };
        }
        let end = head + len as usize;
        // Nothing is consumed of half a frame: the caller gives it again with more behind it, so that no frame is
        // ever copied together here.
        let Some(payload) = input.get(head..end) else { return incomplete };
        let is_record = kind == RECORD;
        let outcome = if is_record { self.record(payload, to) } else { self.definition(kind, payload, to) };
        TakenFrame { consumed: end, frame: true, is_record, outcome }
    }

    /// Skips more of an oversized frame.
    fn skip(&mut self, input: &[u8]) -> TakenFrame {
        let skipped = self.skip.min(input.len() as u64);
        self.skip -= skipped;
        let outcome = Ok(if self.skip > 0 { Frame::Incomplete } else { Frame::Nothing });
        TakenFrame { consumed: skipped as usize, frame: false, is_record: false, outcome }
    }

    fn hello(&mut self, input: &[u8]) -> TakenFrame {
        let mut taken =
            TakenFrame { consumed: 0, frame: false, is_record: false, outcome: Ok(Frame::Incomplete) };
        if input.starts_with(&HELLO) {
            self.greeted = true;
            taken.consumed = HELLO.len();
            taken.outcome = Ok(Frame::Nothing);
        } else if input.len() >= HELLO.len() || !HELLO.starts_with(input) {
            // Fewer bytes that agree so far may still have become the greeting; these cannot.
            self.lost = true;
            taken.consumed = input.len();
            taken.frame = true;
            let detail = "a binary stream starts with FF 6A 73 01 (version 1)";
            taken.outcome = Err(Refusal::at(0, Reason::Frame, detail));
        }
        taken
    }

    /// A frame of any kind but a record: definitions for records to come, and what concerns the connection.
    #[cold]
    fn definition(&mut self, kind: u8, payload: &[u8], to: &mut Destination<'_>) -> Result<Frame, Refusal> {
        let mut read = Reader::new(payload, to.limits);
        match kind {
            SOURCE => {
                let id = read.new_id(self.sources.len())?;
                let name = read.name(&mut self.name_bytes)?;
                // The registry counts what it refuses.
                let lane = to.lanes.source(name.as_bytes()).unwrap_or(to.default_source);
                put(&mut self.sources, id, lane);
                Ok(Frame::Nothing)
            }
            USE => {
                // Only sources of this connection's own table: numbers of others mean nothing here.
                let lane = *read.defined(&self.sources)?;
                read.end()?;
                Ok(Frame::Source(lane))
            }
            TYPE => {
                let id = read.new_id(self.types.len())?;
                let name = read.name(&mut self.name_bytes)?;
                put(&mut self.types, id, EventType::new(name.as_bytes()));
                Ok(Frame::Nothing)
            }
            FIELD => {
                let id = read.new_id(self.fields.len())?;
                let value_type = read.value_type()?;
                let name = read.name(&mut self.name_bytes)?;
                let field = to.lanes.intern(name.as_bytes(), value_type);
                put(&mut self.fields, id, field);
                Ok(Frame::Nothing)
            }
            SYNC => {
                let token = read.varint()?;
                read.end()?;
                Ok(Frame::Sync(token))
            }
            CLOCK => {
                let clock = SenderClock::from_code(read.byte()?).ok_or_else(|| {
                    let detail = "a clock that is none of 0 (realtime), 1 (monotonic) and 7 (boottime)";
                    Refusal::at(0, Reason::Control, detail)
                })?;
                read.end()?;
                Ok(Frame::Clock(clock))
            }
            SENDER => {
                let next = read.varint()?;
                let id = read.name(&mut self.name_bytes)?.as_bytes().into();
                Ok(Frame::Sender { id, next })
            }
            MISSED => self.missed(read),
            RINGS => {
                let detail = "a RINGS frame of another layout than version 2";
                read_rings(payload).map(Frame::Rings).ok_or(Refusal::at(0, Reason::Control, detail))
            }
            CHUNK => {
                let detail = "a CHUNK frame has a number, and nothing else";
                read_number(payload).map(Frame::Chunk).ok_or(Refusal::at(0, Reason::Frame, detail))
            }
            _ => Err(Refusal::at(0, Reason::Frame, "a frame of an unknown kind")),
        }
    }

    /// Records that the sender lost.
    fn missed(&self, mut read: Reader<'_>) -> Result<Frame, Refusal> {
        let count = read.varint()?;
        // Counters of clients are sums of such numbers, and one that a sender made up would overflow them.
        if count > MAX_SENDER_LOSS {
            return Err(Refusal::at(0, Reason::Control, "more than 2^32 lost records at a time"));
        }
        let time = read.time(self.offset)?;
        read.end()?;
        Ok(Frame::Missed { count, time })
    }

    fn record(&mut self, payload: &[u8], to: &mut Destination<'_>) -> Result<Frame, Refusal> {
        let Decoder { offset, sources, types, fields, .. } = self;
        let mut read = Reader::new(payload, to.limits);
        let Head { flags, time, lane, slot, type_name, severity } =
            head(&mut read, *offset, sources, types, to)?;
        if let Some(number) = to.number {
            if to.lanes.is_there(lane, number) {
                return Ok(Frame::Repeated);
            }
            to.lanes.number(number);
        }
        let (arrival, event_type) = (&to.arrival, slot);
        let mut record = to.lanes.begin(At { arrival, lane, event_type, time, flags: record_flags(flags) });
        if flags & EventFlags::ID.0 as u8 != 0 {
            // The ids stand first in the frame as in the record, so one pass in order is enough.
            put_id(&mut record, &mut read, flags, (WellKnown::SpanIdU64, WellKnown::SpanId))?;
        }
        if flags & EventFlags::PARENT.0 as u8 != 0 {
            put_id(&mut record, &mut read, flags, (WellKnown::ParentIdU64, WellKnown::ParentId))?;
        }
        if let Some(name) = type_name {
            record.known(WellKnown::Type, Param::String(name));
        }
        if let Some(severity) = severity {
            record.known(WellKnown::Severity, Param::String(severity.word().as_bytes()));
        }
        let message = read.text()?;
        // An empty text stands for no message.
        if !message.is_empty() {
            record.known(WellKnown::Message, Param::String(message));
        }
        while !read.is_at_end() {
            // A refusal here drops the record half written, which leaves no trace in the batch.
            let field = read.defined(fields)?;
            read.field(field, &mut record)?;
        }
        let truncated = read.is_truncated();
        if truncated {
            record.truncated();
        }
        record.commit().map_err(|_| {
            Refusal::at(0, Reason::OversizeLine, "more parameters than a record can hold (256 KiB packed)")
        })?;
        Ok(Frame::Record { truncated })
    }
}

/// What stands in a record before the texts and parameters.
struct Head<'a> {
    flags: u8,
    time: Timestamp,
    lane: LaneId,
    slot: TypeSlot,
    type_name: Option<&'a [u8]>,
    severity: Option<Severity>,
}

#[inline]
fn head<'a>(
    read: &mut Reader<'_>,
    offset: Offset,
    sources: &[LaneId],
    types: &'a mut [EventType],
    to: &mut Destination<'_>,
) -> Result<Head<'a>, Refusal> {
    let flags = read.byte()?;
    let time = if flags & flag::TIME != 0 { read.time(offset)? } else { to.arrival.time };
    let lane = if flags & flag::SOURCE != 0 { *read.defined(sources)? } else { to.lane };
    let at = read.at();
    let event_type = match read.varint()? {
        0 => None,
        // 0 is no type, so numbers begin at 1.
        id => match usize::try_from(id - 1).ok().and_then(|id| types.get_mut(id)) {
            Some(event_type) => Some(event_type),
            None => return Err(Refusal::at(at, Reason::Undefined, "an event type never defined")),
        },
    };
    let (slot, type_name) = match event_type {
        None => (to.lanes.type_slot(lane, None), None),
        Some(event_type) => (event_type.slot(to.lanes, lane), Some(&*event_type.name)),
    };
    let at = read.at();
    let severity = match read.byte()? {
        0 => None,
        code => match Severity::from_code(code) {
            Some(severity) => Some(severity),
            None => return Err(Refusal::at(at, Reason::Frame, "a severity that is not 0 to 9")),
        },
    };
    Ok(Head { flags, time, lane, slot, type_name, severity })
}

impl EventType {
    /// One of this name.
    pub(crate) fn new(name: &[u8]) -> EventType {
        EventType { name: name.into(), slot: None }
    }

    /// Where it is counted in a lane. Remembered for one lane: connections seldom have more.
    #[inline]
    pub(crate) fn slot(&mut self, lanes: &mut Lanes, lane: LaneId) -> TypeSlot {
        match self.slot {
            Some((of, slot)) if of == lane => slot,
            _ => {
                let slot = lanes.type_slot(lane, Some(&self.name));
                self.slot = (slot != TypeSlot::NONE).then_some((lane, slot));
                slot
            }
        }
    }
}

/// Moves a span id from the frame to the record: a number or a text.
#[inline]
fn put_id(
    record: &mut Record<'_>,
    read: &mut Reader<'_>,
    flags: u8,
    (number, text): (WellKnown, WellKnown),
) -> Result<(), Refusal> {
    if flags & flag::TEXT_IDS == 0 {
        record.known(number, Param::U64(read.u64()?));
    } else {
        record.known(text, Param::String(read.text()?));
    }
    Ok(())
}

/// PCP's own flags of a record; PARENT only next to ID, as it speaks of the second parameter.
#[inline]
fn record_flags(flags: u8) -> EventFlags {
    // The low bits are PCP's own; a sender that says nothing means a point in time.
    let point_start_end = u32::from(flags & 0x07);
    let phase = if point_start_end == 0 { EventFlags::POINT } else { EventFlags(point_start_end) };
    let id = EventFlags(u32::from(flags) & EventFlags::ID.0);
    let parent = if id == EventFlags::ID { u32::from(flags) & EventFlags::PARENT.0 } else { 0 };
    phase | id | EventFlags(parent)
}

/// Sets `table[id]`, where `id` is at most the table's length.
fn put<T>(table: &mut Vec<T>, id: usize, value: T) {
    match table.get_mut(id) {
        Some(old) => *old = value,
        None => table.push(value),
    }
}
