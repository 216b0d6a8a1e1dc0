//! Event records as JSON, for `events=true`:
//!
//! ```text
//! [{"timestamp":S.NNNNNNNNN,"flags":"start,id","parameters":[{"name":"jumpseat.field.message","value":"..."}]},
//!  {"timestamp":S.NNNNNNNNN,"flags":"missed","missed":7,"parameters":[]}]
//! ```
//!
//! Each context gets each record once: the next fetch goes on behind. Names of parameters are those of the metrics that describe them.

use std::collections::HashMap;
use std::sync::Arc;

use byteorder::BigEndian;
use pcp_client::{Context, Lookup};
use pcp_event::reader::Record;
use pcp_event::{ArrayKind, ArrayReader, Param};
use pcp_model::{PmError, Pmid, ValueType};
use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};

use super::call::refused;
use super::values::{Exact, JsonNumber, JsonText, JsonTime};
use crate::server::answer::Refusal;

/// Names of the parameters of event records.
#[derive(Debug, Default)]
pub(super) struct ParameterNames {
    by_pmid: HashMap<Pmid, Arc<str>>,
}

/// The records of an array.
pub(super) struct JsonRecords<'a> {
    array: ArrayReader<'a, BigEndian>,
    names: &'a ParameterNames,
    exact: Exact,
}

/// The array in a value block.
///
/// # Errors
/// It is none.
pub(super) fn array(value_type: ValueType, block: &[u8]) -> Result<ArrayReader<'_, BigEndian>, PmError> {
    let kind = if value_type == ValueType::Event { ArrayKind::Event } else { ArrayKind::HighRes };
    ArrayReader::new(kind, block).map_err(PmError::from)
}

impl ParameterNames {
    /// Takes note of an array's parameters.
    pub(super) fn note(&mut self, array: &ArrayReader<'_, BigEndian>) {
        for record in array.records() {
            for param in record.params() {
                self.by_pmid.entry(param.pmid).or_insert_with(|| Arc::from(""));
            }
        }
    }

    /// Asks for the names of those that were noted. What has none is its identifier.
    ///
    /// # Errors
    /// Those of the source as a whole.
    pub(super) fn look_up(&mut self, context: &mut Context) -> Result<(), Refusal> {
        let pmids: Vec<Pmid> = self.by_pmid.keys().copied().collect();
        let lookups: Vec<Lookup> = pmids.iter().map(|&pmid| Lookup::NamesOf(pmid)).collect();
        if lookups.is_empty() {
            return Ok(());
        }
        let found = context.look_up_each(&lookups).map_err(|error| refused(&error))?;
        for (pmid, found) in pmids.into_iter().zip(found) {
            let name = match found {
                Ok(pcp_client::Found::Names(names)) => names.into_iter().next(),
                _ => None,
            };
            self.by_pmid.insert(pmid, name.unwrap_or_else(|| pmid.to_string()).into());
        }
        Ok(())
    }
}

impl<'a> JsonRecords<'a> {
    pub(super) fn new(
        array: ArrayReader<'a, BigEndian>,
        names: &'a ParameterNames,
        exact: Exact,
    ) -> JsonRecords<'a> {
        JsonRecords { array, names, exact }
    }
}

impl Serialize for JsonRecords<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        for record in self.array.records() {
            seq.serialize_element(&JsonRecord { record, names: self.names, exact: self.exact })?;
        }
        seq.end()
    }
}

struct JsonRecord<'a> {
    record: Record<'a, BigEndian>,
    names: &'a ParameterNames,
    exact: Exact,
}

struct JsonParams<'a>(&'a JsonRecord<'a>);

struct JsonParam<'a>(Param<'a>, Exact);

impl Serialize for JsonRecord<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("timestamp", &JsonTime(self.record.time))?;
        map.serialize_entry("flags", &self.record.flags.to_string())?;
        if let Some(missed) = self.record.missed() {
            map.serialize_entry("missed", &missed)?;
        }
        map.serialize_entry("parameters", &JsonParams(self))?;
        map.end()
    }
}

impl Serialize for JsonParams<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Parameter<'a> {
            name: &'a str,
            value: JsonParam<'a>,
        }
        let JsonRecord { record, names, exact } = self.0;
        let mut seq = serializer.serialize_seq(None)?;
        for param in record.params() {
            let name = names.by_pmid.get(&param.pmid).map_or("", |name| name);
            seq.serialize_element(&Parameter { name, value: JsonParam(param.value, *exact) })?;
        }
        seq.end()
    }
}

impl Serialize for JsonParam<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.0, self.0.number()) {
            (_, Some(number)) => JsonNumber(number, self.1).serialize(serializer),
            (Param::String(text) | Param::Aggregate(text), None) => JsonText(text).serialize(serializer),
            _ => serializer.serialize_none(),
        }
    }
}
