//! Units of PCP as units of UCUM, as OpenTelemetry has them: `By/s`, `ms`, `{count}`.
//!
//! Dimensions with a positive power come first, joined with dots, then those with a negative one, each behind a slash. A scale of
//! counts is a factor in front (`10*3.{count}`). No dimension is `1`.

use pcp_model::Units;

const SPACE: [&str; 9] = ["By", "KiBy", "MiBy", "GiBy", "TiBy", "PiBy", "EiBy", "ZiBy", "YiBy"];
const TIME: [&str; 6] = ["ns", "us", "ms", "s", "min", "h"];
const COUNT: &str = "{count}";

/// The unit of UCUM for a metric's units.
pub fn ucum(units: Units) -> String {
    let word = |words: &'static [&'static str], scale: u8| words.get(usize::from(scale)).copied();
    let space = (units.dim_space, word(&SPACE, units.scale_space).unwrap_or("By"));
    let time = (units.dim_time, word(&TIME, units.scale_time).unwrap_or("s"));
    let all = [space, time, (units.dim_count, COUNT)];
    let mut text = String::new();
    if units.scale_count != 0 {
        text.push_str(&format!("10*{}", units.scale_count));
    }
    for (power, word) in all.into_iter().filter(|(power, _)| *power > 0) {
        if !text.is_empty() {
            text.push('.');
        }
        put(&mut text, word, power);
    }
    if text.is_empty() {
        text.push('1');
    }
    for (power, word) in all.into_iter().filter(|(power, _)| *power < 0) {
        text.push('/');
        put(&mut text, word, -power);
    }
    text
}

fn put(text: &mut String, word: &str, power: i8) {
    text.push_str(word);
    if power > 1 {
        text.push_str(&power.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_as_opentelemetry_writes_them() {
        for (units, expected) in [
            (Units::NONE, "1"),
            (Units::BYTE, "By"),
            (Units::dimension(1, 0, 0, 1, 0, 0), "KiBy"),
            (Units::dimension(1, -1, 0, 2, 3, 0), "MiBy/s"),
            (Units::COUNT, "{count}"),
            (Units::dimension(0, 0, 1, 0, 0, 3), "10*3.{count}"),
            (Units::dimension(0, -1, 1, 0, 3, 0), "{count}/s"),
            (Units::dimension(0, -1, 0, 0, 3, 0), "1/s"),
            (Units::MILLISECOND, "ms"),
            (Units::dimension(0, 2, 0, 0, 3, 0), "s2"),
            (Units::dimension(1, 1, -1, 0, 1, 0), "By.us/{count}"),
            (Units::dimension(1, 0, 0, 15, 0, 0), "By"),
        ] {
            assert_eq!(ucum(units), expected, "{units:?}");
        }
    }
}
