//! Spans of time as a configuration writes them.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A span of time, written as text with a unit: `"500ms"`, `"1s"`, `"2 min"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interval(pub Duration);

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.subsec_millis() {
            0 => write!(f, "{}s", self.0.as_secs()),
            _ => write!(f, "{}ms", self.0.as_millis()),
        }
    }
}

impl<'de> Deserialize<'de> for Interval {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Interval, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Interval;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time with a unit, such as \"500ms\", \"1s\" or \"2min\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Interval, E> {
                parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

impl Serialize for Interval {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads a number with a unit: `ms`, `s`, `min`, `h`, `d`.
fn parse(text: &str) -> Option<Interval> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let millis = match text[digits..].trim_start() {
        "ms" => 1,
        "s" | "sec" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(millis).map(Duration::from_millis).map(Interval)
}

/// Reads an [`Interval`] into a field that is an optional [`Duration`].
pub(crate) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    Interval::deserialize(deserializer).map(|Interval(time)| Some(time))
}

/// Writes an optional [`Duration`] as an [`Interval`].
pub(crate) fn write_duration<S: Serializer>(
    time: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    time.map(Interval).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_number_and_a_unit() {
        let millis = |text| parse(text).map(|Interval(time)| time.as_millis());
        assert_eq!(millis("500ms"), Some(500));
        assert_eq!(millis("7d"), Some(604_800_000));
        assert_eq!(millis(" 1 s"), Some(1000));
        assert_eq!(millis("2min"), Some(120_000));
        assert_eq!(millis("1h"), Some(3_600_000));
        for wrong in ["", "1", "s", "-1s", "1.5s", "1 day", "99999999999999999999s", "9999999999999999999h"] {
            assert_eq!(millis(wrong), None, "{wrong}");
        }
        let shown = |millis| Interval(Duration::from_millis(millis)).to_string();
        assert_eq!((shown(500), shown(1000), shown(60_000)), ("500ms".into(), "1s".into(), "60s".into()));
    }
}
