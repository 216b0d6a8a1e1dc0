//! What a real PCP did with derived metrics, case by case.
//!
//! A case is one line of JSON. Four kinds are told apart by their fields: `src` (parsing), `file`
//! (configuration files), `samples` (evaluation), else binding. `pcp` names the version a case was
//! recorded with; `v603` and `v721` are the results of other versions where they differ.

use serde_json::Value as Json;

use super::{binding, config, evaluation, parsing};
use pcp_derive::{Dialect, EquivalentIndoms, Level, Registry};

/// What came of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// As recorded.
    Passed,
    /// Not as recorded, and how.
    Failed(String),
    /// The version's result is not defined (it crashed, or depended on memory contents).
    Undefined,
}

/// A line that is not a case.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadCase {
    /// Not JSON.
    #[error("not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A field is missing or not of its type.
    #[error("bad field: {0}")]
    Field(&'static str),
}

/// Replays one case with the rules of `level`. A case recorded with a newer version than `level`, and
/// without a result for `level`, is about something that only the newer version has: it is replayed
/// with the newer rules.
///
/// # Errors
/// When the line is not a case.
pub(super) fn replay(line: &str, level: Level) -> Result<Outcome, BadCase> {
    let case: Json = serde_json::from_str(line)?;
    let recorded: Level =
        case["pcp"].as_str().ok_or(BadCase::Field("pcp"))?.parse().map_err(|_| BadCase::Field("pcp"))?;
    let key = match level {
        Level::V603 => "v603",
        Level::V638 => "v638",
        Level::V721 => "v721",
    };
    let other = case.get(key).filter(|_| level != recorded);
    let level = if other.is_some() { level } else { level.max(recorded) };
    let expected = other.unwrap_or(&case);
    let dialect = Dialect::strict(level);
    if case.get("src").is_some() {
        parsing::replay(&case, expected, &dialect)
    } else if case.get("file").is_some() {
        config::replay(&case, expected, &dialect)
    } else if case.get("samples").is_some() {
        evaluation::replay(&case, other, &dialect)
    } else {
        binding::replay(&case, expected, &dialect)
    }
}

/// A registry with the options of a case.
pub(super) fn registry(case: &Json, dialect: &Dialect) -> Result<Registry, BadCase> {
    let mut registry = Registry::new(*dialect);
    registry.initialise();
    if let Some(text) = case["indom_config"].as_str() {
        registry.set_equivalent_indoms(EquivalentIndoms::parse(text).0);
    }
    if case["control"]["PCP_DERIVED_OPTION_NOVALUE"] == 1 {
        registry.set_unknown_is_novalue(true);
    }
    Ok(registry)
}

pub(super) fn compare(what: &str, expected: impl AsRef<str>, found: impl AsRef<str>) -> Outcome {
    let (expected, found) = (expected.as_ref(), found.as_ref());
    if expected == found {
        Outcome::Passed
    } else {
        Outcome::Failed(format!("{what}\n  expected {expected}\n  found    {found}"))
    }
}
