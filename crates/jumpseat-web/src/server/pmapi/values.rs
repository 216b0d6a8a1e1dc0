//! Values as JSON (`docs/pcp/webapi.md` 6).
//!
//! | type | JSON |
//! | --- | --- |
//! | 32, u32, 64, u64 | a number with all its digits; with `exact=true` the latter two as a string, as JavaScript rounds beyond 2^53 |
//! | float, double | a number of 8 or 16 digits; `null` for infinite ones and NaN |
//! | string, aggregate | a string; what is no UTF-8 is replaced |
//! | event, highres_event | `null`; with `events=true` an array of records |
//!
//! **Cost:** values are written from where they are; of floating-point numbers a text is made first.

use pcp_model::c_number::general;
use pcp_model::{Number, Timestamp};
use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::value::RawValue;

/// Whether 64-bit integers are numbers or strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exact(pub bool);

/// A number.
#[derive(Clone, Copy, Debug)]
pub(super) struct JsonNumber(pub Number, pub Exact);

impl Serialize for JsonNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let JsonNumber(number, exact) = *self;
        match number {
            Number::I32(v) => serializer.serialize_i32(v),
            Number::U32(v) => serializer.serialize_u32(v),
            Number::I64(v) if exact.0 => serializer.collect_str(&v),
            Number::U64(v) if exact.0 => serializer.collect_str(&v),
            Number::I64(v) => serializer.serialize_i64(v),
            Number::U64(v) => serializer.serialize_u64(v),
            Number::Float(v) if v.is_finite() => raw(general(v.into(), FLOAT_DIGITS), serializer),
            Number::Double(v) if v.is_finite() => raw(general(v, DOUBLE_DIGITS), serializer),
            Number::Float(_) | Number::Double(_) => serializer.serialize_none(),
        }
    }
}

/// Digits of floating-point numbers.
pub(super) const FLOAT_DIGITS: usize = 8;
pub(super) const DOUBLE_DIGITS: usize = 16;

/// Seconds with all nine digits of the fraction (D4).
#[derive(Clone, Copy, Debug)]
pub(super) struct JsonTime(pub Timestamp);

impl Serialize for JsonTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        raw(format!("{}.{:09}", self.0.sec, self.0.nsec), serializer)
    }
}

/// Text, as far as it is some.
#[derive(Clone, Copy, Debug)]
pub(super) struct JsonText<'a>(pub &'a [u8]);

impl Serialize for JsonText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&String::from_utf8_lossy(self.0))
    }
}

fn raw<S: Serializer>(text: String, serializer: S) -> Result<S::Ok, S::Error> {
    RawValue::from_string(text).map_err(S::Error::custom)?.serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_of_pmproxy() {
        let check = |number: Number, exact, json: &str| {
            assert_eq!(serde_json::to_string(&JsonNumber(number, Exact(exact))).expect("JSON"), json);
        };
        check(Number::U64(u64::MAX), false, "18446744073709551615");
        check(Number::U64(u64::MAX), true, "\"18446744073709551615\"");
        check(Number::I64(-7), true, "\"-7\"");
        check(Number::U32(7), true, "7");
        check(Number::Float(0.1), false, "0.1");
        check(Number::Double(0.1 + 0.2), false, "0.3");
        check(Number::Double(686_246.823_999_999_9), false, "686246.8239999999");
        check(Number::Double(1e300), false, "1e+300");
        check(Number::Double(f64::NAN), false, "null");
        check(Number::Float(f32::INFINITY), false, "null");
    }

    #[test]
    fn times_have_nine_digits_and_bytes_become_text() {
        let time = JsonTime(Timestamp::new(1_795_386_499, 28_328));
        assert_eq!(serde_json::to_string(&time).expect("JSON"), "1795386499.000028328");
        assert_eq!(serde_json::to_string(&JsonText("grün\n".as_bytes())).expect("JSON"), "\"grün\\n\"");
        assert_eq!(serde_json::to_string(&JsonText(b"a\xff")).expect("JSON"), "\"a\u{fffd}\"");
    }
}
