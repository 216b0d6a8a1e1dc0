//! The words for severities in messages; what they mean and their order is [`jumpseat_wire::severity`]'s.

/// The words, least severe first.
pub(super) const NAMES: &str = "trace, debug, info, notice, warning, error, critical, alert or emergency";

/// The one that was meant, if there is one near.
pub(super) fn hint(word: &str) -> String {
    let word = word.trim_matches(|c| matches!(c, '\'' | '"'));
    let near = pcp_model::text::nearest(word, jumpseat_wire::severity::WORDS);
    near.map_or_else(String::new, |near| format!("; did you mean {near}?"))
}

#[cfg(test)]
mod tests {
    use jumpseat_wire::severity::{Severity, WORDS};

    use super::*;

    #[test]
    fn messages_name_the_words_that_are_stored_in_their_order() {
        let mut words: Vec<&str> = WORDS.to_vec();
        words.reverse();
        let (last, others) = words.split_last().unwrap();
        assert_eq!(NAMES, format!("{} or {last}", others.join(", ")));
    }

    #[test]
    fn names_aliases_and_order() {
        let order = ["trace", "debug", "info", "notice", "warn", "error", "critical", "alert", "emergency"];
        let ranks: Vec<Severity> =
            order.iter().map(|name| Severity::from_word(name.as_bytes()).unwrap()).collect();
        assert!(ranks.is_sorted_by(|a, b| a < b));
        for (alias, word) in [
            ("WARNING", "warning"),
            ("warn", "warning"),
            ("Err", "error"),
            ("severe", "error"),
            ("crit", "critical"),
            ("FATAL", "critical"),
            ("emerg", "emergency"),
            ("panic", "emergency"),
            ("dbg", "debug"),
            ("verbose", "trace"),
        ] {
            assert_eq!(Severity::from_word(alias.as_bytes()).map(Severity::word), Some(word), "{alias}");
        }
        for other in ["", "warnings", "emergencyx", "5"] {
            assert_eq!(Severity::from_word(other.as_bytes()), None, "{other}");
        }
    }
}
