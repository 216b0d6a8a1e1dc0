//! A share of the pool: requests that may take long have so many places together, and all others have the rest.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::pool::{NotDone, Pool};

/// Places in the pool.
#[derive(Clone, Debug)]
pub(super) struct Share {
    places: Arc<Semaphore>,
    patience: Duration,
}

impl Share {
    /// So many places, and how long a request waits for one.
    pub(super) fn new(places: usize, patience: Duration) -> Share {
        Share { places: Arc::new(Semaphore::new(places)), patience }
    }

    /// How many places nobody has.
    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.places.available_permits()
    }

    /// Does `work` in the pool when it is its turn. The turn lasts as long as the work does, also if nobody waits for it any more.
    ///
    /// # Errors
    /// [`NotDone`].
    pub(super) async fn run<T: Send + 'static>(
        &self,
        pool: &Pool,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NotDone> {
        let turn = timeout(self.patience, Arc::clone(&self.places).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else { return Err(NotDone::Busy) };
        pool.run(move || {
            let _turn = turn;
            work()
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const TURNS: usize = 16;

    #[tokio::test]
    async fn a_request_too_many_waits_and_others_have_the_pool() {
        let (pool, turns) = (Pool::new(), Share::new(TURNS, Duration::from_secs(10)));
        let (begun, has_begun) = mpsc::channel();
        let mut ends = Vec::new();
        for _ in 0..TURNS {
            let (end, ended) = mpsc::channel::<()>();
            ends.push(end);
            let (pool, turns, begun) = (pool.clone(), turns.clone(), begun.clone());
            let work = move || {
                begun.send(()).expect("it is waited for");
                // Until its sender is gone.
                ended.recv().is_err()
            };
            // Nobody waits for it: its turn lasts nevertheless.
            let waiting = tokio::spawn(async move { turns.run(&pool, work).await });
            while has_begun.try_recv().is_err() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            waiting.abort();
        }
        let hasty = Share { patience: Duration::from_millis(20), ..turns.clone() };
        assert_eq!(hasty.run(&pool, || 7).await, Err(NotDone::Busy));
        assert_eq!(pool.run(|| 7).await, Ok(7), "what is no such request is not in its way");
        ends.clear();
        assert_eq!(turns.run(&pool, || 7).await, Ok(7));
        assert_eq!(turns.run(&pool, || panic!("as a test")).await, Err::<(), _>(NotDone::Broken));
        assert_eq!(turns.free(), TURNS, "no turn is lost");
    }
}
