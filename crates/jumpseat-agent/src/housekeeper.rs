//! A thread for what is to be done although nothing comes: once a second, and once behind the start.
//!
//! **Cost:** it wakes once a second, and looks at some of the series if others have sent any.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::RecvTimeoutError;
use jumpseat_source::Series;
use pcp_net::Worker;

use crate::trim::trim;

const PERIOD: Duration = Duration::from_secs(1);
/// Periods behind its beginning in which a start is over: what is done once a second was done by then for the first time.
const STARTED: u32 = 2;

/// Ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Housekeeper {
    runs: Arc<AtomicBool>,
    _thread: Worker,
}

impl Housekeeper {
    /// Forgets what is due of series.
    ///
    /// # Errors
    /// The system has no thread.
    pub(crate) fn start(series: Series) -> io::Result<Housekeeper> {
        let runs = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&runs);
        let (end, ended) = crossbeam_channel::bounded::<Infallible>(0);
        let mut end = Some(end);
        let thread = Worker::spawn(
            "jumpseat-tidy",
            move || end.take().is_some(),
            move || {
                let mut periods = 0;
                while ended.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                    series.tidy();
                    if periods < STARTED && told.load(Ordering::Relaxed) {
                        periods += 1;
                        // Here, and not by a thread of its own, whose end would map pages again that are needed for that alone.
                        if periods == STARTED {
                            trim();
                        }
                    }
                }
            },
        )?;
        Ok(Housekeeper { runs, _thread: thread })
    }

    /// The agent has all that it runs with: what only its start has needed is given back soon.
    pub(crate) fn settle(&self) {
        self.runs.store(true, Ordering::Relaxed);
    }
}
