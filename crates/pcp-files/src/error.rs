//! What is in the way of a file.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// A file was not opened, made or replaced.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", .path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// Why not.
    pub problem: FileProblem,
}

impl FileError {
    /// What the system would say of it.
    pub fn kind(&self) -> ErrorKind {
        self.problem.kind()
    }
}

impl From<FileError> for io::Error {
    fn from(error: FileError) -> io::Error {
        io::Error::new(error.kind(), error)
    }
}

/// Why a file was not opened, made or replaced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileProblem {
    /// The name is that of a link.
    #[error("is a symbolic link; only a regular file is allowed: remove the link, or configure another path")]
    Link,
    /// A directory on the way is a link that somebody else has made.
    #[error(
        "{} on the way is a symbolic link of uid {uid}; only links of root and of this program's user are \
         followed: remove it, or configure another path",
        .link.display()
    )]
    LinkOnTheWay {
        /// The name of the link.
        link: PathBuf,
        /// Whose it is.
        uid: u32,
    },
    /// What is there is no file.
    #[error("is {found}; only {allowed} is allowed: remove it, or configure another path")]
    Kind {
        /// What is there.
        found: &'static str,
        /// What may be.
        allowed: &'static str,
    },
    /// The file is somebody else's.
    #[error(
        "belongs to uid {uid}; only a file of root, of this program's user or of the directory's owner is \
         allowed: remove it, or configure another path"
    )]
    Owner {
        /// Whose it is.
        uid: u32,
    },
    /// Writing to it would write to the file of another name.
    #[error("has {names} names (hard links); only one is allowed: remove it, or configure another path")]
    Names {
        /// How many it has.
        names: u64,
    },
    /// What the system refused.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl FileProblem {
    fn kind(&self) -> ErrorKind {
        match self {
            FileProblem::System(error) => error.kind(),
            FileProblem::Kind { .. } => ErrorKind::InvalidInput,
            _ => ErrorKind::PermissionDenied,
        }
    }
}

impl From<nix::errno::Errno> for FileProblem {
    fn from(errno: nix::errno::Errno) -> FileProblem {
        FileProblem::System(errno.into())
    }
}

impl From<FileProblem> for io::Error {
    fn from(problem: FileProblem) -> io::Error {
        match problem {
            FileProblem::System(error) => error,
            problem => io::Error::new(problem.kind(), problem),
        }
    }
}
