//! Instants: the arguments of `-S`, `-T` and `-O` (`docs/pcp/tools.md` 2.2).

use super::getdate::getdate;
use super::interval::parse_interval;
use super::window::Reference;
use super::zone::{MONTHS, WEEKDAYS};
use super::{TimeError, Zone};
use crate::Timestamp;
use crate::c_number::{parse_prefix, skip_white};

/// The instant a text stands for, from `reference.start` and, if it is finite, `reference.end`.
pub(super) fn parse_instant(text: &str, reference: &Reference, zone: &Zone) -> Result<Timestamp, TimeError> {
    let shifted = |from: Timestamp, text: &str, sign: i128| {
        parse_interval(text).map(|by| {
            let nanos = from.as_nanos() + sign * by.as_nanos() as i128;
            let limits = Timestamp { sec: i64::MIN, nsec: 0 }.as_nanos()..=Reference::FOREVER.as_nanos();
            Timestamp::from_nanos(nanos.clamp(*limits.start(), *limits.end()))
        })
    };
    let first = text.trim_start_matches(is_blank);
    let (rest, error) = if let Some(rest) = first.strip_prefix('@') {
        match calendar_time(rest, reference.start, zone) {
            Ok(time) => return Ok(time),
            Err(error) => (rest, error),
        }
    } else if let (Some(rest), Some(end)) = (first.strip_prefix('-'), reference.finite_end()) {
        match shifted(end, rest, -1) {
            Ok(time) => return Ok(time),
            Err(error) => (rest, error),
        }
    } else {
        let rest = first.strip_prefix('+').unwrap_or(first);
        match shifted(reference.start, rest, 1) {
            Ok(time) => return Ok(time),
            Err(error) => (rest, error),
        }
    };
    getdate(rest, reference, zone).ok_or(error)
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t'..='\r')
}

/// A text in the form of `ctime(3)`, `[Ddd] [Mmm] [DD] [HH:MM[:SS]] [AM|PM] [YYYY]`. What is missing at
/// the end is zero (the first of the month, of January); what is missing in front is that of the reference,
/// and if the first field that is there lies before that of the reference, one year, month or day later.
fn calendar_time(text: &str, reference: Timestamp, zone: &Zone) -> Result<Timestamp, TimeError> {
    let fields = Fields::parse(text).map_err(|at| TimeError::unexpected(text, at))?;
    if fields.is_vague() {
        return Err(TimeError { text: text.to_owned(), at: text.len(), what: "more information expected" });
    }
    if fields.is_empty() {
        return Ok(reference);
    }
    let now = zone.civil(reference.sec);
    let (mut year, mut month, mut day) = (now.year, now.month, i64::from(now.day));
    if let Some(given) = fields.year {
        (year, month, day) = (given, fields.month.unwrap_or(1), fields.day.unwrap_or(1));
    } else if let Some(given) = fields.month {
        year += i64::from(given < now.month);
        (month, day) = (given, fields.day.unwrap_or(1));
    } else if let Some(given) = fields.day {
        let later = given < i64::from(now.day);
        (year, month) = if later && month == 12 { (year + 1, 1) } else { (year, month + u8::from(later)) };
        day = given;
    } else {
        day += i64::from(fields.hour.unwrap_or(0) < i64::from(now.hour));
    }
    let clock = fields.hour.unwrap_or(0) * 3_600 + fields.minute * 60 + fields.second.trunc() as i64;
    let sec = zone.seconds(year, month, day, clock).ok_or_else(|| TimeError::unexpected(text, 0))?;
    // PCP cuts the binary fraction too.
    Ok(Timestamp { sec, nsec: (fields.second.fract() * 1e9) as u32 })
}

#[derive(Default)]
struct Fields {
    weekday: bool,
    month: Option<u8>,
    day: Option<i64>,
    hour: Option<i64>,
    minute: i64,
    second: f64,
    /// Whether there was a colon: then the number before it is an hour without doubt.
    colon: bool,
    year: Option<i64>,
}

impl Fields {
    fn is_empty(&self) -> bool {
        !self.weekday && self.month.is_none() && self.day.is_none() && self.is_date()
    }

    fn is_date(&self) -> bool {
        self.hour.is_none() && !self.colon && self.year.is_none()
    }

    /// Whether it could be meant in several ways: a weekday without a date, a lone small number.
    fn is_vague(&self) -> bool {
        let dated = self.month.is_some() || self.day.is_some();
        let weekday = self.weekday && !dated;
        let lone_day = self.month.is_none() && self.day.is_some_and(|day| day < 24) && self.is_date();
        let lone_hour = !dated && self.hour.is_some() && !self.colon && self.year.is_none();
        weekday || lone_day || lone_hour
    }

    /// The fields, or the place where the text is wrong.
    fn parse(text: &str) -> Result<Fields, usize> {
        let bytes = text.as_bytes();
        let mut fields = Fields::default();
        let mut rest = skip_white(bytes);
        if let Some((_, after)) = name(rest, &WEEKDAYS) {
            (fields.weekday, rest) = (true, after);
        }
        if let Some((month, after)) = name(rest, &MONTHS) {
            (fields.month, rest) = (Some(month + 1), after);
        }
        if let Some((day, after)) = number(rest).filter(|&(n, after)| {
            n <= 31 && !(n <= 23 && (after.first() == Some(&b':') || meridian(after).is_some()))
        }) {
            (fields.day, rest) = (Some(day), after);
        }
        if let Some((hour, after)) = number(rest).filter(|&(n, _)| n <= 23) {
            (fields.hour, rest) = (Some(hour), after);
        }
        rest = fields.minutes(bytes.len(), rest)?;
        if let Some((afternoon, after)) = meridian(rest) {
            let hour = fields.hour.get_or_insert(0);
            if *hour > 12 {
                return Err(bytes.len() - rest.len());
            }
            *hour = *hour % 12 + if afternoon { 12 } else { 0 };
            rest = after;
        }
        if let Some((year, after)) = number(rest) {
            let complete = fields.month.is_some() && fields.day.is_some() && fields.hour.is_some();
            fields.year = match year {
                ..=68 if complete => Some(year + 2_000),
                70..=99 if complete => Some(year + 1_900),
                1_900.. => Some(year),
                _ => return Err(bytes.len() - rest.len()),
            };
            rest = after;
        }
        if rest.is_empty() { Ok(fields) } else { Err(bytes.len() - rest.len()) }
    }

    /// `:MM` and `:SS`, numbers that may be left out.
    fn minutes<'a>(&mut self, len: usize, rest: &'a [u8]) -> Result<&'a [u8], usize> {
        let Some(rest) = rest.strip_prefix(b":") else {
            return Ok(rest);
        };
        self.colon = true;
        let mut rest = skip_white(rest);
        if let Some((minute, after)) = number(rest) {
            if minute > 59 {
                return Err(len - rest.len());
            }
            (self.minute, rest) = (minute, after);
        }
        let Some(after) = rest.strip_prefix(b":") else {
            return Ok(rest);
        };
        rest = skip_white(after);
        if let Some(second) = parse_prefix(rest) {
            if !(0.0..62.0).contains(&second.value) {
                return Err(len - rest.len());
            }
            (self.second, rest) = (second.value, skip_white(second.rest));
        }
        Ok(rest)
    }
}

/// Which of the names of three letters stands in front, in any case, and the rest after it and blanks.
fn name<'a>(text: &'a [u8], names: &[&str]) -> Option<(u8, &'a [u8])> {
    let (word, rest) = text.split_at_checked(3)?;
    let at = names.iter().position(|name| word.eq_ignore_ascii_case(name.as_bytes()))?;
    Some((at as u8, skip_white(rest)))
}

/// A whole number, and the rest after it and blanks.
fn number(text: &[u8]) -> Option<(i64, &[u8])> {
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    let value = std::str::from_utf8(&digits[..end]).ok()?.parse().ok()?;
    Some((value, skip_white(&digits[end..])))
}

/// Whether `AM` (false) or `PM` stands in front, and the rest after it and blanks.
fn meridian(text: &[u8]) -> Option<(bool, &[u8])> {
    let (word, rest) = text.split_at_checked(2)?;
    let afternoon = match word.to_ascii_lowercase().as_slice() {
        b"am" => false,
        b"pm" => true,
        _ => return None,
    };
    let ends = !rest.first().is_some_and(u8::is_ascii_alphabetic);
    ends.then_some((afternoon, skip_white(rest)))
}
