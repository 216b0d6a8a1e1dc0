//! [`Metric`]: a metric as whoever receives it tells of it, what becomes of that in PCP, and its numbers as bits.

use jumpseat_wire::series::Form as Told;
use pcp_model::{Semantics, Units, ValueType};

use super::batch::Branch;
use super::identity::Form;
use super::{BUCKET_SERIAL, QUANTILE_SERIAL, SET_SERIAL, unit};

/// A metric as whoever receives it sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric<'a> {
    /// Its name, as it comes.
    pub name: &'a str,
    /// What of it.
    pub part: Part,
    /// What it is, in words; may be empty.
    pub help: &'a str,
    /// Its unit, in UCUM; may be empty.
    pub unit: &'a str,
    /// How its values behave.
    pub kind: Kind,
    /// What numbers its values are.
    pub number: Number,
}

/// What of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Its values, under its own name.
    Value,
    /// What has this name below it, such as `sum`, with the metric's unit.
    Below(&'static str),
    /// What has this name below it and counts things, such as `count`, whatever the metric's unit.
    CountBelow(&'static str),
    /// `bucket`: counts by upper bounds, the label `le`.
    Bucket,
    /// The same of an exponential histogram, whose bounds are powers.
    ExponentialBucket,
    /// `scale`: the scale of an exponential histogram.
    Scale,
    /// `quantile`: values by the label `quantile`.
    Quantile,
    /// Exemplars: texts, in a branch of their own.
    Exemplar,
    /// When a sum began, in nanoseconds since the epoch, in a branch of its own.
    Start,
}

/// How values behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// They only grow, but for restarts.
    Counter,
    /// They may be anything.
    Instant,
    /// They may be anything, and of several series there is a sum.
    UpDown,
}

/// What numbers values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Number {
    U64,
    I64,
    Double,
}

impl Metric<'_> {
    /// What its PMID is made of. `unit`: its unit, tidied.
    pub(super) fn form<'u>(&self, unit: &'u str) -> Form<'u> {
        let semantics = match self.kind {
            Kind::Counter => Semantics::Counter,
            Kind::Instant | Kind::UpDown => Semantics::Instant,
        };
        let value_type = match self.number {
            Number::U64 => ValueType::U64,
            Number::I64 => ValueType::I64,
            Number::Double => ValueType::Double,
        };
        let form = Form {
            value_type,
            semantics,
            serial: SET_SERIAL,
            units: unit::units(unit),
            unit,
            branch: Branch::Values,
        };
        match self.part {
            Part::Value | Part::Below(_) => form,
            Part::CountBelow(_) => Form { units: Units::COUNT, ..form },
            Part::Bucket | Part::ExponentialBucket => {
                Form { units: Units::COUNT, serial: BUCKET_SERIAL, ..form }
            }
            Part::Scale => Form { units: Units::NONE, ..form },
            Part::Quantile => Form { serial: QUANTILE_SERIAL, ..form },
            Part::Exemplar => Form {
                value_type: ValueType::String,
                semantics: Semantics::Instant,
                units: Units::NONE,
                branch: Branch::Exemplars,
                ..form
            },
            Part::Start => Form {
                semantics: Semantics::Instant,
                units: Units::NANOSECOND,
                branch: Branch::Starts,
                ..form
            },
        }
    }

    /// What of it the values are, as the label tells.
    pub(super) fn told(&self) -> Option<Told> {
        Some(match (self.part, self.kind) {
            (Part::Value, Kind::Counter) => Told::Counter,
            (Part::Value, Kind::Instant) => Told::Gauge,
            (Part::Value, Kind::UpDown) => Told::UpDownCounter,
            (Part::Bucket, _) => Told::Bucket,
            (Part::ExponentialBucket, _) => Told::ExponentialBucket,
            (Part::Quantile, _) => Told::Quantile,
            (Part::Scale, _) => Told::Scale,
            (Part::Below(word) | Part::CountBelow(word), _) => return Told::from_word(word),
            (Part::Exemplar, _) => Told::Exemplar,
            (Part::Start, _) => Told::Start,
        })
    }
}

impl Part {
    /// The name below the metric's, if it has one.
    pub(super) fn word(self) -> Option<&'static str> {
        match self {
            Part::Value | Part::Exemplar | Part::Start => None,
            Part::Below(word) | Part::CountBelow(word) => Some(word),
            Part::Bucket | Part::ExponentialBucket => Some("bucket"),
            Part::Scale => Some("scale"),
            Part::Quantile => Some("quantile"),
        }
    }
}

/// The bits of a number as one of this type; `None` where it is none: negative, with a fraction, or too large.
#[inline]
pub fn encode(value: f64, number: Number) -> Option<u64> {
    /// 2 to the power of 63 and of 64.
    const TOP: f64 = 9_223_372_036_854_775_808.0;
    match number {
        Number::Double => Some(value.to_bits()),
        Number::U64 if value.fract() == 0.0 && (0.0..2.0 * TOP).contains(&value) => Some(value as u64),
        Number::I64 if value.fract() == 0.0 && (-TOP..TOP).contains(&value) => Some((value as i64) as u64),
        _ => None,
    }
}

/// The number that these bits are.
#[inline]
pub fn decode(bits: u64, number: Number) -> f64 {
    match number {
        Number::Double => f64::from_bits(bits),
        Number::U64 => bits as f64,
        Number::I64 => (bits as i64) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_what_they_were_or_none() {
        for (value, number, fits) in [
            (1.5, Number::Double, true),
            (1.5, Number::I64, false),
            (-1.0, Number::I64, true),
            (-1.0, Number::U64, false),
            (1e30, Number::U64, false),
            (f64::NAN, Number::I64, false),
            (18_446_744_073_709_549_568.0, Number::U64, true),
        ] {
            let bits = encode(value, number);
            assert_eq!(bits.is_some(), fits, "{value} {number:?}");
            if let Some(bits) = bits {
                assert_eq!(decode(bits, number), value);
            }
        }
    }
}
