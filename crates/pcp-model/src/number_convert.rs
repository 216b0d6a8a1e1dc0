//! Numbers from one type to another, as `pmExtractValue(3)` does it (`docs/pcp/units.md` 9.2).

use super::{Number, PmError, ValueType};

impl Number {
    /// This number as another type. Conversions round or cut as PCP does, and keep its quirks: NaN and
    /// doubles below -2^63 convert to the smallest signed integer without an error, and 64-bit values
    /// below -2^31 wrap when cut to 32 bits.
    ///
    /// # Errors
    /// `PM_ERR_CONV` for a type that is not one of numbers, `PM_ERR_TRUNC` for numbers too large for
    /// the type, `PM_ERR_SIGN` for negative numbers to an unsigned type.
    pub fn convert(self, to: ValueType) -> Result<Number, PmError> {
        match self {
            Number::I32(v) => integer(v.into(), to),
            Number::U32(v) => integer(v.into(), to),
            Number::I64(v) => integer(v.into(), to),
            Number::U64(v) => integer(v.into(), to),
            Number::Float(v) => float(v.into(), to, &FLOAT_LIMITS),
            Number::Double(v) => float(v, to, &DOUBLE_LIMITS),
        }
    }
}

fn integer(value: i128, to: ValueType) -> Result<Number, PmError> {
    let below = |limit: i128| if value > limit { Err(PmError::TRUNC) } else { Ok(value) };
    let natural = || if value < 0 { Err(PmError::SIGN) } else { Ok(()) };
    match to {
        ValueType::I32 => below(i32::MAX.into()).map(|v| Number::I32(v as i32)),
        ValueType::I64 => below(i64::MAX.into()).map(|v| Number::I64(v as i64)),
        ValueType::U32 => {
            natural()?;
            below(u32::MAX.into()).map(|v| Number::U32(v as u32))
        }
        ValueType::U64 => natural().map(|()| Number::U64(value as u64)),
        // Every source fits i128, so this is one rounding straight from the integer.
        ValueType::Float => Ok(Number::Float(value as f32)),
        ValueType::Double => Ok(Number::Double(value as f64)),
        _ => Err(PmError::CONV),
    }
}

/// From which magnitude on a floating point number does not fit 32 and U32.
struct Limits {
    i32: f64,
    u32: f64,
}

/// Single precision: the first numbers beyond the type.
const FLOAT_LIMITS: Limits = Limits { i32: 2_147_483_648.0, u32: 4_294_967_296.0 };
/// Double precision: PCP compares with the largest number of the type, and refuses that too.
const DOUBLE_LIMITS: Limits = Limits { i32: 2_147_483_647.0, u32: 4_294_967_295.0 };

const TWO_63: f64 = 9_223_372_036_854_775_808.0;
const TWO_64: f64 = 18_446_744_073_709_551_616.0;

fn float(value: f64, to: ValueType, limits: &Limits) -> Result<Number, PmError> {
    let natural = || if value < 0.0 { Err(PmError::SIGN) } else { Ok(()) };
    let below = |limit: f64| if value >= limit { Err(PmError::TRUNC) } else { Ok(()) };
    Ok(match to {
        ValueType::I32 if value.is_nan() => Number::I32(i32::MIN),
        ValueType::I32 if value.abs() >= limits.i32 => return Err(PmError::TRUNC),
        ValueType::I32 => Number::I32(value as i32),
        ValueType::U32 => {
            below(limits.u32)?;
            natural()?;
            Number::U32(value as u32)
        }
        ValueType::I64 if value.is_nan() => Number::I64(i64::MIN),
        ValueType::I64 => {
            below(TWO_63)?;
            Number::I64(value as i64)
        }
        ValueType::U64 if value.is_nan() => Number::U64(1 << 63),
        ValueType::U64 => {
            below(TWO_64)?;
            natural()?;
            Number::U64(value as u64)
        }
        ValueType::Float => Number::Float(value as f32),
        ValueType::Double => Number::Double(value),
        _ => return Err(PmError::CONV),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;

    #[test]
    fn limits_are_those_of_the_library() {
        assert_eq!(Value::I64(-2_147_483_649).convert(ValueType::I32), Ok(Value::I32(i32::MAX)));
        assert_eq!(Value::Double(2_147_483_647.0).convert(ValueType::I32), Err(PmError::TRUNC));
        assert_eq!(Value::Float(-0.5).convert(ValueType::U32), Err(PmError::SIGN));
        assert_eq!(Value::Double(f64::NAN).convert(ValueType::U64), Ok(Value::U64(1 << 63)));
        assert_eq!(Value::I32(1).convert(ValueType::String), Err(PmError::CONV));
    }
}
