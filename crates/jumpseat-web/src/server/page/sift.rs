//! Which records are shown: those that pass a filter of the agent's language (docs/filter.md) and have a text in them.
//!
//! **Cost:** of a record the fields that the filter names are packed as the agent packs them, into a buffer that is used again.

use std::sync::Arc;

use byteorder::BigEndian;
use pcp_event::filter::{BoundFilter, FieldResolver, Filter};
use pcp_event::pack::{Param, put_param, put_record};
use pcp_event::{ArrayKind, EventFlags};
use pcp_model::{Pmid, Timestamp, Value};

use super::Refused;
use crate::server::records::record::{Record, text};

/// What a record has to have.
#[derive(Debug)]
pub(super) struct Sift {
    filter: Option<BoundFilter>,
    fields: Vec<String>,
    /// In small letters.
    text: String,
    packed: Vec<u8>,
    values: Vec<u8>,
}

/// Fields are numbered by their place in the filter.
struct Places<'a>(&'a [String]);

impl FieldResolver for Places<'_> {
    fn generation(&self) -> u64 {
        0
    }

    fn resolve(&self, name: &str, found: &mut dyn FnMut(Pmid)) {
        for (at, _) in (0..).zip(self.0).filter(|(_, field)| *field == name) {
            found(Pmid(at));
        }
    }
}

impl Sift {
    /// # Errors
    /// Why the filter is none, and where.
    pub(super) fn new(filter: Option<&str>, text: Option<&str>) -> Result<Sift, Refused> {
        let filter = Filter::parse(filter.unwrap_or_default());
        let filter = filter.map_err(|error| Refused::bad(format!("filter: {error}")))?.map(Arc::new);
        let fields = filter.as_ref().map_or_else(Vec::new, |filter| filter.fields().to_vec());
        let filter = filter.map(|filter| filter.bind(&Places(&fields)));
        let text = text.unwrap_or_default().to_lowercase();
        Ok(Sift { filter, fields, text, packed: Vec::new(), values: Vec::new() })
    }

    /// Whether a record is shown. Those that stand for lost ones are not asked.
    pub(super) fn passes(&mut self, record: &Record) -> bool {
        self.has_text(record) && self.matches(record)
    }

    fn has_text(&self, record: &Record) -> bool {
        let found = |text: &str| text.to_lowercase().contains(&self.text);
        self.text.is_empty()
            || found(&record.origin.source)
            || record.fields.iter().any(|field| found(&text(&field.value)) || found(&field.name))
    }

    fn matches(&mut self, record: &Record) -> bool {
        let Some(filter) = &self.filter else { return true };
        self.values.clear();
        let mut count = 0;
        for field in &record.fields {
            for (at, _) in (0..).zip(&self.fields).filter(|(_, name)| **name == *field.name) {
                put_param::<BigEndian>(&mut self.values, Pmid(at), &param(&field.value));
                count += 1;
            }
        }
        self.packed.clear();
        // Identifiers are fields here: the flags that speak of them would be wrong.
        let flags = record.flags & !(EventFlags::ID | EventFlags::PARENT);
        put_record::<BigEndian>(&mut self.packed, ArrayKind::HighRes, Timestamp::default(), flags, count);
        self.packed.extend_from_slice(&self.values);
        filter.matches(&self.packed)
    }
}

fn param(value: &Value) -> Param<'_> {
    match value {
        Value::I32(number) => Param::I32(*number),
        Value::U32(number) => Param::U32(*number),
        Value::I64(number) => Param::I64(*number),
        Value::U64(number) => Param::U64(*number),
        Value::Float(number) => Param::Float(*number),
        Value::Double(number) => Param::Double(*number),
        Value::String(bytes) => Param::String(bytes),
        Value::Aggregate(bytes) | Value::Event(bytes) | Value::HighResEvent(bytes) => Param::Aggregate(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::records::record::Field;
    use crate::server::records::record::tests::{origin, record};

    #[test]
    fn filters_are_those_of_the_agent() {
        let origin = origin("host", "web");
        let mut record = Record::clone(&record(&origin, 1, EventFlags::POINT, &[]));
        let fields = [
            ("type", "request".to_owned().into()),
            ("status", Value::U32(503)),
            ("path", "/cart".to_owned().into()),
        ];
        record.fields = fields.map(|(name, value)| Field { name: name.into(), value }).into();
        let check = |filter: &str, text: &str, expected: bool| {
            let mut sift = Sift::new(Some(filter), Some(text)).expect("a filter");
            assert_eq!(sift.passes(&record), expected, "{filter} {text}");
        };
        check("", "", true);
        check("status >= 500 && type == \"request\"", "", true);
        check("status >= 504", "", false);
        check("point && path =~ 'ca.t'", "", true);
        check("exists(other)", "", false);
        check("", "CART", true);
        check("", "web", true);
        check("", "nothing", false);
        check("status == 503", "nothing", false);
        let error = Sift::new(Some("status = 1"), None).expect_err("none");
        assert!(error.error.contains("column 8"), "{}", error.error);
    }
}
