//! One value as it came: read in place, not yet cast.

use pcp_event::Param;
use pcp_model::{Number, PmError, ValueType};
use pcp_pdu::{TypedRef, ValueRef};

/// A number, or a text without its NUL.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scalar<'a> {
    Number(Number),
    Text(&'a [u8]),
}

impl<'a> Scalar<'a> {
    /// A value of a fetch, of a metric of type `from`.
    ///
    /// # Errors
    /// `PM_ERR_CONV`: the value is of another type.
    pub(super) fn of(value: ValueRef<'a>, from: ValueType) -> Result<Scalar<'a>, PmError> {
        match value.typed(from)? {
            TypedRef::Number(number) => Ok(Scalar::Number(number)),
            TypedRef::Text(text) => Ok(Scalar::Text(text)),
            _ => Err(PmError::CONV),
        }
    }

    /// A value of a fetch in double precision, as most are wanted.
    ///
    /// # Errors
    /// As [`Scalar::of`] and [`Scalar::to_f64`].
    #[inline(always)]
    pub(super) fn f64_of(value: ValueRef<'a>, from: ValueType) -> Result<f64, PmError> {
        match value.usual_number(from) {
            Some(number) => Ok(number.to_f64()),
            None => Scalar::of(value, from)?.to_f64(),
        }
    }

    /// A parameter of an event record, of a field of type `from`.
    ///
    /// # Errors
    /// As [`Scalar::of`].
    pub(super) fn of_param(param: Param<'a>, from: ValueType) -> Result<Scalar<'a>, PmError> {
        match param {
            // 32-bit numbers are told apart by the descriptor, as in a fetch.
            Param::I32(v) => Scalar::of(ValueRef::InSitu(v.to_be_bytes()), from),
            Param::U32(v) => Scalar::of(ValueRef::InSitu(v.to_be_bytes()), from),
            _ if param.value_type() != from => Err(PmError::CONV),
            Param::String(bytes) => {
                Ok(Scalar::Text(bytes.split(|&byte| byte == 0).next().unwrap_or_default()))
            }
            _ => param.number().map(Scalar::Number).ok_or(PmError::CONV),
        }
    }

    /// The value as a number of type `to`: numbers as `pmExtractValue(3)` converts them, texts as they are read
    /// (`docs/pcp/units.md` 9.2 and 10).
    pub(super) fn number(&self, to: ValueType) -> Result<Number, PmError> {
        match *self {
            // The usual one, and it always succeeds.
            Scalar::Number(number) if to == ValueType::Double => Ok(Number::Double(number.to_f64())),
            Scalar::Number(number) => number.convert(to),
            // No number has other characters.
            Scalar::Text(bytes) => Number::parse(std::str::from_utf8(bytes).map_err(|_| PmError::TYPE)?, to),
        }
    }

    /// The value in double precision.
    ///
    /// # Errors
    /// Those of [`Number::parse`] for text.
    #[inline]
    pub(super) fn to_f64(self) -> Result<f64, PmError> {
        match self {
            Scalar::Number(number) => Ok(number.to_f64()),
            Scalar::Text(_) => self.number(ValueType::Double).map(Number::to_f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_taken_as_their_field_says() {
        use ValueType as T;
        assert_eq!(Scalar::of_param(Param::I32(-1), T::U32), Ok(Scalar::Number(Number::U32(u32::MAX))));
        assert_eq!(
            Scalar::of_param(Param::U32(0x3fc0_0000), T::Float),
            Ok(Scalar::Number(Number::Float(1.5)))
        );
        assert_eq!(Scalar::of_param(Param::U32(1), T::I64), Err(PmError::CONV));
        assert_eq!(Scalar::of_param(Param::I64(1), T::I64), Ok(Scalar::Number(Number::I64(1))));
        assert_eq!(Scalar::of_param(Param::I64(1), T::U64), Err(PmError::CONV));
        assert_eq!(Scalar::of_param(Param::String(b"a\0b"), T::String), Ok(Scalar::Text(b"a")));
        assert_eq!(Scalar::of_param(Param::Aggregate(b"a"), T::String), Err(PmError::CONV));
    }
}
