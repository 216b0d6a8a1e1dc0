//! What a group does otherwise when it is told so.

use pcp_model::UnitsVocabulary;

/// How a group works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupOptions {
    /// The rate of a value that is less than before.
    pub falling: Falling,
    /// Values of discrete metrics stay when a fetch brings none.
    pub keep_discrete: bool,
    /// The words that scales may use.
    pub words: UnitsVocabulary,
}

/// What the rate of a value is that is less than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Falling {
    /// Negative, as `pmFetchGroup(3)` says.
    #[default]
    Negative,
    /// None: `PM_ERR_VALUE`. What libpcp really does.
    NoValue,
    /// Integers have passed the largest of their type, once, and began at zero again. Others are negative.
    Wrap,
}

impl Default for GroupOptions {
    fn default() -> GroupOptions {
        GroupOptions { falling: Falling::Negative, keep_discrete: true, words: UnitsVocabulary::Classic }
    }
}

impl GroupOptions {
    /// As the environment says: [`Falling::Wrap`] with PCP_COUNTER_WRAP, and no kept values with
    /// PCP_DISCRETE_ONCE (as PCP 7.2 has it), whatever these are set to.
    pub fn from_env() -> GroupOptions {
        let set = |name| std::env::var_os(name).is_some();
        GroupOptions {
            falling: if set("PCP_COUNTER_WRAP") { Falling::Wrap } else { Falling::Negative },
            keep_discrete: !set("PCP_DISCRETE_ONCE"),
            ..GroupOptions::default()
        }
    }
}
