//! Time zones as `pmNewZone(3)` takes them, and the texts of times in them (`docs/pcp/fetchgroup.md` 28).

use std::path::PathBuf;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{Offset, TimeZone};

use crate::Timestamp;
use crate::timestamp::calendar;

/// A reporting time zone.
#[derive(Clone, Debug)]
pub struct Zone {
    zone: TimeZone,
    text: Option<String>,
}

/// A time on the calendar and clock of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// The year; 4 digits and more.
    pub year: i64,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 Sunday to 6 Saturday.
    pub weekday: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
}

impl Zone {
    /// Coordinated universal time.
    pub fn utc() -> Zone {
        Zone { zone: TimeZone::UTC, text: None }
    }

    /// The zone of this process: that of the environment variable `TZ`, or of the machine.
    pub fn local() -> Zone {
        let zone = match std::env::var("TZ") {
            Ok(text) => lookup(&text),
            Err(_) => system(),
        };
        Zone { zone, text: None }
    }

    /// The zone a text stands for: a name of the time zone database with or without a colon in front, or a
    /// POSIX zone such as `EST5EDT` or `<+03>-3`. As in `pmNewZone(3)` three letters are a zone of that
    /// name without an offset (`EST` is UTC), and as in C any other text is UTC.
    pub fn new(text: &str) -> Zone {
        let zone = if text.len() == 3 { lookup(&format!("{text}+0")) } else { lookup(text) };
        Zone { zone, text: Some(text.to_owned()) }
    }

    /// The zone a text of somebody else stands for, as [`Zone::new`] without files: what begins with `/` (or `:/`) or has
    /// `..` in it names a file, which is not looked at, and is UTC. For texts that come over the network.
    pub fn named(text: &str) -> Zone {
        let name = text.strip_prefix(':').unwrap_or(text);
        if name.starts_with('/') || name.contains("..") {
            return Zone { zone: TimeZone::UTC, text: Some(text.to_owned()) };
        }
        Zone::new(text)
    }

    /// The text the zone was made of, if it was.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Seconds east of UTC at a time in seconds since the epoch.
    pub fn utc_offset(&self, sec: i64) -> i64 {
        let sec = sec.clamp(jiff::Timestamp::MIN.as_second(), jiff::Timestamp::MAX.as_second());
        match jiff::Timestamp::from_second(sec) {
            Ok(time) => i64::from(self.zone.to_offset(time).seconds()),
            Err(_) => 0,
        }
    }

    /// Calendar and clock at a time in seconds since the epoch.
    pub fn civil(&self, sec: i64) -> Civil {
        let local = sec.saturating_add(self.utc_offset(sec));
        let (days, second) = (local.div_euclid(86_400), local.rem_euclid(86_400));
        let (year, month, day) = calendar(days);
        Civil {
            year,
            month,
            day,
            weekday: (days + 4).rem_euclid(7) as u8,
            hour: (second / 3_600) as u8,
            minute: (second / 60 % 60) as u8,
            second: (second % 60) as u8,
        }
    }

    /// Seconds since the epoch of a date and a time of day in seconds; days beyond the month and seconds
    /// beyond the day carry over. `None` beyond the years -9999 to 9999.
    pub fn seconds(&self, year: i64, month: u8, day: i64, second: i64) -> Option<i64> {
        let first = Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, 1).ok()?;
        let epoch = Date::constant(1970, 1, 1);
        let days = (first - epoch).get_days().into();
        let local = i64::checked_add(days, day - 1)?.checked_mul(86_400)?.checked_add(second)?;
        let (year, month, day) = calendar(local.div_euclid(86_400));
        let date = Date::new(i16::try_from(year).ok()?, month as i8, day as i8).ok()?;
        let clock = local.rem_euclid(86_400);
        let time = Time::new((clock / 3_600) as i8, (clock / 60 % 60) as i8, (clock % 60) as i8, 0).ok()?;
        let local = DateTime::from_parts(date, time);
        self.zone.to_ambiguous_timestamp(local).compatible().ok().map(|time| time.as_second())
    }

    /// `Fri Nov 20 10:44:40 2026`, as `pmCtime(3)` without its line break.
    pub fn ctime(&self, sec: i64) -> String {
        let t = self.civil(sec);
        format!("{} {:02}:{:02}:{:02} {}", self.date(sec), t.hour, t.minute, t.second, t.year)
    }

    /// `Fri Nov 20 10:44:40.123456 2026`: with `digits` digits of the second, 0 to 9, cut.
    pub fn ctime_fraction(&self, time: Timestamp, digits: usize) -> String {
        format!("{} {} {}", self.date(time.sec), self.clock(time, digits), self.civil(time.sec).year)
    }

    /// `Fri Nov 20`.
    pub fn date(&self, sec: i64) -> String {
        let t = self.civil(sec);
        let weekday = WEEKDAYS.get(usize::from(t.weekday)).unwrap_or(&"???");
        let month = MONTHS.get(usize::from(t.month).wrapping_sub(1)).unwrap_or(&"???");
        format!("{weekday} {month} {:>2}", t.day)
    }

    /// `10:44:40.123`: with `digits` digits of the second, 0 to 9, cut.
    pub fn clock(&self, time: Timestamp, digits: usize) -> String {
        let t = self.civil(time.sec);
        let fraction = format!(".{:09}", time.nsec);
        let fraction = if digits == 0 { "" } else { fraction.get(..=digits).unwrap_or(&fraction) };
        format!("{:02}:{:02}:{:02}{fraction}", t.hour, t.minute, t.second)
    }
}

/// Weekdays from Sunday, as C prints them.
pub(super) const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
/// Months from January, as C prints them.
pub(super) const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// What C makes of a value of `TZ`: a file of the database comes first, then the POSIX form.
fn lookup(text: &str) -> TimeZone {
    let (name, only_name) = match text.strip_prefix(':') {
        Some(name) => (name, true),
        None => (text, false),
    };
    if name.is_empty() {
        return TimeZone::UTC;
    }
    let file = if name.starts_with('/') {
        std::fs::read(name).ok().and_then(|data| TimeZone::tzif(name, &data).ok())
    } else {
        of_database(name)
    };
    let posix = |text: &str| if only_name { None } else { TimeZone::posix(text).ok() };
    // A summer time without a rule is that of the United States.
    file.or_else(|| posix(name))
        .or_else(|| posix(&format!("{name},M3.2.0,M11.1.0")))
        .unwrap_or(TimeZone::fixed(Offset::UTC))
}

/// The zone of the machine, by the file that says it.
fn system() -> TimeZone {
    let file = std::fs::read("/etc/localtime").ok().and_then(|data| TimeZone::tzif("", &data).ok());
    file.or_else(|| TimeZone::try_system().ok()).unwrap_or(TimeZone::UTC)
}

/// The zone that has that name in the database, which for C is the name of a file. To look names up in any case is to list all
/// directories first, 140 system calls: only where the files are elsewhere.
fn of_database(name: &str) -> Option<TimeZone> {
    let dir = std::env::var_os("TZDIR").map_or_else(|| PathBuf::from("/usr/share/zoneinfo"), PathBuf::from);
    match std::fs::read(dir.join(name)) {
        Ok(data) => TimeZone::tzif(name, &data).ok(),
        Err(_) if dir.exists() => None,
        Err(_) => TimeZone::get(name).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_ctime() {
        let utc = Zone::utc();
        let time = Timestamp { sec: 1_000_000_000, nsec: 123_456_789 };
        assert_eq!(utc.ctime(time.sec), "Sun Sep  9 01:46:40 2001");
        assert_eq!(utc.clock(time, 3), "01:46:40.123");
        assert_eq!(utc.clock(time, 0), "01:46:40");
        assert_eq!(utc.ctime_fraction(time, 6), "Sun Sep  9 01:46:40.123456 2001");
        assert_eq!(utc.ctime(-1), "Wed Dec 31 23:59:59 1969");
        assert_eq!(utc.civil(i64::MAX).hour, utc.civil(i64::MAX - 1).hour);
    }

    #[test]
    fn zones_are_those_of_c() {
        for (text, hour) in [
            ("UTC", 1),
            ("EST", 1),
            ("EST+5", 20),
            ("EST5EDT", 21),
            ("EST5EWT", 21),
            (":Europe/London", 2),
            ("Europe/Paris", 3),
            ("<+0530>-5:30", 7),
            (":Etc/UTC", 1),
            ("no such zone", 1),
            // Names are those of files, and not of directories.
            ("europe/paris", 1),
            ("Europe", 1),
            ("", 1),
        ] {
            assert_eq!(Zone::new(text).civil(1_000_000_000).hour, hour, "{text}");
        }
    }

    #[test]
    fn names_are_no_files() {
        let hour = |zone: Zone| zone.civil(1_000_000_000).hour;
        let paris = "/usr/share/zoneinfo/Europe/Paris";
        if std::path::Path::new(paris).exists() {
            assert_eq!(hour(Zone::new(paris)), 3, "what the next lines must not do");
        }
        // Reading one of the last two would not end.
        for text in [paris, &format!(":{paris}"), "Etc/../Europe/Paris", "/dev/zero", ":/dev/zero"] {
            assert_eq!(hour(Zone::named(text)), 1, "{text}");
            assert_eq!(Zone::named(text).text(), Some(text));
        }
        for (text, expected) in [("Europe/Paris", 3), (":Europe/London", 2), ("EST+5", 20), ("EST", 1)] {
            assert_eq!(hour(Zone::named(text)), expected, "{text}");
        }
    }

    #[test]
    fn dates_carry_over() {
        let utc = Zone::utc();
        assert_eq!(utc.seconds(2001, 9, 9, 6_400), Some(1_000_000_000));
        assert_eq!(utc.seconds(2002, 2, 30, 0), utc.seconds(2002, 3, 2, 0));
        assert_eq!(utc.seconds(2001, 13, 1, 0), None);
        assert_eq!(utc.seconds(2001, 12, 31, 86_400), utc.seconds(2002, 1, 1, 0));
        let london = Zone::new("Europe/London");
        assert_eq!(london.seconds(2001, 9, 9, 0), Some(999_993_600 - 3_600));
    }
}
