//! Names, labels and numbers as Prometheus's formats have them.

use pcp_model::Number;

/// A name of letters, digits and `joint`, which stands for all else.
pub(super) fn name(name: &str, joint: char) -> String {
    let legal = |c: char| {
        if c.is_ascii_alphanumeric() {
            c
        } else if c == '_' {
            '_'
        } else {
            joint
        }
    };
    let first = if name.starts_with(|c: char| c.is_ascii_digit()) { "_" } else { "" };
    first.chars().chain(name.chars().map(legal)).collect()
}

/// The name of a label: dots become underscores (D10).
pub(super) fn label_name(text: &str) -> String {
    name(text, '_')
}

/// The value of a label: text without quotes, all else as JSON has it.
pub(super) fn label_value(json: &str) -> String {
    serde_json::from_str::<String>(json).unwrap_or_else(|_| json.to_owned())
}

/// Text as it is written in HELP, or in quotes: with `\\`, `\n` and, there, `\"`.
pub(super) fn escaped(text: &str, quoted: bool, out: &mut String) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quoted => out.push_str("\\\""),
            c => out.push(c),
        }
    }
}

/// Labels in braces; nothing for none.
pub(super) fn labels<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>, out: &mut String) {
    let mut before = '{';
    for (name, value) in labels {
        out.push(before);
        out.push_str(name);
        out.push_str("=\"");
        escaped(value, true, out);
        out.push('"');
        before = ',';
    }
    if before == ',' {
        out.push('}');
    }
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
        assert_eq!(name("kernel.all.cpu-user", '_'), "kernel_all_cpu_user");
        assert_eq!(name("sample.long_one", ':'), "sample:long_one");
        assert_eq!(name("3com.x", '_'), "_3com_x");
        assert_eq!(label_name("a.b"), "a_b");
        assert_eq!(label_value("\"a\\\"b\""), "a\"b");
        assert_eq!(label_value("44321"), "44321");
        let mut out = String::new();
        labels([("a", "x\"y\\z\nü"), ("b", "")].into_iter(), &mut out);
        assert_eq!(out, "{a=\"x\\\"y\\\\z\\nü\",b=\"\"}");
        assert_eq!(float(f64::NEG_INFINITY, |v| v.to_string()), "-Inf");
        assert_eq!(number(Number::U64(u64::MAX), |v| v.to_string()), "18446744073709551615");
    }
}
