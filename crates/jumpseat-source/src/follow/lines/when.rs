//! Times in lines: with a format as `strptime(3)` takes it, or in one of the usual forms.
//!
//! The machine's zone is looked for when the first time without one comes: to look a zone up is to list the directories of the time
//! zone database first (180 system calls), and most lines have one.

use std::sync::OnceLock;

use jiff::civil::DateTime;
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::TimeZone;

use super::stamp::{self, Parts, REQUEST};
use crate::ndjson::time;
use pcp_model::Timestamp;

const BAD: &str = "not a time in one of the usual forms: say how it is written with time_format";
const NOT_AS_TOLD: &str = "not a time as time_format says";
/// Longest time without a zone, in bytes: with more digits than nanoseconds it is something else.
const LONGEST_WITHOUT_ZONE: usize = 39;
const RANGE: &str = "a time with a part out of its range";

/// How times are written. Those without a zone are in the machine's.
#[derive(Clone, Debug)]
pub struct When {
    format: Option<Box<str>>,
    /// The machine's, once it is needed, if the table names none.
    zone: OnceLock<TimeZone>,
}

impl When {
    /// Times of this format, or of the usual forms: RFC 3339 with or without a zone, numbers since the epoch,
    /// `22/Nov/2026:16:00:00 +0000`, `2026/11/22 16:00:00`, and `Nov 22 16:00:00` of syslog.
    ///
    /// # Errors
    /// The format is none.
    pub fn new(format: Option<&str>) -> Result<When, String> {
        if let Some(format) = format {
            // Formatting finds out about wrong directives; parsing would stop at the first that does not match.
            let sample = jiff::Timestamp::UNIX_EPOCH.to_zoned(TimeZone::UTC);
            let mut text = String::new();
            BrokenDownTime::from(&sample)
                .format(format, &mut text)
                .map_err(|error| format!("{format:?}: {error}"))?;
            if !format.contains('%') {
                return Err(format!("{format:?} has no part of a time, such as %Y-%m-%d %H:%M:%S"));
            }
        }
        Ok(When { format: format.map(Into::into), zone: OnceLock::new() })
    }

    /// The same with another zone than the machine's, by its name in the time zone database.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn in_zone(self, name: &str) -> Result<When, String> {
        let zone = TimeZone::get(name).map_err(|_| {
            format!(
                "{name:?} is not in the time zone database: write one such as \"UTC\" or \"Europe/Berlin\""
            )
        })?;
        Ok(When { zone: zone.into(), ..self })
    }

    /// A time that is a number: since the epoch, or what the format makes of it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn number(&self, text: &[u8], now: Timestamp) -> Result<Timestamp, &'static str> {
        match &self.format {
            Some(format) => self.formatted(format, text, now).ok_or(NOT_AS_TOLD),
            None => time::from_decimal(text),
        }
    }

    /// Whether a table says how times are written.
    pub(super) fn is_told(&self) -> bool {
        self.format.is_some()
    }

    /// Reads a time. `now` gives the year, or the day, to those that have none.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(&self, text: &[u8], now: Timestamp) -> Result<Timestamp, &'static str> {
        if let Some(format) = &self.format {
            return self.formatted(format, text, now).ok_or(NOT_AS_TOLD);
        }
        match text {
            [b'0'..=b'9', b'0'..=b'9', b'/', ..] => self.request(text, now).ok_or(BAD),
            [_, _, _, _, b'/', ..] => self.formatted("%Y/%m/%d %H:%M:%S%.f", text, now).ok_or(BAD),
            [_, _, _, _, b'-', ..] => self.rfc3339(text),
            [first, ..] if first.is_ascii_alphabetic() => self.syslog(text, now).ok_or(BAD),
            _ => time::from_text(text).map_err(|_| BAD),
        }
    }

    /// `Nov 22 16:00:00` or `Nov  2 16:00:00`, possibly with a fraction.
    pub(super) fn syslog(&self, text: &[u8], now: Timestamp) -> Option<Timestamp> {
        let (parts, length) = stamp::scan(text)?;
        if length < text.len() {
            return None;
        }
        self.assemble(&parts, now)
    }

    /// `22/Nov/2026:16:00:00 +0000`, as web servers log requests.
    fn request(&self, text: &[u8], now: Timestamp) -> Option<Timestamp> {
        // All but every one has this length, and there is nothing to ask strptime for.
        if text.len() == REQUEST
            && let Some((parts, REQUEST)) = stamp::scan(text)
            && parts.offset.is_some()
            && parts.second < 60
        {
            return self.assemble(&parts, now);
        }
        self.formatted("%d/%b/%Y:%H:%M:%S %z", text, now)
    }

    /// The time that a text begins with, and its length.
    pub(super) fn leading(&self, text: &[u8], now: Timestamp) -> Option<(Timestamp, usize)> {
        if let Some(format) = &self.format {
            let (parts, length) = BrokenDownTime::parse_prefix(format.as_bytes(), text).ok()?;
            return Some((self.complete(parts, now)?, length));
        }
        let (parts, length) = stamp::scan(text)?;
        Some((self.assemble(&parts, now)?, length))
    }

    /// The time that is written so. Without a year it is the one that puts it closest before `now`, a day of wrong clocks
    /// allowed for; without an offset it is in our zone.
    pub(super) fn assemble(&self, parts: &Parts, now: Timestamp) -> Option<Timestamp> {
        let in_year = |year: i16| {
            let Parts { month, day, hour, minute, second, nanos, .. } = *parts;
            if let Some(offset) = parts.offset {
                let date = (year.into(), month.into(), day.into());
                let utc = time::utc(date, (hour.into(), minute.into(), second.into()))?;
                return Some(Timestamp::new(utc - i64::from(offset), u32::try_from(nanos).ok()?));
            }
            // A leap second is the second after it, as elsewhere.
            let civil = DateTime::new(year, month, day, hour, minute, second.min(59), nanos).ok()?;
            let mut time = self.local(civil)?;
            time.sec += i64::from(second == 60);
            (second <= 60).then_some(time)
        };
        if let Some(year) = parts.year {
            return in_year(year);
        }
        let this_year = self.civil(now)?.year();
        in_year(this_year).filter(|time| time.sec <= now.sec + 86_400).or_else(|| in_year(this_year - 1))
    }

    fn formatted(&self, format: &str, text: &[u8], now: Timestamp) -> Option<Timestamp> {
        self.complete(BrokenDownTime::parse(format, text).ok()?, now)
    }

    /// What a format has found as a time.
    fn complete(&self, mut parts: BrokenDownTime, now: Timestamp) -> Option<Timestamp> {
        // Such a time is complete by itself: neither the zone nor the year is ours to add.
        if parts.timestamp().is_some() || parts.offset().is_some() {
            return parts.to_timestamp().ok().map(from_jiff);
        }
        let mut guessed = false;
        if parts.year().is_none() && parts.to_date().is_err() {
            let today = self.civil(now)?;
            guessed = parts.month().is_some();
            parts.set_year(Some(today.year())).ok()?;
            if !guessed {
                parts.set_month(Some(today.month())).ok()?;
                parts.set_day(Some(today.day())).ok()?;
            }
        }
        let civil = match (parts.to_datetime(), parts.to_date()) {
            (Ok(civil), _) => civil,
            (Err(_), Ok(date)) => date.to_datetime(jiff::civil::Time::midnight()),
            _ => return None,
        };
        let time = self.local(civil)?;
        // A line of December that is read in January is of the year before.
        if guessed && time.sec > now.sec + 86_400 {
            let before = civil.with().year(civil.year() - 1).build().ok()?;
            return self.local(before);
        }
        Some(time)
    }

    /// RFC 3339, where there is no zone in ours.
    fn rfc3339(&self, text: &[u8]) -> Result<Timestamp, &'static str> {
        let time::Rfc3339 { utc, nsec, offset } = time::Rfc3339::parse(text)?;
        if let Some(offset) = offset {
            return Ok(Timestamp::new(utc - offset, nsec));
        }
        if text.len() > LONGEST_WITHOUT_ZONE {
            return Err(BAD);
        }
        // Read as if in UTC, then the same date and time of day in the zone.
        let utc = to_jiff(Timestamp::new(utc, nsec)).ok_or(RANGE)?;
        self.local(utc.to_zoned(TimeZone::UTC).datetime()).ok_or(RANGE)
    }

    fn civil(&self, time: Timestamp) -> Option<DateTime> {
        Some(self.zone().to_datetime(to_jiff(time)?))
    }

    fn local(&self, civil: DateTime) -> Option<Timestamp> {
        self.zone().to_timestamp(civil).ok().map(from_jiff)
    }

    fn zone(&self) -> &TimeZone {
        self.zone.get_or_init(TimeZone::system)
    }
}

fn to_jiff(time: Timestamp) -> Option<jiff::Timestamp> {
    jiff::Timestamp::new(time.sec, time.nsec as i32).ok()
}

fn from_jiff(time: jiff::Timestamp) -> Timestamp {
    Timestamp::from_nanos(time.as_nanosecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-20T13:16:06Z
    const NOW: Timestamp = Timestamp { sec: 1_795_180_566, nsec: 0 };

    fn read(format: Option<&str>, zone_hours: i8, text: &str) -> Result<String, &'static str> {
        let zone = TimeZone::fixed(jiff::tz::Offset::constant(zone_hours)).into();
        let when = When { zone, ..When::new(format).expect("a good format") };
        let time = when.read(text.as_bytes(), NOW)?;
        Ok(to_jiff(time).expect("in range").to_string())
    }

    #[test]
    fn the_usual_forms() {
        for (text, time) in [
            ("2026-11-20T13:16:06Z", "2026-11-20T13:16:06Z"),
            ("2026-11-20T13:16:06", "2026-11-20T11:16:06Z"),
            ("2026-11-20 13:16:06,123", "2026-11-20T11:16:06.123Z"),
            ("20/Nov/2026:13:16:06 +0100", "2026-11-20T12:16:06Z"),
            ("2026/11/20 13:16:06", "2026-11-20T11:16:06Z"),
            ("2026/11/20 13:16:06.5", "2026-11-20T11:16:06.5Z"),
            ("Nov 20 13:16:06", "2026-11-20T11:16:06Z"),
            ("Nov  2 13:16:06.25", "2026-11-02T11:16:06.25Z"),
            ("Dec 31 23:59:59", "2025-12-31T21:59:59Z"),
            ("1795180566.5", "2026-11-20T13:16:06.5Z"),
        ] {
            assert_eq!(read(None, 2, text).as_deref(), Ok(time), "{text}");
        }
        for text in
            ["", "x", "Nov 32 00:00:00", "Nov 20 24:00:00", "20/Nov/26", "2026/", "Nov 20 13:16:06.", "-"]
        {
            assert_eq!(read(None, 0, text), Err(BAD), "{text}");
        }
        assert!(read(None, 0, &format!("2026-11-20T13:16:06.{}", "1".repeat(100))).is_err());
    }

    #[test]
    fn formats() {
        for (format, text, time) in [
            ("%d.%m.%Y %H:%M", "20.11.2026 13:16", "2026-11-20T11:16:00Z"),
            ("%b %d %H:%M:%S", "Dec 20 13:16:06", "2025-12-20T11:16:06Z"),
            ("%H:%M:%S", "12:00:00", "2026-11-20T10:00:00Z"),
            ("%s", "1795180566", "2026-11-20T13:16:06Z"),
            ("%Y-%m-%dT%H:%M:%S%:z", "2026-11-20T13:16:06+05:30", "2026-11-20T07:46:06Z"),
            ("%Y-%m-%d", "2026-11-20", "2026-11-19T22:00:00Z"),
        ] {
            assert_eq!(read(Some(format), 2, text).as_deref(), Ok(time), "{format}: {text}");
            assert_eq!(read(Some(format), 2, "soon"), Err(NOT_AS_TOLD));
        }
        assert!(When::new(Some("%H:%")).is_err());
        assert!(When::new(Some("hh:mm")).is_err());
        let nowhere = When::new(None).expect("no format").in_zone("Nowhere/Land");
        assert!(nowhere.is_err_and(|why| why.starts_with("\"Nowhere/Land\" is not in the time zone")));
    }
}
