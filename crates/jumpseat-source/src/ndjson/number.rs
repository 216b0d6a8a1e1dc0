//! JSON numbers, without losing a digit.
//!
//! **Cost:** digits are taken eight at a time, without a branch for each: lengths vary from number to number.

use crate::word::word_at;

/// A number, in the first type of these that holds it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    /// An integer.
    I64(i64),
    /// An integer beyond `i64::MAX`.
    U64(u64),
    /// Written with a fraction or an exponent; the nearest double.
    Double(f64),
    /// Beyond all of them: only its text tells it.
    Text,
}

/// Digits that never overflow 64 bits.
const SAFE_DIGITS: usize = 18;

/// Reads the number at the start of `bytes`: its length and value. `Err` has the offset at which it is
/// not a JSON number any more.
#[inline]
pub(crate) fn scan(bytes: &[u8]) -> Result<(usize, Number), usize> {
    let negative = bytes.first() == Some(&b'-');
    let first = usize::from(negative);
    let (mut at, mut value) = digits(bytes, first, 0);
    let whole = at - first;
    if whole == 0 {
        return Err(at);
    }
    if whole > 1 && bytes.get(first) == Some(&b'0') {
        // JSON has no leading zeros.
        return Err(first);
    }
    if !matches!(bytes.get(at), Some(b'.' | b'e' | b'E')) {
        let number = if whole <= SAFE_DIGITS {
            Number::I64(if negative { -(value as i64) } else { value as i64 })
        } else {
            wide_integer(&bytes[..at])
        };
        return Ok((at, number));
    }
    let mut decimals = 0;
    if bytes.get(at) == Some(&b'.') {
        let point = at + 1;
        (at, value) = digits(bytes, point, value);
        if at == point {
            return Err(at);
        }
        decimals = at - point;
    }
    if let Some(number) = short_decimal(whole + decimals, value, decimals, bytes.get(at)) {
        return Ok((at, Number::Double(if negative { -number } else { number })));
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1;
        if matches!(bytes.get(at), Some(b'+' | b'-')) {
            at += 1;
        }
        let exponent = at;
        (at, _) = digits(bytes, exponent, 0);
        if at == exponent {
            return Err(at);
        }
    }
    let number = parse::<f64>(&bytes[..at]).filter(|n| n.is_finite()).map_or(Number::Text, Number::Double);
    Ok((at, number))
}

/// The digits from `at` on: where they end, and `before` with them appended, as far as 64 bits hold it.
#[inline(always)]
pub(super) fn digits(bytes: &[u8], at: usize, before: u64) -> (usize, u64) {
    let (count, value) = more_digits(bytes, at, before);
    if count < 8 { (at + count, value) } else { many_digits(bytes, at + count, value) }
}

#[inline(never)]
fn many_digits(bytes: &[u8], mut at: usize, mut value: u64) -> (usize, u64) {
    loop {
        let (count, more) = more_digits(bytes, at, value);
        (at, value) = (at + count, more);
        if count < 8 {
            return (at, value);
        }
    }
}

/// Up to eight.
#[inline(always)]
fn more_digits(bytes: &[u8], at: usize, before: u64) -> (usize, u64) {
    const POWERS: [u64; 9] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
    let (count, value) = leading_digits(word_at(bytes, at));
    (count, before.wrapping_mul(POWERS[count]).wrapping_add(value))
}

/// How many of eight bytes, the first in the lowest byte, are digits up to the first that is none, and their value.
#[inline(always)]
fn leading_digits(word: u64) -> (usize, u64) {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = ONES << 7;
    // A digit has become its value, and what is above 9 gets its high bit set. What carries over goes upwards, where it
    // does not matter any more.
    let values = word ^ (ONES * u64::from(b'0'));
    let others = (values.wrapping_add(ONES * 0x76) | values) & HIGHS;
    let count = others.trailing_zeros() as usize / 8;
    // Moved to the end: what comes in are leading zeros. Then neighbours are put together: ones, pairs, fours.
    let digits = values.checked_shl(64 - 8 * count as u32).unwrap_or(0);
    let pairs = (digits.wrapping_mul(1 + (10 << 8)) >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(1 + (100 << 16)) >> 16) & 0x0000_ffff_0000_ffff;
    (count, fours.wrapping_mul(1 + (10_000 << 32)) >> 32)
}

/// The double nearest to `digits` digits that are `mantissa`, the last `decimals` of them behind the point, if no exponent follows
/// and it can be had by one division: both operands are exact then, and a quotient is rounded once.
#[inline]
fn short_decimal(digits: usize, mantissa: u64, decimals: usize, next: Option<&u8>) -> Option<f64> {
    const POWERS: [f64; 19] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17,
        1e18,
    ];
    let is_exact = digits <= SAFE_DIGITS && mantissa < 1 << f64::MANTISSA_DIGITS;
    if !is_exact || matches!(next, Some(b'e' | b'E')) {
        return None;
    }
    Some(mantissa as f64 / POWERS.get(decimals)?)
}

#[cold]
fn wide_integer(text: &[u8]) -> Number {
    match (parse(text), parse(text)) {
        (Some(n), _) => Number::I64(n),
        (None, Some(n)) => Number::U64(n),
        (None, None) => Number::Text,
    }
}

fn parse<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_and_every_limit() {
        for (text, expected) in [
            ("0", Ok((1, Number::I64(0)))),
            ("-0", Ok((2, Number::I64(0)))),
            ("12,", Ok((2, Number::I64(12)))),
            ("9223372036854775807", Ok((19, Number::I64(i64::MAX)))),
            ("-9223372036854775808", Ok((20, Number::I64(i64::MIN)))),
            ("9223372036854775808", Ok((19, Number::U64(1 << 63)))),
            ("18446744073709551615", Ok((20, Number::U64(u64::MAX)))),
            ("18446744073709551616", Ok((20, Number::Text))),
            ("-9223372036854775809", Ok((20, Number::Text))),
            ("1.5", Ok((3, Number::Double(1.5)))),
            ("-0.0", Ok((4, Number::Double(-0.0)))),
            ("1e3}", Ok((3, Number::Double(1000.0)))),
            ("1E+3", Ok((4, Number::Double(1000.0)))),
            ("1e999", Ok((5, Number::Text))),
            ("1e-999", Ok((6, Number::Double(0.0)))),
            ("-", Err(1)),
            ("01", Err(0)),
            ("-01", Err(1)),
            ("1.", Err(2)),
            ("1.e1", Err(2)),
            ("1e", Err(2)),
            ("1e+", Err(3)),
        ] {
            assert_eq!(scan(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn digits_end_at_any_other_byte() {
        for count in 0..=20 {
            let number = &"12345678901234567890"[..count];
            for other in 0..=255u8 {
                let text = [number.as_bytes(), &[other], b"123"].concat();
                let expected = if other.is_ascii_digit() { text.as_slice() } else { number.as_bytes() };
                let value = expected
                    .iter()
                    .fold(0u64, |n, digit| n.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')));
                assert_eq!(digits(&text, 0, 0), (expected.len(), value), "{count} digits, {other}");
            }
            assert_eq!(digits(number.as_bytes(), 0, 0).0, count);
        }
    }

    #[test]
    fn doubles_are_the_nearest_ones() {
        let mut state = 1u64;
        for round in 0..200_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (mantissa, decimals) = (state >> (state % 60), (round % 20) as usize);
            let digits = format!("{mantissa:0>width$}", width = decimals + 2);
            let (whole, fraction) = digits.split_at(digits.len() - decimals - 1);
            let whole = whole.trim_start_matches('0');
            let text = format!("-{}.{fraction}", if whole.is_empty() { "0" } else { whole });
            let expected: f64 = text.parse().unwrap();
            match scan(text.as_bytes()) {
                Ok((len, Number::Double(number))) => {
                    assert_eq!((len, number.to_bits()), (text.len(), expected.to_bits()), "{text}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
