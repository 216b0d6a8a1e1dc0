//! A point in time as somebody says it who looks back: "what has come since".

use super::instant::parse_instant;
use super::{Reference, TimeError, Zone, parse_interval};
use crate::Timestamp;

/// Digits from which on a number behind `@` is of seconds since the epoch; with fewer it is an hour, a day or a year.
const EPOCH_DIGITS: usize = 6;

/// The point in time that a text stands for, of these forms:
///
/// ```text
/// AGE          10min, -10min, 1 hour 30 min: so long before `now` (pmParseInterval)
/// @SECONDS     since the epoch, with a fraction of up to nine digits, negative too
/// @CTIME       @11:00, @Mon Nov 23 11:00 2026, and the words of getdate, as -S of PCP's tools takes them
/// ISO 8601     2026-11-23T11:00:00.5Z, 2026-11-23 11:00:00+01:00, 2026-11-23T11:00, 2026-11-23
/// ```
///
/// Times without an offset are those of `zone`.
///
/// # Errors
/// Where the text is wrong, in the words of PCP.
pub fn parse_moment(text: &str, now: Timestamp, zone: &Zone) -> Result<Timestamp, TimeError> {
    let text = text.trim();
    if !text.contains(|c: char| c.is_ascii_alphanumeric()) {
        return Err(TimeError { text: text.to_owned(), at: 0, what: "a time or an age expected" });
    }
    if let Some(time) = text.strip_prefix('@').and_then(since_epoch) {
        return Ok(time);
    }
    if let Some(time) = iso(text, zone) {
        return Ok(time);
    }
    if let Ok(age) = parse_interval(text.strip_prefix('-').unwrap_or(text)) {
        return Ok(Timestamp::from_nanos(now.as_nanos() - age.as_nanos() as i128));
    }
    let seen_from = |start| parse_instant(text, &Reference { start, end: now, now }, zone);
    let time = seen_from(now)?;
    // What has no date is of the next day if that hour is past today. Who looks back means the last one.
    match time > now && text.starts_with('@') {
        true => seen_from(Timestamp { sec: now.sec - 86_400, ..now }),
        false => Ok(time),
    }
}

fn since_epoch(text: &str) -> Option<Timestamp> {
    let (is_negative, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if seconds.len() < EPOCH_DIGITS || !is_number(seconds) || !is_number(fraction) || fraction.len() > 9 {
        return None;
    }
    let seconds: i64 = seconds.parse().ok()?;
    let nanos: u32 = format!("{fraction:0<9}").parse().ok()?;
    let time = Timestamp::new(seconds, nanos);
    Some(if is_negative { Timestamp::from_nanos(-time.as_nanos()) } else { time })
}

fn iso(text: &str, zone: &Zone) -> Option<Timestamp> {
    let begins_with_year = text
        .split_once('-')
        .is_some_and(|(year, _)| year.len() == 4 && year.bytes().all(|byte| byte.is_ascii_digit()));
    if !begins_with_year {
        return None;
    }
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Some(Timestamp::from_nanos(time.as_nanosecond()));
    }
    let time: jiff::civil::DateTime = text.parse().ok()?;
    let clock = i64::from(time.hour()) * 3600 + i64::from(time.minute()) * 60 + i64::from(time.second());
    let [month, day] = [time.month(), time.day()].map(i8::unsigned_abs);
    let sec = zone.seconds(time.year().into(), month, day.into(), clock)?;
    Some(Timestamp::new(sec, time.subsec_nanosecond().unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_an_age_or_a_time_in_many_forms() {
        // 2001-09-09 01:46:40 UTC, a Sunday.
        let now = Timestamp::new(1_000_000_000, 250_000_000);
        let zone = Zone::new("UTC-2");
        for (text, expected) in [
            ("-10min", (-600, 250_000_000)),
            ("10min", (-600, 250_000_000)),
            (" 1 hour 30 sec ", (-3630, 250_000_000)),
            ("@1000000000", (0, 0)),
            ("@999999999.5", (-1, 500_000_000)),
            ("@-000001.5", (-1_000_000_002, 500_000_000)),
            ("2001-09-09T01:46:40Z", (0, 0)),
            ("2001-09-09 03:46:41.25+02:00", (1, 250_000_000)),
            // In the zone: two hours east.
            ("2001-09-09T03:46:40.5", (0, 500_000_000)),
            ("2001-09-09 03:46", (-40, 0)),
            ("2001-09-09", (-3 * 3600 - 46 * 60 - 40, 0)),
            ("@Sun Sep 9 03:46:39 2001", (-1, 0)),
            ("2 hours ago", (-7200, 0)),
        ] {
            let time = parse_moment(text, now, &zone);
            let (sec, nsec) = expected;
            assert_eq!(time, Ok(Timestamp { sec: 1_000_000_000 + sec, nsec }), "{text}");
        }
        for text in ["", "@", "soon", "2001-13-45", "@12.x", "-", "@1e9", "2001-09-09T25:00:00Z"] {
            assert!(parse_moment(text, now, &zone).is_err(), "{text}");
        }
    }

    #[test]
    fn an_hour_is_the_last_one() {
        let now = Timestamp::new(1_000_000_000, 0);
        for (text, ago) in [("@01:30", 1000), ("@00:46", 3640), ("@02:46", 86_400 - 3560), ("@01:47", 86_380)]
        {
            let time = parse_moment(text, now, &Zone::utc());
            assert_eq!(time, Ok(Timestamp::new(1_000_000_000 - ago, 0)), "{text}");
        }
    }
}
