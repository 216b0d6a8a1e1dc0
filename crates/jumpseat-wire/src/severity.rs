//! Severities: the words of syslog, lower case, plus `trace`.

/// The words, most severe first. Their index is the syslog number up to `debug`.
pub const WORDS: [&str; 9] =
    ["emergency", "alert", "critical", "error", "warning", "notice", "info", "debug", "trace"];

/// Longest spelling that [`from_word`] knows.
const LONGEST: usize = 13;

/// The usual spellings of a severity in any case, such as `WARN` or `err`. `None` for other words.
pub fn from_word(word: &[u8]) -> Option<&'static str> {
    if word.len() > LONGEST {
        return None;
    }
    let mut lower = [0u8; LONGEST];
    let lower = &mut lower[..word.len()];
    lower.copy_from_slice(word);
    lower.make_ascii_lowercase();
    let number = match &*lower {
        b"emergency" | b"emerg" | b"panic" => 0,
        b"alert" => 1,
        b"critical" | b"crit" | b"fatal" => 2,
        b"error" | b"err" | b"severe" => 3,
        b"warning" | b"warn" => 4,
        b"notice" => 5,
        b"info" | b"information" | b"informational" => 6,
        b"debug" | b"dbg" | b"fine" => 7,
        b"trace" | b"verbose" => 8,
        _ => return None,
    };
    Some(WORDS[number])
}

/// A numeric severity: 0 to 7 as in syslog, or the tens 10 to 60 that pino and bunyan write.
pub fn from_number(number: i64) -> Option<&'static str> {
    Some(match number {
        0..=7 => WORDS[number as usize],
        10 => "trace",
        20 => "debug",
        30 => "info",
        40 => "warning",
        50 => "error",
        60 => "critical",
        _ => return None,
    })
}

/// The word for a `SeverityNumber` of OpenTelemetry's log data model, of which there are four a word: 1 to 24.
pub fn from_otlp(number: u64) -> Option<&'static str> {
    Some(match number {
        1..=4 => "trace",
        5..=8 => "debug",
        9..=12 => "info",
        13..=16 => "warning",
        17..=20 => "error",
        21..=24 => "critical",
        _ => return None,
    })
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
}
