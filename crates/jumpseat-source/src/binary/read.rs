//! The payload of a frame, read from its start. Every read is checked against its end.

use crate::clock::Offset;
use crate::delivery::Reason;
use crate::event::{Limits, Refusal, without_nul};
use crate::lanes::{InternedField, Record};
use jumpseat_wire::{MAX_INTERNED, MAX_NAME, MAX_NAME_BYTES, varint};
use pcp_event::Param;
use pcp_model::{Timestamp, ValueType};

const SHORT: &str = "the frame ends too early";

/// A position in a frame's payload, and what is read from there.
pub(super) struct Reader<'a> {
    payload: &'a [u8],
    at: usize,
    limits: &'a Limits,
    is_truncated: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(payload: &'a [u8], limits: &'a Limits) -> Reader<'a> {
        Reader { payload, at: 0, limits, is_truncated: false }
    }

    /// Offset of the next byte.
    #[inline]
    pub(super) fn at(&self) -> usize {
        self.at
    }

    #[inline]
    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.payload.len()
    }

    /// Whether a text was cut.
    #[inline]
    pub(super) fn is_truncated(&self) -> bool {
        self.is_truncated
    }

    #[inline]
    fn bytes(&mut self, len: usize) -> Result<&'a [u8], Refusal> {
        // The length is the sender's, up to 64 bits of it.
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

    /// A number of 64 bits.
    #[inline]
    pub(super) fn u64(&mut self) -> Result<u64, Refusal> {
        self.array().map(u64::from_le_bytes)
    }

    /// The type of a field being defined.
    pub(super) fn value_type(&mut self) -> Result<ValueType, Refusal> {
        let at = self.at;
        let value_type = ValueType::from_code(self.byte()?.into());
        if !(0..=7).contains(&value_type.code()) {
            return Err(Refusal::at(at, Reason::Frame, "a field type that is not 0 to 7"));
        }
        Ok(value_type)
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, Refusal> {
        self.array::<1>().map(|[byte]| byte)
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64, Refusal> {
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

    /// A time in nanoseconds of the sender's clock, as real time.
    #[inline]
    pub(super) fn time(&mut self, offset: Offset) -> Result<Timestamp, Refusal> {
        // Saturates: a time at the end of what the framing can hold stays there.
        let nanos = i64::from_le_bytes(self.array()?).saturating_add(offset.nanos);
        let nsec = nanos.rem_euclid(1_000_000_000) as u32;
        Ok(Timestamp { sec: nanos.div_euclid(1_000_000_000), nsec })
    }

    /// An id whose definition is in `table`.
    #[inline]
    pub(super) fn defined<'t, T>(&mut self, table: &'t [T]) -> Result<&'t T, Refusal> {
        let at = self.at;
        let id = self.varint()?;
        let index = id.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        index
            .and_then(|index| table.get(index))
            .ok_or_else(|| Refusal::at(at, Reason::Undefined, "a source or field never defined"))
    }

    /// The table index of an id being defined: known already, or the next.
    pub(super) fn new_id(&mut self, known: usize) -> Result<usize, Refusal> {
        let at = self.at;
        let id = self.varint()?;
        match id.checked_sub(1).and_then(|index| usize::try_from(index).ok()) {
            // Numbers without gaps make the table a vector, and a known one may be defined anew.
            Some(index) if index <= known && index < MAX_INTERNED => Ok(index),
            _ => Err(Refusal::at(at, Reason::Frame, "ids are handed out from 1 upwards, at most 4096")),
        }
    }

    /// The rest of the payload: a name. `total` grows by it.
    pub(super) fn name(&mut self, total: &mut usize) -> Result<&'a str, Refusal> {
        let at = self.at;
        let name = self.bytes(self.payload.len() - self.at)?;
        if name.len() > MAX_NAME {
            return Err(Refusal::at(at, Reason::OversizeField, "a name longer than 255 bytes"));
        }
        // A connection that defines names for ever would otherwise take memory for ever.
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

    /// Refuses a frame in which there is more.
    pub(super) fn end(&self) -> Result<(), Refusal> {
        if self.at == self.payload.len() {
            return Ok(());
        }
        Err(Refusal::at(self.at, Reason::Frame, "a frame with more in it than there should be"))
    }

    /// A text, cut or refused when too long.
    #[inline]
    pub(super) fn text(&mut self) -> Result<&'a [u8], Refusal> {
        let text = self.limited()?;
        without_nul(text, self.at)
    }

    #[inline]
    fn limited(&mut self) -> Result<&'a [u8], Refusal> {
        let at = self.at;
        let len = self.varint()?;
        let bytes = self.bytes(usize::try_from(len).unwrap_or(usize::MAX))?;
        let (bytes, is_cut) = self.limits.bytes(bytes, at)?;
        self.is_truncated |= is_cut;
        Ok(bytes)
    }

    /// Moves a value of a field's type to a record. What a record does with a value is there once for each type, so that nobody
    /// has to look at the type again.
    #[inline(always)]
    pub(super) fn field(&mut self, field: &InternedField, record: &mut Record<'_>) -> Result<(), Refusal> {
        match field.value_type {
            ValueType::I32 => record.interned(field, Param::I32(i32::from_le_bytes(self.array()?))),
            ValueType::U32 => record.interned(field, Param::U32(u32::from_le_bytes(self.array()?))),
            ValueType::I64 => record.interned(field, Param::I64(i64::from_le_bytes(self.array()?))),
            ValueType::U64 => record.interned(field, Param::U64(u64::from_le_bytes(self.array()?))),
            ValueType::Float => record.interned(field, Param::Float(f32::from_le_bytes(self.array()?))),
            ValueType::Double => record.interned(field, Param::Double(f64::from_le_bytes(self.array()?))),
            ValueType::String => record.interned(field, Param::String(self.text()?)),
            // Definitions allow no other type.
            _ => record.interned(field, Param::Aggregate(self.limited()?)),
        }
        Ok(())
    }
}
