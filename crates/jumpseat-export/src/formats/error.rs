//! Why an export ends early.

use std::path::PathBuf;

use pcp_client::ClientError;

/// What went wrong, in words for the person at the command line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// An argument that makes no sense; with what would.
    #[error("{0}")]
    Usage(String),
    /// The source cannot be opened, or read on.
    #[error("{what}: {error}")]
    Source {
        /// Which, or what was asked.
        what: String,
        /// Why.
        error: ClientError,
    },
    /// Nothing to export.
    #[error("none of the metrics is there: `jumpseat info{option}` lists those that are")]
    NoMetrics {
        /// How the source is named to it, with a space in front.
        option: String,
    },
    /// Where it is written to does not take it. What was there before is there still.
    #[error("{}: {error}", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// An object store does not take it.
    #[error(
        "{url}: {error}; AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL say who asks whom"
    )]
    Store {
        /// The object.
        url: String,
        /// Why.
        error: object_store::Error,
    },
    /// What is to be written does not fit the format.
    #[error("{}: {error}", path.display())]
    Parquet {
        /// The table.
        path: PathBuf,
        /// Why.
        error: parquet::errors::ParquetError,
    },
    /// Not all went out to a receiver of OTLP.
    #[error("{url}: {reason}")]
    Otlp {
        /// The receiver.
        url: String,
        /// What did not, and why.
        reason: String,
    },
    /// More than fits into memory.
    #[error(
        "more than {limit} bytes of OpenMetrics text, which is put together in memory: export less at a time (-S, -T, -s)"
    )]
    TooMuch {
        /// How much there may be.
        limit: usize,
    },
}

impl ExportError {
    /// The standard output or file of an output option.
    pub(crate) fn write(path: &std::path::Path) -> impl Fn(std::io::Error) -> ExportError + '_ {
        |error| ExportError::Write { path: path.to_owned(), error }
    }

    /// What was asked of the source.
    pub(crate) fn source(what: &str) -> impl FnOnce(ClientError) -> ExportError + '_ {
        |error| ExportError::Source { what: what.to_owned(), error }
    }
}
