//! Why a registration is refused.

use crate::error::ClientError;
use pcp_model::{PmError, Units, UnitsParseError, ValueType};

/// Why a registration is refused. The group is as before.
#[derive(Debug, thiserror::Error)]
#[error("{metric}: {reason}")]
pub struct RegisterError {
    /// The metric or field at fault.
    pub metric: String,
    /// What is wrong with it.
    #[source]
    pub reason: Reason,
}

/// What is wrong with a registration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The metric cannot be looked up.
    #[error(transparent)]
    Lookup(#[from] ClientError),
    /// The instance cannot be looked up.
    #[error("instance {instance:?}: {error}")]
    Instance {
        /// The name given.
        instance: String,
        /// Why.
        error: ClientError,
    },
    /// The metric has instances, but none was given.
    #[error("the metric has instances: name one, or ask for all")]
    InstanceNeeded,
    /// An instance was given, but the metric has none.
    #[error("the metric has no instances")]
    NoInstances,
    /// Values of this type are neither numbers nor texts.
    #[error("values of type {} are neither numbers nor texts", .0.name())]
    MetricType(ValueType),
    /// Outputs cannot be of this type.
    #[error("an output cannot be of type {}", .0.name())]
    OutputType(ValueType),
    /// The scale cannot be read.
    #[error("bad scale: {0}")]
    Scale(#[from] UnitsParseError),
    /// The scale is of another dimension than the metric and its rate.
    #[error("a value in {} cannot be given in {}", units_name(.metric), units_name(.scale))]
    Dimension {
        /// The metric's units.
        metric: Units,
        /// Those asked for.
        scale: Units,
    },
    /// The metric's values are no event records.
    #[error("values of type {} are no event records", .0.name())]
    NotEvents(ValueType),
    /// Fields of event records cannot have instances.
    #[error("a field of event records cannot have instances")]
    FieldInstances,
    /// Fields of event records have no rates.
    #[error("a field of event records has no rate: ask for it with the scale `instant`")]
    FieldRate,
}

impl RegisterError {
    /// The code that libpcp returns.
    pub fn code(&self) -> PmError {
        self.reason.code()
    }
}

impl Reason {
    /// The code that libpcp returns.
    pub fn code(&self) -> PmError {
        match self {
            Reason::Lookup(error) | Reason::Instance { error, .. } => error.code(),
            Reason::InstanceNeeded | Reason::NoInstances | Reason::FieldInstances => PmError::INDOM,
            Reason::MetricType(_) | Reason::OutputType(_) | Reason::NotEvents(_) => PmError::TYPE,
            Reason::Scale(_) | Reason::Dimension { .. } | Reason::FieldRate => PmError::CONV,
        }
    }
}

fn units_name(units: &Units) -> String {
    match units.to_string() {
        text if text.is_empty() => "no units".to_owned(),
        text => format!("{text:?}"),
    }
}
