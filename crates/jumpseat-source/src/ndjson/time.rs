//! Times in events: RFC 3339, and numbers since the epoch. Exact: no digit goes through a float, and
//! digits below the nanosecond are cut.

use super::number::digits;
use pcp_model::Timestamp;

const BAD_DATE: &str = "not a time: write RFC 3339, such as 2026-11-20T13:00:00.5Z, or a number";
const NO_ZONE: &str = "a time without zone: add Z or an offset such as +01:00";
const BAD_NUMBER: &str = "a number that is no time in seconds, milli-, micro- or nanoseconds";

/// A time in a string: RFC 3339, or a number as in [`from_decimal`].
///
/// # Errors
/// What is wrong with it.
pub fn from_text(text: &[u8]) -> Result<Timestamp, &'static str> {
    if is_rfc3339(text) { from_rfc3339(text) } else { from_decimal(text).map_err(|_| BAD_DATE) }
}

/// Whether a text is a date rather than a number.
#[inline]
pub fn is_rfc3339(text: &[u8]) -> bool {
    text.get(4) == Some(&b'-')
}

/// `2026-11-20T13:00:00.123456789+01:00`. Beyond the RFC: a blank or `t` as separator, a comma before
/// the fraction, an offset without colon, lower case `z`. A leap second is the second after it.
///
/// # Errors
/// What is wrong with it.
pub fn from_rfc3339(text: &[u8]) -> Result<Timestamp, &'static str> {
    let Rfc3339 { utc, nsec, offset } = Rfc3339::parse(text)?;
    Ok(Timestamp::new(utc - offset.ok_or(NO_ZONE)?, nsec))
}

/// A date and a time of day as they are written.
pub(crate) struct Rfc3339 {
    /// Seconds since the epoch, read as if in UTC.
    pub utc: i64,
    /// Nanoseconds of the second.
    pub nsec: u32,
    /// Seconds that its zone is ahead of UTC, if it says so.
    pub offset: Option<i64>,
}

impl Rfc3339 {
    /// Parses RFC 3339 as [`from_rfc3339`] does, but for the zone, which may be missing.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(text: &[u8]) -> Result<Rfc3339, &'static str> {
        let [date @ .., _, _, _, _, _, _, _, _] = text.get(..19).ok_or(BAD_DATE)? else {
            return Err(BAD_DATE);
        };
        let clock = &text[11..19];
        if date[4] != b'-' || date[7] != b'-' || !matches!(date[10], b'T' | b't' | b' ') {
            return Err(BAD_DATE);
        }
        if clock[2] != b':' || clock[5] != b':' {
            return Err(BAD_DATE);
        }
        let year = two(&date[0..2])? * 100 + two(&date[2..4])?;
        let (month, day) = (two(&date[5..7])?, two(&date[8..10])?);
        let (hour, minute, second) = (two(&clock[0..2])?, two(&clock[3..5])?, two(&clock[6..8])?);
        let utc = utc((year, month, day), (hour, minute, second));
        let utc = utc.ok_or("a time with a part out of its range")?;

        let mut rest = &text[19..];
        let mut nsec = 0u32;
        if let [b'.' | b',', fraction @ ..] = rest {
            let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits == 0 {
                return Err(BAD_DATE);
            }
            let kept = fraction[..digits].iter().take(9);
            let count = kept.len() as u32;
            nsec = kept.fold(0, |n, digit| n * 10 + u32::from(digit - b'0')) * 10u32.pow(9 - count);
            rest = &fraction[digits..];
        }
        let offset = match rest {
            b"Z" | b"z" => Some(0),
            [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] | [sign @ (b'+' | b'-'), h1, h2, m1, m2] => {
                let (hours, minutes) = (two(&[*h1, *h2])?, two(&[*m1, *m2])?);
                if hours > 23 || minutes > 59 {
                    return Err("a time with a part out of its range");
                }
                Some((hours * 3600 + minutes * 60) * if *sign == b'-' { -1 } else { 1 })
            }
            b"" => None,
            _ => return Err(BAD_DATE),
        };
        Ok(Rfc3339 { utc, nsec, offset })
    }
}

/// Seconds since the epoch of a date, from year 0 on, and a time of day in UTC. A leap second, 60, is the second after it. `None`: a part is
/// out of its range.
#[inline]
pub(crate) fn utc(
    (year, month, day): (i64, i64, i64),
    (hour, minute, second): (i64, i64, i64),
) -> Option<i64> {
    let is_date = (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
    let is_clock = (0..=23).contains(&hour) && (0..=59).contains(&minute) && (0..=60).contains(&second);
    let seconds = || days_since_epoch(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    (is_date && is_clock).then(seconds)
}

/// Most digits of a number, so that it and its nanoseconds fit 128 bits.
const MAX_DIGITS: i32 = 28;

/// A number in the time of a clock that is never set (its value now is small, so that its size does not tell the
/// unit): with a fraction or an exponent seconds, a whole number nanoseconds.
///
/// # Errors
/// What is wrong with it.
pub fn from_clock(text: &[u8]) -> Result<Timestamp, &'static str> {
    const BAD: &str =
        "a number that is no time of a clock: write seconds with a fraction or whole nanoseconds";
    let decimal = Decimal::parse(text).map_err(|_| BAD)?;
    match decimal.digits + decimal.scale {
        ..=11 if decimal.is_fraction => Ok(decimal.times_ten_to(9)),
        ..=19 if !decimal.is_fraction => Ok(decimal.times_ten_to(0)),
        _ if decimal.mantissa == 0 => Ok(Timestamp::default()),
        _ => Err(BAD),
    }
}

/// A decimal number since the epoch. Its unit follows from its size: fewer than 12 digits before the
/// point are seconds (until the year 5138), fewer than 15 milliseconds, fewer than 18 microseconds, up
/// to 20 nanoseconds.
///
/// # Errors
/// What is wrong with it.
pub fn from_decimal(text: &[u8]) -> Result<Timestamp, &'static str> {
    if let Some((time, end)) = leading(text)
        && end == text.len()
    {
        return Ok(time);
    }
    let decimal = Decimal::parse(text)?;
    Ok(decimal.times_ten_to(match decimal.digits + decimal.scale {
        ..=11 => 9,
        12..=14 => 6,
        15..=17 => 3,
        18..=20 => 0,
        _ if decimal.mantissa == 0 => 0,
        _ => return Err(BAD_NUMBER),
    }))
}

/// The number that a text begins with, as [`from_decimal`] reads it, and where it ends, if it is written as nearly all are: a whole
/// one, or seconds with up to 9 digits behind the point. `None` for everything else.
#[inline]
pub(super) fn leading(text: &[u8]) -> Option<(Timestamp, usize)> {
    const FRACTION: [u32; 10] =
        [1_000_000_000, 100_000_000, 10_000_000, 1_000_000, 100_000, 10_000, 1000, 100, 10, 1];
    // Zeros in front do not count.
    if text.first() == Some(&b'0') {
        return None;
    }
    let (whole, value) = digits(text, 0, 0);
    match (whole, text.get(whole)) {
        (1..=11, Some(b'.')) => {
            let (end, fraction) = digits(text, whole + 1, 0);
            let nsec = match end - whole - 1 {
                0 => return None,
                count => fraction as u32 * FRACTION.get(count)?,
            };
            Some((Timestamp { sec: value as i64, nsec }, end))
        }
        (_, Some(b'.' | b'e' | b'E')) => None,
        (1..=11, _) => Some((Timestamp { sec: value as i64, nsec: 0 }, whole)),
        (12..=14, _) => Some((since_epoch(value, 1000), whole)),
        (15..=17, _) => Some((since_epoch(value, 1_000_000), whole)),
        (18..=19, _) => Some((since_epoch(value, 1_000_000_000), whole)),
        _ => None,
    }
}

/// So many parts of a second.
#[inline(always)] // so that the divisors are constants
fn since_epoch(value: u64, per_second: u64) -> Timestamp {
    let nsec = (value % per_second) * (1_000_000_000 / per_second);
    Timestamp { sec: (value / per_second) as i64, nsec: nsec as u32 }
}

/// A decimal number as it is written: the mantissa has `digits` digits and is to be multiplied by ten to the `scale`.
struct Decimal {
    negative: bool,
    mantissa: i128,
    digits: i32,
    scale: i32,
    /// There was a point or an exponent.
    is_fraction: bool,
}

impl Decimal {
    #[inline]
    fn parse(text: &[u8]) -> Result<Decimal, &'static str> {
        let (negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            _ => (false, text),
        };
        let (mut mantissa, mut digits, mut scale) = (0i128, 0i32, 0i32);
        let (mut any, mut point, mut power) = (false, false, false);
        let mut bytes = text.iter();
        for byte in bytes.by_ref() {
            match byte {
                b'0'..=b'9' => {
                    any = true;
                    if digits >= MAX_DIGITS {
                        // Only digits of the fraction may be too many, and those are below the nanosecond.
                        if !point {
                            return Err(BAD_NUMBER);
                        }
                        continue;
                    }
                    mantissa = mantissa * 10 + i128::from(byte - b'0');
                    digits += i32::from(mantissa != 0);
                    scale -= i32::from(point);
                }
                b'.' if !point => point = true,
                b'e' | b'E' => break,
                _ => return Err(BAD_NUMBER),
            }
        }
        if !any {
            return Err(BAD_NUMBER);
        }
        if text.iter().any(|byte| matches!(byte, b'e' | b'E')) {
            power = true;
            let exponent =
                std::str::from_utf8(bytes.as_slice()).ok().and_then(|text| text.parse::<i16>().ok());
            scale += i32::from(exponent.ok_or(BAD_NUMBER)?);
        }
        Ok(Decimal { negative, mantissa, digits, scale, is_fraction: point || power })
    }

    /// The number times ten to the `unit` as nanoseconds. With at most 20 digits before the point and 9 as unit there
    /// is no overflow.
    #[inline]
    fn times_ten_to(&self, unit: i32) -> Timestamp {
        let exponent = unit + self.scale;
        let nanos = if self.mantissa == 0 || exponent < -MAX_DIGITS {
            0
        } else if exponent >= 0 {
            self.mantissa * 10i128.pow(exponent as u32)
        } else {
            self.mantissa / 10i128.pow(-exponent as u32)
        };
        Timestamp::from_nanos(if self.negative { -nanos } else { nanos })
    }
}

#[inline]
fn two(digits: &[u8]) -> Result<i64, &'static str> {
    match digits {
        [a @ b'0'..=b'9', b @ b'0'..=b'9'] => Ok(i64::from(a - b'0') * 10 + i64::from(b - b'0')),
        _ => Err(BAD_DATE),
    }
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01, in the Gregorian calendar, for years from 0. Counting years from March puts
/// the leap day at a year's end.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    const MARCH_0_TO_EPOCH: i64 = 719_468;
    year * 365 + leap_days + day_of_year - MARCH_0_TO_EPOCH
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(sec: i64, nsec: u32) -> Result<Timestamp, &'static str> {
        Ok(Timestamp { sec, nsec })
    }

    #[test]
    fn rfc3339() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", at(0, 0)),
            ("2026-11-20T13:16:06Z", at(1_795_180_566, 0)),
            ("2026-11-20T13:16:06.5+02:00", at(1_795_173_366, 500_000_000)),
            ("2026-11-20 13:16:06,000000001-0130", at(1_795_185_966, 1)),
            ("2000-02-29t23:59:59.1234567899z", at(951_868_799, 123_456_789)),
            ("1969-12-31T23:59:59.999999999Z", at(-1, 999_999_999)),
            ("0000-01-01T00:00:00Z", at(-62_167_219_200, 0)),
            ("9999-12-31T23:59:60Z", at(253_402_300_800, 0)),
            ("2026-11-20T13:16:06", Err(NO_ZONE)),
            ("2026-02-29T00:00:00Z", Err("a time with a part out of its range")),
            ("2026-13-01T00:00:00Z", Err("a time with a part out of its range")),
            ("2026-01-01T24:00:00Z", Err("a time with a part out of its range")),
            ("2026-01-01T00:00:00+24:00", Err("a time with a part out of its range")),
            ("2026-01-01T00:00:00.Z", Err(BAD_DATE)),
            ("2026-01-01T00:00:00Zjunk", Err(BAD_DATE)),
            ("2026-01-01", Err(BAD_DATE)),
            ("2026-1-01T00:00:00Z", Err(BAD_DATE)),
            ("yesterday", Err(BAD_DATE)),
            ("", Err(BAD_DATE)),
        ] {
            assert_eq!(from_text(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn numbers_choose_their_unit_and_keep_every_digit() {
        for (text, expected) in [
            ("0", at(0, 0)),
            ("0.000000001", at(0, 1)),
            ("1795180566.", at(1_795_180_566, 0)),
            ("00", at(0, 0)),
            ("0000000000000000000001795180566", at(1_795_180_566, 0)),
            ("1795180566.5.", Err(BAD_NUMBER)),
            ("1795180566e", Err(BAD_NUMBER)),
            ("9999999999999999999", at(9_999_999_999, 999_999_999)),
            ("123456789012345678", at(123_456_789, 12_345_678)),
            ("99999999999.999999999", at(99_999_999_999, 999_999_999)),
            ("000000000001.5", at(1, 500_000_000)),
            ("1795180566.5x", Err(BAD_NUMBER)),
            ("17951805x6.5", Err(BAD_NUMBER)),
            ("1795180566", at(1_795_180_566, 0)),
            ("1795180566.123456789", at(1_795_180_566, 123_456_789)),
            ("1795180566.1234567899999999999999999999999", at(1_795_180_566, 123_456_789)),
            ("1795180566123", at(1_795_180_566, 123_000_000)),
            ("1795180566123.25", at(1_795_180_566, 123_250_000)),
            ("1795180566123456", at(1_795_180_566, 123_456_000)),
            ("1795180566123456789", at(1_795_180_566, 123_456_789)),
            ("99999999999", at(99_999_999_999, 0)),
            ("100000000000", at(100_000_000, 0)),
            ("1.795180566e9", at(1_795_180_566, 0)),
            ("1795180566123e-3", at(1_795_180_566, 123_000_000)),
            ("-1.5", at(-2, 500_000_000)),
            ("1e-300", at(0, 0)),
            ("0e300", at(0, 0)),
            ("99999999999999999999", at(99_999_999_999, 999_999_999)),
            ("100000000000000000000", Err(BAD_NUMBER)),
            ("1e30", Err(BAD_NUMBER)),
            ("1e99999", Err(BAD_NUMBER)),
            ("12345678901234567890123456789012345678901234567890", Err(BAD_NUMBER)),
        ] {
            assert_eq!(from_decimal(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(from_text(b"1795180566.5"), at(1_795_180_566, 500_000_000));
        assert_eq!(from_text(b"1.2.3"), Err(BAD_DATE));
        assert_eq!(from_text(b"."), Err(BAD_DATE));
    }

    #[test]
    fn numbers_of_other_clocks_are_seconds_or_nanoseconds() {
        for (text, expected) in [
            ("6500.25", Some((6500, 250_000_000))),
            ("6500.0", Some((6500, 0))),
            ("6.5e3", Some((6500, 0))),
            ("6500123456789", Some((6500, 123_456_789))),
            ("7", Some((0, 7))),
            ("0", Some((0, 0))),
            ("0e99", Some((0, 0))),
            ("-1", Some((-1, 999_999_999))),
            ("9999999999999999999", Some((9_999_999_999, 999_999_999))),
            ("10000000000000000000", None),
            ("100000000000.0", None),
            ("1e30", None),
            ("soon", None),
            ("", None),
        ] {
            let got = from_clock(text.as_bytes()).ok();
            assert_eq!(got, expected.map(|(sec, nsec)| Timestamp { sec, nsec }), "{text}");
        }
    }

    #[test]
    fn days_agree_with_counting() {
        let mut days = days_since_epoch(0, 1, 1);
        for year in 0..=2400 {
            for month in 1..=12 {
                assert_eq!(days_since_epoch(year, month, 1), days, "{year}-{month}");
                days += days_in_month(year, month);
            }
        }
        assert_eq!(days_since_epoch(1970, 1, 1), 0);
    }
}
