//! Metric values and what a fetch returns.

use std::fmt;

use bytes::Bytes;

use super::{Inst, Number, PM_IN_NULL, PmError, Pmid, Timestamp, ValueType};

/// One value of a metric. Text is bytes: PCP promises no encoding; neither text nor aggregates carry
/// a terminating NUL here.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
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
    /// Text without its NUL.
    String(Bytes),
    /// Raw bytes.
    Aggregate(Bytes),
    /// A packed event array in network byte order, header word included.
    Event(Bytes),
    /// A packed high-resolution event array in network byte order, header word included.
    HighResEvent(Bytes),
}

impl Value {
    /// The type of this value.
    pub fn value_type(&self) -> ValueType {
        match self {
            Value::I32(_) => ValueType::I32,
            Value::U32(_) => ValueType::U32,
            Value::I64(_) => ValueType::I64,
            Value::U64(_) => ValueType::U64,
            Value::Float(_) => ValueType::Float,
            Value::Double(_) => ValueType::Double,
            Value::String(_) => ValueType::String,
            Value::Aggregate(_) => ValueType::Aggregate,
            Value::Event(_) => ValueType::Event,
            Value::HighResEvent(_) => ValueType::HighResEvent,
        }
    }

    /// The number, if it is one.
    #[inline]
    pub const fn number(&self) -> Option<Number> {
        Some(match *self {
            Value::I32(v) => Number::I32(v),
            Value::U32(v) => Number::U32(v),
            Value::I64(v) => Number::I64(v),
            Value::U64(v) => Number::U64(v),
            Value::Float(v) => Number::Float(v),
            Value::Double(v) => Number::Double(v),
            _ => return None,
        })
    }

    /// This value as another type: numbers as [`Number::convert`] does, text and aggregates only to what they are.
    ///
    /// # Errors
    /// Those of [`Number::convert`]; `PM_ERR_CONV` for pairs of types that do not convert.
    pub fn convert(&self, to: ValueType) -> Result<Value, PmError> {
        match self {
            Value::String(_) if to == ValueType::String => Ok(self.clone()),
            Value::Aggregate(_) if to == ValueType::Aggregate => Ok(self.clone()),
            _ => self.number().ok_or(PmError::CONV)?.convert(to).map(Value::from),
        }
    }

    /// The value a text stands for in a type: itself, or what [`Number::parse`] reads.
    ///
    /// # Errors
    /// Those of [`Number::parse`]; `PM_ERR_TYPE` for a type that is not of numbers or text.
    pub fn parse(text: &str, to: ValueType) -> Result<Value, PmError> {
        match to {
            ValueType::String => Ok(Value::String(Bytes::copy_from_slice(text.as_bytes()))),
            _ => Number::parse(text, to).map(Value::from),
        }
    }
}

impl fmt::Display for Value {
    /// Numbers as Rust prints them, text as it is; of all else how many bytes there are. What PCP's tools print is
    /// [`Value::print`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::String(text) => String::from_utf8_lossy(text).fmt(f),
            Value::Aggregate(bytes) | Value::Event(bytes) | Value::HighResEvent(bytes) => {
                write!(f, "[{} bytes]", bytes.len())
            }
            Value::I32(v) => v.fmt(f),
            Value::U32(v) => v.fmt(f),
            Value::I64(v) => v.fmt(f),
            Value::U64(v) => v.fmt(f),
            Value::Float(v) => v.fmt(f),
            Value::Double(v) => v.fmt(f),
        }
    }
}

impl From<Number> for Value {
    #[inline]
    fn from(number: Number) -> Value {
        match number {
            Number::I32(v) => Value::I32(v),
            Number::U32(v) => Value::U32(v),
            Number::I64(v) => Value::I64(v),
            Number::U64(v) => Value::U64(v),
            Number::Float(v) => Value::Float(v),
            Number::Double(v) => Value::Double(v),
        }
    }
}

macro_rules! from_number {
    ($($rust:ty),*) => {
        $(impl From<$rust> for Value {
            fn from(value: $rust) -> Value {
                Number::from(value).into()
            }
        })*
    };
}
from_number!(i32, u32, i64, u64, f32, f64);

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Value {
        Value::String(Bytes::from_static(text.as_bytes()))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::String(Bytes::from(text))
    }
}

/// A value and the instance it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceValue {
    /// The instance, or [`PM_IN_NULL`].
    pub inst: Inst,
    /// Its value.
    pub value: Value,
}

/// What a fetch returned for one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueSet {
    /// The metric asked for.
    pub pmid: Pmid,
    /// A value for each instance that has one, or why the metric has none.
    pub values: Result<Vec<InstanceValue>, PmError>,
}

impl ValueSet {
    /// The value set of a singular metric.
    pub fn singular(pmid: Pmid, value: impl Into<Value>) -> ValueSet {
        ValueSet { pmid, values: Ok(vec![InstanceValue { inst: PM_IN_NULL, value: value.into() }]) }
    }
}

/// What a fetch returned: one value set for each metric asked for, in that order.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchResult {
    /// When the values were collected.
    pub timestamp: Timestamp,
    /// The value sets.
    pub sets: Vec<ValueSet>,
}

/// An instance of an instance domain: its internal and external name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Internal identifier, 0..=2^31-1.
    pub id: Inst,
    /// External name.
    pub name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_print_themselves() {
        assert_eq!(Value::I64(-3).to_string(), "-3");
        assert_eq!(Value::Double(1.5).to_string(), "1.5");
        assert_eq!(Value::from("a text").to_string(), "a text");
        assert_eq!(Value::String(Bytes::from_static(b"\xff!")).to_string(), "\u{fffd}!");
        assert_eq!(Value::Aggregate(Bytes::from_static(b"abc")).to_string(), "[3 bytes]");
    }
}
