//! Sending the binary framing: records in, bytes out. Names are defined on first use.

use rustc_hash::FxHashMap;

use super::{
    FIELD, HELLO, MAX_INTERNED, MAX_NAME, MAX_NAME_BYTES, MISSED, RECORD, SOURCE, SYNC, TYPE, USE, flag,
};
use super::{put_frame, put_text, put_varint};
use crate::event::{EventFlags, Param};
use crate::model::{Timestamp, ValueType};
#[cfg(feature = "source")]
use crate::source::clock::SenderClock;
#[cfg(feature = "source")]
use crate::source::event::{Event, Severity, SpanId, Value};
use crate::source::severity;

/// A span id to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id<'a> {
    /// A number.
    U64(u64),
    /// Text.
    Text(&'a [u8]),
}

/// A record to send. Texts should be UTF-8; they must not hold a NUL.
#[derive(Clone, Copy, Debug, Default)]
pub struct Record<'a> {
    /// When it happened; `None`: the server's clock at arrival.
    pub time: Option<Timestamp>,
    /// POINT, START or END; 0 is POINT. ID and PARENT follow from `id` and `parent`.
    pub phase: EventFlags,
    /// The source; `None`: the one that [`Encoder::source`] set, or the server's default.
    pub source: Option<&'a str>,
    /// The event type.
    pub event_type: Option<&'a [u8]>,
    /// The severity: a spelling that [`severity::from_word`] knows goes as a code, others as a field.
    pub severity: Option<&'a [u8]>,
    /// The span.
    pub id: Option<Id<'a>>,
    /// Its parent.
    pub parent: Option<Id<'a>>,
    /// The message.
    pub message: Option<&'a [u8]>,
    /// The other fields: name and value.
    pub fields: &'a [(&'a [u8], Param<'a>)],
}

/// Why a record cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// More names than a connection may define. Open another connection.
    #[error("more than {MAX_INTERNED} different names, or {MAX_NAME_BYTES} bytes of them, on one connection")]
    TooManyNames,
    /// A name that is too long.
    #[error("a name longer than {MAX_NAME} bytes")]
    Name,
}

/// The sending side of a connection.
#[derive(Debug, Default)]
pub struct Encoder {
    sources: FxHashMap<Box<[u8]>, u64>,
    types: FxHashMap<Box<[u8]>, u64>,
    fields: FxHashMap<Box<[u8]>, [u64; 8]>,
    field_count: u64,
    name_bytes: usize,
    payload: Vec<u8>,
}

impl Encoder {
    /// A connection's encoder; appends the hello to `out`.
    pub fn new(out: &mut Vec<u8>) -> Encoder {
        out.extend_from_slice(&HELLO);
        Encoder::default()
    }

    /// Makes a source the current one.
    ///
    /// # Errors
    /// [`EncodeError`].
    pub fn source(&mut self, name: &str, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let id = intern(&mut self.sources, &mut self.name_bytes, SOURCE, name.as_bytes(), out)?;
        self.payload.clear();
        put_varint(&mut self.payload, id);
        put_frame(out, USE, &self.payload);
        Ok(())
    }

    /// Appends a SYNC frame: the server answers with an ACK of the same token.
    pub fn sync(&mut self, token: u64, out: &mut Vec<u8>) {
        self.payload.clear();
        put_varint(&mut self.payload, token);
        put_frame(out, SYNC, &self.payload);
    }

    /// Tells that `count` records were lost before those that follow.
    pub fn missed(&mut self, count: u64, time: Timestamp, out: &mut Vec<u8>) {
        self.payload.clear();
        put_varint(&mut self.payload, count);
        put_time(&mut self.payload, time);
        put_frame(out, MISSED, &self.payload);
    }

    /// Says that the times of records that follow are of this clock of this machine.
    #[cfg(feature = "source")]
    pub fn clock(&mut self, clock: SenderClock, out: &mut Vec<u8>) {
        put_frame(out, super::CLOCK, &[clock.code()]);
    }

    /// Appends a record, and before it the names it is the first to use.
    ///
    /// # Errors
    /// [`EncodeError`]; nothing but definitions was appended then.
    pub fn record(&mut self, record: &Record<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let code = record.severity.and_then(severity::from_word);
        let severity_text = record.severity.filter(|_| code.is_none()).map(Param::String);
        let ids = [record.id, record.parent].into_iter().flatten();
        let ids_are_text = ids.clone().any(|id| matches!(id, Id::Text(_)));
        let mut flags = record.phase.0 as u8 & 0x07;
        flags |= if record.id.is_some() { EventFlags::ID.0 as u8 } else { 0 };
        flags |= if record.parent.is_some() { EventFlags::PARENT.0 as u8 } else { 0 };
        flags |= if ids_are_text { flag::TEXT_IDS } else { 0 };
        flags |= if record.time.is_some() { flag::TIME } else { 0 };
        flags |= if record.source.is_some() { flag::SOURCE } else { 0 };

        let mut payload = std::mem::take(&mut self.payload);
        payload.clear();
        payload.push(flags);
        if let Some(time) = record.time {
            put_time(&mut payload, time);
        }
        if let Some(source) = record.source {
            put_varint(
                &mut payload,
                intern(&mut self.sources, &mut self.name_bytes, SOURCE, source.as_bytes(), out)?,
            );
        }
        match record.event_type {
            None => payload.push(0),
            Some(name) => {
                put_varint(&mut payload, intern(&mut self.types, &mut self.name_bytes, TYPE, name, out)?)
            }
        }
        payload.push(code.map_or(0, |word| {
            severity::WORDS.iter().position(|known| *known == word).map_or(0, |index| index as u8 + 1)
        }));
        for id in ids {
            put_id(&mut payload, id, ids_are_text);
        }
        // No text stands for no message; an empty one goes as a field.
        put_text(&mut payload, record.message.unwrap_or_default());
        if record.message.is_some_and(<[u8]>::is_empty) {
            self.param(b"message", &Param::String(b""), &mut payload, out)?;
        }
        if let Some(value) = severity_text {
            self.param(b"severity", &value, &mut payload, out)?;
        }
        for (name, value) in record.fields {
            self.param(name, value, &mut payload, out)?;
        }
        put_frame(out, RECORD, &payload);
        self.payload = payload;
        Ok(())
    }

    /// Appends an event that was parsed from `input`.
    ///
    /// # Errors
    /// [`EncodeError`]; nothing but definitions was appended then.
    #[cfg(feature = "source")]
    pub fn event(&mut self, input: &[u8], event: &Event, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let text = |text| event.text(input, text);
        let id = |id| match id {
            SpanId::U64(n) => Id::U64(n),
            SpanId::Text(t) => Id::Text(text(t)),
        };
        let fields: Vec<(&[u8], Param<'_>)> = event
            .fields
            .iter()
            .map(|field| {
                let value = match field.value {
                    Value::I64(n) => Param::I64(n),
                    Value::U64(n) => Param::U64(n),
                    Value::Double(n) => Param::Double(n),
                    Value::Bool(b) => Param::U32(u32::from(b)),
                    Value::Text(t) => Param::String(text(t)),
                };
                (text(field.name), value)
            })
            .collect();
        let record = Record {
            time: event.time,
            phase: event.phase,
            source: event.source.and_then(|source| std::str::from_utf8(text(source)).ok()),
            event_type: event.event_type.map(text),
            severity: event.severity.map(|severity| match severity {
                Severity::Word(word) => word.as_bytes(),
                Severity::Text(t) => text(t),
            }),
            id: event.id.map(id),
            parent: event.parent.map(id),
            message: event.message.map(text),
            fields: &fields,
        };
        self.record(&record, out)
    }

    fn param(
        &mut self,
        name: &[u8],
        value: &Param<'_>,
        payload: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let id = self.field(name, value.value_type(), out)?;
        put_varint(payload, id);
        match value {
            Param::I32(n) => payload.extend_from_slice(&n.to_le_bytes()),
            Param::U32(n) => payload.extend_from_slice(&n.to_le_bytes()),
            Param::I64(n) => payload.extend_from_slice(&n.to_le_bytes()),
            Param::U64(n) => payload.extend_from_slice(&n.to_le_bytes()),
            Param::Float(n) => payload.extend_from_slice(&n.to_le_bytes()),
            Param::Double(n) => payload.extend_from_slice(&n.to_le_bytes()),
            Param::String(bytes) | Param::Aggregate(bytes) => put_text(payload, bytes),
        }
        Ok(())
    }

    fn field(&mut self, name: &[u8], value_type: ValueType, out: &mut Vec<u8>) -> Result<u64, EncodeError> {
        let slot = value_type.code() as usize & 7;
        let known = self.fields.get(name).map_or(0, |by_type| by_type[slot]);
        if known != 0 {
            return Ok(known);
        }
        check(name, self.field_count, &mut self.name_bytes)?;
        self.field_count += 1;
        self.fields.entry(name.into()).or_default()[slot] = self.field_count;
        let mut payload = Vec::with_capacity(name.len() + 4);
        put_varint(&mut payload, self.field_count);
        payload.push(slot as u8);
        payload.extend_from_slice(name);
        put_frame(out, FIELD, &payload);
        Ok(self.field_count)
    }
}

fn put_time(out: &mut Vec<u8>, time: Timestamp) {
    let nanos = time.as_nanos().clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    out.extend_from_slice(&nanos.to_le_bytes());
}

/// Ids of one record are all texts or all numbers; a number among texts is written as text.
fn put_id(out: &mut Vec<u8>, id: Id<'_>, as_text: bool) {
    match id {
        Id::Text(text) => put_text(out, text),
        Id::U64(n) if as_text => put_text(out, n.to_string().as_bytes()),
        Id::U64(n) => out.extend_from_slice(&n.to_le_bytes()),
    }
}

fn intern(
    table: &mut FxHashMap<Box<[u8]>, u64>,
    name_bytes: &mut usize,
    kind: u8,
    name: &[u8],
    out: &mut Vec<u8>,
) -> Result<u64, EncodeError> {
    if let Some(id) = table.get(name) {
        return Ok(*id);
    }
    check(name, table.len() as u64, name_bytes)?;
    let id = table.len() as u64 + 1;
    table.insert(name.into(), id);
    let mut payload = Vec::with_capacity(name.len() + 2);
    put_varint(&mut payload, id);
    payload.extend_from_slice(name);
    put_frame(out, kind, &payload);
    Ok(id)
}

fn check(name: &[u8], defined: u64, name_bytes: &mut usize) -> Result<(), EncodeError> {
    if name.len() > MAX_NAME {
        return Err(EncodeError::Name);
    }
    if defined >= MAX_INTERNED as u64 || *name_bytes + name.len() > MAX_NAME_BYTES {
        return Err(EncodeError::TooManyNames);
    }
    *name_bytes += name.len();
    Ok(())
}
