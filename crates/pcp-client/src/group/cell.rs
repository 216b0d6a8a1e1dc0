//! One output: a number, or a text whose memory is used again.

use std::fmt::{self, Write as _};

use super::scalar::Scalar;
use pcp_model::{Number, PmError, ValueType};

/// A value of the type that was asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Atom<'a> {
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
    /// Text; bytes that are not UTF-8 are replaced.
    String(&'a str),
}

impl From<Number> for Atom<'_> {
    #[inline]
    fn from(number: Number) -> Self {
        match number {
            Number::I32(v) => Atom::I32(v),
            Number::U32(v) => Atom::U32(v),
            Number::I64(v) => Atom::I64(v),
            Number::U64(v) => Atom::U64(v),
            Number::Float(v) => Atom::Float(v),
            Number::Double(v) => Atom::Double(v),
        }
    }
}

impl fmt::Display for Atom<'_> {
    /// The number or the text itself.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Atom::I32(v) => v.fmt(f),
            Atom::U32(v) => v.fmt(f),
            Atom::I64(v) => v.fmt(f),
            Atom::U64(v) => v.fmt(f),
            Atom::Float(v) => v.fmt(f),
            Atom::Double(v) => v.fmt(f),
            Atom::String(v) => v.fmt(f),
        }
    }
}

/// Where an output is kept. It holds no value after a reset, as PCP's sentinels say.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    Number(Option<Number>),
    Text { set: bool, text: String },
}

impl Cell {
    /// An empty cell for an output type.
    pub(super) fn new(to: ValueType) -> Cell {
        match to {
            ValueType::String => Cell::Text { set: false, text: String::new() },
            _ => Cell::Number(None),
        }
    }

    /// Forgets the value.
    pub(super) fn reset(&mut self) {
        match self {
            Cell::Number(number) => *number = None,
            Cell::Text { set, .. } => *set = false,
        }
    }

    /// The value.
    pub(super) fn get(&self) -> Option<Atom<'_>> {
        match self {
            Cell::Number(number) => number.map(Atom::from),
            Cell::Text { set, text } => set.then_some(Atom::String(text)),
        }
    }

    /// Takes a value straight from type to type (`docs/pcp/fetchgroup.md` 5, plain path).
    #[inline]
    pub(super) fn set_plain(&mut self, value: &Scalar<'_>, to: ValueType) -> Result<(), PmError> {
        match (self, value) {
            (Cell::Number(number), _) => *number = Some(value.number(to)?),
            (Cell::Text { set, text }, value) => {
                text.clear();
                match *value {
                    // As C prints them where PCP casts a number to text.
                    Scalar::Number(Number::Float(v)) => push_scientific(text, v.into(), 9),
                    Scalar::Number(Number::Double(v)) => push_scientific(text, v, 17),
                    // Writing to a string does not fail.
                    Scalar::Number(number) => drop(write!(text, "{number}")),
                    Scalar::Text(bytes) => push_lossy(text, bytes),
                }
                *set = true;
            }
        }
        Ok(())
    }

    /// Takes the outcome of a rate or a unit conversion (`docs/pcp/fetchgroup.md` 5, double path).
    #[inline]
    pub(super) fn set_double(&mut self, value: f64, to: ValueType) -> Result<(), PmError> {
        match self {
            // No cast: what is asked for mostly.
            Cell::Number(number) if to == ValueType::Double => *number = Some(Number::Double(value)),
            Cell::Number(number) => *number = Some(cast(value, to)?),
            Cell::Text { set, text } => {
                text.clear();
                push_scientific(text, value, 17);
                *set = true;
            }
        }
        Ok(())
    }
}

/// As fetch groups cast, which is not as `pmExtractValue(3)` does. NaN passes, and becomes what x86-64 makes of it.
fn cast(value: f64, to: ValueType) -> Result<Number, PmError> {
    const TWO_63: f64 = 9_223_372_036_854_775_808.0;
    let above = |limit: bool| if limit { Err(PmError::TRUNC) } else { Ok(()) };
    let natural = || if value < 0.0 { Err(PmError::SIGN) } else { Ok(()) };
    Ok(match to {
        ValueType::I32 => {
            above(value > f64::from(i32::MAX) || value < f64::from(i32::MIN))?;
            Number::I32(if value.is_nan() { i32::MIN } else { value as i32 })
        }
        ValueType::U32 => {
            above(value > f64::from(u32::MAX))?;
            natural()?;
            Number::U32(value as u32)
        }
        // PCP lets 2^63 and 2^64 pass, which then wrap.
        ValueType::I64 => {
            above(!(-TWO_63..TWO_63).contains(&value) && !value.is_nan())?;
            Number::I64(if value.is_nan() { i64::MIN } else { value as i64 })
        }
        ValueType::U64 => {
            above(value >= 2.0 * TWO_63)?;
            natural()?;
            Number::U64(if value.is_nan() { 1 << 63 } else { value as u64 })
        }
        ValueType::Float => {
            above(value.abs() > f64::from(f32::MAX))?;
            Number::Float(value as f32)
        }
        ValueType::Double => Number::Double(value),
        _ => return Err(PmError::TYPE),
    })
}

/// Appends C's `%.Ne`: the exponent has a sign and two digits at least.
fn push_scientific(text: &mut String, value: f64, digits: usize) {
    if !value.is_finite() {
        text.push_str(if value.is_sign_negative() { "-" } else { "" });
        text.push_str(if value.is_nan() { "nan" } else { "inf" });
        return;
    }
    // Writing to a string does not fail.
    let _ = write!(text, "{value:.digits$e}");
    let Some(mut at) = text.rfind('e').map(|at| at + 1) else { return };
    if !text[at..].starts_with('-') {
        text.insert(at, '+');
    }
    at += 1;
    if text.len() - at < 2 {
        text.insert(at, '0');
    }
}

fn push_lossy(text: &mut String, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcp_model::Conversion;
    use pcp_model::{Units, UnitsVocabulary};

    /// What an output shows: the text, the number, or the name of the error.
    fn show(outcome: Result<(), PmError>, cell: &Cell) -> String {
        match (outcome, cell.get()) {
            (Err(PmError::TRUNC), _) => "TRUNC".into(),
            (Err(PmError::SIGN), _) => "SIGN".into(),
            (Err(PmError::TYPE), _) => "TYPE".into(),
            (Err(error), _) => format!("{error:?}"),
            (Ok(()), Some(Atom::I32(v))) => v.to_string(),
            (Ok(()), Some(Atom::U32(v))) => v.to_string(),
            (Ok(()), Some(Atom::I64(v))) => v.to_string(),
            (Ok(()), Some(Atom::U64(v))) => v.to_string(),
            (Ok(()), Some(Atom::Float(v))) => format!("{v:e}"),
            (Ok(()), Some(Atom::Double(v))) => format!("{v:e}"),
            (Ok(()), Some(Atom::String(v))) => format!("`{v}`"),
            (Ok(()), None) => "nothing".into(),
        }
    }

    const OUTPUTS: [ValueType; 7] = [
        ValueType::I32,
        ValueType::U32,
        ValueType::I64,
        ValueType::U64,
        ValueType::Float,
        ValueType::Double,
        ValueType::String,
    ];

    fn check(value: Scalar<'_>, plain: &str, double: &str) {
        let all = |set: &dyn Fn(&mut Cell, ValueType) -> Result<(), PmError>| {
            let shown = OUTPUTS.map(|to| {
                let mut cell = Cell::new(to);
                let outcome = set(&mut cell, to);
                show(outcome, &cell)
            });
            shown.join(" | ")
        };
        assert_eq!(all(&|cell, to| cell.set_plain(&value, to)), plain, "{value:?}");
        // A conversion of nothing to nothing, as the scale " " gives.
        let one = Conversion::new(Units::NONE, Units::NONE, UnitsVocabulary::Classic).unwrap();
        let through = |cell: &mut Cell, to| value.to_f64().and_then(|v| cell.set_double(one.f64(v), to));
        assert_eq!(all(&through), double, "{value:?}");
    }

    /// The table of `docs/pcp/fetchgroup.md` 5, with 2^63 and 2^64 mended.
    #[test]
    fn both_paths_cast_as_captured() {
        check(
            Scalar::Number(Number::I32(-1)),
            "-1 | SIGN | -1 | SIGN | -1e0 | -1e0 | `-1`",
            "-1 | SIGN | -1 | SIGN | -1e0 | -1e0 | `-1.00000000000000000e+00`",
        );
        check(
            Scalar::Number(Number::U32(u32::MAX)),
            "TRUNC | 4294967295 | 4294967295 | 4294967295 | 4.2949673e9 | 4.294967295e9 | `4294967295`",
            "TRUNC | 4294967295 | 4294967295 | 4294967295 | 4.2949673e9 | 4.294967295e9 | `4.29496729500000000e+09`",
        );
        check(
            Scalar::Number(Number::I64(-1_099_511_627_776)),
            "0 | SIGN | -1099511627776 | SIGN | -1.0995116e12 | -1.099511627776e12 | `-1099511627776`",
            "TRUNC | SIGN | -1099511627776 | SIGN | -1.0995116e12 | -1.099511627776e12 | `-1.09951162777600000e+12`",
        );
        check(
            Scalar::Number(Number::I64(i64::MAX)),
            "TRUNC | TRUNC | 9223372036854775807 | 9223372036854775807 | 9.223372e18 | 9.223372036854776e18 | `9223372036854775807`",
            "TRUNC | TRUNC | TRUNC | 9223372036854775808 | 9.223372e18 | 9.223372036854776e18 | `9.22337203685477581e+18`",
        );
        check(
            Scalar::Number(Number::U64(u64::MAX)),
            "TRUNC | TRUNC | TRUNC | 18446744073709551615 | 1.8446744e19 | 1.8446744073709552e19 | `18446744073709551615`",
            "TRUNC | TRUNC | TRUNC | TRUNC | 1.8446744e19 | 1.8446744073709552e19 | `1.84467440737095516e+19`",
        );
        check(
            Scalar::Number(Number::Float(0.1)),
            "0 | 0 | 0 | 0 | 1e-1 | 1.0000000149011612e-1 | `1.000000015e-01`",
            "0 | 0 | 0 | 0 | 1e-1 | 1.0000000149011612e-1 | `1.00000001490116119e-01`",
        );
        check(
            Scalar::Number(Number::Double(-0.75)),
            "0 | SIGN | 0 | SIGN | -7.5e-1 | -7.5e-1 | `-7.50000000000000000e-01`",
            "0 | SIGN | 0 | SIGN | -7.5e-1 | -7.5e-1 | `-7.50000000000000000e-01`",
        );
        check(
            Scalar::Number(Number::Double(2_147_483_647.0)),
            "TRUNC | 2147483647 | 2147483647 | 2147483647 | 2.1474836e9 | 2.147483647e9 | `2.14748364700000000e+09`",
            "2147483647 | 2147483647 | 2147483647 | 2147483647 | 2.1474836e9 | 2.147483647e9 | `2.14748364700000000e+09`",
        );
        check(
            Scalar::Number(Number::Double(4_294_967_295.0)),
            "TRUNC | TRUNC | 4294967295 | 4294967295 | 4.2949673e9 | 4.294967295e9 | `4.29496729500000000e+09`",
            "TRUNC | 4294967295 | 4294967295 | 4294967295 | 4.2949673e9 | 4.294967295e9 | `4.29496729500000000e+09`",
        );
        check(
            Scalar::Number(Number::Double(1e300)),
            "TRUNC | TRUNC | TRUNC | TRUNC | inf | 1e300 | `1.00000000000000005e+300`",
            "TRUNC | TRUNC | TRUNC | TRUNC | TRUNC | 1e300 | `1.00000000000000005e+300`",
        );
        check(
            Scalar::Number(Number::Double(f64::NAN)),
            "-2147483648 | 0 | -9223372036854775808 | 9223372036854775808 | NaN | NaN | `nan`",
            "-2147483648 | 0 | -9223372036854775808 | 9223372036854775808 | NaN | NaN | `nan`",
        );
        check(
            Scalar::Text(b" 42"),
            "42 | 42 | 42 | 42 | 4.2e1 | 4.2e1 | ` 42`",
            "42 | 42 | 42 | 42 | 4.2e1 | 4.2e1 | `4.20000000000000000e+01`",
        );
        check(
            Scalar::Text(b" 1.5"),
            "TYPE | TYPE | TYPE | TYPE | 1.5e0 | 1.5e0 | ` 1.5`",
            "1 | 1 | 1 | 1 | 1.5e0 | 1.5e0 | `1.50000000000000000e+00`",
        );
        check(
            Scalar::Text(b" 0x1f"),
            "31 | 31 | 31 | 31 | TYPE | TYPE | ` 0x1f`",
            "TYPE | TYPE | TYPE | TYPE | TYPE | TYPE | TYPE",
        );
        check(
            Scalar::Text(b" abc"),
            "TYPE | TYPE | TYPE | TYPE | TYPE | TYPE | ` abc`",
            "TYPE | TYPE | TYPE | TYPE | TYPE | TYPE | TYPE",
        );
    }

    #[test]
    fn a_text_uses_its_memory_again() {
        let mut cell = Cell::new(ValueType::String);
        assert_eq!(cell.get(), None);
        cell.set_plain(&Scalar::Text(b"a long text"), ValueType::String).unwrap();
        cell.reset();
        assert_eq!(cell.get(), None);
        cell.set_plain(&Scalar::Text(b"b\xff"), ValueType::String).unwrap();
        assert_eq!(cell.get(), Some(Atom::String("b\u{fffd}")));
        assert!(matches!(cell, Cell::Text { text, .. } if text.capacity() >= 11));
    }
}
