//! A connection as PDUs: bytes go out and come in as far as that is possible without waiting.
//!
//! Cost of a PDU that comes: one or two reads, no copy until it is taken. No allocation once the buffers have
//! grown. The input buffer grows with the bytes that really come, never on the word of a length field.

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};

use super::counts::PduCounts;
use super::debug::{self, Way};
use super::error::{ClientError, Result};
use super::socket::Socket;
use super::stream::Stream;
use super::waiting::{Interest, Waiting};
use pcp_model::PmError;
use pcp_pdu::{Frame, FrameError, HEADER_LEN, Pdu};

/// Largest PDU accepted: a fetch of a few full event arrays.
const MAX_PDU: usize = 256 << 20;
/// Longest request: pmcd closes the connection upon a longer one.
pub(super) const MAX_REQUEST: usize = 64 << 10;
/// Size of the input buffer at first.
const FIRST_INPUT: usize = 4 << 10;
/// Most bytes of a line of text.
const MAX_TEXT: usize = 256;

/// A connection. What has been put into it is sent by [`Line::pump`].
pub(super) struct Line {
    stream: Stream,
    input: Vec<u8>,
    /// The bytes of `input` that have come and are not taken yet.
    have: Range<usize>,
    output: BytesMut,
    limit: Option<Duration>,
    deadline: Option<Instant>,
    /// What has been put and taken.
    counts: Box<PduCounts>,
    /// Bytes that are worth waking up for.
    worth: usize,
}

impl Line {
    /// A connection over a socket, on which the next PDU may be waited for without a limit.
    pub(crate) fn new(socket: Socket) -> Line {
        Line {
            stream: Stream::new(socket),
            input: Vec::new(),
            have: 0..0,
            output: BytesMut::new(),
            limit: None,
            deadline: None,
            counts: Box::default(),
            worth: 0,
        }
    }

    /// From now on, the time in which the next PDU has to be here as a whole.
    pub(crate) fn set_limit(&mut self, limit: Option<Duration>) {
        self.limit = limit;
        // A limit beyond what the clock can tell is none.
        self.deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    }

    /// So many bytes are certain to come: the system need not wake us up for much less.
    pub(crate) fn expect_at_least(&mut self, bytes: usize) {
        // In steps, as telling it costs a call.
        let worth = bytes.checked_ilog2().map_or(0, |log| 1 << log);
        if worth != self.worth {
            self.stream.wake_for(worth);
            self.worth = worth;
        }
    }

    /// Makes sure that what comes next is the answer to what is put next.
    ///
    /// # Errors
    /// Something came that nobody asked for, or the end. Of an ERROR PDU its reason: so pmcd tells a new client that an agent it
    /// wanted to tell of it is gone.
    pub(crate) fn expect_silence(&mut self) -> Result<()> {
        if self.have.is_empty() && !self.fill()? {
            return Ok(());
        }
        let said = match self.take() {
            Ok(Pdu::Error(error)) => error.error(),
            _ => None,
        };
        Err(said.map_or(ClientError::Unexpected, ClientError::Pcp))
    }

    /// Puts a PDU of at most `max` bytes.
    ///
    /// # Errors
    /// It is longer, or cannot be expressed. Nothing is put then, and the connection is as it was.
    pub(crate) fn put(&mut self, pdu: &Pdu, from: i32, max: usize) -> Result<()> {
        let before = self.output.len();
        pdu.encode(from, &mut self.output)?;
        if self.output.len() - before > max {
            self.output.truncate(before);
            return Err(PmError::TOOBIG.into());
        }
        self.counts.count_sent(pdu.kind());
        debug::pdu(Way::Sent, self.stream.as_fd(), self.output.get(before..).unwrap_or_default());
        Ok(())
    }

    /// Puts a PDU that has been encoded before.
    pub(crate) fn put_encoded(&mut self, pdu: &[u8]) {
        self.counts.count_sent(kind_of(pdu));
        debug::pdu(Way::Sent, self.stream.as_fd(), pdu);
        self.put_bytes(pdu);
    }

    /// How many PDUs have been put and taken.
    pub(crate) fn counts(&self) -> &PduCounts {
        &self.counts
    }

    /// Puts bytes as they are.
    pub(crate) fn put_bytes(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
    }

    /// Sends and receives what can be without waiting. True if a whole PDU is there: see [`Line::pdu`].
    ///
    /// # Errors
    /// The connection is of no more use.
    pub(crate) fn pump(&mut self) -> Result<bool> {
        let asks = !self.output.is_empty();
        self.flush()?;
        if asks && self.output.is_empty() && self.have.is_empty() {
            // The answer to what has just been sent cannot be here yet.
            return Ok(false);
        }
        loop {
            if self.pdu_len()?.is_some_and(|len| len <= self.have.len()) {
                return Ok(true);
            }
            let more = self.fill()?;
            // What has come in time counts, however late we are to look at it.
            if self.late() && self.pdu_len()?.is_none_or(|len| len > self.have.len()) {
                return Err(ClientError::Timeout(self.limit.unwrap_or_default()));
            }
            if !more {
                return Ok(false);
            }
        }
    }

    /// The PDU at the front, header included, if it is there as a whole.
    pub(crate) fn pdu(&self) -> Option<&[u8]> {
        let len = self.pdu_len().ok().flatten()?;
        self.waiting_input().get(..len)
    }

    /// The type of the PDU at the front; 0 if there is none.
    pub(crate) fn kind(&self) -> u32 {
        self.pdu().map_or(0, kind_of)
    }

    /// Drops the PDU at the front.
    pub(crate) fn skip(&mut self) {
        self.counts.count_received(self.kind());
        if let Some(pdu) = self.pdu() {
            debug::pdu(Way::Received, self.stream.as_fd(), pdu);
        }
        self.have.start += self.pdu().map_or(0, <[u8]>::len);
    }

    /// Takes the PDU at the front.
    pub(crate) fn take(&mut self) -> Result<Pdu> {
        let kind = self.kind();
        let Some(pdu) = self.pdu() else { return Err(ClientError::Unexpected) };
        let body = Bytes::copy_from_slice(pdu.get(HEADER_LEN..).unwrap_or_default());
        self.skip();
        Ok(Pdu::decode(&Frame { kind, from: 0, body })?)
    }

    /// Sends what can be sent without waiting.
    pub(crate) fn flush(&mut self) -> Result<()> {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(0) => return Err(ClientError::Closed),
                Ok(written) => self.output.advance(written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// As [`Line::pump`] for a line of text; gives it without its newline.
    pub(crate) fn pump_text(&mut self) -> Result<Option<String>> {
        self.flush()?;
        loop {
            let input = self.waiting_input();
            if let Some(len) = memchr::memchr(b'\n', input) {
                let text = String::from_utf8_lossy(&input[..len]).into_owned();
                self.have.start += len + 1;
                return Ok(Some(text));
            }
            if input.len() > MAX_TEXT {
                return Err(ClientError::Unexpected);
            }
            let more = self.fill()?;
            if self.late() {
                return Err(ClientError::Timeout(self.limit.unwrap_or_default()));
            }
            if !more {
                return Ok(None);
            }
        }
    }

    /// From here on, everything is encrypted. What was said before must have been taken: whoever can put bytes into
    /// the connection before it is encrypted could have them taken for the collector's (spec `wire.md` 4.2).
    ///
    /// # Errors
    /// The peer has said more than it was asked.
    pub(crate) fn encrypt(&mut self, session: super::tls::Session) -> Result<()> {
        if !self.have.is_empty() || !self.output.is_empty() {
            return Err(ClientError::Unexpected);
        }
        self.stream.encrypt(session);
        Ok(())
    }

    /// Goes on with the beginning of the encryption. True when the peer has proved who it is.
    pub(crate) fn is_encrypted(&mut self) -> Result<bool> {
        while self.stream.is_handshaking() {
            let more = self.fill()?;
            if self.late() {
                return Err(ClientError::Timeout(self.limit.unwrap_or_default()));
            }
            if !more {
                break;
            }
        }
        let done = !self.stream.is_handshaking();
        if done && let Some(session) = self.stream.session() {
            tracing::trace!(target: "pcp::tls", "encrypted: {}", session.agreed());
        }
        Ok(done)
    }

    /// What [`Line::pump`] waits for.
    pub(crate) fn waiting(&self) -> Waiting<'_> {
        let writes = !self.output.is_empty() || self.stream.wants_write();
        // Always for reading too: a peer that refuses, or is gone, says so while it is written to.
        let interest = if writes { Interest::ReadOrWrite } else { Interest::Read };
        Waiting { fd: self.stream.as_fd(), interest, deadline: self.deadline }
    }

    fn late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn waiting_input(&self) -> &[u8] {
        self.input.get(self.have.clone()).unwrap_or_default()
    }

    /// Reads once; false if nothing has come.
    fn fill(&mut self) -> Result<bool> {
        if self.have.is_empty() {
            self.have = 0..0;
        }
        if self.have.end == self.input.len() {
            if self.have.start > 0 {
                self.input.copy_within(self.have.clone(), 0);
                self.have = 0..self.have.len();
            } else {
                self.input.resize((self.input.len() * 2).max(FIRST_INPUT), 0);
            }
        }
        let room = self.input.get_mut(self.have.end..).unwrap_or_default();
        loop {
            return match self.stream.read(room) {
                Ok(0) => Err(ClientError::Closed),
                Ok(read) => {
                    self.have.end += read;
                    Ok(true)
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
                Err(error) => Err(error.into()),
            };
        }
    }

    /// Length of the PDU at the front, as far as it is known.
    fn pdu_len(&self) -> Result<Option<usize>> {
        let Some((word, _)) = self.waiting_input().split_first_chunk::<4>() else { return Ok(None) };
        let word = i32::from_be_bytes(*word);
        match usize::try_from(word) {
            Ok(len) if len > MAX_PDU => Err(FrameError::TooLong { len: word, max: MAX_PDU }.into()),
            Ok(len) if len >= HEADER_LEN => Ok(Some(len)),
            _ => Err(FrameError::TooShort { len: word }.into()),
        }
    }
}

/// The type of a PDU; 0 if it is shorter than its header.
fn kind_of(pdu: &[u8]) -> u32 {
    let kind = pdu.get(4..8).and_then(|word| word.try_into().ok());
    kind.map_or(0, u32::from_be_bytes)
}
