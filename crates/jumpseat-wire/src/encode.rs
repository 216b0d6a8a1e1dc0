//! Sending the binary framing: records in, bytes out. Names are defined on first use.

use std::fmt;

use rustc_hash::FxHashMap;

use crate::severity::Severity;
use crate::{
    CLOCK, FIELD, HELLO, MAX_INTERNED, MAX_NAME, MAX_NAME_BYTES, MISSED, RECORD, SENDER, SOURCE, SYNC, TYPE,
    USE, flag,
};
use crate::{put_frame, put_text, put_varint};

/// A span id to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id<'a> {
    /// A number.
    U64(u64),
    /// Text.
    Text(&'a [u8]),
}

/// What a record tells of a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// It does not say. The server takes it for a point.
    #[default]
    Unsaid = 0,
    /// Something happened in it, or apart from any span.
    Point = 0x01,
    /// It began.
    Start = 0x02,
    /// It ended.
    End = 0x04,
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// 32-bit signed integer.
    I32(i32),
    /// 32-bit unsigned integer.
    U32(u32),
    /// 64-bit signed integer.
    I64(i64),
    /// 64-bit unsigned integer.
    U64(u64),
    /// Single precision.
    Float(f32),
    /// Double precision.
    Double(f64),
    /// Text.
    Text(&'a [u8]),
    /// Raw bytes.
    Bytes(&'a [u8]),
}

impl Value<'_> {
    /// The type's code in a [`FIELD`] frame: PCP's number of the type.
    pub const fn code(&self) -> u8 {
        match self {
            Value::I32(_) => 0,
            Value::U32(_) => 1,
            Value::I64(_) => 2,
            Value::U64(_) => 3,
            Value::Float(_) => 4,
            Value::Double(_) => 5,
            Value::Text(_) => 6,
            Value::Bytes(_) => 7,
        }
    }
}

/// A record to send. Texts should be UTF-8; they must not hold a NUL.
#[derive(Clone, Copy, Debug, Default)]
pub struct Record<'a> {
    /// When it happened, in nanoseconds since 1970; `None`: the server's clock at arrival.
    pub time: Option<i64>,
    /// What it tells of its span.
    pub phase: Phase,
    /// The source; `None`: the one that [`Encoder::source`] set, or the server's default.
    pub source: Option<&'a str>,
    /// The event type.
    pub event_type: Option<&'a [u8]>,
    /// The severity: a spelling that [`Severity::from_word`] knows goes as a code, others as a field.
    pub severity: Option<&'a [u8]>,
    /// The span.
    pub id: Option<Id<'a>>,
    /// Its parent.
    pub parent: Option<Id<'a>>,
    /// The message.
    pub message: Option<&'a [u8]>,
    /// The other fields: name and value.
    pub fields: &'a [(&'a [u8], Value<'a>)],
}

/// Why a record cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// More names than a connection may define. Open another connection.
    TooManyNames,
    /// A name that is too long.
    Name,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EncodeError::TooManyNames => {
                write!(
                    f,
                    "more than {MAX_INTERNED} different names, or {MAX_NAME_BYTES} bytes of them, on one connection"
                )
            }
            EncodeError::Name => write!(f, "a name longer than {MAX_NAME} bytes"),
        }
    }
}

impl std::error::Error for EncodeError {}

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

    /// Names the sender, 1 to [`MAX_SENDER`](crate::MAX_SENDER) bytes, and says that the next record has this number, from 1.
    pub fn sender(&mut self, id: &[u8], next: u64, out: &mut Vec<u8>) {
        self.payload.clear();
        put_varint(&mut self.payload, next);
        self.payload.extend_from_slice(id);
        put_frame(out, SENDER, &self.payload);
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

    /// Tells that `count` records were lost before those that follow, at `time`: nanoseconds since 1970.
    pub fn missed(&mut self, count: u64, time: i64, out: &mut Vec<u8>) {
        self.payload.clear();
        put_varint(&mut self.payload, count);
        put_time(&mut self.payload, time);
        put_frame(out, MISSED, &self.payload);
    }

    /// Says that the times of records that follow are of a clock of this machine: its code, as the system numbers
    /// clocks.
    pub fn clock(&mut self, code: u8, out: &mut Vec<u8>) {
        put_frame(out, CLOCK, &[code]);
    }

    /// Appends a record, and before it the names it is the first to use.
    ///
    /// # Errors
    /// [`EncodeError`]; nothing but definitions was appended then.
    pub fn record(&mut self, record: &Record<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let code = record.severity.and_then(Severity::from_word);
        // A word of the program's own is no severity, but is not lost either.
        let severity_text = record.severity.filter(|_| code.is_none()).map(Value::Text);
        let ids = [record.id, record.parent].into_iter().flatten();
        // One flag says it of both: a number next to a text goes as text.
        let ids_are_text = ids.clone().any(|id| matches!(id, Id::Text(_)));
        let mut flags = record.phase as u8;
        flags |= if record.id.is_some() { flag::ID } else { 0 };
        flags |= if record.parent.is_some() { flag::PARENT } else { 0 };
        flags |= if ids_are_text { flag::TEXT_IDS } else { 0 };
        flags |= if record.time.is_some() { flag::TIME } else { 0 };
        flags |= if record.source.is_some() { flag::SOURCE } else { 0 };

        // Names that are new are defined in `out` while the record is put together, so that a reader meets them before
        // it. The record itself follows as a whole: a refusal leaves no half of one.
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
            Some(name) => put_varint(&mut payload, self.event_type(name, out)?),
        }
        payload.push(code.map_or(0, Severity::code));
        for id in ids {
            put_id(&mut payload, id, ids_are_text);
        }
        // No text stands for no message; an empty one goes as a field.
        put_text(&mut payload, record.message.unwrap_or_default());
        if record.message.is_some_and(<[u8]>::is_empty) {
            self.param(b"message", &Value::Text(b""), &mut payload, out)?;
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

    /// The number of an event type on this connection, which is defined first if it is new.
    pub(crate) fn event_type(&mut self, name: &[u8], out: &mut Vec<u8>) -> Result<u64, EncodeError> {
        intern(&mut self.types, &mut self.name_bytes, TYPE, name, out)
    }

    fn param(
        &mut self,
        name: &[u8],
        value: &Value<'_>,
        payload: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        put_param(payload, self.field(name, value.code(), out)?, value);
        Ok(())
    }

    /// The number of a field of a type on this connection, which is defined first if it is new.
    pub(crate) fn field(&mut self, name: &[u8], code: u8, out: &mut Vec<u8>) -> Result<u64, EncodeError> {
        // A field's type is part of its definition: one name with two types is two fields.
        let slot = usize::from(code & 7);
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

/// Appends a field of a record: its number on this connection, and its value.
#[inline]
pub(crate) fn put_param(payload: &mut Vec<u8>, id: u64, value: &Value<'_>) {
    match value {
        Value::I32(n) => put_number(payload, id, n.to_le_bytes()),
        Value::U32(n) => put_number(payload, id, n.to_le_bytes()),
        Value::I64(n) => put_number(payload, id, n.to_le_bytes()),
        Value::U64(n) => put_number(payload, id, n.to_le_bytes()),
        Value::Float(n) => put_number(payload, id, n.to_le_bytes()),
        Value::Double(n) => put_number(payload, id, n.to_le_bytes()),
        Value::Text(bytes) | Value::Bytes(bytes) => {
            put_varint(payload, id);
            put_text(payload, bytes);
        }
    }
}

#[inline]
fn put_number<const N: usize>(payload: &mut Vec<u8>, id: u64, value: [u8; N]) {
    put_varint(payload, id);
    payload.extend_from_slice(&value);
}

fn put_time(out: &mut Vec<u8>, nanos: i64) {
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
