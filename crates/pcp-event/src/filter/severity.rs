//! The order of severities.

use jumpseat_wire::severity;

/// How grave an event is, by any spelling of its word. The later is the graver, `trace` the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Severity(severity::Severity);

/// The names for messages.
pub(super) const NAMES: &str = "trace, debug, info, notice, warn, error, critical, alert or emergency";

impl Severity {
    /// The severity that a text names, in any case.
    pub fn from_name(name: &[u8]) -> Option<Severity> {
        severity::Severity::from_word(name).map(Severity)
    }

    /// The name as filters are printed: the word that is stored, but for `warn`.
    pub const fn name(self) -> &'static str {
        match self.0 {
            // As short as people write it; printed filters and messages about them have always had it so.
            severity::Severity::Warning => "warn",
            other => other.word(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_aliases_and_order() {
        let order = ["trace", "debug", "info", "notice", "warn", "error", "critical", "alert", "emergency"];
        let ranks: Vec<Severity> =
            order.iter().map(|name| Severity::from_name(name.as_bytes()).unwrap()).collect();
        assert!(ranks.is_sorted_by(|a, b| a < b));
        assert!(ranks.iter().zip(order).all(|(rank, name)| rank.name() == name));
        for (alias, name) in [
            ("WARNING", "warn"),
            ("Err", "error"),
            ("crit", "critical"),
            ("FATAL", "critical"),
            ("emerg", "emergency"),
            ("panic", "emergency"),
        ] {
            assert_eq!(Severity::from_name(alias.as_bytes()).map(Severity::name), Some(name), "{alias}");
        }
        for other in ["", "warnings", "emergencyx", "5"] {
            assert_eq!(Severity::from_name(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn every_word_and_spelling_that_is_taken_in_can_be_filtered() {
        for word in severity::WORDS {
            assert!(Severity::from_name(word.as_bytes()).is_some(), "{word}");
            let printed = Severity::from_name(word.as_bytes()).map(Severity::name);
            assert!(printed.is_some_and(|name| NAMES.contains(name)), "{word}");
        }
        for (spelling, name) in [("severe", "error"), ("dbg", "debug"), ("verbose", "trace")] {
            assert_eq!(Severity::from_name(spelling.as_bytes()).map(Severity::name), Some(name));
        }
    }
}
