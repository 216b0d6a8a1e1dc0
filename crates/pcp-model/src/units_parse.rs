//! Text to units, as `pmParseUnitsStr(3)` does it (`docs/pcp/units.md` 6 and 14).

use super::Units;
use super::c_number::{is_white, parse_prefix, skip_white, strip_word};
use super::units_extra::ExtraUnit;

/// Why a text is not a units specification. The texts are those of PCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnitsParseError {
    /// Not a number and not a keyword that may stand here.
    #[error("unrecognized or duplicate base unit")]
    BaseUnit,
    /// A number that does not fit a double, or a sign or point without digits.
    #[error("invalid floating point literal")]
    Number,
    /// The power of space is not in -8..=7.
    #[error("space dimension out of bounds")]
    SpaceDimension,
    /// The power of time is not in -8..=7.
    #[error("time dimension out of bounds")]
    TimeDimension,
    /// The power of count is not in -8..=7.
    #[error("count dimension out of bounds")]
    CountDimension,
    /// A time scale without a length (`time-6` and above) would have to be converted to seconds.
    #[error("time scale out of bounds")]
    TimeScale,
    /// Two extra units side by side (PCP 7.2).
    #[error("multiple extra units not allowed")]
    MultipleExtra,
    /// An extra unit on both sides of the slash (PCP 7.2).
    #[error("extra units cannot appear in both dividend and divisor")]
    ExtraOnBothSides,
}

/// Which words [`Units::parse`] knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum UnitsVocabulary {
    /// Space, time and count: every PCP before 7.2.
    #[default]
    Classic,
    /// Also the extra units of PCP 7.2: temperature, voltage, current, power.
    Extra,
}

impl Units {
    /// The units a text such as `Kbyte / sec` stands for, and its multiplier: a value in these units
    /// times the multiplier is the number to show (`2 count` gives 0.5).
    ///
    /// # Errors
    /// What is wrong with the text; PCP returns `PM_ERR_CONV` with the same text.
    pub fn parse(text: &str, words: UnitsVocabulary) -> Result<(Units, f64), UnitsParseError> {
        let (dividend, divisor) = match text.split_once('/') {
            Some((dividend, divisor)) => (dividend, divisor),
            None => (text, ""),
        };
        let dividend = Part::parse(dividend, words)?;
        let divisor = Part::parse(divisor, words)?;
        combine(&dividend, &divisor)
    }
}

/// One dimension of a part: its power and scale.
#[derive(Clone, Copy, Default)]
struct Axis {
    power: i32,
    scale: i32,
}

/// Finds a keyword at the front of a text: its scale and the rest.
type KeywordTable = fn(&[u8]) -> Option<(i32, &[u8])>;

struct Part {
    space: Axis,
    time: Axis,
    count: Axis,
    extra: Option<ExtraUnit>,
    multiplier: f64,
}

impl Part {
    fn parse(text: &str, words: UnitsVocabulary) -> Result<Part, UnitsParseError> {
        let mut part = Part {
            space: Axis::default(),
            time: Axis::default(),
            count: Axis::default(),
            extra: None,
            multiplier: 1.0,
        };
        let mut rest = text.as_bytes();
        loop {
            rest = skip_white(rest);
            let Some(&first) = rest.first() else {
                return Ok(part);
            };
            if words == UnitsVocabulary::Extra
                && let Some((extra, after)) = ExtraUnit::parse_prefix(rest)
            {
                if part.extra.replace(extra).is_some() {
                    return Err(UnitsParseError::MultipleExtra);
                }
                rest = after;
            } else if matches!(first, b'-' | b'.' | b'0'..=b'9') {
                let (number, after) = match parse_prefix(rest) {
                    Some(found) if !found.out_of_range => (found.value, found.rest),
                    _ => return Err(UnitsParseError::Number),
                };
                part.multiplier *= number;
                rest = after;
            } else {
                rest = part.keyword(rest)?;
            }
        }
    }

    /// Takes one keyword with its exponent off the front of `text`.
    fn keyword<'a>(&mut self, text: &'a [u8]) -> Result<&'a [u8], UnitsParseError> {
        let tables: [(&mut Axis, KeywordTable); 3] = [
            (&mut self.time, time_keyword),
            (&mut self.space, space_keyword),
            (&mut self.count, count_keyword),
        ];
        for (axis, table) in tables {
            if axis.power != 0 {
                continue;
            }
            if let Some((scale, rest)) = table(text) {
                let (power, rest) = exponent(rest).ok_or(UnitsParseError::BaseUnit)?;
                *axis = Axis { power, scale };
                return Ok(rest);
            }
        }
        Err(UnitsParseError::BaseUnit)
    }
}

fn combine(dividend: &Part, divisor: &Part) -> Result<(Units, f64), UnitsParseError> {
    let dimension = |d: Axis, v: Axis, error| {
        i8::try_from(d.power - v.power).ok().filter(|dim| (-8..=7).contains(dim)).ok_or(error)
    };
    let dim_space = dimension(dividend.space, divisor.space, UnitsParseError::SpaceDimension)?;
    let dim_time = dimension(dividend.time, divisor.time, UnitsParseError::TimeDimension)?;
    let dim_count = dimension(dividend.count, divisor.count, UnitsParseError::CountDimension)?;
    let mut multiplier = divisor.multiplier / dividend.multiplier;
    // A dimension named on one side only keeps its scale; otherwise both sides are brought to a
    // canonical scale and the multiplier takes the difference.
    let mut scale = |d: Axis, v: Axis, dim: i8, canonical: i32, length: &dyn Fn(i32) -> Option<f64>| match (
        d.power != 0,
        v.power != 0,
    ) {
        (true, false) => Some(d.scale),
        (false, true) => Some(v.scale),
        _ => {
            multiplier *= length(d.scale)?.powf(f64::from(-d.power));
            multiplier *= length(v.scale)?.powf(f64::from(v.power));
            Some(if dim == 0 { 0 } else { canonical })
        }
    };
    let power_of = |base: f64| move |scale: i32| Some(base.powf(f64::from(scale)));
    let space = scale(dividend.space, divisor.space, dim_space, 0, &power_of(1024.0));
    let count = scale(dividend.count, divisor.count, dim_count, 0, &power_of(10.0));
    let time = scale(dividend.time, divisor.time, dim_time, 3, &|scale| {
        const SECONDS: [f64; 6] = [1e-9, 1e-6, 1e-3, 1.0, 60.0, 3600.0];
        SECONDS.get(usize::try_from(scale).ok()?).copied()
    });
    let extra = match (dividend.extra, divisor.extra) {
        (Some(_), Some(_)) => return Err(UnitsParseError::ExtraOnBothSides),
        (Some(extra), None) => extra.to_byte(),
        (None, Some(extra)) => extra.inverse().to_byte(),
        (None, None) => 0,
    };
    let time = time.ok_or(UnitsParseError::TimeScale)?;
    let units = Units {
        dim_space,
        dim_time,
        dim_count,
        // Keyword scales are 0..=15 (space, time) and -8..=7 (count).
        scale_space: space.unwrap_or_default() as u8,
        scale_time: time as u8,
        scale_count: count.unwrap_or_default() as i8,
        extra,
    };
    Ok((units, multiplier))
}

/// The rest after a keyword, which must end before white space, `^` or the end of the part.
fn strip_keyword<'a>(text: &'a [u8], word: &[u8]) -> Option<&'a [u8]> {
    strip_word(text, word).filter(|rest| rest.first().is_none_or(|&byte| byte == b'^' || is_white(byte)))
}

/// `prefix-0` to `prefix-15`, the spelling of scales that have no name.
fn numbered<'a>(text: &'a [u8], prefix: &[u8]) -> Option<(i32, &'a [u8])> {
    let rest = strip_word(text, prefix)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = decimal(&rest[..digits], 15)?;
    strip_keyword(rest, &rest[..digits]).map(|rest| (number, rest))
}

/// A number without superfluous zeros, at most `max`.
fn decimal(digits: &[u8], max: i32) -> Option<i32> {
    if digits.is_empty() || digits.len() > 2 || (digits.len() > 1 && digits[0] == b'0') {
        return None;
    }
    let number = digits.iter().fold(0, |number, digit| number * 10 + i32::from(digit - b'0'));
    (number <= max).then_some(number)
}

fn time_keyword(text: &[u8]) -> Option<(i32, &[u8])> {
    const WORDS: [(&str, i32); 20] = [
        ("nanoseconds", 0),
        ("nanosecond", 0),
        ("nanosec", 0),
        ("ns", 0),
        ("microseconds", 1),
        ("microsecond", 1),
        ("microsec", 1),
        ("us", 1),
        ("milliseconds", 2),
        ("millisecond", 2),
        ("millisec", 2),
        ("ms", 2),
        ("seconds", 3),
        ("second", 3),
        ("sec", 3),
        ("s", 3),
        ("minutes", 4),
        ("minute", 4),
        ("min", 4),
        ("h", 5),
    ];
    const HOURS: [(&str, i32); 3] = [("hours", 5), ("hour", 5), ("hr", 5)];
    HOURS
        .iter()
        .chain(&WORDS)
        .find_map(|&(word, scale)| strip_keyword(text, word.as_bytes()).map(|rest| (scale, rest)))
        .or_else(|| numbered(text, b"time-"))
}

fn space_keyword(text: &[u8]) -> Option<(i32, &[u8])> {
    /// Letter, binary prefix, decimal prefix: Kbyte, KB, KiB, Kibibyte and Kilobyte are all the same.
    const PREFIXES: [(&str, &str, &str); 8] = [
        ("k", "kibi", "kilo"),
        ("m", "mebi", "mega"),
        ("g", "gibi", "giga"),
        ("t", "tebi", "tera"),
        ("p", "pebi", "peta"),
        ("e", "exbi", "exa"),
        ("z", "zebi", "zetta"),
        ("y", "yobi", "yotta"),
    ];
    let bytes = |text| strip_keyword(text, b"bytes").or_else(|| strip_keyword(text, b"byte"));
    if let Some(rest) = bytes(text) {
        return Some((0, rest));
    }
    for ((letter, binary, decimal), scale) in PREFIXES.iter().zip(1..) {
        let Some(after_letter) = strip_word(text, letter.as_bytes()) else {
            continue;
        };
        let long = |prefix: &str| strip_word(text, prefix.as_bytes()).and_then(bytes);
        let rest = strip_keyword(after_letter, b"b")
            .or_else(|| strip_keyword(after_letter, b"ib"))
            .or_else(|| bytes(after_letter))
            .or_else(|| long(binary))
            .or_else(|| long(decimal));
        if let Some(rest) = rest {
            return Some((scale, rest));
        }
    }
    numbered(text, b"space-")
}

fn count_keyword(text: &[u8]) -> Option<(i32, &[u8])> {
    if let Some(rest) = strip_word(text, b"count x 10") {
        if let Some(power) = rest.strip_prefix(b"^") {
            let scaled = match power.strip_prefix(b"-") {
                Some(power) => single_digit(power, 1, 8).map(|(n, rest)| (-n, rest)),
                None => single_digit(power, 2, 7),
            };
            if let Some((scale, rest)) = scaled
                && strip_keyword(rest, b"").is_some()
            {
                return Some((scale, rest));
            }
        }
        if let Some(rest) = strip_keyword(rest, b"") {
            return Some((1, rest));
        }
    }
    strip_keyword(text, b"counts").or_else(|| strip_keyword(text, b"count")).map(|rest| (0, rest))
}

fn single_digit(text: &[u8], min: i32, max: i32) -> Option<(i32, &[u8])> {
    let (&first, rest) = text.split_first()?;
    let digit = i32::from(first.checked_sub(b'0')?);
    (min..=max).contains(&digit).then_some((digit, rest))
}

/// The exponent after a keyword (1 if there is none) and the rest.
fn exponent(text: &[u8]) -> Option<(i32, &[u8])> {
    let Some(rest) = text.strip_prefix(b"^") else {
        return Some((1, text));
    };
    let (negative, rest) = match rest.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = rest.split_at(digits);
    let number = decimal(digits, if negative { 8 } else { 15 })?;
    if negative && number == 0 || rest.first().is_some_and(|&byte| !is_white(byte)) {
        return None;
    }
    Some((if negative { -number } else { number }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<(u32, f64), UnitsParseError>) {
        let found = Units::parse(text, UnitsVocabulary::Extra).map(|(units, mult)| (units.to_word(), mult));
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn words_numbers_and_exponents() {
        check("Kbyte / sec", Ok((0x1f01_3000, 1.0)));
        check("2 count", Ok((0x0010_0000, 0.5)));
        check("0x1p4 byte", Ok((0x1000_0000, 0.0625)));
        check("1ebyte", Ok((0x1006_0000, 1.0)));
        check("count x 10^3^-1", Ok((0x00f0_0300, 1.0)));
        check("sec^0 min", Ok((0x0100_4000, 1.0)));
        check("power (kW)hour", Ok((0x0100_5021, 1.0)));
        check("/ temperature (C)", Ok((0x0000_00f9, 1.0)));
        check("sec^16", Err(UnitsParseError::BaseUnit));
        check("byte^8", Err(UnitsParseError::SpaceDimension));
        check("time-6 / sec", Err(UnitsParseError::TimeScale));
        check("- 2 sec", Err(UnitsParseError::Number));
        check("1e309 byte", Err(UnitsParseError::Number));
        check("power (W) foo", Err(UnitsParseError::BaseUnit));
    }
}
