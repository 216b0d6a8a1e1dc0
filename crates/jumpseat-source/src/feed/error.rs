//! Why a feed could not be finished.

use std::io;
use std::path::PathBuf;

use jumpseat_wire::severity;

/// A feed that could not be finished.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FeedError {
    /// There is no server.
    #[error("cannot connect to {}: {error}{}", .socket.display(), connect_advice(.error))]
    Connect {
        /// The socket.
        socket: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// The server does not take the source name.
    #[error("source {name:?} was refused: {why}")]
    Source {
        /// The name.
        name: String,
        /// The server's word.
        why: String,
    },
    /// The server does not take the sender's name.
    #[error(
        "sender {0:?} was refused: a name has 1 to 128 bytes, and 256 senders of a user may be connected"
    )]
    Sender(String),
    /// Another connection goes on as this sender.
    #[error("another connection goes on as sender {0:?}")]
    Displaced(String),
    /// Not a word for a severity.
    #[error("{0:?} is no severity: use {list}", list = severity::WORDS.join(", "))]
    Severity(String),
    /// What answers is not jumpseat, or turned us away.
    #[error("the server at {} answered {answer:?}", .socket.display())]
    Answer {
        /// The socket.
        socket: PathBuf,
        /// What it said.
        answer: String,
    },
    /// The connection broke or the answer did not come.
    #[error("the server is gone after {sent} events: {error}")]
    Gone {
        /// Events read by then.
        sent: u64,
        /// What happened.
        error: io::Error,
    },
    /// An input cannot be read.
    #[error("cannot read {input}: {error}")]
    Input {
        /// Its name.
        input: String,
        /// The system's answer.
        error: io::Error,
    },
}

fn connect_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            "\nIs the agent running? Start `jumpseat serve` or the pmdajumpseat agent, or name its socket with \
             --socket (the `path` of a [[socket]] in jumpseat.toml)."
        }
        io::ErrorKind::InvalidData => {
            "\nOnly a server with a certificate for the name that you gave, by an authority in the file of --ca, is trusted."
        }
        io::ErrorKind::PermissionDenied => {
            "\nYou may not write to this socket: its `mode` in jumpseat.toml decides who may."
        }
        _ => "",
    }
}
