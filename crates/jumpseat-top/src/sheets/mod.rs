//! The tables of the views, made of the model. No screen: what is made here is drawn, or exported.

mod errors;
mod events;
mod flame;
mod metrics;
mod spans;
mod traces;

pub(crate) use errors::errors;
pub(crate) use events::{details, events};
pub(crate) use flame::flame;
pub(crate) use metrics::metrics;
pub(crate) use spans::{examples, histogram, spans};
pub(crate) use traces::{fields, traces, waterfall};

use pcp_model::Timestamp;
use pcp_model::time::Zone;

/// A span's duration, in three digits with a unit.
fn duration(seconds: f64) -> String {
    let (value, unit) = match seconds.abs() {
        0.0 => return "0".to_owned(),
        s if s < 999.5e-9 => (seconds * 1e9, "ns"),
        s if s < 999.5e-6 => (seconds * 1e6, "us"),
        s if s < 999.5e-3 => (seconds * 1e3, "ms"),
        _ => (seconds, "s"),
    };
    let digits = if value.abs() < 9.995 { 2 } else { usize::from(value.abs() < 99.95) };
    format!("{value:.digits$}{unit}")
}

/// A time of day, to the millisecond.
fn clock(zone: &Zone, time: Timestamp) -> String {
    zone.clock(time, 3)
}

/// Fields as one text.
fn joined<'a>(fields: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    fields.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_have_three_digits_and_a_unit() {
        let shown = [0.0, 5e-8, 1.5e-5, 0.0999, 0.25, 1.0, 75.25, 3600.0].map(duration);
        assert_eq!(shown, ["0", "50.0ns", "15.0us", "99.9ms", "250ms", "1.00s", "75.2s", "3600s"]);
    }
}
