//! What a line has besides its buffers once it is encrypted.

use bytes::{Buf as _, BytesMut};

use pcp_net::{TlsError, TlsSession};

/// What is sealed at a time, before the socket is asked whether it takes it and others get their turn.
const PORTION: usize = 1 << 18;
/// Length words of PDUs.
const LENGTH: usize = 4;

/// A TLS session, and what waits to be sealed by it.
///
/// **Invariant:** no record holds bytes of two PDUs: PCP's clients look at the socket for the next PDU, not at what is
/// left of the last record.
///
/// **Cost:** a copy of what is sent, and a second of a processor for about a gigabyte, in portions.
#[derive(Debug)]
pub(super) struct Secure {
    session: TlsSession,
    plain: BytesMut,
    /// Bytes at the front of `plain` that belong to a PDU already begun.
    rest: usize,
}

impl Secure {
    pub(super) fn new(session: TlsSession) -> Secure {
        Secure { session, plain: BytesMut::new(), rest: 0 }
    }

    /// Takes bytes of the socket; what they say goes to `input`, what the peer is to be sent to `out`. False: no more come.
    pub(super) fn receive(
        &mut self,
        bytes: &[u8],
        input: &mut BytesMut,
        out: &mut BytesMut,
    ) -> Result<bool, TlsError> {
        self.session.receive(bytes, input, out)
    }

    /// Takes a whole PDU to be sent.
    pub(super) fn put(&mut self, parts: [&[u8]; 2]) {
        parts.into_iter().for_each(|part| self.plain.extend_from_slice(part));
    }

    /// Whether both sides have agreed.
    pub(super) fn is_established(&self) -> bool {
        self.session.is_established()
    }

    /// Bytes that wait to be sealed.
    pub(super) fn waiting(&self) -> usize {
        self.plain.len()
    }

    /// Whether something can be sealed now.
    pub(super) fn can_seal(&self) -> bool {
        !self.plain.is_empty() && self.session.is_established()
    }

    /// Seals a portion of what waits, if it is time for that. Whether anything was.
    pub(super) fn seal(&mut self, out: &mut BytesMut) -> bool {
        if !self.can_seal() {
            return false;
        }
        let mut portion = PORTION;
        while portion > 0 && !self.plain.is_empty() {
            if self.rest == 0 {
                // PDUs are put whole, and each begins with its length.
                let length =
                    self.plain.first_chunk::<LENGTH>().map(|word| u32::from_be_bytes(*word) as usize);
                self.rest = length.unwrap_or(usize::MAX).clamp(1, self.plain.len());
            }
            let length = self.rest.min(portion);
            self.session.seal(&self.plain[..length], out);
            self.plain.advance(length);
            self.rest -= length;
            portion -= length;
        }
        true
    }

    /// Gives memory above `keep` back, if it is not needed.
    pub(super) fn give_back(&mut self, keep: usize) {
        if self.plain.is_empty() && self.plain.capacity() > keep {
            self.plain = BytesMut::new();
        }
    }
}
