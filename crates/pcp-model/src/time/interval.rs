//! Intervals: `pmParseInterval(3)` (`docs/pcp/tools.md` 2.1).

use std::time::Duration;

use super::TimeError;
use crate::c_number::{parse_prefix, skip_white};

/// The time a text such as `1 hour 30 min` stands for: numbers with units, added up; a number without a
/// unit is of seconds. Unlike PCP it refuses `nan`, and numbers of 2^63 seconds and more everywhere.
///
/// # Errors
/// Where the text is wrong, in the words of PCP.
pub fn parse_interval(text: &str) -> Result<Duration, TimeError> {
    parse(text).map_err(|at| match text {
        "" => TimeError { text: String::new(), at, what: "Null or empty specification" },
        _ => TimeError::unexpected(text, at),
    })
}

/// The interval, or the place where the text is wrong.
fn parse(text: &str) -> Result<Duration, usize> {
    if text.is_empty() {
        return Err(0);
    }
    let (bytes, mut total) = (text.as_bytes(), 0.0);
    let mut rest = skip_white(bytes);
    while !rest.is_empty() {
        let at = bytes.len() - rest.len();
        let number = parse_prefix(rest).filter(|found| (0.0..LIMIT).contains(&found.value)).ok_or(at)?;
        rest = skip_white(number.rest);
        let at = bytes.len() - rest.len();
        let letters = rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let (word, after) = rest.split_at(letters);
        let unit = if word.is_empty() { Unit::Times(1.0) } else { unit(word).ok_or(at)? };
        total += match unit {
            Unit::Times(seconds) => number.value * seconds,
            Unit::Parts(parts) => number.value / parts,
        };
        if total >= LIMIT {
            return Err(at);
        }
        rest = skip_white(after);
    }
    // The digits are exact, a product with 1e9 would be rounded twice.
    let digits = format!("{total:.9}");
    let (seconds, nanos) = digits.split_once('.').unwrap_or((&digits, "0"));
    Ok(Duration::new(seconds.parse().unwrap_or(0), nanos.parse().unwrap_or(0)))
}

/// Seconds from which on they do not fit a `time_t`.
const LIMIT: f64 = 9_223_372_036_854_775_808.0;

#[derive(Clone, Copy)]
enum Unit {
    /// So many seconds.
    Times(f64),
    /// The second has so many.
    Parts(f64),
}

/// A unit in any case, with or without one plural `s`. So `ms` is `m`: minutes.
fn unit(word: &[u8]) -> Option<Unit> {
    const UNITS: [(&[u8], Unit); 17] = [
        (b"nanosecond", Unit::Parts(1e9)),
        (b"nsec", Unit::Parts(1e9)),
        (b"microsecond", Unit::Parts(1e6)),
        (b"usec", Unit::Parts(1e6)),
        (b"millisecond", Unit::Parts(1e3)),
        (b"msec", Unit::Parts(1e3)),
        (b"second", Unit::Times(1.0)),
        (b"sec", Unit::Times(1.0)),
        (b"s", Unit::Times(1.0)),
        (b"minute", Unit::Times(60.0)),
        (b"min", Unit::Times(60.0)),
        (b"m", Unit::Times(60.0)),
        (b"hour", Unit::Times(3_600.0)),
        (b"hr", Unit::Times(3_600.0)),
        (b"h", Unit::Times(3_600.0)),
        (b"day", Unit::Times(86_400.0)),
        (b"d", Unit::Times(86_400.0)),
    ];
    let singular = match word {
        [stem @ .., b's' | b'S'] if !stem.is_empty() => stem,
        _ => word,
    };
    UNITS.iter().find(|(name, _)| singular.eq_ignore_ascii_case(name)).map(|&(_, unit)| unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_of_the_manual() {
        for (text, nanos) in [
            ("1.5", 1_500_000_000),
            ("1sec5msec", 1_005_000_000),
            ("2m", 120_000_000_000),
            ("5M", 300_000_000_000),
            ("1ms", 60_000_000_000),
            ("1 d", 86_400_000_000_000),
            ("1 min 2", 62_000_000_000),
            ("0x10", 16_000_000_000),
            ("1nsec", 1),
            (" ", 0),
        ] {
            assert_eq!(parse_interval(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn errors_point_at_the_place() {
        assert_eq!(parse_interval("5 foo").unwrap_err().to_string(), "5 foo\n  ^ -- unexpected value\n");
        assert_eq!(parse_interval("").unwrap_err().to_string(), "\n^ -- Null or empty specification\n");
        assert_eq!(parse_interval("nan").unwrap_err().at, 0);
        assert_eq!(parse_interval("1 m s").unwrap_err().at, 4);
    }
}
