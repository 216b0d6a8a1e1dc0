//! Why a configuration is refused.

use std::fmt;
use std::io;
use std::path::PathBuf;

use jumpseat_source::InvalidKey;

use super::document::FormError;

/// Why a configuration was refused: the file, the line, what is wrong, and what is allowed; a line for each mistake.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file could not be read.
    #[error("{}: cannot read the configuration: {error}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// What it says cannot be.
    #[error("{}", self.messages().join("\n"))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong, in the order of the file.
        mistakes: Vec<Mistake>,
        /// How many mistakes there are besides these.
        more: usize,
    },
}

impl ConfigError {
    /// How many mistakes there are.
    pub fn count(&self) -> usize {
        match self {
            ConfigError::Read { .. } => 1,
            ConfigError::Invalid { mistakes, more, .. } => mistakes.len() + more,
        }
    }

    /// The mistakes, a line each.
    pub fn messages(&self) -> Vec<String> {
        let ConfigError::Invalid { path, mistakes, more } = self else { return vec![self.to_string()] };
        let told =
            mistakes.iter().map(|Mistake { line, problem }| format!("{}: {problem}", place(path, *line)));
        let rest = (*more > 0).then(|| format!("{}: and {more} more mistakes", path.display()));
        told.chain(rest).collect()
    }
}

/// One thing that is wrong in a configuration.
#[derive(Debug)]
pub struct Mistake {
    /// Line in the file, from 1; `None` where what is wrong is not in the file.
    pub line: Option<usize>,
    /// What is wrong.
    pub problem: ConfigProblem,
}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigProblem {
    /// The text is no TOML.
    #[error("{0}")]
    Syntax(String),
    /// There is no such key, or its value is not of the form it should be.
    #[error(transparent)]
    Form(#[from] FormError),
    /// A value in a table cannot be taken.
    #[error(transparent)]
    Table(#[from] InvalidTable),
    /// A limit is out of its range.
    #[error(transparent)]
    Limit(#[from] OutOfRange),
}

/// A table with a value that cannot be taken.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{table}.{invalid}")]
pub struct InvalidTable {
    /// The table's name.
    pub table: &'static str,
    /// Which of the tables of that name, from 0.
    pub nth: usize,
    /// The key and what is wrong with it.
    pub invalid: InvalidKey,
}

/// A limit that is out of its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    /// The key's table, empty for a key outside of all tables.
    pub table: &'static str,
    /// The key, without its table.
    pub key: &'static str,
    /// The value found.
    pub value: String,
    /// What would be right.
    pub allowed: String,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OutOfRange { table, key, value, allowed } = self;
        let dot = if table.is_empty() { "" } else { "." };
        write!(f, "{table}{dot}{key} = {value} is out of range: allowed is {allowed}")
    }
}

impl std::error::Error for OutOfRange {}

/// Checks a limit: `allowed` says what would be right.
pub(super) fn limit(
    holds: bool,
    (table, key): (&'static str, &'static str),
    value: impl fmt::Display,
    allowed: impl FnOnce() -> String,
) -> Result<(), OutOfRange> {
    match holds {
        true => Ok(()),
        false => Err(OutOfRange { table, key, value: value.to_string(), allowed: allowed() }),
    }
}

/// File and line, or the file alone for what is not in it.
fn place(path: &std::path::Path, line: Option<usize>) -> String {
    match line {
        None => path.display().to_string(),
        Some(line) => format!("{}:{line}", path.display()),
    }
}
