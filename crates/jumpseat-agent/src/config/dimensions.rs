//! The tables `[[dimensions]]`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use jumpseat_source::Interval;
use jumpseat_source::rules::Pattern;
use jumpseat_source::setting::InvalidKey;

/// Most fields of a table: the series of a span name are as many as there are combinations of their values.
pub const MAX_DIMENSIONS: usize = 8;
/// Least time after which a series that is not used gives its place to a newcomer.
pub const MIN_IDLE: Duration = Duration::from_secs(1);

/// By which fields the spans of some sources are told apart, besides their names. The last table that matches a source holds.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct DimensionsConfig {
    /// The names of the sources it is about; `*` stands for any text, `?` for any character.
    pub source: Pattern,
    /// The fields, in the order in which their values are in names of instances.
    pub fields: Vec<String>,
    /// Number of series of each source.
    pub max_per_source: u32,
    /// Number of series of each span name.
    pub max_per_name: u32,
    /// A series that no span was of for so long gives its place to a newcomer that finds none.
    pub idle: Interval,
}

impl Default for DimensionsConfig {
    fn default() -> DimensionsConfig {
        DimensionsConfig {
            source: Pattern::default(),
            fields: Vec::new(),
            max_per_source: 1000,
            max_per_name: 200,
            idle: Interval(Duration::from_secs(600)),
        }
    }
}

impl DimensionsConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidKey> {
        if self.source.0.is_empty() {
            return Err(InvalidKey::other("source", "must not be empty; \"*\" means every source"));
        }
        if self.fields.len() > MAX_DIMENSIONS {
            let words = format!("{} fields; {MAX_DIMENSIONS} at most", self.fields.len());
            return Err(InvalidKey::other("fields", words));
        }
        for (nth, field) in self.fields.iter().enumerate() {
            if field.is_empty() {
                return Err(InvalidKey::other("fields", "a field without a name"));
            }
            if self.fields[..nth].contains(field) {
                return Err(InvalidKey::other("fields", format!("{field:?} is there twice")));
            }
        }
        if self.idle.0 < MIN_IDLE {
            return Err(InvalidKey::other("idle", format!("less than {}", Interval(MIN_IDLE))));
        }
        Ok(())
    }
}
