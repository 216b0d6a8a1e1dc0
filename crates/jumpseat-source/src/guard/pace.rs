//! How much at a time: a bucket that may go below zero, as what comes is known only when it has come.

use std::time::{Duration, Instant};

/// So much a second on average, and as much at once. What goes beyond has to be worked off before anything more is let in.
#[derive(Debug)]
pub(super) struct Pace {
    /// A second's worth.
    rate: f64,
    level: f64,
    filled: Option<Instant>,
}

impl Pace {
    /// `rate` a second.
    pub(super) fn new(rate: u64) -> Pace {
        let rate = rate as f64;
        Pace { rate, level: rate, filled: None }
    }

    /// How long it takes until something may come; `None`: it may now.
    pub(super) fn wait(&mut self, now: Instant) -> Option<Duration> {
        let filled = *self.filled.get_or_insert(now);
        let since = now.saturating_duration_since(filled).as_secs_f64();
        self.level = (self.level + since * self.rate).min(self.rate);
        self.filled = Some(now);
        // A debt is that of a few requests at most; whatever it is, nobody is told to wait for longer than a minute.
        (self.level <= 0.0)
            .then(|| Duration::from_secs_f64(((1.0 - self.level) / self.rate).clamp(0.001, 60.0)))
    }

    /// So much has come.
    pub(super) fn take(&mut self, count: u64) {
        self.level -= count as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_too_much_has_to_be_worked_off() {
        let (mut pace, start) = (Pace::new(100), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(pace.wait(at(0)), None);
        pace.take(250);
        let wait = pace.wait(at(0)).expect("150 too many");
        assert!((1500..=1520).contains(&wait.as_millis()), "{wait:?}");
        assert!(pace.wait(at(1400)).is_some());
        assert_eq!(pace.wait(at(1520)), None);
        // A long silence saves up no more than a second's worth.
        assert_eq!(pace.wait(at(60_000)), None);
        pace.take(100);
        assert!(pace.wait(at(60_000)).is_some());
    }
}
