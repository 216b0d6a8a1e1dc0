//! Metric descriptors (`docs/pcp/units.md` 1 to 3).

use super::{InDom, Pmid, Units};

/// A metric's value type (`pmDesc.type`, and the type of a value block).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum ValueType {
    /// The metric exists but cannot be supported (`PM_TYPE_NOSUPPORT`).
    NoSupport = -1,
    /// 32-bit signed integer.
    I32 = 0,
    /// 32-bit unsigned integer.
    U32 = 1,
    /// 64-bit signed integer.
    I64 = 2,
    /// 64-bit unsigned integer.
    U64 = 3,
    /// 32-bit IEEE floating point.
    Float = 4,
    /// 64-bit IEEE floating point.
    Double = 5,
    /// Text.
    String = 6,
    /// Raw bytes.
    Aggregate = 7,
    /// Raw bytes in memory the sender keeps; on the wire the same as [`ValueType::Aggregate`].
    AggregateStatic = 8,
    /// Packed event records with microsecond timestamps.
    Event = 9,
    /// Packed event records with nanosecond timestamps.
    HighResEvent = 10,
    /// Not a type a descriptor may have.
    Unknown = 255,
}

impl ValueType {
    /// The types of numbers, in the order of their codes; those of [`Number`](super::Number).
    pub const NUMERIC: [ValueType; 6] =
        [ValueType::I32, ValueType::U32, ValueType::I64, ValueType::U64, ValueType::Float, ValueType::Double];

    /// The type of a number from the wire; anything undefined is [`ValueType::Unknown`].
    pub const fn from_code(code: i32) -> ValueType {
        match code {
            -1 => ValueType::NoSupport,
            0 => ValueType::I32,
            1 => ValueType::U32,
            2 => ValueType::I64,
            3 => ValueType::U64,
            4 => ValueType::Float,
            5 => ValueType::Double,
            6 => ValueType::String,
            7 => ValueType::Aggregate,
            8 => ValueType::AggregateStatic,
            9 => ValueType::Event,
            10 => ValueType::HighResEvent,
            _ => ValueType::Unknown,
        }
    }

    /// The number on the wire.
    pub const fn code(self) -> i32 {
        self as i32
    }

    /// The name `pmTypeStr(3)` gives.
    pub const fn name(self) -> &'static str {
        match self {
            ValueType::NoSupport => "NO_SUPPORT",
            ValueType::I32 => "32",
            ValueType::U32 => "U32",
            ValueType::I64 => "64",
            ValueType::U64 => "U64",
            ValueType::Float => "FLOAT",
            ValueType::Double => "DOUBLE",
            ValueType::String => "STRING",
            ValueType::Aggregate => "AGGREGATE",
            ValueType::AggregateStatic => "AGGREGATE_STATIC",
            ValueType::Event => "EVENT",
            ValueType::HighResEvent => "HIGHRES_EVENT",
            ValueType::Unknown => "UNKNOWN",
        }
    }

    /// The text of `pmTypeStr(3)` for any number.
    pub const fn name_of(code: i32) -> &'static str {
        match ValueType::from_code(code) {
            ValueType::Unknown if code != ValueType::Unknown as i32 => "???",
            known => known.name(),
        }
    }

    /// Whether values are numbers that arithmetic applies to.
    pub const fn is_numeric(self) -> bool {
        matches!(
            self,
            ValueType::I32
                | ValueType::U32
                | ValueType::I64
                | ValueType::U64
                | ValueType::Float
                | ValueType::Double
        )
    }
}

/// How values of a metric behave over time (`pmDesc.sem`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Semantics {
    /// Only ever grows (but may wrap or restart).
    Counter,
    /// A reading that may change between any two fetches.
    Instant,
    /// A reading that changes rarely; the last one stays valid.
    Discrete,
    /// A number that stands for none of these, as agents give it for metrics that they do not support. Values are
    /// those of an instant.
    Other(i32),
}

impl Semantics {
    /// The semantics of a number from the wire.
    pub const fn of_code(code: i32) -> Semantics {
        match Semantics::from_code(code) {
            Some(known) => known,
            None => Semantics::Other(code),
        }
    }

    /// The semantics of a number, or `None` for undefined numbers.
    pub const fn from_code(code: i32) -> Option<Semantics> {
        match code {
            1 => Some(Semantics::Counter),
            3 => Some(Semantics::Instant),
            4 => Some(Semantics::Discrete),
            _ => None,
        }
    }

    /// The number on the wire.
    pub const fn code(self) -> i32 {
        match self {
            Semantics::Counter => 1,
            Semantics::Instant => 3,
            Semantics::Discrete => 4,
            Semantics::Other(code) => code,
        }
    }

    /// The name `pmSemStr(3)` gives.
    pub const fn name(self) -> &'static str {
        match self {
            Semantics::Counter => "counter",
            Semantics::Instant => "instant",
            Semantics::Discrete => "discrete",
            Semantics::Other(_) => "???",
        }
    }

    /// The text of `pmSemStr(3)` for any number.
    pub const fn name_of(code: i32) -> &'static str {
        Semantics::of_code(code).name()
    }
}

/// A metric descriptor (`pmDesc`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Desc {
    /// The metric.
    pub pmid: Pmid,
    /// Type of every value.
    pub value_type: ValueType,
    /// The instance domain, or [`InDom::NULL`] for a singular metric.
    pub indom: InDom,
    /// Behaviour over time.
    pub semantics: Semantics,
    /// Dimension and scale.
    pub units: Units,
}
