//! What connections share: where answers go, and why a connection ends.

use bytes::BytesMut;

use crate::core::sendable;
use pcp_model::PmError;
use pcp_pdu::{ErrorPdu, FrameError, Pdu};

/// Where a connection's answers go.
pub trait Output {
    /// Takes a whole PDU, given in two parts, to be sent after everything sent before.
    fn send(&mut self, parts: [&[u8]; 2]);
    /// Whether everything that was sent has left.
    fn has_left(&self) -> bool;
    /// Whether the next request may be answered: everything has left, and it is not somebody else's turn.
    fn is_clear(&self) -> bool;
}

/// What a line has to do before its connection can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing: bytes of the peer, as they come.
    Input,
    /// When everything has left, go on with no input if need be.
    Finish,
    /// Begin TLS, and go on at once, with no input if need be. What has come already is TLS.
    Encrypt,
    /// Wait until somebody has judged a password, and read nothing meanwhile.
    Verdict,
}

/// The peer broke the protocol beyond repair, or ended: nothing more can be read from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Broken {
    /// What came is not a PDU.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A client's first PDU is not CREDS, or its CREDS were not acceptable.
    #[error("no acceptable CREDS at the start of the connection")]
    Handshake,
}

/// Sends a PDU; one that cannot be expressed is replaced by the reason.
pub(super) fn send(out: &mut dyn Output, scratch: &mut BytesMut, from: i32, pdu: &Pdu) {
    scratch.clear();
    if let Err(error) = pdu.encode(from, scratch) {
        tracing::warn!(%error, "answer replaced by an error");
        let reason = Pdu::Error(ErrorPdu::failure(sendable(error.pm_error())));
        scratch.clear();
        // An error PDU has a fixed form that always fits.
        let _ = reason.encode(from, scratch);
    }
    out.send([scratch, &[]]);
}

/// The answer that an error is. Never one upon which pmcd would drop the agent.
pub(super) fn failure(error: PmError) -> Pdu {
    Pdu::Error(ErrorPdu::failure(sendable(error)))
}
