//! Sending so that each line is there once, whatever breaks: what is not acknowledged is kept, and sent again on the next
//! connection (`docs/ingest-protocol.md`, "Senders").

use std::io;
use std::time::{Duration, Instant};

use jumpseat_wire::resend::{Full, Resend};

use super::session::{Said, Session};
use super::{
    FeedError, FeedOptions, Feeder, Limits, Line, LineKind, MAX_LINE, WRITE_BYTES, is_control, ndjson,
};

/// Most bytes of lines that are not acknowledged.
const MAX_KEPT: usize = 8 * 1024 * 1024;
/// How long to wait before the next try to connect, at first and at most.
const MIN_DELAY: Duration = Duration::from_millis(20);
const MAX_DELAY: Duration = Duration::from_secs(1);

/// What is not acknowledged.
pub(super) struct Keep {
    resend: Resend,
    /// The number that the connection began with.
    began: u64,
    /// How many of this connection were refused, as far as is known.
    rejected: u64,
    /// Until when there has to be another acknowledgement, as a connection broke.
    until: Option<Instant>,
    /// The input speaks to the server itself: nobody could say it again.
    has_control: bool,
}

impl Keep {
    pub(super) fn new() -> Keep {
        let resend = Resend::new(MAX_KEPT, 1);
        Keep { resend, began: 1, rejected: 0, until: None, has_control: false }
    }

    /// Whether all is acknowledged.
    pub(super) fn is_done(&self) -> bool {
        self.resend.is_empty()
    }
}

/// The first connection. One that breaks before it is greeted was accepted by an agent that was about to end: the next one
/// is waited for, as nothing has been sent.
pub(super) fn begin(options: &FeedOptions) -> Result<Session, FeedError> {
    let until = Instant::now() + options.retry;
    let mut delay = MIN_DELAY;
    let mut broke = false;
    loop {
        match Session::open(options, 1) {
            Err(FeedError::Gone { ref error, .. }) if is_cut(error) && Instant::now() < until => broke = true,
            Err(FeedError::Connect { .. }) if broke && Instant::now() < until => {}
            opened => return opened,
        }
        std::thread::sleep(delay);
        delay = (delay * 2).min(MAX_DELAY);
    }
}

/// Whether the other end has closed the connection.
fn is_cut(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

impl Feeder<'_> {
    /// Takes a line in, and has it go out if it is its turn.
    pub(super) fn send_kept(&mut self, line: &[u8]) -> Result<(), FeedError> {
        if self.options.lines == LineKind::Json {
            if is_control(line) {
                return self.pass_on(line);
            }
            if self.options.binary && !self.is_sendable(line) {
                return Ok(());
            }
        }
        self.report.sent += 1;
        let number = self.position.line();
        while let Some(keep) = &mut self.keep
            && keep.resend.push(line, number) == Err(Full)
        {
            self.send_all()?;
            self.listen(true)?;
        }
        self.fill();
        Ok(())
    }

    /// Sends all that has not been sent on this connection.
    pub(super) fn send_all(&mut self) -> Result<(), FeedError> {
        loop {
            self.fill();
            if self.session.buffered() == 0 {
                return Ok(());
            }
            match self.session.flush() {
                Ok(()) => self.listen(false)?,
                Err(error) => self.reconnect(error)?,
            }
        }
    }

    /// Waits until everything is acknowledged.
    pub(super) fn wait_for_all(&mut self) -> Result<(), FeedError> {
        while self.keep.as_ref().is_some_and(|keep| !keep.is_done() && !keep.has_control) {
            self.send_all()?;
            self.listen(true)?;
        }
        Ok(())
    }

    /// The connection is over: what is known to be committed counts.
    pub(super) fn count_broken(&mut self) {
        let Some(keep) = &mut self.keep else { return };
        let committed = keep.resend.first() - keep.began;
        self.report.accepted += committed.saturating_sub(keep.rejected);
        self.report.rejected += keep.rejected;
        (keep.began, keep.rejected) = (keep.resend.first(), 0);
    }

    /// A control line is for the connection that there is; a second one could not be put into the same state.
    fn pass_on(&mut self, line: &[u8]) -> Result<(), FeedError> {
        if self.options.binary {
            return Ok(());
        }
        self.send_all()?;
        self.session.line(line);
        self.keep.iter_mut().for_each(|keep| keep.has_control = true);
        Ok(())
    }

    /// Whether a line can be made a frame. One that cannot is refused here, and has no number.
    fn is_sendable(&mut self, line: &[u8]) -> bool {
        let limits = Limits { max_line: MAX_LINE, max_field: MAX_LINE, truncate: false };
        match ndjson::parse(line, &limits, false, &mut self.event) {
            Ok(kind) => kind == Line::Event,
            Err(refusal) => {
                self.report.sent += 1;
                let (column, reason) = (refusal.column, refusal.reason.word());
                self.refuse(self.position.line(), column, reason, refusal.detail.to_owned());
                false
            }
        }
    }

    /// Fills the buffer of the connection.
    fn fill(&mut self) {
        // Taken out for the loop: the lines are in it.
        let Some(mut keep) = self.keep.take() else { return };
        while self.session.buffered() < WRITE_BYTES
            && let Some(sent) = keep.resend.take()
        {
            let (number, rejected) = (sent.number, self.report.rejected);
            self.transmit(sent.bytes, sent.tag);
            if self.report.rejected > rejected
                && let (Some(sender), Some((encoder, out))) = (&self.options.sender, self.session.encoder())
            {
                // More names than a connection may have: this one is left out.
                encoder.sender(sender.as_bytes(), number + 1, out);
            }
        }
        self.keep = Some(keep);
    }

    /// Takes in what the server has said. `wait`: until it says something.
    fn listen(&mut self, wait: bool) -> Result<(), FeedError> {
        let mut wait = wait;
        loop {
            let said = match self.session.said(wait) {
                Ok(said) => said,
                Err(error) => return self.reconnect(error),
            };
            match (said, &mut self.keep) {
                (Said::Committed { number, rejected }, Some(keep)) => {
                    keep.resend.acknowledge(number);
                    (keep.rejected, keep.until) = (rejected, None);
                }
                (Said::Summary(summary), _) if summary.displaced => {
                    return Err(FeedError::Displaced(self.options.sender.clone().unwrap_or_default()));
                }
                (Said::Summary(_), _) => {
                    return self.reconnect(io::Error::other("it ended the connection"));
                }
                (Said::Nothing | Said::Committed { .. }, _) => return Ok(()),
            }
            wait = false;
        }
    }

    /// Gets another connection, on which all is sent again that is not acknowledged.
    fn reconnect(&mut self, error: io::Error) -> Result<(), FeedError> {
        let (options, sent) = (self.options, self.report.sent);
        self.count_broken();
        let Some(keep) = self.keep.as_mut().filter(|keep| !keep.has_control) else {
            return Err(self.session.gone(&options.place(), sent, error));
        };
        let first = keep.resend.first();
        let until = *keep.until.get_or_insert_with(|| Instant::now() + options.retry);
        let mut delay = MIN_DELAY;
        while Instant::now() < until {
            self.tell_progress(true);
            std::thread::sleep(delay);
            delay = (delay * 2).min(MAX_DELAY);
            match Session::open(options, first) {
                Ok(session) => {
                    self.session = session;
                    self.report.reconnects += 1;
                    self.keep.iter_mut().for_each(|keep| keep.resend.rewind());
                    return Ok(());
                }
                // It is not there yet, or others have taken its places.
                Err(FeedError::Connect { .. } | FeedError::Gone { .. } | FeedError::Answer { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(self.session.gone(&options.place(), sent, error))
    }
}
