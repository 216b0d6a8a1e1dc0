//! Numbers with a point, in columns: four digits or so, whatever their size (`docs/pcp/tools.md` 5.6).

use pcp_model::c_number::{put_exponential, put_fixed};

/// Puts a number into a column, its blanks included: so that points are about below each other, numbers that take less
/// digits have blanks after them. `text` is memory to use, whatever is in it.
pub(super) fn put_real(value: f64, width: usize, text: &mut String, line: &mut Vec<u8>) {
    text.clear();
    let after = if value.is_nan() {
        text.push_str("nan.");
        4
    } else if value.is_infinite() {
        text.push_str(if value < 0.0 { "-INF" } else { "INF" });
        0
    } else if value == 0.0 {
        text.push_str(if value.is_sign_negative() { "-0.0" } else { "0.0" });
        3
    // Negative numbers, too: the bounds are those of PCP, which does not look at the sign apart.
    } else if !(0.1..=9_999.0).contains(&value) {
        put_exponential(text, value, 3);
        text.make_ascii_uppercase();
        0
    } else {
        let (digits, after) = match value {
            ..=0.9999 => (4, 0),
            ..=9.999 => (3, 1),
            ..=99.99 => (2, 2),
            ..=999.9 => (1, 3),
            _ => (0, 4),
        };
        put_fixed(text, value, digits);
        if digits == 0 {
            text.push('.');
        }
        after
    };
    put_right(text, width.saturating_sub(after), line);
    line.resize(line.len() + after, b' ');
}

/// Puts text that has no more than ASCII at the right of a column.
pub(super) fn put_right(text: &str, width: usize, line: &mut Vec<u8>) {
    line.resize(line.len() + width.saturating_sub(text.len()), b' ');
    line.extend_from_slice(text.as_bytes());
}

/// What stands in a column for the rate of a counter that has fallen.
pub(super) fn fallen(width: usize) -> String {
    format!("{:>width$}", '!')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn real(value: f64, width: usize) -> String {
        let mut line = Vec::new();
        put_real(value, width, &mut String::from("whatever"), &mut line);
        String::from_utf8(line).expect("digits and blanks")
    }

    #[test]
    fn sizes_have_their_forms() {
        for (value, text) in [
            (0.0, "      0.0   "),
            (1e-9, "   1.000E-09"),
            (0.1, "      0.1000"),
            (0.99991, "      1.000 "),
            (9.9991, "     10.00  "),
            (99.991, "    100.0   "),
            (999.91, "   1000.    "),
            (9999.1, "   9.999E+03"),
            (-0.5, "  -5.000E-01"),
            (f64::INFINITY, "         INF"),
            (f64::NEG_INFINITY, "        -INF"),
            (-0.0, "     -0.0   "),
        ] {
            assert_eq!(real(value, 12), text, "{value}");
        }
        assert_eq!(fallen(4), "   !");
        assert_eq!(real(f64::NAN, 9), " nan.    ");
    }
}
