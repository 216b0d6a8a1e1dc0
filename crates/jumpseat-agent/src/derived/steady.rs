//! Times that do not go back when the clock is put back, so that no counter that rose has a negative rate.

use std::time::{Duration, Instant};

use pcp_model::Timestamp;

/// What times were made of others so far.
#[derive(Debug, Default)]
pub(super) struct Steady {
    /// The last one, and when it was made.
    last: Option<(Timestamp, Instant)>,
    /// By how much the clock has been put back since the first.
    put_back: Duration,
}

impl Steady {
    /// The time to go on with: the clock's, as long as that is not put back; from then on as much later as time has passed.
    pub(super) fn next(&mut self, clock: Timestamp) -> Timestamp {
        let put_back = i128::try_from(self.put_back.as_nanos()).unwrap_or(0);
        let mut time = Timestamp::from_nanos(clock.as_nanos() + put_back);
        if let Some((last, made)) = self.last.filter(|(last, _)| time < *last) {
            let passed = Timestamp::from_nanos(last.as_nanos() + made.elapsed().as_nanos() as i128);
            let more = u64::try_from(passed.as_nanos() - time.as_nanos()).unwrap_or(0);
            self.put_back += Duration::from_nanos(more);
            time = passed;
        }
        self.last = Some((time, Instant::now()));
        time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_put_back_goes_on_from_where_it_was() {
        let mut steady = Steady::default();
        let at = |sec| Timestamp::new(sec, 0);
        assert_eq!([steady.next(at(100)), steady.next(at(101))], [at(101 - 1), at(101)]);
        let after = steady.next(at(50));
        assert!(after > at(101) && after < at(161), "{after}");
        let later = steady.next(at(60));
        assert_eq!(later.as_nanos() - after.as_nanos(), 10_000_000_000);
    }
}
