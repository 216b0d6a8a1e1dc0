//! Rate-limited reporting: a flood of bad input must not become a flood of log lines.

use std::time::{Duration, Instant};

/// Lets a burst of reports through, then one per interval, and counts what it held back.
#[derive(Debug)]
pub struct Limiter {
    interval: Duration,
    burst: u32,
    tokens: u32,
    filled: Option<Instant>,
    held_back: u64,
}

impl Limiter {
    /// Lets `burst` reports through at once, and one more per `interval`.
    pub fn new(burst: u32, interval: Duration) -> Limiter {
        Limiter { interval, burst, tokens: burst, filled: None, held_back: 0 }
    }

    /// Whether a report may go out now: if so, how many were held back since the last one.
    pub fn allow(&mut self, now: Instant) -> Option<u64> {
        let filled = *self.filled.get_or_insert(now);
        let intervals = now.saturating_duration_since(filled).as_nanos() / self.interval.as_nanos().max(1);
        if intervals > 0 {
            self.tokens = self.tokens.saturating_add(intervals.min(u32::MAX.into()) as u32).min(self.burst);
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
}
