//! In place of `tls.rs` in a build without the feature: there is no session, so nothing is ever asked of one.

use std::io;
use std::path::Path;

use super::error::{ClientError, Result};
use super::socket::Socket;

/// Whether TLS is compiled in.
pub(super) const CAN_ENCRYPT: bool = false;

/// The encrypted side of a connection, which there never is.
pub(super) enum Session {}

impl Session {
    /// # Errors
    /// Always: who cannot encrypt does not offer it, so a collector that begins to is out of turn.
    pub(crate) fn new(_: &Path, _: &str) -> Result<Session> {
        Err(ClientError::Unexpected)
    }

    pub(crate) fn write(&mut self, _: &mut Socket, _: &[u8]) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn read(&mut self, _: &mut Socket, _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        match *self {}
    }

    pub(crate) fn wants_write(&self) -> bool {
        match *self {}
    }
}
