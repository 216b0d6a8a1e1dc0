//! PCP's names, units and texts as Prometheus' text format and OpenMetrics have them: what is written once, and what is scraped.

use pcp_model::Units;

/// The name of a metric, or of a label with `_` for `joint`: letters, digits and `_`, not beginning with a digit. All else becomes `joint`.
pub fn name(name: &str, joint: char) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { joint };
    let first = if name.starts_with(|c: char| c.is_ascii_digit()) { "_" } else { "" };
    first.chars().chain(name.chars().map(legal)).collect()
}

/// The name of a metric's family in OpenMetrics: it ends with its unit, and without what the format puts behind it.
pub fn family_name(metric: &str, unit: Option<&str>) -> String {
    let mut name = name(metric, '_');
    for ending in ["_total", "_info"] {
        // The format's own, which comes back on the line of what it belongs to.
        if let Some(rest) = name.strip_suffix(ending) {
            name.truncate(rest.len());
        }
    }
    if let Some(unit) = unit
        && !name.ends_with(&format!("_{unit}"))
    {
        name.push('_');
        name.push_str(unit);
    }
    name
}

/// The unit that OpenMetrics has for times and sizes, and what values become it by, where that is not 1.
pub fn base_unit(units: Units) -> (Option<&'static str>, Option<f64>) {
    /// Seconds of nanoseconds to hours.
    const TIMES: [f64; 6] = [1e-9, 1e-6, 1e-3, 1.0, 60.0, 3600.0];
    let not_one = |factor: f64| (factor != 1.0).then_some(factor);
    match (units.dim_space, units.dim_time, units.dim_count) {
        (1, 0, 0) => (Some("bytes"), not_one(1024_f64.powi(units.scale_space.into()))),
        (0, 1, 0) => match TIMES.get(usize::from(units.scale_time)) {
            Some(factor) => (Some("seconds"), not_one(*factor)),
            None => (None, None),
        },
        _ => (None, None),
    }
}

/// Adds a text as it is written in HELP, or between quotes.
pub fn push_escaped(text: &str, quoted: bool, out: &mut String) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quoted => out.push_str("\\\""),
            c => out.push(c),
        }
    }
}

/// Adds labels in braces; nothing for none. Names have to be legal.
pub fn push_labels<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>, out: &mut String) {
    let mut before = '{';
    for (name, value) in labels {
        out.push(before);
        out.push_str(name);
        out.push_str("=\"");
        push_escaped(value, true, out);
        out.push('"');
        before = ',';
    }
    if before == ',' {
        out.push('}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_legal() {
        assert_eq!(name("kernel.all.cpu-user", '_'), "kernel_all_cpu_user");
        assert_eq!(name("sample.long_one", ':'), "sample:long_one");
        assert_eq!(name("3com.x", '_'), "_3com_x");
    }

    #[test]
    fn families_have_their_units() {
        assert_eq!(family_name("disk.dev.read_bytes", Some("bytes")), "disk_dev_read_bytes");
        assert_eq!(family_name("kernel.all.cpu.user", Some("seconds")), "kernel_all_cpu_user_seconds");
        assert_eq!(family_name("x.total", None), "x");
    }

    #[test]
    fn units_become_the_formats_own() {
        assert_eq!(base_unit(Units::MILLISECOND), (Some("seconds"), Some(1e-3)));
        assert_eq!(base_unit(Units::BYTE), (Some("bytes"), None));
        assert_eq!(base_unit(Units::dimension(1, 0, 0, 1, 0, 0)), (Some("bytes"), Some(1024.0)));
        assert_eq!(base_unit(Units::COUNT), (None, None));
        assert_eq!(base_unit(Units::dimension(1, -1, 0, 1, 3, 0)), (None, None));
    }

    #[test]
    fn texts_are_escaped() {
        let escaped = |text, quoted| {
            let mut out = String::new();
            push_escaped(text, quoted, &mut out);
            out
        };
        assert_eq!(escaped("a\"b\\c\nd", true), "a\\\"b\\\\c\\nd");
        assert_eq!(escaped("a\"b\\c\nd", false), "a\"b\\\\c\\nd");
        let mut out = String::new();
        push_labels([("a", "x\"y\\z\nü"), ("b", "")], &mut out);
        assert_eq!(out, "{a=\"x\\\"y\\\\z\\nü\",b=\"\"}");
        push_labels([], &mut out);
        assert_eq!(out, "{a=\"x\\\"y\\\\z\\nü\",b=\"\"}");
    }
}
