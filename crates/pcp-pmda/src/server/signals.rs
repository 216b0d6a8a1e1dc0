//! Signals as something to read.

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// SIGTERM, SIGINT and SIGHUP, readable from a descriptor.
#[derive(Debug)]
pub(super) struct Signals {
    fd: SignalFd,
}

impl Signals {
    /// Blocks the three signals, and SIGPIPE, in this thread and those it starts later: a broken line is told
    /// by the write that fails.
    pub(super) fn new() -> io::Result<Signals> {
        let mut handled = SigSet::empty();
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
            handled.add(signal);
        }
        let mut blocked = handled;
        blocked.add(Signal::SIGPIPE);
        blocked.thread_block()?;
        Ok(Signals { fd: SignalFd::with_flags(&handled, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)? })
    }

    pub(super) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// The next signal that has come, if any.
    pub(super) fn next(&mut self) -> Option<Signal> {
        let info = loop {
            match self.fd.read_signal() {
                Err(Errno::EINTR) => {}
                Err(error) => {
                    tracing::error!("cannot read which signal has come: {error}");
                    return None;
                }
                Ok(info) => break info?,
            }
        };
        Signal::try_from(i32::try_from(info.ssi_signo).ok()?).ok()
    }
}
