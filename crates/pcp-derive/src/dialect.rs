//! Which PCP's derived-metric language is meant, and what is allowed beyond it.

use pcp_model::UnitsVocabulary;

/// A PCP release whose behaviour an engine follows, where releases differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Level {
    /// PCP 6.0.3 (Debian 12).
    V603,
    /// PCP 6.3.8 (Debian 13).
    #[default]
    V638,
    /// PCP 7.2.1.
    V721,
}

impl std::str::FromStr for Level {
    type Err = UnknownLevel;

    fn from_str(text: &str) -> Result<Level, UnknownLevel> {
        match text {
            "6.0.3" => Ok(Level::V603),
            "6.3.8" => Ok(Level::V638),
            "7.2.1" => Ok(Level::V721),
            _ => Err(UnknownLevel),
        }
    }
}

/// A text that is not one of the known PCP releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a known language level (6.0.3, 6.3.8 or 7.2.1)")]
pub struct UnknownLevel;

/// The language and its rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// The release whose rules hold where releases differ.
    pub level: Level,
    /// Accept what 7.2 added (`indom=`, extra units) at older levels too. `indom` stays usable as a
    /// metric name then.
    pub newer: bool,
    /// Accept what no PCP has: nested derived metrics, `topk`, windows and so on. Turn it off to keep
    /// definitions portable.
    pub beyond_pcp: bool,
    /// Unknown operands have no values instead of failing (`PCP_DERIVED_OPTION_NOVALUE` of 7.2).
    pub unknown_is_novalue: bool,
}

impl Dialect {
    /// Exactly the language of one release.
    pub const fn strict(level: Level) -> Dialect {
        Dialect { level, newer: false, beyond_pcp: false, unknown_is_novalue: false }
    }

    /// Every construct that some PCP release knows, with the rules of 6.3.8, and nothing else.
    pub const fn portable() -> Dialect {
        Dialect { newer: true, ..Dialect::strict(Level::V638) }
    }

    /// Whether `indom=` is a tag of `mkconst` and `novalue`.
    pub(super) const fn has_indom_tag(&self) -> bool {
        self.newer || matches!(self.level, Level::V721)
    }

    /// The unit words that are known.
    pub const fn units(&self) -> UnitsVocabulary {
        if self.has_indom_tag() { UnitsVocabulary::Extra } else { UnitsVocabulary::Classic }
    }
}

impl Default for Dialect {
    /// The rules of 6.3.8 with everything newer and everything beyond PCP.
    fn default() -> Dialect {
        Dialect { beyond_pcp: true, ..Dialect::portable() }
    }
}
