//! Text to numbers, as `pmstore(1)` and fetch groups read it (`docs/pcp/units.md` 10).

use super::c_number::{parse_prefix, skip_white};
use super::{Number, PmError, ValueType};

impl Number {
    /// The number a text stands for in a type: `__pmStringValue` of libpcp. Numbers are as C's `strtol` and
    /// `strtod` take them: after white space, with a sign; whole numbers also in hexadecimal. As in C a
    /// negative text is a large unsigned number. The empty text is zero. Unlike PCP before 7.2 a zero is a
    /// valid `FLOAT`.
    ///
    /// # Errors
    /// `PM_ERR_TYPE` for text that is not a number or has something after it, or a type that is not one of
    /// numbers; `ERANGE` for a number beyond the type.
    pub fn parse(text: &str, to: ValueType) -> Result<Number, PmError> {
        match to {
            ValueType::I32 => i32::try_from(integer(text)?.signed()?).map(Number::I32).map_err(|_| RANGE),
            ValueType::U32 => u32::try_from(integer(text)?.unsigned()?).map(Number::U32).map_err(|_| RANGE),
            ValueType::I64 => integer(text)?.signed().map(Number::I64),
            ValueType::U64 => integer(text)?.unsigned().map(Number::U64),
            ValueType::Float => float(text).and_then(|v| {
                let magnitude = v.abs();
                let fits = v == 0.0
                    || v.is_nan()
                    || (f32::MIN_POSITIVE.into()..=f32::MAX.into()).contains(&magnitude);
                if fits { Ok(Number::Float(v as f32)) } else { Err(RANGE) }
            }),
            ValueType::Double => float(text).map(Number::Double),
            _ => Err(PmError::TYPE),
        }
    }
}

/// `-ERANGE`.
const RANGE: PmError = PmError::from_errno(34);

/// A whole number of any size: `None` beyond 64 bits.
struct Integer {
    negative: bool,
    magnitude: Option<u64>,
}

impl Integer {
    fn signed(&self) -> Result<i64, PmError> {
        let magnitude = self.magnitude.ok_or(RANGE)?;
        if self.negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
            .ok_or(RANGE)
    }

    fn unsigned(&self) -> Result<u64, PmError> {
        let magnitude = self.magnitude.ok_or(RANGE)?;
        Ok(if self.negative { magnitude.wrapping_neg() } else { magnitude })
    }
}

fn integer(text: &str) -> Result<Integer, PmError> {
    let body = skip_white(text.as_bytes());
    let (negative, digits, radix) = match hexadecimal(body) {
        Some((negative, digits)) => (negative, digits, 16),
        None => match body {
            [b'-', digits @ ..] => (true, digits, 10),
            [b'+', digits @ ..] => (false, digits, 10),
            digits => (false, digits, 10),
        },
    };
    // Without any digit C's functions take nothing: only then the empty text is whole.
    if digits.is_empty() && !text.is_empty() {
        return Err(PmError::TYPE);
    }
    let mut magnitude = Some(0u64);
    for &digit in digits {
        let digit = char::from(digit).to_digit(radix).ok_or(PmError::TYPE)?;
        magnitude = magnitude.and_then(|m| m.checked_mul(radix.into())?.checked_add(digit.into()));
    }
    Ok(Integer { negative, magnitude })
}

/// Sign and digits of `0x...` in which every character is a digit.
fn hexadecimal(body: &[u8]) -> Option<(bool, &[u8])> {
    let (negative, body) = match body {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, body),
    };
    match body {
        [b'0', b'x' | b'X', digits @ ..] if digits.iter().all(u8::is_ascii_hexdigit) => {
            Some((negative, digits))
        }
        _ => None,
    }
}

fn float(text: &str) -> Result<f64, PmError> {
    if text.is_empty() {
        return Ok(0.0);
    }
    let body = text.as_bytes();
    if hexadecimal(skip_white(body)).is_some() {
        return Err(PmError::TYPE);
    }
    let found = parse_prefix(body).filter(|found| found.rest.is_empty()).ok_or(PmError::TYPE)?;
    if found.out_of_range { Err(RANGE) } else { Ok(found.value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;

    #[test]
    fn numbers_are_those_of_c() {
        assert_eq!(Value::parse(" -0x1F", ValueType::I32), Ok(Value::I32(-31)));
        assert_eq!(Value::parse("-1", ValueType::U64), Ok(Value::U64(u64::MAX)));
        assert_eq!(Value::parse("-1", ValueType::U32), Err(RANGE));
        assert_eq!(Value::parse("0", ValueType::Float), Ok(Value::Float(0.0)));
        assert_eq!(Value::parse("3.5e38", ValueType::Float), Err(RANGE));
        assert_eq!(Value::parse("x", ValueType::Event), Err(PmError::TYPE));
    }
}
