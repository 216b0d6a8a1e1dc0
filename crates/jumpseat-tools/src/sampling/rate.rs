//! Counters to rates (`docs/pcp/tools.md` 5.4 and 5.6).

use pcp_model::{Timestamp, Units, Value, ValueType};

/// What a metric's counter becomes per second.
pub(super) fn units(units: Units) -> Units {
    // Per second, unless the metric is in a unit of time itself: then it becomes a share of that.
    let scale_time = if units.dim_time == 0 { 3 } else { units.scale_time };
    Units { dim_time: units.dim_time.saturating_sub(1), scale_time, ..units }
}

/// How fast a counter grew between two readings, per unit of the metric's time if it has one, per second else.
pub(super) fn rate(
    old: f64,
    new: f64,
    value_type: ValueType,
    elapsed: f64,
    units: Units,
    wraps: bool,
) -> f64 {
    let mut grown = new - old;
    // PCP takes a counter that went back for one that wrapped only where the user says so.
    if grown < 0.0 && wraps {
        grown += match value_type {
            ValueType::I32 | ValueType::U32 => 4_294_967_296.0,
            ValueType::I64 | ValueType::U64 => 18_446_744_073_709_551_616.0,
            _ => 0.0,
        };
    }
    let elapsed = if units.dim_time == 0 { elapsed } else { elapsed * per_second(units.scale_time) };
    grown / elapsed
}

/// Seconds between two times, as PCP's tool has them: the difference of the times as doubles, which for times of day are
/// a quarter of a microsecond apart. It shows in rates of short intervals with many digits.
pub(super) fn seconds(old: Timestamp, new: Timestamp) -> f64 {
    let real = |time: Timestamp| time.sec as f64 + f64::from(time.nsec) / 1e9;
    real(new) - real(old)
}

/// A number as a double; `None` for what is none.
pub(super) fn number(value: &Value) -> Option<f64> {
    Some(match *value {
        Value::I32(v) => f64::from(v),
        Value::U32(v) => f64::from(v),
        Value::I64(v) => v as f64,
        Value::U64(v) => v as f64,
        Value::Float(v) => f64::from(v),
        Value::Double(v) => v,
        _ => return None,
    })
}

/// How many of a time scale's units a second has.
fn per_second(scale: u8) -> f64 {
    match scale {
        0..=3 => 1_000f64.powi(3 - i32::from(scale)),
        _ => 60f64.powi(3 - i32::from(scale)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_in_the_time_of_the_metric() {
        let rate = |units, old, new| rate(old, new, ValueType::U32, 2.0, units, true);
        assert_eq!(rate(Units::COUNT, 10.0, 30.0), 10.0);
        assert_eq!(rate(Units::MILLISECOND, 0.0, 2_000.0), 1.0);
        assert_eq!(rate(Units::dimension(0, 1, 0, 0, 4, 0), 0.0, 1.0), 30.0);
        assert_eq!(rate(Units::COUNT, 4_294_967_294.0, 0.0), 1.0);
        assert_eq!(units(Units::MILLISECOND).to_string(), "");
        assert_eq!(units(Units::COUNT).to_string(), "count / sec");
        assert_eq!(units(Units::NONE).to_string(), "/ sec");
    }
}
