//! Severities: the words of syslog, lower case, plus `trace`. What is stored, shown, filtered and documented is one of
//! [`WORDS`]; everything that reads severities from outside reads them here.

/// How grave an event is. The later is the graver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Finest detail.
    Trace,
    /// For developers.
    Debug,
    /// Normal operation.
    Info,
    /// Normal but significant.
    Notice,
    /// Something may go wrong.
    Warning,
    /// Something went wrong.
    Error,
    /// Something went wrong on which much depends.
    Critical,
    /// Somebody must act at once.
    Alert,
    /// Nothing works.
    Emergency,
}

/// The words, most severe first. Their index is the syslog number up to `debug`.
pub const WORDS: [&str; 9] =
    ["emergency", "alert", "critical", "error", "warning", "notice", "info", "debug", "trace"];

/// Longest spelling that [`Severity::from_word`] knows.
const LONGEST: usize = 13;

impl Severity {
    /// The usual spellings of a severity in any case, such as `WARN` or `err`. `None` for other words.
    #[inline]
    pub fn from_word(word: &[u8]) -> Option<Severity> {
        // Nearly all are in lower case.
        Severity::from_lower(word).or_else(|| Severity::from_mixed(word))
    }

    fn from_mixed(word: &[u8]) -> Option<Severity> {
        if word.len() > LONGEST {
            return None;
        }
        let mut lower = [0u8; LONGEST];
        let lower = &mut lower[..word.len()];
        lower.copy_from_slice(word);
        lower.make_ascii_lowercase();
        Severity::from_lower(lower)
    }

    #[inline]
    fn from_lower(word: &[u8]) -> Option<Severity> {
        Some(match word {
            b"emergency" | b"emerg" | b"panic" => Severity::Emergency,
            b"alert" => Severity::Alert,
            b"critical" | b"crit" | b"fatal" => Severity::Critical,
            b"error" | b"err" | b"severe" => Severity::Error,
            b"warning" | b"warn" => Severity::Warning,
            b"notice" => Severity::Notice,
            b"info" | b"information" | b"informational" => Severity::Info,
            b"debug" | b"dbg" | b"fine" => Severity::Debug,
            b"trace" | b"verbose" => Severity::Trace,
            _ => return None,
        })
    }

    /// A numeric severity: 0 to 7 as in syslog, or the tens 10 to 60 that pino and bunyan write.
    pub fn from_number(number: i64) -> Option<Severity> {
        Some(match number {
            0 => Severity::Emergency,
            1 => Severity::Alert,
            2 | 60 => Severity::Critical,
            3 | 50 => Severity::Error,
            4 | 40 => Severity::Warning,
            5 => Severity::Notice,
            6 | 30 => Severity::Info,
            7 | 20 => Severity::Debug,
            10 => Severity::Trace,
            _ => return None,
        })
    }

    /// A `SeverityNumber` of OpenTelemetry's log data model, of which there are four a word: 1 to 24.
    pub fn from_otlp(number: u64) -> Option<Severity> {
        Some(match number {
            1..=4 => Severity::Trace,
            5..=8 => Severity::Debug,
            9..=12 => Severity::Info,
            13..=16 => Severity::Warning,
            17..=20 => Severity::Error,
            21..=24 => Severity::Critical,
            _ => return None,
        })
    }

    /// The severity with a code of the binary framing: 1 to 9, most severe first.
    pub const fn from_code(code: u8) -> Option<Severity> {
        Some(match code {
            1 => Severity::Emergency,
            2 => Severity::Alert,
            3 => Severity::Critical,
            4 => Severity::Error,
            5 => Severity::Warning,
            6 => Severity::Notice,
            7 => Severity::Info,
            8 => Severity::Debug,
            9 => Severity::Trace,
            _ => return None,
        })
    }

    /// Its code in the binary framing.
    pub const fn code(self) -> u8 {
        9 - self as u8
    }

    /// The word for it, one of [`WORDS`].
    #[inline]
    pub const fn word(self) -> &'static str {
        WORDS[self.code() as usize - 1]
    }
}

/// The word of [`WORDS`] for a spelling that [`Severity::from_word`] knows.
pub fn from_word(word: &[u8]) -> Option<&'static str> {
    Severity::from_word(word).map(Severity::word)
}

/// The word of [`WORDS`] for a number that [`Severity::from_number`] knows.
pub fn from_number(number: i64) -> Option<&'static str> {
    Severity::from_number(number).map(Severity::word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_and_numbers() {
        for (word, expected) in [
            ("WARN", Some("warning")),
            ("Warning", Some("warning")),
            ("err", Some("error")),
            ("FATAL", Some("critical")),
            ("informational", Some("info")),
            ("loud", None),
            ("a word longer than any", None),
            ("", None),
        ] {
            assert_eq!(from_word(word.as_bytes()), expected, "{word}");
        }
        assert_eq!(from_number(0), Some("emergency"));
        assert_eq!(from_number(7), Some("debug"));
        assert_eq!(from_number(30), Some("info"));
        assert_eq!(from_number(8), None);
        assert_eq!(from_number(-1), None);
    }

    #[test]
    fn codes_words_and_order_are_one_list() {
        let by_code: Vec<Severity> = (0..=10).filter_map(Severity::from_code).collect();
        assert_eq!(by_code.iter().map(|severity| severity.word()).collect::<Vec<_>>(), WORDS);
        assert!(by_code.is_sorted_by(|graver, other| graver > other));
        for (index, severity) in by_code.into_iter().enumerate() {
            assert_eq!(usize::from(severity.code()), index + 1);
            assert_eq!(Severity::from_word(severity.word().as_bytes()), Some(severity));
            assert!(index > 7 || Severity::from_number(index as i64) == Some(severity));
        }
    }

    #[test]
    fn the_numbers_of_opentelemetry_are_four_a_word() {
        let words = (0..=25).map(|number| Severity::from_otlp(number).map_or("-", Severity::word));
        let mut words: Vec<&str> = words.collect();
        words.dedup();
        assert_eq!(words, ["-", "trace", "debug", "info", "warning", "error", "critical", "-"]);
    }
}
