//! Why there is no connection to an agent on another host.

use std::path::{Path, PathBuf};
use std::{fmt, io};

/// Why there is no connection to an agent on another host. Nothing of it holds the token.
#[derive(Debug)]
#[non_exhaustive]
pub enum RemoteError {
    /// Something was not said that has to be.
    Missing(&'static str),
    /// The address, or the name that the server should have.
    Address {
        /// The address.
        address: String,
        /// What is wrong.
        why: String,
    },
    /// A file that is not there, or does not hold what it should.
    File {
        /// Its path.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A token that can be none.
    Token,
    /// What the system says; `InvalidData` for a server that is not trusted.
    Io(io::Error),
    /// The agent does not let this sender in.
    Refused {
        /// What it said.
        answer: String,
    },
}

impl RemoteError {
    pub(super) fn file(path: &Path, why: impl fmt::Display) -> RemoteError {
        RemoteError::File { path: path.to_owned(), why: why.to_string() }
    }
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RemoteError::Missing(what) => write!(f, "an agent elsewhere takes {what}"),
            RemoteError::Address { address, why } => {
                write!(f, "{address:?}: {why}; an address is host and port, such as \"box.example:4319\"")
            }
            RemoteError::File { path, why } => write!(f, "{}: {why}", path.display()),
            RemoteError::Token => write!(f, "a token is one word of printable ASCII, of at most 4096 bytes"),
            RemoteError::Io(error) => error.fmt(f),
            RemoteError::Refused { answer } => write!(f, "the server answered {answer:?}"),
        }
    }
}

impl std::error::Error for RemoteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RemoteError::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for RemoteError {
    fn from(error: io::Error) -> RemoteError {
        RemoteError::Io(error)
    }
}
