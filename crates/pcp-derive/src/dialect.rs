//! Which PCP's derived-metric language is meant, and what is allowed beyond it.

use pcp_model::UnitsVocabulary;
pub use pcp_model::{Level, UnknownLevel};

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

    /// The language of the newest release and nothing beyond it. What a definition means is as with the default: it is only that
    /// PCP knows all of it, too. For older releases check it with their [`Dialect::strict`].
    pub const fn portable() -> Dialect {
        Dialect::strict(Level::V721)
    }

    /// Every construct that some PCP release knows and everything beyond PCP, with the rules of a release.
    pub const fn at(level: Level) -> Dialect {
        Dialect { newer: true, beyond_pcp: true, ..Dialect::strict(level) }
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
    /// The rules of the newest release with everything beyond PCP.
    fn default() -> Dialect {
        Dialect::at(Level::default())
    }
}
