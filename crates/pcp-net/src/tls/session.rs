//! One encrypted connection, without any I/O.

use std::io::{BufRead as _, Write as _};

use bytes::{BufMut as _, BytesMut};
use rustls::server::ServerConnection;

/// What a client may send until both sides have agreed: a few kilobytes, and a certificate of its own.
const MAX_HANDSHAKE: usize = 1 << 16;

/// The server's side of a connection: bytes of the socket in, what they say out, and the other way round.
///
/// **Invariant:** what is kept here of a peer's bytes is no more than one record, or 64 KiB until both sides have agreed.
#[derive(Debug)]
pub struct TlsSession {
    session: ServerConnection,
    /// Bytes that have come before both sides had agreed.
    handshake: usize,
}

/// The peer did not keep to TLS, or was not let in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("TLS: {0}")]
pub struct TlsError(String);

impl TlsSession {
    pub(super) fn new(mut session: ServerConnection) -> TlsSession {
        // How much is sealed at a time is up to the caller.
        session.set_buffer_limit(None);
        TlsSession { session, handshake: 0 }
    }

    /// Whether both sides have agreed: from then on something can be sealed.
    pub fn is_established(&self) -> bool {
        !self.session.is_handshaking()
    }

    /// Takes bytes of the socket. What they say is appended to `plain`, what the peer is to be sent to `out`, also if it
    /// is the reason why it goes no further. False: the peer has said that nothing more comes, and what came behind that
    /// is not looked at.
    ///
    /// # Errors
    /// They are not TLS, or nothing that both sides can agree on. The connection is of no more use.
    pub fn receive(
        &mut self,
        mut bytes: &[u8],
        plain: &mut BytesMut,
        out: &mut BytesMut,
    ) -> Result<bool, TlsError> {
        while !bytes.is_empty() {
            let before = bytes.len();
            let result = self.session.read_tls(&mut bytes).map_err(|error| TlsError(error.to_string()));
            let result = result.and_then(|_| self.take(before - bytes.len(), plain));
            self.answer(out);
            // The library takes nothing more then, and says nothing about it: without this the loop would have no end.
            if result? || bytes.len() == before {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Encrypts, as records of their own. Nothing may be given before [`TlsSession::is_established`].
    pub fn seal(&mut self, plain: &[u8], out: &mut BytesMut) {
        debug_assert!(self.is_established(), "kept by the library, which nobody would count");
        // Into memory without a limit: neither of the two can fail.
        let _ = self.session.writer().write_all(plain);
        self.answer(out);
    }

    /// Says that nothing more comes: the peer knows then that nobody has cut anything off.
    pub fn close(&mut self, out: &mut BytesMut) {
        self.session.send_close_notify();
        self.answer(out);
    }

    /// Looks at `count` bytes more. Whether they say that no more come.
    fn take(&mut self, count: usize, plain: &mut BytesMut) -> Result<bool, TlsError> {
        if self.session.is_handshaking() {
            self.handshake += count;
            if self.handshake > MAX_HANDSHAKE {
                let text = format!("{MAX_HANDSHAKE} bytes and no agreement");
                return Err(TlsError(text));
            }
        }
        let state = self.session.process_new_packets().map_err(|error| TlsError(error.to_string()))?;
        let mut reader = self.session.reader();
        while let Ok(chunk @ [_, ..]) = reader.fill_buf() {
            let length = chunk.len();
            plain.extend_from_slice(chunk);
            reader.consume(length);
        }
        Ok(state.peer_has_closed())
    }

    fn answer(&mut self, out: &mut BytesMut) {
        while self.session.wants_write() {
            if self.session.write_tls(&mut out.writer()).is_err() {
                break;
            }
        }
    }
}
