//! Values as they travel in results (spec `wire.md` 7.2 and 7.3).
//!
//! ```text
//! block := type:8 len:24 | len - 4 bytes
//! ```
//!
//! A 32-bit integer stands in its value set, everything else in a block. Numbers are in network order,
//! a string has its NUL, an event array is the block itself, header word included.

use bytes::{Buf, Bytes};

use super::events;
use pcp_model::{PmError, Value, ValueType};

/// A block's header word.
pub(super) const BLOCK_HEADER: usize = 4;
/// Longest block a header word can express.
pub(super) const MAX_BLOCK: usize = 0xff_ffff;
/// `valfmt` of values in place, of blocks, and of blocks whose sender keeps their memory. The last two
/// mean the same to the receiver.
pub(super) const INSITU: i32 = 0;
pub(super) const DPTR: i32 = 1;
pub(super) const SPTR: i32 = 2;

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
pub struct Block(pub(super) Bytes);

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
        bytes.extend_from_slice(&(u32::from(value_type) << 24 | len as u32).to_be_bytes());
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
    /// The value of a metric whose descriptor says `value_type`. What is accepted in place and in
    /// blocks is `pmExtractValue(3)`'s choice (spec `units.md` 9.1), plus static aggregates and events.
    /// Strings end at their first NUL.
    ///
    /// # Errors
    /// [`PmError::CONV`]: the value is not of that type.
    pub fn to_value(&self, value_type: ValueType) -> Result<Value, PmError> {
        match self {
            RawValue::InSitu(word) => match value_type {
                ValueType::I32 | ValueType::Unknown => Ok(Value::I32(i32::from_be_bytes(*word))),
                ValueType::U32 => Ok(Value::U32(u32::from_be_bytes(*word))),
                ValueType::Float => Ok(Value::Float(f32::from_be_bytes(*word))),
                _ => Err(PmError::CONV),
            },
            RawValue::Block(block) => block.to_value(value_type).ok_or(PmError::CONV),
        }
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

    /// The number for the set's `valfmt`; the two for blocks mean the same.
    pub(super) fn format(&self) -> i32 {
        const AGGREGATE_STATIC: u8 = 8;
        match self {
            RawValue::InSitu(_) => INSITU,
            RawValue::Block(block) => match block.value_type() {
                AGGREGATE_STATIC | events::EVENT | events::HIGHRES_EVENT => SPTR,
                _ => DPTR,
            },
        }
    }
}

impl Block {
    fn to_value(&self, value_type: ValueType) -> Option<Value> {
        let (code, mut data) = (i32::from(self.value_type()), self.data());
        let typed = code == value_type.code() || code == ValueType::I32.code();
        let number = |len| typed && data.len() == len;
        Some(match value_type {
            ValueType::Float if number(4) => Value::Float(data.get_f32()),
            ValueType::I64 if number(8) => Value::I64(data.get_i64()),
            ValueType::U64 if number(8) => Value::U64(data.get_u64()),
            ValueType::Double if number(8) => Value::Double(data.get_f64()),
            ValueType::String if typed => {
                data.truncate(data.iter().position(|&byte| byte == 0).unwrap_or(data.len()));
                Value::String(data)
            }
            ValueType::Aggregate | ValueType::AggregateStatic
                if typed
                    || code == ValueType::Aggregate.code()
                    || code == ValueType::AggregateStatic.code() =>
            {
                Value::Aggregate(data)
            }
            ValueType::Event if code == value_type.code() => Value::Event(self.0.clone()),
            ValueType::HighResEvent if code == value_type.code() => Value::HighResEvent(self.0.clone()),
            _ => return None,
        })
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
