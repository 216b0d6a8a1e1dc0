//! The key `multiline`: which lines are one record.
//!
//! ```toml
//! multiline = "java"
//! multiline = { start = '^\d{4}-\d\d-\d\d ', max_lines = 500, max_bytes = "64KiB", timeout_ms = 1000 }
//! ```

use std::fmt;
use std::ops::RangeInclusive;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::{Deserialize, Deserializer, Serialize, de};

use super::lines::Join;
use crate::setting::{InvalidKey, in_range};

/// Languages whose stack traces are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stack {
    /// Java, and what else runs on its machine.
    Java,
    /// Python.
    Python,
    /// Go.
    Go,
    /// Rust.
    Rust,
}

/// Which lines are one record, and how long it may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Multiline {
    /// A regular expression that the first line of each record matches.
    pub start: Option<String>,
    /// Or the language whose stack traces are kept together.
    pub preset: Option<Stack>,
    /// Most lines of a record.
    pub max_lines: u32,
    /// Most bytes of a record.
    pub max_bytes: usize,
    /// Milliseconds without a further line after which a record has ended.
    pub timeout_ms: u64,
}

const LINES: RangeInclusive<u64> = 2..=10_000;
/// With its other fields a record has at most 256 KiB.
const BYTES: RangeInclusive<u64> = 256..=192 * 1024;
const TIMEOUT: RangeInclusive<u64> = 100..=3_600_000;

impl Multiline {
    /// Checks ranges and the expression.
    ///
    /// # Errors
    /// What is wrong, under the key `multiline`.
    pub fn validate(&self) -> Result<(), InvalidKey> {
        for (name, value, range) in [
            ("max_lines", u64::from(self.max_lines), LINES),
            ("max_bytes", self.max_bytes as u64, BYTES),
            ("timeout_ms", self.timeout_ms, TIMEOUT),
        ] {
            in_range("multiline", value, range)
                .map_err(|error| InvalidKey::other("multiline", format!("{name}: {}", error.problem)))?;
        }
        Join::new(self).map(drop).map_err(|why| InvalidKey::other("multiline", why))
    }
}

impl Default for Multiline {
    fn default() -> Multiline {
        Multiline { start: None, preset: None, max_lines: 500, max_bytes: 64 * 1024, timeout_ms: 1000 }
    }
}

/// The table, which has the defaults of [`Multiline`].
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Table {
    start: Option<String>,
    preset: Option<Stack>,
    max_lines: u32,
    #[serde(deserialize_with = "crate::size::bytes")]
    max_bytes: usize,
    timeout_ms: u64,
}

impl Default for Table {
    fn default() -> Table {
        let Multiline { start, preset, max_lines, max_bytes, timeout_ms } = Multiline::default();
        Table { start, preset, max_lines, max_bytes, timeout_ms }
    }
}

impl<'de> Deserialize<'de> for Multiline {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Multiline, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Multiline;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "\"java\", \"python\", \"go\", \"rust\", or a table such as { start = '^\\d{4}-' }",
                )
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Multiline, E> {
                let preset = Stack::deserialize(StrDeserializer::new(name))?;
                Ok(Multiline { preset: Some(preset), ..Multiline::default() })
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Multiline, A::Error> {
                let Table { start, preset, max_lines, max_bytes, timeout_ms } =
                    Table::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Multiline { start, preset, max_lines, max_bytes, timeout_ms })
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Multiline, String> {
        let multiline: Multiline = serde_json::from_str(json).map_err(|error| error.to_string())?;
        multiline.validate().map_err(|invalid| invalid.to_string()).map(|()| multiline)
    }

    #[test]
    fn a_name_or_a_table() {
        assert_eq!(read("\"go\"").map(|multiline| multiline.preset), Ok(Some(Stack::Go)));
        let table =
            read(r#"{"start":"^\\d","max_lines":9,"max_bytes":"1KiB","timeout_ms":200}"#).expect("right");
        assert_eq!((table.max_lines, table.max_bytes, table.timeout_ms), (9, 1024, 200));
        for (json, part) in [
            ("\"cobol\"", "unknown variant `cobol`, expected one of `java`, `python`, `go`, `rust`"),
            ("5", "expected \"java\", \"python\", \"go\", \"rust\", or a table such as"),
            ("{}", "multiline: needs a preset, or start"),
            (r#"{"start":"x","preset":"go"}"#, "multiline: has both a preset and start"),
            (r#"{"start":"("}"#, "multiline: start: (: "),
            (r#"{"begin":"x"}"#, "unknown field `begin`"),
            (r#"{"start":"x","max_lines":1}"#, "multiline: max_lines: 1 is not between 2 and 10000"),
            (r#"{"start":"x","max_bytes":"1MiB"}"#, "multiline: max_bytes: 1048576 is not between"),
            (r#"{"start":"x","timeout_ms":0}"#, "multiline: timeout_ms: 0 is not between 100 and"),
        ] {
            let error = read(json).expect_err(json);
            assert!(error.contains(part), "{json}: {error}");
        }
    }
}
