//! From the clock the kernel stamps events with to real time.

use nix::time::ClockId;
use serde::{Deserialize, Serialize};

use crate::clock::{Offset, nanos};
use pcp_model::Timestamp;

/// The clock of a tracefs instance, by its name in the file `trace_clock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceClock {
    /// CLOCK_MONOTONIC: steered by NTP like real time, in step on all CPUs.
    Mono,
    /// CLOCK_MONOTONIC_RAW.
    MonoRaw,
    /// CLOCK_BOOTTIME.
    Boot,
    /// CLOCK_TAI.
    Tai,
    /// The scheduler's clock, cheapest, but CPUs may be apart.
    Local,
    /// The scheduler's clock, kept in step.
    Global,
}

impl TraceClock {
    /// As the kernel calls it.
    pub const fn name(self) -> &'static str {
        match self {
            TraceClock::Mono => "mono",
            TraceClock::MonoRaw => "mono_raw",
            TraceClock::Boot => "boot",
            TraceClock::Tai => "tai",
            TraceClock::Local => "local",
            TraceClock::Global => "global",
        }
    }

    /// The same clock for programs; the scheduler's has none.
    const fn id(self) -> Option<ClockId> {
        match self {
            TraceClock::Mono => Some(ClockId::CLOCK_MONOTONIC),
            TraceClock::MonoRaw => Some(ClockId::CLOCK_MONOTONIC_RAW),
            TraceClock::Boot => Some(ClockId::CLOCK_BOOTTIME),
            TraceClock::Tai => Some(ClockId::CLOCK_TAI),
            TraceClock::Local | TraceClock::Global => None,
        }
    }
}

/// Converts times of one clock to real time. Steps of the real-time clock are followed from the next
/// [`Converter::adjust`] on.
#[derive(Debug)]
pub struct Converter {
    clock: TraceClock,
    offset: Offset,
}

impl Converter {
    /// Compares the clocks for the first time. `trace_now` reads a clock that programs cannot: in nanoseconds, the
    /// `now ts` of a `stats` file.
    pub fn new(clock: TraceClock, trace_now: impl Fn() -> Option<u64>) -> Converter {
        let mut converter = Converter { clock, offset: Offset::default() };
        converter.adjust(trace_now);
        converter
    }

    /// Compares the clocks again.
    pub fn adjust(&mut self, trace_now: impl Fn() -> Option<u64>) {
        self.offset.adjust(|| match self.clock.id() {
            Some(id) => nanos(id),
            None => trace_now().map(|now| now as i64),
        });
    }

    /// A time of the trace clock as real time.
    #[inline]
    pub fn realtime(&self, trace: u64) -> Timestamp {
        // Saturated: hostile pages may hold any time.
        let nanos = (trace.min(i64::MAX as u64) as i64).saturating_add(self.offset.nanos).max(0) as u64;
        Timestamp::new((nanos / 1_000_000_000) as i64, (nanos % 1_000_000_000) as u32)
    }

    /// Now, by the trace clock.
    pub fn now(&self) -> u64 {
        let now = match self.clock.id() {
            Some(id) => nanos(id),
            None => nanos(ClockId::CLOCK_REALTIME).map(|now| now - self.offset.nanos),
        };
        now.unwrap_or_default().max(0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_clock_gives_real_time() {
        for clock in
            [TraceClock::Mono, TraceClock::MonoRaw, TraceClock::Boot, TraceClock::Tai, TraceClock::Local]
        {
            let trace_now = || nanos(ClockId::CLOCK_MONOTONIC).map(|now| now as u64 + 7);
            let converter = Converter::new(clock, trace_now);
            let real = converter.realtime(converter.now());
            let now = nanos(ClockId::CLOCK_REALTIME).expect("there is one");
            let apart = now - (real.sec * 1_000_000_000 + i64::from(real.nsec));
            assert!(apart.abs() < 5_000_000_000, "{clock:?} is {apart} ns off");
        }
    }

    #[test]
    fn absurd_times_do_not_overflow() {
        let converter = Converter { clock: TraceClock::Mono, offset: Offset { nanos: i64::MAX } };
        assert_eq!(converter.realtime(u64::MAX), Timestamp::new(9_223_372_036, 854_775_807));
        let converter = Converter { clock: TraceClock::Mono, offset: Offset { nanos: -5 } };
        assert_eq!(converter.realtime(1), Timestamp::new(0, 0));
    }
}
