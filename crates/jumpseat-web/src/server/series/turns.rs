//! How many requests of `/series` work at a time: what they ask for may take long, and other requests need places of the pool too.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::server::pool::{NotDone, Pool};

/// Most places of the pool that these requests have together: a quarter of them.
const TURNS: usize = 16;
/// How long a request waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);

/// Turns in the pool.
#[derive(Clone, Debug)]
pub(super) struct Turns(Arc<Semaphore>);

impl Default for Turns {
    fn default() -> Turns {
        Turns(Arc::new(Semaphore::new(TURNS)))
    }
}

impl Turns {
    /// Does `work` in the pool when it is its turn. The turn lasts as long as the work does, also if nobody waits for it any more.
    ///
    /// # Errors
    /// [`NotDone`].
    pub(super) async fn run<T: Send + 'static>(
        &self,
        pool: &Pool,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NotDone> {
        self.run_within(PATIENCE, pool, work).await
    }

    async fn run_within<T: Send + 'static>(
        &self,
        patience: Duration,
        pool: &Pool,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NotDone> {
        let turn = timeout(patience, Arc::clone(&self.0).acquire_owned()).await;
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

    #[tokio::test]
    async fn a_request_too_many_waits_and_others_have_the_pool() {
        let (pool, turns) = (Pool::new(), Turns::default());
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
        let soon = Duration::from_millis(20);
        assert_eq!(turns.run_within(soon, &pool, || 7).await, Err(NotDone::Busy));
        assert_eq!(pool.run(|| 7).await, Ok(7), "what is no such request is not in its way");
        ends.clear();
        assert_eq!(turns.run(&pool, || 7).await, Ok(7));
        assert_eq!(turns.run(&pool, || panic!("as a test")).await, Err::<(), _>(NotDone::Broken));
        assert_eq!(turns.0.available_permits(), TURNS, "no turn is lost");
    }
}
