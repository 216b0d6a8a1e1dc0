//! What the names in lines mean: those that everybody uses, and those that a table maps.

use serde::{Deserialize, Serialize};

use crate::meaning::Meaning;
use crate::registry::MAX_FIELD_NAME;

/// The key `fields`: what the parts that every event has are called in a table's lines. One that is named here has this
/// name only; the others have the usual ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct FieldNames {
    /// When it happened.
    pub time: Option<String>,
    /// How grave it is.
    pub severity: Option<String>,
    /// What is told.
    pub message: Option<String>,
    /// What kind of event it is.
    #[serde(rename = "type")]
    pub event_type: Option<String>,
}

impl FieldNames {
    /// Whether nothing is mapped.
    pub fn is_empty(&self) -> bool {
        *self == FieldNames::default()
    }

    /// Checks the names.
    ///
    /// # Errors
    /// What is wrong with one.
    pub fn validate(&self) -> Result<(), String> {
        let mut names: Vec<&str> = self.mapped().map(|(name, _)| name).collect();
        if let Some(name) = names.iter().find(|name| !(1..=MAX_FIELD_NAME).contains(&name.len())) {
            return Err(format!("{name:?} is no name: it has 1 to {MAX_FIELD_NAME} bytes"));
        }
        names.sort_unstable();
        match names.windows(2).find(|two| two[0] == two[1]) {
            Some(two) => Err(format!("{:?} cannot be two parts of an event", two[0])),
            None => Ok(()),
        }
    }

    fn mapped(&self) -> impl Iterator<Item = (&str, Meaning)> {
        let FieldNames { time, severity, message, event_type } = self;
        [
            (time, Meaning::Time),
            (severity, Meaning::Severity),
            (message, Meaning::Message),
            (event_type, Meaning::Type),
        ]
        .into_iter()
        .filter_map(|(name, meaning)| Some((name.as_deref()?, meaning)))
    }
}

/// What names mean in the lines of a table.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    mapped: Box<[(Box<[u8]>, Meaning)]>,
    /// None means more than itself.
    are_fields: bool,
}

impl Names {
    /// As a table says.
    pub(super) fn new(fields: &FieldNames) -> Names {
        let mapped = fields.mapped().map(|(name, meaning)| (name.as_bytes().into(), meaning));
        Names { mapped: mapped.collect(), are_fields: false }
    }

    /// Where all parts have been found before, and whatever has a name is a field.
    pub(super) fn of_fields() -> Names {
        Names { are_fields: true, ..Names::default() }
    }

    /// What a name means, those of nested objects joined by dots.
    #[inline]
    pub(super) fn meaning(&self, name: &[u8]) -> Meaning {
        if self.are_fields {
            return Meaning::Field;
        }
        let meaning = usual(name);
        if self.mapped.is_empty() {
            return meaning;
        }
        if let Some((_, meaning)) = self.mapped.iter().find(|(mapped, _)| **mapped == *name) {
            return *meaning;
        }
        let has_own = self.mapped.iter().any(|(_, mapped)| *mapped == meaning);
        if has_own { Meaning::Field } else { meaning }
    }

    /// Whether a name is only there for a time: under others there may be something else.
    pub(super) fn must_be_time(&self, name: &[u8]) -> bool {
        name == b"time" || !self.mapped.is_empty() && self.mapped.iter().any(|(mapped, _)| **mapped == *name)
    }
}

/// As on the ingest socket, and what loggers that write lines call these parts besides.
#[inline]
fn usual(name: &[u8]) -> Meaning {
    match name {
        b"ts" | b"timestamp" | b"@timestamp" => Meaning::Time,
        b"lvl" | b"log.level" => Meaning::Severity,
        _ => Meaning::of(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_names_take_the_place_of_the_usual_ones() {
        let fields = FieldNames { time: Some("when".into()), severity: Some("a.b".into()), ..<_>::default() };
        assert_eq!(fields.validate(), Ok(()));
        let names = Names::new(&fields);
        for (name, meaning) in [
            ("when", Meaning::Time),
            ("time", Meaning::Field),
            ("ts", Meaning::Field),
            ("a.b", Meaning::Severity),
            ("level", Meaning::Field),
            ("msg", Meaning::Message),
            ("type", Meaning::Type),
            ("else", Meaning::Field),
        ] {
            assert_eq!(names.meaning(name.as_bytes()), meaning, "{name}");
        }
        let twice = FieldNames { time: Some("x".into()), message: Some("x".into()), ..<_>::default() };
        assert_eq!(twice.validate(), Err("\"x\" cannot be two parts of an event".into()));
        let empty = FieldNames { time: Some(String::new()), ..<_>::default() };
        assert_eq!(empty.validate(), Err("\"\" is no name: it has 1 to 128 bytes".into()));
    }
}
