//! What values of a metric become on a screen, a terminal's or a page's: rates per second, base units, short numbers.
//!
//! Rates are those of `pmval(1)`: the difference of two values over the time between them; of counters of time
//! it is the utilization, shown in percent. Every number is at most [`WIDTH`] columns wide.

use pcp_model::{Conversion, Desc, Semantics, Units, UnitsVocabulary, ValueType};

/// Most columns that a number takes.
pub const WIDTH: usize = 7;

/// How the values of a metric are shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// Values are shown as their rate of change.
    pub rate: bool,
    /// The unit of what is shown.
    pub unit: String,
    /// Whether values of instances add up to something.
    pub additive: bool,
    /// How numbers are written.
    pub style: Style,
    /// Whether they are whole ones.
    pub whole: bool,
    conversion: Option<Conversion>,
}

/// How a number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// With k, M, G, ... for powers of 1000.
    Decimal,
    /// With K, M, G, ... for powers of 1024.
    Binary,
    /// Seconds as a duration.
    Duration,
    /// 1 is 100%.
    Percent,
}

impl Measure {
    /// How values of a metric with this descriptor are shown.
    pub fn of(desc: &Desc) -> Measure {
        let is_event = matches!(desc.value_type, ValueType::Event | ValueType::HighResEvent);
        let base = Units { scale_space: 0, scale_time: 3, scale_count: 0, ..desc.units };
        // Scales that have no length are shown in the metric's own unit.
        let conversion = Conversion::new(desc.units, base, UnitsVocabulary::Extra).ok();
        let rate = desc.semantics == Semantics::Counter;
        let mut units = if conversion.is_some() { base } else { desc.units };
        // A second less in the dimension of time: bytes become bytes per second, milliseconds a share.
        if rate {
            units.scale_time = 3;
            units.dim_time = units.dim_time.saturating_sub(1);
        }
        // No dimension is left: time over time, the share of it that was spent.
        let none = (units.dim_space, units.dim_time, units.dim_count) == (0, 0, 0);
        let style = match units {
            _ if none && rate => Style::Percent,
            Units { dim_space: 1, .. } if conversion.is_some() => Style::Binary,
            Units { dim_space: 0, dim_time: 1, dim_count: 0, .. } if conversion.is_some() => Style::Duration,
            _ => Style::Decimal,
        };
        let unit = match style {
            _ if is_event => "event / sec".to_owned(),
            Style::Percent => "util".to_owned(),
            Style::Duration => "time".to_owned(),
            _ => units.to_string(),
        };
        let whole =
            matches!(desc.value_type, ValueType::I32 | ValueType::U32 | ValueType::I64 | ValueType::U64);
        // Sizes and numbers of things, not sizes of a thing.
        let things = matches!((desc.units.dim_space, desc.units.dim_count), (1, 0) | (0, 1));
        let additive = rate || is_event || things;
        Measure { rate, unit, additive, style, whole: whole && !rate, conversion }
    }

    /// A value in the unit that is shown.
    pub fn convert(&self, value: f64) -> f64 {
        self.conversion.map_or(value, |conversion| conversion.f64(value))
    }

    /// A number, without its unit.
    pub fn text(&self, value: f64) -> String {
        match self.style {
            _ if !value.is_finite() => if value.is_nan() { "nan" } else { "inf" }.to_owned(),
            Style::Decimal => scaled(value, 1000.0, "kMGTPEZY", self.whole),
            Style::Binary => scaled(value, 1024.0, "KMGTPEZY", self.whole),
            Style::Duration => duration(value),
            Style::Percent if value.abs() < 1000.0 => digits(value * 100.0) + "%",
            Style::Percent => scaled(value * 100.0, 1000.0, "kMGTPEZY", false) + "%",
        }
    }
}

/// A number that has no unit.
pub fn plain(value: f64) -> String {
    scaled(value, 1000.0, "kMGTPEZY", false)
}

/// Three significant digits; more before the point if there are more.
fn digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        small if small < 0.000_5 => format!("{value:.0e}"),
        less if less < 0.099_5 => format!("{value:.3}"),
        units if units < 9.995 => format!("{value:.2}"),
        tens if tens < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn scaled(value: f64, step: f64, suffixes: &str, whole: bool) -> String {
    if value.abs() < if step == 1000.0 { 9999.5 } else { 1023.5 } {
        return if whole && value.fract() == 0.0 { format!("{value:.0}") } else { digits(value) };
    }
    // The limit is where rounding to three digits would carry into a fourth.
    let mut scaled = value;
    for suffix in suffixes.chars() {
        scaled /= step;
        if scaled.abs() < step - 0.5 {
            return format!("{}{suffix}", digits(scaled));
        }
    }
    format!("{value:.0e}")
}

/// A time in three digits with a unit, longer ones in two units.
pub fn duration(seconds: f64) -> String {
    const MINUTE: f64 = 60.0;
    const HOUR: f64 = 3_600.0;
    const DAY: f64 = 86_400.0;
    let pair = |large: f64, small: f64, words: (&str, &str)| {
        // Rounded down, so that 59.9 seconds do not become sixty of them.
        let whole = (seconds.abs() / small).floor();
        let parts = large / small;
        let sign = if seconds < 0.0 { "-" } else { "" };
        format!("{sign}{:.0}{}{:02.0}{}", (whole / parts).floor(), words.0, whole % parts, words.1)
    };
    match seconds.abs() {
        nothing if nothing < 0.099_5e-9 => "0".to_owned(),
        nano if nano < 0.999_5e-6 => digits(seconds * 1e9) + "ns",
        micro if micro < 0.999_5e-3 => digits(seconds * 1e6) + "us",
        milli if milli < 0.999_5 => digits(seconds * 1e3) + "ms",
        second if second < MINUTE => digits(seconds) + "s",
        minute if minute < HOUR => pair(MINUTE, 1.0, ("m", "s")),
        hour if hour < DAY => pair(HOUR, MINUTE, ("h", "m")),
        day if day < 100.0 * DAY => pair(DAY, HOUR, ("d", "h")),
        long if long < 1e5 * DAY => format!("{:.0}d", seconds / DAY),
        _ => format!("{:.0e}d", seconds / DAY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcp_model::{InDom, Pmid};

    fn desc(semantics: Semantics, units: u32, value_type: ValueType) -> Desc {
        let units = Units::from_word(units);
        Desc { pmid: Pmid(1), value_type, indom: InDom::NULL, semantics, units }
    }

    #[test]
    fn counters_become_rates_in_base_units() {
        let check = |units: u32, unit: &str, value: f64, text: &str| {
            let measure = Measure::of(&desc(Semantics::Counter, units, ValueType::U64));
            assert!(measure.rate && measure.additive);
            assert_eq!((&*measure.unit, &*measure.text(measure.convert(value))), (unit, text));
        };
        check(0x0010_0000, "count / sec", 3.0, "3.00");
        check(0x1001_0000, "byte / sec", 1.5, "1.50K");
        check(0x0100_2000, "util", 421.0, "42.1%");
        check(0x0100_0000, "util", 2e9, "200%");
        check(0, "/ sec", 12.0, "12.0");
    }

    #[test]
    fn readings_stay_what_they_are() {
        let check = |units: u32, unit: &str, value: f64, text: &str| {
            let measure = Measure::of(&desc(Semantics::Instant, units, ValueType::U32));
            assert!(!measure.rate);
            assert_eq!((&*measure.unit, &*measure.text(measure.convert(value))), (unit, text));
        };
        check(0, "", 7.0, "7");
        check(0, "", 123_456.0, "123k");
        check(0x1001_0000, "byte", 3_145_728.0, "3.00G");
        check(0x0100_3000, "time", 93_784.0, "1d02h");
        check(0x0100_1000, "time", 12.5, "12.5us");
        check(0x1001_f000, "byte", 1.0, "1.00K");
        check(0x0f10_5600, "count / sec", 36.0, "10.0k");
        // A scale that has no length is left alone.
        check(0x100f_0000, "space-15", 5.0, "5");
    }

    #[test]
    fn only_what_adds_up_is_added() {
        let additive =
            |semantics, units: u32| Measure::of(&desc(semantics, units, ValueType::Double)).additive;
        assert!(additive(Semantics::Counter, 0x0100_2000) && additive(Semantics::Instant, 0x1000_0000));
        assert!(additive(Semantics::Instant, 0x1f00_3000) && additive(Semantics::Instant, 0x0010_0000));
        assert!(!additive(Semantics::Instant, 0) && !additive(Semantics::Instant, 0x10f0_0000));
    }

    #[test]
    fn numbers_are_never_wider_than_their_column() {
        for semantics in [Semantics::Counter, Semantics::Instant] {
            for units in [0, 0x1000_0000, 0x0100_3000, 0x0010_0000] {
                let measure = Measure::of(&desc(semantics, units, ValueType::Double));
                let mut value = 1e-30;
                while value < 1e40 {
                    for factor in [1.0, 0.999_6, 0.999_4, 1.023_4, 5.996, -1.0, -0.099_96] {
                        let text = measure.text(value * factor);
                        assert!(text.len() <= WIDTH, "{text} of {} is too wide", value * factor);
                    }
                    value *= 1.7;
                }
            }
        }
    }

    #[test]
    fn durations_are_readable() {
        let texts = [59.99, 61.0, 3_599.9, 3_600.0, 86_399.0, 8.64e6 - 1.0, 1e8, -90.0].map(duration);
        assert_eq!(texts, ["60.0s", "1m01s", "59m59s", "1h00m", "23h59m", "99d23h", "1157d", "-1m30s"]);
    }
}
