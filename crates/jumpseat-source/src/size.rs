//! Numbers of bytes as a configuration writes them.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};

/// A number of bytes, written as a number or as text with a unit: `65536`, `"64KiB"`, `"8 MiB"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ByteSize(pub u64);

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ByteSize, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = ByteSize;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size in bytes, such as 65536, \"64KiB\" or \"8MiB\"")
            }

            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<ByteSize, E> {
                u64::try_from(bytes)
                    .map(ByteSize)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(bytes), &self))
            }

            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<ByteSize, E> {
                Ok(ByteSize(bytes))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ByteSize, E> {
                parse_size(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A number of bytes of text, by the same rules; `None`: it is none.
pub(crate) fn parse(text: &str) -> Option<u64> {
    parse_size(text).map(|ByteSize(bytes)| bytes)
}

fn parse_size(text: &str) -> Option<ByteSize> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let shift = match text[digits..].trim_start() {
        "" | "B" => 0,
        "KiB" | "K" | "k" => 10,
        "MiB" | "M" | "m" => 20,
        "GiB" | "G" | "g" => 30,
        _ => return None,
    };
    number.checked_mul(1 << shift).map(ByteSize)
}

/// Reads a [`ByteSize`] into a field that is a `usize`.
pub(super) fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let ByteSize(bytes) = ByteSize::deserialize(deserializer)?;
    // What does not fit is above every limit there is.
    Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
}
