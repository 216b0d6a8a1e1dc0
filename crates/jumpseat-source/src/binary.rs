//! Receiving the binary framing.
//!
//! **Cost:** a record is one pass over its parameters, each found by its number in a table and put into
//! the batch; no look-up by name, no allocation. About 70 ns for a record of five parameters.

use crate::clock::{Offset, SenderClock};
use crate::delivery::{MAX_SENDER_LOSS, Reason};
use crate::event::{Limits, Refusal};
use crate::intake::Shared;
use crate::lanes::{ConnId, InternedField, LaneId, Lanes, TypeSlot, fold};
use crate::registry::WellKnown;
use jumpseat_wire::severity;
use jumpseat_wire::{
    CLOCK, FIELD, HELLO, MAX_INTERNED, MAX_NAME, MAX_NAME_BYTES, MISSED, RECORD, SOURCE, SYNC, TYPE, USE,
    flag, varint,
};
use pcp_event::{EventFlags, Param};
use pcp_model::{Timestamp, ValueType};

/// What a step made of the input.
#[derive(Debug)]
pub struct Step {
    /// Bytes it used up.
    pub consumed: usize,
    /// Whether they began a frame.
    pub frame: bool,
    /// What they were.
    pub outcome: Result<Outcome, Refusal>,
}

/// What a frame was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing to do without more bytes.
    Incomplete,
    /// Something that only concerns the decoder.
    Nothing,
    /// A record, now in its lane.
    Record {
        /// Something was cut off it.
        truncated: bool,
    },
    /// The connection's source is this from now on.
    Source(LaneId),
    /// Asks for an ACK with this token.
    Sync(u64),
    /// Times are of this clock from now on.
    Clock(SenderClock),
}

/// The tables of a connection.
#[derive(Debug, Default)]
pub struct Decoder {
    /// From the sender's clock to real time.
    pub offset: Offset,
    greeted: bool,
    lost: bool,
    /// Bytes of an oversized frame still to be skipped.
    skip: u64,
    sources: Vec<LaneId>,
    types: Vec<EventType>,
    fields: Vec<InternedField>,
    folded: Vec<u8>,
    /// Bytes of all names that were defined.
    name_bytes: usize,
}

#[derive(Debug)]
struct EventType {
    name: Box<[u8]>,
    /// Where it is counted, for the lane it was last seen in.
    slot: Option<(LaneId, TypeSlot)>,
}

impl Decoder {
    /// Whether the frames' bounds are lost, so that nothing more can be read.
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// Takes one frame off the start of `input`. `lane` is the connection's current source.
    pub fn step(&mut self, input: &[u8], lane: LaneId, conn: ConnId, shared: &mut Shared) -> Step {
        if self.skip > 0 {
            let skipped = self.skip.min(input.len() as u64);
            self.skip -= skipped;
            return Step {
                consumed: skipped as usize,
                frame: false,
                outcome: Ok(if self.skip > 0 { Outcome::Incomplete } else { Outcome::Nothing }),
            };
        }
        if !self.greeted {
            return self.hello(input);
        }
        let incomplete = Step { consumed: 0, frame: false, outcome: Ok(Outcome::Incomplete) };
        let Some((&kind, rest)) = input.split_first() else { return incomplete };
        let (len, width) = match varint(rest) {
            Some(found) => found,
            None if rest.len() < jumpseat_wire::MAX_VARINT => {
                return incomplete;
            }
            None => {
                self.lost = true;
                let refusal = Refusal::at(1, Reason::Frame, "not a frame length");
                return Step { consumed: input.len(), frame: true, outcome: Err(refusal) };
            }
        };
        let head = 1 + width;
        if len > shared.limits.max_line as u64 {
            let skipped = len.min((input.len() - head) as u64);
            self.skip = len - skipped;
            let refusal = Refusal::at(0, Reason::OversizeLine, "a frame longer than the limit");
            return Step { consumed: head + skipped as usize, frame: true, outcome: Err(refusal) };
        }
        let end = head + len as usize;
        let Some(payload) = input.get(head..end) else { return incomplete };
        let outcome = if kind == RECORD {
            self.record(payload, lane, conn, shared)
        } else {
            self.other(kind, payload, lane, shared)
        };
        Step { consumed: end, frame: true, outcome }
    }

    fn hello(&mut self, input: &[u8]) -> Step {
        let mut step = Step { consumed: 0, frame: false, outcome: Ok(Outcome::Incomplete) };
        if input.starts_with(&HELLO) {
            self.greeted = true;
            step.consumed = HELLO.len();
            step.outcome = Ok(Outcome::Nothing);
        } else if input.len() >= HELLO.len() || !HELLO.starts_with(input) {
            self.lost = true;
            step.consumed = input.len();
            step.frame = true;
            let detail = "a binary stream starts with FF 6A 73 01 (version 1)";
            step.outcome = Err(Refusal::at(0, Reason::Frame, detail));
        }
        step
    }

    #[cold]
    fn other(
        &mut self,
        kind: u8,
        payload: &[u8],
        lane: LaneId,
        shared: &mut Shared,
    ) -> Result<Outcome, Refusal> {
        let mut read = Reader { payload, at: 0 };
        match kind {
            SOURCE => {
                let id = read.new_id(self.sources.len())?;
                let name = read.name(&mut self.name_bytes)?;
                // The registry counts what it refuses.
                let lane = shared.lanes.source(name.as_bytes()).unwrap_or(shared.default_source);
                put(&mut self.sources, id, lane);
                Ok(Outcome::Nothing)
            }
            USE => {
                let lane = *read.defined(&self.sources)?;
                read.end()?;
                Ok(Outcome::Source(lane))
            }
            TYPE => {
                let id = read.new_id(self.types.len())?;
                let name = read.name(&mut self.name_bytes)?.as_bytes().into();
                put(&mut self.types, id, EventType { name, slot: None });
                Ok(Outcome::Nothing)
            }
            FIELD => {
                let id = read.new_id(self.fields.len())?;
                let at = read.at;
                let value_type = ValueType::from_code(read.byte()?.into());
                if !(0..=7).contains(&value_type.code()) {
                    return Err(Refusal::at(at, Reason::Frame, "a field type that is not 0 to 7"));
                }
                let name = read.name(&mut self.name_bytes)?;
                let field = shared.lanes.intern(name.as_bytes(), value_type);
                put(&mut self.fields, id, field);
                Ok(Outcome::Nothing)
            }
            SYNC => {
                let token = read.varint()?;
                read.end()?;
                Ok(Outcome::Sync(token))
            }
            CLOCK => {
                let clock = SenderClock::from_code(read.byte()?).ok_or_else(|| {
                    let detail = "a clock that is none of 0 (realtime), 1 (monotonic) and 7 (boottime)";
                    Refusal::at(0, Reason::Control, detail)
                })?;
                read.end()?;
                Ok(Outcome::Clock(clock))
            }
            MISSED => {
                let count = read.varint()?;
                if count > MAX_SENDER_LOSS {
                    return Err(Refusal::at(0, Reason::Control, "more than 2^32 lost records at a time"));
                }
                let time = read.time(self.offset)?;
                read.end()?;
                if count > 0 {
                    shared.lanes.missed(lane, count, time);
                }
                Ok(Outcome::Nothing)
            }
            _ => Err(Refusal::at(0, Reason::Frame, "a frame of an unknown kind")),
        }
    }

    fn record(
        &mut self,
        payload: &[u8],
        lane: LaneId,
        conn: ConnId,
        shared: &mut Shared,
    ) -> Result<Outcome, Refusal> {
        let Decoder { offset, sources, types, fields, folded, .. } = self;
        let Shared { lanes, limits, .. } = shared;
        let mut read = Reader { payload, at: 0 };
        let flags = read.byte()?;
        let time = if flags & flag::TIME != 0 { read.time(*offset)? } else { lanes.now };
        let lane = if flags & flag::SOURCE != 0 { *read.defined(sources)? } else { lane };

        let at = read.at;
        let event_type = match read.varint()? {
            0 => None,
            id => match usize::try_from(id - 1).ok().and_then(|id| types.get_mut(id)) {
                Some(event_type) => Some(event_type),
                None => return Err(Refusal::at(at, Reason::Undefined, "an event type never defined")),
            },
        };
        let slot = type_slot(lanes, lane, event_type.as_deref(), event_type.as_ref().and_then(|t| t.slot));
        let type_name = event_type.map(|event_type| {
            event_type.slot = (slot != TypeSlot::NONE).then_some((lane, slot));
            &*event_type.name
        });

        let at = read.at;
        let severity = match read.byte()? {
            0 => None,
            code => match severity::WORDS.get(usize::from(code) - 1) {
                Some(word) => Some(*word),
                None => return Err(Refusal::at(at, Reason::Frame, "a severity that is not 0 to 9")),
            },
        };

        let domain = lanes.registry().domain();
        let mut truncated = false;
        let mut folds = 0;
        let target = lanes.lane(lane);
        let mut record = target.batch.record(time, record_flags(flags));
        if flags & EventFlags::ID.0 as u8 != 0 {
            let (number, text) = (WellKnown::SpanIdU64, WellKnown::SpanId);
            let (known, value) = read.span_id(flags, number, text, limits, &mut truncated)?;
            record.param(known.pmid(domain), value);
        }
        if flags & EventFlags::PARENT.0 as u8 != 0 {
            let (number, text) = (WellKnown::ParentIdU64, WellKnown::ParentId);
            let (known, value) = read.span_id(flags, number, text, limits, &mut truncated)?;
            record.param(known.pmid(domain), value);
        }
        if let Some(name) = type_name {
            record.param(WellKnown::Type.pmid(domain), Param::String(name));
        }
        if let Some(word) = severity {
            record.param(WellKnown::Severity.pmid(domain), Param::String(word.as_bytes()));
        }
        let message = read.text(limits, &mut truncated)?;
        if !message.is_empty() {
            record.param(WellKnown::Message.pmid(domain), Param::String(message));
        }
        while read.at < payload.len() {
            let field = read.defined(fields)?;
            let value = read.value(field.value_type, limits, &mut truncated)?;
            match &field.folded {
                None => record.param(field.pmid, value),
                Some(name) => {
                    folds += 1;
                    fold(folded, name, &value);
                    record.param(field.pmid, Param::String(folded));
                }
            }
        }
        record.commit().map_err(|_| {
            Refusal::at(0, Reason::OversizeLine, "more parameters than a record can hold (256 KiB packed)")
        })?;
        target.tallies.folded += folds;
        target.tallies.truncated += u64::from(truncated);
        lanes.committed(conn, lane, slot);
        Ok(Outcome::Record { truncated })
    }
}

#[inline]
fn type_slot(
    lanes: &mut Lanes,
    lane: LaneId,
    event_type: Option<&EventType>,
    known: Option<(LaneId, TypeSlot)>,
) -> TypeSlot {
    match known {
        Some((of, slot)) if of == lane => slot,
        _ => lanes.type_slot(lane, event_type.map(|event_type| &*event_type.name)),
    }
}

/// PCP's own flags of a record; PARENT only next to ID, as it speaks of the second parameter.
#[inline]
fn record_flags(flags: u8) -> EventFlags {
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

const SHORT: &str = "the frame ends too early";

struct Reader<'a> {
    payload: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    #[inline]
    fn bytes(&mut self, len: usize) -> Result<&'a [u8], Refusal> {
        let end = self.at.checked_add(len);
        match end.and_then(|end| self.payload.get(self.at..end)) {
            Some(bytes) => {
                self.at += len;
                Ok(bytes)
            }
            None => Err(Refusal::at(self.at, Reason::Frame, SHORT)),
        }
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Refusal> {
        match self.payload.get(self.at..).and_then(|rest| rest.first_chunk::<N>()) {
            Some(bytes) => {
                self.at += N;
                Ok(*bytes)
            }
            None => Err(Refusal::at(self.at, Reason::Frame, SHORT)),
        }
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, Refusal> {
        self.array::<1>().map(|[byte]| byte)
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, Refusal> {
        match self.payload.get(self.at) {
            // Nearly all of them.
            Some(byte) if byte & 0x80 == 0 => {
                self.at += 1;
                Ok(u64::from(*byte))
            }
            _ => match varint(self.payload.get(self.at..).unwrap_or_default()) {
                Some((value, width)) => {
                    self.at += width;
                    Ok(value)
                }
                None => Err(Refusal::at(self.at, Reason::Frame, "a number is cut short or too long")),
            },
        }
    }

    #[inline]
    fn time(&mut self, offset: Offset) -> Result<Timestamp, Refusal> {
        let nanos = i64::from_le_bytes(self.array()?).saturating_add(offset.nanos);
        let nsec = nanos.rem_euclid(1_000_000_000) as u32;
        Ok(Timestamp { sec: nanos.div_euclid(1_000_000_000), nsec })
    }

    /// An id whose definition is in `table`.
    #[inline]
    fn defined<'t, T>(&mut self, table: &'t [T]) -> Result<&'t T, Refusal> {
        let at = self.at;
        let id = self.varint()?;
        let index = id.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        index
            .and_then(|index| table.get(index))
            .ok_or_else(|| Refusal::at(at, Reason::Undefined, "a source or field never defined"))
    }

    /// The table index of an id being defined: known already, or the next.
    fn new_id(&mut self, known: usize) -> Result<usize, Refusal> {
        let at = self.at;
        let id = self.varint()?;
        match id.checked_sub(1).and_then(|index| usize::try_from(index).ok()) {
            Some(index) if index <= known && index < MAX_INTERNED => Ok(index),
            _ => Err(Refusal::at(at, Reason::Frame, "ids are handed out from 1 upwards, at most 4096")),
        }
    }

    /// The rest of the payload: a name. `total` grows by it.
    fn name(&mut self, total: &mut usize) -> Result<&'a str, Refusal> {
        let at = self.at;
        let name = self.bytes(self.payload.len() - self.at)?;
        if name.len() > MAX_NAME {
            return Err(Refusal::at(at, Reason::OversizeField, "a name longer than 255 bytes"));
        }
        if *total + name.len() > MAX_NAME_BYTES {
            return Err(Refusal::at(
                at,
                Reason::OversizeField,
                "more than 128 KiB of names on one connection",
            ));
        }
        match std::str::from_utf8(name) {
            Ok(text) if !text.contains('\0') => {
                *total += name.len();
                Ok(text)
            }
            _ => Err(Refusal::at(at, Reason::Encoding, "a name that is not UTF-8, or has a NUL")),
        }
    }

    fn end(&self) -> Result<(), Refusal> {
        if self.at == self.payload.len() {
            return Ok(());
        }
        Err(Refusal::at(self.at, Reason::Frame, "a frame with more in it than there should be"))
    }

    /// A text, cut or refused when too long. PCP's texts cannot hold a NUL.
    #[inline]
    fn text(&mut self, limits: &Limits, truncated: &mut bool) -> Result<&'a [u8], Refusal> {
        let text = self.limited(limits, truncated)?;
        if memchr::memchr(0, text).is_some() {
            return Err(Refusal::at(self.at, Reason::Encoding, "a text with a NUL: send it as aggregate"));
        }
        Ok(text)
    }

    #[inline]
    fn limited(&mut self, limits: &Limits, truncated: &mut bool) -> Result<&'a [u8], Refusal> {
        let at = self.at;
        let len = self.varint()?;
        let bytes = self.bytes(usize::try_from(len).unwrap_or(usize::MAX))?;
        if bytes.len() <= limits.max_field {
            return Ok(bytes);
        }
        if !limits.truncate {
            return Err(Refusal::at(at, Reason::OversizeField, "a text longer than the limit for fields"));
        }
        *truncated = true;
        let mut end = limits.max_field;
        while end > 0 && bytes[end] & 0xc0 == 0x80 {
            end -= 1;
        }
        Ok(&bytes[..end])
    }

    #[inline]
    fn value(
        &mut self,
        value_type: ValueType,
        limits: &Limits,
        truncated: &mut bool,
    ) -> Result<Param<'a>, Refusal> {
        Ok(match value_type {
            ValueType::I32 => Param::I32(i32::from_le_bytes(self.array()?)),
            ValueType::U32 => Param::U32(u32::from_le_bytes(self.array()?)),
            ValueType::I64 => Param::I64(i64::from_le_bytes(self.array()?)),
            ValueType::U64 => Param::U64(u64::from_le_bytes(self.array()?)),
            ValueType::Float => Param::Float(f32::from_le_bytes(self.array()?)),
            ValueType::Double => Param::Double(f64::from_le_bytes(self.array()?)),
            ValueType::String => Param::String(self.text(limits, truncated)?),
            _ => Param::Aggregate(self.limited(limits, truncated)?),
        })
    }

    #[inline]
    fn span_id(
        &mut self,
        flags: u8,
        number: WellKnown,
        text: WellKnown,
        limits: &Limits,
        truncated: &mut bool,
    ) -> Result<(WellKnown, Param<'a>), Refusal> {
        if flags & flag::TEXT_IDS == 0 {
            return Ok((number, Param::U64(u64::from_le_bytes(self.array()?))));
        }
        Ok((text, Param::String(self.text(limits, truncated)?)))
    }
}
