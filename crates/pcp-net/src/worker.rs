//! Threads that end with what they belong to.

use std::io;
use std::thread::{Builder, JoinHandle};

type Stop = Box<dyn FnMut() -> bool + Send + Sync>;

/// A running thread. Dropping this tells it to stop, and waits until it has.
pub struct Worker {
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a thread. `name` is that of the thread, of which Linux shows 15 bytes; `stop` makes `run` return soon, or
    /// gives `false` if it cannot tell it to, in which case nobody waits for it. It is called once, and what it owns
    /// lives until the thread has ended: a waker that is dropped too soon wakes nobody.
    ///
    /// # Errors
    /// The system has no room for another thread. `stop` was not called.
    pub fn spawn(
        name: &str,
        stop: impl FnMut() -> bool + Send + Sync + 'static,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<Worker> {
        let thread = Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Worker { stop: Box::new(stop), thread: Some(thread) })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // To wait for a thread that was told nothing might be to wait for ever.
        if (self.stop)()
            && let Some(thread) = self.thread.take()
        {
            // It panicked, then, which the panic hook has reported.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Worker").field(&self.thread).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_drop_stops_the_thread_and_waits_for_it() {
        let (stop, stopped) = mpsc::channel::<()>();
        let ended = Arc::new(AtomicBool::new(false));
        let of_thread = Arc::clone(&ended);
        let worker = Worker::spawn(
            "worker",
            move || stop.send(()).is_ok(),
            move || {
                stopped.recv().expect("told to stop");
                of_thread.store(true, Ordering::Relaxed);
            },
        )
        .expect("starts");
        assert!(!ended.load(Ordering::Relaxed));
        drop(worker);
        assert!(ended.load(Ordering::Relaxed));
    }

    #[test]
    fn a_thread_that_cannot_be_told_is_not_waited_for() {
        let (keep, kept) = mpsc::channel::<()>();
        drop(Worker::spawn("worker", || false, move || assert!(kept.recv().is_err())).expect("starts"));
        drop(keep);
    }
}
