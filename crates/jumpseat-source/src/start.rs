//! Why a source could not be started.

use std::io;

use pcp_net::ListenError;

use super::registry::SourceRefused;
use super::setting::InvalidKey;

/// A source of any kind could not be started. What goes wrong later is told by the source itself, in its log and its
/// status metrics.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A configuration value out of its range.
    #[error("{0}")]
    Config(InvalidKey),
    /// Lines cannot be read as configured: a pattern or a format of times that is none.
    #[error("{0}")]
    Format(String),
    /// The Unix socket cannot be listened on.
    #[error(transparent)]
    Socket(#[from] ListenError),
    /// The TCP address cannot be listened on.
    #[error("{address}: cannot listen: {error}; stop what listens there, or configure another address")]
    Address {
        /// Host and port.
        address: String,
        /// The system's answer.
        error: io::Error,
    },
    /// There can be no source of the configured name.
    #[error("source {name}: {why}")]
    Source {
        /// Its name.
        name: String,
        /// Why it cannot be.
        why: SourceRefused,
    },
    /// The thread, or what it waits for.
    #[error("cannot start {what}: {error}")]
    System {
        /// What was to be started.
        what: &'static str,
        /// The system's answer.
        error: io::Error,
    },
}

impl StartError {
    /// Makes an error of what the system said about `what` was to be started.
    pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> StartError {
        move |error| StartError::System { what, error }
    }

    /// Makes an error of why there can be no source of this name.
    pub(crate) fn source(name: &str) -> impl Fn(SourceRefused) -> StartError {
        move |why| StartError::Source { name: name.to_owned(), why }
    }
}
