//! Threads that are started again when they break.

use std::any::Any;
use std::fmt::Display;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::worker::Worker;

/// One life of a thread, from its start until it is told to stop or breaks.
pub struct Life {
    /// What it does. A panic in it is as good as [`End::Broken`].
    pub run: Box<dyn FnOnce() -> End + Send>,
    /// Makes `run` return soon. What it owns lives until `run` has returned.
    pub stop: Box<dyn FnMut() + Send>,
}

/// How a life has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// As it was told to, or because nobody takes any more what it makes.
    Asked,
    /// By itself: it is started again.
    Broken,
}

/// How often threads had to be started again. Read without locks.
#[derive(Debug, Default)]
pub struct Restarts(AtomicU64);

impl Restarts {
    /// So far.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How long to wait before a start.
#[derive(Clone, Copy, Debug)]
struct Backoff {
    /// Before the first, doubled for each that follows soon.
    first: Duration,
    /// At most. Who has lived for so long begins with the first again.
    most: Duration,
}

const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), most: Duration::from_secs(60) };

impl Worker {
    /// Starts a thread that lives `first` and, if that breaks, what `again` makes, as often as it takes: after a second,
    /// doubled up to a minute as long as it does not last. Each start is counted in `restarts` and told in the log.
    ///
    /// # Errors
    /// The system has no room for another thread.
    pub fn kept<E: Display>(
        name: &'static str,
        restarts: &Arc<Restarts>,
        first: Life,
        again: impl FnMut() -> Result<Life, E> + Send + 'static,
    ) -> io::Result<Worker> {
        keep(name, restarts, BACKOFF, first, again)
    }
}

fn keep<E: Display>(
    name: &'static str,
    restarts: &Arc<Restarts>,
    backoff: Backoff,
    first: Life,
    again: impl FnMut() -> Result<Life, E> + Send + 'static,
) -> io::Result<Worker> {
    let (switch, restarts) = (Arc::new(Switch::default()), Arc::clone(restarts));
    let of_thread = Arc::clone(&switch);
    let tell = move || {
        switch.off();
        true
    };
    Worker::spawn(name, tell, move || live(name, &restarts, backoff, &of_thread, first, again))
}

fn live<E: Display>(
    name: &str,
    restarts: &Restarts,
    backoff: Backoff,
    switch: &Switch,
    first: Life,
    mut again: impl FnMut() -> Result<Life, E>,
) {
    let (mut next, mut delay) = (Some(first), backoff.first);
    loop {
        if let Some(life) = next.take() {
            let began = Instant::now();
            if !switch.arm(life.stop) {
                return;
            }
            let outcome = catch_unwind(AssertUnwindSafe(life.run));
            if !switch.disarm() || matches!(outcome, Ok(End::Asked)) {
                return;
            }
            if began.elapsed() >= backoff.most {
                delay = backoff.first;
            }
            let panic = outcome.err();
            let why = panic.as_deref().map_or("it ended", |panic| said(panic).unwrap_or("it panicked"));
            tracing::error!("thread {name} broke and is started again in {delay:?}: {why}");
        }
        if !switch.rest(delay) {
            return;
        }
        delay = (delay * 2).min(backoff.most);
        restarts.0.fetch_add(1, Ordering::Relaxed);
        // Whatever made it break may break this, too.
        match catch_unwind(AssertUnwindSafe(&mut again)) {
            Ok(Ok(life)) => next = Some(life),
            Ok(Err(error)) => tracing::error!("thread {name} cannot start, next try in {delay:?}: {error}"),
            Err(_) => tracing::error!("thread {name} cannot start, next try in {delay:?}: it panicked"),
        }
    }
}

/// The words of a panic.
fn said(panic: &(dyn Any + Send)) -> Option<&str> {
    panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str))
}

/// How a thread is told to stop, whether it lives or waits for its next life.
#[derive(Default)]
struct Switch {
    state: Mutex<State>,
    turned: Condvar,
}

#[derive(Default)]
struct State {
    is_off: bool,
    stop: Option<Box<dyn FnMut() + Send>>,
}

impl Switch {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn off(&self) {
        let mut state = self.lock();
        state.is_off = true;
        if let Some(stop) = &mut state.stop {
            stop();
        }
        self.turned.notify_all();
    }

    /// A life begins, and this stops it. Gives whether it shall begin.
    fn arm(&self, stop: Box<dyn FnMut() + Send>) -> bool {
        let mut state = self.lock();
        state.stop = Some(stop);
        !state.is_off
    }

    /// A life has ended. Gives whether there shall be another.
    fn disarm(&self) -> bool {
        let mut state = self.lock();
        state.stop = None;
        !state.is_off
    }

    /// Waits. Gives whether to go on then.
    fn rest(&self, time: Duration) -> bool {
        let waited = self.turned.wait_timeout_while(self.lock(), time, |state| !state.is_off);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_off
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    const SOON: Backoff = Backoff { first: Duration::from_millis(1), most: Duration::from_secs(60) };
    const NEVER: Backoff = Backoff { first: Duration::from_secs(3600), most: Duration::from_secs(3600) };

    /// A life that tells of its start and then does something.
    fn life(started: &Sender<&'static str>, word: &'static str, then: fn() -> End) -> Life {
        let started = started.clone();
        let run = move || {
            started.send(word).expect("the test waits");
            then()
        };
        Life { run: Box::new(run), stop: Box::new(|| ()) }
    }

    /// A life that lasts until it is told to end.
    fn lasting(started: &Sender<&'static str>, word: &'static str) -> Life {
        let (stop, stopped) = channel::<()>();
        let started = started.clone();
        let run = move || {
            started.send(word).expect("the test waits");
            stopped.recv().map_or(End::Broken, |()| End::Asked)
        };
        // It may have ended by itself.
        let stop = move || stop.send(()).unwrap_or_default();
        Life { run: Box::new(run), stop: Box::new(stop) }
    }

    fn words(told: &Receiver<&'static str>, count: usize) -> Vec<&'static str> {
        told.iter().take(count).collect()
    }

    #[test]
    fn what_panics_ends_or_cannot_start_is_started_again_and_counted() {
        let (started, told) = channel();
        let restarts = Arc::new(Restarts::default());
        let first = life(&started, "panics", || panic!("a test's panic"));
        let mut turn = 0;
        let again = move || {
            turn += 1;
            match turn {
                1 => Ok(life(&started, "ends", || End::Broken)),
                2 => Err("no room"),
                3 => panic!("a test's panic at the start"),
                _ => Ok(lasting(&started, "lasts")),
            }
        };
        let worker = keep("kept", &restarts, SOON, first, again).expect("starts");
        assert_eq!(words(&told, 3), ["panics", "ends", "lasts"]);
        drop(worker);
        assert_eq!(restarts.count(), 4);
        assert!(told.recv().is_err(), "the thread has ended, and all that it had is gone");
    }

    #[test]
    fn what_ends_as_it_was_asked_to_stays_ended() {
        let (started, told) = channel();
        let restarts = Arc::new(Restarts::default());
        let first = life(&started, "once", || End::Asked);
        let again = move || Ok::<_, String>(lasting(&started, "again"));
        let worker = keep("kept", &restarts, SOON, first, again).expect("starts");
        assert_eq!(told.iter().collect::<Vec<_>>(), ["once"]);
        drop(worker);
        assert_eq!(restarts.count(), 0);
    }

    #[test]
    fn nobody_waits_for_the_next_start_of_what_is_dropped() {
        let (started, told) = channel();
        let restarts = Arc::new(Restarts::default());
        let first = life(&started, "breaks", || End::Broken);
        let again = move || Ok::<_, String>(lasting(&started, "again"));
        let worker = keep("kept", &restarts, NEVER, first, again).expect("starts");
        assert_eq!(words(&told, 1), ["breaks"]);
        drop(worker);
        assert_eq!(restarts.count(), 0);
    }
}
