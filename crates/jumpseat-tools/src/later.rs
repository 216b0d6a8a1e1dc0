//! Times to come.

use std::time::{Duration, Instant};

/// Longer than anybody waits, and short enough for the clock: a century.
const NEVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// The time so long after another. Users may ask for any interval: what the clock cannot hold never comes.
pub fn later(from: Instant, by: Duration) -> Instant {
    from.checked_add(by).unwrap_or_else(|| from + NEVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_interval_has_an_end() {
        let now = Instant::now();
        assert_eq!(later(now, Duration::from_secs(5)), now + Duration::from_secs(5));
        assert_eq!(later(now, Duration::MAX), now + NEVER);
    }
}
