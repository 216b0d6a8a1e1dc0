//! From other clocks of this machine to real time.
//!
//! Programs and the kernel may stamp events with a clock that is never set, so that their differences are right
//! whatever happens to the real-time clock. All times here are real times in the end. [`Offset`] is what is between
//! the two, compared again and again, so that steps of the real-time clock are followed.

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use pcp_model::Timestamp;

/// The clock that numeric times of senders are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SenderClock {
    /// CLOCK_REALTIME: since 1970.
    #[default]
    Realtime,
    /// CLOCK_MONOTONIC: since some time before the machine's start, without the time it slept.
    Monotonic,
    /// CLOCK_BOOTTIME: the same with the time it slept.
    Boottime,
}

impl SenderClock {
    /// All of them.
    pub const ALL: [SenderClock; 3] = [SenderClock::Realtime, SenderClock::Monotonic, SenderClock::Boottime];

    /// As configurations and control lines call it.
    pub const fn word(self) -> &'static str {
        match self {
            SenderClock::Realtime => "realtime",
            SenderClock::Monotonic => "monotonic",
            SenderClock::Boottime => "boottime",
        }
    }

    /// The clock that a word names.
    pub fn from_word(word: &str) -> Option<SenderClock> {
        SenderClock::ALL.into_iter().find(|clock| clock.word() == word)
    }

    /// Its number for the system (`<linux/time.h>`), which is its number in the binary framing, too.
    pub const fn code(self) -> u8 {
        match self {
            SenderClock::Realtime => 0,
            SenderClock::Monotonic => 1,
            SenderClock::Boottime => 7,
        }
    }

    /// The clock with a number.
    pub fn from_code(code: u8) -> Option<SenderClock> {
        SenderClock::ALL.into_iter().find(|clock| clock.code() == code)
    }

    /// The clock's time now, in nanoseconds.
    pub fn now(self) -> Option<i64> {
        nanos(match self {
            SenderClock::Realtime => ClockId::CLOCK_REALTIME,
            SenderClock::Monotonic => ClockId::CLOCK_MONOTONIC,
            SenderClock::Boottime => ClockId::CLOCK_BOOTTIME,
        })
    }
}

/// How often two clocks are compared to find the closest pair of readings.
const TRIES: usize = 3;

/// Real time minus another clock's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offset {
    /// In nanoseconds.
    pub nanos: i64,
}

impl Offset {
    /// Compares the clocks. `other` reads the other one, in nanoseconds. Where that fails, nothing changes.
    pub fn adjust(&mut self, other: impl Fn() -> Option<i64>) {
        let measured = (0..TRIES).filter_map(|_| {
            let before = nanos(ClockId::CLOCK_REALTIME)?;
            let other = other()?;
            let after = nanos(ClockId::CLOCK_REALTIME)?;
            // The other clock was read somewhere between the two.
            let doubt = (after - before) / 2;
            Some((doubt, before + doubt - other))
        });
        // A difference within the doubt is none: times do not jitter for nothing.
        if let Some((doubt, nanos)) = measured.min_by_key(|(doubt, _)| doubt.unsigned_abs())
            && (nanos - self.nanos).unsigned_abs() > doubt.unsigned_abs()
        {
            self.nanos = nanos;
        }
    }

    /// Compares with a sender's clock. Real time is real time: then there is nothing to do.
    pub fn adjust_to(&mut self, clock: SenderClock) {
        match clock {
            SenderClock::Realtime => self.nanos = 0,
            _ => self.adjust(|| clock.now()),
        }
    }

    /// A time of the other clock as real time.
    pub fn realtime(self, other: Timestamp) -> Timestamp {
        Timestamp::from_nanos(other.as_nanos() + i128::from(self.nanos))
    }
}

/// A clock of the system now, in nanoseconds.
pub(super) fn nanos(clock: ClockId) -> Option<i64> {
    let time = clock_gettime(clock).ok()?;
    Some(time.tv_sec() * 1_000_000_000 + time.tv_nsec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_clock_gives_real_time() {
        for clock in SenderClock::ALL {
            let mut offset = Offset::default();
            offset.adjust_to(clock);
            let then = offset.realtime(Timestamp::from_nanos(clock.now().expect("there is one").into()));
            let now = i128::from(nanos(ClockId::CLOCK_REALTIME).expect("there is one"));
            assert!((now - then.as_nanos()).abs() < 5_000_000_000, "{clock:?}: {then:?}");
            assert_eq!(SenderClock::from_word(clock.word()), Some(clock));
            assert_eq!(SenderClock::from_code(clock.code()), Some(clock));
        }
    }

    #[test]
    fn a_step_is_followed_and_a_doubt_is_not() {
        // Another clock that is set back by an hour looks the same as real time set forward by one.
        let mut offset = Offset::default();
        let behind = |by: i64| nanos(ClockId::CLOCK_MONOTONIC).map(|now| now - by);
        offset.adjust(|| behind(0));
        let before = offset;
        offset.adjust(|| behind(3_600_000_000_000));
        assert!((offset.nanos - before.nanos - 3_600_000_000_000).abs() < 1_000_000_000, "{offset:?}");
        let before = offset;
        offset.adjust(|| None);
        assert_eq!(offset, before);
    }
}
