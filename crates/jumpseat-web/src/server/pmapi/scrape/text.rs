//! Labels and numbers as Prometheus's formats have them; the rest is in `jumpseat_tools::exposition`.

use jumpseat_tools::exposition::name;
use pcp_model::Number;

/// The name of a label: dots become underscores (D10).
pub(super) fn label_name(text: &str) -> String {
    name(text, '_')
}

/// The value of a label: text without quotes, all else as JSON has it.
pub(super) fn label_value(json: &str) -> String {
    serde_json::from_str::<String>(json).unwrap_or_else(|_| json.to_owned())
}

/// A floating-point number: as `finite` writes it, or the word for it (D9).
pub(super) fn float(value: f64, finite: impl FnOnce(f64) -> String) -> String {
    match value {
        v if v.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        v => finite(v),
    }
}

/// An integer with all its digits, a floating-point number as `finite` writes it.
pub(super) fn number(number: Number, finite: impl FnOnce(f64) -> String) -> String {
    match number {
        Number::I32(v) => v.to_string(),
        Number::U32(v) => v.to_string(),
        Number::I64(v) => v.to_string(),
        Number::U64(v) => v.to_string(),
        Number::Float(v) => float(v.into(), finite),
        Number::Double(v) => float(v, finite),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_are_legal() {
        assert_eq!(label_name("a.b"), "a_b");
        assert_eq!(label_value("\"a\\\"b\""), "a\"b");
        assert_eq!(label_value("44321"), "44321");
        assert_eq!(float(f64::NEG_INFINITY, |v| v.to_string()), "-Inf");
        assert_eq!(number(Number::U64(u64::MAX), |v| v.to_string()), "18446744073709551615");
    }
}
