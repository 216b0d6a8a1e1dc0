//! Values as they travel (`docs/pcp/wire.md` 7.2 and 7.3).
//!
//! A 32-bit integer stands in its value set, everything else in a block. Numbers are in network order,
//! a string has its NUL, an event array is the block itself, header word included.

use bytes::Bytes;

use super::{BLOCK_HEADER, DPTR, MAX_BLOCK, SPTR};
use crate::events;
use pcp_model::{Number, PmError, Value, ValueType};

/// A value where it is: four bytes in network order, or a block with its header word, without padding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueRef<'a> {
    /// A 32-bit value, whose type only the descriptor tells.
    InSitu([u8; 4]),
    /// Anything else.
    Block(&'a [u8]),
}

/// A value whose type is known, where it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TypedRef<'a> {
    /// A number.
    Number(Number),
    /// A string, up to its first NUL.
    Text(&'a [u8]),
    /// Raw bytes.
    Aggregate(&'a [u8]),
    /// An event array, header word included, of either type.
    Events(ValueType, &'a [u8]),
}

impl<'a> ValueRef<'a> {
    /// The value, of a metric whose descriptor says `value_type`. What is accepted in place and in blocks is
    /// `pmExtractValue(3)`'s choice (`docs/pcp/units.md` 9.1), plus static aggregates and events.
    ///
    /// # Errors
    /// `PM_ERR_CONV`: the value is not of that type.
    #[inline]
    pub fn typed(self, value_type: ValueType) -> Result<TypedRef<'a>, PmError> {
        match self.usual_number(value_type) {
            Some(number) => Ok(TypedRef::Number(number)),
            None => self.typed_otherwise(value_type),
        }
    }

    /// The value, if it is a number sent in the usual way for its type; all others are left to [`ValueRef::typed`]. For
    /// loops over many values: what is made of the number at once never goes through memory.
    #[inline(always)]
    pub fn usual_number(self, value_type: ValueType) -> Option<Number> {
        let eight = || match self {
            ValueRef::Block(&[code, _, _, _, a, b, c, d, e, f, g, h]) if holds(code, value_type) => {
                Some([a, b, c, d, e, f, g, h])
            }
            _ => None,
        };
        match (value_type, self) {
            (ValueType::I32, ValueRef::InSitu(word)) => Some(i32::from_be_bytes(word).into()),
            (ValueType::U32, ValueRef::InSitu(word)) => Some(u32::from_be_bytes(word).into()),
            (ValueType::I64, _) => eight().map(|bytes| i64::from_be_bytes(bytes).into()),
            (ValueType::U64, _) => eight().map(|bytes| u64::from_be_bytes(bytes).into()),
            (ValueType::Double, _) => eight().map(|bytes| f64::from_be_bytes(bytes).into()),
            (ValueType::Float, ValueRef::Block(&[code, _, _, _, a, b, c, d])) if holds(code, value_type) => {
                Some(f32::from_be_bytes([a, b, c, d]).into())
            }
            _ => None,
        }
    }

    /// What is no number, or one sent in an unusual way.
    #[inline(never)]
    fn typed_otherwise(self, value_type: ValueType) -> Result<TypedRef<'a>, PmError> {
        match (value_type, self) {
            (ValueType::Unknown, ValueRef::InSitu(word)) => {
                Ok(TypedRef::Number(i32::from_be_bytes(word).into()))
            }
            (ValueType::Float, ValueRef::InSitu(word)) => {
                Ok(TypedRef::Number(f32::from_be_bytes(word).into()))
            }
            (ValueType::String, _) => self.text().map(TypedRef::Text),
            (_, ValueRef::Block(block)) => bytes_of(block, value_type).ok_or(PmError::CONV),
            _ => Err(PmError::CONV),
        }
    }

    /// As [`ValueRef::typed`]; text, aggregates and events are copied.
    ///
    /// # Errors
    /// `PM_ERR_CONV`: the value is not of that type.
    pub fn to_value(self, value_type: ValueType) -> Result<Value, PmError> {
        Ok(self.typed(value_type)?.to_value(Bytes::copy_from_slice))
    }

    /// The bytes of a string, up to its first NUL.
    ///
    /// # Errors
    /// `PM_ERR_CONV`: the value is no string.
    #[inline]
    pub fn text(self) -> Result<&'a [u8], PmError> {
        match self {
            ValueRef::Block([code, _, _, _, text @ ..]) if holds(*code, ValueType::String) => {
                Ok(text.split(|&byte| byte == 0).next().unwrap_or_default())
            }
            _ => Err(PmError::CONV),
        }
    }
}

impl<'a> TypedRef<'a> {
    fn to_value(self, own: impl FnOnce(&'a [u8]) -> Bytes) -> Value {
        match self {
            TypedRef::Number(number) => number.into(),
            TypedRef::Text(text) => Value::String(own(text)),
            TypedRef::Aggregate(bytes) => Value::Aggregate(own(bytes)),
            TypedRef::Events(ValueType::Event, array) => Value::Event(own(array)),
            TypedRef::Events(_, array) => Value::HighResEvent(own(array)),
        }
    }
}

/// An aggregate or an event array.
fn bytes_of(block: &[u8], value_type: ValueType) -> Option<TypedRef<'_>> {
    let (&[code, ..], data) = block.split_first_chunk::<BLOCK_HEADER>()?;
    let is = |value_type: ValueType| i32::from(code) == value_type.code();
    match value_type {
        // Aggregates are the same to the receiver whether their sender keeps the memory or not.
        ValueType::Aggregate | ValueType::AggregateStatic
            if holds(code, value_type) || is(ValueType::Aggregate) || is(ValueType::AggregateStatic) =>
        {
            Some(TypedRef::Aggregate(data))
        }
        ValueType::Event | ValueType::HighResEvent if is(value_type) => {
            Some(TypedRef::Events(value_type, block))
        }
        _ => None,
    }
}

/// Whether a block of this type number holds a value of the type: 0 stands for any.
#[inline]
fn holds(code: u8, value_type: ValueType) -> bool {
    i32::from(code) == value_type.code() || i32::from(code) == ValueType::I32.code()
}

/// The block at an offset, header word included, padding not.
#[inline]
pub(super) fn block_at(data: &[u8], at: usize) -> Option<&[u8]> {
    let rest = data.get(at..)?;
    let len = u32::from_be_bytes(*rest.first_chunk()?) as usize & MAX_BLOCK;
    rest.get(..len).filter(|_| len >= BLOCK_HEADER)
}

/// The header word of a block with so many bytes of data.
#[inline]
pub(super) fn block_header(value_type: u8, data: usize) -> [u8; BLOCK_HEADER] {
    debug_assert!(data <= MAX_BLOCK - BLOCK_HEADER, "the length of a block has 24 bits");
    (u32::from(value_type) << 24 | (BLOCK_HEADER + data) as u32).to_be_bytes()
}

/// The `valfmt` of blocks of a type, as libpcp gives it.
pub(super) fn block_format(value_type: u8) -> i32 {
    const AGGREGATE_STATIC: u8 = ValueType::AggregateStatic as u8;
    match value_type {
        AGGREGATE_STATIC | events::EVENT | events::HIGHRES_EVENT => SPTR,
        _ => DPTR,
    }
}

/// A value as it travels: four bytes in place, whose type only the descriptor tells, or a block.
#[derive(Clone, Debug, PartialEq)]
pub enum RawValue {
    /// The four bytes of a 32-bit value.
    InSitu([u8; 4]),
    /// Anything else.
    Block(Block),
}

/// A value block: a header word with type and length, and that many bytes, without padding.
#[derive(Clone, PartialEq)]
pub struct Block(pub(crate) Bytes);

impl Block {
    /// A block of `data`.
    ///
    /// # Errors
    /// The length of the block, if that is more than the 16777215 bytes which fit.
    pub fn new(value_type: u8, data: &[u8]) -> Result<Block, usize> {
        let len = BLOCK_HEADER + data.len();
        if len > MAX_BLOCK {
            return Err(len);
        }
        let mut bytes = Vec::with_capacity(len);
        bytes.extend_from_slice(&block_header(value_type, data.len()));
        bytes.extend_from_slice(data);
        Ok(Block(bytes.into()))
    }

    /// The type number in the header word. The protocol allows any.
    pub fn value_type(&self) -> u8 {
        self.0.first().copied().unwrap_or_default()
    }

    /// The bytes behind the header word: a string with its NUL, a number in network order.
    pub fn data(&self) -> Bytes {
        self.0.slice(BLOCK_HEADER.min(self.0.len())..)
    }

    /// The whole block, header word included.
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Block(type {}, \"{}\")", self.value_type(), self.data().escape_ascii())
    }
}

impl RawValue {
    /// The value where it is.
    pub fn view(&self) -> ValueRef<'_> {
        match self {
            RawValue::InSitu(word) => ValueRef::InSitu(*word),
            RawValue::Block(block) => ValueRef::Block(&block.0),
        }
    }

    /// As [`ValueRef::typed`]; text, aggregates and events share the block's memory.
    ///
    /// # Errors
    /// [`PmError::CONV`]: the value is not of that type.
    pub fn to_value(&self, value_type: ValueType) -> Result<Value, PmError> {
        let share = |bytes: &[u8]| match self {
            RawValue::InSitu(_) => Bytes::new(),
            RawValue::Block(block) => block.0.slice_ref(bytes),
        };
        Ok(self.view().typed(value_type)?.to_value(share))
    }

    /// How `value` travels.
    ///
    /// # Errors
    /// The length of its block, if that is more than fits. An event array must be a packed one.
    pub fn from_value(value: &Value) -> Result<RawValue, usize> {
        let code = value.value_type().code() as u8;
        let block = match value {
            Value::I32(v) => return Ok(RawValue::InSitu(v.to_be_bytes())),
            Value::U32(v) => return Ok(RawValue::InSitu(v.to_be_bytes())),
            Value::I64(v) => Block::new(code, &v.to_be_bytes()),
            Value::U64(v) => Block::new(code, &v.to_be_bytes()),
            Value::Float(v) => Block::new(code, &v.to_be_bytes()),
            Value::Double(v) => Block::new(code, &v.to_be_bytes()),
            Value::String(text) => Block::new(code, &[&text[..], b"\0"].concat()),
            Value::Aggregate(bytes) => Block::new(code, bytes),
            Value::Event(array) | Value::HighResEvent(array) => {
                Block::new(code, array.get(BLOCK_HEADER..).unwrap_or(&[0; 4]))
            }
        };
        block.map(RawValue::Block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_taken_as_the_real_library_takes_them() {
        let block = |value_type, data: &[u8]| RawValue::Block(Block::new(value_type, data).unwrap());
        let word = RawValue::InSitu([0x3f, 0xc0, 0, 0]);
        assert_eq!(word.to_value(ValueType::Float), Ok(Value::Float(1.5)));
        assert_eq!(word.to_value(ValueType::Unknown), Ok(Value::I32(0x3fc0_0000)));
        assert_eq!(word.to_value(ValueType::I64), Err(PmError::CONV));
        assert_eq!(block(0, &[0; 8]).to_value(ValueType::U64), Ok(Value::U64(0)));
        assert_eq!(block(2, &[0; 8]).to_value(ValueType::U64), Err(PmError::CONV));
        assert_eq!(block(3, &[0; 4]).to_value(ValueType::U64), Err(PmError::CONV));
        assert_eq!(block(0, &[0; 4]).to_value(ValueType::I32), Err(PmError::CONV));
        assert_eq!(block(6, b"ab").to_value(ValueType::String), Ok("ab".into()));
        assert_eq!(block(6, b"a\0b").to_value(ValueType::String), Ok("a".into()));
        assert_eq!(block(6, b"a\0").to_value(ValueType::Event), Err(PmError::CONV));
        assert_eq!(block(8, b"a").to_value(ValueType::Aggregate), Ok(Value::Aggregate(b"a"[..].into())));
    }
}
