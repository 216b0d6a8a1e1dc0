//! A number of one of PCP's six arithmetic types.

use std::fmt;

use super::ValueType;

/// A number, in the type in which it came. Under [`Value`](super::Value)s, parameters of event records and
/// outputs of fetch groups: how PCP converts and reads numbers is said here, once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
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
}

impl Number {
    /// The type of this number; one of [`ValueType::NUMERIC`].
    pub const fn value_type(self) -> ValueType {
        match self {
            Number::I32(_) => ValueType::I32,
            Number::U32(_) => ValueType::U32,
            Number::I64(_) => ValueType::I64,
            Number::U64(_) => ValueType::U64,
            Number::Float(_) => ValueType::Float,
            Number::Double(_) => ValueType::Double,
        }
    }

    /// In double precision; 64-bit integers are rounded.
    #[inline]
    pub const fn to_f64(self) -> f64 {
        match self {
            Number::I32(v) => v as f64,
            Number::U32(v) => v as f64,
            Number::I64(v) => v as f64,
            Number::U64(v) => v as f64,
            Number::Float(v) => v as f64,
            Number::Double(v) => v,
        }
    }
}

impl fmt::Display for Number {
    /// As Rust prints it; what `pmPrintValue(3)` prints is [`Value::print`](super::Value::print).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::I32(v) => v.fmt(f),
            Number::U32(v) => v.fmt(f),
            Number::I64(v) => v.fmt(f),
            Number::U64(v) => v.fmt(f),
            Number::Float(v) => v.fmt(f),
            Number::Double(v) => v.fmt(f),
        }
    }
}

macro_rules! from_number {
    ($($rust:ty => $variant:ident),* $(,)?) => {
        $(impl From<$rust> for Number {
            fn from(value: $rust) -> Number {
                Number::$variant(value)
            }
        })*
    };
}
from_number!(i32 => I32, u32 => U32, i64 => I64, u64 => U64, f32 => Float, f64 => Double);
