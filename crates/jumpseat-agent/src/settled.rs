//! What a start has others wait for: that what was read of identifiers is sure to be on disk.

use std::io;
use std::thread::JoinHandle;

use nix::sys::signal::{SigSet, SigmaskHow};
use pcp_ids::{IdsError, Settling};

use crate::OpenError;

/// Threads that wait for the disk. None is left when this is gone: they have the files for this process alone.
#[derive(Default)]
pub(crate) struct Settled {
    threads: Vec<JoinHandle<Result<(), IdsError>>>,
}

impl Settled {
    /// Has a thread wait for this, beside everything else that the start has to do.
    ///
    /// # Errors
    /// There is no thread.
    pub(crate) fn begin(settling: Settling) -> Result<Settled, OpenError> {
        let mut settled = Settled::default();
        settled.and(settling)?;
        Ok(settled)
    }

    /// The same for what was read since.
    ///
    /// # Errors
    /// There is no thread.
    pub(crate) fn and(&mut self, settling: Settling) -> Result<(), OpenError> {
        if !settling.is_empty() {
            let thread = aside("jumpseat-settle", || settling.finish()).map_err(OpenError::Thread)?;
            self.threads.push(thread);
        }
        Ok(())
    }

    /// Waits for all of it: identifiers may be given to somebody from then on.
    ///
    /// # Errors
    /// Some is not on disk.
    pub(crate) fn finish(mut self) -> Result<(), OpenError> {
        // All of them, also behind one that has failed.
        let ended: Vec<_> = self.threads.drain(..).map(JoinHandle::join).collect();
        for settled in ended {
            settled.map_err(|_| OpenError::Thread(io::Error::other("a thread has ended")))??;
        }
        Ok(())
    }
}

impl Drop for Settled {
    fn drop(&mut self) {
        for thread in self.threads.drain(..) {
            // The start has failed, and says why.
            let _ = thread.join();
        }
    }
}

/// A thread that does one thing and ends. Signals are not for it.
fn aside<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    before.thread_set_mask()?;
    thread
}
