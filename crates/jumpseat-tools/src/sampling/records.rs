//! Event records, and what they need to be understood.

use std::collections::HashMap;

use byteorder::NetworkEndian;
use bytes::Bytes;
use pcp_client::Context;
use pcp_event::reader::Record;
use pcp_event::{ArrayKind, ArrayReader, Param};
use pcp_model::{Desc, InDom, Inst, PmError, Pmid, Value, ValueType};
use pcp_pdu::{ValueRef, ValuesRef};

/// What has been asked about parameters and instances. Each is asked about once, errors included.
#[derive(Default)]
pub(super) struct RecordNames {
    params: HashMap<Pmid, ParamMetric>,
    instances: HashMap<Inst, Option<String>>,
}

/// The metric that describes a parameter.
#[derive(Clone)]
pub(super) struct ParamMetric {
    /// Its first name.
    pub name: Result<String, PmError>,
    /// Its descriptor.
    pub desc: Result<Desc, PmError>,
}

impl RecordNames {
    /// The metric of a parameter.
    pub(super) fn param(&mut self, context: &mut Context, pmid: Pmid) -> &ParamMetric {
        self.params.entry(pmid).or_insert_with(|| ParamMetric {
            name: match context.names_of(pmid) {
                Ok(names) => names.into_iter().next().ok_or(PmError::PMID),
                Err(error) => Err(error.code()),
            },
            desc: context.desc(pmid).map_err(|error| error.code()),
        })
    }

    /// The name of an instance, if it has one.
    pub(super) fn instance(&mut self, context: &mut Context, indom: InDom, inst: Inst) -> Option<&str> {
        if indom == InDom::NULL {
            return None;
        }
        // An instance without a name is asked for once, too: each answer costs a round trip.
        self.instances.entry(inst).or_insert_with(|| context.instance_name(indom, inst).ok()).as_deref()
    }
}

/// The event array that a value is.
///
/// # Errors
/// As `pmUnpackEventRecords(3)` has it.
pub(super) fn array(
    value: ValueRef<'_>,
    value_type: ValueType,
) -> Result<ArrayReader<'_, NetworkEndian>, PmError> {
    let kind = if value_type == ValueType::HighResEvent { ArrayKind::HighRes } else { ArrayKind::Event };
    match value {
        // The agent says "event records" and sends a number.
        ValueRef::InSitu(_) => Err(PmError::CONV),
        ValueRef::Block(bytes) => Ok(ArrayReader::new(kind, bytes)?),
    }
}

/// Calls a function for each record of a set of values, with its instance.
///
/// # Errors
/// The first that the function returns.
pub(super) fn for_each_record<E>(
    values: ValuesRef<'_>,
    value_type: ValueType,
    mut each: impl FnMut(Inst, &Record<'_, NetworkEndian>) -> Result<(), E>,
) -> Result<(), E> {
    for (inst, value) in values.iter() {
        if let Ok(array) = array(value, value_type) {
            for record in array.records() {
                each(inst, &record)?;
            }
        }
    }
    Ok(())
}

/// A parameter's value on its own.
pub(super) fn value(param: Param<'_>) -> Value {
    match param {
        Param::I32(v) => Value::I32(v),
        Param::U32(v) => Value::U32(v),
        Param::I64(v) => Value::I64(v),
        Param::U64(v) => Value::U64(v),
        Param::Float(v) => Value::Float(v),
        Param::Double(v) => Value::Double(v),
        Param::String(bytes) => Value::String(Bytes::copy_from_slice(text(bytes))),
        Param::Aggregate(bytes) => Value::Aggregate(Bytes::copy_from_slice(bytes)),
    }
}

/// A text up to its first NUL.
fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}
