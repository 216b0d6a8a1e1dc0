//! Durations as queries of Jaeger and Loki write them: `1.5s`, `1h30m`, `2d`.

const UNITS: [(&str, f64); 10] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
    ("d", 86400e9),
    ("w", 7.0 * 86400e9),
    ("y", 365.0 * 86400e9),
];

/// Nanoseconds; `None` for what is none, is negative, or more than there are in 64 bits.
pub(crate) fn duration(text: &str) -> Option<i64> {
    if text == "0" {
        return Some(0);
    }
    let (mut rest, mut sum) = (text, 0.0);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|&end| end > 0)?;
        let (number, behind) = rest.split_at(digits);
        let end = behind.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(end);
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
        sum += number.parse::<f64>().ok()? * factor;
        rest = behind;
    }
    (!text.is_empty() && sum < i64::MAX as f64).then_some(sum.round() as i64)
}

/// A duration as people write it: the largest unit that it is a whole number of, or three digits behind the point.
pub(crate) fn shown(nanos: i64) -> String {
    let nanos = nanos as f64;
    for (unit, factor) in [("s", 1e9), ("ms", 1e6), ("us", 1e3)] {
        if nanos.abs() >= factor {
            let text = format!("{:.3}", nanos / factor);
            return format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'));
        }
    }
    format!("{nanos}ns")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        for (text, expected) in [
            ("5m", Some(300_000_000_000)),
            ("1h30m", Some(5_400_000_000_000)),
            ("1.5s", Some(1_500_000_000)),
            ("100ms", Some(100_000_000)),
            ("7us", Some(7_000)),
            ("7µs", Some(7_000)),
            ("2d", Some(172_800_000_000_000)),
            ("0", Some(0)),
            ("", None),
            ("5", None),
            ("m", None),
            ("-5m", None),
            ("1..5s", None),
            ("5parsecs", None),
            ("1000y", None),
            ("5m ", None),
        ] {
            assert_eq!(duration(text), expected, "{text}");
        }
    }

    #[test]
    fn durations_are_shown() {
        assert_eq!(
            [1_500_000_000, 2_000_000, 1_234_567, 999, 0].map(shown),
            ["1.5s", "2ms", "1.235ms", "999ns", "0ns"]
        );
    }
}
