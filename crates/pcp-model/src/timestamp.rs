//! Timestamps.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A point in time since the Unix epoch, to the nanosecond. `nsec` is always below one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since the epoch.
    pub sec: i64,
    /// Nanoseconds within the second, 0..1_000_000_000.
    pub nsec: u32,
}

impl Timestamp {
    /// From seconds and nanoseconds; surplus nanoseconds carry into the seconds.
    #[inline]
    pub const fn new(sec: i64, nsec: u32) -> Timestamp {
        Timestamp { sec: sec.saturating_add((nsec / 1_000_000_000) as i64), nsec: nsec % 1_000_000_000 }
    }

    /// From nanoseconds since the epoch.
    #[inline]
    pub const fn from_nanos(nanos: i128) -> Timestamp {
        // Nearly all fit 64 bits, whose division is a tenth of the work.
        let narrow = nanos as i64;
        if narrow as i128 == nanos {
            return Timestamp {
                sec: narrow.div_euclid(1_000_000_000),
                nsec: narrow.rem_euclid(1_000_000_000) as u32,
            };
        }
        Timestamp {
            sec: nanos.div_euclid(1_000_000_000) as i64,
            nsec: nanos.rem_euclid(1_000_000_000) as u32,
        }
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> i128 {
        self.sec as i128 * 1_000_000_000 + self.nsec as i128
    }

    /// Microseconds within the second, cut (not rounded) as PCP's tools do.
    #[inline]
    pub const fn usec(self) -> u32 {
        self.nsec / 1_000
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Timestamp {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Timestamp { sec: after.as_secs() as i64, nsec: after.subsec_nanos() },
            Err(before) => Timestamp::from_nanos(-(before.duration().as_nanos() as i128)),
        }
    }
}

impl From<Timestamp> for SystemTime {
    /// The same time, as near as the system's own times go; on Linux that is all of them.
    fn from(time: Timestamp) -> SystemTime {
        let nanos = Duration::from_nanos(time.nsec.into());
        let seconds = Duration::from_secs(time.sec.unsigned_abs());
        let whole = match time.sec {
            0.. => UNIX_EPOCH.checked_add(seconds),
            _ => UNIX_EPOCH.checked_sub(seconds),
        };
        whole.and_then(|whole| whole.checked_add(nanos)).unwrap_or(UNIX_EPOCH)
    }
}

/// As RFC 3339 has it, in UTC, with all nine digits, so that it sorts as text: `2026-11-23T15:58:33.089618863Z`. Years that
/// have not four digits are seconds since 1970 with a `@` in front.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Seconds from 1970 to the years 0 and 10,000.
        const YEARS: std::ops::Range<i64> = -62_167_219_200..253_402_300_800;
        let Timestamp { sec, nsec } = *self;
        if !YEARS.contains(&sec) {
            return write!(f, "@{sec}.{nsec:09}");
        }
        let (days, second) = (sec.div_euclid(86_400), sec.rem_euclid(86_400));
        let (year, month, day) = calendar(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nsec:09}Z")
    }
}

/// Year, month and day of a number of days since the epoch, in the Gregorian calendar.
pub(crate) fn calendar(days: i64) -> (i64, u8, u8) {
    // Years from March on, so that the leap day is the last one; 400 of them have 146,097 days.
    let days = days.saturating_add(719_468);
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month as u8, day as u8)
}

impl From<Duration> for Timestamp {
    fn from(since_epoch: Duration) -> Timestamp {
        Timestamp { sec: since_epoch.as_secs() as i64, nsec: since_epoch.subsec_nanos() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_both_ways_and_print_themselves() {
        for (sec, nsec, shown) in [
            (0, 0, "1970-01-01T00:00:00.000000000Z"),
            (1_795_449_513, 89_618_863, "2026-11-23T15:58:33.089618863Z"),
            (-1, 999_999_999, "1969-12-31T23:59:59.999999999Z"),
            (951_782_400, 1, "2000-02-29T00:00:00.000000001Z"),
            (4_107_542_400, 0, "2100-03-01T00:00:00.000000000Z"),
            (-62_167_219_200, 0, "0000-01-01T00:00:00.000000000Z"),
            (253_402_300_799, 0, "9999-12-31T23:59:59.000000000Z"),
            (253_402_300_800, 5, "@253402300800.000000005"),
            (i64::MIN, 0, "@-9223372036854775808.000000000"),
        ] {
            let time = Timestamp { sec, nsec };
            assert_eq!(time.to_string(), shown);
            assert_eq!(Timestamp::from(SystemTime::from(time)), time, "{shown}");
        }
    }

    #[test]
    fn nanoseconds_carry_and_negative_times_stay_ordered() {
        assert_eq!(Timestamp::new(1, 2_500_000_000), Timestamp { sec: 3, nsec: 500_000_000 });
        for wide in
            [i128::from(i64::MAX), i128::from(i64::MIN), i128::from(i64::MAX) + 1, i128::from(i64::MIN) - 1]
        {
            assert_eq!(Timestamp::from_nanos(wide).as_nanos(), wide, "at the borders of 64 bits");
        }
        let before = Timestamp::from_nanos(-1);
        assert_eq!(before, Timestamp { sec: -1, nsec: 999_999_999 });
        assert_eq!(before.as_nanos(), -1);
        assert_eq!(Timestamp::from(UNIX_EPOCH - Duration::from_nanos(1)), before);
    }
}
