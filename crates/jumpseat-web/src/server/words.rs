//! Words for descriptors in answers of PCP's protocols (`docs/pcp/webapi.md` 5 and 10).

use pcp_model::{Desc, ValueType};

/// The word for a type.
pub(super) fn type_word(value_type: ValueType) -> &'static str {
    match value_type {
        ValueType::I32 => "32",
        ValueType::U32 => "u32",
        ValueType::I64 => "64",
        ValueType::U64 => "u64",
        ValueType::Float => "float",
        ValueType::Double => "double",
        ValueType::String => "string",
        ValueType::Aggregate => "aggregate",
        ValueType::AggregateStatic => "aggregate_static",
        ValueType::Event => "event",
        ValueType::HighResEvent => "highres_event",
        ValueType::NoSupport => "unsupported",
        _ => "unknown",
    }
}

/// Units; `none` for none.
pub(super) fn units(desc: &Desc) -> String {
    let units = desc.units.to_string();
    if units.is_empty() { "none".to_owned() } else { units }
}
