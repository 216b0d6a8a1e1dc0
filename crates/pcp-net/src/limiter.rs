//! Rate-limited reporting: a flood of bad input must not become a flood of log lines.

use std::time::{Duration, Instant};

/// Lets a burst of reports through, then so many per interval, and counts what it held back.
///
/// It is a bucket of tokens, filled when it is looked at: no timer, no thread, and the time comes in.
#[derive(Clone, Debug)]
pub struct Limiter {
    interval: Duration,
    burst: u32,
    /// Tokens that an interval gives.
    refill: u32,
    tokens: u32,
    filled: Option<Instant>,
    held_back: u64,
}

impl Limiter {
    /// Lets `burst` reports through at once, and one more per `interval`.
    pub fn new(burst: u32, interval: Duration) -> Limiter {
        Limiter { interval, burst, refill: 1, tokens: burst, filled: None, held_back: 0 }
    }

    /// Lets `burst` reports through in each `period`, which begins with a report.
    pub fn per_period(burst: u32, period: Duration) -> Limiter {
        Limiter { refill: burst, ..Limiter::new(burst, period) }
    }

    /// Whether a report may go out now: if so, how many were held back since the last one.
    pub fn allow(&mut self, now: Instant) -> Option<u64> {
        let filled = *self.filled.get_or_insert(now);
        let intervals = now.saturating_duration_since(filled).as_nanos() / self.interval.as_nanos().max(1);
        if intervals > 0 {
            let intervals = u32::try_from(intervals).unwrap_or(u32::MAX);
            self.tokens = self.tokens.saturating_add(intervals.saturating_mul(self.refill)).min(self.burst);
            // Not the end of the last whole interval: what is left of one is no credit, so that reports at a steady
            // pace just above the limit do not come in pairs.
            self.filled = Some(now);
        }
        if self.tokens == 0 {
            self.held_back += 1;
            return None;
        }
        self.tokens -= 1;
        Some(std::mem::take(&mut self.held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_one_per_interval() {
        let start = Instant::now();
        let mut limiter = Limiter::new(2, Duration::from_secs(1));
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(limiter.allow(at(0)), Some(0));
        assert_eq!(limiter.allow(at(1)), Some(0));
        assert_eq!(limiter.allow(at(2)), None);
        assert_eq!(limiter.allow(at(3)), None);
        assert_eq!(limiter.allow(at(1000)), Some(2));
        assert_eq!(limiter.allow(at(1001)), None);
        assert_eq!(limiter.allow(at(9000)), Some(1));
        assert_eq!(limiter.allow(at(9001)), Some(0));
        assert_eq!(limiter.allow(at(9002)), None);
    }

    #[test]
    fn a_whole_burst_per_period() {
        let (start, period) = (Instant::now(), Duration::from_secs(10));
        let mut limiter = Limiter::per_period(10, period);
        let said = (0..25).filter(|_| limiter.allow(start).is_some()).count();
        assert_eq!(said, 10);
        assert_eq!(limiter.allow(start + period), Some(15));
        assert_eq!(limiter.allow(start + period), Some(0));
        assert_eq!((0..25).filter(|_| limiter.allow(start + period).is_some()).count(), 8);
    }
}
