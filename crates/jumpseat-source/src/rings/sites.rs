//! Messages of rings as records: what those of one place in the program have in common is put together once.
//!
//! **Cost:** a record is its span's number, its message and the values of its fields, each with a metric that is known by its place,
//! and three copies. No name is looked up for a record, no allocation.
//!
//! **Bounds:** the table of sites (256 KiB), and what is known of 16384 names, about 100 bytes each: beyond, all begins anew.

use super::reader::Reader;
use crate::binary::{Destination, EventType, Frame};
use crate::delivery::Reason;
use crate::event::{Limits, Refusal, without_nul};
use crate::lanes::{At, InternedField, Lanes, Record};
use crate::registry::WellKnown;
use byteorder::BigEndian;
use jumpseat_wire::MAX_NAME;
use jumpseat_wire::encode::Value;
use jumpseat_wire::ring::message::{DURATION, END, Message, START, next_field, span_id};
use jumpseat_wire::ring::site;
use pcp_event::pack::put_param;
use pcp_event::{EventFlags, Param};
use pcp_model::{Timestamp, ValueType};

/// The places in a program that its messages are from, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Sites {
    /// The table, as far as it was read.
    table: Vec<u8>,
    /// Where each site begins in it, and where the next one will.
    starts: Vec<u32>,
    end: usize,
    places: Vec<Place>,
    common: Common,
    /// Of how many names something is known.
    names: usize,
}

/// What is known of a site.
#[derive(Debug)]
enum Place {
    /// No message was from there.
    New,
    Known(Box<Known>),
    /// The program cannot send its messages.
    Unsent,
    /// There is something wrong with it.
    Refused(Refusal),
}

/// Most names of which something is known.
const MAX_NAMES: usize = 16_384;
/// Most fields of a site: messages name them by a byte, of which one stands for something else.
const MAX_FIELDS: usize = DURATION as usize;

/// Fields that no site names, once there was one.
#[derive(Debug, Default)]
struct Common {
    /// How long a span was.
    duration: Option<InternedField>,
    /// A thread's name and number.
    thread: [Option<InternedField>; 2],
}

/// The names of [`Common::thread`].
const THREAD: [&[u8]; 2] = [b"thread", b"thread_id"];
/// That of [`Common::duration`].
const TOOK: &[u8] = b"duration_ns";

/// A site on this connection.
#[derive(Debug)]
struct Known {
    event_type: EventType,
    /// The event type and the severity, packed.
    head: Vec<u8>,
    /// There may be a message among the fields.
    has_message: bool,
    fields: Vec<Field>,
    /// What part of the program it is in, file and line.
    origin: Vec<(InternedField, Constant)>,
    /// The same, packed.
    packed: Packed,
    /// Whether the thread's name and number go with it.
    thread: [bool; 2],
}

/// A field of a site.
#[derive(Debug)]
struct Field {
    name: Box<[u8]>,
    /// Its first text is the record's message.
    is_message: bool,
    /// The program cannot send it.
    is_long: bool,
    /// For values of the type that came last.
    interned: Option<InternedField>,
}

/// A value that all records of a site have.
#[derive(Debug)]
enum Constant {
    Text(Box<[u8]>),
    Number(u32),
}

/// Parameters as they are in a record, which hold for an epoch of the registry.
#[derive(Debug, Default)]
struct Packed {
    epoch: Option<u32>,
    count: i32,
    bytes: Vec<u8>,
}

impl Sites {
    /// Takes in what the program has added to its table.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn renew(&mut self, reader: &Reader) -> Result<(), &'static str> {
        reader.sites(&mut self.table)?;
        while let Some(len) = self.table.get(self.end..).and_then(site::extent) {
            self.starts.push(self.end as u32);
            self.end += len;
        }
        self.places.resize_with(self.starts.len(), || Place::New);
        Ok(())
    }

    /// Writes a message as a record. What its program cannot have sent either, for want of room in its table or for too long a
    /// name, is missed, and takes no number yet.
    ///
    /// # Errors
    /// Why it is none.
    pub(crate) fn write(
        &mut self,
        message: &Message<'_>,
        to: &mut Destination<'_>,
    ) -> Result<Frame, Refusal> {
        if self.names > MAX_NAMES {
            self.places.iter_mut().for_each(|place| *place = Place::New);
            self.names = 0;
        }
        let number = message.site as usize;
        let time = timestamp(message.time);
        let missed = Frame::Missed { count: 1, time };
        if let Some(Place::New) = self.places.get(number) {
            self.places[number] = self.look_up(number, to);
        }
        let Sites { places, common, .. } = self;
        let known = match places.get_mut(number) {
            Some(Place::Known(known)) => known,
            Some(Place::Refused(refusal)) => return Err(*refusal),
            Some(Place::Unsent | Place::New) | None => return Ok(missed),
        };
        if message.fields.len() > to.limits.max_line {
            return Err(Refusal::at(0, Reason::OversizeLine, "a message longer than the limit"));
        }
        let lane = to.lane;
        let event_type = known.event_type.slot(to.lanes, lane);
        if let Some(number) = to.number {
            if to.lanes.is_there(lane, number) {
                return Ok(Frame::Repeated);
            }
            to.lanes.number(number);
        }
        known.packed.renew(&known.origin, to.lanes);
        let limits = to.limits;
        let mut record =
            to.lanes.begin(At { arrival: &to.arrival, lane, event_type, time, flags: flags(message) });
        let Some(Filled { is_cut, is_new }) = fill(&mut record, (known, common), message, limits)? else {
            return Ok(missed);
        };
        if is_cut {
            record.truncated();
        }
        record.commit().map_err(|_| {
            let detail = "more parameters than a record can hold (256 KiB packed)";
            Refusal::at(0, Reason::OversizeLine, detail)
        })?;
        if is_new {
            known.learn(message, common, to.lanes);
        }
        Ok(Frame::Record { truncated: is_cut })
    }

    /// What there is to know of a site whose first message this is.
    #[cold]
    fn look_up(&mut self, number: usize, to: &mut Destination<'_>) -> Place {
        let start = self.starts.get(number).copied().unwrap_or_default() as usize;
        let Some(mut site) = self.table.get(start..).and_then(site::read) else { return Place::Unsent };
        if site.name.len() > MAX_NAME {
            return Place::Unsent;
        }
        site.fields.truncate(MAX_FIELDS);
        self.names += 4 + site.fields.len();
        match Known::new(&site, to) {
            Ok(known) => Place::Known(Box::new(known)),
            Err(refusal) => Place::Refused(refusal),
        }
    }
}

impl Known {
    fn new(site: &site::Site, to: &mut Destination<'_>) -> Result<Known, Refusal> {
        let is_text = |text: &[u8]| std::str::from_utf8(text).is_ok_and(|text| !text.contains('\0'));
        if ![&site.name, &site.target, &site.file].into_iter().chain(&site.fields).all(|name| is_text(name)) {
            return Err(Refusal::at(0, Reason::Encoding, "a name that is not UTF-8, or has a NUL"));
        }
        let mut head = Vec::new();
        for (field, value) in
            [(WellKnown::Type, &*site.name), (WellKnown::Severity, site.severity.word().as_bytes())]
        {
            put_param::<BigEndian>(&mut head, to.lanes.known(field), &Param::String(value));
        }
        // Fields of the program's own go before.
        let is_free = |name: &[u8]| !site.fields.iter().any(|field| **field == *name);
        let constant = |bytes| {
            let (text, _) = text(to.limits, bytes)?;
            Ok::<_, Refusal>((!text.is_empty()).then(|| Constant::Text(text.into())))
        };
        let mut origin = Vec::new();
        for (name, value) in [
            (&b"target"[..], constant(&site.target)?),
            (b"file", constant(&site.file)?),
            (b"line", (site.line != 0).then_some(Constant::Number(site.line))),
        ] {
            if let Some(value) = value.filter(|_| is_free(name)) {
                origin.push((to.lanes.intern(name, value.param().value_type()), value));
            }
        }
        let field = |name: &[u8]| Field {
            name: name.into(),
            is_message: *name == *b"message",
            is_long: name.len() > MAX_NAME,
            interned: None,
        };
        let fields: Vec<Field> = site.fields.iter().map(|name| field(name)).collect();
        Ok(Known {
            event_type: EventType::new(&site.name),
            head,
            has_message: fields.iter().any(|field| field.is_message),
            fields,
            origin,
            packed: Packed::default(),
            thread: [is_free(b"thread"), is_free(b"thread_id")],
        })
    }

    /// Looks up the fields of a message, for those that come.
    #[cold]
    fn learn(&mut self, message: &Message<'_>, common: &mut Common, lanes: &mut Lanes) {
        let mut learn = |name: &[u8], value_type, interned: &mut Option<InternedField>| {
            if interned.as_ref().is_none_or(|known| known.value_type != value_type) {
                *interned = Some(lanes.intern(name, value_type));
            }
        };
        let (mut fields, mut is_said) = (message.fields, !self.has_message);
        while let Some((index, value)) = next_field(&mut fields) {
            let value_type = ValueType::from_code(value.code().into());
            match self.fields.get_mut(index) {
                Some(field) if !is_said && field.is_message && value_type == ValueType::String => {
                    is_said = true
                }
                Some(field) => learn(&field.name, value_type, &mut field.interned),
                None => learn(TOOK, value_type, &mut common.duration),
            }
        }
        if message.kind != END {
            if let Some(name) = thread_name(self, message) {
                learn(THREAD[0], name.value_type(), &mut common.thread[0]);
            }
            if let Some(number) = thread_number(self, message) {
                learn(THREAD[1], number.value_type(), &mut common.thread[1]);
            }
        }
    }
}

impl Constant {
    fn param(&self) -> Param<'_> {
        match self {
            Constant::Text(text) => Param::String(text),
            Constant::Number(number) => Param::U32(*number),
        }
    }
}

impl Packed {
    /// Makes it hold for this epoch: not if one of the fields has no metric of its own.
    #[inline]
    fn renew(&mut self, params: &[(InternedField, Constant)], lanes: &Lanes) {
        if self.epoch != Some(lanes.epoch()) {
            self.pack(params, lanes);
        }
    }

    #[cold]
    fn pack(&mut self, params: &[(InternedField, Constant)], lanes: &Lanes) {
        *self = Packed { epoch: Some(lanes.epoch()), ..Packed::default() };
        for (field, value) in params {
            let Some(pmid) = lanes.own(field) else {
                (self.count, self.bytes) = (0, Vec::new());
                return;
            };
            put_param::<BigEndian>(&mut self.bytes, pmid, &value.param());
            self.count += 1;
        }
    }
}

/// What was filled in.
struct Filled {
    /// Something was cut off.
    is_cut: bool,
    /// There are fields that are to be looked up.
    is_new: bool,
}

/// Fills in what a message says. `None`: there is a field among it that its program cannot send.
#[inline]
fn fill(
    record: &mut Record<'_>,
    (known, common): (&Known, &Common),
    message: &Message<'_>,
    limits: &Limits,
) -> Result<Option<Filled>, Refusal> {
    for (id, field) in [(message.span, WellKnown::SpanId), (message.parent, WellKnown::ParentId)] {
        if id != 0 {
            record.known(field, Param::String(&span_id(id)));
        }
    }
    record.packed(2, &known.head);
    let (mut is_cut, mut is_new) = (false, false);
    // It stands in front of all fields, and mostly is the first of them.
    let said = if known.has_message { said(known, message) } else { None };
    if let Some(said) = said {
        let (said, cut) = text(limits, said)?;
        is_cut |= cut;
        match said {
            // No text stands for no message; an empty one goes as a field.
            b"" => record.field(b"message", Param::String(b"")),
            _ => record.known(WellKnown::Message, Param::String(said)),
        }
    }
    let (mut fields, mut is_said) = (message.fields, said.is_none());
    while let Some((index, value)) = next_field(&mut fields) {
        let field = known.fields.get(index);
        if !is_said && field.is_some_and(|field| field.is_message) && matches!(value, Value::Text(_)) {
            is_said = true;
            continue;
        }
        let place = match field {
            Some(field) if field.is_long => return Ok(None),
            Some(field) => (&*field.name, &field.interned),
            None if index == usize::from(DURATION) => (TOOK, &common.duration),
            None => {
                let detail = "a field that the message's place in the program does not have";
                return Err(Refusal::at(0, Reason::Undefined, detail));
            }
        };
        is_new |= match value {
            Value::I64(number) => put(record, place, Param::I64(number)),
            Value::U64(number) => put(record, place, Param::U64(number)),
            Value::Double(number) => put(record, place, Param::Double(number)),
            Value::U32(number) => put(record, place, Param::U32(number)),
            Value::Text(value) => {
                let (value, cut) = text(limits, value)?;
                is_cut |= cut;
                put(record, place, Param::String(value))
            }
            // Rings have no others.
            Value::I32(_) | Value::Float(_) | Value::Bytes(_) => continue,
        };
    }
    // The end of a span says no more than its start.
    if message.kind != END {
        put_origin(known, record);
        if let Some(name) = thread_name(known, message) {
            is_new |= put(record, (THREAD[0], &common.thread[0]), name);
        }
        if let Some(number) = thread_number(known, message) {
            is_new |= put(record, (THREAD[1], &common.thread[1]), number);
        }
    }
    Ok(Some(Filled { is_cut, is_new }))
}

/// A text within the limits, and whether it was cut.
#[inline]
fn text<'a>(limits: &Limits, text: &'a [u8]) -> Result<(&'a [u8], bool), Refusal> {
    let (text, is_cut) = limits.bytes(text, 0)?;
    Ok((without_nul(text, 0)?, is_cut))
}

/// The message of a record: the first text of a field that is called so.
#[inline]
fn said<'a>(known: &Known, message: &Message<'a>) -> Option<&'a [u8]> {
    let mut fields = message.fields;
    while let Some((index, value)) = next_field(&mut fields) {
        if let Value::Text(text) = value
            && known.fields.get(index).is_some_and(|field| field.is_message)
        {
            return Some(text);
        }
    }
    None
}

#[inline]
fn put_origin(known: &Known, record: &mut Record<'_>) {
    if known.packed.count as usize == known.origin.len() {
        record.packed(known.packed.count, &known.packed.bytes);
    } else {
        known.origin.iter().for_each(|(field, value)| record.interned(field, value.param()));
    }
}

/// The name of the thread of a message, if it is wanted and there is one.
#[inline]
fn thread_name<'a>(known: &Known, message: &Message<'a>) -> Option<Param<'a>> {
    let thread = message.thread.filter(|thread| known.thread[0] && !thread.name.is_empty())?;
    Some(Param::String(&thread.name))
}

/// Its number, likewise.
#[inline]
fn thread_number(known: &Known, message: &Message<'_>) -> Option<Param<'static>> {
    let thread = message.thread.filter(|thread| known.thread[1] && thread.id != 0)?;
    Some(Param::U64(thread.id))
}

/// Appends a field that was looked up, if it was, for values of this type: or else by its name, and it is to be looked up.
#[inline(always)] // where the type is known, nothing of the value goes through memory
fn put(record: &mut Record<'_>, (name, field): (&[u8], &Option<InternedField>), param: Param<'_>) -> bool {
    match field {
        Some(field) if field.value_type == param.value_type() => {
            record.interned(field, param);
            false
        }
        _ => {
            record.field(name, param);
            true
        }
    }
}

/// The flags of a message's record: PARENT only next to ID, as it speaks of the second parameter.
#[inline]
fn flags(message: &Message<'_>) -> EventFlags {
    let phase = match message.kind {
        START => EventFlags::START,
        END => EventFlags::END,
        _ => EventFlags::POINT,
    };
    match (message.span, message.parent) {
        (0, _) => phase,
        (_, 0) => phase | EventFlags::ID,
        _ => phase | EventFlags::ID | EventFlags::PARENT,
    }
}

/// A time in nanoseconds since the epoch.
#[inline]
pub(crate) fn timestamp(nanos: i64) -> Timestamp {
    let nsec = nanos.rem_euclid(1_000_000_000) as u32;
    Timestamp { sec: nanos.div_euclid(1_000_000_000), nsec }
}
