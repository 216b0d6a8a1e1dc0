//! Event records for people: what several commands say of a parameter in the same way.

use jumpseat_wire::severity;
use pcp_event::Param;

/// A parameter's value. Text goes through `text`, as lines differ in what they can show of it.
pub fn param_text(value: Param<'_>, text: impl FnOnce(&[u8]) -> String) -> String {
    match value {
        Param::I32(v) => v.to_string(),
        Param::U32(v) => v.to_string(),
        Param::I64(v) => v.to_string(),
        Param::U64(v) => v.to_string(),
        Param::Float(v) => v.to_string(),
        Param::Double(v) => v.to_string(),
        Param::String(bytes) => text(bytes),
        Param::Aggregate(bytes) => format!("[{} bytes]", bytes.len()),
    }
}

/// How much a record is to stand out among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emphasis {
    /// As all others.
    None,
    /// It deserves attention.
    Warning,
    /// Something went wrong.
    Error,
}

impl Emphasis {
    /// By a record's severity, in any spelling that jumpseat's ingest takes: records of other agents are not of one
    /// spelling.
    pub fn of(severity: &[u8]) -> Emphasis {
        match severity::from_word(severity) {
            Some("emergency" | "alert" | "critical" | "error") => Emphasis::Error,
            Some("warning" | "notice") => Emphasis::Warning,
            _ => Emphasis::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stored_severity_has_its_emphasis() {
        let emphasis = severity::WORDS.map(|word| Emphasis::of(word.as_bytes()));
        let counts = [Emphasis::Error, Emphasis::Warning, Emphasis::None]
            .map(|which| emphasis.iter().filter(|one| **one == which).count());
        // Most severe first, so that an order that does not hold shows in the counts of runs.
        assert_eq!(counts, [4, 2, 3]);
        assert_eq!(
            (emphasis[3], emphasis[4], emphasis[6]),
            (Emphasis::Error, Emphasis::Warning, Emphasis::None)
        );
        assert_eq!(Emphasis::of(b"WARN"), Emphasis::Warning);
        assert_eq!(Emphasis::of(b"loud"), Emphasis::None);
    }
}
