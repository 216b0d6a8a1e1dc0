//! How much is done at a time: for one fetch, and for what sources have handed over.
//!
//! **Invariant:** whoever else waits for the event loop waits for milliseconds, whatever is stored, queued, filtered or
//! evicted. What is over comes with the next fetch, or counts as missed.

use std::time::{Duration, Instant};

use pcp_event::Work;
use pcp_event::log::READ_WORK;

/// How long deliveries are taken in before others have their turn.
const TURN: Duration = Duration::from_millis(10);

/// One turn of taking in deliveries.
pub(crate) struct Turn {
    since: Instant,
    /// What filters may still do to evicted records.
    pub work: Work,
}

impl Turn {
    pub(crate) fn new() -> Turn {
        Turn { since: Instant::now(), work: READ_WORK }
    }

    /// Whether it is somebody else's turn.
    pub(crate) fn is_over(&self) -> bool {
        self.since.elapsed() >= TURN
    }
}

/// What filters may do for one fetch, however many metrics, forms and sources it is for.
#[derive(Debug)]
pub(crate) struct FetchWork {
    fetch: u64,
    left: Work,
}

impl Default for FetchWork {
    fn default() -> FetchWork {
        FetchWork { fetch: 0, left: READ_WORK }
    }
}

impl FetchWork {
    /// What is left for the fetch of this number.
    pub(crate) fn of(&mut self, fetch: u64) -> Work {
        if self.fetch != fetch {
            *self = FetchWork { fetch, left: READ_WORK };
        }
        self.left
    }

    /// Notes what is left now.
    pub(crate) fn set(&mut self, left: Work) {
        self.left = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fetch_has_its_own_and_all_its_metrics_share_it() {
        let mut fetch_work = FetchWork::default();
        let mut left = fetch_work.of(1);
        assert!(left.take(READ_WORK.steps() - 1));
        fetch_work.set(left);
        assert_eq!(fetch_work.of(1).steps(), 1);
        assert_eq!(fetch_work.of(2), READ_WORK);
    }
}
