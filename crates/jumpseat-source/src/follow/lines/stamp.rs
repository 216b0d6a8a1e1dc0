//! Times at the beginning of a text, in the forms that daemons and loggers use.
//!
//! ```text
//! 2026-11-22T22:30:01.5Z     2026-11-22 22:30:01,123    2026-11-22 22:30:01.123 UTC     2026-11-22 22:30:01 +0100
//! 2026/11/22 22:30:01        22/Nov/2026:22:30:01 +0000 22-Nov-2026 22:30:01.5 UTC      22 Nov 2026 22:30:01,123
//! Nov 22 22:30:01            Nov  2 22:30:01.5          Nov 22 2026 22:30:01            Sun Nov 22 22:30:01.5 2026
//! ```
//!
//! **Bounds:** no more than the first hundred bytes are looked at.

/// A date and a time of day as they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    /// The year, unless it is left out.
    pub year: Option<i16>,
    /// From 1.
    pub month: i8,
    /// From 1.
    pub day: i8,
    pub hour: i8,
    pub minute: i8,
    /// Up to 60.
    pub second: i8,
    pub nanos: i32,
    /// Seconds ahead of UTC, if that is written.
    pub offset: Option<i32>,
}

/// Scans a time. Gives it with its length; what is behind it is no letter and no digit.
#[inline]
pub(super) fn scan(text: &[u8]) -> Option<(Parts, usize)> {
    if let Some(parts) = request(text) {
        return Some((parts, REQUEST));
    }
    let mut cursor = Cursor { text, at: 0 };
    let parts = match text.get(..5)? {
        [b'0'..=b'9', b'0'..=b'9', b'0'..=b'9', b'0'..=b'9', separator @ (b'-' | b'/')] => {
            cursor.year_first(*separator)
        }
        [b'0'..=b'9', b'0'..=b'9', separator @ (b'/' | b'-' | b' '), letter, _]
            if letter.is_ascii_alphabetic() =>
        {
            cursor.day_first(*separator)
        }
        [a, b, c, b' ', _] if a.is_ascii_uppercase() && b.is_ascii_lowercase() && c.is_ascii_lowercase() => {
            cursor.month_first()
        }
        _ => None,
    }?;
    let ends = cursor.peek().is_none_or(|byte| !byte.is_ascii_alphanumeric());
    ends.then_some((parts, cursor.at))
}

/// Length of a request's time.
pub(super) const REQUEST: usize = "22/Nov/2026:16:00:00 +0000".len();

/// `22/Nov/2026:22:30:01 +0000`, as web servers write it for each request: without a step for each of its parts. What is not just so is
/// for the others to tell.
#[inline]
fn request(text: &[u8]) -> Option<Parts> {
    let (time, behind) = text.split_first_chunk::<REQUEST>()?;
    let &[
        d1,
        d2,
        b'/',
        m1,
        m2,
        m3,
        b'/',
        y1,
        y2,
        y3,
        y4,
        b':',
        h1,
        h2,
        b':',
        i1,
        i2,
        b':',
        s1,
        s2,
        b' ',
        sign @ (b'+' | b'-'),
        z1,
        z2,
        z3,
        z4,
    ] = time
    else {
        return None;
    };
    let digits = [d1, d2, y1, y2, y3, y4, h1, h2, i1, i2, s1, s2, z1, z2, z3, z4];
    let month = MONTHS.iter().position(|month| **month == [m1, m2, m3])?;
    let are_digits = digits.iter().fold(true, |are, digit| are & digit.is_ascii_digit());
    if !are_digits || behind.first().is_some_and(u8::is_ascii_alphanumeric) {
        return None;
    }
    let two = |tens: u8, ones: u8| i16::from(tens - b'0') * 10 + i16::from(ones - b'0');
    let (hours, minutes) = (i32::from(two(z1, z2)), i32::from(two(z3, z4)));
    let offset = (hours < 24 && minutes < 60).then_some(hours * 3600 + minutes * 60)?;
    Some(Parts {
        year: Some(two(y1, y2) * 100 + two(y3, y4)),
        month: month as i8 + 1,
        day: two(d1, d2) as i8,
        hour: two(h1, h2) as i8,
        minute: two(i1, i2) as i8,
        second: two(s1, s2) as i8,
        nanos: 0,
        offset: Some(if sign == b'-' { -offset } else { offset }),
    })
}

/// The time of day `22:30:01.5` behind a date: what klog writes, too.
pub(super) fn scan_clock(text: &[u8], year: Option<i16>, month: i8, day: i8) -> Option<(Parts, usize)> {
    let mut cursor = Cursor { text, at: 0 };
    let parts = cursor.clock(year, month, day)?;
    Some((parts, cursor.at))
}

const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
const DAYS: [&[u8; 3]; 7] = [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];
/// Most digits of a fraction; those below the nanosecond are left out.
const FRACTION: usize = 18;

struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    /// `2026-11-22T22:30:01` or `2026/11/22 22:30:01`.
    fn year_first(&mut self, separator: u8) -> Option<Parts> {
        let year = self.digits(4)?;
        self.expect(separator)?;
        let month = self.digits(2)?;
        self.expect(separator)?;
        let day = self.digits(2)?;
        if !matches!(self.peek()?, b'T' | b't' | b' ') {
            return None;
        }
        self.at += 1;
        self.clock_and_zone(Some(year), month as i8, day as i8)
    }

    /// `22/Nov/2026:22:30:01`, `22-Nov-2026 22:30:01` or `22 Nov 2026 22:30:01`.
    fn day_first(&mut self, separator: u8) -> Option<Parts> {
        let day = self.digits(2)?;
        self.expect(separator)?;
        let month = self.word(&MONTHS)?;
        self.expect(separator)?;
        let year = self.digits(4)?;
        self.expect(if separator == b'/' { b':' } else { b' ' })?;
        self.clock_and_zone(Some(year), month, day as i8)
    }

    /// `Nov 22 22:30:01`, `Nov 22 2026 22:30:01` or `Sun Nov 22 22:30:01 2026`.
    fn month_first(&mut self) -> Option<Parts> {
        let has_weekday = self.word(&DAYS).is_some();
        if has_weekday {
            self.expect(b' ')?;
        }
        let month = self.word(&MONTHS)?;
        self.expect(b' ')?;
        let day = match self.peek()? {
            b' ' => {
                self.at += 1;
                self.digits(1)?
            }
            _ => self.digits(2)?,
        };
        self.expect(b' ')?;
        let mut year = self.year_before(b' ');
        let mut parts = self.clock(year, month, day as i8)?;
        if has_weekday && year.is_none() && self.peek() == Some(b' ') {
            self.at += 1;
            year = Some(self.digits(4)?);
            parts.year = year;
        }
        Some(parts)
    }

    /// Four digits with this byte behind them.
    fn year_before(&mut self, byte: u8) -> Option<i16> {
        let start = self.at;
        let year = self.digits(4).filter(|_| self.expect(byte).is_some());
        if year.is_none() {
            self.at = start;
        }
        year
    }

    fn clock_and_zone(&mut self, year: Option<i16>, month: i8, day: i8) -> Option<Parts> {
        let parts = self.clock(year, month, day)?;
        Some(Parts { offset: self.zone(), ..parts })
    }

    /// `22:30:01` with or without a fraction.
    fn clock(&mut self, year: Option<i16>, month: i8, day: i8) -> Option<Parts> {
        let hour = self.digits(2)? as i8;
        self.expect(b':')?;
        let minute = self.digits(2)? as i8;
        self.expect(b':')?;
        let second = self.digits(2)? as i8;
        let nanos = self.fraction();
        Some(Parts { year, month, day, hour, minute, second, nanos, offset: None })
    }

    fn fraction(&mut self) -> i32 {
        let digits = match self.text.get(self.at..) {
            Some([b'.' | b',', digits @ ..]) => digits,
            _ => return 0,
        };
        let count = digits.iter().take(FRACTION).take_while(|byte| byte.is_ascii_digit()).count();
        if count > 0 {
            self.at += 1 + count;
        }
        let kept = count.min(9);
        let value = digits[..kept].iter().fold(0, |value, digit| value * 10 + i32::from(digit - b'0'));
        value * 10_i32.pow(9 - kept as u32)
    }

    /// `Z`, `+01:00`, `+0100` or `+01`, or with a blank in front, or `UTC`. Nothing is consumed if there is none.
    fn zone(&mut self) -> Option<i32> {
        let start = self.at;
        self.at += usize::from(self.peek() == Some(b' '));
        let is_apart = self.at > start;
        let offset = match self.text.get(self.at..).unwrap_or_default() {
            [b'Z' | b'z', ..] => {
                self.at += 1;
                Some(0)
            }
            [b'U', b'T', b'C', ..] | [b'G', b'M', b'T', ..] => {
                self.at += 3;
                Some(0)
            }
            [b'+' | b'-', ..] => self.offset(is_apart),
            _ => None,
        };
        // A word that only begins like one is none.
        let offset = offset.filter(|_| self.peek().is_none_or(|byte| !byte.is_ascii_alphanumeric()));
        if offset.is_none() {
            self.at = start;
        }
        offset
    }

    fn offset(&mut self, is_apart: bool) -> Option<i32> {
        let sign = if self.peek() == Some(b'-') { -1 } else { 1 };
        self.at += 1;
        let hours = i32::from(self.digits(2)?);
        let minutes = match self.peek() {
            Some(b':') => {
                self.at += 1;
                self.digits(2)?
            }
            Some(byte) if byte.is_ascii_digit() => self.digits(2)?,
            // A number with a sign, rather.
            _ if is_apart => return None,
            _ => 0,
        };
        (hours < 24 && minutes < 60).then(|| sign * (hours * 3600 + i32::from(minutes) * 60))
    }

    fn word(&mut self, words: &[&[u8; 3]]) -> Option<i8> {
        let found = self.text.get(self.at..self.at + 3)?;
        let number = words.iter().position(|word| found == *word)?;
        self.at += 3;
        Some(number as i8 + 1)
    }

    /// So many digits, at most four.
    fn digits(&mut self, count: usize) -> Option<i16> {
        let digits = self.text.get(self.at..self.at + count)?;
        let value = digits.iter().try_fold(0, |value, digit| {
            digit.is_ascii_digit().then(|| value * 10 + i16::from(digit - b'0'))
        })?;
        self.at += count;
        Some(value)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same as a cursor finds it, step by step.
    fn step_by_step(text: &[u8]) -> Option<(Parts, usize)> {
        let mut cursor = Cursor { text, at: 0 };
        let parts = cursor.day_first(*text.get(2)?)?;
        let ends = cursor.peek().is_none_or(|byte| !byte.is_ascii_alphanumeric());
        ends.then_some((parts, cursor.at))
    }

    proptest! {
        #[test]
        fn times_of_requests_are_what_they_are_step_by_step(
            digits in prop::array::uniform16(0_u8..10),
            month in 0_usize..12,
            is_ahead in any::<bool>(),
            behind in "[] 7aZ.]?[x5 ]?",
            other in prop::option::weighted(0.5, (0_usize..26, any::<u8>())),
        ) {
            let [d1, d2, y1, y2, y3, y4, h1, h2, i1, i2, s1, s2, z1, z2, z3, z4] = digits;
            let month = std::str::from_utf8(MONTHS[month]).expect("a word");
            let sign = if is_ahead { '+' } else { '-' };
            let mut text = format!(
                "{d1}{d2}/{month}/{y1}{y2}{y3}{y4}:{h1}{h2}:{i1}{i2}:{s1}{s2} {sign}{z1}{z2}{z3}{z4}{behind}"
            )
            .into_bytes();
            if let Some((at, byte)) = other {
                text[at] = byte;
            }
            if let Some(parts) = request(&text) {
                prop_assert_eq!(Some((parts, REQUEST)), step_by_step(&text));
            } else if other.is_none() && text.get(REQUEST).is_none_or(|byte| !byte.is_ascii_alphanumeric()) {
                prop_assert!(10 * z1 + z2 > 23 || z3 > 5, "a whole one is found");
            }
        }
    }
}
