//! Where ids are kept, how many there may be, and what can be wrong with their files.

use std::path::PathBuf;
use std::time::Duration;

use crate::rules::Rules;
use pcp_ids::IdsError;
use pcp_model::Inst;

/// Where ids persist and how many there may be.
#[derive(Clone, Debug)]
pub struct RegistryConfig {
    /// The agent's domain number.
    pub domain: u16,
    /// Directory of the id files; `None` keeps ids in memory only.
    pub dir: Option<PathBuf>,
    /// Most fields, the reserved ones included; at most [`super::MAX_FIELDS`].
    pub max_fields: usize,
    /// Most sources.
    pub max_sources: usize,
    /// Most (source, event type) pairs.
    pub max_types: usize,
    /// Most spans, counted as pairs of source and name.
    pub max_spans: usize,
    /// Names that nobody has used for so long give their places to newcomers; zero: never.
    pub recycle_after: Duration,
    /// Records outlive the process: fields whose names are retired keep their metrics, as records may still have them.
    pub keeps_records: bool,
    /// What sources let through. Those that are named there have a place, as if they were `reserved`.
    pub rules: Rules,
    /// Names of sources whose place nobody else gets.
    pub reserved: Vec<String>,
    /// Names of sources that the configuration feeds itself: nobody else sends in their name, unless `rules` say who may.
    pub own: Vec<String>,
}

impl RegistryConfig {
    /// Defaults, in memory only.
    pub fn new(domain: u16) -> RegistryConfig {
        let rules = Rules::default();
        RegistryConfig {
            domain,
            dir: None,
            max_fields: 4096,
            max_sources: 256,
            max_types: 4096,
            max_spans: 1000,
            recycle_after: Duration::ZERO,
            keeps_records: false,
            rules,
            reserved: Vec::new(),
            own: Vec::new(),
        }
    }
}

/// The registry could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// An id file could not be read or written.
    #[error("id file {file}: {error}")]
    File {
        /// The file's name, `DOMAIN.SERIAL`.
        file: String,
        /// What went wrong.
        error: IdsError,
    },
    /// There are no id files where some are needed.
    #[error("{}: no id files of domain {domain}; name another directory or domain", .dir.display())]
    None {
        /// Where they were looked for.
        dir: PathBuf,
        /// The number of the domain.
        domain: u16,
    },
    /// An id file has names of another form.
    #[error(
        "id file {file}: id {id} is {found:?}, expected {expected}; restore the file, or remove it to start afresh"
    )]
    Content {
        /// The file's name.
        file: String,
        /// The id.
        id: Inst,
        /// What the file has there.
        found: String,
        /// What should be there.
        expected: String,
    },
}
