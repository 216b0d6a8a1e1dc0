//! Numbers with a point, in columns: four digits or so, whatever their size (`docs/pcp/tools.md` 5.6).

use pcp_model::c_number::{exponential, fixed};

/// Puts a number into a column, its blanks included: so that points are about below each other, numbers that take less
/// digits have blanks after them.
pub(super) fn put_real(value: f64, width: usize, line: &mut Vec<u8>) {
    let (digits, after) = if value.is_nan() {
        ("nan.".to_owned(), 4)
    } else if value.is_infinite() {
        (if value < 0.0 { "-INF" } else { "INF" }.to_owned(), 0)
    } else if value == 0.0 {
        (if value.is_sign_negative() { "-0.0" } else { "0.0" }.to_owned(), 3)
    // Negative numbers, too: the bounds are those of PCP, which does not look at the sign apart.
    } else if !(0.1..=9_999.0).contains(&value) {
        (upper(value), 0)
    } else if value <= 0.9999 {
        (fixed(value, 4), 0)
    } else if value <= 9.999 {
        (fixed(value, 3), 1)
    } else if value <= 99.99 {
        (fixed(value, 2), 2)
    } else if value <= 999.9 {
        (fixed(value, 1), 3)
    } else {
        (fixed(value, 0) + ".", 4)
    };
    put_right(&digits, width.saturating_sub(after), line);
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

/// `%.3E`.
fn upper(value: f64) -> String {
    let mut text = exponential(value, 3);
    text.make_ascii_uppercase();
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn real(value: f64, width: usize) -> String {
        let mut line = Vec::new();
        put_real(value, width, &mut line);
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
