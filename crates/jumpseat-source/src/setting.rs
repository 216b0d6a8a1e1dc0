//! What can be wrong with a key of the configuration, whatever section it is in.
//!
//! A section checks itself and names the key; where that key stands in the file is for whoever has read the file.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use pcp_event::filter::FilterError;

use crate::registry::{NotASourceName, check_source_name};

/// A key of a section whose value cannot be taken.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct InvalidKey {
    /// The key, without its table.
    pub key: &'static str,
    /// What is wrong with its value.
    #[source]
    pub problem: InvalidValue,
}

/// What is wrong with a value, and what is allowed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidValue {
    /// A number out of its range.
    #[error("{value} is not between {least} and {most}")]
    Range {
        /// The value found.
        value: u64,
        /// The smallest one allowed.
        least: u64,
        /// The largest one allowed.
        most: u64,
    },
    /// A text that is no name of a source.
    #[error(transparent)]
    SourceName(#[from] NotASourceName),
    /// The text of a filter that does not parse.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// An element of a list, or a text, that is not of the notation it should be.
    #[error("{text:?}: {why}")]
    Notation {
        /// The text found.
        text: String,
        /// Why it is not.
        why: Cow<'static, str>,
    },
    /// Two tables that would get into each other's way.
    #[error("{0}")]
    Duplicate(&'static str),
    /// Anything else, in words.
    #[error("{0}")]
    Other(Cow<'static, str>),
}

impl InvalidKey {
    /// A problem for which words are enough.
    pub fn other(key: &'static str, words: impl Into<Cow<'static, str>>) -> InvalidKey {
        InvalidKey { key, problem: InvalidValue::Other(words.into()) }
    }

    /// A table that gets into the way of an earlier one, by this key.
    pub fn duplicate(key: &'static str, words: &'static str) -> InvalidKey {
        InvalidKey { key, problem: InvalidValue::Duplicate(words) }
    }

    pub(crate) fn notation(key: &'static str, text: &str, why: impl Into<Cow<'static, str>>) -> InvalidKey {
        InvalidKey { key, problem: InvalidValue::Notation { text: text.to_owned(), why: why.into() } }
    }
}

/// Checks that a number is in its range, ends included.
pub(crate) fn in_range(key: &'static str, value: u64, range: RangeInclusive<u64>) -> Result<(), InvalidKey> {
    let (&least, &most) = (range.start(), range.end());
    match range.contains(&value) {
        true => Ok(()),
        false => Err(InvalidKey { key, problem: InvalidValue::Range { value, least, most } }),
    }
}

/// Checks the name of a source in the key `source`.
pub(crate) fn check_source(name: &str) -> Result<(), InvalidKey> {
    check_source_name(name).map_err(|problem| InvalidKey { key: "source", problem: problem.into() })
}

/// Checks that a text is host and port.
pub(crate) fn check_address(key: &'static str, address: &str) -> Result<(), InvalidKey> {
    match address.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(()),
        _ => {
            let words = format!("{address:?} is not host and port, such as \"localhost:4318\"");
            Err(InvalidKey::other(key, words))
        }
    }
}
