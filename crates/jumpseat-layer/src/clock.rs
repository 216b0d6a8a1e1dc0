//! Real time at the cost of the processor's counter.
//!
//! The system's clock takes three times as long to be read as the counter behind it. So a thread compares the two every
//! 100 us or so while it traces, and counts on from there in between. This is done only where Linux itself takes its time from
//! this counter, so that it runs at one speed and alike on all processors.
//!
//! **Invariant:** a time lies within 1 us of the system's clock: the comparison is exact to [`APART`], and 100 us of a speed that is
//! wrong by [`WRONG`], which would be noticed, are 0.1 us. A clock that is set is followed at the next comparison.
//!
//! **Cost:** mostly that of the instruction: 14 ns on a virtual machine, under load, on which reading the clock took 43 ns.

use std::cell::Cell;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time between two comparisons.
const PERIOD: Duration = Duration::from_micros(100);
/// The speed is measured over at least so long a time, and at most.
const BASE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(1));
/// Ticks that may pass while the clocks are compared: more is an interruption between the two.
const APART: u64 = 1500;
/// The speed changes by less than the thousandth part, or something else is wrong.
const WRONG: u64 = 1000;
/// Bits of a speed below one.
const FRACTION: u32 = 32;

/// Nanoseconds since the epoch.
#[inline]
pub(crate) fn now() -> i64 {
    let anchor = ANCHOR.get();
    if anchor.valid > 0 {
        let since = counter::read().wrapping_sub(anchor.ticks);
        if since < anchor.valid {
            return anchor.nanos + ((since * anchor.speed) >> FRACTION) as i64;
        }
    }
    renew()
}

/// Has the first comparison made before the first time is asked for.
pub(crate) fn prepare() {
    renew();
}

/// Whether the counter is what Linux takes its time from.
fn is_usable() -> bool {
    static IS_USABLE: OnceLock<bool> = OnceLock::new();
    *IS_USABLE.get_or_init(|| {
        let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        fs::read_to_string(source).is_ok_and(|source| source.trim_end() == counter::NAME)
    })
}

/// A comparison of the clocks.
#[derive(Clone, Copy)]
struct Anchor {
    ticks: u64,
    nanos: i64,
    /// Nanoseconds in a tick; 0: not known.
    speed: u64,
    /// For how many ticks it can be counted on; 0: not at all.
    valid: u64,
}

thread_local! {
    static ANCHOR: Cell<Anchor> = const { Cell::new(Anchor { ticks: 0, nanos: 0, speed: 0, valid: 0 }) };
}

/// Reads the system's clock, and compares.
#[cold]
fn renew() -> i64 {
    if !is_usable() {
        return system();
    }
    let before = counter::read();
    let (nanos, moment) = (system(), Instant::now());
    let took = counter::read().wrapping_sub(before);
    let (ticks, mut speed) = (before.wrapping_add(took / 2), 0);
    if took < APART {
        // No thread waits for another one: the speed is what it was.
        if let Ok(mut measured) = MEASURED.try_lock() {
            measured.measure(ticks, moment);
            SPEED.store(measured.speed, Ordering::Relaxed);
        }
        speed = SPEED.load(Ordering::Relaxed);
    }
    let valid = ((PERIOD.as_nanos() as u64) << FRACTION).checked_div(speed).unwrap_or(0);
    ANCHOR.set(Anchor { ticks, nanos, speed, valid });
    nanos
}

/// The speed of the counter, and since when it is measured.
struct Measured {
    base: Option<(u64, Instant)>,
    speed: u64,
}

static MEASURED: Mutex<Measured> = Mutex::new(Measured { base: None, speed: 0 });
static SPEED: AtomicU64 = AtomicU64::new(0);

impl Measured {
    fn measure(&mut self, ticks: u64, moment: Instant) {
        let Some((base_ticks, base_moment)) = self.base else {
            self.base = Some((ticks, moment));
            return;
        };
        let passed = moment.duration_since(base_moment);
        if passed < BASE.0 {
            return;
        }
        let passed_ticks = u128::from(ticks.wrapping_sub(base_ticks).max(1));
        let speed = u64::try_from((passed.as_nanos() << FRACTION) / passed_ticks).unwrap_or(0);
        let is_wrong = self.speed != 0 && self.speed.abs_diff(speed) > self.speed / WRONG;
        // If it is, the machine has slept, or is another one by now.
        self.speed = if is_wrong { 0 } else { speed };
        if is_wrong || passed >= BASE.1 {
            self.base = Some((ticks, moment));
        }
    }
}

/// What the system says.
fn system() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}

#[cfg(target_arch = "x86_64")]
mod counter {
    /// What Linux calls it.
    pub(super) const NAME: &str = "tsc";

    #[inline]
    pub(super) fn read() -> u64 {
        // SAFETY: every x86-64 processor has this instruction, and only a program that has forbidden itself to use it cannot; but
        // then it could not read the system's clock either, which is done with it.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod counter {
    pub(super) const NAME: &str = "none that is used here";

    #[inline]
    pub(super) fn read() -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_that_of_the_system() {
        let start = Instant::now();
        let (mut counted, mut tries) = (0, 0);
        while start.elapsed() < Duration::from_millis(50) {
            let before = system();
            let is_counted = ANCHOR.get().valid > 0;
            let now = now();
            let after = system();
            // What takes longer was interrupted, and shows nothing.
            if after - before < 2_000 {
                tries += 1;
                counted += u32::from(is_counted);
                assert!((before - 1000..after + 1000).contains(&now), "{before} {now} {after}");
            }
        }
        assert!(!is_usable() || counted > tries / 2, "{counted} of {tries}");
    }

    #[test]
    fn a_speed_that_has_changed_is_measured_anew() {
        let start = Instant::now();
        let mut measured = Measured { base: None, speed: 0 };
        let mut at = |ticks, millis| {
            measured.measure(ticks, start + Duration::from_millis(millis));
            (measured.speed, measured.base.map(|base| base.0))
        };
        let two_ticks_a_nanosecond = 1 << (FRACTION - 1);
        assert_eq!(at(0, 0), (0, Some(0)));
        assert_eq!(at(1_000, 0), (0, Some(0)));
        assert_eq!(at(4_000_000, 2), (two_ticks_a_nanosecond, Some(0)));
        assert_eq!(at(6_000_000, 3), (two_ticks_a_nanosecond, Some(0)));
        assert_eq!(at(2_200_000_000, 1100), (two_ticks_a_nanosecond, Some(2_200_000_000)));
        // 100 ms in which it counted too much, and then nothing at all.
        assert_eq!(at(3_000_000_000, 1200), (0, Some(3_000_000_000)));
        assert_eq!(at(3_200_000_000, 1300), (two_ticks_a_nanosecond, Some(3_000_000_000)));
        assert_eq!(at(5, 1301), (0, Some(5)));
    }
}
