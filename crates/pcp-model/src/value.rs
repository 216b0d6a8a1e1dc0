//! Metric values and what a fetch returns.

use bytes::Bytes;

use super::{Inst, PM_IN_NULL, PmError, Pmid, Timestamp, ValueType};

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
}

macro_rules! from_number {
    ($($rust:ty => $variant:ident),* $(,)?) => {
        $(impl From<$rust> for Value {
            fn from(value: $rust) -> Value {
                Value::$variant(value)
            }
        })*
    };
}
from_number!(i32 => I32, u32 => U32, i64 => I64, u64 => U64, f32 => Float, f64 => Double);

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
