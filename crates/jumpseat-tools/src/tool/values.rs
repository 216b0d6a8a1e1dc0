//! Values as the tools print them.

use std::sync::LazyLock;

use pcp_event::print_value;
use pcp_model::{Level, PrintOptions, UntypedValue, ValueType};
use pcp_pdu::ValueRef;

use super::clock::Clock;

/// Appends a value of a metric whose descriptor says `value_type`, as `pmPrintValue(3)` prints it. A value of another
/// type is printed in every reading that makes sense.
pub(crate) fn print(
    value: ValueRef<'_>,
    value_type: ValueType,
    options: PrintOptions,
    clock: &Clock,
    out: &mut Vec<u8>,
) {
    match value.to_value(value_type) {
        Ok(value) => print_value(&value, options, |seconds| clock.utc_offset(seconds), out),
        // The agent sent something else than it said; PCP shows all that it may be.
        Err(_) => raw(value).print(options.width, out),
    }
}

fn raw(value: ValueRef<'_>) -> UntypedValue<'_> {
    match value {
        ValueRef::InSitu(word) => UntypedValue::InSitu(u32::from_be_bytes(word)),
        ValueRef::Block([code, _, _, _, payload @ ..]) => {
            UntypedValue::Block { kind: ValueType::from_code((*code).into()), payload }
        }
        ValueRef::Block(_) => UntypedValue::Block { kind: ValueType::Unknown, payload: &[] },
    }
}

/// How strings are printed: on one line, where `PCP_SQUASH_NEWLINES` is set, which 6.0 does not know.
pub(crate) fn print_options(width: usize, level: Level) -> PrintOptions {
    /// It is asked for with each value.
    static SQUASH: LazyLock<bool> = LazyLock::new(|| std::env::var_os("PCP_SQUASH_NEWLINES").is_some());
    PrintOptions { width, squash_newlines: level >= Level::V638 && *SQUASH }
}
