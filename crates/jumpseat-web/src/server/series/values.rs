//! Values of series, as they are read, selected and computed with.

use std::io::Write as _;
use std::sync::Arc;

use pcp_model::{Desc, Number};

use crate::server::identity::Id;

/// Values of one series, or of what an expression makes of it.
#[derive(Clone, Debug)]
pub(super) struct Values {
    /// The metric's series.
    pub id: Id,
    pub source: Id,
    /// The metric, for messages.
    pub name: String,
    pub desc: Desc,
    /// The instances that points count in.
    pub instances: Arc<[Id]>,
    /// In the order in which they are answered.
    pub samples: Vec<Sample>,
}

/// Values at one time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    /// Microseconds since 1970.
    pub time: i64,
    pub points: Vec<Point>,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    /// That of the sample, but of what a function has picked.
    pub time: i64,
    pub of: Of,
    pub datum: Datum,
}

/// What a value is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Of {
    /// The metric, which has no instances.
    Metric,
    /// An instance, by its place.
    Instance(u32),
    /// Several instances together.
    Together,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Datum {
    Number(Number),
    /// A rate, which is shown with six digits behind the point.
    Rate(f64),
    /// A string, as JSON.
    Text(Box<str>),
}

impl Datum {
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Datum::Number(number) => Some(number.to_f64()),
            Datum::Rate(rate) => Some(*rate),
            Datum::Text(_) => None,
        }
    }

    /// Appends it as it is answered.
    pub(super) fn print(&self, out: &mut Vec<u8>) {
        match self {
            Datum::Number(number) => pcp_model::Value::from(*number).print_short(out),
            // Writing to memory does not fail.
            Datum::Rate(rate) => drop(write!(out, "{rate:.6}")),
            Datum::Text(text) => out.extend_from_slice(text.as_bytes()),
        }
    }
}

impl From<f64> for Datum {
    fn from(number: f64) -> Datum {
        Datum::Number(Number::Double(number))
    }
}

impl Values {
    /// How many values.
    pub(super) fn len(&self) -> usize {
        self.samples.iter().map(|sample| sample.points.len()).sum()
    }
}
