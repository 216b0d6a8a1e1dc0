//! Standard output of tools.

use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};

use super::call::Call;
use super::harmless::Harmless;
use super::messages::error_text;

const BUFFER: usize = 64 << 10;

/// Standard output, buffered. The first failure is kept for the end, and what comes after it goes nowhere: PCP's
/// tools do not stop in the middle of what they do either.
pub(crate) struct Out {
    stdout: BufWriter<io::Stdout>,
    failed: Option<io::Error>,
    /// It is a terminal, and the tool has not been called by PCP's name: PCP's tools print what comes as it comes.
    guarded: bool,
}

impl Out {
    /// Of this process.
    pub(crate) fn new(call: &Call) -> Out {
        let guarded = !call.pcp && io::stdout().is_terminal();
        Out { stdout: BufWriter::with_capacity(BUFFER, io::stdout()), failed: None, guarded }
    }

    /// Adds bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            let out = &mut self.stdout;
            let written = if self.guarded { Harmless(out).write_all(bytes) } else { out.write_all(bytes) };
            self.failed = written.err();
        }
    }

    /// Adds text; see [`put!`].
    pub(crate) fn text(&mut self, text: std::fmt::Arguments<'_>) {
        if self.failed.is_none() {
            let out = &mut self.stdout;
            let written = if self.guarded { Harmless(out).write_fmt(text) } else { out.write_fmt(text) };
            self.failed = written.err();
        }
    }

    /// Lets the reader have what there is.
    pub(crate) fn flush(&mut self) {
        if self.failed.is_none() {
            self.failed = self.stdout.flush().err();
        }
    }

    /// Whether writing on is of no use.
    pub(crate) fn is_lost(&self) -> bool {
        self.failed.is_some()
    }

    /// Lets the reader have the rest. False if something is lost, which is said unless the reader went by itself.
    pub(crate) fn finish(mut self, call: &Call) -> bool {
        self.flush();
        // What is still in the buffer after a failure must not be tried again when it is dropped.
        let (_, _unwritten) = self.stdout.into_parts();
        match self.failed {
            // `| head` is no failure.
            Some(error) if error.kind() != ErrorKind::BrokenPipe => {
                complain!("{}: cannot write: {}", call.name, error_text(&error));
                false
            }
            _ => true,
        }
    }
}

/// Adds text to an [`Out`], with the arguments of `format!`.
macro_rules! put {
    ($out:expr, $($part:tt)+) => { $out.text(format_args!($($part)+)) };
}
pub(crate) use put;
