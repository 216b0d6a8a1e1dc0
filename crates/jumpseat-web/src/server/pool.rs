//! Where work is done that may wait for a collector or a disk: threads beside the runtime, so many at a time.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How many pieces of work at a time. Most of them wait: for a pmcd, for a disk.
const PLACES: usize = 64;
/// How long a request waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);

/// Threads for work that may wait.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    places: Arc<Semaphore>,
}

/// Why something was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotDone {
    /// Others had all places for too long.
    #[error("the server is busy: try again later")]
    Busy,
    /// A defect of this program: the work panicked.
    #[error("internal error")]
    Broken,
}

impl NotDone {
    /// Its status where the protocol has none of its own for it.
    pub(super) fn status(self) -> StatusCode {
        match self {
            NotDone::Busy => StatusCode::SERVICE_UNAVAILABLE,
            NotDone::Broken => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl Pool {
    pub(super) fn new() -> Pool {
        Pool { places: Arc::new(Semaphore::new(PLACES)) }
    }

    /// Does `work` on a thread that may wait, when there is one. It is done to its end, also if nobody waits for it any more: so it
    /// must end by itself.
    ///
    /// # Errors
    /// [`NotDone`].
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NotDone> {
        let place = match Arc::clone(&self.places).try_acquire_owned() {
            Ok(place) => place,
            Err(_) => match timeout(PATIENCE, Arc::clone(&self.places).acquire_owned()).await {
                Ok(Ok(place)) => place,
                _ => return Err(NotDone::Busy),
            },
        };
        let done = tokio::task::spawn_blocking(move || {
            let _place = place;
            work()
        });
        done.await.map_err(|_| NotDone::Broken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error_of_its_request_only() {
        let pool = Pool::new();
        assert_eq!(pool.run(|| panic!("as a test")).await, Err::<(), _>(NotDone::Broken));
        for _ in 0..PLACES + 1 {
            assert_eq!(pool.run(|| 7).await, Ok(7), "its place is free again");
        }
    }
}
