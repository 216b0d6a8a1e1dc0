//! One value as it came: read in place, not yet cast.

use super::cell::Number;
use pcp_event::Param;
use pcp_model::{PmError, Value, ValueType};
use pcp_pdu::ValueRef;

/// A number, or a text without its NUL.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scalar<'a> {
    I32(i32),
    U32(u32),
    I64(i64),
    U64(u64),
    Float(f32),
    Double(f64),
    Text(&'a [u8]),
}

impl<'a> Scalar<'a> {
    /// A value of a fetch, of a metric of type `from`.
    ///
    /// # Errors
    /// `PM_ERR_CONV`: the value is of another type.
    #[inline(always)]
    pub fn of(value: ValueRef<'a>, from: ValueType) -> Result<Scalar<'a>, PmError> {
        let typed = |code: u8| i32::from(code) == from.code() || code == 0;
        let eight = || match value {
            ValueRef::Block(&[code, _, _, _, a, b, c, d, e, f, g, h]) if typed(code) => {
                Some([a, b, c, d, e, f, g, h])
            }
            _ => None,
        };
        // The usual ways to send the type; all else is left to the general way.
        let found = match (from, value) {
            (ValueType::I32, ValueRef::InSitu(word)) => Some(Scalar::I32(i32::from_be_bytes(word))),
            (ValueType::U32, ValueRef::InSitu(word)) => Some(Scalar::U32(u32::from_be_bytes(word))),
            (ValueType::I64, _) => eight().map(|bytes| Scalar::I64(i64::from_be_bytes(bytes))),
            (ValueType::U64, _) => eight().map(|bytes| Scalar::U64(u64::from_be_bytes(bytes))),
            (ValueType::Double, _) => eight().map(|bytes| Scalar::Double(f64::from_be_bytes(bytes))),
            (ValueType::Float, ValueRef::Block(&[code, _, _, _, a, b, c, d])) if typed(code) => {
                Some(Scalar::Float(f32::from_be_bytes([a, b, c, d])))
            }
            (ValueType::String, _) => return value.text().map(Scalar::Text),
            _ => None,
        };
        found.map_or_else(|| Scalar::of_any(value, from), Ok)
    }

    #[cold]
    fn of_any(value: ValueRef<'a>, from: ValueType) -> Result<Scalar<'a>, PmError> {
        Ok(match value.to_value(from)? {
            Value::I32(v) => Scalar::I32(v),
            Value::U32(v) => Scalar::U32(v),
            Value::I64(v) => Scalar::I64(v),
            Value::U64(v) => Scalar::U64(v),
            Value::Float(v) => Scalar::Float(v),
            Value::Double(v) => Scalar::Double(v),
            _ => return Err(PmError::CONV),
        })
    }

    /// A parameter of an event record, of a field of type `from`.
    ///
    /// # Errors
    /// As [`Scalar::of`].
    pub fn of_param(param: Param<'a>, from: ValueType) -> Result<Scalar<'a>, PmError> {
        let word = match param {
            // 32-bit numbers are told apart by the descriptor, as in a fetch.
            Param::I32(v) => v.to_be_bytes(),
            Param::U32(v) => v.to_be_bytes(),
            _ => return Scalar::of_block_param(param, from),
        };
        Scalar::of(ValueRef::InSitu(word), from)
    }

    fn of_block_param(param: Param<'a>, from: ValueType) -> Result<Scalar<'a>, PmError> {
        Ok(match (param, from) {
            (Param::I64(v), ValueType::I64) => Scalar::I64(v),
            (Param::U64(v), ValueType::U64) => Scalar::U64(v),
            (Param::Float(v), ValueType::Float) => Scalar::Float(v),
            (Param::Double(v), ValueType::Double) => Scalar::Double(v),
            (Param::String(bytes), ValueType::String) => {
                Scalar::Text(bytes.split(|&byte| byte == 0).next().unwrap_or_default())
            }
            _ => return Err(PmError::CONV),
        })
    }

    /// The value as a number of type `to`: numbers as `pmExtractValue(3)` converts them, texts as they are read
    /// (spec `units.md` 9.2 and 10).
    pub fn number(&self, to: ValueType) -> Result<Number, PmError> {
        if let (ValueType::Double, false) = (to, matches!(self, Scalar::Text(_))) {
            return self.to_f64().map(Number::Double);
        }
        let value = match *self {
            Scalar::I32(v) => Value::I32(v),
            Scalar::U32(v) => Value::U32(v),
            Scalar::I64(v) => Value::I64(v),
            Scalar::U64(v) => Value::U64(v),
            Scalar::Float(v) => Value::Float(v),
            Scalar::Double(v) => Value::Double(v),
            Scalar::Text(bytes) => {
                // No number has other characters.
                let text = std::str::from_utf8(bytes).map_err(|_| PmError::TYPE)?;
                return Number::from_value(&Value::parse(text, to)?).ok_or(PmError::TYPE);
            }
        };
        Number::from_value(&value.convert(to)?).ok_or(PmError::CONV)
    }

    /// The value in double precision.
    #[inline]
    pub fn to_f64(self) -> Result<f64, PmError> {
        Ok(match self {
            Scalar::I32(v) => v.into(),
            Scalar::U32(v) => v.into(),
            Scalar::I64(v) => v as f64,
            Scalar::U64(v) => v as f64,
            Scalar::Float(v) => v.into(),
            Scalar::Double(v) => v,
            Scalar::Text(_) => match self.number(ValueType::Double)? {
                Number::Double(v) => v,
                _ => return Err(PmError::TYPE),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_taken_as_their_field_says() {
        use ValueType as T;
        assert_eq!(Scalar::of_param(Param::I32(-1), T::U32), Ok(Scalar::U32(u32::MAX)));
        assert_eq!(Scalar::of_param(Param::U32(0x3fc0_0000), T::Float), Ok(Scalar::Float(1.5)));
        assert_eq!(Scalar::of_param(Param::U32(1), T::I64), Err(PmError::CONV));
        assert_eq!(Scalar::of_param(Param::I64(1), T::I64), Ok(Scalar::I64(1)));
        assert_eq!(Scalar::of_param(Param::I64(1), T::U64), Err(PmError::CONV));
        assert_eq!(Scalar::of_param(Param::String(b"a\0b"), T::String), Ok(Scalar::Text(b"a")));
        assert_eq!(Scalar::of_param(Param::Aggregate(b"a"), T::String), Err(PmError::CONV));
    }
}
