//! Why an archive cannot be written.

use std::io;
use std::path::{Path, PathBuf};

use pcp_files::FileError;
use pcp_model::{Pmid, Timestamp};

/// Why something could not be written. What was written before is whole, and stays readable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The operating system says no: no room, no permission, no such directory.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A file of that archive is there already.
    #[error("{} is there already", .0.display())]
    Exists(PathBuf),
    /// Another process writes to it.
    #[error("{} is being written by another process", .0.display())]
    Locked(PathBuf),
    /// The archive cannot be continued.
    #[error("{}: {reason}", path.display())]
    NotContinued {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A metric is described in another way than before in the archive.
    #[error("the {what} of {pmid} is not the one in the archive")]
    Changed {
        /// The metric.
        pmid: Pmid,
        /// The part of the descriptor.
        what: &'static str,
    },
    /// A record is older than the one before it.
    #[error("the clock went back: values of {:?}, the last in the archive are of {:?}", time, last)]
    TimeGoesBack {
        /// The record's time.
        time: Timestamp,
        /// The time of the last in the archive.
        last: Timestamp,
    },
    /// A record is larger than the format has room for.
    #[error("a record of more than 2 GiB")]
    TooLarge,
}

impl WriteError {
    /// What is in the way of a file, told once with its name.
    pub(crate) fn file(FileError { path, problem }: FileError) -> WriteError {
        let error = io::Error::from(problem);
        match error.kind() {
            io::ErrorKind::AlreadyExists => WriteError::Exists(path),
            _ => WriteError::Io { path, error },
        }
    }

    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> WriteError + '_ {
        |error| WriteError::Io { path: path.to_owned(), error }
    }
}
