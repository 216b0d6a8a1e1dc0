//! Why a request of a client fails.

use std::time::Duration;

use nix::libc;

use super::spec::HostSpecError;
use pcp_derive::AddError;
use pcp_model::PmError;
use pcp_pdu::{EncodeError, FrameError, PduError};

/// Why a request failed. [`ClientError::code`] is what libpcp would return.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// A host specification that is none.
    #[error(transparent)]
    Spec(#[from] HostSpecError),
    /// A name that is no host's.
    #[error("no address is known for host '{host}'")]
    UnknownHost {
        /// The name.
        host: String,
    },
    /// The source could not be reached.
    #[error("cannot connect to {to}: {error}")]
    Connect {
        /// Address or socket.
        to: String,
        /// Why not.
        error: std::io::Error,
    },
    /// The collector cannot do what was asked for, or this library cannot.
    #[error("{0}")]
    Unsupported(String),
    /// The connection broke.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The source answered with an error, or the request cannot be made of it.
    #[error("{0}")]
    Pcp(#[from] PmError),
    /// The reply did not come in time.
    #[error("no reply within {} seconds", .0.as_secs_f64())]
    Timeout(Duration),
    /// The collector closed the connection.
    #[error("the collector closed the connection")]
    Closed,
    /// The reply is no PDU.
    #[error("bad reply: {0}")]
    Frame(#[from] FrameError),
    /// The reply is not a correct PDU of its type.
    #[error("bad reply: {0}")]
    Pdu(#[from] PduError),
    /// The reply is a correct PDU, but not one that answers the request.
    #[error("the reply does not answer the request")]
    Unexpected,
    /// The request is too large for the protocol.
    #[error("{0}")]
    Request(#[from] EncodeError),
    /// The archive cannot be opened, or read on.
    #[cfg(feature = "archive")]
    #[error(transparent)]
    Archive(#[from] pcp_archive::ArchiveError),
    /// There is no connection: an earlier error ended it.
    #[error("not connected ({0}): reconnect to go on")]
    NotConnected(String),
    /// A derived metric is not added, or does not bind.
    #[error("{0}")]
    Derived(#[source] Box<AddError>),
    /// A fetch or a reconnect has been started and is not done.
    #[error("a fetch or reconnect is under way: finish it first")]
    Busy,
    /// After a failed attempt to connect the next has to wait (`PMCD_RECONNECT_TIMEOUT`).
    #[error("connecting failed recently: it may be tried again in {}", seconds(*.0))]
    TooSoon(Duration),
}

/// A short time as people say it.
fn seconds(left: Duration) -> String {
    format!("{:.1} seconds", left.as_secs_f64().max(0.1))
}

/// What a request of a client gives.
pub type Result<T> = std::result::Result<T, ClientError>;

impl ClientError {
    /// The code that libpcp's functions return for it.
    pub fn code(&self) -> PmError {
        match self {
            ClientError::Spec(error) => error.code(),
            ClientError::UnknownHost { .. } => PmError::from_errno(libc::EHOSTUNREACH),
            ClientError::Connect { error, .. } => error.into(),
            ClientError::Unsupported(_) => PmError::from_errno(libc::EOPNOTSUPP),
            ClientError::Io(error) => match error.raw_os_error() {
                None if error.kind() == std::io::ErrorKind::InvalidData => PmError::TLS,
                None | Some(libc::EPIPE | libc::EBADF | libc::ECONNRESET) => PmError::IPC,
                Some(errno) => PmError::from_errno(errno),
            },
            ClientError::Derived(_) => PmError::BADDERIVE,
            ClientError::Busy => PmError::AGAIN,
            ClientError::TooSoon(_) => PmError::from_errno(libc::ETIMEDOUT),
            ClientError::Pcp(error) => *error,
            #[cfg(feature = "archive")]
            ClientError::Archive(error) => error.code(),
            ClientError::Timeout(_) => PmError::TIMEOUT,
            ClientError::Request(error) => error.pm_error(),
            _ => PmError::IPC,
        }
    }
}

#[cfg(feature = "archive")]
impl From<pcp_archive::ReplayError> for ClientError {
    fn from(error: pcp_archive::ReplayError) -> ClientError {
        match error {
            pcp_archive::ReplayError::End => PmError::EOL.into(),
            pcp_archive::ReplayError::Archive(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_to_wait_are_told_as_people_say_them() {
        let told = ClientError::TooSoon(Duration::from_nanos(2_995_415_363)).to_string();
        assert_eq!(told, "connecting failed recently: it may be tried again in 3.0 seconds");
    }
}
