//! What can go wrong with ids and their files.

use std::io;
use std::path::PathBuf;

use pcp_files::{FileError, FileProblem, User};

/// What to do about a directory that takes no files.
const ADVICE: &str =
    "; names have to keep their numbers: make the directory writable, or configure another one";

/// Why ids could not be read or handed out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdsError {
    /// The file could not be read or written.
    #[error("{}: {source}{ADVICE}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What is there is not to be read or written, or could not be.
    #[error("{0}{advice}", advice = if let FileProblem::System(_) = .0.problem { ADVICE } else { "" })]
    File(#[from] FileError),
    /// Another process hands out ids from this file.
    #[error("{}: {user} uses it; stop that one, or configure another directory", .path.display())]
    InUse {
        /// The file.
        path: PathBuf,
        /// Which process.
        user: User,
    },
    /// A line of the file makes no sense. Nothing was loaded, so that no id can change its meaning.
    #[error("{}:{line}: {reason}", .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: LineError,
    },
    /// Every id up to the largest allowed one is taken.
    #[error("no id left: the largest, {max}, is taken")]
    Full {
        /// The largest allowed id.
        max: i32,
    },
    /// The name cannot be kept on a line of the file.
    #[error(
        "not a name for an id: {0:?} (empty, has a line break, or starts like a hexadecimal key or \"(retired:\")"
    )]
    Name(String),
    /// The id is taken by another name, or the name has another id.
    #[error("id {id} cannot be given to {name:?}: {taken_by}")]
    Taken {
        /// The id asked for.
        id: i32,
        /// The name it was to be given to.
        name: String,
        /// What is in the way.
        taken_by: Binding,
    },
}

/// How a name or an id is bound already.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Binding {
    /// The name has another id.
    #[error("the name has id {0}")]
    Name(i32),
    /// The id means another name.
    #[error("the id means {0:?}")]
    Id(String),
}

/// What is wrong with a line of an id file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// The first line is not `2 MODE MAX` (or `1 MODE`).
    #[error("not a header: `2 MODE MAXIMUM` expected")]
    Header,
    /// Not `ID TIME NAME`.
    #[error("not an entry: `ID TIME NAME` expected")]
    Entry,
    /// Not UTF-8.
    #[error("the name is not UTF-8")]
    Encoding,
    /// The id is above the file's maximum.
    #[error("id {0} is above the maximum {1}")]
    AboveMax(i32, i32),
    /// The id was given to another name by an earlier line.
    #[error("id {0} already means {1:?}")]
    DuplicateId(i32, String),
    /// The name was given another id by an earlier line.
    #[error("{1:?} already has id {0}")]
    DuplicateName(i32, String),
}
