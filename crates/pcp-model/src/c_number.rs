//! Numbers as C reads and prints them: PCP's texts are those of `strtod(3)` and `printf(3)`.

use std::fmt::Write;

/// A number at the front of a text, as `strtod(3)` finds it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prefix<'a> {
    /// The number.
    pub value: f64,
    /// What follows it.
    pub rest: &'a [u8],
    /// It is too large for a double, or too small for a normal one (`ERANGE`).
    pub out_of_range: bool,
}

/// The number at the front of a text: white space, a sign, then decimal or hexadecimal digits with point
/// and exponent, `inf`, `infinity`, `nan` or `nan(...)` in any case. `None` if there is none.
pub fn parse_prefix(text: &[u8]) -> Option<Prefix<'_>> {
    let text = skip_white(text);
    let (negative, body) = match text.first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let special = |value, rest| Some(Prefix { value, rest, out_of_range: false });
    let found = if let Some(rest) = strip_word(body, b"infinity").or_else(|| strip_word(body, b"inf")) {
        special(f64::INFINITY, rest)
    } else if let Some(rest) = strip_word(body, b"nan") {
        special(f64::NAN, after_nan(rest))
    } else {
        let (value, rest, zero) = match hexadecimal(body) {
            Some(number) => number,
            None => decimal(body)?,
        };
        let out_of_range = value.is_infinite() || !zero && value < f64::MIN_POSITIVE;
        Some(Prefix { value, rest, out_of_range })
    };
    found.map(|found| Prefix { value: if negative { -found.value } else { found.value }, ..found })
}

/// `%.*g`: `precision` significant digits at most, no trailing zeros, with an exponent if that is below -4
/// or not below the precision.
pub fn general(value: f64, precision: usize) -> String {
    if !value.is_finite() {
        return special(value).to_owned();
    }
    let precision = precision.clamp(1, MOST_DIGITS);
    if let Some(number) = whole(value)
        && (number.checked_ilog10().unwrap_or(0) as usize) < precision
    {
        return format!("{}{number}", if value.is_sign_negative() { "-" } else { "" });
    }
    let mut text = format!("{value:.*e}", precision - 1);
    let (point, power) = cut_power(&mut text, 0);
    let is_scientific = power < -4 || power >= precision as i32;
    // The digits are those of either form: there only the point is elsewhere.
    if !is_scientific {
        if point < text.len() {
            text.remove(point);
        }
        let first = point - 1;
        match usize::try_from(power) {
            Ok(power) if power + 1 < precision => text.insert(first + 1 + power, '.'),
            Ok(_) => {}
            Err(_) => text.insert_str(first, &"0.000"[..1 + power.unsigned_abs() as usize]),
        }
    }
    if text.contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    if is_scientific {
        put_power(&mut text, power);
    }
    text
}

/// `%.*e`: one digit, point, `precision` digits, and an exponent of two digits at least.
pub fn exponential(value: f64, precision: usize) -> String {
    let mut text = String::new();
    put_exponential(&mut text, value, precision);
    text
}

/// Appends `%.*e`, as [`exponential`].
pub fn put_exponential(text: &mut String, value: f64, precision: usize) {
    if !value.is_finite() {
        return text.push_str(special(value));
    }
    let digits = precision.min(MOST_DIGITS);
    let start = text.len();
    let power = match whole(value) {
        Some(number) => put_whole_exponential(text, value.is_sign_negative(), number, digits),
        None => {
            put(text, format_args!("{value:.digits$e}"));
            cut_power(text, start).1
        }
    };
    text.extend(std::iter::repeat_n('0', precision - digits));
    put_power(text, power);
}

/// `%.*f`.
pub fn fixed(value: f64, precision: usize) -> String {
    let mut text = String::new();
    put_fixed(&mut text, value, precision);
    text
}

/// Appends `%.*f`, as [`fixed`].
pub fn put_fixed(text: &mut String, value: f64, precision: usize) {
    if !value.is_finite() {
        return text.push_str(special(value));
    }
    let digits = precision.min(MOST_DIGITS);
    match whole(value) {
        Some(number) => {
            let sign = if value.is_sign_negative() { "-" } else { "" };
            let point = if digits > 0 { "." } else { "" };
            put(text, format_args!("{sign}{number}{point}"));
            text.extend(std::iter::repeat_n('0', precision));
        }
        None => {
            put(text, format_args!("{value:.digits$}"));
            text.extend(std::iter::repeat_n('0', precision - digits));
        }
    }
}

/// The amount of a number without a fraction, as counters and most rates are, if doubles next to it are no further than 1 away.
/// Its digits need no search.
fn whole(value: f64) -> Option<u64> {
    const LARGEST: f64 = (1_u64 << f64::MANTISSA_DIGITS) as f64;
    let amount = value.abs();
    (amount < LARGEST && amount.trunc() == amount).then_some(amount as u64)
}

/// Puts a whole number's mantissa, rounded to even as `printf(3)` does, and gives its exponent.
fn put_whole_exponential(text: &mut String, is_negative: bool, number: u64, digits: usize) -> i32 {
    let mut power = number.checked_ilog10().unwrap_or(0);
    let mut kept = number;
    let dropped = power.saturating_sub(u32::try_from(digits).unwrap_or(u32::MAX));
    if dropped > 0 {
        let unit = 10_u64.pow(dropped);
        let (above, below) = (number / unit, number % unit);
        let rounds_up = 2 * below > unit || 2 * below == unit && above % 2 == 1;
        kept = above + u64::from(rounds_up);
        // All nines have become a one and zeros: one digit more, of which the last is not wanted.
        if kept.ilog10() > power - dropped {
            kept /= 10;
            power += 1;
        }
    }
    let start = text.len();
    put(text, format_args!("{}{kept}", if is_negative { "-" } else { "" }));
    let first = start + usize::from(is_negative) + 1;
    let written = text.len() - first;
    if digits > 0 {
        text.insert(first, '.');
    }
    text.extend(std::iter::repeat_n('0', digits - written));
    power as i32
}

fn put(text: &mut String, args: std::fmt::Arguments<'_>) {
    let written = text.write_fmt(args);
    debug_assert!(written.is_ok(), "a text takes all");
}

/// More digits than any double has: beyond are zeros. (`format!` panics from 65,536 on.)
const MOST_DIGITS: usize = 1100;

fn special(value: f64) -> &'static str {
    match (value.is_nan(), value.is_sign_negative()) {
        (true, false) => "nan",
        (true, true) => "-nan",
        (false, false) => "inf",
        (false, true) => "-inf",
    }
}

/// Takes the exponent off a number in the form of `{:e}`, which begins at `start`: where its point is, or would be, and the exponent.
fn cut_power(text: &mut String, start: usize) -> (usize, i32) {
    let number = text.get(start..).unwrap_or_default();
    let mantissa = number.find('e').unwrap_or(number.len());
    let power = number.get(mantissa + 1..).and_then(|power| power.parse().ok()).unwrap_or(0);
    let point = number.find('.').unwrap_or(mantissa);
    text.truncate(start + mantissa);
    (start + point, power)
}

/// An exponent as C has it: a sign, and two digits at least.
fn put_power(text: &mut String, power: i32) {
    let sign = if power < 0 { '-' } else { '+' };
    put(text, format_args!("e{sign}{:02}", power.unsigned_abs()));
}

/// The rest after white space as `isspace(3)` has it.
pub fn skip_white(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|&byte| !is_white(byte)).unwrap_or(text.len());
    &text[end..]
}

/// Whether `isspace(3)` holds.
pub fn is_white(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// The rest of `text` after `word` (any case).
pub fn strip_word<'a>(text: &'a [u8], word: &[u8]) -> Option<&'a [u8]> {
    let (head, rest) = text.split_at_checked(word.len())?;
    head.eq_ignore_ascii_case(word).then_some(rest)
}

/// The rest after the characters in parentheses that may follow `nan`.
fn after_nan(text: &[u8]) -> &[u8] {
    let inside = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    match text.strip_prefix(b"(") {
        Some(body) => {
            let end = body.iter().position(|byte| !inside(byte)).unwrap_or(body.len());
            body[end..].strip_prefix(b")").unwrap_or(text)
        }
        None => text,
    }
}

/// A decimal number, what follows it, and whether all of its digits are zeros.
fn decimal(text: &[u8]) -> Option<(f64, &[u8], bool)> {
    let digits = |from: usize| text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut end = digits(0);
    let mut count = end;
    if text.get(end) == Some(&b'.') {
        let fraction = digits(end + 1);
        count += fraction;
        end += 1 + fraction;
    }
    if count == 0 {
        return None;
    }
    let mantissa = end;
    if matches!(text.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
        let power = digits((end + 1 + sign).min(text.len()));
        if power > 0 {
            end += 1 + sign + power;
        }
    }
    let zero = text[..mantissa].iter().all(|byte| matches!(byte, b'0' | b'.'));
    let number = std::str::from_utf8(&text[..end]).ok()?.parse().ok()?;
    Some((number, &text[end..], zero))
}

/// `0x` with hexadecimal digits and an optional binary exponent.
fn hexadecimal(text: &[u8]) -> Option<(f64, &[u8], bool)> {
    let body = strip_word(text, b"0x")?;
    let (mut mantissa, mut power, mut any, mut point, mut end) = (0u64, 0i32, false, false, 0);
    for &byte in body {
        match char::from(byte).to_digit(16) {
            Some(digit) => {
                any = true;
                if mantissa >> 60 == 0 {
                    mantissa = mantissa << 4 | u64::from(digit);
                    power -= if point { 4 } else { 0 };
                } else {
                    // Beyond 60 bits only "something was there" matters for the rounding.
                    mantissa |= u64::from(digit != 0);
                    power = power.saturating_add(if point { 0 } else { 4 });
                }
            }
            None if byte == b'.' && !point => point = true,
            None => break,
        }
        end += 1;
    }
    if !any {
        return None;
    }
    let mut rest = &body[end..];
    if let Some(after) = strip_word(rest, b"p") {
        let (negative, digits) = match after.first() {
            Some(b'-') => (true, &after[1..]),
            Some(b'+') => (false, &after[1..]),
            _ => (false, after),
        };
        let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count > 0 {
            let exponent = digits[..count]
                .iter()
                .fold(0i32, |e, digit| e.saturating_mul(10).saturating_add(i32::from(digit - b'0')))
                .min(100_000);
            power = power.saturating_add(if negative { -exponent } else { exponent });
            rest = &digits[count..];
        }
    }
    // Two steps, so that neither factor overflows while the product does not.
    let half = power / 2;
    let number = mantissa as f64 * 2f64.powi(half) * 2f64.powi(power - half);
    Some((number, rest, mantissa == 0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn digits_are_those_of_printf() {
        for (value, g8, g16) in [
            (0.0, "0", "0"),
            (-0.0, "-0", "-0"),
            (100_000_000.0, "1e+08", "100000000"),
            (12_345_678.0, "12345678", "12345678"),
            (0.0001, "0.0001", "0.0001"),
            (0.000_01, "1e-05", "1e-05"),
            (0.1 + 0.2, "0.3", "0.3"),
            (99_999_999.5, "1e+08", "99999999.5"),
            (f64::MAX, "1.7976931e+308", "1.797693134862316e+308"),
            (f64::INFINITY, "inf", "inf"),
            (-f64::NAN, "-nan", "-nan"),
        ] {
            assert_eq!((general(value, 8).as_str(), general(value, 16).as_str()), (g8, g16));
        }
        assert_eq!(general(2.5, 1), "2");
        assert_eq!(general(0.5, 0), "0.5");
        assert_eq!(exponential(123_456.78, 6), "1.234568e+05");
        assert_eq!(exponential(0.0, 3), "0.000e+00");
        assert_eq!(exponential(1e-300, 0), "1e-300");
        assert_eq!(fixed(2.125, 2), "2.12");
        // The smallest double has the most digits.
        let least = f64::from_bits(1);
        assert_eq!(fixed(least, 70_000), fixed(least, 1074) + &"0".repeat(70_000 - 1074));
        assert_eq!(exponential(1.0, 70_000), format!("1.{}e+00", "0".repeat(70_000)));
        assert_eq!(general(0.1, 70_000), general(0.1, 60));
    }

    proptest! {
        /// Of whole numbers the digits are known, of others they are searched for; they are the same.
        #[test]
        fn whole_numbers_have_the_digits_of_others(
            number in prop_oneof![0_u64..1 << 53, 0_u64..100_000, (1_u32..16).prop_map(|power| 10_u64.pow(power) - 1)],
            zeros in 0_u32..9,
            half in any::<bool>(),
            digits in 0_usize..20,
            negative in any::<bool>(),
        ) {
            // Many end in zeros, or half way between two that do.
            let unit = 10_u64.pow(zeros);
            let number = number / unit * unit + if half { unit / 2 } else { 0 };
            let amount = number.min((1 << 53) - 1) as f64;
            let value = if negative { -amount } else { amount };
            prop_assert!(whole(value).is_some());
            let searched = format!("{value:.digits$e}");
            let (mantissa, power) = searched.split_once('e').expect("it has one");
            prop_assert_eq!(exponential(value, digits), format!("{mantissa}e+{power:0>2}"));
            prop_assert_eq!(fixed(value, digits), format!("{value:.digits$}"));
            let least = general(value, digits + 1);
            prop_assert_eq!(least.parse::<f64>().ok(), searched.parse().ok(), "{}", least);
        }

        /// C says what `%g` is by `%e` and `%f`: which of them, with how many digits, and no zeros at the end.
        #[test]
        fn general_is_one_of_the_other_forms(bits in any::<u64>(), near in -1e7..1e7, digits in 1_usize..18) {
            for value in [f64::from_bits(bits), near, near / 1e9, near.trunc()] {
                prop_assume!(value.is_finite());
                let scientific = exponential(value, digits - 1);
                let (mantissa, power) = scientific.split_once('e').expect("it is finite");
                let number: i32 = power.parse().expect("a number");
                let trimmed = |text: &str| match text.contains('.') {
                    true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
                    false => text.to_owned(),
                };
                let expected = match (-4..digits as i32).contains(&number) {
                    true => trimmed(&fixed(value, (digits as i32 - 1 - number).unsigned_abs() as usize)),
                    false => format!("{}e{power}", trimmed(mantissa)),
                };
                prop_assert_eq!(general(value, digits), expected, "{:?}", value);
            }
        }
    }

    #[test]
    fn prefixes_are_those_of_strtod() {
        for (text, value, rest) in [
            ("1e3x", 1000.0, "x"),
            (" +5m", 5.0, "m"),
            ("0x10", 16.0, ""),
            ("0x", 0.0, "x"),
            ("1e", 1.0, "e"),
            (".5.", 0.5, "."),
            ("-INFinite", f64::NEG_INFINITY, "inite"),
            ("infinity", f64::INFINITY, ""),
        ] {
            let found = parse_prefix(text.as_bytes()).unwrap();
            assert_eq!((found.value, found.rest, found.out_of_range), (value, rest.as_bytes(), false));
        }
        assert!(parse_prefix(b"nan(0x1)s").is_some_and(|found| found.value.is_nan() && found.rest == b"s"));
        assert!(parse_prefix(b"1e400").is_some_and(|found| found.out_of_range));
        for text in ["", " ", "-", ".", "x", "- 1", "+-1"] {
            assert_eq!(parse_prefix(text.as_bytes()), None, "{text}");
        }
    }
}
