//! The table `[fields]`.

use serde::{Deserialize, Serialize};

use jumpseat_source::registry;

use super::problem::{OutOfRange, limit};

/// Largest number of field metrics: what their clusters have room for.
pub const MAX_FIELDS: u32 = registry::MAX_FIELDS as u32;

/// Limits of the field metrics.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct FieldsConfig {
    /// Number of metrics below `jumpseat.field`; fields beyond are folded into one.
    pub max: u32,
}

impl Default for FieldsConfig {
    fn default() -> FieldsConfig {
        FieldsConfig { max: 4096 }
    }
}

impl FieldsConfig {
    pub(crate) fn check(&self) -> Result<(), OutOfRange> {
        limit((16..=MAX_FIELDS).contains(&self.max), ("fields", "max"), self.max, || {
            format!("16 to {MAX_FIELDS}")
        })
    }
}
