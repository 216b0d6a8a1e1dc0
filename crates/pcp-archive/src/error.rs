//! What can be wrong with an archive, where, and which code PCP has for it (`docs/pcp/archive.md` 17).

use std::io;
use std::path::{Path, PathBuf};

use pcp_model::PmError;

/// Why an archive cannot be opened or read on.
#[derive(Debug, thiserror::Error)]
#[error("{}{}: {problem}", path.display(), place(*offset))]
pub struct ArchiveError {
    /// The file, or the name the archive was asked for by.
    pub path: PathBuf,
    /// Where in the (uncompressed) file, if that is known.
    pub offset: Option<u64>,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong with an archive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The operating system, or a decoder of a compressed file.
    #[error("{0}")]
    Io(io::Error),
    /// There is no file of that archive.
    #[error("no such archive")]
    Missing,
    /// Some files are there, but no `.meta` or no data volume.
    #[error("{0} is missing")]
    MissingFile(&'static str),
    /// Nothing but (part of) a label.
    #[error("no data in the file")]
    NoData,
    /// Not a label record, or not the one that belongs here.
    #[error("bad label: {0}")]
    Label(&'static str),
    /// A record's length, trailer or contents.
    #[error("corrupted record: {0}")]
    Record(&'static str),
    /// More than is read, as it would take memory that the archive's own size does not justify.
    #[error("{0}")]
    TooLong(Box<Excess>),
    /// A record of a type that does not exist.
    #[error("unknown record type {0}")]
    RecordType(u32),
    /// A metric described a second time, in another way.
    #[error("a metric's {0} changes")]
    Changed(Attribute),
    /// Archives of several hosts at once.
    #[error("archives of different hosts")]
    Host,
    /// Archives whose times overlap.
    #[error("archives overlap in time")]
    Overlap,
}

/// More of something than is read.
#[derive(Debug, thiserror::Error)]
#[error("{what} of {bytes} bytes, at most {limit} are read{}", advice(*packed))]
pub struct Excess {
    /// Of what there is more.
    pub what: &'static str,
    /// How much.
    pub bytes: u64,
    /// How much there may be.
    pub limit: u64,
    /// Whether the limit is that of a file which is compressed to nearly nothing.
    pub packed: bool,
}

fn advice(packed: bool) -> &'static str {
    if packed { " of a compressed file of this size; decompress it" } else { "" }
}

/// The part of a descriptor that must not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// The value type.
    Type,
    /// The semantics.
    Semantics,
    /// The instance domain.
    InDom,
    /// The units.
    Units,
}

impl std::fmt::Display for Attribute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Attribute::Type => "type",
            Attribute::Semantics => "semantics",
            Attribute::InDom => "instance domain",
            Attribute::Units => "units",
        })
    }
}

impl ArchiveError {
    pub(super) fn new(path: &Path, offset: impl Into<Option<u64>>, problem: Problem) -> ArchiveError {
        ArchiveError { path: path.to_owned(), offset: offset.into(), problem }
    }

    pub(super) fn io(path: &Path, error: io::Error) -> ArchiveError {
        ArchiveError::new(path, None, Problem::Io(error))
    }

    /// The code libpcp has for this.
    pub fn code(&self) -> PmError {
        const NO_ENTRY: i32 = 2;
        match &self.problem {
            // A decoder's complaint has no number: libpcp, too, says that the record is bad.
            Problem::Io(error) => error.raw_os_error().map_or(PmError::LOGREC, PmError::from_errno),
            Problem::Missing => PmError::from_errno(NO_ENTRY),
            Problem::MissingFile(_) => PmError::LOGFILE,
            Problem::NoData => PmError::NODATA,
            Problem::Label(_) => PmError::LABEL,
            Problem::Record(_) | Problem::TooLong(_) => PmError::LOGREC,
            Problem::RecordType(_) => PmError::RECTYPE,
            Problem::Changed(Attribute::Type) => PmError::LOGCHANGETYPE,
            Problem::Changed(Attribute::Semantics) => PmError::LOGCHANGESEM,
            Problem::Changed(Attribute::InDom) => PmError::LOGCHANGEINDOM,
            Problem::Changed(Attribute::Units) => PmError::LOGCHANGEUNITS,
            Problem::Host => PmError::LOGHOST,
            Problem::Overlap => PmError::LOGOVERLAP,
        }
    }
}

fn place(offset: Option<u64>) -> String {
    offset.map_or_else(String::new, |offset| format!(" at byte {offset}"))
}
