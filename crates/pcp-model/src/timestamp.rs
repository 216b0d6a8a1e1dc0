//! Timestamps.

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
    pub const fn from_nanos(nanos: i128) -> Timestamp {
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

impl From<Duration> for Timestamp {
    fn from(since_epoch: Duration) -> Timestamp {
        Timestamp { sec: since_epoch.as_secs() as i64, nsec: since_epoch.subsec_nanos() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_carry_and_negative_times_stay_ordered() {
        assert_eq!(Timestamp::new(1, 2_500_000_000), Timestamp { sec: 3, nsec: 500_000_000 });
        let before = Timestamp::from_nanos(-1);
        assert_eq!(before, Timestamp { sec: -1, nsec: 999_999_999 });
        assert_eq!(before.as_nanos(), -1);
        assert_eq!(Timestamp::from(UNIX_EPOCH - Duration::from_nanos(1)), before);
    }
}
